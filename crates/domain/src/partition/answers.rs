//! What the shim answers, and what follows from it.

use std::sync::Arc;

use super::{
    Cx, Partition,
    predicates::{Intent, Open},
};
use crate::{
    alloc::Phase,
    command::PredicateAnswer,
    effect::Effect,
    event::Detail,
    types::{AllocIx, Nanos, NodeIx},
};

/// At most one event of refusals per ask in this time (EVT-015).
const EVENT_INTERVAL: Nanos = Nanos::from_secs(15);
/// Different reasons in such an event.
const REASONS: usize = 20;
/// So many answers in a row count for nothing because of what the shim told of meanwhile.
const VOID: u32 = 3;

impl Partition {
    /// Nobody will answer: nothing is known of the node, and the ask waits as before the question.
    pub(super) fn unanswered(&mut self, question: u64, cx: &mut Cx) {
        if let Some(open) = self.closed(question) {
            match open.intent {
                // Nobody knows whether it waits for a node.
                Intent::Place { .. } => self.allocs[open.alloc].attempted = false,
                Intent::Gang => self.forget_attempts_of_gang(self.allocs[open.alloc].app),
                Intent::Preempt { .. } => self.try_next_node(open.alloc, cx.now),
                Intent::Swap { .. } | Intent::Reserve => {}
            }
            self.withdraw(open.alloc, &open.intent, self.others_may_fit(&open), cx);
            if self.allocs[open.alloc].spec.required_node.is_some() {
                // It has reserved that node.
                self.ripen([open.alloc]);
            }
            self.unblock_limits();
        }
    }

    /// The shim answered, or did not in time.
    pub(super) fn answer(&mut self, mut answer: PredicateAnswer, cx: &mut Cx) {
        let Some(open) = self.closed(answer.question) else { return };
        let required = self.allocs[open.alloc].spec.required_node.is_some();
        if let Intent::Preempt { victims, .. } = &open.intent
            && required
            && answer.result.is_ok()
            && !usize::try_from(answer.index).is_ok_and(|index| index < victims.len())
        {
            // R7.21: such an answer is thrown away. As a refusal it keeps the node for nobody, and the ask is tried again in its time.
            answer.result = Err("the shim named a victim that it was not asked about".into());
        }
        let asked = 1 + open.more.len();
        let refused = if answer.result.is_ok() { answer.refused.len().min(asked - 1) } else { asked };
        if matches!(open.intent, Intent::Place { .. } | Intent::Swap { .. }) {
            self.adapt_width(asked, refused);
        }
        if required || !matches!(open.intent, Intent::Preempt { .. }) {
            let last = answer.result.as_ref().err();
            let nodes = std::iter::once(&open.node).chain(&open.more).take(refused);
            for (n, node) in nodes.enumerate() {
                if let Some(reason) = answer.refused.get(n).or(last) {
                    let changes = open.changes;
                    self.questions.refusals.note((open.alloc, *node), reason, (open.clock, changes), cx.now);
                }
            }
            self.bound_refusals();
        }
        // R5.27: something that it may depend on came or went meanwhile: it is asked again.
        let void = answer.result.is_ok() && open.in_turn && self.is_void(&open);
        self.questions.void = if void { self.questions.void + 1 } else { 0 };
        if void {
            // The shorter the answer takes, the less comes in between.
            self.questions.width = self.questions.width.div_ceil(2).max(4);
            self.withdraw(open.alloc, &open.intent, self.others_may_fit(&open), cx);
        } else {
            self.answered(open, refused, answer, cx);
        }
        self.unblock_limits();
    }

    /// Something constrained came or went since the question. Where the shim tells of such things faster than it answers, no answer
    /// would ever count: after a few of them those do before which the scheduler itself placed nothing. What the shim told of, it
    /// knew no later than the scheduler.
    fn is_void(&self, open: &Open) -> bool {
        open.changes != self.questions.changes && (open.placed != self.questions.placed || self.questions.void < VOID)
    }

