//! What happens by itself after a while, as REST shows it (OPS-061–OPS-064).

use callboard::{
    domain::{
        command::Command,
        types::{Nanos, Termination},
    },
    http::ws_v1::{applications, checks::AppList, json, queues},
};

use super::scenario::World;

/// State of `app-done` in the list of ended applications.
fn ended(world: &World) -> Option<String> {
    let view = world.view();
    let list: serde_json::Value =
        serde_json::from_slice(&json::list(applications::each(&view, AppList::Completed, None))).unwrap();
    let app = list.as_array().unwrap().iter().find(|app| app["applicationID"] == "app-done")?;
    app["applicationState"].as_str().map(str::to_owned)
}

/// Lets hours pass, a minute at a time.
fn hours(world: &mut World, hours: i64) {
    for _ in 0..hours * 60 {
        world.now = world.now.plus(Nanos::from_secs(60));
        world.apply(Command::Tick);
    }
}

#[test]
fn ended_applications_stay_for_three_to_four_days() {
    // OPS-062: Completing for 30 s; OPS-063: Expired after 72 h; OPS-064: removed by the sweep of each 24 h.
    let mut world = World::captured();
    // Apart from the sweeps, which are counted from the start of the partition.
    hours(&mut world, 1);
    world.release("app-done", "done-1", Termination::StoppedByRm);
    world.pass(29_000);
    assert_eq!(ended(&world), None);
    world.pass(2_000);
    let is = |state: &str| Some(state.to_owned());
    assert_eq!(ended(&world), is("Completed"));
    // OPS-076: it ran, and what it used is told once.
    let of_it = |line: &&String| line.starts_with("YK_APP_SUMMARY: {ApplicationID: app-done, SubmissionTime: 17");
    let told: Vec<&String> = world.summaries.iter().filter(of_it).collect();
    assert_eq!(told.len(), 1, "{:?}", world.summaries);
    assert!(told[0].contains("State: Completed, RmID: mycluster, ResourceUsage: TrackedResource{"), "{told:?}");
    hours(&mut world, 71);
    assert_eq!(ended(&world), is("Completed"));
    hours(&mut world, 2);
    assert_eq!(ended(&world), is("Expired"));
    hours(&mut world, 24);
    assert_eq!(ended(&world), None);
}

#[test]
fn empty_dynamic_queues_go() {
    // OPS-061: looked at every 10 s.
    let mut world = World::captured();
    let app = world.partition.app_by_id["app-dynamic"];
    let path = world.partition.apps[app].queue_path.to_string();
    let is_there = |world: &World| queues::find(&world.view(), &path).is_some();
    assert!(is_there(&world));
    world.apply(Command::Applications { new: vec![], remove: vec!["app-dynamic".into()] });
    assert!(is_there(&world));
    world.pass(20_100);
    assert!(!is_there(&world));
}
