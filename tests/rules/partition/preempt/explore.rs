//! Every order of events in small closed worlds: three queues with an application each, two nodes. Between any two
//! decisions any victim may be confirmed, and any that went may come back. The measure of the module's documentation is
//! computed before and after each step: nothing lowers it and each preemption raises it, so no order of events goes on for ever.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use callboard::domain::{
    Partition,
    alloc::{AskSpec, Phase},
    command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
    effect::{Callback, Effect},
    log::Step,
    types::{Nanos, Termination},
};

use super::{
    super::{
        env::{Ask, res},
        twin,
    },
    closed::measure,
    tree,
};

/// Each event takes so long that no delay holds anything back.
const STEP: Nanos = Nanos::from_secs(16);

#[derive(Clone)]
struct World {
    partition: Partition,
    now: Nanos,
    /// Victims that are not confirmed: application and key.
    open: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Those that went and will be back.
    gone: Vec<(Arc<str>, Arc<AskSpec>)>,
    idle: bool,
}

impl World {
    fn new(yaml: &str, nodes: [i64; 2]) -> World {
        let conf = callboard::config::load(yaml).expect("a valid configuration").partitions[0].clone();
        let now = Nanos::from_secs(1_000_000);
        let partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, now, &mut Vec::new());
        let mut world = World { partition, now, open: BTreeSet::new(), gone: Vec::new(), idle: false };
        let node = |(n, size): (usize, i64)| NodeItem {
            id: format!("n{n}").into(),
            action: NodeAction::Create,
            capacity: Some(res(size, size)),
            attributes: Default::default(),
        };
        world.apply(Command::Nodes(nodes.into_iter().enumerate().map(node).collect()));
        world
    }

    fn apply(&mut self, command: Command) -> bool {
        let mut effects = Vec::new();
        self.partition.apply(command, self.now, &mut effects);
        self.idle = false;
        self.take(&effects)
    }

    /// True where something was preempted.
    fn take(&mut self, effects: &[Effect]) -> bool {
        let before = self.open.len();
        for effect in effects {
            if let Effect::Callback(Callback::Released(release)) = effect
                && release.termination == Termination::Preempted
            {
                self.open.insert((release.app.clone(), release.key.clone()));
            }
        }
        self.open.len() > before
    }

    fn ask(&mut self, asks: Vec<Ask>) {
        let item = |ask: Ask| AllocationItem { app: ask.app, node: None, spec: Arc::new(ask.spec) };
        let allocations = asks.into_iter().map(item).collect();
        self.apply(Command::Allocations { allocations, releases: Vec::new() });
    }

    /// One decision, after so long.
    fn decide(&mut self, step: Nanos) -> bool {
        self.now = self.now.plus(step);
        self.apply(Command::Tick);
        let mut effects = Vec::new();
        // Now and then beside one that is read from its snapshot.
        let beside = self.now.0 / STEP.0 % 5 == 0;
        let partition = &mut self.partition;
        let done = loop {
            let step = Step { at: self.now, input: twin::schedule(1) };
            let done =
                if beside { twin::step(partition, step, &mut effects) } else { partition.replay(step, &mut effects) };
            if done.made > 0 || !done.cut {
                break done;
            }
        };
        self.idle = done.made == 0;
        self.take(&effects)
    }

    fn confirm(&mut self, app: &Arc<str>, key: &Arc<str>) {
        let spec = self.partition.alloc(app, key).expect("a row").spec.clone();
        self.open.remove(&(app.clone(), key.clone()));
        self.gone.push((app.clone(), spec));
        let releases = vec![ReleaseItem { app: app.clone(), key: key.clone(), termination: Termination::Preempted }];
        self.apply(Command::Allocations { allocations: Vec::new(), releases });
    }

    fn come_back(&mut self, at: usize) {
        let (app, spec) = self.gone.remove(at);
        let mut spec = (*spec).clone();
        spec.created = None;
        let item = AllocationItem { app, node: None, spec: Arc::new(spec) };
        self.apply(Command::Allocations { allocations: vec![item], releases: Vec::new() });
    }

    /// What may happen next; true where it preempts.
    fn next(&self) -> Vec<(World, bool)> {
        let mut next = Vec::new();
        if !self.idle {
            let mut world = self.clone();
            let preempted = world.decide(STEP);
            next.push((world, preempted));
        }
        for (app, key) in &self.open {
            let mut world = self.clone();
            world.confirm(app, key);
            next.push((world, false));
        }
        for at in 0..self.gone.len() {
            let mut world = self.clone();
            world.come_back(at);
            next.push((world, false));
        }
        next
    }

    /// What makes two states the same for all that may follow: everything in order of age.
    fn print(&self) -> String {
        let mut rows: Vec<_> = self.partition.allocs.values().collect();
        rows.sort_unstable_by_key(|row| row.seq);
        let mut text = format!("{}", self.idle);
        for row in rows {
            let (node, reserved) = (row.node.map(|n| n.0), row.reserved.map(|n| n.0));
            let claims = row.triggered_preemption;
            let _ = write!(text, ";{} {:?} {node:?} {reserved:?} {} {claims}", row.spec.key, row.phase, row.preempted);
        }
        for (_, spec) in &self.gone {
            let _ = write!(text, "-{}", spec.key);
        }
        text
    }

    /// No ask for which something was preempted waits, once nothing more is to come.
    fn check_rest(&self) {
        if self.idle && self.open.is_empty() && self.gone.is_empty() {
            let promised = |row: &&callboard::domain::alloc::Alloc| {
                !row.is_free() && row.phase == Phase::Pending && row.reserved.is_some() && row.triggered_preemption
            };
            let waiting = self.partition.allocs.values().find(promised);
            assert!(waiting.is_none(), "preempted for, and not placed: {}", self.print());
        }
    }
}

