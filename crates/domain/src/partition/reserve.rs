//! Reservations (sections 5.E and 5.F of the scheduling rules): made for asks that have waited, kept in exact counters, turned
//! into allocations before anything else is placed.

use std::collections::BTreeMap;

use super::{Cx, Partition, Reason, schedule::Outcome};
use crate::{
    alloc::Phase,
    effect::{Callback, ContainerState},
    event::{Change, Detail, EventKind},
    types::{AllocIx, AppState, Nanos, NodeIx},
};

/// Age from which an ask that no node takes reserves one (T11).
pub(super) const RESERVATION_DELAY: Nanos = Nanos::from_secs(2);

impl Partition {
    /// Reserves a node for an ask; an older reservation on another node goes first (R5.36a).
    pub(super) fn reserve(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) {
        if self.allocs[alloc].reserved == Some(node) {
            return;
        }
        if self.allocs[alloc].reserved.is_some() {
            self.unreserve(alloc, cx);
        }
        let row = &mut self.allocs[alloc];
        row.reserved = Some(node);
        let (app, key, resource) = (row.app, row.spec.key.clone(), row.resource.clone());
        self.apps[app].reservations.insert(alloc);
        self.reserved_apps.insert(app);
        self.reservations += 1;
        if self.allocs[alloc].is_placeholder() {
            self.reserved_placeholders.insert(alloc);
        }
        // R5.23: an accepted application that holds a reservation counts as allocating.
        if self.apps[app].state == AppState::Accepted {
            self.enter_allocating(app);
            self.questions.entering.remove(&app);
            // No limit of running applications keeps its other asks any more.
            self.rouse_parked(app);
        }
        let required = self.allocs[alloc].spec.required_node.is_some();
        let row = &mut self.nodes[node];
        row.reservations.push(alloc, &resource, required);
        let id = row.spec.id.clone();
        cx.event_of(EventKind::Node, &id, &key, Change::Add, Detail::NodeReservation, &resource);
        if self.all_container_states {
            cx.callback(Callback::ContainerState {
                app: self.apps[app].id.clone(),
                key,
                state: ContainerState::Reserved,
                reason: format!("reserved on node {id}").into(),
            });
        }
        self.reindex(node);
        self.ripen([alloc]);
        self.plan_review(cx.now);
    }

    /// A reservation goes, whatever ends it (R5.38); all counters follow (R5.39).
    pub(super) fn unreserve(&mut self, alloc: AllocIx, cx: &mut Cx) {
        if self.allocs[alloc].reserved.is_none() {
            return;
        }
        let claimed = self.has_claim(alloc);
        self.lose_claim(alloc);
        if let Some(node) = self.end_reservation(alloc, cx) {
            self.left_by_reservation(node, claimed);
        }
    }

    /// A reservation of a node is gone: others may have what was kept for it. Those that have reserved the node themselves were kept
    /// off it by a claim at most, else none of them needs to look again.
    fn left_by_reservation(&mut self, node: NodeIx, claimed: bool) {
        if claimed {
            self.unblock_shapes(node);
        } else {
            self.unblock_open_shapes(node);
        }
    }

    /// Ends a reservation; its application looks for another.
    pub(super) fn let_go(&mut self, alloc: AllocIx, cx: &mut Cx) {
        self.unreserve(alloc, cx);
        self.rouse_groups(self.allocs[alloc].app);
    }

    /// Ends a reservation as its ask is placed on a node; what was kept for it there, it takes.
    pub(super) fn use_reservation(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) {
        if self.allocs[alloc].reserved.is_none() {
            return;
        }
        let (was_open, claimed) = (self.is_shared(node), self.has_claim(alloc));
        self.use_claim(alloc);
        self.questions.kept.remove(&alloc);
        match self.end_reservation(alloc, cx) {
            Some(other) if other != node => self.left_by_reservation(other, claimed),
            // Others could not use what it leaves of the node.
            Some(_) if !was_open && self.is_shared(node) => {
                let mut room = self.open_room(node);
                room.sub(&self.allocs[alloc].resource);
                if room.iter().any(|(_, amount)| amount > 0) {
                    self.unblock_shapes_within(node, &room);
                }
            }
            _ => {}
        }
    }

