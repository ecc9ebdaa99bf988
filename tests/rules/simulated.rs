//! Simulated worlds: as many as fit, drawn anew from the same seeds each time, and the cases of faults that were mended.

use std::{collections::BTreeMap, fs, path::Path};

use callboard::cli::simulate::{Counts, case::Case, check, check_seeds, draw};

/// Worlds that a test run draws, with so many steps each: `.ci/run` runs more of them with the program that it builds.
const WORLDS: u64 = 60;
const STEPS: usize = 80;

#[test]
fn every_rule_holds_in_small_worlds() {
    let (broken, digest, counts) = check_seeds(0..WORLDS, STEPS).expect("there is room for them");
    let said: Vec<String> = broken
        .iter()
        .map(|one| format!("seed {}: {}: {}\n{}", one.least.seed, one.fault.rule, one.fault.text, one.least.text()))
        .collect();
    assert!(said.is_empty(), "{}", said.join("\n"));
    // Whatever else this process has done, and on how many threads: the same again.
    let (_, again, _) = check_seeds(0..20, STEPS).expect("there is room for them");
    let (_, once_more, _) = check_seeds(0..20, STEPS).expect("there is room for them");
    assert_eq!(again, once_more);
    assert_ne!(digest, again);
    // The worlds meet what they are for.
    let Counts { decisions, lines, swaps, victims, lookups, stops, restarts, snapshots, .. } = counts;
    let all = [decisions, lines, swaps, victims, lookups, stops, restarts, snapshots];
    assert!(all.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_case_says_all_of_a_world() {
    for seed in 0..50 {
        let case = draw::case(seed, STEPS);
        assert_eq!(case, draw::case(seed, STEPS), "a seed says all of it");
        assert_eq!(serde_json::from_str::<Case>(&case.text()).expect("as it was written"), case);
        assert_eq!(case.steps.len(), STEPS);
    }
}

/// Each of `tests/flights` was a fault once.
#[test]
fn mended_faults_stay_mended() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flights");
    let mut left = BTreeMap::new();
    let mut count = 0;
    for entry in fs::read_dir(&dir).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|end| end == "json") {
            let case = Case::read(&path).unwrap_or_else(|why| panic!("{why}"));
            assert!(!case.about.is_empty(), "{}: it says what it showed", path.display());
            assert!(case.steps.len() <= 40, "{}: {} steps", path.display(), case.steps.len());
            count += 1;
            if let Some(why) = check(&case).expect("there is room for it") {
                left.insert(path, why);
            }
        }
    }
    assert!(left.is_empty(), "{left:#?}");
    assert!(count > 0, "there are some");
}
