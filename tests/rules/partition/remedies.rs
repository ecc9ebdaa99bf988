//! What would place a waiting ask: each suggestion, applied, places it; and where none is made, no change of one setting
//! would have.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt::Write as _,
    sync::Arc,
};

use callboard::{
    config::{self, LoadedConfig},
    domain::{
        Partition,
        command::{AddApplication, Command, NodeAction},
        conf::QueueConf,
        edit::Edit,
        partition::{
            Explainer, Waiting, Why,
            forward::Bounds,
            remedies::{Advice, Change, Nothing, Remedy},
        },
        resources::Resource,
        types::{AppIx, Nanos, Termination},
    },
};
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

use super::env::{Ask, Env, res};

/// Worlds in an ordinary run; `PROPTEST_CASES=1000` for more.
const WORLDS: u32 = 60;

fn never() -> bool {
    false
}

const BOUNDS: Bounds<'static> = Bounds { decisions: 100_000, stop: &never };

fn advise(config: &LoadedConfig, partition: &Partition, app: AppIx, waiting: &Waiting, now: Nanos) -> Advice {
    let edit = |edits: &[Edit]| config.edited("default", edits).map(|edited| edited.conf);
    partition.remedies(app, waiting, now, &edit, BOUNDS)
}

/// Commands are applied to a copy, and time passes; are these placed then, or what took their place?
fn places(env: &Env, commands: Vec<Command>, keys: &[String], seconds: i64) -> bool {
    let mut then = Env {
        partition: env.partition.clone(),
        now: env.now,
        told: Vec::new(),
        unconfirmed: env.unconfirmed.clone(),
        events: Vec::new(),
        questions: env.questions.clone(),
        calm: true,
        refusals: Vec::new(),
        lives: None,
        recorded: None,
        twin: None,
        reader: None,
    };
    let all = |then: &mut Env| {
        then.run();
        while !then.unconfirmed.is_empty() || !then.questions.is_empty() {
            then.confirm_all();
            then.answer_all();
        }
        let placed = |key: &String| then.told.iter().any(|told| told.starts_with(&format!("new {key} on ")));
        keys.iter().all(placed)
    };
    // Where nothing has to be done, what was sent before is confirmed all the same.
    let mut done = commands.is_empty() && all(&mut then);
    for command in commands {
        then.apply(command);
        done = all(&mut then);
    }
    let end = then.now.plus(Nanos::from_secs(seconds));
    while let Some(next) = then.partition.next_deadline().filter(|next| !done && *next <= end) {
        then.now = next.max(then.now);
        then.apply(Command::Tick);
        done = all(&mut then);
    }
    done
}

/// The keys of what has to be placed.
fn wanted(partition: &Partition, app: AppIx, waiting: &Waiting) -> Vec<String> {
    let row = &partition.apps[app];
    let placeholders: Vec<String> = row
        .by_seq
        .values()
        .map(|ix| &partition.allocs[*ix])
        .filter(|alloc| alloc.is_placeholder() && alloc.is_pending())
        .map(|alloc| alloc.spec.key.to_string())
        .collect();
    if (waiting.placeholder || matches!(waiting.why, Why::Gang { .. })) && !placeholders.is_empty() {
        return placeholders;
    }
    vec![partition.allocs[waiting.first].spec.key.to_string()]
}

fn check(config: &LoadedConfig, env: &Env, seen: &mut BTreeMap<&'static str, usize>) {
    for (id, ix) in env.partition.app_by_id.iter() {
        let found = Explainer::new(&env.partition).application(*ix, env.now);
        for waiting in &found {
            let advice = advise(config, &env.partition, *ix, waiting, env.now);
            assert!(advice.complete, "{id}: {advice:#?}");
            assert!(advice.remedies.len() <= 5 && advice.none.is_some() == advice.remedies.is_empty(), "{advice:#?}");
            assert!(advice.remedies.is_sorted_by(|a, b| a.size <= b.size), "{advice:#?}");
            let keys = wanted(&env.partition, *ix, waiting);
            for remedy in &advice.remedies {
                *seen.entry(kind(&remedy.change)).or_default() += 1;
                let commands = commands(config, &env.partition, remedy);
                let keys = match &remedy.change {
                    Change::Preempt { ask } => vec![format!("{} (again)", ask.1)],
                    Change::Members { keys, .. } => keys.iter().map(|key| key.to_string()).collect(),
                    _ => keys.clone(),
                };
                let seconds = remedy.after.as_secs() + 1;
                assert!(places(env, commands, &keys, seconds), "{id} {keys:?}: {remedy:#?}\n{waiting:#?}");
            }
            if advice.none == Some(Nothing::NoSingleChange) || advice.none == Some(Nothing::TooLarge) {
                *seen.entry("none").or_default() += 1;
                nothing_helps(config, env, *ix, waiting, &keys);
            }
        }
    }
}

