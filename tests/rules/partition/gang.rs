//! Gangs: the handshake and everything that may come between.

use callboard::domain::{
    command::NodeAction,
    types::{AppState, Termination},
};

use super::env::{Ask, Env, QUEUES, res};

/// Two placeholders of one group on n1, allocated: the gang is there.
fn two(style: &str) -> Env {
    let mut env = Env::new(QUEUES);
    env.node("n1", 100);
    env.gang("app-1", "root.a", 20, style);
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg"), Ask::new("app-1", "ph2", 10).placeholder("tg")]);
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    env.heard();
    env
}

#[test]
fn the_happy_path() {
    // R6.13–R6.16
    let mut env = two("Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg"), Ask::new("app-1", "r2", 10).group("tg")]);
    assert_eq!(env.heard(), ["released ph1 PlaceholderReplaced", "released ph2 PlaceholderReplaced"]);
    env.release("app-1", "ph1", Termination::PlaceholderReplaced);
    assert_eq!(env.heard(), ["new r1 on n1"]);
    env.release("app-1", "ph1", Termination::PlaceholderReplaced);
    assert!(env.heard().is_empty());
    env.release("app-1", "ph2", Termination::PlaceholderReplaced);
    assert_eq!(env.heard(), ["new r2 on n1"]);
    env.end(&["app-1"]);
}

#[test]
fn a_single_placeholder_blinks() {
    // R3.18
    let mut env = Env::new(QUEUES);
    env.node("n1", 100);
    env.gang("app-1", "root.a", 10, "Soft");
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.heard();
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Completing", "app-1 Running", "new r1 on n1"]);
}

#[test]
fn a_larger_real_ask_cancels_placeholders() {
    // R6.8
    let mut env = two("Soft");
    env.ask(vec![Ask::new("app-1", "r1", 15).group("tg")]);
    assert_eq!(env.heard(), ["released ph1 Timeout", "released ph2 Timeout"]);
    env.confirm_all();
    assert!(env.heard().contains(&"new r1 on n1".to_owned()));
    env.end(&["app-1"]);
}

