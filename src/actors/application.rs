//! `ApplicationActor`: the conversation with the shim about one application: replacements in flight, and releases that wait
//! for their confirmation. It keeps no quantity; the partition owns the link of a replacement, this actor the patience.

use std::{collections::BTreeMap, sync::Arc};

use actix::prelude::*;

use super::clock::Clock;
use crate::{
    domain::{
        effect::{AppEffect, Released, SwapEnd},
        types::{Nanos, SwapToken, Termination},
    },
    messages::{
        application::{AppGone, AppNews, GetUnconfirmed, Resend, UnconfirmedRelease},
        partition::{Commit, SendAgain},
    },
};

/// How a replacement stands. One that ended is not kept: its messages are stale.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Swap {
    /// The shim was asked to release this placeholder.
    Begun(Arc<str>),
    /// It has, and the partition was told to carry the replacement out.
    Confirmed(Arc<str>),
}

/// See the module.
pub struct ApplicationActor {
    clock: Clock,
    commit: Recipient<Commit>,
    send: Recipient<SendAgain>,
    swaps: BTreeMap<SwapToken, Swap>,
    unconfirmed: BTreeMap<(Arc<str>, Termination), UnconfirmedRelease>,
}

impl ApplicationActor {
    /// An actor for a new application; `commit` and `send` lead to its partition.
    pub fn new(clock: Clock, commit: Recipient<Commit>, send: Recipient<SendAgain>) -> ApplicationActor {
        ApplicationActor { clock, commit, send, swaps: BTreeMap::new(), unconfirmed: BTreeMap::new() }
    }

    fn advance(&mut self, effect: AppEffect) {
        match effect {
            AppEffect::SwapBegun { token, placeholder, .. } => self.swap(token, Step::Begun(placeholder)),
            AppEffect::SwapConfirmed { token, .. } => self.swap(token, Step::Confirmed),
            AppEffect::SwapEnded { token, why, .. } => self.swap(token, Step::Ended(why)),
            AppEffect::Unconfirmed { release } => self.wait_for(release),
            AppEffect::Confirmed { key, termination, .. } => {
                self.unconfirmed.remove(&(key, termination));
            }
            // The log level of this name is a setting (CFG-115).
            AppEffect::Ended { summary } => tracing::info!(target: "core.scheduler.application.usage", "{summary}"),
            // The life of this actor says the same.
            AppEffect::Added { .. } | AppEffect::Removed { .. } => {}
        }
    }

    /// The rows (state, message) of a replacement. What decided it (a node that went, a release, a time-out, a removal)
    /// decided it in the partition already, and comes here as the one message that it ended.
    fn swap(&mut self, token: SwapToken, step: Step) {
        match (self.swaps.remove(&token), step) {
            (None, Step::Begun(placeholder)) => {
                self.swaps.insert(token, Swap::Begun(placeholder));
            }
            // Tokens are used once: the row that is there stays.
            (Some(swap), Step::Begun(_)) => {
                self.swaps.insert(token, swap);
            }
            (Some(Swap::Begun(placeholder)), Step::Confirmed) => {
                self.swaps.insert(token, Swap::Confirmed(placeholder));
                self.commit.do_send(Commit(token));
            }
            // Said twice before it was carried out, or late. The partition waits for an answer to every confirmation that
            // it passed on, and knows whether the token is still in flight.
            (Some(swap @ Swap::Confirmed(_)), Step::Confirmed) => {
                self.swaps.insert(token, swap);
                self.commit.do_send(Commit(token));
            }
            (None, Step::Confirmed) => self.commit.do_send(Commit(token)),
            // The placeholder is gone, and its release was confirmed with it.
            (Some(_), Step::Ended(SwapEnd::Swapped)) => {}
            // The placeholder stays, or goes by a release of its own: there is nothing to ask for again.
            (Some(Swap::Begun(placeholder) | Swap::Confirmed(placeholder)), Step::Ended(SwapEnd::Undone)) => {
                self.unconfirmed.remove(&(placeholder, Termination::PlaceholderReplaced));
            }
            (None, Step::Ended(_)) => {}
        }
    }

    fn wait_for(&mut self, release: Released) {
        let now: Nanos = self.clock.now();
        let key = (release.key.clone(), release.termination);
        self.unconfirmed.insert(key, UnconfirmedRelease { release, since: now, age: Nanos::ZERO, sent: 1 });
    }

    /// The oldest first.
    fn waiting(&self) -> Vec<UnconfirmedRelease> {
        let now = self.clock.now();
        let aged = |row: &UnconfirmedRelease| UnconfirmedRelease { age: now.minus(row.since), ..row.clone() };
        let mut all: Vec<UnconfirmedRelease> = self.unconfirmed.values().map(aged).collect();
        all.sort_by_key(|row| row.since);
        all
    }
}

/// What happened to a replacement.
enum Step {
    Begun(Arc<str>),
    Confirmed,
    Ended(SwapEnd),
}

impl Actor for ApplicationActor {
    type Context = Context<Self>;
}

impl Handler<AppNews> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, news: AppNews, _ctx: &mut Self::Context) {
        for effect in news.0 {
            self.advance(effect);
        }
    }
}

impl Handler<Resend> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, msg: Resend, _ctx: &mut Self::Context) {
        let on_their_way = msg.0.on_their_way;
        let lost = |release: &Released| !on_their_way.contains(&(release.app.clone(), release.key.clone()));
        for row in self.unconfirmed.values_mut().filter(|row| lost(&row.release)) {
            row.sent = row.sent.saturating_add(1);
        }
        let again: Vec<Released> = self.waiting().into_iter().map(|row| row.release).filter(lost).collect();
        if !again.is_empty() {
            self.send.do_send(SendAgain(again));
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

    fn handle(&mut self, _msg: AppGone, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
