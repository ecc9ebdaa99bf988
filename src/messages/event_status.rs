//! Figures of the event system, readable by metrics without asking the actor.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// Counters that only grow (EVT-062), and one flag.
#[derive(Debug, Default)]
pub struct EventCounters {
    /// Events that were numbered.
    pub processed: AtomicU64,
    /// Events collected for shims.
    pub stored: AtomicU64,
    /// Events that shims miss because `event.requestCapacity` was reached.
    pub not_stored: AtomicU64,
    /// Events handed to shims.
    pub collected: AtomicU64,
    /// Streams that were ended because their client was too slow (EVT-085).
    pub streams_cut: AtomicU64,
    /// Events that are in the durable store.
    pub store_written: AtomicU64,
    /// Events that the durable store misses; each is part of a gap that readers see.
    pub store_lost: AtomicU64,
    /// Writes that failed.
    pub store_failures: AtomicU64,
    /// The last write failed: scheduling goes on, and what does not fit into the memory will be lost.
    pub store_failing: AtomicBool,
}

impl EventCounters {
    /// Adds to one of the counters.
    pub fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Relaxed);
    }

    /// Reads one of the counters.
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Relaxed)
    }
}

/// What the event system holds at the moment.
#[derive(Clone, Debug)]
pub struct EventStatus {
    /// New events are recorded.
    pub tracking: bool,
    /// Lowest id of the ring; ids are those of the log.
    pub lowest: u64,
    /// Id of the next event.
    pub next: u64,
    /// Open streams.
    pub streams: usize,
    /// The durable store, where there is one.
    pub store: Option<StoreStatus>,
    /// What was counted since the start.
    pub counters: Arc<EventCounters>,
}

/// The durable store at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// Lowest id in it.
    pub lowest: u64,
    /// The id after the last one that is written.
    pub written: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Files on disk.
    pub files: usize,
    /// Events that wait to be written.
    pub waiting: usize,
    /// What the last write failed with.
    pub failing: Option<Arc<str>>,
    /// Why no event is deleted for its age, although some would be too old by the clock.
    pub doubt: Option<Arc<str>>,
}
