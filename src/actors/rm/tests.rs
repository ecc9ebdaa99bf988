//! One resource manager with fake partitions, on a paused clock.

mod lead;
mod life;
mod log;
mod predicates;
mod registration;
mod shared;
mod streams;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use actix::prelude::*;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{RmActor, handle::RmHandle, reconfigure::Reconfigure, settings::RmSettings};
use crate::{
    actors::{
        event::EventActor,
        partition::PartitionActor,
        topology::{PartitionHandle, Refusals, Registration, Sender, Topology},
    },
    config,
    domain::{
        Partition,
        command::Command,
        conf::PartitionConf,
        effect::{Callback, Question, QuestionKind, TurnEffect},
        types::{Nanos, QueueIx},
    },
    messages::{
        application::ResendUnconfirmed,
        budget::Budget,
        clock::Clock,
        event::Publish,
        journal::Standing,
        partition::{
            Alive, Carries, Commands, Configure, GetSnapshot, PartitionSetup, Patience, Signs, Snapshot, StopPartition,
            Wake,
        },
        progress::Progress,
        rm::{
            Attach, Attached, Closing, Deliver, Handed, Info, Line, Outgoing, Predicates, Refusal, RmInfo, RmState,
            ToStream, Want,
        },
    },
};

/// A partition that does nothing but tell what it was told.
struct Fake {
    name: Arc<str>,
    epoch: u64,
    log: Log,
    conf: Arc<PartitionConf>,
    broken: Arc<Mutex<String>>,
    stands: Stands,
}

/// What operators told partitions, by their internal names.
type Stands = Arc<Mutex<BTreeMap<Arc<str>, Standing>>>;

/// What a fake tells when all its nodes are vouched for, or no longer.
const VOUCHED: &str = "vouched";

type Log = Arc<Mutex<Vec<String>>>;

/// Takes what partitions send, and forgets it.
struct Sink;

impl Actor for Fake {
    type Context = Context<Self>;
}

impl Actor for Sink {
    type Context = Context<Self>;
}

impl Fake {
    fn tell(&self, what: impl std::fmt::Display) {
        self.log.lock().expect("no panic").push(format!("{}#{} {what}", self.name, self.epoch));
    }
}

impl Handler<Commands> for Fake {
    type Result = ();

    fn handle(&mut self, msg: Commands, _ctx: &mut Self::Context) {
        for command in msg.commands {
            match command {
                Command::Predicate(answer) => {
                    self.tell(format!("answer {} {:?} {}", answer.question, answer.result, answer.index));
                }
                Command::Unanswered(question) => self.tell(format!("unanswered {question}")),
                Command::AskPredicates(on) => self.tell(format!("ask {on}")),
                Command::Nodes(nodes) => self.tell(format!("nodes {}", nodes.len())),
                other => self.tell(format!("{other:?}")),
            }
        }
    }
}

impl Handler<Wake> for Fake {
    type Result = ();

    fn handle(&mut self, _msg: Wake, _ctx: &mut Self::Context) {
        self.tell("wake");
    }
}

impl Handler<StopPartition> for Fake {
    type Result = Standing;

    fn handle(&mut self, _msg: StopPartition, ctx: &mut Self::Context) -> Standing {
        self.tell("stop");
        ctx.stop();
        self.stands.lock().expect("no panic").get(&self.name).cloned().unwrap_or_default()
    }
}

impl Handler<GetSnapshot> for Fake {
    type Result = Arc<Snapshot>;

    fn handle(&mut self, _msg: GetSnapshot, _ctx: &mut Self::Context) -> Self::Result {
        self.tell("snapshot");
        let (name, conf) = (self.name.clone(), self.conf.clone());
        let mut partition = Partition::new("rm".into(), name, conf, Nanos::ZERO, &mut Vec::new());
        if *self.broken.lock().expect("no panic") == *self.name {
            // A queue whose row is not there: who walks the tree breaks down.
            partition.queues[QueueIx(0)].children.insert("ghost".into(), QueueIx(99));
        }
        Arc::new(Snapshot { epoch: self.epoch, partition })
    }
}

impl Handler<Configure> for Fake {
    type Result = ();

    fn handle(&mut self, msg: Configure, _ctx: &mut Self::Context) {
        self.tell(format!("configure {}", msg.0.preemption));
    }
}

impl Handler<Patience> for Fake {
    type Result = ();

    fn handle(&mut self, patience: Patience, _ctx: &mut Self::Context) {
        if patience != Patience::default() {
            self.tell(format!("patience {:?} {:?}", patience.resend_after, patience.warn_after));
        }
    }
}

impl Handler<Carries> for Fake {
    type Result = ();

    fn handle(&mut self, msg: Carries, _ctx: &mut Self::Context) {
        self.tell(format!("line {} carries {}", msg.0.seq, msg.0.payload.entries()));
    }
}

/// How often a line was looked at.
#[derive(Message)]
#[rtype(result = "u64")]
struct Looks;

impl Handler<Looks> for RmActor {
    type Result = u64;

