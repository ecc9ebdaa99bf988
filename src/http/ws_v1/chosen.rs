//! Which queues have metrics of their own: the series of a server with 100,000 queues are more than a monitoring system wants.

use std::{cmp::Reverse, collections::BTreeSet};

use crate::{
    config::extra::Settings,
    domain::{
        partition::Tables,
        queue::Queue,
        resources::{Resource, ResourceType},
    },
};

/// See the module.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// `None`: all.
    patterns: Option<Vec<String>>,
    /// `None`: as many as there are.
    most: Option<usize>,
}

impl Chosen {
    /// As `metrics.queues` and `metrics.topQueues` say.
    pub fn of(settings: &Settings) -> Chosen {
        let patterns = settings.metrics_queues.split(',').map(|pattern| pattern.trim().to_lowercase());
        Chosen {
            patterns: (settings.metrics_queues != "all").then(|| patterns.collect()),
            most: Some(settings.metrics_top).filter(|most| *most > 0),
        }
    }

    /// The queues of these tables that have metrics, in their order.
    pub fn queues<'a>(&self, tables: &'a Tables) -> Vec<&'a Queue> {
        let named =
            |queue: &&Queue| self.patterns.as_ref().is_none_or(|all| all.iter().any(|one| fits(one, &queue.path)));
        let queues: Vec<&Queue> = tables.queues().filter(named).collect();
        let Some(most) = self.most.filter(|most| *most < queues.len()) else { return queues };
        // A parent's amounts are those of its leaves: it would always be before them.
        let mut above = BTreeSet::new();
        for queue in &queues {
            let parents = queue.path.rmatch_indices('.').map(|(dot, _)| &queue.path[..dot]);
            parents.take_while(|parent| above.insert(*parent)).for_each(drop);
        }
        let demand = |queue: &Queue| queue.placed().plus(&queue.waiting());
        let whole = tables.queues().find(|queue| &*queue.path == "root").map(demand).unwrap_or_default();
        let lowest = queues.iter().filter(|queue| !above.contains(&*queue.path));
        let mut by_share: Vec<(Reverse<u64>, &str)> =
            lowest.map(|queue| (Reverse(share(&demand(queue), &whole)), &*queue.path)).collect();
        if most < by_share.len() {
            by_share.select_nth_unstable(most);
            by_share.truncate(most);
        }
        let top: BTreeSet<&str> = by_share.into_iter().map(|(_, path)| path).collect();
        queues.into_iter().filter(|queue| top.contains(&*queue.path)).collect()
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix(".*") {
        Some(above) => path.strip_prefix(above).is_some_and(|below| below.starts_with('.')),
        None => pattern == path,
    }
}

/// The largest share of a type, in millionths.
pub fn share(part: &Resource, whole: &Resource) -> u64 {
    let one = |(kind, amount): (&ResourceType, i128)| {
        let all = whole.amount(kind).max(1);
        u64::try_from(amount.max(0).saturating_mul(1_000_000) / all).unwrap_or(u64::MAX)
    };
    part.iter().map(one).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_shares() {
        for (pattern, path, expected) in [
            ("root", "root", true),
            ("root", "root.a", false),
            ("root.a.*", "root.a.b.c", true),
            ("root.a.*", "root.a", false),
            ("root.a.*", "root.ab.c", false),
        ] {
            assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        }
        let resource = |memory, vcore| Resource::of(&[("memory", memory), ("vcore", vcore)]);
        let whole = resource(1_000, 10);
        assert_eq!([share(&resource(100, 5), &whole), share(&Resource::new(), &whole)], [500_000, 0]);
    }
}
