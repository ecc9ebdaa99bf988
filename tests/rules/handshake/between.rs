//! What may come with a confirmation, or before it, by time, by preemption of others, and by a new registration.

use callboard::{
    domain::{
        command::{Command, NodeAction},
        types::Termination::{PlaceholderReplaced, Preempted, Timeout},
    },
    messages::partition::{Commands, StopPartition},
};

use super::shim::{Shim, ask, node, preemptor, release};

/// Confirms ph1, and the time is over in the same request.
async fn confirmed_then_the_time_is_over(announced: i64, style: &str) -> (Shim, Vec<String>) {
    let shim = Shim::of_announced(announced, style).await;
    shim.send_after(61, vec![release("ph1", PlaceholderReplaced), Command::Tick]).await;
    let heard = shim.heard();
    (shim, heard)
}

/// R6.17: what is confirmed has come; the placeholder that is left goes.
async fn running_gang(style: &str) {
    let (shim, heard) = confirmed_then_the_time_is_over(20, style).await;
    assert_eq!(heard, ["new r1 on n1", "released ph2 Timeout"]);
    assert_eq!(shim.waiting().await, ["ph2 Timeout"]);
    shim.send(vec![release("ph2", Timeout)]).await;
    assert_eq!(shim.heard(), [""; 0], "R3.16: something runs");
    shim.ends_empty().await;
}

#[actix::test]
async fn the_time_of_a_running_gang_is_over() {
    running_gang("Soft").await;
}

#[actix::test]
async fn the_time_of_a_running_hard_gang_is_over() {
    running_gang("Hard").await;
}

#[actix::test]
async fn the_time_of_a_soft_gang_is_over() {
    // R6.17, seed 003, 236-241: nothing of it waits and a part of it runs, though it announced more.
    let (shim, heard) = confirmed_then_the_time_is_over(30, "Soft").await;
    assert_eq!(heard, ["new r1 on n1", "released ph2 Timeout", "app-1 Running"]);
    shim.send(vec![release("ph2", Timeout)]).await;
    assert_eq!(shim.heard(), [""; 0]);
    shim.ends_empty().await;
}

#[actix::test]
async fn the_time_of_a_hard_gang_is_over() {
    // R6.19, R6.22: a placeholder waits, so everything goes, also what has taken a placeholder's place.
    let shim = Shim::of_announced(30, "Hard").await;
    shim.send(vec![ask("ph3", 15, "tg", true)]).await;
    shim.send_after(61, vec![release("ph1", PlaceholderReplaced), Command::Tick]).await;
    let told = ["new r1 on n1", "released ph2 Timeout", "released r1 Timeout", "released ph3 Timeout", "app-1 Failing"];
    assert_eq!(shim.heard(), told);
    shim.send(vec![release("ph2", Timeout), release("r1", Timeout)]).await;
    assert_eq!(shim.heard(), ["app-1 Failed"]);
    shim.ends_empty().await;
}

#[actix::test]
async fn the_time_of_a_soft_gang_is_over_before_the_confirmation() {
    // R6.19a, R3.11: the replacement goes on, and it runs when the last placeholder went.
    let shim = Shim::of_announced(30, "Soft").await;
    shim.pass(61).await;
    assert_eq!(shim.heard(), ["released ph2 Timeout", "app-1 Resuming"]);
    shim.send(vec![release("ph1", PlaceholderReplaced), release("ph2", Timeout)]).await;
    assert_eq!(shim.heard(), ["new r1 on n1", "app-1 Accepted", "app-1 Running"]);
    shim.ends_empty().await;
}

#[actix::test]
async fn the_time_of_a_hard_gang_is_over_before_the_confirmation() {
    // R6.19a: the first confirmation counts.
    let shim = Shim::of_announced(30, "Hard").await;
    shim.pass(61).await;
    assert_eq!(shim.heard(), ["released ph1 Timeout", "released ph2 Timeout", "rejected r1", "app-1 Failing"]);
    shim.send(vec![release("ph1", PlaceholderReplaced), release("ph2", Timeout)]).await;
    assert_eq!(shim.heard(), ["app-1 Failed"]);
    shim.ends_empty().await;
}

#[actix::test]
async fn the_time_is_over_where_the_real_ask_goes_elsewhere() {
    let shim = Shim::elsewhere().await;
    shim.send_after(61, vec![release("ph1", PlaceholderReplaced), Command::Tick]).await;
    assert_eq!(shim.heard(), ["new r1 on n2", "released ph2 Timeout"]);
    shim.ends_empty().await;
}

#[actix::test]
async fn the_time_is_over_before_the_confirmation_where_the_real_ask_goes_elsewhere() {
    let shim = Shim::elsewhere().await;
    shim.pass(61).await;
    assert_eq!(shim.heard(), ["released ph2 Timeout"]);
    shim.send(vec![release("ph1", PlaceholderReplaced)]).await;
    assert_eq!(shim.heard(), ["new r1 on n2"]);
    shim.ends_empty().await;
}

