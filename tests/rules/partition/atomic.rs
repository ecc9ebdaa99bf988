//! All-or-nothing admission of gangs (`gang.admission: atomic`), and an exhaustive search through a small cluster: with it
//! no state can be reached in which two gangs hold halves and wait for each other; without it there is one.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use callboard::domain::{
    Partition,
    alloc::Phase,
    command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
    effect::{Callback, Effect, Released},
    partition::{Explainer, Why},
    types::{AppState, Nanos, Termination},
};

use super::env::{Ask, Env, QUEUES, res};

fn atomic() -> String {
    QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n")
}

fn placeholders(app: &str, sizes: &[i64]) -> Vec<Ask> {
    sizes.iter().enumerate().map(|(n, size)| Ask::new(app, &format!("{app}-p{n}"), *size).placeholder("tg")).collect()
}

#[test]
fn a_gang_that_does_not_fit_at_once_holds_nothing() {
    let mut env = Env::new(&atomic());
    env.node("n1", 15);
    env.gang("g1", "root.a", 20, "Soft");
    env.ask(placeholders("g1", &[10, 10]));
    assert_eq!(env.partition.placeholders, 0);
    // No node is reserved for a part of it, and nothing is timed out.
    env.pass(600);
    assert_eq!((env.partition.placeholders, env.partition.reservations), (0, 0));
    assert_eq!(env.state("g1"), Some(AppState::Accepted));
    // It waits for nodes, and the shim is told so (R4.39).
    assert!(env.heard().contains(&"g1-p0 Failed".to_owned()));
    // Others go on meanwhile.
    env.gang("g2", "root.a", 10, "Soft");
    env.ask(placeholders("g2", &[10]));
    assert_eq!(env.heard().last().map(String::as_str), Some("new g2-p0 on n1"));
    env.node("n2", 10);
    assert_eq!(env.heard(), ["node n2"]);
    env.node("n3", 10);
    assert_eq!(env.heard(), ["node n3", "new g1-p0 on n2", "g1 Running", "new g1-p1 on n3"]);
    env.end(&["g1", "g2"]);
}

#[test]
fn a_gang_whose_queue_becomes_atomic_lets_go_of_what_is_reserved_for_a_part_of_it() {
    let mut env = Env::new(QUEUES);
    env.node("n1", 15);
    env.app("other", "root.b");
    env.ask(vec![Ask::new("other", "k1", 10)]);
    env.node("small", 9);
    env.gang("g1", "root.a", 20, "Soft");
    env.ask(placeholders("g1", &[10, 10]));
    env.pass(10);
    assert_eq!((env.partition.placeholders, env.partition.reservations), (0, 1));
    env.apply(Command::Configure(callboard::config::load(&atomic()).expect("valid").partitions[0].clone()));
    env.run();
    assert_eq!(env.partition.reservations, 0);
    // The other one wanted a node, too, and wants none any more.
    env.pass(30);
    assert_eq!(env.partition.reservations, 0);
    env.release("other", "k1", Termination::StoppedByRm);
    assert_eq!(env.partition.placeholders, 0, "there is room for one of them");
    env.node("n2", 10);
    assert_eq!(env.partition.placeholders, 2);
    env.end(&["g1", "other"]);
}

#[test]
fn a_gang_that_requires_a_drained_node_is_placed_when_that_has_room() {
    // R5.42. With preemption off a shape that fits nowhere is left alone, which says nothing of a drained node.
    for preempts in [true, false] {
        let partition = format!("- name: default\n    preemption: {{enabled: {preempts}}}\n");
        let mut env = Env::new(&atomic().replace("- name: default\n", &partition));
        for n in 1..=5 {
            env.node(&format!("n{n}"), 10);
        }
        env.app("other", "root.b");
        env.ask(vec![Ask::new("other", "full", 10).on("n1")]);
        env.ask((2..=5).map(|n| Ask::new("other", &format!("k{n}"), 8).on(&format!("n{n}"))).collect());
        env.node_action("n1", NodeAction::Drain, None);
        // It fits on no node that takes allocations.
        env.ask(vec![Ask::new("other", "waits", 3)]);
        env.gang("g1", "root.a", 6, "Soft");
        env.ask(placeholders("g1", &[3, 3]).into_iter().map(|ask| ask.requires("n1")).collect());
        assert_eq!(env.partition.placeholders, 0);
        env.release("other", "full", Termination::StoppedByRm);
        assert_eq!(env.partition.placeholders, 2, "preemption: {preempts}");
        env.end(&["g1", "other"]);
    }
}

