//! `ApplicationActor`: the conversation with the shim about one application: releases that the scheduler began wait for the
//! shim to confirm them. They are sent again while it stays silent, and operators are told when that takes long. The partition
//! has already done what a confirmation leads to when this actor hears of it. The actor starts when the first release waits, or
//! when somebody first waits for the application: most applications end without one.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use actix::prelude::*;

use super::{
    unconfirmed::Unconfirmed,
    waiters::{Verdict, Waiters},
};
use crate::{
    domain::{
        effect::{AppEffect, Released},
        types::{AppState, Nanos, Termination},
    },
    messages::{
        application::{
            AppGone, AppUpdate, Carried, GetUnconfirmed, LookAnew, ResendUnconfirmed, UnconfirmedRelease, Unheard,
        },
        clock::nanos,
        partition::SendAgain,
        wait::{AppStatus, Condition, EndWaits, Wait, Withdraw},
    },
};

/// The shortest time before a release is sent again: less would keep the session busy with releases alone.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// The longest time before a release is sent again, unless `rm.resendAfter` is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// The actor looks at what waits once in a tenth of `rm.resendAfter` at most; that tenth is kept within these bounds.
const LOOKS: [Nanos; 2] = [Nanos(100_000_000), Nanos(1_000_000_000)];

/// A release that waits for its confirmation.
struct Row {
    shown: UnconfirmedRelease,
    /// When it was last sent, as far as this process knows.
    at: Nanos,
    /// When it is to be sent again.
    next: Nanos,
    /// The line that carries what was last sent; `None`: that line is still to come.
    line: Option<u64>,
    overdue: bool,
}

/// See the module.
pub struct ApplicationActor {
    app: Arc<str>,
    sums: Rc<Unconfirmed>,
    send: Recipient<SendAgain>,
    rows: BTreeMap<(Arc<str>, Termination), Row>,
    /// When it looks at them next.
    timer: Option<(Nanos, SpawnHandle)>,
    /// How it is, as long as somebody waits for it.
    status: Option<AppStatus>,
    waiters: Waiters,
}

/// Whether a condition holds of an application, which may have ended.
pub fn judge(status: Option<&AppStatus>, condition: Condition) -> Verdict {
    let Some(AppStatus { state, began, allocated, waits, refused }) = status else {
        return Verdict::NotYet("nothing is known of it yet".to_owned());
    };
    let met = match condition {
        Condition::Running => *began || *state == AppState::Running,
        Condition::Completed => *state == AppState::Completed,
        Condition::Placed => *allocated && !waits,
        _ => false,
    };
    match (state, refused) {
        _ if met => Verdict::Met,
        (_, Some(why)) => Verdict::Never(format!("it was rejected: {why}")),
        (AppState::Completed | AppState::Failed | AppState::Expired | AppState::Rejected, None) => {
            Verdict::Never(format!("it ended as {}", state.name()))
        }
        (AppState::Failing, None) => Verdict::Never("it fails".to_owned()),
        _ => Verdict::NotYet(format!("it is {}", state.name())),
    }
}

/// How long a release that was sent so often waits before it is sent again; `first`: `rm.resendAfter`.
pub fn wait(first: Duration, sent: u32) -> Nanos {
    let first = first.max(SHORTEST_WAIT);
    let doubled = first.saturating_mul(1 << sent.saturating_sub(1).min(16));
    nanos(doubled.min(LONGEST_WAIT.max(first)))
}

impl ApplicationActor {
    /// An actor for a new application; `send` leads to its partition.
    pub fn new(app: Arc<str>, sums: Rc<Unconfirmed>, send: Recipient<SendAgain>) -> ApplicationActor {
        ApplicationActor {
            app,
            sums,
            send,
            rows: BTreeMap::new(),
            timer: None,
            status: None,
            waiters: Waiters::default(),
        }
    }

    /// A release waits or does not: it begins to, is confirmed, or becomes void. Whatever ended a replacement (a node that went, a
    /// release, a time-out, a removal) ended it in the partition first, and is here the one effect that nothing waits any more.
    fn advance(&mut self, (at, effect): (Nanos, AppEffect), ctx: &mut Context<Self>) {
        match effect {
            AppEffect::Unconfirmed { release } => self.begin(release, at, ctx),
            AppEffect::Confirmed { key, termination, .. } => self.end((key, termination)),
            // Its partition's.
            AppEffect::Added { .. } | AppEffect::Removed { .. } | AppEffect::Ended { .. } => {}
        }
    }

