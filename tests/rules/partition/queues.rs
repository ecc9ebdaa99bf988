//! Queues from outside: how they come, change and go, what limits them, who is served first (sections 3 and 4 of the queue rules).

use std::{collections::BTreeMap, sync::Arc};

use callboard::domain::{
    command::{AddApplication, NodeAction},
    event::EventKind,
    queue::Queue,
    resources::Resource,
    types::{AppState, ObjectState, Termination},
};

use super::env::{Ask, Env, res};

/// A configuration with these queues below root, anybody may submit, and these other keys of the partition.
fn text(queues: &str, more: &str) -> String {
    format!("partitions:\n- name: default\n{more}  queues:\n  - name: root\n    submitacl: '*'\n    queues: {queues}\n")
}

const CREATE: &str = "  placementrules: [{name: provided, create: true}]\n";

fn queue<'a>(env: &'a Env, path: &str) -> &'a Queue {
    &env.partition.queues[env.partition.queue_by_path[path]]
}

fn is_there(env: &Env, path: &str) -> bool {
    env.partition.queue_by_path.contains_key(path)
}

fn tagged(env: &mut Env, id: &str, queue: &str, tags: &[(&str, &str)]) {
    let tags: BTreeMap<String, String> = tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let item = AddApplication { id: id.into(), queue: queue.into(), tags: Arc::new(tags.into()), ..env.by("alice") };
    env.add_app(item);
}

fn memory(amount: i64) -> Resource {
    Resource::of(&[("memory", amount)])
}

#[test]
fn a_draining_queue_goes_on_with_what_it_has() {
    // QUE-005, QUE-007, QUE-010, CFG-100, test ideas 35, 62
    let with = text("[{name: a}, {name: b}]", "");
    let mut env = Env::calm(&with);
    env.node("n1", 100);
    env.app("one", "root.a");
    env.reload(&text("[{name: b}]", ""));
    assert_eq!(queue(&env, "root.a").state, ObjectState::Draining);
    env.heard();
    env.ask(vec![Ask::new("one", "k", 10)]);
    assert_eq!(env.heard(), ["one Accepted", "one Running", "new k on n1"]);
    env.app("two", "root.a");
    assert!(env.heard()[0].contains("no placement rule matched"));
    env.pass(60);
    assert!(is_there(&env, "root.a"), "it is not empty");
    env.reload(&with);
    assert_eq!(queue(&env, "root.a").state, ObjectState::Active);
    env.app("three", "root.a");
    assert_eq!(env.heard(), ["accepted three"]);
    env.reload(&text("[{name: b}]", ""));
    env.remove_app("one");
    env.remove_app("three");
    env.pass(11);
    assert!(!is_there(&env, "root.a"));
    assert!(is_there(&env, "root.b"), "QUE-011: an active queue stays, empty or not");
}

#[test]
fn dynamic_queues_go_from_below_in_one_pass() {
    // QUE-012, test idea 64
    let mut env = Env::calm(&text("[]", CREATE));
    env.app("one", "root.x.y.z");
    assert!(is_there(&env, "root.x.y.z") && !queue(&env, "root.x").managed);
    env.remove_app("one");
    env.pass(11);
    assert!(!is_there(&env, "root.x"));
}

#[test]
fn an_empty_queue_is_cleaned_away_ten_seconds_later_whatever_the_clock_shows() {
    // QUE-010
    for begins_at in [0, 3, 9] {
        let mut env = Env::calm(&text("[]", CREATE));
        env.pass(begins_at);
        env.app("one", "root.x");
        env.remove_app("one");
        env.pass(9);
        assert!(is_there(&env, "root.x"), "{begins_at}");
        env.pass(1);
        assert!(!is_there(&env, "root.x"), "{begins_at}");
    }
}

#[test]
fn a_refused_gang_leaves_its_queue_for_the_cleaner() {
    // QUE-014, test idea 65
    let mut env = Env::calm(&text("[]", CREATE));
    let quota = r#"{"resources":{"memory":{"value":7}}}"#;
    let tags = BTreeMap::from([("namespace.resourcequota".to_owned(), quota.to_owned())]);
    let item = AddApplication {
        id: "gang".into(),
        queue: "root.x".into(),
        placeholder_ask: Some(memory(8)),
        tags: Arc::new(tags.into()),
        ..env.by("alice")
    };
    env.add_app(item);
    assert!(env.heard()[0].contains("larger than max queue allocation"), "{:?}", env.told);
    assert_eq!(queue(&env, "root.x").max, Some(memory(7).into()));
    env.pass(11);
    assert!(!is_there(&env, "root.x"));
}

