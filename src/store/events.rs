//! The durable event log: files of a bounded size, each a sequence of checked frames, each frame a slice's events.
//!
//! Numbers behind the format: up to 1,000,000 events/s come in blocks of about 5,000; encoded they take about 20 bytes
//! each. A frame is one `write`, so a killed process leaves at most one torn frame, at the end, and it is cut at the
//! next start. Whole files go when they are too old or too many. Damage elsewhere costs the frames that it hits: readers
//! get a gap that names the place, and go on behind it. `docs/adr/0001-event-store.md` compares this with libraries.
//!
//! Layout of a directory: `NNNNNNNNNNNNNNNNNNNN.events`, named by the first id in it, and `mark` (see [`mark`]).
//! All functions here block and belong into `spawn_blocking`.

mod clock;
pub mod codec;
#[cfg(test)]
mod damage_tests;
mod frame;
mod mark;
pub mod numbers;
mod open;
mod point;
mod reader;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

use std::{io, path::PathBuf, sync::Arc};

pub use self::{
    open::{Clock, Opened, open},
    reader::Reader,
    writer::{Unsynced, Writer},
};
use crate::domain::types::Nanos;

/// Version of the files that this server writes, and the newest that it reads.
pub const VERSION: u32 = 1;
/// Events in a frame at most.
pub const FRAME_EVENTS: usize = 8_192;

/// How much is kept; 0 stands for no limit. What is kept never exceeds a limit by more than is written at once, and
/// falls below it by at most a sixteenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of events.
    pub events: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Age of an event.
    pub age: Nanos,
}

/// Why a store cannot be opened. Damage is no reason: it is logged with its place and shown as a gap.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The files are of a later release.
    #[error(
        "event store {} has format version {found}, and this server reads up to {VERSION}: start the release that \
         wrote it, or move the directory away", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file system refused.
    #[error("event store {}: cannot {action}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// Why events were not written. Nothing of them is in the files, and writing them can be tried again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("event store {}: cannot {action}: {source}", path.display())]
pub struct WriteError {
    /// What was tried.
    pub action: &'static str,
    /// With which file.
    pub path: PathBuf,
    /// What it said.
    pub source: Arc<io::Error>,
}
