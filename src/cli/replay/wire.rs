//! The trace in the words of the interface `si.v1`.

use std::collections::HashMap;

use super::trace::{Amounts, ResourceKind, Trace};
use crate::si::v1::{
    AddApplicationRequest, Allocation, AllocationRelease, AllocationReleasesRequest, AllocationRequest,
    ApplicationRequest, NodeInfo, NodeRequest, Quantity, RemoveApplicationRequest, Resource, UserGroupInformation,
    node_info::ActionFromRm,
};

/// Partition that a trace is played in.
pub const PARTITION: &str = "default";
/// Items per request.
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
            attributes: HashMap::from([
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
        let app = &trace.apps[*app];
        AddApplicationRequest {
            application_id: app.id.clone(),
            queue_name: format!("root.{}", app.queue),
            partition_name: PARTITION.to_owned(),
            ugi: Some(UserGroupInformation { user: app.user.clone(), groups: vec![app.user.clone()] }),
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

/// Asks under their present keys, in requests.
pub fn asks(trace: &Trace, rm: &str, asks: &[usize], key: impl Fn(usize) -> String) -> Vec<AllocationRequest> {
    let ask = |at: &usize| {
        let ask = &trace.asks[*at];
        Allocation {
            allocation_key: key(*at),
            application_id: trace.apps[ask.app].id.clone(),
            partition_name: PARTITION.to_owned(),
            resource_per_alloc: Some(resource(&trace.types, &ask.needs)),
            priority: ask.priority,
            ..Default::default()
        }
    };
    let request = |chunk: &[usize]| AllocationRequest {
        allocations: chunk.iter().map(ask).collect(),
        releases: None,
        rm_id: rm.to_owned(),
    };
    asks.chunks(CHUNK).map(request).collect()
}

/// Releases and confirmations (key, application, type), in requests.
pub fn releases(rm: &str, releases: &[(String, String, i32)]) -> Vec<AllocationRequest> {
    let release = |(key, app, kind): &(String, String, i32)| AllocationRelease {
        partition_name: PARTITION.to_owned(),
        application_id: app.clone(),
        termination_type: *kind,
        message: String::new(),
        allocation_key: key.clone(),
    };
    let request = |chunk: &[(String, String, i32)]| AllocationRequest {
        allocations: Vec::new(),
        releases: Some(AllocationReleasesRequest { allocations_to_release: chunk.iter().map(release).collect() }),
        rm_id: rm.to_owned(),
    };
    releases.chunks(CHUNK).map(request).collect()
}
