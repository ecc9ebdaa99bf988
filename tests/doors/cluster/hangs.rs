//! A leader that hangs: its connections stay, and nothing comes of them.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::{connect_async, tungstenite::Message};

use crate::{
    cluster::rig::{self, NEVER, session, start_with},
    common::{self, LIMIT},
    shim::server::read,
};

#[tokio::test]
async fn what_was_passed_on_to_a_leader_that_hangs_ends_with_its_lease() {
    let Some(etcd) = rig::etcd("what_was_passed_on_to_a_leader_that_hangs_ends_with_its_lease") else { return };
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let start = |nth: usize, more: &[&str]| {
        let lease = ["--cluster-lease", "2s"];
        start_with(&etcd.url(), dirs[nth].path(), NEVER, &[&lease, more].concat())
    };
    let leader = start(0, &[]);
    session(&leader).await;
    leader.register("rm-2", &[]).await;
    let others = [start(1, &["--forward"]), start(2, &["--forward"])];
    for other in &others {
        let groups = async || other.get("/api/v1/cluster").await.1["resourceManagers"].clone();
        let follows = |groups: &Value| {
            let groups = groups.as_array().map_or(&[][..], Vec::as_slice);
            groups.len() == 2 && groups.iter().all(|group| group["role"] == "follows")
        };
        common::answer("who is followed", groups, follows).await;
    }
    let other = &others[0];
    let mut lines = other.stream("?after=0").await;
    let first = lines.next().await;
    assert_eq!(first["seq"], 1, "{first}");
    let url = others[1].url("/si/v1/rm/rm-2/ws?after=0").replace("http:", "ws:");
    let (mut socket, _) = connect_async(url).await.expect("upgraded");
    let journal = other.url("/api/v1/partition/default/resource/journal?follow=true");
    let mut journal = other.http.get(journal).send().await.expect("an answer");
    let leads = leader.get("/api/v1/cluster").await.1["server"].clone();
    leader.program.signal("STOP");
    let body = json!({"allocations": []});
    let sent = other.http.post(other.url("/si/v1/rm/rm-1/allocations")).json(&body).send();
    let (status, told) = read(timeout(LIMIT, sent).await.expect("in time").expect("an answer")).await;
    assert_eq!(status, 503);
    let detail = told["detail"].as_str().expect("a text");
    assert!(detail.contains("is not there any more") && detail.contains("send it again"), "{detail}");
    let closing = loop {
        let line = lines.next().await;
        if line["closing"].is_object() {
            break line["closing"].clone();
        }
    };
    assert_eq!(closing["status"], 307);
    assert!(closing["detail"].as_str().is_some_and(|detail| detail.contains("attach again")), "{closing}");
    assert!(lines.ended().await);
    let close = loop {
        let next = timeout(LIMIT, socket.next()).await.expect("in time").expect("open").expect("no fault");
        if let Message::Close(close) = next {
            break close.expect("with a code");
        }
    };
    assert_eq!(u16::from(close.code), 4307, "{close:?}");
    // What has no place for a word breaks off.
    let broken = async { while let Ok(Some(_)) = journal.chunk().await {} };
    timeout(LIMIT, broken).await.expect("in time");
    // Idle ones live on.
    let who = async || {
        let status = other.get("/api/v1/cluster").await.1;
        let led = status["resourceManagers"][0].clone();
        (led["led"] == true && led["leader"] != leads).then(|| led["leader"] == status["server"])
    };
    let here = common::answer("who leads", who, Option::is_some).await == Some(true);
    let behind = if here { &others[1] } else { other };
    common::answer("the leader", async || behind.get("/si/v1/rm/rm-1").await.0, |status| *status == 200).await;
    let mut idle = behind.stream("?after=0").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig::ask(behind, &["k1"]).await;
    while rig::allocated(&[idle.next().await]).is_empty() {}
    leader.program.signal("CONT");
}
