//! What goes into a partition, as bytes and back: whatever it is, it reads as it was; and whatever the bytes are, there is an answer.

use std::{collections::BTreeMap, sync::Arc};

use callboard::{
    config,
    domain::{
        Partition,
        alloc::{AskSpec, Foreign, PreemptionPolicy},
        command::{
            AddApplication, AllocationItem, Command, NodeAction, NodeItem, PredicateAnswer, PredicateTerms,
            ReleaseItem, Turn,
        },
        conf::PartitionConf,
        journal::DrainNote,
        log::{Beginning, Input, Reader, Step, Writer},
        partition::Unreadable,
        resources::{Resource, ResourceType, Types},
        types::{Nanos, Termination},
    },
};
use proptest::prelude::*;

use super::env::{Ask, Env};

const RULES: &str = "
partitions:
  - name: default
    nodesortpolicy: {type: binpacking, resourceweights: {memory: 0.25, vcore: 1.5}}
    preemption: {enabled: false, quotapreemptionenabled: true}
    placementrules:
      - name: tag
        value: namespace
        create: true
        filter: {type: deny, users: ['svc{'], groups: [a, b]}
        parent: {name: user, create: true, parent: {name: fixed, value: root.users}}
      - name: provided
    queues:
      - name: root
        submitacl: 'alice,bob dev'
        queues:
          - name: users
            parent: true
            childtemplate: {maxapplications: 3, properties: {a: b}, resources: {max: {memory: 5}}}
            limits: [{limit: x, users: ['*'], groups: [g], maxapplications: 2, maxresources: {nvidia.com/gpu: 3}}]
";

/// Texts of every length that matters: none, short ones, those that get a number, ones that come again.
fn text() -> impl Strategy<Value = Arc<str>> {
    let texts = prop_oneof![Just(String::new()), "[a-c]{1,3}", "[a-b]{4,5}", "\\PC{0,20}", "[a-z]{250,300}"];
    texts.prop_map(|text| text.as_str().into())
}

fn texts() -> impl Strategy<Value = Vec<Arc<str>>> {
    prop::collection::vec(text(), 0..4)
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    let string = || text().prop_map(|text| text.to_string());
    prop::collection::btree_map(string(), string(), 0..5)
}

fn resource() -> impl Strategy<Value = Resource> {
    let amount = prop_oneof![
        0i128..40,
        any::<i64>().prop_map(i128::from),
        any::<i128>(),
        Just(i128::from(i64::MAX) + 1),
        Just(i128::MIN)
    ];
    let kind = prop_oneof![Just("memory".to_owned()), Just("vcore".to_owned()), "[a-d]\\.io/[a-d]", "t[0-9]{2}"];
    prop::collection::vec((kind, amount), 0..6).prop_map(|amounts| {
        let mut vector = Resource::new();
        for (kind, amount) in amounts {
            vector.set(ResourceType::new(&kind).expect("short"), amount);
        }
        vector
    })
}

fn time() -> impl Strategy<Value = Nanos> {
    prop_oneof![any::<i64>(), 0i64..100, Just(i64::MIN), Just(i64::MAX)].prop_map(Nanos)
}

fn termination() -> impl Strategy<Value = Termination> {
    prop::sample::select(vec![
        Termination::Unknown,
        Termination::StoppedByRm,
        Termination::Timeout,
        Termination::Preempted,
        Termination::PlaceholderReplaced,
        Termination::FailedOnRm,
    ])
}

fn spec() -> impl Strategy<Value = AskSpec> {
    let flags = (any::<bool>(), any::<bool>(), prop::option::of((any::<bool>(), any::<bool>())));
    let foreign = prop::option::of(prop::sample::select(vec![Foreign::Static, Foreign::Default]));
    let texts = (text(), text(), prop::option::of(text()));
    (texts, map(), resource(), any::<i32>(), flags, prop::option::of(time()), foreign).prop_map(
        |((key, task_group, required_node), tags, resource, priority, flags, created, foreign)| {
            let (placeholder, originator, preemption) = flags;
            let preemption =
                preemption.map(|(own, other)| PreemptionPolicy { allow_preempt_self: own, allow_preempt_other: other });
            let resource = Arc::new(resource);
            AskSpec {
                key,
                tags: tags.into(),
                resource,
                priority,
                task_group,
                placeholder,
                originator,
                preemption,
                required_node,
                created,
                foreign,
            }
        },
    )
}

