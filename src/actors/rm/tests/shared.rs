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
        leaders::SharedConfig,
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
        self.topology.find(rm).unwrap().addr.send(Unregister::default()).await.unwrap()
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

    /// What operators have told a partition.
    fn drains(&self, internal: &str, hosts: &[&str]) {
        let hosts = hosts.iter().map(|host| (*host).into()).collect();
        self.stands.lock().unwrap().insert(internal.into(), Standing { hosts, ..Standing::default() });
    }

    /// The hosts with which partitions began since this was asked, that were drained before; `None`: the journal tells.
    fn begun(&self) -> Vec<Option<Vec<Arc<str>>>> {
        let begun = std::mem::take(&mut *self.begun.lock().unwrap());
        begun.into_iter().map(|standing| standing.map(|standing| standing.hosts)).collect()
    }
}

fn hosts(hosts: &[&str]) -> Option<Vec<Arc<str>>> {
    Some(hosts.iter().map(|host| (*host).into()).collect())
}

const ONE: &str = "partitions: [{name: default, queues: [{name: root}]}]";
const TWO: &str = "partitions: [{name: default, queues: [{name: root}]}, {name: gpu, queues: [{name: root}]}]";

async fn configured(env: &Env, text: &str) {
    env.topology.configure("rm-1", None, "", text.into(), map(&[]), Sender::default()).await.unwrap();
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

#[actix::test]
async fn what_operators_took_back_holds_at_the_next_server_whatever_its_journal_knows() {
    let env = one_of_several();
    let log = Arc::<Memory>::default();
    env.begins("rm-1", log.clone()).await;
    env.register("rm-1", &[]).await;
    assert_eq!(env.begun(), [None], "what the log has never had is known to the journal, if at all");
    env.ends("rm-1").await.unwrap();
    env.hands_over("rm-1", true).await;
    env.takes_over("rm-1", &log).await;
    env.register("rm-1", &[]).await;
    assert_eq!(env.begun(), [hosts(&[])], "nothing is drained");
    env.drains("[rm-1]default", &["h1"]);
    env.ends("rm-1").await.unwrap();
    env.hands_over("rm-1", true).await;
    env.takes_over("rm-1", &log).await;
    env.register("rm-1", &[]).await;
    assert_eq!(env.begun(), [hosts(&["h1"])]);
}

#[actix::test]
async fn a_log_that_holds_a_drain_is_not_forgotten() {
    let env = one_of_several();
    let (drained, other) = (Arc::<Memory>::default(), Arc::<Memory>::default());
    env.drains("[drained]default", &["h1"]);
    for (rm, log) in [("drained", &drained), ("plain", &other)] {
        env.begins(rm, log.clone()).await;
        env.register(rm, &[]).await;
        env.ends(rm).await.unwrap();
    }
    env.others_end(101).await;
    // Files are removed on a thread of their own.
    for _ in 0..1_000 {
        if other.is_removed() {
            break;
        }
        env.pass(Duration::from_millis(10)).await;
    }
    assert!(other.is_removed() && env.topology.find("plain").is_none());
    assert!(!drained.is_removed());
    env.begun();
    assert_eq!(env.register("drained", &[]).await, 2);
    assert_eq!(env.begun(), [hosts(&["h1"])]);
    // At another server as well, which goes by the log.
    env.ends("drained").await.unwrap();
    env.hands_over("drained", true).await;
    env.takes_over("drained", &drained).await;
    env.others_end(101).await;
    assert!(!drained.is_removed() && env.topology.find("drained").is_some());
}

#[actix::test]
async fn a_partition_that_a_configuration_left_out_comes_back_as_operators_told_it() {
    let env = one_of_several();
    let log = Arc::<Memory>::default();
    env.begins("rm-1", log.clone()).await;
    let with_two = Registration { rm: "rm-1".into(), config: TWO.into(), ..Default::default() };
    let with_one = Registration { config: ONE.into(), ..with_two.clone() };
    env.try_register(with_two.clone()).await.unwrap();
    env.drains("[rm-1]gpu", &["g1"]);
    env.begun();
    configured(&env, ONE).await;
    configured(&env, TWO).await;
    assert_eq!(env.begun(), [hosts(&["g1"])]);
    // Over a move.
    configured(&env, ONE).await;
    env.hands_over("rm-1", true).await;
    env.takes_over("rm-1", &log).await;
    env.begun();
    configured(&env, TWO).await;
    assert_eq!(env.begun(), [hosts(&["g1"])]);
    // Over a registration without it, which begins a log, and a move.
    env.try_register(with_one.clone()).await.unwrap();
    env.hands_over("rm-1", true).await;
    env.takes_over("rm-1", &log).await;
    env.begun();
    configured(&env, TWO).await;
    assert_eq!(env.begun(), [hosts(&["g1"])]);
    // Over the end of a session that did not have it.
    configured(&env, ONE).await;
    env.ends("rm-1").await.unwrap();
    env.hands_over("rm-1", true).await;
    env.takes_over("rm-1", &log).await;
    env.try_register(with_one).await.unwrap();
    env.begun();
    env.try_register(with_two).await.unwrap();
    assert_eq!(env.begun(), [hosts(&[]), hosts(&["g1"])]);
    // What is taken back is forgotten.
    env.drains("[rm-1]gpu", &[]);
    configured(&env, ONE).await;
    env.hands_over("rm-1", true).await;
    env.takes_over("rm-1", &log).await;
    env.begun();
    configured(&env, TWO).await;
    assert_eq!(env.begun(), [hosts(&[])]);
}

#[actix::test]
async fn what_held_for_all_servers_and_was_taken_back_meanwhile_is_left_when_another_goes_on() {
    let text =
        |name: &str| format!("partitions: [{{name: default, queues: [{{name: root, queues: [{{name: {name}}}]}}]}}]");
    let env = one_of_several();
    let log = Arc::<Memory>::default();
    let own = async |name: &str| env.topology.reload_default(config::load(&text(name)).unwrap()).await;
    let share = async |config: Option<String>| env.topology.share(SharedConfig { config, ..Default::default() }).await;
    let in_force = || env.topology.directory.get().rms[0].config.text.to_string();
    own("first").await;
    env.begins("rm-1", log.clone()).await;
    env.register("rm-1", &[]).await;
    // What another server has as its own stays.
    env.hands_over("rm-1", true).await;
    own("second").await;
    env.takes_over("rm-1", &log).await;
    env.topology.renew("rm-1").await;
    assert_eq!(in_force(), text("first"));
    share(Some(text("shared"))).await;
    assert_eq!(in_force(), text("shared"));
    env.hands_over("rm-1", true).await;
    share(None).await;
    env.takes_over("rm-1", &log).await;
    assert_eq!(in_force(), text("shared"));
    env.topology.renew("rm-1").await;
    assert_eq!(in_force(), text("second"));
    // One that registers while it holds, and a text that holds as well as the server's own.
    share(Some(text("shared"))).await;
    env.register("rm-1", &[]).await;
    env.hands_over("rm-1", true).await;
    share(None).await;
    env.takes_over("rm-1", &log).await;
    env.topology.renew("rm-1").await;
    assert_eq!(in_force(), text("second"));
    share(Some(text("second"))).await;
    env.hands_over("rm-1", true).await;
    share(None).await;
    own("third").await;
    env.takes_over("rm-1", &log).await;
    env.topology.renew("rm-1").await;
    assert_eq!(in_force(), text("third"));
    // One that this server cannot read is in force where it can be read: nothing is known to have been taken back.
    share(Some(text("shared"))).await;
    env.hands_over("rm-1", true).await;
    share(None).await;
    share(Some("partitions: nonsense".to_owned())).await;
    env.takes_over("rm-1", &log).await;
    env.topology.renew("rm-1").await;
    assert_eq!(in_force(), text("shared"));
}

#[actix::test]
async fn an_end_that_is_not_recorded_is_not_told_of_as_one() {
    let env = one_of_several();
    let log = Arc::<Memory>::default();
    env.begins("rm-1", log.clone()).await;
    env.register("rm-1", &[]).await;
    log.refuses.store(true, SeqCst);
    for _ in 0..2 {
        let refused = env.ends("rm-1").await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Closing);
        assert!(refused.detail.contains("unregister again when it can be written"), "{refused:?}");
        assert_eq!(env.state().await, RmState::Stopped);
        assert_eq!(log.found("rm-1").state.name(), "session", "another server would go on");
    }
    log.refuses.store(false, SeqCst);
    env.ends("rm-1").await.unwrap();
    assert_eq!(log.found("rm-1").state.name(), "ended");
    // Nobody has to say it again where the server lives.
    env.register("rm-1", &[]).await;
    log.refuses.store(true, SeqCst);
    env.ends("rm-1").await.unwrap_err();
    log.refuses.store(false, SeqCst);
    for _ in 0..1_000 {
        if log.found("rm-1").state.name() == "ended" {
            return;
        }
        env.pass(Duration::from_millis(10)).await;
    }
    panic!("it is tried again");
}

#[actix::test]
async fn a_registration_that_is_refused_leaves_the_session_also_when_nobody_knew_that_etcd_is_gone() {
    let env = one_of_several();
    let log = Arc::<Memory>::default();
    env.begins("rm-1", log.clone()).await;
    env.register("rm-1", &[]).await;
    let mut stream = env.stream(0).await;
    for _ in 0..100 {
        env.pass(Duration::from_millis(10)).await;
    }
    log.refuses.store(true, SeqCst);
    let with = || Registration { rm: "rm-1".into(), ..Default::default() };
    let refused = env.try_register(with()).await.unwrap_err();
    assert!(matches!(refused, Refusals::Other(refusal) if refusal.kind == RefusalKind::Closing));
    let info = env.info().await;
    assert_eq!((info.state, info.epoch), (RmState::Running, 1));
    assert!(stream.closing().is_none(), "its stream is open");
    log.refuses.store(false, SeqCst);
    assert_eq!(env.register("rm-1", &[]).await, 2);
}
