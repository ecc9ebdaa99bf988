//! A new set of limits takes the place of the old one (UGM-010–UGM-01A, EVT-053–EVT-056).

use std::{collections::BTreeSet, sync::Arc};

use super::{
    Hear, LevelIx, TrackerIx, Ugm, UgmEvent, Who,
    limits::{Limits, PathLimits},
};
use crate::{
    conf::LimitConf,
    event::{Change, Detail},
};

impl Ugm {
    /// Replaces all limits: of each queue with limits its full lowercase path and its entries, in the order of the configuration.
    ///
    /// Usage and the links of applications stay as they are (UGM-017, section 12 item 7). Events come in this order: limits that are
    /// gone, limits that name a user or group, wildcard limits of users; so whoever applies them one by one ends with what holds.
    pub fn set_limits<'a>(
        &mut self,
        limits: impl IntoIterator<Item = (&'a Arc<str>, &'a [LimitConf])>,
        out: &mut dyn Hear,
    ) {
        self.freed.anybody();
        let new = Arc::new(Limits::new(limits));
        let old = std::mem::replace(&mut self.limits, new.clone());
        self.announce_gone(&old, &new, out);
        self.forget_limits(&new);
        for limits in &new.paths {
            let chain = chain(&limits.path);
            for (who, name) in &limits.order {
                // The wildcard group is a limit, and nobody's name (SEEDS S30).
                if limits.named(*who, name).is_some() {
                    self.configure(*who, name, &chain);
                }
                out.hear(event(Change::Set, *who, name, limits));
            }
        }
        // Only of those who use something: names alone are many.
        let users = self.listed_users();
        for limits in new.paths.iter().filter(|limits| limits.every_user.is_some()) {
            let chain = chain(&limits.path);
            for (name, tracker) in &users {
                if limits.named(Who::User, name).is_none() {
                    self.pin(*tracker, &chain);
                    out.hear(event(Change::Set, Who::User, name, limits));
                }
            }
        }
        let levels: Vec<LevelIx> = self.levels.iter().map(|(level, _)| level).collect();
        for level in levels {
            self.sweep(level);
        }
    }

    /// The limits that were in force when this was written: those of the configuration, which are not written with it.
    pub(crate) fn limit_again<'a>(&mut self, limits: impl IntoIterator<Item = (&'a Arc<str>, &'a [LimitConf])>) {
        self.limits = Arc::new(Limits::new(limits));
        let levels: Vec<LevelIx> = self.levels.iter().map(|(level, _)| level).collect();
        for level in levels {
            let level = &mut self.levels[level];
            if let Some(tracker) = self.trackers.get(level.tracker) {
                level.limit = self.limits.of(tracker.who, &tracker.name, &level.path).cloned();
            }
        }
        self.sum_up_again();
    }

    /// The events of limits that go, all of them.
    pub fn tell_gone(&self, out: &mut dyn Hear) {
        self.announce_gone(&self.limits, &Limits::new([]), out);
    }

    fn announce_gone(&self, old: &Limits, new: &Limits, out: &mut dyn Hear) {
        let users = self.listed_users();
        for limits in &old.paths {
            let now = new.get(&limits.path);
            let mut told = BTreeSet::new();
            for (who, name) in &limits.order {
                if now.is_none_or(|now| !now.has(*who, name)) {
                    out.hear(event(Change::Remove, *who, name, limits));
                    told.insert((*who, name));
                }
            }
            // For every listed user, also one whose own limit stays and is announced next (EVT-056).
            if limits.every_user.is_some() && now.is_none_or(|now| now.every_user.is_none()) {
                for (name, _) in users.iter().filter(|(name, _)| !told.contains(&(Who::User, name))) {
                    out.hear(event(Change::Remove, Who::User, name, limits));
                }
            }
        }
    }

    /// Gives every level the limit that holds from now on, and keeps none for its limit alone.
    fn forget_limits(&mut self, new: &Limits) {
        let trackers: Vec<TrackerIx> = self.trackers.iter().map(|(tracker, _)| tracker).collect();
        for tracker in trackers {
            let tracker = &mut self.trackers[tracker];
            (tracker.configured, tracker.pinned) = (0, 0);
        }
        let levels: Vec<LevelIx> = self.levels.iter().map(|(level, _)| level).collect();
        for level in levels {
            let level = &mut self.levels[level];
            let tracker = &self.trackers[level.tracker];
            level.limit = new.of(tracker.who, &tracker.name, &level.path).cloned();
            (level.configured, level.pinned) = (false, false);
        }
    }

    fn configure(&mut self, who: Who, name: &Arc<str>, chain: &[Arc<str>]) {
        let tracker = self.tracker(who, name);
        if let Some(last) = self.chain(tracker, chain).last() {
            self.levels[*last].configured = true;
            self.trackers[tracker].configured += 1;
        }
    }

    fn pin(&mut self, tracker: TrackerIx, chain: &[Arc<str>]) {
        if let Some(last) = self.chain(tracker, chain).last() {
            self.levels[*last].pinned = true;
            self.trackers[tracker].pinned += 1;
        }
    }

    fn listed_users(&self) -> Vec<(Arc<str>, TrackerIx)> {
        let users = self.tracker_by_name.iter().filter(|((who, _), _)| *who == Who::User);
        let listed = users.filter(|(_, tracker)| self.trackers[**tracker].listed());
        listed.map(|((_, name), tracker)| (name.clone(), *tracker)).collect()
    }
}

/// The paths from root down to `path`.
fn chain(path: &Arc<str>) -> Vec<Arc<str>> {
    let above = path.match_indices('.').map(|(end, _)| Arc::from(&path[..end]));
    above.chain([path.clone()]).collect()
}

fn event<'a>(change: Change, who: Who, object: &'a Arc<str>, limits: &'a PathLimits) -> UgmEvent<'a> {
    let detail = match who {
        Who::User => Detail::UserLimit,
        Who::Group => Detail::GroupLimit,
    };
    UgmEvent { change, detail, object, reference: &limits.path, resource: None }
}
