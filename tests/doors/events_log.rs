//! `/api/v1/events` over real sockets, with a durable store.

use std::{fs, io::Write as _, net::SocketAddr, ops::Range, path::Path, sync::Arc};

use actix::prelude::*;
use actix_web::{HttpRequest, dev::ServerHandle, web};
use callboard::{
    actors::event::EventActor,
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_settings::{EventSettings, StoreSettings},
        types::Nanos,
    },
    http::api::events::events,
    messages::event::{ApplyEventSettings, BeginToFollow, GetEventStatus, GetStreams, Publish, StopEvents},
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{common, in_process::serve};

struct Door {
    address: SocketAddr,
    events: Addr<EventActor>,
    server: ServerHandle,
}

fn settings(ring_capacity: u64, max_events: u64) -> EventSettings {
    // The events of these tests are of 1970.
    let store = StoreSettings { max_events, max_age: Nanos::ZERO, ..StoreSettings::default() };
    EventSettings { ring_capacity, store, ..EventSettings::default() }
}

impl Door {
    fn open(events_actor: EventActor) -> Door {
        let actor = events_actor.start();
        let shared = actor.clone();
        let (address, server) = serve(move |config| {
            config.app_data(web::Data::new(shared.clone())).route(
                "/events",
                web::get().to(async |req: HttpRequest, to: web::Data<Addr<EventActor>>| events(&req, &to).await),
            );
        });
        Door { address, events: actor, server }
    }

    fn durable(directory: &Path, ring_capacity: u64) -> Door {
        Door::open(EventActor::durable(settings(ring_capacity, 0), (directory, None), false).unwrap())
    }

    fn publish(&self, ids: Range<u64>) {
        self.events.do_send(Publish {
            rm: "rm-1".into(),
            epoch: 1,
            events: ids.map(event).collect(),
            traced: Vec::new(),
            first: None,
        });
    }

    /// Until all that was published is on disk.
    async fn stored(&self) {
        common::until(async || {
            let status = self.events.send(GetEventStatus).await.unwrap();
            status.store.unwrap().written == status.next
        })
        .await;
    }

    async fn get(&self, query: &str) -> Lines {
        let answer = reqwest::get(format!("http://{}/events{query}", self.address)).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
        Lines { body: answer.bytes_stream().boxed(), rest: Vec::new(), at: 0 }
    }

    async fn refused(&self, query: &str) -> (u16, Value) {
        let answer = reqwest::get(format!("http://{}/events{query}", self.address)).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// A whole answer, in short.
    async fn all(&self, query: &str) -> Vec<String> {
        let mut lines = self.get(query).await;
        let mut shown: Vec<(u64, u64)> = Vec::new();
        let mut texts = Vec::new();
        while let Some(line) = lines.next().await {
            let Some(id) = line["id"].as_u64() else {
                texts.extend(shown.drain(..).map(|(from, to)| format!("{from}-{to}")));
                texts.push(line.to_string());
                continue;
            };
            match shown.last_mut() {
                Some((_, to)) if *to + 1 == id => *to = id,
                _ => shown.push((id, id)),
            }
        }
        texts
    }

    async fn end(self) {
        self.events.send(StopEvents).await.unwrap().unwrap();
        self.server.stop(false).await;
    }
}

struct Lines {
    body: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    rest: Vec<u8>,
    at: usize,
}

impl Lines {
    async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(common::LIMIT, self.not_empty()).await.expect("in time")
    }

    async fn not_empty(&mut self) -> Option<Value> {
        loop {
            if let Some(length) = self.rest[self.at..].iter().position(|byte| *byte == b'\n') {
                let line = serde_json::from_slice(&self.rest[self.at..self.at + length]);
                self.at += length + 1;
                if length > 0 {
                    return Some(line.unwrap());
                }
                continue;
            }
            self.rest.drain(..std::mem::take(&mut self.at));
            self.rest.extend_from_slice(&self.body.next().await?.unwrap());
        }
    }

    /// The next line is this event.
    async fn expect(&mut self, id: u64) {
        let line = self.next().await.unwrap();
        assert_eq!(line["id"], id, "{line}");
        // Every event carries its id once more.
        assert_eq!(line["timestampNano"], id.to_string());
    }
}

fn event(id: u64) -> Event {
    let kind = EventKind::ALL[id as usize % 5];
    Event {
        kind,
        object: format!("object-{}", id % 10).into(),
        reference: Arc::from(if id.is_multiple_of(7) { "seventh" } else { "" }),
        change: Change::Add,
        detail: Detail::AppAlloc,
        message: "".into(),
        resource: None,
        at: Nanos(id as i64),
        partition: Arc::default(),
    }
}

