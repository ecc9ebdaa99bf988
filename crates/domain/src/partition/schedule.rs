//! The scheduling step (section 5 of the scheduling rules): reserved asks, then replacements of placeholders, then everything
//! else in the order of queues, applications, asks and nodes. Each step makes the decision that the rules make; only what
//! is known to be impossible is not looked at.

use super::{Cx, Done, Partition, Placement, Reason, gang_room::Shortage};
use crate::{
    alloc::{LogEntry, Phase},
    app::{GroupKey, Hold},
    effect::{Callback, ContainerState, Effect},
    event::{Change, Detail, EventKind},
    resources::Shown,
    types::{AllocIx, AppIx, AppState, Nanos, NodeIx, ObjectState, QueueIx},
};

/// Entries in the log of an ask.
const LOGGED: usize = 64;

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// An allocation or a replacement.
    Placed,
    /// A reservation, or a question to the shim: other asks may be placed still.
    Progress,
    /// So many asks have preempted.
    Preempted(usize),
    /// The next in order waits for the shim's answer about another; nothing after it is tried before.
    Waits,
    /// So much was tried in vain that the rest has to wait for the next call: what was tried is out of the orders, and that call goes on
    /// behind it.
    Cut,
    /// Nothing can be done now.
    Nothing,
}

impl Partition {
    /// Makes up to `max` decisions (placements, replacements, preemptions), and as many attempts in vain; fewer when nothing more can be
    /// done now. Where it is cut, since there are more attempts to make, the next call goes on behind them, and all of them
    /// together decide what one would that is not.
    #[must_use]
    pub fn schedule(&mut self, max: usize, now: Nanos, effects: &mut Vec<Effect>) -> Done {
        self.make(max, max, now, effects)
    }

    /// Makes up to `max` decisions, however many attempts in vain that takes; fewer when nothing more can be done now. Gives their
    /// number. It is for whoever has nobody to give way to, and records nothing.
    pub fn schedule_at_once(&mut self, max: usize, now: Nanos, effects: &mut Vec<Effect>) -> usize {
        self.make(max, usize::MAX, now, effects).made
    }

    fn make(&mut self, max: usize, patience: usize, now: Nanos, effects: &mut Vec<Effect>) -> Done {
        let cx = &mut Cx::new(now, effects, &self.internal).with_patience(patience);
        let (mut made, mut waits, mut cut) = (0, false, false);
        self.end_turn(cx);
        while made < max {
            if cx.is_spent() {
                cut = true;
                break;
            }
            self.settle();
            let outcome = self.step(cx);
            match outcome {
                Outcome::Placed => made += 1,
                Outcome::Preempted(asks) => made += asks,
                Outcome::Progress => cx.tried(1),
                Outcome::Cut => {
                    cut = true;
                    break;
                }
                Outcome::Nothing if self.begin_next_round() || self.reserve_for_wanting(cx) => {}
                Outcome::Nothing if std::mem::take(&mut self.charged) && self.end_reservations_in_vain(false, cx) => {}
                Outcome::Nothing => {
                    // While no more may be asked, somebody may wait for that.
                    if self.may_ask() {
                        self.questions.rested = now;
                    }
                    break;
                }
                Outcome::Waits => {
                    waits = true;
                    break;
                }
            }
        }
        if cut {
            // The turn, and what is told of decisions in a row, are those of the calls that follow as well.
            self.tell_changes(cx);
            self.settle();
        } else {
            self.settle_turn(waits, cx);
            self.settle();
            self.tell_allocated(cx);
        }
        self.plan_inspection(now);
        Done { made: made.min(max), cut }
    }

    /// Something was tried in vain that counts so much. True: that is enough, and what is left has its turn in the next call, which
    /// goes on there: nothing has moved since the step began that would have it begin with something else.
    pub(super) fn is_cut(&self, weight: usize, cx: &mut Cx) -> bool {
        cx.tried(weight);
        cx.is_spent() && self.epoch == cx.epoch
    }

