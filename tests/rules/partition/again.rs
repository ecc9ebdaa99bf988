//! What was recorded comes once more, to the same partition and to one that is otherwise.

use callboard::domain::{
    Partition,
    command::{Command, NodeAction},
    conf::PartitionConf,
    partition::{
        forward::Bounds,
        recorded::Recorded,
        whatif::{Outcome, Pair, Scenario, Waits},
    },
    types::{AllocIx, AppState, Nanos, Termination},
};
use proptest::prelude::*;

use super::{
    env::{Ask, Env, QUEUES, res},
    random,
};

fn seconds(seconds: i64) -> Nanos {
    Nanos::from_secs(seconds)
}

/// Runs what came since `start` once more.
fn again(start: &Partition, from: Nanos, env: &Env, change: Vec<Command>) -> Outcome {
    let recorded = env.recorded.as_ref().expect("recorded");
    let lasts = |partition: &Partition, ix: AllocIx, age: Nanos| {
        let row = &partition.allocs[ix];
        let name = (partition.apps[row.app].id.clone(), row.spec.key.clone());
        recorded.lasted(&name).map(|lasted| lasted.minus(age))
    };
    let never = || false;
    let bounds = [Bounds { decisions: 1_000_000, stop: &never }; 2];
    let both = Pair { without: recorded, with: recorded };
    let horizon = env.now.minus(from);
    start.what_if(Scenario { change, horizon, lasts: Some(&lasts), recorded: Some(both), bounds }, from)
}

fn recording(yaml: &str) -> (Env, Partition, Nanos) {
    let mut env = Env::calm(yaml);
    env.node("n1", 10);
    env.recorded = Some(Recorded::new(&env.partition));
    let (start, from) = (env.partition.clone(), env.now);
    (env, start, from)
}

/// `a` runs for a minute; `b`, which comes after ten seconds, waits for it, and runs for 100 s; their application goes 5 s later.
fn day() -> (Env, Partition, Nanos) {
    let (mut env, start, from) = recording(QUEUES);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "a", 10)]);
    env.pass(10);
    env.ask(vec![Ask::new("app-1", "b", 10)]);
    env.pass(50);
    env.release("app-1", "a", Termination::StoppedByRm);
    env.pass(100);
    env.release("app-1", "b", Termination::StoppedByRm);
    env.pass(5);
    env.remove_app("app-1");
    env.pass(35);
    (env, start, from)
}

fn another_node() -> Command {
    let mut env = Env::new(QUEUES);
    env.node("n2", 10);
    let node = &env.partition.nodes[env.partition.node_by_id["n2"]];
    Command::Nodes(vec![callboard::domain::command::NodeItem {
        id: "n2".into(),
        action: NodeAction::Create,
        capacity: Some(node.capacity.clone()),
        attributes: node.spec.attributes.clone(),
    }])
}

#[test]
fn without_a_change_it_is_as_it_was() {
    let (env, start, from) = day();
    let outcome = again(&start, from, &env, Vec::new());
    let recorded = env.recorded.as_ref().expect("recorded");
    let Pair { without, with } = &outcome.whole;
    assert_eq!(without, with);
    let waits = Waits { asks: 2, p50: seconds(0), p90: seconds(50), longest: seconds(50) };
    assert_eq!((recorded.placed, Waits::from(recorded.waits.clone())), (2, waits));
    assert_eq!((with.placed, with.waits, with.waiting, with.allocations), (2, waits, 0, 0));
    // 160 of 200 s.
    assert_eq!((with.average_used.clone(), with.average_capacity.clone()), (res(8, 8), res(10, 10)));
    assert!(outcome.applications.is_empty() && outcome.queues.is_empty() && !outcome.cut);
    assert!(!outcome.then.app_by_id.contains_key("app-1"), "it was removed");
}

#[test]
fn what_is_refused_anyhow_is_not_told_of_the_change() {
    let (mut env, start, from) = recording(QUEUES);
    let again_there = Command::Nodes(vec![callboard::domain::command::NodeItem {
        id: "n1".into(),
        action: NodeAction::Create,
        capacity: Some(res(10, 10)),
        attributes: Default::default(),
    }]);
    // More than are told.
    for n in 0..150 {
        env.app(&format!("lost-{n}"), "root.nowhere");
    }
    env.apply(again_there.clone());
    env.pass(10);
    let refused = |change| again(&start, from, &env, change).refused;
    assert_eq!((refused(Vec::new()), refused(vec![another_node()])), (vec![], vec![]));
    let told = refused(vec![another_node(), again_there.clone(), again_there]);
    assert_eq!(told.iter().map(|(what, _)| &**what).collect::<Vec<_>>(), ["n1", "n1"], "{told:?}");
}

#[test]
fn allocations_last_as_long_where_they_begin_sooner_and_applications_go_sooner() {
    let (env, start, from) = day();
    let outcome = again(&start, from, &env, vec![another_node()]);
    let with = &outcome.whole.with;
    assert_eq!(with.waits, Waits { asks: 2, ..Waits::default() });
    assert_eq!((with.average_used.clone(), with.average_capacity.clone()), (res(8, 8), res(20, 20)));
    let [fate] = &outcome.applications[..] else { panic!("{:?}", outcome.applications) };
    assert_eq!((&*fate.queue, &*fate.user, fate.sooner, fate.later, fate.new), ("root.a", "alice", 1, 0, false));
    let [queue] = &outcome.queues[..] else { panic!("{:?}", outcome.queues) };
    assert_eq!((queue.waits.without.p90, queue.waits.with.p90), (seconds(50), seconds(0)));
    // It went 5 s after the last of them had ended, at 110 s.
    let gone = again(&start, from, &Env { now: from.plus(seconds(115)), ..day().0 }, vec![another_node()]).then;
    assert!(!gone.app_by_id.contains_key("app-1"));
    let there = again(&start, from, &Env { now: from.plus(seconds(114)), ..day().0 }, vec![another_node()]).then;
    assert!(there.app_by_id.contains_key("app-1"));
}

