//! `QueueActor`: the conversation about one queue: which applications it admitted and refused, and those who wait until it is
//! empty or has room. Usage and limits are the partition's.

use actix::prelude::*;

use super::waiters::{Verdict, Waiters};
use crate::messages::{
    queue::{Admissions, GetAdmissions, QueueGone, QueueUpdate},
    wait::{Condition, EndWaits, QueueStatus, Wait, Withdraw},
};

/// See the module.
#[derive(Default)]
pub struct QueueActor {
    admissions: Admissions,
    status: Option<QueueStatus>,
    waiters: Waiters,
}

impl QueueActor {
    /// An actor that goes on with what was known before.
    pub fn of(admissions: Admissions) -> QueueActor {
        QueueActor { admissions, ..QueueActor::default() }
    }

    fn state(&self) -> &'static str {
        self.status.as_ref().map_or("Active", |status| status.state)
    }
}

/// Whether a condition holds of a queue.
fn judge(status: Option<&QueueStatus>, condition: Condition) -> Verdict {
    match (status, condition) {
        (Some(status), Condition::Empty) if status.empty => Verdict::Met,
        (Some(_), Condition::Empty) => Verdict::NotYet("applications are in it or below it".to_owned()),
        (Some(QueueStatus { no_room: Some(why), .. }), Condition::Room) => Verdict::NotYet(why.clone()),
        (Some(_), Condition::Room) => Verdict::Met,
        (None, _) => Verdict::NotYet("nothing is known of it yet".to_owned()),
        (_, other) => Verdict::Never(format!("a queue is never {}", other.name())),
    }
}

impl Actor for QueueActor {
    type Context = Context<Self>;
}

impl Handler<QueueUpdate> for QueueActor {
    type Result = ();

    fn handle(&mut self, update: QueueUpdate, _ctx: &mut Self::Context) {
        for effect in update.effects {
            self.admissions.take(effect, update.at);
        }
        if update.status.is_some() {
            self.status = update.status;
            let status = self.status.as_ref();
            self.waiters.settle(self.state(), |condition| judge(status, condition));
        }
    }
}

impl Handler<GetAdmissions> for QueueActor {
    type Result = MessageResult<GetAdmissions>;

    fn handle(&mut self, _msg: GetAdmissions, _ctx: &mut Self::Context) -> Self::Result {
        MessageResult(self.admissions.clone())
    }
}

impl Handler<Wait> for QueueActor {
    type Result = ();

    fn handle(&mut self, wait: Wait, _ctx: &mut Self::Context) {
        let verdict = judge(self.status.as_ref(), wait.condition);
        self.waiters.add(wait, self.state(), verdict);
    }
}

impl Handler<Withdraw> for QueueActor {
    type Result = ();

    fn handle(&mut self, msg: Withdraw, _ctx: &mut Self::Context) {
        let status = self.status.as_ref();
        self.waiters.withdraw(msg.id, self.state(), |condition| judge(status, condition));
    }
}

impl Handler<EndWaits> for QueueActor {
    type Result = ();

    fn handle(&mut self, _msg: EndWaits, _ctx: &mut Self::Context) {
        self.waiters.end();
    }
}

impl Handler<QueueGone> for QueueActor {
    type Result = ();

    fn handle(&mut self, _msg: QueueGone, ctx: &mut Self::Context) {
        // Only an empty queue goes.
        self.waiters.gone("gone", |condition| condition == Condition::Empty);
        ctx.stop();
    }
}

#[cfg(test)]
mod tests;
