//! The books of users and groups over ten thousand random lives: releases, registrations that begin again, nodes that
//! go, replacements, and configurations whose limits come, change, move and go, in any order. After every step usage of a user
//! is the sum over that user's applications, and usage of a group the sum over those linked to it, on every queue of the path.
//!
//! The seed is printed; to run it again: `CALLBOARD_SEED=number cargo test --test partition ten_thousand`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Write as _,
    sync::Arc,
};

use callboard::domain::{
    alloc::Phase,
    command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
    resources::Resource,
    ugm::{QueueUsage, Who},
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed, TestError, TestRunner},
};

use super::{
    env::{Env, res},
    random,
};

const SEQUENCES: u32 = 10_000;
const USERS: [&str; 3] = ["alice", "bob", "carol"];
const GROUPS: [&[&str]; 5] = [&[], &["staff"], &["dev", "staff"], &["ops", "dev"], &["guests"]];
const QUEUES: [&str; 3] = ["root.a", "root.b", "root.p.f"];
/// Where limits may be, with what a limit there may allow so that it goes with those above it: (queue, memory, applications).
const LEVELS: [(&str, i64, i64); 5] = [("root", 60, 4), ("a", 20, 2), ("b", 20, 2), ("p", 20, 3), ("f", 10, 1)];
/// Whom a limit names; the wildcard group needs a named one beside it (CFG-064).
const NAMED: [(&str, &str); 7] = [
    ("alice", ""),
    ("'*'", ""),
    ("", "staff"),
    ("bob", "dev"),
    ("alice, '*'", "dev, '*'"),
    ("carol, bob", "staff, dev"),
    ("'*'", "ops, staff, '*'"),
];

#[derive(Clone, Debug)]
enum Step {
    Life(random::Step),
    Submit {
        app: u8,
        user: usize,
        groups: usize,
        queue: usize,
    },
    /// For each level whom a limit names, if any, and how much more than the least it allows.
    Limits(Vec<Option<(usize, i64)>>),
    /// The resource manager registers again and brings back its allocations, but for one in so many.
    Register {
        loses: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let level = prop::option::of((0..NAMED.len(), 0i64..3));
    prop_oneof![
        14 => random::step().prop_map(Step::Life),
        3 => (0u8..4, 0..USERS.len(), 0..GROUPS.len(), 0..QUEUES.len())
            .prop_map(|(app, user, groups, queue)| Step::Submit { app, user, groups, queue }),
        3 => prop::collection::vec(level, LEVELS.len()).prop_map(Step::Limits),
        1 => (1usize..5).prop_map(|loses| Step::Register { loses }),
    ]
}

/// The configuration with these limits.
fn yaml(limits: &[Option<(usize, i64)>]) -> String {
    let limits: Vec<String> = LEVELS
        .iter()
        .zip(limits)
        .map(|((_, memory, apps), limit)| {
            let Some((named, more)) = limit else { return String::new() };
            let (users, groups) = NAMED[*named];
            // Where nothing more is allowed it is applications alone (UGM-013).
            let max = if *more == 0 { "{}".into() } else { format!("{{memory: {}}}", memory * (1 + more) / 2) };
            format!("limits: [{{limit: some, users: [{users}], groups: [{groups}], maxresources: {max}, maxapplications: {apps}}}]")
        })
        .collect();
    let mut text =
        String::from("partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n");
    let _ = write!(
        text,
        "        {}\n        queues:\n          - name: a\n            {}\n          - name: b\n            {}\n          \
         - name: p\n            parent: true\n            {}\n            queues:\n              - name: f\n                {}\n",
        limits[0], limits[1], limits[2], limits[3], limits[4]
    );
    text
}

fn groups(of: &[&str]) -> Option<Arc<[Arc<str>]>> {
    Some(of.iter().map(|group| Arc::from(*group)).collect())
}

/// Usage at one level, and the applications with an allocation.
type Books = BTreeMap<(Who, Arc<str>, Arc<str>), (Resource, BTreeSet<Arc<str>>)>;

/// For each application with allocations: their numbers and the group that it is charged to.
type Links = BTreeMap<Arc<str>, (BTreeSet<u64>, Option<Arc<str>>)>;

struct Life {
    env: Env,
    links: Links,
}

impl Life {
    fn new() -> Life {
        let mut env = Env::calm(&yaml(&[None; 5])).alone();
        let node = |n: u8| NodeItem {
            id: format!("n{n}").into(),
            action: NodeAction::Create,
            capacity: Some(res(50, 50)),
            attributes: BTreeMap::from([("si/node-partition".to_owned(), "[rm-1]default".to_owned())]),
        };
        env.apply(Command::Nodes((0..3).map(node).collect()));
        Life { env, links: BTreeMap::new() }
    }

