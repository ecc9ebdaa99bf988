//! What this server knows of the cluster, and what it does about it: it follows what others lead, takes over what nobody
//! leads any more, and lets its resource managers know.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::{Instant, interval, sleep, timeout},
};

use self::{
    config::Apply,
    unheard::{Heard, Unheard},
};
use super::{
    Options, Shown,
    etcd::{Etcd, Found, PATIENCE, State, Trouble, Watch},
    follow::{self, Fault, Followed, Following, Looker},
    group::{Group, Setup},
    keys::{Head, Keys, Server},
    presence::{self, Held},
    take::{Taken, Way},
};
use crate::{
    actors::topology::Topology,
    messages::{
        leaders::{ClusterStatus, Drain, FollowStatus, Leader, SharedConfig},
        rm::Refusal,
    },
};

mod config;
mod drain;
mod lead;
mod look;
mod read;
mod show;
mod spread;
#[cfg(test)]
mod tests;
mod unheard;
mod watch;

/// How often the manager looks for what is to be done.
const LOOK: Duration = Duration::from_millis(100);
/// A leader whose address refuses connections, and whose log stands still, for so long is gone.
const STILL: Duration = Duration::from_millis(500);
/// How much longer a server waits before it takes over another one, for each that it leads, up to eight.
const EACH: Duration = Duration::from_millis(40);
/// Between two attempts while etcd does not answer.
const AGAIN: Duration = Duration::from_millis(300);
/// How long writing the last records of a resource manager that is handed over may take: another server goes on without others.
const LETTING_GO: Duration = Duration::from_secs(2);
/// How much longer than others a drained server waits before it takes over what nobody leads.
const DRAINED: Duration = Duration::from_secs(3);
/// How long a server that ends waits for another one to follow what it leads.
const FOLLOWED: Duration = Duration::from_secs(10);
/// How long telling etcd that this server is gone may take; else its lease ends by itself.
const GOING: Duration = Duration::from_millis(500);
/// How often etcd is asked how it is, while it takes changes and while it does not.
const DATABASE: Duration = Duration::from_secs(10);
const REFUSES: Duration = Duration::from_secs(1);
/// Between two compactions.
const COMPACT: Duration = Duration::from_secs(60);

/// What the manager is told.
pub enum ToManager {
    /// This server is to lead a resource manager, which registers here.
    Lead(String, oneshot::Sender<Result<(), Refusal>>),
    /// The server ends.
    Leave(oneshot::Sender<()>),
    /// How it all is.
    Status(oneshot::Sender<ClusterStatus>),
    /// A resource manager, and the server that is to lead it.
    Hand(String, String, oneshot::Sender<Result<(), Refusal>>),
    /// A log cannot be written any more by this server.
    Deposed(String),
    /// What came of taking over a resource manager, by its name in keys.
    Took(String, Box<Took>),
    /// What came of taking a resource manager that nobody knew.
    Began(String, Result<Taken, Trouble>),
    /// Whether a server takes connections; `None`: it is not known.
    Probed(String, Option<bool>),
    /// It was handed over; with its group: it was not, and may be led on.
    Handed(String, Option<Arc<Group>>),
    /// A server is to lead nothing, or may again.
    Drain(String, Option<Drain>, oneshot::Sender<Result<(), Refusal>>),
    /// What holds for all servers.
    Config(oneshot::Sender<SharedConfig>),
    /// This is to hold for all servers.
    Configure(Box<SharedConfig>, oneshot::Sender<Result<(), Refusal>>),
    /// What is followed here, for readers.
    Views(oneshot::Sender<Vec<Viewed>>),
    /// How etcd is.
    Etcd(State),
    /// This server is to have heard of all resource managers that there are.
    Heard(Heard),
    /// It is time to ask etcd for them.
    AskForHeads,
    /// What came of that, and who waits for it.
    Heads(Result<Found, Trouble>, Vec<Heard>),
}

/// A resource manager that is followed here.
pub struct Viewed {
    /// Its id.
    pub rm: Arc<str>,
    /// The way to it; `None` while it cannot be asked.
    pub looker: Option<Looker>,
    /// Index of the newest record in etcd.
    pub index: u64,
    /// Nothing was missing here at this moment.
    pub current: Instant,
}

/// See [`ToManager::Took`].
pub enum Took {
    /// This server leads.
    Leads(Head, i64, Result<Box<Followed>, Fault>),
    /// Another one was quicker, or etcd does not answer.
    Not(Following),
    /// The same, of one whose log cannot be read.
    NotBroken(String, Refusal, oneshot::Sender<Result<(), Refusal>>),
    /// This server leads one whose log cannot be read: its session is lost.
    LeadsBroken(Head, i64, String, oneshot::Sender<Result<(), Refusal>>),
}

