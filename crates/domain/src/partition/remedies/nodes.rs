//! What helps where no node has room: drained nodes, allocations that leave one, more nodes.

use std::sync::Arc;

use super::{Change, Search, change::new_node, largest};
use crate::{
    alloc::Phase,
    node::Node,
    partition::{
        Partition,
        books::Trial,
        preempt::{Candidate, Harm, gap, wanted},
    },
    resources::Resource,
    types::{AllocIx, NodeIx},
};

/// Nodes that are tried one by one.
const ONE_BY_ONE: usize = 8;
/// Nodes that are undrained or added together at most.
const TOGETHER: usize = 1_000;
/// Nodes that are tried for what leaves them.
const FREED: usize = 8;
/// Steps in which all of them may search for the least harm.
const STEPS: u32 = 20_000;

/// Protections and priority of whom has to leave a node at least.
type Level = ((bool, bool), i32);

impl<'a> Search<'a> {
    /// Drained nodes: one of them, else as few as are needed together.
    pub(super) fn undrain(&mut self) {
        let partition = self.partition;
        let large = |node: &&Node| !node.schedulable() && node.capacity.fits(&self.each);
        let drained: Vec<&Node> = partition.node_by_id.values().map(|ix| &partition.nodes[*ix]).filter(large).collect();
        if let Some(required) = &partition.allocs[self.asks[0]].spec.required_node {
            let own: Vec<&Node> = drained.iter().copied().filter(|node| node.id() == required).collect();
            self.undrain_these(&own, 0);
            return;
        }
        let room = |node: &&Node| node.available.fits(&self.each);
        // What an operator can do alone comes before what needs the resource manager; then the largest.
        let first = |node: &&Node| (node.operator_drained && node.rm_schedulable, node.available.total());
        let roomy: Vec<&Node> = drained.iter().copied().filter(room).collect();
        let others = roomy.len().saturating_sub(1);
        for node in largest(roomy, ONE_BY_ONE, first) {
            if self.undrain_these(&[node], others) {
                return;
            }
        }
        let more = drained.len() > TOGETHER;
        let all = largest(drained, TOGETHER, first);
        let (mut none, mut some) = (1, all.len());
        if some < 2 || !self.undrain_these(&all, 0) {
            self.cut |= more;
            return;
        }
        // As few as do it.
        while none + 1 < some {
            let half = none.midpoint(some);
            let before = self.found.pop();
            if self.undrain_these(&all[..half], all.len() - half) {
                some = half;
            } else {
                self.found.extend(before);
                none = half;
            }
        }
    }

    fn undrain_these(&mut self, nodes: &[&Node], others: usize) -> bool {
        if nodes.is_empty() {
            return false;
        }
        let ids = |drained: fn(&Node) -> bool| -> Vec<Arc<str>> {
            nodes.iter().filter(|node| drained(node)).map(|node| node.id().clone()).collect()
        };
        let mut room = Resource::new();
        nodes.iter().for_each(|node| room.add(&node.available));
        let size = self.partition.share(&room);
        let (operator, manager) = (ids(|node| node.operator_drained), ids(|node| !node.rm_schedulable));
        self.offer(Change::Undrain { operator, manager, others }, size)
    }

    /// Allocations of others that leave a node: those that do the least harm, in the order of preemption.
    pub(super) fn free_a_node(&mut self) {
        let [ask] = self.asks[..] else { return };
        let mut copy = self.partition.clone();
        let partition = self.partition;
        let required = &partition.allocs[ask].spec.required_node;
        let need = wanted(&self.each);
        // R7.33: all nodes together may hold more than they have.
        let of_all = gap(&need, &partition.cluster_room_to_come());
        let lacks = |node: &Node| gap(&need, &node.available).max(&of_all);
        let candidate = |ix: &NodeIx| {
            let node = &partition.nodes[*ix];
            let named = required.as_ref().is_none_or(|required| required == node.id());
            // What requires a node runs there though it is drained.
            let open = required.is_some() || node.schedulable();
            let missing = lacks(node);
            if !(named && open && node.capacity.fits(&self.each)) || missing.is_empty() {
                return None;
            }
            let level = partition.least_level(&missing, &self.candidates(node), required.is_some())?;
            Some((level, partition.share(&missing), *ix))
        };
        let mut short: Vec<(Level, f64, NodeIx)> = Vec::new();
        for ix in partition.node_by_id.values() {
            if (self.bounds.stop)() {
                self.cut = true;
                return;
            }
            short.extend(candidate(ix));
        }
        short.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut found: Vec<(Harm, Level, f64, NodeIx, Vec<AllocIx>, Resource)> = Vec::new();
        let (mut more, mut steps) = (false, STEPS);
        for (level, lacking, ix) in short {
            if found.len() == FREED
                && found.last().is_some_and(|(_, most, size, ..)| level > *most || level == *most && lacking >= *size)
            {
                // At least what it lacks has to leave a node, and less does elsewhere.
                more = true;
                break;
            }
            if (self.bounds.stop)() {
                self.cut = true;
                break;
            }
            let node = &partition.nodes[ix];
            let (missing, candidates) = (lacks(node), self.candidates(node));
            let chosen = Trial::of(&mut copy).least_harm_on_node(missing, &candidates, required.is_some(), &mut steps);
            if let Some((harm, leaving)) = chosen {
                let mut freed = Resource::new();
                leaving.iter().for_each(|alloc| freed.add(&partition.allocs[*alloc].resource));
                found.push((harm, level, partition.share(&freed), ix, leaving, freed));
                found.sort_by(|a, b| a.0.cmp(&b.0));
                more |= found.len() > FREED;
                found.truncate(FREED);
            }
        }
        for (_, _, size, ix, leaving, freed) in found {
            let name = |alloc: AllocIx| {
                let row = &partition.allocs[alloc];
                (partition.apps[row.app].id.clone(), row.spec.key.clone())
            };
            let node = partition.nodes[ix].id().clone();
            let allocations = leaving.into_iter().map(name).collect();
            if self.offer(Change::Free { node, allocations, freed }, size) {
                return;
            }
        }
        self.cut |= more;
    }

