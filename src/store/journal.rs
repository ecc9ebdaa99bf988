//! The directory of a resource journal: `resource.eventlog` (RFC 18) and `resource.R` (RFC 20), as any reader of the RFCs takes
//! them, and beside each a copy with checksums. A drain or undrain is never lost: either file makes up for damage of the other.
//! What was damaged is kept aside, told in `resource.damage` and mended, so that the log stays readable for others.
//!
//! Everything here blocks.

mod copy;
pub mod count;
mod log;
mod merge;
mod report;
mod set;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Path, PathBuf},
};

use self::{
    log::EventLog,
    merge::{Merged, numbers},
};
pub use self::{
    log::is_of_set,
    report::{is_there as has_report, read as read_report},
    set::Set,
};
use super::{
    eventlog::{self, Record},
    files,
};
use crate::domain::words::plural;

/// Name of the file that tells of damage.
pub const REPORT: &str = report::FILE;

/// A directory that may be written to. Nothing is made before there is something to write.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// `None`: what is there could not be mended yet.
    log: Option<EventLog>,
    set: set::SetFiles,
    /// Lines that were read from the log or written to it.
    lines: u64,
    damage: Vec<String>,
}

/// What was found in a directory.
#[derive(Debug)]
pub struct Opened {
    /// To write to; or why that is not possible.
    pub directory: Result<Directory, String>,
    /// Hosts by rank and the expiration, where they are known.
    pub set: Option<Set>,
    /// The lines of the log.
    pub lines: Lines,
    /// What was found damaged now, for an operator to read. Where it could be written, it is in the report too.
    pub damage: Vec<String>,
    /// Nothing is known of it yet, and why: it cannot be opened, and nothing of it is known to be damaged.
    pub passing: Option<String>,
}

/// The lines of a log.
#[derive(Debug)]
pub enum Lines {
    /// None can be read.
    None,
    /// As it is on disk.
    Stored(PathBuf),
    /// As it should be on disk.
    Merged(Vec<Vec<u8>>),
}

impl Lines {
    /// Gives each line, counted from 1.
    ///
    /// # Errors
    /// Reading failed.
    pub fn scan(&self, mut each: impl FnMut(usize, Result<Record, String>)) -> io::Result<()> {
        match self {
            Lines::None => {}
            Lines::Stored(path) => drop(eventlog::scan(io::BufReader::new(std::fs::File::open(path)?), each)?),
            Lines::Merged(lines) => {
                (1..).zip(lines).for_each(|(number, line)| each(number, Record::parse(line)));
            }
        }
        Ok(())
    }
}

/// Looks at a directory, and mends what is damaged. Nothing is made where there is none. `at` is a time for names of files and
/// reports, such as `20261122T021305Z`.
pub fn open(path: &Path, at: &str) -> Opened {
    let counted = count::read(path);
    let least = counted.as_ref().map_or(0, |counted| counted.clone().unwrap_or(0));
    let (found, counted) = match EventLog::open(path, least).and_then(|found| Ok((found, counted?))) {
        Ok(found) => found,
        Err(error) => {
            return Opened::not_yet(format!("the journal in {} cannot be read: {error}", path.display()));
        }
    };
    let newer = |name: &str, version: u32| {
        format!(
            "{} has format version {version}, and this server reads up to {}: start the release that wrote it, or move \
             the directory away; until then nothing can be drained or undrained",
            path.join(name).display(),
            copy::VERSION
        )
    };
    let log = match found {
        log::Found::Sound(log) => Ok(log),
        log::Found::Differing(merged) => Err(merged),
        log::Found::Newer(version) => {
            // Log and resource set have the form of the RFCs in every release.
            let lines = Lines::Stored(path.join(eventlog::FILE));
            return Opened { lines, set: set::as_it_is(path), ..Opened::not(newer(copy::FILE, version)) };
        }
    };
    let last_set = log.as_ref().map_or_else(|merged| log::last_set(&merged.lines), EventLog::last_set);
    // With those that are told of by their numbers.
    let lines = log.as_ref().map_or_else(|merged| (merged.lines.len() + merged.lost.len()) as u64, EventLog::lines);
    let set = match set::open(path, lines, last_set) {
        Ok(set) => set,
        Err(set::Unopened::Passing(error)) => {
            return Opened::not_yet(format!("the journal in {} cannot be read: {error}", path.display()));
        }
        Err(set::Unopened::Newer(version)) => {
            let lines = log.map_or_else(|merged| Lines::Merged(merged.lines), |log| Lines::of(Some(&log)));
            return Opened { lines, set: set::as_it_is(path), ..Opened::not(newer(set::COPY, version)) };
        }
    };
    let missing = set.missing.max(least.saturating_sub(lines));
    Mending { path, at, log, set, missing, counted }.mend()
}

