//! The rules as documents: whatever rule the code cites has one paragraph in `docs/rules`, links there lead somewhere, and
//! configurations shown there are valid.
//!
//! Numbers of a form of their own (`R6.15`, `CFG-092`, `EVT-02A`, `REST 5.3`) are looked for everywhere in a source; those
//! that other things are called as well (`S10` is a load of `callboard bench` too) in comments only.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use callboard::config;

/// Rules whose number has three places.
const SUBJECTS: [&str; 10] = ["ACL", "CFG", "EVT", "OPS", "PLC", "QPR", "QUE", "RES", "TPL", "UGM"];

/// Where comments call the loads of `callboard bench` by their names, which look like numbers of seeds.
const BENCHES: [&str; 2] = ["src/cli/bench/", "benches/"];

#[test]
fn cited_rules_have_a_paragraph() {
    let pages = pages();
    let known = anchors(&pages, &mut String::new());
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    let mut cited = BTreeSet::new();
    for (path, text) in sources() {
        for (line, found) in (1..).zip(text.lines().map(|line| citations(line, &path))) {
            for rule in found {
                if !known.contains_key(&rule) {
                    missing.entry(rule.clone()).or_insert_with(|| format!("{path}:{line}"));
                }
                cited.insert(rule);
            }
        }
    }
    assert!(cited.len() > 500, "the sources cite rules: {}", cited.len());
    assert_eq!(
        missing,
        BTreeMap::new(),
        "rules without a paragraph in docs/rules, with the first place that cites them"
    );
}

#[test]
fn a_rule_has_one_paragraph() {
    let mut faults = String::new();
    let known = anchors(&pages(), &mut faults);
    assert!(known.len() > 800, "the pages have rules: {}", known.len());
    assert_eq!(faults, "");
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let mut faults = String::new();
    let mut targets: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    let mut seen = 0;
    for (name, text) in &pages {
        for link in links(text).filter(|link| !link.contains("://")) {
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { rules().join(name) } else { rules().join(file) };
            let Ok(path) = path.canonicalize() else {
                let _ = writeln!(faults, "{name}: {link}: there is no such file");
                continue;
            };
            let places =
                targets.entry(path).or_insert_with_key(|path| places(&fs::read_to_string(path).unwrap_or_default()));
            if !anchor.is_empty() && !places.contains(anchor) {
                let _ = writeln!(faults, "{name}: {link}: there is no such place");
            }
        }
        let listed = name == "README.md" || pages["README.md"].contains(&format!("]({name})"));
        if !listed {
            let _ = writeln!(faults, "{name} is not in the table of README.md");
        }
    }
    assert!(seen > 500, "the pages have links: {seen}");
    assert_eq!(faults, "");
}

#[test]
fn configurations_are_valid() {
    let mut seen = BTreeSet::new();
    for (name, text) in &pages() {
        for block in text.split("```yaml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)) {
            let whole = match block.starts_with("partitions:") {
                true => block.to_owned(),
                // A part of a partition.
                false => block
                    .lines()
                    .fold("partitions:\n  - name: default\n".to_owned(), |all, line| all + "    " + line + "\n"),
            };
            let loaded = config::load(&whole).unwrap_or_else(|refused| panic!("{name}: {refused:?}\n{whole}"));
            assert!(loaded.check_rules().is_ok() && loaded.warnings.is_empty(), "{name}: {loaded:?}");
            seen.insert(whole);
        }
    }
    assert!(seen.contains(config::DEFAULT.trim_start()), "configuration.md shows the built-in default");
}

/// Whoever looks up what the page, an alert or the health check says finds it.
#[test]
fn troubleshooting_knows_every_reason_and_alert() {
    let page = read("docs/troubleshooting.md");
    let why = read("src/http/api/board/why.rs");
    let titles = why.split_once("pub fn title(").and_then(|(_, rest)| rest.split_once("\n}")).expect("the titles").0;
    let codes =
        titles.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" =>")).map(|(code, _)| code);
    let rules = read("deploy/prometheus-rules.yml");
    let named: Vec<&str> = codes.chain(alerts(&rules)).chain(["turn"]).collect();
    assert!(named.len() > 25, "{named:?}");
    let missing: Vec<_> = named.into_iter().filter(|name| !page.contains(&format!("| `{name}` |"))).collect();
    assert_eq!(missing, Vec::<&str>::new(), "not in docs/troubleshooting.md");
}

#[test]
fn each_alert_has_a_runbook() {
    let (page, rules) = (read("docs/operations.md"), read("deploy/prometheus-rules.yml"));
    let runbooks: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(runbooks, alerts(&rules).collect::<Vec<_>>(), "headings of docs/operations.md, and alerts");
}

