//! The log of a resource manager: everything that goes in, as numbered records, and snapshots of what came of it.
//!
//! The store knows frames, files and checksums; what a record says is known by `actors::rm`. A directory holds
//! `NNNNNNNNNNNNNNNNNNNN.log`, segments that are named by the index of their first record, and
//! `NNNNNNNNNNNNNNNNNNNN.snapshot`, states after that index. Each begins with a title: the version of the format, the
//! server and the resource manager that it belongs to. `newest` names the last segment, so that its loss is noticed.
//!
//! A frame is appended by one `write`. A process that is killed leaves at most one torn frame, at the end, which nobody was
//! told of. Damage anywhere else ends what can be read; the files stay beside, for whoever wants to look.
//! All functions here block and belong into `spawn_blocking`, but for [`Writer::write`], which the kernel takes at once.

pub mod far;
pub mod flight;
mod frame;
pub mod mark;
mod newest;
mod reader;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

pub use self::{
    far::{Far, Home, Place, records},
    frame::{seal, total},
    newest::noted,
    reader::{Cut, End, flush, read},
    snapshot::{Part, Snapshot, bytes as snapshot_bytes, load, read as read_snapshot, write as write_snapshot},
    writer::{DiskFault, Unsynced, Writer},
};

/// Version of the files that this server writes, and the newest that it reads.
pub const VERSION: u32 = 1;
/// Kind of the frame with which a file begins.
pub const TITLE: u32 = 0;
/// Bytes after which a new segment is begun.
pub const SEGMENT: u64 = 32 << 20;

const SEGMENT_END: &str = "log";
const SNAPSHOT_END: &str = "snapshot";

/// What a file begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// Version of the format.
    pub version: u32,
    /// Version of the rules by which records are applied.
    pub domain: u32,
    /// The server that wrote it.
    pub server: String,
    /// The resource manager.
    pub rm: String,
}

impl Title {
    /// That of the files that this release writes.
    pub fn new(server: impl Into<String>, rm: &str) -> Title {
        let domain = crate::domain::DOMAIN_VERSION;
        Title { version: VERSION, domain, server: server.into(), rm: rm.to_owned() }
    }
}

/// A record as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its number.
    pub index: u64,
    /// When it was made.
    pub at: crate::domain::types::Nanos,
    /// What the payload is.
    pub kind: u32,
    /// See the kind.
    pub payload: &'a [u8],
}

/// Why something was not written. It can be tried again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("log {}: cannot {action}: {source}", path.display())]
pub struct WriteError {
    /// What was tried.
    pub action: &'static str,
    /// With which file.
    pub path: PathBuf,
    /// What it said.
    pub source: Arc<io::Error>,
}

