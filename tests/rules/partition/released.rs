//! Releases of the shim that cross one of the scheduler's.

use callboard::domain::{
    command::{Command, NodeAction},
    effect::{Callback, Effect},
    event::{Change, Detail, EventKind},
    types::{AppState, Termination},
};

use super::env::{Ask, Env, QUEUES};

const NOTHING: [&str; 0] = [];

fn placeholders(env: &mut Env, keys: &[&str]) {
    env.ask(keys.iter().map(|key| Ask::new("app-1", key, 10).placeholder("tg")).collect());
}

/// A gang of three of which two have a place.
fn two_of_three(style: &str) -> Env {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.gang("app-1", "root.a", 30, style);
    placeholders(&mut env, &["ph1", "ph2", "ph3"]);
    env
}

/// A gang that runs: r1 has taken the place of ph1, and ph2 is left.
fn one_left() -> Env {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.gang("app-1", "root.a", 20, "Soft");
    placeholders(&mut env, &["ph1", "ph2"]);
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.confirm_all();
    env
}

/// The shim could not place `key`, and hears at the same time that it is to go.
fn crosses(env: &mut Env, key: &str, then: &[&str]) {
    assert!(env.heard().contains(&format!("released {key} Timeout")));
    env.release("app-1", key, Termination::FailedOnRm);
    assert_eq!(env.heard(), then);
    env.release("app-1", key, Termination::Timeout);
    assert_eq!(env.heard(), NOTHING, "nothing is left of it");
    assert!(env.partition.alloc("app-1", key).is_none());
}

#[test]
fn a_placeholder_of_a_running_application_that_was_told_to_go_does_not_wait_again() {
    // R4.28, R6.17
    let mut env = one_left();
    env.pass(61);
    crosses(&mut env, "ph2", &[]);
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    // The key may be used again (R4.19).
    placeholders(&mut env, &["ph2"]);
    assert_eq!(env.heard(), ["new ph2 on n1"]);
}

#[test]
fn nor_does_one_of_a_completing_application() {
    // R4.28, R6.18
    let mut env = one_left();
    env.release("app-1", "r1", Termination::StoppedByRm);
    env.pass(31);
    crosses(&mut env, "ph2", &["app-1 Completed"]);
    env.assert_empty();
}

