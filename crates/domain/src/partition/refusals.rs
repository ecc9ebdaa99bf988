//! What the shim refused, and how long that is believed (R5.27). A search asks about each node once. What was refused on a node
//! is forgotten when something changes there; all of an ask, when its search is over and something changed that it may depend
//! on, or a long time has passed. Both come at longer and longer intervals; that asks in vain leave turns to others meanwhile
//! is a matter of `turns`.

use std::{collections::BTreeSet, sync::Arc};

use super::Partition;
use crate::coded::list;
use crate::types::{AllocIx, Nanos, NodeIx};

/// Between two searches for a constrained ask while constrained allocations come and go; doubles up to 32 s.
const CHANGED: Nanos = Nanos::from_secs(1);
/// Between two searches where nothing changed; doubles up to 5 min.
const UNCHANGED: Nanos = Nanos::from_secs(30);
const LONGEST: Nanos = Nanos::from_secs(300);

/// What was refused to one ask.
#[derive(Clone, Debug, Default)]
struct Refused {
    /// When the shim was asked, by the clock of node changes, and what it said.
    nodes: imbl::OrdMap<NodeIx, (u64, Arc<str>)>,
    /// Constrained allocations that had come or gone when the search began.
    changes: u64,
    /// The last refusal.
    last: Nanos,
    /// Searches that ended in vain.
    searches: u32,
}

/// Nodes that the shim changes at once.
pub(super) type Renewed = BTreeSet<NodeIx>;

/// All that was refused. Times of node changes are counted, so that nothing is looked through when a node changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    asks: imbl::OrdMap<AllocIx, Refused>,
    changed: imbl::OrdMap<NodeIx, u64>,
    clock: u64,
}

impl Refusals {
    /// Number of the last change of a node.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Something changed on a node.
    pub fn node_changed(&mut self, node: NodeIx) {
        self.clock += 1;
        self.changed.insert(node, self.clock);
    }

    /// The shim refused what it was asked when the clock, and the constrained changes, were so far.
    pub fn note(&mut self, (alloc, node): (AllocIx, NodeIx), reason: Arc<str>, when: (u64, u64), now: Nanos) {
        let row = self.asks.entry(alloc).or_default();
        if row.nodes.is_empty() {
            row.changes = when.1;
        }
        row.last = now;
        row.nodes.insert(node, (when.0, reason));
    }

    fn holds(&self, node: NodeIx, asked: u64) -> bool {
        self.changed.get(&node).is_none_or(|changed| *changed <= asked)
    }

    /// What still holds of an ask.
    pub fn of(&self, alloc: AllocIx) -> impl Iterator<Item = (NodeIx, &Arc<str>)> {
        let nodes = self.asks.get(&alloc).into_iter().flat_map(|row| row.nodes.iter());
        nodes.filter(|(node, (asked, _))| self.holds(**node, *asked)).map(|(node, (_, reason))| (*node, reason))
    }
}

impl Partition {
    /// Refused by the shim, and not yet to be asked again.
    pub(super) fn is_refused(&self, alloc: AllocIx, node: NodeIx) -> bool {
        let refusals = &self.questions.refusals;
        let refused = refusals.asks.get(&alloc).and_then(|row| row.nodes.get(&node));
        refused.is_some_and(|(asked, _)| refusals.holds(node, *asked))
    }

    /// The nodes that the shim refused for an ask, and what it said.
    pub(super) fn refusals(&self, alloc: AllocIx) -> impl Iterator<Item = (NodeIx, &Arc<str>)> {
        self.questions.refusals.of(alloc).filter(|_| self.ask_shim)
    }

    pub(super) fn has_refusals(&self) -> bool {
        !self.questions.refusals.asks.is_empty()
    }

    pub(super) fn forget_refusals(&mut self, alloc: AllocIx) {
        self.questions.refusals.asks.remove(&alloc);
    }

    /// The shim changed a node: what it refused there holds no more. Of all that it changes at once the asks are looked through
    /// once, by [`Partition::ask_again_about`].
    pub(super) fn node_renewed(&mut self, node: NodeIx, renewed: &mut Renewed) {
        if self.ask_shim {
            renewed.insert(node);
            self.questions.refusals.node_changed(node);
        }
    }

    /// Asks that one of these nodes was refused for are tried there again.
    pub(super) fn ask_again_about(&mut self, renewed: &Renewed) {
        if renewed.is_empty() {
            return;
        }
        let there = |row: &Refused| -> Vec<NodeIx> {
            if renewed.len() < row.nodes.len() {
                renewed.iter().copied().filter(|node| row.nodes.contains_key(node)).collect()
            } else {
                row.nodes.keys().copied().filter(|node| renewed.contains(node)).collect()
            }
        };
        let asks: Vec<AllocIx> = self.questions.refusals.asks.keys().copied().collect();
        let mut again = Vec::new();
        for ask in asks {
            let nodes = self.questions.refusals.asks.get(&ask).map(there).unwrap_or_default();
            if !nodes.is_empty()
                && let Some(row) = self.questions.refusals.asks.get_mut(&ask)
            {
                nodes.iter().for_each(|node| drop(row.nodes.remove(node)));
                again.push(ask);
            }
        }
        self.search_again(&again);
    }

    /// Searches that are over begin anew where that is due.
    pub(super) fn forget_old_refusals(&mut self, now: Nanos) {
        let due = |alloc: AllocIx, row: &Refused| {
            let constrained = self.is_constrained(&self.allocs[alloc].spec);
            let (first, most) =
                if constrained && row.changes != self.questions.changes { (CHANGED, 5) } else { (UNCHANGED, 4) };
            let wait = Nanos(first.0 << row.searches.min(most)).min(LONGEST);
            // Others that have not been asked about since are first.
            let wait = if constrained && row.last > self.questions.rested { LONGEST } else { wait };
            !row.nodes.is_empty() && !self.is_in_question(alloc) && now.minus(row.last) >= wait
        };
        let asks = self.questions.refusals.asks.iter();
        let due: Vec<AllocIx> = asks.filter(|(ask, row)| due(**ask, row)).map(|(ask, _)| *ask).collect();
        for alloc in &due {
            if let Some(row) = self.questions.refusals.asks.get_mut(alloc) {
                row.nodes.clear();
                row.searches += 1;
            }
        }
        self.search_again(&due);
    }

    fn search_again(&mut self, asks: &[AllocIx]) {
        for alloc in asks {
            let row = &self.allocs[*alloc];
            let (app, shape) = (row.app, row.shape);
            if !self.apps[app].gang.replaceable.is_empty() {
                self.look_for_swaps(app);
            }
            self.shapes.clear(shape);
        }
        if !asks.is_empty() {
            self.unblock();
        }
    }
}

list!(Refused { nodes, changes, last, searches });
list!(Refusals { asks, changed, clock });
