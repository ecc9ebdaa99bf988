//! Requests that carry a key of their sender: what was taken under a key is not taken once more.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A key is remembered for so long.
pub const KEPT: Duration = Duration::from_secs(600);
/// And as long as it is among so many.
pub const MOST: usize = 100_000;
/// Longest key in bytes.
pub const LONGEST: usize = 255;

/// What tells two requests apart: length and checksum, against mistakes of a client.
pub type Digest = (u64, u32);

/// The keys of a session.
#[derive(Debug, Default)]
pub struct Keys {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    keys: HashMap<Arc<str>, (Digest, bool)>,
    /// Keys of what was taken, the oldest first.
    taken: VecDeque<(Instant, Arc<str>)>,
}

/// What a key says of a request.
#[derive(Debug)]
pub enum Known {
    /// Nothing yet: the request is handed in, or the claim dropped.
    New(Claim),
    /// It was taken.
    Taken,
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
    key: Option<Arc<str>>,
}

impl Keys {
    fn state(&self) -> MutexGuard<'_, State> {
        // Whole after a panic elsewhere: no change of it can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a key.
    pub fn claim(self: &Arc<Keys>, key: &str, digest: Digest) -> Known {
        let now = Instant::now();
        let mut state = self.state();
        while let Some((at, _)) = state.taken.front()
            && (now.duration_since(*at) >= KEPT || state.taken.len() > MOST)
            && let Some((_, old)) = state.taken.pop_front()
        {
            state.keys.remove(&old);
        }
        match state.keys.get(key) {
            Some((known, _)) if *known != digest => Known::Other,
            Some((_, true)) => Known::Taken,
            Some((_, false)) => Known::Busy,
            None => {
                let key: Arc<str> = key.into();
                state.keys.insert(key.clone(), (digest, false));
                Known::New(Claim { keys: self.clone(), key: Some(key) })
            }
        }
    }
}

impl Claim {
    /// The request was handed in.
    pub fn taken(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut state = self.keys.state();
        if let Some((_, taken)) = state.keys.get_mut(&key) {
            *taken = true;
            state.taken.push_back((Instant::now(), key));
        }
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
        claim.taken();
        drop(claim);
        assert!(matches!(keys.claim("k", (2, 2)), Known::Taken));
        assert!(matches!(keys.claim("k", (1, 1)), Known::Other));
        tokio::time::advance(KEPT).await;
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
