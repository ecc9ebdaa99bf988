//! Every relative link and its anchor leads somewhere, and every page of `docs/` is in the table of contents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::PathBuf,
};

use super::{blocks, documents, read, root};

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    let (mut faults, mut seen) = (String::new(), 0);
    let mut targets: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for (name, text) in &documents {
        let folder = root().join(name).parent().expect("a file has a folder").to_owned();
        let prose = blocks(text).1;
        for link in links(&prose).filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() { root().join(name) } else { folder.join(file) };
            let Ok(path) = path.canonicalize() else {
                let _ = writeln!(faults, "{name}: {link}: there is no such file");
                continue;
            };
            if path.is_dir() {
                // A book has pages, and shows no folders.
                let _ = writeln!(faults, "{name}: {link}: name a file in it");
            }
            let places =
                targets.entry(path).or_insert_with_key(|path| places(&fs::read_to_string(path).unwrap_or_default()));
            if !anchor.is_empty() && !places.contains(anchor) {
                let _ = writeln!(faults, "{name}: {link}: there is no such place");
            }
        }
    }
    assert!(seen > 600, "documents have links: {seen}");
    assert_eq!(faults, "");
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = read("docs/SUMMARY.md");
    let listed: BTreeSet<String> = links(&contents).map(str::to_owned).collect();
    let missing: Vec<String> = documents()
        .into_keys()
        .filter_map(|name| Some(name.strip_prefix("docs/")?.to_owned()))
        .filter(|page| page != "SUMMARY.md" && !listed.contains(page))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "add a line for each to docs/SUMMARY.md");
}

/// Targets of the links of a text without code blocks.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// What a link into a page may name: anchors, and headings as they are numbered off by the book and by code forges.
fn places(text: &str) -> BTreeSet<String> {
    let text = blocks(text).1;
    let ids = text.split("<a id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    });
    ids.chain(headings).collect()
}
