//! What the handlers read.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::future::join_all;
use tokio::{sync::Mutex, time::timeout};

use super::{
    health::Health,
    history::History,
    nodes,
    reply::{Failure, Reply},
    router::Endpoint,
    scrape::Scrapes,
    url,
    waiting::WaitingAsks,
};
use crate::{
    access::{Audit, audit::Standing},
    actors::{
        directory::{Listing, PartitionEntry, Unanswered},
        journal::{Faults, Journals},
        topology::Topology,
    },
    config::extra::Settings,
    domain::{Partition, partition::Tables, types::Nanos},
    http::{
        api::{overdue::OverdueDrains, trends::series::Trends},
        long::{self, Asker, SharedBy, Turn},
    },
    messages::{
        journal::GetOverdue,
        leaders::GroupStatus,
        partition::{GetSnapshot, GetTables, Observe, Snapshot, UnconfirmedSums},
    },
    metrics::Metrics,
};

/// How long the cluster is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// What decides an answer about a partition: the handler, and what it reads of the path and of the query. What else there may be
/// in a query changes nothing, and so makes no answer of its own.
pub type Wanted = (Endpoint, Vec<String>);

/// Finds out what is wrong with something. May block.
pub type Look = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Shared by all HTTP workers.
pub struct RestState {
    /// Resource managers, partitions and process-wide settings.
    pub topology: Arc<Topology>,
    /// When the server started.
    pub started: Nanos,
    /// Counters and gauges of this process.
    pub metrics: Arc<Metrics>,
    /// Numbers of applications and containers over time, sampled since the start.
    pub history: History,
    /// The last health check.
    pub health: Health,
    /// Why asks wait, as metrics show it.
    pub waiting: Arc<WaitingAsks>,
    /// What was used, allowed and waited for over time.
    pub trends: Arc<Trends>,
    /// State dumps are made one at a time (OPS-020).
    pub dumping: Arc<Mutex<()>>,
    /// Answers to scrapes that are being made.
    pub scrapes: Scrapes,
    /// Nodes as they were listed last.
    pub nodes: Arc<nodes::Lists>,
    /// Long answers that somebody reads, by the partition and what was asked for of it.
    lists: SharedBy<(Arc<str>, Wanted), Made>,
    /// Resource journals.
    journals: Option<Arc<Journals>>,
    /// What is gone of the data directory, where there is one.
    gone: Option<Look>,
    /// Who changed what, where that is kept on disk.
    audit: Option<Arc<Audit>>,
}

impl RestState {
    /// The state of a server that starts now.
    pub fn new(topology: Arc<Topology>, metrics: Arc<Metrics>) -> RestState {
        RestState {
            topology,
            started: now(),
            metrics,
            history: History::default(),
            health: Health::default(),
            waiting: Arc::default(),
            trends: Arc::default(),
            dumping: Arc::default(),
            scrapes: Scrapes::default(),
            nodes: Arc::default(),
            lists: SharedBy::default(),
            journals: None,
            gone: None,
            audit: None,
        }
    }

    /// The same, with resource journals whose files are told of where they are kept.
    pub fn with_journals(self, journals: Arc<Journals>) -> RestState {
        RestState { journals: Some(journals), ..self }
    }

    /// The same, with a data directory, which is looked at so, and the audit log in it.
    pub fn with_data(self, data: Option<(Look, Arc<Audit>)>) -> RestState {
        let (gone, audit) = data.unzip();
        RestState { gone, audit, ..self }
    }

    /// What is gone of the data directory. Blocks while it looks.
    pub fn faults_of_data(&self) -> Vec<String> {
        self.gone.as_ref().map_or_else(Vec::new, |look| look())
    }

    /// How far the files of the audit log are behind, where there are any.
    pub fn audit(&self) -> Option<Standing> {
        self.audit.as_ref().map(|audit| audit.standing())
    }

    fn kept_journals(&self) -> Option<&Arc<Journals>> {
        self.journals.as_ref().filter(|journals| journals.are_kept())
    }

    /// Drained nodes that were to be empty by now, by partition as shown.
    pub async fn overdue(&self, views: &[View]) -> Vec<(Arc<str>, OverdueDrains)> {
        let Some(journals) = &self.journals else { return Vec::new() };
        let asked = views.iter().map(|view| journals.asked(&view.internal).send(GetOverdue));
        // Those that do not answer are waited for together.
        let passed = join_all(asked).await.into_iter().map(Result::unwrap_or_default);
        let all = views.iter().zip(passed).filter(|(_, passed)| !passed.is_empty());
        all.map(|(view, passed)| (view.shown.clone(), OverdueDrains::of(view.partition(), passed))).collect()
    }

    /// What this server leads and cannot be asked at present, and why.
    pub fn silent(&self) -> Vec<String> {
        let journals = self.journals.iter().flat_map(|journals| journals.silent());
        self.listing().led().silent().chain(journals).map(|why| why.to_string()).collect()
    }

