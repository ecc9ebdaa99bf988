//! `docs/settings.md` is written from the table that reads the settings, and no setting is read, or told of, beside it.

use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::PathBuf};

use callboard::{
    cli::serve::options,
    config::table::{self, Scope, Setting, TABLE},
    messages::settings::ServerOption,
};

use super::{commands::plain, documents, read, root};

/// The page of all settings, `docs/settings.md`.
fn page() -> String {
    let mut page = "# Settings\n\n\
        This page is written from the table that reads the settings, by a test. `callboard settings` and `GET /api/v1/settings` \
        show what a running server goes by. Durations have the units `h`, `m`, `s`, `ms`, `us` and `ns`: a day is `24h`.\n\n\
        ## Options of the server\n\n\
        Given to `callboard serve`, or in the environment; a change takes a restart.\n\n\
        | option | variable | default | meaning |\n| --- | --- | --- | --- |\n"
        .to_owned();
    let code = |text: Option<String>| text.map_or(String::new(), |text| format!("`{text}`"));
    for ServerOption { name, r#type, default, environment, description, .. } in options::described() {
        let is_flag = r#type == "flag";
        let option = plain(&if is_flag { format!("--{name}") } else { format!("--{name} {type}", r#type = r#type) });
        let (env, default) = (code(environment), code(default.filter(|_| !is_flag)));
        let _ = writeln!(page, "| `{option}` | {env} | {default} | {} |", plain(&description));
    }
    page.push_str(
        "\n## Settings of the whole server\n\n\
         In the `extraConfig` of a registration or an update by whoever has the role operator, or with `--set KEY=VALUE`. Of each key \
         the value is in force that a resource manager sent last, else that of `--set`: what one does not send it leaves to the others. It \
         takes a key back with a registration or an update without it, and when it unregisters; while it is away, also over a restart, what \
         it sent stays. In a cluster it holds at the server that leads the resource manager, from then on. A value that cannot be read counts as the default, and the answer and the log say so; with `--set`, and where \
         the table says *refused*, it is an error. `SUBSYSTEM` is one of the names under [CFG-115](rules/configuration.md#cfg-115).\n\n",
    );
    rows(&mut page, Scope::Server);
    page.push_str(
        "\n## Settings of a resource manager\n\n\
         In the `extraConfig` of its own registration or update; they hold for its session. A value that cannot be read refuses the \
         request. Those that are not in force at once are read at registration. An update replaces all that was sent before, the \
         configuration too: send both in full, for an update without a configuration stands for that of the server, and ends partitions \
         which that does not have.\n\n",
    );
    rows(&mut page, Scope::ResourceManager);
    page
}

fn rows(page: &mut String, scope: Scope) {
    page.push_str("| key | value | default | in force | meaning |\n| --- | --- | --- | --- | --- |\n");
    for row in TABLE.iter().filter(|row| row.scope() == scope) {
        let Setting { key, form, default, live, strict, text } = row;
        let default = match default {
            None => "as started".to_owned(),
            Some("") => "that above".to_owned(),
            Some(default) => format!("`{default}`"),
        };
        let live = if *live { "at once" } else { "at registration" };
        let refused = if *strict && scope == Scope::Server { "; else *refused*" } else { "" };
        let _ = writeln!(page, "| `{key}` | {form}{refused} | {default} | {live} | {text} |");
    }
}

#[test]
fn the_page_of_settings_is_that_of_the_table() {
    let (page, path) = (page(), root().join("docs/settings.md"));
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
