//! `Run`: a sorted map for keys that mostly come in order and leave from the front, such as the asks of an application.
//!
//! A single entry stands in the run itself, and takes no other room. More of them stand in chunks of up to 256, so that each takes
//! little room, one more at the end and one less at the front cost the same however many there are, and a clone copies a reference
//! per chunk (60 µs for 1,000,000 entries).

use std::{
    collections::VecDeque,
    ops::{Bound, RangeBounds},
};

use triomphe::Arc;

/// Most entries of a chunk.
const CHUNK: usize = 256;

/// See the module.
#[derive(Clone, Debug)]
pub struct Run<K, V>(Kept<K, V>);

#[derive(Clone, Debug)]
enum Kept<K, V> {
    None,
    /// Most applications have one ask, or one of each kind.
    One((K, V)),
    /// Two at least.
    Many(Box<Chunks<K, V>>),
}

impl<K, V> Default for Run<K, V> {
    fn default() -> Self {
        Run(Kept::None)
    }
}

impl<K: Ord + Clone, V: Copy> Run<K, V> {
    /// An empty one, which takes no memory of its own.
    pub fn new() -> Self {
        Run::default()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::None => 0,
            Kept::One(_) => 1,
            Kept::Many(chunks) => chunks.len,
        }
    }

    /// No entries.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Kept::None)
    }

    /// The first entry.
    pub fn get_min(&self) -> Option<&(K, V)> {
        match &self.0 {
            Kept::None => None,
            Kept::One(entry) => Some(entry),
            Kept::Many(chunks) => chunks.chunks.front()?.front(),
        }
    }

    /// Adds an entry, or replaces the value of one with this key.
    pub fn insert(&mut self, key: K, value: V) {
        match &mut self.0 {
            Kept::None => self.0 = Kept::One((key, value)),
            Kept::One(entry) if entry.0 == key => entry.1 = value,
            Kept::One(entry) => {
                let after = entry.0 < key;
                let mut chunk = VecDeque::from([entry.clone()]);
                if after {
                    chunk.push_back((key, value))
                } else {
                    chunk.push_front((key, value))
                }
                self.0 = Kept::Many(Box::new(Chunks { chunks: VecDeque::from([Arc::new(chunk)]), len: 2 }));
            }
            Kept::Many(chunks) => chunks.insert(key, value),
        }
    }

    /// Takes an entry out and gives its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        match &mut self.0 {
            Kept::One((known, value)) if known == key => {
                let value = *value;
                self.0 = Kept::None;
                Some(value)
            }
            Kept::Many(chunks) => {
                let value = chunks.remove(key)?;
                if chunks.len == 1 {
                    self.0 = self.get_min().map_or(Kept::None, |entry| Kept::One(entry.clone()));
                }
                Some(value)
            }
            _ => None,
        }
    }

    /// An entry has another key from now on, one that no other has.
    pub fn rekey(&mut self, old: &K, new: K) {
        match &mut self.0 {
            Kept::One(entry) if entry.0 == *old => entry.0 = new,
            Kept::Many(chunks) => chunks.rekey(old, new),
            _ => {}
        }
    }

    /// There is an entry with this key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.range(key.clone()..=key.clone()).next().is_some()
    }

    fn one(&self) -> Option<&(K, V)> {
        if let Kept::One(entry) = &self.0 { Some(entry) } else { None }
    }

    fn many(&self) -> Option<&Chunks<K, V>> {
        if let Kept::Many(chunks) = &self.0 { Some(chunks) } else { None }
    }

    /// All entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let many = self.many().into_iter().flat_map(|many| many.chunks.iter().flat_map(|chunk| chunk.iter()));
        self.one().into_iter().chain(many).map(|(key, value)| (key, value))
    }

    /// All keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The entries whose keys are in a range, in order.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, &V)> {
        let many = self.many();
        let one = self.one().filter(|(key, _)| range.contains(key)).map(|(key, value)| (key, value));
        one.into_iter().chain(
            many.into_iter()
                .flat_map(move |many| many.range((range.start_bound().cloned(), range.end_bound().cloned()))),
        )
    }
}

/// Entries in chunks.
#[derive(Clone, Debug)]
struct Chunks<K, V> {
    /// None is empty, and the keys of each come before those of the next.
    chunks: VecDeque<Arc<VecDeque<(K, V)>>>,
    len: usize,
}

impl<K: Ord + Clone, V: Copy> Chunks<K, V> {
    /// The chunk in which a key is, or would be; there is at least one.
    fn chunk_of(&self, key: &K) -> usize {
        let begins = |chunk: &Arc<VecDeque<(K, V)>>| chunk.front().is_some_and(|(first, _)| first <= key);
        // Nearly always it is the first or the last.
        match self.chunks.back() {
            Some(last) if begins(last) => self.chunks.len() - 1,
            _ if !self.chunks.get(1).is_some_and(begins) => 0,
            _ => self.chunks.partition_point(begins) - 1,
        }
    }

