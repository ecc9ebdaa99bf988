//! Who leads, as the cluster tells it.

use super::*;
use crate::{
    actors::rm::{
        lead::{Elsewhere, Lead, moved},
        log::{LogSync, Logs, SNAPSHOT},
    },
    store::log::{Far, Place, WriteError},
};

/// A log that takes everything.
#[derive(Debug)]
pub(super) struct Anywhere;

impl Far for Anywhere {
    fn append(&self, _: &[u8]) -> Result<(), WriteError> {
        Ok(())
    }

    fn snapshot(&self, _: Place, _: Vec<u8>) -> Result<(), WriteError> {
        Ok(())
    }

    fn prune(&self, _: u64, _: u64) -> Result<(), WriteError> {
        Ok(())
    }

    fn remove(&self) -> Result<(), WriteError> {
        Ok(())
    }

    fn room(&self) -> (u64, u64) {
        (0, 1 << 20)
    }
}

/// One of several servers.
pub(super) fn one_of_several() -> Env {
    let env = Env::new();
    env.topology.keep_logs(Logs {
        base: Default::default(),
        server: "etcd /callboard".to_owned(),
        sync: LogSync::Batch,
        snapshot: SNAPSHOT,
        shared: true,
        metrics: None,
        unread: Mutex::default(),
        gone: Mutex::default(),
    });
    env.topology.opened();
    env
}

#[actix::test]
async fn one_that_is_led_here_and_was_never_registered_outlives_a_stream_that_waited() {
    let env = one_of_several();
    let waits = env.open(Want::Next { predicates: Predicates::Batch }).await.expect("waits");
    let told = env.topology.find_or_keep("rm-1").expect("an id");
    told.addr.send(Lead { log: Arc::new(Anywhere), found: None }).await.expect("alive");
    waits.lose().await;
    env.settle().await;
    assert!(Arc::ptr_eq(&env.rm(), &told), "the actor that was told is still the one that is found");
    assert_eq!(env.register("rm-1", &[]).await, 1);
}

#[actix::test]
async fn one_that_is_told_who_leads_it_while_its_last_stream_goes_has_heard_it() {
    let env = one_of_several();
    let waits = env.open(Want::Next { predicates: Predicates::Batch }).await.expect("waits");
    // It was found, and the word for it is on its way.
    let told = env.topology.find_or_keep("rm-1").expect("an id");
    waits.lose().await;
    told.addr.send(Elsewhere(moved("rm-1", None))).await.expect("alive");
    env.rm().is_here().expect_err("it is led elsewhere");
    // One of which nobody was told anything goes with its stream.
    let (to, _words) = unbounded_channel();
    let other = env.topology.find_or_create("rm-2").expect("an id");
    let attach =
        Attach { door: "grpc", want: Want::Next { predicates: Predicates::Batch }, to, progress: Arc::default() };
    drop(other.addr.send(attach).await.expect("alive").expect("waits"));
    env.settle().await;
    assert!(env.topology.find("rm-2").is_none());
}
