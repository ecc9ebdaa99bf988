//! `Keys`: where the asks and allocations of a partition are, by application and key.
//!
//! It keeps hashes, and the rows tell whether a key is meant, so that an entry takes about a dozen bytes however long the keys are,
//! and an application nothing of its own. The hash has a secret of the process: nobody can choose keys that share one.

use std::hash::{BuildHasher, RandomState};

use super::{
    alloc::Alloc,
    pages::Pages,
    table::Table,
    types::{AllocIx, AppIx},
};

/// The asks and allocations of a partition.
pub type Allocs = Table<AllocIx, Alloc, 64>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    by_hash: Pages,
    /// Rows with the hash of one in `by_hash`.
    others: imbl::OrdSet<(u32, AllocIx)>,
    secret: RandomState,
    /// Many keys have the same hash, as a test wants it.
    #[cfg(test)]
    few: bool,
}

impl Keys {
    /// What a key is found by: for who looks for it first, and then enters it. One in some thousand keys shares it with another where
    /// there are a million.
    pub fn hash(&self, app: AppIx, key: &str) -> u32 {
        let hash = self.secret.hash_one((app, key)) as u32;
        #[cfg(test)]
        let hash = if self.few { hash % 3 } else { hash };
        hash
    }

    /// The rows with this hash beside the first: nearly always none.
    fn others_of(&self, hash: u32) -> impl Iterator<Item = AllocIx> {
        let others =
            (!self.others.is_empty()).then(|| self.others.range((hash, AllocIx(0))..=(hash, AllocIx(u32::MAX))));
        others.into_iter().flatten().map(|(_, at)| *at)
    }

    /// The row of this key of an application.
    pub fn get(&self, rows: &Allocs, app: AppIx, key: &str) -> Option<AllocIx> {
        self.find(self.hash(app, key), rows, app, key)
    }

    /// The same by its hash.
    pub fn find(&self, hash: u32, rows: &Allocs, app: AppIx, key: &str) -> Option<AllocIx> {
        let first = self.by_hash.get(hash)?;
        let meant = |at: &AllocIx| rows[*at].app == app && *rows[*at].spec.key == *key;
        if meant(&first) {
            return Some(first);
        }
        self.others_of(hash).find(meant)
    }

    /// A row came whose key, with this hash, [`Keys::get`] does not know.
    pub fn insert(&mut self, hash: u32, at: AllocIx) {
        if let Some(first) = self.by_hash.insert(hash, at) {
            self.others.insert((hash, first));
        }
    }

    /// A row goes, if it is here.
    pub fn remove(&mut self, app: AppIx, key: &str, at: AllocIx) {
        let hash = self.hash(app, key);
        let first = self.by_hash.remove(hash);
        if first == Some(at) {
            let next = self.others_of(hash).next();
            if let Some(next) = next {
                self.others.remove(&(hash, next));
                self.by_hash.insert(hash, next);
            }
        } else {
            self.others.remove(&(hash, at));
            if let Some(first) = first {
                self.by_hash.insert(hash, first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::Arc,
    };

    use proptest::prelude::*;

    use super::*;
    use crate::alloc::AskSpec;

    fn row(app: AppIx, key: &str) -> Alloc {
        Alloc::new(app, Arc::new(AskSpec { key: key.into(), ..AskSpec::default() }), Arc::default())
    }

    proptest! {
        /// Whatever comes and goes, and also where many keys have the same hash, it is a map.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..3, 0u32..12), 0..200), few in any::<bool>()) {
            let (mut rows, mut keys, mut model) = (Allocs::default(), Keys { few, ..Keys::default() }, BTreeMap::new());
            for (comes, app, key) in steps {
                let (app, key) = (AppIx(app), key.to_string());
                match model.get(&(app, key.clone())) {
                    None if comes => {
                        let at = rows.add(row(app, &key));
                        keys.insert(keys.hash(app, &key), at);
                        model.insert((app, key), at);
                    }
                    Some(at) if !comes => {
                        keys.remove(app, &key, *at);
                        rows.free(*at);
                        model.remove(&(app, key));
                    }
                    _ => {}
                }
                for app in (0..3).map(AppIx) {
                    for key in (0..12).map(|key: u32| key.to_string()) {
                        prop_assert_eq!(keys.get(&rows, app, &key), model.get(&(app, key)).copied());
                    }
                }
                let all: BTreeSet<_> = keys.by_hash.rows().chain(keys.others.iter().map(|(_, at)| at)).collect();
                prop_assert_eq!(all, model.values().collect());
                prop_assert_eq!(keys.by_hash.rows().count() + keys.others.len(), model.len());
            }
        }
    }
}
