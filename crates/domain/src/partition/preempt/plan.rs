//! The choice of a node and of the victims on it, and of further victims where queues are short (R7.18–R7.25).
//!
//! Nodes are looked at by id until one needs a single ordinary victim; once a node without originators and opted-out victims
//! is found, a limited number of further ones may still beat it. The next search of the same kind within a moment goes on
//! where this one found something, so that a large cluster is not walked for every ask.

use std::cmp::Reverse;

use super::{super::Partition, close, gap, helps, is_preemptable, prune, scope::Scope, tally::Tally};
use crate::{
    app::Hold,
    resources::Resource,
    types::{AllocIx, NodeIx},
};

/// Nodes that are looked at after the first that would do.
const LOOK_FURTHER: usize = 100;

/// What the choice among a node's victims costs, against a look at one of them.
const WEIGHT: u64 = 8;

/// A node with what has to leave it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Node.
    pub node: NodeIx,
    /// Victims on it, in order; all of them are needed.
    pub victims: Vec<AllocIx>,
    /// Further ones in order, which the shim may want to go as well.
    pub rest: Vec<AllocIx>,
}

/// Opted-out victims, originators, number of victims: the least is best (R7.22).
type Cost = (bool, bool, usize);

/// What a search found.
pub(super) enum Found {
    /// A plan, and from where the next search of this kind may go on.
    Plan(Plan, u64),
    /// Room is on its way already: nobody needs to go.
    Coming,
    /// Nothing; true: there were victims, but not enough of them (R7.25).
    Nothing(bool),
}

impl Partition {
    /// An allocation that may be a victim inside this scope (R7.9, R7.10).
    pub(super) fn is_victim(&self, scope: &Scope, alloc: AllocIx) -> bool {
        let row = &self.allocs[alloc.ix()];
        is_preemptable(row)
            && helps(&scope.need, &row.resource)
            && scope
                .leaves
                .get(&self.apps[row.app.ix()].queue)
                .is_some_and(|door| door.ceiling.is_none_or(|ceiling| i64::from(row.spec.priority) <= ceiling))
    }

    /// Orders victims: ordinary ones, then originators, then those that opted out; each the youngest first (R7.18).
    pub(super) fn order_victims(&self, victims: &mut [AllocIx]) {
        victims.sort_by_cached_key(|victim| {
            let row = &self.allocs[victim.ix()];
            (row.spec.opted_out(), row.spec.originator, Reverse(row.created), Reverse(row.seq))
        });
    }

    /// Looks for the best node. `from`: rank of the node to begin with; `refused`: nodes that the shim refused.
    pub(super) fn search(
        &self,
        scope: &Scope,
        alloc: AllocIx,
        hold: Hold,
        from: u64,
        visits: &mut u64,
        refused: impl Fn(NodeIx) -> bool,
    ) -> Found {
        let mut best: Option<(Cost, Plan)> = None;
        let mut first_clean = None;
        let (mut further, mut some, mut coming) = (0, false, false);
        let own = self.allocs[alloc.ix()].reserved;
        // R7.22 mended: where only queues are short, a node with room needs nobody to go.
        let least = if !scope.short.is_empty() && self.find_node(alloc, &scope.need).is_some() { 0 } else { 1 };
        let open = self.open_nodes.range((from, NodeIx(0))..).chain(self.open_nodes.range(..(from, NodeIx(0))));
        let nodes = own.into_iter().chain(open.map(|(_, node)| *node)).chain(self.stale_reservations(alloc));
        for node in nodes {
            *visits += 1;
            if first_clean.is_some() {
                further += 1;
                if further > LOOK_FURTHER {
                    break;
                }
            }
            let row = &self.nodes[node.ix()];
            if refused(node) || !row.schedulable() || !row.capacity.fits(&scope.need) {
                continue;
            }
            match self.plan_for(scope, node, hold, visits) {
                Trial::Plan(cost, plan) => {
                    if first_clean.is_none() && !cost.0 && !cost.1 {
                        first_clean = Some(self.nodes[node.ix()].rank);
                    }
                    let enough = cost <= (false, false, least);
                    if best.as_ref().is_none_or(|(known, _)| cost < *known) {
                        best = Some((cost, plan));
                    }
                    if enough {
                        break;
                    }
                }
                Trial::Coming => {
                    coming = true;
                    break;
                }
                Trial::Short => some = true,
                Trial::Nobody => {}
            }
        }
        match best {
            _ if coming => Found::Coming,
            Some((_, mut plan)) => {
                if self.ask_shim {
                    plan.rest = self.rest_of(scope, &plan);
                }
                Found::Plan(plan, first_clean.unwrap_or(0))
            }
            None => Found::Nothing(some),
        }
    }

