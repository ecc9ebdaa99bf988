//! A server with one resource manager, without actors: the partitions, and the session with its log, lines, streams, credits,
//! questions and numbered requests, put together in one thread with a clock that the simulation moves.
//!
//! The parts are those of the server; how they are wired is what `PartitionActor` and `RmActor` do with messages.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    case::World,
    cluster::Cluster,
    disk::Disk,
    groups::Lookup,
    journal::{self, Kept, Told},
    rules::{Fault, Rules},
};
use crate::{
    actors::{
        partition::recorder::Recorder,
        rm::{
            RmSettings,
            buffer::Buffer,
            lines,
            log::{LogSync, Logs, RmLog},
            questions::Questions,
            record::{self, Manner, Registered, kind},
            streams::Streams,
        },
        ugm::Known,
    },
    config,
    domain::{
        Partition,
        command::{Command, PredicateAnswer, PredicateTerms},
        effect::{Callback, Effect},
        log::{Input, Step},
        partition::Done,
        resources::Types,
        turns::Turns,
        types::{Nanos, Termination},
    },
    messages::{
        budget::{Budget, Permit},
        partition::Saved,
        receipts::{PartOf, Place, Receipts},
        recorded::Talks,
        rm::{Closing, ClosingKind, Deliver, Kind, Line, Outgoing, Payload, Predicates},
    },
    store::log::{self, Home},
};

/// The resource manager.
pub const RM: &str = "rm-1";

/// A partition with what belongs to it.
pub struct Live {
    /// Its number in the session.
    pub instance: u32,
    /// Its internal name.
    pub internal: Arc<str>,
    /// The rules' part, with all rows.
    pub partition: Partition,
    /// What its conversations know.
    pub talks: Talks,
    pub(super) recorder: Recorder,
    pub(super) effects: Vec<Effect>,
    /// How it was with its last record, and which one that was in the log.
    pub marks: Vec<Mark>,
    /// What it has not read yet.
    pub(super) inbox: VecDeque<(Vec<Command>, Option<Permit>)>,
    /// What waits for a directory, and holds up the others.
    pub(super) lookup: Option<Lookup>,
    /// What is known of users, and since when what is too old was not dropped.
    pub(super) known: (Known, Nanos),
}

impl Live {
    /// One that nothing has come to yet.
    pub(super) fn new(
        instance: u32,
        internal: Arc<str>,
        partition: Partition,
        talks: Talks,
        recorder: Recorder,
    ) -> Live {
        Live {
            instance,
            internal,
            partition,
            talks,
            recorder,
            effects: Vec::new(),
            marks: Vec::new(),
            inbox: VecDeque::new(),
            lookup: None,
            known: Default::default(),
        }
    }
}

/// See [`Live::marks`].
pub struct Mark {
    /// Index in the log.
    pub index: u64,
    /// Number among the records of the partition.
    pub number: u64,
    /// The state then.
    pub partition: Partition,
    /// What the conversations knew then.
    pub talks: Talks,
}

