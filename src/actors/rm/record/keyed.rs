//! Requests with keys in a log: what was taken under a key is remembered for a while, also by the next process.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};

use super::Requests;
use crate::{
    domain::types::Nanos,
    messages::{
        budget::Permit,
        keys::{Digest, KEPT, Key, Keyed, MOST},
    },
};

/// What of requests is noted with a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Those with numbers.
    pub requests: Requests,
    /// Those with keys.
    pub keyed: Vec<Keyed>,
}

impl Taken {
    /// Of the requests of these permits.
    pub fn of(permits: &[Permit]) -> Taken {
        Taken {
            requests: permits.iter().filter_map(Permit::request).collect(),
            keyed: permits.iter().filter_map(Permit::keyed).collect(),
        }
    }
}

/// The requests with keys of a session that are in its log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysTaken {
    /// Those of which all parts are there, oldest first, with the time of the record in nanoseconds.
    taken: VecDeque<(Key, Digest, i64)>,
    /// Parts that are there of others, and how many there are in all.
    parts: Vec<(Key, u32, u32)>,
}

impl KeysTaken {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.parts.is_empty()
    }

    /// A part of each of these requests is there, in a record of this time.
    pub fn note(&mut self, keyed: &[Keyed], at: Nanos) {
        for (key, digest, of) in keyed {
            if *of > 1 && !self.is_whole(*key, *of) {
                continue;
            }
            self.taken.push_back((*key, *digest, at.0));
        }
        while self.taken.front().is_some_and(|(.., since)| age(at, *since) >= KEPT) || self.taken.len() > MOST {
            self.taken.pop_front();
        }
    }

    /// One more part is there: all of them are.
    fn is_whole(&mut self, key: Key, of: u32) -> bool {
        let Some(at) = self.parts.iter().position(|(known, ..)| *known == key) else {
            self.parts.push((key, 1, of));
            return false;
        };
        self.parts[at].1 += 1;
        let whole = self.parts[at].1 >= of;
        if whole {
            self.parts.swap_remove(at);
        }
        whole
    }

    /// What was taken, and how long ago.
    pub fn at(&self, now: Nanos) -> impl Iterator<Item = (Key, Digest, Duration)> + '_ {
        let aged = self.taken.iter().map(move |(key, digest, since)| (*key, *digest, age(now, *since)));
        aged.filter(|(.., age)| *age < KEPT)
    }
}

fn age(now: Nanos, since: i64) -> Duration {
    Duration::from_nanos(u64::try_from(now.0.saturating_sub(since)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_with_all_of_its_parts_and_for_a_while() {
        let mut keys = KeysTaken::default();
        let keyed = |key: u64, of: u32| ((key, 0), (1, 2), of);
        let at = |seconds: i64| Nanos::from_secs(seconds);
        let known = |keys: &KeysTaken, now| keys.at(now).map(|((key, _), ..)| key).collect::<Vec<_>>();
        keys.note(&[keyed(1, 2), keyed(2, 1)], at(1));
        assert_eq!(known(&keys, at(1)), [2]);
        let mut keys: KeysTaken = serde_json::from_slice(&serde_json::to_vec(&keys).unwrap()).unwrap();
        keys.note(&[keyed(1, 2)], at(2));
        assert_eq!(known(&keys, at(3)), [2, 1]);
        assert_eq!(known(&keys, at(601)), [1]);
        keys.note(&[keyed(3, 1)], at(602));
        assert_eq!(keys.taken.len(), 1);
    }
}
