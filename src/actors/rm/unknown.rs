//! Items for a partition that the resource manager does not have: rejections where the interface has one.

use std::sync::Arc;

use crate::{
    domain::{
        command::{Command, NodeAction},
        effect::Callback,
    },
    messages::rm::Part,
    metrics::{Containers, Metrics, Submissions},
};

/// The answers to a command for an unknown partition (R2.2, R2.7, R3.24, R4.7, R4.18).
pub fn reject(part: Part) -> Vec<Callback> {
    let partition: Arc<str> = part.partition;
    match part.command {
        Command::Nodes(nodes) => nodes
            .into_iter()
            .map(|node| {
                let reason = match node.action {
                    NodeAction::Create | NodeAction::CreateDrain => {
                        format!("failed to find partition {partition} for new node {}", node.id)
                    }
                    // There is no such node either (SEEDS S3).
                    _ => format!("failed to find partition {partition} for node {}", node.id),
                };
                Callback::RejectedNode { node: node.id, reason: reason.into() }
            })
            .collect(),
        Command::Applications { new, .. } => new
            .into_iter()
            .map(|new| {
                let reason =
                    format!("Failed to add application {} to partition {partition}, partition doesn't exist", new.id);
                Callback::RejectedApplication { app: new.id, reason: reason.into() }
            })
            .collect(),
        Command::Allocations { allocations, .. } => allocations
            .into_iter()
            .map(|allocation| {
                let key = allocation.spec.key.clone();
                let reason = format!(
                    "Failed to find partition {partition}, for application {} and allocation {key}",
                    allocation.app
                );
                Callback::RejectedAllocation { key, app: allocation.app, reason: reason.into() }
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Counts the answers of [`reject`].
pub fn count(callbacks: &[Callback], metrics: &Metrics) {
    for callback in callbacks {
        match callback {
            Callback::RejectedNode { .. } => metrics.node_failed(),
            Callback::RejectedApplication { .. } => metrics.submissions(Submissions::Rejected, 1),
            Callback::RejectedAllocation { .. } => metrics.containers(Containers::Rejected, 1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        alloc::AskSpec,
        command::{AddApplication, AllocationItem, NodeItem, ReleaseItem},
        types::Termination,
    };

    fn reasons(command: Command) -> Vec<String> {
        let reason = |callback| match callback {
            Callback::RejectedNode { reason, .. }
            | Callback::RejectedApplication { reason, .. }
            | Callback::RejectedAllocation { reason, .. } => reason.to_string(),
            other => panic!("{other:?}"),
        };
        reject(Part { partition: "[rm-1]nope".into(), command }).into_iter().map(reason).collect()
    }

    #[test]
    fn nodes() {
        // R2.2, R2.7, SEEDS S3
        let node = |action| NodeItem { id: "n1".into(), action, capacity: None, attributes: Default::default() };
        let command = Command::Nodes(vec![
            node(NodeAction::Create),
            node(NodeAction::Update),
            node(NodeAction::Decommission),
            node(NodeAction::Unknown),
        ]);
        let known = "failed to find partition [rm-1]nope for node n1";
        assert_eq!(reasons(command), ["failed to find partition [rm-1]nope for new node n1", known, known, known]);
    }

    #[test]
    fn applications() {
        // R3.24, R3.43
        let new = vec![AddApplication { id: "app-1".into(), ..Default::default() }];
        assert_eq!(
            reasons(Command::Applications { new, remove: vec!["app-2".into()] }),
            ["Failed to add application app-1 to partition [rm-1]nope, partition doesn't exist"]
        );
    }

    #[test]
    fn allocations() {
        // R4.7, R4.18
        let spec = Arc::new(AskSpec { key: "k1".into(), ..AskSpec::default() });
        let allocations = vec![AllocationItem { app: "app-2".into(), node: None, spec }];
        let releases = vec![ReleaseItem { app: "".into(), key: "x".into(), termination: Termination::Unknown }];
        assert_eq!(
            reasons(Command::Allocations { allocations, releases }),
            ["Failed to find partition [rm-1]nope, for application app-2 and allocation k1"]
        );
    }
}
