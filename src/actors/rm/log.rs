//! The log of a resource manager as its actor keeps it: records get their numbers here and are written; what waits for a record
//! is released when it counts.
//!
//! With `log.sync` interval a record counts when the kernel has it: it is written at once, and flushed a little later, for
//! the case that the machine stops. With batch it counts when it is on the disk: what has gathered is written and flushed
//! together on a thread of its own, while more gathers, and scheduling waits for neither.

mod count;
mod shared;
mod sync;
mod trail;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use actix::prelude::*;
use tokio::time::Instant;

use self::trail::Trail;
pub use self::{shared::SharedWriter, sync::LogSync};
use super::{
    RmActor,
    record::{self, HandedTo, KeysTaken, Numbers, Registered, Taken, kind},
};
use crate::{
    actors::topology::lock,
    domain::types::Nanos,
    messages::{
        budget::Permit,
        event::{Publisher, Stands},
        receipts::PartOf,
        recorded::Outlet,
        rm::{CarriedOut, Deliver, Kind, Outgoing, Predicates},
    },
    metrics::LogMetrics,
    store::log::{self, Home, Title, WriteError, Writer},
};

/// With interval: how long after a record it is flushed.
const FLUSH: Duration = Duration::from_millis(100);
/// After a failure it is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Bytes of log after which a snapshot is taken.
pub const SNAPSHOT: u64 = 64 << 20;

/// Where logs are, for all resource managers of a server.
#[derive(Debug)]
pub struct Logs {
    /// Directory of all logs.
    pub base: PathBuf,
    /// Identifies the server.
    pub server: String,
    /// Where no resource manager says otherwise.
    pub sync: LogSync,
    /// Bytes of log after which a snapshot is taken.
    pub snapshot: u64,
    /// Takes what is counted.
    pub metrics: Option<LogMetrics>,
    /// They are in etcd, for several servers.
    pub shared: bool,
    /// Directories that can be neither read nor put aside, and why: nothing is written there.
    pub unread: Mutex<BTreeMap<PathBuf, String>>,
    /// Resource managers whose logs somebody removed from etcd while this server led them, until there is another of that name.
    pub gone: Mutex<BTreeSet<String>>,
}

impl Logs {
    /// The title of the files of a resource manager.
    pub fn title(&self, rm: &str) -> Title {
        Title::new(&*self.server, rm)
    }

    /// Its directory.
    pub fn directory(&self, rm: &str) -> PathBuf {
        log::directory(&self.base, rm)
    }

    /// A directory can be neither read nor put aside: nothing is written there. The directory of all logs stands for each of them.
    pub fn leave_alone(&self, dir: PathBuf, why: String) {
        if let Some(metrics) = &self.metrics {
            metrics.lost();
        }
        lock(&self.unread).insert(dir, why);
    }

    /// Why a log of this resource manager cannot be begun: there is one that could not be read. It may look for files.
    pub fn refuses(&self, rm: &str) -> Option<String> {
        let (mut unread, dir) = (lock(&self.unread), self.directory(rm));
        // Somebody may have moved it away since.
        unread.retain(|dir, _| *dir == self.base || dir.exists());
        let why = unread.get(&dir).or_else(|| unread.get(&self.base))?;
        Some(format!(
            "resource manager \"{rm}\" cannot be recorded: {why}; it is not written over: make it readable and start the server \
             again, or move {} away",
            dir.display()
        ))
    }

    /// A log is gone under the session that is in it.
    pub fn is_gone(&self, rm: &str) {
        if let Some(metrics) = &self.metrics {
            metrics.lost();
        }
        lock(&self.gone).insert(rm.to_owned());
    }

    /// There is one again.
    pub fn is_there(&self, rm: &str) {
        lock(&self.gone).remove(rm);
    }

    /// What could not be read and is there still, and what is gone.
    pub fn faults(&self) -> Vec<String> {
        let gone = |rm: &String| {
            format!(
                "resource manager \"{rm}\": its log was removed from etcd: its session is lost until it registers again"
            )
        };
        let mut faults: Vec<String> = lock(&self.unread).values().cloned().collect();
        faults.extend(lock(&self.gone).iter().map(gone));
        faults
    }
}

