//! `Partition`: all that one placement must read and write together. Commands in, effects out; no clock, no I/O.

use std::sync::Arc;

use super::{
    alloc::Alloc,
    app::App,
    command::Command,
    conf::PartitionConf,
    cow::CowVec,
    effect::Effect,
    node::Node,
    queue::Queue,
    resources::Resource,
    types::{AppIx, Nanos, NodeIx, ObjectState, QueueIx},
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
    /// Queues; `Queue::free` marks unused rows.
    pub queues: CowVec<Queue, 8>,
    /// The root queue.
    pub root: QueueIx,
    /// Queues by path.
    pub queue_by_path: imbl::OrdMap<Arc<str>, QueueIx>,
    /// Nodes; `Node::free` marks unused rows.
    pub nodes: CowVec<Node, 32>,
    /// Nodes by id.
    pub node_by_id: imbl::OrdMap<Arc<str>, NodeIx>,
    /// Active applications; `App::free` marks unused rows.
    pub apps: CowVec<App, 8>,
    /// Active applications by id.
    pub app_by_id: imbl::OrdMap<Arc<str>, AppIx>,
    /// Asks and allocations; `Alloc::free` marks unused rows.
    pub allocs: CowVec<Alloc, 64>,
    /// Terminated applications by id and end time (R3.47).
    pub terminated: imbl::OrdMap<(Arc<str>, Nanos), Arc<App>>,
    /// Rejected applications by id (R3.25).
    pub rejected: imbl::OrdMap<Arc<str>, Arc<App>>,
    /// Sum of the nodes' capacity.
    pub total: Resource,
    /// Number of allocations, placeholders included (`totalContainers`).
    pub allocations: u64,
    /// Number of placeholder allocations.
    pub placeholders: u64,
    /// Number of reservations.
    pub reservations: u64,
    /// Users and groups.
    pub ugm: Ugm,
}

impl Partition {
    /// A partition without nodes, with the queues of `conf`; its first effects are the events of their creation.
    pub fn new(
        _rm: Arc<str>,
        _internal: Arc<str>,
        _conf: Arc<PartitionConf>,
        _now: Nanos,
        _effects: &mut Vec<Effect>,
    ) -> Partition {
        todo!()
    }

    /// Applies one command.
    pub fn apply(&mut self, _command: Command, _now: Nanos, _effects: &mut Vec<Effect>) {
        todo!()
    }

    /// Makes up to `max` placements and replacements; fewer when nothing more can be placed now. Gives their number.
    pub fn schedule(&mut self, _max: usize, _now: Nanos, _effects: &mut Vec<Effect>) -> usize {
        todo!()
    }

    /// The next moment at which [`Command::Tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        todo!()
    }

    /// Headroom of a queue: what may still be allocated in it, over the whole path; `None`: nothing limits (QUE-029).
    pub fn headroom(&self, _queue: QueueIx) -> Option<Resource> {
        todo!()
    }
}
