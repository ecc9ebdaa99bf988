use std::{cell::Cell, collections::BTreeMap};

use super::{super::rule::*, *};
use crate::placement::reason::NO_MATCH;

/// Queues by path: leaf, draining, and who may submit (`*`: everybody); access is inherited from above. How often
/// somebody asked for it.
struct Tree(BTreeMap<&'static str, (bool, bool, &'static str)>, Cell<u32>);

impl QueueLookup for Tree {
    fn queue(&self, path: &str) -> Option<QueueStatus> {
        self.0.get(path).map(|(leaf, draining, _)| QueueStatus { leaf: *leaf, draining: *draining })
    }

    fn lets_submit(&self, path: &str, user: &str, _: &Groups<'_>) -> bool {
        self.1.set(self.1.get() + 1);
        self.0.get(path).is_some_and(|(.., who)| *who == "*" || who.split(',').any(|w| w == user))
    }
}

fn tree_of(queues: BTreeMap<&'static str, (bool, bool, &'static str)>) -> Tree {
    Tree(queues, Cell::new(0))
}

const LEAF: (bool, bool, &str) = (true, false, "");
const PARENT: (bool, bool, &str) = (false, false, "");

fn open(queues: &[(&'static str, (bool, bool, &'static str))]) -> Tree {
    let mut tree = BTreeMap::from([("root", (false, false, "*"))]);
    tree.extend(queues.iter().copied());
    tree_of(tree)
}

fn rule(name: &str, value: &str) -> RuleSpec {
    RuleSpec { name: name.to_owned(), value: value.to_owned(), ..RuleSpec::default() }
}

fn creating(rule: RuleSpec) -> RuleSpec {
    RuleSpec { create: true, ..rule }
}

fn below(rule: RuleSpec, parent: RuleSpec) -> RuleSpec {
    RuleSpec { parent: Some(Box::new(parent)), ..rule }
}

fn build(rules: &[RuleSpec]) -> Vec<RuleConf> {
    rules.iter().map(|rule| RuleConf::build(rule).unwrap()).collect()
}

fn placed(rules: &[RuleSpec], queue: &str, tree: &Tree) -> QueuePlacement {
    run_as(rules, queue, "alice", &[], tree)
}

fn run_as(rules: &[RuleSpec], queue: &str, user: &str, tags: &[(&str, &str)], tree: &Tree) -> QueuePlacement {
    let tags = tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let app =
        Submission { app: "app-1", queue, user, groups: Groups::default(), tags: &tags, forced: is_forced(&tags) };
    place(&build(rules), &app, tree)
}

fn existing(path: &str) -> QueuePlacement {
    QueuePlacement::Existing { path: path.to_owned() }
}

fn create(path: &str, ancestor: &str) -> QueuePlacement {
    QueuePlacement::Create { path: path.to_owned(), ancestor: ancestor.to_owned() }
}

fn rejected(cause: &str) -> QueuePlacement {
    QueuePlacement::Rejected { reason: format!("failed to place application app-1: {cause}"), queue: String::new() }
}

const FORCED: &[(&str, &str)] = &[("Application.Create.Force", "TRUE")];

#[test]
fn provided() {
    // PLC-011, PLC-017, test idea 94
    let tree = open(&[("root.a", LEAF), ("root.p", PARENT)]);
    let rules = [creating(rule("provided", ""))];
    assert_eq!(placed(&rules, "root.a", &tree), existing("root.a"));
    assert_eq!(placed(&rules, "a", &tree), existing("root.a"));
    assert_eq!(placed(&rules, "root.A", &tree), existing("root.a"));
    assert_eq!(placed(&rules, "a.b", &tree), create("root.a_dot_b", "root"));
    assert_eq!(placed(&rules, "Root.Other", &tree), create("root.root_dot_other", "root"));
    assert_eq!(placed(&rules, "root", &tree), create("root.root", "root"));
    assert_eq!(placed(&rules, "root.Mixed.Case", &tree), create("root.mixed.case", "root"));
    assert_eq!(placed(&rules, "root.p.x.y", &tree), create("root.p.x.y", "root.p"));
    assert_eq!(placed(&rules, "root.p", &tree), rejected(NO_MATCH)); // PLC-032
    assert_eq!(placed(&rules, "", &tree), rejected(NO_MATCH));
    assert_eq!(placed(&rules, "root..a", &tree), rejected(INVALID_QUEUE_NAME));
    // A qualified queue does not run the parent rule.
    let rules = [below(rule("provided", ""), rule("fixed", "root.none"))];
    assert_eq!(placed(&rules, "root.a", &tree), existing("root.a"));
}

