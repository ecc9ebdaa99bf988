//! Events by the ids of the log of their resource manager: every server has them, and a reader goes on at another one.

use serde_json::{Value, json};

use crate::{
    cluster::rig::{self, NEVER, ask, follows, leads, session, start, start_with},
    common,
    shim::server::{Lines, Server},
    wired::rig::Running,
};

/// Follows the events of `rm-1` from an id on.
async fn follow(server: &Server, from: u64) -> Lines {
    let path = format!("/api/v1/events?rm=rm-1&from={from}&follow=true");
    let asked = async || server.http.get(server.url(&path)).send().await.expect("an answer");
    let answer = common::answer("the events", asked, |answer| answer.status() != 503).await;
    assert_eq!(answer.status(), 200);
    Lines::of(answer)
}

/// The events that there are from an id on, without the last line.
async fn all(server: &Server, from: u64) -> Vec<Value> {
    let answer = server.http.get(server.url(&format!("/api/v1/events?rm=rm-1&from={from}"))).send().await;
    let mut lines = Lines::of(answer.expect("an answer"));
    let mut all = Vec::new();
    loop {
        match lines.next().await {
            line if line["next"].is_u64() => return all,
            line => all.push(line),
        }
    }
}

fn ids(lines: &[Value]) -> Vec<u64> {
    lines.iter().map(|line| line["id"].as_u64().unwrap_or_else(|| panic!("{line}"))).collect()
}

fn is_of(line: &Value, key: &str) -> bool {
    [&line["objectID"], &line["referenceID"]].contains(&&json!(key))
}

/// Asks one after the other, until nobody takes it any more.
fn churn(server: &Server) -> tokio::task::JoinHandle<()> {
    let (http, url) = (server.http.clone(), server.url("/si/v1/rm/rm-1/allocations"));
    tokio::spawn(async move {
        for nth in 0.. {
            let asks: Vec<Value> = (0..5)
                .map(|of| {
                    json!({"allocationKey": format!("churn-{nth}-{of}"), "applicationID": "app", "partitionName": "default",
                        "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}})
                })
                .collect();
            if http.post(&url).json(&json!({"allocations": asks})).send().await.is_err() {
                return;
            }
        }
    })
}

#[tokio::test]
async fn a_reader_goes_on_at_another_server_when_the_leader_is_killed() {
    let Some(etcd) = rig::etcd("a_reader_goes_on_at_another_server_when_the_leader_is_killed") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (mut leader, other) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    session(&leader).await;
    follows(&other).await;
    let mut callbacks = leader.stream("?after=0").await;
    ask(&leader, &["first"]).await;
    let mut lines = follow(&leader, 0).await;
    let mut read = Vec::new();
    while !read.iter().any(|line| is_of(line, "first")) {
        read.push(lines.next().await);
    }
    let both = format!("{},{}", leader.url(""), other.url(""));
    let told = ["events", "--server", &both, "--rm", "rm-1", "--from", "0", "--follow", "--json"];
    let told = Running::start(common::command(&told));
    let asking = churn(&leader);
    while !read.iter().any(|line| is_of(line, "churn-20-0")) {
        read.push(lines.next().await);
    }
    // With events that nobody has read, and some that are not on the disk.
    leader.program.kill();
    while let Some(line) = lines.text().await {
        // The last one may be torn.
        read.extend(serde_json::from_str::<Value>(&line));
    }
    asking.await.expect("it ends");
    while callbacks.text().await.is_some() {}
    let mut lines = follow(&other, read.len() as u64).await;
    leads(&other).await;
    let _callbacks = other.stream("?after=0").await;
    ask(&other, &["last"]).await;
    while !read.iter().any(|line| is_of(line, "last")) {
        read.push(lines.next().await);
    }
    let upto = read.len();
    assert_eq!(ids(&read), (0..upto as u64).collect::<Vec<_>>(), "each once, and in order");
    let same = all(&other, 0).await;
    assert_eq!(same[..upto], read);
    // So does the command, by itself.
    common::until(async || told.out().lines().count() >= upto).await;
    let out = told.out();
    let lines: Vec<Value> = out.lines().take(upto).map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines, read);
    // The one that was killed reads the log, has what it had, and what came meanwhile.
    let again = start(&etcd, one.path(), NEVER);
    follows(&again).await;
    let mut lines = follow(&again, 0).await;
    for line in &read {
        assert_eq!(lines.next().await, *line);
    }
    // Of what other servers did, those with its own ids tell nothing.
    let own = again.http.get(again.url("/api/v1/events?from=0")).send().await.expect("an answer");
    assert!(!own.text().await.expect("a body").contains("\"last\""));
    let (status, records) = again.get("/ws/v1/events/batch").await;
    assert_eq!((status, &records["EventRecords"]), (200, &Value::Null), "{records}");
    // The last ones, backwards.
    let answer = again.http.get(again.url(&format!("/api/v1/events?rm=rm-1&last=7&before={upto}"))).send().await;
    let text = answer.expect("an answer").text().await.expect("a body");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[..7], read[upto - 7..]);
    assert_eq!(lines[7], json!({"next": upto, "previous": upto - 7}));
}

