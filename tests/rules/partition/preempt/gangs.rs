//! A gang that waits for room for all of it preempts for all of it, by its queue's guarantee (R6.2, R7.2, SEEDS S11).

use callboard::domain::{
    command::{AddApplication, Command, NodeAction},
    partition::{Explainer, Why},
    resources::Resource,
    types::{AppState, Termination},
};

use super::{
    super::env::{Ask, Env, res},
    A_AND_B, tree,
};

/// Queue p may use 100, of which a is guaranteed so much and b the other; app-b fills 90 of it with v0 to v8.
fn full(a: i64, b: i64) -> Env {
    full_of(a, b, 0)
}

/// The same; the first of them have a higher priority.
fn full_of(a: i64, b: i64, high: usize) -> Env {
    let leaf = |name: &str, guaranteed: i64| {
        format!(
            "{{name: {name}, resources: {{guaranteed: {{memory: {guaranteed}}}}}, properties: {{preemption.delay: 1s}}}}"
        )
    };
    let below = format!("{}, {}", leaf("a", a), leaf("b", b));
    let mut env =
        Env::calm(&tree(&format!("{{name: p, parent: true, resources: {{max: {{memory: 100}}}}, queues: [{below}]}}")));
    env.node("n1", 100);
    env.node("n2", 100);
    env.app("app-b", "root.p.b");
    env.ask((0..9).map(|n| Ask::new("app-b", &format!("v{n}"), 10).preempts().priority(i32::from(n < high))).collect());
    env.heard();
    env
}

fn gang(env: &mut Env) {
    let item = AddApplication {
        id: "gang".into(),
        queue: "root.p.a".into(),
        placeholder_ask: Some(res(30, 30)),
        timeout_millis: 60_000,
        ..env.by("alice")
    };
    env.add_app(item);
}

fn placeholder(n: usize) -> Ask {
    Ask::new("gang", &format!("ph{n}"), 10).placeholder("tg").preempts()
}

fn placeholders(env: &mut Env) {
    gang(env);
    env.ask((0..3).map(placeholder).collect());
}

fn preempted(env: &mut Env) -> usize {
    env.heard().iter().filter(|text| text.ends_with("Preempted")).count()
}

fn confirm_one(env: &mut Env) {
    let release = env.unconfirmed.remove(0);
    env.release(&release.app, &release.key, release.termination);
}

#[test]
fn a_gang_preempts_for_all_of_it_once() {
    // R6.2, R7.2
    let mut env = full(50, 20);
    placeholders(&mut env);
    env.pass(2);
    assert_eq!(preempted(&mut env), 2, "90 + 30 of 100");
    let waiting = Explainer::new(&env.partition).application(env.partition.app_by_id["gang"], env.now);
    let [waiting] = &waiting[..] else { panic!("{waiting:?}") };
    assert!(matches!(&waiting.why, Why::Preempting { leaving, .. } if leaving.len() == 2), "{waiting:?}");
    assert_eq!(waiting.asks, 3);
    // What is promised is nobody else's, and nobody goes for it twice.
    env.app("other", "root.p.b");
    env.ask(vec![Ask::new("other", "late", 10).preempts()]);
    env.app("own", "root.p.a");
    env.ask(vec![Ask::new("own", "late-a", 10)]);
    env.pass(100);
    confirm_one(&mut env);
    assert_eq!((preempted(&mut env), env.partition.placeholders), (0, 0), "SEEDS S11: all or none");
    confirm_one(&mut env);
    assert_eq!(env.partition.placeholders, 3);
    env.pass(50);
    assert_eq!(preempted(&mut env), 0);
    env.end(&["gang", "other", "own", "app-b"]);
}

#[test]
fn nobody_goes_where_the_whole_cannot_be_reached() {
    // R7.9, R7.12, R7.19: the guarantee of the gang's queue covers a part of it, or too few may be victims.
    for (a, b, high, goes) in [(20, 20, 0, 0), (0, 0, 0, 0), (30, 70, 0, 2), (50, 20, 8, 0), (50, 20, 7, 2)] {
        let mut env = full_of(a, b, high);
        placeholders(&mut env);
        env.pass(40);
        assert_eq!((preempted(&mut env), env.partition.placeholders), (goes, 0), "{a} {b} {high}");
    }
    // R4.5, SEEDS S11: one of them may not, or has not come.
    let mut env = full(50, 20);
    gang(&mut env);
    env.ask(vec![placeholder(0), placeholder(1)]);
    env.pass(40);
    assert_eq!(preempted(&mut env), 0);
    env.ask(vec![Ask::new("gang", "ph2", 10).placeholder("tg")]);
    env.pass(40);
    assert_eq!(preempted(&mut env), 0);
    env.release("gang", "ph2", Termination::StoppedByRm);
    env.ask(vec![placeholder(3)]);
    env.pass(40);
    assert_eq!(preempted(&mut env), 2);
}

