//! The rules of `ARCHITECTURE.md` that can be read off the source: layers, what the domain must not know, sizes.
//!
//! The table under "Layers" is read from the document, so that the two cannot disagree. Comments and the unit tests at the
//! end of a file do not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// A file has one subject; at this size it has several.
const LONGEST: usize = 700;

/// What a state machine without I/O, clock and randomness has no use for.
const NOT_IN_DOMAIN: [&str; 21] = [
    "actix::",
    "actix_rt::",
    "actix_web::",
    "bytes::",
    "futures::",
    "jiff::",
    "pbjson::",
    "prost::",
    "prost_types::",
    "rand::",
    "reqwest::",
    "std::env::",
    "std::fs::",
    "std::io::",
    "std::net::",
    "std::thread::",
    "std::time::",
    "tokio::",
    "tonic::",
    "tracing::",
    "uuid::",
];

/// Who may name `domain::Partition` outside the domain: its actor, the messages that hand out snapshots of it, the views
/// that read those, the commands that run one offline, and the reading of the log.
const KNOW_PARTITION: [&str; 8] = [
    "actors/partition.rs",
    "actors/partition/",
    "actors/rm/replay.rs",
    "actors/rm/restore.rs",
    "messages/partition.rs",
    "messages/recorded.rs",
    "http/",
    "cli/",
];

/// What makes, renames or removes files, as it stands in a source without white space.
const MAKES_FILES: [&str; 8] = [
    "fs::rename(",
    "fs::remove_file(",
    "fs::create_dir",
    "fs::hard_link(",
    "fs::write(",
    "File::create",
    ".create(true)",
    ".create_new(true)",
];

/// The crates that are one layer each, and where their sources are.
const CRATES: [&str; 2] = ["client", "si"];

/// A source file.
struct Source {
    /// Path below `src/`, of another crate that of its layer before it.
    path: String,
    /// All of it.
    whole: String,
    /// Without comments, texts and the unit tests at its end.
    code: String,
}

impl Source {
    /// The paths into other layers and its own, as a source of the server names them: `crate::LAYER::…`.
    fn paths(&self) -> Vec<String> {
        let own = CRATES.iter().find(|name| self.path.strip_prefix(**name).is_some_and(|rest| rest.starts_with('/')));
        let mut paths = crate_paths(&self.code);
        if let Some(own) = own {
            paths.iter_mut().for_each(|path| path.insert_str("crate::".len(), &format!("{own}::")));
        }
        for name in ["domain"].iter().chain(&CRATES) {
            let named = format!("callboard_{name}::");
            let starts = self.code.match_indices(&named).filter(|(at, _)| !self.code[..*at].ends_with(in_word));
            for (path, _) in starts.map(|(at, _)| tree(&self.code[at..])) {
                let inside = path.iter().map(|path| path.strip_prefix(&named).unwrap_or_default());
                paths.extend(inside.map(|path| match path.strip_prefix("config::") {
                    Some(_) if *name == "domain" => format!("crate::{path}"),
                    _ => format!("crate::{name}::{path}"),
                }));
            }
        }
        paths
    }
}

