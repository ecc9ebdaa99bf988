//! What is withdrawn or dropped is told (SEEDS S31), and holds nothing any more (SEEDS S35).

use callboard::domain::{
    command::NodeAction,
    event::Detail,
    types::{AppState, Termination},
};

use super::env::{Ask, Env, QUEUES, res};

const USERS: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: a\n            \
                     limits: [{limit: one, users: ['*'], maxapplications: 1}]\n          - name: b\n            maxapplications: 1\n";

#[test]
fn a_release_of_a_pending_ask_is_confirmed_by_its_type() {
    // SEEDS S31
    for (sent, heard) in [
        (Termination::StoppedByRm, vec!["app-1 Completing", "released k1 StoppedByRm"]),
        (Termination::Unknown, vec!["app-1 Completing", "released k1 StoppedByRm"]),
        // R4.19, R4.20: these answer the core, and are not answered in turn.
        (Termination::Timeout, vec![]),
        (Termination::Preempted, vec!["app-1 Completing"]),
        (Termination::PlaceholderReplaced, vec!["app-1 Completing"]),
    ] {
        let mut env = Env::calm(QUEUES);
        env.app("app-1", "root.a");
        env.ask(vec![Ask::new("app-1", "k1", 10)]);
        env.heard();
        env.release("app-1", "k1", sent);
        assert_eq!(env.heard(), heard, "{sent:?}");
        env.release("app-1", "k1", Termination::StoppedByRm);
        let again: &[&str] =
            if sent == Termination::Timeout { &["app-1 Completing", "released k1 StoppedByRm"] } else { &[] };
        assert_eq!(env.heard(), again, "R4.26: once");
    }
}

#[test]
fn a_release_of_everything_confirms_what_waited_too() {
    // SEEDS S31, R4.23
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.app("app-1", "root.a");
    env.ask((0..4).map(|n| Ask::new("app-1", &format!("k{n}"), 10)).collect());
    env.heard();
    env.release("app-1", "", Termination::StoppedByRm);
    let mut heard = env.heard();
    heard.sort();
    assert_eq!(heard[0], "app-1 Completing");
    assert_eq!(heard[1..], ["k0", "k1", "k2", "k3"].map(|key| format!("released {key} StoppedByRm")));
    env.pass(31);
    env.assert_empty();
}

