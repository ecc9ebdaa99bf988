//! Waiting over real sockets, by the endpoints and by the command.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    common,
    shim::server::{CONFIG, Server},
    wired::{
        restart_open::{answer, question},
        rig::{application, asks, until, with_data},
    },
};

fn wait(of: &str, query: &str) -> String {
    format!("/api/v1/partition/default/{of}/wait?{query}")
}

/// The command, with its exit status and what it printed.
async fn command(server: &Server, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = common::command(args);
    command.args(["--server", &server.url("")]);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("waited for");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn an_answer_comes_when_it_holds_or_with_the_reason() {
    let server = Server::registered(&[]).await;
    application(&server, "app-1").await;
    asks(&server, "app-1", &["k1"], 60).await;
    let path = wait("application/app-1", "for=running&timeout=1m");
    let (running, ()) = tokio::join!(server.get(&path), server.nodes(&["n1"]));
    assert_eq!((running.0, &running.1["met"], &running.1["state"]), (200, &json!(true), &json!("Running")));
    asks(&server, "app-1", &["k2"], 60).await;
    let began = Instant::now();
    let (_, late) = server.get(&wait("application/app-1", "for=placed&timeout=300ms")).await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!((&late["met"], &late["state"]), (&json!(false), &json!("Running")));
    assert!(late["why"].as_str().is_some_and(|why| why.contains("memory")), "{late}");
    let (_, node) = server.get(&wait("node/n1", "for=drained&timeout=0s")).await;
    let why = node["why"].as_str().expect("why").to_owned();
    assert!(why.contains("not drained") && why.contains("1 allocation runs on it: app-1"), "{why}");
    for (path, part) in [
        (wait("queue/root.a", "for=running"), "'running' cannot be waited for of a queue; there are: empty, room"),
        (wait("node/n1", "for=online&timeout=5"), "timeout is '5'"),
        (wait("node/n1", ""), "for is missing"),
    ] {
        let (status, problem) = server.get(&path).await;
        assert!(
            status == 400 && problem["detail"].as_str().is_some_and(|text| text.contains(part)),
            "{path}: {problem}"
        );
    }
}

#[tokio::test]
async fn a_node_is_not_empty_while_others_run_something_on_it() {
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    let foreign = async |key: &str, kind: &str| {
        let amount = json!({"resources": {"memory": {"value": "1"}}});
        let allocation = json!({"allocationKey": key, "nodeID": "n1", "resourcePerAlloc": amount,
            "allocationTags": {"foreign": kind}});
        let (status, told) =
            server.send("POST", "/si/v1/rm/rm-1/allocations", &json!({"allocations": [allocation]})).await;
        assert_eq!(status, 202, "{told}");
    };
    foreign("kubelet", "static").await;
    foreign("daemon", "default").await;
    common::until(async || {
        let (_, answer) = server.get(&wait("node/n1", "for=empty&timeout=0s")).await;
        answer["met"] == false && answer["why"] == "1 allocation of other schedulers runs on it: daemon"
    })
    .await;
    let path = wait("node/n1", "for=empty&timeout=1m");
    let goes = async {
        let release =
            json!({"partitionName": "default", "allocationKey": "daemon", "terminationType": "STOPPED_BY_RM"});
        let releases = json!({"releases": {"allocationsToRelease": [release]}});
        assert_eq!(server.send("POST", "/si/v1/rm/rm-1/allocations", &releases).await.0, 202);
    };
    let (empty, ()) = tokio::join!(server.get(&path), goes);
    assert_eq!(empty.1["met"], true, "what is static stays: {}", empty.1);
}

#[tokio::test]
async fn what_the_shim_is_still_asked_about_is_not_there_yet() {
    let server = Server::start(&[]);
    let body = json!({"rmID": "rm-1", "config": CONFIG});
    assert_eq!(server.send("POST", "/si/v1/rm?predicates=true", &body).await.0, 200);
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    application(&server, "app-1").await;
    asks(&server, "app-1", &["k1"], 60).await;
    let asked = question(&mut stream).await;
    let met = async |of: &str, condition: &str| {
        let (status, answer) = server.get(&wait(of, &format!("for={condition}&timeout=0s"))).await;
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let status = "/api/v1/partition/default/resource/status";
    let placed = met("application/app-1", "placed").await;
    assert_eq!(placed["met"], false, "{placed}");
    assert_eq!(met("node/n1", "empty").await["met"], true);
    until(&server, status, |status| status["online"]["nodelist"] == "n1").await;
    assert_eq!(server.get(status).await.1["allocated"]["nodelist"], "");
    // Where it is to run nothing, the reason names nothing either.
    let drained = met("node/n1", "drained").await;
    assert_eq!(drained["why"], "it is not drained: new allocations go to it");
    let path = wait("application/app-1", "for=placed&timeout=1m");
    let (placed, ()) = tokio::join!(server.get(&path), answer(&server, &asked));
    assert_eq!(placed.1["met"], true, "{}", placed.1);
    assert_eq!(met("node/n1", "empty").await["why"], "1 allocation runs on it: app-1");
    assert_eq!(server.get(status).await.1["allocated"]["nodelist"], "n1");
}

#[tokio::test]
async fn an_application_that_is_removed_answers_its_waiters() {
    let server = Server::registered(&[]).await;
    server.nodes(&["n1"]).await;
    let [done, taken] = [("done", "completed"), ("taken", "placed")]
        .map(|(app, condition)| wait(&format!("application/{app}"), &format!("for={condition}&timeout=1h")));
    let state = async |app: &str, wanted: &str| {
        let path = format!("/ws/v1/partition/default/queue/root.a/application/{app}");
        until(&server, &path, |app| app["applicationState"] == wanted).await;
    };
    let ends = async {
        common::until(async || {
            let metrics = server.http.get(server.url("/metrics")).send().await.expect("an answer");
            metrics.text().await.expect("a text").contains("\ncallboard_waits{partition=\"default\"} 2\n")
        })
        .await;
        application(&server, "done").await;
        application(&server, "taken").await;
        asks(&server, "done", &["k1"], 1).await;
        asks(&server, "taken", &["k1"], 1_000_000).await;
        state("done", "Running").await;
        let release = json!({"releases": {"allocationsToRelease": [{"partitionName": "default", "applicationID": "done",
            "allocationKey": "k1", "terminationType": "STOPPED_BY_RM"}]}});
        assert_eq!(server.send("POST", "/si/v1/rm/rm-1/allocations", &release).await.0, 202);
        state("done", "Completing").await;
        state("taken", "Accepted").await;
        let remove = json!({"remove": [{"applicationID": "done", "partitionName": "default"},
            {"applicationID": "taken", "partitionName": "default"}]});
        assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &remove).await.0, 202);
    };
    let ((_, done), (_, taken), ()) = tokio::join!(server.get(&done), server.get(&taken), ends);
    assert_eq!((&done["met"], &done["state"]), (&json!(true), &json!("Completed")), "{done}");
    let why = json!("application taken was removed");
    assert_eq!(
        (&taken["met"], &taken["never"], &taken["state"], &taken["why"]),
        (&json!(false), &json!(true), &json!("removed"), &why)
    );
}

