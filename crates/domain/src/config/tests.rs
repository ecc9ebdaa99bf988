//! Reading: where texts come from, the schema, and what becomes of an accepted one. The checks are in `validate`.

use super::*;
use crate::acl::Groups;
use crate::{
    conf::{NodeSortPolicy, Resolver},
    placement::{QueueLookup, QueuePlacement, QueueStatus, Submission, place},
    resources::{MEMORY, Resource, ResourceType, VCORE},
};

fn message(text: &str) -> String {
    load(text).map(|config| panic!("accepted: {config:?}")).unwrap_or_else(|refused: Refused| refused.message)
}

fn only(text: &str) -> Arc<PartitionConf> {
    load(text).unwrap_or_else(|refused| panic!("{refused:?}")).partitions.remove(0)
}

#[test]
fn empty_text_is_the_default() {
    // CFG-002, test idea 1
    let config = load("").unwrap();
    assert_eq!(&*config.text, DEFAULT);
    // CFG-080: that of the reference, as a real core told it.
    assert_eq!(config.checksum, "FD5D3726DF0F02416E02F3919D78F61B15D14425A34142D93B24C137ED056946");
    let partition = &config.partitions[0];
    assert_eq!((&*partition.name, &*partition.root.name), ("default", "root"));
    assert!(partition.root.submit_acl.everyone);
    struct OnlyRoot;
    impl QueueLookup for OnlyRoot {
        fn queue(&self, path: &str) -> Option<QueueStatus> {
            (path == "root").then_some(QueueStatus { leaf: false, draining: false })
        }
        fn lets_submit(&self, _: &str, _: &str, _: &Groups<'_>) -> bool {
            true
        }
    }
    let tags = [("namespace".to_owned(), "web".to_owned())].into();
    let app =
        Submission { app: "a", queue: "root.x", user: "u", groups: Groups::default(), tags: &tags, forced: false };
    let placed = place(&partition.rules, &app, &OnlyRoot);
    assert_eq!(placed, QueuePlacement::Create { path: "root.web".into(), ancestor: "root".into() });
}

#[test]
fn no_document_no_partitions() {
    // CFG-003, test idea 2
    for text in [" ", "\n\n", "# one comment line", "---\n", "~", "partitions:\n", "partitions: []"] {
        assert_eq!(load(text).unwrap().partitions.len(), 0, "{text:?}");
    }
}

#[test]
fn first_document_only() {
    // CFG-004, test idea 3
    let config = load("partitions: [{queues: []}]\n---\nnonsense: [").unwrap();
    assert_eq!(config.partitions.len(), 1);
    let told = |text: &str| load(text).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    let rest = |at: &str| {
        format!(
            "{at}: CFG-004: a second YAML document is not read (all partitions belong into the first, without `---` between them)"
        )
    };
    let first = "partitions: [{queues: []}]\n";
    for (text, at) in [
        (format!("{first}---\nnonsense: ["), "3:1"),
        (format!("\u{feff}# c\n---\n{first}\n--- # c\n\n# c\n  partitions:\n"), "8:3"),
        (format!("%YAML 1.2\n--- {{{}}}\n--- x\n", first.trim_end()), "3:5"),
        (format!("{first}...\n%YAML 1.2\n---\r\na: b\n"), "5:1"),
        (format!("{first}...\na: b\n"), "3:1"),
    ] {
        assert_eq!(told(&text), [rest(at)], "{text:?}");
    }
    for text in ["---\n", "...\n", "---\n# c\n...\n \n---\n", "# c: d\n"] {
        assert_eq!(told(&format!("{first}{text}")), Vec::<String>::new(), "{text:?}");
        assert_eq!(told(&format!("---\n{first}{text}")), Vec::<String>::new(), "{text:?}");
    }
    let none = told(&format!("---\n---\n{first}"));
    assert_eq!(
        none,
        [
            "1:1: CFG-003: the configuration has no partitions (all that is sent under it is rejected)".into(),
            rest("3:1")
        ]
    );
}

