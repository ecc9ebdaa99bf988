//! What readers look up: every registered resource manager and every partition. Replaced as a whole at each change.

use std::{
    collections::BTreeMap,
    fmt,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use actix::{dev::ToEnvelope, prelude::*};
use arc_swap::ArcSwap;
use tokio::time::timeout;

use super::partition::PartitionActor;
use crate::config::LoadedConfig;

/// How long a reader waits for the actor of a partition or resource manager, whose thread may be held up, such as by a disk.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Shared by doors and actors.
#[derive(Default)]
pub struct Directory(ArcSwap<Listing>);

/// One state of the directory.
#[derive(Clone, Default)]
pub struct Listing {
    /// Resource managers in the order of their first registration, Stopped ones left out.
    pub rms: Vec<RmEntry>,
    /// Their partitions, in the same order and within one in that of its configuration.
    pub partitions: Vec<PartitionEntry>,
}

/// A registered resource manager.
#[derive(Clone)]
pub struct RmEntry {
    /// Its id.
    pub id: Arc<str>,
    /// Build information as given, plus `rmId` (R1.9).
    pub build_info: BTreeMap<String, String>,
    /// Configuration in force.
    pub config: Arc<LoadedConfig>,
    /// It is the server's own, and changes with that.
    pub default_config: bool,
    /// Extra configuration in force.
    pub extra: Arc<BTreeMap<String, String>>,
    /// Settings of it that are read at registration alone, as they were then; empty where that is not known here.
    pub at_registration: BTreeMap<&'static str, String>,
}

/// A partition.
#[derive(Clone)]
pub struct PartitionEntry {
    /// Its resource manager.
    pub rm: Arc<str>,
    /// Internal name `[rm]name`.
    pub internal: Arc<str>,
    /// The name that REST shows: the plain one for the RM that owned it first, `[rm]name` for later ones.
    pub shown: Arc<str>,
    /// The actor.
    pub addr: Asked<PartitionActor>,
    /// Another server leads it: this shows what its log has led to so far.
    pub followed: bool,
}

impl PartitionEntry {
    /// Its name in the configuration of its resource manager.
    pub fn name(&self) -> &str {
        self.internal.get(self.rm.len() + 2..).unwrap_or_default()
    }
}

/// An actor that readers ask. One that has not answered in time is asked again only after it has: a reader who gathers from many
/// waits once, and nothing piles up in its mailbox. What has to be carried out, however long that takes, goes to its address.
pub struct Asked<A: Actor> {
    addr: Addr<A>,
    /// What it is called in texts.
    name: Arc<str>,
    silent: Arc<AtomicBool>,
}

impl<A: Actor> fmt::Debug for Asked<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("name", &self.name).field("silent", &self.silent).finish_non_exhaustive()
    }
}

impl<A: Actor> Clone for Asked<A> {
    fn clone(&self) -> Self {
        Asked { addr: self.addr.clone(), name: self.name.clone(), silent: self.silent.clone() }
    }
}

impl<A: Actor> Deref for Asked<A> {
    type Target = Addr<A>;

    fn deref(&self) -> &Addr<A> {
        &self.addr
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// It has ended.
    #[error("{0} is being stopped; try again")]
    Gone(Arc<str>),
    /// It has not answered in time.
    #[error("{0} has not answered within {PATIENCE:?}: a disk that hangs may hold it up; try again when it goes on")]
    Silent(Arc<str>),
}

impl<A: Actor> Asked<A> {
    /// By this address, and called so.
    pub fn new(name: impl Into<Arc<str>>, addr: Addr<A>) -> Asked<A> {
        Asked { addr, name: name.into(), silent: Arc::default() }
    }

    /// It is called so from now on.
    pub fn rename(&mut self, name: impl Into<Arc<str>>) {
        self.name = name.into();
    }

    /// Why it is not asked at present.
    pub fn silent(&self) -> Option<Unanswered> {
        self.silent.load(Relaxed).then(|| Unanswered::Silent(self.name.clone()))
    }

