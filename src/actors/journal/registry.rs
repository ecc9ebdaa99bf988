//! The journals of all partitions. They outlive the sessions of their partitions, so that drains do.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use actix::prelude::*;

use tokio::task::spawn_blocking;

use super::{DEFAULT_LIMIT, Faults, JournalActor, JournalSetup, disk};
use crate::{
    actors::{
        directory::{Asked, Unanswered},
        topology::{is_of, parts},
    },
    domain::journal::Settings,
    messages::{
        journal::{GetStatus, Moved},
        rm::Closing,
    },
};

/// Starts journals and finds them again.
#[derive(Debug)]
pub struct Journals {
    arbiter: ArbiterHandle,
    /// Directory of all journals; `None`: memory only.
    base: Option<PathBuf>,
    settings: Settings,
    started: Mutex<BTreeMap<Arc<str>, Started>>,
}

/// A journal that was started.
#[derive(Debug)]
struct Started {
    addr: Asked<JournalActor>,
    faults: Arc<Faults>,
    held: Arc<AtomicBool>,
}

impl Journals {
    /// Journals will live on `arbiter`, each with a directory of its own in `base`.
    pub fn new(arbiter: ArbiterHandle, base: Option<PathBuf>, settings: Settings) -> Journals {
        Journals { arbiter, base, settings, started: Mutex::default() }
    }

    /// Journals outlive the process.
    pub fn are_kept(&self) -> bool {
        self.base.is_some()
    }

    /// Starts those that are on disk and waits until they are read, so that damage is told before anybody asks for them.
    pub async fn start_kept(&self) {
        let Some(base) = self.base.clone() else { return };
        let partitions = spawn_blocking(move || disk::partitions(&base)).await.unwrap_or_default();
        // All of them are read at once.
        let started: Vec<_> = partitions.iter().map(|partition| self.of(partition).send(GetStatus)).collect();
        for read in started {
            if let Err(error) = read.await {
                tracing::error!(code = "journal-not-started", %error, "a resource journal does not start");
            }
        }
    }

    /// The journal of a partition by its internal name; it is started where it was not.
    pub fn of(&self, partition: &str) -> Addr<JournalActor> {
        Addr::clone(&self.asked(partition))
    }

    /// The same for readers: its disk may hold it up.
    pub fn asked(&self, partition: &str) -> Asked<JournalActor> {
        let mut started = self.started();
        if let Some(known) = started.get(partition) {
            return known.addr.clone();
        }
        let partition: Arc<str> = partition.into();
        let (faults, held) = (Arc::<Faults>::default(), Arc::new(AtomicBool::new(true)));
        let setup = JournalSetup {
            partition: partition.clone(),
            dir: self.base.as_ref().map(|base| disk::directory(base, &partition)),
            settings: self.settings,
            limit: DEFAULT_LIMIT,
            faults: faults.clone(),
            held: held.clone(),
        };
        let name = format!("the resource journal of partition '{partition}'");
        let addr = Asked::new(name, JournalActor::start_on(&self.arbiter, setup));
        started.insert(partition, Started { addr: addr.clone(), faults, held });
        addr
    }

    /// Those that do not answer at present.
    pub fn silent(&self) -> Vec<Unanswered> {
        self.started().values().filter_map(|started| started.addr.silent()).collect()
    }

    /// The internal name of a partition that is gone and has a journal, found by that name, or by its plain name where no other
    /// partition that is gone has that.
    ///
    /// # Errors
    /// The internal names of those that have one, where it is none of them, or not clear which.
    pub fn absent(&self, name: &str, there: impl Fn(&str) -> bool) -> Result<Arc<str>, Vec<Arc<str>>> {
        let started = self.started();
        let absent = || started.keys().filter(|partition| !there(partition));
        let mut by_name = absent().filter(|partition| parts(partition).is_some_and(|(_, plain)| plain == name));
        match (started.get_key_value(name), by_name.next(), by_name.next()) {
            (Some((partition, _)), ..) | (None, Some(partition), None) => Ok(partition.clone()),
            _ => Err(absent().cloned().collect()),
        }
    }

    /// Another server leads this resource manager from now on.
    pub fn moved(&self, rm: &str, closing: &Closing) {
        for (_, journal) in self.started().iter().filter(|(partition, _)| is_of(rm, partition)) {
            journal.addr.do_send(Moved(closing.clone()));
        }
    }

    /// This resource manager is forgotten: journals of which nobody would miss anything end with their last message.
    pub fn forget(&self, rm: &str) {
        self.started().retain(|partition, journal| !is_of(rm, partition) || journal.held.load(Ordering::Acquire));
    }

    /// What is wrong with the files of each journal, by the internal names of the partitions.
    pub fn faults(&self) -> Vec<(Arc<str>, Arc<Faults>)> {
        self.started().iter().map(|(name, started)| (name.clone(), started.faults.clone())).collect()
    }

    /// What is wrong with the files of one journal.
    pub fn faults_of(&self, partition: &str) -> Option<Arc<Faults>> {
        self.started().get(partition).map(|started| started.faults.clone())
    }

    fn started(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
