//! One session of a resource manager: its partitions, credits and lines. All of it is dropped when the session ends.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use tokio::sync::watch;

use super::{
    buffer::Buffer,
    handle::Shared,
    lines,
    log::{LogSync, RmLog},
    questions::Questions,
    record::{self, Manner, Registered},
    repeated::Repeatable,
    settings::{RmSettings, fixed_of},
    streams::Streams,
    traced::Traced,
};
use crate::{
    actors::topology::PartitionHandle,
    config::{LoadedConfig, table},
    domain::{
        command::{Command, PredicateAnswer, PredicateTerms},
        effect::Question,
        resources::Types,
        turns::Turns,
        types::Nanos,
    },
    messages::{
        application::ResendUnconfirmed,
        budget::Budget,
        journal::ConfigureJournal,
        keys::Keys,
        partition::{Carries, Commands, Signs, Wake},
        receipts::Receipts,
        recorded::Outlet,
        rm::{Forwarding, Line, Predicates},
    },
};

/// See the module.
pub struct Session {
    /// Its number.
    pub epoch: u64,
    /// When it began.
    pub registered: Nanos,
    /// Build information with `rmId` (R1.9).
    pub build_info: BTreeMap<String, String>,
    /// Policy group as given.
    pub policy_group: Arc<str>,
    /// Configuration in force.
    pub config: Arc<LoadedConfig>,
    /// It is the server's own.
    pub default_config: bool,
    /// It is the one that holds for all servers of a cluster, or held.
    pub shared_config: bool,
    /// Extra configuration in force.
    pub extra: Arc<BTreeMap<String, String>>,
    /// What the extra configuration says about the resource manager.
    pub settings: RmSettings,
    /// Credits of the session.
    pub budget: Arc<Budget>,
    /// The resource types that it names.
    pub types: Arc<Types>,
    /// Its numbered requests.
    pub receipts: Arc<Receipts>,
    /// Its requests that are on their way to the actor.
    pub forwarding: Forwarding,
    /// Settings of its extra configuration that are read at registration alone, as they were then.
    pub fixed: BTreeMap<String, String>,
    /// How many partitions that a configuration removed are still ending, since before a restart. They record until their end:
    /// no snapshot is taken before, and no other partition begins under their names.
    pub leaving: Arc<watch::Sender<usize>>,
    /// The keys of its requests.
    pub keys: Arc<Keys>,
    /// Partitions in the order of the configuration.
    pub partitions: Vec<PartitionHandle>,
    /// Lines that the shim may still ask for.
    pub buffer: Buffer,
    /// Callbacks of traced requests that no stream has yet.
    pub traced: Traced,
    /// How the shim registered.
    pub predicates: Predicates,
    /// How it is asked now.
    pub asking: Predicates,
    /// It answers state dump requests.
    pub state_dump: bool,
    /// Open questions.
    pub questions: Questions,
    /// Whose turn it is to ask about constrained asks.
    pub turns: Turns,
    /// What the partitions were told of how to ask.
    pub terms: PredicateTerms,
    /// A response stream was open at some time.
    pub had_stream: bool,
    /// Its nodes are vouched for, as the partitions know it.
    pub vouched: bool,
    /// A heartbeat for a node of it was sent.
    pub heartbeats: bool,
    /// Version of the interface client.
    pub version: String,
    /// It leaves the settings of the whole process as they are.
    pub tenant: bool,
    /// Number of the next partition, counted over all of the session.
    pub instances: Cell<u32>,
    /// Where events of its partitions wait for the log.
    pub outlets: RefCell<Vec<Arc<Outlet>>>,
    /// Number of the last record that came from each partition.
    pub received: BTreeMap<u32, u64>,
    /// It was there before this process: all of it comes from the log.
    pub restored: bool,
    /// It was logged that its shim has lines which the session never had.
    pub is_ahead: bool,
    /// What its log says of it that is not in other records.
    pub manner: Manner,
}

/// Nodes that one question names at most, where the shim answers for several.
const BATCH_NODES: usize = 256;

impl Session {
    /// What the doors see of it; `max_items` is the server's own limit.
    pub fn shared(&self, max_items: usize, recorded: bool) -> Shared {
        Shared {
            budget: self.budget.clone(),
            types: self.types.clone(),
            max_items: self.settings.max_items.unwrap_or(max_items),
            receipts: self.receipts.clone(),
            keys: self.keys.clone(),
            recorded,
            forwarding: self.forwarding.clone(),
        }
    }

