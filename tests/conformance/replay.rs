//! Runs a scenario on a fresh server and gives what was observed, in the form of a golden file.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::{
    glob,
    http::{Answer, Http},
    request, rest,
    scenario::{Scenario, Step},
    server::Server,
    shim::{self, Confirms, RM, Shim},
};

/// Container states come from a job that runs every second, pushed events from one that runs every two.
const STATES: Duration = Duration::from_millis(1400);
const EVENTS: Duration = Duration::from_millis(2600);
/// How long a `tail` waits for the next line where it does not say.
const SILENCE: Duration = Duration::from_millis(500);
/// Lists of a partition that the final state holds.
const LISTS: [&str; 7] = [
    "queues",
    "nodes",
    "applications/active",
    "applications/completed",
    "applications/rejected",
    "usage/users",
    "usage/groups",
];

/// What was observed, and the longest that a step took beside its waits; else what broke, with the last lines of the server's log.
pub async fn run(scenario: Scenario, confirms: Confirms) -> Result<(Value, Duration), String> {
    let mut server = Server::start().await?;
    let http = Http::new(&server.base)?;
    let observed = observe(Arc::new(scenario), http, confirms).await;
    let ended = server.ended().map_or(Ok(()), Err);
    match ended.and(observed) {
        Ok(observed) => Ok(observed),
        Err(broken) => Err(format!("{broken}\n{}", server.log_tail())),
    }
}

async fn observe(scenario: Arc<Scenario>, http: Http, confirms: Confirms) -> Result<(Value, Duration), String> {
    let mut shim = Shim::new(http, scenario.clone(), confirms);
    let begun = Instant::now();
    let refused = shim.register(&Map::new()).await?;
    if refused.is_empty() {
        shim.settle().await?;
    }
    let mut slowest = begun.elapsed();
    let mut result = Map::new();
    result.insert("register".into(), json!({"callbacks": ordered([refused, shim.take()].concat(), false)}));
    let mut steps = Vec::new();
    for (at, step) in scenario.steps.iter().enumerate() {
        let begun = Instant::now();
        steps.push(observe_step(&mut shim, at, step).await?);
        slowest = slowest.max(begun.elapsed().saturating_sub(step.wait.unwrap_or_default()));
    }
    result.insert("steps".into(), steps.into());
    if scenario.shim.events {
        sleep(EVENTS).await;
    }
    if scenario.shim.container_states {
        sleep(STATES).await;
        result.insert("containerStates".into(), shim.states());
    }
    if scenario.shim.events {
        result.insert("events".into(), shim.events());
    }
    let mut last = final_state(&shim.http).await?;
    last.retain(|name, _| !scenario.ignore_final.iter().any(|pattern| glob::matches(pattern, name)));
    result.insert("final".into(), last.into());
    let problems = shim.problems();
    if !problems.is_empty() {
        result.insert("problems".into(), problems.into());
    }
    Ok((result.into(), slowest))
}

async fn observe_step(shim: &mut Shim, at: usize, step: &Step) -> Result<Value, String> {
    let mut callbacks = act(shim, step).await?;
    let answer = ask(&shim.http, step).await?;
    if step.settles() {
        shim.settle().await?;
    }
    callbacks.extend(shim.take());
    for callback in callbacks.iter_mut().filter_map(Value::as_object_mut) {
        for field in &step.wild {
            if let Some(value) = callback.get_mut(field) {
                *value = "*".into();
            }
        }
    }
    let mut record = json!({"step": at, "callbacks": ordered(callbacks, step.ordered)});
    if let Some(answer) = answer {
        record["rest"] = json!({step.name.as_deref().unwrap_or("body"): answer});
    }
    Ok(record)
}

/// Does what a step says to the scheduler; the refusals.
async fn act(shim: &mut Shim, step: &Step) -> Result<Vec<Value>, String> {
    let rm = step.rm.as_deref().unwrap_or(RM);
    let requests = [("nodes", &step.nodes), ("applications", &step.applications), ("allocations", &step.allocations)];
    for (kind, request) in requests {
        if let Some(request) = request {
            return shim.send(kind, rm, &request::body(kind, RM, request)).await;
        }
    }
    if let Some(update) = &step.configuration {
        return shim.configure(update).await;
    }
    if let Some(repeat) = &step.repeat {
        let mut refused = Vec::new();
        for i in 0..repeat.count {
            refused.extend(Box::pin(act(shim, &repeat.turn(i)?)).await?);
        }
        return Ok(refused);
    }
    if let Some(time) = step.wait {
        sleep(time).await;
    }
    if let Some(confirm) = &step.confirm {
        return shim.confirm(&confirm.allocation_key).await;
    }
    if let Some(replaced) = &step.register {
        return shim.register(replaced).await;
    }
    Ok(Vec::new())
}

