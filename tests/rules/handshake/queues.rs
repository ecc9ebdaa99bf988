//! Many queues: those of which nothing is to be told have no actor, and making them holds nobody up.

use std::{fmt::Write as _, pin::pin, sync::mpsc};

use callboard::messages::{
    partition::{Observe, Patience, ShowAdmissions, StopPartition},
    wait::{Answer, Condition, Kind, Target, Wait},
};
use tokio::{sync::oneshot::channel, task};

use super::shim::{Shim, preemptor};

/// Actors of queues.
async fn actors(shim: &Shim) -> usize {
    shim.partition.send(Observe).await.unwrap().conversations[1]
}

async fn admitted(shim: &Shim, queue: &str) -> Option<u64> {
    shim.partition.send(ShowAdmissions(queue.into())).await.unwrap().map(|admissions| admissions.admitted)
}

#[actix::test]
async fn a_queue_has_an_actor_since_something_is_told_to_it() {
    let shim = Shim::new();
    assert_eq!(actors(&shim).await, 0, "nobody came, and nobody waits");
    assert_eq!([admitted(&shim, "root.a").await, admitted(&shim, "root.c").await], [Some(0), None]);
    assert_eq!(actors(&shim).await, 0, "and who came is known without one");
    shim.send(preemptor(5)).await;
    assert_eq!((actors(&shim).await, admitted(&shim, "root.b").await), (1, Some(1)));
    let (answer, answered) = channel();
    let target = Target { kind: Kind::Queue, name: "root.a".into() };
    shim.partition.do_send(Wait { id: 1, target, condition: Condition::Empty, answer });
    assert_eq!(answered.await, Ok(Answer::Met { state: "Active".to_owned() }));
    assert_eq!(actors(&shim).await, 2);
}

#[test]
fn thousands_of_queues_are_made_while_others_have_their_turn() {
    let runtime = || {
        // Work on a thread of its own has one, so that it is seen what waits for it.
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap()
    };
    actix::System::with_tokio_rt(runtime).block_on(async {
        let mut config = "partitions: [{name: default, queues: [{name: root, queues: [".to_owned();
        (0..3_000).for_each(|n| write!(config, "{{name: q{n}}}, ").unwrap());
        config += "]}]}]";
        let let_go = hold();
        let shim = Shim::of(&config, Patience::default());
        let shown = waits_for_the_other_thread(shim.partition.send(Observe), let_go).await;
        assert_eq!(shown.unwrap().conversations, [0; 3]);
        let snapshot = shim.snapshot().await;
        assert_eq!(snapshot.partition.queue_by_path.len(), 3_001);
        assert_eq!(admitted(&shim, "root.q2999").await, Some(0));
        let let_go = hold();
        waits_for_the_other_thread(shim.partition.send(StopPartition), let_go).await.unwrap();
        shim.settle().await;
        assert!(!shim.partition.connected());
    });
}

/// Takes the thread, until the sender is used.
fn hold() -> mpsc::Sender<()> {
    let (let_go, held) = mpsc::channel();
    task::spawn_blocking(move || held.recv());
    let_go
}

/// This is done when the thread is let go, and not before, however often others have their turn.
async fn waits_for_the_other_thread<T>(work: impl Future<Output = T>, let_go: mpsc::Sender<()>) -> T {
    let mut work = pin!(work);
    for _ in 0..1_000 {
        assert!(futures::poll!(&mut work).is_pending(), "it was done on the thread of the others");
        task::yield_now().await;
    }
    let_go.send(()).unwrap();
    work.await
}