#[test]
fn a_part_of_a_gang_that_may_go_elsewhere_leaves_the_node_to_one_that_requires_it() {
    // R6.2: in their order, and the largest first, the part that may go anywhere takes the room of the other.
    let mut env = Env::new(&atomic());
    env.node("n1", 10);
    env.node("n2", 10);
    env.gang("g1", "root.a", 13, "Soft");
    let mut parts = placeholders("g1", &[7, 6]);
    parts[1] = parts[1].clone().requires("n1");
    env.ask(parts);
    let said = env.heard();
    assert!(said.contains(&"new g1-p0 on n2".to_owned()) && said.contains(&"new g1-p1 on n1".to_owned()), "{said:?}");
    env.end(&["g1"]);
}

#[test]
fn a_gang_leaves_a_required_node_to_who_has_preempted_for_it() {
    // R5.43, R7.38
    let mut env = Env::new(&atomic());
    env.node("n1", 10);
    env.node("n2", 1);
    env.app("other", "root.b");
    env.ask(["v1", "v2"].map(|key| Ask::new("other", key, 5).on("n1").preempts()).into());
    env.app("daemons", "root.b");
    env.ask(vec![Ask::new("daemons", "d1", 6).requires("n1").priority(10)]);
    assert_eq!(env.unconfirmed.len(), 2);
    env.gang("g1", "root.a", 5, "Soft");
    env.ask(placeholders("g1", &[5]).into_iter().map(|ask| ask.requires("n1")).collect());
    // One of them has gone, and everything is looked at again.
    env.release("other", "v1", Termination::Preempted);
    env.node("n3", 1);
    assert_eq!(env.partition.placeholders, 0);
    env.release("other", "v2", Termination::Preempted);
    assert!(env.heard().contains(&"new d1 on n1".to_owned()));
    env.release("daemons", "d1", Termination::StoppedByRm);
    assert_eq!(env.partition.placeholders, 1);
    env.end(&["g1", "daemons", "other"]);
}

#[test]
fn why_it_waits_is_told_by_trying_it() {
    let mut env = Env::new(&atomic());
    env.node("n1", 15);
    env.node("n2", 7);
    env.gang("g1", "root.a", 16, "Soft");
    env.ask(placeholders("g1", &[8, 8]));
    let why = |env: &Env| {
        let app = env.partition.app_by_id["g1"];
        let before = env.partition.save();
        let waiting = Explainer::new(&env.partition).application(app, env.now);
        assert!(env.partition.save() == before, "a question changes nothing");
        waiting.into_iter().map(|waiting| waiting.why).collect::<Vec<_>>()
    };
    // There is enough on the nodes, though not in such pieces.
    assert!(matches!(&why(&env)[..], [Why::GangNodes(nodes)] if nodes.open == 1), "{:?}", why(&env));
    let (action, attributes) = (NodeAction::Create, Default::default());
    let node = NodeItem { id: "n3".into(), action, capacity: Some(res(8, 8)), attributes };
    env.apply(Command::Nodes(vec![node]));
    assert_eq!(why(&env), [Why::Turn]);
    env.run();
    assert_eq!(env.partition.placeholders, 2);
    env.end(&["g1"]);
}

#[test]
fn it_waits_until_all_that_was_announced_has_come() {
    let mut env = Env::new(&atomic());
    env.node("n1", 100);
    env.gang("g1", "root.a", 30, "Soft");
    let mut asks = placeholders("g1", &[10, 10, 10]).into_iter();
    for _ in 0..2 {
        env.ask(asks.by_ref().take(1).collect());
        assert_eq!(env.partition.placeholders, 0);
    }
    // What was withdrawn has come all the same.
    env.release("g1", "g1-p0", Termination::StoppedByRm);
    env.ask(asks.collect());
    assert_eq!(env.partition.placeholders, 2);
    env.end(&["g1"]);
}

