//! The end of a partition, slice by slice: the others on its thread have their turn in between, and so has the event system:
//! while too many batches of events wait for it, the next slice waits too.

use std::time::{Duration, Instant};

use actix::prelude::*;
use tokio::sync::oneshot;

use super::{
    PartitionActor,
    begin::{FEW, done},
    restored::standing_of,
};
use crate::{
    domain::command::Command,
    messages::{journal::Standing, partition::StopPartition},
};

/// Time of one slice.
const SLICE: Duration = Duration::from_millis(1);
/// Asks and allocations between two looks at the clock.
const CHUNK: usize = 32;
/// Batches of events that may wait for the event system before the next slice waits for it.
const BACKLOG: usize = 8;

impl PartitionActor {
    /// It ends: what comes in now waits until nothing is left.
    pub(super) fn is_ending(&self) -> bool {
        !self.ended.is_empty()
    }

    /// All queues are stopped at once: of thousands, on another thread. Nothing is handled meanwhile.
    fn stop_elsewhere(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        if let Some(recorder) = &mut self.recorder {
            recorder.apply(&Command::Stop, now);
        }
        self.step(now);
        let (mut partition, mut effects) = (self.partition.hollow(), std::mem::take(&mut self.effects));
        let stopped = tokio::task::spawn_blocking(move || {
            partition.apply(Command::Stop, now, &mut effects);
            (partition, effects)
        });
        ctx.wait(stopped.into_actor(self).map(|stopped, actor, ctx| {
            let Some((partition, effects)) = done(stopped) else { return ctx.stop() };
            (actor.partition, actor.effects) = (partition, effects);
            actor.tear_down(ctx);
        }));
    }

    fn tear_down(&mut self, ctx: &mut Context<Self>) {
        let (began, now) = (Instant::now(), self.now());
        let mut more = true;
        while more && began.elapsed() < SLICE {
            if let Some(recorder) = &mut self.recorder {
                recorder.dismantle(CHUNK, now);
            }
            self.step(now);
            more = self.partition.dismantle(CHUNK, now, &mut self.effects);
        }
        self.snapshot = None;
        let waiting = self.route();
        let turn = async move {
            if waiting > BACKLOG { tokio::time::sleep(SLICE).await } else { tokio::task::yield_now().await }
        };
        ctx.spawn(turn.into_actor(self).map(
            move |(), actor, ctx| {
                if more { actor.tear_down(ctx) } else { actor.end(ctx) }
            },
        ));
    }

    fn end(&mut self, ctx: &mut Context<Self>) {
        // Batches that still waited are answered by a partition that takes nothing any more.
        let now = self.now();
        let begun = self.rest.take().map(|(_, rest)| rest).into_iter().chain(self.resolving.take());
        for batch in begun.chain(std::mem::take(&mut self.inbox)) {
            self.give_back(batch.permit);
            for command in batch.commands {
                self.enter(command, now);
            }
        }
        self.leave(true);
        self.link.end();
        self.conversations.stop();
        let standing = standing_of(&self.partition);
        // Freeing the tables of a large one takes a while, which nobody has to wait for.
        let tables = (self.partition.hollow(), self.snapshot.take());
        tokio::task::spawn_blocking(move || drop(tables));
        ctx.stop();
        for ended in self.ended.drain(..) {
            // Who asked may be gone.
            let _ = ended.send(standing.clone());
        }
    }
}

impl Handler<StopPartition> for PartitionActor {
    type Result = ResponseFuture<Standing>;

    fn handle(&mut self, _msg: StopPartition, ctx: &mut Self::Context) -> Self::Result {
        if self.is_still {
            self.conversations.stop();
            let tables = (self.partition.hollow(), self.snapshot.take());
            tokio::task::spawn_blocking(move || drop(tables));
            ctx.stop();
            return Box::pin(async { Standing::default() });
        }
        let (ended, wait) = oneshot::channel();
        let first = self.ended.is_empty();
        self.ended.push(ended);
        if first {
            self.meter.ends();
            self.end_waits();
            self.route();
            if let Some((_, timer)) = self.timer.take() {
                ctx.cancel_future(timer);
            }
            if self.partition.queue_by_path.len() > FEW {
                self.stop_elsewhere(ctx);
            } else {
                let now = self.now();
                self.enter(Command::Stop, now);
                self.tear_down(ctx);
            }
        }
        Box::pin(async move { wait.await.unwrap_or_default() })
    }
}