    /// The ask waits again as before the question.
    fn withdraw(&mut self, alloc: AllocIx, intent: &Intent, others_may_fit: bool, cx: &mut Cx) {
        match intent {
            Intent::Gang => self.undo_gang(self.allocs[alloc].app, cx),
            Intent::Place { .. } => self.take_back_for(alloc, others_may_fit, cx),
            Intent::Swap { .. } | Intent::Reserve | Intent::Preempt { .. } => {
                self.count_awaiting_shim(alloc, false, false);
                self.pending_again(alloc);
            }
        }
    }

    fn answered(&mut self, open: Open, fits: usize, answer: PredicateAnswer, cx: &mut Cx) {
        let app = self.allocs[open.alloc].app;
        if open.in_turn && matches!(open.intent, Intent::Place { .. } | Intent::Gang) {
            match answer.result {
                Ok(()) => self.note_turn(open.alloc),
                Err(_) => self.lose_patience(app, 1),
            }
        }
        let (others_may_fit, visits) = (self.others_may_fit(&open), open.visits);
        match (answer.result, open.intent) {
            (Ok(()), intent @ Intent::Place { .. }) if fits == 0 && !self.still_fits(open.alloc) => {
                self.withdraw(open.alloc, &intent, others_may_fit, cx);
            }
            (Ok(()), Intent::Place { effects }) => match fits.checked_sub(1).and_then(|n| open.more.get(n)) {
                None => self.place_confirmed(open.alloc, effects, cx),
                Some(node) => self.place_elsewhere(open.alloc, *node, cx),
            },
            (Ok(()), Intent::Gang) => self.gang_agreed(app, cx),
            (Ok(()), Intent::Swap { placeholder, .. }) => {
                self.count_awaiting_shim(open.alloc, false, false);
                self.pending_again(open.alloc);
                self.dequeue(open.alloc);
                let node = fits.checked_sub(1).and_then(|n| open.more.get(n)).copied().unwrap_or(open.node);
                self.swap_agreed(placeholder, open.alloc, (open.node, node), cx);
            }
            (Ok(()), Intent::Reserve) => {
                self.count_awaiting_shim(open.alloc, false, false);
                self.pending_again(open.alloc);
                // R2.28, R2.29: somebody else may have reserved it meanwhile, it shrank, or nothing is reserved any more.
                let node = &self.nodes[open.node];
                if self.open_nodes.contains(&(node.rank, open.node))
                    && node.capacity.fits(&self.allocs[open.alloc].resource)
                    && self.reservation_delay != Nanos(i64::MAX)
                    && self.may_hold_another(self.apps[app].queue)
                    && !self.may_not_begin(app)
                {
                    self.reserve(open.alloc, open.node, cx);
                }
            }
            (Ok(()), Intent::Preempt { victims, needed }) => {
                self.count_awaiting_shim(open.alloc, false, false);
                self.pending_again(open.alloc);
                self.forget_refused_victims(open.alloc);
                self.victims_agreed(open.alloc, open.node, (victims, needed), answer.index, cx);
            }
            (Err(_), Intent::Preempt { .. }) if self.allocs[open.alloc].spec.required_node.is_none() => {
                self.questions.refused_victims.insert((open.alloc, open.node));
                self.searched_in_vain(visits);
                self.try_next_node(open.alloc, cx.now);
                self.count_awaiting_shim(open.alloc, false, false);
                self.pending_again(open.alloc);
            }
            (Err(reason), intent) => {
                self.withdraw(open.alloc, &intent, others_may_fit, cx);
                self.log(open.alloc, &reason, cx.now);
                self.refusal_event(open.alloc, cx);
                self.end_refused_reservation(open.alloc, cx);
            }
        }
    }

