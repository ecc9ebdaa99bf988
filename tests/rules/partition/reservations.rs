//! Reservations of asks that wait: how many, of which node, for how long, and what they leave to others.

use callboard::domain::{
    command::{AddApplication, Command, NodeAction},
    partition::{Explainer, KeptFor, Why},
    types::{AppState, Termination},
};

use super::env::{Ask, Env, QUEUES, res};

/// `nodes` nodes of 20, each with one allocation of 15 from app-1 in root.a.
fn full(nodes: usize) -> Env {
    let mut env = Env::new(QUEUES);
    env.app("app-1", "root.a");
    for at in 0..nodes {
        env.node(&format!("n{at:02}"), 20);
        env.ask(vec![Ask::new("app-1", &format!("s{at:02}"), 15)]);
    }
    env
}

#[test]
fn one_node_in_ten_is_reserved_and_one_in_twenty_for_a_queue() {
    // R5.36
    let mut env = full(30);
    env.app("app-2", "root.a");
    env.ask((0..9).map(|at| Ask::new("app-2", &format!("a{at}"), 10)).collect());
    env.pass(3);
    assert_eq!(env.partition.reservations, 2);
    env.app("app-3", "root.b");
    env.ask((0..9).map(|at| Ask::new("app-3", &format!("b{at}"), 10)).collect());
    env.pass(3);
    assert_eq!(env.partition.reservations, 3);
    // Other asks use the rest of the cluster.
    env.heard();
    env.ask((0..27).map(|at| Ask::new("app-1", &format!("t{at}"), 5)).collect());
    assert_eq!(env.heard().iter().filter(|told| told.starts_with("new t")).count(), 27);
}

#[test]
fn a_reserved_ask_that_is_larger_than_most_overtakes_nobody_on_another_node() {
    // R5.32: its reservation is for its own node.
    for (others, placed) in [(6, ["o0", "o1", "o2"].as_slice()), (16, ["large"].as_slice())] {
        let mut env = full(2);
        env.app("app-2", "root.a");
        env.ask(vec![Ask::new("app-2", "large", 10)]);
        env.pass(3);
        let reserved = env.partition.nodes.values().find(|node| !node.reservations.is_empty());
        let reserved = reserved.expect("a node is reserved").spec.id.to_string();
        env.ask((0..3).map(|at| Ask::new("app-1", &format!("o{at}"), others)).collect());
        env.heard();
        env.node("n02", 20);
        let is_placed = |app: &str, key: &str| env.partition.alloc(app, key).is_some_and(|row| row.is_allocated());
        let asks = [("app-2", "large"), ("app-1", "o0"), ("app-1", "o1"), ("app-1", "o2")];
        let found: Vec<_> = asks.iter().filter(|(app, key)| is_placed(app, key)).map(|(_, key)| *key).collect();
        assert_eq!(found, placed, "{others}");
        env.heard();
        env.release("app-1", &reserved.replace('n', "s"), Termination::StoppedByRm);
        let heard = env.heard().contains(&format!("new large on {reserved}"));
        assert_eq!(heard, others == 6);
    }
}

#[test]
fn who_waits_for_a_reserved_node_is_told_whose_it_is() {
    // R5.36: the room of 5 on one of five nodes is kept for the ask of 10.
    let mut env = full(5);
    env.app("app-2", "root.a");
    env.ask(vec![Ask::new("app-2", "large", 10)]);
    env.pass(3);
    let reserved: Vec<_> =
        env.partition.nodes.values().filter(|n| !n.reservations.is_empty()).map(|n| n.spec.id.clone()).collect();
    env.app("app-3", "root.b");
    env.ask((0..5).map(|at| Ask::new("app-3", &format!("small-{at}"), 5)).collect());
    let found = Explainer::new(&env.partition).application(env.partition.app_by_id["app-3"], env.now);
    let [Why::Nodes(nodes)] = &found.iter().map(|waiting| waiting.why.clone()).collect::<Vec<_>>()[..] else {
        panic!("{found:?}")
    };
    let kept = KeptFor { node: reserved[0].clone(), app: "app-2".into(), key: "large".into() };
    assert_eq!((nodes.reserved, &nodes.kept_for), (1, &Some(kept)));
}

