//! A server of its own for each test, and what a shim does with it.

use futures::StreamExt as _;
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize as _;
use serde_json::{Value, json};

pub use crate::common::{LIMIT, command};
use crate::common::{Program, answer};

/// A running server, and a client for it.
pub struct Server {
    pub program: Program,
    pub http: Client,
}

/// The lines of a stream.
pub struct Lines {
    response: Response,
    rest: Vec<u8>,
}

/// One queue with room for everything.
pub const CONFIG: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: a\n";

impl Server {
    pub fn start(args: &[&str]) -> Server {
        Server { program: Program::start(args), http: Client::new() }
    }

    /// With `rm-1` registered.
    pub async fn registered(extra: &[(&str, &str)]) -> Server {
        let server = Server::start(&[]);
        server.register("rm-1", extra).await;
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.program.address("http"))
    }

    pub fn grpc(&self) -> String {
        self.program.address("grpc")
    }

    pub async fn register(&self, rm: &str, extra: &[(&str, &str)]) {
        // On a busy machine a test opens its stream late, and one that opens none takes its time.
        let mut all = json!({"rm.gracePeriod": "10m"});
        extra.iter().for_each(|(key, value)| all[*key] = json!(value));
        let extra = all;
        let body = json!({"rmID": rm, "config": CONFIG, "extraConfig": extra});
        let (status, body) = self.send("POST", "/si/v1/rm", &body).await;
        assert_eq!(status, 200, "{body}");
    }

    /// Sends a JSON body and gives status and JSON answer.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send_text(method, path, &body.to_string(), "application/json").await
    }

    pub async fn send_text(&self, method: &str, path: &str, body: &str, kind: &str) -> (u16, Value) {
        let request = self.http.request(method.parse().expect("a method"), self.url(path));
        let response = request.header("content-type", kind).body(body.to_owned()).timeout(LIMIT).send().await;
        read(response.expect("an answer")).await
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        read(self.http.get(self.url(path)).timeout(LIMIT).send().await.expect("an answer")).await
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        read(self.http.delete(self.url(path)).timeout(LIMIT).send().await.expect("an answer")).await
    }

    /// Creates nodes; answered on the stream.
    pub async fn nodes(&self, ids: &[&str]) {
        let node = |id: &&str| json!({"nodeID": id, "action": "CREATE", "schedulableResource": {"resources": {"memory": {"value": "100"}}}});
        let body = json!({"nodes": ids.iter().map(node).collect::<Vec<_>>()});
        let (status, body) = self.send("POST", "/si/v1/rm/rm-1/nodes", &body).await;
        assert_eq!((status, &body), (202, &json!({})));
    }

    /// Creates nodes so that the answer for each is a line of its own: what comes together is answered together.
    pub async fn nodes_in_turn(&self, ids: &[&str]) {
        for id in ids {
            let before = self.until(|_| true).await["lastSequence"].as_u64();
            self.nodes(&[id]).await;
            self.until(|info| info["lastSequence"].as_u64() > before).await;
        }
    }

    pub async fn stream(&self, query: &str) -> Lines {
        let response =
            self.http.get(self.url(&format!("/si/v1/rm/rm-1/stream{query}"))).send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        Lines { response, rest: Vec::new() }
    }

    /// Asks until the information about `rm-1` is as wanted.
    pub async fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let path = "/si/v1/rm/rm-1";
        answer(path, async || self.get(path).await.1, wanted).await
    }
}

impl Lines {
    pub fn of(response: Response) -> Lines {
        Lines { response, rest: Vec::new() }
    }

    /// The next line that is not empty; `None` at the end.
    pub async fn text(&mut self) -> Option<String> {
        // Empty ones come for ever.
        tokio::time::timeout(LIMIT, self.not_empty()).await.expect("in time")
    }

    async fn not_empty(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = String::from_utf8(line).expect("text");
                if !line.trim().is_empty() {
                    return Some(line.trim_end().to_owned());
                }
                continue;
            }
            self.rest.extend_from_slice(&self.response.chunk().await.ok()??);
        }
    }

    pub async fn next(&mut self) -> Value {
        let line = self.text().await.expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The next line that is none of the events, which come on their own every second.
    pub async fn told(&mut self) -> Value {
        loop {
            let line = self.next().await;
            if line.get("events").is_none() {
                return line;
            }
        }
    }

    /// Lines up to the one with this number.
    pub async fn up_to(&mut self, seq: u64) -> Vec<Value> {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &Value| line["seq"] != seq) {
            lines.push(self.next().await);
        }
        lines
    }

    pub async fn ended(&mut self) -> bool {
        self.text().await.is_none()
    }
}

pub async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let problem = status >= 400;
    if problem {
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
    let mut bytes = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk.expect("a body"));
    }
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    // A tree of queues is as deep as the queues are.
    json.disable_recursion_limit();
    let value = Value::deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    let value = value.unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
    if problem {
        assert_eq!(value["status"], status, "{value}");
        assert!(value["title"].is_string() && value["type"].is_string(), "{value}");
    }
    (status, value)
}
