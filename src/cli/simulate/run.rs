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
    draw::USERS,
    rules::Fault,
    server::{Counts, Server},
    steps,
};
use crate::{
    actors::resolvers::ldap::Found,
    domain::{
        command::Command,
        log::Input,
        types::{Nanos, Termination},
    },
    messages::{
        progress::Progress,
        rm::{Answer, Attach, Line, ToStream, Want},
    },
    store::log::DiskFault,
};

/// When simulated time begins.
const BEGINS: Nanos = Nanos::from_secs(1_800_000_000);
/// With interval, and with batch.
const FLUSH: Nanos = Nanos::from_millis(100);
const COMMIT: Nanos = Nanos::from_millis(3);
/// A stream that is not read ends after this time.
const SILENT: Nanos = Nanos::from_secs(20);
/// A request that was refused is sent again after this time.
const REFUSED: Nanos = Nanos::from_secs(1);
/// The disk refuses for so many milliseconds at most: no session ends meanwhile.
const MOST_REFUSED: i64 = 20_000;
/// Releases are sent once more this much later at the earliest, where they were on their way before.
const LOOK: Nanos = Nanos::from_secs(1);

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
pub(super) enum Event {
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
    /// The server notices that a connection is broken.
    Silent(u64),
    /// The shim sends once more what was refused.
    Again,
    /// A directory answers about users.
    Found(u64, Vec<Arc<str>>),
}

/// A request under way, with its number where it has one.
pub(super) type Sent = (Option<u64>, Arc<Vec<(usize, Command)>>);

/// A connection.
pub(super) struct Connection {
    pub(super) id: u64,
    stream: u64,
    lines: UnboundedReceiver<ToStream>,
    progress: Arc<Progress>,
    /// The last thing under way in either direction arrives then: nothing overtakes on one connection.
    inward: Nanos,
    outward: Nanos,
}

/// See the module.
pub struct Run<'a> {
    pub(super) case: &'a Case,
    pub(super) server: Server,
    events: BinaryHeap<Reverse<(Nanos, u64)>>,
    what: BTreeMap<u64, Event>,
    count: u64,
    pub(super) connection: Option<Connection>,
    connections: u64,
    /// A connection is on its way.
    connecting: bool,
    /// What the shim knows.
    pub(super) knows: Knows,
    /// The shim behaves, and nothing is lost any more.
    pub(super) calm: bool,
    flushing: bool,
    /// A request was refused: it is sent again, and others wait.
    refused: bool,
    /// That happened on this connection: others may be on their way that are refused for it.
    refuses: bool,
    /// Whoever waits for the disk does nothing else.
    waits: bool,
    /// When releases were last sent once more.
    reminded: Nanos,
    pub(super) digest: Sha256,
    pub(super) lines: u64,
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
    pub(super) asked: BTreeMap<(Arc<str>, Arc<str>), u32>,
}

