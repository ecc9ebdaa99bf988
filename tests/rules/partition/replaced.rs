//! Replacements of placeholders with a shim that is asked, while other constrained asks come and go (R5.27, R6.10, R6.15).

use std::sync::Arc;

use callboard::domain::{
    command::{Command, NodeAction, PredicateAnswer, PredicateTerms},
    effect::QuestionKind,
    types::Termination,
};

use super::env::{Ask, Env, QUEUES, res};

fn keys(env: &Env) -> Vec<String> {
    env.questions.iter().map(|question| format!("{} on {}", question.key, question.node)).collect()
}

/// A gang of one placeholder on n1, two nodes, and what the real ask `r1` was asked about: its home, and n2 where that is refused.
fn agreed(elsewhere: bool) -> Env {
    let yaml = QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 4}}\n");
    let mut env = Env::calm(&yaml);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 10);
    env.gang("gang", "root.a", 4, "Soft");
    env.ask(vec![Ask::new("gang", "p1", 4).placeholder("tg")]);
    env.answer_all();
    env.node("n2", 10);
    env.app("app-2", "root.b");
    env.app("app-3", "root.a");
    env.pass(1);
    if elsewhere {
        env.refuse("r1", "n1");
    }
    env.ask(vec![Ask::new("gang", "r1", 4).group("tg")]);
    env.answer_all();
    assert_eq!(env.unconfirmed.len(), 1);
    env.heard();
    env
}

#[test]
fn what_nothing_came_between_is_announced_with_the_confirmation() {
    // R6.15, on another node than the placeholder's
    let mut env = agreed(true);
    env.ask(vec![Ask::new("app-2", "free", 1).unconstrained()]);
    env.answer_all();
    env.confirm_all();
    assert!(env.heard().contains(&"new r1 on n2".to_string()), "{:?}", env.told);
    assert_eq!(keys(&env), [""; 0]);
    assert_eq!(env.partition.reservations, 0);
}

#[test]
fn who_takes_the_place_of_its_placeholder_is_asked_about_with_all_that_it_takes_up() {
    // R6.9: while the placeholder was there, the shim was asked only whether the node will do (`allocate: false`).
    let mut env = agreed(false);
    env.confirm_all();
    // R3.18: told as by a shim that is not asked.
    assert_eq!(env.heard(), ["gang Completing", "gang Running"]);
    let [question] = &env.questions[..] else { panic!("{:?}", keys(&env)) };
    assert!(matches!(question.kind, QuestionKind::Fits { allocate: true }));
    assert_eq!(keys(&env), ["r1 on n1"]);
    // Its place is kept from others meanwhile.
    env.ask(vec![Ask::new("app-2", "large", 7).unconstrained()]);
    env.answer_all();
    let heard = env.heard();
    assert!(["new r1 on n1", "new large on n2"].iter().all(|told| heard.iter().any(|one| one == told)), "{heard:?}");
    assert_eq!(env.partition.reservations, 0);
}

#[test]
fn what_is_asked_about_again_blinks_only_where_nothing_else_is_left() {
    // R3.16, R3.18
    for (more, told) in [("ask", &[][..]), ("placeholder", &[]), ("nothing", &["gang Completing", "gang Running"])] {
        let mut env = Env::calm(QUEUES);
        env.apply(Command::AskPredicates(true));
        env.node("n1", 20);
        let placeholders = if more == "placeholder" { 2 } else { 1 };
        env.gang("gang", "root.a", 4 * placeholders, "Soft");
        env.ask((0..placeholders).map(|n| Ask::new("gang", &format!("p{n}"), 4).placeholder("tg")).collect());
        env.answer_all();
        env.ask(vec![Ask::new("gang", "r1", 4).group("tg")]);
        env.answer_all();
        if more == "ask" {
            env.ask(vec![Ask::new("gang", "large", 50)]);
        }
        env.heard();
        env.confirm_all();
        assert_eq!(env.heard(), told, "{more}");
        env.answer_all();
        assert_eq!(env.heard(), ["new r1 on n1"], "{more}");
        env.remove_app("gang");
        env.confirm_all();
        env.assert_empty();
    }
}

