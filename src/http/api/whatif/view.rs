//! The answer of `POST /api/v1/whatif`, as it is sent and as `callboard whatif` reads it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    domain::{
        Partition,
        partition::{
            Explainer,
            whatif::{Fate, Outcome, Pair, QueueFate, Waits, Whole},
        },
        resources::Resource,
        types::{AppState, Nanos},
    },
    http::api::{board::why::Reason, plan::view::Warning},
};

/// Applications and queues that are listed at most.
const LISTED: usize = 1_000;
/// Applications of which is told why they wait then.
const EXPLAINED: usize = 20;

/// Amounts by resource type: memory in bytes, vcore in milli.
pub type Amounts = BTreeMap<String, i64>;

/// What a change would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf {
    /// The partition.
    pub partition: String,
    /// How far ahead was to be looked.
    pub for_seconds: f64,
    /// How far ahead was looked in both runs.
    pub seen_seconds: f64,
    /// Both runs came to their end; else there was no more time, and figures are those until then.
    pub complete: bool,
    /// What the ends of allocations rest on.
    pub ends: String,
    /// How it was, where it is run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedView>,
    /// The configuration lines that would change, each with its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<String>,
    /// What of the configuration would be taken and does not do what it looks like, with its place where it has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// What of the change was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// The whole partition.
    pub whole: Both<WholeView>,
    /// Applications that would fare otherwise: those that come with the change, those that would fare worse, then the others.
    pub applications: Vec<ApplicationView>,
    /// Applications that are not listed.
    #[serde(default)]
    pub more_applications: usize,
    /// Queues that would fare otherwise.
    pub queues: Vec<QueueView>,
    /// Queues that are not listed.
    #[serde(default)]
    pub more_queues: usize,
}

/// Without the change, and with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WithoutAndWith_{T}")]
pub struct Both<T> {
    /// As it is without the change.
    pub without: T,
    /// As it would be with the change.
    pub with: T,
}

impl<T> Both<T> {
    fn of<U>(pair: Pair<U>, view: impl Fn(U) -> T) -> Both<T> {
        Both { without: view(pair.without), with: view(pair.with) }
    }
}

/// What was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhatIfRefused")]
pub struct Refused {
    /// Application, ask or node.
    pub what: String,
    /// Why, as it is shown to people.
    pub reason: String,
}

/// The whole partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhatIfWhole")]
#[serde(rename_all = "camelCase")]
pub struct WholeView {
    /// Allocations in the end, placeholders included.
    pub allocations: u64,
    /// Asks that wait in the end.
    pub waiting: u64,
    /// Asks that were placed on the way.
    pub placed: u64,
    /// Allocations that were preempted on the way.
    pub preempted: u64,
    /// Allocated in the end.
    pub used: Amounts,
    /// Of all nodes in the end.
    pub capacity: Amounts,
    /// Allocated on average over the time.
    pub average_used: Amounts,
    /// Of all nodes, on average.
    pub average_capacity: Amounts,
    /// How long asks that were placed on the way had waited.
    pub waits: WaitsView,
}

/// How long asks that were placed had waited; placeholders are among them, and what took their places is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhatIfWaits")]
#[serde(rename_all = "camelCase", default)]
pub struct WaitsView {
    /// Number of asks.
    pub asks: u64,
    /// Half of them waited so long at most.
    pub p50_seconds: f64,
    /// Nine of ten of them.
    pub p90_seconds: f64,
    /// All of them.
    pub longest_seconds: f64,
}

/// A recorded time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhatIfRecorded")]
#[serde(rename_all = "camelCase")]
pub struct RecordedView {
    /// From when.
    pub from: String,
    /// Until when.
    pub to: String,
    /// Asks that were placed.
    pub placed: u64,
    /// How long they had waited.
    pub waits: WaitsView,
}

/// An application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhatIfFate")]
#[serde(rename_all = "camelCase")]
pub struct ApplicationView {
    /// Id of the application.
    #[serde(rename = "applicationID")]
    pub application_id: String,
    /// Full path of the queue.
    pub queue_name: String,
    /// Name of the user who submitted it.
    pub user: String,
    /// It comes with the change.
    #[serde(default)]
    pub new: bool,
    /// State in the end; `null`: it has ended, or is not there.
    pub state: Both<Option<String>>,
    /// Allocations in the end.
    pub allocations: Both<u64>,
    /// Asks that wait in the end.
    pub waiting: Both<u64>,
    /// Allocations that were preempted on the way.
    pub preempted: Both<u64>,
    /// Asks that are placed only without the change, and only with it.
    pub placed_only: Both<u64>,
    /// Asks that are placed in any case, and sooner with it.
    pub sooner: u64,
    /// And later.
    pub later: u64,
    /// Seconds until the first ask is placed; `null`: none is.
    pub first_seconds: Both<Option<f64>>,
    /// Why its first ask that waits in the end with the change does so; of the first applications only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WhatIfQueue")]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// Full path of the queue.
    pub queue_name: String,
    /// It is there in the end.
    pub there: Both<bool>,
    /// Allocated in the end.
    pub used: Both<Amounts>,
    /// Wanted by asks that wait in the end.
    pub pending: Both<Amounts>,
    /// Applications that run in the end.
    pub running: Both<u64>,
    /// How long its own asks that were placed on the way had waited.
    pub waits: Both<WaitsView>,
}

