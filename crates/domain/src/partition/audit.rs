//! Recomputes every sum from the allocations (section 10.8 of the scheduling rules): what must hold after every step.

use std::collections::{BTreeMap, BTreeSet};

use super::Partition;
use crate::{
    alloc::Phase,
    app::Gang,
    node::{Asked, Reservations},
    resources::Resource,
    types::{AllocIx, AppIx, AppState, NodeIx, QueueIx},
    ugm::Live,
};

/// One broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What the numbers belong to, such as `node n1`.
    pub object: String,
    /// What differs.
    pub text: String,
}

struct Report(Vec<Finding>);

impl Report {
    fn check(&mut self, object: impl Fn() -> String, what: &str, kept: &Resource, real: &Resource) {
        if kept != real {
            self.0.push(Finding { object: object(), text: format!("{what} is {kept}, its parts are {real}") });
        }
    }

    fn count(&mut self, object: impl Fn() -> String, what: &str, kept: u64, real: u64) {
        if kept != real {
            self.0.push(Finding { object: object(), text: format!("{what} is {kept}, there are {real}") });
        }
    }
}

impl Partition {
    /// All broken invariants; none in a healthy partition.
    pub fn audit(&self) -> Vec<Finding> {
        let mut report = Report(Vec::new());
        self.audit_nodes(&mut report);
        self.audit_apps(&mut report);
        self.audit_queues(&mut report);
        self.audit_claims(&mut report);
        self.audit_users(&mut report);
        report.0
    }

    fn live(&self) -> impl Iterator<Item = (AllocIx, &crate::alloc::Alloc)> {
        self.allocs.iter()
    }

    fn audit_nodes(&self, report: &mut Report) {
        let mut used: BTreeMap<NodeIx, (Resource, u64)> = BTreeMap::new();
        let mut reserved: BTreeMap<NodeIx, u64> = BTreeMap::new();
        let mut asked: BTreeMap<NodeIx, Asked> = BTreeMap::new();
        for (ix, row) in self.live() {
            if self.by_key(row.app, &row.spec.key) != Some(ix) {
                let object = format!("application {}", self.apps[row.app].id);
                report.0.push(Finding { object, text: format!("does not find {} by its key", row.spec.key) });
            }
            let charged = match row.phase {
                Phase::Allocated => true,
                Phase::AwaitingShim => row.node.is_some_and(|n| self.nodes[n].allocs.get(row.at as usize) == Some(&ix)),
                // Only on another node than its placeholder's.
                Phase::Replacing => row.link.is_some_and(|ph| self.allocs[ph].node != row.node),
                Phase::Pending | Phase::Ended => false,
            };
            if let Some(node) = row.node.filter(|_| charged) {
                if row.phase == Phase::AwaitingShim {
                    asked.entry(node).or_default().note(&row.resource, true);
                }
                let sum = used.entry(node).or_default();
                sum.0.add(&row.resource);
                sum.1 += 1;
            }
            if let Some(node) = row.reserved {
                *reserved.entry(node).or_default() += 1;
            }
        }
        let (mut total, mut reservations) = (Resource::new(), 0);
        for (ix, node) in self.nodes.iter() {
            let name = || format!("node {}", node.spec.id);
            let (sum, count) = used.remove(&ix).unwrap_or_default();
            report.check(name, "allocated", &node.allocated, &sum);
            report.count(name, "number of allocations", node.allocs.len() as u64, count);
            let misplaced = node.allocs.iter().enumerate().filter(|(at, a)| self.allocs[**a].at as usize != *at);
            report.count(name, "allocations that do not know their place", misplaced.count() as u64, 0);
            let later = node.allocs.iter().filter(|alloc| self.allocs[**alloc].bound > node.newest);
            report.count(name, "allocations newer than the newest", later.count() as u64, 0);
            let mut occupied = Resource::new();
            for foreign in node.foreign.values() {
                occupied.add(&foreign.resource);
            }
            report.check(name, "occupied", &node.occupied, &occupied);
            let available = node.capacity.minus(&node.allocated).minus(&node.occupied);
            report.check(name, "available", &node.available, &available);
            let held = reserved.remove(&ix).unwrap_or_default();
            report.count(name, "number of reservations", node.reservations.len() as u64, held);
            let mut claimed = Resource::new();
            for claim in node.reservations.iter().filter_map(|ask| self.claims.get(&ask)) {
                claimed.add(&claim.resource);
            }
            report.check(name, "claimed", &node.claimed, &claimed);
            let mut counted = Reservations::default();
            for row in node.reservations.iter().map(|ask| &self.allocs[ask]) {
                counted.count(&row.resource, row.spec.required_node.is_some());
            }
            report.check(name, "wanted by those that reserve it", node.reservations.wanted(), counted.wanted());
            let asked = asked.remove(&ix).unwrap_or_default();
            report.check(name, "charged while the shim is asked", &node.asked.amount, &asked.amount);
            report.count(name, "number charged while the shim is asked", node.asked.count, asked.count);
            let listed = node.sort_key.is_some();
            let open = self.state != crate::types::ObjectState::Stopped;
            let expected = open && node.schedulable() && self.is_shared(ix);
            if listed != expected {
                report.0.push(Finding { object: name(), text: format!("in the sort order: {listed}") });
            }
            total.add(&node.capacity);
            reservations += held;
        }
        report.check(|| "partition".into(), "total", &self.total, &total);
        report.count(|| "partition".into(), "number of reservations", self.reservations, reservations);
        let reserved = self.nodes.values().flat_map(|node| node.reservations.iter());
        let parts = reserved.filter(|ask| self.allocs[*ask].is_placeholder()).count() as u64;
        report.count(
            || "partition".into(),
            "placeholders that reserve",
            self.reserved_placeholders.len() as u64,
            parts,
        );
        for node in used.keys() {
            report.0.push(Finding { object: format!("node row {}", node.0), text: "gone, but charged".into() });
        }
    }

