//! `docs/troubleshooting.md` has each text by which an application, an ask or a node is rejected, and no other. `…` there stands
//! for what the sources put in, and at the end also for the rest of a long text.

use std::collections::BTreeSet;

use super::read;

/// Where rejections are worded, with the beginnings of other texts that stand there.
const SOURCES: [(&str, &[&str]); 15] = [
    ("crates/domain/src/names.rs", &[]),
    ("crates/domain/src/partition/admission.rs", &["guaranteed resource "]),
    ("crates/domain/src/partition/apps.rs", &["Application … Removed", "asks of", "releasing "]),
    ("crates/domain/src/partition/asks.rs", &[]),
    ("crates/domain/src/partition/foreign.rs", &[]),
    ("crates/domain/src/partition/gang.rs", &["releasing ", "replacing "]),
    // The text of a node that is there already stands around the one that says so.
    ("crates/domain/src/partition/nodes.rs", &["Node ", "failed to add node "]),
    (
        "crates/domain/src/partition/queue_orders.rs",
        &["cannot be ", "drained: ", "overwrite ", "queue '", "queue … is neither", "queue … was neither"],
    ),
    ("crates/domain/src/partition/releases.rs", &["allocation remove", "ask removed", "releasing "]),
    ("crates/domain/src/placement/reason.rs", &[]),
    ("crates/domain/src/resource_types.rs", &[]),
    ("crates/si/src/inward.rs", &["a name of ugi", "unknown kind"]),
    ("src/actors/resolvers.rs", &["%Y"]),
    ("src/actors/rm/unknown.rs", &[]),
    // What a directory says follows after one of the texts of `resolvers.rs`.
    ("src/actors/resolvers/ldap.rs", &["cannot ", "directory ", "groups of users", "no answer", "the connection"]),
];

/// Texts of at least three words in a source, without its comments and tests.
fn texts(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let code = code.replace("'\"'", "' '").replace("\\\"", "\u{1}");
    let literals = code.split('"').skip(1).step_by(2).map(told);
    literals.filter(|text| text.split_whitespace().count() > 2).collect()
}

/// A literal as it is told: `…` for each value, one blank for each break, and nothing before the first word.
fn told(literal: &str) -> String {
    let mut text = String::new();
    for (n, part) in literal.split('{').enumerate() {
        match part.split_once('}') {
            Some((_, rest)) if n > 0 => text.extend(["…", rest]),
            _ => text.push_str(part),
        }
    }
    let text = text.replace("\\\n", " ").replace("\\n", " ").replace('\u{1}', "\"").replace("……", "…");
    text.split_whitespace().collect::<Vec<_>>().join(" ").trim_start_matches(['…', ' ', ';']).to_owned()
}

#[test]
fn troubleshooting_knows_every_rejection() {
    let page = read("docs/troubleshooting.md");
    let from = page.find("## An application was rejected").expect("the section");
    let to = page.find("## Nothing is placed at all").expect("the section after them");
    let rows: BTreeSet<String> =
        page[from..to].lines().filter_map(|line| Some(told(line.strip_prefix("| `")?.split_once('`')?.0))).collect();
    let mut rejections = BTreeSet::new();
    for (path, others) in SOURCES {
        let all = texts(&read(path));
        assert!(!all.is_empty(), "{path}: no texts");
        for other in others {
            assert!(all.iter().any(|text| text.starts_with(other)), "{path}: {other} is not there any more");
        }
        rejections.extend(all.into_iter().filter(|text| !others.iter().any(|other| text.starts_with(other))));
    }
    let begins = |row: &str, text: &str| row.strip_suffix('…').is_some_and(|begin| text.starts_with(begin));
    let (mut known, mut gone) = (BTreeSet::new(), Vec::new());
    for row in &rows {
        let before = known.len();
        match rejections.get(row) {
            Some(text) => _ = known.insert(text),
            None => known.extend(rejections.iter().filter(|text| begins(row, text))),
        }
        if known.len() == before {
            gone.push(row);
        }
    }
    assert!(rejections.len() > 40, "{rejections:?}");
    assert_eq!(gone, Vec::<&String>::new(), "in docs/troubleshooting.md and in no source");
    let missing: Vec<_> = rejections.iter().filter(|text| !known.contains(text)).collect();
    assert_eq!(missing, Vec::<&String>::new(), "not in docs/troubleshooting.md");
}
