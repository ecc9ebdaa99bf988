//! The resource journal of a partition: which execution targets there are, which are available, which are drained.
//!
//! A pure state machine: (state, fact, now) → resource events of RFC 44, and what the partition has to be told. A rank is
//! a position in the list of hosts. It stays with its host, over restarts where the journal is stored (from the first drain of its
//! partition on), and goes to another host only after its own has been away for [`Settings::keep_rank`] without being drained,
//! so that ranks stay dense. Where very many are away, the one that has been for longest gives its rank up before that: nodes that
//! get ever new host names do not make the list grow.
//!
//! Facts are collected for [`Settings::batch`] and leave as one event of each kind, so a burst of registrations is not
//! a burst of events.

mod deadline;
mod drain;
mod event;
mod flush;
mod replay;
mod slot;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use deadline::Overdue;
pub use drain::{DrainRefusal, DrainRequest, UndrainRequest, targets_of};
pub use event::{Kind, Method, Origin, Overwrite, ResourceEvent, Targets};
pub use slot::{Capacity, DrainNote, DrainState, Known, ResourceSet, Target};
use slot::{NOT_YET, Slot};

use super::{command::Command, effect::NodeEffect, hostlist, types::Nanos};

/// What may be set. Durations.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long facts are collected before they leave as events.
    pub batch: Nanos,
    /// How long a host that went away keeps its rank.
    pub keep_rank: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { batch: Nanos::from_millis(100), keep_rank: Nanos::from_secs(3600) }
    }
}

/// Ranks that a stored resource set may have.
pub const MAX_RANKS: usize = 1 << 20;
/// Ranks that may be away beside as many as have been registered at a time. What is away by day or for a repair is less.
const SPARE: usize = 10_000;
/// So many of the ranks of a stored resource set count as having been registered: some may be those of names of the past.
const MOST_KNOWN: usize = 100_000;

/// Events that are kept in memory at most where nothing else is said.
pub const DEFAULT_LIMIT: usize = 100_000;

/// A moment on two clocks: events are stamped with the one that may be set, patience is measured with the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Wall clock, since the Unix epoch.
    pub wall: Nanos,
    /// A clock that only goes forward.
    pub steady: Nanos,
}

/// Something about a node.
#[derive(Clone, Debug)]
pub enum Fact {
    /// What its partition says of it.
    Node(NodeEffect),
    /// It has been silent for too long, or is heard of again: its conversation says so.
    Torpid {
        /// Id of the node.
        node: Arc<str>,
        /// Silent, or lively.
        torpid: bool,
    },
}

/// What comes out.
#[derive(Clone, Debug)]
pub enum Output {
    /// An event for the journal.
    Event(ResourceEvent),
    /// What the partition has to carry out.
    Tell(Command),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Journal {
    settings: Settings,
    /// By rank.
    slots: Vec<Slot>,
    /// Ranks of a host, ascending.
    by_host: BTreeMap<Arc<str>, Vec<u32>>,
    /// Rank of a registered node.
    by_node: BTreeMap<Arc<str>, u32>,
    /// Ranks without a registered node that are not drained, by how long.
    away: BTreeSet<(Nanos, u32)>,
    /// Nodes that have been registered at a time.
    most: usize,
    /// End of the resource set's life, seconds since the Unix epoch; 0: none.
    expiration: i64,
    /// `restart` was posted, with the map from ranks to hosts.
    restarted: bool,
    /// The map changed since it was last told.
    map_changed: bool,
    /// What targets offer changed since the resource set was defined.
    offer_changed: bool,
    /// When the oldest fact came that no event tells of yet.
    waiting_since: Option<Nanos>,
    /// Deadlines of drains, with their ranks.
    deadlines: BTreeSet<(Nanos, u32)>,
    /// Deadlines up to this one were told of.
    told: Nanos,
}

impl Journal {
    /// A journal that knows the hosts of a stored resource set by rank. Drains are then replayed, and [`Journal::begin`] follows.
    pub fn new(settings: Settings, known: Vec<Known>, expiration: i64) -> Journal {
        let mut journal = Journal {
            settings,
            slots: Vec::new(),
            by_host: BTreeMap::new(),
            by_node: BTreeMap::new(),
            away: BTreeSet::new(),
            most: known.len().min(MOST_KNOWN),
            expiration,
            restarted: false,
            map_changed: false,
            offer_changed: false,
            waiting_since: None,
            deadlines: BTreeSet::new(),
            told: Nanos(i64::MIN),
        };
        for host in known {
            journal.add_slot(&host.host, host.capacity);
        }
        journal
    }

