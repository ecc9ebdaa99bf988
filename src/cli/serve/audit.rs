//! The files of the audit log: `audit/FIRST-ID.jsonl` in the data directory, a record in a line, the oldest removed when there
//! are too many.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Context as _;

use crate::{
    access::{
        Audit,
        audit::{KEPT, Record},
    },
    store::files,
};

/// A file that has grown so large is followed by another.
const LARGE: u64 = 8 << 20;
/// So many files are kept.
const FILES: usize = 16;
/// What is only counted is noted so often.
const SUMMED: Duration = Duration::from_secs(60);

/// The log, and what writes it.
pub struct Kept {
    /// The log.
    pub audit: Arc<Audit>,
    writer: Option<JoinHandle<()>>,
}

/// Opens the log of a data directory; `None` keeps it in memory.
///
/// # Errors
/// The directory cannot be made or read.
pub fn open(data: Option<&Path>) -> anyhow::Result<Kept> {
    let Some(data) = data else {
        return Ok(Kept { audit: Arc::new(Audit::default()), writer: None });
    };
    let dir = data.join("audit");
    let named = || format!("the audit log {}", dir.display());
    files::make_dir(&dir).with_context(named)?;
    let kept = read(&dir).with_context(named)?;
    let (sender, records) = mpsc::channel();
    let audit = Arc::new(Audit::resumed(kept, Some(sender)));
    let (mut log, told) = (Log { dir, file: None }, Arc::downgrade(&audit));
    let write = move || log.write_all(&records, |id| _ = told.upgrade().map(|audit| audit.written(id)));
    let writer = thread::Builder::new().name("audit".to_owned()).spawn(write)?;
    Ok(Kept { audit, writer: Some(writer) })
}

impl Kept {
    /// Notes from time to time what is only counted.
    pub fn follow(&self) {
        let audit = self.audit.clone();
        actix::spawn(async move {
            loop {
                tokio::time::sleep(SUMMED).await;
                audit.sum_up();
            }
        });
    }

    /// Everything is written.
    pub fn close(self) {
        self.audit.close();
        if let Some(writer) = self.writer {
            // It panics for nothing; should it, there is nothing left to be done.
            let _ = writer.join();
        }
    }
}

/// The newest records of a directory. A last line that is not whole was being written when the machine stopped: it was
/// never told to anybody. What is damaged elsewhere is told in the log, and readers see a gap.
fn read(dir: &Path) -> io::Result<Vec<Record>> {
    let mut kept = Vec::new();
    for (_, path) in listed(dir)?.into_iter().rev() {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let text = String::from_utf8_lossy(&fs::read(&path).map_err(named)?).into_owned();
        let mut here: Vec<Record> = Vec::new();
        for line in text.split_inclusive('\n') {
            match serde_json::from_str(line) {
                Ok(record) => here.push(record),
                Err(error) if line.ends_with('\n') => tracing::error!(
                    code = "audit-damaged", file = %path.display(), %error,
                    "a line of the audit log is damaged: it is left out"
                ),
                Err(_) => {}
            }
        }
        here.append(&mut kept);
        kept = here;
        if kept.len() >= KEPT {
            break;
        }
    }
    kept.drain(..kept.len().saturating_sub(KEPT));
    Ok(kept)
}

/// First id and path of each file, oldest first.
fn listed(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(id) = name.strip_suffix(".jsonl").and_then(|id| id.parse().ok()) {
            found.push((id, path));
        }
    }
    found.sort();
    Ok(found)
}

struct Log {
    dir: PathBuf,
    file: Option<(File, u64)>,
}

impl Log {
    fn write_all(&mut self, records: &mpsc::Receiver<Arc<Record>>, written: impl Fn(u64)) {
        let mut failing = false;
        while let Ok(first) = records.recv() {
            let mut batch = vec![first];
            batch.extend(records.try_iter().take(1_000));
            match self.write(&batch) {
                Ok(()) => failing = false,
                Err(error) => {
                    // A fresh file, once there is room: the last line of this one may not be whole.
                    self.file = None;
                    if !failing {
                        tracing::error!(
                            code = "audit-not-written", dir = %self.dir.display(), %error,
                            "the audit log cannot be written: records are in memory only"
                        );
                    }
                    failing = true;
                }
            }
            if let Some(last) = batch.last() {
                written(last.id);
            }
        }
    }

    fn write(&mut self, batch: &[Arc<Record>]) -> io::Result<()> {
        let mut text = String::new();
        for record in batch {
            text += &serde_json::to_string(&**record)?;
            text.push('\n');
        }
        let (file, size) = match &mut self.file {
            Some(open) => open,
            None => {
                let path = self.dir.join(format!("{:012}.jsonl", batch[0].id));
                let file = files::open_or_make(&path, OpenOptions::new().append(true))?;
                let size = file.metadata()?.len();
                self.file.insert((file, size))
            }
        };
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        *size += text.len() as u64;
        if *size >= LARGE {
            self.file = None;
            let all = listed(&self.dir)?;
            // The next file makes them as many as are kept.
            for (_, old) in all.iter().rev().skip(FILES - 1) {
                files::remove(old)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::audit::Entry;

    fn ids(kept: &Kept) -> Vec<u64> {
        kept.audit.from(0, usize::MAX).1.iter().map(|record| record.id).collect()
    }

    #[test]
    fn what_was_noted_is_there_after_a_restart() {
        let data = tempfile::tempdir().unwrap();
        for round in 0..3 {
            let kept = open(Some(data.path())).unwrap();
            assert_eq!(ids(&kept), (1..=round * 2).collect::<Vec<_>>());
            kept.audit.note(Entry { who: "alice".to_owned(), ..Entry::default() });
            kept.audit.note(Entry::default());
            kept.close();
        }
    }

    #[test]
    fn a_torn_line_is_passed_over() {
        let data = tempfile::tempdir().unwrap();
        let kept = open(Some(data.path())).unwrap();
        kept.audit.note(Entry::default());
        kept.close();
        let (_, path) = listed(&data.path().join("audit")).unwrap().remove(0);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"id\":2,\"ti").unwrap();
        let kept = open(Some(data.path())).unwrap();
        kept.audit.note(Entry::default());
        kept.close();
        assert_eq!(ids(&open(Some(data.path())).unwrap()), [1, 2]);
    }

    #[test]
    fn a_damaged_line_leaves_its_id_out() {
        let data = tempfile::tempdir().unwrap();
        let kept = open(Some(data.path())).unwrap();
        (0..4).for_each(|_| kept.audit.note(Entry::default()));
        kept.close();
        let (_, path) = listed(&data.path().join("audit")).unwrap().remove(0);
        let damaged = fs::read_to_string(&path).unwrap().replace("\"id\":2", "\"id\":x");
        fs::write(&path, damaged).unwrap();
        let kept = open(Some(data.path())).unwrap();
        kept.audit.note(Entry::default());
        kept.close();
        assert_eq!(ids(&open(Some(data.path())).unwrap()), [1, 3, 4, 5]);
    }

    #[test]
    fn old_files_go() {
        let data = tempfile::tempdir().unwrap();
        let mut log = Log { dir: data.path().to_owned(), file: None };
        let detail = "x".repeat(LARGE as usize);
        for id in 1..=FILES as u64 + 3 {
            let entry = Entry { detail: detail.clone(), ..Entry::default() };
            log.write(&[Arc::new(Record { id, time: String::new(), entry })]).unwrap();
        }
        let left = listed(data.path()).unwrap();
        assert_eq!((left.len(), left[0].0), (FILES - 1, 5));
    }
}
