//! What the shim refused, and how long that is believed (R5.27). A search asks about each node once. What was refused on a node
//! is forgotten when something changes there; all of an ask, when its search is over and something changed that it may depend
//! on, or a long time has passed. Both come at longer and longer intervals; that asks in vain leave turns to others meanwhile
//! is a matter of `turns`.

use std::{collections::BTreeSet, fmt, sync::Arc};

use super::Partition;
use crate::app::AskGroup;
use crate::coded::{Coded, Error, Reader, Writer, list};
use crate::node::Node;
use crate::types::{AllocIx, AppIx, Nanos, NodeIx};

/// Between two searches for a constrained ask while constrained allocations come and go; doubles up to 32 s.
const CHANGED: Nanos = Nanos::from_secs(1);
/// Between two searches where nothing changed; doubles up to 5 min.
const UNCHANGED: Nanos = Nanos::from_secs(30);
const LONGEST: Nanos = Nanos::from_secs(300);
/// Refusals that are remembered one by one, of all asks together (some 150 bytes each). Beyond, an ask that found no node is
/// remembered as refused on all of them.
const MOST: usize = 1_000_000;
/// Groups of asks that are looked through when something changes on a node that they require, and real asks of a gang with a
/// placeholder there that are tried again for it. What is beyond is asked about again in its time, as above.
const LOOKS: usize = 1_000;
const GANG: usize = 100;
/// Texts that are known to be there already.
const TEXTS: usize = 1_024;

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
    /// Refused on all nodes at this time of the clock, and why on the last one.
    everywhere: Option<(u64, Arc<str>)>,
}

impl Refused {
    fn is_none(&self) -> bool {
        self.nodes.is_empty() && self.everywhere.is_none()
    }
}

/// Nodes that the shim changes at once.
pub(super) type Renewed = BTreeSet<NodeIx>;

/// All that was refused. Times of node changes are counted, so that nothing is looked through when a node changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    asks: imbl::OrdMap<AllocIx, Refused>,
    changed: imbl::OrdMap<NodeIx, u64>,
    clock: u64,
    /// Those of single nodes, of all asks.
    number: usize,
    texts: Texts,
}

/// Shims say the same of most nodes: it is kept once. What is known of texts spares memory, and is no part of what is so.
#[derive(Clone, Default)]
struct Texts(imbl::OrdMap<Arc<str>, Arc<str>>);

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Texts")
    }
}

impl Texts {
    fn shared(&mut self, text: &Arc<str>) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        if self.0.len() >= TEXTS {
            self.0.clear();
        }
        self.0.insert(text.clone(), text.clone());
        text.clone()
    }
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
    pub fn note(&mut self, (alloc, node): (AllocIx, NodeIx), reason: &Arc<str>, when: (u64, u64), now: Nanos) {
        let reason = self.texts.shared(reason);
        let row = self.asks.entry(alloc).or_default();
        if row.is_none() {
            row.changes = when.1;
        }
        row.last = now;
        self.number += usize::from(row.nodes.insert(node, (when.0, reason)).is_none());
    }

    /// What is remembered of an ask goes.
    fn forget(&mut self, alloc: AllocIx) {
        if let Some(row) = self.asks.remove(&alloc) {
            self.number -= row.nodes.len();
        }
    }

    fn holds(&self, node: NodeIx, asked: u64) -> bool {
        self.changed.get(&node).is_none_or(|changed| *changed <= asked)
    }

    /// What still holds of an ask and a node.
    fn of(&self, alloc: AllocIx, node: NodeIx) -> Option<&Arc<str>> {
        let row = self.asks.get(&alloc)?;
        let (asked, reason) = row.nodes.get(&node).or(row.everywhere.as_ref())?;
        self.holds(node, *asked).then_some(reason)
    }

    /// Where there are more of single nodes than so many, those of asks whose search is over are remembered as one, and if these are
    /// few, those of others, too, until there are a quarter less.
    fn bound(&mut self, most: usize, is_over: impl Fn(&AllocIx) -> bool) {
        if self.number <= most {
            return;
        }
        let asks = self.asks.iter().filter(|(_, row)| !row.nodes.is_empty()).map(|(alloc, _)| *alloc);
        let (over, others): (Vec<AllocIx>, Vec<AllocIx>) = asks.partition(is_over);
        for alloc in over.into_iter().chain(others) {
            if self.number <= most / 4 * 3 {
                break;
            }
            if let Some(row) = self.asks.get_mut(&alloc) {
                let nodes = std::mem::take(&mut row.nodes);
                self.number -= nodes.len();
                row.everywhere = nodes.get_max().map(|(_, (_, reason))| (self.clock, reason.clone()));
            }
        }
    }
}

