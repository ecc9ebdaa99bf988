//! Names of resource types: limited in length and in number per resource manager, and nobody else's business. Names of partitions:
//! none is another's.

use serde_json::{Map, Value, json};

use crate::shim::server::{Lines, Server};

async fn node(server: &Server, rm: &str, id: &str, types: impl IntoIterator<Item = String>) {
    let resources: Map<String, Value> = types.into_iter().map(|name| (name, json!({"value": 1}))).collect();
    let node = json!({"nodeID": id, "action": "CREATE", "schedulableResource": {"resources": resources}});
    let (status, body) = server.send("POST", &format!("/si/v1/rm/{rm}/nodes"), &json!({"nodes": [node]})).await;
    assert_eq!(status, 202, "{body}");
}

async fn stream(server: &Server, rm: &str) -> Lines {
    server.register(rm, &[]).await;
    Lines::of(server.http.get(server.url(&format!("/si/v1/rm/{rm}/stream"))).send().await.expect("an answer"))
}

#[tokio::test]
async fn one_tenant_may_use_a_thousand_types_and_takes_none_from_another() {
    let server = Server::start(&[]);
    let (mut a, mut b) = (stream(&server, "rm-a").await, stream(&server, "rm-b").await);
    for chunk in 0..4 {
        node(&server, "rm-a", &format!("n{chunk}"), (0..250).map(|n| format!("a.io/{chunk}-{n}"))).await;
        assert_eq!(a.told().await["node"]["accepted"][0]["nodeID"], format!("n{chunk}"));
    }
    node(&server, "rm-a", "one-more", ["a.io/one-more".to_owned(), "a.io/two-more".to_owned()]).await;
    let reason = "resource type \"a.io/one-more\" is one more than the 1000 that a resource manager may use at a time: use \
                  one of these, or remove what uses them";
    let line = a.told().await;
    assert_eq!(line["node"]["rejected"], json!([{"nodeID": "one-more", "reason": reason}]), "{line}");
    // What is in use goes on, and another resource manager notices nothing.
    node(&server, "rm-a", "same", ["a.io/0-7".to_owned(), "nvidia.com/gpu".to_owned()]).await;
    assert_eq!(a.told().await["node"]["accepted"][0]["nodeID"], "same");
    node(&server, "rm-b", "other", ["nvidia.com/mig-1g.5gb".to_owned(), "a.io/one-more".to_owned()]).await;
    assert_eq!(b.told().await["node"]["accepted"][0]["nodeID"], "other");
    // They go with the session.
    server.register("rm-a", &[]).await;
    let mut a = Lines::of(server.http.get(server.url("/si/v1/rm/rm-a/stream")).send().await.expect("an answer"));
    node(&server, "rm-a", "again", ["a.io/one-more".to_owned()]).await;
    let line = a.told().await;
    assert_eq!(line["node"]["accepted"][0]["nodeID"], "again", "{line}");
}

#[tokio::test]
async fn names_that_only_events_tell_of_make_room_for_others() {
    let server = Server::start(&[]);
    let mut lines = stream(&server, "rm-1").await;
    // The pods of one user, who makes names up.
    let app = json!({"new": [{"applicationID": "odd", "queueName": "root.a", "ugi": {"user": "u"}}]});
    server.send("POST", "/si/v1/rm/rm-1/applications", &app).await;
    let ask = |ask: usize| {
        let types: Map<String, Value> = (0..50).map(|n| (format!("odd.io/{ask}-{n}"), json!({"value": 1}))).collect();
        json!({"allocationKey": format!("k{ask}"), "applicationID": "odd", "resourcePerAlloc": {"resources": types}})
    };
    let asks: Vec<_> = (0..20).map(ask).collect();
    server.send("POST", "/si/v1/rm/rm-1/allocations", &json!({"allocations": asks})).await;
    node(&server, "rm-1", "n0", ["amd.com/gpu".to_owned()]).await;
    assert_eq!(told_of_node(&mut lines).await["rejected"][0]["nodeID"], "n0", "while they wait");
    // With all of them gone the node may come, once the partition has turned to something else.
    let gone = json!({"remove": [{"applicationID": "odd"}]});
    server.send("POST", "/si/v1/rm/rm-1/applications", &gone).await;
    for n in 1.. {
        node(&server, "rm-1", &format!("n{n}"), ["amd.com/gpu".to_owned()]).await;
        let told = told_of_node(&mut lines).await;
        if told.get("accepted").is_some() {
            break;
        }
        assert!(n < 20, "{told}");
    }
}

/// What is told of a node next.
async fn told_of_node(lines: &mut Lines) -> Value {
    loop {
        if let Some(node) = lines.told().await.get("node") {
            return node.clone();
        }
    }
}

