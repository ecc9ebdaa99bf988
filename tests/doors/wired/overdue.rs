//! A drain with a deadline: what still runs by then is told, also after a kill.

use serde_json::json;

use crate::{
    common,
    shim::server::Server,
    wired::rig::{application, asks, until, with_data},
};

const DRAIN: &str = "/api/v1/partition/default/resource/drain";
const STATUS: &str = "/api/v1/partition/default/resource/status";

#[tokio::test]
async fn what_runs_after_the_deadline_is_told_until_it_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    server.register("rm-1", &[("health.checkInterval", "50ms")]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    asks(&server, "app-1", &["k1"], 60).await;
    until(&server, STATUS, |status| status["allocated"]["nodelist"] == "n1").await;
    for (deadline, says) in [
        ("soon", "a duration from now such as 30m"),
        ("2020-01-01T00:00:00Z", "a time to come"),
        ("20000d", "within 10 years"),
    ] {
        let (status, problem) = server.send("POST", DRAIN, &json!({"targets": "n1", "deadline": deadline})).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status == 400 && detail.contains(says) && problem["field"] == "deadline", "{problem}");
    }
    let undrain = "/api/v1/partition/default/resource/undrain";
    assert_eq!(server.send("POST", undrain, &json!({"targets": "n1", "deadline": "1s"})).await.0, 400);
    let body = json!({"targets": "n1", "reason": "disk", "deadline": "10ms"});
    assert_eq!(server.send("POST", DRAIN, &body).await.0, 200);
    let status = until(&server, STATUS, |status| status["overdue"]["count"] == 1).await;
    let node = &status["overdue"]["nodes"][0];
    assert_eq!((&node["node"], &node["allocations"], &node["reason"]), (&json!("n1"), &json!(1), &json!("disk")));
    assert_eq!(node["applications"], json!(["app-1"]));
    assert!(status["drained"][0]["deadline"].is_f64(), "{status}");
    let told = "the deadline of its drain has passed: 1 allocation of app-1 still there";
    until(&server, "/api/v1/events?object=n1", |events| events.to_string().contains(told)).await;
    let health =
        |health: &serde_json::Value| health["Warnings"].to_string().contains("n1: 1 allocation of app-1, since ");
    until(&server, "/ws/v1/scheduler/healthcheck", health).await;
    server.program.kill();

    let server = with_data(dir.path());
    until(&server, "/api/v1/overview", |overview| overview["partitions"][0]["overdue"]["count"] == 1).await;
    let mut command = common::command(&["status", "--server", &server.url("")]);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("waited for");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("default: n1 was to be empty by ") && text.contains(": 1 allocation of app-1 still there"),
        "{text}"
    );
    assert_eq!(server.send("POST", undrain, &json!({"targets": "n1"})).await.0, 200);
    until(&server, STATUS, |status| status["overdue"]["count"] == 0).await;
}

#[tokio::test]
async fn the_command_waits_until_the_deadline() {
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    asks(&server, "app-1", &["k1"], 60).await;
    until(&server, STATUS, |status| status["allocated"]["nodelist"] == "n1").await;
    let args = ["resource", "drain", "--wait", "--deadline", "200ms", "n1", "disk", "--server", &server.url("")];
    let mut command = common::command(&args);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("waited for");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("node/n1 timed out: not drained") && text.contains("app-1"), "{text}");
    until(&server, STATUS, |status| status["overdue"]["count"] == 1).await;
}
