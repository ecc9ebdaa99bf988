//! The state machine of an application (R3.1–R3.22): events, transitions, what entering and leaving a state does.

use std::sync::Arc;

use super::{Cx, Partition, deadlines::Deadline};
use crate::{
    effect::Callback,
    event::{Change, Detail, EventKind},
    types::{AllocIx, AppIx, AppState, Nanos, QueueIx},
};

/// Entries of a state log at most.
const LOGGED: usize = 1_000;

/// What may happen to an application (R3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppEvent {
    Run,
    /// It has asks again, and is to be admitted like a new one.
    Return,
    Complete,
    Fail,
    Resume,
    Expire,
}

impl AppEvent {
    /// The name that state updates carry where no reason is given (R3.3).
    pub(super) fn name(self) -> &'static str {
        match self {
            AppEvent::Run | AppEvent::Return => "runApplication",
            AppEvent::Complete => "completeApplication",
            AppEvent::Fail => "failApplication",
            AppEvent::Resume => "resumeApplication",
            AppEvent::Expire => "expireApplication",
        }
    }
}

/// The transition table; `None`: not allowed, and nothing happens.
pub(super) fn next(state: AppState, event: AppEvent) -> Option<AppState> {
    use AppState::*;
    match (event, state) {
        (AppEvent::Run, New | Resuming) => Some(Accepted),
        (AppEvent::Run, Accepted | Completing | Running) => Some(Running),
        (AppEvent::Return, Completing) => Some(Accepted),
        (AppEvent::Complete, Accepted | Running) => Some(Completing),
        (AppEvent::Complete, Completing) => Some(Completed),
        (AppEvent::Fail, New | Accepted | Running) => Some(Failing),
        (AppEvent::Fail, Failing) => Some(Failed),
        (AppEvent::Resume, New | Accepted) => Some(Resuming),
        (AppEvent::Expire, Completed | Failed | Rejected) => Some(Expired),
        // SEEDS S6: the execution time of a running application is over and the shim has confirmed its releases.
        (AppEvent::Expire, Running | Completing) => Some(Expired),
        _ => None,
    }
}

fn detail(state: AppState) -> Detail {
    match state {
        AppState::New => Detail::AppNew,
        AppState::Accepted => Detail::AppAccepted,
        AppState::Running => Detail::AppRunning,
        AppState::Rejected => Detail::AppReject,
        AppState::Completing => Detail::AppCompleting,
        AppState::Completed => Detail::AppCompleted,
        AppState::Failing => Detail::AppFailing,
        AppState::Failed => Detail::AppFailed,
        AppState::Expired => Detail::AppExpired,
        AppState::Resuming => Detail::AppResuming,
    }
}

/// Time from Completing to Completed (R3.5).
pub(super) const COMPLETING: Nanos = Nanos::from_secs(30);
/// Time from an end to Expired (R3.5).
pub(super) const TERMINATED: Nanos = Nanos::from_secs(72 * 3600);

impl Partition {
    /// Fires an event; true where the state changed.
    pub(super) fn fire(&mut self, ix: AppIx, event: AppEvent, reason: Option<&str>, cx: &mut Cx) -> bool {
        let row = &self.apps[ix];
        let old = row.state;
        match next(old, event) {
            Some(new) if new != old => {
                self.leave_state(ix, old, cx.now);
                self.enter_state(ix, new, reason.unwrap_or(event.name()), reason.is_some(), cx);
                true
            }
            _ => false,
        }
    }

    /// A real allocation came to an application, in whatever way: placed, recovered, or in a placeholder's place, which went
    /// with its node or which the shim released (`confirmed`): it runs (R3.10, R3.11, R3.18, R2.23).
    pub(super) fn real_came(&mut self, ix: AppIx, confirmed: bool, cx: &mut Cx) {
        let row = &self.apps[ix];
        let first = row.allocs.len() == row.gang.placeholders as usize + 1;
        // R6.29: the first confirmed replacement of an incomplete gang changes nothing, the second does; with the last placeholder it
        // is incomplete no more.
        let waits = confirmed && first && row.gang.placeholders > 0 && row.state != AppState::Completing;
        if row.state != AppState::Running && !waits {
            self.fire(ix, AppEvent::Run, None, cx);
        }
    }

