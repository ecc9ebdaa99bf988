//! A resource manager as its log tells: records are applied in order, by the same means as they were when they were made.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{
    buffer::Buffer,
    lines,
    log::{ARRIVED, LogSync, Logs},
    record::{
        self, Ended, HandedTo, Manner, Numbers, Reconfigured, Registered, Said, SavedPartition, SavedQuestion,
        SavedSession, kind,
    },
    settings::RmSettings,
};
use crate::{
    domain::{
        Partition,
        command::Command,
        digest::Digest,
        effect::{Effect, Question},
        log::{Beginning, Input, Reader},
        resources::Types,
        types::Nanos,
    },
    messages::{
        recorded::{Replica, Talks},
        rm::{Kind, Outgoing, Payload, Predicates},
    },
    store::log::{self, Record, Title},
};

/// What was found of a resource manager.
pub struct Found {
    /// Its id.
    pub rm: String,
    /// Index of the last record that counts.
    pub last: u64,
    /// Its time.
    pub at: Nanos,
    /// The number of its last session.
    pub epoch: u64,
    /// How it is.
    pub state: State,
    /// Snapshots that are there: see `RmLog::snapshots`.
    pub snapshots: Vec<(u64, u64, u64)>,
    /// Bytes that were read.
    pub bytes: u64,
}

/// See [`Found`].
pub enum State {
    /// Nothing was recorded.
    Nothing,
    /// A session runs.
    Session(Box<Replayed>),
    /// It ended.
    Ended(Arc<str>),
    /// What is there is not enough to go on: its shim has to be told.
    Lost(Arc<str>),
}

impl State {
    /// For messages.
    pub const fn name(&self) -> &'static str {
        match self {
            State::Nothing => "empty",
            State::Session(_) => "session",
            State::Ended(_) => "ended",
            State::Lost(_) => "lost",
        }
    }
}

/// A session as its log left it.
pub struct Replayed {
    /// What it registered with, and was configured with since.
    pub registered: Registered,
    /// The rest of it.
    pub manner: Manner,
    /// Its lines.
    pub buffer: Buffer,
    /// How far they were handed to sockets.
    pub handed: HandedTo,
    /// Number of the last line with releases that the shim has to confirm.
    pub last_release: u64,
    /// Open questions, by the line that carries them.
    pub questions: BTreeMap<u64, Open>,
    /// Partitions by their number, with their internal names; those that ended are not there.
    pub partitions: BTreeMap<u32, (Arc<str>, Replica)>,
    /// Number of the next partition.
    pub instances: u32,
    /// Resource types.
    pub types: Arc<Types>,
    /// Its numbered requests.
    pub numbers: Numbers,
    /// What its extra configuration says.
    settings: Option<RmSettings>,
}

/// A question that was not answered.
#[derive(Clone, Debug)]
pub struct Open {
    /// Internal name of the partition.
    pub partition: Arc<str>,
    /// It.
    pub question: Question,
    /// It may name several nodes.
    pub batch: bool,
}

impl Open {
    /// As a line.
    pub fn payload(&self) -> Payload {
        if self.batch { Payload::AskBatch(self.question.clone()) } else { Payload::Ask(self.question.clone()) }
    }
}

/// How far reading has come, for those who wait for it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes that were found.
    pub total: AtomicU64,
    /// Bytes that were read.
    pub read: AtomicU64,
}

impl Progress {
    /// In hundredths.
    pub fn percent(&self) -> u64 {
        let total = self.total.load(Relaxed).max(1);
        (self.read.load(Relaxed) * 100 / total).min(100)
    }
}

/// Reads the log of a directory. `whole`: nothing of it can have been lost when the process before ended. Where it is not
/// enough to go on, its files are put aside.
///
/// # Errors
/// It cannot be read, and stays as it is.
pub fn read(logs: &Logs, dir: &Path, whole: bool, progress: &Progress) -> Result<Found, String> {
    let mut found = examine(logs, dir, whole, progress)?;
    if matches!(found.state, State::Lost(_)) {
        let aside = log::put_aside(&logs.base, dir);
        let aside = aside.map_err(|error| format!("log {}: cannot be put aside: {error}", dir.display()))?;
        tracing::warn!(code = "log-put-aside", rm = found.rm, aside = %aside.display(), "what there is of the log is put aside");
        (found.last, found.snapshots) = (0, Vec::new());
    }
    Ok(found)
}

