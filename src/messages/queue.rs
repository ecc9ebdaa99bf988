//! For `QueueActor`.

use std::{collections::VecDeque, sync::Arc};

use actix::prelude::*;

use crate::domain::{
    effect::QueueEffect,
    types::{Nanos, ObjectState},
};

/// What the partition did to a queue, in order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct QueueNews {
    /// The facts.
    pub effects: Vec<QueueEffect>,
    /// When.
    pub at: Nanos,
}

/// What the queue's conversation knows.
#[derive(Message)]
#[rtype(result = "QueueTalk")]
pub struct GetQueueTalk;

/// See [`GetQueueTalk`].
#[derive(Clone, Debug, Default)]
pub struct QueueTalk {
    /// State that it was told to take, and since when.
    pub state: ObjectState,
    /// Since when.
    pub since: Nanos,
    /// Applications admitted so far.
    pub admitted: u64,
    /// Applications refused so far.
    pub refused: u64,
    /// The latest refusals, oldest first: when, application, why.
    pub refusals: VecDeque<(Nanos, Arc<str>, Arc<str>)>,
    /// A draining queue is empty: it goes with the next clean-up.
    pub empty: bool,
}

/// The queue is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub struct QueueGone;
