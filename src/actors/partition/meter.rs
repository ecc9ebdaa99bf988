//! Counters that a partition feeds from its effects: one pass, counted per batch, told to the metrics once per batch.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::{
    domain::{
        Partition,
        alloc::Phase,
        effect::{AppEffect, Callback, Effect, NodeEffect, QueueEffect},
        event::{Change, Detail, EventKind},
        types::AppState,
        words::either,
    },
    metrics::{AppEnd, Containers, Metrics, Submissions, Timed},
    trace::Exemplar,
};

/// See the module.
pub(super) struct Meter {
    metrics: Option<Arc<Metrics>>,
    /// Queue of every live application, also while its last effects are looked at.
    queues: FxHashMap<Arc<str>, Arc<str>>,
    /// Bad allocation updates that were told.
    errors: u64,
    /// Rejected asks that the log is to name.
    mistakes: Mistakes,
    batch: Batch,
    /// Time spent on the present cycle.
    cycle: Duration,
    /// The partition ends: its nodes go without being decommissioned.
    ending: bool,
    /// Its queues, which are shown as long as they are there.
    shown: BTreeSet<Arc<str>>,
}

#[derive(Default)]
struct Batch {
    allocated: u64,
    released: u64,
    rejected: u64,
    new: u64,
    accepted: u64,
    refused: u64,
    decommissioned: u64,
    /// Queues that came, and queues that went.
    queues: [Vec<Arc<str>>; 2],
    /// Allocated and released by queue.
    by_queue: FxHashMap<Arc<str>, [u64; 2]>,
    ended: Vec<(Arc<str>, AppEnd)>,
}

/// Rejected asks and allocations: the log names some of them, at most once a second.
#[derive(Default)]
struct Mistakes {
    named: Vec<String>,
    count: u64,
    told: Option<Instant>,
}

impl Mistakes {
    /// How many of them the log names.
    const NAMED: usize = 10;
    const INTERVAL: Duration = Duration::from_secs(1);

    fn note(&mut self, app: &str, key: &str, reason: &str) {
        self.count += 1;
        if self.named.len() < Self::NAMED {
            self.named.push(format!("{app}/{key}: {reason}"));
        }
    }

    fn log(&mut self, partition: &Partition) {
        let now = Instant::now();
        if self.count == 0 || self.told.is_some_and(|told| now.duration_since(told) < Self::INTERVAL) {
            return;
        }
        let Mistakes { named, count, .. } =
            std::mem::replace(self, Mistakes { told: Some(now), ..Mistakes::default() });
        let more = count.saturating_sub(named.len() as u64);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        tracing::warn!(
            code = "items-rejected",
            partition = %partition.internal,
            "{count} {} rejected: {}{more}",
            either(&count, "ask or allocation was", "asks or allocations were"),
            named.join("; ")
        );
    }
}

impl Meter {
    pub(super) fn new(metrics: Option<Arc<Metrics>>) -> Meter {
        Meter {
            metrics,
            queues: FxHashMap::default(),
            errors: 0,
            mistakes: Mistakes::default(),
            batch: Batch::default(),
            cycle: Duration::ZERO,
            ending: false,
            shown: BTreeSet::new(),
        }
    }

    /// Goes on with a partition that was there before this process: what it counts begins anew, with the allocations that it has,
    /// as in a session that brings them back. Their ends will be counted.
    pub(super) fn restore(&mut self, partition: &Partition) {
        self.errors = partition.bad_updates;
        let apps = partition.app_by_id.iter().map(|(id, app)| (id.clone(), partition.apps[*app].queue_path.clone()));
        self.queues.extend(apps);
        let Some(metrics) = &self.metrics else { return };
        for queue in partition.queue_by_path.keys() {
            metrics.queue_added(queue);
            self.shown.insert(queue.clone());
        }
        for app in partition.app_by_id.values().map(|app| &partition.apps[*app]) {
            let told = app.allocs.keys().filter(|alloc| partition.allocs[**alloc].phase == Phase::Allocated).count();
            if told > 0 {
                metrics.containers(Containers::Allocated, told as u64);
                metrics.queue_containers(&app.queue_path, Containers::Allocated, told as u64);
            }
        }
    }

