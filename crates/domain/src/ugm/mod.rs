//! User and group manager of a partition: usage of users and groups per queue, and their limits (section 8 of the queue rules).
//!
//! - A *tracker* is a user or a group; a *level* is a tracker in one queue: its usage, its applications, its limit.
//! - An application is [opened](Ugm::open) when it is admitted and [closed](Ugm::close) or [removed](Ugm::remove) when it
//!   leaves; in between its handle ([`Tracked`]) is all that is needed. With its first charge its group is chosen, and the
//!   levels of its user and group on the whole path are linked to it (its user's as soon as it is [looked at](Ugm::resolve)). From then on a check or a charge touches those levels
//!   and nothing else, however many users there are; a check before that looks up what would be chosen.
//! - Group usage is the sum over the linked applications, and a link lasts until the application's last allocation
//!   is gone, whatever the configuration does meanwhile (section 12 item 7 mends UGM-018).
//! - A tracker is listed while an application of it is counted (SEEDS S28); what nobody needs any more goes in the same
//!   call, so there is no periodic clean-up that a new charge could race with.
//! - Where a limit of a queue names the user, limits of groups in that queue are not enforced for the user (SEEDS S29);
//!   usage of the group is tracked all the same. A wildcard limit is one for each group that no limit of its queue
//!   names, by the usage of that group alone (SEEDS S30).

mod audit;
mod check;
mod event;
mod freed;
mod limits;
mod promised;
mod reload;
mod table;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;

pub use self::{
    audit::Live,
    check::{LimitRefusal, Taken},
    event::{Hear, UgmEvent},
    freed::Freed,
    limits::Limit,
    view::{GroupUsage, QueueUsage, UserUsage},
};
use self::{
    limits::Limits,
    promised::Promised,
    table::{Table, row},
};
use super::{
    coded::{Skip, list, map, variants},
    event::{Change, Detail},
    rare::Rare,
    resources::Resource,
};

row! {
    /// Handle of an application that was [opened](Ugm::open); dead once it is closed or removed.
    pub Tracked,
    TrackerIx,
    LevelIx,
}

/// A user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// A user.
    User,
    /// A group.
    Group,
}

/// The manager. See the module.
#[derive(Clone, Debug, Default)]
pub struct Ugm {
    trackers: Table<TrackerIx, Tracker>,
    tracker_by_name: imbl::OrdMap<(Who, Arc<str>), TrackerIx>,
    levels: Table<LevelIx, Level>,
    level_by_path: imbl::OrdMap<(TrackerIx, Arc<str>), LevelIx>,
    apps: Table<Tracked, App>,
    limits: Arc<Limits>,
    freed: Freed,
    promised: Promised,
}

#[derive(Clone, Debug)]
struct Tracker {
    who: Who,
    name: Arc<str>,
    /// Applications that are linked to it.
    apps: imbl::OrdSet<Tracked>,
    /// Those of them that count: since their first allocation.
    counted: u32,
    /// Levels with a limit that names it.
    configured: u32,
    /// Levels that are kept for a wildcard limit.
    pinned: u32,
    /// All its levels.
    levels: u32,
}

impl Tracker {
    /// What readers may see of it (SEEDS S28).
    fn listed(&self) -> bool {
        self.counted > 0
    }

    /// Events tell of its limits: it is listed, or a limit names it.
    fn known(&self) -> bool {
        self.listed() || self.configured > 0
    }
}

#[derive(Clone, Debug)]
struct Level {
    tracker: TrackerIx,
    path: Arc<str>,
    parent: Option<LevelIx>,
    usage: Resource,
    /// Applications that count here.
    counted: u32,
    /// Applications that are linked to it.
    holds: u32,
    children: u32,
    /// The limit in force.
    limit: Option<Arc<Limit>>,
    /// The limit names the tracker.
    configured: bool,
    /// Kept for a wildcard limit as long as the tracker is listed (UGM-014, UGM-043).
    pinned: bool,
}

#[derive(Clone, Debug)]
struct App {
    id: Arc<str>,
    user: Arc<str>,
    groups: Arc<[Arc<str>]>,
    /// Queue paths from root to its leaf.
    chain: Arc<[Arc<str>]>,
    usage: Rare<Resource>,
    /// It had an allocation, and something of it is left (UGM-041).
    counted: bool,
    /// `None` until it is looked at.
    hold: Option<Hold>,
}

