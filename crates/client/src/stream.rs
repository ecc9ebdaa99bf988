//! Reads the NDJSON stream of callbacks and takes it up again by sequence number when the connection breaks.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use callboard_si::v1::{AllocationResponse, ApplicationResponse, NodeResponse, PredicatesArgs};
use hyper::StatusCode;
use serde::Deserialize;
use tokio::sync::mpsc::UnboundedSender;

use super::{
    Error, Incoming, Message, Result,
    http::{Api, FAIL_OVER},
    net::Answer,
};

/// The server sends a line at least every 10 s; three missing ones mean that the connection is dead.
const SILENCE: Duration = Duration::from_secs(30);
/// Tries in a row to take up a broken stream, with growing pauses: about 10 s in all.
const TRIES: u32 = 12;
/// A stream over which something came after so long, be it an empty line, had been taken up: what ends it then begins a new row.
const LASTED: Duration = Duration::from_secs(5);

/// One line of the stream; kinds that this client does not handle are left out.
#[derive(Deserialize)]
struct Line {
    seq: Option<u64>,
    allocation: Option<AllocationResponse>,
    application: Option<ApplicationResponse>,
    node: Option<NodeResponse>,
    id: Option<u64>,
    predicates: Option<PredicatesArgs>,
    closing: Option<Closing>,
}

#[derive(Deserialize)]
struct Closing {
    status: u16,
    #[serde(default)]
    detail: String,
}

/// Reads until the session ends, the stream cannot be resumed, or nobody listens any more.
pub(super) async fn read(api: Api, rm_path: String, out: UnboundedSender<Incoming>) {
    let mut position = Position { last: 0, heard: None, out };
    let (mut tries, mut failing) = (0, Instant::now());
    let mut first = true;
    loop {
        let (before, mut lasted) = (position.last, false);
        let error = match api.stream(&rm_path, position.last).await {
            Ok(response) => {
                if !first && position.out.send(Incoming::Resumed).is_err() {
                    return;
                }
                first = false;
                let begun = Instant::now();
                let followed = follow(response, &mut position).await;
                lasted = position.heard.is_some_and(|heard| heard.duration_since(begun) >= LASTED);
                match followed {
                    Ok(()) => None,
                    Err(Stop::Nobody) => return,
                    Err(Stop::Error(error)) => return position.end(error),
                    Err(Stop::Broken(reason)) => Some(reason),
                }
            }
            Err(error @ Error::Refused { .. }) if !error.may_pass() => return position.end(error),
            Err(error) => Some(error.to_string()),
        };
        // One that is idle has no callbacks, and whatever is in between may end every connection after a while.
        tries = if position.last > before || lasted { 0 } else { tries + 1 };
        if tries <= 1 {
            failing = Instant::now();
        }
        // Where there are several servers, as long as a request is tried.
        if tries > TRIES && !(api.has_several() && failing.elapsed() < FAIL_OVER) {
            let reason = error.unwrap_or_else(|| "the server closes it again and again".to_owned());
            return position.end(Error::Unreachable { request: "stream of callbacks".into(), url: rm_path, reason });
        }
        tokio::time::sleep(Duration::from_millis(10 << tries.min(7))).await;
    }
}

struct Position {
    last: u64,
    /// When something came last.
    heard: Option<Instant>,
    out: UnboundedSender<Incoming>,
}

impl Position {
    fn end(&self, error: Error) {
        // Nobody listens any more: nothing to tell.
        let _ = self.out.send(Incoming::Ended(error));
    }
}

enum Stop {
    /// The receiver is gone.
    Nobody,
    /// No use in trying again.
    Error(Error),
    /// The connection broke.
    Broken(String),
}

async fn follow(mut response: Answer, position: &mut Position) -> std::result::Result<(), Stop> {
    let mut buffer = BytesMut::new();
    loop {
        let chunk = match tokio::time::timeout(SILENCE, response.chunk()).await {
            Err(_) => return Err(Stop::Broken(format!("nothing came for {} s", SILENCE.as_secs()))),
            Ok(Err(e)) => return Err(Stop::Broken(e.to_string())),
            Ok(Ok(None)) => return Ok(()),
            Ok(Ok(Some(chunk))) => chunk,
        };
        position.heard = Some(Instant::now());
        let mut searched = buffer.len();
        buffer.extend_from_slice(&chunk);
        while let Some(at) = buffer[searched..].iter().position(|b| *b == b'\n') {
            let line = buffer.split_to(searched + at + 1);
            searched = 0;
            handle(line[..line.len() - 1].trim_ascii(), position)?;
        }
    }
}

