//! What waits, what is promised, what is on its way out, and what is free.

use super::super::{Partition, preempt::Claim};
use crate::{
    resources::Resource,
    types::{AllocIx, AppIx, NodeIx},
};

impl Partition {
    /// An allocation is marked for preemption: its size counts as preempting on the whole path (QUE-041).
    pub(in super::super) fn add_preempting(&mut self, alloc: AllocIx) {
        let row = &self.allocs[alloc];
        let amount = row.resource.clone();
        for ix in self.up(self.apps[row.app].queue) {
            let row = &mut self.queues[ix];
            row.preempting.add(&amount);
        }
    }

    /// It is no longer marked, or gone.
    pub(in super::super) fn sub_preempting(&mut self, alloc: AllocIx) {
        if crate::planted!("preempting-stays") {
            return;
        }
        let row = &self.allocs[alloc];
        let amount = row.resource.clone();
        for ix in self.up(self.apps[row.app].queue) {
            let row = &mut self.queues[ix];
            row.preempting.sub(&amount);
            row.preempting.prune();
        }
    }

    /// An ask waits, or no longer does: pending on the application and every queue of its path.
    pub(in super::super) fn count_pending(&mut self, app: AppIx, amount: &Resource, more: bool) {
        let row = &mut self.apps[app];
        row.pending.count(amount, more);
        row.pending.trim();
        let queue = row.queue;
        self.touch_app(app);
        let mut next = Some(queue);
        while let Some(ix) = next {
            if ix == self.root && !more && crate::planted!("pending-stays") {
                break;
            }
            let row = &mut self.queues[ix];
            row.pending.count(amount, more);
            next = row.parent;
            if !row.dirty {
                self.touch_queue(ix);
            }
        }
    }

    /// An ask waits for the shim's word, and is charged to nobody meanwhile; or does no longer.
    pub(in super::super) fn count_in_question(&mut self, alloc: AllocIx, more: bool) {
        let row = &self.allocs[alloc];
        let (app, amount) = (&mut self.apps[row.app], row.resource.clone());
        app.in_question.count(&amount, more);
        app.in_question.trim();
        let queue = app.queue;
        for queue in self.up(queue) {
            let sum = &mut self.queues[queue].in_question;
            sum.count(&amount, more);
            sum.trim();
        }
    }

    /// The sums of all such asks, counted anew: they are not saved.
    pub(in super::super) fn count_all_in_question(&mut self) {
        let open: Vec<AllocIx> = self.questions.uncharged().collect();
        for alloc in open {
            self.count_in_question(alloc, true);
        }
    }

    /// Room is promised to an ask that has preempted, on its node, in its application, in every queue of its path and in the
    /// limits of its user and group; or is not promised any more.
    pub(in super::super) fn count_promised(&mut self, alloc: AllocIx, node: Option<NodeIx>, claim: &Claim, more: bool) {
        let app = self.allocs[alloc].app;
        if let Some(node) = node {
            self.nodes[node].claimed.count(&claim.resource, more);
        }
        let (amount, row) = (claim.promised(), &mut self.apps[app]);
        row.claimed.count(amount, more);
        let (queue, track) = (row.queue, row.track);
        if let Some(track) = track {
            self.ugm.promise(track, amount, more);
        }
        for queue in self.up(queue) {
            self.queues[queue].claimed.count(amount, more);
        }
    }

    /// What is free on a node follows its capacity and what is occupied there; true where it changes.
    pub(in super::super) fn room_follows(&mut self, node: NodeIx) -> bool {
        let row = &mut self.nodes[node];
        let available = row.capacity.minus(&row.allocated).minus(&row.occupied).pruned();
        let changes = row.available != available;
        row.available.set(available);
        changes
    }
}
