//! The files of the audit log: `audit/FIRST-ID.jsonl` in the data directory, a record in a line, the oldest removed when there
//! are too many. `audit.mark` beside them says up to which record they go, so that it is noticed where their end is missing.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Context as _;

use crate::{
    access::{
        Audit,
        audit::{KEPT, Older, Record, Standing},
    },
    store::{
        files,
        journal::count::{self, Count},
    },
};

/// A file that has grown so large is followed by another.
const LARGE: u64 = 8 << 20;
/// So many files of that size are kept, or more where some are smaller.
const FILES: u64 = 16;
/// Records that are written at a time.
const BATCH: usize = 1_000;
/// How often a disk that takes nothing is tried again.
const AGAIN: Duration = Duration::from_secs(1);
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
    let (mut mark, given) = Mark::open(data.join("audit.mark")).with_context(named)?;
    let (sender, records) = mpsc::channel();
    let of_files = dir.clone();
    let audit = Audit::resumed(kept, Some(sender)).given(given).with_files(Box::new(move |id| older(&of_files, id)));
    if let Some(lost) = audit.lost() {
        let (from, to) = (lost.start(), lost.end());
        tracing::error!(
            code = "audit-lost", dir = %dir.display(), from, to,
            "records of the audit log are missing: they were cut off or removed, or never written"
        );
    }
    let audit = Arc::new(audit);
    let (mut log, told) = (Log { dir, file: None }, Arc::downgrade(&audit));
    let write = move || {
        log.write_all(&records, |id, standing| {
            _ = told.upgrade().map(|audit| audit.went(id, standing));
            mark.note(id, standing.failing.is_some());
        });
    };
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

/// The mark. It is written behind the records, so that what a kill leaves is one that is too small.
struct Mark {
    count: Count,
    last: u64,
    /// It could not be written, and that was told.
    failing: bool,
}

impl Mark {
    /// The one at this place, and the last id that it knows. An earlier release had none.
    fn open(path: PathBuf) -> io::Result<(Mark, u64)> {
        // One that may not be read is not taken for one that is damaged.
        if let Err(error) = File::open(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
        }
        let found = count::read_at(&path)?;
        let mut count = Count::at(path.clone());
        let last = found.unwrap_or_else(|why| {
            let made = count.replace(0).err().map_or("made anew".to_owned(), |error| error.to_string());
            tracing::error!(
                code = "audit-damaged", file = %path.display(),
                "the mark of the audit log is {why} ({made}): records that are missing at its end are not noticed"
            );
            0
        });
        Ok((Mark { count, last, failing: false }, last))
    }