    /// A session begins, or goes on after a restart: no node is registered yet. What the resource manager had drained stays so
    /// until the first events leave: the nodes of a session that goes on are there again by then, and others are not drained
    /// by it any more.
    pub fn begin(&mut self, now: Moment) {
        for rank in 0..self.size() {
            self.leave(rank, now);
        }
        self.by_node.clear();
        if !self.slots.is_empty() {
            self.changed(now);
        }
    }

    /// Another journal stood in for this one, which was not known yet: a session begins here with the nodes that it has there.
    pub fn take_up(&mut self, other: &Journal, now: Moment, out: &mut Vec<Output>) {
        self.begin(now);
        let here = other.slots.iter().filter(|slot| slot.online());
        for (slot, node) in here.filter_map(|slot| Some((slot, slot.node.as_ref()?))) {
            self.registered(node, &slot.host, slot.capacity, slot.schedulable, now, out);
            if let Some(rank) = self.by_node.get(node).copied() {
                self.set_torpid(rank, slot.torpid, now);
            }
        }
    }

    /// The session ended: all its nodes are gone.
    pub fn end(&mut self, now: Moment, out: &mut Vec<Output>) {
        for (_, rank) in std::mem::take(&mut self.by_node) {
            self.leave(rank, now);
        }
        self.flush(now, out);
    }

    /// Takes note of a fact. The events that tell of it come with [`Journal::tick`].
    pub fn apply(&mut self, fact: Fact, now: Moment, out: &mut Vec<Output>) {
        match fact {
            Fact::Node(NodeEffect::Registered { node, host, capacity, schedulable }) => {
                self.registered(&node, &host, Capacity::of(&capacity), schedulable, now, out);
            }
            Fact::Node(NodeEffect::Renamed { node, host }) => {
                if let Some(rank) = self.by_node.get(&node).copied() {
                    let Slot { capacity, schedulable, torpid, .. } = self.slots[rank as usize].clone();
                    self.registered(&node, &host, capacity, schedulable, now, out);
                    if let Some(rank) = self.by_node.get(&node).copied() {
                        self.set_torpid(rank, torpid, now);
                    }
                }
            }
            Fact::Node(NodeEffect::Removed { node }) => {
                if let Some(rank) = self.by_node.remove(&node) {
                    self.leave(rank, now);
                    self.changed(now);
                }
            }
            Fact::Node(NodeEffect::Capacity { node, capacity }) => {
                if let Some(rank) = self.by_node.get(&node).copied() {
                    self.offers(rank, Capacity::of(&capacity), now);
                }
            }
            Fact::Node(NodeEffect::Schedulable { node, schedulable }) => {
                if let Some(rank) = self.by_node.get(&node).copied() {
                    self.slots[rank as usize].schedulable = schedulable;
                    self.changed(now);
                }
            }
            Fact::Node(NodeEffect::Held { node }) => {
                let drained = |rank: &u32| self.slots[*rank as usize].drained_by_operator();
                if self.by_node.get(&node).is_some_and(|rank| !drained(rank)) {
                    out.push(Output::Tell(Command::OperatorDrain { nodes: vec![node], drained: false }));
                }
            }
            Fact::Node(NodeEffect::Seen { .. }) => {}
            Fact::Torpid { node, torpid } => {
                if let Some(rank) = self.by_node.get(&node).copied() {
                    self.set_torpid(rank, torpid, now);
                }
            }
        }
    }

