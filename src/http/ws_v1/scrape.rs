//! `/ws/v1/metrics`: the gauges, counted over all partitions at the time of the scrape.

use std::sync::Arc;

use super::{chosen::Chosen, nodes};
use crate::{
    actors::topology::Topology,
    domain::{
        partition::Tables,
        queue::Queue,
        resources::{Resource, ResourceType, clamp},
        types::{AppState, Nanos},
    },
    messages::{
        event::{EventCounters, EventStatus},
        partition::UnconfirmedSums,
        rm::RmState,
    },
    metrics::{Amounts, EventGauges, EventStoreGauges, Gauges, QueueGauges},
    si::outward,
};

/// `Content-Type` of the exposition.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

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
        created: get(&counters.processed) + get(&counters.discarded),
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
        ("guaranteed", queue.guaranteed.as_ref()),
        ("max", queue.max.as_ref()),
        ("allocated", Some(&placed)),
        ("pending", Some(&waiting)),
        ("preempting", Some(&queue.preempting)),
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
