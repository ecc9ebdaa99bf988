//! Samples of partitions: what queues, users and groups have, may have and wait for, and why.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use actix_web::rt::time::{Instant, sleep};
use tokio::task::spawn_blocking;

use super::{
    rows::Rows,
    series::{Measure, Sample, Subject},
};
use crate::{
    domain::{
        partition::Explainer,
        queue::Queue,
        resources::{Resource, clamp},
        types::{Nanos, QueueIx},
        ugm::QueueUsage,
    },
    http::{
        api::board::why,
        ws_v1::{RestState, View, chosen::share, state::now},
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
        let sample: Sample =
            views.iter().map(|(halt, view)| (view.internal.clone(), of_partition(view, halt.as_ref(), at))).collect();
        trends.take(sample, at);
    });
    if let Err(error) = sampled.await {
        tracing::error!(code = "trends-not-sampled", %error, "no sample for the charts was taken");
    }
}

/// Texts that many rows have, each of them once.
#[derive(Default)]
struct Texts<'a> {
    texts: HashSet<Arc<str>>,
    /// The levels of a path.
    levels: HashMap<&'a str, Arc<[Arc<str>]>>,
}

impl<'a> Texts<'a> {
    fn of(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    fn levels(&mut self, path: &'a str) -> Arc<[Arc<str>]> {
        if let Some(known) = self.levels.get(path) {
            return known.clone();
        }
        let all: Arc<[Arc<str>]> = levels(path).map(|level| self.of(level)).collect();
        self.levels.insert(path, all.clone());
        all
    }
}

/// The sample of one partition while it is made.
struct Sampled<'a> {
    rows: Rows,
    texts: Texts<'a>,
    /// What users and groups use and want of all there is.
    users: HashMap<Arc<str>, u64>,
    groups: HashMap<Arc<str>, u64>,
}

impl Sampled<'_> {
    fn add(&mut self, subject: &Subject, share: u64, measure: Measure, amounts: &Resource) {
        for (kind, amount) in amounts.iter().filter(|(_, amount)| *amount != 0 || measure == Measure::Max) {
            let key = (measure, self.texts.of(kind.name()));
            self.rows.add(subject, share, key, clamp(amount));
        }
    }

    /// What a user or group has in a queue and those below it, as far as there is room.
    fn usage(&mut self, usage_of: &QueueUsage, share: u64, whose: &dyn Fn(Arc<str>) -> Subject) {
        let subject = whose(self.texts.of(&usage_of.path));
        if self.rows.is_out(&subject, share) {
            return;
        }
        self.add(&subject, share, Measure::Used, &usage_of.usage);
        usage_of.max_resources.iter().for_each(|amounts| self.add(&subject, share, Measure::Max, amounts));
        for below in &usage_of.children {
            self.usage(below, share, whose);
        }
    }
}

fn of_partition(view: &View, halt: Option<&Halt>, at: Nanos) -> Rows {
    let partition = view.partition();
    let total = &partition.total;
    let mut sampled =
        Sampled { rows: Rows::default(), texts: Texts::default(), users: HashMap::new(), groups: HashMap::new() };
    let usage_shown = partition.usage();
    let waits =
        || partition.app_by_id.values().filter_map(|ix| partition.apps.get(*ix)).filter(|app| !app.pending().is_zero());
    // Which group an application counts for.
    let mut groups: HashMap<Arc<str>, Arc<str>> = HashMap::new();
    // Who uses most is known before rows are made, so that there are never more of them than there may be.
    for user in usage_shown.users() {
        groups.extend(user.groups);
        sampled.users.insert(user.name, share(&user.root.usage, total));
    }
    for group in usage_shown.groups() {
        sampled.groups.insert(group.name, share(&group.root.usage, total));
    }
    for app in waits() {
        let pending = share(app.pending(), total);
        let group = groups.get(&app.id).map(|group| sampled.groups.entry(group.clone()).or_default());
        for all in group.into_iter().chain([sampled.users.entry(app.user.clone()).or_default()]) {
            *all = all.saturating_add(pending);
        }
    }
    let mut open: Vec<QueueIx> = vec![partition.root];
    while let Some(queue) = open.pop().and_then(|ix| partition.queues.get(ix)) {
        let (subject, share) = (Subject::Queue(sampled.texts.of(&queue.path)), queue_share(queue, total));
        sampled.add(&subject, share, Measure::Used, &queue.placed());
        sampled.add(&subject, share, Measure::Pending, &queue.waiting());
        queue.guaranteed.iter().for_each(|amounts| sampled.add(&subject, share, Measure::Guaranteed, amounts));
        // What all nodes have is the max of all queues together.
        let max = if queue.parent.is_none() { Some(total) } else { queue.max.as_deref() };
        max.into_iter().for_each(|amounts| sampled.add(&subject, share, Measure::Max, amounts));
        open.extend(queue.children.values());
    }
    for user in usage_shown.users() {
        let share = sampled.users.get(&user.name).copied().unwrap_or_default();
        sampled.usage(&user.root, share, &|queue| Subject::User(user.name.clone(), queue));
    }
    for group in usage_shown.groups() {
        let share = sampled.groups.get(&group.name).copied().unwrap_or_default();
        sampled.usage(&group.root, share, &|queue| Subject::Group(group.name.clone(), queue));
    }
    let mut explainer = Explainer::new(partition);
    for ix in partition.app_by_id.values() {
        let Some(app) = partition.apps.get(*ix).filter(|app| !app.pending().is_zero()) else { continue };
        let waiting: Vec<_> = explainer
            .application(*ix, at)
            .iter()
            .map(|waiting| {
                let key = (Measure::Waiting, sampled.texts.of(why::code(waiting, halt)));
                (key, i64::try_from(waiting.asks).unwrap_or(i64::MAX))
            })
            .collect();
        let levels = sampled.texts.levels(&app.queue_path);
        let user = sampled.users.get(&app.user).copied().unwrap_or_default();
        let group = groups.get(&app.id).map(|group| (group, sampled.groups.get(group).copied().unwrap_or_default()));
        for queue in levels.iter() {
            let mut people = vec![(Subject::User(app.user.clone(), queue.clone()), user)];
            people.extend(group.map(|(group, share)| (Subject::Group(group.clone(), queue.clone()), share)));
            people.retain(|(subject, share)| !sampled.rows.is_out(subject, *share));
            for (subject, share) in people {
                sampled.add(&subject, share, Measure::Pending, app.pending());
                waiting.iter().for_each(|(key, asks)| sampled.rows.add(&subject, share, key.clone(), *asks));
            }
            let of_queue = partition.queue_by_path.get(queue).and_then(|ix| partition.queues.get(*ix));
            if let Some(share) = of_queue.map(|queue| queue_share(queue, total)) {
                let subject = Subject::Queue(queue.clone());
                waiting.iter().for_each(|(key, asks)| sampled.rows.add(&subject, share, key.clone(), *asks));
            }
        }
    }
    sampled.rows
}

fn queue_share(queue: &Queue, total: &Resource) -> u64 {
    share(&queue.placed(), total).saturating_add(share(&queue.waiting(), total))
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
