//! The built program on a free port, with a resource manager that reads its stream and confirms releases.

use callboard::access::Digest;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::common::{self, Program};

pub const RM: &str = "rm-1";

pub struct Server {
    program: Program,
    pub url: String,
    client: reqwest::Client,
    shim: Option<JoinHandle<()>>,
    /// The file of its tokens, where it has some.
    _tokens: Option<tempfile::TempDir>,
}

/// The tokens of a guarded server.
pub const VIEWER: &str = "open-sesame";
pub const OPERATOR: &str = "all-of-it";

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Server {
    /// On any free port, with nothing on disk.
    pub fn start() -> Server {
        Server::start_at("127.0.0.1:0")
    }

    pub fn start_at(address: &str) -> Server {
        Server::start_with(&["--http", address, "--ephemeral"])
    }

    pub fn start_with(arguments: &[&str]) -> Server {
        Server::start_as(arguments, None)
    }

    /// With tokens of a viewer and an operator; sends the operator's itself.
    pub fn guarded() -> Server {
        let files = tempfile::tempdir().unwrap();
        let tokens = files.path().join("tokens").display().to_string();
        let line = |role: &str, token: &str| format!("{role} {}\n", Digest::of(token));
        std::fs::write(&tokens, line("viewer", VIEWER) + &line("operator", OPERATOR)).unwrap();
        let arguments = ["--http", "127.0.0.1:0", "--ephemeral", "--tokens", &tokens];
        let mut server = Server::start_as(&arguments, Some(OPERATOR));
        server._tokens = Some(files);
        server
    }

    /// Sends this token itself.
    fn start_as(arguments: &[&str], token: Option<&str>) -> Server {
        let program = Program::start(&[&["--grpc", "off"], arguments].concat());
        let url = program.address("http");
        let headers = token.map(|token| {
            let value = format!("Bearer {token}").parse().unwrap();
            [(reqwest::header::AUTHORIZATION, value)].into_iter().collect()
        });
        let client = reqwest::Client::builder().default_headers(headers.unwrap_or_default()).build().unwrap();
        Server { program, url, client, shim: None, _tokens: None }
    }

    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Kills it: no connection is closed in good order.
    pub fn stop(&mut self) {
        self.leave();
        self.program.kill();
    }

    /// The resource manager's stream ends, and nobody reads its callbacks any more.
    pub fn leave(&mut self) {
        if let Some(shim) = self.shim.take() {
            shim.abort();
        }
    }

    pub async fn post(&self, path: &str, body: &Value) {
        let answer = self.client.post(format!("{}{path}", self.url)).json(body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status} {}", answer.text().await.unwrap());
    }

    pub async fn put(&self, path: &str, body: &Value) {
        let answer = self.client.put(format!("{}{path}", self.url)).json(body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status} {}", answer.text().await.unwrap());
    }

    pub async fn get(&self, path: &str) -> reqwest::Response {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap()
    }

    pub async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Reads a path until what it shows is as wanted.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        common::answer(path, async || self.json(path).await, wanted).await
    }

    /// Registers [`RM`] with this configuration, and keeps reading its callbacks.
    pub async fn register(&mut self, config: &str) {
        let body = json!({"rmID": RM, "version": "1", "policyGroup": "queues", "config": config,
            // They come with time, and a busy machine takes more of it.
            "extraConfig": {"rm.reservations": "false"},
            "buildInfo": {"buildDate": "2026-11-20", "buildVersion": "latest"}});
        self.post("/si/v1/rm", &body).await;
        let (client, url) = (self.client.clone(), self.url.clone());
        let mut stream = client.get(format!("{url}/si/v1/rm/{RM}/stream?after=0")).send().await.unwrap();
        self.shim = Some(tokio::spawn(async move {
            let mut rest: Vec<u8> = Vec::new();
            while let Ok(Some(chunk)) = stream.chunk().await {
                rest.extend_from_slice(&chunk);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    let Ok(line) = serde_json::from_slice::<Value>(&line) else { continue };
                    let Some(released) = line["allocation"]["released"].as_array() else { continue };
                    // What the core wants gone is gone.
                    let confirm: Vec<&Value> =
                        released.iter().filter(|r| r["terminationType"] == "PLACEHOLDER_REPLACED").collect();
                    if !confirm.is_empty() {
                        let body = json!({"rmID": RM, "releases": {"allocationsToRelease": confirm}});
                        let path = format!("{url}/si/v1/rm/{RM}/allocations");
                        let _ = client.post(path).json(&body).send().await;
                    }
                }
            }
        }));
    }

    pub async fn nodes(&self, nodes: Vec<Value>) {
        for part in nodes.chunks(1_000) {
            self.post(&format!("/si/v1/rm/{RM}/nodes"), &json!({"rmID": RM, "nodes": part})).await;
        }
    }

    /// An application of the default partition; `more` is merged into it.
    pub async fn app(&self, id: &str, queue: &str, user: &str, more: Value) {
        let mut app = json!({"applicationID": id, "queueName": queue, "partitionName": "default",
            "ugi": {"user": user, "groups": ["staff"]}});
        merge(&mut app, more);
        self.post(&format!("/si/v1/rm/{RM}/applications"), &json!({"rmID": RM, "new": [app]})).await;
    }

    /// An application and all that it has go.
    pub async fn remove(&self, id: &str) {
        let gone = json!({"applicationID": id, "partitionName": "default"});
        self.post(&format!("/si/v1/rm/{RM}/applications"), &json!({"rmID": RM, "remove": [gone]})).await;
    }

    /// Asks with keys `{app}-{prefix}{n}`; `more` is merged into each.
    pub async fn asks(&self, app: &str, prefix: &str, count: usize, size: [i64; 2], more: Value) {
        let ask = |n: usize| {
            let mut ask = json!({"allocationKey": format!("{app}-{prefix}{n}"), "applicationID": app,
                "partitionName": "default", "resourcePerAlloc": resource(size)});
            merge(&mut ask, more.clone());
            ask
        };
        let asks: Vec<Value> = (0..count).map(ask).collect();
        for part in asks.chunks(5_000) {
            self.post(&format!("/si/v1/rm/{RM}/allocations"), &json!({"rmID": RM, "allocations": part})).await;
        }
    }

    pub async fn release(&self, app: &str, key: &str) {
        let release = json!({"partitionName": "default", "applicationID": app, "allocationKey": key,
            "terminationType": "STOPPED_BY_RM"});
        let body = json!({"rmID": RM, "releases": {"allocationsToRelease": [release]}});
        self.post(&format!("/si/v1/rm/{RM}/allocations"), &body).await;
    }
}

/// Memory in bytes, vcore in milli.
pub fn resource([memory, vcore]: [i64; 2]) -> Value {
    json!({"resources": {"memory": {"value": memory.to_string()}, "vcore": {"value": vcore.to_string()}}})
}

pub fn node(id: &str, size: [i64; 2]) -> Value {
    json!({"nodeID": id, "action": "CREATE", "schedulableResource": resource(size),
        "attributes": {"si/hostname": format!("host-{id}"), "si/rackname": "rack-1", "si/node-partition": "default"}})
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}
