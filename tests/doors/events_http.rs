//! `/ws/v1/events/batch` and `/ws/v1/events/stream` over real sockets.

use std::{net::SocketAddr, sync::Arc};

use actix::prelude::*;
use actix_web::{HttpRequest, dev::ServerHandle, web};
use callboard::{
    actors::event::EventActor,
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_settings::EventSettings,
        resources::Resource,
        types::Nanos,
    },
    http::ws_v1::events::{batch, stream},
    messages::event::{ApplyEventSettings, GetStreams, Publish},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::{common, in_process::serve};

struct Door {
    address: SocketAddr,
    events: Addr<EventActor>,
    server: ServerHandle,
}

impl Door {
    fn open(settings: EventSettings) -> Door {
        let events = EventActor::new(settings).start();
        let shared = events.clone();
        let (address, server) = serve(move |config| {
            config
                .app_data(web::Data::new(shared.clone()))
                .route(
                    "/batch",
                    web::get().to(async |req: HttpRequest, to: web::Data<Addr<EventActor>>| batch(&req, &to).await),
                )
                .route(
                    "/stream",
                    web::get().to(async |req: HttpRequest, to: web::Data<Addr<EventActor>>| stream(&req, &to).await),
                );
        });
        Door { address, events, server }
    }

    fn publish(&self, numbers: std::ops::Range<i64>) {
        let events = numbers.map(event).collect();
        self.events.do_send(Publish { rm: "rm-1".into(), epoch: 1, events, traced: Vec::new(), first: None });
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let answer = reqwest::get(format!("http://{}{path}", self.address)).await.unwrap();
        for (name, value) in [
            ("content-type", "application/json; charset=UTF-8"),
            ("access-control-allow-origin", "*"),
            ("access-control-allow-methods", "GET, OPTIONS"),
            ("access-control-allow-headers", "X-Requested-With,Content-Type,Accept,Origin"),
        ] {
            assert_eq!(answer.headers()[name], value, "{path}");
        }
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    async fn tail(&self, query: &str) -> Tail {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET /stream{query} HTTP/1.1\r\nHost: board:9080\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut tail = Tail { socket: BufReader::new(socket), chunk: Vec::new() };
        assert_eq!(tail.line().await, "HTTP/1.1 200 OK\r\n");
        while tail.line().await != "\r\n" {}
        tail
    }

    async fn streams(&self) -> usize {
        self.events.send(GetStreams).await.unwrap().len()
    }
}

/// A client of the stream.
struct Tail {
    socket: BufReader<TcpStream>,
    chunk: Vec<u8>,
}

impl Tail {
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.socket.read_line(&mut line).await.unwrap();
        line
    }

    /// The next JSON line, `None` at the end.
    async fn json(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.chunk.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.chunk.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let size = usize::from_str_radix(self.line().await.trim(), 16).ok()?;
            let mut bytes = vec![0; size + 2];
            self.socket.read_exact(&mut bytes).await.ok()?;
            self.chunk.extend_from_slice(&bytes[..size]);
            if size == 0 {
                return None;
            }
        }
    }

    async fn numbers(&mut self, count: usize) -> Vec<i64> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            numbers.push(self.json().await.unwrap()["timestampNano"].as_i64().unwrap());
        }
        numbers
    }
}

/// Numbered from 1, since a time of 0 is left out.
fn event(number: i64) -> Event {
    Event {
        kind: EventKind::Node,
        object: "n1".into(),
        reference: "k1".into(),
        change: Change::Add,
        detail: Detail::NodeAlloc,
        message: "".into(),
        resource: Some(Arc::new(Resource::of(&[("memory", 10)]))),
        at: Nanos(number),
        partition: Arc::default(),
    }
}

fn error(status: u16, text: &str) -> (u16, String) {
    (status, format!("{}\n", json!({"status_code": status, "message": text, "description": text})))
}

fn same(answer: (u16, String), expected: (u16, String)) {
    assert_eq!(answer.0, expected.0, "{}", answer.1);
    assert!(answer.1.ends_with("}\n"));
    let (answer, expected): (Value, Value) =
        (serde_json::from_str(&answer.1).unwrap(), serde_json::from_str(&expected.1).unwrap());
    assert_eq!(answer, expected);
}

