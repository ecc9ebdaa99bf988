//! Settings of the whole process take the role operator, or the server's own configuration.

use callboard::si::v1::{RegisterResourceManagerRequest, scheduler_client::SchedulerClient};
use reqwest::Response;
use serde_json::{Value, json};
use tonic::{Request, transport::Channel};

use crate::access::rig::{CONFIG, Server, token, until};

const WIDE: [(&str, &str); 4] = [
    ("event.trackingEnabled", "false"),
    ("event.store.maxEvents", "1"),
    ("http.maxBodyBytes", "64Ki"),
    ("log.level", "ERROR"),
];

fn registration(extra: &[(&str, &str)]) -> Value {
    let extra: serde_json::Map<_, _> = extra.iter().map(|(key, value)| (key.to_string(), json!(value))).collect();
    json!({"rmID": "rm-1", "config": CONFIG, "extraConfig": extra})
}

async fn told(response: Response) -> Value {
    assert_eq!(response.status(), 200);
    response.json().await.expect("JSON")
}

/// Registers with these settings and gives the answer.
async fn register(server: &Server, caller: &str, extra: &[(&str, &str)]) -> Value {
    told(server.send(caller, "POST", "/si/v1/rm", Some(&registration(extra))).await).await
}

/// Whether a body of 100 KiB is taken.
async fn takes_100_kib(server: &Server) -> bool {
    let long = json!({"nodes": [{"nodeID": "x".repeat(100 << 10), "action": "CREATE"}]});
    match server.send("operator", "POST", "/si/v1/rm/rm-1/nodes", Some(&long)).await.status().as_u16() {
        202 => true,
        413 => false,
        other => panic!("{other}"),
    }
}

async fn events(server: &Server) -> u64 {
    let batch = told(server.send("operator", "GET", "/ws/v1/events/batch", None).await).await;
    batch["HighestID"].as_u64().expect("a number")
}

#[tokio::test]
async fn a_resource_manager_changes_nothing_of_the_process() {
    let server = Server::start(&[]);
    let keys: Vec<&str> = WIDE.iter().map(|(key, _)| *key).collect();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    let extra = [&WIDE[..], &[("rm.pauseTimeout", "1m")]].concat();
    assert_eq!(register(&server, "shim", &extra).await, json!({"ignored": sorted}));
    assert!(takes_100_kib(&server).await);
    let before = events(&server).await;
    register(&server, "shim", &[]).await;
    // Events go on.
    until(async || events(&server).await > before).await;
    let log = server.log();
    assert!(
        log.contains("settings of the whole process are ignored") && log.contains("event.store.maxEvents"),
        "{log}"
    );
    // One that may configure its session may not configure the others' either.
    let change = json!({"config": CONFIG, "extraConfig": {"http.maxBodyBytes": "64Ki"}});
    let answer = server.send("configurer", "PUT", "/si/v1/rm/rm-1/configuration", Some(&change)).await;
    assert_eq!(told(answer).await, json!({"ignored": ["http.maxBodyBytes"]}));
    assert!(takes_100_kib(&server).await);
    // Over gRPC it is metadata.
    let channel = Channel::from_shared(server.address("grpc")).unwrap().connect().await.unwrap();
    let mut request = Request::new(RegisterResourceManagerRequest {
        rm_id: "rm-3".into(),
        extra_config: [("log.level".to_owned(), "ERROR".to_owned())].into(),
        ..Default::default()
    });
    request.metadata_mut().insert("authorization", format!("Bearer {}", token("shim")).parse().unwrap());
    let answer = SchedulerClient::new(channel).register_resource_manager(request).await.expect("taken");
    assert_eq!(answer.metadata().get("callboard-ignored").expect("told"), "log.level");
}

#[tokio::test]
async fn all_that_is_ignored_is_in_the_log() {
    let server = Server::start(&[]);
    let faulty = json!({"rmID": "rm-1", "config": "x: 1", "extraConfig": {"log.refused": "1"}});
    for _ in 0..6 {
        assert_eq!(server.send("shim", "POST", "/si/v1/rm", Some(&faulty)).await.status(), 400);
    }
    let keys: Vec<String> = (0..7).map(|n| format!("log.setting{n}")).collect();
    for key in &keys {
        assert_eq!(register(&server, "shim", &[(key, "x")]).await, json!({ "ignored": [key] }));
    }
    let log = server.log();
    let levels: Vec<bool> = keys
        .iter()
        .map(|key| {
            let told = log.lines().find(|line| line.contains("are ignored") && line.contains(key));
            told.unwrap_or_else(|| panic!("{key}: {log}")).contains("WARN")
        })
        .collect();
    assert_eq!(levels, [true, true, true, true, true, false, false], "{log}");
    // Nothing was left out of what was refused as a whole.
    assert!(!log.contains("log.refused"), "{log}");
}

