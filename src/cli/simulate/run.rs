//! Runs a case: the shim, the connection and the operators around a server, in simulated time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    path::Path,
    sync::Arc,
};

use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{
    case::{Action, Case, Shim, Step, chance, happens},
    rules::Fault,
    server::{Counts, Server},
    steps,
};
use crate::{
    domain::{
        command::{Command, ReleaseItem},
        effect::{Question, QuestionKind, Released},
        types::{Nanos, Termination},
    },
    messages::{
        progress::Progress,
        rm::{Answer, AnswerBody, Attach, Line, Payload, ToStream, Want},
    },
};

/// When simulated time begins.
const BEGINS: Nanos = Nanos::from_secs(1_800_000_000);
/// With interval, and with batch.
const FLUSH: Nanos = Nanos::from_millis(100);
const COMMIT: Nanos = Nanos::from_millis(3);
/// What is not confirmed is sent once more.
const REMIND: Nanos = Nanos::from_secs(60);
/// At the end there is so much time for all to come to rest.
const SETTLING: Nanos = Nanos::from_secs(400);

/// What came of a case.
pub struct Outcome {
    /// The first thing that must not be, and after how many steps.
    pub fault: Option<(Fault, usize)>,
    /// Of everything that was told and how it ended: the same in every process.
    pub digest: u64,
    /// How much happened.
    pub counts: Counts,
}

/// What is to happen at a time.
#[derive(Debug)]
enum Event {
    /// A line reaches the shim.
    Line(u64, Arc<Line>),
    /// A request reaches the server.
    Request(u64, Sent),
    /// An acknowledgement reaches the shim.
    Acknowledged(u64, u64),
    /// The shim sends something.
    Send(Vec<(usize, Command)>),
    /// The shim answers a question.
    Answer(u64, Answer),
    /// The shim opens a connection.
    Connect,
    /// The disk has what was written.
    Flushed,
    /// It is time to look at what is not confirmed.
    Remind,
}

/// A request under way, with its number where it has one.
type Sent = (Option<u64>, Arc<Vec<(usize, Command)>>);

/// A connection.
struct Connection {
    id: u64,
    stream: u64,
    lines: UnboundedReceiver<ToStream>,
    progress: Arc<Progress>,
    /// The last thing under way in either direction arrives then: nothing overtakes on one connection.
    inward: Nanos,
    outward: Nanos,
}

/// See the module.
pub struct Run<'a> {
    case: &'a Case,
    pub(super) server: Server,
    events: BinaryHeap<Reverse<(Nanos, u64)>>,
    what: BTreeMap<u64, Event>,
    count: u64,
    connection: Option<Connection>,
    connections: u64,
    /// A connection is on its way.
    connecting: bool,
    /// What the shim knows.
    pub(super) knows: Knows,
    /// The shim behaves, and nothing is lost any more.
    calm: bool,
    flushing: bool,
    reminding: bool,
    digest: Sha256,
    lines: u64,
}

/// What the shim knows.
#[derive(Default)]
pub struct Knows {
    /// The last line that it has.
    pub line: u64,
    /// Its nodes, with memory and accelerators, and its applications, with queue and user, by their numbers.
    pub nodes: BTreeMap<u8, (i64, i64)>,
    pub apps: BTreeMap<u8, (u8, u8)>,
    /// What it runs: by application and key, with its node.
    pub runs: BTreeMap<(Arc<str>, Arc<str>), Ran>,
    /// What it stopped in a way that is not confirmed, so that it cannot know what became of it.
    pub unsure: std::collections::BTreeSet<(Arc<str>, Arc<str>)>,
    /// Requests that were not acknowledged.
    pub sent: VecDeque<Sent>,
    /// The last number that was used.
    pub number: u64,
    /// The last number that was acknowledged.
    pub acknowledged: u64,
    /// How often it was asked to confirm what.
    asked: BTreeMap<(Arc<str>, Arc<str>), u32>,
}

/// Something that runs.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Where.
    pub node: Arc<str>,
    /// As it was told.
    pub spec: Arc<crate::domain::alloc::AskSpec>,
    /// How large it is.
    pub size: Arc<crate::domain::resources::Resource>,
}