    fn step(&mut self, cx: &mut Cx) -> Outcome {
        cx.epoch = self.epoch;
        let root = &self.queues[self.root];
        // R5.4, R5.5
        if self.state == ObjectState::Stopped || root.max.is_none() || !root.pending.is_positive() {
            return Outcome::Nothing;
        }
        if self.ask_shim
            && let Some(outcome) = self.ask_in_turn(cx)
        {
            return outcome;
        }
        if self.reservations > 0 {
            let outcome = self.try_reserved(cx);
            if outcome != Outcome::Nothing {
                return outcome;
            }
        }
        // R6.12: replacements come first. Of the turns to ask the shim they leave one to another ask after each of their own.
        if self.questions.swapped_last {
            let outcome = self.try_queue(self.root, cx);
            self.questions.swapped_last = matches!(outcome, Outcome::Waits | Outcome::Cut);
            if outcome != Outcome::Nothing {
                return outcome;
            }
        }
        let outcome = self.try_swaps(cx);
        if outcome != Outcome::Nothing {
            return outcome;
        }
        self.try_queue(self.root, cx)
    }

    /// The first child or application in order that yields something (R5.10).
    fn try_queue(&mut self, queue: QueueIx, cx: &mut Cx) -> Outcome {
        self.sync_queue(queue, cx.now);
        while let Some(child) = self.queues[queue].child_order.get_min().map(|(_, child)| *child) {
            let outcome = self.try_queue(child, cx);
            if outcome != Outcome::Nothing {
                return outcome;
            }
            self.block_queue(child);
            if self.is_cut(1, cx) {
                return Outcome::Cut;
            }
        }
        // A leaf that became a parent keeps its applications, and they wait until it is a leaf again (CFG-102).
        if !self.queues[queue].leaf || self.queue_gives_way(queue) {
            return Outcome::Nothing;
        }
        loop {
            let parked = self.first_parked(queue);
            let next = self.queues[queue].app_order.get_min();
            let app = match (next, parked) {
                (next, Some((key, app))) if next.is_none_or(|(first, _)| key < *first) => {
                    self.unblock_app(app);
                    app
                }
                (Some((_, app)), _) => *app,
                (None, _) => {
                    if self.begin_next_round_of(queue) {
                        continue;
                    }
                    break;
                }
            };
            let outcome = self.try_app(app, cx);
            if outcome != Outcome::Nothing {
                return outcome;
            }
            self.block_app(app);
            // Those of a queue that gives way by now would not be taken up again.
            if self.is_cut(1, cx) && !self.queue_gives_way(queue) {
                return Outcome::Cut;
            }
        }
        Outcome::Nothing
    }

    pub(super) fn try_app(&mut self, app: AppIx, cx: &mut Cx) -> Outcome {
        self.sync_app(app, cx.now);
        let row = &self.apps[app];
        if self.is_ending(app) || self.app_gives_way(app) || row.backoff_until.is_some_and(|until| until > cx.now) {
            return Outcome::Nothing;
        }
        self.user_resolve(app);
        if self.apps[app].state == AppState::Accepted && !self.may_run(app, cx) {
            self.limited = true;
            return Outcome::Nothing;
        }
        let mut failed = self.failed_on_nodes(app);
        let (mut spare, mut gang, mut again) = (None, None, false);
        loop {
            // The group before was tried in vain, and is blocked. Those of an application that gives way by now would not be taken up
            // again.
            if std::mem::replace(&mut again, true)
                && self.is_cut(1, cx)
                && !self.app_gives_way(app)
                && !self.queue_gives_way(self.apps[app].queue)
            {
                return Outcome::Cut;
            }
            if self.apps[app].group_order.first_key_value().is_none() {
                self.give_last_turns(app);
            }
            let next = self.apps[app].group_order.first_key_value();
            if failed.as_ref().is_some_and(|failed| failed.are_enough_before(next.map(|(order, _)| order))) {
                self.back_off(app, cx.now);
                return Outcome::Nothing;
            }
            let Some((_, key)) = next else { return Outcome::Nothing };
            let key = key.clone();
            if self.group_gives_way(app, &key) {
                self.block_group(app, &key);
                continue;
            }
            match self.try_group(app, &key, cx) {
                Ok(outcome) => return outcome,
                Err(hold) if self.is_held_by_questions(app, &key, hold) => {
                    self.limited = true;
                    self.block_group(app, &key);
                }
                Err(hold) => {
                    if self.gives_up_spare(app, &key, hold, &mut spare, cx) {
                        return Outcome::Progress;
                    }
                    if matches!(hold, Hold::QueueQuota | Hold::ClusterFull | Hold::GangRoom)
                        && let Some(outcome) = self.preempt_group(app, &key, hold, &mut gang, cx)
                    {
                        return outcome;
                    }
                    let at_once = self.goes_all_at_once(app, &key);
                    if at_once {
                        self.hold_gang(app, hold, cx);
                        failed = self.failed_on_nodes(app);
                    } else {
                        self.hold(app, &key, hold, cx);
                    }
                    // Neither reservation nor preemption helps a gang that is placed all at once.
                    if hold == Hold::Nodes && !at_once {
                        if let Some(failed) = &mut failed {
                            failed.add(&key, &self.apps[app]);
                        }
                        if self.want_reservation(app, &key, cx.now) {
                            self.block_group(app, &key);
                            continue;
                        }
                        if let Some(outcome) = self.preempt_group(app, &key, hold, &mut gang, cx) {
                            return outcome;
                        }
                    }
                    self.block_group(app, &key);
                }
            }
        }
    }

