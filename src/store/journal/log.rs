//! The log of a journal and its copy, as they are appended to.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, BufRead, BufReader, ErrorKind, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use super::{
    copy::{self, Title},
    count::Count,
    merge::{self, Merged},
};
use crate::store::{
    eventlog::{self, Record},
    files,
};

/// Log and copy of a directory, which agree.
#[derive(Debug)]
pub struct EventLog {
    log: Part,
    copy: Part,
    count: Count,
    /// Lines in both.
    lines: u64,
    /// The last line that tells of the resource set, 0: none.
    last_set: u64,
    /// Where the copy says that a line is about to be written, and the log has it.
    planned: Vec<u64>,
}

/// One of the files.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    /// A log is never created empty.
    file: Held,
    /// Bytes that are right.
    whole: u64,
    /// There may be more in the file than that.
    torn: bool,
}

/// What was found of a log and its copy.
#[derive(Debug)]
pub enum Found {
    /// They agree, or there are none.
    Sound(EventLog),
    /// They do not.
    Differing(Box<Merged>),
    /// The copy is of a later release.
    Newer(u32),
}

impl EventLog {
    /// Compares log and copy of a directory, which had so many lines at least. Nothing is changed.
    ///
    /// # Errors
    /// There is one, and neither can be read.
    pub fn open(dir: &Path, least: u64) -> io::Result<Found> {
        let (log, copy) = (dir.join(eventlog::FILE), dir.join(copy::FILE));
        match compare(dir, least) {
            Ok(Some(agreed)) => return Ok(Found::Sound(agreed)),
            Err(error) if files::is_passing(&error) => return Err(error),
            _ => {}
        }
        let (log, copy) = (read(&log)?, read(&copy)?);
        if let merge::File::Bytes(bytes) = &copy
            && let Title::Newer(version) = copy::read_title(bytes.split(|byte| *byte == b'\n').next().unwrap_or(&[]))
        {
            return Ok(Found::Newer(version));
        }
        match (&log, &copy) {
            (merge::File::Bytes(_), _) | (_, merge::File::Bytes(_)) => {}
            (merge::File::Unreadable(why), _) | (_, merge::File::Unreadable(why)) => {
                return Err(io::Error::other(format!("{} {why}", eventlog::FILE)));
            }
            (merge::File::Missing, merge::File::Missing) => {}
        }
        Ok(Found::Differing(Box::new(merge::merge(&log, &copy, least))))
    }

    /// Writes both files anew. What was there stays under the names that `aside` gives, and those are told.
    ///
    /// # Errors
    /// One cannot be written; what is there can be put together again as before.
    pub fn rewrite(
        dir: &Path,
        lines: &[Vec<u8>],
        aside: impl Fn(&str) -> PathBuf,
    ) -> io::Result<(EventLog, Vec<PathBuf>)> {
        let (mut text, mut twin) = (Vec::new(), copy::title().into_bytes());
        for (number, line) in (1..).zip(lines) {
            text.extend_from_slice(line);
            text.push(b'\n');
            copy::write(copy::WRITTEN, number, line, &mut twin);
        }
        let mut kept = Vec::new();
        for (name, bytes) in [(eventlog::FILE, &text), (copy::FILE, &twin)] {
            let path = dir.join(name);
            let found = read(&path)?;
            if matches!(&found, merge::File::Bytes(found) if found == bytes) {
                continue;
            }
            if !matches!(found, merge::File::Missing) {
                let other = aside(name);
                files::keep_as(&path, &other)?;
                kept.push(other);
            }
            if !bytes.is_empty() {
                files::replace(&path, bytes)?;
            } else if path.exists() {
                // A log is never empty (RFC 18).
                files::remove(&path)?;
            }
        }
        let part = |name: &str, bytes: &[u8]| Part {
            path: dir.join(name),
            file: Held::default(),
            whole: bytes.len() as u64,
            torn: false,
        };
        let log = EventLog {
            log: part(eventlog::FILE, &text),
            copy: part(copy::FILE, &twin),
            count: Count::of(dir),
            lines: lines.len() as u64,
            last_set: last_set(lines),
            planned: Vec::new(),
        };
        Ok((log, kept))
    }

    /// Lines in it.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The last line that tells of the resource set, 0: none.
    pub fn last_set(&self) -> u64 {
        self.last_set
    }