    fn begin(&mut self, release: Released, at: Nanos, ctx: &mut Context<Self>) {
        let now = self.sums.clock.now();
        let key = (release.key.clone(), release.termination);
        if self.rows.is_empty() {
            self.sums.waits(self.app.clone(), ctx.address());
        }
        let next = now.plus(self.wait(1));
        match self.rows.get_mut(&key) {
            // The partition asks once, and again only after the first became void: one that is here already is the same release.
            Some(row) => {
                row.shown.sent = row.shown.sent.saturating_add(1);
                (row.at, row.next, row.line) = (now, next, None);
            }
            None => {
                let shown = UnconfirmedRelease { release, since: at, age: Nanos::ZERO, sent: 1 };
                self.sums.add(&shown);
                self.rows.insert(key, Row { shown, at: now, next, line: None, overdue: false });
            }
        }
        self.look_at(next.min(now.plus(nanos(self.sums.patience.get().warn_after))), ctx);
    }

    fn end(&mut self, key: (Arc<str>, Termination)) {
        // Nothing waits: it was confirmed before, or said twice.
        let Some(row) = self.rows.remove(&key) else { return };
        self.sums.remove(&row.shown);
        if self.rows.is_empty() {
            self.sums.heard_all(&self.app);
        }
    }

    fn state(&self) -> &'static str {
        self.status.as_ref().map_or("New", |status| status.state.name())
    }

    /// How long a release that was sent so often waits before it is sent again.
    fn wait(&self, sent: u32) -> Nanos {
        wait(self.sums.patience.get().resend_after, sent)
    }

    /// Looks at what waits at this time or soon after, unless it does so earlier.
    fn look_at(&mut self, at: Nanos, ctx: &mut Context<Self>) {
        let [least, most] = LOOKS;
        let look = Nanos(nanos(self.sums.patience.get().resend_after).0 / 10).clamp(least, most).0;
        let at = Nanos(at.0.saturating_add(look - 1) / look * look);
        if self.timer.as_ref().is_some_and(|(armed, _)| *armed <= at) {
            return;
        }
        let handle = ctx.run_later(self.sums.clock.until(at), |actor, ctx| {
            actor.timer = None;
            actor.look(ctx);
        });
        if let Some((_, before)) = self.timer.replace((at, handle)) {
            ctx.cancel_future(before);
        }
    }

    /// Sends again what is due, and tells of what has waited for too long.
    fn look(&mut self, ctx: &mut Context<Self>) {
        let (now, warn_after) = (self.sums.clock.now(), nanos(self.sums.patience.get().warn_after));
        let due: Vec<_> = self.rows.iter().filter(|(_, row)| row.next <= now).map(|(key, _)| key.clone()).collect();
        // What was not handed to the shim's connection yet is still on its way: another one would only queue behind it.
        let handed = self.sums.budget.handed();
        let reached = |key: &_| self.rows[key].line.unwrap_or(u64::MAX) <= handed;
        let (reached, waits): (Vec<_>, Vec<_>) = due.into_iter().partition(reached);
        for key in waits {
            let next = now.plus(self.wait(1));
            self.rows.entry(key).and_modify(|row| row.next = next);
        }
        self.send_again(reached, now);
        let mut next: Option<Nanos> = None;
        for row in self.rows.values_mut() {
            let warn = row.shown.since.plus(warn_after);
            if row.overdue != (warn <= now) {
                row.overdue = !row.overdue;
                if row.overdue { self.sums.overdue(&row.shown) } else { self.sums.in_time(&row.shown) }
            }
            let at = if row.overdue { row.next } else { row.next.min(warn) };
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        if let Some(next) = next {
            self.look_at(next, ctx);
        }
    }

    fn send_again(&mut self, keys: Vec<(Arc<str>, Termination)>, now: Nanos) {
        let mut again = Vec::with_capacity(keys.len());
        for key in keys {
            let sent = self.rows[&key].shown.sent.saturating_add(1);
            let wait = self.wait(sent);
            let Some(row) = self.rows.get_mut(&key) else { continue };
            row.shown.sent = sent;
            (row.at, row.next, row.line) = (now, now.plus(wait), None);
            if row.overdue {
                self.sums.overdue(&row.shown);
            }
            again.push((row.shown.since, row.shown.release.clone()));
        }
        if !again.is_empty() {
            again.sort_by_key(|(since, _)| *since);
            self.send.do_send(SendAgain(again.into_iter().map(|(_, release)| release).collect()));
        }
    }

    /// The oldest first.
    fn waiting(&self) -> Vec<UnconfirmedRelease> {
        let now = self.sums.clock.now();
        let aged = |row: &Row| UnconfirmedRelease { age: now.minus(row.shown.since), ..row.shown.clone() };
        let mut all: Vec<UnconfirmedRelease> = self.rows.values().map(aged).collect();
        all.sort_by_key(|row| row.since);
        all
    }
}

