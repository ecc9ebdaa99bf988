//! Events on their way to the streams.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::domain::{event::Event, event_block::EventSlice};

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
        self.slice.len()
    }

    /// Never, see [`EventSlice`].
    pub fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    /// The events as lines; `encode` is called at most once, whoever asks.
    pub fn lines(&self, encode: impl FnOnce(&[Event]) -> Bytes) -> Bytes {
        self.lines.get_or_init(|| encode(self.slice.events())).clone()
    }
}
