//! A new configuration for a running partition: the whole of it at once (R1.15, R1.16, section 12 item 2 of the queue rules).

use std::{collections::BTreeSet, sync::Arc};

use super::order::{count_down, count_up};
use super::{Cx, Partition, preempt::is_above};
use crate::{
    conf::{PartitionConf, QueueConf},
    event::{Change, Detail, EventKind},
    queue::Queue,
    types::{Nanos, ObjectState, QueueIx},
};

impl Partition {
    /// Takes over a validated configuration. Nothing in here can fail, so it is applied as a whole.
    pub(super) fn reconfigure(&mut self, conf: Arc<PartitionConf>, cx: &mut Cx) {
        // What the shim is asked about is decided anew: its queue may be no leaf any more, or a limit lower.
        for question in self.open_questions().collect::<Vec<_>>() {
            self.unanswered(question, cx);
        }
        let old = std::mem::replace(&mut self.conf, conf.clone());
        self.update_queue(self.root, &conf.root, cx);
        self.update_children(self.root, &conf.root, cx);
        self.load_limits(cx);
        if old.node_sort != conf.node_sort {
            self.reindex_all();
        }
        self.touch_all();
        self.settle();
        for ix in self.apps.keys() {
            // Preemption delays may have changed.
            for group in self.apps[ix].groups_by_key.values_mut() {
                group.preempt_anew();
            }
            self.shorten_back_off(ix, cx.now);
            self.rouse_groups(ix);
        }
        if conf.quota_preemption && self.queues.values().any(|queue| queue.quota_start.is_some()) {
            self.watch_quotas(cx.now);
        }
        self.unblock();
        self.end_reservations_in_vain(true, cx);
    }

    fn update_children(&mut self, parent: QueueIx, conf: &QueueConf, cx: &mut Cx) {
        let mut named = BTreeSet::new();
        for child in &conf.children {
            named.insert(child.name.clone());
            match self.queues[parent].children.get(&child.name).copied() {
                Some(ix) => {
                    self.update_queue(ix, child, cx);
                    self.update_children(ix, child, cx);
                }
                None => {
                    self.add_managed(Some(parent), child, cx);
                }
            }
        }
        for (name, ix) in self.queues[parent].children.clone() {
            if !named.contains(&name) {
                self.drain_managed(ix, cx);
            }
        }
    }

    /// A managed queue that the configuration no longer names drains, with all managed ones below (CFG-100).
    fn drain_managed(&mut self, ix: QueueIx, cx: &mut Cx) {
        if !self.queues[ix].managed {
            return;
        }
        if self.queues[ix].state != ObjectState::Draining {
            let path = self.queues[ix].path.clone();
            cx.event(EventKind::Queue, &path, Change::Set, Detail::QueueConfig);
        }
        self.set_queue_state(ix, ObjectState::Draining, cx);
        for child in self.queues[ix].children.values().copied().collect::<Vec<_>>() {
            self.drain_managed(child, cx);
        }
    }

    /// One queue takes over its part; events in the order type, max, guaranteed (EVT-047).
    fn update_queue(&mut self, ix: QueueIx, conf: &QueueConf, cx: &mut Cx) {
        let before = self.queues[ix].clone();
        let path = before.path.clone();
        let leaf = !conf.parent && before.parent.is_some();
        if leaf != before.leaf {
            self.queues[ix].leaf = leaf;
            for app in before.apps.iter() {
                let priority = self.apps[*app].priority;
                let counts = &mut self.queues[ix].priorities;
                if leaf { count_up(counts, priority) } else { count_down(counts, priority) }
            }
            let text = format!("leaf queue: {leaf}");
            cx.message(EventKind::Queue, &path, &"".into(), (Change::Set, Detail::QueueType), &text, None);
        }
        self.queues[ix].managed = true;
        self.set_queue_state(ix, ObjectState::Active, cx);
        let (max, guaranteed) = (before.max.clone(), before.guaranteed.clone());
        self.configure_queue(ix, conf);
        if before.parent.is_some() {
            let row = &mut self.queues[ix];
            // Set through the functions that make the events.
            let new_max = std::mem::replace(&mut row.max, max);
            let new_guaranteed = std::mem::replace(&mut row.guaranteed, guaranteed);
            self.set_max(ix, new_max, &path, cx);
            self.set_guaranteed(ix, new_guaranteed, &path, cx);
            self.quota_clock_on_reload(ix, &before, cx.now);
        }
        if !self.queues[ix].is_configured_like(&before) {
            // EVT-04A
            cx.event(EventKind::Queue, &path, Change::Set, Detail::QueueConfig);
        }
    }

    /// The clock of quota preemption after a new configuration (QPR-003). A change that lowers some types and raises others
    /// counts as a lowering where a lowered type is exceeded (section 12 item 12 of the queue rules).
    fn quota_clock_on_reload(&mut self, ix: QueueIx, before: &Queue, now: Nanos) {
        let row = &mut self.queues[ix];
        let (delay, old_delay) = (row.settings.quota_preemption_delay, before.settings.quota_preemption_delay);
        let Some(max) = row.max.as_ref().filter(|_| delay > Nanos::ZERO) else {
            row.quota_start = None;
            return;
        };
        if !is_above(Some(max), &row.allocated) {
            row.quota_start = None;
            return;
        }
        let shift = delay.minus(old_delay);
        let same = before.max.as_ref() == Some(max);
        let lowered = before.max.as_ref().is_some_and(|old| {
            let exceeded = |(kind, max)| old.get(kind).is_some_and(|old| max < old && row.allocated.amount(kind) > max);
            old.gt_all(max) || max.iter().any(exceeded)
        });
        row.quota_start = match row.quota_start {
            None if same && old_delay == Nanos::ZERO => Some(now.plus(delay)),
            None if lowered => Some(now.plus(delay)),
            None => None,
            Some(start) => Some(start.plus(shift)),
        };
    }

    /// A forced increase may put a queue above its max: the clock of quota preemption starts (QPR-012).
    pub(super) fn quota_clock_on_increase(&mut self, queue: QueueIx, now: Nanos) {
        if !self.conf.quota_preemption {
            return;
        }
        for ix in self.up(queue) {
            let row = &mut self.queues[ix];
            let delay = row.settings.quota_preemption_delay;
            if row.managed
                && row.parent.is_some()
                && delay > Nanos::ZERO
                && row.quota_start.is_none()
                && is_above(row.max.as_deref(), &row.allocated)
            {
                row.quota_start = Some(now.plus(delay));
            }
            if row.quota_start.is_some() {
                self.watch_quotas(now);
            }
        }
    }
}
