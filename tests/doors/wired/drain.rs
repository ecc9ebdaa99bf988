//! What an operator drained stays drained, over sessions and restarts.

use serde_json::{Value, json};

use crate::{
    shim::server::Server,
    wired::rig::{application, asks, end, run, until, with_data},
};

const STATUS: &str = "/api/v1/partition/default/resource/status";
const ABSENT: &str = "/api/v1/partition/%5Brm-1%5Ddefault/resource/status";

async fn drain(server: &Server, what: &str, targets: &str) {
    let path = format!("/api/v1/partition/default/resource/{what}");
    let (status, body) = server.send("POST", &path, &json!({"targets": targets, "reason": "disk"})).await;
    assert_eq!(status, 200, "{body}");
}

/// A session in which two asks are there before the nodes are.
async fn begin(server: &Server) {
    server.register("rm-1", &[]).await;
    application(server, "app-1").await;
    asks(server, "app-1", &["k1", "k2"], 60).await;
    server.nodes(&["n1", "n2"]).await;
}

/// One ask is placed, on `n2`, and the other is not.
async fn only_n2(server: &Server) {
    let nodes = until(server, "/ws/v1/partition/default/nodes", |nodes| allocations(nodes, "n2") == 1).await;
    assert_eq!(allocations(&nodes, "n1"), 0, "{nodes}");
    let (_, text) = server.get("/api/v1/events?from=0&object=n1&type=node").await;
    assert!(!text.to_string().contains("NODE_ALLOC"), "never anything on n1: {text}");
}

fn allocations(nodes: &Value, id: &str) -> usize {
    let node = nodes.as_array().and_then(|nodes| nodes.iter().find(|node| node["nodeID"] == id));
    node.and_then(|node| node["allocations"].as_array()).map_or(0, Vec::len)
}

#[tokio::test]
async fn an_operators_drain_holds_over_sessions_and_restarts() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    server.nodes(&["n1", "n2"]).await;
    until(&server, STATUS, |status| status["online"]["nodelist"] == "n[1-2]").await;
    drain(&server, "drain", "n1").await;
    assert_eq!(server.get(STATUS).await.1["drained"][0]["nodelist"], "n1");
    for _ in 0..3 {
        begin(&server).await;
        only_n2(&server).await;
    }
    assert_eq!(end(server).await, Some(0));

    let server = with_data(dir.path());
    begin(&server).await;
    only_n2(&server).await;
    let status = until(&server, STATUS, |status| status["online"]["nodelist"] == "n[1-2]").await;
    assert_eq!(status["drained"][0]["nodelist"], "n1");
    assert_eq!((&status["drained"][0]["reason"], &status["drained"][0]["by"]), (&json!("disk"), &json!(["operator"])));
    drain(&server, "undrain", "n1").await;
    until(&server, "/ws/v1/partition/default/nodes", |nodes| allocations(nodes, "n1") == 1).await;
}

