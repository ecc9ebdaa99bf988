//! The state dump is written while it is sent: the server's memory does not grow with it.

use std::fs;

use serde_json::{Value, json};

use super::{
    cluster::GIB,
    server::{Server, node},
};
use crate::common::LIMIT;

const CONFIG: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

/// A figure of `/proc/PID/status` in bytes.
fn memory(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

// OPS-020
#[tokio::test]
async fn a_large_dump_takes_little_memory() {
    let mut server = Server::start();
    server.register(CONFIG).await;
    server.nodes((0..1_000).map(|n| node(&format!("node-{n:04}"), [20 * GIB, 20_000])).collect()).await;
    server.app("app", "root.a", "u", json!({})).await;
    server.asks("app", "a", 20_000, [GIB, 1_000], json!({})).await;
    server.until("/ws/v1/partitions", |all| all[0]["totalContainers"] == 20_000).await;

    let pid = server.pid();
    // One that is read to its end first, so that what is needed once is there.
    let whole = server.get("/debug/fullstatedump").await.bytes().await.unwrap();
    // From here on the highest memory is counted anew.
    let counted = fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok();
    let before = memory(pid, "VmRSS");
    let mut dump = server.get("/debug/fullstatedump").await;
    assert_eq!(dump.headers()["content-type"], "application/json; charset=UTF-8");
    assert_eq!(dump.headers().get("content-length"), None);
    let mut size = 0;
    while let Some(chunk) = dump.chunk().await.unwrap() {
        size += chunk.len() as u64;
    }
    let grown = memory(pid, "VmHWM").saturating_sub(before);
    eprintln!("a dump of {size} bytes took {grown} bytes");
    assert!(size > 15_000_000, "{size}");
    assert!(!counted || grown < size / 2, "a dump of {size} bytes took {grown} bytes");

    let dump: Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!(dump["applications"][0]["allocations"].as_array().unwrap().len(), 20_000);
    let nodes = dump["nodes"][0]["nodesInfo"].as_array().unwrap();
    assert_eq!(nodes.iter().map(|node| node["allocations"].as_array().unwrap().len()).sum::<usize>(), 20_000);

    // A reader that goes away in the middle holds up nobody.
    let mut left = server.get("/debug/fullstatedump").await;
    left.chunk().await.unwrap();
    drop(left);
    let next = tokio::time::timeout(LIMIT, server.get("/debug/fullstatedump")).await.unwrap();
    assert_eq!(next.bytes().await.unwrap().last(), Some(&b'\n'));

    let client = reqwest::Client::new();
    let path = format!("{}/debug/fullstatedump", server.url);
    let packed = client.get(path).header("Accept-Encoding", "gzip").send().await.unwrap();
    assert_eq!(
        (&packed.headers()["content-encoding"], &packed.headers()["vary"]),
        (&"gzip".parse().unwrap(), &"Accept-Encoding".parse().unwrap())
    );
    let packed = packed.bytes().await.unwrap();
    assert!((packed.len() as u64) < size / 4, "{}", packed.len());
}
