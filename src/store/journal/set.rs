//! The resource set on disk: `resource.R`, and `resource.R.copy` with a checksum, from which damage is noticed and undone.
//!
//! The copy is a line that says what follows, and the text of R. It is written first, and knows the checksum of the R before
//! it, so that what a crash leaves between the two writes is told from damage; and the line of the log that the set belongs
//! to, so that an older copy is known as such.

use std::{fs, io, io::ErrorKind, path::Path, path::PathBuf};

use crate::{
    domain::journal::Known,
    store::{files, resource_set::decode},
};

/// Name of the file in its directory.
pub const FILE: &str = "resource.R";
/// Name of its copy.
pub const COPY: &str = "resource.R.copy";
const TITLE: &str = "callboard copy of resource.R, version ";
const VERSION: u32 = 1;

/// Hosts by rank, and the expiration.
pub type Set = (Vec<Known>, i64);

/// The files of a directory.
#[derive(Debug, Default)]
pub struct SetFiles {
    /// Checksum of the R that is there.
    sum: Option<u32>,
}

/// What was found of them.
#[derive(Debug, Default)]
pub struct Found {
    /// The set, where it is known.
    pub set: Option<Set>,
    /// What was wrong, and what was done about it.
    pub faults: Vec<String>,
    /// The text that both files should hold, the line of the log that it belongs to, and how many were there before: where one
    /// of them does not.
    rewrite: Option<(String, u64, u64)>,
    /// Files to be kept aside.
    aside: Vec<&'static str>,
    sum: Option<u32>,
    /// Lines that the log had when the set was written, or that came with it, and lacks: a write that never reached the log is none.
    pub missing: u64,
}

/// Why the files are not looked at.
#[derive(Debug)]
pub enum Unopened {
    /// The copy is of a later release.
    Newer(u32),
    /// They cannot be opened at present.
    Passing(io::Error),
}

/// The copy.
struct Copy {
    sum: u32,
    before: Option<u32>,
    line: u64,
    /// Lines of the log when it was written; releases before did not say.
    after: Option<u64>,
    text: String,
}

impl Copy {
    /// Lines that a log of so many lacks.
    fn lacks(&self, lines: u64) -> u64 {
        match self.after {
            Some(after) if lines <= after => after - lines,
            // It is written just before its line.
            _ => self.line.saturating_sub(lines + 1),
        }
    }
}

enum CopyFile {
    Missing,
    Bad(String),
    Good(Copy),
}

/// Looks at the files of a directory, whose log has so many lines, and tells of the set in its line `last_set` for the last
/// time (0: never). Nothing is changed.
///
/// # Errors
/// The copy is of a later release, or they cannot be opened at present.
pub fn open(dir: &Path, lines: u64, last_set: u64) -> Result<Found, Unopened> {
    let bytes = |name: &str| match fs::read(dir.join(name)) {
        Ok(bytes) => Ok(Ok(Some(bytes))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Ok(None)),
        Err(error) if files::is_passing(&error) => Err(Unopened::Passing(error)),
        Err(error) => Ok(Err(format!("cannot be read: {error}"))),
    };
    let copy = match bytes(COPY)? {
        Ok(None) => CopyFile::Missing,
        Ok(Some(bytes)) => read_copy(&bytes)?,
        Err(why) => CopyFile::Bad(why),
    };
    let r = bytes(FILE)?;
    let sum = r.as_ref().ok().and_then(|r| Some(crc32fast::hash(r.as_deref()?)));
    let text = match r {
        Ok(None) => Err("missing".to_owned()),
        Ok(Some(bytes)) => String::from_utf8(bytes).map_err(|_| "damaged: not UTF-8".to_owned()),
        Err(why) => Err(why),
    };
    let set =
        text.as_ref().map_err(String::clone).and_then(|text| decode(text).map_err(|why| format!("damaged: {why}")));
    let mut found = Found { sum, ..Found::default() };
    match copy {
        CopyFile::Good(copy) => {
            found.missing = copy.lacks(lines);
            found.beside(copy, text, set, last_set);
        }
        CopyFile::Missing if sum.is_none() && last_set == 0 && !dir.join(FILE).exists() => {}
        other => {
            let why = if let CopyFile::Bad(why) = other { why } else { "missing".to_owned() };
            found.alone(&why, text, set, last_set);
        }
    }
    Ok(found)
}

/// What `resource.R` says, where it can be read.
pub fn as_it_is(dir: &Path) -> Option<Set> {
    decode(&fs::read_to_string(dir.join(FILE)).ok()?).ok()
}

