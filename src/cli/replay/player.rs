//! Plays a trace: one moment after another, through a shim of its own.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    ahead::Ahead,
    leftovers,
    reasons::Explainer,
    record::Record,
    trace::{Millis, Step, Trace},
    wire,
};
use crate::{
    cli::client::{Callbacks, Incoming, Message, Shim, http::Api},
    si::v1::{AllocationRequest, AllocationResponse, ApplicationRequest},
};

/// How trace time relates to real time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// The clock jumps to the next moment when the server is quiet.
    Max,
    /// So many times faster than real time.
    Times(f64),
}

/// Probes in a row, after the first, that are answered with nothing else in between: then the server is quiet. How long
/// they take does not matter, so a busy machine is not taken for a scheduler that finds no place. The first shows that all
/// requests were applied; the rejection of each leaves with the slice of scheduling after it, so that one more with nothing
/// in between shows that this slice placed nothing, which ends scheduling. The last is for a first one that left early.
const QUIET_ROUNDS: usize = 2;
/// Placements that are certain are waited for so long from one callback to the next; then probes find out. Decides nothing.
const CERTAIN_WITHIN: Duration = Duration::from_secs(5);
/// With a clock of its own the trace goes on meanwhile; so long after its making an ask is looked at for a reason.
const REASON_AFTER: Duration = Duration::from_millis(50);
/// How long a server may go without any answer while something must still come.
const PATIENCE: Duration = Duration::from_secs(120);

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
    session: Session,
    explainer: Explainer,
    speed: Speed,
    /// Callbacks that were read, those to probes left out.
    heard: u64,
    /// Probes that were sent.
    probes: u64,
    /// Newest probe that was answered.
    answered: u64,
    /// Limits hold back nothing, so that moments can go together where the nodes have room.
    unlimited: bool,
    /// Releases were sent while asks were known to wait: these may be placed now.
    room_made: bool,
    /// What came of it so far.
    pub record: Record<'t>,
}

impl<'t> Player<'t> {
    /// Nothing played yet. `unlimited`: no limit of the configuration can ever hold back an ask of the trace.
    pub fn new(trace: &'t Trace, session: Session, speed: Speed, unlimited: bool) -> Player<'t> {
        Player {
            explainer: Explainer::new(session.api.clone(), &session.rm),
            record: Record::new(trace, session.rm.clone()),
            session,
            speed,
            heard: 0,
            probes: 0,
            answered: 0,
            unlimited: unlimited && trace.gangs.is_none() && speed == Speed::Max,
            room_made: false,
        }
    }

    /// Plays the whole trace. May be dropped at any await: what was booked so far stays.
    pub async fn play(&mut self) -> Result<()> {
        let trace = self.record.trace;
        for request in wire::nodes(trace, &self.session.rm) {
            self.session.shim.nodes(request).await?;
        }
        let accepted = |player: &Self| player.record.books.counts.nodes == trace.nodes.len();
        self.receive_until("the nodes to be accepted", accepted).await?;
        let steps = trace.steps();
        self.record.begin(&steps);
        let origin = self.record.clock;
        let mut rest = steps.as_slice();
        while let [step, later @ ..] = rest {
            // What waits might be placed by a release at its own moment.
            if self.unlimited && self.record.books.waiting.is_empty() {
                let played = self.ahead(rest).await?;
                if played > 0 {
                    rest = &rest[played..];
                    continue;
                }
            }
            rest = later;
            if let Speed::Times(times) = self.speed {
                let real = Duration::from_secs_f64((step.at.0 - origin.0) as f64 / 1000.0 / times);
                self.follow_until(Instant::from_std(self.record.started + real), origin, times).await?;
            }
            self.record.clock = step.at;
            self.step(step).await?;
            if self.speed == Speed::Max {
                self.settle().await?;
            }
            self.record.played(step);
        }
        self.settle_for_good().await?;
        self.record.finish();
        Ok(())
    }

    /// What the server says is used; compared with the books by the summary.
    pub async fn used_by_server(&self) -> Result<BTreeMap<String, i64>> {
        Ok(self.explainer.used().await?)
    }

    /// After the trace: all that is still there ends, and with it every application. Gives what the server holds all the
    /// same.
    pub async fn leave(&mut self) -> Result<Vec<String>> {
        let ends = self.record.books.unfinished();
        self.step(&Step { at: self.record.clock, ends, starts: Vec::new() }).await?;
        self.room_made = true;
        self.settle().await?;
        // Twice, so that what was confirmed last is applied too.
        self.room_made = true;
        self.settle().await?;
        Ok(leftovers::find(&self.session.api, &format!("[{}]{}", self.session.rm, wire::PARTITION)).await?)
    }

    /// Ends the session.
    pub async fn unregister(&self) -> Result<()> {
        self.record.hide();
        Ok(self.session.shim.unregister().await?)
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        let withdrawn = self.record.withdrawn(step);
        self.explain(&withdrawn, true).await;
        let moment = self.record.moment(step);
        self.room_made |= moment.makes_room;
        self.request(moment.submit, moment.change).await?;
        for request in moment.remove {
            self.session.shim.applications(request).await?;
        }
        Ok(())
    }

    /// Plays moments as far as everything in them is certain to have its place at once, without waiting for one before the
    /// next. Gives how many; then nothing is on its way.
    async fn ahead(&mut self, steps: &[Step]) -> Result<usize> {
        let trace = self.record.trace;
        let (mut ahead, mut expected) = (Ahead::default(), self.record.expected());
        self.record.books.at_once = true;
        let (mut played, refused) = (0, self.record.books.refused());
        'steps: for step in steps {
            while !ahead.gather(trace, &self.record.books, step) {
                if self.record.books.waiting.is_empty() && ahead.is_empty() {
                    break 'steps;
                }
                self.send_enough(&mut ahead).await?;
                if !self.receive().await? {
                    break 'steps;
                }
            }
            self.record.expect(step, &mut expected);
            played += 1;
            if self.record.books.refused() != refused {
                // What was expected is not what comes.
                break;
            }
            if ahead.is_full() {
                self.send(&mut ahead).await?;
            }
            self.take_what_came().await?;
        }
        while !ahead.is_empty() || self.something_may_come() {
            self.send_enough(&mut ahead).await?;
            if !self.receive().await? {
                // Somebody else took a node away.
                break;
            }
        }
        self.record.books.at_once = false;
        self.settle().await?;
        let ends = ahead.give_up();
        if !ends.is_empty() {
            self.step(&Step { at: self.record.clock, ends, starts: Vec::new() }).await?;
            self.settle().await?;
        }
        self.record.sample();
        Ok(played)
    }

