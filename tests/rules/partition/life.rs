//! Nodes, applications, asks and releases.

use std::sync::Arc;

use callboard::domain::{
    command::{Command, NodeAction},
    types::{AppState, Nanos, Termination},
};

use super::env::{Ask, Env, QUEUES, res};

#[test]
fn from_registration_to_completion() {
    // R3.9, R3.11, R3.15, R3.19
    let mut env = Env::new(QUEUES);
    env.node("n1", 100);
    env.app("app-1", "root.a");
    assert_eq!(env.heard(), ["node n1", "accepted app-1"]);
    env.ask(vec![Ask::new("app-1", "k1", 10), Ask::new("app-1", "k2", 10)]);
    assert_eq!(env.heard(), ["app-1 Accepted", "app-1 Running", "new k1 on n1", "new k2 on n1"]);
    env.release("app-1", "k1", Termination::StoppedByRm);
    assert_eq!(env.heard(), ["released k1 StoppedByRm"]);
    env.release("app-1", "k2", Termination::StoppedByRm);
    assert_eq!(env.heard(), ["app-1 Completing", "released k2 StoppedByRm"]);
    env.pass(31);
    assert_eq!(env.heard(), ["app-1 Completed"]);
    assert_eq!(env.state("app-1"), None);
    assert_eq!(env.partition.terminated.len(), 1);
    env.assert_empty();
    env.pass(73 * 3600);
    assert_eq!(env.heard(), ["app-1 Expired"]);
    env.pass(24 * 3600);
    assert_eq!(env.partition.terminated.len(), 0);
}

#[test]
fn a_full_cluster_takes_the_next_when_one_leaves() {
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.app("app-1", "root.a");
    env.ask((0..4).map(|n| Ask::new("app-1", &format!("k{n}"), 10)).collect());
    assert_eq!(env.heard().len(), 6);
    env.release("app-1", "k0", Termination::StoppedByRm);
    assert_eq!(env.heard(), ["released k0 StoppedByRm", "new k2 on n1"]);
    env.node("n2", 5);
    env.heard();
    env.node_action("n2", NodeAction::Update, Some(res(10, 10)));
    assert_eq!(env.heard(), ["new k3 on n2"]);
}

#[test]
fn priorities_and_ages_order_the_asks() {
    // R5.22
    let mut env = Env::new(QUEUES);
    env.app("app-1", "root.a");
    env.ask(vec![
        Ask::new("app-1", "low", 10).priority(1),
        Ask::new("app-1", "old", 10).priority(5),
        Ask::new("app-1", "new", 5).priority(5),
    ]);
    env.heard();
    env.node("n1", 100);
    assert_eq!(env.heard(), ["node n1", "app-1 Running", "new old on n1", "new new on n1", "new low on n1"]);
}

/// A queue whose applications back off.
const PATIENT: &str = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    queues:\n    - name: a\n      \
     properties: {application.unschedasks.backoff: '2', application.unschedasks.backoff.delay: 10s}\n";

/// R5.26: asks that failed count as long as they would fail again, however they came.
#[test]
fn an_application_that_fails_on_nodes_is_left_alone_for_a_while() {
    let mut env = Env::calm(PATIENT);
    env.node("n1", 20);
    env.node("n2", 20);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "wide", 25)]);
    env.ask(vec![Ask::new("app-1", "small", 5)]);
    assert_eq!(env.heard().last().unwrap(), "new small on n1", "one is not enough");
    env.ask(vec![Ask::new("app-1", "broad", 24)]);
    env.ask(vec![Ask::new("app-1", "first", 5).priority(9)]);
    assert_eq!(env.heard().last().unwrap(), "new first on n2", "so many are none that come before the next");
    let backs_off = |env: &Env| {
        let partition = &env.partition;
        partition.apps[partition.app_by_id["app-1"]].backoff_until
    };
    assert_eq!(backs_off(&env), None);
    env.ask(vec![Ask::new("app-1", "next", 5)]);
    assert_eq!(env.heard(), [""; 0]);
    assert_eq!(backs_off(&env), Some(env.now.plus(Nanos::from_secs(10))));
    env.ask(vec![Ask::new("app-1", "urgent", 5).priority(9)]);
    env.pass(9);
    assert_eq!(env.heard(), [""; 0], "new asks do not end it");
    env.pass(2);
    assert_eq!(env.heard(), ["new urgent on n1"]);
    env.node("n3", 40);
    env.pass(10);
    assert_eq!(env.heard(), ["node n3", "new wide on n3", "new next on n2"]);
    env.node("n4", 50);
    assert_eq!(env.heard(), ["node n4", "new broad on n4"]);
}

