//! Plays a trace: one moment after another, through a shim of its own.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    books::Books,
    reasons::Explainer,
    trace::{Amounts, Millis, Step, Trace},
    wire,
};
use crate::{
    cli::client::{Callbacks, Incoming, Message, Shim, http::Api},
    si::v1::TerminationType,
};

/// How trace time relates to real time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// The clock jumps to the next moment when the server is quiet.
    Max,
    /// So many times faster than real time.
    Times(f64),
}

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
    silence: Duration,
    clock: Millis,
    started: Instant,
    progress: ProgressBar,
    /// Number of the newest callback that was read.
    newest: u64,
    /// When the last callback that matters was read.
    heard: Instant,
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
    /// `silence`: the server counts as quiet when nothing came for so long (speed max).
    pub fn new(trace: &'t Trace, session: Session, speed: Speed, silence: Duration) -> Player<'t> {
        let style = "{elapsed_precise} [{bar:30}] {pos}/{len} {msg}";
        // The template is a constant that a test renders.
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        let progress = ProgressBar::new(0).with_style(style.progress_chars("=> "));
        Player {
            trace,
            explainer: Explainer::new(session.api.clone(), &session.rm),
            session,
            speed,
            silence,
            clock: Millis(0),
            started: Instant::now(),
            progress,
            newest: 0,
            heard: Instant::now(),
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
            let key = self.books.key(*ask);
            if self.books.end(*ask) {
                let app = self.trace.asks[*ask].app;
                releases.push((key, self.trace.apps[app].id.clone(), TerminationType::StoppedByRm.into()));
                touched.push(app);
            }
        }
        self.room_made |= !releases.is_empty() && !self.books.waiting.is_empty();
        for request in wire::releases(&rm, &releases) {
            self.session.shim.allocations(request).await?;
        }
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
        for request in wire::asks(self.trace, &rm, &step.starts, |ask| self.books.key(ask)) {
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
            let pause = Instant::now() + self.silence.max(Duration::from_millis(20));
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
        self.heard = Instant::now();
        let mut last = None;
        while self.books.unanswered() > 0 || self.books.unanswered_apps > 0 || self.room_made {
            match timeout(self.silence, self.session.callbacks.recv()).await {
                Ok(incoming) => self.take(incoming).await?,
                Err(_) => {
                    let asked = Instant::now();
                    let status = self.session.api.status(&self.session.rm).await?;
                    // A server that is slow to tell its state is not quiet but busy.
                    let prompt = asked.elapsed() < self.silence.max(Duration::from_millis(25)) * 2;
                    let seen = if self.session.shim.ordered() { Some(self.newest) } else { last };
                    last = Some(status.last_sequence);
                    if prompt && status.state == "Running" && seen == last {
                        self.room_made = false;
                        self.explain_new().await;
                        return Ok(());
                    }
                    if self.heard.elapsed() > PATIENCE {
                        bail!(
                            "the server did not become quiet within {} s (state {})",
                            PATIENCE.as_secs(),
                            status.state
                        );
                    }
                }
            }
        }
        Ok(())
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
        let (seq, message) = match incoming {
            Some(Incoming::Message { seq, message, .. }) => (seq, message),
            Some(Incoming::Resumed) => {
                self.resumed += 1;
                return Ok(());
            }
            Some(Incoming::Ended(error)) => return Err(error).context("the session ended"),
            None => bail!("the session ended"),
        };
        self.newest = self.newest.max(seq);
        match message {
            Message::Other => return Ok(()),
            Message::Node(response) => self.books.nodes(response)?,
            Message::Application(response) => self.books.applications(response),
            Message::Allocation(response) => {
                let follow_up = self.books.allocations(response, self.clock)?;
                for request in wire::releases(&self.session.rm, &follow_up.confirm) {
                    self.session.shim.allocations(request).await?;
                }
                for request in wire::asks(self.trace, &self.session.rm, &follow_up.again, |ask| self.books.key(ask)) {
                    self.session.shim.allocations(request).await?;
                }
            }
        }
        self.heard = Instant::now();
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
