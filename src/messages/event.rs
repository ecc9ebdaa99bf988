//! For `EventActor`.

use std::{
    net::IpAddr,
    ops::Range,
    sync::{Arc, Weak},
};

use actix::prelude::*;

use super::rm::DeliverEvents;
pub use super::{
    event_batch::{Batch, LineForm},
    event_intake::{Intake, Publisher, Rouse, Stands, ToEvents},
    event_numbers::{FindNumber, Look, Numbered, Range as NumberRange},
    event_queue::{Ended, StreamQueue, StreamReader},
    event_status::{EventCounters, EventStatus, StoreStatus},
};
use crate::domain::{
    event::Event,
    event_block::{EventPiece, EventSlice},
    event_settings::EventSettings,
    resources::Resource,
    types::Nanos,
    usage::{UsageKey, UsagePiece},
};
use crate::trace::Span;

/// Events of one partition in order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Publish {
    /// Resource manager whose shim is sent them too.
    pub rm: Arc<str>,
    /// Its session.
    pub epoch: u64,
    /// The records.
    pub events: Vec<Event>,
    /// Spans of traced requests, each with the places of its events in `events`.
    pub traced: Vec<(Span, Vec<u64>)>,
    /// The id of the first in the log of the resource manager; `None`: they are in no record of it.
    pub first: Option<u64>,
}

impl Publish {
    /// Events of a resource manager's log, from this id on; without any it says that this is the next id.
    pub fn numbered(rm: &Arc<str>, first: u64, events: Vec<Event>) -> Publish {
        Publish { rm: rm.clone(), epoch: 0, events, traced: Vec::new(), first: Some(first) }
    }

    /// The log of a resource manager may begin anew: what is known of its ids no longer holds.
    pub fn forgotten(rm: &Arc<str>) -> Publish {
        Publish { rm: rm.clone(), epoch: 0, events: Vec::new(), traced: Vec::new(), first: None }
    }
}

/// The shim of this session wants the events of its partitions, every 2 s (EVT-063). Replaces an earlier session.
/// Sent before the partitions of the session start, so that the shim gets their first events too.
pub struct ShimSubscribe {
    /// Resource manager.
    pub rm: Arc<str>,
    /// Its session.
    pub epoch: u64,
    /// Where the events go.
    pub recipient: Recipient<DeliverEvents>,
}

/// The session has ended: what was collected for it is dropped. Another session of the same RM is left alone.
pub struct ShimUnsubscribe {
    /// Resource manager.
    pub rm: Arc<str>,
    /// Its session.
    pub epoch: u64,
}

/// New settings, in force at once (EVT-090, SEEDS S16, S17).
#[derive(Message)]
#[rtype(result = "()")]
pub struct ApplyEventSettings(pub EventSettings);

/// A moment of the past is shown: these events came last before it, and what was there is forgotten.
#[derive(Message, Default)]
#[rtype(result = "()")]
pub struct ShowEvents {
    /// Id of the first.
    pub first: u64,
    /// What was used before it.
    pub used: Vec<(UsageKey, Resource)>,
    /// The events, with ids from `first` on.
    pub events: Vec<Event>,
}

/// A page of the ring (EVT-071, EVT-073).
#[derive(Message)]
#[rtype(result = "EventPage")]
pub struct GetEvents {
    /// First id, counted from 0 for this process; `None`: the oldest that is kept.
    pub start: Option<u64>,
    /// How many at most; `None` for as many as one answer may hold (`event.RESTResponseSize`), which also caps it.
    pub count: Option<u64>,
}

/// Answer to [`GetEvents`].
pub struct EventPage {
    /// Identifies this process.
    pub instance: Arc<str>,
    /// Lowest id that is kept, 0 when there is none.
    pub lowest: u64,
    /// Highest id, 0 when there is none (EVT-074).
    pub highest: u64,
    /// Consecutive records from `start` on, empty when it lies outside of what is kept.
    pub slices: Vec<EventSlice>,
}

/// Opens a stream (EVT-080): past records and then all new ones, each exactly once (EVT-081).
#[derive(Message)]
#[rtype(result = "Result<OpenedStream, TooManyStreams>")]
pub struct OpenStream {
    /// Address of the client, for the limit per host (SEEDS S17).
    pub host: IpAddr,
    /// Name for the state dump (EVT-087).
    pub name: Arc<str>,
    /// How many past records to begin with.
    pub count: u64,
}

/// Would [`OpenStream`] be refused? Asked where a bad parameter is found, since the limits are checked first (EVT-082).
#[derive(Message)]
#[rtype(result = "Result<(), TooManyStreams>")]
pub struct CheckStreams {
    /// Address of the client.
    pub host: IpAddr,
}

/// Somebody is about to follow the log, and counts as a stream from now on: before new events come all that is stored may have to be
/// read, and what is read of it takes memory until the client takes it.
#[derive(Message)]
#[rtype(result = "Result<Follower, TooManyStreams>")]
pub struct BeginToFollow {
    /// Address of the client, for the limit per host.
    pub host: IpAddr,
}

