use super::*;
use crate::{
    command::{AddApplication, AllocationItem, NodeAction, NodeItem},
    config,
    resources::Resource,
};

const NOW: Nanos = Nanos::from_secs(1_000);

fn conf(queues: &str) -> Arc<PartitionConf> {
    let text = format!(
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues: {queues}\n"
    );
    config::load(&text).unwrap_or_else(|refused| panic!("{refused:?}\n{text}")).partitions.remove(0)
}

/// A partition with a node and, in each of these queues, an application by its user that runs with this much memory.
fn running(queues: &str, apps: &[(&str, &str, &str, i64)]) -> Partition {
    let mut fx = Vec::new();
    let mut partition = Partition::new("rm".into(), "[rm]default".into(), conf(queues), NOW, &mut fx);
    let node = NodeItem {
        id: "n1".into(),
        action: NodeAction::Create,
        capacity: Some(Resource::of(&[("memory", 1000)])),
        attributes: Default::default(),
    };
    partition.apply(Command::Nodes(vec![node]), NOW, &mut fx);
    for (at, (id, queue, user, memory)) in apps.iter().enumerate() {
        let now = NOW.plus(Nanos::from_secs(at as i64));
        let new = AddApplication {
            id: (*id).into(),
            queue: (*queue).into(),
            user: (*user).into(),
            groups: Some([Arc::from("g")].into()),
            ..AddApplication::default()
        };
        partition.apply(Command::Applications { new: vec![new], remove: Vec::new() }, now, &mut fx);
        if *memory == 0 {
            continue;
        }
        let spec = crate::alloc::AskSpec {
            key: format!("{id}-1").into(),
            resource: Arc::new(Resource::of(&[("memory", *memory)])),
            ..Default::default()
        };
        let allocations = vec![AllocationItem { app: (*id).into(), node: None, spec: Arc::new(spec) }];
        partition.apply(Command::Allocations { allocations, releases: Vec::new() }, now, &mut fx);
        while partition.schedule_at_once(64, now, &mut fx) > 0 {}
    }
    partition
}

fn queues(dry_run: &DryRun) -> Vec<String> {
    let shown = |setting: &Setting| {
        let text = |value: &Option<String>| value.clone().unwrap_or("-".to_owned());
        format!("{} {}>{}", setting.name, text(&setting.from), text(&setting.to))
    };
    dry_run
        .queues
        .iter()
        .map(|row| {
            let settings: Vec<_> = row.settings.iter().map(shown).collect();
            format!("{} {} {} [{}]", row.queue, row.change.name(), row.applications, settings.join(", "))
        })
        .collect()
}

fn applications(dry_run: &DryRun) -> Vec<(&str, &str)> {
    dry_run.applications.iter().map(|row| (&*row.app, row.reason.as_str())).collect()
}

fn exceeded(dry_run: &DryRun) -> Vec<String> {
    let who = |row: &Exceeded| row.who.as_ref().map_or(String::new(), |(who, name)| format!(" {who:?} {name}"));
    let after = |row: &Exceeded| row.preempted_after.map_or(String::new(), |after| format!(" {}s", after.as_secs()));
    let shown =
        |row: &Exceeded| format!("{}{} {} {}<{}{}", row.queue, who(row), row.what, row.limit, row.used, after(row));
    dry_run.exceeded.iter().map(shown).collect()
}

#[test]
fn the_same_configuration_changes_nothing() {
    let tree = "[{name: a, resources: {max: {memory: 5}}, limits: [{users: [u], maxapplications: 3}]}]";
    let partition = running(tree, &[("app", "root.a", "u", 5)]);
    assert_eq!(partition.dry_run(conf(tree), NOW), DryRun::default());
}

