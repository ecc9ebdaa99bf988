//! For `PartitionActor`.

use std::{collections::BTreeSet, sync::Arc};

use actix::prelude::*;

use super::application::UnconfirmedRelease;
use super::{
    budget::{Budget, Permit},
    event::Publisher,
    rm::Deliver,
};
use crate::domain::{Partition, command::Command, conf::PartitionConf, effect::Released, types::SwapToken};

/// What a `PartitionActor` is made of.
pub struct PartitionSetup {
    /// Resource manager.
    pub rm: Arc<str>,
    /// Its session.
    pub epoch: u64,
    /// Internal name, such as `[rm-1]default`.
    pub internal: Arc<str>,
    /// Configuration.
    pub conf: Arc<PartitionConf>,
    /// Credits of the session.
    pub budget: Arc<Budget>,
    /// The session's `RmActor`.
    pub callbacks: Recipient<Deliver>,
    /// The way to `EventActor`.
    pub events: Publisher,
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

/// A new configuration: applied as a whole, or refused with the reason and nothing changed.
#[derive(Message)]
#[rtype(result = "Result<(), Arc<str>>")]
pub struct Configure(pub Arc<PartitionConf>);

/// Is the partition there to take this configuration? Asked of all before any takes it.
#[derive(Message)]
#[rtype(result = "Result<(), Arc<str>>")]
pub struct TryConfigure(pub Arc<PartitionConf>);

/// The state after everything that was sent before.
#[derive(Message)]
#[rtype(result = "Arc<Snapshot>")]
pub struct GetSnapshot;

/// A consistent picture of a partition, for readers.
pub struct Snapshot {
    /// Session.
    pub epoch: u64,
    /// The state: a cheap clone that nothing changes any more.
    pub partition: Partition,
}

/// Signs of life of nodes.
#[derive(Message)]
#[rtype(result = "()")]
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
}

/// Placements may be possible again: credits came back, or the session was resumed.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Wake;

/// The partition ends: the events of its teardown are made, then it stops. Answered when nothing of it is left.
#[derive(Message)]
#[rtype(result = "()")]
pub struct StopPartition;

/// The conversation of an application saw the shim's confirmation: the replacement is to be carried out.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Commit(pub SwapToken);

/// Releases to be sent to the shim once more.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SendAgain(pub Vec<Released>);

/// The shim is there again, after its connection was lost: what it has not confirmed is sent once more.
#[derive(Clone, Default, Message)]
#[rtype(result = "()")]
pub struct ResendUnconfirmed {
    /// Application and key of releases that are on their way to it all the same.
    pub on_their_way: Arc<OnTheirWay>,
}

/// Application and key of releases.
pub type OnTheirWay = BTreeSet<(Arc<str>, Arc<str>)>;

/// All releases of the partition that the shim has not confirmed, the oldest first.
#[derive(Message)]
#[rtype(result = "Vec<UnconfirmedRelease>")]
pub struct ListUnconfirmed;

/// What a partition's actor shows of itself, for diagnostics.
#[derive(Message)]
#[rtype(result = "PartitionTalk")]
pub struct Observe;

/// See [`Observe`].
#[derive(Clone, Debug, Default)]
pub struct PartitionTalk {
    /// Batches that wait for a conversation's answer.
    pub waiting_batches: usize,
    /// Conversations by kind: applications, queues, nodes.
    pub conversations: [usize; 3],
    /// Slices run so far.
    pub slices: u64,
    /// Placements and replacements made so far.
    pub decisions: u64,
    /// The longest slice so far in nanoseconds.
    pub longest_slice: u64,
}
