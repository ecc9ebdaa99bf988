//! A resource manager as its log tells: records are applied in order, by the code that made them.

mod listener;
mod replayed;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

pub use self::{
    listener::Listener,
    replayed::{Open, Replayed},
};
use super::{
    buffer::Buffer,
    log::{LogSync, Logs},
    record::{self, Ended, Registered, Said, SavedPartition, SavedSession, SavedStandings, kind},
    repeated::Repeatable,
    saved_lines,
};
use crate::{
    actors::partition::restored::standing_of,
    domain::{
        Partition,
        digest::Digest,
        effect::{Callback, Effect},
        log::{Beginning, Input, Reader, Step},
        types::Nanos,
    },
    messages::{
        journal::Standing,
        keys::Keyed,
        receipts::PartOf,
        recorded::{Replica, Talks},
        rm::{Outgoing, Payload, Predicates},
    },
    store::{
        files,
        log::{self, Cut, Place, Record, Title, mark::Before},
    },
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
    /// What operators told partitions that are not there: those of a session that ended, and those that a configuration left out.
    pub standing: SavedStandings,
    /// The snapshot that was read: see `RmLog::snapshots`.
    pub snapshot: Option<(u64, u64)>,
    /// Bytes of records that were applied.
    pub bytes: u64,
    /// How long that took.
    pub took: Duration,
    /// Events that its records told of; `None`: they were not counted.
    pub events: Option<u64>,
    /// Registrations and ends with keys that were carried out.
    pub repeatable: Vec<Repeatable>,
    /// The files are not enough to go on: they are to be put aside.
    damaged: bool,
}

/// See [`Found`].
pub enum State {
    /// Nothing was recorded.
    Nothing,
    /// A session runs.
    Session(Box<Replayed>),
    /// It ended.
    Ended(Arc<str>),
    /// What is there is not enough to go on: the shim has to register again.
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

/// How far reading has come, for those who wait for it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes that were found.
    pub total: AtomicU64,
    /// Bytes that were read.
    pub read: AtomicU64,
}

impl Progress {
    /// Segments before this record, and other snapshots, are not read: they count as read.
    fn skip(&self, dir: &Path, after: u64) {
        let segments = log::segments(dir).unwrap_or_default();
        let unread = segments.windows(2).filter(|pair| pair[1].0 <= after + 1).map(|pair| pair[0].1.clone());
        let snapshots = log::snapshots(dir).unwrap_or_default().into_iter().map(|(_, path)| path);
        let bytes =
            unread.chain(snapshots).filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len()).sum();
        self.read.fetch_add(bytes, Relaxed);
    }

    /// In hundredths.
    pub fn percent(&self) -> u64 {
        let total = self.total.load(Relaxed).max(1);
        (self.read.load(Relaxed) * 100 / total).min(100)
    }
}

/// Reads the log of a directory; `None`: it has no files. `before`: what the process before left. Where it cannot be read, or is not enough to go on, its files are put aside, so that nothing is written over them.
///
/// # Errors
/// It can neither be read nor put aside, or not be flushed: it has to be left alone.
pub fn read(logs: &Logs, dir: &Path, before: Before, progress: &Progress) -> Result<Option<Found>, String> {
    match examine(logs, dir, before, progress) {
        Ok(Some(found)) if found.damaged => put_aside(logs, dir, found).map(Some),
        Ok(found) => {
            // It takes room, for ever, and does no other harm.
            if let Err(error) = files::sweep(dir) {
                tracing::warn!(
                    code = "log-old-file", %error,
                    "log {}: what a kill left of a file cannot be removed", dir.display()
                );
            }
            log::flush(dir).map(|()| found)
        }
        Err(why) => unreadable(logs, dir, &why).map(Some),
    }
}

/// A log that cannot be read at all: its resource manager, as its directory tells, registers again.
///
/// # Errors
/// It cannot be put aside, and has to be left alone.
pub fn unreadable(logs: &Logs, dir: &Path, why: &str) -> Result<Found, String> {
    tracing::error!(code = "log-unread", "{why}");
    let rm = log::title_of(dir).map(|title| title.rm).or_else(|| log::rm_of(dir)).unwrap_or_default();
    put_aside(logs, dir, Found::lost(rm, why)).map_err(|aside| format!("{why}; {aside}"))
}

