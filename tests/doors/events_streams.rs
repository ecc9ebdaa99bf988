//! Many streams at a high rate, over real sockets: none misses an event, and one that does not read harms nobody. The figures of
//! `docs/performance.md`: `CALLBOARD_TEST_STREAMS=100 CALLBOARD_TEST_RATE=20000 CALLBOARD_TEST_SECONDS=20 cargo test --release
//! --test events_streams -- --nocapture`.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::prelude::*;
use actix_web::{App, HttpRequest, HttpServer, web};
use callboard::{
    actors::event::EventActor,
    cli::process::cpu_seconds,
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_settings::EventSettings,
        resources::Resource,
        types::Nanos,
    },
    http::{api, ws_v1::events::stream},
    messages::event::{GetEventStatus, Publish},
};
use futures::StreamExt as _;
use tokio::{io::AsyncWriteExt, net::TcpStream};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn event(number: u64) -> Event {
    Event {
        kind: EventKind::App,
        object: "application-000001".into(),
        reference: format!("3f0c5f3e-1c3b-4d59-9d4c-{number:012}").into(),
        change: Change::Add,
        detail: Detail::AppAlloc,
        message: Default::default(),
        resource: Some(Arc::new(Resource::of(&[("memory", 10_000_000), ("vcore", 1_000)]))),
        at: Nanos(1_795_194_232_864_123_328 + number as i64),
        partition: Arc::default(),
    }
}

fn serve(events: &Addr<EventActor>) -> SocketAddr {
    let events = events.clone();
    let server = HttpServer::new(move || {
        let routes = web::Data::new(events.clone());
        App::new()
            .app_data(routes)
            .route(
                "/follow",
                web::get()
                    .to(async |req: HttpRequest, to: web::Data<Addr<EventActor>>| api::events::events(&req, &to).await),
            )
            .route(
                "/stream",
                web::get().to(async |req: HttpRequest, to: web::Data<Addr<EventActor>>| stream(&req, &to).await),
            )
    });
    let server = server.workers(2).disable_signals().shutdown_timeout(0).bind("127.0.0.1:0").unwrap();
    let address = server.addrs()[0];
    actix::spawn(server.run());
    address
}

async fn connected(address: SocketAddr, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: board\r\n\r\n").as_bytes()).await.unwrap();
    socket
}

/// Reads until the event `last` came; every id comes once and in order. Gives the bytes.
async fn read(address: SocketAddr, last: u64, ready: Arc<tokio::sync::Barrier>) -> u64 {
    let url = format!("http://{address}/follow?follow=true&from=0");
    let mut body = reqwest::get(url).await.unwrap().bytes_stream();
    let (mut rest, mut next, mut bytes) = (Vec::new(), 0, 0);
    ready.wait().await;
    while next <= last {
        let chunk = body.next().await.expect("the stream goes on").unwrap();
        bytes += chunk.len() as u64;
        rest.extend_from_slice(&chunk);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in rest[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let digits = line.strip_prefix(b"{\"id\":").expect("an event");
            let end = digits.iter().position(|byte| *byte == b',').expect("more than the id");
            let id: u64 = std::str::from_utf8(&digits[..end]).unwrap().parse().unwrap();
            assert_eq!(id, next, "dense and ordered");
            next += 1;
        }
        rest.drain(..whole);
    }
    bytes
}

/// Processor time of this process.
fn on_cpu() -> Duration {
    Duration::from_secs_f64(cpu_seconds(std::process::id()).unwrap_or_default())
}

