//! The configuration of resource managers that bring none: the server's own, unless one holds for all servers of a cluster.

use std::sync::Arc;

use super::{Refusals, Topology, lock};
use crate::{
    actors::rm::{Reconfigure, handle::RmHandle},
    config::LoadedConfig,
    messages::{
        leaders::SharedConfig,
        rm::{Refusal, RefusalKind},
    },
};

/// See the module.
pub(super) struct Defaults {
    own: Arc<LoadedConfig>,
    /// Of the cluster.
    shared: Option<Arc<LoadedConfig>>,
}

impl Defaults {
    pub(super) fn of(own: LoadedConfig) -> Defaults {
        Defaults { own: Arc::new(own), shared: None }
    }

    /// What is in force.
    pub(super) fn present(&self) -> Arc<LoadedConfig> {
        self.shared.clone().unwrap_or_else(|| self.own.clone())
    }
}

impl Topology {
    /// The server's own configuration was read again: it is in force for those that brought none. False: it is not, for
    /// another one holds for all servers of the cluster.
    pub async fn reload_default(&self, config: LoadedConfig) -> (bool, Vec<(Arc<str>, Refusal)>) {
        {
            let mut defaults = lock(&self.defaults);
            defaults.own = Arc::new(config);
            if defaults.shared.is_some() {
                return (false, Vec::new());
            }
        }
        (true, self.follow_default(self.known()).await)
    }

    /// The server's own configuration.
    pub fn own_default(&self) -> Arc<LoadedConfig> {
        lock(&self.defaults).own.clone()
    }

    /// This holds for all servers of the cluster.
    pub async fn share(&self, shared: SharedConfig) {
        let SharedConfig { config, settings, by, since, .. } = shared;
        self.process.share(settings);
        let loaded = match config {
            None => None,
            Some(text) => match self.load_update(text).await {
                Ok(loaded) => Some(loaded),
                Err(refusals) => {
                    let why = match refusals {
                        Refusals::Config(refused) => refused.message,
                        Refusals::Other(refusal) => refusal.detail,
                    };
                    tracing::error!(
                        code = "configuration-refused",
                        "the configuration that holds for all servers of the cluster is not taken here, and stays as it was: {why}"
                    );
                    return;
                }
            },
        };
        let checksum = loaded.as_ref().map(|config| config.checksum.clone());
        let before = std::mem::replace(&mut lock(&self.defaults).shared, loaded);
        if before.map(|config| config.checksum.clone()) == checksum {
            return;
        }
        tracing::info!(by, since, checksum, "what holds for all servers of the cluster changed");
        self.follow(self.known()).await;
    }

    /// This server leads a resource manager from now on: it follows what holds for all servers.
    pub async fn renew(&self, rm: &str) {
        if lock(&self.defaults).shared.is_some() {
            self.follow(self.find(rm).into_iter().collect()).await;
        }
    }

    /// Sessions go on over a restart: those that brought no configuration take the server's own, which may be another one by now.
    pub async fn renew_all(&self) {
        self.follow(self.known()).await;
    }

    async fn follow(&self, all: Vec<Arc<RmHandle>>) {
        for (rm, refusal) in self.follow_default(all).await {
            tracing::error!(code = "configuration-refused", rm = &*rm, "{}", refusal.detail);
        }
    }

    /// Has those that brought no configuration take the one in force. Gives who refused it.
    async fn follow_default(&self, all: Vec<Arc<RmHandle>>) -> Vec<(Arc<str>, Refusal)> {
        let config = lock(&self.defaults).present();
        let mut refused = Vec::new();
        for handle in all {
            let message = Reconfigure {
                config: config.clone(),
                default_config: true,
                only_default: true,
                policy_group: Arc::default(),
                extra: None,
                tenant: false,
                epoch: None,
            };
            // One that ended, or that another server leads by now, has nothing to follow here.
            let over = [RefusalKind::Unknown, RefusalKind::State, RefusalKind::Moved];
            match handle.addr.send(message).await {
                Ok(Err(refusal)) if !over.contains(&refusal.kind) => refused.push((handle.id.clone(), refusal)),
                _ => {}
            }
        }
        refused
    }
}
