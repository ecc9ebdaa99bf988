//! `/ws/v1/metrics`: the gauges, counted over all partitions at the time of the scrape.

use std::collections::BTreeMap;

use super::{View, nodes};
use crate::{
    actors::{directory::Listing, topology::Topology},
    domain::{
        app::App,
        queue::Queue,
        resources::{Resource, ResourceType, clamp},
        types::AppState,
    },
    messages::{
        event::{EventCounters, EventStatus},
        partition::ListUnconfirmed,
        rm::RmState,
    },
    metrics::{EventStorePicture, EventsPicture, Picture, QueuePicture},
    si::outward,
};

/// `Content-Type` of the exposition.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// What the gauges show.
pub fn picture(views: &[View]) -> Picture {
    let mut picture = Picture::default();
    for view in views {
        let partition = view.partition();
        for node in nodes::rows(view) {
            picture.nodes += 1;
            picture.draining_nodes += i64::from(!node.schedulable());
        }
        for (kind, buckets) in nodes::by_bucket(view) {
            let counts = picture.node_usage.entry(kind.to_owned()).or_default();
            for (count, nodes) in counts.iter_mut().zip(buckets) {
                *count += nodes.len() as i64;
            }
        }
        let apps = || partition.app_by_id.values().filter_map(|ix| partition.apps.get(ix.ix()));
        count(apps(), &mut picture.applications);
        for queue in partition.queue_by_path.values().filter_map(|ix| partition.queues.get(ix.ix())) {
            let mut shown = queue_picture(queue);
            count(queue.apps.iter().filter_map(|ix| partition.apps.get(ix.ix())), &mut shown.applications);
            picture.queues.push(shown);
        }
    }
    picture
}

/// Adds what shims have not confirmed; a partition that just stopped has nothing.
pub async fn unconfirmed(listing: &Listing, picture: &mut Picture) {
    let asked = listing.partitions.iter().map(|entry| entry.addr.send(ListUnconfirmed));
    for row in futures::future::join_all(asked).await.into_iter().flatten().flatten() {
        *picture.unconfirmed.entry(outward::termination(row.release.termination).as_str_name()).or_default() += 1;
        picture.oldest_unconfirmed = picture.oldest_unconfirmed.max(row.age.0 as f64 / 1e9);
    }
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
pub fn events(status: &EventStatus) -> EventsPicture {
    let counters = &status.counters;
    let get = EventCounters::get;
    EventsPicture {
        created: get(&counters.processed) + get(&counters.discarded),
        processed: get(&counters.processed),
        stored: get(&counters.stored),
        not_stored: get(&counters.not_stored),
        collected: get(&counters.collected),
        streams: status.streams as u64,
        streams_cut: get(&counters.streams_cut),
        store: status.store.as_ref().map(|store| EventStorePicture {
            written: get(&counters.store_written),
            lost: get(&counters.store_lost),
            failures: get(&counters.store_failures),
            failing: store.failing.is_some(),
            bytes: store.bytes,
            waiting: store.waiting as u64,
        }),
    }
}

fn queue_picture(queue: &Queue) -> QueuePicture {
    let amounts = |resource: Option<&Resource>| {
        let named = |(kind, amount): (&ResourceType, _)| (kind.into(), clamp(amount));
        resource.map_or_else(Vec::new, |resource| resource.iter().map(named).collect())
    };
    let resources = [
        ("guaranteed", queue.guaranteed.as_ref()),
        ("max", queue.max.as_ref()),
        ("allocated", Some(&queue.allocated)),
        ("pending", Some(&queue.pending)),
        ("preempting", Some(&queue.preempting)),
    ];
    QueuePicture {
        path: queue.path.to_string(),
        applications: BTreeMap::new(),
        resources: resources.map(|(state, resource)| (state, amounts(resource))).into(),
        max_running: queue.max_applications,
    }
}

fn count<'a>(apps: impl Iterator<Item = &'a App>, counts: &mut BTreeMap<&'static str, i64>) {
    for app in apps {
        *counts.entry(label(app.state)).or_default() += 1;
    }
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
