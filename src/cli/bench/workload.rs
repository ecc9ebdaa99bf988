//! A shape in detail: configuration, nodes, applications and asks, in no door's words yet.

use std::fmt::Write;

use super::shapes::{Kind, Shape};

/// Resource of a plain ask: memory 10, vcore 1, in the raw units of the interface.
const MEMORY: i64 = 10;
const VCORE: i64 = 1;
/// Task group of the gang applications.
pub const TASK_GROUP: &str = "workers";
/// Partition of all shapes.
pub const PARTITION: &str = "default";

/// An amount of memory and vcore, raw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Raw amount of memory: bytes.
    pub memory: i64,
    /// Raw amount of vcore: thousandths.
    pub vcore: i64,
}

/// An application.
#[derive(Clone, Debug)]
pub struct App {
    /// Its id.
    pub id: String,
    /// Path of its queue.
    pub queue: String,
    /// User, who is in one group.
    pub user: String,
    /// Its group.
    pub group: String,
    /// Sum of its placeholders.
    pub placeholders: Option<Amount>,
}

/// An ask. `number` finds its record when it is placed; asks that are not measured have none.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Position among the measured asks.
    pub number: Option<usize>,
    /// Number in its key: unique among the asks that are there at the same time.
    pub key: u64,
    /// Index of the application.
    pub app: usize,
    /// What it needs.
    pub needs: Amount,
    /// Priority of its asks; larger goes first.
    pub priority: i32,
    /// Part of the gang.
    pub gang: bool,
    /// A placeholder of it.
    pub placeholder: bool,
}

/// See the module.
pub struct Workload {
    /// The shape.
    pub shape: Shape,
    /// Queue configuration.
    pub config: String,
    /// Capacity per node; the id of node `n` is `node-n`.
    pub nodes: Vec<Amount>,
    /// The applications, in the order in which they are submitted.
    pub apps: Vec<App>,
    /// Asks that come first and are not measured.
    pub ahead: Vec<Ask>,
    /// Asks that are measured, in order; of a gang the placeholders.
    pub asks: Vec<Ask>,
}

/// Id of a node.
pub fn node_id(number: usize) -> String {
    format!("node-{number:06}")
}

impl Ask {
    /// Its key: the number in the record, and the generation where an ask is made again.
    pub fn key_text(&self) -> String {
        match self.number {
            Some(number) => format!("{number}.{}", self.key),
            None => format!("ahead.{}", self.key),
        }
    }
}

/// Position among the measured asks of a key that [`Ask::key_text`] made.
pub fn number_of(key: &str) -> Option<usize> {
    key.split_once('.')?.0.parse().ok()
}

impl Workload {
    /// Works out a shape.
    pub fn of(shape: &Shape) -> Workload {
        let shape = shape.clone();
        let count = shape.queues * shape.apps;
        let preempting = matches!(shape.kind, Kind::Preempting(_));
        let asks: Vec<Ask> = (0..shape.asks)
            .map(|number| Ask {
                number: Some(number),
                key: 0,
                app: if preempting { count - 1 } else { number % count },
                needs: Amount { memory: size(&shape, number), vcore: VCORE },
                priority: if preempting { 5 } else { 0 },
                gang: shape.kind == Kind::Gang,
                placeholder: shape.kind == Kind::Gang,
            })
            .collect();
        let before = |ahead: usize, memory: i64, priority: i32| -> Vec<Ask> {
            let needs = Amount { memory, vcore: VCORE };
            let ask = |key| Ask { number: None, key, app: 0, needs, priority, gang: false, placeholder: false };
            (0..ahead as u64).map(ask).collect()
        };
        let ahead = match shape.kind {
            Kind::Behind(ahead) => before(ahead, 1_000_000, 10),
            Kind::Preempting(ahead) => before(ahead, MEMORY, 0),
            _ => {
                let running = before(shape.running, MEMORY, 0);
                running.into_iter().enumerate().map(|(nth, ask)| Ask { app: nth % count, ..ask }).collect()
            }
        };
        let mut apps: Vec<App> = (0..count)
            .map(|app| App {
                id: format!("app-{app:05}"),
                queue: format!("root.{}", queue_name(app % shape.queues)),
                user: format!("user-{:02}", app % shape.users),
                group: format!("group-{:02}", app % shape.users),
                placeholders: None,
            })
            .collect();
        if shape.kind == Kind::Gang {
            for ask in &asks {
                let sum = apps[ask.app].placeholders.get_or_insert_default();
                sum.memory += ask.needs.memory;
                sum.vcore += ask.needs.vcore;
            }
        }
        let mut nodes = nodes(&shape, if preempting { &ahead } else { &asks });
        // What runs already has its own places, equally many on each node.
        let places = shape.running.div_ceil(shape.nodes) as i64;
        for node in &mut nodes {
            node.memory += places * MEMORY;
            node.vcore += places * VCORE;
        }
        Workload { config: config(&shape, asks.iter().chain(&ahead)), nodes, apps, ahead, asks, shape }
    }

