//! API section 1, "Stream", and section 2.

use super::*;
use crate::{
    domain::{
        alloc::AskSpec,
        effect::{NewAllocation, Released},
        event::{Change, Detail, Event, EventKind},
        types::Termination,
    },
    messages::rm::{ClosingKind, DeliverEvents, Kind, RefusalKind},
};

fn event() -> Event {
    Event {
        kind: EventKind::Node,
        object: "n".into(),
        reference: "".into(),
        change: Change::None,
        detail: Detail::None,
        message: "".into(),
        resource: None,
        at: Default::default(),
        partition: Arc::default(),
    }
}

#[actix::test]
async fn numbers_begin_at_one_and_a_stream_resumes_after_the_one_it_names() {
    let env = Env::registered(&[]).await;
    env.deliver(vec![node(1), app("a"), node(2)]).await;
    let mut stream = env.stream(0).await;
    assert_eq!(stream.seqs(), [1, 2, 3]);
    env.nodes(1).await;
    assert_eq!(stream.seqs(), [4]);
    assert_eq!(env.stream(3).await.seqs(), [4]);
    assert_eq!(env.stream(4).await.seqs(), [0u64; 0]);
    let beyond = env.open(Want::All { after: Some(5), predicates: None }).await.map(|_| ()).expect_err("beyond");
    assert_eq!(beyond.kind, RefusalKind::Invalid);
    assert!(beyond.detail.contains('4'), "{beyond:?}");
    assert_eq!(env.open(Want::All { after: None, predicates: None }).await.expect("opened").seqs(), [1, 2, 3, 4]);
}

#[actix::test]
async fn what_was_dropped_cannot_be_resumed() {
    let env = Env::registered(&[("rm.bufferedCallbacks", "10")]).await;
    let mut stream = env.stream(0).await;
    for seq in 1..=4 {
        env.nodes(4).await;
        stream.handed(seq).await;
    }
    assert_eq!(stream.seqs(), [1, 2, 3, 4]);
    assert_eq!(env.info().await.buffered, 8);
    let gone = env.open(Want::All { after: Some(1), predicates: None }).await.map(|_| ()).expect_err("dropped");
    assert_eq!(gone.kind, RefusalKind::Gone);
    assert_eq!(env.stream(2).await.seqs(), [3, 4]);
    assert_eq!(env.open(Want::All { after: None, predicates: None }).await.expect("opened").seqs(), [3, 4]);
}

#[actix::test]
async fn a_second_stream_replaces_the_first() {
    let env = Env::registered(&[]).await;
    let mut first = env.stream(0).await;
    let mut second = env.stream(0).await;
    let closing = first.closing().expect("replaced");
    assert_eq!((closing.kind, closing.kind.status()), (ClosingKind::Replaced, 409));
    env.nodes(1).await;
    first.lose().await;
    assert_eq!(second.seqs(), [1]);
    assert_eq!(env.info().await.streams.len(), 1);
}

/// Opens one after the other and reads none.
async fn is_refused_without_readers(want: Want) {
    let env = Env::registered(&[]).await;
    let mut silent = Vec::new();
    let refused = loop {
        match env.open(want).await {
            Ok(stream) => silent.push(stream),
            Err(refused) => break refused,
        }
        assert!(silent.len() < 100, "each keeps what was on its way to it");
    };
    assert_eq!(refused.kind, RefusalKind::Closing);
    assert_eq!(env.info().await.streams.len(), 1, "the last one goes on");
    drop(silent);
    env.settle().await;
    env.nodes(1).await;
    assert_eq!(env.stream(0).await.seqs(), [1]);
}

#[actix::test]
async fn streams_that_nobody_reads_to_their_end_are_not_replaced_without_end() {
    is_refused_without_readers(Want::All { after: Some(0), predicates: None }).await;
}

#[actix::test]
async fn nor_are_those_of_one_kind() {
    is_refused_without_readers(Want::Plain(Kind::Node)).await;
}

#[actix::test]
async fn a_slow_reader_stops_placements_and_one_that_catches_up_wakes_them() {
    let env = Env::registered(&[("rm.undeliveredCallbacks", "3")]).await;
    let stream = env.stream(0).await;
    env.nodes(2).await;
    assert!(env.may_place());
    env.nodes(1).await;
    assert!(!env.may_place());
    env.told();
    stream.handed(1).await;
    env.settle().await;
    assert!(env.may_place());
    assert_eq!(env.told(), ["[rm-1]default#1 wake"]);
    assert_eq!(env.info().await.delivered_sequence, 1);
}

