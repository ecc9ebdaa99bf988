//! Choosing what replaces which placeholder (R6.6–R6.12).

use std::ops::Bound;

use super::{Cx, Partition, predicates::Intent, schedule::Outcome};
use crate::{
    effect::Released,
    event::{Change, Detail, EventKind},
    types::{AllocIx, AppIx, AppState, NodeIx, Termination},
};

impl Partition {
    /// Begins one replacement; applications without one left to begin are put aside.
    pub(super) fn try_swaps(&mut self, cx: &mut Cx) -> Outcome {
        while let Some(app) = self.swappable.get_min().copied() {
            let outcome = self.try_swap_of(app, cx);
            if outcome != Outcome::Nothing {
                return outcome;
            }
            self.swappable.remove(&app);
        }
        Outcome::Nothing
    }

    fn try_swap_of(&mut self, app: AppIx, cx: &mut Cx) -> Outcome {
        let row = &self.apps[app.ix()];
        if row.free
            || row.replaceable.is_empty()
            || self.is_ending(app)
            || (row.state == AppState::Accepted && row.awaits_placeholders())
        {
            return Outcome::Nothing;
        }
        // Real asks of task groups with placeholders, in ask order; parked groups are looked at too.
        let mut asks: Vec<_> = row
            .groups_by_key
            .iter()
            .filter(|(key, _)| !key.placeholder && row.replaceable.contains_key(&key.task_group))
            .filter_map(|(_, group)| group.asks.get_min().map(|(order, alloc)| (*order, *alloc)))
            .collect();
        asks.sort_unstable_by_key(|(order, _)| *order);
        for (_, real) in asks {
            let outcome = self.try_swap(app, real, cx);
            if outcome != Outcome::Nothing {
                return outcome;
            }
        }
        Outcome::Nothing
    }

    /// The placeholder of a group after this one.
    fn next_replaceable(&self, app: AppIx, group: &str, after: Option<AllocIx>) -> Option<AllocIx> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.apps[app.ix()].replaceable.get(group)?.range((from, Bound::Unbounded)).next().copied()
    }

    fn try_swap(&mut self, app: AppIx, real: AllocIx, cx: &mut Cx) -> Outcome {
        let group = self.allocs[real.ix()].spec.task_group.clone();
        let mut first = None;
        let mut last = None;
        while let Some(placeholder) = self.next_replaceable(app, &group, last) {
            last = Some(placeholder);
            let resource = self.allocs[real.ix()].resource.clone();
            let ph = &self.allocs[placeholder.ix()];
            let Some(home) = ph.node.filter(|_| !ph.released && !ph.preempted) else { continue };
            let required = &self.allocs[real.ix()].spec.required_node;
            if required.as_ref().is_some_and(|required| *required != self.nodes[home.ix()].spec.id) {
                continue;
            }
            if !ph.resource.fits(&resource) {
                self.cancel_placeholder(placeholder, real, cx);
                continue;
            }
            first = first.or(Some(placeholder));
            if !self.ask_shim {
                self.begin_swap(placeholder, real, home, cx);
                return Outcome::Placed;
            }
            if !self.is_refused(real, home) {
                self.ask(real, home, Intent::Swap { placeholder }, false, cx);
                return Outcome::Progress;
            }
        }
        // R6.10: another node, for the first pair that matched by size.
        let Some(placeholder) = first else { return Outcome::Nothing };
        let resource = self.allocs[real.ix()].resource.clone();
        match self.find_node(real, &resource) {
            Some(node) => {
                self.ask(real, node, Intent::Swap { placeholder }, true, cx);
                Outcome::Progress
            }
            None => Outcome::Nothing,
        }
    }

    /// The real ask is larger: this placeholder is of no use to it (R6.8).
    fn cancel_placeholder(&mut self, placeholder: AllocIx, real: AllocIx, cx: &mut Cx) {
        let ph = &mut self.allocs[placeholder.ix()];
        ph.released = true;
        let (app, group, key, size) = (ph.app, ph.spec.task_group.clone(), ph.spec.key.clone(), ph.resource.clone());
        if let Some(set) = self.apps[app.ix()].replaceable.get_mut(&group) {
            set.remove(&placeholder);
            if set.is_empty() {
                self.apps[app.ix()].replaceable.remove(&group);
            }
        }
        let id = self.apps[app.ix()].id.clone();
        let wanted = self.allocs[real.ix()].resource.clone();
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

    /// A replacement that the shim agreed to begins, if the placeholder may still be replaced. Its row may be that of something
    /// else by now, so nothing is taken from it that is not in the application's own list.
    pub(super) fn swap_agreed(&mut self, placeholder: AllocIx, real: AllocIx, node: NodeIx, cx: &mut Cx) {
        let (ph, row) = (&self.allocs[placeholder.ix()], &self.allocs[real.ix()]);
        let replaceable = self.apps[row.app.ix()].replaceable.get(&row.spec.task_group);
        let fine = replaceable.is_some_and(|set| set.contains(&placeholder))
            && ph.resource.fits(&row.resource)
            && (ph.node == Some(node) || self.nodes[node.ix()].available.fits(&row.resource));
        self.enqueue(real);
        if fine {
            self.begin_swap(placeholder, real, node, cx);
        }
    }
}