fn alerts(rules: &str) -> impl Iterator<Item = &str> {
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn citations_are_recognised() {
    let found = |line: &str| citations(line, "src/x.rs");
    assert_eq!(found("// R6.15, R3.17a–R3.18 (R5.3)."), ["R6.15", "R3.17a", "R3.18", "R5.3"]);
    assert_eq!(
        found("\"CFG-07A\" // EVT-02A: CFG-090a, J5.1; REST 5.13, SEEDS S19, T11"),
        ["CFG-07A", "EVT-02A", "CFG-090a", "J5.1", "REST 5.13", "S19", "T11"]
    );
    // Names of other things.
    assert_eq!(
        found("let t4 = \"T4 S10\"; // SHA-256, XS10, R1, v1.R2.3x, S10a, RS-001, J, REST"),
        Vec::<String>::new()
    );
    assert_eq!(citations("// S10 and R5.3", "src/cli/bench/shapes.rs"), ["R5.3"]);
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rules() -> PathBuf {
    root().join("docs/rules")
}

/// Name → text of each page.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(rules()).expect("docs/rules is there") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            pages.insert(name, fs::read_to_string(&path).expect("a page can be read"));
        }
    }
    pages
}

/// Path and text of whatever may cite a rule: sources, and the list of differences.
fn sources() -> Vec<(String, String)> {
    let mut paths = vec![root().join("docs/differences.md"), root().join("docs/differences.json")];
    for folder in ["src", "crates", "tests", "benches"] {
        collect(&root().join(folder), &mut paths);
    }
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("a source can be read"))
    };
    // The examples of this file are no citations.
    paths.into_iter().map(read).filter(|(name, _)| name != "tests/rules/documents.rs").collect()
}

fn collect(folder: &Path, to: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources can be listed") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            collect(&path, to);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            to.push(path);
        }
    }
}

/// Rule → page. Faults: a number that stands at two paragraphs, or whose anchor is not its own.
fn anchors(pages: &BTreeMap<String, String>, faults: &mut String) -> BTreeMap<String, String> {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for (page, text) in pages {
        for part in text.split("<a id=\"").skip(1) {
            let Some((id, (rule, _))) =
                part.split_once("\"></a>**").and_then(|(id, rest)| Some((id, rest.split_once("**")?)))
            else {
                let _ = writeln!(
                    faults,
                    "{page}: an anchor without its rule: {}",
                    part.chars().take(30).collect::<String>()
                );
                continue;
            };
            if id != anchor(rule) {
                let _ = writeln!(faults, "{page}: the anchor of {rule} is {id}");
            }
            if let Some(other) = known.insert(rule.to_owned(), page.clone()) {
                let _ = writeln!(faults, "{rule} stands in {other} and in {page}");
            }
        }
        for part in text.split("**").skip(1).step_by(2) {
            if citations(&format!("// {part}"), "").first().is_some_and(|rule| rule == part)
                && !text.contains(&format!("</a>**{part}**"))
            {
                let _ = writeln!(faults, "{page}: {part} has no anchor");
            }
        }
    }
    known
}

/// The address of a rule within its page.
fn anchor(rule: &str) -> String {
    rule.to_lowercase().replace(['.', ' '], "-")
}

/// Targets of the links of a page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// What a link into a page may name: anchors, and headings.
fn places(text: &str) -> BTreeSet<String> {
    let ids = text.split("<a id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    });
    ids.chain(headings).collect()
}

/// The rules that a line of a source cites.
fn citations(line: &str, path: &str) -> Vec<String> {
    let comment = if path.ends_with(".rs") || path.is_empty() { line.find("//") } else { Some(0) };
    let bench = BENCHES.iter().any(|folder| path.starts_with(folder));
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        let begins = !(before.is_ascii_alphanumeric() || matches!(before, '_' | '-' | '.'));
        before = letter;
        let Some(length) = Some(&line[at..]).filter(|_| begins && letter.is_ascii_uppercase()).and_then(number) else {
            continue;
        };
        let rule = &line[at..at + length];
        let plain = rule.starts_with(['S', 'T', 'J']) && !rule.contains('-');
        if !plain || (comment.is_some_and(|comment| comment < at) && !bench) {
            found.push(rule.to_owned());
        }
    }
    found
}

/// Length of the number that a text begins with.
fn number(text: &str) -> Option<usize> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let letter = |at: usize| usize::from(text[at..].starts_with(|c: char| c.is_ascii_lowercase()));
    let part = |at: usize| if text[at..].starts_with('.') && digits(at + 1) > 0 { 1 + digits(at + 1) } else { 0 };
    let subject = SUBJECTS.iter().find_map(|subject| text.strip_prefix(subject)?.strip_prefix('-'));
    let length = if let Some(rest) = subject {
        let rest = rest.as_bytes();
        let three = rest.len() >= 3
            && rest[0].is_ascii_digit()
            && rest[1..3].iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
        let end = "CFG-001".len();
        if three { end + letter(end) } else { return None }
    } else if let Some(rest) = text.strip_prefix("REST ") {
        let begin = text.len() - rest.len();
        match digits(begin) {
            0 => return None,
            n => begin + n + part(begin + n),
        }
    } else {
        let n = digits(1);
        let end = 1 + n + part(1 + n);
        match text.as_bytes()[0] {
            b'R' if n > 0 && end > 1 + n => end + letter(end),
            b'J' if n > 0 => end,
            b'S' | b'T' if n > 0 => 1 + n,
            _ => return None,
        }
    };
    let goes_on = text[length..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    (!goes_on).then_some(length)
}
