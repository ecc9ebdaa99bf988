//! Requests that carry an idempotency key: what was taken under a key is not taken again.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use tokio::{sync::watch, time::Instant};

use super::receipts::PartsOf;

/// A key is remembered for so long, and until its request is applied.
pub const KEPT: Duration = Duration::from_secs(600);
/// And as long as it is among so many.
pub const MOST: usize = 100_000;
/// Requests under way that are passed over at a time where keys are forgotten.
const LOOKS: usize = 8;
/// Longest key in bytes.
pub const LONGEST: usize = 255;

/// Length and checksum of a request, to notice that a client uses one key for two requests.
pub type Digest = (u64, u32);

/// A key as it is remembered: a checksum of its text.
pub type Key = (u64, u64);

/// A request with a key, as a log has it, with the parts that it has in all.
pub type Keyed = (Key, Digest, u32);

/// A call with a key that belongs to no session: a registration, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its key.
    pub key: Key,
    /// What it says.
    pub digest: Digest,
}

impl Asked {
    /// `what` names the call, `says` what it says.
    pub fn new(key: &str, what: &str, says: &[&[u8]]) -> Asked {
        Asked { key: key_of(key), digest: digest(what, says) }
    }
}

/// Of a request that is called so and says this.
pub fn digest(what: &str, says: &[&[u8]]) -> Digest {
    let mut sum = crc32fast::Hasher::new();
    sum.update(what.as_bytes());
    says.iter().for_each(|part| sum.update(part));
    (says.iter().map(|part| part.len() as u64).sum(), sum.finalize())
}

/// The keys of a session.
#[derive(Debug, Default)]
pub struct Keys {
    state: Mutex<State>,
    news: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    keys: HashMap<Key, (Digest, Step)>,
    /// Keys of what was taken, the oldest first.
    taken: VecDeque<(Instant, Key)>,
    /// Requests that were recorded in part before the server was started again, with these parts.
    recorded: HashMap<Key, (Digest, PartsOf)>,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Claimed,
    Taken,
    /// And recorded, where that is done.
    Applied,
}

/// What a key says of a request.
#[derive(Debug)]
pub enum Known {
    /// Nothing yet: the request is handed in, or the claim dropped.
    New(Claim),
    /// It was taken, and all that belongs to that is done.
    Taken,
    /// It was taken: [`Keys::applied`] tells when the rest is done.
    Waits(Key),
    /// It is being handed in by another call.
    Busy,
    /// It stands for another request.
    Other,
}

/// A request that is being handed in. Its key is free again where it is dropped before [`Claim::taken`].
#[derive(Debug)]
pub struct Claim {
    keys: Arc<Keys>,
    /// `None` once it was taken.
    key: Option<Key>,
}

/// A request with a key that was taken and is not applied. Dropped with the last part of it.
#[derive(Debug)]
pub struct Taken {
    keys: Arc<Keys>,
    key: Key,
    digest: Digest,
}

/// What is remembered of a text.
fn key_of(text: &str) -> Key {
    let sum = Sha256::digest(text.as_bytes());
    let part = |from: usize| sum[from..from + 8].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    (part(0), part(8))
}

