//! Claims: what an ask holds from its preemption until it is placed, goes, or loses its reservation.
//!
//! A claim stands and falls with the reservation of its ask, so whatever ends that ends the claim too.

use std::sync::Arc;

use super::{super::Partition, gap, wanted};
use crate::coded::list;
use crate::{
    alloc::{Alloc, Phase},
    resources::Resource,
    types::{AllocIx, AppIx, Nanos, NodeIx},
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Size of the ask.
    pub resource: Arc<Resource>,
    /// Victims with their arrival numbers, as rows are used again.
    pub victims: Vec<(AllocIx, u64)>,
    /// The node that is reserved for it.
    node: Option<NodeIx>,
    /// The total of its gang, where that has not begun: promised in the queues in place of the ask's size (SEEDS S11).
    gang: Option<Arc<Resource>>,
}

impl Claim {
    /// What is promised in the queues.
    pub fn promised(&self) -> &Resource {
        self.gang.as_ref().unwrap_or(&self.resource)
    }
}

impl Partition {
    /// The ask has preempted and holds what it gets by that.
    pub fn has_claim(&self, alloc: AllocIx) -> bool {
        self.claims.contains_key(&alloc)
    }

    /// What was written before users were promised anything has claims without that.
    pub(in super::super) fn promise_users(&mut self) {
        if self.ugm.promises_nothing() {
            for app in self.apps.iter().map(|(_, row)| row).filter(|row| !row.claimed.is_empty()) {
                app.track.into_iter().for_each(|track| self.ugm.promise(track, &app.claimed, true));
            }
        }
    }

    /// The ask is promised the room of its victims; with it the whole gang, where it preempts for that.
    pub(super) fn begin_claim(&mut self, alloc: AllocIx, victims: &[AllocIx], gang: Option<&Resource>) {
        self.end_claim(alloc);
        for victim in victims {
            // What leaves for another may leave room for this one as well.
            let claimant = self.allocs[*victim].victim_of;
            if !claimant.is_some_and(|claimant| self.has_claim(claimant)) {
                self.allocs[*victim].victim_of = Some(alloc);
            }
        }
        let mut freed = Resource::new();
        victims.iter().for_each(|victim| freed.add(&self.allocs[*victim].resource));
        let victims = victims.iter().map(|victim| (*victim, self.allocs[*victim].seq)).collect();
        let row = &mut self.allocs[alloc];
        row.triggered_preemption = true;
        let gang = gang.cloned().map(Arc::new);
        let claim = Arc::new(Claim { resource: row.resource.clone(), victims, node: row.reserved, gang });
        let leaves_room = freed.iter().any(|(kind, amount)| amount > claim.promised().amount(kind));
        self.count_promised(alloc, claim.node, &claim, true);
        self.claims.insert(alloc, claim);
        self.reindex_reserved(alloc);
        if let Some(node) = self.allocs[alloc].reserved
            && self.nodes[node].available.fits(&self.allocs[alloc].resource)
        {
            // It may take what is free now, though others claim it: they get the room of its victims.
            self.ripen([alloc]);
        }
        if leaves_room {
            // Beside what is promised there is more room than before.
            self.unblock_limits();
        }
    }

    /// The ask holds nothing any more.
    pub(in super::super) fn end_claim(&mut self, alloc: AllocIx) {
        if let Some(claim) = self.claims.remove(&alloc) {
            if !crate::planted!("claim-stays") {
                self.count_promised(alloc, claim.node, &claim, false);
            }
            self.reindex_reserved(alloc);
            self.unblock_limits();
            self.let_crowded_out_try();
        }
    }

    /// The ask is placed: what was promised to it, it takes.
    pub(in super::super) fn use_claim(&mut self, alloc: AllocIx) {
        if let Some(claim) = self.claims.remove(&alloc) {
            self.count_promised(alloc, claim.node, &claim, false);
            self.reindex_reserved(alloc);
            if *claim.promised() != *self.allocs[alloc].resource {
                self.unblock_limits();
            }
            self.let_crowded_out_try();
        }
    }

    /// A node that could hold the ask is held by the claim of another (R7.11): it tries again when a claim ends, since no
    /// victims were to be had only for so long (R7.4).
    pub(super) fn note_crowded_out(&mut self, alloc: AllocIx, need: &Resource, visits: &mut u64) {
        let holds = |claim: &Arc<Claim>| claim.node.is_some_and(|node| self.nodes[node].capacity.fits(need));
        if self.claims.values().inspect(|_| *visits += 1).any(holds) {
            self.crowded_out.insert(alloc);
        }
    }

    fn let_crowded_out_try(&mut self) {
        for alloc in std::mem::take(&mut self.crowded_out) {
            // It may have gone.
            if self.allocs.get(alloc).is_some() {
                self.allocs[alloc].preemption_tried = Nanos(i64::MIN);
                self.look_again(alloc);
            }
        }
    }

