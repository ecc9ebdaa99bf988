//! Nodes (REST 5.8) and how full they are (REST 5.9).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    View,
    allocations::{Allocations, ForeignView},
    json::{Amounts, TextsView, unset},
};
use crate::domain::{alloc::Phase, node::Node};

/// A node (REST 5.8).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Node")]
#[serde(rename_all = "camelCase")]
pub struct NodeView<'a> {
    #[serde(rename = "nodeID")]
    id: &'a str,
    #[serde(skip_serializing_if = "unset")]
    host_name: &'a str,
    #[serde(skip_serializing_if = "unset")]
    rack_name: &'a str,
    #[serde(skip_serializing_if = "TextsView::is_empty")]
    attributes: TextsView<'a>,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    capacity: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    allocated: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    occupied: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    available: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    utilized: Amounts,
    #[serde(skip_serializing_if = "Allocations::is_empty")]
    #[schemars(with = "Vec<super::allocations::AllocationView<'a>>")]
    allocations: Allocations<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    foreign_allocations: Vec<ForeignView<'a>>,
    schedulable: bool,
    is_reserved: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reservations: Vec<&'a str>,
}

fn node_view<'a>(view: &'a View, node: &'a Node) -> NodeView<'a> {
    let partition = view.partition();
    let rows = |ixs: &'a [_]| ixs.iter().filter_map(|ix: &crate::domain::types::AllocIx| partition.allocs.get(*ix));
    // What waits for a predicate answer is charged but not known to anybody yet.
    let shown = rows(&node.allocs).filter(|row| row.phase != Phase::AwaitingShim);
    let allocations = Allocations::new(partition, shown);
    let (allocated, available) = (node.placed(), node.available.plus(&node.asked.amount).pruned());
    let mut reservations: Vec<&str> = rows(&node.reservations).map(|row| &*row.spec.key).collect();
    reservations.sort_unstable();
    NodeView {
        id: node.id(),
        host_name: node.spec.host_name(),
        rack_name: node.spec.rack_name(),
        attributes: TextsView(&node.spec.attributes),
        capacity: Amounts::from(&node.capacity),
        allocated: Amounts::from(&allocated),
        occupied: Amounts::from(&*node.occupied),
        available: Amounts::from(&available),
        utilized: Amounts::percent(&allocated, Some(&node.capacity)),
        allocations,
        foreign_allocations: node.foreign.values().map(|alloc| ForeignView::new(node, alloc)).collect(),
        schedulable: node.schedulable(),
        is_reserved: !node.reservations.is_empty(),
        reservations,
    }
}

/// Whole percent of its capacity that a node has allocated, for types that it has and that are allocated.
fn utilized(node: &Node) -> Amounts {
    Amounts::percent(&node.placed(), Some(&node.capacity))
}

/// All nodes of a partition, by id.
pub fn each(view: &View) -> impl Iterator<Item = NodeView<'_>> {
    rows(view).map(move |node| node_view(view, node))
}

/// One node.
pub fn node<'a>(view: &'a View, id: &str) -> Option<NodeView<'a>> {
    let partition = view.partition();
    let node = partition.nodes.get(*partition.node_by_id.get(id)?)?;
    Some(node_view(view, node))
}

/// The rows of a partition's nodes, by id.
pub fn rows(view: &View) -> impl Iterator<Item = &Node> {
    let partition = view.partition();
    partition.node_by_id.values().filter_map(|ix| partition.nodes.get(*ix))
}

/// How full the nodes of a partition are, by resource type (REST 5.9).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Utilization")]
#[serde(rename_all = "camelCase")]
pub struct UtilizationView<'a> {
    cluster_id: &'a str,
    partition: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    utilizations: Vec<TypeView<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Type")]
struct TypeView<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    utilization: Vec<BucketView<'a>>,
}

#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "Bucket")]
#[serde(rename_all = "camelCase")]
struct BucketView<'a> {
    bucket_name: &'static str,
    #[serde(skip_serializing_if = "unset")]
    num_of_nodes: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    node_names: Vec<&'a str>,
}

const BUCKETS: [&str; 10] =
    ["0-10%", "10-20%", "20-30%", "30-40%", "40-50%", "50-60%", "60-70%", "70-80%", "80-90%", "90-100%"];

/// The bucket of a whole percentage; what is above 100 counts in the last (REST 4, route 25).
pub fn bucket(percent: i64) -> usize {
    ((percent.max(1) as usize).div_ceil(10) - 1).min(BUCKETS.len() - 1)
}

/// The bucket of a node for each resource type that it has.
pub fn buckets(node: &Node) -> impl Iterator<Item = (&str, usize)> {
    let used: BTreeMap<_, i64> = utilized(node).0.into_iter().collect();
    node.capacity.iter().map(move |(kind, _)| (kind.name(), bucket(used.get(kind).copied().unwrap_or(0))))
}

/// For each resource type that a node has: the node names of each of the ten buckets.
fn by_bucket(view: &View) -> BTreeMap<&str, [Vec<&str>; 10]> {
    let mut types: BTreeMap<&str, [Vec<&str>; 10]> = BTreeMap::new();
    for node in rows(view) {
        for (kind, bucket) in buckets(node) {
            types.entry(kind).or_default()[bucket].push(node.id());
        }
    }
    types
}

/// The buckets of a partition's nodes.
pub fn utilization(view: &View) -> UtilizationView<'_> {
    let utilizations = by_bucket(view)
        .into_iter()
        .map(|(kind, buckets)| TypeView {
            kind,
            utilization: BUCKETS
                .into_iter()
                .zip(buckets)
                .map(|(bucket_name, node_names)| BucketView { bucket_name, num_of_nodes: node_names.len(), node_names })
                .collect(),
        })
        .collect();
    UtilizationView { cluster_id: &view.rm, partition: &view.shown, utilizations }
}

#[cfg(test)]
mod tests {
    use super::bucket;

    // REST 5.9: 0..10 → 0, 11..20 → 1, …, 91..100 → 9; quirk B: more than 100 is the last.
    #[test]
    fn buckets() {
        for (percent, wanted) in [(0, 0), (10, 0), (11, 1), (20, 1), (62, 6), (91, 9), (100, 9), (101, 9), (100_000, 9)]
        {
            assert_eq!(bucket(percent), wanted, "{percent}");
        }
    }
}
