//! What the limits of its user and group leave to an application (UGM-030–UGM-034). Nothing here changes anything.

use std::{collections::BTreeMap, sync::Arc};

use super::{Level, LevelIx, Limit, Tracked, Ugm, Who};
use crate::resources::{Resource, ResourceType};

/// The limit that holds a request or an application back, for messages and explanations.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRefusal {
    /// Whose limit.
    pub who: Who,
    /// Name of the user or group.
    pub name: Arc<str>,
    /// Path of the queue.
    pub queue: Arc<str>,
    /// The limit.
    pub limit: Arc<Limit>,
    /// What the user or group uses there.
    pub used: Resource,
    /// What is promised beside that to asks of theirs that have preempted.
    pub promised: Resource,
    /// Its applications that count there.
    pub applications: u64,
}

/// What is taken of limits by asks that are looked at one after the other, none of which is charged: by user or group, and queue.
#[derive(Debug, Default)]
pub struct Taken(BTreeMap<(Who, Arc<str>, Arc<str>), Resource>);

/// A limit on the way from root to the leaf of an application, first those of the user.
struct Bound<'a> {
    who: Who,
    name: &'a Arc<str>,
    path: &'a Arc<str>,
    limit: &'a Arc<Limit>,
    /// `None`: nothing is used.
    level: Option<&'a Level>,
    at: Option<LevelIx>,
    /// To asks that have preempted.
    promised: Option<&'a Resource>,
}

impl Bound<'_> {
    /// The types of the request are compared one by one; those that the limit leaves out are free, and what is
    /// over-used counts as 0 (R0.4).
    fn fits(&self, request: &Resource) -> bool {
        self.fits_without(request, |_| 0)
    }

    /// As `fits`, beside what is promised.
    fn fits_beside(&self, request: &Resource) -> bool {
        self.fits_without(request, |kind| -self.promised(kind))
    }

    fn promised(&self, kind: &ResourceType) -> i128 {
        self.promised.map_or(0, |promised| promised.amount(kind))
    }

    /// As `fits`, as if so much of what is used were not.
    fn fits_without(&self, request: &Resource, less: impl Fn(&ResourceType) -> i128) -> bool {
        let Some(max) = &self.limit.resources else { return true };
        request.iter().all(|(kind, amount)| {
            let used = || self.level.map_or(0, |level| level.usage.amount(kind)) - less(kind);
            max.get(kind).is_none_or(|max| amount <= (max - used()).max(0))
        })
    }

    fn headroom(&self) -> Option<Resource> {
        let max = self.limit.resources.as_ref()?;
        Some(self.level.map_or_else(|| max.clone(), |level| max.minus_known(&level.usage)))
    }

    fn admits(&self) -> bool {
        self.admits_without(0)
    }

    /// As `admits`, as if so many of the applications that count did not.
    fn admits_without(&self, less: u64) -> bool {
        self.limit.applications == 0 || self.applications().saturating_sub(less) < self.limit.applications
    }

    fn applications(&self) -> u64 {
        self.level.map_or(0, |level| u64::from(level.counted))
    }

    fn refusal(&self) -> LimitRefusal {
        LimitRefusal {
            who: self.who,
            name: self.name.clone(),
            queue: self.path.clone(),
            limit: self.limit.clone(),
            used: self.level.map_or_else(Resource::new, |level| level.usage.pruned()),
            promised: self.promised.cloned().unwrap_or_default(),
            applications: self.applications(),
        }
    }
}

impl Ugm {
    /// What the user and the group of an application may still use in its queue: the least over the path and over both
    /// (UGM-030), without limits of groups in queues where a limit names the user (SEEDS S29).
    /// Types that no limit names are missing, over-used ones are negative; `None`: nothing limits.
    pub fn headroom(&self, track: Tracked) -> Option<Resource> {
        self.least(track, |bound| bound.headroom())
    }

    /// As [`Ugm::headroom`], without what was taken before.
    pub fn headroom_after(&self, track: Tracked, taken: &Taken) -> Option<Resource> {
        self.least(track, |bound| {
            let headroom = bound.headroom()?;
            let before = taken.0.get(&(bound.who, bound.name.clone(), bound.path.clone()));
            Some(before.map_or_else(|| headroom.clone(), |before| headroom.minus_known(before)))
        })
    }

