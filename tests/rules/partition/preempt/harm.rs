//! The least harm (R7.18, R7.22, R7.25, R7.36): small worlds in which every choice is tried and compared by the order that is
//! written down in `docs/differences.md`.

use std::cmp::Reverse;

use callboard::domain::{resources::Resource, types::Nanos};
use proptest::{prelude::*, test_runner::TestCaseError};

use super::{
    super::env::{Ask, Env, res},
    A_AND_B, tree,
};

/// Opted out, originator (the other way round for required nodes), highest priority, beyond need, number, ages.
type Harm = ((bool, bool), i32, u64, usize, Reverse<Vec<(Nanos, u64)>>);

/// One possible victim.
#[derive(Clone, Debug)]
struct Victim {
    key: String,
    node: String,
    size: Resource,
    protected: (bool, bool),
    priority: i32,
    age: (Nanos, u64),
}

fn victims(env: &Env, app: &str, required: bool) -> Vec<Victim> {
    let app = &env.partition.apps[env.partition.app_by_id[app]];
    let rows = app.allocs.keys().map(|alloc| &env.partition.allocs[*alloc]);
    rows.filter(|row| row.spec.required_node.is_none())
        .map(|row| {
            let (opted_out, originator) = (row.spec.opted_out(), row.spec.originator);
            Victim {
                key: row.spec.key.to_string(),
                node: env.partition.nodes[row.node.expect("placed")].spec.id.to_string(),
                size: (*row.resource).clone(),
                protected: if required { (originator, opted_out) } else { (opted_out, originator) },
                priority: row.spec.priority,
                age: (row.created, row.seq),
            }
        })
        .collect()
}

fn gap(need: &Resource, have: &Resource) -> Resource {
    let mut gap = Resource::new();
    for (kind, amount) in need.iter().filter(|(_, amount)| *amount > 0) {
        let missing = amount - have.amount(kind);
        if missing > 0 {
            gap.set(kind.clone(), missing);
        }
    }
    gap
}

fn sum<'a>(of: impl Iterator<Item = &'a Victim>) -> Resource {
    of.fold(Resource::new(), |mut sum, victim| {
        sum.add(&victim.size);
        sum
    })
}

/// The keys of the least harm among all subsets for one node, by trying them all. `spare`: what may go without a queue of
/// theirs falling below its guarantee.
fn least(
    env: &Env,
    all: &[Victim],
    (node, missing): (&str, &Resource),
    short: &Resource,
    spare: Option<&Resource>,
) -> Option<(Harm, Vec<String>)> {
    let mut best: Option<(Harm, Vec<String>)> = None;
    for set in 0..1_usize << all.len() {
        let chosen: Vec<&Victim> =
            all.iter().enumerate().filter(|(n, _)| set & (1 << n) != 0).map(|(_, v)| v).collect();
        let total = sum(chosen.iter().copied());
        let here = sum(chosen.iter().copied().filter(|victim| victim.node == node));
        let too_much = |spare: &Resource| spare.iter().any(|(kind, spare)| total.amount(kind) > spare.max(0));
        if !gap(missing, &here).is_empty() || !gap(short, &total).is_empty() || spare.is_some_and(too_much) {
            continue;
        }
        let beyond = total.iter().map(|(kind, amount)| {
            let beyond = (amount - missing.amount(kind).max(short.amount(kind))).max(0);
            beyond as f64 / env.partition.total.amount(kind).max(1) as f64
        });
        let mut ages: Vec<_> = chosen.iter().map(|victim| victim.age).collect();
        ages.sort_unstable();
        let harm: Harm = (
            chosen.iter().fold((false, false), |so_far, v| (so_far.0 | v.protected.0, so_far.1 | v.protected.1)),
            chosen.iter().map(|victim| victim.priority).max().unwrap_or(i32::MIN),
            beyond.fold(0.0, f64::max).to_bits(),
            chosen.len(),
            Reverse(ages),
        );
        if best.as_ref().is_none_or(|(known, _)| harm < *known) {
            best = Some((harm, chosen.iter().map(|victim| victim.key.clone()).collect()));
        }
    }
    best
}

/// What the queues from `root.p.a` or `root.a` up lack for an ask.
fn short(env: &Env, queue: &str, ask: &Resource) -> Resource {
    let mut short = Resource::new();
    let mut level = Some(env.partition.queue_by_path[queue]);
    while let Some(ix) = level {
        let row = &env.partition.queues[ix];
        for (kind, amount) in ask.iter() {
            if let Some(max) = row.max.as_ref().and_then(|max| max.get(kind)) {
                let missing = row.allocated().amount(kind) + amount - max;
                if missing > short.amount(kind) {
                    short.set(kind.clone(), missing);
                }
            }
        }
        level = row.parent;
    }
    short
}

