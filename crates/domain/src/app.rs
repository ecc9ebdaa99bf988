//! Applications: their rows and what REST shows of them (section 3 of the scheduling rules).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use smallvec::SmallVec;

use super::coded::{Coded, Deltas, Error, Reader, Skip, Writer, list, map, variants};
use super::{
    alloc::AskSpec,
    node::Asked,
    partition::{Amount, Bar},
    rare::Rare,
    resources::Resource,
    run::Run,
    sorted::{Sorted, Texts},
    table::Free,
    types::{AllocIx, AppState, GangStyle, Nanos, QueueIx, ShapeIx},
    ugm::Tracked,
};

/// A row of the application table. Rejected and terminated applications are kept as copies of their row.
#[derive(Clone, Debug)]
pub struct App {
    /// Unique among the active applications of its partition.
    pub id: Arc<str>,
    /// Name of the user who submitted it.
    pub user: Arc<str>,
    /// Groups of the owner, in their fixed order.
    pub groups: Arc<[Arc<str>]>,
    /// Leaf queue.
    pub queue: QueueIx,
    /// Path of the leaf queue; stays when the queue is gone. Empty for one that was never placed.
    pub queue_path: Arc<str>,
    /// Queue as submitted: what placement rules went by.
    pub submitted_queue: Arc<str>,
    /// Where it is in its life cycle.
    pub state: AppState,
    /// Tags as submitted.
    pub tags: Arc<Texts>,
    /// Created by force (R3.28).
    pub forced: bool,
    /// What only an application has that announced a gang, or has task groups.
    pub gang: Rare<Gang>,
    /// Placeholder time-out (R3.38), or execution time-out of an ordinary application (SEEDS S6); zero: none.
    pub timeout: Nanos,
    /// Earliest of arrival and creation of any ask (R3.49).
    pub submission: Nanos,
    /// Arrival in this scheduler.
    pub arrived: Nanos,
    /// When it last entered Running.
    pub started: Option<Nanos>,
    /// When it ended.
    pub finished: Option<Nanos>,
    /// Sum of the pending asks.
    pub(crate) pending: Rare<Amount>,
    /// Sum of the real allocations.
    pub(crate) allocated: Rare<Amount>,
    /// Sum of its asks that have preempted and are not placed yet.
    pub(crate) claimed: Rare<Amount>,
    /// Peak of both (`maxUsedResource`).
    pub max_used: Rare<Resource>,
    /// All its asks and allocations in order of arrival (`Alloc::seq`).
    pub by_seq: Run<u64, AllocIx>,
    /// Allocated ones, placeholders included.
    pub allocs: Run<AllocIx, ()>,
    /// Pending asks grouped by what decides whether they can be placed.
    pub groups_by_key: Sorted<Arc<GroupKey>, Box<AskGroup>>,
    /// The groups that are not blocked, by their first ask.
    pub group_order: Sorted<AskOrder, Arc<GroupKey>>,
    /// Priorities of the pending asks, counted.
    pub priorities: Sorted<i32, u32>,
    /// Asks that hold a reservation.
    pub reservations: BTreeSet<AllocIx>,
    /// Of what is allocated, what the shim is still asked about: real asks, placeholders.
    pub asked: Rare<[Asked; 2]>,
    /// Number of asks about which the shim is being asked, and which are charged to nobody meanwhile.
    pub asking: u32,
    /// Their sum.
    pub(crate) in_question: Rare<Amount>,
    /// Highest priority of the pending asks, `i32::MIN` for none (R4.32).
    pub priority: i32,
    /// Entered states with their times (R3.3).
    pub state_log: Vec<(Nanos, AppState)>,
    /// Time it has spent in Running before `started` (SEEDS S6).
    pub ran: Nanos,
    /// Why it was rejected.
    pub rejected: Option<Arc<str>>,
    /// Resource × seconds of ended allocations, by kind and instance type.
    pub history: Rare<UsageHistory>,
    /// Of what was preempted something was no placeholder.
    pub real_preempted: bool,
    /// Not scheduled before (R5.26).
    pub backoff_until: Option<Nanos>,
    /// Nothing of it can be placed in this epoch: it is out of its queue's order until then.
    pub blocked: bool,
    /// The limit that it waits for with others, out of that order until there is room (see `partition::parked`).
    pub parked: Option<Arc<Bar>>,
    /// Groups that are blocked.
    pub blocked_groups: BTreeSet<Arc<GroupKey>>,
    /// Of these the ones that were blocked because no node takes them, in a queue with a back-off (R5.26).
    pub failed_groups: BTreeSet<Arc<GroupKey>>,
    /// Epoch in which they were blocked.
    pub blocked_in: u64,
    /// Its key in the order of its queue, while something is pending.
    pub order: Option<AppKey>,
    /// Its place in the order is to be computed again.
    pub dirty: bool,
    /// Its handle in the user and group manager; `None` for one that was rejected.
    pub track: Option<Tracked>,
    /// Arrival number, unique and never used again.
    pub serial: u64,
    /// State timer that is running (R3.4, R3.5).
    pub state_timer: Option<u64>,
    /// Execution timer that is running (SEEDS S6).
    pub execution_timer: Option<u64>,
    /// The shim removes it: it is not kept among the terminated.
    pub removing: bool,
    /// All of it is being released at once: its user gives the sum back at the end.
    pub releasing_all: bool,
    /// Its execution time is over: what is left is on its way out (SEEDS S6).
    pub expiring: bool,
    /// The next moment at which waiting asks are looked at again (reservation and preemption delays).
    pub wake_at: Option<Nanos>,
    /// Held back by `maxapplications` of a queue when last looked at (R4.36).
    pub held_by_queue: bool,
    /// Held back by a user's or group's limit on applications.
    pub held_by_quota: bool,
    /// It is among those that have asks of which the shim may have to be told (R4.38).
    pub untold: bool,
    /// Order of arrival of the last ask of which the shim was told that such a limit holds it back (SEEDS S7).
    pub skipped_to: u64,
    /// Its place is free.
    pub free: Free,
}

