use std::sync::Arc;

use super::*;
use crate::domain::{types::AllocIx, ugm::Limit};

fn reason(wanted: &[(&str, i64)], why: Why) -> Reason {
    Reason::of(&waiting(wanted, why), None)
}

fn waiting(wanted: &[(&str, i64)], why: Why) -> Waiting {
    Waiting {
        asks: 1,
        first: AllocIx(0),
        resource: Arc::new(Resource::of(wanted)),
        wanted: Arc::new(Resource::of(wanted)),
        placeholder: false,
        task_group: "g".into(),
        since: Nanos(0),
        why,
        asked: 0,
        asked_all: false,
        log: Vec::new(),
    }
}

#[test]
fn what_keeps_anything_from_being_placed_is_told_beside_the_rest() {
    let log = Halt::Log("log /data/log/rm-1: no space".into());
    let turn = Reason::of(&waiting(&[], Why::Turn), Some(&log));
    assert_eq!(
        (turn.code, &*turn.text),
        ("notRecorded", "Nothing is placed at present: log /data/log/rm-1: no space.")
    );
    assert_eq!(Reason::of(&waiting(&[], Why::Turn), Some(&Halt::Away)).code, "paused");
    let nodes = Reason::of(&waiting(&[], Why::NoNodes), Some(&log));
    assert_eq!(nodes.code, "noNodes");
    assert!(
        nodes.text.ends_with(" Besides, nothing is placed at present: log /data/log/rm-1: no space."),
        "{}",
        nodes.text
    );
    let away = Reason::of(&waiting(&[], Why::NoNodes), Some(&Halt::Away));
    assert!(away.text.contains("the resource manager is away"), "{}", away.text);
}

#[test]
fn amounts_are_readable() {
    assert_eq!(shown("vcore", 1500), "1.5");
    assert_eq!(shown("memory", 3 << 29), "1.5 GiB");
    assert_eq!(shown("memory", 100), "100 B");
    assert_eq!(shown("pods", 1500), "1500");
}

#[test]
fn a_queue_tells_what_is_short() {
    let (max, used) = (Resource::of(&[("memory", 4 << 30), ("vcore", 9000)]), Resource::of(&[("memory", 3 << 30)]));
    let why = Why::QueueQuota { queue: "root.a".into(), max, used, promised: Resource::new() };
    let found = reason(&[("memory", 2 << 30), ("vcore", 1000)], why);
    assert_eq!(found.text, "Queue root.a is at its max: 3 GiB of 4 GiB memory used, 2 GiB more wanted.");
    assert_eq!((found.code, found.short.len(), found.queue.as_deref()), ("queueQuota", 1, Some("root.a")));
}

#[test]
fn what_is_larger_than_a_limit_is_not_told_as_if_it_only_had_to_wait() {
    let (max, used) = (Resource::of(&[("memory", 4 << 30), ("vcore", 9000)]), Resource::new());
    let why =
        Why::QueueQuota { queue: "root.a".into(), max: max.clone(), used: used.clone(), promised: Resource::new() };
    let found = reason(&[("memory", 5 << 30), ("vcore", 1000)], why);
    let told =
        "It is larger than the max of queue root.a, and never placed as it is: 5 GiB memory wanted, 4 GiB at most.";
    assert_eq!((found.code, &*found.text), ("queueQuota", told));
    let limit = Arc::new(Limit { resources: Some(max.clone()), applications: 0 });
    let refusal = LimitRefusal {
        who: Who::Group,
        name: "dev".into(),
        queue: "root.a".into(),
        limit,
        used: used.clone(),
        promised: Resource::new(),
        applications: 0,
    };
    let found = reason(&[("vcore", 10_000)], Why::UserQuota(refusal));
    let told = "It is larger than the limit of group dev in queue root.a, and never placed as it is: 10 cores wanted, 9 at most.";
    assert_eq!((found.code, &*found.text), ("userQuota", told));
    let gang = Why::GangRoom {
        queue: "root.a".into(),
        max,
        used,
        promised: Resource::new(),
        kept: Resource::new(),
        own: Box::default(),
    };
    let whole = Arc::new(Resource::of(&[("memory", 6 << 30)]));
    let found = Reason::of(&Waiting { wanted: whole, ..waiting(&[("memory", 1 << 30)], gang) }, None);
    assert!(
        found.text.starts_with("The gang is larger than the max of queue root.a, and never placed as it is"),
        "{found:?}"
    );
}