/// R5.26: asks of one size are tried as one, and are as many.
#[test]
fn asks_of_one_size_that_fail_on_nodes_are_many() {
    for (asks, waits) in [(2, false), (3, true)] {
        let mut env = Env::calm(PATIENT);
        env.node("n1", 20);
        env.node("n2", 20);
        env.app("app-1", "root.a");
        for n in 0..asks {
            env.ask(vec![Ask::new("app-1", &format!("k{n}"), 25)]);
        }
        let partition = &env.partition;
        assert_eq!(partition.apps[partition.app_by_id["app-1"]].backoff_until.is_some(), waits, "{asks} asks");
    }
}

#[test]
fn a_back_off_is_no_longer_than_a_new_configuration_says() {
    // QUE-064
    for (properties, seconds) in [
        ("", 0),
        ("application.unschedasks.backoff: '0', application.unschedasks.backoff.delay: 10s", 0),
        ("application.unschedasks.backoff: '2', application.unschedasks.backoff.delay: 3s", 3),
        ("application.unschedasks.backoff: '2', application.unschedasks.backoff.delay: 1h", 9),
    ] {
        let mut env = Env::calm(PATIENT);
        env.node("n1", 20);
        env.node("n2", 20);
        env.app("app-1", "root.a");
        for n in 0..2 {
            env.ask(vec![Ask::new("app-1", &format!("wide-{n}"), 25)]);
        }
        env.ask(vec![Ask::new("app-1", "next", 5)]);
        env.ask(vec![Ask::new("app-1", "urgent", 5).priority(9)]);
        env.pass(1);
        env.heard();
        let (before, after) = PATIENT.split_once("{app").expect("properties");
        let after = after.split_once('}').expect("their end").1;
        env.reload(&format!("{before}{{{properties}}}{after}"));
        if seconds > 0 {
            env.pass(seconds - 1);
            assert_eq!(env.heard(), [""; 0], "{properties}");
            env.pass(1);
        }
        assert!(env.heard().contains(&"new urgent on n1".to_owned()), "{properties}");
    }
}

#[test]
fn a_removed_node_takes_its_allocations_with_it() {
    // R2.22, R2.27
    let mut env = Env::new(QUEUES);
    env.node("n1", 100);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.heard();
    env.node_action("n1", NodeAction::Decommission, None);
    assert_eq!(env.heard(), ["app-1 Completing", "released k1 StoppedByRm"]);
    assert!(env.partition.total.is_zero());
    env.release("app-1", "k1", Termination::StoppedByRm);
    env.pass(31);
    env.assert_empty();
}

#[test]
fn removal_in_every_state() {
    // R3.44
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.app("new", "root.a");
    env.heard();
    env.remove_app("new");
    assert!(env.heard().is_empty());
    env.app("pending", "root.a");
    env.ask(vec![Ask::new("pending", "k", 100)]);
    env.heard();
    env.remove_app("pending");
    assert_eq!(env.heard(), ["pending Completing", "pending Completed"]);
    env.app("running", "root.a");
    env.ask(vec![Ask::new("running", "k", 10)]);
    env.heard();
    env.remove_app("running");
    assert_eq!(env.heard(), ["running Completing", "released k StoppedByRm"]);
    assert!(env.partition.terminated.is_empty());
    env.assert_empty();
}

#[test]
fn an_execution_time_ends_an_application() {
    // SEEDS S6
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.limited("app-1", 5_000);
    env.ask(vec![Ask::new("app-1", "k1", 10), Ask::new("app-1", "k2", 100)]);
    env.heard();
    env.pass(6);
    let rejected = "rejected k2: application app-1 expires: its execution time-out is over";
    assert_eq!(env.heard(), ["k2 Failed", rejected, "released k1 Timeout"]);
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Expired"]);
    env.assert_empty();
}

