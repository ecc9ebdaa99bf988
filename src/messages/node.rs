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

/// A sign of life.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Heard {
    /// A heartbeat; else the resource manager spoke of the node.
    pub heartbeat: bool,
}

/// The rules of silence have changed for all nodes: each is judged anew.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct JudgeSilence {
    /// Silence counts from now: the nodes were vouched for until now, or are from now on.
    pub begins: bool,
}

/// The node is gone.
#[derive(Message)]
#[rtype(result = "()")]
pub struct NodeGone;