#[derive(Clone, Debug)]
struct Hold {
    user: Side,
    /// `None`: charged to no group (UGM-023), or not chosen yet, where it does not count.
    group: Option<Side>,
}

#[derive(Clone, Debug)]
struct Side {
    tracker: TrackerIx,
    /// From root to leaf, as the chain of the application.
    levels: SmallVec<[LevelIx; 4]>,
}

impl App {
    fn sides(&self) -> impl Iterator<Item = &Side> {
        self.hold.iter().flat_map(|hold| std::iter::once(&hold.user).chain(&hold.group))
    }

    fn leaf(&self) -> &Arc<str> {
        // A chain begins with root.
        &self.chain[self.chain.len() - 1]
    }
}

impl Ugm {
    /// Makes an application known, before anything of it is checked or charged; lists nothing yet (SEEDS S28).
    ///
    /// `groups` are those of the user at submission (ACL-035), `chain` the full lowercase paths from root to its leaf.
    pub fn open(&mut self, id: Arc<str>, user: Arc<str>, groups: Arc<[Arc<str>]>, chain: Arc<[Arc<str>]>) -> Tracked {
        self.apps.add(App { id, user, groups, chain, usage: Rare::default(), counted: false, hold: None })
    }

    /// The queue paths of an application, as [`Ugm::open`] was given them: another one of its queue may share them.
    pub fn chain_of(&self, track: Tracked) -> Arc<[Arc<str>]> {
        self.apps[track].chain.clone()
    }

    /// An application was opened, and is not closed.
    pub(crate) fn is_open(&self, track: Tracked) -> bool {
        self.apps.get(track).is_some()
    }

    /// What was read names no row that is not there.
    pub(crate) fn is_whole(&self) -> bool {
        let level = |level: &LevelIx| self.levels.get(*level);
        let tracker = |tracker: TrackerIx| self.trackers.get(tracker).is_some();
        let is_side = |side: &Side| tracker(side.tracker) && side.levels.iter().all(|ix| level(ix).is_some());
        let is_level = |row: &Level| {
            // Whoever walks up arrives.
            let above = |parent: &LevelIx| level(parent).is_some_and(|parent| parent.path.len() < row.path.len());
            tracker(row.tracker) && row.parent.as_ref().is_none_or(above)
        };
        let mut counted = self.trackers.iter().flat_map(|(_, row)| &row.apps).chain(self.promised.tracked());
        self.levels.iter().all(|(_, row)| is_level(row))
            && self.apps.iter().all(|(_, app)| !app.chain.is_empty() && app.sides().all(is_side))
            && self.tracker_by_name.values().copied().all(tracker)
            && self.level_by_path.iter().all(|((of, _), ix)| tracker(*of) && level(ix).is_some())
            && counted.all(|track| self.is_open(*track))
            && self.trackers.is_whole()
            && self.levels.is_whole()
            && self.apps.is_whole()
    }

    /// Takes a user and groups as another application of the user has them, where these are equal: they are kept once.
    pub fn share_owner(&self, user: &mut Arc<str>, groups: &mut Arc<[Arc<str>]>) {
        let tracker = self.tracker_by_name.get(&(Who::User, user.clone())).map(|tracker| &self.trackers[*tracker]);
        if let Some(track) = tracker.and_then(|tracker| tracker.apps.get_min()) {
            let other = &self.apps[*track];
            *user = other.user.clone();
            if other.groups == *groups {
                *groups = other.groups.clone();
            }
        }
    }

    /// Links an application to the levels of its user, unless that is done already: it is looked at, and will be charged there.
    pub fn resolve(&mut self, track: Tracked) {
        let app = &self.apps[track];
        if app.hold.is_none() {
            let (user, chain) = (app.user.clone(), app.chain.clone());
            let user = self.link(Who::User, &user, &chain, track);
            self.apps[track].hold = Some(Hold { user, group: None });
        }
    }

    /// Chooses the group of an application with its first usage (UGM-020–UGM-024).
    fn choose(&mut self, track: Tracked, out: &mut dyn Hear) {
        self.resolve(track);
        let app = &self.apps[track];
        let chain = app.chain.clone();
        let Some(group) = self.limits.group_of(&app.groups, &chain) else { return };
        if app.hold.as_ref().is_some_and(|hold| hold.group.is_some()) {
            return;
        }
        let side = self.link(Who::Group, &group, &chain, track);
        if let Some(hold) = &mut self.apps[track].hold {
            hold.group = Some(side);
        }
        self.tell_link(track, out);
    }

