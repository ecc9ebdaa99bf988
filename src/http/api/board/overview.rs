//! All partitions at a glance.

use std::collections::BTreeMap;

use futures::future::{join, join_all};
use schemars::JsonSchema;
use serde::Serialize;

use super::{BoardApi, nodes, why};
use crate::{
    access::Caller,
    domain::{partition::Explainer, queue::Queue},
    http::{
        api::overdue::OverdueDrains,
        long::{Asker, Broken},
        ws_v1::{View, json::Amounts, nodes::rows, state::now, time_text},
    },
    messages::{
        event::GetEventStatus,
        journal::{GetOverdue, Status},
        partition::GetSnapshot,
        rm::{Halt, RmInfo},
    },
};

/// The answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Time of the server.
    now: String,
    version: &'static str,
    /// Id of the next event, where they are recorded.
    next_event: Option<u64>,
    /// What the reader may do.
    role: &'static str,
    /// Every resource manager that was registered, also those that stopped.
    resource_managers: Vec<ManagerRow>,
    partitions: Vec<PartitionRow>,
    /// Of which partitions, or of whose drains, nothing is known at present, and why. Left out where all answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ResourceManagerOfOverview")]
#[serde(rename_all = "camelCase")]
struct ManagerRow {
    #[serde(rename = "rmID")]
    id: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// Why it is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PartitionOfOverview")]
#[serde(rename_all = "camelCase")]
struct PartitionRow {
    name: String,
    state: &'static str,
    rm: String,
    rm_state: &'static str,
    /// Since when, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    rm_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rm_why: Option<String>,
    /// Why nothing of what is sent is taken, or nothing new placed: its log takes nothing. Left out where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    nodes: NodeCounts,
    applications: BTreeMap<&'static str, usize>,
    allocations: u64,
    capacity: Amounts,
    used: Amounts,
    pending: Amounts,
    waiting: WaitingView,
    /// Drained nodes that were to be empty by now.
    overdue: OverdueDrains,
    /// What is wrong with the files of its resource journal, as its status has it. Left out where nothing is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<String>,
    /// Another server leads it: this is what has reached this one. Left out where this one leads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    standby: Option<StandbyRow>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StandbyOfOverview")]
struct StandbyRow {
    /// Where it is led; empty: nowhere at present.
    leader: String,
    /// Index of the last record that is in it.
    index: u64,
    /// For how many seconds there may have been others.
    lag: f64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodesOfOverview")]
struct NodeCounts {
    total: usize,
    drained: usize,
    reserved: usize,
    torpid: usize,
    offline: usize,
}

#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "WaitingOfOverview")]
struct WaitingView {
    applications: usize,
    asks: u64,
    /// The reason of most asks first.
    reasons: Vec<ReasonRow>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReasonOfOverview")]
struct ReasonRow {
    code: &'static str,
    title: &'static str,
    applications: usize,
    asks: u64,
}

/// Looks at all partitions.
///
/// # Errors
/// It could not be made.
pub async fn overview(api: &BoardApi, caller: &Caller, asker: &Asker) -> Result<Overview, Broken> {
    let mut partitions = Vec::new();
    let fresh = match api.topology.leaders() {
        Some(leaders) => leaders.freshen().await,
        None => Vec::new(),
    };
    let asked = api.topology.known().into_iter().map(async |handle| handle.info().await);
    let listing = api.topology.directory.get();
    // Those that do not answer are waited for together.
    let answers = listing.partitions.iter().map(async |entry| {
        let journal = api.journals.asked(&entry.internal);
        join(entry.addr.send(GetSnapshot), journal.send(GetOverdue)).await.1.unwrap_or_default()
    });
    let (managers, overdue) = join(join_all(asked), join_all(answers)).await;
    let managers: Vec<RmInfo> = managers.into_iter().flatten().collect();
    for (entry, passed) in listing.partitions.iter().zip(overdue) {
        // One that just stopped is left out.
        let Ok((view, turn)) = asker.turn(async || View::of(entry).await, View::rows).await else { continue };
        let status = nodes::status(api, entry).await;
        // Of one that another server leads this one does not know how it is.
        let manager = managers.iter().find(|manager| manager.id == entry.rm && !entry.followed).cloned();
        let standby = entry.followed.then(|| {
            let found = fresh.iter().find(|fresh| fresh.rm == entry.rm);
            let elsewhere = api.topology.find(&entry.rm).and_then(|handle| handle.is_here().err());
            let leader = elsewhere.and_then(|refusal| refusal.leader);
            StandbyRow {
                leader: leader.map_or(String::new(), |leader| leader.http.clone()),
                index: found.map_or(0, |fresh| fresh.index),
                lag: found.map_or(0.0, |fresh| fresh.lag.as_secs_f64()),
            }
        });
        let halt = api.halt(&entry.rm);
        let made = turn.make(move || {
            let overdue = OverdueDrains::of(view.partition(), passed);
            PartitionRow { overdue, standby, ..row(&view, status.as_ref(), manager.as_ref(), halt.as_ref()) }
        });
        let mut row = made.await?;
        if entry.followed {
            row.rm_state = "Followed";
        } else if api.topology.find(&entry.rm).is_none() {
            // A moment of a flight: sessions are not in it.
            row.rm_state = "Recorded";
        }
        partitions.push(row);
    }
    let events = api.topology.events.send(GetEventStatus).await.ok();
    Ok(Overview {
        now: time_text(now()),
        version: env!("CARGO_PKG_VERSION"),
        next_event: events.filter(|events| events.tracking).map(|events| events.next),
        role: caller.role().name(),
        resource_managers: managers.iter().map(manager_row).collect(),
        partitions,
        unanswered: listing.silent().chain(api.journals.silent()).map(|why| why.to_string()).collect(),
    })
}

fn manager_row(manager: &RmInfo) -> ManagerRow {
    let last = manager.history.last();
    ManagerRow {
        id: manager.id.to_string(),
        state: manager.state.name(),
        since: last.map(|change| time_text(change.at)),
        why: why(manager),
    }
}

/// Why it is as it is: what keeps it from being recorded, else why its state changed.
fn why(manager: &RmInfo) -> Option<String> {
    let log = manager.failing.as_ref().or(manager.full.as_ref());
    let why = log.or_else(|| Some(&manager.history.last()?.why))?;
    (!why.is_empty()).then(|| why.to_string())
}

fn row(view: &View, status: Option<&Status>, manager: Option<&RmInfo>, halt: Option<&Halt>) -> PartitionRow {
    let partition = view.partition();
    let root = partition.queues.get(partition.root);
    let mut applications: BTreeMap<&'static str, usize> = BTreeMap::new();
    for app in partition.app_by_id.values().filter_map(|ix| partition.apps.get(*ix)) {
        *applications.entry(app.state.name()).or_default() += 1;
    }
    let targets = || status.into_iter().flat_map(|status| &status.targets);
    let last = manager.and_then(|manager| manager.history.last());
    PartitionRow {
        name: view.shown.to_string(),
        state: partition.state.name(),
        rm: view.rm.to_string(),
        rm_state: manager.map_or("Stopped", |manager| manager.state.name()),
        rm_since: last.map(|change| time_text(change.at)),
        rm_why: manager.and_then(why),
        log: match halt {
            Some(Halt::Log(why)) => Some(why.to_string()),
            _ => None,
        },
        nodes: NodeCounts {
            total: partition.node_by_id.len(),
            drained: rows(view).filter(|node| !node.schedulable()).count(),
            reserved: rows(view).filter(|node| !node.reservations.is_empty()).count(),
            torpid: targets().filter(|target| target.online && target.torpid).count(),
            offline: targets().filter(|target| !target.online).count(),
        },
        applications,
        allocations: partition.placed(),
        capacity: Amounts::from(&partition.total),
        used: Amounts::from(root.map(Queue::placed).as_ref()),
        pending: Amounts::from(root.map(Queue::waiting).as_ref()),
        waiting: waiting(view, halt),
        overdue: OverdueDrains::default(),
        faults: status.map(|status| status.faults.clone()).unwrap_or_default(),
        standby: None,
    }
}

/// What waits, counted by reason.
fn waiting(view: &View, halt: Option<&Halt>) -> WaitingView {
    let partition = view.partition();
    let mut explainer = Explainer::new(partition);
    let at = now();
    let mut counts: BTreeMap<&'static str, (usize, u64)> = BTreeMap::new();
    let mut found = WaitingView::default();
    for ix in partition.app_by_id.values() {
        let waiting = explainer.application(*ix, at);
        found.applications += usize::from(!waiting.is_empty());
        let mut own: BTreeMap<&'static str, u64> = BTreeMap::new();
        for waiting in &waiting {
            found.asks += waiting.asks;
            *own.entry(why::code(waiting, halt)).or_default() += waiting.asks;
        }
        for (code, asks) in own {
            let (applications, sum) = counts.entry(code).or_default();
            *applications += 1;
            *sum += asks;
        }
    }
    found.reasons = counts
        .into_iter()
        .map(|(code, (applications, asks))| ReasonRow { code, title: why::title(code), applications, asks })
        .collect();
    found.reasons.sort_by_key(|row| std::cmp::Reverse(row.asks));
    found
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use actix::{Actor as _, Arbiter};
    use tokio::time::Instant;

    use super::*;
    use crate::{
        actors::{
            directory::PATIENCE,
            event::EventActor,
            journal::Journals,
            topology::{Registration, Topology},
        },
        domain::journal::Settings,
        http::ws_v1::{RestState, watch},
        metrics::Metrics,
    };

    #[actix::test]
    async fn a_journal_that_hangs_holds_up_neither_overview_nor_health() {
        let (other, default) = (Arbiter::new(), crate::config::load("").expect("valid"));
        let topology =
            Topology::new(vec![Arbiter::current()], Topology::launcher(), EventActor::default().start(), default);
        for rm in ["rm-1", "rm-2"] {
            topology.register(Registration { rm: rm.into(), ..Registration::default() }).await.expect("registered");
        }
        let journals = Arc::new(Journals::new(other.handle(), None, Settings::default()));
        let metrics = Arc::new(Metrics::new().expect("metrics"));
        let state = Arc::new(RestState::new(topology.clone(), metrics).with_journals(journals.clone()));
        let api = BoardApi::new(topology, journals);
        let (go_on, until) = mpsc::channel::<()>();
        other.spawn_fn(move || until.recv().unwrap_or_default());
        tokio::time::pause();
        let began = Instant::now();
        let shown = overview(&api, &Caller::Anyone, &Asker::itself("test")).await.expect("made");
        assert_eq!(shown.partitions.len(), 2, "what is known of them is told");
        let told = "the resource journal of partition '[rm-2]default' has not answered within 10s";
        assert!(shown.unanswered.iter().any(|why| why.starts_with(told)), "{:?}", shown.unanswered);
        watch::check(&state).await;
        let health = serde_json::to_string(&*state.health.last().expect("checked")).expect("plain");
        assert!(health.contains(told), "{health}");
        assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());
        drop(go_on);
    }
}
