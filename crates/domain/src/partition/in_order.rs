//! Some of the asks, in the order in which everything is tried: queues from root down, applications of a leaf, asks of an
//! application (R5.10, R5.20–R5.22). The places move with those of the queues and applications, so that the first is found without
//! looking at the others.

use super::{Partition, order::Moved};
use crate::{
    app::{App, AppKey, AskOrder},
    coded::{Coded, Error, Reader, Writer},
    queue::{ChildKey, Queue},
    table::Table,
    types::{AllocIx, AppIx, QueueIx},
};

/// Asks, and the way to the first of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct InOrder {
    asks: imbl::OrdMap<(AppIx, AskOrder), AllocIx>,
    /// Applications of these asks, by leaf.
    apps: imbl::OrdSet<(QueueIx, Option<AppKey>, AppIx)>,
    /// Queues with these applications, by parent.
    queues: imbl::OrdSet<(QueueIx, Option<ChildKey>, QueueIx)>,
}

/// Where an ask belongs.
type Place = (AppIx, AskOrder, AllocIx);

impl InOrder {
    pub fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    pub fn values(&self) -> impl Iterator<Item = AllocIx> + '_ {
        self.asks.values().copied()
    }

    /// The first of all.
    pub fn first(&self, root: QueueIx) -> Option<AllocIx> {
        if self.is_empty() {
            return None;
        }
        let mut queue = root;
        while let Some(child) = self.first_child(queue) {
            queue = child;
        }
        self.of(self.first_app(queue)?).next()
    }

    fn first_child(&self, queue: QueueIx) -> Option<QueueIx> {
        let (of, _, child) = self.queues.range((queue, None, QueueIx(0))..).next()?;
        (*of == queue).then_some(*child)
    }

    fn first_app(&self, leaf: QueueIx) -> Option<AppIx> {
        let (of, _, app) = self.apps.range((leaf, None, AppIx(0))..).next()?;
        (*of == leaf).then_some(*app)
    }

    fn of(&self, app: AppIx) -> impl Iterator<Item = AllocIx> + '_ {
        let asks = self.asks.range((app, AskOrder::FIRST)..).take_while(move |((of, _), _)| *of == app);
        asks.map(|(_, alloc)| *alloc)
    }

    fn insert(&mut self, (app, order, alloc): Place, apps: &Table<AppIx, App, 8>, queues: &Table<QueueIx, Queue, 8>) {
        self.asks.insert((app, order), alloc);
        let row = &apps[app];
        if self.apps.insert((row.queue, row.order.clone(), app)).is_some() {
            return;
        }
        let mut at = row.queue;
        while let Some(queue) = queues.get(at)
            && let Some(parent) = queue.parent
            && self.queues.insert((parent, queue.order, at)).is_none()
        {
            at = parent;
        }
    }

    fn remove(&mut self, (app, order, _): Place, apps: &Table<AppIx, App, 8>, queues: &Table<QueueIx, Queue, 8>) {
        if self.asks.remove(&(app, order)).is_none() || self.of(app).next().is_some() {
            return;
        }
        let row = &apps[app];
        self.apps.remove(&(row.queue, row.order.clone(), app));
        let mut at = row.queue;
        while self.first_child(at).is_none()
            && self.first_app(at).is_none()
            && let Some(parent) = queues[at].parent
        {
            self.queues.remove(&(parent, queues[at].order, at));
            at = parent;
        }
    }

    /// An application of this leaf has another place.
    pub fn app_moved(&mut self, leaf: QueueIx, app: AppIx, (old, new): Moved<'_, AppKey>) {
        if !self.is_empty() && self.apps.remove(&(leaf, old.cloned(), app)).is_some() {
            self.apps.insert((leaf, new.cloned(), app));
        }
    }

    /// A child of this queue has another place.
    pub fn queue_moved(&mut self, parent: QueueIx, queue: QueueIx, (old, new): Moved<'_, ChildKey>) {
        if !self.is_empty() && self.queues.remove(&(parent, old.copied(), queue)).is_some() {
            self.queues.insert((parent, new.copied(), queue));
        }
    }
}

impl Partition {
    fn place(&self, alloc: AllocIx) -> Place {
        (self.allocs[alloc].app, self.ask_order(alloc), alloc)
    }

    /// Reserved asks may be placeable: they are looked at before anything else.
    pub(super) fn ripen(&mut self, asks: impl IntoIterator<Item = AllocIx>) {
        for alloc in asks {
            if self.allocs[alloc].reserved.is_some() {
                self.ripe.insert(self.place(alloc), &self.apps, &self.queues);
            }
        }
    }

    /// The same of all that an application has.
    pub(super) fn ripen_all_of(&mut self, app: AppIx) {
        let asks: Vec<AllocIx> = self.apps[app].reservations.iter().copied().collect();
        self.ripen(asks);
    }

    pub(super) fn not_ripe(&mut self, alloc: AllocIx) {
        self.ripe.remove(self.place(alloc), &self.apps, &self.queues);
    }

    /// A real ask that the homes of its placeholders do not do for may find another node.
    pub(super) fn may_swap_elsewhere(&mut self, alloc: AllocIx) {
        self.elsewhere.insert(self.place(alloc), &self.apps, &self.queues);
    }

    pub(super) fn not_elsewhere(&mut self, alloc: AllocIx) {
        if !self.elsewhere.is_empty() {
            self.elsewhere.remove(self.place(alloc), &self.apps, &self.queues);
        }
    }

    /// What was read tells only which asks they are.
    pub(super) fn put_in_order(&mut self) {
        let (ripe, elsewhere) = (std::mem::take(&mut self.ripe), std::mem::take(&mut self.elsewhere));
        self.ripe = self.in_order(ripe.values());
        self.elsewhere = self.in_order(elsewhere.values());
    }

    /// These asks by the places of today.
    pub(super) fn in_order(&self, asks: impl Iterator<Item = AllocIx>) -> InOrder {
        let mut found = InOrder::default();
        for alloc in asks.filter(|alloc| self.allocs.get(*alloc).is_some()) {
            found.insert(self.place(alloc), &self.apps, &self.queues);
        }
        found
    }
}

/// Which asks they are; their places follow from the rows: see [`Partition::put_in_order`].
impl Coded for InOrder {
    fn write(&self, to: &mut Writer) {
        self.values().collect::<imbl::OrdSet<AllocIx>>().write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let asks: imbl::OrdSet<AllocIx> = Coded::read(from)?;
        let place = |seq: usize| (AppIx(0), AskOrder { seq: seq as u64, ..AskOrder::FIRST });
        let asks = asks.into_iter().enumerate().map(|(seq, alloc)| (place(seq), alloc)).collect();
        Ok(InOrder { asks, ..InOrder::default() })
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(InOrder::default())
    }
}
