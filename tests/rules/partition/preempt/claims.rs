//! Claims and reservations when things change underneath (R5.30–R5.39, R7.27, R7.28, R7.38).

use std::sync::Arc;

use callboard::domain::{
    alloc::Foreign,
    command::{AddApplication, Command, NodeAction},
    resources::Resource,
    types::Termination,
};

use super::{
    super::env::{Ask, Env, QUEUES, res},
    A_AND_B, full, tree,
};

fn claimed() -> Env {
    let mut env = full(A_AND_B);
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.pass(2);
    assert_eq!(env.heard(), ["app-a Accepted", "released v4 Preempted"]);
    env
}

#[test]
fn an_ask_preempts_once_while_its_victims_are_on_their_way() {
    let mut env = claimed();
    env.pass(300);
    assert!(env.heard().iter().all(|text| !text.contains("Preempted")));
}

/// One node, on which everything that may go runs: while the first ask holds it, the others find none.
fn crowded(asks: Vec<Ask>) -> Env {
    let mut env = full(A_AND_B);
    env.app("other", "root.a");
    env.heard();
    env.ask(asks);
    env
}

#[test]
fn who_found_the_node_promised_tries_again_when_that_is_settled() {
    // R7.4, R7.11: not only 15 s later.
    let asks = |apps: [&str; 2], sizes: [i64; 2]| {
        vec![Ask::new(apps[0], "k1", sizes[0]).preempts(), Ask::new(apps[1], "k2", sizes[1]).preempts()]
    };
    for (apps, sizes) in
        [(["app-a", "app-a"], [20, 20]), (["app-a", "app-a"], [20, 15]), (["app-a", "other"], [20, 20])]
    {
        let mut env = crowded(asks(apps, sizes));
        env.pass(2);
        let released = |env: &mut Env| env.heard().iter().filter(|text| text.ends_with("Preempted")).count();
        assert_eq!(released(&mut env), 1, "{apps:?} {sizes:?}");
        env.confirm_all();
        env.pass(1);
        env.confirm_all();
        let heard = env.heard();
        for key in ["new k1 on n1", "new k2 on n1"] {
            assert!(heard.contains(&key.to_owned()), "{apps:?} {sizes:?}: {heard:?}");
        }
    }
    // Where the first ask goes, what it held may be had at once.
    let mut env = crowded(asks(["app-a", "app-a"], [20, 20]));
    env.pass(2);
    env.heard();
    env.release("app-a", "k1", Termination::StoppedByRm);
    env.pass(1);
    env.confirm_all();
    let heard = env.heard();
    assert!(heard.contains(&"new k2 on n1".to_owned()), "{heard:?}");
}

#[test]
fn a_lost_node_lets_it_preempt_again() {
    // R7.27, idea 190
    let mut env = Env::calm(&tree(A_AND_B));
    env.node("n1", 40);
    env.node("n2", 40);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask((0..4).map(|n| Ask::new("app-b", &format!("v{n}"), 20).preempts()).collect());
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.pass(2);
    let lost = env.partition.nodes.values().find(|n| !n.reservations.is_empty()).expect("reserved").spec.id.clone();
    env.heard();
    env.node_action(&lost, NodeAction::Decommission, None);
    env.unconfirmed.clear();
    assert_eq!(env.partition.reservations, 0);
    env.heard();
    env.pass(16);
    let heard = env.heard();
    assert_eq!(heard.iter().filter(|text| text.contains("Preempted")).count(), 1, "{heard:?}");
    env.confirm_all();
    assert!(env.heard().iter().any(|text| text.starts_with("new k1")));
}

#[test]
fn a_drained_node_lets_it_preempt_again() {
    // R7.27, R7.28, R5.38: what was ended there is lost, and what it was promised is in no book any more.
    let mut env = claimed();
    env.node_action("n1", NodeAction::Drain, None);
    assert_eq!(env.partition.reservations, 0);
    env.confirm_all();
    env.pass(3);
    assert!(!env.heard().iter().any(|told| told.starts_with("new")));
    env.node("n2", 20);
    assert_eq!(env.heard(), ["node n2", "app-a Running", "new k1 on n2"]);
}

