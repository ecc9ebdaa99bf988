//! `RmActor`: the conversation with one resource manager. Registration life cycle, numbered callbacks, streams, predicates.

mod alive;
pub mod buffer;
pub mod follow;
pub mod forget;
pub mod handle;
pub mod lead;
mod life;
pub mod lines;
pub mod log;
pub mod open;
pub mod questions;
mod reconfigure;
pub mod record;
mod registration;
mod repeated;
pub mod replay;
pub mod restore;
mod saved_lines;
mod session;
mod settings;
pub mod snapshot;
pub mod standby;
mod standing;
pub mod streams;
mod submit;
#[cfg(test)]
pub mod tests;
mod timers;
pub mod traced;
mod unknown;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use actix::prelude::*;
use arc_swap::ArcSwap;
use tokio::sync::oneshot;

pub use reconfigure::{InForce, Reconfigure, Tried, no_partitions};
pub use registration::Register;
pub use settings::RmSettings;

use self::{
    handle::RmView,
    life::Life,
    log::RmLog,
    record::kind,
    repeated::Repeatable,
    session::Session,
    streams::{CLOSED, Stream, Streams, Waiting},
};
use crate::{
    actors::topology::{PartitionHandle, Topology},
    messages::{
        clock::Clock,
        journal::Standing,
        rm::{
            AnswerBody, Answers, Attach, Attached, Closing, ClosingKind, Deliver, DeliverEvents, Detach, Handed, Info,
            Kind, Outgoing, Payload, Predicates, Refusal, RefusalKind, RmInfo, RmState, Shutdown, StateDump, ToStream,
            Want,
        },
    },
    store::log::Far,
};

/// How long the shim may take for a state dump.
const DUMP_TIMEOUT: Duration = Duration::from_secs(5);

/// The door that opens streams which carry everything over gRPC: predicates last as long as the stream.
pub const EXTENSION: &str = "grpc-extension";

/// See the module.
pub struct RmActor {
    id: Arc<str>,
    topology: Arc<Topology>,
    view: Arc<ArcSwap<RmView>>,
    /// Views of before that doors may still go by.
    earlier: Vec<Weak<RmView>>,
    /// Where it lives among the arbiters.
    home: usize,
    life: Life,
    epoch: u64,
    session: Option<Session>,
    streams: Streams,
    next_stream: u64,
    /// Streams may take more, and get it in the next turn.
    pumping: bool,
    dumps: BTreeMap<u64, oneshot::Sender<Result<String, String>>>,
    timers: timers::Timers,
    clock: Clock,
    /// Seconds for which nothing could be placed because callbacks were not read.
    unread_for: u32,
    /// Of the events that came last some were left out.
    events_left_out: bool,
    closing: bool,
    /// Where everything that goes in is recorded.
    log: Option<RmLog>,
    /// What was found of it at the start, until it goes on.
    found: Option<Box<replay::Found>>,
    /// Why its log is not enough to go on, until it registers again.
    lost: Option<Arc<str>>,
    /// Where its log is, where that is not on this machine.
    far: Option<Arc<dyn Far>>,
    /// What is said while another server leads it.
    elsewhere: Option<Refusal>,
    /// Why its log is not to grow by new placements.
    full: Option<Arc<str>>,
    /// Nor is anything taken that adds to it.
    crowded: bool,
    /// Snapshots that were taken to make room since then.
    for_room: snapshot::MakingRoom,
    /// What readers see while another server leads it.
    standby: Option<standby::Standby>,
    /// A line that a shim has and this server does not know, and the record that tells whether it leads.
    doubt: Option<(u64, u64)>,
    /// What operators told partitions that are not there now, where servers share its log: see [`standing`].
    standing: RefCell<BTreeMap<Arc<str>, Standing>>,
    /// Registrations and ends with keys that were carried out.
    repeatable: Vec<Repeatable>,
}

