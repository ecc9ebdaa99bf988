//! The session of the simulated server towards its shim: streams, what is sent once more, how far lines have come, and
//! snapshots.

use std::{sync::Arc, time::Duration};

use super::server::{RM, Server, closing};
use crate::{
    actors::{
        application,
        rm::{
            record::{self, Ended, Manner, SavedQuestion, SavedSession, SavedStandings, kind},
            snapshot,
            streams::Stream,
            traced::Traced,
        },
    },
    domain::{command::Command, effect::Callback, types::Nanos},
    messages::{
        application::UnconfirmedRelease,
        clock::nanos,
        partition::Saved,
        rm::{Attach, Deliver, Kind, Outgoing, Payload, Predicates, Refusal},
    },
    store::log,
};

impl Server {
    /// A stream of the shim is opened.
    ///
    /// # Errors
    /// It cannot go on there.
    pub fn attach(&mut self, attach: Attach, after: Option<u64>) -> Result<u64, Refusal> {
        self.collect();
        let after = self.buffer.resume(after, self.restored)?;
        self.next_stream += 1;
        let id = self.next_stream;
        let before = self.streams.all.as_ref().map(Stream::held);
        for (partition, questions) in self.questions.resume(after, before) {
            self.unanswered(&partition, questions);
        }
        let stream = Stream::new(id, attach, self.now).resume(self.buffer.cursor(after));
        self.streams.open_all(stream, &closing());
        let credits = self.buffer.hand(after, None);
        self.give_back(credits);
        if self.had_stream {
            self.send_again(after, |_| true);
        }
        self.had_stream = true;
        self.log.trail.goes_on(self.now, after);
        self.ask(record::asks_of(self.registered.predicates).unwrap_or_default());
        self.note_manner();
        self.paused = None;
        self.budget.pause(false);
        for at in 0..self.parts.len() {
            self.slice(at);
        }
        self.pump();
        Ok(id)
    }

    /// The server learns that a stream is gone.
    pub fn detach(&mut self, id: u64) {
        self.collect();
        if self.streams.remove(id).is_none() {
            return;
        }
        self.log.trail.broke(self.now);
        self.note_manner();
        self.budget.pause(true);
        self.paused = Some(self.now);
        for (partition, questions) in self.questions.give_up() {
            self.unanswered(&partition, questions);
        }
    }

    /// When the session ends where no stream comes back: `rm.pauseTimeout`.
    pub fn patience_ends(&self) -> Option<Nanos> {
        let time = nanos(self.settings.pause);
        self.paused.filter(|_| !self.stopped).map(|since| since.plus(time))
    }

    /// No stream came back in time: the session ends, and the shim has to register again.
    pub fn stop(&mut self) {
        self.end_session();
        self.counts.stops += 1;
        (self.stopped, self.paused) = (true, None);
        let ended = Ended {
            epoch: self.epoch,
            why: "it was Paused for too long".into(),
            lost: false,
            events: Some(self.log.events),
            repeatable: Vec::new(),
        };
        self.log.begin_segment();
        self.log.append(kind::ENDED, self.now, &record::json(&ended));
        self.log.snapshots.clear();
        self.snapshots.clear();
        self.drop_halves();
        // Whether a session ends that nothing can be written of is not what is looked at here.
        self.mend_disk();
        self.flush_surely();
    }

    /// What the shim has not confirmed is sent once more, except for what a new stream is about to get.
    fn send_again(&mut self, after: u64, is_due: impl Fn(&UnconfirmedRelease) -> bool) {
        let mut under_way: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for line in self.buffer.kept_after(after).1 {
            if let Payload::Released(releases) = &line.payload {
                under_way
                    .extend(releases.iter().filter(|one| one.confirm).map(|one| (one.app.clone(), one.key.clone())));
            }
        }
        for at in 0..self.parts.len() {
            self.route(at);
            let live = &mut self.parts[at];
            let again = live.talks.unconfirmed.values_mut().filter(|row| {
                is_due(row) && !under_way.iter().any(|(app, key)| *app == row.release.app && *key == row.release.key)
            });
            let again: Vec<Outgoing> = again
                .map(|row| {
                    row.sent += 1;
                    Outgoing::Callback(Callback::Released(Box::new(row.release.clone())))
                })
                .collect();
            if !again.is_empty() {
                let partition = live.internal.clone();
                self.budget.made(again.len(), 0);
                self.deliver(Deliver {
                    epoch: self.epoch,
                    partition,
                    items: again,
                    turns: Vec::new(),
                    entry: None,
                    traced: Vec::new(),
                    weight: 0,
                });
            }
        }
    }

    /// When a release is to be sent once more that the shim has not confirmed.
    pub fn resend_at(&self) -> Option<Nanos> {
        let first = self.settings.patience.resend_after;
        self.parts.iter().flat_map(|live| live.talks.unconfirmed.values().map(|row| due(row, first))).min()
    }

