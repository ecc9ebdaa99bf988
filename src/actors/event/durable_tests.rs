//! `EventActor` with a durable store, on the paused clock; the disk work is `spawn_blocking`, which holds the clock.

use std::{fs, ops::Range, path::Path, sync::atomic::Ordering::Relaxed, time::Duration};

use actix::prelude::*;

use super::{
    EventActor,
    durable::{Durable, Job},
    ring::Ring,
    testing::{events, ids},
};
use crate::{
    domain::{
        event_block::{EventGap, EventPiece, GapReason},
        event_settings::{EventSettings, StoreSettings},
        types::Nanos,
    },
    messages::event::{
        ApplyEventSettings, BeginToFollow, FollowError, FollowLog, GetEventStatus, GetEvents, Publish, ReadError,
        ReadLog, StopEvents,
    },
    store::events::Clock,
};

fn settings(ring_capacity: u64, max_events: u64) -> EventSettings {
    // The events of these tests are of 1970.
    let store = StoreSettings { max_events, max_age: Nanos::ZERO, ..StoreSettings::default() };
    EventSettings { ring_capacity, store, ..EventSettings::default() }
}

fn start(directory: &Path, ring_capacity: u64) -> Addr<EventActor> {
    EventActor::durable(settings(ring_capacity, 0), (directory, None), false).unwrap().start()
}

/// Publishes events whose number is their id.
fn publish(actor: &Addr<EventActor>, numbers: Range<u64>) {
    actor.do_send(Publish { rm: "rm-1".into(), epoch: 1, events: events(numbers), traced: Vec::new(), first: None });
}

/// Longer than a flush interval.
async fn flushed() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn read(actor: &Addr<EventActor>, from: u64, events: usize) -> (Vec<EventPiece>, u64) {
    let page = actor.send(ReadLog { from: Some(from), events }).await.unwrap().unwrap();
    (page.pieces, page.next)
}

/// Everything from an id on, page by page; events are compared with their ids.
async fn all(actor: &Addr<EventActor>, from: u64) -> Vec<String> {
    let (mut next, mut shown) = (from, Vec::<(String, u64, u64)>::new());
    loop {
        let (pieces, end) = read(actor, next, 1_000).await;
        if pieces.is_empty() {
            assert_eq!(next, end);
            return shown.into_iter().map(|(what, from, end)| format!("{what}{from}..{end}")).collect();
        }
        for piece in pieces {
            assert_eq!(piece.first(), next);
            next = piece.end();
            let what = match &piece {
                EventPiece::Gap(gap) => format!("{} ", gap.reason.name()),
                EventPiece::Events(slice) => {
                    let numbers = slice.events().iter().map(|event| event.at.0 as u64);
                    assert!(numbers.eq(piece.first()..next));
                    String::new()
                }
            };
            match shown.last_mut() {
                Some((last, _, end)) if *last == what => *end = next,
                _ => shown.push((what, piece.first(), next)),
            }
        }
    }
}

async fn stop(actor: Addr<EventActor>) {
    actor.send(StopEvents).await.unwrap().unwrap();
}

// EVT-070: ids of /ws/v1 are those of the process, ids of the log go on.
#[actix::test]
async fn the_log_goes_on_over_a_restart() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let actor = start(directory.path(), 100);
    publish(&actor, 0..3_000);
    stop(actor).await;

    let actor = start(directory.path(), 100);
    assert_eq!(all(&actor, 0).await, ["0..3000"]);
    let page = actor.send(GetEvents { start: None, count: None }).await.unwrap();
    assert_eq!((page.lowest, page.highest, page.slices.len()), (0, 0, 0));
    publish(&actor, 3_000..3_200);
    assert_eq!(all(&actor, 1_500).await, ["1500..3200"]);
    let page = actor.send(GetEvents { start: Some(150), count: Some(2) }).await.unwrap();
    assert_eq!((page.lowest, page.highest, ids(&page.slices)), (100, 199, vec![3_150, 3_151]));
    let first = actor.send(ReadLog { from: None, events: 1 }).await.unwrap().unwrap();
    assert_eq!(first.pieces[0].first(), 0);
    let beyond = actor.send(ReadLog { from: Some(3_201), events: 1 }).await.unwrap().map(|_| ()).unwrap_err();
    assert_eq!(beyond, ReadError::Beyond { from: 3_201, next: 3_200 });
}

