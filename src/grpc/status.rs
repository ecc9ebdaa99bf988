//! Refusals and closings as gRPC statuses.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use tonic::{Code, Response, Status, metadata::MetadataValue};

use crate::{
    actors::{
        rm::handle::{RmHandle, not_registered},
        topology::{Notes, Refusals, Topology},
    },
    messages::{
        leaders::Leader,
        rm::{Closing, ClosingKind, Refusal, RefusalKind, bounded},
    },
    si::intake::Fault,
};

/// The status of a refusal.
pub fn refusal(refusal: Refusal) -> Status {
    let code = match refusal.kind {
        RefusalKind::Unknown => Code::NotFound,
        RefusalKind::State => Code::FailedPrecondition,
        RefusalKind::Epoch => Code::Aborted,
        RefusalKind::Invalid | RefusalKind::Key => Code::InvalidArgument,
        RefusalKind::Gone => Code::OutOfRange,
        RefusalKind::Busy => Code::ResourceExhausted,
        RefusalKind::Closing | RefusalKind::Moved => Code::Unavailable,
    };
    with_leader(Status::new(code, refusal.detail), refusal.leader.as_deref())
}

/// The resource manager that a request names; `what` is what the request is called.
pub async fn registered(topology: &Topology, what: &str, rm: &str) -> Result<Arc<RmHandle>, Status> {
    topology.look_up(rm).await.map_err(refusal)?.ok_or_else(|| refusal(not_registered(what, rm)))
}

/// A request names another resource manager than its stream is of.
pub fn other_rm(given: &str, rm: &str) -> Status {
    refusal(Refusal::new(RefusalKind::Invalid, format!("rmID \"{given}\" on a stream of resource manager \"{rm}\"")))
}

/// Metadata of a status: host and port of the gRPC door of the server that leads the resource manager.
pub const LEADER: &str = "callboard-leader";

fn with_leader(mut status: Status, leader: Option<&Leader>) -> Status {
    if let Some(leader) = leader.filter(|leader| !leader.grpc.is_empty())
        && let Ok(value) = MetadataValue::try_from(&leader.grpc)
    {
        status.metadata_mut().insert(LEADER, value);
    }
    status
}

/// The status of a request that is refused as a whole.
pub fn fault(fault: Fault) -> Status {
    match fault {
        Fault::Malformed(malformed) => Status::invalid_argument(bounded(malformed.detail)),
        Fault::Large(detail) => Status::resource_exhausted(bounded(detail)),
    }
}

/// Metadata of an answer: a setting of the whole process that was ignored, one each.
pub const IGNORED: &str = "callboard-ignored";

fn with_ignored<T>(mut response: Response<T>, ignored: &[String]) -> Response<T> {
    // Clients take headers of 8 KiB at least.
    let mut left = 4_096_usize;
    for key in ignored {
        // Metadata is visible ASCII.
        let key = key.escape_default().to_string();
        left = left.saturating_sub(key.len());
        if left > 0
            && let Ok(value) = MetadataValue::try_from(key)
        {
            response.metadata_mut().append(IGNORED, value);
        }
    }
    response
}

/// The status of a refused registration or configuration.
pub fn refusals(refusals: Refusals) -> Status {
    match refusals {
        Refusals::Config(refused) => Status::invalid_argument(bounded(refused.message)),
        Refusals::Other(other) => refusal(other),
    }
}

/// Metadata of an answer with a warning about the configuration.
pub const WARNING: &str = "callboard-warning";
/// Bytes of warnings in one answer: clients take headers of 8 KiB at least.
const WARNINGS: usize = 4096;

/// An answer with what is to be told about the configuration and its settings (SEEDS S34), one `callboard-warning` each, and which of
/// them were ignored. The messages of `si.v1` have no place for it.
pub fn noted<T>(answer: T, notes: &Notes) -> Response<T> {
    let mut response = Response::new(answer);
    let mut left = WARNINGS;
    for (n, note) in notes.iter().enumerate() {
        // Metadata is visible ASCII.
        let text: String = note.to_string().chars().flat_map(char::escape_default).collect();
        let text = text.replace("\\'", "'").replace("\\\"", "\"");
        let more = text.len() > left;
        let text = if more { format!("and {} more", notes.iter().count() - n) } else { text };
        left = left.saturating_sub(text.len());
        if let Ok(value) = MetadataValue::try_from(text) {
            response.metadata_mut().append(WARNING, value);
        }
        if more {
            break;
        }
    }
    with_ignored(response, notes.ignored())
}

/// The status with which the session ends a stream.
pub fn closing(closing: &Closing) -> Status {
    let code = match closing.kind {
        ClosingKind::Replaced => Code::Aborted,
        ClosingKind::Stopped => Code::FailedPrecondition,
        ClosingKind::Shutdown | ClosingKind::Moved => Code::Unavailable,
    };
    with_leader(Status::new(code, closing.detail.as_ref()), closing.leader.as_deref())
}

/// A panic in a door costs one call only.
pub async fn guarded<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let fault = |_: Box<dyn Any + Send>| Err(Status::internal("an internal fault: the call was not handled"));
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(fault)
}