impl Knows {
    /// What the shim does, it knows.
    fn take(&mut self, step: &Step) {
        match step {
            Step::Node { node, action: Action::Remove, .. } => _ = self.nodes.remove(node),
            Step::Node { node, action: Action::Create | Action::CreateDrain, size, gpus } => {
                self.nodes.insert(*node, (*size, *gpus));
            }
            Step::App { app, queue, user, .. } | Step::Gang { app, queue, user, .. } => {
                self.apps.insert(*app, (*queue, *user));
            }
            Step::Remove { app } => _ = self.apps.remove(app),
            _ => {}
        }
    }
}

/// Runs a case in this directory, which is empty.
///
/// # Errors
/// The case cannot be run at all.
pub fn run(case: &Case, dir: &Path) -> Result<Outcome, String> {
    let server = Server::new(&case.world, dir.join("log"), BEGINS)?;
    let mut run = Run {
        case,
        server,
        events: BinaryHeap::new(),
        what: BTreeMap::new(),
        count: 0,
        connection: None,
        connections: 0,
        connecting: false,
        knows: Knows::default(),
        calm: false,
        flushing: false,
        reminding: false,
        digest: Sha256::new(),
        lines: 0,
    };
    run.server.flush();
    run.connect();
    for (at, step) in case.steps.iter().enumerate() {
        run.step(step);
        if let Some(fault) = run.server.faults.first().cloned() {
            return Ok(run.outcome(Some((fault, at + 1))));
        }
    }
    run.settle();
    let fault = run.server.faults.first().cloned();
    Ok(run.outcome(fault.map(|fault| (fault, case.steps.len()))))
}