fn kind(change: &Change) -> &'static str {
    match change {
        Change::Wait => "wait",
        Change::Edit(Edit::Max { .. }) => "max",
        Change::Edit(Edit::Applications { .. }) => "applications",
        Change::Edit(Edit::LimitMax { .. }) => "limit",
        Change::Edit(Edit::LimitApplications { .. }) => "limit of applications",
        Change::Named { .. } => "named",
        Change::Edit(_) | Change::Preempt { .. } => "preemption",
        Change::Undrain { .. } => "undrain",
        Change::Free { .. } => "free",
        Change::Smaller { .. } => "smaller",
        Change::Members { .. } => "members",
        Change::Queue { .. } => "queue",
        Change::Resume { .. } => "resume",
        Change::Register { .. } => "register",
        Change::Nodes { .. } => "nodes",
    }
}

fn commands(config: &LoadedConfig, partition: &Partition, remedy: &Remedy) -> Vec<Command> {
    let edit = |edits: &[Edit]| config.edited("default", edits).map(|edited| edited.conf);
    remedy.commands(partition, &edit).unwrap_or_else(|refused| panic!("{refused}: {remedy:#?}"))
}

/// Every setting is turned this way and that.
fn nothing_helps(config: &LoadedConfig, env: &Env, app: AppIx, waiting: &Waiting, keys: &[String]) {
    let mut edits = vec![Edit::Preemption(true)];
    settings(&env.partition.conf.root, "root", &mut edits);
    for edit in edits {
        // What would be refused is no change.
        if let Ok(edited) = config.edited("default", std::slice::from_ref(&edit)) {
            let patient = matches!(edit, Edit::Preemption(_) | Edit::Property { .. });
            let seconds = if patient { 5 } else { 0 };
            let helps = places(env, vec![Command::Configure(edited.conf)], keys, seconds);
            assert!(!helps, "{keys:?} is placed by {edit:?}\n{waiting:#?}");
        }
    }
    for node in env.partition.node_by_id.values().map(|ix| &env.partition.nodes[*ix]) {
        if node.operator_drained && node.rm_schedulable {
            let command = Command::OperatorDrain { nodes: vec![node.id().clone()], drained: false };
            assert!(!places(env, vec![command], keys, 0), "{keys:?} is placed when {} is undrained", node.id());
        }
    }
    for node in env.partition.node_by_id.values().map(|ix| &env.partition.nodes[*ix]) {
        let change = Change::Nodes { count: 40, like: node.id().clone(), capacity: node.capacity.clone() };
        let commands = change.commands(&env.partition, &|_| Err(String::new())).unwrap();
        assert!(
            !places(env, commands, keys, 0),
            "{keys:?} is placed with 40 more nodes like {}\n{waiting:#?}",
            node.id()
        );
    }
    let row = &env.partition.apps[app];
    if row.allocs.is_empty() && row.gang.swaps == 0 {
        for queue in ["root.a.x", "root.a.y", "root.b"].into_iter().filter(|queue| **queue != *row.queue_path) {
            let change = Change::Queue { app: row.id.clone(), queue: queue.into() };
            let commands = change.commands(&env.partition, &|_| Err(String::new())).unwrap();
            assert!(!places(env, commands, keys, 0), "{keys:?} is placed in {queue}\n{waiting:#?}");
        }
    }
}

/// All numbers of a queue and those below it, a little more and much more.
fn settings(queue: &QueueConf, path: &str, edits: &mut Vec<Edit>) {
    let path: Arc<str> = path.into();
    let more = |amount: &Resource| {
        [1, 10, 30, 100, 1_000].map(|more| {
            let mut to = Resource::new();
            amount.iter().for_each(|(kind, amount)| to.set(kind.clone(), amount + more));
            to
        })
    };
    if let Some(max) = &queue.max {
        edits.extend(more(max).map(|amounts| Edit::Max { queue: path.clone(), amounts }));
    }
    if queue.max_applications > 0 {
        let to = |more| Edit::Applications { queue: path.clone(), max: queue.max_applications + more };
        edits.extend([1, 2, 100].map(to));
    }
    for (entry, limit) in queue.limits.iter().enumerate() {
        if let Some(max) = &limit.max_resources {
            edits.extend(more(max).map(|amounts| Edit::LimitMax { queue: path.clone(), entry, amounts }));
        }
        if limit.max_applications > 0 {
            let max = |more| limit.max_applications + more;
            let to = |more| Edit::LimitApplications { queue: path.clone(), entry, max: max(more) };
            edits.extend([1, 2, 100].map(to));
        }
    }
    if queue.properties.contains_key("preemption.policy") {
        edits.push(Edit::Property { queue: path.clone(), name: "preemption.policy".into(), value: "default".into() });
    }
    for child in &queue.children {
        settings(child, &format!("{path}.{}", child.name), edits);
    }
}