#[test]
fn a_recovered_execution_time_goes_on_with_what_is_left() {
    // SEEDS S6, R3.41: 60 s; what is known of application and allocation, the later, is when it began.
    for (app_made, alloc_made, left) in
        [(Some(50), None, 10), (Some(50), Some(20), 40), (None, Some(20), 40), (None, None, 60), (Some(90), None, 0)]
    {
        let mut env = Env::new(QUEUES);
        env.node("n1", 20);
        let mut item = env.by("alice");
        item.id = "app-1".into();
        item.queue = "root.a".into();
        item.timeout_millis = 60_000;
        if let Some(ago) = app_made {
            let made = (env.now.0 / 1_000_000_000 - ago).to_string();
            item.tags = Arc::new([("yunikorn.apache.org/creationTime".to_owned(), made)].into());
        }
        env.add_app(item);
        let mut ask = Ask::new("app-1", "k1", 10).on("n1");
        ask.spec.created = alloc_made.map(|ago| env.now.minus(Nanos::from_secs(ago)));
        env.ask(vec![ask]);
        env.heard();
        if left > 0 {
            env.pass(left - 1);
            assert_eq!(env.heard(), [""; 0], "{app_made:?} {alloc_made:?}");
        }
        env.pass(1);
        assert_eq!(env.heard(), ["released k1 Timeout"], "{app_made:?} {alloc_made:?}");
        env.confirm_all();
        assert_eq!(env.heard(), ["app-1 Expired"]);
        env.assert_empty();
    }
}

#[test]
fn the_oldest_recovered_allocation_says_how_long_it_ran() {
    // SEEDS S6, in whichever order they are reported; what was made since it came says nothing.
    for ages in [[50, 1], [1, 50]] {
        let mut env = Env::new(QUEUES);
        env.node("n1", 30);
        env.limited("app-1", 60_000);
        for (n, ago) in ages.into_iter().enumerate() {
            let mut ask = Ask::new("app-1", &format!("k{n}"), 10).on("n1");
            ask.spec.created = Some(env.now.minus(Nanos::from_secs(ago)));
            env.ask(vec![ask]);
        }
        env.pass(4);
        let mut ask = Ask::new("app-1", "k2", 10).on("n1");
        ask.spec.created = Some(env.now.minus(Nanos::from_secs(3)));
        env.ask(vec![ask]);
        env.heard();
        env.pass(5);
        assert_eq!(env.heard(), [""; 0], "{ages:?}");
        env.pass(1);
        assert_eq!(env.heard().len(), 3, "{ages:?}");
        env.confirm_all();
        assert_eq!(env.state("app-1"), None);
        env.assert_empty();
    }
}

#[test]
fn the_order_of_nodes_follows_a_resize() {
    // R4.14, R2.31
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.node("n2", 100);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10), Ask::new("app-1", "k2", 10)]);
    env.ask(vec![Ask::new("app-1", "k1", 30)]);
    env.heard();
    env.ask(vec![Ask::new("app-1", "k3", 10)]);
    assert_eq!(env.heard(), ["new k3 on n2"]);
}

/// k1 ended with n1, and nobody has released it; k2 runs on n2.
fn lost() -> Env {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.node("n2", 100);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10), Ask::new("app-1", "k2", 10)]);
    env.node_action("n1", NodeAction::Decommission, None);
    env.heard();
    env
}

#[test]
fn the_key_of_what_ended_with_its_node_is_taken_until_it_is_released() {
    // R4.13, R2.22
    let mut env = lost();
    env.ask(vec![Ask::new("app-1", "k1", 20)]);
    assert_eq!(env.heard(), ["rejected k1: failed to find node n1"]);
    env.release("app-1", "k1", Termination::StoppedByRm);
    env.heard();
    env.ask(vec![Ask::new("app-1", "k1", 20)]);
    assert_eq!(env.heard(), ["new k1 on n2"]);
}

#[test]
fn what_ended_with_its_node_runs_again_where_the_shim_says_so() {
    // R4.13, R4.10
    for node in ["n1", "n2"] {
        let mut env = lost();
        env.ask(vec![Ask::new("app-1", "k1", 20).on("n2")]);
        assert_eq!(env.heard(), ["rejected k1: failed to find node n1"]);
        env.node("n1", 100);
        assert_eq!(env.heard(), ["node n1"]);
        env.ask(vec![Ask::new("app-1", "k1", 20)]);
        assert_eq!(env.heard(), ["rejected k1: failed to find node of allocation k1: it ended, release it first"]);
        env.ask(vec![Ask::new("app-1", "k1", 20).on(node)]);
        assert_eq!(env.heard(), [format!("new k1 on {node}")]);
        assert_eq!(env.partition.allocations, 2);
        env.release("app-1", "k1", Termination::StoppedByRm);
        env.release("app-1", "k2", Termination::StoppedByRm);
        env.pass(40);
        env.assert_empty();
    }
}

