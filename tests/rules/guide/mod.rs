//! The documents as a book that can be relied on: links lead somewhere, configurations are what the reader of the
//! configuration takes them for, commands are those of the program, and no key is missing in the reference.

mod commands;
mod configurations;
mod interfaces;
mod links;
mod reference;
mod rejections;
mod settings;
mod site;
mod warnings;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Path from the root of the project → text of each document.
pub fn documents() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect(files(root()).into_iter().filter(|path| path.is_file()), &mut found);
    for folder in ["docs", "deploy"] {
        let mut folders = vec![root().join(folder)];
        while let Some(folder) = folders.pop() {
            let (below, here): (Vec<_>, Vec<_>) = files(&folder).into_iter().partition(|path| path.is_dir());
            folders.extend(below);
            collect(here.into_iter(), &mut found);
        }
    }
    assert!(found.len() > 40, "the documents are found: {:?}", found.keys());
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).expect("it can be listed").filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn collect(paths: impl Iterator<Item = PathBuf>, to: &mut BTreeMap<String, String>) {
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
        to.insert(name, fs::read_to_string(&path).expect("a document can be read"));
    }
}

/// A part of a document that is shown as it is.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// What stands behind the fence, such as `yaml`; empty for an indented block.
    pub kind: String,
    /// Its first line in the document, from 1.
    pub line: usize,
    pub text: String,
}

/// The code blocks of a document, fenced or indented by four, and what is left of it: as many lines.
pub fn blocks(text: &str) -> (Vec<Block>, String) {
    let (mut found, mut prose) = (Vec::<Block>::new(), String::new());
    let (mut open, mut indented, mut before_blank) = (None::<Block>, None::<Block>, true);
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().strip_prefix("```");
        if let Some(block) = &mut open {
            if fence.is_some() {
                found.extend(open.take());
            } else {
                block.text += line;
                block.text.push('\n');
            }
            prose.push('\n');
            continue;
        }
        let inside = line.starts_with("    ") && (before_blank || indented.is_some());
        if inside && fence.is_none() {
            let block = indented.get_or_insert(Block { kind: String::new(), line: number, text: String::new() });
            block.text += line.strip_prefix("    ").unwrap_or(line);
            block.text.push('\n');
            prose.push('\n');
            continue;
        }
        if !line.trim().is_empty() {
            found.extend(indented.take());
        }
        if let Some(kind) = fence {
            open = Some(Block { kind: kind.trim().to_owned(), line: number + 1, text: String::new() });
            prose.push('\n');
        } else {
            prose += line;
            prose.push('\n');
        }
        before_blank = line.trim().is_empty();
    }
    assert!(open.is_none(), "a code block does not end");
    found.extend(indented);
    (found, prose)
}

#[test]
fn code_and_prose_are_told_apart() {
    let text = "a\n\n    indented\n\n    more\n\n```yaml\n[x](y)\n```\n- item\n    goes on\n";
    let (found, prose) = blocks(text);
    let kinds: Vec<_> = found.iter().map(|block| (&*block.kind, block.line, &*block.text)).collect();
    assert_eq!(kinds, [("", 3, "indented\nmore\n"), ("yaml", 8, "[x](y)\n")]);
    assert_eq!(prose.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(), ["a", "- item", "    goes on"]);
}