#[test]
fn it_preempts_again_when_foreign_work_took_the_room() {
    // R7.38
    let mut env = claimed();
    let mut foreign = Ask::new("", "foreign", 20).on("n1");
    foreign.spec.foreign = Some(Foreign::Default);
    env.ask(vec![foreign]);
    env.confirm_all();
    assert_eq!(env.heard(), Vec::<String>::new());
    env.pass(16);
    assert_eq!(env.heard(), ["released v3 Preempted"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-a Running", "new k1 on n1"]);
}

#[test]
fn a_withdrawn_ask_holds_nothing() {
    let mut env = claimed();
    env.release("app-a", "k1", Termination::StoppedByRm);
    assert_eq!(env.partition.reservations, 0);
    env.confirm_all();
    env.heard();
    env.ask(vec![Ask::new("app-b", "back", 20)]);
    assert_eq!(env.heard(), ["new back on n1"]);
}

#[test]
fn victims_and_claimants_that_change_their_size() {
    let mut env = claimed();
    // The victim grows while it is on its way out, the claimant wants more.
    env.ask(vec![Ask::new("app-b", "v4", 25)]);
    env.ask(vec![Ask::new("app-a", "k1", 30).preempts()]);
    env.confirm_all();
    env.pass(20);
    env.confirm_all();
    let heard = env.heard();
    assert!(heard.contains(&"new k1 on n1".to_owned()), "{heard:?}");
}

#[test]
fn a_placeholder_may_be_a_victim_and_is_replaced_no_more() {
    // R7.10, R4.31
    let mut env = Env::calm(&tree(A_AND_B));
    env.node("n1", 20);
    env.app("app-a", "root.a");
    env.gang("gang", "root.b", 20, "Soft");
    env.ask(vec![Ask::new("gang", "ph", 20).placeholder("tg").preempts()]);
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(env.heard(), ["released ph Preempted"]);
    env.ask(vec![Ask::new("gang", "real", 20).group("tg")]);
    assert_eq!(env.heard(), Vec::<String>::new());
    env.confirm_all();
    assert!(env.heard().contains(&"new k1 on n1".to_owned()));
}

#[test]
fn a_shrunken_node_is_relieved_only_for_asks_that_then_fit() {
    let mut env = full(A_AND_B);
    env.node("n2", 30);
    env.ask(vec![Ask::new("app-b", "v5", 30).preempts()]);
    env.node_action("n1", NodeAction::Update, Some(res(70, 70)));
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.heard();
    env.pass(2);
    // 100 used of 70 on n1 and 30 of 30 on n2: root lacks 50, so v5 alone would not do.
    let heard = env.heard();
    env.confirm_all();
    let placed = env.heard();
    assert!(placed.iter().any(|text| text.starts_with("new k1")), "{heard:?} {placed:?}");
}

#[test]
fn stale_reservations_of_lower_priority_give_way() {
    // R7.11
    let queues =
        "{name: a, resources: {guaranteed: {memory: 50}}, properties: {preemption.delay: 1s}}, {name: b}, {name: c}";
    let run = |secs: i64| {
        let mut env = Env::calm(&tree(queues));
        env.node("n1", 40);
        env.node("n2", 100);
        for (app, queue) in [("app-a", "root.a"), ("app-b", "root.b"), ("app-c", "root.c")] {
            env.app(app, queue);
        }
        env.ask(vec![Ask::new("app-b", "v0", 30).on("n1").preempts()]);
        env.ask(vec![Ask::new("app-b", "fixed", 90).requires("n2")]);
        // Fits n1 alone, and reserves it.
        env.ask(vec![Ask::new("app-c", "waits", 20)]);
        env.pass(3);
        assert_eq!(env.partition.reservations, 1);
        env.pass(secs);
        env.ask(vec![Ask::new("app-a", "k1", 20).preempts().priority(1)]);
        env.heard();
        env.pass(2);
        env.heard()
    };
    assert_eq!(run(4 * 60), Vec::<String>::new());
    // R5.38: after five minutes it is held no more.
    assert_eq!(run(3600), ["released v0 Preempted"]);
    assert_eq!(run(3 * 3600), ["released v0 Preempted"]);
}

#[test]
fn a_reservation_above_the_headroom_ends_when_it_is_reviewed() {
    // R5.30, R5.38, R5.39: every ten minutes.
    let yaml = QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 40}}\n");
    let mut env = Env::calm(&yaml);
    env.node("n1", 20);
    env.node("n2", 30);
    env.app("app-1", "root.a");
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-2", "even", 15).on("n1"), Ask::new("app-2", "more", 25).on("n2")]);
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    env.ask(vec![Ask::new("app-1", "forced", 35).on("n2")]);
    // R5.34: what fills the node is replaced in time, so that it is expected to have room soon, and never has.
    let mut held = Vec::new();
    for quarter in 1..=4 {
        env.pass(190);
        held.push(env.partition.reservations);
        let (old, new) = if quarter % 2 == 0 { ("odd", "even") } else { ("even", "odd") };
        env.ask(vec![Ask::new("app-2", new, 15).on("n1")]);
        env.release("app-2", old, Termination::StoppedByRm);
    }
    assert_eq!(held, [1, 1, 1, 0]);
}

