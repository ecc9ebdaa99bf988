//! Lines of a session to messages of `si.v1`, for the gRPC door.

use callboard_domain::{
    effect::{NewAllocation, Question, QuestionKind, Released},
    event::Event,
    resources::Resource,
    types::Termination,
};

use super::{
    ext,
    session::{Line, Payload, Rejected, Updated},
    v1,
};

/// A line as a call of the extension stream, without its id.
pub fn call(line: &Line) -> ext::call::Call {
    use ext::call::Call;
    match &line.payload {
        Payload::New(_) | Payload::Released(_) | Payload::RejectedAllocations(_) => Call::Allocation(allocation(line)),
        Payload::Applications { .. } | Payload::UpdatedApplications(_) => Call::Application(application(line)),
        Payload::Nodes { .. } => Call::Node(node(line)),
        Payload::ContainerState { app, key, state, reason } => {
            Call::ContainerState(v1::UpdateContainerSchedulingStateRequest {
                application_id: app.to_string(),
                allocation_key: key.to_string(),
                state: *state as i32,
                reason: reason.to_string(),
            })
        }
        Payload::Events(events) => Call::Events(ext::EventBatch { events: events.iter().map(event).collect() }),
        Payload::Ask(question) => ask(question),
        Payload::AskBatch(question) => Call::PredicatesBatch(batch(question)),
        Payload::AskSeveral(questions) => {
            Call::PredicatesSeveral(ext::PredicatesSeveralArgs { asks: questions.iter().map(batch).collect() })
        }
        Payload::StateDump => Call::StateDump(ext::StateDumpRequest {}),
    }
}

/// The allocation entries of a line; empty for other lines.
pub fn allocation(line: &Line) -> v1::AllocationResponse {
    let mut response = v1::AllocationResponse::default();
    match &line.payload {
        Payload::New(list) => response.new = list.iter().map(|new| new_allocation(&line.partition, new)).collect(),
        Payload::Released(list) => {
            response.released = list.iter().map(|release| released(&line.partition, release)).collect();
        }
        Payload::RejectedAllocations(list) => {
            let rejected = |entry: &Rejected| v1::RejectedAllocation {
                allocation_key: entry.key.to_string(),
                application_id: entry.app.to_string(),
                reason: entry.reason.to_string(),
            };
            response.rejected_allocations = list.iter().map(rejected).collect();
        }
        _ => {}
    }
    response
}

/// The application entries of a line; empty for other lines.
pub fn application(line: &Line) -> v1::ApplicationResponse {
    let mut response = v1::ApplicationResponse::default();
    match &line.payload {
        Payload::Applications { accepted, rejected } => {
            response.accepted =
                accepted.iter().map(|app| v1::AcceptedApplication { application_id: app.to_string() }).collect();
            response.rejected = rejected
                .iter()
                .map(|entry| v1::RejectedApplication {
                    application_id: entry.app.to_string(),
                    reason: entry.reason.to_string(),
                })
                .collect();
        }
        Payload::UpdatedApplications(list) => response.updated = list.iter().map(updated).collect(),
        _ => {}
    }
    response
}

/// The node entries of a line; empty for other lines.
pub fn node(line: &Line) -> v1::NodeResponse {
    let mut response = v1::NodeResponse::default();
    if let Payload::Nodes { accepted, rejected } = &line.payload {
        response.accepted = accepted.iter().map(|node| v1::AcceptedNode { node_id: node.to_string() }).collect();
        response.rejected = rejected
            .iter()
            .map(|entry| v1::RejectedNode { node_id: entry.key.to_string(), reason: entry.reason.to_string() })
            .collect();
    }
    response
}

/// An event record.
pub fn event(event: &Event) -> v1::EventRecord {
    v1::EventRecord {
        r#type: event.kind as i32,
        object_id: event.object.to_string(),
        message: event.message.to_string(),
        timestamp_nano: event.at.0,
        event_change_type: event.change as i32,
        event_change_detail: event.detail as i32,
        reference_id: event.reference.to_string(),
        resource: event.resource.as_deref().map(resource),
    }
}

/// A resource.
pub fn resource(resource: &Resource) -> v1::Resource {
    let amount = |(name, value): (&str, i64)| (name.to_owned(), v1::Quantity { value });
    v1::Resource { resources: resource.named().into_iter().map(amount).collect() }
}

/// The number of a termination type.
pub fn termination(termination: Termination) -> v1::TerminationType {
    match termination {
        Termination::Unknown => v1::TerminationType::UnknownTerminationType,
        Termination::StoppedByRm => v1::TerminationType::StoppedByRm,
        Termination::Timeout => v1::TerminationType::Timeout,
        Termination::Preempted => v1::TerminationType::PreemptedByScheduler,
        Termination::PlaceholderReplaced => v1::TerminationType::PlaceholderReplaced,
        Termination::FailedOnRm => v1::TerminationType::SchedulingFailedOnRm,
    }
}

fn new_allocation(partition: &str, new: &NewAllocation) -> v1::Allocation {
    let spec = &new.spec;
    v1::Allocation {
        allocation_key: spec.key.to_string(),
        resource_per_alloc: Some(resource(&new.resource)),
        node_id: new.node.to_string(),
        application_id: new.app.to_string(),
        task_group_name: spec.task_group.to_string(),
        placeholder: spec.placeholder,
        originator: spec.originator,
        preemption_policy: spec.preemption.map(|policy| v1::PreemptionPolicy {
            allow_preempt_self: policy.allow_preempt_self,
            allow_preempt_other: policy.allow_preempt_other,
        }),
        priority: spec.priority,
        allocation_tags: spec.tags.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        partition_name: partition.to_owned(),
    }
}

fn released(partition: &str, release: &Released) -> v1::AllocationRelease {
    v1::AllocationRelease {
        partition_name: partition.to_owned(),
        application_id: release.app.to_string(),
        termination_type: termination(release.termination) as i32,
        message: release.message.to_string(),
        allocation_key: release.key.to_string(),
    }
}

fn updated(entry: &Updated) -> v1::UpdatedApplication {
    v1::UpdatedApplication {
        application_id: entry.app.to_string(),
        state: entry.state.name().to_owned(),
        state_transition_timestamp: entry.at.0,
        message: entry.message.to_string(),
    }
}

fn ask(question: &Question) -> ext::call::Call {
    let (allocation_key, node_id) = (question.key.to_string(), question.node.to_string());
    match &question.kind {
        QuestionKind::Fits { allocate } => {
            ext::call::Call::Predicates(v1::PredicatesArgs { allocation_key, node_id, allocate: *allocate })
        }
        QuestionKind::FitsWithout { victims, start } => {
            ext::call::Call::PreemptionPredicates(v1::PreemptionPredicatesArgs {
                allocation_key,
                node_id,
                preempt_allocation_keys: victims.iter().map(|key| key.to_string()).collect(),
                start_index: *start,
            })
        }
    }
}

fn batch(question: &Question) -> ext::PredicatesBatchArgs {
    let allocate = matches!(question.kind, QuestionKind::Fits { allocate: true });
    ext::PredicatesBatchArgs {
        allocation_key: question.key.to_string(),
        node_ids: std::iter::once(&question.node).chain(&question.more).map(|node| node.to_string()).collect(),
        allocate,
        first_only: allocate,
    }
}
