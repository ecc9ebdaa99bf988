//! One node's conversation on a paused clock: messages in, answers out, and what the journal is told.

use std::{sync::Mutex, time::Duration};

use tokio::sync::oneshot;

use super::*;
use crate::messages::{
    clock::Clock,
    journal::Post,
    wait::{Answer, Kind, Target},
};

/// Notes what the journal is told.
struct Journal(Arc<Mutex<Vec<String>>>);

impl Actor for Journal {
    type Context = Context<Self>;
}

impl Handler<Post> for Journal {
    type Result = ();

    fn handle(&mut self, msg: Post, _ctx: &mut Self::Context) {
        let told = msg.facts.into_iter().map(|fact| match fact {
            Fact::Torpid { node, torpid } => format!("{node} {}", if torpid { "torpid" } else { "lively" }),
            other => panic!("{other:?}"),
        });
        self.0.lock().unwrap().extend(told);
    }
}

struct Rig {
    actor: Addr<NodeActor>,
    silence: Rc<Silence>,
    told: Arc<Mutex<Vec<String>>>,
}

fn target() -> Target {
    Target { kind: Kind::Node, name: "n1".into() }
}

impl Rig {
    fn new() -> Rig {
        Rig::with(30)
    }

    fn with(seconds: u64) -> Rig {
        let told = Arc::default();
        let journal = Journal(Arc::clone(&told)).start().recipient();
        let silence = Rc::new(Silence::new(Clock::default(), Duration::from_secs(seconds), Some((journal, 1))));
        Rig { actor: NodeActor::new("n1".into(), silence.clone()).start(), silence, told }
    }

    async fn wait(&self, id: u64, condition: Condition) -> oneshot::Receiver<Answer> {
        let (answer, answered) = oneshot::channel();
        self.actor.send(Wait { id, target: target(), condition, answer }).await.unwrap();
        answered
    }

    async fn is(&self, schedulable: bool, allocations: usize) {
        self.has(schedulable, allocations, 0).await;
    }

    async fn has(&self, schedulable: bool, allocations: usize, foreign: usize) {
        self.actor.send(NodeUpdate { status: NodeStatus { schedulable, allocations, foreign } }).await.unwrap();
    }

    async fn heard(&self, heartbeat: bool) {
        self.actor.send(Heard { heartbeat }).await.unwrap();
    }

    async fn judge(&self, begins: bool) {
        self.actor.send(JudgeSilence { begins }).await.unwrap();
        self.pass(0).await;
    }

