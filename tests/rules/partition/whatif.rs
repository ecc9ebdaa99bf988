//! What a change would do: both runs are on clones, what differs is told, and what was told is what happens.

use std::sync::Arc;

use callboard::{
    config,
    domain::{
        Partition,
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
        edit::Edit,
        partition::{
            forward::{Bounds, Lasts},
            whatif::{Fate, Outcome, Pair, Scenario},
        },
        types::{AllocIx, Nanos},
    },
};

use super::env::{Ask, Env, res};

const QUEUES: &str = "
partitions:
- name: default
  queues:
  - name: root
    submitacl: '*'
    queues:
    - {name: a, resources: {max: {memory: 20}}}
    - {name: b, resources: {guaranteed: {memory: 40}}, properties: {preemption.delay: 30s}}
";

fn never() -> bool {
    false
}

const BOUNDS: Bounds<'static> = Bounds { decisions: 100_000, stop: &never };

fn asked(env: &Env, change: Vec<Command>, seconds: i64, lasts: Option<Lasts<'_>>) -> Outcome {
    let horizon = Nanos::from_secs(seconds);
    let scenario = Scenario { change, horizon, lasts, recorded: None, bounds: [BOUNDS; 2] };
    env.partition.what_if(scenario, env.now)
}

fn nodes(count: usize, size: i64) -> Command {
    let node = |n: usize| NodeItem {
        id: format!("new-{n}").into(),
        action: NodeAction::Create,
        capacity: Some(res(size, size)),
        attributes: Default::default(),
    };
    Command::Nodes((1..=count).map(node).collect())
}

fn fate<'a>(outcome: &'a Outcome, app: &str) -> &'a Fate {
    outcome.applications.iter().find(|fate| *fate.app == *app).expect("it fares otherwise")
}

/// A node of 10 that is full of `app-1`, while `app-1` and `app-2` wait for 10 more each.
fn crowded() -> Env {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    env.app("app-1", "root.b");
    env.app("app-2", "root.b");
    env.ask((0..2).map(|n| Ask::new("app-1", &format!("a{n}"), 10)).collect());
    env.ask(vec![Ask::new("app-2", "b0", 10)]);
    env
}

#[test]
fn nodes_that_come_place_what_waits_for_them_and_nothing_is_touched() {
    let env = crowded();
    let before = format!("{:?}", env.partition.save());
    let outcome = asked(&env, vec![nodes(1, 10)], 0, None);
    assert_eq!(format!("{:?}", env.partition.save()), before);
    assert_eq!((outcome.cut, outcome.seen, outcome.refused.len()), (false, Nanos::ZERO, 0));
    let Pair { without, with } = &outcome.whole;
    assert_eq!((without.placed, without.waiting, without.allocations), (0, 2, 1));
    assert_eq!((with.placed, with.waiting, with.allocations), (1, 1, 2));
    assert_eq!((&without.capacity, &with.capacity), (&res(10, 10), &res(20, 20)));
    // First come, first served: the other one fares as before, and is not told of.
    assert_eq!(outcome.applications.len(), 1);
    let fate = fate(&outcome, "app-1");
    assert_eq!((fate.waiting, fate.only), (Pair { without: 1, with: 0 }, Pair { without: 0, with: 1 }));
    let paths: Vec<&str> = outcome.queues.iter().map(|queue| &*queue.queue).collect();
    assert_eq!(paths, ["root", "root.b"]);
    assert_eq!(outcome.queues[1].used, Pair { without: res(10, 10), with: res(20, 20) });
    // Nothing differs where nothing is changed.
    let outcome = asked(&env, Vec::new(), 600, None);
    assert!(
        outcome.applications.is_empty() && outcome.queues.is_empty() && outcome.whole.without == outcome.whole.with
    );
}

#[test]
fn what_was_told_is_what_happens() {
    let mut env = crowded();
    let outcome = asked(&env, vec![nodes(2, 10)], 0, None);
    env.apply(nodes(2, 10));
    env.run();
    assert_eq!(outcome.whole.with.allocations, env.partition.allocations);
    assert_eq!(outcome.whole.with.used, env.partition.queues[env.partition.root].placed());
    // The clone has the same state to the byte.
    assert_eq!(outcome.then.save(), env.partition.save());
}

