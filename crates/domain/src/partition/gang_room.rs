//! Room for the whole of a gang, which begins when there is some (SEEDS S11), and what of its own is in its way.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{Cx, Partition, releases::Lost};
use crate::{
    alloc::Phase,
    app::{GroupKey, Hold},
    event::Detail,
    rare::Rare,
    resources::{Resource, Shown},
    types::{AllocIx, AppIx, QueueIx},
};

/// Text of the release of a placeholder that keeps a place for a part that has one.
const SPARE: &str = "cancel placeholder: the originator of its task group has its place already";

/// What a gang lacks that has no room, as its placeholders are told.
pub(super) struct Shortage {
    wanted: Resource,
    level: Option<QueueIx>,
    own: Option<Resource>,
}

impl Partition {
    /// What a gang wants at once that has not begun: no placeholder of it, nor a real part, has a place (SEEDS S11). In which state
    /// its application is does not matter: an originator may run already, and what was announced counts one of a task group in (seed
    /// 003, 112 and 141).
    pub(super) fn gang_to_begin(&self, app: AppIx) -> Option<Cow<'_, Resource>> {
        let row = &self.apps[app];
        let ask = row.gang.placeholder_ask.as_deref().filter(|_| !row.gang.started)?;
        if row.gang.real_parts > 0 {
            return None;
        }
        let placed = row.gang.originators.iter().map(|alloc| &self.allocs[*alloc].resource);
        Some(placed.fold(Cow::Borrowed(ask), |wanted, placed| Cow::Owned(wanted.minus_known(placed))))
    }

    /// No placeholder of this real ask's task group waits, and none may be replaced: those that are there were told to go.
    pub(super) fn placeholders_leave(&self, ask: AllocIx) -> bool {
        let row = &self.allocs[ask];
        let gang = &self.apps[row.app].gang;
        gang.pending_placeholders + gang.awaiting_shim == 0 && !gang.replaceable.contains_key(&row.spec.task_group)
    }

    /// What of a gang has to fit at once: all that was announced before it has begun, else what still waits.
    pub(super) fn gang_total(&self, app: AppIx) -> Resource {
        self.gang_to_begin(app).map_or_else(|| self.apps[app].gang.awaited.clone(), Cow::into_owned)
    }

    /// The level, nearest to the leaf, with a configured max that has no room for all of a gang that has not begun (SEEDS S11).
    /// What gangs that have begun still wait for counts as used.
    pub(super) fn gang_level(&self, app: AppIx) -> Option<QueueIx> {
        let ask = self.gang_to_begin(app)?;
        let row = &self.apps[app];
        // What one has preempted for all of it is not to be had by the others before it is there.
        let one_for_all = !row.claimed.is_empty() && self.gang_claimant(app).is_some();
        let own = if one_for_all { Rare::default() } else { row.claimed.clone() };
        let level = self.queue_fits_gang(row.queue, &ask, &own).err();
        level.filter(|level| *level != self.root)
    }

    /// What a gang wants at once that waits for room in its queues with all of its placeholders: one of them may preempt for all.
    pub(super) fn gang_that_waits(&self, app: AppIx) -> Option<Cow<'_, Resource>> {
        let (ask, row) = (self.gang_to_begin(app)?, &self.apps[app]);
        let alone = !self.queues[row.queue].settings.atomic_gangs;
        (alone && row.gang.awaited.ge_all(&ask) && self.gang_level(app).is_some()).then_some(ask)
    }

    /// It may try to now: all of them may preempt, none has for the others, its user may have all of it, and it is not for
    /// questions to the shim that there is no room.
    pub(super) fn gang_may_preempt(&self, app: AppIx) -> bool {
        self.gang_that_waits(app).is_some_and(|ask| {
            let queue = self.apps[app].queue;
            self.gang_claimant(app).is_none()
                && self.user_fits_beside(app, &ask)
                && self.queue_fits_gang_without_questions(queue, &ask).is_err_and(|level| level != self.root)
                && self.gang(app).all(|(_, alloc)| self.allocs[*alloc].spec.may_preempt_others())
        })
    }

    /// An originator is placed of whose task group no placeholder has come: it counts as sent, as the one that would keep its place
    /// need not come (seed 003, 112 and 141).
    pub(super) fn note_originator(&mut self, alloc: AllocIx) {
        let row = &self.allocs[alloc];
        let (app, resource) = (row.app, row.resource.clone());
        let gang = &self.apps[app].gang;
        let of_group = row.spec.originator && !row.spec.task_group.is_empty();
        if of_group && gang.placeholder_ask.is_some() && !gang.task_groups.contains_key(&row.spec.task_group) {
            self.gang_changes(app, |gang| gang.announced.add(&resource));
            self.gang_progress(app);
        }
    }

    /// The asks of a group wait for room. Where one of their gang's placeholders is of no use, it goes first: true, and they may fit.
    /// What was `found` for another group that failed before in the same attempt holds for this one: it takes a walk over all that
    /// the application has, and nothing of that changes while groups fail.
    pub(super) fn gives_up_spare(
        &mut self,
        app: AppIx,
        key: &GroupKey,
        hold: Hold,
        found: &mut Option<Option<AllocIx>>,
        cx: &mut Cx,
    ) -> bool {
        if !key.placeholder || matches!(hold, Hold::Gang | Hold::Failures | Hold::RequiredNode) {
            return false;
        }
        let Some(spare) = *found.get_or_insert_with(|| self.spare_placeholder(app)) else { return false };
        if self.allocs[spare].phase == Phase::Allocated {
            self.ask_back(spare, SPARE.into(), cx);
            return true;
        }
        let row = &self.allocs[spare];
        let (lost, group) = (Lost { key: row.spec.key.clone(), placeholder: true }, row.spec.task_group.clone());
        if let Some(group) = self.apps[app].gang.task_groups.get_mut(&group) {
            group.timed_out += 1;
        }
        self.cancel_ask(spare, Detail::RequestTimeout, cx);
        self.tell_lost(app, vec![lost], SPARE, "", cx);
        true
    }

    /// A placeholder of the task group of an originator that was placed before it, where the gang has more than it announced with
    /// it: the originator is a part of what was announced (seed 003, 112 and 141), and needs no second place.
    fn spare_placeholder(&self, app: AppIx) -> Option<AllocIx> {
        let row = &self.apps[app];
        let ask = row.gang.placeholder_ask.as_deref().filter(|_| !row.allocated.is_zero())?;
        let (mut parts, mut groups) = (row.gang.awaited.clone(), BTreeSet::new());
        let mut in_order = Vec::new();
        let placed = row.allocs.keys().map(|alloc| &self.allocs[*alloc]);
        for part in placed.filter(|part| !part.spec.task_group.is_empty()) {
            // One that was told to go is none any more, unless a real part takes its place.
            if !part.is_going() || part.link.is_some() {
                parts.add(&part.resource);
            }
            let first = part.spec.originator && part.phase == Phase::Allocated && !part.placeholder_used;
            if first && groups.insert(&*part.spec.task_group) {
                in_order.push(&part.spec.task_group);
            }
        }
        // What is spare comes on top of what was announced.
        if in_order.is_empty() || !parts.ge_all(ask) {
            return None;
        }
        let is_spare = |alloc: &AllocIx| parts.minus(&self.allocs[*alloc].resource).ge_all(ask);
        // The first that waits of each group: all of them are walked once, however many originators there are.
        let mut waiting = BTreeMap::new();
        for alloc in self.gang(app).map(|(_, alloc)| *alloc) {
            let group = &*self.allocs[alloc].spec.task_group;
            if groups.contains(group) && !waiting.contains_key(group) && is_spare(&alloc) {
                waiting.insert(group, alloc);
            }
        }
        in_order.into_iter().find_map(|group| {
            let placed = || row.gang.replaceable.get(group).into_iter().flatten().copied().find(is_spare);
            waiting.get(&**group).copied().or_else(placed)
        })
    }

    /// What the application of a gang that has not begun has itself, where that is in its way: with it and with all that the gang
    /// wants at once (`wanted`) it would be above a max or limit, whatever others have. It has no time-out for that (R6.23), and is to be told.
    pub(super) fn in_its_own_way(&self, app: AppIx, wanted: &Resource) -> Option<Resource> {
        let row = &self.apps[app];
        let own = row.allocated.plus(&row.gang.allocated);
        if row.gang.started || own.is_zero() {
            return None;
        }
        let above = |max: &Resource| {
            wanted
                .iter()
                .any(|(kind, amount)| amount > 0 && max.get(kind).is_some_and(|max| own.amount(kind) + amount > max))
        };
        let queues = || self.path(row.queue).filter(|queue| *queue != self.root);
        let by_queue = || queues().any(|queue| self.queues[queue].max.as_deref().is_some_and(above));
        let limits = || row.track.map_or_else(Vec::new, |track| self.ugm.bounds(track));
        let by_user = || limits().iter().any(|bound| bound.limit.resources.as_ref().is_some_and(above));
        (by_queue() || by_user()).then_some(own)
    }

    fn shortage(&self, app: AppIx) -> Shortage {
        let (wanted, level) = self.gang_shortage(app);
        let own = self.in_its_own_way(app, &wanted);
        Shortage { wanted, level, own }
    }

    /// A placeholder waits for room for its whole gang (SEEDS S11): told as of any other ask that a limit holds back.
    pub(super) fn hold_in_gang(&mut self, alloc: AllocIx, shortage: &mut Option<Shortage>, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let (app, key) = (row.app, row.spec.key.clone());
        let Shortage { wanted, level, own } = shortage.get_or_insert_with(|| self.shortage(app));
        self.log(alloc, if level.is_some() { "Not enough queue quota" } else { "Not enough user quota" }, cx.now);
        let row = &self.allocs[alloc];
        if row.over_queue_quota || row.over_user_quota {
            return;
        }
        let beside =
            own.as_ref().map_or_else(String::new, |own| format!(", beside {own} that its application has itself"));
        let (text, reason) = match level {
            Some(level) => {
                self.allocs[alloc].over_queue_quota = true;
                let headroom = self.headroom(self.apps[app].queue);
                let (queue, path) = (self.queue_path(alloc), self.queues[*level].path.clone());
                let headroom = Shown(headroom.as_ref());
                (
                    format!(
                        "Request '{key}' does not fit in queue '{queue}' with all of its gang (requested {wanted}, available {headroom}{beside})"
                    ),
                    format!("held back by the max of queue {path}, which has no room for all of its gang{beside}"),
                )
            }
            None => {
                self.allocs[alloc].over_user_quota = true;
                let headroom = self.user_headroom(app);
                let headroom = Shown(headroom.as_ref());
                (
                    format!(
                        "Request '{key}' exceeds the available user quota with all of its gang (requested {wanted}, available {headroom}{beside})"
                    ),
                    format!("held back by a limit of its user or group, which has no room for all of its gang{beside}"),
                )
            }
        };
        self.message_of(alloc, &text, cx);
        self.skipped(alloc, &reason, cx);
    }
}
