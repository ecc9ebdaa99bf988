//! Signs of life of nodes. A resource manager whose stream is open vouches for all of its nodes.

use std::{sync::Arc, time::Duration};

use actix::prelude::*;

use super::{RmActor, handle};
use crate::messages::{
    budget::{Permit, Pressure},
    partition::Alive,
    rm::{Heartbeat, Kind, Refusal, RmState},
};

/// How often a resource manager with an open stream vouches for its nodes.
const VOUCH: Duration = Duration::from_secs(1);

/// After so many times of [`VOUCH`] without credits it is told.
const UNREAD: u32 = 10;

impl RmActor {
    /// From now on the session's nodes count as alive while a stream is open.
    pub(super) fn vouch(&self, ctx: &mut Context<Self>) {
        ctx.run_interval(VOUCH, |actor, ctx| {
            if !actor.streams.none() {
                actor.tell_alive(None, None);
                // So that what is shown as undelivered is no older than that, also while nothing new is delivered.
                actor.pump(ctx);
            }
            actor.notice_unread();
        });
    }

    /// A shim that does not read stops its own placements: somebody should be told.
    fn notice_unread(&mut self) {
        match self.unread() {
            None => self.unread_for = 0,
            Some(text) => {
                self.unread_for = self.unread_for.saturating_add(1);
                if self.unread_for == UNREAD {
                    tracing::warn!(rm = &*self.id, "nothing is placed until the shim reads its callbacks: {text}");
                }
            }
        }
    }

    /// What the shim does not read, where that holds up placements.
    pub(super) fn unread(&self) -> Option<String> {
        let session = self.session.as_ref()?;
        if self.life.state() != RmState::Running || session.budget.pressure() != Pressure::Spent {
            return None;
        }
        let of_kind = |kind: Kind| {
            let lines = session.buffer.waiting(kind);
            let stream = if self.streams.carries(kind) { "its stream is open" } else { "no stream of it is open" };
            (lines > 0).then(|| format!("{lines} lines of kind {} ({stream})", kind.name()))
        };
        Some(Kind::ALL.into_iter().filter_map(of_kind).collect::<Vec<_>>().join(", "))
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