    /// Tells that an application is linked to its group, where it is charged to one (EVT-052).
    pub fn tell_link(&self, track: Tracked, out: &mut dyn Hear) {
        if let Some(group) = self.group(track) {
            let (change, detail, reference) = (Change::Set, Detail::AppLink, &self.apps[track].id);
            out.hear(UgmEvent { change, detail, object: group, reference, resource: None });
        }
    }

    /// Charges an allocation of an application to its user and group (UGM-040); never refused (UGM-035).
    pub fn increase(&mut self, track: Tracked, amount: &Arc<Resource>, out: &mut dyn Hear) {
        if !self.apps[track].counted {
            self.choose(track, out);
            self.count(track);
        }
        self.each_usage(track, |usage| usage.add(amount));
        self.announce(track, Change::Add, amount, out);
    }

    /// Takes an allocation back (UGM-041). `last`: nothing of the application remains, so it does not count any more, its
    /// link goes, and with it whatever it was still charged.
    pub fn decrease(&mut self, track: Tracked, amount: &Arc<Resource>, last: bool, out: &mut dyn Hear) {
        if !self.apps[track].counted {
            return;
        }
        if last {
            return self.settle(track, Some(amount), false, out);
        }
        self.free(track);
        self.each_usage(track, |usage| usage.sub(amount));
        self.announce(track, Change::Remove, amount, out);
    }

    /// Charges an in-place resize, new size minus old size of an allocation (R4.14): one event for what grew, one for
    /// what shrank.
    pub fn resize(&mut self, track: Tracked, delta: &Resource, out: &mut dyn Hear) {
        if !self.apps[track].counted {
            return;
        }
        self.free(track);
        self.each_usage(track, |usage| usage.add(delta));
        let (mut grown, mut shrunk) = (Resource::new(), Resource::new());
        for (kind, amount) in delta.iter().filter(|(_, amount)| *amount != 0) {
            if amount > 0 { grown.set(kind.clone(), amount) } else { shrunk.set(kind.clone(), -amount) }
        }
        for (change, amount) in [(Change::Add, grown), (Change::Remove, shrunk)] {
            if !amount.is_empty() {
                self.announce(track, change, &Arc::new(amount), out);
            }
        }
    }

    /// Nothing of an application is allocated or waits any more: it does not count from now on, and its link goes
    /// (SEEDS S35).
    pub fn leave(&mut self, track: Tracked, out: &mut dyn Hear) {
        if self.apps[track].counted {
            self.settle(track, None, false, out);
        }
    }

    /// Forgets an application that ended by itself. Whatever it was still charged is taken back.
    pub fn close(&mut self, track: Tracked, out: &mut dyn Hear) {
        self.promise_nothing(track);
        self.settle(track, None, false, out);
        self.apps.take(track);
    }

    /// Forgets an application that the resource manager removed, with one event for the sum of what it still used,
    /// also when that is nothing (EVT-050, EVT-051).
    pub fn remove(&mut self, track: Tracked, out: &mut dyn Hear) {
        self.promise_nothing(track);
        self.settle(track, None, true, out);
        self.apps.take(track);
    }

    /// The group that an application is charged to, once that is chosen.
    pub fn group(&self, track: Tracked) -> Option<&Arc<str>> {
        let side = self.apps.get(track)?.hold.as_ref()?.group.as_ref()?;
        Some(&self.trackers[side.tracker].name)
    }

    /// What an application is charged now.
    pub fn usage(&self, track: Tracked) -> &Resource {
        &self.apps[track].usage
    }

    /// Whose limits have more room.
    pub fn freed(&self) -> &Freed {
        &self.freed
    }

    /// What an application is charged shrinks, or ends: there is more room for others of its user and group.
    fn free(&mut self, track: Tracked) {
        let app = &self.apps[track];
        self.freed.note(Who::User, &app.user);
        if let Some(group) = app.hold.as_ref().and_then(|hold| hold.group.as_ref()) {
            self.freed.note(Who::Group, &self.trackers[group.tracker].name);
        }
    }

