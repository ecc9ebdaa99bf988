//! What one placement, replacement, resize or release costs does not depend on what application, queue, node, user or
//! group already hold. Counted in rows that were looked at, not in time.

use std::sync::Arc;

use callboard::{
    config::extra::Settings,
    domain::{
        Partition,
        command::{
            AddApplication, AllocationItem, Command, NodeAction, NodeItem, PredicateAnswer, PredicateTerms, ReleaseItem,
        },
        cow::looks,
        effect::{Callback, Effect, Question},
        types::{Nanos, Termination},
    },
    http::ws_v1::{chosen::Chosen, scrape},
};

use super::env::{Ask, QUEUES, res};

/// A partition and what its shim has to answer, without checks of the books, which look at everything.
struct World {
    p: Partition,
    now: Nanos,
    questions: Vec<Question>,
    releases: Vec<ReleaseItem>,
    /// What the shim does not want.
    refuses: fn(&Question) -> bool,
}

impl World {
    fn new(yaml: &str) -> World {
        let conf = callboard::config::load(yaml).expect("valid").partitions[0].clone();
        let now = Nanos::from_secs(1_000_000);
        let p = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, now, &mut Vec::new());
        World { p, now, questions: Vec::new(), releases: Vec::new(), refuses: |_| false }
    }

    /// One node that holds everything, and the shim is asked before each placement or not.
    fn asking(predicates: bool) -> World {
        let mut world = World::new(QUEUES);
        world.node("n1", 1_000_000_000);
        world.apply(Command::PredicateTerms(PredicateTerms { constrained: false, nodes: 1, shared: false }));
        world.apply(Command::AskPredicates(predicates));
        world
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask(question) => self.questions.push(question),
                Effect::Callback(Callback::Released(r)) if r.confirm => {
                    self.releases.push(ReleaseItem { app: r.app, key: r.key, termination: r.termination });
                }
                _ => {}
            }
        }
    }

    fn apply(&mut self, command: Command) {
        let mut effects = Vec::new();
        self.p.apply(command, self.now, &mut effects);
        self.take(effects);
    }

    /// Schedules and answers until nothing more happens.
    fn run(&mut self) {
        loop {
            let mut effects = Vec::new();
            while self.p.schedule_at_once(64, self.now, &mut effects) > 0 {}
            self.take(effects);
            if self.questions.is_empty() {
                return;
            }
            for question in std::mem::take(&mut self.questions) {
                let result = if (self.refuses)(&question) { Err("no".into()) } else { Ok(()) };
                let answer = PredicateAnswer { question: question.id, result, index: 0, refused: Vec::new() };
                self.apply(Command::Predicate(answer));
            }
        }
    }

    fn node(&mut self, id: &str, size: i64) {
        let (id, action, attributes) = (id.into(), NodeAction::Create, Default::default());
        self.apply(Command::Nodes(vec![NodeItem { id, action, capacity: Some(res(size, size)), attributes }]));
    }

    fn app(&mut self, id: &str, user: &str, gang: Option<i64>) {
        let app = AddApplication {
            id: id.into(),
            queue: "root.a".into(),
            user: user.into(),
            groups: Some([Arc::from("staff")].into()),
            placeholder_ask: gang.map(|size| res(size, size)),
            ..AddApplication::default()
        };
        self.apply(Command::Applications { new: vec![app], remove: Vec::new() });
    }

    fn ask(&mut self, ask: Ask) {
        let item = AllocationItem { app: ask.app, node: ask.node, spec: Arc::new(ask.spec) };
        self.apply(Command::Allocations { allocations: vec![item], releases: Vec::new() });
    }

    fn release(&mut self, app: &str, key: &str, termination: Termination) {
        let releases = vec![ReleaseItem { app: app.into(), key: key.into(), termination }];
        self.apply(Command::Allocations { allocations: Vec::new(), releases });
    }

    /// The shim confirms what it was asked to release, one request each.
    fn confirm(&mut self) {
        for release in std::mem::take(&mut self.releases) {
            self.apply(Command::Allocations { allocations: Vec::new(), releases: vec![release] });
            self.run();
        }
    }
}

/// Rows that were looked at.
fn looked(work: impl FnOnce()) -> u64 {
    let before = looks::count();
    work();
    looks::count() - before
}

