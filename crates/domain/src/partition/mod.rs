//! `Partition`: all that one placement must read and write together. Commands in, effects out; no clock, no I/O.
//!
//! It is deterministic: the same commands at the same times give the same effects. Tables are cheap to clone, so snapshots
//! for readers and dry runs are clones.

mod accounting;
mod admission;
mod answers;
mod apps;
mod asked;
mod asks;
mod atomic;
mod audit;
mod backoff;
mod books;
mod cx;
pub(crate) use cx::Cx;
mod deadlines;
pub mod dry_run;
mod ended;
mod explain;
mod foreign;
pub mod forward;
mod gang;
mod gang_room;
mod groups;
pub mod holders;
mod in_order;
mod inspect;
pub mod line;
mod node_sizes;
mod nodes;
mod order;
mod overdue;
mod parked;
mod predicates;
mod preempt;
mod queue_orders;
mod queue_room;
mod queues;
pub mod recorded;
mod refusals;
mod releases;
mod reload;
pub mod remedies;
mod required;
mod reserve;
mod reserve_choice;
mod saved;
mod schedule;
pub(crate) mod shapes;
mod squeeze;
mod states;
mod swaps;
mod tables;
mod teardown;
pub(crate) use teardown::PARTITION_REMOVED;
mod turns;
pub mod whatif;
pub mod when;

use std::sync::Arc;

pub use audit::Finding;
pub use books::{Amount, Books, Placement, Reason};
pub use cx::Done;
pub use deadlines::DUE;
pub use explain::{Explainer, KeptFor, Nodes, Unfit, Waiting, Why};
pub use inspect::Demand;
pub use overdue::Left;
pub use parked::{Bar, Parked};
pub use saved::{SAVED_FORMAT, Unreadable};
pub use tables::Tables;

use super::{
    alloc::Alloc,
    app::App,
    command::Command,
    conf::PartitionConf,
    effect::Effect,
    journal::DrainNote,
    keys::{Allocs, Keys},
    node::Node,
    node_index::NodeIndex,
    queue::Queue,
    queue_order::QueueOrder,
    resources::Resource,
    table::Table,
    types::{AllocIx, AppIx, Nanos, NodeIx, ObjectState, QueueIx},
    ugm::Ugm,
};

