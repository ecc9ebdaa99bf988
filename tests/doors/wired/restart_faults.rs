//! Logs that cannot be read at a start: nothing is written over them, and somebody is told.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    common,
    shim::server::{CONFIG, Server},
    wired::rig::{application, asks, until, with_data},
};

/// A server with a session, killed.
async fn killed(data: &Path) {
    let mut server = with_data(data);
    server.register("rm-1", &[]).await;
    let mut stream = server.stream("").await;
    server.nodes(&["n1"]).await;
    application(&server, "app").await;
    asks(&server, "app", &["a"], 10).await;
    while stream.next().await["allocation"]["new"].is_null() {}
    server.program.kill();
}

/// All files of a directory with what is in them.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut all: Vec<_> = entries
        .map(|path| {
            (path.file_name().expect("a name").to_string_lossy().into_owned(), fs::read(&path).unwrap_or_default())
        })
        .collect();
    all.sort();
    all
}

async fn metric(server: &Server, line: &str) {
    let text = server.http.get(server.url("/ws/v1/metrics")).send().await.expect("answers").text().await.expect("text");
    assert!(text.contains(line), "no {line} in {text}");
}

fn info(data: &Path) -> (bool, String) {
    let output = common::command(&["log", "info", "--data", &data.display().to_string()]).output().expect("runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn works(server: &Server) {
    server.register("rm-1", &[]).await;
    let mut stream = server.stream("").await;
    server.nodes(&["n1"]).await;
    application(server, "app").await;
    asks(server, "app", &["a"], 10).await;
    while stream.next().await["allocation"]["new"].is_null() {}
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_put_aside_and_its_shim_told() {
    // A file of it is something that cannot be read, as on a disk with errors; or none says whose it is.
    for unreadable in ["a directory", "rubbish"] {
        let dir = tempfile::tempdir().expect("a directory");
        killed(dir.path()).await;
        let log = dir.path().join("log/rm-1");
        let first = log.join("00000000000000000001.log");
        if unreadable == "rubbish" {
            fs::write(&first, [7; 1000]).expect("written");
        } else {
            // Whose it is can still be told from a later one.
            fs::rename(&first, log.join("00000000000000000009.log")).expect("moved");
            fs::create_dir(&first).expect("made");
        }
        let before = contents(&log);
        let mut server = with_data(dir.path());
        let (status, answer) = server.get("/si/v1/rm/rm-1/stream?after=1").await;
        assert_eq!(status, 410, "{answer}");
        assert!(answer["detail"].as_str().is_some_and(|text| text.contains("register again")), "{answer}");
        assert_eq!(contents(&dir.path().join("log.damaged/rm-1")), before, "as it was");
        let said = server.program.log();
        assert!(said.contains("log-unread") && said.contains("log-put-aside"), "{said}");
        metric(&server, "callboard_log_lost_total 1").await;
        let (sound, text) = info(dir.path());
        assert!(!sound && text.contains("put aside") && text.contains("log.damaged/rm-1"), "{text}");
        // It is told again by the next, and what was put aside stays.
        server.program.kill();
        let mut server = with_data(dir.path());
        assert_eq!(server.get("/si/v1/rm/rm-1/stream?after=1").await.0, 410);
        assert_eq!(contents(&dir.path().join("log.damaged/rm-1")), before, "as it was");
        works(&server).await;
        server.program.kill();
        let server = with_data(dir.path());
        assert_eq!(server.get("/si/v1/rm/rm-1").await.1["state"], "Paused", "its log is a log like any other");
        assert_eq!(contents(&dir.path().join("log.damaged/rm-1")), before, "as it was");
    }
}

#[tokio::test]
async fn what_is_wrong_with_one_log_is_no_matter_of_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    killed(dir.path()).await;
    // The size of this one cannot be told.
    let other = dir.path().join("log/rm-2");
    fs::create_dir(&other).expect("made");
    std::os::unix::fs::symlink("/no/such/file", other.join("00000000000000000001.log")).expect("linked");
    // And the sound one is on another disk.
    let (log, elsewhere) = (dir.path().join("log/rm-1"), dir.path().join("elsewhere"));
    fs::rename(&log, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &log).expect("linked");
    let server = with_data(dir.path());
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["state"], "Paused", "it goes on");
}

#[tokio::test]
async fn a_log_that_can_neither_be_read_nor_put_aside_is_left_alone_and_nobody_registers_over_it() {
    let dir = tempfile::tempdir().expect("a directory");
    killed(dir.path()).await;
    let log = dir.path().join("log/rm-1");
    fs::write(log.join("00000000000000000001.log"), [7; 1000]).expect("written");
    // In the way of what is put aside.
    fs::write(dir.path().join("log.damaged"), "a file").expect("written");
    let before = contents(&log);
    let server = with_data(dir.path());
    let register = json!({"rmID": "rm-1", "config": CONFIG});
    let (status, refused) = server.send("POST", "/si/v1/rm", &register).await;
    let text = refused["detail"].as_str().expect("a text");
    assert_eq!(status, 503, "{refused}");
    assert!(text.contains(&log.display().to_string()) && text.contains("make it readable"), "{text}");
    assert_eq!(contents(&log), before, "not written over");
    metric(&server, "callboard_log_unread 1").await;
    let health = "/ws/v1/scheduler/healthcheck";
    let check = |health: &Value| {
        let all = health["HealthChecks"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|check| check["Name"] == "Log")
    };
    let told = until(&server, health, |health| check(health).is_some_and(|check| check["Succeeded"] == false)).await;
    assert!(told.to_string().contains(&log.display().to_string()), "{told}");
    // Others are not concerned.
    let (status, answer) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-2", "config": CONFIG})).await;
    assert_eq!(status, 200, "{answer}");
    // The operator moves it away: nothing has to be restarted.
    fs::rename(&log, dir.path().join("moved")).expect("moved");
    works(&server).await;
    metric(&server, "callboard_log_unread 0").await;
}

#[tokio::test]
async fn a_file_that_may_not_grow_is_a_full_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let served = common::serve(&["--data", &dir.path().display().to_string()]);
    let mut command = std::process::Command::new("sh");
    // Blocks of 512 bytes, or of 1,024.
    command.args(["-c", "ulimit -f 40 && exec \"$0\" \"$@\""]).arg(served.get_program()).args(served.get_args());
    for (name, value) in served.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // What it logs is in a file, too.
    command.env("RUST_LOG", "error");
    let program = common::Program::try_start(command).unwrap_or_else(|why| panic!("{why}"));
    let server = Server { program, http: reqwest::Client::new() };
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    let refused = async || {
        let nodes: Vec<Value> =
            (0..100).map(|n| json!({"nodeID": format!("away-{n}"), "action": "DECOMISSION"})).collect();
        server.send("POST", "/si/v1/rm/rm-1/nodes", &json!({"nodes": nodes})).await
    };
    let (_, told) = common::answer("a request", refused, |(status, _)| *status != 202).await;
    assert!(told["status"] == 503 && told["detail"].to_string().contains("File too large"), "{told}");
    assert_eq!(server.get("/healthz").await.0, 200);
}