/// What a step reads.
async fn ask(http: &Http, step: &Step) -> Result<Option<Value>, String> {
    let accept = step.accept.as_deref();
    let answer = match (&step.get, &step.post, &step.tail) {
        (Some(path), _, _) => http.get(path, accept).await?,
        (_, Some(path), _) => http.post_text(path, &step.body, accept).await?,
        (_, _, Some(path)) => return tail(http, path, step.silence.unwrap_or(SILENCE)).await.map(Some),
        (None, None, None) => return Ok(None),
    };
    Ok(Some(kept(&answer, step)))
}

fn kept(answer: &Answer, step: &Step) -> Value {
    let status = answer.status;
    if step.only.as_deref() == Some("status") {
        return json!({"status": status});
    }
    match answer.json() {
        Some(body) => {
            let body = step.drop.iter().fold(rest::normal(&body), |body, name| rest::without(&body, name));
            json!({"status": status, "body": body})
        }
        None => json!({"status": status, "text": answer.text()}),
    }
}

/// The lines of a streaming endpoint until it has been silent for a while.
async fn tail(http: &Http, path: &str, silence: Duration) -> Result<Value, String> {
    let mut open = http.open(path).await?;
    let mut lines = Vec::new();
    while let Ok(Ok(Some(line))) = timeout(silence, open.next()).await {
        let line = serde_json::from_slice(&line).unwrap_or_else(|_| String::from_utf8_lossy(&line).into());
        let line = rest::normal(&line);
        lines.push(if line.get("InstanceUUID").is_some() { json!({"InstanceUUID": "*"}) } else { line });
    }
    let lines = if open.status == 200 { rest::by_text(lines) } else { lines.into() };
    Ok(json!({"status": open.status, "lines": lines}))
}

/// The REST state at the end.
async fn final_state(http: &Http) -> Result<Map<String, Value>, String> {
    let mut out = Map::new();
    let answer = http.get("/ws/v1/partitions", None).await?;
    let Some(partitions) = answer.json() else {
        out.insert("partitions".into(), json!({"status": answer.status}));
        return Ok(out);
    };
    out.insert("partitions".into(), rest::normal(&partitions));
    for name in shim::partition_names(Some(&partitions)) {
        let plain = name.replace("%5B", "[").replace("%5D", "]");
        for list in LISTS {
            let answer = http.get(&format!("/ws/v1/partition/{name}/{list}"), None).await?;
            let body = answer.json().unwrap_or_else(|| answer.text().into());
            out.insert(format!("{plain}/{list}"), rest::normal(&body));
        }
    }
    Ok(out)
}

/// Sorted; where the step keeps the order of placements, those come first, as they came.
fn ordered(callbacks: Vec<Value>, keep_placements: bool) -> Value {
    let (placements, others): (Vec<_>, Vec<_>) =
        callbacks.into_iter().partition(|callback| keep_placements && callback["kind"] == "new");
    match rest::by_text(others) {
        Value::Array(others) => [placements, others].concat().into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_are_sorted_unless_their_order_counts() {
        let new = |key: &str| json!({"allocationKey": key, "kind": "new"});
        let update = json!({"applicationID": "a", "kind": "updatedApplication"});
        let came = vec![update.clone(), new("b"), new("a")];
        assert_eq!(ordered(came.clone(), false), json!([new("a"), new("b"), update]));
        assert_eq!(ordered(came, true), json!([new("b"), new("a"), update]));
    }

    #[test]
    fn an_answer_that_is_not_json_is_kept_as_text() {
        let answer = Answer { status: 404, body: b"nothing here".to_vec() };
        assert_eq!(kept(&answer, &Step::default()), json!({"status": 404, "text": "nothing here"}));
        let only = Step { only: Some("status".into()), ..Step::default() };
        assert_eq!(kept(&answer, &only), json!({"status": 404}));
    }
}
