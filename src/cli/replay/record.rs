//! The record of a trace being played: the books, the clock, the curves and the reasons, and what the shim sends for each
//! moment. It is the same whether the trace is played through a door or in process.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{
    books::{AskState, Books, FollowUp},
    trace::{Amounts, Millis, Step, Trace, add, subtract},
    wire,
};
use crate::si::v1::{AllocationRequest, ApplicationRequest, TerminationType};

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

/// What the shim sends for one moment, in this order.
#[derive(Debug, Default)]
pub struct Moment {
    /// Submissions of applications.
    pub submit: Vec<ApplicationRequest>,
    /// All ends and all starts in one request, which is applied as one batch (R1.29): no scheduling pass comes between them,
    /// which would let chance decide who gets the room.
    pub change: Option<AllocationRequest>,
    /// Removals of applications of which nothing is left; a later ask of such a one submits it again.
    pub remove: Vec<ApplicationRequest>,
    /// Something is released, which may make room for asks that are known to wait.
    pub makes_room: bool,
}

/// What is used when all that is on its way has its place.
#[derive(Debug)]
pub struct Expected {
    used: Amounts,
    by_queue: Vec<Amounts>,
}

/// See the module.
pub struct Record<'t> {
    /// What is played.
    pub trace: &'t Trace,
    /// Resource manager that it is played as.
    pub rm: String,
    /// The books.
    pub books: Books<'t>,
    /// Trace time reached.
    pub clock: Millis,
    /// The curves.
    pub samples: Vec<Sample>,
    /// Why asks had to wait: reason and number of asks.
    pub had_to_wait: BTreeMap<String, usize>,
    /// Why asks were not placed before their end, or the end of the trace.
    pub never_placed: BTreeMap<String, usize>,
    /// How often the stream of callbacks broke and was resumed.
    pub resumed: usize,
    /// When the playing began, real time.
    pub started: Instant,
    /// Real time that the playing took so far.
    pub took: Duration,
    progress: ProgressBar,
}