    /// What may leave a node: nothing that goes already, nothing of the application itself.
    fn candidates(&self, node: &Node) -> Vec<Candidate> {
        let partition = self.partition;
        let may = |alloc: &AllocIx| {
            let row = &partition.allocs[*alloc];
            row.phase == Phase::Allocated && !row.released && !row.preempted && row.app != self.app
        };
        node.allocs.iter().copied().filter(may).map(|alloc| Candidate { alloc, here: true }).collect()
    }

    /// The smallest node that has so much when it is empty.
    fn smallest(&self, size: &Resource) -> Option<&'a Node> {
        let partition = self.partition;
        let nodes = partition.node_by_id.values().map(|ix| &partition.nodes[*ix]);
        let large = nodes.filter(|node| node.capacity.fits(size));
        large.min_by(|a, b| partition.share(&a.capacity).total_cmp(&partition.share(&b.capacity)))
    }

    /// A required node that is not there.
    pub(super) fn register_node(&mut self) {
        let partition = self.partition;
        let mut required = self.asks.iter().filter_map(|ask| partition.allocs[*ask].spec.required_node.as_ref());
        let Some(node) = required.find(|node| !partition.node_by_id.contains_key(*node)).cloned() else { return };
        let capacity = self.smallest(&self.wanted).map_or_else(|| self.wanted.clone(), |like| like.capacity.clone());
        let size = partition.share(&capacity);
        // A larger one is not tried.
        self.cut |= !self.offer(Change::Register { node, capacity }, size);
    }

    /// More nodes like the smallest that is large enough.
    pub(super) fn add_nodes(&mut self) {
        let partition = self.partition;
        let (queue, wanted) = (partition.apps[self.app].queue, self.wanted.clone());
        // All nodes together hold more than they have: what is added makes up for that first. Else no other node helps where one is
        // required.
        let of_all = |then: &Partition| then.queue_fits(queue, &wanted) == Err(then.root);
        let required = partition.allocs[self.asks[0]].spec.required_node.is_some();
        if required && !of_all(partition) {
            return;
        }
        let Some(like) = self.smallest(&self.each) else { return };
        // So many at least hold all of it.
        let need = |(kind, amount): (_, i128)| match like.capacity.amount(kind) {
            has if has > 0 => amount.max(0).div_euclid(has) + i128::from(amount.max(0).rem_euclid(has) > 0),
            _ => 0,
        };
        let least = self.wanted.iter().map(need).max().unwrap_or(1).clamp(1, TOGETHER as i128) as usize;
        let change = |count| Change::Nodes { count, like: like.id().clone(), capacity: like.capacity.clone() };
        let size = |count| partition.share(&like.capacity) * count as f64;
        // Others may be before it in line, and take them first.
        let (mut none, mut some) = (0, 1);
        loop {
            let Some((run, done)) = self.trial(&change(some), self.now) else { return };
            if done {
                self.note(change(some), size(some), &run);
                break;
            }
            let stay_empty = || required || empty_of(some, &run.partition) >= self.asks.len();
            if run.cut || !of_all(&run.partition) && stay_empty() {
                // Where nodes stay empty it is something else that holds it back.
                return;
            }
            if some == TOGETHER {
                self.cut = true;
                return;
            }
            (none, some) = (some, (some * 2).max(least).min(TOGETHER));
        }
        // As few as do it.
        while none + 1 < some {
            let half = none.midpoint(some);
            let before = self.found.pop();
            if self.offer(change(half), size(half)) {
                some = half;
            } else {
                self.found.extend(before);
                none = half;
            }
        }
    }
}

/// Of so many nodes that were added, how many nobody took.
fn empty_of(added: usize, partition: &Partition) -> usize {
    let node = |n: &usize| partition.nodes.get(*partition.node_by_id.get(&new_node(*n))?);
    let empty = |node: &&Node| node.allocs.is_empty() && node.reservations.is_empty();
    (1..=added).filter(|n| node(n).is_some_and(|node| empty(&node))).count()
}