    /// There is nothing of it yet.
    pub fn is_new(&self) -> bool {
        self.log.whole == 0 && self.copy.whole == 0
    }

    /// Where the log is.
    pub fn path(&self) -> &Path {
        &self.log.path
    }

    /// All files are those that were read and written here.
    pub fn is_untouched(&self) -> bool {
        self.log.is_untouched() && self.copy.is_untouched() && self.count.is_untouched()
    }

    /// Appends records, all or none of them; they are on disk afterwards.
    ///
    /// # Errors
    /// Writing failed; the log is as it was.
    pub fn append(&mut self, records: &[Record]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let (mut text, mut twin, mut signs) = (Vec::new(), Vec::new(), Vec::new());
        if self.copy.whole == 0 {
            twin.extend(copy::title().into_bytes());
        }
        for (number, record) in (self.lines + 1..).zip(records) {
            text.extend_from_slice(record.json.as_bytes());
            text.push(b'\n');
            signs.push(self.copy.whole + twin.len() as u64);
            copy::write(copy::PLANNED, number, record.json.as_bytes(), &mut twin);
        }
        self.sign()?;
        self.copy.append(&twin)?;
        if let Err(error) = self.log.append(&text) {
            self.copy.take_back(twin.len() as u64);
            return Err(error);
        }
        if let Err(error) = self.count.write(self.lines + records.len() as u64) {
            // A number that is too large would tell of lines that were never there.
            let _ = self.count.write(self.lines);
            self.log.take_back(text.len() as u64);
            self.copy.take_back(twin.len() as u64);
            return Err(error);
        }
        self.planned = signs;
        let set = (self.lines + 1..).zip(records).filter(|(_, record)| is_of_set(record));
        self.last_set = set.map(|(number, _)| number).last().unwrap_or(self.last_set);
        self.lines += records.len() as u64;
        // The lines are on disk: where this fails, it is made up for later.
        self.sign().or(Ok(()))
    }

    /// Its files are closed until something is written again.
    pub fn rest(&mut self) {
        [&mut self.log.file, &mut self.copy.file].into_iter().for_each(Held::rest);
        self.count.rest();
    }

    /// Says in the copy that these lines are written. It is on disk with the next lines at the latest; a crash before that leaves no
    /// doubt, since the log has them.
    fn sign(&mut self) -> io::Result<()> {
        while let Some(at) = self.planned.last() {
            self.copy.open()?.write_all_at(&[copy::WRITTEN], *at)?;
            self.planned.pop();
        }
        Ok(())
    }
}

impl Part {
    /// Appends bytes that are on disk afterwards, all or none of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let whole = self.whole;
        let torn = std::mem::replace(&mut self.torn, true);
        let file = self.open()?;
        if torn {
            file.set_len(whole)?;
        }
        let mut write = || {
            file.seek(SeekFrom::Start(whole))?;
            file.write_all(bytes)?;
            file.sync_data()
        };
        let written = write();
        match &written {
            Ok(()) => self.whole += bytes.len() as u64,
            // If this fails too, the next append tries it again before it writes.
            Err(_) => file.set_len(whole)?,
        }
        self.torn = false;
        written
    }

    /// Undoes the last append.
    fn take_back(&mut self, bytes: u64) {
        self.whole -= bytes;
        self.torn = true;
        if let Some(file) = &self.file.file
            && file.set_len(self.whole).is_ok()
        {
            self.torn = false;
        }
    }

    fn open(&mut self) -> io::Result<&mut File> {
        self.file.open(&self.path)
    }

    fn is_untouched(&self) -> bool {
        let named = match fs::metadata(&self.path) {
            Ok(named) => named,
            Err(error) => return error.kind() == ErrorKind::NotFound && self.whole == 0 && self.file.is_new(),
        };
        let long = if self.torn { named.len() >= self.whole } else { named.len() == self.whole };
        named.is_file() && long && self.file.is(&named)
    }
}

/// A file that is opened with the first write, and again after it was at rest: nobody's descriptors run out for what nobody needs.
#[derive(Debug, Default)]
pub(super) struct Held {
    file: Option<File>,
    /// Where it was on the disk when it was closed.
    place: Option<Box<(u64, u64)>>,
}

