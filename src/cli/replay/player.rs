//! Plays a trace: one moment after another, through a shim of its own.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    books::{Books, FollowUp},
    leftovers,
    reasons::Explainer,
    trace::{Amounts, Millis, Step, Trace},
    wire,
};
use crate::{
    cli::client::{Callbacks, Incoming, Message, Shim, http::Api},
    si::v1::{AllocationResponse, TerminationType},
};

/// How trace time relates to real time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// The clock jumps to the next moment when the server is quiet.
    Max,
    /// So many times faster than real time.
    Times(f64),
}

/// Probes in a row that are answered with nothing else in between: then the server is quiet. How long they take does not
/// matter, so a busy machine is not taken for a scheduler that finds no place. One shows that all requests were applied,
/// the next ones that the scheduling pass after them placed nothing more.
const QUIET_ROUNDS: usize = 3;
/// Pause for the first answer before a probe is sent; saves requests, decides nothing.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// With a clock of its own the trace goes on meanwhile; so long after its making an ask is looked at for a reason.
const REASON_AFTER: Duration = Duration::from_millis(50);
/// How long a server may go without any answer while something must still come.
const PATIENCE: Duration = Duration::from_secs(120);

/// One point of the curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Trace time.
    pub at: Millis,
    /// Used in all.
    pub used: Amounts,
    /// Used per queue.
    pub by_queue: Vec<Amounts>,
    /// Asks that wait.
    pub waiting: usize,
}

/// What the player needs.
pub struct Session {
    /// The registered shim.
    pub shim: Shim,
    /// Its callbacks.
    pub callbacks: Callbacks,
    /// The server's HTTP door, for its state and for reasons.
    pub api: Api,
    /// Its resource manager id.
    pub rm: String,
}

/// See the module.
pub struct Player<'t> {
    trace: &'t Trace,
    session: Session,
    explainer: Explainer,
    speed: Speed,
    clock: Millis,
    started: Instant,
    progress: ProgressBar,
    /// Callbacks that were read, those to probes left out.
    heard: u64,
    /// Probes that were sent.
    probes: u64,
    /// Newest probe that was answered.
    answered: u64,
    /// Releases were sent while asks were known to wait: these may be placed now.
    room_made: bool,
    /// The books.
    pub books: Books<'t>,
    /// The curves.
    pub samples: Vec<Sample>,
    /// Why asks had to wait: reason and number of asks.
    pub had_to_wait: BTreeMap<String, usize>,
    /// Why asks were not placed before their end, or the end of the trace.
    pub never_placed: BTreeMap<String, usize>,
    /// How often the stream of callbacks broke and was resumed.
    pub resumed: usize,
    /// Real time that the playing took so far.
    pub took: Duration,
}

