//! A resource manager whose log is in etcd, and who leads it: whenever a server is gone, the next takes over, with the code of
//! the cluster. What etcd answers is late, lost or doubtful.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::unbounded_channel,
};

use super::case::{Doubts, happens};
use crate::{
    actors::rm::replay::Found,
    cluster::{
        etcd::{self, Change, Done, Etcd, If, KeyValue, Model, Trouble},
        follow::{Fault, Following, Source},
        group::{Group, Setup},
        keys::{Head, Keys},
        take::{Taken, Way},
    },
    store::log::Title,
};

/// Tries of something that etcd may not answer.
const TRIES: usize = 1_000;

/// See the module.
pub struct Cluster {
    model: Arc<Store>,
    etcd: Arc<Etcd>,
    keys: Keys,
    runtime: Runtime,
    /// Servers that led so far.
    servers: usize,
    /// The log, as the present one writes it.
    pub group: Arc<Group>,
}

impl Cluster {
    /// The first server leads.
    ///
    /// # Errors
    /// It cannot.
    pub fn new(seed: u64, doubts: Doubts, rm: &str) -> Result<Cluster, String> {
        let model = Arc::new(Store { doubts, seed, kept: Mutex::default() });
        let etcd = Etcd::modelled(model.clone());
        let runtime = Builder::new_current_thread().enable_time().build().map_err(|error| error.to_string())?;
        let keys = Keys::new("/callboard");
        let way = Way { etcd: etcd.clone(), keys: keys.clone(), me: "server-1".to_owned() };
        for _ in 0..TRIES {
            // One that was given up may have come through late.
            let head = runtime.block_on(head(&etcd, &keys, rm));
            let took = match head {
                Ok(None) => runtime.block_on(way.first(rm)),
                Ok(Some((head, revision))) => runtime.block_on(way.over(&head, revision)),
                Err(trouble) => Err(trouble),
            };
            if let Ok(Taken::Leads(head, revision)) = took {
                let group = Group::new(setup(&etcd, &keys, &runtime), head, revision, Default::default());
                return Ok(Cluster { model, etcd, keys, runtime, servers: 1, group });
            }
        }
        Err("nobody can lead".to_owned())
    }

    /// The server is cut off, and what it sent is late or lost: another one follows the log, takes over, and finds this. The
    /// one before may live on for a while (`lives`), and go on writing.
    ///
    /// # Errors
    /// It cannot.
    pub fn take_over(&mut self, title: &Title, mut lives: impl FnMut()) -> Result<Found, String> {
        self.servers += 1;
        let (etcd, keys) = (self.etcd.clone(), self.keys.clone());
        let way = Way { etcd: etcd.clone(), keys: keys.clone(), me: format!("server-{}", self.servers) };
        for _ in 0..TRIES {
            let Ok(Some((before, revision))) = self.runtime.block_on(head(&etcd, &keys, &title.rm)) else { continue };
            let source = Source {
                etcd: etcd.clone(),
                keys: keys.clone(),
                head: before.clone(),
                revision,
                title: title.clone(),
                listener: None,
            };
            if self.happens("lives before") {
                lives();
            }
            let took = self.runtime.block_on(async {
                let following = Following::start(source);
                match way.over(&before, revision).await {
                    Ok(Taken::Leads(head, revision)) => Some((head, revision, following.finish().await)),
                    Ok(Taken::Other) | Err(_) => None,
                }
            });
            match took {
                Some((head, revision, Ok(followed))) => {
                    let setup = setup(&self.etcd, &self.keys, &self.runtime);
                    self.group = Group::new(setup, head, revision, followed.chunks);
                    if self.happens("lives after") {
                        lives();
                    }
                    return Ok(followed.follower.found(&title.rm));
                }
                Some((.., Err(Fault::Broken(why)))) => return Err(why),
                Some((.., Err(Fault::Again))) | None => {}
            }
        }
        Err("nobody can take over".to_owned())
    }

    fn happens(&self, what: &str) -> bool {
        self.model.happens(&self.model.lock(), 50, what)
    }

    /// From here on etcd answers each time.
    pub fn calm(&self) {
        self.model.lock().calm = true;
    }
}

async fn head(etcd: &Etcd, keys: &Keys, rm: &str) -> Result<Option<(Head, i64)>, Trouble> {
    let found = etcd.range(&keys.head(&Keys::name(rm)), "", 0, 0).await?;
    let found = found.keys.first();
    Ok(found.and_then(|found| Some((Head::read(&found.value).ok()?, found.mod_revision))))
}

