//! What is charged while the shim is asked about it, and may be refunded at once: it keeps others from what it takes, but until
//! the answer is there nobody is told that he waits for it, nor is anything preempted for that (R5.27, SEEDS S7).

use std::{borrow::Cow, collections::BTreeSet};

use super::{Cx, Partition};
use crate::{
    app::{App, GroupKey, Hold},
    effect::Effect,
    resources::Resource,
    types::{AllocIx, AppIx, AppState, QueueIx},
    ugm::{Tracked, Ugm},
};

impl Partition {
    /// An accepted application is about to have its first allocation, if the shim agrees: it counts against the limits of running
    /// applications (QUE-090, UGM-033).
    pub(super) fn counts_for_question(&mut self, app: AppIx) {
        let row = &self.apps[app];
        let (accepted, queue, track) = (row.state == AppState::Accepted, row.queue, row.track);
        if track.is_some_and(|track| !self.ugm.counts(track)) {
            self.questions.only_asked.insert(app);
        }
        if accepted && !self.queues[queue].allocating.contains(&app) {
            self.enter_allocating(app);
            self.questions.entering.insert(app);
        }
    }

    /// The last of what the shim was asked about is charged to an application no more: it holds no place among the running ones
    /// of its user and queues either.
    pub(super) fn counts_no_more_for_questions(&mut self, app: AppIx) {
        if self.apps[app].asked.iter().any(|asked| asked.count > 0) {
            return;
        }
        if self.questions.only_asked.remove(&app).is_some()
            && let Some(track) = self.apps[app].track
        {
            self.ugm.leave(track, &mut ());
            self.unblock_limits();
        }
        if self.questions.entering.remove(&app).is_some() {
            self.leave_allocating(app);
        }
    }

    /// The shim agreed: the application counts for itself. With the first of it that does, whichever was asked about first, its link
    /// to its group is told, before what that is `charged` (EVT-052, EVT-055).
    pub(super) fn counts_for_itself(&mut self, app: AppIx, charged: &mut Vec<Effect>, cx: &mut Cx) {
        self.questions.entering.remove(&app);
        if self.questions.only_asked.remove(&app).is_some()
            && let Some(track) = self.apps[app].track
        {
            charged.splice(0..0, cx.apart(Vec::new(), |cx| self.ugm.tell_link(track, cx)));
        }
    }

    /// Allocations, placeholders included, for all to see.
    pub fn placed(&self) -> u64 {
        self.allocations - self.queues.get(self.root).map_or(0, |root| root.asked.count)
    }

