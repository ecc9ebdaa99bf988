//! The handshake of a replacement, with the real actors on tokio's paused clock: every state of it, and whatever may come
//! in it. Begun: the shim was asked to release the placeholder. Ended: it has, and the replacement was carried out at once;
//! what comes then may come in the same request.

mod between;
mod due;
mod elsewhere;
mod queues;
mod releases;
mod shim;
mod teardown;
mod waits;

use callboard::{
    domain::{
        command::{Command, NodeAction},
        types::Termination::{FailedOnRm, PlaceholderReplaced, Preempted, StoppedByRm, Timeout},
    },
    messages::application::ResendUnconfirmed,
};

use shim::{Shim, ask, daemon, node, release, remove};

/// How far a replacement is.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Begun,
    Ended,
}

/// Brings a replacement into a state, lets the commands come, and compares what the shim is told and has to confirm then.
async fn row(state: State, commands: Vec<Command>, told: &[&str], waiting: &[&str]) {
    if state == State::Ended {
        in_one_request(Shim::in_flight("Soft").await, "new r1 on n1", commands.clone(), told, waiting).await;
    }
    row_of(Shim::in_flight("Soft").await, "new r1 on n1", state, commands, told, waiting).await;
}

/// The same of a replacement that ends with this.
async fn row_of(shim: Shim, end: &str, state: State, commands: Vec<Command>, told: &[&str], waiting: &[&str]) {
    if state == State::Ended {
        shim.send(vec![release("ph1", PlaceholderReplaced)]).await;
        assert_eq!(shim.heard(), [end]);
    }
    shim.send(commands).await;
    shim.answer().await;
    assert_eq!(shim.heard(), told);
    assert_eq!(shim.waiting().await, waiting);
    shim.ends_empty().await;
}

/// The confirmation and what follows it come together.
async fn in_one_request(shim: Shim, end: &str, commands: Vec<Command>, told: &[&str], waiting: &[&str]) {
    let told = [&[end], told].concat();
    let commands = [vec![release("ph1", PlaceholderReplaced)], commands].concat();
    row_of(shim, end, State::Begun, commands, &told, waiting).await;
    // For the next one.
    tokio::time::resume();
}

macro_rules! rows {
    ($($name:ident: $state:ident, [$($command:expr),*] => $told:expr, $waiting:expr;)*) => {
        $(#[actix::test]
        async fn $name() {
            row(State::$state, vec![$($command),*], &$told, &$waiting).await;
        })*
    };
}

const NONE: [&str; 0] = [];

