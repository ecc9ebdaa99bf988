//! What operators tell queues holds over sessions, kills and restarts, and damage of its files is told.

use std::fs;

use serde_json::{Value, json};

use crate::{
    common,
    shim::server::{CONFIG, Server},
    wired::rig::{application, run, until, with_data},
};

const QUEUE: &str = "/api/v1/partition/default/queue/root.a";

async fn order(server: &Server, what: &str, body: Value) -> (u16, Value) {
    server.send("POST", &format!("{QUEUE}/{what}"), &body).await
}

/// Submits an application; gives why it was refused.
async fn submit(server: &Server, id: &str) -> Option<String> {
    application(server, id).await;
    let found = format!("/api/v1/partition/default/application/{id}/wait?for=running&timeout=0s");
    let answer = until(server, &found, |answer| answer["state"] != "absent").await;
    (answer["state"] == "Rejected").then(|| answer["why"].as_str().expect("why").to_owned())
}

#[tokio::test]
async fn an_order_outlives_sessions_and_kills() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    assert_eq!(submit(&server, "app-1").await, None);
    let (status, ordered) = order(&server, "stop", json!({"reason": "billing"})).await;
    assert_eq!((status, &ordered["state"]), (200, &json!("Stopped")), "{ordered}");
    server.program.kill();

    server = with_data(dir.path());
    for _ in 0..2 {
        server.register("rm-1", &[]).await;
        let why = submit(&server, "app-2").await.expect("refused");
        assert!(why.contains("queue root.a takes no new application: root.a was stopped by an operator at "), "{why}");
        assert!(why.ends_with(": billing"), "{why}");
        let (_, queue) = server.get("/ws/v1/partition/default/queue/root.a").await;
        assert_eq!(queue["status"], "Stopped");
    }
    let shown = until(&server, QUEUE, |shown| shown["refused"] == 1).await;
    assert_eq!((&shown["state"], &shown["order"]["order"]), (&json!("Stopped"), &json!("stop")));
    assert_eq!(shown["refusals"][0]["applicationID"], "app-2");
    let (status, problem) = order(&server, "stop", json!({})).await;
    assert!(status == 409 && problem["detail"].as_str().is_some_and(|text| text.contains("billing")), "{problem}");
    assert_eq!(order(&server, "stop", json!({"reason": "audit", "overwrite": true})).await.0, 200);
    assert_eq!(order(&server, "resume", json!({})).await.0, 200);
    assert_eq!(order(&server, "resume", json!({})).await.0, 409);
    let events =
        until(&server, "/api/v1/events?object=root.a&type=queue", |events| events.to_string().contains("resumed"));
    assert!(events.await.to_string().contains("root.a was stopped by an operator"));
    server.program.kill();

    let server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    assert_eq!(submit(&server, "app-3").await, None);
}

#[tokio::test]
async fn damage_is_told_and_resumes_no_queue() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    assert_eq!(order(&server, "drain", json!({"reason": "billing"})).await.0, 200);
    server.program.kill();
    let file = dir.path().join("journal/%5Brm-1%5Ddefault/queue.orders");
    let text = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, text.replace("root.a", "root.b")).expect("written");

    let mut server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    assert!(submit(&server, "app-1").await.expect("refused").contains("drained by an operator"));
    let status = server.get("/api/v1/partition/default/resource/status").await.1;
    assert!(status["faults"].to_string().contains("queue.orders line 2: an order is damaged"), "{status}");
    let (_, health) = server.get("/ws/v1/scheduler/healthcheck").await;
    assert_eq!(health["Healthy"], false, "{health}");
    server.program.kill();

    // It was mended, and stays told until somebody has looked.
    let server = with_data(dir.path());
    server.register("rm-1", &[]).await;
    assert!(submit(&server, "app-1").await.is_some());
    let status = server.get("/api/v1/partition/default/resource/status").await.1;
    assert!(status["faults"].to_string().contains("queue.orders line 2"), "{status}");
    assert!(!server.program.log().contains("damaged: ") || server.program.log().contains("queue.orders"));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let server = Server::registered(&[]).await;
    let of = |queue: &str, what: &str| format!("/api/v1/partition/default/queue/{queue}/{what}");
    for (path, body, status, part) in [
        (of("root", "stop"), json!({}), 409, "root cannot be stopped"),
        (of("root.x", "drain"), json!({}), 404, "queue 'root.x' not found"),
        (of("root.a", "stop"), json!({"why": "x"}), 400, "unknown field `why`"),
        (of("root.a", "stop"), json!({"reason": "x".repeat(1025)}), 400, "reason has 1025 bytes"),
        (of("root.a", "stop"), json!(["x", true]), 400, "expected an object"),
    ] {
        let (answer, problem) = server.send("POST", &path, &body).await;
        let text = problem["detail"].as_str().unwrap_or_default();
        assert!(answer == status && text.contains(part), "{path}: {answer} {problem}");
    }
    assert_eq!(server.get(of("root.x", "").trim_end_matches('/')).await.0, 404);
    // All of it may be left out.
    assert_eq!(server.send_text("POST", &of("root.a", "stop"), "", "application/json").await.0, 200);
}

