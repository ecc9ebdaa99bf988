//! Recomputes every sum from the applications.

use std::collections::{BTreeMap, BTreeSet};

use super::{Tracked, TrackerIx, Ugm, Who};
use crate::resources::Resource;
use crate::words::plural;

/// An application as its owner sees it, for [`Ugm::audit`].
#[derive(Clone, Debug)]
pub struct Live<'a> {
    /// Its handle.
    pub track: Tracked,
    /// Its id.
    pub id: &'a str,
    /// Its user.
    pub user: &'a str,
    /// Path of its leaf.
    pub queue: &'a str,
    /// Sum of its allocations, placeholders included.
    pub usage: &'a Resource,
    /// What its asks that have preempted are promised.
    pub promised: &'a Resource,
}

#[derive(Default)]
struct Sum {
    usage: Resource,
    counted: u32,
    holds: u32,
}

impl Ugm {
    /// Compares all books with the live applications, each of which has to be given once: usage of a user is the sum over its
    /// applications, that of a group the sum over those linked to it, at every level. Gives one line per fault.
    pub fn audit<'a>(&self, live: impl IntoIterator<Item = Live<'a>>) -> Vec<String> {
        let mut faults = Vec::new();
        let mut sums: BTreeMap<(TrackerIx, &str), Sum> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut promised = Vec::new();
        for app in live {
            promised.push((app.track, app.promised));
            if !seen.insert(app.track) {
                faults.push(format!("application {}: given twice, or its handle is that of another", app.id));
            }
            self.audit_app(&app, &mut sums, &mut faults);
        }
        for (_, app) in self.apps.iter().filter(|(track, _)| !seen.contains(track)) {
            faults.push(format!("application {}: known here, but not live", app.id));
        }
        self.audit_levels(&sums, &mut faults);
        self.audit_trackers(&mut faults);
        self.audit_promised(promised.into_iter(), &mut faults);
        faults
    }

    fn audit_app<'s>(&'s self, live: &Live, sums: &mut BTreeMap<(TrackerIx, &'s str), Sum>, faults: &mut Vec<String>) {
        let Some(app) = self.apps.get(live.track) else {
            return faults.push(format!("application {}: its handle is dead", live.id));
        };
        let (id, user, queue) = (&*app.id, &*app.user, app.chain.last().map_or("", |path| path));
        if (id, user, queue) != (live.id, live.user, live.queue) {
            faults.push(format!("application {}: kept as {id} of user {user} in {queue}", live.id));
        }
        if *app.usage != *live.usage {
            faults.push(format!("application {id}: charged {}, but uses {}", *app.usage, live.usage));
        }
        if !app.counted && !live.usage.is_zero() {
            faults.push(format!("application {id}: uses {}, but does not count", live.usage));
        }
        for side in app.sides() {
            for path in app.chain.iter() {
                let sum = sums.entry((side.tracker, path)).or_default();
                sum.usage.add(live.usage);
                sum.counted += u32::from(app.counted);
                sum.holds += 1;
            }
        }
        let users = app.hold.iter().map(|hold| &self.trackers[hold.user.tracker]);
        if users.into_iter().any(|tracker| tracker.who != Who::User || tracker.name != app.user) {
            faults.push(format!("application {id}: charged to another user"));
        }
    }

    fn audit_levels(&self, sums: &BTreeMap<(TrackerIx, &str), Sum>, faults: &mut Vec<String>) {
        for (tracker, path) in sums.keys() {
            if !self.level_by_path.contains_key(&(*tracker, (*path).into())) {
                faults.push(format!("{} in {path}: applications, but no level", self.shown(*tracker)));
            }
        }
        let mut children: BTreeMap<_, u32> = BTreeMap::new();
        for parent in self.levels.iter().filter_map(|(_, level)| level.parent) {
            *children.entry(parent).or_default() += 1;
        }
        let nothing = Sum::default();
        for (ix, level) in self.levels.iter() {
            let sum = sums.get(&(level.tracker, &*level.path)).unwrap_or(&nothing);
            let tracker = &self.trackers[level.tracker];
            let mut fault =
                |text: String| faults.push(format!("{} in {}: {text}", self.shown(level.tracker), level.path));
            if level.usage != sum.usage {
                fault(format!("usage {}, but its applications use {}", level.usage, sum.usage));
            }
            if level.usage.has_negative() {
                fault(format!("usage {} is negative", level.usage));
            }
            if (level.counted, level.holds) != (sum.counted, sum.holds) {
                let (counted, holds) = (sum.counted, sum.holds);
                fault(format!(
                    "{} of {} counted, not {counted} of {holds}",
                    level.counted,
                    plural(level.holds, "application")
                ));
            }
            if level.children != children.get(&ix).copied().unwrap_or(0) {
                fault(format!("{} below, which is wrong", plural(level.children, "level")));
            }
            if level.limit.as_ref() != self.limits.of(tracker.who, &tracker.name, &level.path) {
                fault("its limit is not the configured one".into());
            }
            if level.configured != self.limits.named(tracker.who, &tracker.name, &level.path).is_some() {
                fault("whether its limit is its own is wrong".into());
            }
            if level.pinned && (level.limit.is_none() || !tracker.known()) {
                fault("kept for a wildcard limit that does not hold".into());
            }
            if level.holds == 0 && level.children == 0 && !level.configured && !level.pinned {
                fault("nobody needs it".into());
            }
            if self.level_by_path.get(&(level.tracker, level.path.clone())) != Some(&ix) {
                fault("not found by its path".into());
            }
        }
    }

    fn audit_trackers(&self, faults: &mut Vec<String>) {
        for (ix, tracker) in self.trackers.iter() {
            let levels: Vec<_> = self.levels_of(ix).map(|level| &self.levels[level]).collect();
            let counted = tracker.apps.iter().filter(|app| self.apps[**app].counted).count();
            let configured = levels.iter().filter(|level| level.configured).count();
            let pinned = levels.iter().filter(|level| level.pinned).count();
            let kept = [tracker.counted, tracker.configured, tracker.pinned, tracker.levels].map(|n| n as usize);
            if kept != [counted, configured, pinned, levels.len()] {
                faults.push(format!("{}: its counts are wrong: {kept:?}", self.shown(ix)));
            }
            if levels.is_empty() {
                faults.push(format!("{}: nobody needs it", self.shown(ix)));
            }
            if self.tracker_by_name.get(&(tracker.who, tracker.name.clone())) != Some(&ix) {
                faults.push(format!("{}: not found by its name", self.shown(ix)));
            }
        }
        for limits in &self.limits.paths {
            for (who, name) in limits.order.iter().filter(|(who, name)| limits.named(*who, name).is_some()) {
                let tracker = self.tracker_by_name.get(&(*who, name.clone()));
                let level = tracker.and_then(|tracker| self.level_by_path.get(&(*tracker, limits.path.clone())));
                if level.is_none() {
                    faults.push(format!("{who:?} {name}: its limit in {} has no level", limits.path));
                }
            }
        }
    }

    fn shown(&self, tracker: TrackerIx) -> String {
        let tracker = &self.trackers[tracker];
        format!("{:?} {}", tracker.who, tracker.name)
    }
}