#[test]
fn queues_appear_change_drain_and_come_back() {
    // CFG-099–CFG-101, QUE-061
    let before =
        "[{name: a, resources: {max: {memory: 50}}, properties: {x: '1'}}, {name: b, submitacl: u}, {name: c}]";
    let mut partition = running(before, &[("app", "root.b", "u", 5)]);
    let after = "[{name: a, parent: true, resources: {max: {memory: 60}, guaranteed: {memory: 5}}, properties: {y: '2'}}, \
                 {name: c, adminacl: 'v g', maxapplications: 4, limits: [{users: [u, '*'], maxresources: {memory: 7}}]}, \
                 {name: d, resources: {max: {memory: 1}}}]";
    let dry_run = partition.dry_run(conf(after), NOW);
    assert_eq!(
        queues(&dry_run),
        [
            "root.a changed 0 [parent false>true, properties.x 1>-, properties.y ->2, resources.guaranteed.memory ->5, \
             resources.max.memory 50>60]",
            "root.b drained 1 []",
            "root.c changed 0 [adminacl ->v g, limits.user *.maxresources.memory ->7, limits.user u.maxresources.memory ->7, \
             maxapplications ->4]",
            "root.d added 0 [parent ->false, resources.max.memory ->1]",
        ]
    );
    let reason =
        "queue root.b would drain: failed to place application app: application rejected: no placement rule matched";
    assert_eq!(applications(&dry_run), [("app", reason)]);
    // Nothing was touched.
    assert!(partition.queue_by_path.get("root.d").is_none());
    assert_eq!(partition.queues[partition.queue_by_path["root.b"]].state, ObjectState::Active);
    assert!(partition.audit().is_empty());
    // It drains; the first configuration brings it back.
    partition.apply(Command::Configure(conf(after)), NOW, &mut Vec::new());
    assert_eq!(partition.dry_run(conf(after), NOW).queues, []);
    let back = partition.dry_run(conf(before), NOW);
    assert!(queues(&back).contains(&"root.b restored 1 []".to_owned()), "{back:#?}");
    assert_eq!(back.applications, []);
}

#[test]
fn settings_of_the_partition() {
    let partition = running("[]", &[]);
    let text = "partitions: [{queues: [{name: root, submitacl: '*'}], preemption: {enabled: false}, \
                nodesortpolicy: {type: binpacking, resourceweights: {gpu: 2}}, usergroupresolver: {type: os}, \
                placementrules: [{name: user, create: true, parent: {name: fixed, value: root.users, create: true}, \
                filter: {type: deny, users: [eve], groups: ['x.*']}}]}]";
    let conf = config::load(text).unwrap().partitions.remove(0);
    let dry_run = partition.dry_run(conf, NOW);
    let shown: Vec<_> =
        dry_run.settings.iter().map(|s| (s.name.as_str(), s.from.as_deref(), s.to.as_deref())).collect();
    let rule =
        "user(create=true filter=deny users=eve groups=x.*) below fixed(create=true qualified=true queue=root.users)";
    assert_eq!(
        shown,
        [
            ("nodesortpolicy.resourceweights.gpu", None, Some("2")),
            ("nodesortpolicy.resourceweights.memory", Some("1"), None),
            ("nodesortpolicy.resourceweights.vcore", Some("1"), None),
            ("nodesortpolicy.type", Some("fair"), Some("binpacking")),
            ("placementrules.0", Some("provided(create=false)"), Some(rule)),
            ("preemption.enabled", Some("true"), Some("false")),
            ("usergroupresolver.type", Some(""), Some("os")),
        ]
    );
}

#[test]
fn applications_that_rules_and_access_lists_would_refuse() {
    // PLC-033, PLC-041, ACL-010; one that is refused already is not told again.
    let text = |acl: &str, rule: &str| {
        let text = format!(
            "partitions: [{{placementrules: [{{name: {rule}}}], queues: [{{name: root, queues: [{{name: a, submitacl: '{acl}'}}]}}]}}]"
        );
        config::load(&text).unwrap().partitions.remove(0)
    };
    let mut partition = running("[{name: a}]", &[("one", "root.a", "u", 5), ("two", "root.a", "v", 5)]);
    let reason =
        |app: &str| format!("failed to place application {app}: application rejected: no placement rule matched");
    let (one, two) = (reason("one"), reason("two"));
    let dry_run = partition.dry_run(text("v", "provided"), NOW);
    assert_eq!(applications(&dry_run), [("one", one.as_str())]);
    let dry_run = partition.dry_run(text("*", "user"), NOW);
    assert_eq!(applications(&dry_run), [("one", one.as_str()), ("two", two.as_str())]);
    partition.apply(Command::Configure(text("v", "provided")), NOW, &mut Vec::new());
    assert_eq!(applications(&partition.dry_run(text("", "provided"), NOW)), [("two", two.as_str())]);
}

#[test]
fn a_leaf_that_becomes_a_parent_places_nothing_more() {
    // CFG-102
    let partition = running("[{name: a}, {name: b}]", &[("one", "root.a", "u", 5), ("two", "root.b", "u", 5)]);
    let dry_run = partition.dry_run(conf("[{name: a, parent: true, queues: [{name: x}]}, {name: b}]"), NOW);
    let reason = "queue root.a would be a parent: nothing more is placed in it until it is a leaf again";
    assert_eq!(applications(&dry_run), [("one", reason)]);
}

