//! The conversations of a partition: one actor per live queue, application and node, on the partition's arbiter. Effects
//! are collected by receiver and handed over once per batch or slice.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use actix::prelude::*;
use rustc_hash::FxHashMap;

use crate::{
    actors::{application::ApplicationActor, node::NodeActor, queue::QueueActor, unconfirmed::Unconfirmed},
    domain::{
        effect::{AppEffect, NodeEffect, QueueEffect},
        types::Nanos,
    },
    messages::{
        application::{AppGone, AppNews, GetUnconfirmed, Resend, UnconfirmedRelease},
        node::{NodeGone, NodeNews},
        partition::{Patience, ResendUnconfirmed, SendAgain, UnconfirmedSums},
        queue::{QueueGone, QueueNews},
    },
};

type Id = Arc<str>;

/// See the module.
pub(super) struct Conversations {
    unconfirmed: Rc<Unconfirmed>,
    send: Recipient<SendAgain>,
    apps: FxHashMap<Id, Addr<ApplicationActor>>,
    queues: FxHashMap<Id, Addr<QueueActor>>,
    nodes: FxHashMap<Id, Addr<NodeActor>>,
    app_news: BTreeMap<Id, Vec<AppEffect>>,
    queue_news: BTreeMap<Id, Vec<QueueEffect>>,
    node_news: BTreeMap<Id, Vec<NodeEffect>>,
}

fn app_of(effect: &AppEffect) -> &Id {
    match effect {
        AppEffect::Added { app } | AppEffect::Removed { app } | AppEffect::Confirmed { app, .. } => app,
        AppEffect::Unconfirmed { release } => &release.app,
        AppEffect::Ended { summary } => &summary.app,
    }
}

fn queue_of(effect: &QueueEffect) -> &Id {
    match effect {
        QueueEffect::Added { queue }
        | QueueEffect::Removed { queue }
        | QueueEffect::State { queue, .. }
        | QueueEffect::Admitted { queue, .. }
        | QueueEffect::Refused { queue, .. }
        | QueueEffect::Emptied { queue } => queue,
    }
}

fn node_of(effect: &NodeEffect) -> &Id {
    match effect {
        NodeEffect::Registered { node, .. }
        | NodeEffect::Held { node }
        | NodeEffect::Seen { node }
        | NodeEffect::Capacity { node, .. }
        | NodeEffect::Schedulable { node, .. }
        | NodeEffect::Emptied { node }
        | NodeEffect::Removed { node } => node,
    }
}

impl Conversations {
    pub(super) fn new(unconfirmed: Rc<Unconfirmed>, send: Recipient<SendAgain>) -> Conversations {
        Conversations {
            unconfirmed,
            send,
            apps: FxHashMap::default(),
            queues: FxHashMap::default(),
            nodes: FxHashMap::default(),
            app_news: BTreeMap::new(),
            queue_news: BTreeMap::new(),
            node_news: BTreeMap::new(),
        }
    }

    /// Number of conversations: applications, queues, nodes.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.apps.len(), self.queues.len(), self.nodes.len()]
    }

    pub(super) fn app(&mut self, effect: AppEffect) {
        let app = app_of(&effect).clone();
        match effect {
            AppEffect::Added { .. } => {
                let actor = ApplicationActor::new(app.clone(), self.unconfirmed.clone(), self.send.clone());
                self.apps.insert(app, actor.start());
            }
            AppEffect::Removed { .. } => {
                if let Some(addr) = self.apps.remove(&app) {
                    if let Some(news) = self.app_news.remove(&app) {
                        addr.do_send(AppNews(news));
                    }
                    addr.do_send(AppGone);
                }
            }
            effect => self.app_news.entry(app).or_default().push(effect),
        }
    }

    pub(super) fn queue(&mut self, effect: QueueEffect) {
        let queue = queue_of(&effect).clone();
        match effect {
            QueueEffect::Removed { .. } => {
                self.queue_news.remove(&queue);
                if let Some(addr) = self.queues.remove(&queue) {
                    addr.do_send(QueueGone);
                }
                return;
            }
            QueueEffect::Added { .. } => {
                self.queues.insert(queue.clone(), QueueActor::default().start());
            }
            _ => {}
        }
        self.queue_news.entry(queue).or_default().push(effect);
    }

    pub(super) fn node(&mut self, effect: NodeEffect, now: Nanos) {
        let node = node_of(&effect).clone();
        match effect {
            NodeEffect::Removed { .. } => {
                self.node_news.remove(&node);
                if let Some(addr) = self.nodes.remove(&node) {
                    addr.do_send(NodeGone);
                }
                return;
            }
            NodeEffect::Registered { .. } => {
                self.nodes.insert(node.clone(), NodeActor::new(node.clone(), now).start());
            }
            _ => {}
        }
        self.node_news.entry(node).or_default().push(effect);
    }

    /// Hands over what was collected.
    pub(super) fn flush(&mut self, now: Nanos) {
        for (app, news) in std::mem::take(&mut self.app_news) {
            if let Some(addr) = self.apps.get(&app) {
                addr.do_send(AppNews(news));
            }
        }
        for (queue, effects) in std::mem::take(&mut self.queue_news) {
            if let Some(addr) = self.queues.get(&queue) {
                addr.do_send(QueueNews { effects, at: now });
            }
        }
        for (node, effects) in std::mem::take(&mut self.node_news) {
            if let Some(addr) = self.nodes.get(&node) {
                addr.do_send(NodeNews { effects, at: now });
            }
        }
    }

    /// What the shim has not confirmed is sent again.
    pub(super) fn resend(&self, resend: &ResendUnconfirmed) {
        for addr in self.unconfirmed.waiting() {
            addr.do_send(Resend(resend.clone()));
        }
    }

    /// How long the shim may take from now on.
    pub(super) fn set_patience(&self, patience: Patience) {
        self.unconfirmed.patience.set(patience);
    }

    /// The numbers of what is not confirmed.
    pub(super) fn unconfirmed_sums(&self) -> UnconfirmedSums {
        self.unconfirmed.sums()
    }

    /// Everything that is not confirmed, the oldest first.
    pub(super) fn unconfirmed(&self) -> impl Future<Output = Vec<UnconfirmedRelease>> + use<> {
        let unconfirmed = self.unconfirmed.clone();
        async move {
            // Conversations that were told of something before have their turn first: who waits then is known.
            tokio::task::yield_now().await;
            let asked: Vec<_> = unconfirmed.waiting().iter().map(|addr| addr.send(GetUnconfirmed)).collect();
            let mut all: Vec<UnconfirmedRelease> =
                futures::future::join_all(asked).await.into_iter().flatten().flatten().collect();
            all.sort_by(|a, b| (a.since, &a.release.key).cmp(&(b.since, &b.release.key)));
            all
        }
    }

    /// Ends all conversations.
    pub(super) fn stop(&mut self) {
        for (_, addr) in self.apps.drain() {
            addr.do_send(AppGone);
        }
        for (_, addr) in self.queues.drain() {
            addr.do_send(QueueGone);
        }
        for (_, addr) in self.nodes.drain() {
            addr.do_send(NodeGone);
        }
    }
}
