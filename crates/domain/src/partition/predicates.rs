//! Asking the shim: an ask whose placement the shim must confirm first awaits it, charged but not announced, while others go on.

use super::{
    Books, Cx, Partition, Placement,
    atomic::Held,
    refusals::Refusals,
    schedule::Outcome,
    turns::{AskRound, Place, Round, Tries},
};
use crate::coded::{list, map, variants};
use crate::{
    alloc::{AskSpec, Phase},
    command::{PredicateAnswer, PredicateTerms},
    effect::{Effect, Question, QuestionKind},
    types::{AllocIx, AppIx, Nanos, NodeIx, ObjectState, QueueIx},
};

/// Asks that may wait for an answer at once, of all tenants of the partition.
const MAX_OPEN: usize = 256;
/// Nodes that open questions name, more or less: answers are due in seconds, however many a question names.
const MAX_NAMED: usize = 2_048;
/// Asks that may wait for an answer about victims, of all leaves and of one. They are to preempt, and leave the rest to what fits.
const MAX_PREEMPT: (usize, usize) = (32, 8);
/// Nodes that a question names at first, where the shim answers for several; later as many as the refusals suggest.
const FIRST_WIDTH: usize = 32;
/// An allocation's own word on whether it constrains others or is constrained by them.
const UNCONSTRAINED: &str = "callboard.io/unconstrained";

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

/// A question that is open.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub alloc: AllocIx,
    seq: u64,
    pub node: NodeIx,
    /// Nodes to be tried after it, in order.
    pub more: Vec<NodeIx>,
    pub intent: Intent,
    /// It places a constrained ask, so nothing constrained may come or go until it is answered.
    pub in_turn: bool,
    /// What had come and gone when it was asked.
    pub changes: u64,
    /// The same of single nodes.
    pub clock: u64,
    /// [`Questions::room_news`] of then.
    room_news: u64,
    /// [`Questions::placed`] of then.
    pub placed: u64,
    /// What the search that led to it looked at.
    pub visits: u64,
}

/// Questions that are open, and refusals that are remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    open: imbl::OrdMap<u64, Open>,
    /// The open question of an ask: there is one at most.
    of: imbl::OrdMap<AllocIx, u64>,
    /// Gangs that the shim is asked about as a whole.
    pub(super) gangs: imbl::OrdMap<AppIx, Held>,
    /// Gangs that wait until so many more questions may be open.
    waiting: imbl::OrdMap<AppIx, usize>,
    /// What was refused.
    pub(super) refusals: Refusals,
    /// How the shim is asked.
    pub(super) terms: PredicateTerms,
    /// Open questions that place a constrained ask: one, or those of one gang.
    in_turn: usize,
    /// Constrained allocations that came or went, whoever placed them.
    pub(super) changes: u64,
    /// Nodes that the next question names at most; 0 at first.
    pub(super) width: usize,
    /// Nodes that were refused with victims taken off, for the length of an attempt to preempt.
    pub(super) refused_victims: imbl::OrdSet<(AllocIx, NodeIx)>,
    /// Number of the last question.
    next: u64,
    /// Applications that count among their user's only for what the shim is asked about.
    pub(super) only_asked: imbl::OrdSet<AppIx>,
    /// Accepted ones that do so among those of their queues.
    pub(super) entering: imbl::OrdSet<AppIx>,
    /// Whose turn it is.
    pub(super) turn: Place,
    /// The changes that other partitions know of.
    pub(super) told: u64,
    /// What had come and gone when the shim agreed to a replacement of a constrained ask that is under way.
    pub(super) agreed: imbl::OrdMap<AllocIx, u64>,
    /// Real asks whose placeholder is gone, and whose node is kept for them until the shim has agreed once more.
    pub(super) kept: imbl::OrdSet<AllocIx>,
    /// The last turn was that of a replacement: the next is that of another ask.
    pub(super) swapped_last: bool,
    /// Leaf queues that gave way after turns in vain.
    pub(super) vain_queues: Round,
    /// Applications that did, by their queues.
    pub(super) vain_apps: imbl::OrdMap<QueueIx, Round>,
    /// Asks that did, by their applications.
    pub(super) vain_asks: imbl::OrdMap<AppIx, AskRound>,
    /// Turns in vain since one led to something: of leaf queues, and of applications.
    pub(super) queue_tries: imbl::OrdMap<QueueIx, Tries>,
    pub(super) app_tries: imbl::OrdMap<AppIx, Tries>,
    /// When nobody waited for a turn last.
    pub(super) rested: Nanos,
    /// Times that room came on a node, or somebody found none: as long as it is the same, nobody waits for what a question holds.
    pub(super) room_news: u64,
    /// Nodes that open questions name.
    named: usize,
    /// Constrained allocations that the scheduler itself placed, or that came or went in another partition.
    pub(super) placed: u64,
    /// Answers in a row that counted for nothing.
    pub(super) void: u32,
    /// Asks whose search began anew though nothing that they are known to depend on came or went, and when, by the clock of node
    /// changes.
    pub(super) doubtful: imbl::OrdMap<AllocIx, u64>,
}

