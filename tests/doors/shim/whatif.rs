//! `POST /api/v1/whatif` and `callboard whatif`: what a change would do, and that asking does nothing.

use std::fs;

use serde_json::{Value, json};

use crate::{
    common,
    shim::server::{CONFIG, Server, command},
    wired::rig::{application, asks},
};

/// `rm-1` with a node of 100 and an application of `u` in `root.a` that has 80 of it and waits for 80 more.
async fn busy() -> Server {
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    asks(&server, "app-1", &["k1", "k2"], 80).await;
    let mut stream = server.stream("?after=0").await;
    while stream.next().await["allocation"]["new"][0]["allocationKey"] != "k1" {}
    // A moment later it is said of the other one that it waits for a larger cluster, which is seen.
    let app = async || server.get("/ws/v1/partition/default/application/app-1").await.1;
    common::answer("the ask that waits", app, |app| app["requests"][0]["triggeredScaleUp"] == true).await;
    server
}

async fn asked(server: &Server, body: &Value) -> (u16, Value) {
    server.send("POST", "/api/v1/whatif", body).await
}

/// Everything that could show that something was touched.
async fn state(server: &Server) -> Vec<Value> {
    let mut state = Vec::new();
    for path in [
        "/ws/v1/config",
        "/ws/v1/partition/default/queues",
        "/ws/v1/partition/default/nodes",
        "/ws/v1/partition/default/applications/active",
        "/ws/v1/events/batch",
    ] {
        state.push(server.get(path).await.1);
    }
    state
}

#[tokio::test]
async fn that_the_resource_manager_is_away_is_told() {
    let server = Server::registered(&[("rm.gracePeriod", "1ms")]).await;
    server.nodes(&["n1"]).await;
    let change = json!({"nodeAdd": [{"count": 1, "like": "n1"}]});
    let told = async || asked(&server, &change).await.1;
    let away = "Besides, the resource manager is away: nothing new is placed until it is back.";
    common::answer("a pause", told, |told| told["ends"].as_str().is_some_and(|ends| ends.ends_with(away))).await;
}

#[tokio::test]
async fn a_change_is_tried_and_touches_nothing() {
    let server = busy().await;
    let before = state(&server).await;
    let (status, body) = asked(&server, &json!({"nodeAdd": [{"count": 2, "like": "n1"}], "for": "0d"})).await;
    assert_eq!(status, 200, "days are read, too: {body}");
    let (status, body) = asked(&server, &json!({"nodeAdd": [{"count": 2, "like": "n1"}], "for": "0s"})).await;
    assert_eq!((status, &body["complete"], &body["seenSeconds"]), (200, &json!(true), &json!(0.0)), "{body}");
    let whole = &body["whole"];
    assert_eq!((&whole["without"]["waiting"], &whole["with"]["waiting"]), (&json!(1), &json!(0)));
    assert_eq!(
        (&whole["without"]["used"], &whole["with"]["capacity"]),
        (&json!({"memory": 80}), &json!({"memory": 300}))
    );
    let app = &body["applications"][0];
    assert_eq!((&app["applicationID"], &app["placedOnly"]), (&json!("app-1"), &json!({"without": 0, "with": 1})));
    assert_eq!(app["firstSeconds"], json!({"without": null, "with": 0.0}));
    assert_eq!(body["queues"][1]["queueName"], "root.a");
    // A drained node takes nothing, and what comes waits with a reason; a max that is raised is told as it is written.
    let change = json!({
        "nodeDrain": ["n1"],
        "queue": [{"queue": "root.a", "set": {"max.memory": "1Ki", "maxapplications": 3}}],
        "submit": [{"queue": "root.a", "user": "v", "asks": [{"count": 2, "resource": {"memory": 10}}]}],
    });
    let (status, body) = asked(&server, &change).await;
    assert_eq!(status, 200, "{body}");
    let new = &body["applications"][0];
    assert_eq!((&new["new"], &new["waiting"]["with"], &new["user"]), (&json!(true), &json!(2), &json!("v")), "{body}");
    assert!(new["why"].as_str().is_some_and(|why| why.contains("drained")), "{new}");
    let copy = body["copy"].as_str().expect("lines");
    assert!(copy.contains("# queue root.a\nresources: {max: {memory: 1Ki}}\nmaxapplications: 3"), "{copy}");
    // SEEDS S34: what cannot be read is taken, and told.
    let policy = |value: &str| json!({"queue": [{"queue": "root.a", "set": {"properties.preemption.policy": value}}]});
    let (status, body) = asked(&server, &policy("zzz")).await;
    let told = body["warnings"][0]["message"].as_str().unwrap_or_default();
    assert!(status == 200 && told.starts_with("preemption.policy cannot be `zzz` and counts as its default"), "{body}");
    assert_eq!(asked(&server, &policy("fence")).await.1["warnings"], json!(null));
    // Another configuration, in which the queue has no room for what it has.
    let config = CONFIG.replace("- name: a", "- name: a\n            resources: {max: {memory: 10}}");
    let (status, body) = asked(&server, &json!({"config": config})).await;
    assert_eq!((status, &body["applications"]), (200, &json!([])), "{body}");
    assert_eq!(state(&server).await, before);
}

