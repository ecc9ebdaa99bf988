//! Asks and allocations: one object in two phases (R0.14).

use std::sync::Arc;

use super::coded::{Once, Skip, list, map, variants};
use super::{
    resources::Resource,
    sorted::Texts,
    table::{Changed, Free},
    types::{AllocIx, AppIx, Nanos, NodeIx, ShapeIx},
};

/// What the shim said of an ask; made once at the door and shared by ask, callback, event and REST.
#[derive(Clone, Debug, Default)]
pub struct AskSpec {
    /// Unique in its application.
    pub key: Arc<str>,
    /// Tags as given.
    pub tags: Texts,
    /// Resource as given; the row holds the present one.
    pub resource: Arc<Resource>,
    /// Priority, higher first.
    pub priority: i32,
    /// Task group, empty for none.
    pub task_group: Arc<str>,
    /// Placeholder of a gang; only with a task group (SEEDS S8).
    pub placeholder: bool,
    /// The first of its application, such as a driver.
    pub originator: bool,
    /// `None`: not given, which means neither (R4.5).
    pub preemption: Option<PreemptionPolicy>,
    /// Required node (R4.3), `None` for any.
    pub required_node: Option<Arc<str>>,
    /// Creation time by tag `creationTime` (R4.2).
    pub created: Option<Nanos>,
    /// Set where the tags say that another scheduler placed it (R2.15).
    pub foreign: Option<Foreign>,
}

impl AskSpec {
    /// It may preempt others (R4.5).
    pub fn may_preempt_others(&self) -> bool {
        self.preemption.is_some_and(|policy| policy.allow_preempt_other)
    }

    /// A real part of a gang, and not the originator that comes before it (SEEDS S10, S11).
    pub fn is_real_part(&self) -> bool {
        !self.placeholder && !self.originator && !self.task_group.is_empty()
    }

    /// It opted out of being preempted (R4.5).
    pub fn opted_out(&self) -> bool {
        !self.preemption.is_some_and(|policy| policy.allow_preempt_self)
    }
}

/// `si.v1.PreemptionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreemptionPolicy {
    /// It may be preempted.
    pub allow_preempt_self: bool,
    /// It may preempt others.
    pub allow_preempt_other: bool,
}

/// Kind of a foreign allocation (R2.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Never preemptable.
    Static,
    /// Preemptable, though nothing preempts it today.
    Default,
}

/// Phase of an ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for a node; counts as pending.
    #[default]
    Pending,
    /// Placed on a node while the shim is asked whether it fits: charged, not announced.
    AwaitingShim,
    /// A real ask that replaces a placeholder once the shim confirmed the placeholder's release (R6.13).
    Replacing,
    /// On its node and announced to the shim: it is in every book.
    Allocated,
    /// The allocation is gone, the shim has not released its key yet (R2.22, R4.19): in no book.
    Ended,
}

/// A row of the ask and allocation table.
#[derive(Clone, Debug)]
pub struct Alloc {
    /// What the shim said.
    pub spec: Arc<AskSpec>,
    /// Its application.
    pub app: AppIx,
    /// Present resource; differs from `spec.resource` after an in-place resize (R4.14).
    pub resource: Arc<Resource>,
    /// Shape of the ask.
    pub shape: ShapeIx,
    /// Where it is on its way from ask to end.
    pub phase: Phase,
    /// Node, for every phase but [`Phase::Pending`].
    pub node: Option<NodeIx>,
    /// Where it stands among the allocations of the node that it is charged to.
    pub at: u32,
    /// Creation time (R4.2): order, reservation delay, preemption delay, victim age.
    pub created: Nanos,
    /// `requestTime` of REST: `created`, or the placeholder's for a real allocation that replaced one.
    pub requested: Nanos,
    /// When it was bound to its node.
    pub bound: Nanos,
    /// Order of arrival, unique.
    pub seq: u64,
    /// The other side of a replacement in flight.
    pub link: Option<AllocIx>,
    /// Node on which it holds a reservation.
    pub reserved: Option<NodeIx>,
    /// Its release was sent to the shim and is not confirmed yet.
    pub released: bool,
    /// Chosen as a victim; excludes `released` (R4.31).
    pub preempted: bool,
    /// Events said that its ask went, while the allocation waits for its release (EVT-024).
    pub told_gone: bool,
    /// A real allocation that replaced a placeholder (`placeholderUsed` of REST).
    pub placeholder_used: bool,
    /// It passed the user quota check at least once (R4.37).
    pub attempted: bool,
    /// The ask that it was chosen for; `None` where a lowered quota was the cause.
    pub victim_of: Option<AllocIx>,
    /// It has released victims for itself, or was promised what others go for.
    pub triggered_preemption: bool,
    /// When it last tried to.
    pub preemption_tried: Nanos,
    /// Reported to the shim as waiting for nodes (R4.39).
    pub triggered_scale_up: bool,
    /// Held back by the user's or group's limit at its last attempt.
    pub over_user_quota: bool,
    /// Held back by a queue's max at its last attempt.
    pub over_queue_quota: bool,
    /// When the last predicate event was sent (EVT-015).
    pub predicate_event: Nanos,
    /// When the last required-node event was sent (EVT-016).
    pub required_node_event: Nanos,
    /// Why it could not be placed (R4.34), by last occurrence.
    pub log: Vec<LogEntry>,
    /// How often in a row the shim could not carry its allocation out (R4.28).
    pub failures: Option<Box<Failures>>,
    /// Its place is free.
    pub free: Free,
    /// Its last change.
    pub changed: Changed,
}

