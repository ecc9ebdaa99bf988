//! Figures, not tests: `cargo test --release --test partition preempt::speed -- --ignored --nocapture`.

use std::{sync::Arc, time::Instant};

use callboard::{
    config,
    domain::{
        Partition,
        alloc::{AskSpec, PreemptionPolicy},
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
        effect::{Callback, Effect},
        resources::Resource,
        types::{Nanos, Termination},
    },
};

use super::tree;

const NODES: usize = 5_000;
const PER_NODE: usize = 10;

/// 5,000 nodes full of low-priority work of one queue, 5,000 asks of another within its guarantee.
#[test]
#[ignore = "a measurement"]
fn five_thousand_preemptions() {
    let guaranteed = NODES * 20;
    let yaml = tree(&format!(
        "{{name: a, resources: {{guaranteed: {{memory: {guaranteed}}}}}, properties: {{preemption.delay: 1s}}}}, {{name: b}}"
    ));
    let conf = config::load(&yaml).expect("valid").partitions[0].clone();
    let mut now = Nanos::from_secs(1);
    let mut fx = Vec::new();
    let mut p = Partition::new("rm".into(), "[rm]default".into(), conf, now, &mut fx);
    let capacity = Resource::of(&[("memory", 20 * PER_NODE as i64), ("vcore", 20 * PER_NODE as i64)]);
    let node = |n| NodeItem {
        id: format!("node-{n:06}").into(),
        action: NodeAction::Create,
        capacity: Some(capacity.clone()),
        attributes: Default::default(),
    };
    p.apply(Command::Nodes((0..NODES).map(node).collect()), now, &mut fx);
    let app = |name: &str| AddApplication {
        id: format!("app-{name}").into(),
        queue: format!("root.{name}").into(),
        user: "u".into(),
        groups: Some(Arc::from([Arc::from("g")])),
        ..AddApplication::default()
    };
    p.apply(Command::Applications { new: vec![app("a"), app("b")], remove: Vec::new() }, now, &mut fx);
    let ask = |app: &str, n: usize, priority: i32| AllocationItem {
        app: format!("app-{app}").into(),
        node: None,
        spec: Arc::new(AskSpec {
            key: format!("{app}-{n:06}").into(),
            resource: Arc::new(Resource::of(&[("memory", 20), ("vcore", 20)])),
            priority,
            preemption: Some(PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true }),
            ..AskSpec::default()
        }),
    };
    let work: Vec<_> = (0..NODES * PER_NODE).map(|n| ask("b", n, 0)).collect();
    p.apply(Command::Allocations { allocations: work, releases: Vec::new() }, now, &mut fx);
    let began = Instant::now();
    let mut placed = 0;
    while let made @ 1.. = p.schedule_at_once(64, now, &mut fx) {
        placed += made;
        fx.clear();
    }
    assert_eq!(placed, NODES * PER_NODE);
    println!("filling:    {:>9.0} placements/s", placed as f64 / began.elapsed().as_secs_f64());
    let asks: Vec<_> = (0..NODES).map(|n| ask("a", n, 5)).collect();
    p.apply(Command::Allocations { allocations: asks, releases: Vec::new() }, now, &mut fx);
    p.schedule_at_once(64, now, &mut fx);
    now = now.plus(Nanos::from_secs(2));
    p.apply(Command::Tick, now, &mut fx);
    fx.clear();
    let began = Instant::now();
    let mut decided = 0;
    while let made @ 1.. = p.schedule_at_once(64, now, &mut fx) {
        decided += made;
    }
    let seconds = began.elapsed().as_secs_f64();
    let releases: Vec<ReleaseItem> = fx
        .drain(..)
        .filter_map(|effect| match effect {
            Effect::Callback(Callback::Released(release)) => Some(ReleaseItem {
                app: release.app.clone(),
                key: release.key.clone(),
                termination: Termination::Preempted,
            }),
            _ => None,
        })
        .collect();
    println!("preempting: {:>9.0} decisions/s ({decided}, {} victims)", decided as f64 / seconds, releases.len());
    assert_eq!((decided, releases.len()), (NODES, NODES));
    let began = Instant::now();
    let mut placed = 0;
    for releases in releases.chunks(64) {
        p.apply(Command::Allocations { allocations: Vec::new(), releases: releases.to_vec() }, now, &mut fx);
        while let made @ 1.. = p.schedule_at_once(64, now, &mut fx) {
            placed += made;
        }
        fx.clear();
    }
    println!("confirming: {:>9.0} placements/s", placed as f64 / began.elapsed().as_secs_f64());
    assert_eq!(placed, NODES);
    assert!(p.audit().is_empty());
}

