//! Figures, not tests: `cargo test --release --test partition reload_speed -- --ignored --nocapture`.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use callboard::{
    config::{self, LoadedConfig},
    domain::{
        Partition,
        alloc::AskSpec,
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
        types::Nanos,
    },
};

use super::env::res;

/// Time that this thread has had the processor (Linux), so that others on the machine do not count.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default())
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    let before = busy();
    let done = work();
    let took = busy() - before;
    println!("  {what:<34} {:>8.1} ms", took.as_secs_f64() * 1000.0);
    (done, took)
}

const PARENTS: usize = 100;
const LEAVES: usize = 100;
const NODES: usize = 1_000;
/// Per leaf.
const ALLOCATIONS: usize = 10;
const NOW: Nanos = Nanos::from_secs(1_000);

/// `max` of every leaf; the last parent is left out where `short`.
fn text(max: usize, short: bool) -> String {
    let mut text =
        String::from("partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    queues:\n");
    for parent in 0..PARENTS - usize::from(short) {
        writeln!(text, "    - name: p{parent}\n      properties: {{x: '{max}'}}\n      queues:").unwrap();
        for leaf in 0..LEAVES {
            writeln!(text, "      - name: q{leaf}\n        resources: {{max: {{memory: {max}, vcore: {max}}}}}")
                .unwrap();
        }
    }
    text
}

fn running(config: &LoadedConfig) -> Partition {
    let mut fx = Vec::new();
    let mut p = Partition::new("rm-1".into(), "[rm-1]default".into(), config.partitions[0].clone(), NOW, &mut fx);
    let node = |n| NodeItem {
        id: format!("node-{n:04}").into(),
        action: NodeAction::Create,
        capacity: Some(res(1_000, 1_000)),
        attributes: Default::default(),
    };
    p.apply(Command::Nodes((0..NODES).map(node).collect()), NOW, &mut fx);
    let leaves = || (0..PARENTS).flat_map(|parent| (0..LEAVES).map(move |leaf| (parent, leaf)));
    let app = |(parent, leaf)| AddApplication {
        id: format!("app-{parent}-{leaf}").into(),
        queue: format!("root.p{parent}.q{leaf}").into(),
        user: format!("user{}", leaf % 50).into(),
        groups: Some([Arc::from("staff")].into()),
        ..AddApplication::default()
    };
    p.apply(Command::Applications { new: leaves().map(app).collect(), remove: Vec::new() }, NOW, &mut fx);
    for (parent, leaf) in leaves() {
        let ask = |n| AllocationItem {
            app: format!("app-{parent}-{leaf}").into(),
            node: None,
            spec: Arc::new(AskSpec {
                key: format!("{parent}-{leaf}-{n}").into(),
                resource: Arc::new(res(1, 1)),
                ..AskSpec::default()
            }),
        };
        let allocations = (0..ALLOCATIONS).map(ask).collect();
        p.apply(Command::Allocations { allocations, releases: Vec::new() }, NOW, &mut fx);
    }
    while p.schedule_at_once(1024, NOW, &mut fx) > 0 {
        fx.clear();
    }
    assert_eq!(p.allocations as usize, PARENTS * LEAVES * ALLOCATIONS);
    p
}

/// The reload of a large partition: what the door does (reading), and the change itself.
#[test]
#[ignore = "a measurement"]
fn reload_speed() {
    let first = text(1_000, false);
    let mut partition = running(&config::load(&first).expect("valid"));
    for (name, text) in [
        ("one comment", format!("{first}# a comment\n")),
        ("every max and property", text(2_000, false)),
        ("and 101 queues drained", text(3_000, true)),
    ] {
        println!("{name}, {} queues, {} allocations", PARENTS * (LEAVES + 1) + 1, partition.allocations);
        let (config, reading) = timed("read and check", || config::load(&text).expect("valid"));
        let conf = config.partitions[0].clone();
        let (dry_run, _) = timed("plan (not part of a reload)", || partition.dry_run(conf.clone(), NOW));
        let (_, change) = timed("change", || partition.apply(Command::Configure(conf.clone()), NOW, &mut Vec::new()));
        println!("  {:<34} {:>8.1} ms", "in all", (reading + change).as_secs_f64() * 1000.0);
        println!("  {} queues differ", dry_run.queues.len());
    }
    assert!(partition.audit().is_empty());
}
