//! What a replay came to, in numbers and in words.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use super::{
    calibration::Calibration,
    gangs::GangCounts,
    record::Record,
    trace::{Amounts, Millis, Trace},
};
use crate::{cli::client::DoorKind, domain::words::plural};

/// Number of reasons that are listed; the rest is summed up.
const REASONS: usize = 6;

/// What a replay came to.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the trace.
    pub trace: String,
    /// Door that it went through; "none" where it was played in process.
    pub door: &'static str,
    /// The trace was played to its end.
    pub complete: bool,
    /// Number of nodes.
    pub nodes: usize,
    /// Applications accepted.
    pub applications: usize,
    /// Asks made.
    pub asks: usize,
    /// Number of allocations that were made.
    pub placed: usize,
    /// Asks that ended before they were placed.
    pub withdrawn: usize,
    /// Asks that wait at the end.
    pub waiting: usize,
    /// Lines of the trace that end before they start.
    pub left_out: usize,
    /// Placements that the server took back, by type.
    pub taken_back: BTreeMap<String, usize>,
    /// Refused applications and asks, by reason.
    pub refused: BTreeMap<String, usize>,
    /// Why asks had to wait when they were new.
    pub had_to_wait: BTreeMap<String, usize>,
    /// Why asks were never placed.
    pub never_placed: BTreeMap<String, usize>,
    /// Use of each resource.
    pub resources: Vec<ResourceUse>,
    /// Waits of the placements, trace time, ms: half of them, 99 of 100, and all are at most so long.
    pub wait_ms: [i64; 3],
    /// 999 of 1,000 are at most so long.
    pub wait_p999_ms: i64,
    /// 90 of 100 of the largest tenth of asks waited at most so long, trace time, ms; those that were never placed, until
    /// they ended.
    pub wait_large_ms: i64,
    /// Placements that had to wait at all.
    pub waited: usize,
    /// Placeholders, where the applications were gangs.
    pub gangs: Option<GangCounts>,
    /// What the server still held when all applications were removed; looked for with gangs only.
    pub left_over: Vec<String>,
    /// How good estimates of waits were, where some were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimates: Option<Calibration>,
    /// Length of the trace, ms.
    pub trace_ms: i64,
    /// Real time that it took through a door; in process the result does not depend on it, and does not show it.
    #[serde(flatten)]
    pub speed: Option<Pace>,
    /// Streams of callbacks that broke and were resumed.
    pub resumed: usize,
    /// Difference between the shim's books and the server's, where there is one.
    pub disagreement: Option<String>,
    /// Why the books could not be compared with the server's, where they could not.
    pub not_compared: Option<String>,
}

/// How long a replay took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    /// Real time, seconds.
    pub seconds: f64,
    /// Placements per second of real time.
    pub allocations_per_second: f64,
}

impl Pace {
    /// Of so many placements.
    pub fn of(placed: usize, took: Duration) -> Pace {
        let seconds = took.as_secs_f64();
        Pace { seconds, allocations_per_second: if seconds > 0.0 { placed as f64 / seconds } else { 0.0 } }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} allocations per second, {:.1} s in all", self.allocations_per_second, self.seconds)
    }
}

/// Use of one resource.
#[derive(Clone, Debug, Serialize)]
pub struct ResourceUse {
    /// Name of the resource type.
    pub name: &'static str,
    /// Capacity as people read it.
    pub capacity: String,
    /// Average over the trace, percent of the capacity.
    pub average: f64,
    /// Peak, percent.
    pub peak: f64,
}

impl Summary {
    /// Sums up what was played so far.
    pub fn of(record: &Record<'_>, door: Option<DoorKind>, complete: bool) -> Summary {
        let trace = record.trace;
        let counts = record.books.counts.clone();
        let mut waits = record.books.waits.clone();
        waits.sort_unstable();
        let mut large = record.books.waits_of_large(record.clock);
        large.sort_unstable();
        let start = record.samples.first().map_or(record.clock, |sample| sample.at);
        Summary {
            trace: trace.name.clone(),
            door: door.map_or("none", DoorKind::name),
            complete,
            nodes: counts.nodes,
            applications: counts.applications,
            asks: counts.asked,
            placed: counts.placed,
            withdrawn: counts.withdrawn,
            waiting: record.books.waiting.len(),
            left_out: trace.left_out,
            taken_back: counts.taken_back,
            refused: counts.refused,
            had_to_wait: record.had_to_wait.clone(),
            never_placed: record.never_placed.clone(),
            resources: uses(record),
            wait_ms: [0.5, 0.99, 1.0].map(|share| quantile(&waits, share).0),
            wait_p999_ms: quantile(&waits, 0.999).0,
            wait_large_ms: quantile(&large, 0.9).0,
            waited: waits.iter().filter(|wait| wait.0 > 0).count(),
            gangs: record.books.gangs.as_ref().map(|gangs| gangs.counts),
            left_over: Vec::new(),
            estimates: None,
            trace_ms: record.clock.0 - start.0,
            speed: door.map(|_| Pace::of(counts.placed, record.took)),
            resumed: record.resumed,
            disagreement: None,
            not_compared: None,
        }
    }

    /// Compares what the server says is used with the shim's books.
    pub fn compare(&mut self, trace: &Trace, ours: &Amounts, server: &BTreeMap<String, i64>) {
        let ours: BTreeMap<String, i64> = trace
            .types
            .iter()
            .zip(ours)
            .filter(|(_, amount)| **amount != 0)
            .map(|(kind, amount)| (kind.name().to_owned(), *amount))
            .collect();
        if ours != *server {
            self.disagreement = Some(format!("the shim counts {ours:?} as used, the server {server:?}"));
        }
    }
}

