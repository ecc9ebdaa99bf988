//! Questions that a door holds back until the shim has handled what comes before them. Shared by the stream's task and the
//! session's actor without messages: the actor looks here before it gives a question up.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

/// By line: since when the shim has it; `None` while it is held.
#[derive(Debug, Default)]
pub struct Held(Mutex<BTreeMap<u64, Option<Instant>>>);

impl Held {
    /// The line is held.
    pub fn hold(&self, line: u64) {
        self.lock().insert(line, None);
    }

    /// The line may go now. False: its question is over, and it is not to be sent.
    #[must_use]
    pub fn release(&self, line: u64, now: Instant) -> bool {
        self.lock().get_mut(&line).map(|since| *since = Some(now)).is_some()
    }

    /// Since when the shim has a line that was sent at this time; `None`: it is held.
    pub fn asked(&self, line: u64, sent: Instant) -> Option<Instant> {
        self.lock().get(&line).copied().unwrap_or(Some(sent))
    }

    /// The question of the line is over.
    pub fn over(&self, line: u64) {
        self.lock().remove(&line);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Option<Instant>>> {
        // Whole after a panic elsewhere: no change of it can panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_held_line_counts_from_its_release_and_not_at_all_once_it_is_over() {
        let (held, sent) = (Held::default(), Instant::now());
        let later = sent + Duration::from_secs(8);
        assert_eq!(held.asked(1, sent), Some(sent), "never held");
        held.hold(2);
        held.hold(3);
        assert_eq!(held.asked(2, sent), None);
        assert!(held.release(2, later));
        assert_eq!(held.asked(2, sent), Some(later));
        held.over(3);
        assert!(!held.release(3, later));
    }
}
