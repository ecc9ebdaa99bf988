//! Reading: records in order, up to the end or the first damage.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use super::{Record, SEGMENT_END, TITLE, Title, check_title, frame, newest, path_of, segments};
use crate::domain::words::plural;
use crate::store::files;

/// How reading ended.
#[derive(Clone, Debug)]
pub struct End {
    /// Index of the last record, or of that before the first to be read.
    pub last: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// What follows cannot be used.
    pub cut: Option<Cut>,
    /// Damage that costs nothing: the snapshot tells what these records did.
    pub passed_over: Vec<Cut>,
}

/// Where what can be used ends, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub path: PathBuf,
    /// Place in it.
    pub offset: u64,
    /// Bytes behind that, in this file.
    pub bytes: u64,
    /// What is wrong.
    pub why: String,
    /// It is a torn end, as a process leaves which is killed while it writes: nobody was told of what it held. A file that
    /// something else shortened looks the same.
    pub torn: bool,
    /// Nothing behind it can be read either: it may be what a machine leaves that stopped while it wrote.
    pub at_end: bool,
}

impl Cut {
    /// Cuts a torn end off, so that the file is whole; one that has not even a title goes.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn repair(&self) -> io::Result<()> {
        if self.offset == 0 {
            if let Some(dir) = self.path.parent() {
                newest::forget(dir)?;
            }
            return files::remove(&self.path);
        }
        let file = OpenOptions::new().write(true).open(&self.path)?;
        file.set_len(self.offset)?;
        file.sync_data()
    }
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cut { path, offset, bytes, why, .. } = self;
        write!(f, "{} at byte {offset} ({} from there on): {why}", path.display(), plural(*bytes, "byte"))
    }
}

/// Flushes what there is of a log: what a killed process wrote and did not flush has to outlive the machine, too, for whoever goes
/// on from it.
///
/// # Errors
/// The disk refuses.
pub fn flush(dir: &Path) -> Result<(), String> {
    let flush = || {
        let all = segments(dir)?;
        all.iter().try_for_each(|(_, path)| File::open(path)?.sync_data())?;
        match all.last() {
            Some((last, _)) if newest::noted(dir)? != Some(*last) => newest::note(dir, *last),
            _ => Ok(()),
        }
    };
    flush().map_err(|error| format!("log {}: cannot be flushed: {error}", dir.display()))
}

/// Reads the records after `after` in order. `take` may refuse one, which ends it there.
///
/// # Errors
/// The disk refuses.
pub fn read(
    dir: &Path,
    title: &Title,
    after: u64,
    mut take: impl FnMut(Record<'_>) -> Result<(), String>,
) -> io::Result<End> {
    // Before the files are listed: a server may be making the next one just now.
    let noted = newest::noted(dir)?;
    let all = segments(dir)?;
    let mut end = End { last: after, bytes: 0, cut: None, passed_over: Vec::new() };
    for (place, (first, path)) in all.iter().enumerate() {
        let next = all.get(place + 1).map(|(next, _)| *next);
        if next.is_some_and(|next| next <= after + 1) {
            continue;
        }
        let bytes = fs::read(path)?;
        let cut = |offset: usize, why: String| Cut {
            path: path.clone(),
            offset: offset as u64,
            bytes: (bytes.len() - offset) as u64,
            why,
            torn: false,
            at_end: false,
        };
        if *first > end.last + 1 {
            end.cut = Some(cut(0, format!("the records from {} to {} are missing before it", end.last + 1, first - 1)));
            return Ok(end);
        }
        let last_file = next.is_none();
        let mut begun = false;
        let mut at = match check_title(&bytes, Some(title)) {
            Ok((_, length)) => length,
            Err(why) => {
                // One that is noted had a title.
                let torn = last_file && frame::is_torn(&bytes) && noted != Some(*first);
                end.cut = Some(Cut { torn, at_end: last_file && frame::is_last(&bytes), ..cut(0, why) });
                return Ok(end);
            }
        };
        while at < bytes.len() {
            let rest = &bytes[at..];
            let Some((head, payload)) = frame::whole(rest) else {
                // Nothing behind the snapshot was read yet, and nothing behind it is missing.
                if end.last == after
                    && let Some((skip, next)) = frame::next(rest).filter(|(_, next)| *next <= after + 1)
                {
                    let why = format!("damaged, of what is before record {next}");
                    end.passed_over.push(Cut { bytes: skip as u64, ..cut(at, why) });
                    at += skip;
                    begun = true;
                    continue;
                }
                let at_end = last_file && frame::is_last(rest);
                let torn = at_end && frame::is_torn(rest);
                let why = if torn { "a record is not whole" } else { "a record is damaged" };
                end.cut = Some(Cut { torn, at_end, ..cut(at, why.to_owned()) });
                return Ok(end);
            };
            let here = at;
            at += frame::total(payload);
            end.bytes += frame::total(payload) as u64;
            // Another file in its place: what it should have is missing, though all that it has is before `after`.
            if head.kind != TITLE && !std::mem::replace(&mut begun, true) && head.index != *first {
                end.cut = Some(cut(here, format!("it begins with record {} instead of {first}", head.index)));
                return Ok(end);
            }
            if head.kind == TITLE || head.index <= after {
                continue;
            }
            if head.index != end.last + 1 {
                let why = format!("record {} follows record {}", head.index, end.last);
                end.cut = Some(cut(here, why));
                return Ok(end);
            }
            let record = Record { index: head.index, at: head.at, kind: head.kind, payload };
            if let Err(why) = take(record) {
                end.cut = Some(cut(here, format!("record {}: {why}", head.index)));
                return Ok(end);
            }
            end.last = head.index;
        }
    }
    if let Some(noted) = noted
        && all.last().is_none_or(|(last, _)| *last < noted)
    {
        let why = format!("the newest segment is missing, and with it the records from {noted} on");
        let path = path_of(dir, noted, SEGMENT_END);
        end.cut = Some(Cut { path, offset: 0, bytes: 0, why, torn: false, at_end: false });
    }
    Ok(end)
}
