//! What another configuration would do to a partition: tried on a clone, and compared with what is. Nothing is touched.

mod impact;
mod settings;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Partition;
use crate::{
    command::Command,
    conf::PartitionConf,
    queue::Queue,
    types::{AppState, Nanos, ObjectState},
    ugm::Who,
};

/// Queues and settings of queues, and applications, that are listed: whoever has more of them looks at these first.
pub const LISTED: usize = 10_000;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DryRun {
    /// Settings of the partition itself that would differ.
    pub settings: Vec<Setting>,
    /// Queues that would differ, by path.
    pub queues: Vec<QueueImpact>,
    /// Those that are not listed.
    pub more_queues: usize,
    /// Live applications that would not be admitted, or not run, as they are now; by id.
    pub applications: Vec<NotAdmitted>,
    /// Those that are not listed.
    pub more_applications: usize,
    /// Quotas and limits that would stand below what is used, by queue.
    pub exceeded: Vec<Exceeded>,
}

/// A setting that would differ. Quantities are in base units: memory in bytes, vcore in milli.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As in the configuration, such as `resources.max.memory`.
    pub name: String,
    /// `None`: not set now.
    pub from: Option<String>,
    /// `None`: not set then.
    pub to: Option<String>,
}

/// A queue that would differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueImpact {
    /// Full path of the queue.
    pub queue: Arc<str>,
    /// What would become of the queue as a whole.
    pub change: QueueChange,
    /// Settings that would differ; all of a new queue, none of one that drains.
    pub settings: Vec<Setting>,
    /// Applications in it now.
    pub applications: usize,
}

/// How a queue would differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// It appears.
    Added,
    /// It takes over other settings.
    Changed,
    /// It takes no new applications and goes when it is empty (CFG-100).
    Drained,
    /// It drains now and would be in force again (CFG-100).
    Restored,
    /// It was made by placement and would be a configured one, with its applications (CFG-101).
    Adopted,
    /// It goes at once, with its partition.
    Removed,
}

impl QueueChange {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            QueueChange::Added => "added",
            QueueChange::Changed => "changed",
            QueueChange::Drained => "drained",
            QueueChange::Restored => "restored",
            QueueChange::Adopted => "adopted",
            QueueChange::Removed => "removed",
        }
    }
}

/// A live application that would not be admitted if it were submitted then, or that would have to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAdmitted {
    /// Id of the application.
    pub app: Arc<str>,
    /// Its queue now; it stays there, whatever a configuration says (PLC-053).
    pub queue: Arc<str>,
    /// Name of the user who submitted it.
    pub user: Arc<str>,
    /// State now.
    pub state: AppState,
    /// Why not.
    pub reason: String,
}

/// A quota or limit that would stand below what is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Full path of the queue.
    pub queue: Arc<str>,
    /// User or group; `None`: the quota is the queue's.
    pub who: Option<(Who, Arc<str>)>,
    /// Resource type, or `maxapplications`.
    pub what: Arc<str>,
    /// At most.
    pub limit: i64,
    /// In use now, in the same unit.
    pub used: i64,
    /// Time until what is above is preempted; `None`: it is left alone.
    pub preempted_after: Option<Nanos>,
    /// It is left alone though quota preemption is on: there was no max of this before (QPR-004).
    pub first: bool,
}

