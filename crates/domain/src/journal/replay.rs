//! Bringing back the drains of a log (J6).

use std::sync::Arc;

use super::{
    Journal,
    event::{Kind, Origin, ResourceEvent, Targets},
    slot::Capacity,
};
use crate::{
    hostlist::{self, HostList},
    idset::IdSet,
};

/// Hosts of one event that are brought back at most.
const MAX_HOSTS: usize = 1 << 20;

impl Journal {
    /// Applies an event of the log, as far as it brings back state: in file order, whatever the times say. Ranks are those of
    /// today's hosts. A host that is not known gets a rank of its own where an operator drained it, so that it is still drained
    /// when it comes back.
    ///
    /// # Errors
    /// Ranks that could not be brought back: they have no host in the event and do not exist today.
    pub fn replay(&mut self, event: &ResourceEvent) -> Result<(), String> {
        let (targets, by_operator) = match &event.kind {
            Kind::Update { expiration } => {
                self.expiration = *expiration;
                return Ok(());
            }
            Kind::Drain { targets, origin, .. } => (targets, *origin == Origin::Operator),
            Kind::Undrain { targets, .. } => (targets, false),
            _ => return Ok(()),
        };
        let (ranks, lost) = self.ranks_today(targets, by_operator);
        for rank in ranks.iter() {
            self.change_drain(rank, event);
        }
        match lost.is_empty() {
            true => Ok(()),
            false => Err(format!("ranks {lost} have no host in this event and do not exist (any more)")),
        }
    }

    /// Today's ranks of the targets, and the ranks that cannot be told: the i-th rank of the idset belongs to the i-th host;
    /// without a host it counts as it is.
    fn ranks_today(&mut self, targets: &Targets, by_operator: bool) -> (IdSet, IdSet) {
        let mut ranks = IdSet::new();
        let mut ids = targets.idset.iter();
        let mut unhosted = targets.idset.clone();
        let mut nodes = targets.nodes.iter().flat_map(HostList::iter);
        for host in targets.nodelist.iter().take(MAX_HOSTS) {
            let Some(rank) = ids.next() else { break };
            // One of the host's name may be one that nobody knew.
            let node = nodes.next().filter(|node| *node != host).map(|node| hostlist::plain_name(&node).into());
            if let Some(rank) = self.rank_today(rank, host, node.as_ref(), by_operator) {
                ranks.insert(rank);
                if by_operator {
                    self.is_node_of(rank, node);
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

    /// A rank keeps its number where its host is the same, unless its node is known to be drained at another one of that host.
    /// Else it is that of its node, or of none, or, where the node is not named, the first of that host.
    fn rank_today(&mut self, rank: u32, host: String, node: Option<&Arc<str>>, by_operator: bool) -> Option<u32> {
        let ranks = self.by_host.get(host.as_str()).map_or(&[][..], Vec::as_slice);
        let slot = |rank: u32| &self.slots[rank as usize];
        let is_of_node = |rank: &u32| node.is_some() && slot(*rank).node.as_ref() == node;
        let drained = ranks.iter().find(|rank| is_of_node(rank) && slot(**rank).drained_by_operator());
        let here = || ranks.iter().find(|of_host| **of_host == rank);
        let other = || match node {
            None => ranks.first(),
            Some(_) => ranks
                .iter()
                .find(|rank| is_of_node(rank))
                .or_else(|| ranks.iter().find(|rank| slot(**rank).node.is_none())),
        };
        let known = drained.or_else(here).or_else(other).copied();
        known.or_else(|| by_operator.then(|| self.add_slot(&host.into(), Capacity::default())))
    }

    /// Of several nodes of a host it is this one that an event is about, in whichever order they come back.
    fn is_node_of(&mut self, rank: u32, node: Option<Arc<str>>) {
        let host = &self.slots[rank as usize].host;
        let ranks = self.by_host.get(host).filter(|_| node.is_some());
        for other in ranks.map_or(&[][..], Vec::as_slice) {
            self.slots[*other as usize].node.take_if(|known| Some(&*known) == node.as_ref());
        }
        self.slots[rank as usize].node = node;
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
