//! Who goes for what is missing: the choice that does the least harm.
//!
//! Harm is compared from left to right: does anybody go who opted out; does an originator; the highest priority of a victim;
//! what is taken beyond need, as the largest share of the partition; the number of victims; their ages, younger ones first.
//! (For required nodes originators come before those that opted out, R7.35.)
//!
//! Victims of one size, leaf and place are alike but for their age, so the search goes over piles of them, and gives up
//! what is worse already than the best that it knows. It begins with what simple orders find; where there are too many piles
//! to try everything, the best that was found within a number of steps counts.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

use super::{
    super::{
        Partition,
        books::{Mark, Trial},
        shapes::Size,
    },
    close, gap, helps,
    scope::Scope,
};
use crate::coded::list;
use crate::{
    resources::{Resource, ResourceType},
    types::{AllocIx, Nanos, QueueIx},
};

/// Piles that are combined in all ways, as far as the steps reach.
const PILES: usize = 64;
/// Numbers of one pile that are tried, the most that may help downwards, and none.
const NUMBERS: usize = 16;

/// See the module; the least is best.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Harm {
    /// The graver protection that a victim had, and the other.
    protected: (bool, bool),
    priority: i32,
    /// Bits of a number that is not negative, which order as the numbers do.
    beyond: u64,
    number: usize,
    /// The oldest first.
    ages: Reverse<Vec<(Nanos, u64)>>,
}

impl Harm {
    /// Nobody goes.
    pub fn none() -> Harm {
        Harm { protected: (false, false), priority: i32::MIN, beyond: 0, number: 0, ages: Reverse(Vec::new()) }
    }

    /// Neither an originator goes nor anybody who opted out.
    pub fn is_clean(&self) -> bool {
        self.protected == (false, false)
    }

    /// As little as the other, ages apart.
    pub fn is_as_little_as(&self, other: &Harm) -> bool {
        let all_but_ages = |harm: &Harm| (harm.protected, harm.priority, harm.beyond, harm.number);
        all_but_ages(self) <= all_but_ages(other)
    }
}

/// What is missing, and what a choice has to keep to.
pub(super) struct Need<'a> {
    /// On the node: only victims there free something of it.
    pub node: Resource,
    /// In the queues: every victim does.
    pub queues: Resource,
    /// Guarantees that hold, where the ask preempts by its own; `None`: R7.33.
    pub guarantees: Option<&'a Scope>,
    /// The ask requires the node (R7.35).
    pub required: bool,
}

/// A possible victim.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Candidate {
    pub alloc: AllocIx,
    /// It is on the node.
    pub here: bool,
}

/// Victims that are alike but for their age.
struct Pile {
    /// The youngest first.
    allocs: Vec<AllocIx>,
    here: bool,
    size: Resource,
}

/// What is the same within a pile: on the node or not, the leaf, the size.
type PileKey = (bool, QueueIx, Size);

/// Some of a leaf that share their size, in one place.
type Alike = (QueueIx, Arc<Resource>, Vec<AllocIx>);

/// A search under way.
struct Search<'a, 'p> {
    /// In which those are gone that were chosen so far.
    trial: &'a mut Trial<'p>,
    need: &'a Need<'a>,
    piles: Vec<Pile>,
    /// What the piles from each one on can free, on the node and in all.
    rest: Vec<(Resource, Resource)>,
    best: Option<(Harm, Vec<AllocIx>)>,
    steps: &'a mut u32,
}

/// What was chosen so far.
#[derive(Clone)]
struct Chosen {
    allocs: Vec<AllocIx>,
    sum: Resource,
    node: Resource,
    queues: Resource,
    /// The trial has come so far with them.
    mark: Mark,
}

