//! Samples of partitions: what queues, users and groups have, may have and wait for, and why.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use actix_web::rt::time::{Instant, sleep};
use tokio::task::spawn_blocking;

use super::series::{Key, Measure, Sample, Subject};
use crate::{
    domain::{
        partition::Explainer,
        resources::{Resource, clamp},
        types::{Nanos, QueueIx},
        ugm::QueueUsage,
    },
    http::{
        api::board::why,
        ws_v1::{RestState, View, state::now},
    },
    messages::rm::Halt,
};

/// Between two samples.
const EVERY: Duration = Duration::from_secs(10);
/// So many times as long as a sample took, none is taken.
const REST: u32 = 20;

/// Takes samples until it is dropped.
pub async fn go_on(state: Arc<RestState>) {
    loop {
        let began = Instant::now();
        take(&state).await;
        sleep((began.elapsed() * REST).max(EVERY.saturating_sub(began.elapsed()))).await;
    }
}

async fn take(state: &Arc<RestState>) {
    let views = state.led_views().await.into_iter();
    let views: Vec<(Option<Halt>, View)> = views.map(|view| (state.topology.halt(&view.rm), view)).collect();
    let trends = state.trends.clone();
    // All applications are looked at.
    let sampled = spawn_blocking(move || {
        let at = now();
        let mut sample = Sample::new();
        for (halt, view) in &views {
            of_partition(&mut sample, view, halt.as_ref(), at);
        }
        trends.take(sample, at);
    });
    if let Err(error) = sampled.await {
        tracing::error!(code = "trends-not-sampled", %error, "no sample for the charts was taken");
    }
}

/// The rows of one partition.
struct Rows<'a> {
    sample: &'a mut Sample,
    partition: &'a str,
}

impl Rows<'_> {
    fn of(&mut self, subject: Subject) -> &mut BTreeMap<Key, i64> {
        self.sample.entry((self.partition.to_owned(), subject)).or_default()
    }
}

fn set(row: &mut BTreeMap<Key, i64>, measure: Measure, amounts: &Resource) {
    for (kind, amount) in amounts.iter().filter(|(_, amount)| *amount != 0 || measure == Measure::Max) {
        row.insert((measure, kind.name().to_owned()), clamp(amount));
    }
}

fn add(row: &mut BTreeMap<Key, i64>, measure: Measure, amounts: &Resource) {
    for (kind, amount) in amounts.iter().filter(|(_, amount)| *amount != 0) {
        let sum = row.entry((measure, kind.name().to_owned())).or_default();
        *sum = sum.saturating_add(clamp(amount));
    }
}

fn of_partition(sample: &mut Sample, view: &View, halt: Option<&Halt>, at: Nanos) {
    let partition = view.partition();
    let mut rows = Rows { sample, partition: &view.shown };
    let mut open: Vec<QueueIx> = vec![partition.root];
    while let Some(queue) = open.pop().and_then(|ix| partition.queues.get(ix)) {
        let row = rows.of(Subject::Queue(queue.path.to_string()));
        set(row, Measure::Used, &queue.placed());
        set(row, Measure::Pending, &queue.waiting());
        queue.guaranteed.iter().for_each(|amounts| set(row, Measure::Guaranteed, amounts));
        // What all nodes have is the max of all queues together.
        let max = if queue.parent.is_none() { Some(&partition.total) } else { queue.max.as_ref() };
        max.into_iter().for_each(|amounts| set(row, Measure::Max, amounts));
        open.extend(queue.children.values());
    }
    let usage_shown = partition.usage();
    // Which group an application counts for.
    let mut groups: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    for user in usage_shown.users() {
        usage(&mut rows, &user.root, &|queue| Subject::User(user.name.to_string(), queue));
        groups.extend(user.groups.iter().map(|(app, group)| (app.clone(), group.clone())));
    }
    for group in usage_shown.groups() {
        usage(&mut rows, &group.root, &|queue| Subject::Group(group.name.to_string(), queue));
    }
    let mut explainer = Explainer::new(partition);
    for ix in partition.app_by_id.values() {
        let Some(app) = partition.apps.get(*ix).filter(|app| !app.pending.is_zero()) else { continue };
        let waiting: Vec<_> =
            explainer.application(*ix, at).iter().map(|waiting| (why::code(waiting, halt), waiting.asks)).collect();
        let group = groups.get(&app.id);
        for queue in levels(&app.queue_path) {
            let mut pending = vec![Subject::User(app.user.to_string(), queue.to_owned())];
            pending.extend(group.map(|group| Subject::Group(group.to_string(), queue.to_owned())));
            for subject in &pending {
                add(rows.of(subject.clone()), Measure::Pending, &app.pending);
            }
            pending.push(Subject::Queue(queue.to_owned()));
            for subject in pending {
                let row = rows.of(subject);
                for (code, asks) in &waiting {
                    let sum = row.entry((Measure::Waiting, (*code).to_owned())).or_default();
                    *sum = sum.saturating_add(i64::try_from(*asks).unwrap_or(i64::MAX));
                }
            }
        }
    }
}

fn usage(rows: &mut Rows, usage_of: &QueueUsage, subject: &dyn Fn(String) -> Subject) {
    let row = rows.of(subject(usage_of.path.to_string()));
    set(row, Measure::Used, &usage_of.usage);
    usage_of.max_resources.iter().for_each(|amounts| set(row, Measure::Max, amounts));
    for below in &usage_of.children {
        usage(rows, below, subject);
    }
}

/// A queue and those above it.
fn levels(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').map(|(at, _)| &path[..at]).chain([path])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_levels() {
        assert_eq!(levels("root.a.b").collect::<Vec<_>>(), ["root", "root.a", "root.a.b"]);
        assert_eq!(levels("root").collect::<Vec<_>>(), ["root"]);
    }
}
