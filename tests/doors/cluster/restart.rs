//! One server on etcd: all that it had is there when it comes back, or another in its place.

use serde_json::json;

use crate::{
    cluster::rig::{self, NEVER, allocated, ask, leads, sees, session, start},
    common,
    shim::server::CONFIG,
    wired::rig::asks,
};

#[tokio::test]
async fn another_server_goes_on_where_one_was_killed() {
    let Some(etcd) = rig::etcd("another_server_goes_on_where_one_was_killed") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let mut server = start(&etcd, one.path(), NEVER);
    session(&server).await;
    ask(&server, &["k1", "k2"]).await;
    let mut lines = server.stream("?after=0").await;
    let mut seen = Vec::new();
    while allocated(&seen).len() < 2 {
        seen.push(lines.next().await);
    }
    let last = seen.last().expect("a line")["seq"].as_u64().expect("a number");
    server.program.kill();

    // On another machine, as it were: it has nothing of the first.
    let server = start(&etcd, two.path(), NEVER);
    let info = leads(&server).await;
    assert_eq!((&info["state"], &info["epoch"], &info["lastSequence"]), (&json!("Paused"), &json!(1), &json!(last)));
    let mut lines = server.stream("?after=0").await;
    assert_eq!(lines.up_to(last).await, seen, "the same lines with the same numbers");
    ask(&server, &["k3"]).await;
    let next = lines.next().await;
    assert_eq!((next["seq"].as_u64(), allocated(&[next])), (Some(last + 1), vec!["k3".to_owned()]));
    let (_, app) = server.get("/ws/v1/partition/default/application/app").await;
    assert_eq!(app["allocations"].as_array().map(Vec::len), Some(3), "{app}");
}

#[tokio::test]
async fn long_records_are_cut_and_old_ones_go_after_snapshots() {
    let Some(etcd) = rig::etcd("long_records_are_cut_and_old_ones_go_after_snapshots") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let mut server = start(&etcd, one.path(), "20000");
    // A configuration that fits into no value of etcd.
    let config = format!("# {}\n{CONFIG}", "x".repeat(1_300_000));
    let (status, body) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": config})).await;
    assert_eq!(status, 200, "{body}");
    server.nodes(&["n1", "n2"]).await;
    let app = json!({"applicationID": "app", "queueName": "root.a", "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [app]})).await.0, 202);
    asks(&server, "app", &["k1", "k2"], 1).await;
    // Configurations make no lines, with which a snapshot would wait for more of the log. The first is among what goes with the
    // second snapshot.
    let mut round = 0;
    let gone = loop {
        round += 1;
        let config = format!("# {round} {}\n{CONFIG}", "y".repeat(50_000));
        let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": config})).await;
        assert_eq!(status, 200, "{body}");
        let keys = etcd.keys();
        let log = keys.iter().find(|key| key.starts_with("/callboard/log/")).expect("a value");
        if !log.ends_with("/00000000000000000001") {
            break log.clone();
        }
        assert!(round < 200, "nothing goes: {} keys", keys.len());
    };
    // And some that are behind the snapshots.
    asks(&server, "app", &["k3", "k4"], 1_000).await;
    let last = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].as_u64().expect("a number");
    server.program.kill();
    let server = start(&etcd, two.path(), "20000");
    let info = leads(&server).await;
    assert!(info["lastSequence"].as_u64() >= Some(last), "{info} after {last}, {gone}\n{}", server.program.log_tail());
    let (_, app) = server.get("/ws/v1/partition/default/application/app").await;
    let is_there = |what: &str| app[what].as_array().map_or(0, Vec::len);
    assert_eq!((is_there("allocations"), is_there("requests")), (2, 2), "two are placed, two wait: {app}");
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["state"], "Paused");
    assert!(!server.program.log().contains(" ERROR "), "{}", server.program.log());
}

