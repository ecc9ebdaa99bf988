//! Following the log of a resource manager that another server leads: it is read from etcd, and what is added to it is
//! applied as it comes.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    task::{AbortHandle, spawn_blocking},
    time::sleep,
};

use super::{
    etcd::{Etcd, Trouble},
    group::Chunk,
    keys::{Head, Keys, Snap},
};
use crate::{
    actors::rm::{
        follow::{Follower, View},
        replay::Listener,
    },
    store::log::{Place, Title, records},
};

/// Values of the log in the first read.
const PAGE: i64 = 16;
/// Values in a read at most, however small they are, so that etcd can answer others in between.
const LARGEST_PAGE: i64 = 1_024;
/// Bytes that a read aims at: of small values more are read.
const PAGE_BYTES: usize = 1 << 20;
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(300);

/// How far somebody follows, for others.
#[derive(Debug, Default)]
pub struct Seen {
    last: AtomicU64,
    loaded: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

/// Why it is not followed any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is to be read anew.
    Again,
    /// It cannot be followed.
    Broken(String),
}

impl Seen {
    /// Index of the last record that was applied.
    pub fn last(&self) -> u64 {
        self.last.load(SeqCst)
    }

    /// Everything that was there at the beginning is applied.
    pub fn is_loaded(&self) -> bool {
        self.loaded.load(SeqCst)
    }

    /// Why it is not followed any more.
    pub fn fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, fault: Fault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }
}

/// A log that is followed. Once this is dropped, nothing more is read or applied.
#[derive(Debug)]
pub struct Following {
    messages: UnboundedSender<ToFollower>,
    /// How far.
    pub seen: Arc<Seen>,
    task: AbortHandle,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What was followed, to go on with.
pub struct Followed {
    /// The state.
    pub follower: Follower,
    /// Values of the log, oldest first.
    pub chunks: VecDeque<Chunk>,
}

enum ToFollower {
    /// More values that count, the first one of the head, and the place of its newest snapshot.
    Add(Vec<(u64, Bytes)>, u64, Option<Place>),
    /// This server leads from now on.
    Finish(oneshot::Sender<Box<Followed>>),
    /// Somebody wants to see what it has led to.
    View(oneshot::Sender<Option<Box<View>>>),
}

/// What readers see of a log that is followed.
#[derive(Clone, Debug)]
pub struct Looker {
    messages: UnboundedSender<ToFollower>,
    /// How far.
    pub seen: Arc<Seen>,
}

impl Looker {
    /// What it has led to; the inner `None`: no session runs. `None` where it is not followed any more.
    pub async fn view(&self) -> Option<Option<Box<View>>> {
        let (tell, told) = oneshot::channel();
        self.messages.send(ToFollower::View(tell)).ok()?;
        told.await.ok()
    }
}

/// What is followed.
pub struct Source {
    /// How etcd is reached.
    pub etcd: Arc<Etcd>,
    /// Names of the keys in etcd.
    pub keys: Keys,
    /// The log, as it was at this revision.
    pub head: Head,
    /// See `head`.
    pub revision: i64,
    /// What snapshots have to say of themselves.
    pub title: Title,
    /// Who is told the events of what is applied.
    pub listener: Option<Listener>,
}

impl Following {
    /// Begins with the log as it was at a revision of etcd; what is added later is to be told, in order.
    pub fn start(source: Source) -> Following {
        let (messages, told) = unbounded_channel();
        let seen = Arc::<Seen>::default();
        let task = tokio::spawn(run(source, told, seen.clone())).abort_handle();
        Following { messages, seen, task }
    }

    /// The head is this one now, and these values of the log count.
    pub fn add(&self, values: Vec<(u64, Bytes)>, head: &Head) {
        // Where the follower has ended, it has said why.
        let _ = self.messages.send(ToFollower::Add(values, head.first, head.snapshots.last().map(|snap| snap.place)));
    }

    /// For readers.
    pub fn looker(&self) -> Looker {
        Looker { messages: self.messages.clone(), seen: self.seen.clone() }
    }

