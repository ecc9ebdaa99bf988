//! A server that was killed, ended or updated comes back with every session as it was, and shims go on where they were.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    common::{self, Program},
    shim::server::{Lines, Server},
    wired::rig::{application, asks, end, until, with_data},
};

/// As `with_data`, on a machine with this boot id.
fn on_machine(data: &Path, boot: &str, more: &[&str]) -> Server {
    let data = data.display().to_string();
    let args = [&["--grpc", "off", "--data", &data][..], more].concat();
    let mut command = common::serve(&args);
    command.env("CALLBOARD_TEST_BOOT_ID", boot);
    Server { program: Program::try_start(command).expect("it starts"), http: reqwest::Client::new() }
}

fn allocated(lines: &[Value]) -> Vec<(String, String)> {
    let new = lines.iter().filter_map(|line| line["allocation"]["new"].as_array()).flatten();
    new.map(|new| (text(&new["allocationKey"]), text(&new["nodeID"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// The lines of a stream up to the one with which `count` allocations have come.
async fn until_allocated(stream: &mut Lines, count: usize) -> Vec<Value> {
    let mut lines = Vec::new();
    while allocated(&lines).len() < count {
        lines.push(stream.next().await);
    }
    lines
}

async fn state(server: &Server) -> Value {
    server.get("/ws/v1/partition/default/nodes").await.1
}

async fn begin(server: &Server, extra: &[(&str, &str)]) -> Lines {
    server.register("rm-1", extra).await;
    let stream = server.stream("").await;
    server.nodes(&["n1", "n2"]).await;
    application(server, "app").await;
    stream
}

fn last(lines: &[Value]) -> u64 {
    lines.last().and_then(|line| line["seq"].as_u64()).expect("a number")
}

#[tokio::test]
async fn a_killed_server_goes_on_where_it_was() {
    for sync in ["interval", "batch"] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = with_data(dir.path());
        let mut stream = begin(&server, &[("log.sync", sync)]).await;
        asks(&server, "app", &["a", "b", "c"], 10).await;
        let lines = until_allocated(&mut stream, 3).await;
        let (epoch, before) = (server.get("/si/v1/rm/rm-1").await.1["epoch"].clone(), state(&server).await);
        server.program.kill();

        let mut server = with_data(dir.path());
        let info = server.get("/si/v1/rm/rm-1").await.1;
        assert_eq!((&info["state"], &info["epoch"]), (&json!("Paused"), &epoch), "{info}");
        assert_eq!(state(&server).await, before, "{sync}");
        // What was said is said again to whoever has not heard it, in the same words.
        let mut again = server.stream("?after=0").await;
        for line in &lines {
            assert_eq!(again.next().await, *line, "{sync}");
        }
        let mut stream = server.stream(&format!("?after={}", last(&lines))).await;
        asks(&server, "app", &["d"], 10).await;
        let more = until_allocated(&mut stream, 1).await;
        assert_eq!(more[0]["seq"].as_u64(), Some(last(&lines) + 1), "{more:?}");
        assert_eq!(allocated(&more)[0].0, "d");
        // And once more.
        server.program.kill();
        let server = with_data(dir.path());
        let (status, refused) = server.get("/si/v1/rm/rm-1/stream?after=999").await;
        assert_eq!(status, 410, "{refused}");
        let mut stream = server.stream(&format!("?after={}", last(&more))).await;
        let release = json!({"partitionName": "default", "applicationID": "app", "allocationKey": "a", "terminationType": "STOPPED_BY_RM"});
        let gone = json!({"releases": {"allocationsToRelease": [release]}});
        assert_eq!(server.send("POST", "/si/v1/rm/rm-1/allocations", &gone).await.0, 202);
        let mut line = stream.next().await;
        while line["allocation"]["released"].is_null() {
            line = stream.next().await;
        }
        let apps = until(&server, "/ws/v1/partition/default/application/app", |app| {
            app["allocations"].as_array().is_some_and(|all| all.len() == 3)
        });
        apps.await;
    }
}

#[tokio::test]
async fn a_server_that_was_ended_goes_on_too_and_the_machine_may_have_been_started_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = on_machine(dir.path(), "boot-1", &[]);
    let mut stream = begin(&server, &[]).await;
    asks(&server, "app", &["a"], 10).await;
    let lines = until_allocated(&mut stream, 1).await;
    let before = state(&server).await;
    assert_eq!(end(server).await, Some(0));
    let server = on_machine(dir.path(), "boot-2", &[]);
    assert_eq!(state(&server).await, before);
    let mut stream = server.stream(&format!("?after={}", last(&lines))).await;
    asks(&server, "app", &["b"], 10).await;
    assert_eq!(allocated(&until_allocated(&mut stream, 1).await)[0].0, "b");
}

#[tokio::test]
async fn after_a_crash_of_the_machine_every_session_is_told_unless_all_of_it_was_on_the_disk() {
    for sync in ["interval", "batch"] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = on_machine(dir.path(), "boot-1", &["--log-sync", sync]);
        let mut stream = begin(&server, &[]).await;
        asks(&server, "app", &["a"], 10).await;
        until_allocated(&mut stream, 1).await;
        server.program.kill();
        let server = on_machine(dir.path(), "boot-2", &["--log-sync", sync]);
        let (status, answer) = if sync == "batch" {
            server.stream("?after=1").await;
            continue;
        } else {
            server.get("/si/v1/rm/rm-1/stream?after=1").await
        };
        assert_eq!(status, 410, "{answer}");
        assert!(answer["detail"].as_str().is_some_and(|text| text.contains("register again")), "{answer}");
        assert_eq!(server.get("/si/v1/rm/rm-1/stream").await.0, 410, "whatever it has");
        server.register("rm-1", &[]).await;
        let info = server.get("/si/v1/rm/rm-1").await.1;
        assert_eq!((&info["state"], &info["epoch"]), (&json!("Running"), &json!(2)), "{info}");
        server.stream("?after=0").await;
    }
}

#[tokio::test]
async fn a_start_that_ends_early_leaves_the_doubt_of_a_crash_to_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = on_machine(dir.path(), "boot-1", &[]);
    let mut stream = begin(&server, &[]).await;
    asks(&server, "app", &["a"], 10).await;
    until_allocated(&mut stream, 1).await;
    server.program.kill();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let http = taken.local_addr().expect("an address").to_string();
    let data = dir.path().display().to_string();
    let mut command = common::command(&["serve", "--data", &data, "--http", &http, "--grpc", "off"]);
    let output = command.env("CALLBOARD_TEST_BOOT_ID", "boot-2").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("machine-stopped") && said.contains("cannot listen"), "{said}");
    let mut server = on_machine(dir.path(), "boot-2", &[]);
    assert_eq!(server.get("/si/v1/rm/rm-1/stream").await.0, 410);
    // It was told and recorded: the next start, whatever this one comes to, has nothing to doubt.
    server.program.kill();
    let mut server = on_machine(dir.path(), "boot-2", &[]);
    assert_eq!(server.get("/si/v1/rm/rm-1/stream").await.0, 410);
    assert!(!server.program.log().contains("machine-stopped"));
    let mut stream = begin(&server, &[]).await;
    asks(&server, "app", &["a"], 10).await;
    until_allocated(&mut stream, 1).await;
    server.program.kill();
    let server = on_machine(dir.path(), "boot-2", &[]);
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["state"], "Paused", "it goes on");
}

