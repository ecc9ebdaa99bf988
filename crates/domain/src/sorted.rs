//! `Sorted`: a sorted map that takes little room while it has few entries, as most do that each application has, and none while it
//! is empty: a `BTreeMap` takes room for eleven entries with its first one, and keeps it.

use std::{borrow::Borrow, collections::BTreeMap, fmt, mem, ops::Bound};

/// As many stand in a list at most.
const FEW: usize = 32;

/// Tags, attributes: texts by name, as a shim gives them.
pub type Texts = Sorted<String, String>;

/// See the module.
#[derive(Clone)]
pub enum Sorted<K, V> {
    /// In the order of the keys.
    Few(Vec<(K, V)>),
    /// Until none is left.
    Many(Box<BTreeMap<K, V>>),
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Sorted::Few(Vec::new())
    }
}

impl<K: Ord, V> Sorted<K, V> {
    /// An empty one, which takes no memory of its own.
    pub fn new() -> Self {
        Sorted::default()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match self {
            Sorted::Few(list) => list.len(),
            Sorted::Many(map) => map.len(),
        }
    }

    /// No entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry of a key.
    pub fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        match self {
            Sorted::Few(list) => {
                let at = list.binary_search_by(|(known, _)| known.borrow().cmp(key)).ok()?;
                Some((&list[at].0, &list[at].1))
            }
            Sorted::Many(map) => map.get_key_value(key),
        }
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// There is an entry of this key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The value of a key, to change.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Sorted::Few(list) => {
                let at = list.binary_search_by(|(known, _)| known.borrow().cmp(key)).ok()?;
                Some(&mut list[at].1)
            }
            Sorted::Many(map) => map.get_mut(key),
        }
    }

    /// The entry of a key, its value to change.
    pub fn get_entry_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<(&K, &mut V)>
    where
        K: Borrow<Q>,
    {
        match self {
            Sorted::Few(list) => {
                let at = list.binary_search_by(|(known, _)| known.borrow().cmp(key)).ok()?;
                let (key, value) = &mut list[at];
                Some((key, value))
            }
            Sorted::Many(map) => map.range_mut((Bound::Included(key), Bound::Included(key))).next(),
        }
    }

    /// The value of this key is that one from now on.
    pub fn insert(&mut self, key: K, value: V) {
        match self {
            Sorted::Few(list) => match list.binary_search_by(|(known, _)| known.cmp(&key)) {
                Ok(at) => list[at].1 = value,
                Err(at) if list.len() < FEW => {
                    if list.len() == list.capacity() {
                        // One has room for one, which a list that grows by itself has not.
                        list.reserve_exact(list.len().max(1));
                    }
                    list.insert(at, (key, value));
                }
                Err(_) => *self = Sorted::Many(Box::new(mem::take(list).into_iter().chain([(key, value)]).collect())),
            },
            Sorted::Many(map) => {
                map.insert(key, value);
            }
        }
    }

    /// An entry has another key from now on, one that no other has.
    pub fn rekey(&mut self, old: &K, new: K) {
        if let Sorted::Few(list) = self
            && let Ok(at) = list.binary_search_by(|(known, _)| known.cmp(old))
            && (at == 0 || list[at - 1].0 < new)
            && list.get(at + 1).is_none_or(|(next, _)| new < *next)
        {
            list[at].0 = new;
        } else if let Some(value) = self.remove(old) {
            self.insert(new, value);
        }
    }

    /// Takes an entry out and gives its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let value = match self {
            Sorted::Few(list) => {
                let at = list.binary_search_by(|(known, _)| known.borrow().cmp(key)).ok()?;
                Some(list.remove(at).1)
            }
            Sorted::Many(map) => map.remove(key),
        };
        if self.is_empty() {
            *self = Sorted::new();
        }
        value
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (list, map) = match self {
            Sorted::Few(list) => (Some(list), None),
            Sorted::Many(map) => (None, Some(map)),
        };
        let few = list.into_iter().flatten().map(|(key, value)| (key, value));
        few.chain(map.into_iter().flat_map(|map| map.iter()))
    }

    /// All keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// All values to change, in the order of their keys.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        let (list, map) = match self {
            Sorted::Few(list) => (Some(list), None),
            Sorted::Many(map) => (None, Some(map)),
        };
        let few = list.into_iter().flatten().map(|(_, value)| value);
        few.chain(map.into_iter().flat_map(|map| map.values_mut()))
    }

    /// The first entry.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        match self {
            Sorted::Few(list) => list.first().map(|(key, value)| (key, value)),
            Sorted::Many(map) => map.first_key_value(),
        }
    }

    /// The last entry.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        match self {
            Sorted::Few(list) => list.last().map(|(key, value)| (key, value)),
            Sorted::Many(map) => map.last_key_value(),
        }
    }
}

