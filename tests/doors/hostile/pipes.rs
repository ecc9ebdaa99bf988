//! Commands whose output nobody reads: they end quietly, as `yes | head` does.

use std::{io, process::Stdio};

use crate::{
    access::rig::{LIMIT, program},
    shim::server::Server,
};

/// Runs a command with a closed pipe as its output; gives its exit status and what it says beside.
async fn unread(args: &[&str], server: &Server) -> (Option<i32>, String) {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let mut command = program(args);
    command.env("CALLBOARD_SERVER", server.url("")).stdout(Stdio::from(writer)).stderr(Stdio::piped());
    let command = tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("starts");
    let done = tokio::time::timeout(LIMIT * 6, command.wait_with_output()).await.expect("in time").expect("ended");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[tokio::test]
async fn every_command_ends_quietly() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (queues, bad, tokens, report) = (at("queues.yaml"), at("bad.yaml"), at("tokens"), at("report.html"));
    std::fs::write(&queues, crate::shim::server::CONFIG).expect("written");
    std::fs::write(&bad, "partitions: [{name: default, queues: [{name: '!'}]}]").expect("written");
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    for args in [
        &["validate", &bad][..],
        &["token", "new", "--role", "viewer", "--name", "x"],
        &["token", "new", "--role", "viewer", "--name", "x", "--file", &tokens],
        &["generate", "--seed", "1"],
        &["replay", "--generate", "1", "--speed", "max", "--report", &report],
        &["bench", "--shape", "S0", "--asks", "10", "--nodes", "2", "--runs", "1"],
        &["plan", "--config", &queues],
        &["resource", "status"],
        &["journal"],
        &["events"],
        &["usage", "--by", "queue"],
    ] {
        let (status, told) = unread(args, &server).await;
        assert!(!told.contains("panicked") && !told.contains("roken pipe"), "{args:?}: {told}");
        assert_eq!(status, Some(141), "{args:?}: {told}");
    }
    // A token that nobody saw lets nobody in.
    assert_eq!(std::fs::read_to_string(&tokens).unwrap_or_default(), "");
}

#[tokio::test]
async fn a_full_disk_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (queues, bad) = (at("queues.yaml"), at("bad.yaml"));
    std::fs::write(&queues, crate::shim::server::CONFIG).expect("written");
    std::fs::write(&bad, "partitions: [{name: default, queues: [{name: '!'}]}]").expect("written");
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    for (args, expected) in [
        (&["validate", &queues][..], 1),
        (&["validate", &bad], 1),
        (&["plan", "--config", &queues], 2),
        (&["plan", "--config", &bad], 1),
        (&["resource", "status"], 1),
        (&["queue", "show", "root"], 1),
        (&["wait", "node/n1", "--for", "online"], 1),
        (&["journal"], 1),
        (&["events"], 1),
        (&["nodes"], 1),
        (&["usage", "--by", "queue"], 1),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        let mut command = program(args);
        command.env("CALLBOARD_SERVER", server.url("")).stdout(Stdio::from(full)).stderr(Stdio::piped());
        let command = tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("starts");
        let done = tokio::time::timeout(LIMIT * 6, command.wait_with_output()).await.expect("in time").expect("ended");
        let told = String::from_utf8_lossy(&done.stderr);
        let wanted = "callboard: the output cannot be written: No space left on device";
        assert_eq!(told.matches(wanted).count(), 1, "{args:?}: {told}");
        assert_eq!(done.status.code(), Some(expected), "{args:?}: {told}");
    }
}

#[tokio::test]
async fn a_server_serves_whoever_reads_its_first_line() {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let mut command = program(&["serve", "--ephemeral", "--grpc", "off", "--http", &address]);
    command.stdout(Stdio::from(writer)).stderr(Stdio::null());
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("starts");
    let alive = async {
        while reqwest::get(format!("http://{address}/healthz")).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, alive).await.expect("in time");
    assert!(child.try_wait().expect("known").is_none());
}
