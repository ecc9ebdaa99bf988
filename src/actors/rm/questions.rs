//! Predicate questions that the shim has not answered yet. Their id is the number of the line that carries them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    domain::{command::PredicateAnswer, effect::Question},
    messages::rm::AnswerBody,
};

/// Open questions of a session.
#[derive(Debug, Default)]
pub struct Questions {
    open: BTreeMap<u64, Open>,
    deadlines: VecDeque<(Instant, u64)>,
}

#[derive(Debug)]
struct Open {
    partition: Arc<str>,
    /// As they were put.
    put: Vec<Question>,
}

/// Answers for one partition.
pub type Answered = (Arc<str>, Vec<PredicateAnswer>);

impl Questions {
    /// Questions were asked by line `id`.
    pub fn ask(&mut self, id: u64, partition: Arc<str>, questions: &[Question], now: Instant, timeout: Duration) {
        self.open.insert(id, Open { partition, put: questions.to_vec() });
        self.deadlines.push_back((now + timeout, id));
    }

    /// The line asks about a constrained ask.
    pub fn is_in_turn(&self, id: u64) -> bool {
        self.open.get(&id).is_some_and(|open| open.put.iter().any(|question| !question.together))
    }

    /// The shim answered; `None` where nothing waits for it any more.
    pub fn answer(&mut self, id: u64, body: AnswerBody) -> Option<Answered> {
        let open = self.open.remove(&id)?;
        let answers =
            open.put.iter().map(|put| (put.id, put.nodes())).enumerate().map(
                |(place, (question, nodes))| match &body {
                    AnswerBody::Single { result, index } => {
                        PredicateAnswer { question, result: result.clone(), index: *index, refused: Vec::new() }
                    }
                    // To the first, where there are several.
                    AnswerBody::Batch(results) => of_batch(question, nodes, if place == 0 { results } else { &[] }),
                    AnswerBody::Several(answers) => {
                        of_batch(question, nodes, answers.get(place).map_or(&[], Vec::as_slice))
                    }
                    AnswerBody::Dump(_) => {
                        let result = Err(Arc::from("the shim answered a predicate question with a state dump"));
                        PredicateAnswer { question, result, index: 0, refused: Vec::new() }
                    }
                },
            );
        let answers = answers.collect();
        Some((open.partition, answers))
    }

    /// All that are open, by the line that carries them, with the partition that asks.
    pub fn open(&self) -> impl Iterator<Item = (u64, &Arc<str>, &Question)> {
        self.open.iter().flat_map(|(id, open)| open.put.iter().map(|question| (*id, &open.partition, question)))
    }

    /// The next moment at which a question is given up.
    pub fn deadline(&mut self) -> Option<Instant> {
        while let Some((at, id)) = self.deadlines.front() {
            if self.open.contains_key(id) {
                return Some(*at);
            }
            self.deadlines.pop_front();
        }
        None
    }

    /// Gives up what is due: it does not fit, for this reason.
    pub fn expire(&mut self, now: Instant, reason: &Arc<str>) -> Vec<Answered> {
        let mut expired = Vec::new();
        while self.deadline().is_some_and(|at| at <= now) {
            if let Some((_, id)) = self.deadlines.pop_front() {
                expired.extend(self.answer(id, AnswerBody::Single { result: Err(reason.clone()), index: 0 }));
            }
        }
        expired
    }

    /// Nobody will answer what is open: the numbers of these questions, with the partition that asks.
    pub fn give_up(&mut self) -> Vec<(Arc<str>, Vec<u64>)> {
        self.deadlines.clear();
        let open = std::mem::take(&mut self.open).into_values();
        open.map(|open| (open.partition, open.put.iter().map(|question| question.id).collect())).collect()
    }
}

