//! Usage as REST shows it (UGM-050–UGM-052).

use std::{collections::BTreeMap, sync::Arc};

use super::{LevelIx, Tracker, TrackerIx, Ugm, Who};
use crate::resources::Resource;

/// A user.
#[derive(Clone, Debug, PartialEq)]
pub struct UserUsage {
    /// The name of the user who owns the applications.
    pub name: Arc<str>,
    /// Applications that are charged to a group, and that group; sorted by application.
    pub groups: Vec<(Arc<str>, Arc<str>)>,
    /// The root queue and those below it.
    pub root: QueueUsage,
}

/// A group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupUsage {
    /// The name of the group, as limits have it.
    pub name: Arc<str>,
    /// Applications that count, sorted.
    pub applications: Vec<Arc<str>>,
    /// The root queue and those below it.
    pub root: QueueUsage,
}

/// A user or group in one queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueUsage {
    /// Full path.
    pub path: Arc<str>,
    /// Usage without zeros; empty where there is none.
    pub usage: Resource,
    /// Applications that count here, sorted.
    pub applications: Vec<Arc<str>>,
    /// Resources at most; `None`: no limit.
    pub max_resources: Option<Resource>,
    /// Applications at most; 0: any number.
    pub max_applications: u64,
    /// Queues below that matter to this user or group, by path.
    pub children: Vec<QueueUsage>,
}

impl Ugm {
    /// What each application is charged: to its user, and to its group where it has one, with the path of its leaf queue.
    pub fn charges(&self) -> impl Iterator<Item = (Who, &Arc<str>, Arc<str>, &Resource)> {
        self.apps.iter().flat_map(move |(_, app)| {
            app.sides().map(move |side| {
                let tracker = &self.trackers[side.tracker];
                (tracker.who, &tracker.name, app.leaf().clone(), &*app.usage)
            })
        })
    }

    /// All users that use something, by name (SEEDS S28).
    pub fn users(&self) -> impl Iterator<Item = UserUsage> + '_ {
        self.all_listed(Who::User).map(|tracker| self.user_usage(tracker))
    }

    /// One of [`Ugm::users`].
    pub fn user(&self, name: &str) -> Option<UserUsage> {
        self.listed(Who::User, &name.into()).map(|tracker| self.user_usage(tracker))
    }

    /// All groups that use something, by name (SEEDS S28).
    pub fn groups(&self) -> impl Iterator<Item = GroupUsage> + '_ {
        self.all_listed(Who::Group).map(|tracker| self.group_usage(tracker))
    }

    /// One of [`Ugm::groups`].
    pub fn group_named(&self, name: &str) -> Option<GroupUsage> {
        self.listed(Who::Group, &name.into()).map(|tracker| self.group_usage(tracker))
    }

    fn all_listed(&self, who: Who) -> impl Iterator<Item = TrackerIx> + '_ {
        let all = self.tracker_by_name.range((who, Arc::default())..).take_while(move |((of, _), _)| *of == who);
        all.map(|(_, tracker)| *tracker).filter(|tracker| self.trackers[*tracker].listed())
    }

    fn user_usage(&self, at: TrackerIx) -> UserUsage {
        let tracker = &self.trackers[at];
        let linked =
            tracker.apps.iter().filter_map(|app| Some((self.apps[*app].id.clone(), self.group(*app)?.clone())));
        let mut groups: Vec<_> = linked.collect();
        groups.sort_unstable();
        UserUsage { name: tracker.name.clone(), groups, root: self.tree(at, tracker) }
    }

    fn group_usage(&self, at: TrackerIx) -> GroupUsage {
        let tracker = &self.trackers[at];
        let counted = tracker.apps.iter().map(|app| &self.apps[*app]).filter(|app| app.counted);
        let mut applications: Vec<_> = counted.map(|app| app.id.clone()).collect();
        applications.sort_unstable();
        GroupUsage { name: tracker.name.clone(), applications, root: self.tree(at, tracker) }
    }

    fn tree(&self, at: TrackerIx, tracker: &Tracker) -> QueueUsage {
        let mut apps_of: BTreeMap<LevelIx, Vec<Arc<str>>> = BTreeMap::new();
        for app in tracker.apps.iter().map(|app| &self.apps[*app]) {
            for level in app.sides().filter(|side| side.tracker == at).flat_map(|side| &side.levels) {
                apps_of.entry(*level).or_default().extend(app.counted.then(|| app.id.clone()));
            }
        }
        // Children come after their parent, so from the last one on each can be put into its parent, complete.
        let order: Vec<LevelIx> = self.levels_of(at).collect();
        let mut open: BTreeMap<LevelIx, Vec<QueueUsage>> = BTreeMap::new();
        let mut root = QueueUsage::default();
        for ix in order.into_iter().rev() {
            let level = &self.levels[ix];
            let mut children = open.remove(&ix).unwrap_or_default();
            children.reverse();
            let linked = apps_of.remove(&ix);
            let is_listed = linked.is_some() || level.parent.is_none();
            let mut applications = linked.unwrap_or_default();
            applications.sort_unstable();
            let usage = QueueUsage {
                path: level.path.clone(),
                usage: level.usage.pruned(),
                applications,
                max_resources: level.limit.as_ref().and_then(|limit| limit.resources.clone()),
                max_applications: level.limit.as_ref().map_or(0, |limit| limit.applications),
                children,
            };
            // A level that only a limit names is no use of its queue (UGM-052, SEEDS S28).
            if !is_listed && usage.usage.is_empty() && usage.children.is_empty() {
                continue;
            }
            match level.parent {
                Some(parent) => open.entry(parent).or_default().push(usage),
                None => root = usage,
            }
        }
        root
    }
}
