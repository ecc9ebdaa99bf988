//! Every request of the captured error run (REST section 8), sent again.

use std::{collections::BTreeMap, io::Read as _};

use callboard::{
    domain::{
        command::{Command, NodeAction, NodeItem},
        resources::Resource,
        sorted::Texts,
    },
    messages::partition::Commands,
};
use flate2::read::GzDecoder;
use serde::Deserialize;

use super::{cluster, server::Server};

pub const REQUESTS: &str = include_str!("../../fixtures/rest/requests.jsonl");

#[derive(Deserialize)]
pub struct Captured {
    pub method: String,
    pub path: String,
    pub status: u16,
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

/// Where Callboard answers otherwise, and why.
fn differs(path: &str) -> Option<u16> {
    match path {
        // Usage belongs to the partition in the path (SEEDS S22).
        path if path.starts_with("/ws/v1/partition/nope/usage/") => Some(404),
        // Both names of a partition are accepted.
        "/ws/v1/partition/%5Bmycluster%5Ddefault/queues" => Some(200),
        _ => None,
    }
}

/// The statuses that an error lists are in no particular order.
fn sorted(text: &str) -> String {
    const LEAD: &str = "Only following active statuses are allowed: ";
    let mut parts = text.split(LEAD);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find('"').unwrap_or(part.len());
        let mut statuses: Vec<&str> = part[..end].split(',').collect();
        statuses.sort_unstable();
        out += &format!("{LEAD}{}{}", statuses.join(","), &part[end..]);
    }
    out
}

#[actix::test]
async fn all_of_them() {
    let server = cluster::start().await;
    let mut seen = 0;
    for line in REQUESTS.lines() {
        let captured: Captured = serde_json::from_str(line).unwrap();
        check(&server, &captured).await;
        seen += 1;
    }
    assert_eq!(seen, 118);
    server.stop().await;
}

async fn check(server: &Server, captured: &Captured) {
    let Captured { method, path, status, headers, body } = captured;
    let answer = server.request(method, path, &[], "").await;
    let name = format!("{method} {path}");
    if let Some(other) = differs(path) {
        assert_eq!(answer.status, other, "{name}");
        return;
    }
    assert_eq!(answer.status, *status, "{name}: {}", answer.text());
    if let Some(body) = body {
        assert_eq!(sorted(answer.text()), sorted(body), "{name}");
    }
    let mut ours = answer.headers.clone();
    for transport in ["date", "connection", "transfer-encoding"] {
        ours.remove(transport);
    }
    if method == "OPTIONS" {
        // Preflights succeed (REST quirk M).
        ours.retain(|name, _| !name.starts_with("access-control-"));
    }
    let mut theirs = headers.clone();
    if method == "POST" {
        // Pages of other origins read what is asked with GET only.
        theirs.retain(|name, _| !name.starts_with("access-control-"));
    }
    theirs.remove("connection");
    if !theirs.contains_key("content-length") {
        ours.remove("content-length");
    }
    assert_eq!(ours, theirs, "{name}");
}

/// With more than 1,000 rows an answer is made on another thread.
#[actix::test]
async fn many_rows_change_no_refusal() {
    const MORE: usize = 1200;
    let server = cluster::start().await;
    let path = "/ws/v1/partition/default/nodes";
    let few = server.get(path).await.json().as_array().unwrap().len();
    let node = |number: usize| NodeItem {
        id: format!("z-{number:04}").into(),
        action: NodeAction::CreateDrain,
        capacity: Some(Resource::of(&[("memory", 1)])),
        attributes: Texts::default(),
    };
    let partition = &server.state.listing().partitions[0];
    let more = vec![Command::Nodes((0..MORE).map(node).collect())];
    partition.addr.send(Commands::of(1, more)).await.unwrap();
    // They enter in small parts.
    let all = async {
        loop {
            let nodes = server.get(path).await.json();
            if nodes.as_array().unwrap().len() == few + MORE {
                break nodes;
            }
        }
    };
    let nodes = tokio::time::timeout(std::time::Duration::from_secs(60), all).await.expect("all of them");
    let ids: Vec<&str> = nodes.as_array().unwrap().iter().map(|node| node["nodeID"].as_str().unwrap()).collect();
    assert!(ids.is_sorted());
    // REST 1.4
    let compressed = server.request("GET", path, &["Accept-Encoding: gzip"], "").await;
    assert_eq!(compressed.headers["content-encoding"], "gzip");
    let mut text = String::new();
    GzDecoder::new(&compressed.body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), nodes);
    for line in REQUESTS.lines() {
        let captured: Captured = serde_json::from_str(line).unwrap();
        if captured.status >= 400 {
            check(&server, &captured).await;
        }
    }
    server.stop().await;
}

#[actix::test]
async fn rows_of_the_table() {
    // REST section 8, where the captured run has no request of its own.
    let server = cluster::start().await;
    let message = async |path: &str| {
        let answer = server.get(path).await;
        (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    let row = |status: u16, text: &str| (status, text.to_owned());
    // Row 16: neither a rejected nor an unknown application; row 17: no second unescaping of nodes.
    let p = "/ws/v1/partition/default";
    assert_eq!(message(&format!("{p}/application/app-rejected")).await, row(404, "Application not found"));
    assert_eq!(message(&format!("{p}/node/node%252D1")).await, row(404, "Node not found"));
    assert_eq!(server.get(&format!("{p}/node/node%2D1")).await.status, 200);
    // Row 26, SEEDS S22.
    for usage in ["users", "user/alice", "groups", "group/dev"] {
        let path = format!("/ws/v1/partition/nope/usage/{usage}");
        assert_eq!(message(&path).await, row(404, "Partition not found"));
    }
    // Row 33: a start beyond the end.
    let page = server.get("/ws/v1/events/batch?start=5").await;
    assert_eq!((page.status, page.json()["EventRecords"].clone()), (200, serde_json::Value::Null));
    // Row 2 on a route with a state, and route 15 without a queue.
    assert_eq!(message("/ws/v1/partition//applications/active").await, row(404, "Partition not found"));
    let app = server.get(&format!("{p}/queue//application/app-new")).await;
    assert_eq!(app.json()["applicationID"], "app-new");
    // REST 1.2: an empty name is one that no queue has.
    assert_eq!(message(&format!("{p}/queue//applications")).await, row(404, "Queue not found"));
    assert_eq!(message(&format!("{p}/queue/root..a/applications")).await.0, 400);
    // Section 4, route 10: `subtree` counts by its presence; route 9: the partition is named on the root only.
    let single = server.get(&format!("{p}/queue/root")).await.json();
    assert!(single.get("children").is_none() && single["childNames"].is_array());
    assert_eq!(single["partition"], "");
    let tree = server.get(&format!("{p}/queues")).await.json();
    assert_eq!((&tree["partition"], &tree["children"][0]["partition"]), (&"default".into(), &"".into()));
    server.stop().await;
}
