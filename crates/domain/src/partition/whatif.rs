//! What a change would do: a partition run forward as it is, and once more with the change, and what differs between the two. Both run
//! on clones; the partition is not touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rustc_hash::FxHashMap;

use super::{
    Partition,
    forward::{AskName, Bounds, Forward, Lasts, Placed},
    recorded::Recorded,
};
use crate::{
    app::App,
    command::Command,
    queue::Queue,
    resources::Resource,
    types::{AppIx, AppState, Nanos},
};

/// Refusals that are told.
const REFUSED: usize = 100;

/// What is asked.
pub struct Scenario<'a> {
    /// The change, as commands in order.
    pub change: Vec<Command>,
    /// How far ahead is looked.
    pub horizon: Nanos,
    /// For how long allocations go on; `None`: nothing ends by itself.
    pub lasts: Option<Lasts<'a>>,
    /// What comes meanwhile in both runs, each of them as it is given here; `None`: nothing.
    pub recorded: Option<Pair<&'a Recorded>>,
    /// How far the run without the change may go, and the one with it, which makes no more decisions than the first where that was cut.
    pub bounds: [Bounds<'a>; 2],
}

/// Without the change, and with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair<T> {
    /// As it is without the change.
    pub without: T,
    /// As it would be with the change.
    pub with: T,
}

impl<T: PartialEq> Pair<T> {
    fn differs(&self) -> bool {
        self.without != self.with
    }
}

/// What of the whole partition is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whole {
    /// Allocations in the end, placeholders included.
    pub allocations: u64,
    /// Asks that wait in the end.
    pub waiting: u64,
    /// Asks that were placed on the way.
    pub placed: u64,
    /// Allocations that were preempted on the way.
    pub preempted: u64,
    /// Allocated in the end.
    pub used: Resource,
    /// Of all nodes in the end.
    pub capacity: Resource,
    /// Allocated on average over the time.
    pub average_used: Resource,
    /// Of all nodes, on average.
    pub average_capacity: Resource,
    /// How long asks that were placed on the way had waited.
    pub waits: Waits,
}

/// How long asks that were placed had waited; placeholders are among them, and what took their places is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Number of asks.
    pub asks: u64,
    /// Half of them waited so long at most.
    pub p50: Nanos,
    /// Nine of ten of them.
    pub p90: Nanos,
    /// All of them.
    pub longest: Nanos,
}

impl From<Vec<Nanos>> for Waits {
    fn from(mut waits: Vec<Nanos>) -> Waits {
        waits.sort_unstable();
        let at = |share: usize| {
            waits.get((waits.len() * share).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
        };
        Waits { asks: waits.len() as u64, p50: at(50), p90: at(90), longest: at(100) }
    }
}

/// An application that fares otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Fate {
    /// Id of the application.
    pub app: Arc<str>,
    /// Path of its queue.
    pub queue: Arc<str>,
    /// Name of the user who submitted it.
    pub user: Arc<str>,
    /// It comes with the change.
    pub new: bool,
    /// Its state in the end; `None`: it has ended, or is not there.
    pub state: Pair<Option<AppState>>,
    /// Its allocations in the end.
    pub allocations: Pair<u64>,
    /// Its asks that wait in the end.
    pub waiting: Pair<u64>,
    /// Its allocations that were preempted on the way.
    pub preempted: Pair<u64>,
    /// Asks that are placed only without the change, and only with it.
    pub only: Pair<u64>,
    /// Asks that are placed in any case, sooner with the change.
    pub sooner: u64,
    /// And later with it.
    pub later: u64,
    /// Time until the first of its asks is placed.
    pub first: Pair<Option<Nanos>>,
}

/// A queue that fares otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueFate {
    /// Full path of the queue.
    pub queue: Arc<str>,
    /// It is there in the end.
    pub there: Pair<bool>,
    /// Allocated in the end, with what is below.
    pub used: Pair<Resource>,
    /// Wanted by asks that wait in the end.
    pub pending: Pair<Resource>,
    /// Applications that run in the end.
    pub running: Pair<u64>,
    /// How long its own asks that were placed on the way had waited.
    pub waits: Pair<Waits>,
}

/// What was found out.
pub struct Outcome {
    /// The whole.
    pub whole: Pair<Whole>,
    /// Applications that fare otherwise, by id.
    pub applications: Vec<Fate>,
    /// Queues that fare otherwise, by path.
    pub queues: Vec<QueueFate>,
    /// What of the change was refused, or only with it, with the reason; a hundred at most.
    pub refused: Vec<(Arc<str>, Arc<str>)>,
    /// Time ahead that was looked at in both runs.
    pub seen: Nanos,
    /// A run was ended early.
    pub cut: bool,
    /// The partition in the end, with the change.
    pub then: Partition,
    /// When that is.
    pub at: Nanos,
}

/// What happened in a run.
struct Run {
    partition: Partition,
    now: Nanos,
    placed: Vec<Placed>,
    averages: [Resource; 2],
    preempted: BTreeMap<Arc<str>, u64>,
    refused: Vec<(Arc<str>, Arc<str>)>,
    cut: bool,
}

