//! Back-off: an application whose asks fail on nodes again and again is left alone for a while, where its queue says so (R5.26).
//!
//! Asks that failed earlier count as long as they are blocked, since they would fail again. They are found by an index of
//! their groups, so that others that wait cost nothing here; of them only so many are looked at as the queue's property says.

use std::{collections::BinaryHeap, sync::Arc};

use super::Partition;
use crate::{
    app::{App, AskOrder, GroupKey, Hold},
    types::{AppIx, Nanos},
};

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
}
