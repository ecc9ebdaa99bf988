//! What holds whatever happens, in simple words: a second opinion on every step of a partition.
//!
//! It knows the partition by what goes in and what comes out, and by its rows of asks and allocations; every sum it makes itself.
//! The sums that the partition keeps are looked at by its own audit, which is one of the rules.

mod charges;
mod placed;
mod rest;
mod users;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use charges::{Charge, charges};

use crate::domain::{
    Partition,
    alloc::Phase,
    command::Command,
    conf::PartitionConf,
    effect::{AppEffect, Callback, Effect, NodeEffect, Released},
    log::{Input, Step},
    types::{AppState, Nanos, Termination},
};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What should hold.
    pub rule: &'static str,
    /// What was found instead.
    pub text: String,
}

/// How long an application stays Completing.
const COMPLETING: Nanos = Nanos::from_secs(30);

/// See the module.
#[derive(Default)]
pub struct Rules {
    shadows: BTreeMap<Arc<str>, Shadow>,
    /// Nodes that operators were told are drained, by internal name: over all sessions.
    told: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// What is known of a partition.
#[derive(Default)]
struct Shadow {
    conf: Option<Arc<PartitionConf>>,
    /// What counts, by order of arrival.
    charges: BTreeMap<u64, Charge>,
    /// Allocations as the shim was told of them, by application and key, with their node.
    told: BTreeMap<(Arc<str>, Arc<str>), Arc<str>>,
    /// Releases that the shim has to confirm.
    open: BTreeMap<(Arc<str>, Arc<str>), Termination>,
    /// Nodes that operators drained, and hosts that they hold back.
    drained: BTreeSet<Arc<str>>,
    told_drained: BTreeSet<Arc<str>>,
    held: BTreeSet<Arc<str>>,
    /// Nodes that are drained by the shim.
    off: BTreeSet<Arc<str>>,
    /// States of applications, and since when.
    states: BTreeMap<Arc<str>, (AppState, Nanos)>,
    /// The same, before the present step.
    before: BTreeMap<Arc<str>, (AppState, Nanos)>,
    /// The shim is asked for predicates.
    asking: bool,
    /// What applications are charged to.
    links: users::Links,
    /// The same look at what waits need not be taken twice.
    looked: Option<(Nanos, u64)>,
    steps: u64,
}

fn put(all: &mut BTreeSet<Arc<str>>, name: &Arc<str>, is: bool) {
    if is {
        all.insert(name.clone());
    } else {
        all.remove(name);
    }
}

struct Report<'a> {
    at: &'a str,
    faults: &'a mut Vec<Fault>,
}

impl Report<'_> {
    fn fault(&mut self, rule: &'static str, text: String) {
        self.faults.push(Fault { rule, text: format!("{}: {text}", self.at) });
    }
}

impl Rules {
    /// A session begins.
    pub fn begin(&mut self) {
        // What operators said holds over sessions: partitions hear of it from their journals.
        self.shadows.clear();
    }

    /// A partition begins.
    pub fn launched(&mut self, internal: &Arc<str>, conf: Arc<PartitionConf>) {
        let told_drained = self.told.get(internal).cloned().unwrap_or_default();
        self.shadows.insert(internal.clone(), Shadow { conf: Some(conf), told_drained, ..Shadow::default() });
    }

    /// Operators were told that these nodes of a partition are drained, and no others.
    pub fn operators(&mut self, internal: &Arc<str>, drained: &BTreeSet<Arc<str>>) {
        self.told.insert(internal.clone(), drained.clone());
        if let Some(shadow) = self.shadows.get_mut(internal) {
            shadow.told_drained.clone_from(drained);
        }
    }

    /// A partition goes on after a restart: what was lost with it is forgotten here too, but not what operators were told.
    pub fn restarted(&mut self, internal: &Arc<str>, partition: &Partition) {
        let shadow = self.shadows.entry(internal.clone()).or_default();
        shadow.conf = Some(partition.conf.clone());
        shadow.charges = charges(partition);
        shadow.told = rows_told(partition);
        let released = partition.allocs.values().filter(|row| row.released || row.preempted);
        let released = released.filter(|row| row.phase == Phase::Allocated);
        shadow.open = released
            .map(|row| ((partition.apps[row.app].id.clone(), row.spec.key.clone()), Termination::Unknown))
            .collect();
        let nodes = partition.nodes.values().filter(|node| !node.rm_schedulable);
        shadow.off = nodes.map(|node| node.spec.id.clone()).collect();
        // With batch it may not know yet what operators said last: they are told so, and it hears of it from its journal.
        let nodes = partition.nodes.values().filter(|node| node.operator_drained);
        shadow.drained = nodes.map(|node| node.spec.id.clone()).collect();
        shadow.held = partition.held_hosts().cloned().collect();
        let apps = partition.app_by_id.values().map(|ix| &partition.apps[*ix]);
        shadow.states = apps
            .map(|app| (app.id.clone(), (app.state, app.state_log.last().map_or(Nanos::ZERO, |(at, _)| *at))))
            .collect();
        (shadow.looked, shadow.links) = (None, users::Links::new());
    }

