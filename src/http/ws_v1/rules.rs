//! Placement rules (REST 5.11, PLC-060).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::View;
use crate::domain::placement;

/// A rule (REST 5.11).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rule")]
#[serde(rename_all = "camelCase")]
pub struct RuleView {
    name: &'static str,
    parameters: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<FilterView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_rule: Option<Box<RuleView>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Filter")]
#[serde(rename_all = "camelCase")]
struct FilterView {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    user_list: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    group_list: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_exp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_exp: Option<String>,
}

impl From<placement::RuleView> for RuleView {
    fn from(rule: placement::RuleView) -> RuleView {
        RuleView {
            name: rule.name,
            parameters: rule.parameters,
            filter: rule.filter.map(|filter| FilterView {
                kind: filter.kind,
                user_list: filter.users,
                group_list: filter.groups,
                user_exp: filter.user_expression,
                group_exp: filter.group_expression,
            }),
            parent_rule: rule.parent.map(|parent| Box::new(RuleView::from(*parent))),
        }
    }
}

/// The rules of a partition in the order of evaluation, recovery last.
pub fn rules(view: &View) -> Vec<RuleView> {
    placement::views(&view.partition().conf.rules).into_iter().map(RuleView::from).collect()
}
