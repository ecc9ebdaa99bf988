//! `/api/v1/events`: the log of events from any id that is still kept, as lines, to its end or for ever.
//!
//! A line is an event (`{"id":12,"type":"APP",…}`, otherwise as shims get it), a gap
//! (`{"gap":{"from":5,"to":9,"reason":"retention"}}`, both ids included), or the last one: `{"next":13}` where the answer
//! is complete, `{"closed":{"next":13,"detail":…}}` where it is not. Reading on from that id misses nothing. Empty lines
//! say that the server is there. `last=200` reads backwards: the last 200 before the end, or before the id `before`, and the
//! last line has `previous` too, the id before which older ones are read; null where there are none.

pub mod back;
mod last;
pub mod log;
mod parameters;
pub mod sent;

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::Addr;
use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web::Data};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use serde_json::json;

use self::{
    log::Log,
    parameters::{Filter, Wanted},
    sent::{lines_of, place, sent},
};
use crate::{
    actors::{event::EventActor, topology::Topology},
    domain::event_block::{EventGap, EventPiece, EventSlice, GapReason},
    http::{
        doors::Doors,
        long::{Asker, Turn},
        operation::{count, text, yes_or_no},
        problem::Problem,
        route::{Access, Route},
        ws_v1::events::{host, host_header, records::Encoder},
    },
    messages::event::{Ended, FollowError, Follower, LineForm, LogPage, ReadError, StreamReader, TooManyStreams},
};

/// Events that are asked for at a time.
const PAGE: usize = 4_096;
/// Events that are encoded at a time.
const STEP: usize = 256;
/// After so long without an event an empty line is written.
const SILENCE: Duration = Duration::from_secs(10);

/// The application's data has to hold the [`Doors`].
pub(super) fn routes() -> Vec<Route> {
    let handler = async |req: HttpRequest, doors: Data<Doors>| {
        let (events, topology) = (&doors.topology.events, Some(&*doors.topology));
        events_of(&req, events, topology).await
    };
    vec![
        Access::Viewer
            .get("/api/v1/events")
            .to(handler, "The log of events, to its end or for ever")
            .query("from", count(), "first id; left out: the oldest that is kept, or the next with follow")
            .query("count", json!({"type": "integer", "format": "uint64", "minimum": 1}), "how many at most")
            .query("last", json!({"type": "integer", "minimum": 1, "maximum": 10_000}), "the last so many instead")
            .query("before", count(), "with last: those before this id; the last line names the one for the next page")
            .query("follow", yes_or_no(), "go on with new events, for ever")
            .query("rm", text(), "those of the log of this resource manager, with its ids: the same at every server")
            .query("object", text(), "of this object only, or with it as second object")
            .query("children", yes_or_no(), "of an object that is a queue: of those below it too")
            .query("type", text(), "of these types only, separated by commas: request, app, node, queue, usergroup")
            .query("since", text(), "from this time on: RFC 3339, or 10m for ten minutes ago")
            .query("until", text(), "up to this time")
            .lines("An event in a line with its id, a gap, or as the last one where to go on")
            .problems(&[400, 404, 503]),
    ]
}

/// Answers `GET /api/v1/events?from=&count=&last=&before=&follow=&object=&type=&since=&until=` where there is no wiring.
///
/// # Errors
/// 400 for a parameter, 503 for too many streams and while the server stops, 500 where the store cannot be read.
pub async fn events(req: &HttpRequest, events: &Addr<EventActor>) -> Result<HttpResponse, Problem> {
    events_of(req, events, None).await
}

/// The same, and `rm=`: 404 for a resource manager that is not known.
async fn events_of(
    req: &HttpRequest,
    events: &Addr<EventActor>,
    topology: Option<&Topology>,
) -> Result<HttpResponse, Problem> {
    let wanted = Wanted::read(req)?;
    let mut log = match wanted.rm.as_deref().zip(topology) {
        Some((rm, topology)) => Log::of(topology, rm).await?,
        None => Log::of_server(events),
    };
    let filter = Arc::new(wanted.filter);
    let host = host(req);
    // Who follows is counted as long as that lasts, also while it reads what is stored.
    let (follower, place) = if wanted.follow {
        (Some(log.begin_to_follow(host).await.map_err(failed)?.map_err(too_many)?), None)
    } else {
        (None, Some(place(req).await?))
    };
    let asker = Asker::of(req);
    if let Some(count) = wanted.last {
        let lines = last::last(&mut log, &filter, wanted.before, count, &asker).await?;
        let lines = futures::stream::iter(lines.into_iter().map(Ok::<Bytes, Infallible>));
        return Ok(lines_of(lines));
    }
    let mut from = wanted.from;
    if let Some(at) = filter.since {
        let found = log.find(at).await.map_err(failed)?;
        from = Some(from.map_or(found, |from| from.max(found)));
    } else if from.is_none() && wanted.follow {
        from = Some(log.extent().await.map_err(failed)?.1);
    }
    let turn = asker.wait().await;
    let first = log.read(from, PAGE).await.map_err(|error| log.refused(error))?;
    let from = from.or_else(|| first.pieces.first().map(EventPiece::first)).unwrap_or(first.next);
    let end = match filter.until {
        Some(until) => Some(last::after(&mut log, &filter, until, first.next).await?),
        None => (!wanted.follow).then_some(first.next),
    };
    let mut reading = Reading {
        log,
        asker,
        host,
        name: host_header(req).into(),
        end,
        from,
        left: wanted.count,
        filter,
        said: Instant::now(),
        ready: VecDeque::new(),
        pieces: VecDeque::new(),
        reader: None,
        _follower: follower,
        done: false,
    };
    reading.page(first, &turn).await;
    Ok(match place {
        Some(place) => sent(reading.lines(), place),
        None => lines_of(reading.lines().map(Ok::<_, Infallible>)),
    })
}

