//! What is wrong or strange about gangs, through the HTTP door: an answer or none as the rules say, nothing left, no crash.

use serde_json::{Value, json};

use crate::shim::server::{Lines, Server};

const RM: &str = "/si/v1/rm/rm-1";

fn resource(amount: i64) -> Value {
    json!({"resources": {"memory": {"value": amount.to_string()}}})
}

fn ask(key: &str, amount: i64, placeholder: bool, group: &str) -> Value {
    json!({"allocationKey": key, "applicationID": "gang", "resourcePerAlloc": resource(amount),
           "placeholder": placeholder, "taskGroupName": group})
}

fn release(key: &str, termination: &str) -> Value {
    json!({"applicationID": "gang", "allocationKey": key, "terminationType": termination})
}

async fn send(server: &Server, path: &str, body: Value) {
    let (status, answer) = server.send("POST", &format!("{RM}/{path}"), &body).await;
    assert_eq!(status, 202, "{answer}");
}

async fn gang(server: &Server, id: &str, millis: i64, style: &str) {
    let new = json!({"applicationID": id, "queueName": "root.a", "ugi": {"user": "u"}, "placeholderAsk": resource(20),
                     "executionTimeoutMilliSeconds": millis, "gangSchedulingStyle": style});
    send(server, "applications", json!({"new": [new]})).await;
}

/// Short texts of what the shim was told until node `mark` was accepted.
async fn heard(server: &Server, stream: &mut Lines, mark: &str) -> Vec<String> {
    // Two, as what is scheduled may follow the answer to the first.
    let mut marks = vec![format!("{mark}-2"), mark.to_owned()];
    let node = |mark: &str| json!({"nodes": [{"nodeID": mark, "action": "CREATE"}]});
    send(server, "nodes", node(mark)).await;
    let mut heard = Vec::new();
    loop {
        let line = stream.next().await;
        if line["node"]["accepted"] == json!([{"nodeID": marks[marks.len() - 1]}]) {
            marks.pop();
            let Some(next) = marks.last() else { return heard };
            send(server, "nodes", node(next)).await;
        }
        let each = |list: &str| line["allocation"][list].as_array().cloned().unwrap_or_default();
        heard
            .extend(each("new").iter().map(|new| format!("new {}", new["allocationKey"].as_str().unwrap_or_default())));
        heard.extend(each("released").iter().map(|gone| {
            format!("released {} {}", gone["allocationKey"].as_str().unwrap_or_default(), gone["terminationType"])
        }));
        heard.extend(each("rejectedAllocations").iter().map(|no| format!("rejected {}", no["reason"])));
        for list in ["accepted", "rejected"] {
            let apps = line["application"][list].as_array().cloned().unwrap_or_default();
            heard
                .extend(apps.iter().map(|app| format!("{list} {}", app["applicationID"].as_str().unwrap_or_default())));
        }
    }
}

async fn finish(server: &Server, stream: &mut Lines) {
    send(server, "applications", json!({"remove": [{"applicationID": "gang"}]})).await;
    heard(server, stream, "end").await;
    let (_, queues) = server.get("/ws/v1/partition/default/queues").await;
    assert!(queues["allocatedResource"].as_object().is_none_or(serde_json::Map::is_empty), "{queues}");
    assert_eq!(server.get("/ws/v1/scheduler/healthcheck").await.1["Healthy"], json!(true));
}

async fn begin() -> (Server, Lines) {
    let server = Server::registered(&[]).await;
    let stream = server.stream("?after=0").await;
    let node = json!({"nodeID": "n1", "action": "CREATE", "schedulableResource": resource(100)});
    send(&server, "nodes", json!({"nodes": [node]})).await;
    (server, stream)
}

#[tokio::test]
async fn time_outs_and_styles_that_make_no_sense() {
    // R3.38, R3.42, SEEDS S33: 15 minutes; a style is read without case, and one that nobody knows is none.
    let (server, mut stream) = begin().await;
    for (n, millis) in [0, -1, i64::MIN, i64::MAX].into_iter().enumerate() {
        gang(&server, &format!("gang-{n}"), millis, ["hard", "", "Wild", "SOFT"][n]).await;
    }
    // A line may carry the answers to several requests, those that accept before those that reject.
    let mut told = heard(&server, &mut stream, "mark").await;
    told.sort();
    assert_eq!(told, ["accepted gang-0", "accepted gang-1", "accepted gang-3", "rejected gang-2"]);
    // More than 64 bits hold is no number of this interface.
    let text = r#"{"new":[{"applicationID":"x","executionTimeoutMilliSeconds":"9223372036854775808"}]}"#;
    let (status, body) = server.send_text("POST", &format!("{RM}/applications"), text, "application/json").await;
    assert_eq!((status, &body["field"]), (400, &json!("new[0].executionTimeoutMilliSeconds")), "{body}");
    finish(&server, &mut stream).await;
}

