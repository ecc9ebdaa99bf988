//! What holds of what was just placed, and of whom had to go for it.

use std::collections::BTreeMap;

use super::{
    Report, Shadow,
    charges::{Charge, ancestors, is_below, sum},
};
use crate::domain::{
    Partition,
    alloc::{Alloc, Phase},
    conf::{LimitConf, PartitionConf, QueueConf},
    resources::Resource,
    types::AppState,
};

/// The configuration of a queue.
pub fn queue_conf<'a>(conf: &'a PartitionConf, path: &str) -> Option<&'a QueueConf> {
    let mut names = path.split('.');
    let mut queue = Some(&conf.root).filter(|root| names.next() == Some(&*root.name));
    for name in names {
        queue = queue?.children.iter().find(|child| *child.name == *name);
    }
    queue
}

/// The limit that holds for a user in a queue: the first that names it, else the first for everybody.
pub fn limit_of<'a>(queue: &'a QueueConf, user: &str) -> Option<&'a LimitConf> {
    let names = |limit: &&LimitConf, user: &str| limit.users.iter().any(|name| **name == *user);
    let own = queue.limits.iter().find(|limit| names(limit, user));
    own.or_else(|| queue.limits.iter().find(|limit| names(limit, "*")))
}

/// A type of which more is used than this allows, of those that an ask wants.
pub fn over(
    used: &BTreeMap<crate::domain::resources::ResourceType, i128>,
    most: &Resource,
    wanted: &Resource,
) -> Option<String> {
    most.iter().find_map(|(kind, most)| {
        let used = used.get(kind).copied().unwrap_or_default();
        (used > most && wanted.amount(kind) > 0).then(|| format!("{used} of {}, of {most} at most", kind.name()))
    })
}

impl Shadow {
    /// What a decision charged is within every max, limit and node, and its application may have it.
    pub fn check_placed(&self, partition: &Partition, now: &BTreeMap<u64, Charge>, report: &mut Report) {
        let Some(conf) = &self.conf else { return };
        for (_, charge) in now.iter().filter(|(seq, _)| !self.charges.contains_key(seq)) {
            let row = &partition.allocs[charge.row];
            for path in ancestors(&charge.queue) {
                let Some(queue) = queue_conf(conf, path) else { continue };
                let below = || now.values().filter(|other| is_below(&other.queue, path));
                if let Some(max) = queue.max.as_ref().filter(|_| path != "root")
                    && let Some(over) = over(&sum(below()), max, &charge.size)
                {
                    report.fault("no queue is above its max", format!("{path} uses {over}, with {}", charge.key));
                }
                if let Some(limit) = limit_of(queue, &charge.user)
                    && let Some(most) = &limit.max_resources
                    && let used = sum(below().filter(|other| other.user == charge.user))
                    && let Some(over) = over(&used, most, &charge.size)
                {
                    let text = format!("{} uses {over} in {path}, with {}", charge.user, charge.key);
                    report.fault("no user is above a limit", text);
                }
            }
            self.check_node(partition, now, charge, report);
            self.check_app(partition, now, (charge, row), report);
        }
        for app in partition.app_by_id.values().map(|ix| &partition.apps[*ix]) {
            for row in app.by_seq.values().map(|ix| &partition.allocs[*ix]).filter(|row| row.phase == Phase::Replacing)
            {
                self.check_swap(partition, row, report);
            }
        }
    }

