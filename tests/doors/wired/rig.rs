//! Servers with a directory, and what a shim and an operator do with them.

use std::{
    io::Read,
    path::Path,
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread,
};

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

/// A command of the program, asked of this server: its exit status, and what it printed.
pub async fn run(server: &Server, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = common::command(args);
    command.args(["--server", &server.url("")]);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("waited for");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Says something of `rm-1`, which is taken.
pub async fn send(server: &Server, kind: &str, body: Value) {
    let (status, answer) = server.send("POST", &format!("/si/v1/rm/rm-1/{kind}"), &body).await;
    assert_eq!(status, 202, "{answer}");
}

pub async fn application(server: &Server, id: &str) {
    let app = json!({"applicationID": id, "queueName": "root.a", "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}});
    send(server, "applications", json!({"new": [app]})).await;
}

pub async fn asks(server: &Server, app: &str, keys: &[&str], memory: i64) {
    let ask = |key: &&str| {
        json!({"allocationKey": key, "applicationID": app, "partitionName": "default",
            "resourcePerAlloc": {"resources": {"memory": {"value": memory}}}})
    };
    send(server, "allocations", json!({"allocations": keys.iter().map(ask).collect::<Vec<_>>()})).await;
}

/// Asks until the answer is as wanted.
pub async fn until(server: &Server, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    common::answer(path, async || server.get(path).await.1, wanted).await
}

/// A command that runs, with what it printed so far; killed when it is dropped.
pub struct Running {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.spawn().expect("it starts");
        let kept = |mut from: Box<dyn Read + Send>| {
            let text = Arc::new(Mutex::new(String::new()));
            let to = text.clone();
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(read @ 1..) = from.read(&mut bytes) {
                    to.lock().expect("a text").push_str(&String::from_utf8_lossy(&bytes[..read]));
                }
            });
            text
        };
        let out = kept(Box::new(child.stdout.take().expect("piped")));
        let err = kept(Box::new(child.stderr.take().expect("piped")));
        Running { child, out, err }
    }

    pub fn out(&self) -> String {
        self.out.lock().expect("a text").clone()
    }

    pub fn err(&self) -> String {
        self.err.lock().expect("a text").clone()
    }

    /// Until it has printed this.
    pub async fn prints(&self, part: &str) {
        common::answer(part, async || self.out(), |out| out.contains(part)).await;
    }

    /// Until it has complained so.
    pub async fn complains(&self, part: &str) {
        common::answer(part, async || self.err(), |err| err.contains(part)).await;
    }

    pub fn runs(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