    /// Counts an effect. `partition` is as all effects of the batch have left it.
    pub(super) fn note(&mut self, effect: &Effect, partition: &Partition) {
        if self.metrics.is_none() {
            if let Effect::Callback(Callback::RejectedAllocation { key, app, reason }) = effect {
                self.mistakes.note(app, key, reason);
            }
            return;
        }
        let batch = &mut self.batch;
        match effect {
            Effect::Callback(Callback::New(new)) => {
                batch.allocated += 1;
                batch.of_queue(self.queues.get(&new.app), 0);
            }
            Effect::Callback(Callback::RejectedAllocation { key, app, reason }) => {
                batch.rejected += 1;
                self.mistakes.note(app, key, reason);
            }
            Effect::Callback(Callback::RejectedApplication { app, .. }) => {
                batch.refused += 1;
                // What was refused before a queue was found belongs to none.
                let path = partition.rejected.get(app).map(|row| &row.queue_path);
                let path = path.filter(|path| partition.queue_by_path.contains_key(&***path));
                batch.ended.push((path.cloned().unwrap_or_default(), AppEnd::Rejected));
            }
            Effect::Callback(Callback::UpdatedApplication { app, state, .. }) => {
                let how = match state {
                    AppState::Accepted => {
                        batch.accepted += 1;
                        return;
                    }
                    // With its session or its partition an application goes as it does when it is removed: that is no end of its own.
                    _ if self.ending => return,
                    AppState::Completed => AppEnd::Completed,
                    AppState::Failed => AppEnd::Failed,
                    _ => return,
                };
                batch.ended.push((self.queues.get(app).cloned().unwrap_or_default(), how));
            }
            // The end of an allocation is final when it leaves its application.
            Effect::Event(event)
                if event.kind == EventKind::App && event.change == Change::Remove && ends_allocation(event.detail) =>
            {
                batch.released += 1;
                batch.of_queue(self.queues.get(&event.object), 1);
            }
            Effect::Queue(QueueEffect::Admitted { queue, app }) => {
                batch.new += 1;
                self.queues.insert(app.clone(), queue.clone());
            }
            Effect::Queue(QueueEffect::Added { queue }) => batch.queues[0].push(queue.clone()),
            Effect::Queue(QueueEffect::Removed { queue }) => batch.queues[1].push(queue.clone()),
            Effect::App(AppEffect::Removed { app }) => {
                self.queues.remove(app);
            }
            Effect::Node(NodeEffect::Removed { .. }) if !self.ending => batch.decommissioned += 1,
            _ => {}
        }
    }

    /// Tells the metrics what was counted.
    pub(super) fn flush(&mut self, partition: &Partition) {
        self.mistakes.log(partition);
        let Some(metrics) = &self.metrics else { return };
        let Batch { allocated, released, rejected, new, accepted, refused, decommissioned, queues, by_queue, ended } =
            std::mem::take(&mut self.batch);
        let [came, went] = queues;
        for queue in came {
            metrics.queue_added(&queue);
            self.shown.insert(queue);
        }
        let errors = partition.bad_updates - std::mem::replace(&mut self.errors, partition.bad_updates);
        for (what, count) in [
            (Containers::Allocated, allocated),
            (Containers::Released, released),
            (Containers::Rejected, rejected),
            (Containers::Error, errors),
        ] {
            if count > 0 {
                metrics.containers(what, count);
            }
        }
        for (what, count) in
            [(Submissions::New, new), (Submissions::Accepted, accepted), (Submissions::Rejected, refused)]
        {
            if count > 0 {
                metrics.submissions(what, count);
            }
        }
        for (queue, counts) in by_queue {
            for (what, count) in [Containers::Allocated, Containers::Released].into_iter().zip(counts) {
                if count > 0 {
                    metrics.queue_containers(&queue, what, count);
                }
            }
        }
        for (queue, how) in ended {
            metrics.application_ended(&queue, how);
        }
        for _ in 0..decommissioned {
            metrics.node_decommissioned();
        }
        // After everything that was counted for them.
        for queue in went {
            metrics.queue_removed(&queue);
            self.shown.remove(&queue);
        }
    }

    /// A slice took so long; `more`: the cycle over all that waits goes on.
    pub(super) fn slice(&mut self, time: Duration, more: bool, of: Option<Exemplar>) {
        let Some(metrics) = &self.metrics else { return };
        metrics.took(Timed::Pass, time);
        if let Some(of) = of {
            metrics.traced(time, of);
        }
        self.cycle += time;
        if !more {
            metrics.took(Timed::Cycle, std::mem::take(&mut self.cycle));
        }
    }

