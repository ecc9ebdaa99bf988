//! What operators told one server holds at the next, whatever its own journal remembers.

use serde_json::{Value, json};

use crate::{
    cluster::{
        proxy::Proxy,
        rig::{self, NEVER, follows, leads, said_to_follow, sees, session, start, start_with},
    },
    common::command,
    shim::server::{CONFIG, Lines, Server},
    wired::rig::{Running, until},
};

const STATUS: &str = "/api/v1/partition/default/resource/status";

async fn tell(server: &Server, what: &str, targets: &str) {
    let path = format!("/api/v1/partition/default/resource/{what}");
    let (status, body) = server.send("POST", &path, &json!({"targets": targets, "reason": "disk"})).await;
    assert_eq!(status, 200, "{body}");
}

async fn stop(server: &Server, what: &str) {
    let (status, body) =
        server.send("POST", &format!("/api/v1/partition/default/queue/root.a/{what}"), &json!({})).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn drains_and_orders_to_queues_go_with_the_lead() {
    let Some(etcd) = rig::etcd("drains_and_orders_to_queues_go_with_the_lead") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let first = start(&etcd, one.path(), NEVER);
    session(&first).await;
    until(&first, STATUS, |status| status["online"]["nodelist"] == "n[1-2]").await;
    tell(&first, "drain", "n1").await;
    stop(&first, "stop").await;
    let second = start(&etcd, two.path(), NEVER);
    sees(&first, 2).await;
    first.program.signal("TERM");
    assert_eq!(first.program.ended().await, Some(0));
    leads(&second).await;
    let drained = until(&second, STATUS, |status| status["drained"][0]["nodelist"] == "n1").await;
    assert_eq!(drained["drained"][0]["by"], json!(["operator"]), "{drained}");
    let queue = second.get("/api/v1/partition/default/queue/root.a").await.1;
    assert!(queue.to_string().contains("stop"), "{queue}");
    // What is taken back there is taken back for the first as well, which still has it in its own journal.
    tell(&second, "undrain", "n1").await;
    stop(&second, "resume").await;
    let first = start(&etcd, one.path(), NEVER);
    sees(&second, 2).await;
    second.program.signal("TERM");
    assert_eq!(second.program.ended().await, Some(0));
    leads(&first).await;
    until(&first, STATUS, |status| status["drained"] == json!([])).await;
    let nodes = first.get("/ws/v1/partition/default/nodes").await.1;
    assert!(nodes.as_array().expect("nodes").iter().all(|node| node["schedulable"] == true), "{nodes}");
    let ask = async || first.get("/api/v1/partition/default/queue/root.a").await.1.to_string();
    crate::common::answer("the queue", ask, |queue| !queue.contains("stop")).await;
}

const QUEUE: &str = "/api/v1/partition/default/queue/root.a";

/// Says something, and gives how it was answered.
async fn say(server: &Server, path: &str, body: Value) -> (u16, Value) {
    server.send("POST", path, &body).await
}

async fn drain(server: &Server, targets: &str, reason: &str) {
    let body = json!({"targets": targets, "reason": reason, "deadline": "90m"});
    let (status, body) = say(server, "/api/v1/partition/default/resource/drain", body).await;
    assert_eq!(status, 200, "{body}");
}

/// With nodes that its journal knows.
async fn begun(server: &Server) {
    session(server).await;
    until(server, STATUS, |status| status["online"]["nodelist"] == "n[1-2]").await;
}

/// The only drain, whenever that is seen.
async fn drained(server: &Server, node: &str) -> Value {
    let status = until(server, STATUS, |status| status["drained"][0]["nodelist"] == node).await;
    assert_eq!(status["drained"].as_array().map(Vec::len), Some(1), "{status}");
    status["drained"][0].clone()
}

/// Says it as soon as it is taken, whoever leads.
async fn at_once(server: &Server, what: &str) {
    let path = format!("/api/v1/partition/default/resource/{what}");
    let body = json!({"targets": "n1", "reason": "disk", "overwrite": 1}).to_string();
    loop {
        let request = server.http.post(server.url(&path)).header("content-type", "application/json");
        // It is sent to the leader that is gone before.
        if request.body(body.clone()).send().await.is_ok_and(|answer| answer.status() == 200) {
            return;
        }
    }
}

#[tokio::test]
async fn what_an_operator_says_as_soon_as_another_server_leads_holds() {
    let Some(etcd) = rig::etcd("what_an_operator_says_as_soon_as_another_server_leads_holds") else { return };
    let dirs = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let mut leader = start(&etcd, dirs[0].path(), NEVER);
    begun(&leader).await;
    let mut expected = "";
    for turn in 1..=5 {
        let mut next = start(&etcd, dirs[turn % 2].path(), NEVER);
        follows(&next).await;
        // What the log of the session knew has come to the journal of its leader by the time that another server follows it.
        let status = leader.get(STATUS).await.1;
        assert_eq!(status["drained"][0]["nodelist"].as_str().unwrap_or(""), expected, "{status}");
        let drains = turn % 2 == 1;
        leader.program.kill();
        at_once(&next, if drains { "drain" } else { "undrain" }).await;
        expected = if drains { "n1" } else { "" };
        std::mem::swap(&mut leader, &mut next);
    }
}

#[tokio::test]
async fn a_leader_that_is_killed_after_its_answer_loses_nothing_of_what_operators_said() {
    let Some(etcd) = rig::etcd("a_leader_that_is_killed_after_its_answer_loses_nothing_of_what_operators_said") else {
        return;
    };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (mut first, mut second) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    begun(&first).await;
    follows(&second).await;
    drain(&first, "n1", "disk").await;
    let told = first.get(STATUS).await.1["drained"][0].clone();
    let (status, body) = say(&first, &format!("{QUEUE}/stop"), json!({"reason": "rack"})).await;
    first.program.kill();
    assert_eq!(status, 200, "{body}");
    leads(&second).await;
    // With reason, time and deadline.
    let row = drained(&second, "n1").await;
    assert_eq!((&row, &row["reason"]), (&told, &json!("disk")));
    assert!(row["deadline"].is_string() || row["deadline"].is_number(), "{row}");
    let order = second.get(QUEUE).await.1["order"].clone();
    assert_eq!(order["reason"], "rack", "{order}");
    // What is taken back is, and what is new comes.
    let first = start(&etcd, one.path(), NEVER);
    follows(&first).await;
    tell(&second, "undrain", "n1").await;
    stop(&second, "resume").await;
    drain(&second, "n2", "fan").await;
    second.program.kill();
    leads(&first).await;
    assert_eq!(drained(&first, "n2").await["reason"], "fan");
    let queue = async || first.get(QUEUE).await.1["order"].clone();
    crate::common::answer("the queue", queue, Value::is_null).await;
}

#[tokio::test]
async fn what_etcd_has_not_heard_of_is_not_answered_as_done() {
    let Some(etcd) = rig::etcd("what_etcd_has_not_heard_of_is_not_answered_as_done") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let proxy = Proxy::to(&etcd.url());
    let first = start_with(&proxy.url(), one.path(), NEVER, &[]);
    let mut second = start(&etcd, two.path(), NEVER);
    begun(&first).await;
    follows(&second).await;
    proxy.stall();
    let body = json!({"targets": "n1", "reason": "lost"});
    let order = json!({"reason": "lost"});
    let answers = tokio::join!(
        say(&first, "/api/v1/partition/default/resource/drain", body),
        say(&first, "/api/v1/partition/default/queue/root.a/stop", order),
    );
    assert_eq!((answers.0.0, answers.1.0), (503, 503), "{answers:?}");
    leads(&second).await;
    assert_eq!(second.get(STATUS).await.1["drained"], json!([]));
    assert_eq!(second.get(QUEUE).await.1["order"], Value::Null);
    // Said to the leader it holds, also at the one before, which was told something else.
    drain(&second, "n2", "fan").await;
    proxy.pass();
    follows(&first).await;
    second.program.kill();
    leads(&first).await;
    assert_eq!(drained(&first, "n2").await["reason"], "fan");
    let queue = async || first.get(QUEUE).await.1["order"].clone();
    crate::common::answer("the queue", queue, Value::is_null).await;
}

#[tokio::test]
async fn a_host_that_is_away_stays_drained_wherever_it_comes_back() {
    let Some(etcd) = rig::etcd("a_host_that_is_away_stays_drained_wherever_it_comes_back") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let first = start(&etcd, one.path(), NEVER);
    begun(&first).await;
    drain(&first, "n2", "fan").await;
    let gone = json!({"nodes": [{"nodeID": "n2", "action": "DECOMISSION"}]});
    assert_eq!(say(&first, "/si/v1/rm/rm-1/nodes", gone).await.0, 202);
    until(&first, STATUS, |status| status["offline"]["nodelist"] == "n2").await;
    let second = start(&etcd, two.path(), NEVER);
    follows(&second).await;
    first.program.signal("TERM");
    assert_eq!(first.program.ended().await, Some(0));
    leads(&second).await;
    assert_eq!(drained(&second, "n2").await["reason"], "fan");
    second.nodes(&["n2"]).await;
    until(&second, STATUS, |status| status["online"]["nodelist"] == "n[1-2]").await;
    assert_eq!(drained(&second, "n2").await["reason"], "fan");
    let nodes = second.get("/ws/v1/partition/default/nodes").await.1;
    let open = nodes.as_array().expect("nodes").iter().filter(|node| node["schedulable"] == true);
    assert_eq!(open.map(|node| &node["nodeID"]).collect::<Vec<_>>(), ["n1"], "{nodes}");
}

#[tokio::test]
async fn what_operators_said_holds_for_the_next_session_at_another_server() {
    let Some(etcd) = rig::etcd("what_operators_said_holds_for_the_next_session_at_another_server") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (mut first, second) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    begun(&first).await;
    follows(&second).await;
    drain(&first, "n1", "disk").await;
    let told = first.get(STATUS).await.1["drained"][0].clone();
    assert_eq!(say(&first, &format!("{QUEUE}/stop"), json!({"reason": "rack"})).await.0, 200);
    assert_eq!(first.delete("/si/v1/rm/rm-1").await.0, 200);
    first.program.kill();
    leads(&second).await;
    begun(&second).await;
    let row = drained(&second, "n1").await;
    assert_eq!(
        (&row["reason"], &row["timestamp"], &row["deadline"]),
        (&told["reason"], &told["timestamp"], &told["deadline"])
    );
    assert_eq!(second.get(QUEUE).await.1["order"]["reason"], "rack");
    let nodes = second.get("/ws/v1/partition/default/nodes").await.1;
    let open = nodes.as_array().expect("nodes").iter().filter(|node| node["schedulable"] == true);
    assert_eq!(open.map(|node| &node["nodeID"]).collect::<Vec<_>>(), ["n2"], "{nodes}");
}

/// The other server leads from now on.
async fn hand_over(from: &Server, to: &Server) {
    said_to_follow(from, to).await;
    let (status, told) = say(from, "/api/v1/cluster/move", json!({"rm": "rm-1", "server": to.url("")})).await;
    assert_eq!(status, 200, "{told}");
    leads(to).await;
    follows(from).await;
}

#[tokio::test]
async fn what_was_taken_back_holds_for_the_next_session_at_a_server_that_knows_the_opposite() {
    let test = "what_was_taken_back_holds_for_the_next_session_at_a_server_that_knows_the_opposite";
    let Some(etcd) = rig::etcd(test) else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (first, second) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    begun(&first).await;
    drain(&first, "n1", "disk").await;
    stop(&first, "stop").await;
    hand_over(&first, &second).await;
    drained(&second, "n1").await;
    hand_over(&second, &first).await;
    tell(&first, "undrain", "n1").await;
    stop(&first, "resume").await;
    assert_eq!(first.delete("/si/v1/rm/rm-1").await.0, 200);
    hand_over(&first, &second).await;
    begun(&second).await;
    assert_eq!(second.get(STATUS).await.1["drained"], json!([]));
    assert_eq!(second.get(QUEUE).await.1["order"], Value::Null);
}

#[tokio::test]
async fn a_partition_that_a_configuration_left_out_is_as_operators_told_it_wherever_it_comes_back() {
    let test = "a_partition_that_a_configuration_left_out_is_as_operators_told_it_wherever_it_comes_back";
    let Some(etcd) = rig::etcd(test) else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    // With a snapshot after every few records.
    let (first, second) = (start(&etcd, one.path(), "2000"), start(&etcd, two.path(), "2000"));
    let both = format!("{CONFIG}  - name: gpu\n    queues:\n      - name: root\n        submitacl: '*'\n");
    assert_eq!(first.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": both})).await.0, 200);
    let node = json!({"nodes": [{"nodeID": "g1", "action": "CREATE", "attributes": {"si/node-partition": "gpu"}}]});
    assert_eq!(first.send("POST", "/si/v1/rm/rm-1/nodes", &node).await.0, 202);
    let status = "/api/v1/partition/gpu/resource/status";
    until(&first, status, |status| status["online"]["nodelist"] == "g1").await;
    let order = json!({"targets": "g1", "reason": "fan"});
    assert_eq!(say(&first, "/api/v1/partition/gpu/resource/drain", order).await.0, 200);
    let configure = async |server: &Server, text: &str| {
        let (status, told) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": text})).await;
        assert_eq!(status, 200, "{told}");
    };
    configure(&first, CONFIG).await;
    let nodes: Vec<String> = (0..40).map(|nth| format!("n{nth}")).collect();
    first.nodes(&nodes.iter().map(String::as_str).collect::<Vec<_>>()).await;
    hand_over(&first, &second).await;
    configure(&second, &both).await;
    assert_eq!(second.send("POST", "/si/v1/rm/rm-1/nodes", &node).await.0, 202);
    let shown = until(&second, status, |status| status["online"]["nodelist"] == "g1").await;
    assert_eq!(
        (&shown["drained"][0]["nodelist"], &shown["drained"][0]["reason"]),
        (&json!("g1"), &json!("fan")),
        "{shown}"
    );
}

#[tokio::test]
async fn who_follows_a_journal_goes_on_at_the_server_that_leads() {
    let Some(etcd) = rig::etcd("who_follows_a_journal_goes_on_at_the_server_that_leads") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (first, second) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    begun(&first).await;
    follows(&second).await;
    sees(&first, 2).await;
    let path = "/api/v1/partition/default/resource/journal";
    let mut lines = Lines::of(first.http.get(first.url(path)).send().await.expect("an answer"));
    let servers = format!("{},{}", first.url(""), second.url(""));
    let followed = Running::start(command(&["journal", "--follow", "--server", &servers]));
    followed.prints(" online idset=\"0-1\"").await;
    hand_over(&first, &second).await;
    let mut seen = Vec::new();
    while let Some(line) = lines.text().await {
        seen.push(line);
    }
    let last: Value = serde_json::from_str(seen.last().expect("a line")).expect("JSON");
    assert_eq!(
        (&last["closing"]["status"], &last["closing"]["leader"]),
        (&json!(307), &json!(second.url(""))),
        "{last}"
    );
    // No node went away.
    assert!(!seen.iter().any(|line| line.contains("\"offline\"")), "{seen:?}");
    // What is said to whoever leads is heard, and each once, also when the lead comes back.
    drain(&second, "n1", "disk").await;
    followed.prints("reason=\"disk\"").await;
    hand_over(&second, &first).await;
    drain(&first, "n2", "fan").await;
    followed.prints("reason=\"fan\"").await;
    let printed = followed.out();
    let mut events: Vec<&str> = printed.lines().collect();
    assert!(!printed.contains("offline"), "{printed}");
    events.sort_unstable();
    events.dedup();
    assert_eq!(events.len(), printed.lines().count(), "{printed}");
}