/// A resource manager.
struct Known {
    head: Head,
    /// Of the head.
    revision: i64,
    /// When the head last changed, as seen from here.
    changed: Instant,
    role: Role,
    /// Values of the log that do not count yet.
    pending: BTreeMap<u64, Bytes>,
    /// What its actor was told.
    told: Option<Option<Arc<Leader>>>,
    /// Since when it may be taken over.
    vacant: Option<Instant>,
    /// When nothing was missing here for the last time, where it is followed.
    current: Instant,
    /// When this server, which is to lead nothing, last tried to have another lead it.
    evacuated: Option<Instant>,
    /// The server to which this one hands it over.
    heir: Option<String>,
}

impl Known {
    fn new(head: Head, revision: i64, role: Role) -> Known {
        let now = Instant::now();
        Known {
            head,
            revision,
            changed: now,
            role,
            pending: BTreeMap::new(),
            told: None,
            vacant: None,
            current: now,
            evacuated: None,
            heir: None,
        }
    }

    /// Takes note that nothing is missing here, where that is so.
    fn look(&mut self) {
        if let Role::Follows(following) = &self.role
            && following.seen.last() >= self.head.index
        {
            self.current = Instant::now();
        }
    }
}

/// What this server does about it.
enum Role {
    Leads(Arc<Group>),
    Follows(Following),
    /// It cannot be followed, and why.
    Broken(String),
    /// It is being taken, or handed over.
    Changes,
}

/// See the module.
pub struct Manager {
    options: Options,
    etcd: Arc<Etcd>,
    keys: Keys,
    topology: Arc<Topology>,
    runtime: Handle,
    shown: Arc<Shown>,
    messages: UnboundedReceiver<ToManager>,
    tell: UnboundedSender<ToManager>,
    servers: BTreeMap<String, Server>,
    known: BTreeMap<String, Known>,
    /// Resource managers that nobody knew and this server is taking, by their names in keys: who waits for that.
    beginning: BTreeMap<String, Vec<oneshot::Sender<Result<(), Refusal>>>>,
    /// Servers whose key is gone, since when.
    absent: HashMap<String, Instant>,
    /// Since when the same servers are there, and nothing was moved to spread what they lead.
    settled: Instant,
    /// A server came or went, or a resource manager came, since servers led alike. Else what an operator moves is left where it is.
    uneven: bool,
    /// Servers that refuse connections, since when.
    refusing: HashMap<String, Instant>,
    /// Of servers whether their address takes connections of this one: true since it took one, false since it was logged that it does
    /// not. Where it never took one, as with a wrong `--advertise`, that it refuses says nothing: the lease does.
    reached: HashMap<String, bool>,
    probing: HashMap<String, Instant>,
    /// The last change that was seen.
    seen: i64,
    /// Since when changes are seen.
    connected: Option<Instant>,
    /// Since when the server ends, and whom to tell that it has left.
    leaving: Option<(Instant, oneshot::Sender<()>)>,
    /// While others see that this server is alive.
    held: Arc<Held>,
    /// Servers that are to lead nothing.
    drains: BTreeMap<String, Drain>,
    /// How servers follow what others lead, as they say.
    loads: BTreeMap<String, Vec<FollowStatus>>,
    /// What this server said of that, with which lease, and when.
    said: (Vec<FollowStatus>, i64, Option<Instant>),
    /// How etcd said that it is, and when it was asked for that.
    etcd_is: Option<State>,
    asked: Option<Instant>,
    /// For compaction: a revision, and when it was the present one.
    past: (i64, Instant),
    /// Told the names of groups that were deposed.
    deposed: UnboundedSender<String>,
    /// What holds for all servers.
    config: SharedConfig,
    /// Why that which is in etcd now cannot be read: `config` is what was there before.
    config_unread: Option<String>,
    /// Takes what is to be carried out of that.
    apply: UnboundedSender<Apply>,
    unheard: Unheard,
    /// Resource managers that were there at the start, or that this server led, and that are not read yet, by their names in keys; and
    /// how many there were.
    unread: (Vec<String>, usize),
}

