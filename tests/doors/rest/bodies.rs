//! The answers of a running YuniKorn, made again from a partition in the same state: names, order and presence of every
//! field, and every value that is no time.

use callboard::{
    domain::{
        alloc::LogEntry,
        types::{AppState, Nanos, Termination},
    },
    http::ws_v1::{
        View, applications,
        checks::AppList,
        json, nodes, partitions,
        queues::{self, QueueView},
        rules, usage,
    },
};
use serde::Serialize;

use super::{
    ordered::same,
    scenario::{START, World},
};

macro_rules! captured {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../fixtures/rest/", $name, ".json")).as_slice())
    };
}

#[track_caller]
fn matches<T: Serialize>(ours: T, captured: (&str, &[u8])) {
    same(captured.0, &json::line(&ours), captured.1);
}

fn lists<T: Serialize>(ours: impl Iterator<Item = T>, captured: (&str, &[u8])) {
    same(captured.0, &json::list(ours), captured.1);
}

fn queue<'a>(view: &'a View, path: &str, subtree: bool) -> QueueView<'a> {
    queues::one(view, queues::find(view, path).unwrap(), subtree).unwrap()
}

#[test]
fn without_nodes() {
    // REST 5.2, 5.3, 5.9
    let view = World::empty().view();
    matches([partitions::partition(&view)], captured!("partitions-no-nodes"));
    matches(queues::tree(&view), captured!("queues-no-nodes"));
    matches([nodes::utilization(&view)], captured!("node-utilizations-no-nodes"));
    matches(rules::rules(&view), captured!("placementrules"));
}

#[test]
fn applications_of_all_kinds() {
    // REST 5.4–5.6
    let mut world = World::captured();
    world.reserve();
    let view = world.view();
    let app = |id: &str| applications::find(&view, None, id).unwrap();
    matches(app("app-running"), captured!("application-running"));
    matches(app("app-gang"), captured!("application-gang"));
    matches(app("app-pending"), captured!("application-pending"));
    matches(app("app-new"), captured!("application-new"));
    matches(app("app-resv"), captured!("application-reserved-preempting"));
}

#[test]
fn lists_of_applications() {
    // REST 4, routes 13, 14 and 17
    let mut world = World::captured();
    world.reserve();
    world.release("app-done", "done-1", Termination::Preempted);
    world.pass(100);
    let view = world.view();
    let find = |path: &str| queues::find(&view, path).unwrap();
    lists(applications::each(&view, AppList::Active, None), captured!("applications-active"));
    lists(applications::of_queue(&view, find("root.sandbox"), None), captured!("queue-applications-active"));
    lists(applications::of_queue(&view, find("root.prod.gang"), None), captured!("queue-applications"));
    lists(applications::of_queue(&view, find("root.prod"), None), captured!("queue-applications-empty"));
    lists(applications::each(&view, AppList::Rejected, None), captured!("applications-rejected"));
    let new = applications::each(&view, AppList::Active, Some(AppState::New));
    assert_eq!(new.count(), 2);
    world.pass(31_000);
    let view = world.view();
    lists(applications::each(&view, AppList::Completed, None), captured!("applications-completed"));
}

#[test]
fn queues_and_nodes() {
    // REST 5.2, 5.3, 5.7–5.9
    let mut world = World::captured();
    world.reserve();
    world.release("app-done", "done-1", Termination::Preempted);
    world.pass(100);
    let view = world.view();
    matches([nodes::utilization(&view)], captured!("node-utilizations"));
    matches(nodes::node(&view, "node-1"), captured!("node-single"));
    lists(nodes::each(&view), captured!("nodes"));
    matches(queues::tree(&view), captured!("queues"));
    matches(queue(&view, "root.prod", false), captured!("queue-single"));
    matches(queue(&view, "ROOT.Prod", true), captured!("queue-subtree"));
    matches(queue(&view, "root.sandbox", false), captured!("queue-leaf"));
    matches([partitions::partition(&view)], captured!("partitions"));
}

#[test]
fn users_and_groups() {
    // REST 5.10
    let mut world = World::captured();
    world.reserve();
    world.release("app-done", "done-1", Termination::Preempted);
    world.pass(100);
    let view = world.view();
    matches(usage::user(&view, "alice"), captured!("usage-user"));
    matches(usage::users(&view), captured!("usage-users"));
    matches(usage::group(&view, "dev"), captured!("usage-group"));
    matches(usage::groups(&view), captured!("usage-groups"));
}

#[test]
fn the_log_of_a_request() {
    // REST 5.5: one entry per text, the latest last; a priority is text, a flag that is not set is left out.
    let mut world = World::captured();
    for ix in world.partition.allocs.keys() {
        let row = &mut world.partition.allocs[ix];
        let entry = |message: &str, last, count| LogEntry { message: message.into(), last: Nanos(last), count };
        row.log = vec![entry("Not enough queue quota", 9, 2), entry("Not enough user quota", 5, 1)];
        row.triggered_scale_up = true;
    }
    let view = world.view();
    let text = String::from_utf8(json::line(&applications::find(&view, None, "app-pending").unwrap())).unwrap();
    let log = "\"priority\":\"5\",\"applicationId\":\"app-pending\",\"allocationLog\":[\
               {\"message\":\"Not enough user quota\",\"lastOccurrence\":5,\"count\":1},\
               {\"message\":\"Not enough queue quota\",\"lastOccurrence\":9,\"count\":2}],";
    assert!(text.contains(log), "{text}");
    assert!(text.contains("\"triggeredScaleUp\":true") && !text.contains("triggeredPreemption"), "{text}");
}

#[test]
fn back_off() {
    // REST 1.5: RFC 3339 text.
    let mut world = World::captured();
    let app = world.partition.app_by_id["app-new"];
    world.partition.apps[app].backoff_until = Some(START);
    let text = String::from_utf8(json::line(&applications::find(&world.view(), None, "app-new").unwrap())).unwrap();
    assert!(text.ends_with(",\"resourceHistory\":{},\"backoffDeadline\":\"2026-11-20T17:03:46Z\"}\n"), "{text}");
}