#[tokio::test]
async fn a_gang_that_would_come_is_tried_with_its_placeholders() {
    let server = Server::registered(&[]).await;
    server.nodes(&["n1", "n2"]).await;
    let gang = |count: usize| {
        json!({"submit": [{"applicationID": "gang", "queue": "root.a", "user": "v", "gang": "Hard",
        "asks": [{"count": count, "resource": {"memory": 50}}]}]})
    };
    server.until(|info| info["state"] == "Running").await;
    let (status, body) = asked(&server, &gang(4)).await;
    assert_eq!(status, 200, "{body}");
    let new = &body["applications"][0];
    assert_eq!((&new["allocations"]["with"], &new["waiting"]["with"]), (&json!(4), &json!(0)), "{body}");
    let (_, body) = asked(&server, &gang(5)).await;
    assert_ne!(body["applications"][0]["waiting"]["with"], 0, "{body}");
    assert_eq!(server.get("/ws/v1/partition/default/applications/active").await.1, json!([]));
}

#[tokio::test]
async fn bad_requests_say_what_is_wrong() {
    let server = Server::start(&[]);
    let (status, problem) = asked(&server, &json!({})).await;
    assert_eq!(status, 404, "{problem}");
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    for (body, field, told) in [
        (
            json!({"nodeAdd": [{"count": 1, "like": "n7"}]}),
            "nodeAdd",
            "node 'n7' is not registered; there are 1, such as n1",
        ),
        (
            json!({"nodeAdd": [{"count": 10_001, "like": "n1"}]}),
            "nodeAdd",
            "10001 nodes would come: at most 10000 are allowed",
        ),
        (json!({"nodeDrain": ["n[1-2]"]}), "nodeDrain", "node 'n2' is not registered; there are 1, such as n1"),
        (json!({"nodeDrain": ["n[1-"]}), "nodeDrain", "node 'n[1-' is not registered; there are 1, such as n1"),
        (json!({"for": "9d"}), "for", "for is \"9d\", but may be a duration from 0 to 168h, such as 30m or 2h"),
        (json!({"for": "-1s"}), "for", "for is \"-1s\", but may be a duration from 0 to 168h, such as 30m or 2h"),
        (json!({"queue": [{"queue": "root.x", "set": {"max.memory": 1}}]}), "queue", "queue root.x is not configured"),
        (
            json!({"queue": [{"queue": "root.a", "set": {"max": 1}}]}),
            "set",
            "max of queue root.a is none of max.TYPE, guaranteed.TYPE, maxapplications and properties.NAME",
        ),
        (
            json!({"queue": [{"queue": "root.a", "set": {"max.memory": "lots"}}]}),
            "max.memory",
            "memory is \"lots\": invalid quantity; write it as in a configuration, such as 4Gi or 500m",
        ),
        (
            json!({"queue": [{"queue": "root.a", "set": {"properties.x": true}}]}),
            "queue[0].set.properties.x",
            "queue[0].set.properties.x: a value may be a number from 0 on, or a text such as 4Gi (value: true)",
        ),
        (
            json!({"submit": [{"asks": [{"count": 100_001, "resource": {"memory": 1}}]}]}),
            "submit",
            "100001 asks would come: at most 100000 are allowed",
        ),
        (
            json!({"submit": [{"asks": [{"resource": {}}]}]}),
            "resource",
            "an ask names 0 resource types: 1 to 100 are allowed",
        ),
    ] {
        let (status, problem) = asked(&server, &body).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert_eq!((status, &problem["field"], detail), (400, &json!(field), told), "{body}");
    }
    let (status, problem) = asked(&server, &json!({"nodes": 1})).await;
    assert!(status == 400 && problem["detail"].as_str().is_some_and(|text| text.contains("nodes")), "{problem}");
    let (status, problem) = asked(&server, &json!({"config": "partitions: [{queues: [{name: a b}]}]"})).await;
    assert_eq!((status, &problem["errors"][0]["rule"]), (400, &json!("CFG-020")), "{problem}");
    // What the partition refuses is part of the answer.
    let (status, body) =
        asked(&server, &json!({"submit": [{"applicationID": "x", "queue": "root.none", "asks": []}]})).await;
    assert_eq!((status, &body["refused"][0]["what"]), (200, &json!("x")), "{body}");
    // Not each of its asks once more.
    let asks = json!([{"count": 3, "resource": {"memory": 1}}]);
    let (_, body) =
        asked(&server, &json!({"submit": [{"applicationID": "x", "queue": "root.none", "asks": asks}]})).await;
    assert_eq!(body["refused"].as_array().map(Vec::len), Some(1), "{body}");
    assert_eq!(server.send("POST", "/api/v1/whatif?partition=none", &json!({})).await.0, 404);
    assert_eq!(server.get("/api/v1/whatif").await.0, 405);
}

