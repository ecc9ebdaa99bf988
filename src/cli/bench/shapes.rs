//! The shapes: named workloads with their sizes.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::Depth;

/// A shape by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum ShapeId {
    /// One ask at a time on an idle cluster
    #[value(name = "S0")]
    S0,
    /// Homogeneous: one large wave of equal asks
    #[value(name = "S1")]
    S1,
    /// As S1, with a fifth of the asks
    #[value(name = "S1s")]
    S1s,
    /// As S1, nodes filled one after another
    #[value(name = "S2")]
    S2,
    /// Many queues
    #[value(name = "S3")]
    S3,
    /// Fair order of applications, many users
    #[value(name = "S4")]
    S4,
    /// Gangs: placeholders, then their replacement
    #[value(name = "S5")]
    S5,
    /// Asks behind others that fit no node
    #[value(name = "S6")]
    S6,
    /// User and group limits
    #[value(name = "S7")]
    S7,
    /// Asks of many sizes, cluster filled to 80 %
    #[value(name = "S8")]
    S8,
    /// A very large cluster
    #[value(name = "S9")]
    S9,
    /// Churn: every allocation ends after a second and is asked for again
    #[value(name = "S10")]
    S10,
    /// Preemption: a full cluster gives way to asks of a queue within its guarantee
    #[value(name = "S11")]
    S11,
    /// As S8, every placement asked of a shim that needs 200 µs and refuses one in a hundred
    #[value(name = "S12")]
    S12,
    /// As S12, answers that are due together in one message
    #[value(name = "S12b")]
    S12b,
    /// The traces of --traces, at full speed
    #[value(name = "S13")]
    S13,
    /// As S8, on a cluster that holds 1,000,000 allocations already
    #[value(name = "S14")]
    S14,
    /// S0 and S10 in a session that has had many lines (--lines)
    #[value(name = "S15")]
    S15,
    /// As S10, while others read what a server tells, or end: each alone, and all together
    #[value(name = "S16")]
    S16,
    /// The bare work of S1, without a scheduler: decode, a row, a key, a B-tree, four sums, encode
    #[value(name = "limit")]
    Limit,
}

/// What happens in a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// All asks at once.
    Wave,
    /// One ask, its answer, the next.
    OneByOne,
    /// All asks at once, behind so many asks of higher priority that fit no node.
    Behind(usize),
    /// Placeholders, then real asks that replace them.
    Gang,
    /// All asks at once, then each is released a second after its placement and asked for again.
    Churn,
    /// All asks at once, into a cluster that so many allocations of another queue have filled.
    Preempting(usize),
    /// All asks at once, each placement asked of the shim first.
    Asking {
        /// Answers that are due together go in one message.
        batched: bool,
    },
    /// The bare work of a wave, in this process: nothing is scheduled.
    Bare,
}

/// What goes on beside a shape, at the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beside {
    /// The nodes are read every 50 ms.
    Nodes,
    /// A hundred streams of events are read.
    Streams,
    /// Metrics are scraped each second.
    Scrapes,
    /// State dumps are read, one after another.
    Dumps,
    /// Another resource manager registers, has 10,000 applications with an ask each, and ends, again and again.
    Ends,
}

impl Beside {
    /// All of them.
    pub const ALL: [Beside; 5] = [Beside::Nodes, Beside::Streams, Beside::Scrapes, Beside::Dumps, Beside::Ends];

    /// In a word or two.
    pub const fn name(self) -> &'static str {
        match self {
            Beside::Nodes => "nodes read every 50 ms",
            Beside::Streams => "100 event streams",
            Beside::Scrapes => "a scrape each second",
            Beside::Dumps => "state dumps",
            Beside::Ends => "another resource manager ends",
        }
    }
}

/// A workload. Sizes may be overridden from the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Its name on the command line, such as S1.
    pub name: String,
    /// What it is, in a few words.
    pub about: String,
    /// What happens.
    pub kind: Kind,
    /// Number of nodes.
    pub nodes: usize,
    /// Asks that are measured.
    pub asks: usize,
    /// Leaf queues below root.
    pub queues: usize,
    /// Applications per queue.
    pub apps: usize,
    /// Users; applications take them in turn.
    pub users: usize,
    /// Nodes are filled one after another.
    pub binpacking: bool,
    /// Queues order their applications by fair share.
    pub fair_apps: bool,
    /// Wildcard user and group limits on root, which hold nothing back.
    pub limits: bool,
    /// The same limits on every leaf queue.
    pub queue_limits: bool,
    /// Resource types beside memory and vcore.
    pub types: usize,
    /// Allocations that run already.
    pub running: usize,
    /// Messages with placements that the session has seen before, each of one allocation that went again.
    pub lines: usize,
    /// What else goes on.
    pub beside: Vec<Beside>,
    /// Asks of 1 to 19 memory instead of 10.
    pub sizes: bool,
    /// Part of the nodes' capacity that the asks need in all, in percent.
    pub fill: usize,
}

impl ShapeId {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Where it can be driven; the traces as well need their files.
    pub fn is_for(self, depth: Depth) -> bool {
        match self {
            ShapeId::S13 | ShapeId::S15 | ShapeId::S16 => depth != Depth::Core,
            ShapeId::Limit => depth == Depth::Core,
            _ => true,
        }
    }