#[test]
fn strict_keys() {
    // CFG-005, CFG-008, test idea 4
    let text = "partitions:\n  - name: default\n    bogus: 1\n    queues: []\n";
    assert_eq!(
        message(text),
        "yaml: unmarshal errors:\n  line 3: field bogus not found in type configs.PartitionConfig"
    );
    let text = "partitions:\n  - name: default\n    queues:\n      - name: root\n        colour: blue\n";
    assert_eq!(message(text), "yaml: unmarshal errors:\n  line 5: field colour not found in type configs.QueueConfig");
    let text = "partitions:\n  - NodeSortPolicy: {type: fair}\n    queues: []\n    name: a\n    name: b\n";
    let refused = load(text).unwrap_err();
    assert_eq!(refused.message, "yaml: unmarshal errors:\n  line 5: mapping key \"name\" already defined at line 4");
    assert_eq!(refused.faults.len(), 2);
    assert!(refused.faults.iter().any(|f| f.line == 2 && f.message.contains("field NodeSortPolicy not found")));
    for text in
        ["statedumpfilepath: x", "partitions: [{queues: [], statedump: 1}]", "partitions: [{queues: [{fifo: 1}]}]"]
    {
        assert!(message(text).contains("not found in type"), "{text}");
    }
}

#[test]
fn wrong_kinds() {
    // CFG-005, CFG-007, CFG-07A
    for (text, wanted) in [
        ("just text", "line 1: cannot unmarshal !!str `just text` into configs.SchedulerConfig"),
        ("a longer text", "line 1: cannot unmarshal !!str `a longe...` into configs.SchedulerConfig"),
        ("partitions: 5", "line 1: cannot unmarshal !!int `5` into []configs.PartitionConfig"),
        ("partitions: {a: 1}", "line 1: cannot unmarshal !!map into []configs.PartitionConfig"),
        (
            "partitions: [{queues: [], nodesortpolicy: fair}]",
            "cannot unmarshal !!str `fair` into configs.NodeSortingPolicy",
        ),
        ("partitions: [{queues: [{name: a, maxapplications: -1}]}]", "cannot unmarshal !!int `-1` into uint64"),
        ("partitions: [{queues: [{name: a, maxapplications: 1.5}]}]", "cannot unmarshal !!float `1.5` into uint64"),
        ("partitions: [{queues: [{name: a, maxapplications: x}]}]", "cannot unmarshal !!str `x` into uint64"),
        ("partitions: [{queues: [{name: a, parent: 1}]}]", "cannot unmarshal !!int `1` into bool"),
        ("partitions: [{queues: [{name: a, parent: 'true'}]}]", "cannot unmarshal !!str `true` into bool"),
        ("partitions: [{queues: [{name: [a]}]}]", "cannot unmarshal !!seq into string"),
        ("partitions: [{queues: [{name: a, properties: [a]}]}]", "cannot unmarshal !!seq into map[string]string"),
        ("partitions: [{queues: [{name: a, limits: [{users: u}]}]}]", "cannot unmarshal !!str `u` into []string"),
        (
            "partitions: [{queues: [], nodesortpolicy: {resourceweights: {a: x}}}]",
            "cannot unmarshal !!str `x` into float64",
        ),
        ("partitions: [{queues: [{? [a] : b}]}]", "cannot unmarshal !!seq into string"),
    ] {
        let message = message(text);
        assert!(message.starts_with("yaml: unmarshal errors:\n  line 1: ") && message.ends_with(wanted), "{message}");
    }
    // One fault is told once, not with what follows from it.
    assert_eq!(load("partitions: [{queues: x}]").unwrap_err().faults.len(), 1);
    assert_eq!(load("partitions: [{queues: [{name: [a]}]}]").unwrap_err().faults.len(), 1);
}

#[test]
fn all_misfits_are_told() {
    let text = "partitions:\n  - queues:\n      - name: a\n        parent: maybe\n        maxapplications: -1\n      - name: b b\n";
    let refused = load(text).unwrap_err();
    let wanted = "yaml: unmarshal errors:\n  line 4: cannot unmarshal !!str `maybe` into bool\n  line 5: cannot unmarshal !!int `-1` into uint64";
    assert_eq!(refused.message, wanted);
    let places: Vec<_> = refused.faults.iter().map(|f| (f.line, f.column, f.rule)).collect();
    assert_eq!(places, [(4, 17, "CFG-005"), (5, 26, "CFG-005"), (6, 15, "CFG-020")]);
}

