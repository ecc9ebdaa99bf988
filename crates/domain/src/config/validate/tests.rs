use super::super::{MAX_QUEUES, Refused, load};

/// The text of the refusal, `ok` where it is accepted.
fn checked(text: &str) -> String {
    load(text).map_or_else(|refused| refused.message, |_| "ok".to_owned())
}

/// With this list of top level queues.
fn queues(text: &str) -> String {
    checked(&format!("partitions: [{{queues: {text}}}]"))
}

/// With these limits on `root.a`, which has these other keys.
fn limits(queue: &str, limits: &str) -> String {
    queues(&format!("[{{name: a, {queue} limits: {limits}}}]"))
}

/// With these placement rules over `root.p` (parent), `root.leaf` and `root.Implicit.below`.
fn rules(text: &str) -> String {
    checked(&format!(
        "partitions: [{{placementrules: {text}, queues: [{{name: p, parent: true}}, {{name: leaf}}, \
         {{name: Implicit, queues: [{{name: below}}]}}]}}]"
    ))
}

fn refused(text: &str) -> Refused {
    load(text).unwrap_err()
}

#[test]
fn partition_names() {
    // CFG-010, test idea 5
    let two =
        |a: &str, b: &str| checked(&format!("partitions: [{{name: {a}, queues: []}}, {{name: {b}, queues: []}}]"));
    assert_eq!(two("default", "DEFAULT"), "duplicate partition name found with name default");
    assert_eq!(two("''", "Default"), "duplicate partition name found with name default");
    assert_eq!(two("gpu", "Gpu"), "duplicate partition name found with name Gpu");
    assert_eq!(two("gpu", "cpu"), "ok");
    for odd in ["[rm-a]default", "a]", "[", "a\\nb", "\\u0085"] {
        let text = checked(&format!("partitions: [{{name: \"{odd}\", queues: []}}]"));
        assert!(text.starts_with("invalid partition name "), "{odd}: {text}");
    }
    let config = load("partitions: [{name: Gpu, queues: []}, {name: DEFAULT, queues: []}]").unwrap();
    assert_eq!(config.partitions.iter().map(|p| &*p.name).collect::<Vec<_>>(), ["Gpu", "default"]);
}

#[test]
fn order_of_the_checks() {
    // CFG-011: the first in this order decides the text, all are listed.
    let refused = refused(
        "partitions:\n- placementrules: [{name: 1x}]\n  nodesortpolicy: {type: random}\n  queues:\n  - name: b b\n    \
         maxapplications: 1\n    resources: {max: {memory: x}}\n    queues: [{name: c, maxapplications: 2}]\n",
    );
    assert!(refused.message.starts_with("invalid queue name"));
    let order: Vec<_> = refused.faults.iter().map(|f| f.rule).collect();
    assert_eq!(order, ["CFG-020", "CFG-040", "CFG-075", "CFG-07A", "CFG-050"]);
}

#[test]
fn root_resources() {
    // CFG-015, test idea 9
    let text = "root queue must not have resource limits set";
    for resources in ["{max: {memory: 100}}", "{guaranteed: {memory: 1}}", "{max: {}}"] {
        assert_eq!(queues(&format!("[{{name: root, resources: {resources}}}]")), text, "{resources}");
    }
    assert_eq!(queues("[{name: root, resources: {}}]"), "ok");
}

#[test]
fn partition_limits() {
    // CFG-016, test idea 10
    let both = |partition: &str, root: &str| {
        checked(&format!("partitions: [{{limits: {partition}, queues: [{{name: root, limits: {root}}}]}}]"))
    };
    let (a, b) = ("{users: [a], maxapplications: 1}", "{users: [b], maxapplications: 1}");
    assert_eq!(both(&format!("[{a}, {b}]"), "[]"), "ok");
    assert_eq!(both(&format!("[{a}, {b}]"), &format!("[{a}, {b}]")), "ok");
    let text = "partition limits and root queue limits are not equivalent";
    assert_eq!(both(&format!("[{a}, {b}]"), &format!("[{b}, {a}]")), text);
    assert_eq!(both(&format!("[{a}, {b}]"), &format!("[{a}]")), text);
}