/// See the module.
pub struct Server {
    /// Where the log is.
    pub logs: Arc<Logs>,
    /// The log.
    pub log: RmLog,
    /// Where several servers take turns with it.
    pub cluster: Option<Cluster>,
    is_led: bool,
    /// Its disk.
    pub(super) disk: Disk,
    /// The present time.
    pub now: Nanos,
    /// Number of the session, counted up with each registration.
    pub epoch: u64,
    /// What it registered with.
    pub registered: Registered,
    /// What holds of it otherwise.
    pub manner: Manner,
    /// Its settings.
    pub settings: RmSettings,
    /// Its lines.
    pub buffer: Buffer,
    /// All lines that it ever had, whether they are kept or not: number n at place n − 1.
    pub history: Vec<Arc<Line>>,
    /// The last line, with each record that has one: how far lines follow from the log.
    pub told: Vec<(u64, u64)>,
    /// Its streams.
    pub streams: Streams,
    /// Credits of the session: how much of what it sends may be under way.
    pub budget: Arc<Budget>,
    /// Resource types.
    pub types: Arc<Types>,
    /// Numbered requests.
    pub receipts: Arc<Receipts>,
    /// Open questions.
    pub questions: Questions,
    /// Whose turn it is to ask about constrained asks.
    pub turns: Turns,
    /// What partitions were told of how to ask.
    pub terms: PredicateTerms,
    /// Messages to partitions by internal name, which they have not read.
    pub later: VecDeque<(Arc<str>, Vec<Command>)>,
    pub(super) reading: bool,
    /// How the shim is asked.
    pub asking: Predicates,
    /// A stream was open at some time.
    pub had_stream: bool,
    /// It was there before this process.
    pub restored: bool,
    /// The partitions of the session, in the order of their beginning.
    pub parts: Vec<Live>,
    /// Number of the next partition.
    pub instances: u32,
    /// Snapshots that are kept: as `RmLog` has them.
    pub snapshots: Vec<(u64, u64)>,
    /// When the process began.
    pub(super) started: Nanos,
    /// The journals of partitions by internal name, as far as this process has read them, and where they are.
    pub(super) journals: BTreeMap<Arc<str>, Kept>,
    pub(super) journal_base: PathBuf,
    /// What operators were told, by internal name: it outlives every process.
    pub(super) told_operators: BTreeMap<Arc<str>, Told>,
    /// Users that a directory is to be asked about, with the number of the look-up.
    pub wanted: Vec<(u64, Vec<Arc<str>>)>,
    pub(super) lookups: u64,
    /// Since when no stream is open.
    pub(super) paused: Option<Nanos>,
    /// The session ended, as no stream came back in time.
    pub stopped: bool,
    /// A snapshot whose first half was taken.
    pub(super) halves: Option<(u64, Vec<Saved>)>,
    /// Bytes of the newest segment that are on the disk for certain, and which one that is.
    pub flushed: (PathBuf, u64),
    /// Decisions of one call at most.
    chunk: usize,
    pub(super) next_stream: u64,
    /// Time zero, for what counts in the process's own time.
    pub epoch_instant: (Instant, Nanos),
    /// What holds whatever happens.
    pub rules: Rules,
    /// What did not.
    pub faults: Vec<Fault>,
    /// Records, commands and decisions so far.
    pub counts: Counts,
}

/// How much happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Commands that entered partitions.
    pub commands: u64,
    /// Calls that decided, and the decisions that they made.
    pub decisions: u64,
    /// Lines for the shim.
    pub lines: u64,
    /// Placeholders that were told to go for a real ask.
    pub swaps: u64,
    /// Allocations that were told to go for another ask.
    pub victims: u64,
    /// Questions to directories.
    pub lookups: u64,
    /// Sessions that ended as no stream came back.
    pub stops: u64,
    /// Number of restarts.
    pub restarts: u64,
    /// Restarts that began with a snapshot.
    pub snapshots: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: Counts) {
        self.commands += other.commands;
        self.decisions += other.decisions;
        self.lines += other.lines;
        self.swaps += other.swaps;
        self.victims += other.victims;
        self.lookups += other.lookups;
        self.stops += other.stops;
        self.restarts += other.restarts;
        self.snapshots += other.snapshots;
    }
}

