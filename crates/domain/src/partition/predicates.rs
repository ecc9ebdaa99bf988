//! Asking the shim: an ask whose placement must be confirmed first is parked, charged but not announced, while others go on.

use std::sync::Arc;

use super::{Books, Cx, Partition, Placement, atomic::Trial, schedule::Outcome};
use crate::{
    alloc::Phase,
    command::PredicateAnswer,
    effect::{Effect, Question, QuestionKind},
    types::{AllocIx, AppIx, Nanos, NodeIx, ObjectState},
};

/// Asks that may wait for an answer at once.
const MAX_PARKED: usize = 256;
/// At most one event of refusals per ask in this time (EVT-015).
const EVENT_INTERVAL: Nanos = Nanos::from_secs(15);

/// What happens when the shim agrees.
#[derive(Clone, Debug)]
pub(super) enum Intent {
    /// The ask is placed; with it the effects of its charge, kept until then.
    Place { effects: Vec<Effect> },
    /// The ask is placed with all others of its gang, if the shim agrees to every one of them.
    Gang,
    /// The ask replaces this placeholder, which has this arrival number.
    Swap { placeholder: AllocIx, seq: u64 },
    /// The node is reserved.
    Reserve,
    /// Victims go, with their arrival numbers; so many of them at least.
    Preempt { victims: Vec<(AllocIx, u64)>, needed: usize },
}

impl Intent {
    /// Limits and nodes are charged while the shim is asked.
    fn is_charged(&self) -> bool {
        matches!(self, Intent::Place { .. } | Intent::Gang)
    }
}

#[derive(Clone, Debug)]
struct Open {
    alloc: AllocIx,
    seq: u64,
    node: NodeIx,
    intent: Intent,
}

/// Questions that are open, and refusals that are remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    open: imbl::OrdMap<u64, Open>,
    /// The open question of an ask: there is one at most.
    of: imbl::OrdMap<AllocIx, u64>,
    /// Gangs that the shim is asked about as a whole.
    pub(super) gangs: imbl::OrdMap<AppIx, Trial>,
    /// Gangs that wait until so many more questions may be open.
    waiting: imbl::OrdMap<AppIx, usize>,
    /// (ask, node) → reason.
    refused: imbl::OrdMap<(AllocIx, NodeIx), Arc<str>>,
    /// The same after victims have gone, for the length of an attempt to preempt.
    refused_victims: imbl::OrdSet<(AllocIx, NodeIx)>,
    /// Number of the last question.
    next: u64,
}

impl Partition {
    /// Refused by the shim, and not yet to be asked again.
    pub(super) fn is_refused(&self, alloc: AllocIx, node: NodeIx) -> bool {
        self.questions.refused.contains_key(&(alloc, node))
    }

    /// Placeholders about whose replacement the shim is being asked.
    pub(super) fn placeholders_in_question(&self) -> std::collections::BTreeSet<AllocIx> {
        let placeholder = |open: &Open| match open.intent {
            Intent::Swap { placeholder, seq } if self.allocs[placeholder.ix()].seq == seq => Some(placeholder),
            _ => None,
        };
        self.questions.open.values().filter_map(placeholder).collect()
    }

    /// The nodes that the shim refused for an ask, and what it said.
    pub(super) fn refusals(&self, alloc: AllocIx) -> impl Iterator<Item = (NodeIx, &Arc<str>)> {
        let of = self.questions.refused.range((alloc, NodeIx(0))..=(alloc, NodeIx(u32::MAX)));
        of.filter(|_| self.ask_shim).map(|((_, node), reason)| (*node, reason))
    }

    /// Room for one more question.
    pub(super) fn may_ask(&self) -> bool {
        self.questions.open.len() < MAX_PARKED
    }

    /// Room for so many more; a gang that is larger than the bound is asked about while nothing else is.
    fn may_ask_for(&self, count: usize) -> bool {
        self.questions.open.is_empty() || self.questions.open.len() + count <= MAX_PARKED
    }

    /// Room to ask about a whole gang; else nothing more is asked until there is.
    pub(super) fn may_ask_about_gang(&mut self, app: AppIx, count: usize) -> bool {
        let room = self.may_ask_for(count);
        if !room {
            self.questions.waiting.insert(app, count);
        }
        room
    }

    /// While as many questions are open as may be, nothing is tried, since every placement begins with one: what is tried in
    /// vain would be put aside although it could be placed. A gang that waited for room comes first, or others would always
    /// take it.
    pub(super) fn ask_in_turn(&mut self, cx: &mut Cx) -> Option<Outcome> {
        while let Some((app, count)) = self.questions.waiting.get_min().map(|(app, count)| (*app, *count)) {
            if !self.may_ask_for(count) {
                return Some(Outcome::Nothing);
            }
            self.questions.waiting.remove(&app);
            if self.apps[app.ix()].free {
                continue;
            }
            self.rouse_groups(app);
            let outcome = self.try_app(app, cx);
            if outcome != Outcome::Nothing {
                return Some(outcome);
            }
        }
        (!self.may_ask()).then_some(Outcome::Nothing)
    }