    /// What comes now is the teardown.
    pub(super) fn ends(&mut self) {
        self.ending = true;
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        for queue in &self.shown {
            self.metrics.iter().for_each(|metrics| metrics.queue_removed(queue));
        }
    }
}

impl Batch {
    fn of_queue(&mut self, queue: Option<&Arc<str>>, which: usize) {
        if let Some(queue) = queue {
            self.by_queue.entry(queue.clone()).or_default()[which] += 1;
        }
    }
}

const fn ends_allocation(detail: Detail) -> bool {
    matches!(
        detail,
        Detail::AllocCancel
            | Detail::AllocPreempt
            | Detail::AllocTimeout
            | Detail::AllocReplaced
            | Detail::AllocNodeRemoved
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config,
        domain::{
            alloc::AskSpec,
            command::{AddApplication, AllocationItem, Command, NodeAction, NodeItem, ReleaseItem},
            resources::Resource,
            types::{Nanos, ObjectState, Termination},
        },
        metrics::Gauges,
    };

    const CONFIG: &str = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]";

    struct Rig {
        partition: Partition,
        meter: Meter,
        metrics: Arc<Metrics>,
        now: Nanos,
    }

    impl Rig {
        fn new() -> Rig {
            let conf = config::load(CONFIG).unwrap().partitions[0].clone();
            let metrics = Arc::new(Metrics::new().unwrap());
            let (meter, now) = (Meter::new(Some(metrics.clone())), Nanos::from_secs(1000));
            let partition = Partition::new("rm".into(), "[rm]default".into(), conf, now, &mut Vec::new());
            Rig { partition, meter, metrics, now }
        }

        fn apply(&mut self, command: Command) {
            let mut effects = Vec::new();
            self.partition.apply(command, self.now, &mut effects);
            while self.partition.schedule_at_once(64, self.now, &mut effects) > 0 {}
            if self.partition.state == ObjectState::Stopped {
                while self.partition.dismantle(64, self.now, &mut effects) {}
            }
            for effect in &effects {
                self.meter.note(effect, &self.partition);
            }
            self.meter.flush(&self.partition);
        }

        fn app(&mut self, id: &str, queue: &str) {
            let user = AddApplication { user: "u".into(), groups: Some([].into()), ..AddApplication::default() };
            let new = vec![AddApplication { id: id.into(), queue: queue.into(), ..user }];
            self.apply(Command::Applications { new, remove: Vec::new() });
        }

        fn node(&mut self, action: NodeAction) {
            let capacity = Some(Resource::of(&[("memory", 100)]));
            let item = NodeItem { id: "n1".into(), action, capacity, attributes: Default::default() };
            self.apply(Command::Nodes(vec![item]));
        }

        fn ask(&mut self, app: &str, key: &str, memory: i64) {
            let resource = Arc::new(Resource::of(&[("memory", memory)]));
            let spec = Arc::new(AskSpec { key: key.into(), resource, ..AskSpec::default() });
            let item = AllocationItem { app: app.into(), node: None, spec };
            self.apply(Command::Allocations { allocations: vec![item], releases: Vec::new() });
        }

        fn release(&mut self, key: &str, termination: Termination) {
            let item = ReleaseItem { app: "app".into(), key: key.into(), termination };
            self.apply(Command::Allocations { allocations: Vec::new(), releases: vec![item] });
        }

        /// Lines of the exposition with this in them, without the common prefix.
        fn lines(&self, with: &str) -> Vec<String> {
            let gauges = Gauges {
                queues: ["root", "root.a"]
                    .map(|path| crate::metrics::QueueGauges { path: path.to_owned(), ..Default::default() })
                    .into(),
                ..Gauges::default()
            };
            let text = String::from_utf8(self.metrics.text(&gauges).unwrap()).unwrap();
            let lines = text.lines().filter(|line| line.contains(with) && !line.starts_with('#'));
            lines.map(|line| line.strip_prefix("yunikorn_").unwrap_or(line).to_owned()).collect()
        }
    }

    // REST 7.1, 7.2, quirk H
    #[test]
    fn containers_and_applications_are_counted_once() {
        let mut rig = Rig::new();
        rig.node(NodeAction::Create);
        rig.app("app", "root.a");
        rig.app("lost", "root.nowhere");
        rig.app("app", "root.a");
        for key in ["k1", "k2", "k3"] {
            rig.ask("app", key, 10);
        }
        rig.ask("nobody", "k4", 10);
        rig.ask("app", "k5", 0);
        rig.release("k1", Termination::StoppedByRm);
        rig.release("k1", Termination::StoppedByRm);
        assert_eq!(
            rig.lines("container_allocation_attempt_total"),
            ["allocated\"} 3", "error\"} 2", "rejected\"} 2", "released\"} 1"]
                .map(|end| format!("scheduler_container_allocation_attempt_total{{state=\"{end}"))
        );
        assert_eq!(
            rig.lines("root_a_queue_container"),
            ["root_a_queue_container{state=\"allocated\"} 3", "root_a_queue_container{state=\"released\"} 1"]
        );
        assert_eq!(
            rig.lines("application_submission_total"),
            ["accepted\"} 1", "new\"} 1", "rejected\"} 2"]
                .map(|end| format!("scheduler_application_submission_total{{result=\"{end}"))
        );
        // The node goes with what is on it, then the application completes.
        rig.node(NodeAction::Decommission);
        assert!(rig.lines("state=\"released\"").iter().all(|line| line.ends_with(" 3")));
        rig.now = rig.now.plus(Nanos::from_secs(60));
        rig.apply(Command::Tick);
        assert!(rig.meter.queues.is_empty());
        assert_eq!(
            rig.lines("queue_app_total"),
            [
                "queue_app_total{queue=\"\",state=\"rejected\"} 1",
                "queue_app_total{queue=\"root.a\",state=\"completed\"} 1",
                "queue_app_total{queue=\"root.a\",state=\"rejected\"} 1",
            ]
        );
        assert_eq!(rig.lines("state=\"decommissioned\""), ["scheduler_node{state=\"decommissioned\"} 1"]);
    }

    // REST 7.1, 7.2, 5.12
    #[test]
    fn what_goes_on_after_a_restart_counts_as_allocated_so_that_no_more_is_released_than_was() {
        let mut rig = Rig::new();
        rig.node(NodeAction::Create);
        rig.app("app", "root.a");
        for key in ["k1", "k2", "k3"] {
            rig.ask("app", key, 10);
        }
        rig.release("k1", Termination::StoppedByRm);
        // One more waits.
        rig.ask("app", "k4", 90);
        rig.metrics = Arc::new(Metrics::new().unwrap());
        rig.meter = Meter::new(Some(rig.metrics.clone()));
        rig.meter.restore(&rig.partition);
        let counted = |rig: &Rig| {
            let all = [rig.lines("attempt_total{state=\"allocated"), rig.lines("attempt_total{state=\"released")];
            (all.concat().join(" "), rig.lines("root_a_queue_container").join(" "))
        };
        let all = |state: &str, count: u32| {
            format!("scheduler_container_allocation_attempt_total{{state=\"{state}\"}} {count}")
        };
        let of_queue = |state: &str, count: u32| format!("root_a_queue_container{{state=\"{state}\"}} {count}");
        assert_eq!(counted(&rig), (all("allocated", 2), of_queue("allocated", 2)));
        rig.node(NodeAction::Decommission);
        let both = |of: &dyn Fn(&str, u32) -> String| format!("{} {}", of("allocated", 2), of("released", 2));
        assert_eq!(counted(&rig), (both(&all), both(&of_queue)));
    }

    #[test]
    fn a_teardown_decommissions_nothing_and_ends_no_application() {
        let mut rig = Rig::new();
        rig.node(NodeAction::Create);
        rig.app("app", "root.a");
        rig.ask("app", "k1", 10);
        rig.meter.ends();
        rig.apply(Command::Stop);
        assert!(rig.lines("scheduler_application_total").iter().all(|line| line.ends_with(" 0")));
        assert_eq!(rig.lines("queue_app_total"), [""; 0]);
        assert_eq!(rig.lines("state=\"decommissioned\""), ["scheduler_node{state=\"decommissioned\"} 0"]);
    }

    #[test]
    fn a_cycle_is_made_of_slices() {
        let mut rig = Rig::new();
        rig.meter.slice(Duration::from_secs(1), true, None);
        rig.meter.slice(Duration::from_secs(2), false, None);
        assert_eq!(
            rig.lines("scheduling_latency_milliseconds_count"),
            ["scheduler_scheduling_latency_milliseconds_count 2"]
        );
        assert_eq!(rig.lines("scheduling_cycle_milliseconds_sum"), ["scheduler_scheduling_cycle_milliseconds_sum 3"]);
    }
}
