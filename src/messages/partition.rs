//! For `PartitionActor`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use actix::prelude::*;

use super::application::UnconfirmedRelease;
use super::{
    budget::{Budget, Permit},
    clock::Clock,
    event::Publisher,
    journal::Standing,
    queue::Admissions,
    recorded::{Recorded, Talks},
    rm::{Deliver, Line},
};
use crate::domain::{
    Partition,
    command::Command,
    conf::PartitionConf,
    effect::Released,
    partition::Tables,
    queue_order::{OrderRefusal, QueueOrder},
    types::{Nanos, Termination},
};

/// What a `PartitionActor` is made of.
pub struct PartitionSetup {
    /// Resource manager.
    pub rm: Arc<str>,
    /// Its session.
    pub epoch: u64,
    /// Internal name, such as `[rm-1]default`.
    pub internal: Arc<str>,
    /// The configuration that holds from now on.
    pub conf: Arc<PartitionConf>,
    /// Credits of the session.
    pub budget: Arc<Budget>,
    /// That of its resource manager.
    pub clock: Clock,
    /// How long the shim may take to confirm releases.
    pub patience: Patience,
    /// The session's `RmActor`.
    pub callbacks: Recipient<Deliver>,
    /// The way to `EventActor`.
    pub events: Publisher,
    /// What it does is recorded; `None`: it is not.
    pub recorded: Option<Recorded>,
}

/// How long the partition waits for the shim to confirm a release, and for signs of life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Patience {
    /// `rm.resendAfter`: then the release is sent again, and again after twice that time each, up to two minutes.
    pub resend_after: Duration,
    /// `rm.unconfirmedWarning`: then operators are told.
    pub warn_after: Duration,
    /// `journal.torpidAfter`: then a node without a sign of life is torpid; zero: never.
    pub torpid_after: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            resend_after: Duration::from_secs(10),
            warn_after: Duration::from_secs(300),
            torpid_after: Duration::from_secs(30),
        }
    }
}

/// Commands of one request, or of a conversation, in order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Commands {
    /// Session that they belong to; those of another are dropped.
    pub epoch: u64,
    /// The commands.
    pub commands: Vec<Command>,
    /// Credits of the request, given back after they were applied.
    pub permit: Option<Permit>,
}

impl Commands {
    /// Commands of a conversation: they take no credits.
    pub fn of(epoch: u64, commands: Vec<Command>) -> Commands {
        Commands { epoch, commands, permit: None }
    }
}

/// A new configuration, which was checked before. Answered when it is in force.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Configure(pub Arc<PartitionConf>);

/// The state after everything that was sent before.
#[derive(Message)]
#[rtype(result = "Arc<Snapshot>")]
pub struct GetSnapshot;

/// Its queues and nodes alone, after everything that was sent before: for readers who want no applications.
#[derive(Message)]
#[rtype(result = "Arc<Tables>")]
pub struct GetTables;

/// What a partition that another server leads shows from now on, and its time.
#[derive(Message)]
#[rtype(result = "()")]
pub struct ShowInstead(pub Box<Partition>, pub Nanos);

/// A partition as it was at one moment, for readers.
pub struct Snapshot {
    /// Number of the session, counted up with each registration.
    pub epoch: u64,
    /// The state: a cheap clone that nothing changes any more.
    pub partition: Partition,
}

/// The state for a snapshot of the log, after everything that was sent before; it has been recorded when this is answered.
#[derive(Message)]
#[rtype(result = "Saved")]
pub struct Save;

/// See [`Save`].
pub struct Saved {
    /// Number of the partition in its session.
    pub instance: u32,
    /// Number of its last record.
    pub number: u64,
    /// A clone that nothing changes any more.
    pub partition: Partition,
    /// What its conversations know.
    pub talks: Talks,
}

/// Signs of life of nodes. Answered with whether they are of a node that the partition has.
#[derive(Message)]
#[rtype(result = "bool")]
pub struct Alive {
    /// Session that they belong to.
    pub epoch: u64,
    /// What there is.
    pub signs: Signs,
    /// Credits of the request, given back after they were noted.
    pub permit: Option<Permit>,
}

/// See [`Alive`].
#[derive(Clone)]
pub enum Signs {
    /// Heartbeats of these nodes; unknown ones are left alone.
    Of(Arc<[Arc<str>]>),
    /// The resource manager vouches for all of its nodes from here on, or no longer.
    Vouched(bool),
    /// A heartbeat was sent for a node of the session: from here on only heartbeats count.
    Heartbeats,
}

/// Placements may be possible again: credits came back, or the session was resumed.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Wake;

/// Answered when all that the partition was told before is recorded, or never will be by this server.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AwaitRecord;

/// The partition ends: the events of its teardown are made, then it stops. Answered when nothing of it is left, with what operators
/// had told it.
#[derive(Message)]
#[rtype(result = "Standing")]
pub struct StopPartition;

/// Releases to be sent to the shim once more.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SendAgain(pub Vec<Released>);

/// A line of the session with releases of the partition that the shim has to confirm.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Carries(pub Arc<Line>);

/// Which applications the queue of this path admitted and refused; `None` where there is no such queue.
#[derive(Message)]
#[rtype(result = "Option<Admissions>")]
pub struct ShowAdmissions(pub Arc<str>);

/// An operator tells a queue to become something, or (`None`) takes that back. Answered when it is on disk and in force.
#[derive(Message)]
#[rtype(result = "Result<(), OrderRefusal>")]
pub struct OrderQueue {
    /// Path in lowercase.
    pub queue: Arc<str>,
    /// The order.
    pub order: Option<Arc<QueueOrder>>,
    /// Also where an order of the same kind holds, whose reason and time it replaces.
    pub overwrite: bool,
}

/// What a partition's actor shows of itself, for diagnostics.
#[derive(Message)]
#[rtype(result = "PartitionStatus")]
pub struct Observe;

/// See [`Observe`].
#[derive(Clone, Debug, Default)]
pub struct PartitionStatus {
    /// Batches that wait for the groups of a user.
    pub waiting_batches: usize,
    /// Actors by kind of what they talk about: applications, queues, nodes.
    pub conversations: [usize; 3],
    /// How many wait for something of these, and for how many things that are not there.
    pub waits: [usize; 2],
    /// Slices run so far.
    pub slices: u64,
    /// Placements and replacements made so far.
    pub decisions: u64,
    /// The longest slice so far in nanoseconds.
    pub longest_slice: u64,
    /// What the shim has not confirmed.
    pub unconfirmed: UnconfirmedSums,
}

/// Releases that the shim has not confirmed, over all applications of a partition.
#[derive(Clone, Debug, Default)]
pub struct UnconfirmedSums {
    /// Their number by type.
    pub by_type: BTreeMap<Termination, u64>,
    /// When the oldest was first sent.
    pub oldest: Option<Nanos>,
    /// Those that have waited longer than `rm.unconfirmedWarning`.
    pub overdue: u64,
    /// The oldest of them, at most [`UnconfirmedSums::NAMED`].
    pub named: Vec<UnconfirmedRelease>,
}

impl UnconfirmedSums {
    /// Overdue releases that are named one by one.
    pub const NAMED: usize = 20;
}