/// See the module.
pub struct RmLog {
    pub(super) logs: Arc<Logs>,
    pub(super) title: Title,
    /// Where it is.
    pub(super) home: Home,
    /// With this record the session began, or ended.
    begun: u64,
    /// What threads share that write.
    pub shared: Arc<SharedWriter>,
    /// When records count.
    pub sync: LogSync,
    /// Index of the next record.
    next: u64,
    /// Time of the last record.
    at: Nanos,
    waiting: VecDeque<Due>,
    /// With batch: a commit is under way.
    committing: bool,
    /// With interval: a flush is to come, or under way.
    flushing: bool,
    /// It is tried again.
    retrying: bool,
    failing: Option<Arc<str>>,
    /// The last flush failed: a write that succeeds does not mean that the disk works.
    unflushed: bool,
    /// How far lines were handed to sockets, as it was last recorded.
    pub handed: HandedTo,
    /// How far lines have arrived.
    pub trail: Trail,
    /// Bytes since the last snapshot.
    pub(super) since: u64,
    /// Work of the partitions since then.
    pub(super) work: Duration,
    pub(super) snapshotting: bool,
    /// Snapshots that are kept: the record after which each holds, and the one from which it is read on.
    pub snapshots: Vec<(u64, u64)>,
    /// Bytes since the last snapshot after which the next is considered.
    pub(super) due: u64,
    /// Numbered requests of the session that are recorded.
    pub numbers: Numbers,
    /// Requests with keys of the session that are recorded.
    pub keys: KeysTaken,
    /// Events in its records since the log began: the id of the next.
    pub events: u64,
    /// Room for a payload.
    pub(super) scratch: Vec<u8>,
}

/// What waits for a record.
pub(super) struct Due {
    index: u64,
    pub(super) epoch: u64,
    pub(super) line: u64,
    outlet: Option<(Arc<Outlet>, u64)>,
    permits: Vec<Permit>,
    /// With this the usage of the session ends.
    stands: Option<(Publisher, Stands)>,
}

impl RmLog {
    /// The log of a resource manager, whose next record has this index, at this time or later.
    pub fn new(logs: Arc<Logs>, home: Home, rm: &str, sync: LogSync, next: u64, at: Nanos) -> RmLog {
        let title = logs.title(rm);
        let writer = Mutex::new(Writer::new(logs.directory(rm), title.clone()));
        let far = match &home {
            Home::Here(_) => None,
            Home::Far(far) => Some(far.clone()),
        };
        let shared = Arc::new(SharedWriter::new(writer, far, next));
        RmLog {
            due: logs.snapshot,
            logs,
            title,
            home,
            begun: next,
            shared,
            sync,
            next,
            at,
            waiting: VecDeque::new(),
            committing: false,
            flushing: false,
            retrying: false,
            failing: None,
            unflushed: false,
            handed: HandedTo::default(),
            trail: Trail::taken_up(),
            since: 0,
            work: Duration::ZERO,
            snapshotting: false,
            snapshots: Vec::new(),
            numbers: Numbers::default(),
            keys: KeysTaken::default(),
            events: 0,
            scratch: Vec::new(),
        }
    }

    /// Index of the last record.
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    /// Time of the last record.
    pub fn at(&self) -> Nanos {
        self.at
    }

    /// Why nothing can be written at present.
    pub fn failing(&self) -> Option<&Arc<str>> {
        self.failing.as_ref()
    }

    /// Adds a record. When it counts, what was handed to [`RmLog::wait`] for it is released.
    pub fn append(&mut self, kind: u32, at: Nanos, payload: &[u8]) -> u64 {
        let index = self.next;
        self.next += 1;
        self.at = self.at.max(at);
        self.shared.add(kind, index, self.at, payload);
        let bytes = log::total(payload) as u64;
        self.since += bytes;
        if let Some(metrics) = &self.logs.metrics {
            metrics.record(bytes);
        }
        index
    }

    /// What waits for the last record: lines of a session up to this one, events of a partition, whoever handed it in.
    pub fn wait(&mut self, epoch: u64, line: u64, outlet: Option<(Arc<Outlet>, u64)>, permits: Vec<Permit>) {
        let permits = if crate::domain::planted!("receipt-early") { Vec::new() } else { permits };
        self.waiting.push_back(Due { index: self.last(), epoch, line, outlet, permits, stands: None });
    }

    /// Records what a partition delivers.
    pub fn deliver(&mut self, msg: &Deliver, asks: Predicates, handed: HandedTo, now: Nanos) {
        match &msg.entry {
            Some(entry) => {
                let handed = (handed != self.handed).then_some(handed);
                self.handed = handed.unwrap_or(self.handed);
                let mut payload = std::mem::take(&mut self.scratch);
                let taken = Taken::of(&entry.permits);
                let by = PartOf::Partition(entry.instance);
                self.numbers.note(&taken.requests, by);
                self.keys.note(&taken.keyed, by, entry.at);
                self.work += entry.took;
                record::steps(entry, asks, handed, &taken, &mut payload);
                self.append(kind::PARTITION, entry.at, &payload);
                self.scratch = payload;
                self.count(entry);
            }
            None => {
                let callbacks = msg.items.iter().filter_map(|item| match item {
                    Outgoing::Callback(callback) => Some(callback.clone()),
                    Outgoing::Ask(_) => None,
                });
                let callbacks: Vec<_> = callbacks.collect();
                self.append(kind::SAID, now, &record::said(&msg.partition, &callbacks));
            }
        }
    }