/// What is to be told of a configuration beside what it says itself: the rule, and the text for people.
pub type Note = (&'static str, String);

impl NotAdmitted {
    fn note(&self) -> Note {
        let NotAdmitted { app, queue, user, state, reason } = self;
        let (state, reason) = (state.name(), reason.replace('\n', " "));
        let who = format!("application {app} of user {user}, {state} in queue {queue}");
        ("PLC-053", format!("{who}, would not be admitted: {reason}"))
    }
}

impl Exceeded {
    /// What quota preemption does not do, though it looks like it.
    pub fn note(&self) -> Option<Note> {
        let Exceeded { queue, what, limit, used, .. } = self;
        let text = format!(
            "max of {what} of queue {queue} is {limit} and {used} are used: quota preemption takes nothing back, since there was no max \
             before; to have it do so, set {used} or more first, and lower that"
        );
        self.first.then_some(("QPR-004", text))
    }
}

impl Partition {
    /// A clone of it that has this configuration.
    pub fn tried(&self, conf: Arc<PartitionConf>, now: Nanos) -> Partition {
        let mut trial = self.clone();
        trial.apply(Command::Configure(conf), now, &mut Vec::new());
        trial
    }

    /// What this configuration would do now.
    pub fn dry_run(&self, conf: Arc<PartitionConf>, now: Nanos) -> DryRun {
        let trial = self.tried(conf, now);
        let (queues, more_queues) = queue_changes(Some(self), &trial);
        let (applications, more_applications) = impact::applications(self, &trial, LISTED);
        DryRun {
            settings: diff(&settings::of_partition(&self.conf), &settings::of_partition(&trial.conf)),
            queues,
            more_queues,
            applications,
            more_applications,
            exceeded: impact::exceeded(self, &trial, now),
        }
    }

    /// What is to be told of a configuration that a clone of it has (`None`: it is removed), in the words of a dry run: the first notes of so
    /// many, and how many more there are.
    pub fn notes(&self, then: Option<&Partition>, now: Nanos, most: usize) -> (Vec<Note>, usize) {
        let (applications, more, exceeded) = match then {
            Some(then) => {
                let (applications, more) = impact::applications(self, then, most);
                (applications, more, impact::exceeded(self, then, now))
            }
            None => {
                let (applications, more) = impact::all(self, most);
                (applications, more, Vec::new())
            }
        };
        let room = most - applications.len();
        let quotas: Vec<Note> = exceeded.iter().filter_map(Exceeded::note).collect();
        let more = more + quotas.len().saturating_sub(room);
        (applications.iter().map(NotAdmitted::note).chain(quotas.into_iter().take(room)).collect(), more)
    }

    /// What the end of this partition would do (CFG-095).
    pub fn dry_run_of_removal(&self) -> DryRun {
        let gone = |row: &Queue| QueueImpact {
            queue: row.path.clone(),
            change: QueueChange::Removed,
            settings: Vec::new(),
            applications: row.apps.len(),
        };
        let (applications, more_applications) = impact::all(self, LISTED);
        DryRun {
            queues: self.queue_by_path.values().take(LISTED).map(|ix| gone(&self.queues[*ix])).collect(),
            more_queues: self.queue_by_path.len().saturating_sub(LISTED),
            applications,
            more_applications,
            ..DryRun::default()
        }
    }

    /// What a configuration for a partition that does not exist would make.
    pub fn dry_run_of_new(conf: Arc<PartitionConf>, now: Nanos) -> DryRun {
        let made = Partition::new(Arc::default(), Arc::default(), conf, now, &mut Vec::new());
        let (queues, more_queues) = queue_changes(None, &made);
        DryRun {
            settings: diff(&BTreeMap::new(), &settings::of_partition(&made.conf)),
            queues,
            more_queues,
            ..DryRun::default()
        }
    }
}

/// The first of them, and how many more there are.
fn queue_changes(before: Option<&Partition>, after: &Partition) -> (Vec<QueueImpact>, usize) {
    let old = |path: &str| {
        let before = before?;
        Some(&before.queues[*before.queue_by_path.get(path)?])
    };
    let old_limits = before.map(|before| settings::limits(&before.conf)).unwrap_or_default();
    let new_limits = settings::limits(&after.conf);
    let none = BTreeMap::new();
    let settings_of = |row: Option<&Queue>, limits: &BTreeMap<String, BTreeMap<String, String>>| {
        let mut settings = row.map(settings::of_queue).unwrap_or_default();
        if let Some(row) = row {
            settings.extend(limits.get(&*row.path).unwrap_or(&none).clone());
        }
        settings
    };
    let (mut changes, mut more, mut room) = (Vec::new(), 0, LISTED);
    for (path, ix) in &after.queue_by_path {
        let row = &after.queues[*ix];
        let was = old(path);
        let drains = |row: &Queue| row.state == ObjectState::Draining;
        let settings = || diff(&settings_of(was, &old_limits), &settings_of(Some(row), &new_limits));
        let (change, settings) = match was {
            None => (QueueChange::Added, settings()),
            Some(was) if drains(row) && !drains(was) => (QueueChange::Drained, Vec::new()),
            Some(was) if !drains(row) && drains(was) => (QueueChange::Restored, settings()),
            Some(was) if row.managed && !was.managed => (QueueChange::Adopted, settings()),
            Some(_) => (QueueChange::Changed, settings()),
        };
        if change == QueueChange::Changed && settings.is_empty() {
            continue;
        }
        if room == 0 {
            more += 1;
            continue;
        }
        room = room.saturating_sub(1 + settings.len());
        let applications = was.map_or(0, |was| was.apps.len());
        changes.push(QueueImpact { queue: path.clone(), change, settings, applications });
    }
    (changes, more)
}

/// What differs, by name.
fn diff(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Setting> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| Setting { name: name.clone(), from: before.get(name).cloned(), to: after.get(name).cloned() })
        .collect()
}
