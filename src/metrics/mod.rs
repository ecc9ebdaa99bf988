//! Every metric with its name, labels and buckets in one place (REST 7).
//!
//! Counters and histograms are fed by the actors as things happen. Gauges are not kept at all: they are computed from a
//! [`Gauges`] at each scrape, so that they cannot drift from what they describe.

mod cluster;
mod events;
pub mod exemplars;
mod extensions;
mod gauges;
mod log;
pub mod openmetrics;
mod process;
mod refused;

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, Result,
    TextEncoder, core::Collector,
};

pub use self::{
    cluster::{ClusterGauges, GroupGauges},
    events::{EventGauges, EventStoreGauges},
    extensions::{Amounts, ExtensionGauges, LogGauges, ManagerGauges, PartitionGauges},
    gauges::{Gauges, QueueGauges},
    log::LogMetrics,
    refused::{RATE, Refused},
};
use self::{exemplars::Exemplars, gauges::Seen, process::Process};
use crate::trace::Exemplar;

/// Bounds of all histograms. They hold seconds, although their names say milliseconds (REST quirk K).
const BUCKETS: [f64; 8] = [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0];

/// How long slices take.
const SLICE: &str = "callboard_slice_seconds";
/// Bounds for slices, which are to take about 300 µs.
const SLICE_BUCKETS: [f64; 8] = [0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.1];

/// What became of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containers {
    /// Allocations sent to a resource manager.
    Allocated,
    /// Allocations that ended: each once, when its end is final (REST quirk H).
    Released,
    /// Allocations refused.
    Rejected,
    /// Bad allocation updates: unknown application or node, amounts that are not above zero, a resize that failed. Mistakes of
    /// the shim's, which the health check leaves out (OPS-013).
    Error,
}

impl Containers {
    const fn label(self) -> &'static str {
        match self {
            Containers::Allocated => "allocated",
            Containers::Released => "released",
            Containers::Rejected => "rejected",
            Containers::Error => "error",
        }
    }
}

/// What became of submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submissions {
    /// A queue was found.
    New,
    /// The application entered Accepted, also after Resuming.
    Accepted,
    /// The application was refused.
    Rejected,
}

impl Submissions {
    const fn label(self) -> &'static str {
        match self {
            Submissions::New => "new",
            Submissions::Accepted => "accepted",
            Submissions::Rejected => "rejected",
        }
    }
}

/// How an application ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppEnd {
    /// In Completed.
    Completed,
    /// In Failed.
    Failed,
    /// In Rejected.
    Rejected,
}

impl AppEnd {
    const ALL: [AppEnd; 3] = [AppEnd::Completed, AppEnd::Failed, AppEnd::Rejected];

    const fn label(self) -> &'static str {
        match self {
            AppEnd::Completed => "completed",
            AppEnd::Failed => "failed",
            AppEnd::Rejected => "rejected",
        }
    }
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// A pass over one partition.
    Pass,
    /// A cycle over all that waits.
    Cycle,
}

/// All metrics of the server.
pub struct Metrics {
    registry: Registry,
    containers: IntCounterVec,
    submissions: IntCounterVec,
    pass: Histogram,
    slice: Histogram,
    cycle: Histogram,
    queue_ends: IntCounterVec,
    /// The same over all queues, gone ones too.
    ends: [IntCounter; AppEnd::ALL.len()],
    nodes_failed: IntCounter,
    nodes_decommissioned: IntCounter,
    scrapes: IntCounterVec,
    scraping: IntGauge,
    refused: Refused,
    log: LogMetrics,
    process: Process,
    queues: Mutex<Queues>,
    /// Label values that each queue had once and that are shown as 0 when they are gone. Scrapes alone wait for each other here.
    seen: Mutex<BTreeMap<String, Seen>>,
    /// Measurements of traced requests.
    pub exemplars: Exemplars,
}

/// What is remembered of queues between scrapes. Partitions wait for it: a scrape holds it for a look at one queue only.
#[derive(Default)]
struct Queues {
    /// Container counters by clean metric name; queues whose paths clean to the same name share one.
    containers: BTreeMap<String, IntCounterVec>,
    /// Queues that there are, over all partitions: in how many of them, and which that was that came first.
    live: BTreeMap<String, (u64, u64)>,
    /// How many there are by the name of their container metric.
    named: BTreeMap<String, u64>,
    /// How many came.
    came: u64,
}