    fn each_usage(&mut self, track: Tracked, change: impl Fn(&mut Resource)) {
        let app = &mut self.apps[track];
        change(&mut app.usage);
        for side in app.sides() {
            for level in &side.levels {
                change(&mut self.levels[*level].usage);
            }
        }
    }

    fn announce(&self, track: Tracked, change: Change, amount: &Arc<Resource>, out: &mut dyn Hear) {
        let app = &self.apps[track];
        for side in app.sides() {
            let tracker = &self.trackers[side.tracker];
            let (detail, object, resource) = (usage_detail(tracker.who), &tracker.name, Some(amount));
            out.hear(UgmEvent { change, detail, object, reference: app.leaf(), resource });
        }
    }

    /// Counts an application from its first allocation on.
    fn count(&mut self, track: Tracked) {
        let app = &mut self.apps[track];
        app.counted = true;
        for side in app.sides() {
            let tracker = &mut self.trackers[side.tracker];
            tracker.counted += 1;
            for level in &side.levels {
                let level = &mut self.levels[*level];
                level.counted += 1;
                if level.limit.is_some() && !level.configured && !level.pinned {
                    level.pinned = true;
                    tracker.pinned += 1;
                }
            }
        }
    }

    /// Takes back all that an application is charged and its link. Announced where it counted and something is taken, or by
    /// `removal` wherever the tracker is known; the link's end always.
    fn settle(&mut self, track: Tracked, amount: Option<&Arc<Resource>>, removal: bool, out: &mut dyn Hear) {
        self.free(track);
        let app = &mut self.apps[track];
        let (id, user, path) = (app.id.clone(), app.user.clone(), app.leaf().clone());
        let usage = app.usage.pruned();
        app.usage = Rare::default();
        let counted = std::mem::take(&mut app.counted);
        let told = counted && (amount.is_some() || removal || !usage.is_empty());
        let hold = app.hold.take();
        let amount = match amount {
            Some(amount) if **amount == usage => amount.clone(),
            _ => Arc::new(usage),
        };
        let tell_change = |who, object: &Arc<str>, out: &mut dyn Hear| {
            let (change, detail) = (Change::Remove, usage_detail(who));
            out.hear(UgmEvent { change, detail, object, reference: &path, resource: Some(&amount) });
        };
        if told || removal && self.is_known(Who::User, &user) {
            tell_change(Who::User, &user, out);
        }
        let Some(Hold { user, group }) = hold else { return };
        if let Some(side) = &group {
            let group = &self.trackers[side.tracker];
            let (change, detail) = (Change::Remove, Detail::AppLink);
            out.hear(UgmEvent { change, detail, object: &group.name, reference: &id, resource: None });
            if told || removal && group.known() {
                tell_change(Who::Group, &group.name, out);
            }
        }
        for side in std::iter::once(user).chain(group) {
            self.unlink(side, track, counted, &amount);
        }
    }

    fn is_known(&self, who: Who, name: &Arc<str>) -> bool {
        self.tracker_by_name.get(&(who, name.clone())).is_some_and(|tracker| self.trackers[*tracker].known())
    }

    /// The tracker of this name, where readers may see it.
    fn listed(&self, who: Who, name: &Arc<str>) -> Option<TrackerIx> {
        let tracker = *self.tracker_by_name.get(&(who, name.clone()))?;
        self.trackers[tracker].listed().then_some(tracker)
    }

    fn link(&mut self, who: Who, name: &Arc<str>, chain: &[Arc<str>], track: Tracked) -> Side {
        let tracker = self.tracker(who, name);
        self.trackers[tracker].apps.insert(track);
        let levels = self.chain(tracker, chain);
        for level in &levels {
            self.levels[*level].holds += 1;
        }
        Side { tracker, levels }
    }

    fn unlink(&mut self, side: Side, track: Tracked, counted: bool, usage: &Resource) {
        let tracker = &mut self.trackers[side.tracker];
        tracker.apps.remove(&track);
        tracker.counted -= u32::from(counted);
        let unpin = !tracker.listed() && tracker.pinned > 0;
        for level in &side.levels {
            let level = &mut self.levels[*level];
            level.usage.sub(usage);
            level.usage.prune();
            level.counted -= u32::from(counted);
            level.holds -= 1;
        }
        if unpin {
            self.unpin(side.tracker);
        }
        // From the leaf up; what went with a level below it is no longer there.
        for level in side.levels.iter().rev() {
            self.sweep(*level);
        }
    }

