//! What a refusal of the shim, or a drain while it thinks, does to reservations and questions.

use callboard::domain::command::{AddApplication, Command, NodeAction};

use super::env::{Ask, Env, QUEUES, res};

fn keys(env: &Env) -> Vec<String> {
    env.questions.iter().map(|question| format!("{} on {}", question.key, question.node)).collect()
}

#[test]
fn a_reservation_of_a_node_that_the_shim_refuses_ends() {
    // R5.31, R5.38
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    env.app("app-2", "root.b");
    env.node("n1", 10);
    env.ask(vec![Ask::new("app-1", "s1", 6)]);
    env.answer_all();
    env.node("n2", 7);
    env.ask(vec![Ask::new("app-2", "big", 9)]);
    env.pass(5);
    env.answer_all();
    assert_eq!(env.partition.reservations, 1);
    env.refuse("big", "n1");
    env.release("app-1", "s1", callboard::domain::types::Termination::StoppedByRm);
    assert_eq!(keys(&env), ["big on n1"]);
    env.answer_all();
    assert_eq!(env.partition.reservations, 0, "it does not help");
    env.ask(vec![Ask::new("app-1", "other", 8)]);
    env.answer_all();
    assert!(env.heard().contains(&"new other on n1".to_owned()));
    env.pass(7200);
    env.answer_all();
    assert_eq!(env.partition.reservations, 0);
}

#[test]
fn a_required_node_that_the_shim_refuses_is_open_to_others() {
    // R5.42, R5.43
    for full_at_first in [false, true] {
        let mut env = Env::calm(QUEUES);
        env.apply(Command::AskPredicates(true));
        env.app("app-1", "root.a");
        env.app("app-2", "root.b");
        env.node("n1", 10);
        env.refuse("daemon", "n1");
        if full_at_first {
            env.ask(vec![Ask::new("app-2", "full", 10)]);
            env.answer_all();
        }
        env.ask(vec![Ask::new("app-1", "daemon", 2).requires("n1")]);
        assert_eq!(env.partition.reservations, u64::from(full_at_first));
        if full_at_first {
            env.release("app-2", "full", callboard::domain::types::Termination::StoppedByRm);
        }
        env.answer_all();
        assert_eq!(env.partition.reservations, 0);
        env.ask(vec![Ask::new("app-2", "other", 3)]);
        env.answer_all();
        assert!(env.heard().contains(&"new other on n1".to_owned()), "{:?}", env.told);
        // Something came there: it is asked about again, and refused again.
        env.pass(40);
        env.answer_all();
        assert_eq!(env.partition.reservations, 0);
        // The node changes, and the shim agrees.
        env.refusals.clear();
        env.node_action("n1", NodeAction::Update, Some(res(10, 10)));
        env.answer_all();
        assert!(env.heard().contains(&"new daemon on n1".to_owned()), "{:?}", env.told);
    }
}

#[test]
fn a_required_node_that_the_shim_refuses_is_reserved_by_others() {
    // R5.41, R5.43
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    env.app("app-2", "root.b");
    env.node("n1", 10);
    env.ask(vec![Ask::new("app-1", "s1", 6)]);
    env.answer_all();
    env.node("n2", 7);
    env.refuse("daemon", "n1");
    env.ask(vec![Ask::new("app-1", "daemon", 2).requires("n1")]);
    env.answer_all();
    env.ask(vec![Ask::new("app-2", "big", 9)]);
    env.pass(5);
    env.answer_all();
    assert_eq!(env.partition.reservations, 1);
    // All are tried again, with nothing new of the node.
    env.node("n3", 1);
    assert_eq!((env.partition.reservations, keys(&env)), (1, Vec::new()));
    // One that the shim does not refuse ends it.
    env.ask(vec![Ask::new("app-1", "second", 2).requires("n1")]);
    env.answer_all();
    assert!(env.heard().contains(&"new second on n1".to_owned()), "{:?}", env.told);
}

