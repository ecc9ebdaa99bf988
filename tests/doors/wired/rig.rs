//! Servers with a directory, and what a shim and an operator do with them.

use std::path::Path;

use serde_json::{Value, json};

use crate::{common, shim::server::Server};

/// A server that keeps its data in this directory.
pub fn with_data(data: &Path) -> Server {
    Server::start(&["--grpc", "off", "--data", &data.display().to_string()])
}

/// Ends a server as an operator does; gives its exit status.
pub async fn end(server: Server) -> Option<i32> {
    server.program.signal("TERM");
    server.program.ended().await
}

pub async fn application(server: &Server, id: &str) {
    let app = json!({"applicationID": id, "queueName": "root.a", "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}});
    let (status, body) = server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [app]})).await;
    assert_eq!(status, 202, "{body}");
}

pub async fn asks(server: &Server, app: &str, keys: &[&str], memory: i64) {
    let ask = |key: &&str| {
        json!({"allocationKey": key, "applicationID": app, "partitionName": "default",
            "resourcePerAlloc": {"resources": {"memory": {"value": memory}}}})
    };
    let body = json!({"allocations": keys.iter().map(ask).collect::<Vec<_>>()});
    let (status, body) = server.send("POST", "/si/v1/rm/rm-1/allocations", &body).await;
    assert_eq!(status, 202, "{body}");
}

/// Asks until the answer is as wanted.
pub async fn until(server: &Server, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    common::answer(path, async || server.get(path).await.1, wanted).await
}
