//! A disk that is really full, or can only be read: a small tmpfs that these tests mount for themselves alone, where they may; else
//! they say that they are skipped, and fail where `CI` is `true`.

use std::{
    fs,
    io::Write as _,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, atomic::Ordering::Relaxed},
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
use serde_json::{Value, json};

use crate::{
    common::{command, skip_forbidden, until},
    shim::server::Server,
    wired::rig,
};

const DISK: &str = "CALLBOARD_TEST_SMALL_DISK";

/// Runs a test again, in name spaces of its own where `path` is a file system of 8 MiB; `None` where that is not allowed.
fn on_a_disk_of_its_own(path: &Path, test: &str) -> Option<bool> {
    let script =
        "mount -t tmpfs -o size=8m tmpfs \"$1\" || exit 1; echo mounted; exec \"$2\" --exact \"$3\" --nocapture";
    let program = std::env::current_exe().expect("a test program");
    // As a user who is root there only, else as root.
    ["-rm", "-m"].iter().find_map(|flags| {
        let mut unshare = Command::new("unshare");
        unshare.args([flags, "sh", "-c", script, "sh"]).args([path, &*program]).arg(test).env(DISK, path);
        let output = unshare.output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.starts_with("mounted").then(|| {
            println!("{text}{}", String::from_utf8_lossy(&output.stderr));
            output.status.success()
        })
    })
}

/// The small disk; `None`: the test has run there, or could not.
fn disk(test: &str) -> Option<PathBuf> {
    if let Ok(disk) = std::env::var(DISK) {
        return Some(disk.into());
    }
    let path = tempfile::tempdir().unwrap();
    match on_a_disk_of_its_own(path.path(), test) {
        Some(passed) => assert!(passed, "see above"),
        None => skip_forbidden(test, "CALLBOARD_TEST_NO_MOUNT", "no file system can be mounted here (unshare, mount)"),
    }
    None
}

fn settings() -> EventSettings {
    let store =
        StoreSettings { max_events: 0, max_bytes: 0, max_age: Nanos::ZERO, flush_interval: Nanos::from_millis(10) };
    EventSettings { ring_capacity: 1_000, store, ..EventSettings::default() }
}

fn events(ids: Range<u64>) -> Vec<Event> {
    let event = |id: u64| Event {
        kind: EventKind::App,
        object: "application".into(),
        reference: format!("key-{id}").into(),
        change: Change::Add,
        detail: Detail::AppAlloc,
        message: "".into(),
        resource: None,
        at: Nanos(id as i64),
        partition: Arc::default(),
    };
    ids.map(event).collect()
}

async fn publish(actor: &Addr<EventActor>, ids: Range<u64>) {
    actor
        .send(Publish { rm: "rm-1".into(), epoch: 1, events: events(ids), traced: Vec::new(), first: None })
        .await
        .unwrap();
}

/// Waits until all that was published is on disk, or the disk takes no more.
async fn stored(actor: &Addr<EventActor>) {
    until(async || {
        let status = actor.send(GetEventStatus).await.unwrap();
        let store = status.store.unwrap();
        store.written == status.next || store.failing.is_some()
    })
    .await;
}

/// Publishes until the disk is full and the backlog too, then makes some room.
async fn fill(store: PathBuf, filler: PathBuf) {
    let actor = EventActor::durable(settings(), (&store, None), false).unwrap();
    let counters = actor.counters();
    let actor = actor.start();
    let mut next = 0;
    while !counters.store_failing.load(Relaxed) {
        publish(&actor, next..next + 5_000).await;
        next += 5_000;
        stored(&actor).await;
        assert!(next < 10_000_000, "the disk is too large for this test");
    }
    let status = actor.send(GetEventStatus).await.unwrap().store.unwrap();
    assert!(status.failing.unwrap().contains("No space left on device"));
    // More than the backlog takes: the rest becomes a gap, and nobody waits.
    while counters.store_lost.load(Relaxed) < 100_000 {
        publish(&actor, next..next + 5_000).await;
        next += 5_000;
    }
    // Room for a part of what waits. After a restart a limit makes room for the rest.
    let full = actor.send(GetEventStatus).await.unwrap().store.unwrap().written;
    fs::remove_file(&filler).unwrap();
    until(async || actor.send(GetEventStatus).await.unwrap().store.unwrap().written > full).await;
}

