//! Who follows is told that the server ends, and goes on when it is back.

use serde_json::{Value, json};

use crate::{
    common::{self, command},
    shim::server::{Lines, Server},
    wired::rig::{Running, application, end, until, with_data},
};

const STATUS: &str = "/api/v1/partition/default/resource/status";

async fn tell(server: &Server, what: &str) {
    let path = format!("/api/v1/partition/default/resource/{what}");
    assert_eq!(server.send("POST", &path, &json!({"targets": "n1", "reason": "disk"})).await, (200, json!({})));
}

#[tokio::test]
async fn the_last_line_says_that_the_server_ends() {
    let server = Server::registered(&[]).await;
    let stream = async |path: &str| Lines::of(server.http.get(server.url(path)).send().await.expect("an answer"));
    let mut journal = stream("/api/v1/partition/default/resource/journal").await;
    assert_eq!(journal.next().await, json!({"events": []}));
    let mut audit = stream("/api/v1/audit?follow=true").await;
    let first = audit.next().await["id"].as_u64().expect("an id");
    let (status, problem) = server.get(&format!("/api/v1/audit?from={}", first + 1000)).await;
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(status == 400 && detail.contains("does not exist yet: the next one is "), "{problem}");
    server.program.signal("TERM");
    let last = async |mut lines: Lines| {
        let mut last = Value::Null;
        while let Some(line) = lines.text().await {
            last = serde_json::from_str(&line).expect("JSON");
        }
        last
    };
    let (journal, audit) = tokio::join!(last(journal), last(audit));
    let detail = "the server is shutting down: attach again when it is back";
    assert_eq!(journal, json!({"closing": {"status": 503, "detail": detail}}));
    assert_eq!(audit["closed"]["detail"], "the server is shutting down", "{audit}");
    assert!(audit["closed"]["next"].as_u64() > Some(first), "{audit}");
    assert_eq!(server.program.ended().await, Some(0));
}

#[tokio::test]
async fn commands_that_follow_go_on_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    let address = server.program.address("http");
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    until(&server, STATUS, |status| status["online"]["nodelist"] == "n1").await;
    tell(&server, "drain").await;
    let follow = |words: &[&str]| Running::start(command(&[words, &["--server", &address]].concat()));
    let journal = follow(&["journal", "--follow"]);
    let mut waiting = follow(&["journal", "--wait", "undrain"]);
    let audit = follow(&["audit", "--follow"]);
    let apps = follow(&["apps", "--watch"]);
    journal.prints(" drain idset=\"0\"").await;
    waiting.prints(" drain idset=\"0\"").await;
    audit.prints("/resource/drain done 200: disk: n1").await;
    apps.prints("There are none.").await;
    assert_eq!(end(server).await, Some(0));
    for command in [&journal, &waiting, &audit, &apps] {
        command.complains("; trying again\n").await;
    }

    let data = dir.path().display().to_string();
    let at = address.trim_start_matches("http://");
    let server = Server::start(&["--grpc", "off", "--data", &data, "--http", at]);
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    until(&server, STATUS, |status| status["online"]["nodelist"] == "n1").await;
    tell(&server, "undrain").await;
    application(&server, "app-2").await;
    journal.prints(" undrain idset=\"0\"").await;
    audit.prints("/resource/undrain done 200: disk: n1").await;
    apps.prints("app-2").await;
    common::until(async || !waiting.runs()).await;
    for (command, what) in [(&journal, " drain idset=\"0\""), (&waiting, " drain idset=\"0\""), (&audit, "/drain done")]
    {
        let out = command.out();
        assert_eq!(out.matches(what).count(), 1, "what was printed comes once: {out}");
    }
    let ids: Vec<String> =
        audit.out().lines().filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect();
    assert!(ids.is_sorted_by(|a, b| a.parse::<u64>().ok() < b.parse::<u64>().ok()), "{ids:?}");
}

#[tokio::test]
async fn at_another_server_commands_go_on_by_time_and_not_by_the_ids_of_the_first() {
    let order = async |server: &Server, what: &str| {
        let path = format!("/api/v1/partition/default/queue/root.a/{what}");
        assert_eq!(server.send("POST", &path, &json!({})).await.0, 200);
    };
    // The second has more of its own, or less.
    for many in [50, 0] {
        let (mut first, second) = (Server::registered(&[]).await, Server::registered(&[]).await);
        let olds: Vec<String> = (0..many).map(|n| format!("old-{n}")).collect();
        for id in &olds {
            application(&second, id).await;
        }
        order(&second, "stop").await;
        let ids: Vec<String> = (0..20).map(|n| format!("app-{n}")).collect();
        for id in &ids {
            application(&first, id).await;
        }
        order(&first, "drain").await;
        let servers = format!("{},{}", first.url(""), second.url(""));
        let follow = |words: &[&str]| Running::start(command(&[words, &["--server", &servers]].concat()));
        let (events, audit) = (follow(&["events", "--follow", "-n", "1000"]), follow(&["audit", "--follow"]));
        events.prints("app-19").await;
        audit.prints("queue/root.a/drain").await;
        first.program.kill();
        let note = format!("{} answers now: its ids are its own, and what follows is from ", second.url(""));
        for command in [&events, &audit] {
            command.complains(&note).await;
        }
        order(&second, "resume").await;
        application(&second, "new").await;
        events.prints(" new").await;
        audit.prints("queue/root.a/resume").await;
        let (events, audit) = (events.out(), audit.out());
        assert!(!events.contains("old-"), "{events}");
        assert!(!audit.contains("queue/root.a/stop"), "{audit}");
        assert_eq!(audit.matches("queue/root.a/drain").count(), 1, "{audit}");
    }
}