#[test]
fn a_node_that_the_shim_changes_before_the_confirmation_is_asked_about_again() {
    // R6.10, R2.3
    let mut env = agreed(true);
    env.node_action("n2", NodeAction::Update, Some(res(10, 10)));
    env.confirm_all();
    assert_eq!(keys(&env), ["r1 on n2"]);
    env.refuse("r1", "n2");
    env.answer_all();
    assert!(!env.heard().iter().any(|told| told.starts_with("new r1 on n2")));
}

#[test]
fn what_something_came_between_is_asked_about_again() {
    // R5.27, R6.15: the shim knew of no real allocation when it was asked about the other.
    for elsewhere in [false, true] {
        for fits in [false, true] {
            let mut env = agreed(elsewhere);
            let node = if elsewhere { "n2" } else { "n1" };
            let asked = env.partition.alloc("gang", "p1").expect("a row").created;
            assert!(asked < env.partition.alloc("gang", "r1").expect("a row").created);
            env.ask(vec![Ask::new("app-2", "x1", 1).requires(node)]);
            env.answer_all();
            assert!(env.heard().contains(&format!("new x1 on {node}")));
            // Another ask of its queue would have the room that the placeholder leaves.
            env.ask(vec![Ask::new("app-3", "free", 1).unconstrained()]);
            env.heard();
            env.confirm_all();
            let heard = env.heard();
            assert_eq!(
                (keys(&env), heard.len()),
                (vec![format!("r1 on {node}")], 2),
                "not announced before: {heard:?}"
            );
            assert_eq!(env.partition.reservations, 1);
            if !fits {
                env.refuse("r1", node);
                // It would have its turn first now.
                env.release("app-3", "free", Termination::StoppedByRm);
            }
            env.unanswered();
            assert_eq!(keys(&env), [format!("r1 on {node}")], "nobody answered: it is asked about again");
            env.answer_one();
            assert_eq!(env.partition.reservations, 0);
            let group = env.partition.apps[env.partition.app_by_id["gang"]].gang.task_groups["tg"].clone();
            // Where it is refused, the placeholder went for nothing.
            assert_eq!((group.replaced, group.timed_out), if fits { (1, 0) } else { (0, 1) });
            if fits {
                assert_eq!(env.heard()[0], format!("new r1 on {node}"));
                let row = env.partition.alloc("gang", "r1").expect("a row");
                assert!(
                    row.placeholder_used && row.requested == asked,
                    "{:?}, the placeholder {asked:?}",
                    row.requested
                );
            } else {
                let other = if elsewhere { "r1 on n1" } else { "r1 on n2" };
                assert_eq!(keys(&env), [other], "the other node");
                let row = env.partition.alloc("gang", "r1").expect("a row");
                assert!(!row.placeholder_used && row.requested == row.created);
                assert!(!env.heard().iter().any(|told| told.starts_with("new r1")));
            }
            for app in ["gang", "app-2", "app-3"] {
                env.remove_app(app);
            }
            env.answer_all();
            env.assert_empty();
        }
    }
}

#[test]
fn a_place_that_is_asked_about_again_may_be_on_a_drained_node() {
    // R6.9: it is no new place, also where the drain comes when the placeholder is gone.
    let mut env = agreed(false);
    env.ask(vec![Ask::new("app-2", "x1", 1).requires("n1")]);
    env.answer_all();
    env.confirm_all();
    env.heard();
    env.node_action("n1", NodeAction::Drain, None);
    assert_eq!((keys(&env), env.partition.reservations), (vec!["r1 on n1".to_owned()], 1));
    env.answer_one();
    assert_eq!(env.heard()[0], "new r1 on n1");
}

