//! The conversations of a partition, on its arbiter: one actor per live node, one per live queue from the first message to it, and
//! one per live application from the first release that waits for the shim, or from the first who waits for it. Effects are
//! collected by receiver and handed over once per batch or slice.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use actix::prelude::*;
use rustc_hash::FxHashMap;

use super::{
    talkers::Talkers,
    waits::{Status, Waits},
};
use crate::{
    actors::{
        application::ApplicationActor, node::NodeActor, queue::QueueActor, silence::Silence, unconfirmed::Unconfirmed,
    },
    domain::{
        effect::{AppEffect, NodeEffect, QueueEffect, Released},
        types::{AppState, Nanos},
    },
    messages::{
        application::{
            AppGone, AppUpdate, Carried, GetUnconfirmed, LookAnew, ResendUnconfirmed, UnconfirmedRelease, Unheard,
        },
        node::{Heard, JudgeSilence, NodeGone, NodeUpdate},
        partition::{Patience, SendAgain, Signs, UnconfirmedSums},
        queue::{Admissions, GetAdmissions, QueueGone, QueueUpdate},
        recorded::Talks,
        rm::{Line, Payload},
        wait::{Kind, Target},
    },
};

pub(super) type Id = Arc<str>;
/// Most of many thousands never get a message.
pub(super) type Queues = Talkers<QueueActor>;

/// See the module.
pub(super) struct Conversations {
    unconfirmed: Rc<Unconfirmed>,
    silence: Rc<Silence>,
    send: Recipient<SendAgain>,
    apps: Talkers<ApplicationActor>,
    queues: Queues,
    nodes: FxHashMap<Id, Addr<NodeActor>>,
    app_updates: BTreeMap<Id, Vec<(Nanos, AppEffect)>>,
    queue_updates: BTreeMap<Id, Vec<QueueEffect>>,
}

fn app_of(effect: &AppEffect) -> &Id {
    match effect {
        AppEffect::Added { app } | AppEffect::Removed { app } | AppEffect::Confirmed { app, .. } => app,
        AppEffect::Unconfirmed { release } => &release.app,
        AppEffect::Ended { summary } => &summary.app,
    }
}

fn queue_of(effect: &QueueEffect) -> &Id {
    match effect {
        QueueEffect::Added { queue }
        | QueueEffect::Removed { queue }
        | QueueEffect::Admitted { queue, .. }
        | QueueEffect::Refused { queue, .. } => queue,
    }
}

fn node_of(effect: &NodeEffect) -> &Id {
    match effect {
        NodeEffect::Registered { node, .. }
        | NodeEffect::Held { node }
        | NodeEffect::Seen { node }
        | NodeEffect::Capacity { node, .. }
        | NodeEffect::Schedulable { node, .. }
        | NodeEffect::Renamed { node, .. }
        | NodeEffect::Removed { node } => node,
    }
}

impl Conversations {
    pub(super) fn new(unconfirmed: Rc<Unconfirmed>, silence: Rc<Silence>, send: Recipient<SendAgain>) -> Conversations {
        Conversations {
            unconfirmed,
            silence,
            send,
            apps: Talkers::default(),
            queues: Queues::default(),
            nodes: FxHashMap::default(),
            app_updates: BTreeMap::new(),
            queue_updates: BTreeMap::new(),
        }
    }

    /// It begins with these queues.
    pub(super) fn begin(&mut self, queues: Queues) {
        self.queues = queues;
    }

