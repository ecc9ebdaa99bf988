//! One attempt from beginning to end: the search, the question to the shim, and what follows a decision (R7.17–R7.27).

use std::sync::Arc;

use super::{
    super::{Cx, Partition, predicates::Intent},
    attempt::Kind,
    gap,
    plan::{Found, Plan, Terms},
    scope::Scope,
};
use crate::{
    alloc::Phase,
    app::Hold,
    effect::{QuestionKind, Released},
    types::{AllocIx, NodeIx, Termination},
};

/// How an attempt ended.
pub(super) enum Tried {
    /// Victims were told to go.
    Done,
    /// The shim is asked first.
    Asked,
    /// Nothing can be done for this ask now.
    Failed {
        /// Nodes and allocations that were looked at.
        visits: u64,
    },
}

impl Partition {
    /// One attempt for one ask that may preempt (R7.4) and fits its user's limits.
    pub(super) fn try_preempt(&mut self, alloc: AllocIx, hold: Hold, cx: &mut Cx) -> Tried {
        let scope = self.scope(alloc);
        let mut visits = 1;
        if scope.is_hopeless() {
            self.log(alloc, "Preemption queue guarantees check failed", cx.now);
            self.forget_refused_victims(alloc);
            return Tried::Failed { visits };
        }
        let found = if scope.leaves.is_empty() {
            Found::Nothing(false)
        } else {
            let kind = self.kind_of(alloc);
            let pool = if scope.short.is_empty() { Arc::default() } else { self.pool_of(kind, &scope) };
            let from = self.search.cursor.as_ref().filter(|(of, ..)| *of == kind && scope.gang.is_none());
            let from = from.map(|(_, rank, harm)| (*rank, harm.clone()));
            let found = self.search(&scope, alloc, &Terms { hold, pool: &pool, from }, &mut visits);
            if let Found::Plan(_, harm, rank) = &found
                && scope.gang.is_none()
            {
                self.search.cursor = Some((kind, *rank, harm.clone()));
            }
            found
        };
        match found {
            Found::Plan(plan, ..) if self.ask_shim => {
                self.ask_about_victims(alloc, plan, cx);
                self.note_visits(alloc, visits);
                Tried::Asked
            }
            Found::Plan(plan, ..) => {
                let victims = plan.victims.into_iter().chain(plan.further).collect();
                if self.decide(alloc, &scope, plan.node, victims, cx) { Tried::Done } else { Tried::Failed { visits } }
            }
            Found::Coming => Tried::Failed { visits },
            Found::Nothing(some) => {
                if some {
                    self.log(alloc, "Preemption helped but short of resources", cx.now);
                }
                self.forget_refused_victims(alloc);
                self.note_crowded_out(alloc, &scope.need, &mut visits);
                Tried::Failed { visits }
            }
        }
    }

    pub(super) fn ask_about_victims(&mut self, alloc: AllocIx, plan: Plan, cx: &mut Cx) {
        let keys = plan.victims.iter().chain(&plan.rest).map(|v| self.allocs[*v].spec.key.clone()).collect();
        let kind = if plan.victims.is_empty() {
            QuestionKind::Fits { allocate: true }
        } else {
            let start = i32::try_from(plan.victims.len()).map_or(i32::MAX, |len| len - 1);
            QuestionKind::FitsWithout { victims: keys, start }
        };
        let all: Vec<(AllocIx, u64)> =
            plan.victims.iter().chain(&plan.rest).map(|victim| (*victim, self.allocs[*victim].seq)).collect();
        let intent = Intent::Preempt { victims: all, needed: plan.victims.len() };
        self.ask(alloc, (plan.node, Vec::new()), intent, kind, cx);
    }

    /// The shim agreed to a plan, with the victims up to `index` gone; the ask is pending again.
    pub(in super::super) fn victims_agreed(
        &mut self,
        alloc: AllocIx,
        node: NodeIx,
        (victims, needed): (Vec<(AllocIx, u64)>, usize),
        index: i32,
        cx: &mut Cx,
    ) {
        // A negative one names nobody: as one beyond the list.
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if needed > 0 && index >= victims.len() {
            // R7.21: such an answer is thrown away.
            self.log(alloc, "Preemption does not help", cx.now);
            return;
        }
        let count = if needed == 0 { 0 } else { needed.max(index + 1) };
        let same = victims[..count].iter().all(|(victim, seq)| self.allocs[*victim].seq == *seq);
        let victims: Vec<AllocIx> = victims[..count].iter().map(|(victim, _)| *victim).collect();
        if self.allocs[alloc].spec.required_node.is_some() {
            return self.required_agreed(alloc, &victims, same, cx);
        }
        let scope = self.scope(alloc);
        let reserved_by_other = !self.nodes[node].reservations.is_empty()
            && self.allocs[alloc].reserved != Some(node)
            && self.stale_reservations(alloc).all(|stale| stale != node);
        let fine = same
            && !reserved_by_other
            && !self.has_claim(alloc)
            // R7.1: it may have been switched off meanwhile.
            && self.conf.preemption
            && !self.may_not_begin(self.allocs[alloc].app)
            && !scope.is_hopeless()
            && self.may_go(&scope, &victims)
            && self.covers(&scope, node, &victims)
            && self.user_fits_beside(self.allocs[alloc].app, scope.whole())
            && !(victims.is_empty() && scope.short.is_empty())
            && self.decide(alloc, &scope, node, victims, cx);
        if !fine {
            self.try_next_node(alloc, cx.now);
            self.look_again(alloc);
            self.log(alloc, "Victims picked earlier were released at the final stage", cx.now);
        }
    }

