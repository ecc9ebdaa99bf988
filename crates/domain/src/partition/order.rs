//! Orders that are kept up to date by what changes them: children of a queue by priority and share, applications of a leaf
//! by its sort policy. A change marks a row; `settle` recomputes the keys of marked rows, deepest queues first.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::Partition;
use crate::coded::list;
use crate::{
    app::AppKey,
    node_index::sortable,
    queue::ChildKey,
    resources::{Resource, ResourceType, Walk, float},
    run::Run,
    sorted::Sorted,
    types::{AppIx, ObjectState, QueueIx},
};

/// Rows whose keys are to be computed again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirty {
    /// Every row.
    all: bool,
    /// Every row that is ordered by a share of the cluster.
    shares: bool,
    apps: Vec<AppIx>,
    /// By depth.
    queues: Vec<Vec<QueueIx>>,
}

/// The place that something had, and that it has now.
pub(super) type Moved<'a, K> = (Option<&'a K>, Option<&'a K>);

/// What shares of a queue are measured against, for types in order: own guaranteed, else the nearest max on the path (R5.14, QUE-033).
struct Wholes<'a> {
    guaranteed: Option<Walk<'a>>,
    maxima: SmallVec<[Walk<'a>; 4]>,
}

impl Wholes<'_> {
    fn get(&mut self, kind: &ResourceType) -> Option<i128> {
        let own = self.guaranteed.as_mut().and_then(|guaranteed| guaranteed.get(kind));
        own.or_else(|| self.maxima.iter_mut().find_map(|max| max.get(kind)))
    }
}

/// A priority as an integer that sorts the highest first.
fn descending(priority: i32) -> u64 {
    u64::from(u32::MAX - (priority.wrapping_sub(i32::MIN) as u32))
}

impl Partition {
    /// Something that an application's place in the order depends on has changed.
    pub(super) fn touch_app(&mut self, app: AppIx) {
        self.inspection.news = true;
        if !self.apps[app].dirty {
            self.apps[app].dirty = true;
            self.dirty.apps.push(app);
        }
    }

    /// Something that a queue's place in the order depends on has changed.
    pub(super) fn touch_queue(&mut self, queue: QueueIx) {
        self.inspection.news = true;
        let row = &self.queues[queue];
        if !row.dirty {
            let depth = row.depth as usize;
            self.queues[queue].dirty = true;
            if self.dirty.queues.len() <= depth {
                self.dirty.queues.resize(depth + 1, Vec::new());
            }
            self.dirty.queues[depth].push(queue);
        }
    }

    /// Everything is computed again: the configuration changed.
    pub(super) fn touch_all(&mut self) {
        self.inspection.news = true;
        self.dirty.all = true;
    }

    /// All shares are computed again: the size of the cluster changed.
    pub(super) fn touch_shares(&mut self) {
        self.dirty.shares = true;
    }

    fn mark_all(&mut self, shares_only: bool) {
        for ix in self.queues.keys() {
            // The order of applications by submission has no shares in it.
            let by_share = self.queues[ix].settings.sort_fair;
            self.touch_queue(ix);
            if shares_only && !by_share {
                continue;
            }
            let apps: Vec<AppIx> = self.queues[ix].apps.iter().copied().collect();
            for app in apps {
                self.touch_app(app);
            }
        }
    }

    /// Brings all orders and priorities up to date.
    pub(super) fn settle(&mut self) {
        let (all, shares) = (std::mem::take(&mut self.dirty.all), std::mem::take(&mut self.dirty.shares));
        if all || shares {
            self.mark_all(!all);
        }
        while let Some(app) = self.dirty.apps.pop() {
            self.settle_app(app);
        }
        for depth in (0..self.dirty.queues.len()).rev() {
            while let Some(queue) = self.dirty.queues[depth].pop() {
                self.settle_queue(queue);
            }
        }
    }

