//! The order of calls on the extension stream: which were answered, and which predicates have to wait for that.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::messages::rm::{Kind, Line};

/// See the module.
#[derive(Debug, Default)]
pub struct Order {
    /// Calls that the shim has not said Done to.
    open: BTreeSet<u64>,
    /// Those of them that carry allocations.
    allocations: BTreeSet<u64>,
    /// Predicates by the last allocation that each waits for, and their numbers.
    held: BTreeMap<(u64, u64), Arc<Line>>,
    last: u64,
}

impl Order {
    /// A line on its way out: `Some` is sent now, `None` is held.
    pub fn next(&mut self, line: Arc<Line>) -> Option<Arc<Line>> {
        self.last = self.last.max(line.seq);
        if line.payload.wants_answer() {
            let barrier = self.allocations.last().copied().unwrap_or(0);
            if barrier > 0 {
                self.open.insert(line.seq);
                self.held.insert((barrier, line.seq), line);
                return None;
            }
            return Some(line);
        }
        if wants_done(&line) {
            self.open.insert(line.seq);
            if line.payload.kind() == Kind::Allocation {
                self.allocations.insert(line.seq);
            }
        }
        Some(line)
    }

    /// The shim is done with a call; false where it was not open.
    pub fn done(&mut self, id: u64) -> bool {
        self.allocations.remove(&id);
        self.open.remove(&id)
    }

    /// The held lines that may go now, in order.
    pub fn release(&mut self) -> Vec<Arc<Line>> {
        let first = self.allocations.first().copied().unwrap_or(u64::MAX);
        let mut released = Vec::new();
        while let Some(held) = self.held.first_entry().filter(|held| held.key().0 < first) {
            released.push(held.remove());
        }
        released.sort_by_key(|line| line.seq);
        for line in &released {
            self.open.remove(&line.seq);
        }
        released
    }

    /// Everything up to this line was handled by the shim, or needs no handling.
    pub fn handed(&self) -> u64 {
        self.open.first().map_or(self.last, |open| open - 1)
    }
}

/// The call is answered by Done.
pub fn wants_done(line: &Line) -> bool {
    line.payload.kind() != Kind::Other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::effect::{Question, QuestionKind},
        messages::rm::Payload,
    };

    fn line(seq: u64, payload: Payload) -> Arc<Line> {
        Arc::new(Line { seq, partition: "p".into(), payload })
    }

    fn seqs(lines: Vec<Arc<Line>>) -> Vec<u64> {
        lines.iter().map(|line| line.seq).collect()
    }

    fn allocation(seq: u64) -> Arc<Line> {
        line(seq, Payload::New(vec![]))
    }

    fn predicate(seq: u64) -> Arc<Line> {
        let kind = QuestionKind::Fits { allocate: true };
        line(
            seq,
            Payload::Ask(Question { id: 1, key: "k".into(), node: "n".into(), more: Vec::new(), kind, together: true }),
        )
    }

    #[test]
    fn a_predicate_waits_for_done_to_the_allocations_before_it_and_holds_up_nothing_else() {
        let mut order = Order::default();
        assert!(order.next(predicate(1)).is_some());
        assert!(order.next(allocation(2)).is_some());
        assert!(order.next(allocation(3)).is_some());
        assert!(order.next(predicate(4)).is_none());
        assert!(order.next(allocation(5)).is_some(), "what comes after it goes on");
        assert_eq!(order.handed(), 1);
        assert!(order.done(3));
        assert!(order.release().is_empty(), "2 is still open");
        assert!(order.done(2) && !order.done(2));
        assert_eq!(order.handed(), 3);
        assert_eq!(seqs(order.release()), [4]);
        assert_eq!(order.handed(), 4);
        assert!(order.done(5));
        assert_eq!(order.handed(), 5);
    }

    #[test]
    fn predicates_that_wait_for_different_allocations_go_in_their_order() {
        let mut order = Order::default();
        for seq in [1, 2] {
            order.next(allocation(seq));
        }
        order.next(predicate(3));
        order.done(2);
        order.next(predicate(4));
        assert!(order.release().is_empty(), "both wait for 1");
        order.next(allocation(5));
        order.next(predicate(6));
        order.done(1);
        assert_eq!(seqs(order.release()), [3, 4]);
        order.done(5);
        assert_eq!(seqs(order.release()), [6]);
    }

    #[test]
    fn one_way_calls_need_no_done() {
        let mut order = Order::default();
        assert!(order.next(line(1, Payload::Events(vec![]))).is_some());
        assert_eq!(order.handed(), 1);
        assert!(order.next(line(2, Payload::Nodes { accepted: vec![], rejected: vec![] })).is_some());
        assert_eq!(order.handed(), 1);
        assert!(order.next(predicate(3)).is_some(), "only allocations hold predicates");
    }
}
