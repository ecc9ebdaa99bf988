//! The smallest changes that would place a waiting ask. Each is tried: made on a clone, which is then run forward until the
//! ask is placed. Nothing is suggested that was not seen to work, and the partition is not touched. Where something is given up to be asked
//! for again, others may take its room in between, in the trial as they would then.
//!
//! What is tried is one change at a time, of these kinds: a queue's max or number of applications on the path of the ask, a limit of its user
//! or group there, drained nodes, allocations that leave a node, a smaller ask (or a gang of fewer members), another queue, a setting that
//! forbids preemption, a required node that is not there, and more nodes like one that is. Of a setting that can be raised its least value is
//! looked for: first what is missing for the ask alone, then as far as it may go, as others may be before it in
//! line.

mod change;
mod limits;
mod nodes;
mod owner;
mod resume;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

pub use self::change::Change;
use super::{
    Partition, Waiting, Why,
    forward::{AskName, Bounds, Forward},
};
use crate::{
    command::Command,
    conf::PartitionConf,
    edit::Edit,
    resources::Resource,
    types::{AllocIx, AppIx, Nanos},
};

/// Remedies that are told at most.
const TOLD: usize = 5;
/// Changes that are tried at most.
const TRIALS: usize = 100;
/// How far ahead is looked for what needs no change.
const HORIZON: Nanos = Nanos::from_secs(120);
/// An ask tries to preempt again after this time (R7.4), and a little.
const PREEMPTS_AGAIN: Nanos = Nanos::from_secs(16);

/// Makes a configuration with some settings changed, as an update would; the error says why it would be refused.
pub type Editor<'a> = &'a dyn Fn(&[Edit]) -> Result<Arc<PartitionConf>, String>;

/// A change that places the ask.
#[derive(Clone, Debug)]
pub struct Remedy {
    /// What to do.
    pub change: Change,
    /// The part of the cluster that it is about, more than 1 where that is larger than the cluster: what they are ordered by.
    pub size: f64,
    /// Time from now until the ask is placed; zero: at once.
    pub after: Nanos,
    /// Other asks that are placed before it.
    pub before: usize,
    /// Allocations that are preempted.
    pub preempts: usize,
}

/// What was found out.
#[derive(Clone, Debug, Default)]
pub struct Advice {
    /// The smallest first.
    pub remedies: Vec<Remedy>,
    /// Why there is none.
    pub none: Option<Nothing>,
    /// Changes that were tried.
    pub tried: usize,
    /// All were tried that there are; else there were too many, or time was over.
    pub complete: bool,
}

/// Why there is no remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// It is larger than every node.
    TooLarge,
    /// It is larger than the node that it requires.
    RequiredTooSmall,
    /// No node is registered.
    NoNodes,
    /// It is up to the resource manager: to send the rest of a gang, an answer, or another one.
    ResourceManager,
    /// The application ends, or its queue is no leaf: nothing is placed in it whatever is changed.
    Never,
    /// No change of one thing alone would place it.
    NoSingleChange,
}

/// See the module.
struct Search<'a> {
    partition: &'a Partition,
    now: Nanos,
    edit: Editor<'a>,
    bounds: Bounds<'a>,
    app: AppIx,
    /// Asks that have to be placed: one, or all placeholders of a gang that wait.
    asks: Vec<AllocIx>,
    /// Their names.
    names: Vec<AskName>,
    /// Their sum.
    wanted: Resource,
    /// The largest of them.
    each: Arc<Resource>,
    found: Vec<Remedy>,
    tried: usize,
    cut: bool,
    /// Nobody confirms what was released before.
    unconfirmed: bool,
}

impl Partition {
    /// What would place the first of these asks of an application; of a gang all placeholders that wait. `now` is the time.
    pub fn remedies(&self, app: AppIx, waiting: &Waiting, now: Nanos, edit: Editor<'_>, bounds: Bounds<'_>) -> Advice {
        let only = |none| Advice { none: Some(none), complete: true, ..Advice::default() };
        match &waiting.why {
            Why::Stopped | Why::Ending(_) | Why::NotALeaf => return only(Nothing::Never),
            Why::NoNodes => return only(Nothing::NoNodes),
            Why::Asking(_) | Why::Replacing { .. } | Why::GangShort(_) => return only(Nothing::ResourceManager),
            // Nobody but the shim knows what it would say of another node, or of the same one later.
            Why::Nodes(nodes) | Why::GangNodes(nodes) if nodes.is_refused() => return only(Nothing::ResourceManager),
            Why::Refused { .. } | Why::RequiredNode { why: super::Unfit::Refused, .. } => {
                return only(Nothing::ResourceManager);
            }
            _ => {}
        }
        let asks = self.awaited_with(app, waiting);
        let row = &self.apps[app];
        let (mut wanted, mut each) = (Resource::new(), waiting.resource.clone());
        for ask in &asks {
            let resource = &self.allocs[*ask].resource;
            wanted.add(resource);
            if self.share(resource) > self.share(&each) || asks.len() > 1 && asks[0] == *ask {
                each = resource.clone();
            }
        }
        let names = asks.iter().map(|ask| (row.id.clone(), self.allocs[*ask].spec.key.clone())).collect();
        let mut search = Search {
            partition: self,
            now,
            edit,
            bounds,
            app,
            asks,
            names,
            wanted,
            each,
            found: Vec::new(),
            tried: 0,
            cut: false,
            unconfirmed: false,
        };
        search.all(waiting);
        search.advice(waiting)
    }

