//! How fast a connection is read. What stands behind a request is left where it is until that is answered: requests that are sent
//! without waiting are parsed as they are read, and each takes kilobytes until its turn comes, so that one connection could take as
//! many as its caller likes to send; and what reads them tries again without a pause where it has room for no more.
//!
//! Between requests a connection is read in pieces, as nobody knows where a request ends before it has been parsed; then as much as
//! its body is long.

use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use actix_web::{
    HttpMessage as _,
    body::{BodySize, MessageBody},
    dev::{Payload, ServiceRequest, ServiceResponse},
    error::PayloadError,
    http::{StatusCode, header},
};
use bytes::Bytes;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most that is read where nobody knows what it is: more than a request that a program sends, or forty that are as short as can be.
const PIECE: usize = 1 << 10;
/// Most that is read at a time of a body.
const AT_ONCE: usize = 4 << 10;

/// How much of a connection may be read.
pub struct Pace {
    /// So many bytes.
    left: Cell<usize>,
    /// Then so many, when what was read has been looked at.
    then: Cell<usize>,
    /// Number of the request that is under way, or that comes.
    request: Cell<u64>,
    /// Who would read more.
    waits: RefCell<Option<Waker>>,
}

impl Pace {
    fn set(&self, left: usize, then: usize) {
        self.left.set(left);
        self.then.set(then);
        if let Some(waits) = self.waits.take() {
            waits.wake();
        }
    }

    fn took(&self, bytes: usize) {
        self.left.set(self.left.get().saturating_sub(bytes));
    }
}

/// A connection of HTTP/1.1, read at its pace.
pub struct Paced<S> {
    io: S,
    pace: Rc<Pace>,
    /// Read to see whether the peer is there still.
    ahead: Vec<u8>,
}

impl<S> Paced<S> {
    /// Of this stream.
    pub fn new(io: S) -> Paced<S> {
        let pace = Pace { left: PIECE.into(), then: PIECE.into(), request: 0.into(), waits: RefCell::default() };
        Paced { io, pace: Rc::new(pace), ahead: Vec::new() }
    }

    /// The stream.
    pub fn get_ref(&self) -> &S {
        &self.io
    }

    /// For [`UnderWay`], among the data of the connection.
    pub fn pace(&self) -> Rc<Pace> {
        self.pace.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Paced { io, pace, ahead } = self.get_mut();
        if pace.left.get() == 0 {
            if pace.then.get() > 0 {
                pace.left.set(pace.then.get());
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            pace.waits.replace(Some(context.waker().clone()));
            if ahead.is_empty() {
                let mut space = [0; PIECE];
                let mut some = ReadBuf::new(&mut space);
                ready!(Pin::new(io).poll_read(context, &mut some))?;
                if some.filled().is_empty() {
                    return Poll::Ready(Ok(()));
                }
                ahead.extend_from_slice(some.filled());
            }
            return Poll::Pending;
        }
        let most = pace.left.get().min(into.remaining());
        if !ahead.is_empty() {
            let some = ahead.drain(..most.min(ahead.len()));
            pace.took(some.len());
            into.put_slice(some.as_slice());
        } else if most == into.remaining() {
            let before = into.filled().len();
            ready!(Pin::new(io).poll_read(context, into))?;
            pace.took(into.filled().len() - before);
        } else {
            let mut space = [MaybeUninit::uninit(); AT_ONCE];
            let mut some = ReadBuf::uninit(&mut space[..most.min(AT_ONCE)]);
            ready!(Pin::new(io).poll_read(context, &mut some))?;
            pace.took(some.filled().len());
            into.put_slice(some.filled());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// A request that is being answered: beside its body nothing is read.
pub struct UnderWay {
    pace: Rc<Pace>,
    request: u64,
}

impl UnderWay {
    /// It begins. `None` where its connection has no pace.
    pub fn begin(request: &mut ServiceRequest) -> Option<UnderWay> {
        let pace = request.conn_data::<Rc<Pace>>()?.clone();
        let number = pace.request.get() + 1;
        pace.request.set(number);
        if request.headers().contains_key(header::TRANSFER_ENCODING) {
            // Only who reads it knows its end.
            pace.set(PIECE, PIECE);
            let payload = Body { payload: request.take_payload(), pace: pace.clone(), request: number };
            request.set_payload(Payload::Stream { payload: Box::pin(payload) });
        } else {
            // What cannot be read as a length is refused before.
            let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
            pace.set(length.and_then(|length| length.parse().ok()).unwrap_or(0), 0);
        }
        Some(UnderWay { pace, request: number })
    }

    /// It is answered when this has been sent. What follows on a connection of WebSocket is no request.
    pub fn answered<B>(this: Option<UnderWay>, answer: ServiceResponse<B>) -> ServiceResponse<Answer<B>> {
        let goes_over = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        let under_way = this.and_then(|under_way| {
            if !goes_over {
                return Some(under_way);
            }
            let pace = under_way.pace.clone();
            drop(under_way);
            pace.set(usize::MAX, 0);
            None
        });
        answer.map_body(|_, body| Answer { body, _under_way: under_way })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.pace.request.get() == self.request {
            self.pace.request.set(self.request + 1);
            self.pace.set(PIECE, PIECE);
        }
    }
}

/// The body of an answer to a request that is under way as long.
pub struct Answer<B> {
    body: B,
    _under_way: Option<UnderWay>,
}

impl<B: MessageBody + Unpin> MessageBody for Answer<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, B::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }

    fn try_into_bytes(self) -> Result<Bytes, Self> {
        let Answer { body, _under_way } = self;
        body.try_into_bytes().map_err(|body| Answer { body, _under_way })
    }
}

/// A body in chunks: when it has been read to its end, or nobody reads it, nothing more is read before the answer.
struct Body {
    payload: Payload,
    pace: Rc<Pace>,
    /// 0 once it has been read: no request has that number.
    request: u64,
}

impl Body {
    fn is_under_way(&self) -> bool {
        self.pace.request.get() == self.request
    }

    fn end(&self) {
        if self.is_under_way() {
            self.pace.set(0, 0);
        }
    }
}

impl Stream for Body {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_under_way() {
            self.pace.then.set(AT_ONCE);
        }
        let next = ready!(Pin::new(&mut self.payload).poll_next(context));
        if next.is_none() {
            self.end();
            self.request = 0;
        }
        Poll::Ready(next)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.end();
    }
}
