//! `Keys`: the asks and allocations of an application by key. Most applications have a few, which stand in a list: a map that is
//! made for many takes 640 bytes for one.

use std::sync::Arc;

use super::types::AllocIx;

/// As many stand in a list at most.
const FEW: usize = 8;

/// See the module.
#[derive(Clone, Debug)]
pub enum Keys {
    /// In the order in which they came.
    Few(Vec<(Arc<str>, AllocIx)>),
    /// Until none is left.
    Many(Box<imbl::HashMap<Arc<str>, AllocIx>>),
}

impl Default for Keys {
    fn default() -> Self {
        Keys::Few(Vec::new())
    }
}

impl Keys {
    /// The row of a key.
    pub fn get(&self, key: &str) -> Option<AllocIx> {
        match self {
            Keys::Few(list) => list.iter().find(|(known, _)| **known == *key).map(|(_, at)| *at),
            Keys::Many(map) => map.get(key).copied(),
        }
    }

    /// Keys and their rows, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, AllocIx)> {
        let (list, map) = match self {
            Keys::Few(list) => (Some(list), None),
            Keys::Many(map) => (None, Some(map)),
        };
        let few = list.into_iter().flatten().map(|(key, at)| (key, *at));
        few.chain(map.into_iter().flat_map(|map| map.iter()).map(|(key, at)| (key, *at)))
    }

    /// The row of this key is that one from now on.
    pub fn insert(&mut self, key: Arc<str>, at: AllocIx) {
        match self {
            Keys::Few(list) => {
                if let Some((_, known)) = list.iter_mut().find(|(known, _)| *known == key) {
                    *known = at;
                } else if list.len() < FEW {
                    list.push((key, at));
                } else {
                    let all = std::mem::take(list).into_iter().chain([(key, at)]);
                    *self = Keys::Many(Box::new(all.collect()));
                }
            }
            Keys::Many(map) => {
                map.insert(key, at);
            }
        }
    }

    /// The key is gone.
    pub fn remove(&mut self, key: &str) {
        match self {
            Keys::Few(list) => list.retain(|(known, _)| **known != *key),
            Keys::Many(map) => {
                map.remove(key);
                if map.is_empty() {
                    *self = Keys::default();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few or many, it is a map.
        #[test]
        fn as_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..20, 0u32..100), 0..200)) {
            let (mut keys, mut map) = (Keys::default(), BTreeMap::new());
            for (comes, key, at) in steps {
                let key: Arc<str> = key.to_string().into();
                if comes {
                    keys.insert(key.clone(), AllocIx(at));
                    map.insert(key, AllocIx(at));
                } else {
                    keys.remove(&key);
                    map.remove(&key);
                }
                let all: BTreeMap<_, _> = keys.iter().map(|(key, at)| (key.clone(), at)).collect();
                prop_assert_eq!(&all, &map);
                for key in (0..20).map(|key: u32| key.to_string()) {
                    prop_assert_eq!(keys.get(&key), map.get(&*key).copied());
                }
            }
        }
    }

    #[test]
    fn one_takes_little_room() {
        assert!(size_of::<Keys>() <= 24);
        let mut keys = Keys::default();
        keys.insert("a".into(), AllocIx(1));
        assert!(matches!(&keys, Keys::Few(list) if list.capacity() <= 4));
    }
}
