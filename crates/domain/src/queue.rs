//! Queues: the tree in which usage is limited and shared (section 3 of the queue rules).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::coded::{Apart, Skip, list, map, variants};
use super::{
    acl::Acl,
    app::AppKey,
    conf::TemplateConf,
    node::Asked,
    partition::{Amount, Parked},
    rare::Rare,
    resources::Resource,
    run::Run,
    sorted::Sorted,
    table::Free,
    types::{AppIx, AppState, Nanos, ObjectState, QueueIx},
};

/// Path of the queue that takes forced applications which no rule places (PLC-043).
pub const RECOVERY_QUEUE: &str = "root.@recovery@";

/// A row of the queue table.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Lowercase name without the path.
    pub name: Arc<str>,
    /// Full lowercase path, such as `root.a.b`.
    pub path: Arc<str>,
    /// `None` for root.
    pub parent: Option<QueueIx>,
    /// Child queues by name.
    pub children: BTreeMap<Arc<str>, QueueIx>,
    /// Only leaves hold applications.
    pub leaf: bool,
    /// From the configuration; otherwise made by placement.
    pub managed: bool,
    /// Life cycle.
    pub state: ObjectState,
    /// When `state` last changed.
    pub state_since: Nanos,
    /// Effective properties, those inherited included (QUE-061).
    pub properties: Arc<BTreeMap<String, String>>,
    /// The properties, read.
    pub settings: QueueSettings,
    /// Own max; for root the sum of the nodes' capacity (QUE-020). A type that is missing is not limited.
    pub max: Option<Arc<Resource>>,
    /// Own guaranteed.
    pub guaranteed: Option<Arc<Resource>>,
    /// Applications of this leaf by state, as in [`AppState::ALL`].
    pub states: [u32; AppState::ALL.len()],
    /// Running applications at most; 0: any number.
    pub max_applications: u64,
    /// Who may administer.
    pub admin_acl: Acl,
    /// Who may submit.
    pub submit_acl: Acl,
    /// What dynamic leaves below start with.
    pub template: Option<Arc<TemplateConf>>,
    /// Usage, placeholders included (QUE-041).
    pub(crate) allocated: Amount,
    /// Of that, what the shim is still asked about.
    pub asked: Rare<Asked>,
    /// What was last told of `allocated` by an event.
    pub told_allocated: Resource,
    /// Sum of the pending asks (QUE-040).
    pub(crate) pending: Amount,
    /// Sum of the asks about which the shim is being asked, and which are charged to nobody meanwhile.
    pub(crate) in_question: Rare<Amount>,
    /// Marked for preemption and not confirmed.
    pub preempting: Rare<Resource>,
    /// Sum of the asks below that have preempted and are not placed yet.
    pub(crate) claimed: Rare<Amount>,
    /// What gangs below that have begun keep from others: see [`Gang::kept`](crate::app::Gang::kept) (SEEDS S11).
    pub awaited: Rare<Resource>,
    /// Failed attempts to preempt for asks of this leaf, in the cycle that began then (R7.3).
    pub attempts: (Nanos, u32),
    /// Applications in Running here and below (QUE-090).
    pub running: u64,
    /// Accepted applications that have an allocation already, here and below (QUE-090).
    pub allocating: BTreeSet<AppIx>,
    /// Applications of this leaf.
    pub apps: imbl::OrdSet<AppIx>,
    /// Highest priority of what is pending here and below, before offset and fence (QUE-081).
    pub priority: i32,
    /// `priority` as the parent sees it (QUE-082).
    pub exposed_priority: i32,
    /// Priorities that make up `priority`, counted.
    pub priorities: Sorted<i32, u32>,
    /// Children with pending asks, in the order in which they are served (QUE-071).
    pub child_order: Run<ChildKey, QueueIx>,
    /// Its own key there.
    pub order: Option<ChildKey>,
    /// Applications with pending asks, in the order in which they are served (QUE-074, QUE-075).
    pub app_order: Run<AppKey, AppIx>,
    /// Nothing below can be placed in this epoch: it is out of its parent's order until then.
    pub blocked: bool,
    /// Children that are blocked.
    pub blocked_children: imbl::OrdSet<QueueIx>,
    /// Applications that are blocked.
    pub blocked_apps: imbl::OrdSet<AppIx>,
    /// Epoch in which they were blocked.
    pub blocked_in: u64,
    /// Applications that wait for a limit only, or for nodes only.
    pub parked: Parked,
    /// Its place in the order is to be computed again.
    pub dirty: bool,
    /// Distance from root.
    pub depth: u32,
    /// When quota preemption starts (QPR-002).
    pub quota_start: Option<Nanos>,
    /// Its place is free.
    pub free: Free,
}

impl Queue {
    /// Applications that count against `max_applications`: running ones, and accepted ones that begin (QUE-090).
    pub fn begun(&self) -> u64 {
        self.running + self.allocating.len() as u64
    }

    /// The limit of running applications lets one begin here, or it counts already (QUE-091); as if so many of those that count did
    /// not.
    pub fn may_begin(&self, app: AppIx, less: u64) -> bool {
        let max = self.max_applications;
        max == 0 || self.begun() - less < max || self.allocating.contains(&app)
    }