#[tokio::test]
async fn a_resumed_queue_below_a_drained_one_says_so() {
    let server = Server::registered(&[]).await;
    let config = format!("{CONFIG}            queues:\n              - name: b\n");
    let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": config})).await;
    assert_eq!(status, 200, "{body}");
    let tell = async |queue: &str, what: &str| {
        let path = format!("/api/v1/partition/default/queue/{queue}/{what}");
        server.send("POST", &path, &json!({"reason": "billing"})).await
    };
    assert_eq!(tell("root.a.b", "stop").await.0, 200);
    assert_eq!(tell("root.a", "drain").await.0, 200);
    let mut resume = common::command(&["queue", "resume", "root.a.b", "--server", &server.url("")]);
    let output = tokio::task::spawn_blocking(move || resume.output().expect("it runs")).await.expect("waited for");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "root.a.b is Draining still: root.a was drained by an operator at ";
    assert!(output.status.success() && text.starts_with(expected), "{text}");
    let (_, resumed) = tell("root.a", "resume").await;
    assert_eq!(resumed, json!({"queue": "root.a", "state": "Active"}));
}

#[tokio::test]
async fn the_command_stops_several_and_shows_one() {
    let server = Server::registered(&[]).await;
    let run = async |args: &[&str]| run(&server, args).await;
    assert_eq!(run(&["queue", "stop", "root.a", "--reason", "billing"]).await, (Some(0), String::new(), String::new()));
    let (status, _, err) = run(&["queue", "stop", "root.a"]).await;
    assert!(status == Some(1) && err.contains("billing") && err.contains("--force does it"), "{err}");
    let (status, _, err) = run(&["queue", "resume", "root.a", "root.nowhere"]).await;
    assert!(status == Some(1) && err.contains("'root.nowhere' not found"), "{err}");
    assert!(submit(&server, "app-1").await.is_some());
    let (_, shown, _) = run(&["queue", "show", "root.a"]).await;
    assert!(shown.starts_with("root.a Stopped, empty\n  stop of root.a by an operator since "), "{shown}");
    assert!(shown.contains("app-1: queue root.a takes no new application"), "{shown}");
    for again in [false, true] {
        let (status, out, err) = run(&["queue", "drain", "root.a", "--wait", "--timeout", "20s"]).await;
        assert_eq!((status, &*out), (Some(0), "queue/root.a condition met: empty (Draining)\n"), "{err}");
        assert_eq!(err.contains("root.a was drained by an operator at "), again, "{err}");
    }
    let (status, out, err) = run(&["queue", "drain", "root.nowhere", "--wait", "--timeout", "1d"]).await;
    assert!(status == Some(1) && out.is_empty() && err.contains("'root.nowhere' not found"), "{err}");
    assert_eq!(run(&["queue", "resume", "root.a"]).await.0, Some(0));
    assert_eq!(submit(&server, "app-2").await, None);
}

#[tokio::test]
async fn orders_are_listed_where_their_queues_went_too() {
    let listed = "/api/v1/partition/default/orders";
    let server = Server::registered(&[]).await;
    let (_, none) = server.get(listed).await;
    assert_eq!(none, json!({"partition": "default", "orders": []}));
    assert_eq!(run(&server, &["queue", "show"]).await, (Some(0), String::new(), String::new()));
    assert_eq!(order(&server, "stop", json!({"reason": "billing"})).await.0, 200);
    let (_, stopped) = server.get(listed).await;
    assert_eq!(stopped["orders"][0]["state"], "Stopped", "{stopped}");
    // The configuration drops the queue, and the order holds.
    let config = CONFIG.replace("name: a", "name: b");
    let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": config})).await;
    assert_eq!(status, 200, "{body}");
    let left = until(&server, listed, |listed| listed["orders"][0]["state"] == "absent").await;
    let row = &left["orders"][0];
    assert_eq!((&row["queue"], &row["order"], &row["by"]), (&json!("root.a"), &json!("stop"), &json!("an operator")));
    assert_eq!((&row["reason"], row["since"].is_string()), (&json!("billing"), true));
    let (status, out, err) = run(&server, &["queue", "show"]).await;
    assert_eq!(status, Some(0), "{err}");
    assert!(out.starts_with("root.a absent\n  stop of root.a by an operator since "), "{out}");
    assert!(out.ends_with(": billing\n"), "{out}");
    assert_eq!(run(&server, &["queue", "resume", "root.a"]).await.0, Some(0));
    assert_eq!(server.get(listed).await.1["orders"], json!([]));
}

#[tokio::test]
async fn of_two_at_once_one_holds_and_the_other_hears_of_it() {
    let data = tempfile::tempdir().expect("a directory");
    let server = with_data(data.path());
    server.register("rm-1", &[]).await;
    for round in 0..10 {
        let stop = async |who: &str| order(&server, "stop", json!({"reason": format!("{who} {round}")})).await.0;
        let (one, other) = tokio::join!(stop("alice"), stop("bob"));
        assert_eq!((one.min(other), one.max(other)), (200, 409));
        assert_eq!(order(&server, "resume", json!({})).await.0, 200);
    }
}