impl ApplicationView {
    /// It loses by the change.
    pub fn fares_worse(&self) -> bool {
        self.placed_only.without > 0
            || self.later > 0
            || self.preempted.with > self.preempted.without
            || self.waiting.with > self.waiting.without && !self.new
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

fn amounts(resource: Resource) -> Amounts {
    let all = resource.named().into_iter();
    all.filter(|(_, amount)| *amount != 0).map(|(kind, amount)| (kind.to_owned(), amount)).collect()
}

impl From<Whole> for WholeView {
    fn from(whole: Whole) -> WholeView {
        let Whole { allocations, waiting, placed, preempted, .. } = whole;
        WholeView {
            allocations,
            waiting,
            placed,
            preempted,
            used: amounts(whole.used),
            capacity: amounts(whole.capacity),
            average_used: amounts(whole.average_used),
            average_capacity: amounts(whole.average_capacity),
            waits: whole.waits.into(),
        }
    }
}

impl From<Waits> for WaitsView {
    fn from(waits: Waits) -> WaitsView {
        let Waits { asks, p50, p90, longest } = waits;
        WaitsView { asks, p50_seconds: seconds(p50), p90_seconds: seconds(p90), longest_seconds: seconds(longest) }
    }
}

fn application(fate: Fate) -> ApplicationView {
    let number = |pair: Pair<u64>| Both::of(pair, |count| count);
    let state = |state: Option<AppState>| state.map(|state| state.name().to_owned());
    ApplicationView {
        application_id: fate.app.to_string(),
        queue_name: fate.queue.to_string(),
        user: fate.user.to_string(),
        new: fate.new,
        state: Both::of(fate.state, state),
        allocations: number(fate.allocations),
        waiting: number(fate.waiting),
        preempted: number(fate.preempted),
        placed_only: number(fate.only),
        sooner: fate.sooner,
        later: fate.later,
        first_seconds: Both::of(fate.first, |time| time.map(seconds)),
        why: None,
    }
}

fn queue(fate: QueueFate) -> QueueView {
    QueueView {
        queue_name: fate.queue.to_string(),
        there: Both::of(fate.there, |there| there),
        used: Both::of(fate.used, amounts),
        pending: Both::of(fate.pending, amounts),
        running: Both::of(fate.running, |count| count),
        waits: Both::of(fate.waits, WaitsView::from),
    }
}

fn why(partition: &Partition, app: &str, now: Nanos) -> Option<String> {
    let ix = partition.app_by_id.get(app)?;
    let waiting = Explainer::new(partition).application(*ix, now);
    waiting.first().map(|waiting| Reason::of(waiting, None).text)
}

impl WhatIf {
    /// The answer for a partition of this name, where so much time ahead was to be looked at.
    pub fn of(partition: &str, horizon: Nanos, ends: String, copy: Option<String>, outcome: Outcome) -> WhatIf {
        let mut applications: Vec<ApplicationView> = outcome.applications.into_iter().map(application).collect();
        applications.sort_by_key(|app| (!app.new, !app.fares_worse()));
        let more_applications = applications.len().saturating_sub(LISTED);
        applications.truncate(LISTED);
        let waits = applications.iter_mut().filter(|app| app.waiting.with > 0 && !outcome.cut);
        for app in waits.take(EXPLAINED) {
            app.why = why(&outcome.then, &app.application_id, outcome.at);
        }
        let more_queues = outcome.queues.len().saturating_sub(LISTED);
        let refused = outcome.refused.into_iter();
        WhatIf {
            partition: partition.to_owned(),
            for_seconds: seconds(horizon),
            seen_seconds: seconds(outcome.seen),
            complete: !outcome.cut,
            ends,
            recorded: None,
            copy,
            warnings: Vec::new(),
            refused: refused
                .map(|(what, reason)| Refused { what: what.to_string(), reason: reason.to_string() })
                .collect(),
            whole: Both::of(outcome.whole, WholeView::from),
            applications,
            more_applications,
            queues: outcome.queues.into_iter().take(LISTED).map(queue).collect(),
            more_queues,
        }
    }
}