    /// The total of the gang for which this ask has preempted, and which has not begun yet.
    pub(in super::super) fn gang_claim(&self, alloc: AllocIx) -> Option<&Resource> {
        let gang = self.claims.get(&alloc)?.gang.as_deref()?;
        self.gang_to_begin(self.allocs[alloc].app).is_some().then_some(gang)
    }

    /// The ask that has preempted for the gang of an application.
    pub(in super::super) fn gang_claimant(&self, app: AppIx) -> Option<AllocIx> {
        let has_one = |alloc: &AllocIx| self.claims.get(alloc).is_some_and(|claim| claim.gang.is_some());
        self.apps[app].reservations.iter().copied().find(has_one)
    }

    /// The gang has begun without the ask that has preempted for it: what is left of it is placed ask by ask.
    pub(in super::super) fn end_gang_claim(&mut self, app: AppIx) {
        if let Some(claimant) = self.gang_claimant(app) {
            self.lose_claim(claimant);
        }
    }

    /// The ask lost what it held, and may preempt again (R7.27, R7.38).
    pub(in super::super) fn lose_claim(&mut self, alloc: AllocIx) {
        if !self.has_claim(alloc) {
            return;
        }
        self.end_claim(alloc);
        self.look_again(alloc);
    }

    /// The ask may have another attempt before it was due.
    pub(super) fn look_again(&mut self, alloc: AllocIx) {
        if self.allocs[alloc].phase != Phase::Pending {
            return;
        }
        let (key, app) = (self.group_key(alloc), self.allocs[alloc].app);
        if let Some(group) = self.apps[app].groups_by_key.get_mut(&key) {
            group.preempt_anew();
        }
        self.rouse_groups(app);
    }

    /// The ask leaves other asks that have reserved the node the room that they have preempted for.
    pub(in super::super) fn fits_beside_claims(&self, alloc: AllocIx, node: NodeIx) -> bool {
        let row = &self.nodes[node];
        if row.claimed.is_empty() || self.has_claim(alloc) {
            return true;
        }
        let mut room = self.room_to_come(node);
        room.sub(&row.claimed);
        room.fits(&self.allocs[alloc].resource)
    }

    /// What is free on a node once those are gone that preemption ends there.
    pub(super) fn room_to_come(&self, node: NodeIx) -> Resource {
        let row = &self.nodes[node];
        let mut room = row.available.value();
        self.leaving_at(node).for_each(|leaving| room.add(&self.allocs[leaving].resource));
        room
    }

    /// Those on a node that preemption ends.
    pub(super) fn leaving_at(&self, node: NodeIx) -> impl Iterator<Item = AllocIx> + '_ {
        self.nodes[node].allocs.iter().copied().filter(|leaving| self.allocs[*leaving].preempted)
    }

    /// What the node that is reserved for an ask lacks for it then, beside what others have preempted for there.
    pub(in super::super) fn lacks_then(&self, alloc: AllocIx) -> Resource {
        let row = &self.allocs[alloc];
        let Some(node) = row.reserved else { return Resource::new() };
        let mut others = self.nodes[node].claimed.value();
        if let Some(own) = self.claims.get(&alloc) {
            others.sub(&own.resource);
        }
        let wanted_here = wanted(&row.resource).minus_known(&others.negated());
        gap(&wanted_here, &self.room_to_come(node))
    }

    /// What the cluster has left once those are gone that preemption ends, and what is promised is taken.
    pub(in super::super) fn cluster_room_to_come(&self) -> Resource {
        let row = &self.queues[self.root];
        let mut room = row.max.as_deref().cloned().unwrap_or_default();
        room.sub(&row.allocated);
        room.add(&row.preempting);
        room.sub(&row.claimed);
        room
    }

    /// All its victims are gone: what it still lacks went elsewhere.
    pub(in super::super) fn is_claim_spent(&self, alloc: AllocIx) -> bool {
        self.has_claim(alloc) && !self.waits_for_victims(alloc)
    }

    /// Something is on its way out for it.
    pub(in super::super) fn waits_for_victims(&self, alloc: AllocIx) -> bool {
        self.leaving_for(alloc).next().is_some()
    }

    /// Its victims that are not gone.
    pub(in super::super) fn leaving_for(&self, alloc: AllocIx) -> impl Iterator<Item = &Alloc> + '_ {
        let victims = self.claims.get(&alloc).into_iter().flat_map(|claim| &claim.victims);
        victims.filter_map(|(victim, seq)| self.allocs.get(*victim).filter(|row| row.seq == *seq && row.preempted))
    }

    /// A victim is gone: who waits for it looks again.
    pub(in super::super) fn victim_gone(&mut self, victim: AllocIx) {
        if let Some(claimant) = self.allocs[victim].victim_of.take()
            && self.has_claim(claimant)
        {
            self.ripen([claimant]);
        }
    }
}

list!(Claim { resource, victims, node, gang });
