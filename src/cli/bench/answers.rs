//! The shim's side of predicates: each question is answered 200 µs after it came, one in a hundred with a refusal.

use std::{
    hash::Hasher,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

/// How long the shim thinks.
const THINKING: Duration = Duration::from_micros(200);

/// A question: does this ask fit this node?
#[derive(Clone, Debug)]
pub struct Asked {
    /// Under which number it is answered.
    pub id: u64,
    /// Allocation key.
    pub key: String,
    /// Node id.
    pub node: String,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Number of the question.
    pub id: u64,
    /// It fits.
    pub fits: bool,
}

/// One in a hundred pairs of ask and node does not fit, always the same ones.
pub fn fits(asked: &Asked) -> bool {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(asked.key.as_bytes());
    hasher.write(asked.node.as_bytes());
    !hasher.finish().is_multiple_of(100)
}

/// Starts a shim that thinks about each question for 200 µs and hands its answers to `send`: one at a time, or all that are
/// due together. It ends when the sender of its questions is dropped.
pub fn start(batched: bool, send: impl FnMut(Vec<Answered>) + Send + 'static) -> Sender<(Instant, Vec<Asked>)> {
    let (questions, asked) = channel();
    thread::spawn(move || think(&asked, batched, send));
    questions
}

fn think(asked: &Receiver<(Instant, Vec<Asked>)>, batched: bool, mut send: impl FnMut(Vec<Answered>)) {
    let mut next = asked.recv().ok();
    while let Some((at, questions)) = next.take() {
        thread::sleep((at + THINKING).saturating_duration_since(Instant::now()));
        let mut answers: Vec<Answered> = questions.iter().map(answer).collect();
        next = loop {
            match asked.try_recv() {
                Ok((at, questions)) if at.elapsed() >= THINKING => answers.extend(questions.iter().map(answer)),
                Ok(later) => break Some(later),
                Err(_) => break None,
            }
        };
        if batched {
            send(answers);
        } else {
            answers.into_iter().for_each(|answer| send(vec![answer]));
        }
        next = next.or_else(|| asked.recv().ok());
    }
}

fn answer(asked: &Asked) -> Answered {
    Answered { id: asked.id, fits: fits(asked) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: u64, node: u64) -> Asked {
        Asked { id, key: "7.0".into(), node: format!("node-{node:06}") }
    }

    #[test]
    fn about_one_in_a_hundred_is_refused() {
        let refused = (0..10_000).filter(|node| !fits(&asked(1, *node))).count();
        assert!((50..=150).contains(&refused), "{refused}");
    }

    #[test]
    fn every_question_is_answered_once() {
        for batched in [false, true] {
            let (out, back) = channel();
            let questions = start(batched, move |answers| {
                answers.into_iter().for_each(|answer| out.send(answer.id).unwrap());
            });
            for id in 0..50 {
                questions.send((Instant::now(), vec![asked(2 * id, id), asked(2 * id + 1, id)])).unwrap();
            }
            drop(questions);
            assert_eq!(back.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        }
    }
}
