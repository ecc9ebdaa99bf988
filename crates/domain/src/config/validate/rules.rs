//! Placement rules: names, filters, and the queues that they always lead to (CFG-075–CFG-079).

use super::ROOT;
use crate::{
    config::{
        faults::Faults,
        written::{Queue, Rule, Text},
    },
    names::{MAX_QUEUE_LEVELS, is_group_name, is_rule_name, is_user_name, too_many_levels},
    placement::{MAX_EXPRESSIONS, is_expression, is_qualified, size},
};

/// Checks the rules of a partition against its root queue. `room` is what is left for filter expressions.
pub fn check(rules: &[Rule], root: &Queue, room: &mut usize, faults: &mut Faults) {
    for rule in rules {
        one(rule, room, faults);
    }
    for (number, rule) in rules.iter().enumerate() {
        static_path(number, rule, root, faults);
    }
}

fn one(rule: &Rule, room: &mut usize, faults: &mut Faults) {
    if !is_rule_name(&rule.name.value) {
        let text = format!("invalid rule name {}, a name must be a valid identifier", rule.name.value);
        faults.add(rule.name.at, "CFG-075", text, "provided, user, fixed or tag");
    }
    if let Some(parent) = &rule.parent {
        one(parent, room, faults);
    }
    let kind = &rule.filter.kind;
    if !["", "allow", "deny"].contains(&kind.value.to_ascii_lowercase().as_str()) {
        let text = format!("invalid rule filter type {}, filter type  must be either '', allow or deny", kind.value);
        faults.add(kind.at, "CFG-076", text, "");
    }
    list(&rule.filter.users, "user", is_user_name, room, faults);
    list(&rule.filter.groups, "group", is_group_name, room, faults);
}

/// A single entry is a name or an expression; longer lists are not looked at (CFG-077).
fn list(entries: &[Text], kind: &str, valid: fn(&str) -> bool, room: &mut usize, faults: &mut Faults) {
    let [entry] = entries else { return };
    let expression = is_expression(&entry.value);
    if expression && *room == 0 {
        return;
    }
    let size = expression.then(|| size(&entry.value));
    if let Some(Ok(size)) = size {
        *room = room.saturating_sub(size);
        if *room == 0 {
            let text = format!("the filter expressions of all placement rules take more than {MAX_EXPRESSIONS} bytes");
            faults.add(entry.at, "CFG-077", text, "write shorter ones, or lists of names");
        }
    } else if !valid(&entry.value) {
        let text = format!("invalid rule filter {kind} list is not a proper list or regexp: [{}]", entry.value);
        faults.add(entry.at, "CFG-077", text, size.and_then(Result::err).unwrap_or_default());
    }
}

/// Where the rules from the outermost parent on are `fixed`, their path is known now (CFG-078). Queues are parents by
/// their flag or because they have children, and names are compared in any case (CFG-079).
fn static_path(number: usize, rule: &Rule, root: &Queue, faults: &mut Faults) {
    let mut chain = vec![rule];
    while let Some(parent) = chain.last().and_then(|rule| rule.parent.as_deref()) {
        chain.push(parent);
    }
    if chain.len() >= MAX_QUEUE_LEVELS {
        // Each of them gives a level at least, below root.
        let text = too_many_levels(chain.len() + 1);
        faults.add(rule.at, "CFG-078", text, format!("placement rule no. #{number} has {} parents", chain.len() - 1));
        return;
    }
    chain.reverse();
    let fixed = chain.iter().take_while(|rule| rule.name.value.eq_ignore_ascii_case("fixed")).count();
    let dynamic = fixed < chain.len();
    let mut path = ROOT.to_owned();
    for (level, rule) in chain[..fixed].iter().enumerate() {
        let value = rule.value.value.to_ascii_lowercase();
        match (is_qualified(&value), level) {
            // Refused when the rule is made (PLC-004).
            _ if value.is_empty() => return,
            (true, 0) => path = value,
            (true, _) => {
                let text = format!("illegal fully qualified 'fixed' rule with value {}", rule.value.value);
                faults.add(rule.value.at, "CFG-078", text, "only the outermost parent may start at root");
                return;
            }
            (false, _) => path = format!("{path}.{value}"),
        }
    }
    if fixed == 0 {
        return;
    }
    let levels = path.split('.').count() + chain.len() - fixed;
    if levels > MAX_QUEUE_LEVELS {
        faults.add(rule.at, "CFG-078", too_many_levels(levels), format!("placement rule no. #{number}"));
        return;
    }
    let names: Vec<_> = chain.iter().map(|rule| rule.name.value.as_str()).collect();
    let subject = format!("placement rule no. #{number} ({})", names.join("->"));
    let mut queue = root;
    for name in path.split('.').skip(1) {
        if let Some(child) = queue.queues.iter().find(|child| child.name.value.eq_ignore_ascii_case(name)) {
            queue = child;
            continue;
        }
        if !queue.is_parent() {
            let text = format!(
                "{subject} references non-existing queues ({path}) which cannot be created because the last queue ({}) \
                 in the hierarchy is a leaf",
                queue.name.value
            );
            faults.add(rule.at, "CFG-078", text, "");
        } else if !rule.create {
            let text = format!("{subject} references non-existing queues ({path}) and create is 'false'");
            faults.add(rule.at, "CFG-078", text, "");
        }
        return;
    }
    if queue.is_parent() != dynamic {
        let text = format!("{subject} references a queue ({path}) which is not a leaf");
        let detail = if dynamic { "it must be a parent, as more rules follow" } else { "" };
        faults.add(rule.at, "CFG-078", text, detail);
    }
}