    async fn pass(&self, millis: u64) {
        for step in std::iter::repeat_n(100, millis as usize / 100).chain([millis % 100]) {
            tokio::time::advance(Duration::from_millis(step)).await;
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// What the journal was told since the last call.
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

fn met(state: &str) -> Result<Answer, oneshot::error::TryRecvError> {
    Ok(Answer::Met { state: state.to_owned() })
}

#[actix::test]
async fn silence_makes_torpid_and_a_sign_of_life_lively() {
    // RFC 44 torpid, lively; J5.4
    tokio::time::pause();
    let rig = Rig::new();
    rig.pass(20_000).await;
    rig.heard(false).await;
    rig.pass(29_900).await;
    assert!(rig.told().is_empty(), "the time counts from the last sign of life");
    rig.pass(200).await;
    assert_eq!(rig.told(), ["n1 torpid"]);
    rig.pass(100_000).await;
    assert!(rig.told().is_empty(), "once");
    rig.heard(false).await;
    assert_eq!(rig.told(), ["n1 lively"]);
    rig.pass(30_100).await;
    assert_eq!(rig.told(), ["n1 torpid"]);
}

#[actix::test]
async fn who_is_vouched_for_is_never_silent() {
    // SEEDS S37, whatever the patience is
    tokio::time::pause();
    for seconds in [1, 5, 30] {
        let rig = Rig::with(seconds);
        assert!(rig.silence.vouch(true));
        rig.judge(true).await;
        rig.pass(100_000).await;
        assert!(rig.told().is_empty(), "{seconds} s");
        assert!(rig.silence.vouch(false) && !rig.silence.vouch(false));
        rig.judge(true).await;
        rig.pass(seconds * 1_000 - 100).await;
        assert!(rig.told().is_empty(), "silence begins when nobody vouches any more");
        rig.pass(200).await;
        assert_eq!(rig.told(), ["n1 torpid"]);
        rig.silence.vouch(true);
        rig.judge(true).await;
        assert_eq!(rig.told(), ["n1 lively"]);
    }
}

#[actix::test]
async fn where_heartbeats_are_sent_nothing_else_is_a_sign_of_life() {
    // SEEDS S37
    tokio::time::pause();
    let rig = Rig::new();
    rig.silence.vouch(true);
    rig.judge(true).await;
    assert!(rig.silence.beat(), "nobody is vouched for any longer");
    rig.judge(true).await;
    rig.heard(true).await;
    rig.pass(29_000).await;
    rig.heard(false).await;
    assert!(!rig.silence.vouch(true) && !rig.silence.beat());
    rig.pass(1_100).await;
    assert_eq!(rig.told(), ["n1 torpid"]);
    rig.heard(true).await;
    assert_eq!(rig.told(), ["n1 lively"]);
}

#[actix::test]
async fn patience_may_change_at_any_time() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.pass(10_000).await;
    let set = async |seconds| {
        assert!(rig.silence.set_patience(Duration::from_secs(seconds)));
        rig.judge(false).await;
        rig.told()
    };
    // Shorter: it has been silent for that long already.
    assert_eq!(set(5).await, ["n1 torpid"]);
    // Longer: it has not.
    assert_eq!(set(12).await, ["n1 lively"]);
    rig.pass(2_100).await;
    assert_eq!(rig.told(), ["n1 torpid"]);
    // Never.
    assert_eq!(set(0).await, ["n1 lively"]);
    rig.pass(1_000_000).await;
    assert!(rig.told().is_empty());
    assert_eq!(set(30).await, ["n1 torpid"]);
    assert!(!rig.silence.set_patience(Duration::from_secs(30)), "the same changes nothing");
}

#[actix::test]
async fn a_torpid_node_is_waited_for_until_it_is_heard_of() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(true, 2).await;
    assert_eq!(rig.wait(1, Condition::Online).await.try_recv(), met("online"));
    rig.pass(31_000).await;
    let (mut online, mut impatient) = (rig.wait(2, Condition::Online).await, rig.wait(3, Condition::Online).await);
    rig.actor.send(Withdraw { id: 3, target: target() }).await.unwrap();
    let why = "it is torpid: nothing was heard of it for 31 s".to_owned();
    assert_eq!(impatient.try_recv(), Ok(Answer::NotYet { state: "torpid".to_owned(), why }));
    assert!(online.try_recv().is_err());
    rig.heard(true).await;
    assert_eq!(online.try_recv(), met("online"));
}

#[actix::test]
async fn a_node_is_drained_when_it_takes_nothing_and_has_nothing() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(true, 2).await;
    let (mut drained, mut empty) = (rig.wait(1, Condition::Drained).await, rig.wait(2, Condition::Empty).await);
    // Empty, but open.
    rig.is(true, 0).await;
    assert_eq!(empty.try_recv(), met("online"));
    assert!(drained.try_recv().is_err());
    rig.is(false, 1).await;
    assert!(drained.try_recv().is_err());
    rig.is(false, 0).await;
    assert_eq!(drained.try_recv(), met("drained"));
}

#[actix::test]
async fn what_others_run_counts_for_empty_not_for_drained() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.has(false, 1, 1).await;
    let (mut drained, mut empty) = (rig.wait(1, Condition::Drained).await, rig.wait(2, Condition::Empty).await);
    rig.has(false, 0, 1).await;
    assert_eq!(drained.try_recv(), met("drained"));
    assert!(empty.try_recv().is_err());
    rig.has(false, 0, 0).await;
    assert_eq!(empty.try_recv(), met("drained"));
}

#[actix::test]
async fn whoever_withdraws_hears_what_is_left() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(false, 3).await;
    let mut drained = rig.wait(1, Condition::Drained).await;
    rig.actor.send(Withdraw { id: 1, target: target() }).await.unwrap();
    let why = "3 allocations on it".to_owned();
    assert_eq!(drained.try_recv(), Ok(Answer::NotYet { state: "draining".to_owned(), why }));
}

#[actix::test]
async fn a_node_that_goes_leaves_nothing_and_a_session_that_ends_answers_nobody() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(false, 1).await;
    let mut drained = rig.wait(1, Condition::Drained).await;
    rig.actor.send(NodeGone).await.unwrap();
    assert_eq!(drained.try_recv(), met("gone"));
    rig.pass(100_000).await;
    assert!(rig.told().is_empty(), "what is gone is not silent");
    let rig = Rig::new();
    rig.is(false, 1).await;
    let mut drained = rig.wait(1, Condition::Drained).await;
    rig.actor.send(EndWaits).await.unwrap();
    assert_eq!(drained.try_recv(), Err(oneshot::error::TryRecvError::Closed));
}
