//! `NodeActor`: the conversation with a node's side: its registration, its drain and undrain by the shim, its last sign of
//! life, and whether a drained node is empty. Capacity and usage are the partition's.

use std::sync::Arc;

use actix::prelude::*;

use crate::{
    domain::{effect::NodeEffect, types::Nanos},
    messages::node::{GetNodeTalk, NodeGone, NodeNews, NodeTalk},
};

/// See the module.
pub struct NodeActor {
    talk: NodeTalk,
    empty: bool,
}

impl NodeActor {
    /// An actor for a node that was registered at this time.
    pub fn new(node: Arc<str>, at: Nanos) -> NodeActor {
        let talk = NodeTalk { host: node.clone(), node, seen: at, draining: None, drained: false };
        NodeActor { talk, empty: true }
    }
}

impl Actor for NodeActor {
    type Context = Context<Self>;
}

impl Handler<NodeNews> for NodeActor {
    type Result = ();

    fn handle(&mut self, news: NodeNews, _ctx: &mut Self::Context) {
        let talk = &mut self.talk;
        for effect in news.effects {
            match effect {
                NodeEffect::Registered { host, schedulable, .. } => {
                    talk.host = host;
                    talk.draining = (!schedulable).then_some(news.at);
                }
                NodeEffect::Schedulable { schedulable, empty, .. } => {
                    talk.draining = (!schedulable).then_some(news.at);
                    self.empty = empty;
                }
                NodeEffect::Emptied { .. } => self.empty = true,
                NodeEffect::Held { .. }
                | NodeEffect::Seen { .. }
                | NodeEffect::Capacity { .. }
                | NodeEffect::Removed { .. } => {}
            }
            talk.seen = news.at;
        }
        talk.drained = talk.draining.is_some() && self.empty;
    }
}

impl Handler<GetNodeTalk> for NodeActor {
    type Result = MessageResult<GetNodeTalk>;

    fn handle(&mut self, _msg: GetNodeTalk, _ctx: &mut Self::Context) -> Self::Result {
        MessageResult(self.talk.clone())
    }
}

impl Handler<NodeGone> for NodeActor {
    type Result = ();

    fn handle(&mut self, _msg: NodeGone, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