impl Server {
    /// A server whose resource manager registers just now.
    ///
    /// # Errors
    /// The world cannot be.
    pub fn new(world: &World, seed: u64, dir: &Path, now: Nanos) -> Result<Server, String> {
        let logs = Arc::new(Logs {
            base: dir.join("log"),
            server: "simulated".to_owned(),
            sync: world.sync,
            snapshot: u64::MAX,
            metrics: None,
            shared: false,
            unread: Default::default(),
            gone: Default::default(),
        });
        let settings = RmSettings::read(&world.extra)?;
        let cluster = world.etcd.map(|doubts| Cluster::new(seed, doubts, RM)).transpose()?;
        let home = cluster.as_ref().map_or_else(|| Home::Here(logs.directory(RM)), |led| Home::Far(led.group.clone()));
        let log = RmLog::new(logs.clone(), home, RM, world.sync, 1, now);
        let registered = Registered {
            epoch: 0,
            at: now.0,
            version: "simulated".to_owned(),
            policy_group: "queues".into(),
            build_info: BTreeMap::new(),
            config: world.configs[0].as_str().into(),
            default_config: false,
            shared: false,
            extra: Arc::new(world.extra.clone()),
            predicates: world.shim.asked,
            state_dump: false,
            tenant: true,
            sync: world.sync,
            events: None,
            fixed: None,
            repeatable: Vec::new(),
        };
        let budget = Budget::within(settings.inward, settings.outward, settings.bounds);
        let mut server = Server {
            logs,
            log,
            disk: Disk::default(),
            is_led: cluster.is_some(),
            cluster,
            now,
            epoch: 0,
            registered,
            manner: Manner::default(),
            settings,
            buffer: Buffer::default(),
            history: Vec::new(),
            told: Vec::new(),
            streams: Streams::default(),
            budget,
            types: Arc::default(),
            receipts: Receipts::after(0, Default::default()),
            questions: Questions::default(),
            turns: Turns::default(),
            terms: PredicateTerms::default(),
            later: VecDeque::new(),
            reading: false,
            asking: Predicates::Off,
            had_stream: false,
            restored: false,
            parts: Vec::new(),
            instances: 0,
            snapshots: Vec::new(),
            started: now,
            journals: BTreeMap::new(),
            journal_base: dir.join("journal"),
            told_operators: BTreeMap::new(),
            wanted: Vec::new(),
            lookups: 0,
            paused: None,
            stopped: false,
            halves: None,
            flushed: (PathBuf::new(), 0),
            chunk: world.chunk,
            next_stream: 0,
            epoch_instant: (Instant::now(), now),
            rules: Rules::default(),
            faults: Vec::new(),
            counts: Counts::default(),
        };
        server.register()?;
        Ok(server)
    }

    pub(super) fn fault(&mut self, rule: &'static str, text: String) {
        self.faults.push(Fault { rule, text });
    }

    /// A time of the simulation as one of the process.
    pub fn instant(&self, at: Nanos) -> Instant {
        self.epoch_instant.0 + Duration::from_nanos(at.minus(self.epoch_instant.1).0.max(0) as u64)
    }

    /// A time of the process as one of the simulation.
    pub fn time_of(&self, at: Instant) -> Nanos {
        let passed = at.saturating_duration_since(self.epoch_instant.0).as_nanos();
        self.epoch_instant.1.plus(Nanos(i64::try_from(passed).unwrap_or(i64::MAX)))
    }

    /// A session begins, in the place of the one before.
    ///
    /// # Errors
    /// Its configuration is refused.
    pub fn register(&mut self) -> Result<(), String> {
        let config = config::load(&self.registered.config).map_err(|refused| refused.to_string())?;
        self.end_session();
        (self.stopped, self.paused) = (false, Some(self.now));
        self.epoch += 1;
        self.registered.epoch = self.epoch;
        self.registered.at = self.now.0;
        self.budget = Budget::within(self.settings.inward, self.settings.outward, self.settings.bounds);
        self.budget.pause(true);
        self.receipts = Receipts::after(0, Default::default());
        self.questions = Questions::default();
        (self.turns, self.terms) = (Turns::default(), PredicateTerms::default());
        self.later.clear();
        (self.asking, self.had_stream, self.restored) = (Predicates::Off, false, false);
        (self.instances, self.halves) = (0, None);
        (self.history, self.told) = (Vec::new(), Vec::new());
        self.snapshots.clear();
        self.buffer = Buffer::default();
        self.buffer.hold_back();
        self.manner = Manner::default();
        self.rules.begin();
        self.log.begin_session(&self.registered, self.now);
        self.commit();
        for conf in &config.partitions {
            self.launch(conf.clone());
        }
        Ok(())
    }

