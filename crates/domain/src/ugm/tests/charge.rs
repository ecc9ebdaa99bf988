use std::sync::Arc;

use super::*;

// UGM-004, UGM-040: every user is charged at every level, without any limit.
#[test]
fn usage_at_every_level() {
    let mut b = Bench::default();
    let a = b.open("app-1", "alice", &["g"], "root.p.x");
    let c = b.open("app-2", "alice", &["g"], "root.q");
    b.add(a, 10);
    b.add(a, 5);
    b.add(c, 7);
    assert_eq!(["root", "root.p", "root.p.x", "root.q"].map(|q| b.used("alice", q)), [22, 15, 15, 7].map(Some));
    assert_eq!(b.groups(), Vec::<String>::new());
}

// UGM-041, UGM-043, S28: the tracker goes with the last application, its levels with the last one there.
#[test]
fn nothing_is_left_behind() {
    let mut b = Bench::default();
    let a = b.open("app-1", "alice", &[], "root.a");
    let c = b.open("app-2", "alice", &[], "root.b");
    b.add(a, 10);
    b.add(c, 10);
    b.sub(a, 10, true);
    assert_eq!((b.used("alice", "root"), b.used("alice", "root.a")), (Some(10), None));
    b.sub(c, 10, false);
    assert_eq!(b.used("alice", "root.b"), Some(0), "an application that waits for more still counts");
    b.sub(c, 0, true);
    assert_eq!(b.users(), Vec::<String>::new());
    b.close(a);
    b.close(c);
    assert_eq!(b.ugm.trackers.iter().count() + b.ugm.levels.iter().count() + b.ugm.apps.iter().count(), 0);
}

// S28 (UGM-052): nobody is listed without usage, also where a limit is configured; the limit stays.
#[test]
fn limits_list_nobody() {
    let mut b = Bench::new(&[("root.a", vec![limit(&["alice", "*"], &[], 50, 0)])]);
    for (id, user) in [("app-1", "alice"), ("app-2", "bob")] {
        let app = b.open(id, user, &[], "root.a");
        b.add(app, 10);
        assert_eq!(b.used(user, "root.a"), Some(10));
        b.sub(app, 10, true);
    }
    assert_eq!(b.users(), Vec::<String>::new());
    let again = b.open("app-3", "alice", &[], "root.a");
    assert_eq!(b.headroom(again), "map[memory:50]");
}

// S28 (UGM-034, UGM-045): checks make nothing that readers see, and what they link goes with the application.
#[test]
fn checks_leave_nothing() {
    let mut b = Bench::new(&[("root", vec![limit(&["*"], &["*", "dev"], 50, 3)])]);
    b.told();
    let ghost = b.open("app-1", "ghost", &["dev"], "root.a");
    assert!(b.ugm.fits(ghost, &mem(1)) && b.ugm.can_run(ghost) && b.ugm.headroom(ghost).is_some());
    assert_eq!((b.users(), b.told()), (vec![], vec![]));
    b.resolve(ghost);
    assert_eq!((b.users(), b.told()), (vec![], vec!["set link dev app-1".to_owned()]));
    b.close(ghost);
    assert_eq!((b.users(), b.told()), (vec![], vec!["remove link dev app-1".to_owned()]));
    assert_eq!(b.ugm.apps.iter().count(), 0);
    assert_eq!(b.groups(), Vec::<String>::new());
}

// EVT-050–EVT-052, EVT-055: order of the events of a charge, of the last refund, and of a removal.
#[test]
fn order_of_events() {
    let mut b = Bench::new(&[("root.a", vec![limit(&[], &["dev"], 50, 0)])]);
    assert_eq!(b.told(), ["set group limit dev root.a"]);
    let app = b.open("app-1", "alice", &["dev"], "root.a");
    b.add(app, 10);
    let charged = ["add user alice root.a map[memory:10]", "add group dev root.a map[memory:10]"];
    assert_eq!(b.told(), [&["set link dev app-1"], &charged[..]].concat());
    b.add(app, 10);
    assert_eq!(b.told(), charged);
    b.sub(app, 10, false);
    assert_eq!(b.told(), ["remove user alice root.a map[memory:10]", "remove group dev root.a map[memory:10]"]);
    b.sub(app, 10, true);
    let gone = |sum: &str| {
        let lines = ["remove user alice root.a ", "remove link dev app-1", "remove group dev root.a "];
        [format!("{}{sum}", lines[0]), lines[1].to_owned(), format!("{}{sum}", lines[2])]
    };
    assert_eq!(b.told(), gone("map[memory:10]"));
    // It runs again, with a link of its own, and is removed by the resource manager: one event with the sum.
    b.add(app, 10);
    b.add(app, 20);
    b.told();
    b.remove(app);
    assert_eq!(b.told(), gone("map[memory:30]"));
}

