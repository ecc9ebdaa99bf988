//! Draws a case from a seed. Each seed has a mix of its own: some things do not happen in it at all, others very often, so that
//! also what needs many of one kind is met.

use std::{collections::BTreeMap, fmt::Write as _};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::case::{Action, By, Case, Directory, Doubts, FORMAT, Kill, Kind, Order, Parts, Shim, Step, World, chance};
use crate::{actors::rm::log::LogSync, config};

/// Users, each with its groups.
pub const USERS: [(&str, &[&str]); 4] =
    [("alice", &["staff"]), ("bob", &["dev", "staff"]), ("carol", &[]), ("dave", &["ops"])];
/// Leaf queues of a partition.
const QUEUES: [&str; 4] = ["root.a", "root.b", "root.p.c", "root.p.d"];
const NODES: u8 = 4;
const APPS: u8 = 6;
const KEYS: u8 = 8;

struct Draw {
    rng: ChaCha8Rng,
    /// Sizes of asks.
    largest: i64,
    gpus: bool,
    /// Groups come from a directory, in most configurations.
    resolver: bool,
    /// How often there are limits.
    limits: f64,
    /// Guarantees are more than there is room for, and most asks preempt: who takes from whom decides everything.
    crowded: bool,
    /// Most is about gangs, which are often atomic and of many kinds, and nodes that they require are often drained.
    gangs: bool,
    /// Applications that were submitted, and not removed, with the size of the parts of their gangs and how these differ.
    apps: BTreeMap<u8, (i64, Parts)>,
    /// Weight of each kind of step.
    weights: [u32; 17],
}

/// The case of a seed, with so many steps.
pub fn case(seed: u64, steps: usize) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let crowded = chance(seed, &["crowded"]).is_multiple_of(6);
    let gangs = chance(seed, &["gangs"]).is_multiple_of(4);
    let usual = [6, 6, 5, 6, 2, 44, 10, 2, 14, 2, 2, 1, 2, 2, 1, 2, 3];
    let weights = usual.map(|usual: u32| match rng.random_range(0..8) {
        0 | 1 => 0,
        2 => usual * 4,
        _ => usual,
    });
    let largest = *[4, 10, 25].get(rng.random_range(0..3_usize)).unwrap_or(&10);
    let largest = if crowded { 10.min(largest) } else { largest };
    let gpus = rng.random_bool(0.3);
    let apps = BTreeMap::new();
    let mut draw = Draw { rng, largest, gpus, resolver: false, limits: 0.3, crowded, gangs, apps, weights };
    // Without nodes, applications and asks nothing happens.
    for at in [0, 1, 5] {
        draw.weights[at] = draw.weights[at].max(usual[at]);
    }
    if crowded {
        // Preemption waits for a while first.
        draw.weights[8] = draw.weights[8].max(usual[8]);
    }
    if gangs {
        // Parts of gangs, and drains.
        for (at, times) in [(2, 2), (3, 3), (10, 2)] {
            draw.weights[at] = draw.weights[at].max(usual[at] * times);
        }
    }
    let world = draw.world();
    let mut all = Vec::new();
    for node in 0..NODES {
        if draw.is(0.85) {
            all.push(draw.node(node));
        }
    }
    for app in 0..APPS {
        if draw.is(0.6) {
            let (queue, user) = (draw.below(QUEUES.len() as u8), draw.below(USERS.len() as u8));
            all.push(Step::App { app, queue, user, seconds: draw.seconds(), tags: false });
            draw.apps.insert(app, Default::default());
        }
    }
    while all.len() < steps {
        let step = draw.step();
        all.push(step);
    }
    all.truncate(steps);
    full_disks(seed, &mut all);
    long_gone(seed, &mut all);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Case { format: FORMAT, about: String::new(), version, seed, world, steps: all }
}

