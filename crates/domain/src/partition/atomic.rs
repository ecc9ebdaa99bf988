//! All-or-nothing admission of gangs (queue property `gang.admission: atomic`): the placeholders of an application are placed
//! only when all of them fit at once, in one step. So no gang ever holds a part of what it needs while it waits for the
//! rest, and two gangs can never wait for each other.

use std::borrow::Cow;

use super::{Books, Cx, Partition, books::Trial, schedule::Outcome};
use crate::coded::list;
use crate::{
    app::{AskOrder, GroupKey, Hold},
    effect::Effect,
    resources::Resource,
    types::{AllocIx, AppIx, NodeIx, QueueIx},
};

/// A gang that fits, while the shim is asked about each of its placeholders.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Every placeholder with the effects of its charge, kept until all are agreed to.
    charged: Vec<(AllocIx, Vec<Effect>)>,
    /// Questions that are open.
    open: usize,
}

impl Partition {
    /// The asks of this group are placed together with all placeholders of their application, or not at all: no node is
    /// reserved, and nothing preempted, for a single one of them.
    pub(super) fn goes_all_at_once(&self, app: AppIx, key: &GroupKey) -> bool {
        key.placeholder && self.queues[self.apps[app].queue].settings.atomic_gangs && !crate::planted!("gang-in-parts")
    }

    /// Nothing is reserved for these asks: they wait for their gang (SEEDS S10, S11, R6.7), or are placed with it, or their queue
    /// has become a parent (CFG-102). That may have begun with a new configuration, after they wanted a node or had reserved one.
    pub(super) fn reserves_nothing(&mut self, app: AppIx, key: &GroupKey) -> bool {
        !self.may_reserve(app, key) || self.waits_for_gang(app, key)
    }

    /// The same, whether they wait for their gang or not.
    pub(super) fn may_reserve(&self, app: AppIx, key: &GroupKey) -> bool {
        self.queues[self.apps[app].queue].leaf && !self.goes_all_at_once(app, key)
    }

    /// What a gang wants of its queues and user at once, with the level, nearest to the leaf, that has no room for it.
    pub(super) fn gang_shortage(&self, app: AppIx) -> (Resource, Option<QueueIx>) {
        let row = &self.apps[app];
        if !self.queues[row.queue].settings.atomic_gangs {
            let wanted = self.gang_to_begin(app).map(Cow::into_owned).unwrap_or_default();
            return (wanted, self.gang_level(app));
        }
        let mut total = Resource::new();
        for (key, group) in row.groups_by_key.iter().filter(|(key, _)| key.placeholder) {
            total.add(&self.shapes.resource(key.shape).times(group.asks.len() as i128));
        }
        // The size of the cluster is no limit: it may grow.
        let level = self.queue_fits(row.queue, &total).err().filter(|level| *level != self.root);
        (total, level)
    }

    /// Not all placeholders have come of a gang that has not begun. Of one that has, some may never: parts that ended while the scheduler
    /// was started anew are in no list (R6.28).
    pub(super) fn is_gang_short(&self, app: AppIx) -> bool {
        let gang = &self.apps[app].gang;
        let short = gang.placeholder_ask.as_deref().is_some_and(|ask| !gang.announced.ge_all(ask));
        short && self.gang_to_begin(app).is_some()
    }

    /// Places all pending placeholders of an application, if all that were announced have come and all fit at once.
    pub(super) fn try_gang(&mut self, app: AppIx, cx: &mut Cx) -> Result<Outcome, Hold> {
        let row = &self.apps[app];
        if self.is_gang_short(app) || row.gang.awaiting_shim > 0 {
            return Err(Hold::Gang);
        }
        if row.groups_by_key.keys().any(|key| key.placeholder && key.paused) {
            return Err(Hold::Failures);
        }
        let (total, level) = self.gang_shortage(app);
        if !self.user_fits_beside(app, &total) || level.is_some() {
            self.limited = true;
            return Err(Hold::GangRoom);
        }
        if self.gang(app).any(|(_, alloc)| self.waits_for_turn(*alloc)) {
            return Ok(Outcome::Waits);
        }
        if let Some(at) = self.gang_must_wait(app, cx.now) {
            self.wake_at(app, at);
            return Err(Hold::Nodes);
        }
        let Some(found) = self.fit_gang(app) else {
            self.gang_waits = true;
            self.questions.room_news += 1;
            self.gang_looked(app, self.gang(app).count());
            return Err(Hold::Nodes);
        };
        if self.ask_shim {
            return Ok(self.ask_for_gang(app, found, cx));
        }
        for (alloc, node) in found {
            // Every limit was checked for the sum, every node with what the others take of it.
            let placement = self.past_limits(alloc, Some(node), Books::ALL);
            self.allocate(&placement, node, cx);
        }
        Ok(Outcome::Placed)
    }

    /// The gang was tried as a whole and waits as a whole.
    pub(super) fn hold_gang(&mut self, app: AppIx, hold: Hold, cx: &mut Cx) {
        let keys = self.apps[app].groups_by_key.keys().filter(|key| key.placeholder);
        let mut shortage = None;
        for key in keys.cloned().collect::<Vec<_>>() {
            self.hold_of_gang(app, &key, hold, &mut shortage, cx);
            self.block_group(app, &key);
        }
    }

