//! Signs of life of nodes. A resource manager whose stream is open vouches for all of its nodes.

use std::{sync::Arc, time::Duration};

use actix::prelude::*;

use super::{RmActor, handle};
use crate::messages::{
    budget::Permit,
    partition::Alive,
    rm::{Heartbeat, Refusal},
};

/// How often a resource manager with an open stream vouches for its nodes.
const VOUCH: Duration = Duration::from_secs(1);

impl RmActor {
    /// From now on the session's nodes count as alive while a stream is open, and how far the shim has what was sent is known.
    pub(super) fn vouch(&self, ctx: &mut Context<Self>) {
        ctx.run_interval(VOUCH, |actor, _| {
            let now = actor.clock.now();
            if let Some(session) = &mut actor.session {
                session.note_handed(now);
            }
            if !actor.streams.none() {
                actor.tell_alive(None, None);
            }
        });
    }

    fn tell_alive(&self, nodes: Option<Arc<[Arc<str>]>>, mut permit: Option<Permit>) {
        let Some(session) = &self.session else { return };
        for partition in &session.partitions {
            // The credits go with the first, as those of a request.
            let alive = Alive { epoch: session.epoch, nodes: nodes.clone(), permit: permit.take() };
            partition.alive.do_send(alive);
        }
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
        self.tell_alive(Some(msg.nodes), msg.permit);
        Ok(())
    }
}