#[test]
fn an_ask_that_comes_is_placed_or_says_what_refused_it() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    let add = |id: &str, queue: &str| AddApplication { id: id.into(), queue: queue.into(), ..env.by("alice") };
    let asks = |app: &str, count: i32| Command::Allocations {
        allocations: (0..count)
            .map(|n| Ask::new(app, &format!("{app}-{n}"), 10))
            .map(|ask| AllocationItem { app: ask.app, node: None, spec: Arc::new(ask.spec) })
            .collect(),
        releases: Vec::new(),
    };
    let change = vec![
        Command::Applications { new: vec![add("new", "root.a"), add("bad", "root.none")], remove: Vec::new() },
        asks("new", 3),
    ];
    let outcome = asked(&env, change, 0, None);
    let fate = fate(&outcome, "new");
    assert!(fate.new && fate.state.without.is_none() && fate.first.with == Some(Nanos::ZERO));
    // The max of its queue holds back the third.
    assert_eq!((fate.allocations.with, fate.waiting.with), (2, 1));
    let [(what, why)] = &outcome.refused[..] else { panic!("{:?}", outcome.refused) };
    assert!(**what == *"bad" && why.contains("no placement rule matched"), "{why}");
    assert!(env.partition.app_by_id.is_empty());
}

#[test]
fn a_guarantee_that_is_raised_preempts_within_the_time_that_is_looked_at() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 40);
    env.app("app-1", "root.a");
    env.ask((0..2).map(|n| Ask::new("app-1", &format!("a{n}"), 10).preempts()).collect());
    env.app("app-2", "root.b");
    env.ask((0..3).map(|n| Ask::new("app-2", &format!("b{n}"), 10).preempts()).collect());
    // Nothing is preempted for the third of them while preemption is off.
    let config = config::load(&QUEUES.replace("- name: default", "- name: default\n  preemption: {enabled: false}"));
    env.apply(Command::Configure(config.expect("valid").partitions[0].clone()));
    let edited = config::load(QUEUES).expect("valid").edited("default", &[Edit::Preemption(true)]).expect("valid");
    let change = || vec![Command::Configure(edited.conf.clone())];
    let soon = asked(&env, change(), 5, None);
    assert_eq!((soon.whole.with.preempted, soon.seen), (0, Nanos::from_secs(5)));
    let later = asked(&env, change(), 120, None);
    assert_eq!((later.whole.without.preempted, later.whole.with.preempted), (0, 1));
    assert_eq!(fate(&later, "app-1").preempted, Pair { without: 0, with: 1 });
    assert_eq!(fate(&later, "app-2").only.with, 1);
    assert!(fate(&later, "app-2").first.with.is_some_and(|after| after > Nanos::ZERO));
}

#[test]
fn allocations_end_where_it_is_known_how_long_they_last() {
    let env = crowded();
    let minute = |partition: &Partition, ix: AllocIx, age: Nanos| {
        let known = *partition.allocs[ix].spec.key != *"b0";
        known.then(|| Nanos::from_secs(60).minus(age))
    };
    // One after the other on the only node; the last goes on for ever.
    let outcome = asked(&env, Vec::new(), 600, Some(&minute));
    assert_eq!((outcome.whole.without.placed, outcome.whole.without.allocations), (2, 1));
    let outcome = asked(&env, vec![nodes(1, 10)], 600, Some(&minute));
    let fate = fate(&outcome, "app-2");
    assert_eq!((fate.sooner, fate.later, fate.only), (1, 0, Pair::default()));
    let first = fate.first;
    assert_eq!((first.without, first.with), (Some(Nanos::from_secs(120)), Some(Nanos::from_secs(60))));
}

#[test]
fn a_run_that_takes_too_long_is_cut_and_says_so() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 4_000);
    env.app("app-1", "root.b");
    let conf = env.partition.conf.clone();
    let full = vec![Command::Allocations {
        allocations: (0..500)
            .map(|n| Ask::new("app-1", &format!("k{n}"), 1))
            .map(|ask| AllocationItem { app: ask.app, node: None, spec: Arc::new(ask.spec) })
            .collect(),
        releases: Vec::new(),
    }];
    let few = Bounds { decisions: 100, stop: &never };
    let scenario = |change, bounds| Scenario { change, horizon: Nanos::ZERO, lasts: None, recorded: None, bounds };
    let outcome = env.partition.what_if(scenario(full.clone(), [BOUNDS, few]), env.now);
    assert!(outcome.cut && outcome.whole.with.placed <= 116, "{}", outcome.whole.with.placed);
    // Both are cut at the same number of decisions, so that they can be compared.
    for command in full {
        env.partition.apply(command, env.now, &mut Vec::new());
    }
    let change = vec![Command::Configure(conf)];
    let outcome = env.partition.what_if(scenario(change, [few, BOUNDS]), env.now);
    assert!(outcome.cut && outcome.whole.without.placed == outcome.whole.with.placed, "{:?}", outcome.whole);
}