    /// All that was told is applied, and handed out.
    ///
    /// # Errors
    /// Why it cannot be gone on with.
    pub async fn finish(self) -> Result<Box<Followed>, Fault> {
        let (tell, told) = oneshot::channel();
        let _ = self.messages.send(ToFollower::Finish(tell));
        told.await.map_err(|_| self.seen.fault().unwrap_or(Fault::Again))
    }
}

/// Tests hold things up, as long as the file is there that this variable names.
pub(super) async fn test_hold(variable: &str) {
    let file = cfg!(debug_assertions).then(|| std::env::var_os(variable)).flatten();
    while file.as_ref().is_some_and(|file| Path::new(file).exists()) {
        sleep(Duration::from_millis(20)).await;
    }
}

async fn run(source: Source, mut messages: UnboundedReceiver<ToFollower>, seen: Arc<Seen>) {
    // Tests cannot write so much that reading it takes a while.
    test_hold("CALLBOARD_TEST_READ_WAITS").await;
    let mut followed = loop {
        match load(&source).await {
            Ok(Ok(followed)) => break Box::new(followed),
            Ok(Err(why)) => return seen.fail(Fault::Broken(why)),
            Err(Trouble::Compacted) => return seen.fail(Fault::Again),
            Err(trouble) => tracing::debug!(rm = source.head.rm, %trouble, "the log is not read yet"),
        }
        if messages.is_closed() {
            return;
        }
        sleep(AGAIN).await;
    };
    seen.last.store(followed.follower.last(), SeqCst);
    seen.loaded.store(true, SeqCst);
    while let Some(message) = messages.recv().await {
        match message {
            ToFollower::Finish(tell) => {
                let _ = tell.send(followed);
                return;
            }
            ToFollower::View(tell) => {
                let _ = tell.send(followed.follower.view());
            }
            ToFollower::Add(values, first, snapshot) => {
                let beyond = |last| snapshot.is_some_and(|place| place.from > last);
                let follower = &followed.follower;
                if !follower.has_session() && snapshot.is_some_and(|place| place.from >= follower.last()) {
                    // No record told of the session that it has.
                    return seen.fail(Fault::Again);
                }
                let last = followed.chunks.back().map_or(source.head.last, |(number, ..)| *number);
                // The newest stays: what comes next follows it.
                let gone = followed.chunks.iter().take_while(|(number, ..)| *number < first.min(last)).count();
                followed.chunks.drain(..gone);
                let values: Vec<_> = values.into_iter().filter(|(number, _)| *number > last).collect();
                if values.iter().zip(last + 1..).any(|((number, _), expected)| *number != expected) {
                    // Parts of it were put before it was followed.
                    return seen.fail(Fault::Again);
                }
                if !values.is_empty() {
                    let added = spawn_blocking(move || {
                        let added = followed.add(last, &values);
                        (followed, added)
                    });
                    match added.await {
                        Ok((again, Ok(()))) => followed = again,
                        Ok((_, Err(why))) => return seen.fail(Fault::Broken(why)),
                        Err(error) => return seen.fail(Fault::Broken(format!("applying it broke down: {error}"))),
                    }
                }
                if beyond(followed.follower.last()) {
                    return seen.fail(Fault::Again);
                }
                seen.last.store(followed.follower.last(), SeqCst);
            }
        }
    }
}

impl Followed {
    fn add(&mut self, last: u64, values: &[(u64, Bytes)]) -> Result<(), String> {
        let mut whole = Vec::new();
        for ((number, value), expected) in values.iter().zip(last + 1..) {
            if *number != expected {
                return Err(format!("value {number} of the log follows value {}", expected - 1));
            }
            whole.extend_from_slice(value);
        }
        let mut end = 0;
        let mut ends = Vec::new();
        for record in records(&whole) {
            let (record, length) = record?;
            end += length;
            ends.push((end, record.index));
        }
        let mut begin = 0;
        for (number, value) in values {
            // The first record that is in it.
            let first = ends[ends.partition_point(|(end, _)| *end <= begin)..].first().map_or(0, |(_, index)| *index);
            self.chunks.push_back((*number, first, value.len() as u64));
            begin += value.len();
        }
        self.follower.apply(&whole)
    }
}

/// Reads the newest snapshot that can be read, and the log behind it. The inner error is permanent.
pub async fn load(source: &Source) -> Result<Result<Followed, String>, Trouble> {
    let Source { etcd, keys, head, revision, title, listener } = source;
    let name = Keys::name(&head.rm);
    if head.domain > title.domain {
        return Ok(Err(format!(
            "its records have version {}, and this server knows up to {}: it follows after an upgrade",
            head.domain, title.domain
        )));
    }
    let mut follower = None;
    for snap in head.snapshots.iter().rev() {
        let whole = snapshot(source, snap).await?;
        let (title, place, bytes, listener) = (title.clone(), snap.place, snap.bytes, listener.clone());
        let read = spawn_blocking(move || match whole.len() as u64 {
            length if length == bytes => Follower::from_snapshot(&whole, &title, place, listener),
            length => Err(format!("it has {length} bytes, and the head tells of {bytes}")),
        })
        .await;
        match read.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(read) => {
                follower = Some(read);
                break;
            }
            Err(why) => tracing::error!(
                code = "log-snapshot-damaged",
                rm = head.rm,
                index = snap.place.index,
                "snapshot in etcd: {why}; an older one is read, and more of the log"
            ),
        }
    }
    let (from, to) = (keys.log(&name, head.first), keys.log(&name, head.last + 1));
    let values = read(etcd, from, &to, *revision).await?;
    let values: Vec<_> = values
        .into_iter()
        .filter_map(|(key, value)| Some((key.rsplit('/').next()?.parse::<u64>().ok()?, value)))
        .collect();
    let (first, index, listener) = (head.first, head.index, listener.clone());
    let begun = move || {
        let follower = match follower {
            Some(follower) => follower,
            None => {
                let whole: Vec<u8> = values.iter().flat_map(|(_, value)| value).copied().collect();
                let begins = records(&whole).next().transpose()?.map_or(index + 1, |(record, _)| record.index);
                Follower::after(begins - 1, listener)
            }
        };
        let mut followed = Followed { follower, chunks: VecDeque::new() };
        followed.add(first.saturating_sub(1), &values)?;
        Ok(followed)
    };
    let followed = spawn_blocking(begun).await.unwrap_or_else(|error| Err(format!("reading it broke down: {error}")));
    Ok(followed.and_then(|followed: Followed| {
        if followed.follower.last() == head.index {
            return Ok(followed);
        }
        Err(format!(
            "the log in etcd ends with record {}, and its head tells of {}",
            followed.follower.last(),
            head.index
        ))
    }))
}

