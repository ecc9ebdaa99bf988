//! The mark: up to which id events may have been given out, so that none is given twice.
//!
//! Readers see an event before it is on disk. Were the process killed in between, its id would be used again for
//! another event, and a reader that resumes there would miss it. So ids are reserved ahead, in a small file that is
//! written in place (which works on a full disk too); after a crash numbering goes on behind the reservation, and the
//! ids in between are an explicit gap. A clean end leaves no gap. It also says when the process was last alive, which is
//! when what its allocations used ends for those who look back, and up to when the clock was believed (see
//! [`super::clock`]).
//!
//! What is reserved is also said outside of the directory: should all of that be gone, ids go on nevertheless.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::{domain::types::Nanos, store::files};

/// How many ids are reserved at a time.
pub const AHEAD: u64 = 1 << 20;
/// Four numbers, and a checksum.
const LENGTH: usize = 40;
/// Of earlier marks, which lack the last of the numbers.
const SHORT: usize = 32;

/// See the module.
pub struct Mark {
    file: File,
    path: PathBuf,
    beside: Option<Beside>,
    reserved: u64,
    alive: Nanos,
    believed: Nanos,
}

/// The file beside the directory.
pub struct Beside {
    file: File,
    path: PathBuf,
    /// Ids below this were given out, as far as it knows.
    pub known: u64,
}

impl Beside {
    /// Opens or makes it.
    pub fn open(path: &Path) -> io::Result<Beside> {
        let (file, found) = open_at(path)?;
        let known = if let Found::Whole(left) = found { left.reserved } else { 0 };
        Ok(Beside { file, path: path.to_owned(), known })
    }

    /// An error of it, which is told as one of the mark.
    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

/// What an earlier process left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Ids below this may have been given out.
    pub reserved: u64,
    /// The next id, if the store was closed.
    pub closed: Option<u64>,
    /// When it was last alive.
    pub alive: Nanos,
    /// Up to when it believed the clock.
    pub believed: Nanos,
}

/// What there is of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none.
    Missing,
    /// It says nothing that can be used.
    Damaged,
    /// It is whole, and says this.
    Whole(Left),
}

impl Mark {
    /// Opens or makes the file.
    pub fn open(directory: &Path, beside: Option<Beside>) -> io::Result<(Mark, Found)> {
        let path = directory.join("mark");
        let (file, found) = open_at(&path)?;
        // What the process before said holds until this one says that it is alive.
        let alive = if let Found::Whole(left) = found { left.alive } else { Nanos::ZERO };
        Ok((Mark { file, path, beside, reserved: 0, alive, believed: Nanos::ZERO }, found))
    }

    /// The file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ids below this may be given out.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Reserves ids beyond `next`, where less than half of a reservation is left.
    pub fn reserve(&mut self, next: u64) -> io::Result<()> {
        if self.reserved >= next.saturating_add(AHEAD / 2) {
            return Ok(());
        }
        let reserved = next.saturating_add(AHEAD);
        self.write(reserved, u64::MAX)?;
        self.write_beside(reserved)?;
        self.reserved = reserved;
        Ok(())
    }

    /// The process is alive at this time.
    pub fn alive(&mut self, now: Nanos) -> io::Result<()> {
        self.alive = now;
        self.write(self.reserved, u64::MAX)
    }

    /// The clock is believed up to this time; written with whatever is written next.
    pub fn believe(&mut self, time: Nanos) {
        self.believed = time;
    }

    /// The store is closed, and `next` is the next id.
    pub fn close(&mut self, next: u64) -> io::Result<()> {
        // Before the mark itself, which counts while it says more.
        self.write_beside(next)?;
        if let Some(beside) = &self.beside {
            beside.file.sync_data().map_err(|error| beside.named(&error))?;
        }
        self.write(next, next)?;
        self.reserved = next;
        self.sync()
    }

    /// Another handle of the file, to wait for the disk elsewhere.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Waits for the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&mut self, reserved: u64, closed: u64) -> io::Result<()> {
        let bytes = self.bytes(reserved, closed);
        write_at(&mut self.file, &bytes)
    }

    fn write_beside(&mut self, reserved: u64) -> io::Result<()> {
        let bytes = self.bytes(reserved, u64::MAX);
        let Some(beside) = &mut self.beside else { return Ok(()) };
        write_at(&mut beside.file, &bytes).map_err(|error| beside.named(&error))
    }

    fn bytes(&self, reserved: u64, closed: u64) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&reserved.to_le_bytes());
        bytes[8..16].copy_from_slice(&closed.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.alive.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.believed.0.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..32]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

fn write_at(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(bytes)
}

fn open_at(path: &Path) -> io::Result<(File, Found)> {
    let missing = path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let mut file = files::open_or_make(path, OpenOptions::new().read(true).write(true))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if bytes.len() > LENGTH {
        file.set_len(LENGTH as u64)?;
    }
    let found = match read(&bytes) {
        Some(left) => Found::Whole(left),
        None if missing => Found::Missing,
        None => Found::Damaged,
    };
    Ok((file, found))
}

fn read(bytes: &[u8]) -> Option<Left> {
    let number = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let numbers = match bytes.len() {
        LENGTH => 32,
        SHORT => 24,
        _ => return None,
    };
    // What follows the checksum is nought, so that every flipped bit is noticed.
    if u64::from(crc32fast::hash(&bytes[..numbers])) != number(numbers) {
        return None;
    }
    let closed = number(8);
    Some(Left {
        reserved: number(0),
        closed: (closed != u64::MAX).then_some(closed),
        alive: Nanos(number(16) as i64),
        believed: if numbers == 32 { Nanos(number(24) as i64) } else { Nanos::ZERO },
    })
}