/// The right to follow the log, which counts as a stream until it is dropped.
#[derive(Debug, Default)]
pub struct Follower(Arc<()>);

impl Follower {
    /// Tells whether it is there.
    pub fn watch(&self) -> Weak<()> {
        Arc::downgrade(&self.0)
    }
}

/// The limit of streams, in all or per host, is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Too many streaming connections")]
pub struct TooManyStreams;

/// A stream that is open until its reader is dropped.
pub struct OpenedStream {
    /// Identifies this process.
    pub instance: Arc<str>,
    /// The first id of this process: ids of `/ws/v1` count from it.
    pub base: u64,
    /// Past records.
    pub history: Vec<EventSlice>,
    /// All records after them.
    pub reader: StreamReader,
}

/// Open streams, for the state dump.
#[derive(Message)]
#[rtype(result = "Vec<StreamView>")]
pub struct GetStreams;

/// An open stream (EVT-087).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamView {
    /// Host header of its request.
    pub name: Arc<str>,
    /// When it was opened.
    pub created: Nanos,
}

/// Figures of the event system.
#[derive(Message)]
#[rtype(result = "EventStatus")]
pub struct GetEventStatus;

/// A part of the log, from any id that is still kept, in memory or in the durable store. The ids of the log go on over a
/// restart, other than those of [`GetEvents`].
#[derive(Message)]
#[rtype(result = "Result<LogPage, ReadError>")]
pub struct ReadLog {
    /// First id; `None` for the oldest that is kept.
    pub from: Option<u64>,
    /// How many events at most, about.
    pub events: usize,
}

/// Answer to [`ReadLog`].
pub struct LogPage {
    /// From the id that was asked for on, without holes: what is missing is a gap. Empty only where that id is the next one.
    pub pieces: Vec<EventPiece>,
    /// The id of the next event.
    pub next: u64,
}

/// A part of the log with what tells usage, as [`ReadLog`].
#[derive(Message)]
#[rtype(result = "Result<UsagePage, ReadError>")]
pub struct ReadUsage {
    /// First id; `None` for one at which usage is known, if possible before `since`.
    pub from: Option<u64>,
    /// From when on usage is to be known.
    pub since: Nanos,
    /// How many events at most, about.
    pub events: usize,
}

/// Answer to [`ReadUsage`].
pub struct UsagePage {
    /// From the id that was asked for on, without holes. Points between two pages are in both.
    pub pieces: Vec<UsagePiece>,
    /// Nothing comes after it yet.
    pub last: bool,
}

/// An id of the log before which all events are older than a time; some behind it may be older too.
#[derive(Message)]
#[rtype(result = "Result<u64, ReadError>")]
pub struct FindInLog {
    /// The time.
    pub at: Nanos,
}

/// The whole gap in which an id lies; `None` where it lies in none, or where it is not known how far back the gap reaches. A killed
/// server leaves a gap of about a million ids, which nobody has to go through.
#[derive(Message)]
#[rtype(result = "Result<Option<Range<u64>>, ReadError>")]
pub struct FindGap {
    /// The id.
    pub at: u64,
}

/// Why the log cannot be read there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no such id yet.
    #[error("event {from} does not exist yet: the next event is {next}")]
    Beyond {
        /// What was asked for.
        from: u64,
        /// The id of the next event.
        next: u64,
    },
    /// The disk refused.
    #[error("cannot read the event store: {0}")]
    Failed(Arc<str>),
}

/// Follows the log from an id that is in memory. Whoever does has begun to follow before ([`BeginToFollow`]).
#[derive(Message)]
#[rtype(result = "Result<Followed, FollowError>")]
pub struct FollowLog {
    /// Address of the client, for the limit per host.
    pub host: IpAddr,
    /// Name for the state dump.
    pub name: Arc<str>,
    /// The events of this resource manager only, with the ids of its log; from the next one on.
    pub rm: Option<Arc<str>>,
    /// The id to begin with; `None` for the next one.
    pub from: Option<u64>,
}

/// A follower's view, until its reader is dropped.
pub struct Followed {
    /// What there is from that id on.
    pub past: Vec<EventSlice>,
    /// All events after that.
    pub reader: StreamReader,
}

/// Why the log cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowError {
    /// Events from that id on are to be read first, with [`ReadLog`].
    Behind,
}

/// The server stops: streams end after what waits for them, no new ones are opened, and shims are handed what was put aside for them. Events
/// are still recorded.
#[derive(Message)]
#[rtype(result = "()")]
pub struct EndStreams;

/// The server stops: streams end, and the durable store is flushed and closed. Answered when that is done, or with what
/// failed. Events that come later are not recorded.
#[derive(Message)]
#[rtype(result = "Result<(), Arc<str>>")]
pub struct StopEvents;
