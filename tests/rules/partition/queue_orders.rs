//! What operators tell queues: whom a stopped queue refuses and how, what is below it, what outlives it, and what configurations
//! and placement make of it.

use std::{collections::BTreeMap, sync::Arc};

use callboard::{
    config,
    domain::{
        command::{AddApplication, Command},
        edit::Edit,
        event::EventKind,
        partition::remedies::Change,
        queue_order::{OrderKind, OrderRefusal, QueueOrder},
        types::{Nanos, ObjectState, Termination},
    },
};

use super::env::{Ask, Env};

fn text(queues: &str) -> String {
    let rules = "  placementrules: [{name: provided, create: true}]\n";
    format!(
        "partitions:\n- name: default\n{rules}  queues:\n  - name: root\n    submitacl: '*'\n    queues: {queues}\n"
    )
}

fn order(kind: OrderKind) -> Arc<QueueOrder> {
    Arc::new(QueueOrder {
        kind,
        by: "alice".into(),
        at: Nanos::from_secs(1_000_000),
        when: "1970-01-12T13:46:40Z".into(),
        reason: "billing".into(),
    })
}

fn give(env: &mut Env, path: &str, kind: Option<OrderKind>) {
    env.partition.check_order(path, kind, false).unwrap_or_else(|refusal| panic!("{refusal}"));
    env.apply(Command::OrderQueues(vec![(path.into(), kind.map(order))]));
}

fn state(env: &Env, path: &str) -> ObjectState {
    env.partition.shown_state(env.partition.queue_by_path[path])
}

