//! Who goes when the max of a queue was lowered (R7.45–R7.48, QPR-022–QPR-024).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use smallvec::SmallVec;

use super::{
    super::{Cx, Partition},
    helps, is_preemptable,
};
use crate::{
    node_index::sortable,
    resources::Resource,
    types::{AllocIx, AppIx, QueueIx},
};

/// What a run took so far.
#[derive(Default)]
pub(super) struct Taken {
    /// Possible victims.
    pub candidates: BTreeSet<AllocIx>,
    /// Number of allocations that were preempted.
    pub preempted: u64,
    /// What they use.
    pub resource: Resource,
}

const HOUR: i64 = 3_600_000_000_000;

impl Partition {
    /// Takes what fits into the amount, and into all that is still to go, never more (R7.47).
    pub(super) fn take_from_leaf(
        &mut self,
        leaf: QueueIx,
        amount: &Resource,
        all: &Resource,
        taken: &mut Taken,
        cx: &mut Cx,
    ) {
        let mut candidates: Vec<AllocIx> = self.queues[leaf]
            .apps
            .iter()
            .flat_map(|app| self.apps[*app].allocs.keys().copied())
            .filter(|alloc| {
                let row = &self.allocs[*alloc];
                is_preemptable(row) && helps(amount, &row.resource)
            })
            .collect();
        taken.candidates.extend(&candidates);
        candidates.sort_by_cached_key(|alloc| self.quota_order(*alloc, leaf, amount));
        let (mut left, mut all) = (amount.clone(), all.minus_known(&taken.resource));
        let mut victims: BTreeMap<AppIx, Vec<AllocIx>> = BTreeMap::new();
        let mut going = Resource::new();
        for victim in candidates {
            let row = &self.allocs[victim];
            if left.fits_or_unlimited(&row.resource)
                && all.fits_or_unlimited(&row.resource)
                && self.leaves_guarantees(leaf, &going, &row.resource)
            {
                going.add(&row.resource);
                left = left.minus_known(&row.resource);
                all = all.minus_known(&row.resource);
                taken.preempted += 1;
                taken.resource.add(&row.resource);
                victims.entry(row.app).or_default().push(victim);
            }
        }
        let path = self.queues[leaf].path.clone();
        let text: Arc<str> = format!("preempting allocations to enforce new max quota for queue : {path}").into();
        let why = format!("Preempted by Quota change enforcement process in {path}");
        for of_app in victims.values() {
            for victim in of_app {
                self.mark_victim(*victim, &why, cx);
            }
            for victim in of_app {
                self.send_preempted(*victim, &text, cx);
            }
        }
        if !victims.is_empty() && !self.queues[self.root].claimed.is_empty() {
            // Beside what is promised there is more room than before.
            self.unblock_limits();
        }
    }

    /// Without it, and what else is going, no queue from there on up is below its guarantee in a type of it (QPR-027): those whose
    /// max was lowered are one thing, what goes with them another.
    fn leaves_guarantees(&self, leaf: QueueIx, going: &Resource, row: &Resource) -> bool {
        let guaranteed = |queue: QueueIx| self.queues[queue].guaranteed.iter().flat_map(|guaranteed| guaranteed.iter());
        self.path(leaf).all(|queue| {
            guaranteed(queue)
                .filter(|(kind, _)| row.amount(kind) > 0)
                .all(|(kind, guaranteed)| self.left(queue, kind) - going.amount(kind) - row.amount(kind) >= guaranteed)
        })
    }

    /// Ordinary allocations first, then originators, then those that opted out (R7.46 mended); inside, those of which most
    /// types are wanted, then the lowest priority, the youngest by the hour, the smallest share of the max.
    fn quota_order(&self, alloc: AllocIx, leaf: QueueIx, amount: &Resource) -> impl Ord + use<> {
        let row = &self.allocs[alloc];
        let matching = row.resource.iter().filter(|(kind, _)| amount.get(kind).is_some()).count();
        let percent = 100 * matching / row.resource.len().max(1);
        let max = self.queues[leaf].max.as_ref();
        let mut shares: SmallVec<[f64; 4]> = amount
            .iter()
            .filter_map(|(kind, _)| {
                let used = row.resource.get(kind)?;
                let whole = max.and_then(|max| max.get(kind)).filter(|whole| *whole > 0).unwrap_or(1);
                Some(used as f64 / whole as f64)
            })
            .collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        let shares: SmallVec<[u64; 4]> = shares.into_iter().map(sortable).collect();
        (
            (row.spec.opted_out(), row.spec.originator),
            Reverse(percent),
            row.spec.priority,
            Reverse(row.created.0.div_euclid(HOUR)),
            shares,
            Reverse(row.seq),
        )
    }
}