    /// A completing application has asks again (R3.13). One of which nothing is there counts in no limit of applications any more: where
    /// there is one for it, it waits for its turn like a new one (SEEDS S35).
    pub(super) fn run_again(&mut self, ix: AppIx, cx: &mut Cx) {
        if self.apps[ix].state == AppState::Completing {
            let anew = self.apps[ix].allocs.is_empty() && self.has_limit_of_apps(ix);
            self.fire(ix, if anew { AppEvent::Return } else { AppEvent::Run }, None, cx);
        }
    }

    fn has_limit_of_apps(&self, ix: AppIx) -> bool {
        let row = &self.apps[ix];
        let by_user = || self.ugm.bounds(row.track?).into_iter().find(|bound| bound.limit.applications > 0);
        self.path(row.queue).any(|queue| self.queues[queue].max_applications > 0) || by_user().is_some()
    }

    fn leave_state(&mut self, ix: AppIx, old: AppState, now: Nanos) {
        self.apps[ix].state_timer = None;
        if old == AppState::Running {
            self.count_running(ix, false);
            self.stop_execution_timer(ix, now);
        }
    }

    /// The time of Completing begins, or begins anew.
    pub(super) fn complete_later(&mut self, ix: AppIx, now: Nanos) {
        let timer = self.serial();
        self.apps[ix].state_timer = Some(timer);
        self.deadlines.add(now.plus(COMPLETING), Deadline::State { app: ix, timer });
    }

    fn enter_state(&mut self, ix: AppIx, new: AppState, message: &str, has_reason: bool, cx: &mut Cx) {
        let now = cx.now;
        let row = &mut self.apps[ix];
        let (old, queue) = (std::mem::replace(&mut row.state, new), row.queue);
        if row.state_log.is_empty() {
            // Accepted and Running: most have no more for most of their time.
            row.state_log.reserve_exact(2);
        }
        // Of one that works and rests again and again the first is kept, and the newest.
        let more = (row.state_log.len() + 1).saturating_sub(LOGGED);
        if more > 0 {
            row.state_log.drain(1..=more);
        }
        row.state_log.push((now, new));
        let states = &mut self.queues[queue].states;
        states[old as usize] -= 1;
        states[new as usize] += 1;
        let row = &mut self.apps[ix];
        let id = row.id.clone();
        cx.callback(Callback::UpdatedApplication { app: id.clone(), state: new, at: now, message: Arc::from(message) });
        let text = if has_reason { message } else { "" };
        cx.message(EventKind::App, &id, &"".into(), (Change::Set, detail(new)), text, None);
        match new {
            AppState::Running => {
                row.started = Some(now);
                // However it came to run: an allocation that the shim placed asks no limit.
                self.note_held_by_quota(ix, false, cx);
                self.leave_allocating(ix);
                self.count_running(ix, true);
                self.start_execution_timer(ix, now);
                self.rouse_groups(ix);
            }
            AppState::Completing => {
                // Nothing of it is allocated or waits: another may take its place (SEEDS S35).
                self.leave_allocating(ix);
                self.complete_later(ix, now);
            }
            AppState::Completed | AppState::Failed | AppState::Expired => {
                row.finished = Some(now);
                self.retire(ix, cx);
            }
            AppState::Resuming => {
                // QUE-091: no limit of applications holds it back any more, nor its gang.
                self.ripen_all_of(ix);
                self.rouse_groups(ix);
            }
            AppState::Accepted => self.rouse_groups(ix),
            _ => {}
        }
    }

    /// Running applications on every queue of the path (R3.6, QUE-090), counted exactly.
    pub(super) fn count_running(&mut self, ix: AppIx, up: bool) {
        for queue in self.up(self.apps[ix].queue) {
            let row = &mut self.queues[queue];
            // One too few would keep everything else of the queue out: tests hear of it, users do not.
            debug_assert!(up || row.running > 0, "running in {}", row.path);
            row.running = if up { row.running + 1 } else { row.running.saturating_sub(1) };
        }
        if !up {
            self.unblock_limits();
        }
    }

