//! What was open when a server was killed: gangs in every state, a question to the shim, deadlines that pass while it is gone.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use crate::{
    common,
    shim::server::{CONFIG, Lines, Server},
    wired::rig::{application, asks, send, until, with_data},
};

const LISTED: &str = "/api/v1/partition/default/releases";

/// A gang of so many placeholders that holds what it gets for so long.
struct Gang {
    id: &'static str,
    style: &'static str,
    millis: u64,
    count: usize,
    memory: u64,
}

impl Gang {
    fn ask(&self, key: &str, placeholder: bool) -> Value {
        json!({"allocationKey": format!("{}-{key}", self.id), "applicationID": self.id, "partitionName": "default",
            "taskGroupName": "tg", "placeholder": placeholder,
            "resourcePerAlloc": {"resources": {"memory": {"value": self.memory}}}})
    }

    async fn submit(&self, server: &Server) {
        let sum = self.memory * self.count as u64;
        let new = json!({"applicationID": self.id, "queueName": "root.a", "partitionName": "default",
            "placeholderAsk": {"resources": {"memory": {"value": sum}}}, "gangSchedulingStyle": self.style,
            "executionTimeoutMilliSeconds": self.millis, "ugi": {"user": "u", "groups": ["g"]}});
        send(server, "applications", json!({"new": [new]})).await;
        let asks: Vec<Value> = (0..self.count).map(|n| self.ask(&format!("ph-{n}"), true)).collect();
        send(server, "allocations", json!({"allocations": asks})).await;
    }

    async fn real(&self, server: &Server, key: &str) {
        send(server, "allocations", json!({"allocations": [self.ask(key, false)]})).await;
    }
}

const HOUR: u64 = 3_600_000;

fn gang(id: &'static str, style: &'static str, millis: u64, count: usize, memory: u64) -> Gang {
    Gang { id, style, millis, count, memory }
}

fn released(listed: &Value, id: &str, why: &str) -> usize {
    let rows = listed["releases"].as_array().into_iter().flatten();
    rows.filter(|row| row["applicationID"] == id && row["terminationType"] == why).count()
}

async fn app(server: &Server, id: &str) -> Value {
    let mut app = server.get(&format!("/ws/v1/partition/default/application/{id}")).await.1;
    app.as_object_mut().map(|app| app.remove("stateLog"));
    for ask in app["requests"].as_array_mut().into_iter().flatten() {
        // A timer sets it, which may come between two looks.
        ask.as_object_mut().map(|ask| ask.remove("triggeredScaleUp"));
    }
    app
}

/// What readers see: applications, nodes, queues, counters of the partition, what users and groups use, what is to be confirmed.
async fn shown(server: &Server, ids: &[&str]) -> Value {
    let mut all = Vec::new();
    for id in ids {
        all.push(app(server, id).await);
    }
    for path in ["nodes", "queues", "usage/users", "usage/groups"] {
        all.push(server.get(&format!("/ws/v1/partition/default/{path}")).await.1);
    }
    all.push(server.get("/ws/v1/partitions").await.1);
    let mut listed = server.get(LISTED).await.1;
    for row in listed["releases"].as_array_mut().into_iter().flatten() {
        let row = row.as_object_mut().expect("an object");
        row.retain(|name, _| ["applicationID", "allocationKey", "terminationType"].contains(&name.as_str()));
    }
    all.push(listed["releases"].take());
    assert_eq!(server.get("/ws/v1/scheduler/healthcheck").await.1["Healthy"], true);
    Value::Array(all)
}

/// Id of the next event, and all that there are.
async fn events(server: &Server) -> (u64, Vec<Value>) {
    let text = until(server, "/api/v1/events?from=0", Value::is_string).await;
    let lines = text.as_str().unwrap_or_default().lines();
    let mut lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let next = lines.pop().expect("a last line")["next"].as_u64().expect("a number");
    (next, lines.into_iter().filter(|line| line["id"].is_u64()).collect())
}

