//! What the steps of a case mean: commands for partitions.

use std::sync::Arc;

use super::{
    case::{Action, Kind, Parts, Step, World},
    draw::USERS,
    run::Knows,
    server::RM,
};
use crate::domain::{
    alloc::{AskSpec, Foreign, PreemptionPolicy},
    command::{AddApplication, AllocationItem, Command, NodeItem, ReleaseItem},
    queue_order::QueueOrder,
    resources::Resource,
    sorted::Texts,
    types::{Nanos, Termination},
};

/// Who does it.
pub enum What<'a> {
    /// The shim, by a request: commands by the number of the partition.
    Shim(Vec<(usize, Command)>),
    /// An operator drains a node of a partition or takes that back; with the time after which what still runs is told.
    Drain(usize, Arc<str>, bool, Option<Nanos>),
    /// An operator tells a queue of the first partition to become something, or takes that back.
    Order(Arc<str>, Option<Arc<QueueOrder>>),
    /// Another configuration.
    Config(&'a str),
    /// Nobody does anything; time passes.
    Nothing,
}

/// A drain with a deadline has this one.
const OVERDUE: Nanos = Nanos::from_secs(20);
/// Task group of every gang.
const GROUP: &str = "tg";
/// Asks of one request that make a gang are named by their number.
const PLACEHOLDERS: &str = "p";
const REALS: &str = "r";

fn node_id(node: u8) -> Arc<str> {
    format!("n{node}").into()
}

fn app_id(app: u8) -> Arc<str> {
    format!("app{app}").into()
}

fn amounts(size: i64, gpus: i64) -> Resource {
    let mut amounts = vec![("memory", size), ("vcore", size)];
    if gpus > 0 {
        amounts.push(("nvidia.com/gpu", gpus));
    }
    Resource::of(&amounts)
}

fn submission(world: &World, app: u8, queue: u8, user: u8, seconds: i64) -> AddApplication {
    let asked = world.directory.as_ref().is_some_and(|directory| directory.users.contains(&user));
    let (user, groups) = USERS[usize::from(user) % USERS.len()];
    AddApplication {
        id: app_id(app),
        // One number more than there are queues: none, or one that is not there.
        queue: world.queues.get(usize::from(queue)).map_or("", String::as_str).into(),
        user: user.into(),
        groups: (!asked).then(|| groups.iter().map(|group| Arc::from(*group)).collect()),
        timeout_millis: seconds * 1_000,
        ..AddApplication::default()
    }
}

fn asks(items: Vec<(Arc<str>, Option<Arc<str>>, AskSpec)>) -> Command {
    let item = |(app, node, spec)| AllocationItem { app, node, spec: Arc::new(spec) };
    Command::Allocations { allocations: items.into_iter().map(item).collect(), releases: Vec::new() }
}

fn releases(app: Arc<str>, key: Arc<str>, termination: Termination) -> Command {
    Command::Allocations { allocations: Vec::new(), releases: vec![ReleaseItem { app, key, termination }] }
}

/// The asks of a gang, placeholders or real ones.
fn gang_asks(app: u8, prefix: &str, (count, size): (u8, i64), parts: &Parts) -> Command {
    let part = |number: u8| {
        let kind = parts.kinds[usize::from(number % 2)];
        let mut spec = ask(&format!("{prefix}{number}"), size_of_part(number, size, parts), 0, kind);
        spec.placeholder = prefix == PLACEHOLDERS;
        spec.task_group = match number % parts.groups.saturating_add(1) {
            0 => GROUP.into(),
            further => format!("{GROUP}{further}").into(),
        };
        (app_id(app), None, spec)
    };
    asks((0..count).map(part).collect())
}

fn size_of_part(number: u8, size: i64, parts: &Parts) -> i64 {
    size + parts.grows * i64::from(number)
}

fn ask(key: &str, size: i64, gpus: i64, kind: Kind) -> AskSpec {
    let mut spec = AskSpec { key: key.into(), resource: Arc::new(amounts(size, gpus)), ..AskSpec::default() };
    let may = |own, other| Some(PreemptionPolicy { allow_preempt_self: own, allow_preempt_other: other });
    match kind {
        Kind::Plain => {}
        Kind::Grouped => spec.task_group = GROUP.into(),
        Kind::Placeholder => (spec.task_group, spec.placeholder) = (GROUP.into(), true),
        Kind::GroupedOn(node) => (spec.task_group, spec.required_node) = (GROUP.into(), Some(node_id(node))),
        Kind::PlaceholderOn(node) => {
            (spec.task_group, spec.placeholder, spec.required_node) = (GROUP.into(), true, Some(node_id(node)));
        }
        Kind::High => spec.priority = 5,
        Kind::Preempts => spec.preemption = may(true, true),
        Kind::HighPreempts => (spec.priority, spec.preemption) = (3, may(true, true)),
        Kind::OptedOut => spec.preemption = may(false, true),
        Kind::Fixed => spec.preemption = may(false, false),
        Kind::Originator => spec.originator = true,
        Kind::Required(node) => spec.required_node = Some(node_id(node)),
    }
    spec
}