#[actix::test]
async fn a_full_disk_costs_history_and_is_told() {
    let Some(disk) = disk("disk::a_full_disk_costs_history_and_is_told") else { return };
    let store = disk.join("events");
    let filler = disk.join("filler");
    fs::write(&filler, vec![1; 2 << 20]).unwrap();

    let (of_first, filling) = (store.clone(), filler.clone());
    // A thread of its own, whose end takes the first server with it as a kill would.
    std::thread::spawn(move || actix::System::new().block_on(fill(of_first, filling))).join().unwrap();

    let small = StoreSettings { max_bytes: 4 << 20, ..settings().store };
    let actor = EventActor::durable(EventSettings { store: small, ..settings() }, (&store, None), false).unwrap();
    let counters = actor.counters();
    let actor = actor.start();
    let first = actor.send(GetEventStatus).await.unwrap().next;
    for round in 0..60 {
        publish(&actor, first + round * 5_000..first + (round + 1) * 5_000).await;
        stored(&actor).await;
    }
    actor.send(StopEvents).await.unwrap().unwrap();
    assert!(!counters.store_failing.load(Relaxed));
    drop(actor);

    let actor = EventActor::durable(settings(), (&store, None), false).unwrap().start();
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

/// Nothing more fits.
fn fill_up(file: &Path) {
    let mut filler = fs::File::create(file).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while filler.write_all(&vec![1; size]).is_ok() {}
    }
}

/// With a reason that is longer than what files have left of their last pages.
async fn drain(server: &Server, host: &str) -> (u16, Value) {
    let request = json!({"targets": host, "reason": "a disk that is full. ".repeat(500)});
    server.send("POST", "/api/v1/partition/default/resource/drain", &request).await
}

const STATUS: &str = "/api/v1/partition/default/resource/status";

