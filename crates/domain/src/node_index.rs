//! Nodes in the order in which they are tried, with the largest free amounts of each stretch kept beside it.
//!
//! Finding the first node in order on which an ask fits skips every stretch in which no node has enough of some type,
//! so that full nodes at the front (as with binpacking) cost nothing to pass. A stretch ("bucket") holds up to 128 nodes,
//! 32 buckets make a block; maxima are kept for both.

use std::collections::VecDeque;

use triomphe::Arc;

use super::coded::{Coded, Error, Reader, Writer, list};
use super::{
    resources::{MEMORY, Resource, ResourceType, VCORE, clamp},
    types::NodeIx,
};

/// Resource types whose maxima are kept; others are only checked on the node itself.
const TRACKED: usize = 4;
const BUCKET: usize = 128;
const BLOCK: usize = 32;

/// Free amounts of the tracked types.
type Amounts = [i64; TRACKED];

/// Position of a node: sort score (ascending), then rank of its id.
pub type NodeKey = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: NodeKey,
    node: NodeIx,
    free: Amounts,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct NodeIndex {
    types: [Option<ResourceType>; TRACKED],
    /// Nodes go from one end and come to the other, as the fair sort has it, or come back where they were.
    buckets: Vec<Arc<VecDeque<Entry>>>,
    first: Vec<NodeKey>,
    most: Vec<Amounts>,
    blocks: Vec<Amounts>,
    len: usize,
}

impl Default for NodeIndex {
    fn default() -> Self {
        let types = [Some(MEMORY), Some(VCORE), None, None];
        NodeIndex { types, buckets: Vec::new(), first: Vec::new(), most: Vec::new(), blocks: Vec::new(), len: 0 }
    }
}

