//! For `EventActor`.

use std::{net::IpAddr, sync::Arc};

use actix::prelude::*;

use super::rm::DeliverEvents;
pub use super::{
    event_batch::Batch,
    event_queue::{Ended, StreamQueue, StreamReader},
    event_settings::EventSettings,
    event_status::{EventCounters, EventStatus},
};
use crate::domain::{event::Event, event_block::EventSlice, types::Nanos};

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
}

/// The shim of this session wants the events of its partitions, every 2 s (EVT-063). Replaces an earlier session.
/// Sent before the partitions of the session start, so that the shim gets their first events too.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ShimSubscribe {
    /// Resource manager.
    pub rm: Arc<str>,
    /// Its session.
    pub epoch: u64,
    /// Where the events go.
    pub recipient: Recipient<DeliverEvents>,
}

/// The session has ended: what was collected for it is dropped. Another session of the same RM is left alone.
#[derive(Message)]
#[rtype(result = "()")]
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

/// A page of the ring (EVT-071, EVT-073).
#[derive(Message)]
#[rtype(result = "EventPage")]
pub struct GetEvents {
    /// First id, counted from 0 for this process.
    pub start: u64,
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

/// The limit of streams, in all or per host, is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Too many streaming connections")]
pub struct TooManyStreams;

/// A stream that is open until its reader is dropped.
pub struct OpenedStream {
    /// Identifies this process.
    pub instance: Arc<str>,
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
