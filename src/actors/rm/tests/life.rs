//! API section 3, SEEDS S1 and S2.

use super::*;
use crate::{
    actors::rm::{EXTENSION, handle::RmView, settings::RmSettings},
    domain::{
        alloc::AskSpec,
        command::{AllocationItem, ReleaseItem},
        types::Termination,
    },
    messages::{
        budget::Permit,
        rm::{ClosingKind, Part, RefusalKind, Shutdown, Submit, Unregister},
    },
};

const SECOND: Duration = Duration::from_secs(1);

#[actix::test]
async fn without_a_stream_it_runs_for_the_grace_period_pauses_and_stops() {
    let env = Env::registered(&[("rm.gracePeriod", "10s"), ("rm.pauseTimeout", "1m")]).await;
    env.pass(9 * SECOND).await;
    assert_eq!(env.state().await, RmState::Running);
    assert!(env.may_place());
    env.pass(2 * SECOND).await;
    assert_eq!(env.state().await, RmState::Paused);
    assert!(!env.may_place(), "nothing new is placed while Paused");
    env.pass(58 * SECOND).await;
    assert_eq!(env.state().await, RmState::Paused);
    env.pass(2 * SECOND).await;
    assert_eq!(env.state().await, RmState::Stopped);
    assert_eq!(env.told(), ["[rm-1]default#1 start", "[rm-1]default#1 stop"]);
    assert!(env.topology.directory.get().rms.is_empty(), "Stopped ones are not listed");
    let states: Vec<_> = env.info().await.history.iter().map(|change| change.state).collect();
    assert_eq!(states, [RmState::Running, RmState::Paused, RmState::Stopped]);
    assert_eq!(env.topology.entered(RmState::Paused), 1);
}

#[actix::test]
async fn the_last_stream_lost_pauses_and_one_that_resumes_runs() {
    let env = Env::registered(&[("rm.gracePeriod", "10s")]).await;
    let stream = env.stream(0).await;
    env.pass(11 * SECOND).await;
    assert_eq!(env.state().await, RmState::Running, "a stream is open");
    stream.lose().await;
    assert_eq!(env.state().await, RmState::Paused);
    env.told();
    let mut stream = env.stream(0).await;
    assert_eq!(env.state().await, RmState::Running);
    assert!(env.may_place());
    env.settle().await;
    assert_eq!(env.told(), ["[rm-1]default#1 resend after 0", "[rm-1]default#1 wake"]);
    env.pass(600 * SECOND).await;
    assert_eq!(env.state().await, RmState::Running, "the time in Paused is over");
    assert_eq!(stream.closing(), None);
}

#[actix::test]
async fn a_stream_lost_within_the_grace_period_pauses_at_its_end() {
    let env = Env::registered(&[("rm.gracePeriod", "10s")]).await;
    env.stream(0).await.lose().await;
    assert_eq!(env.state().await, RmState::Running);
    env.pass(11 * SECOND).await;
    assert_eq!(env.state().await, RmState::Paused);
}

#[actix::test]
async fn callbacks_of_a_paused_session_are_buffered_and_requests_accepted() {
    let env = Env::registered(&[("rm.gracePeriod", "1s")]).await;
    env.pass(2 * SECOND).await;
    let gate = env.rm().gate("NodeRequest").expect("accepted while Paused");
    let part = Part { partition: "[rm-1]default".into(), command: Command::Nodes(vec![]) };
    let permit = gate.shared.budget.take(1).expect("room");
    env.rm().submit(&gate, vec![part], vec![], permit).expect("taken");
    env.nodes(2).await;
    assert_eq!(env.info().await.buffered, 2);
    assert_eq!(env.stream(0).await.seqs(), [1]);
}