impl Manager {
    /// From within a runtime.
    ///
    /// # Errors
    /// The options are wrong.
    pub fn new(options: Options, topology: Arc<Topology>, shown: Arc<Shown>) -> Result<Manager, String> {
        let etcd = Etcd::new(options.access.clone())?;
        let keys = Keys::new(&options.prefix);
        let (tell, messages) = unbounded_channel();
        let (deposed, mut names) = unbounded_channel();
        let (apply, to_apply) = unbounded_channel();
        tokio::spawn(config::carry_out(topology.clone(), to_apply));
        let of_names = tell.clone();
        tokio::spawn(async move {
            while let Some(name) = names.recv().await {
                let _ = of_names.send(ToManager::Deposed(name));
            }
        });
        Ok(Manager {
            options,
            etcd,
            keys,
            topology,
            runtime: Handle::current(),
            shown,
            messages,
            tell,
            servers: BTreeMap::new(),
            known: BTreeMap::new(),
            beginning: BTreeMap::new(),
            absent: HashMap::new(),
            settled: Instant::now(),
            uneven: true,
            refusing: HashMap::new(),
            reached: HashMap::new(),
            probing: HashMap::new(),
            seen: 0,
            connected: None,
            leaving: None,
            held: Arc::default(),
            drains: BTreeMap::new(),
            loads: BTreeMap::new(),
            said: Default::default(),
            etcd_is: None,
            asked: None,
            past: (0, Instant::now()),
            deposed,
            config: SharedConfig::default(),
            config_unread: None,
            apply,
            unheard: Unheard::default(),
            unread: Default::default(),
        })
    }

    /// The way to tell it something.
    pub fn sender(&self) -> UnboundedSender<ToManager> {
        self.tell.clone()
    }

    /// Until the server has left.
    pub async fn run(mut self, opened: oneshot::Sender<()>) {
        let (me, lease) = (self.options.me.clone(), self.options.lease);
        let presence = presence::keep(self.etcd.clone(), self.keys.clone(), me, lease, self.held.clone());
        let presence = tokio::spawn(presence);
        let mut opened = Some(opened);
        // It leads and follows only when others can see that it is there: one that ends looks for who goes on.
        let held = self.held.clone();
        let mut left = self.hearing(timeout(PATIENCE, held.is_said())).await.err();
        while left.is_none() {
            match self.hearing(read::present(self.etcd.clone(), self.keys.clone())).await {
                Ok(Ok(present)) => {
                    self.take_in(present);
                    if let Some(opened) = opened.take() {
                        self.unread = (self.known.keys().cloned().collect(), self.known.len());
                        self.see_unread();
                        let _ = self.apply.send(Apply::Opened(opened));
                    }
                    left = self.follow().await;
                }
                Ok(Err(trouble)) => {
                    self.lost(&trouble);
                    left = self.pause(AGAIN).await;
                }
                Err(told) => left = Some(told),
            }
        }
        presence.abort();
        let lease = self.held.let_go();
        if lease != 0 && self.shown.trouble.get().is_none() {
            // Others need not wait until it ends.
            let _ = timeout(GOING, self.etcd.revoke(lease)).await;
        }
        if let Some(left) = left {
            let _ = left.send(());
        }
    }

    fn way(&self) -> Way {
        Way { etcd: self.etcd.clone(), keys: self.keys.clone(), me: self.options.me.id.clone() }
    }

    fn setup(&self) -> Setup {
        Setup {
            etcd: self.etcd.clone(),
            keys: self.keys.clone(),
            runtime: self.runtime.clone(),
            tell: self.deposed.clone(),
            max_bytes: self.options.max_bytes,
        }
    }

    /// etcd does not answer, which is said once.
    fn lost(&mut self, trouble: &Trouble) {
        if self.connected.take().is_some() || self.shown.trouble.get().is_none() {
            tracing::error!(code = "etcd-silent", "{trouble}; nothing is taken until it answers");
        }
        self.shown.trouble.set(Some(format!("{trouble}").into()));
    }

    fn found(&mut self) {
        if self.connected.is_none() {
            self.connected = Some(Instant::now());
            tracing::info!(members = self.etcd.names(), "etcd answers");
            self.shown.trouble.set(self.refuses());
        }
    }

    /// Why etcd, which answers, takes no changes.
    fn refuses(&self) -> Option<Arc<str>> {
        self.etcd_is.as_ref().and_then(|state| state.refuses.clone())
    }

    fn etcd_is(&mut self, state: State) {
        let before = self.refuses();
        self.etcd_is = Some(state);
        let refuses = self.refuses();
        if refuses != before {
            match &refuses {
                Some(why) => tracing::error!(code = "etcd-full", "{why}"),
                None => tracing::info!("etcd takes changes again"),
            }
        }
        if self.connected.is_some() {
            self.shown.trouble.set(refuses);
        }
    }

