//! The event store under `kill -9`: this test program starts itself as a child that writes, and kills it at any moment.

use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    ops::Range,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use actix::prelude::*;
use callboard::{
    actors::event::EventActor,
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_block::{EventPiece, GapReason},
        event_settings::{EventSettings, StoreSettings},
        types::Nanos,
    },
    messages::event::{GetEventStatus, Publish, ReadLog},
};

use crate::common::LIMIT;

const DIRECTORY: &str = "CALLBOARD_TEST_EVENT_DIRECTORY";
const FLUSH: Duration = Duration::from_millis(100);

fn settings() -> EventSettings {
    let store = StoreSettings {
        max_events: 0,
        max_age: Nanos::ZERO,
        flush_interval: Nanos(FLUSH.as_nanos() as i64),
        ..StoreSettings::default()
    };
    EventSettings { ring_capacity: 1_000, store, ..EventSettings::default() }
}

fn events(ids: Range<u64>) -> Vec<Event> {
    let event = |id: u64| Event {
        kind: EventKind::App,
        object: format!("application-{}", id % 50).into(),
        reference: format!("key-{id}").into(),
        change: Change::Add,
        detail: Detail::AppAlloc,
        message: "".into(),
        resource: None,
        at: Nanos(id as i64),
        partition: "".into(),
    };
    ids.map(event).collect()
}

/// Not a test by itself: the child. It says which ids it has given out and which it has written, and never stops.
#[actix::test]
async fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let actor = EventActor::durable(settings(), (Path::new(&directory), None), false).unwrap().start();
    let mut next = actor.send(GetEventStatus).await.unwrap().next;
    let mut out = std::io::stdout();
    for round in 0.. {
        let count = [1, 5, 400, 3_000][round % 4];
        actor
            .send(Publish {
                rm: "rm-1".into(),
                epoch: 1,
                events: events(next..next + count),
                traced: Vec::new(),
                first: None,
            })
            .await
            .unwrap();
        next += count;
        let written = actor.send(GetEventStatus).await.unwrap().store.unwrap().written;
        writeln!(out, "\ntold {next} {written}").unwrap();
        out.flush().unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Runs the child until it has written something, and for a while; returns which ids it said that it has given out, and written.
fn run_and_kill(directory: &Path, life: Duration) -> (u64, u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "events_kill::child", "--nocapture", "--test-threads", "1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (begun, begins) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let (mut last, mut first) = ((0, 0), None);
        for line in lines.map_while(Result::ok) {
            let Some((next, written)) = line.strip_prefix("told ").and_then(|told| told.split_once(' ')) else {
                continue;
            };
            // The last line may be torn.
            let (Ok(next), Ok(written)) = (next.parse::<u64>(), written.parse::<u64>()) else { continue };
            if *first.get_or_insert(written) < written {
                let _ = begun.send(());
            }
            last = (next, written);
        }
        last
    });
    let begun = begins.recv_timeout(LIMIT);
    // At any moment of its work.
    std::thread::sleep(life);
    // SIGKILL: nothing of the child runs any more.
    child.kill().unwrap();
    child.wait().unwrap();
    begun.expect("it writes");
    reader.join().unwrap()
}

/// Everything in the log: events are compared with their ids, which follow each other. Returns the gaps.
async fn checked(directory: &Path) -> (Vec<Range<u64>>, u64) {
    let actor = EventActor::durable(settings(), (directory, None), false).unwrap().start();
    let (mut next, mut gaps) = (0, Vec::new());
    loop {
        let page = actor.send(ReadLog { from: Some(next), events: 10_000 }).await.unwrap().unwrap();
        if page.pieces.is_empty() {
            return (gaps, page.next);
        }
        for piece in page.pieces {
            assert_eq!(piece.first(), next, "neither a hole nor a repetition");
            next = piece.end();
            match piece {
                EventPiece::Events(slice) => {
                    for (id, event) in (slice.first()..).zip(slice.events()) {
                        assert_eq!((event.at, &*event.reference), (Nanos(id as i64), &*format!("key-{id}")));
                    }
                }
                EventPiece::Gap(gap) => {
                    assert_eq!(gap.reason, GapReason::Crash);
                    gaps.push(gap.from..gap.end);
                }
            }
        }
    }
}

#[actix::test]
async fn a_kill_loses_nothing_that_was_written_and_tears_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("events");
    let mut last_gap_end = 0;
    for round in 0..6u64 {
        let (given_out, written) = run_and_kill(&store, Duration::from_millis(170 * round));
        // A copy, so that looking does not mend anything.
        let copy = directory.path().join(format!("copy-{round}"));
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(&store).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
        }
        let (gaps, next) = checked(&copy).await;
        let last = gaps.last().unwrap().clone();
        assert!(last.start >= last_gap_end && last.end == next, "{gaps:?}");
        assert!(last.end >= given_out, "an id would be given twice: {last:?}, given out {given_out}");
        // That a flush comes in time is tested on a paused clock: how long it takes depends on the machine.
        assert!(last.start >= written, "what was written is lost: {last:?}, {written} was told before");
        last_gap_end = last.end;
    }
}
