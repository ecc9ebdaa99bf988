//! Those who wait for something of this partition: which things have waiters, so that their conversations are told how these
//! things are, and the waiters of what is not there yet. Where nobody waits, this costs nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use actix::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::time::Instant;

use super::PartitionActor;
use crate::{
    actors::{
        application::judge,
        waiters::{Verdict, Waiters},
    },
    domain::{
        Partition,
        app::App,
        effect::{Callback, Effect, NodeEffect},
        event::EventKind,
        types::{Nanos, QueueIx},
    },
    messages::wait::{
        ABSENT, AppStatus, EndWaits, Kind, LookAtQueues, NodeStatus, QueueStatus, Target, Wait, Withdraw,
    },
};

/// Queues for which somebody waits are looked at all at once, so long after something changed: what is in them, and what is
/// left of their limits, changes with every allocation below.
const LOOK: Duration = Duration::from_millis(100);
/// However many these queues are, looking at them takes one part in so many of the time.
const SHARE: u32 = 50;

/// How a thing is.
pub(super) enum Status {
    App(AppStatus),
    Queue(QueueStatus),
    Node(NodeStatus),
}

/// See the module.
#[derive(Default)]
pub(super) struct Waits {
    /// Numbers of the waits for each thing, also for what is not there.
    watched: FxHashMap<Target, FxHashSet<u64>>,
    /// How many of them are queues.
    queues: usize,
    /// Those who wait for what is not there.
    absent: BTreeMap<Target, Waiters>,
    /// Things with waiters of which something has changed.
    touched: BTreeSet<Target>,
    /// The queues are looked at soon.
    looking: bool,
    /// How long the last look took.
    took: Duration,
}

impl Waits {
    fn watch(&mut self, target: &Target, id: u64) {
        let ids = self.watched.entry(target.clone()).or_default();
        if ids.is_empty() && target.kind == Kind::Queue {
            self.queues += 1;
        }
        ids.insert(id);
    }

    fn unwatch(&mut self, target: &Target, id: u64) {
        let Some(ids) = self.watched.get_mut(target) else { return };
        ids.remove(&id);
        if ids.is_empty() {
            self.watched.remove(target);
            if target.kind == Kind::Queue {
                self.queues -= 1;
            }
        }
    }

    /// Takes note of what an effect changes for those who wait.
    pub(super) fn note(&mut self, effect: &Effect) {
        if self.watched.is_empty() {
            return;
        }
        let (kind, name) = match effect {
            Effect::Event(event) if event.kind == EventKind::App => (Kind::Application, &event.object),
            Effect::Event(event) if event.kind == EventKind::Node => (Kind::Node, &event.object),
            Effect::Callback(Callback::RejectedApplication { app, .. }) => (Kind::Application, app),
            Effect::Node(NodeEffect::Registered { node, .. }) => (Kind::Node, node),
            _ => return,
        };
        self.touch(kind, name);
    }

    fn touch(&mut self, kind: Kind, name: &Arc<str>) {
        let target = Target { kind, name: name.clone() };
        if self.watched.contains_key(&target) {
            self.touched.insert(target);
        }
    }

    /// A conversation begins: those who waited for it go on waiting there.
    pub(super) fn arrived(&mut self, kind: Kind, name: &Arc<str>) -> Vec<Wait> {
        if self.absent.is_empty() {
            return Vec::new();
        }
        let target = Target { kind, name: name.clone() };
        let Some(mut waiters) = self.absent.remove(&target) else { return Vec::new() };
        self.touched.insert(target.clone());
        let wait = |(condition, id, answer)| Wait { id, target: target.clone(), condition, answer };
        waiters.take().map(wait).collect()
    }

    /// How those things are that changed since the last call; who waits for what ended unseen is answered.
    pub(super) fn changed(&mut self, partition: &Partition) -> Vec<(Target, Status)> {
        let mut changed = Vec::new();
        for target in std::mem::take(&mut self.touched) {
            match status(partition, &target) {
                Some(status) => changed.push((target, status)),
                None => {
                    if let Some(waiters) = self.absent.get_mut(&target)
                        && let Some(past) = past(partition, &target)
                    {
                        waiters.settle(past.state.name(), |condition| judge(Some(&past), condition));
                        if waiters.is_empty() {
                            self.absent.remove(&target);
                        }
                    }
                }
            }
        }
        changed
    }

    /// Somebody waits for what has no conversation.
    fn wait_for_absent(&mut self, partition: &Partition, wait: Wait) {
        let target = wait.target.clone();
        let (state, verdict) = match past(partition, &target) {
            Some(past) => (past.state.name(), judge(Some(&past), wait.condition)),
            None => (ABSENT, Verdict::NotYet(String::new())),
        };
        let waiters = self.absent.entry(target.clone()).or_default();
        waiters.add(wait, state, verdict);
        if waiters.is_empty() {
            self.absent.remove(&target);
        }
    }