    /// There is room, and the node takes something new.
    fn check_node(&self, partition: &Partition, now: &BTreeMap<u64, Charge>, charge: &Charge, report: &mut Report) {
        let Some(id) = &charge.node else {
            return report.fault("an allocation has a node", format!("{} of {} has none", charge.key, charge.app));
        };
        let Some(node) = partition.node_by_id.get(id).map(|ix| &partition.nodes[*ix]) else {
            return report.fault("an allocation has a node", format!("{} is on {id}, which is not there", charge.key));
        };
        let here = now.values().filter(|other| other.node.as_ref() == Some(id));
        let mut used = sum(here);
        // A replacement elsewhere than its placeholder takes room before it counts anywhere else (R6.10).
        for row in partition.allocs.values().filter(|row| row.phase == Phase::Replacing) {
            let placeholder = row.link.and_then(|link| partition.allocs[link].node);
            if row.node.is_some_and(|at| partition.nodes[at].spec.id == *id) && placeholder != row.node {
                row.resource.iter().for_each(|(kind, amount)| *used.entry(kind.clone()).or_default() += amount);
            }
        }
        for foreign in node.foreign.values() {
            foreign.resource.iter().for_each(|(kind, amount)| *used.entry(kind.clone()).or_default() += amount);
        }
        for (kind, amount) in charge.size.iter().filter(|(_, amount)| *amount > 0) {
            let (used, capacity) = (used.get(kind).copied().unwrap_or(amount), node.capacity.amount(kind));
            if used > capacity {
                let text = format!("{id} holds {used} of {}, and has {capacity}, with {}", kind.name(), charge.key);
                report.fault("no node holds more than it has", text);
            }
        }
        let row = &partition.allocs[charge.row];
        if let Some(required) = row.spec.required_node.as_ref().filter(|required| *required != id) {
            let text = format!("{} of {} requires {required}, and was placed on {id}", charge.key, charge.app);
            report.fault("what requires a node is placed there", text);
        }
        let drained = [&self.drained, &self.told_drained, &self.off].iter().any(|nodes| nodes.contains(id));
        // What requires the node is placed there also while it drains, and the place of a placeholder is no new one (R5.42, R6.9).
        if drained && row.spec.required_node.is_none() && !row.placeholder_used {
            report.fault("drains are kept", format!("{} of {} was placed on {id}", charge.key, charge.app));
        }
    }

    /// Its application takes allocations, and a gang waits for all of itself.
    fn check_app(
        &self,
        partition: &Partition,
        now: &BTreeMap<u64, Charge>,
        (charge, row): (&Charge, &Alloc),
        report: &mut Report,
    ) {
        let Some(app) = partition.app_by_id.get(&charge.app).map(|ix| &partition.apps[*ix]) else { return };
        let ends = [AppState::Failing, AppState::Failed, AppState::Completed, AppState::Expired, AppState::Rejected];
        if ends.contains(&app.state) {
            let text = format!("{} of {}, which is {}, was placed", charge.key, charge.app, app.state);
            report.fault("nothing is placed of what ends", text);
        }
        let pending = || {
            let rows = app.by_seq.values().map(|ix| &partition.allocs[*ix]);
            rows.filter(|row| row.is_placeholder() && matches!(row.phase, Phase::Pending | Phase::AwaitingShim))
        };
        // With its first real ask it is Running: what counts is how it was before. Placeholders that come to what was announced
        // let it run, whatever else of them waits (S10).
        let announced = || {
            let held = now.values().filter(|other| other.app == app.id && partition.allocs[other.row].is_placeholder());
            let held = sum(held);
            let ask = app.gang.placeholder_ask.as_deref().filter(|ask| !ask.is_zero());
            ask.is_some_and(|ask| ask.iter().all(|(kind, amount)| held.get(kind).is_some_and(|held| *held >= amount)))
        };
        let was = self.before.get(&charge.app).map(|(state, _)| *state);
        let early = was == Some(AppState::Accepted) && !row.is_placeholder() && pending().next().is_some();
        // What takes the place of a placeholder goes on, whatever has come to its gang since it began (R6.15).
        if early && !row.placeholder_used && !announced() {
            let text = format!("{} of {} was placed before the whole gang was there", charge.key, charge.app);
            report.fault("a gang is whole before its parts come", text);
        }
        let queue = partition.queue_by_path.get(&charge.queue).map(|ix| &partition.queues[*ix]);
        if row.is_placeholder()
            && !self.asking
            && queue.is_some_and(|queue| queue.settings.atomic_gangs)
            && let Some(left) = pending().find(|row| row.phase == Phase::Pending)
        {
            let text = format!("{} of {} was placed, and {} was not", charge.key, charge.app, left.spec.key);
            report.fault("an atomic gang is placed all at once", text);
        }
    }

