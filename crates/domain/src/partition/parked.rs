//! Applications that wait for a limit only, or for nodes only, and were told so: they are *parked* in their leaf, by what they wait
//! for, and not tried again before the limit leaves room for the least that one of them wants, or a node has room for a shape. Limits
//! of a user are looked at again when that user is charged less. So a release costs as many looks as there are limits that may have
//! more room, and shapes that hold somebody back, however many wait behind each of them, in this queue and in those of others.
//! Many users may wait for the limit of one group: they stand behind a *gate*, which is opened when the group is charged less, and of
//! them only the first is looked at, as long as the limit leaves it no room.

use std::{collections::BTreeSet, sync::Arc};

use super::Partition;
use crate::coded::{Coded, Error, Reader, Writer, list};
use crate::{
    app::{App, AppKey, Hold},
    resources::{Resource, ResourceType},
    types::{AppIx, AppState, Nanos, QueueIx, ShapeIx},
    ugm::{Limit, Who},
};

/// Shapes of one application that are looked at each time; with more it is tried instead.
const SHAPES: usize = 8;

/// What applications of a leaf wait for: those of one kind can begin, or have nothing placed, all at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bar {
    /// To count as a running application, else room for resources.
    to_run: bool,
    /// A limit of their user or group, else of a queue or the size of the cluster.
    owner: Option<Owner>,
    /// No limit, but nodes: one that takes any of these, in ascending order.
    shapes: Vec<ShapeIx>,
}

/// Applications that have these in common are charged to the same user and group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    user: Arc<str>,
    groups: Arc<[Arc<str>]>,
    /// They are charged already, and to this group, if to any.
    charged: bool,
    group: Option<Arc<str>>,
}

/// The limit of a group that holds back bars of many users alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Gate {
    group: Arc<str>,
    /// The queue of the limit.
    path: Arc<str>,
    /// They are charged already.
    charged: bool,
    /// The least that is wanted behind it; `None`: to count as a running application.
    wants: Option<Vec<(ResourceType, i128)>>,
}

/// The parked applications of a leaf.
#[derive(Clone, Debug, Default)]
pub struct Parked {
    bars: imbl::OrdMap<Arc<Bar>, Row>,
    /// Bars behind gates, each by the first that waits there.
    gates: imbl::OrdMap<Gate, imbl::OrdMap<AppKey, Arc<Bar>>>,
    /// What may have room in this epoch, by the first that waited there when that was last looked at.
    open: imbl::OrdMap<AppKey, Open>,
    epoch: u64,
    /// When the bars were last looked at, as [`Freed`](crate::ugm::Freed) counts; those of a user that are not open have no room as
    /// long as the user's limits have no more, and those behind a gate as long as its group's have no more. `None`: all are to be
    /// looked at.
    looked: Option<u64>,
    /// Bars that may have room all the same: one that waits wants less than the one that was tried.
    again: imbl::OrdSet<Arc<Bar>>,
}

/// A bar that may have room.
#[derive(Clone, Debug)]
struct Open {
    bar: Arc<Bar>,
    /// It is the first behind this gate, which is open.
    gate: Option<Gate>,
}

/// Those that wait for the same.
#[derive(Clone, Debug, Default)]
struct Row {
    /// As they are tried, when they are.
    apps: imbl::OrdMap<AppKey, AppIx>,
    /// None of them wants less, of any type.
    least: Resource,
    /// The gate that it is behind, and the key by which it is there.
    gate: Option<(Gate, AppKey)>,
}

impl Parked {
    /// The bars of a user, or of none.
    fn of(&self, user: Option<&Arc<str>>) -> impl Iterator<Item = (&Arc<Bar>, &Row)> {
        let owner = user.map(|user| Owner { user: user.clone(), groups: Arc::default(), charged: false, group: None });
        let user = user.cloned();
        [false, true].into_iter().flat_map(move |to_run| {
            let first = Arc::new(Bar { to_run, owner: owner.clone(), shapes: Vec::new() });
            let user = user.clone();
            let same = move |bar: &Arc<Bar>| {
                bar.to_run == to_run && bar.owner.as_ref().map(|owner| &owner.user) == user.as_ref()
            };
            self.bars.range(first..).take_while(move |(bar, _)| same(bar))
        })
    }