#[test]
fn not_yaml() {
    let refused = load("partitions:\n  - name: default\n   queues: [\n").unwrap_err();
    assert!(refused.message.starts_with("yaml: line "), "{refused:?}");
    assert_eq!((refused.faults.len(), refused.faults[0].rule), (1, "CFG-005"));
    // CFG-030: a bare star is an alias.
    assert!(message("partitions: [{queues: [{name: root, submitacl: *}]}]").starts_with("yaml: line 1: "));
}

#[test]
fn booleans_and_counts() {
    // CFG-007
    let partition =
        only("partitions: [{queues: [{name: a, parent: yes, maxapplications: 0x10}, {name: b, parent: no}]}]");
    let children = &partition.root.children;
    assert_eq!((children[0].parent, children[0].max_applications, children[1].parent), (true, 16, false));
    for (words, meaning) in [
        (["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"], true),
        (["n", "N", "no", "No", "NO", "off", "Off", "OFF"], false),
    ] {
        for word in words {
            let partition = only(&format!("partitions: [{{queues: [{{name: a, parent: {word}}}]}}]"));
            assert_eq!(partition.root.children[0].parent, meaning, "{word}");
        }
    }
    for word in ["yEs", "oN", "nO", "TRue"] {
        let text = format!("partitions: [{{queues: [{{name: a, parent: {word}}}]}}]");
        assert_eq!(load(&text).unwrap_err().faults[0].rule, "CFG-005", "{word}");
    }
    let partition = only("partitions: [{queues: [{name: a, maxapplications: 18446744073709551615}]}]");
    assert_eq!(partition.root.children[0].max_applications, u64::MAX);
}

#[test]
fn scalars_in_maps() {
    // CFG-006
    let max = |text: &str| {
        only(&format!("partitions: [{{queues: [{{name: a, resources: {{max: {{memory: {text}}}}}}}]}}]")).root.children
            [0]
        .max
        .clone()
    };
    assert_eq!(max("10"), max("\"10\""));
    assert_eq!(max("10"), Some(Resource::of(&[("memory", 10)])));
    for bad in ["1.5", "~", "", "-5", "''"] {
        let text = format!("partitions:\n- queues:\n  - name: a\n    resources: {{max: {{memory: {bad}}}}}\n");
        let refused = load(&text).unwrap_err();
        assert_eq!((refused.message.as_str(), refused.faults[0].line), ("invalid quantity", 4), "{bad}");
        assert!(refused.faults[0].message.contains("of memory, queue root.a"), "{refused:?}");
    }
    let partition = only("partitions: [{queues: [{name: a, properties: {x: 1, y: true, z: }}]}]");
    let properties: Vec<_> =
        partition.root.children[0].properties.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(properties, [("x", "1"), ("y", "true"), ("z", "")]);
}

#[test]
fn defaults_of_a_partition() {
    // Section 1.2, CFG-07A, PLC-002
    let partition = only("partitions: [{queues: []}]");
    assert_eq!((&*partition.name, partition.preemption, partition.quota_preemption), ("default", true, false));
    assert_eq!((partition.node_sort.policy, partition.resolver), (NodeSortPolicy::Fair, Resolver::None));
    assert_eq!(partition.node_sort.weights, [(MEMORY, 1.0), (VCORE, 1.0)].into());
    assert_eq!(
        (partition.rules.len(), partition.rules[0].kind.name(), partition.rules[0].create),
        (1, "provided", false)
    );
    let partition = only(
        "partitions: [{queues: [], preemption: {quotapreemptionenabled: true}, usergroupresolver: {type: ldap}, \
         nodesortpolicy: {type: binpacking, resourceweights: {gpu: 2}}}]",
    );
    assert_eq!((partition.preemption, partition.quota_preemption), (true, true));
    assert_eq!((partition.node_sort.policy, partition.resolver), (NodeSortPolicy::Binpacking, Resolver::Ldap));
    assert_eq!(partition.node_sort.weights, [(ResourceType::new("gpu").unwrap(), 2.0)].into());
    // CFG-07B
    for (name, resolver) in [("os", Resolver::Os), ("test", Resolver::Test), ("other", Resolver::None)] {
        let partition = only(&format!("partitions: [{{queues: [], usergroupresolver: {{type: {name}}}}}]"));
        assert_eq!(partition.resolver, resolver);
    }
}

