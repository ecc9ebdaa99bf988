//! The health checks over real partitions (OPS-012–OPS-014).

use std::sync::Arc;

use callboard::{
    domain::{
        command::{Command, NodeAction, NodeItem},
        resources::Resource,
        types::Nanos,
    },
    http::ws_v1::{
        health::{Health, Kept},
        json,
    },
};
use serde_json::Value;

use super::scenario::World;

fn check(world: &World) -> Value {
    let health = Health::default();
    health.run(&[world.view()], 0, &Kept::default(), Nanos::from_secs(1));
    serde_json::from_slice(&json::line(&*health.last().unwrap())).unwrap()
}

/// Name and message of what failed.
fn failed(world: &World) -> Vec<String> {
    let view = check(world);
    let checks = view["HealthChecks"].as_array().unwrap();
    let failed: Vec<String> = checks
        .iter()
        .filter(|check| check["Succeeded"] == false)
        .map(|check| check["DiagnosisMessage"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(view["Healthy"], failed.is_empty());
    failed
}

#[test]
fn a_healthy_cluster() {
    // Check 7: the ratio has six decimals, and is no number without nodes.
    let ratio = |world: &World| check(world)["HealthChecks"][6]["DiagnosisMessage"].clone();
    assert_eq!(failed(&World::captured()), Vec::<String>::new());
    assert_eq!(ratio(&World::captured()), "Reservation/node nr ratio: [0.000000]");
    assert_eq!(ratio(&World::empty()), "Reservation/node nr ratio: [NaN]");
    let mut reserved = World::captured();
    reserved.reserve();
    assert_eq!(ratio(&reserved), "Reservation/node nr ratio: [0.333333]");
}

#[test]
fn an_overcommitted_node() {
    // OPS-014: its capacity shrinks below what is on it.
    let mut world = World::captured();
    let capacity = Some(Resource::of(&[("memory", 2_000_000_000), ("pods", 110), ("vcore", 8000)]));
    let update = NodeItem { id: "node-1".into(), action: NodeAction::Update, capacity, attributes: Default::default() };
    world.apply(Command::Nodes(vec![update]));
    assert_eq!(failed(&world), ["Nodes with negative resources: [\"node-1\"]"]);
    let captured: Value = serde_json::from_str(include_str!("../../fixtures/rest/healthcheck-unhealthy.json")).unwrap();
    let expected = captured.to_string().replace("n1", "node-1");
    assert_eq!(check(&world).to_string(), expected);
}

#[test]
fn failed_nodes_and_negative_partitions() {
    // Checks 2 and 3; OPS-012: one failed check is enough, each names all partitions that it found.
    let (world, health) = (World::captured(), Health::default());
    let view = |health: &Health| serde_json::to_value(&*health.last().unwrap()).unwrap();
    health.run(&[world.view()], 1, &Kept::default(), Nanos::from_secs(1));
    let seen = view(&health);
    assert_eq!(seen["HealthChecks"][1]["DiagnosisMessage"], "There were 1 failed nodes logged in the metrics");
    // OPS-013: a node for a partition that is not there is the shim's mistake.
    assert_eq!((&seen["HealthChecks"][1]["Succeeded"], &seen["Healthy"]), (&true.into(), &true.into()));

    let mut world = World::captured();
    world.partition.total = Resource::of(&[("memory", -1)]);
    let mut second = world.view();
    second.shown = "[rm-2]default".into();
    health.run(&[world.view(), World::empty().view(), second], 0, &Kept::default(), Nanos::from_secs(2));
    let seen = view(&health);
    let message = "Partitions with negative resources: [\"default\" \"[rm-2]default\"]";
    assert_eq!((&seen["HealthChecks"][2]["DiagnosisMessage"], &seen["Healthy"]), (&message.into(), &false.into()));
}

#[test]
fn broken_books() {
    // Checks 5, 6, 8 and 9.
    let mut world = World::captured();
    world.partition.total.add(&Resource::of(&[("memory", 1)]));
    let wrong =
        ["There were 1 scheduling errors logged in the metrics", "Partitions with inconsistent data: [\"default\"]"];
    assert_eq!(failed(&world), wrong, "OPS-013: what the scheduler itself got wrong");

    let mut world = World::captured();
    let node = world.partition.node_by_id["node-2"];
    world.partition.nodes[node].occupied.add(&Resource::of(&[("vcore", 1)]));
    assert_eq!(failed(&world)[2], "Nodes with inconsistent data: [\"node-2\"]");

    let mut world = World::captured();
    let node = world.partition.node_by_id["node-1"];
    world.partition.nodes[node].allocs.remove(0);
    let gone = &failed(&world)[2];
    assert!(gone.starts_with("OrphanAllocations: [\"") && gone.ends_with("\"]"), "{gone}");

    let mut world = World::captured();
    let app = world.partition.app_by_id["app-dynamic"];
    let ix = world.partition.by_key(app, "dyn-1").unwrap();
    Arc::make_mut(&mut world.partition.allocs[ix].spec).key = "other".into();
    assert_eq!(failed(&world)[2], "Orphan allocations: [\"other\"]");
}

#[test]
fn mistakes_of_a_shim_leave_the_scheduler_healthy() {
    // OPS-013: they are answered, logged and counted elsewhere.
    let mut world = World::captured();
    world.partition.bad_updates = 104;
    assert_eq!(failed(&world), Vec::<String>::new());
}