    /// What an operator has to know of the journals' files. Blocks while it looks what was settled.
    pub fn faults_of_journals(&self) -> Option<Vec<(Arc<str>, Vec<String>)>> {
        let told = |(name, faults): (Arc<str>, Arc<Faults>)| {
            faults.look();
            (name, faults.all())
        };
        self.kept_journals().map(|journals| journals.faults().into_iter().map(told).collect())
    }

    /// Numbers of those, by the names of the partitions that are shown where they are registered, else by internal ones: of the
    /// latter where there are any, for journals outlive their partitions.
    pub fn counts_of_faults(&self) -> Vec<(String, u64)> {
        let listing = self.listing();
        let shown: HashMap<_, _> = listing.partitions.iter().map(|entry| (&entry.internal, &entry.shown)).collect();
        let journals = self.kept_journals().into_iter().flat_map(|journals| journals.faults());
        let counted = journals.filter_map(|(name, faults)| {
            let (shown, count) = (shown.get(&name), faults.count() as u64);
            (shown.is_some() || count > 0).then(|| (shown.map_or(&name, |shown| shown).to_string(), count))
        });
        counted.collect()
    }

    /// The present resource managers and partitions.
    pub fn listing(&self) -> Arc<Listing> {
        self.topology.directory.get()
    }

    /// The settings that hold for the process.
    pub fn settings(&self) -> Settings {
        Settings::read(&self.topology.process.get())
    }

    /// A partition by the name that is shown or by its internal one.
    pub async fn view(&self, name: &str) -> Result<View, Failure> {
        let listing = self.listing();
        let entry = url::named(name, |name| listing.partition(name)).ok_or_else(no_partition)?;
        View::of(entry).await.map_err(|_| no_partition())
    }

    /// An answer about a partition. One of many rows does not hold up what else its worker does, and those who want the same at
    /// the same time, or while a slow reader still has it and nothing has changed, have one text.
    ///
    /// # Errors
    /// There is no such partition, or what `make` says.
    pub async fn about<F>(&self, asker: &Asker, wanted: Wanted, name: &str, make: F) -> Result<Reply, Failure>
    where
        F: FnOnce(&View) -> Result<Reply, Failure> + Send + 'static,
    {
        let view = self.view(name).await?;
        if !long::is_long(view.rows()) {
            return make(&view);
        }
        // What waits for its turn holds no old rows.
        let partition = view.shown.clone();
        drop(view);
        let as_now = async |made: &Made| Ok::<_, Failure>(made.is_of(&self.view(name).await?));
        let make = async |turn: Turn| {
            let view = self.view(name).await?;
            let (snapshot, shown) = (Arc::downgrade(&view.snapshot), view.shown.clone());
            let reply = turn.make(move || make(&view)).await??;
            Ok(Made { snapshot, shown, reply })
        };
        let made = self.lists.of((partition, wanted)).get_in_turn(asker, as_now, make).await?;
        let Reply { status, content_type, cors, .. } = made.reply;
        Ok(Reply { status, content_type, cors, body: long::body(made) })
    }

    /// The same about all partitions.
    ///
    /// # Errors
    /// It could not be made.
    pub async fn about_all<F>(&self, asker: &Asker, make: F) -> Result<Reply, Failure>
    where
        F: FnOnce(&[View]) -> Reply + Send + 'static,
    {
        let rows = |views: &Vec<View>| views.iter().map(View::rows).sum();
        let (views, turn) = asker.turn(async || Ok::<_, Failure>(self.views().await), rows).await?;
        Ok(turn.make(move || make(&views)).await?)
    }

    /// All of them, see [`views`].
    pub async fn views(&self) -> Vec<View> {
        views(&self.listing()).await
    }

    /// Those that this server leads: each is counted by one server.
    pub async fn led_views(&self) -> Vec<View> {
        views(&self.listing().led()).await
    }
}

/// All partitions in the order of the directory; one that just stopped is left out.
pub async fn views(listing: &Listing) -> Vec<View> {
    join_all(listing.partitions.iter().map(View::of)).await.into_iter().flatten().collect()
}

impl RestState {
    /// What shims have not confirmed, by partition as shown.
    pub async fn unconfirmed(&self) -> Vec<(Arc<str>, UnconfirmedSums)> {
        let mut all = Vec::new();
        for entry in &self.listing().led().partitions {
            if let Ok(talk) = entry.addr.send(Observe).await {
                all.push((entry.shown.clone(), talk.unconfirmed));
            }
        }
        all
    }