impl Found {
    /// The copy is right.
    fn beside(&mut self, copy: Copy, text: Result<String, String>, set: Result<Set, String>, last_set: u64) {
        if self.sum == Some(copy.sum) {
            self.set = set.ok();
            if self.missing > 0 {
                self.rewrite = Some((copy.text, last_set, last_set));
            }
            return;
        }
        let older = copy.line < last_set;
        match (text, set) {
            (Ok(text), Ok(set)) if older => {
                self.faults.push(format!("{COPY}: older than {FILE}, from which it was made anew"));
                self.aside.push(COPY);
                self.rewrite = Some((text, last_set, last_set));
                self.set = Some(set);
                return;
            }
            // A crash came between the two writes.
            (text, _)
                if self.sum == copy.before
                    && (self.sum.is_some() || matches!(&text, Err(why) if why == "missing"))
                    && !older => {}
            (_, set) => {
                let why = set.err().unwrap_or_else(|| "not what was written last".to_owned());
                let age = if older { ", as it was some time before: hosts that came since get new ranks" } else { "" };
                self.faults.push(format!("{FILE}: {why}; {COPY} had it{age}"));
                self.aside.push(FILE);
            }
        }
        self.set = decode(&copy.text).ok();
        let line = last_set.max(copy.line);
        self.rewrite = Some((copy.text, line, copy.after.unwrap_or(line.saturating_sub(1))));
    }

    /// The copy is not there, or damaged.
    fn alone(&mut self, why: &str, text: Result<String, String>, set: Result<Set, String>, last_set: u64) {
        self.aside.push(COPY);
        match (text, set) {
            (Ok(text), Ok(set)) => {
                self.faults.push(format!("{COPY}: {why}; it was made anew from {FILE}"));
                self.rewrite = Some((text, last_set, last_set));
                self.set = Some(set);
            }
            (_, Err(of_r)) => {
                self.faults.push(format!("{FILE}: {of_r}, and {COPY}: {why}; ranks are given anew"));
                self.aside.push(FILE);
            }
            (Err(_), Ok(_)) => {}
        }
    }

    /// The files as they are, to be written to.
    pub fn files(&self) -> SetFiles {
        SetFiles { sum: self.sum }
    }

    /// Writes what should be there. What was there and is wrong stays under the names that `aside` gives, and those are told.
    ///
    /// # Errors
    /// A file cannot be written; what is there can be put together again as before.
    pub fn repair(&mut self, dir: &Path, aside: impl Fn(&str) -> PathBuf) -> io::Result<(SetFiles, Vec<PathBuf>)> {
        let mut kept = Vec::new();
        for name in self.aside.drain(..) {
            let (path, other) = (dir.join(name), aside(name));
            match files::keep_as(&path, &other) {
                Ok(()) => kept.push(other),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            if self.rewrite.is_none() && path.exists() {
                files::remove(&path)?;
            }
        }
        let mut files = SetFiles { sum: self.sum };
        if let Some((text, line, after)) = self.rewrite.take() {
            files.write(dir, &text, line, after)?;
        }
        Ok((files, kept))
    }
}

impl SetFiles {
    /// There is a resource set on disk.
    pub fn is_there(&self) -> bool {
        self.sum.is_some()
    }

    /// Replaces the resource set by one that a line of the log, which has `after` lines now, will tell of. It is on disk
    /// afterwards.
    ///
    /// # Errors
    /// Writing failed; the set is the one from before, or the new one.
    pub fn write(&mut self, dir: &Path, text: &str, line: u64, after: u64) -> io::Result<()> {
        let sum = crc32fast::hash(text.as_bytes());
        let before = self.sum.map_or("none".to_owned(), |sum| format!("{sum:08x}"));
        let title = format!("{TITLE}{VERSION}, sum {sum:08x}, before {before}, line {line}, after {after}");
        files::replace(&dir.join(COPY), (files::checked(&title) + text).as_bytes())?;
        files::replace(&dir.join(FILE), text.as_bytes())?;
        self.sum = Some(sum);
        Ok(())
    }
}

fn read_copy(bytes: &[u8]) -> Result<CopyFile, Unopened> {
    let Some((version, rest, text)) = str::from_utf8(bytes).ok().and_then(title) else {
        return Ok(CopyFile::Bad("damaged".to_owned()));
    };
    if version > VERSION {
        return Err(Unopened::Newer(version));
    }
    let copy = fields(rest, text).filter(|copy| crc32fast::hash(text.as_bytes()) == copy.sum && decode(text).is_ok());
    Ok(copy.map_or_else(|| CopyFile::Bad("damaged".to_owned()), CopyFile::Good))
}

/// Version, the fields behind it, and the text; where the checksum of the title is right.
fn title(copy: &str) -> Option<(u32, &str, &str)> {
    let (line, text) = copy.split_once('\n')?;
    let rest = files::text_of(line)?.strip_prefix(TITLE)?;
    let (version, rest) = rest.split_once(',').unwrap_or((rest, ""));
    Some((version.parse().ok()?, rest, text))
}

fn fields(rest: &str, text: &str) -> Option<Copy> {
    let mut fields = rest.split(',').map(str::trim);
    let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix(' ');
    let sum = u32::from_str_radix(field("sum")?, 16).ok()?;
    let before = match field("before")? {
        "none" => None,
        sum => Some(u32::from_str_radix(sum, 16).ok()?),
    };
    let line = field("line")?.parse().ok()?;
    let after = field("after").and_then(|after| after.parse().ok());
    Some(Copy { sum, before, line, after, text: text.to_owned() })
}