impl RmActor {
    /// An actor that is not registered yet.
    pub fn new(id: Arc<str>, topology: Arc<Topology>, view: Arc<ArcSwap<RmView>>, home: usize) -> RmActor {
        RmActor {
            id,
            topology,
            view,
            earlier: Vec::new(),
            home,
            life: Life::default(),
            epoch: 0,
            session: None,
            streams: Streams::default(),
            next_stream: 0,
            pumping: false,
            dumps: BTreeMap::new(),
            timers: timers::Timers::default(),
            clock: Clock::default(),
            unread_for: 0,
            events_left_out: false,
            closing: false,
            log: None,
            found: None,
            lost: None,
            far: None,
            elsewhere: None,
            full: None,
            crowded: false,
            for_room: snapshot::MakingRoom::default(),
            standby: None,
            doubt: None,
            standing: RefCell::default(),
            repeatable: Vec::new(),
        }
    }

    /// One that goes on with what was found of it.
    pub fn found(self, found: replay::Found) -> RmActor {
        RmActor { epoch: found.epoch, found: Some(Box::new(found)), ..self }
    }

    /// Enters a state: remembered, logged, counted, and shown to the doors.
    fn enter(&mut self, state: RmState, why: impl Into<Arc<str>>) {
        let why = why.into();
        tracing::info!(rm = &*self.id, epoch = self.epoch, state = state.name(), why = &*why, "resource manager");
        self.life.enter(state, self.clock.now(), why);
        self.topology.count(state);
        self.show();
    }

    fn show(&mut self) {
        self.show_without(&[]);
    }

    /// Shows doors the session, without partitions that are about to go: what comes for them waits for the outcome.
    fn show_without(&mut self, going: &[PartitionHandle]) {
        let session = self.session.as_ref();
        let partitions = session.into_iter().flat_map(|session| &session.partitions);
        let partitions = partitions.filter(|at| going.iter().all(|going| going.internal != at.internal));
        let view = Arc::new(RmView {
            state: self.life.state(),
            epoch: self.epoch,
            shared: session.map(|session| session.shared(self.topology.limits.items(), self.log.is_some())),
            partitions: partitions.map(|at| (at.internal.clone(), at.number, at.commands.clone())).collect(),
            closing: self.closing,
            failing: self.log.as_ref().and_then(|log| log.failing().cloned()),
            elsewhere: self.elsewhere.clone(),
            full: self.full.clone(),
            crowded: self.crowded,
            log: self.log.as_ref().map(|log| log.shared.clone()),
        });
        self.earlier.retain(|earlier| earlier.strong_count() > 0);
        // Pays what readers owe, so that whoever still goes by it is counted from here on.
        self.earlier.push(Arc::downgrade(&self.view.swap(view)));
    }

    /// The session, if it is this one.
    fn session(&mut self, epoch: u64) -> Option<&mut Session> {
        self.session.as_mut().filter(|session| session.epoch == epoch)
    }

    /// Takes over what streams have handed to their sockets.
    fn collect(&mut self) {
        let Some(session) = &mut self.session else { return };
        let mut credits = self.streams.collect(&mut session.buffer);
        if self.streams.only_plain() {
            // No plain stream carries them: they are not kept for one that never comes.
            credits += session.buffer.hand(session.buffer.last(), Some(Kind::Other));
        }
        // Nobody sends a release again that is still on its way.
        session.budget.set_handed(session.buffer.handed(Kind::Allocation));
        session.give_back(credits, 0);
        session.traced.collect(&session.buffer);
    }

