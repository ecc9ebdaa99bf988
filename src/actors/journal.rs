//! `JournalActor`: one per partition, over all its sessions. It keeps the resource journal in memory and on disk, tells
//! readers of it, and the partition of what operators drained.
//!
//! While a write is under way the actor takes no other message, so the order of its mailbox is the order of the file,
//! of the journal in memory and of every stream, and a reader that attaches gets each event once.

pub(crate) mod disk;
mod faults;
pub(crate) mod inherit;
pub(crate) mod log;
mod lost;
pub(crate) mod orders;
mod registry;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use actix::prelude::*;
use bytes::Bytes;
use tokio::{task::spawn_blocking, time::Instant};

use self::{disk::stamp, log::Log};
pub use self::{faults::Faults, registry::Journals};
pub use crate::domain::journal::DEFAULT_LIMIT;
use crate::{
    domain::{
        command::Command,
        effect::NodeEffect,
        journal::{DrainRefusal, Fact, Journal, Kind, Moment, Output, ResourceEvent, Settings},
        types::Nanos,
    },
    messages::{
        clock::nanos,
        journal::{
            Agree, Attach, Attached, Begin, Cancel, ConfigureJournal, Drain, End, Ended, Feed, GetOverdue, GetStatus,
            Moved, Piece, Post, SetExpiration, Standing, Status, Undrain, live, responses,
        },
        partition::Commands,
        rm::Closing,
    },
    store::{
        eventlog::{self, Record},
        journal::{self as files, Directory, is_of_set},
        queue_orders, resource_set,
    },
};

/// How long it is waited before files are opened again that could not be.
const AGAIN: Duration = Duration::from_secs(1);

/// What a `JournalActor` is made of.
#[derive(Clone, Debug)]
pub struct JournalSetup {
    /// Internal name of the partition.
    pub partition: Arc<str>,
    /// Its directory; `None`: memory only.
    pub dir: Option<PathBuf>,
    /// How long facts are collected into one event, and how long a host that went away keeps its rank.
    pub settings: Settings,
    /// Events that are kept in memory at most.
    pub limit: usize,
    /// Where it tells what is wrong with its files.
    pub faults: Arc<Faults>,
    /// Where it tells that it would be missed: it has a session, readers or files, or knows of a drain or an order.
    pub held: Arc<AtomicBool>,
}

/// See the module.
pub struct JournalActor {
    setup: JournalSetup,
    journal: Journal,
    log: Log,
    storage: Storage,
    orders: orders::KeptOrders,
    /// See [`disk::Loaded::undrained`].
    undrained: Option<BTreeMap<Arc<str>, Nanos>>,
    /// While it is not read, it was told what holds by a partition that another server led: that counts, whatever is read.
    agreed: bool,
    /// The present resource set as JSON.
    r: Arc<str>,
    streams: BTreeMap<u64, Stream>,
    next_stream: u64,
    session: Option<(u64, Recipient<Commands>)>,
    /// What readers are told while another server leads.
    moved: Option<Closing>,
    timer: Option<SpawnHandle>,
    started: Instant,
}

/// Where events are kept.
#[derive(Clone)]
enum Storage {
    Memory,
    Disk(Kept),
    /// There should be a directory, and what it has is not known.
    Unread(String),
    /// There should be a directory, and nothing can be written to it.
    Broken(String),
}

/// A directory, whose files are made with the first event that is worth it.
#[derive(Clone)]
struct Kept {
    directory: Arc<Mutex<Directory>>,
    exists: bool,
}

/// Events that belong on disk, with the resource set that they tell of.
struct Write {
    directory: Arc<Mutex<Directory>>,
    r: Option<Arc<str>>,
    records: Vec<Record>,
    /// Its files are closed afterwards.
    rest: bool,
}

struct Stream {
    live: Feed,
    ended: Arc<OnceLock<Ended>>,
}

/// Events with their text, before they are published.
#[derive(Default)]
pub(crate) struct Batch {
    /// Each, and whether it belongs on disk.
    pub(crate) records: Vec<(Record, bool)>,
    /// The resource set, where it was defined.
    pub(crate) r: Option<Arc<str>>,
}

