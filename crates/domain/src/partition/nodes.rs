//! Nodes come, change and go (section 2 of the scheduling rules).

use std::sync::Arc;

use super::{Amount, Cx, Partition, refusals::Renewed, releases::Removal};
use crate::{
    alloc::Phase,
    command::{NodeAction, NodeItem},
    conf::NodeSortPolicy,
    effect::{Callback, Effect, NodeEffect, Released},
    event::{Change, Detail, EventKind},
    hostlist,
    journal::DrainNote,
    node::{Node, NodeSpec},
    node_index::sortable,
    rare::Rare,
    resources::{Resource, float},
    types::{AllocIx, NodeIx, ObjectState, Termination},
};

/// Room between the ranks of neighbours, so that ids in between can be ranked later.
const RANK_STEP: u64 = 1 << 32;
/// Of those that take theirs anew.
const LEAST_STEP: u64 = 1 << 16;

fn negative(id: &str, capacity: &Resource) -> Arc<str> {
    format!("node {id} has a negative capacity: {capacity}").into()
}

impl Partition {
    /// A node request: all actions in order, then the answers (R1.31).
    pub(super) fn apply_nodes(&mut self, items: Vec<NodeItem>, cx: &mut Cx) {
        let mut answers = Vec::new();
        let mut renewed = Renewed::new();
        for item in items {
            let id = item.id.clone();
            match item.action {
                NodeAction::Create => answers.push(self.create_node(item, true, cx).map_err(|reason| (id, reason))),
                NodeAction::CreateDrain => answers.push(self.create_node(item, false, cx).map_err(|r| (id, r))),
                // SEEDS S3: a field that was forgotten does not vanish, and neither does an update of what is not there.
                NodeAction::Unknown => {
                    let reason = format!("no action is set for node {id}: nothing was done with it");
                    answers.push(Err((id, reason.into())));
                }
                action => {
                    let Some(ix) = self.node_by_id.get(&id).copied() else {
                        let reason = format!("failed to find node {id} in partition {}", self.internal);
                        answers.push(Err((id, reason.into())));
                        continue;
                    };
                    cx.fx.push(Effect::Node(NodeEffect::Seen { node: id.clone() }));
                    match action {
                        NodeAction::Update => match item.capacity.as_ref().filter(|capacity| capacity.has_negative()) {
                            Some(capacity) => {
                                answers.push(Err((id.clone(), negative(&id, capacity))));
                            }
                            None => {
                                self.node_renewed(ix, &mut renewed);
                                self.update_node(ix, item, cx);
                            }
                        },
                        NodeAction::Drain => self.set_schedulable(ix, false, cx),
                        NodeAction::DrainToSchedulable => {
                            if self.nodes[ix].rm_schedulable {
                                // SEEDS S4
                                let reason = if self.nodes[ix].operator_drained {
                                    format!(
                                        "node {id} is drained by an operator: the resource manager cannot undrain it"
                                    )
                                } else {
                                    format!("node {id} is not draining: it cannot be made schedulable again")
                                };
                                answers.push(Err((id, reason.into())));
                            } else {
                                self.set_schedulable(ix, true, cx);
                            }
                        }
                        _ => self.remove_node(ix, cx),
                    }
                }
            }
        }
        self.ask_again_about(&renewed);
        for answer in answers {
            cx.callback(match answer {
                Ok(node) => Callback::AcceptedNode(node),
                Err((node, reason)) => Callback::RejectedNode { node, reason },
            });
        }
    }

