//! Gauges, computed from what there is at a scrape.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::PoisonError,
};

use prometheus::{Gauge, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, Result};

use super::{AppEnd, EventGauges, ExtensionGauges, Metrics, added, clean, container_metric};

/// Labels of the buckets of node usage, from empty to full.
const USAGE_RANGES: [&str; 10] = [
    "[0,10%]",
    "(10%,20%]",
    "(20%,30%]",
    "(30%,40%]",
    "(40%,50%]",
    "(50%,60%]",
    "(60%,70%]",
    "(70%,80%]",
    "(80%,90%]",
    "(90%,100%]",
];

/// What the gauges show, over all partitions.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// Registered nodes, draining ones included.
    pub nodes: i64,
    /// Nodes that take nothing new.
    pub draining_nodes: i64,
    /// Live applications by state in lowercase.
    pub applications: BTreeMap<&'static str, i64>,
    /// All queues; where two partitions have the same path, one entry each.
    pub queues: Vec<QueueGauges>,
    /// How often sessions of resource managers have entered each state, by its name in lowercase.
    pub sessions: Vec<(&'static str, u64)>,
    /// Releases that shims have not confirmed, by type as on the wire.
    pub unconfirmed: BTreeMap<&'static str, i64>,
    /// Age of the oldest of them in seconds.
    pub oldest_unconfirmed: f64,
    /// Number of them that have waited longer than the resource manager should take.
    pub overdue: i64,
    /// The event system.
    pub events: Option<EventGauges>,
    /// Callboard's own gauges.
    pub extensions: Option<ExtensionGauges>,
    /// Nodes per bucket of `USAGE_RANGES`, by resource type.
    pub node_usage: BTreeMap<String, [i64; 10]>,
}

/// A queue of a [`Gauges`].
#[derive(Clone, Debug, Default)]
pub struct QueueGauges {
    /// Full path of the queue.
    pub path: String,
    /// Live applications of this leaf by state in lowercase.
    pub applications: BTreeMap<&'static str, i64>,
    /// Amounts by state (`guaranteed`, `max`, `allocated`, `pending`, `preempting`) and resource type.
    pub resources: BTreeMap<&'static str, Vec<(Cow<'static, str>, i64)>>,
    /// Running applications at most; 0: any number.
    pub max_running: u64,
}

/// See `Metrics::seen`.
#[derive(Default)]
pub(super) struct Seen {
    /// Which queue of this path it was.
    which: Option<u64>,
    applications: BTreeSet<&'static str>,
    resources: BTreeSet<(&'static str, Cow<'static, str>)>,
}

/// Types of releases that shims have to confirm (R4.29).
const UNCONFIRMED: [&str; 3] = ["PLACEHOLDER_REPLACED", "PREEMPTED_BY_SCHEDULER", "TIMEOUT"];

/// States of applications that the gauge over all queues shows while they last.
const SHOWN: [&str; 4] = ["running", "resuming", "failing", "completing"];

impl Metrics {
    /// Registers them.
    pub(super) fn register(&self, shown: &Gauges, registry: &Registry) -> Result<()> {
        let vec =
            |name: &str, help: &str, labels: &[&str]| added(registry, IntGaugeVec::new(Opts::new(name, help), labels)?);
        let nodes = vec(
            "yunikorn_scheduler_node",
            "Nodes by `state`: `active` (draining ones too), `draining`, and since the start `failed` and `decommissioned`.",
            &["state"],
        )?;
        nodes.with_label_values(&["active"]).set(shown.nodes);
        nodes.with_label_values(&["draining"]).set(shown.draining_nodes);
        nodes.with_label_values(&["failed"]).set(self.nodes_failed.get() as i64);
        nodes.with_label_values(&["decommissioned"]).set(self.nodes_decommissioned.get() as i64);
        for (kind, buckets) in &shown.node_usage {
            let name = format!("yunikorn_scheduler_{}_node_usage_total", clean(kind));
            // Two types may clean to one name; the first is shown.
            let Ok(usage) = vec(&name, "Nodes by how much of this resource is allocated.", &["range"]) else {
                continue;
            };
            for (range, nodes) in USAGE_RANGES.into_iter().zip(buckets) {
                usage.with_label_values(&[range]).set(*nodes);
            }
        }
        if !shown.sessions.is_empty() {
            let sessions = added(
                registry,
                IntCounterVec::new(
                    Opts::new("callboard_rm_state_total", "How often resource managers have entered each `state`."),
                    &["state"],
                )?,
            )?;
            for (state, count) in &shown.sessions {
                sessions.with_label_values(&[*state]).inc_by(*count);
            }
        }
        let unconfirmed = vec(
            "callboard_unconfirmed_releases",
            "Releases that the scheduler began and shims have not confirmed, by `type`.",
            &["type"],
        )?;
        for kind in UNCONFIRMED {
            unconfirmed.with_label_values(&[kind]).set(shown.unconfirmed.get(kind).copied().unwrap_or(0));
        }
        added(
            registry,
            Gauge::new(
                "callboard_unconfirmed_release_oldest_seconds",
                "How long the oldest of the unconfirmed releases has waited; 0 where there is none.",
            )?,
        )?
        .set(shown.oldest_unconfirmed);
        added(
            registry,
            IntGauge::new(
                "callboard_unconfirmed_releases_overdue",
                "Releases that have not been confirmed within rm.unconfirmedWarning.",
            )?,
        )?
        .set(shown.overdue);
        if let Some(events) = &shown.events {
            events.register(registry)?;
        }
        if let Some(extensions) = &shown.extensions {
            extensions.register(registry)?;
        }
        let ended = self.ended();
        let applications = vec(
            "yunikorn_scheduler_application_total",
            "Applications by `state`: `running`, `resuming`, `failing` and `completing` at present, `completed` and \
             `failed` since the start.",
            &["state"],
        )?;
        for state in SHOWN {
            let count = shown.applications.get(state).copied().unwrap_or(0);
            applications.with_label_values(&[state]).set(count);
        }
        for how in [AppEnd::Completed, AppEnd::Failed] {
            applications.with_label_values(&[how.label()]).set(self.ends[how as usize].get() as i64);
        }
        self.register_queues(shown, &ended, registry)
    }

