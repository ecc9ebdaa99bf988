//! Predicate questions that the shim has not answered yet. Their id is the number of the line that carries them.
//!
//! The time to answer begins when the shim is asked. Before that a line may wait for a stream, or at the door until the shim has
//! handled the allocations before it: that says nothing about a node, however long it takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    domain::{command::PredicateAnswer, effect::Question},
    messages::{held::Held, rm::AnswerBody},
};

/// How long a question may wait to be asked, beyond the time to answer.
const UNASKED: Duration = Duration::from_secs(60);

/// Open questions of a session.
#[derive(Debug, Default)]
pub struct Questions {
    open: BTreeMap<u64, Open>,
    /// When each is looked at next.
    due: BTreeSet<(Instant, u64)>,
    /// Lines up to this one were sent to the stream.
    sent: u64,
}

#[derive(Debug)]
struct Open {
    partition: Arc<str>,
    /// As they were put.
    put: Vec<Question>,
    /// When they were, or when the stream got their line.
    since: Instant,
    due: Instant,
}

/// Answers for one partition.
pub type Answered = (Arc<str>, Vec<PredicateAnswer>);

/// What is over.
#[derive(Debug, Default)]
pub struct Expired {
    /// The shim did not answer in time: it does not fit.
    pub late: Vec<Answered>,
    /// It could not be asked: the numbers of these questions, with the partition that asks.
    pub unasked: Vec<(Arc<str>, Vec<u64>)>,
}

impl Questions {
    /// Line `id`, which is still to be sent, has these questions.
    pub fn put(&mut self, id: u64, partition: Arc<str>, questions: &[Question], now: Instant, timeout: Duration) {
        let due = now + timeout + UNASKED;
        self.open.insert(id, Open { partition, put: questions.to_vec(), since: now, due });
        self.due.insert((due, id));
    }

    /// The stream got the lines up to this one. True: there were questions among them.
    pub fn sent(&mut self, line: u64, now: Instant, timeout: Duration) -> bool {
        if line <= self.sent {
            return false;
        }
        let sent: Vec<u64> = self.open.range(self.sent + 1..=line).map(|(id, _)| *id).collect();
        self.sent = line;
        for id in &sent {
            self.open.entry(*id).and_modify(|open| open.since = now);
            self.look_again(*id, now + timeout);
        }
        !sent.is_empty()
    }

    /// Another stream, which goes on after this line, takes the place of the one that held back these lines. Gives the questions
    /// that the shim was not asked and will not be, with the partition that asks.
    pub fn resume(&mut self, after: u64, held: Option<&Held>) -> Vec<(Arc<str>, Vec<u64>)> {
        let unasked = |(id, open): (&u64, &Open)| (self.asked(*id, open, held).is_none()).then_some(*id);
        let lost: Vec<u64> = self.open.range(..=after).filter_map(unasked).collect();
        self.sent = after;
        lost.into_iter().filter_map(|id| self.end(id)).map(numbers).collect()
    }

    fn look_again(&mut self, id: u64, at: Instant) {
        if let Some(open) = self.open.get_mut(&id) {
            self.due.remove(&(open.due, id));
            open.due = at;
            self.due.insert((at, id));
        }
    }

    /// Since when the shim is asked.
    fn asked(&self, id: u64, open: &Open, held: Option<&Held>) -> Option<Instant> {
        held.filter(|_| id <= self.sent)?.asked(id, open.since)
    }

    fn end(&mut self, id: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.due.remove(&(open.due, id));
        Some(open)
    }

    /// The line asks about a constrained ask.
    pub fn is_in_turn(&self, id: u64) -> bool {
        self.open.get(&id).is_some_and(|open| open.put.iter().any(|question| !question.together))
    }