    /// Records up to this one were told of. That a disk takes nothing is told where it does not take them.
    fn note(&mut self, id: u64, is_told: bool) {
        if id <= self.last {
            return;
        }
        let written = self.count.write(id);
        if let Err(error) = &written
            && !is_told
            && !self.failing
        {
            tracing::error!(
                code = "audit-not-written", %error,
                "the mark of the audit log cannot be written: it would not be noticed where its end is missing"
            );
        }
        self.failing = written.is_err();
        if written.is_ok() {
            self.last = id;
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
                Err(_) => tracing::warn!(
                    code = "audit-cut", file = %path.display(), bytes = line.len(),
                    "the machine stopped while a line of the audit log was written: what there is of it is passed over"
                ),
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

/// What is in the files from an id on. A file that has gone meanwhile, or cannot be read, is left out as damage is.
fn older(dir: &Path, id: u64) -> io::Result<Older> {
    let files = listed(dir)?;
    let begins = files.first().map_or(u64::MAX, |(first, _)| *first);
    let skip = files.partition_point(|(first, _)| *first <= id).saturating_sub(1);
    let opened = files.into_iter().skip(skip).filter_map(|(_, path)| File::open(path).ok());
    let lines = opened.flat_map(|file| BufReader::new(file).split(b'\n').map_while(Result::ok));
    let records = lines.filter_map(|line| serde_json::from_slice::<Record>(&line).ok());
    Ok(Older { begins, records: Box::new(records.filter(move |record| record.id >= id)) })
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
    /// Writes until nobody notes any more. What the disk does not take is told as noted all the same, and tried again.
    fn write_all(&mut self, records: &mpsc::Receiver<Arc<Record>>, mut told: impl FnMut(u64, &Standing)) {
        let mut waiting: VecDeque<Arc<Record>> = VecDeque::new();
        let mut failing: Option<Arc<str>> = None;
        let mut open = true;
        while open {
            let next = match failing {
                Some(_) => records.recv_timeout(AGAIN),
                None => records.recv().map_err(RecvTimeoutError::from),
            };
            open = next != Err(RecvTimeoutError::Disconnected);
            waiting.extend(next.ok().into_iter().chain(records.try_iter().take(BATCH)));
            let last = waiting.back().map(|record| record.id);
            let before = failing.take();
            while failing.is_none() && !waiting.is_empty() {
                let batch: Vec<_> = waiting.iter().take(BATCH).cloned().collect();
                match self.write(&batch) {
                    Ok(()) => drop(waiting.drain(..batch.len())),
                    Err(error) => failing = Some(error.to_string().into()),
                }
            }
            match (&before, &failing) {
                (None, Some(error)) => tracing::error!(
                    code = "audit-not-written", dir = %self.dir.display(), %error,
                    "the audit log cannot be written: records wait in memory"
                ),
                (Some(_), None) => tracing::info!("the audit log is written again"),
                _ => {}
            }
            // Readers have no more in memory either.
            waiting.drain(..waiting.len().saturating_sub(KEPT));
            let standing = Standing { waiting: waiting.len(), failing: failing.clone(), lost: None };
            if let Some(last) = last {
                told(last, &standing);
            }
        }
        if !waiting.is_empty() {
            tracing::error!(
                code = "audit-not-written",
                records = waiting.len(),
                "the last records of the audit log are lost"
            );
        }
    }

    fn write(&mut self, batch: &[Arc<Record>]) -> io::Result<()> {
        let Some(first) = batch.first() else { return Ok(()) };
        let mut text = String::new();
        for record in batch {
            text += &serde_json::to_string(&**record)?;
            text.push('\n');
        }
        let (file, size) = match &mut self.file {
            Some(open) => open,
            None => self.file.insert(begin(&self.dir, first.id)?),
        };
        let before = *size;
        if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_data()) {
            // Nothing of it counts: it is written again. What cannot be taken back now is when the file is opened again.
            let _ = file.set_len(before);
            self.file = None;
            if before == 0 {
                let _ = files::remove(&self.dir.join(name(first.id)));
            }
            return Err(error);
        }
        *size += text.len() as u64;
        if *size >= LARGE {
            self.file = None;
            if let Err(error) = prune(&self.dir) {
                tracing::error!(
                    code = "audit-not-written", dir = %self.dir.display(), %error,
                    "old files of the audit log cannot be removed"
                );
            }
        }
        Ok(())
    }
}

fn name(first: u64) -> String {
    format!("{first:012}.jsonl")
}

/// The file to go on with, and its size: the newest one while it has room, else one that begins with this id.
fn begin(dir: &Path, first: u64) -> io::Result<(File, u64)> {
    let append = OpenOptions::new().append(true).clone();
    if let Some((_, newest)) = listed(dir)?.pop()
        && fs::metadata(&newest)?.len() < LARGE
    {
        let mut file = append.open(&newest)?;
        let text = fs::read(&newest)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let torn = &text[whole..];
        // What is not whole would take the next line with it. A whole one was read as such.
        if serde_json::from_slice::<Record>(torn).is_ok() {
            file.write_all(b"\n")?;
        } else if !torn.is_empty() {
            file.set_len(whole as u64)?;
        }
        let size = file.metadata()?.len();
        return Ok((file, size));
    }
    let file = files::open_or_make(&dir.join(name(first)), &append)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Removes the oldest files, where the newer ones are as much as is kept beside the file that comes.
fn prune(dir: &Path) -> io::Result<()> {
    let mut newer = 0;
    for (_, path) in listed(dir)?.iter().rev() {
        if newer >= (FILES - 1) * LARGE {
            files::remove(path)?;
        } else {
            // One that has grown a little larger counts no more than others.
            newer += fs::metadata(path)?.len().min(LARGE);
        }
    }
    Ok(())
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

    /// A server that notes so many changes, and ends.
    fn noted(data: &tempfile::TempDir, changes: usize) {
        let kept = open(Some(data.path())).unwrap();
        (0..changes).for_each(|_| kept.audit.note(Entry::default()));
        kept.close();
    }

    #[test]
    fn a_torn_line_is_passed_over() {
        let data = tempfile::tempdir().unwrap();
        noted(&data, 1);
        let (_, path) = listed(&data.path().join("audit")).unwrap().remove(0);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"id\":2,\"ti").unwrap();
        noted(&data, 1);
        assert_eq!(ids(&open(Some(data.path())).unwrap()), [1, 2]);
    }

    #[test]
    fn a_damaged_line_leaves_its_id_out() {
        let data = tempfile::tempdir().unwrap();
        noted(&data, 4);
        let (_, path) = listed(&data.path().join("audit")).unwrap().remove(0);
        let damaged = fs::read_to_string(&path).unwrap().replace("\"id\":2", "\"id\":x");
        fs::write(&path, damaged).unwrap();
        noted(&data, 1);
        assert_eq!(ids(&open(Some(data.path())).unwrap()), [1, 3, 4, 5]);
    }

    /// A log of five records, of which so many bytes of the third line are left, or of which the file is gone.
    fn cut(bytes: Option<usize>) -> tempfile::TempDir {
        let data = tempfile::tempdir().unwrap();
        noted(&data, 5);
        let (_, path) = listed(&data.path().join("audit")).unwrap().remove(0);
        let text = fs::read_to_string(&path).unwrap();
        let whole: usize = text.split_inclusive('\n').take(2).map(str::len).sum();
        match bytes {
            Some(bytes) => fs::write(&path, &text[..whole + bytes]).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        data
    }

    #[test]
    fn ids_of_records_that_were_lost_are_not_given_again() {
        for (bytes, left) in [(Some(20), &[1, 2][..]), (Some(0), &[1, 2]), (None, &[])] {
            let data = cut(bytes);
            for _ in 0..2 {
                let kept = open(Some(data.path())).unwrap();
                assert_eq!(ids(&kept), left, "{bytes:?}");
                let lost = left.len() as u64 + 1..=5;
                assert_eq!((kept.audit.standing().lost, kept.audit.noted()), (Some(lost), 5), "{bytes:?}");
                kept.close();
            }
            noted(&data, 1);
            let kept = open(Some(data.path())).unwrap();
            assert_eq!((ids(&kept), kept.audit.lost()), ([left, &[6]].concat(), None), "{bytes:?}");
        }
    }

    #[test]
    fn what_a_kill_leaves_is_no_loss() {
        let data = cut(Some(20));
        let mark = data.path().join("audit.mark");
        // Of a release that had none, of a kill before it was written, and one that says nothing.
        for text in [
            None,
            Some(""),
            Some("00000000000000000002 ffffffff\n"),
            Some("longer than any mark ever is, by a lot of text\n"),
        ] {
            let _ = fs::remove_file(&mark);
            if let Some(text) = text {
                fs::write(&mark, text).unwrap();
            }
            let kept = open(Some(data.path())).unwrap();
            assert_eq!((ids(&kept), kept.audit.lost(), kept.audit.noted()), (vec![1, 2], None, 2), "{text:?}");
            kept.close();
        }
        noted(&data, 1);
        assert_eq!(count::read_at(&mark).unwrap(), Ok(3));
    }

    #[test]
    fn old_files_go() {
        let data = tempfile::tempdir().unwrap();
        let mut log = Log { dir: data.path().to_owned(), file: None };
        let detail = "x".repeat(LARGE as usize);
        for id in 1..=FILES + 3 {
            let entry = Entry { detail: detail.clone(), ..Entry::default() };
            log.write(&[Arc::new(Record { id, time: String::new(), entry })]).unwrap();
        }
        let left = listed(data.path()).unwrap();
        assert_eq!((left.len() as u64, left[0].0), (FILES - 1, 5));
    }

    fn record(id: u64, detail: &str) -> Arc<Record> {
        let entry = Entry { detail: detail.to_owned(), ..Entry::default() };
        Arc::new(Record { id, time: String::new(), entry })
    }

    #[test]
    fn what_is_not_in_memory_is_read_from_the_files() {
        let data = tempfile::tempdir().unwrap();
        let dir = data.path().join("audit");
        files::make_dir(&dir).unwrap();
        let lines = |ids: std::ops::RangeInclusive<u64>| -> String {
            ids.map(|id| serde_json::to_string(&*record(id, "")).unwrap() + "\n").collect()
        };
        fs::write(dir.join(name(11)), lines(11..=20) + "{\"id\":21,\"tim\n" + &lines(22..=30)).unwrap();
        fs::write(dir.join(name(31)), lines(31..=40)).unwrap();
        let kept = open(Some(data.path())).unwrap();
        let from = |id| {
            let older = kept.audit.older(id).unwrap().unwrap();
            (older.begins, older.records.map(|record| record.id).collect::<Vec<_>>())
        };
        assert_eq!(from(1), (11, (11..=20).chain(22..=40).collect()));
        assert_eq!(from(21), (11, (22..=40).collect()));
        assert_eq!(from(33), (11, (33..=40).collect()));
        assert!(Audit::default().older(1).unwrap().is_none());
    }

    #[test]
    fn small_files_of_starts_take_no_history() {
        let data = tempfile::tempdir().unwrap();
        let full = "x".repeat(LARGE as usize);
        for id in 1..=3 {
            Log { dir: data.path().to_owned(), file: None }.write(&[record(id, &full)]).unwrap();
        }
        for id in 4..=30 {
            fs::write(data.path().join(name(id)), serde_json::to_string(&*record(id, "")).unwrap() + "\n").unwrap();
        }
        let mut log = Log { dir: data.path().to_owned(), file: None };
        log.write(&[record(31, &full)]).unwrap();
        let left = listed(data.path()).unwrap();
        assert_eq!((left.len(), left[0].0), (30, 1));
    }

    #[test]
    fn a_start_goes_on_with_the_newest_file() {
        let data = tempfile::tempdir().unwrap();
        for id in 1..=5 {
            noted(&data, 1);
            let files = listed(&data.path().join("audit")).unwrap();
            assert_eq!(files.len(), 1);
            // A machine that stops while a line is written, or behind all of it but its end.
            let whole = serde_json::to_string(&*record(id + 1, "")).unwrap();
            let torn = if id == 3 { &*whole } else { &whole[..whole.len() / 2] };
            if id != 4 {
                OpenOptions::new().append(true).open(&files[0].1).unwrap().write_all(torn.as_bytes()).unwrap();
            }
        }
        let text = fs::read_to_string(&listed(&data.path().join("audit")).unwrap()[0].1).unwrap();
        let whole = |line: &str| serde_json::from_str::<Record>(line).map(|record| record.id).ok();
        let ids: Vec<_> = text.lines().map(whole).collect();
        assert_eq!(ids[..6], [1, 2, 3, 4, 5, 6].map(Some));
        assert_eq!(ids[6..], [None], "what is torn at the end");
    }

    #[test]
    fn what_the_disk_does_not_take_is_written_when_it_does() {
        let data = tempfile::tempdir().unwrap();
        let kept = open(Some(data.path())).unwrap();
        let dir = data.path().join("audit");
        let aside = data.path().join("aside");
        fs::rename(&dir, &aside).unwrap();
        kept.audit.note(Entry::default());
        while kept.audit.standing().failing.is_none() {
            thread::yield_now();
        }
        assert_eq!((ids(&kept), kept.audit.standing().waiting), (vec![1], 1));
        fs::rename(&aside, &dir).unwrap();
        kept.audit.note(Entry::default());
        while kept.audit.standing().failing.is_some() {
            thread::yield_now();
        }
        kept.close();
        assert_eq!(ids(&open(Some(data.path())).unwrap()), [1, 2]);
    }

    #[test]
    fn a_disk_that_is_full_gets_no_empty_files() {
        // A disk that is always full.
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let data = tempfile::tempdir().unwrap();
        File::create(data.path().join(name(1))).unwrap();
        let mut log = Log { dir: data.path().to_owned(), file: Some((full, 0)) };
        assert!(log.write(&[record(1, "")]).is_err());
        assert!(listed(data.path()).unwrap().is_empty());
    }
}