impl Questions {
    /// Asks with an open question.
    pub(super) fn asks(&self) -> impl Iterator<Item = AllocIx> {
        self.open.values().map(|open| open.alloc)
    }

    /// Those of them that are asked about to reserve a node, and that node.
    pub(super) fn to_reserve(&self) -> impl Iterator<Item = (AllocIx, NodeIx)> {
        let to_reserve = self.open.values().filter(|open| matches!(open.intent, Intent::Reserve));
        to_reserve.map(|open| (open.alloc, open.node))
    }

    /// Those of them that are charged meanwhile.
    pub(super) fn charged(&self) -> impl Iterator<Item = AllocIx> {
        self.open.values().filter(|open| open.intent.is_charged()).map(|open| open.alloc)
    }

    /// Those of them that are charged to nobody meanwhile.
    pub(super) fn uncharged(&self) -> impl Iterator<Item = AllocIx> {
        self.open.values().filter(|open| !open.intent.is_charged()).map(|open| open.alloc)
    }

    /// Open questions.
    pub(super) fn number(&self) -> usize {
        self.open.len()
    }

    /// A constrained ask is being asked about.
    pub(super) fn is_in_turn(&self) -> bool {
        self.in_turn > 0
    }
}

impl Partition {
    /// The ask constrains others or is constrained by them, so that an answer holds only until such a one comes or goes.
    pub(super) fn is_constrained(&self, spec: &AskSpec) -> bool {
        match spec.tags.get(UNCONSTRAINED).map(String::as_str) {
            Some("true") => false,
            Some("false") => true,
            _ => self.questions.terms.constrained,
        }
    }

    /// An allocation came onto a node or went from it, for the shim to see: what it said of that node, and of constrained asks,
    /// may hold no more.
    pub(super) fn note_change(&mut self, spec: &AskSpec, node: NodeIx) {
        if !self.ask_shim {
            return;
        }
        if self.is_constrained(spec) {
            self.questions.changes += 1;
        }
        self.questions.refusals.node_changed(node);
    }

    /// This ask is constrained, and another such is being asked about, here or in another partition: it waits for its turn.
    pub(super) fn waits_for_turn(&self, alloc: AllocIx) -> bool {
        self.ask_shim
            && (self.questions.is_in_turn() || !self.has_turn())
            && self.is_constrained(&self.allocs[alloc].spec)
    }

    /// The shim is asked about it just now.
    pub(super) fn is_in_question(&self, alloc: AllocIx) -> bool {
        self.questions.of.contains_key(&alloc)
    }

    /// Placeholders about whose replacement the shim is being asked.
    pub(super) fn placeholders_in_question(&self) -> std::collections::BTreeSet<AllocIx> {
        let placeholder = |open: &Open| match open.intent {
            Intent::Swap { placeholder, seq } if self.allocs[placeholder].seq == seq => Some(placeholder),
            _ => None,
        };
        self.questions.open.values().filter_map(placeholder).collect()
    }

    /// Numbers of the questions that wait for an answer.
    pub fn open_questions(&self) -> impl Iterator<Item = u64> {
        self.questions.open.keys().copied()
    }