#[test]
fn queue_names() {
    // CFG-020, CFG-021, CFG-022, test ideas 11, 12
    let named = |name: &str| queues(&format!("[{{name: '{name}'}}, {{name: zz}}]"));
    assert_eq!(named("parent_Child_test-a_b_#_c_#_d_/_e@dom:ain"), "ok");
    assert_eq!(named(&"n".repeat(64)), "ok");
    for bad in ["", "root.parent", "a b", "a!", &"n".repeat(65)] {
        assert!(named(bad).starts_with("invalid queue name, max 64 characters"), "{bad}");
    }
    assert_eq!(queues("[{name: Dev}, {name: dev}]"), "duplicate child name found with name 'dev', level 1");
    let below = "[{name: root, queues: [{name: p, queues: [{name: a}, {name: A}]}]}]";
    assert_eq!(queues(below), "duplicate child name found with name 'A', level 2");
    assert_eq!(queues("[{name: a}, {name: p, queues: [{name: a}]}]"), "ok");
}

/// Queues below each other, `levels` of them with root.
fn nested(levels: usize, innermost: &str) -> String {
    let (open, close) = ("[{name: q, queues: ".repeat(levels - 2), "}]".repeat(levels - 2));
    format!("{open}[{{name: q{innermost}}}]{close}")
}

#[test]
fn paths_have_at_most_64_levels() {
    // CFG-020
    assert_eq!(
        queues(&nested(64, ", resources: {max: {memory: 1}}, limits: [{users: [u], maxapplications: 1}]")),
        "ok"
    );
    let text = "a queue path of 65 levels is too deep: at most 64, root included, are allowed";
    assert_eq!(queues(&nested(65, "")), text);
    assert_eq!(queues(&nested(75, "")), text);
    assert_eq!(queues(&nested(90, "")), "yaml: line 1: nested deeper than 160 levels");
}

#[test]
fn queues_have_at_most_100_properties() {
    // QUE-061
    let some = |from: usize, to: usize| (from..to).map(|n| format!("k{n}: v")).collect::<Vec<_>>().join(", ");
    let below = |above: &str, own: &str| {
        queues(&format!(
            "[{{name: a, properties: {{{above}}}, queues: [{{name: b, properties: {{{own}}}}}, {{name: c, properties: {{{own}}}}}]}}]"
        ))
    };
    assert_eq!(below(&some(0, 60), &some(20, 100)), "ok");
    let text = "queue root.a.b has 101 properties: at most 100 are allowed";
    assert!(below(&some(0, 60), &some(20, 101)).starts_with(text));
    let text = "queue root.a has 101 properties: at most 100 are allowed";
    assert_eq!(below(&some(0, 101), ""), text);
    let template = format!("[{{name: a, parent: true, childtemplate: {{properties: {{{}}}}}}}]", some(0, 101));
    assert_eq!(queues(&template), text);
}

#[test]
fn rules_lead_no_deeper_either() {
    // CFG-078
    let rules = |rules: &str| checked(&format!("partitions: [{{name: default, placementrules: {rules}, queues: []}}]"));
    let fixed = |levels: usize| format!("root{}", ".q".repeat(levels - 1));
    assert_eq!(rules(&format!("[{{name: fixed, value: {}, create: true}}]", fixed(64))), "ok");
    let text = "a queue path of 65 levels is too deep: at most 64, root included, are allowed";
    assert_eq!(rules(&format!("[{{name: fixed, value: {}, create: true}}]", fixed(65))), text);
    let below = format!("[{{name: user, create: true, parent: {{name: fixed, value: {}, create: true}}}}]", fixed(64));
    assert_eq!(rules(&below), text);
    let chain = |rules: usize| {
        let parents = ", parent: {name: user, create: true".repeat(rules - 1);
        format!("[{{name: user, create: true{parents}{}}}]", "}".repeat(rules - 1))
    };
    assert_eq!(rules(&chain(63)), "ok");
    assert_eq!(rules(&chain(64)), text);
}