    /// Accepted applications of a queue and below that have an allocation or a reservation, for all to see (QUE-090).
    pub fn allocating(&self, queue: QueueIx) -> impl Iterator<Item = AppIx> + '_ {
        let all = self.queues[queue].allocating.iter().copied();
        all.filter(|app| !self.counts_only_for_questions(*app))
    }

    pub(super) fn counts_only_for_questions(&self, app: AppIx) -> bool {
        self.questions.entering.contains(&app)
    }

    /// The highest priority of what waits of an application, for all to see: what the shim is asked about waits (R4.32).
    pub fn priority_of_app(&self, app: &App) -> i32 {
        if app.asking == 0 && app.asked.iter().all(|asked| asked.count == 0) {
            return app.priority;
        }
        let asked = self.questions.asks().map(|alloc| &self.allocs[alloc]);
        let asked = asked.filter(|row| self.apps[row.app].serial == app.serial);
        asked.map(|row| row.spec.priority).fold(app.priority, i32::max)
    }

    /// The same of a queue, as its parent sees it (QUE-082).
    pub fn priority_of_queue(&self, queue: QueueIx) -> i32 {
        let row = &self.queues[queue];
        if row.asked.count == 0 && row.in_question.is_empty() {
            return row.exposed_priority;
        }
        let seen = |alloc: AllocIx| {
            let row = &self.allocs[alloc];
            let (mut priority, leaf) = (row.spec.priority, self.apps[row.app].queue);
            for at in self.path(leaf).filter(|_| self.queues[leaf].leaf) {
                priority = self.queues[at].settings.exposed(priority);
                if at == queue {
                    return priority;
                }
            }
            i32::MIN
        };
        self.questions.asks().map(seen).fold(row.exposed_priority, i32::max)
    }

    /// What users and groups use, for all to see: what the shim is still asked about waits (SEEDS S28).
    pub fn usage(&self) -> Cow<'_, Ugm> {
        let charged = self.charged_for_questions();
        if charged.is_empty() {
            return Cow::Borrowed(&self.ugm);
        }
        let mut shown = self.ugm.clone();
        for (track, amount) in charged {
            shown.decrease(track, &amount.into(), false, &mut ());
        }
        for track in self.questions.only_asked.iter().filter_map(|app| self.apps[*app].track) {
            shown.leave(track, &mut ());
        }
        Cow::Owned(shown)
    }

    /// What is charged for questions, by application: as many at most as questions may be open.
    fn charged_for_questions(&self) -> Vec<(Tracked, Resource)> {
        let asks = self.questions.asks().map(|alloc| self.allocs[alloc].app);
        let apps: BTreeSet<AppIx> = asks.chain(self.questions.gangs.keys().copied()).collect();
        let charged = |app: &AppIx| {
            let row = &self.apps[*app];
            Some((row.track?, row.asked.iter().fold(Resource::new(), |sum, asked| sum.plus(&asked.amount))))
        };
        apps.iter().filter_map(charged).collect()
    }

    /// Only what the shim may still refuse fills the limit that holds a group back, and that is to be told, or could lead to preemption.
    pub(super) fn is_held_by_questions(&self, app: AppIx, key: &GroupKey, hold: Hold) -> bool {
        if self.queues[self.root].asked.count == 0 {
            return false;
        }
        let row = &self.apps[app];
        let resource = self.shapes.resource(key.shape);
        match hold {
            Hold::QueueQuota | Hold::ClusterFull => {
                let level = self.queue_fits_without_questions(row.queue, resource).err();
                level.is_none_or(|level| self.hold_of(level) != hold)
            }
            Hold::UserQuota => {
                let group = row.groups_by_key.get(key);
                let told = group.is_some_and(|group| group.hold == Some(hold) && group.fresh.is_empty());
                let fits = |track| self.ugm.fits_without(track, resource, &self.charged_for_questions());
                !told && row.track.is_some_and(fits)
            }
            Hold::GangRoom => {
                let has_room = |level: Result<(), QueueIx>| level.err().is_none_or(|level| level == self.root);
                let begins = |ask: Cow<'_, Resource>| has_room(self.queue_fits_gang_without_questions(row.queue, &ask));
                let fits_at_once = || {
                    let (total, _) = self.gang_shortage(app);
                    let fits = |track| self.ugm.fits_without(track, &total, &self.charged_for_questions());
                    has_room(self.queue_fits_without_questions(row.queue, &total)) && row.track.is_some_and(fits)
                };
                self.gang_to_begin(app).is_none_or(begins) && (!self.goes_all_at_once(app, key) || fits_at_once())
            }
            Hold::Nodes | Hold::RequiredNode | Hold::Gang | Hold::Failures => false,
        }
    }

    /// Only applications that run if the shim agrees keep one from beginning.
    pub(super) fn is_kept_by_questions(&self, app: AppIx) -> bool {
        if self.questions.entering.is_empty() && self.questions.only_asked.is_empty() {
            return false;
        }
        let row = &self.apps[app];
        let by_queue = self.path(row.queue).any(|queue| {
            let row = &self.queues[queue];
            let asked = || self.questions.entering.iter().filter(|other| row.allocating.contains(other)).count();
            !row.may_begin(app, 0) && !row.may_begin(app, asked() as u64)
        });
        let others = self.questions.only_asked.iter().filter_map(|other| self.apps[*other].track);
        let others: Vec<Tracked> = others.collect();
        !by_queue && row.track.is_none_or(|track| self.ugm.can_run_without(track, &others))
    }
}
