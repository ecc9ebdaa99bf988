//! `EventActor`: numbers events, keeps the ring, feeds subscribers and shims.

use actix::prelude::*;

use crate::messages::event::Publish;

/// See the module.
#[derive(Default)]
pub struct EventActor {}

impl Actor for EventActor {
    type Context = Context<Self>;
}

impl Handler<Publish> for EventActor {
    type Result = ();

    fn handle(&mut self, _msg: Publish, _ctx: &mut Self::Context) {}
}
