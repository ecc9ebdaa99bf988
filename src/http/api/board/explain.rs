//! One application: what it has, what it waits for and why, and the limits on its way up.

use std::{iter, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    advice::{AdviceView, HoldersView, PlaceView, Source, amounts},
    timeline::Timeline,
    when::{self, WhenView},
    why::Reason,
};
use crate::{
    config::LoadedConfig,
    domain::{
        alloc::Phase,
        app::App,
        edit::Edit,
        lasted::Lasted,
        partition::{Explainer, Waiting, forward::Bounds, remedies::Advice},
        resources::Resource,
        types::{AppIx, AppState, Nanos},
        words::either,
    },
    http::ws_v1::{
        View,
        json::{Amounts, TextsView, unset},
        state::now,
        time_text,
    },
    messages::rm::Halt,
};

/// Groups of asks for which remedies are looked for; one that was asked for is among them.
const ADVISED: usize = 3;
/// Decisions of one trial at most.
const DECISIONS: usize = 200_000;

/// The answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explained<'a> {
    #[serde(rename = "applicationID")]
    id: &'a str,
    partition: &'a str,
    queue_name: &'a str,
    user: &'a str,
    groups: Vec<&'a str>,
    /// As submitted.
    tags: TextsView<'a>,
    state: &'static str,
    state_log: Vec<Entered>,
    submitted: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    /// What would let it in, where it was refused for what operators told queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<AdviceView>,
    allocations: u64,
    used: Amounts,
    pending: Amounts,
    task_groups: Vec<TaskGroup<'a>>,
    waiting: Vec<Group>,
    /// What waits for other reasons or in other sizes than those; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<More>,
    /// The ask that was asked for, where it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    ask: Option<AskState<'a>>,
    /// Its queue and those above, root last.
    queues: Vec<Level<'a>>,
    /// What its user and group may still use in its queue; left out where nothing limits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_available: Option<Amounts>,
    /// What happened to it, its queues and nodes so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<Timeline>,
}

/// Groups that are told in one answer.
const GROUPS: usize = 100;

/// Groups beyond those that are told.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MoreGroups")]
struct More {
    groups: usize,
    asks: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EnteredState")]
struct Entered {
    at: String,
    state: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TaskGroupInShort")]
#[serde(rename_all = "camelCase")]
struct TaskGroup<'a> {
    name: &'a str,
    placeholders: u64,
    /// Those that wait or are placed.
    live: u64,
    /// Those that are placed.
    placed: u64,
    replaced: u64,
    timed_out: u64,
}

/// Asks that wait for one reason.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WaitingGroup")]
#[serde(rename_all = "camelCase")]
struct Group {
    asks: u64,
    first: String,
    resource: Amounts,
    priority: i32,
    #[serde(skip_serializing_if = "unset")]
    placeholder: bool,
    #[serde(skip_serializing_if = "unset")]
    task_group: String,
    since: String,
    reason: Reason,
    /// Where the first of them stands in line, from its application up to root.
    line: Vec<PlaceView>,
    /// Who holds what is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<HoldersView>,
    /// What would place the first of them, or of a gang all that wait; left out where it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<AdviceView>,
    /// When the first of them will be placed, or of a gang all that wait; left out where it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<WhenView>,
    log: Vec<Entry>,
}

/// An ask that does not wait.
#[derive(Serialize, JsonSchema)]
struct AskState<'a> {
    key: &'a str,
    /// `allocated`, `replacing` a placeholder, `asking` the resource manager, or `ended`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
}

/// What is wanted of an explanation.
pub struct Wanted<'a> {
    /// Only this ask.
    pub ask: Option<&'a str>,
    /// The configuration, where remedies are wanted.
    pub config: Option<&'a LoadedConfig>,
    /// The resource manager is away.
    pub halt: Option<Halt>,
    /// What happened to it so far, where that is wanted.
    pub timeline: Option<Timeline>,
    /// How long allocations lasted, where it is wanted when asks will be placed.
    pub lasted: Option<Arc<Lasted>>,
    /// No time is left for remedies, of all groups together.
    pub stop: &'a dyn Fn() -> bool,
    /// Nor for when they will be placed.
    pub stop_when: &'a dyn Fn() -> bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LogEntry")]
