//! A partition and its journal: the session begins with what operators drained before, nodes are told of batch by batch,
//! the session ends.

use std::time::Duration;

use actix::prelude::*;

use super::PartitionActor;
use crate::{
    actors::journal::JournalActor,
    domain::{command::Command, effect::NodeEffect, journal::Fact},
    messages::{
        journal::{Begin, End, Post},
        partition::{Alive, Signs},
    },
};

/// A journal that has not answered by then is not waited for: nodes that operators drained are held back when it does.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct Link {
    journal: Option<Addr<JournalActor>>,
    epoch: u64,
    facts: Vec<Fact>,
}

impl Link {
    pub(super) fn new(journal: Option<Addr<JournalActor>>, epoch: u64) -> Link {
        Link { journal, epoch, facts: Vec::new() }
    }

    /// Takes note of what happened to a node.
    pub(super) fn note(&mut self, effect: &NodeEffect) {
        if self.journal.is_some() {
            self.facts.extend(Fact::of(effect));
        }
    }

    /// Posts what was noted.
    pub(super) fn flush(&mut self) {
        if let Some(journal) = self.journal.as_ref().filter(|_| !self.facts.is_empty()) {
            journal.do_send(Post { epoch: self.epoch, facts: std::mem::take(&mut self.facts) });
        }
    }

    /// The session ended, and all that was posted came before.
    pub(super) fn end(&mut self) {
        self.flush();
        if let Some(journal) = self.journal.take() {
            journal.do_send(End { epoch: self.epoch });
        }
    }
}

impl PartitionActor {
    /// Asks the journal what operators drained. Nothing else is handled before it answered, so that no node gets an
    /// allocation that it must not have, and readers see what they wrote.
    pub(super) fn begin_journal(&mut self, ctx: &mut Context<Self>) {
        let Some(journal) = &self.link.journal else { return };
        let begin = Begin { epoch: self.setup.epoch, partition: ctx.address().recipient() };
        let asked = journal.send(begin).timeout(PATIENCE).into_actor(self);
        ctx.wait(asked.map(|answer, actor, ctx| match answer {
            Ok(hosts) if hosts.is_empty() => {}
            Ok(hosts) => actor.apply(vec![Command::HoldHosts { hosts, held: true }], ctx),
            Err(error) => tracing::error!(
                partition = &*actor.setup.internal, %error,
                "the resource journal does not answer; what operators drained may get allocations until it does"
            ),
        }));
    }
}

impl Handler<Alive> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: Alive, _ctx: &mut Self::Context) {
        if msg.epoch != self.setup.epoch {
            return;
        }
        match msg.signs {
            Signs::Vouched(vouched) => self.link.facts.push(Fact::Vouched(vouched)),
            Signs::Of(nodes) => {
                let known = nodes.iter().filter(|node| self.partition.node_by_id.contains_key(&**node));
                self.link.facts.extend(known.map(|node| Fact::Heartbeat { node: node.clone() }));
            }
        }
        self.link.flush();
    }
}