#[tokio::test]
async fn gangs_in_every_state_are_as_they_were_with_all_counters_and_event_ids() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    server.register("rm-1", &[("rm.resendAfter", "10m")]).await;
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1", "n2"]).await;
    let all = [
        gang("waits", "Hard", HOUR, 2, 90),
        gang("holds", "Soft", HOUR, 2, 5),
        gang("runs", "Soft", HOUR, 2, 5),
        gang("swaps", "Hard", HOUR, 1, 5),
        // Not all of these find room.
        gang("resumes", "Soft", 100, 3, 60),
        gang("fails", "Hard", 100, 3, 20),
    ];
    let ids = all.each_ref().map(|gang| gang.id);
    let [waits, holds, runs, swaps, resumes, fails] = &all;
    for gang in [holds, runs, swaps, resumes, fails] {
        gang.submit(&server).await;
    }
    runs.real(&server, "real").await;
    swaps.real(&server, "real").await;
    let to_confirm = |id, why| until(&server, LISTED, move |listed| released(listed, id, why) > 0);
    to_confirm("runs", "PLACEHOLDER_REPLACED").await;
    to_confirm("swaps", "PLACEHOLDER_REPLACED").await;
    // One part of it runs, the other is held.
    let listed = server.get(LISTED).await.1;
    let rows = listed["releases"].as_array().cloned().unwrap_or_default();
    let row = rows.iter().find(|row| row["applicationID"] == "runs").expect("listed");
    let confirmed = json!({"partitionName": "default", "applicationID": "runs", "allocationKey": row["allocationKey"],
        "terminationType": "PLACEHOLDER_REPLACED"});
    send(&server, "allocations", json!({"releases": {"allocationsToRelease": [confirmed]}})).await;
    // Time is up, and the shim has not confirmed it yet.
    to_confirm("resumes", "TIMEOUT").await;
    to_confirm("fails", "TIMEOUT").await;
    waits.submit(&server).await;
    let is_there = |app: &Value| app["applicationState"] == "Accepted";
    until(&server, "/ws/v1/partition/default/application/waits", is_there).await;
    until(&server, "/ws/v1/partition/default/application/runs", |app| app["applicationState"] == "Running").await;
    let last = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].as_u64().expect("a number");
    stream.up_to(last).await;
    let before = shown(&server, &ids).await;
    let states: Vec<&Value> = ids.iter().enumerate().map(|(at, _)| &before[at]["applicationState"]).collect();
    assert_eq!(states, ["Accepted", "Running", "Running", "Running", "Resuming", "Failing"], "{before}");
    let (next, before_events) = events(&server).await;
    server.program.kill();

    let server = with_data(dir.path());
    assert_eq!(shown(&server, &ids).await, before);
    // All of them go on: what is to be confirmed is confirmed, and there is room for those who wait.
    let mut stream = server.stream(&format!("?after={last}")).await;
    let listed = server.get(LISTED).await.1;
    let rows = listed["releases"].as_array().cloned().unwrap_or_default();
    let confirm = |row: &Value| {
        json!({"partitionName": "default", "applicationID": row["applicationID"],
            "allocationKey": row["allocationKey"], "terminationType": row["terminationType"]})
    };
    let confirmed: Vec<Value> = rows.iter().map(confirm).collect();
    send(&server, "allocations", json!({"releases": {"allocationsToRelease": confirmed}})).await;
    server.nodes(&["n3", "n4"]).await;
    let wanted = ["swaps-real", "waits-ph-0", "waits-ph-1"];
    let mut placed = Vec::new();
    while placed.len() < wanted.len() {
        let line = stream.next().await;
        let new = line["allocation"]["new"].as_array().cloned().unwrap_or_default();
        placed.extend(new.iter().filter_map(|new| new["allocationKey"].as_str().map(str::to_owned)));
    }
    placed.sort();
    assert_eq!(placed, wanted);
    until(&server, LISTED, |listed| listed["releases"] == json!([])).await;
    // Their events go on: what was written is there as it was, and no id is used twice.
    let (later, after_events) = events(&server).await;
    assert!(later > next && !after_events.is_empty(), "{later} and {next}");
    for event in after_events.iter().filter(|event| event["id"].as_u64() < Some(next)) {
        assert!(before_events.contains(event), "{event}");
    }
    assert_eq!(server.get("/ws/v1/scheduler/healthcheck").await.1["Healthy"], true);
}

