use callboard_domain::{
    alloc::Foreign,
    resources::Resource,
    types::{Nanos, Termination},
};
use prost::Message;

use super::*;

fn read(kind: Request, request: &(impl Message + serde::Serialize)) -> Inward {
    let by_wire = kind.read(&request.encode_to_vec(), &names(), 100).expect("within the limits");
    // A number that no enum has can only come by wire.
    if let Ok(text) = serde_json::to_vec(request) {
        let (by_text, _) = kind.read_json(&text, &names(), 100).expect("within the limits");
        assert_eq!(format!("{by_wire:?}"), format!("{by_text:?}"), "both doors read the same");
    }
    by_wire
}

fn names() -> Names {
    Names::new("rm:1", Arc::default())
}

fn amounts(memory: i64) -> v1::Resource {
    v1::Resource { resources: [("memory".to_owned(), v1::Quantity { value: memory })].into() }
}

#[test]
fn partition_names_get_the_rm_in_front() {
    // R1.6, CFG-094
    assert_eq!(&*names().internal(""), "[rm:1]default");
    assert_eq!(&*names().internal("default"), "[rm:1]default");
    assert_eq!(&*names().internal("gpu"), "[rm:1]gpu");
    assert_eq!(&*names().internal("[other]x"), "[other]x");
}

#[test]
fn nodes_carry_their_partition_as_attribute() {
    // R1.6, R2.7
    let node = |id: &str, action, attributes: &[(&str, &str)]| v1::NodeInfo {
        node_id: id.into(),
        action,
        attributes: attributes.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        schedulable_resource: Some(amounts(5)),
    };
    let request = v1::NodeRequest {
        nodes: vec![
            node("n1", 1, &[]),
            node("n2", 6, &[("si/node-partition", "gpu"), ("si/rackname", "r")]),
            node("n1", 2, &[]),
            node("", 1, &[]),
            node("n3", 77, &[]),
            v1::NodeInfo::default(),
        ],
        rm_id: String::new(),
    };
    let inward = read(Request::Nodes, &request);
    assert_eq!(inward.items, 6);
    let reasons: Vec<_> = inward.rejected.iter().map(|rejected| format!("{rejected:?}")).collect();
    assert!(reasons.len() == 2 && reasons[0].contains("nodeID is empty"), "{reasons:?}");
    // S3: no name stands for it.
    assert!(reasons[1].contains("action of node n3 is 77, which stands for none"), "{reasons:?}");
    let [default, gpu] = &inward.parts[..] else { panic!("two partitions: {:?}", inward.parts) };
    let Command::Nodes(items) = &default.command else { panic!() };
    assert_eq!(&*default.partition, "[rm:1]default");
    assert_eq!(items[0].attributes.get("si/node-partition").map(String::as_str), Some("[rm:1]default"));
    assert_eq!(items[0].capacity, Some(Resource::of(&[("memory", 5)])));
    assert!(items[1].attributes.is_empty(), "an update without attributes leaves them alone (SEEDS S5)");
    assert_eq!(items.len(), 2, "an empty entry is skipped (R2.3)");
    let Command::Nodes(items) = &gpu.command else { panic!() };
    assert_eq!(items[0].action, NodeAction::CreateDrain);
    assert_eq!(items[0].attributes.get("si/node-partition").map(String::as_str), Some("[rm:1]gpu"));
    assert_eq!(items[0].attributes.get("si/rackname").map(String::as_str), Some("r"));
}

#[test]
fn tags_of_an_ask_become_fields() {
    // R4.2, R4.3, R2.15, SEEDS S8
    let tags = [("creationTime", "1700000100"), ("yunikorn.apache.org/requiredNode", "n9"), ("foreign", "static")];
    let allocation = v1::Allocation {
        allocation_key: "k".into(),
        application_id: "a".into(),
        allocation_tags: tags.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        placeholder: true,
        preemption_policy: Some(v1::PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: false }),
        ..v1::Allocation::default()
    };
    let request = v1::AllocationRequest { allocations: vec![allocation], ..Default::default() };
    let inward = read(Request::Allocations, &request);
    let Command::Allocations { allocations, .. } = &inward.parts[0].command else { panic!() };
    let spec = &allocations[0].spec;
    assert_eq!(spec.created, Some(Nanos::from_secs(1_700_000_100)));
    assert_eq!(spec.required_node.as_deref(), Some("n9"));
    assert_eq!(spec.foreign, Some(Foreign::Static));
    assert!(!spec.placeholder, "no task group");
    assert!(!spec.opted_out() && !spec.may_preempt_others());
    assert!(allocations[0].node.is_none() && spec.resource.is_empty());
}