    /// A change of a setting. What placement made is first to be named by the configuration: it has no setting there, and a child
    /// template is for queues that are still to be made (TPL-006, CFG-101).
    fn of_edit(&self, edit: Edit) -> Change {
        let row =
            edit.queue().and_then(|path| self.queues.get(*self.queue_by_path.get(path)?)).filter(|row| !row.managed);
        let Some(row) = row else { return Change::Edit(edit) };
        let made = self.path(self.queue_by_path[&row.path]).map(|ix| &self.queues[ix]).filter(|row| !row.managed);
        let mut all: Vec<Edit> = made.map(|row| Edit::Name { queue: row.path.clone(), parent: !row.leaf }).collect();
        all.reverse();
        let queue = &row.path;
        all.extend(
            row.guaranteed.as_deref().cloned().map(|amounts| Edit::Guaranteed { queue: queue.clone(), amounts }),
        );
        let mut max = row.max.as_deref().cloned().unwrap_or_default();
        if let Edit::Max { amounts, .. } = &edit {
            amounts.iter().for_each(|(kind, amount)| max.set(kind.clone(), amount));
        }
        all.extend((!max.is_empty()).then(|| Edit::Max { queue: queue.clone(), amounts: max }));
        let max = if let Edit::Applications { max, .. } = edit { max } else { row.max_applications };
        all.extend((max > 0).then(|| Edit::Applications { queue: queue.clone(), max }));
        let mut properties = BTreeMap::clone(&row.properties);
        if let Edit::Property { name, value, .. } = &edit {
            properties.insert(name.to_string(), value.to_string());
        }
        let of = |(name, value): (String, String)| Edit::Property {
            queue: queue.clone(),
            name: name.into(),
            value: value.into(),
        };
        all.extend(properties.into_iter().map(of));
        Change::Named { edit, all }
    }

    /// What has to be placed for this ask: of a gang, all placeholders that wait.
    pub(super) fn awaited_with(&self, app: AppIx, waiting: &Waiting) -> Vec<AllocIx> {
        let row = &self.apps[app];
        if !waiting.placeholder && !matches!(waiting.why, Why::Gang { .. }) {
            return vec![waiting.first];
        }
        let groups = row.groups_by_key.iter().filter(|(key, _)| key.placeholder);
        let all: Vec<AllocIx> = groups.flat_map(|(_, group)| group.asks.values().copied()).collect();
        if all.is_empty() { vec![waiting.first] } else { all }
    }
}

impl<'a> Search<'a> {
    fn all(&mut self, waiting: &Waiting) {
        self.wait();
        // Those who go for it may be long in going: what places it before is tried without them.
        self.unconfirmed = matches!(waiting.why, Why::Preempting { .. });
        if !self.unconfirmed && self.found.iter().any(|remedy| remedy.after == Nanos::ZERO) {
            // Nothing holds it back.
            return;
        }
        if self.ready() > self.now && !self.found.is_empty() {
            // Nor does anything once its pause is over.
            return;
        }
        if matches!(waiting.why, Why::GangToCome(_) | Why::Placeholder { .. }) {
            return;
        }
        self.raise_queues();
        self.raise_limits();
        self.undrain();
        self.other_queue();
        self.smaller();
        self.allow_preemption();
        self.free_a_node();
        self.register_node();
        self.add_nodes();
    }

    fn advice(mut self, waiting: &Waiting) -> Advice {
        self.found.sort_by(|a, b| a.size.total_cmp(&b.size).then(a.after.cmp(&b.after)));
        self.found.truncate(TOLD);
        let none = self.found.is_empty().then_some(match &waiting.why {
            Why::Nodes(nodes) | Why::GangNodes(nodes) if nodes.is_too_large() => Nothing::TooLarge,
            Why::RequiredNode { why: super::Unfit::TooSmall, .. } => Nothing::RequiredTooSmall,
            Why::GangToCome(_) | Why::Placeholder { .. } | Why::Failures(_) => Nothing::ResourceManager,
            _ => Nothing::NoSingleChange,
        });
        Advice { remedies: self.found, none, tried: self.tried, complete: !self.cut }
    }

    /// Nothing at all may have to be changed: a delay or a back-off is over soon.
    fn wait(&mut self) {
        self.comes_by(self.patience());
    }

    /// Nothing has to be changed, as it is placed by then: told once.
    fn comes_by(&mut self, until: Nanos) -> bool {
        let Some(run) = self.attempt(&Change::Wait, until) else { return false };
        if !self.found.iter().any(|remedy| matches!(remedy.change, Change::Wait)) {
            self.note(Change::Wait, 0.0, &run);
        }
        true
    }

