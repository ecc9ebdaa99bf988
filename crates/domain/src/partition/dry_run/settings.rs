//! Settings as flat names and texts, so that two configurations can be told apart one by one.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    acl::Acl,
    conf::{LimitConf, PartitionConf, QueueConf, Resolver},
    placement::{FilterView, RuleView, views},
    queue::Queue,
    resources::Resource,
};

type Settings = BTreeMap<String, String>;

/// The settings of a partition itself.
pub(super) fn of_partition(conf: &PartitionConf) -> Settings {
    let mut settings = Settings::new();
    let mut set = |name: &str, value: String| settings.insert(name.to_owned(), value);
    set("nodesortpolicy.type", conf.node_sort.policy.name().to_owned());
    for (kind, weight) in &conf.node_sort.weights {
        set(&format!("nodesortpolicy.resourceweights.{}", kind.name()), weight.to_string());
    }
    set("preemption.enabled", conf.preemption.to_string());
    set("preemption.quotapreemptionenabled", conf.quota_preemption.to_string());
    let resolver = match conf.resolver {
        Resolver::None => "",
        Resolver::Os => "os",
        Resolver::Ldap => "ldap",
        Resolver::Test => "test",
    };
    set("usergroupresolver.type", resolver.to_owned());
    for (at, rule) in views(&conf.rules).iter().filter(|rule| rule.name != "recovery").enumerate() {
        set(&format!("placementrules.{at}"), rule_text(rule));
    }
    settings
}

/// One line for a rule with its parents, such as `user(create=true) below fixed(create=true queue=root.users)`.
fn rule_text(rule: &RuleView) -> String {
    let mut inside: Vec<String> = rule.parameters.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if let Some(FilterView { kind, users, groups, user_expression, group_expression }) = &rule.filter {
        inside.push(format!("filter={kind}"));
        for (what, list, expression) in [("users", users, user_expression), ("groups", groups, group_expression)] {
            match expression {
                Some(expression) => inside.push(format!("{what}={expression}")),
                None if !list.is_empty() => inside.push(format!("{what}={}", list.join(","))),
                None => {}
            }
        }
    }
    let own = format!("{}({})", rule.name, inside.join(" "));
    match &rule.parent {
        Some(parent) => format!("{own} below {}", rule_text(parent)),
        None => own,
    }
}

/// The settings in force on a queue, what it inherits included, without limits.
pub(super) fn of_queue(row: &Queue) -> Settings {
    let mut settings = Settings::new();
    settings.insert("parent".to_owned(), (!row.leaf).to_string());
    // What the root may use is the size of the cluster, and no setting.
    if row.parent.is_some() {
        amounts(&mut settings, "resources.max", row.max.as_deref());
        amounts(&mut settings, "resources.guaranteed", row.guaranteed.as_deref());
    }
    count(&mut settings, "maxapplications", row.max_applications);
    for (key, value) in &*row.properties {
        settings.insert(format!("properties.{key}"), value.clone());
    }
    for (name, acl) in [("submitacl", &row.submit_acl), ("adminacl", &row.admin_acl)] {
        if let Some(text) = acl_text(acl) {
            settings.insert(name.to_owned(), text);
        }
    }
    if let Some(template) = &row.template {
        count(&mut settings, "childtemplate.maxapplications", template.max_applications);
        for (key, value) in &*template.properties {
            settings.insert(format!("childtemplate.properties.{key}"), value.clone());
        }
        amounts(&mut settings, "childtemplate.resources.max", template.max.as_deref());
        amounts(&mut settings, "childtemplate.resources.guaranteed", template.guaranteed.as_deref());
    }
    settings
}

/// The limits of users and groups by path of the queue.
pub(super) fn limits(conf: &PartitionConf) -> BTreeMap<String, Settings> {
    let mut all = BTreeMap::new();
    collect(&conf.root, "root".to_owned(), &mut all);
    all
}

fn collect(queue: &QueueConf, path: String, all: &mut BTreeMap<String, Settings>) {
    for child in &queue.children {
        collect(child, format!("{path}.{}", child.name), all);
    }
    let mut settings = Settings::new();
    for LimitConf { users, groups, max_resources, max_applications } in &queue.limits {
        let named = |what, names: &[Arc<str>]| names.iter().map(|name| format!("limits.{what} {name}")).collect();
        let names: Vec<Vec<String>> = vec![named("user", users), named("group", groups)];
        for name in names.into_iter().flatten() {
            amounts(&mut settings, &format!("{name}.maxresources"), max_resources.as_ref());
            count(&mut settings, &format!("{name}.maxapplications"), *max_applications);
        }
    }
    if !settings.is_empty() {
        all.insert(path, settings);
    }
}

fn amounts(settings: &mut Settings, name: &str, resource: Option<&Resource>) {
    for (kind, amount) in resource.map(Resource::named).unwrap_or_default() {
        settings.insert(format!("{name}.{kind}"), amount.to_string());
    }
}

fn count(settings: &mut Settings, name: &str, count: u64) {
    if count > 0 {
        settings.insert(name.to_owned(), count.to_string());
    }
}

/// As the configuration writes it; `None`: nobody.
fn acl_text(acl: &Acl) -> Option<String> {
    let list =
        |names: &std::collections::BTreeSet<Arc<str>>| names.iter().map(|name| &**name).collect::<Vec<_>>().join(",");
    match (acl.everyone, acl.users.is_empty(), acl.groups.is_empty()) {
        (true, ..) => Some("*".to_owned()),
        (false, true, true) => None,
        (false, false, true) => Some(list(&acl.users)),
        (false, ..) => Some(format!("{} {}", list(&acl.users), list(&acl.groups))),
    }
}