fn put_aside(logs: &Logs, dir: &Path, found: Found) -> Result<Found, String> {
    let aside = log::put_aside(&logs.base, dir);
    let aside = aside.map_err(|error| format!("log {}: cannot be put aside: {error}", dir.display()))?;
    tracing::warn!(code = "log-put-aside", rm = found.rm, aside = %aside.display(), "what there is of the log is put aside");
    Ok(Found { last: 0, snapshot: None, ..found })
}

fn examine(logs: &Logs, dir: &Path, before: Before, progress: &Progress) -> Result<Option<Found>, String> {
    let unreadable = |error: std::io::Error| format!("log {}: cannot be read: {error}", dir.display());
    let segments = log::segments(dir).map_err(unreadable)?;
    let Some(Title { rm, .. }) = log::title_of(dir) else {
        if segments.is_empty() && log::snapshots(dir).map_err(unreadable)?.is_empty() {
            let lost = |first| Err(format!("log {}: its segments up to record {first} are missing", dir.display()));
            return log::noted(dir).map_err(unreadable)?.map_or(Ok(None), lost);
        }
        let why = log::why_untitled(dir).map(|why| format!(" ({why})")).unwrap_or_default();
        return Err(format!("log {}: no file of it says whose it is{why}", dir.display()));
    };
    if before == Before::Unknown {
        // Only the mark says which server wrote them.
        let why = "log/mark is missing or damaged, and only it says which server wrote the log and how it ended";
        return Ok(Some(Found { damaged: true, ..Found::lost(rm, why) }));
    }
    let title = logs.title(&rm);
    let first = segments.first().map_or(1, |(first, _)| *first);
    let (mut replay, snapshot) = newest_snapshot(dir, &title, first).map_err(unreadable)?;
    let after = if snapshot.is_some() { replay.from } else { first - 1 };
    progress.skip(dir, after);
    let mut at = replay.at;
    // Each record is read and applied once.
    let (mut bytes, began) = (0, Instant::now());
    let read = log::read(dir, &title, after, |record| {
        let length = log::total(record.payload) as u64;
        progress.read.fetch_add(length, Relaxed);
        bytes += length;
        at = at.max(record.at);
        replay.take(&record)
    });
    let read = read.map_err(unreadable)?;
    for spot in &read.passed_over {
        tracing::warn!(code = "log-spot", "log {spot}: a snapshot tells what it did; look at the disk");
    }
    let epoch = replay.epoch();
    let found = Found {
        rm,
        last: read.last,
        at,
        epoch,
        state: State::Nothing,
        standing: SavedStandings::new(),
        snapshot,
        bytes,
        took: began.elapsed(),
        events: replay.events,
        repeatable: replay.repeatable(),
        damaged: false,
    };
    let damaged = |why: &str| Found { epoch, at, ..Found::lost(found.rm.clone(), why) };
    if segments.is_empty() {
        let why = format!("log {}: there are snapshots, and the records behind them are missing", dir.display());
        return Ok(Some(damaged(&why)));
    }
    if read.last < replay.index {
        let why = format!("log {}: it ends with record {}, before its snapshot", dir.display(), read.last);
        return Ok(Some(damaged(&why)));
    }
    if let Some(cut) = &read.cut {
        if !is_harmless(cut, before.is_whole()) {
            // The last registration may be behind the damage.
            return Ok(Some(damaged(&cut.to_string())));
        }
        tracing::warn!(
            code = "log-cut",
            "log {cut}: it is cut off. Where a server was killed while it wrote this, nobody was told of it; where something else \
             shortened the file, shims may have been told of what is missing"
        );
        if !crate::domain::planted!("torn-kept") {
            cut.repair().map_err(unreadable)?;
        }
    }
    let sync = replay.session.as_ref().map(|session| session.registered.sync);
    if before == Before::Copied && sync.is_some() {
        return Ok(Some(damaged("the data directory is a copy, and what came after that was made is not in it")));
    }
    let may_lack = !before.is_whole() && sync.is_some_and(|sync| sync != LogSync::Batch);
    if may_lack && !crate::domain::planted!("crash-unnoticed") {
        return Ok(Some(damaged("the machine stopped, and the end of it may be missing")));
    }
    match replay.state() {
        State::Nothing if read.last > 0 => Ok(Some(damaged("its beginning is missing"))),
        state => Ok(Some(Found { state, ..found })),
    }
}

