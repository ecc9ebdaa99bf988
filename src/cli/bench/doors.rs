//! HTTP and gRPC depth: plain `si.v1` through a real door, so that any server of that interface can be driven.

use std::{collections::BTreeMap, sync::mpsc::Sender, time::Instant};

use anyhow::Result;
use hyper::Method;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{
    answers::{self, Answered, Asked},
    drive::{Batch, Release, Rig, Target},
    shapes::Kind,
    workload::{Amount, Ask, PARTITION, TASK_GROUP, Workload, node_id, number_of},
};
use crate::{
    cli::client::{Callbacks, DoorKind, Incoming, Message, Shim, grpc::GrpcShim, http::HttpShim, trust::Trust},
    domain::types::Termination,
    si::v1::{
        AddApplicationRequest, Allocation, AllocationRelease, AllocationReleasesRequest, AllocationRequest,
        ApplicationRequest, NodeInfo, NodeRequest, PreemptionPolicy, Quantity, RegisterResourceManagerRequest,
        Resource, TerminationType, UserGroupInformation, node_info::ActionFromRm,
    },
};

/// Nodes and applications per request.
const CHUNK: usize = 1000;

/// A registered shim.
pub struct Door {
    shim: Shim,
    rm: String,
}

/// Registers a resource manager of this id for a workload. `pid` is the server's process, where it is ours.
pub async fn start(
    work: &Workload,
    door: DoorKind,
    url: &str,
    trust: &Trust,
    pid: Option<u32>,
    rm: String,
) -> Result<Rig<Door>> {
    let request = RegisterResourceManagerRequest {
        rm_id: rm.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy_group: "queues".to_owned(),
        config: work.config.clone(),
        // Its asks have nothing to do with each other.
        extra_config: [("shim.predicates.constrained".to_owned(), "false".to_owned())].into(),
        ..Default::default()
    };
    let (out, back) = unbounded_channel();
    let shim = match (work.shape.kind, door) {
        (Kind::Asking { batched }, DoorKind::Http) => asked_over_http(url, trust, request, batched, out).await?,
        (Kind::Asking { batched }, DoorKind::Grpc) => asked_over_grpc(url, trust, request, batched, out).await?,
        _ => {
            let (shim, callbacks) = Shim::register(door, url, trust, request).await?;
            tokio::spawn(translate(callbacks, out, None));
            shim
        }
    };
    Ok(Rig { target: Door { shim, rm }, back, depth: door.name(), pid })
}

async fn asked_over_http(
    url: &str,
    trust: &Trust,
    request: RegisterResourceManagerRequest,
    batched: bool,
    out: UnboundedSender<Batch>,
) -> Result<Shim> {
    let (shim, callbacks) = HttpShim::register_to_be_asked(url, trust, request).await?;
    let (to, path) = shim.answers();
    let runtime = tokio::runtime::Handle::current();
    let refusals = out.clone();
    let questions = answers::start(batched, move |answers| {
        let (to, path, refusals) = (to.clone(), path.clone(), refusals.clone());
        runtime.spawn(async move {
            let list: Vec<Value> = answers.iter().map(answer).collect();
            if let Err(error) = to.send(Method::POST, &path, Some(&list)).await {
                // The run may be over already.
                let _ = refusals.send(ended(&error.to_string()));
            }
        });
    });
    tokio::spawn(translate(callbacks, out, Some(questions)));
    Ok(Shim::Http(Box::new(shim)))
}

async fn asked_over_grpc(
    url: &str,
    trust: &Trust,
    request: RegisterResourceManagerRequest,
    batched: bool,
    out: UnboundedSender<Batch>,
) -> Result<Shim> {
    let (shim, callbacks, back) = GrpcShim::register_to_be_asked(url, trust, request).await?;
    let questions = answers::start(batched, move |answers| {
        answers.iter().for_each(|answer| back.send(answer.id, reason(answer)));
    });
    tokio::spawn(translate(callbacks, out, Some(questions)));
    Ok(Shim::Grpc(shim))
}