impl Held {
    pub(super) fn open(&mut self, path: &Path) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => files::open_or_make(path, OpenOptions::new().read(true).write(true))?,
        };
        Ok(self.file.insert(file))
    }

    /// Closes it until it is written to again.
    pub(super) fn rest(&mut self) {
        if let Some(found) = self.file.take().and_then(|file| file.metadata().ok()) {
            self.place = Some(Box::new(place(&found)));
        }
    }

    /// Nothing was written to it.
    pub(super) fn is_new(&self) -> bool {
        self.file.is_none() && self.place.is_none()
    }

    /// It is this one, where something was written to it.
    pub(super) fn is(&self, named: &Metadata) -> bool {
        let opened = self.file.as_ref().map(|file| file.metadata().ok().as_ref().map(place));
        opened.or(self.place.as_deref().map(|place| Some(*place))).is_none_or(|known| known == Some(place(named)))
    }
}

fn place(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// The event tells of the resource set.
pub fn is_of_set(record: &Record) -> bool {
    matches!(&*record.name, "resource-define" | "resource-update")
}

/// The last of the lines that tells of the resource set, from 1; 0: none.
pub fn last_set(lines: &[Vec<u8>]) -> u64 {
    lines.iter().rposition(|line| tells_of_set(line)).map_or(0, |last| last as u64 + 1)
}

fn tells_of_set(line: &[u8]) -> bool {
    str::from_utf8(line).is_ok_and(|text| text.contains("\"resource-"))
        && Record::parse(line).is_ok_and(|record| is_of_set(&record))
}

/// A file as it is.
fn read(path: &Path) -> io::Result<merge::File> {
    match fs::read(path) {
        Ok(bytes) => Ok(merge::File::Bytes(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(merge::File::Missing),
        Err(error) if files::is_passing(&error) => Err(error),
        Err(error) => Ok(merge::File::Unreadable(format!("cannot be read: {error}"))),
    }
}

fn reader(path: &Path) -> io::Result<BufReader<Box<dyn io::Read>>> {
    let file: Box<dyn io::Read> = match File::open(path) {
        Ok(file) => Box::new(file),
        Err(error) if error.kind() == ErrorKind::NotFound => Box::new(io::empty()),
        Err(error) => return Err(error),
    };
    Ok(BufReader::new(file))
}

/// Reads a line without its newline; false at the end, where what is left has no newline.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    reader.read_until(b'\n', line)?;
    Ok(line.pop_if(|last| *last == b'\n').is_some())
}

/// Log and copy line by line, without holding them in memory; `None` where they do not agree, beyond what a crash leaves.
fn compare(dir: &Path, least: u64) -> io::Result<Option<EventLog>> {
    let part = |name: &str| Part { path: dir.join(name), file: Held::default(), whole: 0, torn: true };
    let (log, copy, count) = (part(eventlog::FILE), part(copy::FILE), Count::of(dir));
    let mut agreed = EventLog { log, copy, count, lines: 0, last_set: 0, planned: Vec::new() };
    let (mut log, mut copy) = (reader(&agreed.log.path)?, reader(&agreed.copy.path)?);
    let (mut line, mut twin) = (Vec::new(), Vec::new());
    if next(&mut copy, &mut twin)? {
        if copy::read_title(&twin) != Title::Known {
            return Ok(None);
        }
        agreed.copy.whole = twin.len() as u64 + 1;
    }
    let mut more = next(&mut log, &mut line)?;
    let mut dropped = false;
    while agreed.copy.whole > 0 && next(&mut copy, &mut twin)? {
        let Some(entry) = copy::read(&twin).filter(|entry| dropped || entry.number == agreed.lines + 1) else {
            return Ok(None);
        };
        let same = more && entry.text == line;
        if !entry.written && entry.number > least && !more {
            // About to be written, and not acknowledged.
            dropped = true;
            continue;
        }
        if !same || dropped {
            return Ok(None);
        }
        if !entry.written {
            agreed.planned.push(agreed.copy.whole);
        }
        agreed.lines += 1;
        agreed.copy.whole += twin.len() as u64 + 1;
        agreed.log.whole += line.len() as u64 + 1;
        if tells_of_set(&line) {
            agreed.last_set = agreed.lines;
        }
        more = next(&mut log, &mut line)?;
    }
    Ok((!more).then_some(agreed))
}
