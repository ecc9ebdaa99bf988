//! Checked configuration to what the domain uses: names lowercase, quantities and access lists read, rules made.

use std::{collections::BTreeMap, iter, sync::Arc};

use super::{
    faults::Faults,
    written::{Filter, Limit, Partition, Quantities, Queue, Rule, Scheduler, Template, Text},
    yaml::At,
};
use crate::{
    acl::Acl,
    conf::{LimitConf, NodeSort, NodeSortPolicy, PartitionConf, QueueConf, Resolver, TemplateConf},
    names::{is_group_name, is_rule_name, is_user_name},
    placement::{FilterSpec, RuleConf, RuleSpec, is_expression},
    quantity,
    resources::{Resource, ResourceType},
    settings,
};

/// Makes a partition that was found without faults. Rules that cannot be made are noted, and then there are none at all
/// (CFG-098).
pub fn partition(partition: &Partition, rule_faults: &mut Faults, warnings: &mut Faults) -> PartitionConf {
    let root = partition.queues.iter().flatten().next().map(|root| queue(root, "root", warnings)).unwrap_or_default();
    PartitionConf {
        name: partition.name.value.as_str().into(),
        root,
        rules: rules(&partition.rules, rule_faults, warnings),
        preemption: partition.preemption.enabled.unwrap_or(true),
        quota_preemption: partition.preemption.quota.unwrap_or(false),
        node_sort: node_sort(partition),
        resolver: match partition.resolver.value.as_str() {
            "os" => Resolver::Os,
            "ldap" => Resolver::Ldap,
            "test" => Resolver::Test,
            "" => Resolver::None,
            unknown => {
                // CFG-07B
                let text = format!("usergroupresolver.type `{unknown}` is not known and counts as none");
                let detail = "it may be os or ldap; without one a user is its own group";
                warnings.add(partition.resolver.at, "CFG-07B", text, detail);
                Resolver::None
            }
        },
    }
}

fn node_sort(partition: &Partition) -> NodeSort {
    let mut node_sort = NodeSort::default();
    if partition.node_sort.policy.value == "binpacking" {
        node_sort.policy = NodeSortPolicy::Binpacking;
    }
    if !partition.node_sort.weights.is_empty() {
        // No node has a type whose name is too long for one.
        let weights = partition.node_sort.weights.iter();
        node_sort.weights =
            weights.filter_map(|(kind, weight)| Some((ResourceType::new(kind)?, weight.value))).collect();
    }
    node_sort
}

fn rules(rules: &[Rule], faults: &mut Faults, warnings: &mut Faults) -> Vec<RuleConf> {
    if rules.is_empty() {
        return vec![RuleConf::provided()];
    }
    for rule in rules.iter().flat_map(|rule| iter::successors(Some(rule), |rule| rule.parent.as_deref())) {
        names_of_nobody("users", &rule.filter.users, is_user_name, warnings);
        names_of_nobody("groups", &rule.filter.groups, is_group_name, warnings);
    }
    let built = rules.iter().filter_map(|rule| {
        let built = RuleConf::build(&spec(rule, filter));
        built.map_err(|text| faults.add(rule.at, "CFG-098", text, "")).ok()
    });
    let built: Vec<_> = built.collect();
    if built.len() == rules.len() { built } else { Vec::new() }
}

/// Rules that cannot be made, whatever their filters (CFG-098), of a configuration that has other faults, too. What is no
/// name of a rule is told as that (CFG-075).
pub fn rule_faults(scheduler: &Scheduler) -> Faults {
    let mut faults = Faults::default();
    for rule in scheduler.partitions.iter().flatten().flat_map(|partition| &partition.rules) {
        let mut chain = iter::successors(Some(rule), |rule| rule.parent.as_deref());
        if chain.all(|rule| is_rule_name(&rule.name.value))
            // Filters were looked at (CFG-077).
            && let Err(text) = RuleConf::build(&spec(rule, |_| FilterSpec::default()))
        {
            faults.add(rule.at, "CFG-098", text, "");
        }
    }
    faults
}

fn spec(rule: &Rule, filter: fn(&Filter) -> FilterSpec) -> RuleSpec {
    RuleSpec {
        name: rule.name.value.clone(),
        create: rule.create,
        filter: filter(&rule.filter),
        parent: rule.parent.as_deref().map(|parent| Box::new(spec(parent, filter))),
        value: rule.value.value.clone(),
    }
}

/// Names of a filter that nobody can have (PLC-024).
fn names_of_nobody(what: &str, names: &[Text], valid: fn(&str) -> bool, warnings: &mut Faults) {
    if matches!(names, [one] if is_expression(&one.value)) {
        return;
    }
    for name in names.iter().filter(|name| !valid(&name.value)) {
        let text =
            format!("filter names `{}`, which none of its {what} can be called: it counts for nobody", name.value);
        let detail =
            if names.len() > 1 && is_expression(&name.value) { "an expression has to stand alone" } else { "" };
        warnings.add(name.at, "PLC-024", text, detail);
    }
}

fn filter(filter: &Filter) -> FilterSpec {
    let list = |names: &[Text]| names.iter().map(|name| name.value.clone()).collect();
    FilterSpec { kind: filter.kind.value.clone(), users: list(&filter.users), groups: list(&filter.groups) }
}

