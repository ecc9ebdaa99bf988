//! `kill -9` of the server at any moment, under load: its history afterwards is dense, ordered and without repetition, nothing of
//! it is lost that was said to be written, and what an operator was told is on disk. `CALLBOARD_TEST_KILLS=200` for more kills.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::{
    shim::server::{Lines, Server},
    wired::rig::with_data,
};

const FLUSH: Duration = Duration::from_millis(200);

/// What was seen of the server before it was killed.
#[derive(Default)]
struct Seen {
    /// Lines of events by id, and when they came.
    events: BTreeMap<u64, (String, Instant)>,
    /// Drains (true) and undrains of the operator that were acknowledged, in order.
    drains: Vec<(String, bool)>,
    /// One that was under way.
    open: Option<(String, bool)>,
}

fn post(server: &Server, path: &str, body: Value) -> impl Future<Output = Option<u16>> + use<> {
    let sent = server.http.post(server.url(path)).json(&body).send();
    async move { Some(sent.await.ok()?.status().as_u16()) }
}

/// Applications and asks that come and go, until the server is gone.
async fn load(server: &Server) -> Option<()> {
    let nodes = (0..4).map(|n| {
        json!({"nodeID": format!("n{n}"), "action": "CREATE", "schedulableResource": {"resources": {"memory": {"value": 100_000}}}})
    });
    post(server, "/si/v1/rm/rm-1/nodes", json!({"nodes": nodes.collect::<Vec<_>>()})).await?;
    let app = json!({"applicationID": "app", "queueName": "root.a", "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}});
    post(server, "/si/v1/rm/rm-1/applications", json!({"new": [app]})).await?;
    for round in 0.. {
        let key = |n: u64| format!("r{round}k{n}");
        let ask = |n: u64| {
            json!({"allocationKey": key(n), "applicationID": "app", "partitionName": "default",
                "resourcePerAlloc": {"resources": {"memory": {"value": 10}}}})
        };
        post(server, "/si/v1/rm/rm-1/allocations", json!({"allocations": (0..50).map(ask).collect::<Vec<_>>()}))
            .await?;
        let release = |n: u64| json!({"partitionName": "default", "applicationID": "app", "allocationKey": key(n), "terminationType": "STOPPED_BY_RM"});
        let gone = json!({"releases": {"allocationsToRelease": (0..50).map(release).collect::<Vec<_>>()}});
        post(server, "/si/v1/rm/rm-1/allocations", gone).await?;
    }
    Some(())
}

/// Reads events as they come.
async fn follow(server: &Server, seen: &mut BTreeMap<u64, (String, Instant)>) -> Option<()> {
    let answer = server.http.get(server.url("/api/v1/events?follow=true")).send().await.ok()?;
    let mut lines = Lines::of(answer);
    while let Some(line) = lines.text().await {
        if let Some(id) = serde_json::from_str::<Value>(&line).ok().and_then(|event| event["id"].as_u64()) {
            assert!(seen.insert(id, (line, Instant::now())).is_none(), "event {id} came twice");
        }
    }
    Some(())
}

/// Asks how many events were written.
async fn watch(server: &Server, written: &mut u64) -> Option<()> {
    loop {
        let scrape = server.http.get(server.url("/ws/v1/metrics")).send().await.ok()?.text().await.ok()?;
        let found = scrape.lines().find_map(|line| line.strip_prefix("callboard_event_store_written_total "));
        *written = found.expect("the metric").parse().expect("a number");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Drains and undrains nodes in turn.
async fn operate(server: &Server, seen: &mut Seen) -> Option<()> {
    for round in 0.. {
        let node = format!("n{}", round % 4);
        // As the acknowledged ones left it.
        let drained = seen.drains.iter().rev().find(|(host, _)| *host == node).is_some_and(|(_, drained)| *drained);
        seen.open = Some((node.clone(), !drained));
        let path = format!("/api/v1/partition/default/resource/{}", if drained { "undrain" } else { "drain" });
        match post(server, &path, json!({"targets": node})).await? {
            200 => seen.drains.extend(seen.open.take()),
            // Not registered yet, or as it is already: the last life ended before it could say so.
            409 => seen.drains.push((node, !drained)),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Some(())
}

fn eventlog(data: &Path) -> Option<PathBuf> {
    let partition = fs::read_dir(data.join("journal")).ok()?.next()?.ok()?.path();
    Some(partition.join("resource.eventlog"))
}

/// Drains and undrains by operators in a journal file, which may end in a torn line where that is `allowed`.
fn stored(file: &Path, torn_allowed: bool) -> Vec<(String, bool)> {
    let text = fs::read(file).unwrap_or_default();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    assert!(torn_allowed || whole == text.len(), "the file ends in a torn line");
    let lines = String::from_utf8(text[..whole].to_vec()).expect("UTF-8");
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("every line is whole"));
    let drains = events.filter(|event| event["name"] == "drain" || event["name"] == "undrain");
    drains
        .map(|event| (event["context"]["nodelist"].as_str().expect("a host").to_owned(), event["name"] == "drain"))
        .collect()
}

/// The log from an id on: dense, and equal to what was seen. Gives the next id and the gaps.
async fn history(server: &Server, from: u64, seen: &Seen) -> (u64, Vec<(u64, u64)>) {
    let answer = server.http.get(server.url(&format!("/api/v1/events?from={from}"))).send().await.expect("answers");
    let mut lines = Lines::of(answer);
    let (mut next, mut gaps, mut nanos) = (from, Vec::new(), 0);
    loop {
        let text = lines.text().await.expect("it ends with the next id");
        let line: Value = serde_json::from_str(&text).expect("JSON");
        if let Some(id) = line["id"].as_u64() {
            assert_eq!(id, next, "dense and ordered");
            let at: u64 = line["timestampNano"].as_str().and_then(|text| text.parse().ok()).expect("a time");
            assert!(at >= nanos, "in the order of time");
            nanos = at;
            if let Some((before, _)) = seen.events.get(&id) {
                assert_eq!(*before, text, "an id is given once");
            }
            next += 1;
        } else if let Some(gap) = line.get("gap") {
            assert_eq!((gap["from"].as_u64(), &gap["reason"]), (Some(next), &json!("crash")), "{gap}");
            let to = gap["to"].as_u64().expect("an id");
            gaps.push((next, to + 1));
            next = to + 1;
        } else {
            assert_eq!(line["next"].as_u64(), Some(next), "{line}");
            return (next, gaps);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_nothing_that_was_written_and_tear_nothing() {
    let kills: u32 = std::env::var("CALLBOARD_TEST_KILLS").map_or(8, |kills| kills.parse().expect("a number"));
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let dir = tempfile::tempdir().expect("a directory");
    let mut seen = Seen::default();
    let (mut checked, mut total, mut told, mut lost, mut latest) = (0, 0, 0, 0, Duration::ZERO);
    let mut kill = 0;
    // On a busy machine lives may be too short for anything to happen: they get longer until something did.
    while kill < kills || total == 0 || told == 0 || seen.drains.is_empty() {
        assert!(
            kill < kills + 10,
            "nothing happens: {total} events seen, {told} written, {} drains",
            seen.drains.len()
        );
        let mut server = with_data(dir.path());
        // Ids of this life begin behind all others.
        let first = history(&server, checked, &Seen::default()).await.0;
        let flush = format!("{}ms", FLUSH.as_millis());
        server.register("rm-1", &[("event.store.flushInterval", &flush)]).await;
        let life = Duration::from_millis(random.random_range(1..1_500) << kill.saturating_sub(kills));
        let (mut events, mut written) = (BTreeMap::new(), 0);
        let died = tokio::select! {
            _ = load(&server) => true,
            _ = follow(&server, &mut events) => true,
            _ = operate(&server, &mut seen) => true,
            _ = watch(&server, &mut written) => true,
            () = tokio::time::sleep(life) => false,
        };
        assert!(!died, "the server ended by itself");
        let killed = Instant::now();
        server.program.kill();
        total += events.len();
        told += written;
        seen.events = events;

        // The journal: nothing torn but the last line, and every acknowledged drain.
        if let Some(file) = eventlog(dir.path()) {
            let mut found = stored(&file, true);
            // The one under way may be there or not.
            if seen.open.is_some() && found.last() == seen.open.as_ref() && found.len() > seen.drains.len() {
                found.pop();
                seen.drains.extend(seen.open.take());
                found.extend(seen.drains.last().cloned());
            }
            assert_eq!(found, seen.drains, "kill {kill}");
        }
        seen.open = None;

        // The events: read by the next server.
        let mut server = with_data(dir.path());
        let (next, gaps) = history(&server, checked, &seen).await;
        let last = gaps.last().copied().unwrap_or((next, next));
        // That a flush comes in time is tested on a paused clock: how long it takes depends on the machine.
        // Where nothing of this run was written, its gap and that of the run before are one.
        assert!(
            written == 0 || last.0 >= first + written,
            "{written} events from {first} on were written before kill {kill}, and not all are there: {gaps:?}"
        );
        for (_, came) in seen.events.range(last.0.max(first)..).map(|(_, seen)| seen) {
            latest = latest.max(killed.duration_since(*came));
            lost += 1;
        }
        assert!(seen.events.keys().next_back().is_none_or(|id| *id < next), "ids go on behind those given out");
        if let Some(file) = eventlog(dir.path()) {
            server.register("rm-1", &[]).await;
            assert_eq!(stored(&file, false), seen.drains, "after kill {kill}");
        }
        checked = history(&server, checked, &seen).await.0;
        server.program.kill();
        kill += 1;
    }
    let server = with_data(dir.path());
    let (next, gaps) = history(&server, 0, &seen).await;
    println!(
        "{kill} kills: {total} events seen live, {lost} of them lost, the oldest {latest:?} before its kill; \
         {} drains acknowledged, none lost; ids 0 to {next} with {} gaps",
        seen.drains.len(),
        gaps.len(),
    );
}