#[test]
fn what_it_has_preempted_for_goes_where_it_does() {
    // R7.27
    let mut env = full(50, 20);
    placeholders(&mut env);
    env.pass(2);
    assert_eq!(preempted(&mut env), 2);
    // The node that one of them holds goes, with what runs there: what is on its way out counts still.
    let claimant = env.partition.allocs.values().find(|row| row.triggered_preemption).expect("one of them").reserved;
    let node = env.partition.nodes[claimant.expect("a node")].spec.id.clone();
    env.node_action(&node, NodeAction::Decommission, None);
    env.unconfirmed
        .retain(|release| env.partition.alloc(&release.app, &release.key).is_some_and(|row| row.node.is_some()));
    env.pass(40);
    env.confirm_all();
    assert_eq!(env.partition.placeholders, 3);
    let used = env.partition.queues[env.partition.queue_by_path["root.p"]].allocated().value();
    assert!(res(100, 100).fits(&used), "{used}");
    env.remove_app("gang");
    // One is withdrawn, or the whole: the room is anybody's.
    let mut env = full(50, 20);
    placeholders(&mut env);
    env.pass(2);
    env.remove_app("gang");
    env.confirm_all();
    env.app("other", "root.p.b");
    env.ask((0..3).map(|n| Ask::new("other", &format!("k{n}"), 10)).collect());
    assert_eq!(env.heard().iter().filter(|text| text.starts_with("new k")).count(), 3);
    env.end(&["other", "app-b"]);
}

#[test]
fn a_gang_that_begins_by_itself_goes_on_ask_by_ask() {
    // R4.10: the shim placed one of them meanwhile.
    let mut env = full(50, 20);
    placeholders(&mut env);
    env.pass(2);
    assert_eq!(preempted(&mut env), 2);
    env.ask(vec![placeholder(2).on("n1")]);
    assert_eq!(env.partition.placeholders, 1);
    env.confirm_all();
    env.pass(40);
    env.confirm_all();
    assert_eq!(env.partition.placeholders, 3);
    let left = env.partition.apps[env.partition.app_by_id["app-b"]].allocs.len();
    assert_eq!(left, 7, "nobody went for it twice");
}

#[test]
fn the_shim_is_asked_about_the_victims_of_a_gang() {
    // R7.20, R5.27
    let mut env = full(50, 20);
    env.apply(Command::AskPredicates(true));
    placeholders(&mut env);
    env.pass(2);
    env.answer_all();
    assert_eq!(preempted(&mut env), 2);
    env.confirm_all();
    env.answer_all();
    assert_eq!(env.partition.placeholders, 3);
    env.pass(40);
    env.answer_all();
    assert_eq!(preempted(&mut env), 0);
    env.end(&["gang", "app-b"]);
}

fn sized(memory: i64, gpu: i64) -> Resource {
    Resource::of(&[("memory", memory), ("vcore", 0), ("gpu", gpu)])
}

/// A gang of asks for 5 and a gpu each, of which one has a place and the others wait for gpus that there are not: it has begun.
fn begun(env: &mut Env, queue: &str, of: i64) {
    let total = Some(sized(5 * of, of));
    let item = AddApplication { id: "begun".into(), queue: queue.into(), placeholder_ask: total, ..env.by("alice") };
    env.add_app(AddApplication { timeout_millis: 600_000, ..item });
    env.ask((0..of).map(|n| Ask::new("begun", &format!("b{n}"), 0).sized(sized(5, 1)).placeholder("tg")).collect());
}

/// A gang of two in root.p.a, which preempts, and all that is released until nothing comes any more.
fn two_preempt(env: &mut Env, each: i64) -> Vec<String> {
    env.heard();
    let total = Some(sized(2 * each, 0));
    let item = AddApplication { id: "two".into(), queue: "root.p.a".into(), placeholder_ask: total, ..env.by("alice") };
    env.add_app(AddApplication { timeout_millis: 600_000, ..item });
    let ask = |n| Ask::new("two", &format!("ph{n}"), 0).sized(sized(each, 0)).placeholder("tg").preempts();
    env.ask((0..2).map(ask).collect());
    for _ in 0..40 {
        env.pass(1);
        env.confirm_all();
    }
    let mut heard = env.heard();
    assert!(heard.contains(&"two Running".to_owned()), "{heard:?}");
    heard.retain(|text| text.ends_with("Preempted"));
    heard
}