fn examine(logs: &Logs, dir: &Path, whole: bool, progress: &Progress) -> Result<Found, String> {
    let unreadable = |error: std::io::Error| format!("log {}: cannot be read: {error}", dir.display());
    let Some(Title { rm, .. }) = log::title_of(dir) else {
        if log::segments(dir).map_err(unreadable)?.is_empty() {
            return Err(format!("log {}: it has no files", dir.display()));
        }
        return Err(format!("log {}: no file of it says whose it is", dir.display()));
    };
    let title = logs.title(&rm);
    // How far lines had surely reached the shim, and where the log ends.
    let mut trail: Vec<(Nanos, u64)> = vec![(Nanos::ZERO, 0)];
    let (mut at, mut handed, mut session, mut sync) = (Nanos::ZERO, HandedTo::default(), (0, 0), None);
    let first = log::segments(dir).map_err(unreadable)?.first().map_or(1, |(first, _)| *first);
    let scanned = log::read(dir, &title, first - 1, |record| {
        at = at.max(record.at);
        match record.kind {
            kind::REGISTERED => {
                let registered: Registered = record::read_json(record.payload)?;
                session = (record.index, registered.epoch);
                sync = Some(registered.sync);
                handed = HandedTo::default();
                trail = vec![(Nanos::ZERO, 0)];
            }
            kind::ENDED => {
                session = (record.index, record::read_json::<Ended>(record.payload)?.epoch);
                sync = None;
            }
            kind::PARTITION => handed = record::read_steps(record.payload)?.handed.unwrap_or(handed),
            kind::HANDED => handed = record::read_handed(record.payload)?,
            _ => {}
        }
        let all = handed.into_iter().min().unwrap_or_default();
        if trail.last().is_some_and(|(_, line)| *line < all) {
            trail.push((record.at, all));
        }
        Ok(())
    });
    let scanned = scanned.map_err(unreadable)?;
    let reached = trail.iter().rev().find(|(when, _)| at.minus(*when) >= ARRIVED).map_or(0, |(_, line)| *line);
    let mut found = Found {
        rm,
        last: scanned.last,
        at,
        epoch: session.1,
        state: State::Nothing,
        snapshots: Vec::new(),
        bytes: scanned.bytes,
    };
    if let Some(cut) = &scanned.cut {
        let harmless = cut.torn && (whole || cut.at_end);
        if harmless {
            tracing::warn!(code = "log-cut", "log {cut}: it is cut off, nobody was told of it");
            cut.repair().map_err(unreadable)?;
        } else {
            // The last registration may be behind the damage.
            found.state = State::Lost(lost(&cut.to_string()));
            return Ok(found);
        }
    }
    if !whole && sync.is_some_and(|sync| sync != LogSync::Batch) {
        found.state = State::Lost(lost("the machine stopped, and the end of it may be missing"));
        return Ok(found);
    }
    found.restore(dir, &title, session.0, reached, progress)?;
    Ok(found)
}

fn lost(why: &str) -> Arc<str> {
    format!("the log does not tell all of the session ({why}): register again").into()
}

impl Found {
    /// Reads a snapshot of the session that began with the record `since`, or none, and the log behind it.
    fn restore(
        &mut self,
        dir: &Path,
        title: &Title,
        since: u64,
        reached: u64,
        progress: &Progress,
    ) -> Result<(), String> {
        let unreadable = |error: std::io::Error| format!("log {}: cannot be read: {error}", dir.display());
        let mut replay = Replay::default();
        let first = log::segments(dir).map_err(unreadable)?.first().map_or(0, |(first, _)| first - 1);
        let mut after = first.max(since.saturating_sub(1));
        let mut bad = Vec::new();
        for (index, path) in log::snapshots(dir).map_err(unreadable)?.into_iter().rev() {
            if index < since || index > self.last {
                continue;
            }
            let usable = log::load(&path, title).and_then(|snapshot| Replay::of(&snapshot));
            match usable {
                Ok(usable) => {
                    let last_line = usable.session.as_ref().map_or(0, |session| session.buffer.last());
                    self.snapshots.insert(0, (index, usable.from, last_line));
                    // Lines behind it may have been on their way: an older one makes them anew.
                    if replay.session.is_none() && last_line <= reached {
                        after = usable.from;
                        replay = usable;
                    }
                }
                Err(why) => bad.push(format!("snapshot {}: {why}", path.display())),
            }
        }
        for bad in &bad {
            tracing::error!(code = "log-snapshot-damaged", "{bad}; an older one is read, and more of the log");
        }
        let read = log::read(dir, title, after, |record| {
            progress.read.fetch_add(log::total(record.payload) as u64, Relaxed);
            replay.take(&record)
        });
        let read = read.map_err(unreadable)?;
        if let Some(cut) = read.cut {
            self.state = State::Lost(lost(&cut.to_string()));
            return Ok(());
        }
        self.last = self.last.max(read.last);
        self.state = match (replay.session, replay.ended) {
            (Some(session), _) => State::Session(session),
            (None, Some(Ended { why, lost: false, .. })) => State::Ended(why),
            (None, Some(Ended { why, lost: true, .. })) => State::Lost(why),
            (None, None) if self.last == 0 => State::Nothing,
            (None, None) => State::Lost(lost("its beginning is missing")),
        };
        Ok(())
    }
}