    /// Asks it.
    pub fn send<M>(&self, question: M) -> impl Future<Output = Result<M::Result, Unanswered>> + use<A, M>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let asked = self.clone();
        async move {
            if let Some(silent) = asked.silent() {
                return Err(silent);
            }
            let mut request = Box::pin(asked.addr.send(question));
            match timeout(PATIENCE, &mut request).await {
                Ok(answer) => answer.map_err(|_| Unanswered::Gone(asked.name)),
                Err(_) => {
                    let why = Unanswered::Silent(asked.name.clone());
                    if !asked.silent.swap(true, Relaxed) {
                        tracing::warn!(code = "readers-unanswered", "{why}");
                        let until = Answers { name: asked.name, silent: asked.silent };
                        tokio::spawn(async move {
                            let _until = until;
                            let _ = request.await;
                        });
                    }
                    Err(why)
                }
            }
        }
    }
}

/// Dropped when one that was silent has answered.
struct Answers {
    name: Arc<str>,
    silent: Arc<AtomicBool>,
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.silent.store(false, Relaxed);
        tracing::info!("{} answers again", self.name);
    }
}

impl Directory {
    /// The present state.
    pub fn get(&self) -> Arc<Listing> {
        self.0.load_full()
    }

    /// Replaces the state.
    pub fn set(&self, listing: Listing) {
        self.0.store(Arc::new(listing));
    }
}

impl Listing {
    /// Without what other servers lead.
    #[must_use]
    pub fn led(&self) -> Listing {
        let partitions: Vec<_> = self.partitions.iter().filter(|entry| !entry.followed).cloned().collect();
        let followed = |rm: &RmEntry| self.partitions.iter().any(|entry| entry.followed && entry.rm == rm.id);
        Listing { rms: self.rms.iter().filter(|rm| !followed(rm)).cloned().collect(), partitions }
    }

    /// Partitions that do not answer at present.
    pub fn silent(&self) -> impl Iterator<Item = Unanswered> {
        self.partitions.iter().filter_map(|entry| entry.addr.silent())
    }

    /// A partition by its internal name, which nobody else can choose, or by the one that REST shows.
    pub fn partition(&self, name: &str) -> Option<&PartitionEntry> {
        let internal = self.partitions.iter().find(|entry| *entry.internal == *name);
        internal.or_else(|| self.partitions.iter().find(|entry| *entry.shown == *name))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{sync::oneshot, time::Instant};

    use super::*;

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Until(oneshot::Receiver<()>);

    #[derive(Message)]
    #[rtype(result = "u8")]
    struct Question;

    struct Held(u8);

    impl Actor for Held {
        type Context = Context<Self>;
    }

    impl Handler<Until> for Held {
        type Result = AtomicResponse<Self, ()>;

        fn handle(&mut self, msg: Until, _ctx: &mut Self::Context) -> Self::Result {
            AtomicResponse::new(Box::pin(async { drop(msg.0.await) }.into_actor(self)))
        }
    }

    impl Handler<Question> for Held {
        type Result = u8;

        fn handle(&mut self, _msg: Question, _ctx: &mut Self::Context) -> u8 {
            self.0 += 1;
            self.0
        }
    }

    #[actix::test]
    async fn who_does_not_answer_is_waited_for_once() {
        tokio::time::pause();
        let actor = Asked::new("partition 'p'", Held(0).start());
        assert_eq!(actor.send(Question).await, Ok(1));
        let (go_on, until) = oneshot::channel();
        actor.do_send(Until(until));
        let began = Instant::now();
        let why = Unanswered::Silent("partition 'p'".into());
        for _ in 0..100 {
            assert_eq!(actor.clone().send(Question).await, Err(why.clone()));
        }
        assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());
        assert!(why.to_string().starts_with("partition 'p' has not answered within 10s:"), "{why}");
        go_on.send(()).expect("it waits");
        while actor.silent().is_some() {
            tokio::task::yield_now().await;
        }
        // Nothing had piled up: the first was asked, the others were not.
        assert_eq!(actor.send(Question).await, Ok(3));
    }
}
