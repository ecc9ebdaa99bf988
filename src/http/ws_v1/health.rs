//! The nine health checks (OPS-010–OPS-015, REST 5.13), run over a snapshot of each partition, and those of what is on disk.

use std::{
    collections::VecDeque,
    fmt::Display,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwapOption;
use schemars::JsonSchema;
use serde::Serialize;

use super::{View, nodes};
use crate::{
    access::audit::Standing,
    domain::{
        resources::Resource,
        types::{AllocIx, Nanos, NodeIx},
        words::{either, plural},
    },
    http::api::overdue::OverdueDrains,
    messages::{application::UnconfirmedRelease, event::StoreStatus, partition::UnconfirmedSums},
    si::outward,
};

/// Errors older than this do not make the scheduler unhealthy any more (OPS-013).
pub const ERROR_WINDOW: Nanos = Nanos::from_secs(3600);

/// The last result, and the error counts from which the next is made.
#[derive(Debug, Default)]
pub struct Health {
    last: ArcSwapOption<HealthView>,
    /// Sums in the books that were found wrong since the start. What a shim does wrong is answered, logged and counted by the
    /// metrics; it says nothing about the scheduler's health (OPS-013).
    faults: AtomicU64,
    scheduling_errors: Mutex<Window>,
    failed_nodes: Mutex<Window>,
}

/// What is on disk, nothing of a server that keeps nothing; and what shims keep to themselves.
#[derive(Debug, Default)]
pub struct Kept {
    /// What is gone of the data directory while the server uses it.
    pub data: Vec<String>,
    /// The event store.
    pub events: Option<StoreStatus>,
    /// What an operator has to know of the resource journals, by the internal names of their partitions.
    pub journals: Option<Vec<(Arc<str>, Vec<String>)>>,
    /// What an operator has to know of the logs of resource managers.
    pub logs: Option<Vec<String>>,
    /// How far the files of the audit log are behind.
    pub audit: Option<Standing>,
    /// Releases that are not confirmed, by partition as shown.
    pub unconfirmed: Vec<(Arc<str>, UnconfirmedSums)>,
    /// Drained nodes that were to be empty by now, by partition as shown.
    pub overdue: Vec<(Arc<str>, OverdueDrains)>,
    /// Partitions that do not answer: nothing of them was checked.
    pub silent: Vec<String>,
}

/// All checks (REST 5.13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Health")]
#[serde(rename_all = "PascalCase")]
pub struct HealthView {
    healthy: bool,
    health_checks: Vec<CheckView>,
    /// What needs a look although the scheduler is healthy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<WarningView>,
}

/// Something outside of the scheduler that needs a look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Warning")]
#[serde(rename_all = "PascalCase")]
struct WarningView {
    name: &'static str,
    description: &'static str,
    diagnosis_message: String,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Check")]
#[serde(rename_all = "PascalCase")]
struct CheckView {
    name: &'static str,
    succeeded: bool,
    description: &'static str,
    diagnosis_message: String,
}

impl HealthView {
    /// All checks passed.
    pub fn is_healthy(&self) -> bool {
        self.healthy
    }
}

impl Health {
    /// The last result, `None` before the first run.
    pub fn last(&self) -> Option<Arc<HealthView>> {
        self.last.load_full()
    }

    /// Runs all checks and keeps the result. `failed_nodes` counts since the start.
    pub fn run(&self, views: &[View], failed_nodes: u64, kept: &Kept, now: Nanos) {
        let wrong: Vec<&View> = views.iter().filter(|view| self.has_wrong_books(view)).collect();
        let wrong: Vec<&str> = wrong.into_iter().map(|view| &*view.shown).collect();
        self.run_with(views, wrong, failed_nodes, kept, now);
    }

    /// Any sum that differs from that of its parts; what it is goes to the log.
    fn has_wrong_books(&self, view: &View) -> bool {
        let findings = view.partition().audit();
        for finding in &findings {
            tracing::error!(code = "books-inconsistent", partition = %view.shown, object = %finding.object, "inconsistent books: {}", finding.text);
        }
        self.faults.fetch_add(findings.len() as u64, Relaxed);
        !findings.is_empty()
    }

    fn run_with(&self, views: &[View], wrong: Vec<&str>, failed_nodes: u64, kept: &Kept, now: Nanos) {
        let recent = |window: &Mutex<Window>, total| {
            window.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recent(total, now)
        };
        let errors = recent(&self.scheduling_errors, self.faults.load(Relaxed));
        let failed = recent(&self.failed_nodes, failed_nodes);
        let checks = check(views, wrong, errors, failed, kept);
        let healthy = checks.iter().all(|check| check.succeeded);
        let warnings = unconfirmed(&kept.unconfirmed).into_iter().chain(overdue(&kept.overdue)).collect();
        self.last.store(Some(Arc::new(HealthView { healthy, health_checks: checks, warnings })));
    }
}

/// A growing counter looked at now and then: how much it grew within [`ERROR_WINDOW`].
#[derive(Debug, Default)]
struct Window(VecDeque<(Nanos, u64)>);

impl Window {
    fn recent(&mut self, total: u64, now: Nanos) -> u64 {
        let begin = now.minus(ERROR_WINDOW);
        // The newest look before the window is what its growth is measured from.
        while self.0.get(1).is_some_and(|(at, _)| *at <= begin) {
            self.0.pop_front();
        }
        let before = self.0.front().filter(|(at, _)| *at <= begin).map_or(0, |(_, count)| *count);
        if self.0.back().is_none_or(|(_, count)| *count != total) {
            self.0.push_back((now, total));
        }
        total.saturating_sub(before)
    }
}

fn check(views: &[View], wrong: Vec<&str>, scheduling_errors: u64, failed_nodes: u64, kept: &Kept) -> Vec<CheckView> {
    let mut checks = vec![
        counted(
            "Scheduling errors",
            "Check for scheduling error entries in metrics",
            scheduling_errors,
            "scheduling errors",
        ),
        // They name partitions that do not exist: the shim's mistake, so the number is told and nothing fails.
        CheckView {
            succeeded: true,
            ..counted("Failed nodes", "Check for failed nodes entries in metrics", failed_nodes, "failed nodes")
        },
        listed(
            "Negative resources",
            "Check for negative resources in the partitions",
            "Partitions with negative resources: ",
            partitions(views, negative_partition),
        ),
        listed(
            "Negative resources",
            "Check for negative resources in the nodes",
            "Nodes with negative resources: ",
            node_names(views, |node| {
                [&**node.allocated(), &**node.available(), &node.capacity, &node.occupied]
                    .into_iter()
                    .any(Resource::has_negative)
            }),
        ),
        listed(
            "Consistency of data",
            "Check if total partition resource == sum of the node resources from the partition",
            "Partitions with inconsistent data: ",
            wrong,
        ),
        listed(
            "Consistency of data",
            "Check if node total resource = allocated resource + occupied resource + available resource",
            "Nodes with inconsistent data: ",
            node_names(views, |node| node.capacity != node.allocated().plus(&node.occupied).plus(node.available())),
        ),
        CheckView {
            name: "Reservation check",
            succeeded: true,
            description: "Check the reservation nr compared to the number of nodes",
            diagnosis_message: format!("Reservation/node nr ratio: {}", bracketed(views.iter().map(reservation_ratio))),
        },
        listed(
            "Orphan allocation on node check",
            "Check if there are orphan allocations on the nodes",
            "Orphan allocations: ",
            views.iter().flat_map(orphans_on_nodes).collect(),
        ),
        listed(
            "Orphan allocation on app check",
            "Check if there are orphan allocations on the applications",
            "OrphanAllocations: ",
            views.iter().flat_map(orphans_on_apps).collect(),
        ),
    ];
    // Beyond what the reference checks (OPS-012), so only where it can fail.
    checks.extend(kept.events.as_ref().map(stored));
    checks.extend(kept.journals.as_deref().map(undamaged));
    checks.extend(kept.logs.as_deref().map(recorded));
    checks.extend(kept.audit.as_ref().map(audited));
    checks.extend((!kept.data.is_empty()).then(|| CheckView {
        name: "Data directory",
        succeeded: false,
        description: "Check if the data directory is where it was, with the files that are written",
        diagnosis_message: kept.data.join("; "),
    }));
    checks.extend((!kept.silent.is_empty()).then(|| CheckView {
        name: "Partitions answer",
        succeeded: false,
        description: "Check if all partitions answer what they are asked",
        diagnosis_message: kept.silent.join("; "),
    }));
    checks
}

/// Releases that shims have not confirmed for long: what they hold stays charged. Not a fault of the scheduler.
fn unconfirmed(partitions: &[(Arc<str>, UnconfirmedSums)]) -> Option<WarningView> {
    let mut texts = Vec::new();
    for (partition, sums) in partitions.iter().filter(|(_, sums)| sums.overdue > 0) {
        let row = |row: &UnconfirmedRelease| {
            let (release, age) = (&row.release, std::time::Duration::from_secs(row.age.as_secs().unsigned_abs()));
            let kind = outward::termination(release.termination).as_str_name();
            format!("{}/{} ({kind}, for {age:?}, sent {})", release.app, release.key, plural(row.sent, "time"))
        };
        let named: Vec<String> = sums.named.iter().map(row).collect();
        let more = sums.overdue - named.len() as u64;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        texts.push(format!("{} in partition {partition}: {}{more}", sums.overdue, named.join(", ")));
    }
    let warning = |diagnosis_message| WarningView {
        name: "Unconfirmed releases",
        description: "Releases that the resource manager has not confirmed within rm.unconfirmedWarning",
        diagnosis_message,
    };
    (!texts.is_empty()).then(|| warning(texts.join("; ")))
}

/// Drained nodes on which something still runs although their deadline has passed.
fn overdue(partitions: &[(Arc<str>, OverdueDrains)]) -> Option<WarningView> {
    let told = partitions.iter().filter(|(_, drains)| drains.count > 0).map(|(partition, drains)| {
        let named: Vec<String> = drains.nodes.iter().take(LISTED).map(ToString::to_string).collect();
        let more = drains.count - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{} in partition {partition}: {}{more}", drains.count, named.join(", "))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| WarningView {
        name: "Overdue drains",
        description: "Drained nodes on which something still runs after the deadline of their drain",
        diagnosis_message: told.join("; "),
    })
}

/// Events reach the disk.
fn stored(store: &StoreStatus) -> CheckView {
    CheckView {
        name: "Event store",
        succeeded: store.failing.is_none() && store.doubt.is_none(),
        description: "Check if events are stored durably",
        diagnosis_message: match (&store.failing, &store.doubt) {
            (None, None) => {
                format!("{} {} to be stored", plural(store.waiting, "event"), either(&store.waiting, "waits", "wait"))
            }
            (Some(why), _) => format!(
                "{why}; {} {} in memory, and scheduling goes on",
                plural(store.waiting, "event"),
                either(&store.waiting, "waits", "wait")
            ),
            (None, Some(doubt)) => doubt.to_string(),
        },
    }
}

/// Faults of a journal that a diagnosis lists at most.
const LISTED: usize = 5;

/// No drain or undrain is in danger.
fn undamaged(journals: &[(Arc<str>, Vec<String>)]) -> CheckView {
    let told = journals.iter().filter(|(_, faults)| !faults.is_empty()).map(|(name, faults)| {
        let more = faults.len().saturating_sub(LISTED);
        let more = if more > 0 { format!(" | and {more} more") } else { String::new() };
        let listed: Vec<&str> = faults.iter().take(LISTED).map(String::as_str).collect();
        format!("{name}: {}{more}", listed.join(" | "))
    });
    let told: Vec<String> = told.collect();
    CheckView {
        name: "Resource journal",
        succeeded: told.is_empty(),
        description: "Check if the resource journals are undamaged and can be written",
        diagnosis_message: if told.is_empty() {
            format!("{} {} in order", plural(journals.len(), "journal"), either(&journals.len(), "is", "are"))
        } else {
            told.join(" || ")
        },
    }
}

/// What goes in is recorded.
fn recorded(faults: &[String]) -> CheckView {
    let more = faults.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" | and {more} more") } else { String::new() };
    let listed: Vec<&str> = faults.iter().take(LISTED).map(String::as_str).collect();
    CheckView {
        name: "Log",
        succeeded: faults.is_empty(),
        description: "Check if the logs of resource managers can be read and written",
        diagnosis_message: match faults {
            [] => "all logs can be written".to_owned(),
            _ => format!("{}{more}", listed.join(" | ")),
        },
    }
}