#[test]
fn a_reservation_that_ends_makes_room_for_another() {
    // R5.36: the one that waits longest is next.
    let mut env = full(5);
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-2", "k1", 10)]);
    env.pass(1);
    env.ask(vec![Ask::new("app-2", "k2", 11)]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    env.release("app-2", "k1", Termination::StoppedByRm);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    assert!(env.partition.nodes.values().any(|node| !node.reservations.is_empty()));
}

#[test]
fn what_has_run_for_long_is_not_waited_for() {
    // R5.34: s00 and s01 are old, s02 is young: its node is expected first.
    let mut env = full(2);
    env.pass(2 * 3600);
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-2", "k1", 10)]);
    env.pass(60);
    assert_eq!(env.partition.reservations, 0);
    env.node("n02", 20);
    env.heard();
    env.pass(1);
    // The new node had room at once; of two nodes the younger is reserved.
    env.ask(vec![Ask::new("app-2", "k2", 12)]);
    env.pass(3);
    let reserved: Vec<String> =
        env.partition.nodes.values().filter(|n| !n.reservations.is_empty()).map(|n| n.id().to_string()).collect();
    assert_eq!(reserved, ["n02"]);
    // R5.38: after half an hour that node is no better than the others, and is open again.
    env.pass(3600);
    assert_eq!(env.partition.reservations, 0);
}

#[test]
fn what_the_ask_does_not_need_stays_open() {
    // R5.36, R2.36
    let mut env = Env::new(QUEUES);
    env.apply_node("n1", &[("memory", 100), ("vcore", 20)]);
    env.apply_node("n2", &[("memory", 1), ("vcore", 20)]);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "s", 0).sized(res(10, 15))]);
    env.ask(vec![Ask::new("app-1", "big", 0).sized(res(20, 10))]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    env.heard();
    // Of 90 memory that are free the reservation wants 20, of 5 vcore all.
    env.ask(vec![Ask::new("app-1", "wide", 0).sized(res(70, 0))]);
    assert_eq!(env.heard(), ["new wide on n1"]);
    env.ask(vec![Ask::new("app-1", "vcore", 0).sized(res(2, 1))]);
    env.ask(vec![Ask::new("app-1", "memory", 0).sized(res(15, 0))]);
    assert_eq!(env.heard(), Vec::<String>::new());
    env.release("app-1", "s", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new big on n1".to_owned()));
}

#[test]
fn reservations_that_are_switched_off_end() {
    // R5.37: what is kept for who waits is open to others at once; nothing else is kept.
    let mut env = full(20);
    env.app("big", "root.b");
    env.ask(vec![Ask::new("big", "k", 10)]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    env.apply(Command::Reservations(false));
    env.run();
    assert_eq!(env.partition.reservations, 0);
    env.pass(250);
    assert_eq!(env.partition.reservations, 0);
    env.apply(Command::Reservations(true));
    env.run();
    env.pass(3);
    assert_eq!(env.partition.reservations, 1, "and on again");
}

#[test]
fn how_long_a_node_takes_goes_by_age_whatever_has_left_it() {
    // R5.34: nA, where the youngest covers what is missing.
    for gone in [false, true] {
        let mut env = Env::calm(QUEUES);
        for node in ["nA", "nC", "nD"] {
            env.node(node, 100);
        }
        env.app("x", "root.a");
        if gone {
            env.ask(vec![Ask::new("x", "z", 5).on("nA")]);
        }
        env.ask(vec![Ask::new("x", "a", 40).on("nA"), Ask::new("x", "d", 80).on("nD")]);
        env.pass(6);
        env.ask(vec![Ask::new("x", "c", 80).on("nC")]);
        env.pass(6);
        env.ask(vec![Ask::new("x", "b", 40).on("nA")]);
        if gone {
            env.release("x", "z", Termination::StoppedByRm);
        }
        env.app("big", "root.b");
        env.ask(vec![Ask::new("big", "B", 60)]);
        env.pass(4);
        let reserved = env.partition.alloc("big", "B").expect("waits").reserved.expect("a node");
        assert_eq!(&*env.partition.nodes[reserved].spec.id, "nA", "{gone}");
    }
}

fn reserved(env: &Env) -> Vec<String> {
    env.partition.nodes.values().filter(|n| !n.reservations.is_empty()).map(|n| n.id().to_string()).collect()
}

#[test]
fn an_ask_that_loses_its_node_reserves_another() {
    // R5.36, R5.41
    for cause in ["removed", "required", "drained"] {
        let mut env = full(30);
        env.app("app-2", "root.b");
        env.ask(vec![Ask::new("app-2", "big", 10)]);
        env.pass(3);
        let node = reserved(&env).remove(0);
        match cause {
            "removed" => env.node_action(&node, NodeAction::Decommission, None),
            "drained" => env.node_action(&node, NodeAction::Drain, None),
            _ => {
                env.app("app-3", "root.a");
                env.ask(vec![Ask::new("app-3", "daemon", 7).requires(&node)]);
                env.release("app-3", "daemon", Termination::StoppedByRm);
            }
        }
        env.pass(5);
        let now = reserved(&env);
        assert!(now.len() == 1 && (cause == "required" || now[0] != node), "{cause}: {now:?}");
    }
}

#[test]
fn asks_that_can_have_no_node_keep_no_other_from_reserving() {
    // R5.36: the size of what is looked at in one search is bounded, not that of all of them.
    for shim in [false, true] {
        let mut env = full(20);
        env.apply(Command::AskPredicates(shim));
        env.app("app-2", "root.a");
        env.ask((0..30).map(|at| Ask::new("app-2", &format!("k{at}"), 21 + at)).collect());
        env.pass(1);
        env.app("app-3", "root.b");
        env.ask(vec![Ask::new("app-3", "big", 10)]);
        for _ in 0..10 {
            env.pass(1);
            env.answer_all();
        }
        assert_eq!(reserved(&env).len(), 1, "the shim is asked: {shim}");
    }
}

#[test]
fn what_the_shim_agrees_to_is_bounded_as_reservations_are() {
    // R5.36: one node in twenty for a queue, one ask for a node.
    let mut env = full(20);
    env.apply(Command::AskPredicates(true));
    env.app("app-2", "root.b");
    env.ask((0..9).map(|at| Ask::new("app-2", &format!("k{at}"), 10)).collect());
    env.pass(5);
    env.answer_all();
    env.pass(5);
    assert_eq!((env.partition.reservations, env.questions.len()), (1, 0));
    // Nothing is reserved any more when the answer comes.
    let holds = env.partition.allocs.values().find(|row| row.reserved.is_some()).expect("one").spec.key.clone();
    env.release("app-2", &holds, Termination::StoppedByRm);
    env.pass(5);
    assert!(env.partition.reservations == 0 && !env.questions.is_empty());
    env.apply(Command::Reservations(false));
    env.answer_all();
    assert_eq!(env.partition.reservations, 0);
}

#[test]
fn an_application_that_may_not_begin_keeps_no_node() {
    // R5.30, UGM-033
    let limit = "        submitacl: \"*\"\n        limits: [{limit: l, users: ['*'], maxapplications: 1}]\n";
    let mut env = Env::new(&QUEUES.replacen("        submitacl: \"*\"\n", limit, 1));
    for at in 0..20 {
        env.node(&format!("n{at:02}"), 20);
    }
    env.app("app-1", "root.a");
    env.ask((0..20).map(|at| Ask::new("app-1", &format!("s{at:02}"), 15)).collect());
    env.add_app(AddApplication { id: "bob-1".into(), queue: "root.b".into(), user: "bob".into(), ..env.by("bob") });
    env.ask(vec![Ask::new("bob-1", "big", 10)]);
    env.pass(3);
    let node = reserved(&env).remove(0);
    env.add_app(AddApplication { id: "bob-2".into(), queue: "root.b".into(), user: "bob".into(), ..env.by("bob") });
    env.ask(vec![Ask::new("bob-2", "small", 1)]);
    assert_eq!(env.state("bob-2"), Some(AppState::Running));
    // The node has room, and the ask that has it may not use it.
    let at = env.partition.node_by_id[&*node];
    let key = env.partition.allocs[env.partition.nodes[at].allocs[0]].spec.key.clone();
    env.release("app-1", &key, Termination::StoppedByRm);
    assert_eq!(env.partition.reservations, 0);
    env.ask(vec![Ask::new("app-1", "other", 18)]);
    env.pass(10);
    assert_eq!((env.partition.reservations, env.log("bob-1", "big").is_empty()), (0, false));
    assert!(env.heard().contains(&format!("new other on {node}")));
}

#[test]
fn who_may_go_elsewhere_does_not_depend_on_what_went_before() {
    // R5.32: it is no larger than what waits on the average.
    for before in [0, 50] {
        let mut env = full(2);
        env.node("n9", 1_000);
        env.app("app-0", "root.b");
        env.ask((0..before).map(|n| Ask::new("app-0", &format!("k{n}"), 1)).collect());
        env.remove_app("app-0");
        env.node_action("n9", NodeAction::Decommission, None);
        env.app("app-2", "root.a");
        env.ask(vec![Ask::new("app-2", "large", 10)]);
        env.pass(3);
        assert_eq!(env.partition.reservations, 1);
        env.ask((0..3).map(|at| Ask::new("app-1", &format!("larger{at}"), 16)).collect());
        env.heard();
        env.node("n02", 20);
        assert!(env.heard().contains(&"new large on n02".to_owned()), "{before}");
    }
}
