//! Requests of the running session: nodes, applications, allocations. Taken over 202, answered on the stream.

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Bytes, Data, Path, Payload},
};
use serde::de::DeserializeOwned;

use super::body;
use crate::{
    actors::rm::handle::{Gate, RmHandle, not_registered},
    http::{problem::Problem, server::Doors},
    messages::{
        budget::Permit,
        rm::{Refusal, RefusalKind},
    },
    si::{
        decode,
        inward::{Inward, Names},
        v1,
    },
};

/// A request of the running session.
pub trait Request: DeserializeOwned {
    /// Its name in texts.
    const NAME: &'static str;

    /// `rmID` as given.
    fn rm(&self) -> &str;

    /// Its commands.
    fn inward(self, names: &Names) -> Inward;
}

impl Request for v1::NodeRequest {
    const NAME: &'static str = "NodeRequest";

    fn rm(&self) -> &str {
        &self.rm_id
    }

    fn inward(self, names: &Names) -> Inward {
        names.nodes(self)
    }
}

impl Request for v1::ApplicationRequest {
    const NAME: &'static str = "ApplicationRequest";

    fn rm(&self) -> &str {
        &self.rm_id
    }

    fn inward(self, names: &Names) -> Inward {
        names.applications(self)
    }
}

impl Request for v1::AllocationRequest {
    const NAME: &'static str = "AllocationRequest";

    fn rm(&self) -> &str {
        &self.rm_id
    }

    fn inward(self, names: &Names) -> Inward {
        names.allocations(self)
    }
}

/// POST `/si/v1/rm/{rmID}/nodes`.
pub async fn nodes(
    request: HttpRequest,
    rm: Path<String>,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    post::<v1::NodeRequest>(request, &rm, payload, &doors).await
}

/// POST `/si/v1/rm/{rmID}/applications`.
pub async fn applications(
    request: HttpRequest,
    rm: Path<String>,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    post::<v1::ApplicationRequest>(request, &rm, payload, &doors).await
}

/// POST `/si/v1/rm/{rmID}/allocations`.
pub async fn allocations(
    request: HttpRequest,
    rm: Path<String>,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    post::<v1::AllocationRequest>(request, &rm, payload, &doors).await
}

async fn post<R: Request>(
    request: HttpRequest,
    rm: &str,
    payload: Payload,
    doors: &Doors,
) -> Result<HttpResponse, Problem> {
    let (handle, gate) = match enter(doors, rm, R::NAME) {
        Ok(entered) => entered,
        Err(problem) => {
            body::discard(payload).await;
            return Err(problem);
        }
    };
    let body: Bytes = body::read(&request, payload, doors.max_body).await?;
    let message: R = decode::message(&body)?;
    drop(body);
    let inward = convert(message, rm, &gate)?;
    let permit = take(&gate, inward.items, rm)?;
    handle.submit(&gate, inward.parts, inward.rejected, permit).await?;
    Ok(accepted())
}

/// The way into the running session of a resource manager: 503, 404 and 409 in that order.
pub fn enter(doors: &Doors, rm: &str, name: &str) -> Result<(Arc<RmHandle>, Gate), Problem> {
    if doors.topology.is_closing() {
        return Err(crate::actors::rm::handle::closing().into());
    }
    let handle = doors.topology.find(rm).ok_or_else(|| Problem::from(not_registered(name, rm)))?;
    let gate = handle.gate(name)?;
    Ok((handle, gate))
}

/// The commands of a request, whose `rmID` is that of the path where it is given.
pub fn convert<R: Request>(message: R, rm: &str, gate: &Gate) -> Result<Inward, Problem> {
    same_rm(message.rm(), rm)?;
    Ok(message.inward(&Names::new(rm, gate.types.clone())))
}

/// `rmID` of a body, where it is given, is that of the path.
pub fn same_rm(given: &str, path: &str) -> Result<(), Problem> {
    if given.is_empty() || given == path {
        return Ok(());
    }
    Err(Problem::field("rmID", format!("rmID \"{given}\" of the body is not that of the path, \"{path}\"")))
}

/// The credits of a request; 429 where there are none.
pub fn take(gate: &Gate, items: usize, rm: &str) -> Result<Permit, Refusal> {
    gate.budget.take(items).ok_or_else(|| {
        Refusal::new(
            RefusalKind::Busy,
            format!("too many items of \"{rm}\" are in flight: send this request again before any other"),
        )
    })
}

/// 202 `{}`.
pub fn accepted() -> HttpResponse {
    HttpResponse::build(StatusCode::ACCEPTED).content_type("application/json").body("{}")
}
