//! For `JournalActor`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use actix::prelude::*;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{partition::Commands, rm::Closing};
use crate::domain::{
    journal::{DrainNote, DrainRefusal, DrainRequest, Fact, Overdue, Target, UndrainRequest},
    queue_order::{OrderRefusal, QueueOrder},
};

/// A session of the partition begins, without nodes. Facts of other sessions are dropped from here on. Answered with what
/// operators told before, once the files were read and no write is under way.
#[derive(Message)]
#[rtype(result = "Standing")]
pub struct Begin {
    /// The session.
    pub epoch: u64,
    /// Where drains and undrains by operators go.
    pub partition: Recipient<Commands>,
    /// What operators told a partition that was there before this process, as its log has it.
    pub own: Option<Standing>,
}

/// What operators told before this session.
#[derive(Clone, Debug, Default, MessageResponse)]
pub struct Standing {
    /// Hosts where they drained something.
    pub hosts: Vec<Arc<str>>,
    /// When, by whom and why, by host.
    pub notes: Vec<(Arc<str>, DrainNote)>,
    /// Orders to queues.
    pub orders: Vec<(Arc<str>, Option<Arc<QueueOrder>>)>,
}

/// Operators tell queues, by their paths in lowercase, to become something, or (`None`) take that back. Answered when all of it is
/// on disk; the partition, which asks, then does it.
#[derive(Message)]
#[rtype(result = "Result<(), OrderRefusal>")]
pub struct KeepOrders(pub Vec<(Arc<str>, Option<Arc<QueueOrder>>)>);

/// The session ended; all its nodes are gone.
#[derive(Message)]
#[rtype(result = "()")]
pub struct End {
    /// The session.
    pub epoch: u64,
}

/// Another server leads the resource manager from now on, with its nodes: what this journal hears after that is no news of them.
/// Readers are told where to go on, also those who come before the next session.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Moved(pub Closing);

/// What happened to nodes, in order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Post {
    /// Session that they belong to.
    pub epoch: u64,
    /// The facts.
    pub facts: Vec<Fact>,
}

/// `journal.maxEvents`: how many events are kept in memory.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ConfigureJournal(pub usize);

/// An operator drains targets. Answered when it is on disk, and the partition was told.
#[derive(Message)]
#[rtype(result = "Result<(), DrainRefusal>")]
pub struct Drain(pub DrainRequest);

/// An operator undrains targets. Answered when it is on disk, and the partition was told.
#[derive(Message)]
#[rtype(result = "Result<(), DrainRefusal>")]
pub struct Undrain(pub UndrainRequest);

/// Another server led the partition before: operators have drained these nodes, these hosts where there is no node, and nothing
/// else. That holds from now on, also where it cannot be written at present.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Agree {
    /// Ids of the nodes.
    pub nodes: BTreeSet<Arc<str>>,
    /// Names of the hosts.
    pub hosts: BTreeSet<Arc<str>>,
    /// When, by whom and why, by host.
    pub notes: BTreeMap<Arc<str>, DrainNote>,
}

/// An operator sets the end of the resource set's life: seconds since the Unix epoch, 0: none. Answered when it is on disk.
#[derive(Message)]
#[rtype(result = "Result<(), DrainRefusal>")]
pub struct SetExpiration(pub i64);

/// A reader wants the journal.
#[derive(Debug, PartialEq, Eq, Message)]
#[rtype(result = "Attached")]
pub struct Attach {
    /// The events so far.
    pub historical: bool,
    /// Those to come.
    pub follow: bool,
}

/// The journal at one moment, and all that comes after it.
pub struct Attached {
    /// Names the stream, for [`Cancel`].
    pub stream: u64,
    /// The events so far, in order.
    pub history: Vec<Piece>,
    /// Responses to come, each a line of JSON with its newline; ends when the stream is cancelled or the journal stops.
    pub live: Option<Live>,
    /// Set when the stream ended, where the reader is to know why.
    pub ended: Arc<OnceLock<Ended>>,
}