#[tokio::test]
async fn while_etcd_is_gone_nothing_is_acknowledged_and_then_all_goes_on() {
    let Some(mut etcd) = rig::etcd("while_etcd_is_gone_nothing_is_acknowledged_and_then_all_goes_on") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(&etcd, dir.path(), NEVER);
    session(&server).await;
    ask(&server, &["k1"]).await;
    let mut lines = server.stream("?after=0").await;
    let mut seen = Vec::new();
    while allocated(&seen).is_empty() {
        seen.push(lines.next().await);
    }
    etcd.kill();
    // The first finds out. It is recorded in the end, whatever its sender was told.
    let mut asked = 1;
    let refused = async || {
        asked += 1;
        let body = json!({"allocations": [{"allocationKey": format!("k{asked}"), "applicationID": "app", "partitionName": "default",
            "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}}]});
        let sent = server.http.post(server.url("/si/v1/rm/rm-1/allocations")).json(&body);
        match sent.timeout(std::time::Duration::from_millis(300)).send().await {
            Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap_or_default()),
            Err(error) => (0, error.to_string()),
        }
    };
    let (_, why) = common::answer("an ask", refused, |(status, _)| *status == 503).await;
    assert!(why.contains("etcd") && why.contains(&etcd.url()), "{why}");
    // Reads go on, and nothing that was decided meanwhile leaves.
    let (status, app) = server.get("/ws/v1/partition/default/application/app").await;
    assert_eq!(status, 200, "{app}");
    let quiet = tokio::time::timeout(std::time::Duration::from_millis(300), lines.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    etcd.again();
    let taken = async || {
        let sent = server.send("POST", "/si/v1/rm/rm-1/nodes", &json!({"nodes": []})).await;
        sent.0
    };
    common::answer("a request", taken, |status| *status == 202).await;
    seen.push(lines.next().await);
    let numbers: Vec<_> = seen.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["epoch"], 1);
}

/// The key by which others see the only server.
fn presence(etcd: &rig::Etcd) -> Option<String> {
    etcd.keys().into_iter().find(|key| key.contains("/servers/"))
}

#[tokio::test]
async fn a_copy_with_the_same_address_waits_until_the_original_is_gone() {
    let Some(etcd) = rig::etcd("a_copy_with_the_same_address_waits_until_the_original_is_gone") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let options = ["--advertise", "http://127.0.0.1:9", "--cluster-lease", "2s"];
    let begin = |data: &std::path::Path| rig::start_with(&etcd.url(), data, NEVER, &options);
    let mut original = begin(&one);
    session(&original).await;
    let copied = std::process::Command::new("cp").arg("-r").args([&one, &two]).status();
    assert!(copied.expect("cp is there").success());
    let copy = begin(&two);
    common::answer("its log", async || copy.program.log(), |log| log.contains("cluster-same-id")).await;
    ask(&original, &["k1"]).await;
    assert_eq!(original.get("/si/v1/rm/rm-1").await.0, 200);
    original.program.kill();
    assert_eq!(leads(&copy).await["epoch"], 1);
    ask(&copy, &["k2"]).await;
}

#[tokio::test]
async fn a_copy_of_a_server_leads_nothing_new() {
    let Some(etcd) = rig::etcd("a_copy_of_a_server_leads_nothing_new") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let original = start(&etcd, &one, NEVER);
    let copied = std::process::Command::new("cp").arg("-r").args([&one, &two]).status();
    assert!(copied.expect("cp is there").success());
    let copy = start(&etcd, &two, NEVER);
    let refused = async || {
        let (status, refused) = copy.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await;
        assert_eq!(status, 503, "{refused}");
        refused["detail"].to_string()
    };
    common::answer("why", refused, |why| why.contains("leads nothing at present")).await;
    session(&original).await;
    ask(&original, &["k1"]).await;
    let group = original.get("/api/v1/cluster").await.1["resourceManagers"][0].clone();
    assert_eq!((&group["role"], &group["epoch"]), (&json!("leads"), &json!(1)), "{group}");
}

#[tokio::test]
async fn a_server_whose_key_is_gone_says_again_that_it_is_there() {
    let Some(etcd) = rig::etcd("a_server_whose_key_is_gone_says_again_that_it_is_there") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let server = start(&etcd, dir.path(), NEVER);
    session(&server).await;
    // As it goes with a lease of another one that had put it.
    for _ in 0..2 {
        let key = common::answer("its key", async || presence(&etcd), Option::is_some).await.expect("just now");
        etcd.ctl(&["del", &key]);
        sees(&server, 1).await;
    }
    common::answer("its key", async || presence(&etcd), Option::is_some).await;
    ask(&server, &["k1"]).await;
}