/// In some worlds the disk refuses now and then.
fn full_disks(seed: u64, all: &mut [Step]) {
    if !chance(seed, &["disk"]).is_multiple_of(7) {
        return;
    }
    for number in 0..1 + chance(seed, &["disks"]) % 3 {
        let by = |what: &str, of: u64| chance(seed, &["disk", what, &number.to_string()]) % of;
        let flushes = by("flushes", 3) == 0;
        let millis = [50, 900, 4_000, 20_000][by("millis", 4) as usize];
        if let Some(step) = all.get_mut(by("at", all.len().max(1) as u64) as usize) {
            *step = Step::Disk { flushes, millis };
        }
    }
}

/// In some worlds it takes a while until the next process begins.
fn long_gone(seed: u64, all: &mut [Step]) {
    if !chance(seed, &["gone"]).is_multiple_of(4) {
        return;
    }
    for (number, step) in all.iter_mut().enumerate() {
        if let Step::Kill(kill) = step {
            kill.down = [0, 2_000, 25_000, 100_000][(chance(seed, &["gone", &number.to_string()]) % 4) as usize];
        }
    }
}

impl Draw {
    fn is(&mut self, chance: f64) -> bool {
        self.rng.random_bool(chance)
    }

    fn one_in(&mut self, of: u32) -> u32 {
        self.rng.random_range(0..of)
    }

    fn below(&mut self, bound: u8) -> u8 {
        self.rng.random_range(0..bound)
    }

    fn within(&mut self, from: i64, to: i64) -> i64 {
        self.rng.random_range(from..=to)
    }

    fn world(&mut self) -> World {
        let two = self.one_in(6) == 0;
        let partitions: Vec<&str> = if two { vec!["default", "gpu"] } else { vec!["default"] };
        self.resolver = self.is(0.25);
        self.limits = *[0.1, 0.3, 0.9].get(self.rng.random_range(0..3_usize)).unwrap_or(&0.3);
        let directory = self.resolver.then(|| Directory {
            users: (0..USERS.len() as u8).filter(|_| self.is(0.5)).collect(),
            delay: *[0, 50, 3_000, 8_000].get(self.rng.random_range(0..4_usize)).unwrap_or(&0),
            fails: if self.is(0.5) { 0 } else { self.below(50) },
            away: if self.is(0.5) { 0 } else { self.below(30) },
        });
        let configs = (0..3).map(|_| self.valid_config(&partitions)).collect();
        let mut extra = BTreeMap::new();
        for (share, key, value) in [
            (0.3, "shim.containerStates", "all"),
            (0.2, "rm.reservations", "false"),
            (0.2, "shim.predicates.constrained", "false"),
            (0.25, "rm.pauseTimeout", "30s"),
            (0.25, "rm.resendAfter", "5s"),
        ] {
            if self.is(share) {
                extra.insert(key.to_owned(), value.to_owned());
            }
        }
        let chance = |draw: &mut Draw, most: u8| if draw.is(0.5) { 0 } else { draw.below(most) };
        let shim = Shim {
            delay: *[0, 5, 300, 4_000].get(self.rng.random_range(0..4_usize)).unwrap_or(&0),
            late: chance(self, 60),
            twice: chance(self, 30),
            never: chance(self, 30),
            lies: chance(self, 15),
            fails: chance(self, 15),
            ends: chance(self, 60),
            asked: if self.is(if self.gangs { 0.4 } else { 0.6 }) { 0 } else { 1 + self.below(3) },
            refuses: self.below(50),
            insists: chance(self, 40),
            silent: chance(self, 10),
            doubles: chance(self, 20),
        };
        let etcd =
            self.is(0.2).then(|| Doubts { lost: self.below(30), doubtful: self.below(30), late: self.below(30) });
        let sync = if self.is(0.6) && etcd.is_none() { LogSync::Interval } else { LogSync::Batch };
        World {
            configs,
            queues: QUEUES.map(str::to_owned).to_vec(),
            partitions: partitions.into_iter().map(str::to_owned).collect(),
            extra,
            sync,
            chunk: *[1, 3, 64].get(self.rng.random_range(0..3_usize)).unwrap_or(&64),
            numbered: self.is(0.7),
            shim,
            directory,
            etcd,
        }
    }