#[test]
fn applications_beyond_a_limit() {
    // QUE-091, UGM-033: the last to start are told, and those that wait and could start now.
    let apps = [("one", "root.a", "u", 5), ("two", "root.a", "u", 5), ("three", "root.a", "v", 5)];
    let partition = running("[{name: a}]", &apps);
    let dry_run = partition.dry_run(conf("[{name: a, maxapplications: 2}]"), NOW);
    assert_eq!(applications(&dry_run), [("three", "queue root.a would run 2 applications at most, 3 are running")]);
    assert_eq!(exceeded(&dry_run), ["root.a maxapplications 2<3"]);
    let dry_run = partition.dry_run(conf("[{name: a, limits: [{users: ['*'], maxapplications: 1}]}]"), NOW);
    let reason = "user u would run 1 application at most in queue root.a, 2 are running";
    assert_eq!(applications(&dry_run), [("two", reason)]);
    assert_eq!(exceeded(&dry_run), ["root.a User u maxapplications 1<2"]);
}

#[test]
fn waiting_applications_that_could_start() {
    // QUE-091
    let mut partition = running("[{name: a}]", &[("one", "root.a", "u", 990), ("two", "root.a", "v", 50)]);
    assert_eq!(partition.apps[partition.app_by_id["two"]].state, AppState::Accepted);
    let dry_run = partition.dry_run(conf("[{name: a, maxapplications: 1}]"), NOW);
    assert_eq!(applications(&dry_run), [("two", "queue root.a would run 1 application at most, 1 is running")]);
    partition.apply(Command::Configure(conf("[{name: a, maxapplications: 1}]")), NOW, &mut Vec::new());
    assert_eq!(applications(&partition.dry_run(conf("[{name: a, maxapplications: 1}]"), NOW)), []);
}

#[test]
fn gangs_that_would_not_fit() {
    // QUE-047
    let mut partition = running("[{name: a}]", &[]);
    let gang = AddApplication {
        id: "gang".into(),
        queue: "root.a".into(),
        user: "u".into(),
        groups: Some([Arc::from("g")].into()),
        placeholder_ask: Some(Resource::of(&[("memory", 30)])),
        ..AddApplication::default()
    };
    partition.apply(Command::Applications { new: vec![gang], remove: Vec::new() }, NOW, &mut Vec::new());
    let told = |tree: &str| partition.dry_run(conf(tree), NOW).applications.into_iter().map(|row| row.reason).next();
    assert_eq!(told("[{name: a, resources: {max: {memory: 30}}}]"), None);
    let reason = told("[{name: a, resources: {max: {memory: 29}}}]");
    let text = "queue root.a cannot fit application gang: task group request map[memory:30] larger than max queue allocation \
                map[memory:29]";
    assert_eq!(reason.as_deref(), Some(text));
    let reason = told("[{name: a, properties: {application.sort.policy: fair}}]").unwrap();
    assert!(reason.ends_with("unsupported sort type"), "{reason}");
}

#[test]
fn quotas_below_usage() {
    // QPR-003, UGM-019
    let partition = running("[{name: a}, {name: b}]", &[("one", "root.a", "u", 40), ("two", "root.b", "u", 40)]);
    let tree = "[{name: a, resources: {max: {memory: 40}}}, {name: b, resources: {max: {memory: 30}}, limits: [{users: [u], maxresources: {memory: 10}}]}]";
    assert_eq!(exceeded(&partition.dry_run(conf(tree), NOW)), ["root.b memory 30<40", "root.b User u memory 10<40"]);
    // What quota preemption would do about it.
    let text = |max: i64| {
        let text = format!(
            "partitions: [{{preemption: {{quotapreemptionenabled: true}}, queues: [{{name: root, submitacl: '*', queues: [{{name: a, \
             resources: {{max: {{memory: {max}}}}}, properties: {{quota.preemption.delay: 20s}}}}]}}]}}]"
        );
        config::load(&text).unwrap().partitions.remove(0)
    };
    let mut partition = running("[{name: a}]", &[("one", "root.a", "u", 40)]);
    partition.apply(Command::Configure(text(50)), NOW, &mut Vec::new());
    assert_eq!(exceeded(&partition.dry_run(text(30), NOW)), ["root.a memory 30<40 20s"]);
}

