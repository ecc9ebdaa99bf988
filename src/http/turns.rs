//! Who takes a long answer as fast as it comes shares its worker with others: after some bytes they have their turn. Many such
//! answers go on one after the other, and between two of them all else that the worker has to do: with 50 streams of events a
//! request does not wait for a piece of each. And who takes nothing of a long text loses it, with the connection: nothing else
//! lets go of either before the system does.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    os::fd::{AsRawFd as _, RawFd},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use actix_web::{
    body::{BodySize, MessageBody},
    rt::{self, net::TcpStream},
};
use bytes::Bytes;
use nix::sys::socket::{Shutdown, shutdown};
use tokio::{
    task::{JoinHandle, coop::consume_budget, yield_now},
    time::{Instant, sleep_until},
};

use super::{untaken::Held, ws_v1::spool::STALLED};

/// So many bytes are a turn: what a socket takes in some ten microseconds.
const TURN: usize = 64 << 10;

/// What a request, a message of a WebSocket and a piece of a body cost of the 128 that a task may spend before others have their
/// turn. A socket counts too, but brings thousands at a time.
pub const REQUEST: usize = 8;
/// See [`REQUEST`].
pub const MESSAGE: usize = 4;
/// See [`REQUEST`].
pub const PIECE: usize = 1;

/// Lets others have their turn where this task has had so many that its own is over.
pub async fn give_way(cost: usize) {
    for _ in 0..cost {
        consume_budget().await;
    }
}

thread_local! {
    /// Those of this worker.
    static QUEUE: RefCell<Queue> = RefCell::default();
}

/// Answers that have had their turn, in the order in which they go on.
#[derive(Default)]
struct Queue {
    /// The place of the first of those that wait.
    first: u64,
    waiting: VecDeque<Waker>,
    /// A task lets them go on.
    goes: bool,
}

impl Queue {
    /// A place behind all others.
    fn join(waker: Waker) -> u64 {
        QUEUE.with_borrow_mut(|queue| {
            queue.waiting.push_back(waker);
            if !queue.goes {
                queue.goes = true;
                rt::spawn(go_on(Ends));
            }
            queue.first + queue.waiting.len() as u64 - 1
        })
    }

    fn next() -> Option<Waker> {
        QUEUE.with_borrow_mut(|queue| {
            let next = queue.waiting.pop_front()?;
            queue.first += 1;
            Some(next)
        })
    }
}

/// Lets one after the other go on, each when all else that was ready has been done. It waits for none of them: a client that
/// takes nothing holds up nobody.
async fn go_on(_ends: Ends) {
    loop {
        yield_now().await;
        match Queue::next() {
            Some(next) => next.wake(),
            None => return,
        }
    }
}

/// Nobody lets them go on any more: none is left, or the worker ends.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        QUEUE.with_borrow_mut(|queue| queue.goes = false);
        while let Some(next) = Queue::next() {
            next.wake();
        }
    }
}

/// See the module. Without it a connection goes on for as long as its socket takes what there is.
pub struct InTurns<B> {
    /// Where pieces come from; `None`: all there is is left.
    body: Option<B>,
    /// What is left of a piece that is longer than a turn.
    left: Bytes,
    /// Bytes since the others had their turn.
    taken: usize,
    /// Its place among those that wait.
    place: Option<u64>,
    /// What goes with a long text.
    kept: Option<(Held, Watch)>,
}

impl<B> InTurns<B> {
    /// Of this answer.
    pub fn new(body: B) -> InTurns<B> {
        InTurns { body: Some(body), left: Bytes::new(), taken: 0, place: None, kept: None }
    }

    /// Of a short text.
    pub fn short(text: Bytes) -> InTurns<B> {
        InTurns { body: None, left: text, taken: 0, place: None, kept: None }
    }

    /// Of a long text. `end` is called where nothing of it is taken for a while.
    pub fn long(text: Bytes, held: Held, end: impl FnOnce() + 'static) -> InTurns<B> {
        InTurns { kept: Some((held, Watch::new(end))), ..InTurns::short(text) }
    }
}

/// A text of so many bytes is long: it is sent in several turns.
pub const fn is_long(bytes: u64) -> bool {
    bytes > TURN as u64
}

/// The socket of a connection, by its number. That is good as long as there is an answer, or a seat of a connection that nobody
/// has asked for anything long: a connection drops all of them together, and in one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection(RawFd);

impl Connection {
    /// Of this socket.
    pub fn of(stream: &TcpStream) -> Connection {
        Connection(stream.as_raw_fd())
    }

    /// Ends it. Who sends an answer on it meets an error, and drops it; no body of an answer could do that, as it is not asked for
    /// more while the socket takes nothing.
    pub fn end(self) {
        // One that has ended already is as good.
        let _ = shutdown(self.0, Shutdown::Both);
    }
}

/// Notices that a client takes nothing.
struct Watch {
    /// When something was taken last.
    taken: Rc<Cell<Instant>>,
    task: JoinHandle<()>,
}

