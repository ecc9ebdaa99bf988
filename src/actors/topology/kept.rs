//! What concerns several resource managers or the whole process and is in no log of one of them: names of partitions, the order in
//! which resource managers came, and what they said last of settings of the process. A small file beside the logs.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::{lock, process::Sent};
use crate::{actors::directory::PartitionEntry, store::files};

/// Beside the logs of resource managers.
const FILE: &str = "kept";

/// The resource manager and the name of a partition whose internal name is `[rm]name`; an id has no brackets.
pub fn parts(internal: &str) -> Option<(&str, &str)> {
    internal.strip_prefix('[')?.split_once(']')
}

/// A partition is one of this resource manager.
pub fn is_of(rm: &str, internal: &str) -> bool {
    parts(internal).is_some_and(|(of, _)| of == rm)
}

/// See the module.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Kept {
    /// Ids in the order in which they first came.
    resource_managers: Vec<Arc<str>>,
    /// What partitions were last called, by their internal names.
    partitions: BTreeMap<Arc<str>, Arc<str>>,
    /// `None`: not known.
    sent: Option<Sent>,
    #[serde(skip)]
    writer: Option<Arc<Writer>>,
    /// Sessions are being brought back, whose partitions keep their names.
    #[serde(skip)]
    restoring: bool,
}

impl Kept {
    /// What was kept beside these logs. A file that cannot be read counts as missing: what was in it is found anew.
    pub fn beside(logs: &Path) -> Kept {
        let file = logs.join(FILE);
        let read = match std::fs::read(&file) {
            Ok(bytes) => read(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kept::default()),
            Err(error) => Err(error.to_string()),
        };
        let kept: Kept = read.unwrap_or_else(|why| {
            tracing::warn!(
                code = "kept-unread",
                "{}: {why}: partitions may be called otherwise than before, and settings of the process are those of registrations, the last first",
                file.display()
            );
            Kept::default()
        });
        let writer = Writer { file, waiting: Mutex::default(), turn: Mutex::default() };
        Kept { writer: Some(writer.into()), restoring: true, ..kept }
    }

    /// All sessions that go on are there.
    pub fn restored(&mut self) {
        self.restoring = false;
    }

    /// The place of a resource manager in the order in which they first came; unknown ones are last.
    pub fn place(&self, rm: &str) -> usize {
        self.resource_managers.iter().position(|id| **id == *rm).unwrap_or(usize::MAX)
    }

    /// What a partition was called when the server ended, while sessions go on.
    pub fn before(&self, internal: &str) -> Option<&Arc<str>> {
        self.partitions.get(internal).filter(|_| self.restoring)
    }

    /// A resource manager has these partitions now.
    pub fn note(&mut self, rm: &Arc<str>, partitions: &[PartitionEntry]) {
        let came = !self.resource_managers.contains(rm);
        if came {
            self.resource_managers.push(rm.clone());
        }
        let count = self.partitions.len();
        let has = |internal: &Arc<str>| partitions.iter().any(|entry| entry.internal == *internal);
        self.partitions.retain(|internal, _| !is_of(rm, internal) || has(internal));
        let mut changed = came || self.partitions.len() < count;
        for entry in partitions {
            let before = self.partitions.insert(entry.internal.clone(), entry.shown.clone());
            changed |= before.as_ref() != Some(&entry.shown);
        }
        if changed {
            self.write();
        }
    }

    /// What resource managers said last of settings of the whole process.
    pub fn sent(&self) -> Option<&Sent> {
        self.sent.as_ref()
    }

    /// Resource managers say this of settings of the whole process.
    pub fn note_sent(&mut self, sent: Sent) {
        if self.sent.as_ref() != Some(&sent) {
            self.sent = Some(sent);
            self.write();
        }
    }

    /// A resource manager is forgotten.
    pub fn forget(&mut self, rm: &str) {
        let count = self.resource_managers.len();
        self.resource_managers.retain(|id| **id != *rm);
        if self.resource_managers.len() < count {
            self.partitions.retain(|internal, _| !is_of(rm, internal));
            self.write();
        }
    }

    /// What writes the file.
    pub fn writer(&self) -> Option<Arc<Writer>> {
        self.writer.clone()
    }