// EVT-073, EVT-001, REST section 8 rows 30 to 34, 42, 44
#[actix::test]
async fn batch_parameters() {
    let door = Door::open(EventSettings { ring_capacity: 10, response_size: 4, ..EventSettings::default() });
    let (status, empty) = door.get("/batch").await;
    let instance = serde_json::from_str::<Value>(&empty).unwrap()["InstanceUUID"].as_str().unwrap().to_owned();
    let page = |lowest: u64, highest: u64, records: &str| {
        let records = format!("\"EventRecords\":{records}}}\n");
        format!("{{\"InstanceUUID\":\"{instance}\",\"LowestID\":{lowest},\"HighestID\":{highest},{records}")
    };
    assert_eq!((status, empty), (200, page(0, 0, "null")));
    door.publish(1..16);
    let record = |number: i64| {
        format!(
            "{{\"type\":3,\"objectID\":\"n1\",\"timestampNano\":{number},\"eventChangeType\":2,\
             \"eventChangeDetail\":303,\"referenceID\":\"k1\",\
             \"resource\":{{\"resources\":{{\"memory\":{{\"value\":10}}}}}}}}"
        )
    };
    let records = |numbers: std::ops::Range<i64>| format!("[{}]", numbers.map(record).collect::<Vec<_>>().join(","));
    for (query, expected) in [
        // Without a start from the oldest that is kept.
        ("", records(6..10)),
        ("?count=2", records(6..8)),
        ("?start=0", "null".to_owned()),
        ("?start=4", "null".to_owned()),
        ("?start=15", "null".to_owned()),
        ("?start=18446744073709551615", "null".to_owned()),
        ("?start=5", records(6..10)),
        ("?start=5&count=1", records(6..7)),
        ("?start=13", records(14..16)),
        ("?start=8&count=100", records(9..13)),
        ("?start=8&count=", records(9..13)),
        ("?start=8&count=2&count=0", records(9..11)),
        ("?start=8&count=%zz", records(9..13)),
        ("?start=8&count=5;x=1", records(9..13)),
        ("?start=14&start=x", records(15..16)),
    ] {
        assert_eq!(door.get(&format!("/batch{query}")).await, (200, page(5, 14, &expected)), "{query}");
    }
    let parse = |value: &str, what: &str| error(400, &format!("strconv.ParseUint: parsing \"{value}\": {what}"));
    same(door.get("/batch?count=0&start=x").await, error(400, "0 is not a valid value for \"count\""));
    same(door.get("/batch?count=y&start=x").await, parse("y", "invalid syntax"));
    same(door.get("/batch?start=x").await, parse("x", "invalid syntax"));
    same(door.get("/batch?start=-5").await, parse("-5", "invalid syntax"));
    same(door.get("/batch?count=+5").await, parse(" 5", "invalid syntax"));
    let large = "99999999999999999999";
    same(door.get(&format!("/batch?start={large}")).await, parse(large, "value out of range"));

    // SEEDS S16: 200 with what is kept, not the 500 of row 37.
    door.events.do_send(ApplyEventSettings(EventSettings { tracking: false, ..EventSettings::default() }));
    assert_eq!(door.get("/batch?start=13").await, (200, page(5, 14, &records(14..16))));
    door.server.stop(false).await;
}

// EVT-080, EVT-081
#[actix::test]
async fn a_stream_begins_with_the_id_line_and_history() {
    let door = Door::open(EventSettings { ring_capacity: 1_000, ..EventSettings::default() });
    door.publish(1..2_001);
    let mut tail = door.tail("?count=5000").await;
    let mut live = door.tail("?count=0").await;
    let (first, other) = (tail.json().await.unwrap(), live.json().await.unwrap());
    assert_eq!(first, other);
    assert_eq!(first.as_object().unwrap().keys().collect::<Vec<_>>(), ["InstanceUUID"]);
    door.publish(2_001..9_001);
    door.publish(9_001..9_002);
    assert_eq!(tail.numbers(8_001).await, (1_001..9_002).collect::<Vec<_>>());
    assert_eq!(live.numbers(7_001).await, (2_001..9_002).collect::<Vec<_>>());
    let views = door.events.send(GetStreams).await.unwrap();
    assert_eq!(&*views[0].name, "board:9080", "EVT-087");
    door.server.stop(false).await;
}

// EVT-082, EVT-083, REST section 8 rows 35, 36, SEEDS S17
#[actix::test]
async fn stream_errors_and_limits() {
    let limits = EventSettings { max_streams_per_host: 2, ..EventSettings::default() };
    let door = Door::open(limits);
    for bad in ["abc", "-1"] {
        let text = format!("strconv.ParseUint: parsing \"{bad}\": invalid syntax");
        same(door.get(&format!("/stream?count={bad}")).await, error(400, &text));
    }
    let mut first = door.tail("").await;
    let second = door.tail("").await;
    let refused = || error(503, "Too many streaming connections");
    same(door.get("/stream").await, refused());
    same(door.get("/stream?count=abc").await, refused());
    door.events.do_send(ApplyEventSettings(EventSettings { max_streams: 0, ..EventSettings::default() }));
    same(door.get("/stream").await, refused());
    door.publish(1..3);
    first.json().await.unwrap();
    assert_eq!(first.numbers(2).await, [1, 2], "open streams stay");

    // A client that goes away makes room, although nothing is written to it.
    drop(second);
    common::until(async || door.streams().await <= 1).await;
    door.server.stop(false).await;
}

// EVT-085
#[actix::test]
async fn a_client_that_does_not_read_is_told_at_the_end() {
    let door = Door::open(EventSettings::default());
    let mut slow = door.tail("").await;
    let mut quick = door.tail("").await;
    quick.json().await.unwrap();
    let (mut published, step) = (1, 10_000);
    while door.streams().await > 1 {
        door.publish(published..published + step);
        assert_eq!(quick.numbers(step as usize).await, (published..published + step).collect::<Vec<_>>());
        published += step;
        assert!(published < 5_000_000, "the slow stream was never cut");
    }
    slow.json().await.unwrap();
    let mut expected = 1;
    let last = loop {
        let line = slow.json().await.unwrap();
        if line["timestampNano"] != json!(expected) {
            break line;
        }
        expected += 1;
    };
    let text = "Event stream was closed by the producer";
    // Event number n has the id n - 1.
    assert_eq!(last, json!({"status_code": 200, "message": text, "description": text, "next": expected - 1}));
    assert_eq!(slow.json().await, None);
    assert!(expected < published);
    door.server.stop(false).await;
}
