//! One sample a minute of what runs, for a day (OPS-001–OPS-004).

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use schemars::JsonSchema;
use serde::Serialize;

use super::{View, json::as_text};
use crate::domain::types::{AppState, Nanos};

/// Samples that are kept.
pub const SAMPLES: usize = 1440;

/// The samples of all partitions together, oldest first.
#[derive(Debug, Default)]
pub struct History(Mutex<VecDeque<Sample>>);

/// One sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When it was taken.
    pub at: Nanos,
    /// Applications in Running.
    pub applications: u64,
    /// Allocations, placeholders included, without those that the shim is still asked about: the number itself, not the difference of two counters (REST quirk H).
    pub containers: u64,
}

impl Sample {
    /// Counts over partitions.
    pub fn of(views: &[View], at: Nanos) -> Sample {
        let running = |view: &View| {
            let partition = view.partition();
            let apps = partition.app_by_id.values().filter_map(|ix| partition.apps.get(*ix));
            apps.filter(|app| app.state == AppState::Running).count() as u64
        };
        Sample {
            at,
            applications: views.iter().map(running).sum(),
            containers: views.iter().map(|view| view.partition().placed()).sum(),
        }
    }
}

/// A row of `/ws/v1/history/apps` (REST 5.12).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Apps")]
#[serde(rename_all = "camelCase")]
pub struct AppsView {
    timestamp: i64,
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    total_applications: u64,
}

/// A row of `/ws/v1/history/containers` (REST 5.12).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Containers")]
#[serde(rename_all = "camelCase")]
pub struct ContainersView {
    timestamp: i64,
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    total_containers: u64,
}

impl History {
    /// Keeps a sample; beyond [`SAMPLES`] the oldest goes.
    pub fn push(&self, sample: Sample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Running applications over time.
    pub fn apps(&self) -> Vec<AppsView> {
        self.rows(|sample| AppsView { timestamp: sample.at.0, total_applications: sample.applications })
    }

    /// Allocations over time.
    pub fn containers(&self) -> Vec<ContainersView> {
        self.rows(|sample| ContainersView { timestamp: sample.at.0, total_containers: sample.containers })
    }

    fn rows<T>(&self, row: impl Fn(&Sample) -> T) -> Vec<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::json, *};

    // OPS-001, OPS-002: 1,440 samples, oldest first, totals as text.
    #[test]
    fn keeps_a_day() {
        let history = History::default();
        assert_eq!(json::line(&history.apps()), b"[]\n");
        for n in 1..=SAMPLES as i64 + 5 {
            history.push(Sample { at: Nanos(n), applications: 3, containers: 7 });
        }
        let rows = history.apps();
        assert_eq!((rows.len(), rows[0].timestamp), (SAMPLES, 6));
        assert_eq!(json::compact(&rows[0]), br#"{"timestamp":6,"totalApplications":"3"}"#);
        assert_eq!(json::compact(&history.containers()[0]), br#"{"timestamp":6,"totalContainers":"7"}"#);
    }
}