/// `work` does its steps with so many things there and gives what each step looked at; with ten times as many each may look at a
/// third more, for trees that are deeper and batches that are larger.
fn constant(what: &str, work: impl Fn(usize) -> Vec<(&'static str, u64)>) {
    let (few, many) = (work(60), work(600));
    for ((step, few), (_, many)) in few.into_iter().zip(many) {
        let (few, many) = (few / 60, many / 600);
        assert!(many <= few + few / 3 + 5, "{what}: {step} looks at {few} rows where there are 60, at {many} of 600");
    }
}

#[test]
fn an_application_that_holds_much() {
    for predicates in [false, true] {
        constant(if predicates { "with predicates" } else { "without" }, |n| {
            let mut world = World::asking(predicates);
            world.app("app-1", "alice", None);
            (0..n).for_each(|i| world.ask(Ask::new("app-1", &format!("k{i}"), 1)));
            let placed = looked(|| world.run());
            assert_eq!(world.p.allocations, n as u64);
            let resized = looked(|| (0..n).for_each(|i| world.ask(Ask::new("app-1", &format!("k{i}"), 2))));
            let stopped = Termination::StoppedByRm;
            let released = looked(|| (0..n).for_each(|i| world.release("app-1", &format!("k{i}"), stopped)));
            assert_eq!(world.p.allocations, 0);
            vec![("a placement", placed), ("a resize", resized), ("a release", released)]
        });
    }
}

#[test]
fn the_peak_leaves_out_what_the_shim_is_asked_about() {
    // R4.14, `maxUsedResource`: 256 are asked about at a time, and count when they are placed.
    let mut world = World::asking(true);
    world.app("app-1", "alice", None);
    (0..10).for_each(|i| world.ask(Ask::new("app-1", &format!("k{i}"), 1)));
    let mut effects = Vec::new();
    world.p.schedule_at_once(64, world.now, &mut effects);
    world.take(effects);
    assert_eq!(world.questions.len(), 10);
    let question = world.questions.pop().expect("asked");
    world.apply(Command::Predicate(PredicateAnswer {
        question: question.id,
        result: Ok(()),
        index: 0,
        refused: Vec::new(),
    }));
    let app = world.p.app_by_id["app-1"];
    let charged = world.p.queues[world.p.root].allocated();
    assert_eq!((&**charged, &*world.p.apps[app].max_used), (&res(10, 10), &res(1, 1)));
    assert!(world.p.audit().is_empty(), "{:?}", world.p.audit());
}

/// Rows that are looked at while so many asks are refused on as many nodes, one after the other, four nodes in a question.
fn refused_everywhere(n: usize) -> u64 {
    let mut world = World::new(QUEUES);
    (0..n).for_each(|i| world.node(&format!("n{i}"), 1_000));
    world.apply(Command::PredicateTerms(PredicateTerms { constrained: true, nodes: 4, shared: false }));
    world.apply(Command::AskPredicates(true));
    world.app("app-1", "alice", None);
    (0..n).for_each(|i| world.ask(Ask::new("app-1", &format!("k{i}"), 1)));
    let mut asked = 0;
    let looks = looked(|| {
        loop {
            let mut effects = Vec::new();
            while world.p.schedule_at_once(64, world.now, &mut effects) > 0 {}
            world.take(effects);
            let Some(question) = world.questions.pop() else { break };
            asked += question.nodes();
            let (question, refused) = (question.id, vec!["tainted".into(); question.more.len()]);
            let result = Err("tainted".into());
            world.apply(Command::Predicate(PredicateAnswer { question, result, index: 0, refused }));
        }
    });
    assert_eq!(asked, n * n, "each ask was refused once on each node");
    looks
}

#[test]
fn asks_that_are_refused_on_every_node() {
    // What comes back from a question is no room for those that were refused there: three times as many of both make nine times as
    // many questions, each of which looks at three times as many asks and nodes, and not at every node for every ask.
    let (few, many) = (refused_everywhere(30), refused_everywhere(90));
    assert!(many < 35 * few, "{few} rows with 30 asks and nodes, {many} with 90");
}

#[test]
fn a_gang_of_many() {
    for predicates in [false, true] {
        constant(if predicates { "a gang with predicates" } else { "a gang" }, |n| {
            let mut world = World::asking(predicates);
            world.app("app-1", "alice", Some(n as i64));
            for i in 0..n {
                world.ask(Ask::new("app-1", &format!("r{i}"), 1).group("tg"));
                world.ask(Ask::new("app-1", &format!("p{i}"), 1).placeholder("tg"));
            }
            let begun = looked(|| world.run());
            assert_eq!((world.p.placeholders, world.releases.len()), (n as u64, n));
            let confirmed = looked(|| world.confirm());
            assert_eq!((world.p.placeholders, world.p.allocations), (0, n as u64));
            vec![("a placeholder and its replacement", begun), ("a confirmation", confirmed)]
        });
    }
}

#[test]
fn a_gang_of_many_sizes_that_may_preempt_and_has_no_room() {
    // R7.4, SEEDS S11: whether all of its placeholders may is found once for all of them.
    constant("a gang that waits for room", |n| {
        let total: i64 = (1..=n as i64).sum();
        let queue = format!(
            "- name: a\n            resources: {{max: {{memory: {total}}}, guaranteed: {{memory: 1}}}}\n            \
             properties: {{preemption.delay: 1s}}\n"
        );
        let mut world = World::new(&QUEUES.replace("- name: a\n", &queue));
        world.node("n1", 2 * total);
        world.app("app-1", "alice", None);
        world.ask(Ask::new("app-1", "k", 1));
        world.app("gang", "alice", Some(total));
        for i in 1..=n {
            world.ask(Ask::new("gang", &format!("p{i}"), i as i64).placeholder("tg").preempts());
        }
        world.run();
        world.now = world.now.plus(Nanos::from_secs(2));
        let tried = looked(|| {
            while world.p.is_due(world.now) {
                world.apply(Command::Tick);
            }
            world.run();
        });
        assert_eq!((world.p.allocations, world.p.placeholders), (1, 0));
        vec![("an ask", tried)]
    });
}

#[test]
fn a_gang_of_many_sizes_that_is_held_back_as_a_whole() {
    // SEEDS S11: what it lacks is found once for all of its placeholders, each of which is told.
    constant("a gang that is told what it lacks", |n| {
        let total: i64 = (1..=n as i64).sum();
        let queue = format!(
            "- name: a\n            resources: {{max: {{memory: {total}}}}}\n            \
             properties: {{gang.admission: atomic}}\n"
        );
        let mut world = World::new(&QUEUES.replace("- name: a\n", &queue));
        world.node("n1", 2 * total);
        world.app("app-1", "alice", None);
        world.ask(Ask::new("app-1", "k", 1));
        world.run();
        world.app("gang", "alice", Some(total));
        for i in 1..=n {
            world.ask(Ask::new("gang", &format!("p{i}"), i as i64).placeholder("tg"));
        }
        let told = looked(|| world.run());
        assert_eq!((world.p.allocations, world.p.placeholders), (1, 0));
        vec![("an ask", told)]
    });
}

#[test]
fn gangs_whose_homes_are_refused() {
    // R6.10: nodes without room for them change nothing, and each looks for a node once where there is room for all.
    constant("gangs that go elsewhere", |n| {
        let mut world = World::new(QUEUES);
        world.node("n1", 4 * n as i64);
        world.apply(Command::PredicateTerms(PredicateTerms { constrained: false, nodes: 1, shared: false }));
        world.apply(Command::AskPredicates(true));
        world.refuses = |question| question.key.starts_with('r') && &*question.node == "n1";
        for i in 0..n {
            let app = format!("app-{i}");
            world.app(&app, "alice", Some(4));
            world.ask(Ask::new(&app, &format!("p{i}"), 4).placeholder("tg"));
            world.run();
            world.ask(Ask::new(&app, &format!("r{i}"), 4).group("tg"));
        }
        world.run();
        let small = looked(|| {
            for i in 0..n {
                world.node(&format!("small-{i}"), 3);
                world.run();
            }
        });
        assert_eq!(world.releases.len(), 0);
        let begun = looked(|| {
            world.node("n2", 4 * n as i64);
            world.run();
        });
        assert_eq!(world.releases.len(), n);
        vec![("a node without room", small), ("a replacement", begun)]
    });
}

#[test]
fn many_asks_with_reservations_for_which_there_is_room_at_once() {
    // R5.30
    constant("asks with reservations", |n| {
        let mut world = World::new(QUEUES);
        world.node("large", 1_000_000);
        world.app("full", "alice", None);
        for i in 0..n {
            let (app, node) = (format!("app-{}", i % 50), format!("n{i}"));
            world.node(&node, 4);
            world.ask(Ask::new("full", &format!("f{i}"), 4).on(&node));
            world.app(&app, "alice", None);
            world.ask(Ask::new(&app, &format!("k{i}"), 2).requires(&node));
        }
        world.run();
        assert_eq!((world.p.reservations, world.p.allocations), (n as u64, n as u64));
        let all = ReleaseItem { app: "full".into(), key: "".into(), termination: Termination::StoppedByRm };
        world.apply(Command::Allocations { allocations: Vec::new(), releases: vec![all] });
        let placed = looked(|| world.run());
        assert_eq!(world.p.allocations, n as u64);
        vec![("a placement", placed)]
    });
}

#[test]
fn a_gang_whose_time_is_over() {
    for predicates in [false, true] {
        constant(if predicates { "a time-out with predicates" } else { "a time-out" }, |n| {
            let mut world = World::asking(predicates);
            world.app("app-1", "alice", Some(2 * n as i64));
            (0..n).for_each(|i| world.ask(Ask::new("app-1", &format!("p{i}"), 1).placeholder("tg")));
            // One that fits nowhere: the gang is never complete, and its real asks wait.
            world.ask(Ask::new("app-1", "huge", 2_000_000_000).placeholder("tg"));
            (0..n).for_each(|i| world.ask(Ask::new("app-1", &format!("r{i}"), 1).group("tg")));
            world.run();
            world.now = world.now.plus(Nanos::from_secs(3_600));
            let over = looked(|| world.apply(Command::Tick));
            assert_eq!(world.releases.len(), n);
            let confirmed = looked(|| world.confirm());
            vec![("a time-out", over), ("its confirmation", confirmed)]
        });
    }
}

#[test]
fn gangs_that_begin_beside_others() {
    // SEEDS S11: what all of them still wait for counts in each queue with a max.
    let limited = QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 1000000000}}\n");
    constant("gangs in one queue", |n| {
        let mut world = World::new(&limited);
        world.node("n1", 1_000);
        world.apply(Command::Reservations(false));
        for i in 0..n {
            let app = format!("app-{i}");
            world.app(&app, "alice", Some(1_001));
            world.ask(Ask::new(&app, "p1", 1).placeholder("tg"));
            world.ask(Ask::new(&app, "p2", 1_000).placeholder("tg"));
        }
        let begun = looked(|| world.run());
        assert_eq!(world.p.placeholders, n as u64);
        vec![("a beginning", begun)]
    });
}