#[test]
fn a_gang_in_its_own_way_is_told_what_to_do() {
    // R6.23, SEEDS S11
    let memory = |n| Resource::of(&[("memory", n)]);
    let (promised, kept) = (Resource::new(), Resource::new());
    let gang = Why::GangRoom {
        queue: "root.a".into(),
        max: memory(10),
        used: memory(1),
        promised,
        kept,
        own: memory(1).into(),
    };
    let found = reason(&[("memory", 10)], gang);
    let told = "1 B of 10 B memory used, 10 B more wanted. Its application has 1 B memory of that itself: the gang begins when \
                that has ended, or with a larger max. A driver that is a part of the gang names a task group, and has no more \
                than was announced for it.";
    assert!(found.text.ends_with(told), "{}", found.text);
}

#[test]
fn what_is_promised_is_not_told_as_used() {
    let memory = |n| Resource::of(&[("memory", n)]);
    let gang = Why::GangRoom {
        queue: "root.a".into(),
        max: memory(25),
        used: memory(16),
        promised: memory(8),
        kept: memory(1),
        own: Box::default(),
    };
    let found = reason(&[("memory", 2)], gang);
    let told = "16 B of 25 B memory used, 8 B promised to asks that have preempted, 1 B kept for gangs that have begun, 2 B more wanted.";
    assert!(found.text.ends_with(told), "{}", found.text);
    let short = serde_json::to_value(&found.short).unwrap();
    let expected = serde_json::json!([{"resource": "memory", "wanted": 2, "available": 0, "limit": 25, "used": 16, "promised": 8, "kept": 1}]);
    assert_eq!(short, expected);
    let limit = Arc::new(Limit { resources: Some(memory(6)), applications: 0 });
    let refusal = LimitRefusal {
        who: Who::User,
        name: "u".into(),
        queue: "root".into(),
        limit,
        used: Resource::new(),
        promised: memory(5),
        applications: 0,
    };
    let found = reason(&[("memory", 2)], Why::UserQuota(refusal));
    let told = "User u is at the limit in queue root: 0 B of 6 B memory used, 5 B promised to asks that have preempted, 2 B more wanted.";
    assert_eq!(found.text, told);
}

#[test]
fn a_node_that_has_no_room_even_then_is_told_with_what_it_lacks() {
    let text = |lacks| {
        let leaving = vec![("v".into(), "v1".into())];
        reason(&[("memory", 5)], Why::Preempting { node: "n1".into(), leaving, lacks }).text
    };
    let told = "Others were told to end for it: v1 of v. It is placed on node n1 when the resource manager has confirmed that they did.";
    assert_eq!(text(Resource::new()), told);
    let told = "Others were told to end for it: v1 of v. That is not enough any more: when the resource manager has confirmed that they did, \
                node n1 still lacks 9 B memory for it, beside what else it holds or has promised.";
    assert_eq!(text(Resource::of(&[("memory", 9)])), told);
}

#[test]
fn who_waits_for_answers_is_told_so() {
    let asked = Waiting { asked: 64, asked_all: true, ..waiting(&[], Why::Turn) };
    let found = Reason::of(&asked, None);
    assert!(found.code == "turn" && found.text.contains("as may be asked at a time, 64"), "{found:?}");
    assert!(Reason::of(&Waiting { asked_all: false, ..asked }, None).text.starts_with("Nothing holds it back"));
}

#[test]
fn nodes_tell_the_first_thing_that_helps() {
    let text = |nodes: Nodes| {
        let found = reason(&[("memory", 8 << 30)], Why::Nodes(Arc::new(nodes)));
        (found.code, found.text)
    };
    let free = Resource::of(&[("memory", 1 << 30)]);
    let full = Nodes { full: 3, drained: 1, most_free: free.clone(), ..Nodes::default() };
    let told = "No node has 8 GiB memory free; the most is 1 GiB, on 4 nodes large enough, 1 of them drained.";
    assert_eq!(text(full), ("nodes", told.to_owned()));
    assert_eq!(text(Nodes { too_small: 3, ..Nodes::default() }).0, "tooLarge");
    assert_eq!(text(Nodes { drained: 1, ..Nodes::default() }).1, "The 1 node large enough is drained.");
    let refused = Nodes { refused: 2, refusal: Some("a taint".into()), ..Nodes::default() };
    assert_eq!(text(refused), ("refused", "2 nodes with room were refused by the resource manager: a taint".into()));
    let kept = KeptFor { node: "n-1".into(), app: "app-2".into(), key: "k-3".into() };
    let reserved = Nodes { full: 3, reserved: 2, kept_for: Some(kept), ..Nodes::default() };
    let told = "The only room is on 2 nodes, reserved for other asks; n-1 for ask k-3 of application app-2.";
    assert_eq!(text(reserved), ("nodes", told.to_owned()));
}

