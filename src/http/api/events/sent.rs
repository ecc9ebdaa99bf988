//! Answers that read through the log: so many are under way at a time, and nothing is kept for a client that takes nothing.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicBool, Ordering},
};

use actix_web::{HttpRequest, HttpResponse, http::header};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::{sync::mpsc, time::timeout};

pub use crate::messages::places::Place;
use crate::{
    http::{
        long::caller,
        problem::Problem,
        ws_v1::spool::{STALLED, body},
    },
    messages::places::Places,
};

/// Answers that are under way at most.
const ALL: usize = 64;
/// Of one caller.
const EACH: usize = 16;
/// Chunks that wait for the client at most.
const WAITING: usize = 2;

static PLACES: LazyLock<Places> = LazyLock::new(|| Places::new(ALL, EACH, "read through events"));

/// Waits for a place.
///
/// # Errors
/// Others, or the caller itself, read for too long.
pub async fn place(request: &HttpRequest) -> Result<Place, Problem> {
    let (caller, address) = caller(request);
    Ok(PLACES.take(caller.identity(address)).await?)
}

/// Sends lines, and ends where the client takes none for a while.
pub fn sent(lines: impl Stream<Item = Bytes> + 'static, place: Place) -> HttpResponse {
    let (chunks, received) = mpsc::channel(WAITING);
    let whole = Arc::new(AtomicBool::new(false));
    let done = whole.clone();
    actix_web::rt::spawn(async move {
        let all = give(lines, chunks).await;
        done.store(all, Ordering::Release);
        drop(place);
    });
    lines_of(body(received, whole))
}

/// Gives all of it, as far as the client takes it; true: it did.
async fn give(lines: impl Stream<Item = Bytes>, chunks: mpsc::Sender<Bytes>) -> bool {
    let mut lines = std::pin::pin!(lines);
    loop {
        let next = tokio::select! {
            biased;
            () = chunks.closed() => return false,
            next = lines.next() => next,
        };
        let Some(next) = next else { return true };
        if !matches!(timeout(STALLED, chunks.send(next)).await, Ok(Ok(()))) {
            return false;
        }
    }
}

/// An answer of lines.
pub fn lines_of<E: std::error::Error + 'static>(lines: impl Stream<Item = Result<Bytes, E>> + 'static) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/x-ndjson"))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(lines)
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_ends_its_answer() {
        let (chunks, mut received) = mpsc::channel(WAITING);
        let all = stream::iter((0..100).map(|_| Bytes::from_static(b"x\n")));
        let given = tokio::spawn(give(all, chunks));
        assert!(!given.await.expect("no panic"), "it gave up");
        assert_eq!(
            (received.recv().await.is_some(), received.recv().await.is_some(), received.recv().await),
            (true, true, None)
        );
        // One that waits is told of nothing, and ends once nobody waits for it.
        let (chunks, received) = mpsc::channel(WAITING);
        let given = tokio::spawn(give(stream::pending::<Bytes>(), chunks));
        drop(received);
        assert!(!given.await.expect("no panic"));
        let (chunks, mut received) = mpsc::channel(WAITING);
        let given = tokio::spawn(give(stream::iter([Bytes::from_static(b"x\n")]), chunks));
        assert!(received.recv().await.is_some() && given.await.expect("no panic"));
    }
}
