//! Required nodes (R5.40–R5.45, R7.33–R7.38).

use callboard::domain::{
    alloc::Foreign,
    command::{Command, NodeAction},
    event::EventKind,
    partition::{Explainer, Why},
    types::Termination,
};

use super::{
    super::env::{Ask, Env, QUEUES, res},
    tree,
};

fn node_with(victims: &[Ask]) -> Env {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 30);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    for victim in victims {
        let mut ask = Ask::new("app-b", &victim.spec.key, 1).on("n1");
        ask.spec = victim.spec.clone();
        env.ask(vec![ask]);
    }
    env.node("n2", 100);
    env.heard();
    env
}

fn v(key: &str, size: i64) -> Ask {
    Ask::new("app-b", key, size).preempts()
}

#[test]
fn victims_by_kind_priority_and_age() {
    // R7.34, R7.35, idea 191
    let mut env = node_with(&[v("old", 10), v("young", 10), v("high", 10).priority(5)]);
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1").priority(4)]);
    assert_eq!(env.heard(), ["app-a Accepted", "released young Preempted"]);
    assert_eq!(&*env.unconfirmed[0].message, "preempting allocations to free up resources to run daemon set ask: ds");
    env.confirm_all();
    assert_eq!(env.heard(), ["app-a Running", "new ds on n1"]);
    let mut env = node_with(&[v("driver", 10).originator(), v("out", 10).opted_out(), v("low", 10).priority(-1)]);
    env.ask(vec![Ask::new("app-a", "ds", 20).requires("n1")]);
    assert_eq!(env.heard(), ["app-a Accepted", "released low Preempted", "released out Preempted"]);
}

/// A node that is full, where a shim is asked.
fn asked() -> Env {
    let mut env = node_with(&[v("v0", 30)]);
    env.node_action("n2", NodeAction::Decommission, None);
    env.apply(Command::AskPredicates(true));
    env
}

/// One was told to go, and `ds` is placed when it has.
fn gets_the_room_of_one(env: &mut Env) {
    assert_eq!(env.unconfirmed.len(), 1);
    env.confirm_all();
    env.answer_all();
    assert!(env.heard().contains(&"new ds on n1".to_owned()), "{:?}", env.told);
}

#[test]
fn nobody_goes_for_one_that_the_shim_refuses_there() {
    // R7.38: its host port is taken, say; and who goes comes back under another name.
    let mut env = asked();
    env.refuse("ds", "n1");
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    env.answer_all();
    assert!(env.unconfirmed.is_empty());
    // The node is kept for nobody, and when something changes there the shim is asked again.
    for n in 1..20 {
        let before = format!("v{}", n - 1);
        env.release("app-b", &before, Termination::StoppedByRm);
        env.answer_all();
        env.ask(vec![v(&format!("v{n}"), 30)]);
        env.answer_all();
        assert!(env.unconfirmed.is_empty());
        assert!(env.partition.alloc("app-b", &format!("v{n}")).is_some_and(|row| !row.is_pending()));
    }
    env.refusals.clear();
    env.release("app-b", "v19", Termination::StoppedByRm);
    env.answer_all();
    assert!(env.heard().contains(&"new ds on n1".to_owned()), "{:?}", env.told);
}

#[test]
fn one_that_the_shim_agrees_to_without_its_victims_gets_their_room() {
    let mut env = asked();
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    assert!(env.unconfirmed.is_empty(), "the shim is asked before");
    env.answer_all();
    gets_the_room_of_one(&mut env);
}

#[test]
fn a_shim_that_refuses_what_it_agreed_to_has_others_end_for_it_once_in_five_minutes() {
    // R7.38
    let mut env = asked();
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    let mut gone = 0;
    for n in 1..20 {
        // It agrees while they are there.
        env.refusals.clear();
        env.answer_all();
        gone += env.unconfirmed.len();
        env.refuse("ds", "n1");
        env.confirm_all();
        env.answer_all();
        env.ask(vec![v(&format!("v{n}"), 30)]);
        env.answer_all();
        env.pass(2);
    }
    assert_eq!(gone, 1);
    env.refusals.clear();
    for _ in 0..400 {
        env.pass(1);
        env.answer_all();
        gone += env.unconfirmed.len();
        env.confirm_all();
    }
    assert_eq!(gone, 2);
    assert!(env.heard().contains(&"new ds on n1".to_owned()), "{:?}", env.told);
}

