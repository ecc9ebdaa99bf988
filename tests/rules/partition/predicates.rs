//! A shim that is asked about many asks at once: how many questions may be open is bounded, and nothing waits longer for that.

use callboard::domain::{
    command::{AddApplication, Command, NodeAction, PredicateAnswer, PredicateTerms, Turn},
    effect::Effect,
    event::Detail,
    log::Input,
    resources::Resource,
    types::{AppState, Nanos, Termination},
};

use super::env::{Ask, Env, QUEUES, res};

/// Open questions at once.
const BOUND: usize = 256;

/// Asks that have nothing to do with each other.
fn side_by_side() -> Command {
    Command::PredicateTerms(PredicateTerms { constrained: false, nodes: 1, shared: false })
}

fn asks(app: &str, count: usize) -> Vec<Ask> {
    (0..count).map(|n| Ask::new(app, &format!("{app}-{n:04}"), 1)).collect()
}

#[test]
fn what_was_not_asked_about_for_lack_of_room_is_asked_about_later() {
    // R5.27
    let mut env = Env::new(QUEUES);
    env.apply(side_by_side());
    env.apply(Command::AskPredicates(true));
    env.node("n1", 1000);
    for app in ["app-1", "app-2"] {
        env.app(app, "root.a");
        env.ask(asks(app, 150));
    }
    assert_eq!(env.questions.len(), BOUND);
    for answered in 1..=44 {
        env.answer_one();
        assert_eq!(env.questions.len(), BOUND, "after answer {answered} the next question takes its place");
    }
    let next = env.questions[0].key.to_string();
    env.refuse(&next, "n1");
    env.answer_all();
    assert_eq!(env.partition.allocations, 299, "all but the refused one");
    env.end(&["app-1", "app-2"]);
}

/// The shim is asked about so many of app-1, and gangs of root.a are placed all at once.
fn asked_about(open: usize) -> Env {
    let atomic = QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n");
    let mut env = Env::new(&atomic);
    env.apply(side_by_side());
    env.apply(Command::AskPredicates(true));
    env.node("n1", 2000);
    env.app("app-1", "root.b");
    env.ask(asks("app-1", open));
    assert_eq!(env.questions.len(), open);
    env
}

#[test]
fn a_gang_too_large_to_be_asked_about_beside_others_gets_its_turn() {
    for size in [BOUND - 30, BOUND + 10] {
        let mut env = asked_about(60);
        env.gang("gang", "root.a", size as i64, "Soft");
        let placeholders = (0..size).map(|n| Ask::new("gang", &format!("gang-p{n:04}"), 1).placeholder("tg"));
        env.ask(placeholders.collect());
        // Others come all the time, and do not keep it from its turn.
        for n in 0..100 {
            env.ask(vec![Ask::new("app-1", &format!("later-{n}"), 1)]);
            env.answer_one();
        }
        env.answer_all();
        assert_eq!((env.partition.placeholders, env.partition.allocations), (size as u64, 160 + size as u64));
        env.end(&["app-1", "gang"]);
    }
}

#[test]
fn a_gang_that_goes_is_not_waited_for() {
    let mut env = asked_about(200);
    env.gang("gang", "root.a", 100, "Soft");
    env.ask((0..100).map(|n| Ask::new("gang", &format!("gang-p{n:03}"), 1).placeholder("tg")).collect());
    env.ask(vec![Ask::new("app-1", "later", 1)]);
    assert_eq!(env.questions.len(), 200, "nothing is asked before there is room for the gang");
    env.remove_app("gang");
    assert!(env.questions.iter().any(|question| &*question.key == "later"));
}