    /// Charges a placement without showing it, and asks the shim.
    pub(super) fn park_for_answer(&mut self, placement: &Placement, node: NodeIx, cx: &mut Cx) -> Outcome {
        if !self.may_ask() {
            return Outcome::Nothing;
        }
        let effects = self.park_charged(placement, node, cx);
        self.question(placement.alloc, node, Intent::Place { effects }, QuestionKind::Fits { allocate: true }, cx);
        Outcome::Progress
    }

    /// Charges a placement without showing it; gives the effects to be shown later.
    pub(super) fn park_charged(&mut self, placement: &Placement, node: NodeIx, cx: &mut Cx) -> Vec<Effect> {
        let mut effects = Vec::new();
        let hidden = &mut cx.with(&mut effects);
        self.park(placement.alloc, node, true);
        self.charge(placement, hidden);
        effects
    }

    /// Asks the shim about one placeholder of a gang.
    pub(super) fn ask_about_gang(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) {
        self.question(alloc, node, Intent::Gang, QuestionKind::Fits { allocate: true }, cx);
    }

    /// An ask no longer waits for a node, but for the shim's word.
    fn park(&mut self, alloc: AllocIx, node: NodeIx, charged: bool) {
        self.dequeue(alloc);
        let row = &mut self.allocs[alloc.ix()];
        row.phase = Phase::Parked;
        row.node = Some(node);
        self.count_parked(alloc, charged, true);
    }

    fn count_parked(&mut self, alloc: AllocIx, charged: bool, up: bool) {
        let row = &self.allocs[alloc.ix()];
        let app = &mut self.apps[row.app.ix()];
        let count = |n: &mut u32| if up { *n += 1 } else { *n -= 1 };
        if row.is_placeholder() {
            count(&mut app.parked_placeholders);
        }
        if !charged {
            count(&mut app.asking);
            return;
        }
        let sum = &mut app.parked_charges[usize::from(row.is_placeholder())];
        if up {
            sum.add(&row.resource);
        } else {
            sum.sub(&row.resource);
            sum.prune();
        }
    }

    /// Asks the shim about an ask that is not charged meanwhile.
    pub(super) fn ask(&mut self, alloc: AllocIx, node: NodeIx, intent: Intent, allocate: bool, cx: &mut Cx) {
        self.ask_kind(alloc, node, intent, QuestionKind::Fits { allocate }, cx);
    }

    /// As `ask`, with any kind of question.
    pub(super) fn ask_kind(&mut self, alloc: AllocIx, node: NodeIx, intent: Intent, kind: QuestionKind, cx: &mut Cx) {
        self.park(alloc, node, intent.is_charged());
        self.question(alloc, node, intent, kind, cx);
    }

    /// Nodes that an open question about victims is about.
    pub(super) fn nodes_in_question(&self) -> std::collections::BTreeSet<NodeIx> {
        let open = self.questions.open.values();
        open.filter(|open| matches!(open.intent, Intent::Preempt { .. })).map(|open| open.node).collect()
    }

    /// Refused by the shim in this attempt to preempt.
    pub(super) fn are_victims_refused(&self, alloc: AllocIx, node: NodeIx) -> bool {
        self.questions.refused_victims.contains(&(alloc, node))
    }

    /// The attempt to preempt is over.
    pub(super) fn forget_refused_victims(&mut self, alloc: AllocIx) {
        let range = (alloc, NodeIx(0))..=(alloc, NodeIx(u32::MAX));
        let nodes: Vec<_> = self.questions.refused_victims.range(range).copied().collect();
        for key in nodes {
            self.questions.refused_victims.remove(&key);
        }
    }

    fn question(&mut self, alloc: AllocIx, node: NodeIx, intent: Intent, kind: QuestionKind, cx: &mut Cx) {
        self.questions.next += 1;
        let id = self.questions.next;
        let row = &self.allocs[alloc.ix()];
        self.questions.open.insert(id, Open { alloc, seq: row.seq, node, intent });
        self.questions.of.insert(alloc, id);
        cx.fx.push(Effect::Ask(Question {
            id,
            key: row.spec.key.clone(),
            node: self.nodes[node.ix()].spec.id.clone(),
            kind,
        }));
    }

