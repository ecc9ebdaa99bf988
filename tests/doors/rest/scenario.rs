//! The cluster of the captured answers, made by commands at times of our own.

use std::sync::Arc;

use callboard::{
    config,
    domain::{
        Partition,
        alloc::{AskSpec, Foreign, PreemptionPolicy},
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
        effect::{AppEffect, Effect},
        resources::Resource,
        sorted::Texts,
        types::{Nanos, Termination},
    },
    http::ws_v1::View,
    messages::partition::Snapshot,
};

pub const QUEUES: &str = include_str!("../../fixtures/rest/q.yaml");
pub const START: Nanos = Nanos(1_795_194_226_000_000_000);

/// A partition and its time.
pub struct World {
    pub partition: Partition,
    pub now: Nanos,
    effects: Vec<Effect>,
    /// What was logged of applications that ended.
    pub summaries: Vec<String>,
}

impl World {
    /// The queues of the capture and nothing else.
    pub fn empty() -> World {
        let conf = config::load(QUEUES).unwrap().partitions[0].clone();
        let mut effects = Vec::new();
        let partition = Partition::new("mycluster".into(), "[mycluster]default".into(), conf, START, &mut effects);
        World { partition, now: START, effects, summaries: Vec::new() }
    }

    /// What it looks like now.
    pub fn view(&self) -> View {
        let snapshot = Snapshot { epoch: 1, partition: self.partition.clone() };
        View {
            rm: "mycluster".into(),
            internal: "[mycluster]default".into(),
            shown: "default".into(),
            snapshot: Arc::new(snapshot),
        }
    }

    /// Lets time pass in steps, scheduling at each.
    pub fn pass(&mut self, millis: i64) {
        for _ in 0..(millis / 100).max(1) {
            self.now = self.now.plus(Nanos::from_millis(100));
            self.apply(Command::Tick);
            self.partition.schedule_at_once(usize::MAX, self.now, &mut self.effects);
        }
    }

    pub fn apply(&mut self, command: Command) {
        self.partition.apply(command, self.now, &mut self.effects);
        for effect in self.effects.drain(..) {
            if let Effect::App(AppEffect::Ended { summary }) = effect {
                self.summaries.push(summary.to_string());
            }
        }
    }

    pub fn release(&mut self, app: &str, key: &str, termination: Termination) {
        let release = ReleaseItem { app: app.into(), key: key.into(), termination };
        self.apply(Command::Allocations { allocations: vec![], releases: vec![release] });
    }

    /// Everything of the capture up to the moment before `app-resv` asks.
    pub fn captured() -> World {
        let mut world = World::empty();
        world.commands().into_iter().for_each(|command| world.apply(command));
        world.pass(500);
        world.apply(Command::Allocations { allocations: asks(), releases: vec![] });
        world.pass(2000);
        world.apply(ask("app-gang", spec("real-1", &resource(1, 0, 100), "tg-a")));
        world.pass(100);
        world.release("app-gang", "ph-1", Termination::PlaceholderReplaced);
        world.pass(100);
        world
    }

    /// `app-resv` asks for a node that is full: it is reserved, and others are preempted.
    pub fn reserve(&mut self) {
        let mut wanted = spec("resv-1", &resource(10, 1, 100), "");
        wanted.tags.insert("yunikorn.apache.org/requiredNode".into(), "node-1".into());
        wanted.required_node = Some("node-1".into());
        wanted.preemption = Some(PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true });
        self.apply(ask("app-resv", wanted));
        self.pass(3000);
        self.mark_victims();
    }

    /// Which victims are chosen is no subject of these tests: those of the capture are marked, unless they are already,
    /// and the application of the ask counts as allocating.
    fn mark_victims(&mut self) {
        let app = self.partition.app_by_id["app-resv"];
        let mut level = Some(self.partition.apps[app].queue);
        while let Some(queue) = level {
            self.partition.queues[queue].allocating.insert(app);
            level = self.partition.queues[queue].parent;
        }
        for ix in self.partition.allocs.keys() {
            let row = &mut self.partition.allocs[ix];
            row.triggered_preemption = &*row.spec.key == "resv-1";
            let victim = row.is_allocated() && &*row.spec.key != "run-driver" && !row.preempted;
            if !victim {
                continue;
            }
            row.preempted = true;
            let (resource, app) = (row.resource.clone(), row.app);
            let mut level = Some(self.partition.apps[app].queue);
            while let Some(queue) = level {
                self.partition.queues[queue].preempting.add(&resource);
                level = self.partition.queues[queue].parent;
            }
        }
    }

    /// Nodes, foreign allocations and applications.
    fn commands(&self) -> Vec<Command> {
        let mut commands = setup();
        commands.push(Command::Applications { new: applications(), remove: vec![] });
        commands
    }
}

