//! What an event costs: recorded, stored, streamed. Times are those of the processor for 5,000 events, on the event
//! actor's arbiter unless said, so that others on the machine do not count; events come as a slice of the scheduler brings
//! them, 5 per allocation and 5,000 at once.

use std::{
    hint::black_box,
    path::Path,
    sync::{Arc, OnceLock},
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
    http::ws_v1::events::records,
    messages::event::{GetEventStatus, OpenStream, Publish, StopEvents},
    store::events::{Clock, Limits, open},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const ALLOCATIONS: u64 = 1_000;
const EVENTS: u64 = 5 * ALLOCATIONS;

/// Time that this thread has had a processor, where the system tells; else time. It is told in steps of milliseconds.
fn on_cpu() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| START.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

/// Runs `work` `rounds` times.
fn timed(rounds: u64, mut work: impl FnMut()) -> Duration {
    let begun = on_cpu();
    for _ in 0..rounds {
        work();
    }
    on_cpu() - begun
}

/// The names that all slices share, as those of a scheduler do.
struct Cast {
    apps: Vec<Arc<str>>,
    nodes: Vec<Arc<str>>,
    users: Vec<Arc<str>>,
    queue: Arc<str>,
    none: Arc<str>,
}

impl Cast {
    fn new() -> Cast {
        let names =
            |what: &str, count: u64| -> Vec<Arc<str>> { (0..count).map(|n| format!("{what}-{n}").into()).collect() };
        let (apps, nodes, users) = (names("application", 200), names("node", 5_000), names("user", 50));
        Cast { apps, nodes, users, queue: "root.production.batch".into(), none: "".into() }
    }
}

/// Events of allocations on 5,000 nodes, in 200 applications of 50 users.
fn slice(cast: &Cast, first: u64) -> Vec<Event> {
    let Cast { apps, nodes, users, queue, none } = cast;
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
                    message: Default::default(),
                    resource: resource.clone(),
                    at: Nanos(1_795_194_232_864_123_328 + n as i64 * 5_000),
                    partition: Arc::default(),
                });
            };
        add(EventKind::App, app, &key, Change::Add, Detail::AppRequest, &resource);
        add(EventKind::App, app, none, Change::Set, Detail::AppRunning, &None);
        add(EventKind::Node, &nodes[(n % 5_000) as usize], &key, Change::Add, Detail::NodeAlloc, &resource);
        add(EventKind::UserGroup, &users[(n % 50) as usize], queue, Change::Add, Detail::UserResource, &resource);
        add(EventKind::App, app, &key, Change::Add, Detail::AppAlloc, &resource);
    }
    events
}

/// Publishes `rounds` slices, as fast as they are taken, 100 at a time made beforehand.
async fn publish(actor: &Addr<EventActor>, cast: &Cast, rounds: u64) -> Duration {
    let mut spent = Duration::ZERO;
    let mut left = rounds;
    while left > 0 {
        let now = left.min(100);
        left -= now;
        let slices: Vec<_> = (0..now).map(|n| slice(cast, n * ALLOCATIONS)).collect();
        let begun = on_cpu();
        for events in slices {
            actor.do_send(Publish { rm: "rm-1".into(), epoch: 1, events, traced: Vec::new(), first: None });
        }
        actor.send(GetEventStatus).await.expect("runs");
        spent += on_cpu() - begun;
        // So that the store loses nothing, which would cost nothing either.
        loop {
            let status = actor.send(GetEventStatus).await.expect("runs");
            if status.store.is_none_or(|store| store.written == status.next) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
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
            Some(directory) => EventActor::durable(settings(), (directory, None), false).expect("opens"),
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
                        black_box(batch.lines(form, |slice| records::lines(slice.events())));
                    }
                }))
                .await;
            });
        });
        let cast = Cast::new();
        publish(&actor, &cast, 25).await;
        let many = rounds.max(400);
        let spent = publish(&actor, &cast, many).await.mul_f64(rounds as f64 / many as f64);
        actor.send(StopEvents).await.expect("runs").expect("stored");
        reading.join().expect("reads");
        spent
    })
}

fn events(c: &mut Criterion) {
    let cast = Cast::new();
    let mut group = c.benchmark_group("events");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10).measurement_time(Duration::from_secs(5));
    group.bench_function("dropped", |b| {
        b.iter_custom(|rounds| {
            let slices: Vec<_> = (0..rounds.min(200)).map(|n| slice(&cast, n * ALLOCATIONS)).collect();
            let begun = on_cpu();
            let made = slices.len() as u32;
            drop(slices);
            (on_cpu() - begun) / made * rounds as u32
        });
    });
    group.bench_function("ring", |b| b.iter_custom(|rounds| published(rounds, None, 0)));
    group.bench_function("ring, one stream", |b| b.iter_custom(|rounds| published(rounds, None, 1)));
    group.bench_function("ring, 100 streams", |b| b.iter_custom(|rounds| published(rounds, None, 100)));
    let directory = tempfile::tempdir().expect("a directory");
    group.bench_function("ring and store", |b| b.iter_custom(|rounds| published(rounds, Some(directory.path()), 0)));
    let one = slice(&cast, 0);
    group.bench_function("encode JSON", |b| {
        b.iter_custom(|rounds| timed(rounds, || drop(black_box(records::lines(black_box(&one))))));
    });
    let directory = tempfile::tempdir().expect("a directory");
    let limits = Limits { events: 0, bytes: 256 << 20, age: Nanos::ZERO };
    let clock = Clock { now: Nanos::ZERO, trusted: true };
    let mut opened = open(directory.path(), None, limits, clock).expect("opens");
    group.bench_function("write to the store, on its thread", |b| {
        b.iter_custom(|rounds| {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                let first = opened.writer.next();
                let block = Arc::new(EventBlock { first, events: one.clone() });
                let pieces: Vec<_> =
                    EventSlice::of(&block, first, u64::MAX).map(EventPiece::Events).into_iter().collect();
                spent += timed(1, || opened.writer.write(&pieces, &[], Nanos::ZERO).expect("writes"));
            }
            spent
        });
    });
    if let Some((lowest, next)) = opened.reader.extent() {
        let bytes = opened.reader.size().0;
        println!("bytes per event on disk: {:.1}", bytes as f64 / (next - lowest) as f64);
        let mut from = lowest;
        group.bench_function("read from the store", |b| {
            b.iter_custom(|rounds| {
                timed(rounds, || {
                    let pieces = opened.reader.read(from, EVENTS as usize).expect("reads");
                    from = pieces.last().map_or(lowest, EventPiece::end);
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