    /// How many of those that come first find a place.
    pub fn placed_ahead(&self) -> usize {
        if matches!(self.shape.kind, Kind::Behind(_)) { 0 } else { self.ahead.len() }
    }

    /// Names of the resource types beside memory and vcore; of each an ask needs, and a node offers, as much as of vcore.
    pub fn types(&self) -> impl Iterator<Item = String> {
        (0..self.shape.types).map(|number| format!("type-{number:02}"))
    }

    /// The real asks that replace the placeholders.
    pub fn replacements(&self) -> Vec<Ask> {
        let count = self.asks.len();
        let real = |ask: &Ask| Ask { number: ask.number.map(|number| number + count), placeholder: false, ..*ask };
        self.asks.iter().map(real).collect()
    }

    /// Asks say that they may preempt and be preempted.
    pub fn preempts(&self) -> bool {
        matches!(self.shape.kind, Kind::Preempting(_))
    }

    /// Number of records that the measured asks need.
    pub fn records(&self) -> usize {
        if self.shape.kind == Kind::Gang { self.asks.len() * 2 } else { self.asks.len() }
    }
}

/// Largest memory of an ask where they differ.
const LARGEST: i64 = 19;

/// Sizes from 1 to 19 in a fixed order without pattern, 10 on average.
fn size(shape: &Shape, number: usize) -> i64 {
    if shape.sizes { 1 + (number.wrapping_mul(7919) % LARGEST as usize) as i64 } else { MEMORY }
}

/// Nodes that offer in all what the asks need, or so much more that they are filled to the wanted part. Asks of different
/// sizes that come and go fit whatever their order: where the largest finds no room, each node has less left than it needs,
/// and by then all have been placed.
fn nodes(shape: &Shape, asks: &[Ask]) -> Vec<Amount> {
    if shape.sizes {
        let share = |sum: i64| {
            let wanted = sum as u128 * 100 / shape.fill as u128;
            wanted.div_ceil(shape.nodes as u128) as i64
        };
        let sum: i64 = asks.iter().map(|ask| ask.needs.memory).sum();
        let packed = (sum as u128).div_ceil(shape.nodes as u128) as i64 + LARGEST - 1;
        // Where a node would hold one or two, what is left beside them is as much: they are not filled to the part.
        let few = asks.len() < 4 * shape.nodes;
        let least = if few || shape.kind == Kind::Churn { packed } else { LARGEST };
        let memory = share(sum).max(least);
        let vcore = if few { memory * VCORE } else { share(asks.len() as i64 * VCORE) };
        return vec![Amount { memory, vcore }; shape.nodes];
    }
    // Whole asks per node, so that the last ask finds the last place.
    let until =
        |node: usize| (node as u128 * asks.len() as u128 * 100 / shape.fill as u128 / shape.nodes as u128) as i64;
    let places = |node: usize| until(node + 1) - until(node);
    (0..shape.nodes).map(|node| Amount { memory: places(node) * MEMORY, vcore: places(node) * VCORE }).collect()
}

fn queue_name(number: usize) -> String {
    format!("queue-{number:04}")
}

