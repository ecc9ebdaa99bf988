//! A partition with its conversations on tokio's paused clock, and a shim that writes down what it is told.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use actix::prelude::*;
use callboard::{
    actors::partition::PartitionActor,
    config,
    domain::{
        alloc::{AskSpec, PreemptionPolicy},
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, PredicateAnswer, ReleaseItem},
        effect::{Callback, Question, Released},
        resources::Resource,
        types::{Nanos, Termination},
    },
    messages::{
        application::{GetUnconfirmed, UnconfirmedRelease},
        budget::Budget,
        clock::Clock,
        event::Publish,
        partition::{Carries, Commands, GetSnapshot, PartitionSetup, Patience, Snapshot},
        rm::{Deliver, Line, Outgoing, Payload},
    },
};

/// Queue a for gangs, and b that may preempt for what it is guaranteed.
const QUEUES: &str = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: a
          - name: b
            resources: {guaranteed: {memory: 10}}
            properties: {preemption.delay: 1s}
";

/// Records what comes out.
struct Recorder {
    told: Arc<Mutex<Vec<String>>>,
    questions: Arc<Mutex<Vec<Question>>>,
}

impl Actor for Recorder {
    type Context = Context<Self>;
}

impl Handler<Deliver> for Recorder {
    type Result = ();

    fn handle(&mut self, msg: Deliver, _ctx: &mut Self::Context) {
        let mut told = self.told.lock().unwrap();
        for item in msg.items {
            let callback = match item {
                Outgoing::Callback(callback) => callback,
                Outgoing::Ask(question) => {
                    self.questions.lock().unwrap().push(question);
                    continue;
                }
            };
            told.push(match callback {
                Callback::New(new) => format!("new {} on {}", new.spec.key, new.node),
                Callback::Released(released) => format!("released {} {:?}", released.key, released.termination),
                Callback::UpdatedApplication { app, state, .. } => format!("{app} {state}"),
                Callback::RejectedAllocation { key, .. } => format!("rejected {key}"),
                _ => continue,
            });
        }
    }
}

impl Handler<Publish> for Recorder {
    type Result = ();

    fn handle(&mut self, _msg: Publish, _ctx: &mut Self::Context) {}
}

/// See the module.
pub struct Shim {
    pub partition: Addr<PartitionActor>,
    pub epoch: u64,
    told: Arc<Mutex<Vec<String>>>,
    questions: Arc<Mutex<Vec<Question>>>,
}

pub fn res(size: i64) -> Resource {
    Resource::of(&[("memory", size), ("vcore", size)])
}

pub fn node(id: &str, action: NodeAction, size: i64) -> Command {
    let item = NodeItem { id: id.into(), action, capacity: Some(res(size)), attributes: Default::default() };
    Command::Nodes(vec![item])
}

pub fn ask(key: &str, size: i64, group: &str, placeholder: bool) -> Command {
    let spec = AskSpec {
        key: key.into(),
        resource: Arc::new(res(size)),
        task_group: group.into(),
        placeholder,
        ..AskSpec::default()
    };
    let item = AllocationItem { app: "app-1".into(), node: None, spec: Arc::new(spec) };
    Command::Allocations { allocations: vec![item], releases: Vec::new() }
}

/// An ask that requires n1, and preempts what is in its way (R7.33).
pub fn daemon(key: &str, size: i64) -> Command {
    let spec = AskSpec {
        key: key.into(),
        resource: Arc::new(res(size)),
        required_node: Some("n1".into()),
        ..AskSpec::default()
    };
    let item = AllocationItem { app: "app-1".into(), node: None, spec: Arc::new(spec) };
    Command::Allocations { allocations: vec![item], releases: Vec::new() }
}

/// Application app-2 in the queue that has a guarantee, and an ask of it that has waited long enough to preempt (R7.4).
pub fn preemptor(size: i64) -> Vec<Command> {
    let app = AddApplication {
        id: "app-2".into(),
        queue: "root.b".into(),
        user: "bob".into(),
        groups: Some(Arc::from([])),
        ..AddApplication::default()
    };
    let spec = AskSpec {
        key: "k1".into(),
        resource: Arc::new(res(size)),
        created: Some(Nanos::ZERO),
        preemption: Some(PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true }),
        ..AskSpec::default()
    };
    let item = AllocationItem { app: "app-2".into(), node: None, spec: Arc::new(spec) };
    vec![
        Command::Applications { new: vec![app], remove: Vec::new() },
        Command::Allocations { allocations: vec![item], releases: Vec::new() },
    ]
}

pub fn release(key: &str, termination: Termination) -> Command {
    let item = ReleaseItem { app: "app-1".into(), key: key.into(), termination };
    Command::Allocations { allocations: Vec::new(), releases: vec![item] }
}

pub fn remove() -> Command {
    Command::Applications { new: Vec::new(), remove: vec!["app-1".into()] }
}

fn gang(size: i64, style: &str) -> Command {
    let app = AddApplication {
        id: "app-1".into(),
        queue: "root.a".into(),
        user: "alice".into(),
        groups: Some(Arc::from([])),
        placeholder_ask: Some(res(size)),
        gang_style: style.into(),
        timeout_millis: 60_000,
        ..AddApplication::default()
    };
    Command::Applications { new: vec![app], remove: Vec::new() }
}

impl Shim {
    /// With a partition that sends nothing again while the test lasts.
    pub fn new() -> Shim {
        Shim::with(Patience { resend_after: Duration::from_secs(86_400), ..Patience::default() })
    }

    pub fn with(patience: Patience) -> Shim {
        Shim::of(QUEUES, patience)
    }

