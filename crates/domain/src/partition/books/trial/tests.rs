use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    alloc::{AskSpec, Phase},
    command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
    config,
    resources::Resource,
    types::Nanos,
};

const NOW: Nanos = Nanos::from_secs(1_000);

/// Memory, vcore and gpu of a node or an ask; a gpu amount of 0 is there, and one below it is missing.
type Size = (i64, i64, i64);

fn resource((memory, vcore, gpu): Size) -> Resource {
    let all = [("memory", memory), ("vcore", vcore), ("gpu", gpu)];
    Resource::of(&all[..if gpu < 0 { 2 } else { 3 }])
}

/// Nodes, and an application in each of three queues, among which the asks are divided; what fits is placed.
fn world(policy: &str, nodes: &[Size], asks: &[Size]) -> Partition {
    let text = format!(
        "partitions: [{{name: default, nodesortpolicy: {{type: {policy}}}, queues: [{{name: root, submitacl: '*', queues: [\
         {{name: a, resources: {{guaranteed: {{memory: 8}}}}}}, {{name: b, resources: {{guaranteed: {{vcore: 3}}}}, queues: \
         [{{name: c, resources: {{guaranteed: {{memory: 2}}, max: {{memory: 30}}}}}}, {{name: d}}]}}]}}]}}]"
    );
    let conf = config::load(&text).expect("valid").partitions.remove(0);
    let mut fx = Vec::new();
    let mut partition = Partition::new("rm".into(), "[rm]default".into(), conf, NOW, &mut fx);
    let node = |(at, size): (usize, &Size)| NodeItem {
        id: format!("n{at}").into(),
        action: NodeAction::Create,
        capacity: Some(resource(*size)),
        attributes: Default::default(),
    };
    partition.apply(Command::Nodes(nodes.iter().enumerate().map(node).collect()), NOW, &mut fx);
    let app = |queue: &str| AddApplication {
        id: queue.into(),
        queue: queue.into(),
        user: "u".into(),
        groups: Some([Arc::from("g")].into()),
        ..AddApplication::default()
    };
    let queues = ["root.a", "root.b.c", "root.b.d"];
    partition.apply(Command::Applications { new: queues.map(app).into(), remove: Vec::new() }, NOW, &mut fx);
    let ask = |(at, size): (usize, &Size)| {
        let spec = AskSpec { key: format!("k{at}").into(), resource: Arc::new(resource(*size)), ..Default::default() };
        AllocationItem { app: queues[at % 3].into(), node: None, spec: Arc::new(spec) }
    };
    let allocations = asks.iter().enumerate().map(ask).collect();
    partition.apply(Command::Allocations { allocations, releases: Vec::new() }, NOW, &mut fx);
    while partition.schedule_at_once(64, NOW, &mut fx) > 0 {}
    partition
}

fn size() -> impl Strategy<Value = Size> {
    (1i64..9, 1i64..9, -1i64..3)
}

proptest! {
    #[test]
    fn all_is_as_before_byte_for_byte(
        policy in prop::sample::select(vec!["fair", "binpacking"]),
        nodes in prop::collection::vec((5i64..30, 5i64..30, -1i64..5), 1..6),
        asks in prop::collection::vec(size(), 1..24),
        steps in prop::collection::vec((0u8..8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..40),
    ) {
        let mut partition = world(policy, &nodes, &asks);
        let (before, reader) = (partition.save(), partition.clone());
        let (allocs, nodes) = (partition.allocs.keys(), partition.nodes.keys());
        let mut trial = Trial::of(&mut partition);
        let mut marks = Vec::new();
        for (what, one, other) in steps {
            let alloc = *one.get(&allocs);
            match what {
                0 => marks.push((trial.mark(), trial.save())),
                1 => if !marks.is_empty() {
                    marks.truncate(one.index(marks.len()) + 1);
                    let (mark, then) = &marks[marks.len() - 1];
                    trial.back_to(*mark);
                    prop_assert!(trial.save() == *then, "not as it was at the mark");
                },
                2..=4 if trial.allocs[alloc].phase == Phase::Pending => {
                    let node = *other.get(&nodes);
                    let room = trial.nodes[node].available.minus(&trial.allocs[alloc].resource);
                    trial.place(alloc, node);
                    prop_assert_eq!(&trial.nodes[node].available, &room);
                }
                _ => {
                    let path: Vec<QueueIx> = trial.path(trial.apps[trial.allocs[alloc].app].queue).collect();
                    let first = path[0];
                    let used = trial.queues[first].allocated.minus(&trial.allocs[alloc].resource);
                    trial.take_out(alloc, path);
                    prop_assert_eq!(&trial.queues[first].allocated, &used);
                }
            }
        }
        drop(trial);
        prop_assert!(partition.save() == before, "not as it was");
        prop_assert!(reader.save() == before, "what others read has changed");
        prop_assert!(partition.audit().is_empty());
    }
}

#[test]
fn where_nothing_is_tried_nothing_is_touched() {
    let mut partition = world("fair", &[(9, 9, -1)], &[(3, 3, -1), (30, 3, -1)]);
    let waits = partition.allocs.iter().find(|(_, row)| row.is_pending()).map(|(ix, _)| ix).expect("one waits");
    let node = partition.node_by_id["n0"];
    let queue = partition.queue_by_path["root.a"];
    let free = partition.nodes[node].available.value();
    let mut trial = Trial::of(&mut partition);
    trial.place(waits, node);
    trial.take_out(waits, [queue]);
    assert!(trial.nodes[node].available.has_negative(), "no limit is looked at");
    drop(trial);
    assert_eq!(partition.nodes[node].available, free);
}

/// Rows that are looked at for a question about one ask and one node among so many.
#[cfg(debug_assertions)]
fn looks(nodes: usize) -> u64 {
    use crate::cow::looks;
    let mut partition = world("fair", &vec![(9, 9, -1); nodes], &vec![(3, 3, -1); nodes]);
    let (alloc, node) = (partition.allocs.keys()[0], partition.node_by_id["n0"]);
    let queue = partition.queue_by_path["root.a"];
    let before = looks::count();
    let mut trial = Trial::of(&mut partition);
    trial.place(alloc, node);
    trial.take_out(alloc, [queue]);
    drop(trial);
    looks::count() - before
}

#[test]
#[cfg(debug_assertions)]
fn it_costs_what_it_changes() {
    assert_eq!(looks(4), looks(400));
}