#[test]
fn allocations_and_releases_of_a_partition_stay_in_one_command() {
    // R1.29
    let request = v1::AllocationRequest {
        allocations: vec![v1::Allocation {
            allocation_key: "k".into(),
            node_id: "n1".into(),
            ..v1::Allocation::default()
        }],
        releases: Some(v1::AllocationReleasesRequest {
            allocations_to_release: vec![
                v1::AllocationRelease { allocation_key: "x".into(), termination_type: 9, ..Default::default() },
                v1::AllocationRelease { partition_name: "gpu".into(), termination_type: 5, ..Default::default() },
            ],
        }),
        rm_id: String::new(),
    };
    let inward = read(Request::Allocations, &request);
    assert_eq!((inward.items, inward.parts.len()), (3, 2));
    let Command::Allocations { allocations, releases } = &inward.parts[0].command else { panic!() };
    assert_eq!(allocations[0].node.as_deref(), Some("n1"));
    assert_eq!(releases[0].termination, Termination::Unknown);
    let Command::Allocations { releases, .. } = &inward.parts[1].command else { panic!() };
    assert_eq!(releases[0].termination, Termination::FailedOnRm);
}

#[test]
fn applications_without_groups_are_resolved_later() {
    // R3.27, R3.37
    let new = v1::AddApplicationRequest {
        application_id: "a".into(),
        ugi: Some(v1::UserGroupInformation { user: "u".into(), groups: vec![] }),
        placeholder_ask: Some(amounts(0)),
        ..Default::default()
    };
    let remove = v1::RemoveApplicationRequest { application_id: "b".into(), ..Default::default() };
    let nameless = v1::AddApplicationRequest::default();
    let request = v1::ApplicationRequest { new: vec![new, nameless], remove: vec![remove], ..Default::default() };
    let inward = read(Request::Applications, &request);
    assert!(matches!(&inward.rejected[..], [Callback::RejectedApplication { .. }]));
    let Command::Applications { new, remove } = &inward.parts[0].command else { panic!() };
    assert_eq!(new[0].groups, None);
    assert_eq!(new[0].placeholder_ask, None, "all zero is none");
    assert_eq!(&*remove[0], "b");
}

fn refused(kind: Request, text: &str, limit: usize) -> Fault {
    kind.read_json(text.as_bytes(), &names(), limit).expect_err("refused")
}

fn fault(kind: Request, text: &str) -> Malformed {
    match refused(kind, text, 100) {
        Fault::Malformed(malformed) => malformed,
        large => panic!("{large:?}"),
    }
}