#[tokio::test]
async fn what_is_drained_is_seen_and_taken_back_while_the_resource_manager_is_not_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().display().to_string();
    let start = || Server::start(&["--grpc", "off", "--data", &data, "--log-sync", "off"]);
    let server = start();
    server.register("rm-1", &[]).await;
    server.nodes(&["n1", "n2"]).await;
    until(&server, STATUS, |status| status["online"]["nodelist"] == "n[1-2]").await;
    drain(&server, "drain", "n1").await;
    assert_eq!(server.delete("/si/v1/rm/rm-1").await.0, 200);
    let is_shown = async |server: &Server, path: &str| {
        let (code, status) = server.get(path).await;
        assert_eq!(code, 200, "{status}");
        let of = |key: &str| status[key]["nodelist"].clone();
        assert_eq!((of("all"), of("offline"), of("online")), (json!("n[1-2]"), json!("n[1-2]"), json!("")));
        assert_eq!(status["drained"][0]["nodelist"], "n1");
        let url = server.url(&path.replace("status", "journal?follow=false"));
        let journal = server.http.get(url).send().await.expect("an answer").text().await.expect("text");
        assert!(journal.contains("\"drain\"") && journal.ends_with("{\"events\":[]}\n"), "{journal}");
    };
    // After its session has ended, and after a restart.
    is_shown(&server, STATUS).await;
    assert_eq!(end(server).await, Some(0));
    let server = start();
    is_shown(&server, STATUS).await;
    let (code, missing) = server.get(&STATUS.replace("default", "other")).await;
    let text = missing["detail"].as_str().unwrap_or_default();
    assert!(code == 404 && text.ends_with("; only the journal is there of: [rm-1]default"), "{missing}");
    // The plain name is that of one that is there.
    server.register("rm-2", &[]).await;
    assert_eq!(server.get(STATUS).await.1["all"]["nodelist"], "");
    is_shown(&server, ABSENT).await;
    for (what, targets) in [("undrain", "n1"), ("drain", "n2")] {
        let (status, body) = server.send("POST", &ABSENT.replace("status", what), &json!({"targets": targets})).await;
        assert_eq!(status, 200, "{body}");
    }
    assert_eq!(server.delete("/si/v1/rm/rm-2").await.0, 200);
    begin(&server).await;
    let nodes = until(&server, "/ws/v1/partition/default/nodes", |nodes| allocations(nodes, "n1") == 1).await;
    assert_eq!(allocations(&nodes, "n2"), 0, "{nodes}");
}

