//! The queue configuration that a trace is played with, unless one is given: a queue per team below root, sized by its
//! share of the demand.

use std::fmt::Write;

use super::trace::{ResourceKind, Trace};

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
    let peaks: Vec<_> = queues.iter().map(|queue| trace.peak(|ask| trace.apps[ask.app].queue == *queue)).collect();
    let mut text = String::from(
        "partitions:\n  - name: default\n    placementrules:\n      - name: provided\n        create: false\n    queues:\n      - name: root\n        submitacl: \"*\"\n        queues:\n",
    );
    for (queue, peak) in queues.iter().zip(&peaks) {
        let (mut guaranteed, mut max) = (String::new(), String::new());
        for (at, kind) in trace.types.iter().enumerate().filter(|(at, _)| peak[*at] > 0 && capacity[*at] > 0) {
            let demand: f64 = peaks.iter().map(|peak| peak[at] as f64).sum();
            let share = peak[at] as f64 / demand;
            let cluster = capacity[at] as f64;
            let asks = trace.asks.iter().filter(|ask| trace.apps[ask.app].queue == *queue);
            let largest = asks.map(|ask| ask.needs[at]).max().unwrap_or(0);
            let top = (cluster * (share * ELBOW_ROOM).clamp(SMALLEST_MAX, 1.0)) as i64;
            let top = top.max(largest);
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

/// As the configuration writes it (RES-002, RES-003): vcore in milli-units with its suffix, all else as it is.
fn quantity(kind: ResourceKind, amount: i64) -> String {
    if kind == ResourceKind::Vcore { format!("{amount}m") } else { amount.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::replay::trace::{Millis, TraceApp, TraceAsk, TraceNode};

    #[test]
    fn queues_are_sized_by_their_demand() {
        let app = |queue: &str| TraceApp { id: queue.into(), queue: queue.into(), user: "u".into() };
        let ask = |app, need| TraceAsk {
            key: format!("{app}"),
            app,
            needs: vec![need],
            priority: 0,
            starts: Millis(0),
            ends: None,
        };
        let trace = Trace {
            types: vec![ResourceKind::Vcore],
            nodes: vec![TraceNode { id: "n".into(), capacity: vec![1000] }],
            apps: vec![app("web"), app("batch")],
            asks: vec![ask(0, 900), ask(1, 300)],
            ..Trace::default()
        };
        let text = of(&trace);
        let batch = text.find("\"batch\"").unwrap();
        let web = text.find("\"web\"").unwrap();
        assert!(batch < web);
        assert!(text[batch..web].contains("guaranteed:\n                vcore: 125m\n"), "{text}");
        assert!(text[batch..web].contains("max:\n                vcore: 375m\n"), "{text}");
        assert!(text[web..].contains("vcore: 1000m\n"), "{text}");
    }
}
