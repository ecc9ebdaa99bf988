//! Signs of life of nodes, sent by the shim or by the nodes themselves.

use std::sync::Arc;

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Bytes, Data, Path, Payload},
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
    let ((handle, gate), payload) = body::unless(enter(&doors, &rm, "Heartbeat"), payload).await?;
    let (once, payload) = body::unless(Once::of(&request, &rm, &gate), payload).await?;
    let numbered = matches!(once, Once::Numbered(_));
    let text = body::read(&request, payload, doors.limits().body()).await?;
    let mut handing = match once.turn(&handle, &gate, "Heartbeat", &text).await? {
        Turn::Before(answered) => {
            answered?;
            return Ok(acknowledged(accepted(), numbered, &gate));
        }
        Turn::Now(handing) => handing,
    };
    let nodes = read(text, gate.shared.max_items).await?;
    let items = nodes.len();
    let permit = handing.take(take(&gate, items, &rm)?, items);
    handle.heartbeat(&gate, nodes.into(), permit).await?;
    handing.applied().await?;
    Ok(acknowledged(accepted(), numbered, &gate))
}

/// The nodes that a text names, at most so many.
async fn read(text: Bytes, limit: usize) -> Result<Vec<Arc<str>>, Problem> {
    let read = move |text: &[u8]| {
        intake::bounded(text, limit)?;
        body::json(text, r#"{"nodes": ["node id", …]}"#).map(|Body { nodes }| nodes)
    };
    body::said(text, read).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix_web::test]
    async fn long_ones_are_read_beside_the_thread_of_the_door() {
        for (nodes, is_long) in [(1, false), (100_000, true)] {
            let text = format!(r#"{{"nodes": [{}]}}"#, vec![r#""n1""#; nodes].join(","));
            let mut reading = std::pin::pin!(read(text.into(), nodes));
            assert_eq!(futures::poll!(&mut reading).is_pending(), is_long, "{nodes}");
            if is_long {
                assert_eq!(reading.await.expect("valid").len(), nodes);
            }
        }
    }
}
