//! Nodes: capacity, what is on them, whether they take more (section 2 of the scheduling rules).

use std::sync::Arc;

use super::coded::{Coded, Error, Plain, Reader, Skip, Writer, list, map};
use super::{
    alloc::{AskSpec, Foreign},
    partition::Amount,
    rare::Rare,
    resources::Resource,
    sorted::Texts,
    table::{Changed, Free},
    types::{AllocIx, Nanos},
};

/// Attribute of a node that names its host.
pub const HOST_NAME: &str = "si/hostname";

/// What the shim said of a node; replaced as a whole by an UPDATE that carries attributes (SEEDS S5).
#[derive(Clone, Debug, Default)]
pub struct NodeSpec {
    /// Unique in its partition.
    pub id: Arc<str>,
    /// All attributes, `si/node-partition` in its internal form `[rm]name`.
    pub attributes: Texts,
}

impl NodeSpec {
    /// Attribute [`HOST_NAME`], empty where missing.
    pub fn host_name(&self) -> &str {
        self.attributes.get(HOST_NAME).map_or("", String::as_str)
    }

    /// The name of its host in the resource journal: its own id, where it has no host name.
    pub fn host(&self) -> Arc<str> {
        match self.host_name() {
            "" => self.id.clone(),
            host => host.into(),
        }
    }

    /// Attribute `si/rackname`, empty where missing.
    pub fn rack_name(&self) -> &str {
        self.attributes.get("si/rackname").map_or("", String::as_str)
    }

    /// Attribute `si/instance-type`; `UNKNOWN` where missing or empty (R2.8).
    pub fn instance_type(&self) -> &str {
        self.attributes.get("si/instance-type").map(String::as_str).filter(|t| !t.is_empty()).unwrap_or("UNKNOWN")
    }
}

/// An allocation of another scheduler on a node (R2.15).
#[derive(Clone, Debug)]
pub struct ForeignAlloc {
    /// What the shim said.
    pub spec: Arc<AskSpec>,
    /// Present resource.
    pub resource: Arc<Resource>,
    /// Creation time (R4.2).
    pub created: Nanos,
}

/// Allocations that are charged while the shim is asked about them: nobody else knows them yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Their sum.
    pub amount: Resource,
    /// Their number.
    pub count: u64,
}

impl Asked {
    /// One more, or one less.
    pub fn note(&mut self, amount: &Resource, more: bool) {
        if more {
            self.amount.add(amount);
            self.count += 1;
        } else {
            self.amount.sub(amount);
            self.amount.prune();
            self.count -= 1;
        }
    }
}

/// Asks that reserve a node, in the order in which they did. One of thousands goes at the cost of one.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    asks: imbl::OrdMap<u64, AllocIx>,
    turns: imbl::OrdMap<AllocIx, u64>,
    /// What they want of each type together.
    wanted: Resource,
    /// So many of them do not require this very node.
    ordinary: u64,
}

impl Reservations {
    /// One more, of this size; `required`: it may have no other node.
    pub fn push(&mut self, ask: AllocIx, size: &Resource, required: bool) {
        self.enter(ask);
        self.count(size, required);
    }

    fn enter(&mut self, ask: AllocIx) {
        let turn = self.asks.get_max().map_or(0, |(last, _)| last + 1);
        self.asks.insert(turn, ask);
        self.turns.insert(ask, turn);
    }

    /// What was read tells only which asks they are: this is one of them.
    pub fn count(&mut self, size: &Resource, required: bool) {
        self.ordinary += u64::from(!required);
        self.wanted.add(&wanted(size));
    }

    /// One less: what was pushed.
    pub fn remove(&mut self, ask: AllocIx, size: &Resource, required: bool) {
        let Some(turn) = self.turns.remove(&ask) else { return };
        self.asks.remove(&turn);
        self.ordinary -= u64::from(!required);
        self.resize(size, &Resource::new());
    }

    /// One of them has another size.
    pub fn resize(&mut self, from: &Resource, to: &Resource) {
        self.wanted.sub(&wanted(from));
        self.wanted.add(&wanted(to));
        self.wanted.prune();
    }

    /// What they want of each type together.
    pub fn wanted(&self) -> &Resource {
        &self.wanted
    }

    /// Some of them do not require this very node.
    pub fn has_ordinary(&self) -> bool {
        self.ordinary > 0
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.asks.len()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = AllocIx> + '_ {
        self.asks.values().copied()
    }
}

fn wanted(size: &Resource) -> Resource {
    let mut wanted = Resource::new();
    size.iter().filter(|(_, amount)| *amount > 0).for_each(|(kind, amount)| wanted.set(kind.clone(), amount));
    wanted
}

