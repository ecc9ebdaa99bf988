//! What operators tell queues to become: checked here, kept by the journal, and then applied. What was applied is on disk.

use actix::prelude::*;

use super::PartitionActor;
use crate::{
    domain::{command::Command, queue_order::OrderRefusal},
    messages::{journal::KeepOrders, partition::OrderQueue},
};

impl Handler<OrderQueue> for PartitionActor {
    type Result = ResponseActFuture<Self, Result<(), OrderRefusal>>;

    fn handle(&mut self, msg: OrderQueue, _ctx: &mut Self::Context) -> Self::Result {
        let OrderQueue { queue, order, overwrite } = msg;
        if let Err(refusal) = self.partition.check_order(&queue, order.as_ref().map(|order| order.kind), overwrite) {
            return Box::pin(async { Err(refusal) }.into_actor(self));
        }
        let keep = self.link.keep(KeepOrders(vec![(queue.clone(), order.clone())]));
        let kept = async move {
            match keep {
                Some(keep) => keep.await.unwrap_or_else(|error| Err(OrderRefusal::Disk(error.to_string()))),
                None => Ok(()),
            }
        };
        Box::pin(kept.into_actor(self).map(move |kept, actor, ctx| {
            kept.map(|()| actor.apply(vec![Command::OrderQueues(vec![(queue, order)])], ctx))
        }))
    }
}