    fn end_reservation(&mut self, alloc: AllocIx, cx: &mut Cx) -> Option<NodeIx> {
        let row = &mut self.allocs[alloc];
        let node = row.reserved.take()?;
        self.not_ripe(alloc);
        self.held_back.remove(&alloc);
        if self.questions.kept.remove(&alloc).is_some() {
            self.place_is_lost(alloc);
        }
        self.reserved_placeholders.remove(&alloc);
        let row = &self.allocs[alloc];
        let (app, key, resource) = (row.app, row.spec.key.clone(), row.resource.clone());
        let required = row.spec.required_node.is_some();
        if required {
            self.next_may_reserve(alloc);
        }
        let app_row = &mut self.apps[app];
        app_row.reservations.remove(&alloc);
        if app_row.reservations.is_empty() {
            self.reserved_apps.remove(&app);
        }
        self.reservations -= 1;
        self.wanting.again();
        let app_row = &self.apps[app];
        if app_row.state == AppState::Accepted && app_row.reservations.is_empty() && app_row.placements() == 0 {
            if app_row.allocs.is_empty() {
                self.leave_allocating(app);
            } else {
                self.questions.entering.insert(app);
            }
        }
        let row = &mut self.nodes[node];
        row.reservations.remove(alloc, &resource, required);
        let id = row.spec.id.clone();
        cx.event_of(EventKind::Node, &id, &key, Change::Remove, Detail::NodeReservation, &resource);
        self.reindex(node);
        Some(node)
    }

    /// Asks that hold a reservation, and those of them that can be placed now (R5.30–R5.32).
    pub(super) fn try_reserved(&mut self, cx: &mut Cx) -> Outcome {
        if self.reserved_epoch != self.epoch {
            self.reserved_epoch = self.epoch;
            self.held_back.clear();
            for app in self.reserved_apps.clone() {
                self.ripen_all_of(app);
            }
        }
        let mut again = false;
        while let Some(alloc) = self.ripe.first(self.root) {
            // The one before was tried in vain, and is not ripe any more.
            if std::mem::replace(&mut again, true) && self.is_cut(1, cx) {
                return Outcome::Cut;
            }
            self.not_ripe(alloc);
            let app = self.allocs[alloc].app;
            if self.may_not_begin(app) {
                self.limited = true;
                if self.allocs[alloc].phase == Phase::Pending
                    && !self.waits_for_victims(alloc)
                    && !self.questions.kept.contains(&alloc)
                    && !self.is_kept_by_questions(app)
                {
                    // Nobody can say when its application may begin: others may have the node.
                    self.let_go(alloc, cx);
                } else {
                    self.held_back.insert(alloc);
                }
                continue;
            }
            // SEEDS S10, S11, R6.7: what waits for its gang, or for a placeholder, keeps no node from the placeholders that it
            // waits for; and a gang that is placed all at once holds none for a part of it.
            // One that has preempted for all of its gang waits for the room of just that.
            if self.allocs[alloc].phase == Phase::Pending
                && !self.is_for_gang(alloc)
                && self.reserves_nothing(app, &self.group_key(alloc))
            {
                self.let_go(alloc, cx);
                continue;
            }
            let outcome = self.try_reservation(alloc, cx);
            if outcome == Outcome::Waits {
                self.ripen([alloc]);
            }
            if outcome != Outcome::Nothing {
                return outcome;
            }
        }
        Outcome::Nothing
    }