#[actix::test]
async fn what_waits_for_the_actor_is_not_overtaken_by_what_comes_after_it() {
    let env = Env::registered(&[]).await;
    let before = Arc::new(RmView::clone(&env.rm().view.load()));
    let gate = env.rm().gate("NodeRequest").expect("registered");
    let text = "partitions: [{name: default, queues: [{name: root}]}, {name: gpu, queues: [{name: root}]}]";
    env.reconfigure(text, None).await;
    env.told();
    let submit = |number: u64, partitions: &[&str], rejected: usize| {
        let part = |partition: &&str| Part { partition: (*partition).into(), command: Command::Unanswered(number) };
        let rejected =
            (0..rejected).map(|n| Callback::RejectedNode { node: format!("n{n}").into(), reason: "bad".into() });
        let receipt = gate.shared.receipts.take(number, 1);
        let permit = gate.shared.budget.take(1).expect("room").with(receipt);
        let kept = permit.clone();
        env.rm().submit(&gate, partitions.iter().map(part).collect(), rejected.collect(), permit).expect("taken");
        kept
    };
    // A door that looked before the new configuration held, and one that looks after it.
    let after = env.rm().view.swap(before);
    let first = submit(1, &["[rm-1]default", "[rm-1]gpu"], 1);
    env.rm().view.store(after);
    let second = submit(2, &["[rm-1]gpu"], 0);
    env.settle().await;
    let third = submit(3, &["[rm-1]gpu"], 0);
    env.settle().await;
    let told = env.told();
    let of = |partition: &str| told.iter().filter(|line| line.contains(partition)).cloned().collect::<Vec<_>>();
    assert_eq!(of("gpu"), ["[rm-1]gpu#1 unanswered 1", "[rm-1]gpu#1 unanswered 2", "[rm-1]gpu#1 unanswered 3"]);
    assert_eq!(of("default"), ["[rm-1]default#1 unanswered 1"]);
    // Taken when both partitions and the actor, which answered the rejection, have recorded it.
    assert_eq!([&first, &second, &third].map(Permit::request), [Some((1, 3)), Some((2, 1)), Some((3, 1))]);
}

#[actix::test]
async fn registering_again_drops_everything_of_the_old_session() {
    // R1.8, SEEDS S1
    let env = Env::registered(&[]).await;
    let mut old = env.stream(0).await;
    env.nodes(3).await;
    assert_eq!(old.seqs(), [1]);
    assert_eq!(env.register("rm-1", &[]).await, 2);
    assert_eq!(old.closing().map(|closing| closing.kind), Some(ClosingKind::Replaced));
    assert_eq!(env.told(), ["[rm-1]default#1 start", "[rm-1]default#1 stop", "[rm-1]default#2 start"]);
    // Late words of the old session.
    env.deliver_of(1, vec![node(7)]).await;
    old.handed(1).await;
    let rejected = vec![Callback::RejectedNode { node: "n8".into(), reason: "late".into() }];
    env.rm().addr.send(Submit { epoch: 1, parts: vec![], rejected, permit: None, ahead: None }).await.expect("alive");
    let info = env.info().await;
    assert_eq!((info.epoch, info.last_sequence, info.buffered), (2, 0, 0));
    old.lose().await;
    assert_eq!(env.state().await, RmState::Running);
    env.nodes(1).await;
    assert_eq!(env.stream(0).await.seqs(), [1], "numbers begin again");
}

#[actix::test]
async fn registering_again_works_in_every_state() {
    let env = Env::registered(&[("rm.gracePeriod", "10s")]).await;
    for (n, (wait, state)) in
        [(0, RmState::Running), (11, RmState::Paused), (400, RmState::Stopped)].into_iter().enumerate()
    {
        env.pass(wait * SECOND).await;
        assert_eq!(env.state().await, state);
        assert_eq!(env.register("rm-1", &[]).await, 2 * n as u64 + 2);
        assert_eq!(env.state().await, RmState::Running);
        assert!(env.may_place());
        env.pass(29 * SECOND).await;
        assert_eq!(env.state().await, RmState::Running, "no timer of the old session fires");
        env.register("rm-1", &[("rm.gracePeriod", "10s")]).await;
    }
}

#[actix::test]
async fn voluntary_shutdown_is_idempotent() {
    let env = Env::registered(&[]).await;
    let mut stream = env.stream(0).await;
    for _ in 0..2 {
        env.rm().addr.send(Unregister::default()).await.expect("alive").expect("done");
        assert_eq!(env.state().await, RmState::Stopped);
    }
    assert_eq!(stream.closing().map(|closing| closing.kind), Some(ClosingKind::Stopped));
    assert_eq!(env.told(), ["[rm-1]default#1 start", "[rm-1]default#1 stop"]);
    let refused = env.rm().gate("NodeRequest").expect_err("Stopped");
    assert_eq!(refused.kind, RefusalKind::State);
    let refused = env.open(Want::All { after: None, predicates: None }).await.map(|_| ()).expect_err("Stopped");
    assert_eq!(refused.kind, RefusalKind::State);
    assert_eq!(env.info().await.history.len(), 2, "stopped once");
}

#[actix::test]
async fn a_buffer_that_overflows_stops_the_session() {
    let env = Env::registered(&[("rm.bufferedCallbacks", "10")]).await;
    env.nodes(10).await;
    assert_eq!(env.state().await, RmState::Running);
    env.nodes(1).await;
    assert_eq!(env.state().await, RmState::Stopped);
    let why = env.info().await.history.last().map(|change| change.why.to_string());
    assert!(why.is_some_and(|why| why.starts_with("more than 10 callbacks")), "the reason is told");
}

