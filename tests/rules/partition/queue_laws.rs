//! Laws of queues, whatever happens: no quota is ever exceeded, headroom shrinks downwards, and a configuration means the same
//! whether it was there from the start or came by reloads. A failing case is printed with its seed and kept beside the tests.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use callboard::{
    config::{self, shown::Form},
    domain::{
        command::Command,
        conf::PartitionConf,
        queue::Queue,
        resources::ResourceType,
        types::{QueueIx, Termination},
    },
};
use proptest::prelude::*;

use super::env::{Ask, Env, res};

/// A queue of a configuration under construction.
#[derive(Clone, Debug)]
struct Tree {
    name: &'static str,
    parent: bool,
    max: Option<i64>,
    guaranteed: Option<i64>,
    applications: u64,
    property: Option<(&'static str, &'static str)>,
    limit: Option<(&'static str, i64)>,
    template: bool,
    children: Vec<Tree>,
}

fn tree(depth: i64) -> BoxedStrategy<Tree> {
    let property = prop::option::weighted(
        0.4,
        prop::sample::select(vec![
            ("priority.offset", "5"),
            ("priority.policy", "fence"),
            ("application.sort.policy", "fair"),
            ("application.sort.priority", "disabled"),
            ("preemption.policy", "disabled"),
            ("some.other", "text"),
        ]),
    );
    let limit = prop::option::weighted(0.3, prop::sample::select(vec!["alice", "bob", "*"]));
    let own = (
        prop::sample::select(vec!["a", "b", "c"]),
        any::<bool>(),
        // Smaller further down, so that most trees are accepted.
        prop::option::weighted(0.6, (50 - 10 * depth)..(60 - 10 * depth)),
        prop::option::weighted(0.3, 1i64..4),
        prop::option::weighted(0.2, 1u64..3),
        property,
        limit,
        any::<bool>(),
    );
    let children = match depth {
        0..3 => prop::collection::vec(tree(depth + 1), 0..3).boxed(),
        _ => Just(Vec::new()).boxed(),
    };
    (own, children)
        .prop_map(move |((name, parent, max, guaranteed, applications, property, limit, template), mut children)| {
            children.sort_by_key(|child| child.name);
            children.dedup_by_key(|child| child.name);
            let leaf = children.is_empty();
            Tree {
                name,
                parent,
                max,
                guaranteed: guaranteed.filter(|_| leaf),
                applications: applications.filter(|_| leaf).unwrap_or_default(),
                property,
                limit: limit.map(|who| (who, 45 - 10 * depth)),
                template: template && (parent || !leaf),
                children,
            }
        })
        .boxed()
}

fn write(tree: &Tree, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    let mut line = |what: String| writeln!(text, "{pad}  {what}").unwrap();
    line(format!("parent: {}", tree.parent));
    if tree.max.is_some() || tree.guaranteed.is_some() {
        let amount = |amount: Option<i64>| amount.map_or("{}".to_owned(), |amount| format!("{{memory: {amount}}}"));
        line(format!("resources: {{max: {}, guaranteed: {}}}", amount(tree.max), amount(tree.guaranteed)));
    }
    if tree.applications > 0 {
        line(format!("maxapplications: {}", tree.applications));
    }
    if let Some((key, value)) = tree.property {
        line(format!("properties: {{{key}: \"{value}\"}}"));
    }
    if let Some((who, memory)) = tree.limit {
        line(format!("limits: [{{users: ['{who}'], maxresources: {{memory: {memory}}}}}]"));
    }
    if tree.template {
        line("childtemplate: {maxapplications: 2, resources: {max: {memory: 9}}}".to_owned());
    }
    if !tree.children.is_empty() {
        line("queues:".to_owned());
        for child in &tree.children {
            writeln!(text, "{pad}  - name: {}", child.name).unwrap();
            write(child, indent + 2, text);
        }
    }
}

/// A configuration that is accepted, as text.
fn accepted() -> impl Strategy<Value = String> {
    let of = |mut children: Vec<Tree>, sort: bool, property: bool, limit: bool| {
        children.sort_by_key(|child| child.name);
        children.dedup_by_key(|child| child.name);
        let mut text = format!(
            "partitions:\n- name: default\n  nodesortpolicy: {{type: {}}}\n  placementrules: [{{name: provided, create: true}}]\n  queues:\n  - \
             name: root\n    submitacl: '*'\n",
            if sort { "fair" } else { "binpacking" }
        );
        if property {
            text += "    properties: {x.y: z, priority.offset: '3'}\n    childtemplate: {maxapplications: 3}\n";
        }
        if limit {
            text +=
                "    limits: [{users: [alice], maxresources: {memory: 60}}, {groups: [staff], maxapplications: 4}]\n";
        }
        text += if children.is_empty() { "    queues: []\n" } else { "    queues:\n" };
        for child in &children {
            writeln!(text, "    - name: {}", child.name).unwrap();
            write(child, 4, &mut text);
        }
        text
    };
    (prop::collection::vec(tree(1), 0..4), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(move |(children, sort, property, limit)| of(children, sort, property, limit))
        .prop_filter("refused", |text| config::load(text).is_ok())
}

fn conf(text: &str) -> Arc<PartitionConf> {
    config::load(text).unwrap_or_else(|refused| panic!("{refused:?}\n{text}")).partitions.remove(0)
}

/// What happens between reloads. Nothing of it is placed by the shim or resized: that may exceed quotas (QUE-027).
#[derive(Clone, Debug)]
enum Work {
    Node(u8, i64),
    NodeGone(u8),
    App(u8, &'static str, bool, bool),
    Ask(u8, u8, i64, u8),
    Release(u8, u8),
    Remove(u8),
    Confirm,
    Pass(i64),
}

fn work() -> impl Strategy<Value = Work> {
    let queue =
        prop::sample::select(vec!["root.a", "root.b", "root.a.b", "root.b.c", "root.c.a.b", "root.x", "root.a.x.y"]);
    prop_oneof![
        2 => (0u8..4, 10i64..60).prop_map(|(n, size)| Work::Node(n, size)),
        1 => (0u8..4).prop_map(Work::NodeGone),
        4 => (0u8..6, queue, any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(a, q, u, gang)| Work::App(a, q, u, gang)),
        8 => (0u8..6, 0u8..6, 1i64..15, 0u8..5).prop_map(|(a, k, size, kind)| Work::Ask(a, k, size, kind)),
        2 => (0u8..6, 0u8..6).prop_map(|(a, k)| Work::Release(a, k)),
        1 => (0u8..6).prop_map(Work::Remove),
        2 => Just(Work::Confirm),
        1 => (1i64..50).prop_map(Work::Pass),
    ]
}

fn run(env: &mut Env, work: &Work) {
    match work {
        Work::Node(n, size) => env.node(&format!("n{n}"), *size),
        Work::NodeGone(n) => {
            env.node_action(&format!("n{n}"), callboard::domain::command::NodeAction::Decommission, None);
        }
        Work::App(a, queue, alice, false) => {
            let mut item = env.by(if *alice { "alice" } else { "bob" });
            (item.id, item.queue) = (format!("app{a}").into(), (*queue).into());
            env.add_app(item);
        }
        Work::App(a, queue, _, true) => env.gang(&format!("app{a}"), queue, 10, "Soft"),
        // A known key would be a resize.
        Work::Ask(a, k, ..) if is_known(env, *a, *k) => {}
        Work::Ask(a, k, size, kind) => {
            let ask = Ask::new(&format!("app{a}"), &format!("k{k}"), *size);
            let ask = match kind {
                0 => ask.placeholder("tg").sized(res(5, 5)),
                1 => ask.group("tg").sized(res(5, 5)),
                2 => ask.priority(5),
                3 => ask.preempts().priority(3),
                _ => ask,
            };
            env.ask(vec![ask]);
        }
        Work::Release(a, k) => env.release(&format!("app{a}"), &format!("k{k}"), Termination::StoppedByRm),
        Work::Remove(a) => env.remove_app(&format!("app{a}")),
        Work::Confirm => env.confirm_all(),
        Work::Pass(seconds) => env.pass(*seconds),
    }
}

fn is_known(env: &Env, app: u8, key: u8) -> bool {
    env.partition.alloc(&format!("app{app}"), &format!("k{key}")).is_some()
}

fn reload(env: &mut Env, text: &str) {
    env.apply(Command::Configure(conf(text)));
    env.run();
}

fn queues(env: &Env) -> impl Iterator<Item = (QueueIx, &Queue)> {
    env.partition.queues.iter()
}

/// Usage above a quota, by queue and type.
fn above(env: &Env) -> BTreeMap<(Arc<str>, ResourceType), i128> {
    let mut above = BTreeMap::new();
    for (_, row) in queues(env) {
        for (kind, max) in row.max.iter().flat_map(|max| max.iter()) {
            let used = row.allocated().amount(kind);
            if used > max {
                above.insert((row.path.clone(), kind.clone()), used);
            }
        }
    }
    above
}

/// Of each type that limits a queue, those below it have no more left.
fn check_headroom(env: &Env) -> Result<(), TestCaseError> {
    for (ix, row) in queues(env) {
        let Some(parent) = row.parent else { continue };
        let Some(above) = env.partition.headroom(parent) else { continue };
        let own = env.partition.headroom(ix).unwrap_or_default();
        for (kind, left) in above.iter() {
            let here = own.get(kind);
            prop_assert!(
                here.is_some_and(|here| here <= left),
                "{}: {:?} of {} is left, above it {left}",
                row.path,
                here,
                kind.name()
            );
        }
    }
    Ok(())
}

/// Everything of a queue that comes from configuration or work, without the order in which it came about.
fn shown(env: &Env) -> BTreeMap<Arc<str>, String> {
    let text = |row: &Queue| {
        format!(
            "leaf {} managed {} {:?} {:?} {:?} max {:?} guaranteed {:?} apps {} submit {:?} admin {:?} template {:?} \
             allocated {:?} pending {:?} preempting {:?} running {} priority {} {} {:?} children {:?}",
            row.leaf,
            row.managed,
            row.state,
            row.properties,
            row.settings,
            row.max,
            row.guaranteed,
            row.max_applications,
            row.submit_acl,
            row.admin_acl,
            row.template,
            row.allocated().pruned(),
            row.pending().pruned(),
            row.preempting.pruned(),
            row.running,
            row.priority,
            row.exposed_priority,
            row.priorities,
            row.children.keys().collect::<Vec<_>>()
        )
    };
    queues(env).map(|(_, row)| (row.path.clone(), text(row))).collect()
}

/// Users and groups with their limits and usage.
fn trackers(env: &Env) -> String {
    let ugm = &env.partition.ugm;
    format!("{:#?} {:#?}", ugm.users().collect::<Vec<_>>(), ugm.groups().collect::<Vec<_>>())
}

/// The same work for both; what the shim hears.
fn same_work(env: &mut Env) -> Vec<String> {
    env.heard();
    for (at, queue) in ["root.a", "root.b", "root.a.b", "root.c.a.b", "root.x"].iter().enumerate() {
        let mut item = env.by(if at % 2 == 0 { "alice" } else { "bob" });
        (item.id, item.queue) = (format!("same{at}").into(), (*queue).into());
        env.add_app(item);
        let ask = |n: i64| Ask::new(&format!("same{at}"), &format!("same{at}-{n}"), 4 + n).priority((n % 2) as i32);
        env.ask((0..6).map(ask).collect());
    }
    let mut heard = env.heard();
    // One per second; when the second began is not a matter of the configuration.
    heard.retain(|text| !text.ends_with(" Failed"));
    heard
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// QUE-025: usage above a quota comes from a lowered quota or a smaller cluster alone, and never grows.
    #[test]
    fn no_queue_exceeds_its_max(
        first in accepted(),
        steps in prop::collection::vec((work(), prop::option::weighted(0.06, accepted())), 1..60),
    ) {
        let mut env = Env::calm(&first);
        env.node("n0", 50);
        env.node("n1", 40);
        for (work, new) in steps {
            let before = above(&env);
            run(&mut env, &work);
            let shrinks = matches!(work, Work::NodeGone(_));
            for (what, used) in above(&env) {
                let root = &*what.0 == "root" && shrinks;
                prop_assert!(root || before.get(&what).is_some_and(|before| used <= *before), "{what:?} {used} after {work:?}");
            }
            check_headroom(&env)?;
            if let Some(new) = new {
                reload(&mut env, &new);
                check_headroom(&env)?;
            }
        }
    }

    /// CFG-099–CFG-103: when the work is done and cleaned up, nothing tells how the configuration came.
    #[test]
    fn reloads_end_where_a_fresh_start_does(
        first in accepted(),
        steps in prop::collection::vec((prop::collection::vec(work(), 0..8), accepted()), 1..6),
    ) {
        let mut env = Env::calm(&first);
        env.node("n0", 50);
        let mut last = first;
        for (works, new) in steps {
            for work in works {
                run(&mut env, &work);
            }
            reload(&mut env, &new);
            // What the reload leaves is what the books say (the audit runs after each step), and a second time changes nothing.
            let once = shown(&env);
            reload(&mut env, &new);
            prop_assert_eq!(&once, &shown(&env));
            last = new;
        }
        for app in 0..6 {
            env.remove_app(&format!("app{app}"));
        }
        env.confirm_all();
        for node in 0..4 {
            run(&mut env, &Work::NodeGone(node));
        }
        env.pass(120);
        let mut fresh = Env::calm(&last);
        prop_assert_eq!(shown(&env), shown(&fresh), "{}", last);
        prop_assert_eq!(trackers(&env), trackers(&fresh), "{}", last);
        for env in [&mut env, &mut fresh] {
            env.node("m0", 70);
            env.node("m1", 30);
        }
        prop_assert_eq!(same_work(&mut env), same_work(&mut fresh), "{}", last);
        prop_assert_eq!(shown(&env), shown(&fresh), "{}", last);
        prop_assert_eq!(trackers(&env), trackers(&fresh), "{}", last);
    }
}

proptest! {
    /// What is shown of a configuration is that configuration (CFG-118); `config` has the same for odd names and texts.
    #[test]
    fn accepted_configurations_round_trip(text in accepted()) {
        let first = config::load(&text).expect("accepted");
        let again = config::load(&first.shown.form().to_yaml()).expect("as it is shown");
        prop_assert_eq!(format!("{:?}", first.partitions), format!("{:?}", again.partitions));
        let without_checksum = |shown: &config::Shown| match shown.form() {
            Form::Struct(fields) => fields.into_iter().filter(|(name, _)| *name != "Checksum").collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(without_checksum(&first.shown), without_checksum(&again.shown));
    }
}

#[test]
fn the_generator_makes_what_it_should() {
    use proptest::{strategy::ValueTree as _, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let texts: Vec<String> =
        (0..200).map(|_| accepted().new_tree(&mut runner).expect("not all are refused").current()).collect();
    for part in [
        "max: {memory",
        "guaranteed: {memory",
        "fence",
        "limits:",
        "childtemplate:",
        "maxapplications",
        "        - name",
    ] {
        let many = texts.iter().filter(|text| text.contains(part)).count();
        assert!(many > 20, "{part}: {many}");
    }
    let depth = |text: &String| {
        let partition = Env::calm(text).partition;
        partition.queues.values().map(|row| row.depth).max()
    };
    assert!(texts.iter().filter_map(depth).any(|depth| depth == 3));
}
