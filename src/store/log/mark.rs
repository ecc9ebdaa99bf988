//! The mark: which server the logs belong to, and how the process that wrote them last ended.
//!
//! What was written and not flushed is lost when the machine stops, and there whenever only the process does. So a start
//! has to know whether the machine went on: it compares the boot id of the system with that of the process before, unless
//! that one ended in an orderly way. It also has to know whether this is the directory that was written, or a copy, which knows
//! nothing of what came after it was made: the file says when it was made itself, which no copy of it can. It says everything three
//! times, so that a flipped bit, were it in the end of a line, costs no session.

use std::{
    fs::{self, Metadata},
    io::{self, Write as _},
    path::Path,
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};

use crate::store::files;

/// Name of the file in the directory of all logs.
const FILE: &str = "mark";
/// So often the file says the same.
const LINES: usize = 3;
/// Where Linux tells the boot id.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Identifies the server over all of its processes.
    pub server: String,
    /// The boot id of the machine; empty where it tells none.
    pub boot: String,
    /// It ended in an orderly way, and everything is on the disk.
    pub clean: bool,
    /// What no start has settled yet: one that ended before it had read all logs leaves it to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Before>,
    /// When the file was made, in ns since 1970; left out where the file system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<u64>,
}

/// What an earlier process left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Before {
    /// Nothing, or a clean end.
    Closed,
    /// The process was killed; the machine went on, and all that was written is there.
    Killed,
    /// The machine stopped: what was not flushed may be missing.
    Crashed,
    /// That cannot be told: the mark is missing or damaged.
    Unknown,
    /// It is a copy of what a server wrote, which may have gone on since.
    Copied,
}

impl Before {
    /// Everything that was written is there.
    pub fn is_whole(self) -> bool {
        matches!(self, Before::Closed | Before::Killed)
    }
}

