//! Those who wait for one thing, kept by the conversation that knows how it is. Nothing happens to them before it changes,
//! and then each condition is judged once, however many wait for it.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::messages::wait::{Answer, Condition, Wait};

/// What a conversation says of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Met,
    /// Not yet, and why.
    NotYet(String),
    /// It will not hold any more, and why.
    Never(String),
}

/// See the module.
#[derive(Debug, Default)]
pub struct Waiters(BTreeMap<Condition, BTreeMap<u64, oneshot::Sender<Answer>>>);

impl Waiters {
    /// Answers at once where that is possible, else keeps the wait.
    pub fn add(&mut self, wait: Wait, state: &str, verdict: Verdict) {
        match verdict {
            Verdict::NotYet(_) => drop(self.0.entry(wait.condition).or_default().insert(wait.id, wait.answer)),
            // Who asked may be gone.
            verdict => drop(wait.answer.send(answer(state, verdict))),
        }
    }

    /// Something changed: answers those whose condition is decided now.
    pub fn settle(&mut self, state: &str, judge: impl Fn(Condition) -> Verdict) {
        self.0.retain(|condition, waiting| match judge(*condition) {
            Verdict::NotYet(_) => true,
            verdict => {
                let said = answer(state, verdict);
                for waits in std::mem::take(waiting).into_values() {
                    drop(waits.send(said.clone()));
                }
                false
            }
        });
    }

    /// One waits no longer.
    pub fn withdraw(&mut self, id: u64, state: &str, judge: impl Fn(Condition) -> Verdict) {
        let found = self.0.iter_mut().find_map(|(condition, waiting)| Some((*condition, waiting.remove(&id)?)));
        if let Some((condition, waits)) = found {
            drop(waits.send(answer(state, judge(condition))));
            self.0.retain(|_, waiting| !waiting.is_empty());
        }
    }

    /// The thing is gone, in this state. Conditions for which that is enough (`met`) hold; other waiters ask again.
    pub fn gone(&mut self, state: &str, met: impl Fn(Condition) -> bool) {
        for (condition, waiting) in std::mem::take(&mut self.0) {
            let said = if met(condition) { Answer::Met { state: state.to_owned() } } else { Answer::Gone };
            for waits in waiting.into_values() {
                drop(waits.send(said.clone()));
            }
        }
    }

    /// Those who waited for what was not there, so that they can wait where it is now.
    pub fn take(&mut self) -> impl Iterator<Item = (Condition, u64, oneshot::Sender<Answer>)> + use<> {
        let all = std::mem::take(&mut self.0).into_iter();
        all.flat_map(|(condition, waiting)| waiting.into_iter().map(move |(id, waits)| (condition, id, waits)))
    }

    /// The session ends: those who wait hear it by the end of their channel.
    pub fn end(&mut self) {
        self.0.clear();
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn answer(state: &str, verdict: Verdict) -> Answer {
    let state = state.to_owned();
    match verdict {
        Verdict::Met => Answer::Met { state },
        Verdict::NotYet(why) => Answer::NotYet { state, why },
        Verdict::Never(why) => Answer::Never { state, why },
    }
}
