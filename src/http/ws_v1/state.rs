//! What the handlers read.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use futures::future::join_all;
use tokio::sync::Mutex;

use super::{health::Health, history::History, reply::Failure};
use crate::{
    actors::{
        directory::{Listing, PartitionEntry},
        topology::Topology,
    },
    config::extra::Settings,
    domain::{Partition, types::Nanos},
    messages::partition::{GetSnapshot, Snapshot},
    metrics::Metrics,
};

/// Shared by all HTTP workers.
pub struct RestState {
    /// Resource managers, partitions and process-wide settings.
    pub topology: Arc<Topology>,
    /// When the server started.
    pub started: Nanos,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Samples.
    pub history: History,
    /// The last health check.
    pub health: Health,
    /// State dumps are made one at a time (OPS-020).
    pub dumping: Arc<Mutex<()>>,
}

impl RestState {
    /// The state of a server that starts now.
    pub fn new(topology: Arc<Topology>, metrics: Arc<Metrics>) -> RestState {
        RestState {
            topology,
            started: now(),
            metrics,
            history: History::default(),
            health: Health::default(),
            dumping: Arc::default(),
        }
    }

    /// The present resource managers and partitions.
    pub fn listing(&self) -> Arc<Listing> {
        self.topology.directory.get()
    }

    /// The settings that hold for the process.
    pub fn settings(&self) -> Settings {
        Settings::read(&self.topology.process.get())
    }

    /// A partition by the name that is shown or by its internal one.
    pub async fn view(&self, name: &str) -> Result<View, Failure> {
        let listing = self.listing();
        let entry = listing.partition(name).ok_or_else(no_partition)?;
        take(entry).await.ok_or_else(no_partition)
    }

    /// All partitions in the order of the directory; one that just stopped is left out.
    pub async fn views(&self) -> Vec<View> {
        let listing = self.listing();
        join_all(listing.partitions.iter().map(take)).await.into_iter().flatten().collect()
    }
}

fn no_partition() -> Failure {
    Failure::not_found("Partition not found")
}

/// `None` where the partition has just stopped.
async fn take(entry: &PartitionEntry) -> Option<View> {
    let snapshot = entry.addr.send(GetSnapshot).await.ok()?;
    Some(View { rm: entry.rm.clone(), shown: entry.shown.clone(), snapshot })
}

/// A picture of a partition.
#[derive(Clone)]
pub struct View {
    /// Its resource manager.
    pub rm: Arc<str>,
    /// The name that is shown.
    pub shown: Arc<str>,
    /// The picture.
    pub snapshot: Arc<Snapshot>,
}

impl View {
    /// The rows.
    pub fn partition(&self) -> &Partition {
        &self.snapshot.partition
    }
}

/// The present time.
pub fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