#[test]
fn what_an_expiring_application_loses_is_told_one_by_one() {
    // SEEDS S6, S31: pending real asks are rejected, pending placeholders released with TIMEOUT.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    env.limited("app-1", 5_000);
    env.ask(vec![Ask::new("app-1", "k0", 10)]);
    env.ask(vec![
        Ask::new("app-1", "k1", 10),
        Ask::new("app-1", "ph", 10).placeholder("tg"),
        Ask::new("app-1", "k2", 5),
    ]);
    env.heard();
    env.pass(6);
    let reason = "application app-1 expires: its execution time-out is over";
    assert_eq!(
        env.heard(),
        [
            &format!("rejected k1: {reason}"),
            "released ph Timeout",
            &format!("rejected k2: {reason}"),
            "released k0 Timeout"
        ]
    );
    // What comes now would be dropped with the application.
    env.ask(vec![Ask::new("app-1", "late", 1)]);
    assert_eq!(env.heard(), ["rejected late: application app-1 is Running and ends: it takes no more asks"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Expired"]);
    env.assert_empty();
}

#[test]
fn what_a_failing_application_loses_is_told_one_by_one() {
    // R6.19, R6.20, SEEDS S31
    let mut env = Env::calm(QUEUES);
    env.node("n1", 15);
    env.gang("app-1", "root.a", 20, "HARD");
    env.ask((1..3).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg"), Ask::new("app-1", "r2", 1)]);
    env.heard();
    env.pass(61);
    let reason = "application app-1 fails: its placeholders were not all allocated within their time-out";
    assert_eq!(
        env.heard(),
        [
            "released ph1 Timeout",
            "released ph2 Timeout",
            &format!("rejected r1: {reason}"),
            &format!("rejected r2: {reason}"),
            "app-1 Failing"
        ]
    );
    env.ask(vec![Ask::new("app-1", "late", 1)]);
    assert_eq!(env.heard(), ["rejected late: application app-1 is Failing and ends: it takes no more asks"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Failed"]);
    env.assert_empty();
}

#[test]
fn an_allocation_that_fails_at_the_shim_of_an_ending_application_is_rejected() {
    // R4.28, SEEDS S31: it cannot wait again.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.limited("app-1", 5_000);
    env.ask(vec![Ask::new("app-1", "k0", 10), Ask::new("app-1", "k1", 10)]);
    env.pass(6);
    env.heard();
    env.release("app-1", "k0", Termination::FailedOnRm);
    assert_eq!(env.heard(), ["rejected k0: application app-1 is Running and ends: it takes no more asks"]);
    env.release("app-1", "k1", Termination::Timeout);
    assert_eq!(env.heard(), ["app-1 Expired"]);
    env.assert_empty();
}

#[test]
fn what_the_shim_reports_of_an_ending_application_is_asked_back() {
    // R6.22, SEEDS S6: everything of it goes, whenever it comes.
    for hard in [true, false] {
        let mut env = Env::calm(QUEUES);
        env.node("n1", 40);
        if hard {
            env.gang("app-1", "root.a", 30, "Hard");
            env.ask((1..3).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
        } else {
            env.limited("app-1", 60_000);
            env.ask(vec![Ask::new("app-1", "k0", 10)]);
        }
        env.pass(61);
        env.heard();
        env.ask(vec![
            Ask::new("app-1", "late", 5).on("n1"),
            Ask::new("app-1", "late-ph", 5).placeholder("tg").on("n1"),
        ]);
        let told = ["new late on n1", "released late Timeout", "new late-ph on n1", "released late-ph Timeout"];
        assert_eq!(env.heard(), told, "{hard}");
        env.confirm_all();
        assert_eq!(env.heard(), [if hard { "app-1 Failed" } else { "app-1 Expired" }]);
        env.assert_empty();
    }
}

#[test]
fn whose_last_ask_is_withdrawn_does_not_count_among_the_running_ones_of_its_user() {
    // SEEDS S35, UGM-041: at once, not when it has completed.
    let mut env = Env::calm(USERS);
    env.node("n1", 10);
    env.app("app-1", "root.a");
    env.app("app-2", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10), Ask::new("app-1", "k2", 20)]);
    env.ask(vec![Ask::new("app-2", "k3", 5)]);
    env.release("app-1", "k1", Termination::StoppedByRm);
    assert_eq!(env.heard().last().map(String::as_str), Some("released k1 StoppedByRm"), "k2 still waits");
    assert_eq!(env.partition.ugm.users().count(), 1);
    env.release("app-1", "k2", Termination::StoppedByRm);
    assert_eq!(env.heard(), ["app-1 Completing", "released k2 StoppedByRm", "app-2 Running", "new k3 on n1"]);
    let alice = env.partition.ugm.user("alice").expect("listed");
    assert_eq!(alice.root.applications.iter().map(|id| &**id).collect::<Vec<_>>(), ["app-2"]);
    env.release("app-2", "k3", Termination::StoppedByRm);
    assert_eq!(env.partition.ugm.users().count(), 0, "SEEDS S28");
    // A completing one that asks again waits its turn like any other, and counts with its first allocation.
    env.ask(vec![Ask::new("app-1", "k4", 5)]);
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    assert_eq!(env.partition.ugm.user("alice").map(|user| user.root.applications.len()), Some(1));
}

#[test]
fn nor_does_it_hold_a_place_in_its_queue() {
    // SEEDS S35, QUE-090: an application that was accepted only, with a placeholder that went.
    let mut env = Env::calm(USERS);
    env.node("n1", 10);
    env.gang("gang", "root.b", 20, "Soft");
    env.ask((1..3).map(|n| Ask::new("gang", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.app("next", "root.b");
    env.ask(vec![Ask::new("next", "k1", 5)]);
    env.release("gang", "ph1", Termination::StoppedByRm);
    env.heard();
    assert_eq!((env.state("gang"), env.state("next")), (Some(AppState::Accepted), Some(AppState::Accepted)));
    env.release("gang", "ph2", Termination::StoppedByRm);
    let heard = env.heard();
    assert!(heard.contains(&"gang Completing".to_owned()), "{heard:?}");
    assert!(heard.contains(&"new k1 on n1".to_owned()), "the place is free at once: {heard:?}");
    let root = &env.partition.queues[env.partition.root];
    assert!(root.allocating.is_empty() && *root.allocated() == res(5, 5));
}

#[test]
fn an_application_whose_only_allocation_fails_at_the_shim_goes_on() {
    // R4.28, UGM-041: its ask waits again in the same moment, so nothing of it ends.
    let mut env = Env::calm(&USERS.replace("users: ['*']", "groups: [staff]"));
    env.node("n1", 10);
    env.app("app-1", "root.a");
    env.app("app-2", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.ask(vec![Ask::new("app-2", "k2", 5)]);
    env.heard();
    env.events.clear();
    env.node_action("n1", NodeAction::Drain, None);
    env.release("app-1", "k1", Termination::FailedOnRm);
    assert_eq!(env.heard(), [""; 0]);
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    assert!(env.events.iter().all(|event| event.detail != Detail::AppLink), "{:?}", env.events);
    env.node_action("n1", NodeAction::DrainToSchedulable, None);
    assert_eq!(env.heard(), ["new k1 on n1"], "app-2 has not taken its place");
}

#[test]
fn the_last_allocation_that_fails_at_the_shim_is_told_of_before_its_application_ends() {
    // SEEDS S31
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.limited("app-1", 5_000);
    env.ask(vec![Ask::new("app-1", "k0", 10)]);
    env.pass(6);
    env.heard();
    env.release("app-1", "k0", Termination::FailedOnRm);
    assert_eq!(
        env.heard(),
        ["rejected k0: application app-1 is Running and ends: it takes no more asks", "app-1 Expired"]
    );
    env.assert_empty();
}

#[test]
fn an_application_that_comes_back_begins_within_the_limits_of_applications() {
    // SEEDS S35, R3.13
    for queue in ["root.a", "root.b"] {
        for failed in [false, true] {
            let mut env = Env::calm(USERS);
            env.node("n1", 20);
            for (app, key) in [("first", "k1"), ("second", "k2")] {
                env.app(app, queue);
                env.ask(vec![Ask::new(app, key, 5)]);
            }
            assert_eq!(env.state("second"), Some(AppState::Accepted));
            if failed {
                // The shim could not carry it out: it waits again, and the other begins meanwhile or does not.
                env.release("first", "k1", Termination::FailedOnRm);
            } else {
                env.ask(vec![Ask::new("first", "large", 100)]);
                env.release("first", "k1", Termination::StoppedByRm);
                env.release("first", "large", Termination::StoppedByRm);
                assert_eq!(env.state("second"), Some(AppState::Running));
                env.ask(vec![Ask::new("first", "k3", 5)]);
                assert_eq!(env.state("first"), Some(AppState::Accepted), "{queue}");
            }
            let placed = || ["first", "second"].into_iter();
            let running = |env: &Env| placed().filter(|app| env.state(app) == Some(AppState::Running)).count();
            env.pass(5);
            assert_eq!(running(&env), 1, "{queue} {failed}");
            let runs = placed().find(|app| env.state(app) == Some(AppState::Running)).unwrap();
            let key = if runs == "second" { "k2" } else { "k1" };
            env.release(runs, key, Termination::StoppedByRm);
            env.pass(5);
            assert_eq!(running(&env), 1, "{queue} {failed}: the other one has its turn");
        }
    }
}