#[test]
fn reservations_can_be_switched_off() {
    // R5.37
    let mut env = Env::calm(QUEUES);
    env.apply(Command::Reservations(false));
    env.node("n1", 20);
    env.node("n2", 8);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "small", 15)]);
    env.ask(vec![Ask::new("app-1", "big", 10)]);
    env.pass(10);
    assert_eq!(env.partition.reservations, 0);
    env.apply(Command::Reservations(true));
    env.pass(1);
    assert_eq!(env.partition.reservations, 1);
}

#[test]
fn an_accepted_application_with_a_reservation_counts_as_allocating() {
    // R5.23
    let env = claimed();
    assert!(!env.partition.queues[env.partition.root].allocating.is_empty());
}

#[test]
fn a_reserved_ask_that_becomes_smaller_takes_its_node_at_once() {
    // R4.11, R5.31; one that becomes too large for it gives it back (R5.44).
    let mut env = Env::calm(QUEUES).alone();
    env.node("n1", 20);
    env.node("n2", 8);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "small", 12).on("n1")]);
    env.ask(vec![Ask::new("app-1", "big", 10)]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    env.heard();
    env.ask(vec![Ask::new("app-1", "big", 12)]);
    assert_eq!((env.partition.reservations, env.heard().len()), (1, 0));
    let mut grown = env.partition.clone();
    env.ask(vec![Ask::new("app-1", "big", 8)]);
    assert_eq!(env.partition.reservations, 0);
    assert_eq!(env.heard(), ["new big on n1"]);
    std::mem::swap(&mut env.partition, &mut grown);
    // Who has read on does not know of this one.
    env.reader = None;
    env.ask(vec![Ask::new("app-1", "big", 21)]);
    assert_eq!(env.partition.reservations, 0);
    env.end(&["app-1"]);
}

#[test]
fn what_is_promised_holds_back_those_that_want_it() {
    // UGM-031: the user has less left than another ask was promised, of a type that this one does not want.
    let queues = A_AND_B
        .replace("{name: a, ", "{name: a, limits: [{limit: alice, users: [alice], maxresources: {memory: 40}}], ");
    let mut env = full(&queues);
    env.apply_node("n2", &[("vcore", 10)]);
    env.app("app-c", "root.a");
    let memory = |app: &str, key: &str, size| Ask::new(app, key, 0).sized(Resource::of(&[("memory", size)])).preempts();
    env.ask(vec![memory("app-a", "k1", 20)]);
    env.pass(2);
    assert!(env.heard().contains(&"released v4 Preempted".to_owned()));
    // Placed by the shim, beyond the limit with what is promised.
    env.ask(vec![memory("app-c", "forced", 25).on("n1")]);
    env.heard();
    env.ask(vec![
        Ask::new("app-a", "cores", 0).sized(Resource::of(&[("vcore", 5)])),
        Ask::new("app-a", "both", 0).sized(Resource::of(&[("vcore", 1), ("memory", 1)])),
    ]);
    assert_eq!(env.heard(), ["app-a Running", "new cores on n2"]);
}

