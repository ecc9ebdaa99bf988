//! What readers look up: every registered resource manager and every partition. Replaced as a whole at each change.

use std::{collections::BTreeMap, sync::Arc};

use actix::Addr;
use arc_swap::ArcSwap;

use super::partition::PartitionActor;
use crate::{config::LoadedConfig, domain::types::Nanos};

/// Shared by doors and actors.
#[derive(Default)]
pub struct Directory(ArcSwap<Listing>);

/// One state of the directory.
#[derive(Clone, Default)]
pub struct Listing {
    /// Resource managers in the order of their first registration, Stopped ones left out.
    pub rms: Vec<RmEntry>,
    /// Their partitions, in the same order and within one in that of its configuration.
    pub partitions: Vec<PartitionEntry>,
}

/// A registered resource manager.
#[derive(Clone)]
pub struct RmEntry {
    /// Its id.
    pub id: Arc<str>,
    /// Number of the session, counted up with each registration.
    pub epoch: u64,
    /// When that session began.
    pub registered: Nanos,
    /// Build information as given, plus `rmId` (R1.9).
    pub build_info: BTreeMap<String, String>,
    /// Policy group as given.
    pub policy_group: Arc<str>,
    /// Configuration in force.
    pub config: Arc<LoadedConfig>,
    /// It is the server's own, and follows it.
    pub default_config: bool,
    /// Extra configuration in force.
    pub extra: Arc<BTreeMap<String, String>>,
    /// What of it is in force since the session, or this process, began, whatever came later; empty where that is not known here.
    pub at_registration: BTreeMap<&'static str, String>,
}

/// A partition.
#[derive(Clone)]
pub struct PartitionEntry {
    /// Its resource manager.
    pub rm: Arc<str>,
    /// Number of the session, counted up with each registration.
    pub epoch: u64,
    /// Internal name `[rm]name`.
    pub internal: Arc<str>,
    /// The name that REST shows: the plain one for the RM that owned it first, `[rm]name` for later ones.
    pub shown: Arc<str>,
    /// The actor.
    pub addr: Addr<PartitionActor>,
    /// Another server leads it: this is what its log has led to so far, and it stands still.
    pub followed: bool,
}

impl PartitionEntry {
    /// Its name in the configuration of its resource manager.
    pub fn name(&self) -> &str {
        self.internal.get(self.rm.len() + 2..).unwrap_or_default()
    }
}

impl Directory {
    /// The present state.
    pub fn get(&self) -> Arc<Listing> {
        self.0.load_full()
    }

    /// Replaces the state.
    pub fn set(&self, listing: Listing) {
        self.0.store(Arc::new(listing));
    }
}

impl Listing {
    /// Without what other servers lead.
    #[must_use]
    pub fn led(&self) -> Listing {
        let partitions: Vec<_> = self.partitions.iter().filter(|entry| !entry.followed).cloned().collect();
        let followed = |rm: &RmEntry| self.partitions.iter().any(|entry| entry.followed && entry.rm == rm.id);
        Listing { rms: self.rms.iter().filter(|rm| !followed(rm)).cloned().collect(), partitions }
    }

    /// A partition by its internal name, which nobody else can choose, or by the one that REST shows.
    pub fn partition(&self, name: &str) -> Option<&PartitionEntry> {
        let internal = self.partitions.iter().find(|entry| *entry.internal == *name);
        internal.or_else(|| self.partitions.iter().find(|entry| *entry.shown == *name))
    }
}
