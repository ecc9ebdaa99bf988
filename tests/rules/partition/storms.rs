//! Asks that the shim refuses again and again, or about which it never stops to hear news, leave it to others.

use std::{collections::BTreeMap, sync::Arc};

use callboard::domain::{
    alloc::Foreign,
    command::{AllocationItem, Command, PredicateAnswer, PredicateTerms},
    effect::QuestionKind,
    types::Termination,
};

use super::env::{Ask, Env, QUEUES};

/// Predicates are asked for, of so many nodes at once.
fn asking(yaml: &str, constrained: bool, nodes: usize) -> Env {
    let mut env = Env::calm(yaml).alone();
    env.apply(Command::PredicateTerms(PredicateTerms { constrained, nodes, shared: false }));
    env.apply(Command::AskPredicates(true));
    env
}

/// The shim refuses the oldest question on all of its nodes.
fn refuse_oldest(env: &mut Env) {
    let question = env.questions.remove(0);
    let refused = question.more.iter().map(|_| Arc::from("no")).collect();
    env.apply(Command::Predicate(PredicateAnswer {
        question: question.id,
        result: Err("no".into()),
        index: 0,
        refused,
    }));
    env.run();
}

#[test]
fn asks_that_preempt_leave_questions_to_others() {
    // R7.21: what the shim refuses with victims gone is tried on the next node at once.
    let yaml = "partitions:\n  - name: default\n    preemption: {enabled: true}\n    queues:\n      - name: root\n        submitacl: \"*\"\n        queues:\n          - {name: a, resources: {guaranteed: {memory: 1000}}, properties: {preemption.delay: 1s}}\n          - {name: b}\n          - {name: c, resources: {guaranteed: {memory: 1000}}, properties: {preemption.delay: 1s}}\n";
    let mut env = asking(yaml, true, 1);
    env.app("low", "root.b");
    for n in 0..12 {
        env.node(&format!("n{n}"), 10);
        env.ask(vec![Ask::new("low", &format!("l{n}"), 10).preempts().on(&format!("n{n}"))]);
    }
    env.apply(Command::Reservations(false));
    for (app, queue) in [("app-1", "root.a"), ("app-2", "root.c")] {
        env.app(app, queue);
        env.ask((0..30).map(|n| Ask::new(app, &format!("{app}-{n}"), 10).preempts()).collect());
    }
    env.pass(2);
    let mut asked = BTreeMap::new();
    for round in 0..800 {
        let open = |env: &Env, app: &str| {
            let about_victims = env.questions.iter().filter(|q| matches!(q.kind, QuestionKind::FitsWithout { .. }));
            about_victims.filter(|question| question.key.starts_with(app)).count()
        };
        if env.questions.is_empty() {
            // R7.4: all tried, and no node was left to be asked about.
            env.pass(15);
        }
        let (one, two) = (open(&env, "app-1"), open(&env, "app-2"));
        assert!(one <= 8 && two <= 8 && one + two > 0, "{round}: {one} and {two}");
        if round == 100 {
            env.node("free", 5);
            env.add_app(callboard::domain::command::AddApplication {
                id: "other".into(),
                queue: "root.b".into(),
                ..env.by("bob")
            });
            env.ask(vec![Ask::new("other", "small", 1)]);
            assert!(env.questions.iter().any(|question| *question.key == *"small"), "it is asked about at once");
        }
        *asked.entry(env.questions[0].key.clone()).or_insert(0) += 1;
        if *env.questions[0].key == *"small" {
            env.answer_one();
        } else {
            refuse_oldest(&mut env);
        }
    }
    assert!(env.heard().contains(&"new small on free".to_owned()));
    assert!(asked.len() > 30, "others than the first have a turn: {asked:?}");
}

