//! The history of applications and containers, and state dumps one at a time (OPS-001–OPS-004, OPS-020).

use callboard::{
    actors::directory::Listing,
    domain::types::{Nanos, Termination},
    http::ws_v1::{
        history::{History, Sample},
        json,
    },
};

use super::{cluster, scenario::World, server::Server};

#[test]
fn what_a_sample_counts() {
    // OPS-001, OPS-003, REST quirk H: over all partitions; what is there now, so never less than nothing.
    let mut world = World::captured();
    let at = Nanos::from_secs(60);
    let count = |world: &World| {
        let Sample { applications, containers, .. } = Sample::of(&[world.view()], at);
        (applications, containers)
    };
    assert_eq!(Sample::of(&[], at), Sample { at, applications: 0, containers: 0 });
    let before = count(&world);
    assert_eq!(before.1, world.partition.allocations);
    let both = Sample::of(&[world.view(), world.view()], at);
    assert_eq!((both.applications, both.containers), (2 * before.0, 2 * before.1));
    // The last allocation of an application: it is Completing, and does not run.
    world.release("app-done", "done-1", Termination::StoppedByRm);
    world.pass(100);
    assert_eq!(count(&world), (before.0 - 1, before.1 - 1));
    assert_eq!(count(&World::empty()), (0, 0));
}

#[actix::test]
async fn over_the_socket() {
    // OPS-002, OPS-004: oldest first, numbers as text, nothing of an earlier process; REST 5.16: also in the dump.
    let server = Server::start(Listing::default());
    for (at, applications) in [(60, 1), (120, 2)] {
        server.state.history.push(Sample { at: Nanos::from_secs(at), applications, containers: 7 });
    }
    let apps = "[{\"timestamp\":60000000000,\"totalApplications\":\"1\"},{\"timestamp\":120000000000,\"totalApplications\":\"2\"}]\n";
    assert_eq!(server.get("/ws/v1/history/apps").await.text(), apps);
    let containers = server.get("/ws/v1/history/containers").await.json();
    assert_eq!(containers[1], serde_json::json!({"timestamp": 120_000_000_000_u64, "totalContainers": "7"}));
    let dump = server.get("/debug/fullstatedump").await.json();
    assert_eq!((&dump["appHistory"][1]["totalApplications"], &dump["containerHistory"]), (&"2".into(), &containers));
    assert_eq!(json::line(&History::default().apps()), b"[]\n");
    server.stop().await;
}

#[actix::test]
async fn state_dumps_one_at_a_time() {
    // OPS-020: a second one waits for the first, and nothing else does.
    let server = std::rc::Rc::new(cluster::start().await);
    let turn = server.state.dumping.clone().lock_owned().await;
    let asked = server.clone();
    let dump = actix::spawn(async move { asked.get("/debug/fullstatedump").await });
    for _ in 0..5 {
        assert_eq!(server.get("/ws/v1/partitions").await.status, 200);
    }
    assert!(!dump.is_finished());
    drop(turn);
    assert_eq!(dump.await.unwrap().json()["partitions"][0]["name"], "default");
}
