//! What is told of changes in the books.

use std::sync::Arc;

use super::super::{Cx, Partition};
use crate::{
    event::{Change, Detail, EventKind},
    types::{AllocIx, AppIx},
};

impl Partition {
    /// What is allocated in the queue of an application changed, for all to see.
    pub(in super::super) fn allocation_changed(&mut self, app: AppIx) {
        let queue = self.apps[app].queue;
        if self.alloc_changed.last() != Some(&queue) {
            self.alloc_changed.push(queue);
        }
    }

    /// One event for each leaf in which something was allocated, freed or resized by a command or by decisions in a row
    /// (EVT-04B): what is allocated there now.
    pub(in super::super) fn tell_allocated(&mut self, cx: &mut Cx) {
        while let Some(queue) = self.alloc_changed.pop() {
            let row = &self.queues[queue];
            if row.is_free() {
                continue;
            }
            // Those that take turns stand here once for each allocation: looking is cheaper than making a sum to compare.
            if row.asked.amount.is_empty() && row.told_allocated == row.allocated {
                continue;
            }
            let allocated = row.placed();
            if row.told_allocated == allocated {
                continue;
            }
            let row = &mut self.queues[queue];
            row.told_allocated = allocated.clone();
            let (path, allocated) = (row.path.clone(), Arc::new(allocated));
            cx.message(EventKind::Queue, &path, &"".into(), (Change::Set, Detail::QueueAlloc), "", Some(allocated));
        }
    }

    /// The events of an allocation that came onto its node (EVT-025, EVT-033).
    pub(in super::super) fn allocated_events(&self, alloc: AllocIx, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let app = &self.apps[row.app];
        cx.event_of(EventKind::App, &app.id, &row.spec.key, Change::Add, Detail::AppAlloc, &row.resource);
    }
}
