//! Patterns of the scenarios and of the documented differences: `*` stands for any text, `?` for one character.

/// The pattern matches the whole text.
pub fn matches(pattern: &str, text: &str) -> bool {
    run(&chars(pattern), &chars(text), true, true)
}

/// The pattern, in which only `*` is special, matches a beginning of the text.
pub fn begins(pattern: &str, text: &str) -> bool {
    run(&chars(pattern), &chars(text), false, false)
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

fn run(pattern: &[char], text: &[char], whole: bool, one: bool) -> bool {
    match pattern.split_first() {
        None => !whole || text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|skip| run(rest, &text[skip..], whole, one)),
        Some((c, rest)) => match text.split_first() {
            Some((t, text)) => (c == t || (one && *c == '?')) && run(rest, text, whole, one),
            None => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_texts() {
        assert!(matches("k*", "k1") && matches("*", "") && matches("k?", "k1") && matches("*/nodes", "default/nodes"));
        assert!(!matches("k", "k1") && !matches("k?", "k") && !matches("a*b", "abc"));
    }

    #[test]
    fn beginnings() {
        assert!(begins("final.default/queues", "final.default/queues.children[0]: x") && begins("a*c", "abbcd"));
        assert!(!begins("b", "ab") && !begins("a?", "ab"));
    }
}
