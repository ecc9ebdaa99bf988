//! Requests of a shim to commands of its partitions. Items that cannot be expressed become rejections.

use std::{collections::HashMap, sync::Arc};

use callboard_domain::{
    alloc::{AskSpec, Foreign, PreemptionPolicy},
    command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem},
    effect::Callback,
    names::{INVALID_QUEUE_NAME, MAX_QUEUE_LEVELS, MAX_QUEUE_NAME, too_many_levels},
    node::HOST_NAME,
    placement::reason,
    resources::{Resource, Types, Vectors},
    types::{Nanos, Termination},
};

use super::{constants as key, session::Part, v1};

/// Most partitions of one request.
pub const MAX_PARTITIONS: usize = 100;

/// Longest id of anything in bytes: of nodes and their hosts, applications, allocations, users, groups, task groups, partitions.
pub const MAX_ID: usize = 1_024;

/// The id of an item that is not taken, and why.
type Refused = (Arc<str>, Arc<str>);

/// Names of one resource manager's partitions (R1.6) and resource types.
#[derive(Clone, Debug)]
pub struct Names {
    rm: Arc<str>,
    default: Arc<str>,
    types: Arc<Types>,
}

/// A converted request.
#[derive(Debug, Default)]
pub struct Inward {
    /// Number of items, for the budget.
    pub items: usize,
    /// Commands by partition, in the order in which the partitions first occur.
    pub parts: Vec<Part>,
    /// Rejections that need no partition.
    pub rejected: Vec<Callback>,
}

impl Names {
    /// Names of this resource manager.
    pub fn new(rm: &str, types: Arc<Types>) -> Names {
        Names { rm: rm.into(), default: format!("[{rm}]{}", key::DEFAULT_PARTITION).into(), types }
    }