fn queue(queue: &Queue, path: &str, warnings: &mut Faults) -> QueueConf {
    let name = queue.name.value.to_ascii_lowercase();
    unreadable(&queue.properties, &format!("properties of queue {path}"), warnings);
    zeros("max", queue.resources.max.as_ref(), path, warnings);
    zeros("guaranteed", queue.resources.guaranteed.as_ref(), path, warnings);
    let template = template(&queue.template);
    if template.is_some() && !queue.is_parent() {
        let text = "childtemplate of a leaf does nothing: it is for the queues that placement makes below a parent";
        warnings.add(queue.name.at, "TPL-001", text, format!("queue {path}"));
    } else {
        unreadable(&queue.template.properties, &format!("childtemplate of queue {path}"), warnings);
        zeros("childtemplate max", queue.template.resources.max.as_ref(), path, warnings);
        zeros("childtemplate guaranteed", queue.template.resources.guaranteed.as_ref(), path, warnings);
        if let Some(TemplateConf { max: Some(max), guaranteed: Some(guaranteed), .. }) = &template
            && !max.fits_or_unlimited(guaranteed)
        {
            // CFG-041 refuses it where a queue is configured so.
            let text = format!(
                "guaranteed resource {guaranteed} of childtemplate is larger than its maximum resource {max}, which counts"
            );
            let amounts = queue.template.resources.guaranteed.iter().flat_map(|map| map.values());
            let at = amounts.map(|amount| amount.at).min().unwrap_or(queue.at);
            warnings.add(at, "CFG-045", text, format!("queue {path}"));
        }
    }
    QueueConf {
        name: name.as_str().into(),
        parent: queue.is_parent(),
        max: resource(queue.resources.max.as_ref()),
        guaranteed: resource(queue.resources.guaranteed.as_ref()),
        max_applications: queue.max_applications.value,
        properties: texts(&queue.properties),
        admin_acl: acl(&queue.admin_acl, path, warnings),
        submit_acl: acl(&queue.submit_acl, path, warnings),
        template: template.map(Arc::new),
        limits: queue.limits.iter().map(limit).collect(),
        children: queue
            .queues
            .iter()
            .map(|child| self::queue(child, &format!("{path}.{}", child.name.value), warnings))
            .collect(),
    }
}

fn texts(map: &BTreeMap<String, Text>) -> BTreeMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect()
}

fn unreadable(properties: &BTreeMap<String, Text>, here: &str, warnings: &mut Faults) {
    for (key, value) in settings::unreadable(&texts(properties)) {
        let at = properties.get(&key).map_or(At::default(), |value| value.at);
        let text = format!("{key} cannot be `{value}` and counts as its default");
        warnings.add(at, "CFG-07C", text, here);
    }
    for (key, value) in properties.iter().filter(|(key, _)| !key.is_empty() && !settings::is_known(key)) {
        warnings.add(value.at, "CFG-07C", format!("property {key} is not known and does nothing"), here);
    }
}

/// Zeros count only beside an amount above zero (QUE-021).
fn zeros(what: &str, map: Option<&Quantities>, path: &str, warnings: &mut Faults) {
    if resource(map).is_some_and(|amounts| !amounts.is_positive())
        && let Some((kind, amount)) = map.and_then(|map| map.first_key_value())
    {
        let text = format!(
            "{what} of {kind} is 0, which counts only beside a type above zero: here it is as if there were none"
        );
        warnings.add(amount.at, "QUE-021", text, format!("queue {path}"));
    }
}

fn acl(text: &Text, path: &str, warnings: &mut Faults) -> Acl {
    for name in Acl::dropped(&text.value) {
        let message = format!("access list names `{name}`, which nobody can be called: it grants nothing");
        warnings.add(text.at, "ACL-005", message, format!("queue {path}"));
    }
    if let Some(groups) = Acl::groups_after_a_comma(&text.value) {
        let message = format!("access list has a space after a comma: `{groups}` are groups, not users");
        warnings.add(text.at, "ACL-004", message, format!("queue {path}"));
    }
    // Checked before; nobody is the safe answer.
    Acl::parse(&text.value).unwrap_or_default()
}

/// Quantities that were checked before; an empty map is none.
fn resource(map: Option<&Quantities>) -> Option<Resource> {
    let map = map.filter(|map| !map.is_empty())?;
    let mut resource = Resource::new();
    for (name, amount) in map {
        if let (Some(kind), Ok(amount)) = (ResourceType::new(name), quantity::parse(name, &amount.value)) {
            resource.set(kind, i128::from(amount));
        }
    }
    Some(resource)
}

/// `None` where the template says nothing (TPL-002, TPL-003).
fn template(template: &Template) -> Option<TemplateConf> {
    let written = |map: &Option<Quantities>| {
        map.iter().flatten().any(|(kind, amount)| !kind.is_empty() && !amount.value.is_empty())
    };
    let mut properties = texts(&template.properties);
    properties.retain(|key, value| !key.is_empty() && !value.is_empty());
    let resources = &template.resources;
    if template.max_applications == 0
        && properties.is_empty()
        && !written(&resources.max)
        && !written(&resources.guaranteed)
    {
        return None;
    }
    Some(TemplateConf {
        max_applications: template.max_applications,
        properties: Arc::new(properties),
        max: resource(resources.max.as_ref()).filter(Resource::is_positive).map(Arc::new),
        guaranteed: resource(resources.guaranteed.as_ref()).filter(Resource::is_positive).map(Arc::new),
    })
}

fn limit(limit: &Limit) -> LimitConf {
    let names = |names: &[Text]| names.iter().map(|name| name.value.as_str().into()).collect();
    LimitConf {
        users: names(&limit.users),
        groups: names(&limit.groups),
        max_resources: resource(Some(&limit.max_resources)),
        max_applications: limit.max_applications.value,
    }
}
