//! Every small world: three queues with an application each, two nodes; then random trees.

use callboard::domain::types::Termination;
use proptest::prelude::*;

use super::{
    super::env::{Ask, Env},
    closed::settle,
    tree,
};

fn leaf(name: &str, guaranteed: i64, more: &str) -> String {
    let resources = if guaranteed > 0 { format!("guaranteed: {{memory: {guaranteed}}}") } else { String::new() };
    format!("{{name: {name}, resources: {{{resources}}}, properties: {{preemption.delay: 1s{more}}}}}")
}

/// One world; b and c share a parent where `nested`. Sizes of what runs and of what then asks, per queue.
fn world(guaranteed: [i64; 3], running: [i64; 3], asking: [i64; 3], nested: bool) {
    let [a, b, c] = [leaf("a", guaranteed[0], ""), leaf("b", guaranteed[1], ""), leaf("c", guaranteed[2], "")];
    let queues = if nested {
        let whole = guaranteed[1] + guaranteed[2];
        format!(
            "{a}, {{name: p, parent: true, resources: {{guaranteed: {{memory: {}}}}}, queues: [{b}, {c}]}}",
            whole + 1
        )
    } else {
        format!("{a}, {b}, {c}")
    };
    let mut env = Env::calm(&tree(&queues));
    env.node("n1", 4);
    env.node("n2", 3);
    let names = if nested { ["root.a", "root.p.b", "root.p.c"] } else { ["root.a", "root.b", "root.c"] };
    for (n, queue) in names.iter().enumerate() {
        env.app(&format!("app{n}"), queue);
    }
    for (n, size) in running.iter().enumerate() {
        // As much of one size as there is room for.
        env.ask((0..4).map(|k| Ask::new(&format!("app{n}"), &format!("r{n}{k}"), *size).preempts()).collect());
        for k in 0..4 {
            let key = format!("r{n}{k}");
            if env.partition.alloc(&format!("app{n}"), &key).is_some_and(|row| row.is_pending()) {
                env.release(&format!("app{n}"), &key, Termination::StoppedByRm);
            }
        }
    }
    for (n, size) in asking.iter().enumerate().filter(|(_, size)| **size > 0) {
        env.ask((0..2).map(|k| Ask::new(&format!("app{n}"), &format!("q{n}{k}"), *size).preempts()).collect());
    }
    let victims = settle(&mut env);
    assert!(victims <= 14, "{victims} victims: {guaranteed:?} {running:?} {asking:?}");
}

#[test]
fn every_small_world_comes_to_rest() {
    let mut worlds = 0;
    for g in 0..27 {
        let guaranteed = [[0, 2, 4][g % 3], [0, 2, 4][g / 3 % 3], [0, 2, 4][g / 9]];
        for r in [[1, 1, 1], [2, 1, 1], [1, 2, 3], [3, 3, 1]] {
            for a in 0..27 {
                let asking = [[0, 1, 3][a % 3], [0, 1, 3][a / 3 % 3], [0, 1, 3][a / 9]];
                if asking == [0, 0, 0] || guaranteed == [0, 0, 0] {
                    continue;
                }
                // Every second world of each kind, so that the test takes seconds: the other half differs in the tree.
                worlds += 1;
                world(guaranteed, r, asking, worlds % 2 == 0);
            }
        }
    }
    assert_eq!(worlds, 26 * 4 * 26);
}

#[derive(Clone, Debug)]
struct Leaf {
    guaranteed: i64,
    max: i64,
    offset: i32,
    fence: bool,
    policy: u8,
}

fn random_leaf() -> impl Strategy<Value = Leaf> {
    (0i64..25, 10i64..60, -3i32..4, any::<bool>(), 0u8..4).prop_map(|(guaranteed, max, offset, fence, policy)| Leaf {
        guaranteed,
        max,
        offset,
        fence,
        policy,
    })
}

