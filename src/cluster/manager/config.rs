//! The configuration and the settings that hold for all servers.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc::UnboundedReceiver, oneshot};

use super::Manager;
use crate::{
    actors::topology::Topology,
    cluster::etcd::{Change, If},
    messages::{
        leaders::SharedConfig,
        rm::{Refusal, RefusalKind},
    },
};

/// Longest value, bytes: etcd takes 1.5 MiB in a request.
const LONGEST: usize = 1 << 20;

/// What is to be carried out, in order.
pub enum Apply {
    /// This holds for all servers from now on.
    Config(Box<SharedConfig>),
    /// This server leads this resource manager now, which may not have heard of it.
    Led(Arc<str>),
    /// Answers when all before this is carried out.
    Opened(oneshot::Sender<()>),
}

/// Carries it out, for ever.
pub async fn carry_out(topology: Arc<Topology>, mut told: UnboundedReceiver<Apply>) {
    while let Some(apply) = told.recv().await {
        match apply {
            Apply::Config(config) => topology.share(*config).await,
            Apply::Led(rm) => topology.renew(&rm).await,
            Apply::Opened(tell) => {
                let _ = tell.send(());
            }
        }
    }
}

impl Manager {
    /// It is this, changed with this revision; `None`: nothing holds for all.
    pub(super) fn take_config(&mut self, value: Option<&Bytes>, revision: i64) {
        let read = value.map(|value| serde_json::from_slice::<SharedConfig>(value));
        let config = match read.transpose() {
            Ok(read) => read.map_or_else(SharedConfig::default, |read| SharedConfig { revision, ..read }),
            Err(error) => {
                tracing::error!(
                    code = "configuration-refused",
                    "what holds for all servers of the cluster cannot be read: {error}; it stays as it was here"
                );
                self.config_unread = Some(error.to_string());
                return;
            }
        };
        self.config_unread = None;
        if config != self.config {
            self.config = config.clone();
            let _ = self.apply.send(Apply::Config(Box::new(config)));
        }
    }

    /// It is to be this, unless it was changed since.
    pub(super) fn configure(&self, config: &SharedConfig, reply: oneshot::Sender<Result<(), Refusal>>) {
        // A structure of texts has a JSON text.
        let value = serde_json::to_vec(config).unwrap_or_default();
        if value.len() > LONGEST {
            let detail = format!("configuration and settings have {} bytes, and {LONGEST} are allowed", value.len());
            let _ = reply.send(Err(Refusal::new(RefusalKind::Invalid, detail)));
            return;
        }
        let (etcd, key) = (self.etcd.clone(), self.keys.config());
        if let Some(why) = &self.config_unread {
            let detail = format!(
                "what holds for all servers at present cannot be read by this one ({why}): say it to one of the release that wrote that, or remove it first: etcdctl del {key}"
            );
            let _ = reply.send(Err(Refusal::new(RefusalKind::State, detail)));
            return;
        }
        let condition = If { key: key.clone(), revision: config.revision };
        tokio::spawn(async move {
            let done = match etcd.txn(&[condition], vec![Change::Put(key, value.into(), 0)]).await {
                Ok(done) if done.held => Ok(()),
                Ok(_) => Err(Refusal::new(
                    RefusalKind::State,
                    "it was changed meanwhile: look at what holds now, and say it again",
                )),
                Err(trouble) => Err(Refusal::new(
                    RefusalKind::Closing,
                    format!("{trouble}: look whether it holds, or say it again"),
                )),
            };
            let _ = reply.send(done);
        });
    }
}
