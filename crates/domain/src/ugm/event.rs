//! What the manager tells the event system (EVT-050–EVT-056).

use std::sync::Arc;

use crate::{
    event::{Change, Detail},
    resources::Resource,
};

/// Who is told of users and groups.
pub trait Hear {
    /// An event, in its turn.
    fn hear(&mut self, event: UgmEvent);
}

/// Nobody.
impl Hear for () {
    fn hear(&mut self, _event: UgmEvent) {}
}

/// A user or group event. The message of these events is empty. It holds nothing: each allocation has two of them.
#[derive(Clone, Copy, Debug)]
pub struct UgmEvent<'a> {
    /// Set, added or removed.
    pub change: Change,
    /// What of the user or group: its limit, its usage, its link to an application.
    pub detail: Detail,
    /// Name of the user or group.
    pub object: &'a Arc<str>,
    /// Path of the queue; the application for a link.
    pub reference: &'a Arc<str>,
    /// Amount by which the usage changed, never negative; `None` for limits and links.
    pub resource: Option<&'a Arc<Resource>>,
}