/// A sort score as an integer with the same order.
pub fn sortable(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn covers(most: &Amounts, need: &Amounts) -> bool {
    most.iter().zip(need).all(|(m, n)| m >= n)
}

fn maximum(amounts: impl Iterator<Item = Amounts>) -> Amounts {
    amounts.fold([0; TRACKED], |mut most, a| {
        for (m, a) in most.iter_mut().zip(a) {
            *m = (*m).max(a);
        }
        most
    })
}

impl NodeIndex {
    /// Learns the types of a capacity while there is room for more.
    pub fn track(&mut self, capacity: &Resource) {
        for (kind, _) in capacity.iter() {
            if !self.types.iter().flatten().any(|known| known == kind)
                && let Some(slot) = self.types.iter_mut().find(|slot| slot.is_none())
            {
                *slot = Some(kind.clone());
            }
        }
    }

    fn amounts(&self, resource: &Resource) -> Amounts {
        let mut amounts = [0; TRACKED];
        for (amount, kind) in amounts.iter_mut().zip(self.types.iter().map_while(Option::as_ref)) {
            *amount = clamp(resource.amount(kind)).max(0);
        }
        amounts
    }

    fn bucket_of(&self, key: NodeKey) -> usize {
        self.first.partition_point(|first| *first <= key).saturating_sub(1)
    }

    /// Adds a node that is not in it.
    pub fn insert(&mut self, key: NodeKey, node: NodeIx, available: &Resource) {
        let entry = Entry { key, node, free: self.amounts(available) };
        self.len += 1;
        if self.buckets.is_empty() {
            self.buckets.push(Arc::new(VecDeque::from([entry])));
            self.first.push(key);
            self.most.push(entry.free);
            self.blocks.push(entry.free);
            return;
        }
        let mut at = self.bucket_of(key);
        if self.buckets[at].len() >= BUCKET {
            self.split(at, key);
            at = self.bucket_of(key);
        }
        let bucket = Arc::make_mut(&mut self.buckets[at]);
        let position = bucket.partition_point(|e| e.key < key);
        bucket.insert(position, entry);
        self.first[at] = bucket[0].key;
        for (m, a) in self.most[at].iter_mut().zip(entry.free) {
            *m = (*m).max(a);
        }
        for (m, a) in self.blocks[at / BLOCK].iter_mut().zip(entry.free) {
            *m = (*m).max(a);
        }
    }

    fn split(&mut self, at: usize, key: NodeKey) {
        let bucket = Arc::make_mut(&mut self.buckets[at]);
        // Keys that only grow, as fair sorting makes them, would leave half-empty buckets behind.
        let last = at + 1 == self.first.len() && bucket.back().is_some_and(|e| e.key < key);
        let tail = bucket.split_off(if last { BUCKET - 8 } else { BUCKET / 2 });
        let most = maximum(bucket.iter().map(|e| e.free));
        self.most[at] = most;
        self.first.insert(at + 1, tail[0].key);
        self.most.insert(at + 1, maximum(tail.iter().map(|e| e.free)));
        self.buckets.insert(at + 1, Arc::new(tail));
        self.refresh_blocks(at / BLOCK);
    }

    fn refresh_blocks(&mut self, from: usize) {
        self.blocks.truncate(from);
        for chunk in self.most.chunks(BLOCK).skip(from) {
            self.blocks.push(maximum(chunk.iter().copied()));
        }
    }

    /// Takes a node out; nothing happens where it is not in it under this key.
    pub fn remove(&mut self, key: NodeKey) {
        if self.buckets.is_empty() {
            return;
        }
        let at = self.bucket_of(key);
        let Ok(position) = self.buckets[at].binary_search_by_key(&key, |e| e.key) else { return };
        let bucket = Arc::make_mut(&mut self.buckets[at]);
        let Some(gone) = bucket.remove(position) else { return };
        self.len -= 1;
        if bucket.is_empty() {
            self.buckets.remove(at);
            self.first.remove(at);
            self.most.remove(at);
            self.refresh_blocks(at / BLOCK);
            return;
        }
        self.first[at] = bucket[0].key;
        let old = self.most[at];
        for nth in (0..TRACKED).filter(|nth| gone.free[*nth] == old[*nth] && old[*nth] > 0) {
            let mut most = 0;
            for entry in bucket.range(position..).chain(bucket.range(..position)) {
                most = most.max(entry.free[nth]);
                // Among equal nodes the next one has as much.
                if most == old[nth] {
                    break;
                }
            }
            self.most[at][nth] = most;
        }
        if self.most[at] != old {
            let block = at / BLOCK;
            let end = ((block + 1) * BLOCK).min(self.most.len());
            self.blocks[block] = maximum(self.most[block * BLOCK..end].iter().copied());
        }
    }

    /// The first node in order whose tracked free amounts cover `need` and which `accept` takes.
    pub fn first(&self, need: &Resource, mut accept: impl FnMut(NodeIx) -> bool) -> Option<NodeIx> {
        let need = self.amounts(need);
        for (block, most) in self.blocks.iter().enumerate() {
            if !covers(most, &need) {
                continue;
            }
            let end = ((block + 1) * BLOCK).min(self.buckets.len());
            for at in block * BLOCK..end {
                if !covers(&self.most[at], &need) {
                    continue;
                }
                for entry in self.buckets[at].iter() {
                    if covers(&entry.free, &need) && accept(entry.node) {
                        return Some(entry.node);
                    }
                }
            }
        }
        None
    }
}

list!(Entry { key, node, free });

/// What is tracked, and the nodes in order: the stretches follow from that, and it does not matter how long each of them is.
impl Coded for NodeIndex {
    fn write(&self, to: &mut Writer) {
        to.array(2);
        self.types.write(to);
        to.array(self.len);
        self.buckets.iter().flat_map(|bucket| bucket.iter()).for_each(|entry| entry.write(to));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let (types, entries): (_, Vec<Entry>) = Coded::read(from)?;
        if !entries.is_sorted_by_key(|entry| entry.key) {
            return Err(from.fail("the nodes are out of order"));
        }
        let mut index = NodeIndex { types, len: entries.len(), ..NodeIndex::default() };
        for bucket in entries.chunks(BUCKET / 2) {
            index.first.push(bucket[0].key);
            index.most.push(maximum(bucket.iter().map(|entry| entry.free)));
            index.buckets.push(Arc::new(bucket.iter().copied().collect()));
        }
        index.refresh_blocks(0);
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn floats_keep_their_order() {
        let scores = [-1.0, -0.25, 0.0, 1e-9, 0.5, 1.0, 1.5];
        assert!(scores.windows(2).all(|w| sortable(w[0]) < sortable(w[1])));
    }

    proptest! {
        // R2.34, R5.27: the first in order that fits, whatever was inserted and removed before.
        #[test]
        fn finds_what_a_walk_finds(steps in prop::collection::vec((0u64..40, 0u32..400, 0i64..20, 0i64..20, any::<bool>()), 1..600),
                                   need in (0i64..20, 0i64..20)) {
            let mut index = NodeIndex::default();
            let mut model: BTreeMap<NodeKey, (NodeIx, Resource)> = BTreeMap::new();
            for (score, node, memory, vcore, add) in steps {
                let key = (score, u64::from(node));
                if add {
                    model.entry(key).or_insert_with(|| {
                        let free = Resource::of(&[("memory", memory), ("vcore", vcore)]);
                        index.insert(key, NodeIx(node), &free);
                        (NodeIx(node), free)
                    });
                } else {
                    let old = model.remove(&key);
                    if old.is_some() { index.remove(key); }
                }
                prop_assert_eq!(index.len, model.len());
            }
            let need = Resource::of(&[("memory", need.0), ("vcore", need.1)]);
            let expected = model.values().find(|(_, free)| free.fits(&need)).map(|(node, _)| *node);
            prop_assert_eq!(index.first(&need, |_| true), expected);
            let all = index.buckets.iter().flat_map(|bucket| bucket.iter().map(|entry| entry.node));
            prop_assert_eq!(all.collect::<Vec<_>>(), model.values().map(|(n, _)| *n).collect::<Vec<_>>());
        }
    }
}
