//! Servers that are to lead nothing.

use serde_json::json;

use crate::{
    cluster::rig::{self, NEVER, ask, follows, leads, run, sees, session, start},
    common,
    shim::server::Server,
};

#[tokio::test]
async fn what_a_drained_server_leads_is_led_by_others() {
    let Some(etcd) = rig::etcd("what_a_drained_server_leads_is_led_by_others") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (first, mut second) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    session(&first).await;
    follows(&second).await;
    sees(&first, 2).await;
    ask(&first, &["k1"]).await;
    let servers = format!("{},{}", second.url(""), first.url(""));
    let cluster = |args: &[&str]| run(&[&["cluster", "--server", &servers], args].concat());
    let told = cluster(&["drain", &first.url(""), "--reason", "new disk", "--wait"]);
    assert_eq!(told, format!("{} leads nothing\n", first.url("")));
    leads(&second).await;
    follows(&first).await;
    let shown = cluster(&["status"]);
    assert!(shown.contains("there, drained (new disk)"), "{shown}");
    // Nothing is led there: what registers, and what is moved.
    let (status, _) = first.send("POST", "/si/v1/rm", &json!({"rmID": "rm-2"})).await;
    assert_eq!(status, 307);
    let refused = common::command(&["cluster", "--server", &servers, "move", "rm-1", &first.url("")]).output();
    let refused = String::from_utf8(refused.expect("runs").stderr).expect("text");
    assert!(refused.contains("is to lead nothing: undrain it first"), "{refused}");
    let (status, body) = first.send("POST", "/api/v1/cluster/drain", &json!({"server": "http://nowhere"})).await;
    assert!(status == 400 && body["detail"].as_str().is_some_and(|text| text.contains("is not there")), "{body}");
    // Better led by one that is to lead nothing than by nobody.
    second.program.kill();
    leads(&first).await;
    ask(&first, &["k2"]).await;
    // When another is there again, it goes on.
    let second = start(&etcd, two.path(), NEVER);
    sees(&second, 2).await;
    let told = cluster(&["undrain", &first.url("")]);
    assert_eq!(told, format!("{} may lead again\n", first.url("")));
    let status = async || first.get("/api/v1/cluster").await.1;
    common::answer("the cluster", status, |status| {
        let mut servers = status["servers"].as_array().into_iter().flatten();
        servers.all(|server| server["drained"].is_null())
    })
    .await;
    // Which server follows what is told by all.
    let follows = |status: &serde_json::Value| {
        let servers = status["servers"].as_array().into_iter().flatten();
        let follows = servers.flat_map(|server| server["follows"].as_array().into_iter().flatten());
        follows.filter(|follow| follow["rmID"] == "rm-1" && follow["fault"].is_null()).count()
    };
    common::answer("who follows", status, |status| follows(status) == 1).await;
    // Who changed what is known.
    let audit = second.http.get(second.url("/api/v1/audit")).send().await.expect("an answer");
    assert_eq!(audit.status().as_u16(), 200);
}

#[tokio::test]
async fn an_order_is_for_the_partition_that_the_asked_server_means() {
    let Some(etcd) = rig::etcd("an_order_is_for_the_partition_that_the_asked_server_means") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (leader, other) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    let node = json!({"nodes": [{"nodeID": "n1", "action": "CREATE"}]});
    for rm in ["zeta", "alpha"] {
        leader.register(rm, &[]).await;
        assert_eq!(leader.send("POST", &format!("/si/v1/rm/{rm}/nodes"), &node).await.0, 202);
    }
    // Which of them is `default` depends on who is asked.
    let overview = async || other.get("/api/v1/overview").await.1;
    let overview = common::answer("both", overview, |all| all["partitions"].as_array().map(Vec::len) == Some(2)).await;
    let rows = overview["partitions"].as_array().into_iter().flatten();
    let meant = rows.filter(|row| row["name"] == "default").find_map(|row| row["rm"].as_str()).expect("one is");
    let drained = async |rm: &str| {
        let path = format!("/api/v1/partition/%5B{rm}%5Ddefault/nodes");
        let drained = leader.get(&path).await.1["nodes"][0]["drained"].clone();
        !drained.is_null()
    };
    let order = json!({"targets": "n1", "reason": "meant"});
    let (status, _) = other.send("POST", "/api/v1/partition/default/resource/drain?x=1", &order).await;
    assert_eq!(status, 307);
    let sent = rig::straight().post(other.url("/api/v1/partition/default/resource/drain")).json(&order);
    let sent = sent.header("sec-fetch-mode", "cors").send().await.expect("an answer");
    assert_eq!(sent.status().as_u16(), 200, "sent on, as for a page");
    for rm in ["zeta", "alpha"] {
        assert_eq!(drained(rm).await, rm == meant, "{rm}, and {meant} was meant");
    }
}

#[tokio::test]
async fn a_server_that_follows_does_not_say_that_the_resource_manager_is_away() {
    let Some(etcd) = rig::etcd("a_server_that_follows_does_not_say_that_the_resource_manager_is_away") else { return };
    let (_dirs, leader, other) = rig::two(&etcd).await;
    crate::wired::rig::asks(&leader, "app", &["large"], 1_000_000).await;
    let explained = async |server: &Server| {
        let ask = async || server.get("/api/v1/partition/default/application/app/explain").await.1;
        let shown = common::answer("why", ask, |shown| !shown["waiting"][0]["reason"]["text"].is_null()).await;
        shown["waiting"][0]["reason"]["text"].clone()
    };
    let there = explained(&leader).await;
    assert_eq!(explained(&other).await, there);
    assert!(!there.to_string().contains("away"), "{there}");
}