    /// Something enters a partition.
    pub(super) fn enter(&mut self, at: usize, input: Input) -> Done {
        let live = &mut self.parts[at];
        let now = live.recorder.time(self.now);
        match &input {
            Input::Apply(command) => {
                self.counts.commands += 1;
                live.recorder.apply(command, now);
            }
            Input::Schedule { max } => live.recorder.schedule(*max, now),
            Input::Dismantle { max } => live.recorder.dismantle(*max, now),
        }
        let from = live.effects.len();
        let step = Step { at: now, input };
        let done = live.partition.replay(step.clone(), &mut live.effects);
        live.effects[from..].iter().for_each(|effect| live.talks.take(effect, now));
        self.rules.step(&live.internal, &live.partition, &step, &live.effects[from..], &mut self.faults);
        if matches!(step.input, Input::Schedule { .. }) {
            self.counts.decisions += done.made as u64;
        }
        done
    }

    /// Commands enter a partition, and what they make possible is placed.
    pub fn commands(&mut self, at: usize, commands: Vec<Command>, permit: Option<Permit>) {
        if commands.is_empty() && permit.is_none() {
            return;
        }
        self.parts[at].recorder.hold(permit);
        for command in commands {
            self.enter(at, Input::Apply(command));
        }
        self.slice(at);
    }

    /// Commands enter every partition.
    pub fn command_all(&mut self, command: impl Fn() -> Command) {
        for at in 0..self.parts.len() {
            self.commands(at, vec![command()], None);
        }
    }

    /// Decides as long as there is something to decide.
    pub fn slice(&mut self, at: usize) {
        let mut calls = 0;
        loop {
            if !self.budget.may_place() {
                break;
            }
            let done = self.enter(at, Input::Schedule { max: self.chunk });
            calls += 1;
            if !done.may_go_on(self.chunk) {
                let live = &self.parts[at];
                self.rules.rested(&live.internal, &live.partition, self.now, &mut self.faults);
                break;
            }
            if calls > 10_000 {
                self.fault("an end", format!("{} decides without an end", self.parts[at].internal));
                break;
            }
        }
        self.route(at);
        self.read_messages();
    }

    pub(super) fn route(&mut self, at: usize) {
        let live = &self.parts[at];
        if !live.effects.is_empty() || live.recorder.is_urgent() {
            self.leave(at);
        }
    }

    /// What came of it leaves, as one record.
    pub(super) fn leave(&mut self, at: usize) {
        let live = &mut self.parts[at];
        let entry = live.recorder.entry(&live.effects);
        let facts = journal::facts(&live.effects);
        for effect in &live.effects {
            if let Effect::Callback(Callback::Released(released)) = effect {
                self.counts.swaps +=
                    u64::from(released.confirm && released.termination == Termination::PlaceholderReplaced);
                self.counts.victims += u64::from(released.confirm && released.termination == Termination::Preempted);
            }
        }
        let mut turns = Vec::new();
        let items: Vec<Outgoing> = live
            .effects
            .drain(..)
            .filter_map(|effect| match effect {
                Effect::Callback(callback) => Some(Outgoing::Callback(callback)),
                Effect::Ask(question) => Some(Outgoing::Ask(question)),
                Effect::Turn(word) => {
                    turns.push(word);
                    None
                }
                _ => None,
            })
            .collect();
        let (number, internal) = (entry.number, live.internal.clone());
        self.post(&internal, facts);
        self.budget.made(items.len(), 0);
        self.deliver(Deliver {
            epoch: self.epoch,
            partition: internal,
            items,
            turns,
            entry: Some(entry),
            traced: Vec::new(),
            weight: 0,
        });
        let (index, live) = (self.log.last(), &mut self.parts[at]);
        let (partition, talks) = (live.partition.clone(), live.talks.clone());
        live.marks.push(Mark { index, number, partition, talks });
        // What is on the disk for certain is not lost by any crash.
        let synced = self.log.shared.synced();
        let unneeded = live.marks.iter().take_while(|mark| mark.index <= synced).count().saturating_sub(1);
        live.marks.drain(..unneeded);
    }