#[test]
fn of_gangs_that_wait_to_be_asked_about_the_first_in_order_comes_first() {
    // R5.20
    let mut env = asked_about(200);
    let gang = |app: &str, priority| -> Vec<Ask> {
        let placeholders = (0..100).map(|n| Ask::new(app, &format!("{app}-p{n:03}"), 1).placeholder("tg"));
        placeholders.map(|ask| ask.priority(priority)).collect()
    };
    let mut both = Vec::new();
    for (app, priority) in [("low", 0), ("high", 10)] {
        env.gang(app, "root.a", 100, "Soft");
        both.extend(gang(app, priority));
    }
    env.ask(both);
    assert_eq!(env.questions.len(), 200, "there is no room for a gang");
    while env.questions.len() <= 200 {
        env.answer_one();
    }
    assert!(env.questions.iter().any(|question| question.key.starts_with("high")));
    assert!(!env.questions.iter().any(|question| question.key.starts_with("low")));
    env.answer_all();
    assert_eq!(env.partition.placeholders, 200);
}

#[test]
fn what_nobody_answers_is_asked_about_again_at_once() {
    // R5.27: the stream to the shim was lost, which says nothing of the node.
    let atomic = QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n");
    for (yaml, gang, placeholder) in
        [(QUEUES, false, false), (QUEUES, true, false), (&atomic, true, false), (QUEUES, true, true)]
    {
        let mut env = Env::new(yaml);
        env.apply(Command::AskPredicates(true));
        env.node("n1", 10);
        env.gang("app-1", "root.a", if gang { 8 } else { 0 }, "Soft");
        let mut asks = vec![Ask::new("app-1", "k1", 4), Ask::new("app-1", "k2", 4)];
        if gang {
            asks = asks.into_iter().map(|ask| ask.placeholder("tg")).collect();
        }
        env.ask(asks);
        if placeholder {
            env.answer_all();
            env.ask(vec![Ask::new("app-1", "r1", 4).group("tg")]);
        }
        let keys = |env: &Env| env.questions.iter().map(|question| question.key.to_string()).collect::<Vec<_>>();
        let before = (keys(&env), env.partition.audit());
        assert!(!before.0.is_empty());
        for _ in 0..3 {
            for _ in 0..before.0.len() {
                env.unanswered();
            }
            env.questions.drain(..env.questions.len() - before.0.len());
            assert_eq!((keys(&env), env.partition.audit()), before);
        }
        assert_eq!(env.log("app-1", &before.0[0]), [""; 0], "nothing was refused");
        env.answer_all();
        env.confirm_all();
        let (placeholders, others) = if placeholder {
            (1, 1)
        } else if gang {
            (2, 0)
        } else {
            (0, 2)
        };
        assert_eq!((env.partition.placeholders, env.partition.allocations), (placeholders, placeholders + others));
        env.end(&["app-1"]);
    }
}

#[test]
fn an_ask_about_which_nobody_answered_is_not_said_to_wait_for_nodes() {
    // R4.37
    let atomic = QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n");
    for (refused, gang) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut env = Env::new(if gang { &atomic } else { QUEUES });
        env.apply(Command::AskPredicates(true));
        env.node("n1", 10);
        if gang {
            env.gang("app-1", "root.a", 8, "Soft");
            env.ask(["k1", "k2"].map(|key| Ask::new("app-1", key, 4).placeholder("tg")).into());
        } else {
            env.app("app-1", "root.a");
            env.ask(vec![Ask::new("app-1", "k1", 4)]);
        }
        let question = env.questions[0].id;
        env.questions.clear();
        env.heard();
        // The session is Paused from here on: nothing is scheduled.
        env.apply(if refused {
            let result = Err("taint".into());
            Command::Predicate(PredicateAnswer { question, result, index: 0, refused: Vec::new() })
        } else {
            Command::Unanswered(question)
        });
        env.now = env.now.plus(Nanos::from_secs(5));
        env.apply(Command::Tick);
        let all = if gang { 2 } else { 1 };
        assert_eq!(env.heard(), ["k1 Failed", "k2 Failed"][..if refused { all } else { 0 }]);
        if !refused {
            env.run();
            env.answer_all();
            let heard = env.heard();
            let placed = ["new k1 on n1", "new k2 on n1"].map(str::to_owned);
            assert!(placed[..all].iter().all(|word| heard.contains(word)), "{heard:?}");
        }
    }
}

