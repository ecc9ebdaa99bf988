//! Callboard's own gauges of partitions and sessions, computed at a scrape.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use prometheus::{GaugeVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, Result};

use super::{ClusterGauges, added, cluster::signed};

/// What partitions and resource managers show of themselves.
#[derive(Clone, Debug, Default)]
pub struct ExtensionGauges {
    /// By the name that REST shows.
    pub partitions: BTreeMap<String, PartitionGauges>,
    /// By id.
    pub managers: BTreeMap<String, ManagerGauges>,
    /// The last health check found nothing; `None` before the first.
    pub healthy: Option<bool>,
    /// Logs that could be neither read nor put aside; `None` where none are kept.
    pub logs_unread: Option<u64>,
    /// What an operator has to look at in the files of resource journals, by partition.
    pub journal_faults: Vec<(String, u64)>,
    /// The audit log cannot be written; `None` where it is in memory only.
    pub audit_failing: Option<bool>,
    /// The cluster, where there is one.
    pub cluster: Option<ClusterGauges>,
}

/// Amounts by the name of their type.
pub type Amounts = Vec<(Cow<'static, str>, i64)>;

/// A partition of an [`ExtensionGauges`].
#[derive(Clone, Debug, Default)]
pub struct PartitionGauges {
    /// Batches of requests that wait for the groups of a user.
    pub waiting_batches: u64,
    /// Slices run.
    pub slices: u64,
    /// Placements and replacements made.
    pub decisions: u64,
    /// The longest slice in nanoseconds.
    pub longest_slice: u64,
    /// Live conversations by kind.
    pub conversations: [(&'static str, u64); 3],
    /// Requests that wait until something holds, and the things that are not there of which somebody waits for something.
    pub waits: [u64; 2],
    /// Asks that wait, by why.
    pub waiting: BTreeMap<&'static str, u64>,
    /// The same by queue: path, why, and how many.
    pub waiting_of_queues: Vec<(String, &'static str, u64)>,
    /// What users have, by the name of the type.
    pub users: Vec<(String, Amounts)>,
}

/// A resource manager of an [`ExtensionGauges`].
#[derive(Clone, Debug, Default)]
pub struct ManagerGauges {
    /// It is Running.
    pub running: bool,
    /// Items of requests that were taken and are not applied yet.
    pub in_flight: u64,
    /// Callbacks that were made and not handed to a stream yet.
    pub undelivered: u64,
    /// Callbacks that are kept for a stream that resumes.
    pub buffered: u64,
    /// Open streams.
    pub streams: u64,
    /// Its log, where it has one.
    pub log: Option<LogGauges>,
}

/// The log of a resource manager of an [`ExtensionGauges`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LogGauges {
    /// It cannot be written.
    pub failing: bool,
    /// For how long its oldest record has waited for the disk.
    pub behind: Duration,
}

impl ExtensionGauges {
    /// Registers what is in it.
    pub(super) fn register(&self, registry: &Registry) -> Result<()> {
        let info = added(
            registry,
            IntGaugeVec::new(Opts::new("callboard_build_info", "1, with the `version`."), &["version"])?,
        )?;
        info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        if let Some(healthy) = self.healthy {
            added(registry, IntGauge::new("callboard_healthy", "1 if all checks of the last health check passed.")?)?
                .set(healthy.into());
        }
        let help =
            "Faults of the stored resource journal that an operator has to look at: damage, or writes that fail.";
        let faults =
            added(registry, IntGaugeVec::new(Opts::new("callboard_resource_journal_faults", help), &["partition"])?)?;
        for (partition, count) in &self.journal_faults {
            faults.with_label_values(&[partition]).set(signed(*count));
        }
        if let Some(failing) = self.audit_failing {
            let help = "1 while the audit log cannot be written.";
            added(registry, IntGauge::new("callboard_audit_failing", help)?)?.set(failing.into());
        }
        if let Some(unread) = self.logs_unread {
            let help = "Logs that could neither be read nor put aside: their resource managers cannot register.";
            added(registry, IntGauge::new("callboard_log_unread", help)?)?.set(signed(unread));
        }
        if let Some(cluster) = &self.cluster {
            cluster.register(registry)?;
        }
        self.partitions(registry)?;
        self.managers(registry)
    }

    fn partitions(&self, registry: &Registry) -> Result<()> {
        let gauge =
            |name: &str, help: &str, labels: &[&str]| added(registry, IntGaugeVec::new(Opts::new(name, help), labels)?);
        let counter =
            |name: &str, help: &str| added(registry, IntCounterVec::new(Opts::new(name, help), &["partition"])?);
        let seconds = |name: &str, help: &str| added(registry, GaugeVec::new(Opts::new(name, help), &["partition"])?);
        let batches = gauge(
            "callboard_mailbox_batches",
            "Request batches in a partition's inbox: they wait for groups of users.",
            &["partition"],
        )?;
        let slices = counter("callboard_slices_total", "Scheduling slices run.")?;
        let decisions = counter("callboard_decisions_total", "Placements and replacements made.")?;
        let longest = seconds("callboard_slice_longest_seconds", "The longest scheduling slice since the start.")?;
        let conversations =
            gauge("callboard_conversations", "Live conversation actors by `kind`.", &["partition", "kind"])?;
        let waits = gauge("callboard_waits", "Requests that wait until something holds (…/wait).", &["partition"])?;
        let absent = gauge("callboard_waits_absent", "Things that are waited for and are not there.", &["partition"])?;
        let waiting = gauge(
            "callboard_asks_waiting",
            "Asks that wait, by `reason` (see docs/web.md).",
            &["partition", "reason"],
        )?;
        let of_queues = gauge(
            "callboard_queue_asks_waiting",
            "Asks of a queue that wait, by `reason`; of the queues that have metrics of their own.",
            &["partition", "queue", "reason"],
        )?;
        let users = gauge(
            "callboard_user_resource",
            "What a user has in all queues; of the users with the largest shares (metrics.topUsers).",
            &["partition", "user", "resource"],
        )?;
        for (name, row) in &self.partitions {
            for (queue, reason, count) in &row.waiting_of_queues {
                of_queues.with_label_values(&[name.as_str(), queue, reason]).set(signed(*count));
            }
            for (user, used) in &row.users {
                for (resource, amount) in used {
                    users.with_label_values(&[name.as_str(), user, resource]).set(*amount);
                }
            }
            let label = &[name.as_str()];
            batches.with_label_values(label).set(signed(row.waiting_batches));
            slices.with_label_values(label).inc_by(row.slices);
            decisions.with_label_values(label).inc_by(row.decisions);
            longest.with_label_values(label).set(row.longest_slice as f64 / 1e9);
            waits.with_label_values(label).set(signed(row.waits[0]));
            absent.with_label_values(label).set(signed(row.waits[1]));
            for (kind, count) in row.conversations {
                conversations.with_label_values(&[name.as_str(), kind]).set(signed(count));
            }
            for (reason, count) in &row.waiting {
                waiting.with_label_values(&[name.as_str(), reason]).set(signed(*count));
            }
        }
        Ok(())
    }

    fn managers(&self, registry: &Registry) -> Result<()> {
        let gauge = |name: &str, help: &str| added(registry, IntGaugeVec::new(Opts::new(name, help), &["rm"])?);
        let running = gauge(
            "callboard_rm_running",
            "1 while the resource manager is Running, 0 while it is Paused, or was given up and has not registered again.",
        )?;
        let depth = gauge("callboard_mailbox_items", "Items of requests that were taken and are not applied yet.")?;
        let undelivered =
            gauge("callboard_callbacks_undelivered", "Callbacks that were made and not handed to a stream yet.")?;
        let buffered = gauge("callboard_callbacks_buffered", "Callbacks that are kept for a stream that resumes.")?;
        let streams = gauge("callboard_rm_streams", "Open callback streams.")?;
        let failing = gauge("callboard_log_failing", "1 while the log cannot be written: nothing is taken.")?;
        let help = "For how long the oldest record of the log has waited for the disk; 0 where all are on it.";
        let behind = Opts::new("callboard_log_unflushed_seconds", help);
        let behind = added(registry, GaugeVec::new(behind, &["rm"])?)?;
        for (id, row) in &self.managers {
            let label = &[id.as_str()];
            if let Some(log) = &row.log {
                failing.with_label_values(label).set(log.failing.into());
                behind.with_label_values(label).set(log.behind.as_secs_f64());
            }
            running.with_label_values(label).set(row.running.into());
            depth.with_label_values(label).set(signed(row.in_flight));
            undelivered.with_label_values(label).set(signed(row.undelivered));
            buffered.with_label_values(label).set(signed(row.buffered));
            streams.with_label_values(label).set(signed(row.streams));
        }
        Ok(())
    }
}
