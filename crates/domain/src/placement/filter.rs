//! Filters of placement rules: whom a rule is for (PLC-020–PLC-025).

use std::{collections::BTreeSet, sync::Arc};

use regex::{Regex, RegexBuilder};

use super::rule::FilterSpec;
use crate::coded::{Coded, Error, Reader, Writer, list, variants};
use crate::names::{is_group_name, is_user_name};

/// What a filter does with those whom it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// They are let in, others not.
    #[default]
    Allow,
    /// They are kept out, others not.
    Deny,
}

impl Verdict {
    /// The name in configuration and REST.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
        }
    }
}

/// A filter that can run; the default lets everybody in.
#[derive(Clone, Debug)]
pub struct Filter {
    /// For those whom it names.
    pub verdict: Verdict,
    /// Neither users nor groups were configured: the verdict is for everybody (PLC-020).
    pub empty: bool,
    /// Users that the filter names.
    pub users: Names,
    /// Groups that the filter names.
    pub groups: Names,
}

impl Default for Filter {
    fn default() -> Self {
        Filter { verdict: Verdict::Allow, empty: true, users: Names::default(), groups: Names::default() }
    }
}

/// A list of a filter: names or one expression.
#[derive(Clone, Debug)]
pub enum Names {
    /// Exact names (PLC-025).
    List(BTreeSet<Arc<str>>),
    /// An expression that is looked for anywhere in a name (PLC-023).
    Expression(Regex),
}

impl Default for Names {
    fn default() -> Self {
        Names::List(BTreeSet::new())
    }
}

impl Names {
    fn matches(&self, name: &str) -> bool {
        match self {
            Names::List(names) => names.contains(name),
            Names::Expression(expression) => expression.is_match(name),
        }
    }

    fn build(entries: &[String], valid: fn(&str) -> bool) -> Result<Names, String> {
        match entries {
            [one] if is_expression(one) => compile(one).map(Names::Expression).ok_or_else(|| {
                format!("filter expression {one} is not a regular expression, write one that compiles or a plain name")
            }),
            // Names that nobody can have are left out; the filter does not become an empty one (PLC-024).
            _ => Ok(Names::List(
                entries.iter().filter(|name| valid(name)).map(|name| Arc::from(name.as_str())).collect(),
            )),
        }
    }
}

/// The entry has one of the characters that make it a regular expression (PLC-023).
pub fn is_expression(entry: &str) -> bool {
    entry.contains(['^', '$', '*', '+', '?', '(', ')', '[', '{', '}', '|'])
}

/// Longest expression in bytes.
const LONGEST: usize = 4_096;
/// Sizes in memory that an expression is tried with, in bytes; the last is the largest that is allowed.
const SIZES: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// What the expressions of a configuration may take together.
pub const MAX_EXPRESSIONS: usize = 16 << 20;

/// Compiles an expression in the syntax of RE2, where a brace that begins no repetition stands for itself. `None` for one that
/// does not compile, or that a few repetitions make large.
fn compile(text: &str) -> Option<Regex> {
    sized(text).map(|(expression, _)| expression)
}

/// At most what an expression takes, in bytes; `None` where there is none.
pub fn size(text: &str) -> Option<usize> {
    sized(text).map(|(_, size)| size)
}

fn sized(text: &str) -> Option<(Regex, usize)> {
    if text.len() > LONGEST {
        return None;
    }
    let escaped = with_literal_braces(text);
    let build = |text: &str, size| RegexBuilder::new(text).size_limit(size).dfa_size_limit(256 << 10).build();
    SIZES.into_iter().find_map(|size| Some((build(text, size).or_else(|_| build(&escaped, size)).ok()?, size)))
}

fn with_literal_braces(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '{']) {
        let (before, found) = rest.split_at(at);
        escaped.push_str(before);
        // An escape keeps the character after it, whatever it is.
        let kept = if found.starts_with('\\') { found.chars().take(2).map(char::len_utf8).sum() } else { 1 };
        if found.starts_with('{') && !is_repetition(&found[1..]) {
            escaped.push('\\');
        }
        escaped.push_str(&found[..kept]);
        rest = &found[kept..];
    }
    escaped + rest
}