    /// What has waited for long enough is sent once more, unless it is still on its way.
    pub fn remind(&mut self) {
        let (now, first) = (self.now, self.settings.patience.resend_after);
        self.send_again(self.buffer.delivered(), |row| due(row, first) <= now);
    }

    fn ask(&mut self, wanted: Predicates) {
        let (before, after) = (self.asking != Predicates::Off, wanted != Predicates::Off);
        self.asking = wanted;
        self.tell_terms();
        if before != after {
            self.command_all(|| Command::AskPredicates(after));
        }
    }

    fn note_manner(&mut self) {
        let manner = Manner { asking: record::number_of(self.asking), had_stream: self.had_stream, heartbeats: false };
        if manner != self.manner {
            self.log.append(kind::MANNER, self.now, &record::json(&manner));
            self.manner = manner;
            self.line_waits();
            self.commit();
        }
    }

    /// Says in the log how far lines were handed to sockets.
    pub fn note_handed(&mut self) {
        if self.stopped {
            return;
        }
        self.log.trail.note(self.now, self.buffer.delivered());
        let handed = Kind::ALL.map(|kind| self.buffer.handed(kind));
        if handed != self.log.handed {
            self.log.handed = handed;
            self.log.append(kind::HANDED, self.now, &record::handed(handed));
            self.line_waits();
            self.commit();
        }
    }

    fn collect(&mut self) {
        let credits = self.streams.collect(&mut self.buffer);
        self.give_back(credits);
    }

    /// Sends what streams may take.
    pub fn pump(&mut self) {
        let waited = !self.budget.may_place();
        loop {
            self.collect();
            if !self.streams.pump(&mut self.buffer, self.budget.pressure(), &Traced::default()) {
                break;
            }
        }
        let now = self.instant(self.now);
        if let Some(stream) = &self.streams.all {
            self.questions.sent(stream.sent(), now, self.settings.predicates);
        }
        if !self.buffer.trim(self.settings.bounds, self.streams.all.as_ref().map(Stream::cursor)) {
            self.fault("lines are kept", "more waits than the bounds of the buffer allow".to_owned());
        }
        if waited && self.budget.may_place() {
            for at in 0..self.parts.len() {
                self.slice(at);
            }
        }
    }

    /// The first half of a snapshot: the partitions.
    pub fn begin_snapshot(&mut self) {
        if self.stopped {
            return;
        }
        let from = self.log.last();
        for at in 0..self.parts.len() {
            let live = &self.parts[at];
            if !live.effects.is_empty() || !live.recorder.is_empty() {
                self.leave(at);
            }
        }
        let saved = self.parts.iter().map(|live| {
            let (instance, number) = live.recorder.place();
            Saved { instance, number, partition: live.partition.clone(), talks: live.talks.clone() }
        });
        self.halves = Some((from, saved.collect()));
    }

    /// The second half of one that was begun: the session.
    pub fn end_snapshot(&mut self) {
        let Some((from, saved)) = self.halves.take() else { return };
        let questions = self
            .questions
            .open()
            .map(|(line, partition, question)| SavedQuestion::of(partition, line, self.asking, question));
        let questions = questions.collect();
        let (dropped, lines) = self.buffer.kept_after(self.log.trail.note(self.now, self.buffer.delivered()));
        let session = SavedSession {
            dropped,
            from,
            registered: self.registered.clone(),
            manner: self.manner.clone(),
            last: self.buffer.last(),
            handed: Kind::ALL.map(|kind| self.buffer.handed(kind)),
            last_release: self.buffer.last(),
            questions,
            instances: self.instances,
            numbers: self.log.numbers.clone(),
            keys: self.log.keys.clone(),
            events: Some(self.log.events),
            // No configuration of this world leaves a partition out.
            standing: SavedStandings::new(),
        };
        let place = log::Place { index: self.log.last(), from };
        // What it holds is on the disk before it.
        self.flush();
        if self.log.shared.synced() < place.index {
            return;
        }
        let parts = snapshot::parts(&session, saved, &lines, self.now);
        let (home, title) = (self.home(), self.logs.title(RM));
        // The next one is whole, where etcd did not say that it has this.
        let may_fail = self.cluster.is_some();
        if let Err(error) = home.snapshot(&title, place, self.now, &parts) {
            return if may_fail { self.drop_halves() } else { self.fault("the log", error.to_string()) };
        }
        self.snapshots.push((place.index, place.from));
        let keep = self.snapshots.len().saturating_sub(2);
        self.snapshots.drain(..keep);
        if let [(index, from), _] = self.snapshots[..]
            && let Err(error) = home.prune(from + 1, index)
            && !may_fail
        {
            self.fault("the log", error.to_string());
        }
    }

    /// A snapshot whose first half was taken is given up.
    pub fn drop_halves(&mut self) {
        self.halves = None;
    }
}

/// When a release is sent once more: `rm.resendAfter` after it was sent first, then after twice that time each.
fn due(row: &UnconfirmedRelease, first: Duration) -> Nanos {
    (1..=row.sent.min(100)).fold(row.since, |at, sent| at.plus(application::wait(first, sent)))
}
