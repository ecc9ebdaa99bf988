//! Numbered events that ring, store, streams and readers share without copying them.

use std::{ops::Range, sync::Arc};

use super::event::Event;

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

    /// The part from id `from` on with at most `count` events; `None` where it has none.
    pub fn part(&self, from: u64, count: usize) -> Option<EventSlice> {
        let from = from.max(self.first());
        EventSlice::of(&self.block, from, self.end().min(from.saturating_add(count as u64)))
    }

    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.block.events[self.range.clone()]
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Never: a slice has at least one event.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

/// Ids without events: something was lost, and is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventGap {
    /// First id that is missing.
    pub from: u64,
    /// The id after the last missing one.
    pub end: u64,
    /// Why nothing is known of it.
    pub reason: GapReason,
}

/// Why events are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// They were older, or more, than what is kept.
    Retention,
    /// The store could not take them as fast as they came, or not at all, and they have left the memory since.
    NotStored,
    /// The process ended without closing the store. Not all of these ids need to have been used.
    Crash,
    /// The store is damaged there; the text names the place.
    Damage(Arc<str>),
}

impl GapReason {
    /// The name that readers see.
    pub fn name(&self) -> &'static str {
        match self {
            GapReason::Retention => "retention",
            GapReason::NotStored => "not-stored",
            GapReason::Crash => "crash",
            GapReason::Damage(_) => "damage",
        }
    }
}

/// A part of the log. The parts of an answer, or of what is to be stored, follow each other without holes.
#[derive(Clone, Debug)]
pub enum EventPiece {
    /// Events with ids that follow each other.
    Events(EventSlice),
    /// Ids without events.
    Gap(EventGap),
}

impl EventPiece {
    /// First id.
    pub fn first(&self) -> u64 {
        match self {
            EventPiece::Events(slice) => slice.first(),
            EventPiece::Gap(gap) => gap.from,
        }
    }

    /// The id after the last one.
    pub fn end(&self) -> u64 {
        match self {
            EventPiece::Events(slice) => slice.end(),
            EventPiece::Gap(gap) => gap.end,
        }
    }
}
