//! Events on their way to the streams.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::domain::event_block::EventSlice;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineForm {
    /// As on `/ws/v1/events/stream`.
    Plain,
    /// As on `/api/v1/events`, with the id.
    Numbered,
}

/// What one `Publish` brought, on its way to the streams: encoded by the first stream that needs it, for all of them.
#[derive(Debug)]
pub struct Batch {
    slice: EventSlice,
    lines: [OnceLock<Bytes>; 2],
}

impl Batch {
    /// Not encoded yet.
    pub fn new(slice: EventSlice) -> Batch {
        Batch { slice, lines: Default::default() }
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

    /// The events as lines of a form; `encode` is called at most once per form, whoever asks.
    pub fn lines(&self, form: LineForm, encode: impl FnOnce(&EventSlice) -> Bytes) -> Bytes {
        self.lines[form as usize].get_or_init(|| encode(&self.slice)).clone()
    }
}
