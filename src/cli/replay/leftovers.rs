//! After a replay all of whose applications were removed: what the server still holds of them, which is to be nothing.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::domain::words::plural;
use crate::{
    cli::client::{
        Result,
        http::{Api, named, segment},
    },
    domain::Partition,
};

/// At most so many findings are told.
const MOST: usize = 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queue {
    queuename: String,
    #[serde(default)]
    allocated_resource: BTreeMap<String, i64>,
    #[serde(default)]
    pending_resource: BTreeMap<String, i64>,
    #[serde(default)]
    preempting_resource: BTreeMap<String, i64>,
    #[serde(default)]
    running_apps: u64,
    #[serde(default)]
    allocating_accepted_apps: Vec<String>,
    #[serde(default)]
    children: Vec<Queue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    #[serde(rename = "nodeID")]
    id: String,
    #[serde(default)]
    allocated: BTreeMap<String, i64>,
    #[serde(default)]
    allocations: Vec<serde_json::Value>,
    #[serde(default)]
    reservations: Vec<String>,
}

#[derive(Deserialize)]
struct App {
    #[serde(rename = "applicationID")]
    id: String,
}

#[derive(Deserialize)]
struct User {
    #[serde(rename = "userName", alias = "groupName")]
    name: String,
}

#[derive(Deserialize)]
struct Releases {
    releases: Vec<Release>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Release {
    allocation_key: String,
    termination_type: String,
}

/// Everything that is not empty, in words: applications, queues, nodes, users and groups, unconfirmed releases.
pub async fn find(api: &Api, partition: &str) -> Result<Vec<String>> {
    let path = |rest: &str| format!("/ws/v1/partition/{}/{rest}", named(partition));
    let mut found = Vec::new();
    for app in api.get::<Vec<App>>(&path("applications/active")).await? {
        found.push(format!("application {}", app.id));
    }
    queue(&api.get(&path("queues")).await?, &mut found);
    for node in api.get::<Vec<Node>>(&path("nodes")).await? {
        if used(&node.allocated) || !node.allocations.is_empty() {
            found.push(format!(
                "node {}: {}, {:?}",
                node.id,
                plural(node.allocations.len(), "allocation"),
                node.allocated
            ));
        }
        if !node.reservations.is_empty() {
            found.push(format!("node {}: reserved for {}", node.id, node.reservations.join(", ")));
        }
    }
    for kind in ["user", "group"] {
        for user in api.get::<Vec<User>>(&path(&format!("usage/{kind}s"))).await? {
            found.push(format!("usage of {kind} {}", user.name));
        }
    }
    let releases: Releases = api.get(&format!("/api/v1/partition/{}/releases", segment(partition))).await?;
    for release in releases.releases {
        found.push(format!("unconfirmed release of {} ({})", release.allocation_key, release.termination_type));
    }
    Ok(shortened(found))
}

/// The same of a partition in this very process. What is wrong in its own books is told, too.
pub fn in_partition(partition: &Partition) -> Vec<String> {
    let mut found: Vec<String> = partition.app_by_id.keys().map(|app| format!("application {app}")).collect();
    for queue in partition.queue_by_path.values().map(|ix| &partition.queues[*ix]) {
        let amounts =
            [("allocated", &**queue.allocated()), ("pending", &**queue.pending()), ("preempting", &*queue.preempting)];
        for (what, amount) in amounts.into_iter().filter(|(_, amount)| !amount.is_zero()) {
            found.push(format!("queue {}: {what} {amount}", queue.path));
        }
    }
    for node in partition.node_by_id.values().map(|ix| &partition.nodes[*ix]) {
        if !node.allocs.is_empty() || !node.reservations.is_empty() {
            let (allocations, reservations) = (node.allocs.len(), node.reservations.len());
            found.push(format!(
                "node {}: {}, {}",
                node.id(),
                plural(allocations, "allocation"),
                plural(reservations, "reservation")
            ));
        }
    }
    found.extend(partition.audit().into_iter().map(|finding| format!("{}: {}", finding.object, finding.text)));
    shortened(found)
}

fn shortened(mut found: Vec<String>) -> Vec<String> {
    if found.len() > MOST {
        let more = found.len() - MOST;
        found.truncate(MOST);
        found.push(format!("and {more} more"));
    }
    found
}

fn used(amounts: &BTreeMap<String, i64>) -> bool {
    amounts.values().any(|amount| *amount != 0)
}

fn queue(at: &Queue, found: &mut Vec<String>) {
    let amounts = [
        ("allocated", &at.allocated_resource),
        ("pending", &at.pending_resource),
        ("preempting", &at.preempting_resource),
    ];
    for (what, amounts) in amounts.into_iter().filter(|(_, amounts)| used(amounts)) {
        found.push(format!("queue {}: {what} {amounts:?}", at.queuename));
    }
    if at.running_apps > 0 || !at.allocating_accepted_apps.is_empty() {
        let starting = at.allocating_accepted_apps.len();
        found.push(format!(
            "queue {}: {} running, {starting} starting",
            at.queuename,
            plural(at.running_apps, "application")
        ));
    }
    at.children.iter().for_each(|child| queue(child, found));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_holds_something_is_told_and_an_empty_one_not() {
        let text = r#"{"queuename":"root","allocatedResource":{"vcore":0},"children":[
            {"queuename":"root.a","pendingResource":{"vcore":5},"runningApps":1}]}"#;
        let mut found = Vec::new();
        queue(&serde_json::from_str(text).unwrap(), &mut found);
        assert_eq!(found, ["queue root.a: pending {\"vcore\": 5}", "queue root.a: 1 application running, 0 starting"]);
    }
}
