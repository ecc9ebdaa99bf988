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
        // Of two at a time the second is checked when the first holds.
        let turn = self.link.orders.clone().lock_owned().into_actor(self);
        let kept = turn.then(move |turn, actor, _| {
            let checked = actor.partition.check_order(&queue, order.as_ref().map(|order| order.kind), overwrite);
            let keep = checked.map(|()| actor.link.keep(KeepOrders(vec![(queue.clone(), order.clone())])));
            let kept = async move {
                let kept = match keep? {
                    Some(keep) => keep.await.unwrap_or_else(|error| Err(OrderRefusal::Disk(error.to_string()))),
                    None => Ok(()),
                };
                kept.map(|()| (turn, queue, order))
            };
            kept.into_actor(actor)
        });
        Box::pin(kept.map(|kept, actor, ctx| {
            let (_turn, queue, order) = kept?;
            actor.apply(vec![Command::OrderQueues(vec![(queue, order)])], ctx);
            Ok(())
        }))
    }
}