    /// Resources of a queue.
    fn resources(&mut self, least: i64) -> (String, i64) {
        let guaranteed = if self.crowded || self.is(0.5) { self.within(1, 30) } else { 0 };
        let max =
            if self.is(if self.crowded { 0.1 } else { 0.5 }) { self.within(guaranteed.max(least), 90) } else { 0 };
        let mut parts = Vec::new();
        if guaranteed > 0 {
            parts.push(format!("guaranteed: {{memory: {guaranteed}}}"));
        }
        if max > 0 {
            parts.push(format!("max: {{memory: {max}, vcore: {max}m}}"));
        }
        (format!("resources: {{{}}}", parts.join(", ")), guaranteed)
    }

    fn limits(&mut self, most: i64) -> String {
        if !self.is(self.limits) {
            return "limits: []".to_owned();
        }
        let users = ["alice", "'*'", "bob, carol", ""][self.rng.random_range(0..4_usize)];
        let groups = ["staff", "dev", "ops", "", "ops, staff, '*'"][self.rng.random_range(0..5_usize)];
        let (users, groups) = if users.is_empty() && groups.is_empty() { ("'*'", "") } else { (users, groups) };
        let max = self.within(5.min(most), most);
        let apps = if self.is(0.3) { self.within(1, 3) } else { 0 };
        let apps = if apps > 0 { format!(", maxapplications: {apps}") } else { String::new() };
        format!(
            "limits: [{{limit: some, users: [{users}], groups: [{groups}], maxresources: {{memory: {max}}}{apps}}}]"
        )
    }

    fn properties(&mut self) -> String {
        let mut all = Vec::new();
        if self.is(0.3) {
            all.push("application.sort.policy: fair".to_owned());
        }
        if self.is(0.2) {
            all.push("application.sort.priority: disabled".to_owned());
        }
        if self.is(0.2) {
            all.push(format!("priority.policy: fence, priority.offset: '{}'", self.within(-3, 3)));
        }
        if !self.crowded && self.is(0.2) {
            all.push("preemption.policy: disabled".to_owned());
        } else if self.is(0.1) {
            all.push("preemption.policy: fence".to_owned());
        }
        if self.is(if self.gangs { 0.6 } else { 0.2 }) {
            all.push("gang.admission: atomic".to_owned());
        }
        if self.is(0.15) {
            all.push("application.unschedasks.backoff: '1', application.unschedasks.backoff.delay: 5s".to_owned());
        }
        format!("properties: {{{}}}", all.join(", "))
    }

    /// Guarantees and limits that are drawn one by one may not go together: then others are drawn.
    fn valid_config(&mut self, partitions: &[&str]) -> String {
        loop {
            let text = self.config(partitions);
            if config::load(&text).is_ok() {
                return text;
            }
        }
    }

    fn config(&mut self, partitions: &[&str]) -> String {
        let mut text = "partitions:\n".to_owned();
        for name in partitions {
            let (preempts, quota) = (self.crowded || self.is(0.8), self.is(0.4));
            let _ = writeln!(
                text,
                "  - name: {name}\n    preemption: {{enabled: {preempts}, quotapreemptionenabled: {quota}}}"
            );
            if self.is(0.3) {
                text += "    nodesortpolicy: {type: binpacking}\n";
            }
            if self.resolver && self.is(0.9) {
                text += "    usergroupresolver: {type: ldap}\n";
            }
            if self.is(0.2) {
                text += "    placementrules:\n      - name: provided\n        create: false\n      - name: user\n        create: true\n        \
                         parent: {name: fixed, value: root.users, create: true}\n";
            }
            let delays = "preemption.delay: 1s, quota.preemption.delay: 3s";
            let limits = self.limits(150);
            let _ = write!(
                text,
                "    queues:\n      - name: root\n        submitacl: '*'\n        properties: {{{delays}}}\n        {limits}\n        queues:\n"
            );
            for leaf in ["a", "b"] {
                self.queue(&mut text, leaf, 10, 60);
            }
            let max = if self.is(0.4) { format!("max: {{memory: {}}}", self.within(90, 150)) } else { String::new() };
            let limits = self.limits(90);
            let _ = writeln!(
                text,
                "          - name: p\n            parent: true\n            resources: {{{max}}}\n            {limits}\n            queues:"
            );
            for leaf in ["c", "d"] {
                self.queue(&mut text, leaf, 14, 50);
            }
        }
        text
    }