impl Trial<'_> {
    /// Who goes for what is missing on a node, where no guarantee matters, as [`Trial::least_harm`] chooses.
    pub(in super::super) fn least_harm_on_node(
        &mut self,
        missing: Resource,
        candidates: &[Candidate],
        required: bool,
        steps: &mut u32,
    ) -> Option<(Harm, Vec<AllocIx>)> {
        let need = Need { node: missing, queues: Resource::new(), guarantees: None, required };
        self.least_harm(&need, candidates, steps)
    }

    /// The victims that do the least harm, in the order in which they are told to go; `None`: there are not enough. `steps`
    /// bounds the search, and is used up by it.
    pub(super) fn least_harm(
        &mut self,
        need: &Need,
        candidates: &[Candidate],
        steps: &mut u32,
    ) -> Option<(Harm, Vec<AllocIx>)> {
        if need.node.is_empty() && need.queues.is_empty() {
            return Some((Harm::none(), Vec::new()));
        }
        let mut useful: Vec<(bool, bool, i32, Candidate)> = candidates
            .iter()
            .filter(|candidate| {
                let size = &self.allocs[candidate.alloc].resource;
                candidate.here && helps(&need.node, size) || helps(&need.queues, size)
            })
            .map(|candidate| {
                let (graver, lesser) = self.protection(candidate.alloc, need.required);
                (graver, lesser, self.allocs[candidate.alloc].spec.priority, *candidate)
            })
            .collect();
        useful.sort_by_key(|(_, _, priority, candidate)| (*priority, candidate.alloc));
        for (graver, lesser) in [(false, false), (false, true), (true, false), (true, true)] {
            let may = |row: &(bool, bool, i32, Candidate)| (graver || !row.0) && (lesser || !row.1);
            let open: Vec<_> = useful.iter().filter(|row| may(row)).collect();
            // As few priorities as it takes.
            let mut left = (need.node.clone(), need.queues.clone());
            for (n, (_, _, priority, candidate)) in open.iter().enumerate() {
                let size = &self.allocs[candidate.alloc].resource;
                if candidate.here {
                    close(&mut left.0, size);
                }
                close(&mut left.1, size);
                let last_of_priority = open.get(n + 1).is_none_or(|next| next.2 != *priority);
                if last_of_priority && left.0.is_empty() && left.1.is_empty() {
                    let found = self.least_of(need, open[..=n].iter().map(|row| row.3), steps);
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }

    /// The least harm among these, whatever they are protected by.
    fn least_of(
        &mut self,
        need: &Need,
        candidates: impl Iterator<Item = Candidate>,
        steps: &mut u32,
    ) -> Option<(Harm, Vec<AllocIx>)> {
        let mut piles = self.piles(candidates);
        for pile in &mut piles {
            pile.allocs.sort_by_key(|alloc| Reverse(self.youth(*alloc)));
        }
        // Large ones first: what is left for the small ones is soon known to be too much.
        piles.sort_by(|a, b| self.share(&b.size).total_cmp(&self.share(&a.size)));
        let mut rest = vec![(Resource::new(), Resource::new()); piles.len() + 1];
        for at in (0..piles.len()).rev() {
            let mut sums = rest[at + 1].clone();
            let all = piles[at].size.times(piles[at].allocs.len() as i128);
            if piles[at].here {
                sums.0.add(&all);
            }
            sums.1.add(&all);
            rest[at] = sums;
        }
        let mut search = Search { trial: self, need, piles, rest, best: None, steps };
        search.begin_with_simple_orders();
        let nothing = search.nothing();
        search.go(0, nothing);
        let (harm, mut victims) = search.best?;
        victims.sort_by_key(|alloc| self.order_of_victim(*alloc, !need.required));
        Some((harm, victims))
    }
}

impl Partition {
    /// Piles of these, by their keys.
    fn piles(&self, candidates: impl Iterator<Item = Candidate>) -> Vec<Pile> {
        let mut piles: BTreeMap<PileKey, Pile> = BTreeMap::new();
        // Nearly always the next one is like the last one of its place, and asks of one size share it.
        let mut open: [Option<Alike>; 2] = [None, None];
        let mut put = |here: bool, (queue, size, mut allocs): Alike| {
            let pile = || Pile { allocs: Vec::new(), here, size: (*size).clone() };
            piles.entry((here, queue, Size(size.clone()))).or_insert_with(pile).allocs.append(&mut allocs);
        };
        for Candidate { alloc, here } in candidates {
            let row = &self.allocs[alloc];
            let queue = self.apps[row.app].queue;
            match &mut open[usize::from(here)] {
                Some((of, size, allocs)) if *of == queue && Arc::ptr_eq(size, &row.resource) => allocs.push(alloc),
                other => {
                    let before = other.replace((queue, row.resource.clone(), vec![alloc]));
                    before.into_iter().for_each(|pile| put(here, pile));
                }
            }
        }
        let [elsewhere, here] = open;
        elsewhere.into_iter().for_each(|pile| put(false, pile));
        here.into_iter().for_each(|pile| put(true, pile));
        piles.into_values().collect()
    }

    fn protection(&self, alloc: AllocIx, required: bool) -> (bool, bool) {
        let spec = &self.allocs[alloc].spec;
        match required {
            false => (spec.opted_out(), spec.originator),
            true => (spec.originator, spec.opted_out()),
        }
    }

    /// The graver and the lesser protection, and the highest priority, of whom has to go at least for this room; `None`: it is more than all
    /// of them have.
    pub(in super::super) fn least_level(
        &self,
        missing: &Resource,
        candidates: &[Candidate],
        required: bool,
    ) -> Option<((bool, bool), i32)> {
        let level = |alloc| (self.protection(alloc, required), self.allocs[alloc].spec.priority);
        let mut all: Vec<_> = candidates.iter().map(|candidate| (level(candidate.alloc), candidate.alloc)).collect();
        all.sort_unstable();
        let mut left = missing.clone();
        let mut reached = None;
        for (((graver, lesser), priority), alloc) in all {
            if left.is_empty() {
                break;
            }
            close(&mut left, &self.allocs[alloc].resource);
            let (protected, highest) = reached.unwrap_or(((false, false), i32::MIN));
            reached = Some(((protected.0 | graver, protected.1 | lesser), highest.max(priority)));
        }
        reached.filter(|_| left.is_empty())
    }

    /// The order in which victims are told: ordinary ones first, low priorities, the youngest.
    pub(super) fn order_of_victim(&self, alloc: AllocIx, by_guarantee: bool) -> impl Ord + use<> {
        let row = &self.allocs[alloc];
        let (opted_out, originator) = (row.spec.opted_out(), row.spec.originator);
        let protected = if by_guarantee { (opted_out, originator) } else { (originator, opted_out) };
        (protected, row.spec.priority, Reverse(self.youth(alloc)))
    }

    /// Later is younger; of what came at one moment the last.
    fn youth(&self, alloc: AllocIx) -> (Nanos, u64) {
        let row = &self.allocs[alloc];
        (row.created, row.seq)
    }

    /// The largest share of the partition in any type.
    pub(in super::super) fn share(&self, amount: &Resource) -> f64 {
        let share = |(kind, amount): (&ResourceType, i128)| amount as f64 / self.total.amount(kind).max(1) as f64;
        amount.iter().filter(|(_, amount)| *amount > 0).map(share).fold(0.0, f64::max)
    }

    fn harm_of(&self, need: &Need, chosen: &[AllocIx], sum: &Resource) -> Harm {
        let mut harm = Harm::none();
        harm.beyond = self.beyond(need, sum);
        harm.number = chosen.len();
        harm.ages.0 = chosen.iter().map(|alloc| self.youth(*alloc)).collect();
        harm.ages.0.sort_unstable();
        for alloc in chosen {
            let (graver, lesser) = self.protection(*alloc, need.required);
            harm.protected.0 |= graver;
            harm.protected.1 |= lesser;
            harm.priority = harm.priority.max(self.allocs[*alloc].spec.priority);
        }
        harm
    }

    /// What a sum is beyond what is missing, in types that nobody asked for as well.
    fn beyond(&self, need: &Need, sum: &Resource) -> u64 {
        let mut beyond = Resource::new();
        for (kind, amount) in sum.iter() {
            let wanted = need.node.amount(kind).max(need.queues.amount(kind));
            beyond.set(kind.clone(), (amount - wanted).max(0));
        }
        self.share(&beyond).to_bits()
    }
}

impl Search<'_, '_> {
    fn nothing(&self) -> Chosen {
        Chosen {
            allocs: Vec::new(),
            sum: Resource::new(),
            node: self.need.node.clone(),
            queues: self.need.queues.clone(),
            mark: self.trial.mark(),
        }
    }

    fn allows(&self, victim: AllocIx) -> bool {
        self.need.guarantees.is_none_or(|scope| scope.spares(self.trial, victim))
    }

    /// The next of the choice goes, one of this pile.
    fn take(&mut self, chosen: &mut Chosen, victim: AllocIx, at: usize) {
        let pile = &self.piles[at];
        chosen.allocs.push(victim);
        chosen.sum.add(&pile.size);
        if pile.here {
            close(&mut chosen.node, &pile.size);
        }
        close(&mut chosen.queues, &pile.size);
        if let Some(scope) = self.need.guarantees {
            scope.take_out(self.trial, victim);
            chosen.mark = self.trial.mark();
        }
    }

    fn helps(&self, chosen: &Chosen, at: usize) -> bool {
        let pile = &self.piles[at];
        pile.here && helps(&chosen.node, &pile.size) || helps(&chosen.queues, &pile.size)
    }

    /// A whole choice; kept where it is better than what is known.
    fn note(&mut self, allocs: &[AllocIx], sum: &Resource) {
        let harm = self.trial.harm_of(self.need, allocs, sum);
        if self.best.as_ref().is_none_or(|(best, _)| harm < *best) {
            self.best = Some((harm, allocs.to_vec()));
        }
    }

    /// The largest first, the smallest first, the youngest first; then whoever is not needed stays.
    fn begin_with_simple_orders(&mut self) {
        let sizes: Vec<usize> = self.piles.iter().map(|pile| pile.allocs.len()).collect();
        let all_of = |at: usize| (0..sizes[at]).map(move |n| (at, n));
        let mut largest = (0..sizes.len()).flat_map(all_of);
        self.try_order(&mut |_| largest.next());
        let mut smallest = (0..sizes.len()).rev().flat_map(all_of);
        self.try_order(&mut |_| smallest.next());
        // The first of each pile is its youngest.
        let youth = |search: &Self, at: usize, n: usize| search.trial.youth(search.piles[at].allocs[n]);
        let mut heads: BinaryHeap<_> = (0..sizes.len()).map(|at| (youth(self, at, 0), at, 0)).collect();
        self.try_order(&mut |search| {
            let (_, at, n) = heads.pop()?;
            if n + 1 < sizes[at] {
                heads.push((youth(search, at, n + 1), at, n + 1));
            }
            Some((at, n))
        });
    }

    /// Takes whoever helps in this order of piles and places in them, until nothing is missing.
    fn try_order(&mut self, next: &mut dyn FnMut(&Self) -> Option<(usize, usize)>) {
        let mut chosen = self.nothing();
        let begun = chosen.mark;
        let mut of = Vec::new();
        while !(chosen.node.is_empty() && chosen.queues.is_empty()) {
            let Some((at, n)) = next(self) else { break };
            let victim = self.piles[at].allocs[n];
            if self.helps(&chosen, at) && self.allows(victim) {
                self.take(&mut chosen, victim, at);
                of.push(at);
            }
        }
        self.trial.back_to(begun);
        if chosen.node.is_empty() && chosen.queues.is_empty() {
            let (needed, sum) = self.spare(&chosen.allocs, &of);
            self.note(&needed, &sum);
        }
    }

    /// Without those that the others make up for, the largest first.
    fn spare(&self, allocs: &[AllocIx], of: &[usize]) -> (Vec<AllocIx>, Resource) {
        let mut left: Vec<(usize, AllocIx)> = of.iter().copied().zip(allocs.iter().copied()).collect();
        left.sort_by_key(|(at, alloc)| (*at, self.trial.youth(*alloc)));
        let (mut here, mut sum) = (Resource::new(), Resource::new());
        for (at, _) in &left {
            let pile = &self.piles[*at];
            if pile.here {
                here.add(&pile.size);
            }
            sum.add(&pile.size);
        }
        left.retain(|(at, _)| {
            let pile = &self.piles[*at];
            let without = sum.minus(&pile.size);
            let without_here = if pile.here { here.minus(&pile.size) } else { here.clone() };
            let needed =
                !gap(&self.need.node, &without_here).is_empty() || !gap(&self.need.queues, &without).is_empty();
            if !needed {
                (here, sum) = (without_here, without);
            }
            needed
        });
        (left.into_iter().map(|(_, alloc)| alloc).collect(), sum)
    }

    /// Tries so many of this pile, and all that may follow.
    fn go(&mut self, at: usize, chosen: Chosen) {
        if chosen.node.is_empty() && chosen.queues.is_empty() {
            self.note(&chosen.allocs, &chosen.sum);
            return;
        }
        let (here, all) = &self.rest[at];
        if *self.steps == 0
            || at >= PILES
            || !gap(&chosen.node, here).is_empty()
            || !gap(&chosen.queues, all).is_empty()
        {
            return;
        }
        *self.steps -= 1;
        let most = self.most_of(at, chosen.clone());
        let mut levels = vec![chosen.clone()];
        let mut next = chosen;
        for n in 0..most {
            self.take(&mut next, self.piles[at].allocs[n], at);
            if n + NUMBERS >= most {
                levels.push(next.clone());
            }
        }
        // From most to none: what covers the need soon bounds the rest.
        for chosen in levels.into_iter().rev() {
            self.trial.back_to(chosen.mark);
            self.go(at + 1, chosen);
        }
    }

    /// How many of a pile may help, without doing more harm than what is known.
    fn most_of(&mut self, at: usize, mut chosen: Chosen) -> usize {
        let (begun, all) = (chosen.mark, self.piles[at].allocs.len());
        let mut is_too_much = |n: &usize| {
            let victim = self.piles[at].allocs[*n];
            if !self.helps(&chosen, at) || !self.allows(victim) {
                return true;
            }
            self.take(&mut chosen, victim, at);
            self.is_worse(&chosen)
        };
        let most = (0..all).find(|n| is_too_much(n)).unwrap_or(all);
        self.trial.back_to(begun);
        most
    }

    /// Whatever follows does more harm than what is known: both only grow.
    fn is_worse(&self, chosen: &Chosen) -> bool {
        self.best.as_ref().is_some_and(|(best, _)| {
            (self.trial.beyond(self.need, &chosen.sum), chosen.allocs.len()) > (best.beyond, best.number)
        })
    }
}

list!(Harm { protected, priority, beyond, number, ages });
