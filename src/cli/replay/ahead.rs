//! How many moments of a trace can be sent in one request, as nothing in them can depend on the answer: every ask has its
//! place at once, wherever the others go.

use std::collections::HashSet;

use super::{
    books::Books,
    trace::{Step, Trace},
    wire::CHUNK,
};

/// Number of steps, from the first on, that can go together; 0 where what comes of the first is not certain.
///
/// Nothing may wait, since a release might then make room for it at its own moment, and what one step asks for must not end
/// in a later one. At least as many nodes as there are asks have to have room for the largest amounts of them all: the
/// others take one node each at most, so that every ask finds a node that nobody touched. Limits of queues and users are
/// not looked at.
pub fn together(trace: &Trace, books: &Books<'_>, steps: &[Step]) -> usize {
    if !books.waiting.is_empty() {
        return 0;
    }
    let mut largest = vec![0; trace.types.len()];
    let mut asked = HashSet::new();
    let (mut changes, mut roomy) = (0, trace.nodes.len());
    for (at, step) in steps.iter().enumerate() {
        let mut grown = false;
        for ask in &step.starts {
            for (largest, need) in largest.iter_mut().zip(&trace.asks[*ask].needs) {
                grown |= need > largest;
                *largest = (*largest).max(*need);
            }
        }
        if grown {
            let fits = |free: &&Vec<i64>| free.iter().zip(&largest).all(|(free, need)| free >= need);
            roomy = books.node_free.iter().filter(fits).count();
        }
        changes += step.starts.len() + step.ends.len();
        let ends_too_soon = step.ends.iter().any(|ask| asked.contains(ask));
        asked.extend(step.starts.iter().copied());
        if ends_too_soon || asked.len() > roomy || changes > CHUNK {
            return at;
        }
    }
    steps.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::replay::trace::{Millis, ResourceKind, TraceApp, TraceAsk, TraceNode};

    /// Three nodes of 10; an ask each second, which ends ten seconds later.
    fn trace(needs: &[i64]) -> Trace {
        let ask = |(at, need): (usize, &i64)| TraceAsk {
            key: format!("ask-{at}"),
            app: 0,
            needs: vec![*need],
            priority: 0,
            starts: Millis(at as i64 * 1000),
            ends: Some(Millis(at as i64 * 1000 + 10_000)),
        };
        Trace {
            types: vec![ResourceKind::Vcore],
            nodes: ["a", "b", "c"].map(|id| TraceNode { id: id.into(), capacity: vec![10] }).into(),
            apps: vec![TraceApp { id: "app".into(), queue: "q".into(), user: "u".into() }],
            asks: needs.iter().enumerate().map(ask).collect(),
            ..Trace::default()
        }
    }

    #[test]
    fn as_many_asks_go_together_as_there_are_nodes_with_room() {
        let trace = trace(&[6, 6, 6, 6]);
        let mut books = Books::new(&trace);
        let steps = trace.steps();
        assert_eq!(together(&trace, &books, &steps), 3);
        books.node_free[1] = vec![5];
        assert_eq!(together(&trace, &books, &steps), 2);
        books.node_free = vec![vec![0]; 3];
        assert_eq!(together(&trace, &books, &steps), 0, "nobody knows what comes of the first");
    }

    #[test]
    fn the_largest_of_them_counts() {
        let trace = trace(&[1, 1, 10]);
        let mut books = Books::new(&trace);
        books.node_free[0] = vec![9];
        assert_eq!(together(&trace, &books, &trace.steps()), 2);
    }

    #[test]
    fn what_waits_or_ends_parts_them() {
        let mut trace = trace(&[1, 1, 1]);
        trace.asks[0].ends = Some(Millis(1500));
        let mut books = Books::new(&trace);
        let steps = trace.steps();
        assert_eq!(together(&trace, &books, &steps), 2, "what ends was asked for in the same run");
        books.start(0, Millis(0));
        assert_eq!(together(&trace, &books, &steps[1..]), 0, "something waits");
    }
}
