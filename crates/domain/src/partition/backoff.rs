//! Back-off: an application whose asks fail on nodes again and again is left alone for a while, where its queue says so (R5.26).
//!
//! Asks that failed earlier count as long as they are blocked, since they would fail again. They are found by an index of
//! their groups, so that others that wait cost nothing here; of them only so many are looked at as the queue's property says.
//!
//! An ask whose allocations the shim cannot carry out pauses alone, in a group of its own kind, so that others of its application
//! do not wait for it (R4.28).

use std::{collections::BinaryHeap, sync::Arc};

use super::Partition;
use crate::{
    alloc::Failures,
    app::{App, AskOrder, GroupKey, Hold},
    types::{AllocIx, AppIx, Nanos},
};

/// The longest pause after failures; what lasted as long before it failed did not fail at once.
const LONGEST: Nanos = Nanos::from_secs(60);

/// The first asks of an application that failed on nodes, as many as set off its back-off.
pub(super) struct Failed {
    limit: usize,
    first: BinaryHeap<AskOrder>,
    /// There are others after them.
    more: bool,
}

impl Failed {
    /// A group failed. One that requires a node does not count.
    pub(super) fn add(&mut self, key: &GroupKey, app: &App) {
        let Some(group) = app.groups_by_key.get(key).filter(|_| key.required_node.is_none()) else { return };
        for order in group.asks.keys() {
            self.first.push(*order);
            if self.first.len() > self.limit {
                self.more = true;
                if self.first.pop() == Some(*order) {
                    // So are those that come after it.
                    break;
                }
            }
        }
    }

    /// They are as many as set it off, and stand before the next ask that is to be tried, or another that failed.
    pub(super) fn are_enough_before(&self, next: Option<&AskOrder>) -> bool {
        self.first.len() == self.limit
            && match next {
                Some(next) => self.first.peek().is_some_and(|last| last < next),
                None => self.more,
            }
    }
}

impl Partition {
    /// How many asks of the application set off its back-off; `None`: its queue has none.
    fn backs_off_after(&self, app: AppIx) -> Option<usize> {
        let limit = self.queues[self.apps[app].queue].settings.backoff;
        (limit > 0).then(|| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// A group was blocked.
    pub(super) fn note_failed(&mut self, app: AppIx, key: &Arc<GroupKey>, hold: Option<Hold>) {
        if hold == Some(Hold::Nodes) && self.backs_off_after(app).is_some() {
            self.apps[app].failed_groups.insert(key.clone());
        }
    }

    /// The asks that failed and would fail again; `None` where there is no back-off.
    pub(super) fn failed_on_nodes(&self, app: AppIx) -> Option<Failed> {
        let mut failed = Failed { limit: self.backs_off_after(app)?, first: BinaryHeap::new(), more: false };
        let row = &self.apps[app];
        let still =
            |key: &&Arc<GroupKey>| row.groups_by_key.get(*key).is_some_and(|group| group.hold == Some(Hold::Nodes));
        row.failed_groups.iter().filter(still).for_each(|key| failed.add(key, row));
        Some(failed)
    }

    /// Too many asks failed on nodes: the application waits.
    pub(super) fn back_off(&mut self, app: AppIx, now: Nanos) {
        let queue = self.apps[app].queue;
        let until = now.plus(self.queues[queue].settings.backoff_delay);
        self.apps[app].backoff_until = Some(until);
        self.wake_at(app, until);
    }

    /// Its queue has another configuration: a back-off that has begun lasts no longer than one that would begin now (QUE-064).
    pub(super) fn shorten_back_off(&mut self, app: AppIx, now: Nanos) {
        let row = &self.apps[app];
        let Some(until) = row.backoff_until.filter(|_| !row.is_free()) else { return };
        self.apps[app].backoff_until = None;
        if self.backs_off_after(app).is_some() {
            self.back_off(app, now);
            let row = &mut self.apps[app];
            row.backoff_until = row.backoff_until.min(Some(until));
        }
    }

    /// The shim could not carry out an allocation that was on this node, and its ask is about to wait again: the first time in a row
    /// it is tried at once, then after 1 s, and after twice that time each up to the longest pause.
    pub(super) fn note_failure(&mut self, alloc: AllocIx, node: Arc<str>, now: Nanos) {
        let row = &mut self.allocs[alloc];
        let before = row.failures.take().filter(|_| now.minus(row.bound) < LONGEST).map_or(0, |before| before.count);
        let until = (before > 0).then(|| now.plus(Nanos::from_secs(1 << (before - 1).min(6)).min(LONGEST)));
        row.failures = Some(Box::new(Failures { count: before.saturating_add(1), node, until }));
        if let Some(until) = until {
            let app = row.app;
            self.wake_at(app, until);
        }
    }

    /// Asks whose pause is over wait as all others; the next is looked at in its time.
    pub(super) fn end_pauses(&mut self, app: AppIx, now: Nanos) {
        let groups = self.apps[app].groups_by_key.iter().filter(|(key, _)| key.paused);
        let paused: Vec<AllocIx> = groups.flat_map(|(_, group)| group.asks.values().copied()).collect();
        for alloc in paused {
            match self.allocs[alloc].paused_until() {
                Some(until) if until > now => self.wake_at(app, until),
                _ => {
                    self.dequeue(alloc);
                    self.allocs[alloc].failures.as_mut().map(|failures| failures.until.take());
                    self.enqueue(alloc);
                }
            }
        }
    }
}
