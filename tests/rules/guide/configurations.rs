//! `yaml` blocks are queue configurations that are accepted without a warning, `yaml,refused` ones are refused with the
//! words of the `text` block below. Any other YAML is marked `yml`.

use std::fmt::Write as _;

use callboard::config;

use super::{Block, blocks, documents};

#[test]
fn shown_configurations_are_accepted_or_refused_as_the_page_says() {
    let (mut faults, mut accepted, mut refused) = (String::new(), 0, 0);
    for (name, text) in documents() {
        let found = blocks(&text).0;
        for (block, next) in found.iter().zip(found.iter().skip(1).map(Some).chain([None])) {
            let at = format!("{name}:{}", block.line);
            match &*block.kind {
                "yaml" => {
                    accepted += 1;
                    let told = told(&block.text);
                    if !told.is_empty() {
                        let _ = writeln!(faults, "{at}: is not right: {told:?}");
                    }
                }
                "yaml,refused" => {
                    refused += 1;
                    let told = told(&block.text);
                    let shown = next.filter(|next| next.kind == "text").map_or("", |next| next.text.as_str());
                    if told.is_empty() || told.join("\n") != shown.trim_end() {
                        let _ = writeln!(faults, "{at}: the reader says\n{}", told.join("\n"));
                    }
                }
                // As pages showed them before there were fences.
                "" if is_configuration(block) => {
                    accepted += 1;
                    let told = told(&block.text);
                    if !told.is_empty() {
                        let _ = writeln!(faults, "{at}: is not right: {told:?}");
                    }
                }
                _ => {}
            }
        }
    }
    assert_eq!(faults, "");
    assert!(accepted > 25 && refused > 20, "{accepted} accepted, {refused} refused");
}

fn is_configuration(block: &Block) -> bool {
    ["partitions:\n", "queues:\n", "placementrules:\n", "limits:\n"].iter().any(|key| block.text.starts_with(key))
}

/// What the reader says of a text, or of a part of a partition: faults, else warnings, with their rules.
fn told(text: &str) -> Vec<String> {
    let whole = if text.starts_with("partitions:") {
        text.to_owned()
    } else {
        text.lines().fold("partitions:\n  - name: default\n".to_owned(), |all, line| all + "    " + line + "\n")
    };
    // Without its place, which a part does not have.
    let plain = |fault: &config::Fault| fault.to_string().splitn(3, ':').last().unwrap_or_default().trim().to_owned();
    match config::load(&whole).and_then(|loaded| loaded.check_rules().map(|()| loaded.warnings)) {
        Ok(warnings) => warnings.iter().map(plain).collect(),
        Err(refused) => refused.faults.iter().map(plain).collect(),
    }
}
