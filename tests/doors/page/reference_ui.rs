//! The web UI of YuniKorn, unchanged: every field that it reads is there where it would break without it (REST 9.2, 9.3),
//! on an empty cluster, a busy one and one with a gang.

use serde_json::{Value, json};

use super::{
    cluster::{busy, gang},
    server::{Server, node},
};

const CONFIG: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: spare}]}]}]";

/// The states of which the dashboard shows how many applications there are, where they are there.
const STATES: [&str; 11] = [
    "New",
    "Accepted",
    "Starting",
    "Running",
    "Rejected",
    "Completing",
    "Completed",
    "Failing",
    "Failed",
    "Expired",
    "Resuming",
];

/// A list, never null.
#[track_caller]
fn list<'a>(value: &'a Value, what: &str) -> &'a Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{what} is not a list: {value:#}"))
}

#[track_caller]
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} is not a text in {value:#}"))
}

/// Absent, or an object of whole numbers; never null.
#[track_caller]
fn amounts(value: &Value, fields: &[&str]) {
    for field in fields {
        if let Some(found) = value.get(field) {
            let object = found.as_object().unwrap_or_else(|| panic!("{field} is {found} in {value:#}"));
            assert!(object.values().all(Value::is_i64), "{field}: {found}");
        }
    }
}

/// Nothing that is there may be null.
#[track_caller]
fn no_nulls(value: &Value) {
    match value {
        Value::Null => panic!("a null"),
        Value::Array(list) => list.iter().for_each(no_nulls),
        Value::Object(map) => map.values().for_each(no_nulls),
        _ => {}
    }
}

async fn dashboard(server: &Server) {
    let clusters = server.json("/ws/v1/clusters").await;
    let first = &list(&clusters, "clusters")[0];
    assert_eq!(text(first, "clusterName"), "kubernetes");
    let build = &list(&first["rmBuildInformation"], "rmBuildInformation")[0];
    for field in ["buildDate", "buildVersion", "rmId"] {
        assert!(!text(build, field).is_empty(), "{field}");
    }
    let partitions = server.json("/ws/v1/partitions").await;
    no_nulls(&partitions);
    let first = &list(&partitions, "partitions")[0];
    assert_eq!(text(first, "name"), "default");
    assert!(["fair", "binpacking"].contains(&text(&first["nodeSortingPolicy"], "type")));
    let applications = first["applications"].as_object().unwrap();
    assert!(applications["total"].is_u64());
    for (state, count) in applications {
        assert!(count.is_u64() && (state == "total" || STATES.contains(&state.as_str())), "{state}: {count}");
    }
    for field in ["totalNodes", "totalContainers"] {
        assert!(first.get(field).is_none_or(Value::is_u64), "{field}");
    }
    for (path, total) in [("apps", "totalApplications"), ("containers", "totalContainers")] {
        let history = server.json(&format!("/ws/v1/history/{path}")).await;
        for sample in list(&history, path) {
            assert!(sample["timestamp"].is_i64() && text(sample, total).parse::<i64>().is_ok(), "{sample}");
        }
    }
    // A partition without nodes: an entry without `utilizations` (REST quirk 1, 9.3).
    let utilizations = server.json("/ws/v1/scheduler/node-utilizations").await;
    no_nulls(&utilizations);
    for entry in list(&utilizations, "node-utilizations") {
        assert!(!text(entry, "partition").is_empty());
        let types = entry.get("utilizations").map_or(&[][..], |types| list(types, "utilizations"));
        for kind in types {
            assert!(!text(kind, "type").is_empty());
            let buckets = list(&kind["utilization"], "utilization");
            assert_eq!(buckets.len(), 10);
            for bucket in buckets {
                assert!(text(bucket, "bucketName").ends_with('%'));
                let (count, names) = (bucket.get("numOfNodes"), bucket.get("nodeNames"));
                assert_eq!(count.map(|n| n.as_u64().unwrap()), names.map(|n| list(n, "nodeNames").len() as u64));
            }
        }
    }
}

/// The tree; gives the paths of its leaves.
async fn queues(server: &Server, partition: &str) -> Vec<String> {
    let tree = server.json(&format!("/ws/v1/partition/{partition}/queues")).await;
    no_nulls(&tree);
    assert_eq!((text(&tree, "queuename"), text(&tree, "partition")), ("root", partition));
    assert!(tree["isManaged"].is_boolean());
    let (mut open, mut leaves) = (vec![&tree], Vec::new());
    while let Some(queue) = open.pop() {
        assert!(queue["isLeaf"].is_boolean() && queue["partition"].is_string());
        assert_eq!(text(queue, "status"), "Active");
        amounts(
            queue,
            &["maxResource", "guaranteedResource", "allocatedResource", "pendingResource", "absUsedCapacity"],
        );
        for field in ["properties", "template"] {
            assert!(queue.get(field).is_none_or(Value::is_object), "{field}");
        }
        if queue["isLeaf"] == true {
            leaves.push(text(queue, "queuename").to_owned());
        }
        open.extend(queue.get("children").map_or(&[][..], |children| list(children, "children")));
    }
    leaves
}

