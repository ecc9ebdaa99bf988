//! When asks that wait will be placed: from how long others lasted, in runs forward on clones.

use callboard::{
    config,
    domain::{
        command::{AddApplication, Command, NodeAction},
        edit::Edit,
        event::Event,
        lasted::Lasted,
        partition::{
            Explainer, Why,
            forward::{Bounds, Forward},
            remedies::Change,
            when::{Unknown, When},
        },
        types::{Nanos, Termination},
    },
};

use super::env::{Ask, Env, QUEUES, res};

fn never() -> bool {
    false
}

const BOUNDS: Bounds<'static> = Bounds { decisions: 100_000, stop: &never };
const DAY: Nanos = Nanos::from_secs(86_400);

/// What the events so far say.
fn lasted(env: &Env) -> Lasted {
    let mut lasted = Lasted::default();
    env.events.iter().for_each(|event: &Event| lasted.apply(event, |app| env.partition.about(app)));
    lasted
}

fn when(env: &Env, lasted: &Lasted, app: &str) -> When {
    let ix = env.partition.app_by_id[app];
    let waiting = Explainer::new(&env.partition).application(ix, env.now);
    env.partition.when(ix, waiting.first().expect("it waits"), lasted, env.now, DAY, BOUNDS)
}

/// A node of 10, and twenty allocations of 10 that ran one after the other for 51 to 70 s.
fn practised() -> Env {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    env.app("old", "root.a");
    for n in 0..20 {
        env.ask(vec![Ask::new("old", &format!("o{n}"), 10)]);
        env.pass(51 + n);
        env.release("old", &format!("o{n}"), Termination::StoppedByRm);
    }
    env
}

#[test]
fn what_goes_with_its_session_did_not_end() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 100);
    for app in ["app-1", "app-2"] {
        env.app(app, "root.a");
        env.ask((0..5).map(|n| Ask::new(app, &n.to_string(), 10)).collect());
    }
    env.pass(60);
    env.release("app-1", "0", Termination::StoppedByRm);
    assert_eq!(lasted(&env).ended(), 1);
    // Slice by slice: the shim goes, and its pods run on.
    env.stop(3);
    assert_eq!(lasted(&env).ended(), 1);
}

#[test]
fn the_range_is_that_of_how_long_others_lasted() {
    let mut env = practised();
    env.app("one", "root.a");
    env.ask(vec![Ask::new("one", "k", 10)]);
    env.pass(30);
    env.app("two", "root.a");
    env.ask(vec![Ask::new("two", "k", 10)]);
    let before = env.partition.save();
    let found = when(&env, &lasted(&env), "two");
    assert_eq!((found.unknown, found.runs, found.running, found.known, found.ended), (None, 20, 1, 1, 20));
    // What runs has run for 30 s, and lasts from 51 to 70 s in all.
    let (p50, p90) = (found.p50.expect("known"), found.p90.expect("known"));
    assert!((21..=40).contains(&p50.as_secs()) && p50 < p90 && p90.as_secs() <= 40, "{found:?}");
    assert_eq!(env.partition.save(), before, "nothing is touched");
    // The next one waits for two to end.
    env.app("three", "root.a");
    env.ask(vec![Ask::new("three", "k", 10)]);
    let later = when(&env, &lasted(&env), "three");
    assert!(later.p50.is_some_and(|p50| (21 + 51..=40 + 70).contains(&p50.as_secs())), "{later:?}");
    assert_eq!(when(&env, &lasted(&env), "three"), later, "the same each time");
}

#[test]
fn what_outlasts_all_of_its_kind_may_go_on_for_long() {
    let mut env = practised();
    env.app("one", "root.a");
    env.ask(vec![Ask::new("one", "k", 10)]);
    env.pass(1_000);
    env.app("two", "root.a");
    env.ask(vec![Ask::new("two", "k", 10)]);
    let found = when(&env, &lasted(&env), "two");
    assert_eq!((found.unknown, found.known, found.outlasting), (None, 1, 1));
    // Half of what got there goes on as long again, and a tenth nine times as long.
    let (p50, p90) = (found.p50.expect("known").as_secs(), found.p90.expect("known").as_secs());
    assert!((400..2_500).contains(&p50) && p90 > 3 * p50, "{found:?}");
}

#[test]
fn what_the_resource_manager_could_not_carry_out_did_not_last() {
    let mut env = practised();
    env.app("bad", "root.a");
    env.ask(vec![Ask::new("bad", "k", 10)]);
    env.pass(5);
    env.release("bad", "k", Termination::FailedOnRm);
    assert_eq!(lasted(&env).ended(), 20);
}