fn uses(record: &Record<'_>) -> Vec<ResourceUse> {
    let trace = record.trace;
    let capacity = trace.capacity();
    let end = record.clock;
    let samples = &record.samples;
    let start = samples.first().map_or(end, |sample| sample.at);
    let length = (end.0 - start.0).max(1) as f64;
    let of = |at: usize| {
        let until = samples.iter().skip(1).map(|sample| sample.at).chain([end]);
        let area: f64 = samples.iter().zip(until).map(|(s, until)| s.used[at] as f64 * (until.0 - s.at.0) as f64).sum();
        let peak = samples.iter().map(|sample| sample.used[at]).max().unwrap_or(0);
        let whole = capacity[at] as f64;
        ResourceUse {
            name: trace.types[at].name(),
            capacity: trace.types[at].show(capacity[at]),
            average: 100.0 * area / length / whole,
            peak: 100.0 * peak as f64 / whole,
        }
    };
    (0..trace.types.len()).filter(|at| capacity[*at] > 0).map(of).collect()
}

/// The smallest value that `share` of the sorted values do not exceed.
pub fn quantile(sorted: &[Millis], share: f64) -> Millis {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

/// Reasons with their numbers, most frequent first, the tail summed up.
pub fn ranked(reasons: &BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let mut ranked: Vec<_> = reasons.iter().map(|(reason, count)| (reason.clone(), *count)).collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if ranked.len() > REASONS {
        let rest: usize = ranked[REASONS..].iter().map(|(_, count)| count).sum();
        ranked.truncate(REASONS);
        ranked.push(("other reasons".to_owned(), rest));
    }
    ranked
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.complete { "" } else { " (interrupted)" };
        writeln!(
            f,
            "Replayed {}{part}: {} of trace time on {}, {}",
            self.trace,
            Millis(self.trace_ms),
            plural(self.nodes, "node"),
            if self.speed.is_some() { format!("through the {} door", self.door) } else { "in process".to_owned() }
        )?;
        writeln!(f)?;
        writeln!(f, "  applications   {}", self.applications)?;
        let percent = if self.asks > 0 { 100.0 * self.placed as f64 / self.asks as f64 } else { 0.0 };
        writeln!(
            f,
            "  asks           {}: {} placed ({percent:.1} %), {} ended before a place was found, {} still waiting",
            self.asks, self.placed, self.withdrawn, self.waiting
        )?;
        if let Some(gangs) = &self.gangs {
            writeln!(
                f,
                "  gangs          {} with all that was left of them; {} placed, {} of them replaced",
                gangs.complete,
                plural(gangs.placeholders, "placeholder"),
                gangs.replaced
            )?;
        }
        let [half, most, all] = self.wait_ms.map(Millis);
        writeln!(
            f,
            "  waits          {} had to wait; half at most {half}, 99 % at most {most}, longest {all} (trace time)",
            self.waited
        )?;
        let large = Millis(self.wait_large_ms);
        writeln!(f, "  large asks     90 % of the largest tenth waited at most {large} for a place or their end")?;
        for (at, used) in self.resources.iter().enumerate() {
            let title = if at == 0 { "utilisation" } else { "" };
            writeln!(
                f,
                "  {title:14} {:17} {:5.1} % on average, {:5.1} % at the peak, of {}",
                used.name, used.average, used.peak, used.capacity
            )?;
        }
        if let Some(speed) = &self.speed {
            writeln!(f, "  speed          {speed}")?;
        }
        for (title, reasons) in [
            ("Asks had to wait because", &self.had_to_wait),
            ("Asks were never placed because", &self.never_placed),
            ("Refused", &self.refused),
            ("Placements that the server took back", &self.taken_back),
        ] {
            if !reasons.is_empty() {
                writeln!(f, "\n{title}:")?;
                for (reason, count) in ranked(reasons) {
                    writeln!(f, "  {count:>7} × {reason}")?;
                }
            }
        }
        if self.left_out > 0 {
            writeln!(f, "\n{} of the trace with an end before the start: left out.", plural(self.left_out, "line"))?;
        }
        if self.resumed > 0 {
            writeln!(f, "\nThe stream of callbacks broke {} and was resumed.", plural(self.resumed, "time"))?;
        }
        if let Some(disagreement) = &self.disagreement {
            writeln!(f, "\nThe books do not agree: {disagreement}.")?;
        }
        if !self.left_over.is_empty() {
            writeln!(f, "\nLeft over after all applications were removed:")?;
            for found in &self.left_over {
                writeln!(f, "  {found}")?;
            }
        } else if self.gangs.is_some() && self.complete {
            writeln!(f, "\nNothing was left over after all applications were removed.")?;
        }
        if let Some(estimates) = &self.estimates {
            writeln!(f, "\n{estimates}")?;
        }
        if let Some(reason) = &self.not_compared {
            writeln!(f, "\nThe books could not be compared with the server's: {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occur() {
        let sorted: Vec<_> = (1..=100).map(Millis).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| quantile(&sorted, share).0), [50, 99, 100]);
        assert_eq!(quantile(&[], 0.5), Millis(0));
        assert_eq!(quantile(&[Millis(7)], 0.5), Millis(7));
    }

    #[test]
    fn many_reasons_are_summed_up() {
        let reasons = (0..9).map(|at| (format!("r{at}"), at + 1)).collect();
        let ranked = ranked(&reasons);
        assert_eq!(ranked[0], ("r8".to_owned(), 9));
        assert_eq!(ranked[6], ("other reasons".to_owned(), 1 + 2 + 3));
    }
}
