//! Settings that can be raised: the max of a queue and the number of its applications, the limits of users and groups. What the
//! levels above allow is as far as they go, as a configuration would be refused otherwise (CFG-042, CFG-050, CFG-067–CFG-072).

use std::sync::Arc;

use super::Search;
use crate::{
    conf::{LimitConf, PartitionConf, QueueConf},
    edit::Edit,
    partition::Partition,
    queue::Queue,
    resources::{Resource, ResourceType},
    types::{AppIx, QueueIx},
    ugm::{LimitRefusal, Who},
};

/// As good as no limit.
const ANY_AMOUNT: i128 = 1 << 60;
const ANY_NUMBER: u64 = 1 << 31;

/// What a queue uses, with what is promised in it and kept for gangs.
fn used(row: &Queue, gang: bool) -> Resource {
    let mut used = row.allocated.value();
    if !row.claimed.is_empty() {
        used = used.max(&used.minus(&row.preempting).plus(&row.claimed));
    }
    if gang {
        used.add(&row.awaited);
    }
    used
}

/// What has to be raised of `max` for `used` and `wanted` to fit, and to what; `None`: nothing, or more than is allowed.
fn raised(max: &Resource, used: &Resource, wanted: &Resource, bound: &Resource) -> Option<Resource> {
    let mut to = Resource::new();
    for (kind, amount) in wanted.iter().filter(|(_, amount)| *amount > 0) {
        let (Some(max), need) = (max.get(kind), used.amount(kind) + amount) else { continue };
        if need > max {
            if bound.get(kind).is_some_and(|bound| need > bound) {
                return None;
            }
            to.set(kind.clone(), need);
        }
    }
    (!to.is_empty()).then_some(to)
}

/// The types of `wanted` in `max`, as far as they may be raised; `None`: they are there already.
fn furthest(max: &Resource, wanted: &Resource, bound: &Resource) -> Option<Resource> {
    let mut to = Resource::new();
    for (kind, _) in wanted.iter().filter(|(_, amount)| *amount > 0) {
        let bound = bound.get(kind).unwrap_or(ANY_AMOUNT);
        if max.get(kind).is_some_and(|max| max < bound) {
            to.set(kind.clone(), bound);
        }
    }
    (!to.is_empty()).then_some(to)
}

/// Of what is used in the end, what is above the max.
fn reached(max: &Resource, used: &Resource, most: &Resource) -> Option<Resource> {
    let mut to = Resource::new();
    for (kind, _) in most.iter() {
        if used.amount(kind) > max.amount(kind) {
            to.set(kind.clone(), used.amount(kind));
        }
    }
    (!to.is_empty()).then_some(to)
}

fn lower(bound: &mut Resource, kind: &ResourceType, amount: i128) {
    let least = bound.get(kind).map_or(amount, |bound| bound.min(amount));
    bound.set(kind.clone(), least);
}

/// The part of the cluster that an edit adds to what these types had.
fn added(partition: &Partition, edit: &Edit, from: &Resource) -> f64 {
    let (Edit::Max { amounts, .. } | Edit::LimitMax { amounts, .. }) = edit else { return 0.0 };
    let mut more = Resource::new();
    for (kind, amount) in amounts.iter() {
        more.set(kind.clone(), (amount - from.amount(kind)).max(0));
    }
    partition.share(&more)
}

/// So many more applications than before.
fn more(edit: &Edit, from: u64) -> f64 {
    let (Edit::Applications { max, .. } | Edit::LimitApplications { max, .. }) = edit else { return 0.0 };
    max.saturating_sub(from) as f64
}