fn refused(env: &Env, path: &str, kind: Option<OrderKind>) -> String {
    match env.partition.check_order(path, kind, false) {
        Err(OrderRefusal::Conflict(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stopped_queue_refuses_by_name_time_and_reason_and_goes_on_with_what_it_has() {
    let mut env = Env::calm(&text("[{name: a, queues: [{name: b}, {name: c}]}, {name: d}]"));
    env.node("n1", 100);
    env.app("one", "root.a.b");
    give(&mut env, "root.a", Some(OrderKind::Stop));
    for path in ["root.a", "root.a.b", "root.a.c"] {
        assert_eq!(state(&env, path), ObjectState::Stopped, "{path}");
    }
    assert_eq!(state(&env, "root.d"), ObjectState::Active);
    env.heard();
    env.ask(vec![Ask::new("one", "k", 10)]);
    assert_eq!(env.heard(), ["one Accepted", "one Running", "new k on n1"]);
    env.app("two", "root.a.c");
    let row = &env.partition.rejected["two"];
    let why = "queue root.a.c takes no new application: root.a was stopped by alice at 1970-01-12T13:46:40Z: billing";
    assert_eq!(row.rejected.as_deref(), Some(why));
    // Neither does placement make a queue below.
    env.app("three", "root.a.new");
    assert!(!env.partition.queue_by_path.contains_key("root.a.new"));
    env.app("four", "root.d");
    assert!(env.partition.app_by_id.contains_key("four"));
    give(&mut env, "root.a", None);
    assert_eq!(state(&env, "root.a.c"), ObjectState::Active);
    env.app("five", "root.a.c");
    assert!(env.partition.app_by_id.contains_key("five"));
}

#[test]
fn whom_an_order_keeps_out_is_told_what_to_resume() {
    let mut env = Env::calm(&text("[{name: a, queues: [{name: b}]}, {name: c, submitacl: nobody}, {name: d}]"));
    env.node("n1", 100);
    for path in ["root.a", "root.a.b", "root.d"] {
        give(&mut env, path, Some(OrderKind::Stop));
    }
    env.app("one", "root.a.b");
    env.app("two", "root.none.");
    let told = |env: &Env, app: &str| {
        let remedy = env.partition.resumed_for(&env.partition.rejected[app], env.now)?;
        let Change::Resume { queues, .. } = &remedy.change else { panic!("{remedy:?}") };
        let edit = |_: &[Edit]| Err(String::new());
        let commands = remedy.commands(&env.partition, &edit).expect("commands");
        Some((queues.iter().map(ToString::to_string).collect::<Vec<_>>(), commands))
    };
    // Both that are on its way, and not the one that is not.
    let (queues, commands) = told(&env, "one").expect("a remedy");
    assert_eq!(queues, ["root.a", "root.a.b"]);
    assert!(told(&env, "two").is_none(), "no order keeps it out");
    for command in commands {
        env.apply(command);
    }
    assert!(env.partition.app_by_id.contains_key("one"));
    give(&mut env, "root.a", Some(OrderKind::Drain));
    env.app("three", "root.a.b");
    let row = env.partition.rejected["three"].clone();
    assert!(env.partition.resumed_for(&row, env.now).is_some());
    give(&mut env, "root.a", None);
    assert!(env.partition.resumed_for(&row, env.now).is_none(), "nothing keeps it out any more");
}

#[test]
fn what_runs_already_is_taken_all_the_same() {
    // R3.28: a shim that recovers brings what runs.
    let mut env = Env::calm(&text("[{name: a}]"));
    give(&mut env, "root.a", Some(OrderKind::Drain));
    let tags = BTreeMap::from([("application.create.force".to_owned(), "true".to_owned())]);
    let item =
        AddApplication { id: "one".into(), queue: "root.a".into(), tags: Arc::new(tags.into()), ..env.by("alice") };
    env.add_app(item);
    assert!(env.partition.app_by_id.contains_key("one"));
}

#[test]
fn a_drained_queue_tells_when_it_is_empty_and_stays_closed() {
    let mut env = Env::calm(&text("[{name: a, queues: [{name: b}, {name: c}]}]"));
    env.node("n1", 100);
    env.app("one", "root.a.b");
    env.ask(vec![Ask::new("one", "k", 10)]);
    env.app("two", "root.a.c");
    give(&mut env, "root.a", Some(OrderKind::Drain));
    let drained = |env: &mut Env| {
        let events = std::mem::take(&mut env.events);
        let of_queue = events.into_iter().filter(|event| event.kind == EventKind::Queue && !event.message.is_empty());
        of_queue.map(|event| format!("{} {}", event.object, event.message)).collect::<Vec<_>>()
    };
    assert_eq!(drained(&mut env), ["root.a root.a was drained by alice at 1970-01-12T13:46:40Z: billing"]);
    assert_eq!(state(&env, "root.a.b"), ObjectState::Draining);
    env.apply(Command::Applications { new: Vec::new(), remove: vec!["two".into()] });
    assert!(drained(&mut env).is_empty(), "one is there");
    env.release("one", "k", Termination::StoppedByRm);
    env.apply(Command::Applications { new: Vec::new(), remove: vec!["one".into()] });
    assert_eq!(drained(&mut env), ["root.a drained: it is empty"]);
    env.app("three", "root.a.b");
    assert!(env.partition.rejected.contains_key("three"));
    // The configuration has it: it does not go.
    env.pass(3_600);
    assert!(env.partition.queue_by_path.contains_key("root.a"));
    give(&mut env, "root.a", None);
    assert_eq!(drained(&mut env), ["root.a resumed"]);
    // Empty already.
    give(&mut env, "root.a", Some(OrderKind::Drain));
    assert_eq!(drained(&mut env).last().map(String::as_str), Some("root.a drained: it is empty"));
    // What is told to one below is no news of it.
    for kind in [Some(OrderKind::Stop), None] {
        give(&mut env, "root.a.b", kind);
        assert_eq!(drained(&mut env).len(), 1, "{kind:?}: the order alone");
    }
    give(&mut env, "root.a.b", Some(OrderKind::Drain));
    assert_eq!(drained(&mut env).last().map(String::as_str), Some("root.a.b drained: it is empty"));
    // Nor is a stop of what had drained.
    give(&mut env, "root.a", Some(OrderKind::Stop));
    assert_eq!(drained(&mut env).len(), 1);
}

#[test]
fn an_order_outlives_its_queue_and_configurations() {
    let with = text("[{name: a}, {name: d}]");
    let mut env = Env::calm(&with);
    env.app("one", "root.d.made");
    env.app("one", "root.made");
    give(&mut env, "root.made", Some(OrderKind::Stop));
    env.apply(Command::Applications { new: Vec::new(), remove: vec!["one".into()] });
    env.pass(3_600);
    assert!(!env.partition.queue_by_path.contains_key("root.made"), "it was empty");
    env.app("two", "root.made");
    assert!(env.partition.rejected.contains_key("two"));
    // It can be taken back although the queue is not there.
    give(&mut env, "root.made", None);
    env.app("two", "root.made");
    assert!(env.partition.app_by_id.contains_key("two"));
    // A queue that the configuration drops and brings again is as the operator left it.
    give(&mut env, "root.a", Some(OrderKind::Stop));
    for (text, expected) in [(text("[{name: d}]"), None), (with, Some(ObjectState::Stopped))] {
        let conf = config::load(&text).unwrap().partitions.remove(0);
        env.apply(Command::Configure(conf));
        env.pass(3_600);
        let found = env.partition.queue_by_path.get("root.a").map(|ix| env.partition.shown_state(*ix));
        assert_eq!(found, expected);
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let mut env = Env::calm(&text("[{name: a, queues: [{name: b}]}]"));
    assert!(refused(&env, "root", Some(OrderKind::Stop)).starts_with("root cannot be stopped: every queue"));
    assert!(refused(&env, "root.@recovery@", Some(OrderKind::Drain)).contains("run already"));
    assert_eq!(refused(&env, "root.a", None), "queue root.a is neither stopped nor drained");
    assert!(matches!(env.partition.check_order("root.x", None, false), Err(OrderRefusal::Unknown(_))));
    assert!(matches!(env.partition.check_order("root.x", Some(OrderKind::Stop), true), Err(OrderRefusal::Unknown(_))));
    give(&mut env, "root.a", Some(OrderKind::Stop));
    let again = refused(&env, "root.a", Some(OrderKind::Stop));
    assert!(again.starts_with("root.a was stopped by alice at ") && again.contains("overwrite"), "{again}");
    assert_eq!(env.partition.check_order("root.a", Some(OrderKind::Stop), true), Ok(()));
    assert_eq!(env.partition.check_order("root.a", Some(OrderKind::Drain), false), Ok(()));
    assert!(refused(&env, "root.a.b", None).ends_with("resume root.a"));
}

#[test]
fn room_and_emptiness_are_told_of_queues() {
    let mut env = Env::calm(&text(
        "[{name: a, maxapplications: 1, resources: {max: {memory: 50}}, queues: [{name: b, maxapplications: 1}]}]",
    ));
    let room = |env: &Env| env.partition.queue_room(env.partition.queue_by_path["root.a.b"]);
    let empty = |env: &Env| env.partition.is_queue_empty(env.partition.queue_by_path["root"]);
    assert!(room(&env).is_ok() && empty(&env));
    env.node("n1", 100);
    env.app("one", "root.a.b");
    assert!(room(&env).is_ok() && !empty(&env));
    env.ask(vec![Ask::new("one", "k", 10)]);
    assert_eq!(room(&env), Err("1 application runs in root.a.b, which is its limit".to_owned()));
    env.release("one", "k", Termination::StoppedByRm);
    env.apply(Command::Applications { new: Vec::new(), remove: vec!["one".into()] });
    assert!(room(&env).is_ok() && empty(&env));
    env.app("two", "root.a.b");
    env.ask(vec![Ask::new("two", "k", 50)]);
    let room_of = |path: &str| env.partition.queue_room(env.partition.queue_by_path[path]).unwrap_err();
    assert_eq!(
        room_of("root.a"),
        "1 application runs in root.a, which is its limit (of queues below it no limit is looked at)"
    );
    env.release("two", "k", Termination::StoppedByRm);
    env.apply(Command::Applications { new: Vec::new(), remove: vec!["two".into()] });
    give(&mut env, "root.a", Some(OrderKind::Stop));
    assert!(room(&env).unwrap_err().contains("stopped by alice"));
}

#[test]
fn a_limit_that_leaves_no_room_is_told_in_its_units() {
    let mut env = Env::calm(&text("[{name: a, resources: {max: {memory: 8Gi}}, queues: [{name: b}]}]"));
    env.node("n1", 16 << 30);
    env.app("one", "root.a.b");
    env.ask(vec![Ask::new("one", "k", 8 << 30)]);
    let room = |path: &str| env.partition.queue_room(env.partition.queue_by_path[path]).unwrap_err();
    assert_eq!(room("root.a.b"), "root.a is at its max of 8Gi memory");
    assert_eq!(room("root.a"), "root.a is at its max of 8Gi memory (of queues below it no limit is looked at)");
}
