//! What is tried in vain is bounded in each call, and the next goes on behind it: together they decide what one call would.

use std::sync::Arc;

use callboard::domain::{
    Partition,
    command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
    effect::{Callback, Effect},
    event::Detail,
    partition::Done,
    types::Nanos,
};

use super::env::{Ask, QUEUES, res};

const NOW: Nanos = Nanos::from_secs(1_000_000);

/// A partition with one node of this size.
fn world(yaml: &str, size: i64) -> Partition {
    let conf = callboard::config::load(yaml).expect("valid").partitions[0].clone();
    let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, NOW, &mut Vec::new());
    let (id, capacity) = ("n1".into(), Some(res(size, size)));
    let node = NodeItem { id, action: NodeAction::Create, capacity, attributes: Default::default() };
    apply(&mut partition, Command::Nodes(vec![node]));
    partition
}

fn apply(partition: &mut Partition, command: Command) {
    partition.apply(command, NOW, &mut Vec::new());
}

fn apps(partition: &mut Partition, count: usize, queue: impl Fn(usize) -> String) {
    let app = |n: usize| AddApplication {
        id: format!("app-{n:05}").into(),
        queue: (*queue(n)).into(),
        user: "alice".into(),
        groups: Some(Arc::from([])),
        ..AddApplication::default()
    };
    apply(partition, Command::Applications { new: (0..count).map(app).collect(), remove: Vec::new() });
}

fn ask(partition: &mut Partition, asks: impl IntoIterator<Item = Ask>) {
    let item = |ask: Ask| AllocationItem { app: ask.app, node: None, spec: Arc::new(ask.spec) };
    let allocations = asks.into_iter().map(item).collect();
    apply(partition, Command::Allocations { allocations, releases: Vec::new() });
}

fn attempted(partition: &Partition) -> usize {
    partition.allocs.values().filter(|row| row.attempted).count()
}

fn placed(effects: &[Effect]) -> Vec<&str> {
    let placed = |effect| match effect {
        &Effect::Callback(Callback::New(ref new)) => Some(&*new.spec.key),
        _ => None,
    };
    effects.iter().filter_map(placed).collect()
}

/// Calls until nothing is left to do, and what came of them.
fn all_calls(partition: &mut Partition, max: usize) -> (Vec<Done>, Vec<Effect>) {
    let (mut calls, mut effects) = (Vec::new(), Vec::new());
    loop {
        let before = attempted(partition);
        let done = partition.schedule(max, NOW, &mut effects);
        calls.push(done);
        assert!(attempted(partition) - before <= max + done.made, "a call tried {}", attempted(partition) - before);
        if !done.may_go_on(max) {
            return (calls, effects);
        }
    }
}

/// The same of one that is not cut.
fn assert_same(mut partition: Partition, max: usize) -> (Vec<Done>, Partition, Vec<Effect>) {
    let (mut whole, mut expected) = (partition.clone(), Vec::new());
    let mut made = 0;
    loop {
        let done = whole.schedule_at_once(max, NOW, &mut expected);
        made += done;
        if done < max {
            break;
        }
    }
    let (calls, effects) = all_calls(&mut partition, max);
    assert_eq!(calls.iter().map(|done| done.made).sum::<usize>(), made);
    // What is told of decisions in a row is told once for all that are.
    let told = |effects: &[Effect]| -> Vec<String> {
        let row = |effect: &&Effect| matches!(effect, Effect::Event(event) if event.detail == Detail::QueueAlloc);
        effects.iter().filter(|effect| !row(effect)).map(|effect| format!("{effect:?}")).collect()
    };
    assert_eq!(told(&effects), told(&expected));
    assert!(partition.save() == whole.save(), "cut into calls it is another partition");
    assert_eq!(partition.audit(), []);
    (calls, partition, effects)
}