/// Size and kind.
type Asks = Vec<(i64, u8)>;

#[derive(Clone, Debug)]
struct World {
    config: String,
    nodes: Vec<(i64, bool)>,
    /// Queue, user and asks of each.
    apps: Vec<(u8, u8, Asks)>,
}

fn config_text() -> impl Strategy<Value = String> {
    let max = || prop::option::weighted(0.5, 10i64..90);
    let apps = || prop::option::weighted(0.25, 1u64..4);
    let policy = || prop::sample::select(vec!["", "", "fence", "disabled"]);
    let limit = || prop::option::weighted(0.3, (1i64..60, 0u64..3, prop::sample::select(vec!["u1", "u2", "*"])));
    let leaf = move || (max(), apps(), policy(), limit(), prop::option::weighted(0.4, 5i64..25));
    (max(), limit(), leaf(), leaf(), leaf(), any::<bool>(), any::<bool>()).prop_map(
        |(a_max, a_limit, x, y, b, preemption, atomic)| {
            let mut text = format!("partitions:\n- name: default\n  preemption: {{enabled: {preemption}}}\n  queues:\n  - name: root\n    submitacl: '*'\n    properties: {{preemption.delay: 1s}}\n    queues:\n    - name: a\n      parent: true\n");
            let limits = |text: &mut String, indent: &str, limit: Option<(i64, u64, &str)>, max: Option<i64>| {
                if let Some((memory, apps, user)) = limit {
                    let memory = memory.min(max.unwrap_or(i64::MAX));
                    writeln!(text, "{indent}limits: [{{limit: l, users: ['{user}'], maxresources: {{memory: {memory}}}, maxapplications: {apps}}}]").unwrap();
                }
            };
            if let Some(max) = a_max {
                writeln!(text, "      resources: {{max: {{memory: {max}}}}}").unwrap();
            }
            limits(&mut text, "      ", a_limit, a_max);
            text.push_str("      queues:\n");
            for (name, indent, (max, apps, policy, limit, guaranteed)) in
                [("x", "      ", x), ("y", "      ", y), ("b", "    ", b)]
            {
                let above = if name == "b" { None } else { a_max };
                let max = max.map(|max| max.min(above.unwrap_or(max)));
                let least = max.unwrap_or(i64::MAX).min(above.unwrap_or(i64::MAX));
                let inner = format!("{indent}  ");
                writeln!(text, "{indent}- name: {name}").unwrap();
                let mut resources = Vec::new();
                resources.extend(max.map(|max| format!("max: {{memory: {max}}}")));
                // Two guarantees have to fit into the max above them.
                resources.extend(guaranteed.map(|g| format!("guaranteed: {{memory: {}}}", g.min(least / 2).max(1))));
                if !resources.is_empty() {
                    writeln!(text, "{inner}resources: {{{}}}", resources.join(", ")).unwrap();
                }
                if let Some(apps) = apps {
                    writeln!(text, "{inner}maxapplications: {apps}").unwrap();
                }
                let mut properties = Vec::new();
                if !policy.is_empty() {
                    properties.push(format!("preemption.policy: {policy}"));
                }
                if atomic && name == "b" {
                    properties.push("gang.admission: atomic".to_owned());
                }
                if !properties.is_empty() {
                    writeln!(text, "{inner}properties: {{{}}}", properties.join(", ")).unwrap();
                }
                limits(&mut text, &inner, limit, max);
            }
            text
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    let nodes = prop::collection::vec((10i64..60, prop::bool::weighted(0.3)), 1..5);
    let asks = || prop::collection::vec((1i64..40, 0u8..8), 1..5);
    let apps = prop::collection::vec((0u8..5, 0u8..3, asks()), 1..6);
    (config_text(), nodes, apps).prop_map(|(config, nodes, apps)| World { config, nodes, apps })
}

impl World {
    /// Applications ask, one after the other; some are gangs; some nodes are drained before the last of them.
    fn build(&self) -> Option<(LoadedConfig, Env)> {
        let config = config::load(&self.config).ok()?;
        let mut env = Env::calm(&self.config);
        for (n, (size, _)) in self.nodes.iter().enumerate() {
            env.node(&format!("n{n}"), *size);
        }
        for (a, (queue, user, asks)) in self.apps.iter().enumerate() {
            if a + 1 == self.apps.len() {
                for (n, _) in self.nodes.iter().enumerate().filter(|(_, (_, drained))| *drained) {
                    env.apply(Command::OperatorDrain { nodes: vec![format!("n{n}").into()], drained: true });
                }
            }
            let id = format!("app{a}");
            let queue = ["root.a.x", "root.a.y", "root.b", "root.b", "root.a.x"][usize::from(*queue)];
            let user = ["u1", "u2", "u3"][usize::from(*user)];
            if asks.len() == 3 {
                let total: i64 = asks.iter().map(|(size, _)| *size).sum();
                let gang = Resource::of(&[("memory", total), ("vcore", total)]);
                let item = AddApplication { placeholder_ask: Some(gang), timeout_millis: 60_000, ..env.by(user) };
                env.add_app(AddApplication { id: id.as_str().into(), queue: queue.into(), ..item });
            } else {
                env.add_app(AddApplication { id: id.as_str().into(), queue: queue.into(), ..env.by(user) });
            }
            let ask = |(k, (size, kind)): (usize, &(i64, u8))| {
                let ask = Ask::new(&id, &format!("{id}-{k}"), *size);
                match kind {
                    _ if asks.len() == 3 => ask.placeholder("g"),
                    0 | 1 => ask.preempts(),
                    2 => ask.preempts().priority(3),
                    3 => ask.requires("n0"),
                    _ => ask,
                }
            };
            env.ask(asks.iter().enumerate().map(ask).collect());
            if asks.len() == 3 {
                env.ask(vec![Ask::new(&id, &format!("{id}-real"), 1).group("g")]);
            }
        }
        Some((config, env))
    }
}

#[test]
fn the_look_for_what_could_leave_ends_when_it_has_to() {
    let text = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: q}]}]}]";
    let mut env = Env::calm(text).alone();
    for node in ["n1", "n2"] {
        env.node(node, 1_000);
    }
    env.app("a", "root.q");
    env.app("b", "root.q");
    env.ask((0..2_000).map(|n| Ask::new("a", &format!("a{n}"), 1)).collect());
    env.ask(vec![Ask::new("b", "large", 900)]);
    let app = env.partition.app_by_id["b"];
    let waiting = Explainer::new(&env.partition).application(app, env.now).remove(0);
    let config = config::load(text).expect("valid");
    let edit = |edits: &[Edit]| config.edited("default", edits).map(|edited| edited.conf);
    let looks = Cell::new(0);
    let stop = || {
        looks.set(looks.get() + 1);
        looks.get() > 3
    };
    let advice = env.partition.remedies(app, &waiting, env.now, &edit, Bounds { decisions: 100_000, stop: &stop });
    assert!(!advice.complete, "{} looks", looks.get());
    // With all the time that it takes it is found, where they are younger.
    looks.set(i32::MIN);
    let advice = env.partition.remedies(app, &waiting, env.now, &edit, Bounds { decisions: 100_000, stop: &stop });
    let freed = advice.remedies.iter().find_map(|remedy| match &remedy.change {
        Change::Free { node, allocations, .. } => Some((&**node, allocations.len())),
        _ => None,
    });
    assert!(advice.complete);
    assert_eq!(freed, Some(("n2", 900)));
}