#[test]
fn provided_without_create() {
    // PLC-015, test idea 93
    let rules = [rule("provided", "")];
    assert_eq!(placed(&rules, "root.x", &open(&[])), rejected(NO_MATCH));
    assert_eq!(placed(&rules, "root.x", &open(&[("root.default", LEAF)])), existing("root.default"));
}

#[test]
fn user() {
    // PLC-012
    let rules = [creating(rule("user", ""))];
    assert_eq!(run_as(&rules, "x", "finance.test", &[], &open(&[])), create("root.finance_dot_test", "root"));
    assert_eq!(run_as(&rules, "x", "bob$", &[], &open(&[])), rejected(INVALID_QUEUE_NAME));
    assert_eq!(run_as(&rules, "x", &"u".repeat(65), &[], &open(&[])), rejected(INVALID_QUEUE_NAME));
}

#[test]
fn fixed() {
    // PLC-013
    let tree = open(&[("root.dev", PARENT), ("root.dev.a", LEAF)]);
    assert_eq!(placed(&[rule("fixed", "dev.a")], "", &tree), existing("root.dev.a"));
    assert_eq!(placed(&[rule("fixed", "root.dev.a")], "", &tree), existing("root.dev.a"));
    let rules = [creating(below(rule("fixed", "x.y"), rule("fixed", "root.dev")))];
    assert_eq!(placed(&rules, "", &tree), create("root.dev.x.y", "root.dev"));
    // PLC-006, test idea 98
    assert_eq!(placed(&[creating(rule("fixed", "rootbeer"))], "", &tree), create("root.rootbeer", "root"));
}

#[test]
fn tag_rule() {
    // PLC-014
    let rules = [creating(rule("tag", "NameSpace"))];
    let tree = open(&[("root.a", LEAF)]);
    let run = |value| run_as(&rules, "", "alice", &[("namespace", value)], &tree);
    assert_eq!(run("team.a"), create("root.team_dot_a", "root"));
    // Of several the one that is written as the rule has it.
    let several = &[("NAMESPACE", "upper"), ("namespace", "own")];
    assert_eq!(run_as(&[creating(rule("tag", "namespace"))], "", "alice", several, &tree), create("root.own", "root"));
    assert_eq!(run("root.a"), existing("root.a"));
    assert_eq!(run(""), rejected(NO_MATCH));
    assert_eq!(placed(&rules, "root.a", &tree), rejected(NO_MATCH));
}

#[test]
fn parents() {
    // PLC-015, PLC-016, test idea 95
    let tree = open(&[("root.p", PARENT), ("root.leaf", LEAF)]);
    let chain = |create| {
        let namespace = RuleSpec { create, ..below(rule("tag", "namespace"), rule("fixed", "root.p")) };
        [creating(below(rule("user", ""), namespace))]
    };
    let tags = &[("namespace", "dev")];
    assert_eq!(run_as(&chain(true), "", "alice", tags, &tree), create("root.p.dev.alice", "root.p"));
    assert_eq!(run_as(&chain(false), "", "alice", tags, &tree), rejected(NO_MATCH));
    assert_eq!(run_as(&chain(true), "", "alice", &[], &tree), rejected(NO_MATCH));
    // Test idea 158: below root there is one root, not two.
    let rules = [creating(below(rule("user", ""), rule("fixed", "root")))];
    assert_eq!(placed(&rules, "", &tree), create("root.alice", "root"));
    // PLC-007, test idea 96
    let rules = [creating(below(rule("user", ""), rule("fixed", "root.leaf")))];
    assert_eq!(placed(&rules, "", &tree), rejected("parent rule returned a leaf queue: root.leaf"));
}

#[test]
fn errors_do_not_defeat_later_rules() {
    // PLC-007, test idea 97
    let tree = open(&[("root.dev", LEAF)]);
    let rules = [rule("user", ""), rule("fixed", "root.dev")];
    assert_eq!(run_as(&rules, "", "bob$", &[], &tree), existing("root.dev"));
    assert_eq!(run_as(&rules[..1], "", "bob$", FORCED, &tree), QueuePlacement::Recovery);
}

#[test]
fn unacceptable_queues_are_passed_over() {
    // PLC-032–PLC-034, test idea 102
    let tree = tree_of(BTreeMap::from([
        ("root", PARENT),
        ("root.parent", (false, false, "*")),
        ("root.draining", (true, true, "*")),
        ("root.closed", LEAF),
        ("root.open", (true, false, "alice")),
    ]));
    for first in ["root.parent", "root.draining", "root.closed"] {
        assert_eq!(placed(&[rule("fixed", first), rule("fixed", "root.open")], "", &tree), existing("root.open"));
        assert_eq!(placed(&[rule("fixed", first)], "", &tree), rejected(NO_MATCH), "{first}");
    }
    // PLC-031: access at the nearest existing ancestor.
    assert_eq!(placed(&[creating(rule("fixed", "root.new"))], "", &tree), rejected(NO_MATCH));
    let rules = [creating(rule("fixed", "root.parent.x.y"))];
    assert_eq!(placed(&rules, "", &tree), create("root.parent.x.y", "root.parent"));
}

