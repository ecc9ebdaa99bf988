//! The shim's books of gangs: an ask of a gang is first asked for as a placeholder. When no placeholder of its application
//! waits any more, the real asks are made, and each takes the place of a placeholder of its task group.

use std::collections::HashMap;

use serde::Serialize;

use super::trace::{GangPlan, Trace};

/// Where the placeholder of an ask is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Not asked for yet.
    Future,
    /// Asked for.
    Waiting,
    /// Placed on a node.
    Placed(usize),
    /// Replaced, released or refused.
    Gone,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GangCounts {
    /// Gangs whose real asks were made.
    pub complete: usize,
    /// Placeholders that were placed.
    pub placeholders: usize,
    /// Placeholders that a real ask replaced.
    pub replaced: usize,
}

/// See the module. Placeholders are named by the position of the ask that they were made for; within a task group any of
/// them serves any ask.
pub struct Gangs<'t> {
    plan: &'t GangPlan,
    app_of: Vec<usize>,
    members: Vec<Vec<usize>>,
    by_key: HashMap<String, usize>,
    holders: Vec<Holder>,
    real: Vec<bool>,
    complete: Vec<bool>,
    /// What happened to gangs so far.
    pub counts: GangCounts,
}

impl<'t> Gangs<'t> {
    /// Nothing asked for; `None` where the trace has no gangs.
    pub fn new(trace: &'t Trace) -> Option<Gangs<'t>> {
        let plan = trace.gangs.as_ref()?;
        let mut members = vec![Vec::new(); trace.apps.len()];
        trace.asks.iter().enumerate().for_each(|(at, ask)| members[ask.app].push(at));
        Some(Gangs {
            plan,
            app_of: trace.asks.iter().map(|ask| ask.app).collect(),
            members,
            by_key: trace.asks.iter().enumerate().map(|(at, ask)| (placeholder_key(&ask.key), at)).collect(),
            holders: vec![Holder::Future; trace.asks.len()],
            real: vec![false; trace.asks.len()],
            complete: vec![false; trace.apps.len()],
            counts: GangCounts::default(),
        })
    }

    /// The placeholder with this key.
    pub fn find(&self, key: &str) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// The real ask was made; before that its placeholder stands for it.
    pub fn is_real(&self, ask: usize) -> bool {
        self.real[ask]
    }

    /// The ask is not made yet, and the placeholder that stands for it no longer waits: others of the gang do.
    pub fn waits_for_others(&self, ask: usize) -> bool {
        !self.real[ask] && matches!(self.holders[ask], Holder::Placed(_) | Holder::Gone)
    }

    /// The placeholder of an ask is asked for.
    pub fn begin(&mut self, ask: usize) {
        if self.holders[ask] == Holder::Future {
            self.holders[ask] = Holder::Waiting;
        }
    }

    /// A placeholder was placed; false where it was released meanwhile, which frees it.
    pub fn place(&mut self, placeholder: usize, node: usize) -> bool {
        let placed = self.holders[placeholder] == Holder::Waiting;
        if placed {
            self.holders[placeholder] = Holder::Placed(node);
            self.counts.placeholders += 1;
        }
        placed
    }

    /// A placeholder is gone; gives the node that it was on.
    pub fn end(&mut self, placeholder: usize) -> Option<usize> {
        match std::mem::replace(&mut self.holders[placeholder], Holder::Gone) {
            Holder::Placed(node) => Some(node),
            Holder::Future | Holder::Waiting | Holder::Gone => None,
        }
    }

    /// A placeholder of the ask's task group that nobody needs any more, where those that are left outnumber the asks that
    /// wait; one without a place first.
    pub fn surplus(&self, ask: usize, waits: impl Fn(usize) -> bool) -> Option<usize> {
        let group = |at: &&usize| self.plan.groups[**at] == self.plan.groups[ask];
        let members: Vec<usize> = self.members[self.app_of[ask]].iter().filter(group).copied().collect();
        let left = |at: &usize| matches!(self.holders[*at], Holder::Waiting | Holder::Placed(_));
        if members.iter().filter(|at| left(at)).count() <= members.iter().filter(|at| waits(**at)).count() {
            return None;
        }
        let waiting = members.iter().copied().find(|at| self.holders[*at] == Holder::Waiting);
        waiting.or_else(|| members.iter().copied().find(left))
    }

    /// The real asks that an application makes now: those that are left, once no placeholder of it waits.
    pub fn complete(&mut self, app: usize, waits: impl Fn(usize) -> bool) -> Vec<usize> {
        let members = &self.members[app];
        if self.complete[app] || members.iter().any(|at| matches!(self.holders[*at], Holder::Future | Holder::Waiting))
        {
            return Vec::new();
        }
        self.complete[app] = true;
        let asks: Vec<usize> = members.iter().copied().filter(|at| waits(*at)).collect();
        asks.iter().for_each(|at| self.real[*at] = true);
        self.counts.complete += usize::from(!asks.is_empty());
        asks
    }

    /// All placeholders of an application go with it; gives those that had a place, with their nodes.
    pub fn remove(&mut self, app: usize) -> Vec<(usize, usize)> {
        let members = self.members[app].clone();
        members.into_iter().filter_map(|at| self.end(at).map(|node| (at, node))).collect()
    }
}

/// Key of the placeholder of an ask.
pub fn placeholder_key(key: &str) -> String {
    format!("{key}#placeholder")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::replay::trace::testing;

    fn trace() -> Trace {
        let asks = ["1", "2", "3"].map(|key| testing::ask(key, 1, 0, None)).into();
        let groups = vec!["a".into(), "a".into(), "b".into()];
        Trace { gangs: Some(GangPlan { groups, sizes: vec![vec![3]] }), ..testing::trace(&[], 0, asks) }
    }

    #[test]
    fn real_asks_are_made_when_no_placeholder_waits() {
        let trace = trace();
        let mut gangs = Gangs::new(&trace).unwrap();
        (0..3).for_each(|at| gangs.begin(at));
        assert!(gangs.place(0, 7) && gangs.place(2, 7) && !gangs.place(2, 8));
        assert_eq!(gangs.complete(0, |_| true), Vec::<usize>::new());
        assert!(gangs.place(1, 9));
        assert_eq!(gangs.complete(0, |at| at != 1), vec![0, 2]);
        assert_eq!(gangs.complete(0, |_| true), Vec::<usize>::new());
        assert!(gangs.is_real(0) && !gangs.is_real(1));
        assert_eq!((gangs.end(0), gangs.end(0)), (Some(7), None));
        assert_eq!(gangs.remove(0), vec![(1, 9), (2, 7)]);
        assert_eq!(gangs.find("2#placeholder"), Some(1));
        assert_eq!(gangs.counts, GangCounts { complete: 1, placeholders: 3, replaced: 0 });
    }

    #[test]
    fn what_outnumbers_the_asks_of_its_group_is_surplus() {
        let trace = trace();
        let mut gangs = Gangs::new(&trace).unwrap();
        (0..3).for_each(|at| gangs.begin(at));
        assert_eq!(gangs.surplus(0, |_| true), None);
        assert_eq!(gangs.surplus(0, |at| at == 1), Some(0));
        gangs.place(0, 1);
        // The one without a place goes first, whoever it was made for.
        assert_eq!(gangs.surplus(0, |at| at == 1), Some(1));
        gangs.end(1);
        assert_eq!(gangs.surplus(0, |at| at == 1), None);
        assert_eq!(gangs.surplus(0, |_| false), Some(0));
    }
}