#[test]
fn recovery_queue_is_not_configured() {
    // PLC-046
    assert_eq!(queues("[{name: '@Recovery@'}]"), "queue name @Recovery@ is kept for the recovery queue");
    assert_eq!(queues("[{name: a, queues: [{name: '@recovery@'}]}]"), "ok");
}

#[test]
fn resource_types_are_limited_in_length_and_number() {
    // CFG-040
    let max = |amounts: &str| queues(&format!("[{{name: a, resources: {{max: {{{amounts}}}}}}}]"));
    assert_eq!(max(&format!("{}: 1", "x".repeat(253))), "ok");
    let text = format!("resource type \"{}…\" has a name of 254 bytes: at most 253 are allowed", "x".repeat(40));
    assert_eq!(max(&format!("{}: 1", "x".repeat(254))), text);
    let types = |from: usize, to: usize| (from..to).map(|n| format!("t/{n}: 1")).collect::<Vec<_>>().join(", ");
    assert_eq!(max(&types(0, 1000)), "ok");
    let text = "1001 resource types are named: at most 1000 are allowed";
    assert_eq!(max(&types(0, 1001)), text);
    let template = format!("childtemplate: {{resources: {{max: {{{}}}}}}}", types(600, 1001));
    assert_eq!(
        queues(&format!("[{{name: p, parent: true, resources: {{max: {{{}}}}}, {template}}}]", types(0, 600))),
        text
    );
}

#[test]
fn what_costs_every_submission_is_limited() {
    // CFG-010, CFG-075, CFG-077
    let rules = |rule: &str, count: usize| {
        checked(&format!("partitions: [{{name: default, queues: [], placementrules: [{}]}}]", rule.repeat(count)))
    };
    assert_eq!(rules("{name: user},", 1_000), "ok");
    assert_eq!(rules("{name: user},", 1_001), "1001 placement rules are configured: at most 1000 are allowed");
    let filter = |expression: &str| format!("{{name: user, filter: {{users: ['{expression}']}}}},");
    assert_eq!(rules(&filter("^(team-a|svc-[0-9]+)$"), 1_000), "ok");
    let text = "the filter expressions of all placement rules take more than 16777216 bytes";
    assert_eq!(rules(&filter("\\pL{10}"), 17), text);
    assert!(
        rules(&filter("\\pL{99}"), 1).starts_with("invalid rule filter user list is not a proper list or regexp: ")
    );
    let partitions = |count: usize| {
        checked(&format!(
            "partitions: [{}]",
            (0..count).map(|n| format!("{{name: p{n}, queues: []}},")).collect::<String>()
        ))
    };
    assert_eq!(partitions(100), "ok");
    assert_eq!(partitions(101), "101 partitions are configured: at most 100 are allowed");
    // Those of all partitions and levels together.
    let many = |count: usize| {
        let list =
            |prefix: char, count: usize| (0..count).map(|n| format!("{{name: {prefix}{n}}},")).collect::<String>();
        let (a, b) = (list('a', count / 2 - 1), list('b', count - count / 2 - 1));
        format!(
            "partitions: [{{queues: [{{name: root, queues: [{a}]}}]}}, {{name: other, queues: [{{name: p, queues: [{b}]}}]}}]"
        )
    };
    assert_eq!(checked(&many(MAX_QUEUES)), "ok");
    let too_many = refused(&many(MAX_QUEUES + 1));
    assert_eq!(too_many.message, "more than 25000 queues are configured");
    assert!(too_many.faults[0].message.ends_with(" (queues that are alike can be made by placement rules)"));
}

