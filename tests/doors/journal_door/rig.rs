//! A server for tests: journals in memory, one partition, and the commands that ask it.

use std::sync::Arc;

use actix::prelude::*;
use actix_web::web::Data;
use callboard::{
    actors::{
        directory::{Directory, Listing},
        journal::Journals,
        partition::PartitionActor,
    },
    cli::{journal::JournalArgs, resource::ResourceArgs},
    config,
    domain::{
        alloc::AskSpec,
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
        effect::NodeEffect,
        hostlist::HostList,
        journal::{Fact, Settings},
        resources::Resource,
        types::Nanos,
    },
    http::{
        api::resource::{self, ResourceApi},
        route::register,
    },
    messages::{
        journal::{Begin, GetStatus, Post},
        partition::{Alive, Commands, GetSnapshot, Signs},
    },
};
use clap::Parser;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::in_process;

const INTERNAL: &str = "[rm]default";
const CONFIG: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

#[derive(Parser)]
enum Cli {
    Journal(JournalArgs),
    Resource(ResourceArgs),
}

pub struct Rig {
    server: String,
    journals: Arc<Journals>,
    partition: Addr<PartitionActor>,
}

impl Rig {
    /// A partition with these hosts, each a node of its own with 4 cores, and their journal.
    pub async fn start(hosts: &str) -> Rig {
        let conf = config::load(CONFIG).unwrap().partitions[0].clone();
        let (entry, partition) = in_process::partition("rm", "default", conf);
        let directory = Arc::new(Directory::default());
        directory.set(Listing { rms: Vec::new(), partitions: vec![entry] });
        let settings = Settings { batch: Nanos::ZERO, ..Settings::default() };
        let journals = Arc::new(Journals::new(Arbiter::current(), None, settings));
        let api = Data::new(ResourceApi {
            directory,
            topology: None,
            journals: journals.clone(),
            statuses: Default::default(),
        });
        let (address, _) = in_process::serve(move |config| register(config.app_data(api.clone()), &resource::routes()));
        let rig = Rig { server: format!("http://{address}"), journals, partition };
        rig.register(hosts).await;
        rig
    }

    /// Whether a heartbeat of these nodes is one of the partition's.
    pub async fn alive(&self, nodes: &[&str]) -> bool {
        let signs = Signs::Of(nodes.iter().map(|node| (*node).into()).collect());
        self.partition.send(Alive { epoch: 1, signs, permit: None }).await.unwrap()
    }

    async fn register(&self, hosts: &str) {
        let journal = self.journals.of(INTERNAL);
        journal.send(Begin { epoch: 1, partition: self.partition.clone().recipient(), own: None }).await.unwrap();
        let capacity = Resource::of(&[("vcore", 4000), ("memory", 1000)]);
        let hosts: Vec<Arc<str>> = HostList::parse(hosts).unwrap().iter().map(Into::into).collect();
        let items = hosts.iter().map(|host| NodeItem {
            id: host.clone(),
            action: NodeAction::Create,
            capacity: Some(capacity.clone()),
            attributes: [("si/node-partition".to_owned(), INTERNAL.to_owned())].into(),
        });
        self.command(Command::Nodes(items.collect())).await;
        let facts = hosts.iter().map(|host| {
            Fact::Node(NodeEffect::Registered {
                node: host.clone(),
                host: host.clone(),
                capacity: Arc::new(capacity.clone()),
                schedulable: true,
            })
        });
        self.facts(facts.collect()).await;
        self.settle().await;
    }

    /// Until the events of all facts are out.
    async fn settle(&self) {
        loop {
            let history = callboard::messages::journal::Attach { historical: true, follow: false };
            let attached = self.journals.of(INTERNAL).send(history).await.unwrap();
            if attached.history.iter().any(|piece| piece.event.contains("\"online\",")) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn command(&self, command: Command) {
        self.partition.send(Commands::of(1, vec![command])).await.unwrap();
    }

    pub async fn facts(&self, facts: Vec<Fact>) {
        self.journals.of(INTERNAL).send(Post { epoch: 1, facts }).await.unwrap();
        self.journals.of(INTERNAL).send(GetStatus).await.unwrap();
    }

    /// Places an allocation.
    pub async fn allocate(&self, node: &str) {
        let app = AddApplication { id: "app".into(), queue: "root.a".into(), user: "u".into(), ..Default::default() };
        self.command(Command::Applications { new: vec![app], remove: Vec::new() }).await;
        let resource = Arc::new(Resource::of(&[("vcore", 1000)]));
        let spec = Arc::new(AskSpec { key: "ask".into(), resource, ..Default::default() });
        let item = AllocationItem { app: "app".into(), node: Some(node.into()), spec };
        self.command(Command::Allocations { allocations: vec![item], releases: Vec::new() }).await;
    }

    /// Nodes that the partition holds back for an operator.
    pub async fn held(&self) -> Vec<String> {
        let snapshot = self.partition.send(GetSnapshot).await.unwrap();
        let nodes = snapshot.partition.nodes.values().filter(|node| node.operator_drained);
        let mut held: Vec<String> = nodes.map(|node| node.id().to_string()).collect();
        held.sort();
        held
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1/partition/default/{path}", self.server)
    }

    pub async fn get(&self, path: &str) -> reqwest::Response {
        reqwest::get(self.url(path)).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = reqwest::Client::new().post(self.url(path)).json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub async fn status(&self) -> Value {
        self.get("resource/status").await.json().await.unwrap()
    }

    /// Runs a command. Gives its status, output and errors.
    pub async fn run(&self, args: &[&str]) -> (u8, String, String) {
        let mut all = vec!["callboard", args[0], "--server", &self.server];
        all.extend(&args[1..]);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = match Cli::try_parse_from(all) {
            Ok(Cli::Journal(args)) => {
                callboard::cli::journal::run_with(args, false, TimeZone::UTC, &mut out, &mut err).await
            }
            Ok(Cli::Resource(args)) => {
                callboard::cli::resource::run_with(args, TimeZone::UTC, &mut out, &mut err).await
            }
            Err(error) => panic!("{args:?}: {error}"),
        };
        (status, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }
}