#[test]
fn roots() {
    // CFG-012, CFG-013, CFG-014, test ideas 6, 7
    let paths = |text: &str| {
        fn walk(queue: &crate::conf::QueueConf, above: &str, to: &mut Vec<String>) {
            let path = format!("{above}{}", queue.name);
            to.push(format!("{path}{}", if queue.parent { "/" } else { "" }));
            queue.children.iter().for_each(|child| walk(child, &format!("{path}."), to));
        }
        let mut paths = Vec::new();
        walk(&only(text).root, "", &mut paths);
        paths
    };
    assert_eq!(paths("partitions: [{queues: []}]"), ["root/"]);
    assert_eq!(paths("partitions: [{queues: [{name: root}]}]"), ["root/"]);
    assert_eq!(paths("partitions: [{queues: [{name: ROOT, queues: [{name: a}]}]}]"), ["root/", "root.a"]);
    assert_eq!(paths("partitions: [{queues: [{name: root}, {name: other}]}]"), ["root/", "root.root", "root.other"]);
    // CFG-023, CFG-027
    let text = "partitions: [{queues: [{name: Dev, parent: false, queues: [{name: B}]}, {name: c, parent: true}]}]";
    assert_eq!(paths(text), ["root/", "root.dev/", "root.dev.b", "root.c/"]);
    assert_eq!(message("partitions: [{name: default}]"), "queue config is not set");
    assert_eq!(message("partitions:\n- queues:\n  name: x\n"), "queue config is not set");
}

#[test]
fn queues_as_the_domain_sees_them() {
    // CFG-016, UGM-013, test idea 10
    let partition = only(
        "partitions:\n- limits: [{limit: l, users: [u], groups: [g, '*'], maxapplications: 3}]\n  queues:\n  - name: a\n    adminacl: x\n    \
         submitacl: ' dev'\n    resources: {guaranteed: {vcore: 1}, max: {vcore: 2, memory: 0}}\n    maxapplications: 4\n    \
         limits: [{users: [u], maxapplications: 2, maxresources: {vcore: 500m}}]\n",
    );
    let root = &partition.root.limits[0];
    assert_eq!((&*root.users[0], root.groups.len(), root.max_applications), ("u", 2, 3));
    assert_eq!(root.max_resources, None);
    let queue = &partition.root.children[0];
    assert!(
        queue.admin_acl.allows("x", &Groups::default()) && queue.submit_acl.allows("y", &Groups::new(&["dev".into()]))
    );
    assert_eq!(queue.guaranteed, Some(Resource::of(&[("vcore", 1000)])));
    assert_eq!(queue.max.as_ref().unwrap().named(), Resource::of(&[("vcore", 2000), ("memory", 0)]).named());
    assert_eq!(queue.limits[0].max_resources, Some(Resource::of(&[("vcore", 500)])));
}

#[test]
fn templates() {
    // TPL-002, TPL-003, test idea 82
    let template = |text: &str| {
        only(&format!("partitions: [{{queues: [{{name: a, parent: true, childtemplate: {text}}}]}}]")).root.children[0]
            .template
            .clone()
    };
    for absent in ["{}", "{maxapplications: 0}", "{properties: {a: '', '': b}}", "{resources: {max: {}}}"] {
        assert_eq!(template(absent), None, "{absent}");
    }
    let made = template("{properties: {a: b, c: ''}, resources: {max: {memory: 0}, guaranteed: {memory: 5}}}").unwrap();
    assert_eq!(*made.properties, [("a".to_owned(), "b".to_owned())].into());
    assert_eq!((made.max.clone(), made.guaranteed.clone()), (None, Some(Arc::new(Resource::of(&[("memory", 5)])))));
}

#[test]
fn rules_that_cannot_be_built() {
    // CFG-098, PLC-003, test idea 32: a registration goes on without rules, an update is refused.
    let config = load("partitions:\n- queues: []\n  placementrules:\n  - name: user\n  - name: nosuch\n").unwrap();
    assert!(config.partitions[0].rules.is_empty());
    let refused = config.check_rules().unwrap_err();
    assert_eq!(refused.message, "unknown rule name specified nosuch, failing placement rule config");
    assert_eq!((refused.faults[0].line, refused.faults[0].column, refused.faults[0].rule), (5, 5, "CFG-098"));
    assert!(load(DEFAULT).unwrap().check_rules().is_ok());
}