#[tokio::test]
async fn a_session_that_ends_answers_its_waiters() {
    let server = Server::registered(&[]).await;
    let path = wait("application/later", "for=running&timeout=1h");
    let ends = async {
        // So that it waits.
        until(&server, "/api/v1/overview", |overview| overview["partitions"][0].is_object()).await;
        assert_eq!(server.delete("/si/v1/rm/rm-1").await.0, 200);
    };
    let ((status, problem), ()) = tokio::join!(server.get(&path), ends);
    // 404 where it came after the end.
    assert!([503, 404].contains(&status), "{problem}");
}

#[tokio::test]
async fn a_server_that_ends_answers_who_waits() {
    let server = Server::registered(&[]).await;
    let path = wait("application/later", "for=running&timeout=1h");
    let ends = async {
        common::until(async || {
            let metrics = server.http.get(server.url("/metrics")).send().await.expect("an answer");
            metrics.text().await.expect("a text").contains("\ncallboard_waits{partition=\"default\"} 1\n")
        })
        .await;
        server.program.signal("TERM");
    };
    let ((status, problem), ()) = tokio::join!(server.get(&path), ends);
    assert_eq!((status, &problem["detail"]), (503, &json!("the server is shutting down: ask again when it is back")));
}

#[tokio::test]
async fn the_command_waits_for_several_and_tells_by_its_status() {
    let server = Server::registered(&[]).await;
    application(&server, "app-1").await;
    let comes = async {
        asks(&server, "app-1", &["k1"], 60).await;
        server.nodes(&["n1"]).await;
    };
    let args = ["wait", "app/app-1", "app/app-2", "--for", "running", "--timeout", "2s"];
    let ((status, out, err), ()) = tokio::join!(command(&server, &args), comes);
    assert_eq!((status, &*out), (Some(1), "app/app-1 condition met: running (Running)\n"), "{err}");
    assert_eq!(err, "callboard: app/app-2 timed out: not running; state absent: there is no application app-2\n");
    let (status, out, _) = command(&server, &["wait", "node/n1", "--for", "online"]).await;
    assert_eq!((status, &*out), (Some(0), "node/n1 condition met: online (online)\n"));
    let (status, _, err) = command(&server, &["wait", "node/n1", "--for", "running"]).await;
    assert_eq!(status, Some(2));
    assert!(err.contains("there are: empty, online, drained"), "{err}");
    let refused: Value = server.get(&wait("application/x", "for=running&timeout=61m")).await.1;
    assert!(refused["detail"].as_str().is_some_and(|text| text.contains("from 0 to 1h")), "{refused}");
}

#[tokio::test]
async fn waits_and_changes_of_the_configuration_do_not_hold_up_each_other() {
    let data = tempfile::tempdir().expect("a directory");
    let server = with_data(data.path());
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    let path = wait("node/n1", "for=empty&timeout=30s");
    let waits = async {
        for _ in 0..60 {
            let (_, answer) = server.get(&path).await;
            assert_eq!(answer["met"], true, "{answer}");
        }
    };
    let change = async |name: &str| {
        for n in 0..15 {
            let config = format!("{CONFIG}          - name: {name}-{n}\n");
            let (status, told) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &json!({"config": config})).await;
            assert_eq!(status, 200, "{told}");
        }
    };
    tokio::join!(waits, change("x"), change("y"));
}

#[test]
fn a_command_line_whose_parts_do_not_go_together_ends_as_one_that_cannot_be_read() {
    for (args, why) in [
        (&["bench", "--shape", "S0", "--endpoint", "http://127.0.0.1:9"][..], "--endpoint needs a door"),
        (&["bench", "--growth", "--curve", "moons"], "--curve moons: there is none; the curves are: nodes"),
        (&["cluster", "config", "set", "--force"], "--set <KEY=VALUE>"),
        (&["cluster", "export"], "--cluster says where etcd is"),
        (&["replay", "--trace", "openb", "--pods", "/no/such/file"], "add --nodes FILE"),
        (&["man", "nope"], "callboard has no command 'nope'"),
        (&["simulate"], "--seed, --seeds or --case is wanted"),
        (&["token", "new", "--role", "viewer", "--name", "v", "--configures"], "--configures is for --role shim"),
    ] {
        let output = common::command(args).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && output.stdout.is_empty() && told.contains(why), "{args:?}: {told}");
    }
}
