//! Gangs whose driver (originator) runs before their placeholders come: it may be in their way (SEEDS S10, S11).

use callboard::domain::{
    command::Command,
    partition::{Explainer, Why},
    resources::Resource,
    types::{AppState, Termination},
};

use super::env::{Ask, Env, QUEUES};

/// `root.a` has room for so much, and its gangs are placed at once or bit by bit.
fn queues(memory: i64, atomic: bool) -> String {
    let mode = if atomic { "            properties: {gang.admission: atomic}\n" } else { "" };
    QUEUES.replace("- name: a\n", &format!("- name: a\n            resources: {{max: {{memory: {memory}}}}}\n{mode}"))
}

fn driver(size: i64, group: &str) -> Ask {
    Ask::new("g", "driver", size).originator().group(group)
}

fn executors(kind: &str) -> Vec<Ask> {
    let part = |n| Ask::new("g", &format!("{kind}{n}"), 3);
    (1..=3).map(|n| if kind == "p" { part(n).placeholder("exec") } else { part(n).group("exec") }).collect()
}

/// A gang of 10 with a driver of this size, which runs, and its placeholders, that of the driver first or last.
fn with_driver(env: &mut Env, driver: Ask, first: bool) {
    env.gang("g", "root.a", 10, "Hard");
    env.ask(vec![driver]);
    env.answer_all();
    let own = vec![Ask::new("g", "p0", 1).placeholder("driver")];
    let (one, other) = if first { (own, executors("p")) } else { (executors("p"), own) };
    env.ask(one);
    env.ask(other);
    env.answer_all();
}

#[test]
fn a_placeholder_of_a_driver_that_runs_goes_where_its_gang_has_no_room_for_it() {
    // SEEDS S11, seed 003, 112 and 141: the driver is a part of the sum that was announced, and fills its queue with the others.
    for (atomic, asked) in [(false, false), (false, true), (true, false), (true, true)] {
        for first in [false, true] {
            let mut env = Env::calm(&queues(10, atomic));
            env.apply(Command::AskPredicates(asked));
            env.node("n1", 100);
            with_driver(&mut env, driver(1, "driver"), first);
            let heard = env.heard();
            assert!(heard.contains(&"released p0 Timeout".to_owned()), "{atomic} {first}: {heard:?}");
            env.confirm_all();
            env.answer_all();
            assert_eq!(env.partition.placeholders, 3, "{atomic} {first}");
            let group = &env.partition.apps[env.partition.app_by_id["g"]].gang.task_groups["driver"];
            assert_eq!((group.count, group.timed_out, group.live), (1, 1, 0), "R6.3");
            env.ask(executors("r"));
            env.answer_all();
            env.confirm_all();
            env.answer_all();
            assert_eq!((env.partition.placeholders, env.partition.placed()), (0, 4), "{atomic} {first}");
            env.pass(61);
            assert_eq!(env.state("g"), Some(AppState::Running));
            env.end(&["g"]);
        }
    }
}

#[test]
fn where_there_is_room_it_stays() {
    // R6.2, R6.17: until its time is over, as any that is not used; and where a limit of nodes holds the gang up it goes.
    for atomic in [false, true] {
        let mut env = Env::calm(&queues(11, atomic));
        env.node("n1", 100);
        with_driver(&mut env, driver(1, "driver"), true);
        assert_eq!((env.partition.placeholders, env.unconfirmed.len()), (4, 0), "{atomic}");
        env.end(&["g"]);
        let mut env = Env::calm(&queues(100, atomic));
        env.node("n1", 10);
        with_driver(&mut env, driver(1, "driver"), true);
        env.confirm_all();
        assert_eq!(env.partition.placeholders, 3, "{atomic}");
        env.end(&["g"]);
    }
}

#[test]
fn what_others_have_taken_is_waited_for() {
    // SEEDS S11: no placeholder of the gang is more than was announced, and with the driver all of it has come.
    for atomic in [false, true] {
        let mut env = Env::calm(&queues(10, atomic));
        env.node("n1", 100);
        env.app("other", "root.a");
        env.ask(vec![Ask::new("other", "k", 1)]);
        env.gang("g", "root.a", 10, "Soft");
        env.ask(vec![driver(1, "driver")]);
        env.ask(executors("p"));
        env.pass(3600);
        let heard = env.heard();
        let released = heard.iter().filter(|told| told.starts_with("released")).count();
        assert_eq!((env.partition.placeholders, released), (0, 0), "{atomic}: {heard:?}");
        env.release("other", "k", Termination::StoppedByRm);
        assert_eq!(env.partition.placeholders, 3, "{atomic}");
        env.end(&["g"]);
    }
}

#[test]
fn a_gang_in_its_own_way_is_told_so() {
    // R6.23: a driver that is no part of what was announced, or larger than that, leaves the others no room as long as it runs.
    for (atomic, own) in [(false, driver(1, "")), (true, driver(1, "")), (true, driver(4, "driver"))] {
        let mut env = Env::calm(&queues(10, atomic));
        env.node("n1", 100);
        let size = own.spec.resource.clone();
        with_driver(&mut env, own, true);
        let room = |env: &Env| {
            let waiting = Explainer::new(&env.partition).application(env.partition.app_by_id["g"], env.now);
            waiting.into_iter().find_map(|waiting| match waiting.why {
                Why::GangRoom { own, .. } => Some(*own),
                _ => None,
            })
        };
        assert_eq!(room(&env).as_ref(), Some(&*size), "{atomic}");
        let beside = format!(", beside {size} that its application has itself)");
        assert!(env.events.iter().any(|event| event.message.contains(&beside)), "{:?}", env.events);
        // Nobody knows how long that is: the clock starts with the first placeholder.
        env.pass(600);
        assert_eq!((env.partition.placeholders, env.unconfirmed.len()), (0, 0), "{atomic}");
        env.reload(&queues(100, atomic));
        assert!(env.partition.placeholders >= 3, "{atomic}");
        env.remove_app("g");
        env.confirm_all();
        // Others that have taken the room are what it waits for.
        env.reload(&queues(10, atomic));
        env.app("other", "root.a");
        env.ask(vec![Ask::new("other", "k", 5)]);
        env.gang("g", "root.a", 10, "Soft");
        env.ask(executors("p"));
        env.ask(vec![Ask::new("g", "p0", 1).placeholder("driver")]);
        assert_eq!(room(&env), Some(Resource::new()), "{atomic}");
        env.end(&["g", "other"]);
    }
}