#[test]
fn parts_that_ran_before_a_restart_are_not_waited_for() {
    // R6.28, SEEDS S11: those that have ended since do not come either.
    for ended in [0, 2] {
        let mut env = Env::new(&atomic());
        env.node("n1", 100);
        env.gang("g1", "root.a", 50, "Soft");
        env.ask((ended..4).map(|n| Ask::new("g1", &format!("r{n}"), 10).group("tg").on("n1")).collect());
        env.ask(placeholders("g1", &[10]));
        assert_eq!(env.partition.placeholders, 1, "{ended} have ended");
        env.end(&["g1"]);
    }
}

#[test]
fn a_release_that_makes_room_for_the_sum_wakes_it() {
    let mut env = Env::new(&atomic());
    env.node("n1", 10);
    env.node("n2", 10);
    env.app("other", "root.b");
    env.ask(vec![Ask::new("other", "k1", 10)]);
    env.gang("g1", "root.a", 20, "Soft");
    env.ask(placeholders("g1", &[10, 10]));
    assert_eq!(env.partition.placeholders, 0);
    env.release("other", "k1", Termination::StoppedByRm);
    assert_eq!(env.partition.placeholders, 2);
    env.end(&["g1", "other"]);
}

#[test]
fn gangs_that_fit_nowhere_leave_others_their_turn() {
    // So many look in vain that no more may in the cycle, and there is news for them in every one.
    let mut env = Env::new(&atomic()).alone();
    env.node("n1", 100);
    for n in 0..20 {
        let id = format!("g{n:02}");
        env.gang(&id, "root.a", 3_000, "Soft");
        env.ask(placeholders(&id, &[10; 300]));
    }
    env.gang("small", "root.a", 20, "Soft");
    env.ask(placeholders("small", &[10, 10]));
    env.app("other", "root.b");
    for n in 0..30 {
        env.now = env.now.plus(Nanos::from_millis(50));
        env.ask(vec![Ask::new("other", &format!("k{n}"), 1)]);
        env.release("other", &format!("k{n}"), Termination::StoppedByRm);
        env.apply(Command::Tick);
        env.run();
    }
    assert_eq!(env.partition.placeholders, 2);
}

#[test]
fn limits_hold_for_the_sum() {
    let yaml = atomic().replace("- name: a\n", "- name: a\n            resources: {max: {memory: 25}}\n");
    let mut env = Env::new(&yaml);
    env.node("n1", 100);
    env.app("other", "root.a");
    env.ask(vec![Ask::new("other", "k1", 10)]);
    env.gang("g1", "root.a", 20, "Soft");
    env.ask(placeholders("g1", &[10, 10]));
    assert_eq!(env.partition.placeholders, 0);
    env.release("other", "k1", Termination::StoppedByRm);
    assert_eq!(env.partition.placeholders, 2);
    env.end(&["g1", "other"]);
}

#[test]
fn the_largest_first_fits_where_the_order_does_not() {
    let mut env = Env::new(&atomic());
    // In the order of the asks the small one would sit where only the large one fits.
    env.node("n1", 10);
    env.node("n2", 9);
    env.gang("g1", "root.a", 15, "Soft");
    env.ask(placeholders("g1", &[5, 10]));
    assert_eq!(env.partition.placeholders, 2);
    env.end(&["g1"]);
}

#[test]
fn a_shim_that_is_asked_decides_for_all() {
    let mut env = Env::new(&atomic());
    env.apply(Command::AskPredicates(true));
    env.node("n1", 10);
    env.node("n2", 10);
    env.gang("g1", "root.a", 20, "Soft");
    env.heard();
    env.ask(placeholders("g1", &[10, 10]));
    assert_eq!(env.questions.len(), 2);
    env.refuse("g1-p1", "n2");
    // The first is agreed to and not announced.
    env.answer_one();
    assert_eq!(env.heard(), ["g1 Accepted"]);
    // The second is refused: nothing is charged, and the next trial keeps off that node.
    env.answer_one();
    assert!(env.heard().is_empty());
    env.refuse("g1-p1", "n1");
    env.answer_all();
    let root = &env.partition.queues[env.partition.root];
    assert!(root.allocated().is_zero() && env.partition.allocations == 0);
    assert!(env.heard().is_empty());
    // Agreed to by all, with a node that goes in between.
    env.refusals.clear();
    env.node("n3", 10);
    env.answer_one();
    env.node_action("n3", NodeAction::Decommission, None);
    // R5.27: nothing changed since, so what was refused is asked about once more after half a minute.
    env.pass(31);
    env.answer_all();
    assert_eq!(env.partition.placeholders, 2);
    assert!(
        env.heard().ends_with(&["g1 Running".to_owned(), "new g1-p1 on n2".to_owned()])
            || env.partition.placeholders == 2
    );
    env.end(&["g1"]);
}