#[test]
fn real_asks_of_many_sizes_and_of_many_nodes() {
    constant("replacements", |n| {
        let mut world = World::asking(false);
        (0..n).for_each(|i| world.node(&format!("m{i}"), 1_000));
        world.app("app-1", "alice", Some(2_000 * n as i64));
        world.app("app-2", "alice", Some(n as i64));
        for i in 0..n {
            world.ask(Ask::new("app-1", &format!("p{i}"), 2_000).placeholder("tg"));
            world.ask(Ask::new("app-2", &format!("p{i}"), 1).placeholder("tg").requires(&format!("m{i}")));
        }
        world.run();
        let (mut sizes, mut nodes) = (0, 0);
        for i in (0..n).rev() {
            world.ask(Ask::new("app-1", &format!("r{i}"), 1 + i as i64).group("tg"));
            sizes += looked(|| world.run());
            world.ask(Ask::new("app-2", &format!("r{i}"), 1).group("tg").requires(&format!("m{i}")));
            nodes += looked(|| world.run());
        }
        assert_eq!(world.releases.len(), 2 * n);
        let confirmed = looked(|| world.confirm());
        vec![("one of another size", sizes), ("one that requires its node", nodes), ("a confirmation", confirmed)]
    });
}

#[test]
fn a_user_and_a_node_with_many_applications() {
    constant("applications of one user", |n| {
        let mut world = World::asking(false);
        for i in 0..n {
            world.app(&format!("app-{i}"), "alice", None);
            world.ask(Ask::new(&format!("app-{i}"), "k", 1));
        }
        let placed = looked(|| world.run());
        assert_eq!(world.p.allocations, n as u64);
        // A node comes or grows: nothing of applications depends on the size of the cluster here.
        let grown = looked(|| (0..n).for_each(|i| world.node(&format!("m{i}"), 10)));
        let stopped = Termination::StoppedByRm;
        let released = looked(|| (0..n).for_each(|i| world.release(&format!("app-{i}"), "k", stopped)));
        vec![("a placement", placed), ("a node that comes", grown), ("a release", released)]
    });
}