impl Mark {
    /// Opens the mark of a directory for a process that begins, and says what the one before left.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(dir: &Path) -> io::Result<(Mark, Before)> {
        Mark::open_as(dir, boot_id())
    }

    /// The same on a machine with this boot id.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open_as(dir: &Path, boot: String) -> io::Result<(Mark, Before)> {
        files::make_dir(dir)?;
        let path = dir.join(FILE);
        let found = match fs::read(&path) {
            Ok(bytes) => {
                let (found, damaged) = read(&bytes);
                if damaged && found.is_some() {
                    tracing::warn!(
                        code = "log-mark-damaged",
                        "{}: a line cannot be read, another says the same: the file is made anew; look at the disk",
                        path.display()
                    );
                }
                found
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(named(&path, &error)),
        };
        let made = fs::metadata(&path).ok().as_ref().and_then(made);
        let before = match &found {
            Some(mark) if mark.made.zip(made).is_some_and(|(then, now)| then != now) => Before::Copied,
            Some(Mark { doubt: Some(doubt), .. }) => *doubt,
            Some(mark) if mark.clean => Before::Closed,
            Some(mark) if !boot.is_empty() && mark.boot == boot => Before::Killed,
            Some(_) => Before::Crashed,
            None => Before::Unknown,
        };
        let server = found.map_or_else(|| uuid::Uuid::new_v4().to_string(), |mark| mark.server);
        // Without logs there is nothing to doubt.
        let doubt = (!before.is_whole() && !super::directories(dir)?.is_empty()).then_some(before);
        let mark = Mark { server, boot, clean: false, doubt, made: None };
        mark.write(dir)?;
        Ok((mark, before))
    }

    /// All logs were read, and what was in doubt of them is recorded.
    ///
    /// # Errors
    /// It cannot be written; the next start has the same doubt.
    pub fn settle(&mut self, dir: &Path) -> io::Result<()> {
        self.doubt = None;
        self.write(dir)
    }

    /// Looks at the mark of a directory, and changes nothing.
    pub fn look(dir: &Path) -> Option<Mark> {
        read(&fs::read(dir.join(FILE)).ok()?).0
    }

    /// The process ends, and everything is on the disk.
    ///
    /// # Errors
    /// It cannot be written; the next start takes it for a kill.
    pub fn close(&self, dir: &Path) -> io::Result<()> {
        Mark { clean: true, ..self.clone() }.write(dir)
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(FILE);
        let written = files::replace_with(&path, |file| {
            let json = serde_json::to_string(&Mark { made: made(&file.metadata()?), ..self.clone() })?;
            file.write_all(files::checked(&json).repeat(LINES).as_bytes())
        });
        written.map_err(|error| named(&path, &error))
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn made(file: &Metadata) -> Option<u64> {
    let since = file.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// What the first line says that is whole, and whether one is not.
fn read(bytes: &[u8]) -> (Option<Mark>, bool) {
    let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').map(read_line).collect();
    let damaged = lines.iter().any(Option::is_none);
    (lines.into_iter().flatten().next(), damaged)
}

fn read_line(line: &[u8]) -> Option<Mark> {
    let line = str::from_utf8(line).ok()?;
    let (json, _) = line.rsplit_once(' ')?;
    (files::checked(json) == line).then(|| serde_json::from_str(json).ok()).flatten()
}

fn boot_id() -> String {
    // For tests of a machine that stopped, which cannot be stopped.
    let given = cfg!(debug_assertions).then(|| std::env::var("CALLBOARD_TEST_BOOT_ID").ok()).flatten();
    given.unwrap_or_else(|| fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_knows_how_the_process_before_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let dir = &dir.path().join("log");
        let open = |boot: &str| Mark::open_as(dir, boot.to_owned()).unwrap();
        fs::create_dir_all(dir.join("mark.new")).unwrap();
        let refused = Mark::open_as(dir, String::new()).unwrap_err().to_string();
        assert!(refused.contains(&format!("{}: ", dir.join("mark").display())), "which file: {refused}");
        fs::remove_dir(dir.join("mark.new")).unwrap();
        let (first, before) = open("boot-1");
        assert_eq!((before, first.doubt), (Before::Unknown, None), "there are no logs");
        assert_eq!(open("boot-1").1, Before::Killed);
        fs::create_dir(dir.join("rm-1")).unwrap();
        let (mark, before) = open("boot-2");
        assert_eq!((before, &mark.server), (Before::Crashed, &first.server));
        // Whatever ends before that is settled: killed, or in an orderly way.
        assert_eq!(open("boot-2").1, Before::Crashed);
        mark.close(dir).unwrap();
        let (mut mark, before) = open("boot-2");
        assert_eq!(before, Before::Crashed);
        mark.settle(dir).unwrap();
        mark.close(dir).unwrap();
        let (mark, before) = open("boot-3");
        assert_eq!(before, Before::Closed);
        mark.close(dir).unwrap();
        // A machine that tells no boot id may have been started anew.
        assert_eq!(open("").1, Before::Closed);
        assert_eq!(open("").1, Before::Crashed);
        // One flipped bit costs nothing, wherever it is; what no line tells is not known.
        let path = dir.join(FILE);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            let (found, damaged) = read(&bytes);
            assert!(found == Mark::look(dir) && damaged, "byte {at}");
        }
        assert_eq!(read(&whole), (Mark::look(dir), false));
        fs::write(&path, &whole[..whole.len() / LINES]).unwrap();
        assert_eq!(open("boot-3").1, Before::Crashed, "as releases before wrote it");
        let mut bytes = fs::read(&path).unwrap();
        let length = bytes.len() / LINES;
        for line in 0..LINES {
            bytes[line * length + 12] ^= 1;
        }
        fs::write(&path, bytes).unwrap();
        let (mark, before) = open("boot-3");
        assert!(before == Before::Unknown && mark.server != first.server && !before.is_whole());
    }

    #[test]
    fn a_copy_is_told_from_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let [dir, copy] = ["log", "copy"].map(|name| dir.path().join(name));
        let open = |dir: &Path| Mark::open_as(dir, "boot".to_owned()).unwrap();
        let (mark, _) = open(&dir);
        mark.close(&dir).unwrap();
        if fs::metadata(dir.join(FILE)).unwrap().created().is_err() {
            return println!("skipped: the file system does not tell when a file was made");
        }
        fs::create_dir_all(copy.join("rm-1")).unwrap();
        fs::copy(dir.join(FILE), copy.join(FILE)).unwrap();
        let (mut copied, before) = open(&copy);
        assert_eq!((before, copied.server == mark.server), (Before::Copied, true));
        assert_eq!(open(&copy).1, Before::Copied);
        copied.settle(&copy).unwrap();
        assert_eq!(open(&copy).1, Before::Killed);
        let moved = copy.with_extension("moved");
        fs::rename(&dir, &moved).unwrap();
        assert_eq!(open(&moved).1, Before::Closed);
    }
}