    /// A replacement is of the same application and task group, no larger, and its placeholder is told to go.
    fn check_swap(&self, partition: &Partition, real: &Alloc, report: &mut Report) {
        let placeholder = real.link.map(|link| &partition.allocs[link]);
        let fits = placeholder.is_some_and(|placeholder| {
            placeholder.app == real.app
                && placeholder.spec.task_group == real.spec.task_group
                && placeholder.is_placeholder()
                && !real.is_placeholder()
                && placeholder.resource.iter().all(|(kind, amount)| real.resource.amount(kind) <= amount)
        });
        let app = &partition.apps[real.app].id;
        let told =
            placeholder.is_some_and(|placeholder| self.open.contains_key(&(app.clone(), placeholder.spec.key.clone())));
        if !fits || !told {
            let text = format!("{} of {app} replaces {:?}", real.spec.key, placeholder.map(|row| &row.spec.key));
            report.fault("a replacement takes the place of one that it fits", text);
        }
    }

    /// Whoever goes for a guarantee comes from queues that keep theirs (R7.14, R7.15, R7.20).
    pub fn check_victims(&self, partition: &Partition, now: &BTreeMap<u64, Charge>, report: &mut Report) {
        let Some(conf) = &self.conf else { return };
        for (seq, victim) in now.iter().filter(|(_, charge)| charge.preempted) {
            if self.charges.get(seq).is_none_or(|before| before.preempted) {
                continue;
            }
            if !self.open.contains_key(&(victim.app.clone(), victim.key.clone())) {
                let text = format!("{} of {} is to go, and the shim was not told", victim.key, victim.app);
                report.fault("who is to go is told", text);
            }
            let ask = partition.allocs[victim.row].victim_of.map(|ask| &partition.allocs[ask]);
            let Some(ask) = ask.filter(|ask| ask.spec.required_node.is_none()) else { continue };
            let claimant = &partition.apps[ask.app].queue_path;
            if *claimant == victim.queue {
                let text = format!("{} goes for {}, of the same queue", victim.key, ask.spec.key);
                report.fault("nobody preempts in the own queue", text);
            }
            for path in ancestors(&victim.queue).filter(|path| !is_below(claimant, path)) {
                let Some(guaranteed) = queue_conf(conf, path).and_then(|queue| queue.guaranteed.as_ref()) else {
                    continue;
                };
                let stays = now.values().filter(|other| !other.preempted && is_below(&other.queue, path));
                let mut stays = sum(stays);
                // What asks of the queue were promised when others went for them is its own as well: by it those others, which may
                // have been of the same queue, are made up for (R7.33).
                for ask in promised(partition, path) {
                    for (kind, amount) in ask.resource.iter() {
                        *stays.entry(kind.clone()).or_default() += amount;
                    }
                }
                for (kind, least) in guaranteed.iter().filter(|(kind, _)| victim.size.amount(kind) > 0) {
                    let stays = stays.get(kind).copied().unwrap_or_default();
                    if stays < least {
                        let text = format!(
                            "{} goes for {}, and leaves {path} with {stays} of {}, of {least} guaranteed",
                            victim.key,
                            ask.spec.key,
                            kind.name()
                        );
                        report.fault("no guarantee is broken", text);
                    }
                }
            }
        }
    }
}

/// Asks below a queue that wait for what others were told to leave them.
fn promised<'a>(partition: &'a Partition, path: &'a str) -> impl Iterator<Item = &'a Alloc> {
    let apps = partition.app_by_id.values().map(|ix| &partition.apps[*ix]);
    let asks = apps.filter(move |app| is_below(&app.queue_path, path)).flat_map(|app| app.by_seq.values());
    let waits = |ask: &&_| partition.allocs[**ask].phase == Phase::Pending && partition.has_claim(**ask);
    asks.filter(waits).map(|ask| &partition.allocs[*ask])
}