impl Run<'_> {
    fn outcome(mut self, fault: Option<(Fault, usize)>) -> Outcome {
        let saved: Vec<Vec<u8>> = self.server.parts.iter().map(|live| live.partition.save()).collect();
        saved.iter().for_each(|saved| self.digest.update(saved));
        let digest = self.digest.finalize();
        let digest = digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Outcome { fault, digest, counts: self.server.counts }
    }

    fn shim(&self) -> &Shim {
        &self.case.world.shim
    }

    /// By chance, but the same whatever else is left out.
    fn happens(&self, hundredths: u8, about: &[&str]) -> bool {
        !self.calm && happens(hundredths, self.case.seed, about)
    }

    fn delay(&self, about: &[&str]) -> Nanos {
        let most = self.shim().delay.max(0) as u64;
        Nanos::from_millis((chance(self.case.seed, about) % (most + 1)) as i64)
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count)));
        self.what.insert(self.count, event);
    }

    pub(super) fn fault(&mut self, rule: &'static str, text: String) {
        self.server.faults.push(Fault { rule, text });
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Pass(millis) => self.pass(self.server.now.plus(Nanos::from_millis((*millis).clamp(0, 1 << 40)))),
            Step::Cut { half, back } => {
                self.cut(!half);
                self.connect_in(Nanos::from_millis((*back).clamp(0, 1 << 40)));
            }
            Step::Register => self.register(),
            Step::Snapshot => {
                self.server.begin_snapshot();
                return self.pump();
            }
            Step::Kill(kill) => {
                self.cut(false);
                let (line, acknowledged) = (self.knows.line, self.knows.acknowledged);
                let goes_on = self.server.kill(*kill, line, acknowledged);
                if !self.server.faults.is_empty() {
                    return;
                }
                if goes_on {
                    self.connect_in(Nanos::from_millis(5));
                } else {
                    self.register();
                }
            }
            step => {
                self.knows.take(step);
                let names: Vec<Arc<str>> = self.server.parts.iter().map(|live| live.partition.name.clone()).collect();
                match steps::command(step, &self.case.world, &names, self.server.now) {
                    steps::What::Shim(commands) => self.send(commands),
                    steps::What::Operator(at, command) => {
                        let at = at.min(self.server.parts.len() - 1);
                        if let Command::OrderQueues(orders) = &command {
                            let known = &self.server.parts[at].partition.queue_by_path;
                            if orders.iter().any(|(path, _)| !known.contains_key(path)) {
                                return;
                            }
                        }
                        self.server.commands(at, vec![command], None);
                        // An operator is told when it is on the disk.
                        self.server.flush();
                    }
                    steps::What::Config(text) => {
                        let text = text.to_owned();
                        self.server.configure(&text);
                        self.server.flush();
                    }
                    steps::What::Nothing => {}
                }
            }
        }
        self.server.end_snapshot();
        self.pump();
        // What takes no time arrives within the step.
        self.pass(self.server.now);
    }

    /// Time passes, and what is due happens.
    fn pass(&mut self, until: Nanos) {
        let mut turns = 0;
        loop {
            let deadline = self.server.parts.iter().filter_map(|live| live.partition.next_deadline()).min();
            let question = self.server.questions.deadline().map(|at| self.server.time_of(at));
            let event = self.events.peek().map(|Reverse((at, _))| *at);
            let Some(next) = [deadline, question, event].into_iter().flatten().min().filter(|next| *next <= until)
            else {
                break;
            };
            self.server.now = self.server.now.max(next);
            let now = self.server.now;
            if event.is_some_and(|at| at <= now) {
                self.happen();
            } else if question.is_some_and(|at| at <= now) {
                self.server.expire_questions();
            } else {
                for at in 0..self.server.parts.len() {
                    if self.server.parts[at].partition.next_deadline().is_some_and(|at| at <= now) {
                        self.server.commands(at, vec![Command::Tick], None);
                    }
                }
            }
            self.pump();
            turns += 1;
            if !self.server.faults.is_empty() {
                return;
            }
            if turns > 100_000 {
                return self.fault("an end", "it does not come to rest".to_owned());
            }
        }
        self.server.now = self.server.now.max(until);
    }

    fn happen(&mut self) {
        let Some(Reverse((_, id))) = self.events.pop() else { return };
        let Some(event) = self.what.remove(&id) else { return };
        let is_open = |run: &Run, id: u64| run.connection.as_ref().is_some_and(|open| open.id == id);
        match event {
            Event::Line(connection, line) if is_open(self, connection) => self.heard(&line),
            Event::Request(connection, (number, commands)) if is_open(self, connection) => {
                self.server.request(number, &commands);
                if number.is_none() {
                    // Answered when it was taken.
                    self.knows.sent.retain(|(_, sent)| !Arc::ptr_eq(sent, &commands));
                }
            }
            Event::Acknowledged(connection, number) if is_open(self, connection) => {
                self.knows.acknowledged = self.knows.acknowledged.max(number);
                self.knows.sent.retain(|(sent, _)| sent.is_none_or(|sent| sent > number));
            }
            Event::Answer(connection, answer) if is_open(self, connection) => self.server.answer(answer),
            Event::Send(commands) => self.send(commands),
            Event::Connect => {
                self.connecting = false;
                if self.connection.is_none() {
                    self.connect();
                }
            }
            Event::Flushed => {
                self.flushing = false;
                self.server.flush();
            }
            Event::Remind => {
                self.reminding = false;
                self.server.remind();
            }
            // It was on its way on a connection that broke.
            Event::Line(..) | Event::Request(..) | Event::Acknowledged(..) | Event::Answer(..) => {}
        }
    }

    /// What the server has for the shim gets on its way.
    fn pump(&mut self) {
        self.server.pump();
        let now = self.server.now;
        if let Some(open) = &mut self.connection {
            let mut arrived = Vec::new();
            while let Ok(word) = open.lines.try_recv() {
                if let ToStream::Lines(lines) = word {
                    arrived.extend(lines);
                }
            }
            let id = open.id;
            for line in arrived {
                let delay = self.delay(&["line", &line.seq.to_string(), &id.to_string()]);
                let Some(open) = &mut self.connection else { break };
                // The socket takes it now, whatever becomes of it.
                let _ = open.progress.hand(line.seq);
                open.outward = open.outward.max(now.plus(delay));
                let at = open.outward;
                self.at(at, Event::Line(id, line));
            }
            self.server.pump();
            let applied = self.server.receipts.applied();
            if applied > self.knows.acknowledged
                && self.knows.sent.front().is_some_and(|(sent, _)| sent.is_some_and(|sent| sent <= applied))
            {
                let delay = self.delay(&["acknowledged", &applied.to_string()]);
                let known = self
                    .what
                    .values()
                    .any(|event| matches!(event, Event::Acknowledged(on, number) if *on == id && *number >= applied));
                if !known {
                    self.at(now.plus(delay), Event::Acknowledged(id, applied));
                }
            }
        }
        self.server.note_handed();
        if !self.flushing && self.server.log.shared.synced() < self.server.log.last() {
            self.flushing = true;
            let batch = self.server.log.sync == crate::actors::rm::log::LogSync::Batch;
            self.at(now.plus(if batch { COMMIT } else { FLUSH }), Event::Flushed);
        }
        if !self.reminding && self.server.is_unconfirmed() {
            self.reminding = true;
            self.at(now.plus(REMIND), Event::Remind);
        }
    }

    fn connect_in(&mut self, delay: Nanos) {
        if !self.connecting {
            self.connecting = true;
            self.at(self.server.now.plus(delay), Event::Connect);
        }
    }

    fn connect(&mut self) {
        let (to, lines) = mpsc::unbounded_channel();
        let progress = Arc::new(Progress::default());
        let after = Some(self.knows.line);
        let want = Want::All { after, predicates: None };
        let attach = Attach { door: "simulated", want, to, progress: progress.clone() };
        match self.server.attach(attach, after) {
            Ok(stream) => {
                self.connections += 1;
                let (id, now) = (self.connections, self.server.now);
                self.connection = Some(Connection { id, stream, lines, progress, inward: now, outward: now });
                // What was not acknowledged is sent once more.
                for sent in self.knows.sent.clone() {
                    self.put(sent);
                }
            }
            Err(refusal) => self.fault("a shim can go on where it was", refusal.detail),
        }
    }

    /// The connection breaks, with all that is on its way; the server learns of it or not.
    fn cut(&mut self, noticed: bool) {
        if let Some(open) = self.connection.take()
            && noticed
        {
            self.server.detach(open.stream);
        }
    }

    fn register(&mut self) {
        self.cut(true);
        let refused = self.server.register();
        if let Err(why) = refused {
            return self.fault("a session can begin", why);
        }
        // It is told when it is on the disk.
        self.server.flush();
        let before = std::mem::take(&mut self.knows);
        self.connect();
        let known: Vec<_> = self.server.parts.iter().map(|live| live.partition.name.clone()).collect();
        let requests = steps::report(&self.case.world, &known, &before);
        (self.knows.nodes, self.knows.apps) = (before.nodes, before.apps);
        for (number, commands) in requests.into_iter().enumerate() {
            if !happens(10, self.case.seed, &["forgets", &number.to_string()]) {
                self.send(commands);
            }
        }
    }

    /// The shim sends a request.
    fn send(&mut self, commands: Vec<(usize, Command)>) {
        if commands.is_empty() {
            return;
        }
        for (_, command) in &commands {
            self.stops(command);
        }
        let number = self.case.world.numbered.then(|| {
            self.knows.number += 1;
            self.knows.number
        });
        let sent = (number, Arc::new(commands));
        self.knows.sent.push_back(sent.clone());
        if self.connection.is_some() {
            self.put(sent.clone());
            let about = ["doubles", &self.count.to_string()];
            if self.happens(self.shim().doubles, &about) {
                self.put(sent);
            }
        }
    }

    /// A request gets on its way.
    fn put(&mut self, sent: Sent) {
        let delay = self.delay(&["request", &self.count.to_string()]);
        let now = self.server.now;
        let Some(open) = &mut self.connection else { return };
        open.inward = open.inward.max(now.plus(delay));
        let (at, id) = (open.inward, open.id);
        self.at(at, Event::Request(id, sent));
    }

    /// What the shim stops, it does not run any more.
    fn stops(&mut self, command: &Command) {
        match command {
            Command::Allocations { releases, .. } => {
                for item in releases {
                    let of = |(app, key): &(Arc<str>, Arc<str>)| {
                        *app == item.app && (item.key.is_empty() || *key == item.key)
                    };
                    let echoed = matches!(item.termination, Termination::StoppedByRm | Termination::Unknown);
                    if !echoed {
                        // A line that is on its way may tell of it, or tell of it again.
                        self.knows.unsure.insert((item.app.clone(), item.key.clone()));
                    }
                    self.knows.runs.retain(|id, _| !of(id));
                }
            }
            Command::Applications { remove, .. } => {
                for app in remove {
                    self.knows.unsure.insert((app.clone(), "".into()));
                    self.knows.runs.retain(|(of, _), _| of != app);
                }
            }
            _ => {}
        }
    }

    /// A line reaches the shim: the next one, once.
    fn heard(&mut self, line: &Arc<Line>) {
        if line.seq != self.knows.line + 1 {
            let text = format!("line {} follows line {}", line.seq, self.knows.line);
            return self.fault("every line comes once and in order", text);
        }
        self.knows.line = line.seq;
        self.lines += 1;
        self.digest.update(format!("{} {} {:?}", line.seq, line.partition, line.payload));
        let Some(at) = self.server.parts.iter().position(|live| live.internal == line.partition) else { return };
        match &line.payload {
            Payload::New(list) => {
                for new in list {
                    let id = (new.app.clone(), new.spec.key.clone());
                    let ran = Ran { node: new.node.clone(), spec: new.spec.clone(), size: new.resource.clone() };
                    self.knows.runs.insert(id.clone(), ran);
                    let (app, key, seq) = (&*id.0, &*id.1, line.seq.to_string());
                    if self.happens(self.shim().fails, &["fails", app, key, &seq]) {
                        self.later(at, 5, &id, Termination::FailedOnRm);
                    } else if !new.spec.placeholder && self.happens(self.shim().ends, &["ends", app, key, &seq]) {
                        let after = 500 + (chance(self.case.seed, &["lasts", key, &seq]) % 40_000) as i64;
                        self.later(at, after, &id, Termination::StoppedByRm);
                    }
                }
            }
            Payload::Released(list) => list.iter().for_each(|released| self.told_to_go(at, released)),
            payload => self.asked(line.seq, payload),
        }
    }

    fn later(&mut self, at: usize, millis: i64, (app, key): &(Arc<str>, Arc<str>), termination: Termination) {
        let releases = vec![ReleaseItem { app: app.clone(), key: key.clone(), termination }];
        let commands = vec![(at, Command::Allocations { allocations: Vec::new(), releases })];
        self.at(self.server.now.plus(Nanos::from_millis(millis)), Event::Send(commands));
    }

    /// A release of the server: the shim confirms it in time, late, twice, never or wrongly.
    fn told_to_go(&mut self, at: usize, released: &Released) {
        let id = (released.app.clone(), released.key.clone());
        if !released.confirm {
            self.knows.runs.remove(&id);
            return;
        }
        let asked = self.knows.asked.entry(id.clone()).or_default();
        *asked += 1;
        let (times, termination) = (asked.to_string(), released.termination);
        let (app, key, shim) = (&*id.0, &*id.1, self.shim().clone());
        let about = |what: &'static str| [what, app, key, &*times].map(str::to_owned);
        let is = |run: &Run, hundredths: u8, what: &'static str| {
            let about = about(what);
            run.happens(hundredths, &about.each_ref().map(String::as_str))
        };
        if is(self, shim.never, "never") {
            return;
        }
        let lie =
            [Termination::StoppedByRm, Termination::Timeout, Termination::PlaceholderReplaced, Termination::Preempted];
        let said = if is(self, shim.lies, "lies") { lie[(times.len() + key.len()) % 4] } else { termination };
        let delay = if is(self, shim.late, "late") {
            (chance(self.case.seed, &["how late", app, key]) % 45_000) as i64
        } else {
            0
        };
        self.later(at, delay, &id, said);
        if is(self, shim.twice, "twice") {
            self.later(at, delay + 20, &id, said);
        }
    }

    fn asked(&mut self, line: u64, payload: &Payload) {
        let seq = line.to_string();
        let Some(id) = self.connection.as_ref().map(|open| open.id) else { return };
        let one = |question: &Question, node: &Arc<str>| -> Result<(), Arc<str>> {
            let about = ["refuses", &question.key, node, &(line / 20).to_string()];
            if self.happens(self.shim().refuses, &about) { Err("it does not like the node".into()) } else { Ok(()) }
        };
        let all = |question: &Question| -> Vec<Result<(), Arc<str>>> {
            [&question.node].into_iter().chain(&question.more).map(|node| one(question, node)).collect()
        };
        let body = match payload {
            Payload::Ask(question) => {
                let index = match &question.kind {
                    QuestionKind::Fits { .. } => 0,
                    QuestionKind::FitsWithout { victims, start } => {
                        let left = (victims.len() as i32 - start).max(1) as u64;
                        start + (chance(self.case.seed, &["index", &seq]) % left) as i32
                    }
                };
                AnswerBody::Single { result: one(question, &question.node), index }
            }
            Payload::AskBatch(question) => AnswerBody::Batch(all(question)),
            Payload::AskSeveral(questions) => AnswerBody::Several(questions.iter().map(all).collect()),
            _ => return,
        };
        if self.happens(self.shim().silent, &["silent", &seq]) {
            return;
        }
        let delay = self.delay(&["answer", &seq]);
        self.at(self.server.now.plus(delay), Event::Answer(id, Answer { id: line, body }));
    }

    /// From here on all goes well: everything arrives, is confirmed and comes to rest. Then both sides know the same.
    fn settle(&mut self) {
        self.calm = true;
        self.server.end_snapshot();
        if self.connection.is_none() {
            self.connect();
        }
        self.pump();
        self.pass(self.server.now.plus(SETTLING));
        if !self.server.faults.is_empty() {
            return;
        }
        if !self.knows.sent.is_empty() {
            let text = format!("{} requests were sent and are not acknowledged", self.knows.sent.len());
            self.fault("what is sent is acknowledged", text);
        }
        if self.knows.line != self.server.buffer.last() {
            let text = format!("the shim has line {}, of {}", self.knows.line, self.server.buffer.last());
            self.fault("every line comes once and in order", text);
        }
        if let Some(row) = self.server.parts.iter().flat_map(|live| live.talks.unconfirmed.values()).next() {
            let text = format!("{} of {} waits for a confirmation for ever", row.release.key, row.release.app);
            self.fault("what is confirmed is settled", text);
        }
        let mut there: BTreeMap<(Arc<str>, Arc<str>), Arc<str>> = BTreeMap::new();
        for live in &self.server.parts {
            let partition = &live.partition;
            for app in partition.app_by_id.values().map(|ix| &partition.apps[ix.ix()]) {
                for row in app.allocs.iter().map(|ix| &partition.allocs[ix.ix()]).filter(|row| row.is_allocated()) {
                    let node = row.node.map(|node| partition.nodes[node.ix()].spec.id.clone());
                    there.insert((app.id.clone(), row.spec.key.clone()), node.unwrap_or_default());
                }
            }
        }
        let unsure = |id: &(Arc<str>, Arc<str>)| {
            self.knows.unsure.contains(id) || self.knows.unsure.contains(&(id.0.clone(), "".into()))
        };
        let mut text = String::new();
        for (id, node) in there.iter().filter(|(id, _)| !unsure(id)) {
            if self.knows.runs.get(id).map(|ran| &ran.node) != Some(node) {
                text = format!("{} of {} is on {node}, and the shim does not know", id.1, id.0);
            }
        }
        for id in self.knows.runs.keys().filter(|id| !unsure(id) && !there.contains_key(*id)) {
            text = format!("the shim runs {} of {}, and the server does not know", id.1, id.0);
        }
        if !text.is_empty() {
            self.fault("both sides know the same at the end", text);
        }
    }
}