impl Partition {
    /// Refused by the shim, and not yet to be asked again.
    pub(super) fn is_refused(&self, alloc: AllocIx, node: NodeIx) -> bool {
        self.questions.refusals.of(alloc, node).is_some()
    }

    /// Others went for it, and the shim, which had agreed, refused it all the same not long ago, whatever came or went since: when
    /// others may be preempted for it again.
    pub(super) fn preempts_again(&self, alloc: AllocIx, now: Nanos) -> Option<Nanos> {
        let tried = self.ask_shim && self.allocs[alloc].triggered_preemption;
        let row = self.questions.refusals.asks.get(&alloc).filter(|_| tried)?;
        Some(row.last.plus(LONGEST)).filter(|at| *at > now)
    }

    /// What the shim said where it refused an ask on a node, and that holds.
    pub(super) fn refused(&self, alloc: AllocIx, node: NodeIx) -> Option<&Arc<str>> {
        self.questions.refusals.of(alloc, node).filter(|_| self.ask_shim)
    }

    /// Every node that is large enough for an ask and takes allocations was refused.
    pub(super) fn is_refused_everywhere(&self, alloc: AllocIx) -> bool {
        let row = &self.allocs[alloc];
        let may = |(_, node): &(NodeIx, &Node)| node.schedulable() && node.capacity.fits(&row.resource);
        self.refusals(alloc).next().is_some()
            && self.nodes.iter().filter(may).all(|(node, _)| self.is_refused(alloc, node))
    }

    /// What the shim said of some node in the search for an ask that is not begun anew yet, whether it holds or not.
    pub(super) fn refused_before(&self, alloc: AllocIx) -> Option<&Arc<str>> {
        let row = self.questions.refusals.asks.get(&alloc).filter(|_| self.ask_shim)?;
        row.nodes.values().next().or(row.everywhere.as_ref()).map(|(_, reason)| reason)
    }

    /// The nodes that the shim refused for an ask, and what it said.
    pub(super) fn refusals(&self, alloc: AllocIx) -> impl Iterator<Item = (NodeIx, &Arc<str>)> {
        let refusals = &self.questions.refusals;
        let row = refusals.asks.get(&alloc).filter(|_| self.ask_shim);
        let all = row.filter(|row| row.everywhere.is_some()).into_iter().flat_map(|_| self.nodes.keys());
        let single = row.filter(|row| row.everywhere.is_none()).into_iter().flat_map(|row| row.nodes.keys().copied());
        all.chain(single).filter_map(move |node| Some((node, refusals.of(alloc, node)?)))
    }

    /// No more is remembered than there is room for. What is remembered as one ends as the rest does: on a node with its next change,
    /// on all as the search begins anew.
    pub(super) fn bound_refusals(&mut self) {
        let (shapes, allocs) = (&self.shapes, &self.allocs);
        self.questions.refusals.bound(MOST, |alloc| shapes.is_nowhere(allocs[*alloc].shape));
    }

    /// The shim refused it on some node.
    pub(super) fn was_refused(&self, alloc: AllocIx) -> bool {
        self.questions.refusals.asks.contains_key(&alloc)
    }

    pub(super) fn has_refusals(&self) -> bool {
        !self.questions.refusals.asks.is_empty()
    }

    pub(super) fn forget_refusals(&mut self, alloc: AllocIx) {
        self.questions.refusals.forget(alloc);
        self.questions.doubtful.remove(&alloc);
        self.ask_takes_no_more_turns(alloc);
    }

    /// The shim changed a node: what it refused there holds no more. Of all that it changes at once the asks are looked through
    /// once, by [`Partition::ask_again_about`].
    pub(super) fn node_renewed(&mut self, node: NodeIx, renewed: &mut Renewed) {
        if self.ask_shim {
            renewed.insert(node);
            self.questions.refusals.node_changed(node);
        }
    }