    /// An accepted application has its first allocation: it counts against the limits of running applications (QUE-090).
    pub(super) fn enter_allocating(&mut self, ix: AppIx) {
        for queue in self.up(self.apps[ix].queue) {
            let row = &mut self.queues[queue];
            row.allocating.insert(ix);
        }
    }

    /// It no longer does, on any level (QUE-094).
    pub(super) fn leave_allocating(&mut self, ix: AppIx) {
        let mut was = false;
        for queue in self.up(self.apps[ix].queue) {
            let row = &mut self.queues[queue];
            was |= row.allocating.remove(&ix);
        }
        if was {
            self.unblock_limits();
        }
    }

    /// The queue, nearest to the leaf, whose limit of running applications keeps an accepted one from beginning (QUE-091, R4.36).
    pub(super) fn full_of_apps(&self, app: AppIx) -> Option<QueueIx> {
        self.path(self.apps[app].queue).find(|ix| !self.queues[*ix].may_begin(app, 0))
    }

    /// It is accepted, and a limit of applications of a queue, of its user or of its group keeps it from beginning.
    pub(super) fn may_not_begin(&self, app: AppIx) -> bool {
        self.apps[app].state == AppState::Accepted && (self.full_of_apps(app).is_some() || !self.user_can_run(app))
    }

    /// A timer of a state fell due (R3.5, R3.19).
    pub(super) fn state_timer(&mut self, ix: AppIx, timer: u64, cx: &mut Cx) {
        let row = &mut self.apps[ix];
        if row.is_free() || row.state_timer != Some(timer) {
            return;
        }
        row.state_timer = None;
        if row.state != AppState::Completing {
            return;
        }
        if row.gang.placeholders > 0 {
            self.release_placeholders(ix, "releasing placeholders on app complete", cx);
        } else if row.gang.swaps == 0 && row.asking == 0 {
            self.fire(ix, AppEvent::Complete, None, cx);
        }
    }

    /// Nothing pending and nothing real allocated, nor on its way to either.
    pub(super) fn is_idle(&self, ix: AppIx) -> bool {
        self.apps[ix].pending.is_zero() && self.has_nothing_real(ix)
    }

    /// Nothing real allocated, nor on its way to it.
    fn has_nothing_real(&self, ix: AppIx) -> bool {
        let row = &self.apps[ix];
        row.allocated.is_zero() && row.gang.swaps == 0 && row.asking == 0
    }

    /// It completes when an allocation goes (R3.15): it is idle, and no placeholder is being asked about either. Such a one is
    /// charged, and waits all the same as far as anybody knows.
    pub(super) fn is_done(&self, ix: AppIx) -> bool {
        self.is_idle(ix) && self.apps[ix].gang.awaiting_shim == 0
    }

    /// It would complete if this ask did not wait.
    pub(super) fn is_done_but_for(&self, ask: AllocIx) -> bool {
        let waiting = &self.allocs[ask];
        let row = &self.apps[waiting.app];
        let no_placeholder = row.gang.placeholders == 0 && row.gang.awaiting_shim == 0;
        let on_its_way_out = row.expiring || row.removing;
        no_placeholder && !on_its_way_out && self.has_nothing_real(waiting.app) && *row.pending == *waiting.resource
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_are_those_of_the_table() {
        // R3.2
        use AppState::*;
        let all = [New, Accepted, Running, Rejected, Completing, Completed, Failing, Failed, Expired, Resuming];
        let allowed = |event| -> Vec<(AppState, AppState)> {
            all.into_iter().filter_map(|state| next(state, event).map(|new| (state, new))).collect()
        };
        assert_eq!(
            allowed(AppEvent::Run),
            [(New, Accepted), (Accepted, Running), (Running, Running), (Completing, Running), (Resuming, Accepted)]
        );
        assert_eq!(allowed(AppEvent::Return), [(Completing, Accepted)]);
        assert_eq!(
            allowed(AppEvent::Complete),
            [(Accepted, Completing), (Running, Completing), (Completing, Completed)]
        );
        assert_eq!(
            allowed(AppEvent::Fail),
            [(New, Failing), (Accepted, Failing), (Running, Failing), (Failing, Failed)]
        );
        assert_eq!(allowed(AppEvent::Resume), [(New, Resuming), (Accepted, Resuming)]);
    }
}
