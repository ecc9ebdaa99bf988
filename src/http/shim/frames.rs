//! Messages out of the frames of a WebSocket (RFC 6455). A frame is refused at its head, where that announces more than is taken:
//! nothing is kept for what has not come, nor of a message but its content.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_web::web::{Buf as _, Bytes, BytesMut};
use actix_ws::{CloseCode, CloseReason};
use futures::Stream;

use super::body::Unread;
use crate::messages::underway::{Coming, Crowded};

/// Bytes of a head at most: two, the length, the mask.
const HEAD: usize = 14;
/// Content of a frame of control at most.
const CONTROL: usize = 125;

/// What came whole.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// A request or an answer, as text or as bytes.
    Content(Bytes),
    /// Is answered with the same content.
    Ping(Bytes),
    /// Answers one of ours.
    Pong(Bytes),
    /// Nothing comes after it.
    Close,
}

/// Why nothing more is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A message is larger than is taken.
    #[error(transparent)]
    Large(Unread),
    /// There is no room for what has come of it.
    #[error(transparent)]
    Crowded(#[from] Crowded),
    /// A text is none.
    #[error("a text message is not UTF-8")]
    NoText,
    /// The protocol has no such frame, or not there.
    #[error("{0}")]
    Protocol(&'static str),
    /// The connection broke off.
    #[error("{0}")]
    Broken(String),
}

impl Refused {
    /// What the other side is told, where it is there.
    pub fn reason(&self) -> Option<CloseReason> {
        let code = match self {
            Refused::Large(_) => CloseCode::Size,
            Refused::Crowded(_) => CloseCode::Again,
            Refused::NoText => CloseCode::Invalid,
            Refused::Protocol(_) => CloseCode::Protocol,
            Refused::Broken(_) => return None,
        };
        Some(CloseReason { code, description: Some(self.to_string()) })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Binary,
    Ping,
    Pong,
    Close,
}

/// A frame whose head was read.
struct Frame {
    kind: Kind,
    last: bool,
    /// Bytes that are to come.
    left: usize,
    /// As it goes on.
    mask: [u8; 4],
}

/// See the module. `most` says how large a message may be at the moment.
pub struct Frames<P, M> {
    pieces: P,
    most: M,
    /// What is kept of a message that is not whole.
    coming: Option<Coming>,
    /// What came and was not looked at.
    piece: Bytes,
    head: Vec<u8>,
    frame: Option<Frame>,
    /// A message of which not all frames are there.
    begun: Option<Kind>,
    content: BytesMut,
    control: BytesMut,
}

impl<P, M: Fn() -> usize> Frames<P, M> {
    /// Of what comes in these pieces.
    pub fn new(pieces: P, most: M, coming: Option<Coming>) -> Frames<P, M> {
        Frames {
            pieces,
            most,
            coming,
            piece: Bytes::new(),
            head: Vec::with_capacity(HEAD),
            frame: None,
            begun: None,
            content: BytesMut::new(),
            control: BytesMut::new(),
        }
    }

    /// Looks at what came until a message is whole or nothing is left.
    fn advance(&mut self) -> Result<Option<Message>, Refused> {
        loop {
            let Some(frame) = &mut self.frame else {
                let Some(frame) = self.head()? else { return Ok(None) };
                self.frame = Some(frame);
                continue;
            };
            let part = self.piece.split_to(self.piece.len().min(frame.left));
            frame.left -= part.len();
            if let (Some(coming), Kind::Text | Kind::Binary) = (&mut self.coming, frame.kind) {
                coming.more(part.len(), (self.most)())?;
            }
            let to = match frame.kind {
                Kind::Text | Kind::Binary => &mut self.content,
                Kind::Ping | Kind::Pong | Kind::Close => &mut self.control,
            };
            let from = to.len();
            to.extend_from_slice(&part);
            for four in to[from..].chunks_mut(4) {
                four.iter_mut().zip(frame.mask).for_each(|(byte, mask)| *byte ^= mask);
            }
            frame.mask.rotate_left(part.len() % 4);
            if frame.left > 0 {
                return Ok(None);
            }
            let (kind, last) = (frame.kind, frame.last);
            self.frame = None;
            match kind {
                Kind::Ping => return Ok(Some(Message::Ping(self.control.split().freeze()))),
                Kind::Pong => return Ok(Some(Message::Pong(self.control.split().freeze()))),
                Kind::Close => return Ok(Some(Message::Close)),
                Kind::Text | Kind::Binary if !last => {}
                Kind::Text | Kind::Binary => {
                    // Taken as it is: what is left of a large one would be kept for small ones.
                    let content = std::mem::take(&mut self.content).freeze();
                    if let Some(coming) = &mut self.coming {
                        coming.keep(0);
                    }
                    if kind == Kind::Text && std::str::from_utf8(&content).is_err() {
                        return Err(Refused::NoText);
                    }
                    return Ok(Some(Message::Content(content)));
                }
            }
        }
    }

    /// The head of the next frame, as soon as it is whole.
    fn head(&mut self) -> Result<Option<Frame>, Refused> {
        loop {
            let more = match *self.head.as_slice() {
                [] | [_] => 2,
                [first, second, ..] => {
                    let length = match second & 0x7f {
                        126 => 2,
                        127 => 8,
                        _ => 0,
                    };
                    if self.head.len() >= 2 + length {
                        let announced = match self.head[2..2 + length] {
                            [] => u64::from(second & 0x7f),
                            ref bytes => bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
                        };
                        let frame = self.judge(first, second, announced)?;
                        if let [a, b, c, d] = self.head[2 + length..] {
                            self.head.clear();
                            if matches!(frame.kind, Kind::Text | Kind::Binary) {
                                self.begun = (!frame.last).then_some(frame.kind);
                            }
                            return Ok(Some(Frame { mask: [a, b, c, d], ..frame }));
                        }
                        2 + length + 4
                    } else {
                        2 + length
                    }
                }
            };
            let missing = (more - self.head.len()).min(self.piece.len());
            if missing == 0 {
                return Ok(None);
            }
            self.head.extend_from_slice(&self.piece[..missing]);
            self.piece.advance(missing);
        }
    }

    /// Whether a frame may follow, by what its head says but for the mask.
    fn judge(&self, first: u8, second: u8, announced: u64) -> Result<Frame, Refused> {
        let wrong = |what| Err(Refused::Protocol(what));
        let last = first & 0x80 != 0;
        if first & 0x70 != 0 {
            return wrong("a frame has reserved bits set, and no extension was agreed on");
        }
        if second & 0x80 == 0 {
            return wrong("a frame of a client is not masked");
        }
        let kind = match (first & 0x0f, self.begun) {
            (0, Some(begun)) => begun,
            (0, None) => return wrong("a frame goes on with a message where none has begun"),
            (1 | 2, Some(_)) => return wrong("a message begins before the last frame of another"),
            (1, None) => Kind::Text,
            (2, None) => Kind::Binary,
            (8, _) => Kind::Close,
            (9, _) => Kind::Ping,
            (10, _) => Kind::Pong,
            _ => return wrong("a frame has an unknown opcode"),
        };
        let left = usize::try_from(announced).unwrap_or(usize::MAX);
        if matches!(kind, Kind::Text | Kind::Binary) {
            let most = (self.most)();
            if self.content.len().saturating_add(left) > most {
                return Err(Refused::Large(Unread::Large(most)));
            }
        } else if !last || left > CONTROL {
            return wrong("a frame of control is more than 125 bytes, or not whole");
        }
        Ok(Frame { kind, last, left, mask: [0; 4] })
    }
}

impl<P, M, E> Stream for Frames<P, M>
where
    P: Stream<Item = Result<Bytes, E>> + Unpin,
    M: Fn() -> usize + Unpin,
    E: std::fmt::Display,
{
    type Item = Result<Message, Refused>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(message) = this.advance().transpose() {
                return Poll::Ready(Some(message));
            }
            match ready!(Pin::new(&mut this.pieces).poll_next(cx)) {
                Some(Ok(piece)) => this.piece = piece,
                Some(Err(error)) => return Poll::Ready(Some(Err(Refused::Broken(error.to_string())))),
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt as _, executor::block_on_stream, stream};

    use super::*;

    const MOST: usize = 300;
    const FIN: u8 = 0x80;
    const MASK: [u8; 4] = [1, 2, 3, 4];

    fn head(first: u8, length: u64) -> Vec<u8> {
        let mut head = vec![first];
        match length {
            0..126 => head.push(0x80 | length as u8),
            126..0x1_0000 => {
                head.push(0x80 | 126);
                head.extend((length as u16).to_be_bytes());
            }
            _ => {
                head.push(0x80 | 127);
                head.extend(length.to_be_bytes());
            }
        }
        head
    }

    fn frame(first: u8, content: &[u8]) -> Vec<u8> {
        let masked = content.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        head(first, content.len() as u64).into_iter().chain(MASK).chain(masked).collect()
    }

    /// What comes of these bytes, in pieces of this size; the last of it where it is refused.
    fn read(bytes: &[u8], size: usize) -> Vec<Result<Message, Refused>> {
        let pieces: Vec<_> =
            bytes.chunks(size).map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece))).collect();
        let mut over = false;
        let frames = Frames::new(stream::iter(pieces), || MOST, None).take_while(|message| {
            let before = std::mem::replace(&mut over, message.is_err());
            std::future::ready(!before)
        });
        block_on_stream(frames).collect()
    }

    fn content(text: &str) -> Result<Message, Refused> {
        Ok(Message::Content(Bytes::copy_from_slice(text.as_bytes())))
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let long = "x".repeat(200);
        let sent = [
            frame(FIN | 1, "{}".as_bytes()),
            frame(2, "ab".as_bytes()),
            frame(FIN | 9, "ping".as_bytes()),
            frame(0, b""),
            frame(0, "\u{fc}".as_bytes()),
            frame(FIN, "cde".as_bytes()),
            frame(FIN | 1, long.as_bytes()),
            frame(1, &"\u{fc}".as_bytes()[..1]),
            frame(FIN, &"\u{fc}".as_bytes()[1..]),
            frame(FIN | 10, b""),
            frame(FIN | 1, b""),
            frame(FIN | 8, b""),
        ]
        .concat();
        for size in [1, 2, 3, 5, 7, 64, sent.len()] {
            let expected = vec![
                content("{}"),
                Ok(Message::Ping(Bytes::from_static(b"ping"))),
                content("ab\u{fc}cde"),
                content(&long),
                content("\u{fc}"),
                Ok(Message::Pong(Bytes::new())),
                content(""),
                Ok(Message::Close),
            ];
            assert_eq!(read(&sent, size), expected, "{size}");
        }
    }

    #[test]
    fn what_is_too_large_is_refused_at_its_head() {
        let large = Err(Refused::Large(Unread::Large(MOST)));
        for length in [MOST as u64 + 1, 1 << 20, 1 << 40, 1 << 63, u64::MAX] {
            assert_eq!(read(&head(FIN | 1, length), 1), std::slice::from_ref(&large), "{length}");
        }
        let most = "x".repeat(MOST);
        assert_eq!(read(&frame(FIN | 1, most.as_bytes()), 9), [content(&most)]);
        // All frames of a message together.
        let parts = [frame(2, most.as_bytes()), frame(FIN | 9, b"x"), frame(0, b""), head(0, 1)].concat();
        assert_eq!(read(&parts, 9), [Ok(Message::Ping(Bytes::from_static(b"x"))), large]);
    }

    #[test]
    fn each_fault_is_told_as_what_it_is() {
        let code = |bytes: &[u8]| match read(bytes, 1).pop() {
            Some(Err(refused)) => refused.reason().map(|reason| u16::from(reason.code)),
            other => panic!("{other:?}"),
        };
        assert_eq!(code(&frame(FIN | 1, b"\xff\xfe")), Some(1007));
        assert_eq!(code(&[frame(1, b"\xff"), frame(FIN, b"\xfe")].concat()), Some(1007));
        assert_eq!(read(&frame(FIN | 2, b"\xff"), 1), [Ok(Message::Content(Bytes::from_static(b"\xff")))]);
        for wrong in [
            frame(FIN | 0x40 | 1, b"{}"),
            frame(FIN | 3, b"{}"),
            frame(FIN, b"{}"),
            frame(9, b"x"),
            frame(FIN | 9, &[b'x'; 126]),
            [frame(1, b"x"), frame(FIN | 1, b"x")].concat(),
            vec![FIN | 1, 2, b'{', b'}'],
        ] {
            assert_eq!(code(&wrong), Some(1002), "{wrong:?}");
        }
        assert_eq!(code(&head(FIN | 1, 301)), Some(1009));
        assert_eq!(Refused::Broken(String::new()).reason(), None);
    }
}
