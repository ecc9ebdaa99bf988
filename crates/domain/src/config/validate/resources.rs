//! Quantities, and guarantee and max through the hierarchy (CFG-040–CFG-046).

use std::collections::{BTreeMap, BTreeSet};

use super::ROOT;
use crate::{
    config::{
        faults::Faults,
        written::{Quantities, Queue, Text},
        yaml::At,
    },
    quantity,
    resources::{MAX_TYPES, Resource, ResourceType, TypeError, min_limit},
};

/// Checks a root queue and everything below it.
pub fn check(root: &Queue, faults: &mut Faults) {
    queue(root, ROOT, None, faults);
}

/// A configuration names no more resource types than a resource manager may use. `named` are those of the partitions before.
pub fn check_types<'a>(root: &'a Queue, named: &mut BTreeSet<&'a str>, faults: &mut Faults) {
    let before = named.len();
    name_types(root, named);
    if before <= MAX_TYPES && named.len() > MAX_TYPES {
        let text = format!("{} resource types are named: at most {MAX_TYPES} are allowed", named.len());
        faults.add(root.at, "CFG-040", text, "in quotas, templates and limits of all partitions");
    }
}

fn name_types<'a>(queue: &'a Queue, named: &mut BTreeSet<&'a str>) {
    let resources = [&queue.resources, &queue.template.resources];
    let quotas = resources.into_iter().flat_map(|resources| [&resources.guaranteed, &resources.max]);
    let limits = queue.limits.iter().map(|limit| &limit.max_resources);
    named.extend(quotas.flatten().chain(limits).flat_map(|map| map.keys()).map(String::as_str));
    for child in &queue.queues {
        name_types(child, named);
    }
}

/// Reads quantities; those that cannot be read are left out and noted (CFG-040). `None` where there are none.
pub fn quantities(map: Option<&Quantities>, here: &str, faults: &mut Faults) -> Option<Resource> {
    let mut resource = Resource::new();
    for (kind, amount) in map? {
        match quantity::parse(kind, &amount.value) {
            Ok(parsed) => match ResourceType::new(kind) {
                Some(kind) => resource.set(kind, i128::from(parsed)),
                None => faults.add(amount.at, "CFG-040", TypeError::long(kind).to_string(), here),
            },
            Err(e) => {
                faults.add(amount.at, "CFG-040", e.to_string(), format!("`{}` of {kind}, {here}", amount.value));
            }
        }
    }
    Some(resource)
}

/// Checks a queue against the effective max above it; gives what is guaranteed in it.
fn queue(queue: &Queue, path: &str, above: Option<&Resource>, faults: &mut Faults) -> Resource {
    let name = &queue.name.value;
    let here = format!("queue {path}");
    let guaranteed = quantities(queue.resources.guaranteed.as_ref(), &here, faults).unwrap_or_default();
    let max = quantities(queue.resources.max.as_ref(), &here, faults).unwrap_or_default();
    template(queue, path, faults);
    if !max.fits_or_unlimited(&guaranteed) {
        let text = format!("guaranteed resource {guaranteed} is larger than maximum resource {max} for queue {name}");
        faults.add(place(&queue.resources.guaranteed, queue), "CFG-041", text, path);
    }
    if let Some(above) = above
        && !above.fits_or_unlimited(&max)
    {
        let text = format!("max resource of parent {above} is smaller than maximum resource {max} for queue {name}");
        faults.add(place(&queue.resources.max, queue), "CFG-042", text, path);
    }
    let effective = min_limit(above, Some(&max)).unwrap_or_default();
    let mut children = Resource::new();
    for child in &queue.queues {
        children.add(&self::queue(child, &format!("{path}.{}", child.name.value), Some(&effective), faults));
    }
    if !guaranteed.fits_or_unlimited(&children) {
        let text = format!(
            "guaranteed resource of parent {guaranteed} is smaller than sum of guaranteed resources {children} of the \
             children for queue {name}"
        );
        faults.add(place(&queue.resources.guaranteed, queue), "CFG-043", text, path);
    }
    if !effective.fits_or_unlimited(&children) {
        let text = format!(
            "max resource {effective} is smaller than sum of guaranteed resources {children} of the children for queue \
             {name}"
        );
        faults.add(place(&queue.resources.max, queue), "CFG-043", text, path);
    }
    if guaranteed.is_zero() {
        return children;
    }
    // Types that are guaranteed only below count as well on the way up (CFG-044).
    let mut promised = guaranteed;
    for (kind, amount) in children.iter() {
        if promised.get(kind).is_none() {
            promised.set(kind.clone(), amount);
        }
    }
    promised
}

/// Quantities of a template, as they will be read when it is used (CFG-045), which that of a leaf never is (TPL-001); how they relate
/// to each other and to the limits above is not checked (TPL-007).
fn template(queue: &Queue, path: &str, faults: &mut Faults) {
    if !queue.is_parent() {
        return;
    }
    let here = format!("childtemplate of queue {path}");
    for map in [&queue.template.resources.guaranteed, &queue.template.resources.max] {
        quantities(map.as_ref(), &here, faults);
    }
}

/// Where a map stands: at its first value, else at the queue.
fn place(map: &Option<BTreeMap<String, Text>>, queue: &Queue) -> At {
    map.as_ref().and_then(|map| map.values().map(|value| value.at).min()).unwrap_or(queue.at)
}