#[test]
fn a_scrape_of_many_applications() {
    // What metrics show is counted where it changes: no application is looked at.
    let scraped = |n: usize| {
        let mut world = World::asking(false);
        for i in 0..n {
            world.app(&format!("app-{i}"), "alice", None);
            world.ask(Ask::new(&format!("app-{i}"), "k", 1));
        }
        world.run();
        let mut shown = Default::default();
        let looks = looked(|| shown = scrape::gauges(&[Arc::new(world.p.tables())], &Chosen::of(&Settings::default())));
        assert_eq!(shown.applications, [("running", n as i64)].into());
        let leaf = shown.queues.iter().find(|queue| queue.path == "root.a").expect("shown");
        assert_eq!(leaf.applications, [("running", n as i64)].into());
        looks
    };
    assert_eq!(scraped(60), scraped(600));
}

#[test]
fn asks_that_require_the_nodes_that_come() {
    constant("required nodes", |n| {
        let mut world = World::asking(false);
        for i in 0..n {
            world.app(&format!("app-{i}"), "alice", None);
            world.ask(Ask::new(&format!("app-{i}"), "k", 1).requires(&format!("m{i}")));
        }
        world.run();
        let placed = looked(|| {
            for i in 0..n {
                world.node(&format!("m{i}"), 10);
                world.run();
            }
        });
        assert_eq!(world.p.allocations, n as u64);
        vec![("a node and what required it", placed)]
    });
}