#[test]
fn refusals_are_told_once_in_fifteen_seconds_per_ask() {
    // EVT-015
    let mut env = Env::new(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 100);
    env.app("app-1", "root.a");
    for key in ["k1", "k2"] {
        env.ask(vec![Ask::new("app-1", key, 1)]);
    }
    let mut refused = 0;
    for second in 0..40 {
        while !env.questions.is_empty() && refused < 1_000 {
            env.answer(Err("no such volume".into()), 0);
            refused += 1;
        }
        // A node that changes is worth another question.
        env.node_action("n1", NodeAction::Update, Some(res(101 + second, 101 + second)));
        env.pass(1);
    }
    assert!(refused >= 20, "asked again and again: {refused}");
    for key in ["k1", "k2"] {
        let text = format!("Unschedulable request '{key}': no such volume (1x); ");
        let told: Vec<Nanos> =
            env.events.iter().filter(|event| *event.message == *text).map(|event| event.at).collect();
        assert!(told.len() >= 2, "{key}: {told:?}");
        assert!(told.windows(2).all(|pair| pair[1].minus(pair[0]) >= Nanos::from_secs(15)), "{key}: {told:?}");
    }
}

#[test]
fn a_turn_while_its_own_question_is_open_is_kept_until_the_answer() {
    // R5.27: a partition that asked before there were others is no reason to pass a turn to and fro without an end.
    let mut env = Env::new(QUEUES);
    env.apply(Command::AskPredicates(true));
    let terms = |shared| Command::PredicateTerms(PredicateTerms { constrained: true, nodes: 1, shared });
    env.apply(terms(false));
    env.node("n1", 100);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 1), Ask::new("app-1", "k2", 1)]);
    env.run();
    assert_eq!(env.questions.len(), 1);
    env.apply(terms(true));
    let words = |env: &mut Env, command| {
        let mut effects = Vec::new();
        env.made(Input::Apply(command), &mut effects);
        while env.made(Input::Schedule { max: 10 }, &mut effects) > 0 {}
        let words = effects.iter().filter_map(|effect| match effect {
            Effect::Turn(word) => Some(format!("{word:?}")),
            _ => None,
        });
        words.collect::<Vec<_>>()
    };
    assert_eq!(words(&mut env, Command::Tick), ["Wanted"]);
    assert!(words(&mut env, Command::Turn(Turn::Yours)).is_empty());
}

#[test]
fn an_application_does_not_complete_while_its_placeholders_are_asked_about() {
    // R3.15: they wait, as far as anybody knows, though they are charged.
    let atomic = QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n");
    for (yaml, agreed) in [(QUEUES, true), (QUEUES, false), (&atomic, true), (&atomic, false)] {
        let mut env = Env::new(yaml);
        env.apply(Command::AskPredicates(true));
        env.node("n1", 100);
        env.app("app-1", "root.a");
        env.ask(vec![Ask::new("app-1", "k1", 1)]);
        env.answer_all();
        env.ask(["p1", "p2"].map(|key| Ask::new("app-1", key, 1).placeholder("tg")).into());
        assert!(!env.questions.is_empty());
        env.release("app-1", "k1", Termination::StoppedByRm);
        assert_eq!(env.state("app-1"), Some(AppState::Running));
        if !agreed {
            env.refuse("p1", "n1");
            env.refuse("p2", "n1");
        }
        env.answer_all();
        env.pass(60);
        assert_eq!(env.state("app-1"), Some(AppState::Running));
        // What was refused is asked about again after a while.
        env.answer_all();
        assert_eq!(env.partition.placeholders, if agreed { 2 } else { 0 });
        for key in ["p1", "p2"] {
            env.release("app-1", key, Termination::StoppedByRm);
        }
        assert_eq!(env.state("app-1"), Some(AppState::Completing));
        env.pass(31);
        assert_eq!(env.state("app-1"), None);
        env.assert_empty();
    }
}

