//! Releases and confirmations by the shim (section 4.C of the scheduling rules), and the end of an allocation whatever ends it.

use std::{collections::BTreeMap, sync::Arc};

use super::{Books, Cx, Partition, states::AppEvent};
use crate::{
    alloc::Phase,
    app::App,
    command::ReleaseItem,
    effect::{AppEffect, Callback, Effect, Released},
    event::{Change, Detail, EventKind},
    resources::Resource,
    types::{AllocIx, AppIx, AppState, Nanos, Termination},
};

/// Why and how an allocation ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal {
    pub termination: Termination,
    /// Its node goes as a whole.
    pub node_goes: bool,
}

/// Text of the echo of a release by the shim (R4.20).
const ECHO: &str = "allocation remove as per RM request";
/// The same where what was released still waited (SEEDS S31).
const ECHO_OF_ASK: &str = "ask removed as per RM request";

/// An ask that was dropped.
pub(super) struct Lost {
    pub key: Arc<str>,
    pub placeholder: bool,
}

/// Confirms releases that begin with the shim, by the same type (R4.20, SEEDS S31). All other types answer a release of the
/// core's, and are not confirmed in turn.
fn confirm(
    app: &Arc<str>,
    keys: impl IntoIterator<Item = Arc<str>>,
    termination: Termination,
    text: &str,
    cx: &mut Cx,
) {
    confirm_at(cx.fx.len(), app, keys, termination, text, cx);
}

/// The same, before the effects from there on.
fn confirm_at(
    at: usize,
    app: &Arc<str>,
    keys: impl IntoIterator<Item = Arc<str>>,
    termination: Termination,
    text: &str,
    cx: &mut Cx,
) {
    if termination != Termination::StoppedByRm {
        return;
    }
    let message: Arc<str> = text.into();
    let released = |key| Released { key, app: app.clone(), termination, message: message.clone(), confirm: false };
    cx.callbacks_before(at, keys.into_iter().map(|key| Callback::Released(Box::new(released(key)))));
}

fn detail(termination: Termination) -> Detail {
    match termination {
        Termination::Unknown => Detail::AllocNodeRemoved,
        Termination::StoppedByRm | Termination::FailedOnRm => Detail::AllocCancel,
        Termination::Timeout => Detail::AllocTimeout,
        Termination::Preempted => Detail::AllocPreempt,
        Termination::PlaceholderReplaced => Detail::AllocReplaced,
    }
}

impl Partition {
    /// One release or confirmation (R4.18–R4.28).
    pub(super) fn release(&mut self, item: &ReleaseItem, cx: &mut Cx) {
        if item.app.is_empty() {
            self.release_foreign(&item.key, cx);
            return;
        }
        let Some(app) = self.app_by_id.get(&item.app).copied() else { return };
        // R4.20: not set counts as stopped by the shim, though events tell the two apart (EVT-026).
        let termination = match item.termination {
            Termination::Unknown => Termination::StoppedByRm,
            other => other,
        };
        if item.key.is_empty() {
            self.release_all(app, item.termination, termination, cx);
            return;
        }
        let Some(alloc) = self.by_key(app, &item.key) else { return };
        match self.allocs[alloc].phase {
            Phase::Pending | Phase::AwaitingShim | Phase::Replacing => {
                // A time-out keeps the ask (R4.19), and so does a failure of what was never handed out.
                if !matches!(termination, Termination::Timeout | Termination::FailedOnRm) {
                    let key = item.key.clone();
                    self.cancel_ask(alloc, Detail::RequestCancel, cx);
                    self.complete_if_clean(app, cx);
                    confirm(&item.app, [key], termination, ECHO_OF_ASK, cx);
                }
            }
            Phase::Ended => {
                if termination != Termination::Timeout {
                    self.ask_went(alloc, Detail::RequestCancel, cx);
                    self.forget(alloc);
                    // Its shim does not know that it went before: with its node, or by a time-out (SEEDS S31).
                    confirm(&item.app, [item.key.clone()], termination, ECHO, cx);
                }
            }
            Phase::Allocated => self.release_allocated(alloc, item.termination, termination, cx),
        }
    }

