//! Groups of users as a resolver gave them, kept for a while (ACL-042, SEEDS S15).
//!
//! Only answers of a resolver enter it: groups that a shim supplies with an application count for that application alone
//! (ACL-033, mended).

use std::{collections::BTreeMap, sync::Arc};

use super::types::Nanos;

/// How long the groups of a user are served.
pub const POSITIVE: Nanos = Nanos::from_secs(300);

/// How old a failure has to be for the cleaner to drop it.
pub const NEGATIVE: Nanos = Nanos::from_secs(30);

/// How often [`GroupCache::clean`] is to be called; so a failure is served for 30 to 90 seconds.
pub const CLEAN_EVERY: Nanos = Nanos::from_secs(60);

/// Groups in a fixed order, the primary one first (ACL-034).
pub type Groups = Arc<[Arc<str>]>;

/// The cache. One per partition and resolver (section 12 item 14).
#[derive(Clone, Debug, Default)]
pub struct GroupCache {
    entries: BTreeMap<Arc<str>, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// `None`: the resolver failed.
    groups: Option<Groups>,
    resolved: Nanos,
}

/// What is known of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cached {
    /// Its groups.
    Groups(Groups),
    /// The resolver failed at this time, and is not to be asked again yet.
    Failed(Nanos),
    /// The resolver is to be asked.
    Unknown,
}

impl GroupCache {
    /// What is known of a user now. Groups older than [`POSITIVE`] are to be resolved again, a failure counts until
    /// it is cleaned.
    pub fn get(&self, user: &str, now: Nanos) -> Cached {
        match self.entries.get(user) {
            Some(Entry { groups: Some(groups), resolved }) if now.minus(*resolved) <= POSITIVE => {
                Cached::Groups(groups.clone())
            }
            Some(Entry { groups: None, resolved }) => Cached::Failed(*resolved),
            _ => Cached::Unknown,
        }
    }

    /// Keeps the answer of a resolver, `None` for a failure.
    pub fn put(&mut self, user: Arc<str>, groups: Option<Groups>, now: Nanos) {
        self.entries.insert(user, Entry { groups, resolved: now });
    }

    /// Drops what is too old: groups beyond [`POSITIVE`], failures beyond [`NEGATIVE`].
    pub fn clean(&mut self, now: Nanos) {
        self.entries.retain(|_, entry| {
            let life = if entry.groups.is_some() { POSITIVE } else { NEGATIVE };
            now.minus(entry.resolved) <= life
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Nanos {
        Nanos::from_secs(1_000_000 + secs)
    }

    fn groups(names: &[&str]) -> Groups {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    // ACL-042: groups are served for 300 s and asked for again then, cleaned or not.
    #[test]
    fn groups_for_five_minutes() {
        let mut cache = GroupCache::default();
        assert_eq!(cache.get("alice", at(0)), Cached::Unknown);
        cache.put("alice".into(), Some(groups(&["dev", "ops"])), at(0));
        for secs in [0, 299, 300] {
            cache.clean(at(secs));
            assert_eq!(cache.get("alice", at(secs)), Cached::Groups(groups(&["dev", "ops"])), "after {secs} s");
        }
        assert_eq!((cache.get("alice", at(301)), cache.entries.len()), (Cached::Unknown, 1));
        cache.clean(at(301));
        assert!(cache.entries.is_empty());
        // S15: the newest answer counts.
        cache.put("alice".into(), Some(groups(&["ops"])), at(302));
        cache.put("alice".into(), Some(groups(&["qa"])), at(303));
        assert_eq!(cache.get("alice", at(304)), Cached::Groups(groups(&["qa"])));
    }

    // ACL-042 (test idea 114): a failure counts until the cleaner drops it, 30 to 90 s later.
    #[test]
    fn failures_until_cleaned() {
        for (failed, dropped) in [(29, 60), (31, 120), (60, 120)] {
            let mut cache = GroupCache::default();
            cache.put("alice".into(), None, at(failed));
            let gone = [60, 120].into_iter().find(|run| {
                assert_eq!(cache.get("alice", at(*run)), Cached::Failed(at(failed)));
                cache.clean(at(*run));
                cache.get("alice", at(*run)) == Cached::Unknown
            });
            assert_eq!(gone, Some(dropped), "failed at {failed}");
        }
    }

    // A success takes the place of a failure, and the other way round.
    #[test]
    fn the_last_answer_counts() {
        let mut cache = GroupCache::default();
        cache.put("alice".into(), None, at(0));
        cache.put("alice".into(), Some(groups(&["dev"])), at(1));
        cache.put("bob".into(), Some(groups(&["dev"])), at(1));
        cache.put("bob".into(), None, at(2));
        assert_eq!(cache.get("alice", at(2)), Cached::Groups(groups(&["dev"])));
        assert_eq!(cache.get("bob", at(2)), Cached::Failed(at(2)));
    }
}