    fn create_node(&mut self, item: NodeItem, schedulable: bool, cx: &mut Cx) -> Result<Arc<str>, Arc<str>> {
        let prefix = "failure while adding new node, node rejected with error: \n";
        if self.state != ObjectState::Active {
            return Err(
                format!("{prefix}partition {} is stopped cannot add a new node {}", self.internal, item.id).into()
            );
        }
        if self.node_by_id.contains_key(&item.id) {
            let text =
                format!("partition {} has an existing node {}, node name must be unique", self.internal, item.id);
            let (id, partition) = (&item.id, &self.internal);
            return Err(format!("{prefix}failed to add node {id} to partition {partition}, error: {text}").into());
        }
        let capacity = item.capacity.unwrap_or_default().pruned();
        if capacity.has_negative() {
            return Err(format!("{prefix}{}", negative(&item.id, &capacity)).into());
        }
        let id = item.id.clone();
        let rank = self.rank_for(&id);
        let spec = Arc::new(NodeSpec { id: id.clone(), attributes: item.attributes });
        let host = spec.host();
        let held = self.is_held(&id, &host);
        let node = Node {
            spec,
            available: Amount::default(),
            capacity: capacity.clone(),
            allocated: Amount::default(),
            occupied: Rare::default(),
            asked: Rare::default(),
            rm_schedulable: schedulable,
            operator_drained: held,
            allocs: Vec::new(),
            newest: Default::default(),
            foreign: imbl::OrdMap::new(),
            reservations: Rare::default(),
            claimed: Rare::default(),
            rank,
            sort_key: None,
            open: false,
            seen: cx.now,
            resizes: Vec::new(),
            free: Default::default(),
            changed: Default::default(),
        };
        let ix = self.nodes.add(node);
        self.room_follows(ix);
        self.node_by_id.insert(id.clone(), ix);
        // No ask was refused there yet.
        self.questions.refusals.node_changed(ix);
        self.index.track(&capacity);
        let shared = Arc::new(capacity);
        let text = format!("schedulable: {}", schedulable && !held);
        cx.message(EventKind::Node, &id, &"".into(), (Change::Set, Detail::NodeSchedulable), &text, None);
        cx.message(
            EventKind::Node,
            &id,
            &"".into(),
            (Change::Add, Detail::None),
            "Node added to the scheduler",
            Some(shared.clone()),
        );
        self.change_total(&shared, cx);
        self.reindex(ix);
        self.unblock_shapes(ix);
        self.unblock_limits();
        self.rouse_required(&id);
        cx.fx.push(Effect::Node(NodeEffect::Registered { node: id.clone(), host, capacity: shared, schedulable }));
        if held {
            cx.fx.push(Effect::Node(NodeEffect::Held { node: id.clone() }));
        }
        Ok(id)
    }

    /// A rank between those of the neighbours by id; all ranks are made anew when there is no room.
    fn rank_for(&mut self, id: &Arc<str>) -> u64 {
        let rank = |ix: &NodeIx| self.nodes[*ix].rank;
        let before = self.node_by_id.get_prev(id).map(|(_, ix)| rank(ix));
        let after = self.node_by_id.get_next(id).map(|(_, ix)| rank(ix));
        match (before, after) {
            (None, None) => 1 << 62,
            (Some(before), None) if before < u64::MAX - RANK_STEP => before + RANK_STEP,
            (None, Some(after)) if after > RANK_STEP => after - RANK_STEP,
            (Some(before), Some(after)) if after - before > 1 => before + (after - before) / 2,
            _ => {
                self.spread_ranks(id);
                self.rank_for(id)
            }
        }
    }

    /// Makes room for a rank between those of two neighbours: those around take theirs anew, as few as leave enough room between
    /// them; all of them where there is none.
    fn spread_ranks(&mut self, id: &Arc<str>) {
        // At an end there is no room beyond it, so all of them move.
        let between = self.node_by_id.get_prev(id).is_some() && self.node_by_id.get_next(id).is_some();
        let mut around = if between { 16 } else { usize::MAX };
        let (ranks, first, step) = loop {
            let mut ranks: Vec<NodeIx> =
                self.node_by_id.range(..id.clone()).rev().take(around).map(|(_, ix)| *ix).collect();
            ranks.reverse();
            ranks.extend(self.node_by_id.range(id.clone()..).take(around).map(|(_, ix)| *ix));
            if ranks.len() == self.node_by_id.len() {
                break (ranks, (1 << 62) + RANK_STEP, RANK_STEP);
            }
            let rank = |ix: Option<&NodeIx>| ix.map_or(0, |ix| self.nodes[*ix].rank);
            let (first, last) = (rank(ranks.first()), rank(ranks.last()));
            // The outermost stay where they are, or nearly so.
            let step = (last - first) / ranks.len() as u64;
            if step >= LEAST_STEP {
                break (ranks, first, step);
            }
            around *= 2;
        };
        for ix in &ranks {
            let row = &mut self.nodes[*ix];
            if let Some(key) = row.sort_key.take() {
                self.index.remove((key, row.rank));
            }
            row.open = false;
            self.open_nodes.remove(&(row.rank, *ix));
        }
        for (ix, n) in ranks.iter().zip(0..) {
            self.nodes[*ix].rank = first + n * step;
        }
        for ix in ranks {
            self.reindex(ix);
        }
    }

