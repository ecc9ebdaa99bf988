//! Who would suffer from another configuration: applications that would not be admitted, quotas below what is used.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Exceeded, NotAdmitted};
use crate::{
    acl::Groups,
    app::App,
    partition::Partition,
    placement::{self, QueuePlacement, Submission},
    queue::Queue,
    resources::clamp,
    types::{AppIx, AppState, Nanos, ObjectState},
    ugm::{LimitRefusal, Who},
};

fn not_admitted(row: &App, reason: String) -> NotAdmitted {
    NotAdmitted { app: row.id.clone(), queue: row.queue_path.clone(), user: row.user.clone(), state: row.state, reason }
}

/// The first so many by id, each with the first reason that there is.
struct First {
    most: usize,
    rows: BTreeMap<Arc<str>, NotAdmitted>,
    all: BTreeSet<AppIx>,
}

impl First {
    fn of(most: usize) -> First {
        First { most, rows: BTreeMap::new(), all: BTreeSet::new() }
    }

    fn add(&mut self, ix: AppIx, row: &App, reason: impl FnOnce() -> String) {
        let is_listed = |rows: &BTreeMap<Arc<str>, _>| rows.last_key_value().is_some_and(|(last, _)| row.id < *last);
        if !self.all.insert(ix) || (self.rows.len() == self.most && !is_listed(&self.rows)) {
            return;
        }
        self.rows.insert(row.id.clone(), not_admitted(row, reason()));
        if self.rows.len() > self.most {
            self.rows.pop_last();
        }
    }

    /// Them, and how many more there are.
    fn listed(self) -> (Vec<NotAdmitted>, usize) {
        let more = self.all.len() - self.rows.len();
        (self.rows.into_values().collect(), more)
    }
}

/// Applications that are admitted and run now, and would not if they were submitted after the change: the first by id, each with
/// the first reason that there is, and how many more there are.
pub(super) fn applications(now: &Partition, then: &Partition, most: usize) -> (Vec<NotAdmitted>, usize) {
    let mut refused = First::of(most);
    for ix in now.app_by_id.values() {
        let row = &now.apps[*ix];
        if !matches!(row.state, AppState::New | AppState::Accepted | AppState::Running | AppState::Resuming) {
            continue;
        }
        let reason = then.refuses(row).filter(|_| now.refuses(row).is_none());
        if let Some(reason) = reason.or_else(|| newly_held(now, then, *ix)) {
            refused.add(*ix, row, || reason);
        }
    }
    too_many(then, &mut refused);
    refused.listed()
}

/// The same where all of them go with their partition.
pub(super) fn all(now: &Partition, most: usize) -> (Vec<NotAdmitted>, usize) {
    let mut all = First::of(most);
    for ix in now.app_by_id.values() {
        all.add(*ix, &now.apps[*ix], || "its partition would be removed".to_owned());
    }
    all.listed()
}

impl Partition {
    /// Why an application would be refused if it were submitted now.
    fn refuses(&self, row: &App) -> Option<String> {
        let here = &self.queues[row.queue];
        if !here.is_free() && !here.leaf {
            // CFG-102: whatever rules say of another submission, this one stays where it is.
            return Some(format!(
                "queue {} would be a parent: nothing more is placed in it until it is a leaf again",
                here.path
            ));
        }
        let submission = Submission {
            app: &row.id,
            queue: &row.submitted_queue,
            user: &row.user,
            groups: Groups::new(&row.groups),
            tags: &row.tags,
            forced: row.forced,
        };
        let path = match placement::place(&self.conf.rules, &submission, self) {
            QueuePlacement::Rejected { reason, .. } => {
                let drains = !here.is_free() && here.state == ObjectState::Draining;
                return Some(match drains {
                    true => format!("queue {} would drain: {reason}", here.path),
                    false => reason,
                });
            }
            QueuePlacement::Existing { path } => path,
            // A new queue has room for whatever those above it have; they are looked at.
            QueuePlacement::Create { ancestor, .. } => ancestor,
            QueuePlacement::Recovery => return None,
        };
        let queue = *self.queue_by_path.get(path.as_str())?;
        self.check_gang(queue, row).err().map(|reason| reason.to_string())
    }
}

/// An accepted application that may start now, and would have to wait.
fn newly_held(now: &Partition, then: &Partition, ix: AppIx) -> Option<String> {
    let row = &now.apps[ix];
    if row.state != AppState::Accepted {
        return None;
    }
    if now.full_of_apps(ix).is_none()
        && let Some(queue) = then.full_of_apps(ix)
    {
        return Some(full(&then.queues[queue]));
    }
    let held = |partition: &Partition| partition.apps[ix].track.and_then(|track| partition.ugm.held(track));
    if held(now).is_none() { held(then).map(|refusal| full_for(&refusal)) } else { None }
}

fn full(queue: &Queue) -> String {
    let (path, limit, running) = (&queue.path, queue.max_applications, queue.begun());
    format!("queue {path} would run {} at most, {running} {} running", count(limit), are(running))
}

