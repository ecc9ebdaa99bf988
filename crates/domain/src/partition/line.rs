//! Where an ask stands in line: in its application, its application in the queue, and the queue among its siblings all the
//! way up (R5.10, R5.20–R5.22, QUE-071, QUE-074, QUE-075).

use std::sync::Arc;

use super::Partition;
use crate::{queue::Queue, types::AllocIx};

/// A place in one order; the first is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What stands in line, and where.
    pub line: Line,
    /// The place.
    pub place: u64,
    /// How many stand in line.
    pub of: u64,
    /// What the order goes by.
    pub by: Order,
}

/// See [`Place`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Asks of its application.
    Asks,
    /// Applications of this leaf.
    Applications(Arc<str>),
    /// Children of this parent.
    Queues(Arc<str>),
}

/// What an order goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// By share of what is used, the smallest first; else by time, the oldest first.
    pub share: bool,
    /// Priority counts before that; else after it.
    pub priority_first: bool,
}

impl Partition {
    /// The places of a pending ask, from its application up to root; empty where it is not pending.
    pub fn line(&self, alloc: AllocIx) -> Vec<Place> {
        let Some(row) = self.allocs.get(alloc).filter(|row| row.is_pending()) else {
            return Vec::new();
        };
        let app = &self.apps[row.app];
        let own = self.ask_order(alloc);
        let groups = || app.groups_by_key.values();
        let mut line = vec![Place {
            line: Line::Asks,
            place: groups().map(|group| group.asks.range(..own).count() as u64).sum::<u64>() + 1,
            of: groups().map(|group| group.asks.len() as u64).sum(),
            by: Order { share: false, priority_first: true },
        }];
        let leaf = &self.queues[app.queue];
        let orders = || leaf.apps.iter().filter_map(|other| self.apps[*other].order.as_ref());
        if let Some(own) = &app.order {
            line.push(Place {
                line: Line::Applications(leaf.path.clone()),
                place: orders().filter(|other| *other < own).count() as u64 + 1,
                of: orders().count() as u64,
                by: Order { share: leaf.settings.sort_fair, priority_first: leaf.settings.sort_priority },
            });
        }
        let levels: Vec<&Queue> = self.path(app.queue).map(|queue| &self.queues[queue]).collect();
        line.extend(levels.windows(2).filter_map(|pair| self.place_of_queue(pair[0], pair[1])));
        line
    }

    fn place_of_queue(&self, queue: &Queue, parent: &Queue) -> Option<Place> {
        let own = queue.order?;
        let orders = || parent.children.values().filter_map(|child| self.queues[*child].order);
        Some(Place {
            line: Line::Queues(parent.path.clone()),
            place: orders().filter(|other| *other < own).count() as u64 + 1,
            of: orders().count() as u64,
            by: Order { share: true, priority_first: parent.settings.sort_priority },
        })
    }
}