fn node() -> impl Strategy<Value = NodeItem> {
    let action = prop::sample::select(vec![
        NodeAction::Unknown,
        NodeAction::Create,
        NodeAction::CreateDrain,
        NodeAction::Update,
        NodeAction::Drain,
        NodeAction::DrainToSchedulable,
        NodeAction::Decommission,
    ]);
    (text(), action, prop::option::of(resource()), map()).prop_map(|(id, action, capacity, attributes)| NodeItem {
        id,
        action,
        capacity,
        attributes: attributes.into(),
    })
}

fn application() -> impl Strategy<Value = AddApplication> {
    let names = (text(), text(), text(), prop::option::of(text()), text());
    (names, prop::option::of(texts()), map(), any::<i64>(), prop::option::of(resource())).prop_map(
        |((id, queue, user, unresolved, style), groups, tags, timeout_millis, placeholder_ask)| AddApplication {
            id,
            queue,
            user,
            groups: groups.map(Arc::from),
            unresolved,
            tags: Arc::new(tags.into()),
            timeout_millis,
            placeholder_ask,
            gang_style: style.to_string(),
        },
    )
}

fn conf() -> impl Strategy<Value = Arc<PartitionConf>> {
    let texts = [RULES, super::env::QUEUES, super::random::YAML];
    let confs = texts.map(|text| config::load(text).expect("valid").partitions[0].clone());
    prop::sample::select(confs.to_vec())
}

