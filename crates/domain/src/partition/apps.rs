//! Applications are submitted, end and are removed (sections 3.C and 3.F of the scheduling rules).

use std::{collections::BTreeSet, sync::Arc};

use super::{Cx, Partition, deadlines::Deadline, states::AppEvent};
use crate::{
    app::{App, Gang},
    coded::variants,
    command::AddApplication,
    effect::{AppEffect, Callback, Effect, QueueEffect, Released},
    event::{Change, Detail, EventKind},
    names, placement,
    rare::Rare,
    run::Run,
    sorted::{Sorted, Texts},
    summary::AppSummary,
    types::{AppIx, AppState, GangStyle, Nanos, ObjectState, QueueIx, Termination},
};

/// Tag with the creation time of an application in Unix seconds (R3.36).
pub const CREATION_TIME: &str = "yunikorn.apache.org/creationTime";
/// Placeholder time-out where none is given (R3.38).
pub(super) const GANG_TIMEOUT: Nanos = Nanos::from_secs(15 * 60);

/// Owner of an application after the rules of ACL-030–ACL-032.
pub(super) struct Owner {
    pub user: Arc<str>,
    pub groups: Arc<[Arc<str>]>,
}

/// How far the end of an application is: asks go first, then allocations; from this arrival number on they are still there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Closing {
    Asks(u64),
    Allocations(u64),
}

/// Text of the releases of an application whose execution time is over.
pub(super) const OVER: &str = "releasing allocations on application execution timeout";

impl Partition {
    /// An application request: submissions, the answers to them, then removals (R1.30).
    pub(super) fn apply_applications(&mut self, new: Vec<AddApplication>, remove: &[Arc<str>], cx: &mut Cx) {
        let mut answers = Vec::new();
        for item in new {
            let id = item.id.clone();
            answers.push(match self.submit(item, cx) {
                Ok(()) => Callback::AcceptedApplication(id),
                Err(reason) => Callback::RejectedApplication { app: id, reason },
            });
        }
        cx.fx.extend(answers.into_iter().map(Effect::Callback));
        for id in remove {
            self.remove_application(id, cx);
        }
    }

    /// One submission; the first check that fails rejects it (R3.23).
    fn submit(&mut self, item: AddApplication, cx: &mut Cx) -> Result<(), Arc<str>> {
        cx.event(EventKind::App, &item.id, Change::Add, Detail::AppNew);
        let forced = placement::is_forced(&item.tags);
        let mut row = self.new_app(&item, forced, cx.now);
        let queue = match self.admit(&item, &mut row, forced, cx) {
            Ok(queue) => queue,
            Err(reason) => {
                // What was refused before a queue was found belongs to none.
                if let Some(queue) = self.nearest_queue(&row.queue_path) {
                    let (app, reason) = (row.id.clone(), reason.clone());
                    cx.fx.push(Effect::Queue(QueueEffect::Refused { queue, app, reason }));
                }
                self.reject(row, &reason, cx);
                return Err(reason);
            }
        };
        row.queue = queue;
        row.queue_path = self.queues[queue].path.clone();
        self.share_names(queue, &mut row);
        let beside = self.queues[queue].apps.get_min().and_then(|app| self.apps[*app].track);
        let chain = beside.map_or_else(|| self.chain(queue), |track| self.ugm.chain_of(track));
        row.track = Some(self.ugm.open(row.id.clone(), row.user.clone(), row.groups.clone(), chain));
        let id = row.id.clone();
        let ix = self.apps.add(row);
        self.app_by_id.insert(id.clone(), ix);
        let row = &mut self.queues[queue];
        row.apps.insert(ix);
        row.states[AppState::New as usize] += 1;
        let path = row.path.clone();
        cx.message(EventKind::Queue, &path, &id, (Change::Add, Detail::QueueApp), "", None);
        cx.fx.push(Effect::Queue(QueueEffect::Admitted { queue: path, app: id.clone() }));
        cx.fx.push(Effect::App(AppEffect::Added { app: id }));
        Ok(())
    }

    /// Names that the queue and other applications of the user have already are kept once.
    fn share_names(&self, queue: QueueIx, row: &mut App) {
        let path = &self.queues[queue].path;
        if row.submitted_queue == *path {
            row.submitted_queue = path.clone();
        }
        self.ugm.share_owner(&mut row.user, &mut row.groups);
    }

