//! A partition run forward as if its resource manager answered at once: what would happen if nobody else did anything. It works
//! on a clone; the partition that it was made of is not touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Partition;
use crate::{
    command::{Command, PredicateAnswer, ReleaseItem},
    effect::{Callback, Effect, Question, QuestionKind},
    types::{AllocIx, Nanos, Termination},
};

/// Decisions between two looks at whether it is over.
const CHUNK: usize = 16;
/// Refusals that are kept.
const REFUSED: usize = 100;

/// An ask by its application and key.
pub type AskName = (Arc<str>, Arc<str>);

/// For how long an allocation that has lasted so long goes on; `None`: nobody knows, it stays.
pub type Lasts<'a> = &'a dyn Fn(&Partition, AllocIx, Nanos) -> Option<Nanos>;

/// How far a run may go.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// Decisions and answers at most.
    pub decisions: usize,
    /// The caller has no more time: asked between a few decisions.
    pub stop: &'a dyn Fn() -> bool,
}

/// See the module.
pub struct Forward<'a> {
    /// The clone.
    pub partition: Partition,
    /// Its time.
    pub now: Nanos,
    /// Asks that were placed, in order, and when; replacements of placeholders among them.
    pub placed: Vec<(AskName, Nanos)>,
    /// Allocations that were preempted.
    pub preempted: Vec<AskName>,
    /// What was refused of the commands, each with the reason; a hundred at most.
    pub refused: Vec<(Arc<str>, Arc<str>)>,
    /// It ended for lack of time or decisions, not because nothing more could be done.
    pub cut: bool,
    watched: BTreeSet<AskName>,
    bounds: Bounds<'a>,
    left: usize,
    releases: Vec<ReleaseItem>,
    questions: Vec<Question>,
    lasts: Option<Lasts<'a>>,
    /// When allocations end, in order, with a number that tells those of one moment apart.
    ends: BTreeMap<(Nanos, usize), AskName>,
    numbered: usize,
}

