use super::*;
use crate::ugm::Who;

// UGM-021 (test idea 116): at one level the order of the configuration decides, not that of the user.
#[test]
fn configured_order_of_groups() {
    let b = &mut Bench::new(&[("root.a", vec![limit(&[], &["g0", "g2"], 10, 0), limit(&[], &["g1"], 10, 0)])]);
    let app = b.open("app-1", "alice", &["g1", "g2"], "root.a");
    b.resolve(app);
    assert_eq!(b.ugm.group(app).map(|group| &**group), Some("g2"));
}

// SEEDS S30: a group that is named somewhere on the path, the nearest to the leaf, else the first by name where a wildcard
// limits all; UGM-023: not for a user without groups.
#[test]
fn the_group_of_a_wildcard_limit() {
    let wild = limit(&[], &["other", "*"], 10, 0);
    let mut b = Bench::new(&[("root", vec![limit(&[], &["dev"], 10, 0)]), ("root.a", vec![wild])]);
    let apps = [
        ("app-1", &["acme", "dev"][..]),
        ("app-2", &[]),
        ("app-3", &["dev", "other"]),
        ("app-4", &["zoo", "acme"]),
        ("app-5", &["*"]),
    ];
    let groups = apps.map(|(id, groups)| {
        let app = b.open(id, "alice", groups, "root.a");
        b.resolve(app);
        b.ugm.group(app).map(|group| group.to_string())
    });
    let chosen = [Some("dev"), None, Some("other"), Some("acme"), Some("*")];
    assert_eq!(groups.each_ref().map(Option::as_deref), chosen);
    let elsewhere = b.open("app-6", "alice", &["acme"], "root.b");
    b.resolve(elsewhere);
    assert_eq!(b.ugm.group(elsewhere), None, "no limit is about it there");
}

// SEEDS S29: where a limit of a queue names the user, its limits of groups are not enforced; in other queues they are, and
// usage of the group is tracked all the same. A wildcard for users suspends nothing.
#[test]
fn a_users_own_limit_comes_before_those_of_groups() {
    let group = || limit(&[], &["dev"], 5, 1);
    let conf = |user: &str, at_root: i64| {
        vec![("root", vec![limit(&[], &["dev"], at_root, 0)]), ("root.a", vec![limit(&[user], &[], 10, 3), group()])]
    };
    let mut b = Bench::new(&conf("alice", 100));
    let app = b.open("app-1", "alice", &["dev"], "root.a");
    for resolved in [false, true] {
        if resolved {
            b.resolve(app);
        }
        assert_eq!(b.headroom(app), "map[memory:10]");
        assert!(b.ugm.fits(app, &mem(10)) && !b.ugm.fits(app, &mem(11)));
    }
    b.add(app, 8);
    assert_eq!(b.group_used("dev", "root.a"), Some(8), "tracked beyond the limit that is not hers");
    let second = b.open("app-2", "alice", &["dev"], "root.a");
    assert!(b.ugm.can_run(second), "the group may run one");
    let bob = b.open("app-3", "bob", &["dev"], "root.a");
    assert!(!b.ugm.can_run(bob) && !b.ugm.fits(bob, &mem(1)), "for others the group has used it up");
    assert_eq!(
        b.ugm.exceeded(bob, &mem(1)).map(|refusal| (refusal.who, refusal.name)),
        Some((Who::Group, "dev".into()))
    );
    // Queue by queue: above, nothing names her.
    b.limits(&conf("alice", 9));
    assert_eq!(b.headroom(app), "map[memory:1]");
    b.limits(&conf("*", 100));
    assert_eq!(b.headroom(app), "map[memory:-3]", "everybody's limit, and the group's");
}

// UGM-020, UGM-023: the choice is kept, also that of no group; the next application chooses afresh.
#[test]
fn the_choice_is_kept() {
    let mut b = Bench::default();
    let first = b.open("app-1", "alice", &["dev"], "root.a");
    let waits = b.open("app-3", "alice", &["dev"], "root.a");
    b.ugm.resolve(waits);
    b.add(first, 50);
    b.limits(&[("root.a", vec![limit(&[], &["dev"], 10, 0)])]);
    assert_eq!(b.ugm.group(first), None);
    // 002: one that waited meanwhile chooses by the limits at its first usage.
    assert!(!b.ugm.fits(waits, &mem(11)));
    b.add(waits, 1);
    b.sub(waits, 1, true);
    let second = b.open("app-2", "alice", &["dev"], "root.a");
    b.add(second, 5);
    assert_eq!(b.group_used("dev", "root.a"), Some(5));
    // Nothing of it is left, so it chooses again when it comes back.
    b.sub(first, 50, true);
    b.add(first, 1);
    assert_eq!(b.group_used("dev", "root.a"), Some(6));
}