    fn try_reservation(&mut self, alloc: AllocIx, cx: &mut Cx) -> Outcome {
        let row = &self.allocs[alloc];
        let Some(node) = row.reserved else { return Outcome::Nothing };
        if row.phase != Phase::Pending {
            return Outcome::Nothing;
        }
        if self.waits_for_turn(alloc) {
            self.held_back.insert(alloc);
            return Outcome::Waits;
        }
        let row = &self.allocs[alloc];
        let (resource, shape) = (row.resource.clone(), row.shape);
        let required = row.spec.required_node.is_some();
        let fits = self.nodes[node].available.fits(&resource) && self.fits_beside_claims(alloc, node);
        if !fits {
            self.questions.room_news += 1;
        }
        let free = fits && !(self.ask_shim && self.is_refused(alloc, node));
        let other = if free || required || self.shapes.is_nowhere(shape) || !self.goes_ahead_elsewhere(alloc) {
            None
        } else {
            let other = self.find_node(alloc, &resource);
            if other.is_none() {
                self.fits_nowhere(shape);
            }
            other
        };
        let target = if free { Some(node) } else { other };
        if target.is_none() && !required {
            // No limit holds it, but nodes do.
            if !fits {
                self.give_up_spent_claim(alloc);
            }
            return Outcome::Nothing;
        }
        let held_by = self.limit_of_reserved(alloc).err();
        // R7.33: the cluster is full where its nodes are, and on the one that is required room may be made.
        let may_make_room = required && target.is_none() && held_by == Some(Reason::Queue(self.root));
        if held_by.is_some() && !may_make_room {
            self.hold_back(alloc);
            self.give_up_spent_claim(alloc);
            // Its node is free, and closed to the others for nothing.
            if self.is_held_in_vain(alloc) {
                self.let_go(alloc, cx);
            }
            return Outcome::Nothing;
        }
        match target {
            Some(target) => self.take(alloc, target, cx).unwrap_or(Outcome::Nothing),
            None => self.preempt_for_required(alloc, node, cx),
        }
    }

    /// A reservation is for its node. On another one the ask overtakes those before it in the order of the queues, and one that is
    /// larger than most overtakes several at once, for no room that was kept for it: it has to wait for its turn there (R5.32). A
    /// placeholder does not, as what its gang has is of no use without it; nor one for which something was preempted.
    fn goes_ahead_elsewhere(&self, alloc: AllocIx) -> bool {
        if !self.is_for_waiting(alloc) || self.allocs[alloc].is_placeholder() {
            return true;
        }
        let asks = (self.allocs.used() as u64).saturating_sub(self.allocations).max(1);
        let mean = self.share(&self.queues[self.root].pending) / asks as f64;
        self.share(&self.allocs[alloc].resource) <= mean
    }

    /// It keeps what it has reserved, and is looked at again when something that may hold it ends.
    pub(super) fn hold_back(&mut self, alloc: AllocIx) {
        self.limited = true;
        self.held_back.insert(alloc);
    }

    /// A node that the shim refuses is kept for nobody: the others may use it, and the ask another one. True where it was.
    pub(super) fn end_refused_reservation(&mut self, alloc: AllocIx, cx: &mut Cx) -> bool {
        let refused = self.ask_shim && self.allocs[alloc].reserved.is_some_and(|node| self.is_refused(alloc, node));
        if refused {
            self.let_go(alloc, cx);
        }
        refused
    }

    /// A node that drains is kept for few alone: the others look for another, and preempt anew if they had.
    pub(super) fn end_reservations_of_drained(&mut self, node: NodeIx, cx: &mut Cx) {
        let reserved = self.nodes[node].reservations.iter();
        let lost: Vec<AllocIx> = reserved.filter(|alloc| !self.may_have_drained(*alloc, node)).collect();
        for alloc in lost {
            self.let_go(alloc, cx);
        }
    }

    /// A node that drains is no hindrance to what requires it, and no new place for what takes that of a placeholder (R5.42, R6.9).
    pub(super) fn may_have_drained(&self, alloc: AllocIx, node: NodeIx) -> bool {
        let row = &self.allocs[alloc];
        row.spec.required_node.is_some() || (row.reserved == Some(node) && self.questions.kept.contains(&alloc))
    }

    fn give_up_spent_claim(&mut self, alloc: AllocIx) {
        if self.is_claim_spent(alloc) {
            self.lose_claim(alloc);
            if let Some(node) = self.allocs[alloc].reserved {
                // What it does not need there is open to others now.
                self.unblock_shapes(node);
            }
        }
    }

