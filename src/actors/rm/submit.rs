//! What of requests is for no partition: doors hand the rest to the partitions themselves.

use actix::prelude::*;

use super::{
    RmActor, handle, lines,
    record::{self, kind},
    unknown,
};
use crate::messages::{
    budget::Permit,
    partition::Commands,
    receipts::PartOf,
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
        let now = self.clock.now();
        let Some(session) = self.session.as_mut().filter(|session| session.epoch == msg.epoch) else { return };
        let mut rejected = vec![(None, msg.rejected)];
        let mut known = Vec::new();
        for part in msg.parts {
            if let Some(partition) = session.partition(&part.partition) {
                known.push((partition.number, partition.commands.clone(), part.command));
                continue;
            }
            let name = part.partition.clone();
            let callbacks = unknown::reject(part);
            if let Some(metrics) = &self.topology.metrics {
                unknown::count(&callbacks, metrics);
            }
            rejected.push((Some(name), callbacks));
        }
        let is_answered_here = rejected.len() > 1 || !rejected[0].1.is_empty();
        if let (Some(_), Some(permit)) = (&msg.ahead, &msg.permit) {
            permit.in_parts(known.len() + usize::from(is_answered_here));
        }
        let recorded = msg.permit.as_ref().map(Permit::recorded).unwrap_or_default();
        known.retain(|(number, ..)| !recorded.contains(&PartOf::Partition(*number)));
        let is_answered_here = is_answered_here && !recorded.contains(&PartOf::Session);
        if !is_answered_here {
            rejected.clear();
        }
        for (_, partition, command) in known {
            partition.do_send(Commands { epoch: msg.epoch, commands: vec![command], permit: msg.permit.clone() });
        }
        for (partition, callbacks) in rejected {
            session.budget.made(callbacks.len(), 0);
            let partition = partition.unwrap_or_default();
            if let Some(log) = self.log.as_mut().filter(|_| !callbacks.is_empty()) {
                log.append(kind::SAID, now, &record::said(&partition, &callbacks));
            }
            let items: Vec<Outgoing> = callbacks.into_iter().map(Outgoing::Callback).collect();
            for payload in lines::group(items, Predicates::Off) {
                session.buffer.push(partition.clone(), payload);
            }
            if let Some(log) = &mut self.log {
                log.wait(session.epoch, session.buffer.last(), None, Vec::new());
            }
        }
        // What is for a partition it records itself.
        if let (Some(log), Some(permit)) = (&mut self.log, msg.permit.filter(|_| is_answered_here)) {
            log.taken(vec![permit], session.epoch, session.buffer.last(), now);
        }
        self.commit(ctx);
        self.pump(ctx);
    }
}
