//! Gangs: placeholders, their replacement by real allocations, their time-out (section 6 of the scheduling rules).
//!
//! The domain owns the link of a replacement in flight: placeholder, real ask and node. `begin_swap` makes it, `commit_swap`
//! carries it out as one change of all books when the shim confirms, `undo_swap_of_real` takes it back; whatever happens in
//! between (node gone, release, time-out, removal) ends in one of the two within the same command.

use std::sync::Arc;

use super::{
    Books, Cx, Partition,
    apps::{GANG_TIMEOUT, OVER, time_left},
    deadlines::Deadline,
    releases::{Lost, Removal},
    states::AppEvent,
};
use crate::{
    alloc::Phase,
    app::Gang,
    effect::{AppEffect, Callback, Effect, NewAllocation, Released},
    event::{Change, Detail, EventKind},
    rare::Rare,
    resources::Resource,
    types::{AllocIx, AppIx, AppState, GangStyle, Nanos, NodeIx, Termination},
};

/// A gang that the shim reports has so much time at least, however old it is, so that all of it can be reported and replaced.
const RECOVERED: Nanos = Nanos::from_secs(10);

/// Text of the releases of a gang that took too long.
const TIMED_OUT: &str = "releasing allocated placeholders on placeholder timeout";

impl Partition {
    /// A placeholder was allocated: the time-out starts with the first, whatever the application does by then, and it runs when
    /// the gang is there (R3.12, R3.39).
    pub(super) fn placeholder_allocated(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let (app, group) = (row.app, row.spec.task_group.clone());
        let row = &mut self.apps[app];
        row.gang.replaceable.entry(group).or_default().insert(alloc);
        let begins = !std::mem::replace(&mut row.gang.started, true);
        self.start_gang_timer(app, false, cx);
        let row = &self.apps[app];
        // What the shim is being asked about is charged, and not there.
        let is_there = |ask: &Resource| match row.gang.awaiting_shim {
            0 => *ask == *row.gang.allocated,
            _ => *ask == row.placed()[1],
        };
        if matches!(row.state, AppState::Accepted | AppState::Resuming)
            && row.gang.placeholder_ask.as_deref().is_some_and(is_there)
        {
            self.fire(app, AppEvent::Run, None, cx);
        }
        self.gang_progress(app);
        self.look_for_swaps(app);
        // With the first one the gang has begun, also where the shim placed it: the others wait for room for all of it no more.
        if begins {
            self.end_gang_claim(app);
        }
        if begins || !self.apps[app].awaits_placeholders() {
            self.rouse_groups(app);
        }
    }

    /// Starts the time-out of placeholders where it does not run yet. Where one is `recovered` it goes on with what is left.
    pub(super) fn start_gang_timer(&mut self, app: AppIx, recovered: bool, cx: &Cx) {
        let row = &self.apps[app];
        if row.gang.timer.is_some() || row.state == AppState::Failing {
            return;
        }
        // An application that announced no gang has an execution time instead, if any (SEEDS S6).
        let whole = if row.timeout > Nanos::ZERO { row.timeout } else { GANG_TIMEOUT };
        let timeout = if recovered { time_left(whole, &row.tags, row.arrived).max(RECOVERED) } else { whole };
        let timer = self.serial();
        self.deadlines.add(cx.now.plus(timeout), Deadline::Placeholder { app, timer });
        self.gang_changes(app, |gang| gang.timer = Some(timer));
    }

    /// Where the application runs and its gang has begun, those that wait have no more than their time, placed or not: real asks of
    /// their groups wait for them (R3.39, seed 003, 216-236).
    pub(super) fn start_timer_of_waiting(&mut self, app: AppIx, cx: &Cx) {
        let row = &self.apps[app];
        if row.gang.started && row.state == AppState::Running && row.awaits_placeholders() {
            self.start_gang_timer(app, false, cx);
            self.gang_progress(app);
        }
    }