#[tokio::test]
async fn ids_go_on_over_snapshots_sessions_and_hand_overs() {
    let Some(etcd) = rig::etcd("ids_go_on_over_snapshots_sessions_and_hand_overs") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let leader = start(&etcd, one.path(), "4000");
    session(&leader).await;
    let _callbacks = leader.stream("?after=0").await;
    for nth in 0..40 {
        ask(&leader, &[&*format!("a-{nth}")]).await;
    }
    leader.until(|info| info["buffered"].as_u64() > Some(30)).await;
    common::until(async || etcd.keys().iter().any(|key| key.contains("/snap/"))).await;
    // One that joins at a snapshot knows of no event before it; nor does one that has no disk.
    // This one takes none when it leads: what comes then would be before it.
    let other = start_with(&etcd.url(), two.path(), NEVER, &["--ephemeral"]);
    follows(&other).await;
    let end = async || {
        let (one, two) = (all(&leader, 0).await, all(&other, 0).await);
        (one.len() as u64, two)
    };
    let (upto, joined) = common::answer("what is followed", end, |(upto, joined)| {
        joined.last().is_some_and(|line| line["id"].as_u64().or(line["gap"]["to"].as_u64()) == Some(upto - 1))
    })
    .await;
    assert_eq!(joined[0]["gap"]["from"], 0, "{joined:?}");
    assert_eq!(joined[0]["gap"]["reason"], "retention");
    // Another session goes on with its ids.
    leader.register("rm-1", &[]).await;
    leader.nodes(&["n9"]).await;
    let mut lines = follow(&other, upto).await;
    let mut read = Vec::new();
    while !read.iter().any(|line| is_of(line, "n9")) {
        read.push(lines.next().await);
    }
    assert_eq!(ids(&read), (upto..upto + read.len() as u64).collect::<Vec<_>>());
    assert_eq!(all(&leader, upto).await[..read.len()], read);
    // And the next leader.
    leader.program.signal("TERM");
    assert_eq!(leader.program.ended().await, Some(0));
    leads(&other).await;
    other.nodes(&["n10"]).await;
    while !read.iter().any(|line| is_of(line, "n10")) {
        read.push(lines.next().await);
    }
    assert_eq!(ids(&read), (upto..upto + read.len() as u64).collect::<Vec<_>>());
    let leader = start(&etcd, one.path(), "4000");
    follows(&leader).await;
    let mut lines = follow(&leader, upto).await;
    let mut again = Vec::new();
    while !again.iter().any(|line| is_of(line, "n10")) {
        again.push(lines.next().await);
    }
    assert_eq!(again, read);
    // The first events are on its disk.
    let before = all(&leader, 0).await;
    assert_eq!(ids(&before[..upto as usize]), (0..upto).collect::<Vec<_>>());
    let (status, problem) = leader.get("/api/v1/events?rm=rm-9").await;
    assert_eq!((status, &problem["detail"]), (404, &json!("resource manager 'rm-9' not found; there are: rm-1")));
}

#[tokio::test]
async fn one_server_alone_goes_on_over_a_restart() {
    let data = tempfile::tempdir().expect("a directory");
    let serve = || {
        let mut command = common::serve(&["--data", &data.path().display().to_string()]);
        command.env("CALLBOARD_TEST_SNAPSHOT_BYTES", "4000");
        rig::started(command)
    };
    let mut server = serve();
    server.register("rm-2", &[]).await;
    session(&server).await;
    let mut read = Vec::new();
    for round in 0..4 {
        let callbacks = server.stream("?after=0").await;
        let key = format!("k-{round}");
        ask(&server, &[&key]).await;
        // Of another resource manager, in between.
        let nodes = json!({"nodes": [{"nodeID": format!("other-{round}"), "action": "CREATE"}]});
        assert_eq!(server.send("POST", "/si/v1/rm/rm-2/nodes", &nodes).await.0, 202);
        let mut lines = follow(&server, read.len() as u64).await;
        while !read.iter().any(|line| is_of(line, &key) && line["type"] == "APP") {
            read.push(lines.next().await);
        }
        drop(callbacks);
        if round % 2 == 0 {
            server.program.signal("TERM");
            assert_eq!(server.program.ended().await, Some(0));
            server = serve();
        } else {
            server.register("rm-1", &[]).await;
            session(&server).await;
        }
    }
    assert_eq!(ids(&read), (0..read.len() as u64).collect::<Vec<_>>());
    assert!(!read.iter().any(|line| line["objectID"].as_str().is_some_and(|object| object.starts_with("other"))));
    assert_eq!(all(&server, 0).await[..read.len()], read);
    // What a kill takes of them is a gap, behind which ids go on.
    server.nodes(&["n-killed"]).await;
    let ends = |lines: Vec<Value>| lines.last().and_then(|line| line["id"].as_u64());
    let upto =
        common::answer("the events", async || ends(all(&server, 0).await), |id| *id > Some(read.len() as u64)).await;
    server.program.kill();
    let server = serve();
    server.nodes(&["n-new"]).await;
    let mut lines = follow(&server, upto.expect("an id")).await;
    let mut rest = Vec::new();
    while !rest.iter().any(|line| is_of(line, "n-new")) {
        rest.push(lines.next().await);
    }
    let mut next = upto.expect("an id");
    for line in rest {
        let first = line["id"].as_u64().or(line["gap"]["from"].as_u64());
        assert_eq!(first, Some(next), "{line}");
        next = line["gap"]["to"].as_u64().unwrap_or(next) + 1;
    }
}
