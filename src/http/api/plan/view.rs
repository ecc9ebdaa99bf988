//! The answer of `POST /api/v1/plan`, as it is sent and as `callboard plan` reads it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    config::Fault,
    domain::{
        partition::dry_run::{self, DryRun, LISTED},
        ugm::Who,
    },
    http::ws_v1::json,
};

/// What a configuration would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Resource manager whose configuration it would be.
    #[serde(rename = "rmID")]
    pub rm_id: String,
    /// Checksum of the new configuration.
    pub checksum: String,
    /// It is the one in force: nothing would be done.
    pub unchanged: bool,
    /// Partitions in the order of the new configuration, then those that would be removed.
    pub partitions: Vec<PartitionPlan>,
    /// What would be accepted and does not do what it looks like.
    pub warnings: Vec<Warning>,
}

/// Part of the plan for one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionPlan {
    /// Plain name.
    pub partition: String,
    /// What becomes of it.
    pub change: Change,
    /// Settings of the partition itself that would differ.
    pub settings: Vec<Setting>,
    /// Queues that would differ.
    pub queues: Vec<QueuePlan>,
    /// Applications that would not be admitted or run as they are now.
    pub applications: Vec<Application>,
    /// Quotas and limits that would stand below usage.
    pub exceeded: Vec<Exceeded>,
    /// Queues, applications and quotas that are not listed.
    #[serde(default, skip_serializing_if = "json::unset")]
    pub more: usize,
}

/// What becomes of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PartitionChange")]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It appears.
    Added,
    /// It stays.
    Kept,
    /// It ends with all that is in it.
    Removed,
}

/// A setting; quantities in base units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SettingChange")]
pub struct Setting {
    /// As in the configuration, such as `resources.max.memory`.
    pub setting: String,
    /// Now; `null`: not set.
    pub from: Option<String>,
    /// Then; `null`: not set.
    pub to: Option<String>,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuePlan {
    /// Full path of the queue.
    pub queue_name: String,
    /// `added`, `changed`, `drained`, `restored`, `adopted` or `removed`.
    pub change: String,
    /// Settings that would differ.
    pub settings: Vec<Setting>,
    /// Applications in it now.
    pub applications: usize,
}

/// An application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ApplicationPlan")]
#[serde(rename_all = "camelCase")]
pub struct Application {
    /// Id of the application.
    #[serde(rename = "applicationID")]
    pub application_id: String,
    /// Its queue, which it keeps as long as it runs.
    pub queue_name: String,
    /// Name of the user who submitted it.
    pub user: String,
    /// State now.
    pub state: String,
    /// Why not.
    pub reason: String,
}

/// A quota or limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExceededQuota")]
#[serde(rename_all = "camelCase")]
pub struct Exceeded {
    /// Full path of the queue.
    pub queue_name: String,
    /// Whose limit, where it is a user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whose limit, where it is a group's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Resource type, or `maxapplications`.
    pub what: String,
    /// At most.
    pub limit: i64,
    /// In use now.
    pub used: i64,
    /// Seconds until quota preemption begins to take what is above; left out where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempted_after_seconds: Option<i64>,
}

/// A warning with its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ConfigurationWarning")]
pub struct Warning {
    /// From 1; 0 where it belongs to no line.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// Name of the rule.
    pub rule: String,
    /// The message, for people.
    pub message: String,
}

impl Plan {
    /// Applications or quotas would suffer.
    pub fn has_consequences(&self) -> bool {
        self.partitions.iter().any(|partition| !partition.applications.is_empty() || !partition.exceeded.is_empty())
    }
}

impl PartitionPlan {
    /// The plan for a partition of this plain name.
    pub fn of(name: &str, change: Change, dry_run: DryRun) -> PartitionPlan {
        let beyond = |rows: usize| rows.saturating_sub(LISTED);
        PartitionPlan {
            partition: name.to_owned(),
            change,
            more: dry_run.more_queues + dry_run.more_applications + beyond(dry_run.exceeded.len()),
            settings: settings(dry_run.settings),
            queues: dry_run.queues.into_iter().map(queue).collect(),
            applications: dry_run.applications.into_iter().map(application).collect(),
            exceeded: dry_run.exceeded.into_iter().take(LISTED).map(exceeded).collect(),
        }
    }
}

fn settings(settings: Vec<dry_run::Setting>) -> Vec<Setting> {
    settings.into_iter().map(|dry_run::Setting { name, from, to }| Setting { setting: name, from, to }).collect()
}

fn queue(queue: dry_run::QueueImpact) -> QueuePlan {
    QueuePlan {
        queue_name: queue.queue.to_string(),
        change: queue.change.name().to_owned(),
        settings: settings(queue.settings),
        applications: queue.applications,
    }
}

fn application(application: dry_run::NotAdmitted) -> Application {
    Application {
        application_id: application.app.to_string(),
        queue_name: application.queue.to_string(),
        user: application.user.to_string(),
        state: application.state.name().to_owned(),
        reason: application.reason,
    }
}

fn exceeded(exceeded: dry_run::Exceeded) -> Exceeded {
    let named = |wanted: Who| exceeded.who.as_ref().filter(|(who, _)| *who == wanted).map(|(_, name)| name.to_string());
    Exceeded {
        user: named(Who::User),
        group: named(Who::Group),
        queue_name: exceeded.queue.to_string(),
        what: exceeded.what.to_string(),
        limit: exceeded.limit,
        used: exceeded.used,
        preempted_after_seconds: exceeded.preempted_after.map(|after| after.as_secs()),
    }
}

impl From<dry_run::Note> for Warning {
    /// Of no line.
    fn from((rule, message): dry_run::Note) -> Warning {
        Warning { line: 0, column: 0, rule: rule.to_owned(), message }
    }
}

impl From<&Fault> for Warning {
    fn from(fault: &Fault) -> Warning {
        Warning { line: fault.line, column: fault.column, rule: fault.rule.to_owned(), message: fault.message.clone() }
    }
}