#[test]
fn what_is_not_known_is_not_said() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    env.app("one", "root.a");
    env.ask(vec![Ask::new("one", "k", 10)]);
    env.app("two", "root.a");
    env.ask(vec![Ask::new("two", "k", 10)]);
    let found = when(&env, &lasted(&env), "two");
    assert_eq!((found.unknown, found.p50, found.running, found.known), (Some(Unknown::TooLittle), None, 1, 0));
    assert_eq!(found.runs, 1, "all runs are alike where nothing is known");
    let mut env = practised();
    env.app("one", "root.a");
    env.ask(vec![Ask::new("one", "k", 10)]);
    env.app("large", "root.a");
    env.ask(vec![Ask::new("large", "k", 11)]);
    let hurry = Bounds { decisions: 100_000, stop: &|| true };
    let in_a_hurry = |env: &Env| {
        let ix = env.partition.app_by_id["large"];
        let waiting = Explainer::new(&env.partition).application(ix, env.now);
        env.partition.when(ix, &waiting[0], &lasted(env), env.now, DAY, hurry).unknown
    };
    assert_eq!(in_a_hurry(&env), Some(Unknown::TooLarge), "no time is needed to see that");
    // Nothing that ends makes room on a drained node.
    env.node_action("n2", NodeAction::CreateDrain, Some(res(11, 11)));
    assert_eq!(when(&env, &lasted(&env), "large").unknown, Some(Unknown::Never));
    assert_eq!(in_a_hurry(&env), Some(Unknown::NoTime));
    env.ask(vec![Ask::new("one", "own", 11).requires("n1")]);
    assert_eq!(when(&env, &lasted(&env), "one").unknown, Some(Unknown::TooLarge));
}

#[test]
fn what_no_end_makes_room_for_never_comes_by_itself() {
    let limit = "limits: [{limit: l, users: [eve], maxresources: {memory: 8}}]";
    let yaml = QUEUES.replace(
        "- name: b\n",
        &format!("- name: b\n            resources: {{max: {{memory: 9}}}}\n            {limit}\n"),
    );
    let mut env = Env::calm(&yaml);
    env.node("n1", 20);
    env.app("large", "root.b");
    env.ask(vec![Ask::new("large", "k", 10)]);
    assert_eq!(
        when(&env, &lasted(&env), "large").unknown,
        Some(Unknown::AboveLimit),
        "larger than the max of its queue"
    );
    let item = AddApplication { id: "eve".into(), queue: "root.b".into(), ..env.by("eve") };
    env.add_app(item);
    env.ask(vec![Ask::new("eve", "k", 9)]);
    assert_eq!(
        when(&env, &lasted(&env), "eve").unknown,
        Some(Unknown::AboveLimit),
        "larger than the limit of its user"
    );
    env.app("full", "root.b");
    env.ask(vec![Ask::new("full", "fits", 9)]);
    env.ask(vec![Ask::new("full", "k", 9)]);
    assert_eq!(when(&env, &lasted(&env), "full").unknown, Some(Unknown::TooLittle), "what has room when others end");
    env.app("gone", "root.a");
    env.ask(vec![Ask::new("gone", "k", 1).requires("n9")]);
    assert_eq!(when(&env, &lasted(&env), "gone").unknown, Some(Unknown::Never), "its node is not registered");
}

#[test]
fn what_others_have_to_confirm_is_not_at_once() {
    let guaranteed = "- name: a\n            properties: {preemption.delay: 1s}\n            resources: {guaranteed: {memory: 10}}\n";
    let mut env = Env::calm(&QUEUES.replace("- name: a\n", guaranteed));
    env.node("n1", 10);
    env.app("low", "root.b");
    env.ask(vec![Ask::new("low", "k", 10)]);
    env.app("high", "root.a");
    env.ask(vec![Ask::new("high", "k", 10).preempts()]);
    let (ix, config) = (env.partition.app_by_id["high"], config::load(QUEUES).expect("valid"));
    let waiting = Explainer::new(&env.partition).application(ix, env.now).remove(0);
    let edit = |edits: &[Edit]| config.edited("default", edits).map(|edited| edited.conf);
    let advice = env.partition.remedies(ix, &waiting, env.now, &edit, BOUNDS);
    let wait = advice.remedies.iter().find(|remedy| remedy.change == Change::Wait).expect("it preempts soon");
    let found = when(&env, &lasted(&env), "high");
    assert_eq!(found.unknown, Some(Unknown::TooLittle));
    let told = found.or_waits(&advice);
    assert_eq!((told.unknown, told.p50, told.p90), (None, Some(wait.after), Some(wait.after)));
    assert_eq!(told.preempts, Some(1), "what the search for remedies found is told here, too");
    // What preempts at once is not placed at once: those have to end first.
    env.now = env.now.plus(Nanos::from_secs(40));
    let found = when(&env, &lasted(&env), "high");
    assert_eq!((found.unknown, found.p50, found.preempts), (None, Some(Nanos::ZERO), Some(1)));
    env.pass(1);
    let waiting = Explainer::new(&env.partition).application(ix, env.now).remove(0);
    assert!(matches!(waiting.why, Why::Preempting { .. }), "{waiting:?}");
    assert_eq!(when(&env, &lasted(&env), "high").unknown, Some(Unknown::ResourceManager));
}

