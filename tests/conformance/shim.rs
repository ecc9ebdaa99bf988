//! The simulated resource manager: registers, reads its stream, confirms releases, answers predicate questions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    callback, glob,
    http::{Answer, Http, Lines},
    request, rest,
    scenario::{Behaviour, PredicateRule, Scenario},
};

/// The resource manager of a scenario.
pub const RM: &str = "rm-1";

/// How long nothing may have happened before a step counts as done. Every look at the state goes through the partition's
/// mailbox behind what was sent before, so under load the looks, and with them the quiet time, stretch by themselves.
const QUIET: Duration = Duration::from_millis(90);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Looks that must be equal, however fast they are answered.
const EQUAL_LOOKS: u32 = 4;
/// The longest time to settle.
const LONGEST: Duration = Duration::from_secs(20);
/// Broken connections of the stream that are put up with.
const RECONNECTS: u32 = 20;

/// Releases of these types are confirmed.
const CONFIRMED: [&str; 3] = ["TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED"];

/// See the module.
pub struct Shim {
    pub http: Http,
    scenario: Arc<Scenario>,
    seen: Arc<Mutex<Seen>>,
    reader: Option<JoinHandle<()>>,
    confirms: Confirms,
}

/// When releases that the scheduler originates are confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirms {
    /// As soon as they come.
    AtOnce,
    /// Only after everything else has gone quiet, all that came together in one request.
    Late,
}

/// What came on the stream.
#[derive(Default)]
struct Seen {
    /// Callbacks since the last step ended.
    callbacks: Vec<Value>,
    /// Counts up with each callback and each confirmation that was answered.
    activity: u64,
    /// Confirmations that are not answered yet.
    confirming: u32,
    states: Vec<Value>,
    events: Vec<Value>,
    /// Releases that are to be confirmed when everything is quiet.
    held: Vec<Value>,
    /// The last release by allocation key that the scheduler originated.
    releases: BTreeMap<String, Value>,
    problems: Vec<String>,
}

impl Shim {
    /// A resource manager that is not registered yet.
    pub fn new(http: Http, scenario: Arc<Scenario>, confirms: Confirms) -> Shim {
        Shim { http, scenario, seen: Arc::default(), reader: None, confirms }
    }

    /// Registers and opens the stream. The fields of `replaced` go over those of the request.
    pub async fn register(&mut self, replaced: &Map<String, Value>) -> Result<Vec<Value>, String> {
        let mut body = json!({"rmID": RM, "version": "1.0", "policyGroup": "queues", "config": self.scenario.config,
            "extraConfig": self.scenario.extra_config, "buildInfo": {"version": "1.0"}});
        if let Some(body) = body.as_object_mut() {
            body.extend(replaced.clone());
        }
        let asked = if self.scenario.shim.predicates.is_empty() { "" } else { "?predicates=true" };
        let refused = refusal(self.http.post(&format!("/si/v1/rm{asked}"), &body).await?);
        if refused.is_empty() && self.reader.is_none() {
            let lines = stream(&self.http, 0).await?;
            let (http, scenario, seen) = (self.http.clone(), self.scenario.clone(), self.seen.clone());
            let reader = Reader { http, scenario, seen, confirms: self.confirms, last: 0 };
            self.reader = Some(tokio::spawn(reader.run(lines)));
        }
        Ok(refused)
    }

    /// Confirms one release by hand.
    pub async fn confirm(&self, key: &str) -> Result<Vec<Value>, String> {
        let release = lock(&self.seen).releases.get(key).cloned();
        match release {
            Some(release) => self.send("allocations", RM, &confirmation(vec![release])).await,
            None => Ok(vec![error("no release to confirm")]),
        }
    }

    /// Sends a request; its refusal, where it was refused.
    pub async fn send(&self, kind: &str, rm: &str, body: &Value) -> Result<Vec<Value>, String> {
        Ok(refusal(self.http.post(&format!("/si/v1/rm/{rm}/{kind}"), body).await?))
    }

    /// Sends a new configuration; its refusal, where it was refused.
    pub async fn configure(&self, update: &Value) -> Result<Vec<Value>, String> {
        let body = json!({"rmID": RM, "policyGroup": "queues", "config": self.scenario.config});
        let body = request::merged(body, update);
        Ok(refusal(self.http.put(&format!("/si/v1/rm/{RM}/configuration"), &body).await?))
    }

    /// The callbacks since the last call.
    pub fn take(&self) -> Vec<Value> {
        std::mem::take(&mut lock(&self.seen).callbacks)
    }

