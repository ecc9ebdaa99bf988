//! The effects of a log are a function of the log: the same bytes in every process, whoever named which resource type first.

use std::{collections::BTreeMap, process::Command as Process, sync::Arc};

use prost::Message;

use callboard::{
    config,
    domain::{
        Partition,
        command::Command,
        digest::Digest,
        log::{Input, Reader, Step, Writer},
        partition::Done,
        resources::{ResourceType, Types},
        types::Nanos,
    },
    si::{
        intake::Request,
        inward::{Inward, Names},
        v1,
    },
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const KINDS: [&str; 8] = ["memory", "vcore", "nvidia.com/gpu", "a.io/x", "m.io/mid", "pods", "z.io/last", "w"];

/// Shares and scores over many types, whose sums of floating-point numbers depend on the order of the terms.
const CONFIG: &str = "
partitions:
  - name: default
    nodesortpolicy:
      type: fair
      resourceweights: {memory: 0.1, vcore: 0.7, nvidia.com/gpu: 0.2, a.io/x: 0.3, m.io/mid: 1.1, pods: 0.6, z.io/last: 0.13, w: 3.7}
    queues:
      - name: root
        submitacl: '*'
        properties: {preemption.delay: 1s}
        queues:
          - name: a
            resources: {max: {a.io/x: 900, w: 700, vcore: 3}, guaranteed: {z.io/last: 70, memory: 300, w: 11}}
            properties: {application.sort.policy: fair}
          - name: b
            resources: {guaranteed: {nvidia.com/gpu: 33, m.io/mid: 7}}
            properties: {application.sort.policy: fair}
          - name: c
            limits: [{limit: l, users: ['*'], maxresources: {pods: 400, a.io/x: 500}}]
";

trait Encode {
    fn bytes(&self) -> Vec<u8>;
}

impl<T: Message> Encode for T {
    fn bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// All that a partition makes of one log, as text. The types are first named in this order.
fn effects(order: impl IntoIterator<Item = &'static str>) -> String {
    let types = Arc::new(Types::default());
    for name in order {
        ResourceType::new(name).expect("short");
        types.get(name).expect("room");
    }
    let names = Names::new("rm-1", types);
    let read =
        |kind: Request, request: &dyn Encode| -> Inward { kind.read(&request.bytes(), &names, 10_000).expect("read") };
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let amounts = |random: &mut ChaCha8Rng, most: i64| {
        let mut resources = BTreeMap::new();
        for kind in KINDS {
            if random.random_bool(0.7) {
                resources.insert(kind.to_owned(), v1::Quantity { value: random.random_range(0..most) });
            }
        }
        Some(v1::Resource { resources })
    };
    let mut log = Vec::new();
    let nodes = (0..40).map(|n| v1::NodeInfo {
        node_id: format!("n{n}"),
        action: 1,
        schedulable_resource: amounts(&mut random, 900),
        ..Default::default()
    });
    log.push(read(Request::Nodes, &v1::NodeRequest { nodes: nodes.collect(), ..Default::default() }));
    let apps = (0..9).map(|n| v1::AddApplicationRequest {
        application_id: format!("app-{n}"),
        queue_name: format!("root.{}", ["a", "b", "c"][n % 3]),
        ugi: Some(v1::UserGroupInformation { user: format!("user{}", n % 2), groups: vec!["g".into()] }),
        ..Default::default()
    });
    log.push(read(Request::Applications, &v1::ApplicationRequest { new: apps.collect(), ..Default::default() }));
    for round in 0..6 {
        let asks = (0..120).map(|n| v1::Allocation {
            allocation_key: format!("k{round}-{n}"),
            application_id: format!("app-{}", random.random_range(0..9)),
            resource_per_alloc: amounts(&mut random, 120),
            priority: random.random_range(0..2),
            preemption_policy: Some(v1::PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true }),
            ..Default::default()
        });
        log.push(read(
            Request::Allocations,
            &v1::AllocationRequest { allocations: asks.collect(), ..Default::default() },
        ));
    }
    let conf = config::load(CONFIG).expect("valid").partitions[0].clone();
    let (mut now, mut text) = (Nanos::from_secs(1_000_000), String::new());
    let mut effects = Vec::new();
    let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, now, &mut effects);
    let (mut writer, mut digest, mut records) = (Writer::new(), Digest::default(), Vec::new());
    let mut replayed = partition.clone();
    // What comes of the beginning belongs to no record.
    for effect in std::mem::take(&mut effects) {
        text += &format!("{effect:?}\n");
    }
    for inward in log {
        assert!(inward.rejected.is_empty());
        let commands = inward.parts.into_iter().map(|part| part.command);
        for command in commands.chain([Command::Tick]) {
            writer.begin();
            let inputs = std::iter::once(Input::Apply(command)).chain(std::iter::repeat(Input::Schedule { max: 64 }));
            for (n, input) in inputs.enumerate() {
                let step = Step { at: now, input };
                writer.step(&step);
                if partition.replay(step, &mut effects) == Done::default() && n > 0 {
                    break;
                }
            }
            digest.add(&effects);
            records.push((writer.bytes().to_vec(), digest.finish()));
            for effect in std::mem::take(&mut effects) {
                text += &format!("{effect:?}\n");
            }
        }
        now = now.plus(Nanos::from_secs(3));
    }
    // What the other processes are to have as well: the records, the digests, and the snapshot.
    for (record, digest) in &records {
        text += &format!("{{record {:x} {digest:x}}}\n", crc32fast::hash(record));
    }
    let saved = partition.save();
    text += &format!("{{snapshot {} {:x}}}\n", saved.len(), crc32fast::hash(&saved));
    for (record, expected) in records {
        let mut effects = Vec::new();
        for step in Reader::new(&record, &Types::default()) {
            replayed.replay(step.expect("what was written is read"), &mut effects);
        }
        digest.add(&effects);
        assert_eq!(digest.finish(), expected);
    }
    assert!(replayed.save() == saved, "the log gives the same partition again");
    let placed = text.matches("Callback(New(").count();
    assert!(placed > 100 && placed < 720, "some are placed, some wait: {placed}");
    for node in partition.nodes.values() {
        text += &format!("{} {:?} {}\n", node.id(), node.sort_key, **node.available());
    }
    text
}

#[test]
fn of_a_log_with_types_named_in_other_orders() {
    let here = effects(KINDS);
    assert_eq!(here, effects(KINDS.into_iter().rev()));
    assert_eq!(here, effects([]), "as the log names them");
}

const ORDER: &str = "CALLBOARD_TEST_ORDER";

#[test]
fn of_a_log_in_other_processes() {
    let rotated = |by: usize| KINDS.into_iter().cycle().skip(by).take(KINDS.len());
    if let Ok(by) = std::env::var(ORDER) {
        // The other process: nothing in it named a type before.
        println!("\n{}", effects(rotated(by.parse().expect("a number"))));
        return;
    }
    let program = std::env::current_exe().expect("a test program");
    let other = |by: usize| {
        let mut process = Process::new(&program);
        process.args(["--exact", "determinism::of_a_log_in_other_processes", "--nocapture", "--test-threads=1"]);
        let done = process.env(ORDER, by.to_string()).output().expect("it runs");
        let text = String::from_utf8(done.stdout).expect("text");
        assert!(done.status.success(), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains('{') || line.contains("map[")).collect();
        lines.join("\n")
    };
    let first = other(0);
    assert!(first.lines().count() > 1_000, "{first}");
    for by in [3, 5] {
        assert_eq!(first, other(by));
    }
}
