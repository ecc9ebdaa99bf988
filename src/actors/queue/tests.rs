//! One queue's conversation on a paused clock: messages in, answers out.

use tokio::sync::oneshot;

use super::*;
use crate::{
    domain::{effect::QueueEffect, types::Nanos},
    messages::{
        queue::AppRefusal,
        wait::{Answer, Kind, Target},
    },
};

struct Rig(Addr<QueueActor>);

impl Rig {
    fn new() -> Rig {
        Rig(QueueActor::default().start())
    }

    async fn wait(&self, id: u64, condition: Condition) -> oneshot::Receiver<Answer> {
        let (answer, answered) = oneshot::channel();
        let target = Target { kind: Kind::Queue, name: "root.a".into() };
        self.0.send(Wait { id, target, condition, answer }).await.unwrap();
        answered
    }

    async fn is(&self, empty: bool, no_room: Option<&str>) {
        let status = QueueStatus { state: "Active", empty, no_room: no_room.map(str::to_owned) };
        self.0.send(QueueUpdate { status: Some(status), ..QueueUpdate::default() }).await.unwrap();
    }

    async fn withdraw(&self, id: u64) {
        let target = Target { kind: Kind::Queue, name: "root.a".into() };
        self.0.send(Withdraw { id, target }).await.unwrap();
    }
}

fn met(state: &str) -> Result<Answer, oneshot::error::TryRecvError> {
    Ok(Answer::Met { state: state.to_owned() })
}

#[actix::test]
async fn who_waits_is_answered_when_it_holds_and_not_before() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(false, Some("2 applications run in root.a, which is its limit")).await;
    let (mut empty, mut room) = (rig.wait(1, Condition::Empty).await, rig.wait(2, Condition::Room).await);
    assert!(empty.try_recv().is_err() && room.try_recv().is_err());
    rig.is(false, None).await;
    assert_eq!(room.try_recv(), met("Active"));
    assert!(empty.try_recv().is_err());
    rig.is(true, None).await;
    assert_eq!(empty.try_recv(), met("Active"));
    // It holds already.
    assert_eq!(rig.wait(3, Condition::Empty).await.try_recv(), met("Active"));
}

#[actix::test]
async fn whoever_withdraws_hears_why_and_leaves_nothing_behind() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(false, Some("2 applications run in root.a, which is its limit")).await;
    let (mut first, mut second) = (rig.wait(1, Condition::Room).await, rig.wait(2, Condition::Room).await);
    rig.withdraw(1).await;
    let why = "2 applications run in root.a, which is its limit".to_owned();
    assert_eq!(first.try_recv(), Ok(Answer::NotYet { state: "Active".to_owned(), why }));
    // Twice, and one that never was: nothing happens.
    rig.withdraw(1).await;
    rig.withdraw(7).await;
    assert!(second.try_recv().is_err());
    rig.is(false, None).await;
    assert_eq!(second.try_recv(), met("Active"));
}

#[actix::test]
async fn what_goes_is_empty_and_a_session_that_ends_answers_nobody() {
    tokio::time::pause();
    let rig = Rig::new();
    rig.is(false, Some("full")).await;
    let (mut empty, mut room) = (rig.wait(1, Condition::Empty).await, rig.wait(2, Condition::Room).await);
    rig.0.send(QueueGone).await.unwrap();
    assert_eq!((empty.try_recv(), room.try_recv()), (met("gone"), Ok(Answer::Gone)));
    let rig = Rig::new();
    rig.is(false, None).await;
    let mut empty = rig.wait(1, Condition::Empty).await;
    rig.0.send(EndWaits).await.unwrap();
    assert_eq!(empty.try_recv(), Err(oneshot::error::TryRecvError::Closed));
}

#[actix::test]
async fn its_last_refusals_are_remembered() {
    tokio::time::pause();
    let rig = Rig::new();
    let queue: std::sync::Arc<str> = "root.a".into();
    let refused = |n: i64| QueueUpdate {
        effects: vec![QueueEffect::Refused {
            queue: queue.clone(),
            app: format!("app-{n}").into(),
            reason: "queue root.a is stopped".into(),
        }],
        at: Nanos::from_secs(n),
        status: None,
    };
    for n in 0..105 {
        rig.0.send(refused(n)).await.unwrap();
    }
    let effects = vec![QueueEffect::Admitted { queue: queue.clone(), app: "app".into() }];
    rig.0.send(QueueUpdate { effects, ..QueueUpdate::default() }).await.unwrap();
    let admissions = rig.0.send(GetAdmissions).await.unwrap();
    assert_eq!((admissions.admitted, admissions.refused, admissions.refusals.len()), (1, 105, 100));
    let first = AppRefusal { at: Nanos::from_secs(5), app: "app-5".into(), reason: "queue root.a is stopped".into() };
    assert_eq!(admissions.refusals.front(), Some(&first));
    assert_eq!(admissions.refusals.back().map(|last| &*last.app), Some("app-104"));
}
