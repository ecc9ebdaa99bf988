//! Bringing back the drains of a log (J6).

use std::sync::Arc;

use super::{
    Journal,
    event::{Kind, Origin, Overwrite, ResourceEvent, Targets},
    slot::Capacity,
};
use crate::{
    hostlist::{self, HostList},
    idset::IdSet,
    types::Nanos,
};

/// Hosts of one event that are brought back at most.
const MAX_HOSTS: usize = 1 << 20;

/// An event of a log, as far as it brings back state.
#[derive(Clone, Debug)]
pub enum Past {
    /// `drain`.
    Drain {
        /// When it happened, in ns since the Unix epoch.
        at: Nanos,
        /// Ranks and hosts of that time.
        targets: Targets,
        /// Why, as it is shown to people.
        reason: Option<Arc<str>>,
        /// What it changes.
        overwrite: Overwrite,
        /// Who asked for it.
        origin: Origin,
        /// When operators are told of what still runs.
        deadline: Option<Nanos>,
    },
    /// `undrain`.
    Undrain {
        /// When it happened, in ns since the Unix epoch.
        at: Nanos,
        /// Ranks and hosts of that time.
        targets: Targets,
    },
    /// `resource-update`.
    Update {
        /// Seconds since the Unix epoch.
        expiration: i64,
    },
}

impl Journal {
    /// Applies an event of the log: in file order, whatever the times say. Ranks are those of today's hosts. A host that is
    /// not known gets a rank of its own where an operator drained it, so that it is still drained when it comes back.
    ///
    /// # Errors
    /// Ranks that could not be brought back: they have no host in the event and do not exist today.
    pub fn replay(&mut self, past: &Past) -> Result<(), String> {
        let (event, keep_unknown) = match past {
            Past::Update { expiration } => {
                self.expiration = *expiration;
                return Ok(());
            }
            Past::Drain { at, targets, reason, overwrite, origin, deadline } => {
                let kind = Kind::Drain {
                    targets: targets.clone(),
                    reason: reason.clone(),
                    overwrite: *overwrite,
                    origin: *origin,
                    deadline: *deadline,
                };
                (ResourceEvent { at: *at, kind }, *origin == Origin::Operator)
            }
            Past::Undrain { at, targets } => {
                let kind = Kind::Undrain { targets: targets.clone(), reason: None, origin: Origin::Operator };
                (ResourceEvent { at: *at, kind }, false)
            }
        };
        let (Kind::Drain { targets, .. } | Kind::Undrain { targets, .. }) = &event.kind else { return Ok(()) };
        let (ranks, lost) = self.ranks_today(targets, keep_unknown);
        for rank in ranks.iter() {
            self.change_drain(rank, &event);
        }
        match lost.is_empty() {
            true => Ok(()),
            false => Err(format!("ranks {lost} have no host in this event and do not exist (any more)")),
        }
    }

    /// Today's ranks of the targets, and the ranks that cannot be told: the i-th rank of the idset belongs to the i-th host. A rank
    /// keeps its number where its host is the same, else it is the first of that host; without a host it counts as it is.
    fn ranks_today(&mut self, targets: &Targets, keep_unknown: bool) -> (IdSet, IdSet) {
        let mut ranks = IdSet::new();
        let mut ids = targets.idset.iter();
        let mut unhosted = targets.idset.clone();
        let mut nodes = targets.nodes.iter().flat_map(HostList::iter);
        for host in targets.nodelist.iter().take(MAX_HOSTS) {
            let Some(rank) = ids.next() else { break };
            let node = nodes.next();
            if let Some(rank) = self.rank_today(rank, host, keep_unknown) {
                ranks.insert(rank);
                // Of several nodes of the host it is this one that is drained, in whichever order they come back.
                if let Some(node) = node {
                    self.slots[rank as usize].node = Some(hostlist::plain_name(&node).into());
                }
            }
        }
        if let Some(next) = ids.next() {
            if next > 0 {
                unhosted = unhosted.difference(&IdSet::first(next));
            }
            ranks = ranks.union(&unhosted.intersection(&self.ranks()));
            return (ranks, unhosted.difference(&self.ranks()));
        }
        (ranks, IdSet::new())
    }

    fn rank_today(&mut self, rank: u32, host: String, keep_unknown: bool) -> Option<u32> {
        if self.slots.get(rank as usize).is_some_and(|slot| *slot.host == *host) {
            return Some(rank);
        }
        if let Some(first) = self.by_host.get(host.as_str()).and_then(|ranks| ranks.first()) {
            return Some(*first);
        }
        keep_unknown.then(|| self.add_slot(&host.into(), Capacity::default()))
    }
}

impl Targets {
    /// From the two texts of an event, without nodes.
    ///
    /// # Errors
    /// Which of the two is wrong, and where.
    pub fn parse(idset: &str, nodelist: &str) -> Result<Targets, String> {
        let idset = IdSet::parse(idset).map_err(|error| error.to_string())?;
        let nodelist = HostList::parse(nodelist).map_err(|error| error.to_string())?;
        Ok(Targets { idset, nodelist, nodes: None })
    }
}
