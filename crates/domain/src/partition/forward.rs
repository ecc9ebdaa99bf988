//! A partition run forward as if its resource manager answered at once: what would happen if nobody else did anything, or if what
//! was recorded came once more. It works on a clone; the partition that it was made of is not touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Partition,
    recorded::{self, Came, Recorded},
};
use crate::{
    command::{AllocationItem, Command, PredicateAnswer, PredicateTerms, ReleaseItem},
    effect::{Callback, Effect, NewAllocation},
    resources::Resource,
    types::{AllocIx, Nanos, Termination},
};

/// Decisions between two looks at whether it is over.
const CHUNK: usize = 16;
/// No run goes further: at the end of time what falls due again and again would do so at once, for ever.
const LAST: Nanos = Nanos(i64::MAX - Nanos::from_secs(366 * 86_400).0);

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

/// An ask that was placed.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Application and key of the ask.
    pub name: AskName,
    /// When it happened, in ns since the Unix epoch.
    pub at: Nanos,
    /// For how long it had waited; `None` of one that took the place of its placeholder.
    pub waited: Option<Nanos>,
    /// Path of its queue.
    pub queue: Arc<str>,
    /// Owner of its application.
    pub user: Arc<str>,
}

/// What is to end at a time.
enum End {
    /// An allocation.
    Allocation(AskName),
    /// An application.
    Application(Arc<str>),
}

/// What was recorded, as far as it has come.
struct Script<'a> {
    recorded: &'a Recorded,
    /// Inputs that came.
    came: usize,
    /// Allocations that are to end, by application.
    open: FxHashMap<Arc<str>, usize>,
    /// Those of which that is over.
    over: FxHashSet<AskName>,
}

/// See the module.
pub struct Forward<'a> {
    /// The clone.
    pub partition: Partition,
    /// Its time.
    pub now: Nanos,
    /// Asks that were placed, in order, and when; replacements of placeholders among them.
    pub placed: Vec<Placed>,
    /// Allocations that were preempted.
    pub preempted: Vec<AskName>,
    /// What was refused of the commands, each with the reason; asks of an application that was refused go without saying.
    pub refused: Vec<(Arc<str>, Arc<str>)>,
    /// Applications that were refused.
    without_app: FxHashSet<Arc<str>>,
    /// It ended for lack of time or decisions, not because nothing more could be done.
    pub cut: bool,
    watched: BTreeSet<AskName>,
    bounds: Bounds<'a>,
    left: usize,
    releases: Vec<ReleaseItem>,
    /// Numbers of what is asked.
    questions: Vec<u64>,
    lasts: Option<Lasts<'a>>,
    /// What ends when, in order, with a number that tells those of one moment apart.
    ends: BTreeMap<(Nanos, usize), End>,
    numbered: usize,
    script: Option<Script<'a>>,
    /// Used, and of all nodes, each times the nanoseconds for which it was so.
    areas: [Resource; 2],
    began: Nanos,
}

impl<'a> Forward<'a> {
    /// A clone at this time, which is run until these asks are placed; with none of them until nothing more happens.
    pub fn new(partition: &Partition, now: Nanos, watched: &[AskName], bounds: Bounds<'a>) -> Forward<'a> {
        let mut partition = partition.clone();
        partition.take_turns_alone();
        // What the resource manager has not answered yet it answers, too.
        let (releases, questions) = (partition.unconfirmed(), partition.open_questions().collect());
        Forward {
            partition,
            now,
            placed: Vec::new(),
            preempted: Vec::new(),
            refused: Vec::new(),
            without_app: FxHashSet::default(),
            cut: false,
            watched: watched.iter().cloned().collect(),
            left: bounds.decisions,
            bounds,
            releases,
            questions,
            lasts: None,
            ends: BTreeMap::new(),
            numbered: 0,
            script: None,
            areas: [Resource::new(), Resource::new()],
            began: now,
        }
    }

    /// Nobody confirms what was released before.
    pub fn unconfirmed(mut self) -> Forward<'a> {
        self.releases.clear();
        self
    }