    /// The shim answered, or nobody will.
    pub(super) fn answer(&mut self, answer: PredicateAnswer, cx: &mut Cx) {
        if self.state == ObjectState::Stopped {
            // It is being taken apart, and what is asked about with it.
            return;
        }
        let Some(open) = self.questions.open.remove(&answer.question) else { return };
        self.questions.of.remove(&open.alloc);
        if let Intent::Swap { placeholder, seq } = open.intent {
            self.replaceable_again(placeholder, seq);
        }
        let row = &self.allocs[open.alloc.ix()];
        if row.free || row.seq != open.seq || row.phase != Phase::Parked {
            return;
        }
        let app = row.app;
        match (answer.result, open.intent) {
            (Ok(()), Intent::Place { effects }) => self.place_parked(open.alloc, effects, cx),
            (Ok(()), Intent::Gang) => self.gang_agreed(app, cx),
            (Ok(()), Intent::Swap { placeholder, .. }) => {
                self.count_parked(open.alloc, false, false);
                self.pending_again(open.alloc);
                self.dequeue(open.alloc);
                self.swap_agreed(placeholder, open.alloc, open.node, cx);
            }
            (Ok(()), Intent::Reserve) => {
                self.count_parked(open.alloc, false, false);
                self.pending_again(open.alloc);
                // R2.28, R2.29: somebody else may have reserved it meanwhile, or it shrank.
                let node = &self.nodes[open.node.ix()];
                if node.sort_key.is_some() && node.capacity.fits(&self.allocs[open.alloc.ix()].resource) {
                    self.reserve(open.alloc, open.node, cx);
                }
            }
            (Ok(()), Intent::Preempt { victims, needed }) => {
                self.count_parked(open.alloc, false, false);
                self.pending_again(open.alloc);
                self.forget_refused_victims(open.alloc);
                self.victims_agreed(open.alloc, open.node, (victims, needed), answer.index, cx);
            }
            (Err(_), Intent::Preempt { .. }) => {
                self.questions.refused_victims.insert((open.alloc, open.node));
                self.try_next_node(open.alloc, cx.now);
                self.count_parked(open.alloc, false, false);
                self.pending_again(open.alloc);
            }
            (Err(reason), intent) => {
                self.questions.refused.insert((open.alloc, open.node), reason.clone());
                match intent {
                    Intent::Gang => self.undo_gang(app, cx),
                    Intent::Place { .. } => self.take_back(open.alloc, cx),
                    Intent::Swap { .. } | Intent::Reserve | Intent::Preempt { .. } => {
                        self.count_parked(open.alloc, false, false);
                        self.pending_again(open.alloc);
                    }
                }
                self.log(open.alloc, &reason, cx.now);
                self.refusal_event(open.alloc, cx);
            }
        }
        self.unblock_limits();
    }

    /// One event of all refusals of an ask, when no node is left to ask about (EVT-015).
    fn refusal_event(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let resource = self.allocs[alloc.ix()].resource.clone();
        if self.find_node(alloc, &resource).is_some() {
            return;
        }
        let row = &mut self.allocs[alloc.ix()];
        if cx.now.0.saturating_sub(row.predicate_event.0) < EVENT_INTERVAL.0 {
            return;
        }
        row.predicate_event = cx.now;
        let key = row.spec.key.clone();
        let mut reasons: std::collections::BTreeMap<Arc<str>, u32> = std::collections::BTreeMap::new();
        let range = (alloc, NodeIx(0))..=(alloc, NodeIx(u32::MAX));
        for (_, reason) in self.questions.refused.range(range) {
            *reasons.entry(reason.clone()).or_default() += 1;
        }
        let mut text = format!("Unschedulable request '{key}': ");
        for (reason, count) in reasons {
            text.push_str(&format!("{reason} ({count}x); "));
        }
        self.message_of(alloc, &text, cx);
    }

    /// The shim agreed to what was charged: it is placed, and its effects are shown.
    pub(super) fn place_parked(&mut self, alloc: AllocIx, mut effects: Vec<Effect>, cx: &mut Cx) {
        self.count_parked(alloc, true, false);
        if self.allocs[alloc.ix()].reserved.is_some() {
            self.end_claim(alloc);
            self.unreserve(alloc, cx);
        }
        let row = &mut self.allocs[alloc.ix()];
        row.phase = Phase::Allocated;
        row.bound = cx.now;
        self.forget_refusals(alloc);
        self.note_allocating(alloc, cx);
        // It is allocated, and counts as usage, from now on.
        for effect in &mut effects {
            if let Effect::Event(event) = effect {
                event.at = cx.now;
            }
        }
        self.allocated(alloc, &mut effects, cx);
    }