#[test]
fn faults_are_listed_up_to_a_number_and_a_length() {
    let bad = format!("[{}{{name: '{}'}}]", "{name: '!'},".repeat(3_000), "!".repeat(100_000));
    let text = format!("partitions: [{{name: default, queues: {bad}}}]");
    let refused = crate::config::load(&text).unwrap_err();
    assert_eq!(refused.faults.len(), 1_001);
    assert!(refused.faults.iter().all(|fault| fault.message.len() < 1_100));
    let last = &refused.faults[1_000];
    assert!(last.message.ends_with(" more are not listed") && last.line == 0, "{last}");
    // Names that are too long are not carried along.
    let deep =
        format!("{}{{name: a}}{}", format!("{{name: {}, queues: [", "x".repeat(60_000)).repeat(60), "]}".repeat(60));
    let refused = crate::config::load(&format!("partitions: [{{name: default, queues: [{deep}]}}]")).unwrap_err();
    assert!(refused.message.starts_with("invalid queue name"), "{refused}");
}

#[test]
fn access_lists() {
    // CFG-030, CFG-031, test idea 13
    for good in ["", "*", " * ", "a", "a b", " b", " "] {
        assert_eq!(queues(&format!("[{{name: a, adminacl: '{good}'}}]")), "ok", "{good:?}");
    }
    for bad in ["users groups extra", "a  b", "  ", " u g"] {
        let text = format!("multiple spaces found in ACL: '{bad}'");
        assert_eq!(queues(&format!("[{{name: a, submitacl: '{bad}'}}]")), text);
        assert_eq!(queues(&format!("[{{name: root, adminacl: '{bad}'}}]")), text);
    }
}

#[test]
fn quantities() {
    // CFG-040, CFG-045
    let max = |amounts: &str| queues(&format!("[{{name: a, resources: {{max: {amounts}}}}}]"));
    assert_eq!(max("{memory: 1Ki}"), "ok");
    assert_eq!(max("{memory: -1}"), "invalid quantity");
    assert_eq!(max("{memory: 500m}"), "invalid suffix");
    assert_eq!(max("{memory: 1000E}"), "invalid quantity: overflow");
    assert_eq!(limits("", "[{users: [u], maxresources: {memory: x}}]"), "invalid quantity");
    for template in ["{resources: {max: {memory: x}}}", "{resources: {guaranteed: {memory: x}}}"] {
        assert_eq!(queues(&format!("[{{name: root, childtemplate: {template}}}]")), "invalid quantity");
        // TPL-001: on a leaf it is ignored.
        assert_eq!(queues(&format!("[{{name: a, childtemplate: {template}}}]")), "ok");
    }
}

#[test]
fn guaranteed_and_own_max() {
    // CFG-041, CFG-046
    let both = |g: &str, m: &str| queues(&format!("[{{name: a, resources: {{guaranteed: {g}, max: {m}}}}}]"));
    assert_eq!(both("{memory: 50}", "{vcore: 1}"), "ok");
    let text =
        "guaranteed resource map[memory:50 vcore:500] is larger than maximum resource map[memory:10] for queue a";
    assert_eq!(both("{memory: 50, vcore: 500m}", "{memory: 10}"), text);
}

#[test]
fn max_below_the_ancestors() {
    // CFG-042, test idea 17
    let nested = |a: &str, c: &str| {
        queues(&format!(
            "[{{name: a, resources: {{max: {a}}}, queues: [{{name: b, queues: [{{name: c, resources: {{max: {c}}}}}]}}]}}]"
        ))
    };
    let text = "max resource of parent map[memory:100] is smaller than maximum resource map[memory:150] for queue c";
    assert_eq!(nested("{memory: 100}", "{memory: 150}"), text);
    assert_eq!(nested("{memory: 100}", "{vcore: 150}"), "ok");
    assert_eq!(nested("{memory: 100}", "{memory: 100}"), "ok");
}