fn command() -> impl Strategy<Value = Command> {
    let item = (text(), prop::option::of(text()), spec()).prop_map(|(app, node, spec)| AllocationItem {
        app,
        node,
        spec: Arc::new(spec),
    });
    let release =
        (text(), text(), termination()).prop_map(|(app, key, termination)| ReleaseItem { app, key, termination });
    let answer =
        (any::<u64>(), prop::option::of(text()), any::<i32>(), texts()).prop_map(|(question, why, index, refused)| {
            Command::Predicate(PredicateAnswer { question, result: why.map_or(Ok(()), Err), index, refused })
        });
    prop_oneof![
        2 => prop::collection::vec(node(), 0..5).prop_map(Command::Nodes),
        2 => (prop::collection::vec(application(), 0..4), texts())
            .prop_map(|(new, remove)| Command::Applications { new, remove }),
        4 => (prop::collection::vec(item, 0..6), prop::collection::vec(release, 0..6))
            .prop_map(|(allocations, releases)| Command::Allocations { allocations, releases }),
        1 => conf().prop_map(Command::Configure),
        1 => Just(Command::Tick),
        1 => answer,
        1 => any::<u64>().prop_map(Command::Unanswered),
        1 => any::<bool>().prop_map(Command::AskPredicates),
        1 => (any::<bool>(), 0usize..1000, any::<bool>()).prop_map(|(constrained, nodes, shared)| {
            Command::PredicateTerms(PredicateTerms { constrained, nodes, shared })
        }),
        1 => prop_oneof![Just(Turn::Yours), Just(Turn::Nobodys), Just(Turn::Elsewhere), any::<u64>().prop_map(Turn::Seen)]
            .prop_map(Command::Turn),
        1 => any::<bool>().prop_map(Command::ContainerStates),
        1 => any::<bool>().prop_map(Command::Reservations),
        1 => (texts(), any::<bool>()).prop_map(|(nodes, drained)| Command::OperatorDrain { nodes, drained }),
        1 => (texts(), any::<bool>()).prop_map(|(hosts, held)| Command::HoldHosts { hosts, held }),
        1 => texts().prop_map(Command::DrainOverdue),
        1 => (texts(), any::<i64>(), any::<Option<i64>>()).prop_map(|(hosts, since, deadline)| {
            let note = |host: &Arc<str>| {
                (host.clone(), DrainNote { since: Nanos(since), reason: Some(host.clone()), deadline: deadline.map(Nanos) })
            };
            Command::NoteDrains(hosts.iter().map(note).collect())
        }),
        1 => Just(Command::Stop),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let input = prop_oneof![
        6 => command().prop_map(Input::Apply),
        2 => (0usize..2000).prop_map(|max| Input::Schedule { max }),
        1 => (0usize..2000).prop_map(|max| Input::Dismantle { max }),
    ];
    (time(), input).prop_map(|(at, input)| Step { at, input })
}

fn written(writer: &mut Writer, steps: &[Step]) -> Vec<u8> {
    writer.begin();
    steps.iter().for_each(|step| writer.step(step));
    assert_eq!(writer.steps(), steps.len());
    writer.bytes().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn steps_read_as_they_were(before in prop::collection::vec(step(), 0..3), steps in prop::collection::vec(step(), 0..6)) {
        let (mut writer, types) = (Writer::new(), Types::default());
        // A record does not depend on those before it in the same buffer.
        written(&mut writer, &before);
        let bytes = written(&mut writer, &steps);
        prop_assert!(bytes == written(&mut Writer::new(), &steps));
        let read: Vec<Step> = Reader::new(&bytes, &types).collect::<Result<_, _>>().expect("what was written is read");
        prop_assert_eq!(format!("{steps:?}"), format!("{read:?}"));
        // What a text does not show, such as amounts beyond 64 bits, the bytes do.
        prop_assert!(bytes == written(&mut writer, &read));
        // A piece of it is refused, or ends with a step.
        for end in (0..bytes.len()).step_by(1 + bytes.len() / 64) {
            let part: Result<Vec<Step>, _> = Reader::new(&bytes[..end], &types).collect();
            if let Ok(part) = part {
                prop_assert!(bytes.starts_with(&written(&mut writer, &part)));
            }
        }
    }

    #[test]
    fn damaged_steps_are_read_or_refused(
        steps in prop::collection::vec(step(), 1..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let types = Types::default();
        let mut bytes = written(&mut Writer::new(), &steps);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (read, place): (Vec<_>, _) = (Reader::new(&bytes, &types).collect(), bytes.len());
        for fault in read.iter().filter_map(|step| step.as_ref().err()) {
            prop_assert!(fault.at <= place && !fault.what.is_empty(), "{fault}");
        }
        prop_assert!(read.iter().rev().skip(1).all(Result::is_ok), "it ends after a fault");
    }
}

#[test]
fn what_a_partition_is_made_from() {
    for text in [RULES, super::env::QUEUES, super::random::YAML] {
        let conf = config::load(text).expect("valid").partitions[0].clone();
        let begin = Beginning { rm: "rm-1".into(), internal: "[rm-1]default".into(), conf, at: Nanos::from_secs(7) };
        let bytes = begin.encode();
        let read = Beginning::decode(&bytes, &Types::default()).expect("what was written is read");
        assert_eq!(format!("{begin:?}"), format!("{read:?}"));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        assert!(begin.partition(&mut one).save() == read.partition(&mut other).save());
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
        for end in 0..bytes.len() {
            Beginning::decode(&bytes[..end], &Types::default()).expect_err("a piece");
        }
        let more = [&bytes[..], &[0]].concat();
        let error = Beginning::decode(&more, &Types::default()).expect_err("more");
        assert!(error.to_string().contains("something follows"), "{error}");
    }
}

/// The format: the numbers of fields and variants stay what they are, so that what was written once is read for ever.
#[test]
fn the_bytes_of_a_record_stay_the_same() {
    let spec = AskSpec {
        key: "pod-1".into(),
        tags: [("zone".to_owned(), "east".to_owned())].into(),
        resource: Arc::new(Resource::of(&[("memory", 1 << 30), ("vcore", 500)])),
        priority: -1,
        preemption: Some(PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: false }),
        ..AskSpec::default()
    };
    let item = |app: &str| AllocationItem { app: app.into(), node: None, spec: Arc::new(spec.clone()) };
    let mut writer = Writer::new();
    writer.begin();
    let allocations = vec![item("app-1"), item("app-1")];
    let releases = vec![ReleaseItem { app: "app-1".into(), key: "k".into(), termination: Termination::Preempted }];
    writer.apply(&Command::Allocations { allocations, releases }, Nanos(1_000));
    writer.schedule(64, Nanos(1_000));
    let hex: String = writer.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "1903e8820183038283656170702d31f6bf0165706f642d3102a1647a6f6e6564656173740384666d656d6f72791a400000006576636f72651901f4\
         04200882f5f4ff8300f6bf0165706f642d3102a101020384001a40000000011901f404200882f5f4ff818300616b030082021840"
    );
}