    /// An accepted application may begin, by its queues' and its user's limits; events on the edge (R5.23, EVT-027–EVT-02A), but
    /// none of what only questions to the shim hold back.
    pub(super) fn may_run(&mut self, app: AppIx, cx: &mut Cx) -> bool {
        let by_queue = self.full_of_apps(app).is_some();
        let by_quota = !self.user_can_run(app);
        if (by_queue || by_quota) && self.is_kept_by_questions(app) {
            return false;
        }
        let row = &mut self.apps[app];
        let id = row.id.clone();
        if row.held_by_queue != by_queue || !by_queue && row.held_by_quota != by_quota {
            // Where a limit holds it back anew, or another one does, its asks are told anew.
            row.skipped_to = 0;
        }
        if row.held_by_queue != by_queue {
            row.held_by_queue = by_queue;
            let detail = if by_queue { Detail::AppCannotRunQueue } else { Detail::AppRunnableQueue };
            cx.event(EventKind::App, &id, Change::None, detail);
        }
        // EVT-02B: that of the queue comes first, and each is told of.
        self.note_held_by_quota(app, by_quota, cx);
        if by_queue {
            self.skip_asks(app, "its application is held back by the limit of applications of a queue", cx);
        } else if by_quota {
            self.skip_asks(app, "its application is held back by the limit of applications of its user or group", cx);
        }
        !by_queue && !by_quota
    }

    /// A limit of applications of its user or group holds an application, or does no more: an event where that is new (EVT-029,
    /// EVT-02A).
    pub(super) fn note_held_by_quota(&mut self, app: AppIx, held: bool, cx: &mut Cx) {
        let row = &mut self.apps[app];
        if row.held_by_quota != held {
            row.held_by_quota = held;
            let detail = if held { Detail::AppCannotRunQuota } else { Detail::AppRunnableQuota };
            cx.event(EventKind::App, &row.id, Change::None, detail);
        }
    }

    /// Each ask of an application that may not begin is told of it once, each time that it begins (SEEDS S7).
    fn skip_asks(&mut self, app: AppIx, reason: &str, cx: &mut Cx) {
        let row = &self.apps[app];
        let asks = row.by_seq.range(row.skipped_to + 1..);
        let asks: Vec<(u64, AllocIx)> = asks.map(|(seq, alloc)| (*seq, *alloc)).collect();
        for (seq, alloc) in asks {
            if self.allocs[alloc].is_pending() {
                self.skipped(alloc, reason, cx);
            }
            self.apps[app].skipped_to = seq;
        }
    }

    /// Tries the first ask of a group (R5.24); the error says why all of them wait.
    fn try_group(&mut self, app: AppIx, key: &GroupKey, cx: &mut Cx) -> Result<Outcome, Hold> {
        if key.paused {
            return Err(Hold::Failures);
        }
        if self.waits_for_gang(app, key) {
            return Err(if key.placeholder { Hold::GangRoom } else { Hold::Gang });
        }
        if self.goes_all_at_once(app, key) {
            return self.try_gang(app, cx);
        }
        let resource = self.shapes.resource(key.shape).clone();
        if !self.user_fits_beside(app, &resource) {
            return Err(Hold::UserQuota);
        }
        if let Some(level) = self.level_against(app, key) {
            return Err(self.hold_of(level));
        }
        let group = self.apps[app].groups_by_key.get(key);
        let Some(alloc) = group.and_then(|group| group.asks.get_min().map(|(_, alloc)| *alloc)) else {
            return Err(Hold::Gang);
        };
        if self.waits_for_turn(alloc) {
            return Ok(Outcome::Waits);
        }
        if key.required_node.is_some() {
            return self.try_required(alloc, cx);
        }
        if self.shapes.is_nowhere(key.shape) {
            return Err(Hold::Nodes);
        }
        match self.find_node(alloc, &resource) {
            Some(node) => {
                let placement = self.check_of_group(alloc, node).map_err(|reason| self.hold_by(reason))?;
                Ok(self.carry_out(&placement, node, cx))
            }
            None => {
                self.note_search_in_vain(alloc);
                self.fits_nowhere(key.shape);
                Err(Hold::Nodes)
            }
        }
    }

