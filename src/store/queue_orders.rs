//! `queue.orders`: what operators told the queues of a partition, and `queue.orders.copy`, the same once more, so that damage
//! of either is noticed and undone from the other. Both are replaced as a whole, one after the other.
//!
//! The first line is a title with a number that grows with each change, the number of orders and a checksum; each order has
//! a line of JSON with a checksum of its own, so that one that cannot be read costs no other.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::files;
use crate::domain::{
    queue_order::{OrderKind, QueueOrder},
    types::Nanos,
};

/// Name of the file in the directory of the partition's journal.
pub const FILE: &str = "queue.orders";
/// And of the other.
pub const COPY: &str = "queue.orders.copy";
const TITLE: &str = "callboard queue orders, version 1";
const FORM: &str = "callboard queue orders, version ";

/// Orders by the path of their queue.
pub type Orders = BTreeMap<Arc<str>, Arc<QueueOrder>>;

/// What was found.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Every order that one of the files has whole.
    pub orders: Orders,
    /// The number of the newest change.
    pub change: u64,
    /// What was damaged.
    pub damage: Vec<String>,
    /// Neither can be opened, and why; nothing of them is damaged.
    pub passing: Option<String>,
    /// Why nothing may be written: the files are of a later release.
    pub broken: Option<String>,
    /// They do not say all: there may have been more orders.
    pub lost: bool,
}

#[derive(Serialize, Deserialize)]
struct Line {
    queue: Arc<str>,
    order: String,
    by: Arc<str>,
    at: i64,
    when: Arc<str>,
    reason: Arc<str>,
}

/// One of the files.
struct Found {
    change: u64,
    /// Every line is there and whole.
    whole: bool,
    orders: Orders,
    faults: Vec<String>,
}

enum Read {
    Missing,
    Newer(String),
    Found(Found),
}

fn read(path: &Path) -> io::Result<Read> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Read::Missing);
        }
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let title = lines.next().and_then(files::text_of);
    let known = title.and_then(|title| title.strip_prefix(TITLE)?.strip_prefix(" change ")?.split_once(" orders "));
    let known = known.and_then(|(change, count)| Some((change.parse().ok()?, count.parse::<usize>().ok()?)));
    if let (Some(title), None) = (title.filter(|title| title.starts_with(FORM)), known) {
        return Ok(Read::Newer(format!(
            "{} is of a later release (\"{title}\"): start that one, or move the file and its copy away",
            path.display()
        )));
    }
    let mut found = Found { change: 0, whole: known.is_some(), orders: Orders::new(), faults: Vec::new() };
    if known.is_none() {
        found.faults.push(format!("{} line 1: the title is damaged", path.display()));
    }
    for (number, line) in (2..).zip(lines) {
        match files::text_of(line).and_then(order) {
            Some((queue, order)) => drop(found.orders.insert(queue, Arc::new(order))),
            None => {
                found.whole = false;
                found.faults.push(format!("{} line {number}: an order is damaged", path.display()));
            }
        }
    }
    if let Some((change, count)) = known {
        found.change = change;
        if found.orders.len() != count {
            found.whole = false;
            let has = found.orders.len();
            found.faults.push(format!("{} has {has} of {count} orders", path.display()));
        }
    }
    Ok(Read::Found(found))
}

fn order(text: &str) -> Option<(Arc<str>, QueueOrder)> {
    let Line { queue, order, by, at, when, reason } = serde_json::from_str(text).ok()?;
    Some((queue, QueueOrder { kind: OrderKind::parse(&order)?, by, at: Nanos(at), when, reason }))
}

