use super::*;
use crate::ugm::QueueUsage;

/// `path usage [apps] max/apps`, indented by depth.
fn tree(usage: &QueueUsage, depth: usize, lines: &mut Vec<String>) {
    let max = usage.max_resources.as_ref().map_or("-".into(), Resource::to_string);
    let apps = usage.applications.join(",");
    lines.push(format!(
        "{}{} {} [{apps}] {max}/{}",
        "  ".repeat(depth),
        usage.path,
        usage.usage,
        usage.max_applications
    ));
    for child in &usage.children {
        tree(child, depth + 1, lines);
    }
}

fn shown(usage: &QueueUsage) -> Vec<String> {
    let mut lines = Vec::new();
    tree(usage, 0, &mut lines);
    lines
}

// UGM-050, UGM-052, REST 5.10: what is listed, sorted by name, queues as a sparse tree.
#[test]
fn users_and_groups() {
    let mut b = Bench::new(&[
        ("root", vec![limit(&["*"], &[], 0, 100)]),
        ("root.prod", vec![limit(&["alice"], &["dev", "*"], 20, 5)]),
    ]);
    let gang = b.open("app-gang", "bob", &["dev"], "root.prod.gang");
    let run = b.open("app-run", "alice", &["dev"], "root.prod.batch");
    let more = b.open("app-a", "alice", &["dev"], "root.prod.batch-2");
    let waits = b.open("app-waits", "carol", &["dev"], "root.prod.batch");
    b.add(run, 6);
    b.add(more, 1);
    b.add(gang, 3);
    b.resolve(waits);
    assert_eq!(b.users(), ["alice", "bob"]);
    let alice = b.ugm.user("alice").expect("listed");
    let groups: Vec<_> = alice.groups.iter().map(|(app, group)| format!("{app}:{group}")).collect();
    assert_eq!(groups, ["app-a:dev", "app-run:dev"]);
    assert_eq!(
        shown(&alice.root),
        [
            "root map[memory:7] [app-a,app-run] -/100",
            "  root.prod map[memory:7] [app-a,app-run] map[memory:20]/5",
            "    root.prod.batch map[memory:6] [app-run] -/0",
            "    root.prod.batch-2 map[memory:1] [app-a] -/0",
        ]
    );
    assert_eq!(b.groups(), ["dev"]);
    let dev = b.ugm.group_named("dev").expect("listed");
    assert_eq!(dev.applications.join(","), "app-a,app-gang,app-run");
    let root = &shown(&dev.root)[..2];
    assert_eq!(root[1], "  root.prod map[memory:10] [app-a,app-gang,app-run] map[memory:20]/5");
    assert_eq!((b.ugm.user("carol"), b.ugm.user("dev"), b.ugm.group_named("alice")), (None, None, None));
    assert_eq!(b.ugm.group_named("*"), None, "SEEDS S30: a limit for each group is no group");
    b.add(waits, 2);
    assert_eq!(b.group_used("dev", "root.prod"), Some(12));
}

// A user that is listed shows where its other applications wait, as an empty queue.
#[test]
fn waiting_beside_running() {
    let mut b = Bench::default();
    let (run, waits) = (b.open("app-1", "alice", &[], "root.a"), b.open("app-2", "alice", &[], "root.b"));
    b.add(run, 60);
    b.resolve(waits);
    let queues = ["root map[memory:60] [app-1] -/0", "  root.a map[memory:60] [app-1] -/0", "  root.b map[] [] -/0"];
    assert_eq!(shown(&b.ugm.user("alice").expect("listed").root), queues);
    b.close(waits);
    assert_eq!(shown(&b.ugm.user("alice").expect("listed").root), queues[..2]);
    // An application without usage that still counts is shown, too.
    b.sub(run, 60, false);
    assert_eq!(shown(&b.ugm.user("alice").expect("listed").root)[1], "  root.a map[] [app-1] -/0");
}

// UGM-052, SEEDS S28: a limit alone lists no queue, before a reload and after it.
#[test]
fn queues_that_only_a_limit_names() {
    let conf = [("root.b", vec![limit(&["alice"], &[], 5, 0)]), ("root.c", vec![limit(&["*"], &[], 5, 0)])];
    let mut b = Bench::new(&conf);
    let run = b.open("app-1", "alice", &[], "root.a");
    b.add(run, 1);
    for _ in 0..2 {
        let queues = ["root map[memory:1] [app-1] -/0", "  root.a map[memory:1] [app-1] -/0"];
        assert_eq!(shown(&b.ugm.user("alice").expect("listed").root), queues);
        b.limits(&conf);
    }
}
