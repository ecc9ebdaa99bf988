//! The configuration of resource managers that bring none: the server's own, unless one holds for all servers of a cluster.

use std::sync::Arc;

use futures::future::join_all;
use tokio::time::timeout;

use super::{Topology, lock, registration::tell_consequences};
use crate::{
    actors::{
        directory::{PATIENCE, Unanswered},
        rm::{Reconfigure, handle::RmHandle},
    },
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
    /// The cluster has one that was not taken here.
    untaken: bool,
}

impl Defaults {
    pub(super) fn of(own: LoadedConfig) -> Defaults {
        Defaults { own: Arc::new(own), shared: None, untaken: false }
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
        (true, self.follow_default(self.known(), false).await)
    }

    /// The server's own configuration.
    pub fn own_default(&self) -> Arc<LoadedConfig> {
        lock(&self.defaults).own.clone()
    }

    /// It is the one that holds for all servers of the cluster.
    pub(super) fn is_shared(&self, config: &Arc<LoadedConfig>) -> bool {
        lock(&self.defaults).shared.as_ref().is_some_and(|shared| Arc::ptr_eq(shared, config))
    }

    /// This holds for all servers of the cluster.
    pub async fn share(&self, shared: SharedConfig) {
        let SharedConfig { config, settings, by, since, .. } = shared;
        self.process.share(settings);
        let loaded = match config {
            None => None,
            Some(text) => match self.load_update(text, "the cluster".to_owned()).await {
                Ok(loaded) => Some(loaded),
                Err(refusals) => {
                    let why = Refusal::from(refusals).detail;
                    tracing::error!(
                        code = "configuration-refused",
                        "the configuration that holds for all servers of the cluster is not taken here, and stays as it was: {why}"
                    );
                    lock(&self.defaults).untaken = true;
                    return;
                }
            },
        };
        let checksum = loaded.as_ref().map(|config| config.checksum.clone());
        let before = {
            let mut defaults = lock(&self.defaults);
            defaults.untaken = false;
            std::mem::replace(&mut defaults.shared, loaded)
        };
        if before.map(|config| config.checksum.clone()) == checksum {
            return;
        }
        tracing::info!(by, since, checksum, "what holds for all servers of the cluster changed");
        self.follow(self.known(), false).await;
    }

    /// This server leads a resource manager from now on: it follows what holds for all servers. Where nothing does, the server's own
    /// takes the place of what held before and was taken back while its leader was away; what another server has as its own stays.
    pub async fn renew(&self, rm: &str) {
        let (only_shared, untaken) = {
            let defaults = lock(&self.defaults);
            (defaults.shared.is_none(), defaults.untaken)
        };
        if !(only_shared && untaken) {
            self.follow(self.find(rm).into_iter().collect(), only_shared).await;
        }
    }

    /// Sessions go on over a restart: those that brought no configuration take the server's own, which may be another one by now.
    pub async fn renew_all(&self) {
        self.follow(self.known(), false).await;
    }

    async fn follow(&self, all: Vec<Arc<RmHandle>>, only_shared: bool) {
        for (rm, refusal) in self.follow_default(all, only_shared).await {
            tracing::error!(code = "configuration-refused", rm = &*rm, "{}", refusal.detail);
        }
    }

    /// Has those that brought no configuration take the one in force, or only those that have one that held for all servers. Gives
    /// who refused it.
    async fn follow_default(&self, all: Vec<Arc<RmHandle>>, only_shared: bool) -> Vec<(Arc<str>, Refusal)> {
        let config = lock(&self.defaults).present();
        let shared = self.is_shared(&config);
        let message = || Reconfigure {
            config: config.clone(),
            default_config: true,
            shared,
            only_default: true,
            only_shared,
            policy_group: Arc::default(),
            extra: None,
            tenant: false,
            epoch: None,
        };
        let told = all.into_iter().map(|handle| told(handle, message()));
        join_all(told).await.into_iter().flatten().collect()
    }
}

/// Has one take it, and gives why it does not. One that hangs takes it when it goes on: nobody waits for that.
async fn told(handle: Arc<RmHandle>, message: Reconfigure) -> Option<(Arc<str>, Refusal)> {
    let rm = handle.id.clone();
    let mut done = tokio::spawn(async move {
        // One that ended, or that another server leads by now, has nothing to follow here.
        let over = [RefusalKind::Unknown, RefusalKind::State, RefusalKind::Moved];
        match handle.addr.send(message).await {
            Ok(Ok(taken)) => {
                tell_consequences(&handle.id, taken.tried).await;
                None
            }
            Ok(Err(refusals)) => Some(Refusal::from(refusals)).filter(|refusal| !over.contains(&refusal.kind)),
            Err(_) => None,
        }
    });
    let refusal = match timeout(PATIENCE, &mut done).await {
        Ok(done) => done.ok().flatten()?,
        Err(_) => {
            let late = format!(
                "{}; it takes the configuration then",
                Unanswered::Silent(format!("resource manager \"{rm}\"").into())
            );
            Refusal::new(RefusalKind::Closing, late)
        }
    };
    Some((rm, refusal))
}
