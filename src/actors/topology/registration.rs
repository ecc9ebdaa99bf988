//! How a resource manager registers and gets a configuration: what a door has is read and checked here before its `RmActor` hears
//! of it, so that what is refused changes nothing.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{sync::mpsc::UnboundedSender, task::spawn_blocking};

use super::{Topology, check_id, lock, process::take_process_wide};
use crate::{
    actors::rm::{
        InForce, Reconfigure, Register, RmSettings, Tried,
        handle::{RmHandle, closing},
        no_partitions,
        open::OpenStream,
    },
    config::{Fault, LoadedConfig, Refused, table},
    messages::{
        clock::Clock,
        keys::Asked,
        limits,
        rm::{Predicates, Refusal, RefusalKind, ToStream, Want},
    },
};

/// What the refusal of an update begins with.
const UPDATE: &str = "update of configuration failed";

/// Who sends a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// Its name in texts (see [`Caller::identity`](crate::access::Caller::identity)), which has places of its own.
    pub name: String,
    /// It has the token of a resource manager only: the settings of the whole process stay as they are.
    pub tenant: bool,
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
    /// By whom.
    pub sender: Sender,
    /// Its key, where it has one: what was carried out under it is not once more.
    pub asked: Option<Asked>,
}

/// A registration that was taken.
#[derive(Clone, Debug)]
pub struct Registered {
    /// The session.
    pub epoch: u64,
    /// What is to be told of what it brought.
    pub notes: Notes,
}

/// What of a configuration and its settings was taken and does not do what it looks like (SEEDS S34), and what it did to those that run.
#[derive(Clone, Debug)]
pub struct Notes {
    config: Arc<LoadedConfig>,
    consequences: Vec<Fault>,
    of_extra: Vec<Fault>,
    ignored: Vec<String>,
    process_wide: Vec<String>,
}

fn of_extra(rule: &'static str, what: String) -> Fault {
    Fault { line: 0, column: 0, rule, message: format!("{what} (extraConfig)") }
}

impl Notes {
    /// `extra`: settings that were accepted; those that cannot be read count as their defaults.
    fn new(config: &Arc<LoadedConfig>, extra: &BTreeMap<String, String>, ignored: Vec<String>) -> Notes {
        let unread = table::unreadable(extra).into_iter().map(|what| format!("{what}: it counts as the default"));
        let unread = unread.chain(table::unknown(extra)).map(|what| of_extra("CFG-110", what)).collect();
        let process_wide = extra.iter().filter(|(key, _)| table::is_of_server(key));
        let process_wide = process_wide.map(|(key, value)| format!("{key}={value}")).collect();
        Notes { config: config.clone(), consequences: Vec::new(), of_extra: unread, ignored, process_wide }
    }

    /// What was taken, for the audit log: the checksum of the configuration's text, and the settings of the whole process.
    pub fn audited(&self) -> String {
        let checksum = &self.config.checksum;
        match &*self.process_wide {
            [] => format!("checksum {checksum}"),
            settings => format!("checksum {checksum}; {}", settings.join(", ")),
        }
    }

    /// Keys of settings of the whole process, which it may not change.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// One by one. Those that concern what runs come first: they are few, and nothing else tells them.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.consequences.iter().chain(&self.of_extra).chain(self.config.notes())
    }
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

impl From<Refusals> for Refusal {
    /// Of several faults the first.
    fn from(refusals: Refusals) -> Self {
        match refusals {
            Refusals::Config(refused) => Refusal::new(RefusalKind::Invalid, refused.message),
            Refusals::Other(refusal) => refusal,
        }
    }
}

/// Bytes of what a registration says of its build, keys and values together.
const LONGEST_INFO: usize = 16_384;
/// How often one is looked for that was forgotten before it heard the message.
const LOOKS: usize = 3;
/// Bytes of the version and the policy group of a registration, which are kept, logged and shown.
const LONGEST_TEXT: usize = 1_024;