#[test]
fn nor_does_one_of_a_gang_that_timed_out() {
    // R4.28, R6.21
    let mut env = two_of_three("Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.pass(61);
    crosses(&mut env, "ph1", &[]);
    assert_eq!(env.state("app-1"), Some(AppState::Resuming));
    env.release("app-1", "ph2", Termination::Timeout);
    assert_eq!(env.heard(), ["app-1 Accepted", "app-1 Running", "new r1 on n1"], "no placeholder holds it");
}

#[test]
fn nor_does_one_that_is_too_small_for_what_is_to_replace_it() {
    // R4.28, R6.8
    let mut env = Env::calm(QUEUES);
    env.node("n1", 15);
    env.gang("app-1", "root.a", 20, "Soft");
    placeholders(&mut env, &["ph1"]);
    env.ask(vec![Ask::new("app-1", "r1", 15).group("tg")]);
    assert_eq!(env.state("app-1"), Some(AppState::Accepted));
    crosses(&mut env, "ph1", &["app-1 Running", "new r1 on n1"]);
}

#[test]
fn a_placeholder_that_was_to_be_replaced_waits_again() {
    // R4.28, R6.26a: its ask was not told to go for good.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    env.gang("app-1", "root.a", 10, "Soft");
    placeholders(&mut env, &["ph1"]);
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.node_action("n1", NodeAction::Drain, None);
    env.release("app-1", "ph1", Termination::FailedOnRm);
    assert!(env.partition.alloc("app-1", "ph1").expect("a row").is_pending());
}

#[test]
fn a_gang_that_runs_does_not_fail_as_it_announced_another_sum() {
    // Seed 003, 236-241; R6.17, R6.18: nothing of it is pending, and one of its real asks has its place.
    for (style, announced) in [("Hard", 19), ("Hard", 30), ("Soft", 19), ("Soft", 30)] {
        let mut env = Env::calm(QUEUES);
        env.node("n1", 20);
        env.gang("app-1", "root.a", announced, style);
        placeholders(&mut env, &["ph1", "ph2"]);
        env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
        env.confirm_all();
        env.heard();
        env.pass(61);
        assert_eq!(env.heard(), ["released ph2 Timeout", "app-1 Running"], "{style} {announced}");
        env.confirm_all();
        assert!(env.partition.alloc("app-1", "r1").is_some_and(|row| row.is_allocated()), "{style} {announced}");
    }
}

#[test]
fn a_release_of_what_went_before_is_confirmed() {
    // R4.19, SEEDS S31: what went with its node, or by a time-out of the shim's own, is still known by its ask.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.node("n2", 20);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10).on("n1"), Ask::new("app-1", "k2", 10).on("n2")]);
    env.release("app-1", "k2", Termination::Timeout);
    env.node_action("n1", NodeAction::Decommission, None);
    env.heard();
    for key in ["k1", "k2"] {
        env.release("app-1", key, Termination::StoppedByRm);
        assert_eq!(env.heard(), [format!("released {key} StoppedByRm")]);
        env.release("app-1", key, Termination::StoppedByRm);
        assert_eq!(env.heard(), NOTHING, "R4.26");
    }
}

#[test]
fn an_application_that_has_something_real_runs_when_its_last_placeholder_went() {
    // R3.11, R3.22: what came while it was Resuming made it Accepted only.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.gang("app-1", "root.a", 30, "Soft");
    placeholders(&mut env, &["ph1"]);
    env.pass(61);
    assert_eq!(env.state("app-1"), Some(AppState::Resuming));
    env.ask(vec![Ask::new("app-1", "r1", 10)]);
    assert_eq!(env.state("app-1"), Some(AppState::Accepted));
    env.confirm_all();
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    // R6.29: the first replacement of an incomplete gang changes no state, but with the last placeholder it is one no more.
    env.gang("app-2", "root.a", 30, "Soft");
    env.remove_app("app-1");
    env.ask(vec![Ask::new("app-2", "p1", 10).placeholder("tg")]);
    env.ask(vec![Ask::new("app-2", "r1", 10).group("tg")]);
    env.confirm_all();
    assert_eq!(env.state("app-2"), Some(AppState::Running));
}

#[test]
fn a_gang_that_times_out_again_while_a_part_of_it_runs_does_not_stop_half_way() {
    // R6.17, R3.22: it runs from then on, from Resuming too, and not only when its last placeholder goes.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 40);
    env.gang("app-1", "root.a", 30, "Soft");
    placeholders(&mut env, &["ph1", "ph2"]);
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.confirm_all();
    env.ask(vec![Ask::new("app-1", "ph3", 90).placeholder("tg")]);
    env.pass(61);
    assert_eq!(env.state("app-1"), Some(AppState::Resuming), "R6.29: r1 alone made no gang of it");
    placeholders(&mut env, &["ph4"]);
    env.heard();
    env.pass(61);
    assert_eq!(env.heard(), ["released ph4 Timeout", "app-1 Accepted", "app-1 Running"]);
    env.confirm_all();
    assert_eq!(env.heard(), NOTHING);
}

#[test]
fn a_placeholder_that_times_out_while_its_application_runs_is_told_of_as_an_ask_that_went() {
    // EVT-024, R6.17
    let mut env = one_left();
    env.pass(61);
    env.confirm_all();
    let went = |event: &&callboard::domain::event::Event| {
        event.kind == EventKind::App && event.change == Change::Remove && event.detail == Detail::RequestTimeout
    };
    let went: Vec<String> = env.events.iter().filter(went).map(|event| event.reference.to_string()).collect();
    assert_eq!(went, ["ph2"]);
}

#[test]
fn a_partition_that_ends_tells_of_its_queues_and_limits_and_of_each_application_once() {
    // EVT-022, EVT-041, EVT-054
    let limits = "limits: [{limit: all, users: [alice], maxapplications: 9}]";
    let mut env = Env::calm(&QUEUES.replace("- name: a\n", &format!("- name: a\n            {limits}\n")));
    env.node("n1", 20);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.release("app-1", "k1", Termination::StoppedByRm);
    assert_eq!(env.state("app-1"), Some(AppState::Completing));
    let made = env.partition.queue_by_path.len();
    env.events.clear();
    env.stop(1);
    let told = |kind: EventKind, change: Change, detail: Detail| {
        let one = |event: &&callboard::domain::event::Event| {
            (event.kind, event.change, event.detail) == (kind, change, detail)
        };
        env.events.iter().filter(one).map(|event| event.object.to_string()).collect::<Vec<_>>()
    };
    let queues = told(EventKind::Queue, Change::Remove, Detail::QueueConfig);
    assert_eq!((queues.len(), queues.last().map(String::as_str)), (made, Some("root")));
    assert_eq!(told(EventKind::UserGroup, Change::Remove, Detail::UserLimit), ["alice"]);
    assert_eq!(told(EventKind::App, Change::Set, Detail::AppCompleted), ["app-1"]);
}

#[test]
fn an_application_that_had_ended_already_is_completed_when_its_partition_goes() {
    // R3.2, R3.3, CFG-095
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    for app in ["done", "runs"] {
        env.app(app, "root.a");
        env.ask(vec![Ask::new(app, app, 10)]);
    }
    env.release("done", "done", Termination::StoppedByRm);
    let (mut partition, mut effects) = (env.partition.clone(), Vec::new());
    partition.apply(Command::Stop, env.now, &mut effects);
    while partition.dismantle(1, env.now, &mut effects) {}
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Callback(Callback::UpdatedApplication { app, state, message, .. }) => {
            Some(format!("{app} {state}: {message}"))
        }
        _ => None,
    });
    let told: Vec<String> = told.collect();
    assert_eq!(
        told,
        ["done Completed: completeApplication", "runs Failing: PartitionRemoved", "runs Failed: PartitionRemoved"]
    );
}
