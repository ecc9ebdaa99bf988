//! Events that carry their own number, for tests.

use std::{sync::Arc, time::Duration};

use actix::prelude::*;
use tempfile::TempDir;

use super::EventActor;
use crate::{
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_block::EventSlice,
        event_settings::{EventSettings, StoreSettings},
        types::Nanos,
    },
    messages::event::{GetEventStatus, Publish},
};

/// An event that knows its number.
pub fn event(number: u64) -> Event {
    Event {
        kind: EventKind::App,
        object: "app-1".into(),
        reference: Arc::from(""),
        change: Change::Add,
        detail: Detail::AppAlloc,
        message: "".into(),
        resource: None,
        at: Nanos(number as i64),
        partition: Arc::default(),
    }
}

/// Events `numbers`.
pub fn events(numbers: std::ops::Range<u64>) -> Vec<Event> {
    numbers.map(event).collect()
}

/// What the next process finds where one was killed that had written these events. The clock stands still from then on.
pub async fn after_a_kill(events: Vec<Event>) -> (Addr<EventActor>, [TempDir; 2]) {
    tokio::time::pause();
    let (directory, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // The events of these tests are of 1970.
    let store = StoreSettings { max_age: Nanos::ZERO, ..StoreSettings::default() };
    let settings = EventSettings { store, ..EventSettings::default() };
    let actor = EventActor::durable(settings.clone(), (directory.path(), None), false).unwrap().start();
    let count = events.len() as u64;
    actor.send(Publish { rm: "rm-1".into(), epoch: 1, events, traced: Vec::new(), first: None }).await.unwrap();
    // Longer than a flush interval.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(actor.send(GetEventStatus).await.unwrap().store.unwrap().written, count);
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, left.path().join(path.file_name().unwrap())).unwrap();
    }
    let next = EventActor::durable(settings, (left.path(), None), false).unwrap().start();
    (next, [directory, left])
}

/// The ids of slices.
pub fn ids(slices: &[EventSlice]) -> Vec<u64> {
    slices.iter().flat_map(|slice| slice.first()..slice.end()).collect()
}

/// The numbers of the events of slices.
pub fn numbers(slices: &[EventSlice]) -> Vec<u64> {
    slices.iter().flat_map(|slice| slice.events()).map(|event| event.at.0 as u64).collect()
}
