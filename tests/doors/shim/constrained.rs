//! A shim whose pods constrain each other, on a real server: every placement is checked against those before it.

use std::{collections::BTreeMap, time::Instant};

use serde_json::{Value, json};

use crate::shim::{
    server::Server,
    ws::{Socket, line, open, send},
};

const QUEUES: &str = "queues: [{name: root, submitacl: '*', queues: [{name: a}]}]";

/// Whether a pod fits on a node where others are, by pod and node.
type Fits = fn(&BTreeMap<String, String>, &str, &str) -> bool;

struct Shim {
    server: Server,
    socket: Socket,
    fits: Fits,
    /// Where pods are, as far as lines were handled.
    pods: BTreeMap<String, String>,
    calls: usize,
    pairs: usize,
}

/// A node is named by its number.
fn number(node: &str) -> usize {
    node[1..].parse().expect("a number")
}

impl Shim {
    async fn new(partitions: &[&str], asked: &str, extra: Value, fits: Fits) -> Shim {
        let server = Server::start(&[]);
        let part = |name: &&str| format!("  - name: {name}\n    {QUEUES}\n");
        let config = format!("partitions:\n{}", partitions.iter().map(part).collect::<String>());
        let body = json!({"rmID": "rm-1", "config": config, "extraConfig": extra});
        let (status, told) = server.send("POST", &format!("/si/v1/rm?predicates={asked}"), &body).await;
        assert_eq!(status, 200, "{told}");
        let socket = open(&server, "").await;
        Shim { server, socket, fits, pods: BTreeMap::new(), calls: 0, pairs: 0 }
    }

    /// Nodes `n0`, `n1` … of the partitions in turn, and an application in each of them.
    async fn set_up(&mut self, partitions: &[&str], nodes: usize, room: usize) {
        let node = |n: usize| {
            json!({"nodeID": format!("n{n}"), "action": "CREATE",
                "attributes": {"si/node-partition": partitions[n % partitions.len()]},
                "schedulableResource": {"resources": {"memory": {"value": room.to_string()}}}})
        };
        let app = |name: &&str| {
            json!({"applicationID": format!("app-{name}"), "queueName": "root.a", "partitionName": name,
                "ugi": {"user": "u"}})
        };
        send(&mut self.socket, json!({"nodes": {"nodes": (0..nodes).map(node).collect::<Vec<_>>()}})).await;
        send(&mut self.socket, json!({"applications": {"new": partitions.iter().map(app).collect::<Vec<_>>()}})).await;
    }

    async fn ask(&mut self, asks: &[(String, &str)]) {
        let ask = |(key, partition): &(String, &str)| {
            json!({"allocationKey": key, "applicationID": format!("app-{partition}"), "partitionName": partition,
                "resourcePerAlloc": {"resources": {"memory": {"value": "1"}}}})
        };
        send(&mut self.socket, json!({"allocations": {"allocations": asks.iter().map(ask).collect::<Vec<_>>()}})).await;
    }

    async fn release(&mut self, key: &str, partition: &str) {
        self.pods.remove(key);
        let release = json!({"allocationKey": key, "applicationID": format!("app-{partition}"),
            "partitionName": partition, "terminationType": "STOPPED_BY_RM"});
        send(&mut self.socket, json!({"allocations": {"releases": {"allocationsToRelease": [release]}}})).await;
    }

    fn word(&mut self, key: &str, node: &str) -> &'static str {
        self.pairs += 1;
        if (self.fits)(&self.pods, key, node) { "" } else { "another one is in the way" }
    }

    /// Up to the first node that fits.
    fn batch(&mut self, batch: &Value) -> Vec<&'static str> {
        let mut errors = Vec::new();
        for node in batch["nodeIDs"].as_array().expect("nodes") {
            let word = self.word(batch["allocationKey"].as_str().expect("a key"), node.as_str().expect("a node"));
            errors.push(word);
            if word.is_empty() {
                break;
            }
        }
        errors
    }

    /// Handles the next line.
    async fn handle(&mut self) {
        let line = line(&mut self.socket).await;
        let id = &line["id"];
        let answer = if let Some(asked) = line.get("predicates") {
            let word =
                self.word(asked["allocationKey"].as_str().expect("a key"), asked["nodeID"].as_str().expect("a node"));
            json!({"id": id, "success": word.is_empty(), "message": word})
        } else if let Some(batch) = line.get("predicatesBatch") {
            json!({"id": id, "errors": self.batch(batch)})
        } else if let Some(several) = line.get("predicatesSeveral") {
            let asks = several["asks"].as_array().expect("asks").clone();
            let answers: Vec<_> = asks.iter().map(|ask| json!({"errors": self.batch(ask)})).collect();
            json!({"id": id, "answers": answers})
        } else {
            assert!(line.get("error").is_none(), "{line}");
            for new in line["allocation"]["new"].as_array().into_iter().flatten() {
                let (key, node) =
                    (new["allocationKey"].as_str().expect("a key"), new["nodeID"].as_str().expect("a node"));
                assert!((self.fits)(&self.pods, key, node), "{key} on {node}: {:?}", self.pods);
                self.pods.insert(key.to_owned(), node.to_owned());
            }
            return;
        };
        self.calls += 1;
        send(&mut self.socket, json!({ "answer": answer })).await;
    }
}