impl Queues {
    /// Tells one of a path from one of that path before.
    fn which(&self, path: &str) -> Option<u64> {
        self.live.get(path).map(|(_, which)| *which)
    }
}

fn one_less(counts: &mut BTreeMap<String, u64>, of: &str) -> bool {
    let Some(count) = counts.get_mut(of) else { return false };
    *count -= 1;
    let last = *count == 0;
    if last {
        counts.remove(of);
    }
    last
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Result<Metrics> {
        let registry = Registry::new();
        let vec = |name: &str, help: &str, labels: &[&str]| {
            added(&registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let histogram = |name: &str, help: &str| {
            let opts = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
            added(&registry, Histogram::with_opts(opts)?)
        };
        let slice_opts = HistogramOpts::new(SLICE, "How long a scheduling slice took.");
        // Nothing here is sorted for a search, and single nodes are not timed: dashboards find the names.
        for (name, of) in [
            ("trynode_latency", "trying one node for an ask"),
            ("trynode_evaluation", "the search of a node for an ask"),
            ("trypreemption_latency", "an attempt to preempt"),
        ] {
            histogram(
                &format!("yunikorn_scheduler_{name}_milliseconds"),
                &format!("For {of}; empty: it is not timed."),
            )?;
        }
        let sorting = HistogramOpts::new(
            "yunikorn_scheduler_node_sorting_latency_milliseconds",
            "For sorting, by `level`; empty: what waits is kept in order.",
        );
        let sorting = added(&registry, HistogramVec::new(sorting.buckets(BUCKETS.to_vec()), &["level"])?)?;
        for level in ["app", "queue"] {
            sorting.with_label_values(&[level]);
        }
        let metrics = Metrics {
            containers: vec(
                "yunikorn_scheduler_container_allocation_attempt_total",
                "Containers by `state`: `allocated`, `released`, `rejected` or `error`.",
                &["state"],
            )?,
            submissions: vec(
                "yunikorn_scheduler_application_submission_total",
                "Submitted applications by `result`: `new`, `accepted` or `rejected`.",
                &["result"],
            )?,
            pass: histogram(
                "yunikorn_scheduler_scheduling_latency_milliseconds",
                "How long one scheduling pass over a partition took, in seconds.",
            )?,
            slice: added(&registry, Histogram::with_opts(slice_opts.buckets(SLICE_BUCKETS.to_vec()))?)?,
            cycle: histogram(
                "yunikorn_scheduler_scheduling_cycle_milliseconds",
                "How long a whole scheduling cycle took, in seconds.",
            )?,
            queue_ends: vec(
                "yunikorn_queue_app_total",
                "Applications of a queue that ended, by `state`: `completed`, `failed` or `rejected`.",
                &["queue", "state"],
            )?,
            ends: [ended_counter()?, ended_counter()?, ended_counter()?],
            nodes_failed: IntCounter::new("nodes_failed", "Shown as a state of yunikorn_scheduler_node.")?,
            nodes_decommissioned: IntCounter::new("nodes_decommissioned", "The same.")?,
            scrapes: vec("promhttp_metric_handler_requests_total", "Scrapes by HTTP status code.", &["code"])?,
            scraping: added(
                &registry,
                IntGauge::new("promhttp_metric_handler_requests_in_flight", "Scrapes that are being served.")?,
            )?,
            refused: Refused::new(&registry)?,
            log: LogMetrics::new(&registry)?,
            process: Process::new(&registry)?,
            queues: Mutex::default(),
            seen: Mutex::default(),
            exemplars: Exemplars::default(),
            registry,
        };
        // Dashboards know it from the start.
        metrics.containers(Containers::Error, 0);
        Ok(metrics)
    }

    /// Those of the logs.
    pub fn log(&self) -> LogMetrics {
        self.log.clone()
    }

    /// Counts containers.
    pub fn containers(&self, what: Containers, count: u64) {
        self.containers.with_label_values(&[what.label()]).inc_by(count);
    }

    /// Counts allocated or released containers of a queue.
    pub fn queue_containers(&self, queue: &str, what: Containers, count: u64) {
        let counter = {
            let mut queues = self.queues();
            let name = container_metric(queue);
            match queues.containers.get(&name) {
                Some(known) => known.clone(),
                None => {
                    let opts = Opts::new(&name, "Containers of a queue by `state`: `allocated` or `released`.");
                    let Ok(counter) = IntCounterVec::new(opts, &["state"]) else { return };
                    queues.containers.insert(name, counter.clone());
                    counter
                }
            }
        };
        counter.with_label_values(&[what.label()]).inc_by(count);
    }

    /// Counts submissions.
    pub fn submissions(&self, what: Submissions, count: u64) {
        self.submissions.with_label_values(&[what.label()]).inc_by(count);
    }

    /// An application ended; `queue` is empty where it never had one.
    pub fn application_ended(&self, queue: &str, how: AppEnd) {
        self.queue_ends.with_label_values(&[queue, how.label()]).inc();
        self.ends[how as usize].inc();
    }

    /// A partition has this queue from now on.
    pub fn queue_added(&self, queue: &str) {
        let mut queues = self.queues();
        queues.came += 1;
        let came = queues.came;
        queues.live.entry(queue.to_owned()).or_insert((0, came)).0 += 1;
        *queues.named.entry(container_metric(queue)).or_default() += 1;
    }

    /// It has it no more. With the last partition that had it, what was counted for it goes.
    pub fn queue_removed(&self, queue: &str) {
        let queues = &mut *self.queues();
        let last = queues.live.get_mut(queue).is_some_and(|(count, _)| {
            *count -= 1;
            *count == 0
        });
        if last {
            queues.live.remove(queue);
            for how in AppEnd::ALL {
                // There is none where no application ended so.
                let _ = self.queue_ends.remove_label_values(&[queue, how.label()]);
            }
        }
        let name = container_metric(queue);
        if one_less(&mut queues.named, &name) {
            queues.containers.remove(&name);
        }
    }

    /// A node was to be added to a partition that does not exist.
    pub fn node_failed(&self) {
        self.nodes_failed.inc();
    }

    /// A node was decommissioned.
    pub fn node_decommissioned(&self) {
        self.nodes_decommissioned.inc();
    }

    /// The counter of requests that were not let in, for the doors.
    pub fn refused(&self) -> Refused {
        self.refused.clone()
    }

    /// Something took this long.
    pub fn took(&self, what: Timed, time: Duration) {
        let seconds = time.as_secs_f64();
        match what {
            Timed::Pass => {
                self.pass.observe(seconds);
                self.slice.observe(seconds);
            }
            Timed::Cycle => self.cycle.observe(seconds),
        }
    }

    /// A slice that did something for a traced request took this long.
    pub fn traced(&self, time: Duration, of: Exemplar) {
        self.exemplars.keep(SLICE, &SLICE_BUCKETS, time.as_secs_f64(), of);
    }

    /// Nodes for unknown partitions since the start.
    pub fn failed_nodes(&self) -> u64 {
        self.nodes_failed.get()
    }

    /// The exposition in the text format 0.0.4, with these gauges.
    pub fn text(&self, shown: &Gauges) -> Result<Vec<u8>> {
        self.scraping.inc();
        let text = self.encode(shown);
        self.scraping.dec();
        self.scrapes.with_label_values(&[if text.is_ok() { "200" } else { "500" }]).inc();
        text
    }

    fn encode(&self, shown: &Gauges) -> Result<Vec<u8>> {
        self.process.refresh();
        let mut families = self.registry.gather();
        let gauges = Registry::new();
        self.register(shown, &gauges)?;
        families.extend(gauges.gather());
        families.sort_by(|a, b| a.name().cmp(b.name()));
        let mut text = Vec::with_capacity(16 << 10);
        TextEncoder::new().encode(&families, &mut text)?;
        Ok(text)
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended_counter() -> Result<IntCounter> {
    IntCounter::new("applications_ended", "Shown as a state of yunikorn_scheduler_application_total.")
}

fn added<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

/// Name of the container metric of a queue.
fn container_metric(queue: &str) -> String {
    format!("yunikorn_{}_queue_container", clean(queue))
}

/// A text as part of a metric name: every other byte than letters, digits, `_` and `:` is `_`, and so is what a leading
/// digit gets in front.
fn clean(text: &str) -> String {
    let mut name = String::with_capacity(text.len() + 1);
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        name.push('_');
    }
    name.extend(text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b':' => char::from(byte),
        _ => '_',
    }));
    name
}

#[cfg(test)]
mod tests;