// UGM-030: a user on a wildcard limit and its group, whichever is smaller; min over the path.
#[test]
fn headroom_is_the_least() {
    for (user, group) in [(10, 5), (5, 10)] {
        let mut b = Bench::new(&[
            ("root", vec![limit(&["alice"], &[], 100, 0)]),
            ("root.a", vec![limit(&["*"], &[], user, 0), limit(&[], &["dev"], group, 0)]),
        ]);
        let app = b.open("app-1", "alice", &["dev"], "root.a");
        for resolved in [false, true] {
            if resolved {
                b.resolve(app);
            }
            assert_eq!(b.headroom(app), "map[memory:5]");
            assert!(b.ugm.fits(app, &mem(5)) && !b.ugm.fits(app, &mem(6)));
            let refusal = b.ugm.exceeded(app, &mem(6)).expect("refused");
            let who = if user < group { (Who::User, "alice") } else { (Who::Group, "dev") };
            assert_eq!((refusal.who, &*refusal.name, &*refusal.queue), (who.0, who.1, "root.a"));
            assert_eq!(b.ugm.exceeded(app, &mem(5)), None);
        }
        b.add(app, 3);
        assert_eq!(b.headroom(app), "map[memory:2]");
        b.add(app, 10);
        assert_eq!(b.headroom(app), "map[memory:-8]", "usage may exceed limits: UGM-035");
        assert!(b.ugm.fits(app, &mem(0)) && !b.ugm.fits(app, &mem(1)));
    }
}

// UGM-031, UGM-032: types that the limit leaves out are free, a type with an explicit 0 is forbidden.
#[test]
fn types_of_a_limit() {
    let mut conf = limit(&["alice"], &[], 0, 0);
    conf.max_resources = Some(Resource::of(&[("memory", 10), ("nvidia.com/gpu", 0)]));
    let mut b = Bench::new(&[("root.a", vec![conf])]);
    let app = b.open("app-1", "alice", &[], "root.a");
    b.resolve(app);
    assert!(b.ugm.fits(app, &Resource::of(&[("memory", 10), ("vcore", 1_000_000)])));
    assert!(!b.ugm.fits(app, &Resource::of(&[("nvidia.com/gpu", 1)])));
    b.ugm.increase(app, &Resource::of(&[("vcore", 5)]).into(), &mut b.events);
    assert_eq!(b.headroom(app), "map[memory:10 nvidia.com/gpu:0]");
}

// UGM-013: an entry that only limits applications leaves resources free; none at all is no limit.
#[test]
fn only_applications() {
    let mut b = Bench::new(&[("root.a", vec![limit(&["alice"], &[], 0, 1)])]);
    let app = b.open("app-1", "alice", &[], "root.a");
    assert_eq!(b.headroom(app), "none");
    assert!(b.ugm.fits(app, &mem(i64::MAX)));
    b.add(app, 1);
    assert_eq!(b.headroom(app), "none");
}

// SEEDS S30: each user and each group on a wildcard limit has its own count, groups that are named have none of it.
#[test]
fn wildcards_count_for_each() {
    let mut b = Bench::new(&[
        ("root", vec![limit(&[], &["x", "*"], 50, 2)]),
        ("root.a", vec![limit(&["*"], &[], 30, 0), limit(&[], &["x"], 100, 0)]),
    ]);
    let alice = b.open("app-1", "alice", &["g1"], "root.a");
    let (bob, carol) = (b.open("app-2", "bob", &["g2"], "root.a"), b.open("app-3", "carol", &["g1"], "root.a"));
    b.add(alice, 25);
    assert_eq!([alice, bob, carol].map(|app| b.headroom(app)), [5, 30, 25].map(|left| format!("map[memory:{left}]")));
    assert_eq!((b.group_used("g1", "root"), b.group_used("*", "root")), (Some(25), None));
    b.add(carol, 24);
    let fourth = b.open("app-4", "dave", &["g1"], "root.a");
    assert_eq!(b.headroom(fourth), "map[memory:1]");
    let held = b.ugm.held(fourth).expect("two of g1 run");
    assert_eq!((held.who, &*held.name, &*held.queue, held.applications), (Who::Group, "g1", "root", 2));
    assert!(b.ugm.can_run(bob));
    // A reload that names the group takes it from the wildcard, with what it uses.
    b.limits(&[("root", vec![limit(&[], &["g1"], 60, 0), limit(&[], &["*"], 50, 2)])]);
    assert_eq!((b.headroom(fourth), b.ugm.can_run(fourth)), ("map[memory:11]".into(), true));
    b.limits(&[]);
    assert_eq!(b.headroom(fourth), "none");
    assert_eq!(b.group_used("g1", "root"), Some(49), "the links stay");
}

