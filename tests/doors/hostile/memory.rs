//! What a request may take: its bytes ten times over, and 512 bytes for each of its items. Measured as the peak of the server's
//! resident memory while the worst of each kind is sent through each door.

use std::{
    fs,
    io::{Read as _, Write as _},
    marker::PhantomData,
    net::TcpStream,
    time::Duration,
};

use bytes::{Buf as _, BufMut as _, Bytes};
use callboard::messages::limits;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async_with_config, tungstenite::Message};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
};

use crate::{common::LIMIT, shim::server::Server};

/// Beside what a request takes: threads that did nothing yet, buffers of the sockets, pages that are used in part, and the events
/// and callbacks that answer it, which a busy machine sends later.
pub(super) const SLACK: usize = 20 << 20;

/// A server whose client makes a connection for each request: between two of them it builds texts for a while, and does not notice
/// that an idle connection was closed.
pub(super) async fn registered() -> Server {
    let mut server = Server::registered(&[]).await;
    server.http = reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client");
    server
}

/// What the kernel says of the server's memory, in bytes.
pub(super) fn memory(server: &Server, what: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.program.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a line");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Largest size of the server's memory while `work` is done, above `before`, in bytes.
pub(super) async fn peak(server: &Server, before: usize, work: impl Future<Output = ()>) -> usize {
    // The peak begins anew.
    fs::write(format!("/proc/{}/clear_refs", server.program.pid()), "5").expect("our own child");
    work.await;
    memory(server, "VmHWM").saturating_sub(before)
}

/// Sends what is built for each of several counts of items until it is done once at each door, and holds the server to the bound.
fn bound(what: &str, bytes: usize, items: usize, peak: usize) -> Option<String> {
    let most = 10 * bytes + 512 * items.min(limits::ITEMS) + SLACK;
    let told =
        format!("{what}: {} KiB for {} KiB and {items} items, at most {} KiB", peak >> 10, bytes >> 10, most >> 10);
    if std::env::var_os("CALLBOARD_TEST_MEMORY").is_some() {
        println!("{told}");
    }
    (peak > most).then_some(told)
}

/// JSON texts of requests: what they are, the path, the text, and how many items it has.
fn texts(bytes: usize) -> Vec<(&'static str, &'static str, String, usize)> {
    let many = |head: &str, item: &dyn Fn(usize) -> String, tail: &str| {
        let (mut text, mut items) = (head.to_owned(), 0);
        while text.len() < bytes - 200 {
            text += &item(items);
            text.push(',');
            items += 1;
        }
        text.pop();
        (text + tail, items)
    };
    let mut texts = Vec::new();
    let mut add = |what, path, (text, items): (String, usize)| texts.push((what, path, text, items));
    add("empty nodes", "nodes", many(r#"{"nodes":["#, &|_| "{}".into(), "]}"));
    add("null nodes", "nodes", many(r#"{"nodes":["#, &|_| "null".into(), "]}"));
    add("numbers for nodes", "nodes", many(r#"{"nodes":["#, &|_| "0".into(), "]}"));
    add("lists for nodes", "nodes", many(r#"{"nodes":["#, &|_| "[]".into(), "]}"));
    add("unknown fields", "nodes", many("{", &|n| format!(r#""f{n}":0"#), "}"));
    add("attributes", "nodes", many(r#"{"nodes":[{"attributes":{"#, &|n| format!(r#""{n:x}":"""#), "}}]}"));
    let crowd: Vec<String> = (0..1_000).map(|n| format!(r#""{n:x}":"""#)).collect();
    let crowd = format!(r#"{{"attributes":{{{}}}}}"#, crowd.join(","));
    add("nodes with many attributes", "nodes", many(r#"{"nodes":["#, &|_| crowd.clone(), "]}"));
    add("releases", "allocations", many(r#"{"releases":{"allocationsToRelease":["#, &|_| "{}".into(), "]}}"));
    add("empty asks", "allocations", many(r#"{"allocations":["#, &|_| "{}".into(), "]}"));
    let ask = |n: usize| {
        format!(
            r#"{{"allocationKey":"k{n}","applicationID":"ghost","resourcePerAlloc":{{"resources":{{"memory":{{"value":1}}}}}}}}"#
        )
    };
    add("asks of nobody", "allocations", many(r#"{"allocations":["#, &ask, "]}"));
    let tagged = |n: usize| {
        format!(r#"{{"allocationKey":"k{n}","allocationTags":{{"a":"","b":"","c":"","d":"","e":"","f":"","g":""}}}}"#)
    };
    add("asks with tags", "allocations", many(r#"{"allocations":["#, &tagged, "]}"));
    add("empty applications", "applications", many(r#"{"new":["#, &|_| "{}".into(), "]}"));
    add("removals", "applications", many(r#"{"remove":["#, &|_| "{}".into(), "]}"));
    add(
        "groups",
        "applications",
        many(r#"{"new":[{"applicationID":"a","ugi":{"groups":["#, &|_| r#""""#.into(), "]}}]}"),
    );
    add(
        "partitions",
        "applications",
        many(r#"{"new":["#, &|n| format!(r#"{{"applicationID":"a","partitionName":"p{n}"}}"#), "]}"),
    );
    add("answers", "answers", many("[", &|n| format!(r#"{{"id":{n}}}"#), "]"));
    add("verdicts", "answers", many(r#"{"id":1,"errors":["#, &|_| r#""""#.into(), "]}"));
    add("an answer of lists", "answers", many("[", &|_| "[]".into(), "]"));
    add("heartbeats", "heartbeat", many(r#"{"nodes":["#, &|_| r#""""#.into(), "]}"));
    add("a list of lists", "nodes", ("[".repeat(bytes - 1), 1));
    add("a long id", "nodes", (format!(r#"{{"nodes":[{{"nodeID":"{}","action":1}}]}}"#, "x".repeat(bytes - 100)), 1));
    texts
}

#[tokio::test]
async fn requests_in_json() {
    let mut wrong = Vec::new();
    // Each on a server of its own, so that nothing is counted that another one left behind; once at a small size before, so that
    // neither is what is made at the first use.
    for (small, large) in texts(64 << 10).into_iter().zip(texts(limits::BODY)) {
        let server = registered().await;
        let mut stream = server.stream("").await;
        tokio::spawn(async move { while stream.text().await.is_some() {} });
        for (last, (what, path, text, items)) in [(false, small), (true, large)] {
            let before = memory(&server, "VmRSS");
            let length = text.len();
            let post = async {
                let request = server.http.post(server.url(&format!("/si/v1/rm/rm-1/{path}")));
                let request = request.header("content-type", "application/json").body(text);
                let answer = request.send().await.unwrap_or_else(|error| panic!("{what}, {length} bytes: {error:?}"));
                let status = answer.status().as_u16();
                assert!([202, 400, 413].contains(&status), "{what}: {status}");
                // What it led to is done when the next one is.
                server.nodes(&["n1"]).await;
                server.get("/ws/v1/partition/default/nodes").await;
            };
            let peak = peak(&server, before, post).await;
            wrong.extend(bound(what, length, items, peak).filter(|_| last));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_quota_of_a_namespace() {
    // QUE-045: what nobody knows in it is passed over.
    let server = registered().await;
    let config = "partitions: [{name: default, placementrules: [{name: tag, value: namespace, create: true}], \
        queues: [{name: root, submitacl: '*'}]}]";
    let (status, told) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": config})).await;
    assert_eq!(status, 200, "{told}");
    let sent = async |id: &str, zeros: usize| {
        let quota = format!(r#"{{"x":[{}0],"resources":{{"memory":{{"value":7}}}}}}"#, "0,".repeat(zeros));
        let tags = json!({"namespace": id, "namespace.resourcequota": quota});
        let app = json!({"applicationID": id, "partitionName": "default", "ugi": {"user": "u"}, "tags": tags});
        assert_eq!(server.send("POST", "/si/v1/rm/rm-1/applications", &json!({"new": [app]})).await.0, 202);
        let url = server.url(&format!("/ws/v1/partition/default/queue/root.{id}"));
        let queue = tokio::time::timeout(LIMIT, async {
            loop {
                let answer = server.http.get(&url).send().await.expect("an answer");
                if answer.status() == 200 {
                    break answer.json::<Value>().await.expect("a queue");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert_eq!(queue.await.expect("made in time")["maxResource"], json!({"memory": 7}));
        quota.len()
    };
    sent("small", 1_000).await;
    let (before, mut length) = (memory(&server, "VmRSS"), 0);
    let peak = peak(&server, before, async { length = sent("large", limits::BODY / 2 - 1_000).await }).await;
    assert_eq!(bound("a quota", length, 1, peak), None);
}

#[tokio::test]
async fn requests_in_json_over_websocket() {
    let mut wrong = Vec::new();
    let of_requests = |(_, path, ..): &(&str, &str, String, usize)| !["answers", "heartbeat"].contains(path);
    for (small, large) in texts(64 << 10).into_iter().zip(texts(limits::BODY)).filter(|(small, _)| of_requests(small)) {
        let server = registered().await;
        for (last, (what, path, text, items)) in [(false, small), (true, large)] {
            let before = memory(&server, "VmRSS");
            let url = server.url("/si/v1/rm/rm-1/ws").replace("http:", "ws:");
            let mut socket = connect_async_with_config(url, None, false).await.expect("upgraded").0;
            let text = format!(r#"{{"{path}":{text}}}"#);
            let length = text.len();
            let send = async {
                // One that is too large ends the connection.
                let _ = socket.send(Message::text(text)).await;
                let _ = socket.send(Message::text(r#"{"nodes":{"nodes":[{"nodeID":"n1","action":1}]}}"#)).await;
                loop {
                    let told = tokio::time::timeout(LIMIT, socket.next()).await.expect("in time");
                    match told {
                        Some(Ok(Message::Text(text)))
                            if text.contains("existing node n1") || text.contains("accepted") =>
                        {
                            break;
                        }
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => break,
                    }
                }
            };
            let peak = peak(&server, before, send).await;
            wrong.extend(bound(&format!("WebSocket, {what}"), length, items, peak).filter(|_| last));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Registrations, configurations and drains: what they are, the path, the body, the length of its text, and how many items it has.
fn orders(bytes: usize) -> Vec<(&'static str, &'static str, String, usize, usize)> {
    let many = |bytes: usize, head: &str, item: &dyn Fn(usize) -> String, tail: &str| {
        let mut text = head.to_owned();
        let mut items = 0;
        while text.len() < bytes - 200 {
            text += &item(items);
            items += 1;
        }
        (text + tail, items)
    };
    // As many queues as there may be, and more.
    let queues = |count: usize| {
        let count = count.min(bytes / 20);
        let list: String = (0..count).map(|n| format!("  - {{name: q{n}}}\n")).collect();
        // A queue counts as four: what is made of it is a row of a partition.
        (format!("partitions:\n- name: default\n  queues:\n{list}"), 4 * count)
    };
    let (nested, anchors) = ("- ".repeat(bytes / 2), "x".repeat(bytes / 2));
    let bodies: Vec<(&str, (String, usize))> = vec![
        ("a list of nothing", many(bytes, "partitions: [", &|_| "a,".into(), "]")),
        ("maps of nothing", many(bytes, "[", &|_| "{},".into(), "]")),
        ("block list", many(bytes, "", &|_| "- \n".into(), "")),
        ("unknown keys", many(bytes, "{", &|n| format!("k{n}: 1,"), "}")),
        ("the same key", many(bytes, "{", &|_| "a: 1,".into(), "}")),
        ("queues", many(bytes, "partitions: [{name: default, queues: [", &|n| format!("{{name: q{n}}},"), "]}]")),
        ("queues that are taken", queues(25_000)),
        ("queues that are too many", queues(90_000)),
        ("partitions that are too many", {
            let (text, parts) = queues(90_000);
            (text.replacen("- name: default\n  queues:\n", "", 1), parts)
        }),
        ("the same queue", many(bytes, "partitions: [{name: default, queues: [", &|_| "{name: q},".into(), "]}]")),
        ("bad queues", many(bytes, "partitions: [{name: default, queues: [", &|_| "{name: '!'},".into(), "]}]")),
        (
            "bad quotas",
            many(
                bytes,
                "partitions: [{name: default, queues: [",
                &|n| format!("{{name: q{n}, resources: {{max: {{memory: x}}}}}},"),
                "]}]",
            ),
        ),
        ("partitions", many(bytes, "partitions: [", &|n| format!("{{name: p{n}, queues: []}},"), "]")),
        (
            "rules",
            many(
                bytes,
                "partitions: [{name: default, queues: [], placementrules: [",
                &|_| "{name: user},".into(),
                "]}]",
            ),
        ),
        (
            "expressions",
            many(
                bytes,
                "partitions: [{name: default, queues: [], placementrules: [",
                &|_| "{name: user, filter: {users: ['\\w{60}']}},".into(),
                "]}]",
            ),
        ),
        (
            "limits",
            many(
                bytes,
                "partitions: [{name: default, queues: [], limits: [",
                &|n| format!("{{limit: l, users: [u{n}], maxapplications: 1}},"),
                "]}]",
            ),
        ),
        ("anchors", (format!("a: &a {anchors}\nb: [{}]", "*a,".repeat(bytes / 8)), 1)),
        ("deep lists", (nested, 1)),
        ("one long text", ("x".repeat(bytes - 1), 1)),
        ("no text", (String::from_utf8(vec![1; bytes - 1]).expect("ASCII"), 1)),
    ];
    // One after the other through one of the doors, which all read them alike.
    let configurations = bodies.into_iter().enumerate().map(|(nth, (what, (text, items)))| {
        let paths = ["/ws/v1/validate-conf", "/api/v1/plan", "/si/v1/rm"];
        let path = if what.starts_with("queues") { paths[1] } else { paths[nth % 3] };
        let length = text.len();
        let body = if path == paths[2] { json!({"rmID": "rm-2", "config": text}).to_string() } else { text };
        (what, path, body, length, items)
    });
    let maps = many(bytes, r#"{"rmID":"rm-2","extraConfig":{"#, &|n| format!(r#""{n:x}":"","#), r#""x":""}}"#);
    let targets = |text: String| json!({"targets": text}).to_string();
    let small = bytes.min(1 << 20);
    let others: Vec<(&str, &str, (String, usize))> = vec![
        ("extra configuration", "/si/v1/rm", maps),
        ("ranks", "/api/v1/partition/default/resource/drain", (targets("0-4294967295".into()), 1)),
        (
            "every other rank",
            "/api/v1/partition/default/resource/drain",
            (targets((0..small / 8).map(|n| format!("{},", 2 * n)).collect()), 1),
        ),
        (
            "ranks backwards",
            "/api/v1/partition/default/resource/drain",
            (targets((0..small / 8).map(|n| format!("{},", small - 2 * n)).collect()), 1),
        ),
        ("hosts", "/api/v1/partition/default/resource/drain", (targets("n[0-1048575],".repeat(small / 16)), 1)),
        ("the same host", "/api/v1/partition/default/resource/drain", (targets("n1,".repeat(small / 4)), 1)),
        (
            "prefixes",
            "/api/v1/partition/default/resource/drain",
            (targets(format!("{}[{}]", "x".repeat(small / 4), "1,".repeat(small / 4))), 1),
        ),
    ];
    // Each element of a list of targets is an item.
    let items = |text: &str, items: usize| items.max(text.matches(',').count());
    let others = others.into_iter();
    let others = others.map(|(what, path, (text, n))| (what, path, text.clone(), text.len(), items(&text, n)));
    configurations.chain(others).collect()
}

#[tokio::test]
async fn registrations_configurations_and_drains() {
    let mut wrong = Vec::new();
    for (small, large) in orders(64 << 10).into_iter().zip(orders(limits::BODY)) {
        let server = registered().await;
        server.nodes(&["n1"]).await;
        for (last, (what, path, body, length, items)) in [(false, small), (true, large)] {
            let before = memory(&server, "VmRSS");
            let post = async {
                let request = server.http.post(server.url(path)).header("content-type", "application/json");
                let answer = request.body(body).timeout(Duration::from_secs(120)).send().await;
                let answer = answer.unwrap_or_else(|error| panic!("{path}, {what}: {error:?}"));
                assert!([200, 400, 409, 413].contains(&answer.status().as_u16()), "{what}: {}", answer.status());
                let _ = answer.bytes().await;
                if path == "/si/v1/rm" {
                    server.delete("/si/v1/rm/rm-2").await;
                }
            };
            let peak = peak(&server, before, post).await;
            wrong.extend(bound(&format!("{path}, {what}"), length, items, peak).filter(|_| last));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_told() {
    let server = Server::start(&["--http-max-body-bytes", "1000"]);
    server.register("rm-1", &[]).await;
    let url = server.url("/si/v1/rm/rm-1/ws").replace("http:", "ws:");
    let (mut socket, _) = connect_async_with_config(url, None, false).await.expect("upgraded");
    socket.send(Message::text("x".repeat(1_001))).await.expect("sent");
    loop {
        match tokio::time::timeout(LIMIT, socket.next()).await.expect("in time") {
            Some(Ok(Message::Close(Some(told)))) => {
                assert_eq!(
                    (u16::from(told.code), told.reason.contains("larger than 1000 bytes")),
                    (1009, true),
                    "{told}"
                );
                break;
            }
            Some(Ok(_)) => {}
            ended => panic!("{ended:?}"),
        }
    }
}

/// A WebSocket whose frames are made here.
fn raw_websocket(server: &Server) -> TcpStream {
    let mut socket = TcpStream::connect(server.url("").trim_start_matches("http://")).expect("connected");
    socket.set_read_timeout(Some(LIMIT)).expect("set");
    let request = "GET /si/v1/rm/rm-1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    socket.write_all(request.as_bytes()).expect("sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    socket
}

/// Reads what a small frame carries, of which this is the first byte.
fn frame(socket: &mut TcpStream, first: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 2];
        socket.read_exact(&mut head).expect("a frame");
        let mut length = usize::from(head[1]);
        // Lines of the session come in between, which are longer.
        if length == 126 {
            let mut long = [0; 2];
            socket.read_exact(&mut long).expect("its length");
            length = u16::from_be_bytes(long).into();
        }
        let mut content = vec![0; length];
        socket.read_exact(&mut content).expect("its content");
        if head[0] == first {
            return content;
        }
    }
}

/// A frame with a mask of zeros.
fn masked(first: u8, content: &[u8]) -> Vec<u8> {
    [&[first, 0x80 | content.len() as u8, 0, 0, 0, 0], content].concat()
}

#[tokio::test]
async fn a_frame_is_refused_where_it_announces_too_much() {
    let server = registered().await;
    let before = memory(&server, "VmRSS");
    let part = [&masked(0x02, &[b'x'; 100]), &[0x80, 0xff][..], &(8_u64 << 20).to_be_bytes()].concat();
    for head in [[&[0x82, 0xff][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat(), part] {
        let peak = peak(&server, before, async {
            let mut socket = raw_websocket(&server);
            socket.write_all(&head).expect("sent");
            let told = frame(&mut socket, 0x88);
            assert_eq!(told[..2], 1009_u16.to_be_bytes(), "{}", String::from_utf8_lossy(&told));
            // It is not kept either, until the connection is gone.
            let zeros = vec![0; 1 << 20];
            for _ in 0..200 {
                if socket.write_all(&zeros).is_err() {
                    break;
                }
            }
        });
        let peak = peak.await;
        assert!(peak < SLACK, "{} KiB", peak >> 10);
    }
}

#[tokio::test]
async fn what_comes_between_the_parts_of_a_message_is_not_kept() {
    let server = registered().await;
    let before = memory(&server, "VmRSS");
    let peak = peak(&server, before, async {
        let mut socket = raw_websocket(&server);
        socket.write_all(&masked(0x02, b"x")).expect("sent");
        // One byte of content in 32 KiB, 40 MiB of them: on a busy machine more would not come within the time that a message has.
        let part = [masked(0x00, b"x"), masked(0x8a, &[b'x'; 125]).repeat(250)].concat();
        for _ in 0..1_280 {
            socket.write_all(&part).expect("sent");
        }
        socket.write_all(&masked(0x89, b"all")).expect("sent");
        assert_eq!(frame(&mut socket, 0x8a), b"all");
    });
    let peak = peak.await;
    assert!(peak < SLACK, "{} KiB", peak >> 10);
}

/// Bytes out, and bytes in.
#[derive(Clone, Copy, Default)]
struct Raw(PhantomData<()>);

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        *self
    }

    fn decoder(&mut self) -> Raw {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// Sends the first message, which names the resource manager, then another, and a last one that is answered with its name, or ends the
/// stream; gives how the stream ended before that, if it did.
async fn send(server: &Server, path: &'static str, messages: [Bytes; 3]) -> Option<Status> {
    let channel = Channel::from_shared(server.grpc()).expect("an address").connect().await.expect("connected");
    let mut grpc = Grpc::new(channel).max_encoding_message_size(usize::MAX).max_decoding_message_size(usize::MAX);
    grpc.ready().await.expect("ready");
    let messages = futures::stream::iter(messages).chain(futures::stream::pending());
    let answer = grpc.streaming(Request::new(messages), path.parse().expect("a path"), Raw::default()).await;
    let mut answer = match answer {
        Ok(answer) => answer.into_inner(),
        Err(status) => return Some(status),
    };
    loop {
        match tokio::time::timeout(LIMIT, answer.message()).await.expect("in time") {
            Ok(Some(bytes)) if bytes.windows(4).any(|four| four == b"last") => return None,
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(status) if status.message().contains("a second Hello") => return None,
            Err(status) => return Some(status),
        }
    }
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encoding::encode_varint(bytes.len() as u64, &mut field);
    field.extend_from_slice(bytes);
    field
}

#[tokio::test]
async fn messages_over_grpc() {
    let server = registered().await;
    let mut wrong = Vec::new();
    let rm = |number: u8| Bytes::from(field(number, b"rm-1"));
    let (nodes, apps, allocations, extension) = (
        "/si.v1.Scheduler/UpdateNode",
        "/si.v1.Scheduler/UpdateApplication",
        "/si.v1.Scheduler/UpdateAllocation",
        "/callboard.v1.SchedulerExtension/Callbacks",
    );
    // Hello with `resume`.
    let hello = Bytes::from(field(2, &[&field(1, b"rm-1")[..], &[0x18, 1]].concat()));
    for bytes in [64 << 10, limits::BODY] {
        // What an allocator keeps of one request is not taken off the next.
        let before = memory(&server, "VmRSS");
        let repeat = |part: &[u8]| part.repeat(bytes / part.len() - 1);
        let entries = |number: u8| {
            let entry = |n: usize| field(number, &field(1, format!("{n:x}").as_bytes()));
            let mut all = Vec::new();
            (0..)
                .map(entry)
                .take_while(|entry| {
                    all.extend_from_slice(entry);
                    all.len() < bytes - 100
                })
                .count();
            all
        };
        let crowd: Vec<u8> = (0..1_000).flat_map(|n| field(3, &field(1, format!("{n:x}").as_bytes()))).collect();
        let key = |n: usize| [field(1, format!("k{n}").as_bytes()), field(9, b"ghost")].concat();
        let asks: Vec<u8> = (0..bytes / 20).flat_map(|n| field(4, &key(n))).collect();
        for (what, path, first, message, items) in [
            ("empty nodes", nodes, rm(2), repeat(&[0x0a, 0]), bytes / 2),
            ("attributes", nodes, rm(2), field(1, &entries(3)), bytes / 7),
            ("nodes with many attributes", nodes, rm(2), repeat(&field(1, &crowd)), bytes / 55),
            ("resources", nodes, rm(2), field(1, &field(4, &entries(1))), bytes / 7),
            ("empty applications", apps, rm(3), repeat(&[0x0a, 0]), bytes / 2),
            ("removals", apps, rm(3), repeat(&[0x12, 0]), bytes / 2),
            ("groups", apps, rm(3), field(1, &field(4, &repeat(&[0x12, 0]))), bytes / 16),
            ("empty asks", allocations, rm(3), repeat(&[0x22, 0]), bytes / 2),
            ("asks of nobody", allocations, rm(3), asks, bytes / 20),
            ("empty releases", allocations, rm(3), field(2, &repeat(&[0x0a, 0])), bytes / 2),
            ("numbers", allocations, rm(3), repeat(&[0x30, 1]), 1),
            ("no protobuf", allocations, rm(3), vec![0xff; bytes], 1),
            ("verdicts", extension, hello.clone(), field(7, &repeat(&[0x0a, 0])), bytes / 2),
            ("a dump", extension, hello.clone(), field(6, &field(1, &vec![b'x'; bytes - 100])), 1),
        ] {
            let length = message.len();
            let mut ended = None;
            // A node, an application, an ask; or a second Hello.
            let last = match path {
                _ if path == extension => hello.clone(),
                _ if path == nodes => field(1, &[&field(1, b"last")[..], &[0x10, 1]].concat()).into(),
                _ if path == apps => field(1, &field(1, b"last")).into(),
                _ => field(4, &field(1, b"last")).into(),
            };
            let work = async { ended = send(&server, path, [first, message.into(), last]).await };
            wrong.extend(bound(&format!("gRPC, {what}"), length, items, peak(&server, before, work).await));
            let code = ended.map_or(Code::Ok, |status| status.code());
            assert!([Code::Ok, Code::InvalidArgument, Code::ResourceExhausted].contains(&code), "{what}: {code:?}");
            if what.starts_with("empty") && bytes > 1 << 20 {
                assert_eq!(code, Code::ResourceExhausted, "{what}");
            }
        }
        if bytes < 1 << 20 {
            wrong.clear();
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Many who announce a large body and send little of it: nothing is kept for what has not come.
#[tokio::test]
async fn what_is_announced_takes_nothing() {
    let server = registered().await;
    let address = server.url("").trim_start_matches("http://").to_owned();
    let head = format!(
        "POST /si/v1/rm/rm-1/nodes HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{{",
        8 << 20
    );
    let slow = async {
        let mut open = Vec::new();
        for _ in 0..200 {
            let mut connection = TcpStream::connect(&address).expect("connected");
            connection.write_all(head.as_bytes()).expect("sent");
            open.push(connection);
        }
        server.get("/healthz").await;
        // Declared too large: refused before it comes.
        let mut connection = TcpStream::connect(&address).expect("connected");
        connection.write_all(head.replace("8388608", "8388609").as_bytes()).expect("sent");
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 413");
    };
    let before = memory(&server, "VmRSS");
    let taken = peak(&server, before, slow).await;
    assert!(taken < SLACK + 200 * (64 << 10), "{} KiB for 200 bodies that did not come", taken >> 10);

    let grpc = server.grpc().trim_start_matches("http://").to_owned();
    let announced = async {
        let mut open = Vec::new();
        for _ in 0..4 {
            let mut connection = TcpStream::connect(&grpc).expect("connected");
            connection.write_all(&begun(&grpc, 50)).expect("sent");
            open.push(connection);
        }
        server.get("/healthz").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(open);
    };
    let before = memory(&server, "VmRSS");
    let taken = peak(&server, before, announced).await;
    assert!(taken < SLACK + 200 * (64 << 10), "{} KiB for 200 messages that did not come", taken >> 10);
}

/// The bytes of an HTTP/2 connection with so many gRPC streams, on each of which a message of 8 MiB has begun.
fn begun(authority: &str, streams: u32) -> Vec<u8> {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/si.v1.Scheduler/UpdateNode"),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    // Literal fields, neither indexed nor compressed.
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let headers: Vec<u8> =
        fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for n in 0..streams {
        bytes.extend(frame(1, 4, 2 * n + 1, &headers));
        bytes.extend(frame(0, 0, 2 * n + 1, &[0, 0, 0x80, 0, 0]));
    }
    bytes
}

/// A huge page is cleared while everybody waits for it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_comes_in_small_pages() {
    let server = Server::registered(&[]).await;
    let status = fs::read_to_string(format!("/proc/{}/status", server.program.pid())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("THP_enabled:")).expect("the kernel says it");
    assert_eq!(line.split_whitespace().nth(1), Some("0"), "{line}");
}
