//! The choice of a node and of the victims on it, and of further victims where queues are short (R7.18–R7.25): the least harm
//! ([`super::harm`]).
//!
//! Nodes are looked at by id; once a node without originators and opted-out victims is found, a limited number of further ones
//! may still beat it. The next search of the same kind within a moment goes on where this one found something, and in a
//! large cluster takes what is as good, so that it is not walked for every ask.

use super::{
    super::{Partition, books::Trial},
    close, gap,
    harm::{Candidate, Harm, Need},
    helps, is_preemptable,
    scope::Scope,
};
use crate::{
    app::Hold,
    resources::Resource,
    types::{AllocIx, NodeIx},
};

/// Nodes that are looked at after the first that would do.
const LOOK_FURTHER: usize = 100;

/// What the choice among a node's victims costs, against a look at one of them.
const WEIGHT: u64 = 40;

/// Steps in which one attempt may search for the least harm.
const STEPS: u32 = 5_000;

/// Possible victims elsewhere that are combined where queues are short, the least protected first; more where they do not
/// cover what is missing.
const ELSEWHERE: usize = 64;

/// A node with what has to leave it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The node on which they make room.
    pub node: NodeIx,
    /// Victims on it, in order; all of them are needed.
    pub victims: Vec<AllocIx>,
    /// Victims elsewhere, for what the queues lack beside.
    pub further: Vec<AllocIx>,
    /// Further ones on the node in order, which the shim may want to go as well.
    pub rest: Vec<AllocIx>,
}

/// What a search found.
pub(super) enum Found {
    /// A plan with its harm, and from where the next search of this kind may go on.
    Plan(Plan, Harm, u64),
    /// Room is on its way already: nobody needs to go.
    Coming,
    /// Nothing; true: there were victims, but not enough of them (R7.25).
    Nothing(bool),
}

/// What is given to a search.
pub(super) struct Terms<'a> {
    /// Why the ask waits.
    pub hold: Hold,
    /// All possible victims in order, where queues are short.
    pub pool: &'a [AllocIx],
    /// Rank of the node to begin with, and what the last search of this kind found to be least in this moment.
    pub from: Option<(u64, Harm)>,
}

impl Partition {
    /// An allocation that may be a victim inside this scope (R7.9, R7.10).
    pub(super) fn is_victim(&self, scope: &Scope, alloc: AllocIx) -> bool {
        let row = &self.allocs[alloc];
        is_preemptable(row)
            && helps(scope.whole(), &row.resource)
            && scope
                .leaves
                .get(&self.apps[row.app].queue)
                .is_some_and(|door| door.ceiling.is_none_or(|ceiling| i64::from(row.spec.priority) <= ceiling))
    }

