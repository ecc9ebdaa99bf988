//! What users and groups use (REST 5.10, UGM-050–UGM-052), of the partition in the path (SEEDS S22).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    View,
    json::{Amounts, unset},
};
use crate::domain::ugm::{GroupUsage, QueueUsage, UserUsage};

/// A user (REST 5.10).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "User")]
#[serde(rename_all = "camelCase")]
pub struct UserView {
    user_name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<String, String>,
    queues: UsageView,
}

/// A group (REST 5.10).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Group")]
#[serde(rename_all = "camelCase")]
pub struct GroupView {
    group_name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    applications: Vec<String>,
    queues: UsageView,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
#[serde(rename_all = "camelCase")]
struct UsageView {
    queue_path: String,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    resource_usage: Amounts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    running_applications: Vec<String>,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    max_resources: Amounts,
    #[serde(skip_serializing_if = "unset")]
    max_applications: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<UsageView>,
}

impl From<UserUsage> for UserView {
    fn from(user: UserUsage) -> UserView {
        UserView {
            user_name: user.name.to_string(),
            groups: user.groups.iter().map(|(app, group)| (app.to_string(), group.to_string())).collect(),
            queues: user.root.into(),
        }
    }
}

impl From<GroupUsage> for GroupView {
    fn from(group: GroupUsage) -> GroupView {
        GroupView {
            group_name: group.name.to_string(),
            applications: group.applications.iter().map(ToString::to_string).collect(),
            queues: group.root.into(),
        }
    }
}

impl From<QueueUsage> for UsageView {
    fn from(usage: QueueUsage) -> UsageView {
        UsageView {
            queue_path: usage.path.to_string(),
            resource_usage: Amounts::from(&usage.usage),
            running_applications: usage.applications.iter().map(ToString::to_string).collect(),
            max_resources: Amounts::from(usage.max_resources.as_ref()),
            max_applications: usage.max_applications,
            children: usage.children.into_iter().map(UsageView::from).collect(),
        }
    }
}

/// All users, by name.
pub fn users(view: &View) -> Vec<UserView> {
    view.partition().usage().users().map(UserView::from).collect()
}

/// One user.
pub fn user(view: &View, name: &str) -> Option<UserView> {
    view.partition().usage().user(name).map(UserView::from)
}

/// All groups, by name.
pub fn groups(view: &View) -> Vec<GroupView> {
    view.partition().usage().groups().map(GroupView::from).collect()
}

/// One group.
pub fn group(view: &View, name: &str) -> Option<GroupView> {
    view.partition().usage().group_named(name).map(GroupView::from)
}
