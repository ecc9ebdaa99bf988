//! Allocations that the shim cannot carry out: their asks wait again, and pause where that goes on (R4.28).

use callboard::domain::{
    command::Command,
    partition::{Explainer, Why},
    types::{AppState, Termination},
};

use super::env::{Ask, Env, QUEUES};

const NOTHING: [&str; 0] = [];

fn env(nodes: &[&str]) -> Env {
    let mut env = Env::calm(QUEUES);
    nodes.iter().for_each(|node| env.node(node, 10));
    env.app("app-1", "root.a");
    env.heard();
    env
}

fn fails(env: &mut Env, key: &str) {
    env.release("app-1", key, Termination::FailedOnRm);
}

/// An ask that has failed twice in a row at once, on its only node.
fn failed_twice() -> Env {
    let mut env = env(&["n1"]);
    env.ask(vec![Ask::new("app-1", "k1", 4)]);
    fails(&mut env, "k1");
    assert_eq!(
        env.heard(),
        ["app-1 Accepted", "app-1 Running", "new k1 on n1", "new k1 on n1"],
        "the first time at once"
    );
    fails(&mut env, "k1");
    assert_eq!(env.heard(), NOTHING);
    assert_eq!(pauses(&env, "k1"), Some((2, "n1".to_owned(), 1)));
    env
}

/// Why an ask pauses: failures in a row, the last node, and the seconds until it is tried again.
fn pauses(env: &Env, key: &str) -> Option<(u32, String, i64)> {
    let app = env.partition.app_by_id["app-1"];
    match Explainer::new(&env.partition).ask(app, key, env.now)?.why {
        Why::Failures(failures) => {
            let until = failures.until.expect("it pauses");
            Some((failures.count, failures.node.to_string(), until.minus(env.now).as_secs()))
        }
        _ => None,
    }
}

#[test]
fn an_ask_that_fails_again_and_again_pauses_longer_each_time() {
    let mut env = failed_twice();
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        env.pass(pause - 1);
        assert_eq!(env.heard(), NOTHING, "before {pause} s");
        let root = &env.partition.queues[env.partition.root];
        assert!(root.allocated().is_zero() && root.pending().is_positive());
        env.pass(1);
        assert_eq!(env.heard(), ["new k1 on n1"], "after {pause} s");
        fails(&mut env, "k1");
    }
}

#[test]
fn one_that_lasted_longer_than_the_longest_pause_counts_anew() {
    let mut env = failed_twice();
    env.pass(1);
    env.pass(59);
    fails(&mut env, "k1");
    assert_eq!(env.heard(), ["new k1 on n1"]);
    env.pass(2);
    assert_eq!(env.heard(), ["new k1 on n1"]);
    env.pass(60);
    fails(&mut env, "k1");
    assert_eq!(env.heard(), ["new k1 on n1"], "at once");
}

#[test]
fn others_do_not_wait_for_it() {
    let mut env = failed_twice();
    env.ask(vec![Ask::new("app-1", "k2", 4), Ask::new("app-1", "k3", 3)]);
    assert_eq!(env.heard(), ["new k2 on n1", "new k3 on n1"]);
    env.pass(1);
    assert_eq!(env.heard(), NOTHING, "their room is theirs");
    env.release("app-1", "k2", Termination::StoppedByRm);
    assert_eq!(env.heard(), ["released k2 StoppedByRm", "new k1 on n1"]);
}

#[test]
fn each_has_its_own_pause() {
    let mut env = env(&["n1"]);
    env.ask(vec![Ask::new("app-1", "k1", 4), Ask::new("app-1", "k2", 4)]);
    for key in ["k1", "k1", "k1", "k2", "k2"] {
        if key == "k1" {
            env.pass(1);
        }
        fails(&mut env, key);
    }
    env.heard();
    env.pass(1);
    assert_eq!(env.heard(), ["new k2 on n1"]);
    env.pass(1);
    assert_eq!(env.heard(), ["new k1 on n1"]);
}

#[test]
fn another_node_is_tried_first() {
    let mut env = env(&["n1", "n2"]);
    env.ask(vec![Ask::new("app-1", "k1", 4)]);
    fails(&mut env, "k1");
    fails(&mut env, "k1");
    env.pass(1);
    let placed = |heard: Vec<String>| heard.into_iter().filter(|text| text.starts_with("new")).collect::<Vec<_>>();
    assert_eq!(placed(env.heard()), ["new k1 on n1", "new k1 on n2", "new k1 on n1"]);
    env.ask(vec![Ask::new("app-1", "k2", 10)]);
    fails(&mut env, "k1");
    env.pass(2);
    assert_eq!(placed(env.heard()), ["new k2 on n2", "new k1 on n1"], "the same one where it is the only one");
}

#[test]
fn the_pause_ends_with_the_ask() {
    let mut env = failed_twice();
    env.release("app-1", "k1", Termination::StoppedByRm);
    assert_eq!(env.heard(), ["app-1 Completing", "released k1 StoppedByRm"]);
    env.assert_empty();
    env.ask(vec![Ask::new("app-1", "k1", 4)]);
    assert_eq!(env.heard(), ["app-1 Running", "new k1 on n1"]);
    fails(&mut env, "k1");
    assert_eq!(env.heard(), ["new k1 on n1"], "it is another one of that key");
    fails(&mut env, "k1");
    env.remove_app("app-1");
    env.pass(100);
    env.assert_empty();
}