#[test]
fn what_begins_later_is_not_cut_off_by_what_came() {
    // The node is smaller: `b` of the other application goes first there, and nobody is released before it ran.
    let (mut env, start, from) = recording(QUEUES);
    for app in ["app-1", "app-2"] {
        env.app(app, "root.a");
        env.ask(vec![Ask::new(app, "k", 5)]);
    }
    env.pass(60);
    for app in ["app-1", "app-2"] {
        env.release(app, "k", Termination::StoppedByRm);
        env.remove_app(app);
    }
    env.pass(100);
    let smaller = Command::Nodes(vec![callboard::domain::command::NodeItem {
        id: "n1".into(),
        action: NodeAction::Update,
        capacity: Some(res(5, 5)),
        attributes: Default::default(),
    }]);
    let outcome = again(&start, from, &env, vec![smaller]);
    let with = &outcome.whole.with;
    assert_eq!((with.placed, with.waits.longest, with.waiting), (2, seconds(60), 0));
    assert!(outcome.then.app_by_id.is_empty());
}

#[test]
fn what_was_withdrawn_is_withdrawn_and_what_changed_its_size_does() {
    let (mut env, start, from) = recording(QUEUES);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "large", 30), Ask::new("app-1", "grows", 2)]);
    env.pass(10);
    env.ask(vec![Ask::new("app-1", "grows", 4).on("n1")]);
    env.release("app-1", "large", Termination::StoppedByRm);
    env.pass(10);
    let outcome = again(&start, from, &env, Vec::new());
    let with = &outcome.whole.with;
    assert_eq!((with.placed, with.waiting, with.used.clone()), (1, 0, res(4, 4)));
    assert_eq!(with.used, env.partition.queues[env.partition.root].placed());
    // Where it ended before, there is nothing that could grow.
    let mut recorded = env.recorded.take().expect("recorded");
    recorded.came.retain(|(at, _)| *at > from);
    env.recorded = Some(recorded);
    assert_eq!(again(&start, from, &env, Vec::new()).whole.with.used, res(0, 0).pruned());
}

#[test]
fn gangs_are_replaced_and_swapped_as_they_were_and_confirmations_are_not_repeated() {
    // R6.13, R6.15
    let (mut env, start, from) = recording(QUEUES);
    env.gang("gang", "root.a", 8, "Hard");
    env.ask((0..2).map(|n| Ask::new("gang", &format!("p{n}"), 4).placeholder("g")).collect());
    env.pass(20);
    env.ask((0..2).map(|n| Ask::new("gang", &format!("r{n}"), 4).group("g")).collect());
    env.confirm_all();
    env.pass(30);
    for n in 0..2 {
        env.release("gang", &format!("r{n}"), Termination::StoppedByRm);
    }
    env.pass(5);
    let outcome = again(&start, from, &env, Vec::new());
    let (with, recorded) = (&outcome.whole.with, env.recorded.as_ref().expect("recorded"));
    assert_eq!((with.placed, with.allocations), (4, 0));
    assert_eq!((recorded.placed, recorded.waits.len()), (4, 2), "who replaces has not waited");
    assert_eq!(with.waits.asks, 2);
    assert_eq!(outcome.then.apps[outcome.then.app_by_id["gang"]].state, env.state("gang").expect("there"));
    assert_ne!(env.state("gang"), Some(AppState::Failing));
}

#[test]
fn new_configurations_can_be_left_out() {
    let (mut env, start, from) = recording(QUEUES);
    let conf: PartitionConf =
        (*callboard::config::load(&QUEUES.replace("name: b", "name: c")).expect("valid").partitions[0]).clone();
    env.apply(Command::Configure(conf.into()));
    env.pass(60);
    assert!(again(&start, from, &env, Vec::new()).then.queue_by_path.contains_key("root.c"));
    let recorded = env.recorded.take().expect("recorded");
    assert_eq!(recorded.configured, 1);
    env.recorded = Some(recorded.without_configurations());
    assert!(!again(&start, from, &env, Vec::new()).then.queue_by_path.contains_key("root.c"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// Whatever came, running it again with less room leaves all books right, and is the same each time.
    #[test]
    fn books_are_right_after_it_ran_again(steps in prop::collection::vec(random::step(), 1..60)) {
        let mut env = Env::new(random::YAML).alone();
        env.calm = true;
        let (start, from) = (env.partition.clone(), env.now);
        env.recorded = Some(Recorded::new(&start));
        for step in steps {
            random::run(&mut env, step);
        }
        env.pass(60);
        let drained = Command::OperatorDrain { nodes: vec!["n1".into()], drained: true };
        let outcome = again(&start, from, &env, vec![drained.clone()]);
        prop_assert_eq!(outcome.then.audit(), Vec::new());
        prop_assert_eq!(again(&start, from, &env, vec![drained]).whole, outcome.whole);
    }
}

#[test]
fn one_that_failed_waits_again_and_lasts_from_its_next_start() {
    // R4.26
    let (mut env, ..) = recording(QUEUES);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "a", 10)]);
    env.pass(1);
    env.release("app-1", "a", Termination::FailedOnRm);
    env.pass(60);
    env.release("app-1", "a", Termination::StoppedByRm);
    let recorded = env.recorded.as_ref().expect("recorded");
    let lasted = recorded.lasted(&("app-1".into(), "a".into())).expect("it ended");
    assert!(lasted > seconds(30), "{lasted:?}");
}