fn too_many(refused: TooManyStreams) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, refused.to_string())
}

/// `None`: the server stops.
fn failed(error: Option<ReadError>) -> Problem {
    error.map_or_else(stopping, problem)
}

fn problem(error: ReadError) -> Problem {
    match error {
        ReadError::Beyond { .. } => Problem::field("from", error.to_string()),
        ReadError::Failed(_) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn stopping() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the event system has stopped: the scheduler is shutting down")
}

/// An answer under way.
struct Reading {
    log: Log,
    asker: Asker,
    host: IpAddr,
    name: Arc<str>,
    /// Where to stop; `None` for never.
    end: Option<u64>,
    /// The next id that is neither written nor in `pieces`.
    from: u64,
    /// Events that are still wanted.
    left: Option<u64>,
    filter: Arc<Filter>,
    /// When something was last written.
    said: Instant,
    ready: VecDeque<Bytes>,
    pieces: VecDeque<EventPiece>,
    /// New events, once all before them have been read.
    reader: Option<StreamReader>,
    /// It counts as a stream.
    _follower: Option<Follower>,
    done: bool,
}

impl Reading {
    fn lines(self) -> impl Stream<Item = Bytes> {
        futures::stream::unfold(self, async |mut reading| {
            let piece = reading.next().await?;
            reading.said = Instant::now();
            Some((piece, reading))
        })
    }

    /// Encodes a page in its turn: what waits for a slow client is what was wanted of it.
    async fn page(&mut self, page: LogPage, turn: &Turn) {
        let from = page.pieces.last().map_or(self.from, EventPiece::end);
        let (filter, end, left) = (self.filter.clone(), self.end, self.left);
        match turn.make(move || encode(page.pieces, &filter, end, left)).await {
            Ok(encoded) => {
                self.from = from;
                self.add(encoded);
            }
            Err(broken) => self.close(&broken.to_string()),
        }
    }

    fn add(&mut self, encoded: Encoded) {
        self.left = encoded.left;
        encoded.lines.into_iter().for_each(|lines| self.push(lines));
        if let Some(next) = encoded.reached {
            self.finish(next);
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            if self.done {
                return None;
            }
            match self.pieces.pop_front() {
                Some(piece) => {
                    // A reader that takes all at once leaves the others of its worker their turn.
                    tokio::task::yield_now().await;
                    let part = self.part(piece);
                    self.add(encode(vec![part], &self.filter, self.end, self.left));
                }
                None => match (self.end, self.reader.take()) {
                    (Some(end), _) if self.from >= end => self.finish(end),
                    (_, Some(reader)) => self.live(reader).await,
                    (_, None) => self.stored().await,
                },
            }
        }
    }

    /// A piece, or the beginning of it where it is long.
    fn part(&mut self, piece: EventPiece) -> EventPiece {
        if let EventPiece::Events(slice) = &piece
            && let Some(part) = slice.part(slice.first(), STEP)
            && let Some(rest) = slice.part(part.end(), usize::MAX)
        {
            self.pieces.push_front(EventPiece::Events(rest));
            return EventPiece::Events(part);
        }
        piece
    }

    /// Reads the next page; at the end of the log begins to follow.
    async fn stored(&mut self) {
        let turn = self.asker.wait().await;
        match self.log.read(Some(self.from), PAGE).await {
            Err(None) => self.close("the scheduler is shutting down"),
            Err(Some(error)) => self.close(&error.to_string()),
            Ok(page) if page.pieces.is_empty() => {
                drop(turn);
                self.follow().await;
            }
            Ok(page) => {
                self.page(page, &turn).await;
                if self.ready.is_empty() && self.said.elapsed() >= SILENCE {
                    self.push(Bytes::from_static(b"\n"));
                }
            }
        }
    }

    async fn follow(&mut self) {
        match self.log.follow(self.host, self.name.clone(), self.from).await {
            Err(_) => self.close("the scheduler is shutting down"),
            // More has come, and gone from memory, since the last page was read.
            Ok(Err(FollowError::Behind)) => {}
            Ok(Ok(followed)) => {
                for slice in followed.past {
                    self.from = slice.end();
                    self.pieces.push_back(EventPiece::Events(slice));
                }
                self.reader = Some(followed.reader);
            }
        }
    }

    /// Waits for new events.
    async fn live(&mut self, mut reader: StreamReader) {
        match tokio::time::timeout(SILENCE, reader.next()).await {
            Err(_) => self.push(Bytes::from_static(b"\n")),
            Ok(Ok(batch)) => {
                match batch.slice().part(self.from, usize::MAX) {
                    Some(part) if part.len() == batch.len() && part.first() == self.from => {}
                    // What is between is read first: a log that is applied by this server does not always go on.
                    Some(part) if part.first() > self.from => return,
                    // Or begins with what there was.
                    part => {
                        self.from = part.as_ref().map_or(self.from, EventSlice::end);
                        self.pieces.extend(part.map(EventPiece::Events));
                        self.reader = Some(reader);
                        return;
                    }
                }
                self.from = batch.slice().end();
                if self.left.is_none() && self.filter.is_empty() {
                    let lines = batch.lines(LineForm::Numbered, numbered);
                    self.push(lines);
                } else {
                    self.pieces.push_back(EventPiece::Events(batch.slice().clone()));
                }
            }
            // What it was not given is read instead.
            Ok(Err(Ended::Lagging { .. })) => return,
            Ok(Err(Ended::Stopped)) => return self.close("the scheduler is shutting down"),
        }
        self.reader = Some(reader);
    }

    fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.ready.push_back(bytes);
        }
    }

    fn finish(&mut self, next: u64) {
        self.push(format!("{{\"next\":{next}}}\n").into());
        self.done = true;
    }

    fn close(&mut self, detail: &str) {
        let mut line = Encoder::default();
        line.raw("{\"closed\":{\"next\":");
        line.number(self.from);
        line.raw(",\"detail\":");
        line.string(detail);
        line.raw("}}\n");
        self.push(line.finish());
        self.done = true;
    }
}

