//! Two servers: one leads, the other says where, and goes on when the first is gone.

use std::time::Duration;

use callboard::si::{
    ext::{Hello, Reply, reply, scheduler_extension_client::SchedulerExtensionClient},
    v1::{RegisterResourceManagerRequest, scheduler_client::SchedulerClient},
};
use serde_json::json;
use tonic::Code;

use crate::{
    cluster::rig::{
        self, NEVER, allocated, ask, ask_until_taken, follows, leads, run, said_to_follow, sees, session, start,
        start_with,
    },
    common,
    shim::server::Server,
};

/// The address in the trailers.
pub fn led_at(told: &tonic::Status) -> String {
    let at = told.metadata().get("callboard-leader").and_then(|at| at.to_str().ok());
    at.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_other_server_sends_everybody_to_the_leader() {
    let Some(etcd) = rig::etcd("the_other_server_sends_everybody_to_the_leader") else { return };
    let (_dirs, leader, other) = rig::two(&etcd).await;
    let body = json!({"allocations": []});
    for (method, path) in [
        ("POST", "/si/v1/rm/rm-1/allocations"),
        ("GET", "/si/v1/rm/rm-1/stream?after=0"),
        ("GET", "/si/v1/rm/rm-1"),
        ("PUT", "/si/v1/rm/rm-1/configuration"),
        ("DELETE", "/si/v1/rm/rm-1"),
    ] {
        let sent = other.http.request(method.parse().expect("a method"), other.url(path)).json(&body).send().await;
        let sent = sent.expect("an answer");
        assert_eq!(
            (sent.status().as_u16(), sent.headers()["location"].to_str().expect("a text")),
            (307, &*leader.url(path)),
            "{path}"
        );
        let told = sent.text().await.expect("text");
        assert!(told.is_empty() || told.contains("is led by the server at"), "{path}: {told}");
    }
    let (status, body) = other.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await;
    assert_eq!(status, 307, "a registration, too: {body}");
    // Nothing of it happened.
    assert_eq!(leader.get("/si/v1/rm/rm-1").await.1["epoch"], 1);
    assert_eq!(other.get("/si/v1/rm").await.1, json!([]));
    // Commands say where it is.
    let listed = run(&["rms", "--server", &other.url("")]);
    assert!(listed.contains(&format!("rm-1 is led by another server: --server {}\n", leader.url(""))), "{listed}");
    let listed = run(&["rms", "--server", &leader.url("")]);
    assert!(listed.contains("rm-1 ") && !listed.contains("is led by"), "{listed}");
    // Over gRPC the address is in the trailers.
    let at = leader.grpc().trim_start_matches("http://").to_owned();
    let channel = tonic::transport::Channel::from_shared(other.grpc()).expect("a URL").connect().await.expect("there");
    let request = RegisterResourceManagerRequest { rm_id: "rm-1".into(), ..Default::default() };
    let told = SchedulerClient::new(channel.clone()).register_resource_manager(request).await.expect_err("refused");
    assert_eq!((told.code(), led_at(&told)), (Code::Unavailable, at.clone()));
    let hello = Hello { rm_id: "rm-1".into(), resume: true, ..Default::default() };
    let hello = Reply { id: 0, reply: Some(reply::Reply::Hello(hello)) };
    let calls = SchedulerExtensionClient::new(channel).callbacks(tokio_stream::iter([hello])).await;
    let told = match calls {
        Ok(calls) => calls.into_inner().message().await.expect_err("refused"),
        Err(told) => told,
    };
    assert_eq!((told.code(), led_at(&told)), (Code::Unavailable, at.clone()));
    // One that nobody knows is led where it registers.
    let (status, _) = other.send("POST", "/si/v1/rm", &json!({"rmID": "rm-2"})).await;
    assert_eq!((status, leader.get("/si/v1/rm").await.1.as_array().map(Vec::len)), (200, Some(1)));
}

#[tokio::test]
async fn sigterm_hands_over_and_streams_are_told_where_it_goes_on() {
    let Some(etcd) = rig::etcd("sigterm_hands_over_and_streams_are_told_where_it_goes_on") else { return };
    let (_dirs, leader, other) = rig::two(&etcd).await;
    sees(&leader, 2).await;
    ask(&leader, &["k1"]).await;
    let mut lines = leader.stream("?after=0").await;
    let mut seen = Vec::new();
    while allocated(&seen).is_empty() {
        seen.push(lines.next().await);
    }
    leader.program.signal("TERM");
    let closing = loop {
        let line = lines.next().await;
        if line["closing"].is_object() {
            break line;
        }
        seen.push(line);
    };
    assert_eq!(
        (&closing["closing"]["status"], &closing["closing"]["leader"]),
        (&json!(307), &json!(other.url(""))),
        "{closing}"
    );
    assert!(lines.ended().await);
    assert_eq!(leader.program.ended().await, Some(0));
    leads(&other).await;
    let last = seen.last().expect("a line")["seq"].as_u64().expect("a number");
    let mut lines = other.stream(&format!("?after={last}")).await;
    ask(&other, &["k2"]).await;
    let mut more = Vec::new();
    while allocated(&more).is_empty() {
        more.push(lines.next().await);
        assert_eq!(more.last().expect("a line")["seq"].as_u64(), Some(last + more.len() as u64));
    }
}

#[tokio::test]
async fn sigterm_waits_for_a_server_that_follows() {
    let Some(etcd) = rig::etcd("sigterm_waits_for_a_server_that_follows") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let leader = start(&etcd, one.path(), NEVER);
    session(&leader).await;
    let (other, reads) = rig::started_unread(&etcd, two.path());
    sees(&leader, 2).await;
    leader.program.signal("TERM");
    // It goes on while the other still reads.
    let body = json!({"nodes": []});
    for _ in 0..5 {
        let sent = leader.http.post(leader.url("/si/v1/rm/rm-1/nodes")).json(&body).send().await;
        assert_eq!(sent.map_or(0, |answer| answer.status().as_u16()), 202, "{}", leader.program.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(reads);
    leads(&other).await;
    assert_eq!(leader.program.ended().await, Some(0));
    // It is gone for others at once, before its lease ends.
    sees(&other, 1).await;
}

#[tokio::test]
async fn a_leader_that_was_stopped_gives_up_when_it_goes_on() {
    let Some(etcd) = rig::etcd("a_leader_that_was_stopped_gives_up_when_it_goes_on") else { return };
    let (_dirs, leader, other) = rig::two(&etcd).await;
    let mut lines = leader.stream("?after=0").await;
    leader.program.signal("STOP");
    // Its lease ends.
    leads(&other).await;
    ask(&other, &["k1"]).await;
    // A request that reaches it before it knows: whatever it decides, nothing of it leaves.
    let body = json!({"allocations": [{"allocationKey": "late", "applicationID": "app", "partitionName": "default",
        "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}}]});
    let late = leader.http.post(leader.url("/si/v1/rm/rm-1/allocations")).json(&body).send();
    let late = tokio::spawn(late);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    leader.program.signal("CONT");
    let status = late.await.expect("no panic").expect("an answer").status().as_u16();
    assert!(status == 307 || status == 503, "{status}");
    loop {
        let line = lines.next().await;
        assert!(!line.to_string().contains("late"), "{line}");
        if line["closing"].is_object() {
            assert_eq!(line["closing"]["status"], 307);
            break;
        }
    }
    follows(&leader).await;
    let (_, app) = other.get("/ws/v1/partition/default/application/app").await;
    assert!(!app.to_string().contains("late"), "{app}");
    // Of what its record never became there are no events, nor of an end that nothing came to.
    let events = leader.http.get(leader.url("/api/v1/events")).send().await.expect("an answer");
    let events = events.text().await.expect("text");
    assert!(events.contains("\"n1\"") && !events.contains("late"), "{events}");
    let ended = |line: &str| line.contains("\"app\"") && line.contains("REMOVE");
    assert!(!events.lines().any(ended), "{events}");
}

#[tokio::test]
async fn an_operator_moves_the_lead_and_sees_who_has_it() {
    let Some(etcd) = rig::etcd("an_operator_moves_the_lead_and_sees_who_has_it") else { return };
    let (_dirs, leader, other) = rig::two(&etcd).await;
    // It is warm: nothing that was recorded is missing there.
    let behind = async || other.get("/api/v1/cluster").await.1["resourceManagers"][0].clone();
    let group = common::answer("the resource manager", behind, |group| group["applied"] == group["index"]).await;
    assert_eq!((&group["rmID"], &group["role"]), (&json!("rm-1"), &json!("follows")), "{group}");
    sees(&leader, 2).await;
    // Of those who are asked, too.
    sees(&other, 2).await;
    let status = leader.get("/api/v1/cluster").await.1;
    assert_eq!(status["etcd"]["members"], json!(etcd.url()), "{status}");
    assert_eq!(status["resourceManagers"][0]["leader"], status["server"]);
    let (code, refused) =
        leader.send("POST", "/api/v1/cluster/move", &json!({"rm": "rm-1", "server": "http://nowhere"})).await;
    assert!(code == 400 && refused["detail"].as_str().is_some_and(|text| text.contains(&other.url(""))), "{refused}");
    assert_eq!(
        leader.send("POST", "/api/v1/cluster/move", &json!({"rm": "rm-2", "server": other.url("")})).await.0,
        404
    );
    // Asked at whichever server: the command goes where it is sent.
    let mut lines = leader.stream("?after=0").await;
    said_to_follow(&leader, &other).await;
    let servers = format!("{},{}", other.url(""), leader.url(""));
    run(&["cluster", "--server", &servers, "move", "rm-1", &other.url(""), "--wait"]);
    leads(&other).await;
    let closing = loop {
        let line = lines.next().await;
        if line["closing"].is_object() {
            break line;
        }
    };
    assert_eq!(closing["closing"]["leader"], json!(other.url("")), "{closing}");
    let shown = run(&["cluster", "--server", &leader.url(""), "status"]);
    let row = shown.lines().find(|line| line.starts_with("rm-1 ")).expect("a row");
    assert!(row.contains(&other.url("")), "{shown}");
    // And it is followed where it was led.
    follows(&leader).await;
    ask(&other, &["k1"]).await;
    let ask = async || leader.get("/api/v1/cluster").await.1["resourceManagers"][0].clone();
    common::answer("the resource manager", ask, |group| {
        group["applied"].is_u64() && group["applied"] == group["index"]
    })
    .await;
}

#[tokio::test]
async fn a_move_that_etcd_does_not_take_changes_nothing() {
    let Some(mut etcd) = rig::etcd("a_move_that_etcd_does_not_take_changes_nothing") else { return };
    let (_dirs, leader, other) = rig::two(&etcd).await;
    sees(&leader, 2).await;
    let mut lines = leader.stream("?after=0").await;
    let order = json!({"rm": "rm-1", "server": other.url("")});
    let shows = async || {
        let (_, partitions) = leader.get("/ws/v1/partitions").await;
        (leader.get("/si/v1/rm/rm-1").await.0, partitions.as_array().map(Vec::len))
    };
    etcd.kill();
    // Before the leader has noticed that etcd is gone, most likely, and afterwards.
    let status = async || leader.get("/api/v1/cluster").await.1["etcd"]["trouble"].clone();
    for round in 0..2 {
        let (code, refused) = leader.send("POST", "/api/v1/cluster/move", &order).await;
        assert!(code == 503 && refused["detail"].to_string().contains("is not handed over"), "{round}: {refused}");
        assert_eq!(shows().await, (200, Some(1)), "{round}");
        common::answer("trouble with etcd", status, |trouble| trouble.is_string()).await;
    }
    etcd.again();
    common::answer("no trouble with etcd", status, |trouble| trouble.is_null()).await;
    leads(&leader).await;
    // The log tries again on its own time.
    ask_until_taken(&leader, "k1").await;
    let mut seen = Vec::new();
    while allocated(&seen).is_empty() {
        seen.push(lines.next().await);
        assert!(seen.last().expect("a line")["closing"].is_null(), "{seen:?}");
    }
    let asked = async || leader.send("POST", "/api/v1/cluster/move", &order).await.0;
    common::answer("the move", asked, |status| *status == 200).await;
    leads(&other).await;
}

#[tokio::test]
async fn servers_that_do_not_reach_each_other_leave_each_other_what_they_lead() {
    let Some(etcd) = rig::etcd("servers_that_do_not_reach_each_other_leave_each_other_what_they_lead") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let begin =
        |data: &tempfile::TempDir, wrong: &str| start_with(&etcd.url(), data.path(), NEVER, &["--advertise", wrong]);
    let (leader, other) = (begin(&one, "http://127.0.0.1:1"), begin(&two, "http://127.0.0.1:2"));
    session(&leader).await;
    // By then a process that is gone would have been replaced.
    common::answer("its log", async || other.program.log(), |log| log.contains("cluster-unreached")).await;
    let group = async |server: &Server| server.get("/api/v1/cluster").await.1["resourceManagers"][0].clone();
    let of_other = async || group(&other).await;
    let of_other = common::answer("the resource manager", of_other, |group| group["role"] == "follows").await;
    let of_leader = group(&leader).await;
    assert_eq!((&of_leader["role"], &of_leader["epoch"]), (&json!("leads"), &json!(1)), "{of_leader}");
    assert_eq!((&of_other["leader"], &of_other["epoch"]), (&of_leader["leader"], &json!(1)), "{of_other}");
    ask(&leader, &["k1"]).await;
    // Nobody is sent to an address where nobody answers.
    assert_eq!(other.get("/si/v1/rm/rm-1").await.0, 503);
}
