//! Where an ask may look for victims: the fence, the leaves below it, and whether its guarantees entitle it (R7.6–R7.17).

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{
    super::{Partition, books::Trial},
    wanted,
};
use crate::{
    queue::PreemptionSetting,
    resources::{Resource, ResourceType},
    types::{AllocIx, QueueIx},
};

/// A leaf whose allocations may be victims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    /// Highest priority of a victim; `None`: any, as the leaf is behind a priority fence (R7.9).
    pub ceiling: Option<i64>,
    /// Index in the ask's path of the lowest queue that is above both.
    pub meets: usize,
}

/// See the module.
pub(super) struct Scope {
    /// Types of the ask of which something is wanted.
    pub need: Resource,
    /// The total of its gang, where it preempts for that: what is wanted of the queues (SEEDS S11).
    pub gang: Option<Resource>,
    /// Queues from the ask's leaf to root.
    path: SmallVec<[QueueIx; 8]>,
    /// What victims have to free in the queues of the path, beside the room on a node.
    pub short: Resource,
    /// Queues with possible victims.
    pub leaves: BTreeMap<QueueIx, Door>,
    /// By index in the path: guarantees below it entitle the ask.
    entitled: SmallVec<[bool; 8]>,
    /// What counts both as charged and as claimed, by queue.
    pub twice: BTreeMap<QueueIx, Resource>,
}

impl Scope {
    /// What is wanted of the queues.
    pub(super) fn whole(&self) -> &Resource {
        self.gang.as_ref().unwrap_or(&self.need)
    }

    /// The queues from a victim's leaf up to the ask's path, without those on it.
    pub(super) fn branch<'a>(&'a self, partition: &'a Partition, leaf: QueueIx) -> impl Iterator<Item = QueueIx> + 'a {
        let end = self.leaves.get(&leaf).map(|door| self.path[door.meets]);
        let path = end.map(|end| partition.path(leaf).take_while(move |queue| *queue != end));
        path.into_iter().flatten()
    }

    /// A victim goes: the guaranteed queues of its branch use less. No others are looked at.
    pub(super) fn take_out(&self, trial: &mut Trial, victim: AllocIx) {
        let branch = self.branch(trial, trial.apps[trial.allocs[victim].app].queue);
        let guaranteed: SmallVec<[QueueIx; 8]> =
            branch.filter(|queue| trial.queues[*queue].guaranteed.is_some()).collect();
        trial.take_out(victim, guaranteed);
    }

    /// No queue of the victim's branch falls below its guarantee when it goes (R7.19, R7.20 mended).
    pub(super) fn spares(&self, partition: &Partition, victim: AllocIx) -> bool {
        if crate::planted!("guarantee-ignored") {
            return true;
        }
        let row = &partition.allocs[victim];
        self.branch(partition, partition.apps[row.app].queue).all(|queue| {
            let Some(guaranteed) = &partition.queues[queue].guaranteed else { return true };
            guaranteed.iter().all(|(kind, guaranteed)| {
                let amount = row.resource.amount(kind);
                amount <= 0 || partition.used(self, queue, kind) - amount >= guaranteed
            })
        })
    }

    /// No guarantee entitles the ask anywhere inside its fence (R7.17).
    pub(super) fn is_hopeless(&self) -> bool {
        !self.entitled.contains(&true)
    }
}

impl Partition {
    /// Where this ask may look.
    pub(super) fn scope(&self, alloc: AllocIx) -> Scope {
        let row = &self.allocs[alloc];
        let need = wanted(&row.resource);
        let path = self.up(self.apps[row.app].queue);
        let gang = self.gang_that_waits(row.app).filter(|_| row.is_placeholder()).map(|ask| wanted(&ask));
        let (short, leaves, entitled, twice) =
            (Resource::new(), BTreeMap::new(), SmallVec::new(), self.charged_and_claimed());
        let mut scope = Scope { need, gang, path, short, leaves, entitled, twice };
        self.measure_shortage(&mut scope);
        let mut priority = row.spec.priority;
        if scope.gang.is_some() {
            // Whom one of them may not end, all of them may not.
            priority = self.gang(row.app).map(|(_, alloc)| self.allocs[*alloc].spec.priority).fold(priority, i32::min);
        }
        let values = self.values_up_to_fence(&scope, i64::from(priority));
        scope.entitled = (0..values.len()).map(|meets| self.is_entitled(&scope, meets)).collect();
        if !scope.is_hopeless() {
            let fence = values.len() - 1;
            let top = scope.path[fence];
            self.find_leaves(&mut scope, top, Some(fence), (Some(values[fence]), fence), &values);
        }
        scope
    }