impl<'a> Forward<'a> {
    /// A clone at this time, which is run until these asks are placed; with none of them until nothing more happens.
    pub fn new(partition: &Partition, now: Nanos, watched: &[AskName], bounds: Bounds<'a>) -> Forward<'a> {
        let mut partition = partition.clone();
        partition.take_turns_alone();
        Forward {
            partition,
            now,
            placed: Vec::new(),
            preempted: Vec::new(),
            refused: Vec::new(),
            cut: false,
            watched: watched.iter().cloned().collect(),
            left: bounds.decisions,
            bounds,
            releases: Vec::new(),
            questions: Vec::new(),
            lasts: None,
            ends: BTreeMap::new(),
            numbered: 0,
        }
    }

    /// Allocations end, those that run and those that are placed, as long as that is known of them.
    pub fn ending(mut self, lasts: Option<Lasts<'a>>) -> Forward<'a> {
        self.lasts = lasts;
        if lasts.is_some() {
            let partition = self.partition.clone();
            for (ix, row) in partition.allocs.iter().enumerate() {
                if !row.free && row.is_allocated() && !row.is_placeholder() && row.spec.foreign.is_none() {
                    self.plan_end(AllocIx::from(ix), self.now.minus(row.bound));
                }
            }
        }
        self
    }

    /// Decisions and answers that are left of what it may make.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The end of an allocation that has lasted so long.
    fn plan_end(&mut self, ix: AllocIx, age: Nanos) {
        let left = self.lasts.and_then(|lasts| lasts(&self.partition, ix, age));
        let row = self.partition.allocs.get(ix.ix()).filter(|row| !row.free);
        let (Some(left), Some(row)) = (left, row) else { return };
        let Some(app) = self.partition.apps.get(row.app.ix()) else { return };
        self.numbered += 1;
        self.ends.insert((self.now.plus(left), self.numbered), (app.id.clone(), row.spec.key.clone()));
    }

    /// Allocations whose time has come end.
    fn end(&mut self) {
        let mut releases = Vec::new();
        while let Some(entry) = self.ends.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (app, key) = entry.remove();
            releases.push(ReleaseItem { app, key, termination: Termination::StoppedByRm });
        }
        if !releases.is_empty() {
            self.left = self.left.saturating_sub(releases.len());
            self.apply(Command::Allocations { allocations: Vec::new(), releases });
        }
    }

    /// Applies a command.
    pub fn apply(&mut self, command: Command) {
        let mut fx = Vec::new();
        self.partition.apply(command, self.now, &mut fx);
        self.take(fx);
    }

    /// Runs until all watched asks are placed (true), or nothing more can be done now.
    pub fn run(&mut self) -> bool {
        let watches = !self.watched.is_empty();
        loop {
            if watches && self.watched.is_empty() {
                return true;
            }
            if self.left == 0 || (self.bounds.stop)() {
                self.cut = true;
                return false;
            }
            let mut fx = Vec::new();
            let made = self.partition.schedule(CHUNK.min(self.left), self.now, &mut fx);
            self.left -= made;
            self.take(fx);
            if !self.answer() && made == 0 {
                return watches && self.watched.is_empty();
            }
        }
    }

    /// Lets time pass until then at most; true as [`Forward::run`].
    pub fn pass(&mut self, until: Nanos) -> bool {
        loop {
            if self.run() {
                return true;
            }
            let due = [self.partition.next_deadline(), self.ends.keys().next().map(|(at, _)| *at)];
            let next = due.into_iter().flatten().min().filter(|next| *next <= until);
            let (Some(next), false) = (next, self.cut) else {
                self.now = self.now.max(until);
                return false;
            };
            self.now = self.now.max(next);
            self.left = self.left.saturating_sub(1);
            if self.partition.next_deadline().is_some_and(|due| due <= self.now) {
                self.apply(Command::Tick);
            }
            self.end();
        }
    }

    fn take(&mut self, fx: Vec<Effect>) {
        for effect in fx {
            match effect {
                Effect::Callback(Callback::New(new)) => {
                    if self.lasts.is_some() && !new.spec.placeholder {
                        let app = self.partition.app_by_id.get(&new.app);
                        let row = app.and_then(|app| self.partition.apps.get(app.ix()));
                        if let Some(ix) = row.and_then(|row| row.by_key.get(&new.spec.key)).copied() {
                            self.plan_end(ix, Nanos::ZERO);
                        }
                    }
                    let name = (new.app, new.spec.key.clone());
                    self.watched.remove(&name);
                    self.placed.push((name, self.now));
                }
                Effect::Callback(
                    Callback::RejectedApplication { app: what, reason }
                    | Callback::RejectedAllocation { key: what, reason, .. }
                    | Callback::RejectedNode { node: what, reason },
                ) if self.refused.len() < REFUSED => self.refused.push((what, reason)),
                Effect::Callback(Callback::Released(release)) if release.confirm => {
                    if release.termination == Termination::Preempted {
                        self.preempted.push((release.app.clone(), release.key.clone()));
                    }
                    self.releases.push(ReleaseItem {
                        app: release.app,
                        key: release.key,
                        termination: release.termination,
                    });
                }
                Effect::Ask(question) => self.questions.push(question),
                _ => {}
            }
        }
    }

    /// Confirms what waits for it, and agrees to what is asked; false where there was nothing.
    fn answer(&mut self) -> bool {
        let (releases, questions) = (std::mem::take(&mut self.releases), std::mem::take(&mut self.questions));
        if releases.is_empty() && questions.is_empty() {
            return false;
        }
        self.left = self.left.saturating_sub(releases.len() + questions.len());
        if !releases.is_empty() {
            self.apply(Command::Allocations { allocations: Vec::new(), releases });
        }
        for question in questions {
            let index = match question.kind {
                QuestionKind::Fits { .. } => 0,
                QuestionKind::FitsWithout { start, .. } => start,
            };
            let answer = PredicateAnswer { question: question.id, result: Ok(()), index, refused: Vec::new() };
            self.apply(Command::Predicate(answer));
        }
        true
    }
}