    /// Container states of the whole scenario, each once.
    pub fn states(&self) -> Value {
        let mut states = lock(&self.seen).states.clone();
        states.sort_by_cached_key(crate::canon::canon);
        states.dedup();
        states.into()
    }

    /// Pushed events of the whole scenario.
    pub fn events(&self) -> Value {
        rest::by_text(lock(&self.seen).events.clone())
    }

    /// What went wrong beside the answers.
    pub fn problems(&self) -> Vec<String> {
        lock(&self.seen).problems.clone()
    }

    /// Waits until the scheduler is quiet; confirms what is held then, and waits again.
    pub async fn settle(&self) -> Result<(), String> {
        loop {
            self.quiet().await;
            let held = std::mem::take(&mut lock(&self.seen).held);
            if held.is_empty() {
                return Ok(());
            }
            self.http.post(&format!("/si/v1/rm/{RM}/allocations"), &confirmation(held)).await?;
            lock(&self.seen).activity += 1;
        }
    }

    /// No callback, no confirmation under way, no change of the state for a while.
    async fn quiet(&self) {
        let limit = Instant::now() + LONGEST;
        let (mut last, mut since, mut equal) = (None, Instant::now(), 0);
        while Instant::now() < limit {
            let state = self.state().await;
            let (activity, confirming) = {
                let seen = lock(&self.seen);
                (seen.activity, seen.confirming)
            };
            let now = Some((state, activity));
            if now != last || confirming > 0 {
                (last, since, equal) = (now, Instant::now(), 0);
            } else {
                equal += 1;
                if equal >= EQUAL_LOOKS && since.elapsed() >= QUIET {
                    return;
                }
            }
            sleep(LOOK).await;
        }
        lock(&self.seen).problems.push(format!("not quiet after {} s", LONGEST.as_secs()));
    }