/// Reads both files. What one of them lacks comes from the other. Blocks.
pub fn load(dir: &Path) -> Loaded {
    let mut loaded = Loaded::default();
    let (mut found, mut missing, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for name in [FILE, COPY] {
        let path = dir.join(name);
        match read(&path) {
            Ok(Read::Found(file)) => found.push(file),
            Ok(Read::Missing) => missing.push(path),
            Ok(Read::Newer(why)) => loaded.broken = Some(why),
            Err(error) => {
                let why = format!("{} cannot be read: {error}", path.display());
                if files::is_passing(&error) {
                    return Loaded { passing: Some(why), lost: true, ..Loaded::default() };
                }
                unread.push(why);
            }
        }
    }
    loaded.damage.extend(loaded.broken.clone());
    if found.is_empty() {
        let passing = unread.pop().filter(|_| loaded.broken.is_none());
        return Loaded { passing, lost: true, ..loaded };
    }
    loaded.damage.append(&mut unread);
    // A crash while the first change is written leaves no older copy behind: that is no damage, either.
    let first = found.iter().all(|file: &Found| file.whole && file.change == 1);
    for path in missing.into_iter().filter(|path| !(first && path.ends_with(COPY))) {
        loaded.damage.push(format!("{} is missing", path.display()));
    }
    loaded.damage.extend(found.iter().flat_map(|file| file.faults.iter().cloned()));
    loaded.change = found.iter().map(|file| file.change).max().unwrap_or_default();
    // A crash between the two leaves the older one behind, whole: that is no damage.
    match found.iter().filter(|file| file.whole).max_by_key(|file| file.change) {
        Some(newest) => {
            loaded.orders = newest.orders.clone();
            if newest.change < loaded.change {
                let why = "the newest change of queue.orders is damaged: what was stopped, drained or resumed last may be lost";
                loaded.damage.push(why.to_owned());
                loaded.lost = true;
            }
        }
        None => {
            // No queue is resumed because of a line that cannot be read, as long as the other file has it.
            found.sort_by_key(|file| file.change);
            for file in found {
                loaded.orders.extend(file.orders);
            }
            loaded.damage.push("queue.orders and its copy are damaged: orders may be lost".to_owned());
            loaded.lost = true;
        }
    }
    loaded
}

/// Replaces both files. Blocks.
///
/// # Errors
/// It could not be written; what was there before, or this, is in force at the next start.
pub fn write(dir: &Path, change: u64, orders: &Orders) -> Result<(), String> {
    let mut text = files::checked(&format!("{TITLE} change {change} orders {}", orders.len()));
    for (queue, order) in orders {
        let QueueOrder { kind, by, at, when, reason } = &**order;
        let line = Line {
            queue: queue.clone(),
            order: kind.name().to_owned(),
            by: by.clone(),
            at: at.0,
            when: when.clone(),
            reason: reason.clone(),
        };
        // Texts and a number: this cannot fail, and control characters are escaped.
        text.push_str(&files::checked(&serde_json::to_string(&line).map_err(|error| error.to_string())?));
    }
    let path = |name: &str| -> PathBuf { dir.join(name) };
    files::make_dir(dir).map_err(|error| format!("{} cannot be made: {error}", dir.display()))?;
    for name in [FILE, COPY] {
        files::replace(&path(name), text.as_bytes())
            .map_err(|error| format!("{} cannot be written: {error}", path(name).display()))?;
    }
    Ok(())
}

/// Keeps damaged files aside, for an operator to look at, and writes what is in force. Blocks.
///
/// # Errors
/// It could not be written.
pub fn mend(dir: &Path, at: &str, loaded: &Loaded) -> Result<(), String> {
    keep_aside(dir, at)?;
    write(dir, loaded.change + 1, &loaded.orders)
}

/// Keeps damaged files aside. Blocks.
///
/// # Errors
/// They could not be named so.
pub fn keep_aside(dir: &Path, at: &str) -> Result<(), String> {
    for name in [FILE, COPY] {
        let path = dir.join(name);
        if path.exists() {
            files::keep_as(&path, &dir.join(format!("{name}.damaged-{at}")))
                .map_err(|error| format!("{} cannot be kept aside: {error}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(names: &[&str]) -> Orders {
        let order = |reason: &str| QueueOrder {
            kind: OrderKind::Stop,
            by: "alice".into(),
            at: Nanos::from_secs(1_800_000_000),
            when: "2027-01-15T08:00:00Z".into(),
            reason: reason.into(),
        };
        names.iter().map(|name| (Arc::from(*name), Arc::new(order("disk \"x\"\nfull\u{2028}")))).collect()
    }

    fn dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 7, &orders(&["root.a", "root.b"])).unwrap();
        dir
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let loaded = load(&dir.path().join("missing"));
        assert!(loaded.orders.is_empty() && loaded.damage.is_empty());
        write(&dir.path().join("new"), 1, &orders(&["root.a"])).unwrap();
        write(&dir.path().join("new"), 2, &orders(&["root.a", "root.ƒ.b"])).unwrap();
        let loaded = load(&dir.path().join("new"));
        assert_eq!((loaded.orders, loaded.change), (orders(&["root.a", "root.ƒ.b"]), 2));
        assert!(loaded.damage.is_empty() && loaded.broken.is_none());
    }

    #[test]
    fn damage_of_one_file_costs_nothing_and_is_told() {
        for name in [FILE, COPY] {
            let whole = fs::read(dir().path().join(name)).unwrap();
            for at in 0..whole.len() {
                let dir = dir();
                let mut bytes = whole.clone();
                bytes[at] ^= 0x01;
                fs::write(dir.path().join(name), &bytes).unwrap();
                let loaded = load(dir.path());
                assert_eq!(loaded.orders, orders(&["root.a", "root.b"]), "{name} byte {at}");
                assert!(!loaded.damage.is_empty() && loaded.broken.is_none(), "{name} byte {at}");
            }
            for length in (0..whole.len() - 1).step_by(7) {
                let dir = dir();
                fs::write(dir.path().join(name), &whole[..length]).unwrap();
                let loaded = load(dir.path());
                assert_eq!(loaded.orders, orders(&["root.a", "root.b"]), "{name} cut at {length}");
                assert!(!loaded.damage.is_empty(), "{name} cut at {length}");
            }
            let dir = dir();
            fs::remove_file(dir.path().join(name)).unwrap();
            let loaded = load(dir.path());
            assert_eq!((loaded.orders.len(), loaded.damage.len()), (2, 1));
        }
    }

    #[test]
    fn damage_of_both_costs_the_lines_that_both_lack_and_is_told() {
        let dir = dir();
        let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
        fs::write(dir.path().join(FILE), text.replacen("root.a", "root.x", 1)).unwrap();
        fs::write(dir.path().join(COPY), text.replacen("root.b", "root.x", 1)).unwrap();
        let loaded = load(dir.path());
        assert_eq!(loaded.orders, orders(&["root.a", "root.b"]));
        fs::write(dir.path().join(COPY), text.replacen("root.a", "root.x", 1)).unwrap();
        let loaded = load(dir.path());
        assert_eq!(loaded.orders, orders(&["root.b"]));
        assert!(loaded.damage.iter().any(|line| line.contains("may be lost")), "{:?}", loaded.damage);
        mend(dir.path(), "20261122T000000Z", &loaded).unwrap();
        let mended = load(dir.path());
        assert_eq!((mended.orders.len(), mended.change), (1, 8));
        assert!(mended.damage.is_empty() && dir.path().join("queue.orders.damaged-20261122T000000Z").exists());
    }

    #[test]
    fn a_crash_between_the_two_is_no_damage() {
        let dir = dir();
        let old = fs::read(dir.path().join(COPY)).unwrap();
        write(dir.path(), 8, &orders(&["root.a"])).unwrap();
        fs::write(dir.path().join(COPY), old).unwrap();
        let loaded = load(dir.path());
        assert_eq!((loaded.orders, loaded.damage), (orders(&["root.a"]), Vec::new()));
    }

    #[test]
    fn a_crash_between_the_two_that_come_first_is_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), 1, &orders(&["root.a"])).unwrap();
        fs::remove_file(dir.path().join(COPY)).unwrap();
        let loaded = load(dir.path());
        assert_eq!((loaded.orders, loaded.change, loaded.damage), (orders(&["root.a"]), 1, Vec::new()));
        // The copy comes first never, and with the next change there is one.
        write(dir.path(), 1, &orders(&["root.a"])).unwrap();
        fs::remove_file(dir.path().join(FILE)).unwrap();
        assert_eq!(load(dir.path()).damage.len(), 1);
    }

    #[test]
    fn files_of_a_later_release_are_left_alone() {
        let dir = dir();
        let title = "callboard queue orders, version 2 of all";
        fs::write(dir.path().join(FILE), files::checked(title)).unwrap();
        let loaded = load(dir.path());
        assert!(loaded.broken.unwrap().contains("later release"));
    }
}
