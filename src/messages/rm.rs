//! For `RmActor`.

use std::sync::Arc;

use actix::prelude::*;

use crate::domain::{
    effect::{Callback, Question},
    event::Event,
};

/// Callbacks of one partition in order, and questions that come after them.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// Session that they belong to; those of another are dropped.
    pub epoch: u64,
    /// Internal name of the partition.
    pub partition: Arc<str>,
    /// What to deliver.
    pub items: Vec<Outgoing>,
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
