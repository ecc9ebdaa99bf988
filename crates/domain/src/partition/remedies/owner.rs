//! What the owner of an application may do: want less, go elsewhere, be allowed to preempt; and settings that forbid
//! preemption.

use std::sync::Arc;

use super::{Change, PREEMPTS_AGAIN, Search};
use crate::{
    acl::Groups,
    edit::Edit,
    node::Node,
    placement::may_submit,
    queue::{PreemptionSetting, Queue},
    resources::Resource,
    types::{Nanos, ObjectState},
};

/// Queues that are tried.
const QUEUES: usize = 16;
/// Settings of other queues that are tried.
const SETTINGS: usize = 8;
/// A queue whose `preemption.delay` is longer is one whose asks never preempt.
const NEVER: Nanos = Nanos::from_secs(366 * 86_400);
/// Asks of an application that is submitted again, at most.
const ASKS: usize = 2_000;

impl Search<'_> {
    /// It has nothing yet, so that it can as well be submitted again.
    fn may_start_again(&self) -> bool {
        let row = &self.partition.apps[self.app];
        let real = |alloc: &crate::types::AllocIx| !self.partition.allocs[*alloc].is_placeholder();
        row.by_seq.len() <= ASKS && !row.allocs.keys().any(real) && row.gang.swaps == 0
    }

    /// Another queue: first those that are near.
    pub(super) fn other_queue(&mut self) {
        if !self.may_start_again() {
            return;
        }
        let partition = self.partition;
        let row = &partition.apps[self.app];
        let own = &partition.queues[row.queue];
        let gang = row.gang.placeholder_ask.as_deref().unwrap_or(&self.wanted);
        let groups = Groups::new(&row.groups);
        let fits = |queue: &Queue| {
            let ix = partition.queue_by_path.get(&queue.path).copied();
            let room = ix.is_some_and(|ix| partition.queue_has_room(ix, gang).is_ok());
            room && may_submit(partition, &queue.path, &row.user, &groups)
        };
        let open = |queue: &&Queue| queue.leaf && queue.state == ObjectState::Active && queue.path != own.path;
        let mut others: Vec<&Queue> =
            partition.queue_by_path.values().map(|ix| &partition.queues[*ix]).filter(open).collect();
        others.retain(|queue| fits(queue));
        let common = |queue: &Queue| {
            let parts = queue.path.split('.').zip(own.path.split('.'));
            parts.take_while(|(a, b)| a == b).count()
        };
        others.sort_by(|a, b| common(b).cmp(&common(a)).then(a.path.cmp(&b.path)));
        self.cut |= others.len() > QUEUES;
        let (app, size) = (row.id.clone(), partition.share(&self.wanted));
        for queue in others.into_iter().take(QUEUES) {
            if self.offer(Change::Queue { app: app.clone(), queue: queue.path.clone() }, size) {
                return;
            }
        }
    }

    /// A smaller ask, or a gang of fewer members.
    pub(super) fn smaller(&mut self) {
        let partition = self.partition;
        if self.asks.len() > 1 || partition.allocs[self.asks[0]].is_placeholder() {
            return self.fewer_members();
        }
        let row = &partition.allocs[self.asks[0]];
        let Some(most) = self.within_limits() else { return };
        let mut best: Option<(f64, Resource)> = None;
        for node in partition.node_by_id.values().map(|ix| &partition.nodes[*ix]) {
            let required = row.spec.required_node.as_ref().is_none_or(|required| required == node.id());
            if !required || !(node.schedulable() || row.spec.required_node.is_some()) {
                continue;
            }
            let Some(to) = fit(&most, node) else { continue };
            let less = partition.share(&self.each.minus(&to));
            if best.as_ref().is_none_or(|(known, _)| less < *known) {
                best = Some((less, to));
            }
        }
        if let Some((less, to)) = best.filter(|(_, to)| *to != *self.each) {
            self.offer(Change::Smaller { ask: self.names[0].clone(), to }, less);
        }
    }

    /// As much of the ask as the queues of its path, its user and group have left; `None`: nothing of a type that it wants.
    fn within_limits(&self) -> Option<Resource> {
        let partition = self.partition;
        let mut to = Resource::clone(&self.each);
        let mut cut = |limit: &Resource| {
            for (kind, left) in limit.iter() {
                if to.amount(kind) > left.max(0) {
                    to.set(kind.clone(), left);
                }
            }
        };
        for ix in self.path() {
            let row = &partition.queues[ix];
            if let Some(max) = row.max.as_ref().filter(|_| row.parent.is_some()) {
                let promised = row.allocated.minus(&row.preempting).plus(&row.claimed);
                cut(&max.minus_known(&row.allocated.max(&promised)));
            }
        }
        let track = partition.apps[self.app].track;
        if let Some(left) = track.and_then(|track| partition.ugm.headroom_beside(track)) {
            cut(&left);
        }
        wants_the_same(&self.each, &to).then_some(to)
    }

    /// A gang of one task group with as many members as can be placed.
    fn fewer_members(&mut self) {
        let partition = self.partition;
        let row = &partition.apps[self.app];
        if !self.may_start_again() || row.gang.task_groups.len() != 1 {
            return;
        }
        let mut keys: Vec<Arc<str>> = Vec::new();
        for alloc in row.by_seq.values().map(|ix| &partition.allocs[*ix]) {
            if alloc.is_placeholder() && (alloc.is_pending() || alloc.is_allocated()) {
                keys.push(alloc.spec.key.clone());
            }
        }
        let of = keys.len();
        let (mut some, mut none) = (0, of);
        while some + 1 < none {
            let half = some.midpoint(none);
            let before = self.found.len();
            let change = Change::Members { app: row.id.clone(), keys: keys[..half].to_vec(), of };
            let less = partition.share(&self.each) * (of - half) as f64;
            if self.offer(change, less) {
                some = half;
                // More members are a smaller change.
                if before > 0 && matches!(self.found[before - 1].change, Change::Members { .. }) {
                    self.found.remove(before - 1);
                }
            } else {
                none = half;
            }
        }
    }

    /// Preemption that is allowed but for one setting: the partition's, one of a queue's, or the ask's own.
    pub(super) fn allow_preemption(&mut self) {
        let partition = self.partition;
        let [ask] = self.asks[..] else { return };
        let row = &partition.allocs[ask];
        if row.spec.required_node.is_some() {
            return;
        }
        let delay = partition.queues[partition.apps[self.app].queue].settings.preemption_delay;
        if delay > NEVER {
            return;
        }
        // From its creation on, and from its last attempt.
        let until = self.now.plus(delay).max(self.now.plus(PREEMPTS_AGAIN)).plus(Nanos::from_secs(1));
        let mut changes = Vec::new();
        if !row.spec.may_preempt_others() {
            changes.push(Change::Preempt { ask: self.names[0].clone() });
        } else {
            if !partition.conf.preemption {
                changes.push(Change::Edit(Edit::Preemption(true)));
            }
            let path = self.path();
            let fences = path.iter().map(|ix| &partition.queues[*ix]);
            let fences = fences.filter(|row| row.settings.preemption == PreemptionSetting::Fence);
            let all = partition.queue_by_path.values().map(|ix| &partition.queues[*ix]);
            let disabled = |row: &&Queue| {
                row.leaf && row.settings.preemption == PreemptionSetting::Disabled && !row.allocated.is_zero()
            };
            let disabled: Vec<&Queue> = all.filter(disabled).collect();
            self.cut |= disabled.len() > SETTINGS;
            changes.extend(fences.chain(disabled.into_iter().take(SETTINGS)).map(|row| {
                partition.of_edit(Edit::Property {
                    queue: row.path.clone(),
                    name: "preemption.policy".into(),
                    value: "default".into(),
                })
            }));
        }
        // Where it is placed as it is, once it has waited long enough to preempt, none of these settings stands in its way.
        if changes.is_empty() || self.comes_by(until) {
            return;
        }
        let size = partition.share(&self.each);
        for change in changes {
            // Where nothing is preempted, it was the time that passed.
            if let Some(run) = self.attempt(&change, until).filter(|run| !run.preempted.is_empty()) {
                self.note(change, size, &run);
            }
        }
    }
}

/// What of this a node has left; `None`: nothing of a type.
fn fit(most: &Resource, node: &Node) -> Option<Resource> {
    let mut to = most.clone();
    for (kind, amount) in most.iter() {
        to.set(kind.clone(), amount.min(node.available.amount(kind).max(0)));
    }
    wants_the_same(most, &to).then_some(to)
}

/// It wants something of every type of which the other does.
fn wants_the_same(of: &Resource, then: &Resource) -> bool {
    of.iter().all(|(kind, amount)| amount <= 0 || then.amount(kind) > 0)
}
