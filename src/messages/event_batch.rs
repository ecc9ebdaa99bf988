//! Numbered events that ring, store, streams and readers share without copying them.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

use crate::domain::event::Event;

/// Consecutive events: the one at index `i` has the id `first + i`.
#[derive(Debug, Default)]
pub struct EventBlock {
    /// Id of the first.
    pub first: u64,
    /// The events.
    pub events: Vec<Event>,
}

impl EventBlock {
    /// The id after the last one.
    pub fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }
}

/// A part of a block, never empty.
#[derive(Clone, Debug)]
pub struct EventSlice {
    block: Arc<EventBlock>,
    range: Range<usize>,
}

impl EventSlice {
    /// The events of `block` with ids in `from..to`; `None` where it has none of them.
    pub fn of(block: &Arc<EventBlock>, from: u64, to: u64) -> Option<EventSlice> {
        let from = from.max(block.first);
        let to = to.min(block.end());
        // Both lie within the block here, so their distances to its first id are indexes of it.
        (from < to).then(|| EventSlice {
            block: block.clone(),
            range: (from - block.first) as usize..(to - block.first) as usize,
        })
    }

    /// Id of the first event.
    pub fn first(&self) -> u64 {
        self.block.first + self.range.start as u64
    }

    /// The id after the last one.
    pub fn end(&self) -> u64 {
        self.block.first + self.range.end as u64
    }

    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.block.events[self.range.clone()]
    }
}

/// What one `Publish` brought, on its way to the streams: encoded by the first stream that needs it, for all of them.
#[derive(Debug)]
pub struct Batch {
    slice: EventSlice,
    lines: OnceLock<Bytes>,
}

impl Batch {
    /// Not encoded yet.
    pub fn new(slice: EventSlice) -> Batch {
        Batch { slice, lines: OnceLock::new() }
    }

    /// The events.
    pub fn slice(&self) -> &EventSlice {
        &self.slice
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.slice.range.len()
    }

    /// Never, see [`EventSlice`].
    pub fn is_empty(&self) -> bool {
        self.slice.range.is_empty()
    }

    /// The events as lines; `encode` is called at most once, whoever asks.
    pub fn lines(&self, encode: impl FnOnce(&[Event]) -> Bytes) -> Bytes {
        self.lines.get_or_init(|| encode(self.slice.events())).clone()
    }
}