/// The gang of an application (section 6 of the scheduling rules).
#[derive(Clone, Debug, Default)]
pub struct Gang {
    /// Announced total of the placeholders, `None` for an ordinary application.
    pub placeholder_ask: Option<Box<Resource>>,
    /// What happens when the placeholders time out.
    pub style: GangStyle,
    /// Sum of the placeholder allocations.
    pub(crate) allocated: Amount,
    /// Task groups by name (R6.3).
    pub task_groups: BTreeMap<Arc<str>, TaskGroup>,
    /// Number of placeholder allocations.
    pub placeholders: u32,
    /// Number of pending placeholder asks.
    pub pending_placeholders: u32,
    /// Their sum.
    pub awaited: Resource,
    /// Number of placeholder asks about which the shim is being asked.
    pub awaiting_shim: u32,
    /// Sum of the placeholders that have come so far, gone ones included, and of the parts that ran before the scheduler was started
    /// anew: all of the gang has when it covers `placeholder_ask`.
    pub announced: Resource,
    /// Placeholder allocations that a real ask may replace, by task group.
    pub replaceable: BTreeMap<Arc<str>, BTreeSet<AllocIx>>,
    /// Groups of pending real asks that have a task group, in the order of their first asks; blocked ones too.
    pub replacing: Heads,
    /// Asks up to this one have found no placeholder to replace, and nothing has come since that they could.
    pub replaced_up_to: Option<AskOrder>,
    /// No placeholder has come yet, and nothing but originators was allocated: real asks wait (SEEDS S10).
    pub to_come: bool,
    /// The timer that ends this wait, and when; from the first real ask on that waits.
    pub wait: Option<(u64, Nanos)>,
    /// Number of real parts that have a place. Follows from the rows, as `originators` does.
    pub real_parts: u32,
    /// Originators of task groups that have a place.
    pub originators: BTreeSet<AllocIx>,
    /// Replacements in flight.
    pub swaps: u32,
    /// Its first placeholder was allocated: the gang has begun (SEEDS S11).
    pub started: bool,
    /// Placeholder timer that is running (R3.39).
    pub timer: Option<u64>,
}

