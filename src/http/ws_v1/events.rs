//! `/ws/v1/events/batch` and `/ws/v1/events/stream`.

mod query;
pub mod records;

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use actix::Addr;
use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::{StatusCode, header},
};
use bytes::Bytes;
use futures::Stream;

use self::records::Encoder;
use crate::{
    actors::event::EventActor,
    domain::event_block::EventSlice,
    http::long::Asker,
    messages::event::{
        Batch, CheckStreams, Ended, EventPage, GetEvents, LineForm, OpenStream, OpenedStream, StreamReader,
    },
};

/// Past records that are encoded at a time.
const HISTORY_STEP: usize = 256;
/// What a stream says last that could not keep up (EVT-085).
const CLOSED_BY_PRODUCER: &str = "Event stream was closed by the producer";

/// A page of the ring (EVT-073): without `start` from the oldest record that is kept.
///
/// Answers while tracking is off too: what was recorded stays available (SEEDS S16).
pub async fn batch(req: &HttpRequest, events: &Addr<EventActor>) -> HttpResponse {
    let query = req.query_string();
    let count = match query::number(query, "count") {
        Ok(Some(0)) => return error(StatusCode::BAD_REQUEST, "0 is not a valid value for \"count\""),
        Ok(count) => count,
        Err(text) => return error(StatusCode::BAD_REQUEST, &text),
    };
    let start = match query::number(query, "start") {
        Ok(start) => start,
        Err(text) => return error(StatusCode::BAD_REQUEST, &text),
    };
    let rows = |page: &EventPage| page.slices.iter().map(EventSlice::len).sum();
    let take = async || events.send(GetEvents { start, count }).await;
    let Ok((page, turn)) = Asker::of(req).turn(take, rows).await else {
        return stopping();
    };
    match turn.make(move || page_body(&page)).await {
        Ok(body) => answer(StatusCode::OK).body(body),
        Err(broken) => error(StatusCode::INTERNAL_SERVER_ERROR, &broken.to_string()),
    }
}

fn page_body(page: &EventPage) -> Bytes {
    let mut encoder = Encoder::for_events(page.slices.iter().map(|slice| slice.events().len()).sum());
    encoder.raw("{\"InstanceUUID\":");
    encoder.string(&page.instance);
    encoder.raw(",\"LowestID\":");
    encoder.number(page.lowest);
    encoder.raw(",\"HighestID\":");
    encoder.number(page.highest);
    encoder.raw(",\"EventRecords\":");
    let mut separator = "[";
    for event in page.slices.iter().flat_map(EventSlice::events) {
        encoder.raw(separator);
        separator = ",";
        encoder.record(event);
    }
    encoder.raw(if page.slices.is_empty() { "null}\n" } else { "]}\n" });
    encoder.finish()
}

/// An endless stream of JSON lines (EVT-080). The limits are checked before the parameter (REST section 8, row 36).
///
/// The stream is open until the server notices that the client is gone; so that it does while nothing happens, the
/// server must not allow half-closed connections (`HttpServer::h1_allow_half_closed(false)`).
pub async fn stream(req: &HttpRequest, events: &Addr<EventActor>) -> HttpResponse {
    let host = host(req);
    let count = match query::number(req.query_string(), "count") {
        Ok(count) => count.unwrap_or(0),
        Err(text) => {
            return match events.send(CheckStreams { host }).await {
                Ok(Ok(())) => error(StatusCode::BAD_REQUEST, &text),
                Ok(Err(refused)) => error(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string()),
                Err(_) => stopping(),
            };
        }
    };
    let name: Arc<str> = host_header(req).into();
    match events.send(OpenStream { host, name, count }).await {
        Ok(Ok(opened)) => answer(StatusCode::OK).streaming(body(opened)),
        Ok(Err(refused)) => error(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string()),
        Err(_) => stopping(),
    }
}

/// Where the client is, as readers of events are counted.
pub(in crate::http) fn host(req: &HttpRequest) -> IpAddr {
    req.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip())
}

/// The name under which the client knows the server (EVT-087).
pub(in crate::http) fn host_header(req: &HttpRequest) -> &str {
    let header = req.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| req.uri().host()).unwrap_or_default()
}

/// What a stream still has to write.
struct Writing {
    ready: VecDeque<Bytes>,
    history: VecDeque<EventSlice>,
    /// Index in the first slice of `history`.
    at: usize,
    reader: Option<StreamReader>,
    base: u64,
}

