//! Why asks wait, as the scheduler sees it now: the questions of the scheduling step in their order, asked without
//! changing anything (R5.23–R5.27, R6.7, SEEDS S10 and S11).

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    iter::successors,
    mem,
    ops::Bound,
    sync::Arc,
};

use super::{Partition, node_sizes::NodeSizes, preempt::gap, shapes::Size};
use crate::{
    alloc::{Alloc, Failures, LogEntry, Phase},
    app::{AskGroup, AskOrder, GroupKey},
    resources::{Resource, ResourceType},
    types::{AllocIx, AppIx, AppState, Nanos, NodeIx, ObjectState, QueueIx, ShapeIx},
    ugm::LimitRefusal,
};

/// Why an ask waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The partition is being stopped.
    Stopped,
    /// No node is registered.
    NoNodes,
    /// The application is on its way out: nothing new is placed for it.
    Ending(AppState),
    /// Too many of its asks failed on nodes: the application waits until then (R5.26).
    BackOff(Nanos),
    /// The shim could not carry out so many of its allocations in a row, the last on this node: it pauses until then (R4.28). Of a gang
    /// that is placed all at once, one of its placeholders does.
    Failures(Failures),
    /// Its queue became a parent, and places nothing until it is a leaf again (CFG-102).
    NotALeaf,
    /// This queue, or one above, runs as many applications as it may (R4.36).
    RunningApps {
        /// Full path of the queue.
        queue: Arc<str>,
        /// Running at most.
        max: u64,
        /// Running and starting.
        running: u64,
    },
    /// A user or group runs as many applications as it may.
    UserApps(LimitRefusal),
    /// A real ask waits until the placeholders of its gang are placed (SEEDS S10).
    Gang {
        /// Placeholders that are not placed yet.
        missing: u32,
        /// Placeholders that are.
        placed: u32,
    },
    /// A real ask waits for the first placeholder of its gang, until then at most (SEEDS S10).
    GangToCome(Nanos),
    /// A real ask waits for a placeholder of its task group, which it is to replace (R6.7).
    Placeholder {
        /// Placeholders of the group that wait, or are placed and not being replaced.
        live: u64,
        /// All of them were told to go.
        leaving: bool,
    },
    /// So it would, and the shim refused it on so many nodes.
    Refused {
        /// As in [`Why::Placeholder`].
        live: u64,
        /// Where it was refused.
        nodes: usize,
        /// What the shim said of the first of them.
        said: Arc<str>,
    },
    /// A queue has no room for the whole gang (SEEDS S11); what is wanted is [`Waiting::wanted`].
    GangRoom {
        /// Path of the level that has none.
        queue: Arc<str>,
        /// Its max.
        max: Resource,
        /// What is used of it.
        used: Resource,
        /// What is promised beside that to asks that have preempted.
        promised: Resource,
        /// What is kept of it for the placeholders of gangs that have begun.
        kept: Resource,
        /// What its application has itself, where the gang waits for the end of that; else nothing.
        own: Box<Resource>,
    },
    /// A gang that is placed all at once, of which not all placeholders have come yet: the sum of those that have.
    GangShort(Resource),
    /// The nodes have no room for all placeholders of a gang at once; what is wanted is [`Waiting::wanted`].
    GangNodes(Arc<Nodes>),
    /// A limit of the user or group on resources.
    UserQuota(LimitRefusal),
    /// The max of a queue.
    QueueQuota {
        /// Path of the level that has no room.
        queue: Arc<str>,
        /// Its max.
        max: Resource,
        /// What is used of it.
        used: Resource,
        /// What is promised beside that to asks that have preempted.
        promised: Resource,
    },
    /// Its required node.
    RequiredNode {
        /// Id of the node.
        node: Arc<str>,
        /// What is the matter with it.
        why: Unfit,
        /// What is free on it; `None` where it is not registered.
        free: Option<Resource>,
        /// What the shim said, where it refused it.
        said: Option<Arc<str>>,
    },
    /// No node takes it.
    Nodes(Arc<Nodes>),
    /// The shim is being asked whether it fits on this node.
    Asking(Arc<str>),
    /// It takes the place of a placeholder, which the shim has been asked to release (R6.13).
    Replacing {
        /// Key of the placeholder.
        placeholder: Arc<str>,
        /// Id of the node that it will run on.
        node: Arc<str>,
    },
    /// It has preempted, and is placed when those are gone who go for it (section 7 of the scheduling rules).
    Preempting {
        /// The node that is kept for it.
        node: Arc<str>,
        /// Application and key of those whose end the shim has not confirmed; at least one.
        leaving: Vec<(Arc<str>, Arc<str>)>,
        /// What the node lacks for it even when they are gone.
        lacks: Resource,
    },
    /// Nothing holds it back: it is placed when its turn comes.
    Turn,
}