#[actix::test]
async fn placements_stop_before_what_is_unread_takes_all_bytes_of_the_buffer() {
    // R1.25
    let env = Env::registered(&[("rm.bufferedBytes", "1Mi")]).await;
    let stream = env.stream(0).await;
    let tags = [("note".to_owned(), "x".repeat(3_500))].into();
    let spec = Arc::new(AskSpec { key: "k".into(), tags, ..AskSpec::default() });
    let new = NewAllocation { spec, app: "a".into(), node: "n".into(), resource: Arc::default() };
    let mut made = 0;
    while env.may_place() && made < 1_000 {
        env.deliver(vec![Outgoing::Callback(Callback::New(Box::new(new.clone())))]).await;
        made += 1;
    }
    assert!((100..200).contains(&made), "{made}, as half of the buffer has room for");
    assert_eq!(env.state().await, RmState::Running);
    env.told();
    stream.handed(1).await;
    env.settle().await;
    assert_eq!(env.told(), [""; 0], "not for each line");
    stream.handed(100).await;
    env.settle().await;
    assert_eq!((env.may_place(), env.told()), (true, vec!["[rm-1]default#1 wake".to_owned()]));
}

#[actix::test]
async fn no_session_ends_for_events_that_nobody_reads() {
    let env = Env::registered(&[("rm.bufferedCallbacks", "1000")]).await;
    for _ in 0..10 {
        let events = (0..300).map(|_| event()).collect();
        env.rm().addr.send(DeliverEvents { epoch: 1, events }).await.expect("alive");
    }
    let buffered = env.info().await.buffered;
    assert!((300..=500).contains(&buffered), "{buffered}, no more than half");
    env.nodes(500).await;
    assert_eq!((env.state().await, env.info().await.buffered), (RmState::Running, buffered + 500));
}

#[actix::test]
async fn a_reader_that_keeps_up_costs_no_message() {
    let env = Env::registered(&[("rm.undeliveredCallbacks", "1000")]).await;
    let stream = env.stream(0).await;
    for seq in 1..=600 {
        env.nodes(1).await;
        assert!(!stream.progress.hand(seq), "nobody waits for it");
    }
    assert_eq!(env.info().await.delivered_sequence, 600, "known all the same");
    // More than half of what may be: whoever waits for credits is told before they are spent.
    for _ in 0..500 {
        env.nodes(1).await;
    }
    let told = (601..=1_100).filter(|seq| stream.progress.hand(*seq)).count();
    assert_eq!(told, 1, "once, not line by line");
}

#[actix::test]
async fn what_is_not_read_is_named_when_it_holds_up_placements() {
    let env = Env::registered(&[("rm.undeliveredCallbacks", "3")]).await;
    let _nodes = env.open(Want::Plain(Kind::Node)).await.expect("opened");
    env.deliver(vec![node(1), app("a")]).await;
    assert_eq!(env.info().await.unread, None, "there are credits left");
    env.deliver(vec![node(2)]).await;
    let unread = "1 line of kind application (no stream of it is open), 2 lines of kind node (its stream is open)";
    assert_eq!(env.info().await.unread.as_deref(), Some(unread));
    env.open(Want::Plain(Kind::Application)).await.expect("opened").handed(2).await;
    assert_eq!(env.info().await.unread, None);
}

#[actix::test]
async fn a_stream_gets_no_more_than_it_can_carry_at_once() {
    let env = Env::registered(&[]).await;
    let mut stream = env.stream(0).await;
    env.nodes(20_000).await;
    env.settle().await;
    let first = stream.seqs();
    assert_eq!(first.len(), 16_384 / 256, "lines of 256 entries");
    assert!(stream.seqs().is_empty());
    stream.handed(first.len() as u64).await;
    env.settle().await;
    assert_eq!(stream.seqs().len(), (20_000 - 16_384usize).div_ceil(256));
}

#[actix::test]
async fn a_stream_that_nobody_reads_keeps_only_so_many_bytes() {
    let env = Env::registered(&[]).await;
    let mut stream = env.stream(0).await;
    let tags = [("note".to_owned(), "x".repeat(1 << 20))].into();
    let spec = Arc::new(AskSpec { key: "k".into(), tags, ..AskSpec::default() });
    let new = NewAllocation { spec, app: "a".into(), node: "n".into(), resource: Arc::default() };
    for _ in 0..40 {
        env.deliver(vec![Outgoing::Callback(Callback::New(Box::new(new.clone())))]).await;
    }
    env.settle().await;
    assert_eq!(stream.seqs(), (1..=16).collect::<Vec<_>>(), "lines of a MiB and a little");
    stream.handed(16).await;
    env.settle().await;
    assert_eq!(stream.seqs(), (17..=32).collect::<Vec<_>>());
}