struct Entry {
    message: String,
    last: String,
    count: u32,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QueueLevel")]
#[serde(rename_all = "camelCase")]
struct Level<'a> {
    queue: &'a str,
    used: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    guaranteed: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    max: Amounts,
    running: u64,
    #[serde(skip_serializing_if = "unset")]
    max_running: u64,
    /// What operators told it, or a queue above it: new applications are refused, what is there goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<String>,
}

/// Why the first ask of a live application waits.
pub fn first_reason(view: &View, id: &str, halt: Option<&Halt>) -> Option<String> {
    let partition = view.partition();
    let ix = *partition.app_by_id.get(id)?;
    match Explainer::new(partition).first(ix, now()) {
        Some(first) => Some(Reason::of(&first, halt).text),
        None => Some(what_it_has(&partition.apps[ix])),
    }
}

/// What an application without an ask that waits has, or waits for.
fn what_it_has(app: &App) -> String {
    let announced = app.gang.placeholder_ask.as_deref().filter(|_| app.state == AppState::Accepted);
    let mut to_come = Resource::new();
    for (kind, amount) in announced.into_iter().flat_map(|announced| announced.iter()) {
        let rest = amount - app.gang.announced.amount(kind);
        if rest > 0 {
            to_come.set(kind.clone(), rest);
        }
    }
    if !to_come.is_empty() {
        let placed = app.gang.placeholders;
        return format!(
            "{placed} {} placed, and of the gang that was announced {} is not asked for yet",
            either(&placed, "placeholder is", "placeholders are"),
            amounts(&to_come, 4)
        );
    }
    match app.allocs.len() {
        0 => "it has no asks".to_owned(),
        1 => "1 allocation runs".to_owned(),
        count => format!("{count} allocations run"),
    }
}

/// A live application has, or had, an ask of this key.
pub fn has_ask(view: &View, id: &str, key: &str) -> bool {
    view.partition().alloc(id, key).is_some()
}

/// Explains a live application, else the rejected or the last ended one of this id.
pub fn explain<'a>(view: &'a View, id: &str, wanted: &Wanted<'_>) -> Option<Explained<'a>> {
    let partition = view.partition();
    let live = partition.app_by_id.get(id).copied();
    let app: &App = match live {
        Some(ix) => partition.apps.get(ix)?,
        None => partition.rejected.get(id).or_else(|| {
            let ended = partition.terminated.iter().filter(|((name, _), _)| **name == *id);
            ended.map(|(_, app)| app).next_back()
        })?,
    };
    let at = now();
    let mut waiting = live.map(|ix| waiting(view, ix, wanted.ask, at)).unwrap_or_default();
    let more = waiting.split_off(waiting.len().min(GROUPS));
    let mut queues = Vec::new();
    let mut level = live.map(|_| app.queue);
    while let Some(queue) = level.and_then(|ix| partition.queues.get(ix)) {
        queues.push(Level {
            queue: &queue.path,
            used: Amounts::from(&queue.placed()),
            guaranteed: Amounts::from(queue.guaranteed.as_deref()),
            max: Amounts::from(queue.max.as_deref()),
            running: queue.begun(),
            max_running: queue.max_applications,
            order: partition.order_for(&queue.path).map(|(path, order)| order.told_of(path)),
        });
        level = queue.parent;
    }
    let left = live.and_then(|ix| partition.user_headroom(ix));
    let told = live.map(|app| told(view, app, &waiting, wanted, at)).unwrap_or_default();
    let told = told.into_iter().map(|(advice, when)| (Some(advice), when)).chain(iter::repeat_with(|| (None, None)));
    let group = |(waiting, (advice, when)): (Waiting, (Option<AdviceView>, Option<WhenView>))| {
        let row = &partition.allocs[waiting.first];
        Group {
            asks: waiting.asks,
            first: row.spec.key.to_string(),
            resource: Amounts::from(&*waiting.resource),
            priority: row.spec.priority,
            placeholder: waiting.placeholder,
            task_group: waiting.task_group.to_string(),
            since: time_text(waiting.since),
            reason: Reason::of(&waiting, wanted.halt.as_ref()),
            line: partition.line(waiting.first).into_iter().map(PlaceView::from).collect(),
            held_by: partition.holders(&waiting).map(HoldersView::from),
            advice,
            when,
            log: waiting
                .log
                .iter()
                .map(|entry| Entry {
                    message: entry.message.to_string(),
                    last: time_text(entry.last),
                    count: entry.count,
                })
                .collect(),
        }
    };
    let [real, placeholders] = app.placed();
    Some(Explained {
        id: &app.id,
        partition: &view.shown,
        queue_name: &app.queue_path,
        user: &app.user,
        groups: app.groups.iter().map(|group| &**group).collect(),
        tags: TextsView(&app.tags),
        state: app.state.name(),
        state_log: app
            .state_log
            .iter()
            .map(|(at, state)| Entered { at: time_text(*at), state: state.name() })
            .collect(),
        submitted: time_text(app.submission),
        message: app.rejected.as_deref(),
        advice: resume(view, app, wanted, at),
        allocations: app.placements(),
        used: Amounts::from(&real.plus(&placeholders)),
        pending: Amounts::from(&app.waiting()),
        task_groups: app
            .gang
            .task_groups
            .iter()
            .map(|(name, group)| TaskGroup {
                name,
                placeholders: group.count,
                live: group.live,
                placed: placed(view, app, name),
                replaced: group.replaced,
                timed_out: group.timed_out,
            })
            .collect(),
        waiting: waiting.into_iter().zip(told).map(group).collect(),
        more: (!more.is_empty())
            .then(|| More { groups: more.len(), asks: more.iter().map(|waiting| waiting.asks).sum() }),
        ask: wanted.ask.and_then(|key| state_of(view, app, key)),
        queues,
        user_available: left.as_ref().map(Amounts::from),
        timeline: wanted.timeline.clone(),
    })
}

