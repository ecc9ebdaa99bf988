//! Every warning and error of the log has a code, and `docs/troubleshooting.md` says what to do about each.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use super::{read, root};

#[test]
fn every_warning_has_a_code_that_troubleshooting_explains() {
    let (mut codes, mut faults) = (BTreeSet::new(), String::new());
    let mut folders: Vec<PathBuf> = ["src", "crates"].map(|folder| root().join(folder)).into();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).expect("sources can be listed").map(|entry| entry.expect("an entry").path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).expect("a source can be read");
                let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                for part in ["tracing::warn!(", "tracing::error!("].iter().flat_map(|call| text.split(call).skip(1)) {
                    match part.trim_start().strip_prefix("code = \"").and_then(|rest| rest.split_once('"')) {
                        Some((code, _)) => drop(codes.insert(code.to_owned())),
                        None => {
                            let begin: String = part.chars().take(60).collect();
                            let _ = writeln!(faults, "{}: no `code = \"…\"` at: {begin}", path.display());
                        }
                    }
                }
            }
        }
    }
    assert_eq!(faults, "");
    let page = read("docs/troubleshooting.md");
    let section = page.split("## Warnings in the log").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("it");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let told: BTreeSet<String> =
        rows.flat_map(|(codes, _)| codes.split('`').filter(|code| code.len() > 2).map(str::to_owned)).collect();
    assert!(codes.len() > 30, "{codes:?}");
    assert_eq!(codes, told, "the codes of the sources, and those of docs/troubleshooting.md");
}