    /// What was recorded comes once more, each thing at its time.
    pub fn following(mut self, recorded: Option<&'a Recorded>) -> Forward<'a> {
        self.script =
            recorded.map(|recorded| Script { recorded, came: 0, open: recorded.open(), over: FxHashSet::default() });
        self
    }

    /// Allocations end, those that run and those that are placed, as long as that is known of them.
    pub fn ending(mut self, lasts: Option<Lasts<'a>>) -> Forward<'a> {
        self.lasts = lasts;
        if lasts.is_some() {
            let partition = self.partition.clone();
            for (ix, row) in partition.allocs.iter() {
                if row.is_allocated() && !row.is_placeholder() && row.spec.foreign.is_none() {
                    self.plan_end(ix, self.now.minus(row.bound));
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
        let row = self.partition.allocs.get(ix);
        let (Some(left), Some(row)) = (left, row) else { return };
        let Some(app) = self.partition.apps.get(row.app) else { return };
        let name = (app.id.clone(), row.spec.key.clone());
        self.plan(left, End::Allocation(name));
    }

    fn plan(&mut self, left: Nanos, end: End) {
        self.numbered += 1;
        self.ends.insert((self.now.plus(left), self.numbered), end);
    }

    /// What is to end by now ends.
    fn end(&mut self) {
        let (mut releases, mut remove) = (Vec::new(), Vec::new());
        while let Some(entry) = self.ends.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                End::Allocation((app, key)) => {
                    releases.push(ReleaseItem { app, key, termination: Termination::StoppedByRm });
                }
                End::Application(app) => remove.push(app),
            }
        }
        self.left = self.left.saturating_sub(releases.len() + remove.len());
        for ReleaseItem { app, key, .. } in &releases {
            self.over((app.clone(), key.clone()));
        }
        if !releases.is_empty() {
            self.apply(Command::Allocations { allocations: Vec::new(), releases });
        }
        if !remove.is_empty() {
            self.apply(Command::Applications { new: Vec::new(), remove });
        }
    }

    /// An allocation that was recorded has ended, or never will be: an application goes so long after its last one as it did.
    fn over(&mut self, name: AskName) {
        let Some(script) = self.script.as_mut().filter(|script| script.recorded.lasted(&name).is_some()) else {
            return;
        };
        let app = name.0.clone();
        if !script.over.insert(name) {
            return;
        }
        let Some(open) = script.open.get_mut(&app) else { return };
        *open = open.saturating_sub(1);
        if *open == 0
            && let Some(after) = script.recorded.removed_after(&app)
        {
            self.plan(after, End::Application(app));
        }
    }

    /// When the next recorded input comes.
    fn next_input(&self) -> Option<Nanos> {
        let script = self.script.as_ref()?;
        script.recorded.came.get(script.came).map(|(at, _)| *at)
    }

    /// What is recorded of this moment comes.
    fn follow(&mut self) {
        while let Some(script) = &mut self.script {
            let recorded = script.recorded;
            let Some((_, input)) = recorded.came.get(script.came).filter(|(at, _)| *at <= self.now) else { return };
            script.came += 1;
            self.left = self.left.saturating_sub(1);
            match input {
                Came::Update(item) => self.update(item),
                // Nobody takes turns with this one.
                Came::Command(Command::PredicateTerms(terms)) => {
                    self.apply(Command::PredicateTerms(PredicateTerms { shared: false, ..*terms }));
                }
                Came::Command(command) => self.feed(command.clone()),
            }
        }
    }

    /// What the resource manager itself placed is not counted as placed.
    fn feed(&mut self, command: Command) {
        let before = self.placed.len();
        let mut given: FxHashSet<AskName> = FxHashSet::default();
        if let Command::Allocations { allocations, .. } = &command {
            let placed = allocations.iter().filter(|item| item.node.is_some());
            given.extend(placed.map(|item| (item.app.clone(), item.spec.key.clone())));
        }
        self.apply(command);
        if !given.is_empty() {
            let new = self.placed.split_off(before);
            self.placed.extend(new.into_iter().filter(|placed| !given.contains(&placed.name)));
        }
    }

    /// An ask or allocation gets another size, wherever it is now.
    fn update(&mut self, item: &AllocationItem) {
        let Some(row) = self.partition.alloc(&item.app, &item.spec.key) else { return };
        let node = row.node.filter(|_| row.is_allocated()).and_then(|node| self.partition.nodes.get(node));
        let item = AllocationItem { node: node.map(|node| node.id().clone()), ..item.clone() };
        self.apply(Command::Allocations { allocations: vec![item], releases: Vec::new() });
    }

    /// Used, and of all nodes, on average.
    pub fn averages(&self) -> [Resource; 2] {
        let time = i128::from(self.now.minus(self.began).0);
        let partition = &self.partition;
        match time {
            ..=0 => [partition.queues[partition.root].placed(), partition.total.clone()],
            _ => self.areas.clone().map(|area| {
                let mut average = Resource::new();
                area.iter().for_each(|(kind, amount)| average.set(kind.clone(), amount / time));
                average
            }),
        }
    }

    /// Time passes.
    fn advance(&mut self, to: Nanos) {
        let time = i128::from(to.minus(self.now).0);
        if time > 0 {
            let partition = &self.partition;
            self.areas[0].add(&partition.queues[partition.root].placed().times(time));
            self.areas[1].add(&partition.total.times(time));
            self.now = to;
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
            let done = self.partition.schedule(CHUNK.min(self.left), self.now, &mut fx);
            self.left -= done.made;
            self.take(fx);
            if done.cut {
                continue;
            }
            if !self.answer() && done.made == 0 {
                return watches && self.watched.is_empty();
            }
        }
    }

    /// Lets time pass until then at most; true as [`Forward::run`].
    pub fn pass(&mut self, until: Nanos) -> bool {
        let until = until.min(LAST);
        loop {
            if self.run() {
                return true;
            }
            let due = [self.partition.next_deadline(), self.ends.keys().next().map(|(at, _)| *at), self.next_input()];
            let next = due.into_iter().flatten().min().filter(|next| *next <= until);
            let (Some(next), false) = (next, self.cut) else {
                self.advance(until);
                return false;
            };
            self.advance(next);
            self.left = self.left.saturating_sub(1);
            while self.partition.is_due(self.now) {
                self.apply(Command::Tick);
            }
            self.end();
            self.follow();
        }
    }

    fn take(&mut self, fx: Vec<Effect>) {
        for effect in fx {
            match effect {
                Effect::Callback(Callback::New(new)) => self.place(*new),
                Effect::Callback(Callback::RejectedAllocation { key, app, reason }) => {
                    if !self.without_app.contains(&app) {
                        self.refused.push((key.clone(), reason));
                    }
                    self.over((app, key));
                }
                Effect::Callback(Callback::AcceptedApplication(app)) => {
                    self.without_app.remove(&app);
                }
                Effect::Callback(Callback::RejectedApplication { app, reason }) => {
                    if !self.partition.app_by_id.contains_key(&app) {
                        self.without_app.insert(app.clone());
                    }
                    self.refused.push((app, reason));
                }
                Effect::Callback(Callback::RejectedNode { node, reason }) => self.refused.push((node, reason)),
                Effect::Callback(Callback::Released(release)) if release.confirm => {
                    self.over((release.app.clone(), release.key.clone()));
                    if release.termination == Termination::Preempted {
                        self.preempted.push((release.app.clone(), release.key.clone()));
                    }
                    self.releases.push(ReleaseItem {
                        app: release.app,
                        key: release.key,
                        termination: release.termination,
                    });
                }
                Effect::Ask(question) => self.questions.push(question.id),
                _ => {}
            }
        }
    }

    fn place(&mut self, new: NewAllocation) {
        let app = self.partition.app_by_id.get(&new.app).copied();
        let ix = app.and_then(|app| self.partition.by_key(app, &new.spec.key));
        let app = app.and_then(|app| self.partition.apps.get(app));
        let row = ix.and_then(|ix| self.partition.allocs.get(ix));
        let waited = row.and_then(|row| recorded::waited(row, self.now));
        let name = (new.app, new.spec.key.clone());
        self.watched.remove(&name);
        let (queue, user) = app.map(|app| (app.queue_path.clone(), app.user.clone())).unwrap_or_default();
        self.placed.push(Placed { name, at: self.now, waited, queue, user });
        if self.lasts.is_some()
            && !new.spec.placeholder
            && let Some(ix) = ix
        {
            self.plan_end(ix, Nanos::ZERO);
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
            self.apply(Command::Predicate(PredicateAnswer::fits(question)));
        }
        true
    }
}

impl Partition {
    /// Releases that were sent to the resource manager and that it has not confirmed, as it would confirm them.
    fn unconfirmed(&self) -> Vec<ReleaseItem> {
        // Besides victims these are placeholders, and what an application has that ends.
        let some = self.apps.iter().filter(|(ix, app)| app.gang.placeholders > 0 || self.is_ending(*ix));
        let mut going: Vec<AllocIx> = some.flat_map(|(_, app)| app.allocs.keys().copied()).collect();
        going.retain(|alloc| self.allocs[*alloc].released);
        if !self.queues[self.root].preempting.is_empty() {
            going.extend(self.allocs.iter().filter(|(_, row)| row.is_allocated() && row.preempted).map(|(ix, _)| ix));
        }
        going.sort_unstable_by_key(|alloc| self.allocs[*alloc].seq);
        let release = |alloc: AllocIx| {
            let row = &self.allocs[alloc];
            let termination = match (row.preempted, row.link) {
                (true, _) => Termination::Preempted,
                (false, Some(_)) => Termination::PlaceholderReplaced,
                (false, None) => Termination::Timeout,
            };
            ReleaseItem { app: self.apps[row.app].id.clone(), key: row.spec.key.clone(), termination }
        };
        going.into_iter().map(release).collect()
    }
}