/// Responses that wait for one reader at most.
pub const MAX_WAITING: usize = 10_000;
/// Bytes of them: each `resource-define` brings the whole resource set.
const MAX_BYTES: usize = 16 << 20;

/// What waits for one reader.
#[derive(Debug)]
pub struct Live {
    lines: mpsc::Receiver<Bytes>,
    bytes: Arc<AtomicUsize>,
}

/// Where a journal hands responses to one reader.
#[derive(Debug)]
pub struct Feed {
    lines: mpsc::Sender<Bytes>,
    bytes: Arc<AtomicUsize>,
}

/// The two ends of a reader's stream.
pub fn live() -> (Feed, Live) {
    let (sender, lines) = mpsc::channel(MAX_WAITING);
    let bytes = Arc::<AtomicUsize>::default();
    (Feed { lines: sender, bytes: bytes.clone() }, Live { lines, bytes })
}

impl Feed {
    /// Hands a response to the reader. `None`: that has gone; `Some(false)`: it is too far behind.
    pub fn send(&self, line: Bytes) -> Option<bool> {
        if self.lines.is_closed() {
            return None;
        }
        // Only the reader changes it meanwhile, to less. One response may always wait, however long it is.
        let waiting = self.bytes.load(Relaxed);
        if waiting > 0 && waiting + line.len() > MAX_BYTES {
            return Some(false);
        }
        self.bytes.fetch_add(line.len(), Relaxed);
        Some(self.lines.try_send(line).is_ok())
    }

    /// The reader has gone.
    pub fn is_closed(&self) -> bool {
        self.lines.is_closed()
    }
}

impl Live {
    /// The next response; `None`: there will be none any more.
    pub async fn recv(&mut self) -> Option<Bytes> {
        let line = self.lines.recv().await?;
        self.bytes.fetch_sub(line.len(), Relaxed);
        Some(line)
    }
}

/// Why a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The reader fell too far behind.
    Lagged,
    /// Another server goes on.
    Moved(Closing),
}

/// An event of the history.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The event as a JSON object.
    pub event: Arc<str>,
    /// With `resource-define`: the resource set, as a JSON object. It is in a response of its own.
    pub r: Option<Arc<str>>,
}

/// A stream is to end. Answers whether there was one of that name.
#[derive(Message)]
#[rtype(result = "bool")]
pub struct Cancel(pub u64);

/// How targets are.
#[derive(Message)]
#[rtype(result = "Status")]
pub struct GetStatus;

/// The registered nodes whose drain has passed its deadline.
#[derive(Message)]
#[rtype(result = "Vec<Overdue>")]
pub struct GetOverdue;

/// See [`GetStatus`].
#[derive(MessageResponse)]
pub struct Status {
    /// By rank.
    pub targets: Vec<Target>,
    /// The resource set, as a JSON object.
    pub r: Arc<str>,
    /// Open streams.
    pub streams: usize,
    /// What is wrong with the files: damage that no operator has settled, that they cannot be written, and unreadable lines of
    /// the stored log.
    pub faults: Vec<String>,
}

/// The first event comes in a response with others, up to this many.
pub const BATCH: usize = 100;

/// The line that separates history from what is live.
pub const SENTINEL: &str = "{\"events\":[]}\n";

/// Makes responses of events: up to [`BATCH`] in each, `resource-define` alone with `R` (RFC 44).
pub fn responses(history: Vec<Piece>) -> impl Iterator<Item = Bytes> {
    let mut history = history.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = history.next()?;
        let mut line = format!("{{\"events\":[{}", first.event);
        if let Some(r) = first.r {
            line.push_str("],\"R\":");
            line.push_str(&r);
            line.push_str("}\n");
            return Some(Bytes::from(line));
        }
        let mut count = 1;
        while count < BATCH
            && let Some(next) = history.next_if(|piece| piece.r.is_none())
        {
            line.push(',');
            line.push_str(&next.event);
            count += 1;
        }
        line.push_str("]}\n");
        Some(Bytes::from(line))
    })
}
