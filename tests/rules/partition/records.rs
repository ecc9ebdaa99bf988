//! The events of section 9 of the queue rules that scheduling makes: what, when, with which texts.

use callboard::domain::{
    alloc::Foreign,
    command::{Command, NodeAction},
    event::{Event, EventKind},
    types::Termination,
};

use super::env::{Ask, Env, QUEUES, res};

/// The events of these kinds since the last call, as short texts.
fn events(env: &mut Env, kinds: &[EventKind]) -> Vec<String> {
    let text = |event: Event| {
        let parts = [
            format!("{:?}", event.change),
            format!("{:?}", event.detail),
            event.object.to_string(),
            event.reference.to_string(),
            event.message.to_string(),
        ];
        parts.into_iter().filter(|part| !part.is_empty() && part != "None").collect::<Vec<_>>().join(" ")
    };
    std::mem::take(&mut env.events).into_iter().filter(|event| kinds.contains(&event.kind)).map(text).collect()
}

/// Those with this detail.
fn details(env: &mut Env, detail: &str) -> Vec<String> {
    let mut all = events(env, &[EventKind::App, EventKind::Node, EventKind::Queue]);
    all.retain(|text| text.split(' ').nth(1) == Some(detail));
    all
}

/// Ask big of app-1 has reserved node n1, which is full; n2 is too small.
fn reserved() -> Env {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.node("n2", 8);
    env.app("app-1", "root.a");
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-2", "small", 15).on("n1")]);
    env.ask(vec![Ask::new("app-1", "big", 10)]);
    env.events.clear();
    env.pass(3);
    assert_eq!(details(&mut env, "NodeReservation"), ["Add NodeReservation n1 big"]);
    env
}

#[test]
fn every_end_of_a_reservation_has_its_event() {
    // EVT-036, R5.31, R5.38, R5.41, R4.11, R4.12
    type End = (&'static str, fn(&mut Env));
    let ends: &[End] = &[
        ("placed", |env| env.release("app-2", "small", Termination::StoppedByRm)),
        ("placed elsewhere", |env| env.node("n3", 10)),
        ("placed by the shim", |env| env.ask(vec![Ask::new("app-1", "big", 10).on("n2")])),
        ("released", |env| env.release("app-1", "big", Termination::StoppedByRm)),
        ("too large now", |env| env.ask(vec![Ask::new("app-1", "big", 21)])),
        ("the application goes", |env| env.remove_app("app-1")),
        ("the node goes", |env| env.node_action("n1", NodeAction::Decommission, None)),
        ("the node shrinks", |env| env.node_action("n1", NodeAction::Update, Some(res(9, 9)))),
        ("the node is required", |env| env.ask(vec![Ask::new("app-2", "ds", 5).requires("n1")])),
        ("the partition stops", |env| env.stop(64)),
    ];
    for (name, end) in ends {
        let mut env = reserved();
        end(&mut env);
        let heard = details(&mut env, "NodeReservation");
        let gone: Vec<&String> = heard.iter().filter(|text| text.starts_with("Remove")).collect();
        assert_eq!(gone, ["Remove NodeReservation n1 big"], "{name}");
    }
}

#[test]
fn a_reservation_carries_what_was_asked_for() {
    // EVT-036
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    env.node("n2", 20);
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "small", 15).on("n1")]);
    env.ask(vec![Ask::new("app-1", "ds", 10).requires("n1")]);
    let made = env.events.iter().find(|event| event.detail as i32 == 306).expect("reserved");
    assert_eq!((made.kind, made.change as i32, made.resource.as_deref()), (EventKind::Node, 2, Some(&res(10, 10))));
}

