//! What is pending, in the order in which it is tried, and what is out of that order because it cannot be placed now.
//!
//! Asks of an application that agree in everything that decides a placement form a group, and are tried once for all. What
//! was tried without success is *blocked*: a group leaves its application's order, an application without another group its
//! queue's, a queue without another application its parent's, so that nothing is walked past again and again. It comes
//! back when the partition's epoch has moved on, or when something is added below it.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Partition,
    order::{count_down, count_up},
};
use crate::{
    app::{AskGroup, GroupKey, Heads},
    types::{AllocIx, AppIx, Nanos, QueueIx},
};

impl Partition {
    pub(super) fn group_key(&self, alloc: AllocIx) -> GroupKey {
        let row = &self.allocs[alloc];
        GroupKey {
            shape: row.shape,
            placeholder: row.is_placeholder(),
            task_group: row.spec.task_group.clone(),
            required_node: row.spec.required_node.clone(),
            originator: row.spec.originator,
            paused: row.paused_until().is_some(),
        }
    }

    /// An ask waits from now on: it takes its place in the order, and counts as pending.
    pub(super) fn enqueue(&mut self, alloc: AllocIx) {
        let key = self.group_key(alloc);
        let order = self.ask_order(alloc);
        let row = &self.allocs[alloc];
        let (app_ix, resource, priority, placeholder) =
            (row.app, row.resource.clone(), row.spec.priority, row.is_placeholder());
        if let Some(node) = &key.required_node {
            *self.required_asks.entry((node.clone(), app_ix)).or_default() += 1;
        }
        let due = self.preempt_due(alloc);
        let unreported = row.is_unreported();
        if placeholder {
            // Real asks that hold a node may have to leave it to this one.
            self.ripen_all_of(app_ix);
        }
        let app = &mut self.apps[app_ix];
        count_up(&mut app.priorities, priority);
        if !app.groups_by_key.contains_key(&key) {
            app.groups_by_key.insert(Arc::new(key.clone()), Box::default());
        }
        let Some((key, group)) = app.groups_by_key.get_entry_mut(&key) else { return };
        let head = group.asks.get_min().map(|(order, _)| *order);
        group.asks.insert(order, alloc);
        if group.hold.is_some() {
            group.fresh.insert(order, alloc);
        }
        group.preempt_at = group.preempt_at.min(due);
        if let Some((_, again)) = group.preempted_up_to.as_deref_mut().filter(|(last, _)| order < *last) {
            *again = due.min(*again);
        }
        group.unreported += usize::from(unreported);
        let was_blocked = std::mem::take(&mut group.blocked);
        if was_blocked {
            app.failed_groups.remove(key);
        }
        // One more behind others changes no place.
        let leads = head.is_none_or(|head| order < head);
        if leads && key.may_replace() {
            let Heads(heads) = &mut app.gang.replacing;
            if let Some(head) = head {
                heads.remove(&head);
            }
            heads.insert(order, key.clone());
        }
        if leads || was_blocked {
            let first = head.map_or(order, |head| head.min(order));
            match head.filter(|_| !was_blocked) {
                Some(head) => app.group_order.rekey(&head, first),
                None => app.group_order.insert(first, key.clone()),
            }
        }
        if unreported {
            self.note_untold(app_ix);
        }
        let app = &mut self.apps[app_ix];
        let swappable = !placeholder && !app.gang.replaceable.is_empty();
        if app.gang.replaced_up_to.is_some_and(|looked| order <= looked) {
            app.gang.replaced_up_to = None;
        }
        if placeholder {
            self.placeholder_waits(app_ix, &resource, true);
        }
        self.count_pending(app_ix, &resource, true);
        self.rouse(app_ix);
        if swappable {
            self.swappable.insert(app_ix);
        }
    }