#[test]
fn nobody_preempts_for_what_the_limits_of_the_user_will_not_allow() {
    // R7.2, UGM-030: once the first is promised room, the limit is full, for all applications of the user or group.
    let limits = [
        "{limit: alice, users: [alice], maxresources: {memory: 30}}",
        "{limit: dev, groups: [dev], maxresources: {memory: 30}}",
        "{limit: each, users: ['*'], maxresources: {memory: 30}}",
        "{limit: ops, groups: [ops], maxresources: {memory: 10}}, {limit: each, groups: ['*'], maxresources: {memory: 30}}",
    ];
    for limit in limits {
        for apps in [["app-1", "app-1", "app-1"], ["app-1", "app-2", "app-2"]] {
            let mut env = full(&A_AND_B.replace("{name: a, ", &format!("{{name: a, limits: [{limit}], ")));
            for id in ["app-1", "app-2"] {
                let groups = Some(Arc::from([Arc::from("dev")]));
                env.add_app(AddApplication { id: id.into(), queue: "root.a".into(), groups, ..env.by("alice") });
            }
            env.heard();
            let asks = apps.iter().enumerate().map(|(n, app)| Ask::new(app, &format!("k{n}"), 20).preempts());
            env.ask(asks.collect());
            env.pass(20);
            let heard = env.heard();
            let ended = heard.iter().filter(|text| text.ends_with("Preempted")).count();
            assert_eq!((ended, env.partition.reservations), (1, 1), "{limit} {apps:?}: {heard:?}");
            // What it was promised, and does not want any more, is open to the next.
            env.release("app-1", "k0", Termination::StoppedByRm);
            env.confirm_all();
            env.pass(20);
            assert!(env.heard().contains(&"new k1 on n1".to_owned()), "{limit} {apps:?}");
            assert_eq!(env.partition.reservations, 0);
            for id in ["app-1", "app-2", "app-a", "app-b"] {
                env.remove_app(id);
            }
            env.assert_empty();
        }
    }
}

#[test]
fn what_is_promised_to_an_ask_is_no_limit_that_holds_it_back() {
    // SEEDS S7: the cluster is full until its victims are gone. Another ask finds the limit used up by the promise.
    let limits = [
        A_AND_B.replace("{memory: 50}", "{memory: 20}, max: {memory: 20}"),
        A_AND_B
            .replace("{name: a, ", "{name: a, limits: [{limit: alice, users: [alice], maxresources: {memory: 20}}], "),
    ];
    for limit in limits {
        for required in [false, true] {
            let mut env = Env::new(&tree(&limit));
            env.node("n1", 100);
            env.app("app-a", "root.a");
            env.app("app-b", "root.b");
            env.ask((0..5).map(|n| Ask::new("app-b", &format!("v{n}"), 20).preempts()).collect());
            env.heard();
            let ask = |key: &str| match required {
                true => Ask::new("app-a", key, 20).requires("n1"),
                false => Ask::new("app-a", key, 20).preempts(),
            };
            env.ask(vec![ask("k1")]);
            env.pass(4);
            let told = env.heard();
            assert!(told.contains(&"released v4 Preempted".to_owned()), "{told:?}");
            assert!(!told.contains(&"k1 Skipped".to_owned()), "{limit} {required}: {told:?}");
            env.ask(vec![ask("k2")]);
            env.pass(4);
            let told = env.heard();
            assert!(!told.contains(&"k1 Skipped".to_owned()), "{limit} {required}: {told:?}");
            assert!(told.contains(&"k2 Skipped".to_owned()), "{limit} {required}: {told:?}");
            env.confirm_all();
            let told = env.heard();
            assert!(told.contains(&"new k1 on n1".to_owned()), "{told:?}");
            assert!(!told.contains(&"k1 Skipped".to_owned()), "{limit} {required}: {told:?}");
        }
    }
}