    /// Records that requests were carried out, or parts of them, that are for no partition.
    pub fn taken(&mut self, permits: Vec<Permit>, epoch: u64, line: u64, now: Nanos) {
        let Taken { requests, keyed } = Taken::of(&permits);
        for refused in permits.iter().filter_map(Permit::refused) {
            self.append(kind::REFUSED, now, &record::json(&refused));
            self.numbers.refuse(refused);
        }
        if !requests.is_empty() {
            self.numbers.note(&requests, PartOf::Session);
            self.append(kind::TAKEN, now, &record::json(&requests));
        }
        if !keyed.is_empty() {
            self.keys.note(&keyed, PartOf::Session, now);
            self.append(kind::KEYED, now, &record::json(&keyed));
        }
        self.wait(epoch, line, None, permits);
    }

    /// What is recorded from now on begins a segment, so that what was before can go.
    pub fn begin_segment(&mut self) {
        self.begun = self.next;
        if matches!(self.home, Home::Here(_)) {
            // Where that fails, what waits goes into the new segment too.
            let _ = self.shared.commit(false);
            self.shared.begin_segment();
        }
    }

    /// A session begins: its first record, with which a segment begins, so that all that was before can go.
    pub fn begin_session(&mut self, registered: &Registered, at: Nanos) {
        self.begin_segment();
        let registered = Registered { events: Some(self.events), ..registered.clone() };
        self.append(kind::REGISTERED, at, &record::json(&registered));
        self.wait(registered.epoch, 0, None, Vec::new());
        // What is known of lines and requests is of the session before: numbers begin anew.
        self.handed = HandedTo::default();
        self.trail = Trail::default();
        self.numbers = Numbers::default();
        self.keys = KeysTaken::default();
        self.snapshots.clear();
    }

    /// Records up to this one count: releases what waits for them, and gives how far lines may leave, by session.
    pub fn settle(&mut self, upto: u64) -> Vec<(u64, u64)> {
        let mut lines: Vec<(u64, u64)> = Vec::new();
        while self.waiting.front().is_some_and(|due| due.index <= upto)
            && let Some(due) = self.waiting.pop_front()
        {
            if let Some((outlet, number)) = due.outlet {
                // Before the lines: whoever has read one finds its events.
                outlet.release(number);
            }
            if let Some((to, stands)) = due.stands {
                to.stands(stands);
            }
            match lines.last_mut() {
                Some((epoch, line)) if *epoch == due.epoch => *line = due.line,
                _ => lines.push((due.epoch, due.line)),
            }
            // Whoever waits for a receipt gets it.
            drop(due.permits);
        }
        lines
    }

    fn fail(&mut self, error: &WriteError) {
        let why: Arc<str> = format!("{error}; nothing is taken until it can be written").into();
        if self.failing.is_none() {
            tracing::error!(code = "log-not-written", rm = self.title.rm, "{why}");
        }
        if let Some(metrics) = &self.logs.metrics {
            metrics.failed();
        }
        self.failing = Some(why);
    }

    /// The session could not be brought back.
    pub(super) fn count_lost(&self) {
        if let Some(metrics) = &self.logs.metrics {
            metrics.lost();
        }
    }
}

/// A commit on another thread has ended.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Committed {
    result: Result<u64, WriteError>,
    took: Duration,
}

impl RmActor {
    /// When what goes into the present session counts as recorded.
    pub(super) fn log_sync(&self) -> LogSync {
        self.log.as_ref().map_or(LogSync::Off, |log| log.sync)
    }

    /// Has what was recorded written, and releases what waited for it where that counts already.
    pub(super) fn commit(&mut self, ctx: &mut Context<Self>) {
        let Some(log) = self.log.as_mut().filter(|log| !log.shared.is_ended()) else { return };
        match log.sync {
            LogSync::Batch => {
                if !log.committing && log.waiting.back().is_some() {
                    log.committing = true;
                    self.commit_elsewhere(ctx);
                }
            }
            LogSync::Interval | LogSync::Off => {
                let written = log.shared.count();
                if written.is_ok() && !log.flushing {
                    log.flushing = true;
                    ctx.run_later(FLUSH, |actor, ctx| actor.commit_elsewhere(ctx));
                }
                self.settled(&written, ctx);
            }
        }
        self.snapshot_if_due(ctx);
    }

    /// On a thread that may block, with a flush.
    fn commit_elsewhere(&self, ctx: &Context<Self>) {
        let Some(log) = &self.log else { return };
        let (shared, actor, dir) = (log.shared.clone(), ctx.address(), log.logs.directory(&self.id));
        actix::spawn(async move {
            let began = Instant::now();
            let result = tokio::task::spawn_blocking(move || shared.commit(true)).await;
            // A thread that panicked is treated as a disk that refuses: it is tried again.
            let result = result.unwrap_or_else(|error| Err(WriteError::broke_down(dir, &error)));
            actor.do_send(Committed { result, took: began.elapsed() });
        });
    }

