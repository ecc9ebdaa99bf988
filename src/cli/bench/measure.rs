//! Records of a run and what they come to.

use serde::Serialize;

use super::{beside::Read, shapes::Shape};
use crate::cli::process;

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, serde::Deserialize)]
pub struct Latency {
    /// Half of the asks at most.
    pub p50: f64,
    /// 99 of 100 at most.
    pub p99: f64,
    /// 999 of 1,000 at most.
    pub p999: f64,
}

impl Latency {
    /// Of latencies in nanoseconds, in any order.
    pub fn of(mut nanos: Vec<u64>) -> Latency {
        nanos.sort_unstable();
        let at = |share: f64| {
            let rank = (nanos.len() as f64 * share).ceil() as usize;
            nanos.get(rank.max(1) - 1).map_or(0.0, |nanos| *nanos as f64 / 1e6)
        };
        Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }
}

/// CPU seconds and memory of the measured process at one moment; `None` where it is not ours to look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    cpu: Option<f64>,
    memory: Option<u64>,
    own_cpu: Option<f64>,
}

impl Look {
    /// At the process of this id, and at this very process, which makes the load.
    pub fn at(pid: Option<u32>) -> Look {
        Look {
            cpu: pid.and_then(process::cpu_seconds),
            memory: pid.and_then(process::memory),
            own_cpu: process::cpu_seconds(std::process::id()),
        }
    }
}

/// What a run measured.
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
pub struct Outcome {
    /// Name of the shape.
    pub shape: String,
    /// What it is.
    pub about: String,
    /// `core`, `http` or `grpc`.
    pub depth: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Leaf queues.
    pub queues: usize,
    /// Number of applications.
    pub applications: usize,
    /// Asks made, those of other asks in their way left out.
    pub asks: usize,
    /// Allocations made.
    pub allocations: usize,
    /// From the first ask to the last allocation.
    pub seconds: f64,
    /// Per second of wall time.
    pub allocations_per_second: f64,
    /// Slowest and fastest of the runs of which this is the median.
    pub allocations_per_second_range: [f64; 2],
    /// Number of runs.
    pub runs: usize,
    /// Per CPU second of the server, where it is ours to look at.
    pub allocations_per_cpu_second: Option<f64>,
    /// From the ask to the callback.
    pub latency_ms: Latency,
    /// Largest resident memory of the server.
    pub peak_rss_bytes: Option<u64>,
    /// Growth of the resident memory from before the first ask, per allocation.
    pub bytes_per_allocation: Option<f64>,
    /// CPU seconds of the load generator per second; at core depth it is part of the measured process.
    pub generator_cpu_share: Option<f64>,
    /// The load generator, not the server, set the pace.
    pub generator_was_the_bottleneck: bool,
    /// What was read beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Read>,
    /// Processor, cores, memory.
    pub machine: String,
    /// Version of this program.
    pub version: String,
}

/// A run between its beginning and its end.
pub struct Span {
    /// Process that is measured.
    pub pid: Option<u32>,
    /// Before the first ask.
    pub before: Look,
    /// After the last allocation.
    pub after: Look,
    /// Wall time.
    pub seconds: f64,
    /// Number of asks.
    pub asks: usize,
    /// Latency of each allocation, ns.
    pub latencies: Vec<u64>,
}

