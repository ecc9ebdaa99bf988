//! What a trace is, whatever file it came from: nodes, applications, and asks with their times.

use std::fmt;

/// A point in trace time, or a length of it, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub i64);

impl Millis {
    /// Whole seconds.
    pub const fn from_secs(secs: i64) -> Millis {
        Millis(secs.saturating_mul(1000))
    }
}

impl fmt::Display for Millis {
    /// As people write it, two units at most: `1d 4h`, `2h 05m`, `12 s`, `250 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.max(0);
        let secs = millis / 1000;
        match secs {
            0 if millis == 0 => f.write_str("0 s"),
            0 => write!(f, "{millis} ms"),
            1..60 => write!(f, "{secs} s"),
            60..3600 => write!(f, "{}m {:02}s", secs / 60, secs % 60),
            3600..86400 => write!(f, "{}h {:02}m", secs / 3600, secs % 3600 / 60),
            _ => write!(f, "{}d {}h", secs / 86400, secs % 86400 / 3600),
        }
    }
}

/// Amounts per resource type, parallel to [`Trace::types`].
pub type Amounts = Vec<i64>;

/// A resource type of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// `memory`, in bytes.
    Memory,
    /// `vcore`, in milli-units.
    Vcore,
    /// `gpu`, in thousandths of a device, since traces share devices.
    Gpu,
    /// `ephemeral-storage`, in bytes.
    Disk,
}

impl ResourceKind {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            ResourceKind::Memory => "memory",
            ResourceKind::Vcore => "vcore",
            ResourceKind::Gpu => "gpu",
            ResourceKind::Disk => "ephemeral-storage",
        }
    }

    /// An amount as people read it.
    pub fn show(self, amount: i64) -> String {
        let gib = f64::from(1 << 30);
        match self {
            ResourceKind::Memory | ResourceKind::Disk if amount as f64 >= 1024.0 * gib => {
                format!("{:.1} TiB", amount as f64 / gib / 1024.0)
            }
            ResourceKind::Memory | ResourceKind::Disk => format!("{:.1} GiB", amount as f64 / gib),
            ResourceKind::Vcore => format!("{:.1} cores", amount as f64 / 1000.0),
            ResourceKind::Gpu => format!("{:.1} GPUs", amount as f64 / 1000.0),
        }
    }
}

/// A node of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceNode {
    /// Id, which is its host name too.
    pub id: String,
    /// All that the node offers.
    pub capacity: Amounts,
}

/// An application of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceApp {
    /// Its id, which no other of the trace has.
    pub id: String,
    /// Leaf queue below root, in lower case.
    pub queue: String,
    /// Name of the user who submitted it.
    pub user: String,
}

/// An ask of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceAsk {
    /// Allocation key, unique in the trace.
    pub key: String,
    /// Position of its application.
    pub app: usize,
    /// What it needs.
    pub needs: Amounts,
    /// Priority, higher first.
    pub priority: i32,
    /// When it is asked for.
    pub starts: Millis,
    /// When it ends, placed or not; `None`: after the trace.
    pub ends: Option<Millis>,
}

/// A trace, ready to be played.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// What to call it.
    pub name: String,
    /// Resource types that occur.
    pub types: Vec<ResourceKind>,
    /// The nodes of the cluster.
    pub nodes: Vec<TraceNode>,
    /// Applications in order of first appearance.
    pub apps: Vec<TraceApp>,
    /// Asks in the order of the file.
    pub asks: Vec<TraceAsk>,
    /// Lines that were left out because they end before they start.
    pub left_out: usize,
    /// The applications are gangs.
    pub gangs: Option<GangPlan>,
}

/// What makes the applications of a trace gangs. All asks of such an application start at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GangPlan {
    /// Task group of each ask, parallel to [`Trace::asks`].
    pub groups: Vec<String>,
    /// Sum of the asks of each application, parallel to [`Trace::apps`].
    pub sizes: Vec<Amounts>,
}

/// What happens at one moment: all ends, then all starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Time in the trace, in milliseconds.
    pub at: Millis,
    /// Asks that end.
    pub ends: Vec<usize>,
    /// Asks that start.
    pub starts: Vec<usize>,
}

