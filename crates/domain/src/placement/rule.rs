//! One placement rule and how it is made (PLC-003–PLC-006).

use std::sync::Arc;

use super::filter::Filter;
use crate::coded::{map, variants};
use crate::names::{INVALID_QUEUE_NAME, is_queue_name};

/// One rule with its chain of parents, ready to run.
#[derive(Clone, Debug)]
pub struct RuleConf {
    /// Where the queue comes from.
    pub kind: RuleKind,
    /// Make the queue where it does not exist (PLC-015).
    pub create: bool,
    /// Whom the rule is for.
    pub filter: Filter,
    /// Gives the queue above; root where there is none (PLC-016).
    pub parent: Option<Box<RuleConf>>,
}

/// Kinds of rules (PLC-010–PLC-014).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// The queue that was submitted.
    Provided,
    /// The user's name.
    User,
    /// Always the same queue.
    Fixed {
        /// Lowercase path, its dots levels of the hierarchy.
        queue: Arc<str>,
        /// The path starts at root; else it is one below the parent.
        qualified: bool,
    },
    /// The value of an application tag.
    Tag {
        /// Lowercase key of the tag.
        name: Arc<str>,
    },
}

impl RuleKind {
    /// The name in configuration and REST.
    pub const fn name(&self) -> &'static str {
        match self {
            RuleKind::Provided => "provided",
            RuleKind::User => "user",
            RuleKind::Fixed { .. } => "fixed",
            RuleKind::Tag { .. } => "tag",
        }
    }
}

/// A rule as the configuration writes it.
#[derive(Clone, Debug, Default)]
pub struct RuleSpec {
    /// Kind, in any case.
    pub name: String,
    /// See [`RuleConf::create`].
    pub create: bool,
    /// Whom the rule is for.
    pub filter: FilterSpec,
    /// Rule for the queue above.
    pub parent: Option<Box<RuleSpec>>,
    /// Path of a `fixed`, tag of a `tag` rule.
    pub value: String,
}

/// A filter as the configuration writes it.
#[derive(Clone, Debug, Default)]
pub struct FilterSpec {
    /// Empty or `allow`, else `deny`, in any case.
    pub kind: String,
    /// User names, or one expression.
    pub users: Vec<String>,
    /// Group names, or one expression.
    pub groups: Vec<String>,
}

/// A path from root on: `root` or one that begins with `root.` (PLC-006).
pub fn is_qualified(path: &str) -> bool {
    path == "root" || path.starts_with("root.")
}

impl RuleConf {
    /// The rule that stands in for an empty list (PLC-002).
    pub fn provided() -> RuleConf {
        RuleConf { kind: RuleKind::Provided, create: false, filter: Filter::default(), parent: None }
    }

    /// Makes a rule, or tells why there is none of this kind (PLC-003–PLC-005).
    pub fn build(spec: &RuleSpec) -> Result<RuleConf, String> {
        let value = spec.value.to_ascii_lowercase();
        let kind = match spec.name.to_ascii_lowercase().as_str() {
            "provided" => RuleKind::Provided,
            "user" => RuleKind::User,
            "fixed" => fixed(&value, spec.parent.is_some())?,
            "tag" if value.is_empty() => return Err("a tag queue rule must have a tag name set".to_owned()),
            "tag" => RuleKind::Tag { name: value.into() },
            "recovery" => {
                return Err("recovery rule cannot be part of the config, failing placement rule config".to_owned());
            }
            _ => return Err(format!("unknown rule name specified {}, failing placement rule config", spec.name)),
        };
        let parent = spec.parent.as_deref().map(RuleConf::build).transpose()?.map(Box::new);
        Ok(RuleConf { kind, create: spec.create, filter: Filter::build(&spec.filter)?, parent })
    }
}

fn fixed(value: &str, has_parent: bool) -> Result<RuleKind, String> {
    if value.is_empty() {
        return Err("a fixed queue rule must have a queue name set".to_owned());
    }
    if !value.split('.').all(is_queue_name) {
        return Err(INVALID_QUEUE_NAME.to_owned());
    }
    let qualified = is_qualified(value);
    if qualified && has_parent {
        return Err(format!("cannot have a fixed queue rule with qualified queue getName and a parent rule: {value}"));
    }
    Ok(RuleKind::Fixed { queue: value.into(), qualified })
}

map!(RuleConf { 1 kind, 2 create, 3 filter, 4 parent });
variants!(RuleKind { 1 Provided, 2 User, 3 Fixed { queue, qualified }, 4 Tag { name } });

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, value: &str) -> RuleSpec {
        RuleSpec { name: name.to_owned(), value: value.to_owned(), ..RuleSpec::default() }
    }

    #[test]
    fn kinds_in_any_case() {
        // PLC-003, PLC-004
        assert_eq!(RuleConf::build(&spec("Provided", "")).unwrap().kind, RuleKind::Provided);
        assert_eq!(RuleConf::build(&spec("USER", "x")).unwrap().kind, RuleKind::User);
        assert_eq!(
            RuleConf::build(&spec("tag", "NameSpace")).unwrap().kind,
            RuleKind::Tag { name: "namespace".into() }
        );
        let fixed = RuleConf::build(&spec("Fixed", "Root.Dev")).unwrap().kind;
        assert_eq!(fixed, RuleKind::Fixed { queue: "root.dev".into(), qualified: true });
    }

    #[test]
    fn refused() {
        // PLC-003, PLC-004
        for (name, value, text) in [
            ("recovery", "", "recovery rule cannot be part of the config, failing placement rule config"),
            ("nosuch", "", "unknown rule name specified nosuch, failing placement rule config"),
            ("test", "", "unknown rule name specified test, failing placement rule config"),
            ("fixed", "", "a fixed queue rule must have a queue name set"),
            ("tag", "", "a tag queue rule must have a tag name set"),
            ("fixed", "a b", INVALID_QUEUE_NAME),
            ("fixed", "root.", INVALID_QUEUE_NAME),
        ] {
            assert_eq!(RuleConf::build(&spec(name, value)).unwrap_err(), text, "{name} {value}");
        }
        let parent = RuleSpec { parent: Some(Box::new(spec("nosuch", ""))), ..spec("user", "") };
        assert!(RuleConf::build(&parent).unwrap_err().contains("nosuch"));
    }

    #[test]
    fn qualified_means_root_and_a_dot() {
        // PLC-005, PLC-006: a name that only begins with the letters is an ordinary one.
        let beer = RuleConf::build(&spec("fixed", "rootbeer")).unwrap().kind;
        assert_eq!(beer, RuleKind::Fixed { queue: "rootbeer".into(), qualified: false });
        let below = |value| RuleSpec { parent: Some(Box::new(spec("user", ""))), ..spec("fixed", value) };
        assert!(RuleConf::build(&below("rootbeer")).is_ok());
        let refused = RuleConf::build(&below("root.a")).unwrap_err();
        assert!(refused.starts_with("cannot have a fixed queue rule with qualified queue getName and a parent rule: "));
    }
}
