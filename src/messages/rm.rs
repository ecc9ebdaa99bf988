//! For `RmActor`: what partitions deliver, what doors hand in, and the numbered lines that streams carry out.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use actix::prelude::*;
use tokio::sync::mpsc::UnboundedSender;

use super::{budget::Permit, keys::Asked, leaders::Leader, progress::Progress, recorded::Entry};
pub use crate::si::session::{Closing, ClosingKind, Kind, Line, Part, Payload, Rejected, Updated};
use crate::{
    domain::{
        effect::{Callback, Question, TurnEffect},
        event::Event,
        names::shorten,
        types::Nanos,
    },
    trace::Span,
};

/// Callbacks of one partition in order, and questions that come after them.
///
/// The partition has counted all of them with `Budget::made`.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// Session that they belong to; those of another are dropped.
    pub epoch: u64,
    /// Internal name of the partition.
    pub partition: Arc<str>,
    /// What to deliver.
    pub items: Vec<Outgoing>,
    /// What it says about turns.
    pub turns: Vec<TurnEffect>,
    /// The record that it came of, where there is one.
    pub entry: Option<Box<Entry>>,
    /// Spans of traced requests: each ends when its callbacks were handed to a stream.
    pub traced: Vec<(Kind, Span)>,
    /// The weight that the items were counted with.
    pub weight: i64,
}

/// See [`Deliver`].
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// A callback.
    Callback(Callback),
    /// A question; the answer goes back to the partition as `Command::Predicate`.
    Ask(Question),
}

/// Events for the shim, collected by `EventActor`.
#[derive(Message)]
#[rtype(result = "()")]
pub struct DeliverEvents {
    /// Session that they belong to.
    pub epoch: u64,
    /// The records.
    pub events: Vec<Event>,
}

/// Why a call of a door was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of refusal; the doors map it to their status codes.
    pub kind: RefusalKind,
    /// Text for the caller.
    pub detail: String,
    /// The server that takes the call, where it is another one.
    pub leader: Option<Arc<Leader>>,
}

/// See [`Refusal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The resource manager is not registered (404, `NOT_FOUND`).
    Unknown,
    /// Its state does not allow the call (409, `FAILED_PRECONDITION`).
    State,
    /// It is of a session that is over (409, `ABORTED`).
    Epoch,
    /// The call is invalid (400, `INVALID_ARGUMENT`).
    Invalid,
    /// The stream cannot be resumed there (410, `OUT_OF_RANGE`).
    Gone,
    /// Another request had its key (422, `INVALID_ARGUMENT`).
    Key,
    /// The budget is spent (429).
    Busy,
    /// The server is shutting down, or cannot record what it takes (503, `UNAVAILABLE`).
    Closing,
    /// Another server leads the resource manager (307 with its address, `UNAVAILABLE` with its address).
    Moved,
}

impl Refusal {
    /// A refusal.
    pub fn new(kind: RefusalKind, detail: impl Into<String>) -> Refusal {
        Refusal { kind, detail: bounded(detail.into()), leader: None }
    }
}

/// Bytes of an error's text. Clients of gRPC refuse metadata of more than 8 KiB, in which each byte may take three.
const LONGEST_DETAIL: usize = 2_000;

/// An error's text, without its middle where it is too long: names in it may be as long as a request.
pub fn bounded(detail: String) -> String {
    if detail.len() <= LONGEST_DETAIL {
        return detail;
    }
    let (head, tail) = (detail.floor_char_boundary(LONGEST_DETAIL / 2), detail.len() - LONGEST_DETAIL / 4);
    let tail = detail.ceil_char_boundary(tail);
    format!("{} … ({} bytes are left out) … {}", &detail[..head], tail - head, &detail[tail..])
}

/// How the shim wants to be asked for predicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Predicates {
    /// Not at all: every node that has room fits.
    #[default]
    Off,
    /// One question per line.
    Single,
    /// Questions that name several nodes.
    Batch,
    /// The same, and several of them in a line.
    Several,
}

impl Predicates {
    /// The name that the information about a resource manager shows.
    pub const fn name(self) -> &'static str {
        match self {
            Predicates::Off => "off",
            Predicates::Single => "single",
            Predicates::Batch => "batch",
            Predicates::Several => "several",
        }
    }
}