    fn registered(
        &mut self,
        node: &Arc<str>,
        host: &str,
        capacity: Capacity,
        schedulable: bool,
        now: Moment,
        out: &mut Vec<Output>,
    ) {
        let name = if host.is_empty() { &**node } else { host };
        let host: Arc<str> = hostlist::safe_name(name).into();
        let old = self.by_node.remove(node);
        if let Some(old) = old {
            self.leave(old, now);
        }
        let rank = self.rank_for(node, &host, now, out);
        self.by_node.insert(node.clone(), rank);
        self.most = self.most.max(self.by_node.len());
        self.offers(rank, capacity, now);
        let slot = &mut self.slots[rank as usize];
        slot.taken_over |= slot.drained_by_operator() && !slot.is_of(node);
        slot.node = Some(node.clone());
        if let Some(since) = slot.away_since.take() {
            self.away.remove(&(since, rank));
        }
        slot.schedulable = schedulable;
        if slot.drained_by_operator() {
            out.push(Output::Tell(Command::OperatorDrain { nodes: vec![node.clone()], drained: true }));
            if slot.deadline().is_some_and(|deadline| deadline <= self.told) {
                out.push(Output::Tell(Command::DrainOverdue(vec![node.clone()])));
            }
        }
        self.set_torpid(rank, false, now);
        self.changed(now);
        // After a restart, or when it comes again, as when it is told of another host.
        if let Some(old) = old.or_else(|| self.drained_without_a_host(node, &host)).filter(|old| *old != rank) {
            self.move_drain(old, rank, now, out);
        }
    }

    /// The rank at which this node was drained before its shim named its host: then the host had the name of the node.
    fn drained_without_a_host(&self, node: &str, host: &str) -> Option<u32> {
        let name = hostlist::safe_name(node);
        let ranks = self.by_host.get(&*name).filter(|_| name != host)?;
        ranks.iter().copied().find(|rank| {
            let slot = &self.slots[*rank as usize];
            !slot.online() && slot.drained_by_operator() && slot.is_of(node)
        })
    }

    /// The rank of a host's node: the one it had, else one of the host that is free, else one that was given up, else a new one.
    fn rank_for(&mut self, node: &Arc<str>, host: &Arc<str>, now: Moment, out: &mut Vec<Output>) -> u32 {
        let own = self.by_host.get(host).and_then(|ranks| {
            let slot = |rank: u32| &self.slots[rank as usize];
            let free = || ranks.iter().copied().filter(|rank| !slot(*rank).online());
            let same = |rank: &u32| slot(*rank).node.as_ref() == Some(node);
            // What an operator said of another node of this host waits for that one. Where the host never had but one node, this
            // one has come in its place.
            let drained = |rank: &u32| slot(*rank).drained_by_operator();
            let drained_here = |rank: &u32| drained(rank) && slot(*rank).is_of(node);
            let in_its_place = |rank: &u32| ranks.len() == 1 || slot(*rank).node.is_none();
            let named = free().find(same).or_else(|| free().find(drained_here));
            named.or_else(|| free().find(|rank| !drained(rank))).or_else(|| free().find(in_its_place))
        });
        if let Some(rank) = own {
            return rank;
        }
        let given_up = self.given_up(now, out);
        self.map_changed = true;
        match given_up {
            Some(rank) => {
                self.rename(rank, host);
                rank
            }
            None => self.add_slot(host, Capacity::default()),
        }
    }

