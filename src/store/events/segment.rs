//! One file of the store, as its readers and its writer share it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use super::VERSION;
use crate::domain::types::Nanos;

/// Length of the head of a file.
pub const HEADER: u64 = 40;
const MAGIC: [u8; 8] = *b"CBEVENTS";
const SUFFIX: &str = "events";
/// A time that is not known.
pub const UNKNOWN: Nanos = Nanos(i64::MAX);
/// Distance in bytes of the places that are remembered in a file.
const STRIDE: u64 = 256 * 1024;

/// See the module.
#[derive(Debug)]
pub struct Segment {
    /// The file.
    pub path: PathBuf,
    /// First id.
    pub first: u64,
    /// Time of the first event.
    pub oldest: Nanos,
    /// Events that were written before it, in all files there ever were; gaps are not counted.
    pub before: u64,
    /// Bytes that are written and may be read.
    written: AtomicU64,
    /// The id after the last one.
    end: AtomicU64,
    /// The id with which the next file begins, as far as there is one.
    next: AtomicU64,
    /// Where frames begin, with their first id, at least [`STRIDE`] apart.
    places: Mutex<Vec<(u64, u64)>>,
    /// Damage in it was logged.
    told: AtomicBool,
}

impl Segment {
    /// A file with `written` bytes and ids in `first..end`.
    pub fn new(path: PathBuf, first: u64, start: Start, written: u64, end: u64) -> Segment {
        Segment {
            path,
            first,
            oldest: start.oldest,
            before: start.before,
            written: written.into(),
            end: end.into(),
            next: u64::MAX.into(),
            places: Mutex::default(),
            told: false.into(),
        }
    }

    /// The bytes that may be read, and the id after the last one in them.
    pub fn extent(&self) -> (u64, u64) {
        // The bytes grow before the id, so reading the id first never promises too much.
        let end = self.end.load(SeqCst);
        (self.written.load(SeqCst), end)
    }

    /// Events with these ids may be in it: frames with others are those of another file.
    pub fn holds(&self, first: u64, end: u64) -> bool {
        first >= self.first && end <= self.next.load(SeqCst)
    }

    /// Another frame is there.
    pub fn grow(&self, first: u64, at: u64, written: u64, end: u64) {
        self.note(first, at);
        self.written.store(written, SeqCst);
        self.end.store(end, SeqCst);
    }

    /// The next file begins here.
    pub fn seal(&self, end: u64) {
        self.next.store(end, SeqCst);
        self.end.store(end, SeqCst);
    }

    /// Remembers that a frame begins at a place.
    pub fn note(&self, first: u64, at: u64) {
        let mut places = lock(&self.places);
        if places.last().is_none_or(|(_, last)| at >= last + STRIDE) {
            places.push((first, at));
        }
    }

    /// A place at or before the frame that holds an id.
    pub fn place_of(&self, id: u64) -> u64 {
        self.near(id).1
    }

    /// The same with the id of what begins there.
    pub fn near(&self, id: u64) -> (u64, u64) {
        let places = lock(&self.places);
        let after = places.partition_point(|(first, _)| *first <= id);
        after.checked_sub(1).and_then(|at| places.get(at)).copied().unwrap_or((self.first, HEADER))
    }

    /// A place before everything that is there for an id.
    pub fn place_before(&self, id: u64) -> u64 {
        id.checked_sub(1).map_or(HEADER, |before| self.place_of(before))
    }

    /// Damage is found: true the first time.
    pub fn tell(&self) -> bool {
        !self.told.swap(true, SeqCst)
    }
}

/// What is known about the beginning of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// See [`Segment::oldest`].
    pub oldest: Nanos,
    /// See [`Segment::before`].
    pub before: u64,
}

/// What readers and the writer share.
#[derive(Debug, Default)]
pub struct Shared {
    segments: Mutex<Arc<Vec<Arc<Segment>>>>,
}

impl Shared {
    /// The files in the order of their ids.
    pub fn list(&self) -> Arc<Vec<Arc<Segment>>> {
        lock(&self.segments).clone()
    }

    /// Replaces the list.
    pub fn set(&self, segments: Vec<Arc<Segment>>) {
        *lock(&self.segments) = Arc::new(segments);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one of these locks is held.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The file that begins with an id.
pub fn path(directory: &Path, first: u64) -> PathBuf {
    directory.join(format!("{first:020}.{SUFFIX}"))
}

/// The files of a directory with their first ids, in order.
pub fn list(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if path.extension().is_some_and(|suffix| suffix == SUFFIX)
            && let Ok(first) = name.parse()
        {
            files.push((first, path));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The head of a file.
pub fn header(first: u64, start: Start) -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&first.to_le_bytes());
    bytes[24..32].copy_from_slice(&start.oldest.0.to_le_bytes());
    bytes[32..].copy_from_slice(&start.before.to_le_bytes());
    let crc = crc32fast::hash(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What the head of a file says.
#[derive(Debug, PartialEq, Eq)]
pub enum Header {
    /// A file of this version.
    Good {
        /// First id.
        first: u64,
        /// The rest of it.
        start: Start,
    },
    /// A file of a later version.
    Newer(u32),
    /// The file ends within its head.
    Short,
    /// Something else.
    Damaged,
}

/// Reads the head of a file.
pub fn read_header(file: &mut File) -> io::Result<Header> {
    use io::Read as _;
    let mut bytes = Vec::with_capacity(HEADER as usize);
    file.take(HEADER).read_to_end(&mut bytes)?;
    let Ok(mut bytes) = <[u8; HEADER as usize]>::try_from(bytes) else { return Ok(Header::Short) };
    let u64_at = |bytes: &[u8], at: usize| bytes[at..at + 8].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
    let (version, crc) = (u64_at(&bytes, 8) as u32, (u64_at(&bytes, 8) >> 32) as u32);
    bytes[12..16].fill(0);
    // First of all: a flipped bit makes no later version. Later formats keep the form of the head.
    if bytes[..8] != MAGIC || crc32fast::hash(&bytes) != crc {
        return Ok(Header::Damaged);
    }
    if version > VERSION {
        return Ok(Header::Newer(version));
    }
    let start = Start { oldest: Nanos(u64_at(&bytes, 24) as i64), before: u64_at(&bytes, 32) };
    Ok(Header::Good { first: u64_at(&bytes, 16), start })
}