#[test]
fn the_life_of_an_allocation() {
    // EVT-023 to EVT-026, EVT-033, EVT-034, R4.36
    let both = [EventKind::App, EventKind::Node];
    let ends: &[(Termination, &[&str])] = &[
        (
            Termination::StoppedByRm,
            &["Remove AllocCancel app-1 k1", "Remove NodeAlloc n1 k1", "Remove RequestCancel app-1 k1"],
        ),
        // What is not said counts as stopped by the shim, but is told as it came.
        (
            Termination::Unknown,
            &["Remove AllocNodeRemoved app-1 k1", "Remove NodeAlloc n1 k1", "Remove RequestCancel app-1 k1"],
        ),
        (
            Termination::Preempted,
            &["Remove AllocPreempt app-1 k1", "Remove NodeAlloc n1 k1", "Remove RequestCancel app-1 k1"],
        ),
        // R4.19: its record stays.
        (Termination::Timeout, &["Remove AllocTimeout app-1 k1", "Remove NodeAlloc n1 k1"]),
    ];
    for (termination, wanted) in ends {
        let mut env = Env::calm(QUEUES);
        env.node("n1", 20);
        env.app("app-1", "root.a");
        env.ask(vec![Ask::new("app-1", "stays", 5)]);
        env.events.clear();
        env.ask(vec![Ask::new("app-1", "k1", 10)]);
        assert_eq!(
            events(&mut env, &both),
            ["Add AppRequest app-1 k1", "Set RequestAlloc app-1 k1", "Add NodeAlloc n1 k1", "Add AppAlloc app-1 k1"]
        );
        env.ask(vec![Ask::new("app-1", "k1", 12)]);
        assert_eq!(events(&mut env, &both), [""; 0], "EVT-037: another size is no event");
        env.release("app-1", "k1", *termination);
        assert_eq!(events(&mut env, &both), *wanted, "{termination:?}");
    }
}

#[test]
fn asks_that_go_before_they_are_placed() {
    // EVT-024, R4.36
    let mut env = Env::calm(QUEUES);
    env.gang("app-1", "root.a", 20, "Soft");
    env.node("n1", 10);
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg"), Ask::new("app-1", "ph2", 10).placeholder("tg")]);
    env.ask(vec![Ask::new("app-1", "k1", 30)]);
    env.events.clear();
    env.release("app-1", "k1", Termination::StoppedByRm);
    assert_eq!(events(&mut env, &[EventKind::App]), ["Remove RequestCancel app-1 k1"]);
    env.pass(61);
    let heard = events(&mut env, &[EventKind::App]);
    assert!(heard.contains(&"Remove RequestTimeout app-1 ph2".to_owned()), "{heard:?}");
    // So does the ask of a placeholder that was placed, and once only.
    assert!(heard.contains(&"Remove RequestTimeout app-1 ph1".to_owned()), "{heard:?}");
    env.release("app-1", "ph1", Termination::Timeout);
    let heard = events(&mut env, &[EventKind::App]);
    assert!(heard.contains(&"Remove AllocTimeout app-1 ph1".to_owned()), "{heard:?}");
    assert!(!heard.iter().any(|event| event.contains("Request")), "{heard:?}");
}