    /// The gates of a group.
    fn gates_of(&self, group: &Arc<str>) -> impl Iterator<Item = &Gate> {
        let first = Gate { group: group.clone(), path: "".into(), charged: false, wants: None };
        self.gates.range(first..).map(|(gate, _)| gate).take_while(move |gate| gate.group == *group)
    }

    /// A bar is behind this gate, or behind none, by its first.
    fn put_behind(&mut self, bar: &Arc<Bar>, gate: Option<Gate>) {
        let Some(row) = self.bars.get_mut(bar) else { return };
        let new = gate.zip(row.apps.get_min().map(|(first, _)| first.clone()));
        if row.gate == new {
            return;
        }
        let old = std::mem::replace(&mut row.gate, new.clone());
        self.leave(old);
        if let Some((gate, first)) = new {
            self.gates.entry(gate).or_default().insert(first, bar.clone());
        }
    }

    fn leave(&mut self, gate: Option<(Gate, AppKey)>) {
        let Some((gate, key)) = gate else { return };
        if let Some(behind) = self.gates.get_mut(&gate) {
            behind.remove(&key);
            if behind.is_empty() {
                self.gates.remove(&gate);
            }
        }
    }

    /// The first behind a gate that is open.
    fn first_behind(&self, gate: Gate) -> Option<(AppKey, Open)> {
        let (first, bar) = self.gates.get(&gate)?.get_min()?;
        Some((first.clone(), Open { bar: bar.clone(), gate: Some(gate) }))
    }

    /// All of them.
    pub(super) fn apps(&self) -> impl Iterator<Item = (&AppKey, AppIx)> {
        self.bars.values().flat_map(|row| row.apps.iter().map(|(key, app)| (key, *app)))
    }
}

/// What both want at least.
fn least(one: &Resource, other: &Resource) -> Resource {
    let mut least = Resource::new();
    for (kind, amount) in one.iter() {
        let amount = amount.min(other.amount(kind));
        if amount > 0 {
            least.set(kind.clone(), amount);
        }
    }
    least
}

impl Partition {
    /// Parks an application that was tried in vain, where only a limit is in its way; false where something else is, or is as well.
    pub(super) fn park(&mut self, app: AppIx, now: Nanos) -> bool {
        let Some((bar, wants)) = self.bar_of(app, now) else { return false };
        let row = &mut self.apps[app];
        let (queue, Some(key)) = (row.queue, row.order.clone()) else { return false };
        let bars = &mut self.queues[queue].parked.bars;
        let bar = bars.get_key_value(&bar).map_or_else(|| Arc::new(bar), |(bar, _)| bar.clone());
        row.parked = Some(bar.clone());
        let beside = bars.entry(bar).or_default();
        beside.least = if beside.apps.is_empty() { wants } else { least(&beside.least, &wants) };
        beside.apps.insert(key, app);
        let Some(bar) = self.apps[app].parked.clone().filter(|bar| bar.owner.is_some()) else { return true };
        let Some(row) = self.queues[queue].parked.bars.get(&bar) else { return true };
        // Where there is room for it, there is for all that stand behind the same gate: they are not looked at one by one as long as
        // that lasts.
        let (passes, gate) = (self.may_pass(&bar, row), self.gate_of(&bar, row));
        let parked = &mut self.queues[queue].parked;
        parked.put_behind(&bar, gate);
        if passes {
            parked.again.insert(bar);
        }
        true
    }