/// It is the torn end that a process leaves, or a machine.
fn is_harmless(cut: &Cut, whole: bool) -> bool {
    cut.torn && (whole || cut.at_end)
}

/// The newest snapshot that can be read and whose log is there, and how it is named; else none: the log is read whole.
fn newest_snapshot(dir: &Path, title: &Title, first: u64) -> std::io::Result<(Replay, Option<(u64, u64)>)> {
    for (index, path) in log::snapshots(dir)?.into_iter().rev() {
        match log::load(&path, title).and_then(|snapshot| Replay::of(&snapshot)) {
            Ok(replay) if replay.from + 1 >= first => {
                let place = Some((index, replay.from));
                return Ok((replay, place));
            }
            // Of a session before this one: its log is gone.
            Ok(_) => {}
            Err(why) => tracing::error!(
                code = "log-snapshot-damaged",
                "snapshot {}: {why}; an older one is read, and more of the log",
                path.display()
            ),
        }
    }
    Ok((Replay::default(), None))
}

fn lost(why: &str) -> Arc<str> {
    format!("the log does not tell all of the session ({why}): register again").into()
}

impl Found {
    /// Of a resource manager whose session is lost.
    fn lost(rm: String, why: &str) -> Found {
        let state = State::Lost(lost(why));
        Found {
            rm,
            last: 0,
            at: Nanos::ZERO,
            epoch: 0,
            state,
            standing: SavedStandings::new(),
            snapshot: None,
            bytes: 0,
            took: Duration::ZERO,
            events: None,
            repeatable: Vec::new(),
            damaged: true,
        }
    }

    /// What operators told its partitions, by their internal names.
    ///
    /// # Errors
    /// Something of it is not understood.
    pub fn standings(&self) -> Result<Vec<(Arc<str>, Standing)>, String> {
        let saved = self.standing.clone().into_iter();
        let mut all: Vec<_> =
            saved.map(|(internal, saved)| Ok((internal, saved.standing()?))).collect::<Result<_, String>>()?;
        if let State::Session(session) = &self.state {
            let of = |(internal, replica): &(Arc<str>, Replica)| (internal.clone(), standing_of(&replica.partition));
            all.extend(session.partitions.values().map(of));
        }
        Ok(all)
    }

    /// Of a resource manager whose log, up to this record, cannot be read by any server.
    pub fn lost_at(rm: &str, last: u64, why: &str) -> Found {
        Found { last, damaged: false, ..Found::lost(rm.to_owned(), why) }
    }

    /// Of a resource manager whose log was followed up to this record.
    pub(super) fn followed(
        rm: &str,
        replay: Replay,
        (last, at): (u64, Nanos),
        snapshot: Option<Place>,
        bytes: u64,
    ) -> Found {
        let (epoch, at, events) = (replay.epoch(), at.max(replay.at), replay.events);
        let (repeatable, standing) = (replay.repeatable(), replay.standing.clone());
        let snapshot = snapshot.map(|place| (place.index, place.from));
        let (rm, state, took) = (rm.to_owned(), replay.state(), Duration::ZERO);
        Found { rm, last, at, epoch, state, standing, snapshot, bytes, took, events, repeatable, damaged: false }
    }
}

/// How records are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// For a session that goes on: with its lines. A record with another result than it had is refused.
    #[default]
    Restore,
    /// To see how everything was: without lines. A record with another result than it had is noted.
    Watch,
    /// As `Watch`, with what went in and came out of the last record.
    Look,
}