impl Outcome {
    /// Works out the figures.
    pub fn of(shape: &Shape, depth: &str, span: Span) -> Outcome {
        let Span { pid, before, after, seconds, asks, latencies } = span;
        let allocations = latencies.len();
        let spent = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        let cpu = spent(after.cpu, before.cpu);
        let own = spent(after.own_cpu, before.own_cpu);
        let grown = after.memory.zip(before.memory).map(|(now, then)| now.saturating_sub(then) as f64);
        let rate = allocations as f64 / seconds.max(1e-9);
        let in_process = pid == Some(std::process::id());
        Outcome {
            shape: shape.name.clone(),
            about: shape.about.clone(),
            depth: depth.to_owned(),
            nodes: shape.nodes,
            queues: shape.queues,
            applications: shape.queues * shape.apps,
            asks,
            allocations,
            seconds,
            allocations_per_second: rate,
            allocations_per_second_range: [rate, rate],
            runs: 1,
            allocations_per_cpu_second: cpu.filter(|cpu| *cpu > 0.0).map(|cpu| allocations as f64 / cpu),
            latency_ms: Latency::of(latencies),
            peak_rss_bytes: pid.and_then(process::peak_memory),
            bytes_per_allocation: grown.map(|grown| grown / allocations.max(1) as f64),
            generator_cpu_share: own.filter(|_| !in_process).map(|own| own / seconds.max(1e-9)),
            generator_was_the_bottleneck: !in_process && was_the_bottleneck(own, cpu, seconds, process::cores()),
            beside: Vec::new(),
            machine: process::machine(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// What several resource managers came to that ran the same shape at the same time: rates from the longest of them and the
    /// processor time of the server meanwhile, the latencies of the slowest. `None` of none.
    pub fn together(all: Vec<Outcome>) -> Option<Outcome> {
        let cpu = |outcome: &Outcome| Some(outcome.allocations as f64 / outcome.allocations_per_cpu_second?);
        let cpu = all.iter().filter_map(cpu).reduce(f64::max);
        let seconds = all.iter().map(|outcome| outcome.seconds).reduce(f64::max)?;
        let sum = |of: fn(&Outcome) -> usize| all.iter().map(of).sum::<usize>();
        let (nodes, asks, allocations) = (sum(|o| o.nodes), sum(|o| o.asks), sum(|o| o.allocations));
        let (queues, applications) = (sum(|o| o.queues), sum(|o| o.applications));
        let rate = allocations as f64 / seconds.max(1e-9);
        let largest = |of: fn(&Latency) -> f64| all.iter().map(|o| of(&o.latency_ms)).fold(0.0, f64::max);
        let latency_ms = Latency { p50: largest(|l| l.p50), p99: largest(|l| l.p99), p999: largest(|l| l.p999) };
        let grown = all.iter().filter_map(|o| Some(o.bytes_per_allocation? * o.allocations as f64)).reduce(f64::max);
        let number = all.len();
        let last = all.into_iter().next_back()?;
        Some(Outcome {
            about: if number == 1 { last.about.clone() } else { format!("{}, {number} resource managers", last.about) },
            nodes,
            queues,
            applications,
            asks,
            allocations,
            seconds,
            allocations_per_second: rate,
            allocations_per_second_range: [rate; 2],
            allocations_per_cpu_second: cpu.filter(|cpu| *cpu > 0.0).map(|cpu| allocations as f64 / cpu),
            latency_ms,
            bytes_per_allocation: grown.map(|grown| grown / allocations.max(1) as f64),
            ..last
        })
    }
}

/// The run in the middle by allocations per second, with the range of all; `None` of no runs.
pub fn median(mut runs: Vec<Outcome>) -> Option<Outcome> {
    runs.sort_by(|a, b| a.allocations_per_second.total_cmp(&b.allocations_per_second));
    let range = [runs.first()?.allocations_per_second, runs.last()?.allocations_per_second];
    let number = runs.len();
    // Of an even number the slower one.
    let middle = runs.swap_remove((number - 1) / 2);
    Some(Outcome { allocations_per_second_range: range, runs: number, ..middle })
}

/// The machine was busy, and more with the generator than with the server; or the server cannot be looked at and the
/// generator used up a whole core.
fn was_the_bottleneck(own: Option<f64>, server: Option<f64>, seconds: f64, cores: usize) -> bool {
    match (own, server) {
        (Some(own), Some(server)) => own > server && own + server > 0.85 * seconds * cores as f64,
        (Some(own), None) => own > 0.9 * seconds,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_latencies_that_occurred() {
        let latency = Latency::of((1..=1000).rev().map(|ms| ms * 1_000_000).collect());
        assert_eq!(latency, Latency { p50: 500.0, p99: 990.0, p999: 999.0 });
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }

    #[test]
    fn the_median_run_tells_the_range_of_all() {
        let shape = crate::cli::bench::shapes::ShapeId::S1.shape().unwrap();
        let run = |seconds| {
            let (before, after) = (Look::default(), Look::default());
            Outcome::of(&shape, "core", Span { pid: None, before, after, seconds, asks: 1, latencies: vec![1] })
        };
        let median = median(vec![run(0.5), run(1.0), run(0.25)]).unwrap();
        assert_eq!((median.allocations_per_second, median.runs), (2.0, 3));
        assert_eq!(median.allocations_per_second_range, [1.0, 4.0]);
        assert!(super::median(Vec::new()).is_none());
    }

    #[test]
    fn what_runs_at_the_same_time_is_told_together() {
        let shape = crate::cli::bench::shapes::ShapeId::S1.shape().unwrap();
        let run = |seconds, nanos: &[u64]| {
            let (before, after) = (Look::default(), Look::default());
            let latencies = nanos.to_vec();
            Outcome::of(&shape, "grpc", Span { pid: None, before, after, seconds, asks: nanos.len(), latencies })
        };
        let both = Outcome::together(vec![run(2.0, &[1_000_000; 6]), run(1.0, &[3_000_000; 2])]).unwrap();
        assert_eq!((both.allocations, both.allocations_per_second, both.latency_ms.p50), (8, 4.0, 3.0));
        assert_eq!((both.nodes, both.about.as_str()), (10_000, "homogeneous, 2 resource managers"));
        assert!(Outcome::together(Vec::new()).is_none());
    }

    #[test]
    fn a_generator_that_works_more_than_the_server_is_told() {
        assert!(was_the_bottleneck(Some(1.2), Some(0.7), 1.0, 2));
        assert!(!was_the_bottleneck(Some(0.7), Some(1.2), 1.0, 2));
        assert!(!was_the_bottleneck(Some(0.5), Some(0.3), 1.0, 2));
        assert!(was_the_bottleneck(Some(0.95), None, 1.0, 2));
    }
}
