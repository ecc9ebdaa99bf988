//! Requests of a shim to commands of its partitions. Items that cannot be expressed become rejections.

use std::{collections::BTreeMap, sync::Arc};

use super::{constants as key, v1};
use crate::{
    domain::{
        alloc::{AskSpec, Foreign, PreemptionPolicy},
        command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
        effect::Callback,
        resources::{Resource, Types},
        types::{Nanos, Termination},
    },
    messages::rm::Part,
};

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

    /// A resource; the reason where it names a type that may not be.
    fn resource(&self, resource: v1::Resource) -> Result<Resource, Arc<str>> {
        let mut amounts = Resource::new();
        let mut faults = Vec::new();
        for (name, quantity) in resource.resources {
            match self.types.get(&name) {
                Ok(kind) => amounts.set(kind, i128::from(quantity.value)),
                Err(fault) => faults.push(fault.to_string()),
            }
        }
        // Whatever order the map has: the first by name.
        faults.into_iter().min().map_or(Ok(amounts), |fault| Err(fault.into()))
    }

    fn application(&self, new: v1::AddApplicationRequest) -> Result<AddApplication, (Arc<str>, Arc<str>)> {
        let id: Arc<str> = new.application_id.into();
        if id.is_empty() {
            return Err((id, "applicationID is empty: an application needs an id".into()));
        }
        let placeholder_ask = new.placeholder_ask.map(|ask| self.resource(ask)).transpose();
        let placeholder_ask = placeholder_ask.map_err(|reason| (id.clone(), reason))?;
        let (user, groups) = match new.ugi {
            Some(ugi) => (ugi.user, ugi.groups),
            None => Default::default(),
        };
        Ok(AddApplication {
            id,
            queue: new.queue_name.into(),
            user: user.into(),
            groups: (!groups.is_empty()).then(|| groups.into_iter().map(Arc::from).collect()),
            unresolved: None,
            tags: Arc::new(new.tags.into_iter().collect()),
            timeout_millis: new.execution_timeout_milli_seconds,
            placeholder_ask: placeholder_ask.filter(|ask| !ask.is_zero()),
            gang_style: new.gang_scheduling_style,
        })
    }

    fn allocation_item(&self, allocation: v1::Allocation) -> Result<AllocationItem, Callback> {
        let app: Arc<str> = allocation.application_id.into();
        let key: Arc<str> = allocation.allocation_key.into();
        let reject = |reason: Arc<str>| Callback::RejectedAllocation { key: key.clone(), app: app.clone(), reason };
        if key.is_empty() {
            return Err(reject("allocationKey is empty: an allocation needs a key".into()));
        }
        let resource = self.resource(allocation.resource_per_alloc.unwrap_or_default()).map_err(reject)?;
        let tags: BTreeMap<String, String> = allocation.allocation_tags.into_iter().collect();
        let spec = AskSpec {
            key,
            resource: Arc::new(resource),
            priority: allocation.priority,
            // Without a task group the flag says nothing (SEEDS S8).
            placeholder: allocation.placeholder && !allocation.task_group_name.is_empty(),
            task_group: allocation.task_group_name.into(),
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
                    tracing::warn!(kind = other, "unknown kind of foreign allocation, taken as \"default\"");
                    Foreign::Default
                }
            }),
            tags,
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

    /// A node request (R1.31).
    pub fn nodes(&self, request: v1::NodeRequest) -> Inward {
        let mut inward = Inward { items: request.nodes.len(), ..Inward::default() };
        let mut groups: Groups<Vec<NodeItem>> = Groups::default();
        for node in request.nodes {
            let action = node_action(node.action);
            let creates = matches!(action, NodeAction::Create | NodeAction::CreateDrain);
            let id: Arc<str> = node.node_id.into();
            if creates && id.is_empty() {
                let reason = "nodeID is empty: a node needs an id".into();
                inward.rejected.push(Callback::RejectedNode { node: id, reason });
                continue;
            }
            let capacity = match node.schedulable_resource.map(|amounts| self.resource(amounts)).transpose() {
                Ok(capacity) => capacity,
                Err(reason) => {
                    inward.rejected.push(Callback::RejectedNode { node: id, reason });
                    continue;
                }
            };
            let mut attributes: BTreeMap<String, String> = node.attributes.into_iter().collect();
            let partition = self.internal(attributes.get(key::NODE_PARTITION).map_or("", String::as_str));
            // Attributes of an update replace those of the node only where some were given (SEEDS S5).
            if creates || !attributes.is_empty() {
                attributes.insert(key::NODE_PARTITION.to_owned(), partition.to_string());
            }
            groups.of(partition).push(NodeItem { id, action, capacity, attributes });
        }
        inward.parts = groups.parts(Command::Nodes);
        inward
    }

    /// An application request (R1.30).
    pub fn applications(&self, request: v1::ApplicationRequest) -> Inward {
        let items = request.new.len() + request.remove.len();
        let mut inward = Inward { items, ..Inward::default() };
        let mut groups: Groups<(Vec<AddApplication>, Vec<Arc<str>>)> = Groups::default();
        for new in request.new {
            let partition = self.internal(&new.partition_name);
            match self.application(new) {
                Ok(new) => groups.of(partition).0.push(new),
                Err((app, reason)) => inward.rejected.push(Callback::RejectedApplication { app, reason }),
            }
        }
        for remove in request.remove {
            groups.of(self.internal(&remove.partition_name)).1.push(remove.application_id.into());
        }
        inward.parts = groups.parts(|(new, remove)| Command::Applications { new, remove });
        inward
    }

    /// An allocation request (R1.29).
    pub fn allocations(&self, request: v1::AllocationRequest) -> Inward {
        let releases = request.releases.map(|releases| releases.allocations_to_release).unwrap_or_default();
        let mut inward = Inward { items: request.allocations.len() + releases.len(), ..Inward::default() };
        let mut groups: Groups<(Vec<AllocationItem>, Vec<ReleaseItem>)> = Groups::default();
        for allocation in request.allocations {
            let partition = self.internal(&allocation.partition_name);
            match self.allocation_item(allocation) {
                Ok(item) => groups.of(partition).0.push(item),
                Err(rejection) => inward.rejected.push(rejection),
            }
        }
        for release in releases {
            groups.of(self.internal(&release.partition_name)).1.push(ReleaseItem {
                app: release.application_id.into(),
                key: release.allocation_key.into(),
                termination: termination(release.termination_type),
            });
        }
        inward.parts = groups.parts(|(allocations, releases)| Command::Allocations { allocations, releases });
        inward
    }
}

