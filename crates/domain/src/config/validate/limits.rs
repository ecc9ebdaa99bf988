//! Limits of users and groups through the hierarchy (CFG-070–CFG-074).

use super::resources::quantities;
use crate::{
    config::{
        faults::Faults,
        written::{Limit, Queue, Text},
    },
    resources::Resource,
};

/// What the ancestors allow, by name; `*` is everybody else.
/// A copy costs nothing: each queue begins with what is above it.
type Above<'a, T> = imbl::HashMap<&'a str, T>;

/// Resources: a limit fits in that of the same name above it, else in the wildcard above it (CFG-070).
pub fn check_resources(root: &Queue, faults: &mut Faults) {
    resources(root, &Above::new(), &Above::new(), faults);
}

fn resources<'a>(queue: &'a Queue, users: &Above<'a, Resource>, groups: &Above<'a, Resource>, faults: &mut Faults) {
    let (mut own_users, mut own_groups) = (users.clone(), groups.clone());
    let mut without = Vec::new();
    for limit in &queue.limits {
        // An entry without resources limits none: it hides nothing from the levels below (CFG-071). What cannot be
        // read has been noted before.
        let Some(own) = quantities(Some(&limit.max_resources), "", &mut Faults::default()).filter(|r| !r.is_empty())
        else {
            without.push(limit);
            continue;
        };
        let mut one = |names: &'a [Text], kind: &str, above: &Above<'a, Resource>, to: &mut Above<'a, Resource>| {
            for name in names {
                let (own, fault) = within(&own, name, above);
                if let Some((relation, above)) = fault {
                    let text = format!(
                        "{kind} {} max resource {own} of queue {} is greater than {relation} {above}{}",
                        name.value,
                        queue.name.value,
                        if relation.starts_with("wildcard") { " of immediate or ancestor parent queue" } else { "" }
                    );
                    faults.add(name.at, "CFG-070", text, "");
                }
                to.insert(&name.value, own);
            }
        };
        one(&limit.users, "user", users, &mut own_users);
        one(&limit.groups, "group", groups, &mut own_groups);
    }
    spare(without.iter().flat_map(|limit| &limit.users), users, &mut own_users);
    spare(without.iter().flat_map(|limit| &limit.groups), groups, &mut own_groups);
    for child in &queue.queues {
        resources(child, &own_users, &own_groups, faults);
    }
}

/// A wildcard does not hold for whom an entry of its own queue names, if only with a number of applications (UGM-003): what is
/// above it does, if anything. `names` are those of entries without resources.
fn spare<'a>(names: impl Iterator<Item = &'a Text>, above: &Above<'a, Resource>, to: &mut Above<'a, Resource>) {
    if to.get("*") == above.get("*") {
        return;
    }
    for name in names {
        if !to.contains_key(name.value.as_str()) {
            to.insert(&name.value, above.get("*").cloned().unwrap_or_default());
        }
    }
}

/// What is carried down, and the limit above that it does not fit in.
fn within<'a>(
    own: &Resource,
    name: &Text,
    above: &'a Above<'_, Resource>,
) -> (Resource, Option<(&'static str, &'a Resource)>) {
    if let Some(same) = above.get(name.value.as_str()) {
        let fault = (!same.fits_or_unlimited(own)).then_some(("immediate or ancestor parent maximum resource", same));
        let carried = if fault.is_some() { own.clone() } else { own.min(same) };
        return (carried, fault);
    }
    let wildcard = above.get("*").filter(|wildcard| !wildcard.fits_or_unlimited(own));
    (own.clone(), wildcard.map(|wildcard| ("wildcard maximum resource", wildcard)))
}

/// Applications: as for resources, where 0 means any number (CFG-072).
pub fn check_applications(root: &Queue, faults: &mut Faults) {
    applications(root, &Above::new(), &Above::new(), faults);
}

fn applications<'a>(queue: &'a Queue, users: &Above<'a, u64>, groups: &Above<'a, u64>, faults: &mut Faults) {
    let (mut own_users, mut own_groups) = (users.clone(), groups.clone());
    for limit in &queue.limits {
        names(&limit.users, "user", limit, queue, users, &mut own_users, faults);
        names(&limit.groups, "group", limit, queue, groups, &mut own_groups, faults);
    }
    for child in &queue.queues {
        applications(child, &own_users, &own_groups, faults);
    }
}

fn names<'a>(
    names: &'a [Text],
    kind: &str,
    limit: &Limit,
    queue: &Queue,
    above: &Above<'a, u64>,
    to: &mut Above<'a, u64>,
    faults: &mut Faults,
) {
    let own = limit.max_applications.value;
    for name in names {
        // By presence of the name, not by its value: a named 0 hides a wildcard.
        let (most, relation, tail) = match (above.get(name.value.as_str()), above.get("*")) {
            (Some(same), _) => (*same, "immediate or ancestor parent max applications", ""),
            (None, Some(wildcard)) => {
                (*wildcard, "wildcard max applications", " of immediate or ancestor parent queue")
            }
            (None, None) => (0, "", ""),
        };
        if most != 0 && (own == 0 || own > most) {
            let text = format!(
                "{kind} {} max applications {own} of queue {} is greater than {relation} {most}{tail}",
                name.value, queue.name.value
            );
            faults.add(name.at, "CFG-072", text, if own == 0 { "0 is any number" } else { "" });
        }
        to.insert(&name.value, own);
    }
}
