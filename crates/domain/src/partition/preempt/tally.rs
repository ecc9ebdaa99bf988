//! The sums of a trial: what its victims would free in the queues of their paths. Nothing of the partition is touched, so
//! a trial is undone by dropping it.

use smallvec::SmallVec;

use super::{super::Partition, scope::Scope};
use crate::{
    resources::Resource,
    types::{AllocIx, QueueIx},
};

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Tally {
    freed: SmallVec<[(QueueIx, Resource); 4]>,
}

impl Tally {
    fn of(&mut self, queue: QueueIx) -> &mut Resource {
        let at = match self.freed.iter().position(|(q, _)| *q == queue) {
            Some(at) => at,
            None => {
                self.freed.push((queue, Resource::new()));
                self.freed.len() - 1
            }
        };
        &mut self.freed[at].1
    }

    fn freed(&self, queue: QueueIx) -> Option<&Resource> {
        self.freed.iter().find(|(q, _)| *q == queue).map(|(_, freed)| freed)
    }

    /// A victim goes on trial.
    pub(super) fn take(&mut self, partition: &Partition, scope: &Scope, victim: AllocIx) {
        let row = &partition.allocs[victim];
        for queue in scope.branch(partition, partition.apps[row.app].queue) {
            if partition.queues[queue].guaranteed.is_some() {
                self.of(queue).add(&row.resource);
            }
        }
    }

    /// No queue of the victim's branch falls below its guarantee with it, beside those on trial (R7.19, R7.20 mended).
    pub(super) fn allows(&self, partition: &Partition, scope: &Scope, victim: AllocIx) -> bool {
        if crate::planted!("guarantee-ignored") {
            return true;
        }
        let row = &partition.allocs[victim];
        scope.branch(partition, partition.apps[row.app].queue).all(|queue| {
            let Some(guaranteed) = &partition.queues[queue].guaranteed else { return true };
            let freed = self.freed(queue);
            guaranteed.iter().all(|(kind, guaranteed)| {
                let amount = row.resource.amount(kind);
                amount <= 0
                    || partition.used(queue, kind) - freed.map_or(0, |freed| freed.amount(kind)) - amount >= guaranteed
            })
        })
    }
}
