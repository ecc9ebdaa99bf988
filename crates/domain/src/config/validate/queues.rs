//! Access lists, limit entries, names and `maxapplications` of queues (CFG-020–CFG-031, CFG-050–CFG-068).

use std::collections::HashSet;

use super::{ROOT, resources::quantities};
use crate::{
    acl::Acl,
    config::{
        faults::Faults,
        written::{Limit, Queue, Text},
    },
    names::{
        INVALID_QUEUE_NAME, MAX_QUEUE_LEVELS, MAX_QUEUE_NAME, is_group_name, is_queue_name, is_user_name,
        too_many_levels,
    },
    queue::RECOVERY_QUEUE,
};

/// Properties of a queue at most, those of the queues above it included.
const MAX_PROPERTIES: usize = 100;

/// Checks a root queue and everything below it, a level before the levels below it.
pub fn check(root: &Queue, faults: &mut Faults) {
    queue(root, ROOT, 1, &mut HashSet::new(), faults);
}

/// `inherited`: the keys of properties that it has from above.
fn queue<'a>(queue: &'a Queue, path: &str, level: usize, inherited: &mut HashSet<&'a str>, faults: &mut Faults) {
    acl(&queue.admin_acl, path, faults);
    acl(&queue.submit_acl, path, faults);
    let own: Vec<&str> = queue.properties.keys().map(String::as_str).filter(|key| inherited.insert(key)).collect();
    // Every queue has all of them, and shows them: a short text could make the work of a very long one.
    let all = (inherited.len(), "those of the queues above count as well");
    for (count, of) in [all, (queue.template.properties.len(), "in its childtemplate")] {
        if count > MAX_PROPERTIES {
            let text = format!("queue {path} has {count} properties: at most {MAX_PROPERTIES} are allowed");
            faults.add(queue.name.at, "QUE-061", text, of);
        }
    }
    let mut seen = Seen::default();
    for limit in &queue.limits {
        entry(limit, queue, path, &mut seen, faults);
    }
    let mut names = HashSet::new();
    for child in &queue.queues {
        let name = &child.name;
        if !is_queue_name(&name.value) {
            faults.add(name.at, "CFG-020", INVALID_QUEUE_NAME, format!("`{}` below {path}", name.value));
        }
        if !names.insert(name.value.to_lowercase()) {
            let text = format!("duplicate child name found with name '{}', level {level}", name.value);
            faults.add(name.at, "CFG-022", text, format!("below {path}; names are compared in any case"));
        }
        if format!("{path}.{}", name.value).eq_ignore_ascii_case(RECOVERY_QUEUE) {
            // Recovery is for what no rule places, not for whoever knows its name (PLC-046).
            let text = format!("queue name {} is kept for the recovery queue", name.value);
            faults.add(name.at, "PLC-046", text, "choose another name");
        }
    }
    if level == MAX_QUEUE_LEVELS {
        // Nothing walks further down than this.
        if let Some(child) = queue.queues.first() {
            let here = format!("`{}` below {path}", child.name.value);
            faults.add(child.name.at, "CFG-020", too_many_levels(level + 1), here);
        }
    } else if inherited.len() <= MAX_PROPERTIES {
        for child in queue.queues.iter().filter(|child| !is_overlong(child)) {
            self::queue(child, &format!("{path}.{}", child.name.value), level + 1, inherited, faults);
        }
    }
    for key in own {
        inherited.remove(key);
    }
}

/// A queue has a name of more characters than allowed: what is below it cannot be told by its path.
pub fn overlong(root: &Queue) -> bool {
    root.queues.iter().any(|child| is_overlong(child) || overlong(child))
}

fn is_overlong(queue: &Queue) -> bool {
    queue.name.value.len() > MAX_QUEUE_NAME
}

/// An access list, read as it will be applied (CFG-030, CFG-031).
fn acl(acl: &Text, path: &str, faults: &mut Faults) {
    if let Err(refused) = Acl::parse(&acl.value) {
        let detail = format!("queue {path}: write user list, one space, group list");
        faults.add(acl.at, "CFG-031", refused.to_string(), detail);
    }
}

/// Users and groups that the entries of one queue named so far.
#[derive(Default)]
struct Seen<'a> {
    users: HashSet<&'a str>,
    groups: HashSet<&'a str>,
}

