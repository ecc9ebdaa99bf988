//! Who lives where: arbiters, the registry of resource managers, their partitions, and the directory that readers use.
//!
//! Event and journal actors share the control arbiter. Resource managers are spread over a pool: each lives with its first
//! partition, so that what goes from one to the other crosses no thread; further partitions take the next arbiters.

mod defaults;
mod kept;
pub mod names;
mod numbering;
pub mod process;
mod registration;
mod registry;
mod restart;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use actix::prelude::*;
use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};

pub(super) use self::kept::{is_of, parts};
use self::{defaults::Defaults, kept::Kept, names::shown, registry::Registry};
pub use self::{
    process::ProcessSettings,
    registration::{Notes, Refusals, Registered, Registration, Sender, check_rules},
};
use super::{
    directory::{Asked, Directory, Listing, PartitionEntry, RmEntry},
    event::EventActor,
    journal::Journals,
    partition::{Links, PartitionActor},
    rm::{
        RmActor,
        forget::{Forgotten, Gone},
        handle::RmHandle,
        lead::{Elsewhere, unregistered},
        log::Logs,
        replay::Progress,
        standby::Show,
    },
};
use crate::{
    config::{LoadedConfig, extra::Settings},
    domain::conf::PartitionConf,
    messages::{
        application::ResendUnconfirmed,
        event::{ApplyEventSettings, Intake, ShimSubscribe, ShimUnsubscribe, ToEvents},
        journal::ConfigureJournal,
        leaders::Leaders,
        limits::Limits,
        partition::{Alive, Carries, Commands, Configure, GetSnapshot, PartitionSetup, Patience, StopPartition, Wake},
        places::Places,
        ready::Readiness,
        rm::{DeliverEvents, Halt, Info, Refusal, RefusalKind, RmState, Shutdown},
        wait::EndWaits,
    },
    metrics::Metrics,
    trace::Traces,
};

/// A caller waits so long, at most, until it is known whether another server leads what it asks for.
const HEARD: Duration = Duration::from_secs(1);
/// Configurations that are read at once, and trials, and of one caller: each takes many times the memory of its text.
const LOADS: (usize, usize) = (2, 1);
const TRIALS: (usize, usize) = (2, 1);

/// The wiring of one server.
pub struct Topology {
    /// What readers look up.
    pub directory: Arc<Directory>,
    /// Numbers events.
    pub events: Addr<EventActor>,
    /// Where traces begin.
    pub traces: Arc<Traces>,
    /// Process-wide settings.
    pub process: ProcessSettings,
    /// What one request may bring.
    pub limits: Arc<Limits>,
    /// What has to come before requests are welcome.
    pub ready: Readiness,
    /// Places for trying a configuration or a change, which takes many times the memory of what was sent.
    pub trials: Places,
    /// Places for reading a configuration.
    pub loads: Places,
    pool: Vec<ArbiterHandle>,
    next_home: AtomicUsize,
    launcher: Launcher,
    intake: Arc<Intake>,
    apart: OnceLock<numbering::Apart>,
    registry: Mutex<Registry>,
    /// Logs that are being removed, by resource manager.
    removals: Mutex<BTreeMap<Arc<str>, Arc<watch::Sender<()>>>>,
    kept: Mutex<Kept>,
    /// Of several servers: when resource managers first came, by the revision of etcd.
    came: Mutex<BTreeMap<Arc<str>, i64>>,
    listed: Mutex<BTreeMap<u64, (RmEntry, Vec<PartitionEntry>)>>,
    defaults: Mutex<Defaults>,
    closing: AtomicBool,
    /// Wakes whoever waits for that.
    ending: Notify,
    no_reservations: AtomicBool,
    /// Where resource managers keep their logs; unset: nowhere.
    logs: OnceLock<Arc<Logs>>,
    /// Decides which of several servers leads a resource manager.
    leaders: OnceLock<Arc<dyn Leaders>>,
    /// The logs are being read: nobody is let in before that is done.
    opening: ArcSwapOption<Progress>,
    /// Wakes whoever waits for that.
    open: Notify,
    counts: [AtomicUsize; 4],
    /// Takes what is counted outside of partitions.
    pub(super) metrics: Option<Arc<Metrics>>,
    /// The journals of all partitions, where they have any.
    pub(super) journals: Option<Arc<Journals>>,
}

/// Starts a partition on an arbiter.
pub type Launcher = Arc<dyn Fn(&ArbiterHandle, PartitionSetup) -> PartitionHandle + Send + Sync>;

