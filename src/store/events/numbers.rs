//! Which ids events have in the logs of their resource managers, beside the events: a line for each place from which they are
//! counted (see `actors::event::numbers`), with a checksum; releases before wrote none. Without it events are as they were, and nobody
//! reads them by those ids.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::store::files;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The resource manager.
    pub rm: Arc<str>,
    /// From `at` on its events are counted from this id; `None`: they are not counted any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The id of an event in the log of the server.
    pub at: u64,
}

/// The file.
#[derive(Debug)]
pub struct Numbers {
    path: PathBuf,
    /// Made when it is needed.
    file: Option<File>,
    unsynced: bool,
}

impl Numbers {
    /// That of a directory, and what is in it; `None` for lines that are damaged. What a kill has cut is passed over.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(directory: &Path) -> io::Result<(Numbers, Vec<Option<Row>>)> {
        let path = directory.join("numbers");
        let rows: Vec<_> = match fs::read(&path) {
            Ok(bytes) => bytes.split(|byte| *byte == b'\n').filter_map(row).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        if let lines @ 1.. = rows.iter().filter(|row| row.is_none()).count() {
            tracing::error!(
                code = "events-damaged",
                path = %path.display(), lines,
                "what says which ids events have in the logs of their resource managers is damaged: by those ids some are a gap"
            );
        }
        Ok((Numbers { path, file: None, unsynced: false }, rows))
    }

    /// For messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds lines, or has these instead of all that there are.
    ///
    /// # Errors
    /// They are to be written again.
    pub fn write(&mut self, rows: &[Row], instead: bool) -> io::Result<()> {
        // The first line may follow one that a kill has cut.
        let mut bytes = if self.file.is_none() && !instead { b"\n".to_vec() } else { Vec::new() };
        for row in rows {
            bytes.extend_from_slice(files::checked(&serde_json::to_string(row)?).as_bytes());
        }
        if instead {
            self.file = None;
            return files::replace(&self.path, &bytes);
        }
        if self.file.is_none() {
            self.file = Some(files::open_or_make(&self.path, OpenOptions::new().append(true))?);
        }
        if let Some(file) = &mut self.file {
            let written = file.write_all(&bytes);
            self.unsynced = true;
            if written.is_err() {
                // What has come of it is cut off from the next.
                self.file = None;
            }
            written?;
        }
        Ok(())
    }

    /// Waits until what is in it is on the disk.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)?;
        self.unsynced = false;
        Ok(())
    }

    /// The file, where something in it is to be flushed.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn unsynced(&mut self) -> io::Result<Option<File>> {
        let file = self.file.as_ref().filter(|_| self.unsynced).map(File::try_clone).transpose()?;
        self.unsynced = false;
        Ok(file)
    }
}

/// Bytes of a blank and a checksum: behind a blank in a name there are more.
const SUM: usize = 9;

/// What a line says; `Some(None)`: it is damaged.
fn row(line: &[u8]) -> Option<Option<Row>> {
    let json = match line.iter().rposition(|byte| *byte == b' ').map(|at| line.split_at(at)) {
        Some((json, sum)) if sum.len() == SUM => {
            (format!(" {:08x}", crc32fast::hash(json)).as_bytes() == sum).then_some(json)
        }
        _ => Some(line),
    };
    match json.map(serde_json::from_slice) {
        Some(Ok(row)) => Some(Some(row)),
        Some(Err(error)) if error.is_eof() => None,
        _ => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_told_and_lines_without_a_checksum_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let row = |id| Row { rm: "rm 1".into(), id: Some(id), at: id };
        let (mut numbers, _) = Numbers::open(directory.path()).unwrap();
        numbers.write(&[row(0), row(7)], true).unwrap();
        let whole = fs::read(numbers.path()).unwrap();
        let end = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for at in 0..end {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                fs::write(numbers.path(), bytes).unwrap();
                let rows = Numbers::open(directory.path()).unwrap().1;
                assert!(rows.contains(&None) && rows.last() == Some(&Some(row(7))), "byte {at} bit {bit}: {rows:?}");
                assert!(!rows[..rows.len() - 1].iter().any(Option::is_some), "byte {at} bit {bit}: {rows:?}");
            }
        }
        fs::write(numbers.path(), "{\"rm\":\"rm 1\",\"id\":7,\"at\":7}\n").unwrap();
        assert_eq!(Numbers::open(directory.path()).unwrap().1, [Some(row(7))]);
    }

    #[test]
    fn what_was_written_is_read_behind_what_a_kill_has_cut_too() {
        let directory = tempfile::tempdir().unwrap();
        let row = |rm: &str, id, at| Row { rm: rm.into(), id, at };
        let (first, odd, last) = (row("rm-1", Some(0), 0), row("\"ü\n/", None, 7), row("rm-1", Some(9), 12));
        let (mut numbers, rows) = Numbers::open(directory.path()).unwrap();
        assert_eq!(rows, []);
        numbers.write(std::slice::from_ref(&first), false).unwrap();
        numbers.write(std::slice::from_ref(&odd), false).unwrap();
        assert!(numbers.unsynced().unwrap().is_some() && numbers.unsynced().unwrap().is_none());
        let whole = fs::read(numbers.path()).unwrap();
        fs::write(numbers.path(), [&whole[..], b"{\"rm\":\"rm"].concat()).unwrap();
        let (mut numbers, rows) = Numbers::open(directory.path()).unwrap();
        assert_eq!(rows, [Some(first.clone()), Some(odd.clone())]);
        numbers.write(std::slice::from_ref(&last), false).unwrap();
        assert_eq!(Numbers::open(directory.path()).unwrap().1, [Some(first), Some(odd), Some(last.clone())]);
        numbers.write(std::slice::from_ref(&last), true).unwrap();
        numbers.write(std::slice::from_ref(&last), false).unwrap();
        assert_eq!(Numbers::open(directory.path()).unwrap().1, [Some(last.clone()), Some(last.clone())]);
        // A full disk took a part.
        numbers.file = Some(OpenOptions::new().append(true).open("/dev/full").unwrap());
        assert!(numbers.write(std::slice::from_ref(&last), false).is_err());
        let whole = fs::read(numbers.path()).unwrap();
        fs::write(numbers.path(), [&whole[..], b"{\"rm\":\"rm"].concat()).unwrap();
        numbers.write(std::slice::from_ref(&last), false).unwrap();
        assert_eq!(Numbers::open(directory.path()).unwrap().1, [Some(last.clone()), Some(last.clone()), Some(last)]);
    }
}
