//! What is done for a remedy, as commands for a partition.

use std::sync::Arc;

use super::Editor;
use crate::{
    alloc::{Alloc, AskSpec, Phase, PreemptionPolicy},
    app::App,
    command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
    edit::Edit,
    partition::{Partition, forward::AskName},
    resources::Resource,
    sorted::Texts,
    types::{AllocIx, GangStyle, Termination},
};

/// A change that may place an ask.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Nothing has to be changed.
    Wait,
    /// Of the configuration.
    Edit(Edit),
    /// Of a queue that placement made: the configuration names it, with what it has and this change.
    Named {
        /// What changes.
        edit: Edit,
        /// All that the configuration says then.
        all: Vec<Edit>,
    },
    /// Nodes take allocations again.
    Undrain {
        /// Those that an operator drained.
        operator: Vec<Arc<str>>,
        /// Those that the resource manager drained.
        manager: Vec<Arc<str>>,
        /// Drained nodes that would do as well.
        others: usize,
    },
    /// Allocations leave a node.
    Free {
        /// The node.
        node: Arc<str>,
        /// Application and key of each.
        allocations: Vec<AskName>,
        /// Their sum.
        freed: Resource,
    },
    /// The ask wants less.
    Smaller {
        /// The ask.
        ask: AskName,
        /// Its size then.
        to: Resource,
    },
    /// The gang has fewer members; it is submitted again.
    Members {
        /// Id of the application.
        app: Arc<str>,
        /// Placeholders that stay, of those that there are.
        keys: Vec<Arc<str>>,
        /// Number of placeholders now.
        of: usize,
    },
    /// The application is submitted again, to another queue.
    Queue {
        /// Id of the application.
        app: Arc<str>,
        /// Full path of the queue.
        queue: Arc<str>,
    },
    /// Queues take new applications again, and the application is submitted again.
    Resume {
        /// Paths for which operators gave orders.
        queues: Vec<Arc<str>>,
        /// Id of the application.
        app: Arc<str>,
    },
    /// The ask may preempt others; it is sent again.
    Preempt {
        /// The ask.
        ask: AskName,
    },
    /// The node that an ask requires registers.
    Register {
        /// Its id.
        node: Arc<str>,
        /// Its capacity.
        capacity: Resource,
    },
    /// More nodes like one.
    Nodes {
        /// How many nodes.
        count: usize,
        /// The node.
        like: Arc<str>,
        /// Capacity of each.
        capacity: Resource,
    },
}

/// Key of an ask that is sent again.
fn again(key: &str) -> Arc<str> {
    format!("{key} (again)").into()
}

impl Change {
    /// What is done, in order; between two of them the scheduler goes on.
    ///
    /// # Errors
    /// The configuration would be refused, or what it is about is gone.
    pub fn commands(&self, partition: &Partition, edit: Editor<'_>) -> Result<Vec<Command>, String> {
        let gone = || "what it is about is gone".to_owned();
        Ok(match self {
            Change::Wait => Vec::new(),
            Change::Edit(change) => vec![Command::Configure(edit(std::slice::from_ref(change))?)],
            Change::Named { all, .. } => vec![Command::Configure(edit(all)?)],
            Change::Undrain { operator, manager, .. } => {
                let back = |node: &Arc<str>| item(node, NodeAction::DrainToSchedulable);
                vec![
                    Command::OperatorDrain { nodes: operator.clone(), drained: false },
                    Command::Nodes(manager.iter().map(back).collect()),
                ]
            }
            Change::Free { allocations, .. } => {
                let release = |(app, key): &AskName| release(app, key);
                let releases = allocations.iter().map(release).collect();
                vec![Command::Allocations { allocations: Vec::new(), releases }]
            }
            Change::Smaller { ask, to } => {
                let (_, alloc) = find(partition, ask).ok_or_else(gone)?;
                let mut spec = AskSpec::clone(&partition.allocs[alloc].spec);
                spec.resource = Arc::new(to.clone());
                let allocations = vec![AllocationItem { app: ask.0.clone(), node: None, spec: Arc::new(spec) }];
                vec![Command::Allocations { allocations, releases: Vec::new() }]
            }
            Change::Preempt { ask } => {
                let (_, alloc) = find(partition, ask).ok_or_else(gone)?;
                let mut spec = as_it_is(&partition.allocs[alloc]);
                let given = spec.preemption.unwrap_or_default();
                spec.preemption = Some(PreemptionPolicy { allow_preempt_other: true, ..given });
                spec.key = again(&ask.1);
                let allocations = vec![AllocationItem { app: ask.0.clone(), node: None, spec: Arc::new(spec) }];
                vec![
                    Command::Allocations { allocations: Vec::new(), releases: vec![release(&ask.0, &ask.1)] },
                    Command::Allocations { allocations, releases: Vec::new() },
                ]
            }
            Change::Members { app, keys, .. } => {
                let row = row(partition, app).ok_or_else(gone)?;
                let asks = row.by_seq.values().copied().filter(|ask| {
                    let row = &partition.allocs[*ask];
                    !row.is_placeholder() || keys.contains(&row.spec.key)
                });
                resubmit(partition, row, row.submitted_queue.clone(), asks.collect())
            }
            Change::Queue { app, queue } => {
                let row = row(partition, app).ok_or_else(gone)?;
                let asks = row.by_seq.values().copied().collect();
                resubmit(partition, row, queue.clone(), asks)
            }
            Change::Resume { queues, app } => {
                let row = partition.rejected.get(app).ok_or_else(gone)?;
                let new = submission(row, row.submitted_queue.clone(), row.gang.placeholder_ask.as_deref().cloned());
                vec![
                    Command::OrderQueues(queues.iter().map(|queue| (queue.clone(), None)).collect()),
                    Command::Applications { new: vec![new], remove: Vec::new() },
                ]
            }
            Change::Register { node, capacity } => {
                vec![Command::Nodes(vec![NodeItem {
                    capacity: Some(capacity.clone()),
                    ..item(node, NodeAction::Create)
                }])]
            }
            Change::Nodes { count, like, capacity } => {
                let like = partition.node_by_id.get(like).ok_or_else(gone)?;
                let attributes = &partition.nodes[*like].spec.attributes;
                let new = (1..=*count).map(|n| NodeItem {
                    capacity: Some(capacity.clone()),
                    attributes: attributes.clone(),
                    ..item(&new_node(n), NodeAction::Create)
                });
                vec![Command::Nodes(new.collect())]
            }
        })
    }