    fn insert(&mut self, key: K, value: V) {
        if let Some(last) = self.chunks.back_mut()
            && last.back().is_some_and(|(last, _)| *last < key)
        {
            self.len += 1;
            if last.len() < CHUNK {
                Arc::make_mut(last).push_back((key, value));
            } else {
                self.chunks.push_back(Arc::new(VecDeque::from([(key, value)])));
            }
            return;
        }
        let at = self.chunk_of(&key);
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        match chunk.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(place) => chunk[place].1 = value,
            Err(place) => {
                chunk.insert(place, (key, value));
                self.len += 1;
                if chunk.len() > CHUNK {
                    let tail = chunk.split_off(CHUNK / 2);
                    self.chunks.insert(at + 1, Arc::new(tail));
                }
            }
        }
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.chunk_of(key);
        let place = self.chunks[at].binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        let (_, value) = chunk.remove(place)?;
        self.len -= 1;
        match chunk.len() {
            0 => {
                self.chunks.remove(at);
            }
            // What stays for long does not keep the room of those that went.
            left if left == CHUNK / 4 => {
                chunk.shrink_to_fit();
                self.join(at);
            }
            left if left < CHUNK / 4 => self.join(at),
            _ => {}
        }
        Some(value)
    }

    fn rekey(&mut self, old: &K, new: K) {
        let at = self.chunk_of(old);
        if self.chunk_of(&new) != at {
            if let Some(value) = self.remove(old) {
                self.insert(new, value);
            }
            return;
        }
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        if let Ok(place) = chunk.binary_search_by(|(known, _)| known.cmp(old))
            && let Some((_, value)) = chunk.remove(place)
        {
            let place = chunk.partition_point(|(known, _)| *known < new);
            chunk.insert(place, (new, value));
        }
    }

    /// A chunk with few entries and one beside it become one, where that has room for more.
    fn join(&mut self, at: usize) {
        let small = |a: usize, b: usize| match (self.chunks.get(a), self.chunks.get(b)) {
            (Some(a), Some(b)) => a.len() + b.len() <= CHUNK / 2,
            _ => false,
        };
        let first = if small(at, at + 1) {
            at
        } else if at > 0 && small(at - 1, at) {
            at - 1
        } else {
            return;
        };
        if let Some(next) = self.chunks.remove(first + 1) {
            Arc::make_mut(&mut self.chunks[first]).extend(next.iter().cloned());
        }
    }

    fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, &V)> {
        let before = |key: &K| match range.start_bound() {
            Bound::Unbounded => false,
            Bound::Included(start) => key < start,
            Bound::Excluded(start) => key <= start,
        };
        let chunk = self.chunks.partition_point(|chunk| chunk.back().is_some_and(|(last, _)| before(last)));
        let place = self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(|(key, _)| before(key)));
        let chunks = self.chunks.range(chunk..);
        let entries = chunks.flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value))).skip(place);
        entries.take_while(move |(key, _)| match range.end_bound() {
            Bound::Unbounded => true,
            Bound::Included(end) => *key <= end,
            Bound::Excluded(end) => *key < end,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn sound(run: &Run<u32, u32>) {
        let Kept::Many(run) = &run.0 else { return };
        assert!(run.len >= 2 && run.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
        assert_eq!(run.chunks.iter().map(|chunk| chunk.len()).sum::<usize>(), run.len);
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u32..900, 0u8..9), 1..1_500), from in 0u32..900, to in 0u32..900) {
            let (mut run, mut model, mut next) = (Run::new(), BTreeMap::new(), 1_000);
            let mut clones = Vec::new();
            for (number, (key, what)) in steps.into_iter().enumerate() {
                match what {
                    0..=2 => {
                        run.insert(next, key);
                        model.insert(next, key);
                        next += 1;
                    }
                    3 => {
                        run.insert(key, next);
                        model.insert(key, next);
                    }
                    4 | 5 => {
                        let first = model.pop_first();
                        prop_assert_eq!(run.get_min().copied(), first);
                        if let Some((key, value)) = first {
                            prop_assert_eq!(run.remove(&key), Some(value));
                        }
                    }
                    6 => prop_assert_eq!(run.remove(&key), model.remove(&key)),
                    7 => {
                        let new = (key * 7919) % 1_100;
                        if key != new && !model.contains_key(&new) {
                            run.rekey(&key, new);
                            model.remove(&key).map(|value| model.insert(new, value));
                        }
                    }
                    _ => {
                        let any = model.keys().nth(key as usize % model.len().max(1)).copied();
                        prop_assert_eq!(any.and_then(|any| run.remove(&any)), any.and_then(|any| model.remove(&any)));
                    }
                }
                if number % 400 == 0 {
                    clones.push((run.clone(), model.clone()));
                }
            }
            clones.push((run, model));
            for (run, model) in clones {
                sound(&run);
                prop_assert!((0..900).all(|key| run.contains_key(&key) == model.contains_key(&key)));
                prop_assert!(run.keys().eq(model.keys()));
                prop_assert!(run.iter().eq(&model));
                prop_assert!(run.iter().rev().eq(model.iter().rev()));
                prop_assert!(run.range(from..).eq(model.range(from..)));
                prop_assert!(run.range(..to).eq(model.range(..to)));
                let (low, high) = (from.min(to), from.max(to));
                let excluding = (Bound::Excluded(low), Bound::Included(high + 1));
                prop_assert!(run.range(excluding).eq(model.range(excluding)));
            }
        }
    }

    #[test]
    fn few_that_stay_among_many_take_few_chunks() {
        let mut run = Run::new();
        for key in 0..10_000u32 {
            run.insert(key, key);
        }
        for key in (0..10_000).filter(|key| key % 100 != 0) {
            run.remove(&key);
        }
        sound(&run);
        assert_eq!(run.len(), 100);
        let chunks = run.many().expect("many").chunks.len();
        assert!(chunks <= 15, "{chunks}");
    }
}
