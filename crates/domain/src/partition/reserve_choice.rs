//! Which of the asks that wait for nodes reserve one, and which one (R5.34–R5.37). A reservation helps one ask and keeps its
//! room from all others, so there are few at a time, each on the node that can be expected to have room first, and none for
//! longer than it helps. What the ask does not need there stays open to others.
//!
//! Reservations of preemption and those of asks that require their node are made elsewhere and are not counted here.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    ops::Bound,
};

use super::{Cx, Partition, deadlines::Deadline, predicates::Intent, preempt::NEVER};
use crate::{
    alloc::Phase,
    app::{GroupKey, Hold},
    coded::{Coded, Error, Reader, Writer},
    effect::QuestionKind,
    resources::{Resource, ResourceType},
    types::{AllocIx, AppIx, AppState, Nanos, NodeIx, QueueIx, ShapeIx},
};

/// One of so many nodes may be reserved in a partition; of one leaf queue, one of twice as many. One each in any case.
const NODES_PER_RESERVATION: usize = 10;
/// A node that is expected to have room only after this is not worth a reservation.
const WORTH: Nanos = Nanos::from_secs(300);
/// Between two looks at the reservations that there are.
const REVIEW: Nanos = Nanos::from_secs(600);
/// After a search in vain the next one waits so long, unless a reservation ended.
const PAUSE: Nanos = Nanos::from_secs(1);
/// After so many sizes of asks for which no node was found a search ends, and the next goes on behind them.
const SIZES: usize = 8;
/// And after so many groups that were looked at.
const LOOKS: usize = 1_000;

/// A group of asks that may reserve: when the first of them was created, and whose it is.
type Wants = (Nanos, AppIx, GroupKey);
/// Groups of a queue and shape: where one of them may reserve nothing, none of them may.
type Alike = (QueueIx, ShapeIx);
/// A group that may reserve, and those that are like it.
pub(super) type Wanted = (Wants, Alike);

/// Groups of asks that may reserve, the longest waiting first.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanting {
    alike: imbl::OrdMap<Alike, imbl::OrdSet<Wants>>,
    /// The first of those that are alike, each.
    heads: imbl::OrdSet<Wanted>,
    /// No search before, without need.
    not_before: Option<Nanos>,
    /// A review is among the deadlines.
    review: bool,
}

impl Wanting {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.alike.values().map(imbl::OrdSet::len).sum()
    }

    /// Notes a group; true where it was not there.
    fn insert(&mut self, alike: Alike, wants: Wants) -> bool {
        self.change(alike, |groups| groups.insert(wants).is_none())
    }

    pub fn remove(&mut self, alike: Alike, wants: &Wants) {
        self.change(alike, |groups| groups.remove(wants));
    }

    fn change<R>(&mut self, alike: Alike, change: impl FnOnce(&mut imbl::OrdSet<Wants>) -> R) -> R {
        let groups = self.alike.entry(alike).or_default();
        let before = groups.get_min().cloned();
        let changed = change(groups);
        let after = groups.get_min().cloned();
        if after.is_none() {
            self.alike.remove(&alike);
        }
        if before != after {
            before.map(|head| self.heads.remove(&(head, alike)));
            after.map(|head| self.heads.insert((head, alike)));
        }
        changed
    }

    /// All of them in their order, those behind `after` only, but none of those that the caller says to leave out; these cost
    /// nothing.
    fn in_order(&self, after: Option<Wanted>) -> InOrder {
        InOrder { wanting: self.clone(), after, open: BinaryHeap::new() }
    }
}

/// See [`Wanting::in_order`].
struct InOrder {
    wanting: Wanting,
    /// The last head that was given.
    after: Option<Wanted>,
    /// What follows in those whose head was given.
    open: BinaryHeap<Reverse<Wanted>>,
}

