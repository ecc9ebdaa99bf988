//! The log of a resource manager whose disk, or whoever writes to it, breaks down or is slow.

use std::fs;

use super::*;
use crate::{
    actors::rm::log::{LogSync, Logs, SNAPSHOT},
    store::log::mark::Before,
};

/// A server that keeps logs in this directory, and has read them.
async fn with_logs(base: &std::path::Path) -> Env {
    let env = reads(base);
    env.topology.restore(Before::Closed).await;
    env
}

/// A server that is to read its logs in this directory.
fn reads(base: &std::path::Path) -> Env {
    fs::create_dir_all(base).unwrap();
    let env = Env::new();
    env.topology.keep_logs(Logs {
        base: base.to_owned(),
        server: "server-1".to_owned(),
        sync: LogSync::Interval,
        snapshot: SNAPSHOT,
        shared: false,
        metrics: None,
        unread: Mutex::default(),
        gone: Mutex::default(),
    });
    env
}

#[actix::test]
async fn whoever_comes_while_logs_are_read_waits_a_moment_and_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let env = reads(&dir.path().join("log"));
    let began = tokio::time::Instant::now();
    let refused = env.topology.admits().await;
    assert_eq!(refused, Err("the server reads its log: 0 % of it are done".to_owned()));
    assert_eq!(began.elapsed().as_secs(), 2);
    let (one, two) = (env.topology.clone(), env.topology.clone());
    let waits = [actix::spawn(async move { one.admits().await }), actix::spawn(async move { two.admits().await })];
    env.pass(Duration::from_secs(1)).await;
    assert!(waits.iter().all(|wait| !wait.is_finished()));
    env.topology.restore(Before::Closed).await;
    for wait in waits {
        assert_eq!(wait.await.unwrap(), Ok(()));
    }
    assert_eq!(env.topology.admits().await, Ok(()));
}

impl Env {
    fn failing(&self) -> Option<Arc<str>> {
        self.rm().view.load().failing.clone()
    }

    async fn until_failing(&self, wanted: bool) {
        for _ in 0..1_000 {
            if self.failing().is_some() == wanted {
                return;
            }
            self.pass(Duration::from_millis(10)).await;
        }
        panic!("failing: {:?}", self.failing());
    }
}

#[actix::test]
async fn a_thread_that_breaks_down_with_batch_is_a_log_that_fails_and_goes_on_with_the_next() {
    breaks_down("batch").await;
}

#[actix::test]
async fn a_thread_that_breaks_down_with_interval_is_a_log_that_fails_and_goes_on_with_the_next() {
    breaks_down("interval").await;
}

async fn breaks_down(sync: &str) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("log");
    let env = with_logs(&base).await;
    env.register("rm-1", &[("log.sync", sync)]).await;
    let mut stream = env.stream(0).await;
    let view = env.rm().view.load_full();
    let log = view.log.as_ref().unwrap();
    fs::write(base.join("rm-1.breaks"), "").unwrap();
    env.nodes(1).await;
    env.until_failing(true).await;
    let why = env.failing().unwrap();
    assert!(why.contains("writing broke down") && why.contains("nothing is taken"), "{why}");
    assert_eq!(env.rm().gate("NodeRequest").unwrap_err().kind, crate::messages::rm::RefusalKind::Closing);
    assert_eq!(env.topology.faults_of_logs().unwrap().len(), 1);
    // With interval the kernel had it.
    assert_eq!(stream.seqs().len(), usize::from(sync == "interval"), "{sync}");
    // The clock stands still while the thread writes.
    env.pass(Duration::from_millis(10)).await;
    assert!(log.behind() > Duration::ZERO);
    fs::remove_file(base.join("rm-1.breaks")).unwrap();
    env.until_failing(false).await;
    env.settle().await;
    assert_eq!(stream.seqs().len(), usize::from(sync == "batch"), "nothing is lost: {sync}");
    for _ in 0..100 {
        env.pass(Duration::from_millis(10)).await;
    }
    assert_eq!(log.behind(), Duration::ZERO, "{sync}");
    // All of it is there for the next process, each record once.
    let title = crate::store::log::title_of(&base.join("rm-1")).unwrap();
    let end = crate::store::log::read(&base.join("rm-1"), &title, 0, |_| Ok(())).unwrap();
    assert!(end.cut.is_none() && end.last >= 2, "{end:?}");
}

#[actix::test]
async fn a_slow_disk_holds_up_with_batch_what_waits_for_it_and_nothing_else() {
    is_slow("batch").await;
}

#[actix::test]
async fn a_slow_disk_holds_up_nothing_with_interval() {
    is_slow("interval").await;
}

async fn is_slow(sync: &str) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("log");
    let env = with_logs(&base).await;
    env.register("rm-1", &[("log.sync", sync)]).await;
    let mut stream = env.stream(0).await;
    // What the stream made is on the disk.
    for _ in 0..100 {
        env.pass(Duration::from_millis(10)).await;
    }
    let view = env.rm().view.load_full();
    let log = view.log.as_ref().unwrap();
    let (slow, before) = (base.join("rm-1.slow"), log.synced());
    fs::write(&slow, "").unwrap();
    for lines in 1..=3 {
        // Each is taken, while the first is on its way to the disk.
        env.nodes(1).await;
        env.settle().await;
        assert!(env.failing().is_none() && env.rm().gate("NodeRequest").is_ok(), "{sync}");
        let (told, due) = (stream.seqs().len(), if sync == "interval" { 1 } else { 0 });
        assert_eq!(told, due, "{sync}: {lines}");
    }
    assert_eq!(log.synced(), before, "{sync}");
    fs::remove_file(&slow).unwrap();
    for _ in 0..1_000 {
        env.pass(Duration::from_millis(10)).await;
        if log.behind() == Duration::ZERO {
            break;
        }
    }
    assert!(log.behind() == Duration::ZERO && log.synced() >= before + 3, "{sync}");
    assert_eq!(stream.seqs().len(), if sync == "interval" { 0 } else { 3 }, "{sync}");
}

#[actix::test]
async fn a_log_that_begins_right_after_another_was_dropped_is_not_removed_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("log");
    let env = with_logs(&base).await;
    for round in 0..100 {
        env.register("rm-1", &[("log.sync", "off")]).await;
        env.register("rm-1", &[("log.sync", "batch")]).await;
        let title = crate::store::log::title_of(&base.join("rm-1")).unwrap();
        let end = crate::store::log::read(&base.join("rm-1"), &title, 0, |_| Ok(())).unwrap();
        assert!(end.cut.is_none() && end.last >= 1 && env.failing().is_none(), "{round}: {end:?}");
    }
}
