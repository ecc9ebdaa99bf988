//! Bodies of requests up to a size, most of them JSON.

use actix_web::{
    HttpRequest,
    http::{StatusCode, header},
    web::{Bytes, BytesMut, Payload},
};
use futures::{Stream, StreamExt as _};

use crate::http::problem::Problem;

/// Reads the body; 415 where it is declared as something else than JSON, 413 where it is too large.
pub async fn read(request: &HttpRequest, payload: Payload, max: usize) -> Result<Bytes, Problem> {
    if let Some(kind) = request.headers().get(header::CONTENT_TYPE) {
        let kind = kind.to_str().unwrap_or("unreadable");
        let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if essence != "application/json" && !(essence.starts_with("application/") && essence.ends_with("+json")) {
            discard(payload).await;
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("Content-Type {kind}: send application/json"),
            ));
        }
    }
    bytes(request, payload, max).await
}

/// Reads a body of any kind; 413 where it is too large.
pub async fn bytes(request: &HttpRequest, mut payload: Payload, max: usize) -> Result<Bytes, Problem> {
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > max as u64) {
        return Err(too_large(max));
    }
    let mut body = BytesMut::with_capacity(declared.map_or(0, |length| length as usize).min(1 << 20));
    while let Some(chunk) = payload.next().await {
        let chunk = chunk
            .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("the body could not be read: {error}")))?;
        if body.len() + chunk.len() > max {
            return Err(too_large(max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Reads a body that nobody wants, as long as it is small, so that the connection can be used again.
pub async fn discard<E>(mut payload: impl Stream<Item = Result<Bytes, E>> + Unpin) {
    let mut left: usize = 1 << 20;
    while let Some(Ok(chunk)) = payload.next().await {
        left = left.saturating_sub(chunk.len());
        if left == 0 {
            break;
        }
    }
}

fn too_large(max: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {max} bytes: send several smaller requests, or raise http.maxBodyBytes"),
    )
}