    /// What was charged while the shim is asked is refunded, and the ask waits again; questions about it are void.
    pub(super) fn take_back(&mut self, alloc: AllocIx, cx: &mut Cx) {
        self.drop_questions_of(alloc);
        let mut hidden = Vec::new();
        let hidden = &mut cx.with(&mut hidden);
        let placement = self.placement(alloc, self.allocs[alloc.ix()].node, Books::ALL);
        self.refund(&placement, hidden);
        self.count_parked(alloc, true, false);
        self.pending_again(alloc);
    }

    fn drop_questions_of(&mut self, alloc: AllocIx) -> Option<Intent> {
        let id = self.questions.of.remove(&alloc)?;
        let intent = self.questions.open.remove(&id)?.intent;
        if let Intent::Swap { placeholder, seq } = intent {
            self.replaceable_again(placeholder, seq);
        }
        Some(intent)
    }

    fn pending_again(&mut self, alloc: AllocIx) {
        let row = &mut self.allocs[alloc.ix()];
        row.phase = Phase::Pending;
        row.node = None;
        self.enqueue(alloc);
    }

    /// Takes a parked ask back before it is answered; it waits again.
    pub(super) fn unpark(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let app = self.allocs[alloc.ix()].app;
        if self.is_in_trial(app, alloc) {
            self.undo_gang(app, cx);
            return;
        }
        match self.drop_questions_of(alloc) {
            Some(Intent::Place { .. }) => self.take_back(alloc, cx),
            _ => {
                self.count_parked(alloc, false, false);
                self.pending_again(alloc);
            }
        }
    }

    /// A node goes: questions about it have no meaning any more.
    pub(super) fn drop_questions_of_node(&mut self, node: NodeIx, cx: &mut Cx) {
        let parked: Vec<AllocIx> =
            self.questions.open.values().filter(|open| open.node == node).map(|open| open.alloc).collect();
        for app in self.gangs_on(node) {
            self.undo_gang(app, cx);
        }
        for alloc in parked {
            if self.allocs[alloc.ix()].phase == Phase::Parked {
                self.unpark(alloc, cx);
            }
        }
        if self.questions.refused.is_empty() {
            return;
        }
        self.questions.refused = self
            .questions
            .refused
            .iter()
            .filter(|((_, at), _)| *at != node)
            .map(|(key, reason)| (*key, reason.clone()))
            .collect();
    }

    pub(super) fn forget_refusals(&mut self, alloc: AllocIx) {
        if self.questions.refused.is_empty() {
            return;
        }
        let range = (alloc, NodeIx(0))..=(alloc, NodeIx(u32::MAX));
        let keys: Vec<_> = self.questions.refused.range(range).map(|(key, _)| *key).collect();
        for key in keys {
            self.questions.refused.remove(&key);
        }
    }

    pub(super) fn has_refusals(&self) -> bool {
        !self.questions.refused.is_empty()
    }

    /// Refusals are forgotten from time to time: what the shim refuses may have changed without a word (R5.27).
    pub(super) fn forget_all_refusals(&mut self) {
        let refused = std::mem::take(&mut self.questions.refused);
        if refused.is_empty() {
            return;
        }
        for (alloc, _) in refused.keys() {
            let app = self.allocs[alloc.ix()].app;
            if !self.apps[app.ix()].replaceable.is_empty() {
                self.look_for_swaps(app);
            }
        }
        self.unblock_all_shapes();
    }

    /// The shim wants to be asked from now on, or no more: then what is parked counts as fitting.
    pub(super) fn ask_predicates(&mut self, on: bool, cx: &mut Cx) {
        if self.ask_shim == on {
            return;
        }
        let open: Vec<u64> = self.questions.open.keys().copied().collect();
        for question in open {
            self.answer(PredicateAnswer { question, result: Ok(()), index: 0 }, cx);
        }
        self.ask_shim = on;
        self.questions.refused = imbl::OrdMap::new();
        // Shapes say whether the shim answers for each ask: those of waiting asks are made anew.
        let waiting: Vec<AllocIx> = self
            .app_by_id
            .values()
            .flat_map(|app| self.apps[app.ix()].by_seq.values().copied().collect::<Vec<_>>())
            .filter(|alloc| self.allocs[alloc.ix()].is_pending())
            .collect();
        for alloc in waiting {
            self.dequeue(alloc);
            let resource = self.allocs[alloc.ix()].resource.clone();
            let (shape, resource) = self.shapes.intern(&resource, on.then_some(alloc));
            let old = std::mem::replace(&mut self.allocs[alloc.ix()].shape, shape);
            self.shapes.release(old);
            self.allocs[alloc.ix()].resource = resource;
            self.enqueue(alloc);
        }
        self.unblock_all_shapes();
    }
}
