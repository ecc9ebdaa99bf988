//! The durable events of a server over restarts, and stores that it does not open.

use std::fs;

use serde_json::Value;

use crate::{
    shim::server::{Server, command},
    wired::rig::{application, asks, end, until, with_data},
};

/// Events and the last line.
async fn read(server: &Server) -> Vec<Value> {
    let text = until(server, "/api/v1/events?from=0", Value::is_string).await;
    text.as_str().unwrap_or_default().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn events_are_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    until(&server, "/ws/v1/partition/default/nodes", |nodes| nodes[0]["nodeID"] == "n1").await;
    let before = read(&server).await;
    assert_eq!(end(server).await, Some(0));

    let server = with_data(dir.path());
    let after = read(&server).await;
    let next = before.len() as u64 - 1;
    assert_eq!(after, before, "nothing was added or lost");
    assert_eq!(after.last().expect("a last line")["next"], next);
    server.register("rm-1", &[]).await;
    let more = until(&server, &format!("/api/v1/events?from={next}"), Value::is_string).await;
    let first: Value =
        serde_json::from_str(more.as_str().and_then(|text| text.lines().next()).expect("a line")).expect("JSON");
    assert_eq!(first["id"], next, "numbering goes on");
}

#[tokio::test]
async fn what_is_put_aside_for_a_shim_is_a_line_when_the_server_ends() {
    // EVT-063
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    application(&server, "app-1").await;
    until(&server, "/api/v1/events?object=app-1", |events| events.to_string().contains("app-1")).await;
    assert_eq!(end(server).await, Some(0));
    let server = with_data(dir.path());
    let mut stream = server.stream("?after=0").await;
    loop {
        let line = stream.next().await;
        let records = line["events"]["records"].as_array();
        if records.into_iter().flatten().any(|record| record["objectID"] == "app-1") {
            break;
        }
    }
}

#[test]
fn a_store_that_cannot_be_opened_is_one_clear_line() {
    let fails = |data: &std::path::Path| {
        let data = data.display().to_string();
        let args = ["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--data", &data];
        let output = command(&args).output().expect("starts");
        assert!(output.stdout.is_empty(), "no ready line: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
        text
    };
    // A later release wrote it.
    let dir = tempfile::tempdir().expect("a directory");
    let events = dir.path().join("events");
    fs::create_dir(&events).expect("made");
    let mut file = b"CBEVENTS\x63\0\0\0".to_vec();
    file.resize(40, 0);
    let sum = crc32fast::hash(&file);
    file[12..16].copy_from_slice(&sum.to_le_bytes());
    fs::write(events.join("00000000000000000000.events"), file).expect("written");
    let text = fails(dir.path());
    assert!(text.contains("format version 99") && text.contains(&events.display().to_string()), "{text}");
    // It is no directory.
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("events"), "not a directory").expect("written");
    let text = fails(dir.path());
    assert!(text.contains(&dir.path().join("events").display().to_string()), "{text}");
}

#[tokio::test]
async fn a_store_that_cannot_write_is_told_and_scheduling_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    // A file for each event, so that a missing directory is noticed at once.
    let extra =
        [("event.store.maxEvents", "16"), ("event.store.flushInterval", "50ms"), ("health.checkInterval", "1s")];
    server.register("rm-1", &extra).await;
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    let health = "/ws/v1/scheduler/healthcheck";
    let check = |body: &Value, good: bool| {
        let checks = body["HealthChecks"].as_array().into_iter().flatten();
        let store = checks.filter(|check| check["Name"] == "Event store").any(|check| check["Succeeded"] == good);
        store && body["Healthy"] == good
    };
    until(&server, health, |body| check(body, true)).await;
    let (events, away) = (dir.path().join("events"), dir.path().join("away"));
    fs::rename(&events, &away).expect("moved");
    asks(&server, "app-1", &["k1", "k2"], 10).await;
    let full = |users: &Value| users[0]["queues"]["resourceUsage"]["memory"] == 20;
    until(&server, "/ws/v1/partition/default/usage/users", full).await;
    let told = until(&server, health, |body| check(body, false)).await;
    let text = told.to_string();
    // Whichever of its files is written first.
    assert!(text.contains(&format!("event store {}", events.display())) && text.contains(": cannot "), "{text}");
    let (_, metrics) = server.get("/ws/v1/metrics").await;
    assert!(metrics.as_str().is_some_and(|text| text.contains("callboard_event_store_failing 1")), "{metrics}");
    fs::rename(&away, &events).expect("moved back");
    until(&server, health, |body| check(body, true)).await;
}