    /// Stops the time-out where no placeholder is left, placed or waiting (R3.40).
    pub(super) fn stop_timer_of_nothing(&mut self, app: AppIx) {
        let row = &self.apps[app];
        if row.gang.placeholders == 0 && !row.awaits_placeholders() {
            self.stop_gang_timer(app);
        }
    }

    /// A placeholder is gone: with the last of its group, real asks need not wait for one any more (R6.3, R6.7). Before, they
    /// would only be tried in vain.
    pub(super) fn rouse_gang(&mut self, app: AppIx, group: &str) {
        if self.apps[app].gang.task_groups.get(group).is_none_or(|group| group.replaceable_later() == 0) {
            self.rouse_groups(app);
        }
    }

    /// The first real ask of a gang came before any placeholder: it waits for one, at most for the placeholder time-out
    /// (SEEDS S10).
    pub(super) fn start_gang_wait(&mut self, app: AppIx, now: Nanos) {
        let timer = self.serial();
        let row = &mut self.apps[app];
        if row.gang.wait.is_none() {
            let until = now.plus(row.timeout);
            row.gang.wait = Some((timer, until));
            self.deadlines.add(until, Deadline::GangWait { app, timer });
        }
    }

    /// Real asks wait for the first placeholder no more.
    pub(super) fn end_gang_wait(&mut self, app: AppIx) {
        let row = &mut self.apps[app];
        if row.gang.to_come {
            row.gang.to_come = false;
            row.gang.wait = None;
            self.rouse_groups(app);
        }
    }

    pub(super) fn gang_wait_timer(&mut self, app: AppIx, timer: u64) {
        let row = &self.apps[app];
        if !row.is_free() && row.gang.wait.is_some_and(|(running, _)| running == timer) {
            self.end_gang_wait(app);
        }
    }

    /// The last placeholder that was placed is gone. An accepted gang of which nothing real has a place either begins anew, when there
    /// is room for all of it (SEEDS S11). Else those that still wait have no more time than before (R3.40).
    pub(super) fn last_placeholder_went(&mut self, app: AppIx) {
        let row = &self.apps[app];
        if row.state == AppState::Accepted && row.allocs.is_empty() && row.gang.swaps == 0 {
            self.stop_gang_timer(app);
            self.apps[app].gang.written(|gang| gang.started = false);
        } else {
            self.stop_timer_of_nothing(app);
        }
    }

    /// Keeps the set of gangs that have begun and still wait (SEEDS S11).
    pub(super) fn gang_progress(&mut self, app: AppIx) {
        let row = &self.apps[app];
        if !row.keeps_for_gang() {
            self.leave_gangs(app);
        } else if self.gangs.insert(app).is_none() {
            let kept = self.apps[app].gang.kept();
            self.count_awaited(app, &kept, true);
        }
    }

    /// Changes what a gang waits for, in the books of its queues too. Who calls it sees to those that may begin then.
    pub(super) fn gang_changes(&mut self, app: AppIx, change: impl FnOnce(&mut Gang)) {
        if !self.gangs.contains(&app) {
            change(&mut self.apps[app].gang);
            return;
        }
        let before = self.apps[app].gang.kept();
        change(&mut self.apps[app].gang);
        let after = self.apps[app].gang.kept();
        self.count_awaited(app, &before, false);
        self.count_awaited(app, &after, true);
    }

    /// The placeholders of a gang time out no more: nothing is kept for those that wait or have not come.
    pub(super) fn stop_gang_timer(&mut self, app: AppIx) {
        if self.apps[app].gang.timer.is_some() {
            self.gang_changes(app, |gang| gang.timer = None);
            self.gang_progress(app);
            self.unblock_limits();
        }
    }

    /// What gangs keep, counted anew: earlier releases kept nothing for placeholders that had not come.
    pub(super) fn count_gangs(&mut self) {
        for queue in self.queues.keys() {
            self.queues[queue].awaited = Rare::default();
        }
        self.gangs = Default::default();
        for app in self.apps.keys() {
            self.gang_progress(app);
        }
    }

