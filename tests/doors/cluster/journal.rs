//! What operators told one server holds at the next, whatever its own journal remembers.

use serde_json::json;

use crate::{
    cluster::rig::{self, NEVER, leads, session, start},
    shim::server::Server,
    wired::rig::until,
};

const STATUS: &str = "/api/v1/partition/default/resource/status";

async fn tell(server: &Server, what: &str, targets: &str) {
    let path = format!("/api/v1/partition/default/resource/{what}");
    let (status, body) = server.send("POST", &path, &json!({"targets": targets, "reason": "disk"})).await;
    assert_eq!(status, 200, "{body}");
}

async fn stop(server: &Server, what: &str) {
    let (status, body) =
        server.send("POST", &format!("/api/v1/partition/default/queue/root.a/{what}"), &json!({})).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn drains_and_orders_to_queues_go_with_the_lead() {
    let Some(etcd) = rig::etcd("drains_and_orders_to_queues_go_with_the_lead") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let first = start(&etcd, one.path(), NEVER);
    session(&first).await;
    until(&first, STATUS, |status| status["online"]["nodelist"] == "n[1-2]").await;
    tell(&first, "drain", "n1").await;
    stop(&first, "stop").await;
    let second = start(&etcd, two.path(), NEVER);
    first.program.signal("TERM");
    assert_eq!(first.program.ended().await, Some(0));
    leads(&second).await;
    let drained = until(&second, STATUS, |status| status["drained"][0]["nodelist"] == "n1").await;
    assert_eq!(drained["drained"][0]["by"], json!(["operator"]), "{drained}");
    let queue = second.get("/api/v1/partition/default/queue/root.a").await.1;
    assert!(queue.to_string().contains("stop"), "{queue}");
    // What is taken back there is taken back for the first as well, which still has it in its own journal.
    tell(&second, "undrain", "n1").await;
    stop(&second, "resume").await;
    let first = start(&etcd, one.path(), NEVER);
    second.program.signal("TERM");
    assert_eq!(second.program.ended().await, Some(0));
    leads(&first).await;
    until(&first, STATUS, |status| status["drained"] == json!([])).await;
    let nodes = first.get("/ws/v1/partition/default/nodes").await.1;
    assert!(nodes.as_array().expect("nodes").iter().all(|node| node["schedulable"] == true), "{nodes}");
    let ask = async || first.get("/api/v1/partition/default/queue/root.a").await.1.to_string();
    crate::common::answer("the queue", ask, |queue| !queue.contains("stop")).await;
}
