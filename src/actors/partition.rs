//! `PartitionActor`: owns `domain::Partition`, runs the scheduling loop, routes effects.

use std::sync::Arc;

use actix::prelude::*;

use crate::messages::partition::{
    Commands, Configure, GetSnapshot, PartitionSetup, Snapshot, StopPartition, TryConfigure, Wake,
};

/// See the module.
pub struct PartitionActor {
    _setup: PartitionSetup,
}

impl PartitionActor {
    /// Starts one on an arbiter.
    pub fn start_on(arbiter: &ArbiterHandle, setup: PartitionSetup) -> Addr<PartitionActor> {
        PartitionActor::start_in_arbiter(arbiter, move |_| PartitionActor { _setup: setup })
    }
}

impl Actor for PartitionActor {
    type Context = Context<Self>;
}

impl Handler<Commands> for PartitionActor {
    type Result = ();

    fn handle(&mut self, _msg: Commands, _ctx: &mut Self::Context) {}
}

impl Handler<Configure> for PartitionActor {
    type Result = Result<(), Arc<str>>;

    fn handle(&mut self, _msg: Configure, _ctx: &mut Self::Context) -> Self::Result {
        todo!()
    }
}

impl Handler<TryConfigure> for PartitionActor {
    type Result = Result<(), Arc<str>>;

    fn handle(&mut self, _msg: TryConfigure, _ctx: &mut Self::Context) -> Self::Result {
        todo!()
    }
}

impl Handler<GetSnapshot> for PartitionActor {
    type Result = Arc<Snapshot>;

    fn handle(&mut self, _msg: GetSnapshot, _ctx: &mut Self::Context) -> Self::Result {
        todo!()
    }
}

impl Handler<Wake> for PartitionActor {
    type Result = ();

    fn handle(&mut self, _msg: Wake, _ctx: &mut Self::Context) {}
}

impl Handler<StopPartition> for PartitionActor {
    type Result = ();

    fn handle(&mut self, _msg: StopPartition, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