/// Who changed what reaches the disk, and stays there.
fn audited(standing: &Standing) -> CheckView {
    let failing = standing.failing.as_ref().map(|why| {
        let waits = either(&standing.waiting, "waits", "wait");
        format!("{why}; {} {waits} in memory, and changes go on", plural(standing.waiting, "record"))
    });
    let lost = standing.lost.as_ref().map(|lost| {
        format!("records {} to {} are missing: cut off or removed, or never written", lost.start(), lost.end())
    });
    let told: Vec<String> = failing.into_iter().chain(lost).collect();
    CheckView {
        name: "Audit log",
        succeeded: told.is_empty(),
        description: "Check if the audit log can be written, and its end was there at the start",
        diagnosis_message: if told.is_empty() { "all records are written".to_owned() } else { told.join(" || ") },
    }
}

fn counted(name: &'static str, description: &'static str, count: u64, what: &str) -> CheckView {
    let diagnosis_message = format!("There were {count} {what} logged in the metrics");
    CheckView { name, succeeded: count == 0, description, diagnosis_message }
}

fn listed(name: &'static str, description: &'static str, lead: &str, found: Vec<&str>) -> CheckView {
    let list = bracketed(found.iter().map(|name| format!("{name:?}")));
    CheckView { name, succeeded: found.is_empty(), description, diagnosis_message: format!("{lead}{list}") }
}