#[actix::test]
async fn each_kind_waits_for_its_plain_stream_and_comes_once() {
    let env = Env::registered(&[]).await;
    env.deliver(vec![node(1), app("a"), node(2)]).await;
    let mut nodes = env.open(Want::Plain(Kind::Node)).await.expect("opened");
    assert_eq!(nodes.seqs(), [1, 3]);
    nodes.handed(3).await;
    nodes.lose().await;
    assert_eq!(env.state().await, RmState::Running, "within the grace period");
    env.nodes(1).await;
    let mut nodes = env.open(Want::Plain(Kind::Node)).await.expect("opened");
    assert_eq!(nodes.seqs(), [4], "what was handed over does not come again");
    let mut apps = env.open(Want::Plain(Kind::Application)).await.expect("opened");
    assert_eq!(apps.seqs(), [2]);
    assert_eq!(env.info().await.streams.len(), 2);
}

#[actix::test]
async fn what_has_no_plain_stream_is_not_kept_for_one() {
    let env = Env::registered(&[]).await;
    let events = |n: usize| DeliverEvents { epoch: 1, events: (0..n).map(|_| event()).collect() };
    env.rm().addr.send(events(300)).await.expect("alive");
    assert_eq!(env.info().await.last_sequence, 2, "256 and 44");
    let _nodes = env.open(Want::Plain(Kind::Node)).await.expect("opened");
    assert_eq!(env.info().await.delivered_sequence, 2);
    env.rm().addr.send(events(1)).await.expect("alive");
    assert_eq!(env.info().await.last_sequence, 2);
    let mut all = env.stream(2).await;
    env.rm().addr.send(events(1)).await.expect("alive");
    assert_eq!(all.seqs(), [3], "a stream that carries everything gets them");
}

#[actix::test]
async fn a_stream_of_everything_goes_before_plain_ones_and_gives_way_when_it_closes() {
    let env = Env::registered(&[]).await;
    let mut nodes = env.open(Want::Plain(Kind::Node)).await.expect("opened");
    let mut all = env.stream(0).await;
    env.nodes(1).await;
    assert_eq!((all.seqs(), nodes.seqs()), (vec![1], vec![]));
    all.handed(1).await;
    all.lose().await;
    env.nodes(1).await;
    assert_eq!(nodes.seqs(), [2]);
}

#[actix::test]
async fn unconfirmed_releases_are_sent_again_when_the_plain_stream_comes_back() {
    let env = Env::registered(&[]).await;
    env.told();
    let first = env.open(Want::Plain(Kind::Allocation)).await.expect("opened");
    first.lose().await;
    env.settle().await;
    assert_eq!(env.told(), [""; 0]);
    let _second = env.open(Want::Plain(Kind::Allocation)).await.expect("opened");
    env.settle().await;
    assert_eq!(env.told(), ["[rm-1]default#1 resend after 0"]);
}

fn release(key: &str, confirm: bool) -> Outgoing {
    let (key, app) = (key.into(), "app-1".into());
    let release = Released { key, app, termination: Termination::Timeout, message: "".into(), confirm };
    Outgoing::Callback(Callback::Released(Box::new(release)))
}

#[actix::test]
async fn how_far_the_shim_has_the_releases_is_known() {
    // Nobody sends a release again that is still on its way.
    let env = Env::registered(&[]).await;
    let until = || env.budget.lock().expect("no panic").as_ref().expect("registered").handed();
    for want in [Want::All { after: Some(0), predicates: None }, Want::Plain(Kind::Allocation)] {
        let stream = env.open(want).await.expect("opened");
        env.pass(Duration::from_secs(1)).await;
        assert_eq!(until(), env.info().await.last_sequence, "nothing is on its way");
        env.deliver(vec![release("k1", true)]).await;
        env.nodes(1).await;
        let line = env.info().await.last_sequence - 1;
        env.pass(Duration::from_secs(30)).await;
        assert!(until() < line, "the stream has not handed it over");
        // Others that follow change nothing of that.
        env.deliver(vec![release("k2", true)]).await;
        env.pass(Duration::from_secs(1)).await;
        assert!(until() < line);
        stream.handed(line).await;
        env.pass(Duration::from_secs(1)).await;
        assert!((line..line + 2).contains(&until()), "the first is there, the second is not");
        stream.handed(line + 2).await;
        env.pass(Duration::from_secs(1)).await;
        assert_eq!(until(), line + 2);
    }
}

