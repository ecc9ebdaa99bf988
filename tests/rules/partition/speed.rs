//! Figures, not tests: `cargo test --release --test partition speed -- --ignored --nocapture`.

use std::{sync::Arc, time::Instant};

use callboard::{
    config,
    domain::{
        Partition,
        alloc::AskSpec,
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
        effect::{Callback, Effect},
        resources::Resource,
        types::Nanos,
    },
};

struct Shape {
    name: &'static str,
    nodes: usize,
    node: (i64, i64),
    asks: usize,
    queues: usize,
    apps: usize,
    binpacking: bool,
    /// Asks of higher priority in front that fit no node.
    impossible: usize,
    mixed: bool,
}

fn run(shape: &Shape) {
    let mut yaml = String::from("partitions:\n  - name: default\n");
    if shape.binpacking {
        yaml.push_str("    nodesortpolicy: {type: binpacking}\n");
    }
    yaml.push_str("    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n");
    for q in 0..shape.queues {
        yaml.push_str(&format!("          - name: q{q}\n"));
    }
    let conf = config::load(&yaml).unwrap().partitions[0].clone();
    let now = Nanos::from_secs(1);
    let mut fx = Vec::new();
    let mut p = Partition::new("rm".into(), "[rm]default".into(), conf, now, &mut fx);
    let capacity = Resource::of(&[("memory", shape.node.0), ("vcore", shape.node.1)]);
    let nodes = (0..shape.nodes)
        .map(|n| NodeItem {
            id: format!("node-{n:06}").into(),
            action: NodeAction::Create,
            capacity: Some(capacity.clone()),
            attributes: Default::default(),
        })
        .collect();
    p.apply(Command::Nodes(nodes), now, &mut fx);
    let mut apps = Vec::new();
    for q in 0..shape.queues {
        for a in 0..shape.apps {
            apps.push(AddApplication {
                id: format!("app-{q}-{a}").into(),
                queue: format!("root.q{q}").into(),
                user: format!("user{a}").into(),
                groups: Some(Arc::from([Arc::from("g")])),
                ..AddApplication::default()
            });
        }
    }
    let ids: Vec<Arc<str>> = apps.iter().map(|a| a.id.clone()).collect();
    p.apply(Command::Applications { new: apps, remove: Vec::new() }, now, &mut fx);
    fx.clear();
    let ask = |n: usize, size: (i64, i64), priority: i32| AllocationItem {
        app: ids[n % ids.len()].clone(),
        node: None,
        spec: Arc::new(AskSpec {
            key: format!("ask-{priority}-{n:07}").into(),
            resource: Arc::new(Resource::of(&[("memory", size.0), ("vcore", size.1)])),
            priority,
            ..AskSpec::default()
        }),
    };
    let began = Instant::now();
    let mut made = 0;
    let mut added = 0;
    let mut events = 0;
    if shape.impossible > 0 {
        let allocations = (0..shape.impossible).map(|n| ask(n, (1 + shape.node.0, 1), 10)).collect();
        p.apply(Command::Allocations { allocations, releases: Vec::new() }, now, &mut fx);
    }
    while added < shape.asks {
        let batch = 1000.min(shape.asks - added);
        let allocations = (added..added + batch)
            .map(|n| ask(n, if shape.mixed { (1 + (n % 19) as i64, 1) } else { (10, 1) }, 0))
            .collect();
        added += batch;
        p.apply(Command::Allocations { allocations, releases: Vec::new() }, now, &mut fx);
        loop {
            let done = p.schedule_at_once(64, now, &mut fx);
            made += fx.iter().filter(|e| matches!(e, Effect::Callback(Callback::New(_)))).count();
            events += fx.len();
            fx.clear();
            if done == 0 {
                break;
            }
        }
    }
    let took = began.elapsed();
    println!(
        "{:<14} {made} of {} in {took:?}: {:.0}/s, {:.1} effects each",
        shape.name,
        shape.asks,
        made as f64 / took.as_secs_f64(),
        events as f64 / made as f64
    );
    let began = Instant::now();
    let clone = p.clone();
    println!("{:<14} clone {:?}", "", began.elapsed());
    drop(clone);
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let base = Shape {
        name: "S1",
        nodes: 5000,
        node: (100, 10),
        asks: 50_000,
        queues: 2,
        apps: 1,
        binpacking: false,
        impossible: 0,
        mixed: false,
    };
    run(&base);
    run(&Shape { name: "S1 500", nodes: 500, node: (1000, 100), ..base });
    run(&Shape { name: "S1 20000", nodes: 20_000, node: (30, 3), ..base });
    run(&Shape { name: "S2", binpacking: true, ..base });
    run(&Shape { name: "S3", nodes: 10_000, node: (10, 1), asks: 10_000, queues: 1000, ..base });
    run(&Shape { name: "S6", nodes: 2000, node: (10, 1), asks: 2000, queues: 1, impossible: 1000, ..base });
    run(&Shape { name: "S8", node: (60, 10), asks: 20_000, queues: 10, apps: 10, mixed: true, ..base });
    run(&Shape { name: "S9/10", nodes: 10_000, node: (100, 10), asks: 100_000, queues: 100, apps: 10, ..base });
}
