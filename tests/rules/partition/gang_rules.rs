//! Gangs, rule by rule: time-outs, recovery, what the shim gets wrong, and what may come between release and commit.

use callboard::domain::{
    command::{AddApplication, AllocationItem, Command, NodeAction, ReleaseItem},
    event::Detail,
    types::{AppState, Nanos, Termination},
};
use std::{collections::BTreeMap, sync::Arc};

use super::env::{Ask, Env, QUEUES, res};

fn gang_of(env: &mut Env, id: &str, total: i64, millis: i64, style: &str, tags: &[(&str, String)]) {
    let tags: BTreeMap<String, String> = tags.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let item = AddApplication {
        id: id.into(),
        queue: "root.a".into(),
        placeholder_ask: (total != 0).then(|| res(total, total)),
        gang_style: style.into(),
        timeout_millis: millis,
        tags: Arc::new(tags.into()),
        ..env.by("alice")
    };
    env.add_app(item);
}

fn placeholders(app: &str, count: usize) -> Vec<Ask> {
    (1..=count).map(|n| Ask::new(app, &format!("ph{n}"), 10).placeholder("tg")).collect()
}

/// A gang of 20 whose two placeholders are asked for where n1 has so much.
fn gang_on(node: i64, millis: i64, style: &str) -> Env {
    let mut env = Env::new(QUEUES);
    env.node("n1", node);
    gang_of(&mut env, "app-1", 20, millis, style, &[]);
    env.ask(placeholders("app-1", 2));
    env
}

/// Two placeholders on n1, and a replacement of the first in flight.
fn in_flight(style: &str) -> Env {
    let mut env = gang_on(20, 60_000, style);
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    assert_eq!(env.heard().last().map(String::as_str), Some("released ph1 PlaceholderReplaced"));
    env
}

fn end(mut env: Env) {
    env.end(&["app-1"]);
}

#[test]
fn time_outs_that_make_no_sense_mean_fifteen_minutes() {
    // R3.38: zero, negative, and more than 64 bits of nanoseconds hold.
    for millis in [0, -1, i64::MIN, i64::MAX] {
        let mut env = gang_on(15, millis, "Hard");
        env.pass(15 * 60 - 1);
        assert_eq!(env.state("app-1"), Some(AppState::Accepted), "{millis}");
        env.pass(2);
        assert_eq!(env.state("app-1"), Some(AppState::Failing), "{millis}");
        env.confirm_all();
        env.assert_empty();
    }
}

#[test]
fn an_application_that_announced_no_gang_has_a_placeholder_time_out_too() {
    // R3.38, R3.39: the time-out belongs to the placeholders, not to the announcement.
    let mut env = Env::new(QUEUES);
    env.node("n1", 15);
    gang_of(&mut env, "app-1", 0, 0, "Soft", &[]);
    env.ask(placeholders("app-1", 2));
    env.pass(15 * 60 - 1);
    assert_eq!(env.state("app-1"), Some(AppState::Accepted));
    env.pass(2);
    assert_eq!(env.state("app-1"), Some(AppState::Resuming));
    env.confirm_all();
    end(env);
}

#[test]
fn styles_in_any_spelling() {
    // SEEDS S33
    for (style, then) in [
        ("hard", AppState::Failing),
        ("HARD", AppState::Failing),
        ("Hard", AppState::Failing),
        ("", AppState::Resuming),
        ("soft", AppState::Resuming),
        ("SoFt", AppState::Resuming),
    ] {
        let mut env = gang_on(15, 60_000, style);
        env.pass(61);
        assert_eq!(env.state("app-1"), Some(then), "{style}");
        env.confirm_all();
        end(env);
    }
    for style in ["firm", " soft", "hard!"] {
        let mut env = Env::new(QUEUES);
        gang_of(&mut env, "app-1", 20, 60_000, style, &[]);
        let wanted = format!(
            "rejected app-1: application app-1 has gang scheduling style \"{style}\", which is not known: Hard and Soft are"
        );
        assert_eq!(env.heard(), [wanted]);
        assert_eq!(env.partition.rejected.len(), 1);
        env.assert_empty();
    }
}