#[test]
fn warnings() {
    // ACL-005, CFG-07C
    let text = "partitions:\n- queues:\n  - name: root\n    submitacl: 'ok,#bad'\n    properties: {priority.offset: many, x.y: z}\n";
    let config = load(text).unwrap();
    let told: Vec<_> = config.warnings.iter().map(|w| (w.line, w.rule)).collect();
    assert_eq!(told, [(4, "ACL-005"), (5, "CFG-07C"), (5, "CFG-07C")]);
    assert_eq!(config.partitions[0].root.properties.len(), 2);
}

#[test]
fn what_has_no_effect_where_it_stands() {
    // PLC-024, TPL-001
    let told = |text: &str| load(text).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    let filter = |users: &str| {
        format!(
            "partitions:\n- queues: [{{name: root, queues: [{{name: a, parent: true}}]}}]\n  placementrules:\n  - name: user\n    parent:\n      name: fixed\n      \
             value: a\n      filter: {{type: deny, users: {users}}}\n"
        )
    };
    assert_eq!(told(&filter("[alice, bob]")), Vec::<String>::new());
    assert_eq!(told(&filter("['a.*']")), Vec::<String>::new());
    let of = |at: &str, name: &str| {
        format!("8:{at}: PLC-024: filter names `{name}`, which none of its users can be called: it counts for nobody")
    };
    assert_eq!(told(&filter("['a b', 'c d']")), [of("36", "a b"), of("43", "c d")]);
    let alone = " (an expression has to stand alone)";
    assert_eq!(told(&filter("[alice, 'b.*']")), [of("43", "b.*") + alone]);
    let queue = |more: &str| {
        format!(
            "partitions:\n- queues:\n  - name: root\n    queues:\n    - name: a\n      {more}childtemplate: {{maxapplications: 1}}\n"
        )
    };
    let bad =
        queue("").replace("{maxapplications: 1}", "{resources: {max: {memory: x, vcore: 0}}, properties: {x.y: z}}");
    let text = "5:13: TPL-001: childtemplate of a leaf does nothing: it is for the queues that placement makes below a parent (queue root.a)";
    assert_eq!(told(&queue("")), [text]);
    assert_eq!(told(&bad), [text], "that is all there is to say of it");
    assert_eq!(told(&queue("parent: true\n      ")), Vec::<String>::new());
}

#[test]
fn zeros_that_forbid_nothing() {
    // QUE-021
    let told = |max: &str| {
        let text = format!("partitions:\n- queues:\n  - name: a\n    resources: {{max: {max}}}\n");
        load(&text).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told("{memory: 0, vcore: 1}"), Vec::<String>::new());
    assert_eq!(told("{}"), Vec::<String>::new());
    let text = "4:31: QUE-021: max of memory is 0, which counts only beside a type above zero: here it is as if there were none (queue root.a)";
    assert_eq!(told("{memory: 0, vcore: 0}"), [text]);
}

#[test]
fn guarantees_of_a_template_above_its_max() {
    // CFG-045: what a queue is refused for (CFG-041), which TPL-007 does not.
    let told = |resources: &str| {
        let text = format!(
            "partitions:\n- queues:\n  - name: p\n    parent: true\n    childtemplate:\n      resources: {resources}\n"
        );
        load(&text).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told("{guaranteed: {memory: 50}, max: {vcore: 1}}"), Vec::<String>::new());
    assert_eq!(told("{guaranteed: {memory: 5}, max: {memory: 5}}"), Vec::<String>::new());
    let text = "6:39: CFG-045: guaranteed resource map[memory:6 vcore:1000] of childtemplate is larger than its maximum \
                resource map[memory:5], which counts (queue root.p)";
    assert_eq!(told("{guaranteed: {vcore: 1, memory: 6}, max: {memory: 5}}"), [text]);
}

