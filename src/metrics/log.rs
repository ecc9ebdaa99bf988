//! Metrics of the logs of resource managers.

use std::time::Duration;

use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, Registry, Result};

use super::added;

/// What is counted of the logs of all resource managers together.
#[derive(Clone, Debug)]
pub struct LogMetrics {
    records: IntCounter,
    bytes: IntCounter,
    flushes: Histogram,
    failures: IntCounter,
    snapshots: IntCounter,
    snapshot_bytes: IntCounter,
    snapshot_seconds: Gauge,
    lost: IntCounter,
    restart: Gauge,
}

/// Bounds of the time that a flush takes, in seconds: from a fast disk to one that is in trouble.
const FLUSHES: [f64; 12] = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0];

impl LogMetrics {
    pub(super) fn new(registry: &Registry) -> Result<LogMetrics> {
        let counter = |name: &str, help: &str| added(registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| added(registry, Gauge::new(name, help)?);
        let opts = HistogramOpts::new("callboard_log_flush_seconds", "How long writing and flushing the log took.");
        Ok(LogMetrics {
            records: counter("callboard_log_records_total", "Records of the logs of resource managers.")?,
            bytes: counter("callboard_log_bytes_total", "Bytes of these records.")?,
            flushes: added(registry, Histogram::with_opts(opts.buckets(FLUSHES.to_vec()))?)?,
            failures: counter("callboard_log_failures_total", "Attempts to write the log that the disk refused.")?,
            snapshots: counter("callboard_log_snapshots_total", "Snapshots written beside the log.")?,
            snapshot_bytes: counter("callboard_log_snapshot_bytes_total", "Bytes of these snapshots.")?,
            snapshot_seconds: gauge("callboard_log_snapshot_seconds", "How long the last snapshot took.")?,
            lost: counter(
                "callboard_log_lost_total",
                "Sessions that the log did not bring back, or not all of: their resource managers register again.",
            )?,
            restart: gauge("callboard_log_restart_seconds", "How long reading the logs took at the start.")?,
        })
    }

    /// A record of so many bytes.
    pub fn record(&self, bytes: u64) {
        self.records.inc();
        self.bytes.inc_by(bytes);
    }

    /// It was written and flushed.
    pub fn flushed(&self, took: Duration) {
        self.flushes.observe(took.as_secs_f64());
    }

    /// The disk refused.
    pub fn failed(&self) {
        self.failures.inc();
    }

    /// A snapshot was written.
    pub fn snapshot(&self, bytes: u64, took: Duration) {
        self.snapshots.inc();
        self.snapshot_bytes.inc_by(bytes);
        self.snapshot_seconds.set(took.as_secs_f64());
    }

    /// A session could not be brought back.
    pub fn lost(&self) {
        self.lost.inc();
    }

    /// All logs were read.
    pub fn restarted(&self, took: Duration) {
        self.restart.set(took.as_secs_f64());
    }
}