    /// A partition made a step, with these effects, and is so now.
    pub fn step(
        &mut self,
        internal: &Arc<str>,
        partition: &Partition,
        step: &Step,
        effects: &[Effect],
        faults: &mut Vec<Fault>,
    ) {
        let Some(shadow) = self.shadows.get_mut(internal) else { return };
        let report = &mut Report { at: internal, faults };
        shadow.steps += 1;
        shadow.before.clone_from(&shadow.states);
        let placed = shadow.take_input(&step.input, step.at);
        shadow.take_effects(effects, &placed, report);
        for (app, key) in &placed {
            // Reported by the shim: it is there if it was not refused.
            let row = partition.alloc(app, key).filter(|row| row.phase == Phase::Allocated);
            match row.and_then(|row| row.node) {
                Some(node) => shadow.told.insert((app.clone(), key.clone()), partition.nodes[node].spec.id.clone()),
                None => shadow.told.remove(&(app.clone(), key.clone())),
            };
        }
        let now = charges(partition);
        if let Some(found) = partition.audit().first() {
            report.fault("the books are right", format!("{}: {}", found.object, found.text));
        }
        let there = rows_told(partition);
        if there != shadow.told {
            let text = difference(&shadow.told, &there);
            report.fault("what is there is what the shim was told", text);
            // Once.
            shadow.told = there;
        }
        let decides = matches!(step.input, Input::Schedule { .. } | Input::Apply(Command::Predicate(_)));
        if decides {
            shadow.check_placed(partition, &now, report);
        }
        shadow.check_victims(partition, &now, report);
        shadow.check_users(partition, &now, matches!(step.input, Input::Apply(Command::Configure(_))), report);
        shadow.charges = now;
        if matches!(step.input, Input::Apply(Command::Tick)) {
            shadow.check_deadlines(partition, step.at, report);
        }
    }

    /// A partition has nothing to decide: nothing that waits could be placed.
    pub fn rested(&mut self, internal: &Arc<str>, partition: &Partition, now: Nanos, faults: &mut Vec<Fault>) {
        let Some(shadow) = self.shadows.get_mut(internal) else { return };
        let look = Some((now, shadow.steps));
        if shadow.looked != look {
            shadow.looked = look;
            shadow.check_rest(partition, now, false, &mut Report { at: internal, faults });
        }
    }

    /// The same, when all has had time to come to rest.
    pub fn settled(&self, internal: &Arc<str>, partition: &Partition, now: Nanos, faults: &mut Vec<Fault>) {
        if let Some(shadow) = self.shadows.get(internal) {
            shadow.check_rest(partition, now, true, &mut Report { at: internal, faults });
        }
    }
}

/// What the shim should know of.
fn rows_told(partition: &Partition) -> BTreeMap<(Arc<str>, Arc<str>), Arc<str>> {
    let mut told = BTreeMap::new();
    for app in partition.app_by_id.values().map(|ix| &partition.apps[*ix]) {
        for row in app.by_seq.values().map(|ix| &partition.allocs[*ix]) {
            if let (Phase::Allocated, Some(node)) = (row.phase, row.node) {
                told.insert((app.id.clone(), row.spec.key.clone()), partition.nodes[node].spec.id.clone());
            }
        }
    }
    told
}

fn difference(
    told: &BTreeMap<(Arc<str>, Arc<str>), Arc<str>>,
    there: &BTreeMap<(Arc<str>, Arc<str>), Arc<str>>,
) -> String {
    let only = |one: &BTreeMap<(Arc<str>, Arc<str>), Arc<str>>, other: &BTreeMap<(Arc<str>, Arc<str>), Arc<str>>| {
        let only = one.iter().filter(|(key, node)| other.get(*key) != Some(node));
        only.map(|((app, key), node)| format!("{key} of {app} on {node}")).collect::<Vec<_>>().join(", ")
    };
    format!("told only: [{}], there only: [{}]", only(told, there), only(there, told))
}