fn full_for(refusal: &LimitRefusal) -> String {
    let who = shown(refusal.who);
    let LimitRefusal { name, queue, limit, applications, .. } = refusal;
    let (limit, are) = (count(limit.applications), are(*applications));
    format!("{who} {name} would run {limit} at most in queue {queue}, {applications} {are} running")
}

fn count(applications: u64) -> String {
    format!("{applications} {}", if applications == 1 { "application" } else { "applications" })
}

const fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn shown(who: Who) -> &'static str {
    match who {
        Who::User => "user",
        Who::Group => "group",
    }
}

/// Applications that run beyond what would be allowed: those that started last. They go on, but would not start again.
fn too_many(then: &Partition, refused: &mut First) {
    for (at, queue) in then.queues.iter().filter(|(_, queue)| queue.max_applications > 0) {
        if queue.begun() > queue.max_applications {
            let live = then.app_by_id.values().copied();
            let below = live.filter(|ix| counts(then, *ix) && then.is_below(then.apps[*ix].queue, at));
            for ix in last(then, below, queue.max_applications) {
                refused.add(ix, &then.apps[ix], || full(queue));
            }
        }
    }
    for (refusal, ids) in then.ugm.above() {
        if refusal.limit.applications > 0 && refusal.applications > refusal.limit.applications {
            let counted = ids.iter().filter_map(|id| then.app_by_id.get(id).copied());
            for ix in last(then, counted, refusal.limit.applications) {
                refused.add(ix, &then.apps[ix], || full_for(&refusal));
            }
        }
    }
}

fn counts(partition: &Partition, ix: AppIx) -> bool {
    let row = &partition.apps[ix];
    row.state == AppState::Running || partition.queues[row.queue].allocating.contains(&ix)
}

/// All but the first `limit` of these applications, by the time at which they started.
fn last(partition: &Partition, apps: impl Iterator<Item = AppIx>, limit: u64) -> impl Iterator<Item = AppIx> {
    let mut apps: Vec<_> = apps.map(|ix| (&partition.apps[ix], ix)).collect();
    apps.sort_by_key(|(row, _)| (row.started.unwrap_or(Nanos(i64::MAX)), row.serial));
    let beyond: Vec<AppIx> =
        apps.into_iter().skip(usize::try_from(limit).unwrap_or(usize::MAX)).map(|(_, ix)| ix).collect();
    beyond.into_iter()
}

/// Every quota and limit below what is used.
pub(super) fn exceeded(before: &Partition, then: &Partition, now: Nanos) -> Vec<Exceeded> {
    let mut all = Vec::new();
    for row in then.queues.values() {
        let (queue, who) = (row.path.clone(), None);
        let preempted_after =
            row.quota_start.filter(|_| then.conf.quota_preemption).map(|at| at.minus(now).max(Nanos::ZERO));
        let old = before.queue_by_path.get(&row.path).and_then(|ix| before.queues[*ix].max.as_ref());
        let waits = then.conf.quota_preemption && row.managed && row.settings.quota_preemption_delay > Nanos::ZERO;
        // The cluster may be too small as well; that is nobody's setting.
        for (kind, limit) in row.max.iter().filter(|_| row.parent.is_some()).flat_map(|max| max.iter()) {
            let used = row.allocated.amount(kind);
            if used > limit {
                let (queue, who, what) = (queue.clone(), None, kind.name().into());
                let first = waits && preempted_after.is_none() && old.is_none_or(|old| old.get(kind).is_none());
                all.push(Exceeded { queue, who, what, limit: clamp(limit), used: clamp(used), preempted_after, first });
            }
        }
        if row.max_applications > 0 && row.begun() > row.max_applications {
            let (limit, used) = (number(row.max_applications), number(row.begun()));
            all.push(Exceeded {
                queue,
                who,
                what: APPLICATIONS.into(),
                limit,
                used,
                preempted_after: None,
                first: false,
            });
        }
    }
    for (LimitRefusal { who, name, queue, limit, used, applications, .. }, _) in then.ugm.above() {
        let of = |what: &str, limit, used| Exceeded {
            queue: queue.clone(),
            who: Some((who, name.clone())),
            what: what.into(),
            limit,
            used,
            preempted_after: None,
            first: false,
        };
        for (kind, max) in limit.resources.iter().flat_map(|max| max.iter()) {
            if used.amount(kind) > max {
                all.push(of(kind.name(), clamp(max), clamp(used.amount(kind))));
            }
        }
        if limit.applications > 0 && applications > limit.applications {
            all.push(of(APPLICATIONS, number(limit.applications), number(applications)));
        }
    }
    all.sort_by(|a, b| (&a.queue, &a.who, &a.what).cmp(&(&b.queue, &b.who, &b.what)));
    all
}

const APPLICATIONS: &str = "maxapplications";

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