#[test]
fn the_time_out_starts_with_the_first_placeholder_that_is_placed() {
    // R3.39, R6.23: none placed, none started.
    let mut env = Env::new(QUEUES);
    gang_of(&mut env, "app-1", 20, 60_000, "Soft", &[]);
    env.ask(placeholders("app-1", 2));
    env.pass(3600);
    assert_eq!(env.state("app-1"), Some(AppState::Accepted));
    env.node("n1", 15);
    env.pass(59);
    assert_eq!(env.state("app-1"), Some(AppState::Accepted));
    env.pass(2);
    assert_eq!(env.state("app-1"), Some(AppState::Resuming));
    env.confirm_all();
    end(env);
}

#[test]
fn a_creation_time_shortens_the_time_out_of_what_comes_back() {
    // R3.41, R6.28: what is left, at least ten seconds, never more than was given. Where the first is placed only now it is all of
    // it: nobody knows how long a gang waits for that (seed 003, 228-230).
    let key = "yunikorn.apache.org/creationTime";
    for (ago, left) in [(50, 10), (40, 20), (100, 10), (-3600, 60)] {
        for back in [true, false] {
            let mut env = Env::new(QUEUES);
            env.node("n1", 15);
            let created = (env.now.0 / 1_000_000_000 - ago).to_string();
            gang_of(&mut env, "app-1", 20, 60_000, "Soft", &[(key, created)]);
            let mut asks = placeholders("app-1", 2);
            asks[0].node = back.then(|| "n1".into());
            env.ask(asks);
            env.pass(if back { left } else { 60 } - 1);
            assert_eq!(env.state("app-1"), Some(AppState::Accepted), "{ago} {back}");
            env.pass(1);
            assert_eq!(env.state("app-1"), Some(AppState::Resuming), "{ago} {back}");
        }
    }
    for nonsense in [i64::MIN.to_string(), i64::MAX.to_string(), "x".to_owned(), String::new()] {
        let mut env = Env::new(QUEUES);
        env.node("n1", 15);
        gang_of(&mut env, "app-1", 20, 60_000, "Soft", &[(key, nonsense)]);
        env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg").on("n1")]);
        env.pass(61);
        assert_eq!(env.state("app-1"), Some(AppState::Resuming));
    }
}

#[test]
fn recovered_placeholders_go_on_where_they_were() {
    // R6.28, R3.10, R3.12, R3.41: counters, the rest of the time-out, the state when the sum is there.
    let mut env = Env::new(QUEUES);
    env.node("n1", 100);
    let created = (env.now.0 / 1_000_000_000 - 50).to_string();
    gang_of(&mut env, "app-1", 30, 60_000, "Soft", &[("yunikorn.apache.org/creationTime", created)]);
    env.heard();
    env.ask(placeholders("app-1", 2).into_iter().map(|ask| ask.on("n1")).collect());
    assert_eq!(env.heard(), ["app-1 Accepted", "new ph1 on n1", "new ph2 on n1"]);
    let mut late = env.partition.clone();
    env.ask(vec![Ask::new("app-1", "ph3", 10).placeholder("tg")]);
    assert_eq!(env.heard(), ["app-1 Running", "new ph3 on n1"]);
    env.ask((1..=3).map(|n| Ask::new("app-1", &format!("r{n}"), 10).group("tg")).collect());
    env.confirm_all();
    let app = &env.partition.apps[env.partition.app_by_id["app-1"]];
    let group = &app.gang.task_groups["tg"];
    assert_eq!((group.count, group.replaced, group.timed_out, group.live), (3, 3, 0, 0));
    end(env);
    // Ten seconds were left of the time-out.
    let mut effects = Vec::new();
    late.apply(Command::Tick, Nanos::from_secs(1_000_009), &mut effects);
    let state = |p: &callboard::domain::Partition| p.apps[p.app_by_id["app-1"]].state;
    assert_eq!(state(&late), AppState::Accepted);
    late.apply(Command::Tick, Nanos::from_secs(1_000_010), &mut effects);
    assert_eq!(state(&late), AppState::Resuming);
}