fn allocation(row: &Value) {
    for field in ["allocationKey", "priority", "nodeId"] {
        assert!(!text(row, field).is_empty(), "{field}");
    }
    amounts(row, &["resource"]);
    assert!(row["resource"].is_object(), "{row}");
    assert!(row.get("allocationTags").is_none_or(Value::is_object));
}

/// Applications of all leaves; gives how many and their allocations.
async fn applications(server: &Server, leaves: &[String]) -> (usize, usize) {
    let (mut count, mut allocations) = (0, 0);
    for queue in leaves {
        let apps = server.json(&format!("/ws/v1/partition/default/queue/{queue}/applications")).await;
        no_nulls(&apps);
        for app in list(&apps, "applications") {
            count += 1;
            assert!(!text(app, "applicationID").is_empty() && STATES.contains(&text(app, "applicationState")));
            assert!(app["submissionTime"].is_i64());
            amounts(app, &["usedResource", "pendingResource", "maxUsedResource"]);
            if app["applicationState"] != "New" {
                assert!(list(&app["stateLog"], "stateLog").iter().all(|entry| entry["time"].is_i64()));
            }
            for row in app.get("allocations").map_or(&[][..], |rows| list(rows, "allocations")) {
                allocation(row);
                assert_eq!(row["applicationId"], app["applicationID"]);
                allocations += 1;
            }
        }
    }
    (count, allocations)
}

async fn nodes(server: &Server) -> usize {
    let nodes = server.json("/ws/v1/partition/default/nodes").await;
    no_nulls(&nodes);
    for node in list(&nodes, "nodes") {
        for field in ["nodeID", "hostName", "rackName"] {
            assert!(!text(node, field).is_empty(), "{field}");
        }
        assert!(node["attributes"].is_object(), "{node}");
        amounts(node, &["capacity", "allocated", "occupied", "available", "utilized"]);
        for field in ["allocations", "foreignAllocations"] {
            node.get(field).map_or(&[][..], |rows| list(rows, field)).iter().for_each(|row| {
                assert!(!text(row, "allocationKey").is_empty() && row["resource"].is_object(), "{row}");
            });
        }
    }
    list(&nodes, "nodes").len()
}

async fn status(server: &Server) {
    let health = server.until("/ws/v1/scheduler/healthcheck", |health| health["Healthy"].is_boolean()).await;
    no_nulls(&health);
    let checks = list(&health["HealthChecks"], "HealthChecks");
    assert_eq!(checks.len(), 9);
    for check in checks {
        assert!(check["Succeeded"].is_boolean() && !text(check, "Name").is_empty());
        assert!(!text(check, "Description").is_empty() && !text(check, "DiagnosisMessage").is_empty());
    }
}

#[tokio::test]
async fn without_a_resource_manager() {
    let server = Server::start();
    for path in ["clusters", "partitions", "history/apps", "history/containers"] {
        assert_eq!(server.json(&format!("/ws/v1/{path}")).await, json!([]), "{path}");
    }
    status(&server).await;
}

#[tokio::test]
async fn an_empty_cluster() {
    let mut server = Server::start();
    server.register(CONFIG).await;
    dashboard(&server).await;
    let leaves = queues(&server, "default").await;
    assert_eq!(leaves, ["root.spare"]);
    assert_eq!(applications(&server, &leaves).await, (0, 0));
    assert_eq!(nodes(&server).await, 0);
    status(&server).await;
}

#[tokio::test]
async fn a_busy_cluster() {
    let mut server = Server::start();
    busy(&mut server).await;
    server.until("/ws/v1/partitions", |all| all[0]["totalContainers"].as_u64() >= Some(15)).await;
    // A pod of another scheduler.
    let pod = json!({"allocationKey": "pod-1", "nodeID": "node-0", "allocationTags": {"foreign": "default"},
        "resourcePerAlloc": {"resources": {"memory": {"value": "1000"}}}});
    server.post("/si/v1/rm/rm-1/allocations", &json!({"rmID": "rm-1", "allocations": [pod]})).await;
    server.until("/ws/v1/partition/default/node/node-0", |node| node["occupied"]["memory"] == 1000).await;
    dashboard(&server).await;
    let leaves = queues(&server, "default").await;
    assert_eq!(leaves.len(), 4);
    queues(&server, "other").await;
    let (apps, allocations) = applications(&server, &leaves).await;
    assert!(apps == 7 && allocations >= 15, "{apps} {allocations}");
    assert_eq!(nodes(&server).await, 8);
    status(&server).await;
}

#[tokio::test]
async fn a_gang() {
    let mut server = Server::start();
    server.register(CONFIG).await;
    server.nodes((0..4).map(|n| node(&format!("node-{n}"), [8 << 30, 4000])).collect()).await;
    gang(&server, "gang", 4).await;
    // All placeholders are placed and one is replaced.
    let path = "/ws/v1/partition/default/application/gang";
    let app = server.until(path, |app| app["placeholderData"][0]["replaced"] == 1).await;
    no_nulls(&app);
    assert_eq!((text(&app, "applicationState"), list(&app["allocations"], "allocations").len()), ("Running", 4));
    dashboard(&server).await;
    let leaves = queues(&server, "default").await;
    assert_eq!(applications(&server, &leaves).await, (1, 4));
    assert_eq!(nodes(&server).await, 4);
    status(&server).await;
}