impl JournalActor {
    /// Starts one on an arbiter.
    pub fn start_on(arbiter: &ArbiterHandle, setup: JournalSetup) -> Addr<JournalActor> {
        JournalActor::start_in_arbiter(arbiter, move |_| {
            let journal = Journal::new(setup.settings, Vec::new(), 0);
            JournalActor {
                r: resource_set::encode(&journal.resource_set()).into(),
                journal,
                log: Log::new(setup.limit),
                storage: Storage::Memory,
                orders: orders::KeptOrders::default(),
                undrained: None,
                agreed: false,
                streams: BTreeMap::new(),
                next_stream: 1,
                session: None,
                moved: None,
                timer: None,
                started: Instant::now(),
                setup,
            }
        })
    }

    fn now(&self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { wall: nanos(wall), steady: nanos(self.started.elapsed()) }
    }

    /// Reads the directory. Nothing else is handled before that is done. Where it cannot be opened it is tried again: until then
    /// the journal is in memory, with what could be read and what sessions know, and an operator is refused.
    fn load(&mut self, dir: PathBuf, ctx: &mut Context<Self>) {
        let (settings, limit, of_load) = (self.setup.settings, self.log.limit(), dir.clone());
        let load = spawn_blocking(move || disk::load(&of_load, settings, limit + 1));
        ctx.wait(load.into_actor(self).map(move |loaded, actor, ctx| match loaded {
            Ok(mut loaded) => {
                let first = matches!(actor.storage, Storage::Memory);
                match loaded.passing.take() {
                    Some(why) => {
                        if first {
                            actor.take(loaded);
                        }
                        actor.not_loaded(dir, why, ctx);
                    }
                    None if first => actor.loaded(dir, loaded),
                    None => actor.loaded_late(dir, loaded, ctx),
                }
            }
            Err(error) => {
                let why = format!("the journal in {} cannot be read: {error}", dir.display());
                actor.setup.faults.found(dir, vec![why.clone()], Vec::new());
                actor.storage = Storage::Unread(why);
            }
        }));
    }

    fn not_loaded(&mut self, dir: PathBuf, why: String, ctx: &mut Context<Self>) {
        if self.setup.faults.failing(Some(&why)) {
            tracing::error!(
                code = "journal-not-read",
                partition = %self.setup.partition,
                "{why}: it is tried again each second; until then what sessions know of drains and orders to queues holds, and new ones are refused"
            );
        }
        self.storage = Storage::Unread(why);
        ctx.run_later(AGAIN, |actor, ctx| actor.load(dir, ctx));
    }

    /// A session that began meanwhile hears what operators told, and the journal of its nodes, as after a restart.
    fn loaded_late(&mut self, dir: PathBuf, loaded: disk::Loaded, ctx: &mut Context<Self>) {
        tracing::info!(partition = %self.setup.partition, "the journal is read now");
        let (before, own) = (self.journal.clone(), self.standing());
        self.log = Log::new(self.log.limit());
        self.loaded(dir, loaded);
        let agreed = std::mem::take(&mut self.agreed);
        let mut out = if agreed {
            let (hosts, notes) = (own.hosts.iter().cloned().collect(), own.notes.iter().cloned().collect());
            self.agree(&Agree { nodes: Default::default(), hosts, notes })
        } else {
            self.restore_lost(own.clone(), ctx)
        };
        if let Some((epoch, partition)) = &self.session {
            let Standing { hosts, notes, mut orders } = self.standing();
            let gone: Vec<_> = own.hosts.into_iter().filter(|host| !hosts.contains(host)).collect();
            let stale = before.status().into_iter().filter(|target| target.online && gone.contains(&target.host));
            let stale: Vec<_> = stale.filter_map(|target| target.node).collect();
            let resumed = own.orders.into_iter().filter(|(path, _)| !self.orders.orders.contains_key(path));
            orders.extend(resumed.map(|(path, _)| (path, None)));
            let told = [
                (!gone.is_empty()).then_some(Command::HoldHosts { hosts: gone, held: false }),
                (!hosts.is_empty()).then_some(Command::HoldHosts { hosts, held: true }),
                (!notes.is_empty()).then_some(Command::NoteDrains(notes)),
                (!orders.is_empty() && !agreed).then_some(Command::OrderQueues(orders)),
            ];
            let commands: Vec<Command> = told.into_iter().flatten().collect();
            if !commands.is_empty() {
                partition.do_send(Commands::of(*epoch, commands));
            }
            let now = self.now();
            self.journal.take_up(&before, now, &mut out);
            for node in stale {
                self.journal.apply(Fact::Node(NodeEffect::Held { node }), now, &mut out);
            }
        }
        self.commit(out, ctx);
    }

