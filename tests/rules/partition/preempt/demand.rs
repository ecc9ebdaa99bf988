//! Scale-up hints and container states (R4.37–R4.40, R5.45, SEEDS S7).

use callboard::domain::{command::Command, types::Termination};

use super::super::env::{Ask, Env, QUEUES};

#[test]
fn told_once_and_again_when_it_waits_again() {
    // R4.39 [DEFECT]
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "first", 20), Ask::new("app-1", "k1", 20)]);
    env.heard();
    env.pass(5);
    assert_eq!(env.heard(), ["k1 Failed"]);
    env.release("app-1", "first", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new k1 on n1".to_owned()));
    env.ask(vec![Ask::new("app-1", "other", 20).priority(5)]);
    env.heard();
    env.release("app-1", "k1", Termination::FailedOnRm);
    env.pass(3);
    let heard = env.heard();
    assert_eq!(heard.iter().filter(|text| *text == "k1 Failed").count(), 1, "{heard:?}");
}

#[test]
fn demand_is_what_waits_only_for_nodes() {
    let yaml = QUEUES.replace("- name: b\n", "- name: b\n            resources: {max: {memory: 15}}\n");
    let mut env = Env::new(&yaml);
    env.node("n1", 20);
    env.app("app-1", "root.a");
    env.app("app-2", "root.a");
    env.app("app-3", "root.b");
    assert!(env.partition.demand().is_empty());
    env.ask(vec![Ask::new("app-1", "fits", 20)]);
    env.ask((0..3).map(|n| Ask::new("app-1", &format!("k{n}"), 10)).collect());
    env.ask(vec![Ask::new("app-2", "same", 10).priority(7), Ask::new("app-2", "other", 30)]);
    env.ask((0..3).map(|n| Ask::new("app-3", &format!("b{n}"), 10)).collect());
    env.ask(vec![Ask::new("app-2", "pinned", 10).requires("n1")]);
    let shown = |env: &Env| {
        let demands = env.partition.demand();
        demands
            .iter()
            .map(|d| format!("{} {} x{} of {}, {}", d.queue, d.resource, d.asks, d.applications, d.priority))
            .collect::<Vec<_>>()
    };
    let expected = [
        "root.a map[memory:10 vcore:10] x4 of 2, 7",
        "root.a map[memory:30 vcore:30] x1 of 1, 0",
        "root.b map[memory:10 vcore:10] x1 of 1, 0",
    ];
    assert_eq!(shown(&env), expected, "the max of b leaves room for one");
    env.pass(2);
    assert_eq!(shown(&env), expected, "also what was told before");
    env.node("n2", 100);
    assert!(env.partition.demand().is_empty());
}

#[test]
fn no_node_helps_an_application_that_may_not_begin() {
    // R5.23, R4.40: by the limit of its queue, or of its user.
    for limit in ["maxapplications: 1", "limits: [{limit: l, users: ['*'], maxapplications: 1}]"] {
        let mut env = Env::new(&QUEUES.replace("- name: b\n", &format!("- name: b\n            {limit}\n")));
        env.node("n1", 20);
        env.app("app-1", "root.b");
        env.ask(vec![Ask::new("app-1", "fits", 20), Ask::new("app-1", "more", 10)]);
        env.app("app-2", "root.b");
        env.ask(vec![Ask::new("app-2", "k1", 5)]);
        env.pass(3);
        let asked: Vec<String> = env.partition.demand().iter().map(|d| format!("{} x{}", d.resource, d.asks)).collect();
        assert_eq!(asked, ["map[memory:10 vcore:10] x1"], "{limit}");
    }
}

#[test]
fn all_container_states_where_the_shim_wants_them() {
    // SEEDS S7
    let mut env = Env::new(QUEUES);
    env.apply(Command::ContainerStates(true));
    env.node("n1", 20);
    env.node("n2", 8);
    env.app("app-1", "root.a");
    env.heard();
    env.ask(vec![Ask::new("app-1", "k1", 15)]);
    assert_eq!(env.heard(), ["app-1 Accepted", "k1 Scheduled", "app-1 Running", "new k1 on n1"]);
    env.ask(vec![Ask::new("app-1", "k2", 10)]);
    env.pass(3);
    assert_eq!(env.heard(), ["k2 Failed", "k2 Reserved"]);
}
