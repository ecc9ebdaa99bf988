//! Why asks wait, asked of the partition without changing it.

use callboard::domain::{
    alloc::Foreign,
    command::{AddApplication, Command, NodeAction, PredicateTerms},
    partition::{Explainer, Unfit, Waiting, Why},
    types::{Nanos, Termination},
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
    let all = Explainer::new(&env.partition).application(ix, now);
    let first = Explainer::new(&env.partition).first(ix, now);
    let told = |waiting: &Waiting| (waiting.first, waiting.why.clone());
    assert_eq!(first.as_ref().map(told), all.first().map(told), "by itself it is told as among the others");
    all.into_iter().map(|waiting| waiting.why).collect()
}

// R5.24: the max of a queue comes before the nodes; R4.36: an application that may not start.
#[test]
fn queues_hold_back() {
    let mut env = env();
    app(&mut env, "a", "root.small", "u");
    env.ask(vec![Ask::new("a", "1", 25), Ask::new("a", "2", 10)]);
    let found = why(&env, "a");
    let [Why::QueueQuota { queue, max, used, .. }] = &found[..] else { panic!("{found:?}") };
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

// The first in order is no older than one of lower priority; and an ask that is named is told of itself.
#[test]
fn the_age_is_that_of_the_oldest_and_a_named_ask_has_its_own() {
    let mut env = Env::calm(CONFIG);
    env.node("n1", 10);
    app(&mut env, "a", "root.wide", "u");
    env.ask(vec![Ask::new("a", "old", 30), Ask::new("a", "old2", 30)]);
    let began = env.now;
    env.pass(60);
    env.ask(vec![Ask::new("a", "new", 30).priority(5)]);
    let ix = env.partition.app_by_id["a"];
    let key = |waiting: &Waiting| env.partition.allocs[waiting.first].spec.key.to_string();
    let all = Explainer::new(&env.partition).application(ix, env.now);
    let told: Vec<_> = all.iter().map(|waiting| (key(waiting), waiting.asks)).collect();
    assert_eq!(told, [("new".to_owned(), 3)]);
    assert!(all[0].since <= began, "{:?} {began:?}", all[0].since);
    for (name, created) in [("old2", began), ("new", env.now)] {
        let waiting = Explainer::new(&env.partition).ask(ix, name, env.now).expect("it waits");
        let own = env.partition.by_key(ix, name).expect("a row");
        assert_eq!((key(&waiting), waiting.asks), (name.to_owned(), 3));
        assert!(waiting.since <= created && waiting.since.plus(Nanos::from_secs(5)) > created, "{name}");
        assert_eq!(waiting.log.len(), env.partition.allocs[own].log.len());
    }
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
    let unknown = Why::RequiredNode { node: "nope".into(), why: Unfit::Unknown, free: None, said: None };
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

// R5.27: what was refused there is asked about again in its time, and not at once where something comes.
#[test]
fn a_refusal_that_is_forgotten_holds_back_until_it_is_asked_about_again() {
    let mut env = Env::calm(CONFIG);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 40);
    env.refuse("1", "n1");
    app(&mut env, "a", "root.wide", "u");
    app(&mut env, "b", "root.wide", "u");
    env.ask(vec![Ask::new("a", "1", 10)]);
    env.answer_all();
    env.ask(vec![Ask::new("b", "2", 10)]);
    env.answer_all();
    assert_eq!(env.heard().last().map(String::as_str), Some("new 2 on n1"));
    let found = why(&env, "a");
    let [Why::Nodes(nodes)] = &found[..] else { panic!("{found:?}") };
    assert!(nodes.is_refused());
    assert_eq!(nodes.refusal.as_deref(), Some("the shim does not want it there"));
}

// R5.24: the cluster as a whole has no room where a node holds more than it has.
#[test]
fn a_node_that_holds_too_much_takes_from_all() {
    let mut env = Env::calm(CONFIG);
    env.node("n1", 40);
    env.node("n2", 40);
    app(&mut env, "a", "root.wide", "u");
    env.ask(vec![Ask::new("a", "1", 40)]);
    env.node_action("n1", NodeAction::Update, Some(res(5, 5)));
    env.ask(vec![Ask::new("a", "2", 10)]);
    let found = why(&env, "a");
    let [Why::QueueQuota { queue, max, used, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&**queue, max, used), ("root", &res(45, 45), &res(40, 40)));
}

// R5.42: who has reserved its node is not kept off by the reservations of others there; the size of the cluster is (R5.40).
#[test]
fn an_ask_that_has_reserved_its_node_is_not_told_of_the_reservations_of_others() {
    let mut env = Env::calm(CONFIG);
    env.node("n1", 10);
    env.node("n2", 10);
    app(&mut env, "a", "root.wide", "u");
    env.ask(vec![Ask::new("a", "big", 25).on("n1"), Ask::new("a", "old", 3).on("n2").requires("n2")]);
    env.ask(vec![Ask::new("a", "large", 8).requires("n2")]);
    env.ask(vec![Ask::new("a", "small", 2).requires("n2")]);
    let found = why(&env, "a");
    let [Why::RequiredNode { why: Unfit::Full, .. }, Why::QueueQuota { queue, used, .. }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((&**queue, used), ("root", &res(28, 28)));
    // Where there is nothing else, it is placed.
    env.release("a", "big", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new small on n2".to_owned()));
}

// R6.13, R5.27: what only the shim can say.
#[test]
fn what_the_shim_has_to_say() {
    let mut env = env();
    env.gang("g", "root.wide", 10, "Soft");
    env.ask(vec![Ask::new("g", "ph", 10).placeholder("tg")]);
    env.ask(vec![Ask::new("g", "r", 10).group("tg")]);
    let node =
        env.partition.node_by_id.keys().find(|id| env.partition.nodes[env.partition.node_by_id[*id]].allocs.len() == 1);
    let node = node.expect("the placeholder's").clone();
    let replacing = Why::Replacing { placeholder: "ph".into(), node };
    assert_eq!(why(&env, "g"), std::slice::from_ref(&replacing));
    let one = |env: &Env, app: &str, key: &str| {
        Explainer::new(&env.partition).ask(env.partition.app_by_id[app], key, env.now).map(|waiting| waiting.why)
    };
    assert_eq!(one(&env, "g", "r"), Some(replacing));
    env.apply(Command::AskPredicates(true));
    app(&mut env, "a", "root.wide", "u");
    env.ask(vec![Ask::new("a", "k", 10)]);
    let asked = env.questions[0].node.clone();
    assert_eq!(one(&env, "a", "k"), Some(Why::Asking(asked)));
    env.answer_all();
    assert_eq!(one(&env, "a", "k"), None, "it does not wait");
}

// R7.2: those who go still fill the queue, and are the reason all the same.
#[test]
fn who_goes_for_it_is_told_while_they_fill_the_queue() {
    let yaml = CONFIG.replace(
        "- name: wide\n",
        "- name: p\n      parent: true\n      resources: {max: {memory: 40}}\n      queues:\n      - name: g\n        resources: {guaranteed: {memory: 20}}\n        \
         properties: {preemption.delay: 1s}\n      - name: v\n    - name: wide\n",
    );
    let mut env = Env::calm(&yaml);
    env.node("n1", 40);
    env.app("v", "root.p.v");
    env.app("g", "root.p.g");
    env.ask((0..4).map(|n| Ask::new("v", &format!("v{n}"), 10).preempts()).collect());
    env.ask(vec![Ask::new("g", "k", 10).preempts()]);
    env.pass(3);
    let found = why(&env, "g");
    let [Why::Preempting { leaving, lacks, .. }] = &found[..] else { panic!("{found:?}") };
    assert!(leaving.len() == 1 && lacks.is_empty());
    // What is promised to it is not used yet.
    env.ask(vec![Ask::new("g", "late", 30)]);
    let found = why(&env, "g");
    let quota = found.iter().find_map(|why| match why {
        Why::QueueQuota { used, promised, .. } => Some((used.clone(), promised.clone())),
        _ => None,
    });
    assert_eq!(quota, Some((res(40, 40), res(0, 0))), "{found:?}");
    // R2.16, R7.38: other schedulers took of the node, and it has not enough even when they are gone.
    let mut foreign = Ask::new("", "foreign", 9).on("n1");
    foreign.spec.foreign = Some(Foreign::Static);
    env.ask(vec![foreign]);
    let found = why(&env, "g");
    let lacks = found.iter().find_map(|why| if let Why::Preempting { lacks, .. } = why { Some(lacks) } else { None });
    assert_eq!(lacks, Some(&res(9, 9)), "{found:?}");
    let gone = env.unconfirmed.remove(0);
    env.release(&gone.app, &gone.key, gone.termination);
    assert!(!env.heard().contains(&"new k on n1".to_owned()));
}

// R7.2: what is promised is in the way of others, and not used.
#[test]
fn what_is_promised_is_told_from_what_is_used() {
    let yaml = "partitions:\n- name: default\n  queues:\n  - name: root\n    submitacl: '*'\n    limits:\n    - {limit: l, users: [eve], maxresources: {memory: 6}}\n    \
                queues:\n    - name: a\n      properties: {preemption.delay: 1s}\n      resources: {guaranteed: {memory: 5}, max: {memory: 6}}\n    - name: b\n";
    let mut env = Env::calm(yaml);
    env.node("n1", 10);
    app(&mut env, "v", "root.b", "u");
    env.ask(vec![Ask::new("v", "v1", 4).preempts(), Ask::new("v", "v2", 4).preempts()]);
    app(&mut env, "g", "root.a", "eve");
    env.ask(vec![Ask::new("g", "k", 5).preempts()]);
    env.pass(3);
    assert_eq!(env.unconfirmed.len(), 1);
    app(&mut env, "h", "root.b", "eve");
    app(&mut env, "i", "root.a", "u");
    env.ask(vec![Ask::new("h", "h", 2), Ask::new("i", "i", 2)]);
    let found = why(&env, "h");
    let [Why::UserQuota(refusal)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&refusal.used, &refusal.promised), (&res(0, 0), &res(5, 5)));
    let found = why(&env, "i");
    let [Why::QueueQuota { used, promised, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!((used, promised), (&res(0, 0), &res(5, 5)));
}

// R6.10, R5.27: what is to replace a placeholder, and a gang that is placed all at once, are told of the refusal.
#[test]
fn what_the_shim_refuses_of_a_gang_is_told_as_refused() {
    let mut env = env();
    env.apply(Command::AskPredicates(true));
    env.gang("g", "root.wide", 30, "Soft");
    env.ask(vec![Ask::new("g", "p1", 15).placeholder("tg"), Ask::new("g", "p2", 15).placeholder("tg")]);
    env.answer_all();
    for node in ["n1", "n2", "n3"] {
        env.refuse("r", node);
    }
    env.ask(vec![Ask::new("g", "r", 15).group("tg")]);
    env.answer_all();
    let said = "the shim does not want it there".into();
    assert_eq!(why(&env, "g"), [Why::Refused { live: 2, nodes: 3, said }]);

    let mut env =
        Env::calm(&CONFIG.replace("- name: wide\n", "- name: wide\n      properties: {gang.admission: atomic}\n"));
    env.node("n1", 40);
    env.node("n2", 40);
    env.apply(Command::AskPredicates(true));
    env.refuse("p2", "n1");
    env.refuse("p2", "n2");
    env.gang("g", "root.wide", 30, "Soft");
    env.ask(vec![Ask::new("g", "p1", 15).placeholder("tg"), Ask::new("g", "p2", 15).placeholder("tg")]);
    let asked = why(&env, "g");
    assert!(asked.iter().all(|why| matches!(why, Why::Asking(_) | Why::Turn)), "{asked:?}");
    env.answer_all();
    let found = why(&env, "g");
    let [Why::GangNodes(nodes)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((nodes.refused, nodes.open, nodes.is_refused()), (2, 0, true));
    assert_eq!(nodes.refusal.as_deref(), Some("the shim does not want it there"));
}

// R5.43
#[test]
fn what_the_shim_said_of_a_required_node_is_told() {
    let mut env = env();
    env.apply(Command::AskPredicates(true));
    app(&mut env, "a", "root.wide", "u");
    env.refuse("k", "n3");
    env.ask(vec![Ask::new("a", "k", 20).requires("n3")]);
    env.answer_all();
    let found = why(&env, "a");
    let [Why::RequiredNode { why: Unfit::Refused, said, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(said.as_deref(), Some("the shim does not want it there"));
}

// R5.27: the reason for a refusal may have been the reason for the drain.
#[test]
fn a_refusal_is_forgotten_when_its_node_is_undrained() {
    let mut env = Env::calm(CONFIG);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 40);
    app(&mut env, "a", "root.wide", "u");
    env.refuse("k", "n1");
    env.ask(vec![Ask::new("a", "k", 10)]);
    env.answer_all();
    let found = why(&env, "a");
    let [Why::Nodes(nodes)] = &found[..] else { panic!("{found:?}") };
    assert!(nodes.is_refused());
    env.refusals.clear();
    env.node_action("n1", NodeAction::Drain, None);
    env.node_action("n1", NodeAction::DrainToSchedulable, None);
    env.answer_all();
    assert_eq!(env.heard().last().map(String::as_str), Some("new k on n1"));
}

#[test]
fn asks_that_the_shim_is_asked_about_one_by_one_wait_together() {
    let mut env = env();
    env.apply(Command::PredicateTerms(PredicateTerms { constrained: true, nodes: 1, shared: false }));
    env.apply(Command::AskPredicates(true));
    app(&mut env, "a", "root.wide", "u");
    let constrained = |n: usize, size| Ask::new("a", &format!("k{n:04}"), size);
    env.ask((0..2_000).map(|n| constrained(n, 1)).chain([constrained(2_000, 60)]).collect());
    let waiting = Explainer::new(&env.partition).application(env.partition.app_by_id["a"], env.now);
    let asked = env.questions.len();
    let shown: Vec<_> = waiting.iter().map(|one| (one.asks, &one.why, one.asked)).collect();
    let whys = |wanted: fn(&Why) -> bool| -> u64 {
        shown.iter().filter(|(_, why, _)| wanted(why)).map(|(asks, ..)| asks).sum()
    };
    assert_eq!(whys(|why| matches!(why, Why::Asking(_))), asked as u64, "{shown:?}");
    assert_eq!(whys(|why| *why == Why::Turn), 2_000 - asked as u64, "{shown:?}");
    assert!(shown.len() <= 5 && shown.iter().all(|(.., of)| *of == asked), "{shown:?}");
    assert!(matches!(waiting.last().map(|one| (one.asks, &one.why)), Some((1, Why::Nodes(_)))), "{shown:?}");
}

// SEEDS S11: what gangs that have begun have yet to place is kept, and not used.
#[test]
fn room_that_is_kept_for_a_gang_is_told_from_what_is_used() {
    let mut env = env();
    env.gang("a", "root.small", 20, "Soft");
    env.ask(vec![Ask::new("a", "ph", 10).placeholder("tg")]);
    env.gang("b", "root.small", 20, "Soft");
    env.ask(vec![Ask::new("b", "ph", 10).placeholder("tg")]);
    let found = why(&env, "b");
    let [Why::GangRoom { used, kept, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!((used, kept), (&res(10, 10), &res(10, 10)));
}

// R5.27: what is told of one ask alone is told of it among many sizes too.
#[test]
fn many_sizes_are_told_the_same_reasons_as_one() {
    let mut env = Env::calm(CONFIG);
    for (node, size) in [("n1", 4_000), ("n2", 4_000), ("n3", 8_000), ("n4", 8_000)] {
        env.node(node, size);
    }
    app(&mut env, "full", "root.wide", "u");
    env.ask(vec![Ask::new("full", "1", 4_000), Ask::new("full", "2", 4_000)]);
    env.ask(vec![Ask::new("full", "3", 8_000), Ask::new("full", "4", 7_990)]);
    let mut sizes: Vec<i64> = (1_000..1_300).collect();
    sizes.extend([4_001, 8_000, 8_001, 9_000]);
    for size in &sizes {
        let id = format!("a{size}");
        app(&mut env, &id, "root.wide", "u");
        env.ask(vec![Ask::new(&id, "1", *size)]);
    }
    let alike = |env: &Env| {
        let mut explainer = Explainer::new(&env.partition);
        for size in &sizes {
            let id = format!("a{size}");
            let ix = env.partition.app_by_id[&*id];
            let together: Vec<_> = explainer.application(ix, env.now).into_iter().map(|one| one.why).collect();
            assert_eq!(together, why(env, &id), "{size}");
        }
    };
    alike(&env);
    for node in ["n1", "n2", "n3", "n4"] {
        env.node_action(node, NodeAction::Drain, None);
    }
    alike(&env);
}

// R4.38: what applications of one user want together is within the limits that they share.
#[test]
fn what_wants_nodes_is_within_the_limit_that_applications_share() {
    let limits = "limits:\n  - {limit: l, users: [eve], maxresources: {memory: 30}}\n  - {limit: l, groups: [g], maxresources: {memory: 50}}\n";
    let yaml = "partitions:\n- name: default\n  LIMITS\n  queues:\n  - name: root\n    submitacl: '*'\n    queues: [{name: a}, {name: b}]\n";
    let mut env = Env::new(&yaml.replace("LIMITS\n", limits));
    env.node("n1", 10);
    for (id, queue, user) in
        [("a1", "root.a", "eve"), ("a2", "root.a", "eve"), ("b1", "root.b", "eve"), ("b2", "root.b", "u")]
    {
        let groups = Some([std::sync::Arc::from("g")].into());
        env.add_app(AddApplication { id: id.into(), queue: queue.into(), groups, ..env.by(user) });
        env.ask((0..3).map(|n| Ask::new(id, &format!("{id}-{n}"), 20)).collect());
    }
    env.heard();
    env.pass(1);
    let failed = env.heard().into_iter().filter(|told| told.ends_with("Failed")).collect::<Vec<_>>();
    assert_eq!(failed, ["a1-0 Failed", "b2-0 Failed"]);
    let found = env.partition.demand();
    assert_eq!(found.iter().map(|demand| demand.asks).collect::<Vec<_>>(), [1, 1], "{found:?}");
}