#[tokio::test]
async fn a_damaged_log_is_told_and_put_aside() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    let mut stream = begin(&server, &[]).await;
    asks(&server, "app", &["a"], 10).await;
    until_allocated(&mut stream, 1).await;
    server.program.kill();
    let log = dir.path().join("log/rm-1");
    let (_, segment) = callboard::store::log::segments(&log).expect("a log").remove(0);
    let mut bytes = std::fs::read(&segment).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).expect("written");
    let server = with_data(dir.path());
    let (status, answer) = server.get("/si/v1/rm/rm-1/stream?after=0").await;
    assert_eq!(status, 410, "{answer}");
    assert!(answer["detail"].as_str().is_some_and(|text| text.contains("damaged")), "{answer}");
    assert!(dir.path().join("log.damaged/rm-1").is_dir());
    let metrics = server.http.get(server.url("/ws/v1/metrics")).send().await.expect("answers").text().await;
    assert!(metrics.expect("a text").contains("callboard_log_lost_total 1"));
    let mut stream = begin(&server, &[]).await;
    asks(&server, "app", &["a"], 10).await;
    until_allocated(&mut stream, 1).await;
}

#[tokio::test]
async fn a_log_that_is_off_keeps_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = on_machine(dir.path(), "boot-1", &["--log-sync", "off"]);
    begin(&server, &[]).await;
    server.program.kill();
    let server = on_machine(dir.path(), "boot-1", &["--log-sync", "off"]);
    assert_eq!(server.get("/si/v1/rm/rm-1/stream?after=0").await.0, 404);
    assert_eq!(server.get("/readyz").await.0, 200);
}

/// Partitions as readers call them, in their order.
async fn names(server: &Server) -> Vec<String> {
    let (_, partitions) = server.get("/ws/v1/partitions").await;
    let of = |partition: &Value| partition["name"].as_str().unwrap_or_default().to_owned();
    partitions.as_array().expect("a list").iter().map(of).collect()
}

#[tokio::test]
async fn partitions_are_called_as_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    for rm in ["rm-1", "rm-2", "rm-3"] {
        server.register(rm, &[]).await;
    }
    // As a shim that was restarted does: it stays the first.
    server.register("rm-1", &[]).await;
    let wanted = ["default", "[rm-2]default", "[rm-3]default"];
    assert_eq!(names(&server).await, wanted);
    for orderly in [false, true] {
        if orderly {
            assert_eq!(end(server).await, Some(0));
        } else {
            server.program.kill();
        }
        server = with_data(dir.path());
        assert_eq!(names(&server).await, wanted, "{orderly}");
    }
    // The others keep their names when the first one goes, also over a restart.
    assert_eq!(server.send("DELETE", "/si/v1/rm/rm-1", &Value::Null).await.0 / 100, 2);
    let left = ["[rm-2]default", "[rm-3]default"];
    assert_eq!(names(&server).await, left);
    server.program.kill();
    let server = with_data(dir.path());
    assert_eq!(names(&server).await, left);
    server.register("rm-1", &[]).await;
    assert_eq!(names(&server).await, wanted, "the plain name was free");
    let shown = server.get("/si/v1/rm").await.1;
    assert_eq!(shown[0]["rmID"], "rm-1", "{shown}");
}