fn body(opened: OpenedStream) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let mut head = Encoder::default();
    head.raw("{\"InstanceUUID\":");
    head.string(&opened.instance);
    head.raw("}\n");
    let OpenedStream { base, history, reader, .. } = opened;
    let (ready, history) = ([head.finish()].into(), history.into());
    let writing = Writing { ready, history, at: 0, reader: Some(reader), base };
    futures::stream::unfold(writing, async |mut writing| {
        let piece = writing.next().await?;
        Some((Ok(piece), writing))
    })
}

impl Writing {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            if let Some(past) = self.past() {
                self.ready.push_back(past);
                continue;
            }
            let next = self.reader.as_mut()?.next().await;
            self.ready.push_back(match next {
                Ok(batch) => lines(&batch),
                Err(ended) => {
                    self.reader = None;
                    match ended {
                        Ended::Lagging { next } => closed_by_producer(next - self.base),
                        Ended::Stopped => return None,
                    }
                }
            });
        }
    }

    fn past(&mut self) -> Option<Bytes> {
        let slice = self.history.front()?;
        let rest = &slice.events()[self.at..];
        let step = rest.len().min(HISTORY_STEP);
        let lines = records::lines(&rest[..step]);
        self.at += step;
        if step == rest.len() {
            self.history.pop_front();
            self.at = 0;
        }
        Some(lines)
    }
}

fn lines(batch: &Batch) -> Bytes {
    batch.lines(LineForm::Plain, |slice| records::lines(slice.events()))
}

/// An answer with the headers of every JSON answer (REST 1.3).
fn answer(status: StatusCode) -> HttpResponseBuilder {
    let mut answer = HttpResponse::build(status);
    answer
        .insert_header((header::CONTENT_TYPE, "application/json; charset=UTF-8"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "GET, OPTIONS"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, "X-Requested-With,Content-Type,Accept,Origin"));
    answer
}

/// An error with its body (REST section 2).
fn error(status: StatusCode, text: &str) -> HttpResponse {
    answer(status).body(error_body(status, text))
}

fn error_body(status: StatusCode, text: &str) -> Bytes {
    let mut encoder = Encoder::default();
    encoder.raw("{\"status_code\":");
    encoder.number(status.as_u16());
    encoder.raw(",\"message\":");
    encoder.string(text);
    encoder.raw(",\"description\":");
    encoder.string(text);
    encoder.raw("}\n");
    encoder.finish()
}

/// The last line of a stream that could not keep up (EVT-085), with the first event that it was not given: the id from
/// which `batch` goes on.
fn closed_by_producer(next: u64) -> Bytes {
    let mut encoder = Encoder::default();
    encoder.raw("{\"status_code\":200,\"message\":");
    encoder.string(CLOSED_BY_PRODUCER);
    encoder.raw(",\"description\":");
    encoder.string(CLOSED_BY_PRODUCER);
    encoder.raw(",\"next\":");
    encoder.number(next);
    encoder.raw("}\n");
    encoder.finish()
}

fn stopping() -> HttpResponse {
    error(StatusCode::SERVICE_UNAVAILABLE, "the event system has stopped: the scheduler is shutting down")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix::Actor as _;
    use futures::StreamExt as _;

    use super::*;
    use crate::{
        actors::event::testing,
        domain::event_settings::EventSettings,
        messages::event::{Publish, StopEvents},
    };

    // EVT-070, EVT-085
    #[actix::test]
    async fn a_stream_that_is_ended_says_where_a_batch_goes_on() {
        tokio::time::pause();
        let dir = tempfile::tempdir().unwrap();
        let start = || EventActor::durable(EventSettings::default(), (dir.path(), None), false).unwrap().start();
        let publish = async |to: &Addr<EventActor>, numbers| {
            let (rm, events) = ("rm-1".into(), testing::events(numbers));
            to.send(Publish { rm, epoch: 1, events, traced: Vec::new(), first: None }).await.unwrap();
        };
        let first = start();
        publish(&first, 0..7).await;
        first.send(StopEvents).await.unwrap().unwrap();
        let events = start();
        publish(&events, 7..9).await;
        let (host, name) = (IpAddr::V4(Ipv4Addr::LOCALHOST), "name".into());
        let opened = events.send(OpenStream { host, name, count: 0 }).await.unwrap().unwrap();
        publish(&events, 9..10).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let lines: Vec<_> = body(opened).collect().await;
        let last: serde_json::Value = serde_json::from_slice(lines.last().unwrap().as_ref().unwrap()).unwrap();
        assert_eq!(last["next"], 2, "{last}");
        let page = events.send(GetEvents { start: Some(2), count: None }).await.unwrap();
        assert_eq!(page.slices.iter().map(EventSlice::len).sum::<usize>(), 1);
    }
}
