//! Shapes: what decides on which nodes an ask fits. A shape that fits nowhere is not tried again until a node has room for it.

use std::{cmp::Ordering, sync::Arc};

use super::Partition;
use crate::{
    coded::{Coded, Error, Reader, Writer},
    resources::{Resource, ResourceType},
    table::{Free, Table},
    types::{AllocIx, NodeIx, ShapeIx},
};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) free: Free,
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
    rows: Table<ShapeIx, Shape, 64>,
    /// Those that several asks may have.
    by_resource: imbl::OrdMap<Size, ShapeIx>,
    /// Those that fit nowhere, by their first type and its amount: a node with less cannot help them.
    nowhere: imbl::OrdSet<(ResourceType, i128, ShapeIx)>,
}

fn lead(resource: &Resource) -> Option<(ResourceType, i128)> {
    resource.iter().find(|(_, amount)| *amount > 0).map(|(kind, amount)| (kind.clone(), amount))
}

/// Resources as a key: in an order, and other ones with a type of which there is nothing than without it.
#[derive(Clone)]
pub(super) struct Size(pub(super) Arc<Resource>);

impl Ord for Size {
    fn cmp(&self, other: &Size) -> Ordering {
        self.0.iter().cmp(other.0.iter())
    }
}

impl PartialOrd for Size {
    fn partial_cmp(&self, other: &Size) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Size {
    fn eq(&self, other: &Size) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Size {}

impl Shapes {
    /// The shape of these resources, counted as one more use; with it the shared copy of the resources.
    pub fn intern(&mut self, resource: &Arc<Resource>, of: Option<AllocIx>) -> (ShapeIx, Arc<Resource>) {
        let shape = || Shape { resource: resource.clone(), of, uses: 1, ..Shape::default() };
        if of.is_some() {
            return (self.rows.add(shape()), resource.clone());
        }
        let key = Size(resource.clone());
        if let Some(ix) = self.by_resource.get(&key) {
            let row = &mut self.rows[*ix];
            row.uses += 1;
            return (*ix, row.resource.clone());
        }
        let ix = self.rows.add(shape());
        self.by_resource.insert(key, ix);
        (ix, resource.clone())
    }

    /// One use less.
    pub fn release(&mut self, ix: ShapeIx) {
        let row = &mut self.rows[ix];
        row.uses -= 1;
        if row.uses == 0 {
            let key = row.of.is_none().then(|| Size(row.resource.clone()));
            self.clear(ix);
            if let Some(key) = key {
                self.by_resource.remove(&key);
            }
            self.rows.free(ix).resource = Arc::default();
        }
    }

    /// Their number, with those that are free.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// It fits on no node at the moment.
    pub fn is_nowhere(&self, ix: ShapeIx) -> bool {
        self.rows[ix].nowhere
    }

    /// The resources of one that is in use.
    pub fn get(&self, ix: ShapeIx) -> Option<&Arc<Resource>> {
        self.rows.get(ix).map(|row| &row.resource)
    }

    /// Its resources.
    pub fn resource(&self, ix: ShapeIx) -> &Arc<Resource> {
        &self.rows[ix].resource
    }

    /// No node takes it.
    pub fn set_nowhere(&mut self, ix: ShapeIx) {
        let row = &mut self.rows[ix];
        row.nowhere = true;
        if let Some((kind, amount)) = lead(&row.resource) {
            self.nowhere.insert((kind, amount, ix));
        }
    }

    /// It is tried again.
    pub fn clear(&mut self, ix: ShapeIx) {
        let row = &mut self.rows[ix];
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
        if !self.nodes[node].reservations.is_empty() {
            // Whoever reserved it looks again.
            let reserved: Vec<AllocIx> = self.nodes[node].reservations.iter().collect();
            self.ripen(reserved);
        }
        self.rouse_refused(node);
        self.unblock_open_shapes(node);
    }

    /// More of a node is open to those that have not reserved it.
    pub(super) fn unblock_open_shapes(&mut self, node: NodeIx) {
        if crate::planted!("room-unnoticed") {
            return;
        }
        self.questions.room_news += 1;
        let row = &self.nodes[node];
        let available = if row.reservations.is_empty() { row.available.value() } else { self.open_room(node) };
        self.unblock_shapes_within(node, &available);
    }

    /// So much of a node is open to asks that may not have been tried there.
    pub(super) fn unblock_shapes_within(&mut self, node: NodeIx, available: &Resource) {
        let listed = self.nodes[node].sort_key.is_some();
        // A node that is not, as it is drained, has room for placeholders that require it all the same (R5.42).
        if self.gang_waits && (listed || self.is_required(node)) {
            self.unblock();
        }
        if !listed || self.shapes.nowhere.is_empty() {
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
            .filter(|shape| !self.shapes.rows[*shape].of.is_some_and(|ask| self.is_refused(ask, node)))
            .collect();
        if !fitting.is_empty() {
            for shape in fitting {
                self.try_shape_again(shape);
            }
            self.unblock();
        }
    }

    /// No node takes the shape.
    pub(super) fn fits_nowhere(&mut self, shape: ShapeIx) {
        self.shapes.set_nowhere(shape);
        self.questions.room_news += 1;
    }

    /// With it the real ask that found no other node than those of its placeholders, which the shim refuses (R6.10).
    fn try_shape_again(&mut self, shape: ShapeIx) {
        self.shapes.clear(shape);
        if let Some(ask) = self.shapes.rows[shape].of.filter(|ask| self.may_be_swapped(*ask)) {
            self.may_swap_elsewhere(ask);
        }
    }

    /// Constraints changed as a whole: every shape is tried again.
    pub(super) fn unblock_all_shapes(&mut self) {
        let all: Vec<ShapeIx> = self.shapes.nowhere.iter().map(|(_, _, shape)| *shape).collect();
        for shape in all {
            self.try_shape_again(shape);
        }
        self.unblock();
    }
}

/// A shape as it is written.
type Saved = (Arc<Resource>, Option<AllocIx>, bool, u32);

/// The rows and which of them are free; the rest follows from them.
impl Coded for Shapes {
    fn write(&self, to: &mut Writer) {
        let Shapes { rows, by_resource: _, nowhere: _ } = self;
        to.array(2);
        to.array(rows.len());
        for row in rows.places() {
            // What a free row was is no matter.
            let saved: Option<Saved> = (!row.is_free()).then(|| (row.resource.clone(), row.of, row.nowhere, row.uses));
            saved.write(to);
        }
        rows.vacant.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let (saved, vacant): (Vec<Option<Saved>>, Vec<ShapeIx>) = Coded::read(from)?;
        let mut free: Vec<usize> = vacant.iter().map(|ix| ix.ix()).collect();
        free.sort_unstable();
        if !saved.iter().enumerate().filter(|(_, row)| row.is_none()).map(|(at, _)| at).eq(free) {
            return Err(from.fail("the places of shapes that are free are not those that it lists"));
        }
        let mut shapes = Shapes::default();
        for saved in saved {
            let Some((resource, of, nowhere, uses)) = saved else {
                shapes.rows.add(Shape::default());
                continue;
            };
            let (key, lead) = (of.is_none().then(|| Size(resource.clone())), lead(&resource));
            let ix = shapes.rows.add(Shape { resource, of, nowhere, uses, ..Shape::default() });
            if let Some(key) = key {
                shapes.by_resource.insert(key, ix);
            }
            if let Some((kind, amount)) = lead.filter(|_| nowhere) {
                shapes.nowhere.insert((kind, amount, ix));
            }
        }
        for ix in vacant {
            shapes.rows.free(ix);
        }
        Ok(shapes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Types;

    fn written(value: &impl Coded) -> Vec<u8> {
        let mut to = Writer::large();
        value.write(&mut to);
        to.into_bytes()
    }

    fn read(bytes: &[u8]) -> Result<Shapes, Error> {
        Shapes::read(&mut Reader::new(bytes, &Types::default()))
    }

    #[test]
    fn what_is_saved_says_which_places_are_free() {
        let mut shapes = Shapes::default();
        let sized = |memory| Arc::new(Resource::of(&[("memory", memory)]));
        let made: Vec<ShapeIx> = (1..=4).map(|memory| shapes.intern(&sized(memory), None).0).collect();
        shapes.set_nowhere(made[3]);
        for gone in [made[2], made[0]] {
            shapes.release(gone);
        }
        let bytes = written(&shapes);
        let mut again = read(&bytes).unwrap();
        assert_eq!((written(&again), &again.nowhere), (bytes.clone(), &shapes.nowhere));
        for memory in 5..8 {
            assert_eq!(again.intern(&sized(memory), None).0, shapes.intern(&sized(memory), None).0);
        }
        let (rows, free): (Vec<Option<Saved>>, Vec<ShapeIx>) =
            Coded::read(&mut Reader::new(&bytes, &Types::default())).unwrap();
        assert_eq!(free, [made[2], made[0]]);
        for wrong in [vec![], vec![0], vec![0, 0], vec![0, 1], vec![0, 2, 2], vec![0, 2, 9]] {
            let wrong: Vec<ShapeIx> = wrong.into_iter().map(ShapeIx).collect();
            let refused = read(&written(&(rows.clone(), wrong.clone()))).err().unwrap();
            assert!(refused.what.contains("free"), "{wrong:?}: {refused:?}");
        }
    }
}