    /// With the queues of this configuration.
    pub fn of(config: &str, patience: Patience) -> Shim {
        tokio::time::pause();
        let (told, questions) = (Arc::default(), Arc::default());
        let recorder = Recorder { told: Arc::clone(&told), questions: Arc::clone(&questions) }.start();
        let setup = PartitionSetup {
            clock: Clock::default(),
            rm: "rm-1".into(),
            epoch: 1,
            internal: "[rm-1]default".into(),
            conf: config::load(config).unwrap().partitions[0].clone(),
            budget: Budget::new(1 << 20, 1 << 20),
            patience,
            callbacks: recorder.clone().recipient(),
            events: recorder.recipient().into(),
            recorded: None,
        };
        Shim { partition: PartitionActor::start_here(setup), epoch: 1, told, questions }
    }

    /// Two placeholders on n1, and the replacement of the first by r1 in flight.
    pub async fn in_flight(style: &str) -> Shim {
        Shim::of_announced(20, style).await
    }

    /// The same of a gang that announced so much. With more than 20 it stays Accepted: a third placeholder is never asked for.
    pub async fn of_announced(size: i64, style: &str) -> Shim {
        Shim::new().begin(size, style).await
    }

    /// The same, of a new one.
    pub async fn begin(self, size: i64, style: &str) -> Shim {
        let shim = self;
        shim.send(vec![
            node("n1", NodeAction::Create, 20),
            gang(size, style),
            ask("ph1", 10, "tg", true),
            ask("ph2", 10, "tg", true),
        ])
        .await;
        shim.send(vec![ask("r1", 10, "tg", false)]).await;
        assert_eq!(shim.heard().last().map(String::as_str), Some("released ph1 PlaceholderReplaced"));
        shim
    }

    /// Two placeholders on n1, and the replacement of the first by r1 in flight, which is to go to n2.
    pub async fn elsewhere() -> Shim {
        let shim = Shim::new();
        shim.send(vec![
            node("n1", NodeAction::Create, 20),
            gang(20, "Soft"),
            ask("ph1", 10, "tg", true),
            ask("ph2", 10, "tg", true),
        ])
        .await;
        shim.send(vec![node("n2", NodeAction::Create, 20), Command::AskPredicates(true)]).await;
        shim.send(vec![ask("r1", 10, "tg", false)]).await;
        shim.answer().await;
        assert_eq!(shim.heard().last().map(String::as_str), Some("released ph1 PlaceholderReplaced"));
        let snapshot = shim.snapshot().await;
        let p = &snapshot.partition;
        assert_eq!(p.nodes[p.node_by_id["n2"]].allocs.len(), 1, "r1 occupies n2 at once (R6.10)");
        shim
    }

    /// Answers questions until there is none: r1 may not go to n1, all else may.
    pub async fn answer(&self) {
        loop {
            let questions = std::mem::take(&mut *self.questions.lock().unwrap());
            if questions.is_empty() {
                return;
            }
            let answer = |question: &Question| {
                let refused = &*question.key == "r1" && &*question.node == "n1";
                let result = if refused { Err("taint".into()) } else { Ok(()) };
                Command::Predicate(PredicateAnswer { question: question.id, result, index: 0, refused: Vec::new() })
            };
            self.send(questions.iter().map(answer).collect()).await;
        }
    }

    /// A request that is applied when so much time has passed, before anything else that falls due then.
    pub async fn send_after(&self, seconds: u64, commands: Vec<Command>) {
        self.partition.do_send(Commands::of(self.epoch, commands));
        tokio::time::advance(Duration::from_secs(seconds)).await;
        self.settle().await;
    }

    /// One request, and everything that follows from it.
    pub async fn send(&self, commands: Vec<Command>) {
        self.partition.do_send(Commands::of(self.epoch, commands));
        self.settle().await;
    }

    /// The shim gets this line, in which it is asked to release a placeholder.
    pub fn carried(&self, line: u64, key: &str) {
        let release = Released {
            key: key.into(),
            app: "app-1".into(),
            termination: Termination::PlaceholderReplaced,
            message: "".into(),
            confirm: true,
        };
        let payload = Payload::Released(vec![Box::new(release)]);
        self.partition.do_send(Carries(Arc::new(Line { seq: line, partition: "[rm-1]default".into(), payload })));
    }

    pub async fn settle(&self) {
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
    }

    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.settle().await;
    }

    /// What was told since the last call.
    pub fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    pub async fn unconfirmed(&self) -> Vec<UnconfirmedRelease> {
        self.partition.send(GetUnconfirmed).await.unwrap()
    }

    pub async fn waiting(&self) -> Vec<String> {
        let all = self.unconfirmed().await;
        all.iter().map(|row| format!("{} {:?}", row.release.key, row.release.termination)).collect()
    }

    pub async fn snapshot(&self) -> Arc<Snapshot> {
        self.partition.send(GetSnapshot).await.unwrap()
    }

    /// The applications go, and nothing is charged to anybody.
    pub async fn ends_empty(&self) {
        self.answer().await;
        self.send(vec![Command::Applications { new: Vec::new(), remove: vec!["app-1".into(), "app-2".into()] }]).await;
        let snapshot = self.snapshot().await;
        let p = &snapshot.partition;
        assert!(p.audit().is_empty(), "{:#?}", p.audit());
        assert_eq!((p.allocations, p.placeholders, p.reservations), (0, 0, 0));
        assert!(p.nodes.values().all(|node| node.allocated().is_zero()));
        assert_eq!(p.ugm.users().count(), 0);
        assert!(self.waiting().await.is_empty());
    }
}
