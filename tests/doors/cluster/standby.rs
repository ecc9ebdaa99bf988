//! What a server answers that does not lead: reads from what has reached it, marked with how fresh that is; all else the leader.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use crate::{
    cluster::rig::{self, NEVER, ask, follows, leads, said_to_follow, session, start, start_with},
    common::{self, LIMIT},
    shim::server::Server,
};

const APP: &str = "/ws/v1/partition/default/application/app";

/// What is read, with the headers of a standby: the index of `rm-1`, and the lag in seconds.
async fn read(server: &Server, path: &str) -> (u16, Option<(u64, f64)>, Value) {
    let answer = server.http.get(server.url(path)).timeout(LIMIT).send().await.expect("an answer");
    let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().expect("text").to_owned());
    let mark = header("callboard-index").map(|index| {
        let index = index.strip_prefix("rm-1=").expect("of rm-1").parse().expect("a number");
        (index, header("callboard-lag").expect("beside the index").parse().expect("seconds"))
    });
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a body");
    (status, mark, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Waits until so many allocations of the application are seen there.
async fn sees(server: &Server, allocations: usize) -> (u16, Option<(u64, f64)>, Value) {
    let count = |app: &Value| app["allocations"].as_array().map_or(0, Vec::len);
    common::answer(APP, async || read(server, APP).await, |(_, _, app)| count(app) == allocations).await
}

/// As a browser sends it for a page.
async fn by_page(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let sent = server.http.request(method.parse().expect("a method"), server.url(path)).json(body);
    let answer = sent.header("sec-fetch-mode", "cors").header("sec-fetch-site", "same-origin").send().await;
    let answer = answer.expect("an answer");
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

#[tokio::test]
async fn a_server_is_ready_when_it_has_read_what_others_lead() {
    let Some(etcd) = rig::etcd("a_server_is_ready_when_it_has_read_what_others_lead") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let leader = start(&etcd, one.path(), NEVER);
    session(&leader).await;
    let (other, reads) = rig::started_unread(&etcd, two.path());
    let (nodes, drain) = ("/api/v1/partition/default/nodes", "/api/v1/partition/default/resource/drain");
    let why = "the server reads the logs of resource managers from etcd: 0 of 1 are done";
    common::answer(
        "/readyz",
        async || read(&other, "/readyz").await,
        |(status, _, ready)| *status == 503 && ready["waits"]["log"] == why,
    )
    .await;
    let (status, _, told) = read(&other, "/ws/v1/partitions").await;
    assert!(status == 503 && told.to_string().contains(why), "{status} {told}");
    let (status, told) = other.get(nodes).await;
    assert_eq!(status, 503, "{told}");
    assert!(told.to_string().contains(why), "{told}");
    let drained = other.http.post(other.url(drain)).json(&json!({"targets": "n0"})).send().await.expect("an answer");
    assert_eq!((drained.status().as_u16(), drained.headers()["retry-after"].to_str().expect("text")), (503, "1"));
    drop(reads);
    common::answer("/readyz", async || read(&other, "/readyz").await.0, |status| *status == 200).await;
    assert_eq!(other.get(nodes).await.0, 200);
    assert_eq!(other.send("POST", drain, &json!({"targets": "n0"})).await.0, 307);
    // What is not there is not there.
    assert_eq!(other.get("/api/v1/partition/other/nodes").await.0, 404);
}

#[tokio::test]
async fn a_server_that_led_says_that_it_reads_what_it_does_not_know_any_more() {
    let Some(etcd) = rig::etcd("a_server_that_led_says_that_it_reads_what_it_does_not_know_any_more") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    // There is nothing to read before it leads.
    let (leader, reads) = rig::started_unread(&etcd, one.path());
    session(&leader).await;
    let other = start(&etcd, two.path(), NEVER);
    follows(&other).await;
    said_to_follow(&leader, &other).await;
    let order = json!({"rm": "rm-1", "server": other.url("")});
    assert_eq!(leader.send("POST", "/api/v1/cluster/move", &order).await.0, 200);
    // It has given up what it showed.
    follows(&leader).await;
    let (drain, host) = ("/api/v1/partition/default/resource/drain", json!({"targets": "n1"}));
    let (status, told) = leader.send("POST", drain, &host).await;
    let why = "the server reads the logs of resource managers from etcd: 0 of 1 are done";
    assert!(status == 503 && told.to_string().contains(why), "{status} {told}");
    for path in ["/ws/v1/partitions", "/ws/v1/partition/default/nodes", "/api/v1/partition/default/nodes"] {
        let (status, _, told) = read(&leader, path).await;
        assert!(status == 503 && told.to_string().contains(why), "{path}: {status} {told}");
    }
    // It takes requests of others all the time.
    assert_eq!(read(&leader, "/readyz").await.0, 200);
    drop(reads);
    let sent = async || leader.send("POST", drain, &host).await.0;
    common::answer("the drain", sent, |status| *status != 503).await;
    assert_eq!(sent().await, 307);
    let partitions = async || read(&leader, "/ws/v1/partitions").await.2.as_array().map(Vec::len);
    common::answer("the partitions", partitions, |partitions| *partitions == Some(1)).await;
}

#[tokio::test]
async fn reads_are_answered_by_those_who_follow_and_say_how_fresh_they_are() {
    let Some(mut etcd) = rig::etcd("reads_are_answered_by_those_who_follow_and_say_how_fresh_they_are") else { return };
    let (_dirs, mut leader, other) = rig::two(&etcd).await;
    let _lines = leader.stream("?after=0").await;
    ask(&leader, &["k1"]).await;
    let (status, mark, _) = sees(&other, 1).await;
    let (index, lag) = mark.expect("marked");
    assert!(status == 200 && index > 0 && lag < 5.0, "{status} {index} {lag}");
    // What comes is seen.
    ask(&leader, &["k2", "k3"]).await;
    let (_, mark, _) = sees(&other, 3).await;
    assert!(mark.expect("marked").0 > index);
    // The leader marks nothing.
    assert_eq!(sees(&leader, 3).await.1, None);
    // All of it is there, as the leader has it.
    for path in ["/ws/v1/partition/default/queues", "/ws/v1/partition/default/nodes", "/ws/v1/partitions"] {
        let (of_other, of_leader) = (read(&other, path).await, read(&leader, path).await);
        assert!(of_other.1.is_some() && of_leader.1.is_none(), "{path}");
        assert_eq!((of_other.0, &of_other.2), (200, &of_leader.2), "{path}");
    }
    let overview = read(&other, "/api/v1/overview").await.2;
    let row = &overview["partitions"][0];
    assert_eq!((&row["standby"]["leader"], &row["rmState"]), (&json!(leader.url("")), &json!("Followed")), "{row}");
    assert!(read(&leader, "/api/v1/overview").await.2["partitions"][0]["standby"].is_null());
    // Each is counted by one server.
    let metrics = async |server: &Server| read(server, "/ws/v1/metrics").await.2.as_str().expect("text").to_owned();
    let (of_leader, of_other) = (metrics(&leader).await, metrics(&other).await);
    assert!(of_leader.contains("callboard_cluster_leads{rm=\"rm-1\"} 1"), "{of_leader}");
    assert!(of_other.contains("callboard_cluster_leads{rm=\"rm-1\"} 0"), "{of_other}");
    assert!(
        of_other.contains("callboard_cluster_led{rm=\"rm-1\"} 1")
            && of_other.contains("callboard_cluster_lag_seconds{rm=\"rm-1\"} 0"),
        "{of_other}"
    );
    assert!(of_leader.contains("callboard_decisions_total{") && !of_other.contains("callboard_decisions_total{"));
    // What only the leader knows is asked there: by clients, or for pages.
    let status = "/api/v1/partition/default/resource/status";
    let sent = other.http.get(other.url(status)).send().await.expect("an answer");
    let location = sent.headers()["location"].to_str().expect("text").to_owned();
    assert_eq!((sent.status().as_u16(), location), (307, leader.url(status)));
    assert_eq!(by_page(&other, "GET", status, &Value::Null).await.1["online"]["nodelist"], "n[1-2]");
    let drain = json!({"targets": "n2", "reason": "disk"});
    let path = "/api/v1/partition/default/resource/drain";
    assert_eq!(other.send("POST", path, &drain).await.0, 307);
    assert_eq!(by_page(&other, "POST", path, &drain).await.0, 200);
    assert_eq!(leader.get(status).await.1["drained"][0]["nodelist"], "n2");
    // Without etcd reads go on, and tell that they grow old.
    etcd.kill();
    let old = async || read(&other, APP).await;
    let (status, mark, app) = common::answer(APP, old, |(_, mark, _)| mark.is_some_and(|(_, lag)| lag > 0.7)).await;
    assert_eq!((status, app["allocations"].as_array().map(Vec::len)), (200, Some(3)), "{mark:?}");
    let told = other.get("/api/v1/cluster").await.1;
    assert!(told["etcd"]["trouble"].is_string() && told["resourceManagers"][0]["lag"].as_f64() > Some(0.5), "{told}");
    etcd.again();
    let old = async || read(&other, APP).await;
    common::answer(APP, old, |(_, mark, _)| mark.is_some_and(|(_, lag)| lag < 0.5)).await;
    // And it takes over what it showed.
    leader.program.kill();
    leads(&other).await;
    let (status, mark, _) = sees(&other, 3).await;
    assert_eq!((status, mark), (200, None));
}

#[tokio::test]
async fn a_session_that_ends_is_not_shown_any_more_and_names_are_the_same_at_all_servers() {
    let Some(etcd) = rig::etcd("a_session_that_ends_is_not_shown_any_more_and_names_are_the_same_at_all_servers")
    else {
        return;
    };
    let (_dirs, leader, other) = rig::two(&etcd).await;
    let names_at = async |server: &Server| {
        let all = server.get("/ws/v1/partitions").await.1;
        let all = all.as_array().into_iter().flatten().map(|row| row["name"].as_str().unwrap_or_default().to_owned());
        all.collect::<Vec<_>>()
    };
    let names = async || names_at(&other).await;
    common::answer("the partitions", names, |names| *names == ["default"]).await;
    // Whoever leads: the resource manager that came first has the plain name.
    other.register("rm-2", &[]).await;
    for server in [&leader, &other] {
        let names = async || names_at(server).await;
        common::answer("the partitions", names, |names| *names == ["default", "[rm-2]default"]).await;
    }
    let (status, told) =
        other.send("POST", "/api/v1/partition/default/queue/root.a/stop", &json!({"reason": "x"})).await;
    assert!(status == 307 || status == 404, "not of the queue of rm-2: {status} {told}");
    assert_eq!(leader.delete("/si/v1/rm/rm-1").await.0, 200);
    common::answer("the partitions", names, |names| *names == ["default"]).await;
}

/// Nodes and an application, of a session that has begun.
async fn session_again(server: &Server) {
    server.nodes(&["n1", "n2"]).await;
    crate::wired::rig::application(server, "app").await;
}

#[tokio::test]
async fn requests_are_sent_on_to_the_leader_where_that_is_wanted() {
    let Some(etcd) = rig::etcd("requests_are_sent_on_to_the_leader_where_that_is_wanted") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let leader = start(&etcd, one.path(), NEVER);
    let other = start_with(&etcd.url(), two.path(), NEVER, &["--forward"]);
    session(&leader).await;
    let sent_on = async || other.get("/si/v1/rm/rm-1").await.0;
    common::answer("/si/v1/rm/rm-1", sent_on, |status| *status == 200).await;
    // A registration: the session goes on at the leader, and so does that of one of which the other has not heard.
    let (status, body) =
        other.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": crate::shim::server::CONFIG})).await;
    assert_eq!((status, &leader.get("/si/v1/rm/rm-1").await.1["epoch"]), (200, &json!(2)), "{body}");
    session_again(&leader).await;
    leader.register("rm-2", &[]).await;
    assert_eq!(other.send("POST", "/si/v1/rm", &json!({"rmID": "rm-2"})).await.0, 200);
    assert_eq!(leader.get("/si/v1/rm/rm-2").await.1["epoch"], 2);
    // A stream, and requests.
    let mut lines = other.stream("?after=0").await;
    ask(&other, &["k1"]).await;
    while rig::allocated(&[lines.next().await]).is_empty() {}
    // What is wrong there is told here.
    assert_eq!(other.send("POST", "/si/v1/rm/rm-1/allocations", &json!([])).await.0, 400);
    drop(lines);
    // A WebSocket is sent on by any server.
    let third = tempfile::tempdir().expect("a directory");
    let third = start(&etcd, third.path(), NEVER);
    follows(&third).await;
    let url = third.url("/si/v1/rm/rm-1/ws?after=0").replace("http:", "ws:");
    let (mut socket, _) = connect_async(url).await.expect("upgraded");
    let body = json!({"allocations": {"allocations": [{"allocationKey": "k2", "applicationID": "app", "partitionName": "default",
        "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}}]}});
    socket.send(Message::text(body.to_string())).await.expect("sent");
    let mut seen = Vec::new();
    while !seen.contains(&"k2".to_owned()) {
        let message =
            tokio::time::timeout(LIMIT, socket.next()).await.expect("in time").expect("open").expect("no fault");
        if let Message::Text(text) = message {
            seen.extend(rig::allocated(&[serde_json::from_str(&text).expect("JSON")]));
        }
    }
    assert_eq!(seen, ["k1", "k2"]);
    // Its end is the end at the leader.
    socket.close(None).await.expect("closed");
    leader.until(|info| info["streams"] == json!([])).await;
}

#[tokio::test]
async fn at_the_bound_of_bytes_nothing_new_is_placed_and_confirmations_go_on() {
    let Some(etcd) = rig::etcd("at_the_bound_of_bytes_nothing_new_is_placed_and_confirmations_go_on") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let server = start_with(&etcd.url(), dir.path(), NEVER, &["--cluster-max-bytes", "1048576"]);
    session(&server).await;
    let mut lines = server.stream("?after=0").await;
    ask(&server, &["k1"]).await;
    while rig::allocated(&[lines.next().await]).is_empty() {}
    // Configurations fill it: snapshots have only the last.
    for round in 0..12 {
        let config = format!("# {round} {}\n{}", "y".repeat(100_000), crate::shim::server::CONFIG);
        let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": config})).await;
        assert_eq!(status, 200, "{body}");
    }
    let logged = async || server.program.log();
    common::answer("the log", logged, |log| log.contains("cluster-full")).await;
    // Snapshots make room by themselves.
    let ask = async || server.program.log();
    common::answer("the log", ask, |log| log.contains("its log has room again")).await;
    rig::ask(&server, &["k2"]).await;
    let mut seen = Vec::new();
    while !seen.contains(&"k2".to_owned()) {
        seen.extend(rig::allocated(&[lines.next().await]));
    }
    let group = async || server.get("/api/v1/cluster").await.1["resourceManagers"][0].clone();
    let group = common::answer("the log", group, |group| group["bytes"].as_u64() < Some(1 << 20)).await;
    assert_eq!(group["maxBytes"], 1_048_576, "{group}");
    // Where no snapshot makes enough of it: the present configuration is in each, and larger than the bound.
    let config = format!("# {}\n{}", "z".repeat(1_060_000), crate::shim::server::CONFIG);
    let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": config})).await;
    assert_eq!(status, 200, "{body}");
    let info = server.until(|info| info["full"].is_string()).await;
    assert!(info["full"].as_str().is_some_and(|why| why.contains("1048576")), "{info}");
    // Where it grows all the same, nothing is taken that adds to it: of this resource manager.
    let more = json!({"allocations": [{"allocationKey": "k3", "applicationID": "app", "partitionName": "default",
        "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}}]});
    let asked = async || server.send("POST", "/si/v1/rm/rm-1/allocations", &more).await;
    let (_, refused) = common::answer("an ask", asked, |(status, _)| *status != 202).await;
    let detail = refused["detail"].as_str().expect("a text");
    assert!(refused["status"] == 429 && detail.contains("nothing that adds to it is taken"), "{refused}");
    server.register("rm-2", &[]).await;
    let node = json!({"nodes": [{"nodeID": "n1", "action": "CREATE", "schedulableResource": {"resources": {}}}]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-2/nodes", &node).await.0, 202);
    let release = json!({"releases": {"allocationsToRelease": [{"partitionName": "default", "applicationID": "app",
        "allocationKey": "k1", "terminationType": "STOPPED_BY_RM"}]}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/allocations", &release).await.0, 202);
    let released = loop {
        let line = lines.next().await;
        assert!(rig::allocated(std::slice::from_ref(&line)).is_empty(), "{line}");
        if line["allocation"]["released"].is_array() {
            break line;
        }
    };
    assert_eq!(released["allocation"]["released"][0]["allocationKey"], "k1");
    // Events may still come.
    let until = tokio::time::Instant::now() + Duration::from_millis(300);
    while let Ok(line) = tokio::time::timeout_at(until, lines.next()).await {
        assert!(rig::allocated(std::slice::from_ref(&line)).is_empty(), "{line}");
    }
}

#[tokio::test]
async fn the_page_of_a_server_that_follows_says_so_and_goes_on_when_it_leads() {
    let test = "the_page_of_a_server_that_follows_says_so_and_goes_on_when_it_leads";
    let Some(etcd) = rig::etcd(test) else { return };
    let Some(browser) = crate::page::chromium::Browser::start(test).await else { return };
    let (_dirs, mut leader, other) = rig::two(&etcd).await;
    browser.open(&other.url("/")).await;
    browser.shows("This server follows: rm-1 is led by").await;
    browser.until("document.getElementById('live').textContent === 'Standby'").await;
    // Without being loaded anew it shows the next leader, here.
    browser.run("window.same = true").await;
    leader.program.kill();
    browser.shows("Resource manager rm-1 is Paused").await;
    let _lines = other.stream("?after=0").await;
    browser.until("window.same && document.getElementById('live').textContent === 'Live'").await;
    browser.hides("This server follows").await;
    assert_eq!(browser.faults().await, Vec::<String>::new());
    // Where the server of the page is gone, it goes on at another one, at the same place.
    let third = tempfile::tempdir().expect("a directory");
    let third = start(&etcd, third.path(), NEVER);
    let there = async || other.get("/api/v1/cluster").await.1["servers"].clone();
    let it = json!(third.url(""));
    common::answer("the servers", there, |all| all.as_array().is_some_and(|all| all.iter().any(|at| at["http"] == it)))
        .await;
    browser.open(&other.url("/?again#/default/nodes")).await;
    browser.until("document.getElementById('live').textContent === 'Live'").await;
    let (mut other, to) = (other, third.url("/#/default/nodes"));
    other.program.kill();
    browser.until(&format!("location.href === '{to}'")).await;
    browser.until("['Live', 'Standby'].includes(document.getElementById('live').textContent)").await;
    browser.close().await;
}
