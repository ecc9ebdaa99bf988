//! Nodes (REST 5.8) and how full they are (REST 5.9).

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    View,
    allocations::{Allocations, ForeignView},
    json::{self, Amounts, TextsView, unset},
};
use crate::domain::{alloc::Phase, node::Node, table::Changed};

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
    // What waits for a predicate answer is charged but not known to anybody yet.
    let rows = node.allocs.iter().filter_map(|alloc| partition.allocs.get(*alloc));
    let shown = rows.filter(|row| row.phase != Phase::AwaitingShim);
    let allocations = Allocations::new(partition, shown);
    let (allocated, available) = (node.placed(), node.available().plus(&node.asked.amount).pruned());
    let reserved = node.reservations.iter().filter_map(|ask| partition.allocs.get(ask));
    let mut reservations: Vec<&str> = reserved.map(|row| &*row.spec.key).collect();
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

/// A list that nobody has read for so long is forgotten.
const READ_AGAIN: Duration = Duration::from_secs(10);
/// A longer text is not kept.
const KEPT_BYTES: usize = 128 << 20;

/// The lists of nodes that were read last, by partition as shown. Who reads such a list again and again has those nodes written anew that
/// changed: of 10,000 those are few.
#[derive(Debug, Default)]
pub struct Lists(Mutex<HashMap<Arc<str>, Arc<List>>>);

#[derive(Debug)]
struct List {
    text: Bytes,
    /// By the index of the node.
    nodes: Vec<Option<Written>>,
    at: Instant,
}

/// Where a node is in the text, and the last change of what it was written from: the node, and the allocations on it.
#[derive(Debug)]
struct Written {
    range: Range<usize>,
    changed: (Changed, Changed),
}

impl Lists {
    /// The nodes of a partition by id, as JSON.
    pub fn of(&self, view: &View) -> Bytes {
        let last = self.lock().get(&view.shown).cloned();
        let list = List::after(last.as_deref(), view);
        let text = list.text.clone();
        if text.len() <= KEPT_BYTES {
            self.lock().insert(view.shown.clone(), Arc::new(list));
        }
        text
    }

    /// Forgets those that nobody reads again.
    pub fn forget(&self) {
        let old = |list: &Arc<List>| list.at.elapsed() > READ_AGAIN;
        let mut lists = self.lock();
        if lists.values().any(old) {
            lists.retain(|_, list| !old(list));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<List>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    /// The list of the nodes as they are now, with what an earlier one says of those that are as they were then.
    fn after(last: Option<&List>, view: &View) -> List {
        let partition = view.partition();
        let mut text = Vec::with_capacity(last.map_or(256, |last| last.text.len() + last.text.len() / 64));
        let mut nodes: Vec<Option<Written>> = Vec::new();
        nodes.resize_with(partition.nodes.len(), || None);
        text.push(b'[');
        for ix in partition.node_by_id.values() {
            let Some(node) = partition.nodes.get(*ix) else { continue };
            if text.len() > 1 {
                text.push(b',');
            }
            let on_it = node.allocs.iter().map(|alloc| partition.allocs[*alloc].changed);
            let changed = (node.changed, on_it.max().unwrap_or_default());
            let begin = text.len();
            let written = last.and_then(|last| Some((last, last.nodes.get(ix.ix())?.as_ref()?)));
            match written.filter(|(_, written)| written.changed == changed) {
                Some((last, written)) => text.extend_from_slice(&last.text[written.range.clone()]),
                None => json::append(&mut text, &node_view(view, node)),
            }
            nodes[ix.ix()] = Some(Written { range: begin..text.len(), changed });
        }
        text.extend(b"]\n");
        List { text: text.into(), nodes, at: Instant::now() }
    }
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
    use super::*;
    use crate::{
        config,
        domain::{
            Partition,
            command::{Command, NodeAction, NodeItem},
            resources::Resource,
            types::Nanos,
        },
        messages::partition::Snapshot,
    };

    // REST 5.8
    #[test]
    fn of_a_list_that_is_read_again_only_what_changed_is_written_anew() {
        let text = "partitions: [{name: default, queues: [{name: root}]}]";
        let conf = config::load(text).expect("a configuration").partitions.remove(0);
        let fx = &mut Vec::new();
        let mut partition = Partition::new("rm".into(), "[rm]default".into(), conf, Nanos::ZERO, fx);
        let node = |id: &str, action, memory| NodeItem {
            id: id.into(),
            action,
            capacity: Some(Resource::of(&[("memory", memory)])),
            attributes: Default::default(),
        };
        let created = ["node-1", "node-2", "node-3"].map(|id| node(id, NodeAction::Create, 10)).to_vec();
        partition.apply(Command::Nodes(created), Nanos::ZERO, fx);
        let view = |partition: &Partition| View {
            rm: "rm".into(),
            internal: "[rm]default".into(),
            shown: "default".into(),
            snapshot: Arc::new(Snapshot { epoch: 1, partition: partition.clone() }),
        };
        let text = |list: &List| String::from_utf8(list.text.to_vec()).expect("text");
        let first = List::after(None, &view(&partition));
        assert_eq!(first.text, json::list(each(&view(&partition))));
        // What was written before is told from what is written now.
        let marked = List { text: text(&first).replace("node-", "NODE-").into(), ..first };
        assert_eq!(text(&List::after(Some(&marked), &view(&partition))), text(&marked));
        partition.apply(Command::Nodes(vec![node("node-2", NodeAction::Update, 20)]), Nanos::ZERO, fx);
        let second = text(&List::after(Some(&marked), &view(&partition)));
        let ids: Vec<&str> = second.split("nodeID\":\"").skip(1).map(|rest| &rest[..6]).collect();
        assert_eq!(ids, ["NODE-1", "node-2", "NODE-3"], "{second}");
        // Another partition of this name has written its own.
        let other = Partition::load(&partition.save(), &Default::default()).expect("what was saved is read");
        assert!(!text(&List::after(Some(&marked), &view(&other))).contains("NODE"));
    }

    #[test]
    fn a_list_that_nobody_reads_again_is_forgotten() {
        let lists = Lists::default();
        for (shown, read) in [("a", Instant::now()), ("b", Instant::now() - READ_AGAIN * 2)] {
            let list = List { text: Bytes::new(), nodes: Vec::new(), at: read };
            lists.lock().insert(shown.into(), list.into());
        }
        lists.forget();
        assert_eq!(lists.lock().keys().map(|shown| &**shown).collect::<Vec<_>>(), ["a"]);
    }

    // REST 5.9: 0..10 → 0, 11..20 → 1, …, 91..100 → 9; quirk B: more than 100 is the last.
    #[test]
    fn buckets() {
        for (percent, wanted) in [(0, 0), (10, 0), (11, 1), (20, 1), (62, 6), (91, 9), (100, 9), (101, 9), (100_000, 9)]
        {
            assert_eq!(bucket(percent), wanted, "{percent}");
        }
    }
}