    /// A gang waits no more, or is gone.
    pub(super) fn leave_gangs(&mut self, app: AppIx) {
        if self.gangs.remove(&app).is_some() {
            let kept = self.apps[app].gang.kept();
            self.count_awaited(app, &kept, false);
            self.unblock_limits();
        }
    }

    /// What gangs that have begun still wait for, on the whole path of their queue.
    fn count_awaited(&mut self, app: AppIx, amount: &Resource, more: bool) {
        for queue in self.up(self.apps[app].queue) {
            let row = &mut self.queues[queue];
            if more {
                row.awaited.add(amount)
            } else {
                row.awaited.sub(amount)
            }
            row.awaited.prune();
        }
    }

    /// A placeholder ask waits from now on, or no longer.
    pub(super) fn placeholder_waits(&mut self, app: AppIx, amount: &Resource, more: bool) {
        let row = &mut self.apps[app];
        if more {
            row.gang.pending_placeholders += 1;
            row.gang.awaited.add(amount);
        } else {
            row.gang.pending_placeholders -= 1;
            row.gang.awaited.sub(amount);
            row.gang.awaited.prune();
        }
        let first_or_last = self.apps[app].gang.pending_placeholders == u32::from(more);
        if self.gangs.contains(&app) {
            self.count_awaited(app, amount, more);
        }
        if first_or_last {
            self.gang_progress(app);
        }
    }

    /// Links a placeholder and the real ask that takes its place, and asks the shim to release the placeholder (R6.13,
    /// R6.14). On another node than the placeholder's, the real ask occupies that node at once (R6.10).
    pub(super) fn begin_swap(&mut self, placeholder: AllocIx, real: AllocIx, node: NodeIx, cx: &mut Cx) {
        if self.allocs[real].reserved.is_some() {
            self.unreserve(real, cx);
        }
        self.dequeue(real);
        let ph = &mut self.allocs[placeholder];
        ph.released = true;
        ph.link = Some(real);
        let (app, group, home) = (ph.app, ph.spec.task_group.clone(), ph.node);
        let row = &mut self.allocs[real];
        row.phase = Phase::Replacing;
        row.node = Some(node);
        row.bound = cx.now;
        row.link = Some(placeholder);
        if home != Some(node) {
            let placement = self.past_limits(real, Some(node), Books::NODE);
            self.charge(&placement, cx);
            self.node_event(real, node, Change::Add, cx);
        }
        let app_row = &mut self.apps[app];
        app_row.gang.swaps += 1;
        let app_id = app_row.id.clone();
        let mut counters = app_row.gang.task_groups.get_mut(&group);
        counters.iter_mut().for_each(|group| group.swapping += 1);
        if counters.is_some_and(|group| group.replaceable_later() == 0) {
            // SEEDS S32: no placeholder is left for the other real asks of the group.
            self.rouse_groups(app);
        }
        if !crate::planted!("swap-told-twice") {
            self.not_replaceable(app, &group, placeholder);
        }
        let message = format!("replacing allocationKey: {}", self.allocs[real].spec.key);
        let release = Released {
            key: self.allocs[placeholder].spec.key.clone(),
            app: app_id,
            termination: Termination::PlaceholderReplaced,
            message: message.into(),
            confirm: true,
        };
        self.send_release(release, cx);
    }

    /// Sends a release that the shim has to confirm.
    pub(super) fn send_release(&mut self, release: Released, cx: &mut Cx) {
        cx.fx.push(Effect::App(AppEffect::Unconfirmed { release: release.clone() }));
        cx.callback(Callback::Released(Box::new(release)));
    }

