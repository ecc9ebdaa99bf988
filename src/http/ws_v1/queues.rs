//! Queues (REST 5.3, QUE-100).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    View,
    json::{Amounts, no_entries, unset},
};
use crate::domain::{
    conf::TemplateConf,
    duration,
    queue::{PreemptionSetting, QueueSettings},
    types::QueueIx,
};

/// A queue (REST 5.3).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Queue")]
#[serde(rename_all = "camelCase")]
pub struct QueueView<'a> {
    #[serde(rename = "queuename")]
    path: &'a str,
    #[serde(skip_serializing_if = "unset")]
    status: &'static str,
    partition: &'a str,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pending_resource: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    max_resource: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    guaranteed_resource: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    allocated_resource: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    preempting_resource: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    headroom: Amounts,
    is_leaf: bool,
    is_managed: bool,
    #[serde(skip_serializing_if = "no_entries")]
    properties: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "unset")]
    parent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<TemplateView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<QueueView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    child_names: Vec<&'a str>,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    abs_used_capacity: Amounts,
    #[serde(skip_serializing_if = "unset")]
    max_running_apps: u64,
    #[serde(skip_serializing_if = "unset")]
    running_apps: u64,
    current_priority: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allocating_accepted_apps: Vec<&'a str>,
    sorting_policy: &'static str,
    priority_sorting: bool,
    preemption_enabled: bool,
    is_preemption_fence: bool,
    preemption_delay: String,
    quota_preemption_delay: String,
    is_priority_fence: bool,
    #[serde(skip_serializing_if = "unset")]
    priority_offset: i32,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Template")]
#[serde(rename_all = "camelCase")]
struct TemplateView<'a> {
    #[serde(skip_serializing_if = "unset")]
    max_applications: u64,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    max_resource: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    guaranteed_resource: Amounts,
    #[serde(skip_serializing_if = "no_entries")]
    properties: &'a BTreeMap<String, String>,
}

impl<'a> TemplateView<'a> {
    fn new(template: &'a TemplateConf) -> TemplateView<'a> {
        TemplateView {
            max_applications: template.max_applications,
            max_resource: Amounts::from(template.max.as_deref()),
            guaranteed_resource: Amounts::from(template.guaranteed.as_deref()),
            properties: &template.properties,
        }
    }
}

/// The root queue with everything below; only here the partition is named (REST 4, route 9).
pub fn tree(view: &View) -> Option<QueueView<'_>> {
    let mut root = one(view, view.partition().root, true)?;
    root.partition = &view.shown;
    Some(root)
}

/// A queue by its path, in any letter case.
pub fn find(view: &View, path: &str) -> Option<QueueIx> {
    view.partition().queue_by_path.get(path.to_lowercase().as_str()).copied()
}

/// The view of one queue, with all below it where `subtree` asks for it.
pub fn one(view: &View, at: QueueIx, subtree: bool) -> Option<QueueView<'_>> {
    let partition = view.partition();
    let queue = partition.queues.get(at)?;
    let children = || queue.children.values().copied();
    let settings = &queue.settings;
    let mut allocating: Vec<&str> =
        partition.allocating(at).filter_map(|ix| Some(&*partition.apps.get(ix)?.id)).collect();
    allocating.sort_unstable();
    let placed = queue.placed();
    Some(QueueView {
        path: &queue.path,
        status: partition.shown_state(at).name(),
        partition: "",
        pending_resource: Amounts::from(&queue.waiting()),
        max_resource: Amounts::from(queue.max.as_deref()),
        guaranteed_resource: Amounts::from(queue.guaranteed.as_deref()),
        allocated_resource: Amounts::from(&placed),
        preempting_resource: Amounts::from(&*queue.preempting),
        headroom: Amounts::from(partition.headroom(at).as_ref()),
        is_leaf: queue.leaf,
        is_managed: queue.managed,
        properties: &queue.properties,
        parent: queue.parent.and_then(|parent| partition.queues.get(parent)).map_or("", |parent| &parent.path),
        template: queue.template.as_deref().filter(|_| !queue.leaf).map(TemplateView::new),
        children: if subtree { children().filter_map(|child| one(view, child, true)).collect() } else { Vec::new() },
        child_names: children().filter_map(|child| Some(&*partition.queues.get(child)?.path)).collect(),
        abs_used_capacity: Amounts::percent(&placed, queue.max.as_deref()),
        max_running_apps: queue.max_applications,
        running_apps: queue.running,
        current_priority: partition.priority_of_queue(at),
        allocating_accepted_apps: allocating,
        sorting_policy: if queue.leaf && !settings.sort_fair { "fifo" } else { "fair" },
        priority_sorting: settings.sort_priority,
        preemption_enabled: settings.preemption != PreemptionSetting::Disabled,
        is_preemption_fence: settings.preemption == PreemptionSetting::Fence,
        preemption_delay: duration::format(if queue.leaf {
            settings.preemption_delay
        } else {
            QueueSettings::default().preemption_delay
        }),
        quota_preemption_delay: duration::format(settings.quota_preemption_delay),
        is_priority_fence: settings.priority_fence,
        priority_offset: settings.priority_offset,
    })
}
