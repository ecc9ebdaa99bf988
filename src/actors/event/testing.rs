//! Events that carry their own number, for tests.

use std::sync::Arc;

use crate::domain::{
    event::{Change, Detail, Event, EventKind},
    event_block::EventSlice,
    types::Nanos,
};

/// An event that knows its number.
pub fn event(number: u64) -> Event {
    Event {
        kind: EventKind::App,
        object: "app-1".into(),
        reference: Arc::from(""),
        change: Change::Add,
        detail: Detail::AppAlloc,
        message: Arc::from(""),
        resource: None,
        at: Nanos(number as i64),
        partition: Arc::default(),
    }
}

/// Events `numbers`.
pub fn events(numbers: std::ops::Range<u64>) -> Vec<Event> {
    numbers.map(event).collect()
}

/// The ids of slices.
pub fn ids(slices: &[EventSlice]) -> Vec<u64> {
    slices.iter().flat_map(|slice| slice.first()..slice.end()).collect()
}

/// The numbers of the events of slices.
pub fn numbers(slices: &[EventSlice]) -> Vec<u64> {
    slices.iter().flat_map(|slice| slice.events()).map(|event| event.at.0 as u64).collect()
}