    /// What operators told before the next session.
    fn standing(&self) -> Standing {
        let (hosts, notes) = (self.journal.held_hosts(), self.journal.drain_notes());
        Standing { hosts, notes, orders: self.orders.list() }
    }

    fn loaded(&mut self, dir: PathBuf, mut loaded: disk::Loaded) {
        self.storage = match std::mem::replace(&mut loaded.directory, Err(String::new())) {
            Ok(directory) => {
                Storage::Disk(Kept { exists: directory.is_kept(), directory: Arc::new(Mutex::new(directory)) })
            }
            Err(why) => Storage::Broken(why),
        };
        for damage in &loaded.damage {
            tracing::error!(code = "journal-damaged", partition = %self.setup.partition, journal = %dir.display(), "damaged: {damage}");
        }
        for fault in &loaded.faults {
            tracing::warn!(code = "journal-fault", partition = %self.setup.partition, "{fault}");
        }
        self.setup.faults.found(dir, std::mem::take(&mut loaded.damage), std::mem::take(&mut loaded.faults));
        self.take(loaded);
    }

    fn take(&mut self, loaded: disk::Loaded) {
        self.journal = loaded.journal;
        self.orders = loaded.orders;
        self.undrained = loaded.undrained;
        self.r = resource_set::encode(&self.journal.resource_set()).into();
        for record in loaded.records {
            self.log.push(record);
        }
        self.log.all_stored();
        self.note_held();
    }

    /// Publishes what the journal put out, after what belongs on disk was written, and arms the timer anew. A disk that
    /// fails here holds nothing up: what happened to nodes has happened, and is written with the next event.
    fn commit(&mut self, out: Vec<Output>, ctx: &mut Context<Self>) {
        let batch = self.take_out(out);
        let Some(write) = self.to_write(batch.durable(), batch.r.as_ref()) else { return self.publish(batch, ctx) };
        ctx.wait(spawn_blocking(|| write.run()).into_actor(self).map(move |written, actor, ctx| {
            let written = actor.written(written.unwrap_or_else(|error| (Err(error.to_string()), Vec::new())));
            actor.publish(batch, ctx);
            if written.is_ok() {
                actor.log.all_stored();
            }
        }));
    }

    fn to_write(&self, records: Vec<Record>, r: Option<&Arc<str>>) -> Option<Write> {
        let Storage::Disk(Kept { directory, exists, .. }) = &self.storage else { return None };
        let (r, records) = to_store(&self.log, *exists, records, r.unwrap_or(&self.r))?;
        Some(Write { directory: directory.clone(), r, records, rest: self.session.is_none() })
    }

    /// Without a session there is little to write: a journal that is kept for what is drained holds no files open.
    fn rest(&self) {
        if let Storage::Disk(Kept { directory, .. }) = &self.storage {
            let directory = directory.clone();
            spawn_blocking(move || directory.lock().unwrap_or_else(PoisonError::into_inner).rest());
        }
    }

    /// Takes note of what came of writing.
    fn written(&mut self, (written, damage): (Result<(), String>, Vec<String>)) -> Result<(), String> {
        let partition = &self.setup.partition;
        if !damage.is_empty() {
            let new = self.setup.faults.damaged(self.setup.dir.clone().unwrap_or_default(), damage);
            new.iter().for_each(|damage| tracing::error!(code = "journal-damaged", %partition, "damaged: {damage}"));
        }
        let failing = written.as_ref().err();
        if self.setup.faults.failing(failing.map(String::as_str)) {
            match failing {
                Some(why) => tracing::error!(code = "journal-not-written", %partition, "{why}"),
                None => tracing::info!(%partition, "the journal is written to disk again"),
            }
        }
        if let (Storage::Disk(kept), Ok(())) = (&mut self.storage, &written) {
            kept.exists = true;
        }
        written
    }

