//! Once a second: asks that wait only for nodes are told to the shim, so that it can add some (R4.38–R4.40, QUE-032). A second
//! in which nothing could be told is left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Cx, Partition, deadlines::Deadline};
use crate::coded::list;
use crate::{
    alloc::Phase,
    app::{AskGroup, GroupKey},
    effect::{Callback, ContainerState},
    resources::{Resource, min_limit},
    types::{AllocIx, AppIx, Nanos, QueueIx},
    ugm::Taken,
};

/// Asks of one queue and size that wait only for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Path of the leaf.
    pub queue: Arc<str>,
    /// Size of each of them: memory in bytes, vcore in milli.
    pub resource: Arc<Resource>,
    /// Their number.
    pub asks: u64,
    /// Number of the applications that they belong to.
    pub applications: u64,
    /// Highest priority among them.
    pub priority: i32,
    /// Creation time of the oldest.
    pub since: Nanos,
}

/// Between two inspections.
const INTERVAL: Nanos = Nanos::from_secs(1);

/// When asks are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inspection {
    /// Inspections are whole seconds after this.
    began: Nanos,
    /// The next one is among the deadlines.
    planned: bool,
    /// Something changed since the last one that may have made an ask one to be told of.
    pub news: bool,
}

impl Inspection {
    pub fn beginning(now: Nanos) -> Inspection {
        Inspection { began: now, planned: false, news: false }
    }
}

/// Applications with asks to look at, by leaf, and the queues on the way to these.
#[derive(Default)]
struct ToLook {
    apps: BTreeMap<QueueIx, Vec<AppIx>>,
    below: BTreeMap<QueueIx, BTreeSet<QueueIx>>,
}

/// What was found so far.
#[derive(Default)]
struct Found {
    asks: Vec<AllocIx>,
    /// What it takes of the limits of users and groups: those of several applications share them.
    taken: Taken,
}

/// A queue and the amounts that an ask of it wants.
type Size<'a> = (Arc<str>, Vec<(&'a str, i64)>);

impl Partition {
    /// What waits only for lack of nodes: within the limits of queues and users, with no placeholder to replace, no required
    /// node, and nothing preempted for it (R4.38, R4.40). By queue, then by size, the largest number first.
    pub fn demand(&self) -> Vec<Demand> {
        let mut found = Found::default();
        let waiting = self.to_look(self.apps.keys());
        self.inspect_queue(self.root, None, (&waiting, true), &mut found);
        let mut by_size: BTreeMap<Size<'_>, (Demand, BTreeSet<AppIx>)> = BTreeMap::new();
        for alloc in found.asks {
            let row = &self.allocs[alloc];
            let queue = self.queue_path(alloc);
            let (demand, apps) = by_size.entry((queue.clone(), row.resource.named())).or_insert_with(|| {
                let (resource, priority, since) = (row.resource.clone(), row.spec.priority, row.created);
                (Demand { queue, resource, asks: 0, applications: 0, priority, since }, BTreeSet::new())
            });
            demand.asks += 1;
            demand.priority = demand.priority.max(row.spec.priority);
            demand.since = demand.since.min(row.created);
            apps.insert(row.app);
            demand.applications = apps.len() as u64;
        }
        let mut demands: Vec<Demand> = by_size.into_values().map(|(demand, _)| demand).collect();
        demands.sort_by(|a, b| a.queue.cmp(&b.queue).then(b.asks.cmp(&a.asks)));
        demands
    }

    /// Sets the time of the next inspection, where one may find something.
    pub(super) fn plan_inspection(&mut self, now: Nanos) {
        let wanted = self.inspection.news || self.has_refusals();
        if wanted && !self.inspection.planned && self.queues[self.root].pending.is_positive() {
            let passed = now.minus(self.inspection.began).0.div_euclid(INTERVAL.0);
            let at = Nanos(self.inspection.began.0 + (passed + 1) * INTERVAL.0);
            self.inspection.planned = true;
            self.deadlines.add(at, Deadline::Inspect);
        }
    }

    /// An ask is tried: it may wait only for nodes from now on (R4.37).
    pub(super) fn note_attempt(&mut self, alloc: AllocIx) {
        let row = &mut self.allocs[alloc];
        if row.attempted {
            return;
        }
        row.attempted = true;
        let (app, unreported) = (row.app, row.is_unreported());
        self.inspection.news = true;
        // The shim may have been told of it before a question about it that nobody answered.
        if unreported {
            self.count_unreported(alloc, true);
            self.note_untold(app);
        }
    }

    /// An application has an ask that was tried, and of which the shim was not told.
    pub(super) fn note_untold(&mut self, app: AppIx) {
        if !self.apps[app].untold {
            self.apps[app].untold = true;
            self.untold.insert(app);
        }
    }

    /// Lists those that have one, in what was read.
    pub(super) fn find_untold(&mut self) {
        for app in self.apps.keys() {
            if self.has_untold(app) {
                self.note_untold(app);
            }
        }
    }

    fn has_untold(&self, app: AppIx) -> bool {
        self.apps[app].groups_by_key.values().any(|group| group.unreported > 0)
    }

    /// Lets go of those that have none any more.
    fn sift_untold(&mut self) {
        for app in self.untold.clone() {
            if !self.has_untold(app) {
                self.apps[app].untold = false;
                self.untold.remove(&app);
            }
        }
    }

    fn to_look(&self, apps: impl IntoIterator<Item = AppIx>) -> ToLook {
        let mut to_look = ToLook::default();
        for app in apps.into_iter().filter(|app| self.apps[*app].order.is_some()) {
            let mut queue = self.apps[app].queue;
            to_look.apps.entry(queue).or_default().push(app);
            while let Some(parent) = self.queues[queue].parent
                && to_look.below.entry(parent).or_default().insert(queue)
            {
                queue = parent;
            }
        }
        to_look
    }