/// The bytes of a snapshot.
pub async fn snapshot(source: &Source, snap: &Snap) -> Result<Vec<u8>, Trouble> {
    let Source { etcd, keys, head, revision, .. } = source;
    let (name, index) = (Keys::name(&head.rm), snap.place.index);
    let bytes = read(etcd, keys.snap(&name, index, 0), &keys.snap(&name, index, snap.parts), *revision).await?;
    Ok(bytes.iter().flat_map(|(_, bytes)| bytes).copied().collect())
}

/// All frames of the log that count.
pub async fn frames(source: &Source) -> Result<Vec<u8>, Trouble> {
    let Source { etcd, keys, head, revision, .. } = source;
    let name = Keys::name(&head.rm);
    let values = read(etcd, keys.log(&name, head.first), &keys.log(&name, head.last + 1), *revision).await?;
    Ok(values.iter().flat_map(|(_, bytes)| bytes).copied().collect())
}

/// How many values are read next, after so many had so many bytes: each read is a round trip, and has etcd count what is left.
fn next_page(page: i64, bytes: usize) -> i64 {
    if bytes > PAGE_BYTES {
        (page / 2).max(1)
    } else if bytes <= PAGE_BYTES / 2 {
        (page * 2).min(LARGEST_PAGE)
    } else {
        page
    }
}

