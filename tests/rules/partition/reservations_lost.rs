//! Reservations that end although their ask still waits, and such as are not to be made.

use callboard::domain::{
    command::{AddApplication, Command, NodeAction, PredicateTerms},
    effect::QuestionKind,
    partition::{Explainer, Why},
    types::Termination,
};

use super::env::{Ask, Env, QUEUES, res};

/// `nodes` nodes of 20, each with one allocation of 15 from the application `load` of bob in root.a.
fn full(yaml: &str, nodes: usize) -> Env {
    let mut env = Env::calm(yaml);
    env.add_app(AddApplication { id: "load".into(), queue: "root.a".into(), ..env.by("bob") });
    for at in 0..nodes {
        let node = format!("n{at:02}");
        env.node(&node, 20);
        env.ask(vec![Ask::new("load", &format!("s{at:02}"), 15).on(&node)]);
    }
    env
}

fn node_of(env: &Env, app: &str, key: &str) -> Option<String> {
    let node = env.partition.alloc(app, key)?.reserved?;
    Some(env.partition.nodes[node].spec.id.to_string())
}

/// Asks about reservations that are open: ask and node.
fn to_reserve(env: &Env) -> Vec<(String, String)> {
    let open = env.questions.iter().filter(|open| matches!(open.kind, QuestionKind::Fits { allocate: false }));
    open.map(|open| (open.key.to_string(), open.node.to_string())).collect()
}

fn asked_side_by_side(env: &mut Env) {
    env.apply(Command::PredicateTerms(PredicateTerms { constrained: false, nodes: 1, shared: false }));
    env.apply(Command::AskPredicates(true));
}

#[test]
fn who_loses_a_reservation_looks_for_another() {
    // R5.36, R5.38, R5.41: the node goes, or an ask that requires it takes it.
    for required in [false, true] {
        let mut env = full(QUEUES, 30);
        env.app("app-2", "root.b");
        env.ask(vec![Ask::new("app-2", "big", 10)]);
        env.pass(3);
        let node = node_of(&env, "app-2", "big").expect("a node");
        if required {
            env.app("daemons", "root.a");
            env.ask(vec![Ask::new("daemons", "d", 3).requires(&node)]);
        } else {
            env.node_action(&node, NodeAction::Decommission, None);
        }
        env.pass(3);
        assert!(node_of(&env, "app-2", "big").is_some(), "{required}");
    }
}

#[test]
fn a_free_node_is_kept_for_nobody_whom_a_limit_holds() {
    // R5.30, R5.38: others of its queue took the room there, or a reload left too little of it.
    let with = |max: u32| {
        QUEUES.replace("- name: b\n", &format!("- name: b\n            resources: {{max: {{memory: {max}}}}}\n"))
    };
    for reload in [false, true] {
        let mut env = full(&with(12), 2);
        env.app("app-2", "root.b");
        env.ask(vec![Ask::new("app-2", "big", 10)]);
        env.pass(3);
        let node = node_of(&env, "app-2", "big").expect("a node");
        if reload {
            env.reload(&with(9));
        } else {
            env.app("app-3", "root.b");
            env.ask(vec![Ask::new("app-3", "small", 5)]);
            assert_ne!(env.partition.alloc("app-3", "small").and_then(|row| row.node), None);
        }
        env.release("load", &node.replace('n', "s"), Termination::StoppedByRm);
        assert_eq!(node_of(&env, "app-2", "big"), None, "{reload}");
        env.heard();
        env.ask(vec![Ask::new("load", "other", 15)]);
        assert!(env.heard().contains(&format!("new other on {node}")), "{reload}");
    }
}

#[test]
fn a_node_without_room_is_kept_for_nobody_who_is_larger_than_a_new_limit() {
    // R5.30, R5.38: as above, but the node does not become free; others could use what is.
    let with = |max: u32| {
        QUEUES.replace("- name: b\n", &format!("- name: b\n            resources: {{max: {{memory: {max}}}}}\n"))
    };
    let mut env = full(&with(12), 2);
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-2", "big", 10)]);
    env.pass(3);
    assert_ne!(node_of(&env, "app-2", "big"), None);
    env.reload(&with(9));
    assert_eq!(node_of(&env, "app-2", "big"), None);
    // Both of them, without a node of its own choice.
    env.ask(vec![Ask::new("load", "one", 5), Ask::new("load", "two", 5)]);
    for key in ["one", "two"] {
        assert_ne!(env.partition.alloc("load", key).and_then(|row| row.node), None, "{key}");
    }
}

