//! The journal's directory, as the actor reads it. Everything here blocks.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::orders::KeptOrders;
use crate::{
    domain::{
        journal::{Journal, Kind, ResourceEvent, Settings},
        types::Nanos,
    },
    store::{
        eventlog::{self, Record},
        files,
        journal::{self, Directory},
        queue_orders,
    },
};

/// Unreadable lines of the stored log that are remembered at most.
const MAX_FAULTS: usize = 100;
/// Hosts of one undrain that are looked at, at most.
const MAX_HOSTS: usize = 1 << 20;

/// What was found on disk.
pub struct Loaded {
    /// The directory, or why there is none.
    pub directory: Result<Directory, String>,
    /// Ranks, hosts and drains.
    pub journal: Journal,
    /// Orders to queues.
    pub orders: KeptOrders,
    /// Events for the journal in memory.
    pub records: Vec<Record>,
    /// What was found damaged, now or before, and no operator has settled.
    pub damage: Vec<String>,
    /// Unreadable lines of the log, each with its place.
    pub faults: Vec<String>,
    /// Where drains may be lost, since the log is missing, not read yet, or was damaged and no operator has settled that: when each
    /// host was undrained last, as far as the log tells.
    pub undrained: Option<BTreeMap<Arc<str>, Nanos>>,
    /// Why some of it is not known yet: files cannot be opened, which is tried again.
    pub passing: Option<String>,
}

/// Reads a directory, and gives the newest `keep` events. Whatever is wrong there is reported, and never stops the start.
pub fn load(dir: &Path, settings: Settings, keep: usize) -> Loaded {
    let at = stamp();
    // Before the journal's own files are mended: that is done once.
    let (orders, reported) = (queue_orders::load(dir), journal::read_report(dir));
    let report = |error: &io::Error| format!("the report of damage in {} cannot be read: {error}", dir.display());
    let opened = journal::open(dir, &at);
    let unread = orders.passing.clone().or_else(|| Some(report(reported.as_ref().err()?)));
    let mut passing = opened.passing.or(unread);
    let (known, expiration) = opened.set.unwrap_or_default();
    let mut journal = Journal::new(settings, known, expiration);
    let (mut records, mut faults) = (VecDeque::new(), LineFaults::default());
    let log = dir.join(eventlog::FILE);
    let lost = passing.is_some()
        || !opened.damage.is_empty()
        || opened.directory.as_ref().is_ok_and(Directory::began)
        || reported.as_ref().is_ok_and(|lines| !lines.is_empty());
    let mut undrained = lost.then(BTreeMap::new);
    let scanned = opened.lines.scan(|line, record| {
        let place = |why: String| format!("{} line {line}: {why}", log.display());
        let record = match record {
            Ok(record) => record,
            Err(why) => return faults.add(place(why)),
        };
        let replayed = record.past().map(|past| past.filter(|_| !crate::domain::planted!("drains-unread")));
        if let (Some(undrained), Ok(Some(ResourceEvent { at, kind: Kind::Undrain { targets, .. } }))) =
            (&mut undrained, &replayed)
        {
            let hosts = targets.nodelist.iter().take(MAX_HOSTS);
            undrained.extend(hosts.map(|host| (Arc::from(host), *at)));
        }
        let replayed = replayed.and_then(|past| past.map_or(Ok(()), |past| journal.replay(&past)));
        if let Err(why) = replayed {
            faults.add(place(format!("{}: {why}", record.name)));
        }
        records.push_back(record);
        if records.len() > keep {
            records.pop_front();
        }
    });
    let mut damage = opened.damage;
    if let Err(error) = scanned {
        passing.get_or_insert(format!("{} cannot be read to its end: {error}", log.display()));
        undrained.get_or_insert_default();
    }
    let faults = faults.finish();
    if !damage.is_empty() && !faults.is_empty() {
        // They are new, as the lines are. Where they cannot be written, they are reported all the same.
        let _ = journal::report(dir, &at, &faults);
    }
    let (orders, found) = mend_orders(dir, &at, orders, passing.is_some());
    damage.extend(found);
    let reported = journal::read_report(dir).or(reported).unwrap_or_default();
    damage.retain(|new| !reported.iter().any(|line| line.ends_with(new)));
    let damage = reported.into_iter().chain(damage).collect();
    let directory = passing.clone().map_or(opened.directory, Err);
    Loaded { directory, journal, orders, records: records.into(), damage, faults, undrained, passing }
}

/// Mends the orders to queues where they are damaged, unless all is read again soon (`later`). Gives what was found.
fn mend_orders(dir: &Path, at: &str, loaded: queue_orders::Loaded, later: bool) -> (KeptOrders, Vec<String>) {
    let mut damage = loaded.damage.clone();
    let (broken, lost) = (loaded.broken.clone(), loaded.lost);
    let (mut change, mut unmended) = (loaded.change, false);
    if broken.is_none() && !damage.is_empty() && !later {
        // Reported before it is mended: a crash in between tells of it twice, not never.
        let told = journal::report(dir, at, &damage);
        match told.map_err(|error| error.to_string()).and_then(|()| queue_orders::mend(dir, at, &loaded)) {
            Ok(()) => change += 1,
            Err(why) => {
                damage.push(format!("queue.orders cannot be mended: {why}"));
                unmended = true;
            }
        }
    }
    (KeptOrders { orders: loaded.orders, change, broken, lost, unmended }, damage)
}

/// The time, for names of files and reports.
pub fn stamp() -> String {
    jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[derive(Default)]
struct LineFaults {
    listed: Vec<String>,
    more: usize,
}

impl LineFaults {
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

/// The directory of a partition's journal: its name with all but letters, digits, `-`, `_` and inner dots written as
/// `%` and two hex digits.
pub fn directory(base: &Path, partition: &str) -> PathBuf {
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
    base.join(files::name_of(name, partition))
}

/// The partitions that have a directory, as far as their names can be told from it.
pub fn partitions(base: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(base) else { return Vec::new() };
    let named = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let partition = decode(path.file_name()?.to_str()?)?;
        (directory(base, &partition) == path).then_some(partition)
    });
    named.collect()
}

fn decode(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
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

    #[test]
    fn directories_tell_their_partitions() {
        let base = tempfile::tempdir().unwrap();
        assert!(partitions(&base.path().join("missing")).is_empty());
        let names = ["[rm \u{17f}]a.b", "[rm-1]default"];
        for name in names.into_iter().chain([&*"x".repeat(5000)]) {
            std::fs::create_dir(directory(base.path(), name)).unwrap();
        }
        for other in ["%5", "%zz", "%FF", "with space"] {
            std::fs::create_dir(base.path().join(other)).unwrap();
        }
        let mut found = partitions(base.path());
        found.sort();
        assert_eq!(found, names);
    }
}