    fn update_node(&mut self, ix: NodeIx, item: NodeItem, cx: &mut Cx) {
        if !item.attributes.is_empty() {
            // SEEDS S5: attributes given replace the old ones, except the partition.
            let row = &mut self.nodes[ix];
            let key = "si/node-partition";
            let mut attributes = item.attributes;
            attributes.remove(key);
            if let Some(partition) = row.spec.attributes.get(key) {
                attributes.insert(key.to_owned(), partition.clone());
            }
            // An update that says nothing but the partition carries no attributes of its own.
            if attributes.len() > 1 || (attributes.len() == 1 && !attributes.contains_key(key)) {
                let before = row.spec.host();
                row.spec = Arc::new(NodeSpec { id: row.spec.id.clone(), attributes });
                if row.spec.host() != before {
                    self.host_changed(ix, cx);
                }
            }
        }
        let Some(capacity) = item.capacity else { return };
        let capacity = capacity.pruned();
        if self.nodes[ix].capacity == capacity {
            return;
        }
        self.note_swaps_at_home(ix);
        let row = &mut self.nodes[ix];
        let delta = capacity.minus(&row.capacity);
        let id = row.spec.id.clone();
        row.capacity = capacity.clone();
        self.room_follows(ix);
        self.index.track(&capacity);
        let shared = Arc::new(capacity);
        cx.message(EventKind::Node, &id, &"".into(), (Change::Set, Detail::NodeCapacity), "", Some(shared.clone()));
        self.change_total(&delta, cx);
        self.reindex(ix);
        self.unblock_shapes(ix);
        self.unblock_limits();
        self.rouse_required(&id);
        self.drop_impossible_reservations(ix, cx);
        cx.fx.push(Effect::Node(NodeEffect::Capacity { node: id, capacity: shared }));
    }

    /// The node has another host name: what operators drained of that host holds for it, and what they drained it for stays.
    fn host_changed(&mut self, ix: NodeIx, cx: &mut Cx) {
        let row = &mut self.nodes[ix];
        let (node, host) = (row.spec.id.clone(), row.spec.host());
        cx.fx.push(Effect::Node(NodeEffect::Renamed { node: node.clone(), host: host.clone() }));
        if self.is_held(&node, &host) && !self.nodes[ix].operator_drained {
            self.operator_drain(&[node], true, cx);
        }
    }

    /// A node that shrank is not kept for asks that it can never hold (R2.29).
    fn drop_impossible_reservations(&mut self, ix: NodeIx, cx: &mut Cx) {
        for ask in self.nodes[ix].reservations.clone().iter() {
            if !self.nodes[ix].capacity.fits(&self.allocs[ask].resource) {
                self.let_go(ask, cx);
            }
        }
    }

    /// The partition's size changes, and with it root's max (R2.12, QUE-020).
    fn change_total(&mut self, delta: &Resource, cx: &mut Cx) {
        self.total.add(delta);
        self.total.prune();
        let max = self.total.is_positive().then(|| Arc::new(self.total.clone()));
        let root = &mut self.queues[self.root];
        if root.max == max && root.max.is_some() == max.is_some() {
            return;
        }
        let shown = max.clone().unwrap_or_default();
        root.max = max;
        let path = root.path.clone();
        // EVT-049: the new max.
        cx.message(EventKind::Queue, &path, &"".into(), (Change::Set, Detail::QueueMax), "", Some(shown));
        self.touch_shares();
        self.unblock_limits();
        self.squeezed(cx.now);
    }

    /// Brings a node's place in the order up to date; out of it while it is drained or nothing of it is open to others than
    /// those that reserved it (R2.36).
    pub(super) fn reindex(&mut self, ix: NodeIx) {
        let row = &self.nodes[ix];
        let (rank, open) = (row.rank, row.open);
        if let Some(old) = row.sort_key {
            self.index.remove((old, rank));
        }
        let listed = !row.is_free() && row.schedulable() && self.state != ObjectState::Stopped;
        let free = listed && row.reservations.is_empty();
        let key = (free || listed && self.is_shared(ix)).then(|| sortable(self.node_score(row)));
        if free != open {
            if free {
                self.open_nodes.insert((rank, ix));
            } else {
                self.open_nodes.remove(&(rank, ix));
            }
        }
        let row = &mut self.nodes[ix];
        (row.sort_key, row.open) = (key, free);
        if let Some(key) = key {
            if free {
                self.index.insert((key, rank), ix, &self.nodes[ix].available);
            } else {
                let room = self.open_room(ix);
                self.index.insert((key, rank), ix, &room);
            }
        }
    }