#[test]
fn refused_asks_leave_the_shim_time_for_others() {
    // R5.27: answers are due in seconds, whatever a question names; R5.10: who was refused comes after those who were not.
    let mut env = asking(QUEUES, false, 256);
    for n in 0..300 {
        env.node(&format!("n{n}"), 10);
    }
    env.app("storm", "root.a");
    env.ask((0..100).map(|n| Ask::new("storm", &format!("s{n}"), 9)).collect());
    let named = |env: &Env| env.questions.iter().map(|question| 1 + question.more.len()).sum::<usize>();
    for round in 0..60 {
        assert!(named(&env) < 2_048 + 256, "{}", named(&env));
        if round == 40 {
            env.add_app(callboard::domain::command::AddApplication {
                id: "other".into(),
                queue: "root.b".into(),
                ..env.by("bob")
            });
            env.ask(vec![Ask::new("other", "o1", 1), Ask::new("other", "o2", 1)]);
            let last = env.questions.iter().map(|question| question.id).max();
            let newer = |env: &Env| env.questions.iter().find(|question| Some(question.id) > last).cloned();
            while newer(&env).is_none() {
                refuse_oldest(&mut env);
            }
            assert_eq!(newer(&env).map(|question| question.key.to_string()).as_deref(), Some("o1"), "the next one");
        }
        refuse_oldest(&mut env);
    }
}

#[test]
fn news_of_the_shim_voids_few_answers_in_a_row() {
    // R5.27: it knew of them no later than the scheduler.
    let mut env = asking(QUEUES, true, 1);
    env.node("n1", 1_000);
    env.app("old", "root.a");
    env.ask((0..40).map(|n| Ask::new("old", &format!("k{n}"), 1).on("n1")).collect());
    env.app("new", "root.b");
    env.ask((0..5).map(|n| Ask::new("new", &format!("x{n}"), 1)).collect());
    let mut questions = 0;
    for n in 0..40 {
        if env.questions.is_empty() {
            break;
        }
        env.release("old", &format!("k{n}"), Termination::StoppedByRm);
        env.answer_one();
        questions += 1;
    }
    assert_eq!(env.heard().iter().filter(|told| told.starts_with("new x")).count(), 5);
    assert!((9..=20).contains(&questions), "each was asked about again a few times: {questions}");
}

#[test]
fn a_foreign_allocation_that_is_told_again_is_no_news() {
    // R2.17, R5.27
    let mut env = asking(QUEUES, true, 1);
    env.node("n1", 1_000);
    let foreign = |size: i64| {
        let mut ask = Ask::new("", "f1", size).on("n1");
        ask.spec.foreign = Some(Foreign::Default);
        let item = AllocationItem { app: ask.app, node: ask.node, spec: Arc::new(ask.spec) };
        Command::Allocations { allocations: vec![item], releases: Vec::new() }
    };
    env.apply(foreign(10));
    env.app("app-1", "root.a");
    for (key, size, placed) in [("k1", 10, true), ("k2", 20, false)] {
        env.ask(vec![Ask::new("app-1", key, 1)]);
        env.apply(foreign(size));
        env.answer_one();
        assert_eq!(env.heard().contains(&format!("new {key} on n1")), placed, "{key}");
    }
    // R4.7: a negative one would make the node larger.
    env.apply(foreign(-10));
    assert_eq!(env.heard(), ["rejected f1: allocation contains negative resources"]);
    assert_eq!(
        env.partition.nodes.values().next().map(|node| node.occupied.pruned().to_string()).as_deref(),
        Some("map[memory:20 vcore:20]")
    );
}

#[test]
fn the_log_of_an_ask_is_bounded() {
    // R4.34: shims may say something else each time.
    let mut env = asking(QUEUES, true, 1);
    env.node("n1", 10);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 1)]);
    for n in 0..200 {
        env.answer(Err(format!("reason {n}").into()), 0);
        env.node_action("n1", callboard::domain::command::NodeAction::Update, Some(super::env::res(11 + n, 11 + n)));
    }
    let log = env.log("app-1", "k1");
    assert!(log.len() <= 64 && log.contains(&"reason 199".to_owned()), "{}", log.len());
}