impl Gang {
    /// A row of it has a place from now on, or none any more.
    pub(crate) fn placed(&mut self, alloc: AllocIx, spec: &AskSpec, placed: bool) {
        if self.placeholder_ask.is_none() {
            // Only what was announced has parts to come, and what was not may become a gang with rows that have places.
            return;
        }
        if spec.is_real_part() {
            self.real_parts = if placed { self.real_parts + 1 } else { self.real_parts - 1 };
        } else if !placed {
            self.originators.remove(&alloc);
        } else if spec.originator && !spec.task_group.is_empty() {
            self.originators.insert(alloc);
        }
    }

    /// It has begun, and its time-out runs: only so long it keeps room from others, since what waits may find no node ever.
    pub fn keeps(&self) -> bool {
        self.started && self.timer.is_some()
    }

    /// What a gang keeps from others that have not begun: what of it waits, and what of the announced total has not come yet
    /// (SEEDS S11).
    pub fn kept(&self) -> Resource {
        if !self.keeps() {
            return Resource::new();
        }
        let mut kept = self.awaited.clone();
        for (kind, total) in self.placeholder_ask.iter().flat_map(|ask| ask.iter()) {
            let rest = total - self.announced.amount(kind);
            if rest > 0 {
                kept.set(kind.clone(), kept.amount(kind) + rest);
            }
        }
        kept
    }
}

impl App {
    /// Its gang keeps something from others (SEEDS S11).
    pub fn keeps_for_gang(&self) -> bool {
        let waits = || self.gang.pending_placeholders > 0 || !self.gang.kept().is_empty();
        self.gang.keeps() && !self.is_free() && waits()
    }

    /// Sum of the pending asks.
    pub fn pending(&self) -> &Amount {
        &self.pending
    }

    /// What its real allocations have and what its placeholders have, for all to see: what the shim is still asked about waits.
    pub fn placed(&self) -> [Resource; 2] {
        let [real, placeholders] = &*self.asked;
        let placed = |sum: &Resource, asked: &Asked| sum.minus(&asked.amount).pruned();
        [placed(&self.allocated, real), placed(&self.gang.allocated, placeholders)]
    }

    /// Something of it that was no placeholder has run and ended.
    pub fn has_run(&self) -> bool {
        !self.history.normal.is_empty() || self.real_preempted
    }

    /// What waits, for all to see.
    pub fn waiting(&self) -> Resource {
        self.asked.iter().fold(self.pending.plus(&self.in_question), |sum, asked| sum.plus(&asked.amount))
    }

    /// Number of its allocations, for all to see.
    pub fn placements(&self) -> u64 {
        self.allocs.len() as u64 - self.asked.iter().map(|asked| asked.count).sum::<u64>()
    }

    /// Its submission time, and its place among those that were submitted with the same request or at the same moment.
    pub fn age(&self) -> (Nanos, u64) {
        (self.submission, if self.submission == self.arrived { self.serial } else { 0 })
    }

    /// Something of it that is no placeholder has a place, for all to see: what the shim is still asked about may be refused.
    pub fn has_something_real(&self) -> bool {
        let [real, _] = &*self.asked;
        self.allocs.len() as u64 > u64::from(self.gang.placeholders) + real.count
    }

    /// Placeholders of it still wait for a node, or for the shim's word (SEEDS S10).
    pub fn awaits_placeholders(&self) -> bool {
        self.gang.pending_placeholders + self.gang.awaiting_shim > 0
    }

    /// Asks of this group wait for the first placeholder of the gang; an originator's does not (SEEDS S10).
    pub fn waits_for_first_placeholder(&self, key: &GroupKey) -> bool {
        self.gang.to_come && !key.placeholder && !key.originator
    }

    /// Placeholders that asks of this group wait for, as one of them may be the first to replace it (R6.7). One that is being
    /// replaced is taken (SEEDS S32).
    pub fn replaceable_later(&self, key: &GroupKey) -> u64 {
        if key.placeholder || key.required_node.is_some() || key.task_group.is_empty() {
            return 0;
        }
        self.gang.task_groups.get(&key.task_group).map_or(0, TaskGroup::replaceable_later)
    }
}