    fn admit(&mut self, item: &AddApplication, row: &mut App, forced: bool, cx: &mut Cx) -> Result<QueueIx, Arc<str>> {
        let owner = owner(item, forced)?;
        row.user = owner.user;
        row.groups = owner.groups;
        if self.state != ObjectState::Active {
            return Err(
                format!("partition {} is stopped cannot add a new application {}", self.internal, item.id).into()
            );
        }
        if self.app_by_id.contains_key(&item.id) {
            return Err(format!(
                "adding application {} to partition {}, but application already existed",
                item.id, self.internal
            )
            .into());
        }
        if gang_style(&item.gang_style).is_none() {
            // SEEDS S33
            let (id, style) = (&item.id, &item.gang_style);
            return Err(format!(
                "application {id} has gang scheduling style \"{style}\", which is not known: Hard and Soft are"
            )
            .into());
        }
        if item.placeholder_ask.as_ref().is_some_and(|ask| ask.has_negative()) {
            return Err(format!("application {} announces placeholders of a negative amount", item.id).into());
        }
        let queue = self.place_application(item, row, cx)?;
        self.apply_tags(queue, &item.tags, cx);
        if let Err(reason) = self.check_gang(queue, row) {
            row.queue_path = self.queues[queue].path.clone();
            return Err(reason);
        }
        Ok(queue)
    }

    fn new_app(&mut self, item: &AddApplication, forced: bool, now: Nanos) -> App {
        let placeholder_ask = item.placeholder_ask.clone().filter(|ask| !ask.is_zero()).map(Box::new);
        let style = gang_style(&item.gang_style).unwrap_or_default();
        let gang = placeholder_ask.is_some();
        let given = i128::from(item.timeout_millis) * 1_000_000;
        let given = i64::try_from(given).ok().filter(|nanos| *nanos > 0).map(Nanos);
        let timeout = match gang {
            true => given.unwrap_or(GANG_TIMEOUT),
            false => given.unwrap_or(Nanos::ZERO),
        };
        App {
            id: item.id.clone(),
            user: item.user.clone(),
            groups: Arc::default(),
            queue: self.root,
            queue_path: item.queue.clone(),
            submitted_queue: item.queue.clone(),
            state: AppState::New,
            tags: item.tags.clone(),
            forced,
            gang: match gang || style != GangStyle::default() {
                true => Gang { placeholder_ask, style, to_come: gang, ..Gang::default() }.into(),
                false => Rare::default(),
            },
            timeout,
            submission: now,
            arrived: now,
            started: None,
            finished: None,
            pending: Rare::default(),
            allocated: Rare::default(),
            claimed: Rare::default(),
            max_used: Rare::default(),
            by_seq: Run::new(),
            allocs: Run::new(),
            groups_by_key: Sorted::new(),
            group_order: Sorted::new(),
            priorities: Sorted::new(),
            reservations: BTreeSet::new(),
            asked: Default::default(),
            asking: 0,
            in_question: Rare::default(),
            priority: i32::MIN,
            state_log: Vec::new(),
            ran: Nanos::ZERO,
            rejected: None,
            history: Rare::default(),
            real_preempted: false,
            backoff_until: None,
            blocked: false,
            parked: None,
            blocked_groups: BTreeSet::new(),
            failed_groups: BTreeSet::new(),
            blocked_in: 0,
            order: None,
            untold: false,
            dirty: false,
            track: None,
            serial: self.serial(),
            state_timer: None,
            execution_timer: None,
            removing: false,
            releasing_all: false,
            expiring: false,
            wake_at: None,
            held_by_queue: false,
            held_by_quota: false,
            skipped_to: 0,
            free: Default::default(),
        }
    }

    /// Remembers a refused submission (R3.25); an earlier one of the same id is replaced.
    fn reject(&mut self, mut row: App, reason: &Arc<str>, cx: &mut Cx) {
        row.state = AppState::Rejected;
        row.state_log.push((cx.now, AppState::Rejected));
        row.finished = Some(cx.now);
        row.rejected = Some(reason.clone());
        let id = row.id.clone();
        cx.message(EventKind::App, &id, &"".into(), (Change::Set, Detail::AppReject), reason, None);
        // One moment is kept for each id, however often it is refused.
        let first = self.rejected.get(&id).is_none_or(|before| before.state != AppState::Rejected);
        self.rejected.insert(id.clone(), Arc::new(row.kept()));
        if first {
            self.keep_rejected(id, cx);
        }
    }

