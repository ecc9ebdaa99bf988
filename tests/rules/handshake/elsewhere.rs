//! The same states and happenings where the real ask goes to another node than its placeholder's, which it occupies at once
//! (R6.10): ph1 is on n1, r1 on n2.

use callboard::domain::{
    command::{Command, NodeAction},
    types::Termination::{FailedOnRm, PlaceholderReplaced, Preempted, StoppedByRm, Timeout},
};

use super::{
    NONE, State, in_one_request, row_of,
    shim::{Shim, ask, daemon, node, preemptor, release, remove},
};

macro_rules! rows {
    ($($name:ident: $state:ident, $commands:expr => $told:expr, $waiting:expr;)*) => {
        $(#[actix::test]
        async fn $name() {
            let commands = Vec::from($commands);
            if State::$state == State::Ended {
                let shim = Shim::elsewhere().await;
                in_one_request(shim, "new r1 on n2", commands.clone(), &$told, &$waiting).await;
            }
            let shim = Shim::elsewhere().await;
            row_of(shim, "new r1 on n2", State::$state, commands, &$told, &$waiting).await;
        })*
    };
}

rows! {
    begun: Begun, [] => NONE, ["ph1 PlaceholderReplaced"];
    begun_then_confirmed: Begun, [release("ph1", PlaceholderReplaced)] => ["new r1 on n2"], NONE;
    // R2.23: only the placeholder's node went; what is on it is told first, then what took its place.
    begun_then_the_placeholders_node_goes: Begun, [node("n1", NodeAction::Decommission, 0)]
        => ["released ph1 StoppedByRm", "released ph2 StoppedByRm", "new r1 on n2"], NONE;
    // R2.25: nothing is told of the real ask, and it takes the first place that it may.
    begun_then_the_real_ones_node_goes: Begun, [node("n2", NodeAction::Decommission, 0)] => NONE, NONE;
    begun_then_the_placeholders_node_is_drained: Begun, [node("n1", NodeAction::Drain, 20)]
        => NONE, ["ph1 PlaceholderReplaced"];
    begun_then_the_real_ones_node_is_drained: Begun, [node("n2", NodeAction::Drain, 20)]
        => NONE, ["ph1 PlaceholderReplaced"];
    // R2.5: a drained node takes nothing new, and this is a new place (SEEDS S25).
    begun_then_the_real_ones_node_is_drained_then_confirmed: Begun,
        [node("n2", NodeAction::Drain, 20), release("ph1", PlaceholderReplaced)] => NONE, NONE;
    // R6.26a
    begun_then_the_shim_releases_the_placeholder: Begun, [release("ph1", StoppedByRm)]
        => ["released ph1 StoppedByRm", "released ph2 PlaceholderReplaced"], ["ph2 PlaceholderReplaced"];
    begun_then_confirmed_as_another_type: Begun, [release("ph1", Timeout)]
        => ["released ph2 PlaceholderReplaced"], ["ph2 PlaceholderReplaced"];
    begun_then_preempted: Begun, [release("ph1", Preempted)]
        => ["released ph2 PlaceholderReplaced"], ["ph2 PlaceholderReplaced"];
    begun_then_a_daemon_preempts: Begun, [daemon("ds", 10)]
        => ["released ph2 Preempted"], ["ph1 PlaceholderReplaced", "ph2 Preempted"];
    begun_then_another_queue_wants_its_guarantee: Begun, preemptor(10)
        => ["app-2 Accepted", "app-2 Running", "new k1 on n2"], ["ph1 PlaceholderReplaced"];
    // R4.27, R3.44a: the node that was occupied is free again.
    begun_then_the_real_ask_is_released: Begun, [release("r1", StoppedByRm)] => ["released r1 StoppedByRm"], NONE;
    begun_then_the_real_ask_fails: Begun, [release("r1", FailedOnRm)] => NONE, ["ph1 PlaceholderReplaced"];
    begun_then_the_real_ask_grows: Begun, [ask("r1", 15, "tg", false)]
        => ["released ph1 Timeout", "released ph2 Timeout"], ["ph1 Timeout", "ph2 Timeout"];
    begun_then_the_application_goes: Begun, [remove()]
        => ["app-1 Completing", "released ph1 StoppedByRm", "released ph2 StoppedByRm"], NONE;
    begun_then_everything_is_released: Begun, [release("", StoppedByRm)]
        => ["released ph1 StoppedByRm", "released ph2 StoppedByRm", "app-1 Completing", "released r1 StoppedByRm"], NONE;
    // SEEDS S25
    begun_then_the_real_ones_node_shrinks_then_confirmed: Begun,
        [node("n2", NodeAction::Update, 5), release("ph1", PlaceholderReplaced)] => NONE, NONE;
    // The placeholder's node has room for both by then, and the real one is in its books once.
    begun_then_the_real_ones_node_shrinks_and_the_placeholders_grows: Begun,
        [Command::AskPredicates(false), node("n1", NodeAction::Update, 40), node("n2", NodeAction::Update, 5),
         release("ph1", PlaceholderReplaced)] => ["new r1 on n1"], NONE;
    begun_then_a_stale_confirmation: Begun, [release("ph2", PlaceholderReplaced)] => NONE, ["ph1 PlaceholderReplaced"];

    ended_then_confirmed_again: Ended, [release("ph1", PlaceholderReplaced)] => NONE, NONE;
    ended_then_the_placeholders_node_goes: Ended, [node("n1", NodeAction::Decommission, 0)]
        => ["released ph2 StoppedByRm"], NONE;
    ended_then_the_real_ones_node_goes: Ended, [node("n2", NodeAction::Decommission, 0)]
        => ["app-1 Completing", "released r1 StoppedByRm"], NONE;
    ended_then_the_placeholders_node_is_drained: Ended, [node("n1", NodeAction::Drain, 20)] => NONE, NONE;
    ended_then_the_real_ones_node_is_drained: Ended, [node("n2", NodeAction::Drain, 20)] => NONE, NONE;
    ended_then_the_real_ones_node_shrinks: Ended, [node("n2", NodeAction::Update, 5)] => NONE, NONE;
    ended_then_the_shim_releases_the_placeholder: Ended, [release("ph1", StoppedByRm)] => NONE, NONE;
    ended_then_confirmed_as_another_type: Ended, [release("ph1", Timeout)] => NONE, NONE;
    ended_then_preempted: Ended, [release("ph1", Preempted)] => NONE, NONE;
    ended_then_a_daemon_preempts: Ended, [daemon("ds", 20)] => ["released ph2 Preempted"], ["ph2 Preempted"];
    ended_then_another_queue_wants_its_guarantee: Ended, preemptor(10)
        => ["app-2 Accepted", "app-2 Running", "new k1 on n1"], NONE;
    ended_then_the_real_one_is_released: Ended, [release("r1", StoppedByRm)]
        => ["app-1 Completing", "released r1 StoppedByRm"], NONE;
    ended_then_the_real_one_fails: Ended, [release("r1", FailedOnRm)]
        => ["released ph2 PlaceholderReplaced"], ["ph2 PlaceholderReplaced"];
    ended_then_everything_is_released: Ended, [release("", StoppedByRm)]
        => ["app-1 Completing", "released ph2 StoppedByRm", "released r1 StoppedByRm"], NONE;
    ended_then_a_stale_confirmation: Ended, [release("nothing", PlaceholderReplaced)] => NONE, NONE;
    ended_then_the_application_goes: Ended, [remove()]
        => ["app-1 Completing", "released ph2 StoppedByRm", "released r1 StoppedByRm"], NONE;
}