    /// Resource managers of other servers that this one cannot follow, and would not take over.
    pub async fn faults_of_following(&self) -> Vec<String> {
        let Some(leaders) = self.topology.leaders() else { return Vec::new() };
        // While it is not known who leads what, nothing is known of this either.
        let status = timeout(PATIENCE, leaders.status()).await.ok().and_then(Result::ok);
        let groups = status.into_iter().flat_map(|status| status.resource_managers);
        let told = |group: GroupStatus| {
            Some(format!("resource manager \"{}\" cannot be followed here: {}", group.rm, group.fault?))
        };
        groups.filter_map(told).collect()
    }

    /// Queues and nodes of all partitions that this server leads.
    pub async fn tables(&self) -> Vec<Arc<Tables>> {
        let listing = self.listing().led();
        let asked = listing.partitions.iter().map(|entry| entry.addr.send(GetTables));
        join_all(asked).await.into_iter().flatten().collect()
    }
}

fn no_partition() -> Failure {
    Failure::not_found("Partition not found")
}

/// A long answer, and what it was made of.
struct Made {
    snapshot: Weak<Snapshot>,
    shown: Arc<str>,
    reply: Reply,
}

impl Made {
    fn is_of(&self, view: &View) -> bool {
        self.shown == view.shown && self.snapshot.upgrade().is_some_and(|made| Arc::ptr_eq(&made, &view.snapshot))
    }
}

impl AsRef<[u8]> for Made {
    fn as_ref(&self) -> &[u8] {
        &self.reply.body
    }
}

/// A partition as it was at one moment.
#[derive(Clone)]
pub struct View {
    /// Its resource manager.
    pub rm: Arc<str>,
    /// Its internal name.
    pub internal: Arc<str>,
    /// The name that is shown.
    pub shown: Arc<str>,
    /// Its state then.
    pub snapshot: Arc<Snapshot>,
}

impl View {
    /// This partition, as it is now.
    pub async fn of(entry: &PartitionEntry) -> Result<View, Unanswered> {
        let snapshot = entry.addr.send(GetSnapshot).await?;
        let PartitionEntry { rm, internal, shown, .. } = entry.clone();
        Ok(View { rm, internal, shown, snapshot })
    }

    /// The rows of its state.
    pub fn partition(&self) -> &Partition {
        &self.snapshot.partition
    }

    /// About how many rows there are to tell of.
    pub fn rows(&self) -> usize {
        let partition = self.partition();
        let ended = partition.terminated.len() + partition.rejected.len();
        partition.nodes.len() + partition.queues.len() + partition.apps.len() + partition.allocs.len() + ended
    }
}

/// The time of the moment that is shown, where it is not the present.
static STILL: AtomicI64 = AtomicI64::new(i64::MIN);

/// From now on the time is this: a moment of the past is shown.
pub fn stand_still(at: Nanos) {
    STILL.store(at.0, Relaxed);
}

/// The present time, or that of the moment that is shown.
pub fn now() -> Nanos {
    let still = STILL.load(Relaxed);
    if still != i64::MIN {
        return Nanos(still);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        actors::topology::Registration,
        domain::command::{AddApplication, Command},
        messages::partition::Commands,
    };

    #[actix::test]
    async fn readers_of_a_long_answer_have_one_text_as_long_as_nothing_changes() {
        let topology = crate::actors::rm::tests::topology();
        let queues: String = (0..1_100).map(|n| format!("{{name: q{n}}}, ")).collect();
        let config = format!("partitions: [{{name: default, queues: [{{name: root, queues: [{queues}]}}]}}]");
        let registration = Registration { rm: "rm".into(), config, ..Registration::default() };
        let epoch = topology.register(registration).await.expect("registered").epoch;
        let state = RestState::new(topology, Arc::new(Metrics::new().expect("metrics")));
        let read = async |of: &[&str]| {
            let make = |view: &View| Ok(Reply::list(view.partition().queue_by_path.keys()));
            let wanted = (Endpoint::Queue, of.iter().map(|part| (*part).to_owned()).collect());
            state.about(&Asker::itself("test"), wanted, "default", make).await.expect("a list").body
        };
        let queues = &["root"];
        // What follows a registration may still change something, for a while.
        let mut slow = read(queues).await;
        for _ in 0..100 {
            match read(queues).await {
                again if again.as_ptr() == slow.as_ptr() => break,
                again => slow = again,
            }
        }
        let (again, other) = (read(queues).await, read(&["root", "subtree"]).await);
        assert!(slow.len() > 10_000 && slow == other);
        assert!(slow.as_ptr() == again.as_ptr() && slow.as_ptr() != other.as_ptr());
        let app = AddApplication { id: "app".into(), queue: "root.q1".into(), ..AddApplication::default() };
        let change = Commands::of(epoch, vec![Command::Applications { new: vec![app], remove: Vec::new() }]);
        state.listing().partitions[0].addr.send(change).await.expect("taken");
        assert_ne!(read(queues).await.as_ptr(), slow.as_ptr(), "as it is now");
    }
}