    fn handle(&mut self, _msg: Looks, _ctx: &mut Self::Context) -> u64 {
        self.session.as_ref().map_or(0, |session| session.buffer.looks())
    }
}

impl Handler<ResendUnconfirmed> for Fake {
    type Result = ();

    fn handle(&mut self, msg: ResendUnconfirmed, _ctx: &mut Self::Context) {
        self.tell(format!("resend after {}", msg.after));
    }
}

impl Handler<Alive> for Fake {
    type Result = bool;

    fn handle(&mut self, msg: Alive, _ctx: &mut Self::Context) -> bool {
        match msg.signs {
            Signs::Of(nodes) => {
                self.tell(format!("alive {}", nodes.join(",")));
                return nodes.iter().any(|node| &**node != "unknown");
            }
            Signs::Vouched(vouched) => self.tell(format!("{VOUCHED} {vouched}")),
            Signs::Heartbeats => self.tell(format!("{VOUCHED} by heartbeats")),
        }
        false
    }
}

impl Handler<Deliver> for Sink {
    type Result = ();

    fn handle(&mut self, _msg: Deliver, _ctx: &mut Self::Context) {}
}

impl Handler<Publish> for Sink {
    type Result = ();

    fn handle(&mut self, _msg: Publish, _ctx: &mut Self::Context) {}
}

/// A topology with fake partitions.
struct Env {
    topology: Arc<Topology>,
    log: Log,
    /// `[rm-1]x`: on whose clone nothing can be tried.
    broken: Arc<Mutex<String>>,
    /// Of the newest partition.
    budget: Arc<Mutex<Option<Arc<Budget>>>>,
    /// Of the newest partition.
    clock: Arc<Mutex<Clock>>,
    stands: Stands,
    /// What each partition began with, where it was said.
    begun: Arc<Mutex<Vec<Option<Standing>>>>,
}

impl Env {
    fn new() -> Env {
        tokio::time::pause();
        let log = Log::default();
        let broken = Arc::new(Mutex::new(String::new()));
        let budget = Arc::new(Mutex::new(None));
        let clock = Arc::new(Mutex::new(Clock::default()));
        let (stands, begun) = (Stands::default(), Arc::new(Mutex::new(Vec::new())));
        let launcher = {
            let (log, broken, budget, clock) = (log.clone(), broken.clone(), budget.clone(), clock.clone());
            let (stands, begun) = (stands.clone(), begun.clone());
            move |_: &ArbiterHandle, setup: PartitionSetup| {
                let name = setup.internal.clone();
                let began = setup.recorded.as_ref().and_then(|recorded| recorded.standing.clone());
                begun.lock().expect("no panic").push(began);
                *budget.lock().expect("no panic") = Some(setup.budget.clone());
                *clock.lock().expect("no panic") = setup.clock;
                log.lock().expect("no panic").push(format!("{name}#{} start", setup.epoch));
                let (internal, conf) = (setup.internal.clone(), setup.conf.clone());
                let (log, broken, stands) = (log.clone(), broken.clone(), stands.clone());
                let fake = Fake { name, epoch: setup.epoch, log, conf: conf.clone(), broken, stands }.start();
                let sink = Sink.start();
                let setup = PartitionSetup {
                    budget: Budget::new(1, 1),
                    callbacks: sink.clone().recipient(),
                    events: sink.recipient().into(),
                    ..setup
                };
                PartitionHandle {
                    internal,
                    number: 0,
                    conf,
                    // For the directory only.
                    addr: PartitionActor::start_here(setup),
                    commands: fake.clone().recipient(),
                    wake: fake.clone().recipient(),
                    stop: fake.clone().recipient(),
                    snapshot: fake.clone().recipient(),
                    configure: fake.clone().recipient(),
                    patience: fake.clone().recipient(),
                    carries: fake.clone().recipient(),
                    resend: fake.clone().recipient(),
                    alive: fake.recipient(),
                    journal: None,
                }
            }
        };
        let here = Arbiter::current();
        let events = EventActor::default().start();
        let default = config::load("").expect("valid");
        let topology = Topology::new(vec![here], Arc::new(launcher), events, default);
        Env { topology, log, broken, budget, clock, stands, begun }
    }

    /// With `rm-1` registered.
    async fn registered(extra: &[(&str, &str)]) -> Env {
        let env = Env::new();
        env.register("rm-1", extra).await;
        env
    }

    async fn register(&self, rm: &str, extra: &[(&str, &str)]) -> u64 {
        self.try_register(Registration { rm: rm.into(), extra: map(extra), ..Default::default() }).await.expect("taken")
    }

    async fn try_register(&self, registration: Registration) -> Result<u64, Refusals> {
        self.topology.register(registration).await.map(|registered| registered.epoch)
    }

    async fn reconfigure(&self, text: &str, extra: Option<(Arc<BTreeMap<String, String>>, RmSettings)>) {
        let reconfigure = Reconfigure {
            config: Arc::new(config::load(text).expect("valid")),
            default_config: false,
            shared: false,
            only_default: false,
            only_shared: false,
            policy_group: "".into(),
            extra,
            tenant: false,
            epoch: None,
        };
        self.rm().addr.send(reconfigure).await.expect("alive").expect("taken");
    }

