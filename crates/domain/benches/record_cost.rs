//! What it costs to write a partition down, in processor time of the thread where the system tells it (Linux), so that others on the
//! machine count little: `cargo bench -p callboard-domain --bench record_cost`.

mod cluster;

use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use callboard_domain::{
    Partition,
    alloc::{AskSpec, PreemptionPolicy},
    command::{AllocationItem, Command, NodeAction, NodeItem},
    config,
    digest::Digest,
    log::{Reader, Writer},
    resources::{Resource, Types},
    types::Nanos,
};

use cluster::{APPS, CONFIG, NODES, applications, id};

const ASKS: usize = 100_000;
const REQUEST: usize = 1_000;
const NOW: Nanos = Nanos(1_770_000_000_123_456_789);

fn nodes() -> Command {
    let item = |n| {
        let attributes = ["si/hostname", "si/rackname", "si/instance-type", "si/node-partition"];
        let values = [format!("host-{n}"), format!("rack-{}", n / 40), "m5.8xlarge".into(), "[rm-1]default".into()];
        NodeItem {
            id: format!("node-{n:05}").into(),
            action: NodeAction::Create,
            capacity: Some(Resource::of(&[("memory", 128 << 30), ("vcore", 32_000), ("pods", 110)])),
            attributes: attributes.into_iter().map(str::to_owned).zip(values).collect(),
        }
    };
    Command::Nodes((0..NODES).map(item).collect())
}

/// A request of asks; with tags as a shim on Kubernetes sends them.
fn asks(request: usize, tags: bool) -> Command {
    let item = |n: usize| {
        let n = request * REQUEST + n;
        let mut map = BTreeMap::new();
        if tags {
            map.insert("kubernetes.io/meta/namespace".to_owned(), format!("team-{}", n % 20));
            map.insert("kubernetes.io/meta/podName".to_owned(), format!("spark-{:x}-exec-{n}", n % APPS));
            map.insert("kubernetes.io/label/app".to_owned(), "spark".to_owned());
        }
        let spec = AskSpec {
            key: format!("8c2e0a5d-{n:08x}-4f").into(),
            tags: map.into(),
            resource: Arc::new(Resource::of(&[("memory", (1 + n as i64 % 7) << 30), ("vcore", 500), ("pods", 1)])),
            preemption: Some(PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: false }),
            ..AskSpec::default()
        };
        AllocationItem { app: id(n), node: None, spec: Arc::new(spec) }
    };
    Command::Allocations { allocations: (0..REQUEST).map(item).collect(), releases: Vec::new() }
}

/// Processor time of this thread, or what passed since a moment.
fn clock(since: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

fn timed<T>(sum: &mut Duration, work: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let began = clock(since);
    let result = work();
    *sum += clock(since).saturating_sub(began);
    result
}

fn main() {
    for tags in [false, true] {
        let conf = config::load(CONFIG).expect("valid").partitions[0].clone();
        let (mut effects, mut writer, mut digest) = (Vec::new(), Writer::new(), Digest::default());
        let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, NOW, &mut effects);
        let before = partition.clone();
        let [mut apply, mut encode, mut sum, mut decode] = [Duration::ZERO; 4];
        let (mut records, mut bytes, mut made) = (Vec::new(), 0, 0);
        let types = Types::default();
        let commands = [nodes(), applications()].into_iter().chain((0..ASKS / REQUEST).map(|n| asks(n, tags)));
        for (n, command) in commands.enumerate() {
            let at = NOW.plus(Nanos::from_millis(n as i64));
            let is_ask = matches!(command, Command::Allocations { .. });
            effects.clear();
            let mut began = [Duration::ZERO; 3];
            timed(&mut began[0], || {
                writer.begin();
                writer.apply(&command, at);
            });
            timed(&mut began[1], || partition.apply(command, at, &mut effects));
            let mut calls = 0;
            timed(&mut began[1], || {
                while partition.schedule(64, at, &mut effects).may_go_on(64) {
                    calls += 1;
                }
            });
            timed(&mut began[0], || (0..=calls).for_each(|_| writer.schedule(64, at)));
            let digest = timed(&mut began[2], || {
                digest.add(&effects);
                digest.finish()
            });
            if is_ask {
                encode += began[0];
                apply += began[1];
                sum += began[2];
                bytes += writer.bytes().len();
                made += effects.len();
                timed(&mut decode, || black_box(Reader::new(writer.bytes(), &types).count()));
            }
            records.push((writer.bytes().to_vec(), digest));
        }
        assert_eq!(partition.allocations, ASKS as u64);
        let each = |time: Duration| time.as_nanos() as f64 / ASKS as f64;
        println!("with tags: {tags}; ns per ask:");
        println!("  apply and schedule {:.0}, effects {:.1}", each(apply), made as f64 / ASKS as f64);
        println!("  encode {:.0} ({:.1} %)", each(encode), 100.0 * each(encode) / each(apply));
        println!("  digest {:.0} ({:.1} %)", each(sum), 100.0 * each(sum) / each(apply));
        println!("  decode {:.0}, {:.0} bytes in the record", each(decode), bytes as f64 / ASKS as f64);

        for _ in 0..3 {
            let [mut save, mut load, mut clone] = [Duration::ZERO; 3];
            let copy = timed(&mut clone, || partition.clone());
            let saved = timed(&mut save, || copy.save());
            let again = timed(&mut load, || Partition::load(&saved, &types).expect("it is read"));
            assert_eq!(again.allocations, partition.allocations);
            println!(
                "  clone {clone:?}, save {save:?}, load {load:?}, {} bytes, {} for each allocation",
                saved.len(),
                saved.len() / ASKS
            );
        }

        let (mut replay, mut again) = (Duration::ZERO, before);
        for (record, expected) in records {
            effects.clear();
            timed(&mut replay, || {
                for step in Reader::new(&record, &types) {
                    again.replay(step.expect("it is read"), &mut effects);
                }
            });
            digest.add(&effects);
            assert_eq!(digest.finish(), expected);
        }
        println!("  replay of everything {replay:?}, asks alone were applied in {apply:?}");
    }
}