impl Trace {
    /// What happens, moment by moment.
    pub fn steps(&self) -> Vec<Step> {
        let mut moments: Vec<(Millis, bool, usize)> = Vec::with_capacity(self.asks.len() * 2);
        for (at, ask) in self.asks.iter().enumerate() {
            moments.push((ask.starts, true, at));
            moments.extend(ask.ends.map(|end| (end, false, at)));
        }
        moments.sort_unstable();
        let mut steps: Vec<Step> = Vec::new();
        for (at, start, ask) in moments {
            if steps.last().is_none_or(|step| step.at != at) {
                steps.push(Step { at, ends: Vec::new(), starts: Vec::new() });
            }
            if let Some(step) = steps.last_mut() {
                if start { step.starts.push(ask) } else { step.ends.push(ask) }
            }
        }
        steps
    }

    /// Sum of the nodes' capacity.
    pub fn capacity(&self) -> Amounts {
        let mut sum = vec![0; self.types.len()];
        self.nodes.iter().for_each(|node| add(&mut sum, &node.capacity));
        sum
    }

    /// Queue names in alphabetical order.
    pub fn queues(&self) -> Vec<String> {
        let names: std::collections::BTreeSet<_> = self.apps.iter().map(|app| app.queue.clone()).collect();
        names.into_iter().collect()
    }

    /// The largest sum of asks that are there at the same time, over those that `counts` chooses.
    pub fn peak(&self, counts: impl Fn(&TraceAsk) -> bool) -> Amounts {
        let mut now = vec![0; self.types.len()];
        let mut peak = now.clone();
        for step in self.steps() {
            for ask in step.ends.iter().map(|at| &self.asks[*at]).filter(|ask| counts(ask)) {
                now.iter_mut().zip(&ask.needs).for_each(|(sum, need)| *sum -= need);
            }
            for ask in step.starts.iter().map(|at| &self.asks[*at]).filter(|ask| counts(ask)) {
                add(&mut now, &ask.needs);
            }
            peak.iter_mut().zip(&now).for_each(|(peak, now)| *peak = (*peak).max(*now));
        }
        peak
    }
}

/// `sum += more`, per type. Readers bound single amounts, so that no sum of a trace overflows.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// `sum -= less`, per type.
pub fn subtract(sum: &mut Amounts, less: &Amounts) {
    sum.iter_mut().zip(less).for_each(|(sum, less)| *sum -= less);
}

/// Small traces of one type and one application, for tests.
#[cfg(test)]
pub mod testing {
    use super::*;

    pub fn ask(key: &str, need: i64, starts: i64, ends: Option<i64>) -> TraceAsk {
        let (starts, ends) = (Millis(starts), ends.map(Millis));
        TraceAsk { key: key.into(), app: 0, needs: vec![need], priority: 0, starts, ends }
    }

    /// Each node has the same capacity.
    pub fn trace(nodes: &[&str], capacity: i64, asks: Vec<TraceAsk>) -> Trace {
        Trace {
            types: vec![ResourceKind::Vcore],
            nodes: nodes.iter().map(|id| TraceNode { id: (*id).into(), capacity: vec![capacity] }).collect(),
            apps: vec![TraceApp { id: "app".into(), queue: "q".into(), user: "u".into() }],
            asks,
            ..Trace::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{testing::ask, *};

    #[test]
    fn steps_are_moments_in_order() {
        let asks = vec![ask("a", 4, 0, Some(10)), ask("b", 5, 10, Some(20)), ask("c", 1, 10, None)];
        let trace = Trace { types: vec![ResourceKind::Vcore], asks, ..Trace::default() };
        let steps = trace.steps();
        assert_eq!(steps.len(), 3);
        assert_eq!(steps[1], Step { at: Millis(10), ends: vec![0], starts: vec![1, 2] });
        assert_eq!(trace.peak(|_| true), vec![6]);
        assert_eq!(trace.peak(|ask| ask.key == "c"), vec![1]);
    }

    #[test]
    fn times_read_well() {
        let shown = [0, 250, 12_000, 125_000, 7_500_000, 100_800_000].map(|ms| Millis(ms).to_string());
        assert_eq!(shown, ["0 s", "250 ms", "12 s", "2m 05s", "2h 05m", "1d 4h"]);
    }
}
