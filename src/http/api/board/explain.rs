//! One application: what it has, what it waits for and why, and the limits on its way up.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    advice::{AdviceView, HoldersView, PlaceView, Source},
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
        types::{AppIx, Nanos},
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
    /// There is no more time for remedies.
    pub stop: &'a dyn Fn() -> bool,
    /// And none for when it will be.
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
    let first = Explainer::new(partition).first(ix, now())?;
    Some(Reason::of(&first, halt).text)
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
            guaranteed: Amounts::from(queue.guaranteed.as_ref()),
            max: Amounts::from(queue.max.as_ref()),
            running: queue.begun(),
            max_running: queue.max_applications,
            order: partition.order_for(&queue.path).map(|(path, order)| order.told_of(path)),
        });
        level = queue.parent;
    }
    let left = live.and_then(|ix| partition.user_headroom(ix));
    // What helps comes first for all of them: forecasts take what time is left.
    let advised = |(nth, waiting): (usize, &Waiting)| {
        live.filter(|_| nth < ADVISED).and_then(|app| advice(view, app, waiting, wanted, at))
    };
    let mut advices: Vec<_> = waiting.iter().enumerate().map(advised).collect();
    let group = |(nth, waiting): (usize, Waiting)| {
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
            advice: advices.get_mut(nth).and_then(Option::take),
            when: live.filter(|_| nth < ADVISED).and_then(|app| when(view, app, &waiting, wanted, at)),
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
        waiting: waiting.into_iter().enumerate().map(group).collect(),
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

fn advice(view: &View, app: AppIx, waiting: &Waiting, wanted: &Wanted<'_>, at: Nanos) -> Option<AdviceView> {
    let (partition, config) = (view.partition(), wanted.config?);
    let edit = |edits: &[Edit]| config.edited(&partition.name, edits).map(|edited| edited.conf);
    let bounds = Bounds { decisions: DECISIONS, stop: wanted.stop };
    let advice = partition.remedies(app, waiting, at, &edit, bounds);
    Some(Source { partition, shown: &view.shown, config, now: at, halted: wanted.halt.is_some() }.advice(advice))
}

fn when(view: &View, app: AppIx, waiting: &Waiting, wanted: &Wanted<'_>, at: Nanos) -> Option<WhenView> {
    let lasted = wanted.lasted.as_ref().filter(|_| wanted.halt.is_none())?;
    let bounds = Bounds { decisions: DECISIONS, stop: wanted.stop_when };
    Some(WhenView::of(&view.partition().when(app, waiting, lasted, at, when::HORIZON, bounds)))
}

fn resume(view: &View, app: &App, wanted: &Wanted<'_>, at: Nanos) -> Option<AdviceView> {
    let (partition, config) = (view.partition(), wanted.config?);
    let remedy = partition.resumed_for(app, at)?;
    let advice = Advice { remedies: vec![remedy], tried: 1, complete: true, ..Advice::default() };
    Some(Source { partition, shown: &view.shown, config, now: at, halted: wanted.halt.is_some() }.advice(advice))
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