#[test]
fn a_recovered_gang_whose_time_is_over_can_still_be_replaced() {
    // R6.28: its placeholders come one by one, and what replaces them after that.
    for style in ["Soft", "Hard"] {
        let mut env = Env::new(QUEUES);
        env.node("n1", 100);
        let created = (env.now.0 / 1_000_000_000 - 3_600).to_string();
        gang_of(&mut env, "app-1", 30, 60_000, style, &[("yunikorn.apache.org/creationTime", created)]);
        env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg").on("n1")]);
        env.pass(4);
        env.ask(vec![Ask::new("app-1", "ph2", 10).placeholder("tg").on("n1")]);
        assert_eq!(env.state("app-1"), Some(AppState::Accepted));
        let mut late = env.partition.clone();
        env.ask(vec![Ask::new("app-1", "r1", 10).group("tg"), Ask::new("app-1", "r2", 10).group("tg")]);
        env.confirm_all();
        assert_eq!(env.state("app-1"), Some(AppState::Running));
        end(env);
        // Not for ever.
        late.apply(Command::Tick, Nanos::from_secs(1_000_010), &mut Vec::new());
        let over = if style == "Hard" { AppState::Failing } else { AppState::Resuming };
        assert_eq!(late.apps[late.app_by_id["app-1"]].state, over);
    }
}

#[test]
fn a_recovered_gang_with_real_allocations_runs() {
    // R3.10, R6.28: a real one that was bound is simply allocated.
    let mut env = Env::new(QUEUES);
    env.node("n1", 100);
    gang_of(&mut env, "app-1", 20, 60_000, "Soft", &[]);
    env.ask(vec![
        Ask::new("app-1", "r1", 10).group("tg").on("n1"),
        Ask::new("app-1", "ph2", 10).placeholder("tg").on("n1"),
    ]);
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    env.ask(vec![Ask::new("app-1", "r2", 10).group("tg")]);
    env.heard();
    env.confirm_all();
    assert_eq!(env.heard(), ["new r2 on n1"]);
    end(env);
}

#[test]
fn a_placeholder_without_a_group_is_safe_also_inside() {
    // SEEDS S8 is the door's; the domain keeps its books with anything.
    let mut env = Env::new(QUEUES);
    env.node("n1", 100);
    gang_of(&mut env, "app-1", 10, 60_000, "Soft", &[]);
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("")]);
    env.ask(vec![Ask::new("app-1", "r1", 10)]);
    env.confirm_all();
    end(env);
}

#[test]
fn what_was_never_released_cannot_be_confirmed() {
    // R4.18, R4.26, R6.16, R6.24: unknown application, unknown key, pending asks, real allocations.
    let mut env = gang_on(20, 60_000, "Soft");
    env.ask(vec![Ask::new("app-1", "big", 50), Ask::new("app-1", "r9", 50).group("other")]);
    env.heard();
    env.release("nobody", "ph1", Termination::PlaceholderReplaced);
    env.release("app-1", "nothing", Termination::PlaceholderReplaced);
    assert!(env.heard().is_empty());
    // A pending ask goes by it, as by any release but a time-out (R4.19).
    env.release("app-1", "big", Termination::PlaceholderReplaced);
    env.release("app-1", "r9", Termination::Timeout);
    assert!(env.heard().is_empty());
    assert!(env.partition.alloc("app-1", "big").is_none() && env.partition.alloc("app-1", "r9").is_some());
    // A placeholder that nothing replaces goes as timed out.
    env.release("app-1", "ph1", Termination::PlaceholderReplaced);
    let group = &env.partition.apps[env.partition.app_by_id["app-1"]].gang.task_groups["tg"];
    assert_eq!((group.replaced, group.timed_out), (0, 1));
    end(env);
}

#[test]
fn the_whole_application_confirmed_as_replaced_counts_as_stopped() {
    // R4.23b [DEFECT]
    let mut env = in_flight("Soft");
    env.release("app-1", "", Termination::PlaceholderReplaced);
    let heard = env.heard();
    assert!(heard.contains(&"released ph1 StoppedByRm".to_owned()), "{heard:?}");
    env.pass(31);
    env.assert_empty();
}

#[test]
fn keys_used_twice_change_the_ask_that_is_there() {
    // R4.11: flag, group and priority of the second are ignored.
    let mut env = Env::new(QUEUES);
    gang_of(&mut env, "app-1", 20, 60_000, "Soft", &[]);
    env.ask(placeholders("app-1", 2));
    env.ask(vec![Ask::new("app-1", "ph1", 10), Ask::new("app-1", "ph2", 5).group("tg").priority(9)]);
    let app = &env.partition.apps[env.partition.app_by_id["app-1"]];
    assert_eq!((app.by_seq.len(), app.gang.pending_placeholders), (2, 2));
    assert_eq!(*app.pending(), res(15, 15));
    env.node("n1", 100);
    assert_eq!(env.partition.placeholders, 2);
    end(env);
}