    /// It waits as any other from now on, where it was parked under this key.
    pub(super) fn unpark(&mut self, app: AppIx, key: Option<&AppKey>) {
        let row = &mut self.apps[app];
        let (queue, Some(bar)) = (row.queue, row.parked.take()) else { return };
        let parked = &mut self.queues[queue].parked;
        let Some(beside) = parked.bars.get_mut(&bar) else { return };
        key.map(|key| beside.apps.remove(key));
        if beside.apps.is_empty() {
            let gone = parked.bars.remove(&bar);
            parked.leave(gone.and_then(|row| row.gate));
        } else if let Some((gate, _)) = beside.gate.clone() {
            parked.put_behind(&bar, Some(gate));
        }
    }

    /// It is parked, and waits for nodes with room for this shape.
    pub(super) fn is_parked_for(&self, app: AppIx, shape: ShapeIx) -> bool {
        self.apps[app].parked.as_ref().is_some_and(|bar| bar.shapes.contains(&shape))
    }

    /// It has something now that others do not have that wait for the same.
    pub(super) fn rouse_parked(&mut self, app: AppIx) {
        if self.apps[app].parked.is_some() {
            self.rouse(app);
        }
    }

    /// The first of a leaf, in their order, for which there may be room by now.
    pub(super) fn first_parked(&mut self, queue: QueueIx) -> Option<(AppKey, AppIx)> {
        if self.queues[queue].parked.bars.is_empty() {
            return None;
        }
        if self.queues[queue].parked.epoch != self.epoch || self.queues[queue].parked.looked.is_none() {
            self.open_bars(queue);
        }
        // There is less room than when they were opened, and others may be the first.
        while let Some((key, Open { bar, gate })) = self.queues[queue].parked.open.get_min().cloned() {
            let parked = &self.queues[queue].parked;
            let row = parked.bars.get(&bar);
            let first = row.and_then(|row| row.apps.get_min()).map(|(first, app)| (first.clone(), *app));
            let behind = row.and_then(|row| row.gate.as_ref()).map(|(gate, _)| gate);
            let stands = gate.is_none() || gate.as_ref() == behind;
            let passes = row.is_some_and(|row| self.may_pass(&bar, row));
            if let Some((first, app)) = &first
                && *first == key
                && stands
                && passes
            {
                return Some((key, *app));
            }
            let behind = row.filter(|_| !passes).map(|row| self.gate_of(&bar, row));
            let parked = &mut self.queues[queue].parked;
            parked.open.remove(&key);
            if let Some(behind) = behind {
                // Where this gate holds it back, it holds back all that are behind it.
                let shut = gate.is_some() && behind == gate;
                parked.put_behind(&bar, behind);
                if shut {
                    continue;
                }
            }
            let next = match (gate, first) {
                (Some(gate), _) => parked.first_behind(gate),
                (None, Some((first, _))) if passes => Some((first, Open { bar, gate: None })),
                (None, _) => None,
            };
            parked.open.extend(next.filter(|(next, _)| *next != key));
        }
        None
    }

