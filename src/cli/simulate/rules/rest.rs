//! No ask is forgotten: where a partition says that nothing more can be placed, nothing can.

use super::{
    Report, Shadow,
    charges::{ancestors, charges, is_below, sum},
    placed::{limit_of, over, queue_conf},
};
use crate::domain::{
    Partition,
    alloc::{Alloc, Phase},
    app::App,
    command::Command,
    conf::PartitionConf,
    types::{AppState, Nanos},
};

/// Decisions of a second look.
const LOOK: usize = 64;

impl Shadow {
    /// `settled`: all has had time to come to rest, and the shim has refused nothing for longer than a refusal counts.
    pub fn check_rest(&self, partition: &Partition, now: Nanos, settled: bool, report: &mut Report) {
        // What the shim refused is asked about again in its time. What is due now has not come yet, where something else of this
        // moment came before: it is looked at again then.
        let asks = self.asking && (!settled || partition.open_questions().next().is_some());
        if asks || partition.next_deadline().is_some_and(|due| due <= now) {
            return;
        }
        let Some(conf) = &self.conf else { return };
        for app in partition.app_by_id.values().map(|ix| &partition.apps[*ix]) {
            for row in app.by_seq.values().map(|ix| &partition.allocs[*ix]).filter(|row| row.phase == Phase::Pending) {
                if let Some(node) = self.node_for(partition, app, row, now) {
                    let text = format!("{} of {} waits, and would fit on {node}", row.spec.key, app.id);
                    return report.fault("no ask is forgotten", text);
                }
                if let Some(placeholder) = place_of(partition, app, row) {
                    let text = format!(
                        "{} of {} waits, and would fit in the place of {}",
                        row.spec.key, app.id, placeholder.spec.key
                    );
                    return report.fault("no ask is forgotten", text);
                }
            }
        }
        // What is promised to asks that have preempted is theirs while their victims go, also where a limit holds them meanwhile.
        if !partition.queues[partition.root].claimed().is_zero() {
            return;
        }
        // Whoever looks at everything anew finds nothing either.
        let (mut again, effects) = (partition.clone(), &mut Vec::new());
        // Who may not preempt again before some seconds have passed does not by a new configuration, either: what that frees
        // would be room that there is not yet.
        let conf = PartitionConf { preemption: false, ..(**conf).clone() };
        again.apply(Command::Configure(conf.into()), now, effects);
        again.schedule_at_once(LOOK, now, effects);
        let before = charges(partition);
        // A new configuration ends a back-off, which is none of an ask that is forgotten.
        let backs_off = |app: &std::sync::Arc<str>| {
            let app = partition.app_by_id.get(app).map(|ix| &partition.apps[*ix]);
            app.is_some_and(|app| app.backoff_until.is_some_and(|until| until > now))
        };
        // Nor is one behind a reservation whose ask a limit holds meanwhile: it ends when it is reviewed, or with a new configuration
        // (R5.38).
        let is_kept = |node: &Option<std::sync::Arc<str>>| {
            let node = node.as_ref().and_then(|node| partition.node_by_id.get(node));
            node.is_some_and(|node| !partition.nodes[*node].reservations.is_empty())
        };
        let placed = charges(&again)
            .into_iter()
            .filter(|(seq, charge)| !before.contains_key(seq) && !backs_off(&charge.app) && !is_kept(&charge.node));
        if let Some((_, charge)) = placed.into_iter().next() {
            let text =
                format!("{} of {} waits, and is placed on {:?} at a second look", charge.key, charge.app, charge.node);
            report.fault("no ask is forgotten", text);
        }
    }

    /// A node on which an ordinary ask could be placed, by the simplest of reasons.
    fn node_for(&self, partition: &Partition, app: &App, row: &Alloc, now: Nanos) -> Option<std::sync::Arc<str>> {
        let conf = self.conf.as_ref()?;
        let ordinary = app.state == AppState::Running
            && app.gang.placeholder_ask.is_none()
            && app.gang.task_groups.is_empty()
            && app.backoff_until.is_none_or(|until| until <= now)
            && row.spec.required_node.is_none()
            && row.paused_until().is_none()
            && row.reserved.is_none();
        if !ordinary || partition.state != crate::domain::types::ObjectState::Active {
            return None;
        }
        for path in ancestors(&app.queue_path) {
            let live = partition.queue_by_path.get(path).map(|ix| &partition.queues[*ix])?;
            // What is promised to others is theirs, and gangs that have begun come first.
            if !live.claimed().is_zero() || !live.awaited.is_zero() {
                return None;
            }
            let queue = queue_conf(conf, path)?;
            if queue.limits.iter().any(|limit| !limit.groups.is_empty()) {
                return None;
            }
            let below = || self.charges.values().filter(|other| is_below(&other.queue, path));
            let with = |mut used: std::collections::BTreeMap<_, i128>| {
                row.resource.iter().for_each(|(kind, amount)| *used.entry(kind.clone()).or_default() += amount);
                used
            };
            if let Some(max) = queue.max.as_ref().filter(|_| path != "root")
                && over(&with(sum(below())), max, &row.resource).is_some()
            {
                return None;
            }
            if let Some(most) = limit_of(queue, &app.user).and_then(|limit| limit.max_resources.as_ref())
                && over(&with(sum(below().filter(|other| other.user == app.user))), most, &row.resource).is_some()
            {
                return None;
            }
        }
        let total = |kind: &_| -> i128 { partition.nodes.values().map(|node| node.capacity.amount(kind)).sum() };
        let all = sum(self.charges.values());
        if row
            .resource
            .iter()
            .any(|(kind, amount)| amount > 0 && all.get(kind).copied().unwrap_or_default() + amount > total(kind))
        {
            return None;
        }
        let fits = partition.nodes.values().find(|node| {
            if !node.reservations.is_empty() || !node.rm_schedulable || node.operator_drained {
                return false;
            }
            let mut used = sum(self.charges.values().filter(|other| other.node.as_ref() == Some(&node.spec.id)));
            for foreign in node.foreign.values() {
                foreign.resource.iter().for_each(|(kind, amount)| *used.entry(kind.clone()).or_default() += amount);
            }
            let swaps = partition.allocs.values().any(|row| row.phase == Phase::Replacing);
            !swaps
                && row.resource.iter().all(|(kind, amount)| {
                    amount <= 0 || used.get(kind).copied().unwrap_or_default() + amount <= node.capacity.amount(kind)
                })
        });
        fits.map(|node| node.spec.id.clone())
    }
}

/// A placeholder whose place a real ask could take (R6.6 to R6.9).
fn place_of<'a>(partition: &'a Partition, app: &App, real: &Alloc) -> Option<&'a Alloc> {
    let rows = || app.by_seq.values().map(|ix| &partition.allocs[*ix]).filter(|row| row.is_placeholder());
    let takes = matches!(app.state, AppState::Running | AppState::Completing);
    if real.is_placeholder() || !takes || real.paused_until().is_some() {
        return None;
    }
    let fits = |row: &&Alloc| {
        let node = row.node.map(|node| &partition.nodes[node].spec.id);
        row.phase == Phase::Allocated
            && !(row.released || row.preempted || row.link.is_some())
            && row.spec.task_group == real.spec.task_group
            && real.spec.required_node.as_ref().is_none_or(|required| node == Some(required))
    };
    // One that is too large for a placeholder has it go instead.
    rows().find(fits)
}