/// What the last record was and did, for whoever looks.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Internal name of the partition; empty where it was of none.
    pub partition: Arc<str>,
    /// What went in.
    pub steps: Vec<Step>,
    /// What came out.
    pub effects: Vec<Effect>,
    /// The digest of what came out then, and that of what came out now, where they differ.
    pub differs: Option<(u64, u64)>,
}

/// What records are applied to.
#[derive(Clone, Default)]
pub struct Replay {
    /// The session that runs.
    pub session: Option<Box<Replayed>>,
    /// The last one ended.
    pub ended: Option<Ended>,
    /// What operators told partitions that are not there.
    standing: SavedStandings,
    /// See [`Seen`].
    pub seen: Seen,
    mode: Mode,
    /// Of a snapshot: records up to this one are in every part of it.
    from: u64,
    /// Of a snapshot: the record after which it holds.
    index: u64,
    /// Of a snapshot: when it was taken.
    at: Nanos,
    effects: Vec<Effect>,
    digest: Digest,
    /// Events that the records told of; `None`: they are not counted yet.
    events: Option<u64>,
    listener: Option<Listener>,
    /// Of a snapshot: the event system was not told yet what is used.
    untold: bool,
}

impl Replay {
    /// The state of a snapshot.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(snapshot: &log::Snapshot) -> Result<Replay, String> {
        let mut replay = Replay { index: snapshot.index, at: snapshot.at, ..Replay::default() };
        let mut lines = None;
        for part in &snapshot.parts {
            match part.kind {
                kind::SESSION => {
                    let saved: SavedSession = record::read_json(&part.payload)?;
                    (replay.from, replay.events) = (saved.from, saved.events);
                    replay.standing.clone_from(&saved.standing);
                    lines = Some((saved.dropped, saved.last, saved.handed));
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
                kind::LINES => {
                    let (session, lines) =
                        replay.session.as_mut().zip(lines.take()).ok_or("lines come without their session")?;
                    let (dropped, last, handed) = lines;
                    session.buffer = Buffer::resumed(dropped, saved_lines::read(&part.payload, &session.types)?, last);
                    session.hand(handed);
                }
                other => return Err(format!("it has a part of kind {other}, which this release does not know")),
            }
        }
        match (&replay.session, lines) {
            (None, _) => Err("it has no session".to_owned()),
            (Some(_), Some(_)) => Err("it has no lines".to_owned()),
            (Some(_), None) => Ok(replay),
        }
    }

    /// The same, to be gone on with in this mode.
    pub fn in_mode(self, mode: Mode) -> Replay {
        Replay { mode, ..self }
    }

    /// Records up to this one are in a snapshot, whatever part of it.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// The number of the last session.
    fn epoch(&self) -> u64 {
        let ended = || self.ended.as_ref().map_or(0, |ended| ended.epoch);
        self.session.as_ref().map_or_else(ended, |session| session.registered.epoch)
    }

    /// Registrations and ends with keys that were carried out.
    fn repeatable(&self) -> Vec<Repeatable> {
        let ended = self.ended.as_ref().map(|ended| &ended.repeatable);
        self.session.as_ref().map(|session| &session.registered.repeatable).or(ended).cloned().unwrap_or_default()
    }

    fn state(self) -> State {
        match (self.session, self.ended) {
            (Some(session), _) => State::Session(session),
            (None, Some(Ended { why, lost: false, .. })) => State::Ended(why),
            // Its shim was told before: nothing is put aside again.
            (None, Some(Ended { why, lost: true, .. })) => State::Lost(why),
            (None, None) => State::Nothing,
        }
    }