    /// Finds what may have room in this epoch.
    fn open_bars(&mut self, queue: QueueIx) {
        let parked = &self.queues[queue].parked;
        let (mut open, mut gates, mut behind) = (imbl::OrdMap::new(), BTreeSet::new(), Vec::new());
        let mut look = |bar: &Arc<Bar>, row: &Row| {
            let Some((first, _)) = row.apps.get_min() else { return };
            match (self.may_pass(bar, row), &row.gate) {
                (true, Some((gate, _))) => drop(gates.insert(gate.clone())),
                (true, None) => drop(open.insert(first.clone(), Open { bar: bar.clone(), gate: None })),
                (false, _) if bar.owner.is_some() => behind.push((bar.clone(), self.gate_of(bar, row))),
                (false, _) => {}
            }
        };
        let mut freed = Vec::new();
        match parked.looked.and_then(|then| self.ugm.freed().since(then)) {
            None => parked.bars.iter().for_each(|(bar, row)| look(bar, row)),
            Some(names) => {
                let (users, groups): (BTreeSet<_>, BTreeSet<_>) = names.partition(|(who, _)| *who == Who::User);
                let of_users = users.into_iter().flat_map(|(_, user)| parked.of(Some(user)));
                let before = parked.open.values().filter(|open| open.gate.is_none()).map(|open| &open.bar);
                let before = before.chain(&parked.again).filter_map(|bar| parked.bars.get_key_value(bar));
                parked.of(None).chain(of_users).chain(before).for_each(|(bar, row)| look(bar, row));
                freed.extend(groups.into_iter().flat_map(|(_, group)| parked.gates_of(group)).cloned());
                freed.extend(parked.open.values().filter_map(|open| open.gate.clone()));
            }
        }
        gates.extend(freed);
        // What is not tried now is when a limit leaves room. Those that wait for nodes stand between those that wait for limits.
        let limits = [parked.bars.get_min(), parked.bars.get_max()].into_iter().flatten();
        self.limited |= limits.into_iter().any(|(bar, _)| bar.shapes.is_empty());
        let (epoch, looked) = (self.epoch, Some(self.ugm.freed().now()));
        let parked = &mut self.queues[queue].parked;
        behind.into_iter().for_each(|(bar, gate)| parked.put_behind(&bar, gate));
        open.extend(gates.into_iter().filter_map(|gate| parked.first_behind(gate)));
        (parked.open, parked.epoch, parked.looked) = (open, epoch, looked);
        parked.again.clear();
    }

    /// Bars of a leaf that were looked at and have room, though they are not open: they would wait for nothing.
    pub(super) fn missed_bars(&self, queue: QueueIx) -> usize {
        let parked = &self.queues[queue].parked;
        if parked.epoch != self.epoch || parked.looked.is_none() {
            return 0;
        }
        let is_open = |bar: &Arc<Bar>, row: &Row| {
            let behind = row.gate.as_ref().map(|(gate, _)| gate);
            let opened = |open: &Open| open.bar == *bar || behind.is_some() && open.gate.as_ref() == behind;
            parked.again.contains(bar) || parked.open.values().any(opened)
        };
        parked.bars.iter().filter(|(bar, row)| self.may_pass(bar, row) && !is_open(bar, row)).count()
    }

    /// The gate behind which a bar is: the limit of a group holds it back, and none of its user, or will where there is room for now.
    fn gate_of(&self, bar: &Bar, row: &Row) -> Option<Gate> {
        let (owner, (_, app)) = (bar.owner.as_ref()?, row.apps.get_min()?);
        let track = self.apps[*app].track?;
        let held = if bar.to_run { self.ugm.held(track) } else { self.ugm.exceeded(track, &row.least) };
        let limits = |limit: &Limit| if bar.to_run { limit.applications > 0 } else { limit.resources.is_some() };
        let next = || self.ugm.bounds(track).into_iter().find(|it| it.who == Who::Group && limits(&it.limit));
        let limit = held.or_else(next).filter(|limit| limit.who == Who::Group)?;
        let wants = (!bar.to_run).then(|| row.least.iter().map(|(kind, amount)| (kind.clone(), amount)).collect());
        Some(Gate { group: limit.name, path: limit.queue, charged: owner.charged, wants })
    }

    /// The limit does not hold back one that wants so little, or a node may have room.
    fn may_pass(&self, bar: &Bar, row: &Row) -> bool {
        if !bar.shapes.is_empty() {
            return bar.shapes.iter().any(|shape| !self.shapes.is_nowhere(*shape));
        }
        let Some((_, app)) = row.apps.get_min() else { return false };
        match (bar.to_run, bar.owner.is_some()) {
            (true, true) => self.user_can_run(*app),
            (true, false) => self.full_of_apps(*app).is_none(),
            (false, true) => self.user_fits_beside(*app, &row.least),
            (false, false) => self.queue_fits(self.apps[*app].queue, &row.least).is_ok(),
        }
    }

