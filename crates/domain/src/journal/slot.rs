//! A rank: its host, and what is known of the node there.

use std::sync::Arc;

use super::{Journal, event::Targets};
use crate::{
    coded::list,
    hostlist::{self, HostList},
    idset::{IdSet, MAX_ID},
    resources::{Resource, VCORE},
    types::Nanos,
};

/// What a target offers, in the units of R version 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Whole cores.
    pub cores: u32,
    /// Number of GPUs.
    pub gpus: u32,
}

impl Capacity {
    /// Cores from vcore (milli-units, rounded down); GPUs from all resource types called `gpu` or `…/gpu`.
    pub fn of(resource: &Resource) -> Capacity {
        let gpus = resource.iter().filter(|(kind, _)| {
            let name = kind.name();
            name == "gpu" || name.ends_with("/gpu")
        });
        Capacity { cores: count(resource.amount(&VCORE) / 1000), gpus: count(gpus.map(|(_, amount)| amount).sum()) }
    }
}

fn count(amount: i128) -> u32 {
    amount.clamp(0, i128::from(MAX_ID)) as u32
}

/// A host of a stored resource set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Host name.
    pub host: Arc<str>,
    /// What it offered.
    pub capacity: Capacity,
}

/// The resource set: what R version 1 says.
#[derive(Clone, Debug)]
pub struct ResourceSet {
    /// Ranks that offer the same, by their first rank.
    pub groups: Vec<(IdSet, Capacity)>,
    /// The n-th host is that of rank n.
    pub nodelist: HostList,
    /// End of its life, seconds since the Unix epoch; 0: none.
    pub expiration: i64,
}

/// Why and since when a target is drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainState {
    /// Since when, in ns since the Unix epoch.
    pub since: Nanos,
    /// The reason that holds, where one was given.
    pub reason: Option<Arc<str>>,
    /// An operator drained it, for this reason.
    pub operator: Option<Option<Arc<str>>>,
    /// The resource manager drained it.
    pub rm: bool,
    /// The operator is told of what still runs there then, by the wall clock.
    pub deadline: Option<Nanos>,
}

/// What an operator said of the drain of a host: for a journal that did not hear it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrainNote {
    /// Since when.
    pub since: Nanos,
    /// Why, as it is shown to people.
    pub reason: Option<Arc<str>>,
    /// When operators are told of what still runs there, by the wall clock.
    pub deadline: Option<Nanos>,
}

list!(DrainNote { since, reason, deadline });

/// What readers see of a rank.
#[derive(Clone, Debug)]
pub struct Target {
    /// Rank in the journal (RFC 44).
    pub rank: u32,
    /// Host name.
    pub host: Arc<str>,
    /// The node registered there, or the last one that was.
    pub node: Option<Arc<str>>,
    /// A node is registered there.
    pub online: bool,
    /// It has been silent for too long.
    pub torpid: bool,
    /// Who drained it, and why; none: it is not drained.
    pub drain: Option<DrainState>,
}

/// Since when a rank is away of which no session began yet: nothing is due.
pub(super) const NOT_YET: Nanos = Nanos(i64::MAX);

/// A row of the table of ranks.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub host: Arc<str>,
    pub node: Option<Arc<str>>,
    pub capacity: Capacity,
    /// Since when no node is registered there, `None` while one is.
    pub away_since: Option<Nanos>,
    /// The resource manager lets it take allocations.
    pub schedulable: bool,
    pub torpid: bool,
    /// Another node than the log names has come to a drain of an operator.
    pub taken_over: bool,
    /// What the journal last said of it.
    pub posted_online: bool,
    pub posted_torpid: bool,
    pub drain: Option<DrainState>,
}

impl Slot {
    pub fn new(host: Arc<str>, capacity: Capacity) -> Slot {
        Slot {
            host,
            node: None,
            capacity,
            away_since: Some(NOT_YET),
            schedulable: true,
            torpid: false,
            taken_over: false,
            posted_online: false,
            posted_torpid: false,
            drain: None,
        }
    }

