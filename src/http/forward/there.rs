//! A server to which something was passed on may be gone without a word: it hangs, its machine is off, or it is cut off from etcd.
//! When its lease has ended it leads nothing, and who waits for it is told so. What is silent otherwise lives on.

use std::{io, sync::Arc, time::Duration};

use actix_web::{
    http::{StatusCode, header},
    rt::time::sleep,
    web::Bytes,
};
use futures::{Stream, StreamExt as _, stream};

use crate::{
    actors::topology::Topology,
    http::{problem::Problem, shim::stream::Framing},
    messages::rm::{Closing, ClosingKind},
};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// Whether a server is there, as etcd says.
#[derive(Clone)]
pub struct There {
    topology: Arc<Topology>,
    /// The base URL of its HTTP door.
    server: Arc<str>,
    /// It was there, as far as this server has heard.
    was: bool,
}

impl There {
    /// One that leads, as this server has `heard`, or as another one says.
    pub fn new(topology: Arc<Topology>, server: &str, heard: bool) -> There {
        There { topology, server: server.into(), was: heard }
    }

    /// Until it is not there any more.
    async fn gone(mut self) {
        loop {
            let others = self.topology.leaders().map(|leaders| leaders.others());
            let is_there = others.is_none_or(|others| others.iter().any(|other| **other == *self.server));
            if self.was && !is_there {
                return;
            }
            self.was |= is_there;
            sleep(LOOK).await;
        }
    }

    fn why(&self) -> String {
        format!("the server that led, {}, is not there any more", self.server)
    }

    /// Does this, as long as the server is there.
    ///
    /// # Errors
    /// It is gone.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, Problem> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.clone().gone() => {
                let what = "what this request said may count: send it again, with the same Idempotency-Key where it has one";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{}; {what}", self.why())))
            }
        }
    }

    /// What comes from the server. Where it is gone that ends with a last word, or breaks off where there is no place for one.
    pub fn pieces<S>(self, pieces: S, last: Last) -> impl Stream<Item = io::Result<Bytes>>
    where
        S: Stream<Item = io::Result<Bytes>> + Unpin,
    {
        let gone = Box::pin(self.clone().gone());
        let closing =
            Closing { kind: ClosingKind::Moved, detail: format!("{}: attach again", self.why()).into(), leader: None };
        stream::unfold(Some((pieces, last, gone, closing)), async |state| {
            let (mut pieces, mut last, mut gone, closing) = state?;
            tokio::select! {
                biased;
                piece = pieces.next() => {
                    let piece = piece?;
                    piece.iter().for_each(|piece| last.passed(piece));
                    Some((piece, Some((pieces, last, gone, closing))))
                }
                () = &mut gone => {
                    let broken = || io::Error::new(io::ErrorKind::ConnectionAborted, &*closing.detail);
                    Some((last.word(&closing).ok_or_else(broken), None))
                }
            }
        })
    }
}

/// How a last word is said to who reads what is passed on.
#[derive(Debug)]
pub enum Last {
    /// Not at all.
    No,
    /// As a line of callbacks; the last two bytes that were passed on.
    Line(Framing, [u8; 2]),
    /// As a frame of a WebSocket: what has come of a head, and how much of the frame is to come.
    Frame(Vec<u8>, u64),
}

impl Last {
    /// For the answer to a request for this path.
    pub fn of(path: &str, headers: &hyper::HeaderMap) -> Last {
        let kind = headers.get(header::CONTENT_TYPE.as_str()).map_or(&b""[..], |kind| kind.as_bytes());
        let is_stream = path.starts_with("/si/v1/rm/") && path.ends_with("/stream");
        match kind {
            b"application/x-ndjson" if is_stream => Last::Line(Framing::Lines, *b"\n\n"),
            b"text/event-stream" if is_stream => Last::Line(Framing::Sse, *b"\n\n"),
            _ => Last::No,
        }
    }

    /// For a WebSocket.
    pub fn socket() -> Last {
        Last::Frame(Vec::new(), 0)
    }

    /// This was passed on.
    fn passed(&mut self, piece: &[u8]) {
        match self {
            Last::No => {}
            Last::Line(_, end) => {
                for byte in &piece[piece.len().saturating_sub(2)..] {
                    *end = [end[1], *byte];
                }
            }
            Last::Frame(head, left) => {
                let mut rest = piece;
                loop {
                    let of_frame = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= of_frame as u64;
                    rest = &rest[of_frame..];
                    let Some((byte, more)) = rest.split_first() else { return };
                    rest = more;
                    head.push(*byte);
                    let Some(length) = head.get(1).map(|second| second & 0x7f) else { continue };
                    let long = match length {
                        126 => 2,
                        127 => 8,
                        _ => 0,
                    };
                    if head.len() == 2 + long {
                        let told = head[2..].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                        *left = if long == 0 { length.into() } else { told };
                        head.clear();
                    }
                }
            }
        }
    }

    /// The last word, where one can be said here.
    fn word(&self, closing: &Closing) -> Option<Bytes> {
        let mut word = Vec::new();
        match self {
            Last::Line(framing, end) if end[1] == b'\n' && (*framing == Framing::Lines || end[0] == b'\n') => {
                framing.closing(closing, &mut word);
            }
            Last::Frame(head, 0) if head.is_empty() => {
                // A frame of control holds 125 bytes, two of which are the code.
                let detail = &closing.detail[..closing.detail.floor_char_boundary(123)];
                word.extend([0x88, u8::try_from(2 + detail.len()).unwrap_or(2)]);
                word.extend((4000 + closing.kind.status()).to_be_bytes());
                word.extend(detail.as_bytes());
            }
            _ => return None,
        }
        Some(word.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closing() -> Closing {
        Closing { kind: ClosingKind::Moved, detail: "gone".into(), leader: None }
    }

    #[test]
    fn a_last_word_comes_where_a_line_ends() {
        let word = |framing, passed: &[&[u8]]| {
            let mut last = Last::Line(framing, *b"\n\n");
            passed.iter().for_each(|piece| last.passed(piece));
            last.word(&closing()).map(|word| String::from_utf8(word.to_vec()).unwrap())
        };
        let line = r#"{"closing":{"status":307,"detail":"gone"}}"#;
        assert_eq!(word(Framing::Lines, &[]), Some(format!("{line}\n")));
        assert_eq!(word(Framing::Lines, &[b"{}\n", b"{", b"}\n"]), Some(format!("{line}\n")));
        assert_eq!(word(Framing::Lines, &[b"{}\n{"]), None);
        assert_eq!(word(Framing::Sse, &[b"id: 1\ndata: {}\n\n"]), Some(format!("event: closing\ndata: {line}\n\n")));
        assert_eq!(word(Framing::Sse, &[b"id: 1\n"]), None, "it would be the event's");
    }

    #[test]
    fn a_socket_is_closed_between_two_frames() {
        let mut long = vec![0x81, 126, 1, 0];
        long.extend([b'x'; 256]);
        let all = [&[0x89, 0][..], &[0x81, 2, b'{', b'}'], &long].concat();
        let ends = [2, 6, all.len()];
        let mut last = Last::socket();
        for (at, byte) in all.iter().enumerate() {
            last.passed(&[*byte]);
            assert_eq!(last.word(&closing()).is_some(), ends.contains(&(at + 1)), "{at}");
        }
        let mut at_once = Last::socket();
        at_once.passed(&all);
        assert_eq!(at_once.word(&closing()).unwrap(), &b"\x88\x06\x10\xd3gone"[..]);
    }
}