const ROOMY: &str =
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: q}, {name: r}]}]}]";

/// What would help the first ask of an application.
fn advice_for(env: &Env, config: &str, app: &str) -> Advice {
    let app = env.partition.app_by_id[app];
    let waiting = Explainer::new(&env.partition).application(app, env.now).remove(0);
    advise(&config::load(config).expect("valid"), &env.partition, app, &waiting, env.now)
}

fn changes(advice: &Advice) -> Vec<Change> {
    advice.remedies.iter().map(|remedy| remedy.change.clone()).collect()
}

#[test]
fn as_many_nodes_are_added_as_are_needed_for_those_before_it_as_well() {
    for others in [0, 1, 2, 4, 9, 70] {
        let mut env = Env::calm(ROOMY).alone();
        env.node("n1", 8);
        env.app("f", "root.q");
        env.app("others", "root.q");
        env.app("w", "root.q");
        env.ask(vec![Ask::new("f", "f", 8)]);
        env.ask((0..others).map(|n| Ask::new("others", &format!("o{n}"), 8).priority(10)).collect());
        env.ask(vec![Ask::new("w", "w", 8)]);
        let advice = advice_for(&env, ROOMY, "w");
        let count = advice.remedies.iter().find_map(|remedy| match remedy.change {
            Change::Nodes { count, .. } => Some(count),
            _ => None,
        });
        assert_eq!((count, advice.complete), (Some(others + 1), true), "{advice:?}");
    }
}

