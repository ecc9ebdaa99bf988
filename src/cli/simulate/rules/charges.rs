//! What counts: every ask that has room somewhere, as its row says, without any sum.

use std::{collections::BTreeMap, sync::Arc};

use crate::domain::{
    Partition,
    alloc::Phase,
    resources::{Resource, ResourceType},
    types::AllocIx,
};

/// One of them.
#[derive(Clone, Debug)]
pub struct Charge {
    /// Its row.
    pub row: AllocIx,
    /// Id of the application.
    pub app: Arc<str>,
    /// Name of the user who submitted it.
    pub user: Arc<str>,
    /// Allocation key.
    pub key: Arc<str>,
    /// Path of the leaf.
    pub queue: Arc<str>,
    /// Id of the node that it is charged to, if any.
    pub node: Option<Arc<str>>,
    /// What it takes.
    pub size: Arc<Resource>,
    /// It was chosen to go for another ask.
    pub preempted: bool,
}

/// All of them, by order of arrival.
pub fn charges(partition: &Partition) -> BTreeMap<u64, Charge> {
    let mut all = BTreeMap::new();
    for app in partition.app_by_id.values().map(|ix| &partition.apps[*ix]) {
        for (seq, ix) in app.by_seq.iter() {
            let row = &partition.allocs[*ix];
            // Asks about which the shim is asked take room, unless only a reservation is in question.
            let counts =
                row.phase == Phase::Allocated || row.phase == Phase::AwaitingShim && app.allocs.contains_key(ix);
            if counts {
                let charge = Charge {
                    row: *ix,
                    app: app.id.clone(),
                    user: app.user.clone(),
                    key: row.spec.key.clone(),
                    queue: app.queue_path.clone(),
                    node: row.node.map(|node| partition.nodes[node].spec.id.clone()),
                    size: row.resource.clone(),
                    preempted: row.preempted,
                };
                all.insert(*seq, charge);
            }
        }
    }
    all
}

/// A queue, and all above it.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    ends.map(|end| &path[..end])
}

/// A queue is this one or below it.
pub fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A sum over charges.
pub fn sum<'a>(charges: impl IntoIterator<Item = &'a Charge>) -> BTreeMap<ResourceType, i128> {
    let mut sum = BTreeMap::new();
    for charge in charges {
        for (kind, amount) in charge.size.iter() {
            *sum.entry(kind.clone()).or_default() += amount;
        }
    }
    sum
}