    /// Applies a record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take(&mut self, record: &Record<'_>) -> Result<(), String> {
        self.seen = Seen::default();
        // A snapshot has the session as of its index; each partition in it has a last record of its own.
        let is_known = record.index <= self.index;
        if !is_known && std::mem::take(&mut self.untold) {
            // Before this, partitions may have been behind the session.
            self.stands(self.at);
        }
        match record.kind {
            kind::PARTITION => return self.partition(record, is_known),
            _ if is_known => return Ok(()),
            kind::REGISTERED => {
                let registered: Registered = record::read_json(record.payload)?;
                self.counted(registered.events);
                self.session = Some(Box::new(Replayed::begin(registered)));
                self.ended = None;
                self.stands(record.at);
                return Ok(());
            }
            kind::ENDED => {
                let ended: Ended = record::read_json(record.payload)?;
                self.session = None;
                // With it the usage of its partitions ends; those events are in no record.
                self.stands(record.at);
                if ended.lost {
                    self.begins_anew();
                }
                self.counted(ended.events);
                self.ended = Some(ended);
                return Ok(());
            }
            kind::COUNTED => {
                self.counted(Some(record::read_json(record.payload)?));
                self.stands(record.at);
                return Ok(());
            }
            kind::STANDING => {
                self.standing = record::read_json(record.payload)?;
                return Ok(());
            }
            _ => {}
        }
        let Some(session) = &mut self.session else { return Err("it is of no session".to_owned()) };
        match record.kind {
            kind::RECONFIGURED => session.reconfigured(record::read_json(record.payload)?),
            of if self.mode != Mode::Restore && kind::OF_DOORS.contains(&of) => {}
            kind::SAID => {
                let said: Said = record::read_json(record.payload)?;
                let callbacks: Result<Vec<_>, String> = said.callbacks.into_iter().map(|one| one.callback()).collect();
                let callbacks = callbacks?;
                // A session may have a partition of this name that leaves, and the one that took its place: only one of them waits.
                let named = session.partitions.values_mut().filter(|(internal, _)| *internal == said.partition);
                for (_, replica) in named {
                    let releases = callbacks.iter().filter_map(|callback| match callback {
                        Callback::Released(release) if release.confirm => Some(release),
                        _ => None,
                    });
                    releases.for_each(|release| replica.talks.sent_again(release));
                }
                let items = callbacks.into_iter().map(Outgoing::Callback).collect();
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
            kind::KEYED => {
                session.keys.note(&record::read_json::<Vec<Keyed>>(record.payload)?, PartOf::Session, record.at)
            }
            kind::REFUSED => session.numbers.refuse(record::read_json(record.payload)?),
            kind::TAKEN => {
                session.numbers.note(&record::read_json::<record::Requests>(record.payload)?, PartOf::Session)
            }
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
            if !is_known {
                // It has it.
                self.standing.remove(&internal);
            }
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
        if steps.number <= replica.number && is_known && !crate::domain::planted!("snapshot-behind") {
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
            if let Input::Apply(command) = &step.input
                && let Some(over) = command.ends_question()
            {
                session.questions.retain(|_, open| {
                    if open.partition == internal {
                        open.questions.retain(|question| question.id != over);
                    }
                    !open.questions.is_empty()
                });
            }
            let at = step.at;
            if self.mode == Mode::Look {
                self.seen.steps.push(step.clone());
            }
            replica.partition.replay(step, &mut self.effects);
            self.effects[noted..].iter().for_each(|effect| replica.talks.take(effect, at));
            noted = self.effects.len();
        }
        self.digest.add(&self.effects);
        let digest = self.digest.finish();
        if digest != steps.digest {
            if self.mode == Mode::Restore {
                return Err(format!("what {internal} does is not what it did when this was recorded"));
            }
            self.seen.differs = Some((steps.digest, digest));
        }
        if steps.last {
            session.partitions.remove(&steps.instance);
        }
        if is_known {
            self.effects.clear();
            return Ok(());
        }
        self.count();
        let Some(session) = &mut self.session else { return Ok(()) };
        if self.mode != Mode::Restore {
            (self.seen.partition, self.seen.effects) = (internal, std::mem::take(&mut self.effects));
            return Ok(());
        }
        let by = PartOf::Partition(steps.instance);
        session.numbers.note(&steps.requests, by);
        session.keys.note(&steps.keyed, by, record.at);
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