#[actix::test]
async fn many_streams_miss_nothing() {
    let (streams, rate) = (setting("CALLBOARD_TEST_STREAMS", 20), setting("CALLBOARD_TEST_RATE", 2_000));
    let seconds = setting("CALLBOARD_TEST_SECONDS", 2);
    let settings = EventSettings { max_streams: 10_000, max_streams_per_host: 10_000, ..EventSettings::default() };
    let events = EventActor::new(settings).start();
    let address = serve(&events);
    let total = rate * seconds;
    let ready = Arc::new(tokio::sync::Barrier::new(streams as usize + 1));
    let reading = {
        let ready = ready.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let began = on_thread();
            let readers = (0..streams).map(|_| read(address, total - 1, ready.clone()));
            let bytes = runtime.block_on(futures::future::join_all(readers));
            (bytes, on_thread() - began)
        })
    };
    // It never reads.
    let stopped = connected(address, "/stream").await;
    ready.wait().await;
    let (begun, cpu) = (Instant::now(), on_cpu());
    let mut made = 0;
    while made < total {
        let due = ((begun.elapsed().as_secs_f64() * rate as f64) as u64).min(total);
        if due > made {
            events.do_send(Publish {
                rm: "rm-1".into(),
                epoch: 1,
                events: (made..due).map(event).collect(),
                traced: Vec::new(),
                first: None,
            });
            made = due;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let published = begun.elapsed();
    let done = tokio::task::spawn_blocking(move || reading.join().unwrap());
    let (bytes, readers) = done.await.unwrap();
    let all = begun.elapsed();
    assert!(bytes.iter().all(|bytes| *bytes > total * 100));
    let status = events.send(GetEventStatus).await.unwrap();
    assert_eq!(status.next, total);
    let cut = callboard::messages::event::EventCounters::get(&status.counters.streams_cut);
    drop(stopped);
    let cpu = on_cpu() - cpu;
    println!(
        "{streams} streams, {total} events each: published in {published:.1?} ({:.0}/s), read by all {:.0?} later, none missed; \
         {:.0} MB/s in all; processor time {cpu:.1?}, of which readers {readers:.1?}; streams ended because they did not read: {cut} of 1",
        total as f64 / published.as_secs_f64(),
        all - published,
        bytes.iter().sum::<u64>() as f64 / 1e6 / all.as_secs_f64(),
    );
}

/// Lines of an answer as far as they are JSON objects.
async fn objects(
    body: impl futures::Stream<Item = reqwest::Result<bytes::Bytes>>,
    until: usize,
) -> Vec<serde_json::Value> {
    let mut body = std::pin::pin!(body);
    let (mut rest, mut found) = (Vec::new(), Vec::new());
    while found.len() < until
        && let Some(chunk) = body.next().await
    {
        rest.extend_from_slice(&chunk.unwrap());
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = rest[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        found.extend(lines.map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap()));
        rest.drain(..whole);
    }
    found
}

// EVT-085
#[actix::test]
async fn a_stopped_reader_is_told_where_it_stopped_and_goes_on_from_there() {
    let settings = EventSettings { ring_capacity: 400_000, ..EventSettings::default() };
    let events = EventActor::new(settings).start();
    let address = serve(&events);
    let mut stopped = reqwest::get(format!("http://{address}/stream")).await.unwrap().bytes_stream();
    let head = stopped.next().await.unwrap().unwrap();
    assert!(head.starts_with(b"{\"InstanceUUID\":"));
    // More than sockets and queue hold.
    let cut = async || {
        let status = events.send(GetEventStatus).await.unwrap();
        callboard::messages::event::EventCounters::get(&status.counters.streams_cut)
    };
    let mut made = 0;
    while cut().await == 0 {
        assert!(made < 400_000, "it was never ended");
        events.do_send(Publish {
            rm: "rm-1".into(),
            epoch: 1,
            events: (made..made + 5_000).map(event).collect(),
            traced: Vec::new(),
            first: None,
        });
        made += 5_000;
    }
    // It reads again: what was on the way, without a hole, and where that ends.
    let mut lines = objects(stopped, usize::MAX).await;
    let last = lines.pop().unwrap();
    let number = |line: &serde_json::Value| line["timestampNano"].as_u64().unwrap() - event(0).at.0 as u64;
    assert!(lines.iter().map(number).eq(0..lines.len() as u64));
    assert_eq!(last["message"], "Event stream was closed by the producer");
    assert_eq!(last["next"], lines.len() as u64, "{last}");
    let url = format!("http://{address}/follow?follow=true&from={}", last["next"]);
    let rest = objects(reqwest::get(url).await.unwrap().bytes_stream(), made as usize - lines.len()).await;
    assert!(rest.iter().map(|line| line["id"].as_u64().unwrap()).eq(lines.len() as u64..made));
}

/// Processor time of this thread.
fn on_thread() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}