impl Topology {
    /// Registers a resource manager: all of it, or nothing changes (R1.11, CFG-090a).
    pub async fn register(self: &Arc<Self>, mut registration: Registration) -> Result<Registered, Refusals> {
        self.open()?;
        check_id(&registration.rm)?;
        let sizes = [
            ("version", registration.version.len(), LONGEST_TEXT),
            ("policyGroup", registration.policy_group.len(), LONGEST_TEXT),
            ("buildInfo", registration.build_info.iter().map(|(key, text)| key.len() + text.len()).sum(), LONGEST_INFO),
        ];
        if let Some((field, bytes, most)) = sizes.into_iter().find(|(_, bytes, most)| bytes > most) {
            let detail = format!("{field} has {bytes} bytes: at most {most} are allowed");
            return Err(Refusal::new(RefusalKind::Invalid, detail).into());
        }
        if let Some(why) = self.logs.get().and_then(|logs| logs.refuses(&registration.rm)) {
            return Err(Refusal::new(RefusalKind::Closing, why).into());
        }
        self.has_room_for(&registration.rm)?;
        let Sender { name, tenant } = registration.sender;
        let ignored = if tenant { take_process_wide(&mut registration.extra) } else { Vec::new() };
        let settings = self.read_settings(&registration.extra, tenant)?;
        let default_config = registration.config.is_empty();
        let config = self.load(registration.config, "registration of RM failed", name).await?;
        let shared = default_config && self.is_shared(&config);
        let extra = Arc::new(registration.extra);
        let policy_group: Arc<str> = registration.policy_group.into();
        for _ in 0..LOOKS {
            if let Some(leaders) = self.leaders.get()
                && let Err(refusal) = leaders.lead(&registration.rm).await
            {
                return Err(self.led_by(&registration.rm, refusal).await.into());
            }
            let handle = self.find_or_create(&registration.rm)?;
            let register = Register {
                version: registration.version.clone(),
                policy_group: policy_group.clone(),
                build_info: registration.build_info.clone(),
                config: config.clone(),
                default_config,
                shared,
                extra: extra.clone(),
                settings: settings.clone(),
                predicates: registration.predicates,
                state_dump: registration.state_dump,
                tenant,
                asked: registration.asked.clone(),
            };
            match handle.addr.send(register).await {
                Ok(Ok(epoch)) => {
                    log_notes(&registration.rm, &config);
                    self.process.log_ignored(&registration.rm, &ignored);
                    return Ok(Registered { epoch, notes: Notes::new(&config, &extra, ignored) });
                }
                // It was forgotten just now: a new one takes its place.
                Err(_) => self.open()?,
                Ok(Err(refusal)) if refusal.kind == RefusalKind::Unknown => self.open()?,
                Ok(Err(refusal)) => return Err(refusal.into()),
            }
        }
        Err(forgotten(&registration.rm).into())
    }

    /// Opens a stream that waits for the registration of a resource manager, known or not: its lines go to `to`.
    ///
    /// # Errors
    /// The id is no id, or the server ends.
    pub async fn wait_for_registration(
        self: &Arc<Self>,
        rm: &str,
        door: &'static str,
        predicates: Predicates,
        to: UnboundedSender<ToStream>,
    ) -> Result<OpenStream, Refusal> {
        for _ in 0..LOOKS {
            let handle = self.find_or_create(rm)?;
            match OpenStream::attach(&handle.addr, door, Want::Next { predicates }, to.clone()).await {
                Ok(opened) => return opened,
                // The last stream that waited was closed just now, and it was forgotten with that.
                Err(_) => self.open()?,
            }
        }
        Err(forgotten(rm))
    }

    /// One more session would not take the files that the others need.
    fn has_room_for(&self, rm: &str) -> Result<(), Refusal> {
        let has_session = |handle: &RmHandle| handle.view.load().shared.is_some();
        if self.find(rm).is_some_and(|handle| has_session(&handle)) {
            return Ok(());
        }
        let (running, most) = (self.known().iter().filter(|handle| has_session(handle)).count(), limits::sessions());
        if running < most {
            return Ok(());
        }
        let detail = format!(
            "{running} resource managers have a session, which is the limit of this server (a quarter of the files that it may open): \
             one of them has to unregister first"
        );
        Err(Refusal::new(RefusalKind::Busy, detail))
    }

    /// Updates the configuration of a resource manager (R1.12–R1.15), and gives what is to be told of it; a refused update
    /// changes nothing (SEEDS S23). `policy_group`: the one that the update is for; empty where it names none. `epoch`: the session
    /// that it is for; `None`: the one that runs.
    pub async fn configure(
        &self,
        rm: &str,
        epoch: Option<u64>,
        policy_group: &str,
        text: String,
        mut extra: BTreeMap<String, String>,
        Sender { name, tenant }: Sender,
    ) -> Result<Notes, Refusals> {
        self.open()?;
        let unknown = || Refusal::new(RefusalKind::Unknown, no_partitions(rm));
        let handle = self.look_up(rm).await?.ok_or_else(unknown)?;
        let ignored = if tenant { take_process_wide(&mut extra) } else { Vec::new() };
        let settings = self.read_settings(&extra, tenant)?;
        let default_config = text.is_empty();
        let config = self.load(text, UPDATE, name).await?;
        let shared = default_config && self.is_shared(&config);
        let extra = Arc::new(extra);
        let message = Reconfigure {
            config: config.clone(),
            default_config,
            shared,
            only_default: false,
            only_shared: false,
            policy_group: policy_group.into(),
            extra: Some((extra.clone(), settings)),
            tenant,
            epoch,
        };
        let InForce { tried, later } = handle.addr.send(message).await.unwrap_or_else(|_| Err(closing().into()))?;
        log_notes(rm, &config);
        let later: Vec<Fault> = later.into_iter().map(|what| of_extra("CFG-116", what)).collect();
        for note in &later {
            tracing::warn!(code = "configuration-note", rm, "configuration: {note}");
        }
        self.process.log_ignored(rm, &ignored);
        let consequences = tell_consequences(rm, tried).await;
        let mut notes = Notes { consequences, ..Notes::new(&config, &extra, ignored) };
        notes.of_extra.extend(later);
        Ok(notes)
    }