#[test]
fn figures_that_differ_do_not_look_alike() {
    let told = |amounts: &[i64]| {
        let figures = Figures::of("memory", amounts, |_| true);
        amounts.iter().map(|amount| figures.told(*amount)).collect::<Vec<_>>()
    };
    assert_eq!(told(&[16 << 30, 12 << 20]), ["16 GiB", "12 MiB"]);
    assert_eq!(told(&[65_812_340 << 10, 64 << 30]), ["62.76 GiB", "64 GiB"]);
    assert_eq!(told(&[(16 << 30) + 1, 16 << 30]), ["17179869185 B", "17179869184 B"]);
    assert_eq!(told(&[(64 << 30) + (1 << 20), 64 << 30, 0]), ["65537 MiB", "65536 MiB", "0 MiB"]);
    assert_eq!(told(&[(1 << 30) - 1, 1 << 30]), ["1073741823 B", "1073741824 B"]);
    assert_eq!(["0", "0.001", "0.999", "1.001"].to_vec(), [0, 1, 999, 1001].map(|n| shown("vcore", n)));
    assert_eq!([-1500, -500].map(|n| shown("vcore", n)), ["-1.5", "-0.5"]);
    let precise = [(16 << 30, "16 GiB"), ((16 << 30) - 1, "17179869183 B"), (3 << 29, "1.5 GiB"), (0, "0 B")];
    assert_eq!(precise.map(|(amount, _)| exact("memory", amount)), precise.map(|(_, told)| told));
}

#[test]
fn a_sentence_holds_for_the_figures_in_it() {
    let largest = |bytes| Nodes { too_small: 1, largest: Resource::of(&[("memory", bytes)]), ..Nodes::default() };
    let found = reason(&[("memory", (16 << 30) + 1)], Why::Nodes(Arc::new(largest(16 << 30))));
    let told = "It is larger than every node: 17179869185 B memory wanted, and the largest has 17179869184 B.";
    assert_eq!(found.text, told);
    // Rounded, they would fit.
    let (max, used) = (Resource::of(&[("memory", 4 << 30)]), Resource::of(&[("memory", (3 << 30) + (4 << 20))]));
    let why = Why::QueueQuota { queue: "root.a".into(), max, used, promised: Resource::new() };
    let found = reason(&[("memory", 1 << 30)], why);
    assert_eq!(found.text, "Queue root.a is at its max: 3076 MiB of 4096 MiB memory used, 1024 MiB more wanted.");
    let why = Why::Nodes(Arc::new(Nodes { full: 1, most_free: Resource::new(), ..Nodes::default() }));
    let found = reason(&[("vcore", 4)], why);
    assert_eq!(found.text, "No node has 0.004 cores free; the most is 0, on 1 node large enough.");
}

#[test]
fn what_is_refused_of_a_gang_is_told_with_its_nodes_and_what_was_said() {
    let said = || Arc::from("node(s) had a taint");
    let swap = reason(&[("memory", 1)], Why::Refused { live: 2, nodes: 3, said: said() });
    let expected = "It is to replace a placeholder of task group g, of which 2 are left, and the resource manager refused it on 3 nodes: \
                    node(s) had a taint";
    assert_eq!((swap.code, &*swap.text), ("refused", expected));
    let left = reason(&[("memory", 1)], Why::Placeholder { live: 2, leaving: true });
    let expected = "It waits until the resource manager has confirmed that the 2 placeholders of task group g that were told to go \
                    have gone, and is placed as any other then.";
    assert_eq!((left.code, &*left.text), ("placeholder", expected));
    let nodes = |open| Nodes { refused: 2, open, refusal: Some(said()), ..Nodes::default() };
    let gang = reason(&[], Why::GangNodes(Arc::new(nodes(0))));
    let expected = "Of a gang that is placed all at once, for one placeholder 2 nodes with room were refused by the resource manager: \
                    node(s) had a taint";
    assert_eq!((gang.code, &*gang.text), ("refused", expected));
    let both = reason(&[("memory", 1 << 30)], Why::GangNodes(Arc::new(nodes(1))));
    assert_eq!(both.code, "gangRoom");
    assert!(
        both.text
            .ends_with(" For one of them 2 nodes with room were refused by the resource manager: node(s) had a taint")
    );
    let (node, why) = ("n1".into(), Unfit::Refused);
    let one = reason(&[], Why::RequiredNode { node, why, free: None, said: Some(said()) });
    assert_eq!(one.text, "It requires node n1, and the resource manager refused it there: node(s) had a taint");
}