    /// Takes a replacement back: the real ask waits again, the placeholder may be replaced by another.
    pub(super) fn undo_swap_of_real(&mut self, real: AllocIx, cx: &mut Cx) {
        let row = &self.allocs[real];
        let Some(placeholder) = row.link else { return };
        if let Some(node) = row.node.filter(|node| self.allocs[placeholder].node != Some(*node)) {
            self.refund(real, Some(node), Books::NODE, cx);
            self.node_event(real, node, Change::Remove, cx);
        }
        self.unlink(placeholder, real);
        let row = &mut self.allocs[real];
        row.phase = Phase::Pending;
        row.node = None;
        row.triggered_scale_up = false;
        let ph = &mut self.allocs[placeholder];
        ph.released = false;
        let (app, key, group) = (ph.app, ph.spec.key.clone(), ph.spec.task_group.clone());
        // The placeholder stays, or goes by a release of its own: there is nothing to wait for.
        let (id, termination) = (self.apps[app].id.clone(), Termination::PlaceholderReplaced);
        cx.fx.push(Effect::App(AppEffect::Confirmed { app: id, key, termination }));
        self.apps[app].gang.replaceable.entry(group).or_default().insert(placeholder);
        self.look_for_swaps(app);
        self.enqueue(real);
        if self.apps[app].state == AppState::Completing {
            self.fire(app, AppEvent::Run, None, cx);
        }
    }

    /// A replacement takes up a node, or leaves it again (EVT-033, EVT-034): another one at once, that of the placeholder with it.
    pub(super) fn node_event(&self, alloc: AllocIx, node: NodeIx, change: Change, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let id = self.nodes[node].spec.id.clone();
        cx.event_of(EventKind::Node, &id, &row.spec.key, change, Detail::NodeAlloc, &row.resource);
    }

    fn unlink(&mut self, placeholder: AllocIx, real: AllocIx) {
        if !self.swaps_at_home.is_empty() {
            self.swaps_at_home.remove(&placeholder);
        }
        let ph = &mut self.allocs[placeholder];
        ph.link = None;
        let (app, group) = (ph.app, ph.spec.task_group.clone());
        self.allocs[real].link = None;
        self.questions.agreed.remove(&real);
        let row = &mut self.apps[app];
        row.gang.swaps -= 1;
        if let Some(group) = row.gang.task_groups.get_mut(&group) {
            group.swapping -= 1;
        }
    }

    fn drop_placeholder(&mut self, placeholder: AllocIx, cx: &mut Cx) {
        let removal = Removal { termination: Termination::PlaceholderReplaced, node_goes: false };
        self.remove_allocation(placeholder, removal, cx);
        // The application may have ended with it.
        if !self.allocs[placeholder].is_free() && self.allocs[placeholder].phase == Phase::Ended {
            self.ask_went(placeholder, Detail::RequestCancel, cx);
            self.forget(placeholder);
        }
    }

    /// The node of a replacement takes the real allocation once the placeholder is gone. On the placeholder's own one that makes it
    /// no fuller, so the room is not looked at, however full it is by now, unless the node has shrunk since (R6.9, SEEDS S25). On
    /// another one it is a new allocation, which a drained node does not take (R2.5).
    pub(super) fn swap_fits(&self, placeholder: AllocIx, real: AllocIx) -> bool {
        let (ph, row) = (&self.allocs[placeholder], &self.allocs[real]);
        let Some(node) = row.node else { return false };
        let at = &self.nodes[node];
        if ph.node == row.node && self.swaps_at_home.get(&placeholder).is_none_or(|before| at.capacity.ge_all(before)) {
            return true;
        }
        if ph.node != row.node && !at.schedulable() {
            return false;
        }
        let mut room = at.available.value();
        room.add(if ph.node == row.node { &ph.resource } else { &row.resource });
        room.fits(&row.resource)
    }

    /// Notes what a node had when the replacements began that are under way on it: its capacity changes.
    pub(super) fn note_swaps_at_home(&mut self, node: NodeIx) {
        let before = &self.nodes[node].capacity;
        for placeholder in &self.nodes[node].allocs {
            let row = &self.allocs[*placeholder];
            let at_home = row.released && row.link.is_some_and(|real| self.allocs[real].node == Some(node));
            if at_home && !self.swaps_at_home.contains_key(placeholder) {
                self.swaps_at_home.insert(*placeholder, before.clone());
            }
        }
    }

