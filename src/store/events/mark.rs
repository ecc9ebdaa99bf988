//! The mark: up to which id events may have been given out, so that none is given twice.
//!
//! Readers see an event before it is on disk. Were the process killed in between, its id would be used again for
//! another event, and a reader that resumes there would miss it. So ids are reserved ahead, in a small file that is
//! written in place (which works on a full disk too); after a crash numbering goes on behind the reservation, and the
//! ids in between are an explicit gap. A clean end leaves no gap. It also says when the process was last alive, which is
//! when what its allocations used ends for those who look back.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::domain::types::Nanos;

/// How many ids are reserved at a time.
pub const AHEAD: u64 = 1 << 20;
const LENGTH: usize = 32;

/// See the module.
pub struct Mark {
    file: File,
    path: PathBuf,
    reserved: u64,
    alive: Nanos,
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
}

impl Mark {
    /// Opens or makes the file; `None` where it says nothing usable.
    pub fn open(directory: &Path) -> io::Result<(Mark, Option<Left>)> {
        let path = directory.join("mark");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let left = read(&bytes);
        Ok((Mark { file, path, reserved: 0, alive: Nanos::ZERO }, left))
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
        self.reserved = reserved;
        Ok(())
    }

    /// The process is alive at this time.
    pub fn alive(&mut self, now: Nanos) -> io::Result<()> {
        self.alive = now;
        self.write(self.reserved, u64::MAX)
    }

    /// The store is closed, and `next` is the next id.
    pub fn close(&mut self, next: u64) -> io::Result<()> {
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
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&reserved.to_le_bytes());
        bytes[8..16].copy_from_slice(&closed.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.alive.0.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..24]);
        bytes[24..28].copy_from_slice(&crc.to_le_bytes());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&bytes)
    }
}

fn read(bytes: &[u8]) -> Option<Left> {
    let bytes = bytes.first_chunk::<LENGTH>()?;
    let number = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let closed = number(8);
    (u64::from(crc32fast::hash(&bytes[..24])) == number(24) & u64::from(u32::MAX)).then(|| Left {
        reserved: number(0),
        closed: (closed != u64::MAX).then_some(closed),
        alive: Nanos(number(16) as i64),
    })
}
