//! The queue configuration that a trace is played with, unless one is given: a queue per team below root, sized by its
//! share of the demand.

use std::fmt::Write;

use super::trace::{Amounts, ResourceKind, Trace};

/// Of the cluster, this part is guaranteed to queues in proportion to their demand.
const GUARANTEED: f64 = 0.5;
/// A queue may grow to this multiple of its share of the demand …
const ELBOW_ROOM: f64 = 1.5;
/// … and to this part of the cluster in any case.
const SMALLEST_MAX: f64 = 0.25;

/// The configuration as YAML text.
pub fn of(trace: &Trace) -> String {
    let capacity = trace.capacity();
    let queues = trace.queues();
    let peaks = peaks(trace);
    let mut text = String::from(
        "partitions:\n  - name: default\n    placementrules:\n      - name: provided\n        create: false\n    queues:\n      - name: root\n        submitacl: \"*\"\n        queues:\n",
    );
    for (queue, peak) in queues.iter().zip(&peaks) {
        let (mut guaranteed, mut max) = (String::new(), String::new());
        for (at, kind) in trace.types.iter().enumerate().filter(|(at, _)| peak[*at] > 0 && capacity[*at] > 0) {
            let demand: f64 = peaks.iter().map(|peak| peak[at] as f64).sum();
            let share = peak[at] as f64 / demand;
            let cluster = capacity[at] as f64;
            let top = most(trace, queue, at, cluster, share);
            let bottom = ((cluster * share * GUARANTEED) as i64).min(top);
            // Writing to a String cannot fail.
            let _ = writeln!(guaranteed, "                {}: {}", kind.name(), quantity(*kind, bottom));
            let _ = writeln!(max, "                {}: {}", kind.name(), quantity(*kind, top));
        }
        let _ = writeln!(text, "          - name: {}", serde_json::Value::from(queue.as_str()));
        if !max.is_empty() {
            let _ = write!(
                text,
                "            resources:\n              guaranteed:\n{guaranteed}              max:\n{max}"
            );
        }
    }
    text
}

/// No queue of this configuration ever comes to its max with the trace, as all that is ever there of a queue at the same time
/// is within it.
pub fn never_limits(trace: &Trace) -> bool {
    let (capacity, peaks) = (trace.capacity(), peaks(trace));
    trace.queues().iter().zip(&peaks).all(|(queue, peak)| {
        (0..trace.types.len()).filter(|at| peak[*at] > 0).all(|at| {
            let demand: f64 = peaks.iter().map(|peak| peak[at] as f64).sum();
            let share = peak[at] as f64 / demand;
            capacity[at] == 0 || peak[at] <= most(trace, queue, at, capacity[at] as f64, share)
        })
    })
}

/// The most that is ever there at the same time, per queue.
fn peaks(trace: &Trace) -> Vec<Amounts> {
    let peak = |queue: &String| trace.peak(|ask| trace.apps[ask.app].queue == *queue);
    trace.queues().iter().map(peak).collect()
}

/// The max of a queue, of the resource type at this position: `cluster` is the capacity, `share` the queue's part of the demand.
fn most(trace: &Trace, queue: &str, at: usize, cluster: f64, share: f64) -> i64 {
    let asks = trace.asks.iter().filter(|ask| trace.apps[ask.app].queue == queue);
    let largest = asks.map(|ask| ask.needs[at]).max().unwrap_or(0);
    let top = (cluster * (share * ELBOW_ROOM).clamp(SMALLEST_MAX, 1.0)) as i64;
    top.max(largest)
}

/// As the configuration writes it (RES-002, RES-003): vcore in milli-units with its suffix, all else as it is.
fn quantity(kind: ResourceKind, amount: i64) -> String {
    if kind == ResourceKind::Vcore { format!("{amount}m") } else { amount.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::replay::trace::{TraceApp, TraceAsk, testing};

    #[test]
    fn queues_are_sized_by_their_demand() {
        let app = |queue: &str| TraceApp { id: queue.into(), queue: queue.into(), user: "u".into() };
        let ask = |app, need| TraceAsk { app, ..testing::ask(&format!("{app}"), need, 0, None) };
        let trace = testing::trace(&["n"], 1000, vec![ask(0, 900), ask(1, 300)]);
        let trace = Trace { apps: vec![app("web"), app("batch")], ..trace };
        let text = of(&trace);
        let batch = text.find("\"batch\"").unwrap();
        let web = text.find("\"web\"").unwrap();
        assert!(batch < web);
        assert!(text[batch..web].contains("guaranteed:\n                vcore: 125m\n"), "{text}");
        assert!(text[batch..web].contains("max:\n                vcore: 375m\n"), "{text}");
        assert!(text[web..].contains("vcore: 1000m\n"), "{text}");
        assert!(never_limits(&trace));
        let mut crowded = trace.clone();
        let more = crowded.asks[1].clone();
        crowded.asks.extend([more.clone(), more]);
        // Half of the demand each: at most 750, and the batch asks come to 900.
        assert!(!never_limits(&crowded), "{}", of(&crowded));
    }
}
