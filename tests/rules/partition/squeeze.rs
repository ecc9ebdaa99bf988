//! Less headroom reaches asks that wait already (R4.34, R4.35, R5.24, SEEDS S7): log, event, SKIPPED and explain.

use std::sync::Arc;

use callboard::domain::{
    command::AddApplication,
    event::{Detail, EventKind},
    partition::{Explainer, Why},
    types::{AppState, Termination},
};

use super::env::{Ask, Env, res};

const LIMITED: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: a\n            \
                       resources: {max: {memory: 50}}\n            limits: [{limit: bob, users: [bob], maxresources: {memory: 40}}]\n          - name: b\n";

fn messages(env: &mut Env, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    env.events.retain(|event| {
        let mine = event.kind == EventKind::Request && &*event.object == key;
        if mine {
            found.push(event.message.to_string());
        }
        !mine
    });
    found
}

fn why(env: &Env, app: &str) -> Why {
    let waiting = Explainer::new(&env.partition).application(env.partition.app_by_id[app], env.now);
    waiting.into_iter().next().expect("something waits").why
}

/// Two nodes of 30, each with 10 in use: 25 fit on none, though 40 are free.
fn fragmented(user: &str) -> Env {
    let mut env = Env::new(LIMITED);
    env.node("n1", 30);
    env.node("n2", 30);
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-b", "b1", 10).on("n1"), Ask::new("app-b", "b2", 10).on("n2")]);
    for id in ["app-1", "app-2"] {
        env.add_app(AddApplication { id: id.into(), queue: "root.a".into(), ..env.by(user) });
    }
    env.ask(vec![Ask::new("app-1", "k1", 25)]);
    env.heard();
    assert_eq!(messages(&mut env, "k1"), Vec::<String>::new());
    env
}

#[test]
fn a_queue_that_fills_up() {
    let mut env = fragmented("alice");
    env.ask(vec![Ask::new("app-2", "k2", 15), Ask::new("app-2", "k3", 15)]);
    env.heard();
    // Within a moment, as where nothing happens (R5.1).
    env.pass(1);
    assert!(env.heard().contains(&"k1 Skipped".to_owned()), "{:?}", env.told);
    let text = "Request 'k1' does not fit in queue 'root.a' (requested map[memory:25 vcore:25], available map[memory:10 vcore:10])";
    assert_eq!(messages(&mut env, "k1"), [text]);
    assert!(env.log("app-1", "k1").contains(&"Not enough queue quota".to_owned()));
    assert!(matches!(why(&env, "app-1"), Why::QueueQuota { queue, .. } if &*queue == "root.a"));
    // Told once, and again when there is room.
    env.pass(5);
    assert_eq!(messages(&mut env, "k1"), Vec::<String>::new());
    env.release("app-2", "k2", Termination::StoppedByRm);
    assert_eq!(messages(&mut env, "k1"), ["Request 'k1' has become schedulable in queue 'root.a'"]);
}

#[test]
fn a_cluster_that_is_full_for_a_while() {
    // EVT-012: what was told of the full cluster is told to be over, though no node has room.
    let mut env = fragmented("alice");
    env.ask(vec![Ask::new("app-b", "b3", 20)]);
    env.pass(1);
    let text = "Request 'k1' does not fit in queue 'root.a' (requested map[memory:25 vcore:25], available map[memory:20 vcore:20])";
    assert_eq!(messages(&mut env, "k1"), [text]);
    for round in 0..2 {
        env.release("app-b", "b3", Termination::StoppedByRm);
        env.pass(1);
        let text = "Request 'k1' has become schedulable in queue 'root.a'";
        assert_eq!(messages(&mut env, "k1"), [text], "{round}");
        env.ask(vec![Ask::new("app-b", "b3", 20)]);
        env.pass(1);
        assert_eq!(messages(&mut env, "k1").len(), 1);
    }
}

#[test]
fn an_application_that_its_limit_held_and_the_shim_placed() {
    // EVT-02A
    let mut env = Env::new(&LIMITED.replace("maxresources: {memory: 40}", "maxapplications: 1"));
    env.node("n1", 30);
    for id in ["app-1", "app-2"] {
        env.add_app(AddApplication { id: id.into(), queue: "root.a".into(), ..env.by("bob") });
        env.ask(vec![Ask::new(id, &format!("{id}-k"), 5)]);
    }
    env.ask(vec![Ask::new("app-2", "placed", 5).on("n1")]);
    let of_it = env.events.iter().filter(|event| event.kind == EventKind::App && &*event.object == "app-2");
    let quota: Vec<Detail> = of_it.map(|event| event.detail).filter(|detail| DETAILS.contains(detail)).collect();
    assert_eq!(quota, DETAILS);
}

