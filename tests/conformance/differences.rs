//! `docs/differences.json`: where Callboard differs from the golden files on purpose.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;

use crate::glob;

/// The documented differences of one scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Documented {
    /// The rule or the row of seeds that asks for it.
    pub rule: String,
    /// One sentence.
    pub why: String,
    /// Beginnings of printed differences; `*` stands for anything.
    pub paths: Vec<String>,
}

/// By scenario, as `topic/name`.
pub type Differences = BTreeMap<String, Documented>;

/// Reads the file and checks that every entry is complete.
pub fn read(path: &Path) -> Differences {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let table: Differences = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for (name, entry) in &table {
        let complete = !entry.rule.is_empty() && !entry.why.is_empty() && !entry.paths.is_empty();
        assert!(complete, "{}: {name}: rule, why and paths are all needed", path.display());
    }
    table
}

/// The differences that no documented one covers. A documented one that covers nothing is a difference itself, so that
/// the list stays true.
pub fn undocumented(found: Vec<String>, documented: Option<&Documented>) -> Vec<String> {
    let Some(documented) = documented else { return found };
    let covers = |path: &str, line: &str| glob::begins(path, line);
    let unseen = documented.paths.iter().filter(|path| !found.iter().any(|line| covers(path, line)));
    let unseen: Vec<String> = unseen.map(|path| format!("documented, but not seen: {path}")).collect();
    let left = found.into_iter().filter(|line| !documented.paths.iter().any(|path| covers(path, line)));
    left.chain(unseen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(paths: &[&str]) -> Documented {
        let paths = paths.iter().map(|path| path.to_string()).collect();
        Documented { rule: "R1.7".into(), why: "because".into(), paths }
    }

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn a_path_is_the_beginning_of_a_difference() {
        let found = lines(&["steps[1].callbacks: missing 1", "steps[11].callbacks: missing 2", "final.a: missing"]);
        let left = undocumented(found, Some(&entry(&["steps[1].callbacks", "final.*: missing"])));
        assert_eq!(left, ["steps[11].callbacks: missing 2"]);
    }

    #[test]
    fn a_documented_difference_that_is_not_seen_is_one() {
        let left = undocumented(Vec::new(), Some(&entry(&["final"])));
        assert_eq!(left, ["documented, but not seen: final"]);
    }

    #[test]
    fn without_an_entry_all_count() {
        assert_eq!(undocumented(lines(&["a: 1"]), None), ["a: 1"]);
    }
}
