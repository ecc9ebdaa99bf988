//! A cluster in which something waits for each of the usual reasons.

use serde_json::{Value, json};

use super::server::{Server, node, resource};

pub const GIB: i64 = 1 << 30;

const CONFIG: &str = "
partitions:
- name: default
  queues:
  - name: root
    submitacl: '*'
    queues:
    - name: prod
      parent: true
      resources: {guaranteed: {memory: 8Gi}, max: {memory: 16Gi, vcore: 8}}
      queues:
      - name: web
      - {name: batch, maxapplications: 1}
    - name: science
      limits:
      - {limit: eve, users: [eve], maxresources: {memory: 4Gi, vcore: 2}}
    - name: spare
- name: other
  queues:
  - {name: root, submitacl: '*', queues: [{name: a}]}
";

/// Eight nodes of 8 GiB and four cores; `full`, `second`, `eve`, `huge` and `gang` wait for something, `calm` for nothing. All
/// that can be placed is placed when this ends, each before the next one asks: the gang would take all the room.
pub async fn busy(server: &mut Server) {
    server.register(CONFIG).await;
    server.nodes((0..8).map(|n| node(&format!("node-{n}"), [8 * GIB, 4000])).collect()).await;
    server.app("full", "root.prod.web", "alice", json!({})).await;
    server.asks("full", "a", 10, [2 * GIB, 1000], json!({})).await;
    settled(server, "full", 8, Some("queueQuota")).await;
    for app in ["first", "second"] {
        server.app(app, "root.prod.batch", "bob", json!({})).await;
    }
    server.app("calm", "root.spare", "carol", json!({})).await;
    server.asks("calm", "a", 1, [GIB, 500], json!({})).await;
    settled(server, "calm", 1, None).await;
    server.app("eve", "root.science", "eve", json!({})).await;
    server.asks("eve", "a", 4, [2 * GIB, 1000], json!({})).await;
    settled(server, "eve", 2, Some("userQuota")).await;
    server.app("huge", "root.spare", "dan", json!({})).await;
    server.asks("huge", "a", 2, [100 * GIB, 1000], json!({})).await;
    settled(server, "huge", 0, Some("tooLarge")).await;
    gang(server, "gang", 30).await;
    // One on each node: the others have taken 2 to 4 GiB of it.
    settled(server, "gang", 8, Some("nodes")).await;
}

/// Until an application has so many allocations, and waits for this alone.
async fn settled(server: &Server, id: &str, allocations: u64, waits: Option<&str>) {
    let so = |list: &Value| {
        let mut rows = list["applications"].as_array().into_iter().flatten();
        rows.find(|row| row["applicationID"] == id)
            .is_some_and(|row| row["allocations"] == allocations && row["reason"]["code"].as_str() == waits)
    };
    server.until("/api/v1/partition/default/applications", so).await;
}

/// A gang of placeholders of 4 GiB, with one real ask.
pub async fn gang(server: &Server, id: &str, members: i64) {
    let whole = resource([members * 4 * GIB, members * 100]);
    server.app(id, "root.spare", "frank", json!({"placeholderAsk": whole})).await;
    let group = json!({"placeholder": true, "taskGroupName": "ranks"});
    server.asks(id, "p", usize::try_from(members).unwrap(), [4 * GIB, 100], group).await;
    server.asks(id, "r", 1, [4 * GIB, 100], json!({"taskGroupName": "ranks"})).await;
}