#[test]
fn what_is_asked_about_again_may_go_meanwhile() {
    // R6.15: whatever goes, nothing of it is left.
    for what in ["real", "node", "app", "home"] {
        let mut env = agreed(true);
        env.ask(vec![Ask::new("app-2", "x1", 1).requires("n2")]);
        env.answer_all();
        if what == "home" {
            // Only the placeholder's node goes: the replacement would be complete (R2.23).
            env.node_action("n1", NodeAction::Decommission, None);
            assert!(env.heard().contains(&"released p1 StoppedByRm".to_owned()));
            assert_eq!(keys(&env), ["r1 on n2"]);
            env.answer_all();
            assert!(env.heard().contains(&"new r1 on n2".to_owned()));
            env.unconfirmed.clear();
        }
        env.confirm_all();
        match what {
            "real" => env.release("gang", "r1", Termination::StoppedByRm),
            "node" => env.node_action("n2", NodeAction::Decommission, None),
            "app" => env.remove_app("gang"),
            _ => {}
        }
        assert_eq!(env.partition.reservations, 0, "{what}");
        env.answer_all();
        for app in ["gang", "app-2", "app-3"] {
            env.remove_app(app);
        }
        env.answer_all();
        env.assert_empty();
    }
}

#[test]
fn real_asks_that_exclude_each_other_do_not_meet_on_a_node() {
    // R5.27: three placeholders on a node each, which refuses the real asks; the shim gives each of the others one real ask.
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 12);
    env.gang("gang", "root.a", 6, "Soft");
    env.ask((0..3).map(|n| Ask::new("gang", &format!("p{n}"), 2).placeholder("tg")).collect());
    env.answer_all();
    for n in 2..=4 {
        env.node(&format!("n{n}"), if n == 2 { 2000 } else { 20 });
    }
    env.ask((0..3).map(|n| Ask::new("gang", &format!("r{n}"), 2).group("tg")).collect());
    for _ in 0..200 {
        let there = |env: &Env, node: &str| {
            let row = env.partition.nodes.values().find(|row| *row.spec.id == *node).expect("a node");
            let placed = row.allocs.iter().filter(|alloc| env.partition.allocs[**alloc].spec.key.starts_with('r'));
            placed
                .filter(|alloc| env.partition.allocs[**alloc].phase == callboard::domain::alloc::Phase::Allocated)
                .count()
        };
        if let Some(question) = env.questions.first() {
            let node = question.node.to_string();
            let free = *node != *"n1" && there(&env, &node) == 0;
            env.answer(if free { Ok(()) } else { Err("anti-affinity".into()) }, 0);
        } else if !env.unconfirmed.is_empty() {
            env.confirm_all();
        } else {
            env.pass(40);
        }
        assert!(["n2", "n3", "n4"].iter().all(|node| there(&env, node) <= 1), "{:?}", env.told);
    }
    assert_eq!((env.partition.placeholders, env.partition.allocations), (0, 3));
}

/// As a shim that answers for several nodes: the first that is not refused has it.
fn answer_several(env: &mut Env, refused: impl Fn(&str, &str) -> bool) -> String {
    let question = env.questions.remove(0);
    let nodes: Vec<&Arc<str>> = std::iter::once(&question.node).chain(&question.more).collect();
    let fits = nodes.iter().position(|node| !refused(&question.key, node));
    let reason: Arc<str> = "no".into();
    let (result, refused) = match fits {
        Some(at) => (Ok(()), vec![reason; at]),
        None => (Err(reason.clone()), vec![reason; nodes.len()]),
    };
    env.apply(Command::Predicate(PredicateAnswer { question: question.id, result, index: 0, refused }));
    env.run();
    question.key.to_string()
}

