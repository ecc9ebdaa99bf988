//! Servers that may open few files and connections.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
};

use callboard::si::v1::{RegisterResourceManagerRequest, scheduler_client::SchedulerClient};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::{Code, Request, transport::Channel};

use crate::{
    access::{
        rig::{self as callers, certificate, standard, token},
        tls,
    },
    common::{LIMIT, Program, command, serve, skip, until},
    shim::server::{CONFIG, Server},
    wired::rig::{self, Running, with_data},
};

const STATUS: &str = "/api/v1/partition/default/resource/status";

/// prlimit is there, and may change what a process may open.
fn has_prlimit() -> bool {
    Command::new("prlimit").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A server with these options and so many descriptors, soft and hard; `None`, which is said: there is no prlimit.
fn limited([soft, hard]: [u32; 2], more: &[&str]) -> Option<Program> {
    if !has_prlimit() {
        skip("descriptors", "there is no prlimit (util-linux)");
        return None;
    }
    let started = serve(more);
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={soft}:{hard}")).arg(started.get_program()).args(started.get_args());
    Some(Program::try_start(command).expect("it starts"))
}

/// The same with tokens, where no connection is closed because nothing was asked over it yet.
fn limited_with_tokens(descriptors: u32) -> Option<(tempfile::TempDir, Program)> {
    let dir = tempfile::tempdir().expect("a directory");
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, standard()).expect("written");
    let program =
        limited([descriptors; 2], &["--tokens", &tokens.display().to_string(), "--first-request-timeout", "10m"])?;
    Some((dir, program))
}

fn may_open(server: &Server, descriptors: u32) {
    let (pid, limit) = (server.program.pid().to_string(), format!("--nofile={descriptors}:"));
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().expect("it runs").success());
}

async fn drain(server: &Server) -> (u16, Value) {
    let path = "/api/v1/partition/default/resource/drain";
    server.send("POST", path, &json!({"targets": "n1", "reason": "disk"})).await
}

#[tokio::test]
async fn a_journal_that_found_no_descriptor_is_opened_when_there_are_some() {
    if !has_prlimit() {
        return skip("descriptors", "there is no prlimit (util-linux)");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let server = with_data(dir.path());
    // The connection stays, and is used again.
    assert_eq!(server.get("/healthz").await.0, 200);
    may_open(&server, 3);
    let body = json!({"rmID": "rm-1", "config": CONFIG, "extraConfig": {"rm.gracePeriod": "10m"}});
    let (status, answer) = server.send("POST", "/si/v1/rm", &body).await;
    // Its log could not be made.
    assert!(status == 503 && answer["detail"].as_str().is_some_and(|text| text.contains("register again")), "{answer}");
    until(async || server.program.log().contains("journal-not-read")).await;
    may_open(&server, 1024);
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    rig::until(&server, STATUS, |status| status["faults"] == json!([]) && status["online"]["nodelist"] == "n1").await;
    assert_eq!(drain(&server).await, (200, json!({})));
    let log = server.program.log();
    assert!(!log.contains("journal-damaged") && log.contains("the journal is read now"), "{log}");
    assert!(!dir.path().join("journal/%5Brm-1%5Ddefault/resource.damage").exists());
}

#[tokio::test]
async fn connections_leave_descriptors_for_files() {
    let dir = tempfile::tempdir().expect("a directory");
    // The soft limit is raised to the hard one at the start.
    let Some(program) = limited([100, 256], &["--data", &dir.path().display().to_string()]) else { return };
    let server = Server { program, http: Client::new() };
    // The connection stays, as something was asked for that is not for everybody.
    assert_eq!(server.get("/ws/v1/clusters").await.0, 200);
    let connect = |door: &str, count: usize| {
        let at: SocketAddr = server.program.address(door).trim_start_matches("http://").parse().expect("an address");
        (0..count).map(|_| TcpStream::connect(at).expect("taken by the kernel")).collect::<Vec<_>>()
    };
    let crowd = (connect("http", 150), connect("grpc", 60));
    let opened = || fs::read_dir(format!("/proc/{}/fd", server.program.pid())).expect("a process").count();
    // All that are let in.
    until(async || opened() > 160).await;
    server.register("rm-1", &[]).await;
    server.nodes(&["n1"]).await;
    rig::until(&server, STATUS, |status| status["online"]["nodelist"] == "n1").await;
    assert_eq!(drain(&server).await, (200, json!({})));
    assert!(opened() < 256, "{}", opened());
    drop(crowd);
    // Those who waited are let in.
    assert_eq!(Client::new().get(server.url("/healthz")).send().await.expect("an answer").status(), 200);
    let log = server.program.log();
    assert!(!log.contains("Too many open files") && !log.contains("grpc-not-accepted"), "{log}");
}

#[tokio::test]
async fn sessions_leave_descriptors_for_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(program) = limited([100, 128], &["--data", &dir.path().display().to_string()]) else { return };
    let server = Server { program, http: Client::new() };
    for n in 1..=32 {
        server.register(&format!("rm-{n}"), &[]).await;
    }
    let one_more = json!({"rmID": "rm-33", "config": CONFIG});
    let (status, problem) = server.send("POST", "/si/v1/rm", &one_more).await;
    let text = problem["detail"].as_str().unwrap_or_default();
    assert!(status == 429 && text.contains("32 resource managers have a session"), "{problem}");
    // Who has one may register again, and one that goes makes room.
    server.register("rm-1", &[]).await;
    assert_eq!(server.send("DELETE", "/si/v1/rm/rm-2", &Value::Null).await.0 / 100, 2);
    assert_eq!(server.send("POST", "/si/v1/rm", &one_more).await.0, 200);
    server.nodes(&["n1"]).await;
    rig::until(&server, STATUS, |status| status["online"]["nodelist"] == "n1").await;
}