#[test]
fn asks_that_preempt() {
    // R7.4: each tries once, whoever else waits beside it.
    let yaml = "partitions:\n  - name: default\n    preemption: {enabled: true}\n    queues:\n      - name: root\n        submitacl: \"*\"\n        queues:\n          - {name: a}\n          - {name: b, resources: {guaranteed: {memory: 100000}}, properties: {preemption.delay: 1s}}\n";
    constant("preemption", |n| {
        let mut world = World::new(yaml);
        world.apply(Command::Reservations(false));
        (0..n).for_each(|i| world.node(&format!("m{i}"), 10));
        world.app("low", "alice", None);
        (0..n).for_each(|i| world.ask(Ask::new("low", &format!("k{i}"), 10)));
        world.run();
        let high =
            AddApplication { id: "high".into(), queue: "root.b".into(), user: "bob".into(), ..Default::default() };
        world.apply(Command::Applications { new: vec![high], remove: Vec::new() });
        let mut ask = |i| {
            world.ask(Ask::new("high", &format!("h{i}"), 10).priority(5).preempts());
        };
        (0..n).for_each(&mut ask);
        world.run();
        world.now = world.now.plus(Nanos::from_secs(2));
        world.apply(Command::Tick);
        let decided = looked(|| world.run());
        assert_eq!(world.releases.len(), n);
        let confirmed = looked(|| world.confirm());
        assert_eq!(world.p.allocations, n as u64);
        vec![("a decision", decided), ("a confirmation", confirmed)]
    });
}

#[test]
fn thousands_that_require_one_full_node_need_no_deep_stack() {
    // R5.40, R2.28: the first of them reserve it.
    let mut world = World::new(QUEUES);
    world.node("n1", 1);
    world.app("app-1", "alice", None);
    world.ask(Ask::new("app-1", "first", 1));
    world.run();
    world.node("n2", 1_000_000);
    let asks = (0..5_000).map(|i| Ask::new("app-1", &format!("k{i}"), 1).requires("n1"));
    let allocations = asks.map(|ask| AllocationItem { app: ask.app, node: None, spec: Arc::new(ask.spec) }).collect();
    world.apply(Command::Allocations { allocations, releases: Vec::new() });
    world.run();
    assert_eq!(world.p.reservations, 64);
}