fn yaml_of(name: &str, leaf: &Leaf) -> String {
    let policy = ["default", "default", "fence", "disabled"][usize::from(leaf.policy)];
    let guaranteed = leaf.guaranteed.min(leaf.max);
    let mut resources = format!("max: {{memory: {}}}", leaf.max);
    if guaranteed > 0 {
        resources.push_str(&format!(", guaranteed: {{memory: {guaranteed}}}"));
    }
    format!(
        "{{name: {name}, resources: {{{resources}}}, properties: {{preemption.delay: 1s, preemption.policy: {policy}, \
         priority.policy: {}, priority.offset: '{}'}}}}",
        if leaf.fence { "fence" } else { "default" },
        leaf.offset
    )
}

/// Of an ask: the number of its application, memory, vcore, priority, and what it is about preemption.
type Asked = (usize, i64, i64, i32, u8);

/// Two parents with two leaves each. Of a parent: guaranteed, max, and whether it is a fence.
fn random_world(leaves: &[Leaf], parents: &[(i64, i64, bool)], nodes: &[i64], asks: &[Asked]) {
    let parent = |n: usize| {
        let (guaranteed, max, fence) = parents[n];
        let below: Vec<String> = (0..2).map(|k| yaml_of(&format!("l{k}"), &leaves[n * 2 + k])).collect();
        let sum: i64 = (0..2).map(|k| leaves[n * 2 + k].guaranteed.min(leaves[n * 2 + k].max)).sum();
        let max = max.max(sum).max(60);
        let guaranteed = guaranteed.max(sum).min(max);
        let resources = if guaranteed > 0 { format!(", guaranteed: {{memory: {guaranteed}}}") } else { String::new() };
        let policy = if fence { "fence" } else { "default" };
        format!(
            "{{name: p{n}, parent: true, resources: {{max: {{memory: {max}}}{resources}}}, \
             properties: {{preemption.policy: {policy}}}, queues: [{}]}}",
            below.join(", ")
        )
    };
    let mut env = Env::calm(&tree(&format!("{}, {}", parent(0), parent(1))));
    for (n, size) in nodes.iter().enumerate() {
        env.node(&format!("n{n}"), *size);
    }
    for n in 0..4 {
        env.app(&format!("app{n}"), &format!("root.p{}.l{}", n / 2, n % 2));
    }
    for (n, (app, memory, vcore, priority, kind)) in asks.iter().enumerate() {
        let mut ask = Ask::new(&format!("app{app}"), &format!("k{n}"), 1).priority(*priority);
        ask = ask.sized(super::super::env::res(*memory, *vcore));
        ask = match kind {
            0 => ask.opted_out(),
            1 => ask.preempts().originator(),
            2 => ask,
            3 => ask.preempts().requires("n0"),
            _ => ask.preempts(),
        };
        env.ask(vec![ask]);
    }
    settle(&mut env);
}

/// k8 has room to come by what leaves for k10, which needs less of it: it is promised that until all of it is gone.
#[test]
fn what_is_promised_without_victims_of_its_own_is_not_spent_while_room_is_to_come() {
    let leaf = |max| Leaf { guaranteed: 0, max, offset: 0, fence: false, policy: 0 };
    let asks = [
        (1, 11, 1, -1, 0),
        (2, 4, 12, 0, 0),
        (1, 8, 1, 0, 0),
        (0, 9, 1, 0, 0),
        (1, 1, 7, 0, 0),
        (0, 14, 1, 0, 0),
        (3, 14, 1, 0, 0),
        (1, 3, 1, 0, 3),
        (1, 9, 1, -1, 3),
        (0, 9, 1, 0, 0),
        (1, 2, 1, 0, 3),
    ];
    random_world(&[33, 33, 23, 18].map(leaf), &[(0, 30, false); 2], &[36, 28, 27], &asks);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn random_trees_come_to_rest(
        leaves in prop::collection::vec(random_leaf(), 4),
        parents in prop::collection::vec((0i64..40, 30i64..80, any::<bool>()), 2),
        nodes in prop::collection::vec(8i64..40, 1..4),
        asks in prop::collection::vec((0usize..4, 1i64..16, 1i64..16, -3i32..4, 0u8..6), 1..24),
    ) {
        random_world(&leaves, &parents, &nodes, &asks);
    }
}