/// What follows a brace makes it a repetition: `3}`, `3,}`, `3,5}`.
fn is_repetition(text: &str) -> bool {
    let Some((inside, _)) = text.split_once('}') else {
        return false;
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    !least.is_empty() && least.bytes().chain(most.bytes()).all(|b| b.is_ascii_digit())
}

impl Filter {
    /// Makes a filter; the type is read in any case (PLC-022).
    pub(super) fn build(spec: &FilterSpec) -> Result<Filter, String> {
        let verdict = if spec.kind.eq_ignore_ascii_case("deny") { Verdict::Deny } else { Verdict::Allow };
        Ok(Filter {
            verdict,
            empty: spec.users.is_empty() && spec.groups.is_empty(),
            users: Names::build(&spec.users, is_user_name)?,
            groups: Names::build(&spec.groups, is_group_name)?,
        })
    }

    /// The rule is for this user with these groups (PLC-020, PLC-021).
    pub fn admits(&self, user: &str, groups: &[Arc<str>]) -> bool {
        let named = self.empty || self.users.matches(user) || groups.iter().any(|group| self.groups.matches(group));
        named == (self.verdict == Verdict::Allow)
    }
}

list!(Filter { verdict, empty, users, groups });
variants!(Verdict { 1 Allow, 2 Deny });
variants!(Names { 1 List(names), 2 Expression(expression) });

impl Coded for Regex {
    fn write(&self, to: &mut Writer) {
        to.text(self.as_str());
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let text = from.text()?;
        compile(&text).ok_or_else(|| from.fail(format!("{text} is no regular expression that is allowed")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(kind: &str, users: &[&str], groups: &[&str]) -> Filter {
        let list = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        Filter::build(&FilterSpec { kind: kind.to_owned(), users: list(users), groups: list(groups) }).unwrap()
    }

    fn groups(list: &[&str]) -> Vec<Arc<str>> {
        list.iter().map(|group| Arc::from(*group)).collect()
    }

    #[test]
    fn empty_lists() {
        // PLC-020, test idea 99
        assert!(filter("", &[], &[]).admits("bob", &[]));
        assert!(filter("allow", &[], &[]).admits("bob", &[]));
        assert!(!filter("deny", &[], &[]).admits("bob", &[]));
        assert!(Filter::default().admits("bob", &[]));
    }

    #[test]
    fn verdicts() {
        // PLC-021
        let allow = filter("allow", &["alice"], &["dev", "ops"]);
        assert!(allow.admits("alice", &[]) && allow.admits("bob", &groups(&["x", "ops"])));
        assert!(!allow.admits("bob", &groups(&["x"])));
        // PLC-022: capitals deny as well.
        for kind in ["deny", "DENY", "Deny"] {
            let deny = filter(kind, &["bob", "joe"], &[]);
            assert!(!deny.admits("bob", &[]) && deny.admits("alice", &[]), "{kind}");
        }
    }

    #[test]
    fn expressions() {
        // PLC-023, test idea 101
        let dev = filter("", &[], &["dev*"]);
        for group in ["de", "xdev", "mydevops"] {
            assert!(dev.admits("u", &groups(&["first", group, "third"])), "{group}");
        }
        assert!(!dev.admits("u", &groups(&["DEV"])));
        assert!(filter("", &["svc$"], &[]).admits("other-svc", &[]));
        assert!(filter("", &["{x}"], &[]).admits("a{x}b", &[]));
        assert!(filter("", &["^a{2}\\{$"], &[]).admits("aa{", &[]));
        assert!(compile("*").is_none() && compile("(").is_none() && compile("[").is_none());
    }

    #[test]
    fn expressions_have_a_size() {
        assert_eq!(size("^(team-a|svc-[0-9]+)$"), Some(16 << 10));
        assert_eq!(size("^\\w{10}$"), Some(1 << 20));
        for bad in ["\\w{60}", "((a{100}){100}){100}", &"a|".repeat(3_000)] {
            assert!(compile(bad).is_none(), "{}", &bad[..7]);
        }
    }

    #[test]
    fn longer_lists_are_names() {
        // PLC-024, PLC-025, test idea 100
        let users = filter("", &["user1", "user*"], &[]);
        assert!(users.admits("user1", &[]) && !users.admits("user2", &[]) && !users.admits("USER1", &[]));
        assert!(!filter("", &["user!1", "b c"], &[]).admits("b c", &[]));
        assert!(filter("deny", &["user!1", "b c"], &[]).admits("b c", &[]));
    }
}
