//! Filters of placement rules: whom a rule is for (PLC-020–PLC-025).

use std::{collections::BTreeSet, sync::Arc};

use regex::{Regex, RegexBuilder};

use super::{re2, rule::FilterSpec};
use crate::acl::Groups;
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
    /// An expression of a log that was written when expressions were not yet read as RE2: it means what it meant.
    Older(Regex),
    /// An expression that is looked for anywhere in a name (PLC-023).
    Expression(Expression),
}

/// A regular expression in the syntax of RE2.
#[derive(Clone, Debug)]
pub struct Expression {
    /// As it is configured, shown and written down.
    pub text: Arc<str>,
    regex: Regex,
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
            Names::Older(regex) | Names::Expression(Expression { regex, .. }) => regex.is_match(name),
        }
    }

    fn matches_any(&self, groups: &Groups<'_>) -> bool {
        match self {
            Names::List(names) => groups.are_among(names),
            Names::Older(_) | Names::Expression(_) => groups.iter().any(|group| self.matches(group)),
        }
    }

    fn build(entries: &[String], valid: fn(&str) -> bool) -> Result<Names, String> {
        match entries {
            [one] if is_expression(one) => Expression::new(one).map(Names::Expression).map_err(|why| {
                format!("filter expression {one} is not a regular expression, write one that compiles or a plain name: {why}")
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

impl Expression {
    fn new(text: &str) -> Result<Expression, String> {
        sized(text).map(|(regex, _)| Expression { text: text.into(), regex })
    }
}

/// At most what an expression takes, in bytes, or why it is none that is allowed.
pub fn size(text: &str) -> Result<usize, String> {
    sized(text).map(|(_, size)| size)
}

fn sized(text: &str) -> Result<(Regex, usize), String> {
    if text.len() > LONGEST {
        return Err(format!("it has more than {LONGEST} bytes"));
    }
    compile(&re2::translate(text)?)
}

/// Compiles what is in the syntax of the regex crate.
fn compile(text: &str) -> Result<(Regex, usize), String> {
    let [smallest @ .., largest] = SIZES;
    let build = |size| RegexBuilder::new(text).size_limit(size).dfa_size_limit(256 << 10).build();
    if let Some(found) = smallest.into_iter().find_map(|size| Some((build(size).ok()?, size))) {
        return Ok(found);
    }
    build(largest).map(|regex| (regex, largest)).map_err(|error| match error {
        regex::Error::CompiledTooBig(size) => format!("it takes more than {size} bytes of memory"),
        // What is refused stands before it, in several lines.
        error => error.to_string().rsplit("error: ").next().unwrap_or_default().to_owned(),
    })
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
    pub fn admits(&self, user: &str, groups: &Groups<'_>) -> bool {
        let named = self.empty || self.users.matches(user) || self.groups.matches_any(groups);
        named == (self.verdict == Verdict::Allow)
    }
}

list!(Filter { verdict, empty, users, groups });
variants!(Verdict { 1 Allow, 2 Deny });
variants!(Names { 1 List(names), 2 Older(regex), 3 Expression(expression) });

impl Coded for Regex {
    fn write(&self, to: &mut Writer) {
        to.text(self.as_str());
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let text = from.text()?;
        let compiled = compile(&text);
        compiled
            .map(|(regex, _)| regex)
            .map_err(|why| from.fail(format!("{text} is no regular expression that is allowed: {why}")))
    }
}

impl Coded for Expression {
    fn write(&self, to: &mut Writer) {
        to.text(&self.text);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let text = from.text()?;
        Expression::new(&text)
            .map_err(|why| from.fail(format!("{text} is no regular expression that is allowed: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded::{bytes_of, value_of};
    use crate::resources::Types;

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
        assert!(filter("", &[], &[]).admits("bob", &Groups::default()));
        assert!(filter("allow", &[], &[]).admits("bob", &Groups::default()));
        assert!(!filter("deny", &[], &[]).admits("bob", &Groups::default()));
        assert!(Filter::default().admits("bob", &Groups::default()));
    }

    #[test]
    fn verdicts() {
        // PLC-021
        let allow = filter("allow", &["alice"], &["dev", "ops"]);
        assert!(allow.admits("alice", &Groups::default()) && allow.admits("bob", &Groups::new(&groups(&["x", "ops"]))));
        assert!(!allow.admits("bob", &Groups::new(&groups(&["x"]))));
        // PLC-022: capitals deny as well.
        for kind in ["deny", "DENY", "Deny"] {
            let deny = filter(kind, &["bob", "joe"], &[]);
            assert!(!deny.admits("bob", &Groups::default()) && deny.admits("alice", &Groups::default()), "{kind}");
        }
    }

    #[test]
    fn expressions() {
        // PLC-023, test idea 101
        let dev = filter("", &[], &["dev*"]);
        for group in ["de", "xdev", "mydevops"] {
            assert!(dev.admits("u", &Groups::new(&groups(&["first", group, "third"]))), "{group}");
        }
        assert!(!dev.admits("u", &Groups::new(&groups(&["DEV"]))));
        assert!(filter("", &["svc$"], &[]).admits("other-svc", &Groups::default()));
        assert!(filter("", &["{x}"], &[]).admits("a{x}b", &Groups::default()));
        assert!(filter("", &["^a{2}\\{$"], &[]).admits("aa{", &Groups::default()));
        for refused in ["*", "(", "[", "a**", "\\p{Nobody}", &"(".repeat(300)] {
            assert!(Expression::new(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn expressions_have_a_size() {
        assert_eq!(size("^(team-a|svc-[0-9]+)$"), Ok(16 << 10));
        assert_eq!(size("^\\pL{10}$"), Ok(1 << 20));
        for (bad, why) in [
            ("\\pL{60}", "it takes more than 1048576 bytes of memory"),
            (&"a|".repeat(3_000), "it has more than 4096 bytes"),
            (&("(".repeat(300) + &")".repeat(300)), "exceed the maximum number of nested parentheses/brackets (250)"),
        ] {
            assert_eq!(size(bad), Err(why.to_owned()), "{}", &bad[..6]);
        }
    }

    #[test]
    fn logs_keep_what_is_configured() {
        // PLC-023: translated once each time that it is read, never what was translated.
        for text in ["[a&&b]", "\\Qa*\\E", "a{,2}", "(?i)\\w+$"] {
            let written = bytes_of(&Names::build(&[text.to_owned()], is_user_name).unwrap());
            let Names::Expression(read) = value_of(&written, &Types::default()).unwrap() else { panic!("{text}") };
            assert_eq!((&*read.text, read.regex.as_str()), (text, &*re2::translate(text).unwrap()));
        }
    }

    #[test]
    fn expressions_of_older_logs_mean_what_they_meant() {
        // PLC-023
        for (text, found, other) in [("[a-z&&x]", "x", "a"), ("^a\\{,2}$", "a{,2}", "a"), ("^a**$", "aa", "b")] {
            let written = [&[0x82, 2, 0x60 + text.len() as u8], text.as_bytes()].concat();
            let names: Names = value_of(&written, &Types::default()).unwrap();
            assert!(names.matches(found) && !names.matches(other), "{text}");
            assert_eq!(bytes_of(&names), written);
        }
    }

    #[test]
    fn longer_lists_are_names() {
        // PLC-024, PLC-025, test idea 100
        let users = filter("", &["user1", "user*"], &[]);
        assert!(
            users.admits("user1", &Groups::default())
                && !users.admits("user2", &Groups::default())
                && !users.admits("USER1", &Groups::default())
        );
        assert!(!filter("", &["user!1", "b c"], &[]).admits("b c", &Groups::default()));
        assert!(filter("deny", &["user!1", "b c"], &[]).admits("b c", &Groups::default()));
    }
}
