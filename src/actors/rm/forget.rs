//! A resource manager that is forgotten: Stopped long ago, or its log is gone from etcd. Its actor ends.

use actix::prelude::*;

use super::RmActor;
use crate::messages::rm::{ClosingKind, RmState};

/// It is the oldest of too many Stopped ones: its log is removed, and it ends.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Forgotten;

/// Nothing of its log is in etcd any more, as its actor was told before this.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Gone;

impl Handler<Forgotten> for RmActor {
    type Result = ();

    fn handle(&mut self, _msg: Forgotten, ctx: &mut Self::Context) {
        // A message before this one may have made it go on, here or at another server.
        let is_over = self.life.state() == RmState::Stopped && self.session.is_none() && self.elsewhere.is_none();
        if !is_over || self.holds_standing() {
            return;
        }
        let Some(removal) = self.topology.forgotten(&self.id, &ctx.address()) else { return };
        let closing = self.closing_of(ClosingKind::Stopped, "it was Stopped long ago");
        self.streams.close(&closing, true);
        self.remove_log(removal);
        ctx.stop();
    }
}

impl Handler<Gone> for RmActor {
    type Result = ();

    fn handle(&mut self, _msg: Gone, ctx: &mut Self::Context) {
        if self.session.is_none() && self.topology.forget(&self.id) {
            ctx.stop();
        }
    }
}
