//! Names of resource types: limited in length and in number per resource manager, and nobody else's business.

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
        assert_eq!(a.next().await["node"]["accepted"][0]["nodeID"], format!("n{chunk}"));
    }
    node(&server, "rm-a", "one-more", ["a.io/one-more".to_owned(), "a.io/two-more".to_owned()]).await;
    let reason = "resource type \"a.io/one-more\" is one more than the 1000 that a resource manager may use at a time: use \
                  one of these, or remove what uses them";
    assert_eq!(a.next().await["node"]["rejected"], json!([{"nodeID": "one-more", "reason": reason}]));
    // What is in use goes on, and another resource manager notices nothing.
    node(&server, "rm-a", "same", ["a.io/0-7".to_owned(), "nvidia.com/gpu".to_owned()]).await;
    assert_eq!(a.next().await["node"]["accepted"][0]["nodeID"], "same");
    node(&server, "rm-b", "other", ["nvidia.com/mig-1g.5gb".to_owned(), "a.io/one-more".to_owned()]).await;
    assert_eq!(b.next().await["node"]["accepted"][0]["nodeID"], "other");
    // They go with the session.
    server.register("rm-a", &[]).await;
    let mut a = Lines::of(server.http.get(server.url("/si/v1/rm/rm-a/stream")).send().await.expect("an answer"));
    node(&server, "rm-a", "again", ["a.io/one-more".to_owned()]).await;
    assert_eq!(a.next().await["node"]["accepted"][0]["nodeID"], "again");
}

#[tokio::test]
async fn names_have_at_most_253_bytes_wherever_they_come_from() {
    let server = Server::start(&[]);
    let mut lines = stream(&server, "rm-1").await;
    let long = "x".repeat(254);
    let told = format!("resource type \"{}…\" has a name of 254 bytes: at most 253 are allowed", "x".repeat(40));
    node(&server, "rm-1", "n1", [long.clone()]).await;
    assert_eq!(lines.next().await["node"]["rejected"][0]["reason"], told);
    let resource = json!({"resources": {long.clone(): {"value": 1}}});
    let app = |id: &str, ask: &Value| json!({"new": [{"applicationID": id, "queueName": "root.a", "ugi": {"user": "u"}, "placeholderAsk": ask}]});
    server.send("POST", "/si/v1/rm/rm-1/applications", &app("gang", &resource)).await;
    assert_eq!(lines.next().await["application"]["rejected"][0]["reason"], told);
    server.send("POST", "/si/v1/rm/rm-1/applications", &app("app", &Value::Null)).await;
    assert_eq!(lines.next().await["application"]["accepted"][0]["applicationID"], "app");
    let asks = json!({"allocations": [{"allocationKey": "k", "applicationID": "app", "resourcePerAlloc": resource}]});
    server.send("POST", "/si/v1/rm/rm-1/allocations", &asks).await;
    assert_eq!(lines.next().await["allocation"]["rejectedAllocations"][0]["reason"], told);
    let yaml = format!("partitions: [{{name: default, queues: [{{name: a, resources: {{max: {{{long}: 1}}}}}}]}}]");
    let (_, body) = server.send_text("POST", "/ws/v1/validate-conf", &yaml, "application/yaml").await;
    assert_eq!(body, json!({"allowed": false, "reason": told}));
}
