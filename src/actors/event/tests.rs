//! Messages in and out, on the paused clock.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    time::Duration,
};

use actix::prelude::*;

use super::{
    EventActor,
    streams::BACKLOG,
    testing::{events, ids, numbers},
};
use crate::{
    domain::event_settings::EventSettings,
    messages::{
        event::{
            ApplyEventSettings, CheckStreams, EndStreams, Ended, GetEvents, GetStreams, Intake, OpenStream,
            OpenedStream, Publish, Rouse, ShimSubscribe, ShimUnsubscribe, StreamReader, ToEvents, TooManyStreams,
        },
        rm::DeliverEvents,
    },
};

type Delivered = Arc<Mutex<Vec<(u64, Vec<u64>)>>>;

/// Stands for an `RmActor`.
struct Shim(Delivered);

impl Actor for Shim {
    type Context = Context<Self>;
}

impl Handler<DeliverEvents> for Shim {
    type Result = ();

    fn handle(&mut self, msg: DeliverEvents, _ctx: &mut Self::Context) {
        let numbers = msg.events.iter().map(|event| event.at.0 as u64).collect();
        self.0.lock().unwrap().push((msg.epoch, numbers));
    }
}

fn publish(numbers: std::ops::Range<u64>) -> Publish {
    Publish { rm: "rm-1".into(), epoch: 1, events: events(numbers), traced: Vec::new(), first: None }
}

