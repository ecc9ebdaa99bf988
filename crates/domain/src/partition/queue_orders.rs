//! Orders of operators to queues: given, taken back, and what they mean for those who submit.

use std::sync::Arc;

use super::{Cx, Partition};
use crate::{
    event::{Change, Detail, EventKind},
    queue::RECOVERY_QUEUE,
    queue_order::{OrderKind, OrderRefusal, QueueOrder},
    types::{ObjectState, QueueIx},
};

impl Partition {
    /// Orders by path, those for queues that are not there included.
    pub fn queue_orders(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<QueueOrder>)> {
        self.orders.iter()
    }

    /// The order that holds for a path, with the path that it was given for: its own, else that of the nearest above.
    pub fn order_for(&self, path: &str) -> Option<(&Arc<str>, &Arc<QueueOrder>)> {
        if self.orders.is_empty() {
            return None;
        }
        let mut path = path;
        loop {
            if let Some(found) = self.orders.get_key_value(path) {
                return Some(found);
            }
            (path, _) = path.rsplit_once('.')?;
        }
    }

    /// The state in which a queue is shown: what its configuration says, else what operators told it or one above it.
    pub fn shown_state(&self, ix: QueueIx) -> ObjectState {
        let row = &self.queues[ix];
        match self.order_for(&row.path) {
            Some((_, order)) if row.state == ObjectState::Active => order.kind.state(),
            _ => row.state,
        }
    }

    /// Why a queue takes no new application, where operators told it so.
    pub(super) fn refused_by_order(&self, path: &str) -> Option<Arc<str>> {
        let (ordered, order) = self.order_for(path)?;
        Some(format!("queue {path} takes no new application: {}", order.told_of(ordered)).into())
    }

    /// Whether an order may be given (or, `None`, taken back) now. `overwrite`: also where one of this kind holds.
    ///
    /// # Errors
    /// Why not.
    pub fn check_order(&self, path: &str, kind: Option<OrderKind>, overwrite: bool) -> Result<(), OrderRefusal> {
        let own = self.orders.get(path);
        let Some(kind) = kind else {
            return match (own, self.order_for(path)) {
                (Some(_), _) => Ok(()),
                (None, Some((above, order))) => Err(OrderRefusal::Conflict(format!(
                    "queue {path} was neither stopped nor drained itself: {}; resume {above}",
                    order.told_of(above)
                ))),
                (None, None) if self.queue_by_path.contains_key(path) => {
                    Err(OrderRefusal::Conflict(format!("queue {path} is neither stopped nor drained")))
                }
                (None, None) => Err(self.unknown_queue(path)),
            };
        };
        if path == &*self.queues[self.root].path {
            return Err(OrderRefusal::Conflict(format!(
                "{path} cannot be {}: every queue of the partition is below it; name the queues that are meant",
                kind.done()
            )));
        }
        if path == RECOVERY_QUEUE {
            return Err(OrderRefusal::Conflict(format!(
                "{path} cannot be {}: it takes only applications that run already and have no other queue",
                kind.done()
            )));
        }
        match own {
            Some(order) if order.kind == kind && !overwrite => {
                Err(OrderRefusal::Conflict(format!("{}; overwrite true replaces reason and time", order.told_of(path))))
            }
            Some(_) => Ok(()),
            None if self.queue_by_path.contains_key(path) => Ok(()),
            None => Err(self.unknown_queue(path)),
        }
    }

    fn unknown_queue(&self, path: &str) -> OrderRefusal {
        let shown: String = path.chars().take(200).collect();
        OrderRefusal::Unknown(format!("queue '{shown}' not found in partition {}", self.name))
    }

    /// The queue of a path, else the nearest above it that there is; `None` where no path was found.
    pub(super) fn nearest_queue(&self, path: &str) -> Option<Arc<str>> {
        let mut path = path;
        loop {
            if let Some((path, _)) = self.queue_by_path.get_key_value(path) {
                return Some(path.clone());
            }
            (path, _) = path.rsplit_once('.')?;
        }
    }

    /// Orders are given or taken back; they were checked before, and are on disk.
    pub(super) fn order_queues(&mut self, orders: Vec<(Arc<str>, Option<Arc<QueueOrder>>)>, cx: &mut Cx) {
        for (path, order) in orders {
            let told: Arc<str> = match &order {
                Some(order) => order.told_of(&path).into(),
                None => "resumed".into(),
            };
            let drains = order.as_ref().is_some_and(|order| order.kind == OrderKind::Drain);
            match order {
                Some(order) => drop(self.orders.insert(path.clone(), order)),
                None => drop(self.orders.remove(&path)),
            }
            if let Some(ix) = self.queue_by_path.get(&path) {
                let change = (Change::Set, Detail::QueueConfig);
                cx.message(EventKind::Queue, &path, &"".into(), change, &told, None);
                // Of those above it was told when they became empty.
                if drains && self.is_queue_empty(*ix) {
                    say_drained(&path, cx);
                }
            }
        }
    }

    /// An application left a queue: where that leaves one empty that drains, an event says so.
    pub(super) fn tell_drained(&self, path: &str, cx: &mut Cx) {
        let mut path = path;
        while let Some((ordered, order)) = self.order_for(path) {
            let empty = self.queue_by_path.get(ordered).is_some_and(|ix| self.is_queue_empty(*ix));
            if order.kind == OrderKind::Drain && empty {
                say_drained(ordered, cx);
            }
            let Some((above, _)) = ordered.rsplit_once('.') else { return };
            path = above;
        }
    }
}

fn say_drained(queue: &Arc<str>, cx: &mut Cx) {
    let change = (Change::Set, Detail::QueueConfig);
    cx.message(EventKind::Queue, queue, &"".into(), change, "drained: it is empty", None);
}