    /// Number of actors: of applications, queues, nodes.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.apps.actors(), self.queues.actors(), self.nodes.len()]
    }

    /// `told`: the application whose state the shim was told last, and that state.
    pub(super) fn app(&mut self, (at, effect): (Nanos, AppEffect), told: Option<&(Id, AppState)>, waits: &mut Waits) {
        let app = app_of(&effect).clone();
        match effect {
            AppEffect::Added { .. } => {
                self.apps.insert(app.clone());
                self.waited_for(Kind::Application, app, waits);
            }
            AppEffect::Removed { .. } => {
                let effects = self.app_updates.remove(&app);
                if let Some(addr) = self.apps.remove(&app) {
                    if let Some(effects) = effects {
                        addr.do_send(AppUpdate { effects, status: None });
                    }
                    addr.do_send(AppGone(told.filter(|(of, _)| *of == app).map(|(_, state)| *state)));
                }
            }
            // The log level of this name is a setting (CFG-115).
            AppEffect::Ended { summary } => tracing::info!(target: "core.scheduler.application.usage", "{summary}"),
            effect => self.app_updates.entry(app).or_default().push((at, effect)),
        }
    }

    /// The conversation of a live application, which begins with this where it had none.
    fn app_actor(&mut self, app: &Id) -> Option<&Addr<ApplicationActor>> {
        let (sums, send) = (&self.unconfirmed, &self.send);
        self.apps.begin(app, || ApplicationActor::new(app.clone(), sums.clone(), send.clone()))
    }

    /// The same of a queue.
    fn queue_actor(&mut self, queue: &str) -> Option<&Addr<QueueActor>> {
        self.queues.begin(queue, QueueActor::default)
    }

    pub(super) fn queue(&mut self, effect: QueueEffect, waits: &mut Waits) {
        let queue = queue_of(&effect).clone();
        match effect {
            QueueEffect::Removed { .. } => {
                self.queue_updates.remove(&queue);
                if let Some(addr) = self.queues.remove(&queue) {
                    addr.do_send(QueueGone);
                }
            }
            QueueEffect::Added { .. } => {
                self.queues.insert(queue.clone());
                self.waited_for(Kind::Queue, queue, waits);
            }
            effect => self.queue_updates.entry(queue).or_default().push(effect),
        }
    }

    pub(super) fn node(&mut self, effect: NodeEffect, waits: &mut Waits) {
        let node = node_of(&effect).clone();
        match effect {
            NodeEffect::Removed { .. } => {
                if let Some(addr) = self.nodes.remove(&node) {
                    addr.do_send(NodeGone);
                }
            }
            NodeEffect::Registered { .. } => {
                let actor = NodeActor::new(node.clone(), self.silence.clone()).start();
                self.nodes.insert(node.clone(), actor);
                self.waited_for(Kind::Node, node, waits);
            }
            NodeEffect::Seen { .. } => {
                self.heard(&node, false);
            }
            _ => {}
        }
    }

    /// What is there now may have been waited for before.
    fn waited_for(&mut self, kind: Kind, name: Id, waits: &mut Waits) {
        for wait in waits.arrived(kind, &name) {
            self.pass_on(&wait.target.clone(), wait);
        }
    }

    /// Hands over what was collected.
    pub(super) fn flush(&mut self, now: Nanos) {
        for (app, effects) in std::mem::take(&mut self.app_updates) {
            // An application without an actor has nothing that could be confirmed.
            let begins = effects.iter().any(|(_, effect)| matches!(effect, AppEffect::Unconfirmed { .. }));
            let addr = if begins { self.app_actor(&app) } else { self.apps.get(&app) };
            if let Some(addr) = addr {
                addr.do_send(AppUpdate { effects, status: None });
            }
        }
        for (queue, effects) in std::mem::take(&mut self.queue_updates) {
            if let Some(addr) = self.queue_actor(&queue) {
                addr.do_send(QueueUpdate { effects, at: now, status: None });
            }
        }
    }

    /// Tells a conversation how its thing is.
    pub(super) fn tell(&mut self, target: &Target, status: Status) {
        let name = &target.name;
        match status {
            Status::App(status) => {
                let update = AppUpdate { effects: Vec::new(), status: Some(status) };
                self.app_actor(name).map(|addr| addr.do_send(update))
            }
            Status::Queue(status) => {
                let update = QueueUpdate { status: Some(status), ..QueueUpdate::default() };
                self.queue_actor(name).map(|addr| addr.do_send(update))
            }
            Status::Node(status) => self.nodes.get(name).map(|addr| addr.do_send(NodeUpdate { status })),
        };
    }

    /// Passes a message on to the conversation of a thing, where that is there.
    pub(super) fn pass_on<M>(&mut self, target: &Target, message: M)
    where
        M: Message<Result = ()> + Send + 'static,
        ApplicationActor: Handler<M>,
        QueueActor: Handler<M>,
        NodeActor: Handler<M>,
    {
        match target.kind {
            Kind::Application => self.app_actor(&target.name).map(|addr| addr.do_send(message)),
            Kind::Queue => self.queue_actor(&target.name).map(|addr| addr.do_send(message)),
            Kind::Node => self.nodes.get(&target.name).map(|addr| addr.do_send(message)),
        };
    }

    /// Which applications a queue admitted and refused; without an actor none.
    pub(super) fn admissions(&self, path: &str) -> impl Future<Output = Option<Admissions>> + use<> {
        let (asked, is_there) =
            (self.queues.get(path).map(|addr| addr.send(GetAdmissions)), self.queues.contains(path));
        async move {
            match asked {
                Some(asked) => asked.await.ok(),
                None => is_there.then(Admissions::default),
            }
        }
    }

    /// In which line releases are on their way to the shim.
    pub(super) fn carried(&self, line: &Line) {
        let Payload::Released(releases) = &line.payload else { return };
        let mut by_app: BTreeMap<&Id, Vec<_>> = BTreeMap::new();
        for release in releases.iter().filter(|release| release.confirm) {
            by_app.entry(&release.app).or_default().push((release.key.clone(), release.termination));
        }
        for (app, releases) in by_app {
            if let Some(addr) = self.apps.get(app) {
                addr.do_send(Carried { line: line.seq, releases });
            }
        }
    }

    /// What the shim has not confirmed is sent again.
    pub(super) fn resend(&self, resend: ResendUnconfirmed) {
        for addr in self.unconfirmed.waiting() {
            addr.do_send(resend);
        }
    }

    /// How long the shim may take from now on.
    pub(super) fn set_patience(&self, patience: Patience) {
        let before = self.unconfirmed.patience.replace(patience);
        if (before.resend_after, before.warn_after) != (patience.resend_after, patience.warn_after) {
            self.unconfirmed.waiting().iter().for_each(|addr| addr.do_send(LookAnew));
        }
        if self.silence.set_patience(patience.torpid_after) {
            self.judge_silence(false);
        }
    }

    /// True where the node is known.
    fn heard(&self, node: &str, heartbeat: bool) -> bool {
        let addr = self.nodes.get(node);
        if let Some(addr) = addr {
            addr.do_send(Heard { heartbeat });
        }
        addr.is_some()
    }

    fn judge_silence(&self, begins: bool) {
        for addr in self.nodes.values() {
            addr.do_send(JudgeSilence { begins });
        }
    }

    /// Signs of life of nodes. True where they are of one that is known.
    pub(super) fn signs(&self, signs: &Signs) -> bool {
        let (begins, known) = match signs {
            Signs::Vouched(vouched) => (self.silence.vouch(*vouched), false),
            Signs::Heartbeats => (self.silence.beat(), false),
            Signs::Of(nodes) => {
                let known = nodes.iter().filter(|node| self.heard(node, true)).count() > 0;
                (known && self.silence.beat(), known)
            }
        };
        if begins {
            self.judge_silence(true);
        }
        known
    }

    /// The numbers of what is not confirmed.
    pub(super) fn unconfirmed_sums(&self) -> UnconfirmedSums {
        self.unconfirmed.sums()
    }

    /// Everything that is not confirmed, the oldest first.
    pub(super) fn unconfirmed(&self) -> impl Future<Output = Vec<UnconfirmedRelease>> + use<> {
        let unconfirmed = self.unconfirmed.clone();
        async move {
            // Conversations with messages in their mailboxes have their turn first, so that those that wait are known.
            tokio::task::yield_now().await;
            let asked: Vec<_> = unconfirmed.waiting().iter().map(|addr| addr.send(GetUnconfirmed)).collect();
            let mut all: Vec<UnconfirmedRelease> =
                futures::future::join_all(asked).await.into_iter().flatten().flatten().collect();
            let place = |row: &UnconfirmedRelease| {
                let Released { app, key, termination, .. } = &row.release;
                (row.since, app.clone(), key.clone(), *termination)
            };
            all.sort_by_cached_key(place);
            all
        }
    }

    /// What all of them know, of what they were told before.
    pub(super) fn talks(&self) -> impl Future<Output = Talks> + use<> {
        use futures::future::join_all;
        let apps = self.apps.iter().map(|(id, _)| id.clone()).collect();
        let mut queues: BTreeMap<Id, Admissions> =
            self.queues.iter().map(|(id, _)| (id.clone(), Admissions::default())).collect();
        let admissions = self.queues.iter().filter_map(|(id, addr)| Some((id.clone(), addr?.send(GetAdmissions))));
        let admissions: Vec<_> = admissions.collect();
        let unconfirmed: Vec<_> = self.apps.iter().filter_map(|(_, addr)| Some(addr?.send(GetUnconfirmed))).collect();
        async move {
            let admissions =
                join_all(admissions.into_iter().map(async |(id, asked)| Some((id, asked.await.ok()?)))).await;
            queues.extend(admissions.into_iter().flatten());
            let unconfirmed = join_all(unconfirmed).await.into_iter().flatten().flatten();
            let key =
                |row: &UnconfirmedRelease| (row.release.app.clone(), row.release.key.clone(), row.release.termination);
            Talks { apps, queues, unconfirmed: unconfirmed.map(|row| (key(&row), row)).collect() }
        }
    }

    /// Goes on with what was known before.
    pub(super) fn restore<'a>(&mut self, talks: Talks, nodes: impl Iterator<Item = &'a Id>) {
        for (queue, admissions) in talks.queues {
            self.queues.insert(queue.clone());
            if admissions != Admissions::default() {
                self.queues.begin(&queue, || QueueActor::of(admissions));
            }
        }
        for node in nodes {
            self.nodes.insert(node.clone(), NodeActor::new(node.clone(), self.silence.clone()).start());
        }
        let mut rows: BTreeMap<Id, Vec<UnconfirmedRelease>> = BTreeMap::new();
        for ((app, ..), row) in talks.unconfirmed {
            rows.entry(app).or_default().push(row);
        }
        for app in talks.apps {
            self.apps.insert(app.clone());
            if let (Some(rows), Some(actor)) = (rows.remove(&app), self.app_actor(&app)) {
                actor.do_send(Unheard(rows));
            }
        }
    }

    /// Ends all conversations.
    pub(super) fn stop(&mut self) {
        for addr in self.apps.drain() {
            addr.do_send(AppGone(None));
        }
        for addr in self.queues.drain() {
            addr.do_send(QueueGone);
        }
        for (_, addr) in self.nodes.drain() {
            addr.do_send(NodeGone);
        }
    }
}
