//! Who takes a long answer as fast as it comes shares its worker with others: after some bytes they have their turn.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;

/// So many bytes are a turn: what a socket takes in some ten microseconds.
const TURN: usize = 64 << 10;

/// See the module. Without it a connection goes on for as long as its socket takes what there is.
pub struct InTurns<B> {
    body: B,
    /// Bytes since the others had their turn.
    taken: usize,
}

impl<B> InTurns<B> {
    /// Of this answer.
    pub fn new(body: B) -> InTurns<B> {
        InTurns { body, taken: 0 }
    }
}

impl<B: MessageBody + Unpin> MessageBody for InTurns<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, B::Error>>> {
        if self.taken >= TURN {
            self.taken = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = ready!(Pin::new(&mut self.body).poll_next(context));
        self.taken += piece.as_ref().map_or(0, |piece| piece.as_ref().map_or(0, Bytes::len));
        Poll::Ready(piece)
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::poll_fn};

    use actix_web::body::BodyStream;
    use futures::{FutureExt as _, StreamExt as _, stream};

    use super::*;

    #[tokio::test]
    async fn who_takes_all_at_once_lets_others_have_their_turn() {
        let pieces = stream::repeat(Bytes::from_static(&[b'x'; TURN / 4]));
        let endless = pieces.map(Ok::<_, Infallible>);
        let mut body = InTurns::new(BodyStream::new(endless));
        let mut read = || poll_fn(|context| Pin::new(&mut body).poll_next(context)).now_or_never().is_some();
        for _ in 0..3 {
            let turn: Vec<bool> = (0..5).map(|_| read()).collect();
            assert_eq!(turn, [true, true, true, true, false]);
        }
    }
}