impl InOrder {
    fn next(&mut self, leave_out: impl Fn(Alike) -> bool) -> Option<Wanted> {
        loop {
            let from = self.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let head = self.wanting.heads.range::<_, Wanted>((from, Bound::Unbounded)).next();
            let opened = self.open.peek().map(|Reverse(next)| next);
            let next = match (head, opened) {
                (Some(head), opened) if opened.is_none_or(|opened| head < opened) => {
                    let head = head.clone();
                    self.after = Some(head.clone());
                    head
                }
                _ => self.open.pop()?.0,
            };
            if leave_out(next.1) {
                continue;
            }
            let groups = self.wanting.alike.get(&next.1);
            let after = (Bound::Excluded(&next.0), Bound::Unbounded);
            let following = groups.and_then(|groups| groups.range::<_, Wants>(after).next());
            self.open.extend(following.map(|wants| Reverse((wants.clone(), next.1))));
            return Some(next);
        }
    }
}

impl Wanting {
    /// A node may be reserved again.
    pub fn again(&mut self) {
        self.not_before = None;
    }
}

/// A node that an ask may reserve.
#[derive(Clone, Copy, Debug)]
struct Choice {
    /// After how long it can be expected to have room.
    after: Nanos,
    /// See [`Partition::left_beside`].
    left: f64,
    node: NodeIx,
}

impl Choice {
    /// The first is the node that can be expected to have room first; of those at the same time, the one whose free resources the
    /// ask covers best (R5.34). In whole seconds: what began together ends together, as far as anybody can tell.
    fn order(&self, other: &Choice) -> Ordering {
        let seconds = self.after.as_secs().cmp(&other.after.as_secs());
        seconds.then(self.left.partial_cmp(&other.left).unwrap_or(Ordering::Equal))
    }
}

/// Counted reservations: in all, and by leaf queue.
#[derive(Default)]
struct Held {
    all: usize,
    by_queue: BTreeMap<QueueIx, usize>,
}

impl Partition {
    /// A group waits for nodes: the first of its asks that has waited long enough is to reserve one (R5.36), and the group is
    /// looked at again when the next of them has. True where it did not want one before: nothing is preempted for it until it
    /// is tried again, as it may have its node by then.
    pub(super) fn want_reservation(&mut self, app: AppIx, key: &GroupKey, now: Nanos) -> bool {
        let delay = self.reservation_delay;
        let Some(group) = self.apps[app].groups_by_key.get(key).filter(|_| delay != Nanos(i64::MAX)) else {
            return false;
        };
        let due = group.preempt_at;
        let (mut later, mut wanted) = (None, None);
        for alloc in group.asks.values().filter(|alloc| self.allocs[**alloc].reserved.is_none()) {
            let created = self.allocs[*alloc].created;
            let at = created.plus(delay);
            if at <= now {
                wanted = Some(created);
                break;
            }
            later = Some(later.map_or(at, |l: Nanos| l.min(at)));
        }
        if let Some(created) = wanted {
            let first = self.note_wanting(app, key, created);
            if first {
                self.wanting.again();
                if self.conf.preemption && due != NEVER {
                    // Due already: once more after the search for a node, since nothing else may come that tries it again.
                    self.wake_at(app, due.max(now.plus(PAUSE)));
                }
            }
            return first;
        }
        if let Some(at) = later {
            self.wake_at(app, at);
        }
        false
    }