    /// The shim answered; `None` where nothing waits for it any more.
    pub fn answer(&mut self, id: u64, body: AnswerBody) -> Option<Answered> {
        let open = self.end(id)?;
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

    /// The next moment at which a question may have to be given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Gives up what is due. `held`: what the open stream holds back.
    pub fn expire(&mut self, now: Instant, timeout: Duration, held: Option<&Held>) -> Expired {
        let mut expired = Expired::default();
        while let Some((at, id)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            let Some(open) = self.open.get(&id) else {
                self.due.remove(&(at, id));
                continue;
            };
            let bound = open.since + timeout + UNASKED;
            match (self.asked(id, open, held), held) {
                (Some(asked), Some(held)) if asked + timeout <= now => {
                    held.over(id);
                    let reason: Arc<str> = format!("the shim did not answer within {timeout:?}").into();
                    expired.late.extend(self.answer(id, AnswerBody::Single { result: Err(reason), index: 0 }));
                }
                (Some(asked), _) => self.look_again(id, asked + timeout),
                (None, Some(held)) if bound <= now => {
                    held.over(id);
                    expired.unasked.extend(self.end(id).map(numbers));
                }
                // Were it asked now, it would be due then.
                (None, Some(_)) => self.look_again(id, bound.min(now + timeout)),
                // Without a stream the session is Paused, and that ends.
                (None, None) => self.look_again(id, now + timeout + UNASKED),
            }
        }
        expired
    }

    /// Nobody will answer what is open: the numbers of these questions, with the partition that asks.
    pub fn give_up(&mut self) -> Vec<(Arc<str>, Vec<u64>)> {
        self.due.clear();
        std::mem::take(&mut self.open).into_values().map(numbers).collect()
    }
}

fn numbers(open: Open) -> (Arc<str>, Vec<u64>) {
    (open.partition, open.put.iter().map(|question| question.id).collect())
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
        open.put(12, "[rm]a".into(), &questions(&[3]), now, Duration::from_secs(5));
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
            open.put(1, "p".into(), &asked, now, Duration::from_secs(5));
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
            open.put(1, "p".into(), &asked, now, Duration::from_secs(5));
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

    const SECOND: Duration = Duration::from_secs(1);

    /// Numbers of the lines that were late, and of the questions that could not be asked.
    fn expire(open: &mut Questions, now: Instant, held: Option<&Held>) -> (Vec<String>, Vec<Vec<u64>>) {
        let Expired { late, unasked } = open.expire(now, SECOND, held);
        let reason = |(_, answers): &Answered| answers[0].result.clone().expect_err("late").to_string();
        (late.iter().map(reason).collect(), unasked.into_iter().map(|(_, ids)| ids).collect())
    }

    fn late(n: usize) -> (Vec<String>, Vec<Vec<u64>>) {
        (vec!["the shim did not answer within 1s".to_owned(); n], Vec::new())
    }

    #[test]
    fn what_is_not_answered_in_time_does_not_fit() {
        let (mut open, now, held) = (Questions::default(), Instant::now(), Held::default());
        open.put(1, "p".into(), &questions(&[1]), now, SECOND);
        assert!(open.sent(1, now, SECOND) && !open.sent(1, now, SECOND));
        open.put(3, "p".into(), &questions(&[2]), now, SECOND);
        assert!(!open.sent(2, now, SECOND) && open.sent(4, now + SECOND, SECOND));
        assert_eq!(expire(&mut open, now, Some(&held)), late(0));
        assert_eq!(expire(&mut open, now + SECOND, Some(&held)), late(1));
        assert_eq!(open.deadline(), Some(now + 2 * SECOND));
        assert_eq!(open.give_up(), [("p".into(), vec![2])]);
        assert_eq!(open.deadline(), None);
    }

    #[test]
    fn the_time_begins_when_the_shim_is_asked() {
        let (mut open, now, held) = (Questions::default(), Instant::now(), Held::default());
        open.put(1, "p".into(), &questions(&[1]), now, SECOND);
        open.put(2, "p".into(), &questions(&[2]), now, SECOND);
        // No stream, for however long.
        assert_eq!(expire(&mut open, now + 2 * UNASKED, None), late(0));
        let now = now + 2 * UNASKED;
        open.sent(2, now, SECOND);
        held.hold(1);
        held.hold(2);
        assert_eq!(expire(&mut open, now + 8 * SECOND, Some(&held)), late(0), "both are held");
        let released = now + 8 * SECOND + SECOND / 2;
        assert!(held.release(1, released));
        assert_eq!(expire(&mut open, released + SECOND - SECOND / 4, Some(&held)), late(0));
        assert_eq!(open.deadline(), Some(released + SECOND));
        assert_eq!(expire(&mut open, released + SECOND, Some(&held)), late(1));
        // Done never comes.
        assert_eq!(expire(&mut open, now + UNASKED, Some(&held)), late(0));
        assert_eq!(open.deadline(), Some(now + UNASKED + SECOND));
        assert_eq!(expire(&mut open, now + UNASKED + SECOND, Some(&held)), (vec![], vec![vec![2]]));
        assert!(!held.release(2, now + UNASKED + SECOND), "it is not sent any more");
        assert_eq!(open.deadline(), None);
    }

    #[test]
    fn a_stream_that_goes_on_behind_a_question_leaves_out_what_was_not_asked() {
        let (mut open, now, before) = (Questions::default(), Instant::now(), Held::default());
        for id in 1..=4 {
            open.put(id, "p".into(), &questions(&[10 * id]), now, SECOND);
        }
        open.sent(3, now, SECOND);
        before.hold(2);
        before.hold(3);
        assert_eq!(open.resume(2, Some(&before)), [("p".into(), vec![20])], "the shim has the first");
        let held = Held::default();
        assert!(open.sent(4, now + SECOND, SECOND));
        assert_eq!(expire(&mut open, now + SECOND, Some(&held)), late(1));
        assert_eq!(expire(&mut open, now + 2 * SECOND, Some(&held)), late(2), "asked once more, or for the first time");
    }
}
