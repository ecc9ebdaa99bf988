//! Answers that read through the log: so many are under way at a time, and nothing is kept for a client that takes nothing.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};

use crate::http::{
    problem::Problem,
    ws_v1::spool::{STALLED, body},
};

/// Answers that are under way at most.
const ALL: usize = 64;
/// Of one host.
const EACH: usize = 16;
/// How long one waits for a place.
const PATIENCE: Duration = Duration::from_secs(10);
/// Chunks that wait for the client at most.
const WAITING: usize = 2;

static PLACES: LazyLock<Places> =
    LazyLock::new(|| Places { all: Arc::new(Semaphore::new(ALL)), hosts: Mutex::default() });

struct Places {
    all: Arc<Semaphore>,
    /// Those who have one, or wait for one.
    hosts: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// An answer is under way. Of its host, then of all.
#[derive(Debug)]
pub struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Waits for a place.
///
/// # Errors
/// Others, or the host itself, read for too long.
pub async fn place(host: IpAddr) -> Result<Place, Problem> {
    PLACES.take(host).await
}

impl Places {
    async fn take(&self, host: IpAddr) -> Result<Place, Problem> {
        let own = {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            hosts.retain(|_, places| Arc::strong_count(places) > 1);
            hosts.entry(host).or_insert_with(|| Arc::new(Semaphore::new(EACH))).clone()
        };
        let busy = |who: &str, most: usize| {
            let detail = format!("{who} read through events: {most} at a time are answered; try again in a moment");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        };
        let of = async |places: &Arc<Semaphore>| timeout(PATIENCE, places.clone().acquire_owned()).await.ok()?.ok();
        let own = of(&own).await.ok_or_else(|| busy(&format!("too many requests of {host}"), EACH))?;
        let all = of(&self.all).await.ok_or_else(|| busy("too many requests", ALL))?;
        Ok(Place { _own: own, _all: all })
    }
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
    use std::net::Ipv4Addr;

    use futures::stream;

    use super::*;

    fn places() -> Places {
        Places { all: Arc::new(Semaphore::new(ALL)), hosts: Mutex::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn one_host_leaves_places_to_the_others() {
        let places = places();
        let [one, other] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)));
        let mut held = Vec::new();
        for _ in 0..EACH {
            held.push(places.take(one).await.expect("a place"));
        }
        let refused = places.take(one).await.expect_err("no place is left for it");
        assert_eq!((refused.status.as_u16(), refused.detail.contains("of 127.0.0.1")), (503, true), "{refused:?}");
        assert!(places.take(other).await.is_ok());
        held.pop();
        assert!(places.take(one).await.is_ok());
        drop(held);
        assert!(places.take(other).await.is_ok());
        assert_eq!(places.hosts.lock().expect("whole").len(), 1, "nothing is kept of those who are gone");
    }

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