    /// Nothing can be placed now: asks that have waited longest reserve nodes, as far as that is worth it. True where a node
    /// was reserved, or the shim is asked about one.
    pub(super) fn reserve_for_wanting(&mut self, cx: &mut Cx) -> bool {
        if self.wanting.heads.is_empty() || self.wanting.not_before.is_some_and(|at| cx.now < at) {
            return false;
        }
        let (most, most_of_queue) = self.most_held();
        let (mut held, mut taken) = self.held();
        let mut in_vain: Vec<ShapeIx> = Vec::new();
        // What asks of one shape may reserve is found once for all of them.
        let (mut young, mut lists) = (None, BTreeMap::new());
        let (mut made, mut more) = (false, true);
        let (from, mut stopped) = (self.searched.take(), None);
        // One ask of each group, then the next of each: nothing but these reservations changes meanwhile.
        while std::mem::take(&mut more) {
            in_vain.clear();
            let (mut groups, mut looks, mut last) = (self.wanting.in_order(from.clone()), 0, None);
            stopped = None;
            while held.all < most && (!self.ask_shim || self.may_ask()) {
                if in_vain.len() >= SIZES || looks >= LOOKS {
                    stopped = last;
                    break;
                }
                let next = groups.next(|(queue, shape)| {
                    in_vain.contains(&shape) || held.by_queue.get(&queue).is_some_and(|of| *of >= most_of_queue)
                });
                let Some((wanting, alike)) = next else { break };
                looks += 1;
                last = Some((wanting.clone(), alike));
                let (_, app, key) = &wanting;
                let queue = alike.0;
                // What waits for its gang would have to let go of the node at once (R5.38).
                let wants = self.still_wants(*app, key, cx.now) && !self.reserves_nothing(*app, key);
                let next = wants.then(|| self.next_to_reserve(*app, key, cx.now)).flatten();
                let Some(alloc) = next else {
                    self.wants_none(alike, &wanting);
                    // When it next wants one is found when it is tried, which it may not be as long as no node has room.
                    self.rouse_groups(*app);
                    continue;
                };
                let young = young.get_or_insert_with(|| self.young_nodes(cx.now));
                let list = lists.entry(key.shape).or_insert_with(|| {
                    let mut list: Vec<Choice> = self.worth_reserving(alloc, young, cx.now).collect();
                    list.sort_by(Choice::order);
                    list.into_iter()
                });
                match list.find(|choice| !taken.contains(&choice.node)) {
                    Some(Choice { node, .. }) => {
                        (made, more) = (true, true);
                        held.all += 1;
                        *held.by_queue.entry(queue).or_default() += 1;
                        taken.insert(node);
                        if self.ask_shim {
                            let kind = QuestionKind::Fits { allocate: false };
                            self.ask(alloc, (node, Vec::new()), Intent::Reserve, kind, cx);
                        } else {
                            self.reserve(alloc, node, cx);
                        }
                    }
                    None => in_vain.push(key.shape),
                }
            }
        }
        self.searched = stopped;
        self.wanting.not_before = (!made).then(|| cx.now.plus(PAUSE));
        made
    }

    /// Notes a group among those that may reserve a node; true where it was not, or not by this ask.
    fn note_wanting(&mut self, app: AppIx, key: &GroupKey, created: Nanos) -> bool {
        let row = &mut self.apps[app];
        let alike = (row.queue, key.shape);
        let Some(group) = row.groups_by_key.get_mut(key) else { return false };
        match group.wants.replace(created) {
            Some(before) if before == created => return false,
            Some(before) => self.wanting.remove(alike, &(before, app, key.clone())),
            None => {}
        }
        self.wanting.insert(alike, (created, app, key.clone()))
    }

    fn wants_none(&mut self, alike: Alike, wants: &Wants) {
        self.wanting.remove(alike, wants);
        if let Some(group) = self.apps[wants.1].groups_by_key.get_mut(&wants.2) {
            group.wants = None;
        }
    }

    /// No group may reserve a node any more.
    pub(super) fn forget_wanting(&mut self) {
        for (alike, groups) in self.wanting.alike.clone() {
            groups.iter().for_each(|wants| self.wants_none(alike, wants));
        }
        self.wanting.again();
    }

    /// What was read is put in order; earlier releases kept groups that are gone, and noted it nowhere else.
    pub(super) fn sort_wanting(&mut self) {
        for wants in std::mem::take(&mut self.wanting.alike).values().flatten() {
            let (created, app, key) = wants;
            if self.apps.get(*app).is_none() {
                continue;
            }
            let row = &mut self.apps[*app];
            let alike = (row.queue, key.shape);
            if let Some(group) = row.groups_by_key.get_mut(key)
                && *group.wants.get_or_insert(*created) == *created
            {
                self.wanting.insert(alike, wants.clone());
            }
        }
    }