#[actix::test]
async fn disk_backlog_and_ring_meet_without_seam() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let actor = start(directory.path(), 10);
    let mut next = 0;
    for round in 1..200u64 {
        let count = [1, 70, 5, 600, 3][round as usize % 5];
        publish(&actor, next..next + count);
        next += count;
        if round % 7 == 0 {
            flushed().await;
        }
        let from = next.saturating_sub(round * 11);
        assert_eq!(all(&actor, from).await, [format!("{from}..{next}")]);
    }
    assert_eq!(all(&actor, 0).await, [format!("0..{next}")]);
    flushed().await;
    let status = actor.send(GetEventStatus).await.unwrap().store.unwrap();
    assert_eq!((status.written, status.waiting, status.failing), (next, 0, None));
}

#[actix::test]
async fn a_killed_process_loses_a_flush_interval_at_most() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let actor = start(directory.path(), 10);
    publish(&actor, 0..500);
    flushed().await;
    publish(&actor, 500..600);
    // What a killed process leaves is what the files hold.
    for entry in fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let actor = start(copy.path(), 10);
    let next = actor.send(GetEventStatus).await.unwrap().next;
    assert!(next >= 600, "no id is given twice");
    publish(&actor, next..next + 5);
    assert_eq!(all(&actor, 0).await, ["0..500".into(), format!("crash 500..{next}"), format!("{next}..{}", next + 5)]);
    stop(actor).await;
    let actor = start(copy.path(), 10);
    assert_eq!(all(&actor, 400).await.len(), 3);
}

// The flush interval holds however long the disk takes: what is written survives the process, flushed or not.
#[actix::test]
async fn a_slow_disk_does_not_keep_events_in_memory() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let store = settings(1_000, 0).store;
    let clock = Clock { now: Nanos(0), trusted: false };
    let (mut durable, ..) = Durable::open((directory.path(), None), store, Default::default(), clock).unwrap();
    let mut ring = Ring::new(0, 1_000);
    assert!(durable.push(&ring.push(events(0..10)), Nanos(1)).is_none());
    let first = durable.flush(10, Nanos(1)).expect("something waits");
    // It takes so long that the next flush falls due; that begins as soon as the writer is back.
    assert!(durable.push(&ring.push(events(10..20)), Nanos(1)).is_none());
    assert!(durable.flush(20, Nanos(1)).is_none());
    let mut jobs = durable.done(Some(first.run()), 20, Nanos(1));
    let second = jobs.pop().expect("what fell due");
    let slow = jobs.pop().expect("the disk is waited for");
    assert!(matches!((&slow, &second), (Job::Sync(_), Job::Write(_))) && jobs.is_empty());
    assert!(durable.done(Some(second.run()), 20, Nanos(1)).is_empty(), "one waits for the disk at a time");
    let status = durable.status();
    assert_eq!((status.written, status.waiting), (20, 0));
    // Events come so that the timer is not heard.
    tokio::time::advance(durable.period() * 2).await;
    let third = durable.push(&ring.push(events(20..21)), Nanos(1)).expect("it is late");
    assert!(durable.done(Some(third.run()), 21, Nanos(1)).is_empty());
    assert_eq!(durable.status().written, 21);
    let mut jobs = durable.done(Some(slow.run()), 21, Nanos(1));
    let rest = jobs.pop().expect("what was written meanwhile");
    assert!(matches!(rest, Job::Sync(_)) && durable.done(Some(rest.run()), 21, Nanos(1)).is_empty());
    assert!(durable.flush(21, Nanos(1)).is_none(), "nothing is left to do");
}