    /// Real asks wait while their gang is not there (SEEDS S10) or a placeholder is to be replaced (R6.7); placeholders wait
    /// while their queues have no room for the whole gang (SEEDS S11).
    pub(super) fn waits_for_gang(&mut self, app: AppIx, key: &GroupKey) -> bool {
        if key.placeholder {
            let waits = self.gang_level(app).is_some();
            self.limited |= waits;
            return waits;
        }
        let row = &self.apps[app];
        row.state == AppState::Accepted && row.awaits_placeholders() && !crate::planted!("gang-early")
            || row.waits_for_first_placeholder(key)
            || row.replaceable_later(key) > 0
    }

    /// The first node in sort order that takes the ask (R5.27); the one on which it failed last only where no other does (R4.28).
    pub(super) fn find_node(&self, alloc: AllocIx, resource: &crate::resources::Resource) -> Option<NodeIx> {
        let failures = self.allocs[alloc].failures.as_deref();
        let failed = failures.and_then(|failures| self.node_by_id.get(&failures.node)).copied();
        let other = |node| Some(node) != failed && self.takes(alloc, node, resource);
        let listed = |node: &NodeIx| self.nodes[*node].sort_key.is_some();
        let last = || failed.filter(|node| listed(node) && self.takes(alloc, *node, resource));
        self.index.first(resource, other).or_else(last)
    }

    /// A node in the sort order takes the ask.
    pub(super) fn takes(&self, alloc: AllocIx, node: NodeIx, resource: &crate::resources::Resource) -> bool {
        let row = &self.nodes[node];
        row.available.fits(resource)
            && (row.reservations.is_empty() || self.open_room(node).fits(resource))
            && row.capacity.fits(resource)
            && !(self.ask_shim && self.is_refused(alloc, node))
    }

    /// What holds back where this level of the queues has no room: root is the cluster, and has no limit of its own.
    pub(super) fn hold_of(&self, level: QueueIx) -> Hold {
        if level == self.root { Hold::ClusterFull } else { Hold::QueueQuota }
    }

    /// What holds back where this is in the way.
    fn hold_by(&self, reason: Reason) -> Hold {
        match reason {
            Reason::User => Hold::UserQuota,
            Reason::Queue(level) => self.hold_of(level),
            Reason::Node => Hold::Nodes,
        }
    }

    /// The level of the queues that has no room for an ask of this group. One that requires its node is not held back by the
    /// cluster, which is full where its nodes are: on its own it may preempt (R7.33).
    pub(super) fn level_against(&self, app: AppIx, key: &GroupKey) -> Option<QueueIx> {
        let level = self.queue_fits(self.apps[app].queue, self.shapes.resource(key.shape)).err()?;
        (key.required_node.is_none() || level != self.root).then_some(level)
    }

    /// Places an ask on a node, or asks the shim first.
    pub(super) fn take(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) -> Result<Outcome, Hold> {
        let placement = self.check(alloc, node).map_err(|reason| self.hold_by(reason))?;
        Ok(self.carry_out(&placement, node, cx))
    }

    /// Allocates at once, or when the shim has agreed.
    fn carry_out(&mut self, placement: &Placement, node: NodeIx, cx: &mut Cx) -> Outcome {
        if self.ask_shim {
            self.note_passed(placement.alloc, cx);
            return self.ask_shim_first(placement, node, cx);
        }
        self.allocate(placement, node, cx);
        Outcome::Placed
    }

    /// An ask becomes an allocation in the step that tried it.
    pub(super) fn allocate(&mut self, placement: &Placement, node: NodeIx, cx: &mut Cx) {
        let alloc = placement.alloc;
        self.tell_passed(alloc, cx);
        self.leave_waiting(alloc, Phase::Allocated, node, cx);
        // Noted when it waits no more: nobody is to be told of it.
        self.allocs[alloc].attempted = true;
        self.note_allocating(alloc, cx);
        self.charge_and_tell(placement, cx);
    }

    /// An ask stops waiting and is bound to a node.
    pub(super) fn leave_waiting(&mut self, alloc: AllocIx, phase: Phase, node: NodeIx, cx: &mut Cx) {
        self.use_reservation(alloc, node, cx);
        self.forget_refused_victims(alloc);
        self.dequeue(alloc);
        let row = &mut self.allocs[alloc];
        row.phase = phase;
        row.node = Some(node);
        row.bound = cx.now;
    }