/// Goes through every state that can be reached: their number, and how many of the steps between them preempt.
fn explore(first: World) -> (usize, usize) {
    let mut seen: BTreeSet<String> = BTreeSet::from([first.print()]);
    let mut open = vec![first];
    let mut preemptions = 0;
    while let Some(world) = open.pop() {
        world.check_rest();
        let before = measure(&world.partition);
        for (next, preempted) in world.next() {
            let after = measure(&next.partition);
            assert!(after >= before, "{before:?} became {after:?}: {} -> {}", world.print(), next.print());
            assert!(!preempted || after > before, "a preemption left {before:?} as it was: {}", next.print());
            preemptions += usize::from(preempted);
            if seen.insert(next.print()) {
                assert!(next.partition.audit().is_empty(), "{:#?}", next.partition.audit());
                open.push(next);
            }
        }
    }
    (seen.len(), preemptions)
}

fn leaf(name: &str, guaranteed: i64) -> String {
    let resources = if guaranteed > 0 { format!("guaranteed: {{memory: {guaranteed}}}") } else { String::new() };
    format!("{{name: {name}, resources: {{{resources}}}, properties: {{preemption.delay: 1s}}}}")
}

/// The first applications fill the nodes, then all ask for more.
fn world(guaranteed: [i64; 3], nested: bool, running: [&[i64]; 3], asking: [&[i64]; 3], daemon: bool) -> World {
    let [a, b, c] = [leaf("a", guaranteed[0]), leaf("b", guaranteed[1]), leaf("c", guaranteed[2])];
    let whole = guaranteed[1] + guaranteed[2] + 1;
    let queues = match nested {
        true => format!(
            "{a}, {{name: p, parent: true, resources: {{guaranteed: {{memory: {whole}}}}}, queues: [{b}, {c}]}}"
        ),
        false => format!("{a}, {b}, {c}"),
    };
    let names = if nested { ["root.a", "root.p.b", "root.p.c"] } else { ["root.a", "root.b", "root.c"] };
    let mut world = World::new(&tree(&queues), [4, 3]);
    let app = |(n, queue): (usize, &&str)| AddApplication {
        id: format!("app{n}").into(),
        queue: (*queue).into(),
        user: "alice".into(),
        groups: Some(Arc::from([])),
        ..AddApplication::default()
    };
    world.apply(Command::Applications { new: names.iter().enumerate().map(app).collect(), remove: Vec::new() });
    for (kind, sizes) in [("r", running), ("q", asking)] {
        for (n, sizes) in sizes.into_iter().enumerate() {
            let ask =
                |(k, size): (usize, &i64)| Ask::new(&format!("app{n}"), &format!("{kind}{n}{k}"), *size).preempts();
            world.ask(sizes.iter().enumerate().map(ask).collect());
            while kind == "r" && !world.idle {
                // Too soon for any of them to preempt.
                world.decide(Nanos::from_millis(1));
            }
        }
    }
    if daemon {
        world.ask(vec![Ask::new("app2", "ds", 2).requires("n1").preempts()]);
    }
    assert!(world.open.is_empty() && world.gone.is_empty());
    world
}

#[test]
fn every_order_of_events_comes_to_rest() {
    type Sizes = [&'static [i64]; 3];
    // Victims that are all alike make a hundred times the states beside a daemon: there they are of several sizes.
    let loads: [(Sizes, Sizes, &[bool]); 5] = [
        ([&[], &[2, 2], &[3]], [&[2], &[], &[]], &[false, true]),
        ([&[3], &[2, 2], &[]], [&[], &[1], &[2]], &[false, true]),
        ([&[2], &[3], &[2]], [&[1], &[], &[2]], &[false, true]),
        ([&[], &[1, 1, 1, 1], &[1, 1, 1]], [&[2, 1], &[1], &[2]], &[false]),
        ([&[], &[2, 1, 1], &[1, 2]], [&[2, 1], &[1], &[2]], &[true]),
    ];
    let (mut worlds, mut states, mut preemptions) = (0, 0, 0);
    for g in 1..27 {
        let guaranteed = [[0, 2, 4][g % 3], [0, 2, 4][g / 3 % 3], [0, 2, 4][g / 9]];
        for nested in [false, true] {
            for (running, asking, daemons) in loads {
                for &daemon in daemons {
                    let (some, preempting) = explore(world(guaranteed, nested, running, asking, daemon));
                    (worlds, states, preemptions) = (worlds + 1, states + some, preemptions + preempting);
                }
            }
        }
    }
    println!("{worlds} worlds, {states} states, {preemptions} preempting steps");
    assert!(
        states > 10_000 && preemptions > 500,
        "the search reached only {states} states and {preemptions} preemptions"
    );
}