/// All keys from one up to another, as they were at a revision.
async fn read(etcd: &Etcd, from: String, to: &str, revision: i64) -> Result<Vec<(String, Bytes)>, Trouble> {
    let (mut from, mut all, mut page) = (from, Vec::new(), PAGE);
    loop {
        let found = etcd.range(&from, to, revision, page).await?;
        let bytes: usize = found.keys.iter().map(|found| found.value.len()).sum();
        page = next_page(page, bytes);
        for found in found.keys {
            all.push((String::from_utf8_lossy(&found.key).into_owned(), found.value));
        }
        match all.last() {
            Some((last, _)) if found.more => from = format!("{last}\0"),
            _ => return Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::etcd::{Change, Done, Found, If, Model};

    /// An etcd without keys that counts how often it is read.
    #[derive(Default)]
    struct Empty(AtomicU64);

    impl Model for Empty {
        fn range(&self, _: &str, _: &str, revision: i64, _: i64) -> Result<Found, Trouble> {
            self.0.fetch_add(1, SeqCst);
            Ok(Found { revision, keys: Vec::new(), more: false })
        }

        fn txn(&self, _: &[If], _: Vec<Change>) -> Result<Done, Trouble> {
            Err(Trouble::Silent("nothing is written here".to_owned()))
        }
    }

    fn source(etcd: &Arc<Empty>) -> Source {
        Source {
            etcd: Etcd::modelled(etcd.clone()),
            keys: Keys::new("/callboard"),
            head: Head { version: 1, rm: "rm".to_owned(), first: 1, ..Head::default() },
            revision: 1,
            title: Title { version: 1, domain: 1, server: "cluster".to_owned(), rm: "rm".to_owned() },
            listener: None,
        }
    }

    #[tokio::test]
    async fn nothing_is_read_for_nobody() {
        let etcd = Arc::<Empty>::default();
        let followed = Following::start(source(&etcd)).finish().await.expect("an empty log");
        assert_eq!((followed.follower.last(), etcd.0.load(SeqCst)), (0, 1));
        let (given_up, next) = (Following::start(source(&etcd)), Following::start(source(&etcd)));
        drop(given_up);
        next.finish().await.expect("an empty log");
        assert_eq!(etcd.0.load(SeqCst), 2, "once for each that was followed to its end");
    }

    #[tokio::test]
    async fn a_snapshot_of_which_no_record_told_is_read() {
        let etcd = Arc::<Empty>::default();
        let begun = || Source { head: Head { index: 5, ..source(&etcd).head }, ..source(&etcd) };
        let with = |index, from| {
            let snap = Snap { place: Place { index, from }, parts: 1, bytes: 1 };
            Head { snapshots: vec![snap], ..begun().head }
        };
        for (head, again) in [(with(5, 5), true), (with(8, 6), true), (begun().head, false), (with(4, 4), false)] {
            let following = Following::start(begun());
            following.add(Vec::new(), &head);
            assert_eq!(following.finish().await.err(), again.then_some(Fault::Again), "{head:?}");
        }
    }

    #[test]
    fn small_values_are_read_in_large_pages_and_large_ones_few_at_a_time() {
        let pages = |bytes: usize| {
            let grown = |page: &i64| Some(next_page(*page, *page as usize * bytes));
            std::iter::successors(Some(PAGE), grown).take(20).collect::<Vec<_>>()
        };
        // A log of 10,000 small records comes in a dozen answers instead of 625.
        let small = pages(300);
        assert_eq!((small[1], small[6], small[19]), (32, 1_024, 1_024));
        assert!(small[..16].iter().sum::<i64>() > 10_000, "{small:?}");
        // However large they are: one at a time at last, and never none.
        assert_eq!(pages(4 << 20)[19], 1);
        // What is in between settles.
        let some = pages(10_000);
        assert_eq!(some[10], some[19], "{some:?}");
    }
}
