//! Why asks wait, asked of the partition without changing it.

use callboard::domain::{
    command::{AddApplication, Command, NodeAction},
    partition::{Explainer, Unfit, Why},
    types::Nanos,
};

use super::env::{Ask, Env, res};

const CONFIG: &str = "
partitions:
- name: default
  queues:
  - name: root
    submitacl: '*'
    queues:
    - name: small
      maxapplications: 2
      resources: {max: {memory: 30}}
    - name: wide
      limits:
      - {limit: l, users: [eve], maxresources: {memory: 10}, maxapplications: 1}
";

fn env() -> Env {
    let mut env = Env::calm(CONFIG);
    for (node, size) in [("n1", 40), ("n2", 40), ("n3", 20)] {
        env.node(node, size);
    }
    env
}

fn app(env: &mut Env, id: &str, queue: &str, user: &str) {
    let item = AddApplication { id: id.into(), queue: queue.into(), ..env.by(user) };
    env.add_app(item);
}

fn why(env: &Env, app: &str) -> Vec<Why> {
    let ix = env.partition.app_by_id[app];
    let now = env.now.plus(Nanos(1));
    Explainer::new(&env.partition).application(ix, now).into_iter().map(|waiting| waiting.why).collect()
}

// R5.24: the max of a queue comes before the nodes; R4.36: an application that may not start.
#[test]
fn queues_hold_back() {
    let mut env = env();
    app(&mut env, "a", "root.small", "u");
    env.ask(vec![Ask::new("a", "1", 25), Ask::new("a", "2", 10)]);
    let found = why(&env, "a");
    let [Why::QueueQuota { queue, max, used }] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&**queue, max.named(), used), ("root.small", vec![("memory", 30)], &res(25, 25)));
    app(&mut env, "b", "root.small", "u");
    app(&mut env, "c", "root.small", "u");
    env.ask(vec![Ask::new("b", "1", 1), Ask::new("c", "1", 1)]);
    assert_eq!(why(&env, "b"), []);
    assert_eq!(why(&env, "c"), [Why::RunningApps { queue: "root.small".into(), max: 2, running: 2 }]);
}

// UGM-030, UGM-033: whose limit it is.
#[test]
fn users_hold_back() {
    let mut env = env();
    app(&mut env, "a", "root.wide", "eve");
    env.ask(vec![Ask::new("a", "1", 10), Ask::new("a", "2", 1)]);
    let found = why(&env, "a");
    let [Why::UserQuota(refusal)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&*refusal.name, &*refusal.queue, &refusal.used), ("eve", "root.wide", &res(10, 10)));
    app(&mut env, "b", "root.wide", "eve");
    env.ask(vec![Ask::new("b", "1", 1)]);
    let found = why(&env, "b");
    assert!(matches!(&found[..], [Why::UserApps(refusal)] if refusal.applications == 1), "{found:?}");
}

// R5.27: each node counts once, for the first thing that is wrong with it; R5.42: a required node that is not there.
#[test]
fn nodes_hold_back() {
    let mut env = Env::calm(CONFIG);
    app(&mut env, "a", "root.wide", "u");
    env.ask(vec![Ask::new("a", "0", 30)]);
    assert_eq!(why(&env, "a"), [Why::NoNodes]);
    for (node, size) in [("n1", 40), ("n2", 40), ("n3", 20)] {
        env.node(node, size);
    }
    env.ask(vec![Ask::new("a", "1", 30), Ask::new("a", "2", 30)]);
    let found = why(&env, "a");
    let [Why::Nodes(nodes)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((nodes.too_small, nodes.full, nodes.drained, nodes.open), (1, 2, 0, 0));
    assert_eq!((&nodes.most_free, &nodes.all_free), (&res(10, 10), &res(20, 20)));
    env.node_action("n2", NodeAction::Drain, None);
    let found = why(&env, "a");
    let [Why::Nodes(nodes)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((nodes.too_small, nodes.full, nodes.drained), (1, 1, 1));
    env.ask(vec![Ask::new("a", "3", 5).requires("nope")]);
    let unknown = Why::RequiredNode { node: "nope".into(), why: Unfit::Unknown, free: None };
    assert!(why(&env, "a").contains(&unknown), "{:?}", why(&env, "a"));
}

// SEEDS S10: real asks wait for the gang, which waits for nodes; R6.7: for the placeholder that they replace.
#[test]
fn gangs_hold_back() {
    let mut env = env();
    env.gang("a", "root.wide", 105, "Soft");
    let placeholder = |key: &str| Ask::new("a", key, 35).placeholder("g");
    env.ask(vec![placeholder("p1"), placeholder("p2"), placeholder("p3"), Ask::new("a", "real", 5)]);
    let found = why(&env, "a");
    assert!(matches!(&found[..], [Why::Nodes(_), Why::Gang { missing: 1, placed: 2 }]), "{found:?}");
    env.ask(vec![Ask::new("a", "member", 5).group("g")]);
    env.node("n4", 40);
    env.ask(vec![Ask::new("a", "member-2", 35).group("g")]);
    assert!(why(&env, "a").iter().all(|why| !matches!(why, Why::Gang { .. })), "{:?}", why(&env, "a"));
}

// R5.30: what the shim refuses, and what it is being asked.
#[test]
fn the_shim_holds_back() {
    let mut env = env();
    env.apply(Command::AskPredicates(true));
    for node in ["n1", "n2"] {
        env.refuse("1", node);
    }
    app(&mut env, "a", "root.wide", "u");
    env.ask(vec![Ask::new("a", "1", 30)]);
    let found = why(&env, "a");
    assert!(matches!(&found[..], [Why::Asking(_)]), "{found:?}");
    env.answer_all();
    let found = why(&env, "a");
    let [Why::Nodes(nodes)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((nodes.refused, nodes.open, nodes.too_small), (2, 0, 1));
    assert_eq!(nodes.refusal.as_deref(), Some("the shim does not want it there"));
}
