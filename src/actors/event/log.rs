//! Reading and following the log, first from the disk, then from memory, then as it comes; and its end.

use std::{fmt::Display, ops::Range, sync::Arc};

use actix::prelude::*;
use tokio::{sync::oneshot, task::spawn_blocking};

use super::{EventActor, durable::Source, now};
use crate::{
    domain::event_block::{EventGap, EventPiece, GapReason},
    messages::event::{
        BeginToFollow, EndStreams, FindGap, FindInLog, FollowError, FollowLog, Followed, Follower, LogPage, ReadError,
        ReadLog, StopEvents, TooManyStreams,
    },
};

/// Reads something on another thread.
pub(super) async fn from_disk<T: Send + 'static, E: Display + Send + 'static>(
    read: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ReadError> {
    let read = spawn_blocking(read).await.map_err(|error| ReadError::Failed(error.to_string().into()))?;
    read.map_err(|error| ReadError::Failed(error.to_string().into()))
}

impl Handler<ReadLog> for EventActor {
    type Result = ResponseFuture<Result<LogPage, ReadError>>;

    fn handle(&mut self, msg: ReadLog, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        let next = self.ring.next();
        let from = msg.from.unwrap_or_else(|| self.lowest());
        if from > next {
            return Box::pin(std::future::ready(Err(ReadError::Beyond { from, next })));
        }
        let here = |pieces| LogPage { pieces, next };
        if from >= self.ring.lowest() {
            let slices = self.ring.range(from, msg.events as u64);
            let page = here(slices.into_iter().map(EventPiece::Events).collect());
            return Box::pin(std::future::ready(Ok(page)));
        }
        let Some(durable) = &mut self.durable else {
            let gap = EventGap { from, end: self.ring.lowest(), reason: GapReason::Retention };
            return Box::pin(std::future::ready(Ok(here(vec![EventPiece::Gap(gap)]))));
        };
        match durable.read(from, msg.events) {
            Source::Here(mut pieces) => {
                // Of a gap in the store the newest events are in the ring still.
                let lowest = self.ring.lowest();
                pieces.retain(|piece| piece.first() < lowest);
                if let Some(EventPiece::Gap(gap)) = pieces.last_mut() {
                    gap.end = gap.end.min(lowest);
                }
                Box::pin(std::future::ready(Ok(here(pieces))))
            }
            Source::Disk(read) => Box::pin(async move { Ok(LogPage { pieces: from_disk(read).await?, next }) }),
        }
    }
}

impl Handler<FindInLog> for EventActor {
    type Result = ResponseFuture<Result<u64, ReadError>>;

    fn handle(&mut self, msg: FindInLog, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        let Some(durable) = &self.durable else { return Box::pin(std::future::ready(Ok(self.ring.lowest()))) };
        Box::pin(from_disk(durable.find(msg.at)))
    }
}

impl Handler<FindGap> for EventActor {
    type Result = ResponseFuture<Result<Option<Range<u64>>, ReadError>>;

    fn handle(&mut self, msg: FindGap, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        let lowest = self.ring.lowest();
        let durable = self.durable.as_ref().filter(|_| msg.at < lowest);
        let Some(durable) = durable else { return Box::pin(std::future::ready(Ok(None))) };
        let find = durable.gap_at(msg.at);
        Box::pin(async move {
            let gap = from_disk(find).await?;
            // Of a gap in the store the newest events are in the ring still.
            Ok(gap.map(|gap| gap.start..gap.end.min(lowest)))
        })
    }
}

impl Handler<BeginToFollow> for EventActor {
    type Result = Result<Follower, TooManyStreams>;

    fn handle(&mut self, msg: BeginToFollow, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        self.check_streams(msg.host)?;
        Ok(self.streams.begin_to_follow(msg.host))
    }
}

impl Handler<FollowLog> for EventActor {
    type Result = Result<Followed, FollowError>;

    fn handle(&mut self, msg: FollowLog, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        let (lowest, next) = match &msg.rm {
            // What there is of it is to be looked for.
            Some(rm) => self.numbers.next(rm).map_or((u64::MAX, 0), |next| (next, next)),
            None => (self.ring.lowest(), self.ring.next()),
        };
        let from = msg.from.unwrap_or(next);
        if !(lowest..=next).contains(&from) {
            return Err(FollowError::Behind);
        }
        Ok(Followed {
            past: if msg.rm.is_none() { self.ring.range(from, u64::MAX) } else { Vec::new() },
            reader: self.streams.follow(msg.host, msg.name, now(), msg.rm),
        })
    }
}

impl Handler<EndStreams> for EventActor {
    type Result = ();

    fn handle(&mut self, _msg: EndStreams, ctx: &mut Self::Context) {
        self.take_in(ctx);
        self.streams.stop();
        self.hand_over();
    }
}

impl Handler<StopEvents> for EventActor {
    type Result = ResponseFuture<Result<(), Arc<str>>>;

    fn handle(&mut self, _msg: StopEvents, ctx: &mut Self::Context) -> Self::Result {
        self.take_in(ctx);
        self.stopping = true;
        self.streams.stop();
        let next = self.ring.next();
        let Some(durable) = &mut self.durable else { return Box::pin(std::future::ready(Ok(()))) };
        let (done, closed) = oneshot::channel();
        let job = durable.close(next, now(), done);
        self.run(job, ctx);
        Box::pin(async { closed.await.unwrap_or_else(|_| Err("the event system ended before the store did".into())) })
    }
}
