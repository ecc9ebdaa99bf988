//! Asks that name their node (section 5.G of the scheduling rules).

use std::sync::Arc;

use super::{Cx, Partition, schedule::Outcome};
use crate::{
    alloc::Phase,
    app::Hold,
    types::{AllocIx, AppIx},
};

impl Partition {
    /// Places an ask on its required node, or reserves that node for it (R5.40–R5.44).
    pub(super) fn try_required(&mut self, alloc: AllocIx, cx: &mut Cx) -> Result<Outcome, Hold> {
        let row = &self.allocs[alloc.ix()];
        let Some(node) = row.spec.required_node.as_ref().and_then(|id| self.node_by_id.get(id)).copied() else {
            return Err(Hold::RequiredNode);
        };
        let resource = row.resource.clone();
        // R5.44: what the node can never hold reserves nothing and holds nobody up.
        if !self.nodes[node.ix()].capacity.fits(&resource) {
            return Err(Hold::RequiredNode);
        }
        // R5.41: ordinary reservations on the node give way.
        for other in self.nodes[node.ix()].reservations.clone() {
            if self.allocs[other.ix()].spec.required_node.is_none() {
                self.unreserve(other, cx);
            }
        }
        let own = self.allocs[alloc.ix()].reserved == Some(node);
        let open = own || self.nodes[node.ix()].reservations.is_empty();
        let refused = self.ask_shim && self.is_refused(alloc, node);
        let fits = self.nodes[node.ix()].available.fits(&resource) && self.fits_beside_claims(alloc, node);
        if open && fits && !refused {
            return self.take(alloc, node, cx);
        }
        if !own {
            self.note_passed(alloc, cx);
            self.reserve(alloc, node, cx);
            // The others of its group may reserve as well.
            let next = self.next_unreserved(alloc);
            if let Some(next) = next {
                return self.try_required(next, cx);
            }
            return Ok(Outcome::Progress);
        }
        match self.next_unreserved(alloc) {
            Some(next) => self.try_required(next, cx),
            None => Err(Hold::RequiredNode),
        }
    }

    fn next_unreserved(&self, alloc: AllocIx) -> Option<AllocIx> {
        let key = self.group_key(alloc);
        let app = &self.apps[self.allocs[alloc.ix()].app.ix()];
        let group = app.groups_by_key.get(&key)?;
        group.asks.values().copied().find(|ask| {
            let row = &self.allocs[ask.ix()];
            row.reserved.is_none() && row.phase == Phase::Pending
        })
    }

    /// A node came or grew: applications with asks that require it look again.
    pub(super) fn rouse_required(&mut self, node: &Arc<str>) {
        if self.required_asks == 0 {
            return;
        }
        let apps: Vec<AppIx> = self
            .app_by_id
            .values()
            .copied()
            .filter(|app| self.apps[app.ix()].groups_by_key.keys().any(|key| key.required_node.as_ref() == Some(node)))
            .collect();
        for app in apps {
            self.rouse_groups(app);
        }
        self.reserved_epoch = 0;
    }
}