#[actix::test]
async fn pages_over_disk_and_memory() {
    let directory = tempfile::tempdir().unwrap();
    let door = Door::durable(directory.path(), 50);
    assert_eq!(door.all("").await, [r#"{"next":0}"#]);
    door.publish(0..10_000);
    door.stored().await;
    door.publish(10_000..10_500);
    let next = |id: u64| format!("{{\"next\":{id}}}");
    assert_eq!(door.all("").await, ["0-10499".into(), next(10_500)]);
    assert_eq!(door.all("?from=9999").await, ["9999-10499".into(), next(10_500)]);
    assert_eq!(door.all("?from=10490&count=5").await, ["10490-10494".into(), next(10_495)]);
    assert_eq!(door.all("?from=10500").await, [next(10_500)]);
    assert_eq!(door.all("?from=100&count=1").await, ["100-100".into(), next(101)]);
    door.end().await;

    // After a restart the same ids mean the same events.
    let door = Door::durable(directory.path(), 50);
    door.publish(10_500..10_510);
    assert_eq!(door.all("?from=20").await, ["20-10509".into(), next(10_510)]);
    let line = door.get("?from=49&count=1").await.next().await.unwrap();
    assert_eq!(
        line,
        json!({"id": 49, "type": "USERGROUP", "objectID": "object-9", "timestampNano": "49",
               "eventChangeType": "ADD", "eventChangeDetail": "APP_ALLOC", "referenceID": "seventh"})
    );
    door.end().await;
}

#[actix::test]
async fn filters() {
    let directory = tempfile::tempdir().unwrap();
    let door = Door::durable(directory.path(), 50);
    door.publish(0..200);
    door.stored().await;
    let ids = |texts: &[String]| texts[..texts.len() - 1].join(" ");
    assert_eq!(ids(&door.all("?object=object-3&from=100&count=3").await), "103-103 113-113 123-123");
    assert_eq!(ids(&door.all("?object=seventh&from=175").await), "175-175 182-182 189-189 196-196");
    assert_eq!(ids(&door.all("?type=REQUEST,app&from=190").await), "190-191 195-196");
    assert_eq!(ids(&door.all("?since=1970-01-01T00:00:00.00000018Z").await), "180-199");
    assert_eq!(door.all("?since=1h").await, [r#"{"next":200}"#]);
    assert_eq!(door.all("?object=nothing").await, [r#"{"next":200}"#], "the next id shows how far it was looked");
    let (status, problem) = door.refused("?object=").await;
    assert_eq!(
        (status, &problem["field"]),
        (400, &json!("object")),
        "every event without a second object would have it"
    );
    door.end().await;
}

#[actix::test]
async fn gaps_are_lines() {
    let directory = tempfile::tempdir().unwrap();
    let door = Door::open(EventActor::durable(settings(5, 160), (directory.path(), None), false).unwrap());
    for first in (0..1_000).step_by(10) {
        door.publish(first..first + 10);
    }
    door.stored().await;
    let lines = door.all("?from=7").await;
    let gap: Value = serde_json::from_str(&lines[0]).unwrap();
    let to = gap["gap"]["to"].as_u64().unwrap();
    assert_eq!(gap, json!({"gap": {"from": 7, "to": to, "reason": "retention"}}));
    assert_eq!(lines[1..], [format!("{}-999", to + 1), r#"{"next":1000}"#.into()]);
    door.end().await;

    let door = Door::open(EventActor::new(settings(5, 0)));
    door.publish(0..20);
    let gap = r#"{"gap":{"from":3,"reason":"retention","to":14}}"#;
    assert_eq!(door.all("?from=3").await, [gap, "15-19", r#"{"next":20}"#]);
    door.end().await;
}

/// What a killed process leaves is what the files hold.
fn killed(directory: &Path) -> TempDir {
    let left = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, left.path().join(path.file_name().unwrap())).unwrap();
    }
    left
}

#[actix::test]
async fn what_happened_before_kills_is_found_behind_one_gap() {
    let directory = tempfile::tempdir().unwrap();
    let door = Door::durable(directory.path(), 10);
    door.publish(0..30);
    door.stored().await;
    let once = killed(directory.path());
    door.end().await;
    // Killed once more, before anything has happened.
    let door = Door::durable(once.path(), 10);
    door.stored().await;
    let twice = killed(once.path());
    door.end().await;
    let door = Door::durable(twice.path(), 10);
    let next = door.events.send(GetEventStatus).await.unwrap().next;
    assert!(next > 2_000_000, "{next}");
    let gap = |end: u64| json!({"gap": {"from": 30, "to": end - 1, "reason": "crash"}}).to_string();
    let end = |next: u64, previous: Option<u64>| json!({"next": next, "previous": previous}).to_string();
    assert_eq!(door.all("?last=2").await, ["28-29".into(), gap(next), end(next, Some(28))]);
    door.stored().await;
    assert_eq!(door.all("?last=2").await, ["28-29".into(), gap(next), end(next, Some(28))]);
    assert_eq!(door.all("?last=1&object=seventh").await, ["28-28".into(), gap(next), end(next, Some(28))]);
    let since = "since=1970-01-01T00:00:00.00000002Z";
    let lowest = door.all(&format!("?last=100&{since}")).await;
    assert_eq!(lowest[1..], [gap(next), end(next, None)]);
    // From within the gap.
    assert_eq!(door.all("?last=1&before=1000000").await, ["29-29".into(), gap(1_000_000), end(1_000_000, Some(29))]);
    door.publish(next..next + 3);
    let new = format!("{next}-{}", next + 2);
    assert_eq!(door.all("?last=5").await, ["28-29".into(), gap(next), new.clone(), end(next + 3, Some(28))]);
    assert_eq!(door.all("?last=3").await, [new, end(next + 3, Some(next))]);
    door.end().await;
}

#[actix::test]
async fn following_from_the_first_event_misses_and_repeats_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let door = Door::durable(directory.path(), 100);
    door.publish(0..5_000);
    door.stored().await;
    let mut all = door.get("?from=0&follow=true").await;
    let mut few = door.get("?from=4990&follow=true&count=20").await;
    let mut live = door.get("?follow=true").await;
    let mut seventh = door.get("?from=0&follow=true&object=seventh").await;
    let mut next = 5_000;
    for round in 0..80 {
        let count = [1, 300, 7, 2_000][round % 4];
        door.publish(next..next + count);
        next += count;
        if round % 10 == 0 {
            tokio::task::yield_now().await;
            if round == 40 {
                all.expect(0).await;
            }
        }
    }
    let rest = async {
        for id in 1..next {
            all.expect(id).await;
        }
    };
    let others = async {
        for id in 4_990..5_010 {
            few.expect(id).await;
        }
        assert_eq!(few.next().await, Some(json!({"next": 5_010})));
        assert_eq!(few.next().await, None);
        for id in 5_000..next {
            live.expect(id).await;
        }
        for id in (0..next).step_by(7) {
            seventh.expect(id).await;
        }
    };
    tokio::join!(rest, others);
    door.publish(next..next + 1);
    all.expect(next).await;
    let closed = json!({"closed": {"next": next + 1, "detail": "the scheduler is shutting down"}});
    door.events.send(StopEvents).await.unwrap().unwrap();
    assert_eq!(all.next().await, Some(closed));
    assert_eq!(all.next().await, None);
    door.server.stop(false).await;
}

#[actix::test]
async fn a_follower_that_does_not_read_for_a_while_misses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let door = Door::durable(directory.path(), 100);
    let mut slow = door.get("?follow=true").await;
    door.publish(0..1);
    slow.expect(0).await;
    let mut next = 1;
    while next < 220_000 {
        door.publish(next..next + 10_000);
        next += 10_000;
        door.stored().await;
    }
    for id in 1..next {
        slow.expect(id).await;
    }
    door.publish(next..next + 1);
    slow.expect(next).await;
    assert_eq!(door.events.send(GetStreams).await.unwrap().len(), 1);
    door.end().await;
}

#[actix::test]
async fn followers_that_do_not_take_what_is_stored_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let limited = EventSettings { max_streams_per_host: 2, ..settings(100, 0) };
    let door = Door::open(EventActor::durable(limited, (directory.path(), None), false).unwrap());
    // More than the sockets take.
    for first in (0..200_000).step_by(10_000) {
        door.publish(first..first + 10_000);
        door.stored().await;
    }
    let silent = || {
        let mut socket = std::net::TcpStream::connect(door.address).unwrap();
        socket.write_all(b"GET /events?follow=true&from=0 HTTP/1.1\r\nHost: board\r\n\r\n").unwrap();
        socket
    };
    let silent = [silent(), silent()];
    common::until(async || {
        let answer = reqwest::get(format!("http://{}/events?follow=true&from=0", door.address)).await.unwrap();
        answer.status() == 503
    })
    .await;
    drop(silent);
    common::until(async || door.events.send(BeginToFollow { host: [127, 0, 0, 1].into() }).await.unwrap().is_ok())
        .await;
    door.end().await;
}

#[actix::test]
async fn errors() {
    let door = Door::open(EventActor::new(settings(5, 0)));
    door.publish(0..20);
    let (status, problem) = door.refused("?from=21").await;
    assert_eq!((status, &problem["field"]), (400, &json!("from")));
    assert_eq!(problem["detail"], "event 21 does not exist yet: the next event is 20");
    assert_eq!(door.refused("?kind=app").await.0, 400);
    let none = EventSettings { max_streams: 0, ..settings(5, 0) };
    door.events.send(ApplyEventSettings(none)).await.unwrap();
    let (status, problem) = door.refused("?follow=true").await;
    assert_eq!((status, &problem["detail"]), (503, &json!("Too many streaming connections")));
    assert_eq!(door.all("?from=18").await, ["18-19", r#"{"next":20}"#], "pages are no streams");
    door.end().await;
}
