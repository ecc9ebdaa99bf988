//! Preemption (section 7 of the scheduling rules): guarantees (7.A–7.E), required nodes (7.F), lowered quotas (7.G).
//!
//! An ask that preempts holds a *claim* from then on ([`claim`]): its victims, the node that is reserved for it, and its
//! size, which counts as used in all queues of its path; where it preempts for a gang that has not begun, the gang's total.
//! What a queue uses in the sense of this module is therefore
//!
//! > used(q) = allocated(q) − preempting(q) + claimed(q)
//!
//! (less what claimants are charged while the shim is asked about them, as that is claimed too) and neither the confirmation of a
//! victim nor the placement of the claimant changes it: only the decision does.
//!
//! # Why it ends
//!
//! Each decision strictly improves the following measure, compared from left to right:
//!
//! 1. R: the sum of what required-node asks hold or claim;
//! 2. for every depth of the queue tree, the deepest first: Φ(depth) = Σ min(used(q), guaranteed(q)) over the queues of that
//!    depth and the guaranteed types.
//!
//! *Required nodes* raise R, and allocations of required-node asks are never victims of anybody. *Guarantees* leave R alone
//! and raise Φ. Let c be the lowest common ancestor of the ask's leaf and a victim's: the ask has to fit into the nearest
//! guarantee of each of its types on its own path *below* c, at least one type has one, and on the victim's path below c no
//! queue may fall below its guarantee in a type that the victim gives up ([`scope`]). So at the depth of that guarantee Φ
//! grows by what the ask wants, at larger depths nothing shrinks, and what happens at c and above it weighs less.
//! Both are bounded by the size of the cluster and the guarantees, and placements without preemption only raise them. So
//! without changes from outside (departures, nodes, configuration, sizes) there are finitely many decisions, whatever the
//! victims do; two queues cannot evict each other in turns, as the second would have to lower what the first raised.
//! Priorities are no part of the measure: they only rule victims out. *Lowered quotas* act once per cause from outside, take
//! only what is above a max, and no ask can bring that back.
//!
//! A gang that has preempted begins once: what others take of its room before all of it is placed, they take once, and its
//! placeholders preempt one by one from then on.
//!
//! No victim is taken for an ask that does not fit then: node, all queues of the path and the user are looked at with
//! everything that has been claimed before; the node is reserved, and what victims free in queues is held for the claimant
//! (`queue_fits`). As long as its claim stands an ask does not preempt again; it may once its node is lost, or its victims are
//! gone and something from outside took the room.

mod act;
mod attempt;
mod claim;
mod harm;
mod plan;
mod quota;
mod quota_victims;
mod required;
mod scope;

pub(super) use attempt::NEVER;
pub(crate) use attempt::Search;
pub(crate) use claim::Claim;
pub(super) use harm::{Candidate, Harm};
pub(super) use quota::is_above;

use std::collections::BTreeMap;

use self::scope::Scope;
use super::Partition;
use crate::{
    alloc::{Alloc, Phase},
    resources::{Resource, ResourceType},
    types::QueueIx,
};

/// Types of `need` with what `have` lacks of them.
pub(super) fn gap(need: &Resource, have: &Resource) -> Resource {
    let mut gap = Resource::new();
    for (kind, amount) in need.iter() {
        let missing = amount - have.amount(kind);
        if missing > 0 {
            gap.set(kind.clone(), missing);
        }
    }
    gap
}

/// Takes what a victim frees off a gap; types that are covered go.
fn close(gap: &mut Resource, freed: &Resource) {
    if gap.is_empty() {
        return;
    }
    let mut left = Resource::new();
    for (kind, amount) in gap.iter() {
        let missing = amount - freed.amount(kind).max(0);
        if missing > 0 {
            left.set(kind.clone(), missing);
        }
    }
    *gap = left;
}

/// The victim frees something of what is missing.
fn helps(gap: &Resource, freed: &Resource) -> bool {
    gap.iter().any(|(kind, _)| freed.amount(kind) > 0)
}

/// Only the types of which something is wanted (R7.25: a type of amount 0 counts for nothing).
pub(super) fn wanted(resource: &Resource) -> Resource {
    let mut need = Resource::new();
    for (kind, amount) in resource.iter().filter(|(_, amount)| *amount > 0) {
        need.set(kind.clone(), amount);
    }
    need
}

/// It may be a victim of some kind of preemption (R7.10, R7.34, R7.45).
fn is_preemptable(row: &Alloc) -> bool {
    !row.is_free()
        && row.phase == Phase::Allocated
        && !row.released
        && !row.preempted
        && row.spec.required_node.is_none()
}

impl Partition {
    /// What a queue uses in one type when all that was decided has happened. See the module.
    fn used(&self, scope: &Scope, queue: QueueIx, kind: &ResourceType) -> i128 {
        let row = &self.queues[queue];
        row.allocated.amount(kind) - row.preempting.amount(kind) + row.claimed.amount(kind)
            - scope.twice.get(&queue).map_or(0, |twice| twice.amount(kind))
    }

    /// What is charged to claimants while the shim is asked about them. It is claimed as well, until they are placed.
    fn charged_and_claimed(&self) -> BTreeMap<QueueIx, Resource> {
        let mut twice = BTreeMap::<_, Resource>::new();
        if !self.claims.is_empty() {
            for ask in self.questions.charged().filter(|alloc| self.has_claim(*alloc)).map(|alloc| &self.allocs[alloc])
            {
                self.path(self.apps[ask.app].queue)
                    .for_each(|queue| twice.entry(queue).or_default().add(&ask.resource));
            }
        }
        twice
    }
}
