//! Carries logs from the data directory of a server that was alone into etcd, and back. Sessions go on as after any other restart.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{runtime::Handle, sync::mpsc::unbounded_channel, task::spawn_blocking, time::timeout};

use self::{claim::Claim, put::Put};
use super::{
    etcd::{Access, Etcd, Trouble},
    follow::{self, Source},
    group::{Fault, Group, Setup},
    keys::{Head, Key, Keys, Server},
    manager::title_server,
    take::{Taken, Way},
};
use crate::{
    actors::{
        journal::inherit::inherit,
        rm::{follow::Follower, replay::Replay},
    },
    domain::{DOMAIN_VERSION, types::Nanos},
    messages::clock::Clock,
    store::{
        files,
        log::{
            self, Far as _, Place, Title, Writer,
            flight::{Flight, check_domain},
            mark::Mark,
        },
    },
};

mod claim;
mod put;

/// How long etcd may take to answer for one resource manager.
const PATIENCE: Duration = Duration::from_secs(60);

/// A resource manager whose log was carried over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its id.
    pub rm: String,
    /// Index of its newest record.
    pub last: u64,
    /// How it is: session, ended, …
    pub state: &'static str,
}

/// Where logs are in etcd, and who moves them.
pub struct Carrier {
    etcd: Arc<Etcd>,
    keys: Keys,
    title: String,
    me: String,
}

/// The log of one resource manager.
struct Whole {
    rm: String,
    snapshot: Option<(Place, Vec<u8>)>,
    /// Records behind it, or all of them.
    frames: Vec<u8>,
    /// Index of the record before the first of them, and of the last.
    from: u64,
    last: u64,
    state: &'static str,
}

impl Carrier {
    /// From within a runtime. `server`: id of the server whose data directory it is.
    ///
    /// # Errors
    /// What is wrong with the way to etcd.
    pub fn new(access: Access, prefix: &str, server: &str) -> Result<Carrier, String> {
        let (etcd, keys) = (Etcd::new(access)?, Keys::new(prefix));
        Ok(Carrier { etcd, keys, title: title_server(prefix), me: format!("{server}-carries") })
    }

    fn title(&self, rm: &str) -> Title {
        Title::new(&*self.title, rm)
    }

    fn way(&self) -> Way {
        Way { etcd: self.etcd.clone(), keys: self.keys.clone(), me: self.me.clone() }
    }

    fn group(&self, head: Head, revision: i64) -> Arc<Group> {
        let (tell, _) = unbounded_channel();
        let (etcd, keys, runtime) = (self.etcd.clone(), self.keys.clone(), Handle::current());
        let setup = Setup { etcd, keys, runtime, tell, max_bytes: u64::MAX };
        Group::new(setup, head, revision, Default::default())
    }

    /// Puts the log in a directory into etcd, where no such resource manager is yet; whichever server is there leads it.
    ///
    /// # Errors
    /// It is not in etcd, unless the text says otherwise.
    pub async fn import(&self, dir: PathBuf) -> Result<Carried, String> {
        let (named, server) = (dir.display().to_string(), self.title.clone());
        let read = spawn_blocking(move || read_directory(&dir, &server));
        let whole = read.await.map_err(|error| error.to_string())??;
        let (rm, last, state) = (whole.rm.clone(), whole.last, whole.state);
        let wrong = |why: &dyn std::fmt::Display| format!("{named}: resource manager \"{rm}\": {why}");
        let begun = timeout(PATIENCE, Put::begin(&self.etcd, &self.keys, &rm, &self.me)).await;
        let put = begun.map_err(|_| wrong(&"etcd does not answer"))?.map_err(|why| wrong(&why))?;
        put.all(whole, self.title(&rm)).await.map_err(|why| wrong(&why))?;
        Ok(Carried { rm, last, state })
    }

