//! Real asks that come before the first placeholder of their gang (SEEDS S10), and beside a swap in flight (SEEDS S32).

use callboard::domain::{
    command::AddApplication,
    partition::{Explainer, Why},
    types::{AppState, Termination},
};

use super::env::{Ask, Env, QUEUES, res};

fn why(env: &Env, app: &str) -> Vec<(String, Why)> {
    let mut explainer = Explainer::new(&env.partition);
    let waiting = explainer.application(env.partition.app_by_id[app], env.now);
    waiting.into_iter().map(|w| (env.partition.allocs[w.first].spec.key.to_string(), w.why)).collect()
}

fn begun() -> Env {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg"), Ask::new("app-1", "plain", 5)]);
    env.heard();
    env
}

#[test]
fn real_asks_wait_for_the_first_placeholder() {
    // SEEDS S10: in whatever order they come over the wire.
    let mut env = begun();
    assert_eq!(env.state("app-1"), Some(AppState::Accepted));
    let until = env.now.plus(callboard::domain::types::Nanos::from_secs(60));
    assert_eq!(why(&env, "app-1"), ["r1", "plain"].map(|key| (key.to_owned(), Why::GangToCome(until))));
    env.pass(30);
    env.ask((1..3).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    assert_eq!(
        env.heard(),
        ["new ph1 on n1", "app-1 Running", "new ph2 on n1", "released ph1 PlaceholderReplaced", "new plain on n1"]
    );
    env.confirm_all();
    assert_eq!(env.heard(), ["new r1 on n1"]);
    env.end(&["app-1"]);
}

#[test]
fn at_most_for_the_placeholder_time_out_from_the_first_that_waits_on() {
    let mut env = begun();
    env.pass(30);
    env.ask(vec![Ask::new("app-1", "later", 5)]);
    env.pass(29);
    assert_eq!(env.heard(), Vec::<String>::new());
    env.pass(1);
    assert_eq!(env.heard(), ["app-1 Running", "new r1 on n1", "new plain on n1", "new later on n1"]);
    // Nothing waits any more, also where placeholders come after all.
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    env.ask(vec![Ask::new("app-1", "more", 5)]);
    assert_eq!(env.heard(), ["new ph1 on n1", "new more on n1"]);
}

#[test]
fn placeholders_that_are_announced_and_never_sent_hold_nothing_once_one_has_come() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.gang("app-1", "root.a", 30, "Soft");
    env.ask(vec![Ask::new("app-1", "r1", 5)]);
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    assert_eq!(env.heard()[3..], ["new ph1 on n1", "app-1 Running", "new r1 on n1"]);
    // The same where it is withdrawn at once.
    let mut env = begun();
    env.node_action("n1", callboard::domain::command::NodeAction::Drain, None);
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    env.release("app-1", "ph1", Termination::StoppedByRm);
    env.heard();
    env.node_action("n1", callboard::domain::command::NodeAction::DrainToSchedulable, None);
    assert_eq!(env.heard(), ["app-1 Running", "new r1 on n1", "new plain on n1"]);
}

#[test]
fn an_originator_does_not_wait_and_lets_nobody_pass() {
    // SEEDS S10: a driver has to run for its executors to be asked for.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("app-1", "driver", 5).originator()]);
    assert_eq!(env.heard()[2..], ["app-1 Accepted", "app-1 Running", "new driver on n1"]);
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg"), Ask::new("app-1", "second", 5).originator()]);
    assert_eq!(env.heard(), ["new second on n1"]);
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    assert_eq!(env.heard(), ["new ph1 on n1", "released ph1 PlaceholderReplaced"]);
}

#[test]
fn a_recovered_gang_whose_placeholders_are_gone_waits_for_none() {
    // R6.28: what came with a node was placed before.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg").on("n1")]);
    env.ask(vec![Ask::new("app-1", "r2", 10).group("tg")]);
    assert_eq!(env.heard()[2..], ["app-1 Accepted", "app-1 Running", "new r1 on n1", "new r2 on n1"]);
}

