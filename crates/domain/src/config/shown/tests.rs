use proptest::prelude::*;

use super::{super::load, *};

/// A configuration, and what a running core answers when it is asked for it.
const WRITTEN: &str = include_str!("../fixtures/written.yaml");
const SHOWN_YAML: &str = include_str!("../fixtures/shown.yaml");

#[test]
fn as_a_running_core_shows_it() {
    // CFG-009, CFG-016, CFG-118
    let extra = [("event.maxStreams", "3"), ("event.maxStreamsPerHost", "2"), ("health.checkInterval", "5s")];
    let extra = extra.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let config = load(WRITTEN).unwrap();
    assert_eq!(rest(Some(&config), &extra).to_yaml(), SHOWN_YAML);
}

#[test]
fn what_is_shown_is_read_again() {
    // CFG-005
    let partitions = |config: &LoadedConfig| config.shown.fields().swap_remove(0);
    let again = load(SHOWN_YAML).unwrap();
    assert_eq!(partitions(&again), partitions(&load(WRITTEN).unwrap()));
    let told = |config: &LoadedConfig| config.warnings.iter().filter(|told| told.rule == "CFG-005").count();
    assert_eq!(told(&again), 1, "of `extra`: {:?}", again.warnings);
    let again = load(&rest(Some(&again), &BTreeMap::new()).to_yaml()).unwrap();
    assert_eq!(told(&again), 0, "{:?}", again.warnings);
}

#[test]
fn long_keys_are_read_again() {
    // CFG-005: a reader takes 1,024 characters for a key, where nothing says before that it is one.
    for key in ["k".repeat(128), "k".repeat(129), "\u{1}é: ".repeat(2_000)] {
        let written = format!("partitions: [{{queues: [{{name: a, properties: {{? {} : x, z: y}}}}]}}]", quoted(&key));
        let yaml = load(&written).unwrap().shown.form().to_yaml();
        assert_eq!(yaml.contains("? "), key.len() > 128, "{yaml}");
        let again = load(&yaml).unwrap_or_else(|refused| panic!("{refused:?}\n{yaml}"));
        let queues = &again.shown.scheduler.partitions.as_ref().unwrap()[0].queues.as_ref().unwrap()[0].queues;
        let read: Vec<_> = queues[0].properties.iter().map(|(key, value)| (&**key, &*value.value)).collect();
        assert_eq!(read, [(&*key, "x"), ("z", "y")], "{yaml}");
    }
}

#[test]
fn without_a_configuration() {
    let shown = rest(None, &BTreeMap::new()).to_yaml();
    assert_eq!(shown, "deadlockdetectionenabled: false\ndeadlocktimeoutseconds: 60\n");
}

#[test]
fn without_partitions() {
    // CFG-003
    let none = load("# nothing").unwrap().shown;
    assert!(none.form().to_yaml().starts_with("partitions: []\nchecksum: "));
}

#[test]
fn yaml_scalars() {
    for (text, shown) in [
        ("10G", "10G"),
        ("5", "\"5\""),
        ("", "\"\""),
        ("*", "'*'"),
        ("a b", "a b"),
        ("bad.*", "bad.*"),
        (" g", "' g'"),
        ("it's: so", "'it''s: so'"),
        ("yes", "\"yes\""),
        ("~", "\"~\""),
        ("1.5", "\"1.5\""),
        ("a\nb", "\"a\\nb\""),
        ("- x", "'- x'"),
        ("a #b", "'a #b'"),
        ("2026-01-01", "\"2026-01-01\""),
    ] {
        assert_eq!(scalar(text), shown);
    }
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_:#/@-]{1,12}"
}

/// Any text at all, and often one that YAML would take for something else.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~]{0,12}",
        Just("null".to_owned()),
        Just("0x10".to_owned()),
        Just("1e3".to_owned()),
        Just("<<".to_owned()),
        Just("---".to_owned()),
        Just("\u{85}\u{feff}\u{2028}".to_owned()),
    ]
}

fn spanned<T>(value: T) -> super::super::written::Spanned<T> {
    super::super::written::Spanned { value, at: Default::default() }
}

