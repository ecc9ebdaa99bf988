//! Long answers, which are made on threads of their own: they are whole, many at a time, also for callers who go.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    access::rig,
    shim::server::Server,
    wired::rig::{application, asks, until},
};

/// More than are told of at once.
const NODES: usize = 1_200;

/// A path, and what is right of its answer.
type Wanted<'a> = (String, &'a dyn Fn(&Value) -> bool);

#[tokio::test]
async fn long_answers_are_whole_however_many_want_them() {
    let server = Server::registered(&[]).await;
    let ids: Vec<String> = (0..NODES).map(|at| format!("n{at}")).collect();
    server.nodes(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    application(&server, "app").await;
    asks(&server, "app", &["a"], i64::MAX / 2).await;
    let of = |path: &str| format!("/api/v1/partition/default/{path}");
    until(&server, &of("resource/status"), |status| status["online"]["idset"] == "0-1199").await;
    until(&server, &of("applications"), |all| all["applications"][0]["asks"] == 1).await;
    let len = |value: &Value| value.as_array().map_or(0, Vec::len);
    let why = |told: &Value, part: &str| told["met"] == false && told["why"].to_string().contains(part);
    let wanted: [Wanted<'_>; 9] = [
        (of("application/app/wait?for=placed&timeout=1ms"), &|told| why(told, "larger than every node")),
        (of("queue/root.a/wait?for=empty&timeout=1ms"), &|told| why(told, "1 application is in it: app")),
        (of("nodes"), &|all| len(&all["nodes"]) == NODES),
        (of("resource/status"), &|status| status["all"]["idset"] == "0-1199" && status["R"].is_object()),
        (of("applications"), &|all| all["matched"] == 1 && all["applications"][0]["reason"].is_object()),
        (of("demand"), &|demand| demand["partition"] == "default"),
        ("/api/v1/overview".to_owned(), &|all| all["partitions"][0]["nodes"]["total"] == NODES),
        ("/ws/v1/partitions".to_owned(), &|all| all[0]["totalNodes"] == NODES),
        ("/ws/v1/scheduler/node-utilizations".to_owned(), &|all| len(all) == 1),
    ];
    for (path, right) in &wanted {
        for (status, answer) in join_all((0..6).map(|_| server.get(path))).await {
            assert!(status == 200 && right(&answer), "{path}: {status} {answer}");
        }
    }
    // Each has all that was there when it asked.
    for path in ["/metrics", "/ws/v1/metrics"] {
        for (status, text) in join_all((0..6).map(|_| server.get(path))).await {
            let text = text.as_str().unwrap_or_default();
            assert!(status == 200 && text.contains("yunikorn_scheduler_node{state=\"active\"} 1200"), "{path}: {text}");
        }
    }
    // Who goes before its turn is no burden.
    for _ in 0..30 {
        let gone = server.http.get(server.url(&of("nodes"))).send();
        let _ = tokio::time::timeout(std::time::Duration::from_millis(1), gone).await;
    }
    assert_eq!(server.get("/healthz").await.0, 200);
}

/// Asks for this, and waits for nothing.
fn ask(server: &rig::Server, caller: &str, path: &str) -> TcpStream {
    let address = server.address("http").replace("http://", "");
    let mut stream = TcpStream::connect(&address).expect("connected");
    stream.set_read_timeout(Some(rig::LIMIT)).expect("a time");
    let token = rig::token(caller);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// The first line of the answer.
fn status(stream: &mut TcpStream) -> String {
    let mut line = [0; 12];
    stream.read_exact(&mut line).expect("an answer");
    String::from_utf8_lossy(&line).into_owned()
}

#[tokio::test]
async fn who_asks_for_many_long_answers_waits_for_itself_alone() {
    const MANY: usize = 80;
    let server = rig::Server::start(&[]);
    let send = async |path: &str, body: Value| {
        let answer = server.send("operator", "POST", path, Some(&body)).await;
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap_or_default());
    };
    let extra = json!({"rm.gracePeriod": "10m"});
    send("/si/v1/rm", json!({"rmID": "rm-1", "config": rig::CONFIG, "extraConfig": extra})).await;
    let apps: Vec<Value> = (0..2 * NODES)
        .map(|at| json!({"applicationID": format!("app-{at}"), "queueName": "root.a", "partitionName": "default", "ugi": {"user": "u", "groups": ["g"]}}))
        .collect();
    send("/si/v1/rm/rm-1/applications", json!({ "new": apps })).await;
    let asks: Vec<Value> = (0..2 * NODES)
        .map(|at| json!({"allocationKey": format!("ask-{at}"), "applicationID": format!("app-{at}"), "partitionName": "default", "resourcePerAlloc": {"resources": {"memory": {"value": 1}}}}))
        .collect();
    send("/si/v1/rm/rm-1/allocations", json!({ "allocations": asks })).await;
    let all = "/api/v1/partition/default/applications?limit=1";
    rig::until(async || {
        let answer = server.send("operator", "GET", &format!("{all}&waiting=true"), None).await;
        answer.json::<Value>().await.is_ok_and(|told| told["matched"] == 2 * NODES)
    })
    .await;
    for path in ["/ws/v1/partition/default/applications/active", "/ws/v1/metrics", "/api/v1/overview"] {
        // Each has its own.
        let mut many: Vec<TcpStream> = (0..MANY).map(|_| ask(&server, "viewer", all)).collect();
        assert_eq!(status(&mut ask(&server, "operator", path)), "HTTP/1.1 200", "{path}");
        let answered = |stream: &&TcpStream| {
            stream.set_nonblocking(true).expect("set");
            stream.peek(&mut [0]).is_ok_and(|read| read > 0)
        };
        let before = many.iter().filter(answered).count();
        assert!(before < MANY / 2, "{path}: {before} answers of another were waited for");
        for stream in &mut many {
            stream.set_nonblocking(false).expect("set");
            assert_eq!(status(stream), "HTTP/1.1 200");
        }
    }
}
