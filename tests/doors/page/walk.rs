//! From one command to the right remedy: five clusters, each with one fault. The first step is `callboard why`; the second does
//! what it says, and the ask is placed.

use std::process::Command;

use serde_json::{Value, json};

use super::{
    cluster::GIB,
    server::{RM, Server, node},
};

/// One queue with a max of 8 GiB, one with a limit for eve, one without any.
const CONFIG: &str = "
partitions:
- name: default
  queues:
  - name: root
    submitacl: '*'
    queues:
    - name: narrow
      resources: {max: {memory: 8Gi}}
    - name: limited
      limits:
      - {limit: eve, users: [eve], maxresources: {memory: 4Gi}}
    - name: spare
";

/// Runs the program, which has to succeed.
fn run(server: &Server, words: &[&str]) -> String {
    let program = Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(words)
        .args(["--server", &server.url])
        .env_remove("CALLBOARD_SERVER")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(program.stdout).unwrap(), String::from_utf8(program.stderr).unwrap());
    assert!(program.status.success(), "{words:?}: {out}{err}");
    out
}

/// A server with nodes of 8 GiB and four cores.
async fn cluster(nodes: usize) -> Server {
    let mut server = Server::start();
    server.register(CONFIG).await;
    server.nodes((0..nodes).map(|n| node(&format!("n{n}"), [8 * GIB, 4000])).collect()).await;
    server
}

async fn placed(server: &Server, app: &str, count: u64) {
    let so = |list: &Value| {
        let mut rows = list["applications"].as_array().into_iter().flatten();
        rows.any(|row| row["applicationID"] == app && row["allocations"] == count)
    };
    server.until("/api/v1/partition/default/applications", so).await;
}

/// The first step: what `why` suggests first, with its text for people beside it.
async fn why(server: &Server, app: &str) -> (Value, String) {
    let path = format!("/api/v1/partition/default/application/{app}/explain");
    server.until(&path, |answer| answer["waiting"][0]["advice"].is_object()).await;
    let text = run(server, &["why", app]);
    let answer: Value = serde_json::from_str(&run(server, &["why", app, "-o", "json"])).unwrap();
    let advice = &answer["waiting"][0]["advice"];
    assert_eq!(advice["complete"], true, "{text}");
    let first = advice["remedies"][0].clone();
    assert!(text.contains(first["text"].as_str().unwrap_or("there is none")), "{first}\n{text}");
    (first, text)
}

async fn configure(server: &Server, config: String) {
    let body = json!({"rmID": RM, "policyGroup": "queues", "config": config});
    server.put(&format!("/si/v1/rm/{RM}/configuration"), &body).await;
}

#[tokio::test]
async fn the_max_of_a_queue() {
    let server = cluster(4).await;
    server.app("old", "root.narrow", "ann", json!({})).await;
    server.asks("old", "a", 2, [4 * GIB, 100], json!({})).await;
    placed(&server, "old", 2).await;
    server.app("new", "root.narrow", "eve", json!({})).await;
    server.asks("new", "a", 1, [2 * GIB, 100], json!({})).await;
    let (first, text) = why(&server, "new").await;
    assert_eq!((&first["kind"], &first["who"]), (&json!("queueMax"), &json!("administrator")), "{text}");
    assert_eq!(first["copy"], "# queue root.narrow\nresources: {max: {memory: 10Gi}}");
    assert!(
        text.contains("Held: 8 GiB memory of applications old 8 GiB; users ann 8 GiB; queues root.narrow 8 GiB."),
        "{text}"
    );
    assert!(
        text.contains("2 of 2 applications in root.narrow") || text.contains("1 of 1 application in root.narrow"),
        "{text}"
    );
    let line = first["copy"].as_str().unwrap().lines().last().unwrap();
    configure(&server, CONFIG.replace("resources: {max: {memory: 8Gi}}", line)).await;
    placed(&server, "new", 1).await;
}

#[tokio::test]
async fn the_limit_of_a_user() {
    let server = cluster(4).await;
    server.app("one", "root.limited", "eve", json!({})).await;
    server.asks("one", "a", 3, [2 * GIB, 100], json!({})).await;
    placed(&server, "one", 2).await;
    let (first, text) = why(&server, "one").await;
    assert_eq!(first["copy"], "# queue root.limited, limit of users eve\nmaxresources: {memory: 6Gi}", "{text}");
    let line = first["copy"].as_str().unwrap().lines().last().unwrap();
    configure(&server, CONFIG.replace("maxresources: {memory: 4Gi}", line)).await;
    placed(&server, "one", 3).await;
}

#[tokio::test]
async fn a_drained_rack() {
    let server = cluster(4).await;
    run(&server, &["resource", "drain", "host-n[0-3]", "replacing a switch"]);
    server.app("late", "root.spare", "ann", json!({})).await;
    server.asks("late", "a", 1, [2 * GIB, 100], json!({})).await;
    let (first, text) = why(&server, "late").await;
    assert_eq!((&first["kind"], &first["who"]), (&json!("undrain"), &json!("operator")), "{text}");
    let command: Vec<&str> = first["copy"].as_str().unwrap().split(' ').skip(1).collect();
    assert_eq!(command[..2], ["resource", "undrain"]);
    run(&server, &command);
    placed(&server, "late", 1).await;
}