#[test]
fn items_are_counted_before_they_are_made() {
    let text = |count: usize| format!(r#"{{"nodes":[{}{{}}]}}"#, "{},".repeat(count - 1));
    let (inward, _) = Request::Nodes.read_json(text(5).as_bytes(), &names(), 5).expect("as many as allowed");
    assert_eq!(inward.items, 5);
    assert_eq!(refused(Request::Nodes, &text(6), 5), Fault::Large(too_many_items(5)));
    // The text ends there, whatever follows.
    let broken = format!("{}garbage", &text(1_000)[..900]);
    assert_eq!(refused(Request::Nodes, &broken, 5), Fault::Large(too_many_items(5)));
    let empty = |field: u8, count: usize| [field << 3 | 2, 0].repeat(count);
    for (kind, bytes) in [
        (Request::Nodes, empty(1, 6)),
        (Request::Applications, [empty(1, 3), empty(2, 3)].concat()),
        (Request::Allocations, empty(4, 6)),
        (Request::Allocations, [&[0x12, 12][..], &empty(1, 6)].concat()),
    ] {
        assert!(kind.read(&bytes, &names(), 6).is_ok(), "{kind:?}");
        assert_eq!(kind.read(&bytes, &names(), 5).expect_err("refused"), Fault::Large(too_many_items(5)), "{kind:?}");
    }
}

#[test]
fn entries_of_an_item_count_and_are_limited() {
    let node = |entries: usize| {
        let attributes = (0..entries).map(|n| (format!("a{n}"), String::new())).collect();
        v1::NodeRequest {
            nodes: vec![v1::NodeInfo { node_id: "n".into(), attributes, ..Default::default() }],
            ..Default::default()
        }
    };
    assert_eq!(read(Request::Nodes, &node(7)).items, 1);
    assert_eq!(read(Request::Nodes, &node(80)).items, 11);
    let most = Request::Nodes.read(&node(1_000).encode_to_vec(), &names(), 1_000).expect("as many as allowed");
    assert_eq!(most.items, 126);
    let crowded = node(1_100);
    let text = "has more than 1000 tags, attributes, groups or resource types";
    let wire = Request::Nodes.read(&crowded.encode_to_vec(), &names(), 1_000).expect_err("refused");
    assert_eq!(wire, Fault::Large(format!("item 0 of nodes {text}")));
    let json = serde_json::to_string(&crowded).expect("JSON");
    assert_eq!(refused(Request::Nodes, &json, 1_000), Fault::Large(format!("nodes[0] {text}")));
    // Also where they hide in a message of the item.
    let resources = (0..1_100).map(|n| (format!("r{n}"), v1::Quantity { value: 1 })).collect();
    let ask = v1::Allocation { resource_per_alloc: Some(v1::Resource { resources }), ..Default::default() };
    let asks = v1::AllocationRequest { allocations: vec![ask], ..Default::default() }.encode_to_vec();
    assert_eq!(
        Request::Allocations.read(&asks, &names(), 1_000).expect_err("refused"),
        Fault::Large(format!("item 0 of allocations {text}"))
    );
}

#[test]
fn a_request_names_as_many_partitions_as_there_may_be() {
    let text = |count: usize| {
        let one = |n| format!(r#"{{"applicationID":"a","partitionName":"p{n}"}}"#);
        format!(r#"{{"remove":[{}]}}"#, (0..count).map(one).collect::<Vec<_>>().join(","))
    };
    let (inward, _) =
        Request::Applications.read_json(text(100).as_bytes(), &names(), 1_000).expect("as many as allowed");
    assert_eq!(inward.parts.len(), 100);
    let told = "the request names more than 100 partitions: a configuration has no more";
    assert_eq!(refused(Request::Applications, &text(101), 1_000), Fault::Large(told.to_owned()));
}

#[test]
fn ids_have_a_length() {
    let long = "x".repeat(1_025);
    let text = format!(
        r#"{{"allocations":[{{"allocationKey":"{long}","applicationID":"a"}},{{"allocationKey":"k","applicationID":"a","nodeID":"{long}"}}]}}"#
    );
    let (inward, _) = Request::Allocations.read_json(text.as_bytes(), &names(), 9).expect("read");
    let reasons: Vec<String> = inward.rejected.iter().map(|rejected| format!("{rejected:?}")).collect();
    assert!(inward.parts.is_empty() && reasons.len() == 2, "{reasons:?}");
    assert!(reasons[0].contains("allocationKey has 1025 bytes: at most 1024 are allowed"), "{}", reasons[0]);
    assert!(reasons[1].contains("nodeID has 1025 bytes"), "{}", reasons[1]);
    for action in ["CREATE", "UPDATE"] {
        let text =
            format!(r#"{{"nodes":[{{"nodeID":"n","action":"{action}","attributes":{{"si/hostname":"{long}"}}}}]}}"#);
        let (inward, _) = Request::Nodes.read_json(text.as_bytes(), &names(), 9).expect("read");
        let told = format!("{:?}", inward.rejected);
        assert!(inward.parts.is_empty() && told.contains("si/hostname has 1025 bytes: at most 1024"), "{told}");
    }
    let queue = "q.".repeat(4_000);
    let text = format!(
        r#"{{"new":[{{"applicationID":"a","queueName":"{queue}"}},{{"applicationID":"b","ugi":{{"groups":["g","{long}"]}}}},{{"applicationID":"c","gangSchedulingStyle":"{long}"}}]}}"#
    );
    let (inward, _) = Request::Applications.read_json(text.as_bytes(), &names(), 9).expect("read");
    let reasons: Vec<String> = inward.rejected.iter().map(|rejected| format!("{rejected:?}")).collect();
    assert!(
        reasons[0].contains("failed to place application a: a queue path of 4001 levels is too deep"),
        "{reasons:?}"
    );
    assert!(reasons[1].contains("a name of ugi has 1025 bytes"), "{reasons:?}");
    assert!(reasons[2].contains("gangSchedulingStyle has 1025 bytes"), "{reasons:?}");
}

#[test]
fn faults_of_a_text_are_named_with_their_place() {
    use Request::{Allocations, Applications, Nodes};
    let not_json = fault(Nodes, "{\"nodes\":");
    assert_eq!(not_json.field, None);
    assert!(not_json.detail.starts_with("the body is not JSON: EOF while parsing a value at line 1"), "{not_json:?}");
    for (kind, text, field, says) in [
        (Nodes, "[]", None, "sequence"),
        (Nodes, r#"{"nodes":{"nodeID":"n"}}"#, Some("nodes"), "invalid type: map, expected a sequence"),
        (Nodes, r#"{"nodes":[7]}"#, Some("nodes[0]"), "invalid type: integer `7`"),
        (Nodes, r#"{"rmID":7}"#, Some("rmID"), "integer `7`"),
        (Nodes, r#"{"colour":"red"}"#, Some("colour"), "unknown field `colour`, expected `nodes` or `rmID`"),
        (Nodes, r#"{"nodes":[],"nodes":[]}"#, Some("nodes"), "duplicate field `nodes`"),
        (Nodes, r#"{"nodes":[null,{"action":"EXPLODE"}]}"#, Some("nodes[1].action"), "EXPLODE"),
        (Allocations, r#"{"allocations":[{"priority":"high"}]}"#, Some("allocations[0].priority"), "(value: \"high\")"),
        (
            Allocations,
            r#"{"releases":{"allocationsToRelease":[{"colour":1}]}}"#,
            Some("releases.allocationsToRelease[0].colour"),
            "unknown field `colour`",
        ),
        (Applications, r#"{"new":[{"ugi":{"groups":[1]}}]}"#, Some("new[0].ugi.groups[0]"), "value: 1"),
    ] {
        let fault = fault(kind, text);
        assert_eq!(fault.field.as_deref(), field, "{text} {fault:?}");
        assert!(fault.detail.contains(says), "{text} {fault:?}");
    }
    let nested = format!(r#"{{"nodes":[{}]}}"#, "[".repeat(100_000));
    assert!(fault(Nodes, &nested).detail.len() < 3_000);
    let echoed = fault(Nodes, &format!(r#"{{"{}":1}}"#, "x".repeat(1 << 20)));
    assert!(
        echoed.detail.len() < 3_000 && echoed.field.is_some_and(|field| field.len() < 3_000),
        "what was sent is not sent back whole"
    );
}

#[test]
fn numbers_of_enums_are_the_same_through_both_doors() {
    for number in [0, 1, 5, 6, 7, 77, -1, i32::MIN, i32::MAX] {
        let node = v1::NodeInfo { node_id: "n".into(), action: number, ..Default::default() };
        let request = v1::NodeRequest { nodes: vec![node], ..Default::default() };
        let text = format!(r#"{{"nodes":[{{"nodeID":"n","action":{number}}}]}}"#);
        let (json, _) = Request::Nodes.read_json(text.as_bytes(), &names(), 9).expect("read");
        assert_eq!(format!("{json:?}"), format!("{:?}", self::read(Request::Nodes, &request)));
        let release =
            v1::AllocationRelease { allocation_key: "k".into(), termination_type: number, ..Default::default() };
        let releases = Some(v1::AllocationReleasesRequest { allocations_to_release: vec![release] });
        let request = v1::AllocationRequest { releases, ..Default::default() };
        let text = format!(
            r#"{{"releases":{{"allocationsToRelease":[{{"allocationKey":"k","terminationType":{number}}}]}}}}"#
        );
        let (json, _) = Request::Allocations.read_json(text.as_bytes(), &names(), 9).expect("read");
        assert_eq!(format!("{json:?}"), format!("{:?}", self::read(Request::Allocations, &request)));
    }
    for number in ["2147483648", "-2147483649", "1e300"] {
        let text = format!(r#"{{"nodes":[{{"nodeID":"n","action":{number}}}]}}"#);
        assert_eq!(fault(Request::Nodes, &text).field.as_deref(), Some("nodes[0].action"), "{number}");
    }
}

#[test]
fn null_is_nothing() {
    // R2.3
    let text = br#"{"rmID":null,"nodes":[null,{"nodeID":"n","attributes":null,"action":1}]}"#;
    let (inward, rm) = Request::Nodes.read_json(text, &names(), 9).expect("read");
    assert_eq!((inward.items, rm.as_str(), inward.parts.len()), (1, "", 1));
    for text in [r#"{"allocations":null,"releases":null}"#, r#"{"releases":{"allocationsToRelease":null}}"#, "{}"] {
        let (inward, _) = Request::Allocations.read_json(text.as_bytes(), &names(), 9).expect("read");
        assert_eq!(inward.items, 0);
    }
}

#[test]
fn the_resource_manager_is_found_wherever_it_stands() {
    let request = v1::AllocationRequest { rm_id: "rm-7".into(), ..Default::default() };
    assert_eq!(Request::Allocations.rm(&request.encode_to_vec()), Ok("rm-7".to_owned()));
    assert_eq!(Request::Allocations.rm(b""), Ok(String::new()));
    let text = br#"{"allocations":[],"rmID":"rm-7"}"#;
    assert_eq!(Request::Allocations.read_json(text, &names(), 9).expect("read").1, "rm-7");
}
