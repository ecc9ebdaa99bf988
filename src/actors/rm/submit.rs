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
    /// A request is of another session than the present one.
    pub(super) fn other_session(&self) -> Refusal {
        let what = if self.life.state() == RmState::Stopped { "is Stopped" } else { "was registered again meanwhile" };
        Refusal::new(RefusalKind::State, format!("resource manager \"{}\" {what}", self.id))
    }

    fn submit(&mut self, msg: Submit, ctx: &mut Context<Self>) -> Result<(), Refusal> {
        if self.session(msg.epoch).is_none() {
            return Err(self.other_session());
        }
        let Some(session) = &mut self.session else { return Ok(()) };
        let mut rejected = vec![(None, msg.rejected)];
        let mut permit = msg.permit;
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