#[test]
fn validate_conf_endpoint() {
    // CFG-117
    let warned = |text: &[u8]| validate_conf(text).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(warned(b""), Ok(vec![]));
    assert_eq!(warned(b"partitions: []"), Ok(vec![]));
    // CFG-003
    let none = "1:1: CFG-003: the configuration has no partitions (all that is sent under it is rejected)";
    for text in ["# partitions: [a, b]\n".repeat(8 << 20 >> 4), "\n".into(), "partitions:\n".into(), "{}".into()] {
        assert_eq!(warned(text.as_bytes()), Ok(vec![none.to_owned()]));
    }
    let refused = |text: &[u8]| validate_conf(text).unwrap_err();
    let twice = b"partitions: [{queues: [{name: root, queues: [{name: a}, {name: a}]}]}]";
    assert_eq!(refused(twice), "duplicate child name found with name 'a', level 1");
    assert!(refused(b"partitions: [{queues: [{name: root, bad: 1}]}]").contains("field bad not found"));
    assert!(refused(b"\xff\xfe").starts_with("yaml: the text is not UTF-8"));
    // What would not be applied is not allowed: CFG-031, CFG-045, CFG-098.
    assert_eq!(
        refused(b"partitions: [{queues: [{name: a, submitacl: 'a  b'}]}]"),
        "multiple spaces found in ACL: 'a  b'"
    );
    let template = b"partitions: [{queues: [{name: a, parent: true, childtemplate: {resources: {max: {memory: x}}}}]}]";
    assert_eq!(refused(template), "invalid quantity");
    assert!(refused(b"partitions: [{queues: [], placementrules: [{name: nosuch}]}]").starts_with("unknown rule name"));
    assert_eq!(warned(b"partitions: [{queues: [{name: ROOT}]}]"), Ok(vec![])); // CFG-014
    // SEEDS S34: accepted, and told with its place.
    let fairest = b"partitions: [{queues: [{name: a, properties: {application.sort.policy: fairest}}]}]";
    let told = "1:72: CFG-07C: application.sort.policy cannot be `fairest` and counts as its default (properties of queue root.a)";
    assert_eq!(warned(fairest), Ok(vec![told.to_owned()]));
}

#[test]
fn what_nobody_knows_is_told() {
    // SEEDS S34, CFG-07B, CFG-07C
    let text = "partitions:\n  - usergroupresolver: {type: LDAP}\n    queues:\n      - name: root\n        childtemplate:\n          \
                properties: {application.sort.polcy: fair}\n    placementrules: [{name: nosuch}]\n";
    let told: Vec<_> = load(text).unwrap().notes().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "2:31: CFG-07B: usergroupresolver.type `LDAP` is not known and counts as none (it may be os or ldap; without one a \
             user is its own group)",
            "6:48: CFG-07C: property application.sort.polcy is not known and does nothing (childtemplate of queue root)",
            "7:22: CFG-098: unknown rule name specified nosuch, failing placement rule config"
        ]
    );
}

#[test]
fn rules_that_cannot_be_made_are_told_with_the_other_faults() {
    // CFG-098
    let text = "partitions:\n- placementrules: [{name: nosuch}, {name: tag}]\n  queues: [{name: b b}]\n";
    let told: Vec<_> = load(text).unwrap_err().faults.iter().map(|fault| (fault.line, fault.rule)).collect();
    assert_eq!(told, [(3, "CFG-020"), (2, "CFG-098"), (2, "CFG-098")]);
}

#[test]
fn checksums() {
    // CFG-080, CFG-081, CFG-093
    let plain = load("partitions: []\n").unwrap().checksum;
    assert_eq!(load("partitions: []\nchecksum: \n").unwrap().checksum.len(), 64);
    assert_eq!(load(&format!("partitions: []\nchecksum: {}", "0".repeat(64))).unwrap().checksum, plain);
    assert_ne!(load("partitions: []\n# comment\n").unwrap().checksum, plain);
}

#[test]
fn deep_nesting_is_refused_not_a_crash() {
    let nested = |depth: usize| {
        let level = |n: usize| format!("{0}- name: q\n{0}  queues:\n", "  ".repeat(n));
        format!("partitions:\n- queues:\n{}", (1..=depth).map(level).collect::<String>())
    };
    load(&nested(63)).unwrap();
    assert!(message(&nested(70)).contains("a queue path of 65 levels is too deep"));
    assert!(message(&nested(300)).contains("nested deeper than 160 levels"));
    assert!(message(&"{a: ".repeat(100_000)).starts_with("yaml: line 1: "));
}

proptest::proptest! {
    /// Whatever the text: an answer, never a panic; and a refusal tells at least one fault.
    #[test]
    fn any_text_is_answered(text in "(\\PC|[\\[\\]{}:,\n &*!|>'\"-]|name|queues|partitions|limits|root){0,60}") {
        if let Err(refused) = load(&text) {
            proptest::prop_assert!(!refused.faults.is_empty() && !refused.message.is_empty());
        }
    }
}