#[test]
fn managed_children_drain_dynamic_ones_stay() {
    // CFG-100, CFG-101, test ideas 36, 37
    let template = "childtemplate: {maxapplications: 5, resources: {max: {memory: 9}}}";
    let with = text(&format!("[{{name: p, parent: true, {template}, queues: [{{name: c}}]}}]"), CREATE);
    let mut env = Env::calm(&with);
    env.app("one", "root.p.d1");
    assert_eq!(
        (queue(&env, "root.p.d1").max_applications, &queue(&env, "root.p.d1").max),
        (5, &Some(memory(9).into()))
    );
    env.reload(&text("[]", CREATE));
    let state = |path: &str| queue(&env, path).state;
    let states = [state("root.p"), state("root.p.c"), state("root.p.d1")];
    assert_eq!(states, [ObjectState::Draining, ObjectState::Draining, ObjectState::Active]);
    // QUE-006, PLC-035: nothing new below it.
    env.app("two", "root.p.new");
    assert!(
        env.heard()
            .iter()
            .any(|text| text.contains("cannot add a child queue when queue is marked for deletion: root.p"))
    );
    env.reload(&text(&format!("[{{name: p, {template}, queues: [{{name: D1, maxapplications: 3}}]}}]"), CREATE));
    let row = queue(&env, "root.p.d1");
    assert_eq!((row.managed, row.max_applications, &row.max, row.apps.len()), (true, 3, &None, 1));
}

#[test]
fn templates_are_for_what_placement_makes() {
    // TPL-001, TPL-004–TPL-006, TPL-008, CFG-103, test ideas 38, 81, 83
    let with = |max: i64, note: &str| {
        format!(
            "partitions:\n- name: default\n{CREATE}  queues:\n  - name: root\n    submitacl: '*'\n    childtemplate: {{resources: {{max: \
             {{memory: {max}}}}}, properties: {{application.sort.policy: fair}}}}\n    queues: [{{name: p, parent: true}}, {{name: own, parent: true, \
             childtemplate: {{maxapplications: 2}}}}, {{name: leaf}}]\n{note}"
        )
    };
    let mut env = Env::calm(&with(10, ""));
    env.app("one", "root.p.x");
    assert_eq!(
        (&queue(&env, "root.p.x").max, queue(&env, "root.p.x").settings.sort_fair),
        (&Some(memory(10).into()), true)
    );
    env.app("two", "root.own.x");
    assert_eq!((&queue(&env, "root.own.x").max, queue(&env, "root.own.x").max_applications), (&None, 2));
    assert_eq!((&queue(&env, "root.leaf").max, &queue(&env, "root.leaf").template), (&None, &None));
    env.app("three", "root.p.deep.er");
    assert_eq!(queue(&env, "root.p.deep.er").max, Some(memory(10).into()), "through a dynamic parent");
    // A comment is a new configuration.
    env.reload(&with(10, "# note\n"));
    env.app("four", "root.p.y");
    assert_eq!(queue(&env, "root.p.y").max, Some(memory(10).into()));
    // What is there already keeps its values.
    env.reload(&with(20, ""));
    env.app("five", "root.p.z");
    assert_eq!(
        (&queue(&env, "root.p.x").max, &queue(&env, "root.p.z").max),
        (&Some(memory(10).into()), &Some(memory(20).into()))
    );
    // The recovery queue takes no part in it.
    tagged(&mut env, "forced", "root.own", &[("application.create.force", "true")]);
    let row = queue(&env, "root.@recovery@");
    assert_eq!((&row.max, row.max_applications, row.settings.sort_fair, row.managed), (&None, 0, false, false));
}

