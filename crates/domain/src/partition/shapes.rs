//! Shapes: what decides on which nodes an ask fits. A shape that fits nowhere is not tried again until a node has room for it.

use std::sync::Arc;

use super::Partition;
use crate::coded::{Coded, Error, Reader, Writer, list};
use crate::{
    cow::CowVec,
    resources::{Resource, ResourceType},
    types::{AllocIx, NodeIx, ShapeIx},
};

#[derive(Clone, Debug)]
struct Shape {
    resource: Arc<Resource>,
    /// The ask itself, where the shim answers for each ask.
    of: Option<AllocIx>,
    /// Fits on no node at the moment.
    nowhere: bool,
    /// Asks and allocations that refer to it.
    uses: u32,
}

/// All shapes in use.
#[derive(Clone, Default)]
pub(crate) struct Shapes {
    rows: CowVec<Shape, 64>,
    by_key: imbl::OrdMap<Key, ShapeIx>,
    /// Those that fit nowhere, by their first type and its amount: a node with less cannot help them.
    nowhere: imbl::OrdSet<(ResourceType, i128, ShapeIx)>,
    free: Vec<ShapeIx>,
}

type Key = (Vec<(ResourceType, i128)>, Option<AllocIx>);

fn lead(resource: &Resource) -> Option<(ResourceType, i128)> {
    resource.iter().find(|(_, amount)| *amount > 0).map(|(kind, amount)| (kind.clone(), amount))
}

fn key(resource: &Resource, of: Option<AllocIx>) -> Key {
    (resource.iter().map(|(kind, amount)| (kind.clone(), amount)).collect(), of)
}

impl Shapes {
    /// The shape of these resources, counted as one more use; with it the shared copy of the resources.
    pub fn intern(&mut self, resource: &Arc<Resource>, of: Option<AllocIx>) -> (ShapeIx, Arc<Resource>) {
        let key = key(resource, of);
        if let Some(ix) = self.by_key.get(&key) {
            let row = &mut self.rows[ix.ix()];
            row.uses += 1;
            return (*ix, row.resource.clone());
        }
        let row = Shape { resource: resource.clone(), of, nowhere: false, uses: 1 };
        let ix = match self.free.pop() {
            Some(ix) => {
                self.rows[ix.ix()] = row;
                ix
            }
            None => ShapeIx::from(self.rows.push(row)),
        };
        self.by_key.insert(key, ix);
        (ix, resource.clone())
    }

    /// One use less.
    pub fn release(&mut self, ix: ShapeIx) {
        let row = &mut self.rows[ix.ix()];
        row.uses -= 1;
        if row.uses == 0 {
            let key = key(&row.resource, row.of);
            self.clear(ix);
            self.by_key.remove(&key);
            self.free.push(ix);
        }
    }

    /// It fits on no node at the moment.
    pub fn is_nowhere(&self, ix: ShapeIx) -> bool {
        self.rows[ix.ix()].nowhere
    }

    /// Its resources.
    pub fn resource(&self, ix: ShapeIx) -> &Arc<Resource> {
        &self.rows[ix.ix()].resource
    }

    /// No node takes it.
    pub fn set_nowhere(&mut self, ix: ShapeIx) {
        let row = &mut self.rows[ix.ix()];
        row.nowhere = true;
        if let Some((kind, amount)) = lead(&row.resource) {
            self.nowhere.insert((kind, amount, ix));
        }
    }

    /// It is tried again.
    pub fn clear(&mut self, ix: ShapeIx) {
        let row = &mut self.rows[ix.ix()];
        if row.nowhere {
            row.nowhere = false;
            if let Some((kind, amount)) = lead(&row.resource) {
                self.nowhere.remove(&(kind, amount, ix));
            }
        }
    }
}

impl Partition {
    /// A node has more room, or takes allocations again: shapes that fit there now are tried again, but for asks that the shim
    /// refused there. What was refused is forgotten before, where it may no longer hold.
    pub(super) fn unblock_shapes(&mut self, node: NodeIx) {
        if crate::planted!("room-unnoticed") {
            return;
        }
        let row = &self.nodes[node];
        if !row.reservations.is_empty() {
            // Whoever reserved it looks again.
            self.ripe.extend(row.reservations.iter().copied());
        }
        let available = if row.reservations.is_empty() { row.available.value() } else { self.open_room(node) };
        self.unblock_shapes_within(node, &available);
    }

    /// So much of a node is open to asks that may not have been tried there.
    pub(super) fn unblock_shapes_within(&mut self, node: NodeIx, available: &Resource) {
        if self.nodes[node].sort_key.is_none() {
            return;
        }
        if self.gang_waits {
            self.unblock();
        }
        if self.shapes.nowhere.is_empty() {
            return;
        }
        let fitting: Vec<ShapeIx> = available
            .iter()
            .flat_map(|(kind, amount)| {
                let least = (kind.clone(), i128::MIN, ShapeIx(0));
                self.shapes.nowhere.range(least..=(kind.clone(), amount, ShapeIx(u32::MAX)))
            })
            .map(|(_, _, shape)| *shape)
            .filter(|shape| available.fits(self.shapes.resource(*shape)))
            .filter(|shape| !self.shapes.rows[shape.ix()].of.is_some_and(|ask| self.is_refused(ask, node)))
            .collect();
        if !fitting.is_empty() {
            for shape in fitting {
                self.shapes.clear(shape);
            }
            self.unblock();
        }
    }

    /// Constraints changed as a whole: every shape is tried again.
    pub(super) fn unblock_all_shapes(&mut self) {
        let all: Vec<ShapeIx> = self.shapes.nowhere.iter().map(|(_, _, shape)| *shape).collect();
        for shape in all {
            self.shapes.clear(shape);
        }
        self.unblock();
    }
}

list!(Shape { resource, of, nowhere, uses });

/// The rows and which of them are free; the rest follows from them.
impl Coded for Shapes {
    fn write(&self, to: &mut Writer) {
        let Shapes { rows, by_key: _, nowhere: _, free } = self;
        to.array(2);
        to.array(rows.len());
        for row in rows.iter() {
            // What a free row was is no matter.
            Some(row).filter(|row| row.uses > 0).cloned().write(to);
        }
        free.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let (rows, free): (Vec<Option<Shape>>, Vec<ShapeIx>) = Coded::read(from)?;
        let mut shapes = Shapes { free, ..Shapes::default() };
        for (at, row) in rows.into_iter().enumerate() {
            let row = row.unwrap_or_else(|| Shape { resource: Arc::default(), of: None, nowhere: false, uses: 0 });
            if row.uses > 0 {
                let ix = ShapeIx::from(at);
                shapes.by_key.insert(key(&row.resource, row.of), ix);
                if let Some((kind, amount)) = lead(&row.resource).filter(|_| row.nowhere) {
                    shapes.nowhere.insert((kind, amount, ix));
                }
            }
            shapes.rows.push(row);
        }
        Ok(shapes)
    }
}