impl<'t> Player<'t> {
    /// Nothing played yet.
    pub fn new(trace: &'t Trace, session: Session, speed: Speed) -> Player<'t> {
        let style = "{elapsed_precise} [{bar:30}] {pos}/{len} {msg}";
        // The template is a constant that a test renders.
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        let progress = ProgressBar::new(0).with_style(style.progress_chars("=> "));
        Player {
            trace,
            explainer: Explainer::new(session.api.clone(), &session.rm),
            session,
            speed,
            clock: Millis(0),
            started: Instant::now(),
            progress,
            heard: 0,
            probes: 0,
            answered: 0,
            room_made: false,
            books: Books::new(trace),
            samples: Vec::new(),
            had_to_wait: BTreeMap::new(),
            never_placed: BTreeMap::new(),
            resumed: 0,
            took: Duration::ZERO,
        }
    }

    /// Plays the whole trace. May be dropped at any await: what was booked so far stays.
    pub async fn play(&mut self) -> Result<()> {
        for request in wire::nodes(self.trace, &self.session.rm) {
            self.session.shim.nodes(request).await?;
        }
        self.receive_until("the nodes to be accepted", |player| player.books.counts.nodes == player.trace.nodes.len())
            .await?;
        let steps = self.trace.steps();
        self.progress.set_length(steps.iter().map(|step| (step.ends.len() + step.starts.len()) as u64).sum());
        self.clock = steps.first().map_or(Millis(0), |step| step.at);
        let origin = self.clock;
        self.started = Instant::now();
        for step in &steps {
            if let Speed::Times(times) = self.speed {
                let real = Duration::from_secs_f64((step.at.0 - origin.0) as f64 / 1000.0 / times);
                self.follow_until(self.started + real, origin, times).await?;
            }
            self.clock = step.at;
            self.step(step).await?;
            if self.speed == Speed::Max {
                self.settle().await?;
            }
            self.sample();
            self.took = self.started.elapsed();
            self.show(step);
        }
        self.settle_for_good().await?;
        self.sample();
        self.took = self.started.elapsed();
        self.progress.finish_and_clear();
        Ok(())
    }

    /// What the server says is used; compared with the books by the summary.
    pub async fn used_by_server(&self) -> Result<BTreeMap<String, i64>> {
        Ok(self.explainer.used().await?)
    }

    /// After the trace: all that is still there ends, and with it every application. Gives what the server holds all the
    /// same.
    pub async fn leave(&mut self) -> Result<Vec<String>> {
        let ends = self.books.unfinished();
        self.step(&Step { at: self.clock, ends, starts: Vec::new() }).await?;
        self.room_made = true;
        self.settle().await?;
        // Twice, so that what was confirmed last is applied too.
        self.room_made = true;
        self.settle().await?;
        Ok(leftovers::find(&self.session.api, &format!("[{}]{}", self.session.rm, wire::PARTITION)).await?)
    }

    /// Trace time reached.
    pub fn clock(&self) -> Millis {
        self.clock
    }

    /// Ends the session.
    pub async fn unregister(&self) -> Result<()> {
        self.progress.finish_and_clear();
        Ok(self.session.shim.unregister().await?)
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        let rm = self.session.rm.clone();
        let withdrawn: Vec<usize> = step.ends.iter().copied().filter(|ask| self.books.is_waiting(*ask)).collect();
        self.explain(&withdrawn, true).await;
        let mut touched: Vec<usize> = Vec::new();
        let mut releases = Vec::new();
        for ask in &step.ends {
            let app = self.trace.asks[*ask].app;
            for key in self.books.end(*ask) {
                releases.push((key, self.trace.apps[app].id.clone(), TerminationType::StoppedByRm.into()));
                touched.push(app);
            }
        }
        self.room_made |= !releases.is_empty() && !self.books.waiting.is_empty();
        let mut new_apps = Vec::new();
        for ask in &step.starts {
            if self.books.start(*ask, self.clock) {
                new_apps.push(self.trace.asks[*ask].app);
            }
        }
        for request in wire::applications(self.trace, &rm, &new_apps, &[]) {
            self.session.shim.applications(request).await?;
        }
        if !self.session.shim.ordered() && !new_apps.is_empty() {
            self.receive_until("applications to be accepted", |player| player.books.unanswered_apps == 0).await?;
        }
        let mut asks: Vec<usize> = step.starts.clone();
        // What was withdrawn may have been all that a gang waited for.
        asks.extend(self.books.complete(&touched));
        let asks: Vec<wire::Ask> = asks.into_iter().map(|ask| self.books.ask(ask)).collect();
        // One request is applied as one batch (R1.29): no scheduling pass comes between the ends and the starts of a moment,
        // which would let chance decide who gets the room.
        if !releases.is_empty() || !asks.is_empty() {
            let request = wire::moment(self.trace, &rm, &asks, &releases);
            self.session.shim.allocations(request).await?;
        }
        // An application of which nothing is left is removed; a later ask of it submits it again.
        let gone = self.books.remove_idle(touched);
        for request in wire::applications(self.trace, &rm, &[], &gone) {
            self.session.shim.applications(request).await?;
        }
        Ok(())
    }

    /// Reads callbacks until real time `until`, while the trace clock runs with it.
    async fn follow_until(&mut self, until: Instant, origin: Millis, times: f64) -> Result<()> {
        loop {
            let elapsed = self.started.elapsed().as_secs_f64() * 1000.0 * times;
            self.clock = Millis(origin.0 + elapsed as i64);
            let pause = Instant::now() + REASON_AFTER;
            match timeout_at(until.min(pause), self.session.callbacks.recv()).await {
                Ok(incoming) => self.take(incoming).await?,
                Err(_) if Instant::now() >= until => return Ok(()),
                Err(_) if self.books.unanswered() > 0 => self.explain_new().await,
                Err(_) => {}
            }
        }
    }

    /// Reads callbacks until nothing more can come: everything was answered, or the server is quiet.
    async fn settle(&mut self) -> Result<()> {
        let mut rounds = 0;
        let mut resumed = self.resumed;
        while self.something_may_come() {
            // Most answers come at once: a probe is sent only where one takes longer.
            if rounds == 0
                && let Ok(incoming) = timeout(FIRST_LOOK, self.session.callbacks.recv()).await
            {
                self.take(incoming).await?;
                continue;
            }
            let heard = self.heard;
            self.probe().await?;
            let undisturbed = self.heard == heard && self.resumed == resumed;
            resumed = self.resumed;
            rounds = if undisturbed { rounds + 1 } else { 1 };
            if rounds > QUIET_ROUNDS {
                // A session that is Paused answers, and places nothing.
                if self.session.api.status(&self.session.rm).await?.state == "Running" {
                    self.room_made = false;
                    self.explain_new().await;
                    return Ok(());
                }
                rounds = 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    fn something_may_come(&self) -> bool {
        self.books.unanswered() > 0 || self.books.unanswered_apps > 0 || self.room_made
    }

    /// Sends an ask of an application that there is not, and reads callbacks until its rejection comes back.
    ///
    /// It goes the way of all asks, so its rejection comes after what the server made of everything before it. What is
    /// placed in the scheduling pass that follows is seen by the next probe.
    async fn probe(&mut self) -> Result<()> {
        self.probes += 1;
        let probe = self.probes;
        self.session.shim.allocations(wire::probe(&self.session.rm, probe)).await?;
        self.receive_until("a probe to be answered", |player| player.answered >= probe || !player.something_may_come())
            .await
    }

    /// The end of the trace: also what was released last is booked, and what still waits is explained.
    async fn settle_for_good(&mut self) -> Result<()> {
        self.room_made = true;
        self.settle().await?;
        let waiting: Vec<usize> = self.books.waiting.iter().copied().collect();
        self.explain(&waiting, true).await;
        Ok(())
    }

    async fn receive_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Result<()> {
        while !done(self) {
            let incoming = timeout(PATIENCE, self.session.callbacks.recv()).await;
            let incoming = incoming.with_context(|| format!("waited {} s for {what}", PATIENCE.as_secs()))?;
            self.take(incoming).await?;
        }
        Ok(())
    }

    async fn take(&mut self, incoming: Option<Incoming>) -> Result<()> {
        let message = match incoming {
            Some(Incoming::Message { message, .. }) => message,
            Some(Incoming::Resumed) => {
                self.resumed += 1;
                return Ok(());
            }
            Some(Incoming::Ended(error)) => return Err(error).context("the session ended"),
            None => bail!("the session ended"),
        };
        match message {
            Message::Predicates { .. } | Message::Other => return Ok(()),
            Message::Node(response) => self.books.nodes(response)?,
            Message::Application(response) => self.books.applications(response),
            Message::Allocation(mut response) => {
                let mut answered = self.answered;
                response.rejected_allocations.retain(|rejected| match wire::probe_of(rejected) {
                    Some(probe) => {
                        answered = answered.max(probe);
                        false
                    }
                    None => true,
                });
                self.answered = answered;
                if response == AllocationResponse::default() {
                    return Ok(());
                }
                let follow_up = self.books.allocations(response, self.clock)?;
                if follow_up != FollowUp::default() {
                    let FollowUp { confirm, asks } = follow_up;
                    let asks: Vec<wire::Ask> = asks.into_iter().map(|ask| self.books.ask(ask)).collect();
                    let request = wire::moment(self.trace, &self.session.rm, &asks, &confirm);
                    self.session.shim.allocations(request).await?;
                }
            }
        }
        self.heard += 1;
        Ok(())
    }

    async fn explain_new(&mut self) {
        let new = self.books.quiet();
        self.explain(&new, false).await;
    }

    async fn explain(&mut self, asks: &[usize], for_good: bool) {
        if asks.is_empty() {
            return;
        }
        let reasons = if for_good { &mut self.never_placed } else { &mut self.had_to_wait };
        for reason in self.explainer.explain(self.trace, &self.books, asks).await {
            *reasons.entry(reason).or_default() += 1;
        }
    }

    fn sample(&mut self) {
        let waiting = self.books.waiting.len();
        let (used, by_queue) = (&self.books.used, &self.books.used_by_queue);
        match self.samples.last_mut() {
            Some(last) if last.used == *used && last.by_queue == *by_queue && last.waiting == waiting => {}
            Some(last) if last.at == self.clock => {
                (last.used, last.by_queue, last.waiting) = (used.clone(), by_queue.clone(), waiting);
            }
            _ => {
                let (used, by_queue) = (used.clone(), by_queue.clone());
                self.samples.push(Sample { at: self.clock, used, by_queue, waiting });
            }
        }
    }

    fn show(&self, step: &Step) {
        self.progress.inc((step.ends.len() + step.starts.len()) as u64);
        let (placed, waiting) = (self.books.counts.placed, self.books.waiting.len());
        self.progress.set_message(format!("trace time {}, {placed} placed, {waiting} waiting", self.clock));
    }
}