#[actix::test]
async fn requests_that_bring_callbacks_wait_until_the_shim_has_read() {
    // R1.23
    let env = Env::registered(&[("rm.bufferedCallbacks", "100")]).await;
    let stream = env.stream(0).await;
    let part = |allocations: usize, releases: usize| {
        let spec = |n: usize| Arc::new(AskSpec { key: format!("k{n}").into(), ..AskSpec::default() });
        let placed = |n| AllocationItem { app: "a".into(), node: Some("n".into()), spec: spec(n) };
        let release = |n: usize| ReleaseItem {
            app: "a".into(),
            key: format!("k{n}").into(),
            termination: Termination::StoppedByRm,
        };
        let allocations = (0..allocations).map(placed).collect();
        let command = Command::Allocations { allocations, releases: (0..releases).map(release).collect() };
        [Part { partition: "[rm-1]default".into(), command }]
    };
    env.nodes(70).await;
    env.nodes(1).await;
    assert_eq!(env.rm().has_room(&part(3, 0)), Ok(()));
    let refused = env.rm().has_room(&part(5, 0)).expect_err("a quarter is kept for what cannot wait");
    assert!(refused.kind == RefusalKind::Busy && refused.detail.contains("\"rm-1\" has not read"), "{refused:?}");
    assert_eq!(env.rm().has_room(&part(0, 50)), Ok(()), "releases go on");
    let wait = || {
        let (rm, parts) = (env.rm(), part(5, 0));
        actix::spawn(async move { rm.room(&parts).await })
    };
    let waiting = wait();
    env.pass(30 * SECOND).await;
    assert!(!waiting.is_finished());
    stream.handed(1).await;
    env.pass(SECOND).await;
    assert!(waiting.is_finished(), "there is room again");
    env.nodes(80).await;
    let waiting = wait();
    env.pass(61 * SECOND).await;
    assert!(waiting.is_finished(), "a shim may write before it reads");
}

#[actix::test]
async fn partitions_have_the_clock_of_their_resource_manager() {
    // Time passes here and the wall does not: to whoever asks that, it was set back meanwhile.
    let env = Env::registered(&[]).await;
    let first = env.clock.lock().expect("no panic").now();
    env.pass(3_600 * SECOND).await;
    env.register("rm-1", &[]).await;
    let second = env.clock.lock().expect("no panic").now();
    assert!(second.minus(first) >= Nanos::from_secs(3_600), "{first:?} {second:?}");
}

#[actix::test]
async fn bounds_that_are_lowered_hold_from_the_next_registration() {
    let env = Env::registered(&[]).await;
    env.nodes(11).await;
    let extra = map(&[("rm.bufferedCallbacks", "10"), ("rm.gracePeriod", "1s"), ("rm.pauseTimeout", "7m")]);
    let settings = RmSettings::read(&extra).expect("valid");
    let text = "partitions: [{name: default, queues: [{name: root}]}, {name: gpu, queues: [{name: root}]}]";
    env.reconfigure(text, Some((Arc::new(extra), settings))).await;
    env.nodes(11).await;
    assert_eq!(env.state().await, RmState::Running);
    let listing = env.topology.directory.get();
    let fixed = &listing.rms[0].at_registration;
    let of = |key: &str| fixed.get(key).map(String::as_str);
    assert_eq!(of("rm.bufferedCallbacks"), Some("1000000"));
    assert_eq!((of("rm.gracePeriod"), of("rm.pauseTimeout")), (Some("30s"), None));
    env.register("rm-1", &[("rm.bufferedCallbacks", "10")]).await;
    env.nodes(11).await;
    assert_eq!(env.state().await, RmState::Stopped);
}

#[actix::test]
async fn items_of_unknown_partitions_are_rejected_by_the_session() {
    // R2.2
    let env = Env::registered(&[]).await;
    let gate = env.rm().gate("NodeRequest").expect("Running");
    let names = ["default", "nope"].map(|name| format!("[rm-1]{name}"));
    let part = |name: &String| {
        let node = crate::domain::command::NodeItem {
            id: "n1".into(),
            action: crate::domain::command::NodeAction::Create,
            capacity: None,
            attributes: Default::default(),
        };
        Part { partition: name.as_str().into(), command: Command::Nodes(vec![node]) }
    };
    let permit = gate.shared.budget.take(2).expect("room");
    env.rm().submit(&gate, names.iter().map(part).collect(), vec![], permit).expect("taken");
    env.settle().await;
    assert_eq!(env.told(), ["[rm-1]default#1 start", "[rm-1]default#1 nodes 1"]);
    let lines = env.stream(0).await.lines();
    assert!(format!("{:?}", lines[0].payload).contains("failed to find partition [rm-1]nope for new node n1"));
}

