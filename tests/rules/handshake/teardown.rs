//! A partition that ends is taken apart slice by slice: others on its thread have their turn, and the event system gets the
//! events of one slice before the next begins.

use std::sync::{Arc, Mutex};

use actix::prelude::*;
use callboard::{
    actors::partition::PartitionActor,
    config,
    domain::{
        alloc::AskSpec,
        command::{AddApplication, AllocationItem, Command, NodeAction, ReleaseItem},
        effect::Callback,
        event::{Change, Detail, Event},
        types::{AppState, Termination},
    },
    messages::{
        budget::Budget,
        clock::Clock,
        event::Publish,
        partition::{Commands, GetSnapshot, PartitionSetup, StopPartition},
        rm::{Deliver, Outgoing},
    },
};

use super::shim::{node, res};

/// What a partition told, and the events that were published, batch by batch.
#[derive(Clone, Default)]
struct Heard {
    told: Arc<Mutex<Vec<Callback>>>,
    events: Arc<Mutex<Vec<Vec<Event>>>>,
}

impl Actor for Heard {
    type Context = Context<Self>;
}

impl Handler<Deliver> for Heard {
    type Result = ();

    fn handle(&mut self, msg: Deliver, _ctx: &mut Self::Context) {
        let callbacks = msg.items.into_iter().filter_map(|item| match item {
            Outgoing::Callback(callback) => Some(callback),
            Outgoing::Ask(_) => None,
        });
        self.told.lock().unwrap().extend(callbacks);
    }
}

impl Handler<Publish> for Heard {
    type Result = ();

    fn handle(&mut self, msg: Publish, _ctx: &mut Self::Context) {
        self.events.lock().unwrap().push(msg.events);
    }
}

fn start(name: &str, heard: &Heard) -> Addr<PartitionActor> {
    let heard = heard.clone().start();
    PartitionActor::start_here(PartitionSetup {
        clock: Clock::default(),
        rm: "rm-1".into(),
        epoch: 1,
        internal: name.into(),
        conf: config::load("").unwrap().partitions[0].clone(),
        budget: Budget::new(1 << 20, 1 << 20),
        patience: Default::default(),
        callbacks: heard.clone().recipient(),
        events: heard.recipient().into(),
        recorded: None,
    })
}

fn app(id: &str) -> AddApplication {
    AddApplication {
        id: id.into(),
        queue: "root.a".into(),
        user: "alice".into(),
        groups: Some(Arc::from([])),
        tags: Arc::new([("namespace".to_owned(), "a".to_owned())].into()),
        ..AddApplication::default()
    }
}

fn ask(app: &str, key: &str) -> AllocationItem {
    let spec = AskSpec { key: key.into(), resource: Arc::new(res(1)), ..AskSpec::default() };
    AllocationItem { app: app.into(), node: None, spec: Arc::new(spec) }
}

fn request(commands: Vec<Command>) -> Commands {
    Commands::of(1, commands)
}

async fn placed(partition: &Addr<PartitionActor>, number: u64) {
    for _ in 0..100_000 {
        tokio::task::yield_now().await;
        if partition.send(GetSnapshot).await.unwrap().partition.allocations == number {
            return;
        }
    }
    panic!("not placed");
}

/// Applications with an allocation each, and one with as many as all others.
async fn filled(apps: usize, heard: &Heard) -> Addr<PartitionActor> {
    let partition = start("[rm-1]large", heard);
    let new = (0..=apps).map(|n| app(&format!("app-{n:05}"))).collect();
    let large = (0..apps).map(|n| ask("app-00000", &format!("k{n}")));
    let allocations = (1..=apps).map(|n| ask(&format!("app-{n:05}"), "k")).chain(large).collect();
    partition.do_send(request(vec![
        node("n1", NodeAction::Create, 1 << 20),
        Command::Applications { new, remove: Vec::new() },
        Command::Allocations { allocations, releases: Vec::new() },
    ]));
    placed(&partition, 2 * apps as u64).await;
    partition
}

