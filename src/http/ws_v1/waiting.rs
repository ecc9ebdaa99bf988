//! Why asks wait, and who uses most, counted for metrics. All applications have to be looked at for that, so a scrape shows what was counted
//! last and has it counted anew beside, at most so often that it costs a twentieth of a processor.

use std::{
    cmp::Reverse,
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
    chosen::share,
    state::{now, views},
};
use crate::{
    actors::topology::Topology,
    config::extra::Settings,
    domain::{partition::Explainer, resources::Resource, ugm::Who},
    http::api::board::why,
    messages::rm::Halt,
};

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

/// What was counted of a partition.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Asks that wait, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The same by the path of their queue.
    pub queues: BTreeMap<(Arc<str>, &'static str), u64>,
    /// What those users have who have the largest shares, as many as `metrics.topUsers` says.
    pub users: Vec<(Arc<str>, Resource)>,
}

/// By partition as shown.
type ByPartition = BTreeMap<String, Counted>;

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
        let views = views(&topology.directory.get().led()).await.into_iter();
        let views: Vec<(Option<Halt>, View)> = views.map(|view| (topology.halt(&view.rm), view)).collect();
        let most = Settings::read(&topology.process.get()).metrics_top_users;
        let counted = spawn_blocking(move || {
            let began = Instant::now();
            let of =
                |(halt, view): &(Option<Halt>, View)| (view.shown.to_string(), of_partition(view, halt.as_ref(), most));
            let asks = views.iter().map(of).collect();
            Count { asks, at: Instant::now(), took: began.elapsed() }
        });
        match counted.await {
            Ok(counted) => self.last.store(Some(Arc::new(counted))),
            Err(error) => tracing::error!(code = "waiting-uncounted", %error, "waiting asks were not counted"),
        }
    }
}

fn of_partition(view: &View, halt: Option<&Halt>, users: usize) -> Counted {
    let mut explainer = Explainer::new(view.partition());
    let at = now();
    // So that an alert on them has something to compare with from the start.
    let mut queues = BTreeMap::new();
    let mut reasons: BTreeMap<&'static str, u64> =
        ["nodes", "queueQuota", "userQuota", "tooLarge"].into_iter().map(|code| (code, 0)).collect();
    for app in view.partition().app_by_id.values() {
        let queue = &view.partition().apps[*app].queue_path;
        for waiting in explainer.application(*app, at) {
            let code = why::code(&waiting, halt);
            *reasons.entry(code).or_default() += waiting.asks;
            *queues.entry((queue.clone(), code)).or_default() += waiting.asks;
        }
    }
    Counted { reasons, queues, users: top(view, users) }
}

/// The users with the largest shares of what all of them have, by name.
fn top(view: &View, most: usize) -> Vec<(Arc<str>, Resource)> {
    if most == 0 {
        return Vec::new();
    }
    let (mut used, mut whole): (BTreeMap<Arc<str>, Resource>, Resource) = Default::default();
    for (who, name, _, usage) in view.partition().ugm.charges() {
        if who == Who::User && !usage.is_empty() {
            let user = used.entry(name.clone()).or_default();
            *user = user.plus(usage);
            whole = whole.plus(usage);
        }
    }
    let mut users: Vec<_> = used.into_iter().map(|(name, used)| (Reverse(share(&used, &whole)), name, used)).collect();
    users.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    users.truncate(most);
    users.into_iter().map(|(_, name, used)| (name, used)).collect()
}