/// The first node that fits counts; what an answer leaves out before that does not fit.
fn of_batch(question: u64, nodes: usize, results: &[Result<(), Arc<str>>]) -> PredicateAnswer {
    let named = &results[..results.len().min(nodes)];
    let mut refused: Vec<Arc<str>> = named.iter().map_while(|result| result.clone().err()).collect();
    let result = if refused.len() < named.len() {
        Ok(())
    } else if named.len() < nodes {
        Err(Arc::from("the shim's answer does not name this node"))
    } else {
        // There is at least one.
        Err(refused.pop().unwrap_or_default())
    };
    PredicateAnswer { question, result, index: 0, refused }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::effect::QuestionKind;

    fn questions(ids: &[u64]) -> Vec<Question> {
        let question = |id: &u64| Question {
            id: *id,
            key: "k".into(),
            node: "n".into(),
            more: Vec::new(),
            kind: QuestionKind::Fits { allocate: true },
            together: true,
        };
        ids.iter().map(question).collect()
    }

    fn fits() -> AnswerBody {
        AnswerBody::Single { result: Ok(()), index: 2 }
    }

    #[test]
    fn answers_go_back_under_the_partitions_own_numbers_and_only_once() {
        let (mut open, now) = (Questions::default(), Instant::now());
        open.ask(12, "[rm]a".into(), &questions(&[3]), now, Duration::from_secs(5));
        assert!(open.answer(11, fits()).is_none(), "never asked");
        let (partition, answers) = open.answer(12, fits()).expect("asked");
        assert_eq!((&*partition, answers[0].question, answers[0].index), ("[rm]a", 3, 2));
        assert!(open.answer(12, fits()).is_none(), "answered already");
        assert_eq!(open.deadline(), None);
    }

    #[test]
    fn the_first_node_of_a_batch_that_fits_counts() {
        let taint = || Err(Arc::from("taint"));
        let answer = |results: Vec<Result<(), Arc<str>>>| {
            let (mut open, now) = (Questions::default(), Instant::now());
            let mut asked = questions(&[7]);
            asked[0].more = vec!["m".into(), "o".into()];
            open.ask(1, "p".into(), &asked, now, Duration::from_secs(5));
            let (_, mut answers) = open.answer(1, AnswerBody::Batch(results)).expect("asked");
            assert_eq!((answers.len(), answers[0].question), (1, 7));
            let answer = answers.remove(0);
            (answer.result.map_err(|reason| reason.to_string()), answer.refused.len())
        };
        assert_eq!(answer(vec![Ok(())]), (Ok(()), 0));
        assert_eq!(answer(vec![taint(), Ok(()), taint()]), (Ok(()), 1));
        assert_eq!(answer(vec![taint(), taint(), taint()]), (Err("taint".into()), 2));
        assert_eq!(answer(vec![taint()]), (Err("the shim's answer does not name this node".into()), 1));
        assert_eq!(answer(vec![taint(), taint(), taint(), Ok(())]), (Err("taint".into()), 2), "a node too many");
    }

    #[test]
    fn several_asks_of_a_line_are_answered_in_their_order() {
        let answer = |body: AnswerBody| {
            let (mut open, now) = (Questions::default(), Instant::now());
            let mut asked = questions(&[7, 8, 9]);
            asked[1].more = vec!["m".into()];
            open.ask(1, "p".into(), &asked, now, Duration::from_secs(5));
            let (_, answers) = open.answer(1, body).expect("asked");
            assert!(open.answer(1, fits()).is_none() && open.deadline().is_none());
            let shown = |answer: PredicateAnswer| (answer.question, answer.result.is_ok(), answer.refused.len());
            answers.into_iter().map(shown).collect::<Vec<_>>()
        };
        let taint = || Err(Arc::from("taint"));
        let all = vec![vec![Ok(())], vec![taint(), Ok(())], vec![taint()]];
        assert_eq!(answer(AnswerBody::Several(all)), [(7, true, 0), (8, true, 1), (9, false, 0)]);
        let some = vec![vec![Ok(())]];
        assert_eq!(answer(AnswerBody::Several(some)), [(7, true, 0), (8, false, 0), (9, false, 0)]);
        assert_eq!(answer(AnswerBody::Batch(vec![Ok(())])), [(7, true, 0), (8, false, 0), (9, false, 0)]);
        assert_eq!(answer(fits()), [(7, true, 0), (8, true, 0), (9, true, 0)], "one word for all");
    }

    #[test]
    fn what_is_not_answered_in_time_does_not_fit() {
        let (mut open, now) = (Questions::default(), Instant::now());
        let second = Duration::from_secs(1);
        open.ask(1, "p".into(), &questions(&[1]), now, second);
        open.ask(2, "p".into(), &questions(&[2]), now + second, second);
        assert!(open.expire(now, &"late".into()).is_empty());
        let expired = open.expire(now + second, &"late".into());
        assert_eq!(expired.len(), 1);
        assert_eq!(expired[0].1[0].result, Err("late".into()));
        assert_eq!(open.deadline(), Some(now + 2 * second));
        assert_eq!(open.give_up(), [("p".into(), vec![2])]);
    }
}
