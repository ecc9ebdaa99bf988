//! What the shim makes of what it is told, and how all comes to rest at the end.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    case::chance,
    run::{Event, Ran, Run},
    server::{Live, Server},
};
use crate::{
    domain::{
        command::{Command, ReleaseItem},
        effect::{Question, QuestionKind, Released},
        resources::Resource,
        types::{Nanos, Termination},
    },
    messages::rm::{Answer, AnswerBody, Line, Payload},
};
use sha2::Digest as _;

/// At the end there is so much time for all to come to rest.
const SETTLING: Nanos = Nanos::from_secs(400);

/// How long what began at the very end of that may take to arrive and be answered.
const ARRIVING: Nanos = Nanos::from_secs(20);

/// And this much for what is removed then.
const REMOVING: Nanos = Nanos::from_secs(60);

impl Run<'_> {
    /// A line reaches the shim: the next one, once.
    pub(super) fn heard(&mut self, line: &Arc<Line>) {
        if line.seq != self.knows.line + 1 {
            let text = format!("line {} follows line {}", line.seq, self.knows.line);
            return self.fault("every line comes once and in order", text);
        }
        self.knows.line = line.seq;
        self.lines += 1;
        self.digest.update(format!("{} {} {:?}", line.seq, line.partition, line.payload));
        let Some(at) = self.server.parts.iter().position(|live| live.internal == line.partition) else { return };
        match &line.payload {
            Payload::New(list) => {
                for new in list {
                    let id = (new.app.clone(), new.spec.key.clone());
                    let ran = Ran { node: new.node.clone(), spec: new.spec.clone(), size: new.resource.clone() };
                    self.knows.runs.insert(id.clone(), ran);
                    let (app, key, seq) = (&*id.0, &*id.1, line.seq.to_string());
                    if self.happens(self.shim().fails, &["fails", app, key, &seq]) {
                        self.later(at, 5, &id, Termination::FailedOnRm);
                    } else if !new.spec.placeholder && self.happens(self.shim().ends, &["ends", app, key, &seq]) {
                        let after = 500 + (chance(self.case.seed, &["lasts", key, &seq]) % 40_000) as i64;
                        self.later(at, after, &id, Termination::StoppedByRm);
                    }
                }
            }
            Payload::Released(list) => list.iter().for_each(|released| self.told_to_go(at, released)),
            payload => self.asked(line.seq, payload),
        }
    }

    fn later(&mut self, at: usize, millis: i64, (app, key): &(Arc<str>, Arc<str>), termination: Termination) {
        let releases = vec![ReleaseItem { app: app.clone(), key: key.clone(), termination }];
        let commands = vec![(at, Command::Allocations { allocations: Vec::new(), releases })];
        self.at(self.server.now.plus(Nanos::from_millis(millis)), Event::Send(commands));
    }

    /// A release of the server: the shim confirms it in time, late, twice, never or wrongly.
    fn told_to_go(&mut self, at: usize, released: &Released) {
        let id = (released.app.clone(), released.key.clone());
        if !released.confirm {
            self.knows.runs.remove(&id);
            return;
        }
        let asked = self.knows.asked.entry(id.clone()).or_default();
        *asked += 1;
        let (times, termination) = (asked.to_string(), released.termination);
        let (app, key, shim) = (&*id.0, &*id.1, self.shim().clone());
        let about = |what: &'static str| [what, app, key, &*times].map(str::to_owned);
        let is = |run: &Run, hundredths: u8, what: &'static str| {
            let about = about(what);
            run.happens(hundredths, &about.each_ref().map(String::as_str))
        };
        if is(self, shim.never, "never") {
            return;
        }
        let lie =
            [Termination::StoppedByRm, Termination::Timeout, Termination::PlaceholderReplaced, Termination::Preempted];
        let said = if is(self, shim.lies, "lies") { lie[(times.len() + key.len()) % 4] } else { termination };
        let delay = if is(self, shim.late, "late") {
            (chance(self.case.seed, &["how late", app, key]) % 45_000) as i64
        } else {
            0
        };
        self.later(at, delay, &id, said);
        if is(self, shim.twice, "twice") {
            self.later(at, delay + 20, &id, said);
        }
    }

    fn asked(&mut self, line: u64, payload: &Payload) {
        let seq = line.to_string();
        let Some(id) = self.connection.as_ref().map(|open| open.id) else { return };
        let one = |question: &Question, node: &Arc<str>| -> Result<(), Arc<str>> {
            let about = ["refuses", &question.key, node, &(line / 20).to_string()];
            let always = ["insists", &question.key, node];
            if self.happens(self.shim().refuses, &about) || self.happens(self.shim().insists, &always) {
                Err("it does not like the node".into())
            } else {
                Ok(())
            }
        };
        let all = |question: &Question| -> Vec<Result<(), Arc<str>>> {
            [&question.node].into_iter().chain(&question.more).map(|node| one(question, node)).collect()
        };
        let body = match payload {
            Payload::Ask(question) => {
                let index = match &question.kind {
                    QuestionKind::Fits { .. } => 0,
                    QuestionKind::FitsWithout { victims, start } => {
                        let left = (victims.len() as i32 - start).max(1) as u64;
                        start + (chance(self.case.seed, &["index", &seq]) % left) as i32
                    }
                };
                AnswerBody::Single { result: one(question, &question.node), index }
            }
            Payload::AskBatch(question) => AnswerBody::Batch(all(question)),
            Payload::AskSeveral(questions) => AnswerBody::Several(questions.iter().map(all).collect()),
            _ => return,
        };
        if self.happens(self.shim().silent, &["silent", &seq]) {
            return;
        }
        let delay = self.delay(&["answer", &seq]);
        self.at(self.server.now.plus(delay), Event::Answer(id, Answer { id: line, body }));
    }

    /// From here on all goes well: everything arrives, is confirmed and comes to rest. Then both sides know the same.
    pub(super) fn settle(&mut self) {
        self.calm = true;
        if let Some(cluster) = &self.server.cluster {
            cluster.calm();
        }
        self.server.end_snapshot();
        if self.connection.is_none() {
            self.connect();
        }
        self.pump();
        self.pass(self.server.now.plus(SETTLING));
        for _ in 0..5 {
            if !self.is_at_rest() {
                self.pass(self.server.now.plus(ARRIVING));
            }
        }
        let Server { parts, rules, now, faults, .. } = &mut self.server;
        parts.iter().for_each(|live| rules.settled(&live.internal, &live.partition, *now, faults));
        if !self.server.faults.is_empty() {
            return;
        }
        if let Some(live) = self.server.parts.iter().find(|live| live.lookup.is_some() || !live.inbox.is_empty()) {
            let text = format!("{} waits for a directory for ever", live.internal);
            self.fault("an end", text);
        }
        if !self.knows.sent.is_empty() {
            let text = format!("{} requests were sent and are not acknowledged", self.knows.sent.len());
            self.fault("what is sent is acknowledged", text);
        }
        if self.knows.line != self.server.buffer.last() {
            let text = format!("the shim has line {}, of {}", self.knows.line, self.server.buffer.last());
            self.fault("every line comes once and in order", text);
        }
        if let Some(row) = self.server.parts.iter().flat_map(|live| live.talks.unconfirmed.values()).next() {
            let text = format!("{} of {} waits for a confirmation for ever", row.release.key, row.release.app);
            self.fault("what is confirmed is settled", text);
        }
        let mut there: BTreeMap<(Arc<str>, Arc<str>), Arc<str>> = BTreeMap::new();
        for live in &self.server.parts {
            let partition = &live.partition;
            for app in partition.app_by_id.values().map(|ix| &partition.apps[*ix]) {
                for row in app.allocs.keys().map(|ix| &partition.allocs[*ix]).filter(|row| row.is_allocated()) {
                    let node = row.node.map(|node| partition.nodes[node].spec.id.clone());
                    there.insert((app.id.clone(), row.spec.key.clone()), node.unwrap_or_default());
                }
            }
        }
        let unsure = |id: &(Arc<str>, Arc<str>)| {
            self.knows.unsure.contains(id) || self.knows.unsure.contains(&(id.0.clone(), "".into()))
        };
        let mut text = String::new();
        for (id, node) in there.iter().filter(|(id, _)| !unsure(id)) {
            if self.knows.runs.get(id).map(|ran| &ran.node) != Some(node) {
                text = format!("{} of {} is on {node}, and the shim does not know", id.1, id.0);
            }
        }
        for id in self.knows.runs.keys().filter(|id| !unsure(id) && !there.contains_key(*id)) {
            text = format!("the shim runs {} of {}, and the server does not know", id.1, id.0);
        }
        if !text.is_empty() {
            return self.fault("both sides know the same at the end", text);
        }
        self.leave_nothing();
    }

    /// Nothing is on its way between the two.
    fn is_at_rest(&self) -> bool {
        self.knows.sent.is_empty()
            && self.knows.line == self.server.buffer.last()
            && self.server.parts.iter().all(|live| live.talks.unconfirmed.is_empty())
    }

    /// The shim removes all that it has: nothing of it is left in any book.
    fn leave_nothing(&mut self) {
        let apps: Vec<(usize, Arc<str>)> = self
            .server
            .parts
            .iter()
            .enumerate()
            .flat_map(|(at, live)| live.partition.app_by_id.keys().map(move |app| (at, app.clone())))
            .collect();
        for (at, app) in apps {
            self.send(vec![(at, Command::Applications { new: Vec::new(), remove: vec![app] })]);
        }
        self.pass(self.server.now.plus(REMOVING));
        let mut left = Vec::new();
        for Live { internal, partition, .. } in &self.server.parts {
            let root = &partition.queues[partition.root];
            let books: [(&str, &Resource); 4] = [
                ("allocated", root.allocated()),
                ("pending", root.pending()),
                ("preempting", &root.preempting),
                ("promised", root.claimed()),
            ];
            let counts = [partition.allocations, partition.placeholders, partition.reservations];
            let nodes = partition.nodes.values();
            let users = partition.ugm.users().count() + partition.ugm.groups().count();
            if books.iter().any(|(_, book)| !book.is_zero())
                || counts != [0; 3]
                || nodes.into_iter().any(|node| !node.allocs.is_empty() || !node.allocated().is_zero())
                || users > 0
            {
                left.push(format!(
                    "{internal}: allocations, placeholders, reservations {counts:?}, {users} users and groups, root {books:?}"
                ));
            }
        }
        left.into_iter().for_each(|text| self.fault("what is removed leaves nothing behind", text));
    }
}