/// Of 500 nodes 22 take pods; at most four of these pods are on each.
fn few_nodes(pods: &BTreeMap<String, String>, _: &str, node: &str) -> bool {
    number(node) >= 478 && pods.values().filter(|on| *on == node).count() < 4
}

#[tokio::test]
async fn eighty_constrained_asks_find_the_few_nodes_of_500_that_fit_in_few_calls() {
    // R5.27
    for asked in ["batch", "several"] {
        let mut shim = Shim::new(&["default"], asked, json!({}), few_nodes).await;
        shim.set_up(&["default"], 500, 100).await;
        let begun = Instant::now();
        let asks: Vec<_> = (0..80).map(|n| (format!("k{n}"), "default")).collect();
        shim.ask(&asks).await;
        while shim.pods.len() < 80 {
            shim.handle().await;
        }
        eprintln!("{asked}: {} calls about {} pairs in {:?}", shim.calls, shim.pairs, begun.elapsed());
        assert!(shim.calls <= 500, "{} calls", shim.calls);
    }
}

#[tokio::test]
async fn unconstrained_asks_share_calls() {
    // R5.27: one node in a hundred pairs of ask and node does not fit.
    let fits: Fits = |_, key, node| !(number(node) * 7 + number(key) * 13).is_multiple_of(100);
    let unconstrained = json!({"shim.predicates.constrained": "false"});
    let mut calls = Vec::new();
    for asked in ["true", "batch", "several"] {
        let mut shim = Shim::new(&["default"], asked, unconstrained.clone(), fits).await;
        let shown = if asked == "true" { "single" } else { asked };
        assert_eq!(shim.server.get("/si/v1/rm/rm-1").await.1["predicates"], shown);
        shim.set_up(&["default"], 50, 100).await;
        let asks: Vec<_> = (0..2_000).map(|n| (format!("k{n}"), "default")).collect();
        shim.ask(&asks).await;
        while shim.pods.len() < 2_000 {
            shim.handle().await;
        }
        calls.push(shim.calls);
    }
    eprintln!("calls one by one, several nodes, several asks: {calls:?}");
    assert!(calls[2] * 10 <= calls[0], "{calls:?}");
}

#[tokio::test]
async fn constrained_asks_of_several_partitions_take_turns() {
    // R5.27: a zone has one pod of a group, whichever partition its nodes are of.
    const ZONES: usize = 7;
    let fits: Fits = |pods, key, node| {
        let group = |key: &str| number(key) / 3 % 3;
        let others = pods.iter().filter(|(other, _)| group(other) == group(key) && *other != key);
        others.into_iter().all(|(_, on)| number(on) % ZONES != number(node) % ZONES)
    };
    let names = ["default", "second", "third"];
    for asked in ["true", "several"] {
        let mut shim = Shim::new(&names, asked, json!({}), fits).await;
        shim.set_up(&names, 42, 100).await;
        let (mut next, mut released) = (0, 0);
        // All are there from the beginning; as many as there is room for at a time are placed, and then go.
        let asks: Vec<_> = (0..120).map(|n| (format!("k{n}"), names[n % 3])).collect();
        shim.ask(&asks).await;
        while next < 100 {
            shim.handle().await;
            if shim.pods.len() == 3 * ZONES || (shim.pods.len() > 12 && shim.calls % 5 == 0) {
                let key = shim.pods.keys().nth(shim.calls % shim.pods.len()).expect("one").clone();
                shim.release(&key, names[number(&key) % 3]).await;
                released += 1;
            }
            next = released + shim.pods.len();
        }
        eprintln!("{asked}: {next} placed, {} calls", shim.calls);
    }
}
