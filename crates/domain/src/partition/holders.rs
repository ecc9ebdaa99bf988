//! Who holds what an ask waits for: the applications, users and queues with the largest part of what is short.

use std::{collections::BTreeMap, sync::Arc};

use super::{Nodes, Partition, Unfit, Waiting, Why};
use crate::{
    app::App,
    resources::{Resource, ResourceType},
    types::{AppState, NodeIx, QueueIx},
    ugm::{LimitRefusal, Who},
};

/// How many of each kind are told.
const TOLD: usize = 3;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holders {
    /// The type that is short most; `None`: running applications are counted.
    pub kind: Option<ResourceType>,
    /// Applications, the one with the largest part first; of those that are counted, those that began first.
    pub applications: Vec<Holder>,
    /// The users who hold most of it.
    pub users: Vec<Holder>,
    /// Leaf queues.
    pub queues: Vec<Holder>,
    /// Held on the nodes by other schedulers.
    pub foreign: i128,
    /// All of it.
    pub total: i128,
}

/// One that holds a part.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// Application id, user, or queue path.
    pub name: Arc<str>,
    /// Its part: memory in bytes, vcore in milli.
    pub amount: i128,
}

/// Sums by name.
#[derive(Default)]
struct Sums {
    applications: BTreeMap<Arc<str>, i128>,
    users: BTreeMap<Arc<str>, i128>,
    queues: BTreeMap<Arc<str>, i128>,
}

impl Sums {
    fn add(&mut self, app: &App, amount: i128) {
        if amount > 0 {
            *self.applications.entry(app.id.clone()).or_default() += amount;
            *self.users.entry(app.user.clone()).or_default() += amount;
            *self.queues.entry(app.queue_path.clone()).or_default() += amount;
        }
    }

    fn holders(self, kind: Option<ResourceType>, foreign: i128) -> Holders {
        let total = self.users.values().sum::<i128>() + foreign;
        let (applications, users, queues) = (most(self.applications), most(self.users), most(self.queues));
        Holders { kind, applications, users, queues, foreign, total }
    }
}

fn most(sums: BTreeMap<Arc<str>, i128>) -> Vec<Holder> {
    let mut all: Vec<Holder> = sums.into_iter().map(|(name, amount)| Holder { name, amount }).collect();
    all.sort_by_key(|holder| std::cmp::Reverse(holder.amount));
    all.truncate(TOLD);
    all
}

/// The type of which the largest part of what is wanted is missing.
fn shortest(wanted: &Resource, left: impl Fn(&ResourceType) -> Option<i128>) -> Option<ResourceType> {
    let missing = |(kind, wanted): (&ResourceType, i128)| {
        let missing = wanted - left(kind)?.max(0);
        (missing > 0).then(|| (kind.clone(), missing as f64 / wanted as f64))
    };
    let short = wanted.iter().filter(|(_, amount)| *amount > 0).filter_map(missing);
    short.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(kind, _)| kind)
}

impl Partition {
    /// Who holds what these asks wait for; `None` where nobody does.
    pub fn holders(&self, waiting: &Waiting) -> Option<Holders> {
        let wanted = &*waiting.wanted;
        match &waiting.why {
            Why::RunningApps { queue, .. } => {
                // One that has reserved a node counts (QUE-090).
                self.running(*self.queue_by_path.get(queue)?, |app| has_begun(app) || !app.reservations.is_empty())
            }
            Why::UserApps(refusal) => {
                let queue = *self.queue_by_path.get(&refusal.queue)?;
                self.running(queue, |app| has_begun(app) && self.is_charged_to(app, refusal))
            }
            Why::QueueQuota { queue, max, used, promised } | Why::GangRoom { queue, max, used, promised, .. } => {
                let kind = shortest(wanted, |kind| Some(max.get(kind)? - used.amount(kind) - promised.amount(kind)))?;
                self.below(*self.queue_by_path.get(queue)?, kind, |_| true)
            }
            Why::UserQuota(refusal) => {
                let max = refusal.limit.resources.as_ref()?;
                let taken = refusal.used.plus(&refusal.promised);
                let kind = shortest(wanted, |kind| Some(max.get(kind)? - taken.amount(kind)))?;
                let queue = *self.queue_by_path.get(&refusal.queue)?;
                self.below(queue, kind, |app| self.is_charged_to(app, refusal))
            }
            Why::RequiredNode { node, why: Unfit::Full, free, .. } => {
                let kind = shortest(wanted, |kind| Some(free.as_ref()?.amount(kind)))?;
                self.on_nodes([*self.node_by_id.get(node)?], kind)
            }
            Why::Nodes(nodes) if nodes.full > 0 => self.on_large_nodes(waiting, |kind| most_free(nodes, kind)),
            Why::GangNodes(nodes) => self.on_large_nodes(waiting, |kind| Some(nodes.all_free.amount(kind))),
            _ => None,
        }
    }

