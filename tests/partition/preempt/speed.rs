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
    while let made @ 1.. = p.schedule(64, now, &mut fx) {
        placed += made;
        fx.clear();
    }
    assert_eq!(placed, NODES * PER_NODE);
    println!("filling:    {:>9.0} placements/s", placed as f64 / began.elapsed().as_secs_f64());
    let asks: Vec<_> = (0..NODES).map(|n| ask("a", n, 5)).collect();
    p.apply(Command::Allocations { allocations: asks, releases: Vec::new() }, now, &mut fx);
    p.schedule(64, now, &mut fx);
    now = now.plus(Nanos::from_secs(2));
    p.apply(Command::Tick, now, &mut fx);
    fx.clear();
    let began = Instant::now();
    let mut decided = 0;
    while let made @ 1.. = p.schedule(64, now, &mut fx) {
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
        while let made @ 1.. = p.schedule(64, now, &mut fx) {
            placed += made;
        }
        fx.clear();
    }
    println!("confirming: {:>9.0} placements/s", placed as f64 / began.elapsed().as_secs_f64());
    assert_eq!(placed, NODES);
    assert!(p.audit().is_empty());
}
