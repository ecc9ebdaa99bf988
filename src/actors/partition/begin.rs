//! How a partition begins. Thousands of queues are made, and recorded, on another thread, so that others on the partition's thread
//! have their turn meanwhile.

use std::sync::Arc;

use actix::prelude::*;
use tokio::task::{JoinError, spawn_blocking};

use super::{PartitionActor, conversations::Queues, meter::Meter, recorder::Recorder};
use crate::{
    domain::{
        Partition,
        conf::{LimitConf, QueueConf},
        effect::{Effect, QueueEffect},
        event::Event,
        log::Beginning,
    },
    messages::recorded::{Entry, Outlet},
    metrics::Metrics,
};

/// More queues and names in limits than this take longer to make than others should wait.
pub(super) const FEW: usize = 256;

/// What it begins with.
pub(super) struct Begin {
    pub(super) beginning: Beginning,
    /// Its number and outlet, where it is recorded.
    pub(super) recorded: Option<(u32, Arc<Outlet>)>,
    pub(super) metrics: Option<Arc<Metrics>>,
}

/// What came of it.
struct Begun {
    partition: Partition,
    recorder: Option<Recorder>,
    meter: Meter,
    queues: Queues,
    events: Vec<Event>,
    /// What is neither of queues nor an event.
    others: Vec<Effect>,
    entry: Option<Box<Entry>>,
}

impl Begin {
    fn is_large(&self) -> bool {
        size(&self.beginning.conf.root) > FEW
    }

    fn run(self) -> Begun {
        let Begin { beginning, recorded, metrics } = self;
        let mut recorder = recorded.map(|(instance, outlet)| Recorder::begin(instance, outlet, &beginning));
        let (mut effects, mut meter) = (Vec::new(), Meter::new(metrics));
        let partition = beginning.partition(&mut effects);
        let entry = recorder.as_mut().map(|recorder| recorder.entry(&effects));
        let (mut queues, mut events, mut others) = (Queues::default(), Vec::new(), Vec::new());
        for effect in effects {
            if let Effect::Event(_) | Effect::Queue(QueueEffect::Added { .. }) = effect {
                meter.note(&effect, &partition);
            }
            match effect {
                Effect::Event(event) => events.push(event),
                Effect::Queue(QueueEffect::Added { queue }) => queues.insert(queue),
                other => others.push(other),
            }
        }
        meter.flush(&partition);
        Begun { partition, recorder, meter, queues, events, others, entry }
    }
}

/// The result of another thread, whose panic goes on here. `None`: the process ends.
pub(super) fn done<T>(work: Result<T, JoinError>) -> Option<T> {
    match work {
        Err(error) if error.is_panic() => panic!("work on a partition failed: {error}"),
        work => work.ok(),
    }
}

fn size(queue: &QueueConf) -> usize {
    let names = |limit: &LimitConf| limit.users.len() + limit.groups.len();
    1 + queue.limits.iter().map(names).sum::<usize>() + queue.children.iter().map(size).sum::<usize>()
}

impl PartitionActor {
    /// Nothing is handled before it is there.
    pub(super) fn begin(&mut self, begin: Begin, ctx: &mut Context<Self>) {
        if !begin.is_large() {
            return self.begins(begin.run(), ctx);
        }
        let made = spawn_blocking(|| begin.run());
        ctx.wait(made.into_actor(self).map(|made, actor, ctx| match done(made) {
            Some(begun) => actor.begins(begun, ctx),
            None => ctx.stop(),
        }));
    }

    fn begins(&mut self, begun: Begun, ctx: &mut Context<Self>) {
        let Begun { partition, recorder, meter, queues, events, others, entry } = begun;
        (self.partition, self.recorder, self.meter, self.effects) = (partition, recorder, meter, others);
        self.conversations.begin(queues);
        self.snapshot = None;
        let now = self.now();
        // No callback is among it.
        self.leave_with(now, entry, events, 0);
        self.arm(ctx);
        self.ask_for_slice(ctx);
        self.begin_journal(ctx);
    }
}