    /// Sends what streams may take, after the buffer or a stream changed. An overflow ends the session.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        self.collect();
        let Some(session) = &mut self.session else { return };
        let more = self.streams.pump(&mut session.buffer, session.budget.pressure(), &session.traced);
        if more && !std::mem::replace(&mut self.pumping, true) {
            // Others on this thread come in between.
            ctx.spawn(tokio::task::yield_now().into_actor(self).map(|(), actor, ctx| {
                actor.pumping = false;
                actor.pump(ctx);
            }));
        }
        let Some(session) = &mut self.session else { return };
        if let Some(stream) = &self.streams.all
            && session.questions.sent(stream.sent(), tokio::time::Instant::now(), session.settings.predicates)
        {
            self.arm_questions(ctx);
        }
        let Some(session) = &mut self.session else { return };
        let reader = self.streams.all.as_ref().map(Stream::cursor);
        if !session.buffer.trim(session.settings.bounds, reader) {
            let bounds = session.settings.bounds;
            self.stop(
                format!("more than {} callbacks or {} bytes were never handed out", bounds.entries, bounds.bytes),
                ctx,
            );
        }
    }

    /// How the shim is asked from now on: by what the stream of all kinds says, else as it registered. That such a stream was
    /// lost says nothing at once: until another is open nobody can be asked, so nothing is placed.
    fn ask_as_wanted(&mut self) {
        let Some(session) = &mut self.session else { return };
        match &self.streams.all {
            Some(stream) => session.ask(stream.predicates.unwrap_or(session.predicates)),
            None if session.asking == Predicates::Off => session.ask(session.predicates),
            None => {}
        }
    }

    /// A session runs while a stream is open, and one on which the shim can be asked where it is to be; without any while the
    /// grace period lasts. `why` says what may let it run again.
    fn run_or_pause(&mut self, why: Option<&str>, ctx: &mut Context<Self>) {
        let Some(session) = &self.session else { return };
        let (none, runs) = (self.streams.none(), self.life.state() == RmState::Running);
        let mute = session.asks_nobody(&self.streams);
        self.timers.unasked(mute && !none && session.asking != session.predicates, ctx);
        if runs && none && (mute || self.timers.grace_is_over()) {
            self.pause("the last stream was lost", ctx);
        } else if runs && mute {
            self.pause("no stream is open on which the resource manager can be asked about nodes", ctx);
        } else if let Some(why) = why
            && self.life.state() == RmState::Paused
            && !mute
        {
            self.timers.pause(None, ctx);
            self.enter(RmState::Running, why);
            self.session.iter().for_each(Session::resume_placements);
        }
    }

    /// The server does not end, and no other one leads the resource manager.
    fn is_open(&self) -> Result<(), Refusal> {
        if self.closing {
            return Err(handle::closing());
        }
        self.elsewhere.clone().map_or(Ok(()), Err)
    }

    fn attach(&mut self, attach: Attach, ctx: &mut Context<Self>) -> Result<Attached, Refusal> {
        self.is_open()?;
        // What streams that are replaced handed over is not sent again.
        self.collect();
        let id = self.next_stream + 1;
        let (at, door, want) = (self.clock.now(), attach.door, attach.want);
        let stream = Stream::new(id, attach, at);
        let replaced = self.closing_of(ClosingKind::Replaced, "another stream of this resource manager took its place");
        if let Want::Next { predicates } = want {
            self.next_stream = id;
            if let Some(before) = self.streams.waiting.replace(Waiting { predicates, stream }) {
                before.stream.tell(ToStream::Close(replaced));
            }
            return Ok(Attached { stream: id, rm: ctx.address().recipient(), epoch: self.epoch, sequence: 0 });
        }
        if let Want::All { after: Some(after), .. } = want {
            self.knows_of(after, ctx)?;
        }
        let Some(session) = &mut self.session else {
            if let Some(lost) = &self.lost {
                return Err(Refusal::new(RefusalKind::Gone, &**lost));
            }
            return Err(match self.life.state() {
                RmState::Init => handle::not_registered("a stream", &self.id),
                _ => Refusal::new(
                    RefusalKind::State,
                    format!("resource manager \"{}\" is Stopped: register it again", self.id),
                ),
            });
        };
        if !self.streams.has_room() {
            let detail = format!(
                "{CLOSED} streams of resource manager \"{}\" that are over were not read to their end: end their connections, or try again \
                 when they are given up",
                self.id
            );
            return Err(Refusal::new(RefusalKind::Closing, detail));
        }
        let sequence = match want {
            Want::All { after, predicates } => {
                let resumed = session.buffer.resume(after, session.restored);
                let after = resumed.inspect_err(|_| session.say_ahead(&self.id, after, self.log.as_ref()))?;
                let before = self.streams.all.as_ref().map(Stream::held);
                for (partition, questions) in session.questions.resume(after, before) {
                    session.unanswered(&partition, questions);
                }
                let mut stream = stream.resume(session.buffer.cursor(after));
                stream.predicates = predicates;
                self.streams.open_all(stream, &replaced);
                // What the shim says it has was delivered, whatever became of the socket.
                let credits = session.buffer.hand(after, None);
                session.give_back(credits, 0);
                if session.had_stream {
                    session.resend_unconfirmed(after);
                }
                session.had_stream = true;
                after
            }
            Want::Plain(kind) => {
                self.streams.open_plain(kind, stream, &replaced);
                if kind == Kind::Allocation && session.had_stream {
                    session.resend_unconfirmed(session.buffer.handed(kind));
                }
                session.had_stream = true;
                0
            }
            Want::Next { .. } => 0,
        };
        self.next_stream = id;
        let epoch = self.epoch;
        if let Some(log) = &mut self.log {
            log.trail.goes_on(at, sequence);
            // What the shim has is in no snapshot any more: the next may be due earlier than it seemed.
            log.due = log.logs.snapshot;
        }
        self.ask_as_wanted();
        self.vouch();
        self.note_manner(ctx);
        self.run_or_pause(Some(&format!("a stream was opened ({door})")), ctx);
        self.pump(ctx);
        Ok(Attached { stream: id, rm: ctx.address().recipient(), epoch, sequence })
    }

    fn detach(&mut self, id: u64, ctx: &mut Context<Self>) {
        // What it handed over is not sent again.
        self.collect();
        let lost = self.streams.remove(id);
        if self.session.is_none() {
            // It never was registered, and nobody waits any more.
            let is_idle = self.life.state() == RmState::Init && self.streams.waiting.is_none();
            if is_idle && self.topology.forget(&self.id) {
                ctx.stop();
            }
            return;
        }
        if lost.is_some() {
            self.dumps.clear();
            if let Some(log) = &mut self.log {
                log.trail.broke(self.clock.now());
            }
        }
        self.vouch();
        self.note_manner(ctx);
        self.run_or_pause(None, ctx);
        // After the pause: otherwise the next are asked at once, and so on.
        self.session.iter_mut().filter(|_| lost.is_some()).for_each(Session::give_up_questions);
        self.pump(ctx);
    }

    fn pause(&mut self, why: &str, ctx: &mut Context<Self>) {
        let Some(session) = &self.session else { return };
        session.budget.pause(true);
        let timeout = session.settings.pause;
        self.enter(RmState::Paused, why);
        self.timers.pause(Some(timeout), ctx);
    }

    fn closing_of(&self, kind: ClosingKind, detail: &str) -> Closing {
        Closing { kind, detail: format!("resource manager \"{}\": {detail}", self.id).into(), leader: None }
    }

    fn answers(&mut self, msg: Answers) {
        if msg.epoch != self.epoch {
            tracing::debug!(rm = &*self.id, epoch = msg.epoch, "answers of a session that is over");
            return;
        }
        for answer in msg.answers {
            if let Some(waiting) = self.dumps.remove(&answer.id) {
                let dump = match answer.body {
                    AnswerBody::Dump(dump) => dump,
                    _ => Err("the shim answered a state dump request without \"json\" or \"error\"".to_owned()),
                };
                let _ = waiting.send(dump);
            } else if let Some(session) = &mut self.session
                && let in_turn = session.questions.is_in_turn(answer.id)
                && let Some((partition, answers)) = session.questions.answer(answer.id, answer.body)
            {
                self.streams.all.iter().for_each(|stream| stream.held().over(answer.id));
                if in_turn {
                    session.turns.answer(partition, answers);
                    session.pass_turns();
                } else {
                    session.send_answers(partition, answers);
                }
            } else {
                tracing::debug!(rm = &*self.id, id = answer.id, "an answer that nothing waits for");
            }
        }
    }

    fn deliver(&mut self, msg: Deliver, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        let Some(session) = self.session.as_mut().filter(|session| session.epoch == msg.epoch) else {
            // Nothing of it is recorded, so nobody waits for that.
            return msg.entry.iter().for_each(|entry| entry.outlet.open());
        };
        // What the shim is not asked is answered here.
        let mute = session.asks_nobody(&self.streams);
        let asks = if mute { Predicates::Off } else { session.asking };
        let recorded = msg.entry.is_some();
        if let Some(log) = &mut self.log {
            let handed = Kind::ALL.map(|kind| session.buffer.handed(kind));
            log.deliver(&msg, asks, handed, now);
        }
        if let Some(entry) = &msg.entry {
            session.received.insert(entry.instance, entry.number);
        }
        let before = msg.items.len();
        let items = lines::wanted(msg.items, session.settings.all_container_states);
        let questions = items.iter().filter(|item| matches!(item, Outgoing::Ask(_))).count();
        let unwanted = before - items.len() + questions;
        let mut last = [0; Kind::ALL.len()];
        for payload in lines::group(items, session.asking) {
            let questions = payload.questions();
            if questions.is_empty() {
                let (waits, kind) = (lines::wants_confirmation(&payload), payload.kind());
                let line = session.buffer.push(msg.partition.clone(), payload);
                last[kind as usize] = line;
                if waits {
                    session.buffer.kept(kind).next_back().iter().for_each(|line| session.carries(line));
                }
            } else if session.asking == Predicates::Off {
                session.agree(&msg.partition, questions);
            } else if mute {
                session.unanswered(&msg.partition, questions.iter().map(|question| question.id));
            } else {
                let (timeout, now) = (session.settings.predicates, tokio::time::Instant::now());
                let id = session.buffer.last() + 1;
                session.questions.put(id, msg.partition.clone(), questions, now, timeout);
                session.buffer.push(msg.partition.clone(), payload);
            }
        }
        session.give_back(unwanted, msg.weight);
        session.traced.wait(msg.traced, last);
        msg.turns.iter().for_each(|turn| session.turns.on_message(&msg.partition, *turn));
        session.pass_turns();
        if let Some(log) = &mut self.log {
            let (outlet, permits) = msg.entry.map_or_else(Default::default, |entry| {
                let entry = *entry;
                (Some((entry.outlet, entry.number)), entry.permits)
            });
            if recorded || before > 0 {
                log.wait(session.epoch, session.buffer.last(), outlet, permits);
            }
        }
        self.arm_questions(ctx);
        self.commit(ctx);
        self.pump(ctx);
    }

    /// Asks the shim for its state; `None` where it offers none.
    fn state_dump(&mut self, ctx: &mut Context<Self>) -> Option<oneshot::Receiver<Result<String, String>>> {
        let extension = self.streams.all.as_ref().is_some_and(|stream| stream.door == EXTENSION);
        let session = self.session.as_mut()?;
        if !(extension || session.state_dump) {
            return None;
        }
        let (answer, wait) = oneshot::channel();
        // Without a stream nobody would answer: dropped at once, the sender says so.
        if self.streams.all.is_some() {
            if let Some(log) = &mut self.log {
                log.append(kind::STATE_DUMP, self.clock.now(), &[]);
            }
            let id = session.buffer.push("".into(), Payload::StateDump);
            // Those that the shim never answered are waited for no more.
            self.dumps.retain(|_, waiting| !waiting.is_closed());
            self.dumps.insert(id, answer);
            self.line_waits();
            self.commit(ctx);
            self.pump(ctx);
        }
        Some(wait)
    }

    fn info(&self) -> RmInfo {
        let session = self.session.as_ref();
        RmInfo {
            id: self.id.clone(),
            state: self.life.state(),
            policy_group: session.map(|session| session.policy_group.clone()).unwrap_or_default(),
            epoch: self.epoch,
            registered: session.map(|session| session.registered),
            last_sequence: session.map_or(0, |session| session.buffer.last()),
            delivered_sequence: session.map_or(0, |session| session.buffer.delivered()),
            buffered: session.map_or(0, |session| session.buffer.entries()),
            streams: self.streams.info(),
            partitions: session.map(Session::partition_names).unwrap_or_default(),
            predicates: session.map_or(Predicates::Off, |session| session.asking),
            unread: self.unread(),
            failing: self.log.as_ref().and_then(|log| log.failing().cloned()),
            full: self.full.clone().filter(|_| session.is_some()),
            history: self.life.history(),
        }
    }
}