const DETAILS: [Detail; 2] = [Detail::AppCannotRunQuota, Detail::AppRunnableQuota];

#[test]
fn a_user_whose_limit_is_used_up_elsewhere() {
    // EVT-014: the user's limit comes first, also where the queue held it back before (EVT-01B).
    let mut env = fragmented("bob");
    env.ask(vec![Ask::new("app-2", "k2", 20)]);
    env.heard();
    env.pass(1);
    assert!(env.heard().contains(&"k1 Skipped".to_owned()));
    let text =
        "Request 'k1' exceeds the available user quota (requested map[memory:25 vcore:25], available map[memory:20])";
    assert_eq!(messages(&mut env, "k1"), [text]);
    assert!(matches!(why(&env, "app-1"), Why::UserQuota(_)));
    let mut env = fragmented("bob");
    env.add_app(AddApplication { id: "app-3".into(), queue: "root.a".into(), ..env.by("alice") });
    env.ask(vec![Ask::new("app-3", "k3", 20), Ask::new("app-3", "k4", 9)]);
    env.pass(1);
    assert!(matches!(why(&env, "app-1"), Why::QueueQuota { .. }));
    // Recovered past the limit of the queue, on the user's account.
    env.ask(vec![Ask::new("app-2", "k2", 16).on("n1")]);
    env.pass(1);
    assert!(matches!(why(&env, "app-1"), Why::UserQuota(_)));
    assert!(env.log("app-1", "k1").contains(&"Not enough user quota".to_owned()));
}