fn bracketed<T: Display>(items: impl Iterator<Item = T>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    format!("[{}]", items.join(" "))
}

fn partitions(views: &[View], fault: impl Fn(&View) -> bool) -> Vec<&str> {
    views.iter().filter(|view| fault(view)).map(|view| &*view.shown).collect()
}

fn node_names(views: &[View], fault: impl Fn(&crate::domain::node::Node) -> bool) -> Vec<&str> {
    views.iter().flat_map(nodes::rows).filter(|node| fault(node)).map(|node| &**node.id()).collect()
}

fn negative_partition(view: &View) -> bool {
    let partition = view.partition();
    let used = partition.queues.get(partition.root).is_some_and(|root| root.allocated().has_negative());
    used || partition.total.has_negative()
}

fn reservation_ratio(view: &View) -> String {
    let (reservations, nodes) = (view.partition().reservations, view.partition().node_by_id.len());
    // Without nodes there is no ratio; the text is what clients know.
    if nodes == 0 { "NaN".to_owned() } else { format!("{:.6}", reservations as f64 / nodes as f64) }
}

/// Keys of allocations on nodes that their application does not know.
fn orphans_on_nodes(view: &View) -> Vec<&str> {
    let partition = view.partition();
    let known = |ix: &AllocIx| {
        let Some(row) = partition.allocs.get(*ix) else { return false };
        partition.by_key(row.app, &row.spec.key) == Some(*ix)
    };
    let key = |ix: &AllocIx| partition.allocs.get(*ix).map_or("", |row| &*row.spec.key);
    nodes::rows(view).flat_map(|node| node.allocs.iter()).filter(|ix| !known(ix)).map(key).collect()
}

