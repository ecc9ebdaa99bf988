//! Signs of life of nodes. A resource manager whose stream is open vouches for all of its nodes, until it sends a heartbeat
//! for any of them that is there: from then on, in that session, only heartbeats count (SEEDS S37).

use std::time::Duration;

use actix::prelude::*;
use futures::future::join_all;

use super::{RmActor, session::Session, snapshot::MakingRoom};
use crate::{
    actors::topology::PartitionHandle,
    domain::words::plural,
    messages::{
        budget::{Permit, Pressure},
        partition::{Alive, Signs},
        rm::{Heartbeat, Kind, Refusal, RmState},
    },
};

/// How often the actor looks whether its shim reads its callbacks.
const LOOK: Duration = Duration::from_secs(1);

/// After so many times [`LOOK`] without credits it is logged.
const UNREAD: u32 = 10;

/// The part of its bound by which a log may grow beyond it before nothing is taken that adds to it.
const CROWDED: u64 = 4;

impl RmActor {
    /// From now on the actor looks every second how far the shim has read, and notices when it does not.
    pub(super) fn watch(&self, ctx: &mut Context<Self>) {
        ctx.run_interval(LOOK, |actor, ctx| {
            if !actor.streams.none() {
                // What counts as undelivered is no older than that, also while nothing new is delivered.
                actor.pump(ctx);
            }
            actor.note_delivered(ctx);
            actor.notice_unread();
            actor.go_on_with_little();
            actor.notice_full(ctx);
            actor.hold_placements();
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

    /// A shim that does not read stops its own placements, which is logged.
    fn notice_unread(&mut self) {
        match self.unread() {
            None => self.unread_for = 0,
            Some(text) => {
                self.unread_for = self.unread_for.saturating_add(1);
                if self.unread_for == UNREAD {
                    tracing::warn!(
                        code = "callbacks-unread",
                        rm = &*self.id,
                        "nothing is placed until the shim reads its callbacks: {text}"
                    );
                }
            }
        }
    }

    /// Wakes placements for the few credits that are left, where the shim does not read the rest.
    fn go_on_with_little(&self) {
        let waits = |session: &&Session| session.budget.pressure() == Pressure::High;
        self.session.iter().filter(waits).for_each(Session::wake);
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
            (lines > 0).then(|| format!("{} of kind {} ({stream})", plural(lines, "line"), kind.name()))
        };
        Some(Kind::ALL.into_iter().filter_map(of_kind).collect::<Vec<_>>().join(", "))
    }

    /// Nothing new is placed while a log in etcd is too large. Where it grows all the same, by what comes in, that is refused too.
    fn notice_full(&mut self, ctx: &mut Context<Self>) {
        let Some(far) = self.far.as_ref().filter(|_| self.session.is_some()) else { return };
        let (bytes, most) = far.room();
        let full = bytes >= most;
        let crowded = bytes >= most.saturating_add(most / CROWDED);
        let news = full != self.full.is_some() || crowded != self.crowded;
        self.full = full.then(|| {
            format!("its log and snapshots take {bytes} bytes in etcd, and {most} are allowed (--cluster-max-bytes)")
                .into()
        });
        self.crowded = crowded;
        if news {
            match &self.full {
                Some(why) if crowded => {
                    tracing::error!(code = "cluster-full", rm = &*self.id, "nothing that adds to it is taken: {why}");
                }
                Some(why) => {
                    tracing::error!(code = "cluster-full", rm = &*self.id, "nothing new is placed: {why}");
                }
                None => tracing::info!(rm = &*self.id, "its log has room again"),
            }
            self.show();
        }
        if full {
            self.make_room(bytes, ctx);
            return;
        }
        self.for_room = MakingRoom::default();
    }

    /// Nothing new is placed while the log takes nothing or has no room: nobody could be told of it.
    pub(super) fn hold_placements(&self) {
        let Some(session) = &self.session else { return };
        let held = self.full.is_some() || self.log.as_ref().is_some_and(|log| log.failing().is_some());
        if session.budget.fill(held) && !held {
            session.wake();
        }
    }

    /// Passes a heartbeat on. Only partitions know whether a node that it names is there: they are asked until one was.
    fn beat(&self, beat: Heartbeat, ctx: &mut Context<Self>) {
        let Some(session) = &self.session else { return };
        let signs = Signs::Of(beat.nodes);
        if session.heartbeats {
            return self.tell_alive(&signs, beat.permit);
        }
        let ask = |partition: &PartitionHandle| {
            partition.alive.send(Alive { epoch: beat.epoch, signs: signs.clone(), permit: beat.permit.clone() })
        };
        let asked = join_all(session.partitions.iter().map(ask));
        ctx.spawn(asked.into_actor(self).map(move |known, actor, ctx| {
            let Some(session) = actor.session.as_mut().filter(|session| session.epoch == beat.epoch) else { return };
            if !session.heartbeats && known.into_iter().any(|known| known.unwrap_or(false)) {
                (session.heartbeats, session.vouched) = (true, false);
                actor.tell_alive(&Signs::Heartbeats, None);
                actor.note_manner(ctx);
            }
        }));
    }

    fn tell_alive(&self, signs: &Signs, permit: Option<Permit>) {
        let Some(session) = &self.session else { return };
        for partition in &session.partitions {
            partition.tell_alive(session.epoch, signs.clone(), permit.clone());
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

    fn handle(&mut self, msg: Heartbeat, ctx: &mut Self::Context) -> Self::Result {
        let known = self.session(msg.epoch).is_some();
        let other = || known.then_some(()).ok_or_else(|| self.other_session());
        if let Err(refusal) = self.is_open().and_then(|()| other()) {
            msg.permit.into_iter().for_each(Permit::give_back);
            return Err(refusal);
        }
        let now = self.clock.now();
        if let (Some(log), Some(session), Some(permit)) = (&mut self.log, &self.session, &msg.permit)
            && permit.is_taken_once()
        {
            log.taken(vec![permit.clone()], session.epoch, session.buffer.last(), now);
            self.commit(ctx);
        }
        // A heartbeat for no known node does not end that nodes are vouched for.
        if !msg.nodes.is_empty() {
            self.beat(msg, ctx);
        }
        Ok(())
    }
}