#[test]
fn a_cluster_that_fills_up() {
    // Root's max is what the nodes have: told as an event, as the reference does, and no limit that anybody set (SEEDS S7).
    let mut env = fragmented("alice");
    env.ask(vec![Ask::new("app-b", "b3", 20)]);
    env.heard();
    env.pass(1);
    assert!(!env.heard().contains(&"k1 Skipped".to_owned()));
    let text = "Request 'k1' does not fit in queue 'root.a' (requested map[memory:25 vcore:25], available map[memory:20 vcore:20])";
    assert_eq!(messages(&mut env, "k1"), [text]);
    env.release("app-b", "b3", Termination::StoppedByRm);
    env.release("app-b", "b1", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new k1 on n1".to_owned()), "a node with room brings it back");
}

#[test]
fn a_max_that_is_lowered_and_a_size_that_grows() {
    let mut env = fragmented("alice");
    env.ask(vec![Ask::new("app-2", "k2", 15)]);
    env.pass(1);
    assert_eq!(messages(&mut env, "k1"), Vec::<String>::new(), "35 are left in the queue, 25 in the cluster");
    env.ask(vec![Ask::new("app-2", "k2", 28)]);
    env.pass(1);
    assert_eq!(messages(&mut env, "k1").len(), 1);
    let mut env = fragmented("alice");
    env.reload(
        &LIMITED
            .replace("max: {memory: 50}", "max: {memory: 20}")
            .replace("maxresources: {memory: 40}", "maxresources: {memory: 9}"),
    );
    assert_eq!(messages(&mut env, "k1").len(), 1);
}

#[test]
fn a_limit_of_applications() {
    // R4.36, EVT-027, SEEDS S7: of the application that waits for nodes too, and of what it asks for later.
    for limit in ["maxapplications: 1", "limits: [{limit: all, users: ['*'], maxapplications: 1}]"] {
        let config = LIMITED.replace("          - name: b\n", &format!("            {limit}\n          - name: b\n"));
        let config =
            config.replace("            limits: [{limit: bob, users: [bob], maxresources: {memory: 40}}]\n", "");
        let mut env = Env::new(&config);
        env.node("n1", 30);
        for id in ["app-1", "app-2", "app-3"] {
            env.app(id, "root.a");
        }
        env.ask(vec![Ask::new("app-1", "k1", 35), Ask::new("app-1", "k2", 36)]);
        env.heard();
        env.ask(vec![Ask::new("app-2", "k3", 10)]);
        env.pass(1);
        let skipped: Vec<String> = env.heard().into_iter().filter(|told| told.ends_with("Skipped")).collect();
        assert_eq!(skipped, ["k1 Skipped", "k2 Skipped"], "{limit}");
        assert!(!matches!(why(&env, "app-1"), Why::Nodes(_)), "{limit}");
        env.ask(vec![Ask::new("app-1", "k4", 1)]);
        assert_eq!(env.heard(), ["k4 Skipped"]);
        env.ask(vec![Ask::new("app-3", "k5", 1)]);
        assert_eq!(env.heard(), ["app-3 Accepted", "k5 Skipped"]);
        env.pass(5);
        assert_eq!(env.heard(), [""; 0], "once");
        env.release("app-2", "k3", Termination::StoppedByRm);
        assert!(env.heard().contains(&"new k4 on n1".to_owned()), "{limit}");
    }
}

#[test]
fn an_ask_for_its_required_node() {
    let mut env = fragmented("alice");
    env.release("app-1", "k1", Termination::StoppedByRm);
    env.ask(vec![Ask::new("app-1", "ds", 25).requires("n1")]);
    env.ask(vec![Ask::new("app-2", "k2", 15).on("n2"), Ask::new("app-2", "k3", 15).on("n2")]);
    env.heard();
    env.pass(1);
    assert!(env.heard().contains(&"ds Skipped".to_owned()));
    env.release("app-2", "k2", Termination::StoppedByRm);
    env.release("app-b", "b1", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new ds on n1".to_owned()));
    env.check();
}

#[test]
fn many_that_wait_are_looked_at_bit_by_bit() {
    // A thousand groups of asks in a look: all of them are told in the end, and each once.
    let mut env = Env::calm(&LIMITED.replace("memory: 50", "memory: 5000"));
    env.node("n1", 3_000);
    env.node("n2", 3_000);
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-b", "b1", 1_000).on("n1"), Ask::new("app-b", "b2", 1_000).on("n2")]);
    env.app("app-1", "root.a");
    env.app("app-2", "root.a");
    env.ask((0..2_500).map(|n| Ask::new("app-1", &format!("k{n}"), 2_400).sized(res(2_400, n % 1_250))).collect());
    env.app("app-3", "root.a");
    env.ask(vec![Ask::new("app-3", "k-last", 2_300)]);
    env.ask(vec![Ask::new("app-2", "used", 2_000).on("n1"), Ask::new("app-2", "more", 800).on("n2")]);
    env.pass(1);
    let told = |env: &Env| {
        let of = |event: &&callboard::domain::event::Event| {
            event.kind == EventKind::Request && event.message.contains("does not fit in queue")
        };
        env.events.iter().filter(of).count()
    };
    assert_eq!(told(&env), 2_501);
    env.ask(vec![Ask::new("app-2", "again", 10).on("n2")]);
    env.pass(1);
    assert_eq!(told(&env), 2_501);
}

#[test]
fn nobody_looks_at_asks_of_a_queue_that_became_a_parent() {
    // CFG-102: they are not tried, so no limit can be what they met.
    let parent = LIMITED
        .replace("resources: {max: {memory: 50}}", "resources: {max: {memory: 50}}\n            queues: [{name: c}]");
    let mut env = fragmented("alice");
    env.reload(&parent);
    env.add_app(AddApplication { id: "app-3".into(), queue: "root.a.c".into(), ..env.by("alice") });
    env.ask(vec![Ask::new("app-3", "k2", 15), Ask::new("app-3", "k3", 15)]);
    env.pass(1);
    assert_eq!(messages(&mut env, "k1"), Vec::<String>::new());
    // As a leaf its asks are tried again.
    env.reload(LIMITED);
    env.pass(1);
    let text = "Request 'k1' does not fit in queue 'root.a' (requested map[memory:25 vcore:25], available map[memory:10 vcore:10])";
    assert_eq!(messages(&mut env, "k1"), [text]);
}

const SHARED: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: a\n          - name: b\n            \
                      resources: {max: {memory: 20}}\n";

fn skipped(env: &mut Env) -> Vec<String> {
    env.heard().into_iter().filter(|told| told.ends_with("Skipped")).collect()
}

#[test]
fn a_queue_that_is_full_where_the_cluster_was() {
    // SEEDS S7: that the cluster was full before does not hide it.
    let mut env = Env::new(SHARED);
    env.node("n1", 30);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-a", "x1", 10), Ask::new("app-a", "x2", 10), Ask::new("app-b", "y0", 10)]);
    env.ask(vec![Ask::new("app-b", "y1", 10), Ask::new("app-b", "y2", 10)]);
    env.pass(1);
    assert_eq!(skipped(&mut env), [""; 0], "the cluster is full");
    env.release("app-a", "x1", Termination::StoppedByRm);
    env.pass(1);
    assert_eq!(skipped(&mut env), ["y2 Skipped"], "y1 took the rest of its queue");
    env.release("app-a", "x2", Termination::StoppedByRm);
    env.pass(5);
    assert_eq!(skipped(&mut env), [""; 0], "once");
}

#[test]
fn a_limit_of_applications_that_comes_back() {
    // SEEDS S7: each time that it begins.
    let limited = |max: u32| {
        SHARED.replace("{memory: 20}}\n", &format!("{{memory: 20}}}}\n            maxapplications: {max}\n"))
    };
    let mut env = Env::new(&limited(1));
    env.node("n1", 10);
    for id in ["app-1", "app-2"] {
        env.app(id, "root.b");
        env.ask(vec![Ask::new(id, &format!("{id}-k"), 10)]);
    }
    env.pass(1);
    assert_eq!(skipped(&mut env), ["app-2-k Skipped"]);
    env.reload(&limited(5));
    env.pass(1);
    assert_eq!(skipped(&mut env), [""; 0]);
    env.reload(&limited(1));
    env.pass(1);
    assert_eq!(skipped(&mut env), ["app-2-k Skipped"]);
}

#[test]
fn a_gang_whose_queue_has_no_room_for_it() {
    // SEEDS S11, S7, EVT-012
    let mut env = Env::new(&SHARED.replace("{memory: 20}", "{memory: 30}"));
    env.node("n1", 100);
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-b", "b1", 10)]);
    env.gang("gang", "root.b", 30, "Soft");
    env.heard();
    env.ask((1..=3).map(|n| Ask::new("gang", &format!("p{n}"), 10).placeholder("g")).collect());
    env.pass(1);
    assert_eq!(skipped(&mut env), ["p1 Skipped", "p2 Skipped", "p3 Skipped"]);
    let text = "Request 'p1' does not fit in queue 'root.b' with all of its gang (requested map[memory:30 vcore:30], available map[memory:20 vcore:90])";
    assert_eq!(messages(&mut env, "p1"), [text]);
    assert!(env.log("gang", "p1").contains(&"Not enough queue quota".to_owned()));
    env.pass(5);
    assert_eq!(skipped(&mut env), [""; 0], "once");
    env.release("app-b", "b1", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new p3 on n1".to_owned()), "{:?}", env.told);
    assert_eq!(messages(&mut env, "p1"), ["Request 'p1' has become schedulable in queue 'root.b'"]);
}

#[test]
fn a_gang_that_timed_out_with_nothing_left_makes_room() {
    // 002, SEEDS S35: it counts only while something of it is allocated or waits.
    let user = "maxapplications: 1, maxresources: {memory: 20}";
    for limit in [
        "            maxapplications: 1\n".to_owned(),
        format!("            limits: [{{limit: alice, users: [alice], {user}}}]\n"),
    ] {
        let mut env = Env::new(&SHARED.replace("{memory: 20}}\n", &format!("{{memory: 20}}}}\n{limit}")));
        env.node("n1", 20);
        env.gang("gang", "root.b", 20, "Soft");
        env.ask(vec![Ask::new("gang", "p1", 5).placeholder("g"), Ask::new("gang", "p2", 5).placeholder("g")]);
        env.app("next", "root.b");
        env.ask(vec![Ask::new("next", "k", 5)]);
        env.pass(70);
        assert_eq!(env.state("gang"), Some(AppState::Resuming), "{limit}");
        env.heard();
        env.confirm_all();
        assert_eq!(env.state("gang"), Some(AppState::Accepted), "{limit}");
        assert!(env.heard().contains(&"new k on n1".to_owned()), "{limit}");
        let users: Vec<_> = env.partition.ugm.users().map(|user| user.root.applications).collect();
        assert_eq!(users, [[Arc::from("next")]], "{limit}");
    }
}

#[test]
fn the_group_is_chosen_by_the_limits_at_the_first_usage() {
    // 002: "a group is selected when the first usage is registered for the application"
    let mut env = Env::new(SHARED);
    env.node("n1", 30);
    env.app("app-a", "root.b");
    env.ask(vec![Ask::new("app-a", "x1", 20)]);
    let item = AddApplication { groups: Some(["dev".into(), "qa".into()].into()), ..env.by("bob") };
    env.add_app(AddApplication { id: "app-b".into(), queue: "root.b".into(), ..item });
    env.ask(vec![Ask::new("app-b", "y1", 5), Ask::new("app-b", "y2", 5)]);
    env.pass(1);
    let limited = SHARED.to_owned() + "            limits: [{limit: dev, groups: [dev], maxresources: {memory: 5}}]\n";
    env.reload(&limited);
    assert!(env.events.iter().all(|event| event.detail != Detail::AppLink));
    env.heard();
    env.release("app-a", "x1", Termination::StoppedByRm);
    env.pass(1);
    let heard = env.heard();
    assert!(heard.contains(&"new y1 on n1".to_owned()) && !heard.contains(&"new y2 on n1".to_owned()), "{heard:?}");
    assert!(env.events.iter().any(|event| event.detail == Detail::AppLink && &*event.object == "dev"));
}