    fn rm(&self) -> Arc<RmHandle> {
        self.topology.find("rm-1").expect("known")
    }

    async fn info(&self) -> RmInfo {
        self.rm().addr.send(Info).await.expect("alive")
    }

    async fn state(&self) -> RmState {
        self.info().await.state
    }

    /// A partition delivers.
    async fn deliver(&self, items: Vec<Outgoing>) {
        self.deliver_of(self.info().await.epoch, items).await;
    }

    async fn deliver_of(&self, epoch: u64, items: Vec<Outgoing>) {
        if let Some(budget) = &*self.budget.lock().expect("no panic") {
            budget.made(items.len(), 0);
        }
        let deliver = Deliver {
            epoch,
            partition: "[rm-1]default".into(),
            items,
            turns: Vec::new(),
            entry: None,
            traced: Vec::new(),
            weight: 0,
        };
        self.rm().addr.send(deliver).await.expect("alive");
    }

    /// A partition says something about turns.
    async fn say(&self, partition: &str, turns: &[TurnEffect]) {
        let (epoch, turns) = (self.info().await.epoch, turns.to_vec());
        let deliver = Deliver {
            epoch,
            partition: partition.into(),
            items: Vec::new(),
            turns,
            entry: None,
            traced: Vec::new(),
            weight: 0,
        };
        self.rm().addr.send(deliver).await.expect("alive");
        self.settle().await;
    }

    /// One line of `n` accepted nodes.
    async fn nodes(&self, n: usize) {
        self.deliver((0..n).map(node).collect()).await;
    }

    async fn open(&self, want: Want) -> Result<Reader, Refusal> {
        self.open_as("http", want).await
    }

    async fn open_as(&self, door: &'static str, want: Want) -> Result<Reader, Refusal> {
        let (to, messages) = unbounded_channel();
        let rm = self.topology.find_or_create("rm-1")?;
        let progress = Arc::<Progress>::default();
        let attach = Attach { door, want, to, progress: progress.clone() };
        let attached = rm.addr.send(attach).await.expect("alive")?;
        Ok(Reader { rm, _attached: attached, messages, progress })
    }

    async fn stream(&self, after: u64) -> Reader {
        self.open(Want::All { after: Some(after), predicates: None }).await.expect("opened")
    }

    /// What the partitions were told since the last time.
    fn told(&self) -> Vec<String> {
        self.split_log().0
    }

    /// Which partitions heard whether their nodes are vouched for, since this or [`Env::told`] was asked.
    fn vouched(&self) -> Vec<String> {
        self.split_log().1
    }

    fn split_log(&self) -> (Vec<String>, Vec<String>) {
        let log = std::mem::take(&mut *self.log.lock().expect("no panic"));
        log.into_iter().partition(|line| !line.contains(VOUCHED))
    }

    /// Lets everything happen that can.
    async fn settle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.settle().await;
    }

    fn may_place(&self) -> bool {
        self.budget.lock().expect("no panic").as_ref().is_some_and(|budget| budget.may_place())
    }
}

struct Reader {
    rm: Arc<RmHandle>,
    /// Open as long as it is.
    _attached: Attached,
    messages: UnboundedReceiver<ToStream>,
    progress: Arc<Progress>,
}

impl Reader {
    /// Numbers of the lines that came.
    fn seqs(&mut self) -> Vec<u64> {
        self.lines().iter().map(|line| line.seq).collect()
    }

    fn lines(&mut self) -> Vec<Arc<Line>> {
        let mut lines = Vec::new();
        while let Ok(message) = self.messages.try_recv() {
            match message {
                ToStream::Lines(more) => lines.extend(more),
                other => panic!("{other:?}"),
            }
        }
        lines
    }

    fn closing(&mut self) -> Option<Closing> {
        while let Ok(message) = self.messages.try_recv() {
            if let ToStream::Close(closing) = message {
                return Some(closing);
            }
        }
        None
    }

    async fn handed(&self, seq: u64) {
        if self.progress.hand(seq) {
            self.rm.addr.send(Handed).await.expect("alive");
        }
    }

    async fn lose(self) {
        let rm = self.rm.clone();
        drop(self);
        // After the message that it was closed, with which it may end.
        let _ = rm.addr.send(Info).await;
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn node(n: usize) -> Outgoing {
    Outgoing::Callback(Callback::AcceptedNode(format!("n{n}").into()))
}

fn app(id: &str) -> Outgoing {
    Outgoing::Callback(Callback::AcceptedApplication(id.into()))
}

fn question(id: u64, key: &str, node: &str) -> Outgoing {
    let kind = QuestionKind::Fits { allocate: true };
    Outgoing::Ask(Question { id, key: key.into(), node: node.into(), more: Vec::new(), kind, together: true })
}

/// A topology for tests of its parts.
pub fn topology() -> Arc<Topology> {
    Env::new().topology
}

fn with(predicates: Predicates) -> Registration {
    Registration { rm: "rm-1".into(), predicates, ..Default::default() }
}
