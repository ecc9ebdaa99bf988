//! Flights: a small day is recorded, listed, exported, shown, checked and served at its moments.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use callboard::{
    actors::rm::record,
    store::log::{Record, flight::Flight},
};
use serde_json::{Value, json};

use crate::{
    common::{self, Program},
    shim::server::{CONFIG, Server},
    wired::rig::{application, asks, end, until, with_data},
};

/// Runs `callboard flight`; whether it was content, and what it printed.
fn flight(args: &[&str]) -> (bool, String) {
    let output = common::command(&[&["flight"], args].concat()).output().expect("runs");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.success(), text)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

async fn submit(server: &Server, id: &str, user: &str) {
    let tags = json!({"namespace": "secret-project"});
    let app = json!({"applicationID": id, "queueName": "root.a", "partitionName": "default", "tags": tags, "ugi": {"user": user, "groups": ["wizards"]}});
    let (status, body) = server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [app]})).await;
    assert_eq!(status, 202, "{body}");
}

/// A day: applications of two users, one of which waits at the end for room.
async fn day(server: &Server) {
    let limited =
        CONFIG.replace("- name: a", "- name: a\n            properties: {api.token: hunter2}\n            limits: [{limit: l, users: [merlin], maxapplications: 5}]");
    // Of people who never come.
    let rules = "placementrules: [{name: provided, filter: {type: deny, users: [gandalf], groups: [balrogs]}}]\n    queues:\n      - name: root";
    let body = json!({"rmID": "rm-1", "config": limited.replace("queues:\n      - name: root", rules)});
    assert_eq!(server.send("POST", "/si/v1/rm", &body).await.0, 200);
    let mut stream = server.stream("").await;
    server.nodes(&["n1"]).await;
    submit(server, "spell-1", "merlin").await;
    asks(server, "spell-1", &["a", "b", "c"], 10).await;
    let mut placed = 0;
    while placed < 3 {
        placed += stream.next().await["allocation"]["new"].as_array().map_or(0, Vec::len);
    }
    submit(server, "spell-2", "morgana").await;
    asks(server, "spell-2", &["d"], 60).await;
    while stream.next().await["allocation"]["new"].is_null() {}
    asks(server, "spell-2", &["e"], 60).await;
    until(server, "/ws/v1/partition/default/application/spell-2", |app| {
        app["requests"].as_array().is_some_and(|all| all.len() == 1)
    })
    .await;
    let release = json!({"partitionName": "default", "applicationID": "spell-1", "allocationKey": "a", "terminationType": "STOPPED_BY_RM"});
    let gone = json!({"releases": {"allocationsToRelease": [release]}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/allocations", &gone).await.0, 202);
    while stream.next().await["allocation"]["released"].is_null() {}
}

/// Runs `callboard whatif` over a flight; its exit status, and what it printed.
fn whatif(args: &[&str]) -> (Option<i32>, String) {
    let output = common::command(&[&["whatif"], args].concat()).output().expect("runs");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.code(), text)
}

/// A server that shows a flight.
fn serve(args: &[&str]) -> Server {
    let mut command = common::command(&["flight", "serve", "--http", "127.0.0.1:0"]);
    command.args(args);
    let program = Program::try_start(command).unwrap_or_else(|why| panic!("{why}"));
    Server { program, http: reqwest::Client::new() }
}

async fn keys(server: &Server, app: &str) -> Option<Vec<String>> {
    let (status, app) = read(server, &format!("/ws/v1/partition/default/application/{app}")).await;
    if status != 200 {
        return None;
    }
    let all = app["allocations"].as_array().into_iter().flatten();
    let mut keys: Vec<String> = all.map(|one| one["allocationKey"].as_str().expect("a key").to_owned()).collect();
    keys.sort();
    Some(keys)
}

/// A read of a server that shows the past, which says so.
async fn read(server: &Server, path: &str) -> (u16, Value) {
    let answer = server.http.get(server.url(path)).send().await.expect("answers");
    let moment = answer.headers().get("callboard-moment").expect("every answer says which moment it is");
    assert!(moment.to_str().expect("a text").starts_with("index="), "{path}: {moment:?}");
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

const BATCH: &str = "/ws/v1/events/batch?count=10000";

async fn go(server: &Server, wanted: Value) -> Value {
    let (status, shown) = server.send("POST", "/api/v1/flight", &wanted).await;
    assert_eq!(status, 200, "{shown}");
    shown
}

#[tokio::test]
async fn a_small_day_is_recorded_exported_checked_and_served_at_its_moments() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    day(&server).await;
    let live: Value = server.get("/ws/v1/partition/default/queues").await.1;
    let data = text(dir.path());

    // Beside the running server.
    let (content, listed) = flight(&["list", "--data", data]);
    assert!(content && listed.starts_with("rm-1: records 1 to "), "{listed}");
    let (content, checked) = flight(&["check", "--data", data]);
    assert!(content && checked.contains("all of them lead to what they led to"), "{checked}");
    let file = dir.path().join("day.flight");
    let (content, exported) = flight(&["export", "--data", data, "--rm", "rm-1", "-o", text(&file)]);
    assert!(content && exported.contains("records"), "{exported}");
    let (content, refused) = flight(&["export", "--data", data, "--rm", "rm-9", "-o", text(&file)]);
    assert!(!content && refused.contains("rm-9") && refused.contains("rm-1"), "{refused}");
    let (content, checked) = flight(&["check", text(&file)]);
    assert!(content && checked.contains("all of them lead to what they led to"), "{checked}");

    // What happened to one thing, for people and for programs.
    let (content, shown) = flight(&["show", text(&file), "--object", "spell-2"]);
    assert!(content && shown.contains("in   application spell-2 by morgana of wizards for root.a"), "{shown}");
    assert!(shown.contains("out  new d of spell-2 on n1") && !shown.contains("spell-1"), "{shown}");
    let (content, shown) = flight(&["show", text(&file), "--json"]);
    assert!(content);
    let rows: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |what: &str| {
        let found =
            rows.iter().find(|row| row["out"].to_string().contains(what)).unwrap_or_else(|| panic!("{what}: {shown}"));
        found["index"].as_u64().expect("a number")
    };
    let (first, second) = (of("new c of spell-1 on n1"), of("accepted application spell-2"));
    let (content, one) = flight(&["show", text(&file), "--at", &second.to_string()]);
    assert!(content && one.starts_with(&format!("{second} ")) && one.contains("accepted application spell-2"), "{one}");
    for beside in ["999999", "2020-01-01T00:00"] {
        let (content, refused) = flight(&["show", text(&file), "--at", beside]);
        assert!(!content && refused.contains("the flight goes from record 1, "), "{refused}");
    }

    // Its end is as the server is.
    let past = serve(&[text(&file)]);
    assert_eq!(read(&past, "/ws/v1/partition/default/queues").await.1, live);
    assert_eq!(keys(&past, "spell-1").await.expect("there"), ["b", "c"]);
    assert_eq!(keys(&past, "spell-2").await.expect("there"), ["d"]);
    let why = read(&past, "/api/v1/partition/default/application/spell-2/explain").await.1;
    let now = server.get("/api/v1/partition/default/application/spell-2/explain").await.1;
    assert_eq!(why["groups"][0]["reason"], now["groups"][0]["reason"], "{why} and {now}");
    assert!(read(&past, "/api/v1/overview").await.1["partitions"][0]["name"] == "default");
    assert_eq!(past.http.get(past.url("/")).send().await.expect("answers").status(), 200, "the page");
    // Events up to there are those that were published, and so are timelines and what was used.
    let published = server.get(BATCH).await.1["EventRecords"].clone();
    assert_eq!(read(&past, BATCH).await.1["EventRecords"], published);
    let timeline = "/api/v1/partition/default/application/spell-2/explain?timeline=true";
    let so_far = read(&past, timeline).await.1["timeline"].clone();
    let rows = so_far["rows"].as_array().map_or(0, Vec::len);
    assert!(rows > 2 && so_far == server.get(timeline).await.1["timeline"], "{so_far}");
    let used = "/api/v1/partition/default/usage/history?by=user";
    let [then, live_used] = [&past, &server].map(|server| server.http.get(server.url(used)).send());
    let then = then.await.expect("answers").text().await.expect("a text");
    let live_used = live_used.await.expect("answers").text().await.expect("a text");
    let who = |text: &str| {
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter_map(|line| line["user"].as_str().map(str::to_owned)).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(!who(&then).is_empty() && who(&then) == who(&live_used), "{then} and {live_used}");
    // Nothing can be changed.
    for (method, path) in [
        ("POST", "/si/v1/rm"),
        ("POST", "/si/v1/rm/rm-1/nodes"),
        ("POST", "/api/v1/partition/default/resource/drain"),
        ("PUT", "/ws/v1/config"),
        ("DELETE", "/si/v1/rm/rm-1"),
    ] {
        let (status, problem) = past.send(method, path, &json!({})).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(matches!(status, 405 | 409) && detail.contains("past"), "{method} {path}: {status} {problem}");
    }
    // Back and forth.
    let shown = go(&past, json!({"index": first})).await;
    assert_eq!(shown["moment"]["index"], first, "{shown}");
    assert_eq!(keys(&past, "spell-1").await.expect("there"), ["a", "b", "c"]);
    assert_eq!(keys(&past, "spell-2").await, None, "not submitted yet");
    let earlier = read(&past, BATCH).await.1;
    let (some, all) = (earlier["EventRecords"].as_array().expect("events"), published.as_array().expect("events"));
    assert!(!some.is_empty() && some.len() < all.len() && all.starts_with(some), "{earlier}");
    assert!(!earlier.to_string().contains("spell-2"), "{earlier}");
    go(&past, json!({"index": second})).await;
    assert_eq!(keys(&past, "spell-2").await.expect("there"), [""; 0]);
    let began = go(&past, json!({"time": shown["first"]["time"]})).await;
    assert_eq!(began["moment"], began["first"]);
    let end = go(&past, json!({"time": "2100-01-01T00:00:00Z"})).await;
    assert_eq!(end["moment"], end["last"]);
    assert_eq!(keys(&past, "spell-1").await.expect("there"), ["b", "c"]);
    for wrong in
        [json!({}), json!({"index": 1, "time": "2026-01-01T00:00:00Z"}), json!({"time": "noon"}), json!({"x": 1})]
    {
        let (status, problem) = past.send("POST", "/api/v1/flight", &wrong).await;
        assert!(status == 400 && problem["detail"].as_str().is_some_and(|text| text.contains("index")), "{problem}");
    }
    // Deadlines do not fall due in it, and ages stand still.
    let before = read(&past, "/api/v1/overview").await.1["now"].clone();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(read(&past, "/api/v1/overview").await.1["now"], before);
    // What a change would do is found out of that moment, too: what waits has waited until then, whenever somebody asks.
    let change = json!({"nodeAdd": [{"count": 1, "like": "n1"}], "for": "1s"});
    let (status, first_told) = past.send("POST", "/api/v1/whatif", &change).await;
    assert!(status == 200 && first_told["whole"]["with"]["waits"]["asks"] == 1, "{first_told}");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(past.send("POST", "/api/v1/whatif", &change).await.1, first_told);
    // A server of the present has no flight.
    assert_eq!(server.get("/api/v1/flight").await.0, 404);
    let at = serve(&["--data", data, "--at", &first.to_string()]);
    assert_eq!(keys(&at, "spell-2").await, None);
}

#[tokio::test]
async fn a_recorded_day_runs_again_without_a_change_and_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    day(&server).await;
    let file = dir.path().join("day.flight");
    let (content, exported) = flight(&["export", "--data", text(dir.path()), "-o", text(&file)]);
    assert!(content, "{exported}");
    let file = text(&file);
    let (_, shown) = flight(&["show", file, "--object", "n1", "--json"]);
    let row: Value = serde_json::from_str(shown.lines().next().expect("a record")).expect("JSON");
    let at = row["index"].to_string();

    // `e` waits for room; another node has it.
    let (status, told) = whatif(&["--flight", file, "--at", &at, "--node-add", "1:like=n1", "-o", "json"]);
    assert_eq!(status, Some(0), "{told}");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let (without, with) = (&told["whole"]["without"], &told["whole"]["with"]);
    assert_eq!(
        (&without["placed"], &with["placed"], &told["recorded"]["placed"]),
        (&json!(4), &json!(5), &json!(4)),
        "{told}"
    );
    assert_eq!(
        (&without["waiting"], &with["waiting"], &with["waits"]["asks"]),
        (&json!(1), &json!(0), &json!(5)),
        "{told}"
    );
    assert_eq!(
        (&without["averageCapacity"], &with["averageCapacity"]),
        (&json!({"memory": 100}), &json!({"memory": 200}))
    );
    let app = &told["applications"][0];
    assert_eq!(
        (&app["applicationID"], &app["placedOnly"]["with"], &app["new"]),
        (&json!("spell-2"), &json!(1), &json!(false))
    );
    // For people; settings of queues are those of that day.
    let (status, told) = whatif(&["--flight", file, "--at", &at, "--queue", "root.a:max.memory=20"]);
    assert_eq!(status, Some(3), "{told}");
    for line in
        ["As it was: 4 asks placed; waits: half ", "known of 1 of the 4", "no longer placed", "max: {memory: 20}"]
    {
        assert!(told.contains(line), "{line}: {told}");
    }
    // What cannot be is told with the way out.
    for (args, why) in [
        (&["--flight", file, "--node-add", "1:like=n1"][..], "--at names a later moment"),
        (&["--flight", file, "--at", "1", "--node-drain", "n9"], "--partition default: it is not in the flight"),
        (&["--flight", file, "--at", &at, "--node-drain", "n9"], "node 'n9' is not registered"),
        (&["--flight", file], "no change is named"),
        (&["--flight", "/no/such.flight", "--node-drain", "n1"], "/no/such.flight: it cannot be read"),
        (&["--at", "1", "--node-drain", "n1"], "--flight"),
    ] {
        let (status, told) = whatif(args);
        assert!(status.is_some_and(|status| status != 0) && told.contains(why), "{args:?}: {told}");
    }
}

#[tokio::test]
async fn planted_damage_and_a_planted_difference_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    day(&server).await;
    server.program.kill();
    let file = dir.path().join("day.flight");
    assert!(flight(&["export", "--data", text(dir.path()), "-o", text(&file)]).0);
    // A record that is whole, and says that something else came of it.
    let found = Flight::read(&file).expect("a flight");
    let victim =
        found.records().filter(|record| record.kind == record::kind::PARTITION).nth(3).expect("a record").index;
    let mut planted = Flight::new(found.title.clone(), found.about.clone(), None);
    for record in found.records() {
        let mut payload = record.payload.to_vec();
        if record.index == victim {
            let steps = record::read_steps(record.payload).expect("steps");
            record::write_steps(&record::Steps { digest: steps.digest ^ 1, ..steps }, &mut payload);
        }
        planted.push(&Record { payload: &payload, ..record });
    }
    let other = dir.path().join("other.flight");
    planted.write(&other).expect("written");
    let (content, checked) = flight(&["check", text(&other)]);
    assert!(!content && checked.contains(&format!("record {victim} of ")), "{checked}");
    assert!(checked.contains("leads to something else than it did") && checked.contains("  in   "), "{checked}");
    // It can be seen all the same.
    let past = serve(&[text(&other)]);
    let shown = read(&past, "/api/v1/flight").await.1;
    assert_eq!(shown["differs"], victim, "{shown}");
    assert_eq!(keys(&past, "spell-1").await.expect("there"), ["b", "c"]);
    // A flipped bit.
    let mut bytes = std::fs::read(&file).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&file, bytes).expect("written");
    let (content, checked) = flight(&["check", text(&file)]);
    assert!(!content && checked.contains("damaged at byte"), "{checked}");
    let (_, told) = whatif(&["--flight", text(&file), "--at", "2", "--node-drain", "n1"]);
    assert!(told.contains("the flight ends early"), "{told}");
    // And in the state with which a flight begins.
    end(with_data(dir.path())).await;
    assert!(flight(&["export", "--data", text(dir.path()), "--from", "2100-01-01", "-o", text(&file)]).0);
    let whole = std::fs::read(&file).expect("readable");
    for part in 5..10 {
        let mut bytes = whole.clone();
        bytes[whole.len() * part / 20] ^= 4;
        std::fs::write(&file, bytes).expect("written");
        let (content, checked) = flight(&["check", text(&file)]);
        assert!(!content && checked.contains("damaged at byte"), "{checked}");
    }
    let (content, refused) = flight(&["check", text(&dir.path().join("none"))]);
    assert!(!content && refused.contains("cannot be read"), "{refused}");
    let other = dir.path().join("notes.txt");
    std::fs::write(&other, "what I have to do tomorrow").expect("written");
    let (content, refused) = flight(&["check", text(&other)]);
    assert!(!content && refused.contains("it is no flight"), "{refused}");
}