#[test]
fn who_takes_the_place_of_a_placeholder_that_fails_is_asked_about_anew() {
    // R4.28, R6.6: one real ask at a time is asked about with a placeholder.
    let mut env = Env::new(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 10);
    env.gang("gang", "root.a", 8, "Soft");
    env.ask(vec![Ask::new("gang", "p1", 8).placeholder("tg")]);
    env.answer_all();
    env.ask(["r1", "r2"].map(|key| Ask::new("gang", key, 3).group("tg")).into());
    let keys = |env: &Env| env.questions.iter().map(|question| question.key.to_string()).collect::<Vec<_>>();
    assert_eq!(keys(&env), ["r1"]);
    env.release("gang", "p1", Termination::FailedOnRm);
    let void = env.questions.remove(0);
    assert_eq!(keys(&env), ["p1"]);
    env.answer_one();
    assert_eq!(keys(&env), ["r1"]);
    // The answer to what was asked before comes late, and says nothing.
    env.questions.insert(0, void);
    env.answer_one();
    assert_eq!((keys(&env), env.unconfirmed.len()), (vec!["r1".to_owned()], 0));
    env.answer_all();
    env.confirm_all();
    env.answer_all();
    assert_eq!((env.partition.placeholders, env.partition.allocations), (0, 2));
    env.end(&["gang"]);
}

#[test]
fn what_the_shim_refuses_holds_no_place_of_its_user() {
    // R5.27, R3.52, SEEDS S28: charged and shown to nobody, also where other asks of the application wait.
    let limited = QUEUES.replace(
        "- name: a\n",
        "- name: a\n            limits: [{limit: alice, users: [alice], maxapplications: 1}]\n",
    );
    let mut env = Env::new(&limited);
    env.apply(side_by_side());
    env.apply(Command::AskPredicates(true));
    env.node("n1", 50);
    for app in ["app-1", "app-2"] {
        env.app(app, "root.a");
    }
    env.ask(vec![Ask::new("app-1", "bad1", 2), Ask::new("app-1", "bad2", 3)]);
    env.ask(vec![Ask::new("app-2", "k", 2)]);
    for key in ["bad1", "bad2"] {
        env.refuse(key, "n1");
    }
    env.answer_all();
    assert!(env.heard().contains(&"new k on n1".to_owned()), "{:?}", env.told);
    let user = env.partition.ugm.users().next().expect("a user");
    assert_eq!(user.root.applications, ["app-2".into()]);
    // One that has something keeps its place.
    env.ask(vec![Ask::new("app-2", "bad3", 2), Ask::new("app-2", "waits", 100)]);
    env.refuse("bad3", "n1");
    let user = env.partition.ugm.users().next().expect("a user");
    assert_eq!(user.root.applications, ["app-2".into()]);
}

/// Leaves with a limit each: of applications or of memory, of the queue, of each user or of a group.
const LIMITS: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: queue-apps\n            \
                      maxapplications: 1\n          - name: queue-quota\n            resources: {max: {memory: 10}}\n          - name: user-apps\n            \
                      limits: [{limit: l, users: ['*'], maxapplications: 1}]\n          - name: user-quota\n            limits: [{limit: l, users: ['*'], maxresources: {memory: 10}}]\n          \
                      - name: group-apps\n            limits: [{limit: l, groups: [staff], maxapplications: 1}]\n          - name: group-quota\n            limits: [{limit: l, groups: \
                      [staff], maxresources: {memory: 10}}]\n";

