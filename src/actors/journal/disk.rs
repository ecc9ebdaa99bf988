//! The journal's directory: `resource.eventlog` and `resource.R`. Everything here blocks.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    domain::journal::{Journal, Settings},
    store::{
        eventlog::{EventLog, Record},
        resource_set,
    },
};

/// Faults of the stored log that are remembered at most.
const MAX_FAULTS: usize = 100;

/// What was found on disk.
pub struct Loaded {
    /// The directory, or why there is none.
    pub disk: Result<Disk, String>,
    /// Ranks, hosts and drains.
    pub journal: Journal,
    /// Events for the journal in memory.
    pub records: Vec<Record>,
    /// What could not be read, each with its place.
    pub faults: Vec<String>,
}

/// An open directory.
#[derive(Debug)]
pub struct Disk {
    dir: PathBuf,
    log: EventLog,
}

/// Reads a directory, which is made where it does not exist. The newest `keep` events are given back. Nothing that
/// is found there stops the start: it is named in the faults.
pub fn load(dir: &Path, settings: Settings, keep: usize) -> Loaded {
    let mut faults = Faults::default();
    let r_path = dir.join(resource_set::FILE);
    let (known, expiration) = match fs::read_to_string(&r_path) {
        Ok(text) => resource_set::decode(&text).unwrap_or_else(|why| {
            faults.add(format!("{}: {why}; ranks are given anew", r_path.display()));
            Default::default()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Default::default(),
        Err(error) => {
            faults.add(format!("{}: {error}; ranks are given anew", r_path.display()));
            Default::default()
        }
    };
    let mut journal = Journal::new(settings, known, expiration);
    let mut records = std::collections::VecDeque::new();
    let log_path = dir.join(crate::store::eventlog::FILE);
    let log = fs::create_dir_all(dir).and_then(|()| {
        EventLog::open(dir, |line, record| {
            let place = |why: String| format!("{} line {line}: {why}", log_path.display());
            let record = match record {
                Ok(record) => record,
                Err(why) => return faults.add(place(why)),
            };
            let replayed = record.past().and_then(|past| past.map_or(Ok(()), |past| journal.replay(&past)));
            if let Err(why) = replayed {
                faults.add(place(format!("{}: {why}", record.name)));
            }
            records.push_back(record);
            if records.len() > keep {
                records.pop_front();
            }
        })
    });
    let disk = log.map(|log| Disk { dir: dir.to_owned(), log }).map_err(|error| {
        let why = format!("the journal in {} cannot be read: {error}", dir.display());
        faults.add(why.clone());
        why
    });
    Loaded { disk, journal, records: records.into(), faults: faults.finish() }
}

#[derive(Default)]
struct Faults {
    listed: Vec<String>,
    more: usize,
}

impl Faults {
    fn add(&mut self, fault: String) {
        if self.listed.len() < MAX_FAULTS {
            self.listed.push(fault);
        } else {
            self.more += 1;
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.listed.push(format!("and {} more", self.more));
        }
        self.listed
    }
}

impl Disk {
    /// Stores a resource set (before its event), then appends events.
    ///
    /// # Errors
    /// Which file could not be written, and why; the log is as it was.
    pub fn write(&mut self, r: Option<&str>, records: &[Record], sync: bool) -> Result<(), String> {
        if let Some(r) = r {
            resource_set::write(&self.dir, r).map_err(|error| {
                format!("{} cannot be written: {error}", self.dir.join(resource_set::FILE).display())
            })?;
        }
        let path = self.log.path().display().to_string();
        self.log.append(records, sync).map_err(|error| format!("{path} cannot be written: {error}"))
    }
}

/// The directory of a partition's journal: its name with all but letters, digits, `-`, `_` and inner dots written as
/// `%` and two hex digits.
pub fn directory(base: &Path, partition: &str) -> PathBuf {
    use sha2::{Digest, Sha256};
    use std::fmt::Write;

    let mut name = String::new();
    for (at, byte) in partition.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && at > 0) {
            name.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.len() > 200 {
        name.truncate(130);
        name.push('~');
        for byte in Sha256::digest(partition.as_bytes()) {
            let _ = write!(name, "{byte:02x}");
        }
    }
    base.join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_a_directory_of_its_own() {
        let name = |partition: &str| directory(Path::new("/d"), partition).to_string_lossy().into_owned();
        assert_eq!(name("[rm-1]default"), "/d/%5Brm-1%5Ddefault");
        assert_eq!(name(".."), "/d/%2E.");
        assert_eq!(name("a/../b"), "/d/a%2F..%2Fb");
        let long = "x".repeat(5000);
        assert_eq!(name(&long).len(), 3 + 130 + 1 + 64);
        assert_ne!(name(&long), name(&format!("{long}y")));
    }
}