#[test]
fn what_is_asked_about_may_go_at_any_time() {
    for what in ["ask", "app", "off"] {
        let mut env = Env::new(&atomic());
        env.apply(Command::AskPredicates(true));
        env.node("n1", 20);
        env.gang("g1", "root.a", 20, "Soft");
        env.ask(placeholders("g1", &[10, 10]));
        env.answer_one();
        match what {
            "ask" => env.release("g1", "g1-p0", Termination::StoppedByRm),
            "app" => env.remove_app("g1"),
            _ => {
                env.apply(Command::AskPredicates(false));
                assert_eq!(env.partition.placeholders, 2);
            }
        }
        env.answer_all();
        env.end(&["g1"]);
    }
}

/// The shim's side and the partition, small enough to look at every state.
#[derive(Clone)]
struct World {
    partition: Partition,
    /// Releases that the shim has to confirm.
    open: Vec<Released>,
    /// Placeholder asks sent so far, by application.
    sent: [usize; APPS],
    /// Real asks sent so far.
    real: [usize; APPS],
    /// Decisions are made one at a time: something may happen between any two.
    idle: bool,
}

const NOW: Nanos = Nanos(1_000_000_000_000);
const APPS: usize = 3;
const GANG: usize = 2;

impl World {
    fn new(yaml: &str, nodes: usize) -> World {
        let conf = callboard::config::load(yaml).expect("a valid configuration").partitions[0].clone();
        let mut effects = Vec::new();
        let partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, NOW, &mut effects);
        let mut world = World { partition, open: Vec::new(), sent: [0; APPS], real: [0; APPS], idle: true };
        for n in 0..nodes {
            let id = format!("n{n}").into();
            world.apply(Command::Nodes(vec![callboard::domain::command::NodeItem {
                id,
                action: NodeAction::Create,
                capacity: Some(res(10, 10)),
                attributes: Default::default(),
            }]));
        }
        for app in 0..APPS {
            let new = vec![AddApplication {
                id: format!("g{app}").into(),
                queue: "root.a".into(),
                user: "alice".into(),
                groups: Some(Arc::from([])),
                placeholder_ask: Some(res(10 * GANG as i64, 10 * GANG as i64)),
                ..AddApplication::default()
            }];
            world.apply(Command::Applications { new, remove: Vec::new() });
        }
        world
    }

    fn apply(&mut self, command: Command) {
        let mut effects = Vec::new();
        self.partition.apply(command, NOW, &mut effects);
        self.idle = false;
        self.take(effects);
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Callback(Callback::Released(release)) = effect
                && release.confirm
            {
                self.open.push(*release);
            }
        }
    }

    fn ask(&mut self, app: usize, key: String, placeholder: bool) {
        let ask = Ask::new(&format!("g{app}"), &key, 10);
        let ask = if placeholder { ask.placeholder("tg") } else { ask.group("tg") };
        let item = AllocationItem { app: ask.app, node: None, spec: Arc::new(ask.spec) };
        self.apply(Command::Allocations { allocations: vec![item], releases: Vec::new() });
    }

    fn release(&mut self, app: &str, key: &str, termination: Termination) {
        let releases = vec![ReleaseItem { app: app.into(), key: key.into(), termination }];
        self.apply(Command::Allocations { allocations: Vec::new(), releases });
    }

    fn allocated(&self, app: usize, placeholder: bool) -> Vec<String> {
        let id = format!("g{app}");
        let Some(ix) = self.partition.app_by_id.get(&*id) else { return Vec::new() };
        let row = &self.partition.apps[*ix];
        let rows = row.by_seq.values().map(|alloc| &self.partition.allocs[*alloc]);
        rows.filter(|row| row.phase == Phase::Allocated && row.is_placeholder() == placeholder)
            .map(|row| row.spec.key.to_string())
            .collect()
    }

    /// Everything that may happen next.
    fn next(&self) -> Vec<World> {
        let mut next = Vec::new();
        let mut add = |change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push(world);
        };
        for app in 0..APPS {
            if self.sent[app] < GANG {
                add(&|w| {
                    w.sent[app] += 1;
                    w.ask(app, format!("p{}", w.sent[app]), true);
                });
            } else if self.real[app] < GANG && self.allocated(app, true).len() + self.real[app] >= GANG {
                // As shims do: real asks when the gang is there.
                add(&|w| {
                    w.real[app] += 1;
                    w.ask(app, format!("r{}", w.real[app]), false);
                });
            }
            for key in self.allocated(app, false) {
                add(&|w| w.release(&format!("g{app}"), &key, Termination::StoppedByRm));
            }
        }
        for at in 0..self.open.len() {
            add(&|w| {
                let release = w.open.remove(at);
                w.release(&release.app.clone(), &release.key.clone(), release.termination);
            });
        }
        if !self.idle {
            add(&|w| {
                let mut effects = Vec::new();
                // A call that is cut leaves no other world.
                w.idle = loop {
                    let done = w.partition.schedule(1, NOW, &mut effects);
                    if done.made > 0 || !done.cut {
                        break done.made == 0;
                    }
                };
                w.take(effects);
            });
        }
        next
    }

    /// What makes two states the same for all that may follow.
    fn print(&self) -> String {
        let mut text = format!("{:?} {:?} {}", self.sent, self.real, self.idle);
        for app in 0..APPS {
            let id = format!("g{app}");
            let Some(ix) = self.partition.app_by_id.get(&*id) else { continue };
            let row = &self.partition.apps[*ix];
            let _ = write!(text, "|{:?}", row.state);
            for alloc in row.by_seq.values() {
                let row = &self.partition.allocs[*alloc];
                let node = row.node.map(|node| node.0);
                let _ = write!(text, ";{} {:?} {node:?} {}", row.spec.key, row.phase, row.released);
            }
        }
        let mut open: Vec<String> = self.open.iter().map(|r| format!("{} {}", r.app, r.key)).collect();
        open.sort();
        text + &open.join(",")
    }

    fn is_halved(&self, app: usize) -> bool {
        let id = format!("g{app}");
        self.partition.app_by_id.get(&*id).is_some_and(|ix| {
            let row = &self.partition.apps[*ix];
            row.gang.placeholders > 0 && row.gang.pending_placeholders > 0
        })
    }

    /// Applications that hold a part of their gang and wait for the rest.
    fn halved(&self) -> usize {
        (0..APPS).filter(|app| self.is_halved(*app)).count()
    }

    /// Nothing more can be placed and nothing will end, while two or more hold a part and wait for the rest.
    fn is_deadlock(&self) -> bool {
        let works = |app| !self.allocated(app, false).is_empty();
        self.idle && self.open.is_empty() && !(0..APPS).any(works) && self.halved() > 1
    }
}