    /// The pending placeholders of an application, with their places in its order.
    pub(super) fn gang(&self, app: AppIx) -> impl Iterator<Item = (&AskOrder, &AllocIx)> {
        let groups = self.apps[app].groups_by_key.iter().filter(|(key, _)| key.placeholder);
        groups.flat_map(|(_, group)| group.asks.iter())
    }

    /// A node for each pending placeholder of an application; `None`: they do not fit at once.
    pub(super) fn fit_gang(&mut self, app: AppIx) -> Option<Vec<(AllocIx, NodeIx)>> {
        let mut asks: Vec<(AskOrder, AllocIx)> = self.gang(app).map(|(order, alloc)| (*order, *alloc)).collect();
        asks.sort_unstable_by_key(|(order, _)| *order);
        let mut asks: Vec<AllocIx> = asks.into_iter().map(|(_, alloc)| alloc).collect();
        self.fit_all(&asks).or_else(|| {
            // In their order they do not fit; the largest first may, behind those that have no choice of a node.
            asks.sort_by_key(|alloc| {
                let row = &self.allocs[*alloc];
                (row.spec.required_node.is_none(), std::cmp::Reverse(row.resource.total()))
            });
            self.fit_all(&asks)
        })
    }

    /// A node for each, the first in order that fits beside those before it.
    fn fit_all(&mut self, asks: &[AllocIx]) -> Option<Vec<(AllocIx, NodeIx)>> {
        let mut trial = Trial::of(self);
        let place = |alloc: &AllocIx| {
            let node = trial.node_beside(*alloc)?;
            trial.place(*alloc, node);
            Some((*alloc, node))
        };
        asks.iter().map(place).collect()
    }

    fn node_beside(&self, alloc: AllocIx) -> Option<NodeIx> {
        let row = &self.allocs[alloc];
        let Some(required) = &row.spec.required_node else { return self.find_node(alloc, &row.resource) };
        let node = *self.node_by_id.get(required)?;
        // R5.43: others that require it, or have preempted for it, come first.
        let open = self.is_shared(node) && self.nodes[node].available.fits(&row.resource);
        (open && !(self.ask_shim && self.is_refused(alloc, node))).then_some(node)
    }

    /// Charges the whole gang without showing it, and asks the shim about each of its placeholders.
    fn ask_for_gang(&mut self, app: AppIx, found: Vec<(AllocIx, NodeIx)>, cx: &mut Cx) -> Outcome {
        if !self.may_ask_about_gang(app, found.len()) {
            // The step ends here: what comes after it in order is not to wait, or be asked about, in its place.
            return Outcome::Progress;
        }
        let mut held = Held { charged: Vec::with_capacity(found.len()), open: found.len() };
        for (alloc, node) in found {
            self.note_passed(alloc, cx);
            let placement = self.past_limits(alloc, Some(node), Books::ALL);
            held.charged.push((alloc, self.charge_awaiting_shim(&placement, node, cx)));
            self.ask_about_gang(alloc, node, cx);
        }
        self.questions.gangs.insert(app, held);
        Outcome::Progress
    }

    /// The shim agreed to one of a gang; with the last of them all are placed, in their order.
    pub(super) fn gang_agreed(&mut self, app: AppIx, cx: &mut Cx) {
        let Some(held) = self.questions.gangs.get_mut(&app) else { return };
        held.open -= 1;
        if held.open > 0 {
            return;
        }
        if self.questions.gangs[&app].charged.iter().any(|(alloc, _)| !self.still_fits(*alloc)) {
            self.undo_gang(app, cx);
            return;
        }
        for (alloc, effects) in self.questions.gangs.remove(&app).unwrap_or_default().charged {
            self.place_confirmed(alloc, effects, cx);
        }
    }

    /// This ask is one of a gang that the shim is asked about as a whole.
    pub(super) fn is_in_held_gang(&self, app: AppIx, alloc: AllocIx) -> bool {
        self.questions.gangs.get(&app).is_some_and(|held| held.charged.iter().any(|(one, _)| *one == alloc))
    }

    /// Nobody knows whether the gang that is held waits for nodes.
    pub(super) fn forget_attempts_of_gang(&mut self, app: AppIx) {
        for (alloc, _) in self.questions.gangs.get(&app).into_iter().flat_map(|held| &held.charged) {
            self.allocs[*alloc].attempted = false;
        }
    }

    /// The shim refused one of a gang, or one of them goes: all of them wait again.
    pub(super) fn undo_gang(&mut self, app: AppIx, cx: &mut Cx) {
        for (alloc, _) in self.questions.gangs.remove(&app).unwrap_or_default().charged {
            self.take_back(alloc, cx);
        }
    }

    /// Gangs that the shim is asked about and that would use this node.
    pub(super) fn gangs_on(&self, node: NodeIx) -> Vec<AppIx> {
        let uses = |held: &Held| held.charged.iter().any(|(alloc, _)| self.allocs[*alloc].node == Some(node));
        self.questions.gangs.iter().filter(|(_, held)| uses(held)).map(|(app, _)| *app).collect()
    }
}

list!(Held { charged, open });
