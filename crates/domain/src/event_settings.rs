//! Settings of the event system: the `event.…` keys of the extra configuration (CFG-110).

use super::types::Nanos;

/// What can be set; a change is applied at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// `event.trackingEnabled`: new events are recorded. What was recorded stays readable either way (SEEDS S16).
    pub tracking: bool,
    /// `event.requestCapacity`: how many records are collected for a shim between two deliveries, at least 1.
    pub request_capacity: u64,
    /// `event.ringBufferCapacity`: how many records `/ws/v1/events` reaches back, at least 1.
    pub ring_capacity: u64,
    /// `event.maxStreams`: open streams in all, 0 for none.
    pub max_streams: u64,
    /// `event.maxStreamsPerHost`: open streams of one client address, 0 for none.
    pub max_streams_per_host: u64,
    /// `event.RESTResponseSize`: records in one answer of the batch endpoint, at least 1.
    pub response_size: u64,
    /// What the durable store keeps, and how often it is flushed.
    pub store: StoreSettings,
}

/// Settings of the durable event store. Where several limits are set, each holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// `event.store.maxEvents`: events, 0 for no limit.
    pub max_events: u64,
    /// `event.store.maxBytes`: bytes on disk, 0 for no limit; `Ki`, `Mi`, `Gi` and `Ti` are understood.
    pub max_bytes: u64,
    /// `event.store.maxAge`: age of an event as a duration such as `168h`, 0 for no limit.
    pub max_age: Nanos,
    /// `event.store.flushInterval`: what a crash may lose at most, from `10ms` to `1h`.
    pub flush_interval: Nanos,
}

impl Default for EventSettings {
    fn default() -> EventSettings {
        EventSettings {
            tracking: true,
            request_capacity: 1_000,
            ring_capacity: 100_000,
            max_streams: 100,
            max_streams_per_host: 15,
            response_size: 10_000,
            store: StoreSettings::default(),
        }
    }
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings {
            max_events: 20_000_000,
            max_bytes: 1 << 30,
            max_age: Nanos::from_secs(7 * 24 * 3_600),
            flush_interval: Nanos::from_secs(1),
        }
    }
}