/// Nodes and foreign allocations.
pub fn setup() -> Vec<Command> {
    let node = |id: &str, rack: &str, gigabytes: i64, action| NodeItem {
        id: id.into(),
        action,
        capacity: Some(resource(gigabytes, 110, gigabytes * 500)),
        attributes: tags(&[
            ("ready", "true"),
            ("si/hostname", &format!("{id}.example.com")),
            ("si/instance-type", "m5.large"),
            ("si/node-partition", "[mycluster]default"),
            ("si/rackname", rack),
        ]),
    };
    let create = |id, rack, gigabytes| node(id, rack, gigabytes, NodeAction::Create);
    let drain = NodeItem { id: "node-3".into(), action: NodeAction::Drain, capacity: None, attributes: Texts::new() };
    let foreign = |mut spec: AskSpec, kind: Foreign, extra: &[(&str, &str)]| {
        spec.foreign = Some(kind);
        spec.tags = tags(extra);
        AllocationItem { app: "".into(), node: Some("node-1".into()), spec: Arc::new(spec) }
    };
    let mut set = spec("foreign-ds", &resource(1, 1, 100), "");
    set.created = Some(Nanos::from_secs(1_700_000_000));
    set.priority = 2_000_001_000;
    let pod = spec("foreign-pod", &Resource::of(&[("memory", 500_000_000), ("pods", 1), ("vcore", 200)]), "");
    let foreigners = vec![
        foreign(
            pod,
            Foreign::Default,
            &[
                ("foreign", "default"),
                ("kubernetes.io/meta/namespace", "misc"),
                ("kubernetes.io/meta/podName", "misc-1"),
            ],
        ),
        foreign(
            set,
            Foreign::Static,
            &[
                ("creationTime", "1700000000"),
                ("foreign", "static"),
                ("kubernetes.io/meta/namespace", "kube-system"),
                ("kubernetes.io/meta/podName", "ds-1"),
            ],
        ),
    ];
    vec![
        Command::Nodes(vec![
            create("node-1", "/rack-a", 16),
            create("node-2", "/rack-a", 16),
            create("node-3", "/rack-b", 8),
        ]),
        Command::Nodes(vec![drain]),
        Command::Allocations { allocations: foreigners, releases: vec![] },
    ]
}

/// All submissions, one of them refused.
pub fn applications() -> Vec<AddApplication> {
    let app = |id: &str, queue: &str, user: &str, groups: &[&str]| AddApplication {
        id: id.into(),
        queue: queue.into(),
        user: user.into(),
        groups: Some(groups.iter().map(|group| Arc::from(*group)).collect()),
        ..AddApplication::default()
    };
    vec![
        app("app-running", "root.prod.batch", "alice", &["dev", "ops"]),
        AddApplication {
            placeholder_ask: Some(resource(3, 0, 300)),
            gang_style: "Soft".into(),
            ..app("app-gang", "root.prod.gang", "bob", &["dev"])
        },
        app("app-pending", "root.limited", "alice", &["dev"]),
        app("app-new", "root.sandbox", "carol", &["carol"]),
        app("app-dot", "root.sandbox", "user@domain.com", &["ops"]),
        app("app-dynamic", "", "dave.x", &["ops"]),
        app("app-resv", "root.sandbox", "carol", &["carol"]),
        app("app-done", "root.sandbox", "carol", &["carol"]),
        app("app-rejected", "root.nowhere", "evil", &["evil"]),
    ]
}

/// The first asks of all applications.
pub fn asks() -> Vec<AllocationItem> {
    let mut driver = spec("run-driver", &resource(2, 1, 500), "");
    driver.tags.insert("creationTime".into(), "1795194221".into());
    driver.created = Some(Nanos::from_secs(1_795_194_221));
    driver.priority = 10;
    driver.originator = true;
    let low = AskSpec { priority: -5, ..spec("run-exec-2", &resource(2, 1, 500), "") };
    let high = AskSpec { priority: 5, ..spec("pend-2", &resource(50, 1, 100), "") };
    let placeholder = |key: &str, group: &str| AskSpec { placeholder: true, ..spec(key, &resource(1, 0, 100), group) };
    [
        ("app-running", driver),
        ("app-running", spec("run-exec-1", &resource(2, 1, 500), "")),
        ("app-running", low),
        ("app-gang", placeholder("ph-1", "tg-a")),
        ("app-gang", placeholder("ph-2", "tg-a")),
        ("app-gang", placeholder("ph-3", "tg-b")),
        ("app-pending", spec("pend-1", &resource(1, 1, 100), "")),
        ("app-pending", high),
        ("app-dynamic", spec("dyn-1", &resource(1, 1, 100), "")),
        ("app-done", spec("done-1", &resource(1, 1, 100), "")),
    ]
    .into_iter()
    .map(|(app, spec)| AllocationItem { app: app.into(), node: None, spec: Arc::new(spec) })
    .collect()
}

fn ask(app: &str, spec: AskSpec) -> Command {
    let item = AllocationItem { app: app.into(), node: None, spec: Arc::new(spec) };
    Command::Allocations { allocations: vec![item], releases: vec![] }
}

fn spec(key: &str, resource: &Resource, group: &str) -> AskSpec {
    AskSpec {
        key: key.into(),
        tags: tags(&[("kubernetes.io/meta/namespace", "ns1"), ("kubernetes.io/meta/podName", key)]),
        resource: Arc::new(resource.clone()),
        task_group: group.into(),
        preemption: Some(PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true }),
        ..AskSpec::default()
    }
}

/// Memory in GB, pods (none for 0), vcore.
fn resource(gigabytes: i64, pods: i64, vcore: i64) -> Resource {
    let mut resource = Resource::of(&[("memory", gigabytes * 1_000_000_000), ("pods", pods), ("vcore", vcore)]);
    resource.prune();
    resource
}

fn tags(pairs: &[(&str, &str)]) -> Texts {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