    /// The victims that one node would have to give up.
    fn plan_for(&self, scope: &Scope, node: NodeIx, hold: Hold, visits: &mut u64) -> Trial {
        let row = &self.nodes[node.ix()];
        let cost = |victims: &[AllocIx]| {
            let any = |test: fn(&crate::alloc::AskSpec) -> bool| {
                victims.iter().any(|victim| test(&self.allocs[victim.ix()].spec))
            };
            (any(|spec| spec.opted_out()), any(|spec| spec.originator), victims.len())
        };
        let mut missing = gap(&scope.need, &row.available);
        if missing.is_empty() {
            // R7.21: where only nodes are short, this one was tried already.
            if hold == Hold::Nodes {
                return Trial::Nobody;
            }
            if scope.short.is_empty() {
                return Trial::Coming;
            }
            return Trial::Plan(cost(&[]), Plan { node, victims: Vec::new(), rest: Vec::new() });
        }
        *visits += row.allocs.len() as u64;
        for alloc in row.allocs.iter().filter(|alloc| self.allocs[alloc.ix()].preempted) {
            close(&mut missing, &self.allocs[alloc.ix()].resource);
        }
        if missing.is_empty() && scope.short.is_empty() {
            return Trial::Coming;
        }
        let wanted = missing.clone();
        let mut candidates: Vec<AllocIx> =
            row.allocs.iter().copied().filter(|alloc| self.is_victim(scope, *alloc)).collect();
        if !missing.is_empty() {
            if candidates.is_empty() {
                return Trial::Nobody;
            }
            // Where all of them together are not enough, their order does not matter.
            let mut left = missing.clone();
            for victim in &candidates {
                close(&mut left, &self.allocs[victim.ix()].resource);
            }
            if !left.is_empty() {
                return Trial::Short;
            }
            *visits += WEIGHT * candidates.len() as u64;
        }
        self.order_victims(&mut candidates);
        let mut tally = Tally::default();
        let mut victims = Vec::new();
        for victim in candidates {
            if missing.is_empty() {
                break;
            }
            let size = &self.allocs[victim.ix()].resource;
            if helps(&missing, size) && tally.allows(self, scope, victim) {
                tally.take(self, scope, victim);
                close(&mut missing, size);
                victims.push(victim);
            }
        }
        if !missing.is_empty() {
            return if victims.is_empty() { Trial::Nobody } else { Trial::Short };
        }
        prune(&wanted, &mut victims, |victim| (*self.allocs[victim.ix()].resource).clone());
        Trial::Plan(cost(&victims), Plan { node, victims, rest: Vec::new() })
    }

    /// Victims of the node beyond those that are needed, as long as no queue falls below its guarantee (R7.19).
    fn rest_of(&self, scope: &Scope, plan: &Plan) -> Vec<AllocIx> {
        let mut tally = self.tally_of(scope, &plan.victims);
        let mut rest: Vec<AllocIx> = self.nodes[plan.node.ix()]
            .allocs
            .iter()
            .copied()
            .filter(|alloc| self.is_victim(scope, *alloc) && !plan.victims.contains(alloc))
            .collect();
        self.order_victims(&mut rest);
        rest.retain(|victim| {
            let allowed = tally.allows(self, scope, *victim);
            if allowed {
                tally.take(self, scope, *victim);
            }
            allowed
        });
        rest
    }

    fn tally_of(&self, scope: &Scope, victims: &[AllocIx]) -> Tally {
        let mut tally = Tally::default();
        for victim in victims {
            tally.take(self, scope, *victim);
        }
        tally
    }

    /// With these victims gone, no queue of theirs is below its guarantee for it, and all of them may still be victims.
    pub(super) fn may_go(&self, scope: &Scope, victims: &[AllocIx]) -> bool {
        let mut tally = Tally::default();
        victims.iter().all(|victim| {
            let fine = self.is_victim(scope, *victim) && tally.allows(self, scope, *victim);
            tally.take(self, scope, *victim);
            fine
        })
    }

    /// What the queues still lack when these victims are gone.
    pub(super) fn still_short(&self, scope: &Scope, victims: &[AllocIx]) -> Resource {
        let mut short = scope.short.clone();
        for victim in victims {
            close(&mut short, &self.allocs[victim.ix()].resource);
        }
        short
    }

    /// Further victims, on whatever node, for what the queues still lack (R7.24); `None`: there are not enough.
    pub(super) fn further_victims(
        &self,
        scope: &Scope,
        victims: &[AllocIx],
        pool: &[AllocIx],
        at: &mut usize,
    ) -> Option<Vec<AllocIx>> {
        let mut short = self.still_short(scope, victims);
        let wanted = short.clone();
        let mut tally = self.tally_of(scope, victims);
        let mut further = Vec::new();
        let mut front = true;
        for (n, victim) in pool.iter().enumerate().skip(*at) {
            if short.is_empty() {
                break;
            }
            if !self.is_victim(scope, *victim) {
                // Those at the front that are gone need not be looked at by the next search.
                if front {
                    *at = n + 1;
                }
                continue;
            }
            front = false;
            let size = &self.allocs[victim.ix()].resource;
            if !victims.contains(victim) && helps(&short, size) && tally.allows(self, scope, *victim) {
                tally.take(self, scope, *victim);
                close(&mut short, size);
                further.push(*victim);
            }
        }
        if !short.is_empty() {
            return None;
        }
        prune(&wanted, &mut further, |victim| (*self.allocs[victim.ix()].resource).clone());
        Some(further)
    }

    /// All possible victims of a scope in order.
    pub(super) fn pool(&self, scope: &Scope) -> Vec<AllocIx> {
        let mut pool: Vec<AllocIx> = scope
            .leaves
            .keys()
            .flat_map(|leaf| self.queues[leaf.ix()].apps.iter())
            .flat_map(|app| self.apps[app.ix()].allocs.iter().copied())
            .filter(|alloc| self.is_victim(scope, *alloc))
            .collect();
        self.order_victims(&mut pool);
        pool
    }
}

enum Trial {
    Plan(Cost, Plan),
    Coming,
    Short,
    Nobody,
}
