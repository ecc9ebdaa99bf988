//! Which victims go for an ask within its guarantee (R7.2–R7.5, R7.8, R7.12–R7.27).

use callboard::domain::{command::NodeAction, event::EventKind, resources::Resource, types::Nanos};

use super::{
    super::env::{Ask, Env, res},
    A_AND_B, full, tree,
};

#[test]
fn the_youngest_goes_after_the_delay_and_the_ask_takes_its_place() {
    // R7.4, R7.18, R7.27, R7.28, R4.29, EVT-017
    let mut env = full(A_AND_B);
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    assert_eq!(env.heard(), ["app-a Accepted"]);
    env.pass(2);
    assert_eq!(env.heard(), ["released v4 Preempted"]);
    assert_eq!(&*env.unconfirmed[0].message, "preempting allocations to free up resources to run ask: k1");
    let event = env.events.iter().find(|e| e.kind == EventKind::Request && &*e.object == "v4").expect("an event");
    assert_eq!(&*event.message, "Preempted by k1 from application app-a in root.a");
    let b = env.partition.queue_by_path["root.b"];
    assert_eq!(*env.partition.queues[b].preempting, res(20, 20));
    assert_eq!(env.partition.reservations, 1);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-a Running", "new k1 on n1"]);
    assert_eq!(env.partition.reservations, 0);
    assert!(env.partition.queues[b].preempting.is_zero());
}

#[test]
fn what_runs_in_a_queue_that_was_converted_may_go() {
    // R7.8, CFG-102: a leaf became a parent, and a parent a leaf.
    let with_child = A_AND_B.replace("{name: b}", "{name: b, queues: [{name: c}]}");
    for (first, then, queue) in [(A_AND_B, &*with_child, "root.b"), (&*with_child, A_AND_B, "root.b.c")] {
        let mut env = Env::calm(&tree(first));
        env.node("n1", 100);
        env.app("app-a", "root.a");
        env.app("app-b", queue);
        env.ask((0..5).map(|n| Ask::new("app-b", &format!("v{n}"), 20).preempts()).collect());
        env.reload(&tree(then));
        env.heard();
        env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
        env.pass(2);
        assert_eq!(env.heard(), ["app-a Accepted", "released v4 Preempted"], "{queue}");
        env.confirm_all();
        assert_eq!(env.heard(), ["app-a Running", "new k1 on n1"]);
    }
}

#[test]
fn two_go_where_one_is_not_enough_and_no_more() {
    // R7.25
    let mut env = full(A_AND_B);
    env.ask(vec![Ask::new("app-a", "k1", 40).preempts()]);
    env.pass(2);
    assert_eq!(env.heard(), ["app-a Accepted", "released v4 Preempted", "released v3 Preempted"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-a Running", "new k1 on n1"]);
}

#[test]
fn nothing_before_the_delay_and_without_the_right() {
    // R7.4, ideas 168 and 169
    let mut env = full(A_AND_B);
    env.ask(vec![Ask::new("app-a", "k1", 20)]);
    env.pass(40);
    assert_eq!(env.heard(), ["app-a Accepted"]);
    let queues = A_AND_B.replace("1s", "60s");
    let mut env = full(&queues);
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.pass(59);
    assert_eq!(env.heard(), ["app-a Accepted"]);
    assert_eq!(
        env.log("app-a", "k1"),
        ["Preemption preconditions failed", "Preemption does not help", "Not enough queue quota"]
    );
    env.pass(2);
    assert_eq!(env.heard(), ["released v4 Preempted"]);
}

#[test]
fn the_next_attempt_comes_after_fifteen_seconds() {
    // R7.4, idea 169
    let mut env = full(&A_AND_B.replace("{name: b}", "{name: b, properties: {preemption.policy: disabled}}"));
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.pass(3);
    let conf = callboard::config::load(&tree(A_AND_B)).expect("valid").partitions[0].clone();
    env.apply(callboard::domain::command::Command::Configure(conf));
    env.run();
    env.pass(12);
    assert_eq!(env.heard(), ["app-a Accepted"]);
    env.pass(2);
    assert_eq!(env.heard(), ["released v4 Preempted"]);
}

#[test]
fn without_a_guarantee_there_is_no_preemption() {
    // R7.17, idea 170
    let mut env = full("{name: a, properties: {preemption.delay: 1s}}, {name: b}");
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.pass(5);
    assert_eq!(env.heard(), ["app-a Accepted"]);
    assert!(env.log("app-a", "k1").contains(&"Preemption queue guarantees check failed".to_owned()));
}

#[test]
fn a_guarantee_of_the_parent_is_enough() {
    // R7.12, R7.15, idea 171
    let queues = "{name: p, parent: true, resources: {guaranteed: {memory: 50}}, properties: {preemption.delay: 1s}, \
                  queues: [{name: a}]}, {name: b}";
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 100);
    env.app("app-a", "root.p.a");
    env.app("app-b", "root.b");
    env.ask((0..5).map(|n| Ask::new("app-b", &format!("v{n}"), 20).preempts()).collect());
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(env.heard(), ["released v4 Preempted"]);
}

#[test]
fn the_ask_has_to_stay_within_its_guarantee() {
    // R7.17, R7.30: what was claimed before counts.
    let mut env = full(A_AND_B);
    env.ask((0..4).map(|n| Ask::new("app-a", &format!("k{n}"), 20).preempts()).collect());
    env.pass(60);
    assert_eq!(env.heard(), ["app-a Accepted", "released v4 Preempted"], "one node is reserved once");
    env.confirm_all();
    env.pass(60);
    env.confirm_all();
    env.pass(60);
    let heard = env.heard();
    assert_eq!(heard, ["app-a Running", "new k0 on n1", "released v3 Preempted", "new k1 on n1"], "60 is above 50");
}

#[test]
fn no_queue_falls_below_its_guarantee() {
    // R7.20, idea 187 [DEFECT]
    let queues = "{name: a, resources: {guaranteed: {memory: 50}}, properties: {preemption.delay: 1s}}, \
                  {name: b, resources: {guaranteed: {memory: 50}}}";
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 80);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-b", "v0", 40).preempts(), Ask::new("app-b", "v1", 40).preempts()]);
    env.ask(vec![Ask::new("app-a", "k1", 40).preempts()]);
    env.heard();
    env.pass(60);
    assert!(env.heard().iter().all(|text| !text.contains("released")), "80 - 40 is below 50");
}

