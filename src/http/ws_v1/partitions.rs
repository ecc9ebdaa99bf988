//! Partitions and clusters (REST 5.1, 5.2).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    View,
    json::{Amounts, unset},
};
use crate::{
    actors::directory::Listing,
    domain::{queue::Queue, types::Nanos},
};

/// A cluster, once for each partition (REST 5.1).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cluster")]
#[serde(rename_all = "camelCase")]
pub struct ClusterView<'a> {
    #[serde(skip_serializing_if = "unset")]
    start_time: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rm_build_information: Vec<&'a BTreeMap<String, String>>,
    partition: &'a str,
    cluster_name: &'static str,
}

/// One entry per partition, with the build information of its resource manager.
pub fn clusters(listing: &Listing, started: Nanos) -> Vec<ClusterView<'_>> {
    let build_information = |rm: &str| listing.rms.iter().filter(|m| *m.id == *rm).map(|m| &m.build_info).collect();
    listing
        .partitions
        .iter()
        .map(|partition| ClusterView {
            start_time: started.0,
            rm_build_information: build_information(&partition.rm),
            partition: &partition.shown,
            cluster_name: "kubernetes",
        })
        .collect()
}

/// A partition (REST 5.2).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Partition")]
#[serde(rename_all = "camelCase")]
pub struct PartitionView<'a> {
    cluster_id: &'a str,
    name: &'a str,
    capacity: CapacityView,
    node_sorting_policy: SortingView<'a>,
    preemption_enabled: bool,
    quota_preemption_enabled: bool,
    #[serde(skip_serializing_if = "unset")]
    total_nodes: usize,
    applications: BTreeMap<&'static str, usize>,
    #[serde(skip_serializing_if = "unset")]
    total_containers: u64,
    #[serde(skip_serializing_if = "unset")]
    state: &'static str,
    #[serde(skip_serializing_if = "unset")]
    last_state_transition_time: i64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Capacity")]
#[serde(rename_all = "camelCase")]
struct CapacityView {
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    capacity: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    used_capacity: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    utilization: Amounts,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sorting")]
#[serde(rename_all = "camelCase")]
struct SortingView<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    resource_weights: BTreeMap<&'a str, f64>,
}

/// The view of a partition.
pub fn partition(view: &View) -> PartitionView<'_> {
    let partition = view.partition();
    let root = partition.queues.get(partition.root);
    let used = root.map(Queue::placed).unwrap_or_default();
    let sort = &partition.conf.node_sort;
    PartitionView {
        cluster_id: &view.rm,
        name: &view.shown,
        capacity: CapacityView {
            capacity: Amounts::from(&partition.total),
            used_capacity: Amounts::from(&used),
            utilization: Amounts::percent(&used, Some(&partition.total)),
        },
        node_sorting_policy: SortingView {
            kind: sort.policy.name(),
            resource_weights: sort.weights.iter().map(|(kind, weight)| (kind.name(), *weight)).collect(),
        },
        preemption_enabled: partition.conf.preemption,
        quota_preemption_enabled: partition.conf.quota_preemption,
        total_nodes: partition.node_by_id.len(),
        applications: applications_by_state(view),
        total_containers: partition.placed(),
        state: partition.state.name(),
        last_state_transition_time: partition.state_since.0,
    }
}

/// How many applications are in each state, live, ended and rejected ones together, and the `total`.
fn applications_by_state(view: &View) -> BTreeMap<&'static str, usize> {
    let partition = view.partition();
    let live = partition.app_by_id.values().filter_map(|ix| partition.apps.get(*ix)).map(|app| app.state);
    let kept = partition.terminated.values().chain(partition.rejected.values()).map(|app| app.state);
    let mut counts: BTreeMap<&'static str, usize> = [("total", 0)].into();
    for state in live.chain(kept) {
        *counts.entry(state.name()).or_default() += 1;
        *counts.entry("total").or_default() += 1;
    }
    counts
}