#[test]
fn tags_set_what_they_carry() {
    // QUE-045, QUE-046, test ideas 66–68
    let template = "childtemplate: {resources: {max: {memory: 10}}}";
    let mut env = Env::calm(&text(&format!("[{{name: p, parent: true, {template}}}, {{name: m}}]"), CREATE));
    let of = |kind: &str, value: i64| format!(r#"{{"resources":{{"{kind}":{{"value":{value}}}}}}}"#);
    tagged(&mut env, "one", "root.p.x", &[("Namespace.ResourceGuaranteed", &of("memory", 7))]);
    assert_eq!(
        (&queue(&env, "root.p.x").guaranteed, &queue(&env, "root.p.x").max),
        (&Some(memory(7).into()), &Some(memory(10).into()))
    );
    tagged(
        &mut env,
        "two",
        "root.p.x",
        &[("namespace.resourcequota", &of("vcore", 10_000)), ("namespace.resourcemaxapps", "1")],
    );
    let row = queue(&env, "root.p.x");
    assert_eq!((row.max.clone(), row.max_applications), (Some(Resource::of(&[("vcore", 10_000)]).into()), 1));
    for bad in ["{", "7", &of("memory", 0), &of("memory", -1)] {
        tagged(&mut env, "bad", "root.p.x", &[("namespace.resourcequota", bad), ("namespace.resourcemaxapps", "many")]);
        env.remove_app("bad");
        assert_eq!(
            (&queue(&env, "root.p.x").max, queue(&env, "root.p.x").max_applications),
            (&Some(Resource::of(&[("vcore", 10_000)]).into()), 1)
        );
    }
    tagged(&mut env, "three", "root.m", &[("namespace.resourcequota", &of("memory", 5))]);
    assert_eq!(queue(&env, "root.m").max, None, "a configured queue is left alone");
}

#[test]
fn a_guarantee_above_the_max_is_told_once() {
    // QUE-045: what a configuration is refused for (CFG-041).
    let mut env = Env::calm(&text("[{name: p, parent: true}]", CREATE));
    let told = |env: &mut Env| -> Vec<String> {
        let with_text = std::mem::take(&mut env.events).into_iter().filter(|event| !event.message.is_empty());
        let of_queue = with_text.filter(|event| &*event.object == "root.p.x");
        of_queue.map(|event| format!("{:?}: {}", event.detail, event.message)).collect()
    };
    let of = |value: i64| format!(r#"{{"resources":{{"memory":{{"value":{value}}}}}}}"#);
    let (five, seven) = (of(5), of(7));
    tagged(&mut env, "one", "root.p.x", &[("namespace.resourceguaranteed", &five)]);
    tagged(&mut env, "two", "root.p.x", &[("namespace.resourcequota", &seven)]);
    assert_eq!(told(&mut env), Vec::<String>::new());
    for id in ["three", "four"] {
        let tags = [("namespace.resourceguaranteed", &*seven), ("namespace.resourcequota", &*five)];
        tagged(&mut env, id, "root.p.x", &tags);
        assert!(env.partition.app_by_id.contains_key(id));
    }
    let above =
        "QueueConfig: guaranteed resource map[memory:7] is larger than maximum resource map[memory:5], which counts";
    assert_eq!(told(&mut env), [above], "not again with the same tags");
}

#[test]
fn a_gang_that_runs_already_is_taken_whatever_its_queue_may_hold() {
    // QUE-047, R3.28
    let mut env = Env::calm(&text("[{name: q, resources: {max: {memory: 10}}}]", ""));
    for (id, force) in [("new", "false"), ("recovered", "true")] {
        let tags = BTreeMap::from([("application.create.force".to_owned(), force.to_owned())]);
        let item = AddApplication {
            id: id.into(),
            queue: "root.q".into(),
            placeholder_ask: Some(memory(20)),
            tags: Arc::new(tags.into()),
            ..env.by("alice")
        };
        env.add_app(item);
        assert_eq!(env.partition.app_by_id.contains_key(id), force == "true", "{id}");
    }
}

#[test]
fn quotas_by_type() {
    // QUE-021, QUE-022, QUE-025, test ideas 54, 57, 59
    let with = |a: &str| {
        text(
            &format!(
                "[{{name: p, resources: {{max: {{memory: 50}}}}, queues: [{{name: a, resources: {{max: {a}}}}}]}}]"
            ),
            "",
        )
    };
    let mut env = Env::calm(&with("{memory: 0, vcore: 30m}"));
    env.node("n1", 100);
    env.app("one", "root.p.a");
    let only = |kind: &str, amount: i64| Resource::of(&[(kind, amount)]);
    env.ask(vec![
        Ask::new("one", "memory", 1).sized(only("memory", 1)),
        Ask::new("one", "vcore", 1).sized(only("vcore", 20)),
        Ask::new("one", "more", 1).sized(only("vcore", 20)),
    ]);
    let placed = |env: &Env| env.partition.allocations;
    assert_eq!(placed(&env), 1, "memory is forbidden, the second does not fit");
    // Zero alone limits nothing; the parent does.
    env.reload(&with("{memory: 0}"));
    assert_eq!(placed(&env), 3);
    env.ask(vec![Ask::new("one", "big", 1).sized(only("memory", 50))]);
    assert_eq!(placed(&env), 3);
    // Above its quota in one type it still takes another.
    env.reload(&text("[{name: p, resources: {max: {vcore: 30m, memory: 20}}, queues: [{name: a}]}]", ""));
    assert_eq!(*queue(&env, "root.p").allocated(), Resource::of(&[("memory", 1), ("vcore", 40)]));
    env.ask(vec![
        Ask::new("one", "other", 1).sized(only("memory", 5)),
        Ask::new("one", "same", 1).sized(only("vcore", 1)),
    ]);
    assert_eq!(placed(&env), 4);
    env.release("one", "vcore", Termination::StoppedByRm);
    assert_eq!(placed(&env), 4, "what left made room for the vcore");
}

#[test]
fn headroom_is_the_least_on_the_way() {
    // QUE-023, QUE-029, test idea 56
    let mut env = Env::calm(&text(
        "[{name: p, resources: {max: {memory: 20, vcore: 10m}}, queues: [{name: a, resources: {max: {memory: 10, gpu: 3}}}]}]",
        "",
    ));
    let headroom = |env: &Env, path: &str| env.partition.headroom(env.partition.queue_by_path[path]);
    assert_eq!(headroom(&env, "root.p.a"), Some(Resource::of(&[("memory", 10), ("vcore", 10), ("gpu", 3)])));
    assert_eq!(headroom(&env, "root"), None, "no nodes, no limit");
    env.node("n1", 15);
    env.app("one", "root.p.a");
    env.ask(vec![Ask::new("one", "k", 4)]);
    assert_eq!(headroom(&env, "root.p.a"), Some(Resource::of(&[("memory", 6), ("vcore", 6), ("gpu", 3)])));
}

#[test]
fn properties_are_inherited_but_for_three() {
    // QUE-061–QUE-065, test ideas 70–73
    let parent = "{name: p, properties: {priority.policy: fence, priority.offset: '100', preemption.policy: fence, x: y, \
                  quota.preemption.delay: 5s, application.sort.policy: fair}, parent: true, queues: [{name: c}, {name: own, properties: {priority.offset: '7', \
                  preemption.policy: default}}]}";
    let mut env = Env::calm(&text(&format!("[{parent}]"), CREATE));
    let get = |env: &Env, path: &str, key: &str| queue(env, path).properties.get(key).cloned().unwrap_or_default();
    let child = ["priority.policy", "priority.offset", "preemption.policy", "x", "quota.preemption.delay"]
        .map(|key| get(&env, "root.p.c", key));
    assert_eq!(child, ["default", "0", "default", "y", "5s"]);
    assert_eq!(get(&env, "root.p.own", "priority.offset"), "7");
    assert!(queue(&env, "root.p.c").settings.sort_fair);
    env.app("one", "root.p.dynamic");
    assert!(queue(&env, "root.p.dynamic").properties.is_empty() && !queue(&env, "root.p.dynamic").settings.sort_fair);
    let disabled = parent
        .replace("preemption.policy: fence, x", "preemption.policy: disabled, x")
        .replace("application.sort.policy: fair", "z: ''");
    env.reload(&text(&format!("[{disabled}]"), CREATE));
    assert_eq!(
        (get(&env, "root.p.c", "preemption.policy"), get(&env, "root.p.own", "preemption.policy")),
        ("disabled".into(), "default".into())
    );
    assert!(!queue(&env, "root.p.c").settings.sort_fair, "what goes returns to its default");
}

#[test]
fn priorities_rise_with_offsets_and_stop_at_fences() {
    // QUE-080–QUE-084, test ideas 77, 78
    let with = |offset: &str, policy: &str| {
        text(
            &format!(
                "[{{name: p, queues: [{{name: a, properties: {{priority.offset: '{offset}', priority.policy: {policy}}}}}]}}]"
            ),
            "",
        )
    };
    let mut env = Env::calm(&with("5", "default"));
    let shown = |env: &Env| ["root.p.a", "root.p", "root"].map(|path| queue(env, path).exposed_priority);
    env.app("one", "root.p.a");
    assert_eq!(shown(&env), [i32::MIN; 3]);
    env.ask(vec![Ask::new("one", "k", 10).priority(10), Ask::new("one", "l", 10).priority(20)]);
    assert_eq!(shown(&env), [25, 25, 25]);
    env.release("one", "l", Termination::StoppedByRm);
    assert_eq!(shown(&env), [15, 15, 15]);
    env.reload(&with("50", "default"));
    assert_eq!(shown(&env), [60, 60, 60], "at once on every level");
    env.reload(&with("7", "fence"));
    assert_eq!(shown(&env), [7, 7, 7]);
    env.reload(&with("2147483647", "default"));
    assert_eq!(shown(&env), [i32::MAX; 3]);
    env.remove_app("one");
    assert_eq!(shown(&env), [i32::MIN; 3], "an idle queue shows nothing of its offset");
}

/// The queues that are served, one after the other, when room for one ask at a time comes.
fn served(env: &mut Env, steps: usize) -> Vec<String> {
    env.heard();
    for n in 0..steps {
        env.node(&format!("m{n}"), 10);
    }
    let heard = env.heard();
    heard.iter().filter_map(|text| text.strip_prefix("new ")?.split('-').next().map(str::to_owned)).collect()
}

#[test]
fn queues_by_priority_then_share_or_the_other_way() {
    // QUE-071, QUE-072, QUE-072a, test idea 74
    let with = |sort: &str| {
        text(
            "[{name: a, resources: {guaranteed: {memory: 10}}}, {name: b, resources: {guaranteed: {memory: 40}}}, {name: c}]",
            "",
        )
        .replace("    submitacl", &format!("    properties: {{application.sort.priority: {sort}}}\n    submitacl"))
    };
    for sort in ["enabled", "disabled"] {
        let mut env = Env::calm(&with(sort));
        for name in ["a", "b", "c"] {
            env.app(name, &format!("root.{name}"));
            let count = if name == "c" { 2 } else { 5 };
            let priority = i32::from(name == "c");
            env.ask((0..count).map(|n| Ask::new(name, &format!("{name}-{n}"), 10).priority(priority)).collect());
        }
        let order = served(&mut env, 8);
        // Whole nodes: each ask fills one. c has no guaranteed: its share is of the cluster, which grows.
        assert_eq!(order.len(), 8, "{order:?}");
        if sort == "enabled" {
            assert_eq!(order[..2], ["c", "c"], "the higher priority first: {order:?}");
        } else {
            assert_ne!(order[1], "c", "its share is the larger one by then: {order:?}");
        }
        // b is guaranteed four times as much: of the first five of both it gets four.
        let both: Vec<&String> = order.iter().filter(|name| *name != "c").take(5).collect();
        assert_eq!(both.iter().filter(|name| **name == "b").count(), 4, "{sort}: {order:?}");
    }
}

#[test]
fn only_so_many_applications_run_on_every_level() {
    // QUE-090–QUE-095, CFG-099, test ideas 39, 79, 80
    let with = |root: u64| {
        text("[{name: a, maxapplications: 1}, {name: b, maxapplications: 2}]", "")
            .replace("    submitacl", &format!("    maxapplications: {root}\n    submitacl"))
    };
    let mut env = Env::calm(&with(2));
    env.node("n1", 100);
    for (app, queue) in [("a1", "root.a"), ("a2", "root.a"), ("b1", "root.b"), ("b2", "root.b")] {
        env.app(app, queue);
        env.ask(vec![Ask::new(app, &format!("{app}-k"), 5)]);
    }
    let running = |env: &Env| ["a1", "a2", "b1", "b2"].map(|app| env.state(app) == Some(AppState::Running));
    assert_eq!(running(&env), [true, false, true, false], "one in a, two in all");
    env.reload(&with(3));
    assert_eq!(running(&env), [true, false, true, true], "the root's limit follows a reload");
    env.release("a1", "a1-k", Termination::StoppedByRm);
    assert_eq!(running(&env), [false, true, true, true]);
    // Lowered below what runs: they go on, nothing new starts.
    env.reload(&with(2).replace("name: b, maxapplications: 2", "name: b, maxapplications: 1"));
    assert_eq!((queue(&env, "root").running, queue(&env, "root.b").running), (3, 2));
    env.ask(vec![Ask::new("b1", "b1-more", 5)]);
    assert!(env.heard().contains(&"new b1-more on n1".to_owned()));
    // QUE-094: a gang that goes before it runs gives its place back on every level.
    let mut env = Env::calm(&with(1).replace("maxapplications: 2", "maxapplications: 1"));
    env.node("n1", 100);
    env.gang("gang", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("gang", "p", 10).placeholder("tg")]);
    assert_eq!(queue(&env, "root").allocating.len(), 1);
    env.remove_app("gang");
    env.app("next", "root.b");
    env.ask(vec![Ask::new("next", "k", 5)]);
    assert_eq!(env.state("next"), Some(AppState::Running));
}

#[test]
fn a_leaf_that_becomes_a_parent_keeps_what_runs() {
    // CFG-102
    let mut env = Env::calm(&text("[{name: a}]", ""));
    env.node("n1", 100);
    env.app("one", "root.a");
    env.ask(vec![Ask::new("one", "k", 10)]);
    env.reload(&text("[{name: a, queues: [{name: b}]}]", ""));
    assert_eq!((queue(&env, "root.a").leaf, &**queue(&env, "root.a").allocated()), (false, &res(10, 10)));
    env.app("two", "root.a.b");
    env.ask(vec![Ask::new("two", "l", 10)]);
    assert_eq!(*queue(&env, "root.a").allocated(), res(20, 20));
    env.release("one", "k", Termination::StoppedByRm);
    env.reload(&text("[{name: a}]", ""));
    env.remove_app("two");
    env.pass(60);
    assert!(queue(&env, "root.a").leaf && !is_there(&env, "root.a.b"));
    env.app("three", "root.a");
    env.ask(vec![Ask::new("three", "m", 10)]);
    assert_eq!(env.state("three"), Some(AppState::Running));
}

#[test]
fn a_gang_waits_while_its_queue_is_a_parent() {
    // CFG-102: nothing is replaced either, until it is a leaf again.
    let mut env = Env::calm(&text("[{name: a}]", ""));
    env.node("n1", 100);
    env.gang("gang", "root.a", 10, "Soft");
    env.ask(vec![Ask::new("gang", "ph", 10).placeholder("tg")]);
    env.reload(&text("[{name: a, queues: [{name: b}]}]", ""));
    env.heard();
    env.ask(vec![Ask::new("gang", "real", 10).group("tg")]);
    assert_eq!(env.heard(), [""; 0]);
    env.reload(&text("[{name: a}]", ""));
    assert!(env.heard().contains(&"released ph PlaceholderReplaced".to_owned()));
}

#[test]
fn an_ask_lets_go_of_its_node_when_its_queue_becomes_a_parent() {
    // CFG-102: what it had reserved is open to others.
    let mut env = Env::calm(&text("[{name: a}, {name: c}]", ""));
    env.node("n1", 20);
    env.app("two", "root.c");
    env.ask(vec![Ask::new("two", "full", 20)]);
    env.node("n2", 8);
    env.node("n3", 8);
    env.app("one", "root.a");
    env.ask(vec![Ask::new("one", "waits", 10)]);
    env.pass(3);
    assert_eq!(env.partition.reservations, 1);
    env.reload(&text("[{name: a, queues: [{name: b}]}, {name: c}]", ""));
    env.ask(vec![Ask::new("two", "l", 20)]);
    env.heard();
    env.release("two", "full", Termination::StoppedByRm);
    assert!(env.heard().contains(&"new l on n1".to_owned()));
    assert_eq!(env.partition.reservations, 0);
}

#[test]
fn what_a_former_parent_still_has_below_goes_on() {
    // CFG-102: its children drain, so what is there runs to its end, new asks of it included.
    let mut env = Env::calm(&text("[{name: a, queues: [{name: b}]}]", ""));
    env.node("n1", 100);
    env.app("one", "root.a.b");
    env.ask(vec![Ask::new("one", "k", 10)]);
    env.reload(&text("[{name: a}]", ""));
    env.ask(vec![Ask::new("one", "l", 10)]);
    env.app("two", "root.a");
    env.ask(vec![Ask::new("two", "m", 10)]);
    let heard = env.heard();
    for key in ["l", "m"] {
        assert!(heard.contains(&format!("new {key} on n1")), "{heard:?}");
    }
}

#[test]
fn every_change_of_a_queue_has_its_event() {
    // EVT-040–EVT-048 (table of the event interface), test idea 133
    let mut env = Env::calm(&text("[{name: a, resources: {max: {memory: 5}}}]", CREATE));
    let events = |env: &mut Env| {
        let all = std::mem::take(&mut env.events);
        let queues = all.into_iter().filter(|event| event.kind == EventKind::Queue);
        let shown = queues.map(|event| {
            let text =
                format!("{} {:?} {:?} {} {}", event.object, event.change, event.detail, event.reference, event.message);
            text.trim_end().to_owned()
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(events(&mut env), ["root Add None", "root.a Add None"]);
    let changed = text("[{name: a, parent: true, resources: {max: {memory: 6}, guaranteed: {memory: 1}}}]", CREATE);
    env.reload(&changed);
    assert_eq!(
        events(&mut env),
        [
            "root.a Set QueueType  leaf queue: false",
            "root.a Set QueueMax",
            "root.a Set QueueGuaranteed",
            "root.a Set QueueConfig"
        ]
    );
    env.reload(&format!("{changed}# the same\n"));
    assert_eq!(events(&mut env), Vec::<String>::new());
    // EVT-04A: access lists, properties and what else has no event of its own.
    for more in ["submitacl: eve", "properties: {priority.offset: '5'}", "maxapplications: 7"] {
        env.reload(&changed.replace("parent: true", &format!("parent: true, {more}")));
        assert_eq!(events(&mut env), ["root.a Set QueueConfig"], "{more}");
        env.reload(&changed);
        assert_eq!(events(&mut env), ["root.a Set QueueConfig"], "{more}");
    }
    env.app("one", "root.a.x");
    assert_eq!(events(&mut env), ["root.a.x Add QueueDynamic", "root.a.x Add QueueApp one"]);
    env.remove_app("one");
    env.pass(11);
    assert_eq!(events(&mut env), ["root.a.x Remove QueueApp one", "root.a.x Remove QueueDynamic"]);
    env.reload(&text("[]", CREATE));
    assert_eq!(events(&mut env), ["root.a Set QueueConfig"], "it drains from now on");
    env.pass(11);
    assert_eq!(events(&mut env), ["root.a Remove QueueConfig"]);
}

#[test]
fn a_guarantee_that_a_tag_sets_changes_the_order_of_applications() {
    // QUE-075, R5.21: shares are parts of the guarantee of the queue.
    let yaml = "partitions: [{name: default, placementrules: [{name: provided, create: true}], queues: [{name: root, submitacl: '*', \
                childtemplate: {properties: {application.sort.policy: fair}}, queues: [{name: a}]}]}]";
    let mut env = Env::calm(yaml);
    env.node("n1", 1000);
    for app in ["a1", "a2"] {
        env.app(app, "root.d");
    }
    env.app("b", "root.a");
    env.ask(vec![Ask::new("a1", "m", 0).sized(res(600, 1)), Ask::new("a2", "v", 0).sized(res(1, 400))]);
    env.ask(vec![Ask::new("b", "fill", 0).sized(res(399, 599))]);
    env.ask(["a1", "a2"].map(|app| Ask::new(app, &format!("of-{app}"), 10)).into());
    let guaranteed = "{\"resources\": {\"memory\": {\"value\": 1000}, \"vcore\": {\"value\": 10}}}";
    tagged(&mut env, "a3", "root.d", &[("namespace.resourceguaranteed", guaranteed)]);
    env.heard();
    env.release("b", "fill", Termination::StoppedByRm);
    let heard = env.heard();
    let placed: Vec<_> = heard.iter().filter(|told| told.starts_with("new ")).collect();
    assert_eq!(placed, ["new of-a1 on n1", "new of-a2 on n1"], "0.6 of the guarantee comes before 40 times of it");
}

#[test]
fn what_waits_for_its_queue_to_be_a_leaf_again_wants_no_nodes() {
    // CFG-102, R4.38
    let leaf = text("[{name: a, resources: {max: {memory: 100}}}]", "");
    let mut env = Env::new(&leaf);
    env.node("n1", 1000);
    env.app("x", "root.a");
    env.ask(vec![Ask::new("x", "x1", 60), Ask::new("x", "x2", 60)]);
    env.reload(&text("[{name: a, parent: true, resources: {max: {memory: 200}}}]", ""));
    env.heard();
    env.pass(5);
    assert_eq!(env.heard(), [""; 0]);
    assert!(env.partition.demand().is_empty());
}

#[test]
fn a_recovered_placeholder_counts_among_the_applications_that_run() {
    // QUE-090
    let mut env = Env::calm(&text("[{name: a, maxapplications: 1}]", ""));
    env.node("n1", 100);
    env.gang("g", "root.a", 20, "Soft");
    env.ask(vec![Ask::new("g", "p0", 10).placeholder("tg").on("n1")]);
    env.app("a2", "root.a");
    env.ask(vec![Ask::new("a2", "k", 10)]);
    assert_eq!(env.state("a2"), Some(AppState::Accepted));
    env.ask(vec![Ask::new("g", "p1", 10).placeholder("tg")]);
    assert_eq!((env.state("g"), env.state("a2")), (Some(AppState::Running), Some(AppState::Accepted)));
}

#[test]
fn a_node_of_less_than_nothing_is_rejected() {
    // R2.12: with it the whole cluster would have no size.
    let mut env = Env::calm(&text("[{name: a}]", ""));
    env.node("n1", 100);
    env.apply_node("n2", &[("memory", -500), ("vcore", 10)]);
    env.node_action("n1", NodeAction::Update, Some(memory(-1)));
    let heard = env.heard();
    assert_eq!(heard.len(), 3, "{heard:?}");
    for (told, node) in heard[1..].iter().zip(["n2", "n1"]) {
        let expected = format!("node {node} has a negative capacity");
        assert!(told.starts_with(&format!("rejected node {node}: ")) && told.contains(&expected), "{told}");
    }
    env.app("x", "root.a");
    env.ask(vec![Ask::new("x", "k", 10)]);
    assert!(env.heard().contains(&"new k on n1".to_owned()));
}

#[test]
fn one_moment_is_kept_for_an_id_that_is_refused_again_and_again() {
    // R3.25, R3.48: it expires 72 hours after the last time.
    let mut env = Env::calm(&text("[{name: a}]", ""));
    let hours = |hours: i64| hours * 3600;
    for _ in 0..3 {
        env.app("x", "root.nowhere.at.all");
        env.pass(hours(30));
    }
    assert_eq!(env.partition.rejected["x"].state, AppState::Rejected, "90 hours after the first");
    env.pass(hours(41));
    assert_eq!(env.partition.rejected["x"].state, AppState::Rejected);
    env.pass(hours(2));
    assert!(env.partition.rejected.get("x").is_none_or(|row| row.state == AppState::Expired));
    env.app("x", "root.nowhere.at.all");
    env.pass(hours(71));
    assert_eq!(env.partition.rejected["x"].state, AppState::Rejected);
    env.pass(hours(2));
    assert!(env.partition.rejected.get("x").is_none_or(|row| row.state == AppState::Expired));
}

#[test]
fn only_so_many_refused_applications_are_kept_and_no_long_texts() {
    // R3.5: the newest.
    let mut env = Env::calm(&text("[{name: a}]", ""));
    env.twin = None;
    let submit = |env: &mut Env, id: &str, bytes: usize| {
        let tags = Arc::new([("a".to_owned(), "x".repeat(bytes))].into_iter().collect());
        env.add_app(AddApplication { id: id.into(), queue: "root.no.where".into(), tags, ..env.by("alice") });
    };
    submit(&mut env, "first", 4_000);
    submit(&mut env, "second", 5_000);
    let tags = |env: &Env, id: &str| env.partition.rejected[id].tags.len();
    assert_eq!((tags(&env, "first"), tags(&env, "second")), (1, 0));
    env.pass(1);
    submit(&mut env, "first", 0);
    env.heard();
    env.pass(1);
    for n in 0..9_999 {
        submit(&mut env, &n.to_string(), 0);
    }
    assert_eq!(env.partition.rejected.len(), 10_000);
    assert!(!env.partition.rejected.contains_key("second"), "the oldest has gone");
    assert!(env.partition.rejected.contains_key("first"), "it was refused once more after that one");
    assert_eq!(env.heard().iter().filter(|told| told.ends_with(" Expired")).count(), 1);
    submit(&mut env, "last", 0);
    assert!(!env.partition.rejected.contains_key("first"));
    env.pass(73 * 3600);
    assert!(env.partition.rejected.values().all(|row| row.state == AppState::Expired));
    env.pass(24 * 3600);
    assert!(env.partition.rejected.is_empty());
    let groups = std::iter::repeat_n(Arc::from("g".repeat(1_000)), 5).collect();
    let style = "h".repeat(5_000);
    env.add_app(AddApplication { id: "third".into(), groups: Some(groups), gang_style: style, ..env.by("bob") });
    let third = &env.partition.rejected["third"];
    let reason = third.rejected.as_ref().map_or(0, |reason| reason.len());
    assert!(third.groups.is_empty() && reason <= 4_096 + '…'.len_utf8(), "{reason}");
}

#[test]
fn the_state_log_of_an_application_does_not_grow_for_ever() {
    // R3.3: the first entry is kept, and the newest.
    let mut env = Env::calm(&text("[{name: a}]", ""));
    env.twin = None;
    env.node("n1", 10);
    env.app("x", "root.a");
    for n in 0..600 {
        let key = format!("k{n}");
        env.ask(vec![Ask::new("x", &key, 10)]);
        env.release("x", &key, Termination::StoppedByRm);
    }
    let app = env.partition.app_by_id.get("x").copied().expect("it is there");
    let states: Vec<AppState> = env.partition.apps[app].state_log.iter().map(|(_, state)| *state).collect();
    assert_eq!((states.len(), states[0], states[999]), (1_000, AppState::Accepted, AppState::Completing));
}

#[test]
fn ids_may_come_in_any_order() {
    // R2.36: each finds a rank between those of its neighbours, whatever came before.
    let mut env = Env::calm(&text("[{name: a}]", ""));
    env.twin = None;
    env.node("zone-master", 10);
    for n in 0..400 {
        env.node(&format!("worker-{n:05}"), 10);
    }
    for n in (0..200).rev() {
        env.node(&format!("worker-{:05}-{n:04}", 150), 10);
    }
    let ranks: Vec<u64> = env.partition.node_by_id.values().map(|ix| env.partition.nodes[*ix].rank).collect();
    assert!(ranks.is_sorted_by(|a, b| a < b));
    env.app("x", "root.a");
    env.ask((0..601).map(|n| Ask::new("x", &format!("k{n}"), 10)).collect());
    assert_eq!(env.partition.allocations, 601);
    env.check();
}