/// A partition of one resource manager. See the module.
#[derive(Clone)]
pub struct Partition {
    /// Resource manager that owns it.
    pub rm: Arc<str>,
    /// Plain name, such as `default`.
    pub name: Arc<str>,
    /// Internal name, such as `[rm-1]default` (R1.6).
    pub internal: Arc<str>,
    /// Life cycle.
    pub state: ObjectState,
    /// When `state` last changed.
    pub state_since: Nanos,
    /// Configuration in force.
    pub conf: Arc<PartitionConf>,
    /// All queues, present ones and free rows.
    pub queues: Table<QueueIx, Queue, 8>,
    /// The root queue.
    pub root: QueueIx,
    /// Queues by path.
    pub queue_by_path: imbl::OrdMap<Arc<str>, QueueIx>,
    /// All nodes, registered ones and free rows.
    pub nodes: Table<NodeIx, Node, 32>,
    /// Nodes by id.
    pub node_by_id: imbl::OrdMap<Arc<str>, NodeIx>,
    /// Active applications.
    pub apps: Table<AppIx, App, 8>,
    /// Active applications by id.
    pub app_by_id: imbl::OrdMap<Arc<str>, AppIx>,
    /// Asks and allocations.
    pub allocs: Allocs,
    keys: Keys,
    /// Terminated applications by id and end time (R3.47).
    pub terminated: imbl::OrdMap<(Arc<str>, Nanos), Arc<App>>,
    /// Rejected applications by id (R3.25).
    pub rejected: imbl::OrdMap<Arc<str>, Arc<App>>,
    /// Which of the two expire when (R3.5).
    ended: ended::Ended,
    /// Sum of the nodes' capacity.
    pub total: Resource,
    /// Number of allocations, placeholders included (`totalContainers`).
    pub allocations: u64,
    /// Number of placeholder allocations.
    pub placeholders: u64,
    /// Number of reservations.
    pub reservations: u64,
    /// Allocation updates since the start that were rejected for a mistake of the shim's: the metric counts them, the health
    /// check does not (OPS-013).
    pub bad_updates: u64,
    /// Users and groups.
    pub ugm: Ugm,
    /// What operators told queues to become, by path.
    orders: imbl::OrdMap<Arc<str>, Arc<QueueOrder>>,
    /// Nodes that an operator drained, registered or not.
    drained_ids: imbl::OrdSet<Arc<str>>,
    /// Hosts whose nodes an operator drained, as the journal writes them.
    drained_hosts: imbl::OrdSet<Arc<str>>,
    /// What operators said of that.
    drain_notes: imbl::OrdMap<Arc<str>, DrainNote>,
    /// Deadlines of drains that were told of, by host and node.
    overdue_told: imbl::OrdMap<(Arc<str>, Arc<str>), Nanos>,
    /// Foreign allocations: key to node.
    foreign: imbl::OrdMap<Arc<str>, NodeIx>,
    index: NodeIndex,
    shapes: shapes::Shapes,
    deadlines: deadlines::Deadlines,
    dirty: order::Dirty,
    inspection: inspect::Inspection,
    /// Moves on when something may have become placeable that was not.
    epoch: u64,
    /// Something was held back by a limit in this epoch, so that a release has to move it on.
    limited: bool,
    /// Something was charged since reservations were last looked at that it may have made vain.
    charged: bool,
    /// Blocked asks that less headroom may reach.
    squeeze: squeeze::Squeeze,
    /// A gang that is placed all at once did not fit in this epoch: a node with more room has to move it on.
    gang_waits: bool,
    /// Gangs that have begun and still wait for placeholders (SEEDS S11).
    gangs: imbl::OrdSet<AppIx>,
    /// Applications that may have a placeholder to replace on its node. No order is kept among them: none takes what another wants.
    swappable: imbl::OrdSet<AppIx>,
    /// Real asks that the homes of their placeholders do not do for, and that may find another node (R6.10).
    elsewhere: in_order::InOrder,
    /// Applications that hold reservations.
    reserved_apps: imbl::OrdSet<AppIx>,
    /// Placeholders that hold a reservation.
    reserved_placeholders: imbl::OrdSet<AllocIx>,
    /// Epoch in which all reserved asks were listed in `ripe`.
    reserved_epoch: u64,
    /// Groups of asks that wait for nodes, and long enough to reserve one.
    wanting: reserve_choice::Wanting,
    /// Where the last search for nodes to reserve ended, which looks at so many asks at a time: the next begins behind it.
    searched: Option<reserve_choice::Wanted>,
    /// Reserved asks that may be placeable: they are looked at before anything else.
    ripe: in_order::InOrder,
    /// Reserved asks that a limit, or another's turn, held back when they were last looked at.
    held_back: imbl::OrdSet<AllocIx>,
    /// What asks hold that have preempted (see `preempt`).
    claims: imbl::OrdMap<AllocIx, Arc<preempt::Claim>>,
    /// Asks whose attempt to preempt found nothing beside nodes that others hold by claims.
    crowded_out: imbl::OrdSet<AllocIx>,
    /// What their node had when a replacement of these placeholders began on it: of nodes whose capacity changed since.
    swaps_at_home: imbl::OrdMap<AllocIx, Resource>,
    search: preempt::Search,
    /// An end of empty dynamic and draining queues is among the deadlines.
    cleaning: bool,
    /// Schedulable nodes without a reservation, by the rank of their id.
    open_nodes: imbl::OrdSet<(u64, NodeIx)>,
    /// A deadline for quota preemption is set.
    quotas_watched: bool,
    /// Age from which a waiting ask reserves a node (T11).
    reservation_delay: Nanos,
    /// The shim wants to hear of every container state (SEEDS S7).
    all_container_states: bool,
    /// The shim wants to be asked before an allocation or reservation.
    ask_shim: bool,
    questions: predicates::Questions,
    /// What goes next of a partition that was stopped.
    leaving: Option<teardown::Leaving>,
    next_serial: u64,
    /// Pending asks that name their node, counted by node and application.
    required_asks: imbl::OrdMap<(Arc<str>, AppIx), u32>,
    /// The node with which an allocation ended, until its record goes (R4.13).
    gone_with: imbl::OrdMap<AllocIx, Arc<str>>,
    /// Leaves in which an allocation came, went or changed its size since it was last told.
    alloc_changed: Vec<QueueIx>,
    /// Applications with asks that were tried and of which the shim was not told, and some that have none any more.
    untold: imbl::OrdSet<AppIx>,
    /// Room for the effects of a charge, reused.
    scratch: Vec<Effect>,
}

impl Partition {
    /// A partition without nodes, with the queues of `conf`; its first effects are the events of their creation.
    pub fn new(
        rm: Arc<str>,
        internal: Arc<str>,
        conf: Arc<PartitionConf>,
        now: Nanos,
        effects: &mut Vec<Effect>,
    ) -> Partition {
        let mut partition = Partition::without_queues(rm, internal, conf.clone(), now);
        let cx = &mut Cx::new(now, effects, &partition.internal);
        partition.build_queues(&conf.root, cx);
        partition.start_periodic(now);
        partition
    }

    /// Gives the partition away; what stays has not even queues, and is only to be dropped.
    pub fn hollow(&mut self) -> Partition {
        let (rm, internal, conf) = (self.rm.clone(), self.internal.clone(), self.conf.clone());
        let hollow = Partition::without_queues(rm, internal, conf, self.state_since);
        std::mem::replace(self, hollow)
    }