    /// The bounds: in all, and of one leaf.
    fn most_held(&self) -> (usize, usize) {
        let nodes = self.node_by_id.len();
        (nodes.div_ceil(NODES_PER_RESERVATION), nodes.div_ceil(2 * NODES_PER_RESERVATION))
    }

    /// The bounds have room for one more of this leaf.
    pub(super) fn may_hold_another(&self, queue: QueueIx) -> bool {
        let ((held, _), (most, most_of_queue)) = (self.held(), self.most_held());
        held.all < most && held.by_queue.get(&queue).is_none_or(|of| *of < most_of_queue)
    }

    /// What counts against the bounds, and the nodes about which the shim is being asked for it: one ask each.
    fn held(&self) -> (Held, BTreeSet<NodeIx>) {
        let mut held = Held::default();
        let nodes = self.questions.to_reserve().map(|(_, node)| node).collect();
        for app in self.reserved_apps.iter() {
            let row = &self.apps[*app];
            let of = row.reservations.iter().filter(|alloc| self.is_for_waiting(**alloc)).count();
            held.all += of;
            *held.by_queue.entry(row.queue).or_default() += of;
        }
        (held, nodes)
    }

    /// The reservation is neither one of preemption nor one of a required node.
    pub(super) fn is_for_waiting(&self, alloc: AllocIx) -> bool {
        self.allocs[alloc].spec.required_node.is_none() && !self.has_claim(alloc)
    }

    fn still_wants(&self, app: AppIx, key: &GroupKey, now: Nanos) -> bool {
        let row = &self.apps[app];
        let waits = row.groups_by_key.get(key).is_some_and(|group| group.hold == Some(Hold::Nodes));
        !row.is_free()
            && waits
            && !matches!(row.state, AppState::Failing | AppState::Failed)
            && !row.expiring
            && row.backoff_until.is_none_or(|until| until <= now)
            && !self.may_not_begin(app)
            && self.user_fits_beside(app, self.shapes.resource(key.shape))
            && self.queue_fits(row.queue, self.shapes.resource(key.shape)).is_ok()
    }

    fn next_to_reserve(&self, app: AppIx, key: &GroupKey, now: Nanos) -> Option<AllocIx> {
        let group = self.apps[app].groups_by_key.get(key)?;
        group.asks.values().copied().find(|alloc| {
            let row = &self.allocs[*alloc];
            row.reserved.is_none() && row.created.plus(self.reservation_delay) <= now
        })
    }

    /// Nodes that take allocations, are reserved for nobody, and began something lately: others have no room soon.
    fn young_nodes(&self, now: Nanos) -> Vec<NodeIx> {
        self.open_nodes.iter().map(|(_, node)| *node).filter(|node| self.is_young(*node, now)).collect()
    }

    fn is_young(&self, node: NodeIx, now: Nanos) -> bool {
        let lately = |bound: Nanos| now.minus(bound) <= WORTH;
        let row = &self.nodes[node];
        // Most likely one of the last: what goes leaves its place to the last.
        lately(row.newest) && row.allocs.iter().rev().any(|alloc| lately(self.allocs[*alloc].bound))
    }

    /// What was read does not say when the newest of a node's allocations was bound, and says elsewhere whether it is open.
    pub(super) fn date_nodes(&mut self) {
        for node in self.nodes.keys() {
            let bound = self.nodes[node].allocs.iter().filter_map(|alloc| Some(self.allocs.get(*alloc)?.bound)).max();
            let row = &mut self.nodes[node];
            row.newest = bound.unwrap_or_default();
            row.open = self.open_nodes.contains(&(row.rank, node));
        }
    }

