//! Requests that are sent without waiting for the answers to those before.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use callboard::cli::process::cpu_seconds;
use serde_json::json;

use crate::{
    common::LIMIT,
    hostile::memory::{SLACK, memory, peak, registered},
    shim::server::Server,
};

fn connected(server: &Server) -> TcpStream {
    TcpStream::connect(server.url("").trim_start_matches("http://")).expect("connected")
}

/// The same request so often, sent on one connection that reads nothing.
fn unread(server: &Server, request: &str, bytes: usize) -> TcpStream {
    let mut socket = connected(server);
    socket.set_write_timeout(Some(Duration::from_millis(200))).expect("set");
    // What is not taken is not sent.
    let _ = socket.write_all(request.repeat(bytes / request.len()).as_bytes());
    socket
}

#[tokio::test]
async fn requests_behind_one_that_is_not_answered_are_left_where_they_are() {
    let server = registered().await;
    let get = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let before = memory(&server, "VmRSS");
    let mut silent = Vec::new();
    let peak = peak(&server, before, async {
        silent.extend((0..20).map(|_| unread(&server, get, 600 << 10)));
        server.get("/healthz").await;
    })
    .await;
    // Parsed, those of one connection would take tens of megabytes.
    assert!(peak < 2 * SLACK, "{} KiB", peak >> 10);
    drop(silent);
    let waits = "GET /api/v1/partition/default/application/none/wait?for=completed&timeout=60s HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut socket = unread(&server, waits, waits.len());
    socket.write_all(get.repeat(2000).as_bytes()).expect("sent");
    let spent = || cpu_seconds(server.program.pid()).expect("it runs");
    // A worker that tries again and again takes all of a processor.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = spent();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(spent() - before < 0.2, "{} s", spent() - before);
}

#[tokio::test]
async fn requests_sent_without_waiting_are_answered_in_order() {
    let server = registered().await;
    let mut socket = connected(&server);
    socket.set_read_timeout(Some(LIMIT)).expect("set");
    let head = format!("Host: localhost\r\nX-Padding: {}\r\n", "x".repeat(700));
    let body = json!({"nodes": [{"nodeID": "n1", "action": "CREATE"}]}).to_string();
    let sized = format!(
        "POST /si/v1/rm/rm-1/nodes HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let chunks = format!(
        "POST /si/v1/rm/rm-1/nodes HTTP/1.1\r\n{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\n{head}\r\n");
    let all = [get("/healthz"), sized, get("/nothing"), chunks, get("/healthz"), get("/api/v1/nothing")].concat();
    let last = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all((all.repeat(50) + last).as_bytes()).expect("sent");
    let mut told = String::new();
    socket.read_to_string(&mut told).expect("all of it");
    let statuses: Vec<&str> = told.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, [["200", "202", "404", "202", "200", "404"].repeat(50), vec!["200"]].concat(), "{told}");
}
