//! Applications: live ones, rejected ones and ended ones (REST 5.4).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    View,
    allocations::{Allocations, Requests},
    checks::AppList,
    json::{Amounts, by_instance_type, unset},
};
use crate::domain::{
    alloc::{Alloc, Phase},
    app::App,
    types::{AppState, QueueIx},
};

/// An application (REST 5.4).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Application")]
#[serde(rename_all = "camelCase")]
pub struct ApplicationView<'a> {
    #[serde(rename = "applicationID")]
    id: &'a str,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    used_resource: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    max_used_resource: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pending_resource: Amounts,
    partition: &'a str,
    queue_name: &'a str,
    #[serde(skip_serializing_if = "unset")]
    submission_time: i64,
    #[serde(skip_serializing_if = "unset")]
    finished_time: i64,
    #[serde(skip_serializing_if = "Requests::is_empty")]
    #[schemars(with = "Vec<super::allocations::RequestView<'a>>")]
    requests: Requests<'a>,
    #[serde(skip_serializing_if = "Allocations::is_empty")]
    #[schemars(with = "Vec<super::allocations::AllocationView<'a>>")]
    allocations: Allocations<'a>,
    #[serde(skip_serializing_if = "unset")]
    application_state: &'a str,
    #[serde(skip_serializing_if = "unset")]
    user: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<&'a str>,
    #[serde(skip_serializing_if = "unset")]
    rejected_message: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state_log: Vec<StateView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    placeholder_data: Vec<PlaceholderView<'a>>,
    #[serde(skip_serializing_if = "unset")]
    has_reserved: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reservations: Vec<&'a str>,
    #[serde(skip_serializing_if = "unset")]
    max_request_priority: i32,
    /// Milliseconds, unlike the other times; 0 before Running (REST quirk C: always there).
    start_time: i64,
    resource_history: HistoryView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_deadline: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "State")]
#[serde(rename_all = "camelCase")]
struct StateView {
    #[serde(skip_serializing_if = "unset")]
    time: i64,
    application_state: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Placeholder")]
#[serde(rename_all = "camelCase")]
struct PlaceholderView<'a> {
    #[serde(skip_serializing_if = "unset")]
    task_group_name: &'a str,
    #[serde(skip_serializing_if = "unset")]
    count: u64,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    min_resource: Amounts,
    #[serde(skip_serializing_if = "unset")]
    replaced: u64,
    #[serde(rename = "timedout", skip_serializing_if = "unset")]
    timed_out: u64,
}

#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "History")]
#[serde(rename_all = "camelCase")]
struct HistoryView<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    resource_usage: BTreeMap<&'a str, Amounts>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    preempted_resource: BTreeMap<&'a str, Amounts>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    placeholder_resource: BTreeMap<&'a str, Amounts>,
}

/// The view of an application that is or was in this partition.
pub fn application<'a>(view: &'a View, app: &'a App, list: AppList) -> ApplicationView<'a> {
    let partition = view.partition();
    let live = list == AppList::Active;
    let rows = |live: bool| app.by_seq.values().filter(move |_| live).filter_map(|ix| partition.allocs.get(*ix));
    let waits = |row: &&Alloc| matches!(row.phase, Phase::Pending | Phase::AwaitingShim);
    let requests = Requests::new(&app.id, rows(live).filter(waits));
    let allocations = Allocations::new(partition, rows(live).filter(|row| row.is_allocated()));
    let mut reservations: Vec<&str> =
        app.reservations.iter().filter_map(|ix| Some(&*partition.allocs.get(*ix)?.spec.key)).collect();
    reservations.sort_unstable();
    // Ended applications have handed their history to the log, so that lists of them stay small (REST 5.4).
    let resource_history = if live {
        HistoryView {
            resource_usage: by_instance_type(&app.history.normal),
            preempted_resource: by_instance_type(&app.history.preempted),
            placeholder_resource: by_instance_type(&app.history.placeholder),
        }
    } else {
        HistoryView::default()
    };
    ApplicationView {
        id: &app.id,
        used_resource: Amounts::from(&app.placed()[0]),
        max_used_resource: Amounts::from(&*app.max_used),
        pending_resource: Amounts::from(&app.waiting()),
        partition: &view.shown,
        queue_name: &app.queue_path,
        submission_time: app.submission.0,
        finished_time: app.finished.map_or(0, |at| at.0),
        requests,
        allocations,
        application_state: app.state.name(),
        user: &app.user,
        groups: app.groups.iter().map(|group| &**group).collect(),
        rejected_message: app.rejected.as_deref().unwrap_or(""),
        state_log: app
            .state_log
            .iter()
            .map(|(time, state)| StateView { time: time.0, application_state: state.name() })
            .collect(),
        placeholder_data: app
            .gang
            .task_groups
            .iter()
            .map(|(name, group)| PlaceholderView {
                task_group_name: name,
                count: group.count,
                min_resource: Amounts::from(&*group.min),
                replaced: group.replaced,
                timed_out: group.timed_out,
            })
            .collect(),
        has_reserved: !reservations.is_empty(),
        reservations,
        max_request_priority: partition.priority_of_app(app),
        start_time: app.started.map_or(0, |at| at.0 / 1_000_000),
        resource_history,
        backoff_deadline: app.backoff_until.map(super::time_text),
    }
}

/// A live application by id; in a given queue, or anywhere.
pub fn find<'a>(view: &'a View, queue: Option<QueueIx>, id: &str) -> Option<ApplicationView<'a>> {
    let partition = view.partition();
    let app = partition.apps.get(*partition.app_by_id.get(id)?)?;
    queue.is_none_or(|queue| app.queue == queue).then(|| application(view, app, AppList::Active))
}

/// The live applications of a queue, of a status where one is given, by id.
pub fn of_queue(view: &View, queue: QueueIx, status: Option<AppState>) -> impl Iterator<Item = ApplicationView<'_>> {
    let partition = view.partition();
    let rows = partition.queues.get(queue).map(|queue| &queue.apps);
    let mut apps: Vec<&App> = rows.into_iter().flatten().filter_map(|ix| partition.apps.get(*ix)).collect();
    apps.retain(|app| status.is_none_or(|status| app.state == status));
    apps.sort_by(|a, b| a.id.cmp(&b.id));
    apps.into_iter().map(|app| application(view, app, AppList::Active))
}

/// One of the three lists of a partition, by id; `status` filters the active ones.
pub fn each(view: &View, list: AppList, status: Option<AppState>) -> impl Iterator<Item = ApplicationView<'_>> {
    let partition = view.partition();
    let live = (list == AppList::Active).then(|| partition.app_by_id.values());
    let live = live.into_iter().flatten().filter_map(|ix| partition.apps.get(*ix));
    let live = live.filter(move |app| status.is_none_or(|status| app.state == status));
    let rejected = (list == AppList::Rejected).then(|| partition.rejected.values()).into_iter().flatten();
    let ended = (list == AppList::Completed).then(|| partition.terminated.values()).into_iter().flatten();
    let kept = rejected.chain(ended).map(|app| &**app);
    live.chain(kept).map(move |app| application(view, app, list))
}
