//! Usage above a lowered max goes after a delay (section 7.G of the scheduling rules, section 5 of the queue rules).
//!
//! The start times are kept by `reload.rs`; this file looks at them once a second while there is one, and divides what is
//! too much among the queues below.

use std::cmp::Reverse;

use super::{
    super::{Cx, Partition, deadlines::Deadline},
    quota_victims::Taken,
};
use crate::{
    event::{Change, Detail, EventKind},
    node_index::sortable,
    resources::{Resource, ResourceType, Shown},
    types::{Nanos, QueueIx},
};

/// Between two looks at the start times (R7.42).
const CHECK: Nanos = Nanos::from_secs(1);

impl Partition {
    /// A start time was set: they are looked at from now on.
    pub(in super::super) fn watch_quotas(&mut self, now: Nanos) {
        if !self.quotas_watched {
            self.quotas_watched = true;
            self.deadlines.add(now.plus(CHECK), Deadline::Quotas);
        }
    }

    /// Preempts in queues whose time has come; goes on watching while a start time is set.
    pub(in super::super) fn check_quotas(&mut self, cx: &mut Cx) {
        self.quotas_watched = false;
        if self.conf.quota_preemption {
            self.check_quota(self.root, cx);
        }
        // Without the flag the clock runs on, and is looked at when the flag comes (QPR-002).
        if self.conf.quota_preemption && self.queues.values().any(|queue| queue.quota_start.is_some()) {
            self.watch_quotas(cx.now);
        }
    }

    /// A queue that is due acts for all below it (R7.42, QPR-010).
    fn check_quota(&mut self, queue: QueueIx, cx: &mut Cx) {
        let row = &self.queues[queue];
        if row.managed && row.quota_start.is_some() {
            if !is_above(row.max.as_deref(), &row.allocated) {
                self.queues[queue].quota_start = None;
            } else if row.quota_start.is_some_and(|start| start <= cx.now) {
                self.enforce_quota(queue, cx);
                return;
            }
        }
        for child in self.queues[queue].children.values().copied().collect::<Vec<_>>() {
            self.check_quota(child, cx);
        }
    }

    /// One run. It is repeated after the delay as long as each run takes something and the queue stays above its max
    /// (section 12 item 12 of the queue rules; the reference runs once).
    fn enforce_quota(&mut self, queue: QueueIx, cx: &mut Cx) {
        let amount = self.amount_over_quota(queue);
        let mut taken = Taken::default();
        if !amount.is_empty() {
            self.take_from(queue, &amount, &amount, &mut taken, cx);
            self.summarize(queue, &amount, &taken, cx);
        }
        let again = taken.preempted > 0 && !self.amount_over_quota(queue).is_empty();
        let row = &mut self.queues[queue];
        row.quota_start = again.then(|| cx.now.plus(row.settings.quota_preemption_delay));
        if !again {
            self.tell_what_stays(queue, cx);
        }
    }

    /// The last run is over, and more than the max stays in use: nothing else will say so (EVT-04C).
    fn tell_what_stays(&mut self, queue: QueueIx, cx: &mut Cx) {
        let (over, row) = (self.above_max(queue), &self.queues[queue]);
        if over.is_empty() {
            return;
        }
        let text = format!(
            "Quota Preemption ends with usage above the max: {over} stays, since every allocation uses more, is guaranteed, \
             requires its node, or is of a queue whose guarantee names other types alone"
        );
        let (path, max) = (row.path.clone(), row.max.clone());
        cx.message(EventKind::Queue, &path, &"".into(), (Change::Set, Detail::QueuePreemption), &text, max);
    }

    /// What is used of a type and not on its way out already.
    pub(super) fn left(&self, queue: QueueIx, kind: &ResourceType) -> i128 {
        let row = &self.queues[queue];
        row.allocated.amount(kind) - row.preempting.amount(kind)
    }

    /// How much of that is above the max.
    fn above_max(&self, queue: QueueIx) -> Resource {
        let mut above = Resource::new();
        for (kind, max) in self.queues[queue].max.iter().flat_map(|max| max.iter()) {
            let over = self.left(queue, kind) - max;
            if over > 0 {
                above.set(kind.clone(), over);
            }
        }
        above
    }

    /// What has to go: usage that is not on its way out already, above the max, but nothing below a guarantee of the queue
    /// or of those above it (R7.43 mended: the smallest overage counts).
    fn amount_over_quota(&self, queue: QueueIx) -> Resource {
        let mut amount = Resource::new();
        for (kind, mut over) in self.above_max(queue).iter() {
            for q in self.path(queue) {
                if let Some(guaranteed) = self.queues[q].guaranteed.as_ref().and_then(|g| g.get(kind)) {
                    over = over.min(self.left(q, kind) - guaranteed);
                }
            }
            if over > 0 {
                amount.set(kind.clone(), over);
            }
        }
        amount
    }