    /// Internal names of the partitions.
    pub fn partition_names(&self) -> Vec<Arc<str>> {
        self.partitions.iter().map(|partition| partition.internal.clone()).collect()
    }

    /// The partition of this internal name.
    pub fn partition(&self, internal: &str) -> Option<&PartitionHandle> {
        self.partitions.iter().find(|partition| *partition.internal == *internal)
    }

    /// Logs that the shim has lines which this session never had: the log has lost the records that they came of.
    pub fn say_ahead(&mut self, rm: &str, after: Option<u64>, log: Option<&RmLog>) {
        let known = self.buffer.known(self.restored);
        let Some(after) = after.filter(|after| self.restored && *after > known) else { return };
        if std::mem::replace(&mut self.is_ahead, true) {
            return;
        }
        tracing::error!(
            code = "log-behind-shim",
            rm,
            epoch = self.epoch,
            has = after,
            known,
            "its shim has lines that the log does not tell of, and is told to register again: was an older state restored?"
        );
        log.iter().for_each(|log| log.count_lost());
    }

    /// Credits came back, and what weighed `arrived` is in the buffer now: placements that waited for them go on.
    pub fn give_back(&self, credits: usize, arrived: i64) {
        let delivered = self.budget.delivered(credits);
        if self.budget.holds(self.buffer.waits(), arrived) || delivered {
            self.wake();
        }
    }

    /// The session is no longer Paused.
    pub fn resume_placements(&self) {
        self.budget.pause(false);
        self.wake();
    }

    /// Placements that waited go on.
    pub fn wake(&self) {
        for partition in &self.partitions {
            partition.wake.do_send(Wake);
        }
    }

    /// The stream on which the shim is to be asked is gone. Before the first one, questions wait for it.
    pub fn asks_nobody(&self, streams: &Streams) -> bool {
        self.asking != Predicates::Off && self.had_stream && streams.all.is_none()
    }

    /// From now on the shim is asked this way.
    pub fn ask(&mut self, wanted: Predicates) {
        let (before, after) = (self.asking != Predicates::Off, wanted != Predicates::Off);
        self.asking = wanted;
        self.tell_terms();
        if before != after {
            if !after {
                // What is open counts as fitting.
                self.questions.give_up();
            }
            self.command_all(|| Command::AskPredicates(after));
        }
    }

    /// The partitions learn how to ask, where that changed.
    pub fn tell_terms(&mut self) {
        let nodes = if matches!(self.asking, Predicates::Batch | Predicates::Several) { BATCH_NODES } else { 1 };
        let shared = self.asking != Predicates::Off && self.partitions.len() > 1;
        let terms = PredicateTerms { constrained: self.settings.constrained, nodes, shared };
        if terms != self.terms {
            self.terms = terms;
            self.command_all(|| Command::PredicateTerms(terms));
        }
        self.turns.among(if shared { self.partition_names() } else { Vec::new() });
        self.pass_turns();
    }

    /// Hands on what was said about turns.
    pub fn pass_turns(&mut self) {
        for (partition, commands) in self.turns.take() {
            self.send(&partition, commands);
        }
    }

    /// Asks that wait long enough reserve a node (R5.37).
    pub fn reserves(&self, default: bool) -> bool {
        self.settings.reservations.unwrap_or(default)
    }

    /// A partition that starts learns how the shim is asked, and what holds for the session.
    pub fn welcome(&self, partition: &PartitionHandle, reserves: bool) {
        if self.terms != PredicateTerms::default() {
            partition.send(self.epoch, vec![Command::PredicateTerms(self.terms)]);
        }
        if self.asking != Predicates::Off {
            partition.send(self.epoch, vec![Command::AskPredicates(true)]);
        }
        if self.settings.all_container_states {
            partition.send(self.epoch, vec![Command::ContainerStates(true)]);
        }
        if !self.reserves(reserves) {
            partition.send(self.epoch, vec![Command::Reservations(false)]);
        }
        partition.configure_journal(self.settings.journal_events);
        if self.heartbeats {
            // From now on only they count there too.
            partition.tell_alive(self.epoch, Signs::Heartbeats, None);
        } else if self.vouched {
            partition.tell_alive(self.epoch, Signs::Vouched(true), None);
        }
    }

    /// The journals of all partitions go by the settings in force.
    pub fn configure_journals(&self) {
        for partition in &self.partitions {
            partition.configure_journal(self.settings.journal_events);
        }
    }

