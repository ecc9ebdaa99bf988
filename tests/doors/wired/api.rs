//! `/api/v1` beside the other doors.

use serde_json::{Value, json};

use crate::{
    shim::server::Server,
    wired::rig::{application, asks, until},
};

#[tokio::test]
async fn the_api_is_there_beside_the_other_doors() {
    let server = Server::registered(&[]).await;
    for (path, status, detail) in [
        ("/api/v1", 404, "there is nothing at /api/v1"),
        ("/api/v1/nothing/here", 404, "there is nothing at /api/v1/nothing/here"),
        ("/api/v1/partition/x/demand", 404, "partition 'x' not found; there are: default"),
        ("/api/v1/partition/x/releases", 404, "partition 'x' not found; there are: default"),
        ("/api/v1/partition/x/resource/status", 404, "partition 'x' not found; there are: default"),
        ("/api/v1/partition/default/resource/drain", 405, "this path takes POST"),
    ] {
        let (answer, problem) = server.get(path).await;
        assert_eq!((answer, problem["detail"].as_str()), (status, Some(detail)), "{path}");
    }
    let (status, problem) = server.send("POST", "/api/v1/events", &json!({})).await;
    assert_eq!((status, problem["detail"].as_str()), (405, Some("this path takes GET")));
    // The plain and the internal name of the partition.
    for name in ["default", "[rm-1]default", "%5Brm-1%5Ddefault"] {
        let (status, body) = server.get(&format!("/api/v1/partition/{name}/resource/status")).await;
        assert_eq!((status, &body["all"]["idset"]), (200, &json!("")), "{name}");
    }
    // What no service knows is answered as before.
    let answer = reqwest::get(server.url("/nothing")).await.expect("an answer");
    assert_eq!(
        (answer.status().as_u16(), answer.text().await.expect("text")),
        (404, "404 page not found\n".to_owned())
    );
    assert_eq!(server.get("/ws/v1/partitions").await.0, 200);
}

#[tokio::test]
async fn events_are_read_over_the_api() {
    let server = Server::registered(&[]).await;
    // A single line would be JSON.
    let text = until(&server, "/api/v1/events?from=0", Value::is_string).await;
    let text = text.as_str().expect("lines");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["id"], 0);
    assert_eq!(lines.last().expect("a last line")["next"], lines.len() - 1);
}

#[tokio::test]
async fn demand_is_what_waits_only_for_nodes() {
    // R4.38
    let server = Server::registered(&[]).await;
    let demand = "/api/v1/partition/default/demand";
    assert_eq!(server.get(demand).await, (200, json!({"partition": "default", "demand": [], "total": {}})));
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    asks(&server, "app-1", &["k1", "k2"], 70).await;
    let body = until(&server, demand, |body| body["demand"][0]["asks"] == 1).await;
    let row = &body["demand"][0];
    assert_eq!(
        (&row["queueName"], &row["resource"], &row["applications"]),
        (&json!("root.a"), &json!({"memory": 70}), &json!(1))
    );
    assert!(row["waitingSince"].as_str().expect("a time").ends_with('Z'));
}