impl Watch {
    fn new(end: impl FnOnce() + 'static) -> Watch {
        let taken = Rc::new(Cell::new(Instant::now()));
        let last = taken.clone();
        let task = rt::spawn(async move {
            loop {
                let seen = last.get();
                sleep_until(seen + STALLED).await;
                if last.get() == seen {
                    return end();
                }
            }
        });
        Watch { taken, task }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<B: MessageBody + Unpin> MessageBody for InTurns<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.as_ref().map_or(BodySize::Sized(self.left.len() as u64), MessageBody::size)
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, B::Error>>> {
        if self.taken >= TURN {
            let place = *self.place.get_or_insert_with(|| Queue::join(context.waker().clone()));
            if place >= QUEUE.with_borrow(|queue| queue.first) {
                return Poll::Pending;
            }
            (self.taken, self.place) = (0, None);
        }
        if self.left.is_empty() {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            match ready!(Pin::new(body).poll_next(context)) {
                Some(Ok(piece)) => self.left = piece,
                end => return Poll::Ready(end),
            }
        }
        if let Some((_, watch)) = &self.kept {
            watch.taken.set(Instant::now());
        }
        let turn = self.left.len().min(TURN);
        self.taken += turn;
        Poll::Ready(Some(Ok(self.left.split_to(turn))))
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::poll_fn, sync::Arc, time::Duration};

    use actix_web::body::BodyStream;
    use futures::{FutureExt as _, StreamExt as _, future::join_all, stream};
    use tokio::{
        io::AsyncReadExt as _,
        net::TcpListener,
        time::{advance, pause},
    };

    use super::*;
    use crate::http::untaken::Untaken;

    /// An answer that never ends, in pieces of so many bytes.
    fn endless(piece: usize) -> InTurns<impl MessageBody<Error = Infallible> + Unpin> {
        let pieces = stream::repeat(Bytes::from(vec![b'x'; piece]));
        InTurns::new(BodyStream::new(pieces.map(Ok::<_, Infallible>)))
    }

    async fn read<B: MessageBody<Error = Infallible> + Unpin>(body: &mut InTurns<B>) -> usize {
        poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await.unwrap().unwrap().len()
    }

    #[actix_web::test]
    async fn who_takes_all_at_once_lets_others_have_their_turn() {
        let mut body = endless(TURN / 4);
        // After the first turn one piece has been read when the next is counted.
        for pieces in [4, 3, 3] {
            let turn: Vec<usize> = std::iter::from_fn(|| read(&mut body).now_or_never()).collect();
            assert_eq!(turn, vec![TURN / 4; pieces]);
            // It is still not its turn, however often it is asked.
            assert_eq!(read(&mut body).now_or_never(), None);
            assert_eq!(read(&mut body).await, TURN / 4);
        }
    }

    #[actix_web::test]
    async fn a_long_piece_is_several_turns_and_none_of_it_is_lost() {
        let mut body = InTurns::new(Bytes::from((0..=255).cycle().take(3 * TURN + 7).collect::<Vec<u8>>()));
        assert_eq!(body.size(), BodySize::Sized(3 * TURN as u64 + 7));
        let mut whole = Vec::new();
        let mut lengths = Vec::new();
        while let Some(piece) = poll_fn(|context| Pin::new(&mut body).poll_next(context)).await {
            let piece = piece.unwrap();
            lengths.push(piece.len());
            whole.extend(piece);
        }
        assert_eq!(lengths, [TURN, TURN, TURN, 7]);
        assert!(whole.into_iter().eq((0..=255).cycle().take(3 * TURN + 7)));
    }

    #[actix_web::test]
    async fn between_two_of_many_long_answers_all_else_is_done() {
        let turns = Rc::new(RefCell::new(Vec::new()));
        let readers = (0..5).map(|reader| {
            let turns = turns.clone();
            rt::spawn(async move {
                let mut body = endless(TURN);
                for _ in 0..4 {
                    read(&mut body).await;
                    turns.borrow_mut().push(Some(reader));
                }
            })
        });
        let readers: Vec<_> = readers.collect();
        // Each has had the turn that it has at once.
        yield_now().await;
        assert_eq!(turns.take().len(), 5);
        let other = rt::spawn({
            let turns = turns.clone();
            async move {
                for _ in 0..15 {
                    turns.borrow_mut().push(None);
                    yield_now().await;
                }
            }
        });
        join_all(readers).await;
        other.await.unwrap();
        let turns = turns.take();
        let together = turns.chunk_by(|one, next| one.is_some() == next.is_some()).filter(|turns| turns[0].is_some());
        assert!(together.clone().all(|turns| turns.len() == 1), "{turns:?}");
        // One after the other.
        let order: Vec<u32> = turns.iter().flatten().copied().collect();
        assert_eq!(order, [0, 1, 2, 3, 4].repeat(3));
    }
    #[actix_web::test]
    async fn a_long_text_of_which_nothing_is_taken_for_a_while_ends_with_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (peer, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (mut peer, stream) = (peer.unwrap(), accepted.unwrap().0);
        let (untaken, connection) = (Arc::new(Untaken::new(1 << 30, 1 << 30)), Connection::of(&stream));
        let long = |end: Box<dyn FnOnce()>| {
            let text = Bytes::from(vec![b'x'; 9 * TURN]);
            let held = untaken.hold("caller", &text).unwrap();
            InTurns::<Bytes>::long(text, held, end)
        };
        pause();
        let steady = Rc::new(Cell::new(true));
        let (mut taken, mut stalled) = (
            long(Box::new({
                let steady = steady.clone();
                move || steady.set(false)
            })),
            long(Box::new(move || connection.end())),
        );
        assert_eq!((taken.size(), read(&mut stalled).await), (BodySize::Sized(9 * TURN as u64), TURN));
        for _ in 0..3 {
            // Whoever takes some of it now and then goes on.
            assert_eq!(read(&mut taken).await, TURN);
            advance(STALLED - Duration::from_secs(1)).await;
            yield_now().await;
        }
        assert!(steady.get());
        assert_eq!(peer.read(&mut [0]).await.unwrap(), 0, "the other one has lost its connection");
        assert!(stream.try_write(b"x").is_err());
        drop(taken);
        advance(2 * STALLED).await;
        yield_now().await;
        assert!(steady.get(), "what has been sent is not waited for");
    }
}