fn preempted(env: &mut Env) -> Vec<String> {
    let heard = env.heard();
    let mut keys: Vec<String> = heard
        .iter()
        .filter_map(|text| text.strip_prefix("released ")?.strip_suffix(" Preempted"))
        .map(str::to_owned)
        .collect();
    keys.sort();
    keys
}

#[test]
fn two_of_twenty_go_for_forty_and_not_one_of_a_hundred() {
    let mut env = Env::calm(&tree(A_AND_B));
    env.node("n1", 140);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-b", "small1", 20).preempts(), Ask::new("app-b", "small2", 20).preempts()]);
    env.ask(vec![Ask::new("app-b", "large", 100).preempts()]);
    env.ask(vec![Ask::new("app-a", "k1", 40).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(preempted(&mut env), ["small1", "small2"]);
    // The same on another node, and where the large one is as young as can be.
    let mut env = Env::calm(&tree(A_AND_B));
    env.node("n1", 100);
    env.node("n2", 40);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![
        Ask::new("app-b", "small1", 20).on("n2").preempts(),
        Ask::new("app-b", "small2", 20).on("n2").preempts(),
    ]);
    env.ask(vec![Ask::new("app-b", "large", 100).on("n1").preempts()]);
    env.ask(vec![Ask::new("app-a", "k1", 40).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(preempted(&mut env), ["small1", "small2"]);
}

#[test]
fn the_order_of_costs() {
    // Each is compared before the next: opted out, originator, priority, beyond need, number, age.
    type Kind = fn(Ask) -> Ask;
    let plain: Kind = |ask| ask.preempts();
    type Case = (&'static str, [(i64, i32, Kind); 3], &'static [&'static str]);
    let cases: [Case; 7] = [
        (
            "who opted out is spared, whatever goes for it",
            [
                (40, 0, |a| a.opted_out()),
                (20, 5, |a| a.preempts().originator()),
                (30, 9, |a| a.preempts().originator()),
            ],
            &["v1", "v2"],
        ),
        ("then originators", [(40, 0, |a| a.preempts().originator()), (90, 9, plain), (10, 0, plain)], &["v1"]),
        ("then high priorities", [(40, 1, plain), (90, 0, plain), (10, 0, plain)], &["v1"]),
        ("then what is beyond need", [(40, 0, plain), (20, 0, plain), (21, 0, plain)], &["v0"]),
        ("then the number", [(20, 0, plain), (20, 0, plain), (40, 0, plain)], &["v2"]),
        ("then age", [(40, 0, plain), (40, 0, plain), (39, 0, plain)], &["v1"]),
        ("a small one that is not enough does not count", [(39, 0, plain), (45, 0, plain), (50, 0, plain)], &["v1"]),
    ];
    for (about, kinds, wanted) in cases {
        let mut env = Env::calm(&tree(A_AND_B));
        env.node("n1", kinds.iter().map(|(size, ..)| size).sum());
        env.app("app-a", "root.a");
        env.app("app-b", "root.b");
        for (n, (size, priority, kind)) in kinds.into_iter().enumerate() {
            env.ask(vec![kind(Ask::new("app-b", &format!("v{n}"), size)).priority(priority)]);
            env.pass(1);
        }
        env.ask(vec![Ask::new("app-a", "k1", 40).preempts().priority(9)]);
        env.heard();
        env.pass(2);
        assert_eq!(preempted(&mut env), wanted, "{about}");
    }
}

#[test]
fn types_that_nobody_asked_for_are_taken_as_well() {
    // A pod with a device does not go for memory where another is there.
    let mut env = Env::calm(&tree(A_AND_B));
    env.apply_node("n1", &[("memory", 40), ("vcore", 40), ("gpu", 8)]);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask(vec![Ask::new("app-b", "old", 1).sized(res(20, 20)).preempts()]);
    let device = Resource::of(&[("memory", 20), ("vcore", 20), ("gpu", 8)]);
    env.ask(vec![Ask::new("app-b", "young", 1).sized(device).preempts()]);
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
    env.heard();
    env.pass(2);
    assert_eq!(preempted(&mut env), ["old"]);
}

#[test]
fn victims_of_one_request_are_of_an_age_by_their_place_in_it() {
    // R7.35: younger before smaller, and what comes later in a request is younger.
    let mut env = Env::calm(&tree("{name: a}, {name: b}"));
    env.node("n1", 30);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    env.ask((0..3).map(|n| Ask::new("app-b", &format!("v{n}"), 10).preempts()).collect());
    env.node("n2", 100);
    env.heard();
    env.ask(vec![Ask::new("app-a", "ds", 10).requires("n1")]);
    assert_eq!(preempted(&mut env), ["v2"]);
}

/// Every world of one node with four victims of three sizes, in six patterns of priority and protection.
#[test]
fn every_choice_on_one_node() {
    let patterns: [[(i32, u8); 4]; 6] = [
        [(0, 0); 4],
        [(0, 0), (1, 0), (0, 0), (1, 0)],
        [(2, 0), (1, 0), (0, 0), (0, 0)],
        [(0, 1), (0, 0), (0, 0), (0, 1)],
        [(0, 2), (0, 0), (0, 1), (0, 0)],
        [(1, 2), (0, 2), (1, 1), (0, 1)],
    ];
    let mut worlds = 0;
    for n in 0..81_usize {
        let sizes = [0, 1, 2, 3].map(|at| [1, 2, 4][n / 3_usize.pow(at) % 3]);
        for (which, pattern) in patterns.iter().enumerate() {
            // Every pattern with every sixth world, so that the test takes seconds, and every ask with each.
            if n % 6 != which {
                continue;
            }
            for wanted in 1..6 {
                worlds += 1;
                let mut env = Env::calm(&tree(A_AND_B));
                let size: i64 = sizes.iter().sum();
                env.node("n1", size);
                env.app("app-a", "root.a");
                env.app("app-b", "root.b");
                let asks = sizes.iter().zip(pattern).enumerate().map(|(at, (size, (priority, kind)))| {
                    let ask = Ask::new("app-b", &format!("v{at}"), *size).priority(*priority);
                    match kind {
                        0 => ask.preempts(),
                        1 => ask.preempts().originator(),
                        _ => ask.opted_out(),
                    }
                });
                env.ask(asks.collect());
                env.ask(vec![Ask::new("app-a", "k1", wanted).preempts().priority(9)]);
                env.heard();
                let all = victims(&env, "app-b", false);
                let need = res(wanted, wanted);
                let expected = least(&env, &all, ("n1", &need), &need, None).map(|(_, mut keys)| {
                    keys.sort();
                    keys
                });
                env.pass(2);
                assert_eq!(preempted(&mut env), expected.unwrap_or_default(), "{sizes:?} {pattern:?} for {wanted}");
            }
        }
    }
    assert!(worlds > 350);
}

#[test]
fn a_node_with_room_is_taken_where_only_queues_are_short() {
    // On its own full node the second victim leaves less beyond need, as more is missing there. The node with room needs nobody
    // to leave it, so only what the queue lacks counts.
    let protected = [(5, 1, 2, 0, 0), (4, 5, 0, 0, 0), (3, 1, 0, 0, 0), (7, 5, 0, 0, 0), (5, 7, 0, 0, 0)];
    let rows: Vec<Row> = [(5, 1, 2, 2, 0), (3, 4, 2, 2, 1)].into_iter().chain(protected).collect();
    for room in [(1, 1), (1, 2), (2, 1), (0, 2), (1, 5)] {
        choose_in_world(&rows, (1, 2), room, Some(32), None).expect("the least harm");
    }
}

/// Size in memory and vcore, priority, kind, node.
type Row = (i64, i64, i32, u8, usize);

/// Two nodes with room left, a parent whose max may be reached, a guarantee that may protect: who goes is compared with the
/// least harm among all choices.
fn choose_in_world(
    rows: &[Row],
    wanted: (i64, i64),
    room: (i64, i64),
    max: Option<i64>,
    guaranteed: Option<i64>,
) -> Result<(), TestCaseError> {
    let max = max.map_or(String::new(), |max| format!(", resources: {{max: {{memory: {max}}}}}"));
    let b = guaranteed.map_or(String::new(), |least| format!(", resources: {{guaranteed: {{memory: {least}}}}}"));
    let queues = format!(
        "{{name: p, parent: true{max}, queues: [{{name: a, resources: {{guaranteed: {{memory: 12, vcore: 12}}}}, \
         properties: {{preemption.delay: 1s}}}}, {{name: b{b}}}]}}"
    );
    // A parent's max has to hold what its children are guaranteed.
    if callboard::config::load(&tree(&queues)).is_err() {
        return Err(TestCaseError::reject("a max below what is guaranteed"));
    }
    let mut env = Env::calm(&tree(&queues));
    for n in 0..2 {
        let here = |(_, _, _, _, at): &&Row| *at == n;
        let memory: i64 = rows.iter().filter(here).map(|row| row.0).sum();
        let vcore: i64 = rows.iter().filter(here).map(|row| row.1).sum();
        let (more_memory, more_vcore) = if n == 0 { room } else { (room.1, room.0) };
        env.apply_node(&format!("n{n}"), &[("memory", memory + more_memory), ("vcore", vcore + more_vcore)]);
    }
    env.app("app-a", "root.p.a");
    env.app("app-b", "root.p.b");
    for (n, (memory, vcore, priority, kind, node)) in rows.iter().enumerate() {
        let ask = Ask::new("app-b", &format!("v{n}"), 1)
            .sized(res(*memory, *vcore))
            .priority(*priority)
            .on(&format!("n{node}"));
        let ask = match kind {
            0 => ask.opted_out(),
            1 => ask.preempts().originator(),
            _ => ask.preempts(),
        };
        env.ask(vec![ask]);
    }
    let need = res(wanted.0, wanted.1);
    env.ask(vec![Ask::new("app-a", "k1", 1).sized(need.clone()).preempts().priority(9)]);
    if env.heard().iter().any(|text| text.starts_with("new k1")) {
        return Err(TestCaseError::reject("there is room"));
    }
    let all = victims(&env, "app-b", false);
    let short = short(&env, "root.p.a", &need);
    let b = &env.partition.queues[env.partition.queue_by_path["root.p.b"]];
    let spare = b.guaranteed.as_ref().map(|guaranteed| {
        let mut spare = Resource::new();
        for (kind, least) in guaranteed.iter() {
            spare.set(kind.clone(), b.allocated().amount(kind) - least);
        }
        spare
    });
    let mut best: Option<(Harm, Vec<String>)> = None;
    for node in env.partition.nodes.values().filter(|node| node.capacity.fits(&need)) {
        let missing = gap(&need, node.available());
        let found = least(&env, &all, (&node.spec.id, &missing), &short, spare.as_ref());
        let Some(found) = found else { continue };
        // Where there is room only the queues are short, and less cannot be missing.
        let has_room = missing.is_empty();
        if has_room || best.as_ref().is_none_or(|best| found.0 < best.0) {
            best = Some(found);
        }
        if has_room {
            break;
        }
    }
    let mut expected = best.map(|(_, keys)| keys).unwrap_or_default();
    expected.sort();
    env.pass(2);
    prop_assert_eq!(preempted(&mut env), expected, "{:?} for {:?}, short {}", rows, wanted, short);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    // Two nodes with room left, a parent whose max may be reached, a guarantee that may protect, two types of resource.
    #[test]
    fn every_choice_of_random_worlds(
        rows in prop::collection::vec((1i64..8, 1i64..8, 0i32..3, 0u8..6, 0usize..2), 1..8),
        wanted in (1i64..12, 1i64..6),
        room in (0i64..6, 0i64..6),
        max in prop::option::of(10i64..40),
        guaranteed in prop::option::of(1i64..12),
    ) {
        choose_in_world(&rows, wanted, room, max, guaranteed)?;
    }

    // R7.36: the node that an ask requires.
    #[test]
    fn every_choice_for_a_required_node(
        rows in prop::collection::vec((1i64..8, 1i64..8, 0i32..3, 0u8..6), 1..8),
        wanted in (1i64..12, 1i64..6),
        room in (0i64..6, 0i64..6),
    ) {
        let mut env = Env::calm(&tree("{name: a}, {name: b}"));
        let memory: i64 = rows.iter().map(|row| row.0).sum();
        let vcore: i64 = rows.iter().map(|row| row.1).sum();
        env.apply_node("n0", &[("memory", memory + room.0), ("vcore", vcore + room.1)]);
        env.node("n1", 100);
        env.app("app-a", "root.a");
        env.app("app-b", "root.b");
        for (n, (memory, vcore, priority, kind)) in rows.iter().enumerate() {
            let ask = Ask::new("app-b", &format!("v{n}"), 1).sized(res(*memory, *vcore)).priority(*priority).on("n0");
            env.ask(vec![match kind {
                0 => ask.opted_out(),
                1 => ask.preempts().originator(),
                _ => ask.preempts(),
            }]);
        }
        let all: Vec<Victim> = victims(&env, "app-b", true).into_iter().filter(|victim| victim.priority <= 1).collect();
        let need = res(wanted.0, wanted.1);
        let node = &env.partition.nodes[env.partition.node_by_id["n0"]];
        prop_assume!(node.capacity.fits(&need));
        let missing = gap(&need, node.available());
        let mut expected = match missing.is_empty() {
            true => Vec::new(),
            false => least(&env, &all, ("n0", &missing), &Resource::new(), None).map(|(_, keys)| keys).unwrap_or_default(),
        };
        expected.sort();
        env.heard();
        env.ask(vec![Ask::new("app-a", "ds", 1).sized(need).requires("n0").priority(1)]);
        prop_assert_eq!(preempted(&mut env), expected, "{:?} for {:?}", rows, wanted);
    }
}