/// Lines of a part of the log.
struct Encoded {
    lines: Vec<Bytes>,
    /// Events that are still wanted.
    left: Option<u64>,
    /// The answer has all that is wanted of the events before this id.
    reached: Option<u64>,
}

/// Encodes the events that are wanted, up to an id and so many.
fn encode(pieces: Vec<EventPiece>, wanted: &Filter, end: Option<u64>, left: Option<u64>) -> Encoded {
    let mut encoded = Encoded { lines: Vec::new(), left, reached: None };
    let end = end.unwrap_or(u64::MAX);
    for piece in pieces {
        match piece {
            _ if piece.first() >= end => break,
            EventPiece::Gap(gap) => encoded.lines.push(gap_line(&EventGap { end: gap.end.min(end), ..gap })),
            EventPiece::Events(slice) => {
                let events = (slice.first()..end).zip(slice.events());
                let events = events.filter(|(_, event)| wanted.wants(event));
                let mut events = events.peekable();
                while events.peek().is_some() {
                    let mut encoder = Encoder::for_events(STEP);
                    for (id, event) in events.by_ref().take(STEP) {
                        encoder.numbered(id, event);
                        encoder.raw("\n");
                        if let Some(left) = &mut encoded.left {
                            *left = left.saturating_sub(1);
                            if *left == 0 {
                                encoded.lines.push(encoder.finish());
                                encoded.reached = Some(id + 1);
                                return encoded;
                            }
                        }
                    }
                    encoded.lines.push(encoder.finish());
                }
            }
        }
    }
    encoded
}

fn numbered(slice: &EventSlice) -> Bytes {
    let mut encoder = Encoder::for_events(slice.len());
    for (id, event) in (slice.first()..).zip(slice.events()) {
        encoder.numbered(id, event);
        encoder.raw("\n");
    }
    encoder.finish()
}

fn gap_line(gap: &EventGap) -> Bytes {
    let mut line = Encoder::default();
    line.raw("{\"gap\":{\"from\":");
    line.number(gap.from);
    line.raw(",\"to\":");
    line.number(gap.end.saturating_sub(1));
    line.raw(",\"reason\":");
    line.string(gap.reason.name());
    if let GapReason::Damage(place) = &gap.reason {
        line.raw(",\"detail\":");
        line.string(place);
    }
    line.raw("}}\n");
    line.finish()
}
