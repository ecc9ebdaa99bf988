//! Writing: frames at the end of the last segment, and new segments.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{SEGMENT, SEGMENT_END, TITLE, Title, WriteError, failed, frame, newest, path_of, segments, title_bytes};
use crate::{domain::types::Nanos, store::files};

/// The only one that changes segments.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    title: Title,
    segment: u64,
    open: Option<Open>,
    /// The segment before, where a write that failed left something behind its records.
    torn: Option<Open>,
    /// What was written and is not flushed.
    unsynced: Unsynced,
    /// The segment that it made last: a write that failed may have left something in it.
    made: Option<u64>,
    /// See [`DiskFault`].
    refuses: Option<DiskFault>,
}

/// What a disk refuses that is full, or breaks down. Set by simulated worlds and tests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// Half of what is written gets there, and stays.
    Writes,
    /// What was written is gone when it is flushed, as the kernel may drop it.
    Flushes,
}

#[derive(Debug)]
struct Open {
    file: Arc<File>,
    path: PathBuf,
    length: u64,
    /// A write that failed left something behind `length`.
    torn: bool,
}

/// What was written and is to be flushed.
#[derive(Debug, Default)]
pub struct Unsynced {
    pieces: Vec<Piece>,
    /// A segment that is to be noted as the newest.
    made: Option<Made>,
    /// A flush of some of it failed. The kernel may have dropped those pages, and says so only once: another flush would do
    /// nothing unless they are written again.
    again: bool,
    /// See [`DiskFault::Flushes`].
    refused: bool,
}

#[derive(Debug)]
struct Made {
    dir: PathBuf,
    first: u64,
    /// The kernel has the note.
    noted: bool,
}

#[derive(Debug)]
struct Piece {
    file: Arc<File>,
    path: PathBuf,
    offset: u64,
    bytes: Vec<u8>,
}

impl Unsynced {
    /// Waits until it is on the disk.
    ///
    /// # Errors
    /// The disk refused; what was written may be lost when the machine stops.
    pub fn sync(&self) -> Result<(), WriteError> {
        if self.again {
            for piece in &self.pieces {
                piece.file.write_all_at(&piece.bytes, piece.offset).map_err(failed("write", &piece.path))?;
            }
        }
        let mut flushed: Option<&Arc<File>> = None;
        for Piece { file, path, offset, bytes } in &self.pieces {
            if self.refused {
                file.write_all_at(&vec![0; bytes.len()], *offset).map_err(failed("write", path))?;
                continue;
            }
            if flushed.is_some_and(|flushed| Arc::ptr_eq(flushed, file)) {
                continue;
            }
            file.sync_data().map_err(failed("flush", path))?;
            flushed = Some(file);
        }
        if let Some(piece) = self.pieces.last().filter(|_| self.refused) {
            return Err(failed("flush", &piece.path)(io::ErrorKind::Other.into()));
        }
        match &self.made {
            Some(Made { dir, first, .. }) => newest::note(dir, *first).map_err(failed("note the newest segment", dir)),
            None => Ok(()),
        }
    }
}

impl Writer {
    /// A writer that begins a new segment with its first write.
    pub fn new(dir: PathBuf, title: Title) -> Writer {
        let unsynced = Unsynced::default();
        Writer { dir, title, segment: SEGMENT, open: None, torn: None, unsynced, made: None, refuses: None }
    }

    /// From now on its disk refuses this.
    pub fn refuse(&mut self, what: Option<DiskFault>) {
        self.refuses = what;
    }

    /// Segments of another size.
    #[cfg(test)]
    pub fn with_segments(self, bytes: u64) -> Writer {
        Writer { segment: bytes, ..self }
    }

    /// Its directory.
    #[cfg(test)]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is written next begins a segment.
    pub fn begin_segment(&mut self) {
        self.torn = self.open.take().filter(|open| open.torn).or(self.torn.take());
    }

    /// Writes whole frames, the first of which has this index.
    ///
    /// # Errors
    /// Nothing of them counts as written, and it can be tried again.
    pub fn write(&mut self, first: u64, frames: &[u8]) -> Result<(), WriteError> {
        if frames.is_empty() {
            return Ok(());
        }
        if self.open.as_ref().is_none_or(|open| open.length >= self.segment) {
            self.roll(first)?;
        }
        self.append(frames)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let offset = open.length;
        open.append(bytes, self.refuses == Some(DiskFault::Writes))?;
        let (file, path, bytes) = (open.file.clone(), open.path.clone(), bytes.to_vec());
        self.unsynced.pieces.push(Piece { file, path, offset, bytes });
        Ok(())
    }