#[test]
fn an_ask_waits_for_its_required_node() {
    // R5.40, R5.42
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10).requires("n2"), Ask::new("app-1", "k2", 10)]);
    assert_eq!(env.heard().last().map(String::as_str), Some("new k2 on n1"));
    env.node_action("n2", NodeAction::CreateDrain, Some(res(20, 20)));
    assert_eq!(env.heard(), ["node n2", "new k1 on n2"]);
}

#[test]
fn an_impossible_required_ask_starves_nobody() {
    // R5.44 [DEFECT]
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.node("n2", 20);
    env.app("app-1", "root.a");
    env.heard();
    env.ask(vec![Ask::new("app-1", "k1", 30).requires("n2").priority(10), Ask::new("app-1", "k2", 10)]);
    assert_eq!(env.heard().last().map(String::as_str), Some("new k2 on n1"));
}

#[test]
fn reservations_are_made_after_two_seconds_and_used_first() {
    // R5.34, R5.31
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.node("n2", 8);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "small", 15)]);
    env.ask(vec![Ask::new("app-1", "big", 10)]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    env.heard();
    env.ask(vec![Ask::new("app-1", "tiny", 3)]);
    assert_eq!(env.heard(), ["new tiny on n2"]);
    env.release("app-1", "small", Termination::StoppedByRm);
    assert_eq!(env.heard(), ["released small StoppedByRm", "new big on n1"]);
    assert_eq!(env.partition.reservations, 0);
}

#[test]
fn a_drained_node_is_kept_only_for_what_requires_it() {
    // Seed 000 (DRAIN_NODE): no new allocation, also not for who had reserved it (R5.31, R5.38); daemons are placed (R5.42).
    let drains: [fn(&mut Env); 2] = [
        |env| env.node_action("n1", NodeAction::Drain, None),
        |env| {
            env.apply(Command::OperatorDrain { nodes: vec!["n1".into()], drained: true });
        },
    ];
    for (drain, requires) in drains.into_iter().flat_map(|drain| [(drain, false), (drain, true)]) {
        let mut env = Env::new(QUEUES);
        env.node("n1", 20);
        env.node("n2", 8);
        env.app("app-1", "root.a");
        env.ask(vec![Ask::new("app-1", "small", 15)]);
        let big = Ask::new("app-1", "big", 10);
        env.ask(vec![if requires { big.requires("n1") } else { big }]);
        env.pass(3);
        assert_eq!(env.partition.reservations, 1);
        drain(&mut env);
        assert_eq!(env.partition.reservations, u64::from(requires));
        env.heard();
        env.release("app-1", "small", Termination::StoppedByRm);
        env.pass(5);
        let heard = env.heard();
        assert_eq!(heard.contains(&"new big on n1".to_owned()), requires, "{heard:?}");
        if !requires {
            env.node("n3", 10);
            assert_eq!(env.heard(), ["node n3", "new big on n3"]);
        }
    }
}

#[test]
fn an_old_ask_moves_its_whole_application_forward() {
    // R3.49, R5.20: first in, first out, by the oldest ask or allocation that was ever reported.
    for recovered in [false, true] {
        let mut env = Env::new(QUEUES);
        for app in ["app-1", "app-2", "app-3"] {
            env.app(app, "root.a");
            env.now = env.now.plus(Nanos::from_secs(10));
        }
        let mut old = Ask::new("app-3", "old", 10);
        old.spec.created = Some(env.now.minus(Nanos::from_secs(3600)));
        if recovered {
            env.node("n0", 10);
            old = old.on("n0");
        }
        env.ask(vec![Ask::new("app-1", "k1", 10), Ask::new("app-2", "k2", 10), Ask::new("app-3", "k3", 10), old]);
        if !recovered {
            env.release("app-3", "old", Termination::StoppedByRm);
        }
        env.heard();
        env.node("n1", 20);
        let new: Vec<String> = env.heard().into_iter().filter(|text| text.starts_with("new")).collect();
        assert_eq!(new[0], "new k3 on n1", "the time stays when the ask has gone");
        assert_eq!(new[1], "new k1 on n1");
    }
}

