//! The callbacks of a session as NDJSON or as server-sent events.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    http::header,
    web::{Bytes, Data, Path},
};
use futures::{Stream, stream};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{Interval, MissedTickBehavior, interval},
};

use super::query;
use crate::{
    actors::rm::{
        handle::{RmHandle, not_registered},
        open::OpenStream,
    },
    http::{doors::Doors, problem::Problem},
    messages::rm::{Closing, Line, ToStream, Want},
    si::line,
};

/// An idle connection gets an empty line this often.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Bytes after which a piece is handed to the socket.
const PIECE: usize = 64 << 10;

/// GET `/si/v1/rm/{rmID}/stream`.
pub async fn stream(request: HttpRequest, rm: Path<String>, doors: Data<Doors>) -> Result<HttpResponse, Problem> {
    let handle = find(&doors, &rm)?;
    let parameters = query::parameters(&request, &["after"])?;
    let accepts = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let sse = accepts.to_ascii_lowercase().contains("text/event-stream");
    let last = request.headers().get("Last-Event-ID").filter(|_| sse).and_then(|id| id.to_str().ok());
    let after = match (last, query::one(&parameters, "after")) {
        // A client that reconnects says what it has; the address is still that of its first request.
        (Some(id), _) => Some(number("Last-Event-ID", id)?),
        (None, Some(after)) => Some(number("after", after)?),
        (None, None) => None,
    };
    let framing = if sse { Framing::Sse } else { Framing::Lines };
    let (open, words) = attach(&handle, if sse { "http-sse" } else { "http" }, after).await?;
    let kind = if sse { "text/event-stream" } else { "application/x-ndjson" };
    Ok(HttpResponse::Ok()
        .content_type(kind)
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(pieces(open, words, framing)))
}

/// The resource manager of a stream.
pub fn find(doors: &Doors, rm: &str) -> Result<Arc<RmHandle>, Problem> {
    doors.topology.find(rm).ok_or_else(|| not_registered("a stream", rm).into())
}

/// A sequence number.
pub fn number(name: &str, text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| Problem::field(name, format!("{name}={text} is not the number of a line")))
}

/// Opens a stream that carries every line.
pub async fn attach(
    handle: &RmHandle,
    door: &'static str,
    after: Option<u64>,
) -> Result<(OpenStream, UnboundedReceiver<ToStream>), Problem> {
    let (to, words) = unbounded_channel();
    let open = OpenStream::attach(&handle.addr, door, Want::All { after, predicates: None }, to).await;
    Ok((open.map_err(|_| not_registered("a stream", &handle.id))??, words))
}

/// How lines stand in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each ends with a line feed.
    Lines,
    /// As server-sent events.
    Sse,
}

impl Framing {
    /// The line that says why nothing comes after it.
    pub fn closing(self, closing: &Closing, piece: &mut Vec<u8>) {
        match self {
            Framing::Lines => {
                line::write_closing(closing, piece);
                piece.push(b'\n');
            }
            Framing::Sse => {
                piece.extend_from_slice(b"event: closing\ndata: ");
                line::write_closing(closing, piece);
                piece.extend_from_slice(b"\n\n");
            }
        }
    }
}

fn pieces(
    open: OpenStream,
    words: UnboundedReceiver<ToStream>,
    framing: Framing,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let mut beat = interval(KEEP_ALIVE);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.reset();
    let lines = VecDeque::new();
    let pieces = Pieces { open, words, framing, beat, lines, closing: None, written: None, end: false };
    stream::unfold(pieces, |mut pieces| async move { Some((Ok(pieces.next().await?), pieces)) })
}

struct Pieces {
    open: OpenStream,
    words: UnboundedReceiver<ToStream>,
    framing: Framing,
    beat: Interval,
    lines: VecDeque<Arc<Line>>,
    closing: Option<Closing>,
    written: Option<u64>,
    end: bool,
}

impl Pieces {
    /// The next piece. Being asked for it means that the one before went to the socket.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(seq) = self.written.take() {
            self.open.handed(seq);
        }
        if self.end {
            return None;
        }
        if self.lines.is_empty() && self.closing.is_none() {
            tokio::select! {
                biased;
                word = self.words.recv() => match word {
                    Some(word) => self.on_message(word),
                    None => return None,
                },
                _ = self.beat.tick() => return Some(Bytes::from_static(b"\n")),
            }
        }
        self.beat.reset();
        let mut piece = Vec::with_capacity(4 << 10);
        while piece.len() < PIECE {
            if let Some(line) = self.lines.pop_front() {
                self.frame(&line, &mut piece);
                self.written = Some(line.seq);
            } else if let Some(closing) = self.closing.take() {
                self.framing.closing(&closing, &mut piece);
                self.end = true;
                break;
            } else if let Ok(word) = self.words.try_recv() {
                self.on_message(word);
            } else {
                break;
            }
        }
        Some(piece.into())
    }

    fn on_message(&mut self, word: ToStream) {
        match word {
            ToStream::Lines(lines) => self.lines.extend(lines),
            ToStream::Close(closing) => self.closing = Some(closing),
            ToStream::Begin { .. } => {}
        }
    }

    fn frame(&self, entry: &Line, piece: &mut Vec<u8>) {
        match self.framing {
            Framing::Lines => {
                line::write(entry, piece);
                piece.push(b'\n');
            }
            Framing::Sse => {
                piece.extend_from_slice(format!("id: {}\ndata: ", entry.seq).as_bytes());
                line::write(entry, piece);
                piece.extend_from_slice(b"\n\n");
            }
        }
    }
}