impl Partition {
    /// What a change would do. `now` is the time.
    pub fn what_if(&self, scenario: Scenario<'_>, now: Nanos) -> Outcome {
        let Scenario { change, horizon, lasts, recorded, bounds: [first, second] } = scenario;
        let new: BTreeSet<Arc<str>> = change.iter().flat_map(submitted).collect();
        let until = now.plus(horizon);
        let of = |pick: fn(Pair<&'_ Recorded>) -> &'_ Recorded| Course { until, lasts, recorded: recorded.map(pick) };
        let (without, left) = self.run_forward(Vec::new(), now, of(|pair| pair.without), first);
        let decisions = if without.cut { (first.decisions - left).min(second.decisions) } else { second.decisions };
        let (with, _) = self.run_forward(change, now, of(|pair| pair.with), Bounds { decisions, ..second });
        let mut outcome = Outcome {
            whole: Pair { without: without.whole(), with: with.whole() },
            applications: Vec::new(),
            queues: queues(&without, &with),
            refused: Vec::new(),
            seen: without.now.min(with.now).minus(now),
            cut: without.cut || with.cut,
            then: with.partition.clone(),
            at: with.now,
        };
        outcome.applications = fates(self, (&without, &with), &new, now);
        outcome.refused = only_with(&without.refused, with.refused);
        outcome
    }

    fn run_forward(&self, change: Vec<Command>, now: Nanos, course: Course<'_>, bounds: Bounds<'_>) -> (Run, usize) {
        let Course { until, lasts, recorded } = course;
        let mut run = Forward::new(self, now, &[], bounds).following(recorded).ending(lasts);
        for command in change {
            run.apply(command);
        }
        run.pass(until);
        let (left, averages) = (run.left(), run.averages());
        let Forward { partition, now, placed, preempted, refused, cut, .. } = run;
        let mut by_app = BTreeMap::new();
        for (app, _) in preempted {
            *by_app.entry(app).or_default() += 1;
        }
        (Run { partition, now, placed, averages, preempted: by_app, refused, cut }, left)
    }
}

/// What was refused with the change more often than without it. The change comes before all else, so its own refusals are the first.
fn only_with(without: &[(Arc<str>, Arc<str>)], with: Vec<(Arc<str>, Arc<str>)>) -> Vec<(Arc<str>, Arc<str>)> {
    let mut anyhow: FxHashMap<&str, usize> = FxHashMap::default();
    for (what, _) in without {
        *anyhow.entry(what).or_default() += 1;
    }
    let mut refused: Vec<_> = with
        .into_iter()
        .rev()
        .filter(|(what, _)| {
            let left = anyhow.get_mut(&**what).filter(|left| **left > 0);
            left.map(|left| *left -= 1).is_none()
        })
        .collect();
    refused.reverse();
    refused.truncate(REFUSED);
    refused
}

/// What happens in a run.
struct Course<'a> {
    until: Nanos,
    lasts: Option<Lasts<'a>>,
    recorded: Option<&'a Recorded>,
}

/// The applications that a command submits.
fn submitted(command: &Command) -> Vec<Arc<str>> {
    match command {
        Command::Applications { new, .. } => new.iter().map(|app| app.id.clone()).collect(),
        _ => Vec::new(),
    }
}

impl Run {
    fn whole(&self) -> Whole {
        let partition = &self.partition;
        let asks = partition.app_by_id.values().map(|ix| waiting(&partition.apps[*ix]));
        Whole {
            allocations: partition.allocations,
            waiting: asks.sum(),
            placed: self.placed.len() as u64,
            preempted: self.preempted.values().sum(),
            used: partition.queues[partition.root].placed(),
            capacity: partition.total.clone(),
            average_used: self.averages[0].clone(),
            average_capacity: self.averages[1].clone(),
            waits: Waits::from(self.placed.iter().filter_map(|placed| placed.waited).collect::<Vec<_>>()),
        }
    }

    /// How long asks waited, by queue.
    fn waits(&self) -> FxHashMap<&Arc<str>, Waits> {
        let mut waits: FxHashMap<&Arc<str>, Vec<Nanos>> = FxHashMap::default();
        for Placed { waited, queue, .. } in &self.placed {
            waits.entry(queue).or_default().extend(*waited);
        }
        waits.into_iter().map(|(queue, waits)| (queue, Waits::from(waits))).collect()
    }

    fn app(&self, id: &str) -> Option<&App> {
        let ix: &AppIx = self.partition.app_by_id.get(id)?;
        self.partition.apps.get(*ix)
    }
}

/// Asks of an application that wait.
fn waiting(app: &App) -> u64 {
    app.groups_by_key.values().map(|group| group.asks.len() as u64).sum::<u64>() + u64::from(app.asking)
}

