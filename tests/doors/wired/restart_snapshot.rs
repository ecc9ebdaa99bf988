//! Restarts from snapshots: at an orderly end, now and then, and where the newest is damaged. Gangs and releases that were not
//! confirmed go on, from before the snapshot and from after it.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    common::{self, Program},
    shim::server::{CONFIG, Lines, Server},
    wired::rig::{application, asks, end, send, until},
};

const LISTED: &str = "/api/v1/partition/default/releases";

/// A server that takes a snapshot after so many bytes of log.
fn start(data: &Path, snapshot: &str) -> Server {
    let mut command = common::serve(&["--grpc", "off", "--data", &data.display().to_string()]);
    command.env("CALLBOARD_TEST_SNAPSHOT_BYTES", snapshot);
    let program = Program::try_start(command).unwrap_or_else(|why| panic!("{why}"));
    Server { program, http: reqwest::Client::new() }
}

const RARELY: &str = "67108864";

/// A gang of one whose replacement waits for the shim.
async fn gang(server: &Server, id: &str) {
    let memory = json!({"resources": {"memory": {"value": 10}}});
    let new = json!({"applicationID": id, "queueName": "root.a", "partitionName": "default",
        "placeholderAsk": memory, "ugi": {"user": "u", "groups": ["g"]}});
    send(server, "applications", json!({"new": [new]})).await;
    for (key, placeholder) in [("ph", true), ("real", false)] {
        let ask = json!({"allocationKey": format!("{id}-{key}"), "applicationID": id, "partitionName": "default",
            "taskGroupName": "tg", "placeholder": placeholder, "resourcePerAlloc": memory});
        send(server, "allocations", json!({"allocations": [ask]})).await;
    }
    until(server, LISTED, |body| released(body).contains(&format!("{id}-ph"))).await;
}

fn released(listed: &Value) -> Vec<String> {
    let rows = listed["releases"].as_array().into_iter().flatten();
    rows.map(|row| row["allocationKey"].as_str().expect("a key").to_owned()).collect()
}

/// What readers see of it, and that the books are right.
async fn shown(server: &Server, names: &[&str]) -> Value {
    let mut apps = Vec::new();
    for app in names {
        let mut app = server.get(&format!("/ws/v1/partition/default/application/{app}")).await.1;
        app.as_object_mut().map(|app| app.remove("stateLog"));
        // A timer sets it, which may come between two looks.
        for ask in app["requests"].as_array_mut().into_iter().flatten() {
            ask.as_object_mut().map(|ask| ask.remove("triggeredScaleUp"));
        }
        apps.push(app);
    }
    let nodes = server.get("/ws/v1/partition/default/nodes").await.1;
    let queues = server.get("/ws/v1/partition/default/queues").await.1;
    assert_eq!(server.get("/ws/v1/scheduler/healthcheck").await.1["Healthy"], true);
    json!([apps, nodes, queues, released(&server.get(LISTED).await.1)])
}

async fn begin(server: &Server) -> Lines {
    server.register("rm-1", &[]).await;
    let stream = server.stream("?after=0").await;
    server.nodes(&["n1", "n2"]).await;
    application(server, "app").await;
    asks(server, "app", &["a", "b", "c"], 10).await;
    // A log that is longer than what an end adds to it.
    for round in 0..20 {
        let keys: Vec<String> = (0..20).map(|n| format!("waits-{round}-{n}")).collect();
        asks(server, "app", &keys.iter().map(String::as_str).collect::<Vec<_>>(), 1_000).await;
    }
    gang(server, "gang-1").await;
    stream
}

async fn last_line(server: &Server) -> u64 {
    server.get("/si/v1/rm/rm-1").await.1["lastSequence"].as_u64().expect("a number")
}

/// Records that the server read at its start.
fn records_read(server: &Server) -> u64 {
    let log = server.program.log();
    let line = log.lines().find(|line| line.contains("log of a resource manager")).unwrap_or_else(|| panic!("{log}"));
    let bytes = line.split("bytes=").nth(1).and_then(|rest| rest.split(' ').next()).expect("bytes");
    bytes.parse().expect("a number")
}

