//! Lowered quotas (R7.39–R7.49, QPR-001–QPR-027, EVT-046).

use callboard::domain::{event::Detail, types::Nanos};
use proptest::prelude::*;

use super::{
    super::env::{Ask, Env},
    tree,
};

fn yaml(queues: &str) -> String {
    tree(queues).replace(
        "    queues:\n      - name: root",
        "    preemption: {quotapreemptionenabled: true}\n    queues:\n      - name: root",
    )
}

fn leaf(max: &str, delay: &str) -> String {
    format!("{{name: a, resources: {{max: {max}}}, properties: {{quota.preemption.delay: {delay}}}}}")
}

/// Five allocations of 20 in root.a.
fn used() -> Env {
    let mut env = Env::calm(&yaml(&leaf("{memory: 100}", "5s")));
    env.node("n1", 200);
    env.app("app-1", "root.a");
    env.ask((0..5).map(|n| Ask::new("app-1", &format!("k{n}"), 20).preempts().priority(9 - n)).collect());
    env.heard();
    env
}

fn start(env: &Env, queue: &str) -> Option<i64> {
    env.partition.queues[env.partition.queue_by_path[queue]].quota_start.map(|at| at.minus(env.now).as_secs())
}

#[test]
fn what_is_above_goes_after_the_delay_the_lowest_priority_first() {
    // R7.42, R7.45–R7.48, idea 194, EVT-018, EVT-046
    let mut env = used();
    env.reload(&yaml(&leaf("{memory: 60}", "5s")));
    env.pass(4);
    assert!(env.heard().is_empty());
    env.pass(2);
    assert_eq!(env.heard(), ["released k4 Preempted", "released k3 Preempted"]);
    assert_eq!(&*env.unconfirmed[0].message, "preempting allocations to enforce new max quota for queue : root.a");
    let event = env.events.iter().find(|e| e.detail == Detail::QueuePreemption).expect("a summary");
    assert_eq!(
        &*event.message,
        "Quota Preemption results summary: preemptable resources: map[memory:40], claimed resources: \
         map[memory:40 vcore:40], selected victims: 5, preempted victims: 2"
    );
    assert!(env.events.iter().any(|e| &*e.message == "Preempted by Quota change enforcement process in root.a"));
    env.confirm_all();
    env.pass(20);
    assert!(env.heard().is_empty());
    assert_eq!(start(&env, "root.a"), None);
}

#[test]
fn the_clock_of_a_reload() {
    // QPR-003, R7.40, idea 195, queue ideas 84 to 87
    let mut env = used();
    env.reload(&yaml(&leaf("{memory: 80}", "5s")));
    assert_eq!(start(&env, "root.a"), Some(5));
    env.pass(2);
    env.reload(&yaml(&leaf("{memory: 70}", "5s")));
    assert_eq!(start(&env, "root.a"), Some(3), "the first start is kept");
    env.reload(&yaml(&leaf("{memory: 60}", "9s")));
    assert_eq!(start(&env, "root.a"), Some(7), "shifted by the change of the delay");
    env.reload(&yaml(&leaf("{memory: 65}", "9s")));
    assert_eq!(start(&env, "root.a"), Some(7), "raised, and still exceeded");
    env.reload(&yaml(&leaf("{memory: 100}", "9s")));
    assert_eq!(start(&env, "root.a"), None, "covered");
    env.reload(&yaml(&leaf("{memory: 50}", "0s")));
    assert_eq!(start(&env, "root.a"), None, "no delay");
    env.reload(&yaml(&leaf("{memory: 50}", "10s")));
    assert_eq!(start(&env, "root.a"), Some(10), "the delay is new while above");
    env.reload(&yaml("{name: a, properties: {quota.preemption.delay: 10s}}"));
    assert_eq!(start(&env, "root.a"), None, "no max");
    env.reload(&yaml(&leaf("{memory: 50}", "10s")));
    assert_eq!(start(&env, "root.a"), None, "a first max lowers nothing (QPR-004)");
    env.reload(&yaml(&leaf("{memory: 40, vcore: 10}", "10s")));
    assert_eq!(start(&env, "root.a"), Some(10), "one type down, another up: section 12 item 12");
}

#[test]
fn a_flag_that_comes_later_and_usage_that_falls() {
    // QPR-002, R7.42
    let mut env = used();
    let off =
        yaml(&leaf("{memory: 60}", "2s")).replace("quotapreemptionenabled: true", "quotapreemptionenabled: false");
    env.reload(&off);
    env.pass(10);
    assert!(env.heard().is_empty());
    env.reload(&yaml(&leaf("{memory: 60}", "2s")));
    env.pass(1);
    assert_eq!(env.heard(), ["released k4 Preempted", "released k3 Preempted"]);
    let mut env = used();
    env.reload(&yaml(&leaf("{memory: 80}", "2s")));
    env.release("app-1", "k0", callboard::domain::types::Termination::StoppedByRm);
    env.heard();
    env.pass(5);
    assert!(env.heard().is_empty());
    assert_eq!(start(&env, "root.a"), None);
}

