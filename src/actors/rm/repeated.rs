//! Registrations and ends that carry a key of their sender: one that was carried out is not once more, in whatever session it comes.

use super::RmActor;
use crate::messages::{
    clock::nanos,
    keys::{Asked, Digest, KEPT, Key},
    rm::{Refusal, RefusalKind},
};

/// What was carried out under a key, and when, in nanoseconds.
pub type Repeatable = (Key, Digest, i64);

/// As many are kept of one resource manager.
const MOST: usize = 1_000;

impl RmActor {
    /// Whether that was carried out before.
    ///
    /// # Errors
    /// Its key was that of another request.
    pub(super) fn was_carried_out(&self, asked: Option<&Asked>) -> Result<bool, Refusal> {
        let (Some(asked), since) = (asked, self.since()) else { return Ok(false) };
        let known = self.repeatable.iter().rev().find(|(key, _, at)| *key == asked.key && *at > since);
        match known {
            Some((_, digest, _)) if *digest != asked.digest => Err(Refusal::new(
                RefusalKind::Key,
                "idempotency-key: another request had this key: a new request takes a new key",
            )),
            known => Ok(known.is_some()),
        }
    }

    /// What came before that is not remembered.
    fn since(&self) -> i64 {
        self.clock.now().minus(nanos(KEPT)).0
    }

    /// It is carried out.
    pub(super) fn carries_out(&mut self, asked: Option<&Asked>) {
        let (now, since) = (self.clock.now().0, self.since());
        let most = self.repeatable.len().saturating_sub(MOST - 1);
        self.repeatable.drain(..most);
        self.repeatable.retain(|(.., at)| *at > since);
        self.repeatable.extend(asked.map(|asked| (asked.key, asked.digest, now)));
    }

    /// That it was is not recorded: it may come again.
    pub(super) fn may_come_again(&mut self, asked: Option<&Asked>) {
        self.repeatable.retain(|(key, ..)| asked.is_none_or(|asked| *key != asked.key));
    }
}
