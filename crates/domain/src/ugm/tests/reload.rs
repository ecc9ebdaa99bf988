use super::*;

type Conf = Vec<(&'static str, Vec<LimitConf>)>;

fn user(queue: &'static str, name: &str, memory: i64) -> Conf {
    vec![(queue, vec![limit(&[name], &[], memory, 0)])]
}

fn group(queue: &'static str, name: &str, memory: i64) -> Conf {
    vec![(queue, vec![limit(&[], &[name], memory, 0)])]
}

// UGM-010, EVT-053, EVT-054: set at each reload, also unchanged; removed once.
#[test]
fn events_of_limits() {
    let both = |memory| vec![("root.a", vec![limit(&["alice"], &["dev"], memory, 0)])];
    let mut b = Bench::new(&both(20));
    let set = ["set user limit alice root.a", "set group limit dev root.a"];
    assert_eq!(b.told(), set);
    b.limits(&both(30));
    b.limits(&both(30));
    assert_eq!(b.told(), [set, set].concat());
    b.limits(&[]);
    assert_eq!(b.told(), ["remove user limit alice root.a", "remove group limit dev root.a"]);
    assert_eq!((b.users().len(), b.groups().len()), (0, 0));
    b.limits(&[]);
    assert_eq!(b.told(), Vec::<String>::new());
}

// UGM-019 (test idea 121): a limit below the usage stops new work only.
#[test]
fn lowered_below_usage() {
    let mut b = Bench::new(&user("root.a", "alice", 30));
    let app = b.open("app-1", "alice", &[], "root.a");
    b.add(app, 30);
    b.limits(&user("root.a", "alice", 20));
    assert_eq!((b.used("alice", "root.a"), b.ugm.fits(app, &mem(1))), (Some(30), false));
    b.sub(app, 15, false);
    assert!(b.ugm.fits(app, &mem(5)) && !b.ugm.fits(app, &mem(6)));
    b.limits(&[]);
    assert!(b.ugm.fits(app, &mem(1_000)));
    assert_eq!(b.used("alice", "root.a"), Some(15), "UGM-017: usage is kept");
}

// UGM-018 (test idea 122): a group limit that moves or goes leaves usage and links as they are.
#[test]
fn group_limit_moved_while_applications_run() {
    let mut b = Bench::new(&group("root.a", "g1", 100));
    let app = b.open("app-1", "alice", &["g1"], "root.a");
    b.add(app, 30);
    b.add(app, 30);
    b.told();
    b.limits(&group("root", "g1", 100));
    assert_eq!(b.told(), ["remove group limit g1 root.a", "set group limit g1 root"]);
    assert_eq!((b.group_used("g1", "root"), b.headroom(app)), (Some(60), "map[memory:40]".into()));
    b.add(app, 10);
    b.sub(app, 30, false);
    assert_eq!((b.group_used("g1", "root"), b.headroom(app)), (Some(40), "map[memory:60]".into()));
    // Dropped altogether: the group stays listed as long as the application uses something.
    b.limits(&[]);
    assert_eq!((b.group_used("g1", "root.a"), b.headroom(app)), (Some(40), "none".into()));
    let new = b.open("app-2", "alice", &["g1"], "root.a");
    b.add(new, 5);
    assert_eq!((b.ugm.group(new), b.group_used("g1", "root.a")), (None, Some(40)));
    b.sub(app, 40, true);
    assert_eq!(b.groups(), Vec::<String>::new());
}

// UGM-018: the usage in other queues stays, on root too.
#[test]
fn group_limit_of_one_of_two_queues() {
    let mut b = Bench::new(&[("root.a", group("", "g", 50)[0].1.clone()), ("root.b", group("", "g", 50)[0].1.clone())]);
    let (one, two) = (b.open("app-1", "alice", &["g"], "root.a"), b.open("app-2", "bob", &["g"], "root.b"));
    b.add(one, 30);
    b.add(two, 30);
    b.limits(&group("root.b", "g", 50));
    assert_eq!(["root", "root.a", "root.b"].map(|queue| b.group_used("g", queue)), [60, 30, 30].map(Some));
}

// UGM-017a: a removed limit takes no other limit with it.
#[test]
fn limits_below_a_removed_one_stay() {
    let at = |user: bool, queues: &[(&'static str, i64)]| -> Conf {
        let names = if user { (&["n"][..], &[][..]) } else { (&[][..], &["n"][..]) };
        queues.iter().map(|(queue, memory)| (*queue, vec![limit(names.0, names.1, *memory, 0)])).collect()
    };
    for user in [true, false] {
        let mut b = Bench::new(&at(user, &[("root.a", 100), ("root.a.b", 50)]));
        b.limits(&at(user, &[("root.a.b", 50)]));
        let app = b.open("app-1", "n", &["n"], "root.a.b");
        b.resolve(app);
        assert!(!b.ugm.fits(app, &mem(80)) && b.ugm.fits(app, &mem(50)), "user: {user}");
    }
}

// UGM-014, UGM-015, UGM-016 (test idea 120): users follow the wildcard limit as it comes, changes and goes.
#[test]
fn wildcard_user_limit() {
    let conf = |named: &[(&str, i64)], wild: i64| -> Conf {
        let mut entries: Vec<_> = named.iter().map(|(name, memory)| limit(&[name], &[], *memory, 0)).collect();
        entries.extend((wild > 0).then(|| limit(&["*"], &[], wild, 0)));
        vec![("root.a", entries)]
    };
    let mut b = Bench::new(&conf(&[("bob", 10)], 5));
    assert_eq!(b.told(), ["set user limit bob root.a"], "a wildcard never overrides a named limit");
    let (bob, sue) = (b.open("app-1", "bob", &[], "root.a"), b.open("app-2", "sue", &[], "root.a"));
    b.add(bob, 1);
    b.add(sue, 1);
    b.told();
    let left = |b: &Bench| [b.headroom(bob), b.headroom(sue)];
    assert_eq!(left(&b), ["map[memory:9]", "map[memory:4]"]);
    b.limits(&conf(&[("bob", 10)], 7));
    assert_eq!(left(&b), ["map[memory:9]", "map[memory:6]"]);
    assert_eq!(b.told(), ["set user limit bob root.a", "set user limit sue root.a"]);
    b.limits(&conf(&[("bob", 10), ("sue", 3)], 7));
    assert_eq!(left(&b), ["map[memory:9]", "map[memory:2]"]);
    b.limits(&conf(&[("sue", 3)], 7));
    assert_eq!(left(&b), ["map[memory:6]", "map[memory:2]"], "bob falls back to the wildcard");
    b.limits(&conf(&[("bob", 10)], 5));
    b.told();
    b.limits(&conf(&[("bob", 10)], 0));
    assert_eq!(left(&b), ["map[memory:9]", "none"], "only the wildcard went");
    // EVT-056: told for bob too, whose own limit is then told again.
    let gone = ["remove user limit bob root.a", "remove user limit sue root.a", "set user limit bob root.a"];
    assert_eq!(b.told(), gone);
    b.limits(&conf(&[], 0));
    assert_eq!(left(&b), ["none", "none"]);
    assert_eq!(b.told(), ["remove user limit bob root.a"]);
}

// UGM-003: users and queues that appear later take the wildcard limit; levels they leave keep none behind.
#[test]
fn wildcard_for_later_users() {
    let mut b = Bench::new(&[("root.a", vec![limit(&["*"], &[], 5, 0)]), ("root.b", vec![limit(&["*"], &[], 6, 0)])]);
    assert_eq!(b.told(), Vec::<String>::new());
    let app = b.open("app-1", "sue", &[], "root.a.x");
    assert_eq!(b.headroom(app), "map[memory:5]");
    b.add(app, 2);
    assert_eq!(b.headroom(app), "map[memory:3]");
    assert_eq!(b.used("sue", "root.b"), None);
    b.told();
    // UGM-014: a reload sets it for listed users at every path.
    b.limits(&[("root.b", vec![limit(&["*"], &[], 6, 0)])]);
    assert_eq!(b.told(), ["remove user limit sue root.a", "set user limit sue root.b"]);
    assert_eq!((b.headroom(app), b.used("sue", "root.b")), ("none".into(), None), "UGM-052: nothing is used there");
    b.sub(app, 2, true);
    assert_eq!((b.users(), b.ugm.levels.iter().count()), (vec![], 0));
}

// UGM-012 (test idea 126): paths are those of the queues, whatever the spelling; the reader lowers them.
#[test]
fn a_limit_of_a_queue_that_is_not_there() {
    let mut b = Bench::new(&user("root.gone.deep", "alice", 5));
    assert_eq!((b.ugm.user("alice"), b.users()), (None, vec![]), "SEEDS S28: a limit alone lists nobody");
    let app = b.open("app-1", "alice", &[], "root.a");
    b.add(app, 1);
    let alice = b.ugm.user("alice").expect("listed");
    let below: Vec<_> = alice.root.children.iter().map(|queue| &*queue.path).collect();
    assert_eq!(below, ["root.a"], "UGM-052: a limit alone lists no queue");
    b.sub(app, 1, true);
    b.limits(&[]);
    assert_eq!(b.ugm.levels.iter().count(), 0);
}

// An application that waits is held by the limits of the reload, not by those it was first checked with.
#[test]
fn waiting_applications_follow() {
    let mut b = Bench::new(&group("root.a", "dev", 5));
    let app = b.open("app-1", "alice", &["dev"], "root.a");
    b.resolve(app);
    assert!(!b.ugm.fits(app, &mem(6)));
    b.limits(&group("root.a", "dev", 6));
    assert!(b.ugm.fits(app, &mem(6)));
    b.limits(&[]);
    assert!(b.ugm.fits(app, &mem(60)));
    b.add(app, 60);
    assert_eq!(b.group_used("dev", "root.a"), Some(60), "the link lasts as long as the application");
}

// EVT-014, EVT-050–EVT-054, UGM-018: limits set, changed and removed around a running application, from start to end.
#[test]
fn a_day_of_user_limits() {
    let conf = |memory| vec![("root.a", vec![limit(&["alice"], &["dev"], memory, 0)])];
    let mut b = Bench::new(&conf(20));
    let app = b.open("app-1", "alice", &["dev"], "root.a");
    b.add(app, 10);
    assert!(!b.ugm.fits(app, &mem(15)));
    assert_eq!(b.headroom(app), "map[memory:10]", "what the message of the refusal shows as available");
    b.sub(app, 10, false);
    assert!(b.ugm.fits(app, &mem(15)));
    b.add(app, 15);
    b.limits(&conf(30));
    b.limits(&[]);
    assert_eq!((b.used("alice", "root.a"), b.group_used("dev", "root.a")), (Some(15), Some(15)));
    let mut told = b.told();
    told.sort();
    assert_eq!(
        told,
        [
            "add group dev root.a map[memory:10]",
            "add group dev root.a map[memory:15]",
            "add user alice root.a map[memory:10]",
            "add user alice root.a map[memory:15]",
            "remove group dev root.a map[memory:10]",
            "remove group limit dev root.a",
            "remove user alice root.a map[memory:10]",
            "remove user limit alice root.a",
            "set group limit dev root.a",
            "set group limit dev root.a",
            "set link dev app-1",
            "set user limit alice root.a",
            "set user limit alice root.a",
        ]
    );
}
