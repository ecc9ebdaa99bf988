//! Signs of life of nodes. A resource manager whose stream is open vouches for all of its nodes, until it sends a heartbeat
//! for any of them: from then on, in that session, only heartbeats count (SEEDS S37).

use std::time::Duration;

use actix::prelude::*;

use super::{RmActor, handle};
use crate::{
    actors::topology::PartitionHandle,
    messages::{
        budget::Permit,
        partition::{Alive, Signs},
        rm::{Heartbeat, Refusal},
    },
};

/// How often it is noted how far the shim has what was sent.
const FOLLOW: Duration = Duration::from_secs(1);

impl RmActor {
    /// Notes every second how far the shim has what was sent.
    pub(super) fn follow_handed(&self, ctx: &mut Context<Self>) {
        ctx.run_interval(FOLLOW, |actor, _| {
            let now = actor.clock.now();
            if let Some(session) = &mut actor.session {
                session.note_handed(now);
            }
        });
    }

    /// Tells the partitions whether the session's nodes are vouched for, where that has changed.
    pub(super) fn vouch(&mut self) {
        let open = !self.streams.none();
        let Some(session) = &mut self.session else { return };
        let vouched = open && !session.heartbeats;
        if vouched != session.vouched {
            session.vouched = vouched;
            self.tell_alive(&Signs::Vouched(vouched), None);
        }
    }

    fn tell_alive(&self, signs: &Signs, mut permit: Option<Permit>) {
        let Some(session) = &self.session else { return };
        for partition in &session.partitions {
            // The credits go with the first, as those of a request.
            partition.tell_alive(session.epoch, signs.clone(), permit.take());
        }
    }
}

impl PartitionHandle {
    /// Signs of life of its nodes.
    pub(super) fn tell_alive(&self, epoch: u64, signs: Signs, permit: Option<Permit>) {
        self.alive.do_send(Alive { epoch, signs, permit });
    }
}

impl Handler<Heartbeat> for RmActor {
    type Result = Result<(), Refusal>;

    fn handle(&mut self, msg: Heartbeat, _ctx: &mut Self::Context) -> Self::Result {
        if self.closing {
            return Err(handle::closing());
        }
        if self.session(msg.epoch).is_none() {
            return Err(self.other_session());
        }
        if let Some(session) = self.session.as_mut().filter(|_| !msg.nodes.is_empty()) {
            session.heartbeats = true;
            self.vouch();
        }
        self.tell_alive(&Signs::Of(msg.nodes), msg.permit);
        Ok(())
    }
}