#[test]
fn what_is_not_tried_is_not_called_tried() {
    // Behind so many no number of nodes that is tried is enough.
    let mut env = Env::calm(ROOMY).alone();
    env.node("n1", 8);
    for app in ["f", "others", "w"] {
        env.app(app, "root.q");
    }
    env.ask(vec![Ask::new("f", "f", 8)]);
    env.ask((0..1_100).map(|n| Ask::new("others", &format!("o{n}"), 8).priority(10)).collect());
    env.ask(vec![Ask::new("w", "w", 8)]);
    let advice = advice_for(&env, ROOMY, "w");
    assert!(advice.none == Some(Nothing::NoSingleChange) && !advice.complete, "{advice:?}");
    // Nodes do not help where it is something else, and not all of them have to be tried to see that.
    let config = ROOMY.replace("{name: r}", "{name: r, resources: {max: {memory: 8}}}");
    let mut env = Env::calm(&config);
    env.node("n1", 20);
    env.app("f", "root.r");
    env.ask(vec![Ask::new("f", "f", 8)]);
    env.app("w", "root.r");
    env.ask(vec![Ask::new("w", "w", 8)]);
    let advice = advice_for(&env, &config, "w");
    assert!(advice.complete && advice.tried < 10, "{advice:?}");
}

#[test]
fn a_node_that_an_operator_drained_is_undrained_before_one_of_the_resource_manager() {
    let mut env = Env::calm(ROOMY);
    for (node, size) in [("n1", 40), ("n2", 20), ("n3", 10)] {
        env.node(node, size);
    }
    env.node_action("n1", NodeAction::Drain, None);
    env.apply(Command::OperatorDrain { nodes: vec!["n2".into(), "n3".into()], drained: true });
    env.app("w", "root.q");
    env.ask(vec![Ask::new("w", "w", 15)]);
    let undrain = |env: &Env| {
        changes(&advice_for(env, ROOMY, "w")).into_iter().find(|change| matches!(change, Change::Undrain { .. }))
    };
    let expected = Change::Undrain { operator: vec!["n2".into()], manager: vec![], others: 1 };
    assert_eq!(undrain(&env), Some(expected), "n3 is too small to be counted");
    env.node_action("n2", NodeAction::Drain, None);
    let expected = Change::Undrain { operator: vec![], manager: vec!["n1".into()], others: 1 };
    assert_eq!(undrain(&env), Some(expected), "where no operator can do it alone, the largest comes first");
}

#[test]
fn what_leaves_a_node_is_chosen_as_by_preemption() {
    let freed = |rows: &[Ask]| {
        let mut env = Env::calm(ROOMY).alone();
        for (node, row) in rows.iter().enumerate() {
            env.node(&format!("n{node}"), 10);
            env.app(&format!("a{node}"), "root.q");
            let ask = row.clone().on(&format!("n{node}"));
            env.ask(vec![ask]);
        }
        env.app("w", "root.q");
        env.ask(vec![Ask::new("w", "w", 10)]);
        let found = changes(&advice_for(&env, ROOMY, "w")).into_iter();
        let leaving = found.filter_map(|change| match change {
            Change::Free { allocations, .. } => allocations.first().map(|(_, key)| key.to_string()),
            _ => None,
        });
        leaving.collect::<Vec<_>>()
    };
    let of = |nth: usize, size: i64| Ask::new(&format!("a{nth}"), &format!("k{nth}"), size).preempts();
    // Larger ones go before those that opted out, originators, and higher priorities.
    assert_eq!(freed(&[of(0, 2).opted_out(), of(1, 9)]), ["k1"]);
    assert_eq!(freed(&[of(0, 2).originator(), of(1, 9)]), ["k1"]);
    assert_eq!(freed(&[of(0, 2).opted_out(), of(1, 9).originator()]), ["k1"]);
    assert_eq!(freed(&[of(0, 2).priority(5), of(1, 9)]), ["k1"]);
    // Of those that are alike in that the smallest goes.
    assert_eq!(freed(&[of(0, 9), of(1, 2)]), ["k1"]);
}

