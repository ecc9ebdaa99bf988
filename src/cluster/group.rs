//! The log of a resource manager in etcd, as the server that leads it writes it.
//!
//! Every change is a transaction with the condition that the head is the one that this server wrote last. So a server that
//! was deposed changes nothing, whatever its clock and its leases say. One transaction is under way at a time. Where none was
//! answered the head tells what came of it: a transaction that is late finds another head then, and has no effect.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{runtime::Handle, sync::Mutex, sync::mpsc::UnboundedSender};

use super::{
    etcd::{Change, Etcd, If, Trouble},
    keys::{Head, Keys, PART, Snap},
};
use crate::store::log::{Far, Place, WriteError, far, records};

/// A change that takes longer is logged.
const SLOW: Duration = Duration::from_millis(500);
/// Records are sent so often, as long as etcd tells how far they are, before it counts as silent.
const TRIES: usize = 3;
/// How often that is logged at most.
const TOLD: Duration = Duration::from_secs(10);

/// A value of the log: its number, the first record of which something is in it, its bytes.
pub type Chunk = (u64, u64, u64);

/// Why nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// etcd could not be asked.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// Another server leads now, or nobody.
    #[error("{0}")]
    Deposed(String),
}

/// See the module.
pub struct Group {
    /// The resource manager.
    pub rm: String,
    name: String,
    etcd: Arc<Etcd>,
    keys: Keys,
    runtime: Handle,
    inner: Mutex<Inner>,
    /// Nothing is written any more.
    deposed: AtomicBool,
    /// It is removed from etcd by this server.
    erased: AtomicBool,
    /// It is not in etcd any more.
    gone: AtomicBool,
    /// Told the name when it is deposed.
    tell: UnboundedSender<String>,
    /// Bytes in etcd, and how many there may be.
    bytes: AtomicU64,
    max_bytes: u64,
    /// When it was last logged that etcd is slow.
    slow: std::sync::Mutex<Option<Instant>>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({})", self.rm)
    }
}

struct Inner {
    head: Head,
    /// Of the head.
    revision: i64,
    /// The head is known for certain.
    sure: bool,
    /// Values of the log, oldest first.
    chunks: VecDeque<Chunk>,
    /// A part of a snapshot was put while the head had this revision, and etcd did not answer: as long as the head is this one, the
    /// part may still come through and replace a newer one.
    doubtful: Option<i64>,
}

/// What a group is made of.
pub struct Setup {
    /// How etcd is reached.
    pub etcd: Arc<Etcd>,
    /// Names of the keys in etcd.
    pub keys: Keys,
    /// Where its calls run.
    pub runtime: Handle,
    /// Told the name when it is deposed.
    pub tell: UnboundedSender<String>,
    /// Bytes that there may be before nothing new is placed.
    pub max_bytes: u64,
}

impl Group {
    /// The group of a head that this server wrote just now.
    pub fn new(setup: Setup, head: Head, revision: i64, chunks: VecDeque<Chunk>) -> Arc<Group> {
        let Setup { etcd, keys, runtime, tell, max_bytes } = setup;
        Arc::new(Group {
            rm: head.rm.clone(),
            name: Keys::name(&head.rm),
            etcd,
            keys,
            runtime,
            bytes: head.bytes.into(),
            max_bytes,
            slow: std::sync::Mutex::default(),
            inner: Mutex::new(Inner { head, revision, sure: true, chunks, doubtful: None }),
            deposed: AtomicBool::new(false),
            erased: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            tell,
        })
    }

    /// Nothing is written from now on.
    pub fn depose(&self) {
        self.deposed.store(true, SeqCst);
    }

    /// Whether nothing is written any more.
    pub fn is_deposed(&self) -> bool {
        self.deposed.load(SeqCst)
    }

    /// This server removes it.
    pub fn is_erased(&self) -> bool {
        self.erased.load(SeqCst)
    }

    /// It was looked for, and is not there.
    pub fn is_gone(&self) -> bool {
        self.gone.load(SeqCst)
    }

    /// Gives up the lead: another server may take it from now on, `next` before others.
    ///
    /// # Errors
    /// As far as is known no other leads. This one may go on writing: if the change came through all the same, that is refused.
    pub async fn hand_over(&self, next: Option<String>) -> Result<(), Fault> {
        let mut inner = self.inner.lock().await;
        self.be_sure(&mut inner).await?;
        let head = Head { server: String::new(), epoch: inner.head.epoch + 1, next, ..inner.head.clone() };
        self.change(&mut inner, head, Vec::new()).await?;
        self.depose();
        Ok(())
    }