async fn drained(server: &Server) -> Vec<String> {
    let status = server.get(STATUS).await.1;
    let entries = status["drained"].as_array().unwrap().iter();
    entries.map(|entry| entry["nodelist"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_full_disk_refuses_drains_and_a_read_only_one_the_start() {
    let Some(disk) = disk("disk::a_full_disk_refuses_drains_and_a_read_only_one_the_start") else { return };
    let (data, filler) = (disk.join("data"), disk.join("filler"));
    let mut server = rig::with_data(&data);
    server.register("rm-1", &[]).await;
    server.nodes(&["n1", "n2", "n3"]).await;
    rig::until(&server, STATUS, |status| status["online"]["nodelist"] == "n[1-3]").await;
    let full = "No space left on device";
    // The first one has files to be made, the others to be written on.
    for host in ["n1", "n2", "n3"] {
        fill_up(&filler);
        let before = drained(&server).await;
        let (status, problem) = drain(&server, host).await;
        let text = problem["detail"].as_str().unwrap();
        assert!(status == 503 && text.contains(full) && text.contains("nothing was changed"), "{problem}");
        assert_eq!(drained(&server).await, before, "nothing happened");
        let faults = server.get(STATUS).await.1["faults"].to_string();
        assert!(faults.contains("cannot be written") && faults.contains(full), "{faults}");
        fs::remove_file(&filler).unwrap();
        assert_eq!(drain(&server, host).await, (200, json!({})));
        assert_eq!(server.get(STATUS).await.1["faults"], json!([]), "it is over");
    }
    server.program.kill();
    // A server that cannot write at all does not start.
    let mount = |options: &str| {
        let mounted = Command::new("mount").args(["-o", options]).arg(&disk).status();
        assert!(mounted.unwrap().success(), "mount -o {options}");
    };
    mount("remount,ro");
    let output = command(&["serve", "--data", data.to_str().unwrap(), "--http", "127.0.0.1:0"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains(data.to_str().unwrap()), "{text}");
    assert!(text.contains("Read-only file system"), "{text}");
    mount("remount,rw");
    let server = rig::with_data(&data);
    server.register("rm-1", &[]).await;
    rig::until(&server, STATUS, |status| status["drained"].as_array().is_some_and(|all| all.len() == 3)).await;
}

/// An ask of the shim; the status, and what it says.
async fn ask(server: &Server, key: &str) -> (u16, Value) {
    let ask = json!({"allocationKey": key, "applicationID": "app", "partitionName": "default",
        "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}});
    server.send("POST", "/si/v1/rm/rm-1/allocations", &json!({"allocations": [ask]})).await
}

#[tokio::test]
async fn a_full_disk_refuses_requests_and_what_was_taken_is_there_afterwards() {
    let Some(disk) = disk("disk::a_full_disk_refuses_requests_and_what_was_taken_is_there_afterwards") else { return };
    for sync in ["batch", "interval"] {
        let (data, filler) = (disk.join(sync), disk.join("filler"));
        let mut server = Server::start(&["--data", data.to_str().unwrap(), "--log-sync", sync]);
        server.register("rm-1", &[]).await;
        let mut stream = server.stream("?after=0").await;
        server.nodes(&["n1", "n2"]).await;
        rig::application(&server, "app").await;
        let (mut taken, mut round) = (Vec::new(), 0);
        for _ in 0..2 {
            fill_up(&filler);
            // The last page of the file has room for some.
            let refused = loop {
                round += 1;
                assert!(round < 3_000, "the disk is too large for this test");
                let key = format!("{sync}-{round}");
                match ask(&server, &key).await {
                    (202, _) => taken.push(key),
                    (status, problem) => break (status, problem),
                }
            };
            let text = refused.1["detail"].as_str().unwrap();
            assert!(refused.0 == 503 && text.contains("No space left on device"), "{refused:?}");
            assert!(text.contains("nothing is taken until it can be written"), "{text}");
            let health = server.get("/ws/v1/scheduler/healthcheck").await;
            assert_eq!(health.0, 200, "the server lives");
            // A gRPC shim hears the same.
            let status = common_grpc(&server).await;
            assert!(
                status.code() == tonic::Code::Unavailable && status.message().contains("No space left"),
                "{status}"
            );
            // Neither a new registration is taken, nor a new configuration.
            let register = json!({"rmID": "rm-2", "config": crate::shim::server::CONFIG});
            let (status, problem) = server.send("POST", "/si/v1/rm", &register).await;
            assert!(status == 503 && problem["detail"].as_str().unwrap().contains("No space left"), "{problem}");
            // A registration that cannot be recorded ends no session.
            let again = json!({"rmID": "rm-1", "config": crate::shim::server::CONFIG});
            let (status, problem) = server.send("POST", "/si/v1/rm", &again).await;
            assert!(status == 503 && problem["detail"].as_str().unwrap().contains("No space left"), "{problem}");
            let info = server.get("/si/v1/rm/rm-1").await.1;
            assert_eq!((&info["epoch"], &info["state"]), (&json!(1), &json!("Running")), "{info}");
            assert!(info["failing"].to_string().contains("No space left"), "{info}");
            let overview = server.get("/api/v1/overview").await.1;
            assert!(overview["partitions"][0]["rmWhy"].to_string().contains("No space left"), "{overview}");
            let (_, shown, _) = rig::run(&server, &["status"]).await;
            assert!(shown.contains("default: nothing is placed: ") && shown.contains("No space left"), "{shown}");
            // What waits says so, and nobody is told of what a restart may take back.
            let wait = "/api/v1/partition/default/application/app/wait?for=running&timeout=200ms";
            let waited = server.get(wait).await.1;
            let why = waited["why"].as_str().unwrap_or_default();
            assert!(waited["met"] == false && why.contains("No space left"), "{waited}");
            let metrics = server.http.get(server.url("/ws/v1/metrics")).send().await.unwrap().text().await.unwrap();
            assert!(metrics.contains("callboard_log_failing{rm=\"rm-1\"} 1"), "{metrics}");
            fs::remove_file(&filler).unwrap();
            crate::common::until(async || {
                round += 1;
                let key = format!("{sync}-{round}");
                let is_taken = ask(&server, &key).await.0 == 202;
                if is_taken {
                    taken.push(key);
                }
                is_taken
            })
            .await;
        }
        // Each that was taken is placed, at once or when there was room again.
        let mut placed: Vec<String> = Vec::new();
        while !taken.iter().all(|key| placed.contains(key)) {
            let line = stream.next().await;
            let new = line["allocation"]["new"].as_array().cloned().unwrap_or_default();
            placed.extend(new.iter().map(|new| new["allocationKey"].as_str().unwrap().to_owned()));
        }
        server.program.kill();
        let server = Server::start(&["--data", data.to_str().unwrap(), "--log-sync", sync]);
        let app = server.get("/ws/v1/partition/default/application/app").await.1;
        let there = app["allocations"].as_array().unwrap().iter();
        let mut there: Vec<String> = there.map(|one| one["allocationKey"].as_str().unwrap().to_owned()).collect();
        there.sort();
        taken.sort();
        // What was refused while it waited may be there, too.
        assert!(taken.iter().all(|key| there.contains(key)), "{sync}: {taken:?} and {there:?}");
        assert!(there.len() <= taken.len() + 2, "{sync}: {taken:?} and {there:?}");
        println!("{sync}: {} taken and there, {round} sent", taken.len());
        drop(server);
        fs::remove_dir_all(&data).unwrap();
    }
}

/// How a node request is answered over gRPC that cannot be recorded.
async fn common_grpc(server: &Server) -> tonic::Status {
    use callboard::si::v1::{NodeInfo, NodeRequest, scheduler_client::SchedulerClient};
    let channel = tonic::transport::Channel::from_shared(server.grpc()).unwrap().connect().await.unwrap();
    let node = NodeInfo { node_id: "n9".into(), action: 1, ..Default::default() };
    let request = NodeRequest { rm_id: "rm-1".into(), nodes: vec![node] };
    let requests = tokio_stream::once(request);
    match SchedulerClient::new(channel).update_node(requests).await {
        Err(status) => status,
        Ok(answers) => answers.into_inner().message().await.expect_err("refused"),
    }
}
