//! Choosing what replaces which placeholder (R6.6–R6.12).

use std::ops::Bound;

use super::{Books, Cx, Partition, predicates::Intent, schedule::Outcome, turns::Place};
use crate::{
    alloc::{Alloc, Phase},
    app::AskOrder,
    effect::{QuestionKind, Released},
    event::{Change, Detail, EventKind},
    resources::Resource,
    types::{AllocIx, AppIx, AppState, Nanos, NodeIx, Termination},
};

impl Partition {
    /// Begins one replacement, or asks the shim about one; applications without one left to begin are put aside. Those on the nodes
    /// of placeholders come first, as among the asks of one application (R6.10): they take no room from the others.
    pub(super) fn try_swaps(&mut self, cx: &mut Cx) -> Outcome {
        while let Some(app) = self.swappable.get_min().copied() {
            let outcome = self.try_swap_of(app, cx);
            if outcome != Outcome::Nothing {
                return outcome;
            }
            self.swappable.remove(&app);
            if self.is_cut(1, cx) {
                return Outcome::Cut;
            }
        }
        while let Some(real) = self.elsewhere.first(self.root) {
            if self.waits_for_turn(real) {
                return Outcome::Waits;
            }
            self.not_elsewhere(real);
            let outcome = self.try_swap_elsewhere(real, cx);
            if outcome != Outcome::Nothing {
                return outcome;
            }
            if self.is_cut(1, cx) {
                return Outcome::Cut;
            }
        }
        Outcome::Nothing
    }

    fn may_swap(&self, app: AppIx) -> bool {
        let row = &self.apps[app];
        !row.is_free()
            && !row.gang.replaceable.is_empty()
            && !self.is_ending(app)
            // CFG-102
            && self.queues[row.queue].leaf
            && (row.state != AppState::Accepted || !row.awaits_placeholders())
    }

    /// An ask that may take the place of a placeholder that is there, or about which another one is being asked.
    pub(super) fn may_be_swapped(&self, alloc: AllocIx) -> bool {
        let row = &self.allocs[alloc];
        let app = &self.apps[row.app];
        row.is_pending()
            && row.paused_until().is_none()
            && !row.is_placeholder()
            && !row.spec.task_group.is_empty()
            && (app.asking > 0 || app.gang.replaceable.contains_key(&row.spec.task_group))
    }

    /// A placeholder on this node may leave its place to this ask, and the shim has not refused that.
    pub(super) fn may_be_swapped_there(&self, alloc: AllocIx, node: NodeIx) -> bool {
        let row = &self.allocs[alloc];
        let Some(all) = self.apps[row.app].gang.replaceable.get(&row.spec.task_group) else { return false };
        let open = |ph: &AllocIx| all.contains(ph) && self.has_a_place_for(*ph, &row.resource);
        !row.is_placeholder()
            && self.may_swap(row.app)
            && !(self.ask_shim && self.is_refused(alloc, node))
            && self.nodes[node].allocs.iter().any(open)
    }

    /// The place of this placeholder is large enough for a real ask, and nobody was told to leave it.
    fn has_a_place_for(&self, placeholder: AllocIx, resource: &Resource) -> bool {
        let ph = &self.allocs[placeholder];
        ph.node.is_some() && !ph.is_going() && ph.resource.fits(resource)
    }

    fn try_swap_of(&mut self, app: AppIx, cx: &mut Cx) -> Outcome {
        if !self.may_swap(app) {
            return Outcome::Nothing;
        }
        let mut tried = self.apps[app].gang.replaced_up_to;
        loop {
            let (passed, next) = self.next_replacing(app, tried);
            tried = passed.or(tried);
            if self.apps[app].asking == 0 && self.apps[app].gang.replaced_up_to != tried {
                self.apps[app].gang.replaced_up_to = tried;
            }
            // Where it is noted up to which they were tried.
            if self.is_cut(0, cx) && self.apps[app].asking == 0 {
                return Outcome::Cut;
            }
            let Some((order, real)) = next else { return Outcome::Nothing };
            if self.waits_for_turn(real) {
                return Outcome::Waits;
            }
            let outcome = self.try_swap(app, real, cx);
            if outcome != Outcome::Nothing {
                return outcome;
            }
            // A placeholder that another one is asked about with may be free for it again: that is noted where nothing is asked.
            tried = Some(order);
            cx.tried(1);
        }
    }

