//! Routes over real sockets: what the whole answer looks like.

use callboard::{actors::directory::Listing, config};

use super::{
    cluster::{self, manager},
    ordered::same,
    server::Server,
};

#[actix::test]
async fn configuration() {
    // REST 5.14; CFG-118
    let server = cluster::start().await;
    let json = server.request("GET", "/ws/v1/config", &["Accept: application/json"], "").await;
    assert_eq!(json.text(), include_str!("../../fixtures/rest/config-json.json").trim_end());
    let yaml = server.get("/ws/v1/config").await;
    assert_eq!(yaml.text(), include_str!("../../fixtures/rest/config.yaml"));
    assert_eq!(server.get("/ws/v1/config?rm=mycluster").await.text(), yaml.text());
    server.stop().await;
}

#[actix::test]
async fn lists_and_dump() {
    // REST 4; 5.16
    let server = cluster::start().await;
    let clusters = server.get("/ws/v1/clusters").await.json();
    assert_eq!(clusters[0]["rmBuildInformation"][0]["rmId"], "mycluster");
    assert_eq!((&clusters[0]["partition"], &clusters[0]["clusterName"]), (&"default".into(), &"kubernetes".into()));
    assert!(clusters[0]["startTime"].as_i64().unwrap() > 1_700_000_000_000_000_000);
    let dump = server.get("/debug/fullstatedump").await;
    assert_eq!(dump.header("content-type"), Some("application/json; charset=UTF-8"));
    let keys: Vec<&str> =
        dump.text().lines().filter(|l| l.starts_with("  \"")).filter_map(|l| l.split('"').nth(1)).collect();
    let expected = [
        "timestamp",
        "partitions",
        "applications",
        "nodes",
        "clusterInfo",
        "queues",
        "rmDiagnostics",
        "logLevel",
        "config",
        "placementRules",
    ];
    assert_eq!(keys, expected);
    let dump = dump.json();
    assert_eq!(dump["applications"].as_array().unwrap().len(), 9);
    assert_eq!(dump["nodes"][0]["partitionName"], "default");
    assert_eq!(dump["nodes"][0]["nodesInfo"].as_array().unwrap().len(), 3);
    assert_eq!(dump["config"]["Partitions"][0]["Name"], "default");
    assert_eq!(dump["placementRules"][0]["rules"][3]["name"], "recovery");
    assert_eq!(dump["queues"][0]["queuename"], "root");
    server.stop().await;
}

#[actix::test]
async fn metrics_of_a_cluster() {
    // REST 7
    let server = cluster::start().await;
    let text = String::from_utf8(server.get("/ws/v1/metrics").await.body).unwrap();
    for line in [
        "yunikorn_scheduler_node{state=\"active\"} 3",
        "callboard_rm_state_total{state=\"running\"} 0",
        "yunikorn_scheduler_node{state=\"draining\"} 1",
        "yunikorn_scheduler_application_total{state=\"running\"} 4",
        "yunikorn_queue_app{queue=\"root.sandbox\",state=\"new\"} 3",
        "yunikorn_queue_resource{queue=\"root.limited\",resource=\"memory\",state=\"max\"} 500000000",
        "yunikorn_queue_resource{queue=\"root\",resource=\"apps\",state=\"maxRunningApps\"} 0",
        "yunikorn_scheduler_memory_node_usage_total{range=\"[0,10%]\"} 2",
        "yunikorn_scheduler_memory_node_usage_total{range=\"(60%,70%]\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
    }
    server.stop().await;
}

#[actix::test]
async fn health_over_time() {
    // OPS-010, OPS-011; REST 5.13
    let server = cluster::start().await;
    tokio::time::pause();
    let watch = callboard::http::ws_v1::watch::start(server.state.clone()).await;
    drop(watch);
    tokio::time::resume();
    let answer = server.get("/ws/v1/scheduler/healthcheck").await;
    let expected = include_str!("../../fixtures/rest/healthcheck.json").replace("[0.333333]", "[0.000000]");
    assert_eq!((answer.status, answer.text()), (200, expected.as_str()));
    server.stop().await;
}

#[actix::test]
async fn several_resource_managers() {
    // SEEDS S21: later ones are shown as `[rm]name`, and both names are keys everywhere.
    let text = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n";
    let (first, first_partition) = manager("rm-1", "default", config::load(text).unwrap(), &[]);
    let (second, second_partition) = manager("rm-2", "[rm-2]default", config::load(text).unwrap(), &[("x", "y")]);
    let server =
        Server::start(Listing { rms: vec![first, second], partitions: vec![first_partition, second_partition] });
    let partitions = server.get("/ws/v1/partitions").await.json();
    let names = |v: &serde_json::Value| (v["clusterId"].clone(), v["name"].clone());
    assert_eq!(names(&partitions[0]), ("rm-1".into(), "default".into()));
    assert_eq!(names(&partitions[1]), ("rm-2".into(), "[rm-2]default".into()));
    for name in ["default", "[rm-1]default", "%5Brm-2%5Ddefault", "[rm-2]default"] {
        assert_eq!(server.get(&format!("/ws/v1/partition/{name}/nodes")).await.text(), "[]\n", "{name}");
    }
    let tree = server.get("/ws/v1/partition/[rm-2]default/queues").await.json();
    assert_eq!(tree["partition"], "[rm-2]default");
    let clusters = server.get("/ws/v1/clusters").await.json();
    assert_eq!(clusters[1]["rmBuildInformation"][0]["rmId"], "rm-2");
    assert_eq!(clusters[1]["partition"], "[rm-2]default");
    let second = server.request("GET", "/ws/v1/config?rm=rm-2", &["Accept: application/json"], "").await;
    assert_eq!(second.json()["Extra"]["x"], "y");
    let parts = server.get("/debug/fullstatedump").await.json();
    assert!(parts["rmDiagnostics"]["rm-1"].is_object() && parts["rmDiagnostics"]["rm-2"].is_object());
    server.stop().await;
}

#[actix::test]
async fn placed_bodies() {
    // REST 5.4: an application that has not begun, over the socket.
    let server = cluster::start().await;
    let answer = server.get("/ws/v1/partition/default/application/app-new").await;
    same("application-new", &answer.body, include_bytes!("../../fixtures/rest/application-new.json"));
    assert!(answer.text().ends_with("}\n"));
    server.stop().await;
}
