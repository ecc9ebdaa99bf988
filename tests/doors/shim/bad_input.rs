//! What is wrong with a request: a clear answer, and nothing of it applied.

use serde_json::{Value, json};

use crate::shim::server::{CONFIG, Server, read};

/// Status and text of the answer name what is wrong.
fn refused((status, body): (u16, Value), want: u16, field: Option<&str>, texts: &[&str]) {
    assert_eq!(status, want, "{body}");
    assert_eq!(body.get("field").and_then(Value::as_str), field, "{body}");
    let detail = body["detail"].as_str().unwrap_or_default();
    for text in texts {
        assert!(detail.contains(text), "{text:?} is not in {detail:?}");
    }
}

#[tokio::test]
async fn envelopes() {
    let server = Server::registered(&[]).await;
    let nodes = "/si/v1/rm/rm-1/nodes";
    let allocations = "/si/v1/rm/rm-1/allocations";
    let json = "application/json";
    let text = async |path: &str, body: &str| server.send_text("POST", path, body, json).await;

    refused(text(nodes, "hello").await, 400, None, &["not JSON", "line 1"]);
    refused(text(nodes, "").await, 400, None, &["not JSON"]);
    refused(text(nodes, "[]").await, 400, None, &["sequence"]);
    refused(text(nodes, r#"{"nodes":{"nodeID":"n"}}"#).await, 400, Some("nodes"), &["map", "sequence"]);
    refused(text(nodes, r#"{"nodes":[{"nodeID":7}]}"#).await, 400, Some("nodes[0].nodeID"), &["value: 7", "string"]);
    refused(text(nodes, r#"{"colour":"red"}"#).await, 400, Some("colour"), &["unknown field `colour`"]);
    refused(text(nodes, r#"{"nodes":[{"action":"EXPLODE"}]}"#).await, 400, Some("nodes[0].action"), &["EXPLODE"]);
    refused(
        text(allocations, r#"{"allocations":[{"priority":2147483648}]}"#).await,
        400,
        Some("allocations[0].priority"),
        &["2147483648"],
    );
    let huge = r#"{"allocations":[{"resourcePerAlloc":{"resources":{"memory":{"value":"9223372036854775808"}}}}]}"#;
    refused(
        text(allocations, huge).await,
        400,
        Some("allocations[0].resourcePerAlloc.resources.memory.value"),
        &["9223372036854775808"],
    );
    refused(text(nodes, r#"{"rmID":"rm-9"}"#).await, 400, Some("rmID"), &["\"rm-9\"", "\"rm-1\""]);
    refused(text("/si/v1/rm/rm-1/answers", r#"{"success":true}"#).await, 400, None, &["id"]);

    let xml = server.send_text("POST", nodes, "<nodes/>", "application/xml").await;
    refused(xml, 415, None, &["application/xml", "application/json"]);
    let packed = server.http.post(server.url(nodes)).header("content-type", "application/json");
    let packed = packed.header("content-encoding", "gzip").body("{}");
    refused(read(packed.send().await.expect("an answer")).await, 415, None, &["Content-Encoding gzip"]);
    let (status, _) = server.send_text("POST", nodes, "{}", "application/json; charset=utf-8").await;
    assert_eq!(status, 202);
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["lastSequence"], 0, "nothing was applied");
}

#[tokio::test]
async fn the_order_of_checks() {
    let server = Server::registered(&[]).await;
    // What any page may send comes in nowhere.
    refused(server.send_text("POST", "/si/v1/rm/rm-9/nodes", "hello", "text/plain").await, 415, None, &["text/plain"]);
    // Unknown before malformed.
    for (path, name) in
        [("nodes", "NodeRequest"), ("applications", "ApplicationRequest"), ("allocations", "AllocationRequest")]
    {
        // R1.19
        let answer = server.send_text("POST", &format!("/si/v1/rm/rm-9/{path}"), "hello", "application/json").await;
        let text = format!("received {name}, but RmID=\"rm-9\" not registered");
        assert_eq!((answer.0, &answer.1["detail"]), (404, &json!(text)));
    }
    let configuration = server.send("PUT", "/si/v1/rm/rm-9/configuration", &json!({})).await;
    // R1.12
    refused(
        configuration,
        404,
        None,
        &["update of configuration failed: RM rm-9 has no active partitions, make sure it is registered"],
    );
    for path in ["stream", "ws", ""] {
        assert_eq!(server.get(format!("/si/v1/rm/rm-9/{path}").trim_end_matches('/')).await.0, 404);
    }
    assert_eq!(server.delete("/si/v1/rm/rm-9").await.0, 404);
    server.delete("/si/v1/rm/rm-1").await;
    let stopped = server.send_text("POST", "/si/v1/rm/rm-1/nodes", "hello", "application/json").await;
    refused(stopped, 409, None, &["Stopped"]);
    assert_eq!(server.get("/si/v1/rm/rm-1/stream").await.0, 409);
}

#[tokio::test]
async fn items_are_rejected_one_by_one_or_ignored() {
    let server = Server::registered(&[]).await;
    let mut stream = server.stream("?after=0").await;
    let resource = |value: &str| json!({"resources": {"memory": {"value": value}}});
    let nodes = json!({"nodes": [
        null,
        {},
        {"nodeID": "", "action": "CREATE"},
        {"nodeID": "n1", "action": 1, "schedulableResource": resource("100")},
        {"nodeID": "n1", "action": "CREATE"},
        {"nodeID": "n2", "action": "CREATE", "attributes": {"si/node-partition": "nope"}},
        {"nodeID": "ghost", "action": "UPDATE"},
        {"nodeID": "ghost", "action": "DECOMISSION"},
        {"nodeID": "n1"},
        {"nodeID": "n3", "attributes": {"si/node-partition": "nope"}}
    ]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/nodes", &nodes).await.0, 202);
    let apps = json!({"new": [
        {"applicationID": "app-1", "queueName": "root.a", "ugi": {"user": "u"}},
        {"applicationID": "app-1", "queueName": "root.a", "ugi": {"user": "u"}},
        {"applicationID": "app-2", "partitionName": "nope"},
        {}
    ], "remove": [{"applicationID": "ghost"}]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &apps).await.0, 202);
    let allocations = json!({"allocations": [
        {"allocationKey": "k1", "applicationID": "app-1", "resourcePerAlloc": resource("-1")},
        {"allocationKey": "k2", "applicationID": "ghost", "resourcePerAlloc": resource("1")},
        {"allocationKey": "k3", "applicationID": "app-1", "partitionName": "nope", "resourcePerAlloc": resource("1")},
        {"allocationKey": "k4", "applicationID": "app-1", "nodeID": "ghost", "resourcePerAlloc": resource("1")},
        {}
    ], "releases": {"allocationsToRelease": [{}, {"applicationID": "app-1", "allocationKey": "ghost"}]}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/allocations", &allocations).await.0, 202);
    let last = json!({"nodes": [{"nodeID": "last", "action": "CREATE"}]});
    server.send("POST", "/si/v1/rm/rm-1/nodes", &last).await;

    let mut answers = Vec::new();
    loop {
        let line = stream.next().await;
        if line["node"]["accepted"] == json!([{"nodeID": "last"}]) {
            break;
        }
        for (kind, entry) in [("node", "rejected"), ("application", "rejected"), ("allocation", "rejectedAllocations")]
        {
            let entries = line[kind][entry].as_array().into_iter().flatten();
            answers.extend(entries.map(|entry| entry["reason"].as_str().unwrap_or_default().to_owned()));
        }
    }
    answers.sort();
    let has = |text: &str| answers.iter().filter(|answer| answer.contains(text)).count();
    assert_eq!(has("nodeID is empty"), 1, "{answers:#?}");
    assert_eq!(has("has an existing node n1"), 1, "{answers:#?}");
    assert_eq!(has("failed to find partition [rm-1]nope for new node n2"), 1, "{answers:#?}");
    assert_eq!(has("node ghost in partition"), 2, "SEEDS S3: {answers:#?}");
    assert_eq!(has("no action is set for node n1"), 1, "SEEDS S3: {answers:#?}");
    assert_eq!(has("failed to find partition [rm-1]nope for node n3"), 1, "SEEDS S3: {answers:#?}");
    assert_eq!(has("application already existed"), 1, "{answers:#?}");
    assert_eq!(has("Failed to add application app-2 to partition [rm-1]nope, partition doesn't exist"), 1);
    assert_eq!(has("applicationID is empty"), 1, "{answers:#?}");
    assert_eq!(has("allocation contains negative resources"), 1, "{answers:#?}");
    assert_eq!(has("failed to find application ghost"), 1, "{answers:#?}");
    assert_eq!(has("Failed to find partition [rm-1]nope, for application app-1 and allocation k3"), 1);
    assert_eq!(has("failed to find node ghost"), 3, "{answers:#?}");
    assert_eq!(has("allocationKey is empty"), 1, "{answers:#?}");
}

#[tokio::test]
async fn registrations_and_configurations() {
    let server = Server::start(&[]);
    let register = async |body: Value| server.send("POST", "/si/v1/rm", &body).await;
    refused(register(json!({"config": CONFIG})).await, 400, None, &["rmID \"\" is empty"]);
    refused(register(json!({"rmID": "a]b"})).await, 400, None, &["a]b"]);
    refused(register(json!({"rmID": "rm-1", "buildInfo": []})).await, 400, Some("buildInfo"), &[]);
    refused(
        register(json!({"rmID": "rm-1", "extraConfig": {"rm.pauseTimeout": "5"}})).await,
        400,
        None,
        &["rm.pauseTimeout", "\"5\""],
    );
    let yaml = "partitions:\n  - name: default\n    colour: red\n    queues:\n      - name: root\n";
    let (status, body) = register(json!({"rmID": "rm-1", "config": yaml})).await;
    assert_eq!(status, 400);
    let detail = body["detail"].as_str().expect("a text");
    assert!(detail.starts_with("registration of RM failed: yaml: unmarshal errors:"), "{detail}");
    assert_eq!((&body["errors"][0]["line"], &body["field"]), (&json!(3), &json!("config")));
    assert!(body["errors"][0]["rule"].as_str().is_some_and(|rule| rule.starts_with("CFG-")), "{body}");
    assert_eq!(server.get("/si/v1/rm/rm-1").await.0, 404, "nothing is left of it");
    refused(
        server.send("POST", "/si/v1/rm?predicates=maybe", &json!({"rmID": "rm-1"})).await,
        400,
        Some("predicates"),
        &["maybe"],
    );
    refused(server.send("POST", "/si/v1/rm?colour=red", &json!({"rmID": "rm-1"})).await, 400, Some("colour"), &["red"]);

    server.register("rm-1", &[]).await;
    let put = async |body: Value| server.send("PUT", "/si/v1/rm/rm-1/configuration", &body).await;
    let (status, body) = put(json!({"config": yaml, "extraConfig": {"log.level": "debug"}})).await;
    assert_eq!(status, 400);
    assert!(
        body["detail"].as_str().is_some_and(|detail| detail.starts_with("update of configuration failed: ")),
        "{body}"
    );
    refused(put(json!({"rmID": "rm-2", "config": CONFIG})).await, 400, Some("rmID"), &["rm-2"]);
    assert_eq!(put(json!({"config": CONFIG.replace("default", "other")})).await, (200, json!({})));
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["partitions"], json!(["[rm-1]other"]));
}

#[tokio::test]
async fn bodies_that_are_too_large() {
    let server = Server::start(&["--http-max-body-bytes", "500"]);
    server.register("rm-1", &[]).await;
    let body = json!({"nodes": [{"nodeID": "n".repeat(600)}]});
    let answer = server.send("POST", "/si/v1/rm/rm-1/nodes", &body).await;
    refused(answer, 413, None, &["500 bytes", "http.maxBodyBytes"]);
    server.nodes(&["n1"]).await;
}

#[tokio::test]
async fn streams_and_paths() {
    let server = Server::registered(&[]).await;
    refused(server.get("/si/v1/rm/rm-1/stream?after=x").await, 400, Some("after"), &["after=x"]);
    refused(server.get("/si/v1/rm/rm-1/stream?after=-1").await, 400, Some("after"), &["after=-1"]);
    refused(server.get("/si/v1/rm/rm-1/stream?since=1").await, 400, Some("since"), &["since=1", "after"]);
    refused(server.get("/si/v1/rm/rm-1/stream?after=1").await, 400, None, &["after=1", "0"]);
    refused(server.get("/si/v1/rm/rm-1/ws").await, 400, Some("Upgrade"), &["WebSocket"]);
    let wrong = server.http.delete(server.url("/si/v1/rm/rm-1/nodes")).send().await.expect("an answer");
    assert_eq!(wrong.status(), 405);
    assert_eq!(wrong.headers()["allow"], "POST");
    assert_eq!(server.get("/si/v1/nothing").await.0, 404);
}
