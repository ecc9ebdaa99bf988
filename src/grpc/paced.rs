//! What arrives over a connection, handed on frame by frame where it belongs to different streams (RFC 9113, section 4.1): what
//! came over one stream is taken before anything of another is looked at. HTTP/2 libraries give each stream a queue of its
//! own, and tell no order between these.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, BytesMut};
use futures::task::AtomicWaker;
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Sleep, sleep},
};

/// What a client says before its first frame.
const PREFACE: usize = 24;
/// Head of a frame.
const HEAD: usize = 9;
/// Kinds of frames that requests are made of.
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// A frame waits at most so long for what came before it: less than a peer has to answer a ping, which waits too.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests of a connection that have arrived and are not handed in.
#[derive(Debug, Default)]
pub struct Arrived {
    busy: AtomicUsize,
    reader: AtomicWaker,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Busy(Arc<Arrived>);

impl Arrived {
    /// One more.
    pub fn busy(self: &Arc<Arrived>) -> Busy {
        self.busy.fetch_add(1, SeqCst);
        Busy(self.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.busy.fetch_sub(1, SeqCst) == 1 {
            self.0.reader.wake();
        }
    }
}

/// Where in the frames of a connection, and what of it is held back.
#[derive(Debug)]
pub struct Paced {
    /// Bytes until the next head of a frame.
    left: usize,
    head: [u8; HEAD],
    /// Bytes of the head that are there.
    known: usize,
    /// Stream of the last frame that was handed on.
    stream: u32,
    held: BytesMut,
    /// The next frame is of another stream.
    pause: Pause,
    arrived: Arc<Arrived>,
}

#[derive(Debug)]
enum Pause {
    No,
    /// Whoever was woken by the last frame comes first.
    Turn,
    /// What arrived before is being handed in.
    Busy(Pin<Box<Sleep>>),
}

impl Paced {
    /// Paces a connection of which nothing has arrived yet.
    pub fn new(arrived: Arc<Arrived>) -> Paced {
        let (held, pause) = (BytesMut::new(), Pause::No);
        Paced { left: PREFACE, head: [0; HEAD], known: 0, stream: 0, held, pause, arrived }
    }

