//! Requests of the running session: nodes, applications, allocations. Taken over 202, answered on the stream.

use std::sync::Arc;

use actix_web::{
    HttpMessage as _, HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Bytes, Data, Path, Payload},
};

use super::{
    body,
    once::{Once, Turn, acknowledged},
};
use crate::{
    actors::rm::handle::{Gate, RmHandle, not_registered},
    http::{doors::Doors, problem::Problem},
    messages::{
        budget::Permit,
        rm::{Refusal, RefusalKind},
    },
    si::{
        intake::Request,
        inward::{Inward, Names},
    },
    trace::Point,
};

/// POST `/si/v1/rm/{rmID}/nodes`, `/applications` and `/allocations`.
pub async fn post(
    kind: Request,
    request: HttpRequest,
    rm: Path<String>,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    let ((handle, gate), payload) = body::unless(enter(&doors, &rm, kind.name()), payload).await?;
    let (once, payload) = body::unless(Once::of(&request, &rm, &gate), payload).await?;
    let numbered = matches!(once, Once::Numbered(_));
    let text = body::read(&request, payload, doors.limits().body()).await?;
    match once.turn(&handle, &gate, kind.name(), &text).await? {
        Turn::Before(answered) => answered?,
        Turn::Now(mut handing) => {
            let inward = read(kind, text, &rm, &gate).await?;
            handle.has_room(&inward.parts)?;
            let permit = take(&gate, inward.items, &rm)?;
            let permit = handle.traced(&gate, permit, request.extensions().get::<Point>().cloned(), inward.items);
            let permit = handing.take(permit, inward.items);
            handle.submit(&gate, inward.parts, inward.rejected, permit)?;
            handing.applied().await?;
        }
    }
    Ok(acknowledged(accepted(), numbered, &gate))
}

/// The commands of a request, whose `rmID` is that of the path where it is given.
pub async fn read(kind: Request, text: Bytes, rm: &str, gate: &Gate) -> Result<Inward, Problem> {
    let names = Names::new(rm, gate.shared.types.clone());
    let limit = gate.shared.max_items;
    let (inward, given) = body::said(text, move |text| kind.read_json(text, &names, limit)).await?;
    same_rm(&given, rm)?;
    Ok(inward)
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

/// `rmID` of a body, where it is given, is that of the path.
pub fn same_rm(given: &str, path: &str) -> Result<(), Problem> {
    if given.is_empty() || given == path {
        return Ok(());
    }
    Err(Problem::field("rmID", format!("rmID \"{given}\" of the body is not that of the path, \"{path}\"")))
}

/// The credits of a request; 429 where there are none.
pub fn take(gate: &Gate, items: usize, rm: &str) -> Result<Permit, Refusal> {
    gate.shared.budget.take(items).ok_or_else(|| {
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
