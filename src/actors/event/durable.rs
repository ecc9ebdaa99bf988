//! The durable store as `EventActor` drives it: one blocking job at a time owns the writer, and events wait in a bounded
//! backlog meanwhile. Flushing is a job of its own, which does not hold the writer: however slow the disk is, events reach the
//! kernel in time, and a kill does not cost them. Nothing here blocks the arbiter.

use std::{
    ops::Range,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

use super::backlog::{Backlog, LIMIT};
use crate::{
    domain::{
        event_block::{EventGap, EventPiece, EventSlice, GapReason},
        event_settings::StoreSettings,
        types::Nanos,
        usage::{PointReason, UsagePiece, UsagePoint},
    },
    messages::event::{EventCounters, StoreStatus},
    store::events::{self, Clock, Limits, OpenError, Reader, Unsynced, WriteError, Writer, numbers::Row},
};

/// Events that are written without waiting for the next flush.
const EAGER: usize = 32_768;
/// Reserved ids that must be left, or a job is begun to reserve more.
const RESERVED_LEAST: u64 = 1 << 18;
const PANICKED: &str =
    "the writer of the event store has panicked; nothing is stored until the server is started again";
/// How often old files are looked for while nothing happens.
const PRUNE: Duration = Duration::from_secs(10);

/// See the module.
pub struct Durable {
    reader: Reader,
    /// Away while a job runs.
    writer: Option<Writer>,
    backlog: Backlog,
    settings: StoreSettings,
    /// The settings in force are known, with a registration or from what was kept. Before that nothing is deleted.
    settled: bool,
    /// Something was written and not handed on to be flushed.
    dirty: bool,
    /// A job waits for the disk.
    syncing: bool,
    /// What was written while it waits, to be flushed after it.
    unsynced: Option<Unsynced>,
    /// The disk refused to flush, and has not flushed since.
    unsure: bool,
    /// A flush fell due while the writer was away.
    due: bool,
    /// When a flush was last asked for.
    ticked: Instant,
    pruned: Instant,
    failing: Option<Arc<str>>,
    /// Why events are not deleted for their age.
    doubt: Option<Arc<str>>,
    /// Ids below this are reserved.
    reserved: u64,
    /// Lines that are not written yet, and whether they replace all that are there.
    rows: (Vec<Row>, bool),
    /// The job under way has lines that were replaced since.
    outdated: bool,
    /// Who waits for the store to be closed.
    closing: Vec<oneshot::Sender<Result<(), Arc<str>>>>,
    closed: bool,
    /// A job has panicked.
    broken: bool,
    counters: Arc<EventCounters>,
}

/// What is to be done; [`Job::run`] blocks.
pub enum Job {
    /// Write events and points of usage to the files.
    Write(Box<Write>),
    /// Wait until what was written is on the disk.
    Sync(Unsynced),
}

/// See [`Job`].
pub struct Write {
    writer: Writer,
    pieces: Vec<EventPiece>,
    points: Vec<(u64, Arc<UsagePoint>)>,
    rows: (Vec<Row>, bool),
    next: u64,
    now: Nanos,
    limits: Option<Limits>,
    sync: bool,
    /// Also what is said to be flushed.
    again: bool,
    close: bool,
}

/// What came of a job.
pub enum Done {
    /// Of writing; with what is to be flushed now.
    Written(Box<Written>),
    /// Of waiting for the disk.
    Synced(Result<(), WriteError>),
}

/// See [`Done`].
pub struct Written {
    writer: Writer,
    result: Result<Option<Unsynced>, WriteError>,
    synced: bool,
    /// Lines that are written.
    rows: Option<usize>,
    close: bool,
}

impl Job {
    /// Does it.
    pub fn run(self) -> Done {
        match self {
            Job::Write(write) => Done::Written(Box::new(write.run())),
            Job::Sync(unsynced) => Done::Synced(unsynced.sync()),
        }
    }
}

impl Write {
    fn run(self) -> Written {
        let Write { mut writer, pieces, points, rows: (rows, instead), next, now, limits, sync, again, close } = self;
        writer.set_limits(limits);
        let noted = writer.note(&rows, instead);
        let rows = noted.is_ok().then_some(rows.len());
        let written = noted.and_then(|()| writer.write(&pieces, &points, now));
        let mut result = written.and_then(|()| writer.reserve(next));
        if result.is_ok() && sync {
            result = writer.alive(now);
        }
        if result.is_ok() && close {
            result = writer.close(next);
        }
        let result = result.and_then(|()| if sync && !close { writer.unsynced(again) } else { Ok(None) });
        Written { synced: result.is_ok() && (sync || close), writer, result, rows, close }
    }
}

impl Durable {
    /// Opens the store of a directory; also says with which id numbering goes on.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        (directory, beside): (&Path, Option<&Path>),
        settings: StoreSettings,
        counters: Arc<EventCounters>,
        clock: Clock,
    ) -> Result<(Durable, u64, Vec<Option<Row>>), OpenError> {
        let (opened, now) = (events::open(directory, beside, limits(&settings), clock)?, clock.now);
        let mut backlog = Backlog::new(opened.gap.as_ref().map_or(opened.next, |gap| gap.from), LIMIT);
        // Nothing was used while no process ran; where the clock was set back that time is empty.
        let (seen, killed) = opened.before.unwrap_or((now, false));
        let reason = if killed { PointReason::Killed } else { PointReason::Stopped };
        let (from, to) = (seen.min(now), now);
        backlog.point(UsagePoint { id: 0, reason, from, to, rows: Vec::new(), relative: false });
        if let Some(gap) = opened.gap {
            backlog.gap(gap.end, gap.reason);
        }
        let durable = Durable {
            reserved: opened.writer.reserved(),
            rows: Default::default(),
            outdated: false,
            reader: opened.reader,
            writer: Some(opened.writer),
            backlog,
            settings,
            settled: false,
            dirty: false,
            syncing: false,
            unsynced: None,
            unsure: false,
            due: false,
            ticked: Instant::now(),
            pruned: Instant::now(),
            failing: None,
            doubt: None,
            closing: Vec::new(),
            closed: false,
            broken: false,
            counters,
        };
        Ok((durable, opened.next, opened.numbers))
    }

    /// A smaller backlog than the usual one.
    #[cfg(test)]
    pub fn limit_backlog(&mut self, limit: usize) {
        self.backlog = Backlog::new(self.backlog.first(), limit);
    }

    /// New settings.
    pub fn apply(&mut self, settings: StoreSettings) {
        self.settings = settings;
    }

    /// How often [`Durable::flush`] is to be called: so often that a crash loses less than a flush interval.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.settings.flush_interval.0.unsigned_abs()) / 2
    }

    /// Lines for the next job.
    pub fn note(&mut self, rows: Vec<Row>) {
        self.rows.0.extend(rows);
    }

    /// Lines for the next job, instead of all before.
    pub fn note_instead(&mut self, rows: Vec<Row>) {
        self.rows = (rows, true);
        self.outdated = self.writer.is_none();
        self.dirty = true;
    }

    /// Takes the next events; a job that is returned is to be run.
    pub fn push(&mut self, slices: &[EventSlice], now: Nanos) -> Option<Job> {
        let mut next = 0;
        self.settled |= !slices.is_empty();
        for slice in slices {
            next = slice.end();
            let lost = self.backlog.push(slice);
            if lost > 0 {
                EventCounters::add(&self.counters.store_lost, lost);
                if self.failing.is_none() {
                    self.fail("events come faster than the event store takes them".into());
                }
            }
        }
        let reservation_ends = next > 0 && next.saturating_add(RESERVED_LEAST) > self.reserved;
        let much = self.backlog.events() >= EAGER && self.failing.is_none();
        if self.failing.is_none() && self.ticked.elapsed() > self.period().mul_f32(1.5) {
            // The timer is not heard while events come without a pause.
            return self.flush(next, now);
        }
        if much || reservation_ends { self.job(next, now, false) } else { None }
    }

    /// Writes and flushes what waits, at once or as soon as the writer is back. `next` is the id of the next event.
    pub fn flush(&mut self, next: u64, now: Nanos) -> Option<Job> {
        self.due = self.writer.is_none();
        self.ticked = Instant::now();
        let old = self.pruned.elapsed() >= PRUNE;
        let something = self.dirty || self.unsure || old || !self.backlog.is_empty();
        (!self.closed && something).then(|| self.job(next, now, true)).flatten()
    }

    /// Closes the store; the sender is answered when that is done.
    pub fn close(&mut self, next: u64, now: Nanos, done: oneshot::Sender<Result<(), Arc<str>>>) -> Option<Job> {
        if self.closed {
            // Whoever asked may be gone.
            let _ = done.send(Ok(()));
            return None;
        }
        self.closing.push(done);
        if self.broken {
            self.answer(Err(PANICKED.into()));
        }
        self.job(next, now, true)
    }

    fn job(&mut self, next: u64, now: Nanos, sync: bool) -> Option<Job> {
        let writer = self.writer.take()?;
        self.pruned = Instant::now();
        let pieces = self.backlog.all();
        // A process that begins ends what was used before, also where nothing happens in it: only an empty store needs no point.
        let fresh = pieces.is_empty() && self.reader.extent().is_none();
        let points = if fresh { Vec::new() } else { self.backlog.points() };
        Some(Job::Write(Box::new(Write {
            writer,
            pieces,
            points,
            rows: self.rows.clone(),
            next,
            now,
            limits: self.settled.then(|| limits(&self.settings)),
            sync,
            again: self.unsure && !self.syncing,
            close: !self.closing.is_empty(),
        })))
    }

    /// A job is done, or has panicked (`None`). The jobs that are returned are to be run.
    pub fn done(&mut self, done: Option<Done>, next: u64, now: Nanos) -> Vec<Job> {
        match done {
            None => {
                self.broken = true;
                self.fail(PANICKED.into());
                self.answer(Err(PANICKED.into()));
                Vec::new()
            }
            Some(Done::Written(written)) => self.written(*written, next, now),
            Some(Done::Synced(result)) => self.synced(result).into_iter().collect(),
        }
    }

    fn written(&mut self, written: Written, next: u64, now: Nanos) -> Vec<Job> {
        let Written { writer, result, synced, rows, close } = written;
        let outdated = std::mem::take(&mut self.outdated);
        if let Some(rows) = rows.filter(|_| !outdated) {
            self.rows.0.drain(..rows);
            self.rows.1 = false;
        }
        let before = self.backlog.events();
        self.backlog.written(writer.next(), writer.points());
        EventCounters::add(&self.counters.store_written, before - self.backlog.events());
        self.dirty = !synced;
        self.reserved = writer.reserved();
        self.doubt = writer.doubt().map(Into::into);
        self.writer = Some(writer);
        let unsynced = match result {
            Ok(unsynced) => unsynced,
            Err(error) => {
                self.refused(&error);
                return Vec::new();
            }
        };
        if close && self.backlog.is_empty() {
            // Closing has flushed everything.
            self.unsure = false;
            self.works();
            self.closed = true;
            self.answer(Ok(()));
            return Vec::new();
        }
        self.works();
        let mut jobs = Vec::new();
        if let Some(unsynced) = unsynced {
            if self.syncing {
                // The files of a later one hold those of an earlier one, or those were flushed when the file changed.
                self.unsynced = Some(unsynced);
            } else {
                self.syncing = true;
                jobs.push(Job::Sync(unsynced));
            }
        }
        let due = std::mem::take(&mut self.due);
        if !self.closing.is_empty() || self.backlog.events() >= EAGER {
            jobs.extend(self.job(next, now, due));
        } else if due {
            jobs.extend(self.flush(next, now));
        }
        jobs
    }

    fn synced(&mut self, result: Result<(), WriteError>) -> Option<Job> {
        self.syncing = false;
        match result {
            Ok(()) => {
                self.unsure = false;
                self.works();
            }
            Err(error) => {
                self.unsure = true;
                self.refused(&error);
            }
        }
        let next = self.unsynced.take().map(Job::Sync);
        self.syncing = next.is_some();
        next
    }

    /// Something succeeded.
    fn works(&mut self) {
        if self.unsure {
            return;
        }
        if self.failing.take().is_some() {
            tracing::info!("the event store takes events again");
        }
        self.counters.store_failing.store(false, Relaxed);
    }

    fn refused(&mut self, error: &WriteError) {
        EventCounters::add(&self.counters.store_failures, 1);
        let text: Arc<str> = error.to_string().into();
        self.answer(Err(text.clone()));
        self.fail(text);
    }

    fn fail(&mut self, text: Arc<str>) {
        if self.failing.as_ref() != Some(&text) {
            tracing::error!(
                code = "events-not-stored",
                error = %text, waiting = self.backlog.events(), limit = LIMIT,
                "events are not stored durably; scheduling goes on, and what is lost will be an explicit gap"
            );
        }
        self.counters.store_failing.store(true, Relaxed);
        self.failing = Some(text);
    }

    fn answer(&mut self, result: Result<(), Arc<str>>) {
        for waiting in self.closing.drain(..) {
            // Whoever asked may be gone.
            let _ = waiting.send(result.clone());
        }
    }

    /// First id that is kept.
    pub fn lowest(&self) -> u64 {
        self.reader.extent().map_or(self.backlog.first(), |(lowest, _)| lowest)
    }

    /// Events from an id on, from the backlog or the disk.
    pub fn read(&mut self, from: u64, events: usize) -> Source {
        let written = self.backlog.first();
        if from >= written {
            return Source::Here(self.backlog.read(from, events));
        }
        let reader = self.reader.clone();
        Source::Disk(Box::new(move || {
            let pieces = reader.read(from, events)?;
            if pieces.is_empty() {
                return Ok(vec![EventPiece::Gap(gone(from, written))]);
            }
            Ok(pieces)
        }))
    }

    /// Looks for the gap in which an id lies, blocking.
    pub fn gap_at(&self, id: u64) -> impl FnOnce() -> std::io::Result<Option<Range<u64>>> + Send + use<> {
        let waits = (id >= self.backlog.first()).then(|| self.backlog.gap_at(id));
        let reader = self.reader.clone();
        move || waits.map_or_else(|| reader.gap_at(id), Ok)
    }

    /// Usage changed in a time without events.
    pub fn point(&mut self, point: UsagePoint) {
        self.backlog.point(point);
    }

    /// As [`Durable::read`], with points of usage. Without an id it begins where usage is known, if possible not after `since`.
    pub fn read_usage(&mut self, from: Option<u64>, since: Nanos, events: usize) -> UsageSource {
        let written = self.backlog.first();
        let from = from.unwrap_or_else(|| self.reader.begin_before(since).unwrap_or(written).min(written));
        if from >= written {
            let (pieces, last) = self.backlog.read_usage(from, events);
            return UsageSource::Here(pieces, last);
        }
        let reader = self.reader.clone();
        UsageSource::Disk(Box::new(move || {
            let pieces = reader.read_usage(from, events)?;
            if pieces.is_empty() {
                return Ok(vec![UsagePiece::Log(EventPiece::Gap(gone(from, written)))]);
            }
            Ok(pieces)
        }))
    }

    /// Looks for a time, blocking.
    pub fn find(&self, at: Nanos) -> impl FnOnce() -> std::io::Result<u64> + Send + use<> {
        let (reader, written) = (self.reader.clone(), self.backlog.first());
        move || Ok(reader.find(at)?.unwrap_or(written))
    }

    /// How far the store has come, how much it holds, and what is wrong with it.
    pub fn status(&self) -> StoreStatus {
        let (bytes, files) = self.reader.size();
        StoreStatus {
            lowest: self.lowest(),
            written: self.backlog.first(),
            bytes,
            files,
            waiting: self.backlog.events(),
            failing: self.failing.clone(),
            doubt: self.doubt.clone(),
        }
    }
}

/// Someone has removed the files.
fn gone(from: u64, end: u64) -> EventGap {
    EventGap { from, end, reason: GapReason::Damage("the files are gone".into()) }
}

/// Where what tells usage is.
pub enum UsageSource {
    /// Here it is, and whether that is all there is.
    Here(Vec<UsagePiece>, bool),
    /// On the disk.
    Disk(Box<dyn FnOnce() -> std::io::Result<Vec<UsagePiece>> + Send>),
}

/// Reads the disk, blocking.
pub type DiskRead = Box<dyn FnOnce() -> std::io::Result<Vec<EventPiece>> + Send>;

/// Where events are.
pub enum Source {
    /// Here they are.
    Here(Vec<EventPiece>),
    /// On the disk.
    Disk(DiskRead),
}

fn limits(settings: &StoreSettings) -> Limits {
    Limits { events: settings.max_events, bytes: settings.max_bytes, age: settings.max_age }
}
