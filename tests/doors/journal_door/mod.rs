//! The journal through its endpoints and commands, on a real socket, with a real partition behind them.

mod golden;
mod rig;

use callboard::domain::{effect::NodeEffect, journal::Fact};
use rig::Rig;
use serde_json::{Value, json};

use crate::common;

#[actix::test]
async fn the_journal_is_ndjson_with_a_sentinel() {
    // RFC 44 journal; API section 4
    let rig = Rig::start("node[1-4]").await;
    let answer = rig.get("resource/journal?follow=false").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    let text = answer.text().await.unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["events"][0]["context"], json!({"ranks": "0-3", "online": "", "nodelist": "node[1-4]"}));
    assert_eq!(lines[1]["events"][0]["name"], "resource-define");
    assert_eq!(lines[1]["R"]["execution"]["nodelist"], json!(["node[1-4]"]));
    assert_eq!(lines[2]["events"][0]["name"], "online");
    assert_eq!(text.lines().last().unwrap(), r#"{"events":[]}"#);
    assert_eq!(
        rig.get("resource/journal?historical=false&follow=false").await.text().await.unwrap(),
        "{\"events\":[]}\n"
    );
}

#[actix::test]
async fn a_stream_goes_on_until_it_is_cancelled() {
    // RFC 44 cancellation
    let rig = Rig::start("node[1-4]").await;
    let mut stream = rig.get("resource/journal?historical=false").await;
    let name = stream.headers()["journal-stream"].to_str().unwrap().to_owned();
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "{\"events\":[]}\n");
    assert_eq!(rig.post("resource/drain", &json!({"targets": "1", "reason": "ƒ \"x\""})).await.0, 200);
    let line = stream.chunk().await.unwrap().unwrap();
    let event = &serde_json::from_slice::<Value>(&line).unwrap()["events"][0];
    assert_eq!(event["context"], json!({"idset": "1", "nodelist": "node2", "reason": "ƒ \"x\"", "overwrite": 0}));
    assert_eq!(rig.post(&format!("resource/journal/{name}/cancel"), &json!({})).await.0, 200);
    assert!(stream.chunk().await.unwrap().is_none(), "a cancelled stream ends");
    let (status, problem) = rig.post(&format!("resource/journal/{name}/cancel"), &json!({})).await;
    assert_eq!(status, 404);
    assert!(problem["detail"].as_str().unwrap().starts_with(&format!("journal stream '{name}' not found")));
}

#[actix::test]
async fn a_client_that_leaves_is_forgotten() {
    let rig = Rig::start("node[1-4]").await;
    let mut stream = rig.get("resource/journal").await;
    stream.chunk().await.unwrap();
    assert_eq!(rig.status().await["streams"], 1);
    drop(stream);
    common::until(async || rig.status().await["streams"] == 0).await;
}

#[actix::test]
async fn the_status_tells_how_targets_are() {
    let rig = Rig::start("node[1-4]").await;
    rig.allocate("node2").await;
    rig.post("resource/drain", &json!({"targets": "node[2-3]", "reason": "disk"})).await;
    rig.facts(vec![Fact::Node(NodeEffect::Removed { node: "node4".into() })]).await;
    let status = rig.status().await;
    let set =
        |name: &str| [&status[name]["idset"], &status[name]["nodelist"]].map(|text| text.as_str().unwrap().to_owned());
    assert_eq!(set("all"), ["0-3", "node[1-4]"]);
    assert_eq!(set("online"), ["0-2", "node[1-3]"]);
    assert_eq!(set("offline"), ["3", "node4"]);
    assert_eq!(set("torpid"), ["", ""]);
    assert_eq!(set("allocated"), ["1", "node2"]);
    let drained = &status["drained"][0];
    assert_eq!(
        (&drained["idset"], &drained["reason"], &drained["by"]),
        (&json!("1-2"), &json!("disk"), &json!(["operator"]))
    );
    // SEEDS S38: with microseconds, as the event has them.
    let log = rig.get("resource/journal?follow=false").await.text().await.unwrap();
    let events = log.lines().flat_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["events"].as_array().unwrap().clone()
    });
    let drain = events.into_iter().find(|event| event["name"] == "drain").unwrap();
    assert_eq!(drained["timestamp"], drain["timestamp"]);
    assert_eq!(status["R"]["execution"]["R_lite"], json!([{"rank": "0-3", "children": {"core": "0-3"}}]));
    // The partition was told.
    assert_eq!(rig.held().await, ["node2", "node3"]);
    assert_eq!(rig.post("resource/undrain", &json!({"targets": "1-2"})).await.0, 200);
    assert!(rig.held().await.is_empty());
}

#[actix::test]
async fn a_heartbeat_is_of_a_node_that_is_there() {
    // SEEDS S37
    let rig = Rig::start("node[1-2]").await;
    assert!(!rig.alive(&["node3"]).await, "its registration may be on its way");
    assert!(rig.alive(&["node3", "node2", "node1"]).await);
    assert!(!rig.alive(&[]).await);
}

