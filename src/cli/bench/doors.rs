//! HTTP and gRPC depth: plain `si.v1` through a real door, so that any server of that interface can be driven.

use std::collections::HashMap;

use anyhow::Result;
use tokio::sync::mpsc::unbounded_channel;

use super::{
    drive::{Batch, Release, Rig, Target},
    workload::{Amount, Ask, PARTITION, TASK_GROUP, Workload, node_id, number_of},
};
use crate::{
    cli::client::{Callbacks, DoorKind, Incoming, Message, Shim},
    domain::types::Termination,
    si::v1::{
        AddApplicationRequest, Allocation, AllocationRelease, AllocationReleasesRequest, AllocationRequest,
        ApplicationRequest, NodeInfo, NodeRequest, Quantity, RegisterResourceManagerRequest, Resource, TerminationType,
        UserGroupInformation, node_info::ActionFromRm,
    },
};

/// Nodes and applications per request.
const CHUNK: usize = 1000;

/// A registered shim.
pub struct Door {
    shim: Shim,
    rm: String,
}

/// Registers a resource manager for a workload. `pid` is the server's process, where it is ours.
pub async fn start(work: &Workload, door: DoorKind, url: &str, pid: Option<u32>) -> Result<Rig<Door>> {
    let rm = format!("callboard-bench-{}", std::process::id());
    let request = RegisterResourceManagerRequest {
        rm_id: rm.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy_group: "queues".to_owned(),
        config: work.config.clone(),
        ..Default::default()
    };
    let (shim, callbacks) = Shim::register(door, url, request).await?;
    let (out, back) = unbounded_channel();
    tokio::spawn(translate(callbacks, out));
    Ok(Rig { target: Door { shim, rm }, back, depth: door.name(), pid })
}

impl Door {
    /// Ends the session.
    pub async fn stop(self) -> Result<()> {
        Ok(self.shim.unregister().await?)
    }
}

async fn translate(mut callbacks: Callbacks, out: tokio::sync::mpsc::UnboundedSender<Batch>) {
    while let Some(incoming) = callbacks.recv().await {
        let batch = match incoming {
            Incoming::Message { at, message, .. } => batch(at, message),
            Incoming::Resumed => continue,
            Incoming::Ended(error) => {
                let mut last = Batch::new(std::time::Instant::now());
                last.refused.push(format!("the session: {error}"));
                last
            }
        };
        if out.send(batch).is_err() {
            return;
        }
    }
}

fn batch(at: std::time::Instant, message: Message) -> Batch {
    let mut batch = Batch::new(at);
    match message {
        Message::Allocation(response) => {
            batch.placed = response.new.iter().filter_map(|new| number_of(&new.allocation_key)).collect();
            batch.confirm = response.released.into_iter().filter_map(confirmation).collect();
            let refused = response.rejected_allocations.iter();
            batch.refused = refused.map(|ask| format!("ask {}: {}", ask.allocation_key, ask.reason)).collect();
        }
        Message::Application(response) => {
            batch.accepted = response.accepted.len();
            let refused = response.rejected.iter();
            batch.refused = refused.map(|app| format!("application {}: {}", app.application_id, app.reason)).collect();
        }
        Message::Node(response) => {
            batch.accepted = response.accepted.len();
            let refused = response.rejected.iter();
            batch.refused = refused.map(|node| format!("node {}: {}", node.node_id, node.reason)).collect();
        }
        Message::Other => {}
    }
    batch
}

fn confirmation(released: AllocationRelease) -> Option<Release> {
    let termination = match released.termination_type() {
        TerminationType::Timeout => Termination::Timeout,
        TerminationType::PreemptedByScheduler => Termination::Preempted,
        TerminationType::PlaceholderReplaced => Termination::PlaceholderReplaced,
        _ => return None,
    };
    Some(Release { key: released.allocation_key, app: released.application_id, termination })
}

impl Target for Door {
    async fn nodes(&self, work: &Workload) -> Result<()> {
        let info = |(number, capacity): (usize, &Amount)| NodeInfo {
            node_id: node_id(number),
            action: ActionFromRm::Create.into(),
            attributes: HashMap::from([("si/node-partition".to_owned(), PARTITION.to_owned())]),
            schedulable_resource: Some(resource(*capacity)),
        };
        let infos: Vec<NodeInfo> = work.nodes.iter().enumerate().map(info).collect();
        for chunk in infos.chunks(CHUNK) {
            self.shim.nodes(NodeRequest { nodes: chunk.to_vec(), rm_id: self.rm.clone() }).await?;
        }
        Ok(())
    }

    async fn apps(&self, work: &Workload) -> Result<()> {
        let add = |app: &super::workload::App| AddApplicationRequest {
            application_id: app.id.clone(),
            queue_name: app.queue.clone(),
            partition_name: PARTITION.to_owned(),
            ugi: Some(UserGroupInformation { user: app.user.clone(), groups: vec![app.group.clone()] }),
            placeholder_ask: app.placeholders.map(resource),
            ..Default::default()
        };
        for chunk in work.apps.chunks(CHUNK) {
            let new = chunk.iter().map(add).collect();
            self.shim.applications(ApplicationRequest { new, remove: Vec::new(), rm_id: self.rm.clone() }).await?;
        }
        Ok(())
    }

    async fn asks(&self, work: &Workload, asks: &[Ask]) -> Result<()> {
        let ask = |ask: &Ask| Allocation {
            allocation_key: ask.key_text(),
            application_id: work.apps[ask.app].id.clone(),
            partition_name: PARTITION.to_owned(),
            resource_per_alloc: Some(resource(ask.needs)),
            priority: ask.priority,
            task_group_name: if ask.gang { TASK_GROUP.to_owned() } else { String::new() },
            placeholder: ask.placeholder,
            ..Default::default()
        };
        let allocations = asks.iter().map(ask).collect();
        let request = AllocationRequest { allocations, releases: None, rm_id: self.rm.clone() };
        Ok(self.shim.allocations(request).await?)
    }

    async fn releases(&self, releases: Vec<Release>) -> Result<()> {
        let release = |release: Release| AllocationRelease {
            partition_name: PARTITION.to_owned(),
            application_id: release.app,
            termination_type: termination(release.termination).into(),
            message: String::new(),
            allocation_key: release.key,
        };
        let allocations_to_release = releases.into_iter().map(release).collect();
        let releases = Some(AllocationReleasesRequest { allocations_to_release });
        let request = AllocationRequest { allocations: Vec::new(), releases, rm_id: self.rm.clone() };
        Ok(self.shim.allocations(request).await?)
    }
}

fn termination(termination: Termination) -> TerminationType {
    match termination {
        Termination::Timeout => TerminationType::Timeout,
        Termination::Preempted => TerminationType::PreemptedByScheduler,
        Termination::PlaceholderReplaced => TerminationType::PlaceholderReplaced,
        Termination::FailedOnRm => TerminationType::SchedulingFailedOnRm,
        Termination::Unknown | Termination::StoppedByRm => TerminationType::StoppedByRm,
    }
}

fn resource(amount: Amount) -> Resource {
    let quantity = |value| Quantity { value };
    let resources = [("memory".to_owned(), quantity(amount.memory)), ("vcore".to_owned(), quantity(amount.vcore))];
    Resource { resources: resources.into_iter().filter(|(_, quantity)| quantity.value != 0).collect() }
}