    /// The workloads, one after the other; none for the traces, which are files.
    pub fn shapes(self) -> Vec<Shape> {
        let Some(shape) = self.shape() else { return Vec::new() };
        match self {
            ShapeId::S15 => {
                let churn = Shape { nodes: 5_000, lines: shape.lines, ..ShapeId::S10.shape().unwrap_or(shape.clone()) };
                vec![shape, Shape { name: self.name(), about: "old session, churn".into(), ..churn }]
            }
            ShapeId::S16 => {
                let with = |beside: Beside| Shape {
                    about: format!("churn, {}", beside.name()),
                    beside: vec![beside],
                    ..shape.clone()
                };
                let together =
                    Shape { about: "everything at once".into(), beside: Beside::ALL.into(), ..shape.clone() };
                [shape.clone()].into_iter().chain(Beside::ALL.map(with)).chain([together]).collect()
            }
            _ => vec![shape],
        }
    }

    /// The workload, of several the first; `None` for the traces.
    pub fn shape(self) -> Option<Shape> {
        let base = Shape {
            name: self.name(),
            about: "homogeneous".into(),
            kind: Kind::Wave,
            nodes: 5_000,
            asks: 50_000,
            queues: 2,
            apps: 1,
            users: 2,
            binpacking: false,
            fair_apps: false,
            limits: false,
            queue_limits: false,
            types: 0,
            running: 0,
            lines: 0,
            beside: Vec::new(),
            sizes: false,
            fill: 100,
        };
        let many = Shape { queues: 10, apps: 10, users: 10, ..base.clone() };
        Some(match self {
            ShapeId::S0 => Shape { about: "one at a time".into(), kind: Kind::OneByOne, asks: 5_000, ..base },
            ShapeId::S1 => base,
            ShapeId::S1s => Shape { about: "small".into(), asks: 10_000, ..base },
            ShapeId::S2 => Shape { about: "binpacking".into(), binpacking: true, ..base },
            ShapeId::S3 => {
                Shape { about: "many queues".into(), nodes: 10_000, asks: 10_000, queues: 1_000, users: 10, ..base }
            }
            ShapeId::S4 => Shape {
                about: "fair applications".into(),
                asks: 20_000,
                queues: 100,
                users: 50,
                fair_apps: true,
                ..many
            },
            ShapeId::S5 => Shape {
                about: "gang".into(),
                kind: Kind::Gang,
                nodes: 1_000,
                asks: 10_000,
                queues: 1,
                apps: 100,
                ..base
            },
            ShapeId::S6 => {
                let kind = Kind::Behind(1_000);
                Shape { about: "unschedulable".into(), kind, nodes: 2_000, asks: 2_000, queues: 1, users: 1, ..base }
            }
            ShapeId::S7 => Shape { about: "limits".into(), asks: 10_000, users: 50, limits: true, ..many },
            ShapeId::S8 => Shape { about: "heterogeneous".into(), asks: 20_000, sizes: true, fill: 80, ..many },
            ShapeId::S9 => {
                Shape { about: "scale".into(), nodes: 100_000, asks: 1_000_000, queues: 1_000, users: 50, ..many }
            }
            ShapeId::S10 => {
                Shape { about: "churn".into(), kind: Kind::Churn, asks: 20_000, sizes: true, fill: 80, ..many }
            }
            ShapeId::S11 => {
                let kind = Kind::Preempting(50_000);
                Shape { about: "preemption".into(), kind, asks: 5_000, ..base }
            }
            ShapeId::S12 | ShapeId::S12b => {
                let batched = self == ShapeId::S12b;
                let about = if batched { "predicates, batched" } else { "predicates" };
                let kind = Kind::Asking { batched };
                Shape { about: about.into(), kind, asks: 20_000, sizes: true, fill: 80, ..many }
            }
            ShapeId::S13 => return None,
            ShapeId::S14 => {
                let about = "on top of what runs".into();
                Shape { about, asks: 20_000, sizes: true, fill: 80, running: 1_000_000, ..many }
            }
            ShapeId::S15 => {
                let (about, kind) = ("old session, one at a time".into(), Kind::OneByOne);
                Shape { about, kind, asks: 5_000, lines: 10_000_000, ..base }
            }
            ShapeId::S16 => {
                let (about, kind) = ("churn, nothing beside".into(), Kind::Churn);
                Shape { about, kind, nodes: 10_000, asks: 20_000, sizes: true, fill: 80, ..many }
            }
            ShapeId::Limit => Shape { about: "bare work".into(), kind: Kind::Bare, asks: 500_000, ..base },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        let names: Vec<_> = ShapeId::value_variants().iter().map(|id| id.name()).collect();
        assert_eq!(names[..4], ["S0", "S1", "S1s", "S2"]);
        let shape = ShapeId::S9.shape().unwrap();
        assert_eq!((shape.name.as_str(), shape.queues * shape.apps), ("S9", 10_000));
        assert!(ShapeId::S13.shapes().is_empty());
    }

    #[test]
    fn shapes_of_several_parts() {
        let old = ShapeId::S15.shapes();
        assert_eq!(old.iter().map(|shape| shape.kind).collect::<Vec<_>>(), [Kind::OneByOne, Kind::Churn]);
        assert!(old.iter().all(|shape| shape.lines == 10_000_000 && shape.name == "S15"));
        let busy = ShapeId::S16.shapes();
        assert_eq!(busy.iter().map(|shape| shape.beside.len()).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 1, 5]);
    }
}
