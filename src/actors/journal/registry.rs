//! The journals of all partitions. They outlive the sessions of their partitions, so that drains do.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use actix::prelude::*;

use super::{JournalActor, JournalSetup, disk::directory};
use crate::domain::journal::Settings;

/// Starts journals and finds them again.
#[derive(Debug)]
pub struct Journals {
    arbiter: ArbiterHandle,
    /// Directory of all journals; `None`: memory only.
    base: Option<PathBuf>,
    settings: Settings,
    limit: usize,
    started: Mutex<BTreeMap<Arc<str>, Addr<JournalActor>>>,
}

impl Journals {
    /// Journals will live on `arbiter`, each with a directory of its own in `base`, and with up to `limit` events in memory.
    pub fn new(arbiter: ArbiterHandle, base: Option<PathBuf>, settings: Settings, limit: usize) -> Journals {
        Journals { arbiter, base, settings, limit, started: Mutex::default() }
    }

    /// The journal of a partition by its internal name; it is started where it was not.
    pub fn of(&self, partition: &str) -> Addr<JournalActor> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(addr) = started.get(partition) {
            return addr.clone();
        }
        let partition: Arc<str> = partition.into();
        let setup = JournalSetup {
            partition: partition.clone(),
            dir: self.base.as_ref().map(|base| directory(base, &partition)),
            settings: self.settings,
            limit: self.limit,
        };
        let addr = JournalActor::start_on(&self.arbiter, setup);
        started.insert(partition, addr.clone());
        addr
    }
}