    /// Ids of all that are in etcd.
    ///
    /// # Errors
    /// etcd does not answer.
    pub async fn all(&self) -> Result<Vec<String>, String> {
        let (from, to) = self.keys.heads();
        let found = self.etcd.range(&from, &to, 0, 0).await.map_err(|trouble| trouble.to_string())?;
        let heads = found.keys.iter().filter(|found| matches!(self.keys.read(&found.key), Some(Key::Head(_))));
        heads.map(|found| Head::read(&found.value).map(|head| head.rm)).collect()
    }

    /// Takes the log of a resource manager out of etcd, into the logs of a data directory, and what operators told its partitions into
    /// the journals of it. No server leads it any more then.
    ///
    /// # Errors
    /// It is in etcd as before and in the directory it is not, unless the text says otherwise.
    pub async fn export(&self, rm: &str, base: &Path, journals: &Path, mark: &Mark) -> Result<Carried, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("resource manager \"{rm}\": {why}");
        let dir = log::directory(base, rm);
        if dir.exists() {
            return Err(wrong(&format!("{} is there already, and is left as it is", dir.display())));
        }
        // Servers take over from nobody who is there.
        let me = Server {
            id: self.me.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            domain: DOMAIN_VERSION,
            ..Server::default()
        };
        let claim = Claim::put(&self.etcd, self.keys.server(&self.me), me.json().into(), &[])
            .await
            .map_err(|why| wrong(&why))?;
        // Under a name that no start reads, until it is nowhere else.
        let fresh = log::directory(&base.with_extension("exporting"), rm);
        let taken = self.take_out(rm, &fresh, journals, mark).await;
        // Before anything else: whoever is killed in between leaves it where no start reads it.
        let moved = taken.and_then(|carried| match files::move_dir(&fresh, &dir) {
            Ok(()) => Ok(carried),
            Err(why) => Err(format!("it is in {} only, and cannot be moved: {why}", fresh.display())),
        });
        if let Ok(claim) = claim {
            claim.end().await;
        }
        let carried = moved.map_err(|why| wrong(&why))?;
        // Others may be in it.
        let _ = fs::remove_dir(base.with_extension("exporting"));
        Ok(carried)
    }

    /// Into a directory of which nothing is kept, and out of etcd.
    async fn take_out(&self, rm: &str, fresh: &Path, journals: &Path, mark: &Mark) -> Result<Carried, String> {
        let told = |trouble: Trouble| trouble.to_string();
        let key = self.keys.head(&Keys::name(rm));
        let found = self.etcd.range(&key, "", 0, 0).await.map_err(told)?;
        let found = found.keys.first().ok_or("it is not in etcd")?;
        let head = Head::read(&found.value)?;
        // Whoever leads it is deposed: nothing is added behind what is carried.
        let taken = self.way().over(&head, found.mod_revision).await.map_err(told)?;
        let Taken::Leads(head, revision) = taken else {
            return Err(
                "a server leads it and adds to it: end the servers of the cluster, or drain this one".to_owned()
            );
        };
        let group = self.group(head.clone(), revision);
        let carried = self.write(head, revision, fresh.to_owned(), journals, mark).await;
        // Tests have others see what is taken out.
        follow::test_hold("CALLBOARD_TEST_CARRY_WAITS").await;
        let (carried, why) = match carried {
            Ok(carried) => {
                let group = group.clone();
                match spawn_blocking(move || group.remove()).await.map_err(|error| error.to_string())? {
                    Ok(()) => return Ok(carried),
                    Err(why) => (Some(carried), why.to_string()),
                }
            }
            Err(why) => (None, why),
        };
        // After this change no earlier removal can come through.
        let let_go = group.hand_over(None).await;
        let is_there = match &let_go {
            Ok(()) => Some(true),
            Err(Fault::Deposed(_)) => self.etcd.range(&key, "", 0, 0).await.ok().map(|found| !found.keys.is_empty()),
            Err(Fault::Trouble(_)) => None,
        };
        match (carried, is_there) {
            // It came through, and was not answered.
            (Some(carried), Some(false)) => Ok(carried),
            (Some(_), None) => Err(format!(
                "{why}; whether it is in etcd is not known: all of it is in {} as well, from where no start reads it",
                fresh.display()
            )),
            _ => {
                let _ = fs::remove_dir_all(fresh);
                Err(let_go.err().map_or(why.clone(), |fault| format!("{why}; it is not let go: {fault}")))
            }
        }
    }

    async fn write(
        &self,
        head: Head,
        revision: i64,
        dir: PathBuf,
        journals: &Path,
        mark: &Mark,
    ) -> Result<Carried, String> {
        let title = self.title(&head.rm);
        let local = Title { server: mark.server.clone(), ..title.clone() };
        let (etcd, keys) = (self.etcd.clone(), self.keys.clone());
        let source = Source { etcd, keys, head: head.clone(), revision, title: title.clone(), listener: None };
        let loaded = follow::load(&source).await.map_err(|trouble| trouble.to_string())??;
        let found = loaded.follower.found(&head.rm);
        let (last, state, now) = (found.last, found.state.name(), Clock::default().now());
        let (standings, journals) = (found.standings()?, journals.to_owned());
        let (from, snapshot) = match head.snapshots.last() {
            Some(snap) => {
                (snap.place.from, Some(follow::snapshot(&source, snap).await.map_err(|why| why.to_string())?))
            }
            None => (0, None),
        };
        let frames = follow::frames(&source).await.map_err(|why| why.to_string())?;
        let written = spawn_blocking(move || {
            // Before the log: without the journals it would undrain what is drained.
            for (internal, standing) in standings {
                inherit(&journals, &internal, standing, now).map_err(|why| format!("its journal: {why}"))?;
            }
            // Of an earlier attempt.
            let _ = fs::remove_dir_all(&dir);
            files::make_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
            if let Some(bytes) = snapshot {
                let read = log::read_snapshot(&bytes, &title)?;
                let written = log::write_snapshot(&dir, &local, read.index, read.at, &read.parts);
                written.map_err(|error| error.to_string())?;
            }
            let mut writer = Writer::new(dir, local);
            let mut at = 0;
            for record in log::records(&frames) {
                let (record, length) = record?;
                // What is before the snapshot is of no use here.
                if record.index > from {
                    writer.write(record.index, &frames[at..at + length]).map_err(|error| error.to_string())?;
                }
                at += length;
            }
            writer.sync().map_err(|error| error.to_string())
        });
        written.await.map_err(|error| error.to_string())??;
        Ok(Carried { rm: head.rm, last, state })
    }
}

