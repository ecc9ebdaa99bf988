//! A log that is kept elsewhere than in a directory of this machine.

use std::{fmt, io, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Part, Record, Title, WriteError, frame, snapshot};
use crate::domain::types::Nanos;
use crate::domain::words::plural;

/// Where a snapshot stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// It holds after this record.
    pub index: u64,
    /// The log is read on behind this record.
    pub from: u64,
}

/// What keeps the log of a resource manager. All of it blocks.
pub trait Far: Send + Sync + fmt::Debug {
    /// Adds the frames that are not there yet. When this returns they count, and follow the frame before them with none of anybody
    /// else in between.
    ///
    /// # Errors
    /// Whether they count is not known; it can be tried again.
    fn append(&self, frames: &[u8]) -> Result<(), WriteError>;

    /// Keeps a snapshot.
    ///
    /// # Errors
    /// It is not there then.
    fn snapshot(&self, place: Place, bytes: Vec<u8>) -> Result<(), WriteError>;

    /// Removes records below `index`, and snapshots of states before `state`.
    ///
    /// # Errors
    /// It can be tried again.
    fn prune(&self, index: u64, state: u64) -> Result<(), WriteError>;

    /// Removes all of it.
    ///
    /// # Errors
    /// It can be tried again.
    fn remove(&self) -> Result<(), WriteError>;

    /// Its bytes, and from how many bytes on it must not grow by what can wait.
    fn room(&self) -> (u64, u64);
}

/// Where a log is.
#[derive(Clone, Debug)]
pub enum Home {
    /// In this directory.
    Here(PathBuf),
    /// Somewhere else than on a disk of this machine, such as in etcd.
    Far(Arc<dyn Far>),
}

impl Home {
    /// Keeps a snapshot, and gives its size. May block.
    ///
    /// # Errors
    /// It is not there then.
    pub fn snapshot(&self, title: &Title, place: Place, at: Nanos, parts: &[Part]) -> Result<u64, WriteError> {
        match self {
            Home::Here(dir) => snapshot::write(dir, title, place.index, at, parts),
            Home::Far(far) => {
                let bytes = snapshot::bytes(title, place.index, at, parts);
                let length = bytes.len() as u64;
                far.snapshot(place, bytes).map(|()| length)
            }
        }
    }

    /// Removes records below `index` and snapshots of states before `state`. May block.
    ///
    /// # Errors
    /// Something is still there that nothing needs.
    pub fn prune(&self, index: u64, state: u64) -> io::Result<()> {
        match self {
            Home::Here(dir) => super::prune(dir, index, state).map(drop),
            Home::Far(far) => far.prune(index, state).map_err(io::Error::other),
        }
    }

    /// Removes all of it. May block.
    ///
    /// # Errors
    /// Something is still there.
    pub fn remove(&self) -> io::Result<()> {
        match self {
            Home::Here(dir) => super::remove(dir),
            Home::Far(far) => far.remove().map_err(io::Error::other),
        }
    }
}

/// The records in frames, each with the length of its frame. Ends with an error where one is damaged or not whole.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Result<(Record<'_>, usize), String>> {
    let mut at = 0;
    let mut sound = true;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| sound && !rest.is_empty())?;
        let Some((head, payload)) = frame::whole(rest) else {
            sound = false;
            return Some(Err(format!("a record is damaged ({} from there on)", plural(rest.len(), "byte"))));
        };
        let length = frame::total(payload);
        at += length;
        Some(Ok((Record { index: head.index, at: head.at, kind: head.kind, payload }, length)))
    })
}

/// What is wrong with a write to what is kept elsewhere.
pub fn failed(action: &'static str, place: &str, why: impl fmt::Display) -> WriteError {
    WriteError { action, path: place.into(), source: Arc::new(io::Error::other(why.to_string())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_up_to_the_damage() {
        let mut bytes = Vec::new();
        for index in 1..=3 {
            frame::seal(&mut bytes, 7, index, Nanos(index as i64), &[index as u8; 10]);
        }
        let read: Vec<_> =
            records(&bytes).map(|record| record.map(|(record, length)| (record.index, length))).collect();
        assert_eq!(read, [Ok((1, 42)), Ok((2, 42)), Ok((3, 42))]);
        bytes[50] ^= 1;
        let read: Vec<_> = records(&bytes).map(|record| record.map(|(record, _)| record.index)).collect();
        assert!(read.len() == 2 && read[0] == Ok(1) && read[1].is_err(), "{read:?}");
        assert!(records(&bytes[..41]).next().is_some_and(|record| record.is_err()));
        assert!(records(&[]).next().is_none());
    }
}
