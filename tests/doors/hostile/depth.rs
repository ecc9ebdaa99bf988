//! Queues below queues: as deep as allowed everything that walks the tree answers; deeper nothing gets in.

use serde_json::{Value, json};

use crate::shim::server::Server;

const RULES: &str = "partitions:\n  - name: default\n    placementrules:\n      - name: provided\n        create: true\n    queues:\n      - name: root\n        submitacl: '*'\n        parent: true\n        childtemplate: {maxapplications: 3, resources: {max: {memory: 100}}}\n";

fn path(levels: usize) -> String {
    format!("root{}", ".q".repeat(levels - 1))
}

async fn submit(server: &Server, id: &str, queue: &str) {
    let app = json!({"applicationID": id, "queueName": queue, "ugi": {"user": "u", "groups": ["g"]}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [app]})).await.0, 202);
}

/// Levels of a tree of queues, from its top down the first child.
fn levels(queue: &Value) -> usize {
    1 + queue["children"].get(0).map_or(0, levels)
}

#[tokio::test]
async fn the_deepest_queue_is_shown_by_everything_that_walks_the_tree() {
    let server = Server::start(&[]);
    let body = json!({"rmID": "rm-1", "config": RULES});
    assert_eq!(server.send("POST", "/si/v1/rm", &body).await.0, 200);
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    submit(&server, "deep", &path(64)).await;
    let ask = |key: &str| json!({"allocationKey": key, "applicationID": "deep", "resourcePerAlloc": {"resources": {"memory": {"value": 60}}}});
    let asks = json!({"allocations": [ask("k1"), ask("k2")]});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/allocations", &asks).await.0, 202);
    loop {
        if stream.next().await["allocation"]["new"][0]["allocationKey"] == "k1" {
            break;
        }
    }
    let (status, tree) = server.get("/ws/v1/partition/default/queues").await;
    assert_eq!((status, levels(&tree)), (200, 64));
    let (_, tree) = server.get(&format!("/ws/v1/partition/default/queue/{}?subtree", path(2))).await;
    assert_eq!(levels(&tree), 63);
    for path in [
        "/debug/fullstatedump",
        "/ws/v1/partition/default/usage/users",
        "/ws/v1/partition/default/usage/groups",
        "/ws/v1/metrics",
        "/ws/v1/config",
        "/api/v1/overview",
        "/api/v1/partition/default/applications",
        "/api/v1/partition/default/application/deep/explain",
        "/api/v1/partition/default/demand",
        "/ws/v1/scheduler/healthcheck",
    ] {
        let (status, text) = server.get(path).await;
        assert_eq!(status, 200, "{path}: {text}");
    }
    // And everything that changes it.
    let plan = server.send_text("POST", "/api/v1/plan", &RULES.replace("100", "50"), "application/yaml").await;
    assert_eq!(plan.0, 200, "{}", plan.1);
    let config = json!({"config": RULES.replace("100", "50")});
    assert_eq!(server.send("PUT", "/si/v1/rm/rm-1/configuration", &config).await.0, 200);
    assert_eq!(server.delete("/si/v1/rm/rm-1").await.0, 200);
}

#[tokio::test]
async fn deeper_queues_are_refused_with_the_limit() {
    let server = Server::start(&[]);
    let body = json!({"rmID": "rm-1", "config": RULES});
    assert_eq!(server.send("POST", "/si/v1/rm", &body).await.0, 200);
    let mut stream = server.stream("?after=0").await;
    for levels in [65, 971, 20_000] {
        submit(&server, "deep", &path(levels)).await;
        let line = stream.told().await;
        assert_eq!(
            line["application"]["rejected"][0]["reason"],
            format!(
                "failed to place application deep: a queue path of {levels} levels is too deep: at most 64, root included, \
                 are allowed"
            )
        );
    }
    assert_eq!(levels(&server.get("/ws/v1/partition/default/queues").await.1), 1, "no part of it was made");
    // By the configuration neither: an update, a plan and the validation say the same.
    let nested = |levels: usize| {
        let (open, close) = ("[{name: q, queues: ".repeat(levels - 2), "}]".repeat(levels - 2));
        format!("partitions: [{{name: default, queues: {open}[{{name: q}}]{close}}}]")
    };
    let text = "a queue path of 65 levels is too deep: at most 64, root included, are allowed";
    let config = json!({"config": nested(65)});
    let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &config).await;
    assert_eq!((status, &body["detail"]), (400, &json!(format!("update of configuration failed: {text}"))));
    assert!(body["errors"][0]["message"].as_str().is_some_and(|message| message.starts_with(text)), "{body}");
    let (status, body) = server.send_text("POST", "/api/v1/plan", &nested(65), "application/yaml").await;
    assert_eq!((status, &body["detail"]), (400, &json!(format!("update of configuration failed: {text}"))));
    let (_, body) = server.send_text("POST", "/ws/v1/validate-conf", &nested(65), "application/yaml").await;
    assert_eq!(body, json!({"allowed": false, "reason": text}));
    let (_, body) = server.send_text("POST", "/ws/v1/validate-conf", &nested(64), "application/yaml").await;
    assert_eq!(body["allowed"], true, "{body}");
}
