//! The program: start, signals, and what keeps it from starting.

use std::{fs, net::TcpListener};

use serde_json::json;

use crate::{
    common::{LIMIT, Program, command},
    shim::server::Server,
};

/// What a start that fails says, with its exit status.
fn fails(args: &[&str]) -> (i32, String) {
    let output = command(args).output().expect("starts");
    assert!(output.stdout.is_empty(), "no ready line: {output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().filter(|line| !line.contains(" INFO ")).collect::<Vec<_>>().join("\n");
    (output.status.code().expect("it ended by itself"), last)
}

#[tokio::test]
async fn on_sigterm_streams_are_told_and_it_ends_well() {
    let server = Server::registered(&[]).await;
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    stream.up_to(1).await;
    server.program.signal("TERM");
    assert_eq!(stream.next().await["closing"]["status"], 503);
    assert!(stream.ended().await);
    assert_eq!(server.program.ended().await, Some(0));
}

#[tokio::test]
async fn it_ends_well_however_soon_it_is_told_to() {
    for name in ["TERM", "INT"] {
        let server = Server::start(&[]);
        server.program.signal(name);
        assert_eq!(server.program.ended().await, Some(0), "SIG{name}");
    }
}

#[tokio::test]
async fn sighup_reads_the_configuration_again() {
    let text = |partition: &str| format!("partitions:\n  - name: {partition}\n    queues:\n      - name: root\n");
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text("one")).expect("written");
    let server = Server::start(&["--config", &file.path().display().to_string()]);
    let (status, body) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["partitions"], json!(["[rm-1]one"]));
    // A bad one changes nothing, and the log says of each fault what `validate` says, with its place.
    let bad =
        text("one").replace("name: root", "name: root\n        maxapplications: many\n        queues: [{name: 'a b'}]");
    fs::write(file.path(), &bad).expect("written");
    server.program.signal("HUP");
    let stays = "the configuration stays as it is";
    crate::common::until(async || server.program.log().contains(stays)).await;
    let output = crate::common::command(&["validate", &file.path().display().to_string()]).output().expect("runs");
    let told = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    let (path, log) = (file.path().display().to_string(), server.program.log());
    let faults: Vec<&str> = told.lines().filter(|line| line.starts_with(&path)).collect();
    assert_eq!(faults.len(), 2, "{told}");
    for fault in faults {
        assert!(log.contains(fault), "{fault}\n{log}");
    }
    // Nor does one that a full disk or a cut write leaves.
    fs::write(file.path(), "").expect("written");
    server.program.signal("HUP");
    crate::common::until(async || server.program.log().contains("there is nothing in it")).await;
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["partitions"], json!(["[rm-1]one"]));
    fs::write(file.path(), text("two")).expect("written");
    server.program.signal("HUP");
    server.until(|info| info["partitions"] == json!(["[rm-1]two"])).await;
}

#[tokio::test]
async fn a_file_that_hangs_keeps_no_signal_from_being_heard() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("queues.yaml");
    fs::write(&file, "partitions:\n  - name: one\n    queues:\n      - name: root\n").expect("written");
    let server = Server::start(&["--config", &file.display().to_string()]);
    fs::remove_file(&file).expect("removed");
    // Whoever reads it hangs until somebody writes.
    let made = std::process::Command::new("mkfifo").arg(&file).status().expect("runs");
    assert!(made.success());
    server.program.signal("HUP");
    assert_eq!(server.get("/healthz").await.0, 200);
    server.program.signal("TERM");
    assert_eq!(server.program.ended().await, Some(0));
}