#[test]
fn of_a_gang_all_have_to_be_placed() {
    let mut env = practised();
    env.app("one", "root.a");
    env.ask(vec![Ask::new("one", "k", 5), Ask::new("one", "l", 5)]);
    env.gang("gang", "root.a", 10, "Soft");
    env.ask((0..2).map(|n| Ask::new("gang", &format!("p{n}"), 5).placeholder("g")).collect());
    let ix = env.partition.app_by_id["gang"];
    let waiting = Explainer::new(&env.partition).application(ix, env.now);
    let names = env.partition.awaited(ix, &waiting[0]);
    assert_eq!(names.len(), 2);
    let gang = when(&env, &lasted(&env), "gang");
    // A real one of half of it needs only the first to end.
    env.app("half", "root.a");
    env.ask(vec![Ask::new("half", "k", 5).priority(9)]);
    let half = when(&env, &lasted(&env), "half");
    assert!(half.p50 < gang.p50 || gang.p50.is_none(), "{half:?} {gang:?}");
}

// R6.13, R5.27: what the shim has not answered yet does not stand still in a run.
#[test]
fn what_the_shim_was_told_and_asked_before_is_answered_in_the_runs() {
    let mut env = practised();
    env.gang("g", "root.a", 10, "Soft");
    env.ask(vec![Ask::new("g", "ph", 10).placeholder("tg")]);
    env.pass(61);
    // Its placeholder has timed out, and its release is not confirmed.
    assert_eq!(env.heard().last().map(String::as_str), Some("released ph Timeout"));
    env.app("next", "root.a");
    env.ask(vec![Ask::new("next", "k", 10)]);
    let found = when(&env, &lasted(&env), "next");
    assert_eq!(found.p90.map(Nanos::as_secs), Some(0), "{found:?}");
    env.confirm_all();
    env.release("next", "k", Termination::StoppedByRm);
    // It is being asked about an ask.
    env.apply(Command::AskPredicates(true));
    env.ask(vec![Ask::new("next", "asked", 10)]);
    assert_eq!(env.questions.len(), 1);
    let mut run = Forward::new(&env.partition, env.now, &[("next".into(), "asked".into())], BOUNDS);
    assert!(run.run(), "it is placed");
}

// SEEDS S6: what of an application is released whose time is over is no placeholder.
#[test]
fn what_an_application_has_whose_time_is_over_is_confirmed_in_the_runs() {
    let mut env = Env::calm(QUEUES);
    env.node("n1", 10);
    let item = AddApplication { id: "app-1".into(), queue: "root.a".into(), timeout_millis: 5_000, ..env.by("alice") };
    env.add_app(item);
    env.ask(vec![Ask::new("app-1", "old", 10)]);
    env.pass(6);
    assert_eq!(env.heard().last().map(String::as_str), Some("released old Timeout"));
    env.app("next", "root.a");
    env.ask(vec![Ask::new("next", "k", 10)]);
    let mut run = Forward::new(&env.partition, env.now, &[("next".into(), "k".into())], BOUNDS);
    assert!(run.run(), "it is placed");
}

#[test]
fn what_the_shim_refuses_everywhere_has_no_time() {
    let mut env = practised();
    env.apply(Command::AskPredicates(true));
    env.app("new", "root.a");
    env.refuse("k", "n1");
    env.ask(vec![Ask::new("new", "k", 10)]);
    env.answer_all();
    let known = lasted(&env);
    assert_eq!(when(&env, &known, "new").unknown, Some(Unknown::Refused));
    // Nor has what waits for a placeholder that is refused.
    env.gang("g", "root.b", 20, "Soft");
    env.refuse("p", "n1");
    env.ask(vec![Ask::new("g", "p", 10).placeholder("tg")]);
    env.answer_all();
    env.ask(vec![Ask::new("g", "r", 10).group("tg")]);
    let (ix, at) = (env.partition.app_by_id["g"], env.now);
    let real = Explainer::new(&env.partition).ask(ix, "r", at).expect("it waits");
    assert!(matches!(real.why, Why::Gang { .. }), "{real:?}");
    assert_eq!(env.partition.when(ix, &real, &known, at, DAY, BOUNDS).unknown, Some(Unknown::Refused));
}