impl Actor for RmActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.watch(ctx);
        if let Some(found) = self.found.take() {
            self.restore(*found, ctx);
        }
    }
}

impl Handler<Deliver> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: Deliver, ctx: &mut Self::Context) {
        self.deliver(msg, ctx);
    }
}

impl Handler<DeliverEvents> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: DeliverEvents, ctx: &mut Self::Context) {
        if self.streams.only_plain() {
            return;
        }
        let now = self.clock.now();
        let Some(session) = self.session.as_mut().filter(|session| session.epoch == msg.epoch) else { return };
        let mut events = msg.events.into_iter();
        let mut left_out = 0;
        loop {
            let line = Payload::Events(events.by_ref().take(buffer::LINE_ENTRIES).collect());
            let Payload::Events(list) = &line else { break };
            if list.is_empty() {
                break;
            }
            // No session ends for events that nobody reads.
            if !session.buffer.has_room(&line, session.settings.bounds) {
                left_out += list.len();
                continue;
            }
            if let Some(log) = &mut self.log {
                log.append(kind::EVENTS, now, &record::events(list));
            }
            session.buffer.push("".into(), line);
        }
        if left_out > 0 && !self.events_left_out {
            tracing::warn!(
                code = "events-left-out",
                rm = &*self.id,
                events = left_out,
                "the shim gets no events while it has not read half of what its buffer holds (rm.bufferedCallbacks, rm.bufferedBytes)"
            );
        }
        self.events_left_out = left_out > 0;
        self.line_waits();
        self.commit(ctx);
        self.pump(ctx);
    }
}

