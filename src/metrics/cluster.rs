//! Gauges of a cluster, computed at a scrape: as the server sees it that is asked.

use std::collections::BTreeMap;

use prometheus::{Gauge, GaugeVec, IntGauge, IntGaugeVec, Opts, Registry, Result};

use super::added;

/// A cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterGauges {
    /// etcd answers.
    pub etcd_up: bool,
    /// Bytes of its database, where they are known.
    pub etcd_bytes: Option<u64>,
    /// Servers that are there.
    pub servers: u64,
    /// By the id of the resource manager.
    pub groups: BTreeMap<String, GroupGauges>,
}

/// A resource manager of a [`ClusterGauges`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupGauges {
    /// A server leads it that is there.
    pub led: bool,
    /// This one does.
    pub leads: bool,
    /// This one cannot follow it.
    pub broken: bool,
    /// Records that are not applied here, where it is followed.
    pub behind: Option<u64>,
    /// Seconds for which records may be missing here, where it is not led here.
    pub lag: Option<f64>,
    /// Bytes in etcd.
    pub bytes: u64,
    /// At so many nothing new is placed.
    pub max_bytes: u64,
}

impl ClusterGauges {
    /// Registers what is in it.
    pub(super) fn register(&self, registry: &Registry) -> Result<()> {
        let gauge = |name: &str, help: &str| added(registry, IntGauge::new(name, help)?);
        let of_rm = |name: &str, help: &str| added(registry, IntGaugeVec::new(Opts::new(name, help), &["rm"])?);
        gauge("callboard_cluster_etcd_up", "1 while etcd answers this server and takes changes.")?
            .set(self.etcd_up.into());
        gauge("callboard_cluster_servers", "Servers of the cluster that are there.")?.set(signed(self.servers));
        if let Some(bytes) = self.etcd_bytes {
            let help = "Bytes of etcd's database, with what others keep in it.";
            added(registry, Gauge::new("callboard_cluster_etcd_bytes", help)?)?.set(bytes as f64);
        }
        let led = of_rm("callboard_cluster_led", "1 while a server that is there leads the resource manager.")?;
        let leads = of_rm("callboard_cluster_leads", "1 while this server leads the resource manager.")?;
        let broken = of_rm(
            "callboard_cluster_broken",
            "1 where this server cannot follow: what it applies leads to something else than at the leader, or cannot be read.",
        )?;
        let behind = of_rm("callboard_cluster_lag_records", "Records that this server has not applied yet.")?;
        let help = "For how many seconds records may be missing here.";
        let lag = added(registry, GaugeVec::new(Opts::new("callboard_cluster_lag_seconds", help), &["rm"])?)?;
        let bytes = of_rm("callboard_cluster_bytes", "Bytes of the resource manager in etcd.")?;
        let most = of_rm("callboard_cluster_max_bytes", "At so many bytes in etcd nothing new is placed.")?;
        for (rm, row) in &self.groups {
            let label = &[rm.as_str()];
            led.with_label_values(label).set(row.led.into());
            leads.with_label_values(label).set(row.leads.into());
            broken.with_label_values(label).set(row.broken.into());
            bytes.with_label_values(label).set(signed(row.bytes));
            most.with_label_values(label).set(signed(row.max_bytes));
            if let Some(records) = row.behind {
                behind.with_label_values(label).set(signed(records));
            }
            if let Some(seconds) = row.lag {
                lag.with_label_values(label).set(seconds);
            }
        }
        Ok(())
    }
}

pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
