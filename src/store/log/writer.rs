//! Writing: frames at the end of the last segment, and new segments.

use std::{
    fs::{File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{SEGMENT, SEGMENT_END, TITLE, Title, WriteError, failed, frame, path_of, title_bytes};
use crate::{domain::types::Nanos, store::files};

/// The only one that changes segments.
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    title: Title,
    segment: u64,
    open: Option<Open>,
    /// Files with something that is not flushed.
    unsynced: Vec<(Arc<File>, PathBuf)>,
    /// Bytes that were written by this writer.
    written: u64,
}

#[derive(Debug)]
struct Open {
    file: Arc<File>,
    path: PathBuf,
    length: u64,
    /// What is behind `length` is of a write that failed.
    torn: bool,
}

/// Files that were written and are to be flushed.
#[derive(Debug)]
pub struct Unsynced(Vec<(Arc<File>, PathBuf)>);

impl Unsynced {
    /// Waits until it is on the disk.
    ///
    /// # Errors
    /// The disk refused; what was written may be lost when the machine stops.
    pub fn sync(&self) -> Result<(), WriteError> {
        self.0.iter().try_for_each(|(file, path)| file.sync_data().map_err(failed("flush", path)))
    }
}

impl Writer {
    /// A writer that begins a new segment with its first write.
    pub fn new(dir: PathBuf, title: Title) -> Writer {
        Writer { dir, title, segment: SEGMENT, open: None, unsynced: Vec::new(), written: 0 }
    }

    /// Segments of another size.
    #[cfg(test)]
    pub fn with_segments(self, bytes: u64) -> Writer {
        Writer { segment: bytes, ..self }
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Bytes that were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What is written next begins a segment.
    pub fn begin_segment(&mut self) {
        self.open = None;
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
        let Some(open) = &mut self.open else { return Ok(()) };
        open.append(frames)?;
        self.written += frames.len() as u64;
        if !self.unsynced.iter().any(|(file, _)| Arc::ptr_eq(file, &open.file)) {
            self.unsynced.push((open.file.clone(), open.path.clone()));
        }
        Ok(())
    }

    /// What is to be flushed, for someone else to wait for it.
    pub fn unsynced(&mut self) -> Option<Unsynced> {
        (!self.unsynced.is_empty()).then(|| Unsynced(std::mem::take(&mut self.unsynced)))
    }

    /// The disk refused to flush these: they are to be flushed still.
    pub fn keep(&mut self, unsynced: Unsynced) {
        self.unsynced.extend(unsynced.0);
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// See [`Unsynced::sync`].
    pub fn sync(&mut self) -> Result<(), WriteError> {
        let files = self.unsynced.clone();
        Unsynced(files).sync()?;
        self.unsynced.clear();
        Ok(())
    }

    fn roll(&mut self, first: u64) -> Result<(), WriteError> {
        files::make_dir(&self.dir).map_err(failed("make", &self.dir))?;
        let path = path_of(&self.dir, first, SEGMENT_END);
        let file = files::open_or_make(&path, OpenOptions::new().write(true).truncate(true));
        let file = file.map_err(failed("make", &path))?;
        let mut open = Open { file: Arc::new(file), path, length: 0, torn: false };
        let mut title = Vec::new();
        frame::seal(&mut title, TITLE, first, Nanos::ZERO, &title_bytes(&self.title));
        open.append(&title)?;
        self.open = Some(open);
        Ok(())
    }
}

impl Open {
    /// Appends all of it or nothing.
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let mut file = &*self.file;
        let mut write = || {
            if self.torn {
                file.set_len(self.length)?;
                file.seek(SeekFrom::Start(self.length))?;
            }
            file.write_all(bytes)
        };
        let written = write();
        self.torn = written.is_err();
        if written.is_ok() {
            self.length += bytes.len() as u64;
        } else if file.set_len(self.length).and_then(|()| file.seek(SeekFrom::Start(self.length))).is_ok() {
            self.torn = false;
        }
        written.map_err(failed("write", &self.path))
    }
}