fn config<'a>(shape: &Shape, asks: impl Iterator<Item = &'a Ask>) -> String {
    let (memory, vcore) = asks
        .filter(|ask| ask.number.is_some() || shape.running > 0)
        .fold((0, 0), |(memory, vcore), ask| (memory + ask.needs.memory, vcore + ask.needs.vcore));
    // Twice what anybody uses: checked for every ask, and never in the way.
    let limits = |depth: usize| {
        let to = " ".repeat(depth);
        let resources =
            format!("{to}    maxresources:\n{to}      memory: {}\n{to}      vcore: {}m\n", memory * 2, vcore * 2);
        format!(
            "{to}limits:\n{to}  - limit: every user\n{to}    users: [\"*\"]\n{resources}{to}  - limit: one group\n{to}    groups: [group-00]\n{resources}{to}  - limit: every other group\n{to}    groups: [\"*\"]\n{resources}"
        )
    };
    let sort = if shape.binpacking { "binpacking" } else { "fair" };
    let mut text = format!(
        "partitions:\n  - name: {PARTITION}\n    nodesortpolicy:\n      type: {sort}\n    placementrules:\n      - name: provided\n        create: false\n    queues:\n      - name: root\n        submitacl: \"*\"\n"
    );
    if shape.limits {
        text.push_str(&limits(8));
    }
    let sort = if shape.fair_apps { "fair" } else { "fifo" };
    text.push_str("        queues:\n");
    for queue in 0..shape.queues {
        let name = queue_name(queue);
        let _ = write!(
            text,
            "          - name: {name}\n            properties:\n              application.sort.policy: {sort}\n"
        );
        if shape.queue_limits {
            text.push_str(&limits(12));
        }
        if matches!(shape.kind, Kind::Preempting(_)) && queue == shape.queues - 1 {
            let _ = write!(
                text,
                "              preemption.delay: 100ms\n            resources:\n              guaranteed:\n                memory: {memory}\n                vcore: {vcore}m\n"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::shapes::ShapeId;

    #[test]
    fn nodes_offer_exactly_what_the_asks_need() {
        for id in [ShapeId::S1, ShapeId::S3, ShapeId::S4, ShapeId::S6, ShapeId::S7] {
            let work = Workload::of(&id.shape().unwrap());
            let offered: i64 = work.nodes.iter().map(|node| node.memory).sum();
            assert_eq!(offered, work.asks.iter().map(|ask| ask.needs.memory).sum::<i64>(), "{id:?}");
        }
    }

    #[test]
    fn heterogeneous_asks_fill_the_cluster_to_its_part() {
        let work = Workload::of(&ShapeId::S8.shape().unwrap());
        let offered: i64 = work.nodes.iter().map(|node| node.memory).sum();
        let needed: i64 = work.asks.iter().map(|ask| ask.needs.memory).sum();
        let part = needed as f64 / offered as f64;
        assert!((0.78..=0.80).contains(&part), "{part}");
        assert!(work.asks.iter().all(|ask| (1..=19).contains(&ask.needs.memory)));
        // Of few no order may leave the last without a place.
        let few = Workload::of(&Shape { asks: 8_000, ..ShapeId::S8.shape().unwrap() });
        let needed: i64 = few.asks.iter().map(|ask| ask.needs.memory).sum();
        let node = few.nodes[0];
        assert!((node.memory - LARGEST + 1) * few.nodes.len() as i64 >= needed && node.vcore >= node.memory * VCORE);
    }

    /// Asks that come and go on few places per node used to wait for ever for a node that had room for them.
    #[test]
    fn asks_of_different_sizes_fit_in_any_order() {
        for (nodes, asks) in [(20, 20), (20, 33), (100, 200), (7, 1000), (50, 1)] {
            let work = Workload::of(&Shape { nodes, asks, ..ShapeId::S10.shape().unwrap() });
            let mut by_size = work.asks.clone();
            by_size.sort_by_key(|ask| ask.needs.memory);
            let worst_first: Vec<_> = by_size.iter().rev().copied().collect();
            for order in [work.asks.clone(), by_size, worst_first] {
                let mut free = work.nodes.clone();
                for ask in order {
                    // The emptiest node that takes it, as the fair sort has it.
                    let fits = |node: &&mut Amount| node.memory >= ask.needs.memory && node.vcore >= ask.needs.vcore;
                    let node = free.iter_mut().filter(fits).max_by_key(|node| (node.vcore, node.memory));
                    let node = node.unwrap_or_else(|| panic!("{asks} asks on {nodes} nodes: {ask:?} does not fit"));
                    (node.memory, node.vcore) = (node.memory - ask.needs.memory, node.vcore - ask.needs.vcore);
                }
            }
        }
    }

    #[test]
    fn keys_lead_back_to_their_records() {
        let work = Workload::of(&ShapeId::S6.shape().unwrap());
        assert_eq!(number_of(&work.asks[17].key_text()), Some(17));
        assert_eq!(number_of(&work.ahead[17].key_text()), None);
    }

    #[test]
    fn configurations_are_accepted() {
        for id in [ShapeId::S1, ShapeId::S2, ShapeId::S4, ShapeId::S5, ShapeId::S7, ShapeId::S11] {
            let work = Workload::of(&id.shape().unwrap());
            assert!(crate::config::load(&work.config).is_ok(), "{}", work.config);
        }
        let limited = Shape { queue_limits: true, limits: true, ..ShapeId::S7.shape().unwrap() };
        let work = Workload::of(&limited);
        assert!(crate::config::load(&work.config).is_ok(), "{}", work.config);
    }

    #[test]
    fn what_runs_already_has_places_of_its_own() {
        let shape = ShapeId::S14.shape().unwrap();
        let work = Workload::of(&Shape { running: 10_001, ..shape.clone() });
        let alone = Workload::of(&Shape { running: 0, ..shape });
        let offered = |work: &Workload| work.nodes.iter().map(|node| node.memory).sum::<i64>();
        assert_eq!((work.ahead.len(), work.placed_ahead(), alone.placed_ahead()), (10_001, 10_001, 0));
        assert_eq!(offered(&work) - offered(&alone), 3 * 5_000 * MEMORY);
    }
}
