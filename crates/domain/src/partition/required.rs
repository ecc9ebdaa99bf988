//! Asks that name their node (section 5.G of the scheduling rules).

use std::sync::Arc;

use super::{Cx, Partition, Unfit, Why, schedule::Outcome};
use crate::{
    app::Hold,
    types::{AllocIx, AppIx, NodeIx},
};

/// So many asks of a group reserve the node that they require; more would not close it better, and each looks again when the node
/// has news.
pub(super) const RESERVED_OF_GROUP: usize = 64;

impl Partition {
    /// Places an ask on its required node, or reserves that node for it and for the next of its group (R5.40–R5.44).
    pub(super) fn try_required(&mut self, alloc: AllocIx, cx: &mut Cx) -> Result<Outcome, Hold> {
        let row = &self.allocs[alloc];
        let Some(node) = row.spec.required_node.as_ref().and_then(|id| self.node_by_id.get(id)).copied() else {
            return Err(Hold::RequiredNode);
        };
        let resource = row.resource.clone();
        // R5.44: oversized asks neither reserve nor block.
        if !self.nodes[node].capacity.fits(&resource) {
            return Err(Hold::RequiredNode);
        }
        let mut reserved = false;
        let group = self.apps[self.allocs[alloc].app].groups_by_key.get(&self.group_key(alloc));
        let others = group.into_iter().flat_map(|group| group.asks.values().copied());
        let others = others.filter(|ask| !(self.ask_shim && self.is_refused(*ask, node))).take(RESERVED_OF_GROUP);
        let others: Vec<AllocIx> = others.filter(|ask| *ask != alloc && self.allocs[*ask].reserved.is_none()).collect();
        for alloc in std::iter::once(alloc).chain(others) {
            let refused = self.ask_shim && self.is_refused(alloc, node);
            let fits = self.nodes[node].available.fits(&resource) && self.fits_beside_claims(alloc, node);
            // R5.43: a node that the shim refuses is kept for nobody, and one without room for none that may not preempt there yet.
            let again = if fits { None } else { self.preempts_again(alloc, cx.now) };
            if !refused && again.is_none() {
                // R5.41. Who lost it for nothing would reserve it again, and lose it again, as fast as the shim answers.
                self.end_ordinary_reservations(node, cx);
            }
            let own = self.allocs[alloc].reserved == Some(node);
            let open = own || self.nodes[node].reservations.is_empty();
            if open && fits && !refused {
                return self.take(alloc, node, cx);
            }
            if let Some(at) = again {
                self.wake_at(self.allocs[alloc].app, at);
            } else if !own && !refused {
                self.note_passed(alloc, cx);
                self.reserve(alloc, node, cx);
                reserved = true;
            }
        }
        if reserved { Ok(Outcome::Progress) } else { Err(Hold::RequiredNode) }
    }

    fn end_ordinary_reservations(&mut self, node: NodeIx, cx: &mut Cx) {
        if !self.nodes[node].reservations.has_ordinary() {
            return;
        }
        for other in self.nodes[node].reservations.clone().iter() {
            if self.allocs[other].spec.required_node.is_none() {
                self.let_go(other, cx);
            }
        }
    }

    /// An ask that requires its node holds it no more: the next of its group that has not reserved it may.
    pub(super) fn next_may_reserve(&mut self, alloc: AllocIx) {
        let (app, key) = (self.allocs[alloc].app, self.group_key(alloc));
        let group = self.apps[app].groups_by_key.get_key_value(&key);
        if let Some((key, _)) = group.filter(|(_, group)| group.asks.len() > RESERVED_OF_GROUP) {
            let key = key.clone();
            self.unblock_group(app, &key);
            self.rouse(app);
        }
    }

    /// A node came or grew: applications with asks that require it look again.
    pub(super) fn rouse_required(&mut self, node: &Arc<str>) {
        if self.required_asks.is_empty() {
            return;
        }
        for app in self.requiring(node).collect::<Vec<_>>() {
            self.rouse_groups(app);
        }
        self.reserved_epoch = 0;
    }

    /// Applications with asks that wait and require this node.
    pub(super) fn requiring<'a>(&'a self, node: &'a Arc<str>) -> impl Iterator<Item = AppIx> + 'a {
        let none = (node.clone(), AppIx(0));
        let waiting = self.required_asks.range(none..).take_while(move |((of, _), _)| of == node);
        waiting.map(|((_, app), _)| *app)
    }

    /// An ask that waits requires this node.
    pub(super) fn is_required(&self, node: NodeIx) -> bool {
        self.requiring(&self.nodes[node].spec.id).next().is_some()
    }

    /// What is the matter with the node that an ask requires.
    pub(super) fn required(&self, ask: AllocIx, id: &Arc<str>) -> Why {
        let resource = &self.allocs[ask].resource;
        let Some(at) = self.node_by_id.get(id).copied() else {
            return Why::RequiredNode { node: id.clone(), why: Unfit::Unknown, free: None, said: None };
        };
        let node = &self.nodes[at];
        let said = self.refused(ask, at).cloned();
        let why = if !node.capacity.fits(resource) {
            Unfit::TooSmall
        } else if said.is_some() {
            // Room there would not help it.
            Unfit::Refused
        } else if !node.available.fits(resource) {
            Unfit::Full
        } else if !self.fits_beside_claims(ask, at)
            // R5.42: one that has reserved it itself is not kept off by the others.
            || self.allocs[ask].reserved != Some(at) && !node.reservations.is_empty()
        {
            Unfit::Reserved
        } else {
            return Why::Turn;
        };
        Why::RequiredNode { node: id.clone(), why, free: Some(node.available.value()), said }
    }
}
