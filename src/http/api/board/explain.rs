//! One application: what it has, what it waits for and why, and the limits on its way up.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::why::Reason;
use crate::{
    domain::{
        app::App,
        partition::{Explainer, Waiting},
    },
    http::ws_v1::{
        View,
        json::{Amounts, unset},
        state::now,
        time_text,
    },
};

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
    tags: &'a BTreeMap<String, String>,
    state: &'static str,
    state_log: Vec<Entered>,
    submitted: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    allocations: usize,
    used: Amounts,
    pending: Amounts,
    task_groups: Vec<TaskGroup<'a>>,
    waiting: Vec<Group>,
    /// Its queue and those above, root last.
    queues: Vec<Level<'a>>,
    /// What its user and group may still use in its queue; left out where nothing limits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_available: Option<Amounts>,
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
    live: u64,
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
    log: Vec<Entry>,
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
}

/// Why the first ask of a live application waits.
pub fn first_reason(view: &View, id: &str, paused: bool) -> Option<String> {
    let partition = view.partition();
    let ix = *partition.app_by_id.get(id)?;
    let waiting = Explainer::new(partition).application(ix, now());
    waiting.first().map(|waiting| Reason::of(waiting, paused).text)
}

/// Explains a live application, else the rejected or the last ended one of this id.
pub fn explain<'a>(view: &'a View, id: &str, paused: bool) -> Option<Explained<'a>> {
    let partition = view.partition();
    let live = partition.app_by_id.get(id).copied();
    let app: &App = match live {
        Some(ix) => partition.apps.get(ix.ix())?,
        None => partition.rejected.get(id).or_else(|| {
            let ended = partition.terminated.iter().filter(|((name, _), _)| **name == *id);
            ended.map(|(_, app)| app).next_back()
        })?,
    };
    let waiting = live.map(|ix| Explainer::new(partition).application(ix, now())).unwrap_or_default();
    let mut queues = Vec::new();
    let mut level = live.map(|_| app.queue);
    while let Some(queue) = level.and_then(|ix| partition.queues.get(ix.ix())) {
        queues.push(Level {
            queue: &queue.path,
            used: Amounts::from(&queue.allocated),
            guaranteed: Amounts::from(queue.guaranteed.as_ref()),
            max: Amounts::from(queue.max.as_ref()),
            running: queue.running + queue.allocating.len() as u64,
            max_running: queue.max_applications,
        });
        level = queue.parent;
    }
    let left = live.and_then(|ix| partition.user_headroom(ix));
    let group = |waiting: Waiting| {
        let row = &partition.allocs[waiting.first.ix()];
        Group {
            asks: waiting.asks,
            first: row.spec.key.to_string(),
            resource: Amounts::from(&*waiting.resource),
            priority: row.spec.priority,
            placeholder: waiting.placeholder,
            task_group: waiting.task_group.to_string(),
            since: time_text(waiting.since),
            reason: Reason::of(&waiting, paused),
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
    Some(Explained {
        id: &app.id,
        partition: &view.shown,
        queue_name: &app.queue_path,
        user: &app.user,
        groups: app.groups.iter().map(|group| &**group).collect(),
        tags: &app.tags,
        state: app.state.name(),
        state_log: app
            .state_log
            .iter()
            .map(|(at, state)| Entered { at: time_text(*at), state: state.name() })
            .collect(),
        submitted: time_text(app.submission),
        message: app.rejected.as_deref(),
        allocations: app.allocs.len(),
        used: Amounts::from(&app.allocated.plus(&app.allocated_placeholders)),
        pending: Amounts::from(&app.pending),
        task_groups: app
            .task_groups
            .iter()
            .map(|(name, group)| TaskGroup {
                name,
                placeholders: group.count,
                live: group.live,
                replaced: group.replaced,
                timed_out: group.timed_out,
            })
            .collect(),
        waiting: waiting.into_iter().map(group).collect(),
        queues,
        user_available: left.as_ref().map(Amounts::from),
    })
}