    fn audit_apps(&self, report: &mut Report) {
        let (mut allocations, mut placeholders) = (0, 0);
        let asked = self.placeholders_in_question();
        for (ix, app) in self.apps.iter() {
            let name = || format!("application {}", app.id);
            let (mut pending, mut real, mut held) = (Resource::new(), Resource::new(), Resource::new());
            let (mut count, mut ph_count, mut ph_pending, mut reserved) = (0, 0, 0, 0);
            let (mut awaited, mut awaiting) = (Resource::new(), [Resource::new(), Resource::new()]);
            let mut in_question = Resource::new();
            for alloc in app.by_seq.values() {
                let row = &self.allocs[*alloc];
                let charged = row.phase == Phase::Allocated
                    || (row.phase == Phase::AwaitingShim && app.allocs.contains_key(alloc));
                if row.phase == Phase::Pending {
                    pending.add(&row.resource);
                    ph_pending += u64::from(row.is_placeholder());
                    if row.is_placeholder() {
                        awaited.add(&row.resource);
                    }
                } else if charged {
                    if row.phase == Phase::AwaitingShim {
                        awaiting[usize::from(row.is_placeholder())].add(&row.resource);
                    }
                    count += 1;
                    ph_count += u64::from(row.is_placeholder());
                    if row.is_placeholder() { held.add(&row.resource) } else { real.add(&row.resource) }
                } else if row.phase == Phase::AwaitingShim {
                    in_question.add(&row.resource);
                }
                reserved += u64::from(row.reserved.is_some());
            }
            report.check(name, "pending", &app.pending, &pending);
            report.check(name, "sum of asks without charge", &app.in_question, &in_question);
            report.check(name, "allocated", &app.allocated, &real);
            report.check(name, "allocated placeholders", &app.gang.allocated, &held);
            report.count(name, "number of allocations", app.allocs.len() as u64, count);
            report.count(name, "number of placeholders", u64::from(app.gang.placeholders), ph_count);
            report.count(name, "number of pending placeholders", u64::from(app.gang.pending_placeholders), ph_pending);
            report.check(name, "awaited placeholders", &app.gang.awaited, &awaited);
            for (sum, real) in app.asked.iter().zip(&awaiting) {
                report.check(name, "charged while the shim is asked", &sum.amount, real);
            }
            report.count(name, "number of reservations", app.reservations.len() as u64, reserved);
            let mut claimed = Resource::new();
            for claim in app.by_seq.values().filter_map(|alloc| self.claims.get(alloc)) {
                claimed.add(claim.promised());
            }
            report.check(name, "claimed", &app.claimed, &claimed);
            self.audit_gang(app, &asked, report);
            let grouped: usize = app.groups_by_key.values().map(|group| group.asks.len()).sum();
            let waiting = app.by_seq.values().filter(|a| self.allocs[**a].is_pending()).count();
            report.count(name, "number of grouped asks", grouped as u64, waiting as u64);
            let untold: usize = app.groups_by_key.values().map(|group| group.unreported).sum();
            let waiting = app.by_seq.values().map(|alloc| &self.allocs[*alloc]);
            let waiting = waiting.filter(|row| row.is_pending() && row.is_unreported()).count();
            report.count(name, "number of asks that are not told of", untold as u64, waiting as u64);
            report.count(name, "listed where asks are not told of", (app.untold || untold == 0).into(), 1);
            report.count(name, "flagged as listed there", app.untold.into(), self.untold.contains(&ix).into());
            let blocked = |key: &&_| app.groups_by_key.get(*key).is_some_and(|group| group.blocked);
            let failed = app.failed_groups.iter().filter(blocked).count() as u64;
            report.count(name, "number of groups that failed on nodes", app.failed_groups.len() as u64, failed);
            allocations += count;
            placeholders += ph_count;
        }
        report.count(|| "partition".into(), "number of allocations", self.allocations, allocations);
        report.count(|| "partition".into(), "number of placeholders", self.placeholders, placeholders);
        let wants = self.apps.values().flat_map(|app| app.groups_by_key.values()).filter(|group| group.wants.is_some());
        report.count(|| "partition".into(), "groups that may reserve", self.wanting.len() as u64, wants.count() as u64);
        let left = self.gone_with.keys().filter(|alloc| {
            let row = &self.allocs[**alloc];
            row.is_free() || row.phase != Phase::Ended
        });
        report.count(|| "partition".into(), "nodes kept for allocations that did not end", left.count() as u64, 0);
        let gone = |app: &&AppIx| self.apps[**app].is_free();
        report.count(
            || "partition".into(),
            "listed applications that are gone",
            self.untold.iter().filter(gone).count() as u64,
            0,
        );
        let strays = self.swappable.iter().filter(gone).count() + self.gangs.iter().filter(gone).count();
        report.count(|| "partition".into(), "gangs of applications that are gone", strays as u64, 0);
        for asks in [&self.ripe, &self.elsewhere] {
            let stray = asks.values().any(|alloc| self.allocs[alloc].is_free());
            let wrong = stray || self.in_order(asks.values()) != *asks;
            report.count(|| "partition".into(), "lists of asks that are not in order", wrong.into(), 0);
        }
        for (ix, app) in self.apps.iter().filter(|(ix, app)| self.gangs.contains(ix) != app.keeps_for_gang()) {
            let text = format!("its gang is listed: {}", self.gangs.contains(&ix));
            report.0.push(Finding { object: format!("application {}", app.id), text });
        }
    }