    /// The asks that have to be placed afterwards, where these were looked at.
    pub fn watched(&self, names: &[AskName]) -> Vec<AskName> {
        match self {
            Change::Preempt { ask } => vec![(ask.0.clone(), again(&ask.1))],
            Change::Members { app, keys, .. } => keys.iter().map(|key| (app.clone(), key.clone())).collect(),
            _ => names.to_vec(),
        }
    }
}

/// Id of a node that is added, from 1 on.
pub(super) fn new_node(n: usize) -> Arc<str> {
    format!("(new node {n})").into()
}

fn item(node: &Arc<str>, action: NodeAction) -> NodeItem {
    NodeItem { id: node.clone(), action, capacity: None, attributes: Texts::new() }
}

fn release(app: &Arc<str>, key: &Arc<str>) -> ReleaseItem {
    ReleaseItem { app: app.clone(), key: key.clone(), termination: Termination::StoppedByRm }
}

fn row<'a>(partition: &'a Partition, app: &str) -> Option<&'a App> {
    partition.apps.get(*partition.app_by_id.get(app)?)
}

fn find<'a>(partition: &'a Partition, ask: &AskName) -> Option<(&'a App, AllocIx)> {
    let app = *partition.app_by_id.get(&ask.0)?;
    Some((partition.apps.get(app)?, partition.by_key(app, &ask.1)?))
}

/// An application as it was submitted, to this queue and with this announced of its gang.
fn submission(row: &App, queue: Arc<str>, placeholder_ask: Option<Resource>) -> AddApplication {
    AddApplication {
        id: row.id.clone(),
        queue,
        user: row.user.clone(),
        groups: Some(row.groups.clone()),
        unresolved: None,
        tags: row.tags.clone(),
        timeout_millis: row.timeout.0 / 1_000_000,
        placeholder_ask,
        gang_style: match row.gang.style {
            GangStyle::Hard => "Hard".to_owned(),
            GangStyle::Soft => "Soft".to_owned(),
        },
    }
}

/// An ask as it was sent, with the size that it has now.
fn as_it_is(row: &Alloc) -> AskSpec {
    AskSpec { resource: row.resource.clone(), ..AskSpec::clone(&row.spec) }
}

/// An application is removed, and submitted once more with these of its asks.
fn resubmit(partition: &Partition, row: &App, queue: Arc<str>, asks: Vec<AllocIx>) -> Vec<Command> {
    let live = |ask: &AllocIx| partition.allocs[*ask].phase != Phase::Ended;
    let asks: Vec<AllocIx> = asks.into_iter().filter(live).collect();
    let mut gang = Resource::new();
    for ask in asks.iter().map(|ask| &partition.allocs[*ask]).filter(|ask| ask.is_placeholder()) {
        gang.add(&ask.resource);
    }
    let new = submission(row, queue, row.gang.placeholder_ask.as_ref().map(|_| gang));
    let allocations = asks
        .into_iter()
        .map(|ask| AllocationItem { app: row.id.clone(), node: None, spec: as_it_is(&partition.allocs[ask]).into() })
        .collect();
    vec![
        Command::Applications { new: Vec::new(), remove: vec![row.id.clone()] },
        Command::Applications { new: vec![new], remove: Vec::new() },
        Command::Allocations { allocations, releases: Vec::new() },
    ]
}