impl Lines {
    fn of(log: Option<&EventLog>) -> Lines {
        log.filter(|log| log.lines() > 0).map_or(Lines::None, |log| Lines::Stored(log.path().to_owned()))
    }
}

impl Opened {
    fn not(why: String) -> Opened {
        Opened { directory: Err(why.clone()), set: None, lines: Lines::None, damage: vec![why], passing: None }
    }

    fn not_yet(why: String) -> Opened {
        Opened { damage: Vec::new(), passing: Some(why.clone()), ..Opened::not(why) }
    }
}

impl Directory {
    /// There is something in it.
    pub fn is_kept(&self) -> bool {
        self.set.is_there() || self.log.as_ref().is_none_or(|log| !log.is_new())
    }

    /// No event was there when it was opened, damaged or not.
    pub fn began(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.is_new())
    }

    /// What was found damaged since this was last asked.
    pub fn take_damage(&mut self) -> Vec<String> {
        std::mem::take(&mut self.damage)
    }

    /// Stores a resource set, which the last record about it tells of, then appends the records: all or none of them. Both
    /// are on disk afterwards.
    ///
    /// # Errors
    /// Which file could not be written, and why; the log is as it was.
    pub fn write(&mut self, r: Option<&str>, records: &[Record], at: &str) -> Result<(), String> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| format!("{path} cannot be written: {error}")
        };
        files::make_dir(&self.path).map_err(failed(&self.path.join(eventlog::FILE)))?;
        if !self.log.as_ref().is_some_and(EventLog::is_untouched) {
            self.open_again(at)?;
        }
        let Some(log) = &mut self.log else {
            return Err(format!("{} is damaged and cannot be mended: see {REPORT}", self.path.display()));
        };
        if let Some(r) = r {
            let last = records.iter().rposition(is_of_set).map_or(0, |last| last as u64 + 1);
            let path = self.path.join(set::FILE);
            self.set.write(&self.path, r, log.lines() + last, log.lines()).map_err(failed(&path))?;
        }
        let path = log.path().to_owned();
        log.append(records).map_err(failed(&path))?;
        self.lines = log.lines();
        Ok(())
    }

    /// Closes what is open until something is written again.
    pub fn rest(&mut self) {
        self.log.as_mut().into_iter().for_each(EventLog::rest);
    }

    /// Somebody else has changed the files.
    fn open_again(&mut self, at: &str) -> Result<(), String> {
        let Opened { directory, mut damage, passing, .. } = open(&self.path, at);
        if let Some(why) = passing {
            return Err(why);
        }
        // Told as long as nothing can be written, and no longer.
        let fresh = directory?;
        if fresh.lines < self.lines {
            let lost = format!(
                "{} and its copy were changed by something else and end {} early: what was there holds until the \
                 server ends; drain again what has to stay drained",
                self.path.join(eventlog::FILE).display(),
                plural(self.lines - fresh.lines, "line")
            );
            // Where even this cannot be written, the running server tells it.
            let _ = report::add(&self.path, &[format!("{at} {lost}")]);
            damage.push(lost);
        }
        let mut before = self.take_damage();
        *self = fresh;
        before.append(&mut damage);
        self.damage = before;
        Ok(())
    }
}

/// Adds to the report of a directory what its files turned out to lack or to say.
///
/// # Errors
/// It cannot be written.
pub fn report(path: &Path, at: &str, faults: &[String]) -> io::Result<()> {
    report::add(path, &faults.iter().map(|fault| format!("{at} {fault}")).collect::<Vec<_>>())
}

/// A directory whose files were looked at.
struct Mending<'a> {
    path: &'a Path,
    at: &'a str,
    log: Result<EventLog, Box<Merged>>,
    set: set::Found,
    /// Lines that there were, and that neither file has at its end.
    missing: u64,
    /// Lines that there were at least.
    counted: Result<u64, String>,
}