    fn register_queues(&self, shown: &Gauges, ended: &Ended, registry: &Registry) -> Result<()> {
        let vec =
            |name: &str, help: &str, labels: &[&str]| added(registry, IntGaugeVec::new(Opts::new(name, help), labels)?);
        let apps = vec(
            "yunikorn_queue_app",
            "Applications of a queue by `state`: live ones at present, ended ones since the start.",
            &["queue", "state"],
        )?;
        let resources = vec(
            "yunikorn_queue_resource",
            "Amounts of a queue by `resource` and `state`: `guaranteed`, `max`, `allocated`, `pending`, `preempting`, \
             and `maxRunningApps` with resource `apps`.",
            &["queue", "resource", "state"],
        )?;
        let live: BTreeSet<&str> = shown.queues.iter().map(|queue| queue.path.as_str()).collect();
        let names: BTreeSet<String> = live.iter().map(|path| container_metric(path)).collect();
        let counter = |name: &String| self.queues().containers.get(name).cloned();
        for counter in names.iter().filter_map(counter) {
            added(registry, counter)?;
        }
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // One that had gone when it was scraped is none that comes later.
        all.retain(|path, seen| seen.which.is_some() && seen.which == self.queues().which(path));
        for queue in &shown.queues {
            let path = queue.path.as_str();
            let new = || Seen { which: self.queues().which(path), ..Seen::default() };
            let seen = all.entry(queue.path.clone()).or_insert_with(new);
            for (state, count) in &queue.applications {
                apps.with_label_values(&[path, state]).add(*count);
                seen.applications.insert(state);
            }
            for (state, amounts) in &queue.resources {
                for (kind, amount) in amounts {
                    resources.with_label_values(&[path, &**kind, state]).add(*amount);
                    seen.see(state, kind.clone());
                }
            }
            resources.with_label_values(&[path, "apps", "maxRunningApps"]).add(queue.max_running as i64);
            for state in &seen.applications {
                apps.with_label_values(&[path, state]);
            }
            for (state, kind) in &seen.resources {
                resources.with_label_values(&[path, &**kind, state]);
            }
        }
        for ((queue, how), count) in ended {
            // One that never had a queue is shown below the empty path.
            if queue.is_empty() || live.contains(queue.as_str()) {
                apps.with_label_values(&[queue.as_str(), how]).set(*count);
            }
        }
        Ok(())
    }

    /// How many applications ended, by queue and how.
    fn ended(&self) -> Ended {
        use prometheus::core::Collector;
        let mut ended = Ended::new();
        for metric in self.queue_ends.collect().iter().flat_map(|family| family.get_metric()) {
            let label = |name| metric.get_label().iter().find(|pair| pair.name() == name).map(|pair| pair.value());
            let how = AppEnd::ALL.into_iter().find(|how| Some(how.label()) == label("state"));
            if let (Some(queue), Some(how)) = (label("queue"), how) {
                ended.insert((queue.to_owned(), how.label()), metric.get_counter().get_value() as i64);
            }
        }
        ended
    }
}

type Ended = BTreeMap<(String, &'static str), i64>;

impl Seen {
    /// A type with a max has a guaranteed and the other way round, be it 0 (REST 7.2).
    fn see(&mut self, state: &'static str, kind: Cow<'static, str>) {
        if state == "max" || state == "guaranteed" {
            self.resources.insert(("max", kind.clone()));
            self.resources.insert(("guaranteed", kind));
        } else {
            self.resources.insert((state, kind));
        }
    }
}