    /// The shim confirmed: placeholder out, real allocation in, as one change (R6.15). Where the node has shrunk meanwhile
    /// another one is taken, or the real ask waits again (SEEDS S25); a shim that is asked has to agree once more.
    pub(super) fn commit_swap(&mut self, placeholder: AllocIx, real: AllocIx, cx: &mut Cx) {
        let fits = self.swap_fits(placeholder, real);
        if fits && self.is_asked_again(placeholder, real) {
            let (node, created) = (self.allocs[real].node, self.allocs[placeholder].created);
            let app = self.allocs[real].app;
            let goes_on = matches!(self.apps[app].state, AppState::Accepted | AppState::Running);
            self.undo_swap_of_real(real, cx);
            self.drop_placeholder(placeholder, cx);
            if self.keep_place(real, node, created, cx) && goes_on && self.is_done_but_for(real) {
                // R3.18: told as where the real one takes the place at once.
                self.fire(app, AppEvent::Complete, None, cx);
                self.fire(app, AppEvent::Run, None, cx);
            }
            return;
        }
        if !fits && !self.swap_elsewhere(placeholder, real, cx) {
            self.undo_swap_of_real(real, cx);
            self.drop_placeholder(placeholder, cx);
            return;
        }
        self.swap(placeholder, real, false, cx);
        self.announce_swapped(real, cx);
        // The record of the placeholder goes with it.
        if !self.allocs[placeholder].is_free() {
            self.ask_went(placeholder, Detail::RequestCancel, cx);
            self.forget(placeholder);
        }
    }

    /// The real allocation takes the place of the placeholder, which the shim confirmed, or whose node goes (R2.23). The caller
    /// announces it.
    pub(super) fn swap(&mut self, placeholder: AllocIx, real: AllocIx, node_goes: bool, cx: &mut Cx) {
        let row = &self.allocs[placeholder];
        let (app, home, created) = (row.app, row.node, row.created);
        let group = row.spec.task_group.clone();
        let elsewhere = self.allocs[real].node != home;
        // The replacement still counts as in flight while the placeholder goes, so that user and application stay known.
        // On its own node the real one takes the very place of the placeholder.
        let books = if elsewhere && !node_goes { Books::ALL } else { Books::REST };
        let removal = Removal { termination: Termination::PlaceholderReplaced, node_goes };
        self.take_off(placeholder, removal, books, cx);
        if let Some(node) = home.filter(|_| !elsewhere) {
            self.hand_over(placeholder, real, node);
            self.node_event(real, node, Change::Add, cx);
        }
        self.unlink(placeholder, real);
        if let Some(counters) = self.apps[app].gang.task_groups.get_mut(&group) {
            counters.replaced += 1;
        }
        // R3.17a: a completing application does not end with its last placeholder while a real allocation takes its place,
        // and none becomes one by it where the node went (R2.27).
        match self.apps[app].state {
            AppState::Completing => {}
            AppState::Accepted | AppState::Running if node_goes => self.gang_progress(app),
            _ => self.placeholder_gone(app, cx),
        }
        let row = &mut self.allocs[real];
        row.phase = Phase::Allocated;
        row.placeholder_used = true;
        row.requested = created;
        let node = row.node;
        let placement = self.past_limits(real, node, Books::REST);
        self.charge(&placement, cx);
        self.real_came(app, !node_goes, cx);
        if self.apps[app].state == AppState::Accepted {
            // It may have left with its last placeholder, before the real one was there (QUE-090).
            self.enter_allocating(app);
        }
        self.note_peak(app);
        self.rouse_gang(app, &group);
    }