    /// A pending ask became one that is unreported, or ceased to be one.
    fn count_unreported(&mut self, alloc: AllocIx, more: bool) {
        if self.allocs[alloc].phase == Phase::Pending {
            let (key, app) = (self.group_key(alloc), self.allocs[alloc].app);
            if let Some(group) = self.apps[app].groups_by_key.get_mut(&key) {
                debug_assert!(more || group.unreported > 0, "asks that are not told of");
                group.unreported = if more { group.unreported + 1 } else { group.unreported.saturating_sub(1) };
            }
        }
    }

    pub(super) fn inspect(&mut self, cx: &mut Cx) {
        self.inspection.planned = false;
        self.inspection.news = false;
        self.forget_old_refusals(cx.now);
        if !self.queues[self.root].pending.is_positive() {
            return;
        }
        self.sift_untold();
        let mut found = Found::default();
        let untold = self.to_look(self.untold.iter().copied());
        self.inspect_queue(self.root, None, (&untold, false), &mut found);
        // What is told of now uses up no more room of other applications: more may be found the next time.
        self.inspection.news = !found.asks.is_empty();
        for alloc in found.asks {
            self.count_unreported(alloc, false);
            let row = &mut self.allocs[alloc];
            row.triggered_scale_up = true;
            let (key, app) = (row.spec.key.clone(), row.app);
            cx.callback(Callback::ContainerState {
                app: self.apps[app].id.clone(),
                key,
                state: ContainerState::Failed,
                reason: "request is waiting for cluster resources become available".into(),
            });
        }
    }

    /// Collects below a queue what fits `above`, the headroom of the levels over it; gives what it took. `again`: also what
    /// the shim was told of before.
    fn inspect_queue(
        &self,
        queue: QueueIx,
        above: Option<&Resource>,
        (to_look, again): (&ToLook, bool),
        found: &mut Found,
    ) -> Resource {
        let row = &self.queues[queue];
        let mut taken = Resource::new();
        if !row.pending.is_positive() {
            return taken;
        }
        let own = if queue == self.root { None } else { row.max.as_ref().map(|max| max.minus_known(&row.allocated)) };
        let mut headroom = min_limit(own.as_ref(), above);
        let mut children: Vec<QueueIx> = to_look.below.get(&queue).into_iter().flatten().copied().collect();
        children.sort_by_key(|child| (self.queues[*child].order, &self.queues[*child].path));
        for child in children {
            let used = self.inspect_queue(child, headroom.as_ref(), (to_look, again), found);
            headroom = headroom.map(|h| h.minus_known(&used));
            taken.add(&used);
        }
        if !row.leaf {
            // CFG-102: no node helps what waits until its queue is a leaf again.
            return taken;
        }
        let mut apps = to_look.apps.get(&queue).cloned().unwrap_or_default();
        apps.sort_by(|a, b| self.apps[*a].order.cmp(&self.apps[*b].order));
        for app in apps {
            let used = self.inspect_app(app, headroom.as_ref(), again, found);
            headroom = headroom.map(|h| h.minus_known(&used));
            taken.add(&used);
        }
        taken
    }

    /// Every fitting ask uses up headroom for the later asks of its application; only reported ones do for others.
    fn inspect_app(&self, app: AppIx, headroom: Option<&Resource>, again: bool, found: &mut Found) -> Resource {
        let row = &self.apps[app];
        if again && self.may_not_begin(app) {
            // No node helps an application that may not begin.
            return Resource::new();
        }
        let mut left = headroom.cloned();
        let mut user_left = row.track.and_then(|track| self.ugm.headroom_after(track, &found.taken));
        let mut reported = Resource::new();
        let fits = |limit: &Option<Resource>, need: &Resource| limit.as_ref().is_none_or(|l| l.fits_or_unlimited(need));
        // Most applications have nothing to tell of, and are not looked at ask by ask.
        let may_be_told = |key: &GroupKey, group: &AskGroup| {
            let need = self.shapes.resource(key.shape);
            key.required_node.is_none() && group.unreported > 0 && fits(&left, need) && fits(&user_left, need)
        };
        if !again && !row.groups_by_key.iter().any(|(key, group)| may_be_told(key, group)) {
            return reported;
        }
        let mut asks: Vec<_> = row.groups_by_key.values().flat_map(|group| group.asks.iter()).collect();
        asks.sort_unstable_by_key(|(order, _)| **order);
        for (_, alloc) in asks {
            let ask = &self.allocs[*alloc];
            if !ask.attempted
                || ask.paused_until().is_some()
                || !fits(&left, &ask.resource)
                || !fits(&user_left, &ask.resource)
            {
                continue;
            }
            left = left.map(|l| l.minus_known(&ask.resource));
            user_left = user_left.map(|l| l.minus_known(&ask.resource));
            let group = row.gang.task_groups.get(&ask.spec.task_group);
            let replaces = !ask.is_placeholder() && group.is_some_and(|group| group.replaceable_later() > 0);
            let known = ask.triggered_scale_up && !again;
            if ask.spec.required_node.is_none() && !known && !replaces && !self.has_claim(*alloc) {
                found.asks.push(*alloc);
                reported.add(&ask.resource);
            }
        }
        if let Some(track) = row.track.filter(|_| !reported.is_empty()) {
            self.ugm.take(track, &reported, &mut found.taken);
        }
        reported
    }
}

list!(Inspection { began, planned, news });
