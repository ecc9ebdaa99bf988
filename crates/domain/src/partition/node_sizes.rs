//! Nodes by their size, for what is told of many sizes of asks at once: looking at each node for each of them would take
//! their product.

use std::collections::BTreeMap;

use super::{Partition, explain::Nodes};
use crate::resources::{Resource, ResourceType};

/// Sizes that are told apart; nodes of others count as alike, so that there are never as many as nodes.
const MOST: usize = 1_000;

/// The nodes of a partition, those of about the same capacity together.
#[derive(Default)]
pub(super) struct NodeSizes(BTreeMap<Vec<(ResourceType, u32)>, Alike>);

/// Nodes of about the same capacity.
#[derive(Default)]
struct Alike {
    nodes: usize,
    drained: usize,
    /// Those that take allocations and are reserved.
    reserved: usize,
    /// The most of each type that one of them has.
    capacity: Resource,
    /// The most of each type that one of them that takes allocations has left.
    most_free: Resource,
    /// What those have left together.
    all_free: Resource,
}

impl NodeSizes {
    pub fn of(partition: &Partition) -> NodeSizes {
        let mut sizes = NodeSizes::default();
        for node in partition.node_by_id.values().map(|at| &partition.nodes[*at]) {
            let mut key = node.capacity.iter().map(|(kind, amount)| (kind.clone(), about(amount))).collect();
            if sizes.0.len() >= MOST && !sizes.0.contains_key(&key) {
                key = Vec::new();
            }
            let alike = sizes.0.entry(key).or_default();
            alike.nodes += 1;
            alike.capacity = alike.capacity.max(&node.capacity);
            if !node.schedulable() {
                alike.drained += 1;
                continue;
            }
            alike.reserved += usize::from(!node.reservations.is_empty());
            let free = node.available.value();
            alike.most_free = alike.most_free.max(&free);
            alike.all_free.add(&free.max(&Resource::default()));
        }
        sizes
    }

    /// What the nodes say to asks of a size, taken together: a node may be told as large enough, or as reserved and not full,
    /// where another of about its size is. `nowhere`: the scheduler knows of no room.
    pub fn say(&self, size: &Resource, nowhere: bool) -> Nodes {
        let mut told = Nodes::default();
        let wanted: Vec<&ResourceType> = size.iter().filter(|(_, n)| *n > 0).map(|(kind, _)| kind).collect();
        let mut room = false;
        for alike in self.0.values() {
            for kind in &wanted {
                told.largest.set(ResourceType::clone(kind), told.largest.amount(kind).max(alike.capacity.amount(kind)));
            }
            if !alike.capacity.fits(size) {
                told.too_small += alike.nodes;
                continue;
            }
            for kind in &wanted {
                let free = alike.most_free.amount(kind).max(0);
                told.most_free.set(ResourceType::clone(kind), told.most_free.amount(kind).max(free));
                told.all_free.set(ResourceType::clone(kind), told.all_free.amount(kind) + alike.all_free.amount(kind));
            }
            let fits = alike.most_free.fits(size);
            let reserved = if fits { alike.reserved } else { 0 };
            room |= fits;
            told.drained += alike.drained;
            told.reserved += reserved;
            told.full += alike.nodes - alike.drained - reserved;
        }
        if room && !nowhere {
            // It was not tried since there is room, on one node at least.
            told.open = 1;
            *(if told.full > 0 { &mut told.full } else { &mut told.reserved }) -= 1;
        }
        told
    }
}

/// The same for amounts that are apart by less than a sixteenth.
fn about(amount: i128) -> u32 {
    let amount = amount.max(0).unsigned_abs();
    let bits = 128 - amount.leading_zeros();
    let first = amount >> bits.saturating_sub(5);
    bits << 5 | u32::try_from(first).unwrap_or(0)
}