#[test]
fn a_delay_without_end_is_not_waited_for() {
    // The sum is the end of time, at which what falls due again and again would never stop.
    let config = "partitions: [{name: default, queues: [{name: root, submitacl: '*', \
                  queues: [{name: q, properties: {preemption.delay: 2562047h}}]}]}]";
    let mut env = Env::calm(config).alone();
    env.node("n1", 10);
    for app in ["a", "w"] {
        env.app(app, "root.q");
    }
    env.ask(vec![Ask::new("a", "k", 10).on("n1")]);
    env.ask(vec![Ask::new("w", "w", 10)]);
    let found = changes(&advice_for(&env, config, "w"));
    assert!(!found.iter().any(|change| matches!(change, Change::Preempt { .. })));
}

#[test]
fn a_queue_that_placement_made_is_named_for_a_value_of_its_own() {
    let config = "partitions: [{name: default, placementrules: [{name: provided, create: true}], queues: [{name: root, submitacl: '*', \
                  queues: [{name: ns, parent: true, resources: {max: {memory: 100}}, \
                  childtemplate: {maxapplications: 3, properties: {priority.offset: '2'}, resources: {max: {memory: 8}}}}]}]}]";
    let mut env = Env::calm(config).alone();
    env.node("n1", 100);
    env.app("f", "root.ns.team");
    env.ask(vec![Ask::new("f", "f", 8), Ask::new("f", "w", 6)]);
    let advice = advice_for(&env, config, "f");
    let named = changes(&advice).into_iter().find_map(|change| match change {
        Change::Named { edit: Edit::Max { amounts, .. }, all } => Some((amounts, all.len())),
        _ => None,
    });
    // It has to be named, with its max, number of applications and property.
    assert_eq!(named, Some((Resource::of(&[("memory", 14)]), 4)), "{advice:#?}");
    let loaded = config::load(config).expect("valid");
    check(&loaded, &env, &mut BTreeMap::new());
}

#[test]
fn what_is_given_up_goes_to_others_before_it_is_asked_for_again() {
    // Its queue uses nothing once it is gone, and so comes before the one of the other application.
    let gang_and_one = |config: &str, size: i64, own: &[(&str, &str)], others: i64| {
        let mut env = Env::calm(config).alone();
        env.node("n1", size);
        for (app, queue) in own {
            env.app(app, queue);
            env.ask(vec![Ask::new(app, app, 4)]);
        }
        env.gang("g", "root.q", 12, "Soft");
        env.ask((0..3).map(|n| Ask::new("g", &format!("p{n}"), 4).placeholder("t")).collect());
        env.app("w", "root.r");
        env.ask(vec![Ask::new("w", "w", others)]);
        env
    };
    let found = |env: &Env, config: &str| changes(&advice_for(env, config, "g"));
    let env = gang_and_one(ROOMY, 14, &[("f", "root.r")], 4);
    let members = found(&env, ROOMY).into_iter().find_map(|change| match change {
        Change::Members { keys, .. } => Some(keys.len()),
        _ => None,
    });
    assert_eq!(members, Some(1), "the other application has the room of one of them by then");
    // In another queue there is room for all of it only as long as nobody else comes.
    let config = ROOMY.replace("{name: q}", "{name: q, resources: {max: {memory: 12}}}, {name: s}");
    let other = |env: &Env| found(env, &config).iter().any(|change| matches!(change, Change::Queue { .. }));
    let own = [("f", "root.r"), ("q", "root.q")];
    assert_eq!([20, 28].map(|size| other(&gang_and_one(&config, size, &own, 8))), [false, true]);
}

#[test]
fn suggestions_work_and_where_there_is_none_no_setting_would() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(WORLDS);
    // The same worlds every time, and the more of them the more are asked for.
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let seen = RefCell::new(BTreeMap::new());
    let result = runner.run(&world(), |world| {
        let Some((config, env)) = world.build() else { return Err(TestCaseError::reject("refused")) };
        check(&config, &env, &mut seen.borrow_mut());
        Ok(())
    });
    result.unwrap_or_else(|failed| panic!("{failed}"));
    // Worlds in which little happens would prove little.
    let seen = seen.into_inner();
    let common = ["max", "limit", "undrain", "free", "smaller", "members", "queue", "nodes"];
    let missing: Vec<_> = common.iter().filter(|kind| !seen.contains_key(**kind)).collect();
    assert!(missing.is_empty() && seen.contains_key("none"), "{missing:?} of {seen:?}");
}