#[tokio::test]
async fn an_operator_does_and_a_resource_manager_does_not_undo_it() {
    let server = Server::start(&[]);
    assert_eq!(register(&server, "operator", &[("http.maxBodyBytes", "64Ki")]).await, json!({}));
    assert!(!takes_100_kib(&server).await, "http.maxBodyBytes holds");
    register(&server, "shim", &[("http.maxBodyBytes", "8Mi")]).await;
    register(&server, "shim", &[]).await;
    assert!(!takes_100_kib(&server).await);
    let change = json!({"config": CONFIG, "extraConfig": {"http.maxBodyBytes": "1Mi"}});
    let answer = server.send("operator", "PUT", "/si/v1/rm/rm-1/configuration", Some(&change)).await;
    assert_eq!(told(answer).await, json!({}));
    assert!(takes_100_kib(&server).await);
    let bad = server.send("operator", "POST", "/si/v1/rm", Some(&registration(&[("http.maxBodyBytes", "lots")]))).await;
    assert_eq!(bad.status(), 400);
    assert!(bad.text().await.unwrap().contains("http.maxBodyBytes: \\\"lots\\\" is not a number of bytes"));
}

#[tokio::test]
async fn the_server_is_started_with_its_own() {
    let server = Server::start(&["--set", "http.maxBodyBytes=64Ki", "--set", "event.trackingEnabled=false"]);
    register(&server, "shim", &[("event.trackingEnabled", "true")]).await;
    assert!(!takes_100_kib(&server).await);
    assert_eq!(events(&server).await, events(&server).await);
    // Over gRPC it is the same limit.
    let channel = Channel::from_shared(server.address("grpc")).unwrap().connect().await.unwrap();
    let mut request = Request::new(RegisterResourceManagerRequest {
        rm_id: "rm-1".into(),
        version: "x".repeat(100 << 10),
        ..Default::default()
    });
    request.metadata_mut().insert("authorization", format!("Bearer {}", token("shim")).parse().unwrap());
    let refused = SchedulerClient::new(channel).register_resource_manager(request).await.expect_err("refused");
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused:?}");
    for (bad, says) in [
        ("rm.pauseTimeout=1m", "no setting of the whole server"),
        ("event.maxStreams=many", "is not a whole number"),
        ("http.maxBodyBytes=x", "not a number of bytes"),
        ("log.level", "not KEY=VALUE"),
    ] {
        let refused = crate::access::rig::program(&["serve", "--ephemeral", "--set", bad]).output().expect("runs");
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && text.contains(says), "{bad}: {text}");
    }
}

#[tokio::test]
async fn a_resource_manager_takes_no_more_of_the_memory_than_it_may() {
    let server = Server::start(&[]);
    for (key, value) in [
        ("rm.bufferedBytes", "18446744073709551615"),
        ("rm.bufferedCallbacks", "4294967295"),
        ("journal.maxEvents", "18446744073709551615"),
        ("rm.pauseTimeout", "2562047h"),
        ("rm.gracePeriod", "2562047h"),
        ("rm.itemsInFlight", "1099511627775"),
    ] {
        let refused = server.send("shim", "POST", "/si/v1/rm", Some(&registration(&[(key, value)]))).await;
        assert_eq!(refused.status(), 400, "{key}");
        let body: Value = refused.json().await.expect("JSON");
        let detail = body["detail"].as_str().expect("a text");
        assert!(detail.contains(key) && detail.contains(value) && detail.contains("only an operator"), "{detail}");
    }
    register(&server, "shim", &[("rm.bufferedBytes", "1Gi"), ("rm.pauseTimeout", "24h")]).await;
    // An update is held to the same.
    let change = json!({"config": CONFIG, "extraConfig": {"rm.bufferedBytes": "2Gi"}});
    assert_eq!(server.send("configurer", "PUT", "/si/v1/rm/rm-1/configuration", Some(&change)).await.status(), 400);
    assert_eq!(server.send("operator", "PUT", "/si/v1/rm/rm-1/configuration", Some(&change)).await.status(), 200);
    register(&server, "operator", &[("rm.pauseTimeout", "2562047h")]).await;
}
