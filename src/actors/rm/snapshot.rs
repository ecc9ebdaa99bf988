//! Snapshots of a session: taken of clones, and written on another thread, so that a restart reads little of the log.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix::prelude::*;
use futures::future::join_all;
use tokio::sync::oneshot;

use super::{
    RmActor,
    buffer::weight,
    log::{RmLog, SNAPSHOT},
    record::{self, SavedPartition, SavedQuestion, SavedSession, kind},
    saved_lines,
};
use crate::{
    domain::types::Nanos,
    messages::{
        partition::{Save, Saved},
        rm::{CloseLog, Kind, Line},
    },
    store::log::{self, Part, Place, WriteError},
};

/// Lines of a snapshot are at most this part of the log behind the one before, so that writing them costs little, however
/// many there are.
const LINES: u64 = 2;
/// Work of the partitions that counts as much as [`SNAPSHOT`]: a restart has to do it again, however few bytes say so.
const WORK: Duration = Duration::from_secs(10);
/// The server ends, and does not wait longer for a snapshot: a restart reads more of the log then.
const AT_THE_END: Duration = Duration::from_secs(3);

/// All partitions have answered.
#[derive(Message)]
#[rtype(result = "()")]
struct TakeSnapshot {
    epoch: u64,
    /// Records up to this one were made before any partition was asked.
    from: u64,
    saved: Vec<Saved>,
    /// Who waits for it to be written.
    done: Option<oneshot::Sender<()>>,
}

/// It was written, or not.
#[derive(Message)]
#[rtype(result = "()")]
struct SnapshotDone {
    epoch: u64,
    /// See `RmLog::snapshots`.
    written: Option<(u64, u64)>,
}

impl RmLog {
    /// What a restart would have to replay, in bytes of log.
    pub(super) fn behind(&self) -> u64 {
        let work = self.work.as_secs_f64() / WORK.as_secs_f64() * SNAPSHOT as f64;
        self.since.max(work as u64)
    }

    /// A replay took so long for these bytes, which no snapshot has.
    pub(super) fn done_again(&mut self, bytes: u64, work: Duration) {
        (self.since, self.work) = (bytes, work);
    }
}

/// A log that is full: when snapshots are to make room. What lines take is kept for a while, so the first ones may be too early, and a
/// session that may place nothing writes nothing that would ask for another.
#[derive(Debug, Default)]
pub(super) struct MakingRoom {
    /// For so many seconds.
    seconds: u32,
    /// Snapshots that are due.
    snapshots: u32,
}

impl MakingRoom {
    /// After half a minute, one minute, two minutes and so on.
    const AGAIN: u32 = 32;

    fn pass(&mut self) {
        if self.seconds == 0 || (self.seconds >= MakingRoom::AGAIN && self.seconds.is_power_of_two()) {
            self.snapshots = 2;
        }
        self.seconds = self.seconds.saturating_add(1);
    }
}

impl RmActor {
    /// A snapshot may begin: none is under way, the log can be written, and all partitions would be in it. Until then the next start
    /// reads more of the log.
    fn may_snapshot(&self) -> bool {
        let (Some(log), Some(session)) = (&self.log, &self.session) else { return false };
        !log.snapshotting && log.failing().is_none() && *session.leaving.borrow() == 0
    }

    /// Begins a snapshot, where enough was recorded since the last.
    pub(super) fn snapshot_if_due(&mut self, ctx: &mut Context<Self>) {
        let may = self.may_snapshot();
        let (Some(log), Some(session)) = (&mut self.log, &self.session) else { return };
        if !may || log.behind() < log.due {
            return;
        }
        let reached = log.trail.note(self.clock.now(), session.buffer.delivered());
        let lines = session.buffer.kept_after(reached).1;
        let bytes: u64 = lines.iter().map(|line| weight(&line.payload) as u64).sum();
        log.due = log.logs.snapshot.max(bytes * LINES);
        if log.behind() >= log.due {
            self.take_snapshot(None, ctx);
        }
    }