#[test]
fn a_node_is_not_kept_for_one_that_may_not_preempt_there_yet() {
    // R5.43, R7.38: v0 went for it, which the shim refused then.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 40);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![v("v0", 30).on("n1")]);
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("app-a", "ds", 20).requires("n1")]);
    env.answer_all();
    assert_eq!(env.unconfirmed.len(), 1);
    env.refuse("ds", "n1");
    env.confirm_all();
    env.answer_all();
    for (key, size) in [("v1", 30), ("v2", 10)] {
        env.ask(vec![v(key, size)]);
        env.answer_all();
    }
    assert_eq!((env.partition.allocations, env.partition.reservations), (2, 0));
    // Where room comes it is asked about, and in its time others go for it.
    env.refusals.clear();
    env.pass(301);
    env.answer_all();
    env.confirm_all();
    env.answer_all();
    assert!(env.heard().contains(&"new ds on n1".to_owned()), "{:?}", env.told);
}

#[test]
fn an_answer_that_names_a_victim_that_was_not_asked_about_is_a_refusal() {
    // R7.21, R7.38: the node is kept for nobody, and the shim asked again in its time.
    let mut env = asked();
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    env.answer(Ok(()), 1);
    assert_eq!((env.unconfirmed.len(), env.partition.reservations, env.questions.len()), (0, 0, 0));
    env.pass(31);
    env.answer_all();
    assert_eq!(env.unconfirmed.len(), 1);
}

#[test]
fn nobody_goes_where_a_limit_is_used_up_while_the_shim_is_asked() {
    // R7.33
    let mut env = Env::calm(&QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 20}}\n"));
    env.node("n1", 30);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![v("v0", 30).on("n1")]);
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    let about_victims = env.questions.remove(0);
    env.node("n2", 20);
    env.ask(vec![Ask::new("app-a", "x", 15)]);
    env.answer_all();
    assert!(env.heard().contains(&"new x on n2".to_owned()), "{:?}", env.told);
    env.questions.push(about_victims);
    env.answer_all();
    assert!(env.unconfirmed.is_empty());
    env.release("app-a", "x", Termination::StoppedByRm);
    env.answer_all();
    assert_eq!(env.unconfirmed.len(), 1);
}

#[test]
fn fewer_go_where_others_have_left_while_the_shim_was_asked() {
    // R7.36
    let mut env = node_with(&[v("v0", 10), v("v1", 10), v("v2", 10)]);
    env.node_action("n2", NodeAction::Decommission, None);
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("app-a", "ds", 20).requires("n1")]);
    env.release("app-b", "v0", Termination::StoppedByRm);
    env.answer_all();
    gets_the_room_of_one(&mut env);
}

#[test]
fn nobody_goes_for_a_real_ask_whose_placeholder_is_there() {
    // R6.12: another one has its turn to be asked about first, and after that an ask that replaces nothing.
    let mut env = Env::calm(QUEUES);
    env.app("app-b", "root.b");
    env.gang("g", "root.a", 20, "Soft");
    for node in ["n1", "n2"] {
        env.node(node, 20);
        env.ask(vec![v(&format!("v-{node}"), 10).on(node)]);
    }
    env.apply(Command::AskPredicates(true));
    let asks = |make: fn(&str) -> Ask| -> Vec<Ask> { ["n1", "n2"].map(|node| make(node).requires(node)).into() };
    env.ask(asks(|node| Ask::new("g", &format!("p-{node}"), 10).placeholder(node)));
    env.answer_all();
    env.ask(asks(|node| Ask::new("g", &format!("r-{node}"), 10).group(node)));
    env.answer_all();
    assert!(env.unconfirmed.iter().all(|release| release.key.starts_with("p-")), "{:?}", env.unconfirmed);
    env.confirm_all();
    env.answer_all();
    let heard = env.heard();
    assert!(["new r-n1 on n1", "new r-n2 on n2"].iter().all(|new| heard.contains(&(*new).to_owned())), "{heard:?}");
}

#[test]
fn one_that_its_queue_held_preempts_when_the_queue_has_room() {
    // R5.40, R7.33: the cluster has none all the while.
    let mut env = Env::calm(&QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 20}}\n"));
    env.node("n1", 50);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.app("app-c", "root.a");
    env.ask(vec![Ask::new("app-a", "x1", 6), Ask::new("app-a", "x2", 9).priority(9)]);
    env.ask(vec![v("y1", 10), v("y2", 25).priority(9)]);
    env.ask(vec![Ask::new("app-c", "ds", 10).requires("n1")]);
    assert!(!env.heard().contains(&"released y1 Preempted".to_owned()));
    // Others come and go meanwhile.
    env.ask(vec![Ask::new("app-b", "y3", 40)]);
    env.release("app-b", "y3", Termination::StoppedByRm);
    env.release("app-a", "x1", Termination::StoppedByRm);
    assert!(env.heard().contains(&"released y1 Preempted".to_owned()), "{:?}", env.told);
    env.confirm_all();
    assert!(env.heard().contains(&"new ds on n1".to_owned()));
}