    fn apply(&mut self, step: &Step) {
        let env = &mut self.env;
        match step {
            Step::Life(step) => random::run(env, step.clone()),
            Step::Submit { app, user, groups: of, queue } => env.add_app(AddApplication {
                id: format!("app{app}").into(),
                queue: QUEUES[*queue].into(),
                user: USERS[*user].into(),
                groups: groups(GROUPS[*of]),
                ..AddApplication::default()
            }),
            Step::Limits(limits) => {
                let text = yaml(limits);
                let conf = callboard::config::load(&text).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"));
                env.apply(Command::Configure(conf.partitions[0].clone()));
                env.run();
            }
            Step::Register { loses } => self.register(*loses),
        }
        self.check(matches!(step, Step::Limits(_)));
    }

    /// The old session ends; the new one brings nodes, applications and what runs there (R1.8).
    fn register(&mut self, loses: usize) {
        let old = &self.env.partition;
        let nodes: Vec<(Arc<str>, Resource)> = old
            .nodes
            .iter()
            .filter(|node| !node.free)
            .map(|node| (node.spec.id.clone(), node.capacity.clone()))
            .collect();
        let (mut apps, mut allocations) = (Vec::new(), Vec::new());
        for ix in old.app_by_id.values() {
            let app = &old.apps[ix.ix()];
            apps.push(AddApplication {
                id: app.id.clone(),
                queue: app.queue_path.clone(),
                user: app.user.clone(),
                // They may be others by now.
                groups: groups(GROUPS[(app.by_seq.len() + loses) % GROUPS.len()]),
                ..AddApplication::default()
            });
            for row in app.allocs.iter().map(|ix| &old.allocs[ix.ix()]).filter(|row| row.phase == Phase::Allocated) {
                let node = row.node.map(|node| old.nodes[node.ix()].spec.id.clone());
                allocations.push(AllocationItem { app: app.id.clone(), node, spec: row.spec.clone() });
            }
        }
        let mut at = 0;
        allocations.retain(|_| {
            at += 1;
            at % (loses + 1) != 0
        });
        self.env.stop(7);
        assert_eq!(
            self.env.partition.ugm.users().map(|user| user.root.usage).filter(|usage| !usage.is_zero()).count(),
            0
        );
        let conf = self.env.partition.conf.clone();
        let now = self.env.now;
        self.env = Env::calm(&yaml(&[None; 5])).alone();
        self.env.now = now;
        self.env.apply(Command::Configure(conf));
        for (id, capacity) in nodes {
            self.env.node_action(&id, NodeAction::Create, Some(capacity));
        }
        self.env.apply(Command::Applications { new: apps, remove: Vec::new() });
        self.env.apply(Command::Allocations { allocations, releases: Vec::new() });
        self.env.run();
        self.links.clear();
    }

