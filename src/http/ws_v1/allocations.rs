//! Open requests, allocations and foreign allocations (REST 5.5–5.7).

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::json::{Amounts, TextsView, as_text, unset};
use crate::domain::{
    Partition,
    alloc::{Alloc, Foreign},
    node::{ForeignAlloc, Node},
};

/// A request that is not allocated yet (REST 5.5).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Request")]
#[serde(rename_all = "camelCase")]
pub struct RequestView<'a> {
    allocation_key: &'a str,
    #[serde(skip_serializing_if = "TextsView::is_empty")]
    allocation_tags: TextsView<'a>,
    #[serde(skip_serializing_if = "unset")]
    request_time: i64,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    resource: Amounts,
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    priority: i32,
    #[serde(skip_serializing_if = "unset")]
    required_node_id: &'a str,
    #[serde(skip_serializing_if = "unset")]
    application_id: &'a str,
    #[serde(skip_serializing_if = "unset")]
    placeholder: bool,
    #[serde(skip_serializing_if = "unset")]
    task_group_name: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allocation_log: Vec<LogView<'a>>,
    #[serde(skip_serializing_if = "unset")]
    triggered_preemption: bool,
    #[serde(skip_serializing_if = "unset")]
    originator: bool,
    #[serde(skip_serializing_if = "unset")]
    scheduling_attempted: bool,
    #[serde(skip_serializing_if = "unset")]
    triggered_scale_up: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Log")]
#[serde(rename_all = "camelCase")]
struct LogView<'a> {
    #[serde(skip_serializing_if = "unset")]
    message: &'a str,
    #[serde(skip_serializing_if = "unset")]
    last_occurrence: i64,
    #[serde(skip_serializing_if = "unset")]
    count: u32,
}

impl<'a> RequestView<'a> {
    /// The view of an ask of this application.
    pub fn new(ask: &'a Alloc, application: &'a str) -> RequestView<'a> {
        let mut log: Vec<_> = ask.log.iter().collect();
        log.sort_by_key(|entry| entry.last);
        RequestView {
            allocation_key: &ask.spec.key,
            allocation_tags: TextsView(&ask.spec.tags),
            request_time: ask.created.0,
            resource: Amounts::from(&*ask.resource),
            priority: ask.spec.priority,
            required_node_id: ask.spec.required_node.as_deref().unwrap_or(""),
            application_id: application,
            placeholder: ask.spec.placeholder,
            task_group_name: &ask.spec.task_group,
            allocation_log: log
                .into_iter()
                .map(|entry| LogView { message: &entry.message, last_occurrence: entry.last.0, count: entry.count })
                .collect(),
            triggered_preemption: ask.triggered_preemption,
            originator: ask.spec.originator,
            scheduling_attempted: ask.attempted,
            triggered_scale_up: ask.triggered_scale_up,
        }
    }
}

/// An allocation (REST 5.6). Its time is the one of its creation, not the one of its binding.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Allocation")]
#[serde(rename_all = "camelCase")]
pub struct AllocationView<'a> {
    allocation_key: &'a str,
    #[serde(skip_serializing_if = "TextsView::is_empty")]
    allocation_tags: TextsView<'a>,
    #[serde(skip_serializing_if = "unset")]
    request_time: i64,
    #[serde(skip_serializing_if = "unset")]
    allocation_time: i64,
    #[serde(skip_serializing_if = "unset")]
    allocation_delay: i64,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    resource: Amounts,
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    priority: i32,
    #[serde(skip_serializing_if = "unset")]
    node_id: &'a str,
    #[serde(skip_serializing_if = "unset")]
    application_id: &'a str,
    #[serde(skip_serializing_if = "unset")]
    placeholder: bool,
    #[serde(skip_serializing_if = "unset")]
    placeholder_used: bool,
    #[serde(skip_serializing_if = "unset")]
    task_group_name: &'a str,
    #[serde(skip_serializing_if = "unset")]
    preempted: bool,
    #[serde(skip_serializing_if = "unset")]
    originator: bool,
}

impl<'a> AllocationView<'a> {
    /// The view of an allocation of this partition.
    pub fn new(partition: &'a Partition, alloc: &'a Alloc) -> AllocationView<'a> {
        let node = alloc.node.and_then(|node| partition.nodes.get(node));
        AllocationView {
            allocation_key: &alloc.spec.key,
            allocation_tags: TextsView(&alloc.spec.tags),
            request_time: alloc.requested.0,
            allocation_time: alloc.created.0,
            allocation_delay: alloc.created.minus(alloc.requested).0,
            resource: Amounts::from(&*alloc.resource),
            priority: alloc.spec.priority,
            node_id: node.map_or("", |node| node.id()),
            application_id: partition.apps.get(alloc.app).map_or("", |app| &app.id),
            placeholder: alloc.spec.placeholder,
            placeholder_used: alloc.placeholder_used,
            task_group_name: &alloc.spec.task_group,
            preempted: alloc.preempted,
            originator: alloc.spec.originator,
        }
    }
}

/// Open requests by key, made as they are written: an application may have very many.
pub struct Requests<'a> {
    application: &'a str,
    rows: Vec<&'a Alloc>,
}

impl<'a> Requests<'a> {
    /// Of these asks of this application.
    pub fn new(application: &'a str, asks: impl Iterator<Item = &'a Alloc>) -> Requests<'a> {
        let mut rows: Vec<&Alloc> = asks.collect();
        rows.sort_by(|a, b| a.spec.key.cmp(&b.spec.key));
        Requests { application, rows }
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Serialize for Requests<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| RequestView::new(row, self.application)))
    }
}

/// Allocations by key, and within equal keys by application, made as they are written.
pub struct Allocations<'a> {
    partition: &'a Partition,
    rows: Vec<&'a Alloc>,
}

impl<'a> Allocations<'a> {
    /// Of these allocations.
    pub fn new(partition: &'a Partition, allocations: impl Iterator<Item = &'a Alloc>) -> Allocations<'a> {
        let mut rows: Vec<&Alloc> = allocations.collect();
        let app = |row: &Alloc| partition.apps.get(row.app).map(|app| &app.id);
        rows.sort_by(|a, b| a.spec.key.cmp(&b.spec.key).then_with(|| app(a).cmp(&app(b))));
        Allocations { partition, rows }
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Serialize for Allocations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| AllocationView::new(self.partition, row)))
    }
}

/// An allocation of another scheduler (REST 5.7).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Foreign")]
#[serde(rename_all = "camelCase")]
pub struct ForeignView<'a> {
    allocation_key: &'a str,
    #[serde(skip_serializing_if = "TextsView::is_empty")]
    allocation_tags: TextsView<'a>,
    #[serde(skip_serializing_if = "unset")]
    allocation_time: i64,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    resource: Amounts,
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    priority: i32,
    #[serde(skip_serializing_if = "unset")]
    node_id: &'a str,
    #[serde(skip_serializing_if = "unset")]
    preemptable: bool,
}

impl<'a> ForeignView<'a> {
    /// The view of a foreign allocation on this node.
    pub fn new(node: &'a Node, alloc: &'a ForeignAlloc) -> ForeignView<'a> {
        ForeignView {
            allocation_key: &alloc.spec.key,
            allocation_tags: TextsView(&alloc.spec.tags),
            allocation_time: alloc.created.0,
            resource: Amounts::from(&*alloc.resource),
            priority: alloc.spec.priority,
            node_id: node.id(),
            preemptable: alloc.spec.foreign == Some(Foreign::Default),
        }
    }
}