    /// Partitions with their queues, nodes and active applications, as far as they can be had.
    async fn state(&self) -> Vec<Option<Value>> {
        let get = async |path: &str| self.http.get(path, None).await.ok()?.json().map(|answer| rest::normal(&answer));
        let partitions = get("/ws/v1/partitions").await;
        let mut out = Vec::new();
        for name in partition_names(partitions.as_ref()) {
            for list in ["queues", "nodes", "applications/active"] {
                out.push(get(&format!("/ws/v1/partition/{name}/{list}")).await);
            }
        }
        out.push(partitions);
        out
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

/// The names in an answer of `/ws/v1/partitions`, sorted and ready for a path.
pub fn partition_names(partitions: Option<&Value>) -> Vec<String> {
    let listed = partitions.and_then(Value::as_array).into_iter().flatten();
    let mut names: Vec<&str> = listed.filter_map(|partition| partition["name"].as_str()).collect();
    names.sort_unstable();
    names.into_iter().map(|name| name.replace('[', "%5B").replace(']', "%5D")).collect()
}

fn refusal(answer: Answer) -> Vec<Value> {
    answer.refusal().map(|message| error(&message)).into_iter().collect()
}

fn error(message: &str) -> Value {
    json!({"kind": "error", "message": message})
}

fn confirmation(releases: Vec<Value>) -> Value {
    json!({"rmID": RM, "releases": {"allocationsToRelease": releases}})
}

async fn stream(http: &Http, after: u64) -> Result<Lines, String> {
    let lines = http.open(&format!("/si/v1/rm/{RM}/stream?after={after}")).await?;
    if lines.status == 200 { Ok(lines) } else { Err(format!("the stream answered {}", lines.status)) }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the stream line by line, and handles each before the next, as a resource manager does.
struct Reader {
    http: Http,
    scenario: Arc<Scenario>,
    seen: Arc<Mutex<Seen>>,
    confirms: Confirms,
    /// Number of the last line.
    last: u64,
}

impl Reader {
    async fn run(mut self, first: Lines) {
        let mut lines = Some(first);
        for _ in 0..RECONNECTS {
            if let Some(mut open) = lines.take() {
                while let Ok(Some(line)) = open.next().await {
                    if let Err(problem) = self.line(&line).await {
                        return self.problem(problem);
                    }
                }
            }
            sleep(Duration::from_millis(50)).await;
            lines = stream(&self.http, self.last).await.ok();
        }
        self.problem("the stream ended and cannot be resumed".to_owned());
    }

    fn problem(&self, problem: String) {
        lock(&self.seen).problems.push(problem);
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let text = || String::from_utf8_lossy(line).into_owned();
        let line: Value = serde_json::from_slice(line).map_err(|e| format!("stream line {}: {e}", text()))?;
        self.last = self.last.max(line["seq"].as_u64().unwrap_or(0));
        for kind in ["predicates", "preemptionPredicates"] {
            if let Some(question) = line.get(kind) {
                let answer = answer(&self.scenario.shim.predicates, kind, question, &line["id"]);
                self.http.post(&format!("/si/v1/rm/{RM}/answers"), &answer).await?;
                return Ok(());
            }
        }
        if let Some(state) = line.get("containerState") {
            lock(&self.seen).states.push(callback::container_state(state));
            return Ok(());
        }
        if let Some(records) = line.pointer("/events/records").and_then(Value::as_array) {
            lock(&self.seen).events.extend(records.iter().map(callback::event));
            return Ok(());
        }
        let releases = self.keep(&line);
        if !releases.is_empty() {
            let sent = self.http.post(&format!("/si/v1/rm/{RM}/allocations"), &confirmation(releases)).await;
            let mut seen = lock(&self.seen);
            seen.confirming -= 1;
            seen.activity += 1;
            drop(seen);
            sent?;
        }
        Ok(())
    }

    /// Keeps the callbacks of a line; the releases in it that are to be confirmed now.
    fn keep(&self, line: &Value) -> Vec<Value> {
        let Behaviour { confirm_releases, .. } = self.scenario.shim;
        let mut seen = lock(&self.seen);
        seen.callbacks.extend(callback::callbacks(line));
        seen.activity += 1;
        let released = line.pointer("/allocation/released").and_then(Value::as_array).into_iter().flatten();
        let asked =
            released.filter(|entry| callback::termination(entry).as_str().is_some_and(|t| CONFIRMED.contains(&t)));
        let asked: Vec<Value> = asked.cloned().collect();
        for release in &asked {
            let key = release["allocationKey"].as_str().unwrap_or_default().to_owned();
            seen.releases.insert(key, release.clone());
        }
        if !confirm_releases || asked.is_empty() {
            return Vec::new();
        }
        if self.confirms == Confirms::Late {
            seen.held.extend(asked);
            return Vec::new();
        }
        seen.confirming += 1;
        asked
    }
}

/// The answer to a predicate question: the first rule that matches decides, all else succeeds. A preemption question that
/// succeeds is answered with its own start index: the victims up to there are enough.
fn answer(rules: &[PredicateRule], kind: &str, question: &Value, id: &Value) -> Value {
    let text = |key: &str| question[key].as_str().unwrap_or_default();
    let allocate = question["allocate"].as_bool().unwrap_or_default();
    let decides = |rule: &&PredicateRule| {
        rule.kind.as_deref().is_none_or(|wanted| wanted == kind)
            && glob::matches(&rule.allocation_key, text("allocationKey"))
            && glob::matches(&rule.node_id, text("nodeID"))
            && rule.allocate.is_none_or(|wanted| wanted == allocate)
    };
    match rules.iter().find(decides).and_then(|rule| rule.fail.as_ref()) {
        Some(reason) => json!({"id": id, "success": false, "message": reason, "index": 0}),
        None => {
            let index = question["startIndex"].as_i64().unwrap_or(0);
            json!({"id": id, "success": true, "message": "", "index": index})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(value: Value) -> Vec<PredicateRule> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = rules(json!([{"allocationKey": "a*", "nodeID": "n1"}, {"allocationKey": "a*", "fail": "taint"},
            {"kind": "preemptionPredicates", "fail": "no"}, {"allocate": false, "fail": "later"}]));
        let ask = |kind: &str, question: Value| answer(&rules, kind, &question, &json!(7));
        let success = |index: i64| json!({"id": 7, "success": true, "message": "", "index": index});
        let failure = |message: &str| json!({"id": 7, "success": false, "message": message, "index": 0});
        assert_eq!(ask("predicates", json!({"allocationKey": "a1", "nodeID": "n1"})), success(0));
        assert_eq!(ask("predicates", json!({"allocationKey": "a1", "nodeID": "n2"})), failure("taint"));
        assert_eq!(ask("preemptionPredicates", json!({"allocationKey": "b", "startIndex": 2})), failure("no"));
        assert_eq!(
            ask("preemptionPredicates", json!({"allocationKey": "a", "nodeID": "n1", "startIndex": 2})),
            success(2)
        );
        assert_eq!(ask("predicates", json!({"allocationKey": "b", "allocate": true})), success(0));
        assert_eq!(ask("predicates", json!({"allocationKey": "b"})), failure("later"));
    }

    #[test]
    fn names_of_partitions_are_ready_for_a_path() {
        let listed = json!([{"name": "gpu"}, {"name": "[rm-2]default"}, {"other": 1}]);
        assert_eq!(partition_names(Some(&listed)), ["%5Brm-2%5Ddefault", "gpu"]);
        assert!(partition_names(None).is_empty());
    }
}