#[test]
fn guarantees_of_the_children() {
    // CFG-043, test ideas 16, 18
    let children = |a: &str, b: &str| {
        format!("queues: [{{name: x, resources: {{guaranteed: {a}}}}}, {{name: y, resources: {{guaranteed: {b}}}}}]")
    };
    let two = children("{memory: 10, vcore: 30}", "{memory: 10, vcore: 30}");
    let text = "max resource map[vcore:33000] is smaller than sum of guaranteed resources map[memory:20 vcore:60000] of the \
                children for queue p";
    let parent = "[{name: p, resources: {guaranteed: {memory: 20}, max: {vcore: 33}}";
    assert_eq!(queues(&format!("{parent}, {two}}}]")), text);
    let text = "guaranteed resource of parent map[memory:10] is smaller than sum of guaranteed resources map[memory:12] of \
                the children for queue p";
    let middle = children("{memory: 6}", "{memory: 6}");
    let nested = format!("[{{name: p, resources: {{guaranteed: {{memory: 10}}}}, queues: [{{name: m, {middle}}}]}}]");
    assert_eq!(queues(&nested), text);
    // CFG-044: a type that is guaranteed only below counts on the way up as well.
    let child = "{name: c, resources: {guaranteed: {memory: 10, vcore: 5}}}";
    let inner = format!("{{name: p, resources: {{guaranteed: {{memory: 10}}}}, queues: [{child}]}}");
    let outer = format!("[{{name: o, resources: {{guaranteed: {{vcore: 4}}}}, queues: [{inner}]}}]");
    assert!(
        queues(&outer).ends_with("sum of guaranteed resources map[memory:10 vcore:5000] of the children for queue o")
    );
}

#[test]
fn max_applications() {
    // CFG-050, CFG-051, test idea 19
    let chain = |counts: [u64; 4]| {
        let text = counts.iter().rev().fold(String::new(), |below, count| {
            let queues = if below.is_empty() { String::new() } else { format!(", queues: [{below}]") };
            format!("{{name: q, maxapplications: {count}{queues}}}")
        });
        queues(&format!("[{text}]"))
    };
    let undefined = "maxApplications is either undefined or zero, which is not allowed when parent queue's maxApplications \
                     is defined";
    assert_eq!(chain([4, 3, 2, 1]), "ok");
    assert_eq!(chain([4, 3, 2, 0]), undefined);
    assert_eq!(chain([0, 3, 2, 1]), "ok");
    assert_eq!(chain([2, 2, 2, 2]), "ok");
    assert_eq!(chain([1, 2, 2, 2]), "parent maxApplications must be larger than child maxApplications");
}

#[test]
fn names_in_limits() {
    // CFG-060–CFG-063, test idea 20
    let text = "empty user and group lists defined in limit '{nobody [] [] map[memory:10] 0}'";
    assert_eq!(limits("", "[{limit: nobody, maxresources: {memory: 10}}]"), text);
    let users = |first: &str, second: &str| {
        limits("", &format!("[{{users: {first}, maxapplications: 1}}, {{users: {second}, maxapplications: 1}}]"))
    };
    assert_eq!(users("[a b]", "[c]"), "invalid limit user name 'a b' in limit definition");
    assert_eq!(users("[alice]", "[alice]"), "duplicated user name 'alice', already exists");
    assert_eq!(users("['*']", "['*']"), "duplicated user name '*', already exists");
    assert_eq!(users("[alice, '*']", "[bob]"), "should not set no wildcard user bob after wildcard user limit");
    assert_eq!(users("[alice]", "['*']"), "ok");
    let groups = |list: &str| limits("", &format!("[{{groups: {list}, maxapplications: 1}}]"));
    assert_eq!(groups("[g@x]"), "invalid limit group name 'g@x' in limit definition");
    assert_eq!(groups("[g, g]"), "duplicated group name 'g'");
    assert_eq!(groups("[g, '*', h]"), "should not set no wildcard group h after wildcard group limit");
}

#[test]
fn wildcard_groups() {
    // CFG-064, test idea 21
    let text = "should not specify only one group limit that is using the wildcard. There must be at least one limit with a \
                group name defined ";
    let groups = |first: &str, second: &str| {
        limits("", &format!("[{{groups: {first}, maxapplications: 1}}, {{groups: {second}, maxapplications: 1}}]"))
    };
    assert_eq!(groups("['*']", "[appdev]"), text);
    assert_eq!(groups("[appdev]", "['*']"), "ok");
    assert_eq!(groups("[appdev, '*']", "[]"), "empty user and group lists defined in limit '{ [] [] map[] 1}'");
    assert_eq!(limits("", "[{groups: [appdev, '*'], maxapplications: 1}]"), "ok");
    assert_eq!(limits("", "[{users: ['*'], maxapplications: 1}]"), "ok");
}

