//! What a shim knows that asks and releases all the time, while servers come and go: every line once and in order, nothing
//! allocated twice, and everything that was acknowledged answered in the end.

use std::{collections::BTreeSet, sync::Mutex};

use serde_json::{Value, json};

use crate::{common::answer, shim::server::Server};

/// See the module.
#[derive(Default)]
pub struct Books {
    /// Number of the last line.
    pub last: u64,
    /// Asks whose request was acknowledged.
    pub asked: BTreeSet<String>,
    /// Allocations that it holds.
    pub held: BTreeSet<String>,
    /// All that it ever held.
    ever: BTreeSet<String>,
    /// Releases whose request was acknowledged and that were not answered.
    releasing: BTreeSet<String>,
    round: u64,
}

impl Books {
    /// Reads a line.
    pub fn read(&mut self, line: &Value) {
        let seq = line["seq"].as_u64().expect("a number");
        assert_eq!(seq, self.last + 1, "line by line: {line}");
        self.last = seq;
        let key = |value: &Value| value["allocationKey"].as_str().expect("a key").to_owned();
        for new in line["allocation"]["new"].as_array().into_iter().flatten() {
            assert!(self.ever.insert(key(new)), "{new} was allocated twice");
            self.held.insert(key(new));
        }
        for released in line["allocation"]["released"].as_array().into_iter().flatten() {
            assert!(self.held.remove(&key(released)), "{released} is not held");
            self.releasing.remove(&key(released));
        }
        assert!(line["allocation"]["rejectedAllocations"].is_null(), "{line}");
    }

    /// Everything that was acknowledged was answered.
    pub fn is_settled(&self) -> bool {
        self.releasing.is_empty() && self.asked.iter().all(|key| self.ever.contains(key))
    }

    /// Asks for 20, and releases 10 of those that it holds. `send` says whether it was acknowledged; `None`: the server is gone.
    pub async fn turn(books: &Mutex<Books>, send: impl AsyncFn(Value) -> Option<bool>) -> Option<()> {
        let (round, gone) = {
            let mut books = books.lock().expect("no panic");
            books.round += 1;
            let free = books.held.iter().filter(|key| !books.releasing.contains(*key)).take(10).cloned();
            (books.round, free.collect::<Vec<_>>())
        };
        let keys: Vec<String> = (0..20).map(|n| format!("r{round}k{n}")).collect();
        let ask = |key: &String| {
            json!({"allocationKey": key, "applicationID": "app", "partitionName": "default",
                "resourcePerAlloc": {"resources": {"memory": {"value": 10}}}})
        };
        if send(json!({"allocations": keys.iter().map(ask).collect::<Vec<_>>()})).await? {
            books.lock().expect("no panic").asked.extend(keys);
        }
        let release = |key: &String| json!({"partitionName": "default", "applicationID": "app", "allocationKey": key, "terminationType": "STOPPED_BY_RM"});
        let releases = gone.iter().map(release).collect::<Vec<_>>();
        if !releases.is_empty() && send(json!({"releases": {"allocationsToRelease": releases}})).await? {
            let mut books = books.lock().expect("no panic");
            let open: Vec<_> = gone.into_iter().filter(|key| books.held.contains(key)).collect();
            books.releasing.extend(open);
        }
        Some(())
    }

    /// The server knows of the same allocations, and its own books are balanced.
    pub async fn agree(&self, server: &Server) {
        // The last check may have been made while a fault lasted.
        let health = async || server.get("/ws/v1/scheduler/healthcheck").await.1;
        answer("the health check", health, |health| health["Healthy"] == true).await;
        let app = server.get("/ws/v1/partition/default/application/app").await.1;
        let there = app["allocations"].as_array().into_iter().flatten();
        let key = |one: &Value| one["allocationKey"].as_str().expect("a key").to_owned();
        assert_eq!(there.map(key).collect::<BTreeSet<_>>(), self.held, "the server and the shim know of the same");
    }
}