#[test]
fn what_is_told_of_a_reload_is_what_a_dry_run_says() {
    // CFG-100, CFG-102, PLC-053
    let apps = [("c", "root.a", "u", 5), ("a", "root.a", "u", 5), ("b", "root.b", "u", 5), ("d", "root.d", "u", 5)];
    let partition = running("[{name: a}, {name: b}, {name: d}]", &apps);
    let then = partition.tried(conf("[{name: a, queues: [{name: x}]}, {name: d}]"), NOW);
    let told = |most| {
        let (notes, more) = partition.notes(Some(&then), NOW, most);
        (notes.into_iter().map(|(rule, text)| format!("{rule}: {text}")).collect::<Vec<_>>(), more)
    };
    let parent = |app: &str| {
        format!(
            "PLC-053: application {app} of user u, Running in queue root.a, would not be admitted: queue root.a would be a parent: nothing \
             more is placed in it until it is a leaf again"
        )
    };
    let drains = "PLC-053: application b of user u, Running in queue root.b, would not be admitted: queue root.b would drain: failed to \
                  place application b: application rejected: no placement rule matched";
    assert_eq!(told(9), (vec![parent("a"), drains.to_owned(), parent("c")], 0));
    assert_eq!((told(1), told(0)), ((vec![parent("a")], 2), (Vec::new(), 3)));
    let (gone, more) = partition.notes(None, NOW, 1);
    assert!(gone[0].1.ends_with("would not be admitted: its partition would be removed") && more == 3, "{gone:?}");
}

#[test]
fn a_first_max_that_takes_nothing_is_told() {
    // QPR-004, R7.40
    let text = |max: &str, on: bool| {
        let text = format!(
            "partitions: [{{preemption: {{quotapreemptionenabled: {on}}}, queues: [{{name: root, submitacl: '*', queues: [{{name: a, \
             resources: {{max: {max}}}, properties: {{quota.preemption.delay: 20s}}}}]}}]}}]"
        );
        config::load(&text).unwrap().partitions.remove(0)
    };
    let partition = running("[{name: a}]", &[("one", "root.a", "u", 40)]);
    let notes = |conf| partition.notes(Some(&partition.tried(conf, NOW)), NOW, 9).0;
    let first = notes(text("{memory: 30}", true));
    assert!(
        matches!(&*first, [("QPR-004", text)] if text.starts_with("max of memory of queue root.a is 30 and 40 are used: "))
    );
    // What would be waited for in vain, and nothing else.
    assert_eq!(notes(text("{memory: 30}", false)), []);
    assert_eq!(notes(text("{memory: 40}", true)), []);
    assert_eq!(notes(conf("[{name: a, resources: {max: {memory: 30}}}]")), []);
    let mut partition = running("[{name: a}]", &[("one", "root.a", "u", 40)]);
    for (max, told) in [("{vcore: 9}", 0), ("{vcore: 9, memory: 30}", 1), ("{vcore: 9, memory: 20}", 0)] {
        let then = partition.tried(text(max, true), NOW);
        assert_eq!(partition.notes(Some(&then), NOW, 9).0.len(), told, "{max}");
        partition = then;
    }
}

#[test]
fn partitions_that_come_and_go() {
    let partition = running("[{name: a}, {name: b}]", &[("one", "root.a", "u", 5)]);
    let gone = partition.dry_run_of_removal();
    assert_eq!(queues(&gone), ["root removed 0 []", "root.a removed 1 []", "root.b removed 0 []"]);
    assert_eq!(applications(&gone), [("one", "its partition would be removed")]);
    let new = Partition::dry_run_of_new(conf("[{name: a, resources: {max: {vcore: 2}}}]"), NOW);
    assert_eq!(
        queues(&new),
        ["root added 0 [parent ->true, submitacl ->*]", "root.a added 0 [parent ->false, resources.max.vcore ->2000]"]
    );
    assert!(new.settings.iter().any(|s| s.name == "nodesortpolicy.type" && s.to.as_deref() == Some("fair")));
}

#[test]
fn so_many_rows_are_listed() {
    let many: String = (0..LISTED).map(|n| format!("{{name: q{n}}},")).collect();
    let partition = running("[]", &[]);
    let told = |dry_run: &DryRun| (dry_run.queues.len(), dry_run.more_queues);
    // Each new queue is a row, and one for its only setting.
    assert_eq!(told(&partition.dry_run(conf(&format!("[{many}]")), NOW)), (LISTED / 2, LISTED / 2));
    let new = Partition::dry_run_of_new(conf(&format!("[{many}]")), NOW);
    assert_eq!(new.queues.len() + new.more_queues, LISTED + 1, "root is new, too");
    assert!(new.queues.len() <= LISTED / 2);
    let many = running(&format!("[{many}]"), &[]);
    assert_eq!(told(&many.dry_run_of_removal()), (LISTED, 1));
}