    fn withdraw_from_absent(&mut self, msg: &Withdraw) {
        let Some(waiters) = self.absent.get_mut(&msg.target) else { return };
        waiters.withdraw(msg.id, ABSENT, |_| Verdict::NotYet(format!("there is no {}", msg.target)));
        if waiters.is_empty() {
            self.absent.remove(&msg.target);
        }
    }

    /// Nobody waits any longer. Gives the things for which somebody waits.
    fn end(&mut self) -> Vec<Target> {
        let watched = std::mem::take(self).watched;
        watched.into_keys().collect()
    }

    /// How many wait, and for how many things that are not there.
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.watched.values().map(FxHashSet::len).sum(), self.absent.len()]
    }
}

/// How something is; `None` where it is not there.
fn status(partition: &Partition, Target { kind, name }: &Target) -> Option<Status> {
    Some(match kind {
        Kind::Application => {
            let ix = partition.app_by_id.get(&**name)?;
            Status::App(of_app(&partition.apps[*ix]))
        }
        Kind::Queue => Status::Queue(of_queue(partition, *partition.queue_by_path.get(&**name)?)),
        Kind::Node => {
            let node = &partition.nodes[*partition.node_by_id.get(&**name)?];
            let (schedulable, allocations) = (node.schedulable(), node.placements() as usize);
            Status::Node(NodeStatus { schedulable, allocations, foreign: node.foreign_to_go().count() })
        }
    })
}

fn of_app(app: &App) -> AppStatus {
    AppStatus {
        state: app.state,
        began: app.started.is_some(),
        allocated: app.placements() > 0,
        waits: !app.pending().is_zero() || app.asking > 0 || app.asked.iter().any(|asked| asked.count > 0),
        refused: app.rejected.clone(),
    }
}

fn of_queue(partition: &Partition, ix: QueueIx) -> QueueStatus {
    QueueStatus {
        state: partition.shown_state(ix).name(),
        empty: partition.is_queue_empty(ix),
        no_room: partition.queue_room(ix).err(),
    }
}

/// How an application was that ended: the latest of its id, else one that was refused.
fn past(partition: &Partition, Target { kind, name }: &Target) -> Option<AppStatus> {
    if *kind != Kind::Application {
        return None;
    }
    let ends = (name.clone(), Nanos(i64::MIN))..=(name.clone(), Nanos(i64::MAX));
    let ended = partition.terminated.range(ends).next_back().map(|(_, app)| app);
    ended.or_else(|| partition.rejected.get(name)).map(|app| of_app(app))
}

impl PartitionActor {
    /// Queues for which somebody waits are looked at soon.
    pub(super) fn look_at_queues_soon(&mut self, ctx: &mut Context<Self>) {
        if self.waits.queues > 0 && !self.waits.looking {
            self.waits.looking = true;
            ctx.notify_later(LookAtQueues, LOOK.max(self.waits.took * SHARE));
        }
    }

    /// Whoever waits hears that it is in vain.
    pub(super) fn end_waits(&mut self) {
        for target in self.waits.end() {
            self.conversations.pass_on(&target, EndWaits);
        }
    }
}

impl Handler<Wait> for PartitionActor {
    type Result = ();

    fn handle(&mut self, wait: Wait, _ctx: &mut Self::Context) {
        if self.is_ending() {
            return;
        }
        // What happened before is told before.
        self.route();
        self.waits.watch(&wait.target, wait.id);
        match status(&self.partition, &wait.target) {
            Some(status) => {
                self.conversations.tell(&wait.target, status);
                self.conversations.pass_on(&wait.target.clone(), wait);
            }
            None => self.waits.wait_for_absent(&self.partition, wait),
        }
    }
}

impl Handler<Withdraw> for PartitionActor {
    type Result = ();

    fn handle(&mut self, msg: Withdraw, _ctx: &mut Self::Context) {
        self.waits.unwatch(&msg.target, msg.id);
        self.waits.withdraw_from_absent(&msg);
        self.conversations.pass_on(&msg.target.clone(), msg);
    }
}

impl Handler<EndWaits> for PartitionActor {
    type Result = ();

    fn handle(&mut self, _msg: EndWaits, _ctx: &mut Self::Context) {
        self.end_waits();
    }
}

impl Handler<LookAtQueues> for PartitionActor {
    type Result = ();

    fn handle(&mut self, _msg: LookAtQueues, _ctx: &mut Self::Context) {
        self.waits.looking = false;
        let began = Instant::now();
        for target in self.waits.watched.keys().filter(|target| target.kind == Kind::Queue) {
            if let Some(status) = status(&self.partition, target) {
                self.conversations.tell(target, status);
            }
        }
        self.waits.took = began.elapsed();
    }
}
