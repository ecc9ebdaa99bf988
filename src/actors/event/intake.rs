//! What partitions publish: taken in when the actor is roused, every millisecond from then on while more comes, and
//! before any reader is answered.

use std::time::Duration;

use actix::prelude::*;

use super::EventActor;
use crate::messages::event::{Rouse, ToEvents};

/// How long events of a busy partition wait at most.
const PAUSE: Duration = Duration::from_millis(1);

impl Handler<Rouse> for EventActor {
    type Result = ();

    fn handle(&mut self, Rouse(intake): Rouse, ctx: &mut Self::Context) {
        self.intake = Some(intake);
        self.take_in(ctx);
        ctx.run_later(PAUSE, EventActor::look);
    }
}

impl EventActor {
    /// Takes in what was published by now.
    pub(super) fn take_in(&mut self, ctx: &mut Context<Self>) {
        for message in self.intake.iter().flat_map(|intake| intake.take()).collect::<Vec<_>>() {
            self.on_message(message, ctx);
        }
    }

    fn on_message(&mut self, message: ToEvents, ctx: &mut Context<Self>) {
        match message {
            ToEvents::Publish(events) => self.record(events, ctx),
            ToEvents::Subscribe(shim) => self.shims.subscribe(shim, self.settings.request_capacity),
            ToEvents::Unsubscribe(shim) => self.shims.unsubscribe(&shim),
            ToEvents::Settings(settings) => self.apply(settings.0),
            ToEvents::Used(rows) => self.used(rows),
            ToEvents::Stands(stands) => self.stands(stands),
        }
    }

    fn look(&mut self, ctx: &mut Context<Self>) {
        let waiting = self.intake.as_ref().map_or_else(Vec::new, |intake| intake.take_or_rest());
        if waiting.is_empty() {
            return;
        }
        for message in waiting {
            self.on_message(message, ctx);
        }
        ctx.run_later(PAUSE, EventActor::look);
    }
}
