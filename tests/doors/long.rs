//! Long answers, which are made on threads of their own: they are whole, many at a time, also for callers who go.

use futures::future::join_all;
use serde_json::Value;

use crate::{
    shim::server::Server,
    wired::rig::{application, asks, until},
};

/// More than are told of at once.
const NODES: usize = 1_200;

/// A path, and what is right of its answer.
type Wanted<'a> = (String, &'a dyn Fn(&Value) -> bool);

#[tokio::test]
async fn long_answers_are_whole_however_many_want_them() {
    let server = Server::registered(&[]).await;
    let ids: Vec<String> = (0..NODES).map(|at| format!("n{at}")).collect();
    server.nodes(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    application(&server, "app").await;
    asks(&server, "app", &["a"], i64::MAX / 2).await;
    let of = |path: &str| format!("/api/v1/partition/default/{path}");
    until(&server, &of("resource/status"), |status| status["online"]["idset"] == "0-1199").await;
    until(&server, &of("applications"), |all| all["applications"][0]["asks"] == 1).await;
    let len = |value: &Value| value.as_array().map_or(0, Vec::len);
    let why = |told: &Value, part: &str| told["met"] == false && told["why"].to_string().contains(part);
    let wanted: [Wanted<'_>; 9] = [
        (of("application/app/wait?for=placed&timeout=1ms"), &|told| why(told, "larger than every node")),
        (of("queue/root.a/wait?for=empty&timeout=1ms"), &|told| why(told, "1 application is in it: app")),
        (of("nodes"), &|all| len(&all["nodes"]) == NODES),
        (of("resource/status"), &|status| status["all"]["idset"] == "0-1199" && status["R"].is_object()),
        (of("applications"), &|all| all["matched"] == 1 && all["applications"][0]["reason"].is_object()),
        (of("demand"), &|demand| demand["partition"] == "default"),
        ("/api/v1/overview".to_owned(), &|all| all["partitions"][0]["nodes"]["total"] == NODES),
        ("/ws/v1/partitions".to_owned(), &|all| all[0]["totalNodes"] == NODES),
        ("/ws/v1/scheduler/node-utilizations".to_owned(), &|all| len(all) == 1),
    ];
    for (path, right) in &wanted {
        for (status, answer) in join_all((0..6).map(|_| server.get(path))).await {
            assert!(status == 200 && right(&answer), "{path}: {status} {answer}");
        }
    }
    // Each has all that was there when it asked.
    for path in ["/metrics", "/ws/v1/metrics"] {
        for (status, text) in join_all((0..6).map(|_| server.get(path))).await {
            let text = text.as_str().unwrap_or_default();
            assert!(status == 200 && text.contains("yunikorn_scheduler_node{state=\"active\"} 1200"), "{path}: {text}");
        }
    }
    // Who goes before its turn is no burden.
    for _ in 0..30 {
        let gone = server.http.get(server.url(&of("nodes"))).send();
        let _ = tokio::time::timeout(std::time::Duration::from_millis(1), gone).await;
    }
    assert_eq!(server.get("/healthz").await.0, 200);
}
