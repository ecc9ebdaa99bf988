//! Asks of a gang that hold reservations: nothing that waits for placeholders keeps a node from them.

use callboard::domain::{command::AddApplication, types::AppState};

use super::env::{Ask, Env, QUEUES, res};

fn placeholders(count: usize, size: i64) -> Vec<Ask> {
    (1..=count).map(|n| Ask::new("app-1", &format!("ph{n}"), size).placeholder("tg")).collect()
}

/// Node n1 is full of app-2, n2 and n3 are too small; a real ask of app-1 has waited long enough to reserve n1.
fn reserved(total: i64, queues: &str) -> Env {
    let mut env = Env::calm(queues);
    env.node("n1", 20);
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-2", "full", 20)]);
    env.node("n2", 8);
    env.node("n3", 8);
    let item = AddApplication {
        id: "app-1".into(),
        queue: "root.a".into(),
        placeholder_ask: (total > 0).then(|| res(total, total)),
        timeout_millis: 60_000,
        ..env.by("alice")
    };
    env.add_app(item);
    // An originator: others would wait for the first placeholder, and reserve nothing.
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg").originator()]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    env
}

#[test]
fn a_real_ask_leaves_its_node_to_the_placeholders_of_its_gang() {
    // SEEDS S10
    let mut env = reserved(20, QUEUES);
    env.ask(placeholders(2, 10));
    assert_eq!(env.partition.reservations, 0);
    env.heard();
    env.remove_app("app-2");
    let heard = env.heard();
    assert!(heard.contains(&"new ph1 on n1".to_owned()) && heard.contains(&"new ph2 on n1".to_owned()), "{heard:?}");
    assert_eq!(heard.last().map(String::as_str), Some("released ph1 PlaceholderReplaced"), "{heard:?}");
    env.confirm_all();
    assert_eq!(env.heard(), ["new r1 on n1"]);
    env.end(&["app-1"]);
}

#[test]
fn a_real_ask_of_another_group_waits_as_well() {
    // SEEDS S10: all of them, while a placeholder of the application waits.
    let mut env = reserved(10, QUEUES);
    env.ask(vec![Ask::new("app-1", "ph1", 20).placeholder("other")]);
    env.heard();
    env.remove_app("app-2");
    assert!(env.heard().contains(&"new ph1 on n1".to_owned()), "it is larger than what r1 would leave");
    assert_eq!(env.state("app-1"), Some(AppState::Accepted), "r1 waits, and may go its own way now");
    env.node("n4", 10);
    assert!(env.heard().contains(&"new r1 on n4".to_owned()));
    env.end(&["app-1"]);
}

#[test]
fn a_running_application_does_not_wait_for_a_placeholder_that_it_shuts_out() {
    // R6.7: the real ask may come by replacement alone, and its reservation would keep the placeholder away for ever.
    let mut env = reserved(0, QUEUES);
    env.ask(vec![Ask::new("app-1", "r0", 5).on("n2")]);
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    env.ask(placeholders(1, 20));
    env.heard();
    env.remove_app("app-2");
    let heard = env.heard();
    assert!(heard.contains(&"new ph1 on n1".to_owned()), "{heard:?}");
    assert!(heard.contains(&"released ph1 PlaceholderReplaced".to_owned()), "{heard:?}");
    env.confirm_all();
    assert_eq!(env.heard(), ["new r1 on n1"]);
    env.end(&["app-1"]);
}

#[test]
fn a_gang_that_may_not_begin_any_more_reserves_nothing() {
    // SEEDS S11: the queue had room for all of it when its first placeholder reserved a node, and has no longer.
    let queues = QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 30}}\n");
    let mut env = Env::calm(&queues);
    env.node("n1", 20);
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-2", "full", 20)]);
    env.node("n2", 8);
    env.node("n3", 8);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask(placeholders(2, 10));
    env.pass(3);
    assert!(env.partition.reservations > 0);
    // Work of the same queue, placed by the shim.
    env.app("app-3", "root.a");
    env.ask(vec![Ask::new("app-3", "forced", 15).on("n2")]);
    env.remove_app("app-2");
    assert_eq!((env.partition.reservations, env.partition.placeholders), (0, 0));
    env.remove_app("app-3");
    assert_eq!(env.partition.placeholders, 2);
    env.end(&["app-1"]);
}