/// A row of the node table.
#[derive(Clone, Debug)]
pub struct Node {
    /// What the shim said.
    pub spec: Arc<NodeSpec>,
    /// Capacity, without zero types (R2.11).
    pub capacity: Resource,
    /// Sum of the allocations on it, replacements in flight on another node included (R6.10).
    pub(crate) allocated: Amount,
    /// Sum of the foreign allocations (R2.14).
    pub occupied: Rare<Resource>,
    /// Capacity − allocated − occupied, pruned; may be negative (R2.10).
    pub(crate) available: Amount,
    /// The shim wants it scheduled.
    pub rm_schedulable: bool,
    /// Of what is allocated, what the shim is still asked about.
    pub asked: Rare<Asked>,
    /// An operator drained it; stays over everything the shim says.
    pub operator_drained: bool,
    /// Allocations on it, in no particular order; each knows its place ([`Alloc::at`](super::alloc::Alloc::at)).
    pub allocs: Vec<AllocIx>,
    /// None of them was bound after this.
    pub newest: Nanos,
    /// Foreign allocations by key.
    pub foreign: imbl::OrdMap<Arc<str>, ForeignAlloc>,
    /// Asks that reserve it, in the order in which they did.
    pub reservations: Rare<Reservations>,
    /// What those of them have been promised that have preempted.
    pub(crate) claimed: Rare<Amount>,
    /// Position among the node ids in byte order: breaks ties of the sort score (R2.34).
    pub rank: u64,
    /// Its key in the sort order; `None` while it is not in it: drained, or reserved by preemption or for an ask that requires
    /// it. One that waiting asks reserve stays in it with what is left.
    pub sort_key: Option<u64>,
    /// It is in the sort order, and nobody has reserved it.
    pub open: bool,
    /// Last sign of life.
    pub seen: Nanos,
    /// The last changes of size of allocations on it, at most [`Node::RESIZES`]: no event tells them (EVT-037).
    pub resizes: Vec<(Nanos, Resource)>,
    /// Its place is free.
    pub free: Free,
    /// Its last change.
    pub changed: Changed,
}

impl Node {
    /// So many changes of size are known.
    pub const RESIZES: usize = 64;

    /// Keys of foreign allocations that may go: those that are static stay as long as the node (R2.15).
    pub fn foreign_to_go(&self) -> impl Iterator<Item = &Arc<str>> {
        self.foreign.iter().filter(|(_, one)| one.spec.foreign != Some(Foreign::Static)).map(|(key, _)| key)
    }

    /// Sum of the allocations on it, replacements in flight on another node included (R6.10).
    pub fn allocated(&self) -> &Amount {
        &self.allocated
    }

    /// Capacity − allocated − occupied, pruned; may be negative (R2.10).
    pub fn available(&self) -> &Amount {
        &self.available
    }

    /// What is allocated on it, for all to see: without what the shim is still asked about.
    pub fn placed(&self) -> Resource {
        self.allocated.minus(&self.asked.amount).pruned()
    }

    /// Number of allocations on it, for all to see.
    pub fn placements(&self) -> u64 {
        self.allocs.len() as u64 - self.asked.count
    }

    /// It takes new allocations.
    pub fn schedulable(&self) -> bool {
        self.rm_schedulable && (!self.operator_drained || crate::planted!("drain-ignored"))
    }

    /// Its id, as the shim gave it.
    pub fn id(&self) -> &Arc<str> {
        &self.spec.id
    }
}

list!(NodeSpec { id, attributes });
list!(ForeignAlloc { spec, resource, created });

map!(Node {
    1 spec,
    2 capacity,
    3 allocated,
    4 occupied,
    5 available,
    6 rm_schedulable,
    7 operator_drained,
    8 allocs,
    9 foreign,
    10 reservations,
    11 rank,
    12 sort_key,
    13 seen,
    14 free,
    15 asked,
    16 claimed,
    17 resizes,
    18 newest as Skip,
    19 changed as Skip,
    20 open as Skip,
});

/// The asks, in their order; the rest follows from them.
impl Coded for Reservations {
    fn write(&self, to: &mut Writer) {
        to.array(self.len());
        self.iter().for_each(|ask| ask.write(to));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let mut reservations = Reservations::default();
        Vec::read(from)?.into_iter().for_each(|ask| reservations.enter(ask));
        Ok(reservations)
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(Reservations::default())
    }
}

impl Coded for Asked {
    fn write(&self, to: &mut Writer) {
        to.array(2);
        self.amount.write(to);
        self.count.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let mut left = from.open_list()?;
        let amount = from.value::<Plain, _>("Asked", "amount", &mut left)?;
        let count = from.value::<Plain, _>("Asked", "count", &mut left)?;
        from.close_list("Asked", left)?;
        Ok(Asked { amount, count })
    }

    fn is_absent(&self) -> bool {
        *self == Asked::default()
    }

    fn absent() -> Option<Self> {
        Some(Asked::default())
    }
}
