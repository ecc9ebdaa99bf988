//! Requests with keys in a log: what was taken under a key is remembered for a while, also by the next process.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::Requests;
use crate::{
    domain::types::Nanos,
    messages::{
        budget::Permit,
        keys::{Digest, KEPT, Key, Keyed, MOST},
        receipts::{PartOf, PartsOf},
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
    /// Others: how many parts were recorded by releases that did not say which, and how many parts there are.
    parts: Vec<(Key, u32, u32)>,
    /// The parts of these that are recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "rows")]
    recorded: BTreeMap<Key, (Digest, PartsOf)>,
}

/// As a list: the keys are no texts.
mod rows {
    use serde::{Deserializer, Serializer};

    use super::{BTreeMap, Deserialize, Digest, Key, PartsOf};

    type Rows = BTreeMap<Key, (Digest, PartsOf)>;

    pub fn serialize<S: Serializer>(rows: &Rows, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(rows)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Rows, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

impl KeysTaken {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.parts.is_empty() && self.recorded.is_empty()
    }

    /// `by` has recorded its part of each of these requests, in a record of this time.
    pub fn note(&mut self, keyed: &[Keyed], by: PartOf, at: Nanos) {
        for (key, digest, of) in keyed {
            if *of > 1 && !self.is_whole((*key, *digest), *of, by) {
                continue;
            }
            self.taken.push_back((*key, *digest, at.0));
        }
        while self.taken.front().is_some_and(|(.., since)| age(at, *since) >= KEPT) || self.taken.len() > MOST {
            self.taken.pop_front();
        }
    }

    /// One more part is there: all of them are.
    fn is_whole(&mut self, (key, digest): (Key, Digest), of: u32, by: PartOf) -> bool {
        let (of_which, recorded) = self.recorded.entry(key).or_default();
        if *of_which != digest {
            // The key stands for another request now: nobody will send the rest of the one before.
            (*of_which, *recorded) = (digest, PartsOf::new());
        }
        recorded.insert(by);
        let counted = self.parts.iter().find(|(known, ..)| *known == key).map_or(0, |(_, counted, _)| *counted);
        let whole = recorded.len() + counted as usize >= of as usize;
        if whole {
            self.recorded.remove(&key);
            self.parts.retain(|(known, ..)| *known != key);
        } else if self.recorded.len() > MOST {
            // Left by servers that ended, and never sent again.
            self.recorded.pop_first();
        }
        whole
    }

    /// Requests that are recorded in part, with these parts.
    pub fn recorded(&self) -> impl Iterator<Item = (Key, Digest, PartsOf)> + '_ {
        self.recorded.iter().map(|(key, (digest, parts))| (*key, *digest, parts.clone()))
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
        let (one, other) = (PartOf::Partition(0), PartOf::Partition(1));
        keys.note(&[keyed(1, 2), keyed(2, 1)], one, at(1));
        assert_eq!(known(&keys, at(1)), [2]);
        let mut keys: KeysTaken = serde_json::from_slice(&serde_json::to_vec(&keys).unwrap()).unwrap();
        // The same part once more, as after a kill, is no other part.
        keys.note(&[keyed(1, 2)], one, at(1));
        assert_eq!(known(&keys, at(1)), [2]);
        assert_eq!(keys.recorded().collect::<Vec<_>>(), [((1, 0), (1, 2), PartsOf::from([one]))]);
        keys.note(&[keyed(1, 2)], other, at(2));
        assert_eq!((known(&keys, at(3)), keys.recorded().count()), (vec![2, 1], 0));
        assert_eq!(known(&keys, at(601)), [1]);
        keys.note(&[keyed(3, 1)], one, at(602));
        assert_eq!(keys.taken.len(), 1);
        // However many are recorded by one partition before another has come to the first of them.
        let many: Vec<Keyed> = (10..5_010).map(|key| keyed(key, 2)).collect();
        keys.note(&many, one, at(603));
        keys.note(&many, other, at(603));
        assert_eq!((known(&keys, at(603)).len(), keys.recorded().count()), (5_001, 0));
        // An earlier release counted one of two.
        let old = r#"{"taken":[],"parts":[[[4,0],1,2]]}"#;
        let mut keys: KeysTaken = serde_json::from_str(old).unwrap();
        keys.note(&[keyed(4, 2)], one, at(603));
        assert_eq!(known(&keys, at(603)), [4]);
    }
}