/// What is the matter with a required node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is not registered.
    Unknown,
    /// It is too small, even when empty.
    TooSmall,
    /// It has not enough left; it is reserved for the ask meanwhile.
    Full,
    /// It is reserved for another ask.
    Reserved,
    /// The shim refused it.
    Refused,
}

/// Why no node takes an ask: each node is counted in the first row that holds for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nodes {
    /// Too small, even when empty.
    pub too_small: usize,
    /// Large enough, but drained.
    pub drained: usize,
    /// Without enough left.
    pub full: usize,
    /// With enough left, but reserved for other asks.
    pub reserved: usize,
    /// The first of those by id, and whom it is kept for, where the nodes were looked at one by one.
    pub kept_for: Option<KeptFor>,
    /// Refused by the shim.
    pub refused: usize,
    /// They would take it: a decision is due.
    pub open: usize,
    /// The most of each wanted type that any node has when empty.
    pub largest: Resource,
    /// What the shim said of the first node that it refused.
    pub refusal: Option<Arc<str>>,
    /// The most of each wanted type that one node that is large enough and takes allocations has left.
    pub most_free: Resource,
    /// What those nodes have left together.
    pub all_free: Resource,
}

/// A node, and the ask that it is kept for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFor {
    /// Id of the node.
    pub node: Arc<str>,
    /// The application of the ask.
    pub app: Arc<str>,
    /// Key of the ask.
    pub key: Arc<str>,
}

impl Nodes {
    /// The shim refused the only room that there is.
    pub fn is_refused(&self) -> bool {
        self.refused > 0 && self.reserved + self.open == 0
    }

    /// None is large enough, even when empty.
    pub fn is_too_large(&self) -> bool {
        self.drained + self.full + self.reserved + self.refused + self.open == 0 && self.too_small > 0
    }
}

/// Asks of an application that wait for the same reason.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Number of the asks.
    pub asks: u64,
    /// The first of them in their order.
    pub first: AllocIx,
    /// Size of each: memory in bytes, vcore in milli.
    pub resource: Arc<Resource>,
    /// What has to fit at once: the size of one, or of the whole gang where it is held back as a whole.
    pub wanted: Arc<Resource>,
    /// They are placeholders of a gang.
    pub placeholder: bool,
    /// Task group, empty for none.
    pub task_group: Arc<str>,
    /// Creation time of the oldest.
    pub since: Nanos,
    /// The reason.
    pub why: Why,
    /// Asks that the shim is being asked about: those that nothing holds back may have to wait for what it says.
    pub asked: usize,
    /// As many as may be asked about at a time: the next have to wait for an answer.
    pub asked_all: bool,
    /// What the scheduler noted of the first ask (R4.34), by last occurrence.
    pub log: Vec<LogEntry>,
}

/// What the scheduler noted of an ask, by last occurrence.
fn notes(ask: &Alloc) -> Vec<LogEntry> {
    let mut log = ask.log.clone();
    log.sort_by_key(|entry| entry.last);
    log
}

/// Groups that wait for the same as one: where the shim is asked about each ask, each is a group of its own to the scheduler.
fn joined(all: impl Iterator<Item = Waiting>) -> Vec<Waiting> {
    let mut found: Vec<Waiting> = Vec::new();
    let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for one in all {
        let size = Size(one.resource.clone());
        let those = alike.entry((one.why.mark(), one.placeholder, one.task_group.clone(), size)).or_default();
        match those.iter().find(|at| found[**at].why == one.why) {
            Some(at) => {
                let first = &mut found[*at];
                first.asks += one.asks;
                first.since = first.since.min(one.since);
            }
            None => {
                those.push(found.len());
                found.push(one);
            }
        }
    }
    found
}

