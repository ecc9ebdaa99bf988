//! Snapshots of a session: taken of clones, and written on another thread, so that a restart reads little of the log.

use std::time::Instant;

use actix::prelude::*;
use futures::future::join_all;

use super::{
    RmActor,
    record::{self, SavedPartition, SavedQuestion, SavedSession, kind},
};
use crate::{
    domain::types::Nanos,
    messages::{
        partition::{Save, Saved},
        rm::{Kind, Predicates},
    },
    store::log::{self, Part},
};

/// All partitions have answered.
#[derive(Message)]
#[rtype(result = "()")]
struct TakeSnapshot {
    epoch: u64,
    /// Records up to this one were made before any partition was asked.
    from: u64,
    saved: Vec<Saved>,
}

/// It was written, or not.
#[derive(Message)]
#[rtype(result = "()")]
struct SnapshotDone {
    epoch: u64,
    /// See `RmLog::snapshots`.
    written: Option<(u64, u64, u64)>,
}

impl RmActor {
    /// Begins a snapshot, where enough was recorded since the last.
    pub(super) fn snapshot_if_due(&mut self, ctx: &mut Context<Self>) {
        let (Some(log), Some(session)) = (&mut self.log, &self.session) else { return };
        if log.snapshotting || log.since < log.logs.snapshot || log.failing().is_some() {
            return;
        }
        log.snapshotting = true;
        log.since = 0;
        let (epoch, from, actor) = (session.epoch, log.last(), ctx.address());
        let asked: Vec<_> = session.partitions.iter().map(|partition| partition.addr.send(Save)).collect();
        actix::spawn(async move {
            let saved = join_all(asked).await.into_iter().flatten().collect();
            // Through the mailbox, behind the records of what was saved.
            actor.do_send(TakeSnapshot { epoch, from, saved });
        });
    }

    fn snapshot(&mut self, msg: TakeSnapshot, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        let (Some(log), Some(session)) = (&mut self.log, &self.session) else { return };
        let is_there = |saved: &Saved| session.received.get(&saved.instance).is_some_and(|last| *last >= saved.number);
        if session.epoch != msg.epoch || msg.saved.len() != session.partitions.len() || !msg.saved.iter().all(is_there)
        {
            // The session or its partitions changed meanwhile: there will be another.
            log.snapshotting = false;
            return;
        }
        let questions = session.questions.open().map(|(line, partition, question)| {
            SavedQuestion::of(partition, line, session.asking == Predicates::Batch, question)
        });
        let saved = SavedSession {
            from: msg.from,
            registered: session.registration(log.sync),
            manner: session.manner.clone(),
            last: session.buffer.last(),
            handed: Kind::ALL.map(|kind| session.buffer.handed(kind)),
            last_release: session.last_release,
            questions: questions.collect(),
            instances: session.instances.get(),
            numbers: log.numbers.clone(),
        };
        let place = (log.last(), msg.from, saved.last);
        let (shared, title, dir) = (log.shared.clone(), log.title.clone(), log.logs.directory(&self.id));
        let (epoch, at, rm, actor) = (session.epoch, log.at(), self.id.clone(), ctx.address());
        let metrics = log.logs.metrics.clone();
        actix::spawn(async move {
            let written = tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                // What it holds is on the disk before it.
                shared.commit(true)?;
                let parts = parts(&saved, msg.saved, now);
                let bytes = log::write_snapshot(&dir, &title, place.0, at, &parts)?;
                if let Some(metrics) = metrics {
                    metrics.snapshot(bytes, began.elapsed());
                }
                tracing::info!(rm = &*rm, index = place.0, bytes, took = ?began.elapsed(), "snapshot of the log");
                Ok::<_, log::WriteError>(())
            });
            let written = match written.await {
                Ok(Ok(())) => Some(place),
                Ok(Err(error)) => {
                    tracing::error!(code = "log-no-snapshot", "{error}; a restart reads more of the log");
                    None
                }
                Err(_) => None,
            };
            actor.do_send(SnapshotDone { epoch, written });
        });
    }

    /// Snapshots and segments that nothing needs any more go: the newest is kept, that before it, and the newest whose lines
    /// have all reached the shim.
    fn prune(&mut self) {
        let now = self.clock.now();
        let (Some(log), Some(session)) = (&mut self.log, &self.session) else { return };
        let reached = log.note_delivered(now, session.buffer.delivered());
        let sure = log.snapshots.iter().rposition(|(_, _, line)| *line <= reached);
        let keep = sure.unwrap_or(0).min(log.snapshots.len().saturating_sub(2));
        if sure.is_none() {
            // Only the log from its beginning makes the lines anew that may still be asked for.
            return;
        }
        log.snapshots.drain(..keep);
        let Some((index, from, _)) = log.snapshots.first().copied() else { return };
        let dir = log.logs.directory(&self.id);
        actix::spawn(async move {
            let pruned = tokio::task::spawn_blocking(move || log::prune(&dir, from + 1, index)).await;
            if let Ok(Err(error)) = pruned {
                tracing::warn!(code = "log-old-file", %error, "old files of the log cannot be removed");
            }
        });
    }
}

/// The parts of a snapshot. Takes a while.
fn parts(session: &SavedSession, partitions: Vec<Saved>, at: Nanos) -> Vec<Part> {
    let mut parts = vec![Part { kind: kind::SESSION, payload: record::json(session) }];
    for Saved { instance, number, partition, talks } in partitions {
        let payload = SavedPartition::of(instance, number, at, talks).with(&partition.save());
        parts.push(Part { kind: kind::SAVED, payload });
    }
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