    /// What an application that was tried in vain waits for, and the least that it wants of a limit, where that is one limit or nodes,
    /// and all of its asks were told. It looks at as many groups of asks as the attempt did.
    fn bar_of(&self, app: AppIx, now: Nanos) -> Option<(Bar, Resource)> {
        let row = &self.apps[app];
        let waits = matches!(row.state, AppState::Accepted | AppState::Running) && !row.pending.is_zero();
        if row.is_free() || !waits || row.backoff_until.is_some() || !row.reservations.is_empty() {
            return None;
        }
        if row.state == AppState::Accepted && (row.held_by_queue || row.held_by_quota) {
            let told = row.by_seq.keys().next_back().is_none_or(|seq| *seq <= row.skipped_to);
            let owner = (!row.held_by_queue).then(|| self.owner(row));
            return told.then(|| (Bar { to_run: true, owner, shapes: Vec::new() }, Resource::new()));
        }
        if !row.group_order.is_empty() || !row.claimed.is_empty() {
            return None;
        }
        let mut wants: Option<Resource> = None;
        let (mut by_user, mut shapes) = (None, Vec::new());
        for (key, group) in row.groups_by_key.iter() {
            if !group.blocked || !group.fresh.is_empty() {
                return None;
            }
            let user = match group.hold {
                Some(Hold::UserQuota) => true,
                // One that requires its node does not wait for room in the cluster, by which bars are looked at (R5.40).
                Some(Hold::QueueQuota | Hold::ClusterFull) if key.required_node.is_none() => false,
                Some(Hold::Nodes)
                    if wants.is_none()
                        && group.waits_for_nodes(self.conf.preemption, now)
                        && !self.goes_all_at_once(app, key) =>
                {
                    if shapes.last() != Some(&key.shape) {
                        shapes.push(key.shape);
                    }
                    if shapes.len() > SHAPES {
                        return None;
                    }
                    continue;
                }
                _ => return None,
            };
            if !shapes.is_empty() || by_user.is_some_and(|by_user| by_user != user) {
                return None;
            }
            by_user = Some(user);
            let resource = self.shapes.resource(key.shape);
            wants = Some(wants.map_or_else(|| (**resource).clone(), |wants| least(&wants, resource)));
        }
        if !shapes.is_empty() {
            return Some((Bar { to_run: false, owner: None, shapes }, Resource::new()));
        }
        let owner = by_user?.then(|| self.owner(row));
        Some((Bar { to_run: false, owner, shapes }, wants?))
    }

    fn owner(&self, row: &App) -> Owner {
        let charged = row.track.is_some_and(|track| self.ugm.counts(track));
        let group = row.track.and_then(|track| self.ugm.group(track)).cloned();
        Owner { user: row.user.clone(), groups: row.groups.clone(), charged, group }
    }
}

list!(Owner { user, groups, charged, group });
list!(Bar { to_run, owner, shapes });

/// Where it stands behind a gate is found anew.
impl Coded for Row {
    fn write(&self, to: &mut Writer) {
        let Row { apps, least, gate: _ } = self;
        to.array(2);
        apps.write(to);
        least.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let (apps, least) = Coded::read(from)?;
        Ok(Row { apps, least, gate: None })
    }
}

/// What is open follows from what there is room for, and is looked for anew.
impl Coded for Parked {
    fn write(&self, to: &mut Writer) {
        let Parked { bars, gates: _, open: _, epoch, looked: _, again: _ } = self;
        to.array(3);
        bars.write(to);
        Vec::<Arc<Bar>>::new().write(to);
        epoch.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        // Up to version 12 the open ones were told.
        type Saved = (imbl::OrdMap<Arc<Bar>, Row>, Vec<Arc<Bar>>, u64);
        let (bars, _, epoch): Saved = Coded::read(from)?;
        Ok(Parked { bars, epoch, ..Parked::default() })
    }
}
