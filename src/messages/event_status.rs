//! Figures of the event system, readable by metrics without asking the actor.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters that only grow (EVT-062).
#[derive(Debug, Default)]
pub struct EventCounters {
    /// Events that were numbered.
    pub processed: AtomicU64,
    /// Events that came while tracking was off.
    pub discarded: AtomicU64,
    /// Events collected for shims.
    pub stored: AtomicU64,
    /// Events that shims miss because `event.requestCapacity` was reached.
    pub not_stored: AtomicU64,
    /// Events handed to shims.
    pub collected: AtomicU64,
    /// Streams that were opened.
    pub streams_opened: AtomicU64,
    /// Streams that were refused because of a limit.
    pub streams_refused: AtomicU64,
    /// Streams that were ended because their client was too slow (EVT-085).
    pub streams_cut: AtomicU64,
}

impl EventCounters {
    /// Adds to one of the counters.
    pub fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Relaxed);
    }
}

/// What the event system holds at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventStatus {
    /// New events are recorded.
    pub tracking: bool,
    /// Lowest id of the ring.
    pub lowest: u64,
    /// Id of the next event.
    pub next: u64,
    /// Events that the ring may hold.
    pub capacity: u64,
    /// Open streams.
    pub streams: usize,
    /// Sessions whose shim is sent events.
    pub shims: usize,
}