    /// The nodes that can be expected to have room for an ask in time.
    fn worth_reserving(&self, alloc: AllocIx, nodes: &[NodeIx], now: Nanos) -> impl Iterator<Item = Choice> {
        let resource = &self.allocs[alloc].resource;
        let may = move |node: &NodeIx| {
            self.nodes[*node].capacity.fits(resource) && !(self.ask_shim && self.is_refused(alloc, *node))
        };
        nodes.iter().copied().filter(may).filter_map(move |node| {
            let after = self.room_after(resource, node, now).filter(|after| *after <= WORTH)?;
            Some(Choice { after, left: self.left_beside(resource, node), node })
        })
    }

    /// After how long a node can be expected to have room. Nobody says how long an allocation lasts, but what has lasted long
    /// lasts long: each is taken to go on for as long as it has run. `None`: what runs there is not all that fills it.
    fn room_after(&self, resource: &Resource, node: NodeIx, now: Nanos) -> Option<Nanos> {
        let row = &self.nodes[node];
        let mut missing: Vec<(&ResourceType, i128)> = resource
            .iter()
            .filter(|(_, need)| *need > 0)
            .map(|(kind, need)| (kind, need - row.available.amount(kind)))
            .filter(|(_, missing)| *missing > 0)
            .collect();
        let mut after = Nanos::ZERO;
        // The youngest first.
        let mut held: Vec<AllocIx> = row.allocs.clone();
        held.sort_by_key(|alloc| Reverse((self.allocs[*alloc].bound, self.allocs[*alloc].seq)));
        for alloc in &held {
            if missing.is_empty() {
                break;
            }
            let held = &self.allocs[*alloc];
            if missing.iter().all(|(kind, _)| held.resource.amount(kind) <= 0) {
                continue;
            }
            after = after.max(now.minus(held.bound));
            missing.retain_mut(|(kind, missing)| {
                *missing -= held.resource.amount(kind);
                *missing > 0
            });
        }
        missing.is_empty().then_some(after)
    }

    /// How much of what is free on a node the ask leaves there: 0 where it takes all, one for each type that it does not use.
    fn left_beside(&self, resource: &Resource, node: NodeIx) -> f64 {
        let free = self.nodes[node].available.iter().filter(|(_, free)| *free > 0);
        free.map(|(kind, free)| match resource.get(kind).filter(|need| *need > 0) {
            None => 1.0,
            Some(need) => ((free - need) as f64 / free as f64).max(0.0),
        })
        .sum()
    }

    /// There is a reservation, and it will be looked at again.
    pub(super) fn plan_review(&mut self, now: Nanos) {
        if !std::mem::replace(&mut self.wanting.review, true) {
            self.deadlines.add(now.plus(REVIEW), Deadline::Reservations);
        }
    }

    /// Reservations move where another node can be expected to have room in less than half the time, and end where none is
    /// worth one any more, or a limit holds their ask meanwhile (R5.30, R5.40).
    pub(super) fn review_reservations(&mut self, cx: &mut Cx) {
        self.wanting.review = false;
        self.end_reservations_in_vain(true, cx);
        let apps = self.reserved_apps.iter();
        let held: Vec<AllocIx> = apps.flat_map(|app| self.apps[*app].reservations.iter().copied()).collect();
        // Found once for all asks of a shape, until the nodes change that may be reserved.
        let (mut young, mut best) = (None, BTreeMap::new());
        for alloc in held {
            let row = &self.allocs[alloc];
            let Some(node) = row.reserved.filter(|_| self.is_for_waiting(alloc)) else { continue };
            let shape = row.shape;
            if row.phase == Phase::Pending && self.end_refused_reservation(alloc, cx) {
                young = None;
                best.clear();
                continue;
            }
            let row = &self.allocs[alloc];
            let after = self.room_after(&row.resource, node, cx.now).unwrap_or(Nanos(i64::MAX));
            if self.ask_shim && after <= WORTH {
                continue;
            }
            let best_of = best.entry(shape).or_insert_with(|| {
                let young = young.get_or_insert_with(|| self.young_nodes(cx.now));
                self.worth_reserving(alloc, young, cx.now).min_by(Choice::order)
            });
            let changed = match *best_of {
                Some(sooner) if sooner.after.0 < after.0 / 2 && !self.ask_shim => {
                    self.reserve(alloc, sooner.node, cx);
                    true
                }
                None if after > WORTH => {
                    self.let_go(alloc, cx);
                    self.is_young(node, cx.now)
                }
                _ => false,
            };
            if changed {
                young = None;
                best.clear();
            }
        }
        if self.reservations > 0 {
            self.plan_review(cx.now);
        }
    }