#[test]
fn queues_that_cannot_be_made() {
    // PLC-035, test idea 103
    let tree = open(&[("root.a", LEAF), ("root.old", (false, true, "")), ("root.b", LEAF)]);
    let rules = [creating(rule("provided", ""))];
    let text = "failed to create rule based queue root.a.Gone for application app-1\n\
                creation of queue root.a.Gone failed parent is already a leaf: root.a";
    let refused = QueuePlacement::Rejected { reason: text.to_owned(), queue: "root.a.Gone".to_owned() };
    assert_eq!(placed(&rules, "root.a.Gone", &tree), refused);
    // Recovery does not take it either.
    let forced = run_as(&rules, "root.a.Gone", "alice", FORCED, &tree);
    assert_eq!(forced, refused);
    let text = "failed to create rule based queue root.old.x for application app-1\ndynamic queue creation failed: \n\
                cannot add a child queue when queue is marked for deletion: root.old";
    let refused = QueuePlacement::Rejected { reason: text.to_owned(), queue: "root.old.x".to_owned() };
    assert_eq!(placed(&rules, "root.old.x", &tree), refused);
    // A later rule may still match.
    let rules = [creating(rule("provided", "")), rule("fixed", "root.b")];
    assert_eq!(placed(&rules, "root.a.gone", &tree), existing("root.b"));
}

#[test]
fn the_default_queue_takes_what_no_queue_can_be_made_for() {
    // PLC-035, PLC-040: as where no rule matches.
    let rules = [creating(rule("provided", ""))];
    let tree = open(&[("root.a", LEAF), ("root.old", (false, true, "")), ("root.default", LEAF)]);
    for queue in ["root.a.gone", "root.old.x", "root.default.x"] {
        assert_eq!(placed(&rules, queue, &tree), existing("root.default"), "{queue}");
        // R3.29a: a forced one never goes there.
        let forced = run_as(&rules, queue, "alice", FORCED, &tree);
        assert!(matches!(&forced, QueuePlacement::Rejected { queue: named, .. } if named == queue), "{forced:?}");
    }
    // PLC-032–PLC-034: one that takes nobody leaves the reason as it is.
    for default in [(true, true, "*"), (false, false, "*"), (true, false, "bob")] {
        let tree =
            tree_of(BTreeMap::from([("root", PARENT), ("root.a", (true, false, "*")), ("root.default", default)]));
        let refused = placed(&rules, "root.a.gone", &tree);
        let below = "creation of queue root.a.gone failed parent is already a leaf: root.a";
        assert!(matches!(&refused, QueuePlacement::Rejected { reason, .. } if reason.ends_with(below)), "{refused:?}");
    }
}

#[test]
fn forced_applications() {
    // PLC-018, PLC-042, test idea 104
    let tree = tree_of(BTreeMap::from([
        ("root", PARENT),
        ("root.ok", (true, false, "*")),
        ("root.p", (false, false, "*")),
        ("root.closed", LEAF),
    ]));
    let run = |queue| run_as(&[creating(rule("provided", ""))], queue, "alice", FORCED, &tree);
    assert_eq!(run("root.ok"), existing("root.ok"));
    assert_eq!(run("root.p.new"), create("root.p.new", "root.p"));
    for queue in ["root.denied.x", "root.p", "root.closed", ""] {
        assert_eq!(run(queue), QueuePlacement::Recovery, "{queue}");
    }
    // R3.29a: not even where there is a default queue.
    let tree = open(&[("root.default", LEAF)]);
    assert_eq!(run_as(&[rule("provided", "")], "root.x", "alice", FORCED, &tree), QueuePlacement::Recovery);
}

#[test]
fn forced_tag() {
    // PLC-019, test idea 105
    let forced = |key: &str, value: &str| is_forced(&Texts::from([(key.to_owned(), value.to_owned())]));
    for value in ["TRUE", "true", "True", "t", "T", "1"] {
        assert!(forced(FORCE_TAG, value), "{value}");
    }
    assert!(forced("APPLICATION.CREATE.FORCE", "true"));
    for value in ["maybe", "false", "0", "", "yes", "tRUE"] {
        assert!(!forced(FORCE_TAG, value), "{value}");
    }
    assert!(!is_forced(&Texts::new()));
}

