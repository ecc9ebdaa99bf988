//! Log lines about a caller, only so many a minute: the rest is counted.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// The time in which so many are written.
const WINDOW: Duration = Duration::from_secs(60);
/// Callers that are told apart in that time. Nothing is written about more, so that the log stays short however many there are.
const CALLERS: usize = 1_000;

/// See the module.
#[derive(Debug)]
pub struct Sparing {
    most: u32,
    callers: HashMap<String, Window>,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    said: u32,
    kept_back: u64,
}

impl Sparing {
    /// So many a minute of each caller.
    pub fn new(most: u32) -> Sparing {
        Sparing { most, callers: HashMap::new() }
    }

    /// Whether there is room to say one more of this caller, with how many were kept back since the last one was said.
    pub fn say(&mut self, caller: &str, now: Instant) -> Option<u64> {
        let over = |window: &Window| now.duration_since(window.since) >= WINDOW;
        if !self.callers.contains_key(caller) {
            if self.callers.len() >= CALLERS {
                // Nothing came from these for a while: what was kept back is forgotten.
                self.callers.retain(|_, window| !over(window));
            }
            if self.callers.len() >= CALLERS {
                return None;
            }
        }
        let fresh = || Window { since: now, said: 0, kept_back: 0 };
        let window = self.callers.entry(caller.to_owned()).or_insert_with(fresh);
        if over(window) {
            *window = Window { kept_back: window.kept_back, ..fresh() };
        }
        if window.said == self.most {
            window.kept_back += 1;
            return None;
        }
        window.said += 1;
        Some(std::mem::take(&mut window.kept_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_a_minute_and_how_many_were_kept_back() {
        let (mut sparing, begin) = (Sparing::new(2), Instant::now());
        let mut say = |caller: &str, at: u64| sparing.say(caller, begin + Duration::from_secs(at));
        assert_eq!([say("a", 0), say("a", 1), say("a", 2), say("a", 59)], [Some(0), Some(0), None, None]);
        assert_eq!(say("b", 59), Some(0), "nothing is taken from others");
        assert_eq!([say("a", 60), say("a", 61)], [Some(2), Some(0)]);
        assert_eq!(say("a", 62), None);
        for n in 0..2 * CALLERS {
            say(&n.to_string(), 63);
        }
        assert_eq!(say("another", 64), None);
        assert_eq!(say("another", 130), Some(0), "those that are not heard of any more are forgotten");
        assert!(sparing.callers.len() <= CALLERS);
    }
}