/// See [`Gang::replacing`].
#[derive(Clone, Debug, Default)]
pub struct Heads(pub BTreeMap<AskOrder, Arc<GroupKey>>);

/// By task group, as it was kept before.
impl Coded for Heads {
    fn write(&self, to: &mut Writer) {
        let mut groups: BTreeMap<Arc<str>, BTreeMap<AskOrder, Arc<GroupKey>>> = BTreeMap::new();
        for (order, key) in &self.0 {
            groups.entry(key.task_group.clone()).or_default().insert(*order, key.clone());
        }
        groups.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let groups: BTreeMap<Arc<str>, BTreeMap<AskOrder, Arc<GroupKey>>> = Coded::read(from)?;
        Ok(Heads(groups.into_values().flatten().collect()))
    }
}

/// What decides, together with the application, whether an ask can be placed now: asks that agree in it are tried once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// Resources (and the ask itself, where the shim is asked for each).
    pub shape: ShapeIx,
    /// Placeholder of a gang.
    pub placeholder: bool,
    /// Task group, empty for none.
    pub task_group: Arc<str>,
    /// Required node.
    pub required_node: Option<Arc<str>>,
    /// The first of its application, such as a driver: it does not wait for the gang (SEEDS S10).
    pub originator: bool,
    /// They pause after failures (R4.28).
    pub paused: bool,
}

impl GroupKey {
    /// Real asks that may take the place of placeholders.
    pub fn may_replace(&self) -> bool {
        !self.placeholder && !self.task_group.is_empty() && !self.paused
    }
}

/// Why the asks of a group wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Limits of the user or group.
    UserQuota,
    /// Max of a queue.
    QueueQuota,
    /// Size of the cluster.
    ClusterFull,
    /// No node has room for them, or none passes the predicates.
    Nodes,
    /// Real asks wait for the gang, or for a placeholder to replace; a gang that is placed at once for its members.
    Gang,
    /// A queue, or the limits of the user or group, have no room for the whole gang.
    GangRoom,
    /// The required node is unknown or full.
    RequiredNode,
    /// The shim could not carry their allocations out (R4.28).
    Failures,
}

/// Pending asks of one group.
#[derive(Clone, Debug, Default)]
pub struct AskGroup {
    /// In ask order (R5.22).
    pub asks: Run<AskOrder, AllocIx>,
    /// It cannot be placed in this epoch: it is out of its application's order until then.
    pub blocked: bool,
    /// Why the group waited when it was last tried.
    pub hold: Option<Hold>,
    /// Read by nothing: a place in what earlier releases have written.
    pub kept_in: u64,
    /// Asks that were added since; none as long as it never waited, since then all of them are.
    pub fresh: Rare<Run<AskOrder, AllocIx>>,
    /// No ask of it tries to preempt before.
    pub preempt_at: Nanos,
    /// Asks that were tried, and not reported to the shim as waiting for nodes (R4.38).
    pub unreported: usize,
    /// The last ask that had its turn to preempt, where not all had theirs, and the earliest moment at which one of those up to
    /// it may try again.
    pub preempted_up_to: Option<Box<(AskOrder, Nanos)>>,
    /// It is among those that may reserve a node, as what was created then.
    pub wants: Option<Nanos>,
}

impl AskGroup {
    /// All of its asks wait for a node that takes them, and none of them may preempt by now.
    pub fn waits_for_nodes(&self, preempts: bool, now: Nanos) -> bool {
        self.hold == Some(Hold::Nodes) && self.fresh.is_empty() && !(preempts && self.preempt_at <= now)
    }

    /// Every ask is looked at from the first one on when the group next tries to preempt, which it may at once.
    pub fn preempt_anew(&mut self) {
        (self.preempt_at, self.preempted_up_to) = (Nanos::ZERO, None);
    }
}

/// Order of the asks of an application: priority descending, creation time, arrival (R5.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskOrder {
    /// The priority, reversed.
    pub priority: std::cmp::Reverse<i32>,
    /// Creation time.
    pub created: Nanos,
    /// Number in the order of arrival.
    pub seq: u64,
}

impl AskOrder {
    /// Before all others.
    pub const FIRST: AskOrder = AskOrder { priority: std::cmp::Reverse(i32::MAX), created: Nanos(i64::MIN), seq: 0 };
}

