//! What users and groups use: the sum over their applications, on every queue of the path (UGM-004, UGM-018 to UGM-024,
//! UGM-040 to UGM-042).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Report, Shadow,
    charges::{Charge, ancestors, sum},
};
use crate::domain::{
    Partition,
    alloc::Phase,
    resources::Resource,
    ugm::{QueueUsage, Who},
};

const RULE: &str = "users and groups use what their applications do";

/// Usage of a user or group in a queue, and the applications that count there.
type Books = BTreeMap<(Who, Arc<str>, Arc<str>), (Resource, BTreeSet<Arc<str>>)>;

/// By application: the orders of arrival of its allocations, and the group that it is charged to.
pub type Links = BTreeMap<Arc<str>, (BTreeSet<u64>, Option<Arc<str>>)>;

impl Shadow {
    /// The trees that are shown say what the allocations add up to. `configured`: a new configuration has just come.
    pub fn check_users(
        &mut self,
        partition: &Partition,
        now: &BTreeMap<u64, Charge>,
        configured: bool,
        report: &mut Report,
    ) {
        let mut apps: BTreeMap<&Arc<str>, Vec<(u64, &Charge)>> = BTreeMap::new();
        now.iter().for_each(|(seq, charge)| apps.entry(&charge.app).or_default().push((*seq, charge)));
        let (mut wanted, mut links) = (Books::new(), Links::new());
        for (id, charges) in apps {
            let Some(app) = partition.app_by_id.get(id).map(|ix| &partition.apps[*ix]) else { continue };
            let group = app.track.and_then(|track| partition.ugm.group(track)).cloned();
            // What the shim is still asked about is charged, and no usage yet: refused, it takes the choice with it.
            let there = charges.iter().filter(|(_, charge)| partition.allocs[charge.row].phase != Phase::AwaitingShim);
            let there: BTreeSet<u64> = there.map(|(seq, _)| *seq).collect();
            // UGM-018, UGM-020: new limits change nothing for what runs.
            if configured
                && let Some((before, linked)) = self.links.get(id)
                && !before.is_disjoint(&there)
                && group != *linked
            {
                report
                    .fault("what runs keeps its group", format!("{id} was charged to {linked:?}, and is to {group:?}"));
            }
            let usage: Resource = sum(charges.iter().map(|(_, charge)| *charge)).into_iter().fold(
                Resource::new(),
                |mut all, (kind, amount)| {
                    all.set(kind, amount);
                    all
                },
            );
            for path in ancestors(&app.queue_path) {
                for (who, name) in [(Who::User, Some(&app.user)), (Who::Group, group.as_ref())] {
                    let Some(name) = name else { continue };
                    let (sum, running) = wanted.entry((who, name.clone(), path.into())).or_default();
                    sum.add(&usage);
                    running.insert(id.clone());
                }
            }
            links.insert(id.clone(), (there, group));
        }
        self.links = links;
        let mut shown = Books::new();
        partition.ugm.users().for_each(|user| flatten(Who::User, &user.name, &user.root, &mut shown));
        partition.ugm.groups().for_each(|group| flatten(Who::Group, &group.name, &group.root, &mut shown));
        for (level, (usage, running)) in &mut wanted {
            usage.prune();
            let (_, name, path) = level;
            match shown.get(level) {
                // One without allocations may count while asks of it wait (UGM-041).
                Some((kept, counted)) if *kept == *usage && running.is_subset(counted) => {}
                other => {
                    report.fault(RULE, format!("{name} in {path} uses {usage} for {running:?}, and is shown {other:?}"))
                }
            }
        }
        for (level, (usage, _)) in shown.iter().filter(|(level, _)| !wanted.contains_key(*level)) {
            if !usage.is_zero() {
                report.fault(RULE, format!("{} in {} is shown to use {usage}, and nothing runs", level.1, level.2));
            }
        }
    }
}

fn flatten(who: Who, name: &Arc<str>, queue: &QueueUsage, books: &mut Books) {
    let applications = queue.applications.iter().cloned().collect();
    books.insert((who, name.clone(), queue.path.clone()), (queue.usage.clone(), applications));
    queue.children.iter().for_each(|child| flatten(who, name, child, books));
}