rows! {
    // R6.14: nothing but the release is told; it waits.
    begun: Begun, [] => NONE, ["ph1 PlaceholderReplaced"];
    // R6.15
    begun_then_confirmed: Begun, [release("ph1", PlaceholderReplaced)] => ["new r1 on n1"], NONE;
    // R2.24
    begun_then_the_node_goes: Begun, [node("n1", NodeAction::Decommission, 0)]
        => ["released ph1 StoppedByRm", "released ph2 StoppedByRm"], NONE;
    // R6.9: a drained node keeps what is on it, and takes the replacement.
    begun_then_the_node_is_drained: Begun, [node("n1", NodeAction::Drain, 20)] => NONE, ["ph1 PlaceholderReplaced"];
    begun_drained_then_confirmed: Begun,
        [node("n1", NodeAction::Drain, 20), release("ph1", PlaceholderReplaced)] => ["new r1 on n1"], NONE;
    // R6.26a: the real ask takes the other placeholder.
    begun_then_the_shim_releases_the_placeholder: Begun, [release("ph1", StoppedByRm)]
        => ["released ph1 StoppedByRm", "released ph2 PlaceholderReplaced"], ["ph2 PlaceholderReplaced"];
    begun_then_confirmed_as_another_type: Begun, [release("ph1", Timeout)]
        => ["released ph2 PlaceholderReplaced"], ["ph2 PlaceholderReplaced"];
    // R4.31: a placeholder that is released already is never chosen as a victim; the shim may say so all the same.
    begun_then_preempted: Begun, [release("ph1", Preempted)]
        => ["released ph2 PlaceholderReplaced"], ["ph2 PlaceholderReplaced"];
    // R4.27, SEEDS S31: the release is confirmed, though nothing was allocated.
    begun_then_the_real_ask_is_released: Begun, [release("r1", StoppedByRm)] => ["released r1 StoppedByRm"], NONE;
    begun_then_the_real_ask_fails: Begun, [release("r1", FailedOnRm)] => NONE, ["ph1 PlaceholderReplaced"];
    // The placeholder was told to go: a confirmation that comes all the same takes it away (R6.24).
    begun_then_the_real_ask_is_released_then_confirmed: Begun,
        [release("r1", StoppedByRm), release("ph1", PlaceholderReplaced)] => ["released r1 StoppedByRm"], NONE;
    // R4.11, R4.14
    begun_then_the_real_ask_grows: Begun, [ask("r1", 15, "tg", false)]
        => ["released ph1 Timeout", "released ph2 Timeout"], ["ph1 Timeout", "ph2 Timeout"];
    // R3.43, R3.44
    begun_then_the_application_goes: Begun, [remove()]
        => ["app-1 Completing", "released ph1 StoppedByRm", "released ph2 StoppedByRm"], NONE;
    // R4.23, SEEDS S31
    begun_then_everything_is_released: Begun, [release("", StoppedByRm)]
        => ["released ph1 StoppedByRm", "released ph2 StoppedByRm", "app-1 Completing", "released r1 StoppedByRm"], NONE;
    // R4.31, R7.34: what is released already is no victim, and what is not charged yet cannot be one. Afterwards it is the
    // youngest of them (R7.35).
    begun_then_a_daemon_preempts: Begun, [node("n2", NodeAction::Create, 20), daemon("ds", 10)]
        => ["released ph2 Preempted"], ["ph1 PlaceholderReplaced", "ph2 Preempted"];
    // SEEDS S25
    begun_then_the_node_shrinks_then_confirmed: Begun,
        [node("n1", NodeAction::Update, 10), release("ph1", PlaceholderReplaced)]
        => ["released ph2 PlaceholderReplaced"], ["ph2 PlaceholderReplaced"];
    // R6.16
    begun_then_a_stale_confirmation: Begun, [release("nothing", PlaceholderReplaced)] => NONE, ["ph1 PlaceholderReplaced"];

    ended_then_confirmed_again: Ended, [release("ph1", PlaceholderReplaced)] => NONE, NONE;
    ended_then_the_node_goes: Ended, [node("n1", NodeAction::Decommission, 0)]
        => ["app-1 Completing", "released ph2 StoppedByRm", "released r1 StoppedByRm"], NONE;
    ended_then_the_node_is_drained: Ended, [node("n1", NodeAction::Drain, 20)] => NONE, NONE;
    ended_then_the_node_shrinks: Ended, [node("n1", NodeAction::Update, 10)] => NONE, NONE;
    ended_then_the_shim_releases_the_placeholder: Ended, [release("ph1", StoppedByRm)] => NONE, NONE;
    ended_then_confirmed_as_another_type: Ended, [release("ph1", Timeout)] => NONE, NONE;
    ended_then_a_daemon_preempts: Ended, [node("n2", NodeAction::Create, 20), daemon("ds", 10)] => ["released r1 Preempted"], ["r1 Preempted"];
    ended_then_everything_is_released: Ended, [release("", StoppedByRm)]
        => ["app-1 Completing", "released ph2 StoppedByRm", "released r1 StoppedByRm"], NONE;
    ended_then_a_stale_confirmation: Ended, [release("nothing", PlaceholderReplaced)] => NONE, NONE;
    ended_then_preempted: Ended, [release("ph1", Preempted)] => NONE, NONE;
    // R3.15
    ended_then_the_real_one_is_released: Ended, [release("r1", StoppedByRm)]
        => ["app-1 Completing", "released r1 StoppedByRm"], NONE;
    // R4.28: it waits again, and takes the other placeholder.
    ended_then_the_real_one_fails: Ended, [release("r1", FailedOnRm)]
        => ["released ph2 PlaceholderReplaced"], ["ph2 PlaceholderReplaced"];
    ended_then_the_application_goes: Ended, [remove()]
        => ["app-1 Completing", "released ph2 StoppedByRm", "released r1 StoppedByRm"], NONE;
}

#[actix::test]
async fn begun_then_the_time_is_over() {
    // R6.17: the application runs: only what is not on its way already is released.
    let shim = Shim::in_flight("Soft").await;
    shim.pass(61).await;
    assert_eq!(shim.heard(), ["released ph2 Timeout"]);
    assert_eq!(shim.waiting().await, ["ph1 PlaceholderReplaced", "ph2 Timeout"]);
    shim.send(vec![release("ph1", PlaceholderReplaced), release("ph2", Timeout)]).await;
    // R3.18: it runs already when the last placeholder goes.
    assert_eq!(shim.heard(), ["new r1 on n1"]);
    shim.ends_empty().await;
}

