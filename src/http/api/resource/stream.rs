//! The journal as NDJSON: history, the sentinel, then one response for each event.

use std::{sync::Arc, time::Duration};

use actix::Addr;
use actix_web::{HttpResponse, web::Bytes};
use futures::{Stream, StreamExt, stream};
use tokio::time::timeout;

use crate::{
    actors::{journal::JournalActor, topology::Topology},
    messages::journal::{Attached, Cancel, Ended, SENTINEL, responses},
    si::line,
};

/// The response header that names a stream.
pub const HEADER: &str = "Journal-Stream";

/// After so much silence an empty line shows that the connection is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The last line of a stream whose reader was too slow.
const LAGGED: &str = "{\"closing\":{\"status\":503,\"detail\":\"the reader fell too far behind; attach again, the history has what is missing\"}}\n";

/// The last line of a stream when the server ends.
const ENDS: &str =
    "{\"closing\":{\"status\":503,\"detail\":\"the server is shutting down: attach again when it is back\"}}\n";

/// Cancels the stream when the client is gone.
struct Guard {
    journal: Addr<JournalActor>,
    stream: u64,
    /// Says when the server ends.
    topology: Option<Arc<Topology>>,
}

impl Guard {
    async fn server_ends(&self) {
        match &self.topology {
            Some(topology) => topology.ends().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.journal.do_send(Cancel(self.stream));
    }
}

/// The response to a journal request.
pub fn respond(attached: Attached, journal: Addr<JournalActor>, topology: Option<Arc<Topology>>) -> HttpResponse {
    let name = attached.stream;
    HttpResponse::Ok()
        .content_type("application/x-ndjson")
        .insert_header((HEADER, name.to_string()))
        .insert_header(("Cache-Control", "no-store"))
        .streaming(body(attached, journal, topology).map(Ok::<_, actix_web::Error>))
}

fn body(
    mut attached: Attached,
    journal: Addr<JournalActor>,
    topology: Option<Arc<Topology>>,
) -> impl Stream<Item = Bytes> {
    let history = responses(std::mem::take(&mut attached.history));
    let sentinel = std::iter::once(Bytes::from_static(SENTINEL.as_bytes()));
    let guard = Guard { journal, stream: attached.stream, topology };
    let live = stream::unfold(Some((attached, guard)), |state| async move {
        let (mut attached, guard) = state?;
        let receiver = attached.live.as_mut()?;
        let received = tokio::select! {
            // What there is comes before the last line.
            biased;
            received = timeout(KEEP_ALIVE, receiver.recv()) => received,
            () = guard.server_ends() => return Some((Bytes::from_static(ENDS.as_bytes()), None)),
        };
        match received {
            Ok(Some(line)) => Some((line, Some((attached, guard)))),
            Err(_) => Some((Bytes::from_static(b"\n"), Some((attached, guard)))),
            Ok(None) => Some((last_line(attached.ended.get()?), None)),
        }
    });
    stream::iter(history.chain(sentinel)).chain(live)
}

fn last_line(why: &Ended) -> Bytes {
    match why {
        Ended::Lagged => Bytes::from_static(LAGGED.as_bytes()),
        Ended::Moved(closing) => {
            let mut text = Vec::new();
            line::write_closing(closing, &mut text);
            text.push(b'\n');
            text.into()
        }
    }
}