#[test]
fn a_recovered_gang_of_which_the_driver_alone_is_left_waits_for_none() {
    // R6.28: the placeholder that the driver replaced came before the shim registered again, and none comes any more.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("app-1", "driver", 5).originator().group("driver").on("n1")]);
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    assert_eq!(env.heard()[2..], ["app-1 Accepted", "app-1 Running", "new driver on n1", "new r1 on n1"]);
}

#[test]
fn applications_without_an_announcement_wait_for_nothing() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    assert_eq!(env.heard()[2..], ["app-1 Accepted", "app-1 Running", "new r1 on n1"]);
}

#[test]
fn one_that_goes_while_it_waits_leaves_no_timer() {
    let mut env = begun();
    env.remove_app("app-1");
    env.app("app-2", "root.a");
    env.heard();
    env.pass(120);
    assert_eq!(env.heard(), Vec::<String>::new());
    env.assert_empty();
}

#[test]
fn a_swap_in_flight_holds_up_its_own_ask_only() {
    // SEEDS S32
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    let item = AddApplication {
        id: "app-1".into(),
        queue: "root.a".into(),
        placeholder_ask: Some(res(20, 20)),
        ..env.by("alice")
    };
    env.add_app(item);
    env.ask((1..3).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.heard();
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    assert_eq!(env.heard(), ["released ph1 PlaceholderReplaced"]);
    // Another placeholder is there for the second, none for the third and fourth, which are larger than it or not.
    env.ask((2..5).map(|n| Ask::new("app-1", &format!("r{n}"), 10).group("tg")).collect());
    assert_eq!(env.heard(), ["released ph2 PlaceholderReplaced", "new r3 on n1", "new r4 on n1"]);
    env.ask(vec![Ask::new("app-1", "r5", 10).group("tg")]);
    assert_eq!(env.heard(), ["new r5 on n1"]);
    // One that is undone has its placeholder again, and the next waits for that.
    env.release("app-1", "r2", Termination::StoppedByRm);
    env.ask(vec![Ask::new("app-1", "r6", 10).group("tg")]);
    assert_eq!(env.heard(), ["released r2 StoppedByRm", "released ph2 PlaceholderReplaced"]);
    env.confirm_all();
    let mut heard = env.heard();
    heard.sort();
    assert_eq!(heard, ["new r1 on n1", "new r6 on n1"]);
}

#[test]
fn placeholders_that_still_wait_are_waited_for() {
    // R6.7: the one in flight is taken, the other may still come.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask((1..3).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.pass(61);
    env.confirm_all();
    env.heard();
    assert_eq!(env.state("app-1"), Some(AppState::Accepted));
    env.ask((3..5).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    assert_eq!(env.heard(), ["new ph3 on n1"]);
    let found = why(&env, "app-1");
    assert!(matches!(&found[1], (key, Why::Gang { missing: 1, placed: 1 }) if key == "r1"), "{found:?}");
}

#[test]
fn the_first_placeholder_lets_others_be_tried_also_where_it_finds_no_node() {
    // SEEDS S10
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("app-1", "driver", 1).originator()]);
    env.ask(vec![Ask::new("app-1", "plain", 1)]);
    env.heard();
    env.ask(vec![Ask::new("app-1", "ph1", 20).placeholder("tg")]);
    assert_eq!(env.heard(), ["new plain on n1"]);
}

#[test]
fn what_waits_for_placeholders_that_were_told_to_go_says_so() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask((1..3).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.pass(61);
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    let found: Vec<_> = why(&env, "app-1").into_iter().map(|(_, why)| why).collect();
    assert!(matches!(found[..], [Why::Placeholder { live: 2, leaving: true }]), "{found:?}");
    // R6.7: as any other once none is left.
    env.heard();
    env.confirm_all();
    assert_eq!(env.heard(), ["new r1 on n1"]);
}
