//! How messages arrive: none is larger than allowed, one that has begun comes in time, all that have begun have a bound together, and nothing is kept for what has not come,
//! since whoever decodes a message reserves its whole length as soon as it begins. What comes between two messages, or how long
//! nothing does, is the stream's business.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::{
    Status,
    body::Body,
    codegen::{Service, http},
    server::NamedService,
};
use tower_layer::Layer;

use super::guard;
use crate::messages::{limits::Limits, underway::Coming};

/// A message that has begun and has not come whole by then ends its stream.
const WHOLE: Duration = Duration::from_secs(60);
/// As does one of which nothing comes for so long.
const SILENCE: Duration = Duration::from_secs(10);

/// The services behind it get what arrives within the limits. It is known by then who sends it.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// How large a message may be.
    pub limits: Arc<Limits>,
}

impl<S> Layer<S> for Arrivals {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched { inner, limits: self.limits.clone() }
    }
}

/// See [`Arrivals`].
#[derive(Clone, Debug)]
pub struct Watched<S> {
    inner: S,
    limits: Arc<Limits>,
}

impl<S: NamedService> NamedService for Watched<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for Watched<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        let limits = self.limits.clone();
        let coming = limits.underway.begin(guard::key(request.extensions()));
        self.inner.call(request.map(|body| Body::new(Arrival::new(body, limits, coming))))
    }
}

/// Where in a stream of messages, each behind five bytes: one about compression, and its length in four.
#[derive(Debug, Default)]
struct Place {
    head: [u8; 5],
    /// Bytes of the head that are there.
    known: usize,
    /// Bytes of the message that are still to come.
    left: usize,
}

impl Place {
    /// Goes on over these bytes; gives how many of them end with a whole message, or the length of one that is larger than `most`.
    fn pass(&mut self, mut bytes: &[u8], most: usize) -> Result<usize, usize> {
        let (all, mut whole) = (bytes.len(), 0);
        while !bytes.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(bytes.len());
                self.left -= passed;
                bytes.advance(passed);
            } else {
                self.head[self.known] = bytes.get_u8();
                self.known += 1;
            }
            if self.known == self.head.len() {
                let [_, length @ ..] = self.head;
                self.known = 0;
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                if self.left > most {
                    return Err(self.left);
                }
            }
            if !self.within() {
                whole = all - bytes.len();
            }
        }
        Ok(whole)
    }

    /// A message has begun, and is not whole.
    fn within(&self) -> bool {
        self.known > 0 || self.left > 0
    }
}