/// What records are applied to.
#[derive(Default)]
struct Replay {
    session: Option<Box<Replayed>>,
    ended: Option<Ended>,
    /// Of a snapshot: records up to this one are in every part of it.
    from: u64,
    /// Of a snapshot: the record after which it holds.
    index: u64,
    effects: Vec<Effect>,
    digest: Digest,
}

impl Replay {
    fn of(snapshot: &log::Snapshot) -> Result<Replay, String> {
        let mut replay = Replay { index: snapshot.index, ..Replay::default() };
        for part in &snapshot.parts {
            match part.kind {
                kind::SESSION => {
                    let saved: SavedSession = record::read_json(&part.payload)?;
                    replay.from = saved.from;
                    replay.session = Some(Box::new(Replayed::of(saved)));
                }
                kind::SAVED => {
                    let session = replay.session.as_mut().ok_or("a partition comes before its session")?;
                    let (saved, bytes) = SavedPartition::read(&part.payload)?;
                    let partition = Partition::load(bytes, &session.types).map_err(|error| error.to_string())?;
                    let (instance, number, at) = (saved.instance, saved.number, Nanos(saved.at));
                    let replica = Replica { talks: saved.talks()?, number, at, partition };
                    session.partitions.insert(instance, (replica.partition.internal.clone(), replica));
                }
                other => return Err(format!("it has a part of kind {other}, which this release does not know")),
            }
        }
        if replay.session.is_none() { Err("it has no session".to_owned()) } else { Ok(replay) }
    }

    fn take(&mut self, record: &Record<'_>) -> Result<(), String> {
        // What a snapshot has of the session, it has of nothing else.
        let is_known = record.index <= self.index;
        match record.kind {
            kind::PARTITION => return self.partition(record, is_known),
            _ if is_known => return Ok(()),
            kind::REGISTERED => {
                let registered: Registered = record::read_json(record.payload)?;
                self.session = Some(Box::new(Replayed::begin(registered)));
                self.ended = None;
                return Ok(());
            }
            kind::ENDED => {
                self.ended = Some(record::read_json(record.payload)?);
                self.session = None;
                return Ok(());
            }
            _ => {}
        }
        let Some(session) = &mut self.session else { return Err("it is of no session".to_owned()) };
        match record.kind {
            kind::RECONFIGURED => session.reconfigured(record::read_json(record.payload)?),
            kind::SAID => {
                let said: Said = record::read_json(record.payload)?;
                let callbacks: Result<Vec<_>, String> = said.callbacks.into_iter().map(|one| one.callback()).collect();
                let items = callbacks?.into_iter().map(Outgoing::Callback).collect();
                session.push(&said.partition, items, Predicates::Off);
            }
            kind::EVENTS => {
                session.buffer.push("".into(), Payload::Events(record::read_events(record.payload)?));
            }
            kind::STATE_DUMP => {
                session.buffer.push("".into(), Payload::StateDump);
            }
            kind::MANNER => session.manner = record::read_json(record.payload)?,
            kind::HANDED => session.hand(record::read_handed(record.payload)?),
            kind::RESTARTED => session.ask_again(),
            kind::TAKEN => session.numbers.note(&record::read_json::<record::Requests>(record.payload)?),
            other => return Err(format!("it is of kind {other}, which this release does not know")),
        }
        Ok(())
    }