#[test]
fn layers_use_only_what_the_table_allows() {
    let table = layers();
    let mut faults = String::new();
    for source in sources() {
        let Some(layer) = layer(&source.path) else { continue };
        let Some(allowed) = table.get(layer) else {
            writeln!(faults, "src/{}: no row for `{layer}` in the table of ARCHITECTURE.md", source.path).unwrap();
            continue;
        };
        let Some(allowed) = allowed else { continue };
        for path in source.paths() {
            let used = match path.split("::").nth(1).unwrap_or_default() {
                // The domain's crate holds two layers.
                "config" => "config",
                _ if ["domain", "config"].contains(&layer) => "domain",
                used => used,
            };
            if used != layer && !allowed.contains(used) {
                writeln!(faults, "src/{}: {path}, but `{layer}` may use {allowed:?} only", source.path).unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn the_domain_knows_no_actor_no_io_no_clock_and_no_chance() {
    let mut faults = String::new();
    for source in sources().iter().filter(|source| source.path.starts_with("domain/")) {
        let paths: Vec<String> = used_paths(&source.code);
        for name in NOT_IN_DOMAIN {
            if paths.iter().any(|path| format!("{path}::").starts_with(name)) || names(&source.code, name) {
                writeln!(faults, "src/{}: {name}", source.path).unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn only_its_actor_names_the_partition() {
    let mut faults = String::new();
    for source in sources() {
        let knows = source.path.starts_with("domain/") || KNOW_PARTITION.iter().any(|at| source.path.starts_with(at));
        for path in source.paths() {
            let partition = ["crate::domain::Partition", "crate::domain::partition"];
            if !knows && partition.iter().any(|name| format!("{path}::").starts_with(&format!("{name}::"))) {
                writeln!(faults, "src/{}: {path}", source.path).unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn what_the_document_names_is_there() {
    let sources = sources();
    let document = fs::read_to_string(project("ARCHITECTURE.md")).unwrap();
    let section = |title: &str| {
        let from = document.find(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no section {title:?}"));
        let text = &document[from + 1..];
        text.split_once("\n## ").map_or(text, |(section, _)| section).to_owned()
    };
    let mut faults = String::new();
    for title in ["The path of one allocation", "The path of one swap"] {
        let text = section(title);
        let names: Vec<&str> = quoted(&text).collect();
        assert!(names.len() > 10, "{title}: {names:?}");
        for name in names.into_iter().filter(|name| !name.ends_with('/')) {
            let there = match name.strip_suffix(".rs") {
                Some(_) => sources.iter().any(|source| format!("/{}", source.path).ends_with(&format!("/{name}"))),
                None if name.starts_with(char::is_uppercase) => sources.iter().any(|source| names_it(source, name)),
                None => sources.iter().any(|source| names_it(source, &format!("fn {name}"))),
            };
            if !there {
                writeln!(faults, "{title}: `{name}`").unwrap();
            }
        }
    }
    for title in ["Layers", "The map"] {
        for row in section(title).lines().filter(|line| line.starts_with("| `")) {
            let folders = row.split('|').nth(1).unwrap_or_default();
            for path in quoted(folders).filter(|path| !project(path).exists()) {
                writeln!(faults, "{title}: `{path}`").unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "ARCHITECTURE.md names what is not there:\n{faults}");
}

fn names_it(source: &Source, name: &str) -> bool {
    source.code.match_indices(name).any(|(at, _)| !source.code[at + name.len()..].starts_with(in_word))
}

#[test]
fn no_file_grows_beyond_one_subject() {
    let sources = sources();
    let long = sources.iter().map(|source| (source.whole.lines().count(), &source.path)).filter(|(n, _)| *n > LONGEST);
    let long: Vec<_> = long.collect();
    assert!(long.is_empty(), "more than {LONGEST} lines: {long:?}");
}

#[test]
fn files_that_outlive_the_process_are_made_where_directories_are_flushed() {
    let lasting = |path: &str| {
        ["store/", "actors/", "access/", "cli/serve", "cli/token.rs"].iter().any(|layer| path.starts_with(layer))
    };
    let mut faults = String::new();
    for source in sources().iter().filter(|source| lasting(&source.path) && source.path != "store/files.rs") {
        for what in MAKES_FILES {
            if source.code.contains(what) {
                writeln!(faults, "src/{}: {what}, which is for store/files.rs", source.path).unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn nothing_is_left_unfinished() {
    let mut faults = String::new();
    for source in sources() {
        for unfinished in ["todo!", "unimplemented!", "dbg!"] {
            if names(&source.code, unfinished) {
                writeln!(faults, "src/{}: {unfinished}", source.path).unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

/// The table under "Layers": what each layer may use; `None` for anything.
fn layers() -> BTreeMap<String, Option<BTreeSet<String>>> {
    let text = fs::read_to_string(project("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let section = text.split("\n## Layers\n").nth(1).expect("ARCHITECTURE.md has a section Layers");
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut table = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let &[folders, _, may_use] = &cells[..] else { panic!("not three cells: {row}") };
        let used = if may_use.contains("anything") { None } else { Some(quoted(may_use).map(str::to_owned).collect()) };
        for folder in quoted(folders).filter(|folder| folder.contains("src/")) {
            let name = folder.trim_end_matches("/src/").trim_end_matches('/').trim_end_matches(".rs");
            let name = name.rsplit('/').next().unwrap_or(name);
            table.insert(name.to_owned(), used.clone());
        }
    }
    assert!(table.contains_key("domain"), "ARCHITECTURE.md has a table of layers");
    table
}

/// What stands between back-ticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The layer of a file: its folder, or its name at the top. The wiring at the top has none.
fn layer(path: &str) -> Option<&str> {
    match path.split_once('/') {
        Some((folder, _)) => Some(folder),
        None => Some(path.trim_end_matches(".rs")).filter(|name| !["lib", "main"].contains(name)),
    }
}

fn sources() -> Vec<Source> {
    let mut sources = sources_of(&project("src"));
    for mut source in sources_of(&project("crates/domain/src")) {
        if !source.path.starts_with("config/") {
            source.path.insert_str(0, "domain/");
        }
        sources.push(source);
    }
    for name in CRATES {
        for mut source in sources_of(&project(&format!("crates/{name}/src"))) {
            source.path.insert_str(0, &format!("{name}/"));
            sources.push(source);
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn sources_of(root: &Path) -> Vec<Source> {
    let mut folders = vec![root.to_owned()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry of a folder of sources").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let whole = fs::read_to_string(&path).expect("a source file");
                let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                // Modules of tests whose attribute stands in their parent.
                if !path.ends_with("tests.rs") && !path.contains("/tests/") {
                    sources.push(Source { path, code: code(&whole), whole });
                }
            }
        }
    }
    sources
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A source without its unit tests, comments and texts, white space removed but between words.
fn code(whole: &str) -> String {
    let mut out = String::with_capacity(whole.len());
    let mut rest = without_tests(whole);
    while let Some(c) = rest.chars().next() {
        let word_before = out.chars().next_back().is_some_and(in_word);
        let skipped = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => quoted_text(rest),
            'r' if !word_before && raw_quotes(rest).is_some() => raw_text(rest),
            '\'' => character(rest),
            _ => 0,
        };
        if skipped == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            out.push(' ');
            rest = &rest[skipped..];
        }
    }
    let mut packed = String::with_capacity(out.len());
    for word in out.split_whitespace() {
        if packed.chars().next_back().is_some_and(in_word) && word.chars().next().is_some_and(in_word) {
            packed.push(' ');
        }
        packed.push_str(word);
    }
    packed
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A source up to its unit tests, which stand at the end.
fn without_tests(whole: &str) -> &str {
    let module = |(at, mark): &(usize, &str)| whole[at + mark.len()..].lines().next().is_some_and(|l| l.ends_with('{'));
    whole.match_indices("#[cfg(test)]\nmod ").find(module).map_or(whole, |(at, _)| &whole[..at])
}

/// Length of the text in quotes at the start.
fn quoted_text(rest: &str) -> usize {
    let mut escaped = false;
    let end = rest[1..].find(|c| {
        let end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        end
    });
    end.map_or(rest.len(), |end| end + 2)
}

/// What ends the raw text at the start, where there is one.
fn raw_quotes(rest: &str) -> Option<String> {
    let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
    rest[1 + hashes..].starts_with('"').then(|| format!("\"{}", "#".repeat(hashes)))
}

/// Length of the raw text at the start.
fn raw_text(rest: &str) -> usize {
    let Some(end) = raw_quotes(rest) else { return 0 };
    let start = 1 + end.len();
    rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
}

/// Length of the character at the start; 0 for a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => rest[3..].find('\'').map_or(0, |at| at + 4),
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 0,
    }
}

/// The code holds this name, and not only as the end of a longer one.
fn names(code: &str, name: &str) -> bool {
    let part = |c: char| in_word(c) || c == ':';
    code.match_indices(name).any(|(at, _)| !code[..at].chars().next_back().is_some_and(part))
}

/// Every path that begins with `crate::`, groups taken apart.
fn crate_paths(code: &str) -> Vec<String> {
    let starts = code.match_indices("crate::").filter(|(at, _)| !code[..*at].ends_with(['_', '$']));
    starts.flat_map(|(at, _)| tree(&code[at..]).0).collect()
}

/// Every path of a `use` declaration, groups taken apart.
fn used_paths(code: &str) -> Vec<String> {
    code.match_indices("use ").flat_map(|(at, name)| tree(&code[at + name.len()..]).0).collect()
}

/// The paths of a `use` tree at the start of a text, and how long it is.
fn tree(text: &str) -> (Vec<String>, usize) {
    let part = |c: char| in_word(c) || c == ':' || c == '*';
    let stem_end = text.find(|c| !part(c)).unwrap_or(text.len());
    let stem = &text[..stem_end];
    if !text[stem_end..].starts_with('{') || !(stem.is_empty() || stem.ends_with("::")) {
        return (vec![stem.trim_end_matches(':').to_owned()], stem_end);
    }
    let mut paths = Vec::new();
    let mut at = stem_end + 1;
    while at < text.len() && !text[at..].starts_with('}') {
        let (below, length) = tree(&text[at..]);
        paths.extend(below.into_iter().filter(|path| !path.is_empty()).map(|path| format!("{stem}{path}")));
        // Past a new name (`as X`) and the comma.
        let rest = &text[at + length..];
        at += length + rest.find([',', '}']).unwrap_or(rest.len());
        at += usize::from(text[at..].starts_with(','));
    }
    (paths, (at + 1).min(text.len()))
}

mod reading {
    use super::*;

    #[test]
    fn comments_texts_and_tests_do_not_count() {
        let read =
            code("use a::b; // c::d\nlet x = \"e::f \\\"\n//\" / g::h;\n/// i::j\n#[cfg(test)]\nmod tests {\n k::l }");
        assert_eq!(read, "use a::b;let x=/g::h;");
        assert_eq!(code(r##"f(r#"a"b"#, '"', '\'', &'x y, b'c', /* d */ e)"##), "f(,,,&'x y,b,e)");
        assert_eq!(code("#[cfg(test)]\nmod tests;\nuse a::b;"), "#[cfg(test)]mod tests;use a::b;");
    }

    #[test]
    fn groups_are_taken_apart() {
        let read = code(
            "use crate::{\n    config::{A, b::C as D},\n    domain::Partition,\n};\nlet y = crate::si::v1::X { z };",
        );
        assert_eq!(
            crate_paths(&read),
            ["crate::config::A", "crate::config::b::C", "crate::domain::Partition", "crate::si::v1::X"]
        );
        assert_eq!(used_paths(&code("use std::{time::Instant, fs};")), ["std::time::Instant", "std::fs"]);
    }

    #[test]
    fn paths_of_crates_are_those_of_layers() {
        let code = code("use crate::v1; use callboard_domain::{config::A, b::C}; use my_callboard_si::x;");
        let source = Source { path: "si/line.rs".to_owned(), whole: String::new(), code };
        assert_eq!(source.paths(), ["crate::si::v1", "crate::config::A", "crate::domain::b::C"]);
    }

    #[test]
    fn names_are_whole() {
        assert!(names("x(dbg!(y))", "dbg!") && !names("my_dbg!(y)", "dbg!") && !names("a::tokio::x", "tokio::"));
    }

    #[test]
    fn the_wiring_has_no_layer() {
        assert_eq!(layer("main.rs"), None);
        assert_eq!(layer("metrics.rs"), Some("metrics"));
        assert_eq!(layer("http/ws_v1/router.rs"), Some("http"));
    }
}
