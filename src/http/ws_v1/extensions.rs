//! What `/ws/v1/metrics` shows beyond the reference: mailboxes, slices, callbacks, streams, and why asks wait.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use tokio::time::timeout;

use super::{
    scrape::{self, amounts},
    state::{RestState, now},
};
use crate::{
    messages::{leaders::ClusterStatus, partition::Observe, rm::RmState},
    metrics::{ClusterGauges, ExtensionGauges, Gauges, GroupGauges, LogGauges, ManagerGauges, PartitionGauges},
};

/// A scrape does not wait longer for the cluster.
const PATIENCE: Duration = Duration::from_millis(500);

/// Asks all partitions and sessions. `shown`: queues that have metrics of their own.
pub async fn add(state: &RestState, shown: &BTreeSet<String>, gauges: &mut Gauges) {
    let mut own = ExtensionGauges {
        healthy: state.health.last().map(|last| last.is_healthy()),
        journal_faults: state.counts_of_faults(),
        logs_unread: state.topology.logs().map(|logs| logs.faults().len() as u64),
        audit_failing: state.audit().map(|standing| standing.failing.is_some()),
        ..ExtensionGauges::default()
    };
    let asked = state.topology.known().into_iter().map(async |handle| Some((handle.info().await?, handle)));
    for (info, handle) in join_all(asked).await.into_iter().flatten() {
        // Those that ended themselves stay known for a while, and have nothing to show; one that was given up is missed.
        if matches!(info.state, RmState::Running | RmState::Paused) || info.was_given_up() {
            let view = handle.view.load_full();
            let budget = view.shared.as_ref().map(|shared| shared.budget.clone());
            let row = ManagerGauges {
                running: info.state == RmState::Running,
                in_flight: budget.as_ref().map_or(0, |budget| budget.in_flight()),
                undelivered: budget.as_ref().map_or(0, |budget| budget.undelivered()),
                buffered: info.buffered as u64,
                streams: info.streams.len() as u64,
                log: view.log.as_ref().map(|log| LogGauges { failing: view.failing.is_some(), behind: log.behind() }),
            };
            own.managers.insert(info.id.to_string(), row);
        }
    }
    let mut waiting = state.waiting.get(&state.topology).await;
    for entry in &state.listing().led().partitions {
        let Ok(talk) = entry.addr.send(Observe).await else { continue };
        scrape::unconfirmed(&talk.unconfirmed, now(), gauges);
        let [applications, queues, nodes] = talk.conversations.map(|count| count as u64);
        let counted = waiting.remove(&*entry.shown).unwrap_or_default();
        let row = PartitionGauges {
            waiting_batches: talk.waiting_batches as u64,
            slices: talk.slices,
            decisions: talk.decisions,
            longest_slice: talk.longest_slice,
            conversations: [("application", applications), ("queue", queues), ("node", nodes)],
            waits: talk.waits.map(|count| count as u64),
            waiting: counted.reasons,
            waiting_of_queues: counted
                .queues
                .into_iter()
                .filter(|((path, _), _)| shown.contains(&**path))
                .map(|((path, reason), asks)| (path.to_string(), reason, asks))
                .collect(),
            users: counted.users.iter().map(|(name, used)| (name.to_string(), amounts(used))).collect(),
        };
        own.partitions.insert(entry.shown.to_string(), row);
    }
    own.cluster = match state.topology.leaders() {
        Some(leaders) => timeout(PATIENCE, leaders.status()).await.ok().and_then(Result::ok).map(|status| of(&status)),
        None => None,
    };
    gauges.extensions = Some(own);
}

fn of(status: &ClusterStatus) -> ClusterGauges {
    let groups = status.resource_managers.iter().map(|group| {
        let row = GroupGauges {
            led: group.led,
            leads: group.role == "leads",
            broken: group.fault.is_some(),
            behind: group.applied.map(|applied| group.index.saturating_sub(applied)),
            lag: group.lag,
            bytes: group.bytes,
            max_bytes: group.max_bytes,
        };
        (group.rm.clone(), row)
    });
    ClusterGauges {
        etcd_up: status.etcd.trouble.is_none(),
        etcd_bytes: status.etcd.bytes,
        servers: status.servers.iter().filter(|server| server.state == "there").count() as u64,
        groups: groups.collect(),
    }
}