#[test]
fn the_shim_is_asked_again_about_a_node_when_something_goes_there() {
    // R5.27: at once, also about the only node that an ask requires, and about that of a placeholder.
    for required in [true, false] {
        let mut env = Env::calm(QUEUES);
        env.apply(Command::AskPredicates(true));
        env.node("n1", 4);
        env.app("app-1", "root.b");
        env.ask(vec![Ask::new("app-1", "other", 1).on("n1")]);
        env.refuse("k1", "n1");
        if required {
            env.ask(vec![Ask::new("app-1", "k1", 3).requires("n1").unconstrained()]);
        } else {
            env.gang("gang", "root.a", 3, "Soft");
            env.ask(vec![Ask::new("gang", "p1", 3).placeholder("tg").unconstrained()]);
            env.answer_all();
            env.ask(vec![Ask::new("gang", "k1", 3).group("tg").unconstrained()]);
        }
        env.answer_all();
        env.refusals.clear();
        env.pass(4);
        assert_eq!(keys(&env), [""; 0]);
        env.release("app-1", "other", callboard::domain::types::Termination::StoppedByRm);
        assert_eq!(keys(&env), ["k1 on n1"]);
        env.answer_all();
        env.confirm_all();
        assert!(env.heard().contains(&"new k1 on n1".to_owned()), "{:?}", env.told);
    }
}

#[test]
fn a_shim_that_changes_its_mind_is_asked_again_about_a_required_node() {
    // R5.27: without a word of the node.
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    env.node("n1", 10);
    env.refuse("daemon", "n1");
    env.ask(vec![Ask::new("app-1", "daemon", 2).requires("n1")]);
    env.answer_all();
    env.refusals.clear();
    env.pass(31);
    env.answer_all();
    assert!(env.heard().contains(&"new daemon on n1".to_owned()), "{:?}", env.told);
}

#[test]
fn one_that_gets_a_new_node_is_no_reason_to_ask_about_the_others_everywhere() {
    // R5.27: all were asked about anew in vain before.
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    env.node("n1", 9);
    ["a", "b", "c"].iter().for_each(|key| env.refuse(key, "n1"));
    env.ask(["a", "b", "c"].iter().map(|key| Ask::new("app-1", key, 1)).collect());
    env.answer_all();
    env.pass(31);
    assert!(!env.questions.is_empty());
    env.answer_all();
    env.node("n2", 1);
    while !env.questions.is_empty() {
        assert!(keys(&env).iter().all(|key| key.ends_with(" on n2")), "{:?}", keys(&env));
        env.answer_one();
    }
    assert_eq!(env.partition.allocations, 1);
}

#[test]
fn what_only_the_shim_sees_is_found_out_by_one_ask_for_all() {
    // R5.27: a taint that was there for long goes, and no update tells of it.
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    let second = |env: &mut Env| {
        env.pass(1);
        env.answer_all();
    };
    for node in ["n1", "n2"] {
        env.node(node, 2);
        ["a", "b", "c"].iter().for_each(|key| env.refuse(key, node));
    }
    env.ask(["a", "b", "c"].iter().map(|key| Ask::new("app-1", key, 1)).collect());
    env.answer_all();
    (0..300).for_each(|_| second(&mut env));
    assert_eq!(env.partition.allocations, 0);
    env.refusals.clear();
    (0..31).for_each(|_| second(&mut env));
    assert_eq!(env.partition.allocations, 3);
}

/// Which ask was asked about next, twenty times.
fn turns(env: &mut Env) -> Vec<String> {
    (0..20)
        .map(|_| {
            let key = env.questions.first().map(|question| question.key.to_string()).unwrap_or_default();
            env.answer_one();
            key
        })
        .collect()
}

#[test]
fn asks_in_vain_leave_others_their_turn() {
    // R5.10, R5.27: of another queue, and of another application of the queue.
    for (queue, user) in [("root.b", "bob"), ("root.a", "bob"), ("root.a", "alice")] {
        let mut env = Env::calm(QUEUES);
        env.apply(Command::AskPredicates(true));
        env.node("n1", 100);
        env.app("vain", "root.a");
        env.add_app(AddApplication { id: "other".into(), queue: queue.into(), ..env.by(user) });
        for n in 0..40 {
            env.refuse(&format!("x{n}"), "n1");
        }
        // So that the order of queues and applications has the others after it.
        env.ask(vec![Ask::new("other", "first", 50)]);
        env.answer_all();
        env.ask((0..40).map(|n| Ask::new("vain", &format!("x{n}"), 1)).collect());
        env.ask((0..3).map(|n| Ask::new("other", &format!("o{n}"), 1)).collect());
        let turns = turns(&mut env);
        let others = turns.iter().filter(|key| key.starts_with('o')).count();
        assert!(others == 3 && turns[..6].iter().filter(|key| key.starts_with('x')).count() >= 3, "{turns:?}");
        env.answer_all();
        assert_eq!(env.partition.allocations, 4);
    }
}

