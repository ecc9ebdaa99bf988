//! Everything in one request has one time: what came first in it is older, wherever time decides (R3.49, R5.20, R5.22, R7.35).

use callboard::domain::{
    command::{AddApplication, Command},
    types::Nanos,
};

use super::env::{Ask, Env};

fn submit(env: &mut Env, ids: &[&str], millis: i64) {
    let of = |id: &&str| AddApplication {
        id: (*id).into(),
        queue: "root.a".into(),
        timeout_millis: millis,
        ..env.by("alice")
    };
    let new = ids.iter().map(of).collect();
    env.apply(Command::Applications { new, remove: Vec::new() });
}

fn placed(env: &mut Env) -> Vec<String> {
    let heard = env.heard();
    heard.iter().filter_map(|text| Some(text.strip_prefix("new ")?.split(' ').next()?.to_owned())).collect()
}

const BY_TIME: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues:\n          - name: a\n            \
                       properties: {application.sort.priority: disabled}\n";

#[test]
fn applications_by_submission_time_then_priority() {
    // R5.20 with priority sort disabled: ids and rows are in another order than the request.
    let mut env = Env::calm(BY_TIME);
    submit(&mut env, &["gone"], 0);
    env.remove_app("gone");
    submit(&mut env, &["c", "a", "b"], 0);
    env.ask(vec![
        Ask::new("b", "kb", 10).priority(9),
        Ask::new("a", "ka", 10).priority(5),
        Ask::new("c", "kc", 10).priority(1),
    ]);
    env.node("n1", 30);
    assert_eq!(placed(&mut env), ["kc", "ka", "kb"]);
}

#[test]
fn times_that_were_given_and_are_equal_are_equal() {
    // R3.49: then the priority decides, as the tie is a real one.
    let mut env = Env::calm(BY_TIME);
    submit(&mut env, &["c", "a", "b"], 0);
    let then = Some(env.now.minus(Nanos::from_secs(100)));
    let old = |app: &str, key: &str, priority: i32| {
        let mut ask = Ask::new(app, key, 10).priority(priority);
        ask.spec.created = then;
        ask
    };
    env.ask(vec![old("c", "kc", 1), old("a", "ka", 5), old("b", "kb", 9)]);
    env.node("n1", 30);
    assert_eq!(placed(&mut env), ["kb", "ka", "kc"]);
}

#[test]
fn asks_of_an_application_in_their_order() {
    // R5.22
    let mut env = Env::calm(BY_TIME);
    submit(&mut env, &["app-1"], 0);
    env.ask(["z", "m", "a"].map(|key| Ask::new("app-1", key, 10)).into());
    env.node("n1", 30);
    assert_eq!(placed(&mut env), ["z", "m", "a"]);
}

#[test]
fn victims_by_age_before_size() {
    // R7.35: younger before smaller, the last of a request is the youngest.
    let mut env = Env::calm(BY_TIME);
    env.node("n1", 40);
    submit(&mut env, &["app-1", "ds"], 0);
    env.ask(vec![Ask::new("app-1", "v0", 20).preempts(), Ask::new("app-1", "v1", 20).preempts()]);
    env.node("n2", 100);
    env.heard();
    env.ask(vec![Ask::new("ds", "k", 20).requires("n1")]);
    assert!(env.heard().contains(&"released v1 Preempted".to_owned()));
}

#[test]
fn time_outs_of_one_moment_in_the_order_of_what_began_them() {
    // Rows are used again in another order than the request has.
    let mut env = Env::calm(BY_TIME);
    submit(&mut env, &["x", "y", "z"], 0);
    for id in ["x", "z", "y"] {
        env.remove_app(id);
    }
    env.node("n1", 100);
    submit(&mut env, &["one", "two", "three"], 5_000);
    env.ask(["one", "two", "three"].map(|id| Ask::new(id, &format!("k-{id}"), 10)).into());
    env.heard();
    env.now = env.now.plus(Nanos::from_secs(6));
    env.apply(Command::Tick);
    assert_eq!(env.heard(), ["one", "two", "three"].map(|id| format!("released k-{id} Timeout")));
}