#[test]
fn ended_applications_stay_for_three_to_four_days() {
    // R3.24, R3.25, R3.47, R3.48
    let hours = |env: &mut Env, count: i64| {
        for _ in 0..count {
            env.now = env.now.plus(Nanos::from_secs(3600));
            env.apply(Command::Tick);
        }
    };
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.app("app-1", "root.a");
    env.app("lost", "root.nowhere");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.release("app-1", "k1", Termination::StoppedByRm);
    env.pass(31);
    assert_eq!((env.partition.terminated.len(), env.partition.rejected.len()), (1, 1));
    hours(&mut env, 71);
    assert_eq!((env.partition.terminated.len(), env.partition.rejected.len()), (1, 1));
    // The same id again meanwhile: both lives are listed.
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.release("app-1", "k1", Termination::StoppedByRm);
    env.pass(31);
    assert_eq!(env.partition.terminated.len(), 2);
    hours(&mut env, 25);
    assert_eq!((env.partition.terminated.len(), env.partition.rejected.len()), (1, 0));
    hours(&mut env, 75);
    assert_eq!(env.partition.terminated.len(), 0);
    env.assert_empty();
}

#[test]
fn whatever_a_release_of_all_finds_the_application_completes_thirty_seconds_later() {
    // R4.23a
    fn real(env: &mut Env) {
        env.ask(vec![Ask::new("app-1", "real", 10)]);
    }
    fn placeholder(env: &mut Env) {
        env.ask(vec![Ask::new("app-1", "ph", 10).placeholder("tg")]);
    }
    let both = |env: &mut Env| {
        real(env);
        placeholder(env);
    };
    let reversed = |env: &mut Env| {
        placeholder(env);
        real(env);
    };
    // The real one has gone, and the time of Completing runs.
    let completing = |env: &mut Env| {
        real(env);
        placeholder(env);
        env.release("app-1", "real", Termination::StoppedByRm);
        env.pass(20);
    };
    // It is over, and the placeholder was asked back.
    let over = |env: &mut Env| {
        real(env);
        placeholder(env);
        env.release("app-1", "real", Termination::StoppedByRm);
        env.pass(40);
    };
    let begins: [fn(&mut Env); 6] = [real, placeholder, both, reversed, completing, over];
    for (begin, termination) in
        begins.into_iter().flat_map(|begin| [(begin, Termination::StoppedByRm), (begin, Termination::Timeout)])
    {
        let mut env = Env::new(QUEUES);
        env.node("n1", 100);
        env.app("app-1", "root.a");
        begin(&mut env);
        env.release("app-1", "", termination);
        assert_eq!(env.state("app-1"), Some(AppState::Completing));
        env.pass(29);
        assert_eq!(env.state("app-1"), Some(AppState::Completing));
        env.pass(2);
        assert_eq!(env.state("app-1"), None);
        env.assert_empty();
    }
}

#[test]
fn the_last_release_is_told_before_the_end_of_its_application() {
    // SEEDS S13
    let completing = || {
        let mut env = Env::new(QUEUES);
        env.node("n1", 100);
        env.node("n2", 100);
        env.gang("app-1", "root.a", 10, "Soft");
        env.ask(vec![Ask::new("app-1", "ph", 10).placeholder("tg").on("n1"), Ask::new("app-1", "real", 10).on("n2")]);
        env.release("app-1", "real", Termination::StoppedByRm);
        assert_eq!(env.state("app-1"), Some(AppState::Completing));
        env.heard();
        env
    };
    let failing = || {
        let mut env = Env::new(QUEUES);
        env.node("n1", 100);
        env.gang("app-1", "root.a", 20, "Hard");
        env.ask(vec![Ask::new("app-1", "ph", 10).placeholder("tg").on("n1")]);
        env.pass(61);
        assert_eq!(env.state("app-1"), Some(AppState::Failing));
        env.heard();
        env
    };
    let node = |env: &mut Env| env.node_action("n1", NodeAction::Decommission, None);
    let one = |env: &mut Env| env.release("app-1", "ph", Termination::StoppedByRm);
    let all = |env: &mut Env| env.release("app-1", "", Termination::StoppedByRm);
    for goes in [node, one] {
        let mut env = completing();
        goes(&mut env);
        assert_eq!(env.heard(), ["released ph StoppedByRm", "app-1 Completed"]);
        env.assert_empty();
    }
    for goes in [node, one, all] {
        let mut env = failing();
        goes(&mut env);
        assert_eq!(env.heard(), ["released ph StoppedByRm", "app-1 Failed"]);
        env.assert_empty();
    }
}

#[test]
fn what_was_refused_under_an_id_says_nothing_of_who_has_it_now() {
    // R3.5, R3.26
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.app("app-1", "root.nowhere");
    assert!(env.partition.rejected.contains_key("app-1"));
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.app("app-2", "root.nowhere");
    env.heard();
    env.pass(73 * 3600);
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    assert_eq!(env.heard(), ["app-2 Expired"]);
}
