//! Much that falls due in one moment: it is done in parts, between which others have their turn.

use std::sync::Arc;

use callboard::{
    domain::{
        Partition,
        alloc::AskSpec,
        command::{AddApplication, AllocationItem, Command, NodeAction, ReleaseItem},
        types::{AppState, Termination::StoppedByRm},
    },
    messages::partition::Commands,
};

use super::shim::{Shim, node, res};

const APPS: usize = 1_000;

fn apps(ids: impl Iterator<Item = String>) -> Command {
    let app = |id: String| AddApplication {
        id: id.into(),
        queue: "root.a".into(),
        user: "alice".into(),
        groups: Some(Arc::from([])),
        ..AddApplication::default()
    };
    Command::Applications { new: ids.map(app).collect(), remove: Vec::new() }
}

fn asks(ids: impl Iterator<Item = String>) -> Command {
    let spec = Arc::new(AskSpec { key: "k".into(), resource: Arc::new(res(1)), ..AskSpec::default() });
    let ask = |id: String| AllocationItem { app: id.into(), node: None, spec: spec.clone() };
    Command::Allocations { allocations: ids.map(ask).collect(), releases: Vec::new() }
}

fn ids() -> impl Iterator<Item = String> {
    (0..APPS).map(|n| format!("app-{n}"))
}

/// Lets the partition work until it is so.
async fn until(shim: &Shim, is: impl Fn(&Partition) -> bool) {
    for _ in 0..100_000 {
        if is(&shim.snapshot().await.partition) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it does not come");
}

#[actix::test]
async fn others_have_their_turn_while_what_is_due_is_done() {
    let shim = Shim::new();
    shim.send(vec![node("n1", NodeAction::Create, 10_000), apps(ids()), asks(ids())]).await;
    until(&shim, |p| p.allocations == APPS as u64).await;
    let release = |id: String| ReleaseItem { app: id.into(), key: "k".into(), termination: StoppedByRm };
    let releases = ids().map(release).collect();
    shim.send(vec![Command::Allocations { allocations: Vec::new(), releases }]).await;
    until(&shim, |p| p.apps.values().all(|app| app.state == AppState::Completing)).await;
    shim.settle().await;
    shim.heard();

    tokio::time::advance(std::time::Duration::from_secs(31)).await;
    let mut between = 0;
    loop {
        let left = shim.snapshot().await.partition.app_by_id.len();
        if left < APPS {
            between += 1;
            // It is heard while some of them are left, and enters behind the last of them.
            if between == 1 {
                assert!(left > 0, "all at once");
                let late = || std::iter::once("late".to_owned());
                shim.partition.do_send(Commands::of(shim.epoch, vec![apps(late()), asks(late())]));
            }
            if left <= 1 {
                break;
            }
        }
        tokio::task::yield_now().await;
    }
    assert!(between > 2, "{between}");
    until(&shim, |p| p.allocations == 1).await;
    shim.settle().await;
    let told: Vec<String> = ids().map(|id| format!("{id} Completed")).collect();
    let heard = shim.heard();
    assert_eq!(heard[..APPS], told);
    assert_eq!(heard[APPS..], ["late Accepted", "late Running", "new k on n1"]);
}