#[test]
fn amounts_in_limits() {
    // CFG-065–CFG-068, test idea 22
    let one = |amounts: &str| limits("", &format!("[{{limit: l, users: [u], {amounts}}}]"));
    assert_eq!(one("maxresources: {memory: 0, vcore: 0}"), "MaxResources should be greater than zero in 'l' limit");
    assert_eq!(one("maxresources: {memory: 1, vcore: 0}"), "ok");
    assert_eq!(one("maxapplications: 0"), "invalid resource combination for limit l all resource limits are null");
    assert_eq!(one("maxapplications: 0, maxresources: {memory: 1}"), "ok");
    let queue = "maxapplications: 2, resources: {max: {memory: 10}},";
    let one = |amounts: &str| limits(queue, &format!("[{{limit: l, users: [u], {amounts}}}]"));
    let text = "invalid MaxApplications settings for limit l exceed current the queue MaxApplications";
    assert_eq!(one("maxapplications: 3"), text);
    let text = "invalid MaxResources settings for limit l exeecd current the queue MaxResources";
    assert_eq!(one("maxresources: {memory: 11}"), text);
    assert_eq!(one("maxresources: {vcore: 11}"), "ok");
    // Only the queue's own max counts; nested queues called root are not looked at.
    let limit = "limits: [{users: [u], maxresources: {memory: 100}}]";
    let nested = |name: &str, max: &str| {
        queues(&format!(
            "[{{name: p, resources: {{max: {{memory: 200}}}}, queues: [{{name: {name}, resources: {{max: {max}}}, {limit}}}]}}]"
        ))
    };
    assert_eq!(nested("c", "{vcore: 1}"), "ok");
    assert!(nested("c", "{memory: 10}").starts_with("invalid MaxResources settings"));
    assert_eq!(nested("root", "{memory: 10}"), "ok");
}

/// Limits on root, on `root.a`, and on `root.a.b`.
fn three(root: &str, a: &str, b: &str) -> String {
    queues(&format!(
        "[{{name: root, limits: {root}, queues: [{{name: a, limits: {a}, queues: [{{name: b, limits: {b}}}]}}]}}]"
    ))
}

#[test]
fn resources_through_the_hierarchy() {
    // CFG-070, test idea 23
    let limit = |who: &str, memory: u64| format!("[{{{who}, maxresources: {{memory: {memory}}}}}]");
    let text = "user bob max resource map[memory:150] of queue b is greater than wildcard maximum resource map[memory:100] of \
                immediate or ancestor parent queue";
    assert_eq!(three(&limit("users: ['*']", 100), "[]", &limit("users: [bob]", 150)), text);
    let text = "user bob max resource map[memory:60] of queue b is greater than immediate or ancestor parent maximum resource \
                map[memory:50]";
    assert_eq!(three(&limit("users: [bob]", 50), "[]", &limit("users: [bob]", 60)), text);
    let text = "group g max resource map[memory:60] of queue a is greater than immediate or ancestor parent maximum resource \
                map[memory:50]";
    assert_eq!(three(&limit("groups: [g]", 50), &limit("groups: [g]", 60), "[]"), text);
    // The smallest on the way down counts.
    let bob = |memory| limit("users: [bob]", memory);
    assert!(three(&bob(50), &bob(20), &bob(30)).contains("map[memory:30] of queue b"));
    // CFG-074, test idea 25: a wildcard below named ones.
    assert_eq!(three(&bob(50), "[]", &limit("users: ['*']", 500)), "ok");
    assert!(three(&limit("users: ['*']", 50), "[]", &limit("users: ['*']", 500)).starts_with("user * max resource"));
    // CFG-073
    let siblings = "[{name: root, limits: [{users: [u], maxresources: {memory: 5}}], queues: [{name: a, limits: [{users: [u], \
                    maxresources: {memory: 5}}]}, {name: b, limits: [{users: [u], maxresources: {memory: 5}}]}]}]";
    assert_eq!(queues(siblings), "ok");
}

