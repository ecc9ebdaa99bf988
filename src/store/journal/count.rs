//! How many lines a log has: `resource.eventlog.lines`, so that it is noticed where log and copy both lack their end, and where only
//! a copy has a line, whether that was ever acknowledged.
//!
//! | part | meaning |
//! | --- | --- |
//! | `00000000000000000017` | lines that the log has at least |
//! | `5be1f00d` | CRC-32 of that |
//!
//! It is written when the lines are on disk in both files, so what a crash leaves is a number that is too small. All of it is
//! one write in place, far shorter than what a disk writes at once: it costs one flush, and is never there by half.
//!
//! Others that are numbered from 1 keep such a file too: `audit.mark` says up to which record the audit log goes.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use super::log::Held;
use crate::store::files;

/// Name of the file in its directory.
pub const FILE: &str = "resource.eventlog.lines";

/// What the file says; or what is wrong with it. A log of a release that kept none has zero lines at least.
///
/// # Errors
/// It cannot be opened at present.
pub fn read(dir: &Path) -> io::Result<Result<u64, String>> {
    read_at(&dir.join(FILE))
}

/// The same of a file of another name.
///
/// # Errors
/// It cannot be opened at present.
pub fn read_at(path: &Path) -> io::Result<Result<u64, String>> {
    Ok(match fs::read(path) {
        // Made, and not written yet.
        Ok(bytes) if bytes.is_empty() => Ok(0),
        Ok(bytes) => parse(&bytes).ok_or_else(|| "damaged".to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(0),
        Err(error) if files::is_passing(&error) => return Err(error),
        Err(error) => Err(format!("cannot be read: {error}")),
    })
}

fn text(lines: u64) -> String {
    files::checked(&format!("{lines:020}"))
}

fn parse(bytes: &[u8]) -> Option<u64> {
    let lines = str::from_utf8(bytes).ok()?.split(' ').next()?.parse().ok()?;
    (*bytes == *text(lines).as_bytes()).then_some(lines)
}

/// The file, as it is written to.
#[derive(Debug)]
pub struct Count {
    path: PathBuf,
    file: Held,
}

impl Count {
    /// That of a directory. Nothing is made before the first write.
    pub fn of(dir: &Path) -> Count {
        Count::at(dir.join(FILE))
    }

    /// The same of a file of another name.
    pub fn at(path: PathBuf) -> Count {
        Count { path, file: Held::default() }
    }

    /// The log has so many lines. It is on disk afterwards.
    ///
    /// # Errors
    /// Writing failed.
    pub fn write(&mut self, lines: u64) -> io::Result<()> {
        let file = self.file.open(&self.path)?;
        file.write_all_at(text(lines).as_bytes(), 0)?;
        file.sync_data()
    }

    /// Writes the file anew, whatever is there.
    ///
    /// # Errors
    /// Writing failed; what was there is there.
    pub fn replace(&mut self, lines: u64) -> io::Result<()> {
        self.file = Held::default();
        files::replace(&self.path, text(lines).as_bytes())
    }

    /// The file is the one that was written here.
    pub fn is_untouched(&self) -> bool {
        self.file.is_new() || fs::metadata(&self.path).is_ok_and(|named| self.file.is(&named))
    }

    /// The file is closed until something is written again.
    pub fn rest(&mut self) {
        self.file.rest();
    }
}
