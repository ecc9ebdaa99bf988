//! A trial: "what if this were placed there", "what if these were gone". Books are changed for as long as the question takes,
//! and are as they were afterwards.
//!
//! Only what the question is about changes: the room of a node with its place in the order, or what the queues use that
//! the caller names. No limit is looked at, nothing is marked to be ordered anew, and there are no effects; users,
//! applications and the rows of what is tried stay as they are. It costs what it changes, however large the cluster is.

use std::ops::Deref;

use super::{super::Partition, Amount};
use crate::types::{AllocIx, NodeIx, QueueIx};

/// See the module. The partition can be read through it, and answers as if all that were so.
pub(in super::super) struct Trial<'a> {
    partition: &'a mut Partition,
    /// What was there before each change, in their order.
    before: Vec<Before>,
}

/// A moment of a trial, to go back to.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Mark(usize);

enum Before {
    /// What was free on the node.
    Room(NodeIx, Amount),
    /// What was allocated in the queue.
    Used(QueueIx, Amount),
}

impl<'a> Trial<'a> {
    /// Begins with the partition as it is.
    pub fn of(partition: &'a mut Partition) -> Trial<'a> {
        Trial { partition, before: Vec::new() }
    }

    /// This ask is on the node: there is less room, and the node takes another place in the order.
    pub fn place(&mut self, ask: AllocIx, node: NodeIx) {
        let resource = self.partition.allocs[ask].resource.clone();
        let room = &mut self.partition.nodes[node].available;
        self.before.push(Before::Room(node, room.clone()));
        room.sub(&resource);
        self.partition.reindex(node);
    }

    /// This allocation is gone for these queues of its path: less is allocated there.
    pub fn take_out(&mut self, alloc: AllocIx, queues: impl IntoIterator<Item = QueueIx>) {
        let resource = self.partition.allocs[alloc].resource.clone();
        for queue in queues {
            let used = &mut self.partition.queues[queue].allocated;
            self.before.push(Before::Used(queue, used.clone()));
            used.sub(&resource);
        }
    }

    /// The present moment.
    pub fn mark(&self) -> Mark {
        Mark(self.before.len())
    }

    /// Undoes what came after that moment, the last first.
    pub fn back_to(&mut self, mark: Mark) {
        for before in self.before.drain(mark.0.min(self.before.len())..).rev() {
            match before {
                Before::Room(node, room) => {
                    self.partition.nodes[node].available = room;
                    self.partition.reindex(node);
                }
                Before::Used(queue, used) => self.partition.queues[queue].allocated = used,
            }
        }
    }
}

impl Deref for Trial<'_> {
    type Target = Partition;

    fn deref(&self) -> &Partition {
        self.partition
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.back_to(Mark(0));
    }
}

#[cfg(test)]
mod tests;
