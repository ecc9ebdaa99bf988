//! What REST shows of the placement rules (PLC-060).

use std::collections::BTreeMap;

use super::{
    filter::{Filter, Names},
    rule::{RuleConf, RuleKind},
};
use crate::queue::RECOVERY_QUEUE;

/// A rule as REST shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleView {
    /// Name of the kind of rule.
    pub name: &'static str,
    /// `create`; `queue` and `qualified` of a fixed, `tagName` of a tag rule.
    pub parameters: BTreeMap<&'static str, String>,
    /// Shown as `parentRule`.
    pub parent: Option<Box<RuleView>>,
    /// `None` where neither users nor groups were configured.
    pub filter: Option<FilterView>,
}

/// A filter as REST shows it; lists are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterView {
    /// `allow` or `deny`; shown as `type`.
    pub kind: &'static str,
    /// Shown as `userList`.
    pub users: Vec<String>,
    /// Shown as `groupList`.
    pub groups: Vec<String>,
    /// Shown as `userExp`.
    pub user_expression: Option<String>,
    /// Shown as `groupExp`.
    pub group_expression: Option<String>,
}

/// The rules in the order of evaluation, the implicit recovery rule last. Rules that could not be built (CFG-098) are
/// an empty list here, without recovery.
pub fn views(rules: &[RuleConf]) -> Vec<RuleView> {
    let mut views: Vec<_> = rules.iter().map(view).collect();
    if !views.is_empty() {
        let parameters = [("queue", RECOVERY_QUEUE.to_owned())].into();
        views.push(RuleView { name: "recovery", parameters, parent: None, filter: None });
    }
    views
}

fn view(rule: &RuleConf) -> RuleView {
    let mut parameters: BTreeMap<_, _> = [("create", rule.create.to_string())].into();
    match &rule.kind {
        RuleKind::Provided | RuleKind::User => {}
        RuleKind::Fixed { queue, qualified } => {
            parameters.insert("queue", queue.to_string());
            parameters.insert("qualified", qualified.to_string());
        }
        RuleKind::Tag { name } => {
            parameters.insert("tagName", name.to_string());
        }
    }
    RuleView {
        name: rule.kind.name(),
        parameters,
        parent: rule.parent.as_deref().map(|parent| Box::new(view(parent))),
        filter: (!rule.filter.empty).then(|| filter(&rule.filter)),
    }
}

fn filter(filter: &Filter) -> FilterView {
    let (users, user_expression) = names(&filter.users);
    let (groups, group_expression) = names(&filter.groups);
    FilterView { kind: filter.verdict.name(), users, groups, user_expression, group_expression }
}

fn names(names: &Names) -> (Vec<String>, Option<String>) {
    match names {
        Names::List(list) => (list.iter().map(ToString::to_string).collect(), None),
        Names::Older(regex) => (Vec::new(), Some(regex.to_string())),
        Names::Expression(expression) => (Vec::new(), Some(expression.text.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::rule::*, *};

    #[test]
    fn all_kinds() {
        // PLC-060
        let filter = FilterSpec { kind: "deny".into(), users: vec!["evil".into()], groups: vec!["bad.*".into()] };
        let fixed = RuleSpec {
            name: "fixed".into(),
            create: true,
            filter: FilterSpec { users: vec!["b".into(), "a".into(), "b".into()], ..FilterSpec::default() },
            value: "root.Users".into(),
            ..RuleSpec::default()
        };
        let user = RuleSpec { name: "user".into(), filter, parent: Some(Box::new(fixed)), ..RuleSpec::default() };
        let tag = RuleSpec { name: "tag".into(), value: "Namespace".into(), ..RuleSpec::default() };
        let views = views(&[RuleConf::build(&user).unwrap(), RuleConf::build(&tag).unwrap()]);
        assert_eq!(views.iter().map(|view| view.name).collect::<Vec<_>>(), ["user", "tag", "recovery"]);
        assert_eq!(views[0].parameters, [("create", "false".to_owned())].into());
        let shown = views[0].filter.clone().unwrap();
        assert_eq!(
            (shown.kind, shown.users, shown.group_expression),
            ("deny", vec!["evil".into()], Some("bad.*".into()))
        );
        let parent = views[0].parent.clone().unwrap();
        assert_eq!(parent.filter.unwrap().users, ["a", "b"]);
        let parameters = [("create", "true"), ("qualified", "true"), ("queue", "root.users")];
        assert_eq!(parent.parameters, parameters.map(|(key, value)| (key, value.to_owned())).into());
        assert_eq!(views[1].parameters["tagName"], "namespace");
        assert_eq!(views[1].filter, None);
        assert_eq!(views[2].parameters, [("queue", "root.@recovery@".to_owned())].into());
        assert_eq!(super::views(&[]), []);
    }
}
