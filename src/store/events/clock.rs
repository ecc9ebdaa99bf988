//! Up to when the clock is believed, for what is deleted for its age.
//!
//! A clock that is far ahead when a server starts would make everything too old at once. So a time is believed only within
//! the age that events may have of the one that was believed last; beyond it nothing is deleted for its age until the
//! clock comes back, or an operator says that it is right (`--trust-clock`), as after a long time without a server.

use crate::domain::{types::Nanos, words::plural};

/// The clock is read more often than that: so much may pass between two reads without doubt, however short events are kept.
const OFTEN: Nanos = Nanos::from_secs(60);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Believed {
    until: Nanos,
    /// An operator vouches for the clock.
    anything: bool,
    /// What the clock says where it is further ahead than is believed.
    doubted: Option<Nanos>,
}

impl Believed {
    /// Up to the time that was believed last.
    pub fn until(time: Nanos) -> Believed {
        Believed { until: time, anything: false, doubted: None }
    }

    /// Whatever the clock says.
    pub fn anything(now: Nanos) -> Believed {
        Believed { until: now, anything: true, doubted: None }
    }

    /// The clock says `now`, and events may be of this age, 0: of any; where none is `stored`, none can be lost, and the clock is
    /// believed. Gives the time that is believed.
    pub fn look(&mut self, now: Nanos, age: Nanos, stored: bool) -> Nanos {
        let ahead = stored && age > Nanos::ZERO && now.minus(self.until) > age.max(OFTEN) && !self.anything;
        let known = self.doubted.is_some();
        self.doubted = ahead.then_some(now);
        match self.doubt() {
            Some(doubt) if !known => tracing::error!(code = "clock-doubted", "{doubt}"),
            None if known => tracing::info!("the clock is believed again, and events are deleted for their age"),
            _ => {}
        }
        if !ahead {
            self.until = self.until.max(now);
        }
        self.until
    }

    /// The time that is believed.
    pub fn time(&self) -> Nanos {
        self.until
    }

    /// Why nothing is deleted for its age, where that is so.
    pub fn doubt(&self) -> Option<String> {
        let days = self.doubted?.minus(self.until).as_secs() / 86_400;
        Some(format!(
            "the clock is {} ahead of what the event store knows, so no event is deleted for its age: set the clock \
             right, or start the server once with --trust-clock if it is",
            plural(days, "day")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(days: i64) -> Nanos {
        Nanos::from_secs(days * 86_400)
    }

    #[test]
    fn a_clock_is_believed_as_far_as_events_are_kept() {
        let mut believed = Believed::until(day(100));
        assert_eq!(believed.look(day(107), day(7), true), day(107));
        assert_eq!(believed.look(day(90), day(7), true), day(107), "it was set back");
        assert_eq!(believed.look(day(116), day(7), true), day(107), "too far");
        assert!(believed.doubt().unwrap().contains("9 days ahead"));
        assert_eq!(believed.look(day(108), day(7), true), day(108), "it was set right");
        assert!(believed.doubt().is_none());
        // Kept for longer, or for ever.
        assert_eq!(believed.look(day(138), day(30), true), day(138));
        assert_eq!(believed.look(day(1_000), Nanos::ZERO, true), day(1_000));
        assert_eq!(believed.look(day(2_000), day(7), false), day(2_000), "nothing is there that could be lost");
        let later = day(2_000).plus(Nanos::from_secs(10));
        assert_eq!(believed.look(later, Nanos::from_secs(1), true), later, "between two looks");
        assert_eq!(believed.look(day(2_008), day(7), true), later, "something is");
        let mut anything = Believed::anything(day(5));
        assert_eq!(anything.look(day(5_000), day(7), true), day(5_000));
    }
}
