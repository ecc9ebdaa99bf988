//! A disk that is really full: a small tmpfs that this test program mounts for itself alone, where it may; else it says that
//! it is skipped. With a small file system from elsewhere: `CALLBOARD_TEST_SMALL_DISK=DIR cargo test --test events_disk_full`.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use actix::prelude::*;
use callboard::{
    actors::event::EventActor,
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_block::EventPiece,
        event_settings::{EventSettings, StoreSettings},
        types::Nanos,
    },
    messages::event::{GetEventStatus, Publish, ReadLog, StopEvents},
};

const DISK: &str = "CALLBOARD_TEST_SMALL_DISK";
const TEST: &str = "events_disk_full::a_full_disk_costs_history_and_is_told";

/// Runs the test again, in name spaces of its own where `path` is a file system of 8 MiB; `None` where that is not allowed.
fn on_a_disk_of_its_own(path: &Path) -> Option<bool> {
    let script =
        "mount -t tmpfs -o size=8m tmpfs \"$1\" || exit 1; echo mounted; exec \"$2\" --exact \"$3\" --nocapture";
    let program = std::env::current_exe().expect("a test program");
    // As a user who is root there only, else as root.
    ["-rm", "-m"].iter().find_map(|flags| {
        let mut unshare = Command::new("unshare");
        unshare.args([flags, "sh", "-c", script, "sh"]).args([path, &*program]).arg(TEST).env(DISK, path);
        let output = unshare.output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.starts_with("mounted").then(|| {
            println!("{text}{}", String::from_utf8_lossy(&output.stderr));
            output.status.success()
        })
    })
}

fn settings() -> EventSettings {
    let store =
        StoreSettings { max_events: 0, max_bytes: 0, max_age: Nanos::ZERO, flush_interval: Nanos::from_millis(100) };
    EventSettings { ring_capacity: 1_000, store, ..EventSettings::default() }
}

fn events(ids: Range<u64>) -> Vec<Event> {
    let event = |id: u64| Event {
        kind: EventKind::App,
        object: "application".into(),
        reference: format!("key-{id}").into(),
        change: Change::Add,
        detail: Detail::AppAlloc,
        message: Arc::from(""),
        resource: None,
        at: Nanos(id as i64),
        partition: Arc::default(),
    };
    ids.map(event).collect()
}

async fn publish(actor: &Addr<EventActor>, ids: Range<u64>) {
    actor.send(Publish { rm: "rm-1".into(), epoch: 1, events: events(ids) }).await.unwrap();
}

/// Publishes until the disk is full and the backlog too, then makes some room.
async fn fill(store: PathBuf, filler: PathBuf) {
    let actor = EventActor::durable(settings(), &store).unwrap();
    let counters = actor.counters();
    let actor = actor.start();
    let mut next = 0;
    while !counters.store_failing.load(Relaxed) {
        publish(&actor, next..next + 5_000).await;
        next += 5_000;
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(next < 10_000_000, "the disk is too large for this test");
    }
    let status = actor.send(GetEventStatus).await.unwrap().store.unwrap();
    assert!(status.failing.unwrap().contains("No space left on device"));
    // More than the backlog takes: the rest becomes a gap, and nobody waits.
    while counters.store_lost.load(Relaxed) < 100_000 {
        publish(&actor, next..next + 5_000).await;
        next += 5_000;
    }
    fs::remove_file(&filler).unwrap();
    // Room for a part of what waits. After a restart a limit makes room for the rest.
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[actix::test]
async fn a_full_disk_costs_history_and_is_told() {
    let Ok(disk) = std::env::var(DISK).map(PathBuf::from) else {
        let path = tempfile::tempdir().unwrap();
        match on_a_disk_of_its_own(path.path()) {
            Some(passed) => assert!(passed, "see above"),
            None => println!("skipped: no file system can be mounted here"),
        }
        return;
    };
    let store = disk.join("events");
    let _ = fs::remove_dir_all(&store);
    let filler = disk.join("filler");
    fs::write(&filler, vec![1; 2 << 20]).unwrap();

    let (of_first, filling) = (store.clone(), filler.clone());
    // A thread of its own, whose end takes the first server with it as a kill would.
    std::thread::spawn(move || actix::System::new().block_on(fill(of_first, filling))).join().unwrap();

    let small = StoreSettings { max_bytes: 4 << 20, ..settings().store };
    let actor = EventActor::durable(EventSettings { store: small, ..settings() }, &store).unwrap();
    let counters = actor.counters();
    let actor = actor.start();
    let first = actor.send(GetEventStatus).await.unwrap().next;
    for round in 0..300 {
        publish(&actor, first + round * 1_000..first + (round + 1) * 1_000).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    actor.send(StopEvents).await.unwrap().unwrap();
    assert!(!counters.store_failing.load(Relaxed));
    drop(actor);

    let actor = EventActor::durable(settings(), &store).unwrap().start();
    let (mut next, mut gaps) = (0, Vec::new());
    loop {
        let page = actor.send(ReadLog { from: Some(next), events: 10_000 }).await.unwrap().unwrap();
        if page.pieces.is_empty() {
            break;
        }
        for piece in page.pieces {
            assert_eq!(piece.first(), next);
            next = piece.end();
            match piece {
                EventPiece::Gap(gap) => gaps.push(format!("{} {}..{}", gap.reason.name(), gap.from, gap.end)),
                EventPiece::Events(slice) => {
                    assert!(slice.events().iter().map(|event| event.at.0 as u64).eq(slice.first()..slice.end()));
                }
            }
        }
    }
    assert_eq!(next, first + 300_000);
    println!("gaps: {gaps:?}");
    assert!(!gaps.is_empty(), "what was lost is told");
}