#[test]
fn a_forced_increase_starts_the_clock_once() {
    // R7.41, QPR-012, ideas 201 and 202
    let mut env = Env::calm(&yaml(&leaf("{memory: 30}", "5s")));
    env.node("n1", 200);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 20).on("n1"), Ask::new("app-1", "k2", 20).on("n1")]);
    assert_eq!(start(&env, "root.a"), Some(5));
    env.pass(2);
    env.ask(vec![Ask::new("app-1", "k1", 25)]);
    assert_eq!(start(&env, "root.a"), Some(3));
    env.heard();
    env.pass(4);
    assert_eq!(env.heard(), Vec::<String>::new(), "15 too much, and both are larger (R7.47)");
}

#[test]
fn never_more_than_the_amount() {
    // R7.47, idea 197
    let mut env = Env::calm(&yaml(&leaf("{memory: 36}", "1s")));
    env.node("n1", 200);
    env.app("app-1", "root.a");
    env.ask(vec![
        Ask::new("app-1", "k13", 13).priority(-3),
        Ask::new("app-1", "k12", 12).priority(-2),
        Ask::new("app-1", "k11", 11).priority(-1),
    ]);
    env.reload(&yaml(&leaf("{memory: 6}", "1s")));
    env.heard();
    env.pass(2);
    assert_eq!(env.heard(), ["released k13 Preempted", "released k12 Preempted"]);
}

#[test]
fn ordinary_ones_before_originators_before_opted_out() {
    // R7.46 [DEFECT], QPR-022a, idea 198
    let mut env = Env::calm(&yaml(&leaf("{memory: 40}", "1s")));
    env.node("n1", 200);
    env.app("app-1", "root.a");
    env.ask(vec![
        Ask::new("app-1", "out", 10).opted_out(),
        Ask::new("app-1", "driver", 10).preempts().originator(),
        Ask::new("app-1", "plain", 10).preempts(),
        Ask::new("app-1", "high", 10).preempts().priority(5),
    ]);
    env.heard();
    let mut order = Vec::new();
    for max in [30, 20, 10] {
        env.reload(&yaml(&leaf(&format!("{{memory: {max}}}"), "1s")));
        env.pass(2);
        order.extend(env.heard());
        env.confirm_all();
        env.heard();
    }
    assert_eq!(order, ["released plain Preempted", "released high Preempted", "released driver Preempted"]);
}

#[test]
fn a_parent_divides_among_those_above_their_guarantees() {
    // R7.44, idea 196
    let queues = |max: i64| {
        format!(
            "{{name: p, parent: true, resources: {{max: {{memory: {max}}}}}, properties: {{quota.preemption.delay: 1s}}, \
             queues: [{{name: l1, parent: true, resources: {{guaranteed: {{memory: 10}}}}, queues: [\
             {{name: a, resources: {{guaranteed: {{memory: 5}}}}}}, {{name: b, resources: {{guaranteed: {{memory: 5}}}}}}]}}, \
             {{name: l2}}, {{name: l4, resources: {{guaranteed: {{memory: 10}}}}}}]}}"
        )
    };
    let mut env = Env::calm(&yaml(&queues(140)));
    env.node("n1", 1000);
    for (app, queue, count) in
        [("a", "root.p.l1.a", 30), ("b", "root.p.l1.b", 20), ("c", "root.p.l2", 80), ("d", "root.p.l4", 10)]
    {
        env.app(app, queue);
        env.ask((0..count).map(|n| Ask::new(app, &format!("{app}{n}"), 1).preempts()).collect());
    }
    env.heard();
    env.reload(&yaml(&queues(40)));
    env.pass(1);
    let count = |env: &Env, app: &str| env.unconfirmed.iter().filter(|r| &*r.app == app).count();
    // 100 by 40 and 80; then 33 by 25 and 15. Rounding left one each time, from whom most is left.
    assert_eq!([count(&env, "a"), count(&env, "b"), count(&env, "c"), count(&env, "d")], [21, 12, 67, 0]);
    env.confirm_all();
    let p = env.partition.queue_by_path["root.p"];
    assert_eq!(env.partition.queues[p].allocated().total(), 2 * 40);
    env.heard();
    env.pass(9);
    assert_eq!(env.heard(), Vec::<String>::new());
}

fn parent(max: i64, children: &str) -> String {
    yaml(&format!(
        "{{name: p, parent: true, resources: {{max: {{memory: {max}}}}}, properties: {{quota.preemption.delay: 1s}}, \
         queues: [{children}]}}"
    ))
}

