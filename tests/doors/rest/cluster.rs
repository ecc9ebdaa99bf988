//! The cluster of the captured answers behind a real partition actor.

use std::{collections::BTreeMap, sync::Arc};

use callboard::{
    actors::directory::{Listing, PartitionEntry, RmEntry},
    config::{self, LoadedConfig},
    domain::command::Command,
    messages::partition::Commands,
};

use super::{
    scenario::{QUEUES, applications, asks, setup},
    server::Server,
};
use crate::in_process;

/// The entries of a resource manager with one partition.
pub fn manager(id: &str, shown: &str, config: LoadedConfig, extra: &[(&str, &str)]) -> (RmEntry, PartitionEntry) {
    let (partition, _) = in_process::partition(id, shown, config.partitions[0].clone());
    let build_info = [("buildVersion", "latest"), ("rmId", id)].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let extra: BTreeMap<String, String> = extra.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let rm = RmEntry {
        id: id.into(),
        build_info,
        config: Arc::new(config),
        default_config: false,
        extra: Arc::new(extra),
        at_registration: BTreeMap::new(),
    };
    (rm, partition)
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
