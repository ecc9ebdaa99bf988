//! The start of a server that has logs: resource managers go on as they were, before anybody is let in.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use actix::prelude::*;
use futures::{StreamExt as _, stream};
use tokio::task::spawn_blocking;

use super::{
    Topology,
    kept::Kept,
    lock,
    process::{Sent, process_wide},
};
use crate::{
    actors::rm::{
        RmActor,
        handle::RmHandle,
        log::Logs,
        replay::{self, Found, Progress, State},
    },
    domain::{resources::Resource, usage::UsageKey},
    messages::{
        event::ToEvents,
        leaders::Leaders,
        rm::{CloseLog, Info},
    },
    store::log::{self, mark::Before},
};

/// Logs that are read at the same time.
const AT_ONCE: usize = 4;
/// What the server waits for, as `/readyz` names it.
const LOG: &str = "log";
/// Whoever comes meanwhile waits so long, at most: most starts take less.
const MOMENT: Duration = Duration::from_secs(2);
/// How often it says how far that is.
const TELL: Duration = Duration::from_millis(200);
/// A server of a cluster that has not read all logs by then counts as ready without them.
const READ: Duration = Duration::from_secs(60);

impl Topology {
    /// From now on what goes in is recorded.
    pub fn keep_logs(&self, logs: Logs) {
        if !logs.shared {
            *lock(&self.kept) = Kept::beside(&logs.base);
        }
        // There is one place at which a server is wired.
        let _ = self.logs.set(Arc::new(logs));
        self.opening.store(Some(Arc::default()));
        self.ready.waits(LOG, "the server reads its log");
    }

    /// Several servers share the logs: this decides who leads.
    pub fn share_logs(&self, leaders: Arc<dyn Leaders>) {
        // There is one place at which a server is wired.
        let _ = self.leaders.set(leaders);
    }

    /// Decides who leads, where there are several servers.
    pub fn leaders(&self) -> Option<&dyn Leaders> {
        self.leaders.get().map(|leaders| &**leaders)
    }

    /// It is known who leads what: requests are let in. The server is ready when it has read what others lead.
    pub fn opened(self: &Arc<Self>) {
        self.let_in();
        let Some(mut unread) = self.unread() else { return self.ready.done(LOG) };
        let (topology, began) = (self.clone(), Instant::now());
        actix::spawn(async move {
            while began.elapsed() < READ {
                topology.ready.waits(LOG, unread);
                // So that whoever looks sees the last state, too.
                tokio::time::sleep(TELL).await;
                let Some(more) = topology.unread() else { break };
                unread = more;
            }
            topology.ready.done(LOG);
        });
    }

    /// Why not everything may be seen here yet that others lead.
    pub fn reads(&self) -> Option<String> {
        self.unread().or_else(|| self.ready.look(false).waits.remove(LOG))
    }

    fn unread(&self) -> Option<String> {
        let (read, all) = self.leaders()?.reads()?;
        Some(format!("the server reads the logs of resource managers from etcd: {read} of {all} are done"))
    }

    /// Where resource managers keep their logs.
    pub fn logs(&self) -> Option<Arc<Logs>> {
        self.logs.get().cloned()
    }

    /// What an operator has to know of the logs: those that cannot be written, or could not be read and are left alone.
    /// `None` where none are kept.
    pub fn faults_of_logs(&self) -> Option<Vec<String>> {
        let mut faults = self.logs()?.faults();
        let failing = |handle: &Arc<RmHandle>| {
            let view = handle.view.load();
            let why = view.failing.clone().or_else(|| view.full.clone())?;
            Some(format!("resource manager \"{}\": {why}", handle.id))
        };
        faults.extend(self.known().iter().filter_map(failing));
        Some(faults)
    }

    fn let_in(&self) {
        self.opening.store(None);
        self.open.notify_waiters();
    }

    /// Waits a moment until requests are let in. Errors: why they are not yet.
    pub async fn admits(&self) -> Result<(), String> {
        if self.opening.load().is_none() {
            return Ok(());
        }
        let mut open = pin!(self.open.notified());
        open.as_mut().enable();
        if self.opening.load().is_some() {
            // What came of it is looked at below.
            let _ = tokio::time::timeout(MOMENT, open).await;
        }
        self.opening().map_or(Ok(()), Err)
    }

    /// Why nobody is let in yet.
    pub fn opening(&self) -> Option<String> {
        let progress = self.opening.load();
        let percent = progress.as_ref()?.percent();
        if self.logs.get().is_some_and(|logs| logs.shared) {
            let why = self.leaders.get().and_then(|leaders| leaders.trouble());
            return Some(why.map_or("the server asks etcd who leads what".to_owned(), |why| why.to_string()));
        }
        Some(format!("the server reads its log: {percent} % of it are done"))
    }