#[test]
fn recovery_queue_cannot_be_named() {
    // PLC-044, PLC-045, test idea 106
    let rules = [creating(rule("provided", ""))];
    let text = "failed to create rule based queue root.@recovery@ for application app-1\n\
                dynamic queue cannot be root.@recovery@";
    let refused = QueuePlacement::Rejected { reason: text.to_owned(), queue: String::new() };
    assert_eq!(placed(&rules, "root.@recovery@", &open(&[])), refused);
    assert!(matches!(placed(&rules, "root.a.@Recovery@.b", &open(&[])), QueuePlacement::Rejected { .. }));
    let there = open(&[("root.@recovery@", LEAF)]);
    assert_eq!(placed(&rules, "root.@recovery@", &there), rejected(NO_MATCH));
    assert_eq!(run_as(&rules, "root.@recovery@", "alice", FORCED, &there), QueuePlacement::Recovery);
    // Naming it by force goes there in any case.
    for queue in ["root.@recovery@", "root.a.@Recovery@.b"] {
        assert_eq!(run_as(&rules, queue, "alice", FORCED, &open(&[])), QueuePlacement::Recovery, "{queue}");
    }
    let plain = [rule("provided", "")];
    assert_eq!(run_as(&plain, "root.@recovery@", "alice", FORCED, &open(&[])), QueuePlacement::Recovery);
}

#[test]
fn default_queue() {
    // PLC-040, test idea 107
    let rules = [rule("provided", "")];
    for default in [(true, true, "*"), (false, false, "*"), (true, false, "bob")] {
        let tree = tree_of(BTreeMap::from([("root", PARENT), ("root.default", default)]));
        assert_eq!(placed(&rules, "root.x", &tree), rejected(NO_MATCH));
    }
}

#[test]
fn rules_that_could_not_be_built() {
    // PLC-003, CFG-098
    let tree = open(&[("root.default", LEAF)]);
    assert_eq!(run_as(&[], "root.default", "alice", FORCED, &tree), rejected(NO_MATCH));
}

#[test]
fn no_rule_gives_a_path_of_more_than_64_levels() {
    // CFG-020, PLC-007
    let tree = open(&[]);
    let path = |levels: usize| format!("root{}", ".q".repeat(levels - 1));
    let provided = [creating(rule("provided", ""))];
    assert!(matches!(placed(&provided, &path(64), &tree), QueuePlacement::Create { .. }));
    for levels in [65, 971, 100_000] {
        let QueuePlacement::Rejected { reason, queue } = placed(&provided, &path(levels), &tree) else {
            panic!("{levels}")
        };
        assert_eq!(
            reason,
            format!(
                "failed to place application app-1: a queue path of {levels} levels is too deep: at most 64, root included, \
                 are allowed"
            )
        );
        assert!(queue.is_empty());
    }
    let tagged = [creating(rule("tag", "namespace")), rule("fixed", "root.q")];
    let deep = run_as(&tagged, "", "alice", &[("namespace", &path(65))], &tree);
    assert!(matches!(&deep, QueuePlacement::Rejected { reason, .. } if reason.contains("65 levels")), "{deep:?}");
    // A rule that fails defeats neither a later one nor recovery.
    let later = [creating(rule("provided", "")), creating(rule("fixed", "root.q"))];
    assert_eq!(
        placed(&later, &path(65), &tree),
        QueuePlacement::Create { path: "root.q".into(), ancestor: "root".into() }
    );
    let forced = run_as(&tagged, "", "alice", &[("namespace", &path(65)), (FORCE_TAG, "true")], &tree);
    assert_eq!(forced, QueuePlacement::Recovery);
    // What a parent rule gives counts.
    let chain = [creating(below(rule("user", ""), creating(rule("fixed", &path(64)))))];
    let deep = placed(&chain, "", &tree);
    assert!(matches!(&deep, QueuePlacement::Rejected { reason, .. } if reason.contains("65 levels")), "{deep:?}");
}

#[test]
fn rules_that_lead_to_the_same_queues_ask_once_who_may_submit() {
    let names: [(&'static str, _); 3] = [("root.a", PARENT), ("root.a.b", PARENT), ("root.a.b.c", LEAF)];
    let mut tree = open(&names);
    tree.0.insert("root", (false, false, ""));
    let rules: Vec<RuleSpec> = (0..1_000).map(|_| rule("fixed", "root.a.b.c")).collect();
    assert!(matches!(placed(&rules, "", &tree), QueuePlacement::Rejected { .. }));
    assert_eq!(tree.1.get(), 4);
    tree.0.insert("root.a", (false, false, "alice"));
    assert_eq!(placed(&rules, "", &tree), existing("root.a.b.c"));
}
