//! Figures, not tests: `cargo test --release --test partition gang_speed -- --ignored --nocapture`.

use std::{sync::Arc, time::Duration};

use callboard::domain::{
    Partition,
    command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
    effect::{Callback, Effect},
    types::{Nanos, Termination},
};

use super::env::{Ask, QUEUES, res};

/// Time that this thread has had the processor (Linux), so that others on the machine do not count.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default())
}

const NODES: usize = 1_000;
const APPS: usize = 100;
const GANG: usize = 100;
const NOW: Nanos = Nanos::from_secs(1_000);

fn schedule(partition: &mut Partition) -> (usize, Vec<Effect>) {
    let (mut made, mut effects) = (0, Vec::new());
    loop {
        let done = partition.schedule_at_once(64, NOW, &mut effects);
        made += done;
        if done < 64 {
            return (made, effects);
        }
    }
}

fn asks(placeholder: bool) -> Command {
    let mut allocations = Vec::new();
    for app in 0..APPS {
        for n in 0..GANG {
            let ask = Ask::new(&format!("app-{app}"), &format!("{}{n}", if placeholder { "p" } else { "r" }), 10);
            let ask = if placeholder { ask.placeholder("tg") } else { ask.group("tg") };
            allocations.push(AllocationItem { app: ask.app, node: None, spec: Arc::new(ask.spec) });
        }
    }
    Command::Allocations { allocations, releases: Vec::new() }
}

/// Placeholders and replacements per second (S5).
fn run(yaml: &str) -> (f64, f64) {
    let conf = callboard::config::load(yaml).expect("a valid configuration").partitions[0].clone();
    let mut fx = Vec::new();
    let mut p = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, NOW, &mut fx);
    let node = |n| NodeItem {
        id: format!("node-{n:04}").into(),
        action: NodeAction::Create,
        capacity: Some(res(100, 100)),
        attributes: Default::default(),
    };
    p.apply(Command::Nodes((0..NODES).map(node).collect()), NOW, &mut fx);
    let app = |n| AddApplication {
        id: format!("app-{n}").into(),
        queue: "root.a".into(),
        user: "alice".into(),
        groups: Some(Arc::from([])),
        placeholder_ask: Some(res(10 * GANG as i64, 10 * GANG as i64)),
        ..AddApplication::default()
    };
    p.apply(Command::Applications { new: (0..APPS).map(app).collect(), remove: Vec::new() }, NOW, &mut fx);
    let all = (APPS * GANG) as f64;
    let (placeholders, real) = (asks(true), asks(false));
    let began = busy();
    p.apply(placeholders, NOW, &mut fx);
    let asked = busy() - began;
    let (_, placed) = schedule(&mut p);
    let places = busy() - began;
    assert_eq!(p.placeholders, (APPS * GANG) as u64);
    drop(placed);

    let began = busy();
    p.apply(real, NOW, &mut fx);
    let asked_real = busy() - began;
    let (swaps, effects) = schedule(&mut p);
    let begun = busy() - began;
    assert_eq!(swaps, APPS * GANG);
    let releases = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Callback(Callback::Released(release)) => Some(ReleaseItem {
                app: release.app.clone(),
                key: release.key.clone(),
                termination: Termination::PlaceholderReplaced,
            }),
            _ => None,
        })
        .collect();
    p.apply(Command::Allocations { allocations: Vec::new(), releases }, NOW, &mut Vec::new());
    let replaced = busy() - began;
    assert_eq!((p.placeholders, p.allocations), (0, (APPS * GANG) as u64));
    assert!(p.audit().is_empty());
    println!(
        "  placeholders: asks {asked:?}, placed after {places:?}; replacement: asks {asked_real:?}, begun {begun:?}, done {replaced:?}"
    );
    (all / places.as_secs_f64(), all / replaced.as_secs_f64())
}

#[test]
#[ignore = "a figure, for release builds"]
fn gang_speed() {
    for (name, yaml) in [
        ("default", QUEUES.to_owned()),
        ("limited", QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 1000000}}\n")),
        ("atomic", QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n")),
    ] {
        let best = (0..3).map(|_| run(&yaml)).fold((0.0_f64, 0.0_f64), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        println!("{name}: {:.0} placeholders/s, {:.0} replacements/s", best.0, best.1);
        assert!(best.0 >= 150_000.0 && best.1 >= 100_000.0, "{name}: {best:?}");
    }
}