impl Search<'_> {
    /// Each level of the path.
    pub(super) fn raise_queues(&mut self) {
        let path = self.path();
        for (at, ix) in path.iter().enumerate() {
            let row = &self.partition.queues[*ix];
            if row.parent.is_some() {
                self.raise_max(*ix, &path[at + 1..]);
            }
            if row.max_applications > 0 {
                self.raise_applications(*ix, &path[at + 1..]);
            }
        }
    }

    fn raise_max(&mut self, ix: QueueIx, above: &[QueueIx]) {
        let partition = self.partition;
        let row = &partition.queues[ix];
        let Some(max) = row.max.clone() else { return };
        let mut bound = Resource::new();
        for level in above.iter().map(|level| &partition.queues[*level]).filter(|level| level.parent.is_some()) {
            for (kind, amount) in level.max.iter().flat_map(|max| max.iter()) {
                lower(&mut bound, kind, amount);
            }
        }
        let Some(most) = furthest(&max, &self.wanted, &bound) else { return };
        let gang = partition.gang_to_begin(self.app);
        let least = raised(&max, &used(row, gang.is_some()), gang.as_deref().unwrap_or(&self.wanted), &bound);
        let queue = row.path.clone();
        let edit = |amounts: Resource| Edit::Max { queue: queue.clone(), amounts };
        let reached = |then: &Partition| reached(&max, &used(&then.queues[ix], false), &most).map(edit);
        self.raise(least.map(edit), edit(most.clone()), reached, |edit| added(partition, edit, &max));
    }

    fn raise_applications(&mut self, ix: QueueIx, above: &[QueueIx]) {
        let partition = self.partition;
        let running = move |partition: &Partition| partition.queues[ix].begun();
        let row = &partition.queues[ix];
        let (queue, max) = (row.path.clone(), row.max_applications);
        let above = above.iter().map(|level| partition.queues[*level].max_applications).filter(|max| *max > 0);
        let bound = above.min().unwrap_or(ANY_NUMBER);
        let edit = |max: u64| Edit::Applications { queue: queue.clone(), max };
        let need = running(partition) + 1;
        if bound > max {
            let least = (need > max && need <= bound).then(|| edit(need));
            let one = partition.share(&self.wanted);
            let reached = |then: &Partition| Some(edit(running(then).max(max + 1)));
            self.raise(least, edit(bound), reached, |edit| one * more(edit, max));
        }
    }

    /// Each limit that counts for the application.
    pub(super) fn raise_limits(&mut self) {
        let partition = self.partition;
        let Some(track) = partition.apps[self.app].track else { return };
        for refusal in partition.ugm.bounds(track) {
            let Some(entry) = entry_of(&partition.conf, &refusal) else { continue };
            self.raise_limit_max(&refusal, entry);
            self.raise_limit_applications(&refusal, entry);
        }
    }

    fn raise_limit_max(&mut self, refusal: &LimitRefusal, entry: usize) {
        let partition = self.partition;
        let Some(max) = refusal.limit.resources.clone() else { return };
        let mut bound = Resource::new();
        for (queue, path) in levels(&partition.conf, &refusal.queue) {
            let own = *path == *refusal.queue;
            // CFG-068 looks at the queue's own max only, CFG-070 at limits above.
            for (kind, amount) in queue.max.iter().filter(|_| own).flat_map(Resource::iter) {
                lower(&mut bound, kind, amount);
            }
            let limits = queue.limits.iter().filter(|limit| !own && concerns(limit, refusal));
            for (kind, amount) in limits.flat_map(|limit| limit.max_resources.iter().flat_map(Resource::iter)) {
                lower(&mut bound, kind, amount);
            }
        }
        let Some(most) = furthest(&max, &self.wanted, &bound) else { return };
        let taken = |refusal: &LimitRefusal| refusal.used.plus(&refusal.promised);
        let least = raised(&max, &taken(refusal), &self.wanted, &bound);
        let queue = refusal.queue.clone();
        let edit = |amounts: Resource| Edit::LimitMax { queue: queue.clone(), entry, amounts };
        let app = self.app;
        let reached = |then: &Partition| reached(&max, &taken(&used_of(then, app, refusal)?), &most).map(edit);
        self.raise(least.map(edit), edit(most.clone()), reached, |edit| added(partition, edit, &max));
    }

    fn raise_limit_applications(&mut self, refusal: &LimitRefusal, entry: usize) {
        let partition = self.partition;
        let max = refusal.limit.applications;
        if max == 0 {
            return;
        }
        let mut bound = ANY_NUMBER;
        for (queue, path) in levels(&partition.conf, &refusal.queue) {
            let own = *path == *refusal.queue;
            if own && queue.max_applications > 0 {
                bound = bound.min(queue.max_applications);
            }
            let limits = queue.limits.iter().filter(|limit| !own && concerns(limit, refusal));
            bound = limits.map(|limit| limit.max_applications).filter(|max| *max > 0).fold(bound, u64::min);
        }
        if bound <= max {
            return;
        }
        let edit = |max: u64| Edit::LimitApplications { queue: refusal.queue.clone(), entry, max };
        let need = refusal.applications + 1;
        let least = (need > max && need <= bound).then(|| edit(need));
        let (app, one) = (self.app, partition.share(&self.wanted));
        let reached = |then: &Partition| Some(edit(used_of(then, app, refusal)?.applications.max(max + 1)));
        self.raise(least, edit(bound), reached, |edit| one * more(edit, max));
    }
}

/// The same limit in another state.
fn used_of(partition: &Partition, app: AppIx, same: &LimitRefusal) -> Option<LimitRefusal> {
    let bounds = partition.ugm.bounds(partition.apps[app].track?);
    bounds.into_iter().find(|other| (other.who, &other.name, &other.queue) == (same.who, &same.name, &same.queue))
}

/// The configured queues from root to this one, with their paths.
fn levels<'a>(conf: &'a PartitionConf, path: &str) -> Vec<(&'a QueueConf, Arc<str>)> {
    let mut levels = vec![(&conf.root, Arc::from("root"))];
    let mut here = String::from("root");
    for part in path.split('.').skip(1) {
        let next = levels.last().and_then(|(queue, _)| queue.children.iter().find(|child| *child.name == *part));
        let Some(next) = next else { break };
        here = format!("{here}.{part}");
        levels.push((next, here.as_str().into()));
    }
    levels
}

fn names(limit: &LimitConf, who: Who) -> &[Arc<str>] {
    match who {
        Who::User => &limit.users,
        Who::Group => &limit.groups,
    }
}

/// It names the same user or group, or all of them.
fn concerns(limit: &LimitConf, refusal: &LimitRefusal) -> bool {
    names(limit, refusal.who).iter().any(|name| **name == *refusal.name || &**name == "*")
}

/// Which entry of the configuration the limit is: the one that names the user or group, else that of all others.
fn entry_of(conf: &PartitionConf, refusal: &LimitRefusal) -> Option<usize> {
    let levels = levels(conf, &refusal.queue);
    let (queue, _) = levels.last().filter(|(_, path)| **path == *refusal.queue)?;
    let named = |wanted: &str| {
        queue.limits.iter().position(|limit| names(limit, refusal.who).iter().any(|name| **name == *wanted))
    };
    named(&refusal.name).or_else(|| named("*"))
}