    /// Has snapshots taken to make room in a log that is full: two at once, since the log before the second newest can go, then as often
    /// as it has grown enough, and now and then. Called each second.
    pub(super) fn make_room(&mut self, bytes: u64, ctx: &mut Context<Self>) {
        self.for_room.pass();
        let Some(log) = &self.log else { return };
        let due = self.for_room.snapshots > 0 || log.behind() >= bytes / 16;
        if due && log.behind() > 0 && self.may_snapshot() {
            self.for_room.snapshots = self.for_room.snapshots.saturating_sub(1);
            self.take_snapshot(None, ctx);
        }
    }

    /// Begins a snapshot.
    fn take_snapshot(&mut self, done: Option<oneshot::Sender<()>>, ctx: &mut Context<Self>) {
        let (Some(log), Some(session)) = (&mut self.log, &self.session) else { return };
        log.snapshotting = true;
        log.done_again(0, Duration::ZERO);
        let (epoch, from, actor) = (session.epoch, log.last(), ctx.address());
        let asked: Vec<_> = session.partitions.iter().map(|partition| partition.addr.send(Save)).collect();
        actix::spawn(async move {
            let saved = join_all(asked).await.into_iter().flatten().collect();
            // Through the mailbox, behind the records of what was saved.
            actor.do_send(TakeSnapshot { epoch, from, saved, done });
        });
    }

    fn snapshot(&mut self, msg: TakeSnapshot, ctx: &mut Context<Self>) {
        let (now, standing) = (self.clock.now(), self.saved_standing());
        let Some(log) = &mut self.log else { return };
        let Some(session) = &self.session else {
            // It ended meanwhile; the next has snapshots of its own.
            log.snapshotting = false;
            return;
        };
        let is_there = |saved: &Saved| session.received.get(&saved.instance).is_some_and(|last| *last >= saved.number);
        if session.epoch != msg.epoch || msg.saved.len() != session.partitions.len() || !msg.saved.iter().all(is_there)
        {
            // The session or its partitions changed meanwhile: there will be another.
            log.snapshotting = false;
            return;
        }
        let questions = session
            .questions
            .open()
            .map(|(line, partition, question)| SavedQuestion::of(partition, line, session.asking, question));
        let (dropped, lines) = session.buffer.kept_after(log.trail.note(now, session.buffer.delivered()));
        let saved = SavedSession {
            dropped,
            from: msg.from,
            registered: session.registration(log.sync, &self.repeatable),
            manner: session.manner.clone(),
            last: session.buffer.last(),
            handed: Kind::ALL.map(|kind| session.buffer.handed(kind)),
            last_release: session.buffer.last(),
            questions: questions.collect(),
            instances: session.instances.get(),
            numbers: log.numbers.clone(),
            keys: log.keys.clone(),
            events: Some(log.events),
            standing,
        };
        let place = (log.last(), msg.from);
        let (shared, title, home) = (log.shared.clone(), log.title.clone(), log.home.clone());
        let (epoch, at, rm, actor) = (session.epoch, log.at(), self.id.clone(), ctx.address());
        let metrics = log.logs.metrics.clone();
        let TakeSnapshot { saved: partitions, done, .. } = msg;
        actix::spawn(async move {
            let written = tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                // What it holds is on the disk before it.
                shared.commit(true)?;
                let parts = parts(&saved, partitions, &lines, now);
                let keep = || home.snapshot(&title, Place { index: place.0, from: place.1 }, at, &parts);
                let Some(bytes) = shared.snapshot(keep)? else { return Ok(None) };
                if let Some(metrics) = metrics {
                    metrics.snapshot(bytes, began.elapsed());
                }
                tracing::info!(rm = &*rm, index = place.0, bytes, took = ?began.elapsed(), "snapshot of the log");
                Ok::<_, log::WriteError>(Some(place))
            });
            let written = match written.await {
                Ok(Ok(place)) => place,
                Ok(Err(error)) => {
                    tracing::error!(code = "log-no-snapshot", "{error}; a restart reads more of the log");
                    None
                }
                Err(error) => {
                    tracing::error!(code = "log-no-snapshot", %error, "writing a snapshot broke down; a restart reads more of the log");
                    None
                }
            };
            actor.do_send(SnapshotDone { epoch, written });
            // Whoever waits learns of it by the end of this channel.
            drop(done);
        });
    }

    /// Snapshots and segments that nothing needs any more go: the newest is kept, and that before it, in case the newest is
    /// damaged.
    fn prune(&mut self) {
        let Some(log) = &mut self.log else { return };
        let keep = log.snapshots.len().saturating_sub(2);
        log.snapshots.drain(..keep);
        let [(index, from), _] = log.snapshots[..] else { return };
        let home = log.home.clone();
        actix::spawn(async move {
            let pruned = tokio::task::spawn_blocking(move || home.prune(from + 1, index)).await;
            if let Ok(Err(error)) = pruned {
                tracing::warn!(code = "log-old-file", %error, "old files of the log cannot be removed");
            }
        });
    }
}