    /// The ask fits the node when these and those that are on their way out are gone.
    fn covers(&self, scope: &Scope, node: NodeIx, victims: &[AllocIx]) -> bool {
        let mut room = self.room_to_come(node);
        for victim in victims {
            room.add(&self.allocs[*victim].resource);
        }
        gap(&scope.need, &room).is_empty()
    }

    /// Completes the victims by those that the queues need, and carries the decision out; false: there are not enough.
    fn decide(&mut self, alloc: AllocIx, scope: &Scope, node: NodeIx, mut victims: Vec<AllocIx>, cx: &mut Cx) -> bool {
        if !self.still_short(scope, &victims).is_empty() {
            let pool = self.pool_of(self.kind_of(alloc), scope);
            let Some(further) = self.further_victims(scope, &victims, &pool) else {
                self.log(alloc, "Preemption helped but short of resources", cx.now);
                return false;
            };
            victims.extend(further);
        }
        let other = self.nodes[node].reservations.iter().find(|other| *other != alloc);
        if let Some(other) = other {
            self.let_go(other, cx);
        }
        let key = self.allocs[alloc].spec.key.clone();
        let text: Arc<str> = format!("preempting allocations to free up resources to run ask: {key}").into();
        self.release_victims(alloc, &victims, &text, cx);
        self.end_claim(alloc);
        self.reserve(alloc, node, cx);
        self.begin_claim(alloc, &victims, scope.gang.as_ref());
        self.squeezed(cx.now);
        true
    }

    fn kind_of(&self, alloc: AllocIx) -> Kind {
        let row = &self.allocs[alloc];
        (self.apps[row.app].queue, row.shape, row.spec.priority)
    }

    /// All possible victims of searches of a kind, in order; put together once in a cycle. Those at its front that went since
    /// are not walked past again and again.
    fn pool_of(&mut self, kind: Kind, scope: &Scope) -> Arc<Vec<AllocIx>> {
        if scope.gang.is_some() {
            // A single ask of the kind may look elsewhere.
            return Arc::new(self.pool(scope));
        }
        let known = self.search.pool.take().filter(|(of, _)| *of == kind).map(|(_, pool)| pool);
        let pool = match known {
            None => Arc::new(self.pool(scope)),
            Some(pool) => {
                let gone = pool.iter().take_while(|alloc| !self.is_victim(scope, **alloc)).count();
                if gone > 256 { Arc::new(pool[gone..].to_vec()) } else { pool }
            }
        };
        self.search.pool = Some((kind, pool.clone()));
        pool
    }

    /// Marks victims of an ask, with an event each, and tells the shim to release them (EVT-017, R4.29).
    pub(super) fn release_victims(&mut self, alloc: AllocIx, victims: &[AllocIx], text: &Arc<str>, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let (key, app) = (row.spec.key.clone(), row.app);
        let why = format!("Preempted by {key} from application {} in {}", self.apps[app].id, self.queue_path(alloc));
        for victim in victims {
            self.mark_victim(*victim, &why, cx);
        }
        for victim in victims {
            if !crate::planted!("victim-untold") {
                self.send_preempted(*victim, text, cx);
            }
        }
    }

    /// Flags a victim: its size counts as preempting, and nothing replaces it any more.
    pub(super) fn mark_victim(&mut self, victim: AllocIx, why: &str, cx: &mut Cx) {
        debug_assert_eq!(self.allocs[victim].phase, Phase::Allocated);
        self.allocs[victim].preempted = true;
        self.add_preempting(victim);
        let row = &self.allocs[victim];
        if row.is_placeholder() {
            let (app, group) = (row.app, row.spec.task_group.clone());
            self.not_replaceable(app, &group, victim);
        }
        self.message_of(victim, why, cx);
    }

    pub(super) fn send_preempted(&mut self, victim: AllocIx, text: &Arc<str>, cx: &mut Cx) {
        let row = &self.allocs[victim];
        let release = Released {
            key: row.spec.key.clone(),
            app: self.apps[row.app].id.clone(),
            termination: Termination::Preempted,
            message: text.clone(),
            confirm: true,
        };
        self.send_release(release, cx);
    }
}
