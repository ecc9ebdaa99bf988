//! A partition run forward as if its resource manager answered at once: what would happen if nobody else did anything. It works
//! on a clone; the partition that it was made of is not touched.

use std::{collections::BTreeSet, sync::Arc};

use super::Partition;
use crate::{
    command::{Command, PredicateAnswer, ReleaseItem},
    effect::{Callback, Effect, Question, QuestionKind},
    types::{Nanos, Termination},
};

/// Decisions between two looks at whether it is over.
const CHUNK: usize = 16;

/// An ask by its application and key.
pub type AskName = (Arc<str>, Arc<str>);

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
    /// Asks that were placed, in order, with what the caller watches for left out of it.
    pub placed: Vec<AskName>,
    /// Allocations that were preempted.
    pub preempted: Vec<AskName>,
    /// It ended for lack of time or decisions, not because nothing more could be done.
    pub cut: bool,
    watched: BTreeSet<AskName>,
    bounds: Bounds<'a>,
    left: usize,
    releases: Vec<ReleaseItem>,
    questions: Vec<Question>,
}

impl<'a> Forward<'a> {
    /// A clone at this time, which is run until these asks are placed; with none of them until nothing more happens.
    pub fn new(partition: &Partition, now: Nanos, watched: &[AskName], bounds: Bounds<'a>) -> Forward<'a> {
        Forward {
            partition: partition.clone(),
            now,
            placed: Vec::new(),
            preempted: Vec::new(),
            cut: false,
            watched: watched.iter().cloned().collect(),
            left: bounds.decisions,
            bounds,
            releases: Vec::new(),
            questions: Vec::new(),
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
            let next = self.partition.next_deadline().filter(|next| *next <= until);
            let (Some(next), false) = (next, self.cut) else {
                self.now = self.now.max(until);
                return false;
            };
            self.now = self.now.max(next);
            self.left = self.left.saturating_sub(1);
            self.apply(Command::Tick);
        }
    }

    fn take(&mut self, fx: Vec<Effect>) {
        for effect in fx {
            match effect {
                Effect::Callback(Callback::New(new)) => {
                    let name = (new.app, new.spec.key.clone());
                    self.watched.remove(&name);
                    self.placed.push(name);
                }
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