    /// Tells the partition what concerns it, and gives the events.
    fn take_out(&self, out: Vec<Output>) -> Batch {
        let (events, commands) = parted(out);
        // One that is not read yet does not know all that is drained, and what is held by it.
        if let (Some((epoch, partition)), false) = (&self.session, commands.is_empty() || self.is_unread()) {
            partition.do_send(Commands::of(*epoch, commands));
        }
        Batch::of(&events, &self.journal)
    }

    /// Events enter the journal in memory and the streams at the same moment.
    fn publish(&mut self, batch: Batch, ctx: &mut Context<Self>) {
        if let Some(r) = batch.r {
            self.r = r;
        }
        for (record, _) in batch.records {
            if !self.streams.is_empty() {
                let r = (&*record.name == "resource-define").then(|| self.r.clone());
                let piece = Piece { event: record.json.clone(), r };
                for line in responses(vec![piece]) {
                    self.streams.retain(|_, stream| stream.send(line.clone()));
                }
            }
            self.log.push(record);
        }
        self.arm(ctx);
    }

    /// What operators told is not known yet, or not all of it.
    fn is_unread(&self) -> bool {
        matches!(self.storage, Storage::Unread(_))
    }

    /// To be called where something of it may have changed.
    fn note_held(&self) {
        let on_disk = match &self.storage {
            Storage::Memory => false,
            Storage::Disk(kept) => kept.exists,
            Storage::Unread(_) | Storage::Broken(_) => true,
        };
        let orders = self.orders.change > 0 || self.orders.broken.is_some() || !self.orders.orders.is_empty();
        // Hosts come last: they are looked for one by one.
        let held = self.session.is_some() || !self.streams.is_empty() || on_disk || orders;
        let held = held || !self.journal.held_hosts().is_empty();
        self.setup.held.store(held, Ordering::Release);
    }

    fn arm(&mut self, ctx: &mut Context<Self>) {
        self.note_held();
        if let Some(timer) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        let now = self.now();
        if let Some(deadline) = self.journal.next_deadline(now) {
            let wait = deadline.minus(now.steady).0.max(0);
            self.timer = Some(ctx.run_later(Duration::from_nanos(wait.unsigned_abs()), |actor, ctx| {
                actor.timer = None;
                let mut out = Vec::new();
                actor.journal.tick(actor.now(), &mut out);
                actor.commit(out, ctx);
            }));
        }
    }

    /// Writes what is pending and the events of an operator's request, then publishes both. If the request cannot be
    /// written it is refused, and nothing of it happens.
    fn operate(
        &mut self,
        plan: impl FnOnce(&Journal, Moment) -> Result<Vec<ResourceEvent>, DrainRefusal>,
    ) -> Operation {
        let now = self.now();
        let mut out = Vec::new();
        self.journal.flush(now, &mut out);
        let pending = self.take_out(out);
        let planned = plan(&self.journal, now).and_then(|events| match &self.storage {
            Storage::Unread(why) | Storage::Broken(why) => {
                Err(DrainRefusal::Disk(format!("{why}; nothing was changed")))
            }
            _ => Ok(events),
        });
        let batch = planned.as_ref().map_or_else(|_| Batch::default(), |events| Batch::of(events, &self.journal));
        let mut records = pending.durable();
        records.extend(batch.durable());
        let write = self.to_write(records, batch.r.as_ref().or(pending.r.as_ref()));
        let written = async move {
            let write = spawn_blocking(|| write.map(Write::run)).await;
            write.unwrap_or_else(|error| Some((Err(error.to_string()), Vec::new())))
        };
        let done = written.into_actor(self).map(move |written, actor, ctx| {
            let stored = matches!(written, Some((Ok(()), _)));
            let written = written.map_or(Ok(()), |written| actor.written(written));
            actor.publish(pending, ctx);
            let answer = planned.and_then(|events| match written {
                Ok(()) => Ok(events),
                Err(why) => Err(DrainRefusal::Disk(format!("{why}; nothing was changed"))),
            });
            let answer = answer.map(|events| {
                let mut out = Vec::new();
                actor.journal.carry_out(&events, &mut out);
                actor.take_out(out);
                actor.publish(batch, ctx);
            });
            if stored {
                actor.log.all_stored();
            }
            answer
        });
        AtomicResponse::new(Box::pin(done))
    }
}