#[test]
fn several_victims_together_stop_at_the_guarantee() {
    // R7.20
    let queues = "{name: a, resources: {guaranteed: {memory: 50}}, properties: {preemption.delay: 1s}}, \
                  {name: b, resources: {guaranteed: {memory: 65}}}";
    let mut env = full(queues);
    env.ask(vec![Ask::new("app-a", "k1", 40).preempts().priority(1), Ask::new("app-a", "k2", 20).preempts()]);
    env.pass(20);
    assert_eq!(env.heard(), ["app-a Accepted", "released v4 Preempted"], "k1 would need two, k2 one");
    assert!(env.log("app-a", "k1").contains(&"Preemption helped but short of resources".to_owned()));
}

#[test]
fn free_room_counts() {
    // R7.25 [DEFECT]
    let mut env = Env::calm(&tree(A_AND_B));
    env.node("n1", 105);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    for n in 0..5 {
        env.ask(vec![Ask::new("app-b", &format!("v{n}"), 20).preempts()]);
    }
    env.ask(vec![Ask::new("app-a", "k1", 25).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(env.heard(), ["released v4 Preempted"]);
}

#[test]
fn a_type_that_is_short_still_is_not_covered_by_another() {
    // R7.25 [DEFECT]: ask {vcore 2, memory 10}, first victim {vcore 3, memory 5}
    let mut env = Env::calm(&tree(&A_AND_B.replace("{memory: 50}", "{memory: 50, vcore: 50}")));
    env.node("n1", 100);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-b", "v0", 1).sized(res(95, 97)).preempts()]);
    env.ask(vec![Ask::new("app-b", "v1", 1).sized(res(5, 3)).preempts()]);
    env.ask(vec![Ask::new("app-a", "k1", 1).sized(res(10, 2)).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(env.heard(), ["released v0 Preempted"], "v1 alone is not enough, and with v0 it is not needed");
}

#[test]
fn a_type_of_amount_zero_counts_for_nothing() {
    // R7.25, idea 219 [DEFECT]
    let mut env = full(A_AND_B);
    let zero = Resource::of(&[("memory", 20), ("vcore", 20), ("gpu", 0)]);
    env.ask(vec![Ask::new("app-a", "k1", 20).sized(zero).preempts()]);
    env.pass(2);
    assert_eq!(env.heard(), ["app-a Accepted", "released v4 Preempted"]);
}

#[test]
fn opted_out_and_originators_come_last() {
    // R7.18, R7.22, ideas 179 and 180
    let mut env = Env::calm(&tree(A_AND_B));
    env.node("n1", 40);
    env.node("n2", 40);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-b", "driver", 40).on("n1").preempts().originator()]);
    env.ask(vec![Ask::new("app-b", "v1", 20).on("n2").preempts(), Ask::new("app-b", "v2", 20).on("n2").preempts()]);
    env.ask(vec![Ask::new("app-a", "k1", 40).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(env.heard(), ["released v2 Preempted", "released v1 Preempted"], "two ordinary ones before the driver");
    let mut env = Env::calm(&tree(A_AND_B));
    env.node("n1", 40);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-b", "v1", 20).preempts()]);
    env.ask(vec![Ask::new("app-b", "out", 20).opted_out()]);
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(env.heard(), ["released v1 Preempted"]);
}

#[test]
fn what_fits_nowhere_frees_nothing() {
    // R7.11, R7.25, ideas 183 and 184
    let mut env = Env::calm(&tree(&A_AND_B.replace("50", "200")));
    for node in ["n1", "n2"] {
        env.node(node, 40);
    }
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    for n in 0..2 {
        let node = format!("n{}", n + 1);
        env.ask(vec![
            Ask::new("app-b", &format!("v{n}"), 20).on(&node).preempts(),
            Ask::new("app-b", &format!("fixed{n}"), 20).on(&node).requires(&node),
        ]);
    }
    env.ask(vec![Ask::new("app-a", "large", 41).preempts(), Ask::new("app-a", "wide", 30).preempts()]);
    env.heard();
    env.pass(5);
    assert_eq!(env.heard(), Vec::<String>::new());
    assert!(!env.log("app-a", "large").contains(&"Preemption helped but short of resources".to_owned()));
    assert!(env.log("app-a", "wide").contains(&"Preemption helped but short of resources".to_owned()));
}

#[test]
fn a_full_queue_frees_room_on_any_node_and_a_node_with_room_is_used() {
    // R7.22, R7.24, ideas 185 and 218
    let queues = "{name: p, parent: true, resources: {max: {memory: 40}}, queues: [\
                  {name: a, resources: {guaranteed: {memory: 20}}, properties: {preemption.delay: 1s}}, {name: b}]}";
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 40);
    env.node("n2", 40);
    env.app("app-a", "root.p.a");
    env.app("app-b", "root.p.b");
    env.ask(vec![Ask::new("app-b", "v0", 20).on("n1").preempts(), Ask::new("app-b", "v1", 20).on("n1").preempts()]);
    env.ask(vec![Ask::new("app-a", "k1", 10).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(env.heard(), ["released v1 Preempted"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-a Running", "new k1 on n2"]);
}

#[test]
fn names_that_begin_alike_are_no_ancestors() {
    // R7.14, idea 188 [DEFECT]
    let queues = "{name: ab, resources: {guaranteed: {memory: 50}}, properties: {preemption.delay: 1s}}, \
                  {name: a, resources: {guaranteed: {memory: 100}}}";
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 100);
    env.app("app-ab", "root.ab");
    env.app("app-a", "root.a");
    env.ask((0..5).map(|n| Ask::new("app-a", &format!("v{n}"), 20).preempts()).collect());
    env.ask(vec![Ask::new("app-ab", "k1", 20).preempts()]);
    env.heard();
    env.pass(20);
    assert_eq!(env.heard(), Vec::<String>::new(), "root.a is at its guarantee");
}

#[test]
fn ten_attempts_of_a_leaf_in_a_cycle() {
    // R7.3, idea 189
    let mut env = full(&A_AND_B.replace("{name: b}", "{name: b, properties: {preemption.policy: disabled}}"));
    env.ask((0..12).map(|n| Ask::new("app-a", &format!("k{n:02}"), 20).preempts()).collect());
    env.heard();
    let due = env.now.plus(callboard::domain::types::Nanos::from_secs(1));
    env.now = due;
    env.apply(callboard::domain::command::Command::Tick);
    env.run();
    let exhausted = |env: &Env| {
        let has =
            |n: &usize| env.log("app-a", &format!("k{n:02}")).contains(&"Preemption max attempts exhausted".to_owned());
        (0..12usize).filter(has).collect::<Vec<_>>()
    };
    assert_eq!(exhausted(&env), [10, 11]);
    env.pass(30);
    assert_eq!(env.heard(), Vec::<String>::new());
}

#[test]
fn a_pass_that_begins_anew_and_stops_at_once_passes_nobody_over() {
    // R7.3, R7.4: one of those before may try again, and no attempt is left in this cycle.
    let mut env = full(&A_AND_B.replace("{name: b}", "{name: b, properties: {preemption.policy: disabled}}"));
    env.ask((0..12).map(|n| Ask::new("app-a", &format!("k{n:02}"), 20).preempts()).collect());
    env.now = env.now.plus(callboard::domain::types::Nanos::from_secs(1));
    env.apply(callboard::domain::command::Command::Tick);
    env.run();
    let app = env.partition.app_by_id["app-a"];
    let group = |env: &mut Env| env.partition.apps[app].groups_by_key.values_mut().next().expect("a group").clone();
    let (_, again) = *group(&mut env).preempted_up_to.expect("ten of twelve had their turn");
    assert!(again > env.now);
    for row in env.partition.apps[app].groups_by_key.values_mut() {
        if let Some((_, again)) = row.preempted_up_to.as_deref_mut() {
            *again = env.now;
        }
        row.preempt_at = env.now;
    }
    let first = env.partition.by_key(app, "k00").expect("a row");
    env.partition.allocs[first].preemption_tried = callboard::domain::types::Nanos::ZERO;
    env.node("n2", 1);
    // What only a limit holds back is tried when its moment comes, or with something new.
    env.ask(vec![Ask::new("app-a", "later", 20_000)]);
    assert_eq!(group(&mut env).preempted_up_to, None, "nobody had a turn in this pass");
}

#[test]
fn drained_nodes_and_those_of_others_are_out() {
    // R7.11
    let mut env = full(A_AND_B);
    env.node_action("n1", NodeAction::Drain, None);
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.pass(3);
    assert_eq!(env.heard(), ["app-a Accepted"]);
    env.node_action("n1", NodeAction::DrainToSchedulable, None);
    env.pass(20);
    assert_eq!(env.heard(), ["released v4 Preempted"]);
}

#[test]
fn who_may_preempt_as_soon_as_it_waits_for_nodes_does_so() {
    // R7.2: it is old already when it comes, and the nodes that it could reserve are of no use to it.
    let queues = "{name: g, resources: {guaranteed: {memory: 4}}}, {name: v}";
    let mut env = Env::calm(&tree(queues));
    env.node("m1", 8);
    env.node("k1", 1);
    env.node("k2", 1);
    env.app("x", "root.v");
    env.app("y", "root.g");
    env.ask((0..4).map(|n| Ask::new("x", &format!("v{n}"), 2).preempts()).collect());
    let mut ask = Ask::new("y", "k", 2).preempts();
    ask.spec.created = Some(env.now.minus(Nanos::from_secs(60)));
    env.ask(vec![ask]);
    env.pass(3);
    assert_eq!(env.unconfirmed.len(), 1, "{:?}", env.told);
    env.confirm_all();
    assert_eq!(env.heard().last().map(String::as_str), Some("new k on m1"));
}

#[test]
fn asks_in_vain_of_one_queue_leave_others_their_attempts() {
    // R7.3: each search of root.ax and root.ay looks at thousands of allocations, of which none may go together for so much.
    let leaf = |name: &str| {
        format!("{{name: {name}, resources: {{guaranteed: {{memory: 1000}}}}, properties: {{preemption.delay: 1s}}}}")
    };
    let queues = format!(
        "{}, {}, {}, {{name: off, properties: {{preemption.policy: disabled}}}}, {{name: best}}",
        leaf("ax"),
        leaf("ay"),
        leaf("z")
    );
    let mut env = Env::calm(&tree(&queues)).alone();
    for app in ["off", "best", "ax", "ay", "z"] {
        env.app(app, &format!("root.{app}"));
    }
    for n in 0..300 {
        env.node(&format!("n{n}"), 50);
        env.ask(vec![Ask::new("off", &format!("o{n}"), 30).on(&format!("n{n}"))]);
        env.ask((0..20).map(|k| Ask::new("best", &format!("b{n}-{k}"), 1).on(&format!("n{n}")).preempts()).collect());
    }
    for app in ["ax", "ay"] {
        env.ask((0..1500).map(|n| Ask::new(app, &format!("{app}{n}"), 30).preempts()).collect());
    }
    env.heard();
    env.ask(vec![Ask::new("z", "z1", 1).preempts()]);
    env.pass(3);
    assert!(env.heard().iter().any(|text| text.starts_with("released b")), "z1 had an attempt");
}

#[test]
fn asks_in_vain_of_one_application_leave_others_of_its_queue_their_attempts() {
    // R7.3: those of app-a and app-a1 are larger than the guarantee, and so many that some may try in every cycle.
    let mut env = full(A_AND_B).alone();
    for app in ["app-a1", "app-a2"] {
        env.app(app, "root.a");
    }
    for app in ["app-a", "app-a1"] {
        env.ask((0..1600).map(|n| Ask::new(app, &format!("{app}-{n}"), 60).preempts()).collect());
    }
    env.ask(vec![Ask::new("app-a2", "k1", 20).preempts()]);
    env.heard();
    env.pass(3);
    assert_eq!(env.heard(), ["released v4 Preempted"]);
}