    /// Makes the vectors of one request.
    pub(super) fn vectors(&self) -> Vectors<'_> {
        Vectors::new(&self.types)
    }

    /// A resource; the reason where it names a type that may not be.
    fn resource(&self, resource: v1::Resource) -> Result<Resource, Arc<str>> {
        let mut amounts = Resource::new();
        for (name, quantity) in resource.resources {
            let kind = self.types.get(&name).map_err(|fault| Arc::from(fault.to_string()))?;
            amounts.set(kind, i128::from(quantity.value));
        }
        Ok(amounts)
    }

    /// A submission; else its id, and why it is refused.
    pub(super) fn application(&self, new: v1::AddApplicationRequest) -> Result<AddApplication, Refused> {
        let id: Arc<str> = new.application_id.into();
        if id.is_empty() {
            return Err((id, "applicationID is empty: an application needs an id".into()));
        }
        if let Some(reason) = long_path(&id, &new.queue_name) {
            return Err((id, reason));
        }
        // A style is none, but nobody knows a long one, and the reason would repeat it.
        let ids = [
            ("applicationID", &*id),
            ("partitionName", &new.partition_name),
            ("gangSchedulingStyle", &new.gang_scheduling_style),
        ];
        let ugi = new.ugi.iter().flat_map(|ugi| std::iter::once(&ugi.user).chain(&ugi.groups));
        let names = ugi.map(|name| ("a name of ugi", name.as_str()));
        let fault = ids.into_iter().chain(names).find_map(|(what, id)| long(what, id));
        if let Some(reason) = fault {
            return Err((id, reason));
        }
        let placeholder_ask = new.placeholder_ask.map(|ask| self.resource(ask)).transpose();
        let placeholder_ask = placeholder_ask.map_err(|reason| (id.clone(), reason))?;
        let (user, mut groups) = match new.ugi {
            Some(ugi) => (ugi.user, ugi.groups),
            None => Default::default(),
        };
        // What has no name is no group, and nobody could look it up.
        groups.retain(|group| !group.is_empty());
        Ok(AddApplication {
            id,
            queue: new.queue_name.into(),
            user: user.into(),
            groups: (!groups.is_empty()).then(|| groups.into_iter().map(Arc::from).collect()),
            unresolved: None,
            tags: Arc::new(new.tags.into()),
            timeout_millis: new.execution_timeout_milli_seconds,
            placeholder_ask: placeholder_ask.filter(|ask| !ask.is_zero()),
            gang_style: new.gang_scheduling_style,
        })
    }

    /// An ask or an allocation.
    pub(super) fn allocation(
        &self,
        allocation: v1::Allocation,
        vectors: &mut Vectors,
    ) -> Result<AllocationItem, Callback> {
        let app: Arc<str> = allocation.application_id.into();
        let key: Arc<str> = allocation.allocation_key.into();
        let reject = |reason: Arc<str>| Callback::RejectedAllocation { key: key.clone(), app: app.clone(), reason };
        if key.is_empty() {
            return Err(reject("allocationKey is empty: an allocation needs a key".into()));
        }
        let ids = [
            ("allocationKey", &*key),
            ("applicationID", &*app),
            ("nodeID", &allocation.node_id),
            ("taskGroupName", &allocation.task_group_name),
            ("partitionName", &allocation.partition_name),
        ];
        if let Some(reason) = ids.into_iter().find_map(|(what, id)| long(what, id)) {
            return Err(reject(reason));
        }
        let amounts = allocation.resource_per_alloc.unwrap_or_default().resources;
        let resource = vectors.of(amounts.iter().map(|(name, quantity)| (name.as_str(), quantity.value)));
        let resource = resource.map_err(|fault| reject(fault.to_string().into()))?;
        let tags = allocation.allocation_tags;
        let spec = AskSpec {
            key,
            resource,
            priority: allocation.priority,
            // Without a task group the flag says nothing (SEEDS S8).
            placeholder: allocation.placeholder && !allocation.task_group_name.is_empty(),
            // Most have none, and share that.
            task_group: match &*allocation.task_group_name {
                "" => Arc::default(),
                name => name.into(),
            },
            originator: allocation.originator,
            preemption: allocation.preemption_policy.map(|policy| PreemptionPolicy {
                allow_preempt_self: policy.allow_preempt_self,
                allow_preempt_other: policy.allow_preempt_other,
            }),
            required_node: tags
                .get(key::REQUIRED_NODE)
                .filter(|node| !node.is_empty())
                .map(|node| node.as_str().into()),
            created: tags.get(key::CREATION_TIME).and_then(|secs| secs.parse().ok()).map(Nanos::from_secs),
            foreign: tags.get(key::FOREIGN).map(|kind| match kind.as_str() {
                key::FOREIGN_STATIC => Foreign::Static,
                key::FOREIGN_DEFAULT => Foreign::Default,
                other => {
                    tracing::debug!(kind = other, "unknown kind of foreign allocation, taken as \"default\"");
                    Foreign::Default
                }
            }),
            tags: tags.into(),
        };
        let node = (!allocation.node_id.is_empty()).then(|| allocation.node_id.into());
        Ok(AllocationItem { app, node, spec: Arc::new(spec) })
    }

    /// The internal name: `[rm]name`; an empty name is `default`, one that begins with `[` is left alone.
    pub fn internal(&self, name: &str) -> Arc<str> {
        if name.is_empty() || name == key::DEFAULT_PARTITION || name == &*self.default {
            self.default.clone()
        } else if name.starts_with('[') {
            name.into()
        } else {
            format!("[{}]{name}", self.rm).into()
        }
    }

    /// An entry of a node request with its partition; else its id, and why it is refused.
    pub(super) fn node(&self, node: v1::NodeInfo, creates: bool) -> Result<(Arc<str>, NodeItem), Refused> {
        let id: Arc<str> = node.node_id.into();
        let action = node_action(node.action).ok_or_else(|| {
            let reason =
                format!("action of node {id} is {}, which stands for none: nothing was done with it", node.action);
            (id.clone(), reason.into())
        })?;
        if creates && id.is_empty() {
            return Err((id, "nodeID is empty: a node needs an id".into()));
        }
        if let Some(reason) = long("nodeID", &id) {
            return Err((id, reason));
        }
        let capacity = node.schedulable_resource.map(|amounts| self.resource(amounts)).transpose();
        let capacity = capacity.map_err(|reason| (id.clone(), reason))?;
        let mut attributes = node.attributes;
        // The journal keeps it with each event of the node.
        if let Some(reason) = attributes.get(HOST_NAME).and_then(|host| long(HOST_NAME, host)) {
            return Err((id, reason));
        }
        let partition = self.internal(attributes.get(key::NODE_PARTITION).map_or("", String::as_str));
        // Attributes of an update replace those of the node only where some were given (SEEDS S5).
        if creates || !attributes.is_empty() {
            attributes.insert(key::NODE_PARTITION.to_owned(), partition.to_string());
        }
        Ok((partition, NodeItem { id, action, capacity, attributes: attributes.into() }))
    }
}

