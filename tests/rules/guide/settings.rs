//! `docs/settings.md` is written from the table that reads the settings, and no setting is read, or told of, beside it.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use callboard::{
    cli::settings,
    config::table::{self, TABLE},
};

use super::{documents, read, root};

#[test]
fn the_page_of_settings_is_that_of_the_table() {
    let (page, path) = (settings::page(), root().join("docs/settings.md"));
    if env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/settings.md is not what the table says: WRITE_DOCS=1 cargo test --test rules page_of_settings"
    );
}

/// What has the form of a key and is none: files, values of the chart, a group of keys, and an attribute of spans.
const OTHERS: [&str; 7] =
    ["log.txt", "health.json", "metrics.txt", "shim.env", "event.store", "http.request.method", "http.route"];

/// Whether a text has the form of a key: it begins as one of the table does, and goes on with names.
fn is_like_a_key(text: &str) -> bool {
    let begins =
        TABLE.iter().any(|row| row.key.split_once('.').is_some_and(|(area, _)| text.split('.').next() == Some(area)));
    let name = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_alphabetic());
    begins && !OTHERS.contains(&text) && text.contains('.') && text.split('.').all(name)
}

/// Sources of the program, without their tests: path and text.
fn sources() -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join("src"), root().join("crates")]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).expect("sources can be listed").map(|entry| entry.expect("an entry").path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).expect("a source can be read");
                let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
                found.push((path, text[..end].to_owned()));
            }
        }
    }
    found
}

#[test]
fn every_setting_that_is_read_is_in_the_table_and_every_row_is_read() {
    let (mut named, mut faults) = (BTreeSet::new(), Vec::new());
    for (path, text) in sources() {
        if path.ends_with("config/table.rs") {
            continue;
        }
        let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for literal in line.split('"').skip(1).step_by(2).filter(|literal| is_like_a_key(literal)) {
                match table::find(literal) {
                    Some(row) => drop(named.insert(row.key)),
                    None => faults.push(format!("{shown}: \"{literal}\" is in no row of the table")),
                }
            }
        }
        // Whatever reads beside the table does so through the map, by key.
        for map in ["extra", "extra_config"] {
            if text.contains(&format!("{map}.get(")) {
                faults.push(format!("{shown}: {map}.get(…) reads a setting beside the table"));
            }
        }
        if path.ends_with("config/extra.rs") {
            for call in text.split("read.").skip(1) {
                let key = call
                    .split_once("(\"")
                    .filter(|(method, _)| method.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
                if let Some(key) =
                    key.and_then(|(_, rest)| rest.split('"').next()).filter(|key| table::find(key).is_none())
                {
                    faults.push(format!("{shown}: \"{key}\" is read, and in no row of the table"));
                }
            }
        }
    }
    assert_eq!(faults, [""; 0]);
    let unread: Vec<&str> =
        TABLE.iter().filter(|row| !row.is_pattern() && !named.contains(row.key)).map(|row| row.key).collect();
    assert_eq!(unread, [""; 0], "rows of settings that nothing reads");
}

#[test]
fn documents_name_settings_that_there_are() {
    let mut faults = Vec::new();
    for (path, text) in documents().iter().filter(|(path, _)| !path.starts_with("docs/rules")) {
        for words in text
            .lines()
            .filter(|line| line.matches('`').count() > 1)
            .flat_map(|line| line.split('`').skip(1).step_by(2))
        {
            let key = words.split(['=', ':', ' ']).next().unwrap_or_default();
            if is_like_a_key(key) && table::find(key).is_none() {
                faults.push(format!("{path}: `{key}`"));
            }
        }
    }
    assert_eq!(faults, [""; 0], "settings that are not in the table");
    assert!(read("docs/SUMMARY.md").contains("settings.md"));
}