/// What waits; only one ask where one is named.
fn waiting(view: &View, app: AppIx, ask: Option<&str>, at: Nanos) -> Vec<Waiting> {
    let partition = view.partition();
    let mut explainer = Explainer::new(partition);
    let Some(key) = ask else { return explainer.application(app, at) };
    explainer.ask(app, key, at).into_iter().collect()
}

/// What would help the first few groups, and when they will be placed; nothing where remedies are not wanted. What would help
/// comes first of all groups: when they will be placed takes as long as it may, and is to leave no group without advice.
fn told(
    view: &View,
    app: AppIx,
    waiting: &[Waiting],
    wanted: &Wanted<'_>,
    at: Nanos,
) -> Vec<(AdviceView, Option<WhenView>)> {
    let (partition, Some(config)) = (view.partition(), wanted.config) else { return Vec::new() };
    let edit = |edits: &[Edit]| config.edited(&partition.name, edits).map(|edited| edited.conf);
    let bounds = Bounds { decisions: DECISIONS, stop: wanted.stop };
    let groups = &waiting[..waiting.len().min(ADVISED)];
    let advice: Vec<Advice> =
        groups.iter().map(|waiting| partition.remedies(app, waiting, at, &edit, bounds)).collect();
    let source = Source { partition, shown: &view.shown, config, now: at, halt: wanted.halt.as_ref() };
    let of_group = |(waiting, advice): (&Waiting, Advice)| {
        let when = when(view, app, (waiting, &advice), wanted, at);
        (source.advice(advice), when)
    };
    groups.iter().zip(advice).map(of_group).collect()
}

fn when(
    view: &View,
    app: AppIx,
    (waiting, advice): (&Waiting, &Advice),
    wanted: &Wanted<'_>,
    at: Nanos,
) -> Option<WhenView> {
    let lasted = wanted.lasted.as_ref().filter(|_| wanted.halt.is_none())?;
    let bounds = Bounds { decisions: DECISIONS, stop: wanted.stop_when };
    let when = view.partition().when(app, waiting, lasted, at, when::HORIZON, bounds);
    Some(WhenView::of(&when.or_waits(advice)))
}