    /// As its log has it, at this moment.
    pub fn registration(&self, sync: LogSync, repeatable: &[Repeatable]) -> Registered {
        Registered {
            epoch: self.epoch,
            at: self.registered.0,
            version: self.version.clone(),
            policy_group: self.policy_group.clone(),
            build_info: self.build_info.clone(),
            config: self.config.text.clone(),
            default_config: self.default_config,
            extra: self.extra.clone(),
            predicates: record::number_of(self.predicates),
            state_dump: self.state_dump,
            tenant: self.tenant,
            sync,
            events: None,
            fixed: Some(self.fixed.clone()),
            shared: self.shared_config,
            repeatable: repeatable.to_vec(),
        }
    }

    /// Settings that are in force since it began, whatever was set later.
    pub fn at_registration(&self, sync: LogSync) -> BTreeMap<&'static str, String> {
        let [inward, outward] = self.budget.whole();
        let as_said = |key: &'static str| {
            let default = || table::find(key).and_then(|row| row.default.map(str::to_owned));
            (key, self.fixed.get(key).cloned().or_else(default).unwrap_or_default())
        };
        BTreeMap::from([
            ("log.sync", sync.to_string()),
            as_said("rm.bufferedBytes"),
            as_said("rm.bufferedCallbacks"),
            as_said("rm.gracePeriod"),
            ("rm.itemsInFlight", inward.to_string()),
            ("rm.undeliveredCallbacks", outward.to_string()),
        ])
    }

    /// Settings of a new extra configuration that differ from those at registration and are read only then: those stay in force.
    pub fn not_yet(&self, extra: &BTreeMap<String, String>, sync: LogSync) -> Vec<String> {
        let in_force = self.at_registration(sync);
        let mut told = Vec::new();
        for (key, text) in fixed_of(extra) {
            let (Some(row), Some(present)) = (table::find(&key), in_force.get(&*key)) else { continue };
            // A setting in force may be smaller than what was asked for.
            let said = self.fixed.get(&key).map(String::as_str).or(row.default).unwrap_or(present);
            if row.read(&text) != row.read(said) {
                told.push(format!(
                    "{key}: it is read at registration alone: until the next one {present} stays in force"
                ));
            }
        }
        told
    }

    /// What of it is in no other record.
    pub fn present_manner(&self) -> Manner {
        Manner { asking: record::number_of(self.asking), had_stream: self.had_stream, heartbeats: self.heartbeats }
    }

    /// Nobody will answer what is open.
    pub fn give_up_questions(&mut self) {
        for (partition, questions) in self.questions.give_up() {
            self.unanswered(&partition, questions);
        }
    }

    /// Tells the partition that asked that nobody will answer.
    pub fn unanswered(&self, partition: &str, questions: impl IntoIterator<Item = u64>) {
        self.send(partition, questions.into_iter().map(Command::Unanswered).collect());
    }

    /// A shim that is not asked takes every node.
    pub fn agree(&self, partition: &str, questions: &[Question]) {
        self.send(
            partition,
            questions.iter().map(|question| Command::Predicate(PredicateAnswer::fits(question.id))).collect(),
        );
    }

    /// Hands answers to the partition that asked.
    pub fn send_answers(&self, partition: Arc<str>, answers: Vec<PredicateAnswer>) {
        self.send(&partition, answers.into_iter().map(Command::Predicate).collect());
    }

    fn send(&self, partition: &str, commands: Vec<Command>) {
        if let Some(partition) = self.partition(partition) {
            partition.send(self.epoch, commands);
        }
    }

    /// Sends a command to every partition.
    pub fn command_all(&self, command: impl Fn() -> Command) {
        for partition in &self.partitions {
            partition.send(self.epoch, vec![command()]);
        }
    }

    /// Lets the conversations know in which line the shim gets what it has to confirm. They keep it, so that nobody looks
    /// through all lines when a stream is opened.
    pub fn carries(&self, line: &Arc<Line>) {
        if lines::wants_confirmation(&line.payload)
            && let Some(partition) = self.partition(&line.partition)
        {
            partition.carries.do_send(Carries(line.clone()));
        }
    }

    /// Has the conversations send what the shim has not confirmed once more, except for what a new stream is about to
    /// get: the lines after this one.
    pub fn resend_unconfirmed(&self, after: u64) {
        for partition in &self.partitions {
            partition.resend.do_send(ResendUnconfirmed { after });
        }
    }
}

impl PartitionHandle {
    fn configure_journal(&self, events: usize) {
        if let Some(journal) = &self.journal {
            journal.do_send(ConfigureJournal(events));
        }
    }

    /// Sends commands that take no credits.
    pub fn send(&self, epoch: u64, commands: Vec<Command>) {
        self.commands.do_send(Commands::of(epoch, commands));
    }
}