/// Every state that can be reached: their number, how many are deadlocks, and the most gangs that were halved at once.
fn explore(yaml: &str, nodes: usize) -> (usize, usize, usize) {
    let first = World::new(yaml, nodes);
    let mut seen: BTreeSet<String> = BTreeSet::from([first.print()]);
    let mut open = vec![first];
    let (mut deadlocks, mut halved) = (0, 0);
    while let Some(world) = open.pop() {
        deadlocks += usize::from(world.is_deadlock());
        halved = halved.max(world.halved());
        for next in world.next() {
            if seen.insert(next.print()) {
                assert!(next.partition.audit().is_empty(), "{:#?}", next.partition.audit());
                open.push(next);
            }
        }
    }
    (seen.len(), deadlocks, halved)
}

#[test]
fn no_two_gangs_ever_hold_halves_and_wait() {
    // Three gangs of two: with two places one works at a time, with three there is one too many for one.
    for nodes in [2, 3] {
        let (states, deadlocks, halved) = explore(&atomic(), nodes);
        println!("{nodes} nodes, atomic: {states} states, {deadlocks} deadlocks, {halved} halved");
        assert_eq!((deadlocks, halved), (0, 0));
        assert!(states > 1000, "the search reached only {states} states");
    }
}

#[test]
fn without_it_they_can() {
    let (states, deadlocks, halved) = explore(QUEUES, 2);
    println!("2 nodes, default: {states} states, {deadlocks} deadlocks, {halved} halved");
    assert!(deadlocks > 0 && halved > 1);
}