    /// As `RmActor` takes what a partition delivers.
    pub(super) fn deliver(&mut self, msg: Deliver) {
        let mute = self.streams.all.is_none() && self.had_stream;
        let asks = if mute { Predicates::Off } else { self.asking };
        let handed = Kind::ALL.map(|kind| self.buffer.handed(kind));
        let recorded = msg.entry.is_some();
        self.log.deliver(&msg, asks, handed, self.now);
        let before = msg.items.len();
        let items = lines::wanted(msg.items, self.settings.all_container_states);
        let questions = items.iter().filter(|item| matches!(item, Outgoing::Ask(_))).count();
        let unwanted = before - items.len() + questions;
        for payload in lines::group(items, self.asking) {
            let questions = payload.questions();
            if questions.is_empty() {
                self.push(msg.partition.clone(), payload);
            } else if self.asking == Predicates::Off {
                let agreed = questions.iter().map(|question| Command::Predicate(PredicateAnswer::fits(question.id)));
                self.later.push_back((msg.partition.clone(), agreed.collect()));
            } else if mute {
                let over = questions.iter().map(|question| Command::Unanswered(question.id));
                self.later.push_back((msg.partition.clone(), over.collect()));
            } else {
                let (timeout, now) = (self.settings.predicates, self.instant(self.now));
                let id = self.buffer.last() + 1;
                self.questions.put(id, msg.partition.clone(), questions, now, timeout);
                self.push(msg.partition.clone(), payload);
            }
        }
        self.give_back(unwanted);
        msg.turns.iter().for_each(|turn| self.turns.on_message(&msg.partition, *turn));
        self.pass_turns();
        self.told.push((self.log.last(), self.buffer.last()));
        let (outlet, permits) = msg.entry.map_or_else(Default::default, |entry| {
            let entry = *entry;
            (Some((entry.outlet, entry.number)), entry.permits)
        });
        if recorded || before > 0 {
            self.log.wait(self.epoch, self.buffer.last(), outlet, permits);
        }
        self.commit();
    }

    pub(super) fn push(&mut self, partition: Arc<str>, payload: Payload) -> u64 {
        let line = self.buffer.push(partition, payload);
        if let (_, Some(kept)) = (line, self.buffer.kept_after(line - 1).1.pop()) {
            self.history.push(kept);
        }
        self.counts.lines += 1;
        line
    }

    pub(super) fn give_back(&self, credits: usize) {
        // Whoever waited is woken by the next look.
        let _ = self.budget.delivered(credits) | self.budget.holds(self.buffer.waits(), 0);
    }

    /// Has what was recorded written, where that is done at once.
    pub fn commit(&mut self) {
        if self.log.sync == LogSync::Batch {
            return;
        }
        let written = self.log.shared.commit(false);
        self.settled(written);
    }

    /// The disk has it.
    pub fn flush(&mut self) {
        if self.is_led {
            return self.send();
        }
        let written = self.log.shared.commit(true);
        self.disk.dropped = written.is_err();
        if written.is_err() {
            return self.settled(written);
        }
        self.note_flushed();
        self.settled(written);
    }

    /// All that was written outlives the machine.
    pub fn note_flushed(&mut self) {
        let newest = log::segments(&self.logs.directory(RM)).unwrap_or_default().pop();
        if let Some((_, path)) = newest {
            let length = std::fs::metadata(&path).map_or(0, |file| file.len());
            self.flushed = (path, length);
        }
    }