/// Position of an application among those of its queue (R5.20, R5.21): first to last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppKey {
    /// Priority, or 0 where it comes last.
    pub first: u64,
    /// Submission time with the place in its request, or the shares of a fair queue.
    pub second: SmallVec<[u64; 2]>,
    /// Priority where it comes last, or 0.
    pub third: u64,
    /// Arrival: breaks ties.
    pub serial: u64,
}

/// Counters of a task group (R6.3).
#[derive(Clone, Debug, Default)]
pub struct TaskGroup {
    /// Placeholders asked for or recovered.
    pub count: u64,
    /// Resource of the first one.
    pub min: Arc<Resource>,
    /// Replaced by real allocations.
    pub replaced: u64,
    /// Gone without.
    pub timed_out: u64,
    /// Placeholders pending or allocated.
    pub live: u64,
    /// Those of them that are being replaced.
    pub swapping: u64,
}

impl TaskGroup {
    /// As long as there are any of these, real asks of the group wait for one (R6.7).
    pub fn replaceable_later(&self) -> u64 {
        self.live.saturating_sub(self.swapping)
    }
}

/// See [`App::history`]; keys are instance types.
#[derive(Clone, Debug, Default)]
pub struct UsageHistory {
    /// Ordinary allocations.
    pub normal: BTreeMap<Arc<str>, Resource>,
    /// Preempted ones.
    pub preempted: BTreeMap<Arc<str>, Resource>,
    /// Placeholders, for as long as they were on nodes.
    pub placeholder: BTreeMap<Arc<str>, Resource>,
}

// `by_seq` and `in_question` say of live rows what the rows themselves say.
map!(App {
    1 id,
    2 user,
    3 groups,
    4 queue,
    5 queue_path,
    6 submitted_queue,
    7 state,
    8 tags,
    9 forced,
} parts {
    10 gang.placeholder_ask,
    11 gang.style,
} then {
    12 timeout,
    13 submission,
    14 arrived,
    15 started,
    16 finished,
    17 pending,
    18 allocated,
} parts {
    19 gang.allocated,
} then {
    20 claimed,
    21 max_used,
    23 by_seq as Skip,
    24 allocs as Deltas,
    25 groups_by_key,
    26 group_order,
    27 priorities,
} parts {
    28 gang.task_groups,
} then {
    29 reservations,
} parts {
    30 gang.placeholders,
    31 gang.pending_placeholders,
    32 gang.awaited,
    33 gang.awaiting_shim,
} then {
    35 asking,
} parts {
    36 gang.announced,
    37 gang.replaceable,
    38 gang.replacing,
    39 gang.replaced_up_to,
    40 gang.to_come,
    41 gang.wait,
    42 gang.swaps,
    43 gang.started,
} then {
    44 priority,
    45 state_log,
    46 ran,
    47 rejected,
    48 history,
    49 backoff_until,
    50 blocked,
    51 blocked_groups,
    52 blocked_in,
    53 order,
    54 dirty,
    55 track,
    56 serial,
    57 state_timer,
} parts {
    58 gang.timer,
} then {
    59 execution_timer,
    60 removing,
    61 releasing_all,
    62 expiring,
    63 wake_at,
    64 held_by_queue,
    65 held_by_quota,
    66 skipped_to,
    67 free,
    68 asked,
    69 gang as Skip,
    70 failed_groups,
    71 parked,
    72 in_question as Skip,
    73 untold as Skip,
    74 real_preempted,
});
list!(GroupKey { shape, placeholder, task_group, required_node, originator, paused });
variants!(Hold { 1 UserQuota, 2 QueueQuota, 3 Nodes, 4 Gang, 5 RequiredNode, 6 ClusterFull, 7 GangRoom, 8 Failures });
list!(AskGroup { asks, blocked, hold, fresh, preempt_at, unreported, preempted_up_to, kept_in, wants });
list!(AskOrder { priority, created, seq });
list!(AppKey { first, second, third, serial });
list!(TaskGroup { count, min, replaced, timed_out, live, swapping });
list!(UsageHistory { normal, preempted, placeholder });
