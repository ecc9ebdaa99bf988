//! Snapshots: the state after a record, in parts, whole or not there at all.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use super::{SNAPSHOT_END, TITLE, Title, WriteError, check_title, failed, frame, path_of, title_bytes};
use crate::{domain::types::Nanos, store::files};

/// Kind of the last frame; its index is the number of parts.
const END: u32 = u32::MAX;

/// A part of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub kind: u32,
    /// See the kind.
    pub payload: Vec<u8>,
}

/// A snapshot as it was read.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// It holds after this record.
    pub index: u64,
    /// When it was taken.
    pub at: Nanos,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// Writes a snapshot. Gives its size.
///
/// # Errors
/// It is not there then.
pub fn write(dir: &Path, title: &Title, index: u64, at: Nanos, parts: &[Part]) -> Result<u64, WriteError> {
    let path = path_of(dir, index, SNAPSHOT_END);
    let written = files::replace_with(&path, |file| write_to(file, title, index, at, parts));
    written.map_err(failed("write", &path))
}

fn write_to(file: &mut File, title: &Title, index: u64, at: Nanos, parts: &[Part]) -> std::io::Result<u64> {
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let mut bytes = 0;
    let mut frame = Vec::new();
    let mut put = |kind, index, payload: &[u8]| {
        frame.clear();
        frame::seal(&mut frame, kind, index, at, payload);
        bytes += frame.len() as u64;
        file.write_all(&frame)
    };
    put(TITLE, index, &title_bytes(title))?;
    for part in parts {
        put(part.kind, index, &part.payload)?;
    }
    put(END, parts.len() as u64, &[])?;
    file.flush()?;
    Ok(bytes)
}

/// Reads a snapshot.
///
/// # Errors
/// What is wrong with it.
pub fn load(path: &PathBuf, title: &Title) -> Result<Snapshot, String> {
    let bytes = fs::read(path).map_err(|error| format!("it cannot be read: {error}"))?;
    let (_, mut at) = check_title(&bytes, Some(title))?;
    let mut parts = Vec::new();
    loop {
        let (head, payload) = frame::whole(&bytes[at..]).ok_or_else(|| format!("it is damaged at byte {at}"))?;
        at += frame::total(payload);
        if head.kind != END {
            parts.push((head, Part { kind: head.kind, payload: payload.to_vec() }));
            continue;
        }
        let first = parts.first().ok_or("it is empty")?.0;
        if head.index != parts.len() as u64 || at != bytes.len() {
            return Err("it is not whole".to_owned());
        }
        return Ok(Snapshot {
            index: first.index,
            at: first.at,
            parts: parts.into_iter().map(|(_, part)| part).collect(),
        });
    }
}
