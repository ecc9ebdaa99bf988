//! Open event streams and their limits (EVT-080 to EVT-087).

use std::{
    net::IpAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use crate::{
    domain::{
        event::Event,
        event_block::{EventBlock, EventSlice},
        types::Nanos,
    },
    messages::event::{Batch, Follower, StreamQueue, StreamReader, StreamView, TooManyStreams},
};

/// How many events may wait for one stream. The reference allows 1,000 in each of two queues; events come by the
/// thousand here, and what waits is shared by all streams, so this only bounds how far behind one may fall.
pub const BACKLOG: usize = 100_000;
/// How long a client may take nothing although something waits (EVT-084).
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Batches below this are copied for the streams, so that the ring can go on filling its last block.
const COPY: usize = 64;

/// The open streams in the order in which they were opened.
#[derive(Default)]
pub struct Streams {
    open: Vec<Stream>,
    /// Those who follow the log, by where they are: they count also while they read what is stored.
    followers: Vec<(IpAddr, Weak<()>)>,
    /// The server stops.
    ended: bool,
}

struct Stream {
    host: IpAddr,
    view: StreamView,
    queue: Arc<StreamQueue>,
    /// A follower: where it falls behind it reads the log, so that cutting it off costs it nothing.
    follows: bool,
    /// The events of this resource manager only, with the ids of its log.
    rm: Option<Arc<str>>,
}

/// Limits of open streams (`event.maxStreams`, `event.maxStreamsPerHost`).
#[derive(Clone, Copy)]
pub struct StreamLimits {
    /// In all.
    pub total: u64,
    /// Per client address.
    pub per_host: u64,
}

impl Streams {
    /// Would one more stream be allowed: the total is looked at first, then the host (EVT-082, SEEDS S17).
    pub fn check(&mut self, host: IpAddr, limits: StreamLimits) -> Result<(), TooManyStreams> {
        self.open.retain(|stream| !stream.queue.is_abandoned());
        self.followers.retain(|(_, follower)| follower.strong_count() > 0);
        let streams = self.open.iter().filter(|stream| !stream.follows).map(|stream| stream.host);
        let (mut all, mut of_host) = (0, 0);
        for from in streams.chain(self.followers.iter().map(|(from, _)| *from)) {
            all += 1;
            of_host += u64::from(from == host);
        }
        let allowed = !self.ended && all < limits.total && of_host < limits.per_host;
        allowed.then_some(()).ok_or(TooManyStreams)
    }

    /// Counts somebody who is about to follow the log.
    pub fn begin_to_follow(&mut self, host: IpAddr) -> Follower {
        let follower = Follower::default();
        self.followers.push((host, follower.watch()));
        follower
    }

    /// Opens a stream; it is given every batch from now on.
    pub fn open(&mut self, host: IpAddr, name: Arc<str>, created: Nanos) -> StreamReader {
        self.add(host, StreamView { name, created }, false, None)
    }

    /// Opens the stream of a follower of the log, or of that of a resource manager, who is counted already.
    pub fn follow(&mut self, host: IpAddr, name: Arc<str>, created: Nanos, rm: Option<Arc<str>>) -> StreamReader {
        self.add(host, StreamView { name, created }, true, rm)
    }

    fn add(&mut self, host: IpAddr, view: StreamView, follows: bool, rm: Option<Arc<str>>) -> StreamReader {
        let (queue, reader) = StreamQueue::new(BACKLOG);
        if self.ended {
            // A follower may have been reading the log when the streams ended.
            queue.stop();
        }
        self.open.push(Stream { host, view, queue, follows, rm });
        reader
    }

    /// No stream is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Number of open streams.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// The open streams, for the state dump.
    pub fn views(&mut self) -> Vec<StreamView> {
        self.open.retain(|stream| !stream.queue.is_abandoned());
        self.open.iter().map(|stream| stream.view.clone()).collect()
    }

    /// Gives new events to every stream; returns how many were cut off because they could not keep up (EVT-085).
    pub fn publish(&mut self, slices: &[EventSlice]) -> usize {
        let mut cut = 0;
        for slice in slices {
            let batch = Arc::new(Batch::new(detached(slice)));
            cut += self.forget(|stream| stream.rm.is_none() && !stream.queue.push(&batch));
        }
        cut
    }

    /// Gives new events of a resource manager to those who follow it; the first has this id in its log.
    pub fn publish_of(&mut self, rm: &Arc<str>, mut first: u64, slices: &[EventSlice]) {
        let follows = |stream: &Stream| stream.rm.as_ref() == Some(rm);
        if !self.open.iter().any(follows) {
            return;
        }
        for slice in slices {
            let block = Arc::new(EventBlock { first, events: slice.events().to_vec() });
            first = block.end();
            let Some(slice) = EventSlice::of(&block, block.first, first) else { continue };
            let batch = Arc::new(Batch::new(slice));
            // Whoever is too slow goes on by reading the log.
            self.forget(|stream| follows(stream) && !stream.queue.push(&batch));
        }
    }

    /// Ends streams whose client does not read (EVT-084); returns how many.
    pub fn check_progress(&mut self) -> usize {
        self.forget(|stream| !stream.queue.check(PATIENCE))
    }

    /// Ends all streams after what waits for them, for good.
    pub fn stop(&mut self) {
        self.ended = true;
        for stream in self.open.drain(..) {
            stream.queue.stop();
        }
    }

    fn forget(&mut self, gone: impl Fn(&Stream) -> bool) -> usize {
        let mut cut = 0;
        self.open.retain(|stream| {
            if !gone(stream) {
                return true;
            }
            if !stream.queue.is_abandoned() && !stream.follows {
                tracing::warn!(code = "event-stream-slow", name = %stream.view.name, host = %stream.host, "event stream is too slow and was ended");
                cut += 1;
            }
            false
        });
        cut
    }
}

fn detached(slice: &EventSlice) -> EventSlice {
    let events: &[Event] = slice.events();
    if events.len() >= COPY {
        return slice.clone();
    }
    let copy = Arc::new(EventBlock { first: slice.first(), events: events.to_vec() });
    EventSlice::of(&copy, slice.first(), slice.end()).unwrap_or_else(|| slice.clone())
}
