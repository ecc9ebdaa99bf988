//! Foreign allocations, sizes and nodes that change while an ask waits for room, has reserved the node, has preempted there
//! and its victims are not confirmed, or requires the node: any two changes after each other, in each of these.

use callboard::domain::{
    alloc::{Alloc, Foreign, Phase},
    command::{Command, NodeAction},
    types::Termination,
};

use super::{
    super::env::{Ask, Env, res},
    A_AND_B, tree,
};

/// How ask k1 of app-a waits while app-b and foreign work fill node n1.
const WAITS: [&str; 6] = ["just so", "reserved", "claimed", "required", "required and claimed", "required, drained"];

type Change = (&'static str, fn(&mut Env));

/// What may happen to the node and to all that is on it or waits for it.
const CHANGES: &[Change] = &[
    ("foreign work arrives", |env| foreign(env, "g", "n1", 5)),
    ("foreign work arrives beyond the capacity", |env| foreign(env, "g", "n1", 40)),
    ("foreign work grows", |env| foreign(env, "f", "n1", 30)),
    ("foreign work shrinks", |env| foreign(env, "f", "n1", 1)),
    ("foreign work shrinks to nothing", |env| foreign(env, "f", "n1", 0)),
    ("foreign work moves", |env| foreign(env, "f", "n2", 10)),
    ("foreign work goes", |env| env.release("", "f", Termination::StoppedByRm)),
    ("an allocation grows", |env| size(env, "v0", 26)),
    ("an allocation shrinks", |env| size(env, "v0", 5)),
    ("the victim grows", |env| size(env, "v3", 26)),
    ("the victim shrinks", |env| size(env, "v3", 5)),
    ("the ask grows", |env| size(env, "k1", 35)),
    ("the ask shrinks", |env| size(env, "k1", 8)),
    ("the node shrinks below its usage", |env| capacity(env, 60)),
    ("the node shrinks below the ask", |env| capacity(env, 15)),
    ("the node grows", |env| capacity(env, 150)),
    ("the node is drained", |env| env.node_action("n1", NodeAction::Drain, None)),
    ("the node is undrained", |env| env.node_action("n1", NodeAction::DrainToSchedulable, None)),
    ("the node goes", |env| env.node_action("n1", NodeAction::Decommission, None)),
];

fn foreign(env: &mut Env, key: &str, node: &str, size: i64) {
    let mut ask = Ask::new("", key, size).on(node);
    ask.spec.foreign = Some(Foreign::Default);
    env.ask(vec![ask]);
}

/// Another size for what is there.
fn size(env: &mut Env, key: &str, size: i64) {
    let app = if key == "k1" { "app-a" } else { "app-b" };
    if env.partition.alloc(app, key).is_some() {
        env.ask(vec![Ask::new(app, key, size)]);
    }
}

fn capacity(env: &mut Env, size: i64) {
    env.node_action("n1", NodeAction::Update, Some(res(size, size)));
}

/// Node n1 with 100: 80 of app-b, 10 foreign, 10 free; k1 wants 20. Node n2 with 8 is empty.
fn waiting(how: &str, asked: bool) -> Env {
    let mut env = Env::calm(&tree(A_AND_B));
    env.apply(Command::AskPredicates(asked));
    env.node("n1", 100);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    let above = if how == "required" { 9 } else { 0 };
    for n in 0..4 {
        env.ask(vec![Ask::new("app-b", &format!("v{n}"), 20).preempts().priority(above)]);
        env.answer_all();
    }
    foreign(&mut env, "f", "n1", 10);
    env.node("n2", 8);
    if how == "required, drained" {
        env.node_action("n1", NodeAction::Drain, None);
    }
    let k1 = Ask::new("app-a", "k1", 20);
    env.ask(vec![match how {
        "just so" | "reserved" => k1,
        "claimed" => k1.preempts(),
        _ => k1.requires("n1"),
    }]);
    env.answer_all();
    if how != "just so" {
        env.pass(3);
        env.answer_all();
    }
    let victims = usize::from(how != "just so" && how != "reserved" && how != "required");
    assert_eq!((env.partition.reservations, env.unconfirmed.len()), (u64::from(how != "just so"), victims), "{how}");
    env.heard();
    env
}

fn k1(env: &Env) -> &Alloc {
    env.partition.alloc("app-a", "k1").expect("a row")
}

/// The ask does not wait where it fits, and nobody was told to go where it would not fit then.
fn look(env: &mut Env, what: &str) {
    env.answer_all();
    let told = env.heard().iter().any(|text| text.ends_with("Preempted"));
    let row = k1(env);
    if row.phase != Phase::Pending {
        return;
    }
    let root = &env.partition.queues[env.partition.root];
    let max = root.max.clone().unwrap_or_default();
    let open = |used: &callboard::domain::resources::Resource| max.fits(&used.plus(&row.resource));
    for node in env.partition.nodes.values() {
        let own = row.reserved.is_some_and(|held| env.partition.nodes[held].id() == node.id());
        let mine = match &row.spec.required_node {
            Some(required) => required == node.id(),
            None => own || node.schedulable() && node.reservations.is_empty(),
        };
        let fits = node.available().fits(&row.resource) && node.capacity.fits(&row.resource);
        assert!(!(mine && fits && open(root.allocated())), "{what}: k1 waits, and fits {}", node.id());
        if told && own {
            let mut room = node.available().value();
            for alloc in &node.allocs {
                let leaving = &env.partition.allocs[*alloc];
                if leaving.preempted {
                    room.add(&leaving.resource);
                }
            }
            let fits = room.fits(&row.resource) && open(&root.allocated().minus(&root.preempting));
            assert!(fits, "{what}: preempted for k1, which does not fit then: {room} {:?}", env.unconfirmed);
        }
    }
    assert!(!told || row.reserved.is_some(), "{what}: preempted for k1, which holds nothing");
}

/// Confirms what is open; then all others go, the node is as it was, and the ask gets its place if it has none.
fn ends_well(env: &mut Env, what: &str) {
    env.confirm_all();
    look(env, what);
    env.pass(20);
    look(env, what);
    env.confirm_all();
    look(env, what);
    for key in ["f", "g"] {
        env.release("", key, Termination::StoppedByRm);
        look(env, what);
    }
    env.remove_app("app-b");
    look(env, what);
    if env.partition.node_by_id.contains_key("n1") {
        capacity(env, 100);
        env.node_action("n1", NodeAction::DrainToSchedulable, None);
    } else {
        env.node("n1", 100);
    }
    look(env, what);
    // Placed, now or before; where its node went since, the shim has to release it (R2.22).
    let row = k1(env);
    assert!(matches!(row.phase, Phase::Allocated | Phase::Ended), "{what}: k1 is {:?}", row.phase);
    assert_eq!(env.partition.reservations, 0, "{what}");
    env.end(&["app-a"]);
    assert!(env.partition.nodes.values().all(|node| node.occupied.is_zero()), "{what}");
}

fn all_pairs(how: &str, asked: bool) {
    for (m, (first, change)) in CHANGES.iter().enumerate() {
        for (n, (second, next)) in CHANGES.iter().enumerate() {
            // The victims are confirmed before the second change, or after it.
            let late = (m + n) % 2 == 0;
            let what = format!("{how}; {first}; {second}; confirmed late: {late}; shim asked: {asked}");
            let mut env = waiting(how, asked);
            change(&mut env);
            look(&mut env, &what);
            if !late {
                env.confirm_all();
                look(&mut env, &what);
            }
            next(&mut env);
            look(&mut env, &what);
            ends_well(&mut env, &what);
        }
    }
}

// R2.15–R2.20, R2.24, R4.11–R4.14, R5.30–R5.44, R7.25–R7.28, R7.33–R7.38
#[test]
fn an_ask_that_just_waits() {
    all_pairs(WAITS[0], false);
    all_pairs(WAITS[0], true);
}

#[test]
fn an_ask_that_has_reserved_the_node() {
    all_pairs(WAITS[1], false);
    all_pairs(WAITS[1], true);
}

#[test]
fn an_ask_whose_victims_are_on_their_way() {
    all_pairs(WAITS[2], false);
    all_pairs(WAITS[2], true);
}

#[test]
fn a_required_node_without_victims() {
    all_pairs(WAITS[3], false);
    all_pairs(WAITS[3], true);
}

#[test]
fn a_required_node_whose_victims_are_on_their_way() {
    all_pairs(WAITS[4], false);
    all_pairs(WAITS[4], true);
}

#[test]
fn a_drained_required_node_whose_victims_are_on_their_way() {
    all_pairs(WAITS[5], false);
    all_pairs(WAITS[5], true);
}

#[test]
fn an_ask_preempts_once_for_one_need() {
    // R7.4, R7.27: whatever changes that leaves the room of its victims enough, and however long they take.
    for (name, change) in CHANGES {
        let harmless = ["foreign work shrinks", "foreign work moves", "an allocation shrinks", "the victim grows"];
        if !harmless.contains(name) && *name != "foreign work goes" && *name != "the node grows" {
            continue;
        }
        let mut env = waiting("claimed", false);
        change(&mut env);
        for _ in 0..10 {
            env.pass(16);
        }
        assert_eq!(env.unconfirmed.len(), 1, "{name}");
    }
}
