//! Releases that the scheduler began, over a connection that is lost: told again, listed, counted, and confirmed late.

use serde_json::{Value, json};

use crate::{
    common::LIMIT,
    shim::server::{CONFIG, Lines, Server},
    wired::{
        metrics::until_there,
        rig::{send, until, with_data},
    },
};

const LISTED: &str = "/api/v1/partition/default/releases";

fn ask(key: &str, placeholder: bool) -> Value {
    json!({"allocationKey": key, "applicationID": "gang-1", "partitionName": "default", "taskGroupName": "tg",
        "placeholder": placeholder, "resourcePerAlloc": {"resources": {"memory": {"value": 10}}}})
}

/// Reads until a release, and gives it.
async fn release(stream: &mut Lines) -> Value {
    loop {
        let line = stream.next().await;
        if let Some(release) = line.pointer("/allocation/released/0") {
            return release.clone();
        }
    }
}

/// A gang of one whose replacement waits for the shim.
async fn in_flight(server: &Server) -> Lines {
    server.nodes(&["n1"]).await;
    let stream = server.stream("?after=0").await;
    let gang = json!({"applicationID": "gang-1", "queueName": "root.a", "partitionName": "default",
        "placeholderAsk": {"resources": {"memory": {"value": 10}}}, "ugi": {"user": "u", "groups": ["g"]}});
    send(server, "applications", json!({"new": [gang]})).await;
    send(server, "allocations", json!({"allocations": [ask("ph", true)]})).await;
    send(server, "allocations", json!({"allocations": [ask("real", false)]})).await;
    stream
}

#[tokio::test]
async fn a_shim_that_does_not_confirm_hears_it_again_and_operators_are_told() {
    let extra = [("rm.resendAfter", "100ms"), ("rm.unconfirmedWarning", "1s"), ("health.checkInterval", "1s")];
    let server = Server::registered(&extra).await;
    let mut stream = in_flight(&server).await;
    let told = release(&mut stream).await;
    // The stream stays open: it is told again as time passes.
    assert_eq!(release(&mut stream).await, told);
    let health = "/ws/v1/scheduler/healthcheck";
    let warned = until(&server, health, |body| body["Warnings"][0]["Name"] == "Unconfirmed releases").await;
    let text = warned["Warnings"][0]["DiagnosisMessage"].as_str().expect("text");
    assert!(text.starts_with("1 in partition default: gang-1/ph (PLACEHOLDER_REPLACED, for "), "{text}");
    assert_eq!(warned["Healthy"], true, "{warned}");
    until_there(&server, &["callboard_unconfirmed_releases_overdue 1"]).await;
    send(&server, "allocations", json!({"releases": {"allocationsToRelease": [told]}})).await;
    until(&server, health, |body| body.get("Warnings").is_none()).await;
    until_there(&server, &["callboard_unconfirmed_releases_overdue 0"]).await;
}

#[tokio::test]
async fn what_is_not_confirmed_is_told_again_after_a_lost_connection() {
    // R4.30, the other way round; R6.14–R6.16
    let server = Server::registered(&[]).await;
    let mut stream = in_flight(&server).await;
    let told = release(&mut stream).await;
    assert_eq!(
        (&told["allocationKey"], &told["terminationType"], &told["message"]),
        (&json!("ph"), &json!("PLACEHOLDER_REPLACED"), &json!("replacing allocationKey: real"))
    );
    let listed = until(&server, LISTED, |body| body["releases"][0]["sent"] == 1).await;
    assert_eq!(listed["releases"][0]["allocationKey"], "ph");
    until_there(&server, &["callboard_unconfirmed_releases{type=\"PLACEHOLDER_REPLACED\"} 1"]).await;

    // The connection is lost, and comes back behind everything that was told.
    let seen = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].clone();
    drop(stream);
    server.until(|info| info["streams"] == json!([])).await;
    let mut stream = server.stream(&format!("?after={}", seen.as_str().map_or(seen.to_string(), str::to_owned))).await;
    let again = release(&mut stream).await;
    assert_eq!(again, told, "the same once more");
    until(&server, LISTED, |body| body["releases"][0]["sent"] == 2).await;

    // Confirmed twice, as a shim may that was told twice: it counts once.
    let confirmed = json!({"releases": {"allocationsToRelease": [told, again]}});
    send(&server, "allocations", confirmed).await;
    let new = loop {
        let line = stream.next().await;
        if let Some(new) = line.pointer("/allocation/new/0") {
            break new.clone();
        }
    };
    assert_eq!((&new["allocationKey"], &new["nodeID"]), (&json!("real"), &json!("n1")));
    until(&server, LISTED, |body| body["releases"] == json!([])).await;
    let none = [
        "callboard_unconfirmed_releases{type=\"PLACEHOLDER_REPLACED\"} 0",
        "callboard_unconfirmed_release_oldest_seconds 0",
    ];
    until_there(&server, &none).await;
    // What was confirmed is not told again.
    drop(stream);
    server.until(|info| info["streams"] == json!([])).await;
    let seen = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].clone();
    let mut stream = server.stream(&format!("?after={}", seen.as_str().map_or(seen.to_string(), str::to_owned))).await;
    server.nodes(&["n2"]).await;
    assert_eq!(stream.told().await["node"]["accepted"][0]["nodeID"], "n2");
}

#[tokio::test]
async fn after_a_restart_it_is_told_again_but_for_what_the_stream_is_about_to_get() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = with_data(dir.path());
    server.register("rm-1", &[("rm.resendAfter", "10m")]).await;
    let mut stream = in_flight(&server).await;
    let told = release(&mut stream).await;
    let seen = server.get("/si/v1/rm/rm-1").await.1["lastSequence"].as_u64().expect("a number");
    server.program.kill();

    let mut server = with_data(dir.path());
    let mut stream = server.stream("?after=0").await;
    assert_eq!(release(&mut stream).await, told, "its line is kept");
    server.nodes(&["n2"]).await;
    assert_eq!(stream.told().await["node"]["accepted"][0]["nodeID"], "n2", "and it comes once");
    assert_eq!(server.get(LISTED).await.1["releases"][0]["sent"], 1);
    drop(stream);
    server.until(|info| info["streams"] == json!([])).await;
    let mut stream = server.stream(&format!("?after={seen}")).await;
    assert_eq!(release(&mut stream).await, told);
    assert_eq!(server.get(LISTED).await.1["releases"][0]["sent"], 2);
    server.program.kill();

    let server = with_data(dir.path());
    assert_eq!(server.get(LISTED).await.1["releases"][0]["sent"], 2, "as often as before");
}

#[tokio::test]
async fn a_change_of_patience_holds_for_what_waits_already() {
    let long = [("rm.resendAfter", "10m"), ("rm.unconfirmedWarning", "10m"), ("health.checkInterval", "1s")];
    let server = Server::registered(&long).await;
    let mut stream = in_flight(&server).await;
    let told = release(&mut stream).await;
    let extra = json!({"rm.gracePeriod": "10m", "rm.resendAfter": "100ms", "rm.unconfirmedWarning": "100ms",
        "health.checkInterval": "1s"});
    let update = json!({"config": CONFIG, "extraConfig": extra});
    let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &update).await;
    assert_eq!((status, body), (200, json!({})));
    // Lines with events come all the time.
    let again = tokio::time::timeout(LIMIT, release(&mut stream)).await.expect("in time");
    assert_eq!(again, told, "it is sent again");
    until_there(&server, &["callboard_unconfirmed_releases_overdue 1"]).await;
}