    /// An ask with a reservation fits the limits of its queues and its user: what it has preempted is its own, and others stay clear
    /// of what is promised. The error is the limit that holds it back.
    pub(super) fn limit_of_reserved(&self, alloc: AllocIx) -> Result<(), Reason> {
        let row = &self.allocs[alloc];
        let queue = self.apps[row.app].queue;
        let (user, level) = if let Some(gang) = self.gang_claim(alloc) {
            // SEEDS S11: the gang begins with it, so all of it has to fit; the size of the cluster is left out.
            let level = self.queue_has_room_for_gang(queue, gang).err().filter(|level| *level != self.root);
            let level = level.map_or_else(|| self.queue_has_room(queue, &row.resource), Err);
            (self.user_fits(row.app, &row.resource), level)
        } else if self.has_claim(alloc) || self.questions.kept.contains(&alloc) {
            (self.user_fits(row.app, &row.resource), self.queue_has_room(queue, &row.resource))
        } else {
            (self.user_fits_beside(row.app, &row.resource), self.queue_fits(queue, &row.resource))
        };
        if user { level.map_err(Reason::Queue) } else { Err(Reason::User) }
    }

    /// A limit holds an ask that requires its node, and nothing is on its way out for it. The node would be closed to all others,
    /// and one tenant may require every node (R5.40).
    pub(super) fn is_held_in_vain(&self, alloc: AllocIx) -> bool {
        let level = self.limit_of_reserved(alloc).err();
        level.is_some_and(|level| level != Reason::Queue(self.root)) && !self.waits_for_victims(alloc)
    }

    /// It has preempted for all of its gang, or its place is kept for it.
    fn is_for_gang(&self, alloc: AllocIx) -> bool {
        let (app, key) = (self.allocs[alloc].app, self.group_key(alloc));
        self.gang_claim(alloc).is_some() && self.may_reserve(app, &key) || self.questions.kept.contains(&alloc)
    }

    /// What was placed, or is configured, may have used up the limit of asks that require their node, or the room for all of a gang
    /// that has not begun (SEEDS S11): they let go of it. With `all` so do those that only wait for room, whose limit is
    /// otherwise seldom used up for long (R5.30). True where some did.
    pub(super) fn end_reservations_in_vain(&mut self, all: bool, cx: &mut Cx) -> bool {
        let mut gangs = BTreeMap::new();
        let in_vain = |alloc: &AllocIx| {
            let row = &self.allocs[*alloc];
            row.phase == Phase::Pending
                && *gangs.entry(row.app).or_insert_with(|| self.gang_level(row.app).is_some())
                && !self.is_for_gang(*alloc)
        };
        let mut held: Vec<AllocIx> = self.reserved_placeholders.iter().copied().filter(in_vain).collect();
        for app in self.reserved_apps.iter().filter(|_| all || !self.required_asks.is_empty()) {
            // Those of one size have the same limits, but for what was preempted for one.
            let mut sizes = BTreeMap::new();
            for alloc in &self.apps[*app].reservations {
                let row = &self.allocs[*alloc];
                let may = row.spec.required_node.is_some() || all && self.is_for_waiting(*alloc);
                if !may || row.phase != Phase::Pending {
                    continue;
                }
                let is_held = || self.is_held_in_vain(*alloc);
                let is_held =
                    if self.has_claim(*alloc) { is_held() } else { *sizes.entry(row.shape).or_insert_with(is_held) };
                if is_held {
                    held.push(*alloc);
                }
            }
        }
        for alloc in &held {
            self.let_go(*alloc, cx);
        }
        !held.is_empty()
    }

    /// Asks that wait long enough reserve nodes, or not (R5.37): then those that only wait let go of theirs.
    pub(super) fn set_reservations(&mut self, on: bool, cx: &mut Cx) {
        self.forget_wanting();
        if !on {
            let held: Vec<AllocIx> =
                self.reserved_apps.iter().flat_map(|app| self.apps[*app].reservations.iter().copied()).collect();
            for alloc in held {
                // The place of a replacement that waits for the shim's word is kept all the same.
                if self.is_for_waiting(alloc) && !self.questions.kept.contains(&alloc) {
                    self.unreserve(alloc, cx);
                }
            }
        }
        self.reservation_delay = if on { RESERVATION_DELAY } else { Nanos(i64::MAX) };
        for app in self.apps.keys() {
            self.rouse_groups(app);
        }
        self.unblock();
    }
}