    /// Placeholders may be there for real asks that found none before.
    pub(super) fn look_for_swaps(&mut self, app: AppIx) {
        self.apps[app].gang.written(|gang| gang.replaced_up_to = None);
        self.swappable.insert(app);
    }

    /// The next real ask of a task group with placeholders, in ask order, that has not been tried in vain: the first of its
    /// group, blocked or not. Before it the last of those that were passed over, as their groups have none.
    fn next_replacing(&self, app: AppIx, tried: Option<AskOrder>) -> (Option<AskOrder>, Option<(AskOrder, AllocIx)>) {
        let row = &self.apps[app];
        let from = tried.map_or(Bound::Unbounded, Bound::Excluded);
        let mut passed = None;
        for (order, key) in row.gang.replacing.0.range((from, Bound::Unbounded)) {
            if row.gang.replaceable.contains_key(&key.task_group) {
                let first = row.groups_by_key.get(key).and_then(|group| group.asks.get_min());
                return (passed, first.map(|(_, real)| (*order, *real)));
            }
            passed = Some(*order);
        }
        (passed, None)
    }

    /// The placeholder of a group after this one; on a node, where the real ask requires it.
    fn next_replaceable(
        &self,
        (app, group): (AppIx, &str),
        node: Option<NodeIx>,
        after: Option<AllocIx>,
    ) -> Option<AllocIx> {
        let all = self.apps[app].gang.replaceable.get(group)?;
        if let Some(node) = node {
            let here = self.nodes[node].allocs.iter().copied();
            return here.filter(|ph| after.is_none_or(|after| *ph > after) && all.contains(ph)).min();
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        all.range((from, Bound::Unbounded)).next().copied()
    }

    fn try_swap(&mut self, app: AppIx, real: AllocIx, cx: &mut Cx) -> Outcome {
        let group = self.allocs[real].spec.task_group.clone();
        let (mut fits, mut last) = (false, None);
        let node = match &self.allocs[real].spec.required_node {
            None => None,
            Some(required) => match self.node_by_id.get(required) {
                Some(node) => Some(*node),
                None => return Outcome::Nothing,
            },
        };
        // The shim is asked about as many homes at once as a question may name.
        let width = self.width();
        let mut asked = None;
        let mut homes: Vec<NodeIx> = Vec::new();
        while homes.len() < width
            && let Some(placeholder) = self.next_replaceable((app, &group), node, last)
        {
            last = Some(placeholder);
            let resource = self.allocs[real].resource.clone();
            let ph = &self.allocs[placeholder];
            let Some(home) = ph.node.filter(|_| !ph.is_going()) else { continue };
            if !ph.resource.fits(&resource) && !crate::planted!("swap-too-large") {
                if asked.is_none() {
                    self.cancel_placeholder(placeholder, real, cx);
                }
                continue;
            }
            fits = true;
            if !self.ask_shim {
                self.begin_swap(placeholder, real, home, cx);
                return Outcome::Placed;
            }
            if !self.is_refused(real, home) && !homes.contains(&home) {
                asked = asked.or(Some(placeholder));
                homes.push(home);
            }
        }
        if let Some(placeholder) = asked {
            let more = homes.split_off(1);
            self.ask_about_swap(placeholder, real, (homes[0], more), false, cx);
            return Outcome::Progress;
        }
        // One that requires its node has no other.
        if fits && node.is_none() && !self.shapes.is_nowhere(self.allocs[real].shape) {
            self.may_swap_elsewhere(real);
        }
        Outcome::Nothing
    }

    /// R6.10: another node, for the first pair that matches by size.
    fn try_swap_elsewhere(&mut self, real: AllocIx, cx: &mut Cx) -> Outcome {
        let row = &self.allocs[real];
        let (app, shape, resource) = (row.app, row.shape, row.resource.clone());
        let open = |placeholder: &&AllocIx| self.has_a_place_for(**placeholder, &resource);
        let placeholders = self.apps[app].gang.replaceable.get(&row.spec.task_group).filter(|_| self.may_swap(app));
        let Some(placeholder) = placeholders.and_then(|all| all.iter().find(open)).copied() else {
            if self.apps[app].asking > 0 {
                // It may be free for it again.
                self.apps[app].gang.written(|gang| gang.replaced_up_to = None);
            }
            return Outcome::Nothing;
        };
        match self.find_node(real, &resource) {
            Some(node) => {
                let placement = self.past_limits(real, Some(node), Books::NODE);
                let more = self.further_nodes(&placement, node);
                self.ask_about_swap(placeholder, real, (node, more), true, cx);
                Outcome::Progress
            }
            None => {
                self.fits_nowhere(shape);
                Outcome::Nothing
            }
        }
    }

    /// Asks the shim about a replacement. No other real ask is asked about with the same placeholder meanwhile.
    fn ask_about_swap(
        &mut self,
        placeholder: AllocIx,
        real: AllocIx,
        nodes: (NodeIx, Vec<NodeIx>),
        allocate: bool,
        cx: &mut Cx,
    ) {
        let ph = &self.allocs[placeholder];
        let (app, group, seq) = (ph.app, ph.spec.task_group.clone(), ph.seq);
        self.not_replaceable(app, &group, placeholder);
        self.ask(real, nodes, Intent::Swap { placeholder, seq }, QuestionKind::Fits { allocate }, cx);
    }

    /// The shim answered, or the real ask waits for no answer: the placeholder may be replaced by any, if it is still there.
    pub(super) fn replaceable_again(&mut self, placeholder: AllocIx, seq: u64) {
        let ph = &self.allocs[placeholder];
        let waits = !ph.is_free() && ph.seq == seq && ph.phase == Phase::Allocated && !ph.is_going();
        if waits {
            let (app, group) = (ph.app, ph.spec.task_group.clone());
            self.apps[app].gang.replaceable.entry(group).or_default().insert(placeholder);
            // What was tried in vain before was tried with it.
            self.swappable.insert(app);
        }
    }

    /// A placeholder that no real ask may replace, for now or for ever.
    pub(super) fn not_replaceable(&mut self, app: AppIx, group: &str, placeholder: AllocIx) {
        let row = &mut self.apps[app];
        if let Some(set) = row.gang.replaceable.get_mut(group) {
            set.remove(&placeholder);
            if set.is_empty() {
                row.gang.replaceable.remove(group);
            }
        }
    }

    /// The real ask is larger: this placeholder is of no use to it (R6.8).
    fn cancel_placeholder(&mut self, placeholder: AllocIx, real: AllocIx, cx: &mut Cx) {
        let ph = &mut self.allocs[placeholder];
        ph.released = true;
        let (app, group, key, size) = (ph.app, ph.spec.task_group.clone(), ph.spec.key.clone(), ph.resource.clone());
        self.not_replaceable(app, &group, placeholder);
        let id = self.apps[app].id.clone();
        let wanted = self.allocs[real].resource.clone();
        // EVT-019
        let text = format!(
            "Task group '{group}' in application '{id}': allocation resources '{wanted}' are not matching placeholder '{size}' \
             allocation with ID '{key}'"
        );
        cx.message(EventKind::Request, &key, &id, (Change::None, Detail::None), &text, Some(wanted));
        let release = Released {
            key,
            app: id,
            termination: Termination::Timeout,
            message: "cancel placeholder: resource incompatible".into(),
            confirm: true,
        };
        self.send_release(release, cx);
    }

    /// A replacement that the shim agreed to begins, if a placeholder may still be replaced there: the first that was asked about,
    /// or another one whose home the node is. Their rows may be those of something else by now, so nothing is taken from them that
    /// is not in the application's own list.
    pub(super) fn swap_agreed(
        &mut self,
        placeholder: AllocIx,
        real: AllocIx,
        (asked, node): (NodeIx, NodeIx),
        cx: &mut Cx,
    ) {
        let row = &self.allocs[real];
        let list = self.apps[row.app].gang.replaceable.get(&row.spec.task_group);
        let fits = |ph: &Alloc| !ph.is_going() && ph.resource.fits(&row.resource);
        let may = |alloc: &AllocIx| list.is_some_and(|list| list.contains(alloc)) && fits(&self.allocs[*alloc]);
        let home = |alloc: &AllocIx| self.allocs[*alloc].node;
        let own = Some(placeholder).filter(may);
        let here = own.filter(|own| home(own) == Some(node));
        let here = here.or_else(|| self.nodes[node].allocs.iter().copied().filter(may).min());
        // R6.10: asked about beside the placeholder, which has another home.
        let target = &self.nodes[node];
        let open = target.sort_key.is_some() && target.available.fits(&row.resource);
        let chosen = here.or_else(|| own.filter(|own| open && home(own) != Some(asked)));
        self.enqueue(real);
        if let Some(placeholder) = chosen {
            self.begin_swap(placeholder, real, node, cx);
            let changes = self.questions.changes;
            if here.is_none() && self.is_constrained(&self.allocs[real].spec) {
                self.questions.agreed.insert(real, changes);
            }
        }
    }

    /// The node of a replacement does not take the real ask any more: another one does (SEEDS S25). False: there is none, or the shim
    /// wants to be asked first, which it is when the ask is looked at again.
    pub(super) fn swap_elsewhere(&mut self, placeholder: AllocIx, real: AllocIx, cx: &mut Cx) -> bool {
        let resource = self.allocs[real].resource.clone();
        let other = if self.ask_shim { None } else { self.find_node(real, &resource) };
        let Some(other) = other else { return false };
        let home = self.allocs[placeholder].node;
        if let Some(node) = self.allocs[real].node.filter(|node| home != Some(*node)) {
            self.refund(real, Some(node), Books::NODE, cx);
            self.node_event(real, node, Change::Remove, cx);
        }
        self.allocs[real].node = Some(other);
        if home != Some(other) {
            let placement = self.past_limits(real, Some(other), Books::NODE);
            self.charge(&placement, cx);
            self.node_event(real, other, Change::Add, cx);
        }
        true
    }

    /// Now that the placeholder is gone, the shim has to agree to the constrained real allocation once more. About the placeholder's
    /// own node it was asked only whether it might go there once there is room, which leaves out volumes and what else a pod takes up
    /// where it starts. Elsewhere its word holds until something comes or goes that it may depend on (R5.27): the shim knows nothing of
    /// the real allocation before it is announced, so the others may have been put where they cannot be together. What other
    /// partitions have to tell is not waited for: there it counts as old.
    pub(super) fn is_asked_again(&self, placeholder: AllocIx, real: AllocIx) -> bool {
        let (questions, row) = (&self.questions, &self.allocs[real]);
        self.ask_shim
            && self.is_constrained(&row.spec)
            && (row.node == self.allocs[placeholder].node
                || questions.turn != Place::Alone
                || questions.agreed.get(&real) != Some(&questions.changes))
    }

    /// A placeholder is gone for good, and the shim has to agree once more to the real ask that takes its place: the node, and the
    /// room in the queue, are kept for it, and it is asked about before anything else. `created`: when the placeholder was. False where it does not wait
    /// any more.
    pub(super) fn keep_place(&mut self, real: AllocIx, node: Option<NodeIx>, created: Nanos, cx: &mut Cx) -> bool {
        let row = &mut self.allocs[real];
        let Some(node) = node.filter(|_| !row.is_free() && row.phase == Phase::Pending) else { return false };
        row.placeholder_used = true;
        row.requested = created;
        let group = row.spec.task_group.clone();
        if let Some(group) = self.apps[row.app].gang.task_groups.get_mut(&group) {
            group.timed_out -= 1;
            group.replaced += 1;
        }
        self.reserve(real, node, cx);
        self.questions.kept.insert(real);
        true
    }

    /// The place that was kept for a real ask is not its own: the placeholder went for nothing (R6.15).
    pub(super) fn place_is_lost(&mut self, real: AllocIx) {
        let row = &mut self.allocs[real];
        row.placeholder_used = false;
        row.requested = row.created;
        let (app, group) = (row.app, row.spec.task_group.clone());
        if let Some(group) = self.apps[app].gang.task_groups.get_mut(&group) {
            group.replaced -= 1;
            group.timed_out += 1;
        }
    }
}
