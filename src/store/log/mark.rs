//! The mark: which server the logs belong to, and how the process that wrote them last ended.
//!
//! What was written and not flushed is lost when the machine stops, and there whenever only the process does. So a start
//! has to know whether the machine went on: it compares the boot id of the system with that of the process before, unless
//! that one ended in an orderly way.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::store::files;

/// Name of the file in the directory of all logs.
const FILE: &str = "mark";
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
}

/// What an earlier process left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing, or a clean end.
    Closed,
    /// The process was killed; the machine went on, and all that was written is there.
    Killed,
    /// The machine stopped: what was not flushed may be missing.
    Crashed,
    /// That cannot be told: the mark is missing or damaged.
    Unknown,
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
        let found = match fs::read(dir.join(FILE)) {
            Ok(bytes) => read(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("{}: {error}", dir.join(FILE).display())));
            }
        };
        let before = match &found {
            Some(mark) if mark.clean => Before::Closed,
            Some(mark) if !boot.is_empty() && mark.boot == boot => Before::Killed,
            Some(_) => Before::Crashed,
            None => Before::Unknown,
        };
        let server = found.map_or_else(|| uuid::Uuid::new_v4().to_string(), |mark| mark.server);
        let mark = Mark { server, boot, clean: false };
        mark.write(dir)?;
        Ok((mark, before))
    }

    /// Looks at the mark of a directory, and changes nothing.
    pub fn look(dir: &Path) -> Option<Mark> {
        read(&fs::read(dir.join(FILE)).ok()?)
    }

    /// The process ends, and everything is on the disk.
    ///
    /// # Errors
    /// It cannot be written; the next start takes it for a kill.
    pub fn close(&self, dir: &Path) -> io::Result<()> {
        Mark { clean: true, ..self.clone() }.write(dir)
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let json = serde_json::to_string(self)?;
        let crc = crc32fast::hash(json.as_bytes());
        files::replace(&dir.join(FILE), format!("{json} {crc:08x}\n").as_bytes())
    }
}

fn read(bytes: &[u8]) -> Option<Mark> {
    let (json, crc) = str::from_utf8(bytes).ok()?.trim_end().rsplit_once(' ')?;
    let right = u32::from_str_radix(crc, 16).is_ok_and(|crc| crc == crc32fast::hash(json.as_bytes()));
    right.then(|| serde_json::from_str(json).ok()).flatten()
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
        let (first, before) = open("boot-1");
        assert_eq!(before, Before::Unknown);
        assert_eq!(open("boot-1").1, Before::Killed);
        let (mark, before) = open("boot-2");
        assert_eq!((before, &mark.server), (Before::Crashed, &first.server));
        mark.close(dir).unwrap();
        assert_eq!(open("boot-3").1, Before::Closed);
        // A machine that tells no boot id may have been started anew.
        assert_eq!(open("").1, Before::Crashed);
        assert_eq!(open("").1, Before::Crashed);
        let path = dir.join(FILE);
        let mut bytes = fs::read(&path).unwrap();
        bytes[12] ^= 1;
        fs::write(&path, bytes).unwrap();
        let (mark, before) = open("boot-3");
        assert!(before == Before::Unknown && mark.server != first.server && !before.is_whole());
    }
}
