//! When an ask tries to preempt (R7.1–R7.5), and how often: searches must not slow normal scheduling down.

use std::{collections::BTreeSet, ops::Bound};

use super::{
    super::{Partition, deadlines::CYCLE},
    act::Tried,
    harm::Harm,
};
use crate::coded::list;
use crate::{
    app::{GroupKey, Hold},
    partition::{Cx, schedule::Outcome},
    types::{AllocIx, AppIx, Nanos, NodeIx, QueueIx, ShapeIx},
};

/// Between two attempts of an ask (R7.4).
const AGAIN: Nanos = Nanos::from_secs(15);
/// Failed attempts of one leaf in a cycle (R7.3).
const ATTEMPTS: u32 = 10;
/// Nodes and allocations that failed searches may look at in a cycle, all leaves together; one that looks at more is paid
/// for by the cycles that follow. It keeps searches in vain below a few hundredths of the time.
const VISITS: u64 = 50_000;
/// Placeholders for which atomic gangs may look for nodes in vain in a cycle, all of them together; one that looks for more is
/// paid for by the cycles that follow. It is a tenth of the time at most.
const FITS: u64 = 2_000;
/// What an attempt in vain counts among all that is tried in vain in a call.
pub(super) const WEIGHT: usize = 8;
/// Asks of a group that are told so where their leaf has no attempt left.
const TOLD: usize = 100;
/// Decisions of one step.
const BATCH: usize = 16;
/// Age above the reservation delay from which a reservation by a lower priority gives way (R7.11).
const STALE: Nanos = Nanos::from_secs(2 * 3600);
/// No moment at all.
pub(in super::super) const NEVER: Nanos = Nanos(i64::MAX);

/// What searches of the present cycle know of each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    /// Beginning of the cycle.
    began: Nanos,
    /// What failed searches looked at.
    visits: u64,
    /// Kind of the last search that found something, the rank of the node where, and the harm that it did.
    pub(super) cursor: Option<(Kind, u64, Harm)>,
    /// Kind of the last search where queues were short, with all possible victims in order.
    pub(super) pool: Option<(Kind, std::sync::Arc<Vec<AllocIx>>)>,
    /// Leaves that had no search before, as others had used up what all may look at: they alone search, until each had one.
    first: BTreeSet<QueueIx>,
    /// Leaves that had to wait in this cycle.
    denied: BTreeSet<QueueIx>,
    /// Applications that had no attempt before, as others of their leaf had used them up: they alone try there, until each did.
    first_apps: BTreeSet<(QueueIx, AppIx)>,
    /// Applications that had to wait in this cycle.
    denied_apps: BTreeSet<(QueueIx, AppIx)>,
    /// Applications that tried in this cycle.
    tried: BTreeSet<AppIx>,
    /// For so many placeholders gangs looked for nodes in vain.
    fits: u64,
    /// Gangs that had no look before, as others had used up what all may do: they alone look, until each did.
    first_gangs: BTreeSet<AppIx>,
    /// Gangs that had to wait in this cycle.
    denied_gangs: BTreeSet<AppIx>,
    /// Gangs that looked in vain in this cycle.
    gangs: BTreeSet<AppIx>,
}

/// Who comes first in the next cycle: those who waited for their turn and wait still; where there are none, all that wait.
fn next_turn<T: Ord>(first: &BTreeSet<T>, denied: BTreeSet<T>) -> BTreeSet<T> {
    if first.is_disjoint(&denied) { denied } else { denied.into_iter().filter(|one| first.contains(one)).collect() }
}

/// Searches of one kind differ in nothing that rules nodes or victims out.
pub(super) type Kind = (QueueIx, ShapeIx, i32);

impl Partition {
    /// The earliest moment at which an ask may try to preempt.
    pub(in super::super) fn preempt_due(&self, alloc: AllocIx) -> Nanos {
        let row = &self.allocs[alloc];
        if !row.spec.may_preempt_others() || row.spec.required_node.is_some() || self.has_claim(alloc) {
            return NEVER;
        }
        let delay = self.queues[self.apps[row.app].queue].settings.preemption_delay;
        row.created.plus(delay).max(row.preemption_tried.plus(AGAIN))
    }