    fn on_large_nodes(&self, waiting: &Waiting, left: impl Fn(&ResourceType) -> Option<i128>) -> Option<Holders> {
        // Where each node has something else too little of, none is short: the first that is wanted tells.
        let positive = |(kind, amount): (&ResourceType, i128)| (amount > 0).then(|| kind.clone());
        let kind = shortest(&waiting.wanted, left).or_else(|| waiting.wanted.iter().find_map(positive))?;
        let large = self.node_by_id.values().copied().filter(|node| {
            let row = &self.nodes[*node];
            row.schedulable() && row.capacity.fits(&waiting.resource)
        });
        self.on_nodes(large, kind)
    }

    fn is_charged_to(&self, app: &App, refusal: &LimitRefusal) -> bool {
        match refusal.who {
            Who::User => *app.user == *refusal.name,
            Who::Group => app.track.and_then(|track| self.ugm.group(track)).is_some_and(|name| *name == refusal.name),
        }
    }

    fn apps_below(&self, queue: QueueIx) -> impl Iterator<Item = &App> {
        let apps = self.app_by_id.values().map(|ix| &self.apps[*ix]);
        apps.filter(move |app| self.is_below(app.queue, queue))
    }

    fn below(&self, queue: QueueIx, kind: ResourceType, counts: impl Fn(&App) -> bool) -> Option<Holders> {
        let mut sums = Sums::default();
        for app in self.apps_below(queue).filter(|app| counts(app)) {
            sums.add(app, app.allocated.amount(&kind) + app.gang.allocated.amount(&kind));
        }
        Some(sums.holders(Some(kind), 0)).filter(|holders| holders.total > 0)
    }

    fn on_nodes(&self, nodes: impl IntoIterator<Item = NodeIx>, kind: ResourceType) -> Option<Holders> {
        let (mut sums, mut foreign) = (Sums::default(), 0);
        for node in nodes {
            let row = &self.nodes[node];
            foreign += row.occupied.amount(&kind).max(0);
            for alloc in &row.allocs {
                let alloc = &self.allocs[*alloc];
                sums.add(&self.apps[alloc.app], alloc.resource.amount(&kind));
            }
        }
        Some(sums.holders(Some(kind), foreign)).filter(|holders| holders.total > 0)
    }

    /// The applications that count as running there, each as one.
    fn running(&self, queue: QueueIx, counts: impl Fn(&App) -> bool) -> Option<Holders> {
        let mut sums = Sums::default();
        let mut running: Vec<&App> = self.apps_below(queue).filter(|app| counts(app)).collect();
        running.iter().for_each(|app| sums.add(app, 1));
        running.sort_by_key(|app| (app.started.unwrap_or(app.submission), app.serial));
        let oldest = running.iter().take(TOLD).map(|app| Holder { name: app.id.clone(), amount: 1 }).collect();
        let all = Holders { applications: oldest, ..sums.holders(None, 0) };
        Some(all).filter(|holders| holders.total > 0)
    }
}

fn has_begun(app: &App) -> bool {
    app.state == AppState::Running || !app.allocs.is_empty()
}

fn most_free(nodes: &Nodes, kind: &ResourceType) -> Option<i128> {
    Some(nodes.most_free.amount(kind))
}
