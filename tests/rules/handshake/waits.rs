//! Those who wait for something of a partition, with its real actors: what is not there yet, what comes, goes and ends.

use callboard::{
    domain::{
        command::{Command, NodeAction},
        types::Termination::StoppedByRm,
    },
    messages::{
        partition::{Observe, StopPartition},
        wait::{Answer, Condition, EndWaits, Kind, Target, Wait, Withdraw},
    },
};
use tokio::sync::oneshot::{Receiver, channel, error::TryRecvError};

use super::shim::{Shim, ask, node, preemptor, release, remove};

fn target(kind: Kind, name: &str) -> Target {
    Target { kind, name: name.into() }
}

impl Shim {
    async fn waits_for(&self, id: u64, target: Target, condition: Condition) -> Receiver<Answer> {
        let (answer, answered) = channel();
        self.partition.do_send(Wait { id, target, condition, answer });
        self.settle().await;
        answered
    }

    async fn withdraws(&self, id: u64, target: Target) {
        self.partition.do_send(Withdraw { id, target });
        self.settle().await;
    }

    /// Who waits, and for how many things that are not there.
    async fn counts(&self) -> [usize; 2] {
        self.partition.send(Observe).await.unwrap().waits
    }
}

fn met(state: &str) -> Result<Answer, TryRecvError> {
    Ok(Answer::Met { state: state.to_owned() })
}

#[actix::test]
async fn what_is_not_there_yet_may_be_waited_for() {
    let shim = Shim::new();
    let (app, n1) = (target(Kind::Application, "app-2"), target(Kind::Node, "n1"));
    let mut running = shim.waits_for(1, app.clone(), Condition::Running).await;
    let mut online = shim.waits_for(2, n1.clone(), Condition::Online).await;
    assert_eq!(shim.counts().await, [2, 2]);
    shim.send(preemptor(5)).await;
    assert!(running.try_recv().is_err(), "no node is there");
    assert_eq!(shim.counts().await, [2, 1]);
    shim.send(vec![node("n1", NodeAction::Create, 20)]).await;
    assert_eq!(online.try_recv(), met("online"));
    assert_eq!(running.try_recv(), met("Running"));
    shim.withdraws(1, app).await;
    shim.withdraws(2, n1).await;
    assert_eq!(shim.counts().await, [0, 0], "nothing is left of them");
}

#[actix::test]
async fn a_caller_that_goes_away_leaves_nothing_behind() {
    let shim = Shim::new();
    let names = [target(Kind::Application, "x"), target(Kind::Queue, "root.x"), target(Kind::Queue, "root.a")];
    for (id, name) in names.iter().enumerate() {
        let condition = name.kind.conditions()[0];
        drop(shim.waits_for(id as u64, name.clone(), condition).await);
    }
    assert_eq!(shim.counts().await, [3, 2]);
    for (id, name) in names.iter().enumerate() {
        shim.withdraws(id as u64, name.clone()).await;
    }
    assert_eq!(shim.counts().await, [0, 0]);
}

#[actix::test]
async fn what_ended_answers_from_the_list_of_the_completed() {
    let shim = Shim::new();
    let app = target(Kind::Application, "app-2");
    shim.send(vec![node("n1", NodeAction::Create, 20)]).await;
    shim.send(preemptor(5)).await;
    let mut completed = shim.waits_for(1, app.clone(), Condition::Completed).await;
    let gone = Command::Allocations {
        allocations: Vec::new(),
        releases: vec![callboard::domain::command::ReleaseItem {
            app: "app-2".into(),
            key: "k1".into(),
            termination: StoppedByRm,
        }],
    };
    shim.send(vec![gone]).await;
    assert!(completed.try_recv().is_err(), "it is Completing for a while");
    shim.pass(31).await;
    // Its conversation ended with it, and the list knows.
    assert_eq!(completed.try_recv(), met("Completed"));
    assert_eq!(shim.waits_for(2, app.clone(), Condition::Completed).await.try_recv(), met("Completed"));
    let why = "it ended as Completed".to_owned();
    let placed = shim.waits_for(3, app, Condition::Placed).await.try_recv();
    assert_eq!(placed, Ok(Answer::Never { state: "Completed".to_owned(), why }));
}