    /// Usage, placeholders included (QUE-041).
    pub fn allocated(&self) -> &Amount {
        &self.allocated
    }

    /// Sum of the pending asks (QUE-040).
    pub fn pending(&self) -> &Amount {
        &self.pending
    }

    /// Sum of the asks below that have preempted and are not placed yet.
    pub fn claimed(&self) -> &Amount {
        &self.claimed
    }

    /// What is allocated, for all to see: what the shim is still asked about waits.
    pub fn placed(&self) -> Resource {
        self.allocated.minus(&self.asked.amount).pruned()
    }

    /// What waits, for all to see.
    pub fn waiting(&self) -> Resource {
        self.pending.plus(&self.asked.amount).plus(&self.in_question)
    }

    /// Its configuration is the same as that of an earlier state of it.
    pub fn is_configured_like(&self, other: &Queue) -> bool {
        (self.leaf, self.managed, self.state) == (other.leaf, other.managed, other.state)
            && (&self.properties, self.max_applications) == (&other.properties, other.max_applications)
            && (&self.max, &self.guaranteed) == (&other.max, &other.guaranteed)
            && (&self.admin_acl, &self.submit_acl) == (&other.admin_acl, &other.submit_acl)
            && self.template == other.template
    }
}

/// Position of a queue among its siblings: first to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildKey {
    /// Priority, or share where priority sorting is off.
    pub first: u64,
    /// Share, or priority.
    pub second: u64,
    /// Pending, the larger first: a total order that respects QUE-071 (3).
    pub third: i128,
    /// Row: breaks ties.
    pub queue: QueueIx,
}

/// Properties of a queue, read (QUE-060).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// `application.sort.policy` is `fair`; else fifo. Only leaves.
    pub sort_fair: bool,
    /// `application.sort.priority`.
    pub sort_priority: bool,
    /// `priority.policy` is `fence`.
    pub priority_fence: bool,
    /// `priority.offset`.
    pub priority_offset: i32,
    /// `preemption.policy`.
    pub preemption: PreemptionSetting,
    /// `preemption.delay`.
    pub preemption_delay: Nanos,
    /// `application.unschedasks.backoff`; 0: off.
    pub backoff: u64,
    /// `application.unschedasks.backoff.delay`.
    pub backoff_delay: Nanos,
    /// `quota.preemption.delay`; zero: off.
    pub quota_preemption_delay: Nanos,
    /// `gang.admission` is `atomic`: placeholders of an application are placed only all at once.
    pub atomic_gangs: bool,
}

impl Queue {
    /// It goes when it is empty: it is dynamic or draining (R1.17).
    pub fn is_removable(&self) -> bool {
        self.state == ObjectState::Draining || !self.managed
    }
}

impl QueueSettings {
    /// The highest priority of what waits in a queue as its parent sees it; the minimum stands for nothing (QUE-082).
    pub fn exposed(&self, priority: i32) -> i32 {
        match priority {
            i32::MIN => i32::MIN,
            _ if self.priority_fence => self.priority_offset,
            raw => raw.saturating_add(self.priority_offset),
        }
    }
}

impl Default for QueueSettings {
    fn default() -> Self {
        QueueSettings {
            sort_fair: false,
            sort_priority: true,
            priority_fence: false,
            priority_offset: 0,
            preemption: PreemptionSetting::Default,
            preemption_delay: Nanos::from_secs(30),
            backoff: 0,
            backoff_delay: Nanos::from_secs(30),
            quota_preemption_delay: Nanos::ZERO,
            atomic_gangs: false,
        }
    }
}

/// `preemption.policy` (R7.31).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreemptionSetting {
    /// Victims anywhere.
    #[default]
    Default,
    /// Its asks look for victims inside only.
    Fence,
    /// Its allocations are never victims.
    Disabled,
}

map!(Queue {
    1 name,
    2 path,
    3 parent,
    4 children,
    5 leaf,
    6 managed,
    7 state,
    8 state_since,
    9 properties,
    10 settings,
    11 max as Apart,
    12 guaranteed as Apart,
    13 states,
    14 max_applications,
    15 admin_acl,
    16 submit_acl,
    17 template,
    18 allocated,
    19 told_allocated,
    20 pending,
    21 preempting,
    22 claimed,
    23 awaited,
    24 attempts,
    25 running,
    26 allocating,
    27 apps,
    28 priority,
    29 exposed_priority,
    30 priorities,
    31 child_order,
    32 order,
    33 app_order,
    34 blocked,
    35 blocked_children,
    36 blocked_apps,
    37 blocked_in,
    38 dirty,
    39 depth,
    40 quota_start,
    41 free,
    42 asked,
    43 parked,
    44 in_question as Skip,
});
list!(ChildKey { first, second, third, queue });
list!(QueueSettings {
    sort_fair,
    sort_priority,
    priority_fence,
    priority_offset,
    preemption,
    preemption_delay,
    backoff,
    backoff_delay,
    quota_preemption_delay,
    atomic_gangs,
});
variants!(PreemptionSetting { 1 Default, 2 Fence, 3 Disabled });
