//! When a gang begins, and for how long it keeps room from others that have not begun (SEEDS S11).

use callboard::domain::{
    command::{AddApplication, Command, NodeAction, PredicateTerms},
    partition::{Explainer, Why},
    resources::Resource,
    types::{AppState, Termination},
};

use super::env::{Ask, Env, QUEUES, res};

/// `root.a` may use so much.
fn queues(max: &str) -> String {
    QUEUES.replace("- name: a\n", &format!("- name: a\n            resources: {{max: {max}}}\n"))
}

fn placeholders(app: &str, count: usize, size: i64) -> Vec<Ask> {
    (1..=count).map(|n| Ask::new(app, &format!("{app}-{n}"), size).placeholder("tg")).collect()
}

fn gang(env: &mut Env, app: &str, total: Resource, seconds: i64) {
    let item = AddApplication {
        id: app.into(),
        queue: "root.a".into(),
        placeholder_ask: Some(total),
        timeout_millis: seconds * 1000,
        ..env.by("alice")
    };
    env.add_app(item);
}

fn placed(env: &Env, app: &str) -> u32 {
    env.partition.apps[env.partition.app_by_id[app]].gang.placeholders
}

fn waits_for_room(env: &Env, app: &str) -> bool {
    let waiting = Explainer::new(&env.partition).application(env.partition.app_by_id[app], env.now);
    waiting.iter().any(|waiting| matches!(waiting.why, Why::GangRoom { .. }))
}

#[test]
fn a_type_that_a_gang_does_not_ask_for_holds_it_back_no_more_than_an_ask() {
    // QUE-025, SEEDS S11: of vcore there is more in use than may be, as the shim placed it.
    let mut env = Env::calm(&queues("{memory: 100, vcore: 10}"));
    env.apply_node("n1", &[("memory", 1000), ("vcore", 100_000)]);
    env.app("other", "root.a");
    env.ask(vec![Ask::new("other", "k1", 0).sized(res(10, 12_000)).on("n1")]);
    gang(&mut env, "app-1", Resource::of(&[("memory", 20), ("vcore", 0)]), 60);
    let memory = |ask: Ask| ask.sized(Resource::of(&[("memory", 10)]));
    env.ask(placeholders("app-1", 2, 10).into_iter().map(memory).collect());
    assert_eq!(placed(&env, "app-1"), 2);
    // It does where the gang asks for it.
    gang(&mut env, "app-2", res(20, 1), 60);
    env.ask(placeholders("app-2", 2, 0).into_iter().map(memory).collect());
    assert!(placed(&env, "app-2") == 0 && waits_for_room(&env, "app-2"));
}

#[test]
fn a_swap_that_is_confirmed_after_the_time_out_counts_among_the_applications() {
    // QUE-090, R6.19, R3.11
    let yaml = QUEUES.replace("- name: a\n", "- name: a\n            maxapplications: 1\n");
    let mut env = Env::calm(&yaml);
    env.node("n1", 100);
    gang(&mut env, "g", res(30, 30), 60);
    env.ask(placeholders("g", 1, 10));
    env.ask(vec![Ask::new("g", "r1", 10).group("tg")]);
    env.pass(61);
    env.confirm_all();
    assert_eq!(env.state("g"), Some(AppState::Running));
    env.app("other", "root.a");
    env.ask(vec![Ask::new("other", "k1", 10)]);
    assert!(!env.heard().contains(&"new k1 on n1".to_owned()), "g has an allocation, and is the only one that may");
    env.ask(vec![Ask::new("g", "r2", 10)]);
    assert!(env.heard().contains(&"new r2 on n1".to_owned()));
}

#[test]
fn a_gang_is_there_whatever_the_shim_is_asked_about_besides() {
    // R3.12
    let mut env = Env::calm(QUEUES);
    env.apply(Command::PredicateTerms(PredicateTerms { constrained: false, ..PredicateTerms::default() }));
    env.apply(Command::AskPredicates(true));
    env.node("n1", 100);
    gang(&mut env, "g", res(20, 20), 60);
    env.refuse("g-3", "n1");
    env.ask(placeholders("g", 3, 10));
    env.answer_all();
    assert_eq!(env.state("g"), Some(AppState::Running));
}

#[test]
fn a_gang_that_lost_all_that_it_had_begins_anew() {
    // R3.40, SEEDS S11: what is left of it fits no node, and would keep the room for ever.
    let mut env = Env::calm(&queues("{memory: 30}"));
    env.node("n1", 20);
    gang(&mut env, "app-1", res(30, 30), 3);
    env.ask(placeholders("app-1", 2, 15));
    env.node("n2", 12);
    env.node("n3", 12);
    assert_eq!(placed(&env, "app-1"), 1);
    env.node_action("n1", NodeAction::Decommission, None);
    gang(&mut env, "app-2", res(20, 20), 3);
    env.ask(placeholders("app-2", 4, 5));
    assert_eq!(placed(&env, "app-2"), 4);
    // The first has its turn when there is room for all of it again, however many of its nodes there are.
    env.node("n4", 20);
    assert!(placed(&env, "app-1") == 0 && waits_for_room(&env, "app-1"));
    env.remove_app("app-2");
    assert_eq!(placed(&env, "app-1"), 1);
    env.end(&["app-1"]);
}