#[tokio::test]
async fn nodes_that_are_away_are_told_after_a_restart_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    server.nodes(&["n1", "n2"]).await;
    until(&server, STATUS, |status| status["online"]["nodelist"] == "n[1-2]").await;
    drain(&server, "drain", "n2").await;
    let away = json!({"nodes": [{"nodeID": "n2", "action": "DECOMISSION"}]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/nodes", &away).await.0, 202);
    for again in [false, true] {
        if again {
            assert_eq!(end(server).await, Some(0));
            server = with_data(dir.path());
        }
        let nodes = until(&server, "/api/v1/partition/default/nodes", |all| all["nodes"][1]["offline"] == true).await;
        let row = &nodes["nodes"][1];
        assert_eq!((&row["id"], &row["drained"]), (&json!("n2"), &json!("by an operator: disk")), "{nodes}");
        let overview = server.get("/api/v1/overview").await.1;
        assert_eq!(overview["partitions"][0]["nodes"]["offline"], 1, "{overview}");
    }
}

#[tokio::test]
async fn the_journal_tells_of_nodes_and_sessions() {
    let server = Server::registered(&[]).await;
    let stream = server.http.get(server.url("/api/v1/partition/default/resource/journal")).send().await;
    let mut journal = crate::shim::server::Lines::of(stream.expect("an answer"));
    assert_eq!(journal.next().await, json!({"events": []}), "nothing has happened");
    server.nodes(&["n1", "n2"]).await;
    let mut names = Vec::new();
    let mut until_named = async |wanted: &str| loop {
        let line = journal.next().await;
        let event = line["events"][0].clone();
        names.push(event["name"].as_str().expect("a name").to_owned());
        if event["name"] == wanted {
            return event;
        }
    };
    assert_eq!(until_named("online").await["context"]["idset"], "0-1");
    let node = json!({"nodeID": "n2", "action": "DECOMISSION"});
    let (status, body) = server.send("POST", "/si/v1/rm/rm-1/nodes", &json!({"nodes": [node]})).await;
    assert_eq!(status, 202, "{body}");
    assert_eq!(until_named("offline").await["context"]["idset"], "1");
    assert_eq!(server.delete("/si/v1/rm/rm-1").await.0, 200);
    assert_eq!(until_named("offline").await["context"]["idset"], "0", "the session ended");
    assert_eq!(names, ["restart", "resource-define", "online", "offline", "offline"]);
}

#[tokio::test]
async fn heartbeats_are_taken() {
    let server = Server::registered(&[]).await;
    let path = "/si/v1/rm/rm-1/heartbeat";
    assert_eq!(server.send("POST", path, &json!({"nodes": ["n1", "n2"]})).await, (202, json!({})));
    for (path, body, status, detail) in [
        (path, json!({}), 400, "missing field `nodes`"),
        (path, json!({"nodes": "n1"}), 400, "invalid type: string \"n1\""),
        (path, json!({"node": ["n1"]}), 400, "unknown field `node`"),
        ("/si/v1/rm/nobody/heartbeat", json!({"nodes": []}), 404, "RmID=\"nobody\" not registered"),
    ] {
        let (answer, problem) = server.send("POST", path, &body).await;
        let text = problem["detail"].as_str().expect("a detail");
        assert!(answer == status && text.contains(detail), "{path} {body}: {answer} {text}");
    }
    assert_eq!(server.get(path).await.0, 405);
}

#[tokio::test]
async fn a_node_is_drained_by_its_id_and_both_reasons_are_told() {
    let server = Server::registered(&[]).await;
    let node = |action: &str| {
        json!({"nodes": [{"nodeID": "i-1", "action": action, "attributes": {"si/hostname": "host-a"},
            "schedulableResource": {"resources": {"memory": {"value": "100"}}}}]})
    };
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/nodes", &node("CREATE")).await.0, 202);
    until(&server, STATUS, |status| status["online"]["nodelist"] == "host-a").await;
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/nodes", &node("DRAIN_NODE")).await.0, 202);
    until(&server, STATUS, |status| status["drained"][0]["by"] == json!(["rm"])).await;
    let run = async |args: &[&str]| run(&server, args).await;
    let (status, _, err) = run(&["resource", "drain", "i-9", "disk"]).await;
    assert_eq!((status, &*err), (Some(1), "callboard: invalid targets: invalid hosts: i-9\n"));
    let drained = run(&["resource", "drain", "--wait", "i-1", "bad", "dimm"]).await;
    let met = "node/i-1 condition met: drained (drained)\n".to_owned();
    assert_eq!(drained, (Some(0), met.clone(), String::new()));
    // It holds already: so does what is waited for.
    let again = run(&["resource", "drain", "--wait", "i-1", "bad", "again"]).await;
    let said = "callboard: drained already, and left as they are: 0; --force replaces reason and deadline\n".to_owned();
    assert_eq!(again, (Some(0), met, said));
    let (status, _, err) = run(&["resource", "drain", "i-1", "bad", "again"]).await;
    assert!(status == Some(1) && err.contains("rank 0 already drained"), "{err}");

    let path = "/api/v1/partition/default/nodes";
    let nodes = until(&server, path, |all| all["nodes"][0]["drained"] != "by the resource manager").await;
    let row = &nodes["nodes"][0];
    assert_eq!(row["drained"], "by an operator: bad dimm (and by the resource manager)");
    assert_eq!((&row["host"], &row["rank"]), (&json!("host-a"), &json!(0)));
    let entry = server.get(STATUS).await.1["drained"][0].clone();
    assert_eq!(
        (&entry["reason"], &entry["by"]),
        (&json!("drained by the resource manager"), &json!(["operator", "rm"]))
    );
    assert_eq!(entry["operatorReason"], "bad dimm", "{entry}");
    let (_, wide, _) = run(&["nodes", "-o", "wide"]).await;
    let (head, line) = wide.split_once('\n').expect("two lines");
    assert!(head.trim_end().ends_with("RANK") && head.contains("HOST") && line.contains("host-a"), "{wide}");
    let (_, list, _) = run(&["resource", "drain"]).await;
    assert!(list.contains("bad dimm (drained by the reso+ host-a"), "{list}");

    // What stays as it is gets no deadline, which is said.
    let (status, _, err) = run(&["resource", "drain", "-u", "--deadline", "1h", "i-1", "again"]).await;
    assert!(status == Some(0) && err.contains("the deadline is not for them: 0; --force"), "{err}");
    assert!(server.get(STATUS).await.1["drained"][0].get("deadline").is_none());
    let (status, _, err) = run(&["resource", "drain", "-f", "--deadline", "1h", "i-1", "again"]).await;
    assert_eq!((status, &*err), (Some(0), ""));
    let entry = server.get(STATUS).await.1["drained"][0].clone();
    assert!(
        entry["deadline"].is_f64() && entry["reason"] == "again" && entry.get("operatorReason").is_none(),
        "{entry}"
    );
}