/// What a step means. Partitions are there in the order of their names.
pub fn command<'a>(step: &Step, world: &'a World, partitions: &[Arc<str>], now: Nanos) -> What<'a> {
    let of = |number: u8| usize::from(number) % partitions.len().max(1);
    let one = |number: u8, command: Command| What::Shim(vec![(of(number), command)]);
    match step {
        Step::Node { node, action, size, gpus } => {
            let partition = partitions.get(of(*node)).map_or("default", |name| &**name);
            let attributes = Texts::from([("si/node-partition".to_owned(), format!("[{RM}]{partition}"))]);
            let capacity = Some(amounts(*size, *gpus));
            one(
                *node,
                Command::Nodes(vec![NodeItem { id: node_id(*node), action: (*action).into(), capacity, attributes }]),
            )
        }
        Step::App { app, queue, user, seconds, tags } => {
            let mut item = submission(world, *app, *queue, *user, *seconds);
            if *tags {
                // Created by force, wherever it may go.
                item.tags = Arc::new([("application.create.force".to_owned(), "true".to_owned())].into());
            }
            one(*app, Command::Applications { new: vec![item], remove: Vec::new() })
        }
        Step::Gang { app, queue, user, count, size, hard, seconds, parts } => {
            let mut item = submission(world, *app, *queue, *user, *seconds);
            item.placeholder_ask = Some(amounts((0..*count).map(|part| size_of_part(part, *size, parts)).sum(), 0));
            item.gang_style = if *hard { "Hard" } else { "Soft" }.to_owned();
            What::Shim(vec![
                (of(*app), Command::Applications { new: vec![item], remove: Vec::new() }),
                (of(*app), gang_asks(*app, PLACEHOLDERS, (*count, *size), parts)),
            ])
        }
        Step::Reals { app, count, size, parts } => one(*app, gang_asks(*app, REALS, (*count, *size), parts)),
        Step::Remove { app } => one(*app, Command::Applications { new: Vec::new(), remove: vec![app_id(*app)] }),
        Step::Ask { app, key, size, gpus, kind, node } => {
            let made = |app: u8| {
                (of(app), asks(vec![(app_id(app), node.map(node_id), ask(&format!("k{key}"), *size, *gpus, *kind))]))
            };
            // Of two partitions, some requests are for both.
            let both = partitions.len() > 1 && key.is_multiple_of(4);
            What::Shim(std::iter::once(*app).chain(both.then_some(app.wrapping_add(1))).map(made).collect())
        }
        Step::Release { app, key, by } => {
            // The keys of gangs come last.
            let key: Arc<str> = match key {
                None => "".into(),
                Some(6) => format!("{PLACEHOLDERS}0").into(),
                Some(7) => format!("{REALS}0").into(),
                Some(key) => format!("k{key}").into(),
            };
            one(*app, releases(app_id(*app), key, (*by).into()))
        }
        Step::Foreign { key, node, size } => {
            let name: Arc<str> = format!("foreign{key}").into();
            if *size == 0 {
                return one(*node, releases("".into(), name, Termination::StoppedByRm));
            }
            let spec = AskSpec {
                key: name,
                resource: Arc::new(amounts(*size, 0)),
                foreign: Some(Foreign::Default),
                ..AskSpec::default()
            };
            one(*node, asks(vec![("".into(), Some(node_id(*node)), spec)]))
        }
        Step::Configure(number) => world
            .configs
            .get(usize::from(*number) % world.configs.len())
            .map_or(What::Nothing, |text| What::Config(text)),
        Step::Drain { node, on } => What::Drain(of(*node), node_id(*node), *on, None),
        Step::Hold { node, on } => What::Drain(of(*node), node_id(*node), *on, on.then(|| now.plus(OVERDUE))),
        Step::Order { queue, order } => {
            let Some(path) = world.queues.get(usize::from(*queue)) else { return What::Nothing };
            let order = order.map(|order| {
                let (by, when, reason) = ("an operator".into(), now.0.to_string().into(), "a test".into());
                Arc::new(QueueOrder { kind: order.into(), by, at: now, when, reason })
            });
            What::Order(path.as_str().into(), order)
        }
        Step::Pass(_) | Step::Cut { .. } | Step::Register | Step::Snapshot | Step::Disk { .. } | Step::Kill(_) => {
            What::Nothing
        }
    }
}

/// What a shim that registers again reports: nodes, applications, and what runs there. In every second session users are in
/// other groups.
pub fn report(world: &World, partitions: &[Arc<str>], knows: &Knows, epoch: u64) -> Vec<Vec<(usize, Command)>> {
    let mut requests = Vec::new();
    for (node, (size, gpus)) in &knows.nodes {
        let step = Step::Node { node: *node, action: Action::Create, size: *size, gpus: *gpus };
        if let What::Shim(commands) = command(&step, world, partitions, Nanos::ZERO) {
            requests.push(commands);
        }
    }
    for (app, (queue, user)) in &knows.apps {
        let at = usize::from(*app) % partitions.len().max(1);
        let mut new = submission(world, *app, *queue, *user, 0);
        if epoch.is_multiple_of(2) && new.groups.is_some() {
            new.groups = submission(world, *app, *queue, *user + 1, 0).groups;
        }
        let new = vec![new];
        let there = knows.runs.iter().filter(|((of, _), _)| *of == app_id(*app));
        let there = there.map(|((app, _), ran)| {
            let spec = AskSpec { resource: ran.size.clone(), ..(*ran.spec).clone() };
            (app.clone(), Some(ran.node.clone()), spec)
        });
        requests.push(vec![(at, Command::Applications { new, remove: Vec::new() }), (at, asks(there.collect()))]);
    }
    requests
}