/// The next question, whatever else comes before.
pub async fn question(stream: &mut Lines) -> Value {
    loop {
        let line = stream.next().await;
        if line.get("predicates").is_some() {
            return line;
        }
    }
}

pub async fn answer(server: &Server, question: &Value) {
    let body = json!({"id": question["id"], "success": true, "message": ""});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/answers", &body).await.0, 202);
}

#[tokio::test]
async fn a_question_that_was_open_is_put_once_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    let body = json!({"rmID": "rm-1", "config": CONFIG});
    assert_eq!(server.send("POST", "/si/v1/rm?predicates=true", &body).await.0, 200);
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    application(&server, "app").await;
    asks(&server, "app", &["a"], 60).await;
    let first = question(&mut stream).await;
    server.program.kill();

    let server = with_data(dir.path());
    // What awaits the shim is charged: nothing else takes its place.
    asks(&server, "app", &["b"], 60).await;
    let mut stream = server.stream(&format!("?after={}", first["seq"])).await;
    let again = question(&mut stream).await;
    assert_eq!((&again["predicates"], again["id"] != first["id"]), (&first["predicates"], true), "{again}");
    // The one before has no answer any more.
    let stale = json!({"id": first["id"], "success": false, "message": "too late"});
    server.send("POST", "/si/v1/rm/rm-1/answers", &stale).await;
    answer(&server, &again).await;
    let line = loop {
        let line = stream.next().await;
        if !line["allocation"]["new"].is_null() {
            break line;
        }
    };
    assert_eq!(line["allocation"]["new"][0]["allocationKey"], "a", "{line}");
}

/// Time passes for a server that is not there.
async fn gone_for(time: Duration) {
    let begun = std::time::Instant::now();
    common::until(async || begun.elapsed() >= time).await;
}

async fn killed_in_time(data: &Path, gangs: &[Gang]) -> bool {
    let mut server = with_data(data);
    server.register("rm-1", &[("rm.resendAfter", "10m")]).await;
    let _stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    for gang in gangs {
        gang.submit(&server).await;
    }
    let held = |node: &Value| node[0]["allocations"].as_array().is_some_and(|all| all.len() == gangs.len());
    until(&server, "/ws/v1/partition/default/nodes", held).await;
    let listed = server.get(LISTED).await.1;
    server.program.kill();
    listed["releases"] == json!([])
}

#[tokio::test]
async fn deadlines_that_pass_while_the_server_is_gone_fall_due_at_its_start() {
    let time = Duration::from_secs(3);
    // Half of each finds room.
    let gangs = [gang("resumes", "Soft", 3_000, 2, 60), gang("fails", "Hard", 3_000, 2, 30)];
    let mut dir = tempfile::tempdir().expect("a directory");
    // On a machine that is slow today the time may be over before.
    while !killed_in_time(dir.path(), &gangs).await {
        dir = tempfile::tempdir().expect("a directory");
    }
    gone_for(time).await;
    let begun = std::time::Instant::now();
    let server = with_data(dir.path());
    for (id, state) in [("resumes", "Resuming"), ("fails", "Failing")] {
        let path = format!("/ws/v1/partition/default/application/{id}");
        until(&server, &path, |app| app["applicationState"] == state).await;
        until(&server, LISTED, |listed| released(listed, id, "TIMEOUT") == 1).await;
    }
    println!("due after {:.1?}", begun.elapsed());
}