    /// Asks that one of these nodes was refused for are tried there again, and replacements that were agreed to are asked about again.
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
            let refusals = &mut self.questions.refusals;
            let Some(row) = refusals.asks.get(&ask) else { continue };
            let (nodes, everywhere) = (there(row), row.everywhere.is_some());
            if !nodes.is_empty()
                && let Some(row) = refusals.asks.get_mut(&ask)
            {
                nodes.iter().for_each(|node| drop(row.nodes.remove(node)));
                refusals.number -= nodes.len();
            }
            if everywhere || !nodes.is_empty() {
                again.push(ask);
            }
        }
        self.search_again(&again);
        // What it agreed to there, and has not begun, holds no more either.
        let there = |real: &&AllocIx| self.allocs[**real].node.is_some_and(|node| renewed.contains(&node));
        for real in self.questions.agreed.keys().filter(there).copied().collect::<Vec<_>>() {
            self.questions.agreed.remove(&real);
        }
    }

    /// Something changed on a node. Asks that the shim refused there before are asked about again, also those of which no shape tells,
    /// as they look for no room on nodes: they require this one, or would take the place of a placeholder there.
    pub(super) fn rouse_refused(&mut self, node: NodeIx) {
        if !self.ask_shim || !self.has_refusals() {
            return;
        }
        let id = self.nodes[node].spec.id.clone();
        let apps = self.requiring(&id);
        let groups =
            apps.flat_map(|app| self.apps[app].groups_by_key.iter().map(move |(key, group)| (app, key, group)));
        let again = groups.take(LOOKS).filter(|(_, key, group)| {
            group.blocked && key.required_node.as_ref() == Some(&id) && self.is_refused_no_more(group, node)
        });
        for (app, key) in again.map(|(app, key, _)| (app, key.clone())).collect::<Vec<_>>() {
            self.unblock_group(app, &key);
            self.rouse(app);
        }
        let there = self.nodes[node].allocs.iter().map(|alloc| &self.allocs[*alloc]);
        let gangs: BTreeSet<AppIx> = there.filter(|row| row.is_placeholder()).map(|row| row.app).collect();
        let again = gangs.into_iter().filter(|app| {
            let row = &self.apps[*app];
            // Each of them looks at each placeholder of its task group.
            let waiting = &row.gang.replacing.0;
            waiting.len() <= GANG
                && waiting
                    .values()
                    .filter_map(|key| row.groups_by_key.get(key))
                    .any(|group| self.is_refused_no_more(group, node))
        });
        for app in again.collect::<Vec<_>>() {
            self.look_for_swaps(app);
        }
    }

    /// The shim refused one of them there, which does not hold any more.
    fn is_refused_no_more(&self, group: &AskGroup, node: NodeIx) -> bool {
        group.asks.values().any(|ask| self.was_refused(*ask) && !self.is_refused(*ask, node))
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
            !row.is_none() && !self.is_in_question(alloc) && now.minus(row.last) >= wait
        };
        let asks = self.questions.refusals.asks.iter();
        let mut due: Vec<AllocIx> = asks.filter(|(ask, row)| due(**ask, row)).map(|(ask, _)| *ask).collect();
        if due.is_empty() {
            due.extend(self.refused_longest_ago(now));
        }
        for alloc in &due {
            let questions = &mut self.questions;
            let refusals = &mut questions.refusals;
            if let Some(row) = refusals.asks.get_mut(alloc) {
                refusals.number -= std::mem::take(&mut row.nodes).len();
                row.everywhere = None;
                row.searches += 1;
                if row.changes == questions.changes {
                    questions.doubtful.insert(*alloc, refusals.clock);
                } else {
                    questions.doubtful.remove(alloc);
                }
            }
        }
        self.search_again(&due);
    }

    /// What only the shim sees, such as a taint that went, is the same for many asks: where none was refused anything for a while,
    /// one finds out for all, the one that has waited longest.
    fn refused_longest_ago(&self, now: Nanos) -> Option<AllocIx> {
        let asks = || self.questions.refusals.asks.iter().filter(|(_, row)| !row.is_none());
        let last = asks().map(|(_, row)| row.last).max()?;
        let free = asks().filter(|(ask, _)| !self.is_in_question(**ask));
        let longest = free.min_by_key(|(_, row)| row.last).map(|(ask, _)| *ask);
        longest.filter(|_| now.minus(last) >= UNCHANGED)
    }

    /// The ask has the node because its search began anew, and nothing has come or gone there since, which would explain it.
    pub(super) fn is_unexpected(&self, alloc: AllocIx, node: NodeIx) -> bool {
        let since = self.questions.doubtful.get(&alloc);
        since.is_some_and(|since| self.questions.refusals.holds(node, *since))
    }

    /// An ask was refused everywhere, and is placed though nothing that it is known to depend on came or went: the shim sees something
    /// that it did not tell of, so what it refused to others may hold no more either. They begin from the first search, so that
    /// none of them has the others tried anew in its turn.
    pub(super) fn doubt_refusals(&mut self) {
        self.questions.doubtful.clear();
        let refusals = &mut self.questions.refusals;
        let asks: Vec<AllocIx> = refusals.asks.keys().copied().collect();
        for ask in &asks {
            if let Some(row) = refusals.asks.get_mut(ask) {
                *row = Refused { last: row.last, ..Refused::default() };
            }
        }
        refusals.number = 0;
        self.search_again(&asks);
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

list!(Refused { nodes, changes, last, searches, everywhere });

/// The rest follows from it; texts that are the same are one again.
impl Coded for Refusals {
    fn write(&self, to: &mut Writer) {
        let Refusals { asks, changed, clock, number: _, texts: _ } = self;
        to.array(3);
        asks.write(to);
        changed.write(to);
        clock.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let (asks, changed, clock): (imbl::OrdMap<AllocIx, Refused>, _, _) = Coded::read(from)?;
        let mut read = Refusals { changed, clock, ..Refusals::default() };
        for (ask, mut row) in asks {
            read.number += row.nodes.len();
            let nodes = row.nodes.iter();
            row.nodes = nodes.map(|(node, (asked, why))| (*node, (*asked, read.texts.shared(why)))).collect();
            read.asks.insert(ask, row);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Types;

    #[test]
    fn of_many_those_whose_search_is_over_are_remembered_as_one() {
        let mut refusals = Refusals::default();
        for (alloc, node) in (0..10).flat_map(|alloc| (0..10).map(move |node| (AllocIx(alloc), node))) {
            let reason = if node == 9 { "the last".into() } else { Arc::from(format!("taint {}", node % 2)) };
            refusals.note((alloc, NodeIx(node)), &reason, (refusals.clock(), 0), Nanos(1));
        }
        refusals.bound(100, |_| true);
        assert!(refusals.asks.values().all(|row| row.nodes.len() == 10), "there is room for so many");
        refusals.bound(80, |alloc| alloc.0 >= 7);
        let sizes: Vec<usize> = refusals.asks.values().map(|row| row.nodes.len()).collect();
        assert_eq!((sizes, refusals.number), (vec![0, 10, 10, 10, 10, 10, 10, 0, 0, 0], 60));
        // What shims say of many nodes is kept once.
        assert!(Arc::ptr_eq(refusals.of(AllocIx(1), NodeIx(2)).unwrap(), refusals.of(AllocIx(6), NodeIx(4)).unwrap()));
        assert_eq!(refusals.of(AllocIx(7), NodeIx(0)).map(|reason| &**reason), Some("the last"));
        refusals.node_changed(NodeIx(0));
        let refused = |alloc| (0..10).filter(|node| refusals.of(AllocIx(alloc), NodeIx(*node)).is_some()).count();
        assert_eq!((refused(1), refused(7)), (9, 9));

        let mut to = Writer::large();
        refusals.write(&mut to);
        let read = Refusals::read(&mut Reader::new(&to.into_bytes(), &Types::default())).unwrap();
        assert_eq!(format!("{read:?}"), format!("{refusals:?}"));
        refusals.forget(AllocIx(1));
        refusals.forget(AllocIx(7));
        assert_eq!(refusals.number, 50);
    }
}