    /// One allocation goes, by the type that was given and the one that it counts as.
    fn release_allocated(&mut self, alloc: AllocIx, given: Termination, termination: Termination, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let (app, released) = (row.app, row.released);
        let app_id = self.apps[app].id.clone();
        match row.link {
            Some(real) if termination == Termination::PlaceholderReplaced => return self.commit_swap(alloc, real, cx),
            // R6.26a: the placeholder goes, the real ask is pending again.
            Some(real) => self.undo_swap_of_real(real, cx),
            None => {}
        }
        let row = &self.allocs[alloc];
        let key = row.spec.key.clone();
        let node = row.node.map(|node| self.nodes[node].spec.id.clone());
        let ends = self.is_ending(app);
        let (given, termination) = match termination {
            // It was told to go meanwhile, and the shim answers that for itself: an ask that waits again would have no pod.
            Termination::FailedOnRm if self.allocs[alloc].released && !ends => {
                (Termination::Timeout, Termination::Timeout)
            }
            other => (given, other),
        };
        let fails = termination == Termination::FailedOnRm;
        if fails && ends {
            // SEEDS S31: it would wait for nothing. The application may end with it.
            let lost = Lost { key: key.clone(), placeholder: self.allocs[alloc].is_placeholder() };
            let state = self.apps[app].state;
            let reason = format!("application {app_id} is {state} and ends: it takes no more asks");
            self.tell_lost(app, vec![lost], "releasing pending placeholders on application end", &reason, cx);
        }
        // It waits again in the same moment: its application does not end with it.
        let waits = u32::from(fails && !ends);
        self.apps[app].asking += waits;
        let before = cx.fx.len();
        self.remove_allocation(alloc, Removal { termination: given, node_goes: false }, cx);
        self.apps[app].asking -= waits;
        confirm_at(self.told_at(app, before, cx), &app_id, [key], termination, ECHO, cx);
        // The application may have ended with it.
        if self.apps[app].is_free() || self.allocs[alloc].is_free() {
            return;
        }
        match termination {
            Termination::FailedOnRm if !ends => {
                if let Some(node) = node {
                    self.note_failure(alloc, node, cx.now);
                }
                self.pend_again(alloc, cx);
            }
            // R4.19: the record stays, unless the core itself asked for this release.
            Termination::Timeout if !released => {}
            Termination::Timeout => {
                self.ask_went(alloc, Detail::RequestTimeout, cx);
                self.forget(alloc);
            }
            _ => {
                self.ask_went(alloc, Detail::RequestCancel, cx);
                self.forget(alloc);
            }
        }
    }

    /// The shim could not carry an allocation out: its ask waits again (R4.28).
    fn pend_again(&mut self, alloc: AllocIx, cx: &mut Cx) {
        self.gone_with.remove(&alloc);
        let row = &mut self.allocs[alloc];
        row.phase = Phase::Pending;
        row.told_gone = false;
        row.placeholder_used = false;
        row.requested = row.created;
        let (app, placeholder, group) = (row.app, row.is_placeholder(), row.spec.task_group.clone());
        row.triggered_scale_up = false;
        row.triggered_preemption = false;
        row.preemption_tried = Nanos(i64::MIN);
        if placeholder && let Some(group) = self.apps[app].gang.task_groups.get_mut(&group) {
            group.timed_out = group.timed_out.saturating_sub(1);
            group.live += 1;
        }
        if placeholder {
            self.drop_question_of_successor(alloc, cx);
        }
        self.enqueue(alloc);
        self.run_again(app, cx);
        self.start_timer_of_waiting(app, cx);
    }