/// The parts of a snapshot. Takes a while.
pub fn parts(session: &SavedSession, partitions: Vec<Saved>, lines: &[Arc<Line>], at: Nanos) -> Vec<Part> {
    let mut parts = vec![Part { kind: kind::SESSION, payload: record::json(session) }];
    for Saved { instance, number, partition, talks } in partitions {
        let payload = SavedPartition::of(instance, number, at, talks).with(&partition.save());
        parts.push(Part { kind: kind::SAVED, payload });
    }
    parts.push(Part { kind: kind::LINES, payload: saved_lines::write(lines) });
    parts
}

impl Handler<TakeSnapshot> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: TakeSnapshot, ctx: &mut Self::Context) {
        self.snapshot(msg, ctx);
    }
}

impl Handler<SnapshotDone> for RmActor {
    type Result = ();

    fn handle(&mut self, msg: SnapshotDone, _ctx: &mut Self::Context) {
        let Some(log) = &mut self.log else { return };
        log.snapshotting = false;
        if self.session.as_ref().is_some_and(|session| session.epoch == msg.epoch) {
            log.snapshots.extend(msg.written);
            self.prune();
        }
    }
}

impl Handler<CloseLog> for RmActor {
    type Result = ResponseActFuture<Self, bool>;

    /// First all records get to the disk. A snapshot comes after that: it only makes the next start quicker. What partitions do behind
    /// it, as a deadline comes, is not recorded where the server ends: its events would come to a store that is closed.
    fn handle(&mut self, CloseLog { last }: CloseLog, ctx: &mut Self::Context) -> Self::Result {
        let (flushed, rm) = (self.flushed(false), self.id.clone());
        let is_wanted = self.log.as_ref().is_some_and(|log| log.behind() > 0) && self.may_snapshot();
        let written = is_wanted.then(|| {
            let (done, written) = oneshot::channel();
            self.take_snapshot(Some(done), ctx);
            written
        });
        let ends = self.log.as_ref().filter(|_| last).map(|log| (log.shared.clone(), log.logs.directory(&self.id)));
        let closed = async move {
            let flushed = flushed.await;
            if let Err(why) = &flushed {
                tracing::error!(code = "log-not-written", rm = &*rm, "{why}");
                return (false, None);
            }
            if let Some(written) = written
                && tokio::time::timeout(AT_THE_END, written).await.is_err()
            {
                tracing::warn!(
                    code = "log-no-snapshot",
                    rm = &*rm,
                    "the snapshot at the end takes too long: the next start reads more of the log"
                );
            }
            let Some((shared, dir)) = ends else { return (true, None) };
            let ended = tokio::task::spawn_blocking(move || shared.end()).await;
            (true, Some(ended.unwrap_or_else(|error| Err(WriteError::broke_down(dir, &error)))))
        };
        Box::pin(closed.into_actor(self).map(|(closed, ended), actor, ctx| {
            // What came of the last records leaves before the answer.
            if let Some(ended) = &ended {
                actor.settled(ended, ctx);
            }
            closed && ended.is_none_or(|ended| ended.is_ok())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_is_tried_again_ever_less_often() {
        let mut room = MakingRoom::default();
        let mut due = Vec::new();
        for second in 0..300 {
            room.pass();
            if room.snapshots > 0 {
                due.push(second);
                room.snapshots -= 1;
            }
        }
        assert_eq!(due, [0, 1, 32, 33, 64, 65, 128, 129, 256, 257]);
    }
}
