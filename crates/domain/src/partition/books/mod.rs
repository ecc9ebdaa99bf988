//! The books: what is allocated, free, pending, promised and on its way out, of nodes, queues and applications.
//!
//! `check` reads every limit; `charge`, `refund`, `hand_over` and `resize` cannot fail. So a placement is in all books or in
//! none, and nobody else can add to an [`Amount`] or take from it, not even where it is his own:
//!
//! ```compile_fail,E0596
//! use callboard_domain::{Partition, resources::Resource};
//! fn give_away(partition: &mut Partition) {
//!     partition.queues[partition.root].allocated().clone().sub(&Resource::new());
//! }
//! ```
//!
//! Nor can one of a row be replaced outside of this crate, by nothing or by a copy, of which there are some, since rows are copied
//! on write. (A row as a whole can; within the crate an amount can be, too, and `Trial` alone does that, which puts back what was there.)
//!
//! ```compile_fail,E0616
//! fn take(partition: &mut callboard_domain::Partition) {
//!     std::mem::take(&mut partition.queues[partition.root].allocated);
//! }
//! ```
//!
//! ```compile_fail,E0616
//! fn overwrite(partition: &mut callboard_domain::Partition, node: callboard_domain::types::NodeIx) {
//!     partition.nodes[node].available = partition.nodes[node].allocated().clone();
//! }
//! ```
//!
//! ```compile_fail,E0594
//! fn through_a_reader(partition: &mut callboard_domain::Partition) {
//!     *partition.queues[partition.root].allocated() = Default::default();
//! }
//! ```

mod amount;
mod told;
mod trial;
mod waiting;

use std::sync::Arc;

pub use amount::Amount;
pub(super) use trial::{Mark, Trial};

use super::{Cx, Partition};
use crate::{
    alloc::Phase,
    node::Node,
    queue::Queue,
    resources::{Resource, ResourceType, min_limit},
    types::{AllocIx, AppIx, NodeIx, QueueIx},
};

/// What an allocation costs, and whom. Made by [`Partition::check`], or by [`Partition::past_limits`].
#[derive(Clone, Debug)]
pub struct Placement {
    pub(super) alloc: AllocIx,
    pub(super) node: Option<NodeIx>,
    pub(super) app: AppIx,
    pub(super) queue: QueueIx,
    pub(super) resource: Arc<Resource>,
    pub(super) placeholder: bool,
    pub(super) books: Books,
}

/// Which books a charge is entered in. A replacement in flight on another node is in the node's only (R6.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Books {
    pub(super) node: bool,
    pub(super) rest: bool,
}

impl Books {
    /// Node, queue path, application and user.
    pub(super) const ALL: Books = Books { node: true, rest: true };
    /// The node's alone.
    pub(super) const NODE: Books = Books { node: true, rest: false };
    /// All but the node's.
    pub(super) const REST: Books = Books { node: false, rest: true };
}

/// Why a placement is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A limit of the user or group.
    User,
    /// The max of this queue.
    Queue(QueueIx),
    /// The node has not enough left.
    Node,
}

/// What of a queue is kept for asks that have preempted, beside what their victims still have there.
fn promised(row: &Queue, kind: &ResourceType) -> i128 {
    promised_beside(row, 0, kind)
}

/// The same for all but those to which so much is promised.
fn promised_beside(row: &Queue, own: i128, kind: &ResourceType) -> i128 {
    match row.claimed.is_empty() {
        true => 0,
        false => (row.claimed.amount(kind) - own - row.preempting.amount(kind)).max(0),
    }
}

impl Partition {
    /// All limits of a placement on a node: user and group, every queue of the path, the node.
    pub(super) fn check(&self, alloc: AllocIx, node: NodeIx) -> Result<Placement, Reason> {
        self.limit_of_reserved(alloc)?;
        let (row, target) = (&self.allocs[alloc], &self.nodes[node]);
        if !target.available.fits(&row.resource) || !target.capacity.fits(&row.resource) {
            return Err(Reason::Node);
        }
        if !self.fits_beside_claims(alloc, node) {
            return Err(Reason::Node);
        }
        Ok(self.past_limits(alloc, Some(node), Books::ALL))
    }

