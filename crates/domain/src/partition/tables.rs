//! Queues and nodes without the applications: what a reader copies who wants no more than numbers of them.

use std::sync::Arc;

use super::Partition;
use crate::{
    node::Node,
    queue::Queue,
    table::Table,
    types::{NodeIx, QueueIx},
};

/// See the module. As cheap to make with 100,000 applications as with 10.
#[derive(Clone)]
pub struct Tables {
    queues: Table<QueueIx, Queue, 8>,
    queue_by_path: imbl::OrdMap<Arc<str>, QueueIx>,
    nodes: Table<NodeIx, Node, 32>,
    node_by_id: imbl::OrdMap<Arc<str>, NodeIx>,
}

impl Partition {
    /// Queues and nodes as they are now.
    pub fn tables(&self) -> Tables {
        Tables {
            queues: self.queues.clone(),
            queue_by_path: self.queue_by_path.clone(),
            nodes: self.nodes.clone(),
            node_by_id: self.node_by_id.clone(),
        }
    }
}

impl Tables {
    /// All queues by path.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queue_by_path.values().filter_map(|ix| self.queues.get(*ix))
    }

    /// All nodes by id.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.node_by_id.values().filter_map(|ix| self.nodes.get(*ix))
    }
}
