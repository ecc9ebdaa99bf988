//! What a `PartitionActor` answers to.

use std::sync::Arc;

use actix::prelude::*;

use super::PartitionActor;
use crate::{
    domain::command::Command,
    domain::effect::Callback,
    messages::{
        application::UnconfirmedRelease,
        partition::{
            Commands, Commit, Configure, GetSnapshot, ListUnconfirmed, Observe, PartitionTalk, ResendUnconfirmed,
            SendAgain, Snapshot, StopPartition, TryConfigure, Wake,
        },
        rm::{Deliver, Outgoing},
        ugm::UseResolver,
    },
};

impl Handler<Commands> for PartitionActor {
    type Result = ();

    fn handle(&mut self, batch: Commands, ctx: &mut Self::Context) {
        if batch.epoch == self.setup.epoch {
            self.inbox.push_back(batch);
            self.drain(ctx);
        }
    }
}

impl Handler<Commit> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: Commit, ctx: &mut Self::Context) {
        self.awaited = self.awaited.saturating_sub(1);
        self.apply(vec![Command::CommitSwap(msg.0)], ctx);
        self.drain(ctx);
    }
}

impl Handler<SendAgain> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: SendAgain, _ctx: &mut Self::Context) {
        self.route();
        let items: Vec<Outgoing> =
            msg.0.into_iter().map(|release| Outgoing::Callback(Callback::Released(Box::new(release)))).collect();
        self.setup.budget.made(items.len());
        let (epoch, partition) = (self.setup.epoch, self.setup.internal.clone());
        self.setup.callbacks.do_send(Deliver { epoch, partition, items });
    }
}

impl Handler<ResendUnconfirmed> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: ResendUnconfirmed, _ctx: &mut Self::Context) {
        self.route();
        self.conversations.resend(&msg);
    }
}

impl Handler<ListUnconfirmed> for PartitionActor {
    type Result = ResponseFuture<Vec<UnconfirmedRelease>>;

    fn handle(&mut self, _msg: ListUnconfirmed, _ctx: &mut Self::Context) -> Self::Result {
        self.route();
        Box::pin(self.conversations.unconfirmed())
    }
}

impl Handler<Configure> for PartitionActor {
    type Result = Result<(), Arc<str>>;

    fn handle(&mut self, msg: Configure, ctx: &mut Self::Context) -> Self::Result {
        self.ugm.do_send(UseResolver(msg.0.resolver));
        self.apply(vec![Command::Configure(msg.0)], ctx);
        Ok(())
    }
}

impl Handler<TryConfigure> for PartitionActor {
    type Result = Result<(), Arc<str>>;

    /// What can be wrong with a configuration was found when it was read, and a change cannot fail half way: a partition that
    /// answers takes it.
    fn handle(&mut self, _msg: TryConfigure, _ctx: &mut Self::Context) -> Self::Result {
        Ok(())
    }
}

impl Handler<GetSnapshot> for PartitionActor {
    type Result = Arc<Snapshot>;

    fn handle(&mut self, _msg: GetSnapshot, _ctx: &mut Self::Context) -> Self::Result {
        let (epoch, partition) = (self.setup.epoch, &self.partition);
        self.snapshot.get_or_insert_with(|| Arc::new(Snapshot { epoch, partition: partition.clone() })).clone()
    }
}

impl Handler<Wake> for PartitionActor {
    type Result = ();

    fn handle(&mut self, _msg: Wake, ctx: &mut Self::Context) {
        self.ask_for_slice(ctx);
    }
}

impl Handler<StopPartition> for PartitionActor {
    type Result = ();

    fn handle(&mut self, _msg: StopPartition, ctx: &mut Self::Context) {
        self.meter.ends();
        let now = self.clock.now();
        self.partition.apply(Command::Stop, now, &mut self.effects);
        // What still waited is answered by a partition that takes nothing any more.
        for batch in std::mem::take(&mut self.inbox) {
            for command in batch.commands {
                self.partition.apply(command, now, &mut self.effects);
            }
        }
        self.route();
        self.link.end();
        self.conversations.stop();
        ctx.stop();
    }
}

impl Handler<Observe> for PartitionActor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _msg: Observe, _ctx: &mut Self::Context) -> Self::Result {
        self.route();
        MessageResult(PartitionTalk {
            waiting_batches: self.inbox.len(),
            conversations: self.conversations.counts(),
            ..self.talk.clone()
        })
    }
}
