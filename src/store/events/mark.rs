//! The mark: up to which id events may have been given out, so that none is given twice.
//!
//! Readers see an event before it is on disk. Were the process killed in between, its id would be used again for
//! another event, and a reader that resumes there would miss it. So ids are reserved ahead, in a small file that is
//! written in place (which works on a full disk too); after a crash numbering goes on behind the reservation, and the
//! ids in between are an explicit gap. A clean end leaves no gap.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// How many ids are reserved at a time.
pub const AHEAD: u64 = 1 << 20;
const LENGTH: usize = 24;

/// See the module.
pub struct Mark {
    file: File,
    path: PathBuf,
    reserved: u64,
}

/// What an earlier process left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Ids below this may have been given out.
    pub reserved: u64,
    /// The next id, if the store was closed.
    pub closed: Option<u64>,
}

impl Mark {
    /// Opens or makes the file; `None` where it says nothing usable.
    pub fn open(directory: &Path) -> io::Result<(Mark, Option<Left>)> {
        let path = directory.join("mark");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let left = read(&bytes);
        Ok((Mark { file, path, reserved: 0 }, left))
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

    /// The store is closed, and `next` is the next id.
    pub fn close(&mut self, next: u64) -> io::Result<()> {
        self.write(next, next)?;
        self.reserved = next;
        self.sync()
    }

    /// Waits for the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&mut self, reserved: u64, closed: u64) -> io::Result<()> {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&reserved.to_le_bytes());
        bytes[8..16].copy_from_slice(&closed.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..16]);
        bytes[16..20].copy_from_slice(&crc.to_le_bytes());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&bytes)
    }
}

fn read(bytes: &[u8]) -> Option<Left> {
    let bytes = bytes.first_chunk::<LENGTH>()?;
    let (reserved, rest) = bytes.split_first_chunk::<8>()?;
    let (closed, rest) = rest.split_first_chunk::<8>()?;
    let (crc, _) = rest.split_first_chunk::<4>()?;
    let closed = u64::from_le_bytes(*closed);
    (crc32fast::hash(&bytes[..16]) == u32::from_le_bytes(*crc))
        .then(|| Left { reserved: u64::from_le_bytes(*reserved), closed: (closed != u64::MAX).then_some(closed) })
}