    /// Looks for the node on which the least harm is done.
    pub(super) fn search(&mut self, scope: &Scope, alloc: AllocIx, terms: &Terms, visits: &mut u64) -> Found {
        let mut best: Option<(Harm, Plan)> = None;
        let mut first_clean = None;
        let (mut further, mut some, mut coming) = (0, false, false);
        let mut steps = STEPS;
        let own = self.allocs[alloc].reserved;
        let from = terms.from.as_ref().map_or(0, |(rank, _)| *rank);
        // In a cluster of few nodes all of them are compared; in a large one the next ask of a kind takes what is as good as
        // what was found just now.
        let known = terms.from.as_ref().map(|(_, harm)| harm).filter(|_| self.open_nodes.len() > LOOK_FURTHER);
        let (open, asked) = (self.open_nodes.clone(), self.nodes_in_question());
        let open = open.range((from, NodeIx(0))..).chain(open.range(..(from, NodeIx(0))));
        let mut nodes = own.into_iter().chain(open.map(|(_, node)| *node));
        let mut stale = None;
        let mut next_stale = |partition: &Partition| {
            stale.get_or_insert_with(|| partition.stale_reservations(alloc).collect::<Vec<_>>().into_iter()).next()
        };
        while let Some(node) = nodes.next().or_else(|| next_stale(self)) {
            *visits += 1;
            if first_clean.is_some() {
                further += 1;
                if further > LOOK_FURTHER {
                    break;
                }
            }
            let row = &self.nodes[node];
            let refused = self.ask_shim && (asked.contains(&node) || self.are_victims_refused(alloc, node));
            if refused || !row.schedulable() || !row.capacity.fits(&scope.need) {
                continue;
            }
            match self.plan_for(scope, node, terms, &mut steps, visits) {
                Prospect::Plan(harm, plan) => {
                    if first_clean.is_none() && harm.is_clean() {
                        first_clean = Some(self.nodes[node].rank);
                    }
                    // R7.22 mended: nothing is less than a node with room, where only queues are short.
                    let enough = plan.victims.is_empty() || known.is_some_and(|known| harm.is_as_little_as(known));
                    if plan.victims.is_empty() || best.as_ref().is_none_or(|(known, _)| harm < *known) {
                        best = Some((harm, plan));
                    }
                    if enough {
                        break;
                    }
                }
                Prospect::Coming => {
                    coming = true;
                    break;
                }
                Prospect::Short => some = true,
                Prospect::Nobody => {}
            }
        }
        match best {
            _ if coming => Found::Coming,
            Some((harm, mut plan)) => {
                if self.ask_shim {
                    plan.rest = self.rest_of(scope, &plan);
                }
                Found::Plan(plan, harm, first_clean.unwrap_or(0))
            }
            None => Found::Nothing(some),
        }
    }

    /// The victims for whom one node would do, there and elsewhere.
    fn plan_for(&mut self, scope: &Scope, node: NodeIx, terms: &Terms, steps: &mut u32, visits: &mut u64) -> Prospect {
        let row = &self.nodes[node];
        let mut missing = gap(&scope.need, &row.available);
        if missing.is_empty() {
            // R7.21: where only nodes are short, this one was tried already.
            if terms.hold == Hold::Nodes {
                return Prospect::Nobody;
            }
            if scope.short.is_empty() {
                return Prospect::Coming;
            }
        }
        *visits += row.allocs.len() as u64;
        for alloc in row.allocs.iter().filter(|alloc| self.allocs[**alloc].preempted) {
            close(&mut missing, &self.allocs[*alloc].resource);
        }
        if missing.is_empty() && scope.short.is_empty() {
            return Prospect::Coming;
        }
        let mut candidates = Vec::new();
        if !missing.is_empty() {
            let victims = row.allocs.iter().copied().filter(|alloc| self.is_victim(scope, *alloc));
            candidates.extend(victims.map(|alloc| Candidate { alloc, here: true }));
            if candidates.is_empty() {
                return Prospect::Nobody;
            }
            // Where all of them together are not enough, nothing is to be chosen.
            let mut left = missing.clone();
            for candidate in &candidates {
                close(&mut left, &self.allocs[candidate.alloc].resource);
            }
            if !left.is_empty() {
                return Prospect::Short;
            }
            *visits += WEIGHT * candidates.len() as u64;
        }
        if !scope.short.is_empty() {
            let here = (!missing.is_empty()).then_some(node);
            candidates.extend(self.candidates_of_pool(scope, &scope.short, terms.pool, here));
        }
        let need = Need { node: missing, queues: scope.short.clone(), guarantees: Some(scope), required: false };
        let Some((harm, victims)) = Trial::of(self).least_harm(&need, &candidates, steps) else {
            return Prospect::Short;
        };
        let is_here = |victim: &AllocIx| !need.node.is_empty() && self.allocs[*victim].node == Some(node);
        let (victims, further) = victims.into_iter().partition(is_here);
        Prospect::Plan(harm, Plan { node, victims, further, rest: Vec::new() })
    }

