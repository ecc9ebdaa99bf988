//! What a partition is connected to, beside its resource manager and the event system.

use std::sync::Arc;

use actix::Addr;

use crate::{actors::journal::JournalActor, metrics::Metrics};

/// See the module. Without a link the partition does without.
#[derive(Clone, Default)]
pub struct Links {
    /// Its resource journal.
    pub journal: Option<Addr<JournalActor>>,
    /// Takes what is counted.
    pub metrics: Option<Arc<Metrics>>,
}
