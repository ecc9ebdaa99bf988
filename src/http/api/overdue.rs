//! Nodes that were to be empty by now: the deadline of their drain has passed, and something is still there.

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    domain::{Partition, journal::Overdue, partition::Left},
    http::ws_v1::time_text,
};

/// Nodes that are named at most.
const NAMED: usize = 100;

/// See the module.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "OverdueDrains")]
pub struct OverdueDrains {
    /// How many nodes.
    pub count: usize,
    /// The first hundred of them, by deadline.
    pub nodes: Vec<OverdueNode>,
}

/// One of them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OverdueNode {
    node: Arc<str>,
    host: Arc<str>,
    /// When it was to be empty.
    deadline: String,
    /// Why it is drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Arc<str>>,
    /// How many are left.
    allocations: usize,
    /// Their applications, five at most.
    applications: Vec<Arc<str>>,
    /// How many more applications.
    #[serde(rename = "moreApplications", skip_serializing_if = "crate::http::ws_v1::json::unset")]
    more: usize,
}

impl OverdueDrains {
    /// Those of the nodes whose deadline has passed on which something is left.
    pub fn of(partition: &Partition, passed: Vec<Overdue>) -> OverdueDrains {
        let mut found = OverdueDrains::default();
        for Overdue { node, host, deadline, reason } in passed {
            let Some(Left { allocations, applications, more }) = partition.left_on(&node) else { continue };
            found.count += 1;
            if found.nodes.len() < NAMED {
                let deadline = time_text(deadline);
                found.nodes.push(OverdueNode { node, host, deadline, reason, allocations, applications, more });
            }
        }
        found
    }
}

impl fmt::Display for OverdueNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OverdueNode { node, deadline, allocations, applications, more, .. } = self;
        let left = Left { allocations: *allocations, applications: applications.clone(), more: *more };
        write!(f, "{node}: {left}, since {deadline}")
    }
}