impl Mending<'_> {
    fn mend(mut self) -> Opened {
        let mut damage = self.damage();
        let set = self.set.set.take();
        let lines = self.log.as_ref().map_or_else(|merged| merged.lines.len() as u64, EventLog::lines);
        let path = self.path.to_owned();
        // Before it is mended: the next start would find nothing to tell.
        let told = if damage.is_empty() { Ok(()) } else { report(self.path, self.at, &damage) };
        let directory = |log, set| Directory { path: path.clone(), log, set, lines, damage: Vec::new() };
        match told.and_then(|()| self.put_right(&mut damage)) {
            Ok((log, files)) => {
                let lines = Lines::of(Some(&log));
                Opened { directory: Ok(directory(Some(log), files)), set, lines, damage, passing: None }
            }
            Err(error) => {
                let files = self.set.files();
                let (log, lines) = match self.log {
                    // Only a resource set that a crash left half written.
                    Ok(log) if damage.is_empty() => {
                        let lines = Lines::of(Some(&log));
                        (Some(log), lines)
                    }
                    Ok(log) => (None, Lines::of(Some(&log))),
                    Err(merged) => (None, Lines::Merged(merged.lines)),
                };
                if !damage.is_empty() {
                    let why =
                        format!("{} cannot be mended, and is not written to before it can: {error}", path.display());
                    damage.push(why);
                }
                Opened { directory: Ok(directory(log, files)), set, lines, damage, passing: None }
            }
        }
    }

    /// What an operator has to know.
    fn damage(&self) -> Vec<String> {
        let mut damage = Vec::new();
        let (mut lost, mut doubtful) = (None, None);
        if let Err(merged) = &self.log {
            if !merged.log.is_none() {
                damage.push(format!("{}: {}; restored from {}", eventlog::FILE, merged.log, copy::FILE));
            }
            if !merged.copy.is_none() {
                damage.push(format!("{}: {}; made anew from {}", copy::FILE, merged.copy, eventlog::FILE));
            }
            (lost, doubtful) = (numbers(&merged.lost), numbers(&merged.doubtful));
        }
        if self.missing > 0 {
            damage.push(format!(
                "{} and {} lack {} at their end",
                eventlog::FILE,
                copy::FILE,
                plural(self.missing, "line")
            ));
            lost.get_or_insert_with(|| "the end".to_owned());
        }
        damage.extend(self.set.faults.iter().cloned());
        if let Err(why) = &self.counted {
            damage.push(format!("{}: {why}; made anew from {}", count::FILE, eventlog::FILE));
        }
        damage.extend(lost.as_ref().map(|lost| format!("{}: {lost} cannot be read in either file", eventlog::FILE)));
        let taken =
            |lines| format!("{}: {lines} damaged in both files, and in force as it can be read", eventlog::FILE);
        damage.extend(doubtful.as_ref().map(taken));
        if damage.is_empty() {
            return damage;
        }
        let report = self.path.join(REPORT).display().to_string();
        damage.push(match lost.or(doubtful) {
            None => format!("no drain or undrain is lost; look after the disk, then remove {report}"),
            Some(_) => format!(
                "a drain or undrain may be lost, and all others are in force: compare `callboard resource drain` with what has \
                 to be drained, drain what is missing, then remove {report}"
            ),
        });
        damage
    }

    /// Writes what should be there, and tells in the report what was kept aside.
    fn put_right(&mut self, damage: &mut Vec<String>) -> io::Result<(EventLog, set::SetFiles)> {
        let aside = |name: &str| {
            let names = (1..).map(|n| if n == 1 { String::new() } else { format!("-{n}") });
            let paths = names.map(|more| self.path.join(format!("{name}.damaged-{}{more}", self.at)));
            // Names are free sooner or later.
            paths.into_iter().find(|path| path.symlink_metadata().is_err()).unwrap_or_default()
        };
        let (files, mut kept) = self.set.repair(self.path, aside)?;
        let lines = self.log.as_ref().map_or_else(|merged| merged.lines.len() as u64, EventLog::lines);
        if self.counted.as_ref().is_ok_and(|least| *least > lines) || self.counted.is_err() {
            if self.counted.is_err() {
                let other = aside(count::FILE);
                files::keep_as(&self.path.join(count::FILE), &other)?;
                kept.push(other);
            }
            // Before the log: what comes in between leaves a number that is too small.
            count::Count::of(self.path).replace(lines)?;
        }
        let log = match std::mem::replace(&mut self.log, Err(Box::default())) {
            Ok(log) => log,
            Err(merged) => match EventLog::rewrite(self.path, &merged.lines, aside) {
                Ok((log, more)) => {
                    kept.extend(more);
                    log
                }
                Err(error) => {
                    self.log = Err(merged);
                    return Err(error);
                }
            },
        };
        if !kept.is_empty() {
            let names: Vec<_> = kept.iter().filter_map(|path| path.file_name()?.to_str()).collect();
            let text = format!("kept to be looked at: {}", names.join(", "));
            // It says what can be seen there.
            let _ = report(self.path, self.at, std::slice::from_ref(&text));
            damage.push(text);
        }
        Ok((log, files))
    }
}
