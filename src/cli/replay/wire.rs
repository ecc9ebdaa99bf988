//! The trace in the words of the interface `si.v1`.

use std::collections::BTreeMap;

use super::trace::{Amounts, ResourceKind, Trace};
use crate::si::v1::{
    AddApplicationRequest, Allocation, AllocationRelease, AllocationReleasesRequest, AllocationRequest,
    ApplicationRequest, NodeInfo, NodeRequest, Quantity, RejectedAllocation, RemoveApplicationRequest, Resource,
    UserGroupInformation, node_info::ActionFromRm,
};

/// Partition that a trace is played in.
pub const PARTITION: &str = "default";
/// Nodes and applications per request.
pub const CHUNK: usize = 1000;

/// A resource without the types that are 0.
pub fn resource(types: &[ResourceKind], amounts: &Amounts) -> Resource {
    let entries = types.iter().zip(amounts).filter(|(_, amount)| **amount != 0);
    Resource {
        resources: entries.map(|(kind, amount)| (kind.name().to_owned(), Quantity { value: *amount })).collect(),
    }
}

/// The nodes of a trace, in requests.
pub fn nodes(trace: &Trace, rm: &str) -> Vec<NodeRequest> {
    let infos: Vec<_> = trace
        .nodes
        .iter()
        .map(|node| NodeInfo {
            node_id: node.id.clone(),
            action: ActionFromRm::Create.into(),
            attributes: BTreeMap::from([
                ("si/node-partition".to_owned(), PARTITION.to_owned()),
                ("si/hostname".to_owned(), node.id.clone()),
            ]),
            schedulable_resource: Some(resource(&trace.types, &node.capacity)),
        })
        .collect();
    infos.chunks(CHUNK).map(|nodes| NodeRequest { nodes: nodes.to_vec(), rm_id: rm.to_owned() }).collect()
}

/// Submissions and removals of applications, in requests.
pub fn applications(trace: &Trace, rm: &str, new: &[usize], remove: &[usize]) -> Vec<ApplicationRequest> {
    let add = |app: &usize| {
        let size = trace.gangs.as_ref().map(|plan| resource(&trace.types, &plan.sizes[*app]));
        let app = &trace.apps[*app];
        AddApplicationRequest {
            application_id: app.id.clone(),
            queue_name: format!("root.{}", app.queue),
            partition_name: PARTITION.to_owned(),
            ugi: Some(UserGroupInformation { user: app.user.clone(), groups: vec![app.user.clone()] }),
            gang_scheduling_style: if size.is_some() { "Soft".to_owned() } else { String::new() },
            placeholder_ask: size,
            ..Default::default()
        }
    };
    let gone = |app: &usize| RemoveApplicationRequest {
        application_id: trace.apps[*app].id.clone(),
        partition_name: PARTITION.to_owned(),
    };
    let request = |new, remove| ApplicationRequest { new, remove, rm_id: rm.to_owned() };
    let submissions = new.chunks(CHUNK).map(|apps| request(apps.iter().map(add).collect(), Vec::new()));
    let removals = remove.chunks(CHUNK).map(|apps| request(Vec::new(), apps.iter().map(gone).collect()));
    submissions.chain(removals).collect()
}

/// A release or confirmation: key, application, type.
pub type Release = (String, String, i32);

/// An ask to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Position in the trace.
    pub at: usize,
    /// Allocation key.
    pub key: String,
    /// It is a placeholder.
    pub placeholder: bool,
}

/// Asks and releases in one request.
pub fn moment(trace: &Trace, rm: &str, asks: &[Ask], releases: &[Release]) -> AllocationRequest {
    let ask = |asked: &Ask| {
        let ask = &trace.asks[asked.at];
        Allocation {
            allocation_key: asked.key.clone(),
            task_group_name: trace.gangs.as_ref().map(|plan| plan.groups[asked.at].clone()).unwrap_or_default(),
            placeholder: asked.placeholder,
            application_id: trace.apps[ask.app].id.clone(),
            partition_name: PARTITION.to_owned(),
            resource_per_alloc: Some(resource(&trace.types, &ask.needs)),
            priority: ask.priority,
            ..Default::default()
        }
    };
    let release = |(key, app, kind): &Release| AllocationRelease {
        partition_name: PARTITION.to_owned(),
        application_id: app.clone(),
        termination_type: *kind,
        message: String::new(),
        allocation_key: key.clone(),
    };
    let allocations_to_release: Vec<_> = releases.iter().map(release).collect();
    AllocationRequest {
        allocations: asks.iter().map(ask).collect(),
        releases: (!releases.is_empty()).then_some(AllocationReleasesRequest { allocations_to_release }),
        rm_id: rm.to_owned(),
    }
}

/// Application of the probes, which is never submitted.
const PROBE_APP: &str = "#probe";

/// A probe: an ask of an application that there is not, which every server rejects.
pub fn probe(rm: &str, number: u64) -> AllocationRequest {
    let one = Resource { resources: BTreeMap::from([("vcore".to_owned(), Quantity { value: 1 })]) };
    let probe = Allocation {
        allocation_key: number.to_string(),
        application_id: PROBE_APP.to_owned(),
        partition_name: PARTITION.to_owned(),
        resource_per_alloc: Some(one),
        ..Default::default()
    };
    AllocationRequest { allocations: vec![probe], releases: None, rm_id: rm.to_owned() }
}

/// Number of the probe that this rejection answers; `None` where it is another one's.
pub fn probe_of(rejected: &RejectedAllocation) -> Option<u64> {
    if rejected.application_id == PROBE_APP { rejected.allocation_key.parse().ok() } else { None }
}