#[tokio::test]
async fn the_command_prints_what_would_be() {
    let server = busy().await;
    let run = |more: &[&str]| {
        let url = server.url("");
        let output = command(&[&["whatif", "--server", &url], more].concat()).output().expect("runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().expect("it ended by itself"), text(&output.stdout), text(&output.stderr))
    };
    let (status, out, err) = run(&["--node-add", "1:like=n1", "--for", "0s"]);
    let table = "\
Partition default, 0s ahead. Allocations are taken to go on: too little is known of how long such ones last.

                WITHOUT       WITH
allocations           1          2
asks that wait        1          0
asks placed           0          1
preempted             0          0
memory used     80 B of 100 B  160 B of 200 B
";
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed(&out).starts_with(&squeezed(table)) && err.is_empty() && status == 0, "{status}\n{out}{err}");
    assert!(squeezed(&out).contains("app-1 root.a u 1 → 2 1 → 0 0 1 more placed"), "{out}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), "nodeDrain: [n1]\nsubmit: [{queue: root.a, user: v, asks: [{resource: {memory: 10}}]}]\n")
        .expect("written");
    let (status, out, _) = run(&[&file.path().display().to_string(), "-o", "json"]);
    let answer: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, &answer["applications"][0]["new"]), (0, &json!(true)));
    // An application without an owner is refused, as it would be.
    fs::write(file.path(), "{queue: root.a, asks: []}").expect("written");
    let (status, out, _) = run(&["--submit", &file.path().display().to_string()]);
    assert!(status == 1 && out.starts_with("refused: (new application 1): "), "{status} {out}");
    let (status, out, err) = run(&[]);
    assert!(status == 2 && out.is_empty() && err.starts_with("callboard: no change is named: give a FILE"), "{err}");
    let (status, _, err) = run(&["--node-drain", "n9"]);
    assert_eq!((status, err.as_str()), (1, "callboard: node 'n9' is not registered; there are 1, such as n1\n"));
}
