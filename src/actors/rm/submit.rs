//! What of requests is for no partition: doors hand the rest to the partitions themselves.

use actix::prelude::*;

use super::{RmActor, handle, lines, unknown};
use crate::messages::{
    partition::Commands,
    rm::{Outgoing, Predicates, Refusal, Submit},
};

impl Handler<Submit> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: Submit, ctx: &mut Self::Context) {
        self.submit(msg, ctx);
    }
}

impl RmActor {
    pub(super) fn other_session(&self) -> Refusal {
        handle::other_session(&self.id, self.life.state())
    }

    fn submit(&mut self, msg: Submit, ctx: &mut Context<Self>) {
        let Some(session) = self.session.as_mut().filter(|session| session.epoch == msg.epoch) else { return };
        let mut rejected = vec![(None, msg.rejected)];
        for part in msg.parts {
            let Some(partition) = session.partition(&part.partition) else {
                let name = part.partition.clone();
                let callbacks = unknown::reject(part);
                if let Some(metrics) = &self.topology.metrics {
                    unknown::count(&callbacks, metrics);
                }
                rejected.push((Some(name), callbacks));
                continue;
            };
            let commands = Commands { epoch: msg.epoch, commands: vec![part.command], permit: msg.permit.clone() };
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
    }
}