    /// All that reserve the node wait for room there, and nothing was preempted for them: what they do not need is open.
    pub(super) fn is_shared(&self, node: NodeIx) -> bool {
        self.nodes[node].reservations.iter().all(|alloc| self.is_for_waiting(alloc))
    }

    /// What others may use of the node that an ask has reserved has changed.
    pub(super) fn reindex_reserved(&mut self, alloc: AllocIx) {
        if let Some(node) = self.allocs[alloc].reserved {
            self.reindex(node);
        }
    }

    /// What is free on a node beyond what is reserved of it.
    pub(super) fn open_room(&self, node: NodeIx) -> Resource {
        let row = &self.nodes[node];
        let mut room = row.available.value();
        for (kind, wanted) in row.reservations.wanted().iter() {
            let free = room.amount(kind);
            room.set(kind.clone(), (free - wanted).max(0).min(free));
        }
        room
    }
}

impl Coded for Wanting {
    fn write(&self, to: &mut Writer) {
        let Wanting { alike, heads: _, not_before, review } = self;
        to.array(3);
        let mut groups: Vec<&Wants> = alike.values().flatten().collect();
        groups.sort();
        to.array(groups.len());
        groups.into_iter().for_each(|wants| wants.write(to));
        not_before.write(to);
        review.write(to);
    }

    /// Of which queue they are is found when the applications are there: see [`Partition::sort_wanting`].
    fn read(from: &mut Reader) -> Result<Self, Error> {
        let (groups, not_before, review): (imbl::OrdSet<Wants>, Option<Nanos>, bool) = Coded::read(from)?;
        let alike = imbl::OrdMap::unit((QueueIx(0), ShapeIx(0)), groups);
        Ok(Wanting { alike, not_before, review, ..Wanting::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    fn wants(created: i64, app: u32, shape: u32) -> Wants {
        let key = GroupKey {
            shape: ShapeIx(shape),
            placeholder: false,
            task_group: Default::default(),
            required_node: None,
            originator: false,
            paused: false,
        };
        (Nanos(created), AppIx(app), key)
    }

    proptest! {
        #[test]
        fn groups_come_in_their_order_without_those_that_are_left_out(
            steps in prop::collection::vec((any::<bool>(), 0i64..4, 0u32..6, 0u32..3), 0..60),
            out in prop::collection::btree_set((0u32..2, 0u32..3), 0..3),
        ) {
            let (mut wanting, mut all) = (Wanting::default(), BTreeSet::new());
            for (add, created, app, shape) in steps {
                // An application stays in its queue.
                let (alike, wants) = ((QueueIx(app % 2), ShapeIx(shape)), wants(created, app, shape));
                if add {
                    prop_assert_eq!(wanting.insert(alike, wants.clone()), all.insert((wants, alike)));
                } else {
                    wanting.remove(alike, &wants);
                    all.remove(&(wants, alike));
                }
            }
            let left_out = |(queue, shape): Alike| out.contains(&(queue.0, shape.0));
            let looks = Cell::new(0);
            let mut groups = wanting.in_order(None);
            let found: Vec<_> = std::iter::from_fn(|| groups.next(|alike| {
                looks.set(looks.get() + 1);
                left_out(alike)
            })).collect();
            let expected: Vec<_> = all.iter().filter(|(_, alike)| !left_out(*alike)).cloned().collect();
            prop_assert!(looks.get() <= expected.len() + out.len(), "one look at those that are left out");
            prop_assert_eq!(found, expected);
            prop_assert_eq!(wanting.heads.len(), wanting.alike.len());
        }
    }
}