    /// An ask that has no allocation goes, whatever it waits for.
    pub(super) fn cancel_ask(&mut self, alloc: AllocIx, detail: Detail, cx: &mut Cx) {
        match self.allocs[alloc].phase {
            Phase::Replacing => self.undo_swap_of_real(alloc, cx),
            Phase::AwaitingShim => self.withdraw_question(alloc, cx),
            _ => {}
        }
        if self.allocs[alloc].reserved.is_some() {
            self.unreserve(alloc, cx);
        }
        self.dequeue(alloc);
        let row = &self.allocs[alloc];
        let app = row.app;
        if row.is_placeholder() {
            let group = row.spec.task_group.clone();
            if let Some(counters) = self.apps[app].gang.task_groups.get_mut(&group) {
                counters.live = counters.live.saturating_sub(1);
            }
            let atomic = self.queues[self.apps[app].queue].settings.atomic_gangs;
            if atomic || !self.apps[app].awaits_placeholders() {
                // The rest of the gang may fit, or all of it is there (SEEDS S10).
                self.rouse_groups(app);
            }
            self.rouse_gang(app, &group);
            self.stop_timer_of_nothing(app);
            self.gang_progress(app);
            // What its gang still waits for is less: others may begin (SEEDS S11).
            self.unblock_limits();
        }
        self.ask_went(alloc, detail, cx);
        self.forget(alloc);
        self.user_leave(app, cx);
    }

    /// Nothing pending, nothing allocated, no placeholder: the application completes (R3.14).
    pub(super) fn complete_if_clean(&mut self, app: AppIx, cx: &mut Cx) {
        let row = &self.apps[app];
        if self.is_idle(app)
            && row.gang.placeholders == 0
            && matches!(row.state, AppState::Accepted | AppState::Running)
        {
            self.fire(app, AppEvent::Complete, None, cx);
        }
    }

    /// Where among the effects releases are told of that began when there were so many: before the end of the application,
    /// where it ended with them (SEEDS S13).
    fn told_at(&self, app: AppIx, before: usize, cx: &Cx) -> usize {
        if self.apps[app].is_free() { before } else { cx.fx.len() }
    }

    /// Releases everything of an application (R4.23).
    fn release_all(&mut self, app: AppIx, given: Termination, termination: Termination, cx: &mut Cx) {
        // R4.23b
        let (given, termination) = match termination {
            Termination::PlaceholderReplaced | Termination::FailedOnRm => {
                (Termination::StoppedByRm, Termination::StoppedByRm)
            }
            other => (given, other),
        };
        let charged = |app: &App| app.allocated.plus(&app.gang.allocated);
        let used = charged(&self.apps[app]);
        let ending = self.apps[app].state == AppState::Completing;
        self.apps[app].releasing_all = true;
        let (id, before) = (self.apps[app].id.clone(), cx.fx.len());
        let released = self.remove_allocations(app, given, cx);
        if !self.apps[app].is_free() {
            self.apps[app].releasing_all = false;
            // One event with the sum, not one for each (EVT-050). What the shim is being asked about is charged still.
            let gone = used.minus(&charged(&self.apps[app]));
            if !gone.is_zero() || self.is_idle(app) {
                self.user_decrease(app, &Arc::new(gone), cx);
            }
            if ending && !released.is_empty() {
                // R4.23a
                self.complete_later(app, cx.now);
            }
        }
        confirm_at(self.told_at(app, before, cx), &id, released, termination, ECHO, cx);
        if self.apps[app].is_free() || termination == Termination::Timeout {
            return;
        }
        let asks = self.cancel_asks(app, Detail::RequestCancel, cx).into_iter().map(|lost| lost.key);
        self.complete_if_clean(app, cx);
        confirm(&id, asks, termination, ECHO_OF_ASK, cx);
    }

    /// All allocations of an application go, in order of arrival; gives their keys.
    pub(super) fn remove_allocations(&mut self, app: AppIx, termination: Termination, cx: &mut Cx) -> Vec<Arc<str>> {
        let mut keys = Vec::new();
        self.each_item(app, 0, &mut { usize::MAX }, |p, alloc| keys.extend(p.drop_allocation(alloc, termination, cx)));
        keys
    }