/// One entry of an ask's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The reason.
    pub message: Arc<str>,
    /// When it last held.
    pub last: Nanos,
    /// How often it was met.
    pub count: u32,
}

/// Allocations of one ask that the shim could not carry out, one after the other (R4.28).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u32,
    /// Id of the node of the last.
    pub node: Arc<str>,
    /// The ask is not tried before.
    pub until: Option<Nanos>,
}

impl Alloc {
    /// An ask that waits, of which nothing but this is known yet.
    pub fn new(app: AppIx, spec: Arc<AskSpec>, resource: Arc<Resource>) -> Alloc {
        Alloc {
            spec,
            app,
            resource,
            shape: ShapeIx(0),
            phase: Phase::Pending,
            node: None,
            at: 0,
            created: Nanos::ZERO,
            requested: Nanos::ZERO,
            bound: Nanos::ZERO,
            seq: 0,
            link: None,
            reserved: None,
            released: false,
            preempted: false,
            told_gone: false,
            placeholder_used: false,
            attempted: false,
            victim_of: None,
            triggered_preemption: false,
            preemption_tried: Nanos(i64::MIN),
            triggered_scale_up: false,
            over_user_quota: false,
            over_queue_quota: false,
            predicate_event: Nanos(i64::MIN),
            required_node_event: Nanos(i64::MIN),
            log: Vec::new(),
            failures: None,
            free: Free::default(),
            changed: Changed::default(),
        }
    }

    /// Waiting for a node.
    pub fn is_pending(&self) -> bool {
        self.phase == Phase::Pending
    }

    /// The ask pauses after failures until then (R4.28).
    pub fn paused_until(&self) -> Option<Nanos> {
        self.failures.as_ref().and_then(|failures| failures.until)
    }

    /// It was tried, waits for no pause, and was not reported to the shim as waiting for nodes.
    pub fn is_unreported(&self) -> bool {
        self.attempted && !self.triggered_scale_up && self.paused_until().is_none()
    }

    /// Allocated and announced to the shim.
    pub fn is_allocated(&self) -> bool {
        self.phase == Phase::Allocated
    }

    /// The shim was asked to end it, and did not say yet that it has.
    pub fn is_going(&self) -> bool {
        self.released || self.preempted
    }

    /// A placeholder, in any phase.
    pub fn is_placeholder(&self) -> bool {
        self.spec.placeholder
    }
}

map!(AskSpec {
    1 key as Once,
    2 tags,
    3 resource,
    4 priority,
    5 task_group,
    6 placeholder,
    7 originator,
    8 preemption,
    9 required_node,
    10 created,
    11 foreign,
});
list!(PreemptionPolicy { allow_preempt_self, allow_preempt_other });
variants!(Foreign { 1 Static, 2 Default });
variants!(Phase { 1 Pending, 2 AwaitingShim, 3 Replacing, 4 Allocated, 5 Ended });
map!(Alloc {
    1 spec,
    2 app,
    3 resource,
    4 shape,
    5 phase,
    6 node,
    7 at,
    8 created,
    9 requested,
    10 bound,
    11 seq,
    12 link,
    13 reserved,
    15 released,
    16 preempted,
    17 placeholder_used,
    18 attempted,
    19 victim_of,
    20 triggered_preemption,
    21 preemption_tried,
    22 triggered_scale_up,
    23 over_user_quota,
    24 over_queue_quota,
    25 predicate_event,
    26 required_node_event,
    27 log,
    28 free,
    29 told_gone,
    30 failures,
    31 changed as Skip,
} gone { 14 Nanos });
list!(LogEntry { message, last, count });
list!(Failures { count, node, until });