#[test]
fn an_ask_that_changes_its_size_pauses_on() {
    // R4.28: or a shim that does so after each failure would get it again and again, as fast as it can answer.
    let mut env = failed_twice();
    for (size, pause) in [(5, 1), (3, 2), (6, 4), (2, 8)] {
        env.ask(vec![Ask::new("app-1", "k1", size)]);
        assert_eq!(env.heard(), NOTHING, "{size}");
        env.pass(pause - 1);
        assert_eq!(env.heard(), NOTHING, "before {pause} s");
        env.pass(1);
        assert_eq!(env.heard(), ["new k1 on n1"], "after {pause} s");
        fails(&mut env, "k1");
    }
    // Nor does it help to change what was allocated.
    env.pass(16);
    assert_eq!(env.heard(), ["new k1 on n1"]);
    env.ask(vec![Ask::new("app-1", "k1", 7)]);
    fails(&mut env, "k1");
    assert_eq!((env.heard().len(), pauses(&env, "k1")), (0, Some((7, "n1".to_owned(), 32))));
}

#[test]
fn an_ask_that_the_shim_places_itself_begins_afresh() {
    let mut env = failed_twice();
    env.ask(vec![Ask::new("app-1", "k1", 4)]);
    assert_eq!(env.heard(), NOTHING, "the same again is no update");
    env.ask(vec![Ask::new("app-1", "k1", 5).on("n1")]);
    assert_eq!(env.heard(), ["new k1 on n1"]);
    fails(&mut env, "k1");
    assert_eq!(env.heard(), ["new k1 on n1"]);
}

#[test]
fn one_that_requires_its_node_pauses_too_and_closes_it_to_nobody() {
    let mut env = env(&["n1"]);
    env.ask(vec![Ask::new("app-1", "k1", 8).requires("n1")]);
    fails(&mut env, "k1");
    fails(&mut env, "k1");
    env.heard();
    env.ask(vec![Ask::new("app-1", "k2", 8)]);
    assert_eq!(env.heard(), ["new k2 on n1"]);
    env.release("app-1", "k2", Termination::StoppedByRm);
    env.pass(1);
    assert_eq!(env.heard(), ["released k2 StoppedByRm", "new k1 on n1"]);
}

#[test]
fn nothing_is_asked_about_one_that_pauses() {
    let mut env = env(&["n1"]);
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("app-1", "k1", 4)]);
    for _ in 0..2 {
        env.answer_all();
        fails(&mut env, "k1");
    }
    assert!(env.questions.is_empty());
    env.pass(1);
    assert_eq!(env.questions.len(), 1);
}

#[test]
fn the_time_out_of_a_gang_holds_while_its_placeholders_pause() {
    for (style, then) in [("Soft", AppState::Resuming), ("Hard", AppState::Failing)] {
        let mut env = Env::calm(QUEUES);
        env.node("n1", 20);
        env.gang("app-1", "root.a", 30, style);
        env.ask(["ph1", "ph2"].map(|key| Ask::new("app-1", key, 10).placeholder("tg")).into());
        env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
        for _ in 0..7 {
            fails(&mut env, "ph2");
            env.pass(1);
        }
        assert_eq!(env.state("app-1"), Some(AppState::Accepted));
        env.pass(60);
        assert_eq!(env.state("app-1"), Some(then), "{style}");
        env.confirm_all();
        env.pass(100);
        env.end(&["app-1"]);
    }
}

#[test]
fn a_gang_that_is_placed_all_at_once_waits_for_the_last_pause() {
    let mut env =
        Env::calm(&QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n"));
    env.node("n1", 20);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(["ph1", "ph2"].map(|key| Ask::new("app-1", key, 10).placeholder("tg")).into());
    fails(&mut env, "ph1");
    fails(&mut env, "ph1");
    env.heard();
    fails(&mut env, "ph2");
    assert_eq!(env.heard(), NOTHING);
    for key in ["ph1", "ph2"] {
        assert_eq!(pauses(&env, key), Some((2, "n1".to_owned(), 1)), "{key} waits with the gang");
    }
    env.pass(1);
    assert_eq!(env.heard(), ["new ph1 on n1", "new ph2 on n1"]);
}

#[test]
fn a_real_ask_that_pauses_takes_no_placeholder_and_another_one_does() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(["ph1", "ph2"].map(|key| Ask::new("app-1", key, 10).placeholder("tg")).into());
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.confirm_all();
    env.node("n2", 10);
    fails(&mut env, "r1");
    env.confirm_all();
    env.heard();
    fails(&mut env, "r1");
    assert_eq!(env.heard(), NOTHING);
    env.ask(vec![Ask::new("app-1", "ph3", 10).placeholder("tg"), Ask::new("app-1", "r2", 10).group("tg")]);
    env.confirm_all();
    let heard = env.heard();
    assert!(heard.contains(&"new r2 on n1".to_owned()) && !heard.iter().any(|text| text.contains(" r1 ")), "{heard:?}");
    env.pass(1);
    env.confirm_all();
    assert!(env.heard().iter().any(|text| text.starts_with("new r1 ")));
}