#[tokio::test]
async fn a_flight_tells_why_a_node_is_drained_and_since_when() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    day(&server).await;
    let drain = json!({"targets": "n1", "reason": "its fan is loud"});
    assert_eq!(server.send("POST", "/api/v1/partition/default/resource/drain", &drain).await.0, 200);
    let nodes = "/api/v1/partition/default/nodes";
    until(&server, nodes, |all| !all["nodes"][0]["drainedSince"].is_null()).await;
    let live = server.get(nodes).await.1["nodes"][0].clone();
    let file = dir.path().join("day.flight");
    assert!(flight(&["export", "--data", text(dir.path()), "-o", text(&file)]).0);
    let past = serve(&[text(&file)]);
    let (then, told) = (read(&past, nodes).await.1["nodes"][0].clone(), json!("by an operator: its fan is loud"));
    assert_eq!((&then["drained"], &live["drained"]), (&told, &told));
    // Times of the log have microseconds.
    let since = |node: &Value| node["drainedSince"].as_str().expect("a time").trim_end_matches('Z').to_owned();
    assert!(since(&live).starts_with(&since(&then)), "{then} and {live}");
}

/// No name is in a flight, which is one like any other.
fn names_nobody(file: &Path) {
    let bytes = String::from_utf8_lossy(&std::fs::read(file).expect("readable")).into_owned();
    for name in
        ["merlin", "morgana", "wizards", "spell-", "secret-project", "gandalf", "balrogs", "hunter2", "an operator"]
    {
        assert!(!bytes.contains(name), "{name} is in it");
    }
    let (content, checked) = flight(&["check", text(file)]);
    assert!(content && checked.contains("all of them lead to what they led to"), "{checked}");
}