#[actix::test]
async fn others_have_their_turn_and_nothing_is_left_out() {
    // CFG-095, OPS-077, R1.8
    const APPS: usize = 1_000;
    let heard = Heard::default();
    let partition = filled(APPS, &heard).await;
    let other = start("[rm-2]small", &Heard::default());
    heard.told.lock().unwrap().clear();
    heard.events.lock().unwrap().clear();

    let mut stop = Box::pin(partition.send(StopPartition));
    let mut turns = 0;
    loop {
        tokio::select! {
            biased;
            done = &mut stop => break drop(done.unwrap()),
            answer = other.send(GetSnapshot) => {
                answer.unwrap();
                turns += 1;
            }
        }
    }
    // In debug builds it takes far longer than the few milliseconds of these slices.
    assert!(turns > 3, "the other partition had {turns} turns");
    assert!(!partition.connected());

    let batches = heard.events.lock().unwrap();
    assert!(batches.len() > 3, "{} batches of events", batches.len());
    let most = batches.iter().map(Vec::len).max().unwrap_or_default();
    let all: Vec<&Event> = batches.iter().flatten().collect();
    assert!(most < all.len() / 2, "a batch of {most} events, of {}", all.len());
    let count = |change, detail| all.iter().filter(|event| (event.change, event.detail) == (change, detail)).count();
    assert_eq!(count(Change::Set, Detail::AppFailed), APPS + 1);
    assert_eq!(count(Change::Remove, Detail::AllocCancel), 2 * APPS);
    assert_eq!(count(Change::Remove, Detail::NodeDecommission), 1);
    let told = heard.told.lock().unwrap();
    let failed = |callback: &&Callback| {
        matches!(callback, Callback::UpdatedApplication { state: AppState::Failing | AppState::Failed, .. })
    };
    assert_eq!((told.len(), told.iter().filter(failed).count()), (2 * (APPS + 1), 2 * (APPS + 1)));
}

#[actix::test]
async fn what_comes_meanwhile_is_refused_when_nothing_is_left() {
    let heard = Heard::default();
    let partition = filled(300, &heard).await;
    heard.told.lock().unwrap().clear();
    let (first, second) = (partition.send(StopPartition), partition.send(StopPartition));
    let late = Command::Allocations { allocations: vec![ask("app-00007", "late")], releases: Vec::new() };
    partition.do_send(request(vec![Command::Applications { new: vec![app("late")], remove: Vec::new() }, late]));
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_ok() && second.is_ok(), "both who asked are answered");
    let told = heard.told.lock().unwrap();
    let reasons: Vec<&str> = told
        .iter()
        .filter_map(|callback| match callback {
            Callback::RejectedApplication { reason, .. } | Callback::RejectedAllocation { reason, .. } => {
                Some(&**reason)
            }
            _ => None,
        })
        .collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason.contains("[rm-1]large is stopped")), "{reasons:?}");
    assert!(!partition.connected());
}

/// How many turns others have on the same thread until the first answer to these requests; what is told until their end.
async fn turns_beside(
    partition: &Addr<PartitionActor>,
    heard: &Heard,
    requests: Vec<Vec<Command>>,
    is_end: impl Fn(&[Callback]) -> bool,
) -> (usize, Vec<Callback>) {
    let other = start("[rm-2]small", &Heard::default());
    partition.send(GetSnapshot).await.unwrap();
    heard.told.lock().unwrap().clear();
    let turns = Arc::new(Mutex::new(0));
    let counted = turns.clone();
    let others = actix::spawn(async move {
        loop {
            other.send(GetSnapshot).await.unwrap();
            *counted.lock().unwrap() += 1;
        }
    });
    requests.into_iter().for_each(|commands| partition.do_send(request(commands)));
    let (mut before, mut told) = (0, Vec::new());
    while !is_end(&told) {
        tokio::task::yield_now().await;
        told = heard.told.lock().unwrap().clone();
        if told.is_empty() {
            before = *turns.lock().unwrap();
        }
    }
    others.abort();
    (before, told)
}

