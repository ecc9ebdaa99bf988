//! What operators watch: probes, metrics, the log, and who changed what.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex},
};

use actix::prelude::*;
use actix_web::web::{self, ServiceConfig};
use callboard::{
    actors::{
        event::EventActor,
        rm::log::{LogSync, Logs},
        topology::Topology,
    },
    config, grpc,
    http::{
        doors::Doors,
        origins::Origins,
        server::{Listen, bind, not_found},
    },
    metrics::{Metrics, Refused},
    si::v1::{RegisterResourceManagerRequest, scheduler_client::SchedulerClient},
};
use serde_json::Value;
use tonic::{Streaming, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::common::{LIMIT, Program, until};

async fn get(server: &Program, path: &str, accept: &str) -> (u16, String) {
    let url = format!("{}{path}", server.address("http"));
    let answer = reqwest::Client::new().get(url).header("Accept", accept).send().await.expect("an answer");
    (answer.status().as_u16(), answer.text().await.expect("text"))
}

#[tokio::test]
async fn probes_and_metrics_are_where_they_are_looked_for() {
    let server = Program::start(&[]);
    assert_eq!(get(&server, "/livez", "*/*").await, (200, "ok\n".to_owned()));
    assert_eq!(get(&server, "/readyz", "*/*").await, (200, r#"{"ready":true,"waits":{}}"#.to_owned()));
    let ready = |more: &[&str]| {
        let address = server.address("http");
        crate::common::command(&[&["ready", "--server", &address], more].concat()).status().expect("it runs").success()
    };
    assert!(ready(&[]) && ready(&["--alive"]));
    assert!(!crate::common::command(&["ready", "--server", "http://127.0.0.1:9"]).status().expect("it runs").success());
    let (status, plain) = get(&server, "/metrics", "*/*").await;
    assert!(status == 200 && plain.contains("# TYPE callboard_requests_refused_total counter\n"), "{plain}");
    let (status, open) = get(&server, "/metrics", "application/openmetrics-text; version=1.0.0").await;
    assert!(status == 200 && open.contains("# TYPE callboard_requests_refused counter\n"), "{open}");
    assert!(open.ends_with("# EOF\n") && plain.lines().count() > 50 && open.lines().count() > 50);
}

/// What a health check of the gRPC door is told next of the server as a whole.
async fn health(watch: &mut Streaming<HealthCheckResponse>) -> ServingStatus {
    tokio::time::timeout(LIMIT, watch.message())
        .await
        .expect("in time")
        .expect("no fault")
        .expect("it goes on")
        .status()
}

/// The gRPC door, without tokens.
fn called(refused: &Refused) -> grpc::server::Listen {
    grpc::server::Listen {
        addr: (Ipv4Addr::LOCALHOST, 0).into(),
        patience: LIMIT,
        tokens: None,
        refused: refused.clone(),
        tls: None,
        audit: Arc::default(),
        rates: Arc::default(),
    }
}

#[actix::test]
async fn health_over_grpc_is_as_readiness_over_http() {
    let events = EventActor::default().start();
    let arbiters = vec![Arbiter::current()];
    let topology = Topology::new(arbiters, Topology::launcher(), events, config::load("").expect("valid"));
    topology.ready.waits("log", "the server reads its log");
    let refused = Metrics::new().expect("metrics").refused();
    let mut door = grpc::server::start(called(&refused), topology.clone()).expect("a free port");
    let channel = Channel::from_shared(format!("http://{}", door.addr)).expect("an address").connect().await;
    let mut client = HealthClient::new(channel.expect("connected"));
    let services = ["", "si.v1.Scheduler", "callboard.v1.SchedulerExtension"];
    let mut watches = Vec::new();
    for service in services {
        let watch = client.watch(HealthCheckRequest { service: service.to_owned() }).await;
        watches.push(watch.expect("known").into_inner());
    }
    let all = async |watches: &mut Vec<Streaming<HealthCheckResponse>>, wanted: ServingStatus| {
        for watch in watches {
            assert_eq!(health(watch).await, wanted);
        }
    };
    all(&mut watches, ServingStatus::NotServing).await;
    topology.ready.waits("log", "nearly done");
    topology.ready.done("log");
    all(&mut watches, ServingStatus::Serving).await;
    topology.close();
    all(&mut watches, ServingStatus::NotServing).await;
    // The end does not wait for those who watch: they are told that this was all.
    door.stop();
    for watch in &mut watches {
        let end = tokio::time::timeout(LIMIT, watch.message()).await.expect("in time");
        assert!(end.expect("no fault").is_none());
    }
    until(async || door.is_finished()).await;
}

#[actix::test]
async fn requests_that_come_while_a_server_starts_are_answered_when_it_has() {
    let events = EventActor::default().start();
    let arbiters = vec![Arbiter::current()];
    let topology = Topology::new(arbiters, Topology::launcher(), events, config::load("").expect("valid"));
    let dir = tempfile::tempdir().expect("a directory");
    topology.keep_logs(Logs {
        base: dir.path().to_owned(),
        server: "server-1".to_owned(),
        sync: LogSync::Interval,
        snapshot: 1 << 20,
        metrics: None,
        shared: false,
        unread: Mutex::default(),
        gone: Mutex::default(),
    });
    let refused = Metrics::new().expect("metrics").refused();
    let grpc = grpc::server::start(called(&refused), topology.clone()).expect("a free port");
    let doors = Arc::new(Doors {
        topology: topology.clone(),
        tokens: None,
        origins: Origins::new(true, Ipv4Addr::LOCALHOST.into(), Vec::new()),
        refused,
        audit: Arc::default(),
        rates: Arc::default(),
        forward: None,
    });
    let listen = Listen { addr: (Ipv4Addr::LOCALHOST, 0).into(), workers: 1, patience: LIMIT, tls: None };
    let others = |config: &mut ServiceConfig| {
        config.default_service(web::to(not_found));
    };
    let (server, bound) = bind(listen, doors, others).expect("a free port");
    let handle = server.handle();
    actix::spawn(server);
    let status = async |url: String| reqwest::get(url).await.expect("an answer").status().as_u16();
    let asked = actix::spawn(status(format!("http://{bound}/si/v1/rm")));
    let channel = Channel::from_shared(format!("http://{}", grpc.addr)).expect("an address").connect().await;
    let mut client = SchedulerClient::new(channel.expect("connected"));
    let registration = RegisterResourceManagerRequest { rm_id: "rm-1".to_owned(), ..Default::default() };
    let registered = actix::spawn(async move { client.register_resource_manager(registration).await });
    // What is for everybody does not wait.
    assert_eq!(status(format!("http://{bound}/livez")).await, 200);
    topology.opened();
    assert_eq!(asked.await.expect("it ends"), 200);
    registered.await.expect("it ends").expect("registered");
    handle.stop(false).await;
}

#[tokio::test]
async fn options_come_from_the_environment_too_and_empty_ones_say_nothing() {
    let mut serve = crate::common::serve(&[]);
    serve.env("CALLBOARD_SET", "http.requestsPerSecond=70;log.level=warn");
    serve.env("CALLBOARD_TOKENS", "").env("CALLBOARD_CONFIG", "").env("CALLBOARD_LOG_SYNC", "");
    let server = Program::try_start(serve).unwrap_or_else(|why| panic!("{why}"));
    let url = format!("{}/api/v1/settings", server.address("http"));
    let shown: Value = reqwest::get(url).await.expect("an answer").json().await.expect("JSON");
    let rows = shown["server"].as_array().expect("a list");
    let value = |key: &str| &rows.iter().find(|row| row["key"] == key).expect("it is there")["value"];
    assert_eq!((value("http.requestsPerSecond"), value("log.level")), (&"70".into(), &"warn".into()), "{shown:#}");
}

#[tokio::test]
async fn what_helpers_need_is_in_one_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    // As it is where nothing is said: as seen from where the server was started.
    let mut serve = crate::common::serve(&["--data", "data"]);
    serve.current_dir(dir.path());
    let server = Program::try_start(serve).unwrap_or_else(|why| panic!("{why}"));
    let register =
        r#"{"rmID":"rm-1","config":"partitions: [{name: default, queues: [{name: root, submitacl: '*'}]}]"}"#;
    let submit = r#"{"new":[{"applicationID":"app","queueName":"root","ugi":{"user":"alice"}}]}"#;
    for (path, body) in [("", register), ("/rm-1/applications", submit)] {
        let url = format!("{}/si/v1/rm{path}", server.address("http"));
        let sent = reqwest::Client::new().post(url).header("content-type", "application/json").body(body).send();
        assert!(sent.await.expect("an answer").status().is_success());
    }
    std::fs::write(path("log"), server.log()).expect("written");
    let (address, out, log) = (server.address("http"), path("out.tar.gz"), path("log"));
    let mut diagnose = crate::common::command(&["diagnose", "--server", &address, "--out", &out, "--log", &log]);
    let done = diagnose.output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let file = std::fs::File::open(&out).expect("it is there");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let parts = archive.entries().expect("an archive").map(|entry| {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").file_name().expect("a name").to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).expect("bytes");
        std::fs::write(path(&name), &bytes).expect("written");
        (name, String::from_utf8_lossy(&bytes).into_owned())
    });
    let parts: std::collections::BTreeMap<String, String> = parts.collect();
    assert!(parts["log.txt"].contains("callboard starts") && parts["ready.json"].contains("true"), "{parts:?}");
    assert!(
        parts["metrics.txt"].contains("callboard_") && parts["configuration.json"].contains("deadlock"),
        "{parts:?}"
    );
    assert!(parts["settings.json"].contains("traces.oneIn") && !parts.values().any(|part| part.contains("alice")));
    assert_eq!(parts.len(), 12, "{:?}", parts.keys());
    // What the log of the session holds can be seen again.
    let shown = crate::common::command(&["flight", "show", &path("rm-1.flight")]).output().expect("it runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("application") && !shown.contains("alice"), "{shown}");
    drop(server);
    let done = diagnose.output().expect("it runs");
    assert!(!done.status.success() && String::from_utf8_lossy(&done.stderr).contains("health.json is missing"));
}

#[tokio::test]
async fn the_log_begins_with_version_and_settings_and_can_be_json() {
    let server = Program::start(&["--log-format", "json", "--set", "log.level=DEBUG"]);
    let level = format!("{}/api/v1/log/level", server.address("http"));
    let told =
        reqwest::Client::new().post(level).header("Content-Type", "application/json").body(r#"{"level":"debug"}"#);
    assert!(told.send().await.expect("an answer").status().is_success());
    let log = server.log();
    // Readers take the first of a name, or the last.
    for name in ["level", "target", "timestamp", "message"] {
        let key = format!("\"{name}\":");
        let odd = log.lines().find(|line| line.matches(&key).count() > 1);
        assert_eq!(odd, None, "{name}");
    }
    assert!(log.contains("\"log-level-changed\""), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["message"], "callboard starts", "{log}");
    let platform = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    assert_eq!(lines[0]["platform"], platform);
    assert_eq!((&lines[0]["version"], &lines[0]["data"]), (&env!("CARGO_PKG_VERSION").into(), &"memory".into()));
    assert!(lines[0]["settings"].as_str().is_some_and(|settings| settings.contains("log.level")), "{log}");
    let server = Program::start(&[]);
    let log = server.log();
    assert!(log.lines().next().is_some_and(|line| line.contains("callboard starts version=")), "{log}");
    assert!(!log.contains("actix_"), "nothing that only the libraries need: {log}");
}

#[test]
fn a_server_that_does_not_start_says_so_as_the_log_says_things() {
    let tried = |more: &[&str]| {
        let args = [&["serve", "--ephemeral", "--config", "/no/such/file"], more].concat();
        let done = crate::common::command(&args).output().expect("it runs");
        assert_eq!(done.status.code(), Some(1));
        String::from_utf8(done.stderr).expect("text")
    };
    let text = tried(&[]);
    let why = text.strip_prefix("callboard: ").expect("what it says").trim_end();
    let json: Value = serde_json::from_str(&tried(&["--log-format", "json"])).expect("one line");
    assert_eq!((&json["level"], &json["code"], &json["message"]), (&"ERROR".into(), &"not-served".into(), &why.into()));
}

mod audit {
    use super::*;
    use crate::common::command;

    fn made(file: &str, role: &str, name: &str) -> String {
        let mut new = command(&["token", "new", "--role", role, "--name", name, "--file", file]);
        String::from_utf8(new.output().expect("it runs").stdout).expect("text").trim().to_owned()
    }

    async fn send(server: &Program, token: &str, method: &str, path: &str, body: &'static str) -> u16 {
        let method = method.parse().expect("a method");
        let request = reqwest::Client::new().request(method, format!("{}{path}", server.address("http")));
        let request = request.bearer_auth(token).header("Content-Type", "application/json").body(body);
        request.send().await.expect("an answer").status().as_u16()
    }

    fn shown(server: &Program, token: &str, more: &[&str]) -> String {
        let address = server.address("http");
        let mut show = command(&[&["audit", "--server", &address], more].concat());
        let done = show.env("CALLBOARD_TOKEN", token).output().expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    }

    #[tokio::test]
    async fn changes_are_told_with_who_made_them_and_outlive_the_server() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
        let (data, tokens) = (path("data"), path("tokens"));
        let alice = made(&tokens, "operator", "alice");
        let k8s = made(&tokens, "shim", "k8s");
        let eve = made(&tokens, "viewer", "eve");
        let args = ["--data", &data, "--tokens", &tokens];
        let mut server = Program::start(&args);
        let register = r#"{"rmID":"rm-1","version":"1","policyGroup":"queues","config":"partitions: [{name: default, queues: [{name: root, queues: [{name: a}]}]}]"}"#;
        assert_eq!(send(&server, &k8s, "POST", "/si/v1/rm", register).await, 200);
        let nodes = r#"{"rmID":"rm-1","nodes":[{"nodeID":"n1","action":"CREATE","schedulableResource":{"resources":{"vcore":{"value":"1"}}}}]}"#;
        for _ in 0..3 {
            assert_eq!(send(&server, &k8s, "POST", "/si/v1/rm/rm-1/nodes", nodes).await, 202);
        }
        let drain = "/api/v1/partition/default/resource/drain";
        let body = r#"{"targets":"n1","reason":"disk"}"#;
        until(async || send(&server, &alice, "POST", drain, body).await == 200).await;
        for (path, body) in [
            ("/api/v1/partition/default/resource/expiration", r#"{"expiration":1800000000}"#),
            ("/api/v1/partition/default/queue/root.a/stop", r#"{"reason":"billing"}"#),
            ("/api/v1/partition/default/queue/root.a/resume", "{}"),
            ("/api/v1/log/level", r#"{"level":"info"}"#),
        ] {
            assert_eq!(send(&server, &alice, "POST", path, body).await, 200, "{path}");
        }
        assert_eq!(send(&server, &eve, "POST", drain, body).await, 403);
        assert_eq!(send(&server, &eve, "GET", "/api/v1/audit", "").await, 403);

        let told = shown(&server, &alice, &[]);
        for wanted in [
            "k8s (shim) from 127.0.0.1 http POST /si/v1/rm done 200: resource manager rm-1",
            "alice (operator) from 127.0.0.1 http POST /api/v1/partition/default/resource/drain done 200: disk: n1",
            "POST /api/v1/partition/default/resource/expiration done 200: 2027-01-15T08:00:00Z",
            "POST /api/v1/partition/default/queue/root.a/stop done 200: billing",
            "POST /api/v1/partition/default/queue/root.a/resume done 200: no reason",
            "POST /api/v1/log/level done 200: info",
            "k8s from 127.0.0.1 http POST /si/v1/rm/rm-1/nodes x3 done",
            "eve from 127.0.0.1 http POST /api/v1/partition/{partition}/resource/drain x1 refused",
        ] {
            assert!(told.contains(wanted), "{wanted} is not in\n{told}");
        }
        assert!(![&alice, &k8s, &eve].iter().any(|token| told.contains(token.as_str())), "no token is told");
        let hidden = shown(&server, &alice, &["--redact", "--json"]);
        // What stands for `rm-1` may begin like it.
        let names = ["alice", "127.0.0.1", "disk", "/rm-1/", "rm-1\""];
        assert!(!names.iter().any(|name| hidden.contains(name)), "{hidden}");

        // What was told is on disk, whatever becomes of the process.
        until(async || {
            let files = std::fs::read_dir(dir.path().join("data/audit")).expect("it is there");
            let text: String = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
            text.lines().count() == told.lines().count()
        })
        .await;
        server.kill();
        let server = Program::start(&args);
        assert_eq!(shown(&server, &alice, &[]), told);
        server.signal("HUP");
        until(async || shown(&server, &alice, &[]).contains("SIGHUP signal read files again done")).await;
    }

    #[tokio::test]
    async fn a_token_that_is_taken_back_is_let_in_no_more() {
        let dir = tempfile::tempdir().expect("a folder");
        let tokens = dir.path().join("tokens").to_str().expect("text").to_owned();
        let (alice, eve) = (made(&tokens, "operator", "alice"), made(&tokens, "viewer", "eve"));
        let server = Program::start(&["--tokens", &tokens]);
        assert_eq!(send(&server, &eve, "GET", "/ws/v1/clusters", "").await, 200);
        let listed = command(&["token", "list", "--file", &tokens]).output().expect("it runs").stdout;
        assert!(String::from_utf8(listed).expect("text").contains("viewer    eve"));
        assert!(command(&["token", "revoke", "eve", "--file", &tokens]).status().expect("it runs").success());
        until(async || send(&server, &eve, "GET", "/ws/v1/clusters", "").await == 401).await;
        assert_eq!(send(&server, &alice, "GET", "/ws/v1/clusters", "").await, 200);
    }
}