/// Reads the newest state of a log and what follows it, and sees whether a server could go on with that.
fn read_directory(dir: &Path, server: &str) -> Result<Whole, String> {
    let begins = |of: u32| {
        use crate::actors::rm::record::kind;
        matches!(of, kind::REGISTERED | kind::ENDED)
    };
    let flight = Flight::of_directory(dir, Some(Nanos(i64::MAX)), &begins)?;
    if let Some(damage) = &flight.damage {
        return Err(format!("{damage}: start the server without --cluster, which puts it aside"));
    }
    check_domain(&flight.title)?;
    let rm = flight.title.rm.clone();
    let title = Title::new(server, &rm);
    let (mut from, mut snapshot, mut follower) = (flight.first().0.saturating_sub(1), None, None);
    if let Some(read) = &flight.snapshot {
        from = Replay::of(read)?.from();
        let place = Place { index: read.index, from };
        let bytes = log::snapshot_bytes(&title, read.index, read.at, &read.parts);
        follower = Some(Follower::from_snapshot(&bytes, &title, place, None)?);
        snapshot = Some((place, bytes));
    }
    let mut frames = Vec::new();
    for record in flight.records().filter(|record| record.index > from) {
        log::seal(&mut frames, record.kind, record.index, record.at, record.payload);
    }
    let mut follower = follower.unwrap_or_else(|| Follower::after(from, None));
    follower.apply(&frames)?;
    let last = follower.last();
    if snapshot.as_ref().is_some_and(|(place, _)| last < place.index) {
        return Err("its records end before its snapshot".to_owned());
    }
    let state = follower.found(&rm).state.name();
    Ok(Whole { rm, snapshot, frames, from, last, state })
}