/// Bytes of the log.
fn log_bytes(data: &Path) -> u64 {
    let files = fs::read_dir(data.join("log/rm-1")).expect("a log").map(|entry| entry.expect("an entry"));
    let logs = files.filter(|file| file.path().extension().is_some_and(|end| end == "log"));
    logs.map(|file| file.metadata().expect("there").len()).sum()
}

fn snapshots(data: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(data.join("log/rm-1")).expect("a log").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "snapshot")).collect();
    found.sort();
    found
}

/// Confirms all that is to be confirmed, and sees the real ones placed.
async fn finish(server: &Server, stream: &mut Lines, gangs: &[&str]) {
    let confirm = |id: &&str| json!({"partitionName": "default", "applicationID": id, "allocationKey": format!("{id}-ph"), "terminationType": "PLACEHOLDER_REPLACED"});
    let confirmed = json!({"releases": {"allocationsToRelease": gangs.iter().map(confirm).collect::<Vec<_>>()}});
    send(server, "allocations", confirmed).await;
    let mut placed = Vec::new();
    while placed.len() < gangs.len() {
        let line = stream.next().await;
        let new = line["allocation"]["new"].as_array().cloned().unwrap_or_default();
        let keys = new.iter().map(|new| new["allocationKey"].as_str().expect("a key").to_owned());
        placed.extend(keys.filter(|key| key.ends_with("-real")));
    }
    placed.sort();
    assert_eq!(placed, gangs.iter().map(|id| format!("{id}-real")).collect::<Vec<_>>());
    until(server, LISTED, |body| body["releases"] == json!([])).await;
}

#[tokio::test]
async fn an_orderly_end_leaves_a_snapshot_and_the_next_start_reads_little_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path(), RARELY);
    let mut stream = begin(&server).await;
    let heard = stream.up_to(last_line(&server).await).await;
    let before = shown(&server, &["app", "gang-1"]).await;
    assert_eq!(snapshots(dir.path()).len(), 0);
    assert_eq!(end(server).await, Some(0));
    assert_eq!(snapshots(dir.path()).len(), 1);

    let server = start(dir.path(), RARELY);
    assert_eq!(shown(&server, &["app", "gang-1"]).await, before);
    let (read, all) = (records_read(&server), log_bytes(dir.path()));
    assert!(read * 4 < all, "the log before the snapshot is not read: {read} of {all} bytes");
    // Every line is there that the shim may not have got, in the same words.
    let mut again = server.stream("?after=0").await;
    for line in &heard {
        assert_eq!(again.next().await, *line);
    }
    // And after the snapshot: another gang, killed this time.
    gang(&server, "gang-2").await;
    let before = shown(&server, &["app", "gang-1", "gang-2"]).await;
    let heard = again.up_to(last_line(&server).await).await;
    let mut server = server;
    server.program.kill();

    let server = start(dir.path(), RARELY);
    assert_eq!(shown(&server, &["app", "gang-1", "gang-2"]).await, before);
    let mut again = server.stream(&format!("?after={}", heard[0]["seq"])).await;
    for line in &heard[1..] {
        assert_eq!(again.next().await, *line);
    }
    finish(&server, &mut again, &["gang-1", "gang-2"]).await;
    // Ends without anything new need no snapshot of the same.
    assert_eq!(end(server).await, Some(0));
    let server = start(dir.path(), RARELY);
    assert_eq!(server.get(LISTED).await.1["releases"], json!([]));
}