impl Why {
    /// Tells most reasons apart that are not equal; of equal ones it is equal.
    fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        mem::discriminant(self).hash(&mut hasher);
        match self {
            Why::RequiredNode { node, .. } | Why::Asking(node) | Why::Preempting { node, .. } => node.hash(&mut hasher),
            Why::Replacing { placeholder, .. } => placeholder.hash(&mut hasher),
            Why::Nodes(nodes) | Why::GangNodes(nodes) => (nodes.refused, &nodes.refusal).hash(&mut hasher),
            Why::Refused { nodes, said, .. } => (nodes, said).hash(&mut hasher),
            _ => {}
        }
        hasher.finish()
    }
}

/// With the place of the first of them in the order of their application.
type Ordered = (AskOrder, Waiting);

/// An ask that has preempted, and who goes for it.
type Preempting = (AskOrder, AllocIx, Why);

/// Explains the asks of one state of a partition; remembers what it found out about the nodes.
pub struct Explainer<'a> {
    partition: &'a Partition,
    nodes: BTreeMap<Size, Arc<Nodes>>,
    /// A copy of it, in which gangs are tried; made for the first of them.
    copy: Option<Box<Partition>>,
    /// Asks of gangs that may still be tried.
    tries: usize,
    /// Sizes of asks for which all nodes are looked at one by one.
    sizes: usize,
    /// For more sizes; made for the first of them.
    by_size: Option<NodeSizes>,
}

/// See `Explainer::sizes`.
const SIZES: usize = 256;
/// See `Explainer::tries`.
const TRIES: usize = 2_000;