    /// The same for an ask whose group fits its limits, on a node that takes it: what is promised to single asks is all that
    /// may be in the way.
    pub(super) fn check_of_group(&self, alloc: AllocIx, node: NodeIx) -> Result<Placement, Reason> {
        if !self.claims.is_empty() {
            return self.check(alloc, node);
        }
        debug_assert!(self.check(alloc, node).is_ok());
        Ok(self.past_limits(alloc, Some(node), Books::ALL))
    }

    /// A placement without a look at any limit: recovery (R4.10), a replacement that needs no extra room (R6.11), one of a gang
    /// whose sum was checked.
    pub(super) fn past_limits(&self, alloc: AllocIx, node: Option<NodeIx>, books: Books) -> Placement {
        let row = &self.allocs[alloc];
        Placement {
            alloc,
            node,
            app: row.app,
            queue: self.apps[row.app].queue,
            resource: row.resource.clone(),
            placeholder: row.is_placeholder(),
            books,
        }
    }

    /// Room for a request on every level of the path, beside what is promised to asks that have preempted; else the level
    /// that has none (QUE-025, QUE-030).
    pub(super) fn queue_fits(&self, queue: QueueIx, request: &Resource) -> Result<(), QueueIx> {
        self.level_without_room(queue, request, promised)
    }

    /// The same for a whole gang: what is kept for those that have begun counts as well (SEEDS S11), but not what is promised to a
    /// part of it.
    pub(super) fn queue_fits_gang(&self, queue: QueueIx, request: &Resource, own: &Resource) -> Result<(), QueueIx> {
        self.level_without_room(queue, request, |row, kind| {
            promised_beside(row, own.amount(kind), kind) + row.awaited.amount(kind)
        })
    }

    /// The same for one whose ask has preempted for all of it: what is promised is its own.
    pub(super) fn queue_has_room_for_gang(&self, queue: QueueIx, request: &Resource) -> Result<(), QueueIx> {
        self.level_without_room(queue, request, |row, kind| row.awaited.amount(kind))
    }

    /// The same for one without, as if nothing were charged for questions to the shim.
    pub(super) fn queue_fits_gang_without_questions(&self, queue: QueueIx, request: &Resource) -> Result<(), QueueIx> {
        let more = |row: &Queue, kind: &ResourceType| row.awaited.amount(kind) - row.asked.amount.amount(kind);
        self.level_without_room(queue, request, |row, kind| promised(row, kind) + more(row, kind))
    }

    /// As `queue_fits`, as if nothing were charged for questions to the shim.
    pub(super) fn queue_fits_without_questions(&self, queue: QueueIx, request: &Resource) -> Result<(), QueueIx> {
        self.level_without_room(queue, request, |row, kind| promised(row, kind) - row.asked.amount.amount(kind))
    }

    /// Room for a request on every level of the path, whatever is promised to others; else the level that has none.
    pub(super) fn queue_has_room(&self, queue: QueueIx, request: &Resource) -> Result<(), QueueIx> {
        self.level_without_room(queue, request, |_, _| 0)
    }

    /// What is charged for a request fits the max of each level of the path; root has none of its own.
    pub(super) fn queue_still_fits(&self, queue: QueueIx, charged: &Resource) -> bool {
        let level = self.level_without_room(queue, charged, |_, kind| -charged.amount(kind)).err();
        level.is_none_or(|level| level == self.root)
    }