#[test]
fn to_preempt_is_no_remedy_where_nothing_has_to_be_preempted() {
    // Time alone frees the room: the application that has it may run for three seconds.
    let config = "partitions:\n  - name: default\n    preemption: {enabled: false}\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - {name: a, resources: {max: {memory: 10}}}\n";
    let mut env = Env::calm(config);
    env.node("n1", 100);
    env.limited("a", 3_000);
    env.ask(vec![Ask::new("a", "k", 8)]);
    env.app("w", "root.a");
    env.ask(vec![Ask::new("w", "w", 8).preempts()]);
    let advice = advice_for(&env, config, "w");
    let preempts = |change: &Change| matches!(change, Change::Preempt { .. } | Change::Edit(Edit::Preemption(_)));
    assert!(!changes(&advice).iter().any(preempts), "{advice:?}");
}

#[test]
fn no_setting_stands_in_the_way_of_what_preempts_as_it_is() {
    // The victim is in v: that nobody may take anything of p does not matter. The second delay is beyond what is waited for elsewhere.
    for delay in ["30s", "10m"] {
        let config = format!(
            "partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: [\
             {{name: g, properties: {{preemption.delay: {delay}}}, resources: {{guaranteed: {{memory: 10}}}}}}, \
             {{name: v}}, {{name: p, properties: {{preemption.policy: disabled}}}}]}}]}}]"
        );
        let mut env = Env::calm(&config);
        env.node("n1", 10);
        env.app("p", "root.p");
        env.ask(vec![Ask::new("p", "p1", 2).preempts()]);
        env.app("v", "root.v");
        env.ask(vec![Ask::new("v", "v1", 8).preempts()]);
        env.app("g", "root.g");
        env.ask(vec![Ask::new("g", "k", 5).preempts()]);
        let advice = advice_for(&env, &config, "g");
        let found = changes(&advice);
        assert!(found.first() == Some(&Change::Wait) && advice.remedies[0].preempts == 1, "{delay}: {advice:#?}");
        assert!(!found.iter().any(|change| matches!(change, Change::Edit(_))), "{delay}: {advice:#?}");
        check(&config::load(&config).expect("valid"), &env, &mut BTreeMap::new());
    }
}

#[test]
fn what_helps_after_a_pause_is_told_during_it() {
    // R4.28: after failures an ask pauses.
    let mut env = Env::calm(ROOMY);
    env.node("n1", 8);
    env.app("f", "root.q");
    env.app("w", "root.q");
    env.ask(vec![Ask::new("w", "w", 8)]);
    for _ in 0..20 {
        if env.partition.alloc("w", "w").is_some_and(|row| row.paused_until().is_some()) {
            break;
        }
        env.release("w", "w", Termination::FailedOnRm);
    }
    assert!(env.partition.alloc("w", "w").is_some_and(|row| row.paused_until().is_some()));
    env.ask(vec![Ask::new("f", "f", 8)]);
    let advice = advice_for(&env, ROOMY, "w");
    assert!(changes(&advice).iter().any(|change| matches!(change, Change::Free { .. })), "{advice:?}");
}

/// Nodes that are added, and register.
fn more_nodes(advice: &Advice) -> Vec<usize> {
    let count = |change| if let Change::Nodes { count, .. } = change { Some(count) } else { None };
    changes(advice).into_iter().filter_map(count).collect()
}

// R5.40, R2.29: what one node holds too much is missing to all together, and more nodes make up for it.
#[test]
fn where_all_nodes_together_hold_too_much_as_many_are_added_as_make_up_for_it() {
    let loaded = config::load(ROOMY).expect("valid");
    for ask in [Ask::new("w", "w", 2).requires("n2"), Ask::new("w", "w", 2)] {
        let mut env = Env::calm(ROOMY);
        for node in ["n1", "n2"] {
            env.node(node, 10);
        }
        env.app("f", "root.q");
        env.ask(vec![Ask::new("f", "big", 25).on("n1"), Ask::new("f", "old", 3).on("n2").requires("n2")]);
        env.app("w", "root.q");
        env.ask(vec![ask]);
        let advice = advice_for(&env, ROOMY, "w");
        assert_eq!((more_nodes(&advice), advice.complete), (vec![1], true), "{advice:#?}");
        check(&loaded, &env, &mut BTreeMap::new());
    }
    // One that is added stays empty, as its room is what the others hold too much.
    let mut env = Env::calm(ROOMY);
    for (node, key) in [("n1", "k1"), ("n2", "k2")] {
        env.node(node, 10);
        env.app(key, "root.q");
        env.ask(vec![Ask::new(key, key, 10)]);
    }
    env.node_action("n1", NodeAction::Update, Some(res(1, 1)));
    env.app("w", "root.q");
    env.ask(vec![Ask::new("w", "w", 5)]);
    let advice = advice_for(&env, ROOMY, "w");
    assert_eq!((more_nodes(&advice), advice.complete), (vec![2], true), "{advice:#?}");
    check(&loaded, &env, &mut BTreeMap::new());
}

