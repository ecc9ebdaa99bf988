//! Snapshots: the state after a record, in parts, whole or not there at all.

use std::{
    fs,
    io::{self, BufWriter, Write},
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
    let written = files::replace_with(&path, |file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let bytes = write_to(&mut file, title, index, at, parts)?;
        file.flush()?;
        Ok(bytes)
    });
    written.map_err(failed("write", &path))
}

/// The bytes of a snapshot, for a log that is kept elsewhere.
pub fn bytes(title: &Title, index: u64, at: Nanos, parts: &[Part]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Memory takes them.
    let _ = write_to(&mut bytes, title, index, at, parts);
    bytes
}

fn write_to(file: &mut impl Write, title: &Title, index: u64, at: Nanos, parts: &[Part]) -> io::Result<u64> {
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
    Ok(bytes)
}

/// Reads a snapshot.
///
/// # Errors
/// What is wrong with it.
pub fn load(path: &PathBuf, title: &Title) -> Result<Snapshot, String> {
    let bytes = fs::read(path).map_err(|error| format!("it cannot be read: {error}"))?;
    read(&bytes, title)
}

/// Reads the bytes of a snapshot.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8], title: &Title) -> Result<Snapshot, String> {
    let (_, mut at) = check_title(bytes, Some(title))?;
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
