//! Who lives where: arbiters, the registry of resource managers, their partitions, and the directory that readers use.
//!
//! RM, event and journal actors share the control arbiter; partitions with their conversations are spread over a pool.

mod names;
pub mod process;
mod registry;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use actix::prelude::*;

pub use self::process::ProcessSettings;
use self::{names::shown, process::check_process_wide, registry::Registry};
use super::{
    directory::{Directory, Listing, PartitionEntry, RmEntry},
    event::EventActor,
    journal::Journals,
    partition::{Links, PartitionActor},
    rm::{Reconfigure, Register, RmActor, RmSettings, handle::RmHandle, no_partitions},
};
use crate::{
    config::{LoadedConfig, Refused, extra::Settings},
    domain::conf::PartitionConf,
    messages::{
        event::{ApplyEventSettings, Publish, ShimSubscribe, ShimUnsubscribe},
        journal::ConfigureJournal,
        limits::Limits,
        partition::{Alive, Commands, Configure, PartitionSetup, ResendUnconfirmed, StopPartition, TryConfigure, Wake},
        rm::{DeliverEvents, Predicates, Refusal, RefusalKind, RmState, Shutdown},
    },
    metrics::Metrics,
};

/// The wiring of one server.
pub struct Topology {
    /// What readers look up.
    pub directory: Arc<Directory>,
    /// Numbers events.
    pub events: Addr<EventActor>,
    /// Process-wide settings.
    pub process: ProcessSettings,
    /// What one request may bring.
    pub limits: Arc<Limits>,
    control: ArbiterHandle,
    pool: Vec<ArbiterHandle>,
    next: AtomicUsize,
    launcher: Launcher,
    registry: Mutex<Registry>,
    listed: Mutex<BTreeMap<u64, (RmEntry, Vec<PartitionEntry>)>>,
    default_config: Mutex<Arc<LoadedConfig>>,
    closing: AtomicBool,
    no_reservations: AtomicBool,
    counts: [AtomicUsize; 4],
    /// Takes what is counted outside of partitions.
    pub(super) metrics: Option<Arc<Metrics>>,
}

/// Starts a partition on an arbiter.
pub type Launcher = Arc<dyn Fn(&ArbiterHandle, PartitionSetup) -> PartitionHandle + Send + Sync>;

/// A running partition, as its `RmActor` knows it.
#[derive(Clone)]
pub struct PartitionHandle {
    /// Internal name.
    pub internal: Arc<str>,
    /// Configuration in force.
    pub conf: Arc<PartitionConf>,
    /// The actor.
    pub addr: Addr<PartitionActor>,
    /// Requests.
    pub commands: Recipient<Commands>,
    /// Credits came back.
    pub wake: Recipient<Wake>,
    /// Its end.
    pub stop: Recipient<StopPartition>,
    /// A configuration on trial.
    pub try_configure: Recipient<TryConfigure>,
    /// A configuration.
    pub configure: Recipient<Configure>,
    /// Unconfirmed releases are wanted again.
    pub resend: Recipient<ResendUnconfirmed>,
    /// Signs of life of nodes.
    pub alive: Recipient<Alive>,
    /// Settings of its journal, where it has one.
    pub journal: Option<Recipient<ConfigureJournal>>,
}

/// A registration as a door has it.
#[derive(Clone, Debug, Default)]
pub struct Registration {
    /// Id of the resource manager.
    pub rm: String,
    /// Version of the interface client.
    pub version: String,
    /// Policy group.
    pub policy_group: String,
    /// Build information.
    pub build_info: BTreeMap<String, String>,
    /// Configuration; empty for the server's own.
    pub config: String,
    /// Extra configuration.
    pub extra: BTreeMap<String, String>,
    /// How the shim wants to be asked.
    pub predicates: Predicates,
    /// It answers state dump requests.
    pub state_dump: bool,
    /// It is sent with the token of a resource manager only: the settings of the whole process stay as they are.
    pub tenant: bool,
}

/// Why a registration or a configuration was refused.
#[derive(Clone, Debug)]
pub enum Refusals {
    /// The configuration has faults.
    Config(Refused),
    /// Anything else.
    Other(Refusal),
}

impl From<Refusal> for Refusals {
    fn from(refusal: Refusal) -> Self {
        Refusals::Other(refusal)
    }
}

impl Topology {
    /// The wiring of a server whose partitions have journals and are counted.
    pub fn linked(
        control: ArbiterHandle,
        pool: Vec<ArbiterHandle>,
        (journals, metrics, ldap_secrets): (Arc<Journals>, Arc<Metrics>, Arc<Path>),
        events: Addr<EventActor>,
        default_config: LoadedConfig,
    ) -> Arc<Topology> {
        let counted = metrics.clone();
        let launcher = Topology::launcher_with(move |partition| Links {
            journal: Some(journals.of(partition)),
            metrics: Some(counted.clone()),
            ldap_secrets: ldap_secrets.clone(),
        });
        Topology::build(control, pool, launcher, events, default_config, Some(metrics))
    }