/// How asks of an application are placed in the two runs.
#[derive(Default)]
struct Placements<'a> {
    /// Queue and user of the application.
    of: Option<(&'a Arc<str>, &'a Arc<str>)>,
    only: Pair<u64>,
    sooner: u64,
    later: u64,
    first: Pair<Option<Nanos>>,
}

fn placements<'a>(without: &'a Run, with: &'a Run, now: Nanos) -> BTreeMap<&'a Arc<str>, Placements<'a>> {
    let mut found: BTreeMap<&Arc<str>, Placements<'_>> = BTreeMap::new();
    let mut before: FxHashMap<&AskName, Nanos> = FxHashMap::default();
    for Placed { name, at, queue, user, .. } in &without.placed {
        before.entry(name).or_insert(*at);
        let row = found.entry(&name.0).or_default();
        row.of = Some((queue, user));
        row.first.without.get_or_insert(at.minus(now));
    }
    let mut seen: BTreeSet<&AskName> = BTreeSet::new();
    for Placed { name, at, queue, user, .. } in &with.placed {
        let row = found.entry(&name.0).or_default();
        row.of = Some((queue, user));
        row.first.with.get_or_insert(at.minus(now));
        if before.is_empty() || !before.contains_key(name) {
            row.only.with += u64::from(seen.insert(name));
            continue;
        }
        let Some(then) = before.remove(name) else { continue };
        row.sooner += u64::from(*at < then);
        row.later += u64::from(*at > then);
    }
    for name in before.into_keys() {
        found.entry(&name.0).or_default().only.without += 1;
    }
    found
}

fn fates(start: &Partition, (without, with): (&Run, &Run), submitted: &BTreeSet<Arc<str>>, now: Nanos) -> Vec<Fate> {
    let placed = placements(without, with, now);
    let mut ids: BTreeSet<&Arc<str>> = without.partition.app_by_id.keys().collect();
    ids.extend(with.partition.app_by_id.keys());
    ids.extend(placed.keys().copied());
    ids.extend(without.preempted.keys().chain(with.preempted.keys()));
    let none = Placements::default();
    let mut fates = Vec::new();
    for id in ids {
        let (old, new) = (without.app(id), with.app(id));
        let began = start.app_by_id.get(id).and_then(|ix| start.apps.get(*ix));
        let Placements { of: ended, only, sooner, later, first } = placed.get(id).unwrap_or(&none);
        let there = new.or(old).or(began).map(|app| (&app.queue_path, &app.user));
        let Some((queue, user)) = there.or(*ended) else { continue };
        let of = |run: &Run| run.preempted.get(id).copied().unwrap_or_default();
        let fate = Fate {
            app: id.clone(),
            queue: queue.clone(),
            user: user.clone(),
            new: began.is_none() && submitted.contains(id),
            state: Pair { without: old.map(|app| app.state), with: new.map(|app| app.state) },
            allocations: Pair { without: old.map_or(0, App::placements), with: new.map_or(0, App::placements) },
            waiting: Pair { without: old.map_or(0, waiting), with: new.map_or(0, waiting) },
            preempted: Pair { without: of(without), with: of(with) },
            only: *only,
            sooner: *sooner,
            later: *later,
            first: *first,
        };
        let placing = fate.only != Pair::default() || fate.sooner + fate.later > 0;
        let counts = fate.allocations.differs() || fate.waiting.differs() || fate.preempted.differs();
        if fate.new || placing || counts || fate.state.differs() {
            fates.push(fate);
        }
    }
    fates
}

fn queues(one: &Run, other: &Run) -> Vec<QueueFate> {
    let (without, with) = (&one.partition, &other.partition);
    let waits = Pair { without: one.waits(), with: other.waits() };
    let row = |partition: &Partition, path: &Arc<str>| -> Option<Queue> {
        partition.queues.get(*partition.queue_by_path.get(path)?).cloned()
    };
    let paths: BTreeSet<&Arc<str>> = without.queue_by_path.keys().chain(with.queue_by_path.keys()).collect();
    let mut fates = Vec::new();
    for path in paths {
        let (old, new) = (row(without, path), row(with, path));
        let amount = |row: &Option<Queue>, of: fn(&Queue) -> Resource| row.as_ref().map(of).unwrap_or_default();
        let running = |row: &Option<Queue>| row.as_ref().map_or(0, Queue::begun);
        let pending = |row: &Queue| row.waiting().pruned();
        let fate = QueueFate {
            queue: path.clone(),
            there: Pair { without: old.is_some(), with: new.is_some() },
            used: Pair { without: amount(&old, Queue::placed), with: amount(&new, Queue::placed) },
            pending: Pair { without: amount(&old, pending), with: amount(&new, pending) },
            running: Pair { without: running(&old), with: running(&new) },
            waits: Pair {
                without: waits.without.get(path).copied().unwrap_or_default(),
                with: waits.with.get(path).copied().unwrap_or_default(),
            },
        };
        let counts = fate.running.differs() || fate.waits.differs();
        if fate.there.differs() || fate.used.differs() || fate.pending.differs() || counts {
            fates.push(fate);
        }
    }
    fates
}