/// A running partition, as its `RmActor` knows it.
#[derive(Clone)]
pub struct PartitionHandle {
    /// Internal name.
    pub internal: Arc<str>,
    /// Its number in the session, where that is recorded.
    pub number: u32,
    /// Configuration in force.
    pub conf: Arc<PartitionConf>,
    /// The actor.
    pub addr: Addr<PartitionActor>,
    /// Takes the requests of the shim, in batches.
    pub commands: Recipient<Commands>,
    /// Credits came back.
    pub wake: Recipient<Wake>,
    /// Its end.
    pub stop: Recipient<StopPartition>,
    /// Its state, on which a configuration is checked before.
    pub snapshot: Recipient<GetSnapshot>,
    /// A configuration.
    pub configure: Recipient<Configure>,
    /// How long the shim may take to confirm.
    pub patience: Recipient<Patience>,
    /// Lines with releases that the shim has to confirm.
    pub carries: Recipient<Carries>,
    /// Unconfirmed releases are wanted again.
    pub resend: Recipient<ResendUnconfirmed>,
    /// Signs of life of nodes.
    pub alive: Recipient<Alive>,
    /// Settings of its journal, where it has one.
    pub journal: Option<Recipient<ConfigureJournal>>,
}

impl Topology {
    /// The wiring of a server whose partitions have journals and are counted.
    pub fn linked(
        pool: Vec<ArbiterHandle>,
        (journals, metrics, ldap_secrets): (Arc<Journals>, Arc<Metrics>, Arc<Path>),
        events: Addr<EventActor>,
        default_config: LoadedConfig,
    ) -> Arc<Topology> {
        let (counted, known) = (metrics.clone(), journals.clone());
        let launcher = Topology::launcher_with(move |partition| Links {
            journal: Some(known.of(partition)),
            metrics: Some(counted.clone()),
            ldap_secrets: ldap_secrets.clone(),
        });
        Topology::build(pool, launcher, events, default_config, (Some(journals), Some(metrics)))
    }

    /// The wiring on these arbiters. `default_config` is in force where a registration brings none.
    pub fn new(
        pool: Vec<ArbiterHandle>,
        launcher: Launcher,
        events: Addr<EventActor>,
        default_config: LoadedConfig,
    ) -> Arc<Topology> {
        Topology::build(pool, launcher, events, default_config, (None, None))
    }