/// Something that runs.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Id of the node it runs on.
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
    let server = Server::new(&case.world, case.seed, dir, BEGINS)?;
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
        refused: false,
        refuses: false,
        waits: false,
        reminded: BEGINS,
        digest: Sha256::new(),
        lines: 0,
    };
    run.server.flush_surely();
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

    pub(super) fn shim(&self) -> &Shim {
        &self.case.world.shim
    }

    /// By chance, but the same whatever else is left out.
    pub(super) fn happens(&self, hundredths: u8, about: &[&str]) -> bool {
        !self.calm && happens(hundredths, self.case.seed, about)
    }

    pub(super) fn delay(&self, about: &[&str]) -> Nanos {
        let most = self.shim().delay.max(0) as u64;
        Nanos::from_millis((chance(self.case.seed, about) % (most + 1)) as i64)
    }

    pub(super) fn at(&mut self, at: Nanos, event: Event) {
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
                self.server.forget_awaited();
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
            Step::Disk { flushes, millis } => {
                let what = if *flushes { DiskFault::Flushes } else { DiskFault::Writes };
                self.server.disk_refuses(what, Nanos::from_millis((*millis).clamp(0, MOST_REFUSED)));
            }
            step => {
                self.knows.take(step);
                let names: Vec<Arc<str>> = self.server.parts.iter().map(|live| live.partition.name.clone()).collect();
                match steps::command(step, &self.case.world, &names, self.server.now) {
                    steps::What::Shim(commands) => self.send(commands),
                    steps::What::Drain(at, node, drained, deadline) if !self.server.parts.is_empty() => {
                        let at = at.min(self.server.parts.len() - 1);
                        self.server.operator_drains(at, &node, drained, deadline);
                    }
                    steps::What::Order(queue, order) if !self.server.parts.is_empty() => {
                        self.server.operator_orders(0, &queue, order);
                    }
                    steps::What::Config(text) => {
                        let text = text.to_owned();
                        self.server.configure(&text);
                        self.flush_in_time();
                    }
                    steps::What::Nothing | steps::What::Drain(..) | steps::What::Order(..) => {}
                }
            }
        }
        self.server.end_snapshot();
        self.pump();
        // What takes no time arrives within the step.
        self.pass(self.server.now);
        self.server.check_operators();
    }

    /// Time passes, and what is due happens.
    pub(super) fn pass(&mut self, until: Nanos) {
        let mut turns = 0;
        loop {
            let deadline = self.server.parts.iter().filter_map(|live| live.partition.next_deadline()).min();
            let question = self.server.questions.deadline().map(|at| self.server.time_of(at));
            let event = self.events.peek().map(|Reverse((at, _))| *at);
            let (journal, patience) = (self.server.journal_deadline(), self.server.patience_ends());
            // What was sent and has not reached the shim yet is looked at again when it may have.
            let resend = self.server.resend_at().map(|at| at.max(self.reminded.plus(LOOK)));
            let disk = self.server.disk_deadline();
            let all = [deadline, question, event, journal, patience, resend, disk];
            let Some(next) = all.into_iter().flatten().min().filter(|next| *next <= until) else { break };
            self.server.now = self.server.now.max(next);
            let now = self.server.now;
            if disk.is_some_and(|at| at <= now) {
                self.server.tick_disk();
            } else if event.is_some_and(|at| at <= now) {
                self.happen();
            } else if question.is_some_and(|at| at <= now) {
                self.server.expire_questions();
            } else if journal.is_some_and(|at| at <= now) {
                self.server.tick_journals();
            } else if patience.is_some_and(|at| at <= now) {
                self.cut(false);
                self.server.stop();
            } else if resend.is_some_and(|at| at <= now) {
                self.reminded = now;
                self.server.remind();
            } else {
                for at in 0..self.server.parts.len() {
                    if self.server.parts[at].partition.next_deadline().is_some_and(|at| at <= now) {
                        // All that is due, in parts, each of which is a record.
                        self.server.enter(at, Input::Apply(Command::Tick));
                        while self.server.parts[at].partition.is_due(now) {
                            self.server.route(at);
                            self.server.enter(at, Input::Apply(Command::Tick));
                        }
                        self.server.slice(at);
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
                if !self.server.request(number, &commands, self.refuses) && !self.refused {
                    (self.refused, self.refuses) = (true, true);
                    self.at(self.server.now.plus(REFUSED), Event::Again);
                }
            }
            Event::Acknowledged(connection, number) if is_open(self, connection) => {
                self.knows.acknowledged = self.knows.acknowledged.max(number);
                self.knows.sent.retain(|(sent, _)| sent.is_none_or(|sent| sent > number));
            }
            Event::Answer(connection, answer) if is_open(self, connection) => {
                // Refused like any request; the question is given up when nobody answers.
                if !self.server.disk.failing {
                    self.server.answer(answer);
                }
            }
            Event::Silent(stream) => self.server.detach(stream),
            Event::Again if self.refused => {
                self.refused = false;
                self.send_unanswered();
            }
            Event::Send(commands) => self.send(commands),
            Event::Connect => {
                self.connecting = false;
                if self.connection.is_none() && !self.waits {
                    self.connect();
                }
            }
            Event::Flushed => {
                self.flushing = false;
                self.server.flush();
            }
            Event::Found(id, users) => self.found(id, &users),
            // It was on its way on a connection that broke.
            Event::Line(..) | Event::Request(..) | Event::Acknowledged(..) | Event::Answer(..) | Event::Again => {}
        }
    }

    /// What the server has for the shim gets on its way.
    pub(super) fn pump(&mut self) {
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
        for answered in self.server.answered_requests() {
            self.knows.sent.retain(|(_, sent)| !Arc::ptr_eq(sent, &answered));
        }
        if !self.flushing && !self.server.tries_again() && self.server.log.shared.synced() < self.server.log.last() {
            self.flushing = true;
            let batch = self.server.log.sync == crate::actors::rm::log::LogSync::Batch;
            self.at(now.plus(if batch { COMMIT } else { FLUSH }), Event::Flushed);
        }
        for (id, users) in std::mem::take(&mut self.server.wanted) {
            let most = self.case.world.directory.as_ref().map_or(0, |directory| directory.delay.max(0) as u64);
            let delay = chance(self.case.seed, &["directory", &id.to_string()]) % (most + 1);
            self.at(now.plus(Nanos::from_millis(delay as i64)), Event::Found(id, users));
        }
    }

    /// A directory answers, late, or says that it cannot.
    fn found(&mut self, id: u64, users: &[Arc<str>]) {
        let directory = self.case.world.directory.clone().unwrap_or_default();
        let number = id.to_string();
        let away = self.happens(directory.away, &["away", &number]);
        let why = || Arc::<str>::from("the directory cannot be asked");
        let answer = |user: &Arc<str>| {
            if away || self.happens(directory.fails, &["knows", user, &number]) {
                return Err(why());
            }
            let known = USERS.iter().find(|(name, _)| **name == **user);
            Ok(known
                .map_or_else(Default::default, |(_, groups)| groups.iter().map(|group| Arc::from(*group)).collect()))
        };
        let answers = users.iter().map(answer).collect();
        self.server.found(id, Found { answers, unavailable: away.then(why) });
    }

    fn connect_in(&mut self, delay: Nanos) {
        if !self.connecting {
            self.connecting = true;
            self.at(self.server.now.plus(delay), Event::Connect);
        }
    }

    pub(super) fn connect(&mut self) {
        if self.server.stopped {
            // It is refused, and told to register.
            return self.register();
        }
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
                (self.refused, self.refuses) = (false, false);
                self.send_unanswered();
            }
            Err(refusal) => self.fault("a shim can go on where it was", refusal.detail),
        }
    }

    /// What was not acknowledged is sent once more.
    fn send_unanswered(&mut self) {
        for sent in self.knows.sent.clone() {
            self.put(sent);
        }
    }

    /// Whoever wants it on the disk waits until it is there, and time passes.
    fn flush_in_time(&mut self) {
        self.server.flush_surely();
        self.waits = true;
        while self.server.log.shared.synced() < self.server.log.last()
            && self.server.is_disk_refusing()
            && self.server.faults.is_empty()
        {
            self.pass(self.server.now.plus(REFUSED));
            self.server.flush_surely();
        }
        self.waits = false;
    }

    /// The connection breaks, with all that is on its way; the server learns of it or not.
    fn cut(&mut self, noticed: bool) {
        let Some(open) = self.connection.take() else { return };
        if noticed {
            self.server.detach(open.stream);
        } else {
            self.at(self.server.now.plus(SILENT), Event::Silent(open.stream));
        }
    }

    fn register(&mut self) {
        self.cut(true);
        let refused = self.server.register();
        if let Err(why) = refused {
            return self.fault("a session can begin", why);
        }
        // It is told when it is on the disk.
        self.server.forget_awaited();
        self.flush_in_time();
        let before = std::mem::take(&mut self.knows);
        self.connect();
        let known: Vec<_> = self.server.parts.iter().map(|live| live.partition.name.clone()).collect();
        let requests = steps::report(&self.case.world, &known, &before, self.server.epoch);
        (self.knows.nodes, self.knows.apps) = (before.nodes, before.apps);
        for (number, commands) in requests.into_iter().enumerate() {
            if !happens(10, self.case.seed, &["forgets", &number.to_string()]) {
                self.send(commands);
            }
        }
    }

    /// The shim sends a request.
    pub(super) fn send(&mut self, commands: Vec<(usize, Command)>) {
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
        if self.connection.is_some() && !self.refused {
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
}