#[test]
fn the_node_goes_while_a_replacement_waits() {
    // R2.24: both sides are on it: the real ask waits again.
    let mut env = two("Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.heard();
    env.node_action("n1", NodeAction::Decommission, None);
    env.node("n2", 100);
    assert!(env.heard().contains(&"new r1 on n2".to_owned()));
    env.confirm_all();
    env.end(&["app-1"]);
}

#[test]
fn the_real_ask_is_released_while_its_replacement_waits() {
    // R4.27 [DEFECT]: the swap is cancelled, nothing new comes.
    let mut env = two("Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.release("app-1", "r1", Termination::StoppedByRm);
    env.heard();
    env.confirm_all();
    assert!(env.heard().is_empty());
    assert_eq!(env.partition.placeholders, 1);
    env.end(&["app-1"]);
}

#[test]
fn a_confirmation_without_a_replacement_removes_the_placeholder() {
    // R6.24 [DEFECT]
    let mut env = two("Soft");
    env.release("app-1", "ph1", Termination::PlaceholderReplaced);
    assert_eq!(env.partition.placeholders, 1);
    env.end(&["app-1"]);
}

#[test]
fn the_shim_releases_the_placeholder_itself() {
    // R6.26a [DEFECT]
    let mut env = two("Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.heard();
    env.release("app-1", "ph1", Termination::StoppedByRm);
    assert_eq!(env.heard()[0], "released ph1 StoppedByRm");
    env.unconfirmed.retain(|r| *r.key != *"ph1");
    env.confirm_all();
    env.end(&["app-1"]);
}

#[test]
fn a_late_confirmation_is_stale() {
    // R6.16
    let mut env = two("Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    let late = env.unconfirmed.clone();
    env.end(&["app-1"]);
    env.heard();
    for release in late {
        env.release(&release.app, &release.key, release.termination);
    }
    assert!(env.heard().is_empty());
    env.assert_empty();
}

#[test]
fn soft_time_out_keeps_real_asks() {
    // R6.19–R6.21, SEEDS S10, S13
    let mut env = Env::new(QUEUES);
    env.node("n1", 25);
    env.gang("app-1", "root.a", 30, "Soft");
    env.ask((1..=3).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.heard();
    env.pass(61);
    let heard: Vec<String> = env.heard().into_iter().filter(|t| !t.ends_with("Failed")).collect();
    assert_eq!(heard, ["released ph1 Timeout", "released ph2 Timeout", "released ph3 Timeout", "app-1 Resuming"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Accepted", "app-1 Running", "new r1 on n1"]);
    env.end(&["app-1"]);
}

#[test]
fn what_ends_while_it_resumes_completes_it() {
    // R3.15, R3.16: in whichever order the real one ends and the last placeholder is confirmed.
    for real_first in [true, false] {
        let mut env = Env::new(QUEUES);
        env.node("n1", 100);
        env.gang("app-1", "root.a", 30, "Soft");
        env.ask((1..=2).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
        env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
        env.confirm_all();
        env.ask(vec![Ask::new("app-1", "ph3", 95).placeholder("tg")]);
        env.pass(61);
        assert_eq!(env.state("app-1"), Some(AppState::Resuming));
        let is_left = |key: &&str| env.partition.alloc("app-1", key).is_some_and(|row| row.is_allocated());
        let left = ["ph1", "ph2"].into_iter().find(is_left).expect("one is left");
        let mut keys = [("r1", Termination::StoppedByRm), (left, Termination::Timeout)];
        if !real_first {
            keys.reverse();
        }
        for (key, termination) in keys {
            env.release("app-1", key, termination);
        }
        assert_eq!(env.state("app-1"), Some(AppState::Completing), "{real_first}");
        env.pass(31);
        assert_eq!(env.state("app-1"), None);
        env.assert_empty();
    }
}

#[test]
fn hard_time_out_fails_the_application() {
    // R6.22
    let mut env = Env::new(QUEUES);
    env.node("n1", 25);
    env.gang("app-1", "root.a", 30, "Hard");
    env.ask((1..=3).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.pass(61);
    assert_eq!(env.state("app-1"), Some(AppState::Failing));
    env.heard();
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Failed"]);
    env.assert_empty();
}

#[test]
fn unused_placeholders_go_when_the_application_completes() {
    // R3.19, R6.18
    let mut env = two("Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.confirm_all();
    env.release("app-1", "r1", Termination::StoppedByRm);
    assert_eq!(env.state("app-1"), Some(AppState::Completing));
    env.heard();
    env.pass(31);
    assert_eq!(env.heard(), ["released ph2 Timeout"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Completed"]);
    env.assert_empty();
}

#[test]
fn a_gang_starts_when_its_queue_has_room_for_all_of_it() {
    // SEEDS S11
    let yaml = QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 25}}\n");
    let mut env = Env::new(&yaml);
    env.node("n1", 100);
    env.app("other", "root.a");
    env.ask(vec![Ask::new("other", "k1", 10)]);
    env.gang("app-1", "root.a", 20, "Soft");
    env.heard();
    env.ask(vec![Ask::new("app-1", "q1", 10).placeholder("tg"), Ask::new("app-1", "q2", 10).placeholder("tg")]);
    assert_eq!(env.heard(), ["app-1 Accepted", "q1 Skipped", "q2 Skipped"]);
    env.release("other", "k1", Termination::StoppedByRm);
    let heard = env.heard();
    assert!(heard.contains(&"new q1 on n1".to_owned()) && heard.contains(&"new q2 on n1".to_owned()), "{heard:?}");
}

#[test]
fn a_gang_begins_when_another_waits_for_less() {
    // SEEDS S11: what a gang that has begun still waits for counts as used, as long as it does.
    let mut env = Env::new(&QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 41}}\n"));
    env.node("n1", 15);
    env.gang("app-1", "root.a", 30, "Soft");
    env.ask(["q1", "q2", "q3"].map(|key| Ask::new("app-1", key, 10).placeholder("tg")).into());
    env.gang("app-2", "root.a", 15, "Soft");
    env.ask(["g1", "g2", "g3"].map(|key| Ask::new("app-2", key, 5).placeholder("tg")).into());
    assert_eq!(env.partition.placeholders, 1, "10 + 20 + 15 are too much");
    env.heard();
    env.release("app-1", "q3", Termination::StoppedByRm);
    let heard = env.heard();
    assert!(heard.contains(&"new g1 on n1".to_owned()), "{heard:?}");
}

#[test]
fn real_asks_wait_until_the_gang_is_there() {
    // SEEDS S10
    let mut env = Env::new(QUEUES);
    env.node("n1", 15);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg"), Ask::new("app-1", "ph2", 10).placeholder("tg")]);
    env.heard();
    env.ask(vec![Ask::new("app-1", "r1", 5)]);
    assert!(env.heard().is_empty());
    env.node("n2", 15);
    assert_eq!(env.heard(), ["node n2", "app-1 Running", "new ph2 on n2", "new r1 on n1"]);
}

#[test]
fn a_swap_on_a_node_that_is_too_full_already() {
    // R6.9, R6.15: it makes the node no fuller.
    let full = |late: bool| {
        let mut env = Env::new(QUEUES);
        env.node("n1", 20);
        env.gang("app-1", "root.a", 10, "Soft");
        env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
        let fill = |env: &mut Env| {
            let mut foreign = Ask::new("", "f1", 16).on("n1");
            foreign.spec.foreign = Some(callboard::domain::alloc::Foreign::Static);
            env.ask(vec![foreign]);
        };
        if !late {
            fill(&mut env);
        }
        env.heard();
        env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
        assert_eq!(env.heard(), ["released ph1 PlaceholderReplaced"]);
        if late {
            fill(&mut env);
        }
        env
    };
    for late in [false, true] {
        let mut env = full(late);
        env.confirm_all();
        assert!(env.heard().contains(&"new r1 on n1".to_owned()), "{late}: {:?}", env.told);
        // SEEDS S25: one that shrinks meanwhile is another matter, one that has grown again is not.
        for (capacity, stays) in [(19, false), (20, true)] {
            let mut env = full(late);
            env.node_action("n1", NodeAction::Update, Some(res(18, 18)));
            env.node_action("n1", NodeAction::Update, Some(res(capacity, capacity)));
            env.confirm_all();
            assert_eq!(env.heard().contains(&"new r1 on n1".to_owned()), stays, "{late} {capacity}");
        }
    }
}

#[test]
fn a_placeholder_that_completes_the_gang_while_others_are_on_their_way_out_makes_it_run() {
    // R3.12: it is Resuming, with a placeholder that timed out and is not confirmed.
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    env.pass(61);
    assert_eq!(env.state("app-1"), Some(AppState::Resuming));
    env.ask(vec![Ask::new("app-1", "late", 10).placeholder("tg")]);
    assert_eq!(env.state("app-1"), Some(AppState::Accepted));
    env.confirm_all();
    env.end(&["app-1"]);
}

#[test]
fn the_key_of_a_placeholder_that_timed_out_is_free_when_its_node_is_gone() {
    // R6.19, R4.19: the scheduler itself asked for its release.
    let mut env = Env::new(QUEUES);
    env.node("n1", 10);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    env.pass(61);
    env.node_action("n1", NodeAction::Decommission, None);
    env.confirm_all();
    env.node("n2", 10);
    env.heard();
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    assert!(env.heard().contains(&"new ph1 on n2".to_owned()), "{:?}", env.told);
    env.end(&["app-1"]);
}

#[test]
fn what_loses_all_with_a_node_has_its_time_for_new_asks() {
    // R3.15, R3.17, R2.27: whatever the keys are called.
    for key in ["a-real", "z-real"] {
        let mut env = Env::new(QUEUES);
        env.node("n1", 20);
        env.gang("app-1", "root.a", 20, "Soft");
        env.ask(["m1", "m2"].map(|key| Ask::new("app-1", key, 10).placeholder("tg")).into());
        env.ask(vec![Ask::new("app-1", key, 10).group("tg")]);
        env.confirm_all();
        assert!(env.heard().contains(&format!("new {key} on n1")));
        env.node_action("n1", NodeAction::Decommission, None);
        assert_eq!(env.state("app-1"), Some(AppState::Completing), "{:?}", env.told);
        env.node("n2", 20);
        env.ask(vec![Ask::new("app-1", "again", 10)]);
        assert!(env.heard().contains(&"new again on n2".to_owned()), "{key}");
    }
}