#[test]
fn real_asks_that_come_before_their_placeholders() {
    // SEEDS S10: in one request, and one after the other.
    let mut env = Env::new(QUEUES);
    env.node("n1", 25);
    gang_of(&mut env, "app-1", 20, 60_000, "Soft", &[]);
    env.heard();
    let mut asks = vec![Ask::new("app-1", "r1", 10).group("tg")];
    asks.extend(placeholders("app-1", 2));
    env.ask(asks);
    assert_eq!(
        env.heard(),
        ["app-1 Accepted", "new ph1 on n1", "app-1 Running", "new ph2 on n1", "released ph1 PlaceholderReplaced"]
    );
    env.confirm_all();
    end(env);
    let mut env = Env::new(QUEUES);
    env.node("n1", 25);
    gang_of(&mut env, "app-1", 20, 60_000, "Soft", &[]);
    env.heard();
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    assert_eq!(env.heard(), ["app-1 Accepted"]);
    env.ask(placeholders("app-1", 2));
    assert_eq!(env.heard(), ["new ph1 on n1", "app-1 Running", "new ph2 on n1", "released ph1 PlaceholderReplaced"]);
    end(env);
}

#[test]
fn a_withdrawn_placeholder_ask_blocks_nobody() {
    // R6.3 [DEFECT]
    let mut env = gang_on(10, 60_000, "Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg"), Ask::new("app-1", "r2", 5).group("tg")]);
    env.heard();
    env.release("app-1", "ph2", Termination::StoppedByRm);
    assert_eq!(env.heard(), ["released ph2 StoppedByRm", "released ph1 PlaceholderReplaced"]);
    // SEEDS S32: the only placeholder is taken.
    env.node("n2", 10);
    assert_eq!(env.heard(), ["node n2", "app-1 Running", "new r2 on n2"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["new r1 on n1"]);
    end(env);
}

#[test]
fn a_confirmation_counts_also_where_the_replacement_was_undone_in_the_same_request() {
    // R6.15, R4.27: the shim says once that the placeholder is gone. It must not stay.
    let mut env = in_flight("Soft");
    let release = |key: &str, termination| ReleaseItem { app: "app-1".into(), key: key.into(), termination };
    env.unconfirmed.clear();
    env.apply(Command::Allocations {
        allocations: Vec::new(),
        releases: vec![release("r1", Termination::StoppedByRm), release("ph1", Termination::PlaceholderReplaced)],
    });
    env.run();
    assert_eq!((env.partition.placeholders, env.partition.allocations), (1, 1));
    end(env);
}

#[test]
fn confirmations_of_one_request_are_carried_out_within_it() {
    // R6.15: no message and no further command in between; what it tells is one run of `new`, in the order of the request.
    let mut env = in_flight("Soft");
    env.ask(vec![Ask::new("app-1", "r2", 10).group("tg")]);
    env.heard();
    let confirmed = std::mem::take(&mut env.unconfirmed);
    assert_eq!(confirmed.len(), 2);
    let releases = confirmed.into_iter().map(|r| ReleaseItem { app: r.app, key: r.key, termination: r.termination });
    env.apply(Command::Allocations { allocations: Vec::new(), releases: releases.collect() });
    let told = env.heard();
    assert_eq!(told[told.len() - 2..], ["new r1 on n1", "new r2 on n1"], "{told:?}");
    assert_eq!((env.partition.placeholders, env.partition.allocations), (0, 2));
    end(env);
}

#[test]
fn a_node_that_shrank_takes_no_replacement() {
    // SEEDS S25: another node, else the ask waits again.
    for other in [true, false] {
        let mut env = in_flight("Soft");
        if other {
            env.node("n2", 20);
        }
        env.node_action("n1", NodeAction::Update, Some(res(10, 10)));
        env.heard();
        env.confirm_all();
        let heard = env.heard();
        if other {
            assert_eq!(heard, ["new r1 on n2"]);
        } else {
            // The first placeholder went for nothing, and the second makes room for one.
            assert_eq!(heard[0], "released ph2 PlaceholderReplaced");
            assert_eq!(heard.last().map(String::as_str), Some("new r1 on n1"));
            let group = &env.partition.apps[env.partition.app_by_id["app-1"]].gang.task_groups["tg"];
            assert_eq!((group.replaced, group.timed_out), (1, 1));
            assert_eq!(env.partition.allocations, 1);
        }
        end(env);
    }
}

