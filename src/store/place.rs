//! Whether the data directory, and the files in it that are being written, are where they were: what is written to a file whose
//! name is gone is lost when the process ends, and no write says so.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Files that are named at most.
const NAMED: usize = 3;
/// What to do.
const WAY_OUT: &str = "what is written there is lost when the server ends: put it back where it was, or else restart the server, \
                       with which resource managers register again";

/// The data directory of this process.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    /// As the system names it.
    whole: PathBuf,
    /// It and the files in it that stay as long as the process does, and where they are on the disk.
    known: Vec<(PathBuf, (u64, u64))>,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    /// Files without a name that were open for writing. One that is being replaced may be so for a moment.
    nameless: BTreeSet<PathBuf>,
    told: Vec<String>,
}

impl Place {
    /// A directory, and files in it that stay.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn of(dir: &Path, files: &[PathBuf]) -> io::Result<Place> {
        let known = [dir.to_path_buf()].into_iter().chain(files.iter().cloned());
        let known = known.map(|path| Ok((path.clone(), at(&path)?))).collect::<io::Result<_>>()?;
        Ok(Place { dir: dir.to_path_buf(), whole: fs::canonicalize(dir)?, known, last: Mutex::default() })
    }

    /// What is gone; a file counts when it was gone at the last look too. Looks at all open files, and logs what is new.
    pub fn look(&self) -> Vec<String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut faults: Vec<String> =
            self.known.iter().filter_map(|(path, place)| fault(path, *place)).take(1).collect();
        let nameless = self.nameless();
        let lost: Vec<&PathBuf> = nameless.intersection(&last.nameless).collect();
        if faults.is_empty() && !lost.is_empty() {
            let named: Vec<String> = lost.iter().take(NAMED).map(|path| path.display().to_string()).collect();
            let more = lost.len() - named.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            faults.push(format!("{}{more}: removed while the server writes to it; {WAY_OUT}", named.join(", ")));
        }
        last.nameless = nameless;
        if last.told != faults {
            match faults.first() {
                Some(why) => tracing::error!(code = "data-gone", data = %self.dir.display(), "{why}"),
                None => tracing::info!(data = %self.dir.display(), "the data directory is where it was"),
            }
            last.told.clone_from(&faults);
        }
        faults
    }

    /// Files of the directory that are open for writing and have no name. None where the system does not tell.
    fn nameless(&self) -> BTreeSet<PathBuf> {
        let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let nameless = open.filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let path = PathBuf::from(target.to_str()?.strip_suffix(" (deleted)")?);
            let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
            (path.starts_with(&self.whole) && is_written(&fs::read_to_string(info).ok()?)).then_some(path)
        });
        nameless.collect()
    }
}

fn at(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

fn fault(path: &Path, place: (u64, u64)) -> Option<String> {
    match at(path) {
        Ok(now) if now == place => None,
        Ok(_) => Some(format!("{}: replaced by another one while the server uses it; {WAY_OUT}", path.display())),
        Err(error) => Some(format!("{}: gone while the server uses it ({error}); {WAY_OUT}", path.display())),
    }
}

/// What the system says of an open file: the last octal digit of its flags is how it was opened, 0 for reading.
fn is_written(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::*;

    fn place(dir: &Path) -> Place {
        fs::create_dir_all(dir).expect("made");
        let lock = dir.join("lock");
        fs::write(&lock, "1").expect("written");
        Place::of(dir, &[lock]).expect("there")
    }

    #[test]
    fn a_directory_that_is_moved_or_replaced_is_missed_until_it_is_back() {
        let base = tempfile::tempdir().expect("a directory");
        let (dir, other) = (base.path().join("data"), base.path().join("other"));
        let place = place(&dir);
        assert_eq!(place.look(), [""; 0]);
        fs::rename(&dir, &other).expect("moved");
        assert!(place.look()[0].contains("data: gone while the server uses it"), "{:?}", place.look());
        fs::create_dir(&dir).expect("made");
        assert!(place.look()[0].contains("data: replaced by another one"), "{:?}", place.look());
        fs::remove_dir(&dir).expect("removed");
        fs::rename(&other, &dir).expect("moved");
        assert_eq!(place.look(), [""; 0]);
        // Everything in it, but not itself.
        fs::remove_file(dir.join("lock")).expect("removed");
        assert!(place.look()[0].contains("lock: gone"), "{:?}", place.look());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_is_removed_under_its_writer_is_missed() {
        let base = tempfile::tempdir().expect("a directory");
        let dir = base.path().join("data");
        let place = place(&dir);
        let (written, read) = (dir.join("segment"), dir.join("old"));
        let mut writer = File::create(&written).expect("made");
        fs::write(&read, "old").expect("written");
        let reader = File::open(&read).expect("there");
        for path in [&written, &read] {
            fs::remove_file(path).expect("removed");
        }
        writer.write_all(b"lost").expect("no write says so");
        assert_eq!(place.look(), [""; 0], "it may be replaced just now");
        let faults = place.look();
        assert!(faults.len() == 1 && faults[0].contains("segment: removed while the server writes"), "{faults:?}");
        drop((writer, reader));
        assert_eq!(place.look(), [""; 0]);
    }
}