    /// An application takes so much, of its user and of the group that it is, or would be, charged to.
    pub fn take(&self, track: Tracked, amount: &Resource, taken: &mut Taken) {
        let app = &self.apps[track];
        let chosen = || self.limits.group_of(&app.groups, &app.chain);
        let group = if app.counted { self.group(track).cloned() } else { chosen() };
        let sides = [(Who::User, Some(app.user.clone())), (Who::Group, group)];
        for (who, name) in sides.into_iter().filter_map(|(who, name)| Some((who, name?))) {
            for path in app.chain.iter() {
                taken.0.entry((who, name.clone(), path.clone())).or_default().add(amount);
            }
        }
    }

    fn least(&self, track: Tracked, headroom: impl Fn(&Bound) -> Option<Resource>) -> Option<Resource> {
        let mut least: Option<Resource> = None;
        self.all(track, |bound| {
            if let Some(headroom) = headroom(bound) {
                least = Some(least.as_ref().map_or_else(|| headroom.clone(), |least| least.min(&headroom)));
            }
            true
        });
        least
    }

    /// A request fits the headroom (UGM-031).
    pub fn fits(&self, track: Tracked, request: &Resource) -> bool {
        self.all(track, |bound| bound.fits(request))
    }

    /// The same for one that is part of what is used.
    pub fn still_fits(&self, track: Tracked, charged: &Resource) -> bool {
        self.all(track, |bound| bound.fits_without(charged, |kind| charged.amount(kind)))
    }

    /// As `fits`, beside what is promised to asks that have preempted.
    pub fn fits_beside(&self, track: Tracked, request: &Resource) -> bool {
        self.all(track, |bound| bound.fits_beside(request))
    }

    /// As [`Ugm::headroom`], beside what is promised to asks that have preempted.
    pub fn headroom_beside(&self, track: Tracked) -> Option<Resource> {
        self.least(track, |bound| {
            let headroom = bound.headroom()?;
            Some(bound.promised.map_or_else(|| headroom.clone(), |promised| headroom.minus_known(promised)))
        })
    }

    /// As [`Ugm::fits_beside`], if these amounts of these applications were not charged.
    pub fn fits_without(&self, track: Tracked, request: &Resource, less: &[(Tracked, Resource)]) -> bool {
        self.all(track, |bound| {
            let there = less.iter().filter(|(app, _)| self.is_charged_at(*app, bound.at));
            let there: Vec<&Resource> = there.map(|(_, amount)| amount).collect();
            let less = |kind: &ResourceType| there.iter().map(|amount| amount.amount(kind)).sum::<i128>();
            bound.fits_without(request, |kind| less(kind) - bound.promised(kind))
        })
    }

    /// An application could start if these did not count, which do.
    pub fn can_run_without(&self, track: Tracked, less: &[Tracked]) -> bool {
        let at = |bound: &Bound| less.iter().filter(|app| self.is_charged_at(**app, bound.at)).count() as u64;
        self.apps[track].counted || self.all(track, |bound| bound.admits_without(at(bound)))
    }

    /// What an application uses is part of what is used at a level.
    fn is_charged_at(&self, app: Tracked, level: Option<LevelIx>) -> bool {
        level.is_some_and(|level| self.apps[app].sides().any(|side| side.levels.contains(&level)))
    }

    /// An application may start, or counts already (UGM-033).
    pub fn can_run(&self, track: Tracked) -> bool {
        self.apps[track].counted || self.all(track, |bound| bound.admits())
    }

    /// An application counts among those of its user: since its first allocation (UGM-033).
    pub fn counts(&self, track: Tracked) -> bool {
        self.apps[track].counted
    }

    /// The limit that a request does not fit, the one nearest to root, the user's before the group's; `None` where it fits. What is
    /// promised to asks that have preempted is in the way as well.
    pub fn exceeded(&self, track: Tracked, request: &Resource) -> Option<LimitRefusal> {
        self.first(track, |bound| bound.fits_beside(request))
    }