    /// Tries to preempt for the asks of a group that nothing could be placed of (R7.2). `None`: there was nothing to do. Whether
    /// the `gang` may preempt is found once for all of its groups: it takes a look at each of its asks, and each may be a group.
    pub(in super::super) fn preempt_group(
        &mut self,
        app: AppIx,
        key: &GroupKey,
        hold: Hold,
        gang: &mut Option<bool>,
        cx: &mut Cx,
    ) -> Option<Outcome> {
        if !self.conf.preemption || key.required_node.is_some() {
            return None;
        }
        let group = self.apps[app].groups_by_key.get(key)?;
        if group.preempt_at > cx.now {
            let at = group.preempt_at;
            self.wake_for_preemption(app, at, cx.now);
            return None;
        }
        if hold == Hold::GangRoom && !*gang.get_or_insert_with(|| self.gang_may_preempt(app)) {
            return None;
        }
        // Those before had their turn, and none of them may try again yet; otherwise it begins with the first.
        let goes_on = group.preempted_up_to.as_deref().copied().filter(|(_, again)| *again > cx.now);
        let (mut last, mut again) = (goes_on.map(|(last, _)| last), goes_on.map_or(NEVER, |(_, again)| again));
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let asks = group.asks.clone();
        let (queue, resource) = (self.apps[app].queue, self.shapes.resource(key.shape).clone());
        let (mut made, mut asked, mut last_tried) = (0, false, false);
        // Where it has to stop: when it may go on.
        let mut on = None;
        for (order, alloc) in asks.range((from, Bound::Unbounded)) {
            let at = self.preempt_due(*alloc);
            if at > cx.now {
                again = again.min(at);
                last = Some(*order);
                continue;
            }
            // R7.2: each that is promised room leaves less to the next, and none preempts for what its user may not have.
            let limited = hold != Hold::GangRoom && !self.user_fits_beside(app, &resource);
            on = if made == BATCH || limited {
                Some(cx.now)
            } else if hold == Hold::GangRoom && last_tried {
                // One of them tries for all.
                Some(cx.now.plus(AGAIN))
            } else {
                self.must_wait(queue, app, cx.now)
            };
            if on.is_some() {
                if made < BATCH && !limited && self.queues[queue].attempts.1 >= ATTEMPTS {
                    for alloc in asks.range(*order..).map(|(_, alloc)| *alloc).take(TOLD) {
                        if self.preempt_due(alloc) <= cx.now {
                            self.log(alloc, "Preemption max attempts exhausted", cx.now);
                        }
                    }
                }
                break;
            }
            (last, last_tried) = (Some(*order), true);
            self.allocs[*alloc].preemption_tried = cx.now;
            self.search.tried.insert(app);
            match self.try_preempt(*alloc, hold, cx) {
                Tried::Done => made += 1,
                Tried::Asked => asked = true,
                Tried::Failed { visits } => {
                    cx.tried(WEIGHT);
                    self.search.visits += visits;
                    self.queues[queue].attempts.1 += 1;
                    again = again.min(cx.now.plus(AGAIN));
                    self.log(*alloc, "Preemption does not help", cx.now);
                }
            }
        }
        let next = on.map_or(again, |on| on.min(again));
        if let Some(group) = self.apps[app].groups_by_key.get_mut(key) {
            group.preempt_at = next;
            group.preempted_up_to = last.filter(|_| on.is_some()).map(|last| Box::new((last, again)));
        }
        self.wake_for_preemption(app, next, cx.now);
        match made {
            0 if asked => Some(Outcome::Progress),
            0 => None,
            made => Some(Outcome::Preempted(made)),
        }
    }

    /// The shim refused what a search found that looked at so much.
    pub(in super::super) fn searched_in_vain(&mut self, visits: u64) {
        self.search.visits += visits;
    }

    /// The ask may try again at once: its attempt is not over (R7.21).
    pub(in super::super) fn try_next_node(&mut self, alloc: AllocIx, now: Nanos) {
        self.allocs[alloc].preemption_tried = now.minus(AGAIN);
    }