fn host(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

fn open(host_number: u8, count: u64) -> OpenStream {
    OpenStream { host: host(host_number), name: "localhost:9080".into(), count }
}

async fn opened(actor: &Addr<EventActor>, host_number: u8, count: u64) -> Result<OpenedStream, TooManyStreams> {
    actor.send(open(host_number, count)).await.unwrap()
}

async fn page(actor: &Addr<EventActor>, start: u64, count: Option<u64>) -> (u64, u64, Vec<u64>) {
    let page = actor.send(GetEvents { start: Some(start), count }).await.unwrap();
    assert_eq!(ids(&page.slices), numbers(&page.slices));
    (page.lowest, page.highest, ids(&page.slices))
}

async fn apply(actor: &Addr<EventActor>, settings: EventSettings) {
    actor.send(ApplyEventSettings(settings)).await.unwrap();
}

async fn read(reader: &mut StreamReader, count: usize) -> Vec<u64> {
    let mut read = Vec::new();
    while read.len() < count {
        let batch = reader.next().await.unwrap();
        read.extend(batch.slice().events().iter().map(|event| event.at.0 as u64));
    }
    read
}

// EVT-070, EVT-071, EVT-073, EVT-074, scenario 143 of the test list
#[actix::test]
async fn pages_of_the_ring() {
    tokio::time::pause();
    let settings = EventSettings { ring_capacity: 10, response_size: 4, ..EventSettings::default() };
    let actor = EventActor::new(settings).start();
    assert_eq!(page(&actor, 0, None).await, (0, 0, vec![]));
    actor.do_send(publish(0..1));
    assert_eq!(page(&actor, 0, None).await, (0, 0, vec![0]));
    actor.do_send(publish(1..15));
    assert_eq!(page(&actor, 0, None).await, (5, 14, vec![]));
    assert_eq!(page(&actor, 5, None).await, (5, 14, vec![5, 6, 7, 8]));
    assert_eq!(page(&actor, 5, Some(5)).await.2, [5, 6, 7, 8], "capped by event.RESTResponseSize");
    assert_eq!(page(&actor, 5, Some(1)).await.2, [5], "EVT-071a");
    assert_eq!(page(&actor, 14, Some(9)).await.2, [14]);
    assert_eq!(page(&actor, 15, Some(9)).await, (5, 14, vec![]));
}

// SEEDS S16, EVT-090 to EVT-092, scenario 142 of the test list
#[actix::test]
async fn tracking_off_keeps_history_and_streams_and_on_records_again() {
    tokio::time::pause();
    let actor = EventActor::default().start();
    let mut stream = opened(&actor, 1, 0).await.unwrap();
    actor.do_send(publish(0..25));
    apply(&actor, EventSettings { tracking: false, ..EventSettings::default() }).await;
    actor.do_send(publish(25..30));
    assert_eq!(page(&actor, 0, None).await, (0, 24, (0..25).collect()));
    let while_off = opened(&actor, 1, 3).await.unwrap();
    assert_eq!(ids(&while_off.history), [22, 23, 24]);
    apply(&actor, EventSettings::default()).await;
    actor.do_send(publish(25..30));
    assert_eq!(page(&actor, 20, None).await, (0, 29, (20..30).collect()));
    assert_eq!(read(&mut stream.reader, 30).await, (0..30).collect::<Vec<_>>());
}

// EVT-081, scenarios 137 and 139 of the test list
#[actix::test]
async fn history_and_live_records_meet_without_seam() {
    tokio::time::pause();
    let actor = EventActor::new(EventSettings { ring_capacity: 10, ..EventSettings::default() }).start();
    actor.do_send(publish(0..25));
    actor.do_send(publish(25..28));
    let mut stream = opened(&actor, 1, 11).await.unwrap();
    actor.do_send(publish(28..29));
    actor.do_send(publish(29..200));
    assert_eq!(ids(&stream.history), (18..28).collect::<Vec<_>>());
    assert_eq!(read(&mut stream.reader, 172).await, (28..200).collect::<Vec<_>>());
}

// EVT-082, EVT-087, SEEDS S17, scenario 144 of the test list
#[actix::test]
async fn limits_count_clients_and_leave_open_streams_alone() {
    tokio::time::pause();
    let limited = |max_streams, max_streams_per_host| EventSettings {
        max_streams,
        max_streams_per_host,
        ..EventSettings::default()
    };
    let actor = EventActor::new(limited(3, 2)).start();
    let first = opened(&actor, 1, 0).await.unwrap();
    let mut second = opened(&actor, 1, 0).await.unwrap();
    assert!(opened(&actor, 1, 0).await.is_err());
    assert!(actor.send(CheckStreams { host: host(1) }).await.unwrap().is_err());
    let _other = opened(&actor, 2, 0).await.unwrap();
    assert!(opened(&actor, 3, 0).await.is_err());
    let views = actor.send(GetStreams).await.unwrap();
    assert_eq!(views.iter().map(|view| &*view.name).collect::<Vec<_>>(), ["localhost:9080"; 3]);

    apply(&actor, limited(0, 0)).await;
    actor.do_send(publish(0..1));
    assert_eq!(read(&mut second.reader, 1).await, [0]);
    assert!(opened(&actor, 4, 0).await.is_err(), "0 is honoured");

    apply(&actor, limited(3, 2)).await;
    drop(first);
    assert!(opened(&actor, 1, 0).await.is_ok(), "a stream that ended makes room at once");
    assert_eq!(actor.send(GetStreams).await.unwrap().len(), 2);
}

// EVT-085, scenario 138 of the test list
#[actix::test]
async fn a_slow_stream_is_cut_and_others_are_not() {
    tokio::time::pause();
    let actor = EventActor::default();
    let counters = actor.counters();
    let actor = actor.start();
    let mut slow = opened(&actor, 1, 0).await.unwrap().reader;
    let mut quick = opened(&actor, 1, 0).await.unwrap().reader;
    let steps = BACKLOG as u64 / 10_000 + 1;
    for step in 0..steps {
        actor.send(publish(step * 10_000..(step + 1) * 10_000)).await.unwrap();
        assert_eq!(read(&mut quick, 10_000).await[0], step * 10_000);
    }
    assert_eq!(slow.next().await.unwrap_err(), Ended::Lagging { next: 0 });
    assert_eq!(slow.next().await.unwrap_err(), Ended::Lagging { next: 0 });
    assert_eq!(actor.send(GetStreams).await.unwrap().len(), 1);
    assert_eq!(counters.streams_cut.load(Relaxed), 1);
}

// EVT-084
#[actix::test]
async fn a_stream_that_takes_nothing_for_five_seconds_is_cut() {
    tokio::time::pause();
    let actor = EventActor::default().start();
    let mut stalled = opened(&actor, 1, 0).await.unwrap().reader;
    let idle = opened(&actor, 2, 0).await.unwrap().reader;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(actor.send(GetStreams).await.unwrap().len(), 2, "no idle time-out");
    drop(idle);
    actor.do_send(publish(0..3));
    assert_eq!(read(&mut stalled, 3).await, [0, 1, 2]);
    actor.do_send(publish(3..4));
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(actor.send(GetStreams).await.unwrap().len(), 1);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(actor.send(GetStreams).await.unwrap().len(), 0);
    assert_eq!(stalled.next().await.unwrap_err(), Ended::Lagging { next: 3 });
}

// EVT-063, scenario 140 of the test list
#[actix::test]
async fn shims_get_their_events_every_two_seconds_up_to_the_capacity() {
    tokio::time::pause();
    let actor = EventActor::new(EventSettings { request_capacity: 3, ..EventSettings::default() });
    let counters = actor.counters();
    let actor = actor.start();
    let delivered = Delivered::default();
    let recipient = Shim(delivered.clone()).start().recipient();
    let intake = Intake::new(actor.clone().recipient());
    intake.put(ToEvents::Subscribe(ShimSubscribe { rm: "rm-1".into(), epoch: 1, recipient }));
    actor.do_send(publish(0..5));
    actor.do_send(Publish { rm: "rm-2".into(), epoch: 1, events: events(5..6), traced: Vec::new(), first: None });
    actor.do_send(Publish { rm: "rm-1".into(), epoch: 2, events: events(6..7), traced: Vec::new(), first: None });
    let more = EventSettings { request_capacity: 10, ..EventSettings::default() };
    apply(&actor, more).await;
    actor.do_send(publish(7..8));
    tokio::time::sleep(Duration::from_millis(1_900)).await;
    assert!(delivered.lock().unwrap().is_empty());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(*delivered.lock().unwrap(), [(1, vec![0, 1, 2])]);
    assert_eq!((counters.stored.load(Relaxed), counters.not_stored.load(Relaxed)), (3, 3));
    actor.do_send(publish(8..13));
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(*delivered.lock().unwrap(), [(1, vec![0, 1, 2]), (1, vec![8, 9, 10, 11, 12])]);
    assert_eq!(counters.collected.load(Relaxed), 8);
}

#[actix::test]
async fn shims_get_what_was_put_aside_for_them_before_the_server_ends() {
    tokio::time::pause();
    let actor = EventActor::default().start();
    let delivered = Delivered::default();
    let recipient = Shim(delivered.clone()).start().recipient();
    let intake = Intake::new(actor.clone().recipient());
    intake.put(ToEvents::Subscribe(ShimSubscribe { rm: "rm-1".into(), epoch: 1, recipient }));
    actor.do_send(publish(0..2));
    actor.send(EndStreams).await.unwrap();
    actor.do_send(publish(2..3));
    actor.send(EndStreams).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(*delivered.lock().unwrap(), [(1, vec![0, 1]), (1, vec![2])]);
}

#[actix::test]
async fn a_new_session_gets_nothing_of_the_old_one() {
    tokio::time::pause();
    let actor = EventActor::default().start();
    let delivered = Delivered::default();
    let recipient = Shim(delivered.clone()).start().recipient();
    let intake = Intake::new(actor.clone().recipient());
    let subscribe = |epoch| {
        let shim = ShimSubscribe { rm: "rm-1".into(), epoch, recipient: recipient.clone() };
        intake.put(ToEvents::Subscribe(shim));
    };
    let unsubscribe = |epoch| intake.put(ToEvents::Unsubscribe(ShimUnsubscribe { rm: "rm-1".into(), epoch }));
    subscribe(1);
    actor.do_send(publish(0..5));
    subscribe(2);
    unsubscribe(1);
    actor.do_send(publish(5..6));
    actor.do_send(Publish { rm: "rm-1".into(), epoch: 2, events: events(6..7), traced: Vec::new(), first: None });
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(*delivered.lock().unwrap(), [(2, vec![6])]);
    unsubscribe(2);
    actor.do_send(Publish { rm: "rm-1".into(), epoch: 2, events: events(7..8), traced: Vec::new(), first: None });
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(delivered.lock().unwrap().len(), 1);
}

// EVT-072
#[actix::test]
async fn the_ring_is_resized_while_it_is_used() {
    tokio::time::pause();
    let sized = |ring_capacity| EventSettings { ring_capacity, ..EventSettings::default() };
    let actor = EventActor::new(sized(10)).start();
    actor.do_send(publish(0..30));
    apply(&actor, sized(6)).await;
    assert_eq!(page(&actor, 24, None).await, (24, 29, (24..30).collect()));
    apply(&actor, sized(20)).await;
    actor.do_send(publish(30..50));
    assert_eq!(page(&actor, 30, None).await, (30, 49, (30..50).collect()));
}

#[actix::test]
async fn what_partitions_publish_is_there_for_whoever_asks_after_it_and_rouses_the_actor_once() {
    tokio::time::pause();
    let actor = EventActor::default().start();
    let roused = Arc::new(Mutex::new(0));
    let counting = Counting { roused: roused.clone(), actor: actor.clone() }.start();
    let intake = Intake::new(counting.recipient());
    let publisher = intake.publisher();
    let OpenedStream { mut reader, .. } = opened(&actor, 1, 0).await.unwrap();
    for number in 0..5 {
        publisher.publish(publish(number..number + 1));
        if number == 2 {
            // The first of them roused it, and it goes on looking.
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    }
    assert_eq!(page(&actor, 0, None).await, (0, 4, vec![0, 1, 2, 3, 4]));
    publisher.publish(publish(5..6));
    actor.send(publish(6..7)).await.unwrap();
    assert_eq!(read(&mut reader, 7).await, [0, 1, 2, 3, 4, 5, 6], "in the order in which they were published");
    assert_eq!(*roused.lock().unwrap(), 1);
    tokio::time::sleep(Duration::from_millis(10)).await;
    publisher.publish(publish(7..8));
    assert_eq!(read(&mut reader, 1).await, [7]);
    assert_eq!(*roused.lock().unwrap(), 2, "it rested in between");
}

#[actix::test]
async fn settings_and_subscriptions_count_from_their_place_among_events_on() {
    tokio::time::pause();
    let actor = EventActor::default().start();
    let delivered = Delivered::default();
    let recipient = Shim(delivered.clone()).start().recipient();
    let intake = Intake::new(actor.clone().recipient());
    let publisher = intake.publisher();
    let tracking = |tracking| {
        let settings = EventSettings { tracking, ..EventSettings::default() };
        intake.put(ToEvents::Settings(ApplyEventSettings(settings)));
    };
    publisher.publish(publish(0..1));
    // It is awake: what follows is there before it looks again.
    tokio::time::sleep(Duration::from_micros(100)).await;
    intake.put(ToEvents::Subscribe(ShimSubscribe { rm: "rm-1".into(), epoch: 1, recipient }));
    publisher.publish(publish(1..2));
    tracking(false);
    publisher.publish(publish(9..10));
    tracking(true);
    publisher.publish(publish(2..3));
    assert_eq!(page(&actor, 0, None).await, (0, 2, vec![0, 1, 2]));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(*delivered.lock().unwrap(), [(1, vec![1, 2])]);
}

/// Counts how often an `EventActor` is roused.
struct Counting {
    roused: Arc<Mutex<usize>>,
    actor: Addr<EventActor>,
}

impl Actor for Counting {
    type Context = Context<Self>;
}

impl Handler<Rouse> for Counting {
    type Result = ();

    fn handle(&mut self, rouse: Rouse, _ctx: &mut Self::Context) {
        *self.roused.lock().unwrap() += 1;
        self.actor.do_send(rouse);
    }
}
