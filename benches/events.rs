//! What an event costs: recorded, stored, streamed. Times are per event, of the event actor's arbiter unless said; events
//! come as a slice of the scheduler brings them, 5 per allocation and 5,000 at once.

use std::{
    hint::black_box,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::prelude::*;
use callboard::{
    actors::event::EventActor,
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_block::{EventBlock, EventPiece, EventSlice},
        event_settings::{EventSettings, StoreSettings},
        resources::Resource,
        types::Nanos,
    },
    http::events::json,
    messages::event::{GetEventStatus, OpenStream, Publish, StopEvents},
    store::events::{Limits, open},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const ALLOCATIONS: u64 = 1_000;
const EVENTS: u64 = 5 * ALLOCATIONS;

/// Events of allocations on 5,000 nodes, in two queues, of 50 users.
fn slice(first: u64) -> Vec<Event> {
    let names =
        |what: &str, count: u64| -> Vec<Arc<str>> { (0..count).map(|n| format!("{what}-{n}").into()).collect() };
    let (apps, nodes, users) = (names("application", 200), names("node", 5_000), names("user", 50));
    let (queue, none): (Arc<str>, Arc<str>) = ("root.production.batch".into(), "".into());
    let mut events = Vec::with_capacity(EVENTS as usize);
    for n in first..first + ALLOCATIONS {
        let key: Arc<str> = format!("3f0c5f3e-1c3b-4d59-9d4c-{n:012}").into();
        let resource = Some(Arc::new(Resource::of(&[("memory", 10_000_000), ("vcore", 1_000)])));
        let app = &apps[(n % 200) as usize];
        let mut add =
            |kind, object: &Arc<str>, reference: &Arc<str>, change, detail, resource: &Option<Arc<Resource>>| {
                events.push(Event {
                    kind,
                    object: object.clone(),
                    reference: reference.clone(),
                    change,
                    detail,
                    message: none.clone(),
                    resource: resource.clone(),
                    at: Nanos(1_795_194_232_864_123_328 + n as i64 * 5_000),
                });
            };
        add(EventKind::App, app, &key, Change::Add, Detail::AppRequest, &resource);
        add(EventKind::App, app, &none, Change::Set, Detail::AppRunning, &None);
        add(EventKind::Node, &nodes[(n % 5_000) as usize], &key, Change::Add, Detail::NodeAlloc, &resource);
        add(EventKind::UserGroup, &users[(n % 50) as usize], &queue, Change::Add, Detail::UserResource, &resource);
        add(EventKind::App, app, &key, Change::Add, Detail::AppAlloc, &resource);
    }
    events
}

/// Publishes `rounds` slices, as fast as they are taken, 200 at a time made beforehand.
async fn publish(actor: &Addr<EventActor>, rounds: u64) -> Duration {
    let mut spent = Duration::ZERO;
    let mut left = rounds;
    while left > 0 {
        let now = left.min(200);
        left -= now;
        let slices: Vec<_> = (0..now).map(|n| slice(n * ALLOCATIONS)).collect();
        let begun = Instant::now();
        for events in slices {
            actor.do_send(Publish { rm: "rm-1".into(), epoch: 1, events });
        }
        actor.send(GetEventStatus).await.expect("runs");
        spent += begun.elapsed();
    }
    spent
}

fn settings() -> EventSettings {
    let store = StoreSettings { max_bytes: 256 << 20, ..StoreSettings::default() };
    EventSettings { max_streams: 1_000, max_streams_per_host: 1_000, store, ..EventSettings::default() }
}

/// With `streams` readers that take everything and encode it once for all of them.
fn published(rounds: u64, directory: Option<&Path>, streams: usize) -> Duration {
    System::new().block_on(async {
        let actor = match directory {
            Some(directory) => EventActor::durable(settings(), directory).expect("opens"),
            None => EventActor::new(settings()),
        };
        let actor = actor.start();
        let mut readers = Vec::new();
        for _ in 0..streams {
            let open = OpenStream { host: [127, 0, 0, 1].into(), name: "bench".into(), count: 0 };
            readers.push(actor.send(open).await.expect("runs").expect("room").reader);
        }
        // Readers on a thread of their own, as the doors are.
        let reading = std::thread::spawn(move || {
            System::new().block_on(async move {
                futures::future::join_all(readers.into_iter().map(|mut reader| async move {
                    while let Ok(batch) = reader.next().await {
                        let form = callboard::messages::event::LineForm::Plain;
                        black_box(batch.lines(form, |slice| json::lines(slice.events())));
                    }
                }))
                .await;
            });
        });
        publish(&actor, 25).await;
        let spent = publish(&actor, rounds).await;
        actor.send(StopEvents).await.expect("runs").expect("stored");
        reading.join().expect("reads");
        spent
    })
}

fn events(c: &mut Criterion) {
    let mut group = c.benchmark_group("events");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10).measurement_time(Duration::from_secs(5));
    group.bench_function("made and dropped", |b| {
        b.iter_custom(|rounds| {
            let slices: Vec<_> = (0..rounds.min(200)).map(|n| slice(n * ALLOCATIONS)).collect();
            let begun = Instant::now();
            let made = slices.len() as u32;
            drop(slices);
            begun.elapsed() / made * rounds as u32
        });
    });
    group.bench_function("ring", |b| b.iter_custom(|rounds| published(rounds, None, 0)));
    group.bench_function("ring, one stream", |b| b.iter_custom(|rounds| published(rounds, None, 1)));
    group.bench_function("ring, 100 streams", |b| b.iter_custom(|rounds| published(rounds, None, 100)));
    let directory = tempfile::tempdir().expect("a directory");
    group.bench_function("ring and store", |b| b.iter_custom(|rounds| published(rounds, Some(directory.path()), 0)));
    let one = slice(0);
    group.bench_function("encode JSON", |b| b.iter(|| json::lines(black_box(&one))));
    let directory = tempfile::tempdir().expect("a directory");
    let limits = Limits { events: 0, bytes: 256 << 20, age: Nanos::ZERO };
    let mut opened = open(directory.path(), limits).expect("opens");
    group.bench_function("write to the store, on its thread", |b| {
        b.iter(|| {
            let first = opened.writer.next();
            let block = Arc::new(EventBlock { first, events: one.clone() });
            let pieces: Vec<_> = EventSlice::of(&block, first, u64::MAX).map(EventPiece::Events).into_iter().collect();
            opened.writer.write(&pieces, Nanos::ZERO).expect("writes");
        });
    });
    let (lowest, next) = opened.reader.extent().expect("something is there");
    let bytes = opened.reader.size().0;
    println!("bytes per event on disk: {:.1}", bytes as f64 / (next - lowest) as f64);
    let mut from = lowest;
    group.bench_function("read from the store", |b| {
        b.iter(|| {
            let pieces = opened.reader.read(from, EVENTS as usize).expect("reads");
            from = pieces.last().map_or(lowest, EventPiece::end);
        });
    });
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