#[test]
fn what_a_later_version_wrote_is_refused_by_name() {
    let types = Types::default();
    let refusal = |bytes: &[u8]| match Reader::new(bytes, &types).next() {
        Some(Err(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    // Time 0, then an input of a kind that is not known.
    let later = refusal(&[0x00, 0x18, 0x63]);
    assert_eq!(
        later,
        "at byte 3: variant 99 of Input is not known here: it was written by a later version, or is damaged"
    );
    // A command, an application request, an application with a field that is not known.
    let later = refusal(&[0x00, 0x82, 0x01, 0x83, 0x02, 0x81, 0xbf, 0x18, 0x63, 0x00, 0xff, 0x80]);
    assert!(later.contains("field 99 of AddApplication is not known here"), "{later}");
    assert_eq!(refusal(&[0x00]), "at byte 1: it ends too early");
    let huge = refusal(&[0x00, 0x82, 0x01, 0x82, 0x01, 0x9b, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert!(huge.contains("4294967296 elements are announced, and 0 bytes are left"), "{huge}");
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    // What a function keeps on the stack takes several times as much in a build that is not optimised.
    let room = if cfg!(debug_assertions) { 32 << 20 } else { 2 << 20 };
    let thread = std::thread::Builder::new().stack_size(room).spawn(nested);
    thread.expect("a thread").join().expect("see above");
}

fn nested() {
    // A configuration: its root, which has a child, which has a child.
    let queues = [&[0xbf, 0x03, 0xbf, 0x02][..], &[0xbf, 0x0b, 0x81].repeat(100_000)].concat();
    let error = Beginning::decode(&queues, &Types::default()).expect_err("too deep").to_string();
    assert!(error.contains("nested deeper than 200 levels"), "{error}");
    // As deep as a configuration can be.
    let level = |n: usize| format!("{}- name: {}\n{0}  queues:\n", "  ".repeat(n), if n == 1 { "root" } else { "q" });
    let text = format!("partitions:\n- queues:\n{}", (1..=64).map(level).collect::<String>());
    let conf = config::load(&text).expect("valid").partitions[0].clone();
    let begin = Beginning { rm: "rm-1".into(), internal: "[rm-1]default".into(), conf, at: Nanos(1) };
    let read = Beginning::decode(&begin.encode(), &Types::default()).expect("what was written is read");
    assert_eq!(format!("{begin:?}"), format!("{read:?}"));
}

#[test]
fn a_saved_partition_that_is_not_whole_is_refused() {
    let mut env = Env::new(super::random::YAML);
    env.node("n1", 20);
    env.app("app-1", "root.a");
    env.ask((0..8).map(|n| Ask::new("app-1", &format!("k{n}"), 4)).collect());
    let (saved, types) = (env.partition.save(), Types::default());
    let refusal = |bytes: &[u8]| Partition::load(bytes, &types).err().expect("it is refused");
    assert!(Partition::load(&saved, &types).is_ok());
    assert_eq!(Partition::saved_by(&saved), Ok(callboard::domain::DOMAIN_VERSION));
    for end in 0..saved.len() {
        refusal(&saved[..end]);
    }
    for at in 0..saved.len() {
        let mut damaged = saved.clone();
        damaged[at] ^= 0x10;
        // The version of the domain is not guarded: it is what the owner compares.
        assert!((12..16).contains(&at) || Partition::load(&damaged, &types).is_err(), "byte {at}");
    }
    assert_eq!(refusal(b"hello"), Unreadable::Foreign);
    let mut later = saved.clone();
    later[8] = 9;
    assert_eq!(refusal(&later), Unreadable::Later(9));
    assert!(refusal(&later).to_string().contains("format 9"), "{}", refusal(&later));
    let longer = [&saved[..], &[0]].concat();
    assert!(refusal(&longer).to_string().contains("cut off or was added to"), "{}", refusal(&longer));
}