impl Write {
    /// Writes, and tells of damage that was found on the way. Blocks.
    fn run(self) -> (Result<(), String>, Vec<String>) {
        // The writer repairs what a panic may have left: it cuts the file before it appends.
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let written = directory.write(self.r.as_deref(), &self.records, &stamp());
        if self.rest {
            directory.rest();
        }
        (written, directory.take_damage())
    }
}

/// What a journal put out: events, and what the partition has to be told.
pub(crate) fn parted(out: Vec<Output>) -> (Vec<ResourceEvent>, Vec<Command>) {
    let mut events = Vec::new();
    let mut commands = Vec::new();
    for output in out {
        match output {
            Output::Event(event) => events.push(event),
            Output::Tell(Command::OperatorDrain { nodes: more, drained: same }) => match commands.last_mut() {
                Some(Command::OperatorDrain { nodes, drained }) if *drained == same => nodes.extend(more),
                _ => commands.push(Command::OperatorDrain { nodes: more, drained: same }),
            },
            Output::Tell(command) => commands.push(command),
        }
    }
    (events, commands)
}

/// What has to be written for these events to be on disk, with the resource set `r` where they tell of it. A journal that knows
/// of no drain is not kept (`exists`): that a resource set was defined is written with the first event that says more.
pub(crate) fn to_store(
    log: &Log,
    exists: bool,
    records: Vec<Record>,
    r: &Arc<str>,
) -> Option<(Option<Arc<str>>, Vec<Record>)> {
    let worth_it = |record: &Record| exists || &*record.name != "resource-define";
    if !records.iter().any(worth_it) || crate::domain::planted!("drain-unwritten") {
        return None;
    }
    let mut all = log.unstored();
    all.extend(records);
    let with_set = !exists || all.iter().any(is_of_set);
    Some((with_set.then(|| r.clone()), all))
}

type Operation = AtomicResponse<JournalActor, Result<(), DrainRefusal>>;

impl Batch {
    pub(crate) fn of(events: &[ResourceEvent], journal: &Journal) -> Batch {
        let mut r = None;
        for event in events {
            if let Kind::Define(_) | Kind::Update { .. } = event.kind {
                r = Some(r.unwrap_or_else(|| journal.resource_set()));
            }
            if let (Kind::Update { expiration }, Some(r)) = (&event.kind, &mut r) {
                r.expiration = *expiration;
            }
        }
        Batch {
            records: events.iter().map(|event| (Record::of(event), event.kind.durable())).collect(),
            r: r.map(|r| resource_set::encode(&r).into()),
        }
    }

    /// What belongs into the file.
    pub(crate) fn durable(&self) -> Vec<Record> {
        self.records.iter().filter(|(_, durable)| *durable).map(|(record, _)| record.clone()).collect()
    }
}

impl Stream {
    /// Hands a response to the reader. False: the reader is gone, or too far behind.
    fn send(&self, line: Bytes) -> bool {
        let kept = self.live.send(line);
        if kept == Some(false) {
            self.end(Ended::Lagged);
        }
        kept.unwrap_or(false)
    }

    fn end(&self, why: Ended) {
        // The first reason is the one.
        let _ = self.ended.set(why);
    }
}

impl Actor for JournalActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(dir) = self.setup.dir.clone() else { return };
        self.load(dir, ctx);
    }
}

impl Handler<Begin> for JournalActor {
    type Result = Standing;

    fn handle(&mut self, msg: Begin, ctx: &mut Self::Context) -> Self::Result {
        self.session = Some((msg.epoch, msg.partition));
        self.moved = None;
        self.journal.begin(self.now());
        let out = msg.own.map(|own| self.restore_lost(own, ctx)).unwrap_or_default();
        self.commit(out, ctx);
        self.standing()
    }
}

impl Handler<End> for JournalActor {
    type Result = ();