    /// The limit that keeps an application from starting; `None` where [`Ugm::can_run`].
    pub fn held(&self, track: Tracked) -> Option<LimitRefusal> {
        if self.apps[track].counted { None } else { self.first(track, |bound| bound.admits()) }
    }

    /// Every limit that counts for an application, with what is used and promised of it: from root to its leaf, those of its user first.
    pub fn bounds(&self, track: Tracked) -> Vec<LimitRefusal> {
        let mut all = Vec::new();
        self.all(track, |bound| {
            all.push(bound.refusal());
            true
        });
        all
    }

    /// Every limit below what is used, with the applications that count there, sorted.
    pub fn above(&self) -> Vec<(LimitRefusal, Vec<Arc<str>>)> {
        let mut above = Vec::new();
        for (at, level) in self.levels.iter() {
            let Some(limit) = &level.limit else { continue };
            let tracker = &self.trackers[level.tracker];
            let bound = Bound {
                who: tracker.who,
                name: &tracker.name,
                path: &level.path,
                limit,
                level: Some(level),
                at: Some(at),
                promised: None,
            };
            let used_up = bound.headroom().is_some_and(|headroom| headroom.has_negative());
            if used_up || limit.applications > 0 && bound.applications() > limit.applications {
                let counted = tracker.apps.iter().map(|app| &self.apps[*app]).filter(|app| app.counted);
                let here = counted.filter(|app| app.sides().any(|side| side.levels.contains(&at)));
                let mut ids: Vec<Arc<str>> = here.map(|app| app.id.clone()).collect();
                ids.sort_unstable();
                above.push((bound.refusal(), ids));
            }
        }
        above
    }

    fn first(&self, track: Tracked, passes: impl Fn(&Bound) -> bool) -> Option<LimitRefusal> {
        let mut refusal = None;
        self.all(track, |bound| {
            if !passes(bound) {
                refusal = Some(bound.refusal());
            }
            refusal.is_none()
        });
        refusal
    }

    /// Visits the limits of an application until one does not pass.
    fn all(&self, track: Tracked, mut passes: impl FnMut(&Bound) -> bool) -> bool {
        if self.limits.paths.is_empty() {
            return true;
        }
        let app = &self.apps[track];
        let Some(hold) = app.hold.as_ref().filter(|_| app.counted) else { return self.all_unresolved(track, passes) };
        for side in app.sides() {
            let tracker = &self.trackers[side.tracker];
            for (n, at) in side.levels.iter().enumerate() {
                let level = &self.levels[*at];
                let Some(limit) = &level.limit else { continue };
                if tracker.who == Who::Group && self.levels[hold.user.levels[n]].configured {
                    continue;
                }
                let (who, name, path) = (tracker.who, &tracker.name, &level.path);
                let promised = self.promised.at(who, name, path);
                let bound = Bound { who, name, path, limit, level: Some(level), at: Some(*at), promised };
                if !passes(&bound) {
                    return false;
                }
            }
        }
        true
    }

    /// The same by look-ups, for an application whose group is not chosen yet: with the one that would be chosen now.
    fn all_unresolved(&self, track: Tracked, mut passes: impl FnMut(&Bound) -> bool) -> bool {
        let app = &self.apps[track];
        let group = self.limits.group_of(&app.groups, &app.chain);
        let sides = [(Who::User, Some(&app.user)), (Who::Group, group.as_ref())];
        for (who, name) in sides.into_iter().filter_map(|(who, name)| Some((who, name?))) {
            let tracker = self.tracker_by_name.get(&(who, name.clone()));
            for path in app.chain.iter() {
                let Some(limit) = self.limits.of(who, name, path) else { continue };
                if who == Who::Group && self.limits.named(Who::User, &app.user, path).is_some() {
                    continue;
                }
                let at = tracker.and_then(|tracker| self.level_by_path.get(&(*tracker, path.clone()))).copied();
                let promised = self.promised.at(who, name, path);
                let bound = Bound { who, name, path, limit, level: at.map(|at| &self.levels[at]), at, promised };
                if !passes(&bound) {
                    return false;
                }
            }
        }
        true
    }
}