/// A gang of so many, each placeholder on a node of its own.
fn large(count: usize) -> Env {
    let mut env = Env::calm(QUEUES);
    env.apply(Command::PredicateTerms(PredicateTerms { constrained: true, nodes: 256, shared: false }));
    env.apply(Command::AskPredicates(true));
    for n in 0..count {
        env.node(&format!("n{n:03}"), 4);
    }
    env.gang("gang", "root.a", 3 * count as i64, "Soft");
    env.ask((0..count).map(|n| Ask::new("gang", &format!("p{n:03}"), 3).placeholder("tg")).collect());
    while !env.questions.is_empty() {
        answer_several(&mut env, |_, _| false);
    }
    assert_eq!(env.partition.placeholders, count as u64);
    env
}

#[test]
fn a_question_of_a_replacement_names_the_homes_of_others_and_then_other_nodes() {
    // R6.9, R6.10: of 60 homes the last takes the first real ask.
    let mut env = large(60);
    env.ask(vec![Ask::new("gang", "r0", 3).group("tg")]);
    let mut calls = 0;
    let home = |env: &Env| {
        let row = env.partition.alloc("gang", "p059").expect("a row");
        env.partition.nodes[row.node.expect("a node")].spec.id.to_string()
    };
    let last = home(&env);
    while !env.questions.is_empty() {
        calls += 1;
        answer_several(&mut env, |_, node| *node != *last);
    }
    assert!(calls <= 6 && env.unconfirmed.len() == 1, "{calls} questions");
    assert_eq!(&*env.unconfirmed[0].key, "p059");
    env.confirm_all();
    env.answer_all();
    assert!(env.heard().contains(&format!("new r0 on {last}")));
}

#[test]
fn replacements_that_are_refused_leave_turns_to_others() {
    // R5.27, R6.12
    let mut env = large(60);
    env.app("app-2", "root.b");
    env.ask((0..60).map(|n| Ask::new("gang", &format!("r{n:02}"), 3).group("tg")).collect());
    let refused = |key: &str, _: &str| key.starts_with('r');
    answer_several(&mut env, refused);
    env.ask((0..5).map(|n| Ask::new("app-2", &format!("x{n}"), 1)).collect());
    let mut calls = 0;
    while env.partition.allocations < 65 {
        calls += 1;
        assert!(calls <= 20, "{:?}", keys(&env));
        answer_several(&mut env, refused);
    }
    while !env.questions.is_empty() {
        calls += 1;
        answer_several(&mut env, refused);
    }
    assert!(calls <= 250, "{calls} calls for 60 asks and as many nodes");
}

#[test]
fn a_replacement_that_ends_with_the_placeholders_node_has_no_place_on_a_drained_or_shrunk_one() {
    // R2.23, R2.5, SEEDS S25: as with a confirmation, another node is taken, or the real ask waits again.
    for (drained, other) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut env = agreed(true);
        if other {
            env.apply(Command::AskPredicates(false));
            env.node("n3", 10);
        }
        let (gone, back) = match drained {
            true => ((NodeAction::Drain, None), (NodeAction::DrainToSchedulable, None)),
            false => ((NodeAction::Update, Some(res(3, 3))), (NodeAction::Update, Some(res(10, 10)))),
        };
        env.node_action("n2", gone.0, gone.1);
        env.heard();
        env.node_action("n1", NodeAction::Decommission, None);
        let told =
            if other { vec!["released p1 StoppedByRm", "new r1 on n3"] } else { vec!["released p1 StoppedByRm"] };
        assert_eq!(env.heard(), told, "{drained}");
        let group = &env.partition.apps[env.partition.app_by_id["gang"]].gang.task_groups["tg"];
        assert_eq!((group.replaced, group.timed_out), if other { (1, 0) } else { (0, 1) }, "{drained}");
        if !other {
            env.node_action("n2", back.0, back.1);
            env.answer_all();
            assert!(env.heard().contains(&"new r1 on n2".to_owned()), "{drained}");
        }
        env.unconfirmed.clear();
        env.end(&["gang", "app-2", "app-3"]);
    }
}