    /// Possible victims out of a pool for what queues lack: as many as are combined, more where these do not cover it. Those
    /// on the node are left out, where they are looked at already.
    fn candidates_of_pool(
        &self,
        scope: &Scope,
        short: &Resource,
        pool: &[AllocIx],
        node: Option<NodeIx>,
    ) -> Vec<Candidate> {
        let mut left = short.clone();
        let mut found = Vec::new();
        for alloc in pool.iter().copied() {
            if found.len() >= ELSEWHERE && left.is_empty() {
                break;
            }
            let row = &self.allocs[alloc];
            if self.is_victim(scope, alloc) && !(node.is_some() && row.node == node) {
                close(&mut left, &row.resource);
                found.push(Candidate { alloc, here: false });
            }
        }
        found
    }

    /// Victims of the node beyond those that are needed, as long as no queue falls below its guarantee (R7.19).
    fn rest_of(&mut self, scope: &Scope, plan: &Plan) -> Vec<AllocIx> {
        let mut rest: Vec<AllocIx> = self.nodes[plan.node]
            .allocs
            .iter()
            .copied()
            .filter(|alloc| self.is_victim(scope, *alloc) && !plan.victims.contains(alloc))
            .collect();
        rest.sort_by_key(|victim| self.order_of_victim(*victim, true));
        let mut trial = self.without(scope, &plan.victims);
        rest.retain(|victim| {
            let allowed = scope.spares(&trial, *victim);
            if allowed {
                scope.take_out(&mut trial, *victim);
            }
            allowed
        });
        rest
    }

    /// These victims are gone.
    fn without(&mut self, scope: &Scope, victims: &[AllocIx]) -> Trial<'_> {
        let mut trial = Trial::of(self);
        victims.iter().for_each(|victim| scope.take_out(&mut trial, *victim));
        trial
    }

    /// With these victims gone, no queue of theirs is below its guarantee for it, and all of them may still be victims.
    pub(super) fn may_go(&mut self, scope: &Scope, victims: &[AllocIx]) -> bool {
        let mut trial = Trial::of(self);
        victims.iter().all(|victim| {
            let fine = trial.is_victim(scope, *victim) && scope.spares(&trial, *victim);
            scope.take_out(&mut trial, *victim);
            fine
        })
    }

    /// What the queues still lack when these victims are gone.
    pub(super) fn still_short(&self, scope: &Scope, victims: &[AllocIx]) -> Resource {
        let mut short = scope.short.clone();
        for victim in victims {
            close(&mut short, &self.allocs[*victim].resource);
        }
        short
    }

    /// Further victims, on whatever node, for what the queues still lack (R7.24); `None`: there are not enough.
    pub(super) fn further_victims(
        &mut self,
        scope: &Scope,
        victims: &[AllocIx],
        pool: &[AllocIx],
    ) -> Option<Vec<AllocIx>> {
        let short = self.still_short(scope, victims);
        let mut candidates = self.candidates_of_pool(scope, &short, pool, None);
        candidates.retain(|candidate| !victims.contains(&candidate.alloc));
        let need = Need { node: Resource::new(), queues: short, guarantees: Some(scope), required: false };
        let found = self.without(scope, victims).least_harm(&need, &candidates, &mut { STEPS });
        found.map(|(_, further)| further)
    }

    /// All possible victims of a scope in order.
    pub(super) fn pool(&self, scope: &Scope) -> Vec<AllocIx> {
        let mut pool: Vec<AllocIx> = scope
            .leaves
            .keys()
            .flat_map(|leaf| self.queues[*leaf].apps.iter())
            .flat_map(|app| self.apps[*app].allocs.keys().copied())
            .filter(|alloc| self.is_victim(scope, *alloc))
            .collect();
        pool.sort_by_cached_key(|victim| self.order_of_victim(*victim, true));
        pool
    }
}

/// What there is to be had on one node.
enum Prospect {
    Plan(Harm, Plan),
    Coming,
    Short,
    Nobody,
}