    /// Follows the changes, as long as that is possible without reading everything anew. Gives whom to tell that this server
    /// has left.
    async fn follow(&mut self) -> Option<oneshot::Sender<()>> {
        let mut watch: Option<Watch> = None;
        let mut ticks = interval(LOOK);
        loop {
            let Some(changes) = &mut watch else {
                let (etcd, prefix, from) = (self.etcd.clone(), self.keys.prefix().to_owned(), self.seen + 1);
                let opening = async move {
                    follow::test_hold("CALLBOARD_TEST_WATCH_WAITS").await;
                    timeout(PATIENCE, etcd.watch(&prefix, from)).await
                };
                match self.hearing(opening).await {
                    Ok(Ok(Ok(_))) if self.connected.is_none() && self.is_rewound().await => return None,
                    Ok(Ok(Ok(opened))) => watch = Some(opened),
                    Ok(Ok(Err(Trouble::Compacted))) => return None,
                    Ok(Ok(Err(trouble))) => {
                        self.lost(&trouble);
                        if let Some(left) = self.pause(AGAIN).await {
                            return Some(left);
                        }
                    }
                    Ok(Err(_)) => {
                        self.lost(&Trouble::Silent(format!("{}: no watch", self.etcd.names())));
                        if let Some(left) = self.leave() {
                            return Some(left);
                        }
                    }
                    Err(left) => return Some(left),
                }
                continue;
            };
            tokio::select! {
                biased;
                message = self.messages.recv() => {
                    if let Some(left) = self.on_message(message?) {
                        return Some(left);
                    }
                }
                changed = changes.next() => match changed {
                    Ok((revision, events)) => {
                        self.found();
                        if revision < self.seen && self.is_rewound().await {
                            return None;
                        }
                        events.iter().for_each(|event| self.event(event));
                        // Who was named goes on at once.
                        if self.known.values().any(|known| known.head.server.is_empty() && known.vacant.is_none()) {
                            self.look();
                        }
                    }
                    Err(Trouble::Compacted) => return None,
                    Err(trouble) => {
                        watch = None;
                        self.lost(&trouble);
                    }
                },
                _ = ticks.tick() => {
                    self.look();
                    if let Some(left) = self.leave() {
                        return Some(left);
                    }
                }
            }
        }
    }

    /// Waits, and hears.
    async fn pause(&mut self, time: Duration) -> Option<oneshot::Sender<()>> {
        match self.hearing(sleep(time)).await {
            Ok(()) => self.leave(),
            Err(left) => Some(left),
        }
    }

    /// Hears until something is done. The error is whom to tell that this server has left.
    async fn hearing<T>(&mut self, work: impl Future<Output = T>) -> Result<T, oneshot::Sender<()>> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                Some(message) = self.messages.recv() => {
                    if let Some(left) = self.on_message(message) {
                        return Err(left);
                    }
                }
            }
        }
    }

    /// Gives whom to tell that this server has left.
    fn on_message(&mut self, message: ToManager) -> Option<oneshot::Sender<()>> {
        match message {
            ToManager::Lead(rm, reply) => self.wanted(rm, reply),
            ToManager::Took(name, took) => self.took(&name, *took),
            ToManager::Began(rm, taken) => self.began(&rm, taken),
            ToManager::Status(reply) => {
                let _ = reply.send(self.status());
            }
            ToManager::Hand(rm, server, reply) => self.hand(&rm, &server, reply),
            ToManager::Probed(id, takes) => self.probed(id, takes),
            ToManager::Handed(name, kept) => self.handed(&name, kept),
            ToManager::Deposed(name) => {
                if let Some(Known { role: Role::Leads(group), .. }) = self.known.get(&name) {
                    if group.is_gone() {
                        self.removed(&name);
                    } else {
                        let at = self.seen;
                        self.give_up(&name, at);
                    }
                }
            }
            ToManager::Drain(server, drain, reply) => self.drain(&server, drain, reply),
            ToManager::Config(reply) => {
                let _ = reply.send(self.config.clone());
            }
            ToManager::Configure(config, reply) => self.configure(&config, reply),
            ToManager::Views(reply) => {
                let _ = reply.send(self.views());
            }
            ToManager::Etcd(state) => self.etcd_is(state),
            ToManager::Heard(reply) => self.hear_of_all(reply),
            ToManager::AskForHeads => self.ask_for_heads(),
            ToManager::Heads(found, waiting) => self.heads(found, waiting),
            ToManager::Leave(reply) => self.leaving = Some((Instant::now(), reply)),
        }
        self.leave()
    }
}

/// Takes out the values up to this one, which count.
fn counting(pending: &mut BTreeMap<u64, Bytes>, last: u64) -> Vec<(u64, Bytes)> {
    let behind = pending.split_off(&(last + 1));
    std::mem::replace(pending, behind).into_iter().collect()
}

/// What the title of a snapshot names as its server: all servers of a cluster are one.
pub fn title_server(prefix: &str) -> String {
    format!("etcd {}", prefix.trim_end_matches('/'))
}