    /// Does something with the asks and allocations of an application in order of arrival, from this arrival number on and
    /// for as many as `items` allows. Gives the number to go on with, where some are left.
    pub(super) fn each_item(
        &mut self,
        app: AppIx,
        mut from: u64,
        items: &mut usize,
        mut act: impl FnMut(&mut Partition, AllocIx),
    ) -> Option<u64> {
        // One whose application has ended on the way has none left.
        loop {
            let (seq, alloc) = self.apps[app].by_seq.range(from..).next().map(|(seq, ix)| (*seq, *ix))?;
            if *items == 0 {
                return Some(seq);
            }
            *items -= 1;
            act(self, alloc);
            from = seq + 1;
        }
    }

    /// An allocation goes at the wish of the shim, with its record; gives its key. Asks stay.
    pub(super) fn drop_allocation(
        &mut self,
        alloc: AllocIx,
        termination: Termination,
        cx: &mut Cx,
    ) -> Option<Arc<str>> {
        let row = &self.allocs[alloc];
        if row.phase != Phase::Allocated {
            return None;
        }
        let (app, key) = (row.app, row.spec.key.clone());
        if let Some(real) = row.link {
            self.undo_swap_of_real(real, cx);
        }
        let released = self.allocs[alloc].released;
        self.remove_allocation(alloc, Removal { termination, node_goes: false }, cx);
        if !self.apps[app].is_free() && !self.allocs[alloc].is_free() {
            if termination != Termination::Timeout {
                self.ask_went(alloc, Detail::RequestCancel, cx);
                self.forget(alloc);
            } else if released {
                self.ask_went(alloc, Detail::RequestTimeout, cx);
                self.forget(alloc);
            }
        }
        Some(key)
    }

    /// All asks of an application go, and the records of ended allocations with them. Gives the asks in order of arrival.
    pub(super) fn cancel_asks(&mut self, app: AppIx, detail: Detail, cx: &mut Cx) -> Vec<Lost> {
        let mut lost = Vec::new();
        self.each_item(app, 0, &mut { usize::MAX }, |p, alloc| lost.extend(p.drop_ask(alloc, detail, cx)));
        lost
    }

    /// An ask goes, or the record of an ended allocation. Allocations stay.
    pub(super) fn drop_ask(&mut self, alloc: AllocIx, detail: Detail, cx: &mut Cx) -> Option<Lost> {
        let row = &self.allocs[alloc];
        match row.phase {
            Phase::Allocated => None,
            Phase::Ended => {
                self.ask_went(alloc, detail, cx);
                self.forget(alloc);
                None
            }
            _ => {
                let lost = Lost { key: row.spec.key.clone(), placeholder: row.is_placeholder() };
                self.cancel_ask(alloc, detail, cx);
                Some(lost)
            }
        }
    }

    /// The shim is told one by one of asks that were dropped because their application ends: placeholders are released with
    /// TIMEOUT, others rejected with the reason (SEEDS S31). Nothing is held for them any more, so an answer changes nothing.
    pub(super) fn tell_lost(&self, app: AppIx, lost: Vec<Lost>, released: &str, rejected: &str, cx: &mut Cx) {
        let id = &self.apps[app].id;
        let (message, reason): (Arc<str>, Arc<str>) = (released.into(), rejected.into());
        for Lost { key, placeholder } in lost {
            cx.callback(match placeholder {
                true => Callback::Released(Box::new(Released {
                    key,
                    app: id.clone(),
                    termination: Termination::Timeout,
                    message: message.clone(),
                    confirm: false,
                })),
                false => Callback::RejectedAllocation { key, app: id.clone(), reason: reason.clone() },
            });
        }
    }