    /// Sends what was gathered if something starts in it, there is much of it, or nothing comes without it. A request for each
    /// placement that was heard would take longer than the placements.
    async fn send_enough(&mut self, ahead: &mut Ahead) -> Result<()> {
        if ahead.has_starts() || ahead.is_full() || !self.something_may_come() {
            self.send(ahead).await?;
        }
        Ok(())
    }

    /// Sends what was gathered, one request of each kind.
    async fn send(&mut self, ahead: &mut Ahead) -> Result<()> {
        let (ends, starts) = ahead.take(&self.record.books);
        let moment = self.record.moment(&Step { at: self.record.clock, ends, starts });
        let applications = ahead.join(moment.submit, moment.remove);
        self.request(applications, moment.change).await
    }

    /// Reads a callback of those that must come, and what came with it; false where none does, which a probe explains.
    async fn receive(&mut self) -> Result<bool> {
        if !self.something_may_come() {
            return Ok(true);
        }
        match timeout(CERTAIN_WITHIN, self.session.callbacks.recv()).await {
            Ok(incoming) => self.take(incoming).await?,
            Err(_) => return Ok(false),
        }
        self.take_what_came().await.map(|()| true)
    }

    async fn take_what_came(&mut self) -> Result<()> {
        while let Ok(incoming) = self.session.callbacks.try_recv() {
            self.take(Some(incoming)).await?;
        }
        Ok(())
    }

    async fn request(
        &mut self,
        applications: Vec<ApplicationRequest>,
        change: Option<AllocationRequest>,
    ) -> Result<()> {
        let submits = applications.iter().any(|request| !request.new.is_empty());
        for request in applications {
            self.session.shim.applications(request).await?;
        }
        if submits && !self.session.shim.ordered() {
            let accepted = |player: &Self| player.record.books.unanswered_apps == 0;
            self.receive_until("applications to be accepted", accepted).await?;
        }
        if let Some(request) = change {
            self.session.shim.allocations(request).await?;
        }
        Ok(())
    }

    /// Reads callbacks until real time `until`, while the trace clock runs with it.
    async fn follow_until(&mut self, until: Instant, origin: Millis, times: f64) -> Result<()> {
        loop {
            let elapsed = self.record.started.elapsed().as_secs_f64() * 1000.0 * times;
            self.record.clock = Millis(origin.0 + elapsed as i64);
            let pause = Instant::now() + REASON_AFTER;
            match timeout_at(until.min(pause), self.session.callbacks.recv()).await {
                Ok(incoming) => self.take(incoming).await?,
                Err(_) if Instant::now() >= until => return Ok(()),
                Err(_) if self.record.books.unanswered() > 0 => self.explain_new().await,
                Err(_) => {}
            }
        }
    }

    /// Reads callbacks until nothing more can come: everything was answered, or the server is quiet.
    async fn settle(&mut self) -> Result<()> {
        let (mut rounds, mut seen) = (0, None);
        while self.something_may_come() {
            // What has come already may be all.
            if let Ok(incoming) = self.session.callbacks.try_recv() {
                self.take(Some(incoming)).await?;
                continue;
            }
            self.probe().await?;
            let now = Some((self.heard, self.record.resumed));
            rounds = if seen == now { rounds + 1 } else { 0 };
            seen = now;
            if rounds >= QUIET_ROUNDS {
                // A session that is Paused answers, and places nothing.
                if self.session.api.status(&self.session.rm).await?.state == "Running" {
                    self.room_made = false;
                    self.explain_new().await;
                    return Ok(());
                }
                rounds = 0;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    fn something_may_come(&self) -> bool {
        self.record.books.unanswered() > 0 || self.record.books.unanswered_apps > 0 || self.room_made
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
        let waiting: Vec<usize> = self.record.books.waiting.iter().copied().collect();
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
                self.record.resumed += 1;
                return Ok(());
            }
            Some(Incoming::Ended(error)) => return Err(error).context("the session ended"),
            None => bail!("the session ended"),
        };
        match message {
            Message::Predicates { .. } | Message::Other => return Ok(()),
            Message::Node(response) => self.record.books.nodes(response)?,
            Message::Application(response) => self.record.books.applications(response),
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
                let follow_up = self.record.books.allocations(response, self.record.clock)?;
                if let Some(request) = self.record.follow_up(&follow_up) {
                    self.session.shim.allocations(request).await?;
                }
            }
        }
        self.heard += 1;
        Ok(())
    }

    async fn explain_new(&mut self) {
        let new = self.record.books.quiet();
        self.explain(&new, false).await;
    }

    async fn explain(&mut self, asks: &[usize], for_good: bool) {
        if asks.is_empty() {
            return;
        }
        let reasons = self.explainer.explain(self.record.trace, &self.record.books, asks).await;
        self.record.count(reasons, for_good);
    }
}
