//! A cluster in which something waits for each of the usual reasons.

use serde_json::json;

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

/// Eight nodes of 8 GiB and four cores; `full`, `second`, `eve`, `huge` and `gang` wait for something, `calm` for nothing.
pub async fn busy(server: &mut Server) {
    server.register(CONFIG).await;
    server.nodes((0..8).map(|n| node(&format!("node-{n}"), [8 * GIB, 4000])).collect()).await;
    server.app("full", "root.prod.web", "alice", json!({})).await;
    server.asks("full", "a", 10, [2 * GIB, 1000], json!({})).await;
    for app in ["first", "second"] {
        server.app(app, "root.prod.batch", "bob", json!({})).await;
    }
    server.app("calm", "root.spare", "carol", json!({})).await;
    server.asks("calm", "a", 1, [GIB, 500], json!({})).await;
    server.app("eve", "root.science", "eve", json!({})).await;
    server.asks("eve", "a", 4, [2 * GIB, 1000], json!({})).await;
    server.app("huge", "root.spare", "dan", json!({})).await;
    server.asks("huge", "a", 2, [100 * GIB, 1000], json!({})).await;
    gang(server, "gang", 30).await;
}

/// A gang of placeholders of 4 GiB, with one real ask.
pub async fn gang(server: &Server, id: &str, members: i64) {
    let whole = resource([members * 4 * GIB, members * 100]);
    server.app(id, "root.spare", "frank", json!({"placeholderAsk": whole})).await;
    let group = json!({"placeholder": true, "taskGroupName": "ranks"});
    server.asks(id, "p", usize::try_from(members).unwrap(), [4 * GIB, 100], group).await;
    server.asks(id, "r", 1, [4 * GIB, 100], json!({"taskGroupName": "ranks"})).await;
}