    /// An allocation leaves all books; counters, history, events, and what its application does then (R3.15, R3.16). Its row
    /// stays as [`Phase::Ended`], and goes with the application where that ends.
    pub(super) fn remove_allocation(&mut self, alloc: AllocIx, removal: Removal, cx: &mut Cx) {
        let app = self.allocs[alloc].app;
        let books = if removal.node_goes { Books::REST } else { Books::ALL };
        self.take_off(alloc, removal, books, cx);
        if self.allocs[alloc].is_placeholder() {
            let group = self.allocs[alloc].spec.task_group.clone();
            if let Some(counters) = self.apps[app].gang.task_groups.get_mut(&group) {
                counters.timed_out += 1;
            }
            self.rouse_gang(app, &group);
            self.placeholder_gone(app, cx);
        } else if self.apps[app].state == AppState::Failing {
            self.fail_if_empty(app, cx);
        } else if self.apps[app].expiring && !self.apps[app].removing {
            self.finish_expiring(app, cx);
        } else if self.is_done(app) {
            self.fire(app, AppEvent::Complete, None, cx);
        }
    }

    /// The part that a removal and a replacement have in common: these books, history, flags and events.
    pub(super) fn take_off(&mut self, alloc: AllocIx, removal: Removal, books: Books, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let (app, node, placeholder) = (row.app, row.node, row.is_placeholder());
        let app_id = self.apps[app].id.clone();
        self.note_usage(alloc, cx);
        if self.allocs[alloc].preempted {
            self.sub_preempting(alloc);
            self.victim_gone(alloc);
        }
        self.refund(alloc, node, books, cx);
        let row = &mut self.allocs[alloc];
        let asked = if row.preempted {
            Some(Termination::Preempted)
        } else if row.released {
            Some(if row.link.is_some() { Termination::PlaceholderReplaced } else { Termination::Timeout })
        } else {
            None
        };
        row.phase = Phase::Ended;
        row.node = None;
        row.released = false;
        row.preempted = false;
        let (key, resource) = (row.spec.key.clone(), row.resource.clone());
        if let Some(termination) = asked.filter(|_| !crate::planted!("confirmation-lost")) {
            cx.fx.push(Effect::App(AppEffect::Confirmed { app: app_id.clone(), key: key.clone(), termination }));
        }
        cx.event_of(EventKind::App, &app_id, &key, Change::Remove, detail(removal.termination), &resource);
        self.allocation_changed(app);
        if let Some(node) = node.filter(|_| !removal.node_goes) {
            let row = &self.nodes[node];
            let id = row.spec.id.clone();
            cx.event_of(EventKind::Node, &id, &key, Change::Remove, Detail::NodeAlloc, &resource);
        }
        if placeholder {
            let group = self.allocs[alloc].spec.task_group.clone();
            self.not_replaceable(app, &group, alloc);
            let row = &mut self.apps[app];
            if let Some(group) = row.gang.task_groups.get_mut(&group) {
                group.live = group.live.saturating_sub(1);
            }
            if row.gang.placeholders == 0 {
                self.last_placeholder_went(app);
            }
        }
    }

    /// Adds a finished allocation to the application's history: resource × whole seconds by instance type (RES-069). Preempted
    /// is what was chosen as a victim, by whatever type the shim releases it.
    fn note_usage(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let Some(node) = row.node else { return };
        if self.apps[row.app].removing {
            // Nobody reads the history of an application that is not kept.
            return;
        }
        let instance = self.nodes[node].spec.instance_type();
        let seconds = cx.now.minus(row.bound).as_secs().max(0);
        let used = row.resource.times(i128::from(seconds));
        let real_preempted = row.preempted && !row.is_placeholder();
        let app = &mut self.apps[row.app];
        app.real_preempted |= real_preempted;
        let history = &mut app.history;
        let book: &mut BTreeMap<Arc<str>, Resource> = if row.preempted {
            &mut history.preempted
        } else if row.is_placeholder() {
            &mut history.placeholder
        } else {
            &mut history.normal
        };
        match book.get_mut(instance) {
            Some(sum) => sum.add(&used),
            None => {
                book.insert(instance.into(), used);
            }
        }
    }
}
