//! Figures of the event system (EVT-062).

use prometheus::{IntCounter, IntGauge, Registry, Result};

use super::added;

/// What the event system counts since the start, and has at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventGauges {
    /// Events that were made.
    pub created: u64,
    /// Events that were recorded; the others came while tracking was off.
    pub processed: u64,
    /// Events collected for shims.
    pub stored: u64,
    /// Events that shims missed because too many came between two deliveries.
    pub not_stored: u64,
    /// Events handed to shims.
    pub collected: u64,
    /// Open streams.
    pub streams: u64,
    /// Streams that were ended because their client was too slow.
    pub streams_cut: u64,
    /// The durable store, where there is one.
    pub store: Option<EventStoreGauges>,
}

/// The durable store of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventStoreGauges {
    /// Events that were written.
    pub written: u64,
    /// Events that it misses.
    pub lost: u64,
    /// Writes that failed.
    pub failures: u64,
    /// The last write failed.
    pub failing: bool,
    /// Bytes on disk.
    pub bytes: u64,
    /// Events that wait to be written.
    pub waiting: u64,
    /// The clock is not believed, and so no event is deleted for its age.
    pub clock_doubted: bool,
}

impl EventGauges {
    /// Registers what is in it.
    pub(super) fn register(&self, registry: &Registry) -> Result<()> {
        let gauge = |name: &str, help: &str, value: u64| -> Result<()> {
            added(registry, IntGauge::new(name, help)?)?.set(i64::try_from(value).unwrap_or(i64::MAX));
            Ok(())
        };
        let counter = |name: &str, help: &str, value: u64| -> Result<()> {
            added(registry, IntCounter::new(name, help)?)?.inc_by(value);
            Ok(())
        };
        gauge("yunikorn_event_total_created", "Events that were made.", self.created)?;
        gauge("yunikorn_event_total_processed", "Events that were recorded.", self.processed)?;
        gauge("yunikorn_event_total_stored", "Events collected for shims.", self.stored)?;
        gauge("yunikorn_event_total_not_stored", "Events that shims missed: too many at once.", self.not_stored)?;
        gauge("yunikorn_event_total_collected", "Events handed to shims.", self.collected)?;
        gauge("callboard_event_streams", "Open streams of events.", self.streams)?;
        counter("callboard_event_streams_cut_total", "Streams that were ended as too slow.", self.streams_cut)?;
        let Some(store) = &self.store else { return Ok(()) };
        counter("callboard_event_store_written_total", "Events written to the durable store.", store.written)?;
        counter("callboard_event_store_lost_total", "Events that the durable store misses.", store.lost)?;
        counter("callboard_event_store_failures_total", "Failed writes to the durable store.", store.failures)?;
        gauge("callboard_event_store_failing", "1 while writes to the durable store fail.", store.failing.into())?;
        gauge(
            "callboard_event_store_clock_doubted",
            "1 while the clock is too far ahead to be believed, and no event is deleted for its age.",
            store.clock_doubted.into(),
        )?;
        gauge("callboard_event_store_bytes", "Size of the durable store.", store.bytes)?;
        gauge("callboard_event_store_waiting", "Events that wait to be written.", store.waiting)
    }
}
