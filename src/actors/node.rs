//! `NodeActor`: the conversation about one node: its last sign of life, after which it becomes torpid in time, and those who wait
//! until it is online, empty or drained. Capacity and usage are the partition's.

use std::{rc::Rc, sync::Arc};

use actix::prelude::*;

use super::{
    silence::Silence,
    waiters::{Verdict, Waiters},
};
use crate::{
    domain::{journal::Fact, types::Nanos, words::plural},
    messages::{
        clock::nanos,
        node::{Heard, JudgeSilence, NodeGone, NodeUpdate},
        wait::{Condition, EndWaits, NodeStatus, Wait, Withdraw},
    },
};

/// See the module.
pub struct NodeActor {
    node: Arc<str>,
    silence: Rc<Silence>,
    /// The last sign of life.
    heard: Nanos,
    torpid: bool,
    /// When it next looks whether there was one.
    timer: Option<SpawnHandle>,
    status: Option<NodeStatus>,
    waiters: Waiters,
}

impl NodeActor {
    /// An actor for a node that was registered just now.
    pub fn new(node: Arc<str>, silence: Rc<Silence>) -> NodeActor {
        let heard = silence.clock.now();
        NodeActor { node, silence, heard, torpid: false, timer: None, status: None, waiters: Waiters::default() }
    }

    fn heard(&mut self, ctx: &mut Context<Self>) {
        self.heard = self.silence.clock.now();
        self.become_torpid(false);
        self.look(ctx);
    }

    fn become_torpid(&mut self, torpid: bool) {
        if std::mem::replace(&mut self.torpid, torpid) != torpid {
            self.silence.tell(Fact::Torpid { node: self.node.clone(), torpid });
            self.settle();
        }
    }

    /// Is it silent for too long? If not, it looks again when it could be. A sign of life that comes meanwhile moves no timer.
    fn look(&mut self, ctx: &mut Context<Self>) {
        if self.timer.is_some() || self.torpid {
            return;
        }
        let Some(patience) = self.silence.patience() else { return };
        let due = self.heard.plus(nanos(patience));
        if due <= self.silence.clock.now() {
            self.become_torpid(true);
            return;
        }
        self.timer = Some(ctx.run_later(self.silence.clock.until(due), |actor, ctx| {
            actor.timer = None;
            actor.look(ctx);
        }));
    }

    fn state(&self) -> &'static str {
        match self.status {
            Some(NodeStatus { schedulable: false, allocations: 0, .. }) => "drained",
            Some(NodeStatus { schedulable: false, .. }) => "draining",
            _ if self.torpid => "torpid",
            _ => "online",
        }
    }

    /// Whether a condition holds.
    fn judge(&self, condition: Condition) -> Verdict {
        let Some(NodeStatus { schedulable, allocations, foreign }) = self.status else {
            return Verdict::NotYet("nothing is known of it yet".to_owned());
        };
        match condition {
            Condition::Online if self.torpid => {
                let silent = self.silence.clock.now().minus(self.heard).as_secs();
                Verdict::NotYet(format!("it is torpid: nothing was heard of it for {silent} s"))
            }
            Condition::Online => Verdict::Met,
            Condition::Drained if schedulable => {
                Verdict::NotYet("it is not drained: new allocations go to it".to_owned())
            }
            // An empty node can be switched off: it has no work of other schedulers either. A drained one may have some: their
            // daemons may stay for ever.
            Condition::Empty if allocations + foreign > 0 => {
                Verdict::NotYet(format!("{} on it", plural(allocations + foreign, "allocation")))
            }
            Condition::Drained if allocations > 0 => {
                Verdict::NotYet(format!("{} on it", plural(allocations, "allocation")))
            }
            Condition::Empty | Condition::Drained => Verdict::Met,
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

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look(ctx);
    }
}

impl Handler<Heard> for NodeActor {
    type Result = ();

    fn handle(&mut self, msg: Heard, ctx: &mut Self::Context) {
        if self.silence.counts(msg.heartbeat) {
            self.heard(ctx);
        }
    }
}

impl Handler<JudgeSilence> for NodeActor {
    type Result = ();

    fn handle(&mut self, msg: JudgeSilence, ctx: &mut Self::Context) {
        if let Some(timer) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        if msg.begins {
            return self.heard(ctx);
        }
        let now = self.silence.clock.now();
        let silent = self.silence.patience().is_some_and(|patience| self.heard.plus(nanos(patience)) <= now);
        self.become_torpid(silent);
        self.look(ctx);
    }
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
        // Nothing is left on a node that is gone.
        self.waiters.gone("gone", |condition| condition != Condition::Online);
        ctx.stop();
    }
}

#[cfg(test)]
mod tests;
