//! How many requests a caller may send: so many a second, and two seconds' worth at once. Each caller ([`Caller::key`]) has its
//! own, so that one who sends too many takes nothing from the others.
//!
//! [`Caller::key`]: super::Caller::key

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// What may come at once, in time.
const BURST: Duration = Duration::from_secs(2);
/// How often those that are not heard of any more are forgotten.
const FORGET: Duration = Duration::from_secs(2);

/// See the module. Nothing is remembered, and nothing is locked, where there is no limit.
#[derive(Debug, Default)]
pub struct Rates {
    /// 0: no limit.
    per_second: AtomicU64,
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct Callers {
    /// Up to when each has used up what it may send.
    spent: HashMap<String, Instant>,
    forgotten: Option<Instant>,
}

impl Rates {
    /// So many requests a second of each caller from now on; 0: as many as they like.
    pub fn limit(&self, per_second: u64) {
        self.per_second.store(per_second, Relaxed);
    }

    /// Whether a request of this caller may come now.
    ///
    /// # Errors
    /// When it may.
    pub fn admit(&self, caller: impl FnOnce() -> String) -> Result<(), Duration> {
        match self.per_second.load(Relaxed) {
            0 => Ok(()),
            per_second => self.admit_at(caller(), per_second, Instant::now()),
        }
    }

    fn admit_at(&self, caller: String, per_second: u64, now: Instant) -> Result<(), Duration> {
        let each = Duration::from_nanos((1_000_000_000 / per_second).max(1));
        let burst = BURST.max(each);
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.forgotten.is_none_or(|at| now.duration_since(at) >= FORGET) {
            callers.forgotten = Some(now);
            callers.spent.retain(|_, spent| *spent > now);
        }
        let spent = callers.spent.entry(caller).or_insert(now);
        let after = (*spent).max(now) + each;
        match after.duration_since(now).checked_sub(burst) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *spent = after;
                Ok(())
            }
        }
    }
}

/// Whole seconds for `Retry-After`, at least one.
pub fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0).max(u64::from(wait.is_zero()))
}

/// What a caller is told.
pub fn told(caller: &str, wait: Duration) -> String {
    format!(
        "too many requests of {caller}: more than http.requestsPerSecond allows; the next may come in {} s",
        seconds(wait)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_its_own() {
        let rates = Rates::default();
        assert!((0..1_000).all(|_| rates.admit(|| unreachable!("nobody is asked who it is")).is_ok()));
        let begin = Instant::now();
        let admitted = |caller: &str, millis: u64, tries: usize| {
            let at = begin + Duration::from_millis(millis);
            (0..tries).filter(|_| rates.admit_at(caller.to_owned(), 10, at).is_ok()).count()
        };
        assert_eq!(admitted("a", 0, 1_000), 20, "two seconds' worth at once");
        assert_eq!(admitted("b", 0, 5), 5, "nothing is taken from others");
        assert_eq!(admitted("a", 99, 10), 0);
        assert_eq!(rates.admit_at("a".to_owned(), 10, begin), Err(Duration::from_millis(100)));
        assert_eq!(admitted("a", 1_000, 100), 10);
        assert_eq!(admitted("a", 60_000, 100), 20);
        assert_eq!(rates.callers.lock().unwrap().spent.len(), 1, "b is forgotten");
        // Less than one in two seconds cannot be asked for; one a second is.
        let slow = |at| rates.admit_at("c".to_owned(), 1, begin + Duration::from_secs(at)).is_ok();
        assert_eq!([slow(100), slow(100), slow(100), slow(101)], [true, true, false, true]);
    }

    #[test]
    fn a_wait_is_told_in_whole_seconds() {
        assert_eq!([0, 1, 1_000, 1_001].map(|millis| seconds(Duration::from_millis(millis))), [1, 1, 1, 2]);
    }
}