impl Keys {
    /// Those of a session that goes on: what was taken and how long ago, and what is recorded in part.
    pub fn after(
        taken: impl Iterator<Item = (Key, Digest, Duration)>,
        recorded: impl Iterator<Item = (Key, Digest, PartsOf)>,
    ) -> Arc<Keys> {
        let recorded = recorded.map(|(key, digest, by)| (key, (digest, by))).collect();
        let (now, mut state) = (Instant::now(), State { recorded, ..State::default() });
        for (key, digest, age) in taken {
            // A machine that was started just now knows no earlier time.
            state.taken.push_back((now.checked_sub(age).unwrap_or(now), key));
            state.keys.insert(key, (digest, Step::Applied));
        }
        Arc::new(Keys { state: Mutex::new(state), news: watch::Sender::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole after a panic elsewhere: no change of it can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a key.
    pub fn claim(self: &Arc<Keys>, key: &str, digest: Digest) -> Known {
        let (now, key) = (Instant::now(), key_of(key));
        let mut state = self.state();
        let mut under_way = 0;
        while let Some((at, _)) = state.taken.front()
            && (now.duration_since(*at) >= KEPT || state.taken.len() > MOST)
            && under_way < LOOKS
            && let Some((_, old)) = state.taken.pop_front()
        {
            if state.keys.get(&old).is_some_and(|(_, step)| *step == Step::Taken) {
                // Forgotten, it would be carried out once more.
                state.taken.push_back((now, old));
                under_way += 1;
            } else {
                state.keys.remove(&old);
            }
        }
        match state.keys.get(&key) {
            Some((known, _)) if *known != digest => Known::Other,
            Some((_, Step::Applied)) => Known::Taken,
            Some((_, Step::Taken)) => Known::Waits(key),
            Some((_, Step::Claimed)) => Known::Busy,
            None => {
                state.keys.insert(key, (digest, Step::Claimed));
                Known::New(Claim { keys: self.clone(), key: Some(key) })
            }
        }
    }

    /// Waits until a request that was taken is applied or its session is over; false where it was given back.
    pub async fn applied(&self, key: Key) -> bool {
        let mut news = self.news.subscribe();
        loop {
            let step = self.state().keys.get(&key).map(|(_, step)| *step);
            if step != Some(Step::Taken) {
                return step == Some(Step::Applied);
            }
            // The sender is here.
            let _ = news.changed().await;
        }
    }
}

impl Claim {
    /// The request is handed in; `None`: it was before.
    pub fn taken(&mut self) -> Option<Taken> {
        let key = self.key.take()?;
        let mut state = self.keys.state();
        let (digest, step) = state.keys.get_mut(&key)?;
        *step = Step::Taken;
        let digest = *digest;
        state.taken.push_back((Instant::now(), key));
        drop(state);
        Some(Taken { keys: self.keys.clone(), key, digest })
    }
}

impl Taken {
    /// As a log has it.
    pub fn keyed(&self, parts: u32) -> Keyed {
        (self.key, self.digest, parts)
    }

    /// The request was not handed in: its key is free again.
    pub fn give_back(&self) {
        let mut state = self.keys.state();
        state.keys.remove(&self.key);
        // Its place is among the last: it came lately.
        if let Some(place) = state.taken.iter().rposition(|(_, key)| *key == self.key) {
            state.taken.remove(place);
        }
    }

    /// The parts of it that were recorded before the server was started again.
    pub fn recorded(&self) -> PartsOf {
        let state = self.keys.state();
        let known = state.recorded.get(&self.key).filter(|(digest, _)| *digest == self.digest);
        known.map(|(_, by)| by.clone()).unwrap_or_default()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut guard = self.keys.state();
        let state = &mut *guard;
        // It may be that of another request by now.
        let own = |(digest, step): &&mut (Digest, Step)| *digest == self.digest && *step == Step::Taken;
        if let Some((_, step)) = state.keys.get_mut(&self.key).filter(own) {
            state.recorded.remove(&self.key);
            *step = Step::Applied;
        }
        drop(guard);
        self.keys.news.send_replace(());
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.keys.state().keys.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_stands_for_one_request_for_a_while() {
        let keys = Arc::<Keys>::default();
        let Known::New(claim) = keys.claim("k", (1, 1)) else { panic!("new") };
        assert!(matches!(keys.claim("k", (1, 1)), Known::Busy));
        drop(claim);
        let Known::New(mut claim) = keys.claim("k", (2, 2)) else { panic!("free again") };
        let taken = claim.taken().expect("once");
        assert!(claim.taken().is_none());
        drop(claim);
        let Known::Waits(key) = keys.claim("k", (2, 2)) else { panic!("it is not applied") };
        let mut waiting = std::pin::pin!(keys.applied(key));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(taken);
        assert!(waiting.await);
        assert!(matches!(keys.claim("k", (2, 2)), Known::Taken));
        assert!(matches!(keys.claim("k", (1, 1)), Known::Other));
        tokio::time::advance(KEPT).await;
        assert!(matches!(keys.claim("k", (1, 1)), Known::New(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_remembered_until_its_request_is_applied() {
        let keys = Arc::<Keys>::default();
        let Known::New(mut claim) = keys.claim("k", (1, 1)) else { panic!("new") };
        let taken = claim.taken().expect("once");
        tokio::time::advance(KEPT).await;
        assert!(matches!(keys.claim("k", (1, 1)), Known::Waits(_)), "it is not carried out twice");
        for n in 0..=MOST {
            let Known::New(mut claim) = keys.claim(&n.to_string(), (0, 0)) else { panic!("new") };
            claim.taken();
        }
        assert!(matches!(keys.claim("k", (1, 1)), Known::Waits(_)));
        assert_eq!(keys.state().taken.len(), MOST);
        drop(taken);
        assert!(matches!(keys.claim("k", (1, 1)), Known::Taken));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_not_handed_in_after_all_may_come_again() {
        let keys = Arc::<Keys>::default();
        let Known::New(mut claim) = keys.claim("k", (1, 1)) else { panic!("new") };
        let taken = claim.taken().expect("once");
        let Known::Waits(key) = keys.claim("k", (1, 1)) else { panic!("it is not applied") };
        taken.give_back();
        drop(taken);
        assert!(!keys.applied(key).await);
        assert!(matches!(keys.claim("k", (2, 2)), Known::New(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_goes_on_remembers_the_rest_of_the_time() {
        tokio::time::advance(KEPT).await;
        let keys = Keys::after([(key_of("k"), (1, 1), KEPT / 2)].into_iter(), std::iter::empty());
        assert!(matches!(keys.claim("k", (1, 1)), Known::Taken));
        tokio::time::advance(KEPT / 2).await;
        assert!(matches!(keys.claim("k", (1, 1)), Known::New(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_are_remembered() {
        let keys = Arc::<Keys>::default();
        for n in 0..=MOST + 1 {
            let Known::New(mut claim) = keys.claim(&n.to_string(), (0, 0)) else { panic!("new") };
            claim.taken();
        }
        assert!(matches!(keys.claim("0", (0, 0)), Known::New(_)), "the oldest went");
        assert!(matches!(keys.claim(&MOST.to_string(), (0, 0)), Known::Taken));
        assert_eq!(keys.state().taken.len(), MOST);
    }
}
