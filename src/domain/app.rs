//! Applications: their rows and what REST shows of them (section 3 of the scheduling rules).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    resources::Resource,
    types::{AllocIx, AppState, GangStyle, Nanos, QueueIx, ShapeIx},
};

/// A row of the application table. Rejected and terminated applications are kept as copies of their row.
#[derive(Clone, Debug)]
pub struct App {
    /// Unique among the active applications of its partition.
    pub id: Arc<str>,
    /// Owner.
    pub user: Arc<str>,
    /// Groups of the owner, in their fixed order.
    pub groups: Arc<[Arc<str>]>,
    /// Leaf queue.
    pub queue: QueueIx,
    /// Path of the leaf queue; stays when the queue is gone. Empty for one that was never placed.
    pub queue_path: Arc<str>,
    /// State.
    pub state: AppState,
    /// Tags as submitted.
    pub tags: Arc<BTreeMap<String, String>>,
    /// Created by force (R3.28).
    pub forced: bool,
    /// Announced total of the placeholders, `None` for an ordinary application.
    pub placeholder_ask: Option<Resource>,
    /// What happens when the placeholders time out.
    pub style: GangStyle,
    /// Placeholder time-out (R3.38, R3.41), or execution time-out of an ordinary application (SEEDS S6); zero: none.
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
    pub pending: Resource,
    /// Sum of the real allocations.
    pub allocated: Resource,
    /// Sum of the placeholder allocations.
    pub allocated_placeholders: Resource,
    /// Peak of both (`maxUsedResource`).
    pub max_used: Resource,
    /// All asks and allocations by key.
    pub by_key: imbl::HashMap<Arc<str>, AllocIx>,
    /// All its asks and allocations in order of arrival (`Alloc::seq`).
    pub by_seq: imbl::OrdMap<u64, AllocIx>,
    /// Allocated ones, placeholders included.
    pub allocs: imbl::OrdSet<AllocIx>,
    /// Pending asks grouped by shape, each group in ask order (R5.22).
    pub groups_by_shape: BTreeMap<ShapeIx, AskGroup>,
    /// Task groups by name (R6.3).
    pub task_groups: BTreeMap<Arc<str>, TaskGroup>,
    /// Asks that hold a reservation.
    pub reservations: BTreeSet<AllocIx>,
    /// Number of placeholder allocations.
    pub placeholders: u32,
    /// Highest priority of the pending asks, `i32::MIN` for none (R4.32).
    pub priority: i32,
    /// Entered states with their times (R3.3).
    pub state_log: Vec<(Nanos, AppState)>,
    /// Why it was rejected.
    pub rejected: Option<Arc<str>>,
    /// Resource × seconds of ended allocations, by kind and instance type.
    pub history: UsageHistory,
    /// Not scheduled before (R5.26).
    pub backoff_until: Option<Nanos>,
    /// Held back by `maxapplications` of a queue when last looked at (R4.36).
    pub held_by_queue: bool,
    /// Held back by a user's or group's limit on applications.
    pub held_by_quota: bool,
    /// A tombstone: the row is free.
    pub free: bool,
}

/// Pending asks of one shape in one application.
#[derive(Clone, Debug, Default)]
pub struct AskGroup {
    /// (priority reversed, creation time, arrival) → row: the order of R5.22.
    pub asks: imbl::OrdMap<AskOrder, AllocIx>,
}

/// Order of the asks of an application: priority descending, creation time, arrival (R5.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskOrder {
    /// The priority, reversed.
    pub priority: std::cmp::Reverse<i32>,
    /// Creation time.
    pub created: Nanos,
    /// Arrival.
    pub seq: u64,
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
}

/// See [`App::history`]; keys are instance types.
#[derive(Clone, Debug, Default)]
pub struct UsageHistory {
    /// Ordinary allocations.
    pub normal: BTreeMap<Arc<str>, Resource>,
    /// Preempted ones.
    pub preempted: BTreeMap<Arc<str>, Resource>,
    /// Placeholders.
    pub placeholder: BTreeMap<Arc<str>, Resource>,
}