    /// Tells the shim of the real allocation that took a placeholder's place.
    pub(super) fn announce_swapped(&mut self, real: AllocIx, cx: &mut Cx) {
        if crate::planted!("swap-silent") {
            return;
        }
        let row = &self.allocs[real];
        let Some(node) = row.node else { return };
        let (spec, resource) = (row.spec.clone(), row.resource.clone());
        let app = row.app;
        self.scheduled(real, cx);
        self.request_event(real, Change::Set, Detail::RequestAlloc, cx);
        self.allocation_changed(app);
        let app = self.apps[app].id.clone();
        let node = self.nodes[node].spec.id.clone();
        self.allocated_events(real, cx);
        cx.callback(Callback::New(Box::new(NewAllocation { spec, app, node, resource })));
    }

    /// A placeholder is gone; with the last one the application goes on (R3.16).
    pub(super) fn placeholder_gone(&mut self, app: AppIx, cx: &mut Cx) {
        self.gang_progress(app);
        let row = &self.apps[app];
        if row.is_free() || row.gang.placeholders > 0 {
            return;
        }
        if row.expiring && !row.removing {
            self.finish_expiring(app, cx);
            return;
        }
        if row.removing {
            // R3.44: a removal ends in Completing at most, and never in Failed.
            if self.is_done(app) && matches!(row.state, AppState::Accepted | AppState::Running) {
                self.fire(app, AppEvent::Complete, None, cx);
            }
            return;
        }
        match row.state {
            // R4.23a, which is above R3.17 here.
            AppState::Completing if row.releasing_all => {}
            AppState::Failing => self.fail_if_empty(app, cx),
            AppState::Resuming | AppState::Accepted if row.has_something_real() => {
                self.run_on(app, cx);
            }
            AppState::Resuming => {
                self.fire(app, AppEvent::Run, None, cx);
                if self.is_done(app) && self.apps[app].has_run() {
                    // What ended while it was Resuming could not complete it (R3.15).
                    self.fire(app, AppEvent::Complete, None, cx);
                } else if self.is_idle(app) {
                    // Nothing of it is allocated or waits: another may take its place (SEEDS S35).
                    self.leave_allocating(app);
                }
            }
            AppState::Completing if row.state_timer.is_none() && self.is_done(app) => {
                self.fire(app, AppEvent::Complete, None, cx);
            }
            // R3.17: also a completing application whose timer runs.
            _ if self.is_done(app) => {
                self.fire(app, AppEvent::Complete, None, cx);
            }
            _ => {}
        }
    }

    /// One of which something real is there, and nothing of the gang is to come, runs: from Resuming by way of Accepted (R3.11, R3.22,
    /// R6.17).
    fn run_on(&mut self, app: AppIx, cx: &mut Cx) {
        while matches!(self.apps[app].state, AppState::Resuming | AppState::Accepted)
            && self.fire(app, AppEvent::Run, None, cx)
        {}
    }

    /// A failing application fails when nothing of it is left.
    pub(super) fn fail_if_empty(&mut self, app: AppIx, cx: &mut Cx) {
        let row = &self.apps[app];
        if row.state == AppState::Failing && row.allocs.is_empty() && !row.removing {
            self.fire(app, AppEvent::Fail, None, cx);
        }
    }

    /// Asks the shim to release every placeholder that is not on its way out already (R6.17, R6.18).
    pub(super) fn release_placeholders(&mut self, app: AppIx, message: &str, cx: &mut Cx) {
        self.time_out(app, message, |placeholder| placeholder, cx);
    }

    /// Asks the shim to release allocations with TIMEOUT.
    pub(super) fn time_out(&mut self, app: AppIx, message: &str, choose: impl Fn(bool) -> bool, cx: &mut Cx) {
        let message: Arc<str> = message.into();
        let mut allocs: Vec<AllocIx> = self.apps[app].allocs.keys().copied().collect();
        allocs.sort_unstable_by_key(|alloc| self.allocs[*alloc].seq);
        for alloc in allocs {
            let row = &self.allocs[alloc];
            if row.phase == Phase::Allocated && !row.is_going() && choose(row.is_placeholder()) {
                self.ask_back(alloc, message.clone(), cx);
            }
        }
    }