    /// An ask is about to become an allocation: its accepted application counts as allocating.
    pub(super) fn note_allocating(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let app = self.allocs[alloc].app;
        if self.apps[app].state == AppState::Accepted {
            self.enter_allocating(app);
        }
        self.allocs[alloc].triggered_scale_up = false;
        self.note_originator(alloc);
        self.scheduled(alloc, cx);
        self.request_event(alloc, Change::Set, Detail::RequestAlloc, cx);
    }

    /// The ask was tried, and passed user and queue limits.
    pub(super) fn note_passed(&mut self, alloc: AllocIx, cx: &mut Cx) {
        self.note_attempt(alloc);
        self.tell_passed(alloc, cx);
    }

    /// Events where it did not pass limits before (EVT-012, EVT-013).
    fn tell_passed(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let row = &mut self.allocs[alloc];
        if !row.over_user_quota && !row.over_queue_quota {
            return;
        }
        let (was_user, was_queue) = (row.over_user_quota, row.over_queue_quota);
        row.over_user_quota = false;
        row.over_queue_quota = false;
        if was_user {
            self.fits_user_event(alloc, cx);
        }
        if was_queue {
            let key = self.allocs[alloc].spec.key.clone();
            let path = self.queue_path(alloc);
            let text = format!("Request '{key}' has become schedulable in queue '{path}'");
            self.message_of(alloc, &text, cx);
        }
    }

    fn fits_user_event(&self, alloc: AllocIx, cx: &mut Cx) {
        let text = format!("Request '{}' fits in the available user quota", self.allocs[alloc].spec.key);
        self.message_of(alloc, &text, cx);
    }

    pub(super) fn queue_path(&self, alloc: AllocIx) -> std::sync::Arc<str> {
        let app = &self.apps[self.allocs[alloc].app];
        self.queues[app.queue].path.clone()
    }

    /// An event about an ask (section 9.2 of the queue rules).
    pub(super) fn message_of(&self, alloc: AllocIx, text: &str, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let app = &self.apps[row.app];
        cx.message(
            EventKind::Request,
            &row.spec.key,
            &app.id,
            (Change::None, Detail::None),
            text,
            Some(row.resource.clone()),
        );
    }

    /// The asks of a group wait, for one reason: each is told of it once (R4.35, R4.37, SEEDS S7).
    pub(super) fn hold(&mut self, app: AppIx, key: &GroupKey, hold: Hold, cx: &mut Cx) {
        self.hold_of_gang(app, key, hold, &mut None, cx);
    }

    /// The same of one of the groups of a gang; what the gang lacks is found once for all of them.
    pub(super) fn hold_of_gang(
        &mut self,
        app: AppIx,
        key: &GroupKey,
        hold: Hold,
        shortage: &mut Option<Shortage>,
        cx: &mut Cx,
    ) {
        if matches!(hold, Hold::UserQuota | Hold::QueueQuota | Hold::ClusterFull) {
            self.limited = true;
        }
        let Some(group) = self.apps[app].groups_by_key.get_mut(key) else { return };
        let before = group.hold.replace(hold);
        let again = before == Some(hold);
        let fresh = std::mem::take(&mut group.fresh);
        let asks: Vec<AllocIx> = if again { &fresh } else { &group.asks }.values().copied().collect();
        for alloc in asks {
            self.hold_ask(alloc, hold, before, shortage, cx);
        }
    }