#[test]
fn what_is_released_on_a_node_that_many_require() {
    // R5.30, R5.43: the first of a group are looked at, and as one is placed the next reserves.
    constant("required by many", |n| {
        let mut world = World::new(QUEUES);
        world.node("n1", 10);
        world.node("n2", 1_000_000);
        world.app("full", "alice", None);
        (0..10).for_each(|i| world.ask(Ask::new("full", &format!("f{i}"), 1).on("n1")));
        world.app("app-1", "alice", None);
        (0..10 * n).for_each(|i| world.ask(Ask::new("app-1", &format!("k{i}"), 2).requires("n1")));
        world.run();
        let freed = looked(|| {
            for i in 0..10 {
                world.release("full", &format!("f{i}"), Termination::StoppedByRm);
                world.run();
            }
        });
        assert_eq!((world.p.allocations, world.p.reservations), (5, 64));
        // All are placed in their order.
        let rest = looked(|| {
            for i in 0..10 * n {
                world.release("app-1", &format!("k{i}"), Termination::StoppedByRm);
                world.run();
            }
        });
        assert_eq!((world.p.allocations, world.p.reservations), (0, 0));
        vec![("ten releases", freed * n as u64), ("one in turn", rest)]
    });
}

/// Applications that ask for one each, of one user or of three by turns.
fn crowd(world: &mut World, kind: &str, n: usize) {
    for i in 0..n + 100 {
        let (id, user) = (format!("app-{i:05}"), if kind == "users" { format!("u{}", i % 3) } else { "alice".into() });
        world.app(&id, &user, None);
        world.ask(Ask::new(&id, &format!("k{i:05}"), 1));
    }
    world.run();
}

#[test]
fn applications_that_wait_for_a_limit_cost_nobody_anything() {
    // R5.10, R5.23, R5.24: what is released or placed costs as much with ten times as many that wait, for whatever limit, in the same
    // queue and in another one.
    for (kind, limits) in [
        ("queue", "resources: {max: {memory: 10}}"),
        ("user", "limits: [{limit: l, users: ['*'], maxresources: {memory: 10}}]"),
        ("users", "limits: [{limit: l, users: ['*'], maxresources: {memory: 10}}]"),
        ("group", "limits: [{limit: l, groups: [staff], maxresources: {memory: 10}}]"),
        ("running", "maxapplications: 10"),
        ("user runs", "limits: [{limit: l, users: ['*'], maxapplications: 10}]"),
        ("cluster", "parent: false"),
    ] {
        for predicates in [false, true] {
            let yaml = QUEUES.replace("- name: a\n", &format!("- name: a\n            {limits}\n"));
            constant(&format!("applications that wait for a limit: {kind}, {predicates}"), |n| {
                let mut world = World::new(&yaml);
                world.node("n1", if kind == "cluster" { 10 } else { 1_000_000 });
                world.apply(Command::PredicateTerms(PredicateTerms { constrained: false, nodes: 1, shared: false }));
                world.apply(Command::AskPredicates(predicates));
                crowd(&mut world, kind, n);
                let most = if kind == "users" { 30 } else { 10 };
                assert_eq!(world.p.allocations, most, "{kind} {predicates} {n}");
                // Once each of them is looked at again.
                world.release("app-00000", "k00000", Termination::StoppedByRm);
                world.run();
                let freed = looked(|| {
                    for i in 1..=60 {
                        let (app, key) = (format!("app-{i:05}"), format!("k{i:05}"));
                        world.release(&app, &key, Termination::StoppedByRm);
                        world.run();
                    }
                });
                assert_eq!(world.p.allocations, most, "{kind} {predicates} {n}");
                let other = AddApplication {
                    id: "other".into(),
                    queue: "root.b".into(),
                    user: "bob".into(),
                    ..AddApplication::default()
                };
                world.apply(Command::Applications { new: vec![other], remove: Vec::new() });
                let beside = looked(|| {
                    for i in 0..60 {
                        world.ask(Ask::new("other", &format!("o{i:05}"), 1));
                        world.run();
                        world.release("other", &format!("o{i:05}"), Termination::StoppedByRm);
                        world.run();
                    }
                });
                // `constant` divides by what there is.
                let times = |looks: u64| looks * n as u64 / 60;
                vec![("a release", times(freed)), ("one of another queue", times(beside))]
            });
        }
    }
}