    fn partition(&mut self, record: &Record<'_>, is_known: bool) -> Result<(), String> {
        let steps = record::read_steps(record.payload)?;
        let Some(session) = &mut self.session else {
            return if is_known { Ok(()) } else { Err("it is of no session".to_owned()) };
        };
        self.effects.clear();
        if let Some(beginning) = steps.beginning {
            if is_known && session.partitions.contains_key(&steps.instance) {
                return Ok(());
            }
            let beginning = Beginning::decode(beginning, &session.types).map_err(|error| error.to_string())?;
            let (internal, at) = (beginning.internal.clone(), beginning.at);
            let partition = beginning.partition(&mut self.effects);
            let mut talks = Talks::default();
            self.effects.iter().for_each(|effect| talks.take(effect, at));
            session.instances = session.instances.max(steps.instance + 1);
            session.partitions.insert(steps.instance, (internal, Replica { partition, talks, number: 0, at }));
        }
        let Some((internal, replica)) = session.partitions.get_mut(&steps.instance) else {
            // It had ended when the snapshot was taken.
            return if is_known { Ok(()) } else { Err(format!("partition {} is not there", steps.instance)) };
        };
        let internal = internal.clone();
        if steps.number <= replica.number && is_known {
            return Ok(());
        }
        if steps.number != replica.number + 1 {
            return Err(format!("record {} of {internal} follows record {}", steps.number, replica.number));
        }
        replica.number = steps.number;
        let mut noted = self.effects.len();
        for step in Reader::new(steps.steps, &session.types) {
            let step = step.map_err(|error| error.to_string())?;
            replica.at = replica.at.max(step.at);
            if let Input::Apply(Command::Predicate(answer)) = &step.input {
                session.questions.retain(|_, open| open.question.id != answer.question || open.partition != internal);
            }
            let at = step.at;
            replica.partition.replay(step, &mut self.effects);
            self.effects[noted..].iter().for_each(|effect| replica.talks.take(effect, at));
            noted = self.effects.len();
        }
        self.digest.add(&self.effects);
        if self.digest.finish() != steps.digest {
            return Err(format!("what {internal} does is not what it did when this was recorded"));
        }
        if steps.last {
            session.partitions.remove(&steps.instance);
        }
        if is_known {
            self.effects.clear();
            return Ok(());
        }
        session.numbers.note(&steps.requests);
        if let Some(handed) = steps.handed {
            session.hand(handed);
        }
        let items = self.effects.drain(..).filter_map(|effect| match effect {
            Effect::Callback(callback) => Some(Outgoing::Callback(callback)),
            Effect::Ask(question) => Some(Outgoing::Ask(question)),
            _ => None,
        });
        let items = items.collect();
        session.push(&internal, items, steps.asks);
        Ok(())
    }
}

impl Replayed {
    fn begin(registered: Registered) -> Replayed {
        Replayed {
            registered,
            manner: Manner::default(),
            buffer: Buffer::default(),
            handed: HandedTo::default(),
            last_release: 0,
            questions: BTreeMap::new(),
            partitions: BTreeMap::new(),
            instances: 0,
            types: Arc::default(),
            numbers: Numbers::default(),
            settings: None,
        }
        .with_settings()
    }

    /// Goes by the extra configuration, which was checked when it came.
    fn with_settings(mut self) -> Replayed {
        self.settings = RmSettings::read(&self.registered.extra).ok();
        self
    }

    fn of(saved: SavedSession) -> Replayed {
        let question = |saved: SavedQuestion| {
            let (line, partition, batch) = (saved.line, saved.partition.clone(), saved.batch);
            (line, Open { partition, question: saved.question(), batch })
        };
        Replayed {
            manner: saved.manner,
            buffer: Buffer::after(saved.last),
            handed: saved.handed,
            last_release: saved.last_release,
            questions: saved.questions.into_iter().map(question).collect(),
            instances: saved.instances,
            numbers: saved.numbers,
            ..Replayed::begin(saved.registered)
        }
    }

    fn reconfigured(&mut self, changed: Reconfigured) {
        let Reconfigured { config, default_config, extra, tenant } = changed;
        self.registered = Registered { config, default_config, extra, tenant, ..self.registered.clone() };
        self.settings = RmSettings::read(&self.registered.extra).ok();
    }

    fn push(&mut self, partition: &Arc<str>, items: Vec<Outgoing>, asks: Predicates) {
        let items = lines::wanted(items, self.settings.as_ref().is_some_and(|settings| settings.all_container_states));
        for payload in lines::group(items, asks) {
            let (question, batch) = match &payload {
                Payload::Ask(question) => (Some(question.clone()), false),
                Payload::AskBatch(question) => (Some(question.clone()), true),
                _ => (None, false),
            };
            if question.is_some() && asks == Predicates::Off {
                continue;
            }
            let waits = lines::wants_confirmation(&payload);
            let line = self.buffer.push(partition.clone(), payload);
            if waits {
                self.last_release = line;
            }
            if let Some(question) = question {
                self.questions.insert(line, Open { partition: partition.clone(), question, batch });
            }
        }
    }

    fn hand(&mut self, handed: HandedTo) {
        self.handed = handed;
        for kind in Kind::ALL {
            self.buffer.hand(handed[kind as usize], Some(kind));
        }
        if let Some(settings) = &self.settings {
            // As many are kept as there were; an overflow ended the session, which is a record of its own.
            self.buffer.trim(settings.bounds);
        }
    }

    /// Questions that were open when a process ended are put once more, in new lines.
    pub fn ask_again(&mut self) {
        for (_, open) in std::mem::take(&mut self.questions) {
            let line = self.buffer.push(open.partition.clone(), open.payload());
            self.questions.insert(line, open);
        }
    }
}
