//! An ask about which the shim is being asked, as REST shows it.

use callboard::{
    domain::command::{Command, PredicateAnswer},
    http::ws_v1::{applications, checks::AppList, json, nodes, partitions, queues},
};
use serde_json::Value;

use super::scenario::{self, World};

fn vcore(amounts: &Value) -> i64 {
    amounts["vcore"].as_i64().unwrap_or(0)
}

/// What is allocated on nodes, in the application, its queue and the partition; allocations on nodes, of the application and in
/// all; what waits in application and queue.
fn shown(world: &World) -> ([i64; 4], [usize; 3], [i64; 2]) {
    let view = world.view();
    let read = |line: Vec<u8>| serde_json::from_slice::<Value>(&line).unwrap();
    let apps = read(json::list(applications::each(&view, AppList::Active, None)));
    let app = apps.as_array().unwrap().iter().find(|app| app["applicationID"] == "app-done").unwrap();
    let all = read(json::list(nodes::each(&view)));
    let all = all.as_array().unwrap();
    let queue = read(json::line(&queues::one(&view, queues::find(&view, "root.sandbox").unwrap(), false).unwrap()));
    let whole = read(json::line(&partitions::partition(&view)));
    let used = [
        all.iter().map(|node| vcore(&node["allocated"])).sum(),
        vcore(&app["usedResource"]),
        vcore(&queue["allocatedResource"]),
        vcore(&whole["capacity"]["usedCapacity"]),
    ];
    let length = |list: &Value| list.as_array().map_or(0, Vec::len);
    let counts = [
        all.iter().map(|node| length(&node["allocations"])).sum(),
        length(&app["allocations"]),
        whole["totalContainers"].as_u64().unwrap_or(0) as usize,
    ];
    (used, counts, [vcore(&app["pendingResource"]), vcore(&queue["pendingResource"])])
}

#[test]
fn it_waits_wherever_it_is_shown() {
    let mut world = World::empty();
    scenario::setup().into_iter().for_each(|command| world.apply(command));
    world.apply(Command::Applications { new: scenario::applications(), remove: vec![] });
    world.apply(Command::AskPredicates(true));
    let allocations = scenario::asks().into_iter().filter(|ask| &*ask.app == "app-done").collect();
    world.apply(Command::Allocations { allocations, releases: vec![] });
    world.pass(100);
    assert_eq!(shown(&world), ([0; 4], [0; 3], [100; 2]), "it waits for the shim's word");
    let answer = PredicateAnswer { question: 1, result: Ok(()), index: 0, refused: vec![] };
    world.apply(Command::Predicate(answer));
    assert_eq!(shown(&world), ([100; 4], [1; 3], [0; 2]), "it is placed");
}