#[test]
fn a_gang_keeps_no_room_once_its_time_is_over() {
    // R6.17, seed 003, 216-236: the placeholder that waits goes with those that are placed.
    let mut env = Env::calm(&queues("{memory: 40}"));
    env.node("n1", 12);
    env.node("n2", 12);
    gang(&mut env, "app-1", res(25, 25), 2);
    env.ask(vec![Ask::new("app-1", "driver", 5).originator()]);
    env.ask(vec![Ask::new("app-1", "s1", 5).placeholder("s"), Ask::new("app-1", "big", 20).placeholder("big")]);
    gang(&mut env, "app-2", res(20, 20), 60);
    env.ask(placeholders("app-2", 2, 10));
    assert_eq!((placed(&env, "app-1"), placed(&env, "app-2")), (1, 0));
    env.pass(3);
    env.confirm_all();
    assert_eq!((env.state("app-1"), placed(&env, "app-1")), (Some(AppState::Running), 0));
    assert!(placed(&env, "app-2") > 0, "5 of 40 are used");
    env.end(&["app-1", "app-2"]);
}

#[test]
fn an_originator_does_not_begin_its_gang() {
    // SEEDS S10, S11: it runs before the others, and two gangs with one are not to hold halves.
    let mut env = Env::calm(&queues("{memory: 55}"));
    env.node("n1", 1000);
    for app in ["app-1", "app-2"] {
        gang(&mut env, app, res(30, 30), 4);
        env.ask(vec![Ask::new(app, &format!("{app}-driver"), 5).originator()]);
        assert_eq!(env.state(app), Some(AppState::Running));
    }
    for n in 1..=3 {
        for app in ["app-1", "app-2"] {
            env.ask(vec![Ask::new(app, &format!("{app}-{n}"), 10).placeholder("tg")]);
        }
    }
    assert_eq!((placed(&env, "app-1"), placed(&env, "app-2")), (3, 0));
    assert!(waits_for_room(&env, "app-2"));
    env.remove_app("app-1");
    assert_eq!(placed(&env, "app-2"), 3);
    env.end(&["app-2"]);
}

#[test]
fn a_gang_with_a_real_part_has_begun() {
    // SEEDS S11, R4.10: after a restart of the scheduler its real parts come back without the placeholders that they replaced; and
    // a part may come while its placeholders wait.
    for late in [false, true] {
        let mut env = Env::calm(&queues("{memory: 30}"));
        env.node("n1", 100);
        gang(&mut env, "app-1", res(30, 30), 60);
        let parts = |env: &mut Env| {
            env.ask(vec![
                Ask::new("app-1", "driver", 1).originator().on("n1"),
                Ask::new("app-1", "r1", 10).group("tg").on("n1"),
            ]);
        };
        if late {
            env.app("other", "root.a");
            env.ask(vec![Ask::new("other", "k1", 1)]);
        } else {
            parts(&mut env);
        }
        env.ask(placeholders("app-1", 1, 10));
        if late {
            assert!(waits_for_room(&env, "app-1"));
            parts(&mut env);
        }
        assert_eq!(placed(&env, "app-1"), 1, "{late}");
        env.release("app-1", "r1", Termination::StoppedByRm);
        env.remove_app("app-1");
    }
}

#[test]
fn a_gang_that_comes_back_keeps_no_room_for_parts_that_run() {
    // SEEDS S11, R6.28: those that replaced their placeholders before the scheduler was started anew are there.
    for (max, parts, begins) in [(20, 4, 5), (19, 3, 0)] {
        let mut env = Env::calm(&queues(&format!("{{memory: {max}}}")));
        env.node("n1", 100);
        gang(&mut env, "app-1", res(10, 10), 60);
        let part = |n| Ask::new("app-1", &format!("r{n}"), 2).group("tg").on("n1");
        env.ask((0..parts).map(part).chain([Ask::new("app-1", "last", 2).placeholder("tg").on("n1")]).collect());
        gang(&mut env, "app-2", res(10, 10), 60);
        env.ask(placeholders("app-2", 5, 2));
        assert_eq!((placed(&env, "app-2"), waits_for_room(&env, "app-2")), (begins, begins == 0), "{parts} parts");
        env.end(&["app-1", "app-2"]);
    }
}

#[test]
fn a_driver_of_a_task_group_leaves_its_gang_the_rest_of_the_queue() {
    // Seed 003, 112 and 141, SEEDS S10: it is a part of what was announced, and has its place already.
    for grouped in [true, false] {
        let mut env = Env::calm(&queues("{memory: 10}"));
        env.node("n1", 100);
        gang(&mut env, "app-1", res(10, 10), 3);
        let driver = Ask::new("app-1", "driver", 1).originator();
        env.ask(vec![if grouped { driver.group("driver") } else { driver }]);
        env.ask(placeholders("app-1", 3, 3));
        let begins = if grouped { 3 } else { 0 };
        assert_eq!((placed(&env, "app-1"), waits_for_room(&env, "app-1")), (begins, !grouped));
        env.end(&["app-1"]);
    }
}