    /// The nearest level without room for a request beside so much more than what is allocated there.
    fn level_without_room(
        &self,
        queue: QueueIx,
        request: &Resource,
        more: impl Fn(&Queue, &ResourceType) -> i128,
    ) -> Result<(), QueueIx> {
        if crate::planted!("max-ignored") {
            return Ok(());
        }
        for ix in self.path(queue) {
            let row = &self.queues[ix];
            if let Some(max) = &row.max {
                let (mut max, mut allocated) = (max.walk(), row.allocated.walk());
                for (kind, amount) in request.iter().filter(|(_, amount)| *amount > 0) {
                    let Some(max) = max.get(kind) else { continue };
                    if allocated.get(kind).unwrap_or(0) + more(row, kind) + amount > max {
                        return Err(ix);
                    }
                }
            }
        }
        Ok(())
    }

    /// Headroom of a queue: what may still be allocated in it, over the whole path, for all to see: what the shim is still asked
    /// about waits. `None`: nothing limits (QUE-029).
    pub fn headroom(&self, queue: QueueIx) -> Option<Resource> {
        let mut headroom = None;
        for ix in self.path(queue) {
            let row = &self.queues[ix];
            let own = row.max.as_ref().map(|max| max.minus_known(&row.placed()));
            headroom = min_limit(own.as_ref(), headroom.as_ref());
        }
        headroom
    }

    /// What the shim is asked about is unknown to it, and so is a real ask whose replacement is under way.
    fn note_placement(&mut self, placement: &Placement) {
        if !self.ask_shim {
            return;
        }
        let row = &self.allocs[placement.alloc];
        let unknown = matches!(row.phase, Phase::AwaitingShim | Phase::Replacing);
        if let Some(node) = placement.node.filter(|_| !unknown) {
            let spec = row.spec.clone();
            self.note_change(&spec, node);
        }
    }

    /// Enters a placement in its books.
    pub(super) fn charge(&mut self, placement: &Placement, cx: &mut Cx) {
        self.note_placement(placement);
        self.charged = true;
        if placement.books.node
            && let Some(node) = placement.node
        {
            let row = &mut self.nodes[node];
            row.allocated.add(&placement.resource);
            if !crate::planted!("node-overfull") {
                row.available.sub(&placement.resource);
            }
            row.available.prune();
            // A node holds far fewer than 2^32 allocations.
            self.allocs[placement.alloc].at = row.allocs.len() as u32;
            row.allocs.push(placement.alloc);
            row.newest = row.newest.max(self.allocs[placement.alloc].bound);
            self.reindex(node);
        }
        if placement.books.rest {
            self.count_allocated(placement.queue, &placement.resource, true);
            let app = &mut self.apps[placement.app];
            if placement.placeholder {
                app.gang.allocated.add(&placement.resource);
                app.gang.placeholders += 1;
                self.placeholders += 1;
            } else {
                app.allocated.add(&placement.resource);
            }
            app.allocs.insert(placement.alloc, ());
            app.gang.written(|gang| gang.placed(placement.alloc, &self.allocs[placement.alloc].spec, true));
            self.allocations += 1;
            self.touch_app(placement.app);
            self.user_increase(placement.app, &placement.resource, cx);
            self.squeezed(cx.now);
            self.rouse_parked(placement.app);
        }
    }

    /// Takes an ask or allocation out of these books.
    pub(super) fn refund(&mut self, alloc: AllocIx, node: Option<NodeIx>, books: Books, cx: &mut Cx) {
        self.refund_for(alloc, node, books, true, cx);
    }