    /// Replacements in flight, placeholders that may be replaced, and the counters of task groups.
    fn audit_gang(&self, app: &crate::app::App, asked: &BTreeSet<AllocIx>, report: &mut Report) {
        let name = || format!("application {}", app.id);
        let mut live: BTreeMap<&str, [u64; 2]> = app.gang.task_groups.keys().map(|group| (&**group, [0; 2])).collect();
        let (mut swaps, mut awaiting, mut asking, mut replaceable) = (0, 0, 0, 0);
        let placeholder_ask = app.gang.placeholder_ask.clone();
        let mut parts = Gang { placeholder_ask, ..Gang::default() };
        for alloc in app.by_seq.values() {
            let row = &self.allocs[*alloc];
            swaps += u64::from(row.phase == Phase::Replacing);
            awaiting += u64::from(row.phase == Phase::AwaitingShim && row.is_placeholder());
            asking += u64::from(row.phase == Phase::AwaitingShim && !app.allocs.contains_key(alloc));
            if app.allocs.contains_key(alloc) {
                parts.placed(*alloc, &row.spec, true);
            }
            let linked = row.link.map(|other| &self.allocs[other]);
            let expected = match row.phase {
                Phase::Replacing => linked.is_some_and(|ph| ph.released && ph.is_placeholder()),
                Phase::Allocated => linked.is_none_or(|real| row.released && real.phase == Phase::Replacing),
                _ => linked.is_none(),
            };
            let mutual = row.link.is_none_or(|other| self.allocs[other].link == Some(*alloc));
            if !expected || !mutual {
                let text = format!("{} is {:?}, its link does not go with it", row.spec.key, row.phase);
                report.0.push(Finding { object: name(), text });
            }
            if row.is_placeholder() && row.phase != Phase::Ended {
                let [live, swapping] = live.entry(&row.spec.task_group).or_default();
                *live += 1;
                *swapping += u64::from(row.link.is_some());
            }
            let group = app.gang.replaceable.get(&row.spec.task_group);
            let listed = group.is_some_and(|group| group.contains(alloc));
            replaceable += u64::from(listed);
            let free = row.is_placeholder() && row.phase == Phase::Allocated && !row.is_going();
            if listed != (free && !asked.contains(alloc)) {
                let text = format!("{}: released {}, replaceable {listed}", row.spec.key, row.released);
                report.0.push(Finding { object: name(), text });
            }
        }
        let heads = app.groups_by_key.iter().filter(|(key, _)| key.may_replace());
        let heads: BTreeMap<_, _> =
            heads.filter_map(|(key, group)| Some((group.asks.get_min()?.0, key.clone()))).collect();
        let indexed = &app.gang.replacing.0;
        if heads != *indexed {
            let text = format!("groups that may replace are {indexed:?}, should be {heads:?}");
            report.0.push(Finding { object: name(), text });
        }
        let listed: usize = app.gang.replaceable.values().map(std::collections::BTreeSet::len).sum();
        if (parts.real_parts, &parts.originators) != (app.gang.real_parts, &app.gang.originators) {
            let text = format!("{} real parts and {:?} have places", app.gang.real_parts, app.gang.originators);
            report.0.push(Finding { object: name(), text });
        }
        report.count(name, "number of replaceable placeholders", listed as u64, replaceable);
        report.count(name, "number of replacements", u64::from(app.gang.swaps), swaps);
        report.count(name, "number of placeholders awaiting the shim", u64::from(app.gang.awaiting_shim), awaiting);
        report.count(name, "number of asks without charge", u64::from(app.asking), asking);
        for (group, counters) in &app.gang.task_groups {
            let [live, swapping] = live.get(&**group).copied().unwrap_or_default();
            report.count(name, &format!("live placeholders of {group}"), counters.live, live);
            report.count(name, &format!("placeholders of {group} in a swap"), counters.swapping, swapping);
        }
    }

