//! `/ws/v1/metrics`: the gauges, counted over all partitions at the time of the scrape.

use std::{collections::BTreeSet, sync::Arc};

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web::Data,
};

use super::{
    chosen::Chosen,
    extensions, nodes,
    reply::{self, COMPRESS_FROM, Failure, gzip, takes_gzip},
    state::RestState,
};
use crate::{
    actors::topology::Topology,
    domain::{
        partition::Tables,
        queue::Queue,
        resources::{Resource, ResourceType, clamp},
        types::{AppState, Nanos},
    },
    http::long::{self, Asker, Shared},
    messages::{
        event::{EventCounters, EventStatus, GetEventStatus},
        partition::UnconfirmedSums,
        rm::RmState,
    },
    metrics::{Amounts, EventGauges, EventStoreGauges, Gauges, QueueGauges, openmetrics},
    si::outward,
};

/// `Content-Type` of the exposition.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// The answers to scrapes that are being made, which those get that come meanwhile: by whether they are OpenMetrics, and compressed.
#[derive(Debug, Default)]
pub struct Scrapes([[Shared<Text>; 2]; 2]);

/// The answer to a scrape.
#[derive(Debug)]
struct Text {
    content_type: &'static str,
    body: Vec<u8>,
    compressed: bool,
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// Answers a scrape. Those that come at the same time are answered with the same text.
pub async fn answer(req: &HttpRequest, state: &Data<RestState>) -> HttpResponse {
    let accepts = req.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let (open, zip) = (openmetrics::is_wanted(accepts), takes_gzip(req));
    match state.scrapes.0[usize::from(open)][usize::from(zip)].get(async || text(state, open, zip).await).await {
        Ok(text) => reply::send_made(req, text.content_type, text.compressed, long::body(text)),
        Err(failure) => reply::send(req, failure.into()),
    }
}

async fn text(state: &RestState, open: bool, zip: bool) -> Result<Text, Failure> {
    let rows = |tables: &Vec<Arc<Tables>>| tables.iter().map(|all| all.nodes().count() + all.queues().count()).sum();
    let (tables, turn) = Asker::scraping().turn(async || Ok::<_, Failure>(state.tables().await), rows).await?;
    let chosen = Chosen::of(&state.settings());
    let count = move || {
        let gauges = gauges(&tables, &chosen);
        let shown: BTreeSet<String> = gauges.queues.iter().map(|queue| queue.path.clone()).collect();
        (gauges, shown)
    };
    let (mut gauges, shown) = turn.make(count).await?;
    extensions::add(state, &shown, &mut gauges).await;
    gauges.sessions = sessions(&state.topology);
    gauges.events = state.topology.events.send(GetEventStatus).await.ok().as_ref().map(events);
    let metrics = state.metrics.clone();
    let write = move || {
        let text = metrics.text(&gauges).map_err(|error| Failure {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: format!("the metrics could not be written: {error}"),
        })?;
        let (content_type, body) = match open {
            true => {
                let text = openmetrics::from(&String::from_utf8_lossy(&text), &metrics.exemplars);
                (openmetrics::CONTENT_TYPE, text.into_bytes())
            }
            false => (CONTENT_TYPE, text),
        };
        let compressed = (zip && body.len() >= COMPRESS_FROM).then(|| gzip(&body)).flatten();
        Ok(match compressed {
            Some(body) => Text { content_type, body, compressed: true },
            None => Text { content_type, body, compressed: false },
        })
    };
    turn.make(write).await?
}

/// What the gauges show.
pub fn gauges(tables: &[Arc<Tables>], chosen: &Chosen) -> Gauges {
    let mut gauges = Gauges::default();
    for tables in tables {
        for node in tables.nodes() {
            gauges.nodes += 1;
            gauges.draining_nodes += i64::from(!node.schedulable());
            for (kind, bucket) in nodes::buckets(node) {
                gauges.node_usage.entry(kind.to_owned()).or_default()[bucket] += 1;
            }
        }
        for queue in tables.queues() {
            for (state, count) in applications(queue) {
                *gauges.applications.entry(state).or_default() += count;
            }
        }
        gauges.queues.extend(chosen.queues(tables).into_iter().map(queue));
    }
    gauges
}

/// Adds what shims have not confirmed.
pub fn unconfirmed(sums: &UnconfirmedSums, now: Nanos, gauges: &mut Gauges) {
    for (termination, count) in &sums.by_type {
        let kind = outward::termination(*termination).as_str_name();
        *gauges.unconfirmed.entry(kind).or_default() += i64::try_from(*count).unwrap_or(i64::MAX);
    }
    let age = sums.oldest.map_or(0.0, |oldest| now.minus(oldest).0.max(0) as f64 / 1e9);
    gauges.oldest_unconfirmed = gauges.oldest_unconfirmed.max(age);
    gauges.overdue += i64::try_from(sums.overdue).unwrap_or(i64::MAX);
}

/// How often sessions have entered each state.
pub fn sessions(topology: &Topology) -> Vec<(&'static str, u64)> {
    let states = [
        (RmState::Init, "init"),
        (RmState::Running, "running"),
        (RmState::Paused, "paused"),
        (RmState::Stopped, "stopped"),
    ];
    states.map(|(state, name)| (name, topology.entered(state) as u64)).into()
}

/// What the event system counts.
pub fn events(status: &EventStatus) -> EventGauges {
    let counters = &status.counters;
    let get = EventCounters::get;
    EventGauges {
        // While tracking is off there are none (EVT-006).
        created: get(&counters.processed),
        processed: get(&counters.processed),
        stored: get(&counters.stored),
        not_stored: get(&counters.not_stored),
        collected: get(&counters.collected),
        streams: status.streams as u64,
        streams_cut: get(&counters.streams_cut),
        store: status.store.as_ref().map(|store| EventStoreGauges {
            written: get(&counters.store_written),
            lost: get(&counters.store_lost),
            failures: get(&counters.store_failures),
            failing: store.failing.is_some(),
            bytes: store.bytes,
            waiting: store.waiting as u64,
            clock_doubted: store.doubt.is_some(),
        }),
    }
}

fn applications(queue: &Queue) -> impl Iterator<Item = (&'static str, i64)> {
    let counts = AppState::ALL.into_iter().zip(queue.states).filter(|(_, count)| *count > 0);
    counts.map(|(state, count)| (label(state), i64::from(count)))
}

fn queue(queue: &Queue) -> QueueGauges {
    let (placed, waiting) = (queue.placed(), queue.waiting());
    let resources = [
        ("guaranteed", queue.guaranteed.as_deref()),
        ("max", queue.max.as_deref()),
        ("allocated", Some(&placed)),
        ("pending", Some(&waiting)),
        ("preempting", Some(&*queue.preempting)),
    ];
    QueueGauges {
        path: queue.path.to_string(),
        applications: applications(queue).collect(),
        resources: resources.map(|(state, resource)| (state, resource.map_or_else(Vec::new, amounts))).into(),
        max_running: queue.max_applications,
    }
}

/// Amounts by the name of their type.
pub fn amounts(resource: &Resource) -> Amounts {
    resource.iter().map(|(kind, amount): (&ResourceType, _)| (kind.into(), clamp(amount))).collect()
}

/// The state as a label.
const fn label(state: AppState) -> &'static str {
    match state {
        AppState::New => "new",
        AppState::Accepted => "accepted",
        AppState::Running => "running",
        AppState::Rejected => "rejected",
        AppState::Completing => "completing",
        AppState::Completed => "completed",
        AppState::Failing => "failing",
        AppState::Failed => "failed",
        AppState::Expired => "expired",
        AppState::Resuming => "resuming",
    }
}
