//! What operators tell queues to become: stopped, or draining until they are empty. An order is for a path, with all that is
//! below it, and holds until it is taken back: over sessions, configurations and restarts, and whether the queue is there or not.

use std::sync::Arc;

use super::{
    coded::{list, variants},
    types::{Nanos, ObjectState},
};

/// A kind of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// No new application.
    Stop,
    /// No new application, and operators are told when the queue is empty.
    Drain,
}

impl OrderKind {
    /// Its name in paths and files.
    pub const fn name(self) -> &'static str {
        match self {
            OrderKind::Stop => "stop",
            OrderKind::Drain => "drain",
        }
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<OrderKind> {
        [OrderKind::Stop, OrderKind::Drain].into_iter().find(|kind| kind.name() == name)
    }

    /// What was done to the queue.
    pub const fn done(self) -> &'static str {
        match self {
            OrderKind::Stop => "stopped",
            OrderKind::Drain => "drained",
        }
    }

    /// The state in which the queue is shown.
    pub const fn state(self) -> ObjectState {
        match self {
            OrderKind::Stop => ObjectState::Stopped,
            OrderKind::Drain => ObjectState::Draining,
        }
    }
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOrder {
    /// What the queue is told to become.
    pub kind: OrderKind,
    /// Who gave it.
    pub by: Arc<str>,
    /// When it happened, in ns since the Unix epoch.
    pub at: Nanos,
    /// The same as RFC 3339 has it: rejections name it, and the domain knows no calendar.
    pub when: Arc<str>,
    /// Why, as it is shown to people.
    pub reason: Arc<str>,
}

impl QueueOrder {
    /// In a sentence: what was done to the queue of this path, by whom, when and why.
    pub fn told_of(&self, path: &str) -> String {
        let why = if self.reason.is_empty() { "no reason was given" } else { &*self.reason };
        format!("{path} was {} by {} at {}: {why}", self.kind.done(), self.by, self.when)
    }
}

/// Why an order is not carried out. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    /// There is no such queue.
    #[error("{0}")]
    Unknown(String),
    /// It is not for this queue, or holds already.
    #[error("{0}")]
    Conflict(String),
    /// It could not be written.
    #[error("{0}")]
    Disk(String),
}

variants!(OrderKind { 1 Stop, 2 Drain });
list!(QueueOrder { kind, by, at, when, reason });
