//! For `QueueActor`.

use std::{collections::VecDeque, sync::Arc};

use actix::prelude::*;

use super::wait::QueueStatus;
use crate::domain::{effect::QueueEffect, types::Nanos};

/// What the partition did to a queue, in order, and how it is then, where somebody waits for it.
#[derive(Debug, Default, Message)]
#[rtype(result = "()")]
pub struct QueueUpdate {
    /// The facts.
    pub effects: Vec<QueueEffect>,
    /// When it happened, in ns since the Unix epoch.
    pub at: Nanos,
    /// How it is.
    pub status: Option<QueueStatus>,
}

/// Which applications a queue admitted and refused.
#[derive(Message)]
#[rtype(result = "Admissions")]
pub struct GetAdmissions;

/// See [`GetAdmissions`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admissions {
    /// Applications admitted since the queue came.
    pub admitted: u64,
    /// Applications refused since then.
    pub refused: u64,
    /// The latest refusals, the oldest first.
    pub refusals: VecDeque<AppRefusal>,
}

/// Refusals that are remembered.
const REFUSALS: usize = 100;

impl Admissions {
    /// Takes note of what the partition did.
    pub fn take(&mut self, effect: QueueEffect, at: Nanos) {
        match effect {
            QueueEffect::Admitted { .. } => self.admitted += 1,
            QueueEffect::Refused { app, reason, .. } => {
                self.refused += 1;
                self.refusals.push_back(AppRefusal { at, app, reason });
                if self.refusals.len() > REFUSALS {
                    self.refusals.pop_front();
                }
            }
            // The life of its actor says the same.
            QueueEffect::Added { .. } | QueueEffect::Removed { .. } => {}
        }
    }
}

/// An application that a queue did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppRefusal {
    /// When it happened, in ns since the Unix epoch.
    pub at: Nanos,
    /// Id of the application.
    pub app: Arc<str>,
    /// Why, as it is shown to people.
    pub reason: Arc<str>,
}

/// The queue is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub struct QueueGone;