impl Actor for ApplicationActor {
    type Context = Context<Self>;
}

impl Handler<AppUpdate> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, update: AppUpdate, ctx: &mut Self::Context) {
        for effect in update.effects {
            self.advance(effect, ctx);
        }
        if update.status.is_some() {
            self.status = update.status;
            let status = self.status.as_ref();
            self.waiters.settle(self.state(), |condition| judge(status, condition));
        }
    }
}

impl Handler<Wait> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, wait: Wait, _ctx: &mut Self::Context) {
        let verdict = judge(self.status.as_ref(), wait.condition);
        self.waiters.add(wait, self.state(), verdict);
    }
}

impl Handler<Withdraw> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, msg: Withdraw, _ctx: &mut Self::Context) {
        let status = self.status.as_ref();
        self.waiters.withdraw(msg.id, self.state(), |condition| judge(status, condition));
    }
}

impl Handler<EndWaits> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, _msg: EndWaits, _ctx: &mut Self::Context) {
        self.waiters.end();
    }
}

impl Handler<Carried> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, msg: Carried, _ctx: &mut Self::Context) {
        for key in msg.releases {
            self.rows.entry(key).and_modify(|row| row.line = Some(msg.line));
        }
    }
}

impl Handler<ResendUnconfirmed> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, msg: ResendUnconfirmed, _ctx: &mut Self::Context) {
        // The stream is about to get the lines after that in any case.
        let lost = |row: &Row| row.line.is_some_and(|line| line <= msg.after);
        let rows = self.rows.iter().filter(|(_, row)| lost(row));
        let keys = rows.map(|(key, _)| key.clone()).collect();
        self.send_again(keys, self.sums.clock.now());
    }
}

impl Handler<LookAnew> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, _msg: LookAnew, ctx: &mut Self::Context) {
        let first = self.sums.patience.get().resend_after;
        for row in self.rows.values_mut() {
            row.next = row.next.min(row.at.plus(wait(first, row.shown.sent)));
        }
        self.look(ctx);
    }
}

impl Handler<Unheard> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, msg: Unheard, ctx: &mut Self::Context) {
        let now = self.sums.clock.now();
        for shown in msg.0 {
            if self.rows.is_empty() {
                self.sums.waits(self.app.clone(), ctx.address());
            }
            let (key, next) = ((shown.release.key.clone(), shown.release.termination), now.plus(self.wait(1)));
            self.sums.add(&shown);
            let warn = shown.since.plus(nanos(self.sums.patience.get().warn_after));
            // If its line is still kept, that is told next.
            self.rows.insert(key, Row { shown, at: now, next, line: Some(0), overdue: false });
            self.look_at(next.min(warn), ctx);
        }
    }
}

impl Handler<GetUnconfirmed> for ApplicationActor {
    type Result = MessageResult<GetUnconfirmed>;

    fn handle(&mut self, _msg: GetUnconfirmed, _ctx: &mut Self::Context) -> Self::Result {
        MessageResult(self.waiting())
    }
}

impl Handler<AppGone> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, msg: AppGone, ctx: &mut Self::Context) {
        for key in self.rows.keys().cloned().collect::<Vec<_>>() {
            self.end(key);
        }
        let AppGone(state) = msg;
        let completed = |condition| condition == Condition::Completed && state == Some(AppState::Completed);
        self.waiters.gone(state.map_or("gone", AppState::name), completed);
        ctx.stop();
    }
}

#[cfg(test)]
mod tests;