    /// Gets or makes a tracker.
    fn tracker(&mut self, who: Who, name: &Arc<str>) -> TrackerIx {
        let key = (who, name.clone());
        if let Some(tracker) = self.tracker_by_name.get(&key) {
            return *tracker;
        }
        let (name, apps) = (name.clone(), imbl::OrdSet::new());
        let row = Tracker { who, name, apps, counted: 0, configured: 0, pinned: 0, levels: 0 };
        let tracker = self.trackers.add(row);
        self.tracker_by_name.insert(key, tracker);
        tracker
    }

    /// Gets or makes the levels of a tracker for queue paths from root downwards.
    fn chain(&mut self, tracker: TrackerIx, chain: &[Arc<str>]) -> SmallVec<[LevelIx; 4]> {
        let mut levels = SmallVec::with_capacity(chain.len());
        for path in chain {
            levels.push(self.level(tracker, path, levels.last().copied()));
        }
        levels
    }

    fn level(&mut self, tracker: TrackerIx, path: &Arc<str>, parent: Option<LevelIx>) -> LevelIx {
        let key = (tracker, path.clone());
        if let Some(level) = self.level_by_path.get(&key) {
            return *level;
        }
        let row = &mut self.trackers[tracker];
        row.levels += 1;
        let level = self.levels.add(Level {
            tracker,
            path: path.clone(),
            parent,
            usage: Resource::new(),
            counted: 0,
            holds: 0,
            children: 0,
            limit: self.limits.of(row.who, &row.name, path).cloned(),
            configured: false,
            pinned: false,
        });
        if let Some(parent) = parent {
            self.levels[parent].children += 1;
        }
        self.level_by_path.insert(key, level);
        level
    }

    /// Drops a level that nobody needs, then those above it, then their tracker (UGM-043).
    fn sweep(&mut self, level: LevelIx) {
        let mut next = Some(level);
        while let Some(at) = next {
            let Some(level) = self.levels.get(at) else { return };
            if level.holds > 0 || level.children > 0 || level.configured || level.pinned {
                return;
            }
            let (tracker, path, parent) = (level.tracker, level.path.clone(), level.parent);
            self.levels.take(at);
            self.level_by_path.remove(&(tracker, path));
            if let Some(parent) = parent {
                self.levels[parent].children -= 1;
            }
            let row = &mut self.trackers[tracker];
            row.levels -= 1;
            if row.levels == 0 && row.apps.is_empty() {
                self.tracker_by_name.remove(&(row.who, row.name.clone()));
                self.trackers.take(tracker);
            }
            next = parent;
        }
    }

    /// Lets go of the levels that a tracker kept for wildcard limits.
    fn unpin(&mut self, tracker: TrackerIx) {
        self.trackers[tracker].pinned = 0;
        let levels: Vec<LevelIx> = self.levels_of(tracker).collect();
        for level in &levels {
            self.levels[*level].pinned = false;
        }
        for level in levels.into_iter().rev() {
            self.sweep(level);
        }
    }

    /// The levels of a tracker by path, so that parents come before their children.
    fn levels_of(&self, tracker: TrackerIx) -> impl Iterator<Item = LevelIx> + '_ {
        let all = self.level_by_path.range((tracker, Arc::default())..);
        all.take_while(move |((of, _), _)| *of == tracker).map(|(_, level)| *level)
    }
}

fn usage_detail(who: Who) -> Detail {
    match who {
        Who::User => Detail::UserResource,
        Who::Group => Detail::GroupResource,
    }
}

variants!(Who { 1 User, 2 Group });
// Limits are those of the configuration: see `Ugm::limit_again`.
map!(Ugm { 1 trackers, 2 tracker_by_name, 3 levels, 4 level_by_path, 5 apps, 6 limits as Skip, 7 freed as Skip, 8 promised });
list!(Tracker { who, name, apps, counted, configured, pinned, levels });
map!(Level {
    1 tracker,
    2 path,
    3 parent,
    4 usage,
    5 counted,
    6 holds,
    7 children,
    8 limit as Skip,
    9 configured,
    10 pinned,
});
list!(App { id, user, groups, chain, usage, counted, hold });
list!(Hold { user, group });
list!(Side { tracker, levels });