    fn hold_ask(
        &mut self,
        alloc: AllocIx,
        hold: Hold,
        before: Option<Hold>,
        shortage: &mut Option<Shortage>,
        cx: &mut Cx,
    ) {
        let Some(hold) = self.own_hold(alloc, hold) else { return self.note_passed(alloc, cx) };
        match hold {
            Hold::UserQuota => {
                self.log(alloc, "Not enough user quota", cx.now);
                let row = &mut self.allocs[alloc];
                if !row.over_user_quota {
                    row.over_user_quota = true;
                    let (key, app, resource) = (row.spec.key.clone(), row.app, row.resource.clone());
                    let headroom = self.user_headroom(app);
                    let text = format!(
                        "Request '{key}' exceeds the available user quota (requested {resource}, available {})",
                        Shown(headroom.as_ref())
                    );
                    self.message_of(alloc, &text, cx);
                    self.skipped(alloc, "held back by a limit of its user or group", cx);
                }
            }
            Hold::QueueQuota | Hold::ClusterFull => {
                self.note_attempt(alloc);
                self.log_no_preemption(alloc, cx.now);
                self.log(alloc, "Not enough queue quota", cx.now);
                let row = &mut self.allocs[alloc];
                if std::mem::take(&mut row.over_user_quota) {
                    self.fits_user_event(alloc, cx);
                }
                let row = &mut self.allocs[alloc];
                let (app, resource) = (row.app, row.resource.clone());
                let begins = !std::mem::replace(&mut row.over_queue_quota, true);
                if begins {
                    let key = row.spec.key.clone();
                    let headroom = self.headroom(self.apps[app].queue);
                    let path = self.queue_path(alloc);
                    let text = format!(
                        "Request '{key}' does not fit in queue '{path}' (requested {resource}, available {})",
                        Shown(headroom.as_ref())
                    );
                    self.message_of(alloc, &text, cx);
                }
                // A cluster that is too small is no limit: that the ask waits for nodes is told once a second.
                if hold == Hold::QueueQuota
                    && (begins || before == Some(Hold::ClusterFull))
                    && let Some(level) = match self.has_claim(alloc) {
                        true => self.queue_has_room(self.apps[app].queue, &resource).err(),
                        false => self.queue_fits(self.apps[app].queue, &resource).err(),
                    }
                {
                    let path = self.queues[level].path.clone();
                    self.skipped(alloc, &format!("held back by the max of queue {path}"), cx);
                }
            }
            Hold::Nodes => {
                self.note_passed(alloc, cx);
                self.log_no_preemption(alloc, cx.now);
            }
            Hold::RequiredNode => self.note_passed(alloc, cx),
            Hold::GangRoom => self.hold_in_gang(alloc, shortage, cx),
            Hold::Gang | Hold::Failures => {}
        }
    }

    /// What holds back an ask of a group that a limit holds back: what fills queue and user may be promised to this very ask.
    fn own_hold(&self, alloc: AllocIx, hold: Hold) -> Option<Hold> {
        if !matches!(hold, Hold::UserQuota | Hold::QueueQuota | Hold::ClusterFull) || !self.has_claim(alloc) {
            return Some(hold);
        }
        let hold = self.hold_by(self.limit_of_reserved(alloc).err()?);
        // R7.33: for one that requires its node the cluster is no limit.
        (hold != Hold::ClusterFull || self.allocs[alloc].spec.required_node.is_none()).then_some(hold)
    }

    /// Tells the shim that an ask is held back by a limit, once each time it begins (SEEDS S7).
    pub(super) fn skipped(&self, alloc: AllocIx, reason: &str, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        cx.callback(Callback::ContainerState {
            app: self.apps[row.app].id.clone(),
            key: row.spec.key.clone(),
            state: ContainerState::Skipped,
            reason: reason.into(),
        });
    }

    /// Tells a shim that wants to hear of it that an ask was assigned to a node (SEEDS S7).
    pub(super) fn scheduled(&self, alloc: AllocIx, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        if let Some(node) = row.node.filter(|_| self.all_container_states) {
            cx.callback(Callback::ContainerState {
                app: self.apps[row.app].id.clone(),
                key: row.spec.key.clone(),
                state: ContainerState::Scheduled,
                reason: format!("assigned to node {}", self.nodes[node].spec.id).into(),
            });
        }
    }

    /// What the log says of an ask for which nothing may be preempted yet (R7.4, R7.5).
    fn log_no_preemption(&mut self, alloc: AllocIx, now: Nanos) {
        if self.conf.preemption {
            self.log(alloc, "Preemption preconditions failed", now);
            self.log(alloc, "Preemption does not help", now);
        }
    }

    /// An entry in the log of an ask (R4.34).
    pub(super) fn log(&mut self, alloc: AllocIx, message: &str, now: Nanos) {
        let log = &mut self.allocs[alloc].log;
        match log.iter_mut().find(|entry| *entry.message == *message) {
            Some(entry) => {
                entry.last = now;
                entry.count = entry.count.saturating_add(1);
            }
            None => {
                if log.len() >= LOGGED {
                    // Shims may say something else each time.
                    let oldest = log.iter().enumerate().min_by_key(|(_, entry)| entry.last).map(|(at, _)| at);
                    oldest.map(|at| log.remove(at));
                }
                log.push(LogEntry { message: message.into(), last: now, count: 1 });
            }
        }
    }
}
