//! Configurations that change on the running server: refused ones, equal ones, partitions that go and return.

use serde_json::{Value, json};

use crate::shim::server::{CONFIG, Lines, Server};

const TWO: &str =
    "  - name: two\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: b\n";

async fn update(server: &Server, config: &str, extra: Value) -> (u16, Value) {
    let body = json!({"rmID": "rm-1", "config": config, "extraConfig": extra});
    server.send("PUT", "/si/v1/rm/rm-1/configuration", &body).await
}

async fn text(server: &Server, path: &str) -> String {
    let answer = reqwest::get(server.url(path)).await.expect("an answer");
    answer.text().await.expect("text")
}

async fn events(server: &Server) -> Vec<Value> {
    let (status, body) = server.get("/ws/v1/events/batch").await;
    assert_eq!(status, 200, "{body}");
    body["EventRecords"].as_array().cloned().unwrap_or_default()
}

/// The next callback of this kind.
async fn next(stream: &mut Lines, kind: &str) -> Value {
    loop {
        let line = stream.next().await;
        if line[kind].is_object() {
            return line[kind].clone();
        }
    }
}

#[tokio::test]
async fn a_refused_configuration_changes_not_a_byte() {
    // CFG-097, SEEDS S23
    let server = Server::registered(&[("log.level", "WARN"), ("event.maxStreams", "7")]).await;
    let shown = ["/ws/v1/config", "/ws/v1/partition/default/queues", "/ws/v1/partition/default/placementrules"];
    let mut before = Vec::new();
    for path in shown {
        before.push(text(&server, path).await);
    }
    let count = events(&server).await.len();
    for (config, detail) in [
        ("partitions: [", "yaml: "),
        ("partitions: [{queues: [], colour: 1}]", "field colour not found"),
        (
            "partitions: [{queues: [{name: root, queues: [{name: n, submitacl: 'a  b'}]}]}]",
            "multiple spaces found in ACL",
        ),
        (
            "partitions: [{queues: []}, {name: x, queues: [], placementrules: [{name: nosuch}]}]",
            "unknown rule name specified nosuch",
        ),
        (
            "partitions: [{queues: [{name: n, parent: true, childtemplate: {resources: {max: {memory: x}}}}]}]",
            "invalid quantity",
        ),
    ] {
        let (status, problem) =
            update(&server, config, json!({"log.level": "DEBUG", "event.trackingEnabled": "false"})).await;
        let told = problem["detail"].as_str().unwrap_or_default();
        assert!(
            status == 400 && told.starts_with("update of configuration failed: ") && told.contains(detail),
            "{problem}"
        );
        assert!(problem["errors"][0]["line"].is_u64() && problem["errors"][0]["rule"].is_string(), "{problem}");
        for (path, before) in shown.iter().zip(&before) {
            assert_eq!(&text(&server, path).await, before, "{path} after {config}");
        }
    }
    assert_eq!(events(&server).await.len(), count);
    // A good one after that counts.
    assert_eq!(update(&server, &format!("{CONFIG}          - name: b\n"), json!({})).await.0, 200);
    assert_ne!(text(&server, shown[0]).await, before[0]);
}

#[tokio::test]
async fn an_equal_configuration_leaves_queues_alone_and_its_settings_count() {
    // CFG-092, CFG-093
    let server = Server::registered(&[]).await;
    let before = (text(&server, "/ws/v1/partition/default/queues").await, events(&server).await);
    assert_eq!(update(&server, CONFIG, json!({"event.maxStreams": "3", "my.own": "x"})).await, (200, json!({})));
    assert_eq!((text(&server, "/ws/v1/partition/default/queues").await, events(&server).await), before);
    let config = text(&server, "/ws/v1/config").await;
    assert!(config.contains("event.maxStreams: \"3\"") && config.contains("my.own: x"), "{config}");
    assert_eq!(update(&server, CONFIG, json!({"event.trackingEnabled": "false"})).await.0, 200);
    server.nodes(&["n1"]).await;
    let mut stream = server.stream("?after=0").await;
    next(&mut stream, "node").await;
    assert_eq!(events(&server).await, before.1, "tracking is off, and what was recorded stays (SEEDS S16)");
}

#[tokio::test]
async fn settings_count_from_the_first_event_on() {
    // CFG-092: before the partitions are made.
    let server = Server::registered(&[("event.trackingEnabled", "false")]).await;
    assert_eq!(events(&server).await, Vec::<Value>::new());
    // The same in an update: turned on, its own changes are recorded; turned off, they are not.
    assert_eq!(update(&server, &format!("{CONFIG}          - name: b\n"), json!({})).await.0, 200);
    let seen = events(&server).await;
    assert_eq!((seen.len(), &seen[0]["objectID"]), (1, &json!("root.b")), "{seen:?}");
    let off = json!({"event.trackingEnabled": "false"});
    assert_eq!(update(&server, &format!("{CONFIG}          - name: c\n"), off).await.0, 200);
    assert_eq!(events(&server).await, seen);
    assert_eq!(server.get("/ws/v1/partition/default/queue/root.c").await.0, 200);
}

