//! What a `PartitionActor` answers to.

use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::{PartitionActor, is_of_operators, recorder::Recorder};
use crate::{
    domain::{command::Command, partition::Tables},
    messages::{
        application::{GetUnconfirmed, ResendUnconfirmed, UnconfirmedRelease},
        clock::Clock,
        partition::{
            AwaitRecord, Carries, Commands, Configure, GetSnapshot, GetTables, Observe, PartitionStatus, Patience,
            Save, Saved, SendAgain, ShowAdmissions, ShowInstead, Snapshot, Wake,
        },
        queue::Admissions,
        receipts::Receipt,
        ugm::UseResolver,
    },
};

impl Handler<Commands> for PartitionActor {
    type Result = ();

    fn handle(&mut self, batch: Commands, ctx: &mut Self::Context) {
        if batch.epoch != self.setup.epoch {
            return;
        }
        if self.resolving.is_some() && !self.is_ending() && is_of_operators(&batch.commands) {
            return self.apply(batch.commands, ctx);
        }
        self.inbox.push_back(batch);
        self.drain(ctx);
    }
}

impl Handler<SendAgain> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: SendAgain, ctx: &mut Self::Context) {
        self.send_again(msg.0, ctx);
    }
}

impl Handler<Patience> for PartitionActor {
    type Result = ();

    fn handle(&mut self, patience: Patience, _ctx: &mut Self::Context) {
        self.conversations.set_patience(patience);
    }
}

impl Handler<Carries> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: Carries, _ctx: &mut Self::Context) {
        self.conversations.carried(&msg.0);
    }
}

impl Handler<ResendUnconfirmed> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: ResendUnconfirmed, _ctx: &mut Self::Context) {
        self.route();
        self.conversations.resend(msg);
    }
}

impl Handler<GetUnconfirmed> for PartitionActor {
    type Result = ResponseFuture<Vec<UnconfirmedRelease>>;

    fn handle(&mut self, _msg: GetUnconfirmed, _ctx: &mut Self::Context) -> Self::Result {
        self.route();
        Box::pin(self.conversations.unconfirmed())
    }
}

impl Handler<ShowAdmissions> for PartitionActor {
    type Result = ResponseFuture<Option<Admissions>>;

    fn handle(&mut self, msg: ShowAdmissions, _ctx: &mut Self::Context) -> Self::Result {
        self.route();
        Box::pin(self.conversations.admissions(&msg.0))
    }
}

impl Handler<Configure> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: Configure, ctx: &mut Self::Context) {
        self.ugm.do_send(UseResolver(msg.0.resolver));
        self.apply(vec![Command::Configure(msg.0)], ctx);
    }
}

impl Handler<GetSnapshot> for PartitionActor {
    type Result = Arc<Snapshot>;

    fn handle(&mut self, _msg: GetSnapshot, _ctx: &mut Self::Context) -> Self::Result {
        let (epoch, partition) = (self.setup.epoch, &self.partition);
        self.snapshot.get_or_insert_with(|| Arc::new(Snapshot { epoch, partition: partition.clone() })).clone()
    }
}

impl Handler<ShowInstead> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: ShowInstead, _ctx: &mut Self::Context) {
        if self.is_still {
            let ShowInstead(partition, at) = msg;
            let before = (std::mem::replace(&mut self.partition, *partition), self.snapshot.take());
            self.clock = Clock::still(at);
            // Of large ones, what nobody else has takes a while to free.
            tokio::task::spawn_blocking(move || drop(before));
        }
    }
}

impl Handler<GetTables> for PartitionActor {
    type Result = Arc<Tables>;

    fn handle(&mut self, _msg: GetTables, _ctx: &mut Self::Context) -> Self::Result {
        Arc::new(self.partition.tables())
    }
}

impl Handler<Save> for PartitionActor {
    type Result = ResponseFuture<Saved>;

    fn handle(&mut self, _msg: Save, ctx: &mut Self::Context) -> Self::Result {
        // A request is in one record, before which nothing of it is saved.
        self.finish(ctx);
        // What was only noted has to be recorded before what follows from it is saved.
        if !self.effects.is_empty() || self.recorder.as_ref().is_some_and(|recorder| !recorder.is_empty()) {
            self.leave(false);
        }
        let (instance, number) = self.recorder.as_ref().map(Recorder::place).unwrap_or_default();
        let (partition, talks) = (self.partition.clone(), self.conversations.talks());
        Box::pin(async move { Saved { instance, number, partition, talks: talks.await } })
    }
}

impl Handler<AwaitRecord> for PartitionActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _msg: AwaitRecord, _ctx: &mut Self::Context) -> Self::Result {
        let Some(recorder) = &mut self.recorder else { return Box::pin(async {}) };
        let (tell, told) = oneshot::channel();
        recorder.hold(Some(self.setup.budget.nothing().with(Receipt::Awaited(tell))));
        self.route();
        Box::pin(async move {
            // Dropped with the record that it waits for.
            let _ = told.await;
        })
    }
}

impl Handler<Wake> for PartitionActor {
    type Result = ();

    fn handle(&mut self, _msg: Wake, ctx: &mut Self::Context) {
        self.ask_for_slice(ctx);
    }
}

impl Handler<Observe> for PartitionActor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _msg: Observe, _ctx: &mut Self::Context) -> Self::Result {
        self.route();
        MessageResult(PartitionStatus {
            waiting_batches: self.inbox.len(),
            conversations: self.conversations.counts(),
            waits: self.waits.counts(),
            unconfirmed: self.conversations.unconfirmed_sums(),
            ..self.status.clone()
        })
    }
}
