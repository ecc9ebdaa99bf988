//! Servers with a directory, and what a shim and an operator do with them.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::Stdio,
};

use reqwest::Client;
use serde_json::{Value, json};

use crate::shim::server::{LIMIT, Server, command};

/// A server that keeps its data in this directory.
pub fn with_data(data: &Path) -> Server {
    let data = data.display().to_string();
    let args = ["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--data", &data];
    let mut child = command(&args).stderr(Stdio::null()).spawn().expect("starts");
    let mut ready = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut ready).expect("a line");
    assert!(ready.starts_with("callboard ready http="), "{ready:?}");
    Server { child, ready: ready.trim().to_owned(), http: Client::new() }
}

/// Ends a server as an operator does; gives its exit status.
pub async fn end(mut server: Server) -> Option<i32> {
    let sent = std::process::Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    for _ in 0..500 {
        if let Some(status) = server.child.try_wait().expect("a child") {
            return status.code();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it did not end");
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
    let asked = async {
        loop {
            let (_, body) = server.get(path).await;
            if wanted(&body) {
                return body;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    match tokio::time::timeout(LIMIT, asked).await {
        Ok(body) => body,
        Err(_) => panic!("{path}: {}", server.get(path).await.1),
    }
}