    /// The same; `others_may_fit`: they look at the room that the node has now.
    pub(super) fn refund_for(
        &mut self,
        alloc: AllocIx,
        node: Option<NodeIx>,
        books: Books,
        others_may_fit: bool,
        cx: &mut Cx,
    ) {
        let placement = &self.past_limits(alloc, node, books);
        self.note_placement(placement);
        if placement.books.node
            && let Some(node) = placement.node
        {
            let row = &mut self.nodes[node];
            if !crate::planted!("node-refund") {
                row.allocated.sub(&placement.resource);
            }
            row.allocated.prune();
            row.available.add(&placement.resource);
            row.available.prune();
            let at = self.allocs[placement.alloc].at as usize;
            debug_assert_eq!(row.allocs[at], placement.alloc);
            row.allocs.swap_remove(at);
            if let Some(moved) = row.allocs.get(at) {
                self.allocs[*moved].at = at as u32;
            }
            self.reindex(node);
            if others_may_fit {
                self.unblock_shapes(node);
            } else if self.allocs[alloc].reserved.is_some() {
                self.ripen([alloc]);
            }
        }
        if placement.books.rest {
            self.count_allocated(placement.queue, &placement.resource, false);
            let app = &mut self.apps[placement.app];
            if placement.placeholder {
                app.gang.allocated.sub(&placement.resource);
                app.gang.allocated.prune();
                app.gang.placeholders -= 1;
                self.placeholders -= 1;
            } else {
                app.allocated.sub(&placement.resource);
                app.allocated.prune();
                app.allocated.trim();
            }
            app.allocs.remove(&placement.alloc);
            app.gang.written(|gang| gang.placed(placement.alloc, &self.allocs[placement.alloc].spec, false));
            self.allocations -= 1;
            self.touch_app(placement.app);
            self.user_decrease(placement.app, &placement.resource, cx);
            self.unblock_limits();
            self.squeezed(cx.now);
        }
    }

    /// An allocation takes the place of another on its node: as if that were refunded and this charged there. Where both are of
    /// one size, the node has what it had before, and keeps its place in the order.
    pub(super) fn hand_over(&mut self, from: AllocIx, to: AllocIx, node: NodeIx) {
        let (old, new) = (self.allocs[from].resource.clone(), self.allocs[to].resource.clone());
        let at = self.allocs[from].at as usize;
        let row = &mut self.nodes[node];
        debug_assert_eq!(row.allocs[at], from);
        row.allocs.swap_remove(at);
        let last = row.allocs.len() as u32;
        let moved = row.allocs.get(at).copied();
        row.allocs.push(to);
        row.newest = row.newest.max(self.allocs[to].bound);
        let same = old == new;
        if !same {
            row.allocated.sub(&old);
            row.allocated.add(&new);
            row.allocated.prune();
            row.available.add(&old);
            row.available.sub(&new);
            row.available.prune();
        }
        if let Some(moved) = moved {
            self.allocs[moved].at = at as u32;
        }
        self.allocs[to].at = last;
        if !same {
            self.reindex(node);
            self.unblock_shapes(node);
        }
    }

    /// An allocation changes its size where it is (R4.14); no limit is looked at.
    pub(super) fn resize(&mut self, alloc: AllocIx, delta: &Resource, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let (app_ix, node, placeholder) = (row.app, row.node, row.is_placeholder());
        let queue = self.apps[app_ix].queue;
        if let Some(node) = node {
            let row = &mut self.nodes[node];
            row.allocated.add(delta);
            row.allocated.prune();
            row.available.sub(delta);
            row.available.prune();
            if row.resizes.len() == Node::RESIZES {
                row.resizes.remove(0);
            }
            row.resizes.push((cx.now, delta.clone()));
            self.reindex(node);
            self.unblock_shapes(node);
        }
        self.count_allocated(queue, delta, true);
        let app = &mut self.apps[app_ix];
        let total = if placeholder { &mut app.gang.allocated } else { &mut app.allocated };
        total.add(delta);
        total.prune();
        // R4.14: the peak stays.
        self.touch_app(app_ix);
        self.user_resize(app_ix, delta, cx);
        self.unblock_limits();
        self.squeezed(cx.now);
    }

    /// On the whole path of a queue.
    fn count_allocated(&mut self, queue: QueueIx, amount: &Resource, more: bool) {
        let mut next = Some(queue);
        while let Some(ix) = next {
            let row = &mut self.queues[ix];
            row.allocated.count(amount, more);
            next = row.parent;
            if !row.dirty {
                self.touch_queue(ix);
            }
            if !more && crate::planted!("queue-refund") {
                break;
            }
        }
    }
}
