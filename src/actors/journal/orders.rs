//! Orders of operators to queues, kept beside the journal of the partition: on disk before they are answered, in memory for
//! the next session.

use std::sync::Arc;

use actix::prelude::*;
use tokio::task::spawn_blocking;

use super::{JournalActor, Storage, disk::stamp};
use crate::{
    domain::queue_order::{OrderRefusal, QueueOrder},
    messages::journal::KeepOrders,
    store::queue_orders::{self, Orders},
};

/// See the module.
#[derive(Debug, Default)]
pub struct KeptOrders {
    /// Those that hold.
    pub orders: Orders,
    /// Number of the newest change.
    pub change: u64,
    /// Why none may be written.
    pub broken: Option<String>,
    /// Some may be lost.
    pub lost: bool,
    /// Damaged files are there, to be kept aside before others are written.
    pub unmended: bool,
}

impl KeptOrders {
    /// What a session begins with.
    pub fn list(&self) -> Vec<(Arc<str>, Option<Arc<QueueOrder>>)> {
        if crate::domain::planted!("orders-forgotten") {
            return Vec::new();
        }
        self.orders.iter().map(|(queue, order)| (queue.clone(), Some(order.clone()))).collect()
    }
}

impl Handler<KeepOrders> for JournalActor {
    type Result = AtomicResponse<JournalActor, Result<(), OrderRefusal>>;

    fn handle(&mut self, msg: KeepOrders, _ctx: &mut Self::Context) -> Self::Result {
        let before = self.orders.orders.clone();
        let mut after = before.clone();
        for (queue, order) in msg.0 {
            match order {
                Some(order) => drop(after.insert(queue, order)),
                None => drop(after.remove(&queue)),
            }
        }
        let change = self.orders.change + 1;
        let broken = match &self.storage {
            Storage::Unread(why) | Storage::Broken(why) => Some(why.clone()),
            _ => self.orders.broken.clone(),
        };
        let dir = self.setup.dir.clone();
        let (orders, unmended) = (after.clone(), self.orders.unmended);
        let written = async move {
            let Some(dir) = dir else { return Ok(()) };
            if let Some(why) = broken {
                return Err(why);
            }
            let written = spawn_blocking(move || {
                if unmended {
                    queue_orders::keep_aside(&dir, &stamp())?;
                }
                queue_orders::write(&dir, change, &orders).inspect_err(|_| {
                    // One of the two files may have it; nobody was told that it holds.
                    let _ = queue_orders::write(&dir, change + 1, &before);
                })
            });
            written.await.unwrap_or_else(|error| Err(error.to_string()))
        };
        let kept = written.into_actor(self).map(move |written, actor, _| {
            // Also where it failed: the next one is newer than what may be there.
            actor.orders.change = change + 1;
            actor.note_held();
            match written {
                Ok(()) => {
                    actor.orders.orders = after;
                    actor.orders.unmended = false;
                    Ok(())
                }
                Err(why) => {
                    tracing::error!(code = "orders-not-written", partition = %actor.setup.partition, "{why}");
                    Err(OrderRefusal::Disk(format!("{why}; nothing was changed")))
                }
            }
        });
        AtomicResponse::new(Box::pin(kept))
    }
}