/// Placements per second in one queue, on nodes of its own, for two seconds, while others search in vain.
fn normal_work(preemption: bool) -> f64 {
    let yaml = tree(
        "{name: a, resources: {guaranteed: {memory: 1000000}}, properties: {preemption.delay: 1s}}, {name: b}, {name: c}",
    )
    .replace(
        "    queues:\n      - name: root",
        &format!("    preemption: {{enabled: {preemption}}}\n    queues:\n      - name: root"),
    );
    let conf = config::load(&yaml).expect("valid").partitions[0].clone();
    let mut now = Nanos::from_secs(1);
    let mut fx = Vec::new();
    let mut p = Partition::new("rm".into(), "[rm]default".into(), conf, now, &mut fx);
    let node = |n: usize, size: i64| NodeItem {
        id: format!("node-{n:06}").into(),
        action: NodeAction::Create,
        capacity: Some(Resource::of(&[("memory", size), ("vcore", size)])),
        attributes: Default::default(),
    };
    // The last nodes have too little for what queue a asks for, and are the only ones with room.
    let nodes = (0..NODES).map(|n| node(n, 200)).chain((NODES..NODES + 100).map(|n| node(n, 90))).collect();
    p.apply(Command::Nodes(nodes), now, &mut fx);
    for name in ["a", "b", "c"] {
        let app = AddApplication {
            id: format!("app-{name}").into(),
            queue: format!("root.{name}").into(),
            user: "u".into(),
            groups: Some(Arc::from([Arc::from("g")])),
            ..AddApplication::default()
        };
        p.apply(Command::Applications { new: vec![app], remove: Vec::new() }, now, &mut fx);
    }
    let ask = |app: &str, n: usize, size: i64, on: Option<usize>, out: bool| AllocationItem {
        app: format!("app-{app}").into(),
        node: on.map(|n| format!("node-{n:06}").into()),
        spec: Arc::new(AskSpec {
            key: format!("{app}-{n:06}").into(),
            resource: Arc::new(Resource::of(&[("memory", size), ("vcore", size)])),
            preemption: Some(PreemptionPolicy { allow_preempt_self: !out, allow_preempt_other: true }),
            required_node: out.then(|| format!("node-{:06}", on.unwrap_or(0)).into()),
            ..AskSpec::default()
        }),
    };
    // 110 of 200 on each large node cannot be moved.
    let fixed = (0..NODES).map(|n| ask("b", n, 110, Some(n), true));
    let loose = (0..NODES * 9).map(|n| ask("b", NODES + n, 10, Some(n / 9), false));
    p.apply(Command::Allocations { allocations: fixed.chain(loose).collect(), releases: Vec::new() }, now, &mut fx);
    let hopeless = (0..1000).map(|n| ask("a", n, 120, None, false)).collect();
    p.apply(Command::Reservations(false), now, &mut fx);
    p.apply(Command::Allocations { allocations: hopeless, releases: Vec::new() }, now, &mut fx);
    p.schedule_at_once(64, now, &mut fx);
    let (began, first) = (Instant::now(), now.plus(Nanos::from_secs(3)));
    let mut made = 0;
    while began.elapsed().as_secs() < 2 {
        now = first.plus(Nanos(began.elapsed().as_nanos() as i64));
        fx.clear();
        let asks: Vec<_> = (0..64).map(|n| ask("c", n, 10, None, false)).collect();
        let releases: Vec<_> = asks
            .iter()
            .map(|item| ReleaseItem {
                app: item.app.clone(),
                key: item.spec.key.clone(),
                termination: Termination::StoppedByRm,
            })
            .collect();
        p.apply(Command::Tick, now, &mut fx);
        p.apply(Command::Allocations { allocations: asks, releases: Vec::new() }, now, &mut fx);
        while let placed @ 1.. = p.schedule_at_once(64, now, &mut fx) {
            made += placed;
        }
        p.apply(Command::Allocations { allocations: Vec::new(), releases }, now, &mut fx);
    }
    let released = fx.iter().any(|e| matches!(e, Effect::Callback(Callback::Released(r)) if r.confirm));
    assert!(!released, "nothing can be preempted");
    f64::from(u32::try_from(made).unwrap_or(u32::MAX)) / began.elapsed().as_secs_f64()
}

#[test]
#[ignore = "a measurement"]
fn normal_scheduling_goes_on_while_others_search() {
    normal_work(false);
    let (without, with) = (normal_work(false), normal_work(true));
    println!("{without:.0} placements/s without searches, {with:.0} with: {:.0} %", 100.0 * with / without);
}