    /// Asks the shim to release an allocation with TIMEOUT.
    pub(super) fn ask_back(&mut self, alloc: AllocIx, message: Arc<str>, cx: &mut Cx) {
        let row = &mut self.allocs[alloc];
        row.released = true;
        let (app, key, group) = (row.app, row.spec.key.clone(), row.spec.task_group.clone());
        if row.is_placeholder() {
            self.not_replaceable(app, &group, alloc);
        }
        let app = self.apps[app].id.clone();
        self.send_release(Released { key, app, termination: Termination::Timeout, message, confirm: true }, cx);
    }

    /// The shim reports an allocation of an application that fails or expires: everything of it goes (R6.22, SEEDS S6).
    pub(super) fn ask_back_late(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let message = if self.apps[self.allocs[alloc].app].expiring { OVER } else { TIMED_OUT };
        self.ask_back(alloc, message.into(), cx);
    }

    /// The gang took too long (R6.17–R6.22, SEEDS S13: the releases come first, then the state).
    pub(super) fn placeholder_timer(&mut self, app: AppIx, timer: u64, cx: &mut Cx) {
        let row = &self.apps[app];
        if row.is_free() || row.gang.timer != Some(timer) {
            return;
        }
        self.stop_gang_timer(app);
        let row = &self.apps[app];
        // One of which nothing waits and a part of the real work runs has not failed: what it sent may have been another sum than it
        // announced (seed 003, 236-241). It runs, also where R6.29 has not said so yet.
        let runs = row.has_something_real() && !row.awaits_placeholders();
        if matches!(row.state, AppState::Running | AppState::Completing) || runs {
            self.release_placeholders(app, TIMED_OUT, cx);
            // Those that wait had their time, too, and real asks of their groups wait for them (seed 003, 216-236).
            self.drop_waiting(app, false, cx);
            self.run_on(app, cx);
            return;
        }
        let hard = row.gang.style == GangStyle::Hard;
        if hard {
            for real in self.apps[app].by_seq.values().copied().collect::<Vec<_>>() {
                if self.allocs[real].phase == Phase::Replacing {
                    self.undo_swap_of_real(real, cx);
                }
            }
        }
        self.time_out(app, TIMED_OUT, |placeholder| placeholder || hard, cx);
        self.drop_waiting(app, hard, cx);
        let event = if hard { AppEvent::Fail } else { AppEvent::Resume };
        self.fire(app, event, Some("ResourceReservationTimeout"), cx);
        if self.apps[app].gang.placeholders == 0 {
            self.placeholder_gone(app, cx);
        }
    }

    /// Drops the pending placeholders of a gang that timed out, with Hard all pending asks (R6.19, R6.20, SEEDS S31). Of
    /// those that were placed and are asked back now, events tell that they timed out, too (EVT-024); where the application runs on,
    /// when the shim confirms it.
    fn drop_waiting(&mut self, app: AppIx, hard: bool, cx: &mut Cx) {
        let runs = matches!(self.apps[app].state, AppState::Running | AppState::Completing);
        let mut lost = Vec::new();
        for alloc in self.apps[app].by_seq.values().copied().collect::<Vec<_>>() {
            let row = &self.allocs[alloc];
            if !(hard || row.is_placeholder()) {
                continue;
            }
            match row.phase {
                Phase::Pending | Phase::AwaitingShim => {}
                Phase::Allocated if !runs => {
                    self.ask_went(alloc, Detail::RequestTimeout, cx);
                    continue;
                }
                _ => continue,
            }
            let group = row.spec.task_group.clone();
            lost.push(Lost { key: row.spec.key.clone(), placeholder: row.is_placeholder() });
            if let Some(group) = self.apps[app].gang.task_groups.get_mut(&group) {
                group.timed_out += 1;
            }
            self.cancel_ask(alloc, Detail::RequestTimeout, cx);
        }
        let rejected = format!(
            "application {} fails: its placeholders were not all allocated within their time-out",
            self.apps[app].id
        );
        self.tell_lost(app, lost, "releasing pending placeholders on placeholder timeout", &rejected, cx);
    }
}
