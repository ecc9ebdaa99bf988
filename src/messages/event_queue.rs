//! The bounded queue between `EventActor` and one stream. Adding to it never waits: a reader that cannot keep up loses
//! its queue, and is told so.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    task::Poll,
    time::Duration,
};

use futures::task::AtomicWaker;
use tokio::time::Instant;

use super::event_batch::Batch;

/// The actor's end.
#[derive(Debug)]
pub struct StreamQueue {
    state: Mutex<State>,
    reader: AtomicWaker,
    limit: usize,
}

#[derive(Debug)]
struct State {
    batches: VecDeque<Arc<Batch>>,
    /// Events in `batches`.
    waiting: usize,
    /// When the reader last took something, or found the queue empty.
    progress: Instant,
    /// Id of the first event that will not be delivered, once the queue has ended.
    ended: Option<Ended>,
    /// The reader is gone.
    abandoned: bool,
}

/// Why a queue ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The reader was too slow; `next` is the first event that it was not given.
    Lagging {
        /// Id of that event.
        next: u64,
    },
    /// The event system stops.
    Stopped,
}

impl StreamQueue {
    /// A queue for `limit` waiting events, and the reader's end of it. A batch is taken whole by an empty queue.
    pub fn new(limit: usize) -> (Arc<StreamQueue>, StreamReader) {
        let state =
            State { batches: VecDeque::new(), waiting: 0, progress: Instant::now(), ended: None, abandoned: false };
        let queue = Arc::new(StreamQueue { state: Mutex::new(state), reader: AtomicWaker::new(), limit });
        (queue.clone(), StreamReader { queue })
    }

    /// Adds a batch; false where the queue has ended, now or before, and the stream is to be forgotten (EVT-085).
    pub fn push(&self, batch: &Arc<Batch>) -> bool {
        let mut state = self.lock();
        if state.abandoned || state.ended.is_some() {
            return false;
        }
        if state.waiting > 0 && state.waiting + batch.len() > self.limit {
            self.cut(state);
            return false;
        }
        if state.batches.is_empty() {
            state.progress = Instant::now();
        }
        state.waiting += batch.len();
        state.batches.push_back(batch.clone());
        drop(state);
        self.reader.wake();
        true
    }

    /// Ends the queue of a reader that took nothing for `patience` although something waits (EVT-084); false where the
    /// stream is to be forgotten.
    pub fn check(&self, patience: Duration) -> bool {
        let state = self.lock();
        if state.abandoned || state.ended.is_some() {
            return false;
        }
        if !state.batches.is_empty() && state.progress.elapsed() >= patience {
            self.cut(state);
            return false;
        }
        true
    }

    /// Ends the queue after what is in it.
    pub fn stop(&self) {
        self.lock().ended.get_or_insert(Ended::Stopped);
        self.reader.wake();
    }

    /// The reader is gone.
    pub fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    /// What waits is dropped, so that a peer that never reads holds no memory.
    fn cut(&self, mut state: MutexGuard<'_, State>) {
        let next = state.batches.front().map_or(0, |batch| batch.slice().first());
        state.ended = Some(Ended::Lagging { next });
        state.waiting = 0;
        let batches = std::mem::take(&mut state.batches);
        drop(state);
        drop(batches);
        self.reader.wake();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, and the state is consistent between statements.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The reader's end; dropping it closes the stream.
#[derive(Debug)]
pub struct StreamReader {
    queue: Arc<StreamQueue>,
}

impl StreamReader {
    /// The next batch, or why there is none any more.
    pub async fn next(&mut self) -> Result<Arc<Batch>, Ended> {
        std::future::poll_fn(|cx| {
            self.queue.reader.register(cx.waker());
            let mut state = self.queue.lock();
            if let Some(batch) = state.batches.pop_front() {
                state.waiting -= batch.len();
                state.progress = Instant::now();
                return Poll::Ready(Ok(batch));
            }
            match state.ended {
                Some(ended) => Poll::Ready(Err(ended)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.abandoned = true;
        state.batches.clear();
        state.waiting = 0;
    }
}
