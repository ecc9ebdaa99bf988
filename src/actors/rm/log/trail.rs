//! How far lines have reached the shim for certain.

use std::collections::VecDeque;

use crate::domain::types::Nanos;

/// What a socket took so long ago has reached the peer, or the connection is broken: doors end one that stays silent for
/// 20 s.
const ARRIVED: Nanos = Nanos::from_secs(30);

/// See the module.
#[derive(Debug, Default)]
pub struct Trail {
    /// How far all lines were handed over, at times past.
    handed: VecDeque<(Nanos, u64)>,
    /// What had arrived before that.
    reached: u64,
    /// No stream is open: what the last one took shortly before its end may not have arrived, and never counts.
    lost: bool,
}

impl Trail {
    /// Of a session that is taken up: what the process before handed over may not have arrived.
    pub fn taken_up() -> Trail {
        Trail { lost: true, ..Trail::default() }
    }

    /// All lines up to this one were handed over. Gives the last that has reached the shim for certain, or never will.
    pub fn note(&mut self, now: Nanos, delivered: u64) -> u64 {
        if !self.lost {
            self.handed.push_back((now, delivered));
            while self.handed.get(1).is_some_and(|(at, _)| now.minus(*at) >= ARRIVED) {
                self.handed.pop_front();
            }
        }
        self.reached(now)
    }

    fn reached(&self, now: Nanos) -> u64 {
        let arrived = self.handed.front().filter(|(at, _)| now.minus(*at) >= ARRIVED);
        arrived.map_or(self.reached, |(_, line)| self.reached.max(*line))
    }

    /// A stream broke.
    pub fn broke(&mut self, now: Nanos) {
        self.reached = self.reached(now);
        self.handed.clear();
        self.lost = true;
    }

    /// One goes on behind this line, which the shim has.
    pub fn goes_on(&mut self, now: Nanos, after: u64) {
        self.broke(now);
        self.reached = self.reached.max(after);
        self.lost = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: i64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn what_a_broken_stream_took_last_has_not_arrived_until_the_shim_says_so() {
        let mut trail = Trail::default();
        assert_eq!(trail.note(at(0), 5), 0);
        assert_eq!(trail.note(at(20), 8), 0);
        assert_eq!(trail.note(at(31), 9), 5);
        trail.broke(at(33));
        assert_eq!((trail.note(at(40), 9), trail.note(at(500), 9)), (5, 5));
        trail.goes_on(at(501), 7);
        assert_eq!((trail.note(at(502), 9), trail.note(at(540), 9)), (7, 9));
        // After a restart nobody knows.
        let mut trail = Trail::taken_up();
        assert_eq!((trail.note(at(0), 9), trail.note(at(100), 9)), (0, 0));
        trail.goes_on(at(101), 3);
        assert_eq!(trail.note(at(102), 9), 3);
    }
}