    /// The rank that has been without its host for longest, if that is long enough, or if too many are.
    fn given_up(&mut self, now: Moment, out: &mut Vec<Output>) -> Option<u32> {
        let longest = |journal: &Journal| {
            let crowded = journal.away.len() > journal.most + SPARE || journal.slots.len() >= MAX_RANKS;
            let long_away = |since: &Nanos| since.plus(journal.settings.keep_rank) <= now.steady;
            journal.away.first().copied().filter(|(since, _)| crowded || long_away(since)).map(|(_, rank)| rank)
        };
        let rank = longest(self)?;
        if !self.slots[rank as usize].posted_online {
            return Some(rank);
        }
        // That it has gone is told before another host has its rank. All that are away are told of then.
        self.flush(now, out);
        longest(self)
    }

    /// The node of a rank is not registered (any more).
    fn leave(&mut self, rank: u32, now: Moment) {
        let slot = &mut self.slots[rank as usize];
        if slot.away_since.is_none_or(|since| since > now.steady) {
            if let Some(since) = slot.away_since.replace(now.steady) {
                self.away.remove(&(since, rank));
            }
            self.may_be_given_up(rank);
        }
    }

    /// A rank that is away is among those that may be given up, unless it is drained.
    fn may_be_given_up(&mut self, rank: u32) {
        let slot = &self.slots[rank as usize];
        match slot.away_since {
            Some(since) if slot.drain.is_none() && since < NOT_YET => _ = self.away.insert((since, rank)),
            Some(since) => _ = self.away.remove(&(since, rank)),
            None => {}
        }
    }

    fn add_slot(&mut self, host: &Arc<str>, capacity: Capacity) -> u32 {
        let rank = self.slots.len() as u32;
        self.slots.push(Slot::new(host.clone(), capacity));
        self.by_host.entry(host.clone()).or_default().push(rank);
        rank
    }

    fn rename(&mut self, rank: u32, host: &Arc<str>) {
        self.forget(rank);
        let slot = &mut self.slots[rank as usize];
        // Readers know the rank, and are told that it is lively.
        let posted_torpid = slot.posted_torpid;
        *slot = Slot { posted_torpid, ..Slot::new(host.clone(), Capacity::default()) };
        let ranks = self.by_host.entry(host.clone()).or_default();
        let at = ranks.partition_point(|other| *other < rank);
        ranks.insert(at, rank);
    }

    /// Takes a rank from the list of its host, and of those that are away.
    fn forget(&mut self, rank: u32) {
        let Slot { host, away_since, .. } = &self.slots[rank as usize];
        if let Some(since) = away_since {
            self.away.remove(&(*since, rank));
        }
        if let Some(ranks) = self.by_host.get_mut(host) {
            ranks.retain(|other| *other != rank);
            if ranks.is_empty() {
                self.by_host.remove(host);
            }
        }
    }

    fn offers(&mut self, rank: u32, capacity: Capacity, now: Moment) {
        let slot = &mut self.slots[rank as usize];
        if slot.capacity != capacity {
            slot.capacity = capacity;
            self.offer_changed = true;
            self.changed(now);
        }
    }

    fn set_torpid(&mut self, rank: u32, torpid: bool, now: Moment) {
        if std::mem::replace(&mut self.slots[rank as usize].torpid, torpid) != torpid {
            self.changed(now);
        }
    }

    fn changed(&mut self, now: Moment) {
        self.waiting_since.get_or_insert(now.steady);
    }

    /// Time has come to `now`: events leave that have waited long enough.
    pub fn tick(&mut self, now: Moment, out: &mut Vec<Output>) {
        if self.waiting_since.is_some_and(|since| since.plus(self.settings.batch) <= now.steady) {
            self.flush(now, out);
        }
        self.tell_overdue(now, out);
    }

    /// The moment of the steady clock at which [`Journal::tick`] has something to do.
    pub fn next_deadline(&self, now: Moment) -> Option<Nanos> {
        let batch = self.waiting_since.map(|since| since.plus(self.settings.batch));
        [batch, self.next_overdue(now)].into_iter().flatten().min()
    }
}

fn event(now: Moment, kind: Kind) -> Output {
    Output::Event(ResourceEvent { at: now.wall, kind })
}