#[test]
fn what_requires_its_node_keeps_it_from_nobody_while_a_limit_holds_it() {
    // R5.40: a queue with room for one of its daemons, or a user who may run one application.
    let queue = QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 5}}\n");
    let user = "- name: a\n            limits: [{limit: l, users: [alice], maxapplications: 1}]\n";
    for yaml in [queue, QUEUES.replace("- name: a\n", user)] {
        let mut env = Env::calm(&yaml);
        env.app("full", "root.b");
        env.app("one", "root.a");
        env.app("two", "root.a");
        for n in 0..4 {
            let node = format!("n{n}");
            env.node(&node, 20);
            env.ask(vec![Ask::new("full", &format!("s{n}"), 20).priority(100).on(&node)]);
        }
        let daemon =
            |n: i32| Ask::new(if n == 0 { "one" } else { "two" }, &format!("d{n}"), 5).requires(&format!("n{n}"));
        env.ask((0..4).map(daemon).collect());
        assert_eq!(env.partition.reservations, 4, "{yaml}");
        env.heard();
        env.release("full", "s0", Termination::StoppedByRm);
        assert_eq!((env.partition.reservations, env.partition.allocations), (0, 4), "{yaml}");
        for n in 1..4 {
            env.release("full", &format!("s{n}"), Termination::StoppedByRm);
        }
        assert_eq!((env.partition.reservations, env.partition.allocations), (0, 1), "{yaml}");
        env.ask((0..3).map(|n| Ask::new("full", &format!("o{n}"), 20)).collect());
        assert_eq!(env.partition.allocations, 4, "the nodes are open to others");
        // When there is room they are tried again.
        env.release("one", "d0", Termination::StoppedByRm);
        env.remove_app("one");
        env.release("full", "o0", Termination::StoppedByRm);
        assert_eq!(env.partition.allocations, 3);
        env.end(&["two", "full"]);
    }
}

/// A user who may run one application, and a leaf that may.
fn limited() -> String {
    let user = "submitacl: \"*\"\n        limits: [{limit: l, users: [alice], maxapplications: 1}]\n";
    let yaml = QUEUES.replace("submitacl: \"*\"\n", user);
    yaml.replace("- name: b\n", "- name: b\n            maxapplications: 1\n")
}