struct Arrival {
    body: Body,
    limits: Arc<Limits>,
    place: Place,
    /// What has come of a message that is not whole.
    held: BytesMut,
    /// Counts it among all that is under way.
    coming: Coming,
    ended: bool,
    /// While a message is on its way: when it has to be there, and what waits for it or for the next sign of life.
    late: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Arrival {
    fn new(body: Body, limits: Arc<Limits>, coming: Coming) -> Arrival {
        Arrival { body, limits, place: Place::default(), held: BytesMut::new(), coming, ended: false, late: None }
    }

    /// What of these bytes, and of those that are held, is whole by now.
    fn take(&mut self, bytes: Bytes) -> Result<Option<Bytes>, Status> {
        let most = self.limits.body();
        let whole = self.place.pass(&bytes, most).map_err(|length| too_large(length, most))?;
        let now = Instant::now();
        self.late = self.place.within().then(|| {
            let end = self.late.as_ref().filter(|_| whole == 0).map_or(now + WHOLE, |(end, _)| *end);
            (end, Box::pin(sleep_until(end.min(now + SILENCE))))
        });
        if self.held.is_empty() && whole == bytes.len() {
            return Ok(Some(bytes));
        }
        let ready = self.held.len() + whole;
        if whole > 0 {
            self.coming.keep(0);
        }
        // What is handed on now is not under way any more.
        let kept = if whole > 0 { bytes.len() - whole } else { bytes.len() };
        self.coming.more(kept, most).map_err(|why| Status::resource_exhausted(why.to_string()))?;
        self.held.extend_from_slice(&bytes);
        Ok((whole > 0).then(|| self.held.split_to(ready).freeze()))
    }
}

impl HttpBody for Arrival {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if self.ended {
                // Whoever decodes it says what is missing.
                let rest = std::mem::take(&mut self.held).freeze();
                self.coming.keep(0);
                return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                let late = self.late.as_mut().is_some_and(|(_, late)| late.as_mut().poll(context).is_ready());
                return if late { Poll::Ready(Some(Err(too_slow()))) } else { Poll::Pending };
            };
            let Some(frame) = frame.transpose()? else {
                self.ended = true;
                continue;
            };
            match frame.into_data() {
                Ok(bytes) => {
                    if let Some(whole) = self.take(bytes)? {
                        return Poll::Ready(Some(Ok(Frame::data(whole))));
                    }
                }
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && (self.ended || self.body.is_end_stream())
    }
}

fn too_large(length: usize, most: usize) -> Status {
    Status::resource_exhausted(format!(
        "the message has {length} bytes, more than {most}: send several smaller requests, or raise http.maxBodyBytes"
    ))
}

fn too_slow() -> Status {
    Status::deadline_exceeded(format!(
        "the message did not come in time: {} s may pass without any of it, and {} s until all of it is there",
        SILENCE.as_secs(),
        WHOLE.as_secs()
    ))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use tonic::Code;

    use super::*;

    /// Frames of these bytes, each after a pause in seconds.
    fn arrival(frames: &[(u64, &'static [u8])]) -> Arrival {
        let frames = stream::iter(frames.to_vec()).then(|(pause, bytes)| async move {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            Ok::<_, Status>(Frame::data(Bytes::from_static(bytes)))
        });
        let limits = Arc::new(Limits::default());
        limits.start(100, 1);
        let body = Body::new(StreamBody::new(Box::pin(frames)));
        let coming = limits.underway.begin("somebody".into());
        Arrival::new(body, limits, coming)
    }

    /// Bytes that arrived, and how it ended.
    async fn read(mut arrival: Arrival) -> (usize, Option<Code>) {
        let mut bytes = 0;
        loop {
            match poll_fn(|context| Pin::new(&mut arrival).poll_frame(context)).await {
                Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len),
                Some(Err(status)) => return (bytes, Some(status.code())),
                None => return (bytes, None),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_bounded_wherever_its_head_is_cut() {
        let two = b"\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\0\x01c";
        assert_eq!(read(arrival(&[(0, two)])).await, (18, None));
        let bytes: Vec<(u64, &'static [u8])> = (0..two.len()).map(|at| (0, &two[at..=at])).collect();
        assert_eq!(read(arrival(&bytes)).await, (18, None));
        assert_eq!(read(arrival(&[(0, b"\0\0\0\0\x64"), (0, &[7; 100])])).await, (105, None));
        assert_eq!(read(arrival(&[(0, b"\0\0\0"), (0, b"\0\x65")])).await, (0, Some(Code::ResourceExhausted)));
        assert_eq!(
            read(arrival(&[(0, two), (0, b"\0\0\0\0\x02a")])).await,
            (18 + 6, None),
            "what is missing is told elsewhere"
        );
        assert_eq!(read(arrival(&[(0, b"\0\xff\xff\xff\xff")])).await, (0, Some(Code::ResourceExhausted)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_has_begun_comes_in_time_and_the_next_may_take_its_time() {
        assert_eq!(read(arrival(&[(0, b"\0\0\0\0\x02"), (9, b"ab"), (9_000, b"\0\0\0\0\x01c")])).await, (13, None));
        assert_eq!(read(arrival(&[(0, b"\0\0"), (11, b"\0\0\0")])).await, (0, Some(Code::DeadlineExceeded)));
        let drops: Vec<(u64, &'static [u8])> =
            std::iter::once((0, &b"\0\0\0\0\x64"[..])).chain([(9, &b"x"[..]); 50]).collect();
        assert_eq!(read(arrival(&drops)).await, (0, Some(Code::DeadlineExceeded)));
    }
}