    /// Computed from the allocations alone; `audit()` ran after each command as well.
    fn check(&mut self, configured: bool) {
        let partition = &self.env.partition;
        let mut books = Books::new();
        let mut links = Links::new();
        for ix in partition.app_by_id.values() {
            let app = &partition.apps[ix.ix()];
            let mut usage = Resource::new();
            app.allocs.iter().for_each(|ix| usage.add(&partition.allocs[ix.ix()].resource));
            if app.allocs.is_empty() {
                continue;
            }
            let group = app.track.and_then(|track| partition.ugm.group(track)).cloned();
            // What the shim is still asked about is charged, and no usage yet: refused, it takes the choice with it.
            let there = app.allocs.iter().map(|ix| &partition.allocs[ix.ix()]).filter(|row| row.phase != Phase::Parked);
            let seqs: BTreeSet<u64> = there.map(|row| row.seq).collect();
            // UGM-018, UGM-020: new limits change nothing for what runs.
            if configured
                && let Some((before, linked)) = self.links.get(&app.id)
                && !before.is_disjoint(&seqs)
            {
                assert_eq!(&group, linked, "the group of {}", app.id);
            }
            links.insert(app.id.clone(), (seqs, group.clone()));
            let path = &app.queue_path;
            let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
            for end in ends {
                for (who, name) in [(Who::User, Some(&app.user)), (Who::Group, group.as_ref())] {
                    let Some(name) = name else { continue };
                    let level = books.entry((who, name.clone(), path[..end].into())).or_default();
                    level.0.add(&usage);
                    level.1.insert(app.id.clone());
                }
            }
        }
        self.links = links;
        for (level, (usage, _)) in &mut books {
            usage.prune();
            assert!(!usage.has_negative(), "{level:?} {usage}");
        }
        let mut shown = Books::new();
        partition.ugm.users().for_each(|user| flatten(Who::User, &user.name, &user.root, &mut shown));
        partition.ugm.groups().for_each(|group| flatten(Who::Group, &group.name, &group.root, &mut shown));
        for (level, (usage, running)) in &books {
            let Some((kept, counted)) = shown.get(level) else { panic!("{level:?} is missing, uses {usage}") };
            assert_eq!(kept, usage, "{level:?}");
            // One without allocations may count while asks of it wait (UGM-041).
            assert!(running.is_subset(counted), "{level:?}: {running:?} run, {counted:?} count");
        }
        for (level, (usage, _)) in shown {
            assert!(usage.is_zero() || books.contains_key(&level), "{level:?} uses {usage}, and nothing runs");
        }
    }

    fn end(mut self) {
        let remove = (0..4).map(|app| format!("app{app}").into()).collect();
        self.env.apply(Command::Applications { new: Vec::new(), remove });
        self.env.apply(Command::Configure(
            callboard::config::load(&yaml(&[None; 5])).expect("valid").partitions[0].clone(),
        ));
        assert_eq!((self.env.partition.ugm.users().count(), self.env.partition.ugm.groups().count()), (0, 0));
    }
}

fn flatten(who: Who, name: &Arc<str>, queue: &QueueUsage, books: &mut Books) {
    let applications = queue.applications.iter().cloned().collect();
    books.insert((who, name.clone(), queue.path.clone()), (queue.usage.clone(), applications));
    queue.children.iter().for_each(|child| flatten(who, name, child, books));
}

fn live(seed: u64, cases: u32) {
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&prop::collection::vec(step(), 1..14), |steps| {
        let mut life = Life::new();
        steps.iter().for_each(|step| life.apply(step));
        life.end();
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => panic!("seed {seed}: {why}\nafter {steps:#?}"),
        Err(error) => panic!("seed {seed}: {error}"),
    }
}

// UGM-004, UGM-018 to UGM-024, UGM-040 to UGM-042; section 12 item 7 of the queue rules.
#[test]
fn books_of_users_hold_over_ten_thousand_sequences() {
    let given = std::env::var("CALLBOARD_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seed = given.unwrap_or_else(rand::random);
    // Past the capture of the test harness, so that it is in the log of a run that passed, too.
    let _ =
        writeln!(std::io::stderr(), "books of users: {SEQUENCES} sequences, seeds {seed} and {}", seed.wrapping_add(1));
    let other = std::thread::spawn(move || live(seed.wrapping_add(1), SEQUENCES / 2));
    live(seed, SEQUENCES / 2);
    other.join().expect("the other half, see above");
}
