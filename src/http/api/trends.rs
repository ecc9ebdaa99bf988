//! `/api/v1/partition/{p}/trends`: what a partition, queue, user, group or node had, might have and waited for over a while.
//!
//! Samples of queues, users and groups are kept in memory since the start of the server; what a node had is told by the
//! log of events. What was used before is in the history of usage.

mod node;
pub mod parameters;
pub mod rows;
pub mod sample;
pub mod series;

use std::collections::BTreeMap;

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path},
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::timeout;

use self::{
    parameters::{Of, Wanted},
    series::{Measure, Subject, Told},
};
use super::{events::sent, find_partition, unanswered};
use crate::{
    actors::directory::PATIENCE,
    domain::types::Nanos,
    http::{
        operation::{one_of, text},
        problem::Problem,
        route::{Access, Route},
        ws_v1::{
            RestState,
            reply::{self, Reply},
            time_text,
        },
    },
    messages::partition::GetSnapshot,
};

/// The application's data has to hold a [`RestState`].
pub(super) fn routes() -> Vec<Route> {
    vec![
        Access::Viewer
            .get("/api/v1/partition/{partition}/trends")
            .to(trends, "What a partition, queue, user, group or node had and waited for over a while")
            .query("of", one_of(&Of::ALL.map(|(name, _)| name)), "whose")
            .query("name", text(), "its name; not for a partition")
            .query("queue", text(), "for a user or group: in this queue and those below; left out: in all")
            .query("since", text(), "from this time on: RFC 3339, or 10m for ten minutes ago; left out: for an hour")
            .query("until", text(), "up to this time, now at the latest")
            .query("step", text(), "in steps of this length, such as 1m; there are 2,000 at most")
            .gives::<Shown>(200)
            .problems(&[400, 404, 503]),
    ]
}

type Values = BTreeMap<String, Vec<Option<i64>>>;

/// The answer: a value for each step, null where it is not known or where there is none. Of amounts and asks it is the
/// highest within the step, of `guaranteed` and `max` the last.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Trends")]
pub struct Shown {
    /// Beginning of the first step and end of each, in milliseconds since 1970-01-01 UTC.
    times: Vec<i64>,
    /// From when on samples are known; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<String>,
    /// There are more queues, users, groups and values of the partition than have samples: those that use most have them.
    #[serde(rename = "leftOut", skip_serializing_if = "std::ops::Not::not")]
    left_out: bool,
    /// Memory in bytes, vcore in thousandths.
    used: Values,
    pending: Values,
    guaranteed: Values,
    max: Values,
    /// Asks that waited, by the code of their reason.
    waiting: Values,
}

async fn trends(
    state: Data<RestState>,
    partition: Path<String>,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let wanted = Wanted::read(&request)?;
    let times = wanted.times();
    let entry = find_partition(&state.topology.directory.get(), &partition)?;
    let shown = |told: Told| reply::send(&request, Reply::json(&shown(&times, told)));
    let unknown = |what: &str, name: &str| {
        let detail = format!("{what} '{name}' not found in partition '{}'", entry.shown);
        Problem::new(StatusCode::NOT_FOUND, detail)
    };
    let subject = match wanted.of {
        Of::Partition => Subject::Queue("root".into()),
        Of::Queue => Subject::Queue(wanted.name.as_str().into()),
        Of::User => Subject::User(wanted.name.as_str().into(), wanted.queue.into()),
        Of::Group => Subject::Group(wanted.name.as_str().into(), wanted.queue.into()),
        Of::Node => {
            let snapshot = entry.addr.send(GetSnapshot).await.map_err(unanswered)?;
            let rows = &snapshot.partition;
            let node = rows
                .node_by_id
                .get(&*wanted.name)
                .map(|ix| &rows.nodes[*ix])
                .ok_or_else(|| unknown("node", &wanted.name))?;
            let used = node.placed().plus(&node.occupied);
            let known = node::Known {
                partition: &entry.internal,
                id: &wanted.name,
                used: &used,
                capacity: &node.capacity,
                resizes: &node.resizes,
            };
            // The log is read for few at a time.
            let _place = sent::place(&request).await?;
            let steps = timeout(PATIENCE, node::read(&state.topology.events, &known, &times)).await;
            let steps = steps.map_err(|_| {
                let detail = format!(
                    "the log of events was not read within {PATIENCE:?}: ask for a shorter while, or try again"
                );
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
            })?;
            let steps = steps.map_err(|error| match error {
                Some(error) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
                None => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the event system has stopped"),
            })?;
            return Ok(shown(Told { steps, ..Told::default() }));
        }
    };
    let told = state.trends.read(&entry.internal, &subject, &times);
    // One that went has samples still.
    if told.steps.is_empty()
        && let Subject::Queue(queue) | Subject::User(_, queue) | Subject::Group(_, queue) = &subject
    {
        let snapshot = entry.addr.send(GetSnapshot).await.map_err(unanswered)?;
        if !snapshot.partition.queue_by_path.contains_key(&**queue) {
            return Err(unknown("queue", queue));
        }
    }
    Ok(shown(told))
}

fn shown(times: &[Nanos], told: Told) -> Shown {
    let mut by: BTreeMap<Measure, Values> = BTreeMap::new();
    for ((measure, name), values) in told.steps {
        by.entry(measure).or_default().insert(name.to_string(), values);
    }
    let mut take = |measure| by.remove(&measure).unwrap_or_default();
    Shown {
        times: times.iter().map(|time| time.0 / 1_000_000).collect(),
        sampled: told.since.map(time_text),
        left_out: told.left_out,
        used: take(Measure::Used),
        pending: take(Measure::Pending),
        guaranteed: take(Measure::Guaranteed),
        max: take(Measure::Max),
        waiting: take(Measure::Waiting),
    }
}