#[test]
fn limits_without_resources_hide_nothing() {
    // CFG-071
    let wildcard = "[{users: ['*'], maxresources: {memory: 100}}]";
    let applications = "[{users: [bob], maxapplications: 3}]";
    let more = "[{users: [bob], maxapplications: 3, maxresources: {memory: 500}}]";
    assert!(three(wildcard, applications, more).contains("greater than wildcard maximum resource map[memory:100]"));
    assert_eq!(three(applications, "[]", more), "ok");
    // UGM-003: where a wildcard stands beside the name, it does not hold for it; one further up does.
    let both = "[{users: [bob], maxapplications: 3}, {users: ['*'], maxresources: {memory: 5}}]";
    assert_eq!(three(both, "[]", more), "ok");
    assert!(three(both, "[]", "[{users: [eve], maxresources: {memory: 10}}]").contains("wildcard maximum resource"));
    assert!(three(wildcard, &both.replace("memory: 5", "memory: 50"), more).contains("map[memory:100]"));
}

#[test]
fn applications_through_the_hierarchy() {
    // CFG-072, test idea 24
    let limit = |who: &str, count: u64| format!("[{{{who}, maxapplications: {count}, maxresources: {{memory: 1}}}}]");
    let bob = |count| limit("users: [bob]", count);
    let text = "user bob max applications 0 of queue b is greater than immediate or ancestor parent max applications 5";
    assert_eq!(three(&bob(5), "[]", &bob(0)), text);
    let text = "user bob max applications 6 of queue a is greater than wildcard max applications 5 of immediate or ancestor parent queue";
    assert_eq!(three(&limit("users: ['*']", 5), &bob(6), "[]"), text);
    assert!(three(&limit("groups: [g]", 5), &limit("groups: [g]", 6), "[]").starts_with("group g max applications 6"));
    assert_eq!(three(&bob(5), &bob(5), &bob(4)), "ok");
    // A named 0 hides the wildcard.
    let root = "[{users: [bob], maxresources: {memory: 1}}, {users: ['*'], maxapplications: 2}]";
    assert_eq!(three(root, &bob(9), "[]"), "ok");
}

#[test]
fn rule_names_and_filters() {
    // CFG-075–CFG-077, test idea 28
    assert_eq!(rules("[{name: my-rule}]"), "invalid rule name my-rule, a name must be a valid identifier");
    let parent = "[{name: user, parent: {name: 2x}}]";
    assert_eq!(rules(parent), "invalid rule name 2x, a name must be a valid identifier");
    let text = "invalid rule filter type maybe, filter type  must be either '', allow or deny";
    assert_eq!(rules("[{name: user, filter: {type: maybe}}]"), text);
    for kind in ["''", "allow", "Allow", "DENY"] {
        assert_eq!(rules(&format!("[{{name: user, filter: {{type: {kind}}}}}]")), "ok");
    }
    let user = |list: &str| rules(&format!("[{{name: user, filter: {{users: {list}}}}}]"));
    for (list, entry) in [("['']", ""), ("[user name]", "user name"), ("['(']", "("), ("['*']", "*")] {
        let text = format!("invalid rule filter user list is not a proper list or regexp: [{entry}]");
        assert_eq!(user(list), text);
    }
    for list in ["[bob]", "['dev*']", "['^a b$']", "['a b', 'c d']", "['svc$']"] {
        assert_eq!(user(list), "ok", "{list}");
    }
    let text = "invalid rule filter group list is not a proper list or regexp: [groupname ]";
    assert_eq!(rules("[{name: user, filter: {groups: ['groupname ']}}]"), text);
}