fn handle(line: &[u8], position: &mut Position) -> std::result::Result<(), Stop> {
    if line.is_empty() {
        return Ok(());
    }
    let at = Instant::now();
    let parsed = parse(line).map_err(Stop::Error)?;
    if let Some(closing) = parsed.closing.as_ref().filter(|closing| matches!(closing.status, 503 | 307)) {
        // 503: the server ends, and may be started anew. 307: another one leads; whoever is asked next says which.
        return Err(Stop::Broken(closing.detail.clone()));
    }
    if let Some(closing) = parsed.closing {
        let status = StatusCode::from_u16(closing.status).map_or(closing.status.to_string(), |s| s.to_string());
        let request = "stream of callbacks".to_owned();
        return Err(Stop::Error(Error::Refused { request, status, detail: closing.detail }));
    }
    let seq = parsed.seq.unwrap_or(0);
    if seq <= position.last && seq != 0 {
        return Ok(());
    }
    if seq != position.last + 1 {
        let reason = format!("callback {seq} came after callback {}, expected {}", position.last, position.last + 1);
        return Err(Stop::Error(Error::Malformed { reason, line: excerpt(line) }));
    }
    position.last = seq;
    let asked = parsed.id.zip(parsed.predicates);
    let message = match (parsed.allocation, parsed.application, parsed.node, asked) {
        (Some(allocation), ..) => Message::Allocation(allocation),
        (_, Some(application), ..) => Message::Application(application),
        (_, _, Some(node), _) => Message::Node(node),
        (.., Some((id, question))) => Message::Predicates { id, question },
        _ => Message::Other,
    };
    position.out.send(Incoming::Message { seq, at, message }).map_err(|_| Stop::Nobody)
}

fn parse(line: &[u8]) -> Result<Line> {
    serde_json::from_slice(line).map_err(|e| Error::Malformed { reason: e.to_string(), line: excerpt(line) })
}

fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned()
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn position(last: u64) -> (Position, mpsc::UnboundedReceiver<Incoming>) {
        let (out, incoming) = mpsc::unbounded_channel();
        (Position { last, heard: None, out }, incoming)
    }

    #[test]
    fn lines_are_numbered_without_gaps_and_repeated_ones_are_dropped() {
        let (mut position, mut incoming) = position(4);
        assert!(handle(br#"{"seq":4,"node":{}}"#, &mut position).is_ok());
        assert!(incoming.try_recv().is_err());
        assert!(handle(br#"{"seq":5,"allocation":{"new":[{"allocationKey":"a"}]}}"#, &mut position).is_ok());
        let Ok(Incoming::Message { seq: 5, message: Message::Allocation(new), .. }) = incoming.try_recv() else {
            panic!("no allocation")
        };
        assert_eq!(new.new[0].allocation_key, "a");
        assert!(matches!(handle(br#"{"seq":7,"node":{}}"#, &mut position), Err(Stop::Error(_))));
    }

    #[test]
    fn questions_carry_their_id() {
        let (mut position, mut incoming) = position(0);
        let line = br#"{"seq":1,"id":1,"predicates":{"allocationKey":"a","nodeID":"n","allocate":true}}"#;
        assert!(handle(line, &mut position).is_ok());
        let Ok(Incoming::Message { message: Message::Predicates { id: 1, question }, .. }) = incoming.try_recv() else {
            panic!("no question")
        };
        assert_eq!((&*question.allocation_key, &*question.node_id), ("a", "n"));
    }

    #[test]
    fn events_count_as_callbacks_of_another_kind() {
        let (mut position, mut incoming) = position(0);
        assert!(handle(br#"{"seq":1,"events":{"records":[{"type":"APP"}]}}"#, &mut position).is_ok());
        assert!(matches!(incoming.try_recv(), Ok(Incoming::Message { seq: 1, message: Message::Other, .. })));
    }

    #[test]
    fn a_stream_that_moved_is_taken_up_again() {
        let line = br#"{"closing":{"status":307,"detail":"it is led by another server","leader":"http://b:9080"}}"#;
        let (mut position, _incoming) = position(0);
        assert!(matches!(handle(line, &mut position), Err(Stop::Broken(why)) if why == "it is led by another server"));
    }

    #[test]
    fn a_stream_whose_server_is_started_anew_is_taken_up_again() {
        let line = br#"{"closing":{"status":503,"detail":"the server is shutting down"}}"#;
        let (mut position, _incoming) = position(0);
        assert!(matches!(handle(line, &mut position), Err(Stop::Broken(why)) if why == "the server is shutting down"));
    }

    #[test]
    fn a_closing_line_ends_the_stream_with_its_reason() {
        let (mut position, _incoming) = position(0);
        let Err(Stop::Error(error)) =
            handle(br#"{"closing":{"status":409,"detail":"replaced by another stream"}}"#, &mut position)
        else {
            panic!("goes on")
        };
        assert!(error.to_string().contains("replaced by another stream"), "{error}");
    }
}