    fn path(&self) -> String {
        format!("{} of etcd", self.keys.head(&self.name))
    }

    fn block<T>(&self, action: &'static str, work: impl Future<Output = Result<T, Fault>>) -> Result<T, WriteError> {
        self.runtime.block_on(work).map_err(|fault| far::failed(action, &self.path(), fault))
    }

    /// Where the last change was not answered, reads what came of it.
    async fn be_sure(&self, inner: &mut Inner) -> Result<(), Fault> {
        if self.is_deposed() {
            return Err(Fault::Deposed(format!("this server does not lead resource manager \"{}\" any more", self.rm)));
        }
        if inner.sure {
            return Ok(());
        }
        let key = self.keys.head(&self.name);
        let found = self.etcd.range(&key, "", 0, 0).await?;
        let found = found.keys.first().map(|found| (found.value.clone(), found.mod_revision));
        self.adopt(inner, found)
    }

    /// The head is this: written by this server, or it is deposed.
    fn adopt(&self, inner: &mut Inner, found: Option<(Bytes, i64)>) -> Result<(), Fault> {
        let is_gone = found.is_none();
        let read = found.and_then(|(value, revision)| Some((Head::read(&value).ok()?, revision)));
        match read {
            // A head with less than was known: etcd was restored.
            Some((head, revision))
                if head.server == inner.head.server
                    && head.epoch == inner.head.epoch
                    && head.index >= inner.head.index =>
            {
                // What it adds to the log is that of a change which came through and was not answered.
                if head.last > inner.head.last {
                    let bytes = head.bytes.saturating_sub(inner.head.bytes);
                    inner.chunks.push_back((head.last, inner.head.index + 1, bytes));
                }
                (inner.head, inner.revision, inner.sure) = (head, revision, true);
                self.bytes.store(inner.head.bytes, SeqCst);
                Ok(())
            }
            other => {
                let who = match other {
                    Some((head, _)) if head.server == inner.head.server && head.epoch <= inner.head.epoch => {
                        format!("etcd has forgotten records after {}", head.index)
                    }
                    Some((head, _)) if !head.server.is_empty() => format!("server {} leads it", head.server),
                    Some(_) => "no server leads it".to_owned(),
                    None => "its log is not in etcd any more".to_owned(),
                };
                self.gone.store(is_gone, SeqCst);
                self.depose();
                let _ = self.tell.send(self.name.clone());
                Err(Fault::Deposed(format!(
                    "this server does not lead resource manager \"{}\" any more: {who}",
                    self.rm
                )))
            }
        }
    }

    /// Puts a new head with other changes.
    async fn change(&self, inner: &mut Inner, head: Head, mut changes: Vec<Change>) -> Result<(), Fault> {
        changes.push(Change::Put(self.keys.head(&self.name), head.json().into(), 0));
        let done = self.txn(inner, changes).await?;
        (inner.head, inner.revision) = (head, done);
        self.bytes.store(inner.head.bytes, SeqCst);
        Ok(())
    }

    /// A transaction while this server leads. Gives the revision after it.
    async fn txn(&self, inner: &mut Inner, changes: Vec<Change>) -> Result<i64, Fault> {
        let key = self.keys.head(&self.name);
        inner.sure = false;
        let began = Instant::now();
        let mut conditions = vec![If { key, revision: inner.revision }];
        if crate::domain::planted!("append-unguarded") {
            conditions.clear();
        }
        let done = self.etcd.txn(&conditions, changes).await;
        if crate::domain::planted!("doubt-trusted") && done.is_err() {
            inner.sure = true;
            return Ok(inner.revision);
        }
        self.took(began.elapsed());
        let done = done?;
        if done.held {
            inner.sure = true;
            return Ok(done.revision);
        }
        let found = done.found.first().map(|found| (found.value.clone(), found.mod_revision));
        let before = inner.revision;
        self.adopt(inner, found)?;
        if inner.revision == before {
            return Err(Fault::Trouble(Trouble::Refused("a condition does not hold that holds".to_owned())));
        }
        // It was an earlier change of this server: what was to be changed now may be done already.
        Err(Fault::Trouble(Trouble::Silent("an earlier change came through late".to_owned())))
    }

