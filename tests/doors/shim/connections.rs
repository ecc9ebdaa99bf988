//! Connections that ask for nothing, for too much at a time, or in an old way.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use callboard::si::v1::{NodeInfo, NodeRequest, NodeResponse, scheduler_client::SchedulerClient};
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::shim::server::{LIMIT, Server};

/// What every HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame SETTINGS without settings.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// A connection to a door, on which reading fails after [`LIMIT`].
fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(url.trim_start_matches("http://")).expect("connected");
    stream.set_read_timeout(Some(LIMIT)).expect("a time");
    stream
}

/// Everything that comes until the server closes the connection.
fn until_closed(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("it is still open: {error}"),
        }
    }
}

async fn nodes(server: &Server) -> (Sender<NodeRequest>, Streaming<NodeResponse>) {
    let mut client = SchedulerClient::connect(server.grpc()).await.expect("connected");
    let (requests, outgoing) = channel(4);
    requests.send(NodeRequest { rm_id: "rm-1".into(), ..Default::default() }).await.expect("room");
    let answers = client.update_node(ReceiverStream::new(outgoing)).await.expect("opened");
    (requests, answers.into_inner())
}

#[tokio::test]
async fn of_a_body_that_was_refused_not_all_is_read() {
    let server = Server::start(&[]);
    let mut stream = connect(&server.url(""));
    let ended = tokio::task::spawn_blocking(move || {
        let head = "POST /si/v1/rm/nobody/nodes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("sent");
        stream.set_write_timeout(Some(LIMIT)).expect("a time");
        let (crumbs, begun) = ("1\r\n \r\n".repeat(2_000), Instant::now());
        while begun.elapsed() < LIMIT {
            if stream.write_all(crumbs.as_bytes()).is_err() {
                return true;
            }
        }
        false
    });
    assert!(ended.await.expect("no panic"), "it is read for ever");
}

#[tokio::test]
async fn a_grpc_connection_without_a_request_is_closed_and_one_with_a_request_stays() {
    let server = Server::start(&["--first-request-timeout", "300ms"]);
    server.register("rm-1", &[]).await;
    let (requests, mut answers) = nodes(&server).await;
    let (silent, mut speaks) = (connect(&server.grpc()), connect(&server.grpc()));
    speaks.write_all(&[PREFACE, SETTINGS].concat()).expect("sent");
    tokio::task::spawn_blocking(move || {
        until_closed(&silent);
        until_closed(&speaks);
    })
    .await
    .expect("no panic");
    // Older than both.
    let node = NodeInfo { node_id: "n1".into(), action: 1, ..Default::default() };
    let request = NodeRequest { rm_id: "rm-1".into(), nodes: vec![node] };
    requests.send(request).await.expect("open");
    let answer = answers.message().await.expect("open").expect("an answer");
    assert_eq!(answer.accepted[0].node_id, "n1");
}

#[test]
fn calls_on_one_grpc_connection_are_limited() {
    let server = Server::start(&[]);
    let mut stream = connect(&server.grpc());
    stream.write_all(&[PREFACE, SETTINGS].concat()).expect("sent");
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("a frame");
    assert_eq!(head[3], 4, "SETTINGS come first");
    let mut settings = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    stream.read_exact(&mut settings).expect("settings");
    let limit = settings.chunks(6).find(|setting| setting[..2] == [0, 3]).expect("SETTINGS_MAX_CONCURRENT_STREAMS");
    assert_eq!(limit[2..], 256u32.to_be_bytes());
}

#[test]
fn a_slow_head_of_a_first_request_is_not_waited_for() {
    let server = Server::start(&["--first-request-timeout", "300ms"]);
    let mut stream = connect(&server.url(""));
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127").expect("sent");
    let answer = String::from_utf8(until_closed(&stream)).expect("text");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[test]
fn a_connection_stays_open_between_requests() {
    let server = Server::start(&[]);
    let mut stream = connect(&server.url(""));
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nok\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        answer.extend(byte);
    }
    // Clients keep theirs for longer than that.
    stream.set_read_timeout(Some(Duration::from_secs(6))).expect("a time");
    let end = stream.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::WouldBlock), "it is still open");
}

#[tokio::test]
async fn http_1_0_gets_no_chunks_and_a_stream_ends_with_its_connection() {
    let server = Server::registered(&[]).await;
    for keep in ["", "Connection: keep-alive\r\n"] {
        server.register("rm-1", &[]).await;
        let mut stream = connect(&server.url(""));
        let request = format!("GET /si/v1/rm/rm-1/stream?after=0 HTTP/1.0\r\n{keep}\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        server.until(|info| info["streams"] != serde_json::json!([])).await;
        server.nodes(&["n1"]).await;
        server.until(|info| info["deliveredSequence"].as_u64() >= Some(1)).await;
        assert_eq!(server.delete("/si/v1/rm/rm-1").await.0, 200);
        let answer = tokio::task::spawn_blocking(move || until_closed(&stream)).await.expect("no panic");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.0 200 "), "{head}");
        assert!(!head.to_lowercase().contains("transfer-encoding") && !head.contains("keep-alive"), "{head}");
        // Events come on their own every second.
        let lines: Vec<&str> = body.lines().filter(|line| !line.contains("\"events\":")).collect();
        assert_eq!(lines.len(), 2, "{body}");
        assert!(lines[0].contains(",\"node\":") && lines[1].starts_with("{\"closing\":"), "{body}");
    }
}