fn texts(strategy: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<Text>> {
    prop::collection::vec(strategy.prop_map(spanned), 0..3)
}

fn quantities() -> impl Strategy<Value = Quantities> {
    let amount = (0_u32..50).prop_map(|amount| spanned(amount.to_string()));
    prop::collection::btree_map("memory|vcore|nvidia\\.com/gpu", amount, 0..3)
}

fn resources_of() -> impl Strategy<Value = Resources> {
    let guaranteed = prop::option::of(quantities());
    (guaranteed, prop::option::weighted(0.2, quantities())).prop_map(|(guaranteed, max)| Resources { guaranteed, max })
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let limit = (any_text(), texts("[a-z]{1,3}|\\*"), texts("[a-z]{1,3}"), quantities(), 1_u64..9).prop_map(
        |(limit, users, groups, max_resources, applications)| Limit {
            limit: spanned(limit),
            users,
            groups,
            max_resources,
            max_applications: spanned(applications),
            ..Limit::default()
        },
    );
    prop::collection::vec(limit, 0..2)
}

fn queue_of() -> impl Strategy<Value = Queue> {
    let properties = || prop::collection::btree_map(any_text(), any_text().prop_map(spanned), 0..3);
    let own = (name(), any::<bool>(), resources_of(), properties(), "[a-z,*]{0,4}( [a-z,]{0,4})?", limits());
    let leaf = (own, properties(), 0_u64..3).prop_map(
        |((name, parent, resources, properties, acl, limits), template, applications)| Queue {
            name: spanned(name),
            parent,
            resources,
            properties,
            submit_acl: spanned(acl),
            limits,
            template: Template { properties: template, max_applications: applications, ..Template::default() },
            ..Queue::default()
        },
    );
    leaf.prop_recursive(3, 12, 4, |inner| {
        (inner.clone(), prop::collection::vec(inner, 1..4)).prop_map(|(queue, queues)| Queue { queues, ..queue })
    })
}

fn rule_of() -> impl Strategy<Value = Rule> {
    let filter = ("|allow|DENY", texts("[a-z]{1,3}|dev.*"), texts("[a-z]{1,3}"));
    let leaf = ("provided|user|tag", any::<bool>(), filter, any_text()).prop_map(
        |(name, create, (kind, users, groups), value)| Rule {
            name: spanned(name),
            create,
            filter: Filter { kind: spanned(kind), users, groups },
            value: spanned(value),
            ..Rule::default()
        },
    );
    leaf.prop_recursive(2, 3, 1, |inner| {
        (inner.clone(), inner).prop_map(|(rule, parent)| Rule { parent: Some(Box::new(parent)), ..rule })
    })
}

prop_compose! {
    fn scheduler()(
        name in "|[a-zA-Z]{1,8}",
        queues in prop::collection::vec(queue_of(), 0..4),
        rules in prop::collection::vec(rule_of(), 0..3),
        limits in limits(),
        enabled in any::<Option<bool>>(),
        weights in prop::collection::btree_map(any_text(), (0.0..1e9_f64).prop_map(spanned), 0..2),
        resolver in any_text(),
    ) -> Scheduler {
        let partition = Partition {
            name: spanned(name),
            queues: Some(queues),
            rules,
            limits,
            preemption: super::super::written::Preemption { enabled, quota: enabled },
            node_sort: super::super::written::NodeSort { policy: spanned("fair".to_owned()), weights },
            resolver: spanned(resolver),
            ..Partition::default()
        };
        Scheduler { partitions: Some(vec![partition]), ..Scheduler::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever is accepted is the same when it is read again from what is shown of it.
    #[test]
    fn accepted_configurations_round_trip(scheduler in scheduler()) {
        let written = Shown { scheduler, checksum: String::new() }.form().to_yaml();
        let Ok(first) = load(&written) else {
            // Refused for what it says; that it is YAML is certain.
            prop_assert!(super::super::read(&written).is_ok_and(|(_, faults)| faults.count() == 0), "{written}");
            return Ok(());
        };
        let again = match load(&first.shown.form().to_yaml()) {
            Ok(again) => again,
            Err(refused) => panic!("{refused:?}\n{}", first.shown.form().to_yaml()),
        };
        prop_assert_eq!(format!("{:?}", first.partitions), format!("{:?}", again.partitions));
        let without = |shown: &Shown| Shown { checksum: String::new(), ..shown.clone() }.form();
        prop_assert_eq!(without(&first.shown), without(&again.shown));
    }
}
