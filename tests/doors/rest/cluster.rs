//! The cluster of the captured answers behind a real partition actor.

use std::{collections::BTreeMap, sync::Arc};

use actix::prelude::*;
use callboard::{
    actors::{
        directory::{Asked, Listing, PartitionEntry, RmEntry},
        partition::PartitionActor,
    },
    config::{self, LoadedConfig},
    domain::command::Command,
    messages::{
        budget::Budget,
        clock::Clock,
        event::Publish,
        partition::{Commands, PartitionSetup},
        rm::Deliver,
    },
};

use super::{
    scenario::{QUEUES, applications, asks, setup},
    server::Server,
};

/// Takes what a resource manager would be sent.
struct Nobody;

impl Actor for Nobody {
    type Context = Context<Self>;
}

impl Handler<Deliver> for Nobody {
    type Result = ();

    fn handle(&mut self, _: Deliver, _: &mut Self::Context) {}
}

impl Handler<Publish> for Nobody {
    type Result = ();

    fn handle(&mut self, _: Publish, _: &mut Self::Context) {}
}

/// The entries of a resource manager with one partition.
pub fn manager(id: &str, shown: &str, config: LoadedConfig, extra: &[(&str, &str)]) -> (RmEntry, PartitionEntry) {
    let nobody = Nobody.start();
    let internal: Arc<str> = format!("[{id}]default").into();
    let addr = PartitionActor::start_here(PartitionSetup {
        clock: Clock::default(),
        rm: id.into(),
        epoch: 1,
        internal: internal.clone(),
        conf: config.partitions[0].clone(),
        budget: Budget::new(1_000_000, 1_000_000),
        patience: Default::default(),
        callbacks: nobody.clone().recipient(),
        events: nobody.recipient().into(),
        recorded: None,
    });
    let build_info = [("buildVersion", "latest"), ("rmId", id)].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let extra: BTreeMap<String, String> = extra.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let rm = RmEntry {
        id: id.into(),
        epoch: 1,
        build_info,
        config: Arc::new(config),
        default_config: false,
        extra: Arc::new(extra),
        at_registration: BTreeMap::new(),
    };
    (
        rm,
        PartitionEntry { rm: id.into(), internal, shown: shown.into(), addr: Asked::new(shown, addr), followed: false },
    )
}

/// A server over the captured cluster, with everything placed.
pub async fn start() -> Server {
    let config = config::load(QUEUES).unwrap();
    let extra = [("event.maxStreams", "3"), ("event.maxStreamsPerHost", "2"), ("health.checkInterval", "5s")];
    let (rm, partition) = manager("mycluster", "default", config, &extra);
    let mut commands = setup();
    commands.push(Command::Applications { new: applications(), remove: vec![] });
    commands.push(Command::Allocations { allocations: asks(), releases: vec![] });
    partition.addr.send(Commands::of(1, commands)).await.unwrap();
    let server = Server::start(Listing { rms: vec![rm], partitions: vec![partition] });
    // Eight fit; the two of `app-pending` do not.
    while server.state.view("default").await.unwrap_or_else(|e| panic!("{e:?}")).partition().allocations < 8 {}
    server
}
