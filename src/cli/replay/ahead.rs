//! Moments of a trace that can be played without waiting for what came of the ones before: every ask in them has its place at
//! once, wherever the others go, and what ends is released as soon as its placement was heard.

use std::collections::{BTreeSet, HashSet};

use super::{
    books::{AskState, Books},
    trace::{Amounts, Step, Trace},
};
use crate::si::v1::ApplicationRequest;

/// Starts and ends that go out together at most.
const BATCH: usize = 256;

/// What was gathered of such moments and not sent yet.
#[derive(Debug, Default)]
pub struct Ahead {
    starts: Vec<usize>,
    ends: Vec<usize>,
    /// Asks that have ended and whose placement was not heard yet.
    late: BTreeSet<usize>,
    /// Removals of applications, which go out with the next submissions.
    remove: Vec<ApplicationRequest>,
    room: Room,
}

/// Nodes with room for anything that is on its way.
#[derive(Debug, Default)]
struct Room {
    /// Asks, none larger than `largest`, that are certain to find a node nobody else touches.
    left: usize,
    largest: Amounts,
}

impl Ahead {
    /// Gathers the step, if all that starts in it has its place at once: at least as many nodes as there are asks on their way
    /// have room for the largest amounts of them all, and the others take one node each at most. Limits of queues and users are
    /// not looked at.
    pub fn gather(&mut self, trace: &Trace, books: &Books<'_>, step: &Step) -> bool {
        if !self.has_room(trace, books, &step.starts) {
            return false;
        }
        let gathered: HashSet<usize> =
            if step.ends.is_empty() { HashSet::new() } else { self.starts.iter().copied().collect() };
        for ask in &step.ends {
            match books.state(*ask) {
                AskState::Placed(_) => self.ends.push(*ask),
                AskState::Future if !gathered.contains(ask) => {}
                AskState::Waiting | AskState::Future => self.late.extend([*ask]),
                AskState::Done => {}
            }
        }
        self.starts.extend(&step.starts);
        true
    }

    fn has_room(&mut self, trace: &Trace, books: &Books<'_>, starts: &[usize]) -> bool {
        let room = &mut self.room;
        let fits = |free: &Amounts, needs: &Amounts| free.iter().zip(needs).all(|(free, need)| free >= need);
        let larger = |ask: &usize| room.largest.is_empty() || !fits(&room.largest, &trace.asks[*ask].needs);
        if starts.len() > room.left || starts.iter().any(larger) {
            let on_their_way = books.waiting.iter().chain(&self.starts);
            let before = on_their_way.clone().count();
            room.largest = vec![0; trace.types.len()];
            for ask in on_their_way.chain(starts) {
                let largest = room.largest.iter_mut().zip(&trace.asks[*ask].needs);
                largest.for_each(|(largest, need)| *largest = (*largest).max(*need));
            }
            let roomy = books.node_free.iter().filter(|free| fits(free, &room.largest)).count();
            room.left = roomy.saturating_sub(before);
        }
        if starts.len() > room.left {
            // Looked at again when something has changed.
            room.left = 0;
            return starts.is_empty();
        }
        room.left -= starts.len();
        true
    }

    /// As much was gathered as goes out together.
    pub fn is_full(&self) -> bool {
        self.starts.len() + self.ends.len() >= BATCH
    }

    /// Asks were gathered that are not sent.
    pub fn has_starts(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Nothing was gathered that is not sent.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.ends.is_empty() && self.late.is_empty() && self.remove.is_empty()
    }

    /// Ends and starts that can go out now.
    pub fn take(&mut self, books: &Books<'_>) -> (Vec<usize>, Vec<usize>) {
        let mut ends = std::mem::take(&mut self.ends);
        self.late.retain(|ask| match books.state(*ask) {
            AskState::Placed(_) => {
                ends.push(*ask);
                false
            }
            state => state != AskState::Done,
        });
        (ends, std::mem::take(&mut self.starts))
    }