    /// How much the queues of the path lack. All of them are at the fence or above it, so every victim helps each of them.
    fn measure_shortage(&self, scope: &mut Scope) {
        let mut short = Resource::new();
        for queue in &scope.path {
            let row = &self.queues[*queue];
            let Some(max) = &row.max else { continue };
            for (kind, amount) in self.wanted_of(scope, *queue).iter() {
                if let Some(max) = max.get(kind) {
                    let missing = self.used(scope, *queue, kind) + self.kept_beside(scope, *queue, kind) + amount - max;
                    if missing > short.amount(kind) {
                        short.set(kind.clone(), missing);
                    }
                }
            }
        }
        scope.short = short;
    }

    /// What is kept there for gangs that have begun: another begins beside it, but in the cluster as nodes have room (SEEDS S11).
    fn kept_beside(&self, scope: &Scope, queue: QueueIx, kind: &ResourceType) -> i128 {
        if scope.gang.is_some() && queue != self.root { self.queues[queue].awaited.amount(kind) } else { 0 }
    }

    /// What is wanted of a queue: of the cluster, which may grow, no more than the ask wants at once (SEEDS S11).
    fn wanted_of<'a>(&self, scope: &'a Scope, queue: QueueIx) -> &'a Resource {
        if queue == self.root { &scope.need } else { scope.whole() }
    }

    /// The ask's priority as each queue of its path up to the fence sees it (R7.6).
    fn values_up_to_fence(&self, scope: &Scope, priority: i64) -> SmallVec<[i64; 8]> {
        let mut values = SmallVec::new();
        let mut value = priority;
        for (at, queue) in scope.path.iter().enumerate() {
            let settings = &self.queues[*queue].settings;
            let offset = i64::from(settings.priority_offset);
            value = if settings.priority_fence { offset } else { value + offset };
            values.push(value);
            if settings.preemption == PreemptionSetting::Fence || self.is_over(scope, at) {
                break;
            }
        }
        values
    }

    /// With the ask the queue is above the smallest max from it up to root.
    fn is_over(&self, scope: &Scope, at: usize) -> bool {
        scope.path[at..].iter().any(|queue| {
            let Some(max) = &self.queues[*queue].max else { return false };
            let at = scope.path[at];
            let taken = |kind| self.used(scope, at, kind) + self.kept_beside(scope, at, kind);
            let is_short = |(kind, amount)| max.get(kind).is_some_and(|max| taken(kind) + amount > max);
            self.wanted_of(scope, *queue).iter().any(is_short)
        })
    }

    /// Below `meets` the ask fits into the nearest guarantee of each of its types, and there is one (R7.12–R7.17).
    fn is_entitled(&self, scope: &Scope, meets: usize) -> bool {
        let mut guaranteed = false;
        for (kind, amount) in scope.whole().iter() {
            let nearest =
                scope.path[..meets].iter().find_map(|q| Some((*q, self.queues[*q].guaranteed.as_ref()?.get(kind)?)));
            if let Some((queue, limit)) = nearest {
                if self.used(scope, queue, kind) + amount > limit {
                    return false;
                }
                guaranteed = true;
            }
        }
        guaranteed
    }

    /// Collects the queues with applications from this one on down; `on_path` is its index in the ask's path (R7.7–R7.9).
    fn find_leaves(
        &self,
        scope: &mut Scope,
        queue: QueueIx,
        on_path: Option<usize>,
        (ceiling, meets): (Option<i64>, usize),
        values: &[i64],
    ) {
        let row = &self.queues[queue];
        // A leaf that became a parent has applications of its own, and one that was a parent what drains below it.
        let mine = on_path == Some(0);
        if !row.apps.is_empty()
            && !mine
            && scope.entitled[meets]
            && row.settings.preemption != PreemptionSetting::Disabled
            && self.has_surplus(scope, queue, meets)
        {
            scope.leaves.insert(queue, Door { ceiling, meets });
        }
        for child in row.children.values().copied() {
            let child_row = &self.queues[child];
            if child_row.allocated.is_zero() {
                continue;
            }
            if let Some(at) = on_path.filter(|at| *at > 0 && scope.path[at - 1] == child) {
                self.find_leaves(scope, child, Some(at - 1), (Some(values[at - 1]), at - 1), values);
                continue;
            }
            let offset = i64::from(child_row.settings.priority_offset);
            let below = match ceiling {
                None => None,
                Some(value) if child_row.settings.priority_fence => {
                    if offset > value {
                        continue;
                    }
                    None
                }
                Some(value) => Some(value - offset),
            };
            self.find_leaves(scope, child, None, (below, meets), values);
        }
    }

    /// The leaf, or a queue above it below the common one, is above its guarantee somewhere, or none has one (R7.8).
    fn has_surplus(&self, scope: &Scope, leaf: QueueIx, meets: usize) -> bool {
        let mut guaranteed = false;
        for queue in self.path(leaf).take_while(|queue| *queue != scope.path[meets]) {
            let row = &self.queues[queue];
            if let Some(limits) = &row.guaranteed {
                guaranteed = true;
                if limits.iter().any(|(kind, limit)| self.used(scope, queue, kind) > limit) {
                    return true;
                }
            }
        }
        !guaranteed
    }
}