    fn queue(&mut self, text: &mut String, name: &str, indent: usize, most: i64) {
        // Now and then a queue is not there.
        if self.is(0.08) && name != "a" && name != "c" {
            return;
        }
        let (resources, properties) = (self.resources(20).0, self.properties());
        // What a queue may have at most also bounds a limit in it: where there is a max there is none.
        let limits = if resources.contains("max") { "limits: []".to_owned() } else { self.limits(most) };
        let apps =
            if self.is(0.2) { format!("maxapplications: {}", self.within(1, 3)) } else { "parent: false".to_owned() };
        let pad = " ".repeat(indent);
        let _ = writeln!(
            text,
            "{pad}- name: {name}\n{pad}  {resources}\n{pad}  {properties}\n{pad}  {limits}\n{pad}  {apps}"
        );
    }

    fn node(&mut self, node: u8) -> Step {
        let (least, most) = if self.crowded { (10, 30) } else { (20, 60) };
        let (size, gpus) = (self.within(least, most), if self.gpus { self.within(0, 4) } else { 0 });
        Step::Node { node, action: Action::Create, size, gpus }
    }

    fn seconds(&mut self) -> i64 {
        [0, 0, 0, 0, 0, 0, 10, 40][self.rng.random_range(0..8_usize)]
    }

    /// Mostly one that is there.
    fn app(&mut self) -> u8 {
        let known = (!self.apps.is_empty() && self.is(0.93)).then(|| self.rng.random_range(0..self.apps.len()));
        known.and_then(|at| self.apps.keys().nth(at).copied()).unwrap_or_else(|| self.below(APPS))
    }

    /// What is special about the parts of a gang: in many gangs nothing.
    fn parts(&mut self) -> Parts {
        if self.is(if self.gangs { 0.2 } else { 0.5 }) {
            return Parts::default();
        }
        let groups = if self.is(0.5) { 0 } else { 1 + self.below(2) };
        let grows = if self.is(0.5) { 0 } else { self.within(1, (self.largest / 4).max(1)) };
        Parts { groups, grows, kinds: [self.kind_of_part(), self.kind_of_part()] }
    }

    fn kind_of_part(&mut self) -> Kind {
        let required = Kind::Required(self.below(NODES));
        let kinds = [
            Kind::Plain,
            Kind::Plain,
            Kind::Plain,
            Kind::High,
            Kind::Preempts,
            Kind::HighPreempts,
            Kind::OptedOut,
            Kind::Fixed,
            required,
            required,
        ];
        kinds[self.rng.random_range(0..kinds.len())]
    }

