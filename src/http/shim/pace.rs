//! How fast a message of a WebSocket comes: begun, it has to come on, and to be whole in time, as a body has to.

use std::{cell::Cell, pin::pin, rc::Rc};

use actix_web::web::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use super::{
    body::{SILENCE, WHOLE},
    frames::Message,
};

/// What a frame of control costs beside its content: two bytes and the mask.
const CONTROL: usize = 6;

/// See the module.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// Bytes that belong to no message yet.
    bytes: usize,
    /// When the first of them came.
    since: Instant,
    /// When the last of them came.
    last: Instant,
}

/// Of one connection.
#[derive(Clone, Debug, Default)]
pub struct Pace(Rc<State>);

#[derive(Debug)]
struct State {
    begun: Cell<Option<Begun>>,
    /// Since when nobody waits for a message.
    left: Cell<Instant>,
}

impl Default for State {
    fn default() -> Self {
        State { begun: Cell::default(), left: Cell::new(Instant::now()) }
    }
}

/// Somebody waits for a message.
struct Waits<'a>(&'a State);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.left.set(Instant::now());
    }
}

/// A message takes too long.
#[derive(Debug, PartialEq, Eq)]
pub struct TooSlow;

impl Pace {
    /// What comes in is noted from here on.
    pub fn watch<S: Stream<Item = Result<Bytes, E>>, E>(
        &self,
        pieces: S,
    ) -> impl Stream<Item = Result<Bytes, E>> + use<S, E> {
        let pace = self.clone();
        pieces.inspect(move |piece| {
            if let Ok(bytes) = piece {
                pace.came(bytes.len());
            }
        })
    }

    fn came(&self, bytes: usize) {
        let now = Instant::now();
        let begun = self.0.begun.get().unwrap_or(Begun { bytes: 0, since: now, last: now });
        self.0.begun.set(Some(Begun { bytes: begun.bytes + bytes, last: now, ..begun }));
    }

    /// The next message.
    ///
    /// # Errors
    /// One has begun and takes too long.
    pub async fn next<E>(
        &self,
        messages: &mut (impl Stream<Item = Result<Message, E>> + Unpin),
    ) -> Result<Option<Result<Message, E>>, TooSlow> {
        // While requests waited for their budget nothing was read: that time does not count.
        let now = Instant::now();
        let away = now.duration_since(self.0.left.get());
        let later = |at: Instant| (at + away).min(now);
        let begun = self.0.begun.get();
        self.0.begun.set(begun.map(|begun| Begun { since: later(begun.since), last: later(begun.last), ..begun }));
        let _waits = Waits(&self.0);
        loop {
            let due = |begun: Begun| (begun.since + WHOLE).min(begun.last + SILENCE);
            let until = self.0.begun.get().map_or_else(|| Instant::now() + SILENCE, due);
            if let Ok(message) = timeout_at(until, pin!(messages.next())).await {
                if let Some(Ok(message)) = &message {
                    self.whole(message);
                }
                return Ok(message);
            }
            if self.0.begun.get().is_some_and(|begun| due(begun) <= Instant::now()) {
                return Err(TooSlow);
            }
        }
    }

    /// A message is there; one of control may stand between the parts of another.
    fn whole(&self, message: &Message) {
        let control = match message {
            Message::Ping(content) | Message::Pong(content) => content.len() + CONTROL,
            _ => usize::MAX,
        };
        let left = self.0.begun.get().map(|begun| Begun { bytes: begun.bytes.saturating_sub(control), ..begun });
        self.0.begun.set(left.filter(|begun| begun.bytes > 0));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{FutureExt as _, stream};

    use super::*;

    fn messages(list: Vec<Message>) -> impl Stream<Item = Result<Message, ()>> + Unpin {
        stream::iter(list.into_iter().map(Ok)).chain(stream::pending())
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_waited_for_where_nothing_has_begun() {
        let pace = Pace::default();
        let mut silent = messages(vec![]);
        let day = Duration::from_secs(86_400);
        assert!(tokio::time::timeout(day, pace.next(&mut silent)).await.is_err(), "it waits on");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_begun_has_to_come_on_and_to_be_whole_in_time() {
        let (pace, began) = (Pace::default(), Instant::now());
        pace.came(100);
        assert_eq!(pace.next(&mut messages(vec![])).await.map(drop), Err(TooSlow));
        assert_eq!(began.elapsed(), SILENCE);
        // A byte each second.
        let (pace, began) = (Pace::default(), Instant::now());
        let feed = async {
            loop {
                pace.came(1);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let mut none = messages(vec![]);
        tokio::select! {
            ended = pace.next(&mut none) => assert_eq!(ended.map(drop), Err(TooSlow)),
            () = feed => {}
        }
        assert_eq!(began.elapsed(), WHOLE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_of_control_does_not_stand_for_another() {
        let pace = Pace::default();
        pace.came(100 + CONTROL + 2);
        let mut ping = messages(vec![Message::Ping(Bytes::from_static(b"hi"))]);
        assert!(pace.next(&mut ping).await.is_ok());
        assert_eq!(pace.next(&mut ping).await.map(drop), Err(TooSlow), "100 bytes of another are there");
        let pace = Pace::default();
        pace.came(100);
        let mut text = messages(vec![Message::Content(Bytes::from_static(b"whole"))]);
        assert!(pace.next(&mut text).await.is_ok());
        assert!(pace.next(&mut text).now_or_never().is_none() && pace.0.begun.get().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn messages_of_control_give_another_no_more_time() {
        let (pace, began) = (Pace::default(), Instant::now());
        // A byte of it and a ping each second, and as long as that what came waits for its budget.
        let ended = loop {
            pace.came(1 + CONTROL);
            let mut ping = Box::pin(messages(vec![Message::Ping(Bytes::new())]).then(|ping| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                ping
            }));
            let next = pace.next(&mut ping).await;
            if next.is_err() {
                break next;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        assert_eq!(ended.map(drop), Err(TooSlow));
        assert_eq!(began.elapsed(), 2 * WHOLE);
    }

    #[tokio::test(start_paused = true)]
    async fn while_nothing_is_read_nothing_is_late() {
        let pace = Pace::default();
        pace.came(100);
        tokio::time::sleep(2 * WHOLE).await;
        let mut text = messages(vec![Message::Content(Bytes::from_static(b"whole"))]);
        assert!(pace.next(&mut text).await.is_ok());
    }
}
