//! What came into a partition while it was recorded, apart from what was decided: nodes, applications, asks, for how long allocations
//! lasted. It can come once more to a partition that decides otherwise ([`Forward::following`](super::forward::Forward::following)).

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Partition, forward::AskName};
use crate::{
    alloc::Alloc,
    command::{AllocationItem, Command, ReleaseItem},
    effect::{Callback, Effect},
    log::{Input, Step},
    types::{Nanos, Termination},
};

/// An input.
#[derive(Clone, Debug)]
pub enum Came {
    /// As it came, but for releases of what was placed: those follow from [`Recorded::lasted`].
    Command(Command),
    /// Another size, or priority, of an ask or allocation that was there.
    Update(AllocationItem),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Inputs in order, with their times.
    pub came: Vec<(Nanos, Came)>,
    /// New configurations among them.
    pub configured: usize,
    /// For how long the asks that were placed had waited, but for those that took the place of their placeholders.
    pub waits: Vec<Nanos>,
    /// Asks that were placed.
    pub placed: u64,
    lasted: FxHashMap<AskName, Nanos>,
    removed: FxHashMap<Arc<str>, Nanos>,
    /// What is there, by application and key.
    live: FxHashMap<Arc<str>, FxHashMap<Arc<str>, Live>>,
    last_end: FxHashMap<Arc<str>, Nanos>,
}

/// An ask or allocation that is there.
#[derive(Clone, Copy, Debug)]
struct Live {
    placed: Option<Nanos>,
    /// The scheduler said that it is to go: the release that follows confirms that.
    goes: bool,
}

impl Recorded {
    /// Begins with what is there.
    pub fn new(partition: &Partition) -> Recorded {
        let mut recorded = Recorded::default();
        for row in partition.allocs.values().filter(|row| row.spec.foreign.is_none()) {
            let Some(app) = partition.apps.get(row.app) else { continue };
            let placed = row.is_allocated().then_some(row.bound);
            let live = Live { placed, goes: row.is_going() };
            recorded.live.entry(app.id.clone()).or_default().insert(row.spec.key.clone(), live);
        }
        recorded
    }

    /// What was done next, what came of it, and the partition afterwards.
    pub fn note(&mut self, steps: Vec<Step>, effects: &[Effect], after: &Partition) {
        let Some(at) = steps.last().map(|step| step.at) else { return };
        for step in steps {
            if let Input::Apply(command) = step.input {
                self.came_in(step.at, command);
            }
        }
        for effect in effects {
            if let Effect::Callback(callback) = effect {
                self.told(at, callback, after);
            }
        }
    }

    /// For how long an allocation lasted; `None`: it did not end, or was never placed.
    pub fn lasted(&self, name: &AskName) -> Option<Nanos> {
        self.lasted.get(name).copied()
    }

    /// Allocations of which that is known.
    pub fn ended(&self) -> usize {
        self.lasted.len()
    }

    /// Those, and what runs in the end.
    pub fn known(&self) -> usize {
        let live = self.live.values().flat_map(FxHashMap::values);
        self.lasted.len() + live.filter(|live| live.placed.is_some()).count()
    }

    /// How long after the end of its last allocation an application was removed.
    pub(super) fn removed_after(&self, app: &str) -> Option<Nanos> {
        self.removed.get(app).copied()
    }

    /// Allocations that ended, by application.
    pub(super) fn open(&self) -> FxHashMap<Arc<str>, usize> {
        let mut open: FxHashMap<Arc<str>, usize> = FxHashMap::default();
        for (app, _) in self.lasted.keys() {
            *open.entry(app.clone()).or_default() += 1;
        }
        open
    }

    /// The same without new configurations.
    pub fn without_configurations(&self) -> Recorded {
        let mut recorded = self.clone();
        recorded.came.retain(|(_, came)| !matches!(came, Came::Command(Command::Configure(_))));
        recorded
    }

    fn came_in(&mut self, at: Nanos, command: Command) {
        match command {
            Command::Tick | Command::Predicate(_) | Command::Unanswered(_) | Command::Turn(_) | Command::Stop => {}
            Command::Allocations { allocations, releases } => self.allocations(at, allocations, releases),
            Command::Applications { new, remove } => {
                let remove = remove.into_iter().filter(|app| !self.remove(at, app)).collect::<Vec<_>>();
                if !new.is_empty() || !remove.is_empty() {
                    self.came.push((at, Came::Command(Command::Applications { new, remove })));
                }
            }
            command => {
                self.configured += usize::from(matches!(command, Command::Configure(_)));
                self.came.push((at, Came::Command(command)));
            }
        }
    }

