//! What a shim knows that asks and releases all the time, while servers come and go: every line once and in order, nothing
//! allocated twice, and everything that was acknowledged answered in the end.

use std::{collections::BTreeSet, sync::Mutex};

use serde_json::{Value, json};

use crate::{common::answer, shim::server::Server};

/// See the module.
#[derive(Clone, Default)]
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
    /// Lines that came before a question with a lower number.
    early: BTreeSet<u64>,
    /// Those of them that come once more over another stream.
    again: BTreeSet<u64>,
    /// Questions are asked.
    pub may_be_late: bool,
}

/// Allocations that are held before as many are released as are asked for.
const ENOUGH: usize = 500;

impl Books {
    /// A line has this number. Questions may come later than what was said after them. False: it came over the stream before.
    pub fn line(&mut self, seq: u64, asks: bool) -> bool {
        if self.again.remove(&seq) {
            return false;
        }
        assert!(seq > self.last && !self.early.contains(&seq), "line {seq} came twice: {} was the last", self.last);
        self.early.insert(seq);
        while self.early.remove(&(self.last + 1)) {
            self.last += 1;
        }
        assert!(asks || self.may_be_late || self.last == seq, "line {seq} came after line {}", self.last);
        true
    }

    /// Another stream begins after the last line before which none is missing.
    pub fn again(&mut self) {
        self.again = self.early.clone();
    }

    /// A line tells of this allocation.
    pub fn allocated(&mut self, key: &str) {
        assert!(self.ever.insert(key.to_owned()), "{key} was allocated twice");
        self.held.insert(key.to_owned());
    }

    /// A line tells of its end.
    pub fn released(&mut self, key: &str) {
        assert!(self.held.remove(key), "{key} is not held");
        self.releasing.remove(key);
    }

    /// Reads a line.
    pub fn read(&mut self, line: &Value) {
        self.line(line["seq"].as_u64().expect("a number"), false);
        let key = |value: &Value| value["allocationKey"].as_str().expect("a key").to_owned();
        for new in line["allocation"]["new"].as_array().into_iter().flatten() {
            self.allocated(&key(new));
        }
        for released in line["allocation"]["released"].as_array().into_iter().flatten() {
            self.released(&key(released));
        }
        assert!(line["allocation"]["rejectedAllocations"].is_null(), "{line}");
    }

    /// Everything that was acknowledged was answered.
    pub fn is_settled(&self) -> bool {
        self.releasing.is_empty() && self.asked.iter().all(|key| self.ever.contains(key))
    }

    /// Asks that were made and are not placed, where each is made until it is acknowledged.
    pub fn waiting(&self) -> usize {
        20 * self.round as usize - self.ever.len()
    }

    /// What it waits for, for texts.
    pub fn missing(&self) -> String {
        let asked: Vec<_> = self.asked.iter().filter(|key| !self.ever.contains(*key)).take(5).collect();
        let (last, early, releasing) = (self.last, &self.early, self.releasing.len());
        format!("{last} and {early:?} came; asks {asked:?} and {releasing} releases are not answered")
    }

    /// Keys of the next 20 asks, and of allocations that are to be released: 10, or 20 where enough are held.
    pub fn next(&mut self) -> (Vec<String>, Vec<String>) {
        self.round += 1;
        let many = if self.held.len() > ENOUGH { 20 } else { 10 };
        let free = self.held.iter().filter(|key| !self.releasing.contains(*key)).take(many).cloned().collect();
        ((0..20).map(|n| format!("r{}k{n}", self.round)).collect(), free)
    }

    /// A request with these releases was acknowledged, or will be.
    pub fn releases(&mut self, keys: Vec<String>) {
        let open = keys.into_iter().filter(|key| self.held.contains(key));
        let open: Vec<_> = open.collect();
        self.releasing.extend(open);
    }

    /// Asks, and releases. `send` says whether it was acknowledged; `None`: the server is gone.
    pub async fn turn(books: &Mutex<Books>, send: impl AsyncFn(Value) -> Option<bool>) -> Option<()> {
        let (keys, gone) = books.lock().expect("no panic").next();
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
            books.lock().expect("no panic").releases(gone);
        }
        Some(())
    }

    /// The server knows of the same allocations, and its own books are balanced.
    pub async fn agree(&self, server: &Server, partition: &str) {
        // The last check may have been made while a fault lasted.
        let health = async || server.get("/ws/v1/scheduler/healthcheck").await.1;
        answer("the health check", health, |health| health["Healthy"] == true).await;
        let app = server.get(&format!("/ws/v1/partition/{partition}/application/app")).await.1;
        let there = app["allocations"].as_array().into_iter().flatten();
        let key = |one: &Value| one["allocationKey"].as_str().expect("a key").to_owned();
        assert_eq!(there.map(key).collect::<BTreeSet<_>>(), self.held, "the server and the shim know of the same");
    }
}
