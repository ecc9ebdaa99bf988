//! For `NodeActor`.

use std::sync::Arc;

use actix::prelude::*;

use crate::domain::{effect::NodeEffect, types::Nanos};

/// What the partition did to a node, in order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct NodeNews {
    /// The facts.
    pub effects: Vec<NodeEffect>,
    /// When.
    pub at: Nanos,
}

/// What the node's conversation knows.
#[derive(Message)]
#[rtype(result = "NodeTalk")]
pub struct GetNodeTalk;

/// See [`GetNodeTalk`].
#[derive(Clone, Debug)]
pub struct NodeTalk {
    /// Node id.
    pub node: Arc<str>,
    /// Host name, or the id where the shim gave none.
    pub host: Arc<str>,
    /// Last sign of life.
    pub seen: Nanos,
    /// Drained by the shim since.
    pub draining: Option<Nanos>,
    /// It is drained and nothing is left on it.
    pub drained: bool,
}

/// The node is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub struct NodeGone;