    pub(crate) fn without_queues(rm: Arc<str>, internal: Arc<str>, conf: Arc<PartitionConf>, now: Nanos) -> Partition {
        Partition {
            rm,
            name: conf.name.clone(),
            internal,
            state: ObjectState::Active,
            state_since: now,
            conf,
            queues: Table::default(),
            root: QueueIx(0),
            queue_by_path: imbl::OrdMap::new(),
            nodes: Table::default(),
            node_by_id: imbl::OrdMap::new(),
            apps: Table::default(),
            app_by_id: imbl::OrdMap::new(),
            allocs: Table::default(),
            keys: Keys::default(),
            terminated: imbl::OrdMap::new(),
            ended: ended::Ended::default(),
            rejected: imbl::OrdMap::new(),
            total: Resource::new(),
            allocations: 0,
            placeholders: 0,
            reservations: 0,
            bad_updates: 0,
            ugm: Ugm::default(),
            orders: imbl::OrdMap::new(),
            drained_ids: imbl::OrdSet::new(),
            drained_hosts: imbl::OrdSet::new(),
            drain_notes: imbl::OrdMap::new(),
            overdue_told: imbl::OrdMap::new(),
            foreign: imbl::OrdMap::new(),
            index: NodeIndex::default(),
            shapes: shapes::Shapes::default(),
            deadlines: deadlines::Deadlines::default(),
            dirty: order::Dirty::default(),
            inspection: inspect::Inspection::beginning(now),
            epoch: 1,
            limited: false,
            charged: false,
            squeeze: squeeze::Squeeze::default(),
            gang_waits: false,
            gangs: imbl::OrdSet::new(),
            swappable: imbl::OrdSet::new(),
            elsewhere: in_order::InOrder::default(),
            reserved_apps: imbl::OrdSet::new(),
            reserved_placeholders: imbl::OrdSet::new(),
            reserved_epoch: 0,
            wanting: reserve_choice::Wanting::default(),
            searched: None,
            ripe: in_order::InOrder::default(),
            held_back: imbl::OrdSet::new(),
            claims: imbl::OrdMap::new(),
            crowded_out: imbl::OrdSet::new(),
            swaps_at_home: imbl::OrdMap::new(),
            search: preempt::Search::default(),
            cleaning: false,
            open_nodes: imbl::OrdSet::new(),
            quotas_watched: false,
            reservation_delay: reserve::RESERVATION_DELAY,
            all_container_states: false,
            ask_shim: false,
            questions: predicates::Questions::default(),
            leaving: None,
            next_serial: 1,
            required_asks: imbl::OrdMap::new(),
            gone_with: imbl::OrdMap::new(),
            alloc_changed: Vec::new(),
            untold: imbl::OrdSet::new(),
            scratch: Vec::new(),
        }
    }

    /// The row of an ask or allocation of an application.
    pub fn by_key(&self, app: AppIx, key: &str) -> Option<AllocIx> {
        self.keys.get(&self.allocs, app, key)
    }

    /// An ask or allocation, by the names that the shim gave to its application and to it.
    pub fn alloc(&self, app: &str, key: &str) -> Option<&Alloc> {
        self.allocs.get(self.by_key(*self.app_by_id.get(app)?, key)?)
    }

    /// Applies one command.
    pub fn apply(&mut self, command: Command, now: Nanos, effects: &mut Vec<Effect>) {
        let cx = &mut Cx::new(now, effects, &self.internal);
        match command {
            Command::Nodes(items) => self.apply_nodes(items, cx),
            Command::Applications { new, remove } => self.apply_applications(new, &remove, cx),
            Command::Allocations { allocations, releases } => self.apply_allocations(allocations, &releases, cx),
            Command::Configure(conf) => self.reconfigure(conf, cx),
            Command::Tick => self.tick(cx),
            Command::Predicate(answer) => self.answer(answer, cx),
            Command::Unanswered(question) => self.unanswered(question, cx),
            Command::AskPredicates(on) => self.ask_predicates(on, cx),
            Command::PredicateTerms(terms) => self.set_predicate_terms(terms),
            Command::Turn(turn) => self.apply_turn(turn, cx),
            Command::ContainerStates(all) => self.all_container_states = all,
            Command::Reservations(on) => self.set_reservations(on, cx),
            Command::OperatorDrain { nodes, drained } => self.operator_drain(&nodes, drained, cx),
            Command::HoldHosts { hosts, held } => self.hold_hosts(hosts, held),
            Command::NoteDrains(notes) => self.drain_notes.extend(notes),
            Command::OrderQueues(orders) => self.order_queues(orders, cx),
            Command::DrainOverdue(nodes) => self.tell_overdue(&nodes, cx),
            Command::Stop => self.stop(cx),
        }
        self.tell_changes(cx);
        self.settle();
        self.tell_allocated(cx);
        self.plan_inspection(now);
    }

    /// The next moment at which [`Command::Tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.next().into_iter().chain(self.ended.next()).min()
    }

    fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// Something may be placeable now that was not: everything is looked at again.
    fn unblock(&mut self) {
        self.epoch += 1;
        self.limited = false;
        self.gang_waits = false;
    }

    /// A limit has more room now. Of the reserved asks only those are looked at again that one held back: what the others lack
    /// is on nodes.
    fn unblock_limits(&mut self) {
        if !self.limited || crate::planted!("limit-unnoticed") {
            return;
        }
        let listed = self.reserved_epoch == self.epoch;
        self.unblock();
        if listed {
            self.reserved_epoch = self.epoch;
            let held_back = std::mem::take(&mut self.held_back);
            self.ripen(held_back);
        }
    }
}