#[test]
fn a_real_ask_that_changes_while_its_replacement_is_in_flight() {
    // R4.11, R4.12, R4.14: a larger one does not slip into the smaller place, a placed one stays where the shim put it.
    let mut env = in_flight("Soft");
    env.ask(vec![Ask::new("app-1", "r1", 15).group("tg")]);
    assert_eq!(env.heard(), ["released ph1 Timeout", "released ph2 Timeout"]);
    env.confirm_all();
    assert!(env.heard().contains(&"new r1 on n1".to_owned()));
    end(env);
    let mut env = in_flight("Soft");
    env.node("n2", 20);
    env.heard();
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg").on("n2")]);
    assert_eq!(env.heard(), ["new r1 on n2"]);
    env.confirm_all();
    assert_eq!(env.partition.allocations, 2, "the placeholder of the undone replacement went, the real ones stay");
    end(env);
}

#[test]
fn a_soft_time_out_leaves_a_replacement_in_flight_alone() {
    // R3.11, R6.17, R6.19a, R6.20: its confirmation brings the real one, and with the last placeholder the application goes on.
    let mut env = gang_on(10, 60_000, "Soft");
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.release("app-1", "ph2", Termination::StoppedByRm);
    env.heard();
    env.pass(61);
    assert_eq!(env.heard(), ["app-1 Resuming"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Accepted", "app-1 Running", "new r1 on n1"]);
    end(env);
}

#[test]
fn the_placeholders_node_goes_while_the_application_resumes() {
    // R2.23, R3.16: with the last placeholder a resuming application goes on, whatever took it.
    let mut env = gang_on(10, 60_000, "Soft");
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.release("app-1", "ph2", Termination::StoppedByRm);
    env.node("n2", 10);
    // The shim wants r1 on n2.
    env.refuse("r1", "n1");
    env.answer_all();
    assert_eq!(env.unconfirmed.len(), 1);
    env.heard();
    env.pass(61);
    assert_eq!(env.heard().first().map(String::as_str), Some("app-1 Resuming"));
    env.node_action("n1", NodeAction::Decommission, None);
    assert_eq!(env.heard(), ["app-1 Accepted", "app-1 Running", "released ph1 StoppedByRm", "new r1 on n2"]);
    end(env);
}

#[test]
fn an_application_runs_whose_replacement_is_complete_because_the_placeholders_node_went() {
    // R2.23, R3.11: nothing else would ever bring it out of Accepted, and it counts as running (QUE-090).
    let mut env = Env::new(QUEUES);
    env.node("n1", 10);
    gang_of(&mut env, "app-1", 30, 60_000, "Soft", &[]);
    env.ask(placeholders("app-1", 1));
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.node("n2", 10);
    env.refuse("r1", "n1");
    env.answer_all();
    assert_eq!((env.state("app-1"), env.unconfirmed.len()), (Some(AppState::Accepted), 1));
    env.heard();
    env.node_action("n1", NodeAction::Decommission, None);
    assert_eq!(env.heard(), ["app-1 Running", "released ph1 StoppedByRm", "new r1 on n2"]);
    let root = &env.partition.queues[env.partition.root];
    assert_eq!((root.running, root.allocating.len()), (1, 0));
    end(env);
}

#[test]
fn a_partition_ends_while_a_hard_gang_fails() {
    // R3.2, CFG-095: what waits for its confirmation goes with the rest, once.
    for items in [1, 64] {
        let mut env = Env::new(QUEUES);
        env.node("n1", 20);
        gang_of(&mut env, "app-1", 30, 60_000, "Hard", &[]);
        env.ask(placeholders("app-1", 2));
        env.pass(61);
        assert_eq!(env.state("app-1"), Some(AppState::Failing));
        env.heard();
        env.stop(items);
        assert_eq!(env.heard(), ["app-1 Failed"]);
        env.assert_empty();
        assert!(env.partition.app_by_id.is_empty() && env.partition.terminated.is_empty());
    }
}

#[test]
fn a_hard_time_out_takes_everything() {
    // R6.19, R6.22: also a replacement in flight; one confirmation of its placeholder is enough.
    for first in [Termination::PlaceholderReplaced, Termination::Timeout] {
        let mut env = gang_on(10, 60_000, "Hard");
        env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
        env.release("app-1", "ph2", Termination::StoppedByRm);
        env.heard();
        env.pass(61);
        let heard = env.heard();
        assert_eq!((&*heard[0], &*heard[2]), ("released ph1 Timeout", "app-1 Failing"));
        assert!(heard[1].starts_with("rejected r1: application app-1 fails"), "SEEDS S31: {heard:?}");
        env.release("app-1", "ph1", first);
        assert_eq!(env.heard(), ["app-1 Failed"]);
        env.confirm_all();
        assert!(env.heard().is_empty());
        env.assert_empty();
    }
}

#[test]
fn a_resized_placeholder_keeps_its_book() {
    // R4.15 [DEFECT]
    let mut env = gang_on(100, 60_000, "Soft");
    env.ask(vec![Ask::new("app-1", "ph1", 15).placeholder("tg")]);
    let app = &env.partition.apps[env.partition.app_by_id["app-1"]];
    let [real, placeholders] = app.placed();
    assert_eq!((placeholders, real.is_empty()), (res(25, 25), true));
    end(env);
}

#[test]
fn the_time_limit_of_an_application_counts_its_time_in_running() {
    // SEEDS S6: what it spends in Completing does not count.
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    gang_of(&mut env, "app-1", 0, 60_000, "", &[]);
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.pass(40);
    env.release("app-1", "k1", Termination::StoppedByRm);
    env.pass(25);
    assert_eq!(env.state("app-1"), Some(AppState::Completing));
    env.ask(vec![Ask::new("app-1", "k2", 10)]);
    env.pass(19);
    assert_eq!(env.state("app-1"), Some(AppState::Running));
    env.heard();
    env.pass(2);
    assert_eq!(env.heard(), ["released k2 Timeout"]);
    // What it asks for now is not placed, and does not keep it.
    env.ask(vec![Ask::new("app-1", "k3", 5)]);
    assert!(env.heard()[0].starts_with("rejected k3: "), "SEEDS S31");
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Expired"]);
    env.assert_empty();
}

#[test]
fn a_time_limit_ends_placeholders_too() {
    // SEEDS S6: an application that announced no gang, with placeholders all the same.
    let mut env = Env::new(QUEUES);
    env.node("n1", 30);
    gang_of(&mut env, "app-1", 0, 60_000, "", &[]);
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.ask(placeholders("app-1", 2));
    env.heard();
    env.pass(61);
    assert_eq!(env.heard(), ["released k1 Timeout", "released ph1 Timeout", "released ph2 Timeout"]);
    env.confirm_all();
    assert_eq!(env.heard(), ["app-1 Expired"]);
    env.assert_empty();
}

#[test]
fn a_completed_id_may_be_used_again() {
    // R3.26, R3.47: also at once.
    let mut env = Env::new(QUEUES);
    env.node("n1", 30);
    for _ in 0..3 {
        gang_of(&mut env, "app-1", 10, 60_000, "Soft", &[]);
        env.ask(placeholders("app-1", 1));
        env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
        env.confirm_all();
        env.release("app-1", "r1", Termination::StoppedByRm);
        env.pass(31);
        assert_eq!(env.state("app-1"), None);
    }
    assert_eq!(env.partition.terminated.len(), 3);
    env.assert_empty();
}

#[test]
fn one_request_may_hold_a_whole_life() {
    // R1.29: allocations, then releases.
    let mut env = Env::new(QUEUES);
    env.node("n1", 30);
    gang_of(&mut env, "app-1", 20, 60_000, "Soft", &[]);
    let item = |ask: Ask| AllocationItem { app: ask.app, node: ask.node, spec: Arc::new(ask.spec) };
    let mut allocations: Vec<_> = placeholders("app-1", 2).into_iter().map(item).collect();
    allocations.push(item(Ask::new("app-1", "r1", 10).group("tg")));
    let releases = ["ph1", "r1", "ph2", ""].map(|key| ReleaseItem {
        app: "app-1".into(),
        key: key.into(),
        termination: Termination::StoppedByRm,
    });
    env.apply(Command::Allocations { allocations, releases: releases.into() });
    env.run();
    env.pass(31);
    assert_eq!(env.state("app-1"), None);
    env.assert_empty();
}

#[test]
fn a_real_ask_that_requires_a_node_runs_there() {
    // R6.9, R4.3: whatever placeholders of its group stand elsewhere.
    let mut env = Env::calm(QUEUES);
    env.gang("gang", "root.a", 20, "Soft");
    env.node("n1", 20);
    env.ask(placeholders("gang", 2));
    env.node("n2", 20);
    env.heard();
    env.ask(vec![Ask::new("gang", "there", 10).group("tg").requires("n2")]);
    assert!(env.heard().contains(&"new there on n2".to_owned()));
    env.ask(vec![Ask::new("gang", "here", 10).group("tg").requires("n1")]);
    let heard = env.heard();
    assert_eq!(heard.iter().filter(|line| line.ends_with("PlaceholderReplaced")).count(), 1, "{heard:?}");
}

#[test]
fn the_time_out_starts_also_where_the_application_runs_already() {
    // R3.39 [DEFECT], 003: an originator was placed first, or the gang is the second of its application.
    for style in ["Soft", "Hard"] {
        let mut env = Env::calm(QUEUES);
        env.node("n1", 25);
        gang_of(&mut env, "app-1", 30, 60_000, style, &[]);
        env.ask(vec![Ask::new("app-1", "driver", 5).originator()]);
        assert_eq!(env.state("app-1"), Some(AppState::Running));
        env.ask(placeholders("app-1", 3));
        env.pass(59);
        env.heard();
        env.pass(2);
        // R6.17, seed 003, 216-236: the one that waits goes, too, so that nothing of the group holds up the real asks. A gang fails
        // by its time-out in Accepted (seed 003, 231-234), so a Hard one whose originator runs goes on.
        let heard = env.heard();
        assert_eq!(heard, ["released ph1 Timeout", "released ph2 Timeout", "released ph3 Timeout"], "{style}");
        assert_eq!(env.state("app-1"), Some(AppState::Running), "{style}");
        env.ask(vec![Ask::new("app-1", "real", 10).group("tg")]);
        env.confirm_all();
        assert!(env.heard().contains(&"new real on n1".to_owned()), "{style}");
        end(env);
    }
}

#[test]
fn gangs_whose_placeholders_come_one_by_one_do_not_share_what_is_enough_for_one() {
    // 003, SEEDS S11: what was announced and has not come counts as used.
    let yaml = QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 50}}\n");
    for come in [true, false] {
        let mut env = Env::calm(&yaml);
        env.node("n1", 100);
        for app in ["app-1", "app-2"] {
            gang_of(&mut env, app, 30, 60_000, "Soft", &[]);
        }
        for n in 1..=3 {
            for app in ["app-1", "app-2"] {
                if app == "app-2" || come || n == 1 {
                    env.ask(vec![Ask::new(app, &format!("{app}-{n}"), 10).placeholder("tg")]);
                }
            }
        }
        let placed = |env: &Env, app: &str| {
            let row = &env.partition.apps[env.partition.app_by_id[app]];
            row.gang.placeholders
        };
        assert_eq!((placed(&env, "app-1"), placed(&env, "app-2")), (if come { 3 } else { 1 }, 0));
        env.pass(61);
        env.confirm_all();
        env.run();
        // What never came is waited for no longer than the time-out; what is there is not kept twice.
        assert_eq!(placed(&env, "app-2"), 3, "{come}");
        env.end(&["app-1", "app-2"]);
    }
}

#[test]
fn a_replacement_that_moves_is_told_at_its_nodes() {
    // EVT-033, EVT-034, SEEDS S25
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.node("n2", 20);
    gang_of(&mut env, "app-1", 20, 60_000, "Soft", &[]);
    env.ask(placeholders("app-1", 2));
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.events.clear();
    env.node_action("n1", NodeAction::Update, Some(res(5, 5)));
    env.release("app-1", "ph1", Termination::PlaceholderReplaced);
    let told: Vec<_> = env
        .events
        .iter()
        .filter(|event| event.detail == Detail::NodeAlloc)
        .map(|event| format!("{} {} {:?}", event.object, event.reference, event.change))
        .collect();
    assert_eq!(told, ["n2 r1 Add", "n1 ph1 Remove"]);
    end(env);
}

#[test]
fn a_gang_of_less_than_nothing_is_rejected() {
    let mut env = Env::calm(QUEUES);
    gang_of(&mut env, "app-1", -5, 60_000, "Soft", &[]);
    assert_eq!(env.heard(), ["rejected app-1: application app-1 announces placeholders of a negative amount"]);
    env.assert_empty();
}
