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
        alloc::AskSpec,
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
        effect::Callback,
        resources::Resource,
        types::Termination,
    },
    messages::{
        application::UnconfirmedRelease,
        budget::Budget,
        event::Publish,
        partition::{Commands, GetSnapshot, ListUnconfirmed, PartitionSetup, Snapshot},
        rm::{Deliver, Outgoing},
    },
};

const QUEUES: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: \"*\"\n        queues:\n          - name: a\n";

/// Records what comes out.
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Actor for Recorder {
    type Context = Context<Self>;
}

impl Handler<Deliver> for Recorder {
    type Result = ();

    fn handle(&mut self, msg: Deliver, _ctx: &mut Self::Context) {
        let mut told = self.0.lock().unwrap();
        for item in msg.items {
            let Outgoing::Callback(callback) = item else { continue };
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

pub fn release(key: &str, termination: Termination) -> Command {
    let item = ReleaseItem { app: "app-1".into(), key: key.into(), termination };
    Command::Allocations { allocations: Vec::new(), releases: vec![item] }
}

pub fn remove() -> Command {
    Command::Applications { new: Vec::new(), remove: vec!["app-1".into()] }
}

impl Shim {
    pub fn new() -> Shim {
        tokio::time::pause();
        let told = Arc::default();
        let recorder = Recorder(Arc::clone(&told)).start();
        let setup = PartitionSetup {
            rm: "rm-1".into(),
            epoch: 1,
            internal: "[rm-1]default".into(),
            conf: config::load(QUEUES).unwrap().partitions[0].clone(),
            budget: Budget::new(1 << 20, 1 << 20),
            callbacks: recorder.clone().recipient(),
            events: recorder.recipient(),
        };
        Shim { partition: PartitionActor::start_here(setup), epoch: 1, told }
    }

    /// Two placeholders on n1, and the replacement of the first by r1 in flight.
    pub async fn in_flight(style: &str) -> Shim {
        let shim = Shim::new();
        let app = AddApplication {
            id: "app-1".into(),
            queue: "root.a".into(),
            user: "alice".into(),
            groups: Some(Arc::from([])),
            placeholder_ask: Some(res(20)),
            gang_style: style.into(),
            timeout_millis: 60_000,
            ..AddApplication::default()
        };
        shim.send(vec![
            node("n1", NodeAction::Create, 20),
            Command::Applications { new: vec![app], remove: Vec::new() },
            ask("ph1", 10, "tg", true),
            ask("ph2", 10, "tg", true),
        ])
        .await;
        shim.send(vec![ask("r1", 10, "tg", false)]).await;
        assert_eq!(shim.heard().last().map(String::as_str), Some("released ph1 PlaceholderReplaced"));
        shim
    }

    /// One request, and everything that follows from it.
    pub async fn send(&self, commands: Vec<Command>) {
        self.partition.do_send(Commands { epoch: self.epoch, commands, permit: None });
        self.settle().await;
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
        self.partition.send(ListUnconfirmed).await.unwrap()
    }

    pub async fn waiting(&self) -> Vec<String> {
        let all = self.unconfirmed().await;
        all.iter().map(|row| format!("{} {:?}", row.release.key, row.release.termination)).collect()
    }

    pub async fn snapshot(&self) -> Arc<Snapshot> {
        self.partition.send(GetSnapshot).await.unwrap()
    }

    /// The application goes, and nothing is charged to anybody.
    pub async fn ends_empty(&self) {
        self.send(vec![remove()]).await;
        let snapshot = self.snapshot().await;
        let p = &snapshot.partition;
        assert!(p.audit().is_empty(), "{:#?}", p.audit());
        assert_eq!((p.allocations, p.placeholders, p.reservations), (0, 0, 0));
        assert!(p.nodes.iter().filter(|node| !node.free).all(|node| node.allocated.is_zero()));
        assert_eq!(p.ugm.users().count(), 0);
        assert!(self.waiting().await.is_empty());
    }
}
