//! The clock of the actors: wall time that follows tokio's clock, so that tests can pause it. The domain never reads one. A resource
//! manager and its partitions have the same, whatever becomes of the machine's wall time meanwhile.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::domain::types::Nanos;

/// Longer than anybody waits.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// As a time of the domain.
pub fn nanos(time: Duration) -> Nanos {
    Nanos(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

/// Wall time at the moment it was made, carried on by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: i64,
    since: Instant,
    still: bool,
}

impl Default for Clock {
    fn default() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        Clock { wall, since: Instant::now(), still: false }
    }
}

impl Clock {
    /// A clock that stands still.
    pub fn still(at: Nanos) -> Clock {
        Clock { wall: at.0, since: Instant::now(), still: true }
    }

    /// The same clock, set forward to this time where it is behind it.
    pub fn not_before(self, at: Nanos) -> Clock {
        let behind = at.minus(self.now()).0.max(0);
        Clock { wall: self.wall.saturating_add(behind), ..self }
    }

    /// The present time.
    pub fn now(&self) -> Nanos {
        if self.still {
            return Nanos(self.wall);
        }
        Nanos(self.wall.saturating_add(self.since.elapsed().as_nanos() as i64))
    }

    /// How long it is until `at`; zero where it has passed.
    pub fn until(&self, at: Nanos) -> Duration {
        if self.still {
            return NEVER;
        }
        Duration::from_nanos(at.minus(self.now()).0.max(0) as u64)
    }
}