    /// An ask no longer waits.
    pub(super) fn dequeue(&mut self, alloc: AllocIx) {
        let key = self.group_key(alloc);
        let order = self.ask_order(alloc);
        let row = &self.allocs[alloc];
        let (app_ix, resource, priority, placeholder) =
            (row.app, row.resource.clone(), row.spec.priority, row.is_placeholder());
        if let Some(node) = &key.required_node {
            let of = (node.clone(), app_ix);
            match self.required_asks.get_mut(&of) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    self.required_asks.remove(&of);
                }
            }
        }
        let unreported = row.is_unreported();
        self.not_elsewhere(alloc);
        let app = &mut self.apps[app_ix];
        count_down(&mut app.priorities, priority);
        if let Some((shared, group)) = app.groups_by_key.get_entry_mut(&key) {
            let was_head = group.asks.get_min().is_some_and(|(head, _)| *head == order);
            group.asks.remove(&order);
            group.fresh.written(|fresh| fresh.remove(&order));
            group.unreported -= usize::from(unreported);
            let (next, blocked) = (group.asks.get_min().map(|(head, _)| *head), group.blocked);
            if was_head && !blocked {
                match next {
                    Some(next) => app.group_order.rekey(&order, next),
                    None => _ = app.group_order.remove(&order),
                }
            }
            if was_head && key.may_replace() {
                let Heads(heads) = &mut app.gang.replacing;
                heads.remove(&order);
                if let Some(next) = next {
                    heads.insert(next, shared.clone());
                }
            }
            if next.is_none() {
                let wants = group.wants;
                app.groups_by_key.remove(&key);
                app.failed_groups.remove(&key);
                app.blocked_groups.remove(&key);
                if let Some(created) = wants {
                    self.wanting.remove((app.queue, key.shape), &(created, app_ix, key.clone()));
                }
            }
        }
        if placeholder {
            self.placeholder_waits(app_ix, &resource, false);
        }
        self.count_pending(app_ix, &resource, false);
        if self.is_parked_for(app_ix, key.shape)
            && !self.apps[app_ix].groups_by_key.keys().any(|other| other.shape == key.shape)
        {
            // Its number may be that of another shape soon.
            self.rouse(app_ix);
        }
    }

    /// A group cannot be placed in this epoch.
    pub(super) fn block_group(&mut self, app: AppIx, key: &Arc<GroupKey>) {
        let row = &mut self.apps[app];
        if let Some(group) = row.groups_by_key.get_mut(key)
            && !group.blocked
        {
            group.blocked = true;
            if let Some((head, _)) = group.asks.get_min() {
                row.group_order.remove(head);
            }
            row.blocked_groups.insert(key.clone());
            let hold = group.hold;
            self.note_blocked(app, hold);
            self.note_failed(app, key, hold);
        }
    }

    /// All groups that were blocked come back.
    pub(super) fn unblock_groups(&mut self, app: AppIx) {
        let row = &mut self.apps[app];
        row.failed_groups.clear();
        for key in std::mem::take(&mut row.blocked_groups) {
            self.unblock_group(app, &key);
        }
    }

    /// One that was blocked comes back.
    pub(super) fn unblock_group(&mut self, app: AppIx, key: &Arc<GroupKey>) {
        let row = &mut self.apps[app];
        row.failed_groups.remove(key);
        row.blocked_groups.remove(key);
        if let Some(group) = row.groups_by_key.get_mut(key)
            && group.blocked
        {
            group.blocked = false;
            if let Some((head, _)) = group.asks.get_min() {
                row.group_order.insert(*head, key.clone());
            }
        }
    }

    /// An application cannot be placed in this epoch.
    pub(super) fn block_app(&mut self, app: AppIx) {
        let row = &mut self.apps[app];
        if row.blocked {
            return;
        }
        row.blocked = true;
        let (queue, key) = (row.queue, row.order.clone());
        let row = &mut self.queues[queue];
        if let Some(key) = key {
            row.app_order.remove(&key);
        }
        row.blocked_apps.insert(app);
    }

    pub(super) fn unblock_app(&mut self, app: AppIx) {
        let row = &mut self.apps[app];
        if row.blocked {
            row.blocked = false;
            let (queue, key) = (row.queue, row.order.clone().filter(|_| !row.is_free()));
            self.unpark(app, key.as_ref());
            if let Some(key) = key {
                self.queues[queue].app_order.insert(key, app);
            }
        }
    }

    /// A queue cannot be placed in this epoch.
    pub(super) fn block_queue(&mut self, queue: QueueIx) {
        let row = &mut self.queues[queue];
        let Some(parent) = row.parent else { return };
        if row.blocked {
            return;
        }
        row.blocked = true;
        let key = row.order;
        let row = &mut self.queues[parent];
        if let Some(key) = key {
            row.child_order.remove(&key);
        }
        row.blocked_children.insert(queue);
    }

    fn unblock_queue(&mut self, queue: QueueIx) {
        let row = &mut self.queues[queue];
        if row.blocked {
            row.blocked = false;
            if let (Some(parent), Some(key), false) = (row.parent, row.order, row.is_free()) {
                self.queues[parent].child_order.insert(key, queue);
            }
        }
    }

    /// Brings back what was blocked below a queue in an earlier epoch.
    pub(super) fn sync_queue(&mut self, queue: QueueIx, now: Nanos) {
        let epoch = self.epoch;
        let row = &mut self.queues[queue];
        if row.blocked_in != epoch {
            row.blocked_in = epoch;
            let (children, apps) = (std::mem::take(&mut row.blocked_children), std::mem::take(&mut row.blocked_apps));
            for child in children {
                self.unblock_queue(child);
            }
            for app in apps {
                let row = &self.apps[app];
                if row.parked.is_none() && (!row.blocked || !self.park(app, now)) {
                    self.unblock_app(app);
                }
            }
        }
    }

    /// Brings back the groups that were blocked in an earlier epoch, but for those that would fail on nodes again.
    pub(super) fn sync_app(&mut self, app: AppIx, now: Nanos) {
        let epoch = self.epoch;
        let row = &mut self.apps[app];
        if row.blocked_in == epoch {
            return;
        }
        row.blocked_in = epoch;
        let (shapes, preempts) = (&self.shapes, self.conf.preemption);
        // Of one that requires its node, and waits with its gang for nodes, a shape says nothing: that node may be drained.
        let in_vain = |key: &GroupKey, group: &AskGroup| {
            key.required_node.is_none() && group.waits_for_nodes(preempts, now) && shapes.is_nowhere(key.shape)
        };
        let mut left = BTreeSet::new();
        for key in std::mem::take(&mut row.blocked_groups) {
            let Some(group) = row.groups_by_key.get_mut(&key).filter(|group| group.blocked) else { continue };
            if in_vain(&key, group) {
                left.insert(key);
                continue;
            }
            group.blocked = false;
            row.failed_groups.remove(&key);
            if let Some((head, _)) = group.asks.get_min() {
                row.group_order.insert(*head, key);
            }
        }
        row.blocked_groups = left;
    }

    /// An application is to be looked at again, and so are the queues above it.
    pub(super) fn rouse(&mut self, app: AppIx) {
        self.unblock_app(app);
        self.rouse_queue(self.apps[app].queue);
    }

    /// A queue is to be looked at again, and so are those above it.
    pub(super) fn rouse_queue(&mut self, queue: QueueIx) {
        let mut next = Some(queue);
        while let Some(ix) = next {
            let row = &self.queues[ix];
            next = row.parent;
            if row.blocked {
                self.unblock_queue(ix);
            }
        }
    }

    /// All groups of an application are to be tried again.
    pub(super) fn rouse_groups(&mut self, app: AppIx) {
        if self.apps[app].is_free() {
            return;
        }
        self.unblock_groups(app);
        self.rouse(app);
        let row = &self.apps[app];
        if !row.gang.replaceable.is_empty() && !row.pending.is_zero() {
            self.look_for_swaps(app);
        }
    }

    /// A queue is this ancestor, or below it.
    pub(super) fn is_below(&self, queue: QueueIx, ancestor: QueueIx) -> bool {
        for ix in self.path(queue) {
            if ix == ancestor {
                return true;
            }
        }
        false
    }
}