    fn settle_app(&mut self, ix: AppIx) {
        let row = &mut self.apps[ix];
        row.dirty = false;
        if row.is_free() {
            return;
        }
        let old = row.priority;
        row.priority = row.priorities.last_key_value().map_or(i32::MIN, |(priority, _)| *priority);
        let (new, queue) = (row.priority, row.queue);
        let key = self.apps[ix].pending.is_positive().then(|| self.app_key(ix));
        // What waits in a queue that has become a parent raises nobody's priority (CFG-102).
        if old != new && self.queues[queue].leaf {
            let queue_row = &mut self.queues[queue];
            count_down(&mut queue_row.priorities, old);
            count_up(&mut queue_row.priorities, new);
            self.touch_queue(queue);
        }
        if self.apps[ix].order != key {
            if self.apps[ix].parked.is_some() {
                // With another place it is tried as any other.
                self.unblock_app(ix);
            }
            let row = &mut self.apps[ix];
            let blocked = row.blocked;
            let old = std::mem::replace(&mut row.order, key.clone());
            for asks in [&mut self.ripe, &mut self.elsewhere] {
                asks.app_moved(queue, ix, (old.as_ref(), key.as_ref()));
            }
            if !blocked {
                take_place(&mut self.queues[queue].app_order, old.as_ref(), key, ix);
            }
        }
    }

    /// An application leaves its queue's order and priorities.
    pub(super) fn leave_order(&mut self, ix: AppIx) {
        let row = &mut self.apps[ix];
        let (priority, queue) = (row.priority, row.queue);
        row.priority = i32::MIN;
        let queue_row = &mut self.queues[queue];
        if queue_row.leaf {
            count_down(&mut queue_row.priorities, priority);
        }
        if let Some(key) = row.order.take() {
            queue_row.app_order.remove(&key);
            self.unpark(ix, Some(&key));
        }
        self.touch_queue(queue);
    }

    fn app_key(&self, ix: AppIx) -> AppKey {
        let row = &self.apps[ix];
        let queue = &self.queues[row.queue];
        let priority = descending(row.priority);
        let second = if queue.settings.sort_fair {
            self.app_shares(row.queue, &row.allocated)
        } else {
            let (submission, place) = row.age();
            SmallVec::from_slice(&[submission.0.wrapping_sub(i64::MIN) as u64, place])
        };
        let (first, third) = if queue.settings.sort_priority { (priority, 0) } else { (0, priority) };
        AppKey { first, second, third, serial: row.serial }
    }

    /// Shares of an application's usage in what its queue is guaranteed, or may have at most, the largest first (R5.21;
    /// QUE-076 for the second).
    fn app_shares(&self, queue: QueueIx, used: &Resource) -> SmallVec<[u64; 2]> {
        let mut wholes = self.wholes(queue);
        let mut shares: Vec<f64> = used
            .iter()
            .filter(|(_, amount)| *amount != 0)
            .map(|(kind, amount)| match wholes.get(kind) {
                Some(whole) if whole > 0 => float(amount) / float(whole),
                _ => float(amount),
            })
            .collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        shares.into_iter().map(sortable).collect()
    }

    fn settle_queue(&mut self, ix: QueueIx) {
        let row = &mut self.queues[ix];
        row.dirty = false;
        if row.is_free() {
            return;
        }
        row.priority = row.priorities.last_key_value().map_or(i32::MIN, |(priority, _)| *priority);
        let exposed = row.settings.exposed(row.priority);
        let old = std::mem::replace(&mut row.exposed_priority, exposed);
        let waits = row.pending.is_positive() && row.state != ObjectState::Stopped;
        let Some(parent) = row.parent else { return };
        if old != exposed {
            let parent_row = &mut self.queues[parent];
            count_down(&mut parent_row.priorities, old);
            count_up(&mut parent_row.priorities, exposed);
            self.touch_queue(parent);
        }
        let key = waits.then(|| self.child_key(ix, parent));
        let row = &mut self.queues[ix];
        if row.order != key {
            let old = std::mem::replace(&mut row.order, key);
            let blocked = row.blocked;
            for asks in [&mut self.ripe, &mut self.elsewhere] {
                asks.queue_moved(parent, ix, (old.as_ref(), key.as_ref()));
            }
            if !blocked {
                take_place(&mut self.queues[parent].child_order, old.as_ref(), key, ix);
            }
        }
    }

