//! What the handlers of all HTTP doors share.

use std::sync::Arc;

use super::{forward::Forward, origins::Origins};
use crate::{
    access::{Audit, Rates, Tokens},
    actors::topology::Topology,
    messages::limits::Limits,
    metrics::Refused,
};

/// What the doors share.
pub struct Doors {
    /// The wiring.
    pub topology: Arc<Topology>,
    /// Who is let in; `None`: everybody.
    pub tokens: Option<Arc<Tokens>>,
    /// Which pages may send requests.
    pub origins: Origins,
    /// Counts those who are refused.
    pub refused: Refused,
    /// Who changed what.
    pub audit: Arc<Audit>,
    /// How many requests a caller may send.
    pub rates: Arc<Rates>,
    /// How requests are sent on to other servers, where there are any.
    pub forward: Option<Arc<Forward>>,
}

impl Doors {
    /// What a request may bring.
    pub fn limits(&self) -> &Limits {
        &self.topology.limits
    }
}