/// One limit entry (CFG-060–CFG-068).
fn entry<'a>(limit: &'a Limit, queue: &Queue, path: &str, seen: &mut Seen<'a>, faults: &mut Faults) {
    let name = &limit.limit.value;
    let here = format!("limit '{name}' of queue {path}");
    if limit.users.is_empty() && limit.groups.is_empty() {
        let text = format!("empty user and group lists defined in limit '{limit}'");
        faults.add(limit.at, "CFG-060", text, format!("queue {path}: name at least one user or group"));
    }
    for user in &limit.users {
        let user_name = user.value.as_str();
        if user_name != "*" && !is_user_name(user_name) {
            let text = format!("invalid limit user name '{user_name}' in limit definition");
            faults.add(user.at, "CFG-061", text, &here);
        } else if seen.users.contains(user_name) {
            let text = format!("duplicated user name '{user_name}', already exists");
            faults.add(user.at, "CFG-062", text, &here);
        } else if seen.users.contains("*") {
            let text = format!("should not set no wildcard user {user_name} after wildcard user limit");
            faults.add(user.at, "CFG-063", text, &here);
        }
        seen.users.insert(user_name);
    }
    for group in &limit.groups {
        let group_name = group.value.as_str();
        if group_name != "*" && !is_group_name(group_name) {
            let text = format!("invalid limit group name '{group_name}' in limit definition");
            faults.add(group.at, "CFG-061", text, &here);
        } else if seen.groups.contains(group_name) {
            faults.add(group.at, "CFG-062", format!("duplicated group name '{group_name}'"), &here);
        } else if seen.groups.contains("*") {
            let text = format!("should not set no wildcard group {group_name} after wildcard group limit");
            faults.add(group.at, "CFG-063", text, &here);
        }
        seen.groups.insert(group_name);
    }
    if seen.groups.len() == 1
        && seen.groups.contains("*")
        && let Some(group) = limit.groups.first()
    {
        let text = "should not specify only one group limit that is using the wildcard. There must be at least one limit \
                    with a group name defined ";
        faults.add(group.at, "CFG-064", text, &here);
    }
    amounts(limit, queue, &here, faults);
}

/// Resources and applications of one limit entry (CFG-065–CFG-068).
fn amounts(limit: &Limit, queue: &Queue, here: &str, faults: &mut Faults) {
    let name = &limit.limit.value;
    let before = faults.count();
    let resources = quantities(Some(&limit.max_resources), here, faults).unwrap_or_default();
    if faults.count() > before {
        return;
    }
    if !limit.max_resources.is_empty() && !resources.is_positive() {
        let text = format!("MaxResources should be greater than zero in '{name}' limit");
        faults.add(limit.at, "CFG-065", text, here);
    } else if limit.max_applications.value == 0 && resources.is_zero() {
        let text = format!("invalid resource combination for limit {name} all resource limits are null");
        faults.add(limit.at, "CFG-066", text, format!("{here}: give maxresources or maxapplications"));
    }
    let applications = queue.max_applications.value;
    if applications != 0 && applications < limit.max_applications.value {
        let text =
            format!("invalid MaxApplications settings for limit {name} exceed current the queue MaxApplications");
        let detail = format!("{here}: {} is more than {applications}", limit.max_applications.value);
        faults.add(limit.max_applications.at, "CFG-067", text, detail);
    }
    if queue.name.value == ROOT {
        return;
    }
    let max = quantities(queue.resources.max.as_ref(), here, faults).unwrap_or_default();
    if !max.fits_or_unlimited(&resources) {
        let text = format!("invalid MaxResources settings for limit {name} exeecd current the queue MaxResources");
        faults.add(limit.at, "CFG-068", text, format!("{here}: {resources} does not fit in {max}"));
    }
}

/// A child may not run more applications than its parent (CFG-050).
pub fn check_max_applications(queue: &Queue, faults: &mut Faults) {
    let most = queue.max_applications.value;
    for child in &queue.queues {
        let own = child.max_applications.value;
        if most != 0 && own > most {
            let detail = format!("queue {}: {own} is more than {most} of {}", child.name.value, queue.name.value);
            let text = "parent maxApplications must be larger than child maxApplications";
            faults.add(child.max_applications.at, "CFG-050", text, detail);
        } else if most != 0 && own == 0 {
            let text = "maxApplications is either undefined or zero, which is not allowed when parent queue's \
                        maxApplications is defined";
            let detail = format!("queue {}: at most {most} as its parent", child.name.value);
            faults.add(child.max_applications.at, "CFG-050", text, detail);
        }
        check_max_applications(child, faults);
    }
}