    fn handle(&mut self, msg: End, ctx: &mut Self::Context) {
        if self.session.as_ref().is_some_and(|(epoch, _)| *epoch == msg.epoch) {
            self.session = None;
            let mut out = Vec::new();
            self.journal.end(self.now(), &mut out);
            self.commit(out, ctx);
            self.rest();
        }
    }
}

impl Handler<Moved> for JournalActor {
    type Result = ();

    fn handle(&mut self, Moved(closing): Moved, _ctx: &mut Self::Context) {
        // Its nodes did not go: the session that begins here next tells which of them are left.
        self.session = None;
        self.rest();
        for stream in std::mem::take(&mut self.streams).into_values() {
            stream.end(Ended::Moved(closing.clone()));
        }
        self.moved = Some(closing);
        self.note_held();
    }
}

impl Handler<Post> for JournalActor {
    type Result = ();

    fn handle(&mut self, msg: Post, ctx: &mut Self::Context) {
        if self.session.as_ref().is_none_or(|(epoch, _)| *epoch != msg.epoch) {
            return;
        }
        let now = self.now();
        let mut out = Vec::new();
        for fact in msg.facts {
            self.journal.apply(fact, now, &mut out);
        }
        self.commit(out, ctx);
    }
}

impl Handler<Drain> for JournalActor {
    type Result = Operation;

    fn handle(&mut self, msg: Drain, _ctx: &mut Self::Context) -> Operation {
        self.operate(|journal, now| journal.plan_drain(&msg.0, now))
    }
}

impl Handler<Undrain> for JournalActor {
    type Result = Operation;

    fn handle(&mut self, msg: Undrain, _ctx: &mut Self::Context) -> Operation {
        self.operate(|journal, now| journal.plan_undrain(&msg.0, now))
    }
}

impl Handler<SetExpiration> for JournalActor {
    type Result = Operation;

    fn handle(&mut self, SetExpiration(expiration): SetExpiration, _ctx: &mut Self::Context) -> Operation {
        self.operate(|journal, now| Ok(journal.plan_expiration(expiration, now)))
    }
}

impl Handler<ConfigureJournal> for JournalActor {
    type Result = ();

    fn handle(&mut self, ConfigureJournal(limit): ConfigureJournal, _ctx: &mut Self::Context) {
        self.log.set_limit(limit);
    }
}

impl Handler<Attach> for JournalActor {
    type Result = MessageResult<Attach>;

    fn handle(&mut self, msg: Attach, _ctx: &mut Self::Context) -> Self::Result {
        let ended = Arc::<OnceLock<Ended>>::default();
        let stream = self.next_stream;
        self.next_stream += 1;
        self.streams.retain(|_, stream| !stream.live.is_closed());
        let live = msg.follow.then(|| {
            let (live, receiver) = live();
            let reader = Stream { live, ended: ended.clone() };
            match &self.moved {
                Some(closing) => reader.end(Ended::Moved(closing.clone())),
                None => drop(self.streams.insert(stream, reader)),
            }
            receiver
        });
        self.note_held();
        let history = if msg.historical {
            self.log.history(&self.r, &self.journal.ranks(), &self.journal.nodelist())
        } else {
            Vec::new()
        };
        MessageResult(Attached { stream, history, live, ended })
    }
}

impl Handler<Cancel> for JournalActor {
    type Result = bool;

    fn handle(&mut self, msg: Cancel, _ctx: &mut Self::Context) -> bool {
        let there = self.streams.remove(&msg.0).is_some();
        self.note_held();
        there
    }
}

impl Handler<GetOverdue> for JournalActor {
    type Result = MessageResult<GetOverdue>;

    fn handle(&mut self, _msg: GetOverdue, _ctx: &mut Self::Context) -> Self::Result {
        MessageResult(self.journal.overdue(self.now()))
    }
}

impl Handler<GetStatus> for JournalActor {
    type Result = MessageResult<GetStatus>;

    fn handle(&mut self, _msg: GetStatus, _ctx: &mut Self::Context) -> Self::Result {
        self.streams.retain(|_, stream| !stream.live.is_closed());
        MessageResult(Status {
            targets: self.journal.status(),
            r: self.r.clone(),
            streams: self.streams.len(),
            faults: self.setup.faults.all(),
        })
    }
}