impl Handler<Attach> for RmActor {
    type Result = Result<Attached, Refusal>;

    fn handle(&mut self, msg: Attach, ctx: &mut Self::Context) -> Self::Result {
        self.attach(msg, ctx)
    }
}

impl Handler<Handed> for RmActor {
    type Result = ();

    fn handle(&mut self, _msg: Handed, ctx: &mut Self::Context) {
        self.pump(ctx);
    }
}

impl Handler<Detach> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: Detach, ctx: &mut Self::Context) {
        self.detach(msg.stream, ctx);
    }
}

impl Handler<Answers> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: Answers, _ctx: &mut Self::Context) {
        self.answers(msg);
    }
}

impl Handler<Info> for RmActor {
    type Result = RmInfo;

    fn handle(&mut self, _msg: Info, ctx: &mut Self::Context) -> RmInfo {
        self.pump(ctx);
        self.info()
    }
}

impl Handler<StateDump> for RmActor {
    type Result = ResponseFuture<Option<Result<String, String>>>;

    fn handle(&mut self, _msg: StateDump, ctx: &mut Self::Context) -> Self::Result {
        let wait = self.state_dump(ctx);
        Box::pin(async move {
            Some(match tokio::time::timeout(DUMP_TIMEOUT, wait?).await {
                Ok(Ok(dump)) => dump,
                Ok(Err(_)) => Err("the stream to the shim was lost".to_owned()),
                Err(_) => Err(format!("no answer from the shim within {DUMP_TIMEOUT:?}")),
            })
        })
    }
}

impl Handler<Shutdown> for RmActor {
    type Result = ();

    fn handle(&mut self, _msg: Shutdown, _ctx: &mut Self::Context) {
        self.closing = true;
        self.show();
        let closing = self.closing_of(ClosingKind::Shutdown, "the server is shutting down");
        self.streams.close(&closing, true);
        if let Some(session) = &self.session {
            session.receipts.end();
        }
    }
}