#[tokio::test]
async fn a_configuration_that_was_edited_meanwhile_is_in_force_after_a_restart() {
    let text = |partition: &str| format!("partitions:\n  - name: {partition}\n    queues:\n      - name: root\n");
    let dir = tempfile::tempdir().expect("a directory");
    let (file, data) = (dir.path().join("queues.yaml"), dir.path().join("data"));
    let start = |config: bool| {
        let (file, data) = (file.display().to_string(), data.display().to_string());
        let config: &[&str] = if config { &["--config", &file] } else { &[] };
        Server::start(&[&["--grpc", "off", "--data", &data], config].concat())
    };
    fs::write(&file, text("one")).expect("written");
    let mut server = start(true);
    for rm in ["rm-1", "rm-2"] {
        let own = if rm == "rm-2" { text("own") } else { String::new() };
        let (status, body) = server.send("POST", "/si/v1/rm", &json!({"rmID": rm, "config": own})).await;
        assert_eq!(status, 200, "{body}");
    }
    fs::write(&file, text("two")).expect("written");
    // Who starts it without a configuration changes nothing.
    for (config, partition) in [(false, "one"), (true, "two"), (true, "two")] {
        server.program.signal("TERM");
        assert_eq!(server.program.ended().await, Some(0));
        server = start(config);
        server.until(|info| info["partitions"] == json!([format!("[rm-1]{partition}")])).await;
        assert_eq!(server.get("/si/v1/rm/rm-2").await.1["partitions"], json!(["[rm-2]own"]), "it brought its own");
    }
}

#[test]
fn what_keeps_it_from_starting_is_one_clear_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("free");
    let address = taken.local_addr().expect("bound").to_string();
    for door in ["--http", "--grpc"] {
        let (status, text) = fails(&["serve", "--ephemeral", door, &address]);
        assert_eq!(status, 1, "{text}");
        assert!(text.contains(&address) && text.contains("in use") && text.contains(door), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    // Such a start loses no events, and the next one says nothing of any.
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().to_str().expect("a path");
    assert_eq!(fails(&["serve", "--grpc", "off", "--data", data, "--http", &address]).0, 1);
    let (status, text) = fails(&["serve", "--grpc", "off", "--data", data, "--http", &address]);
    assert!(status == 1 && !text.contains("was not closed"), "{text}");
    let (status, text) = fails(&["--http", "nowhere"]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("nowhere"), "{text}");
    let (status, text) = fails(&["serve", "--ephemeral", "--http", "off", "--grpc", "off"]);
    assert!(status == 1 && text.contains("no door"), "{text}");
    let (status, text) = fails(&["serve", "--ephemeral", "--config", "/nonexistent/config.yaml"]);
    assert!(status == 1 && text.contains("/nonexistent/config.yaml"), "{text}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), "partitions: 7").expect("written");
    let (status, text) = fails(&["serve", "--ephemeral", "--config", &file.path().display().to_string()]);
    assert!(status == 1 && text.contains("line 1"), "{text}");
    // Each fault of a file is told before it, with its place.
    fs::write(file.path(), "partitions:\n- queues:\n  - name: a.b\n  - name: c.d\n").expect("written");
    let (status, text) = fails(&["serve", "--ephemeral", "--config", &file.path().display().to_string()]);
    assert!(status == 1 && text.contains(":3:") && text.contains("`c.d` below root"), "{text}");
    let (status, text) = fails(&["serve", "--data", &file.path().display().to_string()]);
    assert!(status == 1 && text.contains(&file.path().display().to_string()), "{text}");
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().display().to_string();
    let doors = ["--http", "127.0.0.1:0", "--grpc", "off", "--data", &data];
    let first = Program::start(&doors);
    // Whether the lock file is there or not.
    for _ in 0..2 {
        let (status, text) = fails(&[&["serve"], &doors[..]].concat());
        assert_eq!(status, 1);
        assert!(text.contains(&data) && text.contains("another server"), "{text}");
        let lock = dir.path().join("callboard.lock");
        if lock.exists() {
            assert!(text.contains(&format!("process {}", first.pid())), "{text}");
            fs::remove_file(lock).expect("removed");
        }
    }
    assert!(!dir.path().join("callboard.lock").exists(), "the second server has left before it made one");
    drop(first);
    Program::start(&doors);
}

#[tokio::test]
async fn doors_may_be_off() {
    let server = Server::start(&["--grpc", "off"]);
    let ready = &server.program.ready;
    assert!(ready.ends_with("grpc=off data=memory"), "{ready}");
    tokio::time::timeout(LIMIT, server.register("rm-1", &[])).await.expect("in time");
}
