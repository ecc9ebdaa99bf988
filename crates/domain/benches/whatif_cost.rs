//! What it costs to try a change, and to say when an ask will be placed, with 10,000 nodes and 100,000 allocations:
//! `cargo bench -p callboard-domain --bench whatif_cost`.

mod cluster;

use std::{sync::Arc, time::Instant};

use callboard_domain::{
    Partition,
    alloc::AskSpec,
    command::{AllocationItem, Command, NodeAction, NodeItem},
    config,
    event::{Change, Detail, Event, EventKind},
    lasted::Lasted,
    partition::{
        Explainer,
        forward::{Bounds, Lasts},
        whatif::Scenario,
    },
    resources::Resource,
    types::{AllocIx, Nanos},
};

use cluster::{CONFIG, NODES, applications, id};

/// A node holds ten of them.
const ASKS: usize = 110_000;
const NOW: Nanos = Nanos::from_secs(1_770_000_000);

fn never() -> bool {
    false
}

fn nodes(first: usize, count: usize) -> Command {
    let item = |n| NodeItem {
        id: format!("node-{n:05}").into(),
        action: NodeAction::Create,
        capacity: Some(Resource::of(&[("memory", 100 << 30), ("vcore", 10_000)])),
        attributes: Default::default(),
    };
    Command::Nodes((first..first + count).map(item).collect())
}

/// 100,000 allocations, and 10,000 asks that wait.
fn full() -> Partition {
    let conf = config::load(CONFIG).expect("valid").partitions[0].clone();
    let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, NOW, &mut Vec::new());
    let ask = |n: usize| {
        let resource = Resource::of(&[("memory", (1 + n as i64 % 7) << 30), ("vcore", 1_000)]);
        let spec = AskSpec { key: format!("ask-{n:06}").into(), resource: Arc::new(resource), ..AskSpec::default() };
        AllocationItem { app: id(n), node: None, spec: Arc::new(spec) }
    };
    let fx = &mut Vec::new();
    partition.apply(nodes(0, NODES), NOW, fx);
    partition.apply(applications(), NOW, fx);
    let allocations = (0..ASKS).map(ask).collect();
    partition.apply(Command::Allocations { allocations, releases: Vec::new() }, NOW, fx);
    while partition.schedule_at_once(1024, NOW, fx) > 0 {}
    assert_eq!(partition.allocations, 100_000);
    partition
}

/// Such ones lasted from one to twenty minutes.
fn lasted() -> Lasted {
    let mut lasted = Lasted::default();
    for n in 0..20_000_i64 {
        let app: Arc<str> = format!("spark-{:04}", n % 1_000).into();
        let queue = ["root.a", "root.b", "root.c"][n as usize % 1_000 % 3];
        let event = |kind, object: &str, reference: &str, change, detail, at| Event {
            kind,
            object: object.into(),
            reference: reference.into(),
            change,
            detail,
            message: "".into(),
            resource: Some(Arc::new(Resource::of(&[("memory", (1 + n % 7) << 30), ("vcore", 1_000)]))),
            at,
            partition: "".into(),
        };
        let end = Nanos::from_secs(60 + n % 1_140);
        for event in [
            event(EventKind::Queue, queue, &app, Change::Add, Detail::QueueApp, Nanos::ZERO),
            event(EventKind::App, &app, "k", Change::Add, Detail::AppAlloc, Nanos::ZERO),
            event(EventKind::App, &app, "k", Change::Remove, Detail::AllocCancel, end),
            event(EventKind::App, &app, "k", Change::Remove, Detail::RequestCancel, end),
        ] {
            lasted.apply(&event, |_| None);
        }
    }
    lasted
}

fn main() {
    let (partition, lasted) = (full(), lasted());
    let bounds = [Bounds { decisions: 400_000, stop: &never }; 2];
    for (what, change, seconds) in
        [("1,000 nodes come", nodes(NODES, 1_000), 0), ("1,000 nodes come, an hour ahead", nodes(NODES, 1_000), 3_600)]
    {
        let begun = Instant::now();
        let horizon = Nanos::from_secs(seconds);
        let scenario = Scenario { change: vec![change], horizon, lasts: None, recorded: None, bounds };
        let outcome = partition.what_if(scenario, NOW);
        println!("{what}: {:?}, {} more placed", begun.elapsed(), outcome.whole.with.placed);
    }
    let begun = Instant::now();
    let lengths = partition.lengths(&lasted, NOW);
    println!("how long what runs may last: {:?}, {} of {} known", begun.elapsed(), lengths.known, lengths.running);
    let known = |partition: &Partition, ix: AllocIx, age: Nanos| lengths.rest(partition, ix, age, 0);
    let lasts: Lasts<'_> = &known;
    let begun = Instant::now();
    let change = vec![nodes(NODES, 1_000)];
    let horizon = Nanos::from_secs(600);
    let scenario = Scenario { change, horizon, lasts: Some(lasts), recorded: None, bounds };
    let outcome = partition.what_if(scenario, NOW);
    println!(
        "1,000 nodes come, ten minutes ahead in which allocations end: {:?}, {} placed without, cut: {}",
        begun.elapsed(),
        outcome.whole.without.placed,
        outcome.cut
    );
    let mut explainer = Explainer::new(&partition);
    let mut all = partition.app_by_id.values().map(|app| (*app, explainer.application(*app, NOW)));
    let (app, waiting) = all.find(|(_, waiting)| !waiting.is_empty()).expect("some wait");
    let begun = Instant::now();
    let stop = || begun.elapsed().as_millis() >= 1_000;
    let bounds = Bounds { decisions: 200_000, stop: &stop };
    let when = partition.when(app, &waiting[0], &lasted, NOW, Nanos::from_secs(86_400), bounds);
    println!("when: {:?}, {when:?}", begun.elapsed());
}
