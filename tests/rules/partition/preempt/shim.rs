//! Predicates on what would be left (R7.21, R7.22).

use callboard::domain::{command::Command, effect::QuestionKind, types::Termination};

use super::{
    super::env::{Ask, Env},
    A_AND_B, full, tree,
};

fn asked(queues: &str) -> Env {
    let mut env = full(queues);
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.heard();
    env
}

fn victims(env: &Env) -> (Vec<String>, i32) {
    match &env.questions[0].kind {
        QuestionKind::FitsWithout { victims, start } => (victims.iter().map(ToString::to_string).collect(), *start),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_shim_is_asked_and_the_ask_waits_meanwhile() {
    let mut env = asked(A_AND_B);
    env.pass(2);
    assert_eq!(victims(&env), (["v4", "v3", "v2", "v1", "v0"].map(String::from).to_vec(), 0));
    assert!(env.heard().is_empty());
    env.answer(Ok(()), 0);
    assert_eq!(env.heard(), ["released v4 Preempted"]);
    env.confirm_all();
    // The place itself is asked for as any other.
    assert!(matches!(env.questions[0].kind, QuestionKind::Fits { allocate: true }));
    env.answer(Ok(()), 0);
    assert_eq!(env.heard(), ["app-a Running", "new k1 on n1"]);
}

#[test]
fn nobody_goes_for_what_a_claimant_in_question_is_charged() {
    // R7.16, R7.18: while the shim is asked about k1, which has preempted, its size is charged and claimed.
    let mut env = Env::calm(&tree(A_AND_B));
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    for n in 0..5 {
        env.node(&format!("n{n}"), 20);
        env.ask(vec![Ask::new("app-b", &format!("v{n}"), 20).preempts().on(&format!("n{n}"))]);
    }
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.pass(2);
    env.answer(Ok(()), 0);
    env.confirm_all();
    let place = env.questions.remove(0);
    assert!(matches!(place.kind, QuestionKind::Fits { allocate: true }));
    env.heard();
    env.ask(vec![Ask::new("app-a", "k2", 20).preempts()]);
    env.pass(2);
    assert!(matches!(env.questions[0].kind, QuestionKind::FitsWithout { .. }));
    env.answer(Ok(()), 0);
    assert_eq!(env.heard().iter().filter(|text| text.contains("Preempted")).count(), 1);
}

#[test]
fn victims_that_nobody_answered_about_are_asked_about_again() {
    let mut env = asked(A_AND_B);
    env.pass(2);
    let before = victims(&env);
    for _ in 0..3 {
        env.unanswered();
        assert_eq!(victims(&env), before, "the attempt is not over");
        assert!(env.heard().is_empty());
    }
    env.answer(Ok(()), 0);
    assert_eq!(env.heard(), ["released v4 Preempted"]);
}

#[test]
fn the_shim_may_want_more_to_go() {
    let mut env = asked(A_AND_B);
    env.pass(2);
    env.answer(Ok(()), 2);
    assert_eq!(env.heard(), ["released v4 Preempted", "released v3 Preempted", "released v2 Preempted"]);
}

#[test]
fn refusals_and_answers_outside_the_list_free_nothing() {
    // Ideas 181 and 182
    let mut env = asked(A_AND_B);
    env.pass(2);
    env.answer(Err("no".into()), 0);
    assert!(env.questions.is_empty() && env.heard().is_empty());
    assert!(!env.log("app-a", "k1").contains(&"no".to_owned()));
    env.pass(16);
    assert_eq!(env.questions.len(), 1, "asked again with the next attempt");
    env.answer(Ok(()), 5);
    assert!(env.questions.is_empty() && env.heard().is_empty());
    assert_eq!(env.partition.reservations, 0);
    env.pass(16);
    env.answer(Ok(()), -1);
    assert!(env.questions.is_empty() && env.heard().is_empty(), "before the list is outside it, too");
}

#[test]
fn the_next_best_node_is_asked_about_in_the_same_attempt() {
    let mut env = Env::calm(&tree(A_AND_B));
    for n in 1..4 {
        env.node(&format!("n{n}"), 20);
    }
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask((0..3).map(|n| Ask::new("app-b", &format!("v{n}"), 20).preempts()).collect());
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.pass(2);
    env.heard();
    // The youngest first: they differ in nothing else.
    for node in ["n3", "n2"] {
        assert_eq!(&*env.questions[0].node, node);
        env.answer(Err("taint".into()), 0);
    }
    env.answer(Ok(()), 0);
    assert_eq!(env.heard(), ["released v0 Preempted"]);
}

#[test]
fn victims_that_went_meanwhile() {
    // R7.26, idea 186
    let mut env = asked(A_AND_B);
    env.pass(2);
    env.release("app-b", "v4", Termination::StoppedByRm);
    env.heard();
    env.answer(Ok(()), 0);
    assert!(!env.heard().iter().any(|text| text.contains("Preempted")));
    assert!(env.log("app-a", "k1").contains(&"Victims picked earlier were released at the final stage".to_owned()));
    env.answer(Ok(()), 0);
    assert_eq!(env.heard(), ["app-a Running", "new k1 on n1"]);
}

#[test]
fn a_shim_that_changes_its_mind_gets_no_second_round_of_victims() {
    // The room is there, the shim refuses it: the need is the same.
    let mut env = asked(A_AND_B);
    env.pass(2);
    env.answer(Ok(()), 0);
    env.confirm_all();
    env.heard();
    for _ in 0..60 {
        while !env.questions.is_empty() {
            let question = env.answer(Err("no".into()), 0);
            assert!(matches!(question.kind, QuestionKind::Fits { .. }));
        }
        env.pass(1);
    }
    assert!(env.heard().iter().all(|text| !text.contains("Preempted")));
}

#[test]
fn what_was_refused_for_an_ask_is_not_refused_for_the_next_one_in_its_row() {
    // R7.21
    let mut env = Env::calm(&tree(A_AND_B));
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    for node in ["n1", "n2"] {
        env.node(node, 20);
        env.ask(vec![Ask::new("app-b", &format!("v-{node}"), 20).preempts().on(node)]);
    }
    env.apply(Command::AskPredicates(true));
    let first = |env: &mut Env, key: &str| {
        env.ask(vec![Ask::new("app-a", key, 20).preempts()]);
        env.pass(2);
        env.questions[0].node.to_string()
    };
    let node = first(&mut env, "k1");
    env.answer(Err("no".into()), 0);
    assert_ne!(*env.questions[0].node, *node, "the next node is asked about");
    env.release("app-a", "k1", Termination::StoppedByRm);
    env.questions.clear();
    assert_eq!(first(&mut env, "k2"), node);
}