/// A command that may open so few files.
fn poor(server: &Server, args: &[&str]) -> Command {
    let wanted = command(&[args, &["--server", &server.url("")]].concat());
    let mut poor = Command::new("prlimit");
    poor.arg("--nofile=64:64").arg(wanted.get_program()).args(wanted.get_args());
    for (name, _) in wanted.get_envs() {
        poor.env_remove(name);
    }
    poor.stdout(Stdio::piped()).stderr(Stdio::piped());
    poor
}

#[tokio::test]
async fn a_command_waits_for_more_than_it_may_open() {
    if !has_prlimit() {
        return skip("descriptors", "there is no prlimit (util-linux)");
    }
    let server = Server::registered(&[]).await;
    let names: Vec<String> = (0..150).map(|n| format!("n{n}")).collect();
    server.nodes(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    rig::until(&server, STATUS, |status| status["online"]["nodelist"] == "n[0-149]").await;
    let mut drains = poor(&server, &["resource", "drain", "--wait", "--timeout", "2m", "n[0-149]", "disk"]);
    let output = tokio::task::spawn_blocking(move || drains.output().expect("it runs")).await.expect("waited for");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*err, out.matches("condition met").count()), (Some(0), "", 150));

    // Those that are first in the list leave the others their turn.
    let mut targets: Vec<String> = (0..20).map(|n| format!("node/x{n}")).collect();
    targets.push("node/n7".to_owned());
    let words: Vec<&str> = targets.iter().map(String::as_str).collect();
    let waits = poor(&server, &[&["wait", "--for", "online", "--timeout", "1d"], &words[..]].concat());
    let mut waits = Running::start(waits);
    waits.prints("node/n7 condition met: online").await;
    assert!(waits.runs(), "{}", waits.err());
}

/// A registration at the gRPC door over a connection of its own, with this caller's token where it has one.
async fn register(address: &str, caller: Option<&str>) -> (Channel, Code) {
    let channel = Channel::from_shared(address.to_owned()).expect("an address").connect().await.expect("connected");
    let message = RegisterResourceManagerRequest { rm_id: "rm-2".into(), config: CONFIG.into(), ..Default::default() };
    let mut request = Request::new(message);
    if let Some(caller) = caller {
        let value = format!("Bearer {}", token(caller)).parse().expect("a header");
        request.metadata_mut().insert("authorization", value);
    }
    let answer = SchedulerClient::new(channel.clone()).register_resource_manager(request).await;
    (channel, answer.map_or_else(|status| status.code(), |_| Code::Ok))
}