/// A node, an application and an ask of `memory` in a partition.
async fn work(server: &Server, partition: &str, queue: &str, app: &str, asks: usize) {
    let node = json!({"nodeID": format!("node-{app}"), "action": "CREATE", "attributes": {"si/node-partition": partition},
        "schedulableResource": {"resources": {"memory": {"value": asks}}}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/nodes", &json!({"nodes": [node]})).await.0, 202);
    let new = json!({"applicationID": app, "queueName": queue, "partitionName": partition, "ugi": {"user": "u", "groups": ["g"]}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [new]})).await.0, 202);
    let ask = |n: usize| {
        json!({"allocationKey": format!("{app}-{n}"), "applicationID": app, "partitionName": partition,
            "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}})
    };
    let asks = json!({"allocations": (0..asks).map(ask).collect::<Vec<_>>()});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/allocations", &asks).await.0, 202);
}

async fn placed(stream: &mut Lines, count: usize) {
    let mut seen = 0;
    while seen < count {
        seen += next(stream, "allocation").await["new"].as_array().map_or(0, Vec::len);
    }
}

#[tokio::test]
async fn a_partition_goes_and_returns() {
    // CFG-095, R1.14
    let server = Server::start(&[]);
    let both = format!("{CONFIG}{TWO}");
    let body = json!({"rmID": "rm-1", "config": both});
    assert_eq!(server.send("POST", "/si/v1/rm", &body).await.0, 200);
    let mut stream = server.stream("?after=0").await;
    work(&server, "default", "root.a", "stays", 3).await;
    placed(&mut stream, 3).await;
    work(&server, "two", "root.b", "goes", 1000).await;
    placed(&mut stream, 1000).await;

    let (status, answer) = update(&server, CONFIG, json!({})).await;
    let text = answer["warnings"][0]["message"].as_str().unwrap_or_default();
    assert_eq!((status, answer["warnings"].as_array().map(Vec::len)), (200, Some(1)), "{answer}");
    assert!(text.starts_with("application goes ") && text.ends_with(": its partition would be removed"), "{answer}");
    let told = next(&mut stream, "application").await;
    let states: Vec<_> = told["updated"]
        .as_array()
        .expect("updates")
        .iter()
        .map(|u| (&u["applicationID"], &u["state"], &u["message"]))
        .collect();
    let (app, why) = (json!("goes"), json!("PartitionRemoved"));
    assert_eq!(states, [(&app, &json!("Failing"), &why), (&app, &json!("Failed"), &why)]);
    let names = |partitions: &Value| {
        partitions.as_array().map(|list| list.iter().map(|p| p["name"].clone()).collect::<Vec<_>>())
    };
    assert_eq!(names(&server.get("/ws/v1/partitions").await.1), Some(vec![json!("default")]));
    let gone = reqwest::get(server.url("/ws/v1/partition/two/nodes")).await.expect("an answer");
    assert_eq!(gone.status(), 404);
    // The other one did not notice.
    let (_, app) = server.get("/ws/v1/partition/default/queue/root.a/application/stays").await;
    assert_eq!(
        (&app["applicationState"], app["allocations"].as_array().map(Vec::len)),
        (&json!("Running"), Some(3)),
        "{app}"
    );
    // Nothing is taken for it.
    let new = json!({"applicationID": "late", "queueName": "root.b", "partitionName": "two", "ugi": {"user": "u", "groups": ["g"]}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [new]})).await.0, 202);
    let told = next(&mut stream, "application").await;
    assert!(
        told["rejected"][0]["reason"].as_str().is_some_and(|why| why.contains("partition doesn't exist")),
        "{told}"
    );

    // It comes back empty, and works.
    assert_eq!(update(&server, &both, json!({})).await.0, 200);
    let (status, nodes) = server.get("/ws/v1/partition/two/nodes").await;
    assert_eq!((status, nodes), (200, json!([])));
    work(&server, "two", "root.b", "goes", 5).await;
    placed(&mut stream, 5).await;
    let (_, app) = server.get("/ws/v1/partition/two/queue/root.b/application/goes").await;
    assert_eq!(app["applicationState"], "Running", "{app}");
    // All of them may go; the resource manager stays registered.
    assert_eq!(update(&server, "# none", json!({})).await.0, 200);
    assert_eq!(server.get("/ws/v1/partitions").await.1, json!([]));
    assert_eq!(server.get("/si/v1/rm/rm-1").await.1["state"], "Running");
    assert_eq!(update(&server, CONFIG, json!({})).await.0, 200);
    assert_eq!(server.get("/ws/v1/partition/default/queue/root.a").await.0, 200);
}