    /// To etcd; where it does not say that it has it, it is tried again later.
    fn send(&mut self) {
        if let Ok(upto) = self.log.shared.commit(true) {
            self.settled(Ok(upto));
        }
    }

    /// It is tried until etcd has it, or once where the disk refuses: whoever is answered then has waited.
    pub fn flush_surely(&mut self) {
        for _ in 0..1_000 {
            self.flush();
            if self.log.shared.synced() == self.log.last() || self.is_disk_refusing() {
                return;
            }
        }
        self.fault("the log", "nothing can be written any more".to_owned());
    }

    /// Where the log is.
    pub fn home(&self) -> Home {
        match &self.cluster {
            Some(cluster) => Home::Far(cluster.group.clone()),
            None => Home::Here(self.logs.directory(RM)),
        }
    }

    fn settled(&mut self, written: Result<u64, log::WriteError>) {
        match written {
            Ok(upto) => {
                self.disk.failing = false;
                for (epoch, line) in self.log.settle(upto) {
                    if epoch == self.epoch {
                        self.buffer.release(line);
                    }
                }
            }
            Err(error) => self.not_written(error.to_string()),
        }
    }

    /// A request of the shim: commands by partition. What its number says is obeyed. False: it is refused, and has to be sent
    /// again; `refused`: one before it was.
    pub fn request(&mut self, number: Option<u64>, commands: &Arc<Vec<(usize, Command)>>, refused: bool) -> bool {
        if self.disk.failing {
            return false;
        }
        let mut permit = match self.budget.take(commands.len()) {
            Some(permit) => permit,
            None => return true,
        };
        match number.map(|number| (number, self.receipts.place(number))) {
            Some((number, Place::Next)) => permit = permit.with(self.receipts.take(number, commands.len())),
            Some((_, Place::Before)) => return true,
            Some((_, Place::Gap(_))) if refused => return false,
            Some((number, Place::Gap(missing))) => {
                self.fault("requests in order", format!("request {number} came, and {missing} is missing"));
                return true;
            }
            None => permit = self.await_record(permit, commands),
        }
        let mut parts: BTreeMap<usize, Vec<Command>> = BTreeMap::new();
        commands.iter().for_each(|(at, command)| parts.entry(*at).or_default().push(command.clone()));
        permit.in_parts(parts.len());
        let recorded = permit.recorded();
        parts.retain(|at, _| !recorded.contains(&PartOf::Partition(self.parts[*at].instance)));
        for (at, commands) in parts {
            self.arrive(at, commands, Some(permit.clone()));
        }
        if commands.is_empty() {
            self.log.taken(vec![permit], self.epoch, self.buffer.last(), self.now);
            self.commit();
        }
        true
    }

    /// Another configuration.
    pub fn configure(&mut self, text: &str) {
        let Some(config) = config::load(text).ok().filter(|_| !self.stopped) else { return };
        self.registered.config = text.into();
        let changed = record::Reconfigured {
            config: text.into(),
            default_config: false,
            shared: false,
            extra: self.registered.extra.clone(),
            tenant: true,
        };
        self.log.append(kind::RECONFIGURED, self.now, &record::json(&changed));
        self.line_waits();
        self.commit();
        for at in 0..self.parts.len() {
            let name = self.parts[at].partition.name.clone();
            if let Some(conf) = config.partitions.iter().find(|conf| conf.name == name) {
                if self.parts[at].partition.conf.resolver != conf.resolver {
                    self.parts[at].known = Default::default();
                }
                self.commands(at, vec![Command::Configure(conf.clone())], None);
            }
        }
    }

    pub(super) fn line_waits(&mut self) {
        self.told.push((self.log.last(), self.buffer.last()));
        self.log.wait(self.epoch, self.buffer.last(), None, Vec::new());
    }
}

/// Why a stream ends.
pub(super) fn closing() -> Closing {
    Closing { kind: ClosingKind::Replaced, detail: "another took its place".into(), leader: None }
}