#[tokio::test]
async fn names_have_at_most_253_bytes_wherever_they_come_from() {
    let server = Server::start(&[]);
    let mut lines = stream(&server, "rm-1").await;
    let long = "x".repeat(254);
    let told = format!("resource type \"{}…\" has a name of 254 bytes: at most 253 are allowed", "x".repeat(40));
    node(&server, "rm-1", "n1", [long.clone()]).await;
    assert_eq!(lines.told().await["node"]["rejected"][0]["reason"], told);
    let resource = json!({"resources": {long.clone(): {"value": 1}}});
    let app = |id: &str, ask: &Value| json!({"new": [{"applicationID": id, "queueName": "root.a", "ugi": {"user": "u"}, "placeholderAsk": ask}]});
    server.send("POST", "/si/v1/rm/rm-1/applications", &app("gang", &resource)).await;
    assert_eq!(lines.told().await["application"]["rejected"][0]["reason"], told);
    server.send("POST", "/si/v1/rm/rm-1/applications", &app("app", &Value::Null)).await;
    assert_eq!(lines.told().await["application"]["accepted"][0]["applicationID"], "app");
    let asks = json!({"allocations": [{"allocationKey": "k", "applicationID": "app", "resourcePerAlloc": resource}]});
    server.send("POST", "/si/v1/rm/rm-1/allocations", &asks).await;
    assert_eq!(lines.told().await["allocation"]["rejectedAllocations"][0]["reason"], told);
    let yaml = format!("partitions: [{{name: default, queues: [{{name: a, resources: {{max: {{{long}: 1}}}}}}]}}]");
    let (_, body) = server.send_text("POST", "/ws/v1/validate-conf", &yaml, "application/yaml").await;
    assert_eq!(body, json!({"allowed": false, "reason": told}));
}

#[tokio::test]
async fn no_partition_is_called_as_that_of_another_resource_manager() {
    let server = Server::start(&[]);
    let yaml = "partitions: [{name: '[rm-a]default', queues: []}]";
    let told = "invalid partition name \"[rm-a]default\"";
    let is_told = |body: &Value| assert!(body["detail"].as_str().is_some_and(|detail| detail.contains(told)), "{body}");
    let (status, body) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-b", "config": yaml})).await;
    assert_eq!(status, 400);
    is_told(&body);
    server.register("rm-b", &[]).await;
    let (status, body) = server.send("PUT", "/si/v1/rm/rm-b/configuration", &json!({"config": yaml})).await;
    assert_eq!(status, 400);
    is_told(&body);
    let (status, body) = server.send_text("POST", "/api/v1/plan", yaml, "application/yaml").await;
    assert_eq!(status, 400);
    is_told(&body);
    let (status, body) = server.send("POST", "/api/v1/whatif", &json!({"config": yaml})).await;
    assert_eq!(status, 400);
    is_told(&body);
    let (_, body) = server.send_text("POST", "/ws/v1/validate-conf", yaml, "application/yaml").await;
    assert!(body["allowed"] == false && body["reason"].as_str().is_some_and(|reason| reason.contains(told)), "{body}");
    // Nor by a file of the server.
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("queues.yaml");
    std::fs::write(&file, yaml).expect("written");
    let file = file.to_str().expect("a path");
    for args in [&["serve", "--ephemeral", "--config", file][..], &["validate", file]] {
        let refused = crate::access::rig::program(args).output().expect("runs");
        let text = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
        assert!(!refused.status.success() && text.contains(told), "{args:?}: {text}");
    }
}

// What is kept of a registration, logged, and shown to everybody who asks for all of them.
#[tokio::test]
async fn texts_of_a_registration_have_a_length_and_errors_too() {
    let server = Server::start(&[]);
    let long = "x".repeat(1_025);
    let info: Map<String, Value> = (0..17).map(|n| (n.to_string(), json!("y".repeat(1_000)))).collect();
    for (field, body) in [
        ("version", json!({"rmID": "rm-1", "version": long})),
        ("policyGroup", json!({"rmID": "rm-1", "policyGroup": long})),
        ("buildInfo", json!({"rmID": "rm-1", "buildInfo": info})),
        ("rmID", json!({"rmID": "z".repeat(1 << 20)})),
    ] {
        let (status, problem) = server.send("POST", "/si/v1/rm", &body).await;
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(status == 400 && detail.starts_with(field) && detail.len() < 2_100, "{status} {detail}");
    }
    assert_eq!(server.get("/si/v1/rm").await.1, json!([]));
    server.register("rm-1", &[]).await;
    let other = json!({"rmID": "z".repeat(1 << 20), "nodes": []});
    let (status, problem) = server.send("POST", "/si/v1/rm/rm-1/nodes", &other).await;
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(status == 400 && detail.contains("bytes are left out") && detail.ends_with("\"rm-1\""), "{detail}");
}