#[test]
fn one_that_may_not_begin_any_more_keeps_no_node() {
    // R5.38, R3.52, QUE-090: nor a place among the applications of its queue.
    let mut env = full(&limited(), 20);
    env.app("one", "root.b");
    env.ask(vec![Ask::new("one", "big", 10)]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    env.add_app(AddApplication { id: "carols".into(), queue: "root.b".into(), ..env.by("carol") });
    env.ask(vec![Ask::new("carols", "k", 1)]);
    let waiting = Explainer::new(&env.partition).application(env.partition.app_by_id["carols"], env.now);
    assert!(matches!(&waiting[0].why, Why::RunningApps { running: 1, max: 1, .. }), "{waiting:?}");
    let holders = env.partition.holders(&waiting[0]).expect("somebody holds it");
    assert_eq!((&*holders.applications[0].name, holders.total), ("one", 1));
    // Another application of its user begins.
    env.app("two", "root.a");
    env.heard();
    env.ask(vec![Ask::new("two", "first", 1)]);
    assert!(env.heard().contains(&"new k on n00".to_owned()));
    assert_eq!(env.partition.reservations, 0);
    env.pass(250);
    assert_eq!(env.partition.reservations, 0, "it gets none as long as it may not begin");
    env.release("two", "first", Termination::StoppedByRm);
    env.remove_app("two");
    env.remove_app("carols");
    env.ask(vec![Ask::new("one", "more", 10)]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
}

#[test]
fn one_that_withdraws_all_lets_the_next_of_its_user_begin() {
    // SEEDS S35, UGM-041: it counts for its user, and for its queue no more, since it lost its reservation.
    let yaml = QUEUES
        .replace("- name: a\n", "- name: a\n            limits: [{limit: l, users: [alice], maxapplications: 1}]\n");
    let mut env = Env::calm(&yaml);
    env.node("n1", 100);
    env.node("n2", 60);
    env.app("one", "root.a");
    env.app("two", "root.a");
    env.app("other", "root.b");
    env.ask(vec![Ask::new("one", "ph", 5).placeholder("tg").on("n2")]);
    env.ask(vec![Ask::new("other", "f", 20).on("n1"), Ask::new("other", "g", 45).on("n2")]);
    env.ask(vec![Ask::new("one", "big", 90), Ask::new("two", "k", 10)]);
    env.release("one", "ph", Termination::StoppedByRm);
    env.pass(3);
    assert_eq!(node_of(&env, "one", "big").as_deref(), Some("n1"));
    env.node_action("n1", NodeAction::Drain, None);
    assert_eq!(env.partition.reservations, 0);
    env.heard();
    env.release("one", "big", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new k on n2".to_owned()), "{:?}", env.told);
}

#[test]
fn one_that_may_not_begin_reserves_none() {
    // R5.23, R5.36
    let mut env = full(&limited(), 20);
    env.app("one", "root.b");
    env.ask(vec![Ask::new("one", "big", 10)]);
    env.app("two", "root.a");
    env.ask(vec![Ask::new("two", "first", 1)]);
    env.pass(700);
    assert_eq!(env.partition.reservations, 0);
}

#[test]
fn what_is_only_asked_about_ends_no_reservation() {
    // R5.27, R5.38: the shim may refuse it.
    for refused in [true, false] {
        let mut env = full(&limited(), 20);
        asked_side_by_side(&mut env);
        env.app("one", "root.b");
        env.ask(vec![Ask::new("one", "big", 10)]);
        env.pass(3);
        env.answer_all();
        assert_eq!(env.partition.reservations, 1);
        env.app("two", "root.a");
        env.ask(vec![Ask::new("two", "first", 1)]);
        let about: Vec<&str> = env.questions.iter().map(|open| &*open.key).collect();
        assert_eq!((about, env.partition.reservations), (vec!["first"], 1));
        if refused {
            let node = env.questions[0].node.to_string();
            env.refuse("first", &node);
        }
        env.answer_one();
        assert_eq!(env.partition.reservations, u64::from(refused));
    }
}

#[test]
fn sizes_that_no_node_can_hold_keep_nobody_from_a_reservation() {
    // R5.36: they wait longer, and there are more of them than a search looks at.
    for (asked, draining) in [(false, false), (true, false), (false, true)] {
        let mut env = full(QUEUES, 20);
        if asked {
            asked_side_by_side(&mut env);
        }
        if draining {
            env.node("huge", 100);
            env.node_action("huge", NodeAction::Drain, None);
        }
        env.app("huge", "root.a");
        env.ask((0..12).map(|n| Ask::new("huge", &format!("h{n}"), if asked { 21 } else { 21 + n })).collect());
        env.pass(1);
        env.app("app-2", "root.b");
        env.ask(vec![Ask::new("app-2", "big", 10)]);
        env.pass(5);
        env.answer_all();
        assert!(node_of(&env, "app-2", "big").is_some(), "{asked} {draining}");
        // One of them can be helped from now on.
        if draining {
            env.node_action("huge", NodeAction::DrainToSchedulable, None);
            continue;
        }
        let node =
            (0..20).map(|at| format!("n{at:02}")).find(|node| node_of(&env, "app-2", "big").as_ref() != Some(node));
        let node = node.expect("another node");
        env.node_action(&node, NodeAction::Update, Some(res(30, 30)));
        env.pass(5);
        env.answer_all();
        let reserved = (0..12).filter_map(|n| node_of(&env, "huge", &format!("h{n}"))).collect::<Vec<_>>();
        assert_eq!(reserved, [node], "{asked}");
    }
}

#[test]
fn answers_reserve_no_more_than_the_bounds_allow() {
    // R5.36: two of twenty nodes, one of them for a leaf, and not the same.
    let mut env = full(QUEUES, 20);
    asked_side_by_side(&mut env);
    for (app, queue) in [("app-2", "root.a"), ("app-3", "root.b")] {
        env.app(app, queue);
        env.ask((0..15).map(|n| Ask::new(app, &format!("{app}-{n:02}"), 10)).collect());
    }
    env.pass(3);
    // One question for a node at a time; how many may reserve one is decided by the answers.
    let mut nodes: Vec<_> = to_reserve(&env).into_iter().map(|(_, node)| node).collect();
    nodes.sort();
    let asked = nodes.len();
    nodes.dedup();
    assert!(asked == nodes.len() && asked <= 20, "{nodes:?}");
    env.answer_all();
    assert_eq!(env.partition.reservations, 2);
    assert!(env.partition.nodes.values().all(|node| node.reservations.len() <= 1));
}

#[test]
fn what_was_asked_about_before_reservations_were_switched_off_reserves_nothing() {
    // R5.37
    let mut env = full(QUEUES, 20);
    asked_side_by_side(&mut env);
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-2", "big", 10)]);
    env.pass(3);
    assert_eq!(to_reserve(&env).len(), 1);
    env.apply(Command::Reservations(false));
    env.run();
    env.answer_all();
    env.pass(3);
    assert_eq!((env.partition.reservations, env.questions.len()), (0, 0));
}

#[test]
fn what_comes_and_goes_while_nothing_can_be_placed_leaves_nothing_behind() {
    let mut env = full(QUEUES, 3);
    env.apply(Command::Reservations(false));
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-2", "base", 9)]);
    for n in 0..50 {
        env.ask(vec![Ask::new("app-2", "comes", 7 + n % 5)]);
        env.release("app-2", "comes", Termination::StoppedByRm);
    }
    let partition = &env.partition;
    let (app, queue) = (partition.app_by_id["app-2"], partition.queue_by_path["root.b"]);
    let root = &partition.queues[partition.root];
    let (groups, apps) = (partition.apps[app].blocked_groups.len(), partition.queues[queue].blocked_apps.len());
    assert!(groups <= 1 && apps <= 1 && root.blocked_children.len() <= 2, "{groups} {apps} {root:?}");
}

#[test]
fn a_part_of_a_gang_that_others_left_no_room_for_holds_no_node() {
    // SEEDS S11, R5.38: what waits for room for all of its gang reserves nothing, also where the room went later.
    let yaml = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: \"*\"\n        queues:\n          - name: a\n            resources: {max: {memory: 32}}\n          - name: b\n";
    let mut env = Env::calm(yaml);
    for (node, size) in [("n0", 23), ("n2", 46)] {
        env.node(node, size);
    }
    env.app("other", "root.b");
    env.ask(vec![Ask::new("other", "k1", 14).on("n0"), Ask::new("other", "k2", 23).on("n2")]);
    env.gang("gang", "root.a", 24, "Soft");
    env.ask(vec![Ask::new("gang", "p0", 24).placeholder("tg")]);
    env.pass(5);
    assert_eq!(env.partition.reservations, 1);
    env.app("small", "root.b");
    env.ask(vec![Ask::new("small", "s1", 2)]);
    env.ask(vec![Ask::new("small", "s2", 2)]);
    assert_eq!(env.partition.reservations, 1, "it holds what it needs");
    // Nine of 32 are used, and 24 do not fit any more.
    env.app("late", "root.a");
    env.ask(vec![Ask::new("late", "l1", 5)]);
    assert_eq!(env.partition.reservations, 1);
    env.ask(vec![Ask::new("late", "l2", 4).on("n2")]);
    assert_eq!(env.partition.reservations, 0);
    env.heard();
    env.ask(vec![Ask::new("small", "s3", 3)]);
    assert_eq!(env.heard(), ["new s3 on n2"]);
}
