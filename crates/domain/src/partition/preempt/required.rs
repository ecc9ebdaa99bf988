//! Room for an ask on the node that it requires, among what runs there (section 7.F of the scheduling rules).

use std::sync::Arc;

use super::{
    super::{Cx, Partition, books::Trial, schedule::Outcome},
    attempt::WEIGHT,
    gap,
    harm::Candidate,
    helps, is_preemptable,
    plan::Plan,
    wanted,
};
use crate::{
    resources::Resource,
    types::{AllocIx, Nanos, NodeIx},
};

/// Steps in which one choice may search for the least harm.
const STEPS: u32 = 5_000;
/// At most one event of a search in vain per ask in this time (EVT-016).
const EVENT_INTERVAL: Nanos = Nanos::from_secs(15);

impl Partition {
    /// Preempts for an ask that holds a reservation of its node, fits all limits, and does not fit the node (R7.33–R7.38).
    pub(in super::super) fn preempt_for_required(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) -> Outcome {
        let need = wanted(&self.allocs[alloc].resource);
        let spent = self.is_claim_spent(alloc);
        let waits = self.has_claim(alloc) && !spent;
        if waits || !self.nodes[node].capacity.fits(&need) {
            return Outcome::Nothing;
        }
        // R6.12: it waits for its turn to take the place of a placeholder there, and others would go for nothing.
        if self.may_be_swapped_there(alloc, node) {
            self.hold_back(alloc);
            return Outcome::Nothing;
        }
        // What is on its way out counts as room, what others here have preempted for as wanted.
        let missing = self.lacks_then(alloc);
        if missing.is_empty() {
            // Who had it coming may have lost it to this ask (R5.41): from now on it is promised to this one.
            let leaving: Vec<AllocIx> = self.leaving_at(node).collect();
            if !spent || !leaving.is_empty() {
                self.begin_claim(alloc, &leaving, None);
            }
            return Outcome::Nothing;
        }
        // Whoever came in the place of those who went would be the next; and the others may use the node meanwhile (R5.43).
        if let Some(at) = self.preempts_again(alloc, cx.now) {
            self.wake_at(self.allocs[alloc].app, at);
            self.let_go(alloc, cx);
            return Outcome::Nothing;
        }
        // R7.38: again only when its victims are gone and something else took the room.
        if spent {
            self.end_claim(alloc);
        }
        let missing = self.lacks_in_all(alloc, missing);
        let Some(victims) = self.victims_there(alloc, node, missing) else {
            self.no_victim_there(alloc, node, cx);
            cx.tried(WEIGHT);
            return Outcome::Nothing;
        };
        if !self.ask_shim {
            self.preempt_there(alloc, &victims, cx);
            return Outcome::Preempted(1);
        }
        // Where it does not fit with all of them gone they would go in vain.
        if !self.may_ask_about_victims(self.apps[self.allocs[alloc].app].queue) {
            self.hold_back(alloc);
            return Outcome::Nothing;
        }
        self.ask_about_victims(alloc, Plan { node, victims, further: Vec::new(), rest: Vec::new() }, cx);
        Outcome::Progress
    }

    /// Those who would go for an ask on its node: what is free counts, and the least harm is done (R7.34–R7.36).
    fn victims_there(&mut self, alloc: AllocIx, node: NodeIx, missing: Resource) -> Option<Vec<AllocIx>> {
        let need = wanted(&self.allocs[alloc].resource);
        let (priority, at_node) = (self.allocs[alloc].spec.priority, &self.nodes[node]);
        let candidates: Vec<Candidate> = at_node
            .allocs
            .iter()
            .copied()
            .filter(|alloc| {
                let row = &self.allocs[*alloc];
                is_preemptable(row) && row.spec.priority <= priority && helps(&need, &row.resource)
            })
            .map(|alloc| Candidate { alloc, here: true })
            .collect();
        let chosen = Trial::of(self).least_harm_on_node(missing, &candidates, true, &mut { STEPS });
        chosen.map(|(_, victims)| victims)
    }

    /// What an ask lacks on its node; where the cluster is full as well, those who go have to make room in both.
    fn lacks_in_all(&self, alloc: AllocIx, missing: Resource) -> Resource {
        missing.max(&gap(&wanted(&self.allocs[alloc].resource), &self.cluster_room_to_come()))
    }

    fn preempt_there(&mut self, alloc: AllocIx, victims: &[AllocIx], cx: &mut Cx) {
        let key = self.allocs[alloc].spec.key.clone();
        let text: Arc<str> = format!("preempting allocations to free up resources to run daemon set ask: {key}").into();
        self.release_victims(alloc, victims, &text, cx);
        self.begin_claim(alloc, victims, None);
        self.squeezed(cx.now);
    }

    /// The shim agreed that an ask fits on the node that it requires with these gone, of which all are the `same` as then.
    pub(super) fn required_agreed(&mut self, alloc: AllocIx, victims: &[AllocIx], same: bool, cx: &mut Cx) {
        let Some(node) = self.allocs[alloc].reserved else { return };
        if !same || !self.takes_all_of(alloc, node, victims) {
            return self.ripen([alloc]);
        }
        // Those who go explain why it is placed then, and not why the shim agrees to that.
        let unexpected = self.is_unexpected(alloc, node);
        self.preempt_there(alloc, victims, cx);
        if unexpected {
            self.doubt_refusals();
        }
    }

    /// With these gone there is room for an ask, and with fewer there is none. Its queues and its user may have become full since
    /// they were chosen, and then they would go in vain.
    fn takes_all_of(&mut self, alloc: AllocIx, node: NodeIx, victims: &[AllocIx]) -> bool {
        let missing = self.lacks_then(alloc);
        if missing.is_empty()
            || self.has_claim(alloc)
            || self.is_held_in_vain(alloc)
            || self.may_not_begin(self.allocs[alloc].app)
            || !victims.iter().all(|victim| is_preemptable(&self.allocs[*victim]))
        {
            return false;
        }
        let mut freed = Resource::new();
        victims.iter().for_each(|victim| freed.add(&self.allocs[*victim].resource));
        let missing = self.lacks_in_all(alloc, missing);
        gap(&missing, &freed).is_empty()
            && self.victims_there(alloc, node, missing).is_some_and(|now| now.len() >= victims.len())
    }

    /// R7.37: said in the log each time, in an event from time to time, and tried again then.
    fn no_victim_there(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) {
        self.log(alloc, "No fit on required node, preemption does not help", cx.now);
        let row = &mut self.allocs[alloc];
        let app = row.app;
        if cx.now.minus(row.required_node_event) >= EVENT_INTERVAL {
            row.required_node_event = cx.now;
            let (key, id) = (row.spec.key.clone(), &self.nodes[node].spec.id);
            let text = format!("Unschedulable request '{key}' with required node '{id}', no preemption victim found");
            self.message_of(alloc, &text, cx);
        }
        let next = self.allocs[alloc].required_node_event.plus(EVENT_INTERVAL);
        self.wake_at(app, next);
    }
}