#[test]
fn users_that_wait_for_limits_of_their_own_cost_each_other_nothing() {
    // R5.23: each user has one running and one that waits for it.
    let limits = "limits: [{limit: l, users: ['*'], maxresources: {memory: 1}}]";
    let yaml = QUEUES.replace("- name: a\n", &format!("- name: a\n            {limits}\n"));
    constant("users at their limits", |n| {
        let mut world = World::new(&yaml);
        world.node("n1", 1_000_000);
        for i in 0..n + 100 {
            world.app(&format!("app-{i:05}"), &format!("u{i:05}"), None);
            for key in 0..3 {
                world.ask(Ask::new(&format!("app-{i:05}"), &format!("k{key}"), 1));
            }
        }
        world.run();
        assert_eq!(world.p.allocations, n as u64 + 100);
        world.release("app-00000", "k0", Termination::StoppedByRm);
        world.run();
        let freed = looked(|| {
            for i in 1..=60 {
                world.release(&format!("app-{i:05}"), "k0", Termination::StoppedByRm);
                world.run();
            }
        });
        assert_eq!(world.p.allocations, n as u64 + 100);
        // `constant` divides by what there is.
        vec![("a release", freed * n as u64 / 60)]
    });
}

#[test]
fn users_that_wait_for_the_limit_of_their_group_cost_each_other_nothing() {
    // R5.23, UGM-030: each has one application, and the next in line gets what is released, also where a limit of its own held it back
    // as well.
    for (what, limits) in [
        ("resources", "{groups: [staff], maxresources: {memory: 10}}"),
        ("to run", "{groups: [staff], maxapplications: 10}"),
        ("of any group", "{groups: [other], maxresources: {memory: 1}}, {groups: ['*'], maxresources: {memory: 10}}"),
        ("and of its user", "{groups: [staff], maxresources: {memory: 10}}, {users: ['*'], maxapplications: 1}"),
        (
            "named",
            "{groups: [staff], maxresources: {memory: 10}}, {users: [u00003, u00070], maxresources: {memory: 1}}",
        ),
    ] {
        let limits = limits.replace("{groups", "{limit: l, groups").replace("{users", "{limit: l, users");
        let yaml = QUEUES.replace("- name: a\n", &format!("- name: a\n            limits: [{limits}]\n"));
        constant(&format!("users of a group at its limit: {what}"), |n| {
            let mut world = World::new(&yaml);
            world.node("n1", 1_000_000);
            let name = |i: usize| format!("app-{i:05}");
            for i in 0..n + 100 {
                world.app(&name(i), &format!("u{i:05}"), None);
                world.ask(Ask::new(&name(i), &format!("k{i:05}"), 1));
            }
            world.run();
            // Those that a limit names are not held to that of their group (SEEDS S29).
            let running = |world: &World, upto: usize| {
                let held = |i: &usize| {
                    let app = world.p.app_by_id.get(&*name(*i)).map(|app| &world.p.apps[*app]);
                    app.is_some_and(|app| !app.placed()[0].is_empty())
                };
                (0..upto).filter(held).count()
            };
            let ahead = u64::from(what == "named");
            assert_eq!((running(&world, 10), world.p.allocations), (10, 10 + ahead), "{what}");
            world.release("app-00000", "k00000", Termination::StoppedByRm);
            world.run();
            let freed = looked(|| {
                for i in 1..=60 {
                    world.release(&name(i), &format!("k{i:05}"), Termination::StoppedByRm);
                    world.run();
                }
            });
            assert_eq!((world.p.allocations, running(&world, 71)), (10, 10), "{what}");
            assert!(world.p.audit().is_empty(), "{:?}", world.p.audit());
            vec![("a release", freed * n as u64 / 60)]
        });
    }
}