    /// Resource managers go on as their logs left them. `before`: what the process before left.
    pub async fn restore(self: &Arc<Self>, before: Before) {
        let (Some(logs), Some(progress)) = (self.logs(), self.opening.load_full()) else { return };
        let began = Instant::now();
        let topology = self.clone();
        let telling = actix::spawn(async move {
            while let Some(opening) = topology.opening() {
                topology.ready.waits(LOG, opening);
                tokio::time::sleep(TELL).await;
            }
        });
        let of_directory = logs.clone();
        let found = spawn_blocking(move || {
            let all = log::directories(&of_directory.base)?;
            let with_size = all.into_iter().map(|dir| {
                let dir = log::name_anew(&of_directory.base, dir)?;
                // An error here is logged where the log is read: the others go on.
                Ok((log::size(&dir).unwrap_or(0), dir))
            });
            with_size.collect::<std::io::Result<Vec<_>>>()
        });
        let directories = match found.await {
            Ok(Ok(directories)) => directories,
            Ok(Err(error)) => {
                let why = format!("the logs in {} cannot be read: {error}", logs.base.display());
                tracing::error!(code = "log-unread", "{why}: nothing is restored, and nobody can register");
                logs.leave_alone(logs.base.clone(), why);
                Vec::new()
            }
            Err(error) => {
                let why = format!("looking for logs in {} broke down: {error}", logs.base.display());
                tracing::error!(code = "log-unread", "{why}: nothing is restored, and nobody can register");
                logs.leave_alone(logs.base.clone(), why);
                Vec::new()
            }
        };
        progress.total.store(directories.iter().map(|(bytes, _)| bytes).sum(), Relaxed);
        if !directories.is_empty() {
            tracing::info!(
                resource_managers = directories.len(),
                bytes = progress.total.load(Relaxed),
                "reading the logs of resource managers"
            );
        }
        let reads = directories.into_iter().map(|(_, dir)| self.read_log(dir, before, progress.clone()));
        let mut all: Vec<Found> =
            stream::iter(reads).buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
        // The settings of the whole process are those that resource managers sent last: where that was not kept, those that they
        // registered with, in the order in which they did.
        all.sort_by_key(|found| match &found.state {
            State::Session(session) => session.registered.at,
            _ => 0,
        });
        let registered = || {
            let of = |found: &Found| match &found.state {
                State::Session(session) if !session.registered.tenant => {
                    Some((found.rm.as_str().into(), process_wide(&session.registered.extra).into()))
                }
                _ => None,
            };
            all.iter().filter_map(of).collect()
        };
        let mut sent: Sent = lock(&self.kept).sent().cloned().unwrap_or_else(registered);
        let known: BTreeSet<&str> = all.iter().map(|found| &*found.rm).collect();
        sent.retain(|(rm, sent)| known.contains(&**rm) && !sent.is_empty());
        self.process.resume(sent);
        // Names, and the order of everything, go by who came first.
        all.sort_by_cached_key(|found| lock(&self.kept).place(&found.rm));
        for found in all {
            self.go_on(found).await;
        }
        lock(&self.kept).restored();
        self.let_in();
        telling.abort();
        self.ready.done(LOG);
        if let Some(metrics) = &logs.metrics {
            metrics.restarted(began.elapsed());
        }
    }

    async fn read_log(&self, dir: PathBuf, before: Before, progress: Arc<Progress>) -> Option<Found> {
        let (Some(logs), began, place) = (self.logs(), Instant::now(), dir.clone()) else { return None };
        let of_thread = logs.clone();
        let read = spawn_blocking(move || replay::read(&of_thread, &dir, before, &progress)).await;
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                let (logs, dir) = (logs.clone(), place.clone());
                let why = format!("log {}: cannot be read: reading it broke down: {error}", dir.display());
                let aside = spawn_blocking(move || replay::unreadable(&logs, &dir, &why).map(Some)).await;
                aside.unwrap_or_else(|error| Err(error.to_string()))
            }
        };
        match read {
            Ok(found) => {
                if let Some(found) = &found {
                    tracing::info!(
                        rm = found.rm, epoch = found.epoch, records = found.last, bytes = found.bytes,
                        state = found.state.name(), took = ?began.elapsed(), "log of a resource manager"
                    );
                }
                found
            }
            Err(why) => {
                tracing::error!(
                    code = "log-unread",
                    "{why}: it is left alone, and its resource manager cannot register"
                );
                logs.leave_alone(place, why);
                None
            }
        }
    }

    async fn go_on(self: &Arc<Self>, found: Found) {
        let rm = found.rm.clone();
        if matches!(found.state, State::Nothing) || super::check_id(&rm).is_err() {
            return;
        }
        let handle = lock(&self.registry).find_or_create(&rm, false, |id, view| {
            let (id, topology, view) = (id.clone(), self.clone(), view.clone());
            let home = self.next_home.fetch_add(1, Relaxed);
            RmActor::start_in_arbiter(self.arbiter(home), move |_| RmActor::new(id, topology, view, home).found(found))
        });
        // It is there when it answers.
        let _ = handle.addr.send(Info).await;
    }

    /// This is used by a partition that goes on.
    pub(in crate::actors) fn used(&self, rows: Vec<(UsageKey, Resource)>) {
        if !rows.is_empty() {
            self.intake.put(ToEvents::Used(rows));
        }
    }

    /// What was recorded is on the disk when this is done. False: not all of it. `last`: nothing more is recorded.
    pub async fn close_logs(&self, last: bool) -> bool {
        let writer = lock(&self.kept).writer();
        // Failures are logged there; a disk that hangs is not waited for.
        let kept = async {
            if let Some(writer) = writer {
                let written = tokio::task::spawn_blocking(move || writer.write());
                let _ = tokio::time::timeout(Duration::from_secs(2), written).await;
            }
        };
        let closed = self.known().into_iter().map(|handle| async move { handle.addr.send(CloseLog { last }).await });
        let ((), closed) = futures::future::join(kept, futures::future::join_all(closed)).await;
        closed.into_iter().all(|closed| matches!(closed, Ok(true) | Err(_)))
    }
}