// UGM-033: an application counts from its first allocation; one that counts passes; every level must have room.
#[test]
fn running_applications() {
    let mut b = Bench::new(&[
        ("root", vec![limit(&["alice"], &[], 0, 2), limit(&[], &["dev"], 0, 2)]),
        ("root.a", vec![limit(&["alice"], &[], 0, 1)]),
    ]);
    let apps = ["app-1", "app-2", "app-3"].map(|id| b.open(id, "alice", &[], "root.a"));
    assert!(apps.iter().all(|app| b.ugm.can_run(*app)));
    b.add(apps[0], 1);
    assert!(b.ugm.can_run(apps[0]) && !b.ugm.can_run(apps[1]));
    let held = b.ugm.held(apps[1]).expect("held");
    assert_eq!((&*held.queue, held.applications, held.limit.applications), ("root.a", 1, 1));
    b.resolve(apps[1]);
    assert_eq!(b.ugm.held(apps[1]), Some(held));
    // Another queue has room under root, then the user has none left there.
    let other = b.open("app-4", "alice", &[], "root.b");
    assert!(b.ugm.can_run(other));
    b.add(other, 1);
    let last = b.open("app-5", "alice", &[], "root.b");
    assert!(!b.ugm.can_run(last) && b.ugm.held(other).is_none());
    b.remove(apps[0]);
    assert!(b.ugm.can_run(last) && b.ugm.can_run(apps[1]));
    // The group's limit counts as well: two of bob's fill it.
    let bob = ["app-6", "app-7", "app-8"].map(|id| b.open(id, "bob", &["dev"], "root.b"));
    b.add(bob[0], 1);
    b.add(bob[1], 1);
    assert_eq!(b.ugm.held(bob[2]).map(|held| held.who), Some(Who::Group));
}

// UGM-041 (test idea 124): placeholders and then real allocations count the application once; UGM-042.
#[test]
fn gangs_count_once() {
    let mut b = Bench::new(&[("root.a", vec![limit(&["alice"], &[], 0, 1)])]);
    let gang = b.open("app-1", "alice", &[], "root.a");
    b.add(gang, 10);
    b.add(gang, 10);
    b.sub(gang, 10, false);
    b.add(gang, 12);
    assert_eq!(b.ugm.user("alice").expect("listed").root.children[0].applications.len(), 1);
    b.sub(gang, 10, false);
    b.sub(gang, 12, true);
    let next = b.open("app-2", "alice", &[], "root.a");
    assert!(b.ugm.can_run(next));
}

// SEEDS S35: an application that uses nothing leaves when the last of what waited is withdrawn, without an event of usage.
#[test]
fn the_last_ask_is_withdrawn() {
    let mut b = Bench::new(&[("root.a", vec![limit(&["*"], &["dev"], 0, 1)])]);
    let (app, next) = (b.open("app-1", "alice", &["dev"], "root.a"), b.open("app-2", "alice", &["dev"], "root.a"));
    b.add(app, 10);
    b.sub(app, 10, false);
    assert!(!b.ugm.can_run(next), "something of it waits");
    b.told();
    b.ugm.leave(app, &mut b.events);
    b.check();
    assert_eq!(b.told(), ["remove link dev app-1"]);
    assert_eq!((b.ugm.can_run(next), b.users(), b.groups()), (true, vec![], vec![]));
    b.ugm.leave(app, &mut b.events);
    b.ugm.leave(next, &mut b.events);
    b.close(app);
    assert_eq!(b.told(), Vec::<String>::new(), "told once");
}

// UGM-01A: in a dynamic queue the limits of the managed queues above hold.
#[test]
fn limits_above_a_dynamic_queue() {
    let mut b = Bench::new(&[("root.p", vec![limit(&["alice"], &[], 10, 0)])]);
    let app = b.open("app-1", "alice", &[], "root.p.alice_dot_x");
    b.add(app, 7);
    assert_eq!(b.headroom(app), "map[memory:3]");
}
