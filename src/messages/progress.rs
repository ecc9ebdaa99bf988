//! How far the reader of a stream has come. Shared by the stream's task and the session's actor: a message is sent only where
//! the actor waits for one.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::held::Held;

/// The actor does not wait.
const NEVER: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub struct Progress {
    handed: AtomicU64,
    /// From which line on the actor wants to be told.
    awaited: AtomicU64,
    /// Questions that the door holds back.
    pub held: Held,
}

impl Default for Progress {
    fn default() -> Self {
        Progress { handed: 0.into(), awaited: NEVER.into(), held: Held::default() }
    }
}

impl Progress {
    /// Everything up to this line was handed to the socket. True: the actor is to be told, once.
    #[must_use]
    pub fn hand(&self, seq: u64) -> bool {
        let handed = self.handed.fetch_max(seq, SeqCst).max(seq);
        handed >= self.awaited.load(SeqCst) && self.awaited.swap(NEVER, SeqCst) != NEVER
    }

    /// The last line that was handed to the socket.
    pub fn handed(&self) -> u64 {
        self.handed.load(SeqCst)
    }

    /// The actor waits until this line was handed to the socket. True: it was already.
    #[must_use]
    pub fn wait_for(&self, seq: u64) -> bool {
        self.awaited.store(seq, SeqCst);
        // After the store: whoever hands it over from now on sees that it is awaited.
        let reached = self.handed() >= seq;
        if reached {
            self.awaited.store(NEVER, SeqCst);
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_actor_is_told_once_and_only_if_it_waits() {
        let progress = Progress::default();
        assert!(!progress.hand(3));
        assert_eq!(progress.handed(), 3);
        assert!(!progress.wait_for(5));
        assert!(!progress.hand(4));
        assert!(progress.hand(6) && !progress.hand(7));
        assert!(progress.wait_for(7), "it was handed over before it was waited for");
        assert!(!progress.hand(2), "lines are never taken back");
        assert_eq!(progress.handed(), 7);
    }
}
