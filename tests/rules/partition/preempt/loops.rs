//! Loops that other schedulers fell into, as tests.

use super::{
    super::env::{Ask, Env},
    A_AND_B,
    closed::settle,
    full, tree,
};

#[test]
fn a_victim_that_comes_back_at_once_does_not_get_its_place_back() {
    let mut env = full(A_AND_B);
    env.ask((0..3).map(|n| Ask::new("app-a", &format!("k{n}"), 20).preempts()).collect());
    assert_eq!(settle(&mut env), 2, "40 of the guarantee of 50");
    // What came back may take nothing from a.
    let a = env.partition.queue_by_path["root.a"];
    assert_eq!(env.partition.queues[a].allocated().total(), 80);
}

#[test]
fn what_comes_back_does_not_take_the_room_of_two_that_leave_one_by_one() {
    // The first room is free before the second: the quota of the parent is held for the claimant.
    let queues = "{name: p, parent: true, resources: {max: {memory: 40}}, queues: [\
                  {name: a, resources: {guaranteed: {memory: 40}}, properties: {preemption.delay: 1s}}, {name: b}]}";
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 40);
    env.node("n2", 40);
    env.app("app-a", "root.p.a");
    env.app("app-b", "root.p.b");
    env.ask(vec![Ask::new("app-b", "v0", 20).on("n1").preempts(), Ask::new("app-b", "v1", 20).on("n1").preempts()]);
    env.ask(vec![Ask::new("app-a", "k1", 40).preempts()]);
    env.pass(2);
    env.heard();
    let first = env.unconfirmed.remove(0);
    env.release("app-b", &first.key.clone(), first.termination);
    env.ask(vec![Ask::new("app-b", "back", 20).preempts()]);
    assert_eq!(env.heard(), Vec::<String>::new(), "20 of 40 are free, and promised");
    env.confirm_all();
    let heard = env.heard();
    assert!(heard.iter().any(|text| text.starts_with("new k1")), "{heard:?}");
}

#[test]
fn two_queues_below_their_guarantees_leave_each_other_alone() {
    let queues = "{name: a, resources: {guaranteed: {memory: 80}}, properties: {preemption.delay: 1s}}, \
                  {name: b, resources: {guaranteed: {memory: 80}}, properties: {preemption.delay: 1s}}";
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 60);
    env.node("n2", 40);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask((0..5).map(|n| Ask::new("app-a", &format!("a{n}"), 20).preempts()).collect());
    env.ask((0..5).map(|n| Ask::new("app-b", &format!("b{n}"), 20).preempts()).collect());
    // a has 100, 20 more than it is guaranteed.
    assert_eq!(settle(&mut env), 1);
    let b = env.partition.queue_by_path["root.b"];
    assert_eq!(env.partition.queues[b].allocated().total(), 40);
}

#[test]
fn priorities_that_cross_fences_do_not_swing() {
    // Each side sees the other's work as the lesser one.
    let queues = "{name: a, resources: {guaranteed: {memory: 40}}, \
                  properties: {preemption.delay: 1s, priority.policy: fence, priority.offset: '5'}}, \
                  {name: b, resources: {guaranteed: {memory: 40}}, \
                  properties: {preemption.delay: 1s, priority.policy: fence, priority.offset: '5'}}";
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 60);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask((0..3).map(|n| Ask::new("app-a", &format!("a{n}"), 20).preempts().priority(n)).collect());
    env.ask((0..3).map(|n| Ask::new("app-b", &format!("b{n}"), 20).preempts().priority(9 - n)).collect());
    assert_eq!(settle(&mut env), 1);
}

#[test]
fn a_guarantee_of_the_common_parent_is_no_reason_among_its_children() {
    let queues = "{name: p, parent: true, resources: {guaranteed: {memory: 40}}, properties: {preemption.delay: 1s}, \
                  queues: [{name: a}, {name: b}]}";
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 60);
    env.app("app-a", "root.p.a");
    env.app("app-b", "root.p.b");
    env.ask((0..3).map(|n| Ask::new("app-b", &format!("b{n}"), 20).preempts()).collect());
    env.ask(vec![Ask::new("app-a", "a0", 20).preempts()]);
    assert_eq!(settle(&mut env), 0);
}

#[test]
fn required_nodes_and_guarantees_together_end() {
    let mut env = full(A_AND_B);
    env.ask(vec![Ask::new("app-a", "k1", 40).preempts()]);
    env.ask((0..2).map(|n| Ask::new("app-b", &format!("ds{n}"), 30).requires("n1").preempts()).collect());
    assert!(settle(&mut env) <= 5);
}
