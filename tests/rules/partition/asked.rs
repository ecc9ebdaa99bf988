//! What changes while the shim is asked: a placement keeps to the queues and limits that are there when it answers.

use callboard::domain::{command::Command, types::Termination};

use super::env::{Ask, Env, QUEUES};

/// root.a has these settings.
fn queues(settings: &str) -> String {
    QUEUES.replace("- name: a\n", &format!("- name: a\n            {settings}\n"))
}

/// k1 of app-1 runs, and the shim is asked about k2 of app-2.
fn asked_about(size: i64) -> Env {
    let mut env = Env::new(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 100);
    for (app, key, size) in [("app-1", "k1", 1), ("app-2", "k2", size)] {
        env.answer_all();
        env.app(app, "root.a");
        env.ask(vec![Ask::new(app, key, size)]);
    }
    assert_eq!((env.partition.placed(), env.questions.len()), (1, 1));
    env
}

#[test]
fn a_placement_keeps_to_a_configuration_that_comes_while_the_shim_is_asked() {
    // QUE-025, QUE-091, UGM-031, UGM-033, CFG-102
    for settings in [
        "resources: {max: {memory: 4}}",
        "maxapplications: 1",
        "limits: [{limit: few, users: [alice], maxresources: {memory: 4}}]",
        "limits: [{limit: few, users: [alice], maxapplications: 1}]",
        "parent: true",
    ] {
        let mut env = asked_about(10);
        env.reload(&queues(settings));
        env.answer_all();
        assert_eq!(env.partition.placed(), 1, "{settings}");
        env.reload(QUEUES);
        env.answer_all();
        assert_eq!(env.partition.placed(), 2, "{settings}");
        env.end(&["app-1", "app-2"]);
    }
}

#[test]
fn a_limit_of_a_group_that_comes_while_the_shim_is_asked_counts_what_is_placed() {
    // UGM-020, UGM-024
    let mut env = asked_about(10);
    env.reload(&queues("limits: [{limit: few, groups: [staff], maxresources: {memory: 15}}]"));
    env.answer_all();
    env.ask(vec![Ask::new("app-2", "k3", 10)]);
    env.answer_all();
    assert_eq!(env.partition.placed(), 2, "k1 began before the limit, k2 counts, k3 does not fit");
    env.release("app-2", "k2", Termination::StoppedByRm);
    env.answer_all();
    assert_eq!(env.partition.placed(), 2);
}

#[test]
fn a_gang_keeps_to_a_max_that_comes_while_the_shim_is_asked() {
    // SEEDS S11
    let atomic = |max| {
        queues(&format!("properties: {{gang.admission: atomic}}\n            resources: {{max: {{memory: {max}}}}}"))
    };
    let mut env = Env::new(&atomic(20));
    env.apply(Command::AskPredicates(true));
    env.node("n1", 100);
    env.gang("gang", "root.a", 20, "Soft");
    env.ask(["p1", "p2"].map(|key| Ask::new("gang", key, 10).placeholder("tg")).into());
    assert_eq!(env.questions.len(), 2);
    env.answer_one();
    env.reload(&atomic(19));
    env.answer_all();
    assert_eq!(env.partition.placeholders, 0, "not one of them without the other");
    env.reload(&atomic(20));
    env.answer_all();
    assert_eq!(env.partition.placeholders, 2);
}

#[test]
fn nothing_is_replaced_in_a_leaf_that_became_a_parent_while_the_shim_was_asked() {
    // CFG-102
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 10);
    env.gang("gang", "root.a", 5, "Soft");
    env.ask(vec![Ask::new("gang", "p1", 5).placeholder("tg")]);
    env.answer_all();
    env.ask(vec![Ask::new("gang", "r1", 5).group("tg")]);
    assert_eq!(env.questions.len(), 1);
    env.heard();
    env.reload(&queues("parent: true"));
    env.answer_all();
    assert_eq!(env.heard(), [""; 0]);
    env.reload(QUEUES);
    env.answer_all();
    assert_eq!(env.heard(), ["released p1 PlaceholderReplaced"]);
}

#[test]
fn what_runs_already_takes_the_room_that_the_shim_is_asked_about() {
    // R4.10, R4.14: no limit holds it, and the others are not placed beyond it (QUE-025, UGM-031).
    for limit in
        ["resources: {max: {memory: 12}}", "limits: [{limit: few, users: [alice], maxresources: {memory: 12}}]"]
    {
        for (key, size) in [("k1", 6), ("k3", 5)] {
            let mut env = asked_about(10);
            env.reload(&queues(limit));
            env.questions.remove(0);
            env.ask(vec![Ask::new("app-1", key, size).on("n1")]);
            assert_eq!(env.questions.len(), 1);
            env.answer_all();
            assert!(env.partition.alloc("app-2", "k2").expect("it waits").is_pending(), "{limit} {key}");
            env.release("app-1", key, Termination::StoppedByRm);
            env.answer_all();
            assert!(!env.partition.alloc("app-2", "k2").expect("it is placed").is_pending(), "{limit} {key}");
        }
    }
}
