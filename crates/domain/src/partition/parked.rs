//! Applications that wait for a limit only, and were told so: they are *parked* in their leaf, by the limit that they wait for, and
//! not tried again before it leaves room for the least that one of them wants. So a release costs as many looks as there are
//! limits that hold somebody back, however many wait behind each of them, in this queue and in those of others.

use std::sync::Arc;

use super::Partition;
use crate::coded::list;
use crate::{
    app::{App, AppKey, Hold},
    resources::Resource,
    types::{AppIx, AppState, QueueIx},
};

/// What applications of a leaf wait for: those of one kind can begin, or have nothing placed, all at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bar {
    /// To count as a running application, else room for resources.
    to_run: bool,
    /// A limit of their user or group, else of a queue or the size of the cluster.
    owner: Option<Owner>,
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

/// The parked applications of a leaf.
#[derive(Clone, Debug, Default)]
pub struct Parked {
    bars: imbl::OrdMap<Arc<Bar>, Row>,
    /// Of these, in this epoch, the ones that may have room.
    open: Vec<Arc<Bar>>,
    epoch: u64,
}

/// Those that wait for the same.
#[derive(Clone, Debug, Default)]
struct Row {
    /// As they are tried, when they are.
    apps: imbl::OrdMap<AppKey, AppIx>,
    /// None of them wants less, of any type.
    least: Resource,
}

impl Parked {
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
    pub(super) fn park(&mut self, app: AppIx) -> bool {
        let Some((bar, wants)) = self.bar_of(app) else { return false };
        let row = &mut self.apps[app];
        let (queue, Some(key)) = (row.queue, row.order.clone()) else { return false };
        let bars = &mut self.queues[queue].parked.bars;
        let bar = bars.get_key_value(&bar).map_or_else(|| Arc::new(bar), |(bar, _)| bar.clone());
        row.parked = Some(bar.clone());
        let beside = bars.entry(bar).or_default();
        beside.least = if beside.apps.is_empty() { wants } else { least(&beside.least, &wants) };
        beside.apps.insert(key, app);
        true
    }

    /// It waits as any other from now on, where it was parked under this key.
    pub(super) fn unpark(&mut self, app: AppIx, key: Option<&AppKey>) {
        let row = &mut self.apps[app];
        let (queue, Some(bar)) = (row.queue, row.parked.take()) else { return };
        let bars = &mut self.queues[queue].parked.bars;
        if let Some(beside) = bars.get_mut(&bar) {
            key.map(|key| beside.apps.remove(key));
            if beside.apps.is_empty() {
                bars.remove(&bar);
            }
        }
    }

    /// It has something now that others do not have that wait for the same.
    pub(super) fn rouse_parked(&mut self, app: AppIx) {
        if self.apps[app].parked.is_some() {
            self.rouse(app);
        }
    }

    /// The first of a leaf, in their order, for which there may be room by now.
    pub(super) fn first_parked(&mut self, queue: QueueIx) -> Option<(AppKey, AppIx)> {
        let parked = &self.queues[queue].parked;
        if parked.bars.is_empty() || parked.epoch == self.epoch && parked.open.is_empty() {
            return None;
        }
        let epoch = self.epoch;
        let parked = &mut self.queues[queue].parked;
        let mut open = std::mem::take(&mut parked.open);
        if parked.epoch != epoch {
            parked.epoch = epoch;
            open = parked.bars.keys().cloned().collect();
            // What is not tried now is when a limit leaves room.
            self.limited = true;
        }
        let parked = &self.queues[queue].parked;
        let mut first: Option<(&AppKey, AppIx)> = None;
        open.retain(|bar| {
            let Some(row) = parked.bars.get(bar) else { return false };
            let Some((key, app)) = row.apps.get_min() else { return false };
            let may = self.may_pass(bar, *app, &row.least);
            if may && first.is_none_or(|(other, _)| key < other) {
                first = Some((key, *app));
            }
            may
        });
        let first = first.map(|(key, app)| (key.clone(), app));
        self.queues[queue].parked.open = open;
        first
    }

    /// The limit does not hold back one that wants so much.
    fn may_pass(&self, bar: &Bar, app: AppIx, wants: &Resource) -> bool {
        match (bar.to_run, bar.owner.is_some()) {
            (true, true) => self.user_can_run(app),
            (true, false) => self.full_of_apps(app).is_none(),
            (false, true) => self.user_fits(app, wants),
            (false, false) => self.queue_fits(self.apps[app].queue, wants).is_ok(),
        }
    }

    /// What an application that was tried in vain waits for, and the least that it wants, where that is one limit, and all of its asks
    /// were told. It looks at as many groups of asks as the attempt did.
    fn bar_of(&self, app: AppIx) -> Option<(Bar, Resource)> {
        let row = &self.apps[app];
        let waits = matches!(row.state, AppState::Accepted | AppState::Running) && !row.pending.is_zero();
        if row.is_free() || !waits || row.backoff_until.is_some() || !row.reservations.is_empty() {
            return None;
        }
        if row.state == AppState::Accepted && (row.held_by_queue || row.held_by_quota) {
            let told = row.by_seq.keys().next_back().is_none_or(|seq| *seq <= row.skipped_to);
            let owner = (!row.held_by_queue).then(|| self.owner(row));
            return told.then(|| (Bar { to_run: true, owner }, Resource::new()));
        }
        if !row.group_order.is_empty() || !row.claimed.is_empty() {
            return None;
        }
        let mut wants: Option<Resource> = None;
        let mut by_user = None;
        for (key, group) in row.groups_by_key.iter() {
            let user = match group.hold {
                Some(Hold::UserQuota) => true,
                Some(Hold::QueueQuota | Hold::ClusterFull) => false,
                _ => return None,
            };
            if !group.blocked || !group.fresh.is_empty() || by_user.is_some_and(|by_user| by_user != user) {
                return None;
            }
            by_user = Some(user);
            let resource = self.shapes.resource(key.shape);
            wants = Some(wants.map_or_else(|| (**resource).clone(), |wants| least(&wants, resource)));
        }
        let owner = by_user?.then(|| self.owner(row));
        Some((Bar { to_run: false, owner }, wants?))
    }

    fn owner(&self, row: &App) -> Owner {
        let charged = row.track.is_some_and(|track| self.ugm.counts(track));
        let group = row.track.and_then(|track| self.ugm.group(track)).cloned();
        Owner { user: row.user.clone(), groups: row.groups.clone(), charged, group }
    }
}

list!(Owner { user, groups, charged, group });
list!(Bar { to_run, owner });
list!(Row { apps, least });
list!(Parked { bars, open, epoch });