#[actix::test]
async fn partitions_learn_how_long_the_shim_may_take() {
    let env = Env::registered(&[("rm.resendAfter", "3s")]).await;
    env.told();
    let update = async |extra: &[(&str, &str)]| {
        env.topology.configure("rm-1", None, "", String::new(), map(extra), Sender::default()).await.expect("accepted");
        env.settle().await;
        env.told()
    };
    let both = [("rm.resendAfter", "5s"), ("rm.unconfirmedWarning", "1m")];
    assert_eq!(update(&both).await, ["[rm-1]default#1 patience 5s 60s"]);
    assert_eq!(update(&[]).await, [""; 0], "as it was by default");
}

#[actix::test]
async fn a_stream_of_everything_that_comes_back_gets_them_again_but_for_what_it_is_about_to_get() {
    let env = Env::registered(&[]).await;
    let first = env.stream(0).await;
    env.told();
    env.deliver(vec![release("k1", true)]).await;
    env.deliver(vec![release("k2", true), release("k3", false)]).await;
    env.deliver(vec![release("k4", false)]).await;
    env.settle().await;
    let carries = ["line 1 carries 1", "line 2 carries 2"].map(|told| format!("[rm-1]default#1 {told}"));
    assert_eq!(env.told(), carries, "the conversations know where each of them is");
    first.lose().await;
    let _second = env.stream(1).await;
    env.settle().await;
    assert_eq!(env.told(), ["[rm-1]default#1 resend after 1"]);
}

#[actix::test]
async fn plain_streams_get_again_what_they_have_had() {
    let env = Env::registered(&[]).await;
    let first = env.open(Want::Plain(Kind::Allocation)).await.expect("opened");
    for key in ["k1", "k2"] {
        env.deliver(vec![release(key, true), node(1)]).await;
    }
    first.handed(1).await;
    first.lose().await;
    env.settle().await;
    env.told();
    let mut second = env.open(Want::Plain(Kind::Allocation)).await.expect("opened");
    env.settle().await;
    assert_eq!((second.seqs(), env.told()), (vec![3], vec!["[rm-1]default#1 resend after 2".to_owned()]));
}

#[actix::test]
async fn to_open_a_stream_costs_the_same_however_many_lines_are_kept() {
    let env = Env::registered(&[]).await;
    env.stream(0).await.lose().await;
    let looks = async |more: usize| {
        env.deliver((0..more).flat_map(|n| [release(&format!("k{n}"), true), node(n)]).collect()).await;
        let before = env.rm().addr.send(Looks).await.expect("alive");
        env.stream(0).await.lose().await;
        env.rm().addr.send(Looks).await.expect("alive") - before
    };
    let (few, many) = (looks(2_000).await, looks(38_000).await);
    assert!(many <= few + few / 10, "{few} looks with 4,000 lines, {many} with 80,000");
}

#[actix::test]
async fn what_a_stream_has_to_send_is_read_in_steps() {
    let env = Env::registered(&[]).await;
    env.deliver((0..20_000).flat_map(|n| [app(&format!("a{n}")), node(n)]).collect()).await;
    let mut stream = env.stream(0).await;
    let first = stream.seqs().len();
    assert!(first < 4_096, "{first} at once, while others wait");
    env.settle().await;
    let rest = stream.seqs();
    assert_eq!((first + rest.len(), rest.last()), (16_384, Some(&16_384)), "in the turns that follow");
}

#[actix::test]
async fn a_waiting_stream_gets_the_next_session_from_its_first_line() {
    let env = Env::registered(&[]).await;
    let mut old = env.stream(0).await;
    let mut next = env.open_as("grpc-extension", Want::Next { predicates: Predicates::Batch }).await.expect("waits");
    env.nodes(1).await;
    assert_eq!(old.seqs(), [1], "the running session goes on");
    assert!(next.lines().is_empty());
    env.register("rm-1", &[]).await;
    assert!(matches!(next.messages.try_recv(), Ok(ToStream::Begin { epoch: 2 })));
    env.nodes(1).await;
    assert_eq!(next.seqs(), [1]);
    assert_eq!(env.info().await.predicates, Predicates::Batch);
    assert!(old.closing().is_some());
}

#[actix::test]
async fn a_stream_whose_door_went_before_it_was_open_is_closed() {
    let env = Env::registered(&[("rm.gracePeriod", "1s")]).await;
    let (to, messages) = unbounded_channel();
    let want = Want::All { after: Some(0), predicates: None };
    drop(env.rm().addr.send(Attach { door: "grpc", want, to, progress: Arc::default() }));
    drop(messages);
    env.settle().await;
    assert!(env.info().await.streams.is_empty());
    env.pass(Duration::from_secs(2)).await;
    assert_eq!(env.state().await, RmState::Paused);
}