#[actix::test]
async fn a_disk_that_refuses_costs_history_and_nothing_else() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("events");
    // A file for every ten events, so that a missing directory is noticed at once.
    let mut actor = EventActor::durable(settings(5, 160), (&store, None), false).unwrap();
    actor.durable.as_mut().unwrap().limit_backlog(100);
    let counters = actor.counters();
    let actor = actor.start();
    publish(&actor, 0..20);
    flushed().await;
    fs::rename(&store, directory.path().join("away")).unwrap();
    publish(&actor, 20..110);
    flushed().await;
    assert!(counters.store_failing.load(Relaxed) && counters.store_failures.load(Relaxed) > 0);
    let status = actor.send(GetEventStatus).await.unwrap();
    assert!(status.store.unwrap().failing.unwrap().contains("events: cannot make"));
    for first in (110..310).step_by(20) {
        publish(&actor, first..first + 20);
    }
    assert_eq!(all(&actor, 20).await, ["20..110", "not-stored 110..305", "305..310"], "the ring has the newest");
    fs::rename(directory.path().join("away"), &store).unwrap();
    flushed().await;
    publish(&actor, 310..330);
    flushed().await;
    assert!(!counters.store_failing.load(Relaxed));
    assert_eq!((counters.store_lost.load(Relaxed), counters.store_written.load(Relaxed)), (200, 130));
    let actor = {
        stop(actor).await;
        start(&store, 5)
    };
    let log = all(&actor, 20).await;
    assert_eq!(log.last().unwrap(), "310..330", "{log:?}");
    assert!(log.contains(&"not-stored 110..310".to_owned()), "{log:?}");
}

#[actix::test]
async fn limits_are_applied_while_it_runs() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let actor = EventActor::durable(settings(10, 1_600), (directory.path(), None), false).unwrap().start();
    for first in (0..5_000).step_by(100) {
        publish(&actor, first..first + 100);
        flushed().await;
    }
    let lowest = actor.send(GetEventStatus).await.unwrap().store.unwrap().lowest;
    assert!((3_400..=3_500).contains(&lowest), "{lowest}");
    assert_eq!(all(&actor, 5).await, [format!("retention 5..{lowest}"), format!("{lowest}..5000")]);
    actor.do_send(ApplyEventSettings(settings(10, 320)));
    tokio::time::sleep(Duration::from_secs(11)).await;
    let lowest = actor.send(GetEventStatus).await.unwrap().store.unwrap().lowest;
    assert!(lowest >= 4_680, "{lowest}");
}

#[actix::test]
async fn without_a_store_the_ring_is_the_log() {
    tokio::time::pause();
    let actor = EventActor::new(settings(10, 0)).start();
    publish(&actor, 0..25);
    assert_eq!(all(&actor, 3).await, ["retention 3..15", "15..25"]);
    stop(actor.clone()).await;
    publish(&actor, 25..30);
    assert_eq!(all(&actor, 20).await, ["20..25"], "nothing is recorded while the server stops");
}

#[actix::test]
async fn followers_begin_in_memory_and_are_limited() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let mut limited = settings(10, 0);
    limited.max_streams = 1;
    let actor = EventActor::durable(limited, (directory.path(), None), false).unwrap().start();
    publish(&actor, 0..25);
    let host = [127, 0, 0, 1].into();
    let begin = || BeginToFollow { host };
    let follow = |from| FollowLog { host, name: "board".into(), rm: None, from };
    let follower = actor.send(begin()).await.unwrap().unwrap();
    let behind = actor.send(follow(Some(14))).await.unwrap().map(|_| ()).unwrap_err();
    assert_eq!(behind, FollowError::Behind);
    assert!(actor.send(begin()).await.unwrap().is_err(), "who has to read what is stored first counts, too");
    let mut followed = actor.send(follow(Some(17))).await.unwrap().unwrap();
    assert_eq!(ids(&followed.past), (17..25).collect::<Vec<_>>());
    publish(&actor, 25..26);
    assert_eq!(followed.reader.next().await.unwrap().slice().first(), 25);
    assert!(actor.send(begin()).await.unwrap().is_err());
    assert!(actor.send(follow(None)).await.unwrap().unwrap().past.is_empty(), "it fell behind and is back");
    drop((follower, followed));
    assert!(actor.send(begin()).await.unwrap().is_ok());
}

#[test]
fn a_gap_has_a_name() {
    let gap = EventGap { from: 0, end: 1, reason: GapReason::Retention };
    assert_eq!(gap.reason.name(), "retention");
}