/// Voluntary shutdown of the resource manager.
#[derive(Message)]
#[rtype(result = "Result<(), Refusal>")]
#[derive(Default)]
pub struct Unregister {
    /// Its key, where it has one.
    pub asked: Option<Asked>,
}

/// The server ends: every stream gets its last line.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Shutdown;

/// A request with a number or a key and without a part for a partition was carried out.
#[derive(Message)]
#[rtype(result = "()")]
pub struct CarriedOut {
    /// Session that it was sent in.
    pub epoch: u64,
    /// With its receipt.
    pub permit: Permit,
}

/// What was recorded is to be on the disk. Answers whether it is.
#[derive(Message)]
#[rtype(result = "bool")]
pub struct CloseLog {
    /// The server ends, and the doors are closed: nothing more is recorded.
    pub last: bool,
}

/// Why nothing new is placed for a resource manager, whatever its asks wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// It has no open stream.
    Away,
    /// Its log takes nothing, and why.
    Log(Arc<str>),
}

/// Nodes are alive.
#[derive(Message)]
#[rtype(result = "Result<(), Refusal>")]
pub struct Heartbeat {
    /// Session that it was sent in.
    pub epoch: u64,
    /// Node ids.
    pub nodes: Arc<[Arc<str>]>,
    /// Credits that it took, given back when it is dropped.
    pub permit: Option<Permit>,
}

/// Requests on their way through the resource manager's actor, because a part of them is for no known partition. Later requests go
/// the same way until these are through: sent straight to a partition that exists by then, they would overtake them.
#[derive(Clone, Debug, Default)]
pub struct Forwarding(Arc<AtomicUsize>);

impl Forwarding {
    /// Whether any is on its way.
    pub fn any(&self) -> bool {
        self.0.load(SeqCst) > 0
    }

    /// One more is on its way, until the result is dropped.
    pub fn one(&self) -> Ahead {
        self.0.fetch_add(1, SeqCst);
        Ahead(self.clone())
    }
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Ahead(Forwarding);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}

/// A request of which a part is for no partition that the door knows, or its rejections alone. The rest goes to the
/// partitions themselves.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Submit {
    /// Session in which the door took the credits.
    pub epoch: u64,
    /// Commands by partition: all of the request, or none.
    pub parts: Vec<Part>,
    /// Rejections that the door found: answered before the partitions do.
    pub rejected: Vec<Callback>,
    /// Credits of the request.
    pub permit: Option<Permit>,
    /// Keeps later requests on the same way; none with rejections alone.
    pub ahead: Option<Ahead>,
}

/// Answers to questions.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Answers {
    /// The session whose questions they answer: line numbers begin anew in each.
    pub epoch: u64,
    /// The answers.
    pub answers: Vec<Answer>,
}

/// The answer to one line that carried an id.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The id.
    pub id: u64,
    /// The answer.
    pub body: AnswerBody,
}

/// See [`Answer`].
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerBody {
    /// To a single question.
    Single {
        /// It fits; else why not.
        result: Result<(), Arc<str>>,
        /// Index of the last victim that was removed (preemption).
        index: i32,
    },
    /// To a batch: one per node in order, `Ok` fits.
    Batch(Vec<Result<(), Arc<str>>>),
    /// To several asks: the same for each of them, in order.
    Several(Vec<Vec<Result<(), Arc<str>>>>),
    /// To a state dump request.
    Dump(Result<String, String>),
}

/// Bytes of a reason that are kept.
const REASON: usize = 512;

/// An empty error means that it fits. Reasons are remembered for each ask and node, so a long one is cut.
///
/// # Errors
/// It does not fit.
pub fn verdict(mut error: String) -> Result<(), Arc<str>> {
    shorten(&mut error, REASON);
    if error.is_empty() { Ok(()) } else { Err(error.into()) }
}

/// The state of the shim, as JSON; `None` where it offers none.
#[derive(Message)]
#[rtype(result = "Option<Result<String, String>>")]
pub struct StateDump;

/// What `GET /si/v1/rm/{rmID}` shows.
#[derive(Message)]
#[rtype(result = "RmInfo")]
pub struct Info;