fn leaf_a(guaranteed: i64) -> String {
    format!("{{name: a, resources: {{guaranteed: {{memory: {guaranteed}}}}}, properties: {{preemption.delay: 1s}}}}")
}

#[test]
fn a_gang_ends_nothing_outside_the_queue_that_others_fill() {
    // R7.9, SEEDS S11: what is kept for a gang that has begun fills root.p, and no victim outside makes room there.
    let queues = format!(
        "{{name: p, parent: true, resources: {{max: {{memory: 20}}}}, queues: [{}, {{name: c}}]}}, {{name: best}}",
        leaf_a(20)
    );
    let mut env = Env::calm(&tree(&queues));
    env.apply_node("n1", &[("memory", 1000), ("vcore", 1000)]);
    env.apply_node("g1", &[("memory", 1000), ("vcore", 1000), ("gpu", 1)]);
    env.app("others", "root.best");
    env.ask((0..30).map(|n| Ask::new("others", &format!("o{n}"), 1).preempts()).collect());
    begun(&mut env, "root.p.c", 3);
    assert_eq!(two_preempt(&mut env, 4), ["released b0 Preempted"]);
}

#[test]
fn what_is_kept_in_the_cluster_costs_no_victims() {
    // SEEDS S11: nodes say what room there is for what; root.p is short of 2, and has room when two have gone.
    let queues = format!(
        "{{name: p, parent: true, resources: {{max: {{memory: 30}}}}, queues: [{}, {{name: b}}]}}, {{name: c}}",
        leaf_a(12)
    );
    let mut env = Env::calm(&tree(&queues));
    env.apply_node("n1", &[("memory", 36), ("vcore", 1000)]);
    env.app("others", "root.p.b");
    env.ask((0..20).map(|n| Ask::new("others", &format!("o{n}"), 0).sized(sized(1, 0)).preempts()).collect());
    env.apply_node("g1", &[("memory", 5), ("vcore", 1000), ("gpu", 1)]);
    begun(&mut env, "root.c", 6);
    assert_eq!(two_preempt(&mut env, 6).len(), 2);
}

#[test]
fn a_gang_of_which_only_a_placeholder_was_preempted_has_not_run() {
    // R6.21, R3.16: its real asks may come after the time-out.
    let mut env = Env::calm(&tree(A_AND_B));
    for (node, size) in [("n1", 20), ("n2", 5), ("n3", 5)] {
        env.node(node, size);
    }
    env.gang("gang", "root.b", 30, "Soft");
    env.ask((0..3).map(|n| Ask::new("gang", &format!("ph{n}"), 10).placeholder("tg").preempts()).collect());
    env.app("app-a", "root.a");
    env.ask(vec![Ask::new("app-a", "k1", 10).preempts()]);
    env.pass(2);
    env.confirm_all();
    assert!(env.partition.alloc("app-a", "k1").is_some_and(|row| row.is_allocated()), "{:?}", env.told);
    env.pass(60);
    env.confirm_all();
    env.pass(60);
    assert_eq!(env.state("gang"), Some(AppState::Accepted), "{:?}", env.told);
    env.release("app-a", "k1", Termination::StoppedByRm);
    env.heard();
    env.ask(vec![Ask::new("gang", "r1", 10)]);
    assert!(env.heard().contains(&"new r1 on n1".to_owned()));
}

#[test]
fn a_gang_as_large_as_the_max_of_its_queue_keeps_what_its_first_part_preempted_for() {
    // SEEDS S11: what is promised to a part of it is a part of what it wants.
    let resources = "resources: {guaranteed: {memory: 30}, max: {memory: 30}}, properties: {preemption.delay: 1s}";
    let mut env = Env::calm(&tree(&format!("{{name: a, {resources}}}, {{name: b}}")));
    env.node("n1", 30);
    env.app("app-b", "root.b");
    env.ask((0..3).map(|n| Ask::new("app-b", &format!("v{n}"), 10).preempts()).collect());
    let item = AddApplication {
        id: "gang".into(),
        queue: "root.a".into(),
        placeholder_ask: Some(res(30, 30)),
        timeout_millis: 60_000,
        ..env.by("alice")
    };
    env.add_app(item);
    env.ask((0..3).map(placeholder).collect());
    env.heard();
    env.pass(2);
    let mut gone = preempted(&mut env);
    env.confirm_all();
    gone += preempted(&mut env);
    env.pass(1);
    env.confirm_all();
    gone += preempted(&mut env);
    assert_eq!((gone, env.partition.placeholders), (3, 3), "within 3 s");
    env.end(&["gang", "app-b"]);
}