    /// Room for one more question.
    pub(super) fn may_ask(&self) -> bool {
        self.questions.open.len() < MAX_OPEN && self.questions.named < MAX_NAMED
    }

    /// Room for one more question about victims of an ask of this leaf.
    pub(super) fn may_ask_about_victims(&self, leaf: QueueIx) -> bool {
        let open = self.questions.open.values().filter(|open| matches!(open.intent, Intent::Preempt { .. }));
        let (mut all, mut own) = (0, 0);
        for open in open {
            all += 1;
            own += usize::from(self.apps[self.allocs[open.alloc].app].queue == leaf);
        }
        self.may_ask() && all < MAX_PREEMPT.0 && own < MAX_PREEMPT.1
    }

    /// Room for so many more; a gang that is larger than the bound is asked about while nothing else is.
    fn may_ask_for(&self, count: usize) -> bool {
        self.questions.open.is_empty() || self.questions.open.len() + count <= MAX_OPEN
    }

    /// Room to ask about a whole gang; else nothing more is asked until there is.
    pub(super) fn may_ask_about_gang(&mut self, app: AppIx, count: usize) -> bool {
        let room = self.may_ask_for(count);
        if !room {
            self.questions.waiting.insert(app, count);
        }
        room
    }

    /// A gang goes: others need not wait for its questions.
    pub(super) fn waits_for_questions_no_more(&mut self, app: AppIx) {
        self.questions.waiting.remove(&app);
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
            self.rouse_groups(app);
            let outcome = cx.in_one_go(|cx| self.try_app(app, cx));
            if outcome != Outcome::Nothing {
                return Some(outcome);
            }
            cx.tried(1);
            if cx.is_spent() {
                return Some(Outcome::Cut);
            }
        }
        (!self.may_ask()).then_some(Outcome::Nothing)
    }

    /// Charges a placement without showing it, and asks the shim.
    pub(super) fn ask_shim_first(&mut self, placement: &Placement, node: NodeIx, cx: &mut Cx) -> Outcome {
        if !self.may_ask() {
            return Outcome::Nothing;
        }
        let more = self.further_nodes(placement, node);
        let effects = self.charge_awaiting_shim(placement, node, cx);
        let kind = QuestionKind::Fits { allocate: true };
        self.question(placement.alloc, (node, more), Intent::Place { effects }, kind, cx);
        Outcome::Progress
    }

    /// Nodes that the same question may name after the first, in the order in which they would be tried.
    pub(super) fn further_nodes(&mut self, placement: &Placement, first: NodeIx) -> Vec<NodeIx> {
        let row = &self.allocs[placement.alloc];
        let width = self.width();
        if width <= 1 || row.spec.required_node.is_some() || row.reserved.is_some() {
            return Vec::new();
        }
        let mut nodes = Vec::new();
        self.index.first(&placement.resource, |node| {
            if node != first && self.takes(placement.alloc, node, &placement.resource) {
                nodes.push(node);
            }
            nodes.len() + 1 >= width
        });
        nodes
    }

    /// Nodes that the next question may name.
    pub(super) fn width(&self) -> usize {
        let width = if self.questions.width == 0 { FIRST_WIDTH } else { self.questions.width };
        width.min(self.questions.terms.nodes).max(1)
    }

    /// The more nodes were refused before one fitted, the more the next question names.
    pub(super) fn adapt_width(&mut self, asked: usize, refused: usize) {
        let most = self.questions.terms.nodes;
        if most <= 1 || asked == 0 {
            return;
        }
        let width = if self.questions.width == 0 { FIRST_WIDTH } else { self.questions.width };
        let next = if refused >= asked {
            width * 2
        } else if refused < width / 4 {
            width - width / 4
        } else {
            width
        };
        self.questions.width = next.clamp(4, most.max(4));
    }

    /// Charges a placement without showing it; gives the effects to be shown later.
    pub(super) fn charge_awaiting_shim(&mut self, placement: &Placement, node: NodeIx, cx: &mut Cx) -> Vec<Effect> {
        self.await_shim(placement.alloc, node, true);
        self.counts_for_question(placement.app);
        cx.apart(Vec::new(), |cx| self.charge(placement, cx))
    }

    /// Asks the shim about one placeholder of a gang.
    pub(super) fn ask_about_gang(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) {
        self.question(alloc, (node, Vec::new()), Intent::Gang, QuestionKind::Fits { allocate: true }, cx);
    }

    /// An ask no longer waits for a node, but for the shim's word.
    fn await_shim(&mut self, alloc: AllocIx, node: NodeIx, charged: bool) {
        self.dequeue(alloc);
        let row = &mut self.allocs[alloc];
        row.phase = Phase::AwaitingShim;
        row.node = Some(node);
        self.count_awaiting_shim(alloc, charged, true);
    }

    pub(super) fn count_awaiting_shim(&mut self, alloc: AllocIx, charged: bool, up: bool) {
        let row = &self.allocs[alloc];
        let app = &mut self.apps[row.app];
        let count = |n: &mut u32| if up { *n += 1 } else { *n -= 1 };
        if row.is_placeholder() {
            count(&mut app.gang.awaiting_shim);
        }
        if !charged {
            count(&mut app.asking);
            self.count_in_question(alloc, up);
            return;
        }
        app.asked[usize::from(row.is_placeholder())].note(&row.resource, up);
        if let Some(node) = row.node {
            self.nodes[node].asked.note(&row.resource, up);
        }
        let queue = app.queue;
        for queue in self.up(queue) {
            let queue = &mut self.queues[queue];
            queue.asked.note(&row.resource, up);
        }
    }

    /// Asks the shim about an ask that is not charged meanwhile.
    pub(super) fn ask(
        &mut self,
        alloc: AllocIx,
        nodes: (NodeIx, Vec<NodeIx>),
        intent: Intent,
        kind: QuestionKind,
        cx: &mut Cx,
    ) {
        self.await_shim(alloc, nodes.0, intent.is_charged());
        self.question(alloc, nodes, intent, kind, cx);
    }

    /// What the search looked at that led to the question about an ask: it was in vain where the shim refuses.
    pub(super) fn note_visits(&mut self, alloc: AllocIx, visits: u64) {
        let questions = &mut self.questions;
        if let Some(open) = questions.of.get(&alloc).and_then(|id| questions.open.get_mut(id)) {
            open.visits = visits;
        }
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
        if self.questions.refused_victims.is_empty() {
            return;
        }
        let range = (alloc, NodeIx(0))..=(alloc, NodeIx(u32::MAX));
        let nodes: Vec<_> = self.questions.refused_victims.range(range).copied().collect();
        for key in nodes {
            self.questions.refused_victims.remove(&key);
        }
    }

    fn question(
        &mut self,
        alloc: AllocIx,
        (node, more): (NodeIx, Vec<NodeIx>),
        intent: Intent,
        kind: QuestionKind,
        cx: &mut Cx,
    ) {
        self.questions.next += 1;
        let id = self.questions.next;
        let row = &self.allocs[alloc];
        // What is reserved or preempted for is asked about once more before it is placed.
        let places = matches!(intent, Intent::Place { .. } | Intent::Gang | Intent::Swap { .. });
        let constrained = self.is_constrained(&row.spec);
        let in_turn = places && constrained;
        self.questions.swapped_last |= in_turn && matches!(intent, Intent::Swap { .. });
        self.questions.in_turn += usize::from(in_turn);
        let name = |node: &NodeIx| self.nodes[*node].spec.id.clone();
        cx.fx.push(Effect::Ask(Question {
            id,
            key: row.spec.key.clone(),
            node: name(&node),
            more: more.iter().map(name).collect(),
            together: !constrained && matches!(kind, QuestionKind::Fits { .. }),
            kind,
        }));
        let (changes, clock) = (self.questions.changes, self.questions.refusals.clock());
        let room_news = self.questions.room_news;
        self.questions.named += 1 + more.len();
        let placed = self.questions.placed;
        let open =
            Open { alloc, seq: row.seq, node, more, intent, in_turn, changes, clock, room_news, placed, visits: 0 };
        self.questions.open.insert(id, open);
        self.questions.of.insert(alloc, id);
        if in_turn {
            self.use_turn();
        }
    }

    fn close(&mut self, id: u64) -> Option<Open> {
        let open = self.questions.open.remove(&id)?;
        self.questions.of.remove(&open.alloc);
        self.questions.in_turn -= usize::from(open.in_turn);
        // Questions of before did not count.
        self.questions.named = self.questions.named.saturating_sub(1 + open.more.len());
        Some(open)
    }

    /// The question is over. Gives it where the ask still waits for its answer.
    pub(super) fn closed(&mut self, question: u64) -> Option<Open> {
        if self.state == ObjectState::Stopped {
            // It is being taken apart, and what is asked about with it.
            return None;
        }
        let open = self.close(question)?;
        if let Intent::Swap { placeholder, seq } = open.intent {
            self.replaceable_again(placeholder, seq);
        }
        let row = &self.allocs[open.alloc];
        let waits = !row.is_free() && row.seq == open.seq && row.phase == Phase::AwaitingShim;
        waits.then_some(open)
    }

    /// Others may fit where this question holds room: somebody found none, or room came besides, since it was asked.
    pub(super) fn others_may_fit(&self, open: &Open) -> bool {
        open.room_news != self.questions.room_news
    }

    /// What was charged while the shim is asked is refunded, and the ask waits again; questions about it are void.
    pub(super) fn take_back(&mut self, alloc: AllocIx, cx: &mut Cx) {
        self.take_back_for(alloc, true, cx);
    }

    /// The same; others look at the room again where they may fit.
    pub(super) fn take_back_for(&mut self, alloc: AllocIx, others_may_fit: bool, cx: &mut Cx) {
        self.drop_questions_of(alloc);
        let app = self.allocs[alloc].app;
        // It waits all the while: its application goes on to count where it did before the question (UGM-041).
        self.apps[app].asking += 1;
        let node = self.allocs[alloc].node;
        cx.apart(Vec::new(), |cx| self.refund_for(alloc, node, Books::ALL, others_may_fit, cx));
        self.apps[app].asking -= 1;
        self.count_awaiting_shim(alloc, true, false);
        self.counts_no_more_for_questions(app);
        self.pending_again(alloc);
    }

    fn drop_questions_of(&mut self, alloc: AllocIx) -> Option<Intent> {
        let id = *self.questions.of.get(&alloc)?;
        let intent = self.close(id)?.intent;
        if let Intent::Swap { placeholder, seq } = intent {
            self.replaceable_again(placeholder, seq);
        }
        Some(intent)
    }

    pub(super) fn pending_again(&mut self, alloc: AllocIx) {
        let row = &mut self.allocs[alloc];
        row.phase = Phase::Pending;
        row.node = None;
        self.enqueue(alloc);
    }

    /// Takes a question back before it is answered; it waits again.
    pub(super) fn withdraw_question(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let app = self.allocs[alloc].app;
        if self.is_in_held_gang(app, alloc) {
            self.undo_gang(app, cx);
            return;
        }
        match self.drop_questions_of(alloc) {
            Some(Intent::Place { .. }) => self.take_back(alloc, cx),
            _ => {
                self.count_awaiting_shim(alloc, false, false);
                self.pending_again(alloc);
            }
        }
    }

    /// A node goes: questions about it have no meaning any more.
    pub(super) fn drop_questions_of_node(&mut self, node: NodeIx, cx: &mut Cx) {
        let names = |open: &Open| open.node == node || open.more.contains(&node);
        let awaiting: Vec<AllocIx> =
            self.questions.open.values().filter(|open| names(open)).map(|open| open.alloc).collect();
        for app in self.gangs_on(node) {
            self.undo_gang(app, cx);
        }
        for alloc in awaiting {
            if self.allocs[alloc].phase == Phase::AwaitingShim {
                self.withdraw_question(alloc, cx);
            }
        }
        self.questions.refusals.node_changed(node);
    }

    /// A node is drained: what the shim is asked about there may not have it any more (R2.5), but for what requires it, or takes
    /// the place of a placeholder there (R5.42, R6.9).
    pub(super) fn drop_questions_of_drained(&mut self, node: NodeIx, cx: &mut Cx) {
        let goes = |open: &&Open| {
            let home = matches!(open.intent, Intent::Swap { placeholder, seq }
                if self.allocs[placeholder].seq == seq && self.allocs[placeholder].node == Some(node));
            let stays = home || self.may_have_drained(open.alloc, node);
            open.node == node && !matches!(open.intent, Intent::Gang) && !stays
        };
        let open: Vec<AllocIx> = self.questions.open.values().filter(goes).map(|open| open.alloc).collect();
        for app in self.gangs_on(node) {
            self.undo_gang(app, cx);
        }
        for alloc in open {
            if self.allocs[alloc].phase == Phase::AwaitingShim {
                self.withdraw_question(alloc, cx);
            }
        }
        self.unblock_limits();
    }

    /// A placeholder waits again: whether a real ask may take its place has no meaning any more. Where it is placed next the real
    /// ask is asked about anew, as any other.
    pub(super) fn drop_question_of_successor(&mut self, placeholder: AllocIx, cx: &mut Cx) {
        let row = &self.allocs[placeholder];
        if self.apps[row.app].asking == 0 {
            return;
        }
        let is_with = |open: &&Open| match open.intent {
            Intent::Swap { placeholder: with, seq } => with == placeholder && seq == row.seq,
            _ => false,
        };
        let real = self.questions.open.values().find(is_with).map(|open| open.alloc);
        if let Some(real) = real {
            self.withdraw_question(real, cx);
        }
    }

    /// How the shim is asked from now on; questions that are open were asked as before.
    pub(super) fn set_predicate_terms(&mut self, terms: PredicateTerms) {
        self.questions.terms = terms;
        self.questions.width = 0;
        self.share_turns(terms.shared);
    }

    /// The shim wants to be asked from now on, or no more: then what awaits an answer counts as fitting.
    pub(super) fn ask_predicates(&mut self, on: bool, cx: &mut Cx) {
        if self.ask_shim == on {
            return;
        }
        let open: Vec<u64> = self.questions.open.keys().copied().collect();
        for question in open {
            self.answer(PredicateAnswer::fits(question), cx);
        }
        self.ask_shim = on;
        self.questions.refusals = Refusals::default();
        self.questions.doubtful.clear();
        (self.questions.vain_queues, self.questions.vain_apps, self.questions.vain_asks) = Default::default();
        (self.questions.queue_tries, self.questions.app_tries) = Default::default();
        // Shapes say whether the shim answers for each ask: those of waiting asks are made anew.
        let waiting: Vec<AllocIx> = self
            .app_by_id
            .values()
            .flat_map(|app| self.apps[*app].by_seq.values().copied().collect::<Vec<_>>())
            .filter(|alloc| self.allocs[*alloc].is_pending())
            .collect();
        for alloc in waiting {
            self.dequeue(alloc);
            let resource = self.allocs[alloc].resource.clone();
            let (shape, resource) = self.shapes.intern(&resource, on.then_some(alloc));
            let old = std::mem::replace(&mut self.allocs[alloc].shape, shape);
            self.shapes.release(old);
            self.allocs[alloc].resource = resource;
            self.enqueue(alloc);
        }
        self.unblock_all_shapes();
    }
}

variants!(Intent { 1 Place { effects }, 2 Gang, 3 Swap { placeholder, seq }, 4 Reserve, 5 Preempt { victims, needed } });
list!(Open { alloc, seq, node, more, intent, in_turn, changes, clock, room_news, placed, visits });
map!(Questions {
    1 open,
    2 of,
    3 gangs,
    4 waiting,
    5 refusals,
    6 terms,
    7 in_turn,
    8 changes,
    9 width,
    10 refused_victims,
    11 next,
    12 turn,
    13 told,
    14 only_asked,
    15 entering,
    16 agreed,
    17 kept,
    18 swapped_last,
    19 vain_queues,
    20 vain_apps,
    21 rested,
    22 room_news,
    23 named,
    24 placed,
    25 void,
    26 vain_asks,
    27 queue_tries,
    28 app_tries,
    29 doubtful,
});