    fn build(
        pool: Vec<ArbiterHandle>,
        launcher: Launcher,
        events: Addr<EventActor>,
        default_config: LoadedConfig,
        (journals, metrics): (Option<Arc<Journals>>, Option<Arc<Metrics>>),
    ) -> Arc<Topology> {
        let process = ProcessSettings::default();
        let intake = Intake::new(events.clone().recipient());
        let listening = intake.clone();
        process.listen(move |extra| {
            listening.put(ToEvents::Settings(ApplyEventSettings(Settings::read(extra).event)));
        });
        let limits = Arc::<Limits>::default();
        let bounded = limits.clone();
        process.listen(move |extra| {
            let body = Settings::read(extra).max_body_bytes;
            bounded.set_body(body.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)));
        });
        Arc::new(Topology {
            directory: Arc::default(),
            intake,
            events,
            traces: Arc::default(),
            process,
            limits,
            ready: Readiness::default(),
            trials: Places::new(TRIALS.0, TRIALS.1, "try configurations or changes"),
            loads: Places::new(LOADS.0, LOADS.1, "have configurations read"),
            pool,
            next_home: AtomicUsize::new(0),
            launcher,
            apart: OnceLock::new(),
            registry: Mutex::default(),
            removals: Mutex::default(),
            kept: Mutex::default(),
            came: Mutex::default(),
            listed: Mutex::default(),
            defaults: Mutex::new(Defaults::of(default_config)),
            closing: AtomicBool::new(false),
            ending: Notify::new(),
            no_reservations: AtomicBool::new(false),
            logs: OnceLock::new(),
            leaders: OnceLock::new(),
            opening: ArcSwapOption::empty(),
            open: Notify::new(),
            counts: Default::default(),
            metrics,
            journals,
        })
    }

    /// Starts real partitions, linked to nothing.
    pub fn launcher() -> Launcher {
        Topology::launcher_with(|_| Links::default())
    }

    /// Starts real partitions with the links that belong to the internal name of each.
    fn launcher_with(links: impl Fn(&str) -> Links + Send + Sync + 'static) -> Launcher {
        Arc::new(move |arbiter, setup| {
            let (internal, conf) = (setup.internal.clone(), setup.conf.clone());
            let number = setup.recorded.as_ref().map_or(0, |recorded| recorded.instance);
            let links = links(&internal);
            let journal = links.journal.clone().map(Addr::recipient);
            let addr = PartitionActor::start_on(arbiter, setup, links);
            PartitionHandle {
                internal,
                number,
                conf,
                commands: addr.clone().recipient(),
                wake: addr.clone().recipient(),
                stop: addr.clone().recipient(),
                snapshot: addr.clone().recipient(),
                configure: addr.clone().recipient(),
                patience: addr.clone().recipient(),
                carries: addr.clone().recipient(),
                resend: addr.clone().recipient(),
                alive: addr.clone().recipient(),
                journal,
                addr,
            }
        })
    }

    /// A resource manager that is known, Stopped ones too.
    pub fn find(&self, rm: &str) -> Option<Arc<RmHandle>> {
        lock(&self.registry).find(rm)
    }

    /// As [`Topology::find`]. Where there are several servers, one that is not known here may have registered at another just now:
    /// that is found out first.
    ///
    /// # Errors
    /// That cannot be found out at present.
    pub async fn look_up(&self, rm: &str) -> Result<Option<Arc<RmHandle>>, Refusal> {
        let known = self.find(rm);
        let Some(leaders) = self.leaders().filter(|_| check_id(rm).is_ok() && !self.is_closing()) else {
            return Ok(known);
        };
        if known.as_ref().is_some_and(|handle| !handle.is_unheard()) {
            return Ok(known);
        }
        let heard = tokio::time::timeout(HEARD, leaders.hear_of_all()).await;
        heard.unwrap_or_else(|_| {
            let detail = format!("whether another server leads resource manager \"{rm}\" is not known yet: try again");
            Err(Refusal::new(RefusalKind::Closing, detail))
        })?;
        let known = self.find(rm);
        if let Some(handle) = &known {
            // When its actor answers, it has handled what it was told.
            let _ = handle.addr.send(Info).await;
        }
        Ok(known)
    }

    /// What is said to one that cannot be led here: another server may have begun to lead it just now.
    async fn led_by(&self, rm: &str, refusal: Refusal) -> Refusal {
        let is_known = refusal.kind != RefusalKind::Closing || self.find(rm).is_some_and(|handle| !handle.is_unheard());
        let known = if is_known { None } else { self.look_up(rm).await.ok().flatten() };
        known.and_then(|handle| handle.is_here().err()).filter(|moved| moved.leader.is_some()).unwrap_or(refusal)
    }

    /// All that are known and not led by another server, in the order in which they first came.
    pub fn known(&self) -> Vec<Arc<RmHandle>> {
        let mut all = lock(&self.registry).all();
        all.retain(|handle| handle.is_here().is_ok());
        all
    }

    /// Why nothing new is placed for a resource manager; one that is not known here is away.
    pub fn halt(&self, rm: &str) -> Option<Halt> {
        let here = self.find(rm).filter(|handle| handle.is_here().is_ok());
        here.map_or(Some(Halt::Away), |handle| handle.view.load().halt())
    }

    /// A resource manager, known or not.
    pub fn find_or_create(self: &Arc<Self>, rm: &str) -> Result<Arc<RmHandle>, Refusal> {
        self.find_or_start(rm, false)
    }

    /// The same, to tell its actor which server leads it: it is not forgotten when nobody waits for it any more.
    pub fn find_or_keep(self: &Arc<Self>, rm: &str) -> Result<Arc<RmHandle>, Refusal> {
        self.find_or_start(rm, true)
    }

    fn find_or_start(self: &Arc<Self>, rm: &str, keep: bool) -> Result<Arc<RmHandle>, Refusal> {
        check_id(rm)?;
        Ok(lock(&self.registry).find_or_create(rm, keep, |id, view| {
            let (id, topology, view) = (id.clone(), self.clone(), view.clone());
            let home = self.next_home.fetch_add(1, Relaxed);
            RmActor::start_in_arbiter(self.arbiter(home), move |_| RmActor::new(id, topology, view, home))
        }))
    }

    /// The server ends: nothing new is taken from now on, streams get their last line, and whoever waits gets an answer.
    pub fn close(&self) {
        self.closing.store(true, Relaxed);
        self.ending.notify_waiters();
        self.ready.changed();
        for handle in lock(&self.registry).all() {
            handle.addr.do_send(Shutdown);
        }
        for (_, partitions) in lock(&self.listed).values() {
            partitions.iter().for_each(|partition| partition.addr.do_send(EndWaits));
        }
    }

    /// Asks reserve no nodes, where their resource manager does not say otherwise (R5.37).
    pub fn without_reservations(&self) {
        self.no_reservations.store(true, Relaxed);
    }

    /// Asks that wait long enough reserve a node, where their resource manager does not say otherwise.
    pub fn reserves(&self) -> bool {
        !self.no_reservations.load(Relaxed)
    }

    /// The server ends.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Until the server ends.
    pub async fn ends(&self) {
        // Registered before looking, so that an end in between is not missed.
        let ending = self.ending.notified();
        if !self.is_closing() {
            ending.await;
        }
    }

    /// How often a state was entered, for metrics.
    pub fn entered(&self, state: RmState) -> usize {
        self.counts[state as usize].load(Relaxed)
    }

    pub(super) fn count(&self, state: RmState) {
        self.counts[state as usize].fetch_add(1, Relaxed);
    }

    /// Starts the partition of this place in the configuration of a resource manager that lives at `home`.
    pub(super) fn launch(&self, home: usize, place: usize, setup: PartitionSetup) -> PartitionHandle {
        (self.launcher)(self.arbiter(home.wrapping_add(place)), setup)
    }

    /// Starts one that shows what another server leads, and is linked to nothing.
    pub(super) fn launch_still(&self, home: usize, place: usize, setup: PartitionSetup) -> PartitionHandle {
        Topology::launcher()(self.arbiter(home.wrapping_add(place)), setup)
    }

    fn arbiter(&self, place: usize) -> &ArbiterHandle {
        &self.pool[place % self.pool.len()]
    }

    pub(super) fn subscribe_events(&self, rm: &Arc<str>, epoch: u64, recipient: Recipient<DeliverEvents>) {
        self.intake.put(ToEvents::Subscribe(ShimSubscribe { rm: rm.clone(), epoch, recipient }));
    }

    pub(super) fn unsubscribe_events(&self, rm: &Arc<str>, epoch: u64) {
        self.intake.put(ToEvents::Unsubscribe(ShimUnsubscribe { rm: rm.clone(), epoch }));
    }

    /// Takes over what of the extra configuration of a resource manager concerns the whole process, in the place of what it sent before.
    pub(super) fn apply_settings(&self, rm: &str, extra: &BTreeMap<String, String>) {
        self.process.apply(rm, extra);
        // Under the lock: whoever comes last keeps what all of them sent.
        let mut kept = lock(&self.kept);
        kept.note_sent(self.process.sent());
    }

    /// A resource manager unregistered, or is forgotten: its settings of the whole process go with it. Not those of one that is away, or
    /// whose session was lost: it comes back, and what its settings keep, such as events, must not be discarded meanwhile.
    pub(super) fn drop_settings(&self, rm: &str) {
        self.apply_settings(rm, &BTreeMap::new());
    }

    /// A registration reached this actor: false where the registry does not know it any more.
    pub(super) fn registers(&self, rm: &str, addr: &Addr<RmActor>) -> bool {
        lock(&self.registry).registers(rm, addr)
    }

    pub(super) fn stopped(&self, rm: &Arc<str>) {
        let oldest = lock(&self.registry).stopped(rm);
        if let Some(oldest) = oldest {
            oldest.addr.do_send(Forgotten);
        }
    }

    /// A resource manager is not Stopped any more, or another server leads it.
    pub(super) fn goes_on(&self, rm: &str) {
        lock(&self.registry).goes_on(rm);
    }

    /// Forgets one that was Stopped long ago, whose log is to be removed: see [`Topology::removes`]. `None`: it was Stopped anew
    /// since, or another actor has its place.
    pub(super) fn forgotten(&self, rm: &Arc<str>, addr: &Addr<RmActor>) -> Option<watch::Receiver<()>> {
        let mut registry = lock(&self.registry);
        // Before another actor can be made for it.
        let removal = registry.forgets(rm, addr).then(|| self.removes(rm))?;
        self.forget_journals(rm);
        drop(registry);
        lock(&self.kept).forget(rm);
        self.drop_settings(rm);
        Some(removal)
    }

    /// Nothing of its log is in etcd any more: its actor ends, unless it is told something else meanwhile.
    pub fn gone(&self, rm: &str) {
        let handle = lock(&self.registry).let_go(rm);
        if let Some(handle) = handle {
            handle.addr.do_send(Elsewhere(unregistered(rm)));
            handle.addr.do_send(Show(None));
            handle.addr.do_send(Gone);
        }
        self.begins_anew(rm);
    }

    /// The log of a resource manager is being removed until this is dropped.
    pub(super) fn removes(&self, rm: &Arc<str>) -> watch::Receiver<()> {
        let mut removals = lock(&self.removals);
        removals.retain(|_, removal| removal.receiver_count() > 0);
        removals.entry(rm.clone()).or_insert_with(|| Arc::new(watch::Sender::new(()))).subscribe()
    }

    /// Waits until the log of a resource manager is not being removed any more.
    pub(super) fn removed(&self, rm: &str) -> impl Future<Output = ()> + use<> {
        let removal = lock(&self.removals).get(rm).cloned();
        async move {
            if let Some(removal) = removal {
                removal.closed().await;
            }
        }
    }

    /// Nobody waits for one that never registered here: its actor ends, unless it was told which server leads it.
    pub(super) fn forget(&self, rm: &str) -> bool {
        let mut registry = lock(&self.registry);
        let gone = registry.forget(rm);
        if gone {
            self.forget_journals(rm);
            drop(registry);
            lock(&self.kept).forget(rm);
            self.drop_settings(rm);
        }
        gone
    }

    /// To be called before another actor can be made for it.
    fn forget_journals(&self, rm: &str) {
        self.journals.iter().for_each(|journals| journals.forget(rm));
    }

    /// A resource manager of several servers first came at this revision of etcd; `None`: it is gone.
    pub fn first_came(&self, rm: &str, revision: Option<i64>) {
        let mut came = lock(&self.came);
        match revision {
            Some(revision) if came.get(rm) == Some(&revision) => {}
            Some(revision) => _ = came.insert(rm.into(), revision),
            None => _ = came.remove(rm),
        }
    }

    /// All resource managers that came before that of this partition, at whichever server, are in the listing: nobody can take its
    /// name from it.
    pub fn came_first(&self, entry: &PartitionEntry, listing: &Listing) -> bool {
        let listed: BTreeSet<&Arc<str>> = listing.rms.iter().map(|rm| &rm.id).collect();
        let came = lock(&self.came);
        let Some(own) = came.get(&entry.rm) else { return false };
        came.iter().all(|(rm, other)| other >= own || listed.contains(rm))
    }

    /// Puts a session into the directory, or takes it out. `followed`: another server leads it.
    pub(super) fn list(&self, rm: &str, followed: bool, session: Option<(RmEntry, &[PartitionHandle])>) {
        let Some(ordinal) = lock(&self.registry).ordinal(rm) else { return };
        let mut listed = lock(&self.listed);
        let before = listed.remove(&ordinal).map(|(_, partitions)| partitions).unwrap_or_default();
        let mut kept = lock(&self.kept);
        if let Some((entry, handles)) = session {
            let mut partitions = Vec::with_capacity(handles.len());
            for handle in handles {
                let others = listed.values().flat_map(|(_, partitions)| partitions);
                let once = kept.before(&handle.internal);
                let shown = shown(&handle.internal, &handle.conf.name, once, &before, others);
                partitions.push(PartitionEntry {
                    rm: entry.id.clone(),
                    internal: handle.internal.clone(),
                    addr: Asked::new(names::told(&shown), handle.addr.clone()),
                    shown,
                    followed,
                });
            }
            listed.insert(ordinal, (entry, partitions));
        }
        let came = lock(&self.came);
        if !came.is_empty() {
            names::share(listed.values_mut().flat_map(|(_, partitions)| partitions), &came);
        }
        if let Some((entry, partitions)) = listed.get(&ordinal).filter(|_| !followed) {
            kept.note(&entry.id, partitions);
        }
        drop((kept, came));
        let mut listing = Listing::default();
        for (entry, partitions) in listed.values() {
            listing.rms.push(entry.clone());
            listing.partitions.extend(partitions.iter().cloned());
        }
        self.directory.set(listing);
    }

    fn open(&self) -> Result<(), Refusal> {
        if self.is_closing() { Err(super::rm::handle::closing()) } else { Ok(()) }
    }
}

fn check_id(rm: &str) -> Result<(), Refusal> {
    let fault = if rm.is_empty() {
        "is empty: a resource manager needs an id"
    } else if rm.len() > 256 {
        "is longer than 256 bytes"
    } else if rm.chars().any(|c| c.is_control() || c == '[' || c == ']') {
        "contains a control character or one of [ ], which partition names use"
    } else {
        return Ok(());
    };
    Err(Refusal::new(RefusalKind::Invalid, format!("rmID \"{rm}\" {fault}")))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The data is whole after a panic elsewhere: no change of it can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