    /// The shim removes an application: asks, allocations, the application (R3.43, R3.44); an unknown id stays silent.
    fn remove_application(&mut self, id: &Arc<str>, cx: &mut Cx) {
        let Some(ix) = self.app_by_id.get(id).copied() else { return };
        let mut released = Vec::new();
        self.close_application(ix, Closing::Asks(0), &mut { usize::MAX }, &mut released, cx);
        let message: Arc<str> = format!("Application {id} Removed").into();
        for key in released {
            cx.callback(Callback::Released(Box::new(Released {
                key,
                app: id.clone(),
                termination: Termination::StoppedByRm,
                message: message.clone(),
                confirm: false,
            })));
        }
    }

    /// The common part of removal by the shim and of the end of the partition: goes on with it for up to `items` asks and
    /// allocations, whose keys `released` gets. `None`: the application is gone.
    pub(super) fn close_application(
        &mut self,
        ix: AppIx,
        closing: Closing,
        items: &mut usize,
        released: &mut Vec<Arc<str>>,
        cx: &mut Cx,
    ) -> Option<Closing> {
        let mut first = 0;
        match closing {
            Closing::Asks(from) => {
                // Nothing of it may end it on the way: it ends here.
                self.stop_gang_timer(ix);
                self.apps[ix].execution_timer = None;
                let drop = |p: &mut Partition, ask| drop(p.drop_ask(ask, Detail::RequestCancel, cx));
                if let Some(next) = self.each_item(ix, from, items, drop) {
                    return Some(Closing::Asks(next));
                }
                self.complete_if_clean(ix, cx);
                if !self.apps[ix].is_free() && self.apps[ix].state == AppState::Completing {
                    self.apps[ix].removing = true;
                    self.fire(ix, AppEvent::Complete, None, cx);
                }
                self.apps[ix].removing = true;
            }
            Closing::Allocations(from) => first = from,
        }
        let drop = |p: &mut Partition, alloc| released.extend(p.drop_allocation(alloc, Termination::StoppedByRm, cx));
        if let Some(next) = self.each_item(ix, first, items, drop) {
            return Some(Closing::Allocations(next));
        }
        self.cancel_asks(ix, Detail::RequestCancel, cx);
        self.detach(ix, true, cx);
        None
    }

    /// A completed, failed or expired application leaves its queue and is kept for readers (R3.7, R3.47). One that is being
    /// removed is not kept.
    pub(super) fn retire(&mut self, ix: AppIx, cx: &mut Cx) {
        if self.apps[ix].removing {
            return;
        }
        self.cancel_asks(ix, Detail::RequestCancel, cx);
        let mut copy = self.apps[ix].clone();
        let history = std::mem::take(&mut copy.history);
        if let Some(started) = copy.started {
            let summary = AppSummary {
                app: copy.id.clone(),
                submission: copy.submission,
                started,
                finished: cx.now,
                user: copy.user.clone(),
                queue: copy.queue_path.clone(),
                state: copy.state,
                rm: self.rm.clone(),
                history,
            };
            cx.fx.push(Effect::App(AppEffect::Ended { summary: Arc::new(summary) }));
        }
        self.detach(ix, false, cx);
        copy.by_seq = Run::new();
        copy.order = None;
        copy.track = None;
        let (id, finished) = (copy.id.clone(), cx.now);
        self.terminated.insert((id.clone(), finished), Arc::new(copy.kept()));
        self.keep_terminated(id, cx);
    }

    /// Takes an application without allocations and asks out of its queue and out of the tables.
    fn detach(&mut self, ix: AppIx, removed: bool, cx: &mut Cx) {
        let row = &self.apps[ix];
        let (id, queue, state) = (row.id.clone(), row.queue, row.state);
        if state == AppState::Running {
            // It goes without leaving its state.
            self.count_running(ix, false);
        }
        self.leave_allocating(ix);
        self.user_close(ix, removed, cx);
        self.leave_order(ix);
        self.leave_gangs(ix);
        self.waits_for_questions_no_more(ix);
        self.swappable.remove(&ix);
        self.reserved_apps.remove(&ix);
        if self.apps[ix].untold {
            self.untold.remove(&ix);
        }
        let row = &mut self.queues[queue];
        row.apps.remove(&ix);
        row.states[state as usize] -= 1;
        let path = row.path.clone();
        cx.message(EventKind::Queue, &path, &id, (Change::Remove, Detail::QueueApp), "", None);
        self.tell_drained(&path, cx);
        cx.event(EventKind::App, &id, Change::Remove, Detail::None);
        cx.fx.push(Effect::App(AppEffect::Removed { app: id.clone() }));
        if self.app_by_id.get(&id) == Some(&ix) {
            self.app_by_id.remove(&id);
        }
        self.app_takes_no_more_turns(ix);
        let row = self.apps.free(ix);
        debug_assert!(row.by_seq.is_empty(), "asks of {}", row.id);
        // The row may stay unused for long.
        row.by_seq = Run::new();
        row.tags = Arc::default();
        row.history = Rare::default();
        row.gang = Rare::default();
        row.state_log = Vec::new();
        self.unblock_limits();
    }