impl WriteError {
    /// The thread that was to write did not come to an end.
    pub fn broke_down(path: PathBuf, why: &dyn std::fmt::Display) -> WriteError {
        let source = io::Error::other(format!("writing broke down: {why}"));
        WriteError { action: "write", path, source: Arc::new(source) }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteError + use<> {
    let path = path.to_owned();
    move |source| WriteError { action, path, source: Arc::new(source) }
}

/// The directory of a resource manager in that of all logs: its [`name`], but not that of a file which is there.
pub fn directory(base: &Path, rm: &str) -> PathBuf {
    match rm {
        "mark" => base.join("%6dark"),
        "kept" => base.join("%6bept"),
        rm => base.join(name(rm)),
    }
}

/// The id of a resource manager with what file systems may not like escaped, of a long one the beginning and its SHA-256.
pub fn name(rm: &str) -> String {
    let mut name = String::with_capacity(rm.len());
    for byte in rm.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    super::files::name_of(name, rm)
}

/// Gives a directory that an earlier release named in another way the name that it has now; gives where it is.
///
/// # Errors
/// It cannot be moved.
pub fn name_anew(base: &Path, dir: PathBuf) -> io::Result<PathBuf> {
    if rm_of(&dir).is_some() {
        return Ok(dir);
    }
    let Some(own) = title_of(&dir).map(|title| directory(base, &title.rm)).filter(|own| *own != dir) else {
        return Ok(dir);
    };
    if own.exists() {
        return Ok(dir);
    }
    super::files::move_dir(&dir, &own)?;
    Ok(own)
}

/// The resource manager whose directory this is, where its name tells.
pub fn rm_of(dir: &Path) -> Option<String> {
    let mut rest = dir.file_name()?.to_str()?.as_bytes();
    let mut rm = Vec::with_capacity(rest.len());
    while let Some((byte, more)) = rest.split_first() {
        rest = more;
        rm.push(match byte {
            b'%' => {
                let (digits, more) = more.split_at_checked(2)?;
                rest = more;
                u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?
            }
            b'~' => return None,
            byte => *byte,
        });
    }
    String::from_utf8(rm).ok()
}

/// The directories of all resource managers, by name.
///
/// # Errors
/// The directory cannot be read.
pub fn directories(base: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(base)? {
        let path = entry?.path();
        // Also where a link leads to one, on a disk of its own.
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn path_of(dir: &Path, index: u64, end: &str) -> PathBuf {
    dir.join(format!("{index:020}.{end}"))
}

/// The files of a kind in a directory by their index, ascending.
fn files_of(dir: &Path, end: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let index = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if let Some(index) = index
            && path.extension().is_some_and(|extension| extension == end)
        {
            found.push((index, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The segments of a directory by the index of their first record, ascending.
///
/// # Errors
/// The directory cannot be read.
pub fn segments(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    files_of(dir, SEGMENT_END)
}

/// The snapshots of a directory by the index after which they hold, ascending.
///
/// # Errors
/// The directory cannot be read.
pub fn snapshots(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    files_of(dir, SNAPSHOT_END)
}

/// Removes segments whose records are all below `index`, and snapshots that hold after less than `state`. Gives the bytes
/// that went.
///
/// # Errors
/// A file cannot be removed.
pub fn prune(dir: &Path, index: u64, state: u64) -> io::Result<u64> {
    let mut gone = Vec::new();
    let segments = segments(dir)?;
    for pair in segments.windows(2) {
        if pair[1].0 <= index {
            gone.push(pair[0].1.clone());
        }
    }
    gone.extend(snapshots(dir)?.into_iter().filter(|(after, _)| *after < state).map(|(_, path)| path));
    let mut bytes = 0;
    for path in gone {
        bytes += fs::metadata(&path).map_or(0, |file| file.len());
        super::files::remove(&path)?;
    }
    Ok(bytes)
}

/// Removes all files of a directory, and the directory where nothing else is in it.
///
/// # Errors
/// A file cannot be removed.
pub fn remove(dir: &Path) -> io::Result<()> {
    newest::forget(dir)?;
    for (_, path) in segments(dir)?.into_iter().chain(snapshots(dir)?) {
        super::files::remove(&path)?;
    }
    super::files::sweep(dir)?;
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Directories that exports out of etcd left which did not come to their end.
pub fn left_by_exports(base: &Path) -> Vec<PathBuf> {
    // Mostly there is none.
    directories(&base.with_extension("exporting")).unwrap_or_default()
}

/// Puts a directory that is not enough to go on beside the others, in the place of an earlier one of its resource manager.
/// Gives where it is then.
///
/// # Errors
/// It cannot be moved.
pub fn put_aside(base: &Path, dir: &Path) -> io::Result<PathBuf> {
    let aside = base.with_extension("damaged").join(dir.file_name().unwrap_or_default());
    super::files::move_dir(dir, &aside)?;
    Ok(aside)
}

/// Bytes of all segments and snapshots.
///
/// # Errors
/// The directory cannot be read.
pub fn size(dir: &Path) -> io::Result<u64> {
    let all = segments(dir)?.into_iter().chain(snapshots(dir)?);
    all.map(|(_, path)| Ok(fs::metadata(path)?.len())).sum()
}

fn title_bytes(title: &Title) -> Vec<u8> {
    // A structure of texts and numbers has a JSON text.
    serde_json::to_vec(title).unwrap_or_default()
}

/// Reads the title of a file; the error says what is wrong with it.
fn check_title(bytes: &[u8], title: Option<&Title>) -> Result<(Title, usize), String> {
    let (head, payload) = frame::whole(bytes).ok_or("its title is damaged")?;
    if head.kind != TITLE {
        return Err("it has no title".to_owned());
    }
    let found: Title = serde_json::from_slice(payload).map_err(|error| format!("its title cannot be read: {error}"))?;
    if found.version > VERSION {
        return Err(format!(
            "it has format version {}, and this server reads up to {VERSION}: start the release that wrote it",
            found.version
        ));
    }
    if let Some(title) = title {
        if found.domain > title.domain {
            return Err(format!(
                "its records have version {}, and this server knows up to {}: start the release that wrote it",
                found.domain, title.domain
            ));
        }
        if found.server != title.server {
            return Err(format!("it was written by another server ({}, this one is {})", found.server, title.server));
        }
        if found.rm != title.rm {
            return Err(format!("it is of resource manager \"{}\"", found.rm));
        }
    }
    Ok((found, frame::total(payload)))
}

/// What a log says that a later release wrote; `domain`: the version of the rules of this one. Nothing of such logs is to be
/// touched: that release goes on with them.
pub fn of_a_later_release(base: &Path, domain: u32) -> Option<String> {
    let files = |dir: &PathBuf| segments(dir).into_iter().chain(snapshots(dir)).flatten().collect::<Vec<_>>();
    directories(base).ok()?.iter().flat_map(files).find_map(|(_, path)| {
        let bytes = beginning(&path).ok()?;
        let (_, payload) = frame::whole(&bytes).filter(|(head, _)| head.kind == TITLE)?;
        let title: Title = serde_json::from_slice(payload).ok()?;
        (title.version > VERSION || title.domain > domain).then(|| {
            format!(
                "{}: it was written by a later release (format {}, rules {}; this one knows {VERSION} and {domain}): start that \
                 one, or move its directory away, and resource manager \"{}\" registers again",
                path.display(),
                title.version,
                title.domain,
                title.rm,
            )
        })
    })
}

/// The title of the first file of a directory that has one: it says whose log this is.
pub fn title_of(dir: &Path) -> Option<Title> {
    let all = segments(dir).ok()?.into_iter().rev().chain(snapshots(dir).ok()?.into_iter().rev());
    all.into_iter().find_map(|(_, path)| title_in(&path).ok())
}

/// Why no file of a directory tells whose it is: what is wrong with the newest.
pub fn why_untitled(dir: &Path) -> Option<String> {
    let (_, path) = segments(dir).ok()?.pop().or(snapshots(dir).ok()?.pop())?;
    Some(format!("{}: {}", path.display(), title_in(&path).err()?))
}

fn title_in(path: &Path) -> Result<Title, String> {
    let bytes = beginning(path).map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(check_title(&bytes, None)?.0)
}

/// As much of a file as a title takes at most.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(fs::File::open(path)?, 64 << 10), &mut bytes)?;
    Ok(bytes)
}