impl Door {
    /// Ends the session.
    pub async fn stop(self) -> Result<()> {
        Ok(self.shim.unregister().await?)
    }
}

fn answer(answer: &Answered) -> Value {
    serde_json::json!({ "id": answer.id, "success": answer.fits, "message": reason(answer) })
}

fn reason(answer: &Answered) -> &'static str {
    if answer.fits { "" } else { "one in a hundred" }
}

fn ended(error: &str) -> Batch {
    let mut last = Batch::new(Instant::now());
    last.refused.push(format!("the session: {error}"));
    last
}

/// Questions go to the shim's side of predicates, everything else to the driver.
async fn translate(
    mut callbacks: Callbacks,
    out: UnboundedSender<Batch>,
    questions: Option<Sender<(Instant, Vec<Asked>)>>,
) {
    while let Some(incoming) = callbacks.recv().await {
        let batch = match incoming {
            Incoming::Message { at, message: Message::Predicates { id, question }, .. } => {
                let asked = Asked { id, key: question.allocation_key, node: question.node_id };
                // The shim ends with the run.
                let _ = questions.as_ref().map(|questions| questions.send((at, vec![asked])));
                continue;
            }
            Incoming::Message { at, message, .. } => batch(at, message),
            Incoming::Resumed => continue,
            Incoming::Ended(error) => ended(&error.to_string()),
        };
        if out.send(batch).is_err() {
            return;
        }
    }
}

fn batch(at: Instant, message: Message) -> Batch {
    let mut batch = Batch::new(at);
    match message {
        Message::Allocation(response) => {
            batch.placed = response.new.iter().filter_map(|new| number_of(&new.allocation_key)).collect();
            batch.others = response.new.len() - batch.placed.len();
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
        Message::Predicates { .. } | Message::Other => {}
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
            attributes: BTreeMap::from([("si/node-partition".to_owned(), PARTITION.to_owned())]),
            schedulable_resource: Some(resource(work, *capacity)),
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
            placeholder_ask: app.placeholders.map(|sum| resource(work, sum)),
            ..Default::default()
        };
        for chunk in work.apps.chunks(CHUNK) {
            let new = chunk.iter().map(add).collect();
            self.shim.applications(ApplicationRequest { new, remove: Vec::new(), rm_id: self.rm.clone() }).await?;
        }
        Ok(())
    }

    async fn allocations(&self, work: &Workload, asks: &[Ask], releases: Vec<Release>) -> Result<()> {
        let policy = PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true };
        let preemption = work.preempts().then_some(policy);
        let ask = |ask: &Ask| Allocation {
            allocation_key: ask.key_text(),
            application_id: work.apps[ask.app].id.clone(),
            partition_name: PARTITION.to_owned(),
            resource_per_alloc: Some(resource(work, ask.needs)),
            priority: ask.priority,
            task_group_name: if ask.gang { TASK_GROUP.to_owned() } else { String::new() },
            placeholder: ask.placeholder,
            preemption_policy: preemption,
            ..Default::default()
        };
        let release = |release: Release| AllocationRelease {
            partition_name: PARTITION.to_owned(),
            application_id: release.app,
            termination_type: termination(release.termination).into(),
            message: String::new(),
            allocation_key: release.key,
        };
        let allocations = asks.iter().map(ask).collect();
        let allocations_to_release: Vec<_> = releases.into_iter().map(release).collect();
        let releases =
            (!allocations_to_release.is_empty()).then_some(AllocationReleasesRequest { allocations_to_release });
        let request = AllocationRequest { allocations, releases, rm_id: self.rm.clone() };
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

pub(super) fn resource(work: &Workload, amount: Amount) -> Resource {
    let quantity = |value| Quantity { value };
    let resources = [("memory".to_owned(), quantity(amount.memory)), ("vcore".to_owned(), quantity(amount.vcore))];
    let more = work.types().map(|name| (name, quantity(amount.vcore)));
    Resource { resources: resources.into_iter().chain(more).filter(|(_, quantity)| quantity.value != 0).collect() }
}