/// Why an id is refused for its length.
fn long(what: &str, id: &str) -> Option<Arc<str>> {
    (id.len() > MAX_ID).then(|| format!("{what} has {} bytes: at most {MAX_ID} are allowed", id.len()).into())
}

/// Why a queue path is refused before any rule looks at it.
fn long_path(app: &str, path: &str) -> Option<Arc<str>> {
    if path.len() <= MAX_QUEUE_LEVELS * (MAX_QUEUE_NAME + 1) {
        return None;
    }
    let levels = path.split('.').count();
    let why = if levels > MAX_QUEUE_LEVELS { too_many_levels(levels) } else { INVALID_QUEUE_NAME.to_owned() };
    Some(reason::not_placed(app, why).into())
}

/// Items by partition, in the order in which the partitions first occur; nearly always of one.
pub(super) struct Groups<T> {
    groups: Vec<(Arc<str>, T)>,
    places: HashMap<Arc<str>, usize>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Groups { groups: Vec::new(), places: HashMap::new() }
    }
}

impl<T: Default> Groups<T> {
    /// Those of a partition; `None` where the request names more than a configuration may have.
    pub fn of(&mut self, partition: Arc<str>) -> Option<&mut T> {
        let at = match self.groups.last() {
            Some((last, _)) if *last == partition => self.groups.len() - 1,
            _ => *self.places.entry(partition).or_insert_with_key(|partition| {
                self.groups.push((partition.clone(), T::default()));
                self.groups.len() - 1
            }),
        };
        (at < MAX_PARTITIONS).then(|| &mut self.groups[at].1)
    }

    /// The commands of all.
    pub fn parts(self, command: impl Fn(T) -> Command) -> Vec<Part> {
        self.groups.into_iter().map(|(partition, items)| Part { partition, command: command(items) }).collect()
    }
}

/// What is to become of a node; `None`: the number stands for nothing.
pub(super) fn node_action(number: i32) -> Option<NodeAction> {
    use v1::node_info::ActionFromRm;
    Some(match ActionFromRm::try_from(number).ok()? {
        ActionFromRm::UnknownActionFromRm => NodeAction::Unknown,
        ActionFromRm::Create => NodeAction::Create,
        ActionFromRm::CreateDrain => NodeAction::CreateDrain,
        ActionFromRm::Update => NodeAction::Update,
        ActionFromRm::DrainNode => NodeAction::Drain,
        ActionFromRm::DrainToSchedulable => NodeAction::DrainToSchedulable,
        ActionFromRm::Decomission => NodeAction::Decommission,
    })
}

/// Why an allocation ends; there is no answer that could refuse a number that stands for nothing, so it counts as 0.
pub(super) fn termination(number: i32) -> Termination {
    match v1::TerminationType::try_from(number).unwrap_or_default() {
        v1::TerminationType::UnknownTerminationType => Termination::Unknown,
        v1::TerminationType::StoppedByRm => Termination::StoppedByRm,
        v1::TerminationType::Timeout => Termination::Timeout,
        v1::TerminationType::PreemptedByScheduler => Termination::Preempted,
        v1::TerminationType::PlaceholderReplaced => Termination::PlaceholderReplaced,
        v1::TerminationType::SchedulingFailedOnRm => Termination::FailedOnRm,
    }
}
