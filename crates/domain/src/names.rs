//! Which names queues, users, groups and rules may have (CFG-020–CFG-025, CFG-075).

/// Longest name of one queue, in characters (CFG-020).
pub const MAX_QUEUE_NAME: usize = 64;

/// Most levels of a queue path, root included: what walks the tree may call itself once per level, and a row keeps its
/// whole path.
pub const MAX_QUEUE_LEVELS: usize = 64;

/// What is answered to a queue path of more levels.
pub fn too_many_levels(levels: usize) -> String {
    format!("a queue path of {levels} levels is too deep: at most {MAX_QUEUE_LEVELS}, root included, are allowed")
}

/// What is answered to a queue name that is not allowed (CFG-020).
pub const INVALID_QUEUE_NAME: &str = "invalid queue name, max 64 characters consisting of alphanumeric characters and \
                                      '-', '_', '#', '@', '/', ':' allowed";

/// Cuts a text to at most so many bytes, where it has more, and says so with `…`.
pub fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
}

/// One part of a queue path: 1 to 64 letters, digits and `_ : # / @ -` (CFG-020).
pub fn is_queue_name(name: &str) -> bool {
    (1..=MAX_QUEUE_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:#/@-".contains(&b))
}

/// A user: a letter or `_`, then letters, digits and `: # / _ . @ -`, at the end optionally one `$` (CFG-024).
pub fn is_user_name(name: &str) -> bool {
    let name = name.strip_suffix('$').unwrap_or(name);
    starts_with_letter(name) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b":#/_.@-".contains(&b))
}

/// A group: a letter or `_`, then letters, digits and `: _ . -` (CFG-025).
pub fn is_group_name(name: &str) -> bool {
    starts_with_letter(name) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b":_.-".contains(&b))
}

/// A placement rule: an identifier (CFG-075).
pub fn is_rule_name(name: &str) -> bool {
    starts_with_letter(name) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn starts_with_letter(name: &str) -> bool {
    name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names() {
        // CFG-020
        assert!(is_queue_name("parent_Child_test-a_b_#_c_#_d_/_e@dom:ain"));
        assert!(is_queue_name(&"a".repeat(64)));
        assert!(is_queue_name("@recovery@")); // CFG-021
        for bad in ["", "root.parent", "a b", "a!", "ä", &"a".repeat(65)] {
            assert!(!is_queue_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn user_and_group_names() {
        // CFG-024
        for good in ["system:serviceaccounts:ns:name-77", "_x", "svc$", "a", &"a".repeat(300)] {
            assert!(is_user_name(good), "{good:?}");
        }
        for bad in ["", "user name", "1user", "a!b", "a$b", "a$$", "$"] {
            assert!(!is_user_name(bad), "{bad:?}");
        }
        // CFG-025
        assert!(is_group_name("system:authenticated") && is_group_name("dotted.group-1"));
        for bad in ["", "group@name", "g#1", "g/1", "g$", "1g"] {
            assert!(!is_group_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn rule_names() {
        // CFG-075
        assert!(is_rule_name("fixed") && is_rule_name("_my_Rule2"));
        for bad in ["", "2fixed", "my-rule", "my rule"] {
            assert!(!is_rule_name(bad), "{bad:?}");
        }
    }
}