/// The shim is asked about an ask that fills a limit, and another one of another application comes.
fn filled_by_a_question(queue: &str) -> Env {
    let mut env = Env::new(LIMITS);
    env.apply(side_by_side());
    env.apply(Command::AskPredicates(true));
    env.node("n1", 100);
    env.refuse("first", "n1");
    for (app, key) in [("app-1", "first"), ("app-2", "second")] {
        let user = if queue.contains("group") { app } else { "alice" };
        let queue = format!("root.{queue}").into();
        env.add_app(AddApplication { id: app.into(), queue, ..env.by(user) });
        env.ask(vec![Ask::new(app, key, 6)]);
    }
    assert_eq!(env.questions.len(), 1, "{queue}: {:?}", env.questions);
    env.heard();
    env.events.clear();
    env
}

const FILLED: [&str; 6] = ["queue-apps", "queue-quota", "user-apps", "user-quota", "group-apps", "group-quota"];

#[test]
fn what_only_a_question_holds_back_is_told_when_it_is_answered() {
    // R5.23, R5.27, SEEDS S7: what the shim may still refuse is no reason to tell that another ask has to wait.
    for queue in FILLED {
        let mut env = filled_by_a_question(queue);
        env.pass(1);
        assert_eq!(env.heard(), [""; 0], "{queue}: nobody knows yet");
        assert_eq!(env.events.iter().map(|event| &*event.message).collect::<Vec<_>>(), [""; 0], "{queue}");
        assert_eq!(env.log("app-2", "second"), [""; 0], "{queue}");
        env.refusals.clear();
        env.answer_one();
        env.pass(1);
        assert_eq!(env.questions.len(), 0, "{queue}");
        let heard = env.heard();
        assert!(heard.contains(&"new first on n1".to_owned()), "{queue}: {heard:?}");
        assert_eq!(heard.last().map(String::as_str), Some("second Skipped"), "{queue}: {heard:?}");
        env.remove_app("app-1");
        env.answer_all();
        assert!(env.heard().contains(&"new second on n1".to_owned()), "{queue}");
        env.end(&["app-2"]);
    }
}

#[test]
fn what_the_shim_refuses_has_held_nobody_back() {
    // R5.27: another core asks its shim within the decision, and goes on to the next ask.
    for queue in FILLED {
        let mut env = filled_by_a_question(queue);
        env.answer_one();
        assert_eq!(env.questions.iter().map(|question| &*question.key).collect::<Vec<_>>(), ["second"], "{queue}");
        env.answer_all();
        let heard = env.heard();
        assert!(heard.contains(&"new second on n1".to_owned()), "{queue}: {heard:?}");
        assert!(!heard.contains(&"second Skipped".to_owned()), "{queue}: {heard:?}");
        let told: Vec<&str> =
            env.events.iter().map(|event| &*event.message).filter(|text| text.contains("second")).collect();
        assert_eq!(told, [""; 0], "{queue}");
        env.end(&["app-1", "app-2"]);
    }
}

#[test]
fn a_question_counts_against_the_applications_that_may_run() {
    // QUE-090, QUE-091: with many answers under way no more run than may.
    let mut env = Env::calm(LIMITS);
    env.apply(side_by_side());
    env.apply(Command::AskPredicates(true));
    env.node("n1", 100);
    for n in 1..=3 {
        env.app(&format!("app-{n}"), "root.queue-apps");
    }
    for n in 1..=3 {
        env.ask(vec![Ask::new(&format!("app-{n}"), &format!("k{n}"), 1)]);
    }
    let asked = |env: &Env| env.questions.iter().map(|question| question.key.to_string()).collect::<Vec<_>>();
    assert_eq!(asked(&env), ["k1"]);
    let queue = env.partition.queue_by_path["root.queue-apps"];
    assert_eq!(env.partition.allocating(queue).count(), 0, "for all to see it has not begun");
    env.unanswered();
    assert_eq!(asked(&env), ["k1"], "the one that nobody answered comes first again");
    env.answer_all();
    assert_eq!((env.state("app-1"), env.state("app-2")), (Some(AppState::Running), Some(AppState::Accepted)));
    env.release("app-1", "k1", Termination::StoppedByRm);
    assert_eq!(asked(&env), ["k2"]);
    env.remove_app("app-2");
    assert_eq!(asked(&env), ["k2", "k3"], "app-3 is next");
    assert_eq!(env.partition.queues[queue].allocating.len(), 1, "app-2 counts no more");
}

