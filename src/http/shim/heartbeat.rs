//! Signs of life of nodes, sent by the shim or by the nodes themselves.

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Path, Payload},
};
use serde::Deserialize;

use super::{
    body,
    once::{Once, Turn, acknowledged},
    requests::{accepted, enter, take},
};
use crate::{
    http::{doors::Doors, problem::Problem},
    si::intake,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    nodes: Vec<Arc<str>>,
}

/// POST `/si/v1/rm/{rmID}/heartbeat`: these nodes are alive. One that is not registered is left alone: its registration may
/// be on its way.
pub async fn heartbeat(
    request: HttpRequest,
    rm: Path<String>,
    payload: Payload,
    doors: Data<Doors>,
) -> Result<HttpResponse, Problem> {
    let (handle, gate) = match enter(&doors, &rm, "Heartbeat") {
        Ok(entered) => entered,
        Err(problem) => {
            body::discard(payload).await;
            return Err(problem);
        }
    };
    let once = match Once::of(&request, &rm, &gate) {
        Ok(once) => once,
        Err(problem) => {
            body::discard(payload).await;
            return Err(problem);
        }
    };
    let numbered = matches!(once, Once::Numbered(_));
    let text = body::read(&request, payload, doors.limits().body()).await?;
    let mut handing = match once.turn(&handle, &gate, "Heartbeat", &text).await? {
        Turn::Before(answered) => {
            answered?;
            return Ok(acknowledged(accepted(), numbered, &gate));
        }
        Turn::Now(handing) => handing,
    };
    intake::bounded(&text, gate.shared.max_items)?;
    let body: Body = body::json(&text, r#"{"nodes": ["node id", …]}"#)?;
    drop(text);
    let items = body.nodes.len();
    let permit = handing.take(take(&gate, items, &rm)?, items);
    handle.heartbeat(&gate, body.nodes.into(), permit).await?;
    handing.applied().await?;
    Ok(acknowledged(accepted(), numbered, &gate))
}
