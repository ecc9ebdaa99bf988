//! Asks with reservations, and replacements: in which order they are served, and when those that nothing was found for are looked
//! at again.

use callboard::domain::{
    command::{Command, NodeAction, PredicateTerms},
    types::Termination,
};

use super::env::{Ask, Env, QUEUES, res};

/// A shim that refuses real asks the homes of their placeholders, on n1.
fn asked() -> Env {
    let mut env = Env::calm(QUEUES);
    env.apply(Command::PredicateTerms(PredicateTerms { constrained: true, nodes: 1, shared: false }));
    env.apply(Command::AskPredicates(true));
    env.node("n1", 10);
    env
}

/// A gang of one, whose placeholder is on n1, and whose real ask is refused there.
fn homeless(env: &mut Env, gang: &str, queue: &str, real: Ask) {
    env.gang(gang, queue, 4, "Soft");
    env.ask(vec![Ask::new(gang, &format!("{gang}-p"), 4).placeholder("tg")]);
    env.answer_all();
    env.refuse(&real.spec.key, "n1");
    env.ask(vec![real.group("tg")]);
}

fn questions(env: &Env) -> Vec<String> {
    env.questions.iter().map(|question| format!("{} on {}", question.key, question.node)).collect()
}

#[test]
fn a_real_ask_whose_home_is_refused_takes_room_elsewhere_as_soon_as_it_comes() {
    // R6.10
    type Come = (&'static str, fn(&mut Env), fn(&mut Env));
    let cases: [Come; 5] = [
        ("created", |_| (), |env| env.node("n2", 5)),
        (
            "undrained",
            |env| env.node_action("n2", NodeAction::CreateDrain, Some(res(5, 5))),
            |env| env.node_action("n2", NodeAction::DrainToSchedulable, None),
        ),
        ("grown", |env| env.node("n2", 2), |env| env.node_action("n2", NodeAction::Update, Some(res(9, 9)))),
        (
            "released",
            |env| {
                env.node("n2", 5);
                env.app("app-1", "root.b");
                env.ask(vec![Ask::new("app-1", "s", 4).on("n2")]);
            },
            |env| env.release("app-1", "s", Termination::StoppedByRm),
        ),
        (
            "no longer reserved",
            |env| {
                env.node("n2", 5);
                env.app("app-1", "root.b");
                env.ask(vec![Ask::new("app-1", "s", 1).on("n2"), Ask::new("app-1", "d", 5).requires("n2")]);
                env.answer_all();
                assert_eq!(env.partition.reservations, 1);
            },
            |env| env.release("app-1", "d", Termination::StoppedByRm),
        ),
    ];
    for (what, before, comes) in cases {
        let mut env = asked();
        before(&mut env);
        homeless(&mut env, "g", "root.a", Ask::new("g", "r", 4));
        env.answer_all();
        assert_eq!(questions(&env), [""; 0], "{what}");
        comes(&mut env);
        assert_eq!(questions(&env), ["r on n2"], "{what}");
        env.answer_all();
        env.confirm_all();
        assert!(env.heard().contains(&"new r on n2".to_owned()), "{what}");
    }
}

#[test]
fn all_real_asks_of_a_gang_go_elsewhere_though_they_were_asked_about_with_one_placeholder() {
    // R6.10: r2 is asked about with the placeholder that r1 was, and then there is room for one.
    let mut env = asked();
    env.apply(Command::PredicateTerms(PredicateTerms { constrained: false, nodes: 1, shared: false }));
    homeless(&mut env, "g", "root.a", Ask::new("g", "r1", 4));
    env.refuse("r2", "n1");
    env.ask(vec![Ask::new("g", "r2", 4).group("tg")]);
    env.node("n2", 5);
    env.answer_all();
    env.confirm_all();
    assert!(env.heard().contains(&"new r1 on n2".to_owned()), "{:?}", env.told);
}

#[test]
fn a_real_ask_that_requires_its_node_is_not_asked_about_on_another() {
    // R6.9
    let mut env = asked();
    env.node("n2", 5);
    homeless(&mut env, "g", "root.a", Ask::new("g", "r", 4).requires("n1"));
    assert_eq!(questions(&env), ["r on n1"]);
    env.answer_one();
    assert_eq!(questions(&env), [""; 0]);
}

#[test]
fn of_replacements_that_need_another_node_the_queue_of_higher_priority_has_the_first() {
    // R5.5, R5.12: `lo` came first.
    for (own, other, first) in [(1, 9, "hi"), (9, 1, "lo"), (5, 5, "lo")] {
        let mut env = asked();
        homeless(&mut env, "lo", "root.a", Ask::new("lo", "lo-r", 4).priority(own));
        env.answer_all();
        homeless(&mut env, "hi", "root.b", Ask::new("hi", "hi-r", 4).priority(other));
        env.answer_all();
        env.node("n2", 5);
        assert_eq!(questions(&env), [format!("{first}-r on n2")]);
    }
}

/// n1 is full of `x` of `app-a`; both wait for it, and `high` came last.
#[test]
fn of_asks_with_reservations_the_queue_of_higher_priority_is_served_first() {
    // R5.5, R5.12
    for later in [false, true] {
        let mut env = Env::calm(QUEUES);
        env.node("n1", 10);
        env.node_action("z", NodeAction::CreateDrain, Some(res(100, 100)));
        env.app("app-a", "root.a");
        env.app("app-b", "root.b");
        let low = || Ask::new("app-a", "low", 10).requires("n1").priority(3);
        let high = || Ask::new("app-b", "high", 10).requires("n1").priority(10);
        if later {
            // Its place in the table is after that of one that comes later.
            env.ask(vec![Ask::new("app-b", "f", 1000)]);
        }
        env.ask(vec![Ask::new("app-a", "x", 10).requires("n1").priority(20)]);
        if later {
            env.ask(vec![high()]);
            env.release("app-b", "f", Termination::StoppedByRm);
            env.ask(vec![low()]);
        } else {
            env.ask(vec![low()]);
            env.ask(vec![high()]);
        }
        assert_eq!(env.partition.reservations, 2);
        env.heard();
        env.release("app-a", "x", Termination::StoppedByRm);
        assert_eq!(env.heard().iter().filter(|told| told.starts_with("new")).collect::<Vec<_>>(), ["new high on n1"]);
    }
}

#[test]
fn of_asks_with_reservations_in_a_queue_the_application_and_then_the_ask_in_order_is_served_first() {
    // R5.20, R5.22
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    env.node_action("z", NodeAction::CreateDrain, Some(res(100, 100)));
    for app in ["app-a", "app-b"] {
        env.app(app, "root.a");
    }
    env.ask(vec![Ask::new("app-a", "x", 10).requires("n1")]);
    let waits = [("app-a", "a1", 1), ("app-b", "b2", 2), ("app-b", "b5", 5), ("app-a", "a4", 4)];
    for (app, key, priority) in waits {
        env.ask(vec![Ask::new(app, key, 10).requires("n1").priority(priority)]);
    }
    let mut runs = ("app-a", "x");
    for (app, next) in [("app-b", "b5"), ("app-a", "a4"), ("app-b", "b2"), ("app-a", "a1")] {
        env.heard();
        env.release(runs.0, runs.1, Termination::StoppedByRm);
        assert_eq!(
            env.heard().iter().filter(|told| told.starts_with("new")).collect::<Vec<_>>(),
            [&format!("new {next} on n1")]
        );
        runs = (app, next);
    }
}

#[test]
fn of_queues_of_one_priority_the_reserved_ask_of_the_lower_share_is_served_first() {
    // R5.12: the shares are those of the moment.
    for used in ["app-a", "app-b"] {
        let mut env = Env::calm(QUEUES);
        for node in ["n1", "n2"] {
            env.node(node, 10);
        }
        env.node_action("z", NodeAction::CreateDrain, Some(res(100, 100)));
        env.app("app-a", "root.a");
        env.app("app-b", "root.b");
        env.app("app-c", "root.a");
        env.ask(vec![Ask::new("app-c", "x", 10).requires("n1")]);
        env.ask(vec![Ask::new("app-a", "a", 10).requires("n1"), Ask::new("app-b", "b", 10).requires("n1")]);
        env.ask(vec![Ask::new(used, "y", 5).on("n2")]);
        env.heard();
        env.release("app-c", "x", Termination::StoppedByRm);
        let first = if used == "app-a" { "new b on n1" } else { "new a on n1" };
        assert_eq!(env.heard().iter().filter(|told| told.starts_with("new")).collect::<Vec<_>>(), [first]);
    }
}
