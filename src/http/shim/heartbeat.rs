//! Signs of life of nodes, sent by the shim or by the nodes themselves.

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse,
    http::StatusCode,
    web::{Data, Path, Payload},
};
use serde::Deserialize;

use super::{
    body,
    requests::{accepted, enter, take},
};
use crate::{
    http::{problem::Problem, server::Doors},
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
    let text = body::read(&request, payload, doors.limits().body()).await?;
    intake::bounded(&text, gate.max_items)?;
    let body: Body = serde_json::from_slice(&text).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, format!(r#"the body is not {{"nodes": ["node id", …]}}: {error}"#))
    })?;
    drop(text);
    let permit = take(&gate, body.nodes.len(), &rm)?;
    handle.heartbeat(&gate, body.nodes.into(), permit).await?;
    Ok(accepted())
}
