//! One node's conversation on a paused clock: messages in, answers out.

use tokio::sync::oneshot;

use super::*;
use crate::messages::wait::{Answer, Kind, Target};

struct Rig(Addr<NodeActor>);

impl Rig {
    fn new() -> Rig {
        Rig(NodeActor::default().start())
    }

    async fn wait(&self, id: u64, condition: Condition) -> oneshot::Receiver<Answer> {
        let (answer, answered) = oneshot::channel();
        let target = Target { kind: Kind::Node, name: "n1".into() };
        self.0.send(Wait { id, target, condition, answer }).await.unwrap();
        answered
    }

    async fn is(&self, schedulable: bool, allocations: usize) {
        self.0.send(NodeUpdate { status: NodeStatus { schedulable, allocations } }).await.unwrap();
    }
}

fn met(state: &str) -> Result<Answer, oneshot::error::TryRecvError> {
    Ok(Answer::Met { state: state.to_owned() })
}

#[actix::test]
async fn a_node_is_drained_when_it_takes_nothing_and_has_nothing() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(true, 2).await;
    let (mut drained, mut empty) = (rig.wait(1, Condition::Drained).await, rig.wait(2, Condition::Empty).await);
    assert_eq!(rig.wait(3, Condition::Online).await.try_recv(), met("online"));
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
async fn whoever_withdraws_hears_what_is_left() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(false, 3).await;
    let mut drained = rig.wait(1, Condition::Drained).await;
    rig.0.send(Withdraw { id: 1, target: Target { kind: Kind::Node, name: "n1".into() } }).await.unwrap();
    let why = "3 allocations are on it".to_owned();
    assert_eq!(drained.try_recv(), Ok(Answer::NotYet { state: "draining".to_owned(), why }));
}

#[actix::test]
async fn a_node_that_goes_leaves_nothing_and_is_not_there() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(false, 1).await;
    let mut drained = rig.wait(1, Condition::Drained).await;
    rig.0.send(NodeGone).await.unwrap();
    assert_eq!(drained.try_recv(), met("gone"));
    let rig = Rig::new();
    rig.is(false, 1).await;
    let mut drained = rig.wait(1, Condition::Drained).await;
    rig.0.send(EndWaits).await.unwrap();
    assert_eq!(drained.try_recv(), Err(oneshot::error::TryRecvError::Closed));
}
