//! Normalising and checking what is written, in the order in which clients know the first fault (CFG-011).
//!
//! Every check goes on after a fault. What is checked here is what is applied: there is no second, stricter reading
//! (CFG-014, CFG-031, CFG-045, CFG-079).

mod limits;
mod queues;
mod resources;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::{
    faults::Faults,
    written::{Partition, Queue, Scheduler, Spanned},
};
use crate::placement::MAX_EXPRESSIONS;

/// Most placement rules of a partition: each submission is tried on all of them.
const MAX_RULES: usize = 1_000;
const DEFAULT_PARTITION: &str = "default";
const ROOT: &str = "root";

/// Brings names, root and limits of each partition into their final form, and checks everything.
pub fn normalise_and_check(scheduler: &mut Scheduler, faults: &mut Faults) {
    let mut names = Vec::new();
    let (mut types, mut room) = (BTreeSet::new(), MAX_EXPRESSIONS);
    for partition in scheduler.partitions.iter_mut().flatten() {
        name(partition, &mut names, faults);
        structure(partition, faults);
        root_limits(partition, faults);
        let Some(root) = partition.queues.as_ref().and_then(|queues| queues.first()) else {
            continue;
        };
        queues::check(root, faults);
        if queues::overlong(root) {
            // The other checks tell whole paths.
            continue;
        }
        resources::check(root, faults);
        resources::check_types(root, &mut types, faults);
        if let Some(rule) = partition.rules.get(MAX_RULES) {
            let text =
                format!("{} placement rules are configured: at most {MAX_RULES} are allowed", partition.rules.len());
            faults.add(rule.at, "CFG-075", text, format!("partition {}", partition.name.value));
            continue;
        }
        rules::check(&partition.rules, root, &mut room, faults);
        node_sort(partition, faults);
        queues::check_max_applications(root, faults);
        limits::check_resources(root, faults);
        limits::check_applications(root, faults);
    }
}

/// Partition names (CFG-010).
fn name(partition: &mut Partition, names: &mut Vec<String>, faults: &mut Faults) {
    let name = &mut partition.name.value;
    let lower = name.to_lowercase();
    if lower.is_empty() || lower == DEFAULT_PARTITION {
        *name = DEFAULT_PARTITION.to_owned();
    }
    // A full name is `[rmID]name`: one of another resource manager could be taken for it.
    if name.chars().any(|c| c.is_control() || matches!(c, '[' | ']')) {
        let text = format!("invalid partition name {name:?}, control characters, '[' and ']' are not allowed");
        faults.add(partition.name.at, "CFG-010", text, "'[' and ']' stand around the id of the resource manager");
    }
    let lower = name.to_lowercase();
    if names.contains(&lower) {
        let text = format!("duplicate partition name found with name {name}");
        faults.add(partition.name.at, "CFG-010", text, "names are compared in any case");
    }
    names.push(lower);
}

/// Puts the root queue in place (CFG-012–CFG-015).
fn structure(partition: &mut Partition, faults: &mut Faults) {
    let Some(mut queues) = partition.queues.take() else {
        let detail = format!("partition {}: an empty list is `queues: []`", partition.name.value);
        faults.add(partition.at, "CFG-012", "queue config is not set", detail);
        return;
    };
    let mut root = match &queues[..] {
        [only] if only.name.value.eq_ignore_ascii_case(ROOT) => queues.remove(0),
        _ => Queue { at: partition.at, queues, ..Queue::default() },
    };
    root.name = Spanned { value: ROOT.to_owned(), at: root.name.at };
    root.parent = true;
    if root.resources.guaranteed.is_some() || root.resources.max.is_some() {
        let detail = "its size is that of the nodes";
        faults.add(root.at, "CFG-015", "root queue must not have resource limits set", detail);
    }
    partition.queues = Some(vec![root]);
}

/// Limits of the partition are those of the root queue (CFG-016).
fn root_limits(partition: &mut Partition, faults: &mut Faults) {
    let Partition { queues: Some(queues), limits, .. } = partition else {
        return;
    };
    let Some(root) = queues.first_mut().filter(|_| !limits.is_empty()) else {
        return;
    };
    if root.limits.is_empty() {
        root.limits.clone_from(limits);
    } else if root.limits.len() != limits.len() || !root.limits.iter().zip(limits.iter()).all(|(a, b)| a.same(b)) {
        let text = "partition limits and root queue limits are not equivalent";
        faults.add(limits[0].at, "CFG-016", text, "leave one of the two lists out");
    }
}

/// Node sort policy and weights (CFG-07A).
fn node_sort(partition: &Partition, faults: &mut Faults) {
    let node_sort = &partition.node_sort;
    if !["", "fair", "binpacking"].contains(&node_sort.policy.value.as_str()) {
        let text = format!("undefined policy: {}", node_sort.policy.value);
        faults.add(node_sort.policy.at, "CFG-07A", text, "nodesortpolicy.type is fair or binpacking");
    }
    for (kind, weight) in &node_sort.weights {
        if weight.value < 0.0 {
            let text = format!("negative resource weight for {kind} is not allowed");
            faults.add(weight.at, "CFG-07A", text, weight.value.to_string());
        } else if !weight.value.is_finite() {
            let text = format!("resource weight for {kind} is not a finite number");
            faults.add(weight.at, "CFG-07A", text, weight.value.to_string());
        }
    }
}
