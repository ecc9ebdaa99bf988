//! Reservations (sections 5.E and 5.F of the scheduling rules): made for asks that have waited, kept in exact counters, turned
//! into allocations before anything else is placed.

use super::{Cx, Partition, predicates::Intent, schedule::Outcome};
use crate::{
    alloc::Phase,
    app::{GroupKey, Hold},
    effect::{Callback, ContainerState},
    event::{Change, Detail, EventKind},
    types::{AllocIx, AppIx, AppState, Nanos, NodeIx},
};

/// Age from which an ask that no node takes reserves one (T11).
pub(super) const RESERVATION_DELAY: Nanos = Nanos::from_secs(2);
/// Age from which a reservation above the headroom is dropped (T12).
const RESERVATION_WAIT: Nanos = Nanos::from_secs(2 * 3600);

impl Partition {
    /// Reserves a node for an ask; an older reservation on another node goes first (R5.36a).
    pub(super) fn reserve(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) {
        if self.allocs[alloc.ix()].reserved == Some(node) {
            return;
        }
        if self.allocs[alloc.ix()].reserved.is_some() {
            self.unreserve(alloc, cx);
        }
        let row = &mut self.allocs[alloc.ix()];
        row.reserved = Some(node);
        row.reserved_at = cx.now;
        let (app, key, resource) = (row.app, row.spec.key.clone(), row.resource.clone());
        // R5.23
        if self.apps[app.ix()].state == AppState::Accepted {
            self.enter_allocating(app);
        }
        self.apps[app.ix()].reservations.insert(alloc);
        self.reserved_apps.insert(app);
        self.reservations += 1;
        // R5.23: an accepted application that holds a reservation counts as allocating.
        if self.apps[app.ix()].state == AppState::Accepted {
            self.enter_allocating(app);
        }
        let row = &mut self.nodes[node.ix()];
        row.reservations.push(alloc);
        let id = row.spec.id.clone();
        cx.event_of(EventKind::Node, &id, &key, Change::Add, Detail::NodeReservation, &resource);
        if self.all_container_states {
            cx.callback(Callback::ContainerState {
                app: self.apps[app.ix()].id.clone(),
                key,
                state: ContainerState::Reserved,
                reason: format!("reserved on node {id}").into(),
            });
        }
        self.reindex(node);
        self.ripe.insert(alloc);
    }

    /// A reservation goes, whatever ends it (R5.38); all counters follow (R5.39).
    pub(super) fn unreserve(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let row = &mut self.allocs[alloc.ix()];
        let Some(node) = row.reserved.take() else { return };
        self.ripe.remove(&alloc);
        self.lose_claim(alloc);
        let row = &self.allocs[alloc.ix()];
        let (app, key, resource) = (row.app, row.spec.key.clone(), row.resource.clone());
        let app_row = &mut self.apps[app.ix()];
        app_row.reservations.remove(&alloc);
        if app_row.reservations.is_empty() {
            self.reserved_apps.remove(&app);
        }
        self.reservations -= 1;
        let app_row = &self.apps[app.ix()];
        if app_row.state == AppState::Accepted && app_row.reservations.is_empty() && app_row.allocs.is_empty() {
            self.leave_allocating(app);
        }
        let row = &mut self.nodes[node.ix()];
        row.reservations.retain(|reserved| *reserved != alloc);
        let id = row.spec.id.clone();
        cx.event_of(EventKind::Node, &id, &key, Change::Remove, Detail::NodeReservation, &resource);
        self.reindex(node);
        self.unblock_shapes(node);
    }

    /// Asks that hold a reservation, and those of them that can be placed now (R5.30–R5.32).
    pub(super) fn try_reserved(&mut self, cx: &mut Cx) -> Outcome {
        if self.reserved_epoch != self.epoch {
            self.reserved_epoch = self.epoch;
            for app in self.reserved_apps.iter() {
                self.ripe.extend(self.apps[app.ix()].reservations.iter().copied());
            }
        }
        while let Some(alloc) = self.ripe.get_min().copied() {
            self.ripe.remove(&alloc);
            let row = &self.allocs[alloc.ix()];
            if row.free || row.reserved.is_none() {
                continue;
            }
            let app = row.app;
            if self.apps[app.ix()].state == AppState::Accepted && !(self.queues_can_run(app) && self.user_can_run(app))
            {
                self.limited = true;
                continue;
            }
            // SEEDS S10, S11, R6.7: what waits for its gang, or for a placeholder, keeps no node from the placeholders that it
            // waits for.
            let key = self.group_key(alloc);
            if self.allocs[alloc.ix()].phase == Phase::Pending && self.waits_for_gang(app, &key) {
                self.unreserve(alloc, cx);
                self.rouse(app);
                continue;
            }
            let outcome = self.try_reservation(alloc, cx);
            if outcome != Outcome::Nothing {
                return outcome;
            }
        }
        Outcome::Nothing
    }