    /// Sort score (R2.32–R2.34): ascending, the first is tried first.
    fn node_score(&self, node: &Node) -> f64 {
        let sort = &self.conf.node_sort;
        let (mut weighted, mut weights) = (0.0, 0.0);
        for (kind, &weight) in sort.weights.iter().filter(|(_, weight)| **weight != 0.0) {
            let Some(capacity) = node.capacity.get(kind) else { continue };
            let share = 1.0 - float(node.available.amount(kind)) / float(capacity);
            if !share.is_nan() {
                weighted += share * weight;
                weights += weight;
            }
        }
        let usage = if weights == 0.0 { 0.0 } else { weighted / weights };
        match sort.policy {
            NodeSortPolicy::Fair => usage,
            NodeSortPolicy::Binpacking => 1.0 - usage,
        }
    }

    /// All nodes take their place anew: the sort policy changed (R2.35).
    pub(super) fn reindex_all(&mut self) {
        let all: Vec<NodeIx> = self.node_by_id.values().copied().collect();
        for ix in all {
            self.reindex(ix);
        }
    }

    fn set_schedulable(&mut self, ix: NodeIx, schedulable: bool, cx: &mut Cx) {
        let row = &mut self.nodes[ix];
        if row.rm_schedulable == schedulable {
            return;
        }
        let before = row.schedulable();
        row.rm_schedulable = schedulable;
        let node = row.spec.id.clone();
        cx.fx.push(Effect::Node(NodeEffect::Schedulable { node, schedulable }));
        self.schedulable_changed(ix, before, cx);
    }

    fn schedulable_changed(&mut self, ix: NodeIx, before: bool, cx: &mut Cx) {
        let row = &self.nodes[ix];
        let (after, id) = (row.schedulable(), row.spec.id.clone());
        if before == after {
            return;
        }
        let text = format!("schedulable: {after}");
        cx.message(EventKind::Node, &id, &"".into(), (Change::Set, Detail::NodeSchedulable), &text, None);
        // What the shim said of it was said of a node that took nothing, or may have been the reason for the drain.
        self.questions.refusals.node_changed(ix);
        self.reindex(ix);
        if !after {
            self.drop_questions_of_drained(ix, cx);
            self.end_reservations_of_drained(ix, cx);
        }
        self.unblock_shapes(ix);
    }

    /// A node that is registered now was drained by an operator before, or may have been: one of its host was.
    fn is_held(&self, id: &Arc<str>, host: &str) -> bool {
        self.drained_ids.contains(id)
            || (!self.drained_hosts.is_empty() && self.drained_hosts.contains(&*hostlist::safe_name(host)))
    }

    /// From now on nodes of these hosts are drained when they are registered, or no longer.
    pub(super) fn hold_hosts(&mut self, hosts: Vec<Arc<str>>, held: bool) {
        for host in hosts {
            if held {
                self.drained_hosts.insert(host);
            } else {
                self.drained_hosts.remove(&host);
                let told = self.overdue_told.range((host.clone(), Arc::default())..);
                let told: Vec<_> = told.map(|(of, _)| of.clone()).take_while(|(of, _)| *of == host).collect();
                told.iter().for_each(|of| _ = self.overdue_told.remove(of));
                self.drain_notes.remove(&host);
            }
        }
    }