#[test]
fn free_room_counts_and_nobody_goes_needlessly() {
    // R7.36 mended
    let mut env = node_with(&[v("v0", 10), v("v1", 15)]);
    env.ask(vec![Ask::new("app-a", "ds", 15).requires("n1")]);
    assert_eq!(env.heard(), ["app-a Accepted", "released v0 Preempted"], "5 are free");
    let mut env = node_with(&[v("v0", 20), v("v1", 5), v("v2", 5)]);
    env.ask(vec![Ask::new("app-a", "ds", 20).requires("n1")]);
    assert_eq!(env.heard(), ["app-a Accepted", "released v0 Preempted"], "with v0 the small ones are not needed");
}

#[test]
fn without_victims_it_is_told_every_fifteen_seconds() {
    // R7.37, EVT-016, idea 193
    let mut env = node_with(&[v("high", 30).priority(9)]);
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    let told = |env: &Env| {
        let text = "Unschedulable request 'ds' with required node 'n1', no preemption victim found";
        env.events.iter().filter(|e| e.kind == EventKind::Request && &*e.message == text).count()
    };
    assert_eq!(told(&env), 1);
    env.pass(14);
    assert_eq!(told(&env), 1);
    env.pass(17);
    assert_eq!(told(&env), 3);
    assert!(env.log("app-a", "ds").contains(&"No fit on required node, preemption does not help".to_owned()));
    env.release("app-b", "high", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new ds on n1".to_owned()));
}

#[test]
fn it_preempts_again_when_the_room_went_elsewhere() {
    // R7.38 [DEFECT]: foreign work takes the room before the ask does.
    let mut env = node_with(&[v("v0", 10), v("v1", 10), v("v2", 10)]);
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    let mut foreign = Ask::new("", "foreign", 10).on("n1");
    foreign.spec.foreign = Some(Foreign::Default);
    env.ask(vec![foreign]);
    assert_eq!(env.heard(), ["app-a Accepted", "released v2 Preempted"], "not twice while a victim is on its way");
    let release = env.unconfirmed.remove(0);
    env.release("app-b", &release.key.clone(), release.termination);
    assert_eq!(env.heard(), ["released v1 Preempted"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-a Running", "new ds on n1"]);
}

#[test]
fn several_asks_of_one_node_preempt_for_each_of_them() {
    let mut env = node_with(&[v("v0", 10), v("v1", 10), v("v2", 10)]);
    env.ask((0..2).map(|n| Ask::new("app-a", &format!("ds{n}"), 10).requires("n1")).collect());
    assert_eq!(env.heard(), ["app-a Accepted", "released v2 Preempted", "released v1 Preempted"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-a Running", "new ds0 on n1", "new ds1 on n1"]);
}

#[test]
fn independent_of_the_partitions_flag_and_on_drained_nodes() {
    // R7.33, R5.42, idea 192
    let yaml = QUEUES.replace(
        "    queues:\n      - name: root",
        "    preemption: {enabled: false}\n    queues:\n      - name: root",
    );
    let mut env = Env::calm(&yaml);
    env.node("n1", 20);
    env.app("app-a", "root.a");
    env.ask(vec![Ask::new("app-a", "v0", 20)]);
    env.node("n2", 100);
    env.node_action("n1", NodeAction::Drain, None);
    env.heard();
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    assert_eq!(env.heard(), ["released v0 Preempted"]);
    env.confirm_all();
    assert!(env.heard().contains(&"new ds on n1".to_owned()));
}

#[test]
fn a_node_that_shrinks_below_the_ask_is_free_for_others() {
    // R5.44 [DEFECT], R2.29
    let mut env = node_with(&[v("high", 30).priority(9)]);
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    assert_eq!(env.partition.reservations, 1);
    env.node_action("n1", NodeAction::Update, Some(res(5, 5)));
    assert_eq!(env.partition.reservations, 0);
    env.node_action("n1", NodeAction::Update, Some(res(50, 50)));
    assert!(env.heard().contains(&"new ds on n1".to_owned()));
}

#[test]
fn while_victims_go_the_ask_waits_for_them_and_not_for_its_own_promise() {
    // The queue has room for the ask once, and that is promised to it; its shim is not told that the queue is full.
    let mut env = Env::calm(&tree("{name: a, resources: {max: {memory: 10}}}, {name: b}"));
    env.node("n1", 30);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![v("v0", 20), v("v1", 10)]);
    env.node("n2", 100);
    env.heard();
    env.ask(vec![Ask::new("app-a", "ds", 8).requires("n1"), Ask::new("app-a", "late", 8).requires("n1")]);
    assert_eq!(env.heard(), ["app-a Accepted", "released v1 Preempted"]);
    env.ask(vec![Ask::new("app-a", "later", 8).requires("n1")]);
    let told: Vec<_> = env.events.iter().filter(|event| event.message.contains("does not fit in queue")).collect();
    assert!(!told.is_empty(), "the others have no room");
    assert!(told.iter().all(|event| !event.message.contains("'ds'")), "{told:?}");
    let app = env.partition.app_by_id["app-a"];
    let mut explainer = Explainer::new(&env.partition);
    let why = |explainer: &mut Explainer<'_>, key: &str| explainer.ask(app, key, env.now).expect("it waits");
    let waiting = why(&mut explainer, "ds");
    let leaving = vec![("app-b".into(), "v1".into())];
    assert_eq!((waiting.asks, waiting.why), (1, Why::Preempting { node: "n1".into(), leaving, lacks: res(0, 0) }));
    let waiting = why(&mut explainer, "late");
    assert!(matches!(waiting.why, Why::QueueQuota { .. }), "{:?}", waiting.why);
    assert_eq!((waiting.asks, &*env.partition.allocs[waiting.first].spec.key), (2, "late"));
    let all: Vec<u64> = explainer.application(app, env.now).iter().map(|waiting| waiting.asks).collect();
    assert_eq!(all, [1, 2]);
    env.confirm_all();
    assert!(env.heard().contains(&"new ds on n1".to_owned()));
}

#[test]
fn a_full_cluster_keeps_nobody_from_preempting_on_the_node_that_it_requires() {
    // R5.40, R7.33 mended: where the last node is full, so is the cluster.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 50);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask((0..5).map(|n| v(&format!("v{n}"), 10)).collect());
    env.heard();
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1").priority(9)]);
    assert_eq!(env.heard(), ["app-a Accepted", "released v4 Preempted"]);
    assert!(env.log("app-a", "ds").iter().all(|line| line != "Not enough queue quota"));
    // What is promised is nobody else's.
    env.ask(vec![v("late", 10)]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-a Running", "new ds on n1"]);
    // A max of its queue is another matter, and so are the limits of its user.
    let mut env = Env::calm(&tree("{name: a, resources: {max: {memory: 5}}}, {name: b}"));
    env.node("n1", 50);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask((0..5).map(|n| v(&format!("v{n}"), 10)).collect());
    env.heard();
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1").priority(9)]);
    env.pass(20);
    assert_eq!((env.heard(), env.partition.reservations), (vec!["app-a Accepted".to_owned()], 0));
}

#[test]
fn who_goes_makes_room_in_the_cluster_too() {
    // R7.33: another node has more on it than it holds, and nobody goes for an ask that would not fit then.
    for (size, goes) in [(5, vec!["v0"]), (20, vec!["v0", "v1"]), (40, vec![])] {
        let mut env = Env::calm(QUEUES);
        env.node("n1", 20);
        env.app("app-a", "root.a");
        env.app("app-b", "root.b");
        env.ask(vec![v("v0", 10), v("v1", 10)]);
        env.node("n2", 40);
        env.ask(vec![v("big", 40)]);
        env.node_action("n2", NodeAction::Update, Some(res(40 - size + 5, 40 - size + 5)));
        env.heard();
        env.ask(vec![Ask::new("app-a", "ds", 5).requires("n1")]);
        let mut told = vec!["app-a Accepted".to_owned()];
        told.extend(goes.iter().rev().map(|key| format!("released {key} Preempted")));
        let mut heard = env.heard();
        heard.sort();
        told.sort();
        assert_eq!(heard.len(), told.len(), "{size}: {heard:?}");
        env.confirm_all();
        assert_eq!(env.heard().contains(&"new ds on n1".to_owned()), !goes.is_empty(), "{size}");
    }
}
