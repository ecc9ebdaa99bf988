//! The journal as NDJSON: history, the sentinel, then one response for each event.

use std::time::Duration;

use actix::Addr;
use actix_web::{HttpResponse, web::Bytes};
use futures::{Stream, StreamExt, stream};
use tokio::time::timeout;

use crate::{
    actors::journal::JournalActor,
    messages::journal::{Attached, Cancel, SENTINEL, responses},
};

/// The response header that names a stream.
pub const HEADER: &str = "Journal-Stream";

/// After so much silence an empty line shows that the connection is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The last line of a stream whose reader was too slow.
const LAGGED: &str = "{\"closing\":{\"status\":503,\"detail\":\"the reader fell too far behind; attach again, the history has what is missing\"}}\n";

/// Cancels the stream when the client is gone.
struct Guard {
    journal: Addr<JournalActor>,
    stream: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.journal.do_send(Cancel(self.stream));
    }
}

/// The response to a journal request.
pub fn respond(attached: Attached, journal: Addr<JournalActor>) -> HttpResponse {
    let name = attached.stream;
    HttpResponse::Ok()
        .content_type("application/x-ndjson")
        .insert_header((HEADER, name.to_string()))
        .insert_header(("Cache-Control", "no-store"))
        .streaming(body(attached, journal).map(Ok::<_, actix_web::Error>))
}

fn body(mut attached: Attached, journal: Addr<JournalActor>) -> impl Stream<Item = Bytes> {
    let history = responses(std::mem::take(&mut attached.history));
    let sentinel = std::iter::once(Bytes::from_static(SENTINEL.as_bytes()));
    let guard = Guard { journal, stream: attached.stream };
    let live = stream::unfold(Some((attached, guard)), |state| async move {
        let (mut attached, guard) = state?;
        let receiver = attached.live.as_mut()?;
        match timeout(KEEP_ALIVE, receiver.recv()).await {
            Ok(Some(line)) => Some((line, Some((attached, guard)))),
            Err(_) => Some((Bytes::from_static(b"\n"), Some((attached, guard)))),
            Ok(None) if attached.lagged() => Some((Bytes::from_static(LAGGED.as_bytes()), None)),
            Ok(None) => None,
        }
    });
    stream::iter(history.chain(sentinel)).chain(live)
}