#[tokio::test]
async fn neither_clients_without_a_token_nor_those_of_one_close_the_grpc_door() {
    let Some((_dir, program)) = limited_with_tokens(256) else { return };
    let address = program.address("grpc");
    // There are 32 places. Connections are kept, and their clients answer pings.
    let crowd = async |count: usize, caller: Option<&'static str>| {
        let mut calls: JoinSet<_> = (0..count)
            .map(|_| {
                let address = address.clone();
                async move { register(&address, caller).await }
            })
            .collect();
        let mut answered = Vec::new();
        while answered.len() < count.min(32) {
            answered.push(calls.join_next().await.expect("one of them").expect("no panic"));
        }
        (answered, calls)
    };
    let (strangers, _waiting) = crowd(40, None).await;
    // Those whose places others waited for may have had no answer.
    let refused = |code: &Code| [Code::Unauthenticated, Code::Unavailable, Code::Unknown].contains(code);
    assert!(
        strangers.iter().all(|(_, code)| refused(code)),
        "{:?}",
        strangers.iter().map(|(_, code)| code).collect::<Vec<_>>()
    );
    let honest = async |caller| tokio::time::timeout(LIMIT, register(&address, Some(caller))).await.expect("let in");
    let first = honest("shim").await;
    assert_eq!(first.1, Code::Ok);
    let (own, _more) = crowd(24, Some("second")).await;
    let count = |code: Code| own.iter().filter(|(_, other)| *other == code).count();
    assert_eq!((count(Code::Ok), count(Code::ResourceExhausted)), (16, 8), "half of the places");
    assert_eq!(honest("configurer").await.1, Code::Ok);
}

/// Asks over this connection, which stays open where the server lets it; the first line of the answer.
fn ask(stream: &mut TcpStream, path: &str, caller: &str) -> String {
    let token = token(caller);
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        answer.extend(byte);
    }
    let head = String::from_utf8(answer).expect("text");
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    stream.read_exact(&mut vec![0; length.unwrap_or(0)]).expect("a body");
    head.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn who_asks_for_nothing_closes_the_http_door_to_nobody() {
    let Some((_dir, program)) = limited_with_tokens(128) else { return };
    let at: SocketAddr = program.address("http").trim_start_matches("http://").parse().expect("an address");
    let connect = || {
        let stream = TcpStream::connect(at).expect("taken by the kernel");
        stream.set_read_timeout(Some(LIMIT)).expect("a time");
        stream
    };
    let mut known: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
    let mut all_are_answered = |when: &str| {
        for stream in &mut known {
            assert_eq!(ask(stream, "/ws/v1/clusters", "viewer"), "HTTP/1.1 200 OK", "{when}");
        }
    };
    all_are_answered("before");
    let mut crowd = Vec::new();
    for round in 0..3 {
        // There are 64 places.
        for _ in 0..100 {
            let mut stream = connect();
            // The first of them may be closed by now.
            let _ = stream.write_all(b"GET /x HT");
            crowd.push(stream);
        }
        for path in ["/livez", "/readyz"] {
            assert_eq!(ask(&mut connect(), path, "none"), "HTTP/1.1 200 OK", "{round}");
        }
        assert_eq!(ask(&mut connect(), "/ws/v1/clusters", "operator"), "HTTP/1.1 200 OK", "{round}");
        all_are_answered("among others");
    }
}

#[test]
fn who_never_encrypts_closes_the_https_door_to_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let [cert, key] = certificate(dir.path());
    let tokens = dir.path().join("tokens");
    fs::write(&tokens, standard()).expect("written");
    let tokens = tokens.display().to_string();
    let options = ["--tokens", &tokens, "--tls-cert", &cert, "--tls-key", &key, "--first-request-timeout", "10m"];
    let Some(program) = limited([128; 2], &options) else { return };
    let server = callers::Server { program, http: Client::new(), dir };
    let at: SocketAddr = server.address("http").trim_start_matches("https://").parse().expect("an address");
    let mut crowd = Vec::new();
    for round in 0..3 {
        // There are 64 places, and the handshakes of these go on for ten minutes.
        for _ in 0..100 {
            let mut stream = TcpStream::connect(at).expect("taken by the kernel");
            // The beginning of a hello. The first of them may be closed by now.
            let _ = stream.write_all(&[0x16, 3, 1]);
            crowd.push(stream);
        }
        for path in ["/livez", "/ws/v1/clusters"] {
            let (answer, _) = tls::get(&server, path).expect("let in");
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{round}: {answer}");
        }
    }
}