/// Items by partition; nearly always of one.
struct Groups<T>(Vec<(Arc<str>, T)>);

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Groups(Vec::new())
    }
}

impl<T: Default> Groups<T> {
    fn of(&mut self, partition: Arc<str>) -> &mut T {
        let at = self.0.iter().position(|(name, _)| *name == partition).unwrap_or_else(|| {
            self.0.push((partition, T::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    fn parts(self, command: impl Fn(T) -> Command) -> Vec<Part> {
        self.0.into_iter().map(|(partition, items)| Part { partition, command: command(items) }).collect()
    }
}

fn node_action(number: i32) -> NodeAction {
    use v1::node_info::ActionFromRm;
    match ActionFromRm::try_from(number).unwrap_or_default() {
        ActionFromRm::UnknownActionFromRm => NodeAction::Unknown,
        ActionFromRm::Create => NodeAction::Create,
        ActionFromRm::CreateDrain => NodeAction::CreateDrain,
        ActionFromRm::Update => NodeAction::Update,
        ActionFromRm::DrainNode => NodeAction::Drain,
        ActionFromRm::DrainToSchedulable => NodeAction::DrainToSchedulable,
        ActionFromRm::Decomission => NodeAction::Decommission,
    }
}

fn termination(number: i32) -> Termination {
    match v1::TerminationType::try_from(number).unwrap_or_default() {
        v1::TerminationType::UnknownTerminationType => Termination::Unknown,
        v1::TerminationType::StoppedByRm => Termination::StoppedByRm,
        v1::TerminationType::Timeout => Termination::Timeout,
        v1::TerminationType::PreemptedByScheduler => Termination::Preempted,
        v1::TerminationType::PlaceholderReplaced => Termination::PlaceholderReplaced,
        v1::TerminationType::SchedulingFailedOnRm => Termination::FailedOnRm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new("rm:1", Arc::default())
    }

    fn amounts(memory: i64) -> v1::Resource {
        v1::Resource { resources: [("memory".to_owned(), v1::Quantity { value: memory })].into() }
    }

    #[test]
    fn partition_names_get_the_rm_in_front() {
        // R1.6, CFG-094
        assert_eq!(&*names().internal(""), "[rm:1]default");
        assert_eq!(&*names().internal("default"), "[rm:1]default");
        assert_eq!(&*names().internal("gpu"), "[rm:1]gpu");
        assert_eq!(&*names().internal("[other]x"), "[other]x");
    }

    #[test]
    fn nodes_carry_their_partition_as_attribute() {
        // R1.6, R2.7
        let node = |id: &str, action, attributes: &[(&str, &str)]| v1::NodeInfo {
            node_id: id.into(),
            action,
            attributes: attributes.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            schedulable_resource: Some(amounts(5)),
        };
        let request = v1::NodeRequest {
            nodes: vec![
                node("n1", 1, &[]),
                node("n2", 6, &[("si/node-partition", "gpu"), ("si/rackname", "r")]),
                node("n1", 2, &[]),
                node("", 1, &[]),
                node("n3", 77, &[]),
            ],
            rm_id: String::new(),
        };
        let inward = names().nodes(request);
        assert_eq!(inward.items, 5);
        assert_eq!(inward.rejected.len(), 1, "a node without an id");
        let [default, gpu] = &inward.parts[..] else { panic!("two partitions: {:?}", inward.parts) };
        let Command::Nodes(items) = &default.command else { panic!() };
        assert_eq!(&*default.partition, "[rm:1]default");
        assert_eq!(items[0].attributes["si/node-partition"], "[rm:1]default");
        assert_eq!(items[0].capacity, Some(Resource::of(&[("memory", 5)])));
        assert!(items[1].attributes.is_empty(), "an update without attributes leaves them alone (SEEDS S5)");
        assert_eq!(items[2].action, NodeAction::Unknown, "unknown numbers count as 0");
        let Command::Nodes(items) = &gpu.command else { panic!() };
        assert_eq!(items[0].action, NodeAction::CreateDrain);
        assert_eq!(items[0].attributes["si/node-partition"], "[rm:1]gpu");
        assert_eq!(items[0].attributes["si/rackname"], "r");
    }

    #[test]
    fn tags_of_an_ask_become_fields() {
        // R4.2, R4.3, R2.15, SEEDS S8
        let tags = [("creationTime", "1700000100"), ("yunikorn.apache.org/requiredNode", "n9"), ("foreign", "static")];
        let allocation = v1::Allocation {
            allocation_key: "k".into(),
            application_id: "a".into(),
            allocation_tags: tags.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            placeholder: true,
            preemption_policy: Some(v1::PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: false }),
            ..v1::Allocation::default()
        };
        let request = v1::AllocationRequest { allocations: vec![allocation], ..Default::default() };
        let inward = names().allocations(request);
        let Command::Allocations { allocations, .. } = &inward.parts[0].command else { panic!() };
        let spec = &allocations[0].spec;
        assert_eq!(spec.created, Some(Nanos::from_secs(1_700_000_100)));
        assert_eq!(spec.required_node.as_deref(), Some("n9"));
        assert_eq!(spec.foreign, Some(Foreign::Static));
        assert!(!spec.placeholder, "no task group");
        assert!(!spec.opted_out() && !spec.may_preempt_others());
        assert!(allocations[0].node.is_none() && spec.resource.is_empty());
    }

    #[test]
    fn allocations_and_releases_of_a_partition_stay_in_one_command() {
        // R1.29
        let request = v1::AllocationRequest {
            allocations: vec![v1::Allocation {
                allocation_key: "k".into(),
                node_id: "n1".into(),
                ..v1::Allocation::default()
            }],
            releases: Some(v1::AllocationReleasesRequest {
                allocations_to_release: vec![
                    v1::AllocationRelease { allocation_key: "x".into(), termination_type: 9, ..Default::default() },
                    v1::AllocationRelease { partition_name: "gpu".into(), termination_type: 5, ..Default::default() },
                ],
            }),
            rm_id: String::new(),
        };
        let inward = names().allocations(request);
        assert_eq!((inward.items, inward.parts.len()), (3, 2));
        let Command::Allocations { allocations, releases } = &inward.parts[0].command else { panic!() };
        assert_eq!(allocations[0].node.as_deref(), Some("n1"));
        assert_eq!(releases[0].termination, Termination::Unknown);
        let Command::Allocations { releases, .. } = &inward.parts[1].command else { panic!() };
        assert_eq!(releases[0].termination, Termination::FailedOnRm);
    }

    #[test]
    fn applications_without_groups_are_resolved_later() {
        // R3.27, R3.37
        let new = v1::AddApplicationRequest {
            application_id: "a".into(),
            ugi: Some(v1::UserGroupInformation { user: "u".into(), groups: vec![] }),
            placeholder_ask: Some(amounts(0)),
            ..Default::default()
        };
        let remove = v1::RemoveApplicationRequest { application_id: "b".into(), ..Default::default() };
        let nameless = v1::AddApplicationRequest::default();
        let request = v1::ApplicationRequest { new: vec![new, nameless], remove: vec![remove], ..Default::default() };
        let inward = names().applications(request);
        assert!(matches!(&inward.rejected[..], [Callback::RejectedApplication { .. }]));
        let Command::Applications { new, remove } = &inward.parts[0].command else { panic!() };
        assert_eq!(new[0].groups, None);
        assert_eq!(new[0].placeholder_ask, None, "all zero is none");
        assert_eq!(&*remove[0], "b");
    }
}