#[tokio::test]
async fn a_flag_without_a_group_is_an_ordinary_ask() {
    // SEEDS S8, R4.4 [DEFECT]
    let (server, mut stream) = begin().await;
    let app = json!({"applicationID": "gang", "queueName": "root.a", "ugi": {"user": "u"}});
    send(&server, "applications", json!({"new": [app]})).await;
    send(&server, "allocations", json!({"allocations": [ask("k1", 10, true, "")]})).await;
    let told = heard(&server, &mut stream, "mark").await;
    assert_eq!(told, ["accepted gang", "new k1"]);
    let (_, app) = server.get("/ws/v1/partition/default/queue/root.a/application/gang").await;
    assert_eq!((&app["applicationState"], &app["usedResource"]["memory"]), (&json!("Running"), &json!(10)), "{app}");
    finish(&server, &mut stream).await;
}

#[tokio::test]
async fn confirmations_of_what_was_never_released() {
    // R4.18, R4.23b, R4.26, R6.24: the reference crashes on two of them.
    let (server, mut stream) = begin().await;
    gang(&server, "gang", 60_000, "Soft").await;
    let asks = json!([ask("ph1", 10, true, "tg"), ask("ph2", 10, true, "tg"), ask("real", 10, false, "other")]);
    send(&server, "allocations", json!({"allocations": asks})).await;
    assert_eq!(heard(&server, &mut stream, "m1").await, ["accepted gang", "new ph1", "new ph2", "new real"]);
    let releases = json!([
        {"applicationID": "nobody", "allocationKey": "ph1", "terminationType": "PLACEHOLDER_REPLACED"},
        release("nothing", "PLACEHOLDER_REPLACED"),
        release("ph1", "PLACEHOLDER_REPLACED"),
        release("ph1", "PLACEHOLDER_REPLACED"),
        release("ph2", "PREEMPTED_BY_SCHEDULER"),
        release("real", "PLACEHOLDER_REPLACED"),
    ]);
    send(&server, "allocations", json!({"releases": {"allocationsToRelease": releases}})).await;
    assert_eq!(heard(&server, &mut stream, "m2").await, [""; 0], "nothing is told of what the scheduler did not begin");
    gang(&server, "gang-2", 60_000, "Soft").await;
    let mut whole = ask("ph1", 10, true, "tg");
    whole["applicationID"] = json!("gang-2");
    let all = json!({"applicationID": "gang-2", "terminationType": "PLACEHOLDER_REPLACED"});
    send(&server, "allocations", json!({"allocations": [whole]})).await;
    assert_eq!(heard(&server, &mut stream, "m3").await, ["accepted gang-2", "new ph1"]);
    send(&server, "allocations", json!({"releases": {"allocationsToRelease": [all]}})).await;
    let told = heard(&server, &mut stream, "m4").await;
    assert!(told[0].starts_with("released ph1"), "R4.23b: {told:?}");
    finish(&server, &mut stream).await;
}

#[tokio::test]
async fn keys_used_twice_and_real_asks_first() {
    // R4.11, SEEDS S10
    let (server, mut stream) = begin().await;
    gang(&server, "gang", 60_000, "Soft").await;
    let asks = json!([
        ask("r1", 10, false, "tg"),
        ask("ph1", 10, true, "tg"),
        ask("ph2", 10, true, "tg"),
        ask("ph1", 10, false, "other"),
        ask("r1", 10, true, "tg"),
    ]);
    send(&server, "allocations", json!({"allocations": asks})).await;
    let told = heard(&server, &mut stream, "m1").await;
    assert_eq!(told[..3], ["accepted gang", "new ph1", "new ph2"], "{told:?}");
    assert!(told[3].starts_with("released ph1"), "{told:?}");
    assert_eq!(told.len(), 4);
    // The key of a placeholder for a real ask, while it is being replaced: it is the placeholder still.
    send(&server, "allocations", json!({"allocations": [ask("ph1", 10, false, "tg")]})).await;
    let confirmed = json!({"releases": {"allocationsToRelease": [release("ph1", "PLACEHOLDER_REPLACED")]}});
    send(&server, "allocations", confirmed).await;
    assert_eq!(heard(&server, &mut stream, "m2").await, ["new r1"]);
    finish(&server, &mut stream).await;
}