fn resume(view: &View, app: &App, wanted: &Wanted<'_>, at: Nanos) -> Option<AdviceView> {
    let (partition, config) = (view.partition(), wanted.config?);
    let remedy = partition.resumed_for(app, at)?;
    let advice = Advice { remedies: vec![remedy], tried: 1, complete: true, ..Advice::default() };
    Some(Source { partition, shown: &view.shown, config, now: at, halt: wanted.halt.as_ref() }.advice(advice))
}

/// Placeholders of a task group that are placed.
fn placed(view: &View, app: &App, group: &str) -> u64 {
    let placed = app.allocs.keys().filter_map(|ix| view.partition().allocs.get(*ix));
    placed.filter(|row| row.is_placeholder() && *row.spec.task_group == *group).count() as u64
}

fn state_of<'a>(view: &'a View, app: &'a App, key: &str) -> Option<AskState<'a>> {
    let partition = view.partition();
    let row = partition.alloc(&app.id, key)?;
    let state = match row.phase {
        Phase::Pending => return None,
        Phase::AwaitingShim => "asking",
        Phase::Replacing => "replacing",
        Phase::Allocated => "allocated",
        Phase::Ended => "ended",
    };
    let node = row.node.and_then(|node| partition.nodes.get(node)).map(|node| &**node.id());
    Some(AskState { key: &row.spec.key, state, node })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{
        config,
        domain::{
            Partition,
            alloc::AskSpec,
            command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
            resources::Resource,
        },
        messages::partition::Snapshot,
    };

    const QUEUES: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: q}]}]}]";

    /// A node of 10, and an application that runs on it and has two more asks of other sizes.
    fn full() -> (LoadedConfig, View) {
        let config = config::load(QUEUES).expect("valid");
        let (conf, at, fx) = (config.partitions[0].clone(), now(), &mut Vec::new());
        let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, at, fx);
        let memory = |amount| Resource::of(&[("memory", amount)]);
        let (capacity, attributes) = (Some(memory(10)), Default::default());
        let node = NodeItem { id: "n1".into(), action: NodeAction::Create, capacity, attributes };
        let (queue, groups) = ("root.q".into(), Some([Arc::from("g")].into()));
        let app = AddApplication { id: "app".into(), queue, user: "u".into(), groups, ..AddApplication::default() };
        let ask = |(key, amount): (&str, i64)| {
            let spec = AskSpec { key: key.into(), resource: Arc::new(memory(amount)), ..AskSpec::default() };
            AllocationItem { app: "app".into(), node: None, spec: Arc::new(spec) }
        };
        partition.apply(Command::Nodes(vec![node]), at, fx);
        partition.apply(Command::Applications { new: vec![app], remove: Vec::new() }, at, fx);
        for asks in [vec![("runs", 8)], vec![("k5", 5), ("k6", 6)]] {
            let allocations = asks.into_iter().map(ask).collect();
            partition.apply(Command::Allocations { allocations, releases: Vec::new() }, at, fx);
            while partition.schedule_at_once(64, at, fx) > 0 {}
        }
        let snapshot = Arc::new(Snapshot { epoch: 1, partition });
        (config, View { rm: "rm-1".into(), internal: "[rm-1]default".into(), shown: "default".into(), snapshot })
    }

    #[test]
    fn when_they_will_be_placed_takes_no_time_from_what_would_help() {
        let (config, view) = full();
        // A clock that jumps as soon as it is looked at for an estimate.
        let late = Cell::new(false);
        let (stop, stop_when) = (|| late.get(), || late.replace(true));
        let wanted = Wanted {
            ask: None,
            config: Some(&config),
            halt: None,
            timeline: None,
            lasted: Some(Arc::new(Lasted::default())),
            stop: &stop,
            stop_when: &stop_when,
        };
        let explained = explain(&view, "app", &wanted).expect("it is there");
        assert!(late.get() && explained.waiting.len() == 2);
        for group in explained.waiting {
            let advice = group.advice.expect("it is looked for");
            assert!(advice.complete && advice.tried > 0, "{}: {advice:?}", group.first);
            assert!(group.when.is_some());
        }
    }
}