#[tokio::test]
async fn what_is_called_like_a_rank_in_another_partition() {
    let mut server = Server::start();
    server
        .register(&CONFIG.replacen(
            "partitions:",
            "partitions:\n- {name: other, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}",
            1,
        ))
        .await;
    let of = |id: &str, memory| {
        let mut node = node(id, [memory, 4000]);
        node["attributes"] = json!({"si/node-partition": "other"});
        node
    };
    // The other one has the rank by which the first is called.
    server.nodes(vec![of("1", 8 * GIB), of("x", GIB)]).await;
    run(&server, &["resource", "drain", "0-1", "--partition", "other"]);
    let (other, path) = (json!({"partitionName": "other"}), "/api/v1/partition/other/application");
    server.app("late", "root.a", "ann", other.clone()).await;
    server.asks("late", "a", 1, [2 * GIB, 100], other.clone()).await;
    let path_of = |app: &str| format!("{path}/{app}/explain");
    let why = server.until(&path_of("late"), |why| why["waiting"][0]["advice"]["remedies"][0].is_object()).await;
    let copy = why["waiting"][0]["advice"]["remedies"][0]["copy"].as_str().unwrap();
    assert_eq!(copy, "callboard resource undrain 1, --partition other");
    run(&server, &copy.split(' ').skip(1).collect::<Vec<_>>());
    server.until(&path_of("late"), |why| why["allocations"] == 1).await;
    server.post("/api/v1/partition/other/queue/root.a/stop", &json!({})).await;
    server.app("refused", "root.a", "ann", other).await;
    let why = server.until(&path_of("refused"), |why| why["advice"]["remedies"][0].is_object()).await;
    assert_eq!(why["advice"]["remedies"][0]["copy"], "callboard queue resume root.a --partition other");
}

#[tokio::test]
async fn a_gang_that_is_too_large() {
    let server = cluster(2).await;
    super::cluster::gang(&server, "gang", 5).await;
    placed(&server, "gang", 4).await;
    let (first, text) = why(&server, "gang").await;
    assert_eq!((&first["kind"], &first["who"]), (&json!("members"), &json!("owner")), "{text}");
    assert_eq!(
        first["text"],
        "Submit the gang again with 4 members instead of 5. What it has goes to others first, where they can use it: that was tried, too."
    );
    assert!(text.contains("task group ranks: 4 placeholders placed, 1 waiting"), "{text}");
    server.remove("gang").await;
    super::cluster::gang(&server, "gang-2", 4).await;
    // Their real ask takes the place of one of them.
    placed(&server, "gang-2", 4).await;
    let running = |answer: &Value| answer["state"] == "Running";
    server.until("/api/v1/partition/default/application/gang-2/explain?remedies=false", running).await;
}

#[tokio::test]
async fn gpus_in_pieces() {
    let mut server = Server::start();
    server.register(CONFIG).await;
    let gpu = |id: &str| {
        let mut node = node(id, [8 * GIB, 4000]);
        node["schedulableResource"]["resources"]["nvidia.com/gpu"] = json!({"value": "4"});
        node
    };
    server.nodes(vec![gpu("g1"), gpu("g2")]).await;
    let gpus = |memory: i64, count: &str| json!({"resourcePerAlloc": {"resources": {"memory": {"value": memory.to_string()}, "nvidia.com/gpu": {"value": count}}}});
    // The two do not fit on one node by their memory, and so take a piece of both.
    for app in ["a", "b"] {
        server.app(app, "root.spare", "ann", json!({})).await;
        server.asks(app, "a", 1, [0, 0], gpus(5 * GIB, "1")).await;
        placed(&server, app, 1).await;
    }
    server.app("whole", "root.spare", "bob", json!({})).await;
    server.asks("whole", "a", 1, [0, 0], gpus(GIB, "4")).await;
    let (_, text) = why(&server, "whole").await;
    let answer: Value = serde_json::from_str(&run(&server, &["why", "whole", "whole-a0", "-o", "json"])).unwrap();
    let remedies = answer["waiting"][0]["advice"]["remedies"].as_array().unwrap().clone();
    let of = |kind: &str| remedies.iter().find(|remedy| remedy["kind"] == kind).cloned();
    let smaller = of("smaller").unwrap_or_else(|| panic!("{text}"));
    assert!(smaller["text"].as_str().unwrap().contains("3 nvidia.com/gpu"), "{smaller}");
    let free = of("free").unwrap_or_else(|| panic!("{text}"));
    let owner = if free["nodes"][0] == "g1" { "g1" } else { "g2" };
    let leaving = free["text"].as_str().unwrap();
    let app = if leaving.contains(" of a.") { "a" } else { "b" };
    assert!(leaving.contains(&format!("on node {owner}: end allocation {app}-a0 of {app}.")), "{leaving}");
    server.release(app, &format!("{app}-a0")).await;
    placed(&server, "whole", 1).await;
}
