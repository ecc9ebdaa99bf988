//! The program: start, signals, and what keeps it from starting.

use std::{
    fs,
    io::Read as _,
    net::TcpListener,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::shim::server::{LIMIT, Server, command};

/// What a start that fails says, with its exit status.
fn fails(args: &[&str]) -> (i32, String) {
    let output = command(args).output().expect("starts");
    assert!(output.stdout.is_empty(), "no ready line: {output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().filter(|line| !line.contains(" INFO ")).collect::<Vec<_>>().join("\n");
    (output.status.code().expect("it ended by itself"), last)
}

fn signal(server: &Server, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &server.child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[tokio::test]
async fn on_sigterm_streams_are_told_and_it_ends_well() {
    let mut server = Server::registered(&[]).await;
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    stream.up_to(1).await;
    let began = Instant::now();
    signal(&server, "TERM");
    assert_eq!(stream.next().await["closing"]["status"], 503);
    assert!(stream.ended().await);
    let status = loop {
        if let Some(status) = server.child.try_wait().expect("a child") {
            break status;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "within 5 s");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(status.code(), Some(0));
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
    // A bad one changes nothing.
    fs::write(file.path(), "partitions: 7").expect("written");
    signal(&server, "HUP");
    fs::write(file.path(), text("two")).expect("written");
    signal(&server, "HUP");
    server.until(|info| info["partitions"] == json!(["[rm-1]two"])).await;
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
    let (status, text) = fails(&["serve", "--data", &file.path().display().to_string()]);
    assert!(status == 1 && text.contains(&file.path().display().to_string()), "{text}");
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().display().to_string();
    let doors = ["--http", "127.0.0.1:0", "--grpc", "off", "--data", &data];
    let mut first = command(&doors).spawn().expect("starts");
    let mut ready = [0; 15];
    first.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("ready");
    assert_eq!(&ready, b"callboard ready");
    let (status, text) = fails(&doors);
    let _ = first.kill();
    let _ = first.wait();
    assert_eq!(status, 1);
    assert!(text.contains(&data) && text.contains("another server"), "{text}");
    assert!(text.contains(&format!("process {}", first.id())), "{text}");
}

#[tokio::test]
async fn doors_may_be_off() {
    let server = Server::start(&["--grpc", "off"]);
    assert!(server.ready.ends_with("grpc=off data=memory"), "{}", server.ready);
    tokio::time::timeout(LIMIT, server.register("rm-1", &[])).await.expect("in time");
}
