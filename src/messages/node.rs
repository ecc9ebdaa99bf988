//! For `NodeActor`.

use actix::prelude::*;

use super::wait::NodeStatus;

/// How the node is: somebody waits for it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct NodeUpdate {
    /// How it is.
    pub status: NodeStatus,
}

/// The node is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub struct NodeGone;