    fn audit_queues(&self, report: &mut Report) {
        let mut pending: BTreeMap<QueueIx, Resource> = BTreeMap::new();
        let mut allocated: BTreeMap<QueueIx, Resource> = BTreeMap::new();
        let mut preempting: BTreeMap<QueueIx, Resource> = BTreeMap::new();
        let mut in_question: BTreeMap<QueueIx, Resource> = BTreeMap::new();
        let mut running: BTreeMap<QueueIx, u64> = BTreeMap::new();
        let mut claimed: BTreeMap<QueueIx, Resource> = BTreeMap::new();
        let mut asked: BTreeMap<QueueIx, Asked> = BTreeMap::new();
        let mut states: BTreeMap<QueueIx, [u32; AppState::ALL.len()]> = BTreeMap::new();
        for app in self.apps.values() {
            states.entry(app.queue).or_default()[app.state as usize] += 1;
        }
        let mut awaited: BTreeMap<QueueIx, Resource> = BTreeMap::new();
        for app in self.gangs.iter().map(|app| &self.apps[*app]) {
            for queue in self.path(app.queue) {
                awaited.entry(queue).or_default().add(&app.gang.kept());
            }
        }
        for app in self.apps.values() {
            let mut marked = Resource::new();
            for alloc in app.allocs.keys().filter(|a| self.allocs[**a].preempted) {
                marked.add(&self.allocs[*alloc].resource);
            }
            for queue in self.path(app.queue) {
                pending.entry(queue).or_default().add(&app.pending);
                in_question.entry(queue).or_default().add(&app.in_question);
                let sum = allocated.entry(queue).or_default();
                sum.add(&app.allocated);
                sum.add(&app.gang.allocated);
                preempting.entry(queue).or_default().add(&marked);
                claimed.entry(queue).or_default().add(&app.claimed);
                let sum = asked.entry(queue).or_default();
                app.asked.iter().for_each(|asked| sum.amount.add(&asked.amount));
                sum.count += app.asked.iter().map(|asked| asked.count).sum::<u64>();
                if app.state == AppState::Running {
                    *running.entry(queue).or_default() += 1;
                }
            }
        }
        for (ix, queue) in self.queues.iter() {
            let name = || format!("queue {}", queue.path);
            report.check(name, "pending", &queue.pending, &pending.remove(&ix).unwrap_or_default());
            let in_question = in_question.remove(&ix).unwrap_or_default();
            report.check(name, "sum of asks without charge", &queue.in_question, &in_question);
            report.check(name, "allocated", &queue.allocated, &allocated.remove(&ix).unwrap_or_default());
            report.check(name, "preempting", &queue.preempting, &preempting.remove(&ix).unwrap_or_default());
            report.check(name, "claimed", &queue.claimed, &claimed.remove(&ix).unwrap_or_default());
            let asked = asked.remove(&ix).unwrap_or_default();
            report.check(name, "charged while the shim is asked", &queue.asked.amount, &asked.amount);
            report.count(name, "number charged while the shim is asked", queue.asked.count, asked.count);
            let real = states.remove(&ix).unwrap_or_default();
            for (state, (kept, real)) in AppState::ALL.into_iter().zip(queue.states.into_iter().zip(real)) {
                report.count(name, &format!("applications in {state}"), kept.into(), real.into());
            }
            report.check(name, "awaited placeholders", &queue.awaited, &awaited.remove(&ix).unwrap_or_default());
            report.count(name, "running applications", queue.running, running.remove(&ix).unwrap_or_default());
            for app in queue.allocating.iter().filter(|app| self.apps[**app].is_free()) {
                let text = format!("row {} is gone, but counts as allocating", app.0);
                report.0.push(Finding { object: name(), text });
            }
            report.count(
                name,
                "parked kinds of applications that are not open and have room",
                self.missed_bars(ix) as u64,
                0,
            );
            for (key, app) in queue.parked.apps() {
                let app_row = &self.apps[app];
                if app_row.is_free()
                    || !app_row.blocked
                    || app_row.parked.is_none()
                    || app_row.order.as_ref() != Some(key)
                {
                    report.0.push(Finding {
                        object: name(),
                        text: format!("row {} is parked, but not as it should be", app.0),
                    });
                }
            }
            for app in queue.allocating.iter().filter(|app| self.counts_only_for_questions(**app)) {
                let asked = self.apps[*app].asked.iter().map(|asked| asked.count).sum::<u64>();
                if asked == 0 {
                    let text = format!("row {} counts as allocating for questions, but there is none", app.0);
                    report.0.push(Finding { object: name(), text });
                }
            }
        }
    }