    /// Has it written on another thread: everybody waits for what is kept, and the disk may take its time.
    fn write(&self) {
        let Some(writer) = self.writer() else { return };
        let json = serde_json::to_string(self).unwrap_or_default();
        let is_coming = lock(&writer.waiting).replace(json).is_some();
        match Handle::try_current() {
            _ if is_coming => {}
            Ok(runtime) => drop(runtime.spawn_blocking(move || writer.write())),
            Err(_) => writer.write(),
        }
    }
}

/// Writes the file: one at a time, and of what waits the newest.
#[derive(Debug)]
pub struct Writer {
    file: PathBuf,
    waiting: Mutex<Option<String>>,
    turn: Mutex<()>,
}

impl Writer {
    /// Writes what waits. Blocks.
    pub fn write(&self) {
        let _turn = lock(&self.turn);
        let Some(json) = lock(&self.waiting).take() else { return };
        if let Err(error) = files::replace_unflushed(&self.file, files::checked(&json).as_bytes()) {
            tracing::warn!(
                code = "kept-unwritten",
                "{}: {error}: after a restart partitions may be called otherwise, and settings differ",
                self.file.display()
            );
        }
    }
}

/// What a file says; those of earlier releases have no checksum and no end of the line.
fn read(bytes: &[u8]) -> Result<Kept, String> {
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let json = match text.trim_end_matches('\n').rsplit_once(' ') {
        Some((json, _)) if files::checked(json) == text => json,
        _ if text.ends_with('}') => text,
        _ => return Err("it is damaged".to_owned()),
    };
    serde_json::from_str(json).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn who_notes_something_waits_for_no_disk_and_the_newest_is_written() {
        let dir = tempfile::tempdir().unwrap();
        // Whoever opens it to write hangs until somebody reads.
        let new = dir.path().join(format!("{FILE}.new"));
        assert!(std::process::Command::new("mkfifo").arg(&new).status().unwrap().success());
        let known: Vec<Arc<str>> = (0..100).map(|n| format!("rm {n}").into()).collect();
        let noted = known.clone();
        let beside = dir.path().to_owned();
        let notes = tokio::task::spawn_blocking(move || {
            let mut kept = Kept::beside(&beside);
            noted.iter().for_each(|rm| kept.note(rm, &[]));
            kept
        });
        let mut kept = tokio::time::timeout(Duration::from_secs(20), notes).await.expect("the disk hangs").unwrap();
        // It goes on, with a file in the place of the pipe.
        tokio::task::spawn_blocking(move || std::fs::read(new)).await.unwrap().unwrap();
        kept.note(&"last".into(), &[]);
        let writer = kept.writer().unwrap();
        tokio::task::spawn_blocking(move || {
            writer.write();
            let kept = Kept::beside(writer.file.parent().unwrap());
            assert_eq!((kept.resource_managers.len(), kept.place("last")), (known.len() + 1, known.len()));
        })
        .await
        .unwrap();
    }

    #[test]
    fn a_flipped_bit_is_noticed_and_a_file_of_an_earlier_release_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let settings = BTreeMap::from([("log.level".to_owned(), "a } b".to_owned())]);
        let sent = vec![("rm 1".into(), Arc::new(settings))];
        let mut kept = Kept::beside(dir.path());
        kept.note(&"rm 1".into(), &[]);
        kept.note_sent(sent.clone());
        let is_known = || {
            let kept = Kept::beside(dir.path());
            let known = (kept.place("rm 1"), kept.sent().cloned());
            assert!(known == (0, Some(sent.clone())) || known == (usize::MAX, None), "{known:?}");
            known.0 == 0
        };
        assert!(is_known());
        let file = dir.path().join(FILE);
        let whole = std::fs::read(&file).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                std::fs::write(&file, bytes).unwrap();
                assert!(!is_known(), "bit {bit} of byte {at}");
            }
        }
        for length in 0..whole.len() {
            std::fs::write(&file, &whole[..length]).unwrap();
            assert!(!is_known() || whole[..length].ends_with(b"}"), "cut to {length}");
        }
        std::fs::write(&file, serde_json::to_vec(&kept).unwrap()).unwrap();
        assert!(is_known());
    }
}
