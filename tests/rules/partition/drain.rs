//! What an operator drained holds from the registration of a node on, also where that comes later.

use std::{collections::BTreeMap, sync::Arc};

use callboard::domain::{
    Partition,
    command::{Command, NodeAction, NodeItem},
    event::Detail,
    journal::DrainNote,
    types::Nanos,
};

use super::env::{Ask, Env, QUEUES, res};

fn waiting() -> Env {
    let mut env = Env::new(QUEUES);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.heard();
    env
}

fn hold(env: &mut Env, host: &str, held: bool) {
    env.apply(Command::HoldHosts { hosts: vec![host.into()], held });
    env.run();
}

fn drain(env: &mut Env, node: &str, drained: bool) {
    env.apply(Command::OperatorDrain { nodes: vec![node.into()], drained });
    env.run();
}

fn node_on(env: &mut Env, id: &str, host: &str) {
    let attributes = BTreeMap::from([("si/hostname".to_owned(), host.to_owned())]);
    let item = NodeItem {
        id: id.into(),
        action: NodeAction::Create,
        capacity: Some(res(100, 100)),
        attributes: attributes.into(),
    };
    env.apply(Command::Nodes(vec![item]));
    env.run();
}

fn schedulable(env: &Env) -> Vec<String> {
    let events = env.events.iter().filter(|event| event.detail == Detail::NodeSchedulable);
    events.map(|event| format!("{} {}", event.object, event.message)).collect()
}

#[test]
fn a_node_that_was_drained_before_it_came_gets_nothing() {
    let mut env = waiting();
    drain(&mut env, "n1", true);
    env.node("n1", 100);
    assert_eq!(env.heard(), ["node n1"]);
    assert_eq!(schedulable(&env), ["n1 schedulable: false"]);
    // The resource manager has no say in it.
    env.node_action("n1", NodeAction::Drain, None);
    env.node_action("n1", NodeAction::DrainToSchedulable, None);
    assert!(env.heard().is_empty());
    env.node_action("n1", NodeAction::DrainToSchedulable, None);
    let told = "rejected node n1: node n1 is drained by an operator: the resource manager cannot undrain it";
    assert_eq!(env.heard(), [told]);
    drain(&mut env, "n1", false);
    assert_eq!(env.heard(), ["app-1 Running", "new k1 on n1"]);
    // SEEDS S4
    env.node_action("n1", NodeAction::DrainToSchedulable, None);
    assert_eq!(env.heard(), ["rejected node n1: node n1 is not draining: it cannot be made schedulable again"]);
    assert_eq!(schedulable(&env).last().map(String::as_str), Some("n1 schedulable: true"));
}

#[test]
fn a_drain_outlives_the_node() {
    let mut env = waiting();
    env.node("n0", 5);
    drain(&mut env, "n0", true);
    env.node_action("n0", NodeAction::Decommission, None);
    env.heard();
    env.node("n0", 100);
    assert_eq!(env.heard(), ["node n0"]);
    env.node_action("n0", NodeAction::Decommission, None);
    drain(&mut env, "n0", false);
    env.heard();
    env.node("n0", 100);
    assert_eq!(env.heard(), ["node n0", "app-1 Running", "new k1 on n0"]);
}

#[test]
fn a_host_is_held_for_whatever_node_registers_there() {
    let mut env = waiting();
    hold(&mut env, "rack1%20slot", true);
    hold(&mut env, "n2", true);
    node_on(&mut env, "any", "rack1 slot");
    env.node("n2", 100);
    node_on(&mut env, "rack1%20slot", "elsewhere");
    // Only the node of another host is free, whatever its id is.
    assert_eq!(env.heard(), ["node any", "node n2", "node rack1%20slot", "app-1 Running", "new k1 on rack1%20slot"]);
    // What is registered is let go by its id.
    hold(&mut env, "n2", false);
    env.ask(vec![Ask::new("app-1", "k2", 100)]);
    assert!(env.heard().is_empty());
    drain(&mut env, "n2", false);
    assert_eq!(env.heard(), ["new k2 on n2"]);
    let row = |id: &str| &env.partition.nodes[env.partition.node_by_id[&Arc::from(id)]];
    assert!(row("any").operator_drained && !row("n2").operator_drained);
}

#[test]
fn what_is_left_at_a_deadline_is_told() {
    let mut env = Env::new(QUEUES);
    env.node("n1", 100);
    for app in 0..7 {
        let id = format!("app-{app}");
        env.app(&id, "root.a");
        env.ask(vec![Ask::new(&id, &format!("k{app}"), 10)]);
    }
    env.run();
    env.node("n2", 100);
    drain(&mut env, "n1", true);
    env.events.clear();
    env.apply(Command::DrainOverdue(["n1", "n2", "n3"].map(Into::into).into()));
    let left = "7 allocations of app-0, app-1, app-2, app-3, app-4 and 2 more";
    assert_eq!(schedulable(&env), [format!("n1 the deadline of its drain has passed: {left} still there")]);
    assert_eq!(env.partition.left_on("n1").expect("something").to_string(), left);
    assert!(["n2", "n3"].iter().all(|node| env.partition.left_on(node).is_none()));
}

#[test]
fn a_deadline_is_told_once_and_another_again() {
    let mut env = Env::new(QUEUES);
    node_on(&mut env, "n1", "host");
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.run();
    let passes = |env: &mut Env, deadline: i64| {
        let note = DrainNote { since: Nanos(1), reason: None, deadline: Some(Nanos(deadline)) };
        env.apply(Command::NoteDrains(vec![("host".into(), note)]));
        env.events.clear();
        env.apply(Command::DrainOverdue(vec!["n1".into()]));
        schedulable(env).len()
    };
    hold(&mut env, "host", true);
    drain(&mut env, "n1", true);
    // The journal does not know after a restart; the partition does.
    assert_eq!([passes(&mut env, 5), passes(&mut env, 5), passes(&mut env, 7), passes(&mut env, 7)], [1, 0, 1, 0]);
    let saved = env.partition.save();
    env.partition = Partition::load(&saved, &Default::default()).expect("what was saved is read");
    assert_eq!(passes(&mut env, 7), 0);
    drain(&mut env, "n1", false);
    hold(&mut env, "host", false);
    hold(&mut env, "host", true);
    assert_eq!(passes(&mut env, 7), 1, "of another drain");
}