/// See [`Info`].
#[derive(Clone, Debug, Default, MessageResponse)]
pub struct RmInfo {
    /// Its id.
    pub id: Arc<str>,
    /// Present state.
    pub state: RmState,
    /// Policy group of the session.
    pub policy_group: Arc<str>,
    /// Session; 0 before the first registration.
    pub epoch: u64,
    /// When the session began.
    pub registered: Option<Nanos>,
    /// Sequence of the newest line.
    pub last_sequence: u64,
    /// Every line up to this one was handed to a socket.
    pub delivered_sequence: u64,
    /// Entries in the buffer.
    pub buffered: usize,
    /// Open streams.
    pub streams: Vec<StreamInfo>,
    /// Internal names of its partitions.
    pub partitions: Vec<Arc<str>>,
    /// How it is asked.
    pub predicates: Predicates,
    /// What the shim does not read, where nothing can be placed before it does.
    pub unread: Option<String>,
    /// Why its log takes nothing at all.
    pub failing: Option<Arc<str>>,
    /// Why its log has no room for new placements.
    pub full: Option<Arc<str>>,
    /// The last changes of its state, oldest first.
    pub history: Vec<StateChange>,
}

/// Why a session ended that its resource manager ended itself.
pub const VOLUNTARY: &str = "voluntary shutdown";

impl RmInfo {
    /// Its session was ended, and not by itself: somebody has to look, until it registers again.
    pub fn was_given_up(&self) -> bool {
        self.state == RmState::Stopped && self.history.last().is_some_and(|last| &*last.why != VOLUNTARY)
    }
}

/// One open stream.
#[derive(Clone, Debug)]
pub struct StreamInfo {
    /// Name of the door that it came through.
    pub door: &'static str,
    /// What it carries.
    pub kinds: &'static [&'static str],
    /// Since when.
    pub since: Nanos,
}

/// One change of state.
#[derive(Clone, Debug)]
pub struct StateChange {
    /// State entered.
    pub state: RmState,
    /// When it happened, in ns since the Unix epoch.
    pub at: Nanos,
    /// Why, as it is shown to people.
    pub why: Arc<str>,
}

/// States of a resource manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RmState {
    /// Known, and without a session here: it never registered, or another server leads it.
    #[default]
    Init,
    /// Registered, and reachable or within its grace period.
    Running,
    /// Its last stream was lost.
    Paused,
    /// Its session has ended; it may register anew.
    Stopped,
}

impl RmState {
    /// The name shown.
    pub const fn name(self) -> &'static str {
        match self {
            RmState::Init => "init",
            RmState::Running => "Running",
            RmState::Paused => "Paused",
            RmState::Stopped => "Stopped",
        }
    }
}

/// A stream is opened.
#[derive(Message)]
#[rtype(result = "Result<Attached, Refusal>")]
pub struct Attach {
    /// Name of the door, as shown.
    pub door: &'static str,
    /// What is wanted.
    pub want: Want,
    /// Where the lines go.
    pub to: UnboundedSender<ToStream>,
    /// How far they have come.
    pub progress: Arc<Progress>,
}

/// See [`Attach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Every line, after that number; `None`: from the oldest that is buffered.
    All {
        /// The last number that the shim has.
        after: Option<u64>,
        /// How it wants to be asked while this stream is open; `None`: as it registered.
        predicates: Option<Predicates>,
    },
    /// Every line of the next registration, nothing before.
    Next {
        /// How it wants to be asked.
        predicates: Predicates,
    },
    /// The lines of one kind.
    Plain(Kind),
}

/// A stream was opened. It is closed when this is dropped, also on its way to a door that does not wait for it any more.
#[derive(Debug)]
pub struct Attached {
    /// Identifies it in [`Detach`].
    pub stream: u64,
    /// Whom to tell that it was closed.
    pub rm: Recipient<Detach>,
    /// Session; 0 where none exists yet.
    pub epoch: u64,
    /// The number after which lines follow.
    pub sequence: u64,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.rm.do_send(Detach { stream: self.stream });
    }
}

/// What a stream is told.
#[derive(Clone, Debug)]
pub enum ToStream {
    /// Lines in order.
    Lines(Vec<Arc<Line>>),
    /// The registration that the stream waited for.
    Begin {
        /// Its session.
        epoch: u64,
    },
    /// The last message.
    Close(Closing),
}

/// What was waited for of the [`Progress`] of a stream was handed to its socket.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Handed;

/// A stream was closed or lost.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Detach {
    /// The stream.
    pub stream: u64,
}