#[actix::test]
async fn the_servers_end_closes_streams_and_takes_nothing_more() {
    let env = Env::registered(&[]).await;
    let mut stream = env.stream(0).await;
    env.topology.close();
    env.rm().addr.send(Shutdown).await.expect("alive");
    assert_eq!(stream.closing().map(|closing| closing.kind.status()), Some(503));
    let refused = env.try_register(with(Predicates::Off)).await.expect_err("closing");
    assert!(matches!(refused, Refusals::Other(refusal) if refusal.kind == RefusalKind::Closing));
    let refused = env.open(Want::Plain(crate::messages::rm::Kind::Node)).await.map(|_| ()).expect_err("closing");
    assert_eq!(refused.kind, RefusalKind::Closing);
}

#[actix::test]
async fn one_that_only_waited_is_forgotten() {
    let env = Env::new();
    let waits = env.open(Want::Next { predicates: Predicates::Single }).await.expect("accepted");
    assert_eq!(env.state().await, RmState::Init);
    assert_eq!(env.rm().gate("NodeRequest").expect_err("init").kind, RefusalKind::Unknown);
    waits.lose().await;
    assert!(env.topology.find("rm-1").is_none());
    assert_eq!(env.register("rm-1", &[]).await, 1, "and may come again");
}

#[actix::test]
async fn one_that_is_being_forgotten_may_come_again_at_once() {
    let env = Env::new();
    drop(env.open(Want::Next { predicates: Predicates::Single }).await.expect("accepted"));
    // That it was closed is still in the mailbox of the actor, which ends with it.
    let (to, mut messages) = unbounded_channel();
    let opened = env.topology.wait_for_registration("rm-1", EXTENSION, Predicates::Batch, to).await;
    let _stream = opened.expect("a new actor waits");
    assert_eq!(env.register("rm-1", &[]).await, 1);
    assert!(matches!(messages.recv().await, Some(ToStream::Begin { epoch: 1 })));
}

#[actix::test]
async fn an_open_stream_vouches_for_all_nodes_and_a_heartbeat_for_some() {
    let env = Env::registered(&[("rm.gracePeriod", "10s")]).await;
    env.pass(5 * SECOND).await;
    assert!(env.vouched().is_empty(), "no stream is open");
    let stream = env.stream(0).await;
    let other = env.open(Want::Plain(crate::messages::rm::Kind::Node)).await.expect("opened");
    env.pass(5 * SECOND).await;
    assert_eq!(env.vouched(), ["[rm-1]default#1 vouched true"], "once, for as long as it is open");
    other.lose().await;
    stream.lose().await;
    env.pass(5 * SECOND).await;
    assert_eq!(env.vouched(), ["[rm-1]default#1 vouched false"]);
    let stream = env.stream(0).await;
    env.settle().await;
    assert_eq!(env.vouched(), ["[rm-1]default#1 vouched true"]);
    let gate = env.rm().gate("Heartbeat").expect("accepted");
    let nodes: Arc<[Arc<str>]> = ["n1".into(), "n2".into()].into();
    let permit = |count| gate.shared.budget.take(count).expect("credits");
    env.rm().heartbeat(&gate, [].into(), permit(1)).await.expect("taken");
    env.settle().await;
    let told = env.split_log();
    assert!(told.0.is_empty() && told.1.is_empty(), "of no node: {told:?}");
    env.rm().heartbeat(&gate, ["unknown".into()].into(), permit(1)).await.expect("taken");
    env.settle().await;
    let told = env.split_log();
    assert_eq!(told.0, ["[rm-1]default#1 alive unknown"]);
    assert!(told.1.is_empty(), "of no node that there is: {told:?}");
    for _ in 0..2 {
        env.rm().heartbeat(&gate, nodes.clone(), permit(2)).await.expect("taken");
    }
    env.settle().await;
    let told = env.split_log();
    assert_eq!(told.0, ["[rm-1]default#1 alive n1,n2", "[rm-1]default#1 alive n1,n2"]);
    assert_eq!(told.1, ["[rm-1]default#1 vouched by heartbeats"], "SEEDS S37");
    stream.lose().await;
    let _stream = env.stream(0).await;
    env.settle().await;
    assert!(env.vouched().is_empty(), "whatever streams are opened");
    env.register("rm-1", &[]).await;
    let permit = gate.shared.budget.take(2).expect("credits");
    let refusal = env.rm().heartbeat(&gate, nodes, permit).await.expect_err("of an old session");
    assert!(refusal.detail.contains("was registered again"), "{}", refusal.detail);
}