    /// A queue leaves its parent's order and priorities.
    pub(super) fn leave_parent(&mut self, ix: QueueIx) {
        let row = &mut self.queues[ix];
        let (exposed, key) = (row.exposed_priority, row.order.take());
        let Some(parent) = row.parent else { return };
        let parent_row = &mut self.queues[parent];
        count_down(&mut parent_row.priorities, exposed);
        if let Some(key) = key {
            parent_row.child_order.remove(&key);
        }
        self.touch_queue(parent);
    }

    fn child_key(&self, ix: QueueIx, parent: QueueIx) -> ChildKey {
        let row = &self.queues[ix];
        let priority = descending(row.exposed_priority);
        let share = sortable(self.fair_share(ix));
        let (first, second) =
            if self.queues[parent].settings.sort_priority { (priority, share) } else { (share, priority) };
        ChildKey { first, second, third: -row.pending.total(), queue: ix }
    }

    /// Fair share of a queue: the largest ratio of usage to guaranteed, or to what it may have at most (R5.13, RES-062).
    pub(super) fn fair_share(&self, ix: QueueIx) -> f64 {
        let row = &self.queues[ix];
        let (mut share, mut wholes) = (0.0_f64, self.wholes(ix));
        for (kind, used) in row.allocated.iter().filter(|(_, used)| *used >= 0) {
            let Some(whole) = wholes.get(kind) else { continue };
            let ratio = if whole <= 0 { f64::from(u8::from(used > 0)) } else { float(used) / float(whole) };
            share = share.max(ratio);
        }
        share
    }

    /// What shares of a queue are measured against.
    fn wholes(&self, queue: QueueIx) -> Wholes<'_> {
        let guaranteed = self.queues[queue].guaranteed.as_deref().map(Resource::walk);
        let mut maxima = SmallVec::new();
        // A cluster of unknown size limits nothing.
        if self.queues[self.root].max.is_some() {
            let walks = self.path(queue).filter_map(|ix| self.queues[ix].max.as_deref().map(Resource::walk));
            walks.for_each(|walk| maxima.push(walk));
        }
        Wholes { guaranteed, maxima }
    }

    /// A place in the ask order (R5.22).
    pub(super) fn ask_order(&self, alloc: crate::types::AllocIx) -> crate::app::AskOrder {
        let row = &self.allocs[alloc];
        crate::app::AskOrder { priority: Reverse(row.spec.priority), created: row.created, seq: row.seq }
    }
}

/// Something has another place in an order, its first, or none any more.
fn take_place<K: Ord + Clone, V: Copy>(order: &mut Run<K, V>, old: Option<&K>, new: Option<K>, what: V) {
    match (old, new) {
        (Some(old), Some(new)) => order.rekey(old, new),
        (Some(old), None) => _ = order.remove(old),
        (None, Some(new)) => order.insert(new, what),
        (None, None) => {}
    }
}

/// Counts a priority; the minimum stands for "none" and is not counted.
pub(super) fn count_up(counts: &mut Sorted<i32, u32>, priority: i32) {
    if priority != i32::MIN {
        *counts.or_default(&priority) += 1;
    }
}

/// Counts a priority no more.
pub(super) fn count_down(counts: &mut Sorted<i32, u32>, priority: i32) {
    if let Some(count) = counts.get_mut(&priority) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&priority);
        }
    }
}

list!(Dirty { all, shares, apps, queues });