#[test]
fn what_is_allocated_in_a_queue_is_told_without_what_the_shim_is_asked_about() {
    // EVT-04B
    let mut env = Env::new(QUEUES);
    env.apply(side_by_side());
    env.apply(Command::AskPredicates(true));
    env.node("n1", 10);
    env.app("app-1", "root.a");
    env.ask(asks("app-1", 2));
    for allocated in [1, 2] {
        env.events.clear();
        env.answer_one();
        let told: Vec<_> = env.events.iter().filter(|event| event.detail == Detail::QueueAlloc).collect();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].resource.as_deref(), Some(&res(allocated, allocated)));
    }
}

#[test]
fn a_limit_that_a_question_filled_is_told_to_who_waited_for_nodes_before() {
    // R4.35, SEEDS S7: with the answer, which charges nothing.
    let mut env = Env::new(LIMITS);
    env.apply(side_by_side());
    env.apply(Command::AskPredicates(true));
    env.node("n1", 6);
    for (app, key, size) in [("app-2", "second", 7), ("app-1", "first", 6)] {
        env.app(app, "root.queue-quota");
        env.ask(vec![Ask::new(app, key, size)]);
    }
    env.heard();
    env.pass(1);
    assert!(!env.heard().contains(&"second Skipped".to_owned()));
    env.answer_all();
    env.pass(1);
    assert!(env.heard().contains(&"second Skipped".to_owned()));
}

#[test]
fn a_refusal_changes_nothing_of_what_its_application_has_had() {
    // UGM-041, 002: it has no allocation any more, but an ask that waits; its group is chosen once.
    for refused in [true, false] {
        let mut env = Env::new(&QUEUES.replace(
            "- name: a\n",
            "- name: a\n            limits: [{limit: l, groups: [staff], maxresources: {memory: 100}}]\n",
        ));
        env.apply(side_by_side());
        env.apply(Command::AskPredicates(true));
        env.node("n1", 50);
        env.app("app-1", "root.a");
        env.ask(vec![Ask::new("app-1", "k1", 2), Ask::new("app-1", "big", 60)]);
        env.answer_all();
        env.ask(vec![Ask::new("app-1", "k2", 2)]);
        env.release("app-1", "k1", Termination::StoppedByRm);
        env.events.clear();
        if refused {
            env.refuse("k2", "n1");
            env.answer_all();
        } else {
            env.unanswered();
        }
        let links = env.events.iter().filter(|event| event.detail == Detail::AppLink).count();
        assert_eq!(links, 0);
        let usage = env.partition.usage();
        let staff = usage.group_named("staff").expect("listed");
        assert_eq!((staff.applications.len(), staff.root.usage.is_empty()), (1, true));
    }
}

#[test]
fn what_the_shim_is_asked_about_is_no_usage_yet() {
    // SEEDS S28
    let mut env = Env::new(QUEUES);
    env.apply(side_by_side());
    env.apply(Command::AskPredicates(true));
    env.node("n1", 50);
    env.app("app-1", "root.a");
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-1", "k1", 2)]);
    assert_eq!(env.partition.usage().users().count(), 0);
    env.answer_all();
    env.ask(vec![Ask::new("app-1", "k2", 3), Ask::new("app-2", "k3", 4)]);
    let alice = env.partition.usage().user("alice").expect("listed");
    assert_eq!((alice.root.usage.clone(), alice.root.applications.len()), (res(2, 2), 1));
    let used: Vec<_> = alice.root.children.iter().map(|child| child.usage.clone()).collect();
    assert_eq!(used, [res(2, 2)]);
    env.answer_all();
    let alice = env.partition.usage().user("alice").expect("listed");
    assert_eq!(alice.root.usage, res(9, 9));
}