    /// Reads and checks a configuration as an update would; an empty text is the server's own. Nothing is applied. A registration runs
    /// a partition whose rules cannot be built without any, an update is refused (CFG-098). `caller`: who has it read, for its turn.
    pub async fn load_update(&self, text: String, caller: String) -> Result<Arc<LoadedConfig>, Refusals> {
        let config = self.load(text, UPDATE, caller).await?;
        check_rules(&config)?;
        Ok(config)
    }

    /// The same on the thread of the caller, which has to be one that may take its time. Its rules are not checked.
    pub fn load_here(&self, text: &str) -> Result<Arc<LoadedConfig>, Refusals> {
        if text.is_empty() {
            return Ok(lock(&self.defaults).present());
        }
        crate::config::load(text).map(Arc::new).map_err(|refused| prefixed(refused, UPDATE))
    }

    /// What the extra configuration of a resource manager says about it; a tenant may take only so much.
    fn read_settings(&self, extra: &BTreeMap<String, String>, tenant: bool) -> Result<RmSettings, Refusal> {
        let invalid = |detail| Refusal::new(RefusalKind::Invalid, detail);
        let settings = RmSettings::read(extra).map_err(invalid)?;
        if tenant {
            table::check_most(extra).map_err(|fault| invalid(format!("extraConfig {fault}")))?;
        }
        let most = self.limits.items();
        match settings.max_items.filter(|items| *items > most) {
            None => Ok(settings),
            Some(items) => Err(invalid(format!(
                "extraConfig rm.maxItems: \"{items}\" is more than this server takes in a request, which is {most}: it has to be \
                 started with a larger --rm-max-items"
            ))),
        }
    }

    async fn load(&self, text: String, what: &str, caller: String) -> Result<Arc<LoadedConfig>, Refusals> {
        if text.is_empty() {
            return Ok(lock(&self.defaults).present());
        }
        let turn = self.loads.take(caller).await;
        let turn = turn.map_err(|busy| Refusal::new(RefusalKind::Closing, format!("{what}: {busy}")))?;
        // A large text takes a while: not on the thread of a door.
        let loaded = spawn_blocking(move || {
            // It keeps its place until it is done, as it takes memory whether or not anybody waits.
            let _turn = turn;
            crate::config::load(&text)
        })
        .await;
        let loaded = loaded.map_err(|_| Refusal::new(RefusalKind::Invalid, format!("{what}: unreadable")))?;
        loaded.map(Arc::new).map_err(|refused| prefixed(refused, what))
    }
}

fn forgotten(rm: &str) -> Refusal {
    Refusal::new(RefusalKind::State, format!("resource manager \"{rm}\" was forgotten while it registered: try again"))
}

/// Notes on a configuration that are logged; one may have a fault in each of many queues.
const LOGGED_NOTES: usize = 20;

/// What is accepted and does not do what it looks like (SEEDS S34).
fn log_notes(rm: &str, config: &LoadedConfig) {
    for note in config.notes().take(LOGGED_NOTES) {
        tracing::warn!(code = "configuration-note", rm, "configuration: {note}");
    }
    let more = config.notes().count().saturating_sub(LOGGED_NOTES);
    if more > 0 {
        tracing::warn!(
            code = "configuration-note",
            rm,
            "configuration: {more} more of these; callboard validate lists all"
        );
    }
}

/// Applications and quotas of which the answer to a configuration tells, and the log: a queue may have any number of applications.
const CONSEQUENCES: usize = 20;

/// What a configuration did to what runs, as `plan` would have told before: in the log, and given back.
pub(super) async fn tell_consequences(rm: &str, tried: Vec<Tried>) -> Vec<Fault> {
    if tried.is_empty() {
        return Vec::new();
    }
    let now = Clock::default().now();
    let notes = spawn_blocking(move || {
        let fault = |(rule, message)| Fault { line: 0, column: 0, rule, message };
        let (mut notes, mut more) = (Vec::new(), 0);
        for Tried { before, after } in &tried {
            let (some, beyond) =
                before.partition.notes(after.as_ref().map(|after| &after.partition), now, CONSEQUENCES - notes.len());
            notes.extend(some.into_iter().map(fault));
            more += beyond;
        }
        if more > 0 {
            let text = format!(
                "{more} more applications or quotas: callboard plan lists them, before a configuration is taken"
            );
            notes.push(fault(("PLC-053", text)));
        }
        notes
    })
    .await;
    // The configuration is in force, whatever breaks down here; the log has it.
    let notes = notes.unwrap_or_default();
    for note in &notes {
        tracing::warn!(code = "configuration-consequence", rm, "configuration: {}: {}", note.rule, note.message);
    }
    notes
}

/// Refuses an update whose rules cannot be built (CFG-098).
pub fn check_rules(config: &LoadedConfig) -> Result<(), Refusals> {
    config.check_rules().map_err(|refused| prefixed(refused, UPDATE))
}

fn prefixed(mut refused: Refused, what: &str) -> Refusals {
    refused.message = format!("{what}: {}", refused.message);
    Refusals::Config(refused)
}