impl<K: Ord + Clone, V: Default> Sorted<K, V> {
    /// The value of a key, which has the default where it was not there.
    pub fn or_default(&mut self, key: &K) -> &mut V {
        if self.get(key).is_none() {
            self.insert(key.clone(), V::default());
        }
        match self.get_mut(key) {
            Some(value) => value,
            None => unreachable!("it was inserted"),
        }
    }
}

impl<K: Ord, V> From<BTreeMap<K, V>> for Sorted<K, V> {
    fn from(map: BTreeMap<K, V>) -> Self {
        // A list of exactly these.
        if map.len() <= FEW { Sorted::Few(map.into_iter().collect()) } else { Sorted::Many(Box::new(map)) }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Sorted<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        BTreeMap::from_iter(entries).into()
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Sorted<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: Ord, V: PartialEq> PartialEq for Sorted<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Ord, V: Eq> Eq for Sorted<K, V> {}

impl<K: Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for Sorted<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u8..6, 0u32..64, any::<u32>()), 0..300)) {
            let (mut sorted, mut model) = (Sorted::new(), BTreeMap::new());
            for (what, key, value) in steps {
                match what {
                    0 | 1 => {
                        sorted.insert(key, value);
                        model.insert(key, value);
                    }
                    2 => {
                        *sorted.or_default(&key) ^= value;
                        *model.entry(key).or_default() ^= value;
                    }
                    3 => prop_assert_eq!(sorted.remove(&key), model.remove(&key)),
                    4 => {
                        let new = value % 64;
                        if key != new && !model.contains_key(&new) {
                            sorted.rekey(&key, new);
                            model.remove(&key).map(|value| model.insert(new, value));
                        }
                    }
                    _ => {
                        sorted.values_mut().for_each(|known| *known ^= value);
                        model.values_mut().for_each(|known| *known ^= value);
                        prop_assert_eq!(sorted.get_mut(&key), model.get_mut(&key));
                    }
                }
                prop_assert!(sorted.iter().eq(&model) && sorted.keys().eq(model.keys()));
                prop_assert!(sorted.values().eq(model.values()));
                prop_assert_eq!(sorted.len(), model.len());
                prop_assert_eq!(sorted.get(&key), model.get(&key));
                let entry = model.get_mut(&key).map(|value| (&key, value));
                prop_assert_eq!(sorted.get_entry_mut(&key), entry);
                prop_assert_eq!(sorted.first_key_value(), model.first_key_value());
                prop_assert_eq!(sorted.last_key_value(), model.last_key_value());
                if model.is_empty() {
                    prop_assert!(matches!(&sorted, Sorted::Few(list) if list.capacity() == 0));
                }
            }
        }
    }

    #[test]
    fn one_takes_the_room_of_one() {
        assert_eq!(size_of::<Sorted<u64, u64>>(), 24);
        let mut sorted = Sorted::new();
        sorted.insert(1, 1);
        assert!(matches!(&sorted, Sorted::Few(list) if list.capacity() == 1));
    }
}