    /// Neither the node nor a limit has become too full for what is charged there while the shim is asked: what runs already is
    /// taken whatever the limits are, and may grow.
    pub(super) fn still_fits(&self, alloc: AllocIx) -> bool {
        let row = &self.allocs[alloc];
        let taken = |node: NodeIx| {
            let used = row.resource.iter().filter(|(_, amount)| *amount > 0);
            used.into_iter().any(|(kind, _)| self.nodes[node].available.amount(kind) < 0)
        };
        !row.node.is_some_and(taken)
            && self.queue_still_fits(self.apps[row.app].queue, &row.resource)
            && self.user_still_fits(row.app, &row.resource)
    }

    /// The shim refused the node that is charged and agreed to a later one, which has it if it still takes it.
    fn place_elsewhere(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) {
        self.take_back(alloc, cx);
        let resource = self.allocs[alloc].resource.clone();
        let open = self.nodes[node].sort_key.is_some() && self.takes(alloc, node, &resource);
        if let Ok(placement) = self.check(alloc, node)
            && open
        {
            let unexpected = self.is_unexpected(alloc, node);
            self.forget_refusals(alloc);
            self.leave_waiting(alloc, Phase::Allocated, node, cx);
            self.note_allocating(alloc, cx);
            self.charge_and_tell(&placement, cx);
            if unexpected {
                self.doubt_refusals();
            }
        }
    }

    /// One event of all refusals of an ask, when no node is left to ask about (EVT-015).
    fn refusal_event(&mut self, alloc: AllocIx, cx: &mut Cx) {
        if cx.now.0.saturating_sub(self.allocs[alloc].predicate_event.0) < EVENT_INTERVAL.0 {
            return;
        }
        // What the refusal may depend on changed while the shim was asked: it will be asked again. Or another node may still take it.
        if self.refusals(alloc).next().is_none() || self.find_node(alloc, &self.allocs[alloc].resource).is_some() {
            return;
        }
        let mut reasons: std::collections::BTreeMap<Arc<str>, u32> = std::collections::BTreeMap::new();
        for (_, reason) in self.refusals(alloc) {
            *reasons.entry(reason.clone()).or_default() += 1;
        }
        let row = &mut self.allocs[alloc];
        row.predicate_event = cx.now;
        let key = row.spec.key.clone();
        let mut text = format!("Unschedulable request '{key}': ");
        let more = reasons.len().saturating_sub(REASONS);
        for (reason, count) in reasons.into_iter().take(REASONS) {
            text.push_str(&format!("{reason} ({count}x); "));
        }
        if more > 0 {
            text.push_str(&format!("and {more} other reasons"));
        }
        self.message_of(alloc, &text, cx);
    }

    /// The shim agreed to what was charged: it is placed, and its effects are shown.
    pub(super) fn place_confirmed(&mut self, alloc: AllocIx, mut effects: Vec<Effect>, cx: &mut Cx) {
        self.count_awaiting_shim(alloc, true, false);
        if self.allocs[alloc].reserved.is_some() {
            self.end_claim(alloc);
            self.questions.kept.remove(&alloc);
            self.unreserve(alloc, cx);
        }
        let row = &mut self.allocs[alloc];
        row.phase = Phase::Allocated;
        row.bound = cx.now;
        let (spec, node) = (row.spec.clone(), row.node);
        let unexpected = node.is_some_and(|node| self.is_unexpected(alloc, node));
        if let Some(node) = node {
            let row = &mut self.nodes[node];
            row.newest = row.newest.max(cx.now);
            self.note_change(&spec, node);
        }
        self.forget_refusals(alloc);
        self.note_allocating(alloc, cx);
        // The link of its application comes with the first that counts, which may be another one.
        effects.retain(|effect| !matches!(effect, Effect::Event(event) if event.detail == Detail::AppLink));
        // It is allocated, and counts as usage, from now on.
        for effect in &mut effects {
            if let Effect::Event(event) = effect {
                event.at = cx.now;
            }
        }
        self.allocated(alloc, &mut effects, cx);
        if unexpected {
            self.doubt_refusals();
        }
    }
}