#[actix::test]
async fn others_have_their_turn_while_many_applications_enter() {
    const APPS: usize = 2_000;
    let heard = Heard::default();
    let partition = start("[rm-1]large", &heard);
    // What comes behind it waits for all of it, and so does what it is told.
    let id = |n: usize| format!("app-{n:05}");
    let new = (0..APPS).map(|n| app(&id(n))).collect();
    let first = vec![Command::Applications { new, remove: vec![id(0).into()] }];
    let second = vec![Command::Applications { new: vec![app("late")], remove: vec![id(1).into()] }];
    let (turns, told) = turns_beside(&partition, &heard, vec![first, second], |told| told.len() > APPS).await;
    assert!(turns > 10, "{turns} turns");
    let accepted = told.iter().filter_map(|callback| match callback {
        Callback::AcceptedApplication(id) => Some(id.to_string()),
        _ => None,
    });
    assert!(accepted.eq((0..APPS).map(id).chain(["late".to_owned()])));
    let snapshot = partition.send(GetSnapshot).await.unwrap();
    assert!(snapshot.partition.app_by_id.get(&*id(1)).is_none() && snapshot.partition.app_by_id.len() == APPS - 1);
    partition.send(StopPartition).await.unwrap();
}

#[actix::test]
async fn others_have_their_turn_while_many_asks_enter_and_all_have_one_time() {
    const ASKS: usize = 4_000;
    let heard = Heard::default();
    let partition = start("[rm-1]large", &heard);
    partition.do_send(request(vec![Command::Applications { new: vec![app("a"), app("b")], remove: Vec::new() }]));
    let wanted = |n: usize| {
        let spec =
            AskSpec { required_node: Some(format!("n{n}").into()), ..AskSpec::clone(&ask("a", &format!("k{n}")).spec) };
        let app = if n % 1_000 == 7 { "nobody" } else { "a" };
        AllocationItem { app: app.into(), node: None, spec: Arc::new(spec) }
    };
    let allocations = (0..ASKS).map(wanted).collect();
    let gone = ReleaseItem { app: "a".into(), key: "k0".into(), termination: Termination::StoppedByRm };
    let all = vec![Command::Allocations { allocations, releases: vec![gone] }];
    let is_end = |told: &[Callback]| told.iter().any(|callback| matches!(callback, Callback::Released(_)));
    let (turns, told) = turns_beside(&partition, &heard, vec![all], is_end).await;
    assert!(turns > 10, "{turns} turns");
    let rejected = told.iter().filter(|callback| matches!(callback, Callback::RejectedAllocation { .. }));
    assert_eq!(rejected.count(), ASKS / 1_000);
    let snapshot = partition.send(GetSnapshot).await.unwrap();
    let asks = || snapshot.partition.allocs.values();
    assert_eq!(asks().count(), ASKS - ASKS / 1_000 - 1, "the first was withdrawn");
    let first = asks().next().expect("an ask").created;
    assert!(asks().all(|row| row.created == first), "all have one time");
    partition.send(StopPartition).await.unwrap();
}

#[actix::test]
async fn others_have_their_turn_while_many_allocations_come_back_and_are_released() {
    // R1.29, R4.18
    const NUMBER: usize = 8_000;
    let heard = Heard::default();
    let partition = start("[rm-1]large", &heard);
    partition.do_send(request(vec![
        node("n1", NodeAction::Create, 1 << 20),
        Command::Applications { new: vec![app("a")], remove: Vec::new() },
    ]));
    let key = |n: usize| format!("k{n}");
    let is_end = |told: &[Callback]| told.len() >= NUMBER;
    let allocations = (0..NUMBER).map(|n| AllocationItem { node: Some("n1".into()), ..ask("a", &key(n)) }).collect();
    let all = vec![Command::Allocations { allocations, releases: Vec::new() }];
    let (turns, _) = turns_beside(&partition, &heard, vec![all], is_end).await;
    assert!(turns > 10, "{turns} turns while they come back");
    placed(&partition, NUMBER as u64).await;
    let gone = |n| ReleaseItem { app: "a".into(), key: key(n).into(), termination: Termination::StoppedByRm };
    let all = vec![Command::Allocations { allocations: Vec::new(), releases: (0..NUMBER).map(gone).collect() }];
    let (turns, told) = turns_beside(&partition, &heard, vec![all], is_end).await;
    assert!(turns > 10, "{turns} turns while they are released");
    let released = told.into_iter().filter_map(|callback| match callback {
        Callback::Released(release) => Some(release.key.to_string()),
        _ => None,
    });
    assert!(released.eq((0..NUMBER).map(key)), "in their order");
    placed(&partition, 0).await;
    partition.send(StopPartition).await.unwrap();
}