#[actix::test]
async fn a_refused_application_answers_who_waited_for_it_to_come() {
    let shim = Shim::new();
    let app = target(Kind::Application, "lost");
    let mut running = shim.waits_for(1, app, Condition::Running).await;
    let new = callboard::domain::command::AddApplication {
        id: "lost".into(),
        queue: "root.nowhere".into(),
        user: "u".into(),
        groups: Some([].into()),
        ..Default::default()
    };
    shim.send(vec![Command::Applications { new: vec![new], remove: Vec::new() }]).await;
    match running.try_recv() {
        Ok(Answer::Never { state, why }) => {
            assert_eq!(state, "Rejected");
            assert!(why.starts_with("it was rejected: ") && why.contains("no placement rule matched"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[actix::test]
async fn everything_of_an_application_is_placed() {
    let shim = Shim::in_flight("Soft").await;
    let app = target(Kind::Application, "app-1");
    shim.send(vec![ask("ph3", 30, "tg", true)]).await;
    let mut placed = shim.waits_for(1, app, Condition::Placed).await;
    assert!(placed.try_recv().is_err(), "ph3 is larger than the node");
    shim.send(vec![release("ph1", callboard::domain::types::Termination::PlaceholderReplaced)]).await;
    assert!(placed.try_recv().is_err());
    // The ask is taken back: nothing waits any more.
    shim.send(vec![release("ph3", StoppedByRm)]).await;
    assert_eq!(placed.try_recv(), met("Running"));
}

#[actix::test]
async fn queues_are_looked_at_together_soon_after_something_changed() {
    let shim = Shim::in_flight("Soft").await;
    let queue = target(Kind::Queue, "root.a");
    let mut empty = shim.waits_for(1, queue.clone(), Condition::Empty).await;
    let root = target(Kind::Queue, "root");
    let mut room = shim.waits_for(2, root, Condition::Room).await;
    assert!(room.try_recv().is_err(), "the gang holds the whole node");
    shim.send(vec![remove()]).await;
    shim.pass(1).await;
    assert_eq!((empty.try_recv(), room.try_recv()), (met("Active"), met("Active")));
    // Nothing changes: nothing is done.
    let before = shim.partition.send(Observe).await.unwrap();
    shim.pass(3_600).await;
    let after = shim.partition.send(Observe).await.unwrap();
    assert!(after.slices - before.slices < 200, "{} slices in an idle hour", after.slices - before.slices);
}

#[actix::test]
async fn a_session_that_ends_lets_everybody_go() {
    let shim = Shim::in_flight("Soft").await;
    let mut waiting = Vec::new();
    let things = [
        (target(Kind::Application, "app-1"), Condition::Completed),
        (target(Kind::Application, "to-come"), Condition::Running),
        (target(Kind::Queue, "root.a"), Condition::Empty),
        (target(Kind::Node, "n1"), Condition::Empty),
    ];
    for (id, (thing, condition)) in things.into_iter().enumerate() {
        waiting.push(shim.waits_for(id as u64, thing, condition).await);
    }
    shim.partition.send(StopPartition).await.unwrap();
    shim.settle().await;
    for mut answered in waiting {
        assert_eq!(answered.try_recv(), Err(TryRecvError::Closed), "not that the teardown emptied it");
    }
}

#[actix::test]
async fn a_server_that_ends_lets_everybody_go() {
    let shim = Shim::in_flight("Soft").await;
    let mut running = shim.waits_for(1, target(Kind::Application, "to-come"), Condition::Running).await;
    let mut empty = shim.waits_for(2, target(Kind::Queue, "root.a"), Condition::Empty).await;
    shim.partition.send(EndWaits).await.unwrap();
    shim.settle().await;
    assert_eq!(running.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(empty.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(shim.counts().await, [0, 0]);
}

#[actix::test]
async fn an_application_has_a_conversation_since_somebody_waits_for_it() {
    let shim = Shim::new();
    let app = target(Kind::Application, "app-2");
    let conversations = async || shim.partition.send(Observe).await.unwrap().conversations[0];
    shim.send(preemptor(5)).await;
    assert_eq!(conversations().await, 0, "nobody talks about it");
    let _running = shim.waits_for(1, app.clone(), Condition::Running).await;
    let _placed = shim.waits_for(2, app, Condition::Placed).await;
    assert_eq!(conversations().await, 1);
    shim.send(vec![Command::Applications { new: Vec::new(), remove: vec!["app-2".into()] }]).await;
    assert_eq!(conversations().await, 0);
}

#[actix::test]
async fn ten_thousand_wait_for_one_thing_and_are_answered_once() {
    let shim = Shim::new();
    let app = target(Kind::Application, "app-2");
    let mut waiting = Vec::new();
    for id in 0..10_000 {
        let (answer, answered) = channel();
        shim.partition.do_send(Wait { id, target: app.clone(), condition: Condition::Running, answer });
        waiting.push(answered);
    }
    shim.settle().await;
    assert_eq!(shim.counts().await, [10_000, 1]);
    shim.send(vec![node("n1", NodeAction::Create, 20)]).await;
    shim.send(preemptor(5)).await;
    shim.settle().await;
    for answered in &mut waiting {
        assert_eq!(answered.try_recv(), met("Running"));
    }
}
