//! `NodeActor`: the conversation about one node: those who wait until it is there, empty or drained. Capacity and usage are
//! the partition's.

use actix::prelude::*;

use super::waiters::{Verdict, Waiters};
use crate::messages::{
    node::{NodeGone, NodeUpdate},
    wait::{Condition, EndWaits, NodeStatus, Wait, Withdraw},
};

/// See the module.
#[derive(Default)]
pub struct NodeActor {
    status: Option<NodeStatus>,
    waiters: Waiters,
}

impl NodeActor {
    fn state(&self) -> &'static str {
        match self.status {
            Some(NodeStatus { schedulable: false, allocations: 0 }) => "drained",
            Some(NodeStatus { schedulable: false, .. }) => "draining",
            _ => "online",
        }
    }

    /// Whether a condition holds.
    fn judge(&self, condition: Condition) -> Verdict {
        let Some(NodeStatus { schedulable, allocations }) = self.status else {
            return Verdict::NotYet("nothing is known of it yet".to_owned());
        };
        match condition {
            Condition::Online => Verdict::Met,
            Condition::Drained if schedulable => {
                Verdict::NotYet("it is not drained: new allocations go to it".to_owned())
            }
            Condition::Empty | Condition::Drained if allocations == 0 => Verdict::Met,
            Condition::Empty | Condition::Drained => Verdict::NotYet(format!("{allocations} allocations are on it")),
            other => Verdict::Never(format!("a node is never {}", other.name())),
        }
    }

    fn settle(&mut self) {
        let mut waiters = std::mem::take(&mut self.waiters);
        waiters.settle(self.state(), |condition| self.judge(condition));
        self.waiters = waiters;
    }
}

impl Actor for NodeActor {
    type Context = Context<Self>;
}

impl Handler<NodeUpdate> for NodeActor {
    type Result = ();

    fn handle(&mut self, update: NodeUpdate, _ctx: &mut Self::Context) {
        self.status = Some(update.status);
        self.settle();
    }
}

impl Handler<Wait> for NodeActor {
    type Result = ();

    fn handle(&mut self, wait: Wait, _ctx: &mut Self::Context) {
        let verdict = self.judge(wait.condition);
        self.waiters.add(wait, self.state(), verdict);
    }
}

impl Handler<Withdraw> for NodeActor {
    type Result = ();

    fn handle(&mut self, msg: Withdraw, _ctx: &mut Self::Context) {
        let mut waiters = std::mem::take(&mut self.waiters);
        waiters.withdraw(msg.id, self.state(), |condition| self.judge(condition));
        self.waiters = waiters;
    }
}

impl Handler<EndWaits> for NodeActor {
    type Result = ();

    fn handle(&mut self, _msg: EndWaits, _ctx: &mut Self::Context) {
        self.waiters.end();
    }
}

impl Handler<NodeGone> for NodeActor {
    type Result = ();

    fn handle(&mut self, _msg: NodeGone, ctx: &mut Self::Context) {
        // Nothing is left on what is not there.
        self.waiters.gone(|condition| condition != Condition::Online);
        ctx.stop();
    }
}

#[cfg(test)]
mod tests;
