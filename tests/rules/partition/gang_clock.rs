//! How long placeholders wait that are not placed, when others of their gang were (R3.39, R3.40, R6.17, seed 003, 216-236).

use callboard::domain::{
    command::{AddApplication, NodeAction},
    types::{AppState, Termination},
};

use super::env::{Ask, Env, QUEUES, res};

fn gang(env: &mut Env, total: i64, seconds: i64, style: &str) {
    let item = AddApplication {
        id: "g".into(),
        queue: "root.a".into(),
        placeholder_ask: Some(res(total, total)),
        gang_style: style.into(),
        timeout_millis: seconds * 1000,
        ..env.by("alice")
    };
    env.add_app(item);
}

/// A driver runs, and of two placeholders one is placed; the other is too large for every node.
fn halved(style: &str) -> Env {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 5);
    gang(&mut env, 102, 3, style);
    env.ask(vec![Ask::new("g", "driver", 1).originator()]);
    env.ask(vec![Ask::new("g", "a", 2).placeholder("A"), Ask::new("g", "b", 100).placeholder("B")]);
    assert!(env.heard().contains(&"new a on n1".to_owned()));
    env
}

#[test]
fn those_that_wait_have_no_more_time_when_the_last_placed_one_is_gone() {
    // The real ask takes its place, or is too large for it (R6.8).
    for (style, size) in [("Soft", 2), ("Hard", 2), ("Soft", 3), ("Hard", 3)] {
        let mut env = halved(style);
        env.pass(1);
        env.ask(vec![Ask::new("g", "ra", size).group("A"), Ask::new("g", "rb", 1).group("B")]);
        env.confirm_all();
        assert_eq!(env.heard()[1..], ["new ra on n1"], "{style} {size}");
        env.pass(1);
        assert_eq!(env.heard(), [""; 0], "{style} {size}");
        env.pass(1);
        assert_eq!(env.heard(), ["released b Timeout", "new rb on n1"], "{style} {size}");
        assert_eq!(env.state("g"), Some(AppState::Running));
        env.end(&["g"]);
    }
}

#[test]
fn when_none_is_left_that_waits_the_next_has_all_of_its_time() {
    // R3.39, R3.40
    let mut env = halved("Soft");
    env.ask(vec![Ask::new("g", "ra", 2).group("A")]);
    env.confirm_all();
    env.pass(2);
    env.release("g", "b", Termination::StoppedByRm);
    env.heard();
    env.ask(vec![Ask::new("g", "c", 100).placeholder("B"), Ask::new("g", "rc", 1).group("B")]);
    env.pass(2);
    assert_eq!(env.heard(), [""; 0]);
    env.pass(1);
    assert_eq!(env.heard(), ["released c Timeout", "new rc on n1"]);
    env.end(&["g"]);
}

#[test]
fn those_that_a_running_gang_lost_and_sends_anew_do_not_wait_for_ever() {
    for failed in [false, true] {
        let mut env = Env::calm(QUEUES);
        env.node("n1", 4);
        gang(&mut env, 4, 3, "Hard");
        env.ask((0..2).map(|n| Ask::new("g", &format!("p{n}"), 2).placeholder("tg")).collect());
        env.ask(vec![Ask::new("g", "large", 50)]);
        if failed {
            // R4.28: they wait again themselves.
            env.node_action("n1", NodeAction::Drain, None);
            for key in ["p0", "p1"] {
                env.release("g", key, Termination::FailedOnRm);
            }
        } else {
            env.node_action("n1", NodeAction::Decommission, None);
            env.ask((0..2).map(|n| Ask::new("g", &format!("q{n}"), 2).placeholder("tg")).collect());
        }
        env.node("n2", 1);
        env.ask(vec![Ask::new("g", "r0", 1).group("tg")]);
        assert_eq!(env.state("g"), Some(AppState::Running));
        env.pass(2);
        env.heard();
        env.pass(1);
        let timed_out = if failed {
            ["released p0 Timeout", "released p1 Timeout"]
        } else {
            ["released q0 Timeout", "released q1 Timeout"]
        };
        assert_eq!(env.heard(), [&timed_out[..], &["new r0 on n2"]].concat(), "{failed}");
        env.end(&["g"]);
    }
}

#[test]
fn a_gang_that_has_not_begun_waits_as_long_as_it_takes() {
    // R6.23, seed 003, 228-230: nobody knows how long its queue has no room for it, though its driver runs.
    let mut env = Env::calm(&QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 4}}\n"));
    env.node("n1", 5);
    gang(&mut env, 4, 3, "Hard");
    env.ask(vec![Ask::new("g", "driver", 1).originator()]);
    env.ask((0..2).map(|n| Ask::new("g", &format!("p{n}"), 2).placeholder("tg")).collect());
    env.heard();
    env.pass(600);
    assert_eq!(env.heard(), [""; 0]);
    env.release("g", "driver", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new p1 on n1".to_owned()));
}