#[tokio::test]
async fn a_redacted_flight_names_nobody_and_is_a_flight_like_any_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    day(&server).await;
    let node = json!({"nodeID": "n1", "action": "UPDATE", "attributes": {"vault-token": "hunter2"}});
    assert_eq!(server.send("POST", "/si/v1/rm/rm-1/nodes", &json!({"nodes": [node]})).await.0, 202);
    let drain = json!({"targets": "n1", "reason": "see http://root:hunter2@wiki.example/x, password=\"hunter2\""});
    for (order, body) in [("drain", drain), ("undrain", json!({"targets": "n1"}))] {
        let path = format!("/api/v1/partition/default/resource/{order}");
        assert_eq!(server.send("POST", &path, &body).await.0, 200);
    }
    for order in ["stop", "resume"] {
        let path = format!("/api/v1/partition/default/queue/root.a/{order}");
        assert_eq!(server.send("POST", &path, &json!({"reason": "moved"})).await.0, 200);
    }
    let file = dir.path().join("day.flight");
    let (content, exported) = flight(&["export", "--data", text(dir.path()), "--redact", "-o", text(&file)]);
    assert!(content && exported.contains("redacted"), "{exported}");
    names_nobody(&file);
    let past = serve(&[text(&file)]);
    let shown = read(&past, "/api/v1/flight").await.1;
    assert_eq!(shown["redacted"], true, "{shown}");
    let apps = read(&past, "/ws/v1/partition/default/applications/active").await.1;
    let apps = apps.as_array().expect("a list");
    let mut held: Vec<usize> = apps.iter().map(|app| app["allocations"].as_array().map_or(0, Vec::len)).collect();
    held.sort();
    assert_eq!(held, [1, 2], "{apps:?}");
    // From the snapshot of an orderly end on.
    crate::wired::rig::end(server).await;
    let server = with_data(dir.path());
    let mut stream = server.stream("?after=0").await;
    application(&server, "spell-3").await;
    asks(&server, "spell-3", &["f"], 1).await;
    while stream.next().await["allocation"]["new"][0]["allocationKey"] != "f" {}
    let file = dir.path().join("late.flight");
    let args = ["export", "--data", text(dir.path()), "--from", "2100-01-01T00:00", "--redact", "-o", text(&file)];
    let (content, exported) = flight(&args);
    assert!(content, "{exported}");
    let late = Flight::read(&file).expect("a flight");
    assert!(late.snapshot.is_some() && late.records().all(|record| record.index >= 1));
    names_nobody(&file);
    let began = Instant::now();
    let past = serve(&[text(&file)]);
    println!("opened in {:?}", began.elapsed());
    assert_eq!(read(&past, "/ws/v1/partitions").await.1[0]["totalContainers"], 4);
}