#[actix::test]
async fn ended_then_the_time_is_over() {
    // R6.17
    let shim = Shim::in_flight("Soft").await;
    shim.send(vec![release("ph1", PlaceholderReplaced)]).await;
    shim.heard();
    shim.pass(61).await;
    assert_eq!(shim.heard(), ["released ph2 Timeout"]);
    shim.ends_empty().await;
}

#[actix::test]
async fn a_hard_gang_whose_time_is_over_waits_for_one_confirmation_of_each() {
    // R6.19, R6.22, SEEDS S31: of a placeholder that was asked for twice, the first confirmation counts.
    let shim = Shim::new();
    let app = callboard::domain::command::AddApplication {
        id: "app-1".into(),
        queue: "root.a".into(),
        user: "alice".into(),
        groups: Some(std::sync::Arc::from([])),
        placeholder_ask: Some(shim::res(30)),
        gang_style: "Hard".into(),
        timeout_millis: 60_000,
        ..Default::default()
    };
    shim.send(vec![
        node("n1", NodeAction::Create, 20),
        Command::Applications { new: vec![app], remove: Vec::new() },
        ask("ph1", 10, "tg", true),
        ask("ph2", 10, "tg", true),
        ask("r1", 10, "tg", false),
    ])
    .await;
    shim.heard();
    shim.pass(61).await;
    assert_eq!(shim.heard(), ["released ph1 Timeout", "released ph2 Timeout", "rejected r1", "app-1 Failing"]);
    assert_eq!(shim.waiting().await, ["ph1 Timeout", "ph2 Timeout"]);
    shim.send(vec![release("ph1", PlaceholderReplaced), release("ph2", Timeout)]).await;
    assert_eq!(shim.heard(), ["app-1 Failed"]);
    shim.ends_empty().await;
}

#[actix::test]
async fn a_shim_that_comes_back_is_told_again() {
    // R4.30, the other way round: what is not confirmed is sent once more, and shown with its age.
    let shim = Shim::in_flight("Soft").await;
    shim.pass(5).await;
    shim.carried(3, "ph1");
    shim.partition.do_send(ResendUnconfirmed { after: 3 });
    shim.settle().await;
    assert_eq!(shim.heard(), ["released ph1 PlaceholderReplaced"]);
    let all = shim.unconfirmed().await;
    assert_eq!((all.len(), all[0].sent), (1, 2));
    assert_eq!(all[0].age.as_secs(), 5);
    // What a new stream is about to get in any case is not doubled.
    shim.carried(4, "ph1");
    shim.partition.do_send(ResendUnconfirmed { after: 3 });
    shim.settle().await;
    assert!(shim.heard().is_empty());
    assert_eq!(shim.unconfirmed().await[0].sent, 2);
    // Both may be confirmed: the second has no effect.
    shim.send(vec![release("ph1", PlaceholderReplaced), release("ph1", PlaceholderReplaced)]).await;
    assert_eq!(shim.heard(), ["new r1 on n1"]);
    shim.partition.do_send(ResendUnconfirmed { after: 4 });
    shim.settle().await;
    assert!(shim.heard().is_empty());
    shim.ends_empty().await;
}

#[actix::test]
async fn an_earlier_session_confirms_nothing() {
    // R1.8: a command of another epoch is dropped.
    let mut shim = Shim::in_flight("Soft").await;
    shim.epoch = 2;
    shim.send(vec![release("ph1", PlaceholderReplaced)]).await;
    shim.epoch = 1;
    assert!(shim.heard().is_empty());
    assert_eq!(shim.waiting().await, ["ph1 PlaceholderReplaced"]);
    shim.ends_empty().await;
}

#[actix::test]
async fn a_registration_ends_it() {
    // R1.8: nothing is released to the shim, and nothing of it is heard afterwards.
    let shim = Shim::in_flight("Soft").await;
    shim.partition.send(callboard::messages::partition::StopPartition).await.unwrap();
    shim.settle().await;
    assert!(shim.heard().iter().all(|line| !line.starts_with("released") && !line.starts_with("new")));
    assert!(!shim.partition.connected());
}

#[actix::test]
async fn what_comes_after_a_confirmation_sees_the_replacement() {
    // However fast it follows.
    let shim = Shim::in_flight("Soft").await;
    for command in [release("ph1", PlaceholderReplaced), release("r1", StoppedByRm)] {
        let commands = vec![command];
        shim.partition.do_send(callboard::messages::partition::Commands::of(1, commands));
    }
    shim.settle().await;
    assert_eq!(shim.heard(), ["new r1 on n1", "app-1 Completing", "released r1 StoppedByRm"]);
    shim.ends_empty().await;
}