#[actix::test]
async fn what_is_wrong_is_a_problem() {
    let rig = Rig::start("node[1-4]").await;
    rig.post("resource/drain", &json!({"targets": "0"})).await;
    for (path, body, status, detail, field) in [
        ("drain", json!({"targets": "9"}), 400, "idset is out of range: '9' (ranks are 0-3)", Some("targets")),
        ("drain", json!({"targets": "x"}), 400, "invalid targets: invalid hosts: x", Some("targets")),
        (
            "drain",
            json!({"targets": "0", "overwrite": 3}),
            400,
            "overwrite is 3, but may be 0, 1 or 2 only",
            Some("overwrite"),
        ),
        (
            "undrain",
            json!({"targets": "0", "reason": "x".repeat(16_385)}),
            400,
            "reason has 16385 bytes: at most 16384 are allowed",
            Some("reason"),
        ),
        ("drain", json!({"targets": 1}), 400, "invalid type: integer `1`, expected a string", None),
        ("drain", json!({}), 400, "missing field `targets`", None),
        ("drain", json!({"targets": "0", "why": ""}), 400, "unknown field `why`", None),
        ("drain", json!({"targets": "0-1"}), 409, "rank 0 already drained", Some("targets")),
        ("undrain", json!({"targets": "0-2"}), 409, "ranks 1-2 not drained", Some("targets")),
    ] {
        let (answer, problem) = rig.post(&format!("resource/{path}"), &body).await;
        assert_eq!(answer, status, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
        assert_eq!(problem.get("field").and_then(Value::as_str), field, "{problem}");
        assert_eq!((&problem["type"], &problem["status"]), (&json!("about:blank"), &json!(status)));
    }
    assert_eq!(rig.held().await, ["node1"]);
    for (path, status, detail) in [
        ("resource/journal?follow=yes", 400, "follow is 'yes', but may be true or false only"),
        ("../nosuch/resource/status", 404, "partition 'nosuch' not found; there are: default"),
    ] {
        let answer = rig.get(path).await;
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        assert_eq!(answer.json::<Value>().await.unwrap()["detail"], detail);
    }
}

#[actix::test]
async fn an_operator_sets_when_the_resource_set_expires() {
    // SEEDS S19, S38; RFC 44 resource-update
    let rig = Rig::start("node[1-4]").await;
    let mut stream = rig.get("resource/journal?historical=false").await;
    assert_eq!(stream.chunk().await.unwrap().unwrap(), "{\"events\":[]}\n");
    let mut next = async || {
        let line = stream.chunk().await.unwrap().unwrap();
        let event = serde_json::from_slice::<Value>(&line).unwrap();
        (event["events"][0]["name"].clone(), event["events"][0]["context"].clone(), event.get("R").is_some())
    };
    for (sent, expiration) in [(json!(1_738_009_133), 1_738_009_133), (json!(1_900_000_000.75), 1_900_000_000)] {
        assert_eq!(rig.post("resource/expiration", &json!({"expiration": sent})).await, (200, json!({})));
        assert_eq!(next().await, (json!("resource-update"), json!({"expiration": expiration}), false));
        assert_eq!(rig.status().await["R"]["execution"]["expiration"], expiration);
    }
    // For programs: what the door says, as it is.
    for what in ["status", "list", "drain"] {
        let (status, out, err) = rig.run(&["resource", what, "-o", "json"]).await;
        assert_eq!((status, err), (0, String::new()), "{what}");
        assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON"), rig.status().await, "{what}");
    }
    let (status, out, err) = rig.run(&["resource", "expiration", "2030-01-01T00:00:00Z"]).await;
    assert_eq!((status, out, err), (0, String::new(), String::new()));
    assert_eq!(next().await.1, json!({"expiration": 1_893_456_000}));
    assert_eq!(rig.run(&["resource", "expiration", "none"]).await.0, 0);
    assert_eq!(next().await.1, json!({"expiration": 0}));
    for (body, detail, field) in [
        (json!({"expiration": -1}), "expiration is -1, but may be 0 (none) to 253402300799", Some("expiration")),
        (json!({"expiration": 1_738_009_133_000_i64}), "expiration is 1738009133000, but may be", Some("expiration")),
        (json!({"expiration": -0.5}), "expiration is -0.5, but may be 0 (none) to", Some("expiration")),
        (json!({"expiration": 0.5}), "expiration is 0.5, but may be 0 (none) to", Some("expiration")),
        (json!({"expiration": 1e300}), "but may be 0 (none) to 253402300799", Some("expiration")),
        (json!({"expiration": "soon"}), "invalid type: string \"soon\"", None),
        (json!({}), "missing field `expiration`", None),
        (json!({"expiration": 1, "why": ""}), "unknown field `why`", None),
    ] {
        let (status, problem) = rig.post("resource/expiration", &body).await;
        assert_eq!(status, 400, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
        assert_eq!(problem.get("field").and_then(Value::as_str), field, "{problem}");
    }
    assert_eq!(rig.status().await["R"]["execution"]["expiration"], 0);
}

#[actix::test]
async fn the_command_waits_for_events() {
    // J9
    let rig = Rig::start("node[1-4]").await;
    let (status, out, _) = rig.run(&["journal", "--wait=online"]).await;
    assert_eq!(status, 0);
    let names: Vec<&str> = out.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(names, ["restart", "resource-define", "online"], "history counts");

    let waiting = rig.run(&["journal", "-f", "json", "-w", "drain", "-m", "idset=\"2\"", "-t", "20s"]);
    let drains = async {
        for rank in ["1", "2", "3"] {
            rig.post("resource/drain", &json!({ "targets": rank })).await;
        }
    };
    let ((status, out, err), ()) = futures::join!(waiting, drains);
    assert_eq!((status, err.as_str()), (0, ""));
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last["context"]["nodelist"], "node3");

    let (status, out, err) = rig.run(&["journal", "--wait=nosuchevent", "-t", "3s"]).await;
    assert_eq!((status, err.as_str()), (1, "callboard: timed out after 3s\n"));
    assert!(out.lines().count() >= 5, "what came so far was printed");
    let (status, _, err) = rig.run(&["journal", "--partition=nosuch"]).await;
    assert_eq!((status, err.as_str()), (1, "callboard: partition 'nosuch' not found; there are: default\n"));
}