    fn try_reservation(&mut self, alloc: AllocIx, cx: &mut Cx) -> Outcome {
        let row = &self.allocs[alloc.ix()];
        let Some(node) = row.reserved else { return Outcome::Nothing };
        if row.phase != Phase::Pending {
            return Outcome::Nothing;
        }
        let (resource, shape, expires) = (row.resource.clone(), row.shape, row.reserved_at.plus(RESERVATION_WAIT));
        let required = row.spec.required_node.is_some();
        let fits = self.nodes[node.ix()].available.fits(&resource) && self.fits_beside_claims(alloc, node);
        if !fits && !required && !self.has_claim(alloc) && self.shapes.is_nowhere(shape) && cx.now <= expires {
            return Outcome::Nothing;
        }
        if !self.reserved_ask_fits_limits(alloc) {
            self.limited = true;
            if self.is_claim_spent(alloc) {
                self.lose_claim(alloc);
            }
            if cx.now > expires {
                self.unreserve(alloc, cx);
            }
            return Outcome::Nothing;
        }
        if fits && !(self.ask_shim && self.is_refused(alloc, node)) {
            return self.take(alloc, node, cx).unwrap_or(Outcome::Nothing);
        }
        if required {
            return self.preempt_for_required(alloc, node, cx);
        }
        if !self.shapes.is_nowhere(shape) {
            match self.find_node(alloc, &resource) {
                Some(other) => return self.take(alloc, other, cx).unwrap_or(Outcome::Nothing),
                None => self.shapes.set_nowhere(shape),
            }
        }
        if !fits && self.is_claim_spent(alloc) {
            self.lose_claim(alloc);
        }
        Outcome::Nothing
    }

    /// What an ask has preempted is its own; others stay clear of what is promised.
    fn reserved_ask_fits_limits(&self, alloc: AllocIx) -> bool {
        let row = &self.allocs[alloc.ix()];
        let queue = self.apps[row.app.ix()].queue;
        if self.has_claim(alloc) {
            self.user_fits(row.app, &row.resource) && self.queue_has_room(queue, &row.resource).is_ok()
        } else {
            self.user_fits_beside(row.app, &row.resource) && self.queue_fits(queue, &row.resource).is_ok()
        }
    }

    /// Reservations that have been held for long are looked at again: those above the headroom end (R5.30).
    pub(super) fn review_reservations(&mut self, now: Nanos) {
        for app in self.reserved_apps.iter() {
            for alloc in &self.apps[app.ix()].reservations {
                if now > self.allocs[alloc.ix()].reserved_at.plus(RESERVATION_WAIT) {
                    self.ripe.insert(*alloc);
                }
            }
        }
    }

    /// Asks that wait long enough reserve nodes, or not (R5.37).
    pub(super) fn set_reservations(&mut self, on: bool) {
        self.reservation_delay = if on { RESERVATION_DELAY } else { Nanos(i64::MAX) };
        self.unblock();
    }

    /// Reserves nodes for the asks of a group that no node takes and that have waited long enough (R5.34–R5.36); looks
    /// again when the next of them has.
    pub(super) fn reserve_group(&mut self, app: AppIx, key: &GroupKey, cx: &mut Cx) -> Option<Outcome> {
        let group = self.apps[app.ix()].groups_by_key.get(key)?;
        let mut ripe = None;
        let mut later: Option<Nanos> = None;
        for alloc in group.asks.values() {
            let row = &self.allocs[alloc.ix()];
            if row.reserved.is_some() {
                continue;
            }
            let at = row.created.plus(self.reservation_delay);
            if at == Nanos(i64::MAX) {
                return None;
            }
            if at <= cx.now {
                ripe = Some(*alloc);
                break;
            }
            later = Some(later.map_or(at, |l| l.min(at)));
        }
        if let Some(at) = later {
            self.wake_at(app, at);
        }
        let alloc = ripe?;
        let node = self.best_to_reserve(alloc)?;
        if self.ask_shim {
            if !self.may_ask() || self.is_refused(alloc, node) {
                return None;
            }
            self.ask(alloc, node, Intent::Reserve, false, cx);
        } else {
            self.reserve(alloc, node, cx);
        }
        // The others of the group may have waited long enough too.
        self.apps[app.ix()].groups_by_key.get_mut(key)?.hold = Some(Hold::Nodes);
        self.rouse_groups(app);
        Some(Outcome::Progress)
    }

    /// The unreserved, schedulable node whose free resources the ask covers best (R5.34).
    fn best_to_reserve(&self, alloc: AllocIx) -> Option<NodeIx> {
        let resource = &self.allocs[alloc.ix()].resource;
        let mut best: Option<(f64, NodeIx)> = None;
        for node in self.index.iter() {
            let row = &self.nodes[node.ix()];
            if !row.capacity.fits(resource) {
                continue;
            }
            let mut score = 0.0;
            for (kind, free) in row.available.iter().filter(|(_, free)| *free > 0) {
                score += match resource.get(kind).filter(|need| *need > 0) {
                    None => 1.0,
                    Some(need) => ((free - need) as f64 / free as f64).max(0.0),
                };
            }
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, node));
            }
        }
        best.map(|(_, node)| node)
    }
}