    /// A claim belongs to a waiting ask with a reservation; victims are running allocations (R4.31).
    fn audit_claims(&self, report: &mut Report) {
        for (alloc, claim) in &self.claims {
            let row = &self.allocs[*alloc];
            let waits = matches!(row.phase, Phase::Pending | Phase::AwaitingShim) && row.reserved.is_some();
            if row.is_free() || !waits || *row.resource != *claim.resource {
                let text = format!("claims {} and is {:?}", claim.resource, row.phase);
                report.0.push(Finding { object: format!("ask {}", row.spec.key), text });
            }
        }
        for (_, row) in self.live().filter(|(_, row)| row.preempted) {
            if row.phase != Phase::Allocated || row.released || row.spec.required_node.is_some() {
                let text = format!("a victim, and {:?}", row.phase);
                report.0.push(Finding { object: format!("allocation {}", row.spec.key), text });
            }
        }
        // One that is being taken apart places nothing any more.
        let placing = self.state != crate::types::ObjectState::Stopped;
        let open = |node: &&crate::node::Node| placing && node.schedulable() && node.reservations.is_empty();
        let listed = self.nodes.values().filter(open).count();
        report.count(|| "partition".into(), "number of open nodes", self.open_nodes.len() as u64, listed as u64);
        for (ix, node) in self.nodes.iter() {
            if node.open != self.open_nodes.contains(&(node.rank, ix)) {
                let text = format!("open is {}, and the list of open nodes says otherwise", node.open);
                report.0.push(Finding { object: format!("node {}", node.id()), text });
            }
        }
    }

    fn audit_users(&self, report: &mut Report) {
        let usage: BTreeMap<AppIx, Resource> = self
            .app_by_id
            .values()
            .map(|ix| {
                let app = &self.apps[*ix];
                // What a removal takes goes as one sum at its end (EVT-050).
                let charged = app.track.filter(|_| app.removing).map(|track| self.ugm.usage(track).clone());
                (*ix, charged.unwrap_or_else(|| app.allocated.plus(&app.gang.allocated)))
            })
            .collect();
        let live = self.app_by_id.values().filter_map(|ix| {
            let app = &self.apps[*ix];
            Some(Live {
                track: app.track?,
                id: &app.id,
                user: &app.user,
                queue: &app.queue_path,
                usage: usage.get(ix)?,
                promised: &app.claimed,
            })
        });
        for text in self.ugm.audit(live) {
            report.0.push(Finding { object: "users".into(), text });
        }
    }
}