    /// An ordinary application runs: its execution time goes on (SEEDS S6).
    pub(super) fn start_execution_timer(&mut self, ix: AppIx, now: Nanos) {
        let timer = self.serial();
        let row = &mut self.apps[ix];
        if row.gang.placeholder_ask.is_none() && row.timeout > Nanos::ZERO && !row.expiring {
            row.execution_timer = Some(timer);
            let at = now.plus(row.timeout.minus(row.ran).max(Nanos::ZERO));
            self.deadlines.add(at, Deadline::Execution { app: ix, timer });
        }
    }

    /// It runs no longer: the time that it has run so far is kept.
    pub(super) fn stop_execution_timer(&mut self, ix: AppIx, now: Nanos) {
        let row = &mut self.apps[ix];
        if row.execution_timer.take().is_some() {
            row.ran = row.ran.plus(now.minus(row.started.unwrap_or(now)));
        }
    }

    /// The execution time is over: asks are dropped, allocations released, and when the shim has confirmed the application
    /// expires (SEEDS S6).
    pub(super) fn execution_timer(&mut self, ix: AppIx, timer: u64, cx: &mut Cx) {
        let row = &mut self.apps[ix];
        if row.is_free() || row.execution_timer != Some(timer) {
            return;
        }
        row.execution_timer = None;
        row.expiring = true;
        let lost = self.cancel_asks(ix, Detail::RequestTimeout, cx);
        let reason = format!("application {} expires: its execution time-out is over", self.apps[ix].id);
        self.tell_lost(ix, lost, "releasing pending placeholders on application execution timeout", &reason, cx);
        self.time_out(ix, OVER, |_| true, cx);
        self.finish_expiring(ix, cx);
    }

    pub(super) fn finish_expiring(&mut self, ix: AppIx, cx: &mut Cx) {
        let row = &self.apps[ix];
        if row.expiring && row.allocs.is_empty() {
            self.fire(ix, AppEvent::Expire, None, cx);
        }
    }
}

/// What was left of a placeholder time-out when its application came, where its tags say when that was created (R3.41).
pub(super) fn time_left(timeout: Nanos, tags: &Texts, arrived: Nanos) -> Nanos {
    creation_time(tags).map_or(timeout, |created| created.plus(timeout).minus(arrived).min(timeout))
}

/// What happens when the placeholders time out; capitals do not count, and none is Soft (SEEDS S33). `None`: nobody knows.
fn gang_style(text: &str) -> Option<GangStyle> {
    let known = [("", GangStyle::Soft), ("soft", GangStyle::Soft), ("hard", GangStyle::Hard)];
    known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, style)| style)
}

/// When an application was created, where its tags tell (R3.36).
pub(super) fn creation_time(tags: &Texts) -> Option<Nanos> {
    tags.get(CREATION_TIME).and_then(|text| text.parse().ok()).map(Nanos::from_secs)
}

/// The owner of an application by what was submitted (ACL-030–ACL-032).
fn owner(item: &AddApplication, forced: bool) -> Result<Owner, Arc<str>> {
    if item.user.is_empty() {
        if !forced {
            return Err("empty user cannot resolve".into());
        }
        return Ok(Owner { user: "nobody".into(), groups: Arc::from([Arc::from("nogroup")]) });
    }
    if let Some(groups) = &item.groups {
        if !names::is_user_name(&item.user) {
            return Err("invalid username, it contains invalid characters".into());
        }
        return Ok(Owner { user: item.user.clone(), groups: groups.clone() });
    }
    if let Some(reason) = &item.unresolved {
        if !forced {
            return Err(reason.clone());
        }
        if !names::is_user_name(&item.user) {
            return Err("invalid username, it contains invalid characters".into());
        }
        return Ok(Owner { user: item.user.clone(), groups: Arc::from([Arc::from("nogroup")]) });
    }
    // ACL-040: without a resolver the user is its own group.
    Ok(Owner { user: item.user.clone(), groups: Arc::from([item.user.clone()]) })
}

variants!(Closing { 1 Asks(from), 2 Allocations(from) });
