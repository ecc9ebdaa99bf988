//! Event records: what happened to which object (section 9 of the queue rules, `si.v1.EventRecord`).

use std::{fmt, ops::Deref, sync::Arc};

use super::coded::{Coded, Error, Reader, Writer, list, variants};
use super::{resources::Resource, types::Nanos};

/// Events of different partitions may come out of the order of time by less than this.
pub const ORDERED: Nanos = Nanos::from_secs(10);

/// One record. Numbers are those of `si.v1`.
#[derive(Clone, Debug)]
pub struct Event {
    /// What the object is.
    pub kind: EventKind,
    /// The object.
    pub object: Arc<str>,
    /// A second object, empty for none.
    pub reference: Arc<str>,
    /// Addition, removal, setting or none.
    pub change: Change,
    /// More precisely.
    pub detail: Detail,
    /// Text, at most 1,024 bytes.
    pub message: Message,
    /// Resource, where one is part of the fact.
    pub resource: Option<Arc<Resource>>,
    /// When it was made.
    pub at: Nanos,
    /// Internal name of the partition in which it happened. Not part of `si.v1`, so shims are not told.
    pub partition: Arc<str>,
}

/// The text of a record. Most have none, and then there is nothing to count references of, here and where it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Message(Option<Arc<str>>);

impl Deref for Message {
    type Target = str;

    fn deref(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl From<Arc<str>> for Message {
    fn from(text: Arc<str>) -> Self {
        Message((!text.is_empty()).then_some(text))
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Message((!text.is_empty()).then(|| text.into()))
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// `EventRecord.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum EventKind {
    /// An ask.
    Request = 1,
    /// An application.
    App = 2,
    /// A node.
    Node = 3,
    /// A queue.
    Queue = 4,
    /// A user or a group.
    UserGroup = 5,
}

/// `EventRecord.ChangeType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum Change {
    /// No change.
    None = 0,
    /// A value of the object was set, or set anew.
    Set = 1,
    /// Something was added to the object, or the object itself.
    Add = 2,
    /// Something was removed from the object, or the object itself.
    Remove = 3,
}

/// `EventRecord.ChangeDetail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Detail {
    None = 0,
    RequestCancel = 100,
    RequestAlloc = 101,
    RequestTimeout = 102,
    AppAlloc = 200,
    AppRequest = 201,
    AppReject = 202,
    AppNew = 203,
    AppAccepted = 204,
    AppRunning = 206,
    AppCompleting = 207,
    AppCompleted = 208,
    AppFailing = 209,
    AppFailed = 210,
    AppResuming = 211,
    AppExpired = 212,
    AppCannotRunQueue = 213,
    AppRunnableQueue = 214,
    AppCannotRunQuota = 215,
    AppRunnableQuota = 216,
    NodeDecommission = 300,
    NodeSchedulable = 302,
    NodeAlloc = 303,
    NodeCapacity = 304,
    NodeOccupied = 305,
    NodeReservation = 306,
    QueueConfig = 400,
    QueueDynamic = 401,
    QueueType = 402,
    QueueMax = 403,
    QueueGuaranteed = 404,
    QueueApp = 405,
    QueueAlloc = 406,
    QueuePreemption = 407,
    AllocCancel = 500,
    AllocPreempt = 501,
    AllocTimeout = 502,
    AllocReplaced = 503,
    AllocNodeRemoved = 504,
    UserLimit = 600,
    GroupLimit = 601,
    AppLink = 602,
    UserResource = 603,
    GroupResource = 604,
}

/// Longest message of a record in bytes (EVT-005).
pub const MESSAGE_BYTES: usize = 1024;

/// Cuts a message to [`MESSAGE_BYTES`], ending in `...` and never inside a character.
pub fn cut_message(message: &str) -> Message {
    if message.len() <= MESSAGE_BYTES {
        return message.into();
    }
    format!("{}...", &message[..message.floor_char_boundary(MESSAGE_BYTES - 3)]).into()
}

/// As any text.
impl Coded for Message {
    fn write(&self, to: &mut Writer) {
        to.text(self);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        from.text().map(Message::from)
    }
}

list!(Event { kind, object, reference, change, detail, message, resource, at, partition });
variants!(EventKind { 1 Request, 2 App, 3 Node, 4 Queue, 5 UserGroup });
variants!(Change { 0 None, 1 Set, 2 Add, 3 Remove });

variants!(Detail {
    0 None,
    100 RequestCancel,
    101 RequestAlloc,
    102 RequestTimeout,
    200 AppAlloc,
    201 AppRequest,
    202 AppReject,
    203 AppNew,
    204 AppAccepted,
    206 AppRunning,
    207 AppCompleting,
    208 AppCompleted,
    209 AppFailing,
    210 AppFailed,
    211 AppResuming,
    212 AppExpired,
    213 AppCannotRunQueue,
    214 AppRunnableQueue,
    215 AppCannotRunQuota,
    216 AppRunnableQuota,
    300 NodeDecommission,
    302 NodeSchedulable,
    303 NodeAlloc,
    304 NodeCapacity,
    305 NodeOccupied,
    306 NodeReservation,
    400 QueueConfig,
    401 QueueDynamic,
    402 QueueType,
    403 QueueMax,
    404 QueueGuaranteed,
    405 QueueApp,
    406 QueueAlloc,
    407 QueuePreemption,
    500 AllocCancel,
    501 AllocPreempt,
    502 AllocTimeout,
    503 AllocReplaced,
    504 AllocNodeRemoved,
    600 UserLimit,
    601 GroupLimit,
    602 AppLink,
    603 UserResource,
    604 GroupResource,
});