#[test]
fn users_that_wait_while_their_group_has_room_cost_each_other_nothing() {
    // R5.23, UGM-030: more is released than is placed meanwhile, and those that wait were not looked at before there was room.
    for (what, limit) in [("resources", "maxresources: {memory: MOST}"), ("to run", "maxapplications: MOST")] {
        constant(&format!("users of a group that has room: {what}"), |n| {
            let limit = limit.replace("MOST", &(2 * n).to_string());
            let limits = format!("limits: [{{limit: l, groups: [staff], {limit}}}]");
            let mut world = World::new(&QUEUES.replace("- name: a\n", &format!("- name: a\n            {limits}\n")));
            world.node("n1", 1_000_000);
            let name = |i: usize| format!("app-{i:05}");
            for i in 0..4 * n {
                world.app(&name(i), &format!("u{i:05}"), None);
                world.ask(Ask::new(&name(i), &format!("k{i:05}"), 1));
            }
            world.run();
            assert_eq!(world.p.allocations, 2 * n as u64, "{what}");
            let freed = looked(|| {
                for i in (0..2 * n).step_by(2) {
                    for i in [i, i + 1] {
                        world.release(&name(i), &format!("k{i:05}"), Termination::StoppedByRm);
                    }
                    let mut effects = Vec::new();
                    world.p.schedule_at_once(1, world.now, &mut effects);
                    world.take(effects);
                }
                world.run();
            });
            assert_eq!(world.p.allocations, 2 * n as u64, "{what}");
            assert!(world.p.audit().is_empty(), "{:?}", world.p.audit());
            vec![("a release", freed)]
        });
    }
}

#[test]
fn asks_that_wait_for_nodes_cost_nobody_anything() {
    // R5.24, R5.27: no node has room for them, though the cluster has. What is released makes room for one of them, and costs as much
    // with ten times as many that wait: in as many applications, of one size or of 40.
    for sizes in [1, 40] {
        constant(&format!("applications that wait for nodes: {sizes}"), |n| {
            let mut world = World::new(QUEUES);
            for i in 0..70 {
                world.node(&format!("m{i:02}"), 100);
            }
            world.app("first", "alice", None);
            (0..70).for_each(|i| world.ask(Ask::new("first", &format!("r{i:02}"), 90)));
            world.run();
            assert_eq!(world.p.allocations, 70);
            for i in 0..n + 100 {
                let id = format!("app-{i:05}");
                world.app(&id, "alice", None);
                world.ask(Ask::new(&id, &format!("k{i:05}"), 60 + (i % sizes) as i64));
            }
            world.run();
            // Once each of them is looked at again.
            world.release("first", "r69", Termination::StoppedByRm);
            world.run();
            let freed = looked(|| {
                for i in 0..60 {
                    world.release("first", &format!("r{i:02}"), Termination::StoppedByRm);
                    world.run();
                }
            });
            assert_eq!(world.p.allocations, 70);
            assert!(world.p.audit().is_empty(), "{:?}", world.p.audit());
            vec![("a release", freed * n as u64 / 60)]
        });
    }
}

#[test]
fn asks_of_many_sizes_that_require_one_full_node() {
    constant("asks that wait for one node", |n| {
        let (mut world, all) = (World::asking(false), 1_000_000_000);
        let wait = |world: &mut World, app: &str| {
            world.app(app, "alice", None);
            (0..n).for_each(|i| world.ask(Ask::new(app, &format!("k{i}"), 10 + i as i64).requires("n1")));
        };
        world.app("full", "alice", None);
        world.ask(Ask::new("full", "full", all - 1).requires("n1"));
        world.run();
        wait(&mut world, "app-1");
        let parked = looked(|| world.run());
        assert_eq!(world.p.nodes.values().map(|node| node.reservations.len()).sum::<usize>(), n);
        let one = |world: &mut World, i| {
            world.release("app-1", &format!("k{i}"), Termination::StoppedByRm);
            world.run();
        };
        let withdrawn = looked(|| (0..n / 2).for_each(|i| one(&mut world, i)));
        let gone = looked(|| {
            world.apply(Command::Applications { new: Vec::new(), remove: vec!["app-1".into()] });
            world.run();
        });
        wait(&mut world, "app-2");
        world.run();
        let node = looked(|| {
            let (id, action, attributes) = ("n1".into(), NodeAction::Decommission, Default::default());
            world.apply(Command::Nodes(vec![NodeItem { id, action, capacity: None, attributes }]));
            world.run();
        });
        assert!(world.p.nodes.values().all(|node| node.reservations.is_empty()));
        vec![("to park one", parked), ("to withdraw one", withdrawn), ("one's application", gone), ("one's node", node)]
    });
}