    fn step(&mut self) -> Step {
        let sum: u32 = self.weights.iter().sum();
        let mut pick = self.rng.random_range(0..sum);
        let kind = self.weights.iter().position(|weight| {
            let here = pick < *weight;
            pick = pick.saturating_sub(*weight);
            here
        });
        let (node, user) = (self.below(NODES), self.below(USERS.len() as u8));
        // Now and then a queue that is not there.
        let queue = if self.is(0.05) { QUEUES.len() as u8 } else { self.below(QUEUES.len() as u8) };
        let key = self.below(KEYS);
        let gpus = if self.gpus && self.is(0.3) { self.within(1, 2) } else { 0 };
        let size = self.within(1, self.largest);
        match kind.unwrap_or_default() {
            0 => {
                let actions = [
                    Action::Create,
                    Action::Create,
                    Action::Update,
                    Action::Drain,
                    Action::Undrain,
                    Action::Undrain,
                    Action::Remove,
                    Action::CreateDrain,
                ];
                let action = actions[self.rng.random_range(0..actions.len())];
                let Step::Node { size, gpus, .. } = self.node(node) else { return Step::Pass(1) };
                Step::Node { node, action, size, gpus }
            }
            1 => {
                let app = self.below(APPS);
                self.apps.insert(app, Default::default());
                Step::App { app, queue, user, seconds: self.seconds(), tags: self.is(0.1) }
            }
            2 => {
                let (app, parts) = (self.below(APPS), self.parts());
                self.apps.insert(app, (size, parts));
                let (count, hard) = (self.below(4) + 1, self.is(0.5));
                Step::Gang { app, queue, user, count, size, hard, seconds: self.seconds(), parts }
            }
            3 => {
                let (app, count) = (self.app(), self.below(4) + 1);
                // Often they are as their placeholders are.
                let alike = self.apps.get(&app).copied().filter(|(size, _)| *size > 0 && self.rng.random_bool(0.6));
                let (size, parts) = alike.unwrap_or_else(|| (size, self.parts()));
                Step::Reals { app, count, size, parts }
            }
            4 => {
                let app = self.app();
                self.apps.remove(&app);
                Step::Remove { app }
            }
            5 => {
                let kinds = [
                    Kind::Plain,
                    Kind::Plain,
                    Kind::Plain,
                    Kind::Grouped,
                    Kind::Placeholder,
                    Kind::High,
                    Kind::Preempts,
                    Kind::Preempts,
                    Kind::HighPreempts,
                    Kind::OptedOut,
                    Kind::Fixed,
                    Kind::Originator,
                    Kind::Required(node),
                    if self.gangs { Kind::GroupedOn(node) } else { Kind::Plain },
                    if self.gangs { Kind::PlaceholderOn(node) } else { Kind::Plain },
                ];
                let kind = kinds[self.rng.random_range(0..kinds.len())];
                let kind = if self.crowded && self.is(0.6) { Kind::Preempts } else { kind };
                let placed = self.is(0.06).then(|| self.below(NODES));
                Step::Ask { app: self.app(), key, size, gpus, kind, node: placed }
            }
            6 => {
                let by = [
                    By::Stopped,
                    By::Stopped,
                    By::Stopped,
                    By::Unknown,
                    By::Timeout,
                    By::Preempted,
                    By::Replaced,
                    By::Failed,
                ];
                let by = by[self.rng.random_range(0..by.len())];
                Step::Release { app: self.app(), key: self.is(0.9).then_some(key), by }
            }
            7 => Step::Foreign { key: key % 3, node, size: self.within(0, 15) },
            8 => Step::Pass([1, 20, 400, 1_100, 3_000, 16_000, 31_000, 70_000][self.rng.random_range(0..8_usize)]),
            9 => Step::Configure(self.below(3)),
            10 => Step::Drain { node, on: self.is(0.5) },
            11 => Step::Hold { node, on: self.is(0.4) },
            12 => {
                let order = [None, None, Some(Order::Stop), Some(Order::Drain)][self.rng.random_range(0..4_usize)];
                Step::Order { queue: queue % QUEUES.len() as u8, order }
            }
            13 => Step::Cut { half: self.is(0.3), back: [0, 10, 900, 40_000][self.rng.random_range(0..4_usize)] },
            14 => Step::Register,
            15 => Step::Snapshot,
            _ => {
                let machine = self.is(0.2);
                let torn = if self.is(0.5) { self.below(100) } else { 0 };
                let snapshot = if self.is(0.2) { Some(self.below(100)) } else { None };
                Step::Kill(Kill { machine, down: 0, torn, snapshot })
            }
        }
    }
}