/// What is in use below `root.p` when all that goes is confirmed.
fn settled(env: &mut Env) -> i128 {
    for _ in 0..9 {
        env.pass(2);
        env.confirm_all();
    }
    let queue = &env.partition.queues[env.partition.queue_by_path["root.p"]];
    queue.allocated().amount(&callboard::domain::resources::MEMORY)
}

#[test]
fn what_runs_in_a_queue_that_was_converted_goes_as_well() {
    // R7.42–R7.45, CFG-102: a leaf became a parent, and a parent a leaf.
    let leaf = |max: i64| parent(max, "").replace("parent: true, ", "").replace(", queues: []", "");
    for (first, then, app) in
        [(leaf(100), parent(40, "{name: a}"), "root.p"), (parent(100, "{name: a}"), leaf(40), "root.p.a")]
    {
        let mut env = Env::calm(&first);
        env.node("n1", 100);
        env.app("x", app);
        env.ask((0..10).map(|n| Ask::new("x", &format!("k{n}"), 10).preempts()).collect());
        env.reload(&then);
        env.heard();
        assert_eq!(settled(&mut env), 40, "{app}");
    }
}

#[test]
fn what_the_shares_were_too_small_for_goes_from_whom_most_is_left() {
    // R7.44 [DEFECT], R7.47
    for (each, size, max, left) in [(4, 10, 50, 50), (2, 1, 3, 3), (2, 1, 1, 1), (4, 10, 55, 60), (1, 10, 12, 20)] {
        let mut env = Env::calm(&parent(1000, "{name: a}, {name: b}"));
        env.node("n1", 1000);
        for app in ["a", "b"] {
            env.app(app, &format!("root.p.{app}"));
            env.ask((0..each).map(|n| Ask::new(app, &format!("{app}{n}"), size).preempts()).collect());
        }
        env.heard();
        env.reload(&parent(max, "{name: a}, {name: b}"));
        env.pass(2);
        let gone = env.heard().len() as i64;
        assert_eq!(2 * each * size - gone * size, left, "{each} of {size} each, and {max} allowed: in one run");
        assert_eq!(settled(&mut env), i128::from(left));
        let told = env.events.iter().any(|event| event.message.contains("ends with usage above the max"));
        assert_eq!((told, start(&env, "root.p")), (left > max, None));
    }
}

#[test]
fn a_victim_that_is_too_large_is_counted_and_nothing_is_claimed() {
    // EVT-01A, EVT-046
    let mut env = Env::calm(&yaml(&leaf("{memory: 100}", "5s")));
    env.node("n1", 200);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k", 50).preempts()]);
    env.reload(&yaml(&leaf("{memory: 45}", "5s")));
    env.pass(6);
    let event = env.events.iter().find(|e| e.detail == Detail::QueuePreemption).expect("a summary");
    assert_eq!(
        &*event.message,
        "Quota Preemption results summary: preemptable resources: map[memory:5], claimed resources: nil resource, \
         selected victims: 1, preempted victims: 0"
    );
}

