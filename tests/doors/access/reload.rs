//! The tokens file changes while the server runs.

use std::fs;

use futures::StreamExt as _;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::access::rig::{LIMIT, Server, line, standard, token, until};

#[tokio::test]
async fn a_changed_file_counts_at_once() {
    let server = Server::start(&[]);
    assert_eq!(server.status("late", "GET", "/ws/v1/clusters").await, 401);
    fs::write(server.tokens(), standard() + &line("viewer", "late", "")).unwrap();
    until(|| async { server.status("late", "GET", "/ws/v1/clusters").await == 200 }).await;
    // A replaced file, as editors and mounted secrets do it; on the signal, without waiting for the next look.
    let new = server.dir.path().join("new");
    fs::write(&new, line("operator", "late", "")).unwrap();
    fs::rename(&new, server.tokens()).unwrap();
    server.signal("HUP");
    until(|| async { server.status("late", "GET", "/debug/stack").await == 200 }).await;
    assert_eq!(server.status("operator", "GET", "/ws/v1/clusters").await, 401);
}

#[tokio::test]
async fn a_wrong_or_missing_file_changes_nothing() {
    let server = Server::start(&[]);
    fs::write(server.tokens(), standard() + "nonsense\n").unwrap();
    until(|| async { server.log().contains("role \"nonsense\" does not exist") }).await;
    assert_eq!(server.status("viewer", "GET", "/ws/v1/clusters").await, 200);
    fs::remove_file(server.tokens()).unwrap();
    server.signal("HUP");
    until(|| async { server.log().contains("No such file") }).await;
    assert_eq!(server.status("viewer", "GET", "/ws/v1/clusters").await, 200);
}

#[tokio::test]
async fn a_file_without_tokens_is_warned_of() {
    let server = Server::start(&[]);
    fs::write(server.tokens(), "").unwrap();
    until(|| async { server.log().contains("no-tokens") }).await;
    assert_eq!(server.status("viewer", "GET", "/ws/v1/clusters").await, 401);
}

#[tokio::test]
async fn what_is_being_answered_ends_with_its_token() {
    let server = Server::start(&[]);
    server.register().await;
    let open = async |caller: &str, path: &str| {
        let url = format!("{}{path}", server.address("http"));
        let sent = server.http.get(url).bearer_auth(crate::access::rig::token(caller)).send().await.unwrap();
        assert_eq!(sent.status(), 200);
        sent
    };
    let events = open("viewer", "/api/v1/events?follow=true&from=0").await;
    let stream = open("shim", "/si/v1/rm/rm-1/stream").await;
    let kept = open("operator", "/api/v1/events?follow=true&from=0").await;
    fs::write(server.tokens(), line("operator", "operator", "")).unwrap();
    server.signal("HUP");
    for response in [events, stream] {
        let mut body = response.bytes_stream();
        let ended = async { while let Some(Ok(_)) = body.next().await {} };
        tokio::time::timeout(LIMIT, ended).await.expect("it broke off");
    }
    // The other goes on.
    let nodes = json!({"nodes": [{"nodeID": "comes-later", "action": "CREATE"}]});
    let sent = server.send("operator", "POST", "/si/v1/rm/rm-1/nodes", Some(&nodes)).await;
    assert_eq!(sent.status(), 202);
    let (mut kept, mut text) = (kept.bytes_stream(), String::new());
    let told = async {
        while !text.contains("comes-later") {
            text += &String::from_utf8_lossy(&kept.next().await.expect("it goes on").expect("it goes on"));
        }
    };
    tokio::time::timeout(LIMIT, told).await.expect("in time");
}

#[tokio::test]
async fn what_waits_and_what_still_comes_ends_with_its_token() {
    let server = Server::start(&[]);
    server.register().await;
    // A second operator, whose token goes; the first one stays.
    fs::write(server.tokens(), standard() + &line("operator", "late", "")).unwrap();
    until(|| async { server.status("late", "GET", "/debug/stack").await == 200 }).await;
    let address = server.address("http");
    let mut slow = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    let head = format!(
        "POST /api/v1/partition/default/resource/drain HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         authorization: Bearer {}\r\ncontent-length: 30\r\n\r\n{{",
        token("late")
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let wait = "/api/v1/partition/default/application/nobody/wait?for=running&timeout=1h";
    let waiting = server.send("late", "GET", wait, None);
    let taken = async {
        // What was sent before has come by then, too.
        until(|| async {
            let metrics = server.send("viewer", "GET", "/metrics", None).await.text().await.expect("a text");
            metrics.contains("\ncallboard_waits{partition=\"default\"} 1\n")
        })
        .await;
        fs::write(server.tokens(), standard()).unwrap();
        server.signal("HUP");
    };
    let (waited, ()) = tokio::join!(waiting, taken);
    assert_eq!(waited.status(), 401);
    assert!(waited.headers().contains_key("www-authenticate"));
    let mut answer = vec![0; 12];
    tokio::time::timeout(LIMIT, slow.read_exact(&mut answer)).await.expect("in time").unwrap();
    assert_eq!(answer, b"HTTP/1.1 401");
}
