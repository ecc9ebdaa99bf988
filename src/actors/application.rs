//! `ApplicationActor`: the conversation with the shim about one application: replacements in flight, and releases that wait
//! for their confirmation. It keeps no quantity; the partition owns the link of a replacement, this actor the patience.

use std::{collections::BTreeMap, sync::Arc};

use actix::prelude::*;

use super::clock::Clock;
use crate::{
    domain::{
        effect::{AppEffect, Released},
        types::{Nanos, SwapToken, Termination},
    },
    messages::{
        application::{AppGone, AppNews, GetUnconfirmed, Resend, UnconfirmedRelease},
        partition::{Commit, SendAgain},
    },
};

/// How a replacement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The shim was asked to release the placeholder.
    Begun,
    /// It has, and the partition was told to carry the replacement out.
    Confirmed,
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

    /// The rows (state, message) of a replacement; a message that fits no row is stale and has no effect.
    fn advance(&mut self, effect: AppEffect) {
        match effect {
            AppEffect::SwapBegun { token, .. } => {
                self.swaps.insert(token, Swap::Begun);
            }
            AppEffect::SwapConfirmed { token, .. } => {
                // Answered in every state: the partition knows whether the token is still in flight.
                if let Some(swap) = self.swaps.get_mut(&token) {
                    *swap = Swap::Confirmed;
                }
                self.commit.do_send(Commit(token));
            }
            AppEffect::SwapEnded { token, .. } => {
                self.swaps.remove(&token);
            }
            AppEffect::Unconfirmed { release } => self.wait_for(release),
            AppEffect::Confirmed { key, termination, .. } => {
                self.unconfirmed.remove(&(key, termination));
            }
            AppEffect::Added { .. } | AppEffect::Removed { .. } => {}
        }
    }

    fn wait_for(&mut self, release: Released) {
        let now: Nanos = self.clock.now();
        let key = (release.key.clone(), release.termination);
        self.unconfirmed.insert(key, UnconfirmedRelease { release, since: now, sent: 1 });
    }
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

    fn handle(&mut self, _msg: Resend, _ctx: &mut Self::Context) {
        if self.unconfirmed.is_empty() {
            return;
        }
        for row in self.unconfirmed.values_mut() {
            row.sent += 1;
        }
        self.send.do_send(SendAgain(self.unconfirmed.values().map(|row| row.release.clone()).collect()));
    }
}

impl Handler<GetUnconfirmed> for ApplicationActor {
    type Result = MessageResult<GetUnconfirmed>;

    fn handle(&mut self, _msg: GetUnconfirmed, _ctx: &mut Self::Context) -> Self::Result {
        MessageResult(self.unconfirmed.values().cloned().collect())
    }
}

impl Handler<AppGone> for ApplicationActor {
    type Result = ();

    fn handle(&mut self, _msg: AppGone, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