#[test]
fn a_refused_ask_gives_what_is_lower_nothing_that_those_behind_it_could_have() {
    // R5.10, R5.20, R5.24, R5.27: in one application, in two of one queue, and in two queues; all room at once, and piece by piece.
    for (bad, good, low) in
        [(1, "high", "root.b"), (1, "beside", "root.b"), (1, "high", "root.a"), (9, "high", "root.b")]
    {
        for piece_by_piece in [false, true] {
            let mut env = Env::calm(QUEUES);
            env.apply(Command::AskPredicates(true));
            for (app, queue) in [("high", "root.a"), ("beside", "root.a"), ("low", low)] {
                env.add_app(AddApplication { id: app.into(), queue: queue.into(), ..env.by("bob") });
            }
            for n in 0..bad {
                env.refuse(&format!("bad{n}"), "n1");
            }
            env.node("n1", 10);
            if piece_by_piece {
                env.ask((0..5).map(|n| Ask::new("low", &format!("before{n}"), 2)).collect());
                env.answer_all();
            }
            let ask = |app: &str, key: String, priority| Ask::new(app, &key, 2).priority(priority);
            env.ask((0..bad).map(|n| ask("high", format!("bad{n}"), 5)).collect());
            env.ask((0..10).map(|n| ask(good, format!("ok{n}"), 5)).collect());
            env.ask((0..10).map(|n| ask("low", format!("low{n}"), 1)).collect());
            env.answer_all();
            for n in 0..if piece_by_piece { 5 } else { 0 } {
                env.release("low", &format!("before{n}"), callboard::domain::types::Termination::StoppedByRm);
                env.answer_all();
            }
            let heard = env.heard();
            let placed = |kind: &str| heard.iter().filter(|line| line.starts_with(&format!("new {kind}"))).count();
            // After eight in a row that are refused the others have a turn.
            let least = if bad == 1 { 5 } else { 4 };
            let (ok, low) = (placed("ok"), placed("low"));
            assert!(ok >= least && ok + low == 5, "{bad} {good} {piece_by_piece}: {heard:?}");
        }
    }
}

#[test]
fn asks_that_take_no_turns_have_nobody_give_way() {
    // R5.10, R5.27: the shim is asked about unconstrained ones side by side, however many are refused.
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("high", "root.a");
    env.add_app(AddApplication { id: "low".into(), queue: "root.b".into(), ..env.by("bob") });
    let ask = |app: &str, key: String, priority| Ask::new(app, &key, 1).priority(priority).unconstrained();
    env.node("n1", 20);
    for n in 0..30 {
        env.refuse(&format!("bad{n}"), "n1");
    }
    let bad = (0..30).map(|n| ask("high", format!("bad{n}"), 5));
    let others = (0..40).flat_map(|n| [ask("low", format!("low{n}"), 1), ask("high", format!("ok{n}"), 5)]);
    env.ask(bad.chain(others).collect());
    env.answer_all();
    for n in 0..10 {
        env.release("high", &format!("ok{n}"), callboard::domain::types::Termination::StoppedByRm);
        env.answer_all();
    }
    let heard = env.heard();
    assert_eq!(heard.iter().filter(|line| line.starts_with("new ok")).count(), 30, "{heard:?}");
}

#[test]
fn an_ask_that_is_refused_on_one_node_is_asked_about_on_the_next() {
    // R5.20, R5.27: before those behind it have their turn, in its application and elsewhere.
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("high", "root.a");
    env.add_app(AddApplication { id: "low".into(), queue: "root.b".into(), ..env.by("bob") });
    for n in 0..20 {
        env.refuse("first", &format!("n{n:02}"));
        env.node(&format!("n{n:02}"), 10);
    }
    env.node("n99", 10);
    env.ask(vec![Ask::new("high", "first", 5).priority(3), Ask::new("high", "second", 5), Ask::new("low", "third", 5)]);
    env.answer_all();
    let heard = env.heard();
    let placed: Vec<_> = heard.iter().filter(|line| line.starts_with("new ")).collect();
    assert!(placed[0] == "new first on n99" && placed.len() == 3, "{heard:?}");
}