// EVT-050, EVT-051: a removal is told also when nothing was used, where user and group are known by a limit.
#[test]
fn removal_of_what_uses_nothing() {
    let mut b = Bench::new(&[("root.a", vec![limit(&["alice"], &["dev"], 50, 0)])]);
    let (alice, bob) = (b.open("app-1", "alice", &["dev"], "root.a"), b.open("app-2", "bob", &["dev"], "root.a"));
    let unchecked = b.open("app-3", "alice", &["dev"], "root.a");
    b.resolve(alice);
    b.resolve(bob);
    b.told();
    b.remove(alice);
    assert_eq!(b.told(), ["remove user alice root.a map[]", "remove link dev app-1", "remove group dev root.a map[]"]);
    b.remove(bob);
    assert_eq!(b.told(), ["remove link dev app-2", "remove group dev root.a map[]"], "bob has no tracker");
    b.remove(unchecked);
    assert_eq!(b.told(), ["remove user alice root.a map[]"]);
}

// R4.24: with the last allocation goes whatever the application was still charged.
#[test]
fn the_last_refund_is_whole() {
    let mut b = Bench::default();
    let app = b.open("app-1", "alice", &[], "root.a");
    b.add(app, 10);
    b.add(app, 20);
    b.known(app).usage = Resource::new();
    b.ugm.decrease(app, &Arc::new(mem(20)), true, &mut b.events);
    b.check();
    assert_eq!(b.told().last().map(String::as_str), Some("remove user alice root.a map[memory:30]"));
    assert_eq!(b.users(), Vec::<String>::new());
}

// UGM-044: a refund of what was never charged is ignored.
#[test]
fn refund_of_nothing() {
    let mut b = Bench::default();
    let app = b.open("app-1", "alice", &[], "root.a");
    b.ugm.decrease(app, &Arc::new(mem(5)), false, &mut b.events);
    b.ugm.resize(app, &mem(5), &mut b.events);
    b.check();
    assert_eq!(b.told(), Vec::<String>::new());
}

// UGM-040, R4.14: an in-place resize is a delta of either sign, type by type.
#[test]
fn resize_in_place() {
    let mut b = Bench::new(&[("root", vec![limit(&[], &["dev"], 50, 0)])]);
    let app = b.open("app-1", "alice", &["dev"], "root.a");
    let old = Resource::of(&[("memory", 10), ("vcore", 10)]);
    let new = Resource::of(&[("memory", 25), ("vcore", 4)]);
    b.ugm.increase(app, &Arc::new(old.clone()), &mut b.events);
    b.told();
    b.ugm.resize(app, &new.minus(&old), &mut b.events);
    b.known(app).usage = new.clone();
    b.check();
    assert_eq!(b.ugm.usage(app), &new);
    assert_eq!(
        b.told(),
        [
            "add user alice root.a map[memory:15]",
            "add group dev root.a map[memory:15]",
            "remove user alice root.a map[vcore:6]",
            "remove group dev root.a map[vcore:6]",
        ]
    );
    b.ugm.resize(app, &Resource::of(&[("vcore", -4)]), &mut b.events);
    let root = b.ugm.user("alice").expect("listed").root;
    assert_eq!(root.usage.to_string(), "map[memory:25]", "zeros are pruned");
}

// UGM-024: applications of one user may be charged to different groups.
#[test]
fn a_group_per_application() {
    let mut b = Bench::new(&[("root", vec![limit(&[], &["g1"], 50, 0)]), ("root.a", vec![limit(&[], &["g2"], 20, 0)])]);
    let one = b.open("app-1", "alice", &["g1", "g2"], "root.a");
    let two = b.open("app-2", "alice", &["g1", "g2"], "root.b");
    b.add(one, 20);
    b.add(two, 5);
    assert_eq!((b.ugm.group(one).map(|g| &**g), b.ugm.group(two).map(|g| &**g)), (Some("g2"), Some("g1")));
    assert_eq!((b.group_used("g2", "root"), b.group_used("g1", "root")), (Some(20), Some(5)));
}

// The audit notices what it is for.
#[test]
fn audit_finds_faults() {
    let mut b = Bench::new(&[("root", vec![limit(&[], &["dev"], 50, 0)])]);
    let app = b.open("app-1", "alice", &["dev"], "root.a");
    b.add(app, 10);
    let good = b.clone();
    let level = b.ugm.apps[app].sides().last().expect("linked").levels[0];
    b.ugm.levels[level].usage.add(&mem(1));
    assert_eq!(b.faults(), ["Group dev in root: usage map[memory:11], but its applications use map[memory:10]"]);
    let mut b = good.clone();
    b.known(app).usage.add(&mem(1));
    assert!(b.faults()[0].starts_with("application app-1: charged map[memory:10], but uses map[memory:11]"));
    let mut b = good;
    b.live.clear();
    assert_eq!(b.faults()[0], "application app-1: known here, but not live");
}

// A clone is a snapshot: what happens later does not show in it.
#[test]
fn clones_are_apart() {
    let mut b = Bench::default();
    let app = b.open("app-1", "alice", &[], "root.a");
    b.add(app, 10);
    let before = b.clone();
    b.add(app, 5);
    b.sub(app, 15, true);
    b.check();
    before.check();
    assert_eq!((before.used("alice", "root.a"), b.used("alice", "root.a")), (Some(10), None));
}