    pub fn online(&self) -> bool {
        self.away_since.is_none()
    }

    /// It is this node's. One that is not known is that of the host's name.
    pub fn is_of(&self, node: &str) -> bool {
        self.node.as_deref().map_or_else(|| hostlist::safe_name(node) == *self.host, |own| own == node)
    }

    /// Its host has been away for so long that the rank may go to another one.
    pub fn given_up(&self, now: Nanos, keep: Nanos) -> bool {
        self.drain.is_none() && !self.posted_online && self.away_since.is_some_and(|since| since.plus(keep) <= now)
    }

    pub fn drained_by_operator(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.operator.is_some())
    }

    /// What an operator said of its drain.
    pub fn note(&self) -> Option<DrainNote> {
        let DrainState { since, operator, deadline, .. } = self.drain.as_ref()?;
        // As exact as the log of the journal has times.
        let micros = |at: &Nanos| Nanos(at.0.div_euclid(1000) * 1000);
        Some(DrainNote { since: micros(since), reason: operator.clone()?, deadline: deadline.as_ref().map(micros) })
    }

    pub fn deadline(&self) -> Option<Nanos> {
        self.drain.as_ref()?.deadline
    }

    pub fn drained_by_rm(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.rm)
    }

    /// The resource manager's drain ends. True: so it is not drained any longer.
    pub fn release_rm(&mut self) -> bool {
        let Some(drain) = &mut self.drain else { return false };
        let released = std::mem::take(&mut drain.rm) && drain.operator.is_none();
        if released {
            self.drain = None;
        }
        released
    }
}

impl Journal {
    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.slots.len() as u32
    }

    /// All ranks.
    pub fn ranks(&self) -> IdSet {
        IdSet::first(self.size())
    }

    /// The hosts by rank.
    pub fn nodelist(&self) -> HostList {
        self.slots.iter().map(|slot| &*slot.host).collect()
    }

    /// Ranks with their hosts, and their nodes, where the host does not say which node it is.
    pub fn targets(&self, idset: IdSet) -> Targets {
        let slots = || idset.iter().filter_map(|rank| self.slots.get(rank as usize));
        let nodelist = slots().map(|slot| &*slot.host).collect();
        let node =
            |slot: &Slot| slot.node.as_ref().map_or_else(|| slot.host.to_string(), |node| hostlist::safe_name(node));
        let is_shared = |slot: &Slot| self.by_host.get(&slot.host).is_some_and(|ranks| ranks.len() > 1);
        let is_needed = |slot: &Slot| is_shared(slot) || node(slot) != *slot.host;
        let nodes = slots().any(is_needed).then(|| slots().map(node).collect());
        Targets { idset, nodelist, nodes }
    }

    /// Every rank, for readers.
    pub fn status(&self) -> Vec<Target> {
        let view = |(rank, slot): (u32, &Slot)| Target {
            rank,
            host: slot.host.clone(),
            node: slot.node.clone(),
            online: slot.online(),
            torpid: slot.torpid && slot.online(),
            drain: slot.drain.clone(),
        };
        (0_u32..).zip(&self.slots).map(view).collect()
    }

    /// The present resource set.
    pub fn resource_set(&self) -> ResourceSet {
        let mut groups: Vec<(IdSet, Capacity)> = Vec::new();
        let mut by_capacity = std::collections::BTreeMap::new();
        for (rank, slot) in (0_u32..).zip(&self.slots) {
            let at = *by_capacity.entry((slot.capacity.cores, slot.capacity.gpus)).or_insert_with(|| {
                groups.push((IdSet::new(), slot.capacity));
                groups.len() - 1
            });
            groups[at].0.insert(rank);
        }
        ResourceSet { groups, nodelist: self.nodelist(), expiration: self.expiration }
    }
}