impl Shadow {
    /// Takes note of what goes in; gives what the shim says is placed.
    fn take_input(&mut self, input: &Input, at: Nanos) -> Vec<(Arc<str>, Arc<str>)> {
        let mut placed = Vec::new();
        let Input::Apply(command) = input else { return placed };
        match command {
            Command::Allocations { allocations, releases } => {
                let there = allocations.iter().filter(|item| item.node.is_some() && item.spec.foreign.is_none());
                placed.extend(there.map(|item| (item.app.clone(), item.spec.key.clone())));
                for release in releases {
                    let whole = release.key.is_empty() && self.told.keys().any(|(app, _)| *app == release.app);
                    if let Some((AppState::Completing, since)) = self.states.get_mut(&release.app).filter(|_| whole) {
                        // R4.23a: its time begins when the last of it goes.
                        *since = at;
                    }
                    let goes = |app: &Arc<str>, key: &Arc<str>| {
                        *app == release.app && (release.key.is_empty() || *key == release.key)
                    };
                    self.told.retain(|(app, key), _| !goes(app, key));
                    self.open.retain(|(app, key), _| !goes(app, key));
                }
            }
            Command::Applications { remove, .. } => {
                self.told.retain(|(app, _), _| !remove.contains(app));
                self.open.retain(|(app, _), _| !remove.contains(app));
            }
            Command::Configure(conf) => self.conf = Some(conf.clone()),
            Command::OperatorDrain { nodes, drained } => {
                nodes.iter().for_each(|node| put(&mut self.drained, node, *drained));
            }
            Command::HoldHosts { hosts, held } => hosts.iter().for_each(|host| put(&mut self.held, host, *held)),
            Command::AskPredicates(on) => self.asking = *on,
            _ => {}
        }
        placed
    }

    fn take_effects(&mut self, effects: &[Effect], placed: &[(Arc<str>, Arc<str>)], report: &mut Report) {
        // Of one step, the callbacks say what became of what was told, wherever they stand.
        let mut gone = Vec::new();
        for effect in effects {
            match effect {
                Effect::Callback(Callback::New(new)) => {
                    let id = (new.app.clone(), new.spec.key.clone());
                    let before = self.told.insert(id.clone(), new.node.clone());
                    if before.is_some() && !placed.contains(&id) {
                        report.fault("an allocation is told once", format!("{} of {} was told before", id.1, id.0));
                    }
                }
                Effect::Callback(Callback::Released(released)) => self.released(released, report),
                Effect::Callback(Callback::UpdatedApplication { app, state, at, .. }) => {
                    self.states.insert(app.clone(), (*state, *at));
                }
                Effect::Node(NodeEffect::Registered { node, host, schedulable, .. }) => {
                    // What operators said of a host holds for nodes that come after it.
                    if self.held.contains(host) {
                        self.drained.insert(node.clone());
                    }
                    put(&mut self.off, node, !*schedulable);
                }
                Effect::Node(NodeEffect::Renamed { node, host }) if self.held.contains(host) => {
                    self.drained.insert(node.clone());
                }
                Effect::Node(NodeEffect::Schedulable { node, schedulable }) => put(&mut self.off, node, !*schedulable),
                Effect::App(AppEffect::Confirmed { app, key, .. }) => {
                    self.open.remove(&(app.clone(), key.clone()));
                }
                Effect::App(AppEffect::Removed { app }) => {
                    self.states.remove(app);
                    self.open.retain(|(of, _), _| of != app);
                    gone.push(app);
                }
                _ => {}
            }
        }
        for app in gone {
            let left: Vec<_> = self.told.keys().filter(|(of, _)| of == app).cloned().collect();
            if let Some((_, key)) = left.first() {
                report.fault("what goes is told", format!("{app} is gone, and {key} of it was not released"));
            }
            left.iter().for_each(|id| _ = self.told.remove(id));
        }
    }

    fn released(&mut self, released: &Released, report: &mut Report) {
        let id = (released.app.clone(), released.key.clone());
        if !released.confirm {
            self.told.remove(&id);
            self.open.remove(&id);
            return;
        }
        if !self.told.contains_key(&id) {
            let text = format!(
                "{} of {} is told to go ({:?}), and the shim was never told of it",
                id.1, id.0, released.termination
            );
            report.fault("only what is there is told to go", text);
        }
        if let Some(before) = self.open.insert(id.clone(), released.termination) {
            let text =
                format!("{} of {} is told to go by {:?}, and was by {before:?}", id.1, id.0, released.termination);
            report.fault("nothing is told to go twice", text);
        }
    }

    /// What was due has happened, where no more of it is to come.
    fn check_deadlines(&self, partition: &Partition, now: Nanos, report: &mut Report) {
        if partition.is_due(now) {
            return;
        }
        if let Some(next) = partition.next_deadline().filter(|next| *next <= now) {
            report.fault("deadlines are met", format!("one of {} is left at {}", next.0, now.0));
        }
        for (app, (state, since)) in &self.states {
            // What still waits for a confirmation holds it up.
            let holds = || self.charges.values().any(|charge| charge.app == *app);
            if *state == AppState::Completing
                && now.minus(*since) > COMPLETING
                && partition.app_by_id.contains_key(app)
                && !holds()
            {
                let text = format!("{app} is Completing for {} s", now.minus(*since).as_secs());
                report.fault("deadlines are met", text);
            }
        }
    }
}