    /// Takes an amount from a leaf, or divides it among the children that use more than they are guaranteed (R7.44). Where a leaf
    /// became a parent, or a parent a leaf, there are both. `all` is what the queue that acts is to lose.
    fn take_from(&mut self, queue: QueueIx, amount: &Resource, all: &Resource, taken: &mut Taken, cx: &mut Cx) {
        let before = taken.resource.clone();
        let rest = |taken: &Taken| amount.minus_known(&taken.resource.minus(&before));
        if !self.queues[queue].apps.is_empty() {
            self.take_from_leaf(queue, amount, all, taken, cx);
        }
        let to_divide = rest(taken);
        let children: Vec<QueueIx> = self.queues[queue].children.values().copied().collect();
        let weights: Vec<Resource> = children.iter().map(|child| self.overage(*child)).collect();
        let mut sum = Resource::new();
        for weight in &weights {
            sum.add(weight);
        }
        for (child, weight) in children.iter().zip(weights) {
            let part = |kind: &ResourceType, amount| part_of(amount, weight.amount(kind), sum.amount(kind));
            self.take_share(*child, &to_divide, &weight, part, (all, taken), cx);
        }
        // What rounding left, and what no allocation of a share was small enough for (R7.44 mended).
        let left = rest(taken);
        let weighed = |child: QueueIx| (child, self.overage(child));
        let mut weights: Vec<(QueueIx, Resource)> = children.into_iter().map(weighed).collect();
        weights.sort_by_cached_key(|(_, weight)| {
            let wanted = left.iter().filter(|(_, left)| *left > 0);
            Reverse(sortable(wanted.map(|(kind, left)| weight.amount(kind) as f64 / left as f64).sum()))
        });
        for (child, weight) in weights {
            let left = rest(taken);
            self.take_share(child, &left, &weight, |_, left| left, (all, taken), cx);
        }
    }

    /// Takes a part of each type of the amount from a child, up to its weight.
    fn take_share(
        &mut self,
        child: QueueIx,
        amount: &Resource,
        weight: &Resource,
        part: impl Fn(&ResourceType, i128) -> i128,
        (all, taken): (&Resource, &mut Taken),
        cx: &mut Cx,
    ) {
        let mut share = Resource::new();
        for (kind, amount) in amount.iter() {
            let part = part(kind, amount).min(weight.amount(kind));
            if part > 0 {
                share.set(kind.clone(), part);
            }
        }
        if !share.is_empty() {
            self.take_from(child, &share, all, taken, cx);
        }
    }

    /// What a queue uses above its guarantee, in the guaranteed types; without one all of its usage (R7.44 mended: a type
    /// below its guarantee counts 0, and so does what is on its way out).
    fn overage(&self, queue: QueueIx) -> Resource {
        let row = &self.queues[queue];
        let left = row.allocated.minus(&row.preempting);
        let mut over = Resource::new();
        for (kind, used) in left.iter() {
            let above = match &row.guaranteed {
                Some(guaranteed) => match guaranteed.get(kind) {
                    Some(guaranteed) => used - guaranteed,
                    None => continue,
                },
                None => used,
            };
            if above > 0 {
                over.set(kind.clone(), above);
            }
        }
        over
    }

    /// EVT-046: of a leaf when there were candidates, of a parent when there were victims.
    fn summarize(&mut self, queue: QueueIx, amount: &Resource, taken: &Taken, cx: &mut Cx) {
        let row = &self.queues[queue];
        let candidates = taken.candidates.len() as u64;
        let counts = if row.leaf { candidates } else { taken.preempted };
        if counts == 0 {
            return;
        }
        let preempted = taken.preempted;
        let claimed = Shown((preempted > 0).then_some(&taken.resource));
        let text = format!(
            "Quota Preemption results summary: preemptable resources: {amount}, claimed resources: {claimed}, \
             selected victims: {candidates}, preempted victims: {preempted}"
        );
        let (path, max) = (row.path.clone(), row.max.clone());
        cx.message(EventKind::Queue, &path, &"".into(), (Change::Set, Detail::QueuePreemption), &text, max);
    }
}

/// The part of an amount that falls to a weight among all weights. Where it would be too large to compute, the last bits of the
/// weights do not count.
fn part_of(amount: i128, weight: i128, all: i128) -> i128 {
    let bits = |number: i128| i128::BITS - number.max(0).leading_zeros();
    let too_many = (bits(amount) + bits(weight)).saturating_sub(i128::BITS - 1);
    amount * (weight >> too_many) / (all >> too_many).max(1)
}

/// Usage is above a max in the sense of R7.40: in a type that both have.
pub(in super::super) fn is_above(max: Option<&Resource>, used: &Resource) -> bool {
    max.is_some_and(|max| max.iter().any(|(kind, max)| used.get(kind).is_some_and(|used| used > max)))
}

#[cfg(test)]
mod tests {
    use super::part_of;

    #[test]
    fn parts_of_amounts_of_any_size() {
        // R7.44
        assert_eq!((part_of(10, 2, 5), part_of(7, 1, 2), part_of(7, 0, 0)), (4, 3, 0));
        // Thousands of allocations of the largest size there is.
        let much = i128::from(i64::MAX) * 5_000;
        assert_eq!(part_of(much, much, much), much);
        let half = part_of(much, much / 2, much);
        assert!((half - much / 2).abs() < much / 1_000_000, "{half}");
    }
}
