//! Whose turn it is to ask about constrained asks, where a resource manager has several partitions (R5.27): one at a time, in
//! the order in which they wanted to. That the shim agrees counts once the others have told what came or went there before.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use crate::{
    command::{Command, PredicateAnswer, Turn},
    effect::TurnEffect,
};

/// See the module. Partitions go by their internal names.
#[derive(Debug, Default)]
pub struct Turns {
    members: Vec<Arc<str>>,
    holder: Option<Arc<str>>,
    /// Who waits for one, in order.
    line: VecDeque<Arc<str>>,
    /// Answers that wait for what others have to tell.
    waiting: Vec<Waiting>,
    /// Number of the last of these.
    last: u64,
    out: Vec<(Arc<str>, Vec<Command>)>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    /// Who has not told.
    of: BTreeSet<Arc<str>>,
    partition: Arc<str>,
    answers: Vec<PredicateAnswer>,
}

impl Turns {
    /// These partitions take turns; with fewer than two of them nobody does.
    pub fn among(&mut self, members: Vec<Arc<str>>) {
        self.members = members;
        let there = |partition: &Arc<str>| self.members.contains(partition);
        self.waiting.iter_mut().for_each(|waiting| waiting.of.retain(there));
        self.line.retain(there);
        self.holder.take_if(|holder| !there(holder));
        self.go_on();
    }

    /// A partition wants a turn, has used it, or has something to tell.
    pub fn on_message(&mut self, from: &Arc<str>, message: TurnEffect) {
        if !self.members.contains(from) {
            return;
        }
        match message {
            TurnEffect::Wanted if self.line.contains(from) => {}
            TurnEffect::Wanted => self.line.push_back(from.clone()),
            TurnEffect::Over => {
                self.holder.take_if(|holder| holder == from);
            }
            TurnEffect::Changed => {
                let others = self.members.iter().filter(|other| *other != from);
                self.out.extend(others.map(|other| (other.clone(), vec![Command::Turn(Turn::Elsewhere)])));
            }
            TurnEffect::Seen(number) => {
                for waiting in self.waiting.iter_mut().filter(|waiting| waiting.number == number) {
                    waiting.of.remove(from);
                }
            }
        }
        self.go_on();
    }

    /// The shim answered a partition about a constrained ask.
    pub fn answer(&mut self, partition: Arc<str>, answers: Vec<PredicateAnswer>) {
        let mut of = BTreeSet::new();
        if answers.iter().any(|answer| answer.result.is_ok()) {
            self.last += 1;
            for other in self.members.iter().filter(|other| **other != partition) {
                self.out.push((other.clone(), vec![Command::Turn(Turn::Seen(self.last))]));
                of.insert(other.clone());
            }
        }
        self.waiting.push(Waiting { number: self.last, of, partition, answers });
        self.go_on();
    }

    /// What partitions are to be given, in order.
    pub fn take(&mut self) -> Vec<(Arc<str>, Vec<Command>)> {
        std::mem::take(&mut self.out)
    }

    fn go_on(&mut self) {
        for Waiting { partition, answers, .. } in self.waiting.extract_if(.., |waiting| waiting.of.is_empty()) {
            self.out.push((partition, answers.into_iter().map(Command::Predicate).collect()));
        }
        if self.holder.is_none()
            && let Some(next) = self.line.pop_front()
        {
            self.out.push((next.clone(), vec![Command::Turn(Turn::Yours)]));
            self.holder = Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn shown(turns: &mut Turns) -> Vec<String> {
        let word = |command: &Command| match command {
            Command::Turn(turn) => format!("{turn:?}"),
            Command::Predicate(answer) => format!("answer {}", answer.question),
            other => format!("{other:?}"),
        };
        let all = turns.take();
        all.iter().flat_map(|(to, commands)| commands.iter().map(move |c| format!("{to} {}", word(c)))).collect()
    }

    #[test]
    fn one_at_a_time_in_the_order_in_which_they_wanted_to() {
        let mut turns = Turns::default();
        turns.among(names(&["a", "b", "c"]));
        let [a, b, c]: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        for who in [&b, &c, &a, &c] {
            turns.on_message(who, TurnEffect::Wanted);
        }
        assert_eq!(shown(&mut turns), ["b Yours"]);
        turns.on_message(&c, TurnEffect::Over);
        assert!(shown(&mut turns).is_empty(), "it is not its own");
        turns.on_message(&b, TurnEffect::Changed);
        turns.on_message(&b, TurnEffect::Over);
        turns.on_message(&b, TurnEffect::Wanted);
        assert_eq!(shown(&mut turns), ["a Elsewhere", "c Elsewhere", "c Yours"]);
        // It goes, and its turn with it.
        turns.among(names(&["a", "b"]));
        assert_eq!(shown(&mut turns), ["a Yours"]);
        turns.on_message(&c, TurnEffect::Wanted);
        turns.on_message(&a, TurnEffect::Over);
        assert_eq!(shown(&mut turns), ["b Yours"], "nobody speaks for what is gone");
    }

    #[test]
    fn others_are_heard_before_a_fit_counts() {
        let mut turns = Turns::default();
        let [a, b, c]: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        turns.answer(a.clone(), vec![PredicateAnswer::fits(1)]);
        assert_eq!(shown(&mut turns), ["a answer 1"], "there are no others");
        turns.among(names(&["a", "b", "c"]));
        turns.answer(a.clone(), vec![PredicateAnswer::fits(2)]);
        assert_eq!(shown(&mut turns), ["b Seen(2)", "c Seen(2)"]);
        turns.on_message(&b, TurnEffect::Changed);
        turns.on_message(&b, TurnEffect::Seen(2));
        assert_eq!(shown(&mut turns), ["a Elsewhere", "c Elsewhere"]);
        turns.on_message(&c, TurnEffect::Seen(2));
        assert_eq!(shown(&mut turns), ["a answer 2"]);
        turns.answer(a.clone(), vec![PredicateAnswer { result: Err("taint".into()), ..PredicateAnswer::fits(3) }]);
        assert_eq!(shown(&mut turns), ["a answer 3"], "a refusal depends on nobody");
        turns.answer(a, vec![PredicateAnswer::fits(4)]);
        turns.among(names(&["a"]));
        assert_eq!(shown(&mut turns), ["b Seen(3)", "c Seen(3)", "a answer 4"], "those who are gone say nothing");
    }
}