    /// The bounds of the present cycle are reached: when asks of the leaf may try again.
    fn must_wait(&mut self, leaf: QueueIx, app: AppIx, now: Nanos) -> Option<Nanos> {
        let used_up = self.are_attempts_used_up(leaf, now);
        let search = &mut self.search;
        let is_first = search.first_apps.contains(&(leaf, app));
        let mut first = search.first_apps.range((leaf, AppIx(0))..=(leaf, AppIx(u32::MAX)));
        let waits_in_leaf = used_up || (!is_first && first.next().is_some());
        let leaf_waits = search.visits >= VISITS || !(search.first.is_empty() || search.first.contains(&leaf));
        if !waits_in_leaf && !leaf_waits {
            // With the next answer there may be room.
            let full = self.ask_shim && !self.may_ask_about_victims(leaf);
            self.limited |= full;
            return full.then_some(now);
        }
        // Its turn in the leaf lasts until the leaf has its own.
        if (waits_in_leaf || is_first) && !search.tried.contains(&app) {
            search.denied_apps.insert((leaf, app));
        }
        if !waits_in_leaf && self.queues[leaf].attempts.1 == 0 {
            search.denied.insert(leaf);
        }
        Some(search.began.plus(CYCLE))
    }

    fn wake_for_preemption(&mut self, app: AppIx, at: Nanos, now: Nanos) {
        if at != NEVER && at > now {
            self.wake_at(app, at);
        }
    }

    /// Gangs have looked for nodes so much in this cycle, or others come first: when this one may.
    pub(in super::super) fn gang_must_wait(&mut self, app: AppIx, now: Nanos) -> Option<Nanos> {
        self.begin_cycle(now);
        let search = &mut self.search;
        let others = !search.first_gangs.is_empty() && !search.first_gangs.contains(&app);
        if !others && search.fits < FITS {
            return None;
        }
        if !search.gangs.contains(&app) {
            search.denied_gangs.insert(app);
        }
        Some(search.began.plus(CYCLE))
    }

    /// A gang looked for nodes for so many placeholders in vain.
    pub(in super::super) fn gang_looked(&mut self, app: AppIx, placeholders: usize) {
        self.search.fits += placeholders as u64;
        self.search.gangs.insert(app);
    }

    /// Begins a new cycle where the last is over; then says whether the leaf has no attempt left in it.
    fn are_attempts_used_up(&mut self, leaf: QueueIx, now: Nanos) -> bool {
        self.begin_cycle(now);
        let began = self.search.began;
        let attempts = &mut self.queues[leaf].attempts;
        if attempts.0 != began {
            *attempts = (began, 0);
        }
        attempts.1 >= ATTEMPTS
    }

    fn begin_cycle(&mut self, now: Nanos) {
        let cycles = now.minus(self.search.began).0 / CYCLE.0;
        if cycles >= 1 {
            let paid = |most: u64| most.saturating_mul(cycles.unsigned_abs());
            let before = std::mem::take(&mut self.search);
            let visits = before.visits.saturating_sub(paid(VISITS));
            let fits = before.fits.saturating_sub(paid(FITS));
            let first = next_turn(&before.first, before.denied);
            let first_apps = next_turn(&before.first_apps, before.denied_apps);
            let first_gangs = next_turn(&before.first_gangs, before.denied_gangs);
            self.search = Search { began: now, visits, fits, first, first_apps, first_gangs, ..Search::default() };
        }
    }

    /// Nodes whose only reservation gives way to this ask: one of lower priority that has waited for hours (R7.11).
    pub(super) fn stale_reservations(&self, alloc: AllocIx) -> impl Iterator<Item = NodeIx> + '_ {
        let priority = self.allocs[alloc].spec.priority;
        let now = self.search.began;
        let held = self.reserved_apps.iter().flat_map(|app| self.apps[*app].reservations.iter().copied());
        held.filter_map(move |other| {
            let row = &self.allocs[other];
            let node = row.reserved?;
            let age = now.minus(row.created);
            let gives_way = other != alloc
                && row.spec.required_node.is_none()
                && !self.has_claim(other)
                && row.spec.priority < priority
                && age > STALE.plus(self.reservation_delay)
                && self.nodes[node].reservations.len() == 1
                && self.nodes[node].schedulable();
            gives_way.then_some(node)
        })
    }
}

list!(Search {
    began,
    visits,
    cursor,
    pool,
    first,
    denied,
    first_apps,
    denied_apps,
    tried,
    fits,
    first_gangs,
    denied_gangs,
    gangs
});