#[test]
fn what_the_shim_is_asked_about_waits_for_all_to_see() {
    // R4.32, QUE-040, QUE-082: placed, replacing, reserved and preempting, whatever of it is charged meanwhile.
    let yaml = QUEUES
        .replace("- name: a\n", "- name: a\n            resources: {guaranteed: {memory: 50}}\n            properties: {preemption.delay: 1s, priority.offset: '3'}\n");
    let mut env = Env::calm(&yaml);
    env.apply(Command::AskPredicates(true));
    env.node("n1", 50);
    env.node("n2", 9);
    env.node_action("n2", NodeAction::Drain, None);
    let shown = |env: &Env, app: &str, queue: &str| {
        let partition = &env.partition;
        let row = &partition.apps[partition.app_by_id[app]];
        let at = partition.queue_by_path[queue];
        let root = partition.queues[partition.root].waiting();
        let (of_app, of_queue) = (row.waiting().pruned(), partition.queues[at].waiting().pruned());
        assert!(root.ge_all(&of_queue), "{root} {of_queue}");
        (of_app, of_queue, partition.priority_of_app(row), partition.priority_of_queue(at))
    };
    let waits = |size: i64, priority: i32, offset: i32| (res(size, size), res(size, size), priority, priority + offset);
    env.gang("app-1", "root.a", 10, "Soft");
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg").priority(5)]);
    assert_eq!((env.questions.len(), shown(&env, "app-1", "root.a")), (1, waits(10, 5, 3)));
    env.answer_all();
    env.ask(vec![Ask::new("app-1", "r1", 8).group("tg").priority(7)]);
    assert_eq!((env.questions.len(), shown(&env, "app-1", "root.a")), (1, waits(8, 7, 3)));
    env.answer_all();
    let nothing = (Resource::new(), Resource::new(), i32::MIN, i32::MIN);
    assert_eq!(shown(&env, "app-1", "root.a"), nothing, "R6.13");
    env.confirm_all();
    env.app("app-2", "root.b");
    env.ask((0..4).map(|n| Ask::new("app-2", &format!("v{n}"), 10).preempts()).collect());
    env.answer_all();
    env.ask(vec![Ask::new("app-2", "m1", 10).priority(9)]);
    env.pass(3);
    assert_eq!((env.questions.len(), shown(&env, "app-2", "root.b")), (1, waits(10, 9, 0)));
    env.answer_all();
    env.release("app-2", "m1", Termination::StoppedByRm);
    env.app("app-3", "root.a");
    env.ask(vec![Ask::new("app-3", "w1", 10).preempts().priority(4)]);
    env.pass(2);
    assert!(env.questions.iter().any(|question| &*question.key == "w1"));
    assert_eq!(shown(&env, "app-3", "root.a"), waits(10, 4, 3));
    env.ask(vec![Ask::new("app-3", "w1", 12).preempts().priority(4)]);
    assert_eq!(shown(&env, "app-3", "root.a"), waits(12, 4, 3), "it was asked for anew");
    env.end(&["app-1", "app-2", "app-3"]);
    assert!(env.partition.queues.values().all(|queue| queue.waiting().is_zero()));
}

#[test]
fn one_that_the_shim_was_told_of_is_not_to_be_told_of_again_after_a_question_without_an_answer() {
    // R4.37, R4.38
    let mut env = Env::new(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    env.node("n1", 1);
    env.ask(vec![Ask::new("app-1", "k1", 4)]);
    env.pass(2);
    assert!(env.heard().contains(&"k1 Failed".to_owned()));
    env.node("n2", 4);
    let question = env.questions.remove(0).id;
    env.apply(Command::Unanswered(question));
    env.node_action("n2", NodeAction::Drain, None);
    env.pass(5);
}