    /// The hosts whose nodes are drained when they are registered.
    pub fn held_hosts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.drained_hosts.iter()
    }

    /// What operators said of drains, by host.
    pub fn drain_notes(&self) -> impl Iterator<Item = (&Arc<str>, &DrainNote)> {
        self.drain_notes.iter()
    }

    /// An operator drains or undrains nodes; for unknown ones it is remembered.
    pub(super) fn operator_drain(&mut self, ids: &[Arc<str>], drained: bool, cx: &mut Cx) {
        for id in ids {
            if drained {
                self.drained_ids.insert(id.clone());
            } else {
                self.drained_ids.remove(id);
            }
            let Some(ix) = self.node_by_id.get(id).copied() else { continue };
            let row = &mut self.nodes[ix];
            let before = row.schedulable();
            row.operator_drained = drained;
            self.schedulable_changed(ix, before, cx);
        }
    }

    /// A node goes with everything on it (R2.21–R2.27).
    pub(super) fn remove_node(&mut self, ix: NodeIx, cx: &mut Cx) {
        let row = &mut self.nodes[ix];
        let id = row.spec.id.clone();
        row.rm_schedulable = false;
        cx.message(
            EventKind::Node,
            &id,
            &"".into(),
            (Change::Set, Detail::NodeSchedulable),
            "schedulable: false",
            None,
        );
        self.reindex(ix);
        for ask in self.nodes[ix].reservations.clone().iter() {
            self.let_go(ask, cx);
        }
        self.drop_questions_of_node(ix, cx);
        let mut allocs = self.nodes[ix].allocs.clone();
        // Placeholders first: an application that loses all with the node may get new asks as after any last allocation (R3.15),
        // where the last placeholder would end it at once (R3.17).
        allocs.sort_by_cached_key(|alloc| {
            let row = &self.allocs[*alloc];
            (!row.is_placeholder(), row.spec.key.clone())
        });
        let (mut released, mut completed) = (Vec::new(), Vec::new());
        let told = |released: Vec<Released>| released.into_iter().map(|release| Callback::Released(Box::new(release)));
        for alloc in allocs {
            let (app, before) = (self.allocs[alloc].app, cx.fx.len());
            self.leave_removed_node(alloc, &mut released, &mut completed, cx);
            if self.apps[app].is_free() {
                // It ended, and is told to have ended last (SEEDS S13).
                cx.callbacks_before(before, told(std::mem::take(&mut released)));
            }
        }
        cx.callbacks_before(cx.fx.len(), told(released));
        for real in completed {
            self.announce_swapped(real, cx);
        }
        // R2.20: foreign allocations go with their node.
        for key in self.nodes[ix].foreign.keys().cloned().collect::<Vec<_>>() {
            self.foreign.remove(&key);
        }
        self.node_by_id.remove(&id);
        let capacity = self.nodes[ix].capacity.negated();
        let row = self.nodes.free(ix);
        row.foreign.clear();
        row.allocs.clear();
        self.change_total(&capacity, cx);
        cx.message(
            EventKind::Node,
            &id,
            &"".into(),
            (Change::Remove, Detail::NodeDecommission),
            "Node removed from the scheduler",
            None,
        );
        cx.fx.push(Effect::Node(NodeEffect::Removed { node: id }));
    }

    /// One allocation of a node that goes.
    fn leave_removed_node(
        &mut self,
        alloc: AllocIx,
        released: &mut Vec<Released>,
        completed: &mut Vec<AllocIx>,
        cx: &mut Cx,
    ) {
        let row = &self.allocs[alloc];
        let node_id = row.node.map(|n| self.nodes[n].spec.id.clone()).unwrap_or_default();
        let message: Arc<str> = format!("Node {node_id} Removed").into();
        let release = Released {
            key: row.spec.key.clone(),
            app: self.apps[row.app].id.clone(),
            termination: Termination::StoppedByRm,
            message,
            confirm: false,
        };
        if !row.is_placeholder() && row.link.is_some() {
            // R2.25: the real side of a replacement sits here; nothing was announced, so nothing is reported.
            self.undo_swap_of_real(alloc, cx);
            return;
        }
        let mut kept = None;
        if let (true, Some(real)) = (row.is_placeholder(), row.link) {
            let elsewhere = self.allocs[real].node.filter(|node| row.node != Some(*node));
            // A place on another node is a new one: it may have shrunk, or be drained by now (R2.5).
            let fits = elsewhere.is_some() && self.swap_fits(alloc, real);
            if fits && self.is_asked_again(alloc, real) {
                kept = Some((real, elsewhere, row.created));
            } else if fits || elsewhere.is_some() && self.swap_elsewhere(alloc, real, cx) {
                // R2.23: only the placeholder's node went: the swap is complete.
                self.swap(alloc, real, true, cx);
                released.push(release);
                completed.push(real);
                return;
            }
            // R2.24: both sides were here, nowhere is a place, or the shim has to agree again.
            self.undo_swap_of_real(real, cx);
        }
        // R6.19: the shim was asked to release it already. Nothing of it stays, and the key may be used again.
        let asked_back = self.allocs[alloc].released;
        self.remove_allocation(alloc, Removal { termination: Termination::Unknown, node_goes: true }, cx);
        if !self.allocs[alloc].is_free() && self.allocs[alloc].phase == Phase::Ended {
            match asked_back {
                true => {
                    self.ask_went(alloc, Detail::RequestTimeout, cx);
                    self.forget(alloc);
                }
                false => _ = self.gone_with.insert(alloc, node_id),
            }
        }
        if let Some((real, node, created)) = kept {
            self.keep_place(real, node, created, cx);
        }
        released.push(release);
    }
}
