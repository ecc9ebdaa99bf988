//! `QueueActor`: the conversation about one queue: what it was told to become, who was admitted and refused at its door, and
//! whether a draining queue is empty. Usage and limits are the partition's.

use actix::prelude::*;

use crate::{
    domain::{effect::QueueEffect, types::ObjectState},
    messages::queue::{GetQueueTalk, QueueGone, QueueNews, QueueTalk},
};

/// Refusals that are remembered.
const REFUSALS: usize = 100;

/// See the module.
#[derive(Default)]
pub struct QueueActor {
    talk: QueueTalk,
}

impl Actor for QueueActor {
    type Context = Context<Self>;
}

impl Handler<QueueNews> for QueueActor {
    type Result = ();

    fn handle(&mut self, news: QueueNews, _ctx: &mut Self::Context) {
        let talk = &mut self.talk;
        for effect in news.effects {
            match effect {
                QueueEffect::Added { .. } => talk.since = news.at,
                QueueEffect::State { state, .. } => {
                    talk.state = state;
                    talk.since = news.at;
                    talk.empty &= state == ObjectState::Draining;
                }
                QueueEffect::Admitted { .. } => {
                    talk.admitted += 1;
                    talk.empty = false;
                }
                QueueEffect::Refused { app, reason, .. } => {
                    talk.refused += 1;
                    talk.refusals.push_back((news.at, app, reason));
                    if talk.refusals.len() > REFUSALS {
                        talk.refusals.pop_front();
                    }
                }
                QueueEffect::Emptied { .. } => talk.empty = talk.state == ObjectState::Draining,
                QueueEffect::Removed { .. } => {}
            }
        }
    }
}

impl Handler<GetQueueTalk> for QueueActor {
    type Result = MessageResult<GetQueueTalk>;

    fn handle(&mut self, _msg: GetQueueTalk, _ctx: &mut Self::Context) -> Self::Result {
        MessageResult(self.talk.clone())
    }
}

impl Handler<QueueGone> for QueueActor {
    type Result = ();

    fn handle(&mut self, _msg: QueueGone, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