#[test]
fn applications_that_fit_nowhere_are_tried_in_many_calls() {
    const APPS: usize = 10_000;
    let mut partition = world(QUEUES, 100);
    apps(&mut partition, APPS, |n| format!("root.{}", if n % 2 == 0 { "a" } else { "b" }));
    // Each another shape.
    ask(&mut partition, (0..APPS).map(|n| Ask::new(&format!("app-{n:05}"), &format!("k{n}"), 101 + n as i64)));
    let (calls, partition, _) = assert_same(partition, 64);
    assert_eq!(attempted(&partition), APPS);
    assert!(calls.len() > APPS / 64, "{} calls", calls.len());
    let (last, others) = calls.split_last().expect("some");
    assert_eq!(*last, Done::default());
    assert!(others.iter().all(|done| *done == Done { made: 0, cut: true }));
}

#[test]
fn what_fits_behind_them_is_placed() {
    let mut partition = world(QUEUES, 100);
    apps(&mut partition, 500, |_| "root.a".into());
    let size = |n: usize| if n % 100 == 99 { 1 } else { 101 + (n % 7) as i64 };
    ask(&mut partition, (0..500).map(|n| Ask::new(&format!("app-{n:05}"), &format!("k{n}"), size(n))));
    for max in [1, 3, 64] {
        let (_, _, effects) = assert_same(partition.clone(), max);
        assert_eq!(placed(&effects), ["k99", "k199", "k299", "k399", "k499"]);
    }
}

#[test]
fn groups_of_one_application_are_taken_up_again() {
    let yaml =
        QUEUES.replace("- name: a\n", "- name: a\n            properties: {application.unschedasks.backoff: \"3\"}\n");
    for yaml in [QUEUES, &*yaml] {
        let mut partition = world(yaml, 100);
        apps(&mut partition, 2, |_| "root.a".into());
        let size = |n: usize| if n == 150 { 1 } else { 101 + n as i64 };
        ask(&mut partition, (0..300).map(|n| Ask::new("app-00000", &format!("k{n}"), size(n))));
        ask(&mut partition, [Ask::new("app-00001", "last", 1)]);
        for max in [1, 2, 64] {
            assert_same(partition.clone(), max);
        }
    }
}

#[test]
fn who_waits_for_a_limit_is_tried_in_many_calls() {
    let yaml = QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 10, vcore: 10m}}\n");
    let mut partition = world(&yaml, 100_000);
    apps(&mut partition, 1_000, |n| format!("root.{}", if n == 999 { "b" } else { "a" }));
    ask(&mut partition, (0..1_000).map(|n| Ask::new(&format!("app-{n:05}"), &format!("k{n}"), 1 + (n % 5) as i64)));
    for max in [1, 64] {
        let (_, mut after, effects) = assert_same(partition.clone(), max);
        assert!(placed(&effects).contains(&"k999"), "the other queue is not kept by them");
        // The limit goes: what was parked is looked at again.
        let conf = callboard::config::load(QUEUES).expect("valid").partitions[0].clone();
        apply(&mut after, Command::Configure(conf));
        let (_, _, effects) = assert_same(after, max);
        assert!(placed(&effects).len() > 900);
    }
}

#[test]
fn attempts_to_preempt_weigh_more() {
    let queues: String = (0..200)
        .map(|n| {
            format!(
                "          - name: q{n}\n            properties: {{preemption.delay: 1s}}\n            resources: {{guaranteed: {{memory: 10}}}}\n"
            )
        })
        .collect();
    let yaml = format!(
        "{}{queues}",
        QUEUES.replace("queues:\n      - name: root", "preemption: {enabled: true}\n    queues:\n      - name: root")
    );
    let mut partition = world(&yaml, 100);
    apps(&mut partition, 201, |n| if n == 200 { "root.a".into() } else { format!("root.q{n}") });
    // Nobody may preempt what runs.
    let mut runs = Ask::new("app-00200", "runs", 100).priority(10);
    runs.spec.preemption = None;
    ask(&mut partition, [runs]);
    assert_eq!(partition.schedule_at_once(64, NOW, &mut Vec::new()), 1);
    let wants = |n: usize| {
        let mut wants = Ask::new(&format!("app-{n:05}"), "k", 10).preempts();
        wants.spec.created = Some(NOW.minus(Nanos::from_secs(60)));
        wants
    };
    ask(&mut partition, (0..200).map(wants));
    let (calls, ..) = assert_same(partition, 64);
    assert!(calls.len() >= 200 * 8 / 64, "{} calls", calls.len());
}