#[actix::test]
async fn another_queue_wants_its_guarantee_before_the_confirmation() {
    // R7.10, R4.31: of two placeholders the one in flight is no victim.
    let shim = Shim::in_flight("Soft").await;
    shim.send(preemptor(10)).await;
    assert_eq!(shim.heard(), ["app-2 Accepted", "released ph2 Preempted"]);
    shim.send(vec![release("ph1", PlaceholderReplaced), release("ph2", Preempted)]).await;
    assert_eq!(shim.heard(), ["new r1 on n1", "app-2 Running", "new k1 on n1"]);
    assert_eq!(shim.waiting().await, [""; 0]);
    shim.ends_empty().await;
}

#[actix::test]
async fn another_queue_wants_its_guarantee_in_the_request_that_confirms() {
    // R7.18: what took a placeholder's place is the youngest, and goes as any other.
    let shim = Shim::in_flight("Soft").await;
    shim.send([vec![release("ph1", PlaceholderReplaced)], preemptor(10)].concat()).await;
    assert_eq!(shim.heard(), ["new r1 on n1", "app-2 Accepted", "released r1 Preempted"]);
    shim.send(vec![release("r1", Preempted)]).await;
    assert_eq!(shim.heard(), ["app-1 Completing", "app-2 Running", "new k1 on n1"]);
    assert_eq!(shim.waiting().await, [""; 0]);
    shim.ends_empty().await;
}

#[actix::test]
async fn a_placeholder_that_is_preempted_is_not_replaced() {
    // R6.25: the real ask that comes afterwards takes no victim's place.
    let shim = Shim::in_flight("Soft").await;
    shim.send(preemptor(10)).await;
    shim.heard();
    shim.send(vec![super::ask("r2", 10, "tg", false)]).await;
    assert_eq!(shim.heard(), [""; 0]);
    shim.send(vec![release("ph2", Preempted)]).await;
    assert_eq!(shim.heard(), ["app-2 Running", "new k1 on n1"]);
    shim.send(vec![node("n2", NodeAction::Create, 20)]).await;
    // SEEDS S32: the placeholder in flight is the other one's, so that this one is placed as any other.
    assert_eq!(shim.heard(), ["new r2 on n2"]);
    shim.send(vec![release("ph1", PlaceholderReplaced)]).await;
    assert_eq!(shim.heard(), ["new r1 on n1"]);
    shim.ends_empty().await;
}

/// R1.8: what was confirmed before has come, and nothing else of the old session is heard after a registration.
async fn registered(shim: Shim, came: &str, ended: bool) {
    let commands = vec![release("ph1", PlaceholderReplaced)];
    if ended {
        shim.send(commands).await;
        assert_eq!(shim.heard(), [came]);
    } else {
        shim.partition.do_send(Commands::of(shim.epoch, commands));
    }
    shim.partition.send(StopPartition).await.unwrap();
    shim.settle().await;
    let mut heard = shim.heard();
    heard.retain(|line| line.starts_with("released") || line.starts_with("new"));
    assert_eq!(heard, if ended { vec![] } else { vec![came] });
    assert!(!shim.partition.connected());
}

#[actix::test]
async fn a_registration_with_the_confirmation() {
    registered(Shim::in_flight("Soft").await, "new r1 on n1", false).await;
}

#[actix::test]
async fn a_registration_with_the_confirmation_where_the_real_ask_goes_elsewhere() {
    registered(Shim::elsewhere().await, "new r1 on n2", false).await;
}

#[actix::test]
async fn a_registration_after_the_confirmation() {
    registered(Shim::in_flight("Soft").await, "new r1 on n1", true).await;
}

#[actix::test]
async fn a_registration_after_the_confirmation_where_the_real_one_went_elsewhere() {
    registered(Shim::elsewhere().await, "new r1 on n2", true).await;
}

#[actix::test]
async fn a_reader_sees_that_an_ask_was_tried_in_vain() {
    // R4.37: a snapshot that was taken before the attempt is not given again after it.
    let shim = Shim::new();
    shim.send(vec![node("n1", NodeAction::Create, 20)]).await;
    let [submission, _] = preemptor(10).try_into().unwrap();
    shim.send(vec![submission]).await;
    let spec = callboard::domain::alloc::AskSpec {
        key: "ds".into(),
        resource: std::sync::Arc::new(super::shim::res(10)),
        required_node: Some("n9".into()),
        ..Default::default()
    };
    let item = callboard::domain::command::AllocationItem { app: "app-2".into(), node: None, spec: spec.into() };
    let commands = vec![Command::Allocations { allocations: vec![item], releases: Vec::new() }];
    shim.partition.do_send(Commands::of(shim.epoch, commands));
    let attempted = |snapshot: &callboard::messages::partition::Snapshot| {
        let p = &snapshot.partition;
        p.allocs.values().any(|row| &*row.spec.key == "ds" && row.attempted)
    };
    assert!(!attempted(&*shim.snapshot().await), "it was not tried yet");
    shim.settle().await;
    assert!(attempted(&*shim.snapshot().await));
    shim.ends_empty().await;
}
