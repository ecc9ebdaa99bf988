//! What the manager tells the event system (EVT-050–EVT-056).

use std::sync::Arc;

use crate::{
    event::{Change, Detail},
    resources::Resource,
};

/// A user or group event. The message of these events is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct UgmEvent {
    /// Set, added or removed.
    pub change: Change,
    /// What of the user or group: its limit, its usage, its link to an application.
    pub detail: Detail,
    /// Name of the user or group.
    pub object: Arc<str>,
    /// Path of the queue; the application for a link.
    pub reference: Arc<str>,
    /// Amount by which the usage changed, never negative; `None` for limits and links.
    pub resource: Option<Arc<Resource>>,
}
