//! The note of the newest segment: where that one is missing, no later file tells of the gap.
//!
//! It is flushed behind the first flush of a segment, so that nothing waits for it but what waits for the disk anyway. Where records
//! count when the kernel has them, the kernel gets it before they do; when the machine stops, such a log is not believed anyway. So
//! a segment that is named was there, with its title. A log of a release that kept no note is taken as it is, and gets one when a
//! start flushes it.

use std::{fs, io, path::Path};

use crate::store::files;

/// Name of the file in the directory of a log.
const FILE: &str = "newest";

/// Notes that the segment with this first record is the newest. It is on the disk.
///
/// # Errors
/// It cannot be written; the note before holds.
pub fn note(dir: &Path, first: u64) -> io::Result<()> {
    files::replace(&dir.join(FILE), line(first).as_bytes())
}

/// The same, and the kernel has it.
///
/// # Errors
/// It cannot be written; the note before holds.
pub fn note_unflushed(dir: &Path, first: u64) -> io::Result<()> {
    files::replace_unflushed(&dir.join(FILE), line(first).as_bytes())
}

/// The segment that was noted. `None` where none was, or the note is damaged: the log is what counts.
///
/// # Errors
/// The note cannot be read.
pub fn noted(dir: &Path) -> io::Result<Option<u64>> {
    let path = dir.join(FILE);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let first = text.split(' ').next().and_then(|first| first.parse().ok());
    let first = first.filter(|first| line(*first) == text);
    if first.is_none() {
        tracing::warn!(code = "log-note-damaged", "{} is damaged: the log is read without it", path.display());
    }
    Ok(first)
}

/// Lets go the note: what it names is about to go.
///
/// # Errors
/// It is still there.
pub fn forget(dir: &Path) -> io::Result<()> {
    match files::remove(&dir.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn line(first: u64) -> String {
    files::checked(&first.to_string())
}