#[test]
fn what_leads_to_something_leaves_turns_to_those_in_vain() {
    // Of 30 asks that fit, and 30 that do not, each side has its turns; and every ask has one.
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 100);
    env.app("vain", "root.a");
    env.add_app(AddApplication { id: "other".into(), queue: "root.b".into(), ..env.by("bob") });
    for n in 0..30 {
        env.refuse(&format!("x{n}"), "n1");
    }
    env.ask(
        (0..30).flat_map(|n| [Ask::new("vain", &format!("x{n}"), 1), Ask::new("other", &format!("o{n}"), 1)]).collect(),
    );
    // Those in vain have some eight, four, two, and then one of two.
    for expected in [15..=17, 9..=12] {
        let turns = turns(&mut env);
        let vain = turns.iter().filter(|key| key.starts_with('x')).count();
        assert!(expected.contains(&vain), "{turns:?}");
    }
    env.answer_all();
    assert_eq!(env.partition.allocations, 30);
    assert!((0..30).all(|n| !env.log("vain", &format!("x{n}")).is_empty()));
}

#[test]
fn a_node_that_is_drained_while_the_shim_thinks_gets_nothing() {
    // R2.5
    let atomic = QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n");
    let drains: [fn(&mut Env); 2] = [
        |env| env.node_action("n1", NodeAction::Drain, None),
        |env| {
            env.apply(Command::OperatorDrain { nodes: vec!["n1".into()], drained: true });
            env.run();
        },
    ];
    for drain in drains {
        for what in ["one", "gang", "reserve", "swap", "home", "daemon"] {
            let mut env = Env::calm(if what == "gang" { &atomic } else { QUEUES });
            env.apply(Command::AskPredicates(true));
            env.app("app-1", "root.a");
            if matches!(what, "swap" | "home") {
                env.node(if what == "home" { "n1" } else { "n0" }, 10);
                env.gang("g", "root.a", 4, "Soft");
                env.ask(vec![Ask::new("g", "p1", 4).placeholder("tg")]);
                env.answer_all();
            }
            if what != "home" {
                env.node("n1", 10);
            }
            match what {
                "one" => env.ask(vec![Ask::new("app-1", "k1", 4)]),
                "daemon" => env.ask(vec![Ask::new("app-1", "k1", 4).requires("n1")]),
                "gang" => {
                    env.gang("g", "root.a", 8, "Soft");
                    env.ask(["k1", "k2"].map(|key| Ask::new("g", key, 4).placeholder("tg")).into());
                }
                "reserve" => {
                    env.ask(vec![Ask::new("app-1", "s1", 6)]);
                    env.answer_all();
                    env.node("n3", 8);
                    env.ask(vec![Ask::new("app-1", "k1", 9)]);
                    env.pass(5);
                }
                _ => {
                    env.refuse("k1", "n0");
                    env.ask(vec![Ask::new("g", "k1", 4).group("tg")]);
                    if what == "swap" {
                        env.answer_one();
                    }
                }
            }
            assert_eq!(keys(&env)[0], "k1 on n1", "{what}");
            let old = env.questions.clone();
            drain(&mut env);
            env.node("n2", 10);
            env.questions.retain(|question| old.iter().any(|before| before.id == question.id));
            env.heard();
            env.answer_all();
            env.confirm_all();
            env.answer_all();
            let heard = env.heard();
            let there = heard.iter().any(|told| told.starts_with("new k1 on n1"));
            // Daemons land on drained nodes (R5.42), and the place of a placeholder is no new one (R6.9).
            assert_eq!(there, matches!(what, "home" | "daemon"), "{what}: {heard:?}");
            assert_eq!(env.partition.reservations, 0, "{what}");
        }
    }
}

#[test]
fn a_node_that_becomes_too_small_while_the_shim_thinks_gets_nothing() {
    // R2.4
    let atomic = QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n");
    for gang in [false, true] {
        let mut env = Env::calm(&atomic);
        env.apply(Command::AskPredicates(true));
        env.node("n1", 10);
        if gang {
            env.gang("app-1", "root.a", 8, "Soft");
            env.ask(["k1", "k2"].map(|key| Ask::new("app-1", key, 4).placeholder("tg")).into());
            env.answer_one();
        } else {
            env.app("app-1", "root.a");
            env.ask(vec![Ask::new("app-1", "k1", 8)]);
        }
        env.node_action("n1", NodeAction::Update, Some(res(4, 4)));
        env.answer_all();
        assert_eq!((env.partition.allocations, env.questions.len()), (0, 0));
        env.node_action("n1", NodeAction::Update, Some(res(10, 10)));
        env.answer_all();
        assert_eq!(env.partition.allocations, if gang { 2 } else { 1 });
    }
}
