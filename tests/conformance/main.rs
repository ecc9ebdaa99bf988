//! Conformance: replays recorded conversations of a resource manager with the reference scheduler on the built program,
//! each on a server of its own, and compares what comes back with the golden files.
//!
//! `CONFORMANCE=gang,app/life_cycle cargo test --test conformance` replays the scenarios whose names begin so;
//! `CONFORMANCE_PROGRAM=target/release/callboard` replays on another build. The topics with releases that the scheduler
//! originates are replayed once more with every confirmation held back until everything else is quiet; they end the same. What differs on purpose is in
//! `docs/differences.json`; what is documented there but not seen fails its scenario.

// The doors use more of it.
#[allow(dead_code)]
#[path = "../common/mod.rs"]
mod common;

mod callback;
mod canon;
mod compare;
mod differences;
mod glob;
mod http;
mod replay;
mod request;
mod rest;
mod scenario;
mod server;
mod shim;

use std::{
    env,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use serde_json::Value;
use tokio::sync::RwLock;

use crate::{differences::Differences, scenario::Scenario, shim::Confirms};

/// Scenarios that run at a time. They mostly wait.
const JOBS: usize = 8;
/// A step that takes longer than this, beside its waits, says that the machine is too busy for what a scenario tells of times: what
/// is to come in the wait after it may have come already. Where such a scenario fails it is repeated, with nothing beside it.
const SLOW: Duration = Duration::from_secs(1);
/// How often at most. What fails in good time has failed.
const REPEATS: usize = 5;
/// Those that are repeated hold it alone, all others together.
static ROOM: RwLock<()> = RwLock::const_new(());
/// Differences that are printed of one scenario.
const LINES: usize = 25;

/// Topics (`gang`) or scenarios (`gang/timeout_hard`) that are not expected to pass yet, each with the subject of the issue
/// that will make them.
const WAITING: &[(&str, &str)] = &[];

/// Topics that are replayed with late confirmations too.
const LATE: &str = "app/,gang/,recovery/,mixed/,preemption/,quota_preemption/,required_node/";

/// How a scenario ended.
struct Outcome {
    name: String,
    differences: Vec<String>,
    took: Duration,
    /// The longest that a step took beside its waits.
    slowest: Duration,
}

#[test]
fn scenarios_end_as_the_golden_files_say() {
    run(chosen(&env::var("CONFORMANCE").unwrap_or_default()), Confirms::AtOnce);
}

#[test]
fn scenarios_end_the_same_where_releases_are_confirmed_late() {
    // What a release holds stays charged until it is confirmed, and what waits for it waits as long; in the end the same
    // callbacks have come, and the same is left.
    let late = chosen(LATE);
    let mut names = chosen(&env::var("CONFORMANCE").unwrap_or_default());
    names.retain(|name| late.contains(name));
    run(names, Confirms::Late);
}

/// Replays scenarios, and fails where one does not end as its golden file says.
fn run(names: Vec<String>, confirms: Confirms) {
    let differences = differences::read(&project("docs/differences.json"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime for the replayer");
    let (mut passed, mut waiting, mut failed, mut ready) = (0, 0, Vec::new(), Vec::new());
    let mut note = |outcome: Outcome| {
        let expected = awaited(&outcome.name);
        report(&outcome, expected);
        match (outcome.differences.is_empty(), expected) {
            (true, None) => passed += 1,
            (true, Some(issue)) => ready.push(format!("{} ({issue})", outcome.name)),
            (false, Some(_)) => waiting += 1,
            (false, None) => failed.push(outcome.name),
        }
    };
    let doubtful = |outcome: &Outcome| !outcome.differences.is_empty() && outcome.slowest > SLOW;
    runtime.block_on(async {
        let beside = async |name| {
            let _room = ROOM.read().await;
            one(name, &differences, confirms).await
        };
        let mut again = Vec::new();
        let mut outcomes = futures::stream::iter(names).map(beside).buffer_unordered(JOBS);
        while let Some(outcome) = outcomes.next().await {
            if doubtful(&outcome) { again.push(outcome.name) } else { note(outcome) }
        }
        for name in again {
            let _room = ROOM.write().await;
            let mut outcome = one(name.clone(), &differences, confirms).await;
            for _ in 1..REPEATS {
                if !doubtful(&outcome) {
                    break;
                }
                outcome = one(name.clone(), &differences, confirms).await;
            }
            note(outcome);
        }
    });
    say(&format!("{} passed, {waiting} waiting, {} failed", passed + ready.len(), failed.len()));
    for name in &ready {
        say(&format!("now passes, take it off the list: {name}"));
    }
    assert!(failed.is_empty(), "failed scenarios: {failed:?}");
}

/// Replays one scenario.
async fn one(name: String, differences: &Differences, confirms: Confirms) -> Outcome {
    let start = Instant::now();
    let found: Result<(Vec<String>, Duration), String> = async {
        let scenario: Scenario = scenario::read(&file("scenarios", &name))?;
        let golden: Value = scenario::read(&file("golden", &name))?;
        let loose = scenario.loose_messages;
        let (observed, slowest) = replay::run(scenario, confirms).await?;
        Ok((compare::compare(&golden, &observed, loose), slowest))
    }
    .await;
    let (differences, slowest) = match found {
        Ok((found, slowest)) => (differences::undocumented(found, differences.get(&name)), slowest),
        Err(broken) => (broken.lines().map(str::to_owned).collect(), Duration::ZERO),
    };
    Outcome { name, differences, took: start.elapsed(), slowest }
}

/// The scenarios whose names begin with one of a comma-separated list, or all; those that wait longest first.
fn chosen(beginnings: &str) -> Vec<String> {
    let beginnings: Vec<&str> = beginnings.split(',').map(str::trim).collect();
    let mut names = scenario::names(&file("scenarios", "").with_extension(""));
    names.retain(|name| beginnings.iter().any(|beginning| name.starts_with(beginning)));
    assert!(!names.is_empty(), "no scenario begins with {beginnings:?}");
    let waits = |name: &String| {
        let scenario: Result<Scenario, _> = scenario::read(&file("scenarios", name));
        scenario.map(|s| s.steps.iter().filter_map(|step| step.wait).sum()).unwrap_or(Duration::MAX)
    };
    names.sort_by_cached_key(|name| std::cmp::Reverse(waits(name)));
    names
}

/// The issue that a scenario waits for.
fn awaited(name: &str) -> Option<&'static str> {
    let waits = |entry: &str| name == entry || name.split('/').next() == Some(entry);
    WAITING.iter().find(|(entry, _)| waits(entry)).map(|(_, issue)| *issue)
}

fn report(outcome: &Outcome, expected: Option<&str>) {
    let Outcome { name, differences, took, slowest } = outcome;
    let seconds = took.as_secs_f64();
    match (differences.is_empty(), expected) {
        (true, _) => say(&format!("pass {name} ({seconds:.1} s)")),
        (false, Some(issue)) => say(&format!("wait {name} ({seconds:.1} s): {issue}")),
        (false, None) => {
            say(&format!("FAIL {name} ({seconds:.1} s, a step up to {:.1} s beside its waits)", slowest.as_secs_f64()));
            for line in differences.iter().take(LINES) {
                say(&format!("     {line}"));
            }
            if differences.len() > LINES {
                say(&format!("     ... {} more", differences.len() - LINES));
            }
        }
    }
}

/// Prints at once, past the capture of the test harness: a run takes a while.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody reads any more: the result still counts.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn file(kind: &str, name: &str) -> PathBuf {
    project("tests/conformance").join(kind).join(name).with_extension("json")
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_scenario_can_be_read_and_has_a_golden_file_for_its_steps() {
        let names = chosen("");
        assert_eq!(names.len(), scenario::names(&project("tests/conformance/golden")).len());
        for name in names {
            let scenario: Scenario = scenario::read(&file("scenarios", &name)).unwrap();
            let golden: Value = scenario::read(&file("golden", &name)).unwrap();
            assert_eq!(golden["steps"].as_array().map(Vec::len), Some(scenario.steps.len()), "{name}");
            for step in scenario.steps.iter().filter_map(|step| step.repeat.as_ref()) {
                step.turn(0).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
        }
    }

    #[test]
    fn every_documented_difference_is_of_a_scenario_and_stands_in_both_lists() {
        let names = scenario::names(&project("tests/conformance/scenarios"));
        let page = std::fs::read_to_string(project("docs/differences.md")).unwrap();
        for name in differences::read(&project("docs/differences.json")).keys() {
            assert!(names.contains(name), "{name}: no such scenario");
            assert!(page.contains(&format!("`{name}`")), "{name}: not in docs/differences.md");
        }
        for (entry, _) in WAITING {
            assert!(names.iter().any(|name| name.starts_with(entry)), "{entry}: no such topic or scenario");
        }
    }

    #[test]
    fn a_golden_file_equals_itself_and_no_mutation_of_it() {
        for name in chosen("") {
            let golden: Value = scenario::read(&file("golden", &name)).unwrap();
            assert_eq!(compare::compare(&golden, &golden, false), [""; 0], "{name}");
            let places = places(&golden);
            for at in places.iter().step_by(places.len() / 8 + 1) {
                for mutation in [Mutation::Change, Mutation::Remove, Mutation::Add] {
                    let mut mutant = golden.clone();
                    if mutate(&mut mutant, at, mutation) {
                        let found = compare::compare(&golden, &mutant, false);
                        assert!(!found.is_empty(), "{name}: {mutation:?} at {at} goes unseen");
                    }
                }
            }
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Mutation {
        Change,
        Remove,
        Add,
    }

    /// Pointers to everything below a value.
    fn places(value: &Value) -> Vec<String> {
        let below: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, v)| (key.replace('~', "~0").replace('/', "~1"), v)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(at, v)| (at.to_string(), v)).collect(),
            _ => return Vec::new(),
        };
        let with_own = |(key, v): (String, &Value)| {
            let deeper = places(v).into_iter().map({
                let key = key.clone();
                move |place| format!("/{key}{place}")
            });
            std::iter::once(format!("/{key}")).chain(deeper.collect::<Vec<_>>())
        };
        below.into_iter().flat_map(with_own).collect()
    }

    /// Mutates what is at a place; false where there is nothing to see of it.
    fn mutate(value: &mut Value, at: &str, mutation: Mutation) -> bool {
        let Some(target) = value.pointer_mut(at) else { return false };
        match (mutation, target) {
            (Mutation::Change, Value::String(s)) if s == "*" => return false,
            (Mutation::Change, target) => *target = json!({"mutated": true}),
            (Mutation::Add, Value::Object(map)) => drop(map.insert("mutated".into(), 1.into())),
            (Mutation::Add, Value::Array(list)) => list.push("mutated".into()),
            (Mutation::Remove, Value::Object(map)) => {
                let Some(key) = map.keys().next().cloned() else { return false };
                map.remove(&key);
            }
            (Mutation::Remove, Value::Array(list)) => return list.pop().is_some(),
            _ => return false,
        }
        true
    }
}