    pub(super) fn settled(&mut self, written: &Result<u64, WriteError>, ctx: &mut Context<Self>) {
        let Some(log) = &mut self.log else { return };
        let was_failing = log.failing.is_some();
        match written {
            Ok(upto) => {
                if !log.unflushed {
                    log.failing = None;
                }
                for (epoch, line) in log.settle(*upto) {
                    if let Some(session) = self.session.as_mut().filter(|session| session.epoch == epoch) {
                        session.buffer.release(line);
                    }
                }
            }
            Err(error) => {
                log.fail(error);
                if !log.retrying {
                    log.retrying = true;
                    ctx.run_later(AGAIN, |actor, ctx| {
                        if let Some(log) = &mut actor.log {
                            log.retrying = false;
                            log.committing = true;
                        }
                        actor.commit_elsewhere(ctx);
                    });
                }
            }
        }
        let fails = self.log.as_ref().is_some_and(|log| log.failing.is_some());
        if was_failing != fails {
            if !fails {
                tracing::info!(rm = &*self.id, "the log is written again");
            }
            self.show();
            self.hold_placements();
        }
    }

    /// Until everything that was recorded is on the disk; then what is no longer needed goes.
    pub(super) fn flushed(&self, prune: bool) -> impl Future<Output = Result<(), Arc<str>>> + use<> {
        let work = self.log.as_ref().map(|log| (log.shared.clone(), log.home.clone(), log.begun));
        async move {
            let Some((shared, home, begun)) = work else { return Ok(()) };
            let done = tokio::task::spawn_blocking(move || {
                shared.commit(true).map_err(|error| error.to_string())?;
                if prune && let Err(error) = home.prune(begun, begun) {
                    tracing::warn!(code = "log-old-file", %error, "what is old of the log cannot be removed: {home:?}");
                }
                Ok(())
            });
            done.await.unwrap_or_else(|error| Err(error.to_string())).map_err(|why: String| Arc::from(why))
        }
    }

    /// The last record of the session's own is on the way: lines up to the newest wait for it.
    pub(super) fn line_waits(&mut self) {
        if let (Some(log), Some(session)) = (&mut self.log, &self.session) {
            log.wait(session.epoch, session.buffer.last(), None, Vec::new());
        }
    }

    /// Says in the log what of the session changed that no other record tells.
    pub(super) fn note_manner(&mut self, ctx: &mut Context<Self>) {
        let (Some(log), Some(session)) = (&mut self.log, &mut self.session) else { return };
        let manner = session.present_manner();
        if manner != session.manner {
            log.append(kind::MANNER, self.clock.now(), &record::json(&manner));
            session.manner = manner;
            self.line_waits();
            self.commit(ctx);
        }
    }

    /// Says in the log how far lines were handed to sockets, where no other record has said so since.
    pub(super) fn note_delivered(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        let (Some(log), Some(session)) = (&mut self.log, &self.session) else { return };
        log.trail.note(now, session.buffer.delivered());
        let handed = Kind::ALL.map(|kind| session.buffer.handed(kind));
        if handed != log.handed {
            log.handed = handed;
            log.append(kind::HANDED, now, &record::handed(handed));
            self.line_waits();
            self.commit(ctx);
        }
    }

    /// Records something of the session's own, before its line is made.
    pub(super) fn record(&mut self, kind: u32, payload: &[u8]) {
        let now = self.clock.now();
        if let Some(log) = &mut self.log {
            log.append(kind, now, payload);
        }
    }
}

impl Handler<CarriedOut> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: CarriedOut, ctx: &mut Self::Context) {
        let now = self.clock.now();
        let (Some(log), Some(session)) = (&mut self.log, &self.session) else { return };
        if session.epoch == msg.epoch {
            log.taken(vec![msg.permit], session.epoch, session.buffer.last(), now);
            self.commit(ctx);
        }
    }
}

impl Handler<Committed> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: Committed, ctx: &mut Self::Context) {
        let Some(log) = &mut self.log else { return };
        (log.committing, log.flushing) = (false, false);
        log.unflushed = msg.result.is_err();
        if let (Ok(_), Some(metrics)) = (&msg.result, &log.logs.metrics) {
            metrics.flushed(msg.took);
        }
        self.settled(&msg.result, ctx);
        // What gathered meanwhile.
        if let Some(log) = &self.log
            && log.failing.is_none()
            && (log.sync == LogSync::Batch || log.shared.synced() < log.last())
        {
            self.commit(ctx);
        }
        self.pump(ctx);
    }
}