// R7.33: what leaves the required node makes room in the whole cluster as well.
#[test]
fn as_much_leaves_a_node_as_all_together_hold_too_much() {
    let mut env = Env::calm(ROOMY);
    for node in ["n1", "n2"] {
        env.node(node, 10);
    }
    env.app("f", "root.q");
    env.ask(vec![Ask::new("f", "big", 15).on("n1"), Ask::new("f", "a", 4).on("n2"), Ask::new("f", "b", 5).on("n2")]);
    env.app("w", "root.r");
    env.ask(vec![Ask::new("w", "w", 4).requires("n2").priority(-1)]);
    let advice = advice_for(&env, ROOMY, "w");
    let freed = changes(&advice).into_iter().find_map(|change| match change {
        Change::Free { allocations, .. } => Some(allocations.len()),
        _ => None,
    });
    assert_eq!(freed, Some(2), "{advice:#?}");
}

// R7.28, R5.32: what goes for an ask may be long in going, and it is placed elsewhere before.
#[test]
fn what_helps_before_others_have_ended_is_told_of_an_ask_that_has_preempted() {
    let config = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [\
                  {name: g, properties: {preemption.delay: 1s}, resources: {guaranteed: {memory: 10}}}, {name: v}]}]}]";
    let mut env = Env::calm(config);
    env.node("n1", 10);
    env.app("v", "root.v");
    env.ask(vec![Ask::new("v", "v1", 5).preempts(), Ask::new("v", "v2", 5).preempts()]);
    env.app("g", "root.g");
    env.ask(vec![Ask::new("g", "k", 5).preempts()]);
    env.pass(3);
    assert_eq!(env.unconfirmed.len(), 1);
    let advice = advice_for(&env, config, "g");
    assert!(changes(&advice).first() == Some(&Change::Wait) && advice.complete, "{advice:#?}");
    assert_eq!(more_nodes(&advice), [1], "{advice:#?}");
    check(&config::load(config).expect("valid"), &env, &mut BTreeMap::new());
    // Nobody has to confirm anything for that.
    env.node("n2", 10);
    assert!(env.heard().contains(&"new k on n2".to_owned()));
}

#[test]
fn a_required_node_that_is_not_there_has_to_register_and_one_that_is_too_small_is_told_as_that() {
    let config = config::load(ROOMY).expect("valid");
    let mut env = Env::calm(ROOMY);
    for (node, size) in [("n1", 4), ("n2", 10)] {
        env.node(node, size);
    }
    for (app, node) in [("f", "n1"), ("w", "n1"), ("x", "n9")] {
        env.app(app, "root.q");
        env.ask(vec![Ask::new(app, app, if app == "f" { 4 } else { 6 }).requires(node)]);
    }
    let advice = advice_for(&env, ROOMY, "w");
    assert_eq!((advice.none, advice.complete), (Some(Nothing::RequiredTooSmall), true));
    let advice = advice_for(&env, ROOMY, "x");
    assert_eq!(changes(&advice), [Change::Register { node: "n9".into(), capacity: res(10, 10) }]);
    check(&config, &env, &mut BTreeMap::new());
    // Where no node is as large, one of the size that is wanted is tried; and where that is not enough, a larger one might be.
    env.ask(vec![Ask::new("x", "x", 12).requires("n9")]);
    let advice = advice_for(&env, ROOMY, "x");
    assert_eq!(changes(&advice), [Change::Register { node: "n9".into(), capacity: res(12, 12) }]);
    env.node_action("n1", NodeAction::Update, Some(res(1, 1)));
    env.ask(vec![Ask::new("f", "more", 20).on("n2")]);
    let advice = advice_for(&env, ROOMY, "x");
    assert_eq!((advice.none, advice.complete), (Some(Nothing::NoSingleChange), false), "{advice:#?}");
}
