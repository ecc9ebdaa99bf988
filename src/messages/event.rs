//! For `EventActor`.

use std::sync::Arc;

use actix::prelude::*;

use crate::domain::event::Event;

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