fn setup(etcd: &Arc<Etcd>, keys: &Keys, runtime: &Runtime) -> Setup {
    let (etcd, keys, runtime) = (etcd.clone(), keys.clone(), runtime.handle().clone());
    Setup { etcd, keys, runtime, tell: unbounded_channel().0, max_bytes: u64::MAX }
}

/// What etcd keeps, with every value that a key ever had.
struct Store {
    doubts: Doubts,
    seed: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// By key: values with the revision that they came with; `None`: it was deleted.
    keys: BTreeMap<String, Vec<(i64, Option<Bytes>)>>,
    revision: i64,
    /// Transactions that are on their way.
    late: Vec<(Vec<If>, Vec<Change>)>,
    /// Calls so far.
    calls: u64,
    calm: bool,
}

impl Store {
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By chance, in this call.
    fn happens(&self, kept: &Kept, hundredths: u8, what: &str) -> bool {
        !kept.calm && happens(hundredths, self.seed, &["etcd", what, &kept.calls.to_string()])
    }

    /// A call begins: what was on its way may arrive before it.
    fn call(&self) -> std::sync::MutexGuard<'_, Kept> {
        let mut kept = self.lock();
        kept.calls += 1;
        if !kept.late.is_empty() && (kept.calm || self.happens(&kept, 40, "arrives")) {
            let (conditions, changes) = kept.late.remove(0);
            kept.carry_out(&conditions, changes);
        }
        kept
    }
}

impl Kept {
    fn present(&self, key: &str) -> Option<(i64, &Bytes)> {
        let (revision, value) = self.keys.get(key)?.last()?;
        Some((*revision, value.as_ref()?))
    }

    fn carry_out(&mut self, conditions: &[If], changes: Vec<Change>) -> Done {
        let is = |condition: &If| self.present(&condition.key).map_or(0, |(revision, _)| revision);
        if !conditions.iter().all(|condition| is(condition) == condition.revision) {
            let found = conditions.iter().filter_map(|condition| {
                let (revision, value) = self.present(&condition.key)?;
                Some(key_value(&condition.key, revision, value))
            });
            return Done { held: false, revision: self.revision, found: found.collect() };
        }
        self.revision += 1;
        let revision = self.revision;
        for change in changes {
            match change {
                Change::Put(key, value, _) => self.keys.entry(key).or_default().push((revision, Some(value))),
                Change::Delete(from, to) => {
                    for (_, values) in self.keys.range_mut(from..to) {
                        values.push((revision, None));
                    }
                }
            }
        }
        Done { held: true, revision, found: Vec::new() }
    }
}

fn key_value(key: &str, revision: i64, value: &Bytes) -> KeyValue {
    KeyValue {
        key: Bytes::copy_from_slice(key.as_bytes()),
        mod_revision: revision,
        value: value.clone(),
        ..KeyValue::default()
    }
}

fn silent() -> Trouble {
    Trouble::Silent("the model says nothing".to_owned())
}

impl Model for Store {
    fn range(&self, from: &str, to: &str, revision: i64, limit: i64) -> Result<etcd::Found, Trouble> {
        let kept = self.call();
        // Ranges are read again by whoever wants them; what one key says is asked for once.
        if to.is_empty() && self.happens(&kept, self.doubts.lost, "range") {
            return Err(silent());
        }
        let at = if revision > 0 { revision } else { kept.revision };
        let end = if to.is_empty() { format!("{from}\0") } else { to.to_owned() };
        let mut keys = Vec::new();
        for (key, values) in kept.keys.range(from.to_owned()..end) {
            let then = values.iter().rev().find(|(revision, _)| *revision <= at);
            if let Some((revision, Some(value))) = then {
                keys.push(key_value(key, *revision, value));
            }
        }
        let more = limit > 0 && keys.len() > limit as usize;
        if more {
            keys.truncate(limit as usize);
        }
        Ok(etcd::Found { revision: kept.revision, keys, more })
    }

    fn txn(&self, conditions: &[If], changes: Vec<Change>) -> Result<Done, Trouble> {
        let mut kept = self.call();
        if self.happens(&kept, self.doubts.lost, "lost") {
            return Err(silent());
        }
        if self.happens(&kept, self.doubts.late, "late") {
            kept.late.push((conditions.to_vec(), changes));
            return Err(silent());
        }
        let done = kept.carry_out(conditions, changes);
        if self.happens(&kept, self.doubts.doubtful, "doubtful") { Err(silent()) } else { Ok(done) }
    }
}
