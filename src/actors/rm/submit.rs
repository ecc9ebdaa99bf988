//! Requests on their way into the partitions.

use actix::prelude::*;

use super::{RmActor, handle, lines, unknown};
use crate::messages::{
    partition::Commands,
    rm::{Outgoing, Predicates, Refusal, RefusalKind, RmState, Submit},
};

impl Handler<Submit> for RmActor {
    type Result = Result<(), Refusal>;

    fn handle(&mut self, msg: Submit, ctx: &mut Self::Context) -> Self::Result {
        if self.closing {
            return Err(handle::closing());
        }
        self.submit(msg, ctx)
    }
}

impl RmActor {
    fn submit(&mut self, msg: Submit, ctx: &mut Context<Self>) -> Result<(), Refusal> {
        let (id, stopped) = (self.id.clone(), self.life.state() == RmState::Stopped);
        let Some(session) = self.session(msg.epoch) else {
            let what = if stopped { "is Stopped" } else { "was registered again meanwhile" };
            return Err(Refusal::new(RefusalKind::State, format!("resource manager \"{id}\" {what}")));
        };
        let mut rejected = vec![(None, msg.rejected)];
        let mut permit = msg.permit;
        for part in msg.parts {
            let Some(partition) = session.partition(&part.partition) else {
                rejected.push((Some(part.partition.clone()), unknown::reject(part)));
                continue;
            };
            // The credits go with the first part: they come back when a partition has applied something of the request.
            let commands = Commands { epoch: msg.epoch, commands: vec![part.command], permit: permit.take() };
            partition.commands.do_send(commands);
        }
        for (partition, callbacks) in rejected {
            session.budget.made(callbacks.len());
            let items: Vec<Outgoing> = callbacks.into_iter().map(Outgoing::Callback).collect();
            for payload in lines::group(items, Predicates::Off) {
                session.buffer.push(partition.clone().unwrap_or_default(), payload);
            }
        }
        self.pump(ctx);
        Ok(())
    }
}