    /// Notes in the kernel's cache which segment is the newest: what was written counts then.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note(&mut self) -> Result<(), WriteError> {
        if let Some(Made { dir, first, noted }) = self.unsynced.made.as_mut().filter(|made| !made.noted) {
            newest::note_unflushed(dir, *first).map_err(failed("note the newest segment", dir))?;
            *noted = true;
        }
        Ok(())
    }

    /// What is to be flushed, for someone else to wait for it.
    pub fn unsynced(&mut self) -> Option<Unsynced> {
        let refused = self.refuses == Some(DiskFault::Flushes);
        let taken = (!self.unsynced.pieces.is_empty()).then(|| std::mem::take(&mut self.unsynced));
        taken.map(|unsynced| Unsynced { refused, ..unsynced })
    }

    /// The disk refused to flush these: they are to be written once more, and flushed.
    pub fn keep(&mut self, mut unsynced: Unsynced) {
        unsynced.pieces.append(&mut self.unsynced.pieces);
        let made = self.unsynced.made.take().or(unsynced.made);
        self.unsynced = Unsynced { again: true, made, ..unsynced };
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// See [`Unsynced::sync`].
    pub fn sync(&mut self) -> Result<(), WriteError> {
        self.unsynced.sync()?;
        self.unsynced = Unsynced::default();
        Ok(())
    }

    fn roll(&mut self, first: u64) -> Result<(), WriteError> {
        if let Some(torn) = &self.torn {
            // With another segment behind it that would be damage.
            torn.file.set_len(torn.length).map_err(failed("cut", &torn.path))?;
            self.torn = None;
        }
        files::make_dir(&self.dir).map_err(failed("make", &self.dir))?;
        let path = path_of(&self.dir, first, SEGMENT_END);
        if self.made != Some(first) {
            refuse_to_replace(&self.dir, &path, first).map_err(failed("make", &path))?;
        }
        let file = files::open_or_make(&path, OpenOptions::new().write(true).truncate(true));
        let file = file.map_err(failed("make", &path))?;
        self.made = Some(first);
        let mut title = Vec::new();
        frame::seal(&mut title, TITLE, first, Nanos::ZERO, &title_bytes(&self.title));
        self.open = Some(Open { file: Arc::new(file), path, length: 0, torn: false });
        let written = self.append(&title);
        match written {
            Ok(()) => self.unsynced.made = Some(Made { dir: self.dir.clone(), first, noted: false }),
            Err(_) => self.open = None,
        }
        written
    }
}

/// Records that are there are never written over: nothing of the log may be at this record or behind it. A segment without a
/// record is of a write that failed.
fn refuse_to_replace(dir: &Path, path: &Path, first: u64) -> io::Result<()> {
    let there = segments(dir)?.into_iter().rev().find(|(index, _)| *index >= first);
    let in_the_way = match there {
        Some((index, _)) if index > first => true,
        Some(_) => {
            let bytes = std::fs::read(path)?;
            let title = frame::whole(&bytes).map_or(0, |(_, payload)| frame::total(payload));
            frame::whole(&bytes[title..]).is_some()
        }
        None => false,
    };
    if in_the_way {
        let what = format!("record {first} or later ones are there already, and are not written over");
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    Ok(())
}

impl Open {
    /// Appends all of it or nothing; `refused`: the disk does not take it.
    fn append(&mut self, bytes: &[u8], refused: bool) -> Result<(), WriteError> {
        let mut file = &*self.file;
        let mut write = || {
            if self.torn {
                file.set_len(self.length)?;
                file.seek(SeekFrom::Start(self.length))?;
            }
            if refused {
                file.write_all(&bytes[..bytes.len() / 2])?;
                return Err(io::ErrorKind::StorageFull.into());
            }
            file.write_all(bytes)
        };
        let written = write();
        self.torn = written.is_err();
        if written.is_ok() {
            self.length += bytes.len() as u64;
        } else if !refused && file.set_len(self.length).and_then(|()| file.seek(SeekFrom::Start(self.length))).is_ok() {
            self.torn = false;
        }
        written.map_err(failed("write", &self.path))
    }
}
