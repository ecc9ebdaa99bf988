//! Allocations of other schedulers (R2.15–R2.20): they occupy a node and touch neither queues nor users.

use std::sync::Arc;

use super::{Cx, Partition};
use crate::{
    command::AllocationItem,
    event::{Change, Detail, EventKind},
    node::ForeignAlloc,
    types::NodeIx,
};

impl Partition {
    /// Adds or updates a foreign allocation; the error is the text of the rejection (R2.16).
    pub(super) fn add_foreign(&mut self, item: &AllocationItem, cx: &mut Cx) -> Result<(), Arc<str>> {
        let key = &item.spec.key;
        let Some(node_id) = &item.node else {
            return Err(format!("trying to add a foreign request (non-allocation) {key}").into());
        };
        let Some(node) = self.node_by_id.get(node_id).copied() else {
            return Err(format!("failed to find node {node_id} for allocation {key}").into());
        };
        if item.spec.resource.has_negative() {
            // R4.7: it would make the node larger than it is.
            return Err("allocation contains negative resources".into());
        }
        let known = self.foreign.get(key).copied();
        if let Some(old) = known.filter(|old| *old != node) {
            // R2.20: it moved.
            self.drop_foreign(old, key, cx);
        }
        let mut same = false;
        let created = match self.nodes[node].foreign.get(key) {
            Some(present) => {
                same = present.resource == item.spec.resource && present.spec.tags == item.spec.tags;
                present.created
            }
            None => {
                let node_id = node_id.clone();
                cx.event_of(EventKind::Node, &node_id, key, Change::Add, Detail::NodeAlloc, &item.spec.resource);
                item.spec.created.unwrap_or(cx.now)
            }
        };
        let row = &mut self.nodes[node];
        let new = ForeignAlloc { spec: item.spec.clone(), resource: item.spec.resource.clone(), created };
        if let Some(old) = row.foreign.insert(key.clone(), new) {
            row.occupied.sub(&old.resource);
        }
        row.occupied.add(&item.spec.resource);
        row.occupied.prune();
        self.foreign.insert(key.clone(), node);
        if !same {
            self.note_change(&item.spec, node);
        }
        self.occupied_changed(node, cx);
        Ok(())
    }

    /// Releases a foreign allocation; an unknown key is ignored (R2.18).
    pub(super) fn release_foreign(&mut self, key: &Arc<str>, cx: &mut Cx) {
        if let Some(node) = self.foreign.get(key).copied() {
            self.drop_foreign(node, key, cx);
        }
    }

    fn drop_foreign(&mut self, node: NodeIx, key: &Arc<str>, cx: &mut Cx) {
        self.foreign.remove(key);
        let row = &mut self.nodes[node];
        let Some(old) = row.foreign.remove(key) else { return };
        // Readers see a type of which there is none any more as 0, as in the recorded answers.
        row.occupied.sub(&old.resource);
        self.note_change(&old.spec, node);
        let row = &self.nodes[node];
        let id = row.spec.id.clone();
        cx.event_of(EventKind::Node, &id, key, Change::Remove, Detail::NodeAlloc, &old.resource);
        self.occupied_changed(node, cx);
    }

    /// What is free follows, and the event that says what is occupied now (EVT-038).
    fn occupied_changed(&mut self, node: NodeIx, cx: &mut Cx) {
        if !self.room_follows(node) {
            return;
        }
        let row = &self.nodes[node];
        let (id, occupied) = (row.spec.id.clone(), Arc::new(row.occupied.pruned()));
        cx.message(EventKind::Node, &id, &"".into(), (Change::Set, Detail::NodeOccupied), "", Some(occupied));
        self.reindex(node);
        self.unblock_shapes(node);
    }
}