#[test]
fn usage_above_the_max_that_stays_is_told_once() {
    // R7.47, EVT-04C
    let mut env = Env::calm(&parent(100, "{name: a}, {name: b}"));
    env.node("n1", 1000);
    for app in ["a", "b"] {
        env.app(app, &format!("root.p.{app}"));
        env.ask(vec![Ask::new(app, app, 20).preempts()]);
    }
    env.reload(&parent(30, "{name: a}, {name: b}"));
    env.heard();
    assert_eq!(settled(&mut env), 40);
    let told: Vec<&str> =
        env.events.iter().map(|e| &*e.message).filter(|text| text.contains("above the max")).collect();
    assert_eq!(
        told,
        ["Quota Preemption ends with usage above the max: map[memory:10] stays, since every allocation uses more, is \
          guaranteed, requires its node, or is of a queue whose guarantee names other types alone"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// R7.42, R7.44, R7.47, QPR-027: never more than what is above the max goes, no leaf falls below its guarantee, and when it
    /// is over nothing is left that could still go.
    #[test]
    fn as_much_goes_as_can(
        sizes in prop::collection::vec((0usize..3, 1i64..20), 1..20),
        guaranteed in prop::collection::vec(0i64..30, 3),
        max in 1i64..150,
    ) {
        // A smaller one is refused (CFG-043).
        let max = max.max(guaranteed.iter().sum());
        let leaf = |n: usize| format!("{{name: l{n}, resources: {{guaranteed: {{memory: {}}}}}}}", guaranteed[n]);
        let tree = format!("{}, {{name: q, parent: true, queues: [{}, {}]}}", leaf(0), leaf(1), leaf(2));
        let path = |n: usize| if n == 0 { "root.p.l0".to_owned() } else { format!("root.p.q.l{n}") };
        let mut env = Env::calm(&parent(1000, &tree));
        env.node("n1", 1000);
        for n in 0..3 {
            env.app(&format!("app-{n}"), &path(n));
        }
        let keyed = |(at, (n, size)): (usize, &(usize, i64))| Ask::new(&format!("app-{n}"), &format!("k{at}"), *size).preempts();
        env.ask(sizes.iter().enumerate().map(keyed).collect());
        let used = |env: &Env, path: &str| {
            let queue = &env.partition.queues[env.partition.queue_by_path[path]];
            queue.allocated().amount(&callboard::domain::resources::MEMORY) as i64
        };
        let before: Vec<i64> = (0..3).map(|n| used(&env, &path(n))).collect();
        env.reload(&parent(max, &tree));
        let whole = settled(&mut env) as i64;
        prop_assert!(whole >= max.min(before.iter().sum()), "{whole} of {max}");
        let spare: Vec<i64> = (0..3).map(|n| used(&env, &path(n)) - guaranteed[n]).collect();
        for n in 0..3 {
            prop_assert!(spare[n] >= 0 || spare[n] + guaranteed[n] == before[n]);
        }
        for (at, (n, size)) in sizes.iter().enumerate() {
            let is_left = env.partition.apps.values().any(|app| {
                app.allocs.keys().any(|alloc| *env.partition.allocs[*alloc].spec.key == *format!("k{at}"))
            });
            let fits = *size <= whole - max && *size <= spare[*n];
            prop_assert!(!(is_left && fits), "k{at} of {size} could go: {whole} of {max}, {spare:?}");
        }
    }
}

#[test]
fn never_below_a_guarantee_above() {
    // R7.43 [DEFECT], idea 199
    let queues = |max: i64, parent: i64| {
        format!(
            "{{name: p, parent: true, resources: {{guaranteed: {{memory: {parent}}}}}, queues: [{{name: a, \
             resources: {{max: {{memory: {max}}}, guaranteed: {{memory: 20}}}}, \
             properties: {{quota.preemption.delay: 1s}}}}]}}"
        )
    };
    for (parent, gone) in [(70, 1), (100, 0), (20, 3)] {
        let mut env = Env::calm(&yaml(&queues(80, parent)));
        env.node("n1", 200);
        env.app("app-1", "root.p.a");
        env.ask((0..8).map(|n| Ask::new("app-1", &format!("k{n}"), 10).preempts()).collect());
        env.reload(&yaml(&queues(50, parent)));
        env.pass(3);
        assert_eq!(env.unconfirmed.len(), gone, "parent guaranteed {parent}");
    }
}

#[test]
fn an_empty_amount_ends_the_run() {
    // R7.42a, QPR-020a, idea 216 [DEFECT]
    let queues = |max: i64| {
        format!(
            "{{name: p, parent: true, resources: {{max: {{memory: {max}}}}}, properties: {{quota.preemption.delay: 1s}}, \
             queues: [{{name: a}}]}}"
        )
    };
    let mut env = Env::calm(&yaml(&queues(80)));
    env.node("n1", 200);
    env.app("app-1", "root.p.a");
    env.ask((0..8).map(|n| Ask::new("app-1", &format!("k{n}"), 10).preempts()).collect());
    env.reload(&yaml(&queues(50)));
    env.pass(2);
    assert_eq!(env.unconfirmed.len(), 3);
    env.ask(vec![Ask::new("app-1", "k0", 9)]);
    env.pass(5);
    assert_eq!(env.unconfirmed.len(), 3, "what is on its way out is enough");
    assert_eq!(start(&env, "root.p"), None);
}

#[test]
fn dynamic_queues_are_left_alone_and_nothing_ticks_without_need() {
    // R7.39, idea 200
    let env = used();
    assert_eq!(start(&env, "root.a"), None);
    let next = env.partition.next_deadline().expect("the inspector's");
    assert!(next.minus(env.now) <= Nanos::from_secs(1));
}

#[test]
fn no_queue_falls_below_its_guarantee_in_what_goes_as_well() {
    // QPR-027: each allocation of 20 memory uses 20 vcore too.
    for (guaranteed, gone) in [(100, 0), (80, 1), (0, 2)] {
        let queue = |max: i64| {
            format!(
                "{{name: a, resources: {{max: {{memory: {max}}}, guaranteed: {{vcore: {guaranteed}m}}}}, properties: {{quota.preemption.delay: 5s}}}}"
            )
        };
        let mut env = Env::calm(&yaml(&queue(100)));
        env.node("n1", 200);
        env.app("app-1", "root.a");
        env.ask((0..5).map(|n| Ask::new("app-1", &format!("k{n}"), 20).preempts()).collect());
        env.heard();
        env.reload(&yaml(&queue(60)));
        env.pass(20);
        assert_eq!(env.heard().len(), gone, "{guaranteed}");
    }
}