#[test]
fn the_request_of_a_placeholder_goes_with_its_record_on_every_way() {
    // EVT-024, R6.15: it is replaced after the shim was asked about the real one once more.
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.gang("app-1", "root.a", 10, "Soft");
    env.node("n1", 10);
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    env.answer_all();
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.answer_all();
    env.confirm_all();
    env.answer_all();
    let heard = events(&mut env, &[EventKind::App]);
    assert!(heard.contains(&"Add AppAlloc app-1 r1".to_owned()), "{heard:?}");
    assert_eq!(heard.iter().filter(|event| *event == "Remove RequestCancel app-1 ph1").count(), 1, "{heard:?}");
    // R6.18: its node goes before the shim has confirmed its time-out.
    let mut env = Env::calm(QUEUES);
    env.gang("app-1", "root.a", 20, "Soft");
    env.node("n1", 10);
    env.node("n2", 10);
    env.ask((1..=2).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg").on(&format!("n{n}"))).collect());
    env.pass(61);
    env.node_action("n1", NodeAction::Decommission, None);
    env.release("app-1", "ph2", Termination::Timeout);
    let heard = events(&mut env, &[EventKind::App]);
    for key in ["ph1", "ph2"] {
        let told = heard.iter().filter(|event| **event == format!("Remove RequestTimeout app-1 {key}"));
        assert_eq!(told.count(), 1, "{key}: {heard:?}");
    }
}

#[test]
fn a_hard_gang_that_times_out_tells_of_each_request_once() {
    // EVT-024, R6.19
    let mut env = Env::calm(QUEUES);
    env.gang("app-1", "root.a", 20, "Hard");
    env.node("n1", 10);
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg"), Ask::new("app-1", "ph2", 10).placeholder("tg")]);
    env.events.clear();
    env.pass(61);
    // Whatever type the shim names.
    env.release("app-1", "ph1", Termination::StoppedByRm);
    let heard = events(&mut env, &[EventKind::App]);
    let of_requests: Vec<_> = heard.iter().filter(|event| event.contains("Request")).collect();
    assert_eq!(of_requests, ["Remove RequestTimeout app-1 ph1", "Remove RequestTimeout app-1 ph2"], "{heard:?}");
}

#[test]
fn a_node_and_what_is_on_it() {
    // EVT-030 to EVT-035, R2.12, R2.15–R2.18, R2.21
    let all = [EventKind::Node, EventKind::App];
    let mut env = Env::calm(QUEUES);
    env.node("n1", 20);
    assert_eq!(
        events(&mut env, &all),
        ["Set NodeSchedulable n1 schedulable: true", "Add n1 Node added to the scheduler"]
    );
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.events.clear();
    let foreign = |env: &mut Env, size: i64| {
        let mut ask = Ask::new("", "f", size).on("n1");
        ask.spec.foreign = Some(Foreign::Default);
        env.ask(vec![ask]);
    };
    foreign(&mut env, 4);
    // EVT-038: what is occupied now.
    assert_eq!(env.events[1].resource.as_deref(), Some(&res(4, 4)));
    assert_eq!(events(&mut env, &all), ["Add NodeAlloc n1 f", "Set NodeOccupied n1"]);
    foreign(&mut env, 6);
    assert_eq!(env.events[0].resource.as_deref(), Some(&res(6, 6)));
    assert_eq!(events(&mut env, &all), ["Set NodeOccupied n1"]);
    foreign(&mut env, 6);
    assert_eq!(events(&mut env, &all), [""; 0]);
    foreign(&mut env, 0);
    // Types of which nothing is left are not listed (RES-026).
    assert_eq!(env.partition.nodes[env.partition.node_by_id["n1"]].occupied.iter().count(), 0);
    foreign(&mut env, 6);
    events(&mut env, &all);
    env.release("", "f", Termination::StoppedByRm);
    assert_eq!(events(&mut env, &all), ["Remove NodeAlloc n1 f", "Set NodeOccupied n1"]);
    env.node_action("n1", NodeAction::Update, Some(res(30, 30)));
    assert_eq!(env.events[0].resource.as_deref(), Some(&res(30, 30)));
    assert_eq!(events(&mut env, &all), ["Set NodeCapacity n1"]);
    env.node_action("n1", NodeAction::Update, Some(res(30, 30)));
    env.node_action("n1", NodeAction::Drain, None);
    env.node_action("n1", NodeAction::Drain, None);
    assert_eq!(events(&mut env, &all), ["Set NodeSchedulable n1 schedulable: false"], "nothing where nothing changes");
    env.node_action("n1", NodeAction::Decommission, None);
    assert_eq!(
        events(&mut env, &all),
        [
            "Set NodeSchedulable n1 schedulable: false",
            "Remove AllocNodeRemoved app-1 k1",
            "Set AppCompleting app-1",
            "Remove NodeDecommission n1 Node removed from the scheduler",
        ]
    );
}

#[test]
fn limits_of_queues_and_users_are_told_on_the_edge() {
    // EVT-011 to EVT-014, EVT-01A, EVT-01B, R4.35
    let yaml = QUEUES.replace("- name: a\n", "- name: a\n            resources: {max: {memory: 30}}\n").replace(
        "- name: b\n",
        "- name: b\n            limits:\n              - limit: x\n                users: [alice]\n                maxresources: {memory: 30}\n",
    );
    let mut env = Env::calm(&yaml);
    env.node("n1", 100);
    for (app, queue, refused, passed) in [
        (
            "app-1",
            "root.a",
            "k2 app-1 Request 'k2' does not fit in queue 'root.a' (requested map[memory:10 vcore:10], available map[memory:5 vcore:75])",
            "k2 app-1 Request 'k2' has become schedulable in queue 'root.a'",
        ),
        (
            "app-2",
            "root.b",
            "k2 app-2 Request 'k2' exceeds the available user quota (requested map[memory:10 vcore:10], available map[memory:5])",
            "k2 app-2 Request 'k2' fits in the available user quota",
        ),
    ] {
        env.app(app, queue);
        env.ask(vec![Ask::new(app, "k1", 25)]);
        env.ask(vec![Ask::new(app, "k2", 10)]);
        // Looked at again and again, told once.
        env.node("n2", 50);
        env.node_action("n2", NodeAction::Decommission, None);
        env.pass(5);
        assert_eq!(events(&mut env, &[EventKind::Request]), [refused]);
        env.release(app, "k1", Termination::StoppedByRm);
        assert_eq!(events(&mut env, &[EventKind::Request]), [passed]);
        env.remove_app(app);
    }
}

#[test]
fn applications_that_may_not_run() {
    // EVT-027 to EVT-02B
    let yaml = QUEUES.replace("- name: a\n", "- name: a\n            maxapplications: 1\n").replace(
        "- name: b\n",
        "- name: b\n            limits:\n              - limit: x\n                users: [alice]\n                maxapplications: 1\n",
    );
    let both = yaml.replace("- name: b\n", "- name: b\n            maxapplications: 1\n");
    for (yaml, queue, cannot, can) in [
        (&yaml, "root.a", &["AppCannotRunQueue app-2"][..], &["AppRunnableQueue app-2"][..]),
        (&yaml, "root.b", &["AppCannotRunQuota app-2"], &["AppRunnableQuota app-2"]),
        (
            &both,
            "root.b",
            &["AppCannotRunQueue app-2", "AppCannotRunQuota app-2"],
            &["AppRunnableQueue app-2", "AppRunnableQuota app-2"],
        ),
    ] {
        let mut env = Env::calm(yaml);
        env.node("n1", 100);
        env.app("app-1", queue);
        env.app("app-2", queue);
        env.ask(vec![Ask::new("app-1", "k1", 10)]);
        env.ask(vec![Ask::new("app-2", "k1", 10)]);
        env.ask(vec![Ask::new("app-2", "k2", 10)]);
        let told = |env: &mut Env| -> Vec<String> {
            events(env, &[EventKind::App])
                .into_iter()
                .filter(|text| text.contains("unn") || text.contains("CannotRun"))
                .filter(|text| text.ends_with("app-2") && !text.starts_with("Set"))
                .collect()
        };
        assert_eq!(told(&mut env), cannot);
        env.remove_app("app-1");
        assert_eq!(told(&mut env), can);
    }
}

#[test]
fn refusals_of_the_shim_in_one_event() {
    // EVT-015, R4.34, R4.35
    let mut env = Env::calm(QUEUES);
    for n in 1..=3 {
        env.node(&format!("n{n}"), 10);
    }
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.events.clear();
    for reason in ["taint", "affinity", "taint"] {
        env.answer(Err(reason.into()), 0);
    }
    let text = "k1 app-1 Unschedulable request 'k1': affinity (1x); taint (2x); ";
    assert_eq!(events(&mut env, &[EventKind::Request]), [text]);
    assert_eq!(env.log("app-1", "k1")[..2], ["taint", "affinity"]);
    let mut times = 0;
    for _ in 0..30 {
        env.pass(1);
        while !env.questions.is_empty() {
            env.answer(Err("taint".into()), 0);
        }
        times += events(&mut env, &[EventKind::Request]).len();
    }
    assert!(times <= 2, "once in 15 seconds, not {times} times in 30");
}

#[test]
fn a_refusal_that_holds_no_more_is_not_told() {
    // EVT-015: there would be no reason to name.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    env.ask(vec![Ask::new("app-1", "k1", 10)]);
    env.events.clear();
    env.node_action("n1", NodeAction::Update, Some(res(5, 5)));
    env.answer(Err("taint".into()), 0);
    let heard = events(&mut env, &[EventKind::Request]);
    assert!(!heard.iter().any(|event| event.contains("Unschedulable")), "{heard:?}");
}

#[test]
fn a_placeholder_that_is_too_small() {
    // EVT-019, R6.8
    let mut env = Env::calm(QUEUES);
    env.node("n1", 30);
    env.gang("app-1", "root.a", 10, "Soft");
    env.ask(vec![Ask::new("app-1", "ph1", 10).placeholder("tg")]);
    env.events.clear();
    env.ask(vec![Ask::new("app-1", "r1", 20).group("tg")]);
    let text = "ph1 app-1 Task group 'tg' in application 'app-1': allocation resources 'map[memory:20 vcore:20]' are not \
                matching placeholder 'map[memory:10 vcore:10]' allocation with ID 'ph1'";
    assert_eq!(
        env.events.iter().find(|e| e.kind == EventKind::Request).and_then(|e| e.resource.as_deref()),
        Some(&res(20, 20))
    );
    assert_eq!(events(&mut env, &[EventKind::Request]), [text]);
}

#[test]
fn a_replacement() {
    // EVT-025, EVT-026, EVT-033, EVT-034, R6.13–R6.16
    let mut env = Env::calm(QUEUES);
    env.node("n1", 30);
    env.gang("app-1", "root.a", 20, "Soft");
    env.ask((1..=2).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.events.clear();
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    assert_eq!(events(&mut env, &[EventKind::App, EventKind::Node]), ["Add AppRequest app-1 r1"]);
    env.confirm_all();
    let mut heard = events(&mut env, &[EventKind::App, EventKind::Node]);
    heard.sort();
    assert_eq!(
        heard,
        [
            "Add AppAlloc app-1 r1",
            "Add NodeAlloc n1 r1",
            "Remove AllocReplaced app-1 ph1",
            "Remove NodeAlloc n1 ph1",
            "Remove RequestCancel app-1 ph1",
            "Set RequestAlloc app-1 r1"
        ]
    );
}

#[test]
fn what_is_allocated_in_a_queue() {
    // EVT-04B: one event for a request or for decisions in a row, where something changed, with what is allocated then.
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    env.app("app-1", "root.a");
    env.app("app-2", "root.b");
    let told = |env: &mut Env| {
        let of = |event: &callboard::domain::event::Event| event.detail == callboard::domain::event::Detail::QueueAlloc;
        let found: Vec<String> = env
            .events
            .iter()
            .filter(|event| of(event))
            .map(|event| {
                assert_eq!((event.kind, event.change), (EventKind::Queue, callboard::domain::event::Change::Set));
                format!("{} {}", event.object, event.resource.as_deref().expect("an amount"))
            })
            .collect();
        env.events.clear();
        found
    };
    env.ask((0..3).map(|n| Ask::new("app-1", &format!("k{n}"), 10)).chain([Ask::new("app-2", "k", 5)]).collect());
    let mut first = told(&mut env);
    first.sort();
    assert_eq!(first, ["root.a map[memory:30 vcore:30]", "root.b map[memory:5 vcore:5]"]);
    env.ask(vec![Ask::new("app-1", "k0", 20), Ask::new("app-1", "too large", 1_000)]);
    assert_eq!(told(&mut env), ["root.a map[memory:40 vcore:40]"]);
    env.release("app-1", "", Termination::StoppedByRm);
    assert_eq!(told(&mut env), ["root.a map[]"]);
    env.ask(vec![Ask::new("app-2", "k", 5)]);
    assert_eq!(told(&mut env), [""; 0], "nothing changed");
}

#[test]
fn history_goes_by_what_happened() {
    // RES-069: a victim was preempted, whatever type its release has; others were not.
    let queues = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: a\n            \
                  resources: {guaranteed: {memory: 50}}\n            properties: {preemption.delay: 1s}\n          - name: b\n";
    let types =
        [(Termination::StoppedByRm, Termination::Preempted), (Termination::Preempted, Termination::StoppedByRm)];
    for ((victim, other), placeholder) in types.into_iter().zip([false, true]) {
        let mut env = Env::calm(queues);
        env.node("n1", 30);
        env.app("app-a", "root.a");
        env.app("app-b", "root.b");
        let mut asked = Ask::new("app-b", "victim", 10).preempts();
        if placeholder {
            asked = asked.placeholder("tg");
        }
        env.ask(vec![Ask::new("app-b", "other", 10).preempts(), asked]);
        env.ask(vec![Ask::new("app-b", "stays", 10)]);
        env.ask(vec![Ask::new("app-a", "k1", 10).preempts()]);
        env.pass(2);
        assert!(env.heard().contains(&"released victim Preempted".to_owned()));
        env.pass(8);
        env.release("app-b", "victim", victim);
        env.release("app-b", "other", other);
        let history = &env.partition.apps[env.partition.app_by_id["app-b"]].history;
        let total = |book: &std::collections::BTreeMap<std::sync::Arc<str>, callboard::domain::resources::Resource>| {
            book.values().map(|sum| sum.amount(&callboard::domain::resources::MEMORY)).sum::<i128>()
        };
        let sums = [&history.normal, &history.preempted, &history.placeholder].map(total);
        assert_eq!(sums, [100, 100, 0], "{victim:?}");
    }
}

#[test]
fn what_an_ask_said_goes_with_it() {
    let mut env = Env::new(QUEUES);
    env.node("n1", 1_000);
    env.app("app-1", "root.a");
    env.app("app-2", "root.a");
    env.ask(vec![Ask::new("app-2", "stays", 1)]);
    let key = |n: usize| format!("a-key-to-be-found-{n:04}");
    env.ask((0..100).map(|n| Ask::new("app-1", &key(n), 1)).collect());
    let has = |env: &Env| {
        let saved = env.partition.save();
        (saved.windows(17).any(|bytes| bytes == b"a-key-to-be-found"), saved.len())
    };
    let (before, large) = has(&env);
    assert!(before);
    (0..100).for_each(|n| env.release("app-1", &key(n), Termination::StoppedByRm));
    let (after, small) = has(&env);
    assert!(!after && small < large / 2, "{small} of {large} bytes");
}
