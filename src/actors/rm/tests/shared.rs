//! A log that several servers share: what is in it when another one goes on, and who forgets it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::{
    lead::{Anywhere, one_of_several},
    *,
};
use crate::{
    actors::rm::{
        follow::Follower,
        lead::{Elsewhere, Lead, moved},
        replay::Found,
    },
    messages::{
        rm::{RefusalKind, Unregister},
    },
    store::log::{Far, Place, WriteError, far},
};

/// A log that is kept, and takes nothing while it refuses.
#[derive(Debug, Default)]
struct Memory {
    frames: Mutex<Vec<u8>>,
    refuses: AtomicBool,
}

impl Far for Memory {
    fn append(&self, frames: &[u8]) -> Result<(), WriteError> {
        if self.refuses.load(SeqCst) {
            return Err(far::failed("append to", "a test", "it does not answer"));
        }
        self.frames.lock().unwrap().extend_from_slice(frames);
        Ok(())
    }

    fn snapshot(&self, _: Place, _: Vec<u8>) -> Result<(), WriteError> {
        Ok(())
    }

    fn prune(&self, index: u64, _: u64) -> Result<(), WriteError> {
        let mut frames = self.frames.lock().unwrap();
        let whole = std::mem::take(&mut *frames);
        let mut at = 0;
        for record in crate::store::log::records(&whole) {
            let (record, length) = record.unwrap();
            if record.index >= index {
                frames.extend_from_slice(&whole[at..at + length]);
            }
            at += length;
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), WriteError> {
        self.frames.lock().unwrap().clear();
        Ok(())
    }

    fn room(&self) -> (u64, u64) {
        (0, 1 << 20)
    }
}

impl Memory {
    fn found(&self, rm: &str) -> Found {
        let frames = self.frames.lock().unwrap();
        let first = crate::store::log::records(&frames).next().unwrap().unwrap().0.index;
        let mut follower = Follower::after(first - 1, None);
        follower.apply(&frames).unwrap();
        follower.found(rm)
    }

    fn is_removed(&self) -> bool {
        self.frames.lock().unwrap().is_empty()
    }
}

impl Env {
    /// This server begins to lead a resource manager of which nothing was recorded.
    async fn begins(&self, rm: &str, log: Arc<dyn Far>) {
        let handle = self.topology.find_or_keep(rm).unwrap();
        handle.addr.send(Lead { log, found: None }).await.unwrap();
    }

    /// This server takes over.
    async fn takes_over(&self, rm: &str, log: &Arc<Memory>) {
        let handle = self.topology.find_or_keep(rm).unwrap();
        let found = Some(Box::new(log.found(rm)));
        handle.addr.send(Lead { log: log.clone(), found }).await.unwrap();
        self.settle().await;
    }

    /// Another server takes over. `forgets`: and this one is started again, so that it knows what it is told from then on.
    async fn hands_over(&self, rm: &str, forgets: bool) {
        let handle = self.topology.find_or_keep(rm).unwrap();
        handle.addr.send(Elsewhere(moved(rm, None))).await.unwrap();
        if forgets {
            self.topology.gone(rm);
        }
        self.settle().await;
    }

    async fn ends(&self, rm: &str) -> Result<(), Refusal> {
        self.topology.find(rm).unwrap().addr.send(Unregister).await.unwrap()
    }

    async fn state_of(&self, rm: &str) -> RmState {
        self.topology.find(rm).unwrap().addr.send(Info).await.unwrap().state
    }

    /// So many others come and end.
    async fn others_end(&self, count: usize) {
        for n in 0..count {
            let rm = format!("other-{n}");
            self.begins(&rm, Arc::new(Anywhere)).await;
            self.register(&rm, &[]).await;
            self.ends(&rm).await.unwrap();
        }
        self.settle().await;
    }
}

#[actix::test]
async fn one_that_ended_here_and_goes_on_is_not_forgotten_with_others_that_end() {
    let env = one_of_several();
    let (here, there) = (Arc::<Memory>::default(), Arc::<Memory>::default());
    for (rm, log) in [("here", &here), ("there", &there)] {
        env.begins(rm, log.clone()).await;
        env.register(rm, &[]).await;
        env.ends(rm).await.unwrap();
        env.hands_over(rm, false).await;
    }
    // A session begins at another server, and comes here.
    let elsewhere = begun_elsewhere(&env, &here).await;
    env.takes_over("here", &here).await;
    assert_eq!(env.state_of("here").await, RmState::Paused);
    env.others_end(102).await;
    assert_eq!(env.state_of("here").await, RmState::Paused, "its session runs on");
    assert!(!here.is_removed() && !there.is_removed());
    assert_eq!(here.found("here").epoch, elsewhere);
    let known = env.topology.find("there").expect("it is known");
    assert_eq!(known.is_here().unwrap_err().kind, RefusalKind::Closing, "and led by another server");
    assert!(env.topology.find("other-0").is_none(), "others are forgotten");
}

/// Has a session in this log that another server began; gives its number.
async fn begun_elsewhere(env: &Env, log: &Arc<Memory>) -> u64 {
    // By another name, so that this server's own actor of it hears nothing of that.
    let handle = env.topology.find_or_keep("twin").unwrap();
    handle.addr.send(Lead { log: log.clone(), found: Some(Box::new(log.found("twin"))) }).await.unwrap();
    let epoch = env.register("twin", &[]).await;
    env.hands_over("twin", true).await;
    epoch
}

#[actix::test]
async fn one_that_is_taken_over_again_and_again_counts_once_among_the_stopped_ones() {
    let env = one_of_several();
    env.others_end(50).await;
    let log = Arc::<Memory>::default();
    env.begins("rm-1", log.clone()).await;
    env.register("rm-1", &[]).await;
    env.ends("rm-1").await.unwrap();
    for _ in 0..60 {
        env.takes_over("rm-1", &log).await;
    }
    assert!(env.topology.find("other-0").is_some(), "51 are Stopped");
}

#[actix::test]
async fn one_whose_log_is_gone_is_known_no_more() {
    let env = one_of_several();
    let log = Arc::<Memory>::default();
    env.begins("rm-1", log.clone()).await;
    env.register("rm-1", &[]).await;
    let addr = env.rm().addr.clone();
    env.topology.gone("rm-1");
    // It ends when its partitions have.
    env.pass(Duration::from_secs(1)).await;
    assert!(env.topology.find("rm-1").is_none() && !addr.connected());
    assert!(env.topology.directory.get().rms.is_empty());
    // One that comes again meanwhile stays.
    env.begins("rm-1", log).await;
    env.topology.gone("rm-1");
    let kept = env.topology.find_or_keep("rm-1").unwrap();
    kept.addr.do_send(Elsewhere(moved("rm-1", None)));
    env.pass(Duration::from_secs(1)).await;
    assert!(Arc::ptr_eq(&env.rm(), &kept) && kept.addr.connected());
}
