//! `docs/configuration.md` has a section for each key that the reader knows, and for no other.

use std::collections::BTreeSet;

use callboard::{config, domain::settings};

use super::read;

#[test]
fn the_configuration_reference_has_every_key() {
    let page = read("docs/configuration.md");
    let shown: BTreeSet<String> = page.lines().filter_map(|line| Some(line.strip_prefix("### ")?.to_owned())).collect();
    let keys = config::OBJECTS.iter().flat_map(|(object, keys)| {
        // Objects that are keys themselves are written as such.
        let object = match *object {
            "text" => "the text".to_owned(),
            own @ ("partition" | "queue" | "rule" | "limit") => format!("a {own}"),
            key => format!("`{key}`"),
        };
        keys.iter().map(move |key| format!("`{key}` of {object}"))
    });
    let known: BTreeSet<String> = keys.chain(settings::KEYS.iter().map(|key| format!("Property `{key}`"))).collect();
    assert!(known.len() > 45, "{known:?}");
    assert_eq!(shown.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new(), "not known to the reader");
    assert_eq!(known.difference(&shown).collect::<Vec<_>>(), Vec::<&String>::new(), "not in docs/configuration.md");
}