    /// Asks that have ended, for whose placement nobody waits any more.
    pub fn give_up(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.late).into_iter().collect()
    }

    /// Keeps removals back, and gives the requests to be sent now: those that were kept back go with the submissions, before
    /// them where an application comes again.
    pub fn join(
        &mut self,
        mut submit: Vec<ApplicationRequest>,
        remove: Vec<ApplicationRequest>,
    ) -> Vec<ApplicationRequest> {
        let mut earlier = std::mem::replace(&mut self.remove, remove);
        let gone: HashSet<&str> =
            earlier.iter().flat_map(|request| &request.remove).map(|app| app.application_id.as_str()).collect();
        let again =
            submit.iter().flat_map(|request| &request.new).any(|app| gone.contains(app.application_id.as_str()));
        match (submit.first_mut(), again) {
            (Some(first), false) => {
                first.remove = earlier.into_iter().flat_map(|request| request.remove).collect();
                submit
            }
            _ => {
                earlier.append(&mut submit);
                earlier
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::replay::{
            trace::{Millis, testing},
            wire,
        },
        si::v1::{AllocationResponse, RejectedAllocation},
    };

    /// Three nodes of 10; an ask each second, which ends ten seconds later.
    fn trace(needs: &[i64]) -> Trace {
        let ask =
            |(at, need): (i64, &i64)| testing::ask(&format!("ask-{at}"), *need, at * 1000, Some(at * 1000 + 10_000));
        testing::trace(&["a", "b", "c"], 10, (0..).zip(needs).map(ask).collect())
    }

    fn gathered(ahead: &mut Ahead, trace: &Trace, books: &Books<'_>) -> usize {
        trace.steps().iter().take_while(|step| ahead.gather(trace, books, step)).count()
    }

    #[test]
    fn as_many_asks_go_together_as_there_are_nodes_with_room() {
        let trace = trace(&[6, 6, 6, 6]);
        let mut books = Books::new(&trace);
        assert_eq!(gathered(&mut Ahead::default(), &trace, &books), 3);
        books.node_free[1] = vec![5];
        assert_eq!(gathered(&mut Ahead::default(), &trace, &books), 2);
        books.node_free = vec![vec![0]; 3];
        assert_eq!(gathered(&mut Ahead::default(), &trace, &books), 0, "nobody knows what comes of the first");
    }

    #[test]
    fn the_largest_of_them_counts() {
        let trace = trace(&[1, 1, 10]);
        let mut books = Books::new(&trace);
        books.node_free[0] = vec![9];
        assert_eq!(gathered(&mut Ahead::default(), &trace, &books), 2);
    }

    #[test]
    fn what_is_on_its_way_takes_a_node_until_it_is_placed() {
        let trace = trace(&[6, 6, 6, 6]);
        let (mut books, mut ahead, steps) = (Books::new(&trace), Ahead::default(), trace.steps());
        assert!(ahead.gather(&trace, &books, &steps[0]) && ahead.gather(&trace, &books, &steps[1]));
        assert_eq!(ahead.take(&books), (vec![], vec![0, 1]));
        books.start(0, Millis(0));
        books.start(1, Millis(0));
        assert!(ahead.gather(&trace, &books, &steps[2]) && !ahead.gather(&trace, &books, &steps[3]));
        // Both came to one node.
        (books.waiting, books.node_free[0]) = (BTreeSet::new(), vec![0]);
        assert!(ahead.gather(&trace, &books, &steps[3]));
    }

    #[test]
    fn what_ends_before_it_is_placed_is_released_after() {
        let mut trace = trace(&[1, 1, 1]);
        (0..3).for_each(|ask| trace.asks[ask].ends = Some(Millis(2500)));
        let (mut books, mut ahead) = (Books::new(&trace), Ahead::default());
        assert_eq!(gathered(&mut ahead, &trace, &books), trace.steps().len());
        assert_eq!(ahead.take(&books), (vec![], vec![0, 1, 2]));
        for ask in 0..3 {
            books.start(ask, Millis(0));
        }
        assert_eq!(ahead.take(&books), (vec![], vec![]), "none was placed yet");
        let rejected = RejectedAllocation { allocation_key: "ask-1".into(), ..Default::default() };
        let response = AllocationResponse { rejected_allocations: vec![rejected], ..Default::default() };
        books.allocations(response, Millis(0)).unwrap();
        assert_eq!(ahead.take(&books), (vec![], vec![]), "a refused one needs no release");
        assert_eq!(ahead.give_up(), [0, 2]);
        assert!(ahead.is_empty());
    }

    #[test]
    fn removals_go_with_the_next_submissions_but_before_those_of_the_same_application() {
        let trace = trace(&[1]);
        let (new, gone) =
            (|| wire::applications(&trace, "rm", &[0], &[]), || wire::applications(&trace, "rm", &[], &[0]));
        let mut ahead = Ahead::default();
        assert_eq!(ahead.join(new(), gone()), new(), "kept back");
        assert_eq!(ahead.join(new(), Vec::new()), [gone(), new()].concat());
        assert!(ahead.join(Vec::new(), gone()).is_empty());
        let mut other = new();
        other[0].new[0].application_id = "other".into();
        let sent = ahead.join(other, Vec::new());
        assert_eq!((sent.len(), sent[0].new.len(), sent[0].remove.len()), (1, 1, 1));
    }
}