impl<'a> Explainer<'a> {
    /// For this state.
    pub fn new(partition: &'a Partition) -> Explainer<'a> {
        Explainer { partition, nodes: BTreeMap::new(), copy: None, tries: TRIES, sizes: SIZES, by_size: None }
    }

    /// For this state, without a look at the nodes: of an ask that waits for them is told that it does.
    pub fn brief(partition: &'a Partition) -> Explainer<'a> {
        Explainer { sizes: 0, tries: 0, ..Explainer::new(partition) }
    }

    /// Why one ask of an application waits, with the number of those that wait for the same; `None` where it does not wait, or
    /// there is no such ask. It stands for the first, with its own log and age. `now` is the time.
    pub fn ask(&mut self, app: AppIx, key: &str, now: Nanos) -> Option<Waiting> {
        let partition = self.partition;
        let row = partition.apps.get(app)?;
        let alloc = partition.by_key(app, key)?;
        if partition.allocs.get(alloc)?.phase != Phase::Pending {
            return self.at_the_shim(alloc).map(|(_, waiting)| waiting);
        }
        let key = partition.group_key(alloc);
        let group = row.groups_by_key.get(&key)?;
        let whole = self.application_waits(app, now);
        let all = if whole.is_none() { self.preempting(app) } else { BTreeMap::new() };
        let preempting = all.get(&key).cloned().unwrap_or_default();
        let has_preempted = preempting.iter().any(|(_, other, _)| *other == alloc);
        let (those, others) = self.of_group(app, (&key, group), preempting, whole.as_ref());
        let (_, waiting) = (if has_preempted { those } else { others })?;
        let ask = &partition.allocs[alloc];
        Some(Waiting { first: alloc, since: ask.created, log: notes(ask), ..waiting })
    }

    /// What of an application waits, and why: first what comes first in its order. `now` is the time.
    pub fn application(&mut self, app: AppIx, now: Nanos) -> Vec<Waiting> {
        let partition = self.partition;
        let Some(row) = partition.apps.get(app) else { return Vec::new() };
        let whole = self.application_waits(app, now);
        let mut found: Vec<Ordered> = Vec::new();
        let mut preempting = if whole.is_none() { self.preempting(app) } else { BTreeMap::new() };
        for (key, group) in row.groups_by_key.iter() {
            let those = preempting.remove(key).unwrap_or_default();
            let (those, others) = self.of_group(app, (key, group), those, whole.as_ref());
            found.extend(those.into_iter().chain(others));
        }
        if partition.ask_shim || row.gang.swaps > 0 {
            found.extend(row.by_seq.values().filter_map(|alloc| self.at_the_shim(*alloc)));
        }
        found.sort_by_key(|(order, _)| *order);
        joined(found.into_iter().map(|(_, waiting)| waiting))
    }

    /// The first of that: no other group is looked at.
    pub fn first(&mut self, app: AppIx, now: Nanos) -> Option<Waiting> {
        let partition = self.partition;
        let row = partition.apps.get(app)?;
        let asks = row.groups_by_key.iter().filter_map(|(key, group)| Some((group.asks.get_min()?.0, key, group)));
        let group = asks.min_by_key(|(order, ..)| *order).and_then(|(_, key, group)| {
            let whole = self.application_waits(app, now);
            let those = if whole.is_none() { self.preempting(app).remove(key) } else { None };
            let (those, others) = self.of_group(app, (key, group), those.unwrap_or_default(), whole.as_ref());
            those.into_iter().chain(others).min_by_key(|(order, _)| *order)
        });
        let asked = partition.ask_shim || row.gang.swaps > 0;
        let asked = row.by_seq.values().filter(|_| asked).filter_map(|alloc| self.at_the_shim(*alloc));
        asked.chain(group).min_by_key(|(order, _)| *order).map(|(_, waiting)| waiting)
    }

    /// What waits for a word of the shim alone: whether it fits, or that its placeholder is gone.
    fn at_the_shim(&self, alloc: AllocIx) -> Option<Ordered> {
        let partition = self.partition;
        let row = &partition.allocs[alloc];
        let node = || row.node.and_then(|node| partition.nodes.get(node)).map(|node| node.spec.id.clone());
        let why = match row.phase {
            Phase::AwaitingShim => Why::Asking(node().unwrap_or_default()),
            Phase::Replacing => Why::Replacing {
                placeholder: partition.allocs[row.link?].spec.key.clone(),
                node: node().unwrap_or_default(),
            },
            _ => return None,
        };
        Some((partition.ask_order(alloc), self.waiting(alloc, (1, row.created), why)))
    }

    /// The asks of a group that have preempted, and the others. `whole`: what holds back the application.
    fn of_group(
        &mut self,
        app: AppIx,
        (key, group): (&GroupKey, &AskGroup),
        preempting: Vec<Preempting>,
        whole: Option<&Why>,
    ) -> (Option<Ordered>, Option<Ordered>) {
        let others = group.asks.len() as u64 - preempting.len() as u64;
        let next = |from: Bound<AskOrder>| {
            let mut asks = group.asks.range((from, Bound::Unbounded)).map(|(order, alloc)| (*order, *alloc));
            asks.find(|(_, alloc)| preempting.iter().all(|(_, other, _)| other != alloc))
        };
        let first = next(Bound::Unbounded).map(|first| {
            // The first of each priority is the oldest of it.
            let of_each = successors(Some(first), |(order, _)| {
                next(Bound::Excluded(AskOrder { created: Nanos(i64::MAX), seq: u64::MAX, ..*order }))
            });
            let since = of_each.map(|(order, _)| order.created).min().unwrap_or_default();
            let (order, alloc) = first;
            let why = whole.cloned().unwrap_or_else(|| self.group_waits(app, key, alloc));
            (order, self.waiting(alloc, (others, since), why))
        });
        let since = preempting.iter().map(|(order, ..)| order.created).min().unwrap_or_default();
        let those = (preempting.len() as u64, since);
        let preempting = preempting.into_iter().min_by_key(|(order, ..)| *order);
        (preempting.map(|(order, alloc, why)| (order, self.waiting(alloc, those, why))), first)
    }

    /// The asks of an application for which others have to go, by group. Limits of queues may be used up by just those.
    fn preempting(&self, app: AppIx) -> BTreeMap<GroupKey, Vec<Preempting>> {
        let partition = self.partition;
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for alloc in partition.apps[app].reservations.iter().copied() {
            let node = partition.allocs[alloc].reserved.and_then(|node| partition.nodes.get(node));
            let name = |row: &Alloc| (partition.apps[row.app].id.clone(), row.spec.key.clone());
            let leaving: Vec<_> = partition.leaving_for(alloc).map(name).collect();
            let row = &partition.allocs[alloc];
            if let Some(node) = node.filter(|_| !leaving.is_empty() && partition.user_fits(app, &row.resource)) {
                let (node, lacks) = (node.spec.id.clone(), partition.lacks_then(alloc));
                let why = Why::Preempting { node, leaving, lacks };
                let of = found.entry(partition.group_key(alloc)).or_default();
                of.push((partition.ask_order(alloc), alloc, why));
            }
        }
        found
    }

    /// With the number of the asks, and when the oldest of them was created.
    fn waiting(&self, first: AllocIx, (asks, since): (u64, Nanos), why: Why) -> Waiting {
        let row = &self.partition.allocs[first];
        let key = self.partition.group_key(first);
        let whole = match &why {
            Why::GangRoom { .. } | Why::GangShort(_) | Why::GangNodes(_) => true,
            Why::UserQuota(_) => self.partition.goes_all_at_once(row.app, &key),
            _ => false,
        };
        let wanted = if whole { Arc::new(self.partition.gang_total(row.app)) } else { row.resource.clone() };
        Waiting {
            asks,
            first,
            resource: row.resource.clone(),
            wanted,
            placeholder: row.is_placeholder(),
            task_group: row.spec.task_group.clone(),
            since,
            why,
            asked: if self.partition.ask_shim { self.partition.questions.number() } else { 0 },
            asked_all: self.partition.ask_shim && !self.partition.may_ask(),
            log: notes(row),
        }
    }

    /// What holds back all of an application.
    fn application_waits(&self, app: AppIx, now: Nanos) -> Option<Why> {
        let partition = self.partition;
        let row = &partition.apps[app];
        if partition.state == ObjectState::Stopped {
            return Some(Why::Stopped);
        }
        if partition.node_by_id.is_empty() {
            return Some(Why::NoNodes);
        }
        if partition.is_ending(app) {
            return Some(Why::Ending(row.state));
        }
        if let Some(until) = row.backoff_until.filter(|until| *until > now) {
            return Some(Why::BackOff(until));
        }
        if !partition.queues[row.queue].leaf {
            return Some(Why::NotALeaf);
        }
        if row.state != AppState::Accepted {
            return None;
        }
        partition
            .full_of_apps(app)
            .map(|queue| {
                let row = &partition.queues[queue];
                Why::RunningApps { queue: row.path.clone(), max: row.max_applications, running: row.begun() }
            })
            .or_else(|| row.track.and_then(|track| partition.ugm.held(track)).map(Why::UserApps))
    }

    /// What holds back a group, in the order in which the scheduling step finds out.
    fn group_waits(&mut self, app: AppIx, key: &GroupKey, first: AllocIx) -> Why {
        let partition = self.partition;
        let row = &partition.apps[app];
        if let Some(failures) = partition.allocs[first].failures.as_deref().filter(|_| key.paused) {
            return Why::Failures(failures.clone());
        }
        if key.placeholder {
            if let Some(level) = partition.gang_level(app) {
                let claimant = partition.gang_claimant(app);
                let mut preempting = self.preempting(app).into_values().flatten();
                if let Some((.., why)) = preempting.find(|(_, alloc, _)| Some(*alloc) == claimant) {
                    return why;
                }
                let queue = &partition.queues[level];
                return self.gang_room(app, level, Resource::clone(&queue.awaited));
            }
            if partition.goes_all_at_once(app, key) {
                return self.whole_gang_waits(app, key, first);
            }
        } else if row.state == AppState::Accepted && row.awaits_placeholders() {
            let missing = row.gang.pending_placeholders + row.gang.awaiting_shim;
            return Why::Gang { missing, placed: row.gang.placeholders };
        } else if let Some((_, until)) = row.gang.wait.filter(|_| row.waits_for_first_placeholder(key)) {
            return Why::GangToCome(until);
        } else if let live @ 1.. = row.replaceable_later(key) {
            return self.placeholder(live, first);
        }
        let resource = &partition.allocs[first].resource;
        if let Some(refusal) = row.track.and_then(|track| partition.ugm.exceeded(track, resource)) {
            return Why::UserQuota(refusal);
        }
        let level = partition.queue_fits(row.queue, resource).err();
        if let Some(level) = level.filter(|level| *level != partition.root) {
            return self.queue_quota(level);
        }
        let why = match &key.required_node {
            Some(node) => partition.required(first, node),
            None => {
                let nodes = self.nodes_of(key.shape, first);
                if nodes.open > 0 { Why::Turn } else { Why::Nodes(nodes) }
            }
        };
        match level {
            // A node has room, and yet all of them together have not: one holds more than it has.
            Some(root) if why == Why::Turn => self.queue_quota(root),
            _ => why,
        }
    }

    /// What holds back a gang that is placed all at once, in the order of the step.
    fn whole_gang_waits(&mut self, app: AppIx, key: &GroupKey, first: AllocIx) -> Why {
        let partition = self.partition;
        let row = &partition.apps[app];
        if partition.is_gang_short(app) {
            return Why::GangShort(Resource::clone(&row.gang.announced));
        }
        let paused = partition.gang(app).map(|(_, alloc)| &partition.allocs[*alloc]);
        let paused = paused.filter(|ask| ask.paused_until().is_some()).max_by_key(|ask| ask.paused_until());
        if let Some(failures) = paused.and_then(|ask| ask.failures.as_deref()) {
            return Why::Failures(failures.clone());
        }
        let total = &row.gang.awaited;
        if let Some(refusal) = row.track.and_then(|track| partition.ugm.exceeded(track, total)) {
            return Why::UserQuota(refusal);
        }
        if let Err(level) = partition.queue_fits(row.queue, total)
            && level != partition.root
        {
            return self.gang_room(app, level, Resource::default());
        }
        if let Some(node) = &key.required_node
            && let why @ Why::RequiredNode { .. } = partition.required(first, node)
        {
            return why;
        }
        if row.gang.awaiting_shim > 0 || self.gang_fits(app) {
            // While the shim is asked about the others it waits for the answers.
            return Why::Turn;
        }
        // Each of them may fit where all of them do not; where one was refused, that is the one to be told of.
        let is_refused = |ask: &AllocIx| partition.refusals(*ask).next().is_some();
        let refused = partition.gang(app).map(|(_, ask)| *ask).find(is_refused);
        let ask = refused.unwrap_or(first);
        Why::GangNodes(self.nodes_of(partition.allocs[ask].shape, ask))
    }

    /// All of a gang would be placed if it were tried now; of one with too many asks to find that out, no.
    fn gang_fits(&mut self, app: AppIx) -> bool {
        let row = &self.partition.apps[app];
        let Some(left) = self.tries.checked_sub(row.gang.pending_placeholders as usize) else { return false };
        self.tries = left;
        self.copy.get_or_insert_with(|| Box::new(self.partition.clone())).fit_gang(app).is_some()
    }

    fn gang_room(&self, app: AppIx, level: QueueIx, kept: Resource) -> Why {
        let (queue, max, used, promised) = self.used_of(level);
        let own = self.partition.in_its_own_way(app, &self.partition.gang_shortage(app).0).unwrap_or_default();
        Why::GangRoom { queue, max, used, promised, kept, own: own.into() }
    }

    fn queue_quota(&self, level: QueueIx) -> Why {
        let (queue, max, used, promised) = self.used_of(level);
        Why::QueueQuota { queue, max, used, promised }
    }

    /// A level by its path, with its max, what is used of it, and what is promised beside that.
    fn used_of(&self, level: QueueIx) -> (Arc<str>, Resource, Resource, Resource) {
        let queue = &self.partition.queues[level];
        let promised = gap(&queue.claimed, &queue.preempting);
        (queue.path.clone(), queue.max.as_deref().cloned().unwrap_or_default(), queue.allocated.value(), promised)
    }

    fn placeholder(&self, live: u64, ask: AllocIx) -> Why {
        let mut refusals = self.partition.refusals(ask);
        let Some((_, said)) = refusals.next() else {
            return Why::Placeholder { live, leaving: self.partition.placeholders_leave(ask) };
        };
        Why::Refused { live, said: said.clone(), nodes: 1 + refusals.count() }
    }

    /// What the nodes say to an ask: what they say to its size, and what the shim said of it.
    fn nodes_of(&mut self, shape: ShapeIx, ask: AllocIx) -> Arc<Nodes> {
        let partition = self.partition;
        let resource = &partition.allocs[ask].resource;
        let key = Size(resource.clone());
        let known = match self.nodes.get(&key) {
            Some(known) => known.clone(),
            None if self.sizes == 0 => {
                let open = usize::from(!partition.shapes.is_nowhere(shape));
                return Arc::new(Nodes { open, ..Nodes::default() });
            }
            None if self.nodes.len() >= self.sizes => {
                let by_size = self.by_size.get_or_insert_with(|| NodeSizes::of(partition));
                Arc::new(by_size.say(resource, partition.shapes.is_nowhere(shape)))
            }
            None => {
                let found = Arc::new(self.look_at_nodes(ask));
                self.nodes.insert(key, found.clone());
                found
            }
        };
        let refused = partition.refusals(ask).filter(|(node, _)| partition.has_open_room(*node, resource, ask));
        let refused: Vec<&Arc<str>> = refused.map(|(_, reason)| reason).collect();
        // What was refused may be forgotten, as something came there, and is asked about again in its time only.
        let later = partition.refused_before(ask).filter(|_| known.open > 0 && partition.shapes.is_nowhere(shape));
        let Some(first) = refused.first().copied().or(later) else { return known };
        let mut own = Nodes::clone(&known);
        let count = if later.is_some() { own.open.max(refused.len()) } else { refused.len() };
        own.refusal.get_or_insert_with(|| first.clone());
        own.refused += count;
        own.open = own.open.saturating_sub(count);
        Arc::new(own)
    }

    fn look_at_nodes(&self, ask: AllocIx) -> Nodes {
        let partition = self.partition;
        let resource = &partition.allocs[ask].resource;
        let wanted: Vec<&ResourceType> = resource.iter().filter(|(_, n)| *n > 0).map(|(kind, _)| kind).collect();
        let mut found = Nodes::default();
        for at in partition.node_by_id.values().copied() {
            let node = &partition.nodes[at];
            for kind in &wanted {
                found
                    .largest
                    .set(ResourceType::clone(kind), found.largest.amount(kind).max(node.capacity.amount(kind)));
            }
            if !node.capacity.fits(resource) {
                found.too_small += 1;
                continue;
            }
            if !node.schedulable() {
                found.drained += 1;
                continue;
            }
            for kind in &wanted {
                let free = node.available.amount(kind).max(0);
                found.most_free.set(ResourceType::clone(kind), found.most_free.amount(kind).max(free));
                found.all_free.set(ResourceType::clone(kind), found.all_free.amount(kind) + free);
            }
            if !node.available.fits(resource) {
                found.full += 1;
            } else if partition.has_open_room(at, resource, ask) && partition.fits_beside_claims(ask, at) {
                found.open += 1;
            } else {
                found.reserved += 1;
                found.kept_for = found.kept_for.or_else(|| self.kept_for(at, ask));
            }
        }
        found
    }

    fn kept_for(&self, at: NodeIx, ask: AllocIx) -> Option<KeptFor> {
        let node = &self.partition.nodes[at];
        let other = &self.partition.allocs[node.reservations.iter().find(|other| *other != ask)?];
        let app = self.partition.apps[other.app].id.clone();
        Some(KeptFor { node: node.spec.id.clone(), app, key: other.spec.key.clone() })
    }
}

impl Partition {
    /// The node has room for the ask beside what is reserved for others, and takes allocations.
    fn has_open_room(&self, node: NodeIx, resource: &Resource, ask: AllocIx) -> bool {
        let Some(row) = self.nodes.get(node).filter(|row| row.schedulable()) else { return false };
        let others = row.reservations.iter().any(|other| other != ask);
        row.capacity.fits(resource)
            && row.available.fits(resource)
            && (!others || self.is_shared(node) && self.open_room(node).fits(resource))
    }
}