    /// How many of these bytes may be handed on at once: up to the first frame of another stream than that of the last one.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            if self.left > 0 {
                let passed = self.left.min(bytes.len() - at);
                self.left -= passed;
                at += passed;
                continue;
            }
            self.head[self.known] = bytes[at];
            self.known += 1;
            at += 1;
            if self.known < HEAD {
                continue;
            }
            self.known = 0;
            let [a, b, c, kind, _, stream @ ..] = self.head;
            self.left = u32::from_be_bytes([0, a, b, c]) as usize;
            let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
            if (kind == DATA || kind == HEADERS) && stream != self.stream {
                let other = std::mem::replace(&mut self.stream, stream) != 0;
                if other {
                    // What is here of its head is handed on with the rest of it.
                    let head = at.min(HEAD);
                    self.left += head;
                    self.pause = Pause::Turn;
                    return at - head;
                }
            }
        }
        at
    }

    /// Waits until everything that was handed on was taken by whom it is for.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Pause::Turn = self.pause {
            // The runtime has one thread, whose tasks run in the order in which they were woken.
            self.pause = Pause::Busy(Box::pin(sleep(PATIENCE)));
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Pause::Busy(patience) = &mut self.pause {
            // Registered before the look.
            self.arrived.reader.register(context.waker());
            if self.arrived.busy.load(SeqCst) > 0 && patience.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.pause = Pause::No;
        }
        Poll::Ready(())
    }

    /// Reads from the connection.
    pub fn poll_read(
        &mut self,
        io: Pin<&mut impl AsyncRead>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_pause(context));
        let before = buf.filled().len();
        if self.held.is_empty() {
            ready!(io.poll_read(context, buf))?;
            let came = buf.filled().len() - before;
            let passed = self.pass(&buf.filled()[before..]);
            self.held.extend_from_slice(&buf.filled()[before + passed..]);
            buf.set_filled(before + passed);
            if came == 0 || passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
        loop {
            // Nothing would stand for the end: what is held comes after the pause.
            ready!(self.poll_pause(context));
            let mut held = std::mem::take(&mut self.held);
            let most = held.len().min(buf.remaining());
            let passed = self.pass(&held[..most]);
            buf.put_slice(&held[..passed]);
            held.advance(passed);
            self.held = held;
            if passed > 0 || most == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin};

    use super::*;

    fn frame(kind: u8, stream: u32, length: usize) -> Vec<u8> {
        let mut frame = (length as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, 0]);
        frame.extend(stream.to_be_bytes());
        frame.extend(vec![stream as u8; length]);
        frame
    }

    /// What is handed on at a time, where so many bytes come at a time and so many are taken.
    async fn handed_on(bytes: &[u8], come: usize, taken: usize) -> Vec<Vec<u8>> {
        let mut paced = Paced::new(Arc::default());
        let mut parts = vec![Vec::new()];
        let mut builder = slowly(bytes, come);
        let mut pauses = 0;
        loop {
            let mut space = vec![0; taken];
            let mut buf = ReadBuf::new(&mut space);
            let mut io = pin!(&mut builder);
            let mut paused = false;
            poll_fn(|context| match paced.poll_read(io.as_mut(), context, &mut buf) {
                Poll::Pending => {
                    paused = true;
                    Poll::Pending
                }
                ready => ready,
            })
            .await
            .expect("no fault");
            if paused {
                pauses += 1;
                parts.push(Vec::new());
            }
            if buf.filled().is_empty() {
                break;
            }
            parts.last_mut().expect("one").extend_from_slice(buf.filled());
        }
        assert_eq!(pauses + 1, parts.len());
        parts
    }

    /// Gives so many bytes at a time.
    fn slowly(bytes: &[u8], come: usize) -> impl AsyncRead + Unpin + use<> {
        struct Slow(Vec<u8>, usize);
        impl AsyncRead for Slow {
            fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                let some = self.1.min(self.0.len()).min(buf.remaining());
                let rest = self.0.split_off(some);
                buf.put_slice(&self.0);
                self.0 = rest;
                Poll::Ready(Ok(()))
            }
        }
        Slow(bytes.to_vec(), come)
    }

    #[tokio::test]
    async fn frames_of_another_stream_come_after_a_pause_however_the_bytes_are_cut() {
        let frames = [
            vec![b'p'; PREFACE],
            frame(4, 0, 6),
            frame(HEADERS, 1, 5),
            frame(DATA, 1, 3),
            frame(DATA, 1, 0),
            frame(8, 3, 4),
            frame(DATA, 3, 300),
            frame(DATA, 1, 7),
        ];
        let all = frames.concat();
        let wanted = [frames[..6].concat(), frames[6].clone(), frames[7].clone()];
        for come in [1_000, 400, 50] {
            for taken in [1_000, 64] {
                let parts = handed_on(&all, come, taken).await;
                assert_eq!(parts.concat(), all, "{come} {taken}");
                assert_eq!(parts.len(), wanted.len(), "{come} {taken}");
            }
        }
        let parts = handed_on(&all, 1_000, 1_000).await;
        assert_eq!(parts, wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_frame_waits_for_what_arrived_before_it_within_bounds() {
        let all = [vec![b'p'; PREFACE], frame(DATA, 1, 5), frame(DATA, 3, 5)].concat();
        let arrived = Arc::<Arrived>::default();
        let read = |arrived: &Arc<Arrived>| {
            let (arrived, all) = (arrived.clone(), all.clone());
            tokio::spawn(async move {
                let (mut paced, mut io) = (Paced::new(arrived), slowly(&all, 1_000));
                let begun = tokio::time::Instant::now();
                let mut read = Vec::new();
                for _ in 0..2 {
                    let mut space = [0; 100];
                    let mut buf = ReadBuf::new(&mut space);
                    poll_fn(|context| paced.poll_read(Pin::new(&mut io), context, &mut buf)).await.expect("no fault");
                    read.push((begun.elapsed(), buf.filled().len()));
                }
                read
            })
        };
        let busy = arrived.busy();
        let reading = read(&arrived);
        tokio::time::sleep(Duration::from_secs(3)).await;
        drop(busy);
        let [first, second] = reading.await.expect("no panic")[..] else { panic!("two parts") };
        assert_eq!((first.1, second.1), (PREFACE + HEAD + 5, HEAD + 5));
        assert_eq!((first.0, second.0), (Duration::ZERO, Duration::from_secs(3)));
        let _busy = arrived.busy();
        assert_eq!(read(&arrived).await.expect("no panic")[1].0, PATIENCE);
    }

    #[tokio::test]
    async fn nothing_is_lost_byte_by_byte() {
        let all = [vec![b'p'; PREFACE], frame(HEADERS, 1, 5), frame(DATA, 3, 9), frame(DATA, 5, 1)].concat();
        for (come, taken) in [(1, 1), (1, 100), (100, 1), (7, 5)] {
            assert_eq!(handed_on(&all, come, taken).await.concat(), all, "{come} {taken}");
        }
    }
}