/// Keys of allocations of applications whose node is unknown or does not hold them.
fn orphans_on_apps(view: &View) -> Vec<&str> {
    let partition = view.partition();
    let mut held: Vec<Option<NodeIx>> = vec![None; partition.allocs.len()];
    for node in partition.node_by_id.values() {
        for ix in partition.nodes.get(*node).into_iter().flat_map(|row| &row.allocs) {
            if let Some(slot) = held.get_mut(ix.ix()) {
                *slot = Some(*node);
            }
        }
    }
    let apps = partition.app_by_id.values().filter_map(|ix| partition.apps.get(*ix));
    apps.flat_map(|app| app.allocs.keys())
        .filter_map(|ix| Some((ix, partition.allocs.get(*ix)?)))
        .filter(|(ix, row)| row.node.is_none() || held.get(ix.ix()).copied().flatten() != row.node)
        .map(|(_, row)| &*row.spec.key)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{effect::Released, types::Termination};

    // OPS-011: none before the first run; OPS-012: nine checks, healthy without partitions.
    #[test]
    fn first_run() {
        let health = Health::default();
        assert!(health.last().is_none());
        health.run(&[], 0, &Kept::default(), Nanos::from_secs(1));
        let last = health.last().unwrap();
        assert!(last.healthy);
        assert_eq!(last.health_checks.len(), 9);
        assert_eq!(last.health_checks[6].diagnosis_message, "Reservation/node nr ratio: []");
    }

    #[test]
    fn releases_that_are_not_confirmed_for_long_are_a_warning() {
        let release = Released {
            key: "ph1".into(),
            app: "app-1".into(),
            termination: Termination::PlaceholderReplaced,
            message: "".into(),
            confirm: true,
        };
        let row = UnconfirmedRelease { release, since: Nanos::ZERO, age: Nanos::from_secs(372), sent: 6 };
        let sums = UnconfirmedSums { overdue: 3, named: vec![row], ..UnconfirmedSums::default() };
        let all = [("default".into(), sums), ("quiet".into(), UnconfirmedSums::default())];
        let health = Health::default();
        let kept = |unconfirmed: &[_]| Kept { unconfirmed: unconfirmed.to_vec(), ..Kept::default() };
        health.run(&[], 0, &kept(&all), Nanos::from_secs(1));
        let shown = serde_json::to_value(&*health.last().unwrap()).unwrap();
        assert_eq!(shown["Healthy"], true, "the scheduler itself is well");
        assert_eq!(shown["HealthChecks"].as_array().unwrap().len(), 9);
        assert_eq!(shown["Warnings"].as_array().unwrap().len(), 1);
        assert_eq!(
            shown["Warnings"][0]["DiagnosisMessage"],
            "3 in partition default: app-1/ph1 (PLACEHOLDER_REPLACED, for 372s, sent 6 times) and 2 more"
        );
        health.run(&[], 0, &kept(&all[1..]), Nanos::from_secs(2));
        assert!(serde_json::to_value(&*health.last().unwrap()).unwrap().get("Warnings").is_none());
    }

    #[test]
    fn what_runs_after_a_deadline_is_a_warning() {
        let health = Health::default();
        let overdue = vec![("default".into(), OverdueDrains { count: 3, nodes: Vec::new() })];
        health.run(&[], 0, &Kept { overdue, ..Kept::default() }, Nanos::from_secs(1));
        let shown = serde_json::to_value(&*health.last().unwrap()).unwrap();
        assert_eq!((&shown["Healthy"], &shown["Warnings"][0]["Name"]), (&true.into(), &"Overdue drains".into()));
        assert_eq!(shown["Warnings"][0]["DiagnosisMessage"], "3 in partition default:  and 3 more");
    }

    #[test]
    fn a_data_directory_that_is_gone_is_unhealthy() {
        let health = Health::default();
        health.run(&[], 0, &Kept { data: vec!["data: gone".to_owned()], ..Kept::default() }, Nanos::from_secs(1));
        let shown = serde_json::to_value(&*health.last().unwrap()).unwrap();
        let check = &shown["HealthChecks"][9];
        let told = (&shown["Healthy"], &check["Name"], &check["DiagnosisMessage"]);
        assert_eq!(told, (&false.into(), &"Data directory".into(), &"data: gone".into()));
        health.run(&[], 0, &Kept::default(), Nanos::from_secs(2));
        assert!(health.last().unwrap().is_healthy());
    }

    #[test]
    fn a_partition_that_does_not_answer_is_unhealthy() {
        let health = Health::default();
        health.run(&[], 0, &Kept { silent: vec!["it hangs".to_owned()], ..Kept::default() }, Nanos::from_secs(1));
        let shown = serde_json::to_value(&*health.last().unwrap()).unwrap();
        let last = shown["HealthChecks"].as_array().and_then(|checks| checks.last()).unwrap();
        assert_eq!((&shown["Healthy"], &last["Name"]), (&false.into(), &"Partitions answer".into()));
        assert_eq!(last["DiagnosisMessage"], "it hangs");
    }

    #[test]
    fn damage_of_a_journal_is_unhealthy() {
        let health = Health::default();
        let run = |faults: &[&str]| {
            let faults = faults.iter().map(|fault| (*fault).to_owned()).collect();
            let journals = Some(vec![("[rm]a".into(), faults), ("[rm]b".into(), Vec::new())]);
            health.run(&[], 0, &Kept { journals, ..Kept::default() }, Nanos::from_secs(1));
            let last = health.last().unwrap();
            (last.healthy, last.health_checks[9].diagnosis_message.clone())
        };
        assert_eq!(run(&[]), (true, "2 journals are in order".to_owned()));
        assert_eq!(run(&["one", "two"]), (false, "[rm]a: one | two".to_owned()));
        assert_eq!(run(&["x"; 8]).1, "[rm]a: x | x | x | x | x | and 3 more");
    }

    #[test]
    fn a_log_that_cannot_be_written_is_unhealthy() {
        let health = Health::default();
        let run = |faults: &[&str]| {
            let logs = Some(faults.iter().map(|fault| (*fault).to_owned()).collect());
            health.run(&[], 0, &Kept { logs, ..Kept::default() }, Nanos::from_secs(1));
            let last = health.last().unwrap();
            (last.healthy, last.health_checks[9].diagnosis_message.clone())
        };
        assert_eq!(run(&[]), (true, "all logs can be written".to_owned()));
        assert_eq!(run(&["one", "two"]), (false, "one | two".to_owned()));
        assert_eq!(run(&["x"; 8]).1, "x | x | x | x | x | and 3 more");
    }

    #[test]
    fn an_audit_log_that_cannot_be_written_is_unhealthy() {
        let health = Health::default();
        let run = |standing: Standing| {
            health.run(&[], 0, &Kept { audit: Some(standing), ..Kept::default() }, Nanos::from_secs(1));
            let last = health.last().unwrap();
            (last.healthy, last.health_checks[9].diagnosis_message.clone())
        };
        assert_eq!(run(Standing::default()), (true, "all records are written".to_owned()));
        let failing = Standing { waiting: 3, failing: Some("disk full".into()), lost: None };
        let why = "disk full; 3 records wait in memory, and changes go on";
        assert_eq!(run(failing.clone()), (false, why.to_owned()));
        let lost = "records 3 to 5 are missing: cut off or removed, or never written";
        assert_eq!(run(Standing { lost: Some(3..=5), ..Standing::default() }), (false, lost.to_owned()));
        assert_eq!(run(Standing { lost: Some(3..=5), ..failing }), (false, format!("{why} || {lost}")));
    }

    // OPS-013: an error counts for an hour, not for ever.
    #[test]
    fn errors_recover() {
        let health = Health::default();
        let errors_at = |total, secs| {
            health.faults.store(total, Relaxed);
            health.run_with(&[], Vec::new(), 0, &Kept::default(), Nanos::from_secs(secs));
            health.last().unwrap().health_checks[0].diagnosis_message.clone()
        };
        assert_eq!(errors_at(0, 0), "There were 0 scheduling errors logged in the metrics");
        assert_eq!(errors_at(2, 30), "There were 2 scheduling errors logged in the metrics");
        assert!(!health.last().unwrap().healthy);
        assert_eq!(errors_at(3, 3000), "There were 3 scheduling errors logged in the metrics");
        assert_eq!(errors_at(3, 3629), "There were 3 scheduling errors logged in the metrics");
        assert_eq!(errors_at(3, 3630), "There were 1 scheduling errors logged in the metrics");
        assert_eq!(errors_at(3, 6600), "There were 0 scheduling errors logged in the metrics");
        assert!(health.last().unwrap().healthy);
    }
}