#[tokio::test]
async fn a_damaged_snapshot_costs_a_longer_start_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    // Two orderly ends, so two snapshots, each with a gang before it.
    let server = start(dir.path(), RARELY);
    begin(&server).await;
    end(server).await;
    let server = start(dir.path(), RARELY);
    let _stream = server.stream("?after=0").await;
    gang(&server, "gang-2").await;
    end(server).await;
    let mut server = start(dir.path(), RARELY);
    let mut stream = server.stream("?after=0").await;
    gang(&server, "gang-3").await;
    let heard = stream.up_to(last_line(&server).await).await;
    let before = shown(&server, &["app", "gang-1", "gang-2", "gang-3"]).await;
    server.program.kill();
    let all = snapshots(dir.path());
    assert_eq!(all.len(), 2, "{all:?}");
    let mut server = start(dir.path(), RARELY);
    let short = records_read(&server);
    server.program.kill();

    let newest = &all[1];
    let mut bytes = fs::read(newest).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(newest, bytes).expect("written");
    let server = start(dir.path(), RARELY);
    let log = server.program.log();
    assert!(log.contains("log-snapshot-damaged") && log.contains(&newest.display().to_string()), "{log}");
    assert!(records_read(&server) > short, "{} bytes, and {short} with it", records_read(&server));
    assert_eq!(shown(&server, &["app", "gang-1", "gang-2", "gang-3"]).await, before);
    let mut again = server.stream("?after=0").await;
    for line in &heard {
        assert_eq!(again.next().await, *line);
    }
    finish(&server, &mut again, &["gang-1", "gang-2", "gang-3"]).await;
    let mut server = server;
    server.program.kill();
    // Without any, the log from its beginning tells, where that is still there; else the session is told.
    for path in snapshots(dir.path()) {
        fs::write(path, "no snapshot").expect("written");
    }
    let server = start(dir.path(), RARELY);
    let info = server.get("/si/v1/rm/rm-1").await.1;
    match info["state"].as_str() {
        Some("Paused") => assert_eq!(server.get(LISTED).await.1["releases"], json!([])),
        _ => assert_eq!(server.get("/si/v1/rm/rm-1/stream?after=1").await.0, 410, "{info}"),
    }
}

#[tokio::test]
async fn work_that_a_start_would_have_to_do_again_counts_as_bytes_of_the_log_do() {
    // 1 MiB of the log, or a sixth of a second of work. A configuration takes few bytes and makes no lines, and every ask is
    // tried again.
    const BYTES: u64 = 1 << 20;
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path(), &BYTES.to_string());
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app").await;
    for n in 0..500 {
        // Each of another size, and none fits.
        asks(&server, "app", &[&format!("k{n}")], 1_000_000 + n).await;
    }
    let mut rounds = 0;
    while snapshots(dir.path()).is_empty() {
        rounds += 1;
        let text = CONFIG.replace("- name: a", &format!("- name: a\n          - name: b{}", rounds % 2));
        let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": text})).await;
        assert_eq!(status, 200, "{body}");
        assert!(rounds < 2_000, "there is no snapshot");
        let bytes = log_bytes(dir.path());
        assert!(bytes < BYTES / 2, "{bytes} bytes in {rounds} rounds");
    }
}

#[tokio::test]
async fn lines_that_the_shim_says_it_has_put_off_no_snapshot() {
    const BYTES: u64 = 4_000_000;
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(dir.path(), &BYTES.to_string());
    server.register("rm-1", &[]).await;
    server.nodes(&["n1", "n2"]).await;
    application(&server, "app").await;
    // As long as the shim has none of them, lines would make the snapshot as large as the log.
    let (tag, mut rounds) = ("x".repeat(60_000), 0);
    while log_bytes(dir.path()) < BYTES * 5 / 4 {
        let ask = json!({"allocationKey": format!("k{rounds}"), "applicationID": "app", "partitionName": "default",
            "allocationTags": {"tag": tag}, "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}});
        send(&server, "allocations", json!({"allocations": [ask]})).await;
        rounds += 1;
    }
    let placed = |app: &Value| app["allocations"].as_array().map(Vec::len) == Some(rounds);
    until(&server, "/ws/v1/partition/default/application/app", placed).await;
    assert!(snapshots(dir.path()).is_empty(), "it was worth it already");
    let last = last_line(&server).await;
    server.stream("?after=0").await.up_to(last).await;
    let _stream = server.stream(&format!("?after={last}")).await;
    asks(&server, "app", &["one-more"], 1).await;
    common::answer("a snapshot", async || snapshots(dir.path()), |all| !all.is_empty()).await;
    assert!(log_bytes(dir.path()) < BYTES * 3 / 2, "it came when the log had doubled");
}