    /// The wiring on these arbiters. `default_config` is in force where a registration brings none.
    pub fn new(
        control: ArbiterHandle,
        pool: Vec<ArbiterHandle>,
        launcher: Launcher,
        events: Addr<EventActor>,
        default_config: LoadedConfig,
    ) -> Arc<Topology> {
        Topology::build(control, pool, launcher, events, default_config, None)
    }

    fn build(
        control: ArbiterHandle,
        pool: Vec<ArbiterHandle>,
        launcher: Launcher,
        events: Addr<EventActor>,
        default_config: LoadedConfig,
        metrics: Option<Arc<Metrics>>,
    ) -> Arc<Topology> {
        let process = ProcessSettings::default();
        let listening = events.clone();
        process.listen(move |extra| listening.do_send(ApplyEventSettings(Settings::read(extra).event)));
        let limits = Arc::<Limits>::default();
        let bounded = limits.clone();
        process.listen(move |extra| {
            let body = Settings::read(extra).max_body_bytes;
            bounded.set_body(body.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)));
        });
        Arc::new(Topology {
            directory: Arc::default(),
            events,
            process,
            limits,
            control,
            pool,
            next: AtomicUsize::new(0),
            launcher,
            registry: Mutex::default(),
            listed: Mutex::default(),
            default_config: Mutex::new(Arc::new(default_config)),
            closing: AtomicBool::new(false),
            no_reservations: AtomicBool::new(false),
            counts: Default::default(),
            metrics,
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
            let links = links(&internal);
            let journal = links.journal.clone().map(Addr::recipient);
            let addr = PartitionActor::start_on(arbiter, setup, links);
            PartitionHandle {
                internal,
                conf,
                commands: addr.clone().recipient(),
                wake: addr.clone().recipient(),
                stop: addr.clone().recipient(),
                try_configure: addr.clone().recipient(),
                configure: addr.clone().recipient(),
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

    /// All that are known, in the order in which they first came.
    pub fn known(&self) -> Vec<Arc<RmHandle>> {
        lock(&self.registry).all()
    }

    /// A resource manager, known or not.
    pub fn find_or_create(self: &Arc<Self>, rm: &str) -> Result<Arc<RmHandle>, Refusal> {
        check_id(rm)?;
        Ok(lock(&self.registry).find_or_create(rm, |id, view| {
            let (id, topology, view) = (id.clone(), self.clone(), view.clone());
            RmActor::start_in_arbiter(&self.control, move |_| RmActor::new(id, topology, view))
        }))
    }

    /// Registers a resource manager: all of it, or nothing changes (R1.11, CFG-090a). Gives the epoch.
    pub async fn register(self: &Arc<Self>, registration: Registration) -> Result<u64, Refusals> {
        self.open()?;
        check_id(&registration.rm)?;
        let settings = self.read_settings(&registration.extra)?;
        let default_config = registration.config.is_empty();
        let config = self.load(registration.config, "registration of RM failed").await?;
        let extra = Arc::new(registration.extra);
        let policy_group: Arc<str> = registration.policy_group.into();
        for _ in 0..3 {
            let handle = self.find_or_create(&registration.rm)?;
            let register = Register {
                version: registration.version.clone(),
                policy_group: policy_group.clone(),
                build_info: registration.build_info.clone(),
                config: config.clone(),
                default_config,
                extra: extra.clone(),
                settings: settings.clone(),
                predicates: registration.predicates,
                state_dump: registration.state_dump,
                tenant: registration.tenant,
            };
            match handle.addr.send(register).await {
                Ok(Ok(epoch)) => return Ok(epoch),
                // It was forgotten just now: a new one takes its place.
                Err(_) => self.open()?,
                Ok(Err(refusal)) if refusal.kind == RefusalKind::Unknown => self.open()?,
                Ok(Err(refusal)) => return Err(refusal.into()),
            }
        }
        let detail = format!("resource manager \"{}\" was forgotten while it registered: try again", registration.rm);
        Err(Refusal::new(RefusalKind::State, detail).into())
    }

    /// Updates the configuration of a resource manager (R1.12–R1.15); a refused update changes nothing (SEEDS S23). That of a
    /// `tenant` leaves the settings of the whole process as they are.
    pub async fn configure(
        &self,
        rm: &str,
        text: String,
        extra: BTreeMap<String, String>,
        tenant: bool,
    ) -> Result<(), Refusals> {
        self.open()?;
        let unknown = || Refusal::new(RefusalKind::Unknown, no_partitions(rm));
        let handle = self.find(rm).ok_or_else(unknown)?;
        let settings = self.read_settings(&extra)?;
        let default_config = text.is_empty();
        let config = self.load_update(text).await?;
        let extra = Arc::new(extra);
        let message =
            Reconfigure { config, default_config, only_default: false, extra: Some((extra, settings)), tenant };
        handle.addr.send(message).await.unwrap_or_else(|_| Err(super::rm::handle::closing()))?;
        Ok(())
    }

    /// Reads and checks a configuration as an update would; an empty text is the server's own. Nothing is applied.
    pub async fn load_update(&self, text: String) -> Result<Arc<LoadedConfig>, Refusals> {
        let config = self.load(text, "update of configuration failed").await?;
        // A registration runs such a partition without any rule, an update is refused (CFG-098).
        config.check_rules().map_err(|refused| prefixed(refused, "update of configuration failed"))?;
        Ok(config)
    }

    /// The server's own configuration was read again: it is in force for those that brought none.
    pub async fn reload_default(&self, config: LoadedConfig) -> Vec<(Arc<str>, Refusal)> {
        let config = Arc::new(config);
        *lock(&self.default_config) = config.clone();
        let mut refused = Vec::new();
        for handle in self.known() {
            let message = Reconfigure {
                config: config.clone(),
                default_config: true,
                only_default: true,
                extra: None,
                tenant: false,
            };
            match handle.addr.send(message).await {
                Ok(Err(refusal)) if !matches!(refusal.kind, RefusalKind::Unknown | RefusalKind::State) => {
                    refused.push((handle.id.clone(), refusal));
                }
                _ => {}
            }
        }
        refused
    }

    /// From now on nothing new is taken, and streams get their last line.
    pub fn close(&self) {
        self.closing.store(true, Relaxed);
        for handle in self.known() {
            handle.addr.do_send(Shutdown);
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

    /// How often a state was entered, for metrics.
    pub fn entered(&self, state: RmState) -> usize {
        self.counts[state as usize].load(Relaxed)
    }

    pub(super) fn count(&self, state: RmState) {
        self.counts[state as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn launch(&self, setup: PartitionSetup) -> PartitionHandle {
        let n = self.next.fetch_add(1, Relaxed);
        (self.launcher)(&self.pool[n % self.pool.len()], setup)
    }

    pub(super) fn publisher(&self) -> Recipient<Publish> {
        self.events.clone().recipient()
    }

    pub(super) fn subscribe_events(&self, rm: &Arc<str>, epoch: u64, recipient: Recipient<DeliverEvents>) {
        self.events.do_send(ShimSubscribe { rm: rm.clone(), epoch, recipient });
    }

    pub(super) fn unsubscribe_events(&self, rm: &Arc<str>, epoch: u64) {
        self.events.do_send(ShimUnsubscribe { rm: rm.clone(), epoch });
    }

    /// A registration reached this actor: false where the registry does not know it any more.
    pub(super) fn registers(&self, rm: &str, addr: &Addr<RmActor>) -> bool {
        lock(&self.registry).registers(rm, addr)
    }

    pub(super) fn stopped(&self, rm: &Arc<str>) {
        lock(&self.registry).stopped(rm);
    }

    pub(super) fn forget(&self, rm: &str) {
        lock(&self.registry).forget(rm);
    }

    /// Puts a session into the directory, or takes it out.
    pub(super) fn list(&self, rm: &str, session: Option<(RmEntry, &[PartitionHandle])>) {
        let Some(ordinal) = lock(&self.registry).ordinal(rm) else { return };
        let mut listed = lock(&self.listed);
        let before = listed.remove(&ordinal).map(|(_, partitions)| partitions).unwrap_or_default();
        if let Some((entry, handles)) = session {
            let mut partitions = Vec::with_capacity(handles.len());
            for handle in handles {
                let others = listed.values().flat_map(|(_, partitions)| partitions);
                let shown = shown(&handle.internal, &handle.conf.name, &before, others);
                partitions.push(PartitionEntry {
                    rm: entry.id.clone(),
                    epoch: entry.epoch,
                    internal: handle.internal.clone(),
                    shown,
                    addr: handle.addr.clone(),
                });
            }
            listed.insert(ordinal, (entry, partitions));
        }
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

    /// What the extra configuration of a resource manager says about it.
    fn read_settings(&self, extra: &BTreeMap<String, String>) -> Result<RmSettings, Refusal> {
        let invalid = |detail| Refusal::new(RefusalKind::Invalid, detail);
        let settings = RmSettings::read(extra).map_err(invalid)?;
        check_process_wide(extra).map_err(|detail| invalid(format!("extraConfig {detail}")))?;
        let most = self.limits.items();
        match settings.max_items.filter(|items| *items > most) {
            None => Ok(settings),
            Some(items) => Err(invalid(format!(
                "extraConfig rm.maxItems: \"{items}\" is more than this server takes in a request, which is {most}: it has to be \
                 started with a larger --rm-max-items"
            ))),
        }
    }

    async fn load(&self, text: String, what: &str) -> Result<Arc<LoadedConfig>, Refusals> {
        if text.is_empty() {
            return Ok(lock(&self.default_config).clone());
        }
        // A large text takes a while: not on the thread of a door.
        let loaded = tokio::task::spawn_blocking(move || crate::config::load(&text)).await;
        let loaded = loaded.map_err(|_| Refusal::new(RefusalKind::Invalid, format!("{what}: unreadable")))?;
        loaded.map(Arc::new).map_err(|refused| prefixed(refused, what))
    }
}

fn prefixed(mut refused: Refused, what: &str) -> Refusals {
    refused.message = format!("{what}: {}", refused.message);
    Refusals::Config(refused)
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The data is whole after a panic elsewhere: no change of it can panic half way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