impl<'t> Record<'t> {
    /// Nothing played yet.
    pub fn new(trace: &'t Trace, rm: String) -> Record<'t> {
        let style = "{elapsed_precise} [{bar:30}] {pos}/{len} {msg}";
        // The template is a constant that a test renders.
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        Record {
            trace,
            rm,
            books: Books::new(trace),
            clock: Millis(0),
            samples: Vec::new(),
            had_to_wait: BTreeMap::new(),
            never_placed: BTreeMap::new(),
            resumed: 0,
            started: Instant::now(),
            took: Duration::ZERO,
            progress: ProgressBar::new(0).with_style(style.progress_chars("=> ")),
        }
    }

    /// The playing of these steps begins now.
    pub fn begin(&mut self, steps: &[Step]) {
        self.progress.set_length(steps.iter().map(|step| (step.ends.len() + step.starts.len()) as u64).sum());
        self.clock = steps.first().map_or(Millis(0), |step| step.at);
        self.started = Instant::now();
    }

    /// The step was played.
    pub fn played(&mut self, step: &Step) {
        self.sample();
        self.passed(step);
    }

    fn passed(&mut self, step: &Step) {
        self.took = self.started.elapsed();
        self.progress.inc((step.ends.len() + step.starts.len()) as u64);
        let (placed, waiting) = (self.books.counts.placed, self.books.waiting.len());
        let clock = self.clock;
        // Only what is shown is made into text.
        if !self.progress.is_hidden() {
            self.progress.set_message(format!("trace time {clock}, {placed} placed, {waiting} waiting"));
        }
    }

    /// The whole trace was played.
    pub fn finish(&mut self) {
        self.sample();
        self.took = self.started.elapsed();
        self.hide();
    }

    /// Takes the progress away.
    pub fn hide(&self) {
        self.progress.finish_and_clear();
    }

    /// Asks of a step that end without having been placed.
    pub fn withdrawn(&self, step: &Step) -> Vec<usize> {
        step.ends.iter().copied().filter(|ask| self.books.is_waiting(*ask)).collect()
    }

    /// Books a step at the present clock.
    pub fn moment(&mut self, step: &Step) -> Moment {
        let mut touched: Vec<usize> = Vec::new();
        let mut releases = Vec::new();
        for ask in &step.ends {
            let app = self.trace.asks[*ask].app;
            for key in self.books.end(*ask) {
                releases.push((key, self.trace.apps[app].id.clone(), TerminationType::StoppedByRm.into()));
                touched.push(app);
            }
        }
        let makes_room = !releases.is_empty() && !self.books.waiting.is_empty();
        let mut new_apps = Vec::new();
        for ask in &step.starts {
            if self.books.start(*ask, self.trace.asks[*ask].starts) {
                new_apps.push(self.trace.asks[*ask].app);
            }
        }
        let mut asks: Vec<usize> = step.starts.clone();
        // What was withdrawn may have been all that a gang waited for.
        asks.extend(self.books.complete(&touched));
        let change = self.change(&asks, &releases);
        let gone = self.books.remove_idle(touched);
        Moment {
            submit: wire::applications(self.trace, &self.rm, &new_apps, &[]),
            change,
            remove: wire::applications(self.trace, &self.rm, &[], &gone),
            makes_room,
        }
    }

    /// The request that answers callbacks.
    pub fn follow_up(&self, follow_up: &FollowUp) -> Option<AllocationRequest> {
        self.change(&follow_up.asks, &follow_up.confirm)
    }

    fn change(&self, asks: &[usize], releases: &[wire::Release]) -> Option<AllocationRequest> {
        let asks: Vec<wire::Ask> = asks.iter().map(|ask| self.books.ask(*ask)).collect();
        let something = !asks.is_empty() || !releases.is_empty();
        something.then(|| wire::moment(self.trace, &self.rm, &asks, releases))
    }

    /// Counts why asks wait, or were never placed.
    pub fn count(&mut self, reasons: Vec<String>, for_good: bool) {
        let counts = if for_good { &mut self.never_placed } else { &mut self.had_to_wait };
        for reason in reasons {
            *counts.entry(reason).or_default() += 1;
        }
    }

    /// What the books will say when all that is on its way has its place, for [`Record::expect`].
    pub fn expected(&self) -> Expected {
        Expected { used: self.books.used.clone(), by_queue: self.books.used_by_queue.clone() }
    }

    /// The clock goes to a step whose asks are certain to be placed at once, and so does the curve.
    pub fn expect(&mut self, step: &Step, expected: &mut Expected) {
        let Expected { used, by_queue } = expected;
        self.clock = step.at;
        for ask in step.ends.iter().filter(|ask| self.books.state(**ask) != AskState::Done) {
            subtract(used, &self.trace.asks[*ask].needs);
            subtract(&mut by_queue[self.books.queue_of(*ask)], &self.trace.asks[*ask].needs);
        }
        for ask in &step.starts {
            add(used, &self.trace.asks[*ask].needs);
            add(&mut by_queue[self.books.queue_of(*ask)], &self.trace.asks[*ask].needs);
        }
        point(&mut self.samples, step.at, used, by_queue, 0);
        self.passed(step);
    }

    /// A point of the curves, where something changed.
    pub fn sample(&mut self) {
        let books = &self.books;
        point(&mut self.samples, self.clock, &books.used, &books.used_by_queue, books.waiting.len());
    }
}

fn point(samples: &mut Vec<Sample>, at: Millis, used: &Amounts, by_queue: &Vec<Amounts>, waiting: usize) {
    match samples.last_mut() {
        Some(last) if last.waiting == waiting && last.used == *used && last.by_queue == *by_queue => {}
        Some(last) if last.at == at => {
            (last.used, last.by_queue, last.waiting) = (used.clone(), by_queue.clone(), waiting);
        }
        _ => samples.push(Sample { at, used: used.clone(), by_queue: by_queue.clone(), waiting }),
    }
}
