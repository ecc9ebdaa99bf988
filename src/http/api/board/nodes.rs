//! Nodes in short: how full, and what is the matter with them.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::BoardApi;
use crate::{
    actors::directory::PartitionEntry,
    domain::{
        hostlist,
        journal::{DrainNote, DrainState, Target},
        node::Node,
        resources::ResourceType,
    },
    http::ws_v1::{View, json::unset, nodes::rows, time_text},
    messages::journal::{GetStatus, Status},
};

/// All nodes of a partition.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodesInShort")]
pub struct NodesView<'a> {
    partition: &'a str,
    /// Resource types of the capacities: the order of `used`.
    types: Vec<Cow<'static, str>>,
    nodes: Vec<NodeView<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodeInShort")]
#[serde(rename_all = "camelCase")]
struct NodeView<'a> {
    id: &'a str,
    /// Its rank in the resource journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    /// Its host, by which targets may be named, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    /// Percent of each type that is taken, allocations of other schedulers included; null where the node has none of it.
    used: Vec<Option<i64>>,
    #[serde(skip_serializing_if = "unset")]
    allocations: usize,
    #[serde(skip_serializing_if = "unset")]
    reserved: bool,
    /// Why it takes nothing new.
    #[serde(skip_serializing_if = "Option::is_none")]
    drained: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drained_since: Option<String>,
    /// It has been silent for too long.
    #[serde(skip_serializing_if = "unset")]
    torpid: bool,
    /// It was registered before.
    #[serde(skip_serializing_if = "unset")]
    offline: bool,
}

/// The journal's view of the targets of a partition.
pub async fn status(api: &BoardApi, entry: &PartitionEntry) -> Option<Status> {
    api.journals.asked(&entry.internal).send(GetStatus).await.ok()
}

/// The nodes by id, then those that are away; or one of them.
pub fn list<'a>(view: &'a View, status: Option<&'a Status>, only: Option<&str>) -> NodesView<'a> {
    let wanted = |id: &str| only.is_none_or(|only| only == id);
    let types: Vec<&ResourceType> = view.partition().total.iter().map(|(kind, _)| kind).collect();
    let targets = || status.into_iter().flat_map(|status| &status.targets);
    let by_node: BTreeMap<&str, &Target> =
        targets().filter_map(|target| Some((target.node.as_deref()?, target))).collect();
    // Where there is no journal, as in a flight and at a server that follows, the log tells what operators said.
    let notes: BTreeMap<&str, &DrainNote> =
        view.partition().drain_notes().map(|(host, note)| (&**host, note)).collect();
    let mut nodes: Vec<NodeView> = rows(view)
        .filter(|node| wanted(node.id()))
        .map(|node| shown(node, &types, by_node.get(&**node.id()).copied(), &notes))
        .collect();
    let away = targets().filter(|target| !target.online);
    let ids = &view.partition().node_by_id;
    // After a restart only the host is known, which is mostly called as the node was.
    let away = away.map(|target| (target, target.node.as_ref().unwrap_or(&target.host)));
    let away = away.filter(|(_, id)| wanted(id) && !ids.contains_key(*id));
    nodes.extend(away.map(|(target, id)| NodeView {
        id,
        rank: Some(target.rank),
        host: Some(&target.host),
        used: Vec::new(),
        allocations: 0,
        reserved: false,
        drained: target.drain.as_ref().map(|drain| why_drained(drain.operator.is_some(), Some(drain), None)),
        drained_since: target.drain.as_ref().map(|drain| time_text(drain.since)),
        torpid: false,
        offline: true,
    }));
    NodesView { partition: &view.shown, types: types.into_iter().map(Cow::from).collect(), nodes }
}

fn shown<'a>(
    node: &'a Node,
    types: &[&ResourceType],
    target: Option<&'a Target>,
    notes: &BTreeMap<&str, &DrainNote>,
) -> NodeView<'a> {
    let taken = node.placed().plus(&node.occupied);
    let percent: BTreeMap<ResourceType, i64> = taken.percent_of(&node.capacity).collect();
    let used = |kind: &&ResourceType| node.capacity.get(kind).map(|_| percent.get(*kind).copied().unwrap_or(0));
    let drain = target.and_then(|target| target.drain.as_ref());
    let is_noted = drain.is_none() && node.operator_drained && !notes.is_empty();
    let note = is_noted.then(|| notes.get(&*hostlist::safe_name(&node.spec.host()))).flatten().copied();
    let since = drain.map(|drain| drain.since).or(note.map(|note| note.since));
    NodeView {
        id: node.id(),
        rank: target.map(|target| target.rank),
        host: target.map(|target| &*target.host),
        used: types.iter().map(used).collect(),
        allocations: node.placements() as usize,
        reserved: !node.reservations.is_empty(),
        drained: (!node.schedulable()).then(|| why_drained(node.operator_drained, drain, note)),
        drained_since: since.filter(|_| !node.schedulable()).map(time_text),
        torpid: target.is_some_and(|target| target.torpid),
        offline: false,
    }
}

fn why_drained(by_operator: bool, drain: Option<&DrainState>, note: Option<&DrainNote>) -> String {
    let by = if by_operator { "an operator" } else { "the resource manager" };
    let reason = drain.and_then(|drain| match &drain.operator {
        // The reason of the journal may be that of whoever drained it first.
        Some(own) if by_operator => own.as_ref(),
        _ => drain.reason.as_ref(),
    });
    let reason = reason.or(note.and_then(|note| note.reason.as_ref()));
    let too = if by_operator && drain.is_some_and(|drain| drain.rm) { " (and by the resource manager)" } else { "" };
    match reason {
        Some(reason) if !reason.is_empty() && !reason.ends_with(by) => format!("by {by}: {reason}{too}"),
        _ => format!("by {by}{too}"),
    }
}