    fn allocations(&mut self, at: Nanos, items: Vec<AllocationItem>, releases: Vec<ReleaseItem>) {
        let (mut new, mut updates) = (Vec::new(), Vec::new());
        for item in items {
            if item.spec.foreign.is_some() {
                new.push(item);
                continue;
            }
            let live = self.live.entry(item.app.clone()).or_default();
            if live.contains_key(&item.spec.key) {
                updates.push(item);
                continue;
            }
            let placed = item.node.is_some().then_some(at);
            live.insert(item.spec.key.clone(), Live { placed, goes: false });
            new.push(item);
        }
        let mut withdrawn = Vec::new();
        for release in releases {
            if release.app.is_empty() {
                withdrawn.push(release);
                continue;
            }
            let keys = match release.key.is_empty() {
                true => self.live.get(&release.app).map(|live| live.keys().cloned().collect()).unwrap_or_default(),
                false => vec![release.key.clone()],
            };
            for key in keys {
                if release.termination == Termination::FailedOnRm && self.waits_again(&release, &key) {
                    continue;
                }
                let waited = self.end(at, &release.app, &key);
                if waited {
                    withdrawn.push(ReleaseItem { key, ..release.clone() });
                }
            }
        }
        if !new.is_empty() || !withdrawn.is_empty() {
            let command = Command::Allocations { allocations: new, releases: withdrawn };
            self.came.push((at, Came::Command(command)));
        }
        self.came.extend(updates.into_iter().map(|item| (at, Came::Update(item))));
    }

    /// One that failed where it was placed waits again (R4.28), where only it was released; false where it was not placed.
    fn waits_again(&mut self, release: &ReleaseItem, key: &Arc<str>) -> bool {
        let live = self.live.get_mut(&release.app).and_then(|live| live.get_mut(key));
        let live = live.filter(|live| !release.key.is_empty() && !live.goes);
        live.is_some_and(|live| live.placed.take().is_some())
    }

    /// The resource manager releases something; true where it was an ask that waited.
    fn end(&mut self, at: Nanos, app: &Arc<str>, key: &Arc<str>) -> bool {
        match self.live.get_mut(app).and_then(|live| live.remove(key)) {
            Some(Live { goes: false, placed: Some(placed) }) => {
                self.lasted.insert((app.clone(), key.clone()), at.minus(placed).max(Nanos::ZERO));
                self.last_end.insert(app.clone(), at);
                false
            }
            Some(Live { goes: false, placed: None }) => true,
            Some(Live { goes: true, .. }) | None => false,
        }
    }

    /// The resource manager removes an application; false where nothing of it was placed, so that only the time is known.
    fn remove(&mut self, at: Nanos, app: &Arc<str>) -> bool {
        let keys: Vec<_> = self.live.get(app).map(|live| live.keys().cloned().collect()).unwrap_or_default();
        for key in keys {
            self.end(at, app, &key);
        }
        self.live.remove(app);
        let last = self.last_end.remove(app);
        if let Some(last) = last {
            self.removed.insert(app.clone(), at.minus(last));
        }
        last.is_some()
    }

    fn told(&mut self, at: Nanos, callback: &Callback, after: &Partition) {
        match callback {
            Callback::New(new) => {
                let live = self.live.get_mut(&new.app).and_then(|live| live.get_mut(&new.spec.key));
                let Some(live) = live.filter(|live| live.placed.is_none()) else { return };
                live.placed = Some(at);
                self.placed += 1;
                self.waits.extend(after.alloc(&new.app, &new.spec.key).and_then(|row| waited(row, at)));
            }
            Callback::Released(release) if release.confirm => {
                let live = self.live.get_mut(&release.app).and_then(|live| live.get_mut(&release.key));
                if let Some(live) = live {
                    live.goes = true;
                }
            }
            // It ended by itself.
            Callback::Released(release) => {
                if let Some(live) = self.live.get_mut(&release.app) {
                    live.remove(&release.key);
                }
            }
            // One that is placed stays, where only a change of it was refused.
            Callback::RejectedAllocation { key, app, .. } => {
                if let Some(live) = self.live.get_mut(app)
                    && live.get(key).is_some_and(|live| live.placed.is_none())
                {
                    live.remove(key);
                }
            }
            _ => {}
        }
    }
}

/// For how long an ask had waited when it was placed; `None` of one that took the place of its placeholder, which had waited for it.
pub(super) fn waited(row: &Alloc, at: Nanos) -> Option<Nanos> {
    (!row.placeholder_used).then(|| at.minus(row.created).max(Nanos::ZERO))
}