#[test]
fn fixed_paths() {
    // CFG-078, test ideas 26, 27
    let fixed = |value: &str, more: &str| rules(&format!("[{{name: fixed, value: {value}{more}}}]"));
    assert_eq!(fixed("root.leaf", ""), "ok");
    assert_eq!(fixed("leaf", ""), "ok");
    let text = "placement rule no. #0 (fixed) references a queue (root.p) which is not a leaf";
    assert_eq!(fixed("root.p", ""), text);
    let text = "placement rule no. #0 (fixed) references non-existing queues (root.x.y) and create is 'false'";
    assert_eq!(fixed("root.X.y", ""), text);
    assert_eq!(fixed("root.x.y", ", create: true"), "ok");
    assert_eq!(fixed("root.p.y", ", create: true"), "ok");
    let text = "placement rule no. #0 (fixed) references non-existing queues (root.leaf.x) which cannot be created because \
                the last queue (leaf) in the hierarchy is a leaf";
    assert_eq!(fixed("root.leaf.x", ", create: true"), text);
    let chain = "[{name: user}, {name: user, create: true, parent: {name: tag, value: t, parent: {name: fixed, value: root.leaf}}}]";
    let text = "placement rule no. #1 (fixed->tag->user) references a queue (root.leaf) which is not a leaf";
    assert_eq!(rules(chain), text);
    let second = "[{name: fixed, value: root.dev, parent: {name: fixed, value: root.p}}]";
    assert_eq!(rules(second), "illegal fully qualified 'fixed' rule with value root.dev");
    assert_eq!(rules("[{name: fixed, value: below, parent: {name: fixed, value: implicit}}]"), "ok");
    // Only chains that begin with fixed are known beforehand.
    assert_eq!(rules("[{name: fixed, value: none, parent: {name: user}}]"), "ok");
    assert_eq!(rules("[{name: user, create: true, parent: {name: fixed, value: root}}]"), "ok");
}

#[test]
fn fixed_paths_as_they_will_run() {
    // CFG-079: children make a parent, names and kinds are read in any case.
    let below = "[{name: user, create: true, parent: {name: Fixed, value: root.implicit}}]";
    assert_eq!(rules(below), "ok");
    let text = "placement rule no. #0 (Fixed) references a queue (root.implicit) which is not a leaf";
    assert_eq!(rules("[{name: Fixed, value: root.Implicit}]"), text);
    assert_eq!(rules("[{name: fixed, value: root.IMPLICIT.Below}]"), "ok");
    // PLC-006: the letters root alone do not qualify.
    let text = "placement rule no. #0 (fixed) references non-existing queues (root.rootbeer) and create is 'false'";
    assert_eq!(rules("[{name: fixed, value: rootbeer}]"), text);
}

#[test]
fn node_sorting() {
    // CFG-07A
    let sorted = |policy: &str| checked(&format!("partitions: [{{queues: [], nodesortpolicy: {policy}}}]"));
    for good in ["{}", "{type: ''}", "{type: fair}", "{type: binpacking, resourceweights: {a: 0, b: 1.5}}"] {
        assert_eq!(sorted(good), "ok", "{good}");
    }
    assert_eq!(sorted("{type: random}"), "undefined policy: random");
    assert_eq!(sorted("{type: Fair}"), "undefined policy: Fair");
    assert_eq!(sorted("{resourceweights: {gpu: -1.0}}"), "negative resource weight for gpu is not allowed");
    assert_eq!(sorted("{resourceweights: {gpu: .nan}}"), "resource weight for gpu is not a finite number");
}

#[test]
fn faults_name_thing_value_and_place() {
    let refused =
        refused("partitions:\n- queues:\n  - name: a\n    submitacl: 'x y z'\n  - name: a\n    maxapplications: 5\n");
    let told: Vec<_> = refused.faults.iter().map(ToString::to_string).collect();
    let wanted = [
        "5:11: CFG-022: duplicate child name found with name 'a', level 1 (below root; names are compared in any case)",
        "4:16: CFG-031: multiple spaces found in ACL: 'x y z' (queue root.a: write user list, one space, group list)",
    ];
    assert_eq!(told, wanted);
}
