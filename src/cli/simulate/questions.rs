//! Questions to the shim and their answers, and the messages that partitions get of them.

use std::{collections::BTreeMap, sync::Arc};

use super::server::Server;
use crate::{
    actors::rm::{questions::Expired, record::kind, replay::Open, streams::Stream},
    domain::command::{Command, PredicateAnswer},
    messages::rm::Answer,
};

impl Server {
    /// What was said about turns reaches partitions as a message.
    pub(super) fn pass_turns(&mut self) {
        self.later.extend(self.turns.take());
    }

    /// Messages that partitions were sent meanwhile.
    pub(super) fn read_messages(&mut self) {
        if self.reading {
            return;
        }
        self.reading = true;
        while let Some((internal, commands)) = self.later.pop_front() {
            self.reach(&internal, commands);
        }
        self.reading = false;
    }

    fn reach(&mut self, internal: &Arc<str>, commands: Vec<Command>) {
        if let Some(at) = self.parts.iter().position(|live| live.internal == *internal) {
            self.arrive(at, commands, None);
        }
    }

    /// A partition learns that nobody will answer.
    pub fn unanswered(&mut self, internal: &Arc<str>, questions: Vec<u64>) {
        self.reach(internal, questions.into_iter().map(Command::Unanswered).collect());
    }

    /// Answers reach the partition that asked.
    pub fn answered(&mut self, internal: &Arc<str>, answers: Vec<PredicateAnswer>) {
        self.reach(internal, answers.into_iter().map(Command::Predicate).collect());
    }

    /// The shim answered.
    pub fn answer(&mut self, answer: Answer) {
        let in_turn = self.questions.is_in_turn(answer.id);
        match self.questions.answer(answer.id, answer.body) {
            Some((partition, answers)) if in_turn => {
                self.turns.answer(partition, answers);
                self.pass_turns();
                self.read_messages();
            }
            Some((partition, answers)) => self.answered(&partition, answers),
            None => {}
        }
    }

    /// Questions that nobody answers are given up.
    pub fn expire_questions(&mut self) {
        let now = self.instant(self.now);
        let held = self.streams.all.as_ref().map(Stream::held);
        let Expired { late, unasked } = self.questions.expire(now, self.settings.predicates, held);
        for (partition, answers) in late {
            self.answered(&partition, answers);
        }
        for (partition, questions) in unasked {
            self.unanswered(&partition, questions);
        }
    }

    /// Questions that were open when a process ended are put once more.
    pub fn ask_again(&mut self, open: BTreeMap<u64, Open>) {
        if open.is_empty() {
            return;
        }
        self.log.append(kind::RESTARTED, self.now, &[]);
        let (now, timeout) = (self.instant(self.now), self.settings.predicates);
        for open in open.into_values() {
            for payload in open.payloads() {
                let line = self.buffer.last() + 1;
                self.questions.put(line, open.partition.clone(), payload.questions(), now, timeout);
                self.push(open.partition.clone(), payload);
            }
        }
        self.line_waits();
        self.commit();
    }
}
