//! Why asks wait, counted for metrics. All applications have to be looked at for that, so a scrape shows what was counted
//! last and has it counted anew beside, at most so often that it costs a twentieth of a processor.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use tokio::task::spawn_blocking;

use super::{
    View,
    state::{now, views},
};
use crate::{actors::topology::Topology, domain::partition::Explainer, http::api::board::why, messages::rm::RmState};

/// What was counted is not older than this when a scrape has it counted anew.
const FRESH: Duration = Duration::from_secs(5);
/// So many times as long as counting took, nothing is counted.
const REST: u32 = 20;

/// See the module.
#[derive(Debug, Default)]
pub struct WaitingAsks {
    last: ArcSwapOption<Count>,
    counting: AtomicBool,
}

/// Asks by partition as shown and by reason.
type ByPartition = BTreeMap<String, BTreeMap<&'static str, u64>>;

#[derive(Debug)]
struct Count {
    asks: ByPartition,
    at: Instant,
    took: Duration,
}

impl WaitingAsks {
    /// What was counted last; the first time it is counted now.
    pub async fn get(self: &Arc<Self>, topology: &Arc<Topology>) -> ByPartition {
        let Some(last) = self.last.load_full() else {
            self.count(topology).await;
            return self.last.load().as_ref().map(|count| count.asks.clone()).unwrap_or_default();
        };
        let due = last.at.elapsed() > FRESH.max(last.took * REST);
        if due && !self.counting.swap(true, SeqCst) {
            let (waiting, topology) = (self.clone(), topology.clone());
            actix_web::rt::spawn(async move {
                waiting.count(&topology).await;
                waiting.counting.store(false, SeqCst);
            });
        }
        last.asks.clone()
    }

    async fn count(&self, topology: &Topology) {
        let running: BTreeMap<Arc<str>, bool> = topology
            .known()
            .iter()
            .map(|handle| (handle.id.clone(), handle.view.load().state == RmState::Running))
            .collect();
        let views = views(&topology.directory.get().led()).await;
        let counted = spawn_blocking(move || {
            let began = Instant::now();
            let paused = |view: &View| !running.get(&view.rm).copied().unwrap_or(false);
            let asks = views.iter().map(|view| (view.shown.to_string(), of_partition(view, paused(view)))).collect();
            Count { asks, at: Instant::now(), took: began.elapsed() }
        });
        match counted.await {
            Ok(counted) => self.last.store(Some(Arc::new(counted))),
            Err(error) => tracing::error!(code = "waiting-uncounted", %error, "waiting asks were not counted"),
        }
    }
}

fn of_partition(view: &View, paused: bool) -> BTreeMap<&'static str, u64> {
    let mut explainer = Explainer::new(view.partition());
    let at = now();
    // So that an alert on them has something to compare with from the start.
    let mut counts: BTreeMap<&'static str, u64> =
        ["nodes", "queueQuota", "userQuota", "tooLarge"].into_iter().map(|code| (code, 0)).collect();
    for app in view.partition().app_by_id.values() {
        for waiting in explainer.application(*app, at) {
            *counts.entry(why::code(&waiting, paused)).or_default() += waiting.asks;
        }
    }
    counts
}