    /// A change took so long. That etcd is slow is logged now and then.
    fn took(&self, time: Duration) {
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        if time < SLOW || slow.is_some_and(|told| told.elapsed() < TOLD) {
            return;
        }
        *slow = Some(Instant::now());
        tracing::warn!(
            code = "etcd-slow", rm = self.rm, took = ?time, etcd = ?self.etcd,
            "etcd took long for a change: what is answered, and what leaves, waits as long"
        );
    }

    async fn add(&self, frames: &[u8]) -> Result<(), Fault> {
        let mut inner = self.inner.lock().await;
        let mut tries = 1;
        loop {
            self.be_sure(&mut inner).await?;
            match self.add_unknown(&mut inner, frames).await {
                // The head tells how far it is, as soon as etcd answers.
                Err(Fault::Trouble(Trouble::Silent(_))) if tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    /// Adds the frames that are not there.
    async fn add_unknown(&self, inner: &mut Inner, frames: &[u8]) -> Result<(), Fault> {
        let known = inner.head.index + u64::from(crate::domain::planted!("append-skips"));
        for (unit, last) in units(frames, known).map_err(|why| Fault::Trouble(Trouble::Refused(why)))? {
            self.add_unit(inner, unit, last).await?;
        }
        Ok(())
    }

    /// Adds whole frames up to this record, as one value; a long frame, which is alone, as several, of which the last counts
    /// for all.
    async fn add_unit(&self, inner: &mut Inner, frames: &[u8], last: u64) -> Result<(), Fault> {
        let mut parts: Vec<&[u8]> = frames.chunks(PART).collect();
        let Some(end) = parts.pop() else { return Ok(()) };
        let first = inner.head.index + 1;
        let mut number = inner.head.last;
        let mut chunks = Vec::with_capacity(parts.len() + 1);
        for part in parts {
            number += 1;
            let put = Change::Put(self.keys.log(&self.name, number), Bytes::copy_from_slice(part), 0);
            self.txn(inner, vec![put]).await?;
            chunks.push((number, first, part.len() as u64));
        }
        number += 1;
        chunks.push((number, first, end.len() as u64));
        let head =
            Head { index: last, last: number, bytes: inner.head.bytes + frames.len() as u64, ..inner.head.clone() };
        let put = Change::Put(self.keys.log(&self.name, number), Bytes::copy_from_slice(end), 0);
        self.change(inner, head, vec![put]).await?;
        inner.chunks.extend(chunks);
        Ok(())
    }

    async fn keep_snapshot(&self, place: Place, bytes: Vec<u8>) -> Result<(), Fault> {
        let mut inner = self.inner.lock().await;
        self.be_sure(&mut inner).await?;
        if inner.head.snapshots.last().is_some_and(|snap| snap.place.index == place.index) {
            // It is there, and its parts may not be those of this one: lines are kept by time.
            return Ok(());
        }
        drop(inner);
        let (bytes, mut parts) = (Bytes::from(bytes), 0);
        while parts * PART < bytes.len() {
            let part = bytes.slice(parts * PART..bytes.len().min((parts + 1) * PART));
            // Records go in between.
            let mut inner = self.inner.lock().await;
            self.be_sure(&mut inner).await?;
            if inner.doubtful == Some(inner.revision) {
                // Behind another head nothing of before comes through.
                let head = inner.head.clone();
                self.change(&mut inner, head, Vec::new()).await?;
            }
            let put = Change::Put(self.keys.snap(&self.name, place.index, parts as u64), part, 0);
            inner.doubtful = Some(inner.revision);
            match self.txn(&mut inner, vec![put]).await {
                Err(Fault::Trouble(Trouble::Silent(_))) if inner.sure => continue,
                done => done?,
            };
            inner.doubtful = None;
            parts += 1;
        }
        let mut inner = self.inner.lock().await;
        self.be_sure(&mut inner).await?;
        let length = bytes.len() as u64;
        let mut head = Head { bytes: inner.head.bytes + length, ..inner.head.clone() };
        let before = head.snapshots.last().map_or(0, |snap| snap.place.index + 1);
        head.snapshots.push(Snap { place, parts: parts as u64, bytes: length });
        // What is between is of snapshots that were never finished.
        let unfinished = (before < place.index).then(|| {
            let key = |index| self.keys.snap(&self.name, index, 0);
            Change::Delete(key(before), key(place.index))
        });
        self.change(&mut inner, head, unfinished.into_iter().collect()).await
    }

    async fn let_go(&self, index: u64, state: u64) -> Result<(), Fault> {
        let mut inner = self.inner.lock().await;
        self.be_sure(&mut inner).await?;
        // Another server, or a change that was not answered, may have let go more than is to go now.
        let first = inner.head.first;
        let gone = inner.chunks.iter().take_while(|(number, ..)| *number < first).count();
        inner.chunks.drain(..gone);
        let mut head = inner.head.clone();
        let old: Vec<Chunk> = inner.chunks.iter().take(unneeded(&inner.chunks, index)).copied().collect();
        let mut changes = Vec::new();
        if let Some((number, ..)) = old.last() {
            let key = |number| self.keys.log(&self.name, number);
            // Also parts of a record that never counted.
            changes.push(Change::Delete(key(1), key(number + 1)));
            head.first = number + 1;
        }
        let gone: u64 = old.iter().map(|(.., bytes)| bytes).sum();
        let (kept, stale): (Vec<Snap>, Vec<Snap>) =
            head.snapshots.drain(..).partition(|snap| snap.place.index >= state);
        let snaps: u64 = stale.iter().map(|snap| snap.bytes).sum();
        if !stale.is_empty() {
            let key = |index| self.keys.snap(&self.name, index, 0);
            changes.push(Change::Delete(key(0), key(kept.first().map_or(state, |snap| snap.place.index))));
        }
        head.snapshots = kept;
        head.bytes = head.bytes.saturating_sub(gone + snaps);
        if changes.is_empty() {
            return Ok(());
        }
        self.change(&mut inner, head, changes).await?;
        inner.chunks.drain(..old.len());
        Ok(())
    }

    async fn erase(&self) -> Result<(), Fault> {
        // The watch may tell of it first.
        self.erased.store(true, SeqCst);
        let mut inner = self.inner.lock().await;
        self.be_sure(&mut inner).await?;
        let (logs, snaps) = (self.keys.logs(&self.name), self.keys.snaps(&self.name));
        let head = Change::delete(&self.keys.head(&self.name));
        let changes = vec![Change::Delete(logs.0, logs.1), Change::Delete(snaps.0, snaps.1), head];
        self.txn(&mut inner, changes).await?;
        // Nobody else leads it: the watch tells others that it is gone.
        self.depose();
        Ok(())
    }
}

/// The frames behind a record, as they come into values: whole ones, together at most [`PART`] bytes, or a longer one alone; each with
/// the index of its last record.
///
/// # Errors
/// A frame is damaged.
pub fn units(frames: &[u8], after: u64) -> Result<Vec<(&[u8], u64)>, String> {
    let (mut units, mut at, mut begin, mut last) = (Vec::new(), 0, None, after);
    for record in records(frames) {
        let (record, length) = record?;
        if record.index > after {
            let first = *begin.get_or_insert(at);
            if at > first && at + length - first > PART {
                units.push((&frames[first..at], last));
                begin = Some(at);
            }
            last = record.index;
        }
        at += length;
    }
    units.extend(begin.map(|first| (&frames[first..at], last)));
    Ok(units)
}

/// How many of the oldest values hold nothing of this record and those behind it. A record that is cut goes with all its parts.
fn unneeded(chunks: &VecDeque<Chunk>, index: u64) -> usize {
    let begins = |at: usize| chunks[at].1 > chunks[at - 1].1;
    (1..chunks.len()).rev().find(|at| chunks[*at].1 <= index && begins(*at)).unwrap_or(0)
}

impl Far for Group {
    fn append(&self, frames: &[u8]) -> Result<(), WriteError> {
        self.block("append to", self.add(frames))
    }

    fn snapshot(&self, place: Place, bytes: Vec<u8>) -> Result<(), WriteError> {
        self.block("keep a snapshot beside", self.keep_snapshot(place, bytes))
    }

    fn prune(&self, index: u64, state: u64) -> Result<(), WriteError> {
        self.block("let go what is old of", self.let_go(index, state))
    }

    fn remove(&self) -> Result<(), WriteError> {
        self.block("remove", self.erase())
    }

    fn room(&self) -> (u64, u64) {
        (self.bytes.load(SeqCst), self.max_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::etcd::{Done, Found, KeyValue, Model};

    #[test]
    fn a_record_that_is_cut_goes_with_all_its_parts() {
        // Values 2 to 4 are parts of record 5.
        let chunks: VecDeque<Chunk> = [(1, 1, 9), (2, 5, 9), (3, 5, 9), (4, 5, 9), (5, 6, 9), (6, 8, 9)].into();
        let kept = [(0, 0), (1, 0), (4, 0), (5, 1), (6, 4), (7, 4), (8, 5), (100, 5)];
        for (index, gone) in kept {
            assert_eq!(unneeded(&chunks, index), gone, "{index}");
        }
        assert_eq!(unneeded(&VecDeque::new(), 1), 0);
    }

    /// An etcd that does all that it is told, and keeps it.
    #[derive(Default)]
    struct Obedient(std::sync::Mutex<Vec<Vec<Change>>>);

    impl Model for Obedient {
        fn range(&self, _: &str, _: &str, _: i64, _: i64) -> Result<Found, Trouble> {
            Err(Trouble::Silent("nothing is read here".to_owned()))
        }

        fn txn(&self, _: &[If], changes: Vec<Change>) -> Result<Done, Trouble> {
            let mut all = self.0.lock().unwrap();
            all.push(changes);
            Ok(Done { held: true, revision: 100 + all.len() as i64, found: Vec::new() })
        }
    }

    /// An etcd that has no space left.
    struct Full;

    impl Model for Full {
        fn range(&self, _: &str, _: &str, _: i64, _: i64) -> Result<Found, Trouble> {
            let head = Head { rm: "rm".to_owned(), server: "me".to_owned(), epoch: 1, ..Head::default() };
            let found = KeyValue { value: head.json().into(), mod_revision: 100, ..KeyValue::default() };
            Ok(Found { revision: 100, keys: vec![found], more: false })
        }

        fn txn(&self, _: &[If], _: Vec<Change>) -> Result<Done, Trouble> {
            Err(Trouble::Refused("mvcc: database space exceeded".to_owned()))
        }
    }

    fn group(etcd: Arc<dyn Model>, head: Head, chunks: VecDeque<Chunk>) -> Arc<Group> {
        let (keys, tell) = (Keys::new("/callboard"), tokio::sync::mpsc::unbounded_channel().0);
        let setup = Setup { etcd: Etcd::modelled(etcd), keys, runtime: Handle::current(), tell, max_bytes: 1_000 };
        Group::new(setup, head, 100, chunks)
    }

    #[tokio::test]
    async fn what_cannot_be_handed_over_is_led_on() {
        let head = Head { rm: "rm".to_owned(), server: "me".to_owned(), epoch: 1, ..Head::default() };
        let group = group(Arc::new(Full), head, VecDeque::new());
        for _ in 0..2 {
            assert!(matches!(group.hand_over(None).await, Err(Fault::Trouble(Trouble::Refused(_)))));
            assert!(!group.is_deposed());
        }
    }

    #[tokio::test]
    async fn what_was_let_go_before_does_not_come_back_to_the_head() {
        // Values 1 to 15 were let go by the server that led before, while this one followed.
        let etcd = Arc::<Obedient>::default();
        let head = Head { rm: "rm".to_owned(), first: 16, last: 20, index: 20, bytes: 50, ..Head::default() };
        let group = group(etcd.clone(), head, (1..=20).map(|number| (number, number, 10)).collect());
        let head = async || group.inner.lock().await.head.clone();
        group.let_go(10, 0).await.expect("done");
        assert_eq!((head().await.first, head().await.bytes), (16, 50), "nothing of that is there any more");
        group.let_go(18, 0).await.expect("done");
        assert_eq!((head().await.first, head().await.bytes), (18, 30));
        assert_eq!(etcd.0.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_snapshot_that_is_there_is_not_written_over() {
        let etcd = Arc::<Obedient>::default();
        let head = Head { rm: "rm".to_owned(), first: 1, last: 20, index: 20, ..Head::default() };
        let group = group(etcd.clone(), head, VecDeque::new());
        let at = |index| Place { index, from: index };
        group.keep_snapshot(at(20), vec![1; 2 * PART]).await.expect("done");
        let written = etcd.0.lock().unwrap().len();
        group.keep_snapshot(at(20), vec![2; PART]).await.expect("done");
        assert_eq!(etcd.0.lock().unwrap().len(), written, "its parts are those that the head tells of");
        group.keep_snapshot(at(21), vec![3; PART]).await.expect("done");
        let snapshots = group.inner.lock().await.head.snapshots.clone();
        assert_eq!(snapshots.iter().map(|snap| (snap.place.index, snap.parts)).collect::<Vec<_>>(), [(20, 2), (21, 1)]);
    }
}