    /// Until when waiting may help: preemption, the end of a back-off or pause, or of the wait for a gang.
    fn patience(&self) -> Nanos {
        let waits = self.partition.apps[self.app].gang.wait.map(|(_, until)| until.plus(Nanos::from_millis(1)));
        let due = self.asks.iter().map(|ask| self.partition.preempt_due(*ask)).min();
        let due = due.filter(|_| self.partition.conf.preemption).map(|due| due.plus(Nanos::from_secs(1)));
        self.last_of([Some(self.ready()), waits, due].into_iter().flatten())
    }

    /// When it is tried again, where it pauses now: no change helps before.
    fn ready(&self) -> Nanos {
        let paused = self.asks.iter().filter_map(|ask| self.partition.allocs[*ask].paused_until()).max();
        let until = [paused, self.partition.apps[self.app].backoff_until].into_iter().flatten();
        self.last_of(until.map(|until| until.plus(Nanos::from_millis(1))))
    }

    /// The last of these moments that is soon; now where none is.
    fn last_of(&self, moments: impl Iterator<Item = Nanos>) -> Nanos {
        let most = self.now.plus(HORIZON);
        moments.filter(|at| *at > self.now && *at <= most).max().unwrap_or(self.now)
    }

    /// Tries a change; gives the run where it places the asks.
    fn attempt(&mut self, change: &Change, until: Nanos) -> Option<Forward<'a>> {
        self.trial(change, until).and_then(|(run, placed)| placed.then_some(run))
    }

    /// Tries a change; gives the run, and whether it places the asks. `None`: it cannot be tried.
    fn trial(&mut self, change: &Change, until: Nanos) -> Option<(Forward<'a>, bool)> {
        if self.tried >= TRIALS || (self.bounds.stop)() {
            self.cut = true;
            return None;
        }
        self.tried += 1;
        let commands = change.commands(self.partition, self.edit).ok()?;
        let watched = change.watched(&self.names);
        let mut run = Forward::new(self.partition, self.now, &watched, self.bounds);
        if self.unconfirmed {
            run = run.unconfirmed();
        }
        let mut placed = false;
        for (nth, command) in commands.into_iter().enumerate() {
            // Time passes between two requests: what was given up with the one may be others' before the next.
            placed |= nth > 0 && run.run();
            run.apply(command);
        }
        let done = self.is_as_wished(&run.partition, change) && (placed || run.pass(until));
        self.cut |= run.cut;
        Some((run, done))
    }

    /// An application that was submitted again is where it was to be: placement rules may have sent it elsewhere.
    fn is_as_wished(&self, partition: &Partition, change: &Change) -> bool {
        let Change::Queue { queue, app, .. } = change else { return true };
        let placed = partition.app_by_id.get(app).map(|ix| partition.apps[*ix].queue_path.clone());
        placed.as_ref() == Some(queue)
    }

    fn note(&mut self, change: Change, size: f64, run: &Forward) {
        let others = run.placed.iter().filter(|placed| placed.name.0 != self.names[0].0).count();
        self.found.push(Remedy {
            change,
            size,
            after: run.now.minus(self.now),
            before: others,
            preempts: run.preempted.len(),
        });
    }

    /// Tries a change now, or when a pause is over, and keeps it where it places the asks.
    fn offer(&mut self, change: Change, size: f64) -> bool {
        let run = self.attempt(&change, self.ready());
        if let Some(run) = &run {
            self.note(change, size, run);
        }
        run.is_some()
    }

    /// Looks for the least value of a setting: what the asks need alone; else as far as it may be raised, and then what was
    /// used by then. `size` tells how much an edit is.
    fn raise(
        &mut self,
        least: Option<Edit>,
        most: Edit,
        reached: impl Fn(&Partition) -> Option<Edit>,
        size: impl Fn(&Edit) -> f64,
    ) {
        let tried = |search: &mut Self, edit: &Edit| {
            let change = search.partition.of_edit(edit.clone());
            let run = search.attempt(&change, search.ready())?;
            search.note(change, size(edit), &run);
            Some(run)
        };
        if let Some(least) = &least
            && tried(self, least).is_some()
        {
            return;
        }
        if least.as_ref() == Some(&most) {
            return;
        }
        let Some(run) = tried(self, &most) else { return };
        let Some(enough) = reached(&run.partition).filter(|enough| *enough != most) else { return };
        let far = self.found.pop();
        if tried(self, &enough).is_none() {
            self.found.extend(far);
        }
    }

    /// The queues from its leaf to root.
    fn path(&self) -> Vec<crate::types::QueueIx> {
        self.partition.path(self.partition.apps[self.app].queue).collect()
    }
}

impl Remedy {
    /// What to do, as commands for the partition: applied, they place the ask.
    ///
    /// # Errors
    /// The configuration would be refused.
    pub fn commands(&self, partition: &Partition, edit: Editor<'_>) -> Result<Vec<Command>, String> {
        self.change.commands(partition, edit)
    }
}

/// The first few by a key, the largest first.
fn largest<T: Clone, K: Ord>(mut all: Vec<T>, count: usize, key: impl Fn(&T) -> K) -> Vec<T> {
    all.sort_by_key(|one| Reverse(key(one)));
    all.truncate(count);
    all
}
