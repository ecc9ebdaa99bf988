//! Several servers, with their logs in etcd: who leads which resource manager, and who follows.
//!
//! etcd decides: whoever leads writes the head of a log, and every change of the log has the condition that nobody else has
//! written it since ([`group`]). Leases and refused connections only say when it is worth trying to take over.

pub mod carry;
pub mod etcd;
pub(crate) mod follow;
pub(crate) mod group;
pub(crate) mod keys;
mod manager;
mod presence;
mod probe;
mod standby;
pub(crate) mod take;

use std::{
    sync::{Arc, PoisonError, RwLock},
    thread,
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc::UnboundedSender, oneshot},
};

pub use self::keys::{Server, check_prefix};
pub use self::manager::title_server;
use self::{
    manager::{Manager, ToManager},
    standby::Standby,
};
use crate::{
    actors::topology::Topology,
    messages::{
        leaders::{ClusterStatus, Done, Drain, Fresh, Leaders, SharedConfig},
        rm::{Refusal, RefusalKind},
    },
};

/// How this server takes part.
pub struct Options {
    /// How etcd is reached.
    pub access: etcd::Access,
    /// What all keys begin with.
    pub prefix: String,
    /// This server, and where it is reached.
    pub me: Server,
    /// How long it counts as alive when nothing is heard of it; etcd takes whole seconds, two at least.
    pub lease: Duration,
    /// What was changed long ago is compacted: the etcd is this cluster's own.
    pub compact: bool,
    /// Bytes of a resource manager in etcd at which nothing new is placed.
    pub max_bytes: u64,
}

/// See the module. It lives on a thread of its own.
pub struct Cluster {
    messages: UnboundedSender<ToManager>,
    shown: Arc<Shown>,
    standby: Arc<Standby>,
}

/// What the manager shows to those who cannot wait for an answer.
#[derive(Default)]
struct Shown {
    /// Why nothing can be written at present.
    trouble: Cell<Option<Arc<str>>>,
    /// HTTP doors of the other servers, as base URLs.
    others: Cell<Arc<[String]>>,
    /// How many logs are read of those that have to be before their resource managers are shown, and how many there are, until that is
    /// all of them.
    reads: Cell<Option<(usize, usize)>>,
}

#[derive(Default)]
struct Cell<T>(RwLock<T>);

impl<T: Clone> Cell<T> {
    fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }

    fn get(&self) -> T {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("cluster").enable_all().build();
    runtime.map_err(|error| format!("no threads for the cluster: {error}"))
}

impl Cluster {
    /// Begins to take part. The receiver is told when it is known who leads what; that may take as long as etcd does not
    /// answer.
    ///
    /// # Errors
    /// The options are wrong, or there are no threads.
    pub fn start(options: Options, topology: Arc<Topology>) -> Result<(Arc<Cluster>, oneshot::Receiver<()>), String> {
        let shown = Arc::<Shown>::default();
        let (tell, opened) = oneshot::channel();
        let (begin, begun) = std::sync::mpsc::channel();
        let (of_manager, showing) = (topology.clone(), shown.clone());
        // Its runtime ends there, too: the caller may be within another one, where none may be dropped.
        let work = move || match runtime() {
            Err(why) => drop(begin.send(Err(why))),
            Ok(runtime) => runtime.block_on(async {
                match Manager::new(options, of_manager, showing) {
                    Err(why) => drop(begin.send(Err(why))),
                    Ok(manager) => {
                        let _ = begin.send(Ok(manager.sender()));
                        manager.run(tell).await;
                    }
                }
            }),
        };
        let thread = thread::Builder::new().name("cluster".to_owned()).spawn(work);
        thread.map_err(|error| format!("no thread for the cluster: {error}"))?;
        let messages = begun.recv().map_err(|_| "its thread ended".to_owned())??;
        let standby = Arc::new(Standby::new(messages.clone(), topology, shown.clone()));
        Ok((Arc::new(Cluster { messages, shown, standby }), opened))
    }

    /// The server ends: others lead what it leads. Done when they do, or cannot.
    pub async fn leave(&self) {
        let (tell, told) = oneshot::channel();
        if self.messages.send(ToManager::Leave(tell)).is_ok() {
            let _ = told.await;
        }
    }
}

impl Cluster {
    /// Asks the manager.
    fn ask<A: Send + 'static, T: Send + 'static>(
        &self,
        message: impl FnOnce(oneshot::Sender<A>) -> ToManager,
        read: impl FnOnce(A) -> Result<T, Refusal> + Send + 'static,
    ) -> Done<T> {
        let (tell, told) = oneshot::channel();
        // Where it is gone, so is the other end.
        let _ = self.messages.send(message(tell));
        Box::pin(async move {
            let gone = |_| Refusal::new(RefusalKind::Closing, "the server is shutting down");
            read(told.await.map_err(gone)?)
        })
    }
}

impl Leaders for Cluster {
    fn lead(&self, rm: &str) -> Done<()> {
        let rm = rm.to_owned();
        self.ask(|tell| ToManager::Lead(rm, tell), |done| done)
    }

    fn status(&self) -> Done<ClusterStatus> {
        self.ask(ToManager::Status, Ok)
    }

    fn drain(&self, server: &str, drain: Option<Drain>) -> Done<()> {
        let server = server.to_owned();
        self.ask(|tell| ToManager::Drain(server, drain, tell), |done| done)
    }

    fn config(&self) -> Done<SharedConfig> {
        self.ask(ToManager::Config, Ok)
    }

    fn configure(&self, config: SharedConfig) -> Done<()> {
        self.ask(|tell| ToManager::Configure(Box::new(config), tell), |done| done)
    }

    fn freshen(&self) -> BoxFuture<'static, Vec<Fresh>> {
        Box::pin(self.standby.clone().freshen())
    }

    fn hand_over(&self, rm: &str, server: &str) -> Done<()> {
        let (rm, server) = (rm.to_owned(), server.to_owned());
        self.ask(|tell| ToManager::Hand(rm, server, tell), |done| done)
    }

    fn hear_of_all(&self) -> Done<()> {
        self.ask(ToManager::Heard, |done| done)
    }

    fn trouble(&self) -> Option<Arc<str>> {
        self.shown.trouble.get()
    }

    fn reads(&self) -> Option<(usize, usize)> {
        self.shown.reads.get()
    }

    fn others(&self) -> Arc<[String]> {
        self.shown.others.get()
    }
}
