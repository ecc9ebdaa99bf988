//! What `/ws/v1/metrics` shows beyond the reference: mailboxes, slices, callbacks, streams, and why asks wait.

use std::collections::BTreeMap;

use super::{
    View,
    state::{RestState, now},
};
use crate::{
    domain::partition::Explainer,
    http::api::board::why,
    messages::{
        partition::Observe,
        rm::{Info, RmState},
    },
    metrics::{ManagerPicture, OwnPicture, PartitionPicture},
};

/// Asks all partitions and sessions.
pub async fn picture(state: &RestState, views: &[View]) -> OwnPicture {
    let mut own = OwnPicture { healthy: state.health.last().map(|last| last.is_healthy()), ..OwnPicture::default() };
    for handle in state.topology.known() {
        let Ok(info) = handle.addr.send(Info).await else { continue };
        // Stopped ones stay known for a while; they have nothing to show.
        if matches!(info.state, RmState::Running | RmState::Paused) {
            let budget = handle.view.load().shared.as_ref().map(|shared| shared.budget.clone());
            let row = ManagerPicture {
                running: info.state == RmState::Running,
                in_flight: budget.as_ref().map_or(0, |budget| budget.in_flight()),
                undelivered: budget.as_ref().map_or(0, |budget| budget.undelivered()),
                buffered: info.buffered as u64,
                streams: info.streams.len() as u64,
            };
            own.managers.insert(info.id.to_string(), row);
        }
    }
    for entry in &state.listing().partitions {
        let Ok(talk) = entry.addr.send(Observe).await else { continue };
        let [applications, queues, nodes] = talk.conversations.map(|count| count as u64);
        let running = own.managers.get(&*entry.rm).is_some_and(|row| row.running);
        let view = views.iter().find(|view| view.shown == entry.shown);
        let row = PartitionPicture {
            waiting_batches: talk.waiting_batches as u64,
            slices: talk.slices,
            decisions: talk.decisions,
            longest_slice: talk.longest_slice,
            conversations: [("application", applications), ("queue", queues), ("node", nodes)],
            waiting: view.map(|view| waiting(view, !running)).unwrap_or_default(),
        };
        own.partitions.insert(entry.shown.to_string(), row);
    }
    own
}

fn waiting(view: &View, paused: bool) -> BTreeMap<&'static str, u64> {
    let mut explainer = Explainer::new(view.partition());
    let at = now();
    // So that an alert on them has something to compare with from the start.
    let mut counts: BTreeMap<&'static str, u64> =
        ["nodes", "queueQuota", "userQuota", "tooLarge"].into_iter().map(|code| (code, 0)).collect();
    for app in view.partition().app_by_id.values() {
        for waiting in explainer.application(*app, at) {
            *counts.entry(why::code(&waiting, paused)).or_default() += waiting.asks;
        }
    }
    counts
}
